"""What comes in: arrays of finite numbers, refused by name where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError


def finite_array(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """`value` as a new array of finite numbers; anything else is refused by `name`.

    >>> finite_array([1, 2], "X")
    array([1., 2.])
    >>> finite_array([1, float("nan")], "X")
    Traceback (most recent call last):
    sdpkit.errors.InputError: X contains NaN or infinite entries
    """
    if np.iscomplexobj(value):
        raise InputError(f"{name} is complex; pass real numbers")
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error
    if not np.isfinite(array).all():
        raise InputError(f"{name} contains NaN or infinite entries")
    return array


def finite_csr(matrix: Any, shape: tuple[int, int], what: str) -> sp.csr_array:
    """`matrix` as a canonical, finite csr array of the stated shape, not shared with the caller."""
    out = sp.csr_array(shape) if matrix is None else sp.csr_array(matrix, dtype=np.float64)
    if out.shape != shape:
        raise InputError(f"{what} has shape {out.shape}, expected {shape}")
    if out.nnz and not np.isfinite(out.data).all():
        raise InputError(f"{what} contains NaN or infinite entries")
    out = out.copy()
    out.sum_duplicates()
    out.eliminate_zeros()
    out.sort_indices()
    return out


def finite_vector(values: ArrayLike | None, size: int, what: str) -> NDArray[np.float64]:
    """`values` as a finite, read-only vector of the stated size (zeros if None)."""
    out = np.zeros(size) if values is None else np.array(values, dtype=np.float64)
    if out.shape != (size,):
        raise InputError(f"{what} has shape {out.shape}, expected ({size},)")
    if not np.isfinite(out).all():
        raise InputError(f"{what} contains NaN or infinite entries")
    out.setflags(write=False)
    return out
