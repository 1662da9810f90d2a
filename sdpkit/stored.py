"""Points that are stored in parts or on disk, and large arrays that are kept on disk.

`points_of` takes what holds more points than anybody wants to copy:

    an array, or np.load(path, mmap_mode="r")    n × D
    a list of paths of .npy files                 parts with the same number of columns
    the path of a folder of .parquet files        parts in the order of their names
    a Dask array                                  blocks of rows, computed one by one

Parts are read and checked one by one. The result is in memory if it takes no more than a share of
the limit, and otherwise in a file of the temporary folder that disappears with it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.typing import Array

# Of the limit: arrays that take more are kept on disk.
_SHARE = 1 / 8
# Rows that are copied at a time.
_ROWS = 1 << 16

_limit: ContextVar[float] = ContextVar("memory_limit", default=np.inf)


def bytes_of(limit: float | str | None) -> float:
    """A memory limit in bytes; None for none.

    >>> bytes_of("4GiB"), bytes_of(1e9)
    (4294967296.0, 1000000000.0)
    """
    if limit is None:
        return float("inf")
    if isinstance(limit, str):
        units = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "kB": 1e3, "MB": 1e6, "GB": 1e9}
        unit = next((u for u in units if limit.strip().endswith(u)), None)
        number = limit.strip().removesuffix(unit or "").strip()
        if unit is None or not number.replace(".", "", 1).isdecimal():
            raise InputError(f"memory_limit is {limit!r}; write it as '4GiB', or in bytes")
        return float(number) * units[unit]
    if isinstance(limit, bool) or not isinstance(limit, int | float | np.number) or not limit > 0:
        raise InputError(f"memory_limit is {limit!r}; pass a positive number of bytes, or '4GiB'")
    return float(limit)


@contextmanager
def memory_limit(limit: float) -> Iterator[None]:
    """Keep arrays that `empty` makes inside on disk where they take an eighth of so many bytes."""
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def empty(shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
    """An array without values, in memory or in a temporary file that disappears with it.

    >>> with memory_limit(1000.0):
    ...     type(empty((100, 10))).__name__, type(empty((3, 3))).__name__
    ('memmap', 'ndarray')
    """
    size = float(np.prod(shape)) * np.dtype(dtype).itemsize
    if size <= _SHARE * _limit.get() or not size:
        return np.empty(shape, dtype=dtype)
    with tempfile.TemporaryFile(prefix="sdpkit-") as file:
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)


def rows_of(array: NDArray[Any]) -> Iterator[slice]:
    """Slices of its rows, as many at a time as are copied together."""
    return (slice(a, min(a + _ROWS, len(array))) for a in range(0, len(array), _ROWS))


def centred(points: NDArray[Any]) -> Array:
    """(n, D) points about their mean, in double precision."""
    mean = np.zeros(points.shape[1])
    for rows in rows_of(points):
        mean += points[rows].sum(axis=0, dtype=np.float64) / len(points)
    out = empty(points.shape)
    for rows in rows_of(points):
        np.subtract(points[rows], mean, out=out[rows])
    return out


def product(points: Array, matrix: Array) -> Array:
    """points @ matrix."""
    out = empty((points.shape[0], matrix.shape[1]))
    for rows in rows_of(points):
        np.matmul(points[rows], matrix, out=out[rows])
    return out


def largest(points: NDArray[Any], units: Array | float = 1.0) -> Array:
    """(D,) the largest absolute value of every column, times its unit."""
    most = np.zeros(points.shape[1])
    for rows in rows_of(points):
        np.maximum(most, np.abs(points[rows]).max(axis=0), out=most)
    return np.asarray(most * units)


def squares(points: Array) -> Array:
    """(D,) the sum of squares of every column."""
    parts = [np.einsum("ij,ij->j", points[rows], points[rows]) for rows in rows_of(points)]
    return np.asarray(np.sum(parts, axis=0))


# -- points ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Some rows: what they are called in errors, and how they are read."""

    name: str
    read: Callable[[], Any]


def is_stored(X: Any) -> bool:
    """Whether these are points that `points_of` reads in parts.

    >>> is_stored(["a.npy", "b.npy"]), is_stored([[1.0, 2.0]])
    (True, False)
    """
    if isinstance(X, np.memmap | str | os.PathLike):
        return True
    if isinstance(X, list | tuple) and X and isinstance(X[0], str | os.PathLike):
        return True
    return type(X).__module__.startswith("dask.") and hasattr(X, "to_delayed")


def points_of(X: Any, name: str = "X") -> NDArray[Any]:
    """(n, D) all points, read-only; what cannot be used is refused by the name of its part."""
    if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype in (np.float64, np.float32):
        for rows in rows_of(X):
            _check(X[rows], f"{name}, rows {rows.start} to {rows.stop - 1}", X.shape[1])
        return X
    parts = list(_parts(X, name))
    first = _shape(parts[0].read(), parts[0].name)
    sizes = [first, *(_shape(part.read(), part.name) for part in parts[1:])]
    width = first[1]
    for part, (_, columns) in zip(parts, sizes, strict=True):
        if columns != width:
            raise InputError(
                f"{part.name} has {columns} columns, and {parts[0].name} has {width}: all parts of "
                f"{name} must have the same columns"
            )
    total = sum(count for count, _ in sizes)
    if total < 2 or width < 1:
        raise InputError(f"{name} has shape {(total, width)}, expected (n, D) with n ≥ 2")
    out = empty((total, width))
    start = 0
    for part, (count, _) in zip(parts, sizes, strict=True):
        out[start : start + count] = _check(np.asarray(part.read()), part.name, width)
        start += count
    out.setflags(write=False)
    return out


def _parts(X: Any, name: str) -> Iterator[_Part]:
    if isinstance(X, np.memmap):
        for rows in rows_of(X):
            yield _Part(
                f"{name}, rows {rows.start} to {rows.stop - 1}", partial(X.__getitem__, rows)
            )
    elif isinstance(X, str | os.PathLike) and Path(X).is_dir():
        files = sorted(Path(X).glob("*.parquet"))
        if not files:
            raise InputError(f"the folder {X} of {name} has no files *.parquet")
        for path in files:
            yield _Part(str(path), partial(_parquet, path))
    elif isinstance(X, str | os.PathLike):
        yield _Part(str(X), partial(_npy, X))
    elif isinstance(X, list | tuple):
        for path in X:
            yield _Part(str(path), partial(_npy, path))
    else:
        if X.ndim != 2:
            raise InputError(f"{name} has shape {X.shape}, expected (n, D)")
        for k, block in enumerate(X.rechunk({1: -1}).to_delayed().ravel()):
            yield _Part(f"block {k} of {name}", block.compute)


def _npy(path: Any) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as an array ({error})") from error


def _parquet(path: Path) -> Any:
    try:
        import pandas

        return pandas.read_parquet(path).to_numpy()
    except ImportError as error:
        raise InputError(
            f"{path} needs the packages pandas and pyarrow: pip install pandas pyarrow"
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a parquet file ({error})") from error


def _shape(part: Any, name: str) -> tuple[int, int]:
    if np.ndim(part) != 2:
        raise InputError(f"{name} has shape {np.shape(part)}, expected rows and columns")
    return int(part.shape[0]), int(part.shape[1])


def _check(part: NDArray[Any], name: str, width: int) -> Array:
    if part.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {part.dtype.name}, expected real numbers")
    if part.shape[1] != width:
        raise InputError(f"{name} has {part.shape[1]} columns, expected {width}")
    wrong = ~np.isfinite(part)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"{name} holds {part[row, column]} in row {row}, column {column} (counted from 0): "
            "remove or replace such rows"
        )
    return part


def labels_of(y: Any) -> Any:
    """Labels as an array: one, or a list of paths of .npy files, or a Dask array."""
    if isinstance(y, str | os.PathLike):
        return _npy(y)
    if isinstance(y, Sequence) and y and isinstance(y[0], os.PathLike):
        return np.concatenate([_npy(path) for path in y])
    return y.compute() if hasattr(y, "compute") and hasattr(y, "to_delayed") else y
