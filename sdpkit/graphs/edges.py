"""Edges as arrays: pairs of points with squared lengths, checked, sorted and merged."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sdpkit.errors import GraphError, InputError
from sdpkit.inputs import finite_array, one_of
from sdpkit.typing import Array, Indices

PARALLEL_TOLERANCE = 1e-9
"""Relative difference of squared lengths up to which two parallel edges are one edge."""


def component_labels(n_points: int, edges: Indices) -> Indices:
    """Which connected component each point is in, (n,); components follow their first point."""
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(edges))
    matrix = sparse.csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(n_points, n_points))
    return connected_components(matrix, directed=False)[1].astype(np.int64)


def merge_parallel(
    edges: Indices, squared: Array, parallel: Literal["error", "min"], names: Indices
) -> tuple[Indices, Array]:
    """Sort edges (m, 2) and keep the shortest of each bundle; `names` are what errors call them."""
    one_of(parallel, "parallel", ("error", "min"))
    order = np.lexsort((squared, edges[:, 1], edges[:, 0]))
    edges, squared, names = edges[order], squared[order], names[order]
    new = np.ones(len(edges), dtype=bool)
    new[1:] = (edges[1:] != edges[:-1]).any(axis=1)
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(edges))[: len(first)] - 1
    conflict = squared[last] > squared[first] * (1 + PARALLEL_TOLERANCE)
    if parallel == "error" and conflict.any():
        a, b = first[conflict][0], last[conflict][0]
        raise GraphError(
            f"the edges {pair(names[a])} and {pair(names[b])} join the same points with "
            f"different lengths {squared[a] ** 0.5:g} and {squared[b] ** 0.5:g}: "
            "make them agree, or pass parallel='min' if lengths are upper bounds"
        )
    return edges[first], squared[first]


def directed_pairs(neighbors: Indices) -> Indices:
    """The relation "j is a neighbour of i" of neighbour lists (n, k) as pairs (n·k, 2)."""
    n, k = neighbors.shape
    return np.column_stack([np.repeat(np.arange(n), k), neighbors.ravel()])


def ordered_pairs(pairs: ArrayLike, n_points: int) -> Indices:
    """Pairs (p, 2) as int64 with i < j, order kept."""
    try:
        raw = np.asarray(pairs)
    except ValueError as error:
        raise InputError(
            f"edges are not an array of numbers ({error}): pass integer pairs, (m, 2)"
        ) from error
    if raw.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if raw.ndim != 2 or raw.shape[1] != 2 or raw.dtype.kind not in "iu":
        raise InputError(
            f"edges have shape {raw.shape} and dtype {raw.dtype}: pass integer pairs, (m, 2)"
        )
    ordered = np.sort(raw.astype(np.int64), axis=1)
    wrong = (ordered[:, 0] < 0) | (ordered[:, 1] >= n_points)
    if wrong.any():
        raise GraphError(
            f"edge {pair(raw[wrong][0])} is out of range: nodes are 0 to {n_points - 1}"
        )
    loop = ordered[:, 0] == ordered[:, 1]
    if loop.any():
        raise GraphError(f"edge {pair(raw[loop][0])} joins a point to itself: leave it out")
    return ordered


def checked_lengths(value: ArrayLike, edges: Indices) -> Array:
    """Squared lengths as a new array (m,) of finite numbers ≥ 0."""
    squared = finite_array(value, "squared_lengths")
    if squared.shape != (len(edges),):
        raise InputError(
            f"squared_lengths have shape {squared.shape}: pass one per edge, ({len(edges)},)"
        )
    if (squared < 0).any():
        worst = int(squared.argmin())
        raise InputError(
            f"edge {pair(edges[worst])} has squared length {squared[worst]:g}: pass values ≥ 0"
        )
    return squared


def node_set(nodes: ArrayLike, n_points: int) -> Indices:
    """Different nodes (r,) as int64."""
    chosen = np.asarray(nodes)
    if chosen.ndim != 1 or not chosen.size or chosen.dtype.kind not in "iu":
        raise InputError(
            f"nodes have shape {chosen.shape} and dtype {chosen.dtype}: pass integers, (r,)"
        )
    if chosen.min() < 0 or chosen.max() >= n_points or len(np.unique(chosen)) < len(chosen):
        raise InputError(
            f"nodes go from {chosen.min()} to {chosen.max()} or repeat: pass different integers "
            f"from 0 to {n_points - 1}"
        )
    return chosen.astype(np.int64)


def pair(edge: NDArray[Any]) -> str:
    """An edge as errors name it."""
    return f"({edge[0]}, {edge[1]})"
