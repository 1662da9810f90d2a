"""Large-margin comparisons by an augmented Lagrangian on a working set.

For programs  min Σ_b <C_b, M_b> + weight·Σ_t [z_t]₊  with the rows z_t = 1 + q_ij − q_il of a
family (`sdpkit.program.triplets`). In coordinates in which C_b = I, the inner problem is

    ‖L‖² + weight·Σ_t max_{0 ≤ α ≤ 1} (α z_t − γ/2 (α − a_t)²),     M = LᵀL,  maximiser α_t

and the outer one  a ← α:  the a_t converge to multipliers. What makes it fast, in order of weight:

* The change to C = I; without it the curvatures of L differ by the condition of C.
* A start L = √t·I, t the best scale on a part of the rows: a wrong scale has a huge active set.
* Multipliers move only after the inner problem is solved well, as its own duality gap tells;
  loosely solved, they wander. γ shrinks a little, not to 0.
* A quasi-Newton method on L, preconditioned from the right by (LᵀL + δI)⁻¹.
* Rows live in a working set: those within `slack` of being violated when it was last searched,
  and those with a_t > 0. The search is exact and over all rows. The upper bound is taken only
  from a search, while the lower bound holds for any set of rows:

      θ·weight·Σα,   the largest θ ≤ 1 with  I + θ·weight·Σα_t(C_ij − C_il) ⪰ 0.

`factored` solves the inner problem in L, which is not convex where L has fewer rows than columns;
its L is square unless the program limits the rank, and the certificate decides in any case.
`projected` solves it in M by a spectral projected gradient, convex from start to end: slower, and
there to check the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.errors import SolverError
from sdpkit.numerics.kernels import clock, fast_kernel
from sdpkit.numerics.threads import one_blas_thread, own_threads, workers
from sdpkit.program.form import Program
from sdpkit.program.triplets import (
    RowFamily,
    Rows,
    best_scale,
    hinges,
    laplacians,
    row_keys,
    rows_of,
)
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solution import Solution
from sdpkit.solution.solver import Capabilities, unsupported

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Factors = list[Array]

# γ at the start, and the smallest; the prices of moving α away from a.
_GAMMA, _GAMMA_LAST = 0.25, 0.06
# Rows within this much of being violated are kept: at the start, and at the end.
_SLACK, _SLACK_LAST = 0.3, 0.2
# The inner problem counts as solved at this share of the outer gap.
_INNER_SHARE = 0.3
# The relative change of L after which the working set is searched again.
_DRIFT = 0.02
# Steps between looks at the duality gap, and between multiplier updates at most.
_LOOK, _PATIENCE = 10, 150
# Steps after which an inner problem that single precision has not solved is given to double.
_PATIENCE_SINGLE = 60
# Steps on one working set at most.
_STEPS = 600
# δ of the preconditioner relative to ‖LᵀL‖, and the number of steps it remembers.
_DELTA, _MEMORY = 0.05, 40
# A stage on a part of the anchors comes first where there are more points than this.
_STAGED_POINTS, _STAGE_SHARE = 50_000, 0.3
# What a part of the anchors says about all of them is not worth a smaller gap than this.
_STAGE_GAP = 0.03
# The tolerance from which on the inner problem is solved in single precision.
_SINGLE = 5e-4
# Directions of L below this share of the largest are dropped between searches, but for a few.
_THIN, _SPARE = 1e-3, 4
# Rounds of search without progress after which a run gives up.
_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The program in coordinates in which every cost is the identity.

    Attributes
    ----------
    features: per block (n, d);  back: per block (d, d) with M = back Z back
    family: the rows;  weight: the price of a unit of violation
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
    def of(cls, program: Program, tol: float) -> _Comparison:
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
            raise SolverError("this solver takes programs with a family of comparisons only")
        ranks = [min(block.size, block.max_rank or block.size) for block in program.blocks]
        dtype = np.float32 if tol >= _SINGLE else np.float64
        return cls(features, back, ranks, program.family, program.family.weight, dtype)

    def part(self, share: float) -> _Comparison:
        """The same problem on a part of the rows, their price raised to make up for it."""
        family = self.family.part(share)
        return replace(self, family=family, weight=self.weight * self.family.n_rows / family.n_rows)

    def outputs(self, factors: Factors) -> list[Array]:
        """The images of all points, one (n, r) array per block."""
        return [x @ factor.T for x, factor in zip(self.features, factors, strict=True)]

    def images(self, rows: Rows, alpha: Array) -> list[Array]:
        """Per block weight·Σα_t(C_ij − C_il), (d, d)."""
        used = alpha > 0
        graphs = laplacians(self.family, rows.where(used), alpha[used], len(self.features))
        parts = zip(self.features, graphs, strict=True)
        return [self.weight * (x.T @ (graph @ x)) for x, graph in parts]

    def share(self, images: list[Array]) -> float:
        """The largest θ ≤ 1 with I + θ·image ⪰ 0 in every block."""
        lows = [float(scipy.linalg.eigvalsh(a, subset_by_index=[0, 0])[0]) for a in images]
        return min(1.0, *(-1.0 / low if low < 0 else 1.0 for low in lows))

    def objective(self, factors: Factors, rows: Rows) -> float:
        """‖L‖² + weight·Σ[z]₊ over `rows`."""
        z = hinges(self.family, rows, self.outputs(factors))
        return _square(factors) + self.weight * float(np.maximum(z, 0.0).sum())

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
        t = best_scale(self.family, self.outputs(bases), _square(bases))
        return [np.sqrt(t) * basis for basis in bases]


def _leading(matrix: Array, rank: int) -> Array:
    """(rank, d) L with LᵀL the best approximation of a positive semidefinite matrix."""
    values, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2)
    # A little of every direction, or the search could never leave the face of the start.
    roots = np.sqrt(np.maximum(values, 1e-6 * max(float(values[-1]), np.finfo(float).tiny)))
    return np.asarray((vectors * roots)[:, ::-1][:, :rank].T)


def _widest(features: Array, rank: int) -> Array:
    """(rank, d) orthonormal rows: all directions, or those of largest variance."""
    size = features.shape[1]
    if rank == size:
        return np.eye(size)
    return np.asarray(scipy.linalg.eigh(features.T @ features)[1][:, ::-1][:, :rank].T)


@dataclass(eq=False)
class _WorkingSet:
    """Rows under consideration with their multipliers a, ordered by (anchor, impostor, target).

    Only the points that occur in them are looked at; `nodes` are their numbers, and all other
    indices count among them.

    Attributes
    ----------
    features: per block (u, d) of the nodes;  block_of: (u,)
    anchors: (m_a,) with their target pairs at target_starts (m_a + 1,) in `targets`, and their
        (anchor, impostor) pairs at pair_starts (m_a + 1,) in `impostors`
    row_starts: where the rows of each pair begin;  row_target: place of each row's target in
        `targets`
    """

    rows: Rows
    a: Array
    features: list[NDArray[Any]]
    block_of: Indices
    anchors: Indices
    target_starts: Indices
    targets: Indices
    pair_starts: Indices
    impostors: Indices
    row_starts: Indices
    row_target: Indices

    @classmethod
    def of(cls, problem: _Comparison, rows: Rows, a: Array) -> _WorkingSet:
        """Index rows for the kernel."""
        family, n = problem.family, problem.family.n_points
        used, row_target = np.unique(rows.target, return_inverse=True)
        start, end = family.target_pairs[used].T
        key = family.target_pairs[rows.target, 0] * n + rows.impostor
        first = np.ones(rows.size, dtype=bool)
        first[1:] = key[1:] != key[:-1]
        pair_anchor, impostors = np.divmod(key[first], n)
        nodes = np.unique(np.concatenate([start, end, impostors]))
        anchors = np.unique(start)
        return cls(
            rows,
            a,
            [np.ascontiguousarray(x[nodes], dtype=problem.dtype) for x in problem.features],
            family.block_of[nodes],
            np.searchsorted(nodes, anchors),
            np.append(np.searchsorted(start, anchors), start.size),
            np.searchsorted(nodes, end),
            np.append(np.searchsorted(pair_anchor, anchors), impostors.size),
            np.asarray(np.searchsorted(nodes, impostors)),
            np.append(np.flatnonzero(first), rows.size),
            row_target,
        )

    def refreshed(self, problem: _Comparison, found: Rows) -> _WorkingSet:
        """The rows that a search found, with those whose multipliers are positive."""
        held = self.a > 0
        old = row_keys(problem.family, self.rows.where(held))
        keys = np.union1d(row_keys(problem.family, found), old)
        a = np.zeros(keys.size)
        a[np.searchsorted(keys, old)] = self.a[held]
        return _WorkingSet.of(problem, rows_of(problem.family, keys), a)

    @cached_property
    def shares(self) -> list[tuple[int, int]]:
        """Ranges of anchors with about equally many pairs, one per thread."""
        count = workers() if self.rows.size > 2000 else 1
        cuts = np.searchsorted(self.pair_starts, np.linspace(0, self.impostors.size, count + 1))
        cuts[0], cuts[-1] = 0, self.anchors.size
        return list(pairwise(int(c) for c in cuts))


@dataclass(frozen=True, eq=False)
class _Point:
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


def _evaluate(
    problem: _Comparison, working: _WorkingSet, gamma: float, factors: Factors, pool: Any
) -> _Point:
    """The augmented Lagrangian and its gradient 2(L + weight·(Laplacian·Y)ᵀX)."""
    small = [factor.T.astype(problem.dtype) for factor in factors]
    stacked = np.hstack(_by_parts(pool, working.features, small))
    ends = np.cumsum([0, *(factor.shape[0] for factor in factors)])
    # Summed distances are measured in all columns at once.
    columns = ends[[0, -1]] if problem.family.summed else ends
    alpha = np.empty(working.rows.size)
    layout = (
        working.block_of,
        working.anchors,
        working.target_starts,
        working.targets,
        working.pair_starts,
        working.impostors,
        working.row_starts,
        working.row_target,
    )

    augmented = _AUGMENTED[problem.dtype]
    most = int(np.diff(working.target_starts).max(initial=0))

    def run(share: tuple[int, int]) -> tuple[float, float, Array]:
        pull, sums = np.zeros_like(stacked), np.zeros(2)
        room = (np.empty(most), np.empty(most), np.zeros(stacked.shape[1], stacked.dtype))
        augmented(stacked, columns, *layout, working.a, gamma, *share, *room, sums, pull, alpha)
        return sums[0], sums[1], pull

    parts = _shared(pool, run, working.shares)
    pull = parts[0][2]
    for _, _, other in parts[1:]:
        pull += other
    square, weight = _square(factors), problem.weight
    spans = list(pairwise(ends))
    gradient = [
        2 * (factor + weight * _across(pool, pull[:, first:last], x))
        for factor, x, (first, last) in zip(factors, working.features, spans, strict=True)
    ]
    value = square + weight * sum(part[0] for part in parts)
    objective = square + weight * sum(part[1] for part in parts)
    single = problem.dtype is np.float32

    def in_the_cone() -> Factors:
        images = problem.images(working.rows, alpha)
        return [np.eye(image.shape[0]) + image for image in images]

    return _Point(factors, value, gradient, objective, alpha, single, in_the_cone)


def _shared(pool: Any, work: Callable[[Any], Any], shares: list[Any]) -> list[Any]:
    """`work` on every share; a single one does not wait for another thread."""
    return [work(shares[0])] if len(shares) == 1 else list(pool.map(work, shares))


def _slices(rows: int) -> list[slice]:
    """The rows of a tall matrix, one slice per thread; one slice if it is not worth it."""
    count = workers() if rows > 4000 else 1
    cuts = np.linspace(0, rows, count + 1).astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(cuts)]


def _by_parts(pool: Any, tall: list[Array], small: list[Array]) -> list[Array]:
    """tall @ small per block, the rows shared out: BLAS threads would fight with ours."""
    out = []
    for x, s in zip(tall, small, strict=True):
        parts = _shared(pool, partial(_product, x, s), _slices(x.shape[0]))
        out.append(np.vstack(parts) if len(parts) > 1 else parts[0])
    return out


def _product(tall: Array, small: Array, rows: slice) -> Array:
    return np.asarray(tall[rows] @ small)


def _across(pool: Any, left: Array, right: Array) -> Array:
    """leftᵀ @ right of two tall matrices, the rows shared out."""
    parts = _shared(pool, lambda rows: left[rows].T @ right[rows], _slices(left.shape[0]))
    return np.asarray(sum(parts))


def _augmented(
    stacked: Any,
    columns: Any,
    block_of: Any,
    anchors: Any,
    target_starts: Any,
    targets: Any,
    pair_starts: Any,
    impostors: Any,
    row_starts: Any,
    row_target: Any,
    a: Any,
    gamma: float,
    first: int,
    last: int,
    lengths: Any,
    pulls: Any,
    own: Any,
    sums: Any,
    pull: Any,
    alpha: Any,
) -> None:
    """One pass over the rows of some anchors: Σ(αz − γ/2(α − a)²) and Σ[z]₊ in `sums`, α, and the
    weighted Laplacian applied to the outputs, added to `pull`. Sums are in double precision.

    An anchor's partners are its targets, for their lengths, then its impostors, then its targets
    again, for their pulls: one loop, since each copy of its inner loops takes time to compile.
    Slices, not index ranges, are what the compiler makes vectors of.
    """
    value, hinge = 0.0, 0.0
    for k in range(first, last):
        i, base, start = anchors[k], target_starts[k], pair_starts[k]
        count = target_starts[k + 1] - base
        pairs = pair_starts[k + 1] - start
        for step in range(count + pairs + count):
            if step < count:
                o = targets[base + step]
            elif step < count + pairs:
                o = impostors[start + step - count]
            else:
                o = targets[base + step - count - pairs]
            begin, end = columns[block_of[o]], columns[block_of[o] + 1]
            x, y = stacked[i, begin:end], stacked[o, begin:end]
            if step < count + pairs:
                far = 0.0
                for c in range(x.size):
                    difference = x[c] - y[c]
                    far += difference * difference
                if step < count:
                    lengths[step] = far
                    pulls[step] = 0.0
                    continue
                weight = 0.0
                e = start + step - count
                for r in range(row_starts[e], row_starts[e + 1]):
                    t = row_target[r] - base
                    z = 1.0 + lengths[t] - far
                    hinge += max(0.0, z)
                    v = min(1.0, max(0.0, a[r] + z / gamma))
                    value += v * z - 0.5 * gamma * (v - a[r]) * (v - a[r])
                    alpha[r] = v
                    pulls[t] += v
                    weight -= v
            else:
                weight = pulls[step - count - pairs]
            if weight == 0.0:
                continue
            # weight·(y_i − y_o) is added to the anchor's own sum and taken from the row of o.
            single, mine, other = pull.dtype.type(weight), own[begin:end], pull[o, begin:end]
            for c in range(x.size):
                change = single * (x[c] - y[c])
                mine[c] += change
                other[c] -= change
        for c in range(own.size):
            pull[i, c] += own[c]
            own[c] = 0.0
    sums[0], sums[1] = value, hinge


_AUGMENTED = {
    dtype: fast_kernel(
        *(f"{name}[:,:]", *["i8[:]"] * 9, "f8[:]", "f8", "i8", "i8", "out f8[:]", "out f8[:]"),
        *(f"out {name}[:]", "out f8[:]", f"out {name}[:,:]", "out f8[:]"),
    )(_augmented)
    for dtype, name in ((np.float32, "f4"), (np.float64, "f8"))
}


# -- the inner problem ----------------------------------------------------------------------

Evaluate = Callable[[Factors], _Point]
# What rounding does to the value of the inner problem, in double and in single precision.
_ROUNDING = (1e-14, 1e-9)


class _InTheFactor:
    """Limited-memory quasi-Newton steps on L, preconditioned from the right."""

    def __init__(self, factors: Factors) -> None:
        self.steps: list[tuple[Array, Array]] = []
        self.shapes = [factor.shape for factor in factors]
        self.recondition(factors)

    def recondition(self, factors: Factors) -> None:
        """Take the preconditioner (LᵀL/‖LᵀL‖ + δI)⁻¹ from the present factors; steps have a scale
        of their own."""
        self.inverses = []
        for factor in factors:
            unit = factor / max(float(np.abs(factor).max()), np.finfo(float).tiny)
            gram = unit.T @ unit
            gram /= max(float(np.linalg.norm(gram, 2)), np.finfo(float).tiny)
            self.inverses.append(scipy.linalg.inv(gram + _DELTA * np.eye(gram.shape[0])))

    def step(self, evaluate: Evaluate, at: _Point) -> _Point | None:
        """A point with a smaller value, or None if there is none to be found."""
        gradient, here = _flat(at.gradient), _flat(at.factors)
        while True:
            direction = self._direction(gradient)
            if not self.steps:
                length = float(np.linalg.norm(direction))
                direction *= 0.1 * float(np.linalg.norm(here)) / max(length, np.finfo(float).tiny)
            slope = float(gradient @ direction)
            found = self._search(evaluate, at, here, direction, slope) if slope > 0 else None
            if found is None and self.steps:
                self.steps.clear()
                continue
            if found is not None:
                self._remember(_flat(found.factors) - here, _flat(found.gradient) - gradient)
            return found

    def _search(
        self, evaluate: Evaluate, at: _Point, here: Array, direction: Array, slope: float
    ) -> _Point | None:
        length, rounding = 1.0, _ROUNDING[at.single] * abs(at.value)
        while length > 1e-6:
            found = evaluate(self._unflat(here - length * direction))
            if found.value <= at.value - 1e-4 * length * slope + rounding:
                return found
            length *= 0.5 if length > 0.2 else 0.2
        return None

    def _direction(self, gradient: Array) -> Array:
        out, weights = gradient.copy(), []
        for s, y in reversed(self.steps):
            weights.append(float(s @ out) / float(s @ y))
            out -= weights[-1] * y
        out = self._precondition(out)
        if self.steps:
            s, y = self.steps[-1]
            out *= float(s @ y) / float(y @ self._precondition(y))
        for (s, y), weight in zip(self.steps, reversed(weights), strict=True):
            out += (weight - float(y @ out) / float(s @ y)) * s
        return out

    def _precondition(self, vector: Array) -> Array:
        parts = zip(self._unflat(vector), self.inverses, strict=True)
        return _flat([part @ inverse for part, inverse in parts])

    def _remember(self, s: Array, y: Array) -> None:
        if float(s @ y) > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            self.steps = [*self.steps[-_MEMORY + 1 :], (s, y)]

    def _unflat(self, vector: Array) -> Factors:
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])[:-1]
        parts = zip(np.split(vector, ends), self.shapes, strict=True)
        return [part.reshape(shape) for part, shape in parts]


class _InTheCone:
    """Spectral projected gradient steps on M itself (Birgin, Martínez and Raydan 2000)."""

    def __init__(self, factors: Factors) -> None:
        self.length = 1.0
        self.last: tuple[Array, Array] | None = None
        self.values: list[float] = []

    def recondition(self, factors: Factors) -> None:
        """A new inner problem: forget values that belong to the old one."""
        self.values, self.last = [], None

    def step(self, evaluate: Evaluate, at: _Point) -> _Point | None:
        """A point with a smaller value than the largest of the last ten, or None."""
        gradients = at.in_the_cone()
        here = [f.T @ f for f in at.factors]
        flat_x, flat_g = _flat(here), _flat(gradients)
        if self.last is not None:
            s, y = flat_x - self.last[0], flat_g - self.last[1]
            curvature = float(s @ y)
            self.length = float(s @ s) / curvature if curvature > 0 else 10 * self.length
        else:
            norm = max(float(np.linalg.norm(flat_g)), np.finfo(float).tiny)
            # From zero any length may be tried; the search below cuts it down.
            self.length = (0.1 * float(np.linalg.norm(flat_x)) or 1.0) / norm
        self.last = (flat_x, flat_g)
        self.values = [*self.values[-9:], at.value]
        moved = [_onto_cone(m - self.length * g) for m, g in zip(here, gradients, strict=True)]
        direction = [new - old for new, old in zip(moved, here, strict=True)]
        slope = float(flat_g @ _flat(direction))
        if not slope < 0:
            return None
        length = 1.0
        while length > 1e-8:
            trial = [_root(m + length * d) for m, d in zip(here, direction, strict=True)]
            found = evaluate(trial)
            if found.value <= max(self.values) + 1e-4 * length * slope:
                return found
            length *= 0.5
        return None


def _onto_cone(matrix: Array) -> Array:
    values, vectors = scipy.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _root(matrix: Array) -> Array:
    """The symmetric root."""
    values, vectors = scipy.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _flat(parts: list[Array]) -> Array:
    return np.concatenate([part.ravel() for part in parts])


def _square(factors: Factors) -> float:
    return float(sum(np.vdot(factor, factor) for factor in factors))


# -- the outer loop -------------------------------------------------------------------------


@dataclass
class _Run:
    """What a run has reached: the best primal by an exact search, the best dual by any rows."""

    settings: Settings
    started: float
    factors: Factors
    upper: float = np.inf
    lower: float = -np.inf
    rows: Rows | None = None
    alpha: Array | None = None
    single: bool = True
    iterations: int = 0
    stop: Stop | None = None
    history: list[Mapping[str, float]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """The relative gap, by the bounds that hold."""
        return _relative(self.upper, self.lower)

    def offer_primal(self, factors: Factors, objective: float) -> None:
        """Keep the factors if a search over all rows found them better."""
        if objective < self.upper:
            self.factors, self.upper = factors, objective

    def offer_dual(self, rows: Rows, alpha: Array, bound: float) -> None:
        """Keep the multipliers if their bound is better."""
        if bound > self.lower:
            self.lower, self.rows, self.alpha = bound, rows, alpha

    def check_limits(self) -> None:
        """Note a limit that has been passed."""
        limit = self.settings.time_limit
        if limit is not None and clock() - self.started > limit:
            self.stop = Stop.TIME_LIMIT
        if self.settings.max_iter is not None and self.iterations >= self.settings.max_iter:
            self.stop = Stop.ITERATION_LIMIT

    def report(self, problem: _Comparison, factors: Factors, rows: int, what: str) -> None:
        """Record, show and call back; a true answer of the callback stops the run."""
        row: dict[str, float] = {
            "iteration": float(self.iterations),
            "objective": self.upper,
            "bound": self.lower,
            "gap": self.gap,
            "rows": float(rows),
            "seconds": clock() - self.started,
        }
        self.history.append(row)
        if self.settings.verbose > 1:
            print(
                f"{row['seconds']:8.2f} s  {what:<9} {self.iterations:5d} steps  {rows:9d} rows  "
                f"objective {self.upper:.8g}  bound {self.lower:.8g}  gap {self.gap:.1e}",
                flush=True,
            )
        if self.settings.callback is not None:
            state = {**row, "matrices": problem.matrices(factors)}
            if self.settings.callback(state) is True:
                self.stop = Stop.INTERRUPTED


def _relative(upper: float, lower: float) -> float:
    if not np.isfinite(upper) or not np.isfinite(lower):
        return np.inf
    return (upper - lower) / max(abs(upper), abs(lower), np.finfo(float).tiny)


def _minimise(problem: _Comparison, run: _Run, stepper: Any, tol: float) -> None:
    """Search, solve on the working set, search again, until the bounds meet or nothing moves."""
    factors, gamma, slack = run.factors, _GAMMA, _SLACK
    working: _WorkingSet | None = None
    reached = [np.inf]
    with own_threads() as pool:
        while run.stop is None:
            found = problem.family.near(problem.outputs(factors), slack)
            run.offer_primal(factors, problem.objective(factors, found))
            run.report(problem, factors, found.size, "searched")
            reached.append(run.upper - max(run.lower, 0.0))
            if run.gap <= tol or run.stop is not None:
                return
            if len(reached) > _ROUNDS and reached[-1] > 0.99 * reached[-_ROUNDS]:
                return
            if working is None:
                working = _WorkingSet.of(problem, found, np.zeros(found.size))
            else:
                working = working.refreshed(problem, found)
            rough = len(reached) == 2
            if stepper is _InTheFactor:
                factors = [_thinned(f, r) for f, r in zip(factors, problem.ranks, strict=True)]
            factors, gamma = _on_working_set(
                problem, run, stepper, working, factors, gamma, tol, pool, rough
            )
            slack = max(_SLACK_LAST, 0.7 * slack)
            if not run.single:
                problem = replace(problem, dtype=np.float64)


def _on_working_set(
    problem: _Comparison,
    run: _Run,
    stepper: Any,
    working: _WorkingSet,
    factors: Factors,
    gamma: float,
    tol: float,
    pool: Any,
    rough: bool,
) -> tuple[Factors, float]:
    """Inner problems on one working set, until the bounds meet on it or L has moved away.

    `rough`: the start is far off, and its working set is not worth more than a few steps.
    """
    start, since = factors, 0
    method = stepper(factors)

    def evaluate(trial: Factors) -> _Point:
        return _evaluate(problem, working, gamma, trial, pool)

    point = evaluate(factors)
    for count in range(1, _STEPS):
        found = method.step(evaluate, point)
        run.iterations += 1
        since += 1
        stalled = found is None
        # A step may lead up a little before it leads down.
        settled = found is not None and abs(point.value - found.value) < 1e-11 * abs(point.value)
        decrease = 1.0 if found is None else (point.value - found.value) / abs(point.value)
        point = found or point
        run.check_limits()
        look = stalled or settled or count % _LOOK == 0 or run.stop is not None
        if rough and decrease < 0.02:
            break
        if not look:
            continue
        images = problem.images(working.rows, point.alpha)
        share = problem.share(images)
        scaled = share * point.alpha
        run.offer_dual(working.rows, scaled, problem.weight * float(scaled.sum()))
        inner = problem.weight * float(
            scaled.sum() - 0.5 * gamma * float(np.square(scaled - working.a).sum())
        )
        outer_gap = _relative(point.objective, run.lower)
        if outer_gap <= 0.7 * tol or run.stop is not None:
            break
        inner_gap = _relative(point.value, inner)
        solved = inner_gap <= _INNER_SHARE * max(outer_gap, tol)
        if not solved and point.single and (stalled or settled or since >= _PATIENCE_SINGLE):
            # Single precision does not solve this one: go on in double.
            run.single = False
            break
        if solved or stalled or settled or since >= _PATIENCE:
            working.a = point.alpha.copy()
            gamma, since = max(_GAMMA_LAST, 0.5 * gamma), 0
            point = evaluate(point.factors)
            method.recondition(point.factors)
            if _moved(start, point.factors) > _DRIFT:
                break
    working.a = point.alpha.copy()
    return point.factors, gamma


def _thinned(factor: Array, rank: int) -> Array:
    """The factor with orthogonal rows, without those that have shrunk to nothing but for a few
    by which it may grow again."""
    _, values, rows = scipy.linalg.svd(factor, full_matrices=False)
    kept = min(rank, int(np.sum(values > _THIN * values[0])) + _SPARE, values.size)
    return np.asarray(values[:kept, None] * rows[:kept])


def _moved(before: Factors, after: Factors) -> float:
    changes = [new - old for new, old in zip(after, before, strict=True)]
    return _square(changes) / max(_square(after), np.finfo(float).tiny)


# -- the solvers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparisons:
    """A solver for programs with a family of comparisons."""

    name: str
    capabilities: Capabilities
    stepper: Callable[[Factors], Any]
    max_iter: int

    def unavailable(self) -> str | None:
        """It always works."""
        return None

    def accepts(self, program: Program) -> str | None:
        """Programs with a family of comparisons."""
        if program.family is None:
            return "only solves programs with a family of comparisons; this program has none"
        return unsupported(self.capabilities, program)

    def memory(self, program: Program) -> float:
        """A few copies of the outputs; the working set is not known beforehand."""
        columns = sum(block.size for block in program.blocks)
        points = 0 if program.family is None else program.family.n_points
        return 8.0 * points * columns * (3 + workers())

    def seconds(self, program: Program, tol: float) -> float:
        """By the size of the outputs."""
        points = 0 if program.family is None else program.family.n_points
        columns = sum(block.size for block in program.blocks)
        work = 5e-6 * points * columns
        return (0.2 + work) * (1.0 if self.stepper is _InTheFactor else 2.0)

    @one_blas_thread
    def solve(self, program: Program, settings: Settings) -> Answer:
        """Minimise; interrupted, the best bounds so far are returned."""
        began = clock()
        if settings.options:
            raise SolverError(f"{self.name} takes no options, not {sorted(settings.options)}")
        # Single precision is for the quasi-Newton method, which forgives; a projection does not.
        precision = settings.tol if self.stepper is _InTheFactor else 0.0
        settings = replace(settings, max_iter=settings.max_iter or self.max_iter)
        problem = _Comparison.of(program, precision)
        run = _Run(settings, began, problem.start(settings.warm_start))
        setup = clock() - began
        try:
            if settings.warm_start is None and problem.family.n_points >= _STAGED_POINTS:
                _first_stage(problem, run, self.stepper)
            _minimise(problem, run, self.stepper, settings.tol)
        except KeyboardInterrupt:
            run.stop = Stop.INTERRUPTED
        words = f"gap {run.gap:.1e}" if run.stop is None else str(run.stop)
        return Answer(
            run.stop or Stop.DONE,
            f"{words} after {run.iterations} steps",
            matrices=problem.matrices(run.factors),
            x=np.zeros(0),
            dual=None if run.alpha is None else problem.weight * run.alpha,
            rows=run.rows,
            iterations=run.iterations,
            setup_time=setup,
            solve_time=clock() - began - setup,
            history=tuple(run.history),
        )


def _first_stage(problem: _Comparison, run: _Run, stepper: Any) -> None:
    """Start from the solution of a part of the anchors; neither of its bounds holds for all."""
    stage = replace(run, history=[], settings=replace(run.settings, callback=None))
    _minimise(problem.part(_STAGE_SHARE), stage, stepper, max(_STAGE_GAP, run.settings.tol))
    run.factors, run.iterations, run.stop = stage.factors, stage.iterations, stage.stop


FACTORED = Comparisons(
    "factored",
    Capabilities(
        families=True,
        ranks=True,
        warm_start=True,
        callback=True,
        summary="LMNN of any size: augmented Lagrangian in the factor, certified",
    ),
    _InTheFactor,
    max_iter=20_000,
)
PROJECTED = Comparisons(
    "projected",
    Capabilities(
        families=True,
        warm_start=True,
        callback=True,
        summary="LMNN in few dimensions: the same in the matrix, convex throughout",
    ),
    _InTheCone,
    max_iter=3_000,
)
