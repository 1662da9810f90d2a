"""An order of points in which near ones are next to each other.

Work that goes from point to point, and at each looks at points near it, then finds most of them in
the cache of the processor.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpkit.typing import Array, Indices

# Fewer numbers than this fit the cache in any order.
_FEW_NUMBERS = 2**20
# Points are halved along the widest of their leading directions, until so few are left.
_DIRECTIONS, _LEAF = 12, 32


def near_each_other(points: Array) -> Indices:
    """(n,) the points, halved again and again where they are widest; few of them as they are.

    >>> plane = np.random.default_rng(0).random((600_000, 2))
    >>> steps = np.linalg.norm(np.diff(plane[near_each_other(plane)], axis=0), axis=1)
    >>> bool(steps.mean() < 0.01)                   # in their own order it would be 0.52
    True
    """
    everything = np.arange(len(points))
    if points.size < _FEW_NUMBERS:
        return everything
    centred = points - points.mean(axis=0)
    directions = scipy.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :_DIRECTIONS]
    leading = centred @ directions
    parts, leaves = [everything], []
    while parts:
        part = parts.pop()
        if part.size <= _LEAF:
            leaves.append(part)
            continue
        here = leading[part]
        along = here[:, here.var(axis=0).argmax()]
        half = part.size // 2
        order = np.argpartition(along, half)
        parts += [part[order[half:]], part[order[:half]]]
    return np.concatenate(leaves)


__all__ = ["near_each_other"]
