"""Newton's equations of the dual barrier, by preconditioned conjugate gradients.

The preconditioner is H among the edges of overlapping clusters (additive Schwarz) plus a low rank:
with P = Σ v_i v_iᵀ/λ_i, H is the sum of p_ij p_ijᵀ/(λ_i λ_j) over the products
p_ij(e) = (b_e·v_i)(b_e·v_j), and the long-ranged part of it are the products of the lowest modes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import blas, lapack

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.solvers.barrier_dual import BarrierPoint
from sdpkit.typing import Array, Indices

_LOWEST_MODES = 20  # lowest modes of T whose products it adds
LOW_RANK_PRODUCTS = 100  # how many of the products


class Preconditioner:
    """(D + UUᵀ)⁻¹, D⁻¹ the sum over clusters of the inverse of what UUᵀ leaves of H there."""

    def __init__(self, point: BarrierPoint, mu: float) -> None:
        self.mu, self.point, self.clusters = mu, point, point.dual.clusters
        self.low_rank = self._products() if len(self.clusters) > 1 else None
        self.inverses = [self._inverse(edges) for edges in self.clusters]
        if self.low_rank is not None:
            self.image = self._local(self.low_rank)
            small = blas.dgemm(1.0, self.low_rank, self.image, trans_a=1)
            small[np.diag_indices(len(small))] += 1.0
            self.small = lapack.dpotrf(small, lower=1)[0]

    def _products(self) -> Array:
        """(m, k) U: products of differences of the lowest modes, the heaviest first."""
        from sdpkit.numerics.eigenpairs import leading_eigenpairs

        point = self.point
        n, edges = point.dual.pattern.n, point.dual.edges
        solve = point.factor.solve

        def inverse(x: Array) -> Array:
            continue_or_raise()
            return np.asarray(solve(x.ravel()))

        values, vectors = leading_eigenpairs(inverse, n, min(_LOWEST_MODES, n - 2))
        values = np.maximum(values, 0.0)
        differences = vectors[edges[:, 0]] - vectors[edges[:, 1]]
        differences[~point.dual.free] = 0.0
        i, j = np.triu_indices(values.size)
        weights = values[i] * values[j] * np.where(i == j, 1.0, 2.0)
        heavy = np.argsort(-weights, kind="stable")[:LOW_RANK_PRODUCTS]
        i, j = i[heavy], j[heavy]
        return np.asfortranarray(differences[:, i] * differences[:, j] * np.sqrt(weights[heavy]))

    def _inverse(self, edges: Indices) -> Array:
        """The inverse of a cluster's part of H − UUᵀ, in LAPACK's lower triangle."""
        continue_or_raise()
        point = self.point
        nodes, ends = np.unique(point.dual.pattern.edges[edges], return_inverse=True)
        ends = ends.reshape(-1, 2)
        block = _gathered(point.inverse_among(nodes), ends)
        block *= block
        places = np.diag_indices(len(block))
        block[places] += point.curvature[edges]
        diagonal = block[places].copy()
        if self.low_rank is not None:
            part = np.asfortranarray(self.low_rank[edges])
            block = blas.dsyrk(-1.0, part, beta=1.0, c=block.T, lower=1, overwrite_c=1)
        for ridge in (1e-13, 1e-10, 1e-7, 1e-4, 1.0):
            block[places] += ridge * diagonal
            factor, info = lapack.dpotrf(block, lower=1)
            if info == 0:
                return np.asarray(lapack.dpotri(factor, lower=1, overwrite_c=1)[0])
        return np.diag(1.0 / diagonal)

    def _local(self, r: Array) -> Array:
        """D⁻¹ times a vector or the columns of a matrix."""
        out = np.zeros(r.shape, order="F")
        for edges, inverse in zip(self.clusters, self.inverses, strict=True):
            times = blas.dsymv if r.ndim == 1 else blas.dsymm
            out[edges] += times(1.0, inverse, r[edges], lower=1)
        return out

    def __call__(self, r: Array) -> Array:
        """The preconditioner times r."""
        out = self._local(r)
        if self.low_rank is not None:
            inner = lapack.dpotrs(self.small, blas.dgemv(1.0, self.image, r, trans=1), lower=1)[0]
            out -= blas.dgemv(1.0, self.image, inner)
        return out


def _gathered(matrix: Array, ends: Indices) -> Array:
    """B M Bᵀ for the rows e_i − e_j of B."""
    half = matrix[ends[:, 0]] - matrix[ends[:, 1]]
    return np.asarray(half[:, ends[:, 0]] - half[:, ends[:, 1]])


def conjugate_gradients(
    point: BarrierPoint,
    precondition: Preconditioner,
    rhs: Array,
    tol: float,
    start: Array | None = None,
    allowed: float | Array = np.inf,
    limit: int = 3000,
    is_out_of_time: Callable[[], bool] = lambda: False,
) -> tuple[Array, int]:
    """Solve Hx = rhs until √(rᵀM⁻¹r) ≤ tol and |r| ≤ allowed, entry by entry.

    Returns x and the number of products with H; short of time, x as it is.
    """
    x = np.zeros(rhs.size) if start is None else start.copy()
    r = rhs.copy() if start is None else rhs - point.hessian(x)
    products = 0 if start is None else 1
    direction = precondition(r)
    rz = float(r @ direction)
    while products < limit and not (rz <= tol**2 and np.all(np.abs(r) <= allowed)):
        image = point.hessian(direction)
        products += 1
        curvature = float(direction @ image)
        if not curvature > 0:
            break  # rounding is all that is left
        x += (rz / curvature) * direction
        r -= (rz / curvature) * image
        z = precondition(r)
        before, rz = rz, float(r @ z)
        if not rz > 0 or is_out_of_time():
            break
        direction = z + (rz / before) * direction
    return x, products
