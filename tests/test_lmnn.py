"""LMNN: two formulations, theorems, invariances, singular pulls, bad input."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_iris, load_wine

import sdpkit
from sdpkit import LMNN, InputError, Solution, Status
from sdpkit.errors import ConvergenceWarning
from sdpkit.program.families import values
from sdpkit.results.targets import target_neighbors, target_table
from sdpkit.typing import Array

ENGINES = (
    "factored",
    "projected",
    "interior",
    "clarabel",
    "scs",
    "subgradient",
    "subgradient-published",
)


def blobs(seed: int, n: int = 18, d: int = 3, classes: int = 3) -> tuple[Array, NDArray[np.int64]]:
    """Classes that overlap, each with at least n // classes members."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.standard_normal((n, d)) + 0.8 * rng.standard_normal((classes, d))[y], y


def optimum(problem: LMNN) -> float:
    """The value of the paper's model."""
    model = problem.to_cvxpy()
    with warnings.catch_warnings():
        # The free directions of a singular pull have no scale; its words are not ours to judge.
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        return float(model.solve(solver="CLARABEL"))


def solved(problem: LMNN, tol: float = 1e-6, **more: Any) -> Solution:
    return sdpkit.solve(problem, tol=tol, **more)


def literal_objective(problem: LMNN, components: list[Array]) -> float:
    """(1−μ)Σ pull + μΣ push + ridge·tr M, written as three loops."""
    X, mu = problem.features, problem.mu
    M = [part.T @ part for part in components]

    def length(i: int, o: int) -> float:
        difference = X[i] - X[o]
        return float(difference @ M[problem.block_of[o]] @ difference)

    pull = push = 0.0
    pairs = problem.target_pairs.tolist()
    for i, j in pairs:
        pull += length(i, j)
    if problem.triplets is not None:
        triplets = {tuple(t) for t in np.asarray(problem.triplets).tolist()}
    else:
        others = range(len(X))
        triplets = {
            (i, j, o) for i, j in pairs for o in others if problem.labels[i] != problem.labels[o]
        }
    for i, j, o in triplets:
        push += max(0.0, 1 + length(i, j) - length(i, o))
    trace = sum(float(np.trace(m)) for m in M)
    return (1 - mu) * pull + mu * push + problem.ridge * trace


# -- two formulations -----------------------------------------------------------------------


def problems() -> dict[str, Callable[[], LMNN]]:
    X, y = blobs(0)
    rng = np.random.default_rng(5)
    drawn = rng.integers(0, 18, (300, 3)).tolist()
    triplets = [[i, j, o] for i, j, o in drawn if i != j and y[i] == y[j] != y[o]]
    odd = [t for t in drawn[:60] if len(set(t)) == 3]
    flat = np.c_[X, np.full(18, 7.0)]
    told = np.c_[X, (y == 1) * 2.0, rng.standard_normal(18)]
    twins = np.vstack([X, X[:5]])
    wide = rng.standard_normal((12, 16))
    targets = np.where(rng.random((18, 2)) < 0.3, -1, target_table(target_neighbors(X, y, 2), 18))
    gram = np.exp(-0.2 * np.square(X[:, None] - X).sum(-1))
    return {
        "single": lambda: LMNN(X, y, n_neighbors=2),
        "mu": lambda: LMNN(X, y, n_neighbors=2, mu=0.9),
        "one neighbour": lambda: LMNN(X, y, n_neighbors=1),
        "per class": lambda: LMNN(X, y, n_neighbors=2, metrics="per_class"),
        "clusters": lambda: LMNN(X, y, n_neighbors=2, metrics=2),
        "given clusters": lambda: LMNN(X, y, n_neighbors=2, metrics=np.arange(18) % 2),
        "given targets": lambda: LMNN(X, y, targets=targets),
        "triplets": lambda: LMNN(X, triplets=triplets),
        "triplets, clusters": lambda: LMNN(X, y, triplets=odd, metrics="per_class"),
        "ridge": lambda: LMNN(X, y, n_neighbors=2, ridge=0.7),
        "ridge, wide": lambda: LMNN(wide, y[:12], n_neighbors=2, ridge=0.7),
        "kernel rank": lambda: LMNN(None, y, n_neighbors=2, kernel=gram, rank=4),
        "kernel ridge": lambda: LMNN(None, y, n_neighbors=2, kernel=X @ X.T, ridge=0.2),
        "constant feature": lambda: LMNN(flat, y, n_neighbors=2),
        "feature constant in classes": lambda: LMNN(told, y, n_neighbors=2),
        "the same, per class": lambda: LMNN(told, y, n_neighbors=2, metrics="per_class"),
        "fewer points than features": lambda: LMNN(wide, y[:12], n_neighbors=2),
        "duplicates": lambda: LMNN(twins, np.r_[y, y[:5]], n_neighbors=2),
        "duplicates of another class": lambda: LMNN(
            twins, np.r_[y, (y[:5] + 1) % 3], n_neighbors=1
        ),
        "a class of one": lambda: LMNN(X, np.r_[y[:-1], 9], n_neighbors=2),
        "classes of two": lambda: LMNN(X[:8], np.arange(8) // 2, n_neighbors=3),
    }


@pytest.mark.parametrize("name", problems())
def test_program_and_cvxpy_agree(name: str) -> None:
    problem = problems()[name]()
    solution = solved(problem)
    assert solution.status is Status.OPTIMAL
    value, scale = optimum(problem), max(problem.mu, abs(solution.objective))
    assert solution.objective == pytest.approx(value, abs=2e-5 * scale)
    assert solution.certificate.safe_bound <= value + 2e-5 * scale
    # What is recovered has that value too, over every triplet and in the original coordinates.
    metric = problem.recover(solution)
    assert problem.objective(metric) == pytest.approx(solution.objective, abs=1e-6 * scale)
    parts = problem._learned(solution)
    assert literal_objective(problem, parts) == pytest.approx(solution.objective, abs=1e-6 * scale)


@pytest.mark.parametrize("name", ["single", "per class", "triplets", "ridge", "a class of one"])
def test_objective_is_the_papers(name: str) -> None:
    problem = problems()[name]()
    rng = np.random.default_rng(1)
    parts = [0.4 * rng.standard_normal((2, 3)) for _ in range(problem.n_metrics)]
    expected = literal_objective(problem, parts)
    metric = sdpkit.results.metric.Metric(
        components=tuple(parts),
        X=problem.X,
        labels=problem.labels,
        classes=problem.classes,
        block_of=problem.block_of,
        target_pairs=problem.target_pairs,
        n_neighbors=2,
        mu=problem.mu,
    )
    assert problem.objective(metric) == pytest.approx(expected, rel=1e-10)
    if problem.n_metrics == 1:
        assert problem.objective(parts[0]) == pytest.approx(expected, rel=1e-10)
    else:
        with pytest.raises(InputError, match="1 metrics for a problem with 3"):
            problem.objective(parts[0])


@pytest.mark.parametrize("factor", [4.0, 1e4, 1e8])
def test_a_start_far_too_large_is_no_dead_end(factor: float) -> None:
    """No triplet is violated there, and without any the metric shrank to 0 and stayed."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    problem = LMNN(rng.standard_normal((40, 5)) + 12.0 * y[:, None], y)
    solution = sdpkit.solve(problem)
    large = tuple(factor * np.asarray(m) for m in solution.matrices)
    start = dataclasses.replace(solution, matrices=large, rows=None, dual=None)
    again = sdpkit.solve(problem, solver="factored", warm_start=start)
    assert again.status is Status.OPTIMAL
    assert again.objective == pytest.approx(solution.objective, rel=2e-3)


# -- theorems -------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=6, max_size=12),
    st.integers(1, 2),
    st.sampled_from([0.2, 0.5, 0.8]),
)
def test_on_a_line_the_optimum_is_at_a_breakpoint(places: list[int], k: int, mu: float) -> None:
    """In one dimension the objective is convex and piecewise linear in the number M."""
    x = np.array(places, dtype=float)[:, None] / 4
    y = np.arange(len(places)) % 2
    problem = LMNN(x, y, n_neighbors=k, mu=mu)
    breaks = {0.0}
    for i, j in problem.target_pairs.tolist():
        for o in np.flatnonzero(y != y[i]):
            difference = (x[i, 0] - x[o, 0]) ** 2 - (x[i, 0] - x[j, 0]) ** 2
            if difference > 0:
                breaks.add(1 / difference)
    best = min(literal_objective(problem, [np.array([[np.sqrt(m)]])]) for m in breaks)
    solution = solved(problem, tol=1e-5)
    assert solution.objective == pytest.approx(best, rel=2e-5, abs=1e-5 * mu)
    assert solution.certificate.safe_bound <= best * (1 + 1e-12) + 1e-12


def test_two_pairs_on_a_line() -> None:
    """At 0, 1 and 3, 4: the nearest impostors meet the margin at 1 + M = 4M."""
    problem = LMNN([[0.0], [1.0], [3.0], [4.0]], ["a", "a", "b", "b"], n_neighbors=1)
    solution = solved(problem)
    assert solution.objective == pytest.approx(2 / 3, rel=1e-6)
    assert problem.recover(solution).matrix[0, 0] == pytest.approx(1 / 3, rel=1e-5)


@functools.cache
def iris(tol: float = 1e-6) -> tuple[LMNN, Solution]:
    problem = LMNN(*load_iris(return_X_y=True), n_neighbors=3)
    return problem, solved(problem, tol)


@pytest.mark.parametrize("name", ["iris", "per class", "given targets", "triplets"])
def test_optimality_conditions(name: str) -> None:
    """Objective − Σα = <M, G> + Σ (μ−α)[z]₊ + Σ α[−z]₊, three terms that must all vanish."""
    problem, solution = iris() if name == "iris" else (problems()[name](), None)
    solution = solution or solved(problem)
    assert solution.rows is not None
    program, alpha = solution.program, solution.dual
    assert alpha is not None
    assert alpha.min() >= 0
    assert alpha.max() <= problem.mu
    family = program.family
    terms = family.terms(solution.rows)
    z = values(family, terms, program.outputs(solution.matrices))
    images = program.family_images(terms, alpha)
    slacks = [b.cost.dense() + a for b, a in zip(program.blocks, images, strict=True)]
    inner = sum(float(np.vdot(m, g)) for m, g in zip(solution.matrices, slacks, strict=True))
    above = float((problem.mu - alpha) @ np.maximum(z, 0.0))
    below = float(alpha @ np.maximum(-z, 0.0))
    counted = np.maximum(z, 0.0).sum()
    outside = problem.mu * (family.hinge_sum(program.outputs(solution.matrices)) - counted)
    size = solution.objective
    gap = size - float(alpha.sum())
    assert gap == pytest.approx(inner + above + below + outside, abs=1e-9 * size)
    for term in (inner, above, below, outside):
        assert -1e-9 * size <= term <= 1e-5 * size
    for m, g in zip(solution.matrices, slacks, strict=True):
        assert np.linalg.eigvalsh(g)[0] >= -1e-6
        assert np.abs(m @ g).max() <= 0.01 * np.abs(m).max()


def test_dual_in_the_papers_coordinates() -> None:
    """(1−μ)P + Σα(C_ij − C_il) ⪰ 0 from the raw data, and its product with M is nothing."""
    problem, solution = iris()
    X, mu = np.asarray(problem.X), problem.mu
    assert solution.rows is not None
    i, j = problem.target_pairs.T
    pull = (X[i] - X[j]).T @ (X[i] - X[j])
    terms = solution.program.family.terms(solution.rows)
    (i, j), other = terms.pulls[terms.pull].T, terms.pushes[terms.push, 1]
    near, far = X[i] - X[j], X[i] - X[other]
    alpha = solution.dual
    G = (1 - mu) * pull + (alpha * near.T) @ near - (alpha * far.T) @ far
    assert np.linalg.eigvalsh(G)[0] >= -1e-6 * np.linalg.norm(pull, 2)
    M = problem.recover(solution).matrix
    assert abs(np.vdot(M, G)) <= 1e-5 * np.vdot(M, (1 - mu) * pull)
    value = solution.objective
    assert value == pytest.approx(problem.objective(problem.recover(solution)), rel=1e-9)
    assert alpha.sum() <= value <= alpha.sum() * (1 + 2e-6)


def separated() -> tuple[Array, NDArray[np.int64]]:
    """Two classes apart in a direction in which neither has any extent."""
    rng = np.random.default_rng(3)
    X = np.c_[rng.standard_normal((20, 2)), np.repeat([0.0, 1e-3], 10)]
    return X @ np.linalg.qr(rng.standard_normal((3, 3)))[0], np.repeat([0, 1], 10)


@pytest.mark.parametrize("solver", ENGINES)
def test_classes_that_part_for_free_cost_nothing(solver: str) -> None:
    problem = LMNN(*separated())
    solution = solved(problem, tol=1e-4, solver=solver)
    assert solution.status is Status.OPTIMAL
    assert solution.objective <= 1e-4
    assert any("at no cost" in note for note in solution.notes)
    metric = problem.recover(solution)
    assert problem.objective(metric) <= 1e-4
    assert metric.leave_one_out_error() == 0


@pytest.mark.parametrize("metrics", ["single", "per_class"])
def test_points_that_are_all_equal(metrics: str) -> None:
    """No metric parts them: every hinge is 1."""
    y = np.repeat([0, 1], 4)
    problem = LMNN(np.ones((8, 2)), y, n_neighbors=2, metrics=metrics)
    solution = solved(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(0.5 * 8 * 2 * 4)


# -- invariance -----------------------------------------------------------------------------


@functools.cache
def reference(metrics: str) -> tuple[LMNN, float]:
    X, y = blobs(2, n=24)
    problem = LMNN(X, y, n_neighbors=2, metrics=metrics)
    return problem, solved(problem, 1e-5).objective


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 2**31),
    st.floats(-6, 6),
    st.floats(-3, 3),
    st.sampled_from(["single", "per_class"]),
)
def test_rotation_scale_shift_and_order_do_not_matter(
    seed: int, log_scale: float, log_shift: float, metrics: str
) -> None:
    problem, value = reference(metrics)
    X, y = np.asarray(problem.X), problem.labels
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    order = rng.permutation(len(X))
    scale = 10.0**log_scale
    moved = scale * (X @ rotation + 10.0**log_shift * rng.standard_normal(3))[order]
    other = LMNN(moved, y[order], n_neighbors=2, metrics=metrics)
    assert {(order[i], order[j]) for i, j in other.target_pairs} == {
        tuple(pair) for pair in problem.target_pairs
    }
    solution = solved(other, 1e-5)
    assert solution.objective == pytest.approx(value, rel=2e-5)
    # M takes the inverse unit of the data squared.
    if metrics == "single":
        back = scale**2 * rotation @ other.recover(solution).matrix @ rotation.T
        assert problem.objective(np.linalg.cholesky(back + 1e-15 * np.eye(3)).T) == pytest.approx(
            value, rel=2e-5
        )


@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(-9, 9), min_size=3, max_size=3))
def test_units_of_the_features_do_not_matter(exponents: list[float]) -> None:
    """For given targets the problem is invariant under every regular linear map."""
    problem, value = reference("single")
    units = 10.0 ** np.array(exponents)
    table = target_table(problem.target_pairs, len(problem.X))
    other = LMNN(problem.X * units, problem.labels, targets=table)
    solution = solved(other, 1e-5)
    assert not any("for free" in note for note in solution.notes)
    assert solution.objective == pytest.approx(value, rel=2e-5)
    assert other.objective(other.recover(solution)) == pytest.approx(value, rel=2e-5)


def test_a_small_feature_is_not_a_free_one() -> None:
    """Petal widths in kilometres: small numbers, but not directions without pull."""
    X, y = load_iris(return_X_y=True)
    table = target_table(target_neighbors(X, y, 3), len(X))
    expected = iris()[1].objective
    for units in ([1, 1, 1, 1e-8], [1e8, 1, 1, 1]):
        solution = sdpkit.solve(LMNN(X * units, y, targets=table))
        assert solution.objective == pytest.approx(expected, rel=1.1e-3)


# -- bounds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("metrics", ["single", "per_class"])
@settings(max_examples=3, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(6, 16),
    d=st.integers(1, 4),
    k=st.integers(1, 3),
    mu=st.sampled_from([0.1, 0.5, 0.9]),
    whole=st.booleans(),
)
def test_no_engines_point_is_below_anothers_bound(
    metrics: str, seed: int, n: int, d: int, k: int, mu: float, whole: bool
) -> None:
    X, y = blobs(seed, n, d, classes=2)
    problem = LMNN(np.round(X) if whole else X, y, n_neighbors=k, mu=mu, metrics=metrics)
    values, bounds = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for solver in ENGINES:
            steps = {"subgradient": 60, "subgradient-published": 60, "projected": 300}.get(solver)
            solution = sdpkit.solve(problem, solver=solver, tol=1e-4, max_iter=steps)
            values[solver] = problem.objective(problem.recover(solution))
            bounds[solver] = solution.certificate.safe_bound
            # Where nothing pulls, the program's metric costs and the recovered one does not.
            above = values[solver] > solution.objective
            assert not above or solution.is_within_gap(values[solver])
            if steps is None:  # first order in M: no rate is promised
                assert solution.status is Status.OPTIMAL, solver
    for (one, value), (other, bound) in itertools.product(values.items(), bounds.items()):
        assert bound <= value * (1 + 1e-9) + 1e-9, (one, other)


def test_wine_is_certified() -> None:
    X, y = load_wine(return_X_y=True)
    solution = sdpkit.solve(LMNN(X, y))
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.relative_gap <= 1e-3
    assert solution.solver == "factored"
    verified = solution.certificate.verify()
    assert verified
    assert verified.bound <= solution.objective


@pytest.mark.parametrize(("n", "d", "seed"), [(160, 25, 3), (240, 34, 1), (240, 34, 10)])
def test_few_points_are_not_judged_by_a_sample(n: int, d: int, seed: int) -> None:
    """A tight class in a loose one: a few points say nothing about the rows of the others."""
    y = np.arange(n) % 2
    X = np.random.default_rng(seed).standard_normal((n, d)) * np.array([1.0, 6.0])[y][:, None]
    solution = sdpkit.solve(LMNN(X, y), solver="factored")
    assert solution.status is Status.OPTIMAL


def test_a_saddle_in_one_of_many_blocks_is_left() -> None:
    """The factor of one class lacks a direction with a gradient of a few thousandths."""
    rng, y = np.random.default_rng(1), np.arange(400) % 8
    X = rng.standard_normal((400, 8)) * rng.uniform(0.2, 2, (8, 8))[y]
    X += 1.2 * rng.standard_normal((8, 8))[y]
    solution = sdpkit.solve(LMNN(X, y, metrics="per_class"), solver="factored")
    assert solution.status is Status.OPTIMAL
    assert solution.iterations < 1500


# -- the data -------------------------------------------------------------------------------


def literal_targets(X: Array, y: NDArray[Any], k: int) -> list[list[int]]:
    out = []
    for i in range(len(X)):
        same = [j for j in range(len(X)) if j != i and y[j] == y[i]]
        ranked = sorted(same, key=lambda j: (float(np.square(X[i] - X[j]).sum()), j))
        out += [[i, j] for j in sorted(ranked[:k])]
    return out


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(4, 20), st.sampled_from([0, 1e6]))
def test_targets_are_nearest_by_distance_then_index(seed: int, k: int, n: int, far: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, 2)).astype(float) + far
    y = np.r_[0, 0, 1, rng.integers(0, 3, n - 3)]
    assert LMNN(X, y, n_neighbors=k).target_pairs.tolist() == literal_targets(X, y, k)


def test_labels_of_any_kind() -> None:
    X, y = blobs(4)
    prints = set()
    for labels in (
        y,
        y.astype(float),
        np.array(["x", "y", "z"])[y],
        np.array(["x", "y", "z"], dtype=object)[y].tolist(),
        (y - 7).astype(np.int8),
        np.array("2026-01-01", dtype="M8[D]") + y,
    ):
        problem = LMNN(X, labels, n_neighbors=2)
        assert np.array_equal(problem.classes[problem.labels], np.asarray(labels))
        prints.add(problem.program().fingerprint)
    assert len(prints) == 1
    assert LMNN(X, y == 0, n_neighbors=2).classes.tolist() == [False, True]


def test_inputs_are_not_changed_and_not_shared() -> None:
    X, y = blobs(4)
    before = X.copy()
    problem = LMNN(X, y, n_neighbors=2)
    fingerprint = problem.program().fingerprint
    X[:] = 0.0
    y[:] = 0
    assert np.array_equal(problem.points, before)
    assert LMNN(before, problem.labels, n_neighbors=2).program().fingerprint == fingerprint
    with pytest.raises(ValueError, match="read-only"):
        problem.points[0, 0] = 1.0


def test_many_neighbours_are_all_there_are() -> None:
    X, y = blobs(4)
    assert len(LMNN(X, y, n_neighbors=500).target_pairs) == 18 * 5


def test_repr() -> None:
    X, y = blobs(4)
    assert repr(LMNN(X, y, metrics="per_class")) == (
        "<LMNN: 18 points of 3 classes in 3 dimensions, 54 target pairs, 3 metrics, mu 0.5>"
    )
    assert "comparisons" in str(LMNN(X, y).program())


GOOD_X, GOOD_Y = blobs(4)
GRAM = GOOD_X @ GOOD_X.T
FULL = np.exp(-5 * np.square(GOOD_X[:, None] - GOOD_X).sum(-1))
BAD: list[tuple[dict[str, Any], str]] = [
    ({"y": np.zeros(18)}, "all points have the label 0.0"),
    ({"y": None}, "needs labels y, or triplets"),
    ({"y": GOOD_Y[:5]}, r"shape \(5,\), expected \(18,\)"),
    ({"y": GOOD_Y[:, None]}, "one label per point"),
    ({"y": np.where(GOOD_Y == 0, np.nan, GOOD_Y)}, "NaN"),
    ({"y": np.array([np.nan, *GOOD_Y[1:]], dtype=object)}, "NaN"),
    ({"y": np.array([None, "a"] * 9, dtype=object)}, "put in order"),
    ({"y": np.arange(18)}, "no class has two members"),
    ({"X": np.where(GOOD_X > 2, np.nan, GOOD_X)}, "NaN or infinite"),
    ({"X": np.inf * GOOD_X}, "NaN or infinite"),
    ({"X": GOOD_X[:, 0]}, r"shape \(18,\)"),
    ({"X": GOOD_X[:1], "y": [0]}, "n ≥ 2"),
    ({"X": GOOD_X[:, :0]}, "shape"),
    ({"X": [["a"] * 3] * 18}, "real numbers"),
    ({"X": [[1, 2], [3]]}, "array of numbers"),
    ({"X": 1j * GOOD_X}, "complex"),
    ({"X": None}, "pass the points X"),
    ({"mu": 0}, "between 0 and 1"),
    ({"mu": 1}, "between 0 and 1"),
    ({"mu": -0.5}, "between 0 and 1"),
    ({"mu": np.nan}, "between 0 and 1"),
    ({"mu": "0.5"}, "between 0 and 1"),
    ({"n_neighbors": 0}, "pass an integer of at least 1"),
    ({"n_neighbors": 1.5}, "pass an integer of at least 1"),
    ({"n_neighbors": np.nan}, "pass an integer of at least 1"),
    ({"n_neighbors": None}, "pass an integer of at least 1"),
    ({"n_neighbors": "3"}, "pass an integer of at least 1"),
    ({"n_components": 0}, "pass an integer of at least 1"),
    ({"n_components": 1.5}, "pass an integer of at least 1"),
    ({"ridge": -1}, "nonnegative"),
    ({"ridge": np.inf}, "nonnegative"),
    ({"ridge": "a"}, "nonnegative"),
    ({"search": "kd"}, "'auto', 'blocks' or 'tree'"),
    ({"metrics": "many"}, "'single', 'per_class'"),
    ({"metrics": 0}, "1 … 18 clusters"),
    ({"metrics": 19}, "1 … 18 clusters"),
    ({"metrics": 2.5}, "whole numbers"),
    ({"metrics": [0, 1]}, "expected"),
    ({"metrics": np.where(GOOD_Y == 0, np.nan, 1.0)}, "whole numbers"),
    ({"targets": np.zeros((3, 1), int)}, "expected integers"),
    ({"targets": np.zeros((18, 1))}, "expected integers"),
    ({"targets": np.full((18, 1), 18)}, "outside"),
    ({"targets": np.full((18, 1), -1)}, "no target neighbours"),
    ({"targets": np.zeros((18, 1), int)}, "own target|label of its anchor"),
    ({"targets": (np.arange(18)[:, None] + 1) % 18}, "label of its anchor"),
    ({"triplets": [[0, 1, 18]]}, "outside"),
    ({"triplets": [[0, 1]]}, "shape"),
    ({"triplets": [[0, 1, 1]]}, "three different"),
    ({"triplets": [[0, 1, 2.5]]}, "whole numbers"),
    ({"rank": 2}, "rank belongs to a kernel"),
    ({"kernel": GRAM, "rank": 2}, "not both"),
    ({"X": None, "kernel": GRAM}, "degenerate"),
    ({"X": None, "kernel": GRAM, "rank": 4}, "has rank 3"),
    ({"X": None, "kernel": GRAM, "rank": 0}, "pass an integer of at least 1"),
    ({"X": None, "kernel": GRAM[:5], "rank": 2}, "square"),
    ({"X": None, "kernel": np.triu(GRAM), "rank": 2}, "symmetric"),
    ({"X": None, "kernel": -GRAM, "rank": 2}, "negative"),
    ({"X": None, "kernel": FULL, "rank": 17}, "all of the kernel"),
    ({"X": None, "kernel": np.zeros((18, 18)), "rank": 1}, "has rank 0"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_bad_input(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        LMNN(**{"X": GOOD_X, "y": GOOD_Y, **change}).program()


def test_nothing_to_learn_from_triplets() -> None:
    """i and j agree and l differs: no pull, and the push is free."""
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]])
    with pytest.raises(InputError, match="nothing to learn"):
        LMNN(X, triplets=[[0, 1, 2]]).program()


def test_given_triplets_need_no_second_pass() -> None:
    problem = problems()["triplets"]()
    solution = solved(problem, tol=1e-3)
    with pytest.raises(InputError, match="no target neighbours to choose"):
        problem.next_pass(solution)


def test_rank_and_free_directions_do_not_go_together() -> None:
    X, y = separated()
    with pytest.raises(InputError, match="cannot be used"):
        LMNN(X, y, n_components=2).program()
    assert LMNN(X, y, n_components=2, ridge=0.1).program().blocks[0].max_rank == 2


def test_too_large_for_a_model() -> None:
    X, y = blobs(0, n=1200, d=20)
    with pytest.raises(InputError, match="too many for cvxpy"):
        LMNN(X, y).to_cvxpy()


def test_kernel_and_points_are_the_same_problem() -> None:
    """With the linear kernel at full rank of the data, kernel PCA is a rotation of the points."""
    X, y = blobs(6)
    plain, kernel = LMNN(X, y, n_neighbors=2), LMNN(None, y, n_neighbors=2, kernel=X @ X.T, rank=3)
    one, two = solved(plain), solved(kernel)
    assert two.objective == pytest.approx(one.objective, rel=3e-6)
    a, b = plain.recover(one), kernel.recover(two)
    new = np.random.default_rng(0).standard_normal((30, 3))
    assert np.array_equal(a.predict(new), b.predict(new @ X.T))
    assert np.allclose(a.distance(new, X[:1]), b.distance(new @ X.T, X[:1] @ X.T), rtol=0.02)
    assert kernel.objective(b) == pytest.approx(two.objective, rel=1e-6)


def test_kernel_features_do_not_see_a_constant() -> None:
    """K and its centred form have the same differences."""
    X, y = blobs(6)
    gram = X @ X.T
    one = LMNN(None, y, n_neighbors=2, kernel=gram, rank=2)
    two = LMNN(None, y, n_neighbors=2, kernel=gram + 40.0, rank=2)
    assert np.array_equal(one.target_pairs, two.target_pairs)
    assert solved(two, 1e-5).objective == pytest.approx(solved(one, 1e-5).objective, rel=2e-5)
