"""MMC and its engine: two formulations, closed forms, the bound, unbounded twins, bad input."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_iris, load_wine

import sdpkit
from sdpkit import MMC, MVU, InputError, SolverError, Status, UnboundedProblemError
from sdpkit.program.roots import Roots
from sdpkit.solution.answer import Settings
from sdpkit.solution.driver import Driver
from sdpkit.solvers.ascent import Ascent
from sdpkit.typing import Array

Labels = NDArray[np.int64]


def blobs(seed: int, n: int = 12, d: int = 3, classes: int = 3) -> tuple[Array, Labels]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.standard_normal((n, d)) + 1.5 * rng.standard_normal((classes, d))[y], y


def optimum(problem: MMC) -> float:
    with warnings.catch_warnings():
        # It stops a digit short of its own tolerance now and then; what it found is compared.
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        return float(problem.to_cvxpy().solve(solver="CLARABEL"))


def literal(problem: MMC, M: Array) -> float:
    """Σ√q over dissimilar pairs at the scale at which Σq over similar ones is 1, in loops."""
    X = problem.points

    def length(i: int, j: int) -> float:
        return float((X[i] - X[j]) @ M @ (X[i] - X[j]))

    near = sum(length(i, j) for i, j in np.asarray(problem.similar_pairs).tolist())
    far = [length(i, j) for i, j in np.asarray(problem.dissimilar_pairs).tolist()]
    return float(np.sqrt(np.maximum(far, 0.0) / near).sum())


# -- two formulations -----------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("name", ["wine", "iris"])
@pytest.mark.parametrize("every", [8, 6])
def test_program_and_cvxpy_agree_on_data(name: str, diagonal: bool, every: int) -> None:
    X, y = (load_wine if name == "wine" else load_iris)(return_X_y=True)
    problem = MMC(X[::every], y[::every], diagonal=diagonal)
    solution = sdpkit.solve(problem, tol=1e-7)
    truth = optimum(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.solver == "ascent"
    assert solution.objective == pytest.approx(truth, rel=1e-6)
    assert solution.certificate.safe_bound >= truth * (1 - 1e-6)
    M = problem.recover(solution).matrix
    assert literal(problem, M) == pytest.approx(solution.objective, rel=1e-7)
    assert problem.objective(M) == pytest.approx(solution.objective, rel=1e-7)
    if diagonal:
        np.testing.assert_allclose(M, np.diag(np.diag(M)), atol=1e-12 * np.abs(M).max())


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("solver", ["ascent", "interior", "clarabel", "scs"])
def test_engines_agree(solver: str, diagonal: bool) -> None:
    X, y = blobs(0, n=8, d=2, classes=2)
    problem = MMC(X, y, diagonal=diagonal)
    solution = sdpkit.solve(problem, solver=solver, tol=1e-5)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(optimum(problem), rel=2e-5)


def test_given_pairs_are_those_of_the_labels() -> None:
    X, y = blobs(1)
    by_labels = MMC(X, y)
    similar, dissimilar = by_labels.similar_pairs, by_labels.dissimilar_pairs
    by_pairs = MMC(X, similar=similar[::-1, ::-1], dissimilar=dissimilar)
    assert by_pairs.program().fingerprint == by_labels.program().fingerprint
    assert len(similar) + len(dissimilar) == 12 * 11 // 2


# -- theorems and known values --------------------------------------------------------------


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_on_a_line_the_answer_is_known(seed: int) -> None:
    """M = 1/Σ_similar v², and the optimum Σ|v|/√(Σ_similar v²)."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((6, 1)), np.array([0, 0, 0, 1, 1, 1])
    problem = MMC(X, y)
    near, far = (
        np.array([X[i, 0] - X[j, 0] for i, j in np.asarray(pairs)])
        for pairs in (problem.similar_pairs, problem.dissimilar_pairs)
    )
    solution = sdpkit.solve(problem)
    cost = float(np.square(near).sum())
    assert solution.objective == pytest.approx(np.abs(far).sum() / np.sqrt(cost), rel=1e-6)
    assert problem.recover(solution).matrix[0, 0] == pytest.approx(1 / cost, rel=1e-6)


def test_two_orthogonal_pairs_have_a_closed_form() -> None:
    """A = I and v = a·e₁, b·e₂: max a√m₁ + b√m₂ on m₁ + m₂ = 1 is √(a² + b²)."""
    a, b = 3.0, 0.5
    X = np.array([[0, 0], [1, 0], [0, 1], [a, 0], [0, b]], dtype=float)
    for diagonal in (False, True):
        problem = MMC(X, similar=[[0, 1], [0, 2]], dissimilar=[[0, 3], [0, 4]], diagonal=diagonal)
        solution = sdpkit.solve(problem, tol=1e-8)
        assert solution.objective == pytest.approx(np.hypot(a, b), rel=1e-7)
        M = problem.recover(solution).matrix
        np.testing.assert_allclose(np.diag(M), np.square([a, b]) / (a * a + b * b), rtol=1e-5)


@given(seed=st.integers(0, 10**6), diagonal=st.booleans())
@settings(max_examples=15, deadline=None)
def test_the_bound_holds_from_any_metric_and_meets_the_optimum(seed: int, diagonal: bool) -> None:
    X, y = blobs(seed)
    problem = MMC(X, y, diagonal=diagonal)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.OPTIMAL
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((3, 3))
    M = np.diag(rng.random(3) + 0.01) if diagonal else root @ root.T
    assert problem.objective(M) <= solution.objective * (1 + 1e-6)
    assert problem.bound(M) >= solution.objective * (1 - 1e-6)
    best = problem.recover(solution).matrix
    assert problem.bound(best) == pytest.approx(solution.objective, rel=1e-5)


def test_the_bound_is_a_theorem() -> None:
    X, y = blobs(3)
    solution = sdpkit.solve(MMC(X, y))
    proven = solution.certificate.verify()
    assert proven.bound is not None
    assert proven.bound == pytest.approx(solution.objective, rel=1e-6)
    assert proven.bound >= solution.objective * (1 - 1e-9)


def test_diagonal_mmc_is_no_linear_program() -> None:
    """A linear objective on one constraint would put all weight on one coordinate."""
    X, y = load_wine(return_X_y=True)
    problem = MMC(X[::8], y[::8], diagonal=True)
    solution = sdpkit.solve(problem)
    m = np.sort(np.diag(problem.recover(solution).matrix * np.square(X[::8].std(axis=0))))
    assert m[-2] > 0.01 * m[-1]
    vertices = [problem.objective(np.diag(e)) for e in np.eye(13)]
    assert solution.objective > 1.004 * max(vertices)


def test_a_diagonal_metric_is_no_better_than_a_full_one() -> None:
    X, y = blobs(5)
    full, diagonal = (sdpkit.solve(MMC(X, y, diagonal=flag)).objective for flag in (False, True))
    assert diagonal < full * (1 + 1e-6)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_the_power_step_never_lowers_the_objective(seed: int) -> None:
    rng = np.random.default_rng(seed)
    roots = Roots(rng.standard_normal((15, 3)) * [1.0, 3.0, 0.1], diagonal=False)
    driver = Driver("ascent", Settings(tol=1e-12), max_iter=100)
    ascent = Ascent(roots, rng.standard_normal((3, 3)), 1e-12)
    values = []
    for _ in range(15):
        ascent.power(driver, 1)
        values.append(driver.history[-1]["objective"])
    assert np.all(np.diff(values) >= -1e-12 * values[-1])


# -- invariances ----------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), scale=st.floats(1e-3, 1e3))
@settings(max_examples=15, deadline=None)
def test_linear_maps_translations_and_permutations_change_nothing(seed: int, scale: float) -> None:
    X, y = blobs(seed)
    rng = np.random.default_rng(seed)
    T = scale * (np.eye(3) + 0.4 * rng.standard_normal((3, 3)))
    order = rng.permutation(len(X))
    value = sdpkit.solve(MMC(X, y)).objective
    mapped = sdpkit.solve(MMC((X @ T)[order] + 5 * scale, y[order])).objective
    assert mapped == pytest.approx(value, rel=1e-5)
    units = scale * rng.uniform(0.1, 10.0, 3)
    plain, other = (sdpkit.solve(MMC(Z, y, diagonal=True)).objective for Z in (X, X * units))
    assert other == pytest.approx(plain, rel=1e-5)


def test_counting_pairs_twice_changes_the_value_by_the_root_of_two() -> None:
    X, y = blobs(2)
    problem = MMC(X, y)
    M = problem.recover(sdpkit.solve(problem)).matrix
    i, j = np.nonzero(y[:, None] != y[None, :])
    ordered = np.sqrt(np.einsum("pi,pi->p", (X[i] - X[j]) @ (M / 2), X[i] - X[j])).sum()
    assert ordered == pytest.approx(np.sqrt(2) * problem.objective(M), rel=1e-9)


# -- degenerate and unbounded ---------------------------------------------------------------


def test_pairs_that_coincide_count_for_nothing() -> None:
    X, y = blobs(4)
    twins, labels = np.vstack([X, X[:1], X[1:2]]), np.r_[y, y[0], (y[1] + 1) % 3]
    problem = MMC(twins, labels)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.solver == "ascent"
    assert solution.objective == pytest.approx(optimum(problem), rel=1e-5)


@pytest.mark.parametrize("apart", [1e-6, 1e-9, 1e-12])
def test_dissimilar_points_may_nearly_coincide(apart: float) -> None:
    X, y = blobs(4)
    near = np.vstack([X, X[0] + apart * np.array([1.0, -2.0, 0.5])])
    solution = sdpkit.solve(MMC(near, np.r_[y, (y[0] + 1) % 3]))
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.bound_source == "feasible dual"
    assert solution.objective == pytest.approx(
        sdpkit.solve(MMC(np.vstack([X, X[0]]), np.r_[y, (y[0] + 1) % 3])).objective, rel=1e-5
    )


def test_classes_may_be_next_to_points() -> None:
    """Distances ten thousand times those within classes: T's entries span as many digits."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    X = np.c_[10.0 * y, 10.0 * y] + 1e-3 * rng.standard_normal((40, 2))
    solution = sdpkit.solve(MMC(X, y))
    assert solution.status is Status.OPTIMAL


def test_a_constant_feature_does_not_matter() -> None:
    X, y = blobs(6)
    value = sdpkit.solve(MMC(X, y)).objective
    wide = MMC(np.c_[X, np.full(12, 3.0)], y)
    solution = sdpkit.solve(wide)
    assert solution.objective == pytest.approx(value, rel=1e-6)
    np.testing.assert_array_equal(wide.recover(solution).matrix[3], 0.0)


@pytest.mark.parametrize("diagonal", [False, True])
def test_without_a_limit_there_is_no_maximum(diagonal: bool) -> None:
    X, y = blobs(7)
    with pytest.raises(UnboundedProblemError, match="no similar pairs"):
        MMC(X, np.arange(12), diagonal=diagonal)
    with pytest.raises(UnboundedProblemError, match="no similar pairs"):
        MMC(X, similar=[], dissimilar=[[0, 1]], diagonal=diagonal)
    told = np.c_[X, 1.0 * y]
    with pytest.raises(UnboundedProblemError, match="1 direction separates"):
        MMC(told, y, diagonal=diagonal)


def test_the_unbounded_twin_has_no_bound() -> None:
    """What the early error says, the program says too: its dual has no point.

    A root grows slower than any line, so that no direction shows it.
    """
    free = Roots(np.array([[1.0, 0.0], [0.0, 1.0]]), diagonal=False).program()
    # The limit, a sum of M's measurements, forgets the second direction.
    rows = free.rows_q.tolil()
    rows[0, free.blocks[0].n_measurements + 1] = 0.0
    twin = sdpkit.Program.of(
        free.blocks, free.rhs, rows_q=sp.csr_array(rows.tocsr()), relations=free.relations
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = sdpkit.solve(twin, solver="interior")
    assert solution.status in (Status.UNBOUNDED, Status.INACCURATE)
    assert solution.certificate.safe_bound == np.inf


# -- the engine -----------------------------------------------------------------------------


def test_sums_of_roots_are_known_by_their_program() -> None:
    X, y = blobs(8)
    for diagonal in (False, True):
        program = MMC(X, y, diagonal=diagonal).program()
        found = Roots.of(program)
        assert found is not None
        assert found.diagonal is diagonal
        assert found.program().fingerprint == program.fingerprint
    program = MMC(X, y).program()
    changed = sdpkit.Program.of(
        program.blocks, 2 * program.rhs, rows_q=program.rows_q, relations=program.relations
    )
    assert Roots.of(changed) is None
    pentagon = MVU(graph=sdpkit.datasets.cycle_graph(5))
    assert Roots.of(pentagon.program()) is None
    with pytest.raises(SolverError, match="sums of square roots"):
        sdpkit.solve(pentagon, solver="ascent")
    assert sdpkit.solve(changed).solver != "ascent"


def test_limits_are_kept_and_bounds_hold_before_the_end() -> None:
    X, y = blobs(9, n=20, d=4)
    problem = MMC(X, y)
    truth = sdpkit.solve(problem).objective
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = sdpkit.solve(problem, max_iter=20, tol=1e-9)
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.objective <= truth * (1 + 1e-6) <= solution.certificate.safe_bound * (1 + 2e-6)
    seen: list[float] = []

    def stop(state: Any) -> bool:
        seen.append(state["gap"])
        return True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = sdpkit.solve(problem, callback=stop, tol=1e-9)
    assert solution.status is Status.INTERRUPTED
    assert len(seen) == 1


def test_multipliers_that_miss_feasibility_are_moved_inside_the_dual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine's own multipliers prove a finite bound only together with a repair."""
    X, y = blobs(9)
    right = sdpkit.solve(MMC(X, y), solver="ascent", tol=1e-9)
    monkeypatch.setattr("sdpkit.solvers.ascent._ROOM", -1e-6)
    solution = sdpkit.solve(MMC(X, y), solver="ascent", tol=1e-9)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.safe_bound >= right.objective * (1 - 1e-12)


def test_fewer_pairs_are_a_problem_with_a_note() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="max_pairs"):
        MMC(np.repeat(X, 2, axis=0), np.repeat(y, 2)).program()
    problem = MMC(X, y, max_pairs=150)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.notes == ("1500 of 3675 similar pairs", "150 of 7500 dissimilar pairs")
    assert len(problem.dissimilar_pairs) == 150


def test_the_metric_classifies() -> None:
    X, y = load_iris(return_X_y=True)
    problem = MMC(X, y, max_pairs=400)
    metric = problem.recover(sdpkit.solve(problem))
    assert metric.leave_one_out_error(3) < 0.06


# -- bad input ------------------------------------------------------------------------------

GOOD, LABELS = blobs(0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MMC(GOOD), "labels y, or both"),
        (lambda: MMC(GOOD, similar=[[0, 1]]), "labels y, or both"),
        (lambda: MMC(GOOD, LABELS, similar=[[0, 1]], dissimilar=[[0, 2]]), "not both"),
        (lambda: MMC(GOOD, LABELS[:3]), "one label per point"),
        (lambda: MMC(GOOD, np.full(12, np.nan)), "NaN"),
        (lambda: MMC(np.full((4, 2), np.nan), [0, 0, 1, 1]), "NaN"),
        (lambda: MMC(GOOD, np.zeros(12)), "no dissimilar pairs"),
        (lambda: MMC(GOOD, similar=[[0, 1]], dissimilar=[[0, 99]]), "outside"),
        (lambda: MMC(GOOD, similar=[[0, 0]], dissimilar=[[0, 1]]), "twice"),
        (lambda: MMC(GOOD, similar=[[0.5, 1.0]], dissimilar=[[0, 1]]), "whole numbers"),
        (lambda: MMC(GOOD, similar=[[0, 1, 2]], dissimilar=[[0, 1]]), "shape"),
        (lambda: MMC(GOOD, similar=[[0, 1]], dissimilar=[[1, 0]]), "similar and as dissimilar"),
        (lambda: MMC(np.ones((4, 2)), [0, 0, 1, 1]), "equal"),
        (lambda: MMC(GOOD, LABELS, max_pairs=0), "max_pairs"),
        (lambda: MMC(GOOD, LABELS).objective(np.eye(2)), "shape"),
        (lambda: MMC(GOOD, LABELS).objective(np.zeros((3, 3))), "no scale"),
    ],
)
def test_bad_input_is_named(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_the_engine_takes_no_options() -> None:
    with pytest.raises(InputError, match="no option 'fast'"):
        sdpkit.solve(MMC(GOOD, LABELS), solver="ascent", fast=True)
