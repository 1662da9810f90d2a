"""Tiles of distances between points of different classes, screened by products.

A search needs the pairs (i, l) of points of different classes with q_il < reach_i. Products in
single precision tell nearly all of them apart from the rest: what they may be wrong by is known, so
that no pair is missed, and the few that remain are measured exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.kernels import proof_kernel
from sdpkit.typing import Indices

# Entries and columns of one tile of distances: in single precision they fit a second-level cache.
TILE_ENTRIES, TILE_COLUMNS = 2**18, 1024
# Up to this many points, tiles are worked through by numpy.
_UNCOMPILED_POINTS = 700
# Pairs of a tile that there is room for at first.
_ROOM = 2**14
# Columns of a row that are looked at together.
_GLANCE = 64
# Pairs of several tiles that are measured together.
_TOGETHER = 2**15


@dataclass(frozen=True)
class Strip:
    """A rectangle of distances in a block's outputs.

    Attributes
    ----------
    rows: the points that they are measured from;  spans: the members of the block that they are
        measured to, (first, beyond the last) of each run
    both: whether these ask for their impostors too
    """

    block: int
    rows: Indices
    spans: list[tuple[int, int]]
    both: bool


@dataclass(frozen=True)
class Screen:
    """Points no farther from each other than the outputs of a block are.

    Attributes
    ----------
    points: (n, k);  low: (n,) their squared lengths, less what products may be wrong by
    limits: (n,) reach − low
    members: the points of the block;  columns, low_columns: these, of `points` and `low`
    """

    points: NDArray[Any]
    low: NDArray[Any]
    limits: NDArray[Any]
    members: Indices
    columns: NDArray[Any]
    low_columns: NDArray[Any]

    def candidates(
        self, strip: Strip, labels: Indices, group: Indices
    ) -> Iterator[tuple[Indices, Indices]]:
        """Pairs (i, l) of every tile of a strip, among them all with q_il < reach_i; those of the
        next tile overwrite them."""
        tile_pairs = TilePairs.of(self, strip.rows, labels, group)
        for first, beyond in strip.spans:
            for start in range(first, beyond, TILE_COLUMNS):
                continue_or_raise()
                tile = slice(start, min(start + TILE_COLUMNS, beyond))
                yield tile_pairs.found(tile, strip.both)

    def ordered(self, order: Indices) -> Screen:
        """The same with its members in another order."""
        parts = (x[order] for x in (self.members, self.columns, self.low_columns))
        return Screen(self.points, self.low, self.limits, *parts)


@dataclass(eq=False)
class TilePairs:
    """Finds the pairs of some points with tile after tile of the members of a screen.

    Attributes
    ----------
    rows: the points;  twice, low, limits: of these
    pairs: (2, m) room for the pairs of a tile
    """

    screen: Screen
    labels: Indices
    group: Indices
    rows: Indices
    twice: NDArray[Any]
    low: NDArray[Any]
    limits: NDArray[Any]
    pairs: Indices

    @classmethod
    def of(cls, screen: Screen, rows: Indices, labels: Indices, group: Indices) -> TilePairs:
        """With room for a few pairs."""
        twice, low, limits = (x[rows] for x in (screen.points, screen.low, screen.limits))
        twice += twice
        room = np.empty((2, _ROOM), np.int64)
        return cls(screen, labels, group, rows, twice, low, limits, room)

    def found(
        self, tile: slice, both: bool = False, chosen: Indices | None = None
    ) -> tuple[Indices, Indices]:
        """The pairs (i, l) of the points, or of some chosen ones, and the members in a tile, among
        them all with q_il < reach_i; with `both` also those whose i is the member. The next tile
        overwrites them."""
        screen, rows, left = self.screen, self.rows, self.twice
        low, limits = self.low, self.limits
        right, members, theirs = (
            x[tile] for x in (screen.columns, screen.members, screen.low_columns)
        )
        if chosen is not None:
            rows, left = rows.take(chosen), left.take(chosen, axis=0)
            low, limits = low.take(chosen), limits.take(chosen)
        own = -screen.limits[members] if both else np.full_like(theirs, np.inf)
        known = (rows, members, self.labels, self.group, left @ right.T, low, theirs, limits, own)
        if len(screen.points) <= _UNCOMPILED_POINTS:
            return _few_pairs(*known)
        tile_pairs: Any = _TILE_PAIRS[left.dtype.type]
        n = tile_pairs(*known, *self.pairs)
        if n > self.pairs.shape[1]:
            self.pairs = np.empty((2, n), np.int64)
            tile_pairs(*known, *self.pairs)
        i, other = self.pairs[:, :n]
        return i, other


def joined(tiles: Iterable[tuple[Indices, Indices]]) -> Iterator[tuple[Indices, Indices]]:
    """The pairs of several tiles together: a large search has a million tiles of a few pairs."""
    held: list[tuple[Indices, Indices]] = []
    count = 0
    for i, other in tiles:
        if i.size:
            held.append((i.copy(), other.copy()))
            count += i.size
        if count >= _TOGETHER:
            yield _concatenated(held)
            held, count = [], 0
    if held:
        yield _concatenated(held)


def _concatenated(pairs: list[tuple[Indices, Indices]]) -> tuple[Indices, Indices]:
    anchors, others = zip(*pairs, strict=True)
    return np.concatenate(anchors), np.concatenate(others)


def _few_pairs(
    rows: Indices,
    columns: Indices,
    labels: Indices,
    group: Indices,
    twice: NDArray[Any],
    low_rows: NDArray[Any],
    low_columns: NDArray[Any],
    limits: NDArray[Any],
    own: NDArray[Any],
) -> tuple[Indices, Indices]:
    """What `_tile_pairs` writes, in several passes: where there are few pairs, compiling that
    takes longer than all of them."""
    apart = labels[rows][:, None] != labels[columns]
    apart &= group[rows][:, None] == group[columns]
    a, b = np.nonzero(apart & (low_columns - twice < limits[:, None]))
    c, d = np.nonzero(apart & (own - twice < -low_rows[:, None]))
    return np.concatenate([rows[a], columns[d]]), np.concatenate([columns[b], rows[c]])


# -- kernels --------------------------------------------------------------------------------


def _tile_pairs(
    rows: Any,
    columns: Any,
    labels: Any,
    group: Any,
    twice: Any,
    low_rows: Any,
    low_columns: Any,
    limits: Any,
    own: Any,
    out_i: Any,
    out_o: Any,
) -> int:
    """Write the pairs of a tile whose distance may be below the reach of an end; their number.

    `twice` are twice the products of rows and columns, the `low` ones their squared lengths less
    what they may be wrong by; `limits` and `own` are reach − low of rows, low − reach of columns.
    A first look at a few columns of a row only counts candidates, in a loop without branches.
    """
    n = 0
    for a in range(rows.size):
        i, limit, beyond = rows[a], limits[a], -low_rows[a]
        for start in range(0, columns.size, _GLANCE):
            stop = min(start + _GLANCE, columns.size)
            products, low, low_own = twice[a, start:stop], low_columns[start:stop], own[start:stop]
            count = 0
            for b in range(products.size):
                count += (low[b] - products[b] < limit) | (low_own[b] - products[b] < beyond)
            if count == 0:
                continue
            for b in range(products.size):
                mine, theirs = low[b] - products[b] < limit, low_own[b] - products[b] < beyond
                o = columns[start + b]
                if not (mine or theirs) or labels[i] == labels[o] or group[i] != group[o]:
                    continue
                if mine:
                    if n < out_i.size:
                        out_i[n] = i
                        out_o[n] = o
                    n += 1
                if theirs:
                    if n < out_i.size:
                        out_i[n] = o
                        out_o[n] = i
                    n += 1
    return n


_TILE_PAIRS = {
    dtype: proof_kernel(
        *("i8[:]", "i8[:]", "i8[:]", "i8[:]", f"{name}[:,:]"),
        *(f"{name}[:]", f"{name}[:]", f"{name}[:]", f"{name}[:]", "out i8[:]", "out i8[:]"),
    )(_tile_pairs)
    for dtype, name in ((np.float32, "f4"), (np.float64, "f8"))
}
