"""Nearest neighbours in the order (distance, index), so that ties have one answer.

Integer features tie often, and another tie-break gives another problem: neighbours must not depend
on the order in which a tree or a partial sort happens to visit points.

Where there is much to compare, matrix products in single precision screen all points first. What
they may be wrong by is known, so that the few points that may count are found, and these are
measured exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sdpkit.inputs import integer, require_squarable
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.kernels import proof_kernel
from sdpkit.numerics.threads import one_blas_thread, own_threads, workers
from sdpkit.typing import Array, Indices, Single

_SLAB_ENTRIES = 2**22  # distances computed at a time, by each thread
_SLAB_PRODUCTS = 2**23  # the same in single precision: every slab packs all points once more
_BLOCK_ENTRIES = 2**21  # 16 MB of doubles, where one thread works through rows
# For more points and queries than these, in up to so many dimensions, a k-d tree is tried first.
_TREE_POINTS, _TREE_QUERIES, _TREE_DIMENSIONS = 500, 50, 16
_TREE_SLAB = 500  # queries of a tree at a time
_TIE = 1e-12  # relative difference of squares that two ways of computing them may disagree on
# For so many products and more, and for up to so many neighbours, single precision screens first.
_SCREEN_PRODUCTS, _SCREEN_NEIGHBORS = 2**26, 64
# Queries and points of one tile: 256 × 2048 products fit a second-level cache.
_TILE_QUERIES, _TILE_POINTS = 256, 2048
# Candidates that are kept per query, beyond four times k.
_ROOM = 60


def row_blocks(count: int, width: int) -> Iterator[slice]:
    """Slices of 0..count; the rows of a slice, each `width` numbers wide, fill about 16 MB.

    >>> list(row_blocks(3, 2**20))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    return _slices(count, max(1, _BLOCK_ENTRIES // max(width, 1)))


def _slices(count: int, height: int) -> Iterator[slice]:
    return (slice(start, min(start + height, count)) for start in range(0, count, height))


@dataclass(frozen=True, eq=False)
class _Block:
    """The points that one block measures the distance to, about their own centre: a far centre
    would cost digits.

    Attributes
    ----------
    members: which of all points these are;  points: (m, r);  norms: (m,) their squared lengths
    """

    members: Any
    centre: Array
    points: Array
    norms: Array


@dataclass(frozen=True, eq=False)
class _SingleBlock:
    """The same in single precision and in units of `scale`, so that squares stay in range.

    Attributes
    ----------
    low: (m,) squared lengths, less what they and the products may be wrong by: `width`, (m,)
    """

    members: Indices
    centre: Array
    points: Single
    low: Single
    width: Single


class Points:
    """Points whose distances from queries are needed, once or many times.

    Attributes
    ----------
    outputs: one (n, r) array per block;  block_of: (n,) the block whose outputs measure the
        distance to a point

    What a search needs is prepared when it is needed first, and kept.
    """

    def __init__(self, outputs: Sequence[Array], block_of: Indices | None = None) -> None:
        self.outputs = list(outputs)
        self.n = self.outputs[0].shape[0]
        self.block_of = np.zeros(self.n, dtype=np.int64) if block_of is None else block_of
        self._dimensions = max(1, *(part.shape[1] for part in self.outputs))

    # -- all distances -------------------------------------------------------------------------

    @cached_property
    def _blocks(self) -> list[_Block]:
        # One block has all points: slices copy nothing.
        members: list[Any] = [slice(None)]
        if len(self.outputs) > 1:
            members = [np.flatnonzero(self.block_of == b) for b in range(len(self.outputs))]
        blocks = []
        for part, mine in zip(self.outputs, members, strict=True):
            points = part[mine]
            centre = points.mean(axis=0) if len(points) else np.zeros(part.shape[1])
            centred = points - centre
            blocks.append(_Block(mine, centre, centred, np.einsum("ij,ij->i", centred, centred)))
        return blocks

    def squared_distances(self, queries: Sequence[Array]) -> Iterator[tuple[slice, Array]]:
        """Slabs (rows, ‖q − p‖²) of all queries against all points, (b, n).

        `queries` holds one array of outputs per block.
        """

        def slab(rows: slice) -> tuple[slice, Array]:
            continue_or_raise()
            out = np.empty((queries[0][rows].shape[0], self.n))
            for q, block in zip(queries, self._blocks, strict=True):
                left = q[rows] - block.centre
                squares = np.einsum("ij,ij->i", left, left)[:, None] + block.norms
                out[:, block.members] = np.maximum(squares - 2 * (left @ block.points.T), 0.0)
            return rows, out

        slabs = list(_slices(queries[0].shape[0], max(1, _SLAB_ENTRIES // max(1, self.n))))
        if len(slabs) == 1:
            yield slab(slabs[0])
            return
        with own_threads() as pool:
            # A few at a time: finished slabs wait for the caller in memory.
            for first in range(0, len(slabs), workers()):
                yield from pool.map(slab, slabs[first : first + workers()])

    # -- single precision ----------------------------------------------------------------------

    @property
    def _doubt(self) -> float:
        """What single precision may misjudge a squared distance by, as a share of the squared
        lengths involved: rounded factors, a product of r terms, and a few sums."""
        return float((self._dimensions + 16) * np.finfo(np.float32).eps)

    @cached_property
    def _scale(self) -> float:
        """The largest length of a centred point."""
        return float(np.sqrt(max(block.norms.max(initial=0.0) for block in self._blocks))) or 1.0

    @cached_property
    def _single(self) -> list[_SingleBlock]:
        blocks = []
        for block in self._blocks:
            points = (block.points / self._scale).astype(np.float32)
            low, width = self._range(block.norms / self._scale**2)
            members = np.arange(self.n)[block.members]
            blocks.append(_SingleBlock(members, block.centre, points, low, width))
        return blocks

    def _range(self, squares: Array) -> tuple[Single, Single]:
        """(low, width) of squared lengths in units of `scale`."""
        # Numbers below the range of single precision are lost whatever their share.
        doubt = self._doubt * squares + 1e-36
        return (squares - doubt).astype(np.float32), (2 * doubt).astype(np.float32)

    def _turned(self, queries: Array, block: _SingleBlock) -> tuple[Single, Single, Single]:
        """(twice the queries in single precision, low, width) as a block sees them."""
        centred = (queries - block.centre) / self._scale
        low, width = self._range(np.einsum("ij,ij->i", centred, centred))
        return (2 * centred).astype(np.float32), low, width

    @property
    def is_screened(self) -> bool:
        """Whether `over_products` can be used: one block, with squares in the range of single
        precision."""
        return len(self.outputs) == 1 and 1e-15 < self._scale < 1e15

    def over_products(
        self, queries: Array, work: Callable[[slice, Single, Single, Array], None]
    ) -> None:
        """`work(rows, products, squares, doubts)` for slabs of queries, on all cores.

        About the centre of the points, products are 2·q·p, (b, n), and squares ‖q‖², (b,). No
        ‖q‖² + ‖p‖² − 2·q·p, with ‖p‖² from `squares`, is wrong by more than the row's doubt, (b,).
        """
        (block,), (single,) = self._blocks, self._single
        farthest = float(block.norms.max(initial=0.0))

        def slab(rows: slice) -> None:
            continue_or_raise()
            centred = queries[rows] - block.centre
            squares = np.einsum("ij,ij->i", centred, centred)
            twice = (2 * self._scale * centred).astype(np.float32)
            products = twice @ single.points.T
            doubts = self._doubt * (squares + farthest)
            work(rows, products, squares.astype(np.float32), doubts)

        slabs = _slices(len(queries), max(1, _SLAB_PRODUCTS // max(1, self.n)))
        with own_threads() as pool:
            list(pool.map(slab, slabs))

    @cached_property
    def squares(self) -> Single:
        """(n,) ‖p‖² about the centre, in single precision, for points of a single block."""
        return self._blocks[0].norms.astype(np.float32)

    # -- neighbours ----------------------------------------------------------------------------

    @one_blas_thread
    def nearest(
        self, queries: Sequence[Array], k: int, *, themselves: bool = False
    ) -> tuple[Indices, Array]:
        """The k nearest points of every query by (distance, index): indices and squares, (b, k).

        `themselves`: the queries are the points, and none is its own neighbour.
        """
        integer(k, "n_neighbors", most=self.n - themselves)
        for query in queries:
            require_squarable(query, "X")
        count = queries[0].shape[0]
        found, lengths = np.empty((count, k), dtype=np.int64), np.empty((count, k))
        unsure = np.arange(count)
        many = self.n > _TREE_POINTS and count > _TREE_QUERIES
        if many and len(self.outputs) == 1 and self._dimensions <= _TREE_DIMENSIONS:
            found, lengths, unsure = _by_tree(queries[0], self.outputs[0], k, themselves)
        elif self._is_worth_screening(count, k):
            unsure = self._by_screen(queries, k, themselves, found, lengths)
        rest = [q[unsure] for q in queries]
        for rows, distances in self.squared_distances(rest) if unsure.size else ():
            continue_or_raise()
            if themselves:
                distances[np.arange(distances.shape[0]), unsure[rows]] = np.inf
            i, j = _candidates(distances, k, 1e-13 * self._dimensions)
            exact = self._exact([q[rows] for q in rest], i, j)
            first = _first(i, j, exact, k)
            found[unsure[rows]], lengths[unsure[rows]] = j[first], exact[first]
        return found, lengths

    def _is_worth_screening(self, count: int, k: int) -> bool:
        """Whether there is much to do, or everything is prepared already."""
        much = count * self.n * self._dimensions > _SCREEN_PRODUCTS
        return k <= _SCREEN_NEIGHBORS and (much or "_single" in self.__dict__)

    def _by_screen(
        self, queries: Sequence[Array], k: int, themselves: bool, found: Indices, lengths: Array
    ) -> Indices:
        """Write the k nearest points of every query and their squares; the queries left over,
        which have too many candidates."""
        room = 4 * k + _ROOM
        itself = np.arange(len(queries[0])) if themselves else np.full(len(queries[0]), -1)
        blocks = self._single

        def run(rows: slice) -> Indices:
            mine = [q[rows] for q in queries]
            best = np.full((len(mine[0]), k), np.inf, dtype=np.float32)
            places, lows = np.empty((len(best), room), np.int64), np.empty((len(best), room), "f4")
            counts = np.zeros(len(best), dtype=np.int64)
            for q, block in zip(mine, blocks, strict=True):
                twice, low, width = self._turned(q, block)
                for some in _slices(len(block.points), _TILE_POINTS):
                    continue_or_raise()
                    products = twice @ block.points[some].T
                    theirs = (block.low[some], block.width[some], block.members[some])
                    kept = (best, places, lows, counts)
                    _collect(products, low, width, *theirs, itself[rows], *kept)
            sure = counts <= room
            near = (np.arange(room) < counts[:, None]) & (lows <= best[:, -1:]) & sure[:, None]
            i, column = np.nonzero(near)
            j = places[i, column]
            exact = self._exact(mine, i, j)
            first = _first(i, j, exact, k)
            here = rows.start + np.flatnonzero(sure)
            found[here], lengths[here] = j[first], exact[first]
            return np.asarray(rows.start + np.flatnonzero(~sure))

        tiles = list(_slices(len(queries[0]), _TILE_QUERIES))
        if len(tiles) == 1:
            return run(tiles[0])
        with own_threads() as pool:
            left = [np.empty(0, np.int64)]
            for unsure in pool.map(run, tiles):
                continue_or_raise()
                left.append(unsure)
            return np.concatenate(left)

    def _exact(self, queries: Sequence[Array], i: Indices, j: Indices) -> Array:
        """(c,) squared distances of the pairs (i, j), each in the outputs of its block."""
        if len(self.outputs) == 1:
            return pair_squares(queries[0], self.outputs[0], i, j)
        out = np.empty(i.size)
        for block, (q, p) in enumerate(zip(queries, self.outputs, strict=True)):
            mine = self.block_of[j] == block
            out[mine] = pair_squares(q, p, i[mine], j[mine])
        return out


def nearest(
    queries: Sequence[Array],
    points: Sequence[Array],
    k: int,
    *,
    block_of: Indices | None = None,
    themselves: bool = False,
) -> tuple[Indices, Array]:
    """The k nearest points of every query by (distance, index), as `Points.nearest` finds them.

    >>> line = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> nearest([line], [line], 2, themselves=True)[0]        # ties go to the smaller index
    array([[1, 2],
           [0, 2],
           [1, 3],
           [2, 1]])
    """
    return Points(points, block_of).nearest(queries, k, themselves=themselves)


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
    lengths, nearest_first = np.empty((len(queries), wanted)), np.empty((len(queries), wanted), int)
    for some in _slices(len(queries), _TREE_SLAB):
        continue_or_raise()
        lengths[some], nearest_first[some] = tree.query(queries[some], k=np.arange(1, wanted + 1))
    squared = lengths**2
    close = np.diff(squared, axis=1) <= _TIE * squared[:, 1:]
    unsure = close[:, : k + themselves].any(axis=1)
    if themselves:
        unsure |= nearest_first[:, 0] != np.arange(len(queries))
    found = nearest_first[:, themselves : k + themselves].astype(np.int64)
    rows = np.repeat(np.arange(len(queries)), k)
    exact = pair_squares(queries, points, rows, found.ravel())
    return found, exact.reshape(found.shape), np.flatnonzero(unsure)


@proof_kernel(
    *("f4[:,:]", "f4[:]", "f4[:]", "f4[:]", "f4[:]", "i8[:]", "i8[:]"),
    *("out f4[:,:]", "out i8[:,:]", "out f4[:,:]", "out i8[:]"),
)
def _collect(
    products: Any,
    low_queries: Any,
    width_queries: Any,
    low_points: Any,
    width_points: Any,
    members: Any,
    itself: Any,
    best: Any,
    places: Any,
    lows: Any,
    counts: Any,
) -> None:
    """Add the points of a tile that may be among the k nearest of their query to its candidates.

    A squared distance is at least low_q + low_p − product, and at most the two widths more.
    `best` holds the k smallest upper bounds of every query: what is beyond the last of them is no
    candidate. Where candidates do not fit, `counts` ends above their capacity. A first pass over a
    few points only counts, in a loop without branches.
    """
    k, room = best.shape[1], places.shape[1]
    for a in range(products.shape[0]):
        base = low_queries[a]
        for start in range(0, members.size, 256):
            row, low = products[a, start : start + 256], low_points[start : start + 256]
            limit, count = best[a, k - 1], 0
            for c in range(row.size):
                count += base + (low[c] - row[c]) <= limit
            if count == 0 or counts[a] > room:
                continue
            for c in range(row.size):
                value, place = base + (low[c] - row[c]), members[start + c]
                if value > best[a, k - 1] or place == itself[a]:
                    continue
                high = value + (width_queries[a] + width_points[start + c])
                if high < best[a, k - 1]:
                    s = k - 1
                    while s > 0 and best[a, s - 1] > high:
                        best[a, s] = best[a, s - 1]
                        s -= 1
                    best[a, s] = high
                if counts[a] == room:
                    kept = 0
                    for s in range(room):
                        if lows[a, s] <= best[a, k - 1]:
                            places[a, kept], lows[a, kept] = places[a, s], lows[a, s]
                            kept += 1
                    counts[a] = kept
                if counts[a] >= room:
                    counts[a] = room + 1
                    break
                places[a, counts[a]], lows[a, counts[a]] = place, value
                counts[a] += 1
