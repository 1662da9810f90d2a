"""Rows that are searched, never listed: what a family is, and what can be done with any.

A row t of a family is a penalised inequality between squared distances of outputs y = L x:

    weight · [z_t]₊ ,      z_t = c_t + q_ij − q_il ,      q_io = ‖L_b(o) (x_i − x_o)‖²

with b(o) the block by which the *other* point measures (a single metric has one block); in a
*summed* family every block measures every distance, q_io = Σ_b ‖L_b (x_i − x_o)‖². A positive
multiplier of the row *pulls* i and j together and *pushes* i and l apart. Either pair may be
missing: q_ij ≤ u is z = −u + q_ij, and q_il ≥ d is z = d − q_il.

There may be far too many rows to write down, and nearly all of them are satisfied. A `RowFamily`
therefore never lists them: for given outputs it returns, exactly, the rows that are violated or
within a margin of it, and the exact sum of all hinges. Each row has a number, and `terms` says
what the rows of given numbers are. Solvers, certificate and files know families by this protocol
alone. `sdpkit.program.impostors`, `sdpkit.program.labelled_pairs` and
`sdpkit.program.listed_rows` hold ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.kernels import fast_kernel
from sdpkit.typing import Array, Bools, Indices

# The numbers of some rows of a family, increasing.
Rows = NDArray[np.int64]

# Rows on which the scale of a start is tried, points that they may belong to, and the factor by
# which a first guess may be wrong. A scale is almost as good as the best if it costs so much more.
_SCALE_ROWS, _SCALE_POINTS, _SCALE_SPAN = 250_000, 500, 2.0
_SCALE_LOSS = 0.02
# With more points the first guess is kept, on more rows: on 60,000 images a better scale was no
# better start, and looking for it takes longer.
_MANY_POINTS = 50_000
# With still more points each has too many rows to list: only those are looked at that so many
# points violate, up to so many rows for each of them.
_MOST_POINTS, _NEAR_POINTS, _NEAR_ROWS = 100_000, 256, 20_000
# The mean squared distance of outputs from their centre below which no start is made, in units of
# the family's constants.
_LEAST_SPREAD = 0.1
# Distances that are measured between two looks at the time.
_PAIRS_AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class Terms:
    """What some rows say:  z_t = constants[pull_t] + q(pulls[pull_t]) − q(pushes[push_t]).

    Attributes
    ----------
    pulls: (a, 2) pairs (i, j), ordered by i;  constants: (a,) c
    pushes: (b, 2) pairs (i, l), ordered by i. In both, −1 for the second point stands for q = 0.
    pull, push: (m,) the pairs of each row, which begin at the same i; push does not decrease
    """

    pulls: Indices
    constants: Array
    pushes: Indices
    pull: Indices
    push: Indices

    @property
    def size(self) -> int:
        """m."""
        return int(self.pull.size)

    @property
    def row_constants(self) -> Array:
        """(m,) c_t: what the multipliers of the rows are worth in the dual objective."""
        return np.asarray(self.constants[self.pull])


class RowFamily(Protocol):
    """What a solver and the certificate may ask of rows that are not written down."""

    @property
    def weight(self) -> float:
        """The cost of a unit of violation, and the largest multiplier of a row."""

    @property
    def n_points(self) -> int:
        """n."""

    @property
    def n_rows(self) -> int:
        """The number of rows, or a little more where some are known to be satisfied."""

    @property
    def noun(self) -> str:
        """What a row is called in print."""

    @property
    def formula(self) -> str:
        """The sum of hinges, in print."""

    @property
    def unit(self) -> float:
        """The size of the constants c: what is small is small against it."""

    @property
    def block_of(self) -> Indices:
        """(n,) the block by which the distance to a point is measured; 0 if they are summed."""

    @property
    def summed(self) -> bool:
        """True if a distance is the sum of what all blocks measure."""

    def near(self, outputs: Sequence[Array], slack: float) -> Rows:
        """Exactly the rows with z > −slack at `outputs`, one (n, r) array per block.

        This and `hinge_sum` go over all rows: they call `numerics.deadline.continue_or_raise`
        now and then, so that a time limit or Ctrl-C can end them.
        """

    def hinge_sum(self, outputs: Sequence[Array]) -> float:
        """Σ [z]₊ over all rows."""

    def everything(self) -> Rows:
        """All rows, for small families."""

    def terms(self, rows: Rows) -> Terms:
        """What rows of the family say."""

    def has(self, rows: Rows) -> Bools:
        """(m,) which of some numbers, anybody's, are rows of this family."""

    def part(self, share: float) -> RowFamily:
        """About this share of the family, evenly spread; its rows may have other numbers."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The family as plain arrays."""


def values(family: RowFamily, terms: Terms, outputs: Sequence[Array]) -> Array:
    """(m,) z of some rows."""
    stacked, columns = side_by_side(family, outputs)
    pulled = terms.constants + lengths(stacked, columns, family.block_of, terms.pulls)
    pushed = lengths(stacked, columns, family.block_of, terms.pushes)
    return np.asarray(pulled[terms.pull] - pushed[terms.push])


def laplacians(
    family: RowFamily, terms: Terms, weights: Array, n_blocks: int
) -> list[sp.csr_array]:
    """Per block the signed graph Laplacian of Σ_t weights_t (b_ij b_ijᵀ − b_il b_ilᵀ), (n, n)."""
    pulls = np.bincount(terms.pull, weights, minlength=len(terms.pulls))
    pushes = np.bincount(terms.push, weights, minlength=len(terms.pushes))
    start, end = np.concatenate([terms.pulls, terms.pushes]).T
    tension = np.concatenate([pulls, -pushes]).astype(np.float64)
    used = (tension != 0) & (end >= 0)
    start, end, tension = start[used], end[used], tension[used]
    n, out = family.n_points, []
    each = np.arange(n)
    for block in range(1 if family.summed else n_blocks):
        mine = family.block_of[end] == block
        i, o, t = start[mine], end[mine], tension[mine]
        degree = np.bincount(i, t, n) + np.bincount(o, t, n)
        rows, columns = np.concatenate([i, o, each]), np.concatenate([o, i, each])
        entries = np.concatenate([-t, -t, degree])
        out.append(sp.csr_array((entries, (rows, columns)), shape=(n, n)))
    return out * n_blocks if family.summed else out


def best_scale(family: RowFamily, outputs: Sequence[Array], cost: float) -> float:
    """The t > 0 that minimises  t·cost + weight·Σ[z]₊ at √t·outputs,  on a part of the rows.

    `cost` is <C, M> at t = 1. Convex in t; found by bisection of the logarithm. All rows of a few
    points say where t is, roughly. Points differ, though, and near that t only the rows count that
    are violated there: the same number of these belongs to many more points, which say it better.
    The best multiple may be 0 where another metric is better than none; but a factor has no
    gradient at 0, so that t stays where distances are large enough for the constants to be felt.
    """
    if family.n_points >= _MOST_POINTS:
        return _scale_by_the_nearest(family, outputs, cost)
    # At t → 0 a hinge is c at most, so that no better scale costs more than that in <C, M> alone.
    most = family.weight * family.unit * family.n_rows
    ceiling = float(np.log(most / cost)) if cost > 0 else 0.0
    many = family.n_points > _MANY_POINTS
    rows = 4 * _SCALE_ROWS if many else _SCALE_ROWS
    part = family.part(min(1.0, rows / max(1, family.n_rows)))
    lines = _Lines.of(family, part, part.near(outputs, np.inf), outputs)
    t = lines.best(cost, ceiling - 30.0, ceiling, 0.2)
    if part.n_rows < family.n_rows and not many:
        low, high = t / _SCALE_SPAN, t * _SCALE_SPAN
        share = _SCALE_ROWS / max(1.0, lines.violated(low, high))
        part = family.part(min(1.0, share, _SCALE_POINTS / family.n_points))
        # z is linear in t: what is violated in between is violated at an end, and with c ≥ 0 at
        # the lower one.
        ends = (low,) if lines.constants.min(initial=0.0) >= 0 else (low, high)
        found = [part.near([np.sqrt(end) * y for y in outputs], 0.0) for end in ends]
        lines = _Lines.of(family, part, np.unique(np.concatenate(found)), outputs)
        t = lines.smallest(cost, np.log(low), np.log(high), 0.02)
    spread = sum(float(np.square(y - y.mean(axis=0)).sum()) for y in outputs) / family.n_points
    least = _LEAST_SPREAD * family.unit / spread if spread > 0 else 0.0
    return max(t, least)


def _scale_by_the_nearest(family: RowFamily, outputs: Sequence[Array], cost: float) -> float:
    """The same for very many points, from above: at large scales few rows are violated. With c ≥ 0
    those violated at a scale are all that are at larger ones, so that the best scale is found as
    soon as it is not the smallest of those tried."""
    part = family.part(_NEAR_POINTS / family.n_points)
    most = family.weight * family.unit * family.n_rows
    if not cost > 0:
        return 1.0
    ceiling = float(np.log(most / cost))
    low = ceiling
    while True:
        low -= np.log(2.0)
        rows = part.near([np.exp(low / 2) * y for y in outputs], 0.0)
        t = _Lines.of(family, part, rows, outputs).best(cost, low, ceiling, 0.02)
        if np.log(t) > low + 0.1 or rows.size > _NEAR_ROWS * _NEAR_POINTS or low < ceiling - 60:
            return t


@dataclass(frozen=True, eq=False)
class _Lines:
    """Some rows as functions  z = c + t·slope  of the scale.

    Attributes
    ----------
    constants, slopes: (r,) c and slope
    weight: the cost of their violation;  each: the number of rows that each stands for
    """

    constants: Array
    slopes: Array
    weight: float
    each: float

    @classmethod
    def of(cls, family: RowFamily, part: RowFamily, rows: Rows, outputs: Sequence[Array]) -> _Lines:
        terms = part.terms(rows)
        constants = terms.row_constants
        each = family.n_rows / max(1, part.n_rows)
        return cls(constants, values(part, terms, outputs) - constants, each * family.weight, each)

    def violated(self, low: float, high: float) -> float:
        """The number of rows that are violated somewhere between two scales."""
        found = np.maximum(low * self.slopes, high * self.slopes) > -self.constants
        return self.each * float(np.count_nonzero(found))

    def best(self, cost: float, low: float, high: float, accuracy: float) -> float:
        """The t that minimises the objective, its logarithm between two."""
        found = scipy.optimize.minimize_scalar(
            self._value,
            bounds=(low, high),
            args=(cost,),
            method="bounded",
            options={"xatol": accuracy},
        )
        return float(np.exp(found.x))

    def smallest(self, cost: float, low: float, high: float, accuracy: float) -> float:
        """The smallest t that is almost as good: it shows more of the rows that the first steps
        would violate."""
        best = float(np.log(self.best(cost, low, high, accuracy)))
        limit = (1 + _SCALE_LOSS) * self._value(best, cost)
        while best - low > accuracy:
            middle = (low + best) / 2
            low, best = (low, middle) if self._value(middle, cost) <= limit else (middle, best)
        return float(np.exp(best))

    def _value(self, log_t: float, cost: float) -> float:
        """t·cost + weight·Σ[z]₊."""
        continue_or_raise()
        t = float(np.exp(log_t))
        hinges = np.maximum(self.constants + t * self.slopes, 0.0).sum()
        return t * cost + self.weight * float(hinges)


def nearby_scale(
    family: RowFamily, outputs: Sequence[Array], cost: float, rows: Rows | None = None
) -> float:
    """The t ∈ [⅓, 3] that minimises the same, on the rows near `outputs` alone: for a start that
    is good already, at a small part of the work. `rows` saves the search for them."""
    terms = family.terms(family.near(outputs, 0.5 * family.unit) if rows is None else rows)
    constants = terms.row_constants
    slopes = values(family, terms, outputs) - constants

    def value(t: float) -> float:
        return t * cost + family.weight * float(np.maximum(constants + t * slopes, 0.0).sum())

    found = scipy.optimize.minimize_scalar(value, bounds=(1 / 3, 3.0), method="bounded")
    return float(found.x)


def side_by_side(family: RowFamily, outputs: Sequence[Array]) -> tuple[Array, Indices]:
    """The outputs of all blocks in one (n, Σr) array, and where each block's columns begin.

    Summed squared distances are those of the outputs side by side: one block of all columns.
    """
    widths = [part.shape[1] for part in outputs]
    widths = [sum(widths)] if family.summed else widths
    stacked = outputs[0] if len(outputs) == 1 else np.hstack(list(outputs))
    return np.ascontiguousarray(stacked, dtype=np.float64), np.cumsum([0, *widths])


def lengths(stacked: Array, columns: Indices, block_of: Indices, pairs: Indices) -> Array:
    """(p,) ‖y_i − y_o‖² of pairs (i, o) in the columns of o's block; 0 where o is −1."""
    out = np.empty(len(pairs))
    for first in range(0, len(pairs), _PAIRS_AT_A_TIME):
        continue_or_raise()
        some = slice(first, first + _PAIRS_AT_A_TIME)
        start, end = np.ascontiguousarray(pairs[some].T)
        _squared_lengths(stacked, columns, block_of, start, end, out[some])
    return out


# -- what families check --------------------------------------------------------------------


def spread_out(count: int, share: float) -> Indices:
    """Indices of about `share` of `count` things, evenly spread, at least one."""
    chosen = max(1, min(count, round(share * count)))
    return np.unique(np.linspace(0, count - 1, chosen).astype(np.int64))


def whole_numbers(values: ArrayLike, what: str) -> Indices:
    """An array of whole numbers; anything else is refused by name."""
    out = np.array(values)
    if out.size and out.dtype.kind not in "iu":
        raise InputError(f"{what} must be whole numbers, not {out.dtype.name}")
    return out.astype(np.int64)


def checked_weight(weight: float) -> float:
    """A positive weight."""
    if not 0 < weight < np.inf:
        raise InputError(f"the weight of a family is {weight}; it must be positive")
    return float(weight)


# -- kernels --------------------------------------------------------------------------------


@fast_kernel("f8[:,:]", "i8[:]", "i8[:]", "i8[:]", "i8[:]", "out f8[:]")
def _squared_lengths(
    stacked: Any, columns: Any, block_of: Any, start: Any, end: Any, out: Any
) -> None:
    """Any order of its sums is as exact as another, and every length is computed here alone."""
    for p in range(start.size):
        first, last = 0, 0
        if end[p] >= 0:
            first, last = columns[block_of[end[p]]], columns[block_of[end[p]] + 1]
        x, y = stacked[start[p], first:last], stacked[end[p], first:last]
        total = 0.0
        for c in range(x.size):
            difference = x[c] - y[c]
            total += difference * difference
        out[p] = total
