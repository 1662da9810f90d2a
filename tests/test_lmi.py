"""Matrices of expressions, semidefinite and second-order constraints, absolute values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sdpkit import Program, Status, Unknown, Variable, bmat, maximise, minimise, solve
from sdpkit.errors import InputError
from sdpkit.program import named
from sdpkit.program.values import Places
from sdpkit.typing import Array

seeds = st.integers(0, 2**32 - 1)


def symmetric(rng: np.random.Generator, n: int) -> Array:
    A = rng.standard_normal((n, n))
    return (A + A.T) / 2


# -- arithmetic -----------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_matrix_arithmetic_is_that_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, x = Unknown("K", 4), Variable(3, "x", free=True)
    M, v = symmetric(rng, 4), rng.standard_normal(3)
    A, B, C = symmetric(rng, 4), rng.standard_normal((4, 4)), rng.standard_normal((2, 4))
    S = sp.csr_array(np.triu(B))
    u = rng.standard_normal(4)
    places = Places((K,), ((x.terms[0][0], 0),))  # type: ignore[arg-type]
    cases: list[tuple[Any, Any]] = [
        (x[0] * A + A * x[1] - 2 * K, v[0] * A + v[1] * A - 2 * M),
        (B - K / 2, B - M / 2),
        (B.T @ K + K @ B - S, B.T @ M + M @ B - S.toarray()),
        (x[2] * S + S, v[2] * S.toarray() + S.toarray()),
        ((C @ K).T, (C @ M).T),
        (C @ K @ C.T, C @ M @ C.T),
        ((C @ K) @ u, C @ M @ u),
        (u @ (K + x[0] * B), u @ (M + v[0] * B)),
        (K[1:, :2], M[1:, :2]),
        (K[np.ix_([0, 3], [1, 2])], M[np.ix_([0, 3], [1, 2])]),
        (K[2, 1:], M[2, 1:]),
        ((K - A)[1, 2], (M - A)[1, 2]),
        ((K - A)[:2, 1:], (M - A)[:2, 1:]),
        ((K - A).trace() + (B + K).sum(), np.trace(M - A) + (B + M).sum()),
        ((B + K).diagonal(), np.diag(B + M)),
        (bmat([[K, C.T], [C, x[0] * np.eye(2)]]), np.block([[M, C.T], [C, v[0] * np.eye(2)]])),
        (bmat([[0, x], [x, np.eye(3)]]), np.block([[0, v], [v[:, None], np.eye(3)]])),
        (x.reshape(3, 1).T, v[None, :]),
        (sum(x[k] * A for k in range(3)), v.sum() * A),
        (abs(x) + x, np.abs(v) + v),
        (x.norm() + 2 * x.sum_squares(), np.linalg.norm(v) + 2 * v @ v),
        (named("B", B) + K, B + M),
    ]
    for said, expected in cases:
        found = places.value(said, [M], v, None)
        np.testing.assert_allclose(found, np.squeeze(expected) if np.ndim(found) == 0 else expected)


# -- values against cvxpy -------------------------------------------------------------------


def eigenvalue_model(rng: np.random.Generator) -> tuple[Program, Any]:
    tables = [symmetric(rng, 5) for _ in range(4)]
    t, x, y = Variable(name="t", free=True), Variable(3, "x", free=True), cp.Variable(3)
    F = tables[0] + sum(x[k] * tables[k + 1] for k in range(3))
    G = tables[0] + sum(y[k] * tables[k + 1] for k in range(3))
    program = minimise(t, t * np.eye(5) >> F, -t * np.eye(5) << F, abs(x) <= 0.7)
    return program, cp.Problem(cp.Minimize(cp.sigma_max(G)), [cp.abs(y) <= 0.7])


def lyapunov_model(rng: np.random.Generator) -> tuple[Program, Any]:
    A = rng.standard_normal((4, 4))
    A -= (np.linalg.eigvals(A).real.max() + 0.5) * np.eye(4)
    P, Q = Unknown("P", 4), cp.Variable((4, 4), PSD=True)
    program = minimise(P.trace(), A.T @ P + P @ A << -np.eye(4))
    return program, cp.Problem(cp.Minimize(cp.trace(Q)), [A.T @ Q + Q @ A << -np.eye(4)])


def cone_model(rng: np.random.Generator) -> tuple[Program, Any]:
    B, b, c = rng.standard_normal((6, 3)), rng.standard_normal(6), rng.standard_normal(3)
    x, y = Variable(3, "x", free=True), cp.Variable(3)
    program = minimise(
        c @ x, (B @ x - b).norm() + x.norm() <= 6, abs(x[0] - x[1]) + abs(x[2]) <= 1, x[0] <= 0.5
    )
    constraints = [
        cp.norm(B @ y - b) + cp.norm(y) <= 6,
        cp.abs(y[0] - y[1]) + cp.abs(y[2]) <= 1,
        y[0] <= 0.5,
    ]
    return program, cp.Problem(cp.Minimize(c @ y), constraints)


def lasso_model(rng: np.random.Generator) -> tuple[Program, Any]:
    B, b = rng.standard_normal((6, 3)), rng.standard_normal(6)
    x, y = Variable(3, "x", free=True), cp.Variable(3)
    program = minimise((B @ x - b).sum_squares() + 0.5 * abs(x).sum(), x.sum_squares() <= 0.1)
    objective = cp.Minimize(cp.sum_squares(B @ y - b) + 0.5 * cp.norm1(y))
    return program, cp.Problem(objective, [cp.sum_squares(y) <= 0.1])


def part_model(rng: np.random.Generator) -> tuple[Program, Any]:
    A = symmetric(rng, 5)
    K, Z = Unknown("K", 5), cp.Variable((5, 5), PSD=True)
    program = maximise(
        K.inner(A),
        K.trace() == 1,
        K[1:4, 1:4] << np.eye(3) / 4,
        K[:2, 3:] == 0.01 * np.ones((2, 2)),
    )
    constraints = [cp.trace(Z) == 1, Z[1:4, 1:4] << np.eye(3) / 4, Z[:2, 3:] == 0.01]
    return program, cp.Problem(cp.Maximize(cp.trace(A @ Z)), constraints)


def linear_model(rng: np.random.Generator) -> tuple[Program, Any]:
    A, b, c = rng.random((5, 3)), rng.random(5), rng.random(3)
    x, y = Variable(3, "x"), cp.Variable(3, nonneg=True)
    return minimise(c @ x + 1, A @ x >= b), cp.Problem(cp.Minimize(c @ y + 1), [A @ y >= b])


MODELS = [eigenvalue_model, lyapunov_model, cone_model, lasso_model, part_model, linear_model]


@pytest.mark.parametrize("make", MODELS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", range(2))
def test_values_are_those_of_cvxpy(make: Callable[..., tuple[Program, Any]], seed: int) -> None:
    program, model = make(np.random.default_rng(seed))
    solution = solve(program, solver="clarabel", tol=1e-5)
    expected = model.solve(solver="CLARABEL")
    assert solution.status == Status.OPTIMAL
    assert solution.objective == pytest.approx(expected, rel=2e-5, abs=2e-5)


def test_both_forms_have_the_same_value() -> None:
    rng = np.random.default_rng(3)
    A, B = symmetric(rng, 3), symmetric(rng, 3)
    found = []
    for spare, dual in ((0, True), (9, False)):
        x, idle = Variable(2, "x", free=True), Variable(spare, "y")
        F = x[0] * np.eye(3) + x[1] * B - A
        program = minimise(x[0] + idle.sum(), F >> 0, abs(x[1]) <= 1)
        assert program.is_dual_side is dual
        assert program.n_rows == (2 if dual else 6 + 2)  # of 2 or 8, and of 11 or 8
        solution = solve(program, tol=1e-7)
        found.append(solution.value(x))
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)
    t = Variable(name="t")
    program = maximise(-t, t * np.eye(3) >> A)  # a nonnegative variable, and a maximum
    assert program.sense == "min"
    solution = solve(program)
    largest = max(np.linalg.eigvalsh(A)[-1], 0.0)
    assert solution.objective == pytest.approx(-largest, rel=1e-5)
    assert solution.value(t) == pytest.approx(largest, rel=1e-5)
    slack = solution.value(t * np.eye(3) - A)
    assert np.linalg.eigvalsh(slack)[0] == pytest.approx(0, abs=1e-5)


def test_values_of_expressions_at_a_solution() -> None:
    K, x = Unknown("K", 3), Variable(2, "x")
    program = maximise(K[0, 1] - x.sum(), K[:2, :2] << np.eye(2), K[2, 2] == 1 + x[0])
    solution = solve(program)
    assert solution.value(K[0, 1]) == pytest.approx(1, abs=1e-4) or solution.value(K[0, 1]) <= 1
    np.testing.assert_array_equal(solution.value(K), solution.matrices[0])
    np.testing.assert_array_equal(solution.value(x), solution.x)
    with pytest.raises(InputError, match="not part of this program"):
        solution.value(Variable(2, "x"))


# -- statuses, printing, files --------------------------------------------------------------


def test_a_model_without_an_optimum_says_so_in_its_own_sense() -> None:
    t = Variable(name="t", free=True)
    above = solve(minimise(t, t * np.eye(2) >> np.eye(2), t <= 0.5))
    assert above.status == Status.INFEASIBLE
    below = solve(minimise(t, np.eye(2) >> t * np.eye(2)))
    assert below.status == Status.INFEASIBLE_OR_UNBOUNDED
    assert "unbounded if it has a feasible point" in below.message


def test_programs_are_printed_as_written(tmp_path: Path) -> None:
    t, x = Variable(name="t", free=True), Variable(2, "x")
    A = named("A₀", np.diag([1.0, 2.0, 3.0]))
    program = minimise(t + x.sum(), t * np.eye(3) - x[0] * A >> A, (x - 1).norm() <= t, name="two")
    expected = [
        "two",
        "  minimise    t + Σx",
        "  subject to  t I − x[0] A₀ ⪰ A₀  (3 × 3)",
        "              ‖x − 1‖ ≤ t  (1 second-order cone)",
        "              x ≥ 0  (2)",
        "              t free",
    ]
    assert str(program).splitlines() == expected
    program.save(tmp_path / "p.npz")
    again = Program.load(tmp_path / "p.npz")
    assert str(again) == str(program)
    assert again.is_dual_side
    with pytest.raises(InputError, match="loaded from a file"):
        solve(again).value(t)


# -- what is refused ------------------------------------------------------------------------

K, P = Unknown("K", 3), Unknown("P", 2)
y, s = Variable(3, "y"), Variable(name="s")
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "not symmetric": (lambda: K + np.triu(np.ones((3, 3))) >> 0, r"entries \(0, 1\) and \(1, 0\)"),
    "not square": (lambda: K[:2, :] >> 0, "only square matrices"),
    "shapes": (lambda: K + np.eye(2), "shapes differ: K is 3 × 3, the array is 2 × 2"),
    "a number": (lambda: K - 1 >> 0, r"c \* np.eye\(3\)"),
    "products": (lambda: K @ K >> 0, "product of unknowns.*Schur.*cvxpy"),
    "variable times matrix of expressions": (lambda: s * K[:, :], "product of unknowns"),
    "vector times matrix": (lambda: y * np.eye(3), r"e\[i\] \* A"),
    "inner sizes": (lambda: np.ones((2, 2)) @ K, "A @ F"),
    "strict": (lambda: K.as_matrix() > 0, "strict"),
    "truth": (lambda: bool(K >> np.eye(3)), "no truth value"),
    "concave": (lambda: y.norm() >= 1, "not a convex constraint"),
    "equal": (lambda: abs(y) == 1, "not a convex constraint"),
    "maximised modulus": (lambda: maximise(abs(y).sum(), y <= 1), "cannot be maximised"),
    "ragged blocks": (lambda: bmat([[K, y], [s]]), "same number of blocks"),
    "blocks that do not fit": (lambda: bmat([[K, P], [P, K]]), r"sizes \[2, 3\]"),
    "blocks of no size": (lambda: bmat([[0, 0], [0, 0]]), "has no size"),
    "NaN": (lambda: s * np.full((2, 2), np.nan), "NaN"),
    "constants": (lambda: named("A", np.eye(2)) >> 0, "neither side"),
    "matrix in a vector": (lambda: y + s * np.eye(3), "is a matrix"),
    "reshaped": (lambda: y.reshape(2, 2), "3 entries"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused_in_words(case: str) -> None:
    attempt, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        attempt()
