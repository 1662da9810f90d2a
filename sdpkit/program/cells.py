"""Cells of near points, by which a search in a large set skips most distances.

The points of every class are split by a k-d tree into cells of a few hundred, each in a box. A
point l of a cell cannot be an impostor of i where the box is farther from i than the reach of i:
only the anchors that are nearer are compared with the points of a cell, by the same products as
without cells (`sdpkit.program.tiles`). In a learned metric a few directions hold nearly all of a
distance, so that of a million points in thirty dimensions one pair in ten is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.kernels import proof_kernel
from sdpkit.program.tiles import Screen, Strip, TilePairs
from sdpkit.typing import Array, Bools, Indices

# Anchors and members from which on cells save more than they cost.
_MANY_POINTS = 40_000
# Members of a cell, and anchors that are compared with one cell after the other.
_CELL_POINTS, _STRIP_POINTS = 512, 4096
# The share of all pairs up to which cells pay, and the anchors that say what it is.
_MOST_PAIRS, _SAMPLE = 0.42, 200


@dataclass(frozen=True, eq=False)
class CelledScreen:
    """A screen whose columns are in cells.

    Attributes
    ----------
    screen: its members are in the order of the cells;  starts: (c + 1,) where each cell begins
    labels: (c,) the class of each cell
    lows, highs: (c, k) its box;  allowances: (c,) what products with its points may be wrong by
    reach: (n,) with what products with the point itself may be wrong by
    """

    screen: Screen
    starts: Indices
    labels: Indices
    lows: Array
    highs: Array
    allowances: Array
    reach: Array

    @classmethod
    def where_it_pays(
        cls, screen: Screen, labels: Indices, reach: Array, asks: Bools
    ) -> CelledScreen | None:
        """The screen in cells, where there are many points and their boxes rule out most pairs, as
        a sample of the anchors says: in many directions everything is near."""
        rows = np.flatnonzero(asks)
        if min(rows.size, len(screen.members)) < _MANY_POINTS or not screen.columns.shape[1]:
            return None  # under a metric of zero all points are at one place
        celled = cls.of(screen, labels, reach)
        some = rows[:: max(1, rows.size // _SAMPLE)]
        return celled if celled._share_of_pairs(some, labels) < _MOST_PAIRS else None

    @classmethod
    def of(cls, screen: Screen, labels: Indices, reach: Array) -> CelledScreen:
        """The members of a screen, which are in the order of their classes, in cells."""
        order, starts = _cells(screen.columns, labels[screen.members])
        turned = screen.ordered(order)
        columns = turned.columns.astype(np.float64)
        first = starts[:-1]
        squares = np.einsum("ij,ij->i", screen.points, screen.points, dtype=np.float64)
        doubts = np.maximum(squares - screen.low, 0.0)
        return cls(
            turned,
            starts,
            labels[turned.members[first]],
            np.minimum.reduceat(columns, first),
            np.maximum.reduceat(columns, first),
            np.maximum.reduceat(doubts[turned.members], first),
            reach + 2 * doubts,
        )

    def strips(self, block: int, labels: Indices, asks: Bools) -> Iterator[Strip]:
        """Near anchors of one class together."""
        rows = np.flatnonzero(asks)
        rows = rows[np.argsort(labels[rows], kind="stable")]
        rows = rows[_cells(self.screen.points[rows], labels[rows])[0]]
        for part in np.split(rows, np.flatnonzero(np.diff(labels[rows])) + 1):
            for first in range(0, part.size, _STRIP_POINTS):
                yield Strip(block, part[first : first + _STRIP_POINTS], [], False)

    def candidates(
        self, strip: Strip, labels: Indices, group: Indices
    ) -> Iterator[tuple[Indices, Indices]]:
        """Pairs (i, l), among them all with q_il < reach_i; the next ones overwrite them."""
        screen, rows = self.screen, strip.rows
        points, reach = screen.points[rows].astype(np.float64), self.reach[rows]
        tile_pairs = TilePairs.of(screen, rows, labels, group)
        near = np.empty(rows.size, np.int64)
        for cell in self._reached(points, reach, int(labels[rows[0]])):
            continue_or_raise()
            box = (self.lows[cell], self.highs[cell], float(self.allowances[cell]))
            n = _rows_near(points, reach, *box, near)
            if n:
                members = slice(int(self.starts[cell]), int(self.starts[cell + 1]))
                yield tile_pairs.found(members, chosen=near[:n])

    def _share_of_pairs(self, rows: Indices, labels: Indices) -> float:
        """The share of the pairs of some anchors with points of other classes that is compared."""
        sizes, compared, pairs = np.diff(self.starts), 0, 1
        for i in rows:
            point = self.screen.points[i : i + 1].astype(np.float64)
            near = self._reached(point, self.reach[i : i + 1], int(labels[i]))
            compared += int(sizes[near].sum())
            pairs += int(sizes[self.labels != labels[i]].sum())
        return compared / pairs

    def _reached(self, points: Array, reach: Array, label: int) -> Indices:
        """The cells of other classes whose box is near that of some anchors."""
        gap = np.maximum(self.lows - points.max(axis=0), points.min(axis=0) - self.highs)
        far = np.square(np.maximum(gap, 0.0)).sum(axis=1)
        return np.flatnonzero(
            (self.labels != label) & (far < np.fmax.reduce(reach) + self.allowances)
        )


def _cells(points: NDArray[Any], labels: Indices) -> tuple[Indices, Indices]:
    """(order, starts): points of one class after the other, in cells of near ones."""
    order = np.arange(len(points))
    ends = np.append(np.flatnonzero(np.diff(labels)) + 1, len(points)).tolist()
    spans, starts = list(zip([0, *ends[:-1]], ends, strict=True)), []
    while spans:
        first, last = spans.pop()
        if last - first <= _CELL_POINTS:
            starts.append(first)
            continue
        continue_or_raise()
        part = order[first:last]
        mine = points[part]
        column = mine[:, int(np.argmax(mine.var(axis=0)))]
        half = (last - first) // 2
        order[first:last] = part[np.argpartition(column, half)]
        spans += [(first, first + half), (first + half, last)]
    return order, np.append(np.sort(starts), len(points)).astype(np.int64)


@proof_kernel("f8[:,:]", "f8[:]", "f8[:]", "f8[:]", "f8", "out i8[:]")
def _rows_near(points: Any, reach: Any, lows: Any, highs: Any, allowance: float, out: Any) -> Any:
    """Write which points are nearer to a box than their reach; their number."""
    n = 0
    for a in range(len(points)):
        limit, far = reach[a] + allowance, 0.0
        for c in range(lows.size):
            x = points[a, c]
            gap = max(lows[c] - x, x - highs[c], 0.0)
            far += gap * gap
            if far >= limit:
                break
        if far < limit:
            out[n] = a
            n += 1
    return n
