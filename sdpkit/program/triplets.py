"""Rows too many to write down: every triplet of a large-margin comparison.

A triplet t = (i, j, l) asks that l be one unit farther from i than its target j is, and pays a
price for what is missing,

    weight · [1 + q_ij − q_il]₊ ,       q_io = ‖L_b(o) (x_i − x_o)‖²

with b(o) the block by which the *other* point measures (a single metric has one block); in a
*summed* family every block measures every distance, q_io = Σ_b ‖L_b (x_i − x_o)‖². There are as
many as target pairs times differently labelled points, and nearly all of them are satisfied. A
`RowFamily` therefore never lists them: for given outputs y = L x it returns, exactly, the rows
that are violated or within a margin of it, and the exact sum of all hinges. Solvers know families
by that protocol alone.

`Impostors` is the family of LMNN (Weinberger 2007, section 2.1.3), `ListedTriplets` the one of a
user who has triplets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.numerics.kernels import fast_kernel, proof_kernel
from sdpkit.numerics.threads import one_blas_thread, own_threads

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# Rows and columns of one tile of distances: 512 × 2048 single precision fit a second-level cache.
_TILE_ROWS, _TILE_COLUMNS = 512, 2048
# Up to this dimension of the outputs a ball tree prunes more than a matrix product computes
# (`sdpkit bench impostors` measures it).
_TREE_DIMENSION = 3
_TREE_POINTS = 20_000
# Rows on which the scale of a start is tried.
_SCALE_ROWS = 1_000_000
# The mean squared distance of outputs from their centre below which no start is made.
_LEAST_SPREAD = 0.1


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a family, ordered by (anchor, impostor, target).

    Attributes
    ----------
    target: (m,) index of the row's target pair (i, j) in `RowFamily.target_pairs`
    impostor: (m,) the point l
    """

    target: Indices
    impostor: Indices

    @property
    def size(self) -> int:
        """m."""
        return int(self.target.size)

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows that `mask` selects."""
        return Rows(self.target[mask], self.impostor[mask])


class RowFamily(Protocol):
    """What a solver and the certificate may ask of rows that are not written down."""

    @property
    def weight(self) -> float:
        """The price of a unit of violation."""

    @property
    def n_points(self) -> int:
        """n."""

    @property
    def n_rows(self) -> int:
        """The number of rows, or a little more where some are known to be satisfied."""

    @property
    def target_pairs(self) -> Indices:
        """(p, 2) pairs (i, j), ordered by i."""

    @property
    def block_of(self) -> Indices:
        """(n,) the block by which the distance to a point is measured; 0 if they are summed."""

    @property
    def summed(self) -> bool:
        """True if a distance is the sum of what all blocks measure."""

    def near(self, outputs: Sequence[Array], slack: float) -> Rows:
        """Exactly the rows with 1 + q_ij − q_il > −slack at `outputs`, one (n, r) per block."""

    def hinge_sum(self, outputs: Sequence[Array]) -> float:
        """Σ [1 + q_ij − q_il]₊ over all rows."""

    def everything(self) -> Rows:
        """All rows, for small families."""

    def part(self, share: float) -> RowFamily:
        """About this share of the family: the rows of evenly spread target pairs."""

    def has(self, rows: Rows) -> NDArray[np.bool_]:
        """(m,) which of some rows, anybody's, are rows of this family."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The family as plain arrays."""


def row_keys(family: RowFamily, rows: Rows) -> Indices:
    """(m,) one number per row, increasing in the order of rows."""
    anchor = family.target_pairs[rows.target, 0]
    pair = anchor * family.n_points + rows.impostor
    return np.asarray(pair * len(family.target_pairs) + rows.target)


def rows_of(family: RowFamily, keys: Indices) -> Rows:
    """The rows of sorted keys."""
    pairs, target = np.divmod(keys, len(family.target_pairs))
    return Rows(target, pairs % family.n_points)


def hinges(family: RowFamily, rows: Rows, outputs: Sequence[Array]) -> Array:
    """(m,) the values 1 + q_ij − q_il of some rows."""
    stacked, columns = side_by_side(family, outputs)
    i, j = family.target_pairs.T
    near = _lengths(stacked, columns, family.block_of, i, j)
    # Rows with the same anchor and impostor share a distance.
    anchor = i[rows.target]
    first = np.ones(rows.size, dtype=bool)
    first[1:] = (np.diff(anchor) != 0) | (np.diff(rows.impostor) != 0)
    far = _lengths(stacked, columns, family.block_of, anchor[first], rows.impostor[first])
    return np.asarray(1 + near[rows.target] - far[np.cumsum(first) - 1])


def laplacians(family: RowFamily, rows: Rows, weights: Array, n_blocks: int) -> list[sp.csr_array]:
    """Per block the signed graph Laplacian of Σ_t weights_t (b_ij b_ijᵀ − b_il b_ilᵀ), (n, n)."""
    i, j = family.target_pairs.T
    pulls = np.bincount(rows.target, weights, minlength=i.size)
    used = np.flatnonzero(pulls)
    start = np.concatenate([i[used], i[rows.target]])
    end = np.concatenate([j[used], rows.impostor])
    values = np.concatenate([pulls[used], -weights])
    n, out = family.n_points, []
    for block in range(1 if family.summed else n_blocks):
        mine = family.block_of[end] == block
        entries = (values[mine], (start[mine], end[mine]))
        adjacency = sp.csr_array(entries, shape=(n, n))
        adjacency = sp.csr_array(adjacency + adjacency.T)
        degree = np.asarray(adjacency.sum(axis=1)).ravel()
        out.append(sp.csr_array(sp.diags_array(degree) - adjacency))
    return out * n_blocks if family.summed else out


@dataclass(frozen=True, eq=False)
class Impostors:
    """All triplets (i, j, l) with (i, j) a target pair and l a point of another class.

    Attributes
    ----------
    target_pairs: (p, 2) pairs (i, j), ordered by i;  labels: (n,) class numbers
    weight: the price of a unit of violation
    block_of: (n,) the block by which the distance *to* a point is measured
    groups: (n_blocks, n), or None: l counts for i only if they share the group of l's block.
        Points in different groups are kept apart for free (see `sdpkit.problems.lmnn`).
    search: "blocks" (matrix products), "tree" (a ball tree per class, thesis 2.1.9) or "auto"
    summed: every block measures every distance, and they add up; block_of is 0 then

    >>> family = Impostors.of([[0, 1], [1, 0]], labels=[0, 0, 1])
    >>> points = [np.array([[0.0], [1.0], [1.5]])]
    >>> family.n_rows, family.hinge_sum(points)          # [1+1−2.25]₊ + [1+1−0.25]₊
    (2, 1.75)
    """

    target_pairs: Indices
    labels: Indices
    weight: float
    block_of: Indices
    groups: Indices | None
    search: Literal["auto", "blocks", "tree"] = "auto"
    summed: bool = False

    @classmethod
    def of(
        cls,
        target_pairs: ArrayLike,
        labels: ArrayLike,
        *,
        weight: float = 1.0,
        block_of: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        search: Literal["auto", "blocks", "tree"] = "auto",
        summed: bool = False,
    ) -> Impostors:
        """Build and validate a family; target pairs are put in order."""
        y = np.array(labels, dtype=np.int64)
        blocks = np.zeros_like(y) if block_of is None else np.array(block_of, dtype=np.int64)
        pairs = _ordered_pairs(target_pairs, y.size)
        if np.any(y[pairs[:, 0]] != y[pairs[:, 1]]):
            raise InputError("a target neighbour must have the label of its anchor")
        shared = None if groups is None else np.array(groups, dtype=np.int64)
        if blocks.shape != y.shape or (shared is not None and shared.shape[1:] != y.shape):
            raise InputError(f"block_of and groups must have one entry for each of {y.size} points")
        if summed and blocks.any():
            raise InputError("distances that are summed over the blocks have no block of their own")
        return cls(pairs, y, _price(weight), blocks, shared, search, summed)

    @property
    def n_points(self) -> int:
        """n."""
        return int(self.labels.size)

    @cached_property
    def n_rows(self) -> int:
        """The number of triplets, groups not considered."""
        sizes = np.bincount(self.labels)
        return int(np.sum(self.n_points - sizes[self.labels[self.target_pairs[:, 0]]]))

    @cached_property
    def target_starts(self) -> Indices:
        """(n + 1,) where the target pairs of each anchor begin."""
        return np.searchsorted(self.target_pairs[:, 0], np.arange(self.n_points + 1))

    @one_blas_thread
    def near(self, outputs: Sequence[Array], slack: float) -> Rows:
        """Exactly the rows with 1 + q_ij − q_il > −slack."""
        stacked, columns = side_by_side(self, outputs)
        lengths = self._target_lengths(stacked, columns)
        reach = self._reach(lengths, slack)
        i, other = self._pairs(stacked, columns, reach)
        far = _lengths(stacked, columns, self.block_of, i, other)
        found = far < reach[i]
        i, other, far = i[found], other[found], far[found]
        order = np.argsort(i * self.n_points + other)
        i, other, far = i[order], other[order], far[order]
        target, pair = self._triplets(lengths + 1 + slack, i, far)
        return Rows(target, other[pair])

    @one_blas_thread
    def hinge_sum(self, outputs: Sequence[Array]) -> float:
        """Σ [1 + q_ij − q_il]₊ over all rows, in tiles: no list of rows is kept."""
        stacked, columns = side_by_side(self, outputs)
        lengths = self._target_lengths(stacked, columns)
        reach = self._reach(lengths, 0.0)
        if not np.isfinite(stacked).all() or not np.isfinite(lengths).all():
            return np.nan

        def add(i: Indices, other: Indices) -> float:
            far = _lengths(stacked, columns, self.block_of, i, other)
            target, pair = self._triplets(lengths + 1, i, far)
            return float((1 + lengths[target] - far[pair]).sum())

        return math.fsum(self._over_pairs(stacked, columns, reach, add))

    def everything(self) -> Rows:
        """All rows."""
        i = np.arange(self.n_points)
        pairs = np.argwhere(self.labels[:, None] != self.labels[None, :])
        if self.groups is not None:
            group = self.groups[self.block_of[pairs[:, 1]]]
            each = np.arange(len(pairs))
            pairs = pairs[group[each, pairs[:, 0]] == group[each, pairs[:, 1]]]
        counts = np.diff(self.target_starts)[pairs[:, 0]]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        target = self.target_starts[i][np.repeat(pairs[:, 0], counts)] + within
        return Rows(target, np.repeat(pairs[:, 1], counts))

    def has(self, rows: Rows) -> NDArray[np.bool_]:
        """(m,) which of some rows name a target pair and a point of another class."""
        known = _within(rows, len(self.target_pairs), self.n_points)
        anchor = self.target_pairs[np.where(known, rows.target, 0), 0]
        other = np.where(known, rows.impostor, 0)
        known &= self.labels[anchor] != self.labels[other]
        if self.groups is not None:
            block = self.block_of[other]
            known &= self.groups[block, anchor] == self.groups[block, other]
        return known

    def part(self, share: float) -> Impostors:
        """The rows of about this share of the anchors, evenly spread."""
        anchors = np.unique(self.target_pairs[:, 0])
        chosen = anchors[_spread(anchors.size, share)]
        return replace(
            self, target_pairs=self.target_pairs[np.isin(self.target_pairs[:, 0], chosen)]
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The family as plain arrays."""
        out = {
            "target_pairs": self.target_pairs,
            "labels": self.labels,
            "weight": np.array(self.weight),
            "block_of": self.block_of,
        }
        if self.summed:
            out["summed"] = np.array(True)
        return out if self.groups is None else {**out, "groups": self.groups}

    # -- the search --------------------------------------------------------------------------

    def _target_lengths(self, stacked: Array, columns: Indices) -> Array:
        i, j = self.target_pairs.T
        return _lengths(stacked, columns, self.block_of, i, j)

    def _reach(self, lengths: Array, slack: float) -> Array:
        """(n,) max_j q_ij + 1 + slack, −inf for points without targets."""
        reach = np.full(self.n_points, -np.inf)
        np.maximum.at(reach, self.target_pairs[:, 0], lengths + 1 + slack)
        return reach

    def _group(self, block: int) -> Indices:
        return np.zeros(self.n_points, np.int64) if self.groups is None else self.groups[block]

    def _pairs(self, stacked: Array, columns: Indices, reach: Array) -> tuple[Indices, Indices]:
        """Pairs (i, l), among them all with q_il < reach_i."""
        low = self.n_points >= _TREE_POINTS and np.diff(columns).max() <= _TREE_DIMENSION
        if self.search == "tree" or (self.search == "auto" and low):
            return self._pairs_by_tree(stacked, columns, reach)
        return self._pairs_by_blocks(stacked, columns, reach)

    def _pairs_by_blocks(
        self, stacked: Array, columns: Indices, reach: Array
    ) -> tuple[Indices, Indices]:
        found = list(self._over_pairs(stacked, columns, reach, lambda i, other: (i, other)))
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        anchors, impostors = zip(*found, strict=True)
        return np.concatenate(anchors), np.concatenate(impostors)

    def _triplets(self, reaches: Array, anchor: Indices, far: Array) -> tuple[Indices, Indices]:
        """(target, pair): the rows with q_il < reach_ij among given pairs (i, l)."""
        room = int(np.diff(self.target_starts)[anchor].sum())
        target, pair = np.empty(room, np.int64), np.empty(room, np.int64)
        n = _write_triplets(self.target_starts, reaches, anchor, far, target, pair)
        return target[:n], pair[:n]

    def _pairs_by_tree(
        self, stacked: Array, columns: Indices, reach: Array
    ) -> tuple[Indices, Indices]:
        """One ball tree per class (and block), asked by the points of all other classes."""
        from sklearn.neighbors import BallTree

        anchors, impostors = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        # The tree rounds, at the scale of its balls: ask for a little more, the caller decides.
        spread = np.linalg.norm(stacked - stacked.mean(axis=0), axis=1).max(initial=0.0)
        rounding = 1e-15 * (stacked.shape[1] + 8) * spread
        radius = np.sqrt(np.maximum(reach, 0.0)) * (1 + 1e-12) + rounding
        for block, label in np.unique(np.c_[self.block_of, self.labels], axis=0):
            members = np.flatnonzero((self.block_of == block) & (self.labels == label))
            asking = np.flatnonzero((self.labels != label) & np.isfinite(reach))
            if not asking.size:
                continue
            points = stacked[:, columns[block] : columns[block + 1]]
            answers = BallTree(points[members]).query_radius(points[asking], radius[asking])
            i = np.repeat(asking, [len(a) for a in answers])
            other = members[np.concatenate(answers)] if i.size else np.empty(0, np.int64)
            shared = self._group(block)
            alike = shared[i] == shared[other]
            anchors.append(i[alike])
            impostors.append(other[alike])
        return np.concatenate(anchors), np.concatenate(impostors)

    def _tiles(self) -> Iterator[_Tile]:
        """Tiles that cover every (anchor, impostor) pair once.

        With one block and most points anchors, a tile is asked from both sides: a class against
        all later classes. With several blocks the distance is not symmetric.
        """
        has_targets = np.diff(self.target_starts) > 0
        both = not self.block_of.any() and 2 * has_targets.sum() > self.n_points
        for block in np.unique(self.block_of):
            others = np.flatnonzero(self.block_of == block)
            for label in np.unique(self.labels):
                mine = self.labels == label
                rows = np.flatnonzero(mine if both else mine & has_targets)
                y = self.labels[others]
                columns = others[y > label if both else y != label]
                for a in range(0, rows.size, _TILE_ROWS):
                    for b in range(0, columns.size, _TILE_COLUMNS):
                        part = columns[b : b + _TILE_COLUMNS]
                        yield _Tile(int(block), rows[a : a + _TILE_ROWS], part, both)

    def _over_pairs(
        self, stacked: Array, columns: Indices, reach: Array, work: Callable[..., Any]
    ) -> Iterator[Any]:
        """`work(i, l)` for the pairs of every tile, among them all with q_il < reach_i, on all
        cores."""
        centred = stacked - stacked.mean(axis=0)
        spread = np.square(centred).sum(axis=1).max(initial=0.0)
        # Squares beyond the range of single precision are left to double precision.
        dtype = np.float32 if spread < 1e36 else np.float64
        points = np.ascontiguousarray(centred, dtype=dtype)
        tile_pairs = _TILE_PAIRS[dtype]

        def run(tile: _Tile) -> Any:
            span = slice(columns[tile.block], columns[tile.block + 1])
            left, right = points[tile.rows, span], points[tile.columns, span]
            squares = np.concatenate([np.einsum("ij,ij->i", side, side) for side in (left, right)])
            # Single precision may misjudge a distance by this share of the lengths involved.
            doubt = (left.shape[1] + 8) * float(np.finfo(np.float32).eps)
            low_left, low_right = np.split(squares * dtype(1 - doubt), [tile.rows.size])
            own = low_right - (reach[tile.columns] if tile.both else -np.inf)
            sides = (low_left, low_right, reach[tile.rows] - low_left, own)
            known = (tile.rows, tile.columns, self.labels, self._group(tile.block))
            twice = (left + left) @ right.T
            room = 4 * (tile.rows.size + tile.columns.size) + 1024
            while True:
                i, other = np.empty(room, np.int64), np.empty(room, np.int64)
                n = tile_pairs(*known, twice, *(x.astype(dtype) for x in sides), i, other)
                if n <= room:
                    return work(i[:n], other[:n])
                room = n

        with own_threads() as pool:
            yield from pool.map(run, self._tiles())


@dataclass(frozen=True)
class _Tile:
    """A rectangle of distances, from points `rows` to points `columns`, in a block's outputs."""

    block: int
    rows: Indices
    columns: Indices
    both: bool


@dataclass(frozen=True, eq=False)
class ListedTriplets:
    """Triplets (i, j, l) given one by one.

    >>> family = ListedTriplets.of([[0, 1, 2], [0, 1, 3]], n_points=4)
    >>> family.n_rows, family.hinge_sum([np.array([[0.0], [1.0], [1.0], [3.0]])])
    (2, 1.0)
    """

    target_pairs: Indices
    rows: Rows
    n_points: int
    weight: float
    block_of: Indices

    # Listed triplets are told by one metric, or by that of the point they lead to.
    summed = False

    @classmethod
    def of(
        cls,
        triplets: ArrayLike,
        n_points: int,
        *,
        weight: float = 1.0,
        block_of: ArrayLike | None = None,
    ) -> ListedTriplets:
        """Build and validate a family from (m, 3) indices."""
        t = _whole(triplets, "triplets")
        if t.ndim != 2 or t.shape[1] != 3 or not t.size:
            raise InputError(f"triplets have shape {t.shape}, expected (m, 3) with m ≥ 1")
        if t.min() < 0 or t.max() >= n_points:
            raise InputError(f"triplets name points outside 0 … {n_points - 1}")
        if np.any(t[:, 0] == t[:, 1]) or np.any(t[:, 0] == t[:, 2]) or np.any(t[:, 1] == t[:, 2]):
            raise InputError("a triplet (i, j, l) must name three different points")
        t = np.unique(t[:, [0, 2, 1]], axis=0)[:, [0, 2, 1]]
        pairs = _ordered_pairs(t[:, :2], n_points)
        keys = pairs[:, 0] * n_points + pairs[:, 1]
        target = np.searchsorted(keys, t[:, 0] * n_points + t[:, 1])
        blocks = np.zeros(n_points, np.int64) if block_of is None else np.array(block_of, np.int64)
        return cls(pairs, Rows(target, t[:, 2].copy()), n_points, _price(weight), blocks)

    @property
    def n_rows(self) -> int:
        """The number of triplets."""
        return self.rows.size

    def near(self, outputs: Sequence[Array], slack: float) -> Rows:
        """Exactly the rows with 1 + q_ij − q_il > −slack."""
        return self.rows.where(hinges(self, self.rows, outputs) > -slack)

    def hinge_sum(self, outputs: Sequence[Array]) -> float:
        """Σ [1 + q_ij − q_il]₊ over all rows."""
        return float(np.maximum(hinges(self, self.rows, outputs), 0.0).sum())

    def everything(self) -> Rows:
        """All rows."""
        return self.rows

    def part(self, share: float) -> ListedTriplets:
        """About this share of the triplets, evenly spread."""
        chosen = _spread(self.rows.size, share)
        return replace(self, rows=Rows(self.rows.target[chosen], self.rows.impostor[chosen]))

    def has(self, rows: Rows) -> NDArray[np.bool_]:
        """(m,) which of some rows are listed."""
        known = _within(rows, len(self.target_pairs), self.n_points)
        inside = Rows(np.where(known, rows.target, 0), np.where(known, rows.impostor, 0))
        return np.asarray(known & np.isin(row_keys(self, inside), row_keys(self, self.rows)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The family as plain arrays."""
        i, j = self.target_pairs[self.rows.target].T
        return {
            "triplets": np.c_[i, j, self.rows.impostor],
            "n_points": np.array(self.n_points),
            "weight": np.array(self.weight),
            "block_of": self.block_of,
        }


def family_from(arrays: Mapping[str, NDArray[Any]]) -> RowFamily:
    """A family from the arrays it gave."""
    weight, blocks = float(arrays["weight"]), arrays["block_of"]
    if "triplets" in arrays:
        n = int(arrays["n_points"])
        return ListedTriplets.of(arrays["triplets"], n, weight=weight, block_of=blocks)
    pairs, y, groups = arrays["target_pairs"], arrays["labels"], arrays.get("groups")
    summed = bool(arrays.get("summed", False))
    return Impostors.of(pairs, y, weight=weight, block_of=blocks, groups=groups, summed=summed)


def best_scale(family: RowFamily, outputs: Sequence[Array], pull: float) -> float:
    """The t > 0 that minimises  t·pull + weight·Σ[1 + t(q_ij − q_il)]₊,  on a part of the rows.

    `pull` is <C, M> at t = 1. Convex in t; found by bisection of the logarithm. The best multiple
    may be 0 where another metric is better than none; but a factor has no gradient at 0, so that
    t stays where distances are large enough for the margin to be felt.
    """
    share = min(1.0, _SCALE_ROWS / max(1, family.n_rows))
    part = family.part(share)
    factor = family.weight * family.n_rows / max(1, part.n_rows)

    def value(log_t: float) -> float:
        t = float(np.exp(log_t))
        return t * pull + factor * part.hinge_sum([np.sqrt(t) * y for y in outputs])

    # At t → 0 every hinge is 1, so that no better scale costs more than that in pull alone.
    ceiling = float(np.log(family.weight * family.n_rows / pull)) if pull > 0 else 0.0
    found = scipy.optimize.minimize_scalar(
        value, bounds=(ceiling - 30.0, ceiling), method="bounded", options={"xatol": 0.2}
    )
    spread = sum(float(np.square(y - y.mean(axis=0)).sum()) for y in outputs) / family.n_points
    least = _LEAST_SPREAD / spread if spread > 0 else 0.0
    return max(float(np.exp(found.x)), least)


def _spread(count: int, share: float) -> Indices:
    """Indices of about `share` of `count` things, evenly spread, at least one."""
    chosen = max(1, min(count, round(share * count)))
    return np.unique(np.linspace(0, count - 1, chosen).astype(np.int64))


def _within(rows: Rows, n_targets: int, n_points: int) -> NDArray[np.bool_]:
    """(m,) which rows name a target pair and a point that there are."""
    target = (rows.target >= 0) & (rows.target < n_targets)
    return np.asarray(target & (rows.impostor >= 0) & (rows.impostor < n_points))


def _ordered_pairs(pairs: ArrayLike, n_points: int) -> Indices:
    out = _whole(pairs, "target pairs")
    if out.ndim != 2 or out.shape[1] != 2:
        raise InputError(f"target pairs have shape {out.shape}, expected (p, 2)")
    if out.size and (out.min() < 0 or out.max() >= n_points):
        raise InputError(f"target pairs name points outside 0 … {n_points - 1}")
    if np.any(out[:, 0] == out[:, 1]):
        raise InputError("a point cannot be its own target neighbour")
    return np.unique(out, axis=0)


def _whole(values: ArrayLike, what: str) -> Indices:
    out = np.array(values)
    if out.size and out.dtype.kind not in "iu":
        raise InputError(f"{what} must be whole numbers, not {out.dtype.name}")
    return out.astype(np.int64)


def _price(weight: float) -> float:
    if not 0 < weight < np.inf:
        raise InputError(f"the weight of a family is {weight}; it must be positive")
    return float(weight)


def side_by_side(family: RowFamily, outputs: Sequence[Array]) -> tuple[Array, Indices]:
    """The outputs of all blocks in one (n, Σr) array, and where each block's columns begin.

    Summed squared distances are those of the outputs side by side: one block of all columns.
    """
    widths = [part.shape[1] for part in outputs]
    widths = [sum(widths)] if family.summed else widths
    stacked = outputs[0] if len(outputs) == 1 else np.hstack(list(outputs))
    return np.ascontiguousarray(stacked, dtype=np.float64), np.cumsum([0, *widths])


# -- kernels --------------------------------------------------------------------------------


def _lengths(
    stacked: Array, columns: Indices, block_of: Indices, start: Indices, end: Indices
) -> Array:
    """(m,) ‖y_start − y_end‖² in the columns of the end's block."""
    out = np.empty(start.size)
    ends = np.ascontiguousarray(start), np.ascontiguousarray(end)
    _squared_lengths(stacked, columns, block_of, *ends, out)
    return out


@fast_kernel("f8[:,:]", "i8[:]", "i8[:]", "i8[:]", "i8[:]", "out f8[:]")
def _squared_lengths(
    stacked: Any, columns: Any, block_of: Any, start: Any, end: Any, out: Any
) -> None:
    """Any order of its sums is as exact as another, and every length is computed here alone."""
    for p in range(start.size):
        block = block_of[end[p]]
        x = stacked[start[p], columns[block] : columns[block + 1]]
        y = stacked[end[p], columns[block] : columns[block + 1]]
        total = 0.0
        for c in range(x.size):
            difference = x[c] - y[c]
            total += difference * difference
        out[p] = total


@proof_kernel("i8[:]", "f8[:]", "i8[:]", "f8[:]", "out i8[:]", "out i8[:]")
def _write_triplets(
    starts: Any, reaches: Any, anchor: Any, far: Any, target: Any, pair: Any
) -> int:
    n = 0
    for p in range(anchor.size):
        for t in range(starts[anchor[p]], starts[anchor[p] + 1]):
            if far[p] < reaches[t]:
                target[n] = t
                pair[n] = p
                n += 1
    return n


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
    A first pass over each row only counts candidates, in a loop without branches.
    """
    n = 0
    for a in range(rows.size):
        i, limit, beyond, count = rows[a], limits[a], -low_rows[a], 0
        for b in range(columns.size):
            count += (low_columns[b] - twice[a, b] < limit) | (own[b] - twice[a, b] < beyond)
        if count == 0:
            continue
        for b in range(columns.size):
            o = columns[b]
            if labels[i] == labels[o] or group[i] != group[o]:
                continue
            if low_columns[b] - twice[a, b] < limit:
                if n < out_i.size:
                    out_i[n] = i
                    out_o[n] = o
                n += 1
            if own[b] - twice[a, b] < beyond:
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
