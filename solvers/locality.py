"""An order of points in which near ones are next to each other.

Work that goes from point to point, and at each looks at points near it, then finds most of them in
the cache of the processor.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# Fewer points than this fit the cache in any order.
_FEW_POINTS = 4000
# Points are halved along the widest of their leading directions, until so few are left.
_DIRECTIONS, _LEAF = 12, 32


def near_each_other(points: Array) -> Indices:
    """(n,) the points, halved again and again where they are widest; few of them as they are.

    >>> line = np.random.default_rng(0).permutation(10_000)[:, None].astype(float)
    >>> steps = np.abs(np.diff(line[near_each_other(line), 0]))
    >>> bool(steps.mean() < 30)                     # in their own order it would be 3333
    True
    """
    everything = np.arange(len(points))
    if len(points) < _FEW_POINTS:
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
