"""The family of LMNN: every comparison of a target neighbour with a point of another class.

A comparison t = (i, j, l) requires l to be one unit farther from i than its target j is, and costs

    weight · [1 + q_ij − q_il]₊

for what is missing (Weinberger 2007, section 2.1.3). There are as many as target pairs times
differently labelled points. `Impostors` finds the ones that count in tiles of distances between
classes; `sdpkit.program.families` says what any family must answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread, own_threads
from sdpkit.program import tiles
from sdpkit.program.cells import CelledScreen
from sdpkit.program.families import (
    Rows,
    Terms,
    checked_weight,
    lengths,
    side_by_side,
    spread_out,
    whole_numbers,
)
from sdpkit.program.kept_pairs import Keeping
from sdpkit.program.smoothed import Smoothed, Smoothing
from sdpkit.program.tiles import Screen, Strip
from sdpkit.typing import Array, Bools, Indices

# Up to this dimension of the outputs a ball tree prunes more than a matrix product computes
# (`make bench NAME=impostors` measures it).
_TREE_DIMENSION = 3
_TREE_POINTS, _TREE_QUERIES = 20_000, 1000
# From this many anchors and directions on, pairs are screened by their leading directions alone.
_SCREENED_ANCHORS, _SCREENED_DIMENSION = 2000, 8
# What a pair costs that passes, and each of its directions, in directions of a product; and the
# sampled pairs that say how many will pass.
_LENGTH_COST, _SAMPLED_PAIRS = (5000, 40), 8192


@dataclass(frozen=True, eq=False)
class Impostors:
    """All triplets (i, j, l) with (i, j) a target pair and l a point of another class.

    Attributes
    ----------
    target_pairs: (p, 2) pairs (i, j), ordered by i;  labels: (n,) class numbers
    weight: the cost of a unit of violation
    block_of: (n,) the block by which the distance *to* a point is measured
    groups: (n_blocks, n), or None: l counts for i only if they share the group of l's block.
        Points in different groups are kept apart at no cost (see `sdpkit.problems.lmnn`).
    search: "blocks" (matrix products), "tree" (a ball tree per class, thesis 2.1.9) or "auto"
    summed: every block measures every distance, and they add up; block_of is 0 then
    only: the points that count as impostors, or None for all
    memory: the bytes that searches and what they keep may take

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
    only: Indices | None = None
    memory: float = np.inf

    noun = "comparison"
    formula = "Σ[1 + q_ij − q_il]₊"
    unit = 1.0

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
        y = whole_numbers(labels, "labels")
        blocks = np.zeros_like(y) if block_of is None else whole_numbers(block_of, "block_of")
        pairs = ordered_target_pairs(target_pairs, y)
        shared = None if groups is None else whole_numbers(groups, "groups")
        if blocks.shape != y.shape or (shared is not None and shared.shape[1:] != y.shape):
            raise InputError(f"block_of and groups must have one entry for each of {y.size} points")
        if summed and blocks.any():
            raise InputError("block_of must be 0 where distances are summed over the blocks")
        return cls(pairs, y, checked_weight(weight), blocks, shared, search, summed)

    @property
    def n_points(self) -> int:
        """n."""
        return int(self.labels.size)

    @cached_property
    def n_rows(self) -> int:
        """The number of triplets, groups not considered."""
        counted = self.labels if self.only is None else self.labels[self.only]
        _, number = np.unique(self.labels, return_inverse=True)
        sizes = np.bincount(number if self.only is None else number[self.only])
        sizes = np.pad(sizes, (0, int(number.max(initial=0)) + 1 - sizes.size))
        return int(np.sum(counted.size - sizes[number[self.target_pairs[:, 0]]]))

    @cached_property
    def target_starts(self) -> Indices:
        """(n + 1,) where the target pairs of each anchor begin."""
        return np.searchsorted(self.target_pairs[:, 0], np.arange(self.n_points + 1))

    @one_blas_thread
    def near(self, outputs: Sequence[Array], slack: float) -> Rows:
        """Exactly the rows with 1 + q_ij − q_il > −slack."""
        stacked, columns = side_by_side(self, outputs)
        near = lengths(stacked, columns, self.block_of, self.target_pairs)
        i, other, far = self._pairs(stacked, columns, self._reach(near, slack))
        order = np.argsort(i * self.n_points + other)
        i, other, far = i[order], other[order], far[order]
        target, pair = self._triplets(near + 1 + slack, i, far)
        return self._numbers(i[pair], target, other[pair])

    @one_blas_thread
    def hinge_sum(self, outputs: Sequence[Array]) -> float:
        """Σ [1 + q_ij − q_il]₊ over all rows, in tiles: no list of rows is kept."""
        stacked, columns = side_by_side(self, outputs)
        near = lengths(stacked, columns, self.block_of, self.target_pairs)
        reach, reaches = self._reach(near, 0.0), near + 1
        if not np.isfinite(stacked).all() or not np.isfinite(near).all():
            return np.nan

        def add(i: Indices, other: Indices, far: Array) -> float:
            target, pair = self._triplets(reaches, i, far)
            return float((reaches[target] - far[pair]).sum())

        return math.fsum(self._over_pairs(stacked, columns, reach, add))

    @one_blas_thread
    def smoothed(
        self, outputs: Sequence[Array], features: Sequence[Array], width: float
    ) -> Smoothed:
        """All hinges and the multipliers clip(½ + z/width, 0, 1), in tiles: `features` are (n, d)
        per block, and no list of rows is kept."""
        stacked, columns = side_by_side(self, outputs)
        near = lengths(stacked, columns, self.block_of, self.target_pairs)
        smoothing = Smoothing.of(self, features, near + 1, width)
        reach = self._reach(near, width / 2)
        return smoothing.total(self._over_pairs(stacked, columns, reach, smoothing.add))

    @cached_property
    def keeping(self) -> Keeping:
        """The pairs that the last search found near, for the next ones; none at first."""
        return Keeping()

    def everything(self) -> Rows:
        """All rows."""
        pairs = np.argwhere(self.labels[:, None] != self.labels[None, :])
        pairs = pairs[self._is_impostor[pairs[:, 1]]]
        if self.groups is not None:
            group = self.groups[self.block_of[pairs[:, 1]]]
            each = np.arange(len(pairs))
            pairs = pairs[group[each, pairs[:, 0]] == group[each, pairs[:, 1]]]
        counts = np.diff(self.target_starts)[pairs[:, 0]]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        anchor, other = np.repeat(pairs, counts, axis=0).T
        return self._numbers(anchor, self.target_starts[anchor] + within, other)

    def _numbers(self, anchor: Indices, target: Indices, other: Indices) -> Rows:
        """Rows are numbered in the order of anchor, impostor and target."""
        return np.asarray((anchor * self.n_points + other) * len(self.target_pairs) + target)

    def terms(self, rows: Rows) -> Terms:
        """Rows of the same anchor and impostor share a push."""
        pair, target = np.divmod(rows, len(self.target_pairs))
        first = np.ones(pair.size, dtype=bool)
        first[1:] = pair[1:] != pair[:-1]
        pushes = np.column_stack(np.divmod(pair[first], self.n_points))
        ones = np.ones(len(self.target_pairs))
        return Terms(self.target_pairs, ones, pushes, target, np.cumsum(first) - 1)

    def has(self, rows: Rows) -> Bools:
        """(m,) which of some numbers stand for a target pair and a point of another class."""
        known = np.asarray(rows >= 0)
        pair, target = np.divmod(np.where(known, rows, 0), len(self.target_pairs))
        anchor = self.target_pairs[target, 0]
        start, other = np.divmod(pair, self.n_points)
        known &= (start == anchor) & (self.labels[anchor] != self.labels[other])
        known &= self._is_impostor[other]
        if self.groups is not None:
            block = self.block_of[other]
            known &= self.groups[block, anchor] == self.groups[block, other]
        return known

    def part(self, share: float) -> Impostors:
        """The rows of about this share of the anchors, evenly spread."""
        anchors = np.unique(self.target_pairs[:, 0])
        chosen = anchors[spread_out(anchors.size, share)]
        return replace(
            self, target_pairs=self.target_pairs[np.isin(self.target_pairs[:, 0], chosen)]
        )

    def with_impostors(self, share: float) -> Impostors:
        """The rows in which the impostor is one of about this share of the points, evenly spread
        over the classes."""
        return replace(self, only=np.sort(self._in_order[spread_out(self.n_points, share)]))

    @cached_property
    def _is_impostor(self) -> Bools:
        """(n,) the points that count as impostors."""
        is_impostor = np.full(self.n_points, self.only is None)
        is_impostor[self.only if self.only is not None else []] = True
        return is_impostor

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
        if self.only is not None:
            out["only"] = self.only
        return out if self.groups is None else {**out, "groups": self.groups}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Impostors:
        """The family that gave these arrays."""
        whole = cls.of(
            arrays["target_pairs"],
            arrays["labels"],
            weight=float(arrays["weight"]),
            block_of=arrays["block_of"],
            groups=arrays.get("groups"),
            summed=bool(arrays.get("summed", False)),
        )
        if "only" not in arrays:
            return whole
        only = whole_numbers(arrays["only"], "only")
        if only.ndim != 1 or (only.size and not 0 <= only.min() <= only.max() < whole.n_points):
            raise InputError(f"only names points outside 0 … {whole.n_points - 1}")
        return replace(whole, only=np.unique(only))

    # -- the search --------------------------------------------------------------------------

    def _reach(self, near: Array, slack: float) -> Array:
        """(n,) max_j q_ij + 1 + slack, −inf for points without targets."""
        reach = np.full(self.n_points, -np.inf)
        np.maximum.at(reach, self.target_pairs[:, 0], near + 1 + slack)
        return reach

    def _group(self, block: int) -> Indices:
        return np.zeros(self.n_points, np.int64) if self.groups is None else self.groups[block]

    def _pairs(
        self, stacked: Array, columns: Indices, reach: Array
    ) -> tuple[Indices, Indices, Array]:
        """The pairs (i, l) with q_il < reach_i, and their q_il."""
        low = self.n_points >= _TREE_POINTS and np.diff(columns).max() <= _TREE_DIMENSION
        if self.search == "tree" or (self.search == "auto" and low):
            i, other = self._pairs_by_tree(stacked, columns, reach)
            return self._within(stacked, columns, reach, i, other)
        none = np.empty(0, np.int64)
        found = self._over_pairs(stacked, columns, reach, lambda *pairs: pairs)
        anchors, impostors, squares = zip((none, none, np.empty(0)), *found, strict=True)
        return np.concatenate(anchors), np.concatenate(impostors), np.concatenate(squares)

    def _within(
        self, stacked: Array, columns: Indices, reach: Array, i: Indices, other: Indices
    ) -> tuple[Indices, Indices, Array]:
        """Those of some pairs (i, l) with q_il < reach_i, and their q_il."""
        far = lengths(stacked, columns, self.block_of, np.c_[i, other])
        found = far < reach[i]
        return i[found], other[found], far[found]

    def _triplets(self, reaches: Array, anchor: Indices, far: Array) -> tuple[Indices, Indices]:
        """(target, pair): the rows with q_il < reach_ij among given pairs (i, l)."""
        starts = self.target_starts[anchor]
        counts = self.target_starts[anchor + 1] - starts
        pair = np.repeat(np.arange(anchor.size), counts)
        target = np.arange(pair.size) - np.repeat(np.cumsum(counts) - counts - starts, counts)
        found = far[pair] < reaches[target]
        return target[found], pair[found]

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
            members = np.flatnonzero(
                (self.block_of == block) & (self.labels == label) & self._is_impostor
            )
            asking = np.flatnonzero((self.labels != label) & np.isfinite(reach))
            if not asking.size or not members.size:
                continue
            points = stacked[:, columns[block] : columns[block + 1]]
            tree, shared = BallTree(points[members]), self._group(block)
            for some in np.split(asking, range(_TREE_QUERIES, asking.size, _TREE_QUERIES)):
                continue_or_raise()
                answers = tree.query_radius(points[some], radius[some])
                i = np.repeat(some, [len(a) for a in answers])
                other = members[np.concatenate(answers)] if i.size else np.empty(0, np.int64)
                alike = shared[i] == shared[other]
                anchors.append(i[alike])
                impostors.append(other[alike])
        return np.concatenate(anchors), np.concatenate(impostors)

    def _strips(self, block: int, asks: Bools) -> Iterator[Strip]:
        """Strips that cover every pair (i, l) of an anchor that asks once, l in a block.

        With one block and most points such anchors, a strip is asked from both sides: a class
        against all later classes. With several blocks the distance is not symmetric. Other strips
        may have anchors of several classes, and then hold pairs of one class too, which do not
        count.
        """
        both = self.only is None and not self.block_of.any() and 2 * asks.sum() > self.n_points
        rows = self._in_order if both else self._in_order[asks[self._in_order]]
        bounds = np.searchsorted(self.labels[rows], np.unique(self.labels)) if both else [0]
        parts = np.split(rows, bounds)
        y = self.labels[self._members(block)]
        height = tiles.TILE_ENTRIES // min(tiles.TILE_COLUMNS, y.size)
        for some in (part[a : a + height] for part in parts for a in range(0, part.size, height)):
            first, last = self.labels[some[[0, -1]]]
            start, end = 0, 0
            if first == last:
                start, end = np.searchsorted(y, [first, first + 1]).tolist()
            spans = [(end, y.size)] if both else [(0, start), (end, y.size)]
            yield Strip(block, some, spans, both)

    @cached_property
    def _used_blocks(self) -> list[int]:
        """The blocks that measure the distance to some point."""
        return list(map(int, np.unique(self.block_of)))

    @cached_property
    def _in_order(self) -> Indices:
        """(n,) the points in the order of their classes."""
        return np.argsort(self.labels, kind="stable")

    def _members(self, block: int) -> Indices:
        """The points of a block in the order of their classes."""
        in_order = self._in_order
        return np.asarray(
            in_order[(self.block_of[in_order] == block) & self._is_impostor[in_order]]
        )

    def _over_pairs(
        self, stacked: Array, columns: Indices, reach: Array, work: Callable[..., Any]
    ) -> Iterator[Any]:
        """`work(i, l, q_il)` for the pairs with q_il < reach_i, some at a time, on all cores.

        Where pairs are kept that contain them, only these are looked at. It stops between tiles
        when it is told to (`sdpkit.numerics.deadline`).
        """

        def measured(pairs: tuple[Indices, Indices]) -> Any:
            continue_or_raise()
            return work(*self._within(stacked, columns, reach, *pairs))

        kept = self.keeping.pairs
        is_open = None if kept is None else kept.open_anchors(stacked, reach)
        if kept is None or is_open is None:
            yield from self._over_tiles(stacked, columns, reach, work, self.keeping)
            return
        with own_threads() as pool:
            yield from pool.map(measured, kept.chunks(~is_open))
        if is_open.any():
            left = np.where(is_open, reach, -np.inf)
            yield from self._over_tiles(stacked, columns, left, work, Keeping())

    def _over_tiles(
        self,
        stacked: Array,
        columns: Indices,
        reach: Array,
        work: Callable[..., Any],
        keeping: Keeping,
    ) -> Iterator[Any]:
        """The same by a search of all pairs; what is near is kept."""
        wide = keeping.begin(stacked, reach)
        asks = reach != -np.inf
        screens: dict[int, Screen | CelledScreen] = {}
        strips: list[Iterator[Strip]] = []
        for block in self._used_blocks:
            outputs = stacked[:, columns[block] : columns[block + 1]]
            screen = self._screen(block, outputs, wide, asks)
            celled = CelledScreen.where_it_pays(screen, self.labels, wide, asks)
            screens[block] = celled or screen
            strips.append(
                celled.strips(block, self.labels, asks) if celled else self._strips(block, asks)
            )

        def measured(pairs: tuple[Indices, Indices]) -> Any:
            i, other, far = self._within(stacked, columns, wide, *pairs)
            keeping.add(i, other)
            near = far < reach[i]
            return work(i[near], other[near], far[near])

        def run(strip: Strip) -> list[Any]:
            group = self._group(strip.block)
            found = screens[strip.block].candidates(strip, self.labels, group)
            return [measured(pairs) for pairs in tiles.joined(found)]

        with own_threads() as pool:
            for done in pool.map(run, chain(*strips)):
                continue_or_raise()
                yield from done
        keeping.end()

    def _screen(self, block: int, outputs: Array, reach: Array, asks: Bools) -> Screen:
        """What a block's distances are screened by: its outputs about their centre, or only their
        leading directions where these tell most pairs of different classes apart.

        Only anchors and members of the block are looked at: in a part of the rows these are few.
        """
        members = self._members(block)
        is_used = asks.copy()
        is_used[members] = True
        used = np.flatnonzero(is_used)
        centred = outputs[used] - outputs[used].mean(axis=0)
        if centred.shape[1] >= _SCREENED_DIMENSION and asks.sum() >= _SCREENED_ANCHORS:
            turned = centred @ scipy.linalg.eigh(centred.T @ centred)[1][:, ::-1]
            centred = turned[:, : self._n_leading(turned, used, reach)]
        spread = np.square(centred).sum(axis=1).max(initial=0.0)
        # Squares beyond the range of single precision are left to double precision.
        dtype: Any = np.float32 if spread < 1e36 else np.float64
        points = np.zeros((self.n_points, centred.shape[1]), dtype=dtype)
        points[used] = centred
        # Single precision may misjudge a distance by this share of the lengths involved.
        doubt = (points.shape[1] + 8) * float(np.finfo(np.float32).eps)
        low = np.zeros(self.n_points, dtype=dtype)
        low[used] = np.einsum("ij,ij->i", points[used], points[used]) * dtype(1 - doubt)
        limits = (reach - low).astype(dtype)
        return Screen(points, low, limits, members, points[members], low[members])

    def _n_leading(self, turned: Array, points: Indices, reach: Array) -> int:
        """The number of leading directions at which a search costs least, by a sample of pairs of
        some points, whose outputs are `turned`."""
        n, r = turned.shape
        i, other = np.random.default_rng(0).integers(0, n, (2, _SAMPLED_PAIRS))
        apart = self.labels[points[i]] != self.labels[points[other]]
        i, other = i[apart], other[apart]
        if not i.size:
            return int(r)  # all are of one class, and nothing is searched
        partial = np.cumsum(np.square(turned[i] - turned[other]), axis=1)
        passed = partial < np.maximum(reach[points[i]], reach[points[other]])[:, None]
        each, more = _LENGTH_COST
        cost = np.arange(1, r + 1) + (each + more * r) * passed.mean(axis=0)
        return int(np.argmin(cost)) + 1


def ordered_target_pairs(pairs: ArrayLike, labels: Indices) -> Indices:
    """Target pairs in order, each once; each must join two points of one class."""
    out = whole_numbers(pairs, "target pairs")
    if out.ndim != 2 or out.shape[1] != 2:
        raise InputError(f"target pairs have shape {out.shape}, expected (p, 2)")
    if out.size and (out.min() < 0 or out.max() >= labels.size):
        raise InputError(f"target pairs name points outside 0 … {labels.size - 1}")
    if np.any(out[:, 0] == out[:, 1]):
        raise InputError("a point cannot be its own target neighbour")
    if np.any(labels[out[:, 0]] != labels[out[:, 1]]):
        raise InputError("a target neighbour must have the label of its anchor")
    return np.unique(out, axis=0)
