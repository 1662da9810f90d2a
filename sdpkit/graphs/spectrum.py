"""Bottom eigenvectors of a Laplacian, or of another matrix whose null space is the constant."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sdpkit.inputs import integer
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.typing import Array

_SMALL_SPECTRUM_POINTS = 200  # up to this, the whole spectrum is cheaper than a few vectors
# Multiplications of a factorisation within the profile, beyond which none is made; a factor of low
# fill takes a hundredth of them, or some seconds.
_MOST_WORK = 5e10
_RITZ_VECTORS = 60  # that are kept between products: fewer take more products, more take longer


def smooth_basis(matrix: sparse.csr_array, n_basis: int) -> Array:
    """Q, (n, m): the m bottom eigenvectors on 1⊥, orthonormal.

    >>> path = sparse.csr_array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]])
    >>> np.abs(smooth_basis(path, 1)).ravel().round(6) + 0.0
    array([0.707107, 0.      , 0.707107])
    """
    n = matrix.shape[0]
    m = integer(n_basis, "n_basis", most=n - 1)
    if n <= max(_SMALL_SPECTRUM_POINTS, 4 * m):
        continue_or_raise()
        # Twice the trace moves the constant above all other eigenvectors.
        lifted = matrix.toarray() + 2 * matrix.trace() / n
        vectors = np.linalg.eigh(lifted)[1][:, :m]
    else:
        vectors = smoothest(matrix, m)[1]
    return np.asarray(np.linalg.qr(vectors - vectors.mean(axis=0))[0])


def smoothest(laplacian: sparse.csr_array, k: int) -> tuple[Array, Array]:
    """The k smallest eigenvalues on 1⊥, rising, with eigenvectors (n, k), of a connected graph
    (or of any positive semidefinite matrix whose null space is the constant).

    As 1/λ_max(L⁺): L⁺ is a grounded solve between two centrings, there is no shift to choose.
    A graph of points in many dimensions has a factor that is nearly dense; its smallest
    eigenvalues are far from zero and converge without one.
    """
    from scipy.sparse.linalg import splu

    from sdpkit.numerics.eigenpairs import leading_eigenpairs

    n = laplacian.shape[0]
    if _profile_work(laplacian) > _MOST_WORK:
        return _by_products(laplacian, k)
    continue_or_raise()
    grounded = splu(
        laplacian[1:, 1:].tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def pseudo_inverse(x: Array) -> Array:
        continue_or_raise()
        centred = x.ravel() - x.mean()
        y = np.concatenate([[0.0], grounded.solve(centred[1:])])
        return np.asarray(y - y.mean())

    values, vectors = leading_eigenpairs(pseudo_inverse, n, k, tol=0.0)
    return 1.0 / values, vectors


def _profile_work(matrix: sparse.csr_array) -> float:
    """Σ h², h the distance from the first entry of each row to the diagonal, in an order of small
    bandwidth."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order = reverse_cuthill_mckee(sparse.csr_matrix(matrix), symmetric_mode=True)
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    entries = matrix.tocoo()
    first = np.arange(order.size)
    np.minimum.at(first, rank[entries.row], rank[entries.col])
    return float(np.square(np.arange(order.size) - first, dtype=np.float64).sum())


def _by_products(laplacian: sparse.csr_array, k: int) -> tuple[Array, Array]:
    """The same by products with cI − L, c ≥ λ_max, on 1⊥."""
    from sdpkit.numerics.eigenpairs import leading_eigenpairs

    ceiling = float(abs(laplacian).sum(axis=1).max())

    def lifted(x: Array) -> Array:
        continue_or_raise()
        centred = x.ravel() - x.mean()
        y = ceiling * centred - laplacian @ centred
        return np.asarray(y - y.mean())

    n_vectors = max(_RITZ_VECTORS, 4 * k)
    values, vectors = leading_eigenpairs(lifted, laplacian.shape[0], k, 0.0, n_vectors)
    return ceiling - values, vectors
