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
from typing import Literal

import numpy as np

from sdpkit.errors import InputError
from sdpkit.numerics.neighbors import nearest
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.results.ellipsoid import cover
from sdpkit.results.metric import vote
from sdpkit.typing import Array, Bools, Indices

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
    def _tangent(self) -> Bools:
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

    @one_blas_thread
    def kneighbors(self, X: Array, k: int) -> tuple[Array, Indices]:
        """Squared distances and indices, (b, k), of the nearest of X, nearest first."""
        lengths, found = np.empty((len(self), k)), np.empty((len(self), k), dtype=np.int64)
        for rows, (distances,) in self.distances(X, [self.rho]):
            found[rows] = _first(distances, k)
            lengths[rows] = np.take_along_axis(distances, found[rows], axis=1)
        return lengths, found

    @one_blas_thread
    def votes(
        self, X: Array, labels: Indices, rho: Sequence[float], n_neighbors: Sequence[int]
    ) -> Indices:
        """Class numbers for each ρ and k at once, (len(rho), len(n_neighbors), b)."""
        out = np.empty((len(rho), len(n_neighbors), len(self)), dtype=np.int64)
        most, classes = max(n_neighbors), int(labels.max()) + 1
        for rows, slabs in self.distances(X, rho):
            for b, distances in enumerate(slabs):
                found = labels[_first(distances, most)]
                for c, k in enumerate(n_neighbors):
                    out[b, c, rows] = vote(found[:, :k], classes)
        return out


@one_blas_thread
def query_metrics(
    X: Array,
    queries: Array,
    *,
    n_local: int,
    tau: float,
    rho: float,
    gamma: float,
    variant: Variant = "relative",
) -> QueryMetrics:
    """Steps 1 to 4 for queries, (b, d), among points X, (n, d), all at once.

    >>> rng = np.random.default_rng(0)
    >>> sheet = np.c_[rng.random((200, 2)), 0.001 * rng.random(200)]
    >>> query_metrics(sheet, sheet[:9], n_local=20, tau=0.3, rho=0.1, gamma=1e-6).dimensions
    array([2, 2, 2, 2, 2, 2, 2, 2, 2])
    """
    local = nearest([queries], [X], n_local)[0]
    ellipsoids = cover(X[local], queries, gamma=gamma)
    values, vectors = np.linalg.eigh(ellipsoids.shapes)
    values, vectors = values[:, ::-1], vectors[:, :, ::-1]
    flat = np.flatnonzero(values[:, -1] <= 1e-12 * values[:, 0])
    if flat.size:
        raise InputError(
            f"the neighbours of {flat.size} queries (the first is {flat[0]}) lie in a "
            "subspace, and directions normal to it would have infinite weight: use gamma > 0"
        )
    dimensions = (values > tau * values[:, :1]).sum(axis=1)
    return QueryMetrics(queries, values, vectors, dimensions, ellipsoids.gaps, float(rho), variant)


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
