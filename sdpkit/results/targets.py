"""Target neighbours: the points of its own class that a point is pulled to."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.numerics.neighbors import nearest
from sdpkit.typing import Array, Indices


def target_neighbors(X: Array, labels: Indices, k: int) -> Indices:
    """(p, 2) pairs (i, j): the k nearest points j of the class of i, ties by index.

    >>> target_neighbors(np.array([[0.0], [1.0], [5.0], [2.0]]), np.array([0, 0, 1, 0]), 1)
    array([[0, 1],
           [1, 0],
           [3, 1]])
    """
    return nearest_in_class([X], labels, np.zeros_like(labels), k)


def nearest_in_class(outputs: list[Array], labels: Indices, block_of: Indices, k: int) -> Indices:
    """(p, 2) the same in outputs of several metrics: that of j's block measures the distance."""
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = min(k, members.size - 1)
        if count:
            parts = [np.asarray(part[members], dtype=np.float64) for part in outputs]
            blocks = block_of[members]
            found = nearest(parts, parts, count, block_of=blocks, themselves=True)[0]
            pairs.append(np.c_[np.repeat(members, count), members[found.ravel()]])
    out = np.concatenate(pairs)
    return out[np.lexsort((out[:, 1], out[:, 0]))]


def given_targets(targets: ArrayLike, n: int) -> Indices:
    """(p, 2) pairs from a table (n, k) of target neighbours, −1 where there are fewer."""
    table = np.asarray(targets)
    if table.ndim != 2 or table.shape[0] != n or table.dtype.kind not in "iu":
        raise InputError(f"targets has shape {table.shape}, expected integers ({n}, k)")
    if table.min(initial=0) < -1 or table.max(initial=-1) >= n:
        raise InputError(f"targets names points outside −1 … {n - 1}")
    i = np.repeat(np.arange(n), table.shape[1])
    pairs = np.c_[i, table.ravel()]
    return np.asarray(pairs[pairs[:, 1] >= 0])


def target_table(pairs: Indices, n: int) -> Indices:
    """(n, k) target neighbours from pairs ordered by anchor, −1 where there are fewer."""
    counts = np.bincount(pairs[:, 0], minlength=n)
    out = np.full((n, int(counts.max())), -1)
    place = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
    out[pairs[:, 0], place] = pairs[:, 1]
    return out
