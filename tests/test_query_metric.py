"""The query metric: Algorithm 1 step by step, its limits, its conventions and its selection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import sdpkit
from sdpkit import CoveringEllipsoid, InputError, QueryMetric
from sdpkit.typing import Array


def iris() -> tuple[Array, NDArray[np.int64]]:
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def sheet(n: int) -> Array:
    """Points of a plane in five dimensions with a little noise."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    return 10 * rng.standard_normal((n, 2)) @ basis.T + 0.01 * rng.standard_normal((n, 5))


def test_algorithm_one_by_hand() -> None:
    """Neighbours, ellipsoid by the problem object, eigenvalues, weights, distances."""
    X, y = iris()
    train, labels, queries = X[::2], y[::2], X[1::20]
    tau, rho, gamma, m = 0.3, 0.05, 0.1, 12
    model = QueryMetric(n_local=m, tau=tau, rho=rho, gamma=gamma, n_neighbors=5).fit(train, labels)
    metrics = model.metrics(queries)
    assert metrics.gaps.max() <= 1e-11
    lengths, found = model.kneighbors(queries)
    for k, query in enumerate(queries):
        local = np.argsort(np.linalg.norm(train - query, axis=1), kind="stable")[:m]
        problem = CoveringEllipsoid(train[local], center=query, gamma=gamma)
        S = problem.recover(sdpkit.solve(problem, tol=1e-11)).shape
        values, vectors = np.linalg.eigh(S)
        weights = np.where(values / values[-1] > tau, rho, values[0] / values)
        M = (vectors * weights) @ vectors.T
        assert metrics.dimensions[k] == np.sum(values / values[-1] > tau)
        assert metrics.matrices[k] == pytest.approx(M, abs=1e-5)
        distances = np.einsum("ij,jk,ik->i", train - query, M, train - query)
        assert lengths[k] == pytest.approx(np.sort(distances)[:5], rel=1e-4)
        assert distances[found[k]] == pytest.approx(np.sort(distances)[:5], rel=1e-4)


def test_the_intrinsic_dimension_of_a_sheet() -> None:
    X = sheet(300)
    model = QueryMetric(n_local=20, tau=0.05, gamma=1e-4).fit(X, np.zeros(300))
    dimensions = model.intrinsic_dimension(X[:50])
    assert np.median(dimensions) == 2
    assert (dimensions <= 2).all()
    # Tangent directions are those of the sheet.
    tangent = model.metrics(X[:50]).directions[:, :, :2]
    plane = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:2].T
    assert np.abs(np.linalg.norm(plane.T @ tangent, axis=1) - 1).max() < 0.05


def test_rho_zero_ignores_the_manifold_and_rho_one_follows_it() -> None:
    X = sheet(200)
    query = X[:1]
    for rho, near in ((0.0, False), (1.0, True)):
        model = QueryMetric(n_local=20, tau=0.05, rho=rho, gamma=1e-4, n_neighbors=5)
        found = model.fit(X, np.zeros(200)).kneighbors(query)[1][0]
        euclidean = np.argsort(np.linalg.norm(X - query, axis=1))[:5]
        assert (set(found) == set(euclidean)) is near


def test_all_tangent_is_euclidean() -> None:
    """τ = 0: every direction counts as tangent, whatever ρ is."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    euclidean = KNeighborsClassifier(1).fit(X[::2], y[::2]).predict(X[1::2])
    for rho in (0.0, 0.5):
        model = QueryMetric(n_neighbors=1, tau=0.0, rho=rho).fit(X[::2], y[::2])
        assert np.array_equal(model.predict(X[1::2]), euclidean)


def test_votes_follow_the_tie_rule() -> None:
    """Two against two among four: the neighbourhood shrinks to the nearest three."""
    X = np.array([[1.0], [1.1], [-1.2], [-1.3], [9.0]])
    labels = ["a", "b", "b", "a", "a"]
    model = QueryMetric(n_neighbors=4, n_local=3, tau=0.0).fit(X, labels)
    assert model.predict([[0.0]])[0] == "b"
    assert model.set_params(n_neighbors=2).predict([[0.0]])[0] == "a"


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000))
def test_rotation_and_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, queries = rng.standard_normal((60, 3)), rng.standard_normal((10, 3))
    turn, scale = np.linalg.qr(rng.standard_normal((3, 3)))[0], 10.0 ** rng.uniform(-3, 3)
    y = rng.integers(0, 3, 60)
    base = QueryMetric(gamma=0.1).fit(X, y).metrics(queries)
    moved = (
        QueryMetric(gamma=0.1 * scale**2).fit(scale * X @ turn, y).metrics(scale * queries @ turn)
    )
    assert moved.eigenvalues / scale**2 == pytest.approx(base.eigenvalues, rel=1e-4)
    assert np.array_equal(moved.dimensions, base.dimensions)


def test_each_query_is_independent_of_its_batch() -> None:
    X, y = iris()
    model = QueryMetric(n_neighbors=3).fit(X[::2], y[::2])
    together = model.metrics(X[1::2])
    alone = model.metrics(X[7:8])
    assert np.array_equal(alone.eigenvalues[0], together.eigenvalues[3])
    assert np.array_equal(alone.dimensions[0], together.dimensions[3])


# -- conventions and selection ---------------------------------------------------------------------


def test_scikit_learn_takes_it() -> None:
    X, y = iris()
    model = QueryMetric(n_neighbors=3, rho=0.03)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy is not model
    scores = cross_val_score(model, X, y, cv=5)
    assert scores.mean() > 0.9
    grid = GridSearchCV(model, {"rho": [0.01, 1.0]}, cv=3).fit(X, y)
    assert set(grid.best_params_) == {"rho"}
    assert model.fit(X, y) is model
    assert model.score(X, y) > 0.9
    assert list(model.classes_) == [0, 1, 2]
    assert repr(model) == "QueryMetric(rho=0.03)"


def test_selection_takes_the_least_error() -> None:
    X, y = iris()
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = QueryMetric(n_neighbors=3)
    chosen = model.selected(X, names, n_local=[8, 20], rho=[0.0, 0.03, 1.0], cv=5)
    assert chosen.cv_errors_.shape == (2, 3)
    a, b = [8, 20].index(chosen.n_local or 0), [0.0, 0.03, 1.0].index(chosen.rho)
    assert chosen.cv_errors_[a, b] == chosen.cv_errors_.min()
    assert chosen.cv_errors_.max() > chosen.cv_errors_.min()
    assert set(chosen.predict(X)) == set(names)
    # The table is what fitting and predicting fold by fold gives.
    by_hand = 0
    from sklearn.model_selection import StratifiedKFold

    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, names):
        part = QueryMetric(n_neighbors=3, n_local=20, rho=0.03).fit(X[train], names[train])
        by_hand += int(np.sum(part.predict(X[test]) != names[test]))
    assert chosen.cv_errors_[1, 1] == pytest.approx(by_hand / len(X))


# -- bad input ------------------------------------------------------------------------------------


def test_bad_input() -> None:
    X, y = iris()
    for parameters, words in (
        ({"tau": -0.1}, "tau"),
        ({"tau": 2.0}, "tau"),
        ({"rho": 1.5}, "rho"),
        ({"rho": np.nan}, "rho"),
        ({"gamma": -1.0}, "gamma"),
        ({"gamma": "some"}, "gamma"),
        ({"n_local": 0}, "n_local"),
        ({"n_local": 2.5}, "n_local"),
        ({"n_local": 151}, "n_local"),
        ({"n_local": 3, "gamma": 0.0}, "fewer than the 4 dimensions"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_neighbors": 151}, "n_neighbors"),
    ):
        with pytest.raises(InputError, match=words):
            QueryMetric(**parameters).fit(X, y)
    # What scikit-learn checks itself, it says in its own words.
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        QueryMetric().fit(X, y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        QueryMetric().fit(np.nan * X, y)
    with pytest.raises(NotFittedError, match="not fitted"):
        QueryMetric().predict(X)
    model = QueryMetric().fit(X, y)
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="Invalid parameter 'speed'"):
        model.set_params(speed=3)
    with pytest.raises(InputError, match="two folds"):
        model.selected(X, y, n_local=[10], rho=[0.1], cv=1)
    with pytest.raises(InputError, match="at least one value"):
        model.selected(X, y, n_local=[], rho=[0.1])


def test_flat_neighbourhoods_need_gamma() -> None:
    flat = np.c_[np.random.default_rng(0).standard_normal((30, 2)), np.zeros(30)]
    with pytest.raises(InputError, match="lie in a subspace"):
        QueryMetric(gamma=0.0).fit(flat, np.zeros(30)).predict(flat[:3])
    assert QueryMetric(gamma=0.1).fit(flat, np.zeros(30)).predict(flat[:3]).shape == (3,)


def test_pictures_of_query_metrics() -> None:
    pytest.importorskip("matplotlib")
    from sdpkit.plotting import plot_query_metrics

    X, y = iris()
    model = QueryMetric().fit(X[:, :2], y)
    ax = plot_query_metrics(model.metrics(X[:7, :2]), X[:, :2], y)
    assert len(ax.lines) == 7


def test_rho_as_printed_has_the_unit_of_the_data() -> None:
    """Algorithm 1, step 4, literally: diag(ρ, …, ρ, 1/λ_{d₀+1}, …, 1/λ_d)."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)) * [5.0, 2.0, 0.5, 0.2], np.arange(60) % 2
    options = {"n_local": 20, "rho": 0.3, "gamma": 0.0, "tau": 0.3}
    model = QueryMetric(**options, variant="published").fit(X, y)
    metrics = model.metrics(X[:6])
    assert len(set(metrics.dimensions)) >= 1
    for weights, values, d0 in zip(
        metrics.weights, metrics.eigenvalues, metrics.dimensions, strict=True
    ):
        np.testing.assert_allclose(weights, np.r_[np.full(d0, 0.3), 1 / values[d0:]])
    # In other units it is another metric; ours is the same.
    for variant, same in (("published", False), ("relative", True)):
        found = [
            QueryMetric(**options, variant=variant).fit(s * X, y).kneighbors(s * X, 5)[1]
            for s in (1.0, 30.0)
        ]
        assert np.array_equal(*found) is same
    with pytest.raises(InputError, match="'relative' or 'published'"):
        QueryMetric(variant="literal").fit(X, y)


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The command's own function, on a part of what it measures."""
    from bench import ellipsoids

    ellipsoids._batch_speed(count=20, sample=1)
    assert "times faster" in capsys.readouterr().out
