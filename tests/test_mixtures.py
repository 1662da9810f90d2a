"""Laplacian-eigenmap kernels, mixtures of kernels and of distances: theorems, bounds, bad input."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_iris, load_wine

import sdpkit
from sdpkit import LMNN, DistanceMixture, InputError, KernelMixture, Program, Status
from sdpkit.problems.graph_kernels import (
    adjacency_weights,
    gaussian_weights,
    laplacian_eigenmap,
    laplacian_kernel,
    learned_width,
    partition_agreement,
)
from sdpkit.program.families import laplacians, values
from sdpkit.program.impostors import Impostors
from sdpkit.typing import Array

Labels = NDArray[np.int64]


def blobs(seed: int, n: int = 18, d: int = 4, classes: int = 3) -> tuple[Array, Labels]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.standard_normal((n, d)) + rng.standard_normal((classes, d))[y], y


def optimum(problem: Any) -> float:
    model = problem.to_cvxpy()
    with warnings.catch_warnings():
        # The free directions of a singular pull have no scale; its words are not ours to judge.
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        return float(model.solve(solver="CLARABEL"))


def value(problem: Any, tol: float = 1e-6) -> float:
    solution = sdpkit.solve(problem, tol=tol)
    assert solution.status is Status.OPTIMAL
    return solution.objective


# -- the kernel of Laplacian eigenmaps ------------------------------------------------------


@given(seed=st.integers(0, 10**6), width=st.floats(0.3, 3.0))
@settings(max_examples=25, deadline=None)
def test_the_kernel_of_a_graph_is_one_and_has_the_degrees_in_its_null_space(
    seed: int, width: float
) -> None:
    X = np.random.default_rng(seed).standard_normal((12, 3))
    for W in (gaussian_weights(X, width), adjacency_weights(X, 3)):
        K = laplacian_kernel(W)
        assert np.linalg.eigvalsh(K)[0] >= -1e-12
        np.testing.assert_allclose(K @ W.sum(axis=1), 0.0, atol=1e-12)


def test_the_rank_one_term_cancels_in_all_column_differences() -> None:
    X, y = blobs(0)
    W = gaussian_weights(X, 1.0)
    degrees = W.sum(axis=1)
    with_term, without = laplacian_kernel(W), W / np.outer(degrees, degrees)
    differences = [(K[:, :, None] - K[:, None, :]).ravel() for K in (with_term, without)]
    np.testing.assert_allclose(*differences, atol=1e-15)
    assert np.ptp(with_term - without) < 1e-15 < abs((with_term - without)[0, 0])
    problems = [LMNN(None, y, kernel=K, rank=3, n_neighbors=2) for K in (with_term, without)]
    assert value(problems[0]) == pytest.approx(value(problems[1]), rel=1e-6)


def test_theorem_3_kernel_and_eigenmap_agree_in_all_dimensions_only() -> None:
    """Weights of rank 4 have an eigenmap of three coordinates: LMNN on these is LMNN on K, and on
    few dimensions of an eigenmap it is another problem than LMNN on as many features of K: the
    certified bounds of the two optima lie apart."""
    rng = np.random.default_rng(1)
    y = np.arange(18) % 3
    F = rng.random((18, 4)) + 0.7 * (y[:, None] == np.arange(4))
    W = F @ F.T
    by_kernel = LMNN(None, y, kernel=laplacian_kernel(W), rank=3, n_neighbors=2)
    targets = sdpkit.results.targets.target_table(by_kernel.target_pairs, 18)
    by_eigenmap = LMNN(laplacian_eigenmap(W, 3), y, targets=targets)
    assert value(by_eigenmap) == pytest.approx(value(by_kernel), rel=1e-5)
    assert value(by_kernel) > 1
    X, y = (part[::3] for part in load_iris(return_X_y=True))
    W = gaussian_weights(X, 1.0)
    by_kernel = LMNN(None, y, kernel=laplacian_kernel(W), rank=5)
    targets = sdpkit.results.targets.target_table(by_kernel.target_pairs, len(y))
    by_eigenmap = LMNN(laplacian_eigenmap(W, 5), y, targets=targets)
    few, features = (sdpkit.solve(problem, tol=1e-3) for problem in (by_eigenmap, by_kernel))
    assert few.objective < features.certificate.safe_bound


def test_an_eigenmap_is_orthonormal_and_smooth() -> None:
    X, _ = blobs(4)
    W = gaussian_weights(X, 1.0)
    D, n = np.diag(W.sum(axis=1)), len(W)
    Y = laplacian_eigenmap(W, n - 1)
    np.testing.assert_allclose(Y.T @ D @ Y, np.eye(n - 1), atol=1e-9)
    np.testing.assert_allclose(D.sum(axis=1) @ Y, 0.0, atol=1e-9)
    rough = np.diag(Y.T @ (D - W) @ Y)
    assert np.all(np.diff(rough) > -1e-12)
    assert np.trace(Y[:, :3].T @ (D - W) @ Y[:, :3]) < rough[3:6].sum()
    np.testing.assert_allclose(Y[:, :2], laplacian_eigenmap(W, 2), atol=1e-12)
    with pytest.raises(InputError, match="n_components"):
        laplacian_eigenmap(W, n)


def test_theorem_4_columns_of_the_kernel_are_features() -> None:
    X, y = blobs(2, d=3)
    K = X @ X.T
    by_kernel = LMNN(None, y, kernel=K, rank=3, n_neighbors=2)
    targets = sdpkit.results.targets.target_table(by_kernel.target_pairs, 18)
    by_columns, by_points = LMNN(K, y, targets=targets), LMNN(X, y, targets=targets)
    assert value(by_columns) == pytest.approx(value(by_kernel), rel=1e-5)
    assert value(by_points) == pytest.approx(value(by_kernel), rel=1e-5)
    # The map A = A'Φᵀ itself: distances of columns under A' are those of the points under A.
    solution = sdpkit.solve(by_columns, tol=1e-6)
    small = by_columns.recover(solution).components[0]
    i, j = by_kernel.target_pairs.T
    lengths = [np.square(v[i] - v[j]).sum(axis=1) for v in (K @ small.T, X @ (small @ X).T)]
    np.testing.assert_allclose(*lengths, rtol=1e-8, atol=1e-12)


def test_rows_of_new_points_continue_the_kernel() -> None:
    X, y = blobs(3)
    W = gaussian_weights(X, 1.0)
    np.testing.assert_allclose(laplacian_kernel(W, new=W), laplacian_kernel(W), atol=1e-16)
    problem = LMNN(None, y, kernel=laplacian_kernel(W), rank=4, n_neighbors=2)
    metric = problem.recover(sdpkit.solve(problem))
    rows = laplacian_kernel(W, new=gaussian_weights(X, 1.0, new=X[:5]))
    np.testing.assert_array_equal(metric.predict(rows, n_neighbors=1), y[:5])


def test_concentric_circles_are_separated_by_kernels_and_not_by_a_metric() -> None:
    X, y = sdpkit.datasets.concentric_circles()
    eigenmap = laplacian_kernel(gaussian_weights(X, 1.0))
    cases: dict[str, LMNN] = {
        "plain": LMNN(X, y, n_neighbors=1),
        "quadratic": LMNN(None, y, kernel=(1 + X @ X.T) ** 2, rank=5, n_neighbors=1),
        "eigenmap": LMNN(None, y, kernel=eigenmap, rank=8, n_neighbors=1),
    }
    errors = {}
    for name, problem in cases.items():
        solution = sdpkit.solve(problem)
        assert solution.status is Status.OPTIMAL
        errors[name] = problem.recover(solution).leave_one_out_error(1)
    assert errors == {"plain": 1.0, "quadratic": 0.0, "eigenmap": 0.0}


# -- the width ------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), width=st.floats(0.8, 3.0))
@settings(max_examples=25, deadline=None)
def test_agreement_lies_between_one_and_the_number_of_classes(seed: int, width: float) -> None:
    X, y = blobs(seed)
    W = gaussian_weights(X, width)
    agreement = partition_agreement(W, y)
    assert 1 - 1e-9 <= agreement <= 3 + 1e-9
    order = np.random.default_rng(seed).permutation(len(X))
    assert partition_agreement(W[np.ix_(order, order)], y[order]) == pytest.approx(agreement)


def test_a_graph_of_the_classes_agrees_fully() -> None:
    y = np.array([0, 0, 1, 1, 1, 2, 2])
    W = scipy.linalg.block_diag(*[np.ones((k, k)) for k in (2, 3, 2)])
    assert partition_agreement(W, y) == pytest.approx(3.0)


@pytest.mark.parametrize("start", [None, 0.3, 50.0])
def test_the_learned_width_only_climbs(start: float | None) -> None:
    X, y = load_iris(return_X_y=True)
    found = learned_width(X, y, start=start)
    widths, agreements = np.array(found.path).T
    assert np.all(np.diff(agreements) > 0)
    assert (found.width, found.agreement) == (widths[-1], agreements[-1])
    assert found.agreement == pytest.approx(
        partition_agreement(gaussian_weights(X, found.width), y)
    )
    # A local maximum: a little to either side is no better.
    for factor in (0.97, 1.03):
        assert partition_agreement(gaussian_weights(X, factor * found.width), y) <= found.agreement


def test_the_learned_width_follows_the_units() -> None:
    X, y = blobs(5, n=30)
    one, other = learned_width(X, y), learned_width(7.0 * X, y)
    assert other.width == pytest.approx(7 * one.width, rel=1e-6)


# -- mixtures of kernels --------------------------------------------------------------------


def half_views(seed: int = 4, n: int = 36) -> tuple[list[Array], Labels]:
    """Two kernels, each with one telling feature of a wide spread and a spare one."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    telling = np.c_[y % 2, y // 2] * 3.0 + rng.standard_normal((n, 2))
    spare = 0.3 * rng.standard_normal((n, 2))
    views = [np.c_[telling[:, k], spare[:, k]] for k in (0, 1)]
    return [view @ view.T for view in views], y


def test_a_mixture_beats_each_of_its_kernels_and_never_rises() -> None:
    kernels, y = half_views()
    problem = KernelMixture(kernels, y, rank=2)
    solution = sdpkit.solve(problem)
    thetas, objectives = problem.path(solution)
    assert solution.status is Status.STATIONARY
    assert solution.trajectory is not None
    assert len(thetas) == len(solution.trajectory)
    np.testing.assert_array_equal(thetas[:2], np.eye(2))
    assert solution.objective == objectives.min() < 0.8 * objectives[:2].min()
    assert np.all(thetas >= 0)
    assert np.allclose(thetas.sum(axis=1), 1)
    # Steps that are taken, and those that are tried from them: one exchange apart, going down.
    best, taken = np.inf, []
    for objective in objectives:
        if objective < best:
            best = objective
            taken.append(best)
    assert taken == sorted(taken, reverse=True)
    assert all(step.status is Status.OPTIMAL for step in solution.trajectory)


@given(seed=st.integers(0, 10**6), m=st.integers(2, 4))
@settings(max_examples=20, deadline=None)
def test_the_search_finds_the_least_of_a_bowl(seed: int, m: int) -> None:
    """Told a convex function instead of programs, it ends next to its minimum, inside or not."""
    rng = np.random.default_rng(seed)
    kernels, y = half_views(n=12)
    problem = KernelMixture([kernels[0]] * m, y, rank=2, min_gain=1e-6, min_step=0.01)
    centre = rng.dirichlet(np.full(m, 0.5))
    search = problem._search()
    theta, tried, best, at, reason = next(search), 0, np.inf, np.zeros(m), ""
    while not reason:
        tried += 1
        found = 1 + float(np.square(theta - centre).sum())
        if found < best:
            best, at = found, theta
        try:
            theta = search.send(found)
        except StopIteration as end:
            reason = end.value
    assert "no exchange of 0.01" in reason
    assert np.abs(at - centre).max() <= 0.02
    assert tried < 60 * m * m


def test_no_small_exchange_gains_at_the_end() -> None:
    kernels, y = half_views()
    problem = KernelMixture(kernels, y, rank=2)
    solution = sdpkit.solve(problem)
    theta = problem.theta(solution)
    for step in (-problem.min_step / 2, problem.min_step / 2):
        near = sdpkit.solve(problem.at(theta + step * np.array([1.0, -1.0])))
        assert near.objective >= (1 - 3e-3) * solution.objective


def test_the_best_single_kernel_is_kept_where_no_mixture_helps() -> None:
    X, y = blobs(7)
    noise = np.random.default_rng(0).standard_normal((18, 4))
    problem = KernelMixture([X @ X.T, noise @ noise.T], y, rank=4, n_neighbors=2)
    solution = sdpkit.solve(problem)
    objectives = problem.path(solution)[1]
    assert solution.objective <= objectives[:2].min()


def test_units_of_a_kernel_do_not_matter() -> None:
    kernels, y = half_views()
    one = KernelMixture(kernels, y, rank=2)
    other = KernelMixture([1e4 * kernels[0], 1e-3 * kernels[1]], y, rank=2)
    theta = [0.3, 0.7]
    assert one.mixed(theta) == pytest.approx(other.mixed(theta), rel=1e-9)
    np.testing.assert_array_equal(np.asarray(one.targets), np.asarray(other.targets))


def test_the_convex_part_agrees_with_cvxpy_and_a_vertex_with_lmnn() -> None:
    kernels, y = half_views(n=16)
    problem = KernelMixture(kernels, y, rank=2, n_neighbors=2)
    truth = problem.to_cvxpy([0.4, 0.6]).solve(solver="CLARABEL")
    assert value(problem.at([0.4, 0.6])) == pytest.approx(truth, rel=1e-5)
    alone = LMNN(None, y, kernel=kernels[1], rank=2, targets=problem.target_table)
    assert value(problem.at([0.0, 1.0])) == pytest.approx(value(alone), rel=1e-5)


def test_the_recovered_metric_has_the_objective_and_takes_new_points() -> None:
    kernels, y = half_views()
    problem = KernelMixture(kernels, y, rank=2)
    solution = sdpkit.solve(problem)
    metric, theta = problem.recover(solution), problem.theta(solution)
    assert problem.at(theta).objective(metric) == pytest.approx(solution.objective, rel=1e-9)
    rows = problem.mixed(theta, new=[kernel[:6] for kernel in kernels])
    np.testing.assert_array_equal(metric.predict(rows, n_neighbors=1), y[:6])


def test_a_limit_on_the_programs_is_named() -> None:
    kernels, y = half_views()
    problem = KernelMixture(kernels, y, rank=2, max_steps=4)
    with pytest.warns(sdpkit.ConvergenceWarning, match="max_steps"):
        solution = sdpkit.solve(problem)
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.objective == problem.path(solution)[1].min()


def test_one_kernel_is_lmnn() -> None:
    kernels, y = half_views(n=16)
    problem = KernelMixture(kernels[:1], y, rank=2)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.STATIONARY
    np.testing.assert_array_equal(problem.theta(solution), [1.0])


# -- mixtures of distances ------------------------------------------------------------------


def distance_problems() -> dict[str, DistanceMixture]:
    X, y = blobs(0, n=15)
    rng = np.random.default_rng(3)
    told = np.c_[X[:, :2], 2.0 * (y == 1)]
    also = np.c_[X[:, 2:], rng.standard_normal(15), 2.0 * (y == 2)]
    gram = np.exp(-0.2 * np.square(X[:, None] - X).sum(-1))
    return {
        "two views": DistanceMixture([X[:, :2], X[:, 2:]], y, n_neighbors=2),
        "three views": DistanceMixture([X[:, :1], X[:, 1:3], X[:, 3:]], y, n_neighbors=2, mu=0.8),
        "kernels": DistanceMixture(kernels=[gram, (1 + X @ X.T) ** 2], y=y, rank=3),
        "kernels of other ranks": DistanceMixture(kernels=[gram, X @ X.T], y=y, rank=[2, 4]),
        "ridge": DistanceMixture([X[:, :2], X[:, 2:]], y, ridge=0.5),
        "free directions": DistanceMixture([told, also], y, n_neighbors=2),
        "free in one view": DistanceMixture([X[:, :2], told], y, n_neighbors=2),
        "a constant view": DistanceMixture([X, np.ones((15, 1))], y, n_neighbors=2),
    }


@pytest.mark.parametrize("name", distance_problems())
def test_program_and_cvxpy_agree(name: str) -> None:
    problem = distance_problems()[name]
    solution = sdpkit.solve(problem, tol=1e-6)
    truth = optimum(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(truth, rel=1e-4, abs=1e-4)
    assert solution.certificate.safe_bound <= truth + 1e-4
    metric = problem.recover(solution)
    assert problem.objective(metric) == pytest.approx(solution.objective, rel=1e-6, abs=1e-6)
    shares = problem.shares(metric)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("solver", ["factored", "projected", "interior", "clarabel", "scs"])
def test_every_engine_takes_summed_distances(solver: str) -> None:
    problem = distance_problems()["two views"]
    solution = sdpkit.solve(problem, solver=solver, tol=1e-4)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(optimum(problem), rel=2e-4)


def test_the_published_algorithm_takes_them_too() -> None:
    problem = distance_problems()["two views"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = sdpkit.solve(problem, solver="subgradient-published", tol=1e-4, max_iter=600)
    truth = optimum(problem)
    assert solution.certificate.safe_bound <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-9) <= solution.objective <= 1.05 * truth


def test_the_bound_is_a_theorem() -> None:
    problem = distance_problems()["two views"]
    solution = sdpkit.solve(problem, tol=1e-6)
    proven = solution.certificate.verify()
    assert proven.bound is not None
    assert proven.bound <= optimum(problem) * (1 + 1e-7)
    assert proven.bound == pytest.approx(solution.objective, rel=1e-4)


def test_a_sum_lies_between_one_metric_on_everything_and_each_view_alone() -> None:
    X, y = load_wine(return_X_y=True)
    X, y = X[::6], y[::6]
    problem = DistanceMixture([X[:, :4], X[:, 4:8]], y, n_neighbors=2)
    together = LMNN(X[:, :8], y, targets=problem.target_table)
    low, middle = value(together, 1e-5), value(problem, 1e-5)
    alone = [value(part, 1e-5) for part in problem.parts]
    assert low * (1 - 1e-4) <= middle <= min(alone) * (1 + 1e-4)
    assert low < 0.99 * middle < 0.9 * min(alone)


def test_the_same_view_twice_is_one_view_and_one_view_is_lmnn() -> None:
    X, y = blobs(6)
    twice = DistanceMixture([X, X], y, n_neighbors=2)
    once = DistanceMixture([X], y, n_neighbors=2, targets=twice.target_table)
    plain = LMNN(X, y, targets=twice.target_table)
    assert value(twice) == pytest.approx(value(plain), rel=1e-5)
    assert value(once) == pytest.approx(value(plain), rel=1e-5)


@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100.0))
@settings(max_examples=8, deadline=None)
def test_linear_maps_of_a_view_and_permutations_change_nothing(seed: int, scale: float) -> None:
    X, y = blobs(seed, n=12)
    rng = np.random.default_rng(seed)
    problem = DistanceMixture([X[:, :2], X[:, 2:]], y, n_neighbors=2)
    T = scale * (np.eye(2) + 0.3 * rng.standard_normal((2, 2)))
    mapped = DistanceMixture([X[:, :2] @ T, X[:, 2:]], y, targets=problem.target_table)
    assert value(mapped, 1e-5) == pytest.approx(value(problem, 1e-5), rel=1e-4, abs=1e-4)
    order = rng.permutation(len(X))
    shuffled = DistanceMixture([X[order, 2:], X[order, :2]], y[order], n_neighbors=2)
    assert value(shuffled, 1e-5) == pytest.approx(value(problem, 1e-5), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("search", ["blocks", "tree"])
@given(seed=st.integers(0, 10**6), slack=st.floats(0.0, 1.0))
@settings(max_examples=12, deadline=None)
def test_a_summed_family_is_what_its_loops_say(search: Any, seed: int, slack: float) -> None:
    rng = np.random.default_rng(seed)
    n, y = 10, np.arange(10) % 3
    outputs = [0.7 * rng.standard_normal((n, width)) for width in (1, 3)]
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j and y[i] == y[j]]
    family = Impostors.of(pairs, y, weight=0.5, search=search, summed=True)

    def length(i: int, o: int) -> float:
        return sum(float(np.square(part[i] - part[o]).sum()) for part in outputs)

    literal = {
        (i, j, o): 1 + length(i, j) - length(i, o)
        for i, j in pairs
        for o in range(n)
        if y[o] != y[i]
    }
    rows = family.near(outputs, slack)
    terms = family.terms(rows)
    found = np.c_[terms.pulls[terms.pull], terms.pushes[terms.push, 1]].tolist()
    assert {tuple(t) for t in found} == {t for t, z in literal.items() if z > -slack}
    z = values(family, terms, outputs)
    np.testing.assert_allclose(z, [literal[i, j, o] for i, j, o in found], atol=1e-12)
    assert family.hinge_sum(outputs) == pytest.approx(sum(max(0.0, v) for v in literal.values()))
    graphs = laplacians(family, terms, np.ones(rows.size), 2)
    assert (graphs[0] - graphs[1]).nnz == 0
    assert len(graphs) == 2


def test_a_summed_program_is_saved_and_told_from_others(tmp_path: Any) -> None:
    program = distance_problems()["free directions"].program()
    program.save(tmp_path / "sum.npz")
    again = Program.load(tmp_path / "sum.npz")
    assert again.fingerprint == program.fingerprint
    assert again.family is not None
    assert again.family.summed
    # A family of blocks of their own, of the same pairs, is another program.
    family: Any = program.family
    apart = dataclasses.replace(program, family=dataclasses.replace(family, summed=False))
    assert apart.fingerprint != program.fingerprint


# -- bad input ------------------------------------------------------------------------------

GOOD, LABELS = blobs(0)
GRAM = GOOD @ GOOD.T


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gaussian_weights(GOOD, 0.0), "width"),
        (lambda: gaussian_weights(GOOD, np.nan), "width"),
        (lambda: gaussian_weights(GOOD, 1.0, new=GOOD[:, :2]), "new points"),
        (lambda: adjacency_weights(GOOD, 0), "n_neighbors"),
        (lambda: laplacian_kernel(GOOD), "square"),
        (lambda: laplacian_kernel(-np.eye(3)), "negative"),
        (lambda: laplacian_kernel(np.diag([1.0, 0.0, 1.0])), "node 1"),
        (lambda: laplacian_kernel(np.eye(3), new=np.zeros((1, 3))), "new point"),
        (lambda: partition_agreement(np.eye(3), [0, 1]), "one label per point"),
        (lambda: partition_agreement(np.eye(3), [1, 1, 1]), "no partition"),
        (lambda: learned_width(np.ones((4, 2)), [0, 0, 1, 1]), "equal"),
        (lambda: learned_width(GOOD, LABELS, start=-1.0), "start"),
        (lambda: KernelMixture(GRAM, LABELS, rank=2), "list of kernels"),
        (lambda: KernelMixture([], LABELS, rank=2), "at least one"),
        (lambda: KernelMixture([GOOD], LABELS, rank=2), "square"),
        (lambda: KernelMixture([GRAM, GRAM[:5, :5]], LABELS, rank=2), "same points"),
        (lambda: KernelMixture([GRAM, np.ones((18, 18))], LABELS, rank=2), "distance 0"),
        (lambda: KernelMixture([GRAM, np.diag([np.nan] * 18)], LABELS, rank=2), "NaN"),
        (lambda: KernelMixture([GRAM, GRAM - 30 * np.eye(18)], LABELS, rank=2), "negative"),
        (lambda: KernelMixture([GRAM], LABELS[:4], rank=2), "one label per point"),
        (lambda: KernelMixture([GRAM], LABELS, rank=9), "rank"),
        (lambda: KernelMixture([GRAM], LABELS, rank=0), "rank"),
        (lambda: KernelMixture([GRAM], LABELS, rank=2, min_gain=0.0), "min_gain"),
        (lambda: KernelMixture([GRAM], LABELS, rank=2, min_step=2.0), "min_step"),
        (lambda: KernelMixture([GRAM], LABELS, rank=2, max_steps=0), "max_steps"),
        (lambda: KernelMixture([GRAM], LABELS, rank=2, mu=1.0), "mu"),
        (lambda: KernelMixture([GRAM], np.arange(18), rank=2), "two members"),
        (lambda: KernelMixture([GRAM], LABELS, rank=2).at([0.5]), "add up to 1"),
        (lambda: KernelMixture([GRAM], LABELS, rank=2).at([0.5, 0.5]), "theta"),
        (lambda: KernelMixture([GRAM], LABELS, rank=2).mixed([1.0], new=[]), "new points"),
        (lambda: DistanceMixture(), "views"),
        (lambda: DistanceMixture([GOOD]), "label"),
        (lambda: DistanceMixture([GOOD], LABELS, kernels=[GRAM]), "not both"),
        (lambda: DistanceMixture([GOOD, GOOD[:4]], LABELS), "same points"),
        (lambda: DistanceMixture([GOOD], LABELS, rank=2), "rank belongs to kernels"),
        (lambda: DistanceMixture(kernels=[GRAM], y=LABELS, rank=[1, 2]), "2 ranks"),
        (lambda: DistanceMixture(kernels=[np.eye(18)], y=LABELS), "Pass rank"),
        (lambda: DistanceMixture([GOOD], np.zeros(18)), "two classes"),
        (lambda: DistanceMixture([GOOD], LABELS, n_neighbors=0), "n_neighbors"),
        (
            lambda: Impostors.of([[0, 1]], [0, 0, 1], block_of=[0, 1, 1], summed=True),
            "block_of must be 0",
        ),
    ],
)
def test_bad_input_is_named(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_a_solution_of_something_else_is_refused() -> None:
    problem = KernelMixture([GRAM], LABELS, rank=2)
    with pytest.raises(InputError, match="trajectory"):
        problem.recover(sdpkit.solve(problem.at([1.0])))
