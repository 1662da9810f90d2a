"""Metric learning as scikit-learn estimators, with the names of metric-learn for what was learned.

A metric is M = LᵀL with L = `components_`; `transform` maps x to Lx, and the distance of two points
is the Euclidean distance of their images.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sdpkit import stored
from sdpkit.errors import InputError
from sdpkit.inputs import finite_array, one_of
from sdpkit.interfaces.files import SavedMixin
from sdpkit.interfaces.fitting import CertifiedEstimator, seed_of
from sdpkit.interfaces.lazy import images, in_blocks, is_lazy
from sdpkit.layout import Expected
from sdpkit.problems.ellipsoid import CoveringEllipsoid
from sdpkit.problems.lmnn import LMNN
from sdpkit.problems.mmc import MMC
from sdpkit.problems.pair_margins import PairMargins
from sdpkit.results.ellipsoid import Ellipsoid
from sdpkit.results.metric import Metric
from sdpkit.results.relevant_components import relevant_components
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array


class MahalanobisMixin:
    """metric-learn's methods for everything that has `components_`."""

    components_: Array
    n_features_in_: int

    def get_mahalanobis_matrix(self) -> Array:
        """(d, d) M = LᵀL."""
        check_is_fitted(self)
        return np.asarray(self.components_.T @ self.components_)

    def get_metric(self) -> Callable[..., float]:
        """The distance as a function of two points, for example for scikit-learn's neighbours.

        Its keyword `squared=True` returns the squared distance.
        """
        check_is_fitted(self)
        components = self.components_.copy()

        def distance(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            image = components @ (finite_array(u, "u") - finite_array(v, "v"))
            total = float(image @ image)
            return total if squared else float(np.sqrt(total))

        return distance

    def pair_distance(self, pairs: ArrayLike) -> Array:
        """(m,) learned distances of pairs (m, 2, d)."""
        check_is_fitted(self)
        both = points_of(pairs, 2, self.n_features_in_)
        images = (both[:, 0] - both[:, 1]) @ self.components_.T
        return np.asarray(np.linalg.norm(images, axis=1))

    def pair_score(self, pairs: ArrayLike) -> Array:
        """(m,) the negative distances of pairs (m, 2, d): the larger, the more similar."""
        return -self.pair_distance(pairs)


def points_of(tuples: ArrayLike, size: int, n_features: int | None = None) -> Array:
    """(m, size, d) tuples of points, checked.

    >>> points_of([[[0, 0], [3, 4]]], 2).shape
    (1, 2, 2)
    """
    noun = {2: "pairs", 3: "triplets"}[size]
    points = finite_array(tuples, noun)
    d = "d" if n_features is None else n_features
    fits = points.ndim == 3 and points.shape[1] == size and points.size > 0
    if not fits or n_features not in (None, points.shape[2]):
        raise InputError(
            f"{noun} have shape {points.shape}: pass {size} points each, (m, {size}, {d})"
        )
    return points


def _require_width(found: int, features: int) -> None:
    """Of what a file holds."""
    if found != features:
        raise InputError(f"n_features_in_ is {features}; its points have {found} features")


def _predicted(points: Array, learned: tuple[Metric, Literal["knn", "energy"]]) -> NDArray[Any]:
    metric, rule = learned
    return metric.predict(points, rule)


class LinearMap(MahalanobisMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """A learned metric that maps points to where it is Euclidean."""

    def transform(self, X: ArrayLike) -> Array:
        """(n, r) the images L x of points X, (n, d); of a Dask array a Dask array."""
        check_is_fitted(self)
        if is_lazy(X):
            empty = np.empty((0, self._n_features_out))
            return in_blocks(X, self.n_features_in_, images, self.components_, empty)  # type: ignore[no-any-return]
        points = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(points @ self.components_.T)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


class LabelledLearner(CertifiedEstimator, ABC):
    """A metric that a program learns from labelled points: what transformers and the classifier
    share."""

    metric_: Metric

    _saved: ClassVar[Mapping[str, Any]] = {**CertifiedEstimator._saved, "metric_": Metric}

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric from points X, (n, d), and labels y, (n,), also stored in parts."""
        if stored.is_stored(X):
            if y is None:
                raise InputError("fit needs labels: pass y, one label per point")
            points, labels = stored.points_of(X), np.asarray(stored.labels_of(y))
            validate_data(self, points[:2])
        else:
            points, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        return self._learn(self._problem(points, y=labels))

    @abstractmethod
    def _problem(self, points: Array, **data: Any) -> Any:
        """The problem of these points and what is known about them: y, or pairs."""

    @abstractmethod
    def _name_parts(self) -> None:
        """Set the attributes that are parts of `metric_`."""

    def _learn(self, problem: Any) -> Self:
        self._solve(problem)
        self.metric_ = problem.recover(self.solution_)
        self._name_parts()
        return self

    def _restore(self) -> None:
        super()._restore()
        _require_width(self.metric_.X.shape[1], self.n_features_in_)
        self._name_parts()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class MahalanobisTransformer(LinearMap, LabelledLearner):
    """A linear map that a program has learned from labels."""

    def _name_parts(self) -> None:
        self.metric_._single("components_")
        self.components_ = self.metric_.components[0]


@dataclass(kw_only=True, eq=False, repr=False)
class WarmStarted(LabelledLearner):
    """Estimators of LMNN, with their parameters: a fit can start from the answer of another.

    With `warm_start=True`, `fit` starts from the answer of the fit before.
    """

    n_neighbors: int = 3
    mu: float = 0.5
    ridge: float = 0.0
    n_components: int | None = None
    warm_start: bool = False
    random_state: Any = 0

    # Along which neighbouring fits are good starts: the last first, from small values to large.
    path_parameters = ("n_neighbors", "mu")

    def start_from(self, fitted: WarmStarted) -> Self:
        """Take the answer of a fitted estimator as the one that a warm start begins with."""
        check_is_fitted(fitted)
        self.problem_, self.solution_ = fitted.problem_, fitted.solution_
        return self

    def mu_path(self, X: ArrayLike, y: Any = None, *, mu: Sequence[float]) -> list[Self]:
        """Fitted copies for each mu, each started from the one before."""
        return self._path(X, y, "mu", mu)

    def n_neighbors_path(
        self, X: ArrayLike, y: Any = None, *, n_neighbors: Sequence[int]
    ) -> list[Self]:
        """Fitted copies for each n_neighbors, each started from the one before."""
        return self._path(X, y, "n_neighbors", n_neighbors)

    def _path(self, X: ArrayLike, y: Any, name: str, values: Sequence[Any]) -> list[Self]:
        models: list[Self] = []
        for value in values:
            model = clone(self).set_params(warm_start=True, **{name: value})
            if models:
                model.start_from(models[-1])
            models.append(model.fit(X, y).set_params(warm_start=self.warm_start))
        return models

    def _problem(self, points: Array, **data: Any) -> Any:
        return LMNN(
            points,
            n_neighbors=self.n_neighbors,
            mu=self.mu,
            ridge=self.ridge,
            n_components=self.n_components,
            random_state=seed_of(self.random_state),
            **data,
        )

    def _start(self, problem: Any) -> Solution | None:
        if not self.warm_start or not hasattr(self, "solution_"):
            return None
        start: Solution | None = problem.start_from(self.problem_, self.solution_)
        return start


class LargeMarginNearestNeighbors(WarmStarted, MahalanobisTransformer):
    """Large margin nearest neighbours (LMNN) as a transformer.

    Parameters
    ----------
    solver : str, default "auto"
        See `CertifiedEstimator`.
    tol : float or None, default None
        See `CertifiedEstimator`.
    max_iter : int or None, default None
        See `CertifiedEstimator`.
    time_limit : float or None, default None
        See `CertifiedEstimator`.
    verbose : int, default 0
        See `CertifiedEstimator`.
    callback : callable or None, default None
        See `CertifiedEstimator`.
    on_interrupt : {"keep", "raise"}, default "keep"
        See `CertifiedEstimator`.
    n_neighbors : int, default 3
        Target neighbours per point, nearest of the same class.
    mu : float, default 0.5
        The weight of the push term; the pull term has 1 − mu.
    ridge : float, default 0.0
        Add ridge·tr M to the objective.
    n_components : int or None, default None
        Rows of a rectangular L; the problem is then not convex and its solution local. None learns
        the full, convex metric.
    warm_start : bool, default False
        Whether to start from the answer of the fit before.
    random_state : int or RandomState, default 0
        Kept for scikit-learn's sake; the result does not depend on it.

    Attributes
    ----------
    components_ : array of shape (r, d)
        L with M = LᵀL.
    metric_ : Metric
        The metric, with its training points.
    problem_ : problem object
        The problem that was solved.
    solution_ : Solution
        Its solution.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> lmnn = LargeMarginNearestNeighbors().fit(X, y)
    >>> lmnn.certificate_.relative_gap < 1e-3
    True
    >>> lmnn.transform(X[:2]).shape
    (2, 4)
    """


@dataclass(kw_only=True, eq=False, repr=False)
class LMNNClassifier(MahalanobisMixin, ClassifierMixin, WarmStarted):
    """Classification by large margin nearest neighbours, by vote or by energy.

    Parameters
    ----------
    solver : str, default "auto"
        See `CertifiedEstimator`.
    tol : float or None, default None
        See `CertifiedEstimator`.
    max_iter : int or None, default None
        See `CertifiedEstimator`.
    time_limit : float or None, default None
        See `CertifiedEstimator`.
    verbose : int, default 0
        See `CertifiedEstimator`.
    callback : callable or None, default None
        See `CertifiedEstimator`.
    on_interrupt : {"keep", "raise"}, default "keep"
        See `CertifiedEstimator`.
    n_neighbors : int, default 3
        Target neighbours per point in training, and neighbours that vote.
    mu : float, default 0.5
        The weight of the push term; the pull term has 1 − mu.
    ridge : float, default 0.0
        Add ridge·tr M to the objective.
    n_components : int or None, default None
        Rows of a rectangular L; the problem is then not convex and its solution local. None learns
        the full, convex metric.
    warm_start : bool, default False
        Whether to start from the answer of the fit before.
    random_state : int or RandomState, default 0
        The seed of k-means.
    rule : {"knn", "energy"}, default "knn"
        "knn" (the vote of the nearest) or "energy" (eq. 2.12 of Weinberger 2007).
    metrics : {"single", "per_class"} or int, default "single"
        "single", "per_class" or a number of k-means clusters; each has a metric.

    Attributes
    ----------
    components_ : array of shape (r, d)
        L with M = LᵀL, where there is a single metric.
    metric_ : Metric
        The metric, with its training points.
    problem_ : problem object
        The problem that was solved.
    solution_ : Solution
        Its solution.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.
    classes_ : array of shape (c,)
        The labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LMNNClassifier(rule="energy").fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.94
    True
    """

    rule: Literal["knn", "energy"] = "knn"
    metrics: Literal["single", "per_class"] | int = "single"

    def _problem(self, points: Array, **data: Any) -> Any:
        return super()._problem(points, metrics=self.metrics, **data)

    def _name_parts(self) -> None:
        self.classes_ = self.metric_.classes

    def _restore(self) -> None:
        super()._restore()
        one_of(self.rule, "rule", ("knn", "energy"))

    @property
    def components_(self) -> Array:  # type: ignore[override]
        """(r, d) L with M = LᵀL."""
        check_is_fitted(self)
        parts = self.metric_.components
        if len(parts) > 1:
            raise AttributeError(
                f"there are {len(parts)} metrics: use metric_.components, or metrics='single'"
            )
        return parts[0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n,) labels of points X, (n, d); of a Dask array a Dask array."""
        check_is_fitted(self)
        if is_lazy(X):
            learned, empty = (self.metric_, self.rule), self.classes_[:0]
            return in_blocks(X, self.n_features_in_, _predicted, learned, empty)  # type: ignore[no-any-return]
        points = validate_data(self, X, reset=False, dtype=np.float64)
        return self.metric_.predict(points, self.rule)


@dataclass(kw_only=True, eq=False, repr=False)
class MahalanobisForClustering(MahalanobisTransformer):
    """Mahalanobis metric for clustering (MMC): dissimilar pairs far apart, similar pairs close.

    Points of the same label are similar, all others dissimilar.

    Parameters
    ----------
    solver : str, default "auto"
        See `CertifiedEstimator`.
    tol : float or None, default None
        See `CertifiedEstimator`.
    max_iter : int or None, default None
        See `CertifiedEstimator`.
    time_limit : float or None, default None
        See `CertifiedEstimator`.
    verbose : int, default 0
        See `CertifiedEstimator`.
    callback : callable or None, default None
        See `CertifiedEstimator`.
    on_interrupt : {"keep", "raise"}, default "keep"
        See `CertifiedEstimator`.
    diagonal : bool, default False
        Whether to learn one weight per feature only.
    max_pairs : int or None, default 1000
        Dissimilar pairs used at most, evenly spread over all of them, and ten times as many similar
        ones; None uses all.

    Attributes
    ----------
    components_ : array of shape (r, d)
        L with M = LᵀL.
    metric_ : Metric
        The metric, with its training points.
    problem_ : problem object
        The problem that was solved.
    solution_ : Solution
        Its solution.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> mmc = MahalanobisForClustering().fit(X, y)
    >>> mmc.certificate_.relative_gap < 1e-6
    True
    """

    diagonal: bool = False
    max_pairs: int | None = 1000

    def _problem(self, points: Array, **data: Any) -> Any:
        return MMC(points, diagonal=self.diagonal, max_pairs=self.max_pairs, **data)


@dataclass(kw_only=True, eq=False, repr=False)
class PairMarginMetric(MahalanobisTransformer):
    """A metric with similar pairs within one distance and dissimilar pairs beyond another.

    Points of the same label are similar, all others dissimilar.

    Parameters
    ----------
    solver : str, default "auto"
        See `CertifiedEstimator`.
    tol : float or None, default None
        See `CertifiedEstimator`.
    max_iter : int or None, default None
        See `CertifiedEstimator`.
    time_limit : float or None, default None
        See `CertifiedEstimator`.
    verbose : int, default 0
        See `CertifiedEstimator`.
    callback : callable or None, default None
        See `CertifiedEstimator`.
    on_interrupt : {"keep", "raise"}, default "keep"
        See `CertifiedEstimator`.
    upper : float, default 1.0
        The squared distance that similar pairs keep within.
    lower : float, default 2.0
        The squared distance that dissimilar pairs keep beyond.
    weight : float, default 1.0
        What a unit of violation costs in the objective.

    Attributes
    ----------
    components_ : array of shape (r, d)
        L with M = LᵀL.
    metric_ : Metric
        The metric, with its training points.
    problem_ : problem object
        The problem that was solved.
    solution_ : Solution
        Its solution.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PairMarginMetric(weight=0.01).fit(X, y)
    >>> model.metric_.leave_one_out_error() < 0.05
    True
    """

    upper: float = 1.0
    lower: float = 2.0
    weight: float = 1.0

    def _problem(self, points: Array, **data: Any) -> Any:
        return PairMargins(points, upper=self.upper, lower=self.lower, weight=self.weight, **data)


@dataclass(kw_only=True, eq=False, repr=False)
class CoveringEllipsoidMetric(LinearMap, CertifiedEstimator):
    """Distances in units of the smallest ellipsoid that covers the points; no labels are used.

    Parameters
    ----------
    solver : str, default "auto"
        See `CertifiedEstimator`.
    tol : float or None, default None
        See `CertifiedEstimator`.
    max_iter : int or None, default None
        See `CertifiedEstimator`.
    time_limit : float or None, default None
        See `CertifiedEstimator`.
    verbose : int, default 0
        See `CertifiedEstimator`.
    callback : callable or None, default None
        See `CertifiedEstimator`.
    on_interrupt : {"keep", "raise"}, default "keep"
        See `CertifiedEstimator`.
    gamma : float, default 0.0
        Regularisation γ ≥ 0 in the square of the points' unit; with γ > 0 points in a subspace have
        an ellipsoid too.

    Attributes
    ----------
    components_ : array of shape (r, d)
        L, which maps the ellipsoid to a unit ball.
    ellipsoid_ : Ellipsoid
        The ellipsoid.
    certificate_ : Certificate
        The proof.

    Examples
    --------
    >>> model = CoveringEllipsoidMetric().fit([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> float(round(model.get_metric()([0.0, 0.0], [2.0, 0.0]), 6))
    1.0
    """

    gamma: float = 0.0

    _saved: ClassVar[Mapping[str, Any]] = {
        **CertifiedEstimator._saved,
        "ellipsoid_": Ellipsoid,
        "components_": np.ndarray,
    }

    def _restore(self) -> None:
        super()._restore()
        _require_width(self.ellipsoid_.center.size, self.n_features_in_)
        layout = Expected((self.ellipsoid_.basis.shape[1], self.n_features_in_))
        self.components_ = layout.read("components_", self.components_)

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Cover points X, (n, d)."""
        points = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        problem = CoveringEllipsoid(points, gamma=self.gamma)
        self._solve(problem)
        self.ellipsoid_ = problem.recover(self.solution_)
        self.components_ = self.ellipsoid_.components
        return self


class RelevantComponentAnalysis(LinearMap, SavedMixin, BaseEstimator):
    """Relevant component analysis (RCA): whiten the variation within chunklets.

    Points of the same label form a chunklet. There is no program to solve and no certificate.

    Parameters
    ----------
    ridge : float, default 0.0
        Added to the diagonal of the covariance within chunklets, in the square of the points' unit.

    Attributes
    ----------
    components_ : array of shape (d, d)
        L with M = LᵀL, the inverse of that covariance.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> rca = RelevantComponentAnalysis().fit(X, y)
    >>> Metric.from_components(rca.components_, X, y).leave_one_out_error() < 0.05
    True
    """

    _saved: ClassVar[Mapping[str, Any]] = {**SavedMixin._saved, "components_": np.ndarray}

    def __init__(self, *, ridge: float = 0.0) -> None:
        self.ridge = ridge

    def _restore(self) -> None:
        super()._restore()
        layout = Expected((self.n_features_in_, self.n_features_in_))
        self.components_ = layout.read("components_", self.components_)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric from points X, (n, d), and the labels of their chunklets y, (n,)."""
        points, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        self.components_ = relevant_components(points, labels, self.ridge)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
