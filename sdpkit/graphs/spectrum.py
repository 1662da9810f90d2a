"""Bottom eigenvectors of a Laplacian, or of another matrix whose null space is the constant."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sdpkit.inputs import integer
from sdpkit.typing import Array

_SMALL_SPECTRUM_POINTS = 200  # up to this, the whole spectrum is cheaper than a few vectors


def smooth_basis(matrix: sparse.csr_array, n_basis: int) -> Array:
    """Q, (n, m): the m bottom eigenvectors on 1⊥, orthonormal.

    >>> path = sparse.csr_array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]])
    >>> np.abs(smooth_basis(path, 1)).ravel().round(6) + 0.0
    array([0.707107, 0.      , 0.707107])
    """
    n = matrix.shape[0]
    m = integer(n_basis, "n_basis", most=n - 1)
    if n <= max(_SMALL_SPECTRUM_POINTS, 4 * m):
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
    """
    from scipy.sparse.linalg import splu

    from sdpkit.numerics.eigenpairs import leading_eigenpairs

    n = laplacian.shape[0]
    grounded = splu(
        laplacian[1:, 1:].tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def pseudo_inverse(x: Array) -> Array:
        centred = x.ravel() - x.mean()
        y = np.concatenate([[0.0], grounded.solve(centred[1:])])
        return np.asarray(y - y.mean())

    values, vectors = leading_eigenpairs(pseudo_inverse, n, k, tol=0.0)
    return 1.0 / values, vectors
