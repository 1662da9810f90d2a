"""The inner problem of `factored`: an augmented Lagrangian of hinges over a working set of rows.

In coordinates in which every cost is the identity,

    ‖L‖² + weight·Σ_t max_{0 ≤ α ≤ 1} (α z_t − γ/2 (α − a_t)²),     M = LᵀL,  maximiser α_t

for the rows z_t = c_t + q_ij − q_il of any family. One compiled pass over the rows gives the value,
the maximisers and the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.errors import SolverError
from sdpkit.numerics.kernels import fast_kernel
from sdpkit.numerics.threads import workers
from sdpkit.program.families import (
    RowFamily,
    Rows,
    Terms,
    best_scale,
    laplacians,
    values,
)
from sdpkit.program.form import Program
from sdpkit.solution.solution import Solution
from sdpkit.solvers.locality import near_each_other
from sdpkit.typing import Array, Indices

# One (r, d) matrix L per block.
Factors = list[Array]

# The tolerance from which on the inner problem is solved in single precision.
SINGLE_PRECISION_TOL = 5e-4
# … and features up to this size, where differences of one count.
SINGLE_EXTENT = 1e3
# The price γ of moving α at which it does not move.
_NO_MOVE = 1e300
# The least eigenvalue of a start, as a share of the largest.
_EVERY = 1e-3
# Numbers that a pass reads, below which handing them to another thread takes longer.
_WORTH_SHARING = 200_000


@dataclass(frozen=True, eq=False)
class HingeProgram:
    """The program in coordinates in which every cost is the identity.

    Attributes
    ----------
    features: per block (n, d);  back: per block (d, d) with M = back Z back
    family: the rows;  weight: the price of a unit of violation, more than theirs in a part
    ranks: per block the number of rows that L may have
    dtype: of the outputs in the inner problem; single precision serves a loose tolerance
    """

    features: list[Array]
    back: list[Array]
    ranks: list[int]
    family: RowFamily
    weight: float
    dtype: Any

    @classmethod
    def of(cls, program: Program, tol: float) -> HingeProgram:
        """Change coordinates; a singular cost is refused."""
        features, back = [], []
        for block in program.blocks:
            values, vectors = scipy.linalg.eigh(block.cost.dense())
            if values[0] <= 1e-12 * values[-1]:
                raise SolverError(
                    f"the cost of block {block.name!r} is singular (eigenvalues {values[0]:.2g} … "
                    f"{values[-1]:.2g}): state the program on the range of its cost"
                )
            root = (vectors / np.sqrt(values)) @ vectors.T
            nodes = np.eye(block.size) if block.features is None else block.features
            images = nodes @ root
            # Differences are all that counts; small numbers round less.
            features.append(np.ascontiguousarray(images - images.mean(axis=0)))
            back.append(root)
        if program.family is None:
            raise SolverError(
                "solvers 'factored' and 'projected' only solve programs with a family of rows"
            )
        ranks = [min(block.size, block.max_rank or block.size) for block in program.blocks]
        single = tol >= SINGLE_PRECISION_TOL and max(map(_extent, features)) <= SINGLE_EXTENT
        dtype = np.float32 if single else np.float64
        return cls(features, back, ranks, program.family, program.family.weight, dtype)

    def part(self, share: float) -> HingeProgram:
        """The same problem on a part of the rows, their price raised to make up for it."""
        family = self.family.part(share)
        return replace(self, family=family, weight=self.weight * self.family.n_rows / family.n_rows)

    def outputs(self, factors: Factors) -> list[Array]:
        """The images of all points, one (n, r) array per block."""
        return [x @ factor.T for x, factor in zip(self.features, factors, strict=True)]

    def images(self, terms: Terms, alpha: Array) -> list[Array]:
        """Per block weight·Σα_t(C_ij − C_il), (d, d), in double precision."""
        graphs = laplacians(self.family, terms, alpha, len(self.features))
        parts = zip(self.features, graphs, strict=True)
        return [self.weight * (x.T @ (graph @ x)) for x, graph in parts]

    def share(self, images: list[Array]) -> float:
        """The largest θ ≤ 1 with I + θ·image ⪰ 0 in every block."""
        lows = [float(scipy.linalg.eigvalsh(a, subset_by_index=[0, 0])[0]) for a in images]
        return min(1.0, *(-1.0 / low if low < 0 else 1.0 for low in lows))

    def objective(self, factors: Factors, rows: Rows) -> float:
        """‖L‖² + weight·Σ[z]₊ over `rows`."""
        z = values(self.family, self.family.terms(rows), self.outputs(factors))
        return squared_norm(factors) + self.weight * float(np.maximum(z, 0.0).sum())

    def matrices(self, factors: Factors) -> tuple[Array, ...]:
        """The metric matrices in the program's own coordinates."""
        roots = [factor @ back for factor, back in zip(factors, self.back, strict=True)]
        return tuple(root.T @ root for root in roots)

    def start(self, warm: Solution | None) -> Factors:
        """The factors of a solution of the same shape, or the best multiple of an isometry."""
        sizes = [(root.shape[0], root.shape[0]) for root in self.back]
        if warm is not None and [m.shape for m in warm.matrices] == sizes:
            parts = zip(warm.matrices, self.back, self.ranks, strict=True)
            return [_leading(np.linalg.solve(b, np.linalg.solve(b, m).T), r) for m, b, r in parts]
        bases = [_widest(x, r) for x, r in zip(self.features, self.ranks, strict=True)]
        t = best_scale(self.family, self.outputs(bases), squared_norm(bases))
        return [np.sqrt(t) * basis for basis in bases]


def _extent(features: Array) -> float:
    """The largest coordinate."""
    return float(np.abs(features).max(initial=0.0))


def _leading(matrix: Array, rank: int) -> Array:
    """(rank, d) L with LᵀL the best approximation of a positive semidefinite matrix."""
    values, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2)
    # A little of every direction, or the search could hardly leave the face of the start.
    roots = np.sqrt(np.maximum(values, _EVERY * max(float(values[-1]), np.finfo(float).tiny)))
    return np.asarray((vectors * roots)[:, ::-1][:, :rank].T)


def _widest(features: Array, rank: int) -> Array:
    """(rank, d) orthonormal rows: all directions, or those of largest variance."""
    size = features.shape[1]
    if rank == size:
        return np.eye(size)
    return np.asarray(scipy.linalg.eigh(features.T @ features)[1][:, ::-1][:, :rank].T)


@dataclass(frozen=True, eq=False)
class Places:
    """Where the outputs of one block stand among all outputs of a working set.

    Attributes
    ----------
    rows: one for every point that the block measures from or to;  features: (u, d) of these
    """

    rows: slice
    features: NDArray[Any]


@dataclass(eq=False)
class WorkingSet:
    """Rows under consideration with their multipliers a.

    Only the points that occur in them are looked at, each in the blocks that measure it: a point
    has one *place* for each of these (a single one where distances are summed over the blocks). A
    row's two pairs begin at the same point, its *anchor*: rows are worked through by anchor, so
    that each distance is computed once. Places and anchors are in an order in which near points
    are next to each other: most of what an anchor needs is in the cache already.

    Attributes
    ----------
    rows: their numbers;  terms: what they say
    places: per block
    anchors: (m_a,) the order in which anchors are worked through
    pull_starts, push_starts: (m_a + 1,) where the pulls and pushes of each anchor begin
    pulls, pushes: (2, ·) the places of their two points, −1 for one that is missing
    constants: of the pulls
    row_starts: where the rows of each push begin;  row_pull: place of each row's pull in `pulls`
    """

    rows: Rows
    terms: Terms
    a: Array
    places: list[Places]
    anchors: Indices
    pull_starts: Indices
    pulls: Indices
    constants: Array
    push_starts: Indices
    pushes: Indices
    row_starts: Indices
    row_pull: Indices

    @classmethod
    def of(cls, problem: HingeProgram, rows: Rows, a: Array, factors: Factors) -> WorkingSet:
        """Index rows for the kernel; distances are near those that `factors` measure."""
        terms = problem.family.terms(rows)
        is_used = np.zeros(len(terms.pulls), dtype=bool)
        is_used[terms.pull] = True
        row_pull = (np.cumsum(is_used) - 1)[terms.pull]
        used = np.flatnonzero(is_used)
        pulls, pushes = terms.pulls[used], terms.pushes
        anchors = pulls[np.diff(pulls[:, 0], prepend=-1) > 0, 0]
        order = near_each_other(problem.features[0] @ factors[0].T)
        places, (pull_places, push_places) = _placed(problem, [pulls, pushes], order)
        return cls(
            rows,
            terms,
            a,
            places,
            np.argsort(np.argsort(order)[anchors]),
            np.append(np.searchsorted(pulls[:, 0], anchors), len(pulls)),
            pull_places,
            terms.constants[used],
            np.append(np.searchsorted(pushes[:, 0], anchors), len(pushes)),
            push_places,
            np.searchsorted(terms.push, np.arange(len(pushes) + 1)),
            row_pull,
        )

    def refreshed(self, problem: HingeProgram, found: Rows, factors: Factors) -> WorkingSet:
        """The rows that a search found, with those whose multipliers are positive."""
        held = self.a > 0
        old = self.rows[held]
        rows = np.sort(np.concatenate([found, old]), kind="stable")  # which merges sorted parts
        rows = rows[np.diff(rows, prepend=-1) > 0]
        a = np.zeros(rows.size)
        a[np.searchsorted(rows, old)] = self.a[held]
        return WorkingSet.of(problem, rows, a, factors)

    @cached_property
    def shares(self) -> list[tuple[int, int]]:
        """Ranges of anchors with about equally many pushes, one per thread."""
        numbers = self.rows.size * self.places[0].features.shape[1]
        count = workers() if numbers > _WORTH_SHARING else 1
        pushes = np.cumsum(np.diff(self.push_starts)[self.anchors])
        cuts = np.searchsorted(pushes, np.linspace(0, self.pushes.shape[1], count + 1))
        cuts[0], cuts[-1] = 0, self.anchors.size
        return list(pairwise(int(c) for c in cuts))


def _placed(
    problem: HingeProgram, pairs: list[Indices], order: Indices
) -> tuple[list[Places], list[Indices]]:
    """Places for the points of some pairs (i, o), each in the block of o, in an order of all
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
            Places(rows, np.ascontiguousarray(x[nodes], dtype=problem.dtype)) for x in measured
        ]
        number[nodes], first = -1, first + nodes.size
    return places, found


@dataclass(frozen=True, eq=False)
class InnerPoint:
    """The inner problem at some L: value, gradient, maximisers α, and the true hinge objective.

    `in_the_cone` computes the gradient in M = LᵀL, which that in L does not tell where L is
    singular.
    """

    factors: Factors
    value: float
    gradient: Factors
    objective: float
    alpha: Array
    single: bool
    in_the_cone: Callable[[], Factors]


def augmented_lagrangian(
    problem: HingeProgram, working: WorkingSet, gamma: float, factors: Factors, pool: Any
) -> InnerPoint:
    """The augmented Lagrangian and its gradient 2(L + weight·(Laplacian·Y)ᵀX)."""
    columns, width = _columns(problem, [factor.shape[0] for factor in factors])
    stacked = np.zeros((working.places[-1].rows.stop, width), dtype=problem.dtype)
    for factor, place, span in zip(factors, working.places, columns, strict=True):
        small = factor.T.astype(problem.dtype)
        _write_product(pool, place.features, small, stacked[place.rows, span])
    (lagrangian, hinges), pull, alpha = _pass(working, stacked, working.a, gamma, pool)
    square, weight = squared_norm(factors), problem.weight
    gradient = [
        2 * (factor + weight * _across(pool, pull[place.rows, span], place.features))
        for factor, place, span in zip(factors, working.places, columns, strict=True)
    ]
    value, objective = square + weight * lagrangian, square + weight * hinges
    single = problem.dtype is np.float32

    def in_the_cone() -> Factors:
        images = working_images(problem, working, alpha, pool)
        return [np.eye(image.shape[0]) + image for image in images]

    return InnerPoint(factors, value, gradient, objective, alpha, single, in_the_cone)


def working_images(
    problem: HingeProgram, working: WorkingSet, alpha: Array, pool: Any
) -> list[Array]:
    """Per block weight·Σα_t(C_ij − C_il), (d, d), in the precision of the inner problem.

    The Laplacian is applied to the features by the same pass: where moving away from α has a
    price without end, α stays what it is.
    """
    columns, width = _columns(problem, [place.features.shape[1] for place in working.places])
    stacked = np.zeros((working.places[-1].rows.stop, width), dtype=problem.dtype)
    for place, span in zip(working.places, columns, strict=True):
        stacked[place.rows, span] = place.features
    _, pull, _ = _pass(working, stacked, alpha, _NO_MOVE, pool)
    return [
        problem.weight * _across(pool, pull[place.rows, span], place.features)
        for place, span in zip(working.places, columns, strict=True)
    ]


def _pass(
    working: WorkingSet, stacked: NDArray[Any], a: Array, gamma: float, pool: Any
) -> tuple[Array, NDArray[Any], Array]:
    """The sums Σ(αz − γ/2(α − a)²) and Σ[z]₊, the Laplacian of α applied to `stacked`, and α."""
    alpha = np.empty(working.rows.size)
    layout = (
        working.anchors,
        working.pull_starts,
        working.pulls,
        working.push_starts,
        working.pushes,
        working.row_starts,
        working.row_pull,
        working.constants,
    )
    augmented = _AUGMENTED[stacked.dtype.type]
    most = int(np.diff(working.pull_starts).max(initial=0))

    def run(share: tuple[int, int]) -> tuple[Array, NDArray[Any]]:
        pull, sums = np.zeros_like(stacked), np.zeros(2)
        room = (np.empty(most), np.empty(most))
        augmented(stacked, *layout, a, gamma, *share, *room, sums, pull, alpha)
        return sums, pull

    (sums, pull), *others = _shared(pool, run, working.shares)
    for more, other in others:
        sums += more
        pull += other
    return sums, pull, alpha


def _columns(problem: HingeProgram, widths: list[int]) -> tuple[list[slice], int]:
    """The columns of every block among the outputs, and their number: side by side where
    distances are summed, or else each in its own rows."""
    if problem.family.summed:
        ends = np.cumsum([0, *widths]).tolist()
        return [slice(*ends[k : k + 2]) for k in range(len(widths))], ends[-1]
    return [slice(0, width) for width in widths], max(widths)


def _shared(pool: Any, work: Callable[[Any], Any], shares: list[Any]) -> list[Any]:
    """`work` on every share; a single one does not wait for another thread."""
    return [work(shares[0])] if len(shares) == 1 else list(pool.map(work, shares))


def _slices(rows: int) -> list[slice]:
    """The rows of a tall matrix, one slice per thread; one slice if it is not worth it."""
    count = workers() if rows > 4000 else 1
    if count == 1:
        return [slice(0, rows)]
    cuts = np.linspace(0, rows, count + 1).astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(cuts)]


def _write_product(pool: Any, tall: Array, small: Array, out: Array) -> None:
    """tall @ small, the rows shared out: BLAS threads would fight with ours."""

    def write(rows: slice) -> None:
        out[rows] = tall[rows] @ small

    _shared(pool, write, _slices(tall.shape[0]))


def _across(pool: Any, left: Array, right: Array) -> Array:
    """leftᵀ @ right of two tall matrices, the rows shared out."""
    parts = _shared(pool, lambda rows: left[rows].T @ right[rows], _slices(left.shape[0]))
    return np.asarray(sum(parts))


def _augmented(
    stacked: Any,
    anchors: Any,
    pull_starts: Any,
    pulls: Any,
    push_starts: Any,
    pushes: Any,
    row_starts: Any,
    row_pull: Any,
    constants: Any,
    a: Any,
    gamma: float,
    first: int,
    last: int,
    near: Any,
    tensions: Any,
    sums: Any,
    pull: Any,
    alpha: Any,
) -> None:
    """One pass over the rows of some anchors: Σ(αz − γ/2(α − a)²) and Σ[z]₊ in `sums`, α, and the
    weighted Laplacian applied to the outputs, added to `pull`. Sums over rows are in double
    precision.

    An anchor's partners are its pulls, for their lengths, then its pushes, then its pulls again,
    for their tensions: one loop, since each copy of its inner loops takes time to compile. Slices,
    not index ranges, are what the compiler makes vectors of.
    """
    value, hinge, slope = 0.0, 0.0, 1.0 / gamma
    for k in anchors[first:last]:
        base, start = pull_starts[k], push_starts[k]
        count = pull_starts[k + 1] - base
        pairs = push_starts[k + 1] - start
        for step in range(count + pairs + count):
            if step < count:
                i, o = pulls[0, base + step], pulls[1, base + step]
            elif step < count + pairs:
                i, o = pushes[0, start + step - count], pushes[1, start + step - count]
            else:
                i, o = pulls[0, base + step - count - pairs], pulls[1, base + step - count - pairs]
            # A partner that is missing has no columns.
            end = stacked.shape[1] if o >= 0 else 0
            x, y = stacked[i, :end], stacked[o, :end]
            if step < count + pairs:
                far = stacked.dtype.type(0.0)
                for c in range(x.size):
                    difference = x[c] - y[c]
                    far += difference * difference
                if step < count:
                    near[step] = constants[base + step] + far
                    tensions[step] = 0.0
                    continue
                weight = 0.0
                e = start + step - count
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
    sums[0], sums[1] = value, hinge


_AUGMENTED = {
    dtype: fast_kernel(
        *(f"{name}[:,:]", "i8[:]", "i8[:]", "i8[:,:]", "i8[:]", "i8[:,:]", "i8[:]", "i8[:]"),
        *("f8[:]", "f8[:]", "f8", "i8", "i8", "out f8[:]", "out f8[:]", "out f8[:]"),
        *(f"out {name}[:,:]", "out f8[:]"),
    )(_augmented)
    for dtype, name in ((np.float32, "f4"), (np.float64, "f8"))
}


def squared_norm(factors: Factors) -> float:
    """Σ_b ‖L_b‖², which is Σ_b tr M_b."""
    return float(sum(np.vdot(factor, factor) for factor in factors))
