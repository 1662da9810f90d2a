"""Nearest neighbours in the order (distance, index), so that ties have one answer.

Integer features tie often, and another tie-break gives another problem: neighbours must not depend
on the order in which a tree or a partial sort happens to visit points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.inputs import integer
from sdpkit.numerics.threads import one_blas_thread, own_threads, workers

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_SLAB_ENTRIES = 2**22  # distances computed at a time, by each thread
_BLOCK_ENTRIES = 2**21  # 16 MB of doubles, where one thread works through rows
# For more points and queries than these, in up to so many dimensions, a k-d tree is asked first.
_TREE_POINTS, _TREE_QUERIES, _TREE_DIMENSIONS = 500, 50, 16
_TIE = 1e-12  # relative difference of squares that two ways of computing them may disagree on


def row_blocks(count: int, width: int) -> Iterator[slice]:
    """Slices of 0..count; the rows of a slice, each `width` numbers wide, fill about 16 MB.

    >>> list(row_blocks(3, 2**20))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    rows = max(1, _BLOCK_ENTRIES // max(width, 1))
    return (slice(start, min(start + rows, count)) for start in range(0, count, rows))


def squared_distances(
    queries: Sequence[Array], points: Sequence[Array], block_of: Indices
) -> Iterator[tuple[slice, Array]]:
    """Slabs (rows, ‖q − p‖²) of all queries against all points, (b, n).

    `queries` and `points` hold one array of outputs per block; the distance to a point is
    measured in the outputs of its block.
    """
    n = points[0].shape[0]
    # One block has all points: slices copy nothing.
    members: list[Any] = [slice(None)]
    if len(points) > 1:
        members = [np.flatnonzero(block_of == block) for block in range(len(points))]
    # Each block is centred on its own points: a far centre would cost digits.
    centres = [
        p[mine].mean(axis=0) if len(p[mine]) else np.zeros(p.shape[1])
        for p, mine in zip(points, members, strict=True)
    ]
    right = [p[mine] - c for p, c, mine in zip(points, centres, members, strict=True)]
    norms = [np.einsum("ij,ij->i", p, p) for p in right]

    def slab(rows: slice) -> tuple[slice, Array]:
        out = np.empty((queries[0][rows].shape[0], n))
        for q, c, p, norm, mine in zip(queries, centres, right, norms, members, strict=True):
            left = q[rows] - c
            part = np.einsum("ij,ij->i", left, left)[:, None] + norm - 2 * (left @ p.T)
            out[:, mine] = np.maximum(part, 0.0)
        return rows, out

    total, height = queries[0].shape[0], max(1, _SLAB_ENTRIES // max(1, n))
    starts = range(0, total, height)
    slabs = [slice(start, min(start + height, total)) for start in starts]
    if len(slabs) == 1:
        yield slab(slabs[0])
        return
    with own_threads() as pool:
        # A few at a time: finished slabs wait for the caller in memory.
        for first in range(0, len(slabs), workers()):
            yield from pool.map(slab, slabs[first : first + workers()])


@one_blas_thread
def nearest(
    queries: Sequence[Array],
    points: Sequence[Array],
    k: int,
    *,
    block_of: Indices | None = None,
    themselves: bool = False,
) -> tuple[Indices, Array]:
    """The k nearest points of every query by (distance, index): indices and squared distances.

    `themselves`: the queries are the points, and none is its own neighbour.

    >>> line = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> nearest([line], [line], 2, themselves=True)[0]        # ties go to the smaller index
    array([[1, 2],
           [0, 2],
           [1, 3],
           [2, 1]])
    """
    n = points[0].shape[0]
    integer(k, "n_neighbors", most=n - themselves)
    blocks = np.zeros(n, dtype=np.int64) if block_of is None else block_of
    count = queries[0].shape[0]
    many = n > _TREE_POINTS and count > _TREE_QUERIES
    if many and len(points) == 1 and points[0].shape[1] <= _TREE_DIMENSIONS:
        found, lengths, unsure = _by_tree(queries[0], points[0], k, themselves)
    else:
        found, lengths = np.empty((count, k), dtype=np.int64), np.empty((count, k))
        unsure = np.arange(count)
    rest = [q[unsure] for q in queries]
    for rows, distances in squared_distances(rest, points, blocks):
        if themselves:
            distances[np.arange(distances.shape[0]), unsure[rows]] = np.inf
        i, j = _candidates(distances, k, 1e-13 * max(1, *(p.shape[1] for p in points)))
        exact = _exact([q[rows] for q in rest], points, blocks, i, j)
        first = _first(i, j, exact, k)
        found[unsure[rows]], lengths[unsure[rows]] = j[first], exact[first]
    return found, lengths


def smallest(rows: Array, k: int) -> Indices:
    """Columns of the k smallest entries of each row in the order (value, column), (r, k).

    >>> smallest(np.array([[3.0, 1.0, 1.0], [0.0, 2.0, 2.0]]), 2)
    array([[1, 2],
           [0, 1]])
    """
    i, j = _candidates(rows, k)
    return j[_first(i, j, rows[i, j], k)]


def _candidates(distances: Array, k: int, rounding: float = 0.0) -> tuple[Indices, Indices]:
    """Pairs (row, column) that may be among the k smallest of their row, row by row, if entries
    are off by up to `rounding` times the largest of the row."""
    kth = np.partition(distances, k - 1, axis=1)[:, k - 1]
    if rounding:
        finite = np.where(np.isfinite(distances), distances, 0.0)
        kth = kth + rounding * finite.max(axis=1)
    i, j = np.nonzero(distances <= kth[:, None])
    return i, j


def _first(i: Indices, j: Indices, values: Array, k: int) -> Indices:
    """(r, k) which of the candidates (i, j) come first in their row, by (value, j)."""
    order = np.lexsort((j, values, i))
    starts = np.flatnonzero(np.diff(i, prepend=-1))
    return np.asarray(order[starts[:, None] + np.arange(k)])


def _exact(
    queries: Sequence[Array], points: Sequence[Array], block_of: Indices, i: Indices, j: Indices
) -> Array:
    """(c,) squared distances of the pairs (i, j), each in the outputs of its block."""
    if len(points) == 1:
        return pair_squares(queries[0], points[0], i, j)
    out = np.empty(i.size)
    for block, (q, p) in enumerate(zip(queries, points, strict=True)):
        mine = block_of[j] == block
        out[mine] = pair_squares(q, p, i[mine], j[mine])
    return out


def pair_squares(queries: Array, points: Array, i: Indices, j: Indices) -> Array:
    """(c,) ‖q_i − p_j‖² of the pairs (i, j), from differences.

    >>> line, i, j = np.array([[0.0], [1.0], [3.0]]), np.array([0, 1]), np.array([2, 2])
    >>> pair_squares(line, line, i, j)
    array([9., 4.])
    """
    out = np.empty(i.size)
    for part in row_blocks(i.size, points.shape[1]):
        difference = queries[i[part]] - points[j[part]]
        out[part] = np.einsum("ij,ij->i", difference, difference)
    return out


def _by_tree(
    queries: Array, points: Array, k: int, themselves: bool
) -> tuple[Indices, Array, Indices]:
    """The k nearest points of every query by a k-d tree, their squares, and the queries it is not
    sure of.

    A tree has no rule for ties, so where two of the nearest are almost equally far, or where a
    query shares its place with another point, the caller has to look again.
    """
    from scipy.spatial import cKDTree

    wanted = min(k + 1 + themselves, len(points))
    tree: Any = cKDTree(points)
    lengths, nearest_first = tree.query(queries, k=np.arange(1, wanted + 1))
    squared = lengths**2
    close = np.diff(squared, axis=1) <= _TIE * squared[:, 1:]
    unsure = close[:, : k + themselves].any(axis=1)
    if themselves:
        unsure |= nearest_first[:, 0] != np.arange(len(queries))
    found = nearest_first[:, themselves : k + themselves].astype(np.int64)
    rows = np.repeat(np.arange(len(queries)), k)
    exact = pair_squares(queries, points, rows, found.ravel())
    return found, exact.reshape(found.shape), np.flatnonzero(unsure)
