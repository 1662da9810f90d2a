"""Gaps are measured in units that follow from the numbers beside them."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import sdpkit
from sdpkit import MVU, Block, Cost, Program, SafeBounds, certify, solve
from sdpkit.certificate.rays import certify_infeasible
from sdpkit.errors import ConvergenceWarning
from sdpkit.program.claims import proven_claims, traces_of_graphs
from sdpkit.program.sdpa import read_sdpa, write_sdpa


def cycle(**more: object) -> Program:
    """The θ-like program of a cycle of five nodes: its optimum is 8.0901699."""
    ring = np.roll(np.eye(5), 1, 0)
    cost = Cost.of(5, sparse=-(ring + ring.T))
    return Program.of(Block.of(5, np.eye(5), cost=cost), np.ones(5), **more)  # type: ignore[arg-type]


def cancelling(seed: int, size: float, offset: float = 0.0) -> tuple[Program, float]:
    """A minimisation with interiors on both sides, terms of about `size`, and its optimum, which is
    the offset up to rounding."""
    r = np.random.default_rng(seed)
    n, m, k = 6, 5, 3
    q = np.linalg.qr(r.standard_normal((n, n)))[0]
    optimal = q[:, :k] @ np.diag(r.uniform(0.5, 2, k)) @ q[:, :k].T
    slack = q[:, k:] @ np.diag(r.uniform(0.5, 2, n - k)) @ q[:, k:].T
    v = np.vstack([r.standard_normal((m, n)), np.eye(n)])
    rows = np.zeros((m + 1, m + n))
    rows[:m, :m], rows[m, m:] = np.eye(m), 1.0  # the last row fixes the trace
    b = rows @ np.einsum("pi,ij,pj->p", v, optimal, v)
    y = size * r.standard_normal(m + 1)
    y[-1] = -(b[:-1] @ y[:-1]) / b[-1]
    cost = (v.T * (rows.T @ y)) @ v + slack
    block = Block.of(n, v, cost=Cost.of(n, sparse=(cost + cost.T) / 2))
    return Program.of(block, b, rows_q=rows, sense="min", offset=offset), offset


def is_near(solution: sdpkit.Solution, optimum: float, tol: float = 1e-6) -> bool:
    return abs(solution.objective - optimum) <= 3 * tol * max(1.0, abs(optimum))


def test_the_unit_of_programs_of_ones_own_is_one_at_most() -> None:
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1e6))
    program = Program.of(block, [4.0], relations="<=", offset=-4e6)
    certificate = certify(program, [[[4.0 - 1e-7]]], dual=[1e6])
    assert certificate.unit == 1.0
    assert certificate.relative_gap == pytest.approx(0.1, rel=1e-6)


def test_a_program_in_tiny_units_is_not_granted_one() -> None:
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1e-9))
    program = Program.of(block, [4.0], relations="<=")
    assert program.value_floor == pytest.approx(4e-9)
    assert certify(program, [[[3.0]]], dual=[1e-9]).relative_gap == pytest.approx(0.25)


@pytest.mark.parametrize("solver", ["interior", "projection", "auto"])
@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
def test_an_optimum_of_zero_among_large_terms(solver: str, size: float) -> None:
    for seed in range(4):
        program, optimum = cancelling(seed, size)
        assert program.value_scale > size
        solution = solve(program, solver=solver)
        assert solution.status == "optimal"
        assert is_near(solution, optimum)


@pytest.mark.parametrize("offset", [-1e4, 3.0, 1e7])
def test_offsets_count(offset: float) -> None:
    for seed in range(4):
        program, _ = cancelling(seed, 10.0)
        solution = solve(replace(program, offset=offset))
        assert solution.status == "optimal"
        assert is_near(solution, offset)


def test_an_optimum_that_rounding_hides_is_inaccurate_and_says_so() -> None:
    program, _ = cancelling(0, 1e9)
    with pytest.warns(ConvergenceWarning):
        solution = solve(program, solver="interior")
    assert solution.status == "inaccurate"
    certificate = solution.certificate
    gap = abs(certificate.objective - certificate.safe_bound)
    assert certificate.terms > 1e8
    assert f"differ by {gap:.2g}" in solution.message
    assert f"terms of size {certificate.terms:.2g}" in solution.message
    advised = float(re.search(r"ask for tol=([\d.e+-]+\d)", solution.message).group(1))  # type: ignore[union-attr]
    assert certificate.passes(advised)


def test_the_unit_is_printed_where_it_is_not_the_larger_value() -> None:
    assert "units" not in str(solve(cycle()).certificate)
    program, _ = cancelling(0, 1e2)
    certificate = solve(program).certificate
    assert "(in units of 1)" in str(certificate)
    assert "(in units of 1)" in solve(program).message
    line = next(line for line in str(certificate).splitlines() if "relative gap" in line)
    gap = abs(certificate.objective - certificate.safe_bound)
    assert certificate.relative_gap == gap / certificate.unit
    assert f"{gap:.2e}" in line


def test_an_sdpa_file_with_an_optimum_near_zero(tmp_path: Path) -> None:
    for seed in range(4):
        write_sdpa(cancelling(seed, 1e3)[0], tmp_path / "zero.dat-s")
        solution = solve(read_sdpa(tmp_path / "zero.dat-s"))
        assert solution.status == "optimal"
        assert abs(solution.objective) <= 3e-6


@pytest.mark.parametrize("offset", [0.0, 1e5, -1e5])
def test_a_cvxpy_model_with_an_offset(offset: float) -> None:
    """Its true optimum is the smallest eigenvalue, and the offset."""
    A = np.random.default_rng(3).standard_normal((6, 6))
    A = A + A.T
    X = cp.Variable((6, 6), PSD=True)
    model = cp.Problem(cp.Minimize(cp.trace(A @ X) + offset), [cp.trace(X) == 1])
    value = model.solve(solver=sdpkit.cvxpy_solver("interior"))
    optimum = float(np.linalg.eigvalsh(A)[0]) + offset
    assert model.status == "optimal"
    assert abs(value - optimum) <= 3e-6 * max(1.0, abs(optimum))
    X.value = X.value + 1e-3 * np.eye(6)
    assert not sdpkit.certify_cvxpy(model).passes(1e-6)


# -- what files state -----------------------------------------------------------------------


def test_a_file_does_not_bring_its_unit_along(tmp_path: Path) -> None:
    cycle(safe=SafeBounds(value_scale=1e9)).save(tmp_path / "p.npz")
    program = Program.load(tmp_path / "p.npz")
    assert program.value_floor == 1.0
    assert any("1e+09" in note for note in program.notes)
    assert solve(program, solver="interior").objective == pytest.approx(8.0901699, abs=1e-5)


@pytest.mark.parametrize("kind", ["rows", "edges", "redundant limit", "row of slacks"])
def test_a_graph_does_not_bring_its_unit_along(kind: str, tmp_path: Path) -> None:
    """Large right-hand sides are no lengths where coefficients are as large, or nothing reaches
    them. The largest variance is 2·size in each."""
    size, null = 1e-9, np.ones(3)
    edges = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    rows, rhs, slacks = np.eye(2), np.full(2, size), None
    if kind == "rows":
        rows, rhs = rows / size, rhs / size
    elif kind == "edges":
        edges, rhs = edges / np.sqrt(size), rhs / size
    elif kind == "redundant limit":
        rows, rhs = np.vstack([rows, rows[:1]]), np.r_[rhs, 1e3]
    else:
        rows, rhs, slacks = np.vstack([rows, [[0, 0]]]), np.r_[rhs, 1e3], np.array([[0], [0], [1]])
    block = Block.of(3, edges, cost=Cost.of(3, identity=1.0), null=null)
    stated = SafeBounds(value_scale=float(rhs.sum()) / 3)
    program = Program.of(block, rhs, rows_q=rows, rows_x=slacks, relations="<=", safe=stated)
    program.save(tmp_path / "p.npz")
    loaded = Program.load(tmp_path / "p.npz")
    assert loaded.value_floor <= (2 * size * (1 + 1e-9) if slacks is None else 1.0)
    assert any("count as zero" in note for note in loaded.notes)


def test_a_file_does_not_bring_its_trace_along(tmp_path: Path) -> None:
    """With a trace of 1e-9 almost any multipliers would prove a feasible program infeasible."""
    graph = sdpkit.datasets.cycle_graph(5)
    honest = MVU(graph=graph).program()
    forged = replace(honest, safe=replace(honest.safe, trace=(1e-9,)))
    forged.save(tmp_path / "p.npz")
    loaded = Program.load(tmp_path / "p.npz")
    assert loaded.safe.trace == honest.safe.trace
    w = -np.ones(honest.n_rows)
    assert certify_infeasible(forged, w).proof  # what the claim would give
    assert not certify_infeasible(loaded, w).proof
    cycle(safe=SafeBounds(trace=(1e-9,))).save(tmp_path / "p.npz")
    assert Program.load(tmp_path / "p.npz").safe.trace is None


def problems() -> list[object]:
    X = sdpkit.datasets.swiss_roll(30, random_state=0)
    y = np.arange(30) % 3
    return [
        *(MVU(X, n_neighbors=4, form=form) for form in ("equality", "inequality", "min_trace")),
        MVU(X, n_neighbors=6, form="slack"),
        MVU(np.vstack([X, X[:3]]), n_neighbors=4),
        sdpkit.LMNN(X, y),
        sdpkit.VariationalMVU(X, n_basis=6),
        sdpkit.CoveringEllipsoid(X[:, :3]),
    ]


@pytest.mark.parametrize("k", range(8))
def test_a_saved_problem_certifies_after_loading(k: int, tmp_path: Path) -> None:
    program = problems()[k].program()  # type: ignore[attr-defined]
    program.save(tmp_path / "p.npz")
    again = Program.load(tmp_path / "p.npz")
    assert again.fingerprint == program.fingerprint
    assert again.value_floor <= program.value_floor * (1 + 1e-9)
    tol = 1e-3 if program.family is not None else 1e-6
    assert solve(again, tol=tol).status == "optimal"


def test_claims_of_our_graphs_are_borne_out() -> None:
    for problem in problems()[:6]:
        program = problem.program()  # type: ignore[attr-defined]
        assert proven_claims(program) == (program.safe, ())


def test_traces_need_a_connected_graph_of_limits() -> None:
    program = MVU(sdpkit.datasets.swiss_roll(12, random_state=0), n_neighbors=3).program()
    bound = program.safe.trace
    assert traces_of_graphs(program) == bound
    lower = replace(program, relations=np.ones(program.n_rows, dtype=np.int8))
    assert traces_of_graphs(lower) is None
    uncentred = replace(program.blocks[0], null=np.zeros((12, 0)))
    assert traces_of_graphs(replace(program, blocks=(uncentred,))) is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = solve(program).objective
    assert bound is not None
    assert value <= bound[0]
