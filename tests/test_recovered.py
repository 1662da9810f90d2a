"""What is recovered is what was proven: the objective of the object that a user holds."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import sdpkit
from sdpkit import (
    LMNN,
    MMC,
    MVE,
    MVU,
    ConvergenceWarning,
    CoveringEllipsoid,
    DistanceMixture,
    Embedding,
    KernelMixture,
    Localization,
    OutOfSample,
    PairMargins,
    Solution,
    Status,
    VariationalMVU,
    estimators,
)
from sdpkit.problems.graph_kernels import adjacency_weights, laplacian_kernel
from sdpkit.results.ellipsoid import cover
from sdpkit.results.targets import target_table
from sdpkit.testing.problems import shortfall
from sdpkit.typing import Array

RNG = np.random.default_rng(0)
CLOUD = RNG.standard_normal((20, 3)) * [1.0, 1.0, 0.3]
TWICE = np.r_[CLOUD, CLOUD[:3]]
APART = np.r_[CLOUD, CLOUD + 50]
LENGTHS = np.linalg.norm(CLOUD[:, None] - CLOUD, axis=2)
FLAT = CLOUD * [1.0, 1.0, 0.0]
PLACES = RNG.random((24, 2))
MEASURED = np.linalg.norm(PLACES[:, None] - PLACES, axis=2)
MEASURED[MEASURED > 0.7] = 0
NOISY = MEASURED * (1 + 0.2 * np.triu(RNG.random(MEASURED.shape)))
NOISY = np.triu(NOISY) + np.triu(NOISY).T
THREE = np.arange(60) % 3
TOLD = RNG.standard_normal((60, 4)) + np.eye(3, 4)[THREE]


def anchored(table: Array, **options: Any) -> Localization:
    return Localization(
        table[4:, 4:], anchors=PLACES[:4], anchor_lengths=table[4:, :4], n_basis=None, **options
    )


def new_point(variant: Any, error: float) -> OutOfSample:
    near = RNG.standard_normal((5, 2))
    lengths = np.linalg.norm(near - [1.0, 2.0], axis=1) * (1 + error * np.arange(5))
    return OutOfSample(near, lengths, variant=variant)


def with_feature(column: Array) -> Array:
    return np.c_[TOLD, column]


def nearly_constant(noise: float, values: tuple[float, float, float]) -> Array:
    """A feature that is constant within each class but for noise."""
    rng = np.random.default_rng(1)
    return with_feature(np.array(values)[THREE] + noise * rng.standard_normal(60))


def rounded(digits: int) -> Array:
    """Linear combinations of features, rounded: directions that only rounding fills."""
    return np.c_[TOLD, (TOLD @ [[1.0, 2.0], [1.0, -1.0], [1.0, -1.0], [0.5, 0.0]]).round(digits)]


def from_zero(size: float) -> Array:
    """A feature that is constant in one class, and comes close to it in the others."""
    steps = size * 10 ** np.linspace(-1, 3, 60)
    return with_feature(np.where(THREE == 0, 0.0, steps))


def one_hot() -> Array:
    rng = np.random.default_rng(2)
    kinds = (THREE + (rng.random((3, 60)) < 0.2)) % 3
    return np.hstack([np.eye(3)[row] for row in kinds])


def embeddings() -> dict[str, Callable[[], Any]]:
    forms = {
        f"MVU, {form}": lambda form=form: MVU(CLOUD, n_neighbors=5, form=form)
        for form in ("equality", "inequality", "slack", "min_trace")
    }
    return forms | {
        "MVU, coincident points": lambda: MVU(TWICE, n_neighbors=5),
        "MVU, components": lambda: MVU(APART, n_neighbors=5, connect="components"),
        "MVU, components with slack": lambda: MVU(
            APART, n_neighbors=5, connect="components", form="slack"
        ),
        "MVU, bridge": lambda: MVU(APART, n_neighbors=5, connect="bridge"),
        "MVU, angles": lambda: MVU(CLOUD, n_neighbors=3, angles=True),
        "MVU, distances": lambda: MVU(distances=LENGTHS, n_neighbors=5),
        "MVU, kernel": lambda: MVU(kernel=CLOUD @ CLOUD.T, n_neighbors=5),
        "MVU, graph": lambda: MVU(graph=sdpkit.datasets.cycle_graph(7)),
        "MVU, full": lambda: MVU(CLOUD, n_neighbors=4, full=True),
        "MVE": lambda: MVE(CLOUD, n_neighbors=5),
        "MVE, slack": lambda: MVE(CLOUD, n_neighbors=5, form="slack"),
        "MVE, weights": lambda: MVE(CLOUD, n_neighbors=5, weights=[3, 2, 0.5]),
        "MVE, components": lambda: MVE(APART, n_neighbors=5, connect="components"),
        "MVE, full": lambda: MVE(CLOUD, n_neighbors=5, full=True),
        "variational": lambda: VariationalMVU(CLOUD, n_neighbors=5, n_basis=6),
        "variational, norm": lambda: VariationalMVU(
            CLOUD, n_neighbors=5, n_basis=6, penalty="norm"
        ),
        "variational, lle": lambda: VariationalMVU(CLOUD, n_neighbors=5, n_basis=6, basis="lle"),
    }


def metrics() -> dict[str, Callable[[], Any]]:
    """Metric learning, with every kind of direction that costs nothing or next to nothing."""
    classes: dict[str, Any] = {"single": "single", "per class": "per_class", "clusters": 3}
    data = {
        "plain": lambda: TOLD,
        "constant feature": lambda: with_feature(np.ones(60)),
        "constant in classes": lambda: nearly_constant(0.0, (0.0, 1.0, 2.0)),
        "constant in two classes": lambda: nearly_constant(0.0, (0.0, 0.0, 1.0)),
        "constant but for 1e-12": lambda: nearly_constant(1e-12, (0.0, 0.0, 1.0)),
        "constant but for 1e-9": lambda: nearly_constant(1e-9, (0.0, 0.0, 1.0)),
        "constant but for 1e-6": lambda: nearly_constant(1e-6, (0.0, 0.0, 1.0)),
        "constant but for 1e-6, alike": lambda: nearly_constant(1e-6, (0.0, 2e-6, 1.0)),
        "constant in one class": lambda: from_zero(1e-6),
        "rounded to 5 digits": lambda: rounded(5),
        "rounded to 7 digits": lambda: rounded(7),
        "one-hot": one_hot,
        "twice": lambda: np.r_[TOLD[:30], TOLD[:30]],
        "wide": lambda: np.random.default_rng(3).standard_normal((60, 70)),
    }
    of_lmnn = {
        f"LMNN, {kind}, {name}": lambda make=make, blocks=blocks: LMNN(
            make(), THREE, metrics=blocks
        )
        for kind, blocks in classes.items()
        for name, make in data.items()
    }
    gram = np.exp(-0.2 * np.square(TOLD[:, None] - TOLD).sum(axis=2))
    flat = nearly_constant(0.0, (0.0, 1.0, 2.0))
    triplets = np.random.default_rng(4).integers(0, 60, (80, 3))
    triplets = triplets[[len(set(row)) == 3 for row in triplets.tolist()]]
    return of_lmnn | {
        "LMNN, mu": lambda: LMNN(TOLD, THREE, mu=0.9),
        "LMNN, ridge": lambda: LMNN(flat, THREE, ridge=0.5),
        "LMNN, small ridge": lambda: LMNN(flat, THREE, ridge=1e-9),
        "LMNN, triplets": lambda: LMNN(flat, triplets=triplets),
        "LMNN, triplets per class": lambda: LMNN(flat, THREE, triplets=triplets, metrics=3),
        "LMNN, rectangular": lambda: LMNN(TOLD, THREE, n_components=2),
        "LMNN, given clusters": lambda: LMNN(flat, THREE, metrics=np.arange(60) // 20),
        "LMNN, kernel of rank 5": lambda: LMNN(None, THREE, kernel=gram, rank=5),
        "LMNN, kernel and ridge": lambda: LMNN(None, THREE, kernel=gram, ridge=0.1),
        "LMNN, kernel per class": lambda: LMNN(
            None, THREE, kernel=flat @ flat.T, rank=5, metrics="per_class"
        ),
        "LMNN, kernel of a graph": lambda: LMNN(
            None, THREE, kernel=laplacian_kernel(adjacency_weights(TOLD)), rank=6
        ),
        "kernels": lambda: KernelMixture([gram, TOLD @ TOLD.T], THREE, rank=3),
        "distances": lambda: DistanceMixture([TOLD[:, :2], TOLD[:, 2:]], THREE),
        "distances, constant in classes": lambda: DistanceMixture([TOLD, flat[:, 3:]], THREE),
        "distances, nearly constant": lambda: DistanceMixture(
            [TOLD, nearly_constant(1e-7, (0.0, 0.0, 1.0))[:, 3:]], THREE
        ),
        "MMC": lambda: MMC(TOLD, THREE),
        "MMC, diagonal": lambda: MMC(TOLD, THREE, diagonal=True),
        "pairs": lambda: PairMargins(TOLD, THREE, weight=0.1),
    }


def others() -> dict[str, Callable[[], Any]]:
    centre: dict[str, Any] = {"center": [0.0] * 3}
    ellipsoids = {
        f"ellipsoid of {name}, {options}": lambda points=points, options=options: CoveringEllipsoid(
            points, **options
        )
        for name, points in (("a cloud", CLOUD), ("a plane", FLAT))
        for options in ({}, {"gamma": 0.3}, centre, centre | {"gamma": 1.0})
    }
    return ellipsoids | {
        "localization": lambda: Localization(MEASURED),
        "localization, norm": lambda: Localization(MEASURED, penalty="norm"),
        "localization, anchors": lambda: anchored(MEASURED),
        "localization, anchors and noise": lambda: anchored(NOISY),
        "localization, anchors, noise, norm": lambda: anchored(NOISY, penalty="norm"),
        "new point": lambda: new_point("centred", 0.0),
        "new point, inexact": lambda: new_point("centred", 0.2),
        "new point, published": lambda: new_point("published", 0.0),
        "new point, published, inexact": lambda: new_point("published", 0.2),
    }


# Relaxations: what they place in more dimensions, or in entries of S that nobody holds, is lost.
RELAXED = {
    "localization, anchors",
    "localization, anchors and noise",
    "localization, anchors, noise, norm",
    "new point, published",
    "new point, published, inexact",
}
ALL = embeddings() | metrics() | others()


def proven(problem: Any, solution: Solution) -> float:
    """What was certified: MVE follows g(K), which is no less than its last step's objective."""
    value = getattr(problem, "value", None)
    return solution.objective if value is None else float(value(solution))


@pytest.mark.parametrize("name", ALL)
def test_the_objective_of_what_is_recovered_is_the_certified_one(name: str) -> None:
    problem = ALL[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few are hard; what is held counts
        solution = sdpkit.solve(problem)
    recovered = problem.recover(solution)
    if isinstance(recovered, Embedding):
        whole = problem.recover(solution, n_components=_dimensions(problem))
        assert not whole.notes
        assert solution.is_within_gap(problem.objective(whole), proven(problem, solution))
    same = solution.is_within_gap(problem.objective(recovered), proven(problem, solution))
    words = shortfall(problem, solution, recovered)
    if isinstance(recovered, Embedding) or name in RELAXED:
        assert same == (not words)
    else:
        assert same
    if not same:
        assert "the certified one" in words


def _dimensions(problem: Any) -> int:
    size = getattr(problem, "basis_size", None)
    return int(problem.neighborhood.n_points - 1 if size is None else size)


@pytest.mark.parametrize("name", [name for name in metrics() if name.startswith("LMNN")])
def test_lmnn_is_proven_optimal_whatever_its_directions(name: str) -> None:
    problem = ALL[name]()
    solution = sdpkit.solve(problem)
    expected = Status.STATIONARY if problem.n_components else Status.OPTIMAL
    assert solution.status is expected


def test_fewer_dimensions_are_noted() -> None:
    problem = MVU(CLOUD, n_neighbors=5)
    solution = sdpkit.solve(problem)
    (note,) = problem.recover(solution, n_components=1).notes
    assert "1 dimension is kept, with" in note
    metric = LMNN(TOLD, THREE)
    (note,) = metric.recover(sdpkit.solve(metric)).truncated(2).notes
    assert "2 directions are kept" in note


def test_an_early_end_is_recovered_as_it_is() -> None:
    """The gap is large, but the value is that of the metric."""
    problem = LMNN(nearly_constant(0.0, (0.0, 1.0, 2.0)), THREE, metrics="per_class")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = sdpkit.solve(problem, max_iter=2)
    assert solution.status is Status.ITERATION_LIMIT
    objective = problem.objective(problem.recover(solution))
    assert objective == pytest.approx(solution.objective, rel=1e-3)


# -- free directions --------------------------------------------------------------------------


def test_free_directions_are_no_longer_than_needed_and_noted() -> None:
    """Classes 2 apart along a feature without variation: t·4 = 1 is enough, in any units."""
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    X = np.c_[1e-3 * rng.standard_normal(20), 2.0 * y]
    for unit in (1e-6, 1.0, 1e6):
        problem = LMNN(X * [1.0, unit], y, n_neighbors=1)
        metric = problem.recover(sdpkit.solve(problem, tol=1e-9))
        length = scipy.linalg.svdvals(metric.components[0] * [1.0, unit])[0]
        assert length == pytest.approx(0.5, rel=1e-3)
        (note,) = metric.notes
        norm = np.linalg.norm(metric.matrices[0], 2)  # of the matrix, as everywhere
        assert f"along 1 direction; the metric has norm {norm:.3g} there" in note


def test_rounded_dependent_features_have_norms_of_their_roundings() -> None:
    """Features that depend on each other but for rounding are no free directions.

    Metrics of 1e8 with 5,000 times the certified objective came of them.
    """
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    colours = rng.gamma(2.0, 10.0, (200, 3)) * (1 + y[:, None])
    mean = colours.mean(axis=1, keepdims=True)
    X = np.hstack([colours, mean, 2 * (colours - mean)]).astype(np.float32).astype(float)
    model = estimators.LMNNClassifier(metrics="per_class", rule="energy").fit(X[::2], y[::2])
    assert model.solution_.status is Status.OPTIMAL
    held = model.problem_.objective(model.metric_)
    assert model.solution_.is_within_gap(held)
    single = estimators.LMNNClassifier(rule="energy").fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) >= single.score(X[1::2], y[1::2]) - 0.05


def test_a_bound_with_free_directions_is_cvxpys_optimum() -> None:
    """Left-out triplets do not loosen the bound: the paper's model has the same optimum."""
    rng = np.random.default_rng(5)
    y = np.arange(18) % 3
    X = np.c_[rng.standard_normal((18, 2)), np.array([0.0, 0.0, 1.0])[y]]
    X[:, 2] += 1e-5 * rng.standard_normal(18)
    for metrics in ("single", "per_class"):
        problem = LMNN(X, y, n_neighbors=1, metrics=metrics)  # type: ignore[arg-type]
        solution = sdpkit.solve(problem, tol=1e-6)
        assert any("do not differ" in note for note in solution.notes)
        objective = problem.objective(problem.recover(solution))
        # The same problem in units that an interior-point method can solve.
        scaled = dataclasses.replace(
            problem, X=X * [1.0, 1.0, 1e5], targets=target_table(problem.target_pairs, 18)
        )
        expected = float(scaled.to_cvxpy().solve(solver="CLARABEL"))
        assert objective == pytest.approx(expected, rel=1e-4)
        assert solution.certificate.safe_bound <= expected * (1 + 1e-5)


# -- estimators -------------------------------------------------------------------------------


def fitted() -> dict[str, Callable[[], Any]]:
    flat = nearly_constant(1e-8, (0.0, 0.0, 1.0))
    i, j = np.random.default_rng(6).permutation(60).reshape(2, 30)
    pairs = np.stack([TOLD[i], TOLD[j]], axis=1)
    signs = np.where(THREE[i] == THREE[j], 1, -1)
    triplets = np.stack([TOLD[:20], TOLD[3:23], TOLD[1:21]], axis=1)
    return {
        "MVU": lambda: estimators.MaximumVarianceUnfolding().fit(CLOUD),
        "MVE": lambda: estimators.MinimumVolumeEmbedding().fit(CLOUD),
        "variational": lambda: estimators.VariationalMaximumVarianceUnfolding().fit(CLOUD),
        "LMNN": lambda: estimators.LargeMarginNearestNeighbors().fit(flat, THREE),
        "LMNN, per class": lambda: estimators.LMNNClassifier(metrics="per_class").fit(flat, THREE),
        "LMNN, clusters": lambda: estimators.LMNNClassifier(metrics=3).fit(flat, THREE),
        "LMNN, triplets": lambda: estimators.LargeMarginFromTriplets().fit(triplets),
        "MMC": lambda: estimators.MahalanobisForClustering().fit(TOLD, THREE),
        "MMC, pairs": lambda: estimators.MahalanobisForClusteringFromPairs().fit(pairs, signs),
        "pairs": lambda: estimators.PairMarginMetric().fit(TOLD, THREE),
        "given pairs": lambda: estimators.PairMarginMetricFromPairs().fit(pairs, signs),
        "ellipsoid": lambda: estimators.CoveringEllipsoidMetric().fit(CLOUD),
    }


# Without a certificate there is nothing to compare: RCA is a formula, POLA learns online, the
# search returns one of the others; query metrics are below.
WITHOUT = {
    "RelevantComponentAnalysis",
    "PseudoMetricOnlineLearning",
    "WarmGridSearchCV",
    "QueryMetric",
}


@pytest.mark.parametrize("name", fitted())
def test_estimators_hold_what_was_proven(name: str) -> None:
    model = fitted()[name]()
    held = [getattr(model, part, None) for part in ("result_", "metric_", "ellipsoid_")]
    (recovered,) = [one for one in held if one is not None]
    problem, solution = model.problem_, model.solution_
    same = solution.is_within_gap(problem.objective(recovered), proven(problem, solution))
    words = shortfall(problem, solution, recovered)
    assert same or "the certified one" in words
    assert same or isinstance(recovered, Embedding)


def test_every_estimator_is_tried() -> None:
    tried = {type(make()).__name__ for make in fitted().values()}
    assert tried | WITHOUT == set(estimators.__all__)


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_many_ellipsoids_at_once_have_the_certified_volumes(gamma: float) -> None:
    """Query metrics are made of these."""
    sets = np.random.default_rng(0).standard_normal((4, 12, 3))
    many = cover(sets, np.zeros((4, 3)), gamma=gamma)
    for k, points in enumerate(sets):
        problem = CoveringEllipsoid(points, center=np.zeros(3), gamma=gamma)
        solution = sdpkit.solve(problem, tol=1e-9)
        found = problem.objective(many[k])
        assert solution.certificate.safe_bound - 1e-9 <= found
        assert found <= solution.objective + many.gaps[k] + 1e-8
