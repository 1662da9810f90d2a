"""Directions along which target neighbours do not differ, or hardly do: LMNN at no cost.

LMNN does not change under x → Tᵀx, M → T⁻¹MT⁻ᵀ, so it is stated in coordinates in which
C = (1−μ)P + ridge·I is the identity (`Coordinates`). Two kinds of directions are special:

* N in null(C): target neighbours do not differ along N, and M + t·NNᵀ costs nothing. Points that
  differ there are split into groups, which a finite t keeps apart at no cost.
* columns of T along which points differ by far more than any two target neighbours do. A jump of
  3e3 splits the points too: a unit of squared distance between the groups costs 1e-7. Without
  this, features of such a size would cost the solver and the bound their digits.

Triplets (i, j, l) whose i and l are in different groups are left out of the program. Every subset
of the triplets gives a lower bound, and differences within a group are those of the data, so that
the bound holds for the whole problem; only differences below 1e-9 of the spread are taken for
rounding. Afterwards `LeftOut` adds t·NNᵀ with the least t for which the objective of the whole
metric is within the certified gap: a longer one says nothing more about the training points, and
new points that differ a little along N would be thrown far away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from sdpkit import stored
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.families import RowFamily, values
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Bools, Indices

# Lengths of target pairs along a direction below this share of the longest count as rounding, with
# every feature in units of its own spread. A metric that measured them would have norms of 1e9,
# and double precision no digits left for its squared distances.
_NULL = 1e-9
# So do those of a few roundings of the features as they were given, before they were centred.
_ROUNDINGS = 30
# Points whose coordinates along null(C) differ by less than this share of the largest agree.
_SAME = 1e-9
# Eigenvalues of C above this share of the largest are accurate.
_ACCURATE = 1e-8
# Points farther apart than this are in different groups, where all target pairs together have a
# squared length of one; along null(C), than so many times the longest target pair.
_APART = 3e3
# Target pairs whose differences are looked at together.
_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Coordinates:
    """How one block sees the inputs.

    Attributes
    ----------
    whitening: (D, d) T with TᵀCT = I on the range of C
    inputs: (n, d) the features in these coordinates; along columns that split the points, each
        group around its own mean
    free: directions that split the points, cheapest first: (D, q) a basis of null(C) and (D, p)
        columns of T
    groups: (n,) points that no such direction splits share a number; all 0 if there is one group
    """

    whitening: Array
    inputs: Array
    free: tuple[Array, Array]
    groups: Indices

    @property
    def n_free(self) -> int:
        """The number of directions that split the points."""
        return sum(part.shape[1] for part in self.free) if self.groups.any() else 0


@dataclass(frozen=True, eq=False)
class Pull:
    """C = pull_weight·Σ (x_i − x_j)(x_i − x_j)ᵀ + ridge·I over target pairs (i, j).

    Attributes
    ----------
    features: (n, D) centred;  rounding: (D,) what a rounding of each feature is at most
    pairs: (p, 2)
    """

    features: Array
    rounding: Array
    pairs: Indices
    weight: float
    ridge: float

    def coordinates(self, split: bool = True) -> Coordinates:
        """The coordinates in which C = I; without `split`, only null(C) splits the points."""
        # Features may be given in any units: what is small is judged against their own spread.
        sizes = np.sqrt(self.weight * stored.squares(self.features) + self.ridge)
        units = np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0)
        T, null = self._whitening(np.diag(units))
        # Without any pull: a block of one direction in which nothing differs.
        T = T if T.shape[1] else np.zeros((len(units), 1))
        scale = float(stored.largest(self.features, units).max())
        along = self.features @ null
        groups = np.zeros(len(along), dtype=np.int64)
        for column, reach in zip(along.T, self._reach(null), strict=True):
            number = _groups(column, max(_SAME * scale, _APART * float(reach)))
            groups = _joint(groups, number)
        inputs, chosen = stored.product(self.features, T), np.zeros(T.shape[1], dtype=bool)
        if split and len(self.pairs):
            groups, chosen = _split(inputs, groups)
        return Coordinates(T, inputs, (null, T[:, chosen]), groups)

    def _reach(self, directions: Array) -> Array:
        """(q,) the largest difference of a target pair along each direction, (D, q)."""
        reach = np.zeros(directions.shape[1])
        for difference in self._differences(directions):
            reach = np.maximum(reach, np.abs(difference).max(axis=0, initial=0.0))
        return reach

    def _whitening(self, rest: Array) -> tuple[Array, Array]:
        """(D, d) T with TᵀCT = I, and (D, q) the directions among `rest` that C does not see.

        Eigenvalues of a sum of squares are wrong by a share of the largest. Directions far below
        it are therefore whitened later, by themselves: data that are rounded to a few digits have
        directions of 1e-7 of the others' length, which are as real as the others.
        """
        T, floor = np.empty((rest.shape[0], 0)), 0.0
        while rest.shape[1]:
            if T.shape[1]:
                rest = rest - T @ self._product(T, rest)
            lengths, vectors = scipy.linalg.eigh(self._product(rest, rest))
            found = rest @ vectors
            floor = max(floor, _NULL**2 * float(lengths[-1]))
            noise = _ROUNDINGS * (np.abs(found).T @ self.rounding)
            noise = np.maximum(floor, self.weight * len(self.pairs) * np.square(noise))
            kept = lengths > np.maximum(_ACCURATE * float(lengths[-1]), noise)
            if not kept.any():
                break
            T = np.hstack([T, found[:, kept] / np.sqrt(lengths[kept])])
            rest = found[:, ~kept]
        return T, rest

    def _product(self, left: Array, right: Array) -> Array:
        """AᵀCB; differences come first, so that short ones keep their digits."""
        out = self.ridge * (left.T @ right)
        same = left is right
        for a in self._differences(left if same else np.hstack([left, right])):
            b = a if same else a[:, left.shape[1] :]
            out += self.weight * (a[:, : left.shape[1]].T @ b)
        return np.asarray(out)

    def _differences(self, directions: Array) -> Iterator[Array]:
        """Differences of target pairs along directions, (p, q), in parts."""
        for start in range(0, len(self.pairs), _CHUNK):
            continue_or_raise()
            i, j = self.pairs[start : start + _CHUNK].T
            yield (self.features[i] - self.features[j]) @ directions


def _groups(column: Array, jump: float) -> Indices:
    """(n,) numbers of groups of points on a line, between which there are more than `jump`.

    >>> _groups(np.array([0.0, 5.0, 0.5]), 1.0)
    array([0, 1, 0])
    """
    order = np.argsort(column, kind="stable")
    number = np.empty(order.size, dtype=np.int64)
    number[order] = np.concatenate([[0], np.cumsum(np.diff(column[order]) > jump)])
    return number


def _split(inputs: Array, groups: Indices) -> tuple[Indices, Bools]:
    """Split groups along columns of `inputs`; the groups, and which columns split them.

    Comparisons within a group see differences there alone, so that each group is moved to its own
    mean: large coordinates would cost digits.
    """
    chosen = np.ptp(inputs, axis=0) > _APART
    for k in np.flatnonzero(chosen):
        number = _groups(inputs[:, k], _APART)
        chosen[k] = number.any()
        means = np.bincount(number, inputs[:, k]) / np.bincount(number)
        inputs[:, k] -= means[number]
        groups = _joint(groups, number)
    return groups, chosen


def _joint(groups: Indices, number: Indices) -> Indices:
    """(n,) groups that are split further."""
    return np.unique(np.c_[groups, number], axis=0, return_inverse=True)[1].ravel().astype(np.int64)


# -- triplets left out ----------------------------------------------------------------------


@dataclass(eq=False)
class LeftOut:
    """Violated triplets, and the lengths of free directions that satisfy them.

    Attributes
    ----------
    anchor, other: (m,) i and l;  missing: (m,) [1 + q_ij − q_il]₊
    allowed: how much of it may be left in all
    """

    anchor: Indices
    other: Indices
    missing: Array
    allowed: float

    @classmethod
    def of(cls, every: RowFamily, outputs: list[Array], allowed: float) -> LeftOut:
        """What some outputs violate of all triplets; their hinges may add up to `allowed`."""
        terms = every.terms(every.near(outputs, 0.0))
        anchor, other = terms.pushes[terms.push].T
        return cls(anchor, other, values(every, terms, outputs), allowed / every.weight)

    def push(self, c: Coordinates, features: Array, block_of: Indices, block: int) -> list[Array]:
        """Rows √t·Nᵀ for the free directions N of a block, with the least t that suffice for the
        triplets whose l is in the block and in another group than i."""
        mine = (block_of[self.other] == block) & (c.groups[self.anchor] != c.groups[self.other])
        n_blocks, rows = int(block_of.max()) + 1, []
        for part in c.free:
            u = features @ part
            squares = np.square(u[self.anchor[mine]] - u[self.other[mine]]).sum(axis=1)
            allowed = self.allowed / (len(c.free) * n_blocks)
            t = least_length(self.missing[mine], squares, allowed)
            self.missing[mine] = np.maximum(self.missing[mine] - t * squares, 0.0)
            if t > 0:
                rows.append(np.sqrt(t) * part.T)
        return rows


def least_length(missing: Array, squares: Array, allowed: float) -> float:
    """The least t ≥ 0 with Σ[missing − t·squares]₊ ≤ allowed, over the positive squares.

    >>> round(least_length(np.array([1.0, 1.0]), np.array([1.0, 1e-4]), 0.0), 3)
    10000.0
    >>> round(least_length(np.array([1.0, 1.0]), np.array([1.0, 1e-4]), 1.0), 3)
    1.0
    """
    seen = squares > 0
    missing, squares = missing[seen], squares[seen]
    if missing.sum() <= allowed:
        return 0.0
    ends = missing / squares
    order = np.argsort(ends)
    # At t = ends[k], those after k are left. Sums from the end: what is left last is exact.
    left = np.cumsum(missing[order][::-1])[::-1]
    slopes = np.cumsum(squares[order][::-1])[::-1]
    ends = ends[order]
    after = np.append(left[1:], 0.0) - ends * np.append(slopes[1:], 0.0)
    k = int(np.flatnonzero(after <= allowed)[0])
    # A little more where all are to be satisfied, so that rounding leaves none.
    return float(min((left[k] - allowed) / slopes[k], ends[k])) * (1.0 if allowed > 0 else 1 + 1e-9)


def allowance(solution: Solution, tol: float) -> float:
    """By how much the objective of what is recovered may exceed the certified one: half of the
    certified gap, or of `tol` where the gap is larger."""
    certificate = solution.certificate
    value, bound = certificate.objective, certificate.safe_bound
    if not np.isfinite(value):
        return 0.0
    most = tol * certificate.unit
    return 0.5 * min(max(value - bound, 0.0), most)


def free_note(directions: int) -> str:
    """What a reader of the solution should know about triplets that were left out."""
    return (
        f"{no_variation(directions)}; moving along them satisfies some triplets at no cost, so "
        "those triplets are left out"
    )


def length_notes(added: Sequence[Sequence[Array]]) -> tuple[str, ...]:
    """How long the free directions of each block have become, in words.

    >>> length_notes([[np.eye(3)[:2] * 3]])
    ('target neighbours do not differ along 2 directions; the metric has norm 9 there, the least \
that keeps its objective within the certified gap',)
    """
    found = []
    for block, rows in enumerate(added):
        if rows:
            whole = np.vstack(rows)
            norm = np.linalg.norm(whole, 2) ** 2  # of M = LᵀL, the matrix that users see
            subject = "the metric" if len(added) == 1 else f"metric {block + 1}"
            found.append(
                f"{no_variation(len(whole))}; {subject} has norm {norm:.3g} there, the least that "
                "keeps its objective within the certified gap"
            )
    return tuple(found)


def no_variation(directions: int) -> str:
    """The directions in words."""
    return f"target neighbours do not differ along {directions} direction{'s' * (directions > 1)}"
