"""The matrix of locally linear embedding (Roweis and Saul 2000) and its bottom eigenvectors."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sdpkit.graphs.distances import DEFAULT_NEIGHBORS, SquaredDistances
from sdpkit.graphs.spectrum import smooth_basis
from sdpkit.inputs import MatrixLike
from sdpkit.numerics.barycenter import barycenter_weights
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.neighbors import row_blocks
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array


@one_blas_thread
def lle_basis(X: MatrixLike, n_basis: int, *, n_neighbors: int = DEFAULT_NEIGHBORS) -> Array:
    """Bottom eigenvectors of LLE's (I−W)ᵀ(I−W) after the constant, orthonormal.

    W rebuilds every point from its neighbours with weights that sum to one.

    Parameters
    ----------
    X : array-like of shape (n, d) or sparse matrix
        The points.
    n_basis : int
        m, the number of eigenvectors.
    n_neighbors : int, default 4
        Neighbours that rebuild each point.

    Returns
    -------
    array of shape (n, m)
        Q, one eigenvector per column.

    Examples
    --------
    >>> lle_basis([[0.0], [1.0], [2.0], [3.0]], 1, n_neighbors=2).shape
    (4, 1)
    """
    lengths = SquaredDistances.from_points(X)
    points, near = lengths.points, lengths.neighbors(n_neighbors)
    assert points is not None
    n, k = near.shape
    weights = np.empty((n, k))
    for part in row_blocks(n, k * points.shape[1]):
        continue_or_raise()
        weights[part] = barycenter_weights(points[part], points[near[part]])
    starts = np.arange(0, n * k + 1, k)
    rebuilt = sparse.csr_array((weights.ravel(), near.ravel(), starts), shape=(n, n))
    residual = sparse.eye_array(n, format="csr") - rebuilt
    return smooth_basis(sparse.csr_array(residual.T @ residual), n_basis)
