"""Comparisons under consideration, and one compiled pass over them.

A working set holds some comparisons of a family, z_t = c_t + q_ij − q_il, with their multipliers a.
`pass_over` gives the augmented Lagrangian of their hinges, the maximisers α and the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.numerics.kernels import fast_kernel
from sdpkit.numerics.threads import workers
from sdpkit.program.families import Rows, Terms
from sdpkit.solvers.hinge_program import Factors, HingeProgram
from sdpkit.solvers.locality import near_each_other
from sdpkit.typing import Array, Indices

# Numbers that a pass reads, below which handing them to another thread takes longer.
_WORTH_SHARING = 200_000


@dataclass(frozen=True, eq=False)
class OutputPlaces:
    """Where the outputs of one block stand among all outputs of a working set.

    Attributes
    ----------
    rows: one for every point that the block measures from or to;  features: (u, d) of these
    """

    rows: slice
    features: NDArray[Any]


@dataclass(eq=False)
class WorkingSet:
    """Comparisons under consideration with their multipliers a.

    Only the points that occur in them are looked at, each in the blocks that measure it: a point
    has one *place* for each of these (a single one where distances are summed over the blocks). The
    two pairs of a comparison begin at the same point, its *anchor*: the pass goes from anchor to
    anchor, so that each distance is computed once. Places and anchors are in an order in which near
    points are next to each other: most of what an anchor needs is in the cache already.

    Attributes
    ----------
    rows: their numbers;  terms: what they say
    places: per block
    anchors: (m_a, 4) first and last pull, first and last push of each anchor, in working order
    partners: (2, pulls + pushes) the places of the two points of each pair, −1 for one that is
        missing; pulls come before pushes
    constants: of the pulls
    row_starts: where the comparisons of each push begin
    row_pull: (m,) the pull of each comparison
    """

    rows: Rows
    terms: Terms
    a: Array
    places: list[OutputPlaces]
    anchors: Indices
    partners: Indices
    constants: Array
    row_starts: Indices
    row_pull: Indices

    @classmethod
    def of(cls, problem: HingeProgram, rows: Rows, a: Array, factors: Factors) -> WorkingSet:
        """Index comparisons for the pass; distances are near those that `factors` measure."""
        terms = problem.family.terms(rows)
        is_used = np.zeros(len(terms.pulls), dtype=bool)
        is_used[terms.pull] = True
        row_pull = (np.cumsum(is_used) - 1)[terms.pull]
        used = np.flatnonzero(is_used)
        pulls, pushes = terms.pulls[used], terms.pushes
        anchors = pulls[np.diff(pulls[:, 0], prepend=-1) > 0, 0]
        order = near_each_other(problem.features[0] @ factors[0].T)
        places, partners = _placed(problem, [pulls, pushes], order)
        spans = [_spans(pairs[:, 0], anchors) for pairs in (pulls, pushes)]
        in_order = np.argsort(np.argsort(order)[anchors])
        return cls(
            rows,
            terms,
            a,
            places,
            np.ascontiguousarray(np.hstack(spans)[in_order]),
            np.hstack(partners),
            terms.constants[used],
            np.searchsorted(terms.push, np.arange(len(pushes) + 1)),
            row_pull,
        )

    def refreshed(self, problem: HingeProgram, found: Rows, factors: Factors) -> WorkingSet:
        """The comparisons that a search found, with those whose multipliers are positive."""
        held = self.a > 0
        old = self.rows[held]
        rows = np.sort(np.concatenate([found, old]), kind="stable")  # which merges sorted parts
        rows = rows[np.diff(rows, prepend=-1) > 0]
        a = np.zeros(rows.size)
        a[np.searchsorted(rows, old)] = self.a[held]
        return WorkingSet.of(problem, rows, a, factors)

    @cached_property
    def shares(self) -> list[Indices]:
        """The anchors in parts with about equally many pushes, one per thread."""
        numbers = self.rows.size * self.places[0].features.shape[1]
        count = workers() if numbers > _WORTH_SHARING else 1
        pushes = np.cumsum(self.anchors[:, 3] - self.anchors[:, 2])
        total = self.row_starts.size - 1
        cuts = np.searchsorted(pushes, np.linspace(0, total, count + 1))
        cuts[0], cuts[-1] = 0, len(self.anchors)
        return [self.anchors[first:last] for first, last in pairwise(int(c) for c in cuts)]

    @cached_property
    def most_pulls(self) -> int:
        """Of one anchor."""
        return int((self.anchors[:, 1] - self.anchors[:, 0]).max(initial=0))


def _spans(starts: Indices, anchors: Indices) -> Indices:
    """(m_a, 2) the first of the pairs that begin at each anchor, and the one after the last; pairs
    are in the order of the points at which they begin."""
    first = np.searchsorted(starts, anchors)
    return np.column_stack([first, np.append(first, starts.size)[1:]])


def _placed(
    problem: HingeProgram, pairs: list[Indices], order: Indices
) -> tuple[list[OutputPlaces], list[Indices]]:
    """OutputPlaces for the points of some pairs (i, o), each in the block of o, in an order of all
    points; and those of the pairs, (2, ·) each."""
    family, features = problem.family, problem.features
    # A pair without an o measures nothing, in any block.
    blocks = [family.block_of[np.where(p[:, 1] < 0, p[:, 0], p[:, 1])] for p in pairs]
    places, found = [], [np.full((2, len(p)), -1) for p in pairs]
    number, first = np.full(family.n_points + 1, -1), 0
    for block in range(1 if family.summed else len(features)):
        mine = [np.flatnonzero(b == block) for b in blocks]
        present = np.zeros(family.n_points + 1, dtype=bool)
        for pair, some in zip(pairs, mine, strict=True):
            present[pair[some].ravel()] = True
        nodes = order[present[order]]
        number[nodes] = np.arange(first, first + nodes.size)
        for pair, some, place in zip(pairs, mine, found, strict=True):
            place[:, some] = number[pair[some].T]
        measured = features if family.summed else features[block : block + 1]
        rows = slice(first, first + nodes.size)
        places += [
            OutputPlaces(rows, np.ascontiguousarray(x[nodes], dtype=problem.dtype))
            for x in measured
        ]
        number[nodes], first = -1, first + nodes.size
    return places, found


@dataclass(frozen=True, eq=False)
class Pass:
    """What one pass over a working set finds.

    Attributes
    ----------
    lagrangian: Σ(αz − γ/2(α − a)²);  hinges: Σ[z]₊;  alpha: (m,) the maximisers α
    pull: the Laplacian of α, applied to the outputs
    """

    lagrangian: float
    hinges: float
    alpha: Array
    pull: NDArray[Any]


def pass_over(
    working: WorkingSet, outputs: NDArray[Any], a: Array, gamma: float, pool: Any
) -> Pass:
    """One pass over all comparisons, shared out among threads."""
    alpha = np.empty(working.rows.size)
    layout = (working.partners, working.constants, working.row_starts, working.row_pull)
    add_comparisons = _ADD_COMPARISONS[outputs.dtype.type]

    def run(anchors: Indices) -> tuple[float, float, NDArray[Any]]:
        pull, room = np.zeros_like(outputs), np.empty((2, working.most_pulls))
        value, hinges = add_comparisons(outputs, anchors, *layout, a, gamma, room, pull, alpha)
        return value, hinges, pull

    (value, hinges, pull), *others = shared_out(pool, run, working.shares)
    for more_value, more_hinges, more_pull in others:
        value, hinges = value + more_value, hinges + more_hinges
        pull += more_pull
    return Pass(value, hinges, alpha, pull)


def shared_out(pool: Any, work: Callable[[Any], Any], shares: list[Any]) -> list[Any]:
    """`work` on every share; a single one does not wait for another thread."""
    return [work(shares[0])] if len(shares) == 1 else list(pool.map(work, shares))


# An anchor's partners are its pulls, for their lengths, then its pushes, then its pulls again, for
# their tensions: one loop, since each copy of its inner loops takes time to compile. Slices, not
# index ranges, are what the compiler makes vectors of. α is written down, and the weighted
# Laplacian applied to the outputs is added to `pull`. Sums are in double precision.
def _add_comparisons(
    outputs: Any,
    anchors: Any,
    partners: Any,
    constants: Any,
    row_starts: Any,
    row_pull: Any,
    a: Any,
    gamma: float,
    room: Any,
    pull: Any,
    alpha: Any,
) -> Any:
    """Σ(αz − γ/2(α − a)²) and Σ[z]₊ over the comparisons of some anchors; fills α and `pull`."""
    value, hinge, slope = 0.0, 0.0, 1.0 / gamma
    near, tensions = room[0], room[1]
    for k in range(anchors.shape[0]):
        base, start = anchors[k, 0], anchors[k, 2]
        count, pairs = anchors[k, 1] - base, anchors[k, 3] - start
        for step in range(count + pairs + count):
            if step < count:
                p = base + step
            elif step < count + pairs:
                p = constants.size + start + step - count
            else:
                p = base + step - count - pairs
            i, o = partners[0, p], partners[1, p]
            end = outputs.shape[1] if o >= 0 else 0  # a partner that is missing has no columns
            x, y = outputs[i, :end], outputs[o, :end]
            if step < count + pairs:
                far = outputs.dtype.type(0.0)
                for c in range(x.size):
                    difference = x[c] - y[c]
                    far += difference * difference
                if step < count:
                    near[step] = constants[p] + far
                    tensions[step] = 0.0
                    continue
                weight, e = 0.0, start + step - count
                for r in range(row_starts[e], row_starts[e + 1]):
                    t = row_pull[r] - base
                    z = near[t] - far
                    hinge += max(0.0, z)
                    v = min(1.0, max(0.0, a[r] + slope * z))
                    value += v * z - 0.5 * gamma * (v - a[r]) * (v - a[r])
                    alpha[r] = v
                    tensions[t] += v
                    weight -= v
            else:
                weight = tensions[step - count - pairs]
            if weight == 0.0:
                continue
            # weight·(y_i − y_o) is added to the row of i and taken from that of o.
            single, mine, other = pull.dtype.type(weight), pull[i, :end], pull[o, :end]
            for c in range(x.size):
                change = single * (x[c] - y[c])
                mine[c] += change
                other[c] -= change
    return value, hinge


_ADD_COMPARISONS = {
    dtype: fast_kernel(
        *(f"{name}[:,:]", "i8[:,:]", "i8[:,:]", "f8[:]", "i8[:]", "i8[:]"),
        *("f8[:]", "f8", "out f8[:,:]", f"out {name}[:,:]", "out f8[:]"),
    )(_add_comparisons)
    for dtype, name in ((np.float32, "f4"), (np.float64, "f8"))
}
