"""Cholesky factors of positive definite matrices, and inverses from them."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from sdpkit.typing import Array


class Breakdown(Exception):
    """A factorisation failed: the iterate is as good as rounding allows."""


def cholesky(matrix: Array) -> Array:
    """The lower factor of a symmetric positive definite matrix; `Breakdown` if it is not."""
    # A symmetric matrix by rows is itself by columns: no copy is made for the transpose.
    factor, info = lapack.dpotrf(matrix.T, lower=1, overwrite_a=0)
    if info != 0:
        raise Breakdown
    return np.asarray(factor)


def inverse_of(factor: Array) -> Array:
    """The inverse of a matrix with Cholesky factor `factor`, both triangles filled."""
    inverse, info = lapack.dpotri(factor, lower=1, overwrite_c=0)
    if info != 0:
        raise Breakdown
    # The other triangle holds the zeros that the factorisation left there.
    full = inverse + inverse.T
    full[np.diag_indices(full.shape[0])] *= 0.5
    return np.asarray(full)
