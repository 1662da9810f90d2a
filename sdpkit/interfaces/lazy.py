"""Estimators on points that are stored in parts: read to be fitted, mapped block by block.

`fit` takes what `sdpkit.stored` reads: memory-mapped arrays, lists of .npy files, folders of
.parquet files and Dask arrays. `transform` and `predict` of a Dask array return one, whose blocks
are computed when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.stored import is_stored
from sdpkit.typing import Array


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask array or frame, whose blocks are computed later.

    >>> is_lazy(np.eye(2))
    False
    """
    return is_stored(X) and hasattr(X, "to_delayed")


def in_blocks(
    X: Any, n_features: int, function: Callable[..., NDArray[Any]], learned: Any, like: NDArray[Any]
) -> Any:
    """A Dask array of `function(block, learned)`, one row for each row of X; `like` is an empty
    result."""
    import dask.array
    from dask.delayed import delayed

    points = X if isinstance(X, dask.array.Array) else X.to_dask_array()
    if points.ndim != 2 or points.shape[1] != n_features:
        raise InputError(
            f"X has shape {points.shape}; this estimator was fitted on {n_features} features"
        )
    points = points.rechunk({1: -1})
    chunks = (points.chunks[0],) if like.ndim == 1 else (points.chunks[0], (like.shape[1],))
    return points.map_blocks(
        partial(_of_a_block, function),
        delayed(learned, traverse=False),  # sent once, not with every block
        drop_axis=1 if like.ndim == 1 else None,
        chunks=chunks,
        meta=like,
        dtype=like.dtype,
    )


def _of_a_block(function: Callable[..., NDArray[Any]], block: Any, learned: Any) -> NDArray[Any]:
    return function(np.asarray(block, dtype=np.float64), learned)


def images(points: Array, components: Array) -> Array:
    """(n, r) L x of points x."""
    wrong = ~np.isfinite(points)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"a block of X holds {points[row, column]} in its row {row}, column {column} (counted "
            "from 0): remove or replace such rows"
        )
    return np.asarray(points @ components.T)
