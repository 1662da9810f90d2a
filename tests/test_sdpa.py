"""The SDPA sparse format: what is read is what is written, and what is wrong is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit.errors import InputError
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.sdpa import read_sdpa, standard_columns, write_sdpa
from sdpkit.typing import Array

FORMS = ("equality", "inequality", "slack", "min_trace")
LINEAR = ("plain", "minimise", "blocks", "nonnegative", "free", "mixed")
SOLVERS = ("csdp", "clarabel", "scs", "cvxopt", "sdpa", "dsdp")
seeds = st.integers(0, 2**32 - 1)
quick = settings(deadline=None, max_examples=25)

# max 2 Y₁₂ with Y₁₁ = Y₂₂ = 1: the value is 2.
TINY = "2\n1\n2\n1.0 1.0\n0 1 1 2 1.0\n1 1 1 1 1\n2 1 2 2 1\n"


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Program]:
    """Text → program."""

    def reader(text: str) -> Program:
        path = tmp_path / "case.dat-s"
        path.write_text(text)
        return read_sdpa(path)

    return reader


def value(program: Program, solver: str = "interior") -> float:
    solution = sdpkit.solve(program, solver=solver)
    assert solution.status == "optimal"
    return solution.objective


def write_matrices(path: Path, matrices: list[Array], rhs: Array) -> None:
    """F₀, F₁, … of one dense block, upper triangles, every entry."""
    n = matrices[0].shape[0]
    lines = [str(rhs.size), "1", str(n), " ".join(repr(float(b)) for b in rhs)]
    for k, matrix in enumerate(matrices):
        for i, j in zip(*np.triu_indices(n), strict=True):
            if matrix[i, j]:
                lines.append(f"{k} 1 {i + 1} {j + 1} {float(matrix[i, j])!r}")
    path.write_text("\n".join(lines) + "\n")


# -- meaning --------------------------------------------------------------------------------


def random_constraint(rng: np.random.Generator, n: int) -> Array:
    """Dense, sparse, rank-one, Laplacian or diagonal."""
    kind = rng.integers(5)
    if kind == 0:
        a = rng.standard_normal((n, n))
    elif kind == 1:
        a = rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.3)
    elif kind == 2:
        v = rng.standard_normal(n) * (rng.random(n) < 0.7)
        return float(rng.choice([-2.0, 0.5, 3.0])) * np.outer(v, v)
    elif kind == 3:
        w = np.abs(rng.standard_normal((n, n))) * (rng.random((n, n)) < 0.6)
        w = np.triu(w, 1)
        w = w + w.T
        return np.diag(w.sum(axis=1)) - w
    else:
        return np.diag(rng.standard_normal(n))
    return (a + a.T) / 2


@given(seed=seeds, n=st.integers(2, 5))
@quick
def test_rows_measure_the_inner_product(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int
) -> None:
    rng = np.random.default_rng(seed)
    F = [random_constraint(rng, n) for _ in range(5)]
    rhs = rng.uniform(1, 2, 4)
    path = tmp_path_factory.mktemp("random") / "random.dat-s"
    write_matrices(path, F, rhs)
    program = read_sdpa(path)
    M = rng.standard_normal((n, n))
    M = M + M.T
    expected = [np.sum(f * M) for f in F[1:]]
    found = program.row_values(program.measure([M]), np.zeros(0))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    assert program.objective([M], np.zeros(0)) == pytest.approx(np.sum(F[0] * M), abs=1e-10)
    np.testing.assert_array_equal(program.rhs, rhs)


def test_rank_one_and_laplacian_matrices_stay_short(
    read: Callable[[str], Program], tmp_path: Path
) -> None:
    v = np.array([1.0, -2.0, -0.5])
    laplacian = np.array([[2.0, -1, -1], [-1, 1, 0], [-1, 0, 1]])
    write_matrices(tmp_path / "f.dat-s", [np.eye(3), 3 * np.outer(v, v), laplacian], np.ones(2))
    program = read_sdpa(tmp_path / "f.dat-s")
    assert program.rows_q[[0]].nnz == 1
    assert program.rows_q[[1]].nnz == 2


def test_rows_that_vanish_become_null_directions(tmp_path: Path) -> None:
    """<11ᵀ, Y> = 0 is Y1 = 0; <I, Y> = 0 is Y = 0; <e₁e₁ᵀ − e₂e₂ᵀ, Y> = 0 is a row."""
    ones = np.ones((3, 3))
    difference = np.diag([1.0, -1.0, 0.0])
    write_matrices(tmp_path / "a.dat-s", [np.eye(3), ones, np.eye(3)], np.array([0.0, 1.0]))
    centred = read_sdpa(tmp_path / "a.dat-s")
    assert centred.n_rows == 1
    np.testing.assert_allclose(np.abs(centred.blocks[0].null_basis), np.ones((3, 1)) / math.sqrt(3))
    write_matrices(tmp_path / "b.dat-s", [np.eye(3), np.eye(3), np.eye(3)], np.array([0.0, 0.0]))
    assert read_sdpa(tmp_path / "b.dat-s").blocks[0].null_basis.shape[1] == 3
    matrices = [np.eye(3), difference, -ones]
    write_matrices(tmp_path / "c.dat-s", matrices, np.array([0.0, 0.0]))
    kept = read_sdpa(tmp_path / "c.dat-s")
    assert kept.n_rows == 1
    assert kept.blocks[0].null_basis.shape[1] == 1


# -- round trips ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_every_form_survives(unfoldings: dict[str, Any], tmp_path: Path, form: str) -> None:
    case = unfoldings[form]
    path = tmp_path / "form.dat-s"
    write_sdpa(case.program, path)
    program = read_sdpa(path)
    assert program.sense == case.program.sense
    assert program.blocks[0].size == 12
    np.testing.assert_array_equal(program.rhs, case.program.rhs)
    np.testing.assert_allclose(
        np.abs(program.blocks[0].null_basis), np.abs(case.program.blocks[0].null_basis)
    )
    assert value(program) == pytest.approx(case.optimum, rel=2e-6)
    # Row e is still edge e, so the old dual proves the new program.
    if form != "slack":
        w = case.program.sign * case.solution.dual
        for one, two in zip(case.program.dual_slacks(w), program.dual_slacks(w), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-12 * np.abs(one).max())


@pytest.mark.parametrize("kind", LINEAR)
def test_every_linear_kind_survives(
    instance: Callable[[str, int], Any], tmp_path: Path, kind: str
) -> None:
    case = instance(kind, 11)
    write_sdpa(case.program(), tmp_path / "kind.dat-s")
    program = read_sdpa(tmp_path / "kind.dat-s")
    assert (program.sense, program.offset) == (case.sense, case.offset)
    optimum = case.optimum()
    found = value(program)
    assert found == pytest.approx(optimum, abs=2e-6 * max(1.0, abs(optimum)))


@pytest.mark.parametrize("kind", ["plain", "blocks", "nonnegative", "minimise"])
def test_a_second_round_trip_changes_nothing(
    instance: Callable[[str, int], Any], tmp_path: Path, kind: str
) -> None:
    program = instance(kind, 5).program()
    write_sdpa(program, tmp_path / "once.dat-s")
    once = read_sdpa(tmp_path / "once.dat-s")
    write_sdpa(once, tmp_path / "twice.dat-s")
    twice = read_sdpa(tmp_path / "twice.dat-s")
    np.testing.assert_allclose(
        twice.matrix_rows.toarray(), once.matrix_rows.toarray(), rtol=1e-12, atol=1e-12
    )
    for one, two in zip(once.blocks, twice.blocks, strict=True):
        np.testing.assert_allclose(one.cost.dense(), two.cost.dense(), rtol=1e-12, atol=1e-12)
    for name in ("rhs", "cost_x", "relations", "free_x"):
        np.testing.assert_array_equal(getattr(once, name), getattr(twice, name))
    np.testing.assert_array_equal(once.rows_x.toarray(), twice.rows_x.toarray())


def test_numbers_survive_to_the_last_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cost = np.diag(rng.standard_normal(3) * 10.0 ** rng.uniform(-300, 300, 3))
    block = Block.of(3, np.eye(3), cost=Cost.of(3, sparse=cost))
    rhs = np.array([0.1, 1e-300, 1 / 3])
    write_sdpa(Program.of(block, rhs, offset=0.1 + 0.2), tmp_path / "bits.dat-s")
    program = read_sdpa(tmp_path / "bits.dat-s")
    np.testing.assert_array_equal(program.rhs, rhs)
    np.testing.assert_array_equal(program.blocks[0].cost.dense(), cost)
    assert program.offset == 0.1 + 0.2


def test_features_and_low_rank_costs_are_multiplied_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    b, x, u = rng.standard_normal((4, 5)), rng.standard_normal((5, 3)), rng.standard_normal((3, 1))
    cost = Cost.of(3, identity=-1.0, factor=u, weights=[-0.5])
    program = Program.of(Block.of(3, b, features=x, cost=cost), np.ones(4), cost_q=[0, 0, -1.0, 0])
    write_sdpa(program, tmp_path / "dense.dat-s")
    again = read_sdpa(tmp_path / "dense.dat-s")
    M = rng.standard_normal((3, 3))
    M = M + M.T
    none = np.zeros(0)
    left = program.row_values(program.measure([M]), none)
    np.testing.assert_allclose(again.row_values(again.measure([M]), none), left, rtol=1e-10)
    assert again.objective([M], none) == pytest.approx(program.objective([M], none), rel=1e-10)


def test_penalties_cannot_be_written(instance: Callable[[str, int], Any], tmp_path: Path) -> None:
    for kind in ("quadratic free", "norm"):
        with pytest.raises(InputError, match="clarabel or scs"):
            write_sdpa(instance(kind, 0).program(), tmp_path / "no.dat-s")
    assert list(tmp_path.iterdir()) == []


def test_columns_split_free_variables_and_add_slacks() -> None:
    program = Program.of(
        Block.of(1, np.ones((3, 1))),
        np.ones(3),
        relations=[-1, 0, 1],
        rows_x=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        cost_x=[7.0, 8.0],
        free_x=[False, True],
    )
    columns = standard_columns(program)
    expected = [[1, 2, -2, 1, 0], [3, 4, -4, 0, 0], [5, 6, -6, 0, -1]]
    np.testing.assert_array_equal(columns.rows.toarray(), expected)
    np.testing.assert_array_equal(columns.cost, [7, 8, -8, 0, 0])
    found = columns.read(np.array([1.0, 2.0, 5.0, 9.0, 9.0]), 2)
    np.testing.assert_array_equal(found, [1.0, -3.0])


# -- the parser -----------------------------------------------------------------------------

SPELLINGS = {
    "comments": '"a comment\n* another\n\n' + TINY,
    "words after numbers": "2 = mDIM\n1 = nBLOCK\n2 = bLOCKsTRUCT\n{1.0, 1.0}\n"
    "0 1 1 2 1.0\n1 1 1 1 1\n2 1 2 2 1\n",
    "braces and commas": "2\n1\n(2)\n{1.0, 1.0}\n{0, 1, 1, 2, 1.0}\n1 1 1 1 1\n{2,1,2,2,1}\n",
    "rhs over lines": "2\n1\n2\n1.0\n1.0\n0 1 1 2 1.0\n1 1 1 1 1\n2 1 2 2 1\n",
    "exponents in the rhs": "2\n1\n2\n1.0D0 .1d+1\n0 1 1 2 1.0\n1 1 1 1 1\n2 1 2 2 1\n",
    "exponents in the entries": "2\n1\n2\n1 1\n0 1 1 2 1.0D+00\n1 1 1 1 10.0d-1\n2 1 2 2 1e0\n",
    "signs and tabs": "+2\n1\n2\n+1.\t+1.0E+0\n0\t1 1 2 +1.0\n1 1 1 1 +1\n2 1 2 2 1\n",
    "lower triangle": "2\n1\n2\n1 1\n0 1 2 1 1.0\n1 1 1 1 1\n2 1 2 2 1\n",
    "entries on one line": "2\n1\n2\n1 1\n0 1 1 2 1.0 1 1 1 1 1 2 1 2 2 1\n",
    "unsorted": "2\n1\n2\n1 1\n2 1 2 2 1\n0 1 1 2 1.0\n1 1 1 1 1\n",
    "an explicit zero": "2\n1\n2\n1 1\n0 1 1 2 1.0\n0 1 1 1 0.0\n1 1 1 1 1\n1 1 1 2 0\n2 1 2 2 1\n",
    "windows line ends": TINY.replace("\n", "\r\n"),
    "no final newline": TINY.rstrip("\n"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_the_same_file(read: Callable[[str], Program], spelling: str) -> None:
    program, plain = read(SPELLINGS[spelling]), read(TINY)
    assert program.fingerprint == plain.fingerprint
    np.testing.assert_array_equal(plain.blocks[0].cost.dense(), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(plain.rhs, [1, 1])


def test_the_tiny_file_has_the_value_two(read: Callable[[str], Program]) -> None:
    program = read(TINY)
    assert program.name == "case"
    assert value(program) == pytest.approx(2.0, rel=1e-6)


REFUSED = {
    "both triangles": (TINY + "0 1 2 1 1.0\n", r"\(1, 2\)"),
    "column out of range": (TINY + "1 1 1 3 1.0\n", "outside"),
    "block out of range": (TINY + "1 2 1 1 1.0\n", "outside"),
    "matrix out of range": (TINY + "3 1 1 1 1.0\n", "outside"),
    "negative matrix": (TINY + "-1 1 1 1 1.0\n", "outside"),
    "index zero": (TINY + "1 1 0 1 1.0\n", "outside"),
    "fractional index": (TINY + "1 1 1.5 2 1.0\n", "1.5"),
    "truncated entry": (TINY + "1 1 1 2\n", "not in SDPA"),
    "truncated rhs": ("2\n1\n2\n1.0\n", "ends after 1 of 2"),
    "rhs runs into the entries": (
        "2\n1\n2\n1.0\n0 1 1 2 1.0\n1 1 1 1 1\n2 1 2 2 1\n",
        "right-hand side|rhs|not in SDPA",
    ),
    "only a header": ("2\n", "not in SDPA"),
    "empty": ("", "not in SDPA"),
    "only comments": ('"nothing\n', "not in SDPA"),
    "words": ("this is\nno such file\n", "not in SDPA"),
    "nan entry": (TINY + "1 1 1 2 nan\n", "NaN"),
    "infinite entry": (TINY + "1 1 1 2 inf\n", "infinite"),
    "nan in the rhs": (TINY.replace("1.0 1.0", "1.0 nan"), "NaN|not in SDPA"),
    "infinity in the rhs": (TINY.replace("1.0 1.0", "inf 1.0"), "infinite|not in SDPA"),
    "block of size zero": (TINY.replace("2\n1\n2\n", "2\n1\n0\n"), "size 0"),
    "off the diagonal": ("1\n2\n2 -2\n1\n1 1 1 1 1\n1 2 1 2 1\n", "diagonal"),
    "off the diagonal of a linear program": ("1\n1\n-2\n1\n1 1 1 1 1\n1 1 1 2 1\n", "diagonal"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(read: Callable[[str], Program], case: str) -> None:
    text, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        read(text)


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_sdpa(tmp_path / "missing.dat-s")


@pytest.mark.parametrize("blocks", ["2 -2", "2 1 1", "1 2 1", "-1 2 -1"])
def test_diagonal_blocks_and_blocks_of_size_one_are_variables(
    read: Callable[[str], Program], blocks: str
) -> None:
    """max 2Y₁₂ − x₁ − 3x₂ with Y₁₁ + x₁ = 1 and Y₂₂ + x₂ = 1, the blocks in any order."""
    sizes = blocks.split()
    dense = sizes.index("2") + 1
    lines = [f"2\n{len(sizes)}\n{blocks}\n1 1", f"0 {dense} 1 2 1", f"1 {dense} 1 1 1"]
    lines.append(f"2 {dense} 2 2 1")
    places = [(k, i) for k, s in enumerate(sizes, 1) if s != "2" for i in range(1, 1 + abs(int(s)))]
    for (k, i), row, cost in zip(places, (1, 2), (-1, -3), strict=True):
        lines += [f"0 {k} {i} {i} {cost}", f"{row} {k} {i} {i} 1"]
    program = read("\n".join(lines) + "\n")
    assert [b.size for b in program.blocks] == [2]
    np.testing.assert_array_equal(program.cost_x, [-1, -3])
    np.testing.assert_array_equal(program.rows_x.toarray(), np.eye(2))
    assert not program.free_x.any()
    assert value(program) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(
    ("sizes", "blocks"), [("-3", [1, 1, 1]), ("1 1 1", [1, 2, 3]), ("-1 -2", [1, 2, 2])]
)
def test_a_linear_program(read: Callable[[str], Program], sizes: str, blocks: list[int]) -> None:
    """max 3x + 2y + z with x + y = 4, x + z = 3: x = 3, y = 1 and the value 11."""
    inside = [blocks[:k].count(blocks[k]) + 1 for k in range(3)]

    def entry(matrix: int, variable: int, number: int) -> str:
        return f"{matrix} {blocks[variable]} {inside[variable]} {inside[variable]} {number}\n"

    text = f"2\n{len(sizes.split())}\n{sizes}\n4 3\n"
    text += "".join(entry(0, k, c) for k, c in enumerate((3, 2, 1)))
    text += entry(1, 0, 1) + entry(1, 1, 1) + entry(2, 0, 1) + entry(2, 2, 1)
    program = read(text)
    for solver in ("interior", "clarabel"):
        assert value(program, solver) == pytest.approx(11.0, rel=1e-6)


def test_a_program_in_one_number(read: Callable[[str], Program]) -> None:
    program = read("1\n1\n1\n2\n0 1 1 1 3\n1 1 1 1 1\n")
    assert value(program) == pytest.approx(6.0, rel=1e-6)


# -- instances with known optima ------------------------------------------------------------


def theta_of_the_five_cycle() -> str:
    """max <J, Y>, tr Y = 1, Y_ij = 0 on the edges: √5 (Lovász 1979)."""
    lines = ["6", "1", "5", "1 0 0 0 0 0"]
    lines += [f"0 1 {i} {j} 1" for i in range(1, 6) for j in range(i, 6)]
    lines += [f"1 1 {i} {i} 1" for i in range(1, 6)]
    edges = [(1, 2), (2, 3), (3, 4), (4, 5), (1, 5)]
    lines += [f"{k} 1 {i} {j} 1" for k, (i, j) in enumerate(edges, 2)]
    return "\n".join(lines) + "\n"


def max_cut_of_the_triangle() -> str:
    """max ¼<L, Y>, Y_ii = 1: the relaxation's value is 9/4."""
    lines = ["3", "1", "3", "1 1 1"]
    lines += [f"0 1 {i} {i} 0.5" for i in range(1, 4)]
    lines += [f"0 1 {i} {j} -0.25" for i, j in ((1, 2), (1, 3), (2, 3))]
    lines += [f"{i} 1 {i} {i} 1" for i in range(1, 4)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("solver", SOLVERS)
def test_theta_number(read: Callable[[str], Program], solver: str) -> None:
    program = read(theta_of_the_five_cycle())
    solution = sdpkit.solve(program, solver=solver)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(math.sqrt(5), rel=2e-6)
    assert solution.certificate.safe_bound == pytest.approx(math.sqrt(5), rel=2e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_max_cut(read: Callable[[str], Program], solver: str) -> None:
    solution = sdpkit.solve(read(max_cut_of_the_triangle()), solver=solver)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(2.25, rel=2e-6)
    np.testing.assert_allclose(solution.dual, np.full(3, 0.75), atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_infeasible_file(read: Callable[[str], Program], solver: str) -> None:
    """Y₁₁ = Y₂₂ = 1 and Y₁₂ = 2 contradict Y ⪰ 0."""
    text = "3\n1\n2\n1 1 4\n0 1 1 1 1\n1 1 1 1 1\n2 1 2 2 1\n3 1 1 2 1\n"
    solution = sdpkit.solve(read(text), solver=solver)
    assert solution.status == "infeasible"
    assert solution.ray.passes(1e-7)


def test_a_file_without_numbers_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "empty.dat-s"
    for text in ("", "* a comment\n", "* a comment\n3 = m\n"):
        path.write_text(text)
        with pytest.raises(InputError, match="ends before the numbers of constraints"):
            read_sdpa(path)


def test_comments_may_be_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "latin.dat-s"
    path.write_bytes(b'"caf\xe9\n1 = m\n1 = n\n1\n1.0\n0 1 1 1 1.0\n1 1 1 1 1.0\n')
    assert read_sdpa(path).n_rows == 1
