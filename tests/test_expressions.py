"""The algebra: what is said is what is compiled, and what cannot be said is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit import (
    Block,
    Cost,
    NormPenalty,
    Program,
    SafeBounds,
    Unknown,
    Variable,
    maximise,
    minimise,
)
from sdpkit.errors import InputError
from sdpkit.program import named, stack
from sdpkit.program.expressions import Expression
from sdpkit.typing import Array

seeds = st.integers(0, 2**32 - 1)
EDGES = np.array([[0, 1], [1, 2], [2, 4], [0, 3]])


def positive(rng: np.random.Generator, n: int) -> Array:
    A = rng.standard_normal((n, n))
    return A @ A.T


def symmetric(rng: np.random.Generator, n: int) -> Array:
    A = rng.standard_normal((n, n))
    return A + A.T


def values(e: Expression, matrices: list[Array], x: Array) -> Array:
    """An expression at a point, by the rows of the program  e = 0."""
    program = minimise(0.0, e == 0.0)
    assert len(program.blocks) == len(matrices)
    assert program.n_auxiliary == len(x)
    return program.row_values(program.measure(matrices), x) - program.rhs


def lengths(V: Any, M: Array) -> Array:
    V = V.toarray() if sp.issparse(V) else V
    return np.einsum("pi,ij,pj->p", V, M, V)


# -- each operation against dense numbers ---------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_measurements(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, p = 5, 4
    M, V, X = positive(rng, n), rng.standard_normal((p, n)), rng.standard_normal((7, n))
    K, F = Unknown("K", n), Unknown("F", features=X)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)  # noqa: E731
    close(values(K.lengths(V), [M], np.zeros(0)), lengths(V, M))
    close(values(K.lengths(sp.csr_array(V)), [M], np.zeros(0)), lengths(V, M))
    i, j = EDGES.T
    close(values(K.distances(EDGES), [M], np.zeros(0)), M[i, i] + M[j, j] - 2 * M[i, j])
    close(values(F.distances(EDGES), [M], np.zeros(0)), lengths(X[i] - X[j], M))
    close(values(F.lengths(), [M], np.zeros(0)), lengths(X, M))
    close(values(K[i, j], [M], np.zeros(0)), M[i, j])
    close(values(K[-1, 2], [M], np.zeros(0)), M[-1:, 2])
    # Entries and matrices of an unknown with features speak of M itself.
    both = stack([F.lengths(rng.standard_normal((2, 7)) * 0 + 1), F[i, j], F.trace()])
    ones = np.full(2, lengths(X.sum(axis=0)[None], M)[0])
    close(values(both, [M], np.zeros(0)), np.r_[ones, M[i, j], np.trace(M)])


def matrices_of(rng: np.random.Generator, n: int) -> dict[str, Any]:
    sparse = sp.diags_array(np.arange(1.0, n + 1)) + sp.eye_array(n, k=1) + sp.eye_array(n, k=-1)
    factor = rng.standard_normal((n, 2))
    return {
        "dense": symmetric(rng, n),
        "sparse": sp.csr_array(sparse),
        "identity": Cost.of(n, identity=3.0),
        "low rank": Cost.of(n, factor=factor, weights=[2.0, -1.0]),
        "all parts": Cost.of(n, identity=-1.0, sparse=sparse, factor=factor),
    }


@pytest.mark.parametrize("kind", ["dense", "sparse", "identity", "low rank", "all parts"])
@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_inner_products_in_rows_and_objectives(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 12
    C, M, K = matrices_of(rng, n)[kind], positive(rng, n), Unknown("K", n)
    table = C.dense() if isinstance(C, Cost) else C.toarray() if sp.issparse(C) else C
    inner = float(np.sum(table * M))
    scale = np.abs(table).sum() * np.abs(M).max()
    assert values(K.inner(C), [M], np.zeros(0))[0] == pytest.approx(inner, abs=1e-12 * scale)
    program = maximise(-2 * K.inner(C) + 5, K.trace() == 1)
    assert program.objective([M], np.zeros(0)) == pytest.approx(5 - 2 * inner, abs=1e-12 * scale)
    assert not program.cost_q.any()


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_arithmetic(seed: int) -> None:
    """Sums, products and A @ of expressions are those of their values."""
    rng = np.random.default_rng(seed)
    n, m = 5, 4
    M, x = positive(rng, n), rng.random(m)
    a, b, c = rng.standard_normal((3, m))
    A = rng.standard_normal((3, m))
    K, ξ = Unknown("K", n), Variable(m, "ξ")
    q, Q = K.distances(EDGES), M[EDGES[:, 0], EDGES[:, 0]] + M[EDGES[:, 1], EDGES[:, 1]]
    Q = Q - 2 * M[EDGES[:, 0], EDGES[:, 1]]
    said: list[tuple[Expression, Array]] = [
        (a * q + ξ / 2 - b, a * Q + x / 2 - b),
        (b - q * a - -ξ, b - Q * a + x),
        (A @ (q + 3 * ξ) + c[:3], A @ (Q + 3 * x) + c[:3]),
        (sp.csr_array(A) @ q + 0 * ξ.sum(), A @ Q),
        (a @ q + ξ @ b, np.atleast_1d(a @ Q + x @ b)),
        (np.float64(2) * q.sum() + ξ, 2 * Q.sum() + x),
        (q[1:3] + ξ[[0, 3]], Q[1:3] + x[[0, 3]]),
        (q[2] - ξ[-1], Q[2:3] - x[-1:]),
        (K.trace() * a + ξ, np.trace(M) * a + x),
        (stack([q, ξ, 1.0]), np.r_[Q, x, 1.0]),
        (sum([q, ξ]), Q + x),
        (named("ω", 0.25) * (q - ξ), 0.25 * (Q - x)),
    ]
    for e, expected in said:
        got = values(e, [M], x)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * np.abs(Q).max())


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_adjoint(seed: int) -> None:
    """<w, A(M)> = <Aᵀw, M> for rows of every kind, over two unknowns."""
    rng = np.random.default_rng(seed)
    n = 5
    K, Z = Unknown("K", n), Unknown("Z", features=rng.standard_normal((6, 3)))
    rows = stack([K.distances(EDGES), Z.distances(EDGES), K[0, 1] - Z[1, 2], K.trace() + Z.trace()])
    program = maximise(K.trace() + Z.trace(), rows == 0.0)
    M = [positive(rng, n), positive(rng, 3)]
    w = rng.standard_normal(rows.size)
    left = float(w @ program.row_values(program.measure(M), np.zeros(0)))
    right = sum(float(np.sum(S * m)) for S, m in zip(program.adjoints(w), M, strict=True))
    assert left == pytest.approx(right, rel=1e-9, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_penalties(seed: int) -> None:
    """Penalties of expressions: their residuals are variables of their own."""
    rng = np.random.default_rng(seed)
    K, ξ = Unknown("K", 5), Variable(4, "ξ", free=True)
    e = K.distances(EDGES) - 1
    program = minimise(
        K.trace() + 2 * e.sum_squares() + 3 * (e - ξ).norm() + ξ.norm() / 2 + 4 * ξ.sum_squares(),
        K[0, 0] <= 1,
    )
    M, x = positive(rng, 5), rng.standard_normal(4)
    r = lengths(program.blocks[0].incidence[:4], M) - 1
    # ξ itself carries one of its two penalties; everything else has a residual.
    point = np.concatenate([r, r - x, x, x])
    assert program.free_x.all()
    rows = program.row_values(program.measure([M]), point) - program.rhs
    assert np.abs(rows[:12]).max() < 1e-9
    expected = np.trace(M) + 2 * r @ r + 3 * np.linalg.norm(r - x) + np.linalg.norm(x) / 2
    assert program.objective([M], point) == pytest.approx(expected + 4 * x @ x)


def test_a_free_variable_needs_no_residual() -> None:
    K, ξ, η = Unknown("K", 5), Variable(4, "ξ", free=True), Variable(4, "η", free=True)
    program = maximise(
        K.trace() - 3 * ξ.sum_squares() - 2 * (-η).norm(), K.distances(EDGES) == 1 + ξ - η
    )
    assert program.n_auxiliary == 8
    assert program.n_rows == 4
    np.testing.assert_array_equal(program.quadratic_x, [6.0] * 4 + [0.0] * 4)
    assert [(p.weight, p.group) for p in program.norms] == [(2.0, (4, 5, 6, 7))]


# -- what is compiled -----------------------------------------------------------------------


def test_fingerprint_of_the_slack_form_by_hand() -> None:
    n, m, ω = 5, len(EDGES), 0.9
    d = np.arange(1.0, m + 1)
    K, up, down = Unknown("K", n, null=np.ones(n)), Variable(m, "ξ⁺"), Variable(m, "ξ⁻")
    said = maximise(
        (1 - ω) * K.trace() - ω * (up.sum() + down.sum()),
        K.distances(EDGES) == d + up - down,
        anchor=(ω,),
        safe=SafeBounds(value_scale=2.0),
    )
    V = np.eye(n)[EDGES[:, 0]] - np.eye(n)[EDGES[:, 1]]
    eye = sp.eye_array(m)
    by_hand = Program.of(
        Block.of(n, V, cost=Cost.of(n, identity=1 - ω), null=np.ones(n)),
        d,
        rows_x=sp.hstack([-eye, eye]),
        cost_x=np.full(2 * m, -ω),
        safe=SafeBounds(anchor=np.full(m, ω), value_scale=2.0),
    )
    assert said.fingerprint == by_hand.fingerprint
    assert said.blocks[0].edges is not None
    np.testing.assert_array_equal(said.multiplier_box, [[-ω] * m, [ω] * m])


def test_fingerprint_of_a_covering_by_hand() -> None:
    z = np.random.default_rng(0).standard_normal((6, 3))
    M, t = Unknown("M", features=z), Variable(1, "t")
    said = minimise(0.5 * M.trace() + t - M.log_det() - 3, M.lengths() <= t)
    by_hand = Program.of(
        Block.of(3, sp.eye_array(6), features=z, cost=Cost.of(3, identity=0.5), log_det=1.0),
        np.zeros(6),
        sense="min",
        rows_x=-np.ones((6, 1)),
        relations="<=",
        cost_x=[1.0],
        offset=-3.0,
    )
    assert said.fingerprint == by_hand.fingerprint


def test_fingerprint_of_two_unknowns_and_a_norm_by_hand() -> None:
    V, W = np.eye(3), np.ones((1, 2))
    K, Z, ξ = Unknown("K", 3), Unknown("Z", 2), Variable(3, "ξ", free=True)
    said = minimise(K.trace() + Z.lengths(W) + ξ.norm(), 2 * K.lengths(V) + Z.lengths(W) >= ξ + 1)
    by_hand = Program.of(
        [Block.of(3, V, cost=Cost.of(3, identity=1.0)), Block.of(2, W)],
        np.ones(3),
        sense="min",
        rows_q=np.hstack([2 * np.eye(3), np.ones((3, 1))]),
        rows_x=-np.eye(3),
        relations=">=",
        cost_q=[0.0, 0.0, 0.0, 1.0],
        free_x=[True] * 3,
        norms=[NormPenalty(1.0, (0, 1, 2))],
    )
    assert said.fingerprint == by_hand.fingerprint


def test_equal_measurements_are_written_once() -> None:
    K = Unknown("K", 5)
    q = K.distances(EDGES)
    program = maximise(q.sum(), q <= 4, q >= 1, K.distances(EDGES.copy())[0] == 2)
    assert program.blocks[0].n_measurements == len(EDGES)
    assert program.n_rows == 9


def test_laplacians_in_rows_stay_graphs() -> None:
    """A matrix whose rows add up to zero is measured by differences alone."""
    K = Unknown("K", 5, null=np.ones(5))
    graph = sdpkit.datasets.cycle_graph(5)
    W = (graph.toarray() if sp.issparse(graph) else np.asarray(graph)) * 0.1
    L = np.diag(W.sum(axis=1)) - W
    program = maximise(K.trace(), K.inner(sp.csr_array(L)) <= 1)
    assert program.blocks[0].edges is not None
    assert program.blocks[0].n_measurements == 5


def test_a_dense_matrix_costs_no_more_measurements_than_its_size() -> None:
    rng = np.random.default_rng(0)
    n = 30
    M = Unknown("M", n)
    one = minimise(M.trace(), M.inner(symmetric(rng, n)) == 1)
    assert one.blocks[0].n_measurements <= n
    many = minimise(M.trace(), [M.inner(symmetric(rng, n)) == 1 for _ in range(n)])
    assert many.blocks[0].n_measurements <= n * (n + 1) // 2
    point = positive(rng, n)
    tables = np.random.default_rng(0)
    symmetric(tables, n)
    expected = [float(np.sum(symmetric(tables, n) * point)) for _ in range(n)]
    np.testing.assert_allclose(many.row_values(many.measure([point]), np.zeros(0)), expected)


def test_safe_vectors_follow_the_rows_as_written() -> None:
    K = Unknown("K", 5)
    q = K.distances(EDGES)
    program = minimise(
        (q - 1).norm(), K[0, 0] == 1, q <= 3, direction=(2.0, [0, -1, -2, -3]), anchor=(1.0, 0.0)
    )
    assert program.safe.direction is not None
    np.testing.assert_array_equal(program.safe.direction, [0, 0, 0, 0, 2, 0, -1, -2, -3])
    full = minimise((q - 1).norm(), q <= 3, safe=SafeBounds(anchor=-np.ones(4)))
    assert full.safe.anchor is not None
    np.testing.assert_array_equal(full.safe.anchor, [0, 0, 0, 0, -1, -1, -1, -1])


def test_max_cut_and_theta_have_their_values() -> None:
    Y = Unknown("Y", 3)
    L = 3 * np.eye(3) - np.ones((3, 3))
    assert sdpkit.solve(maximise(Y.inner(L / 4), Y.lengths() == 1)).objective == pytest.approx(
        2.25, rel=1e-5
    )
    M = Unknown("M", 5)
    i = np.arange(5)
    theta = maximise(M.inner(np.ones((5, 5))), M.trace() == 1, M[i, (i + 1) % 5] == 0)
    assert sdpkit.solve(theta).objective == pytest.approx(np.sqrt(5), rel=1e-5)


# -- printing -------------------------------------------------------------------------------


def slack_form() -> Program:
    K, up, down = Unknown("K", 5, null=np.ones(5)), Variable(4, "ξ⁺"), Variable(4, "ξ⁻")
    d = named("d_ij", [1.0, 2.0, 3.0, 4.0])
    return maximise(
        0.1 * K.trace() - 0.9 * (up.sum() + down.sum()),
        K.distances(EDGES) == d + up - down,
        name="slack",
    )


SLACK = [
    "slack",
    "  maximise    0.1 tr K − 0.9 Σξ⁺ − 0.9 Σξ⁻",
    "  subject to  ‖y_i − y_j‖² = d_ij + ξ⁺ − ξ⁻  (4 constraints)",
    "              K ∈ S⁵, K ⪰ 0, K1 = 0",
    "              ξ⁺, ξ⁻ ≥ 0  (4 each)",
]


def test_programs_print_as_they_were_written(tmp_path: Path) -> None:
    program = slack_form()
    assert str(program).splitlines() == SLACK
    program.save(tmp_path / "p.npz")
    loaded = Program.load(tmp_path / "p.npz")
    assert str(loaded).splitlines() == SLACK
    silent = dataclasses.replace(program)
    assert silent.fingerprint == program.fingerprint == loaded.fingerprint
    assert "A_q q + A_x x = b" in str(silent)


def test_words_that_no_longer_fit_are_not_printed() -> None:
    program = slack_form()
    changed = Program.of(program.blocks, program.rhs, wording=program.wording)
    assert "A_q q = b" in str(changed)
    assert "tr K" not in str(program.with_margin(1e-3))
    minimised = dataclasses.replace(program, sense="min", cost_x=-program.cost_x)
    assert "0.9 Σξ⁺" not in str(minimised)


def test_many_constraints_are_cut_short() -> None:
    K = Unknown("K", 5)
    text = str(maximise(K.trace(), [K[k, k] <= k + 1 for k in range(5)], [K.trace() <= 9] * 5))
    assert "… 4 more constraints" in text


# -- what is refused ------------------------------------------------------------------------

K, ξ, η = Unknown("K", 5), Variable(4, "ξ"), Variable(3, "η")
q = K.distances(EDGES)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "sizes": (lambda: ξ + η, "sizes differ: ξ has 4 entries, η has 3"),
    "sizes compared": (lambda: q == np.ones(3), "sizes differ"),
    "columns": (lambda: np.ones((2, 5)) @ ξ, "needs 4 columns"),
    "vectors": (lambda: K.lengths(np.ones((2, 4))), r"pass 5 columns"),
    "product": (lambda: q * ξ, "product of unknowns"),
    "matrix product": (lambda: q @ ξ, "matrix of numbers on the left"),
    "power": (lambda: ξ**2, r"sum_squares\(\)"),
    "quotient": (lambda: 1 / ξ, "cannot|can be divided"),
    "division by zero": (lambda: ξ / 0.0, "divided by zero"),
    "unknown as a vector": (lambda: ξ + K, "K is a matrix"),
    "unknowns multiplied": (lambda: K @ K, "product of unknowns"),
    "unknown compared": (lambda: K >= 0, "K ⪰ 0 always holds"),
    "unknown truth": (lambda: bool(K), "K is a matrix"),
    "expression truth": (lambda: bool(ξ), "no truth value"),
    "chain": (lambda: 1 <= ξ <= 2, "as two constraints"),
    "strict": (lambda: ξ < 1, "no strict inequalities"),
    "unequal": (lambda: ξ != 1, "write <= or >="),
    "maximised penalty": (lambda: maximise(ξ.sum_squares(), q == ξ), r"‖ξ‖² is convex"),
    "maximised norm": (lambda: maximise(ξ.norm(), q == ξ), "cannot be maximised"),
    "subtracted penalty": (lambda: minimise(-ξ.norm(), q == ξ), "cannot be maximised"),
    "minimised log det": (lambda: minimise(K.log_det(), q == 1), "log det K is concave"),
    "subtracted log det": (lambda: maximise(-K.log_det(), q == 1), "log det K is concave"),
    "penalty in a row": (lambda: ξ.norm() >= 1, "not a convex constraint"),
    "log det in a row": (lambda: K.log_det() >= 1, "from_cvxpy"),
    "penalty in a product": (lambda: np.ones(3) * ξ.norm(), "is not affine"),
    "vector objective": (lambda: maximise(q, q == 1), r"\.sum\(\)"),
    "no constraint": (lambda: maximise(K.trace(), True), "not a constraint"),
    "constants only": (lambda: named("a", 1.0) == 1, "neither side"),
    "outside": (lambda: K.distances([[0, 5]]), "outside 0 … 4"),
    "loop": (lambda: K.distances([[1, 1]]), "joins a node to itself"),
    "no pairs": (lambda: K.distances([[0.5, 1.0]]), "pairs of whole numbers"),
    "entry outside": (lambda: K[0, 7], "must lie in 0 … 4"),
    "one index": (lambda: K[0], "two indices"),
    "half an index": (lambda: K[0.5, 1], "whole numbers"),
    "asymmetric": (lambda: K.inner(np.triu(np.ones((5, 5)))), "not symmetric"),
    "size of C": (lambda: K.inner(np.eye(4)), "C has shape"),
    "size of a cost": (lambda: K.inner(Cost.of(4)), "C has size 4"),
    "two-dimensional": (lambda: ξ + np.ones((4, 4)), "A @ e"),
    "NaN": (lambda: ξ + np.nan, "NaN"),
    "text": (lambda: ξ + "one", "neither an expression"),
    "constraint in a sum": (lambda: ξ + (ξ <= 1), "is a constraint"),
    "row outside": (lambda: ξ[7], "size 4"),
    "sizeless": (lambda: Unknown("M"), "has no size"),
    "two sizes": (lambda: Unknown("M", 3, features=np.eye(2)), "has size 3"),
    "size zero": (lambda: Unknown("M", 0), "positive integer"),
    "directions": (lambda: maximise(K.trace(), q == 1, direction=(1, 2)), "2 entries for 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_do(case: str) -> None:
    attempt, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        attempt()
