"""Nearest neighbours by a rule that leaves no choice: by distance, then by index.

Integer features tie, and another tie-break is another problem: target neighbours must not depend
on the order in which a tree or a partial sort happens to visit points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.numerics.threads import one_blas_thread, own_threads, workers

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# Doubles in one slab of distances.
_SLAB = 1 << 22


def squared_distances(
    queries: Sequence[Array], points: Sequence[Array], block_of: Indices
) -> Iterator[tuple[slice, Array]]:
    """Slabs (rows, ‖q − p‖²) of all queries against all points, (b, n).

    `queries` and `points` hold one array of outputs per block; the distance to a point is
    measured in the outputs of its block.
    """
    n = points[0].shape[0]
    members = [np.flatnonzero(block_of == block) for block in range(len(points))]
    # Each block is centred on its own points: a far centre would cost digits.
    centres = [
        p[mine].mean(axis=0) if mine.size else np.zeros(p.shape[1])
        for p, mine in zip(points, members, strict=True)
    ]
    right = [(p - c)[mine] for p, c, mine in zip(points, centres, members, strict=True)]
    norms = [np.einsum("ij,ij->i", p, p) for p in right]

    def slab(rows: slice) -> tuple[slice, Array]:
        out = np.empty((queries[0][rows].shape[0], n))
        for q, c, p, norm, mine in zip(queries, centres, right, norms, members, strict=True):
            left = q[rows] - c
            part = np.einsum("ij,ij->i", left, left)[:, None] + norm - 2 * (left @ p.T)
            out[:, mine] = np.maximum(part, 0.0)
        return rows, out

    total, height = queries[0].shape[0], max(1, _SLAB // max(1, n))
    starts = range(0, total, height)
    slabs = [slice(start, min(start + height, total)) for start in starts]
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
    if not 1 <= k <= n - themselves:
        raise InputError(f"k is {k}; {n} points have 1 … {n - themselves} neighbours")
    blocks = np.zeros(n, dtype=np.int64) if block_of is None else block_of
    found, lengths = [], []
    for rows, distances in squared_distances(queries, points, blocks):
        if themselves:
            distances[np.arange(distances.shape[0]), np.arange(rows.start, rows.stop)] = np.inf
        i, j, exact = _candidates(queries, points, blocks, rows, distances, k)
        order = np.lexsort((j, exact, i))
        starts = np.searchsorted(i[order], np.arange(distances.shape[0]))
        first = order[starts[:, None] + np.arange(k)]
        found.append(j[first])
        lengths.append(exact[first])
    return np.concatenate(found), np.concatenate(lengths)


def _candidates(
    queries: Sequence[Array],
    points: Sequence[Array],
    block_of: Indices,
    rows: slice,
    distances: Array,
    k: int,
) -> tuple[Indices, Indices, Array]:
    """Pairs (row, point) that rounding may put among the k nearest, with exact distances."""
    kth = np.partition(distances, k - 1, axis=1)[:, k - 1]
    finite = np.where(np.isfinite(distances), distances, 0.0)
    doubt = 1e-13 * max(1, *(p.shape[1] for p in points)) * finite.max(axis=1)
    i, j = np.nonzero(distances <= (kth + doubt)[:, None])
    exact = np.empty(i.size)
    for block, (q, p) in enumerate(zip(queries, points, strict=True)):
        mine = block_of[j] == block
        difference = q[rows.start + i[mine]] - p[j[mine]]
        exact[mine] = np.einsum("ij,ij->i", difference, difference)
    return i, j, exact
