"""What comes in: arrays of finite numbers, refused by name where they are not."""

from __future__ import annotations

from numbers import Integral
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
    try:
        given = np.asarray(value)
        array = np.array(given.real, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error
    if given.dtype.kind == "c":
        raise InputError(f"{name} is complex; pass real numbers")
    if not np.isfinite(array).all():
        raise InputError(f"{name} contains NaN or infinite entries")
    return array


def finite_points(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """Points (n, D), n ≥ 2, as a new read-only array; anything else is refused by `name`.

    >>> finite_points([[1, 2]], "X")
    Traceback (most recent call last):
    sdpkit.errors.InputError: X has shape (1, 2), expected (n, D) with n ≥ 2
    """
    points = finite_array(value, name)
    if points.ndim != 2 or points.shape[0] < 2 or points.shape[1] < 1:
        raise InputError(f"{name} has shape {points.shape}, expected (n, D) with n ≥ 2")
    points.setflags(write=False)
    return points


def distinct_pairs(value: ArrayLike | None, n_points: int, name: str) -> NDArray[np.int64]:
    """(m, 2) pairs i < j of n points, in order and each once; anything else is refused by `name`.

    >>> distinct_pairs([[2, 0], [0, 2], [1, 2]], 3, "similar")
    array([[0, 2],
           [1, 2]])
    """
    pairs = np.asarray(() if value is None else value)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(f"{name} pairs have shape {pairs.shape}, expected whole numbers (m, 2)")
    if pairs.min() < 0 or pairs.max() >= n_points:
        raise InputError(f"{name} pairs name points outside 0 … {n_points - 1}")
    if np.any(pairs[:, 0] == pairs[:, 1]):
        raise InputError(f"{name} pairs name a point twice; a pair is two different points")
    return np.unique(np.sort(pairs.astype(np.int64), axis=1), axis=0)


def positive_whole(value: Any, name: str) -> int:
    """`value` as a positive integer; anything else is refused by `name`.

    >>> positive_whole(2.5, "rank")
    Traceback (most recent call last):
    sdpkit.errors.InputError: rank is 2.5; it must be a positive integer
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} is {value!r}; it must be a positive integer")
    return int(value)


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
