"""A metric for every query: Algorithm 1 of Abou-Moustafa and Ferrie, "Fast and Regularized Local
Metric for Query-based Operations".

1. the m nearest training points of the query x_q, Euclidean;
2. S, the covering ellipsoid of these points around x_q, with γI (`sdpkit.results.ellipsoid.cover`);
3. its eigenvalues λ_1 ≥ … ≥ λ_d and eigenvectors V: large ones are tangent to the manifold on
   which the query lies, small ones normal to it;
4. the d₀ eigenvalues with λ_i/λ_1 > τ count as tangent: d₀ estimates the intrinsic dimension
   (Fukunaga and Olsen). Their directions get the weight ρ, the others λ_d/λ_i;
5. D(x, x_q) = Σ_i weight_i (V_iᵀ(x − x_q))², and the neighbours of x_q under it vote.

The paper writes ρ next to 1/λ, without a unit. Here weights are in units of 1/λ_d, the largest
that the Mahalanobis distance of S has: it is ρ = λ_d/λ_i; at ρ = 1 tangent directions weigh as much
as the most normal one, at ρ = 0 they do not count. Where every direction is tangent the metric is
Euclidean. Labels are used for m and ρ alone, which cross-validation chooses.
`variant="published"` is the metric as printed, ρ next to 1/λ_i in the unit of the data, for
comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sdpkit.errors import InputError
from sdpkit.inputs import finite_array, one_of
from sdpkit.numerics.neighbors import nearest
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.results.ellipsoid import cover
from sdpkit.results.metric import vote

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Variant = Literal["relative", "published"]

# Doubles in one slab of differences, (queries, points, dimensions).
_SLAB = 1 << 22
# Distances that agree to this share of the largest are tied, and the smaller index comes first.
_TIE = 12


@dataclass(frozen=True, eq=False, repr=False)
class QueryMetrics:
    """The metrics of b queries.

    Attributes
    ----------
    queries: (b, d)
    eigenvalues: (b, d) of S, largest first;  directions: (b, d, d) eigenvectors, as columns
    dimensions: (b,) d₀, the estimate of the intrinsic dimension at each query
    gaps: (b,) the certified gap in log det of each covering ellipsoid
    rho: ρ;  variant: "relative" (ρ in units of 1/λ_d) or "published" (ρ next to 1/λ_i)
    """

    queries: Array
    eigenvalues: Array
    directions: Array
    dimensions: Indices
    gaps: Array
    rho: float
    variant: Variant = "relative"

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        mean = float(self.dimensions.mean()) if len(self) else 0.0
        return f"<{len(self)} query metrics: mean dimension {mean:.2f} of {self.queries.shape[1]}>"

    @property
    def weights(self) -> Array:
        """(b, d) the weight of each direction."""
        return np.where(self._tangent, self._tangent_weights(self.rho)[:, None], self._normal)

    @property
    def matrices(self) -> Array:
        """(b, d, d) V diag(weights) Vᵀ."""
        return np.asarray((self.directions * self.weights[:, None]) @ _turned(self.directions))

    @property
    def _tangent(self) -> NDArray[np.bool_]:
        return np.arange(self.queries.shape[1]) < self.dimensions[:, None]

    @property
    def _normal(self) -> Array:
        unit = 1.0 if self.variant == "published" else self.eigenvalues[:, -1:]
        return np.asarray(unit / self.eigenvalues)

    def _tangent_weights(self, rho: float) -> Array:
        """(b,) ρ, or 1 where there is nothing but tangent directions (as printed: ρ always)."""
        if self.variant == "published":
            return np.full(len(self), rho)
        return np.where(self.dimensions == self.queries.shape[1], 1.0, rho)

    def distances(self, X: Array, rhos: Sequence[float]) -> Iterator[tuple[slice, list[Array]]]:
        """Slabs of queries with their squared distances to X, (queries, n), for each of `rhos`."""
        n, d = X.shape
        height = max(1, _SLAB // max(1, n * d))
        for start in range(0, len(self), height):
            rows = slice(start, min(start + height, len(self)))
            along = (X - self.queries[rows, None]) @ self.directions[rows]
            np.square(along, out=along)
            tangent = self._tangent[rows]
            parts = [np.where(tangent, 1.0, 0.0), np.where(tangent, 0.0, self._normal[rows])]
            inside, across = ((along @ part[:, :, None])[:, :, 0] for part in parts)
            weights = [self._tangent_weights(rho)[rows, None] for rho in rhos]
            yield rows, [weight * inside + across for weight in weights]


class QueryMetric(ClassifierMixin, BaseEstimator):
    """k nearest neighbours under a metric of every query's own, after scikit-learn's conventions.

    Parameters
    ----------
    n_neighbors: k, the neighbours that vote
    n_local: m, the neighbours that shape the metric; by default d + 1 and 20 at least
    tau: τ, the share of the largest eigenvalue above which a direction is tangent
    rho: ρ ∈ [0, 1], the weight of tangent directions
    gamma: γ ≥ 0, the least squared diameter of the ellipsoid, in the unit of the data
    variant: "relative", ρ in units of the largest weight 1/λ_d (the module's metric), or
        "published", ρ as printed, next to 1/λ_i

    After `fit`: `X_`, `classes_`, `n_features_in_`; after `selected` also `cv_errors_`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = QueryMetric(n_neighbors=3).fit(X[::2], y[::2])
    >>> model.predict(X[1::50])
    array([0, 1, 2])
    >>> model.metrics(X[1::2])
    <75 query metrics: mean dimension 2.76 of 4>
    """

    cv_errors_: Array

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

    # -- the algorithm -------------------------------------------------------------------------

    @one_blas_thread
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the training points; metrics are made when queries come."""
        self._check()
        x, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.X_ = x
        self.classes_, self._labels = np.unique(labels, return_inverse=True)
        self._size_of_neighborhood()
        if not 1 <= self.n_neighbors <= len(x):
            count = f"{len(x)} sample{'s' * (len(x) > 1)}"
            raise InputError(f"n_neighbors is {self.n_neighbors}; X has {count}")
        return self

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
        m = self._size_of_neighborhood()
        local = nearest([queries], [self.X_], m)[0]
        ellipsoids = cover(self.X_[local], queries, gamma=self.gamma)
        values, vectors = np.linalg.eigh(ellipsoids.shapes)
        values, vectors = values[:, ::-1], vectors[:, :, ::-1]
        flat = np.flatnonzero(values[:, -1] <= 1e-12 * values[:, 0])
        if flat.size:
            raise InputError(
                f"the neighbours of {flat.size} queries (the first is {flat[0]}) lie in a "
                "subspace, whose normals would count infinitely: use gamma > 0"
            )
        dimensions = (values > self.tau * values[:, :1]).sum(axis=1)
        return QueryMetrics(
            queries, values, vectors, dimensions, ellipsoids.gaps, float(self.rho), self.variant
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
        lengths, found = np.empty((len(metrics), k)), np.empty((len(metrics), k), dtype=np.int64)
        for rows, (distances,) in metrics.distances(self.X_, [metrics.rho]):
            found[rows] = _first(distances, k)
            lengths[rows] = np.take_along_axis(distances, found[rows], axis=1)
        return lengths, found

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(b,) labels by the vote of the k nearest; ties shrink the neighbourhood."""
        found = self.kneighbors(X)[1]
        return np.asarray(self.classes_[vote(self._labels[found], len(self.classes_))])

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
        out = np.empty((len(rho), len(n_neighbors), len(metrics)), dtype=np.int64)
        most = max(n_neighbors)
        if not 1 <= min(n_neighbors) <= most <= len(self.X_):
            raise InputError(f"n_neighbors must be from 1 to {len(self.X_)}, not {n_neighbors}")
        for rows, slabs in metrics.distances(self.X_, rho):
            for b, distances in enumerate(slabs):
                found = self._labels[_first(distances, most)]
                for c, k in enumerate(n_neighbors):
                    out[b, c, rows] = vote(found[:, :k], len(self.classes_))
        return np.asarray(self.classes_[out])


def _folds(labels: NDArray[Any], cv: int) -> int:
    """`cv`, or fewer where the smallest class has fewer members."""
    if cv < 2:
        raise InputError(f"cv is {cv}; cross-validation needs two folds at least")
    smallest = int(np.unique(labels, return_counts=True)[1].min())
    return max(2, min(cv, smallest))


def _first(distances: Array, k: int) -> Indices:
    """(b, k) the nearest of each row by (distance, index)."""
    scale = distances.max(axis=1, keepdims=True)
    rounded = np.round(distances / np.where(scale > 0, scale, 1.0), _TIE)
    few = min(k, rounded.shape[1])
    kth = np.partition(rounded, few - 1, axis=1)[:, few - 1 : few]
    # Everything up to the k-th distance, in order; the rest does not matter.
    order = np.argsort(np.where(rounded <= kth, rounded, np.inf), axis=1, kind="stable")
    return np.asarray(order[:, :k])


def _turned(stack: Array) -> Array:
    return stack.transpose(0, 2, 1)
