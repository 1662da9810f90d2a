"""Products, and passes over large matrices that numpy would make several of, compiled.

Small matrices are left to numpy, since loading the compiler takes half a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas

from sdpkit.numerics.kernels import fast_kernel
from sdpkit.typing import Array, Single

COMPILED_SIZE = 600  # rows from which kernels are used


def product(a: Array, b: Array) -> Array:
    """A·B by scipy's BLAS, which factors too: numpy's is another one with threads of its own,
    and two pools of spinning threads on the same cores cost more than the arithmetic."""
    return np.asarray(blas.dgemm(1.0, b.T, a.T).T)


def times(other: Any, matrix: Array) -> Array:
    """D·M, where D may be sparse."""
    dense = isinstance(other, np.ndarray)
    return product(other, matrix) if dense else np.asarray(other @ matrix)


def primal_step(product: Array, matrix: Array, inverse: Array, target: float) -> Array:
    """target·S⁻¹ − M − (P + Pᵀ)/2 for P = `product`, symmetric M and S⁻¹."""
    if len(matrix) >= COMPILED_SIZE:
        out = np.empty(matrix.shape)
        _primal_step(product, matrix, inverse, target, out)
        return out
    step = product + product.T
    step *= -0.5
    step -= matrix
    if target:
        step += target * inverse
    return step


def scaled_to_single(matrix: Array, scale: Array, out: Single) -> None:
    """D·A·D with D = diag(scale) in single precision, lower triangles alone."""
    if len(matrix) >= COMPILED_SIZE:
        _scaled_to_single(matrix, scale, out)
        return
    out[:] = np.tril(matrix) * np.outer(scale, scale)


@fast_kernel("f8[:,:]", "f8[:,:]", "f8[:,:]", "f8", "out f8[:,:]")
def _primal_step(product: Array, matrix: Array, inverse: Array, target: float, out: Array) -> None:
    n, block = matrix.shape[0], 32  # tiles of rows and columns that stay in cache
    for i0 in range(0, n, block):
        for j0 in range(0, i0 + 1, block):
            for i in range(i0, min(i0 + block, n)):
                for j in range(j0, min(j0 + block, i + 1)):
                    half = 0.5 * (product[i, j] + product[j, i])
                    entry = target * inverse[i, j] - matrix[i, j] - half
                    out[i, j] = entry
                    out[j, i] = entry


@fast_kernel("f8[:,:]", "f8[:]", "out f4[:,:]")
def _scaled_to_single(matrix: Array, scale: Array, out: Single) -> None:
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            out[i, j] = scale[i] * scale[j] * matrix[i, j]
