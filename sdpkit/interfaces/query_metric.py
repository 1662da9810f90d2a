"""A metric for every query, as a classifier; `sdpkit.results.query_metric` has the algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sdpkit.errors import InputError
from sdpkit.inputs import (
    finite_array,
    finite_matrix,
    indices,
    integer,
    one_of,
    require_moderate,
    require_squarable,
)
from sdpkit.interfaces.files import SavedMixin, labels_of
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.results.metric import vote
from sdpkit.results.query_metric import QueryMetrics, Variant, query_metrics
from sdpkit.typing import Array, Indices


class QueryMetric(SavedMixin, ClassifierMixin, BaseEstimator):
    """Nearest neighbours under a metric for every query, after scikit-learn's conventions.

    Parameters
    ----------
    n_neighbors : int, default 3
        k, the neighbours that vote.
    n_local : int or None, default None
        m, the neighbours that shape the metric; by default d + 1 and 20 at least.
    tau : float, default 0.3
        τ, the share of the largest eigenvalue above which a direction is tangent.
    rho : float, default 0.1
        ρ ∈ [0, 1], the weight of tangent directions.
    gamma : float, default 0.1
        γ ≥ 0, the least squared diameter of the ellipsoid, in the unit of the data.
    variant : {"relative", "published"}, default "relative"
        "relative", ρ in units of the largest weight 1/λ_d (the module's metric), or "published", ρ
        as printed, next to 1/λ_i.

    Attributes
    ----------
    X_ : array of shape (n, d)
        The training points.
    classes_ : array of shape (c,)
        The labels in order.
    labels_ : array of int, shape (n,)
        Class numbers of the training points.
    n_features_in_ : int
        d.
    cv_errors_ : mapping
        Errors of the settings that were tried; only after `selected`.

    Notes
    -----
    After `fit`: `X_`, `classes_`, `labels_` (class numbers), `n_features_in_`;
    after `selected` also `cv_errors_`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = QueryMetric(n_neighbors=3).fit(X[::2], y[::2])
    >>> model.predict(X[1::50])
    array([0, 1, 2])
    >>> model.metrics(X[1::2])
    <75 query metrics: mean dimension 2.76 of 4>
    """

    cv_errors_: Array

    _saved: ClassVar[Mapping[str, Any]] = {
        **SavedMixin._saved,
        **dict.fromkeys(("X_", "classes_", "labels_", "cv_errors_"), np.ndarray),
    }

    def __init__(
        self,
        *,
        n_neighbors: int = 3,
        n_local: int | None = None,
        tau: float = 0.3,
        rho: float = 0.1,
        gamma: float = 0.1,
        variant: Variant = "relative",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_local = n_local
        self.tau = tau
        self.rho = rho
        self.gamma = gamma
        self.variant = variant

    @one_blas_thread
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the training points; metrics are made when queries come."""
        self._check()
        x, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        require_moderate(x, "X")
        self.X_ = x
        self.classes_, self.labels_ = np.unique(labels, return_inverse=True)
        self._check_sizes()
        return self

    def _restore(self) -> None:
        super()._restore()
        self._check()
        self.X_ = finite_matrix(self.X_, "X_", self.n_features_in_)
        require_squarable(self.X_, "X_")
        self.classes_ = labels_of(self.classes_)
        self.labels_ = indices(self.labels_, (len(self.X_),), len(self.classes_), "labels_")
        if hasattr(self, "cv_errors_"):
            self.cv_errors_ = finite_matrix(self.cv_errors_, "cv_errors_")
        integer(self.n_neighbors, "n_neighbors")
        self._check_sizes()

    def _check_sizes(self) -> None:
        self._size_of_neighborhood()
        if not 1 <= self.n_neighbors <= len(self.X_):
            count = f"{len(self.X_)} sample{'s' * (len(self.X_) > 1)}"
            raise InputError(f"n_neighbors is {self.n_neighbors}; X has {count}")

    def _check(self) -> None:
        one_of(self.variant, "variant", ("relative", "published"))
        for name, low, high in (("tau", 0, 1), ("rho", 0, 1), ("gamma", 0, np.inf)):
            value = getattr(self, name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not number or not low <= value <= high or value == np.inf:
                raise InputError(f"{name} is {value!r}; it must be a number from {low} to {high}")

    def _size_of_neighborhood(self) -> int:
        n, d = self.X_.shape
        m = min(max(d + 1, 20), n) if self.n_local is None else self.n_local
        if not isinstance(m, int | np.integer) or not 1 <= m <= n:
            raise InputError(f"n_local is {m!r}; {n} training points leave 1 … {n}")
        if self.gamma == 0 and m < d:
            raise InputError(f"n_local is {m}, fewer than the {d} dimensions: use gamma > 0")
        return int(m)

    @one_blas_thread
    def metrics(self, X: ArrayLike) -> QueryMetrics:
        """The metrics of queries X, (b, d), all at once."""
        queries = self._queries(X)
        return query_metrics(
            self.X_,
            queries,
            n_local=self._size_of_neighborhood(),
            tau=self.tau,
            rho=self.rho,
            gamma=self.gamma,
            variant=self.variant,
        )

    def intrinsic_dimension(self, X: ArrayLike) -> Indices:
        """(b,) d₀ at each query."""
        return self.metrics(X).dimensions

    @one_blas_thread
    def kneighbors(self, X: ArrayLike, n_neighbors: int | None = None) -> tuple[Array, Indices]:
        """Squared distances and indices, (b, k), of the nearest training points, nearest first."""
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        metrics = self.metrics(X)
        if not 1 <= k <= len(self.X_):
            raise InputError(f"n_neighbors is {k}; there are {len(self.X_)} training points")
        return metrics.kneighbors(self.X_, k)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(b,) labels by the vote of the k nearest; ties shrink the neighbourhood."""
        found = self.kneighbors(X)[1]
        return np.asarray(self.classes_[vote(self.labels_[found], len(self.classes_))])

    def _queries(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    # -- selection -----------------------------------------------------------------------------

    @one_blas_thread
    def selected(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_local: Sequence[int],
        rho: Sequence[float],
        cv: int = 10,
        random_state: int | None = 0,
    ) -> QueryMetric:
        """A fitted copy with the m and ρ of the least error in cross-validation.

        Its `cv_errors_` are the errors, (len(n_local), len(rho)); the first of equal ones counts.
        """
        k = (self.n_neighbors,)
        errors = self.validated_errors(
            X, y, n_local=n_local, rho=rho, n_neighbors=k, cv=cv, random_state=random_state
        )[:, :, 0]
        a, b = divmod(int(errors.argmin()), errors.shape[1])
        chosen = {"n_local": int(n_local[a]), "rho": float(rho[b])}
        best = QueryMetric(**{**self.get_params(), **chosen}).fit(X, y)
        best.cv_errors_ = errors
        return best

    @one_blas_thread
    def validated_errors(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_local: Sequence[int],
        rho: Sequence[float],
        n_neighbors: Sequence[int],
        cv: int = 10,
        random_state: int | None = 0,
    ) -> Array:
        """Errors in stratified cross-validation, (len(n_local), len(rho), len(n_neighbors)).

        A query's ellipsoid depends on m alone, so that every ρ and k shares it.
        """
        from sklearn.model_selection import StratifiedKFold

        x, labels = finite_array(X, "X"), np.asarray(y)
        if not len(n_local) or not len(rho) or not len(n_neighbors):
            raise InputError("n_local, rho and n_neighbors need at least one value each")
        folds = _folds(labels, cv)
        wrong = np.zeros((len(n_local), len(rho), len(n_neighbors)))
        shuffled = StratifiedKFold(folds, shuffle=True, random_state=random_state)
        for train, test in shuffled.split(x, labels):
            for a, m in enumerate(n_local):
                model = QueryMetric(**{**self.get_params(), "n_local": m, "n_neighbors": 1})
                model.fit(x[train], labels[train])
                predictions = model.predictions(x[test], rho, n_neighbors)
                wrong[a] += (predictions != labels[test]).sum(axis=2)
        return np.asarray(wrong / len(x))

    def predictions(
        self, X: ArrayLike, rho: Sequence[float], n_neighbors: Sequence[int]
    ) -> NDArray[Any]:
        """Labels for each ρ and k at once, (len(rho), len(n_neighbors), b)."""
        metrics = self.metrics(X)
        if not 1 <= min(n_neighbors) <= max(n_neighbors) <= len(self.X_):
            raise InputError(f"n_neighbors must be from 1 to {len(self.X_)}, not {n_neighbors}")
        return np.asarray(self.classes_[metrics.votes(self.X_, self.labels_, rho, n_neighbors)])


def _folds(labels: NDArray[Any], cv: int) -> int:
    """`cv`, or fewer where the smallest class has fewer members."""
    if cv < 2:
        raise InputError(f"cv is {cv}; cross-validation needs two folds at least")
    smallest = int(np.unique(labels, return_counts=True)[1].min())
    return max(2, min(cv, smallest))
