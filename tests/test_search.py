"""Warm starts: from one LMNN problem to the next, along paths, through grids, on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sdpkit
from sdpkit.errors import InputError
from sdpkit.estimators import (
    LargeMarginFromTriplets,
    LargeMarginNearestNeighbors,
    LMNNClassifier,
    WarmGridSearchCV,
)
from sdpkit.interfaces.search import _order
from sdpkit.typing import Array

GRID = {"n_neighbors": [1, 2, 3], "mu": [0.3, 0.5, 0.7]}
DIGITS_GRID = {"n_neighbors": [1, 3, 5], "mu": [0.3, 0.4, 0.5, 0.6, 0.7]}


def wine() -> tuple[Array, NDArray[np.int64]]:
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


# -- from one problem to the next -----------------------------------------------------------------


def test_the_answer_of_a_problem_starts_it_again() -> None:
    X, y = wine()
    problem = sdpkit.LMNN(X, y)
    solution = sdpkit.solve(problem, tol=1e-5)
    start = problem.start_from(problem, solution)
    assert start is not None
    assert np.array_equal(start.rows, solution.rows)
    assert start.dual == pytest.approx(solution.dual)
    scale = np.abs(solution.matrix).max()
    assert np.abs(start.matrix - solution.matrix).max() < 1e-2 * scale
    again = sdpkit.solve(problem, tol=1e-5, warm_start=start)
    assert again.iterations < 0.5 * solution.iterations
    # What the multipliers are worth: the same start without them takes longer.
    without = sdpkit.solve(problem, tol=1e-5, warm_start=replace(start, rows=None, dual=None))
    assert again.iterations < without.iterations


@pytest.mark.parametrize(
    "change",
    [{"mu": 0.7}, {"mu": 0.1}, {"n_neighbors": 5}, {"n_neighbors": 1}, {"ridge": 1.0}],
    ids=str,
)
def test_a_start_from_elsewhere_leads_to_the_same_optimum(change: dict[str, Any]) -> None:
    X, y = wine()
    first = sdpkit.LMNN(X, y)
    second = sdpkit.LMNN(X, y, **change)
    cold = sdpkit.solve(second, tol=1e-5)
    start = second.start_from(first, sdpkit.solve(first))
    warm = sdpkit.solve(second, tol=1e-5, warm_start=start)
    assert warm.status == sdpkit.Status.OPTIMAL
    assert warm.objective == pytest.approx(cold.objective, rel=1e-5)


def test_multipliers_stay_with_their_triplets() -> None:
    """Where the targets or the points differ, row numbers mean other triplets."""
    X, y = wine()
    first = sdpkit.LMNN(X, y)
    solution = sdpkit.solve(first)
    for second in (sdpkit.LMNN(X, y, n_neighbors=2), sdpkit.LMNN(X[::-1], y[::-1])):
        start = second.start_from(first, solution)
        assert start is not None
        assert (start.rows, start.dual) == (None, None)
    assert sdpkit.LMNN(X[:, :5], y).start_from(first, solution) is None
    assert sdpkit.LMNN(X, y, metrics="per_class").start_from(first, solution) is None


# -- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [LargeMarginNearestNeighbors(), LMNNClassifier()])
def test_paths_are_fits_that_start_from_one_another(estimator: Any) -> None:
    X, y = wine()
    values = [0.3, 0.4, 0.5, 0.6]
    path = estimator.mu_path(X, y, mu=values)
    cold = [clone(estimator).set_params(mu=mu).fit(X, y) for mu in values]
    assert [model.mu for model in path] == values
    for warm, model in zip(path, cold, strict=True):
        assert not warm.warm_start
        assert warm.solution_.status == sdpkit.Status.OPTIMAL
        assert warm.solution_.objective == pytest.approx(model.solution_.objective, rel=1e-3)
    assert sum(m.n_iter_ for m in path[1:]) < 0.8 * sum(m.n_iter_ for m in cold[1:])
    few = estimator.n_neighbors_path(X, y, n_neighbors=[1, 3])
    assert [model.problem_.n_neighbors for model in few] == [1, 3]


def test_a_second_fit_starts_where_the_first_ended() -> None:
    X, y = wine()
    model = LargeMarginNearestNeighbors(warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first
    assert model.set_params(warm_start=False).fit(X, y).n_iter_ == first
    # Other points with as many features are a start too; other features are none.
    model.set_params(warm_start=True).fit(X[::2], y[::2])
    assert model.fit(X[:, :4], y).components_.shape[1] == 4


def test_triplets_have_a_path() -> None:
    rng = np.random.default_rng(0)
    X = load_iris().data
    a, b, c = rng.integers(0, 50, 60), rng.integers(0, 50, 60), rng.integers(50, 150, 60)
    triplets = np.stack([X[a], X[b], X[c]], axis=1)[a != b]
    for model in LargeMarginFromTriplets().mu_path(triplets, mu=[0.4, 0.5]):
        assert model.score(triplets) == 1.0


# -- grids ----------------------------------------------------------------------------------------


def test_every_candidate_starts_from_a_neighbour() -> None:
    candidates = list(ParameterGrid({**GRID, "rule": ["knn", "energy"]}))
    order = list(_order(LMNNClassifier(), candidates))
    assert sorted(k for k, _ in order) == list(range(18))
    seen: set[int] = set()
    roots = 0
    for k, before in order:
        here = candidates[k]
        if before < 0:
            roots += 1
            assert (here["mu"], here["n_neighbors"]) == (0.3, 1)
        else:
            assert before in seen
            there = candidates[before]
            assert there["rule"] == here["rule"]
            (name,) = (name for name in here if here[name] != there[name])
            assert name == ("mu" if here["mu"] > 0.3 else "n_neighbors")
            assert GRID[name].index(here[name]) - GRID[name].index(there[name]) == 1
        seen.add(k)
    assert roots == 2


@pytest.mark.slow
def test_a_warm_grid_search_is_a_grid_search() -> None:
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), PCA(random_state=0), LMNNClassifier(tol=1e-4))
    grid = {
        "pca__n_components": [4, 8],
        **{f"lmnnclassifier__{name}": values for name, values in GRID.items()},
    }
    cold = GridSearchCV(model, grid, cv=3, return_train_score=True).fit(X, y)
    warm = WarmGridSearchCV(model, grid, cv=3, return_train_score=True).fit(X, y)
    assert set(warm.cv_results_) == set(cold.cv_results_)
    assert warm.cv_results_["params"] == cold.cv_results_["params"]
    gap = warm.cv_results_["mean_test_score"] - cold.cv_results_["mean_test_score"]
    assert np.abs(gap).max() <= 2 / len(X)
    assert warm.best_params_ == cold.best_params_
    assert np.array_equal(
        warm.best_estimator_[-1].components_, cold.best_estimator_[-1].components_
    )
    assert warm.score(X, y) == cold.score(X, y)
    assert warm.n_splits_ == 3


def test_a_warm_grid_search_takes_one_score_and_warm_estimators() -> None:
    X, y = wine()
    with pytest.raises(InputError, match="pass one score"):
        WarmGridSearchCV(LMNNClassifier(), GRID, scoring=["accuracy"]).fit(X, y)
    with pytest.raises(InputError, match="True or False"):
        WarmGridSearchCV(LMNNClassifier(), GRID, refit="accuracy").fit(X, y)
    with pytest.raises(InputError, match="LogisticRegression has no warm start"):
        WarmGridSearchCV(LogisticRegression(), {"C": [1.0]}).fit(X, y)


def test_a_fit_that_fails_is_scored_as_asked() -> None:
    X, y = wine()
    grid = {"mu": [0.5, 2.0]}
    with (
        pytest.warns(UserWarning, match="test scores are non-finite"),
        pytest.warns(FitFailedWarning, match="mu is 2"),
    ):
        search = WarmGridSearchCV(LMNNClassifier(), grid, cv=2).fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"][1])
    assert search.best_params_ == {"mu": 0.5}
    with pytest.raises(InputError, match="mu is 2"):
        WarmGridSearchCV(LMNNClassifier(), grid, cv=2, error_score="raise").fit(X, y)


def same(one: Any, other: Any) -> None:
    """The same scores, parameters and metric."""
    splits = [f"split{k}_test_score" for k in range(one.n_splits_)]
    for name in splits:
        assert np.array_equal(one.cv_results_[name], other.cv_results_[name])
    assert one.best_params_ == other.best_params_
    M, N = (s.best_estimator_.get_mahalanobis_matrix() for s in (one, other))
    assert np.abs(M - N).max() <= 1e-9 * np.abs(M).max()


@pytest.mark.slow
def test_two_processes_find_the_same() -> None:
    X, y = wine()
    alone, both = (
        WarmGridSearchCV(LMNNClassifier(), GRID, cv=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)
    )
    same(alone, both)


@pytest.fixture(scope="module")
def cluster() -> Any:
    """Two processes of a Dask cluster on this machine."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.mark.slow
def test_a_dask_cluster_finds_the_same(cluster: Any) -> None:
    X, y = wine()
    search = WarmGridSearchCV(LMNNClassifier(), GRID, cv=3)
    alone = clone(search).fit(X, y)
    with joblib.parallel_config("dask"):
        there = clone(search).fit(X, y)
        plain = GridSearchCV(LMNNClassifier(), {"mu": [0.4, 0.6]}, cv=3).fit(X, y)
    same(alone, there)
    same(plain, GridSearchCV(LMNNClassifier(), {"mu": [0.4, 0.6]}, cv=3).fit(X, y))
    ran = cluster.run(lambda: len(__import__("sys").modules))
    assert len(ran) == 2


@pytest.mark.slow
def test_a_grid_on_digits(cluster: Any) -> None:
    """One warm path per fold takes a fifth fewer iterations than cold fits; two workers find it.

    `make bench NAME=grid` prints the processor time of both, for a grid of five by five.
    """
    X, y = load_digits(return_X_y=True)
    found, iterations = {}, {}
    for search in (GridSearchCV, WarmGridSearchCV):
        counts: list[int] = []

        def score(model: Any, X: Array, y: Array, counts: list[int] = counts) -> float:
            counts.append(model.n_iter_)
            return float(model.score(X, y))

        found[search] = search(LMNNClassifier(), DIGITS_GRID, cv=3, scoring=score).fit(X, y)
        iterations[search] = sum(counts)
    cold, warm = found[GridSearchCV], found[WarmGridSearchCV]
    assert abs(warm.best_score_ - cold.best_score_) <= 2 / len(X)
    assert iterations[WarmGridSearchCV] < 0.8 * iterations[GridSearchCV]
    with joblib.parallel_config("dask"):
        there = WarmGridSearchCV(LMNNClassifier(), DIGITS_GRID, cv=3).fit(X, y)
    same(warm, there)
