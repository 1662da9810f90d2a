"""Very many comparisons, never listed: `factored` from a hundred thousand points on.

With many points the sum of hinges is smooth by itself. Replaced by

    max_{0 ≤ α ≤ 1}  α z_t − γ/2 (α − ½)²       maximiser  α_t = clip(½ + z_t/γ, 0, 1)

it has a gradient, and at its minimiser the α are feasible multipliers that nobody has to store
(`sdpkit.program.smoothed`). The bounds are then apart by what the smoothing costs, γ² times a
number that a pass over all comparisons tells.

The full objective F is known by a few such passes. In between a part f of it, on a few of the
anchors against all points, is minimised with its gradient corrected at the last point L_k
(a surrogate as of Jordan, Lee and Yang 2019, in the matrix M = LᵀL):

    L_{k+1} = argmin  f(M) + <∇F(M_k) − ∇f(M_k), M>

The correction adds a matrix Δ to the cost, which is otherwise the identity. Each round reduces the
error of the gradient by the relative error of the part's curvature. Where a part is too small for
that, it is doubled. A pass keeps the pairs that it found near, which makes the next ones cheap
(`sdpkit.program.kept_pairs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.linalg

from sdpkit.program.families import RowFamily, spread_out
from sdpkit.program.kept_pairs import Keeping
from sdpkit.program.smoothed import Smoothed
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solvers.augmented import InnerPoint, InnerProblem
from sdpkit.solvers.family_solver import relative_gap
from sdpkit.solvers.hinge_program import Factors, HingeProgram, squared_norm
from sdpkit.solvers.inner import InTheFactor
from sdpkit.solvers.multiplier_method import moved
from sdpkit.solvers.working_set import WorkingSet
from sdpkit.typing import Array, Indices


@runtime_checkable
class StreamedFamily(RowFamily, Protocol):
    """A family whose rows can be summed without a list, and which knows its rows by anchors."""

    anchors: Indices

    @property
    def keeping(self) -> Keeping:
        """The pairs that searches keep."""

    def smoothed(self, outputs: Any, features: Any, width: float) -> Smoothed:
        """All hinges, and the multipliers of a width."""

    def of_anchors(self, anchors: Indices) -> StreamedFamily:
        """The rows of some anchors."""

    def farthest_targets(self, outputs: Any) -> Array:
        """The largest squared distance of each anchor from a target neighbour."""


@dataclass(frozen=True)
class StreamSettings:
    """When comparisons are streamed, and how large the parts are. Widths are in units of the
    family."""

    least_points: int = 100_000
    anchors: tuple[int, ...] = (4_000, 16_000)  # of the parts, one after the other
    outliers: float = 0.002  # of the anchors: those whose targets are farthest are in every part
    goals: tuple[float, ...] = (0.2, 1e-2)  # the gaps to which the first parts are solved
    width: float = 0.25  # of the first multipliers
    accuracy: float = 0.2  # of tol: the gap to which a corrected part is solved
    smoothing: float = 0.3  # of tol: what the smoothing may cost
    slacks: tuple[float, ...] = (0.4, 0.25, 0.15, 0.1)  # of one working set after the other
    drift: float = 0.01  # relative change of L, squared, at which a working set is renewed
    look_steps: int = 8
    most_steps: int = 150  # on one working set
    most_sets: int = 30  # working sets of a part, one after the other
    least_cost: float = 0.25  # an eigenvalue of I + Δ below this says that the part is too small
    gain: float = 0.5  # a gap that shrinks by less says so too
    thin: float = 1e-3  # of the longest direction of L: shorter ones are left out of full passes
    margin: float = 1.2  # by which the kept pairs of a pass reach beyond what it needs


STREAM = StreamSettings()


def is_streamed(problem: HingeProgram) -> bool:
    """Whether the comparisons are too many to be listed, and their family can do without."""
    full = all(rank == x.shape[1] for rank, x in zip(problem.ranks, problem.features, strict=True))
    many = problem.family.n_points >= STREAM.least_points
    return many and full and isinstance(problem.family, StreamedFamily)


@dataclass(frozen=True, eq=False)
class Found:
    """A pass over comparisons at some factors.

    Attributes
    ----------
    factors, width: the point and the width of its multipliers
    images: per block weight·Σα_t(C_ij − C_il)
    upper, lower: the bounds, for the comparisons of this pass
    loss: what the smoothing costs, relative
    """

    factors: Factors
    width: float
    images: list[Array]
    upper: float
    lower: float
    loss: float

    @property
    def gap(self) -> float:
        """The relative distance of the bounds."""
        return relative_gap(self.upper, self.lower)


class StreamedSearch:
    """Full passes, and corrected parts in between.

    Attributes
    ----------
    factors: L of every block;  width: γ
    outliers: the comparisons of the anchors whose target neighbours are farthest
    ordinary: the other anchors;  anchors: how many of these a part has;  part: their comparisons
    best: the pass with the smallest gap
    """

    def __init__(
        self, problem: HingeProgram, start: Factors, tol: float, pool: Any, memory: float
    ) -> None:
        self.problem, self.tol, self.pool, self.memory = problem, tol, pool, memory
        self.factors, self.width = start, STREAM.width
        self.best: Found | None = None
        self.has_begun = False
        family: Any = problem.family
        order = np.argsort(family.farthest_targets(problem.outputs(start)), kind="stable")
        count = order.size - int(STREAM.outliers * order.size)
        self.ordinary = np.sort(family.anchors[order[:count]])
        self.outliers = self._of(family.anchors[order[count:]], 1.0)
        self.anchors, self.part = 0, self.outliers

    def step(self, driver: Driver) -> None:
        """A pass over all comparisons, and a part whose gradient it corrects."""
        if not self.has_begun:
            self._begin(driver)
        if driver.must_stop:
            return
        found = self._pass([self.problem], [_thinned(factor) for factor in self.factors])
        last, self.best = self.best, _better(self.best, found)
        driver.record(
            lambda: self.problem.matrices(found.factors),
            objective=found.upper,
            bound=found.lower,
            gap=found.gap,
            primal_residual=0.0,
            dual_residual=0.0,
        )
        if found.gap <= self.tol:
            driver.end(Stop.DONE, f"gap {found.gap:.1e} after {driver.iterations} steps")
        elif last is not None and found.gap > STREAM.gain * last.gap and not self._enlarge():
            driver.end(Stop.DONE, f"gap {self.best.gap:.1e}, which further passes do not improve")
        else:
            self._set_width(found)
            self._correct(found, driver)

    def _begin(self, driver: Driver) -> None:
        """Larger and larger parts, each from the solution of the last."""
        nothing = [np.zeros((x.shape[1],) * 2) for x in self.problem.features]
        for level, (anchors, goal) in enumerate(zip(STREAM.anchors, STREAM.goals, strict=True)):
            self._take(anchors)
            self._minimise(nothing, max(goal, STREAM.accuracy * self.tol), driver, level)
            if driver.must_stop:
                return
        self.has_begun = True
        family: Any = self.problem.family
        family.keeping.start(self.memory / 4, STREAM.margin)

    def _correct(self, found: Found, driver: Driver) -> None:
        """The minimiser of the part with the gradient of the whole at what was found."""
        while True:
            mine = self._pass(self._pieces, found.factors, found.width)
            shift = [a - b for a, b in zip(found.images, mine.images, strict=True)]
            least = min(float(scipy.linalg.eigvalsh(delta)[0]) for delta in shift)
            if 1 + least >= STREAM.least_cost:
                break
            if not self._enlarge():
                driver.end(Stop.DONE, f"gap {found.gap:.1e}: parts say too little of the whole")
                return
        self._minimise(shift, STREAM.accuracy * self.tol, driver, len(STREAM.slacks) - 1)

    def _minimise(self, shift: list[Array], goal: float, driver: Driver, first: int) -> None:
        """Minimise the part with a shifted cost, to a relative gap of `goal` besides what the
        smoothing costs. The `first` slacks are for worse starts."""
        unit = self.problem.family.unit
        for k in range(first, STREAM.most_sets):
            found = self._pass(self._pieces, self.factors, shift=shift)
            wider = self.width
            self._set_width(found)
            if (found.gap - found.loss <= goal and self.width == wider) or driver.must_stop:
                return
            slack = STREAM.slacks[min(k, len(STREAM.slacks) - 1)] * unit
            inner = PartProblem.of(self._pieces, found, shift, self.width * unit, slack, self.pool)
            self.factors = inner.descended(self.factors, 0.3 * goal, driver)

    def _set_width(self, found: Found) -> None:
        """A smaller width where the smoothing costs too much: by γ²."""
        allowed = STREAM.smoothing * self.tol
        if found.loss > 1.3 * allowed:
            self.width = found.width * float(np.sqrt(allowed / found.loss))

    def _enlarge(self) -> bool:
        """A part of twice as many anchors; False if it is the whole."""
        if self.anchors >= self.ordinary.size:
            return False
        self._take(2 * self.anchors)
        return True

    def _take(self, anchors: int) -> None:
        """So many of the ordinary anchors, against all points, each with a larger weight."""
        self.anchors = min(anchors, self.ordinary.size)
        chosen = self.ordinary[spread_out(self.ordinary.size, self.anchors / self.ordinary.size)]
        self.part = self._of(chosen, self.ordinary.size / chosen.size)

    def _of(self, anchors: Indices, factor: float) -> HingeProgram:
        """The comparisons of some anchors, with a weight that is larger by a factor."""
        whole: Any = self.problem.family
        family = whole.of_anchors(anchors)
        family.keeping.start(self.memory / 16, 1.5)
        return replace(self.problem, family=family, weight=factor * self.problem.weight)

    @property
    def _pieces(self) -> list[HingeProgram]:
        """The part and the outliers."""
        pieces: list[Any] = [self.part, self.outliers]
        return [piece for piece in pieces if piece.family.anchors.size]

    def _pass(
        self,
        problems: list[HingeProgram],
        factors: Factors,
        width: float | None = None,
        shift: list[Array] | None = None,
    ) -> Found:
        """All comparisons of some problems together, with a cost I + shift."""
        width = self.width if width is None else width
        sizes = [x.shape[1] for x in self.problem.features]
        images, costs = [np.zeros((d, d)) for d in sizes], [np.eye(d) for d in sizes]
        costs = [c + s for c, s in zip(costs, shift, strict=True)] if shift else costs
        outputs = self.problem.outputs(factors)
        hinges = worth = inner = 0.0
        for problem in problems:
            family: Any = problem.family
            sums = family.smoothed(outputs, problem.features, width * family.unit)
            hinges += problem.weight * sums.hinges
            worth += problem.weight * sums.worth
            inner += problem.weight * sums.inner
            for total, image in zip(images, sums.images, strict=True):
                total += problem.weight * image
        linear = sum(float(np.vdot(L @ c, L)) for L, c in zip(factors, costs, strict=True))
        upper = linear + hinges
        lower = min(_share(*pair) for pair in zip(costs, images, strict=True)) * worth
        loss = (hinges - inner) / max(upper, np.finfo(float).tiny)
        return Found(factors, width, images, upper, lower, loss)

    def answer(self, stop: Stop) -> Answer:
        """The best pass; before the first one, the point that there is."""
        found = self.best
        factors = self.factors if found is None else found.factors
        width = self.width if found is None else found.width
        return Answer(
            stop,
            "",
            matrices=self.problem.matrices(factors),
            x=np.zeros(0),
            smoothing=width * self.problem.family.unit,
        )

    def state(self) -> None:
        """It keeps no checkpoints."""


@dataclass(frozen=True, eq=False)
class PartProblem:
    """The smoothed objective of a part near some factors.

    Comparisons that are or may become violated are listed.

    Attributes
    ----------
    listed: the comparisons of each piece;  deltas: per block Δ, where the cost is I + Δ
    scale: the size of the objective
    """

    listed: list[InnerProblem]
    deltas: list[Array]
    scale: float

    @classmethod
    def of(
        cls,
        pieces: list[HingeProgram],
        found: Found,
        shift: list[Array],
        gamma: float,
        slack: float,
        pool: Any,
    ) -> PartProblem:
        """The comparisons of the pieces that are violated, or nearly, at what was found."""
        listed, outputs = [], pieces[0].outputs(found.factors)
        for piece in pieces:
            family: Any = piece.family
            rows = family.near(outputs, gamma / 2 + slack)
            if not rows.size:
                continue
            working = WorkingSet.of(piece, rows, np.full(rows.size, 0.5), found.factors)
            listed.append(InnerProblem(piece, working, gamma, pool))
        return cls(listed, shift, found.upper)

    def at(self, factors: Factors) -> InnerPoint:
        """The sum of the pieces; each of them has the cost I, and one is meant."""
        points = [inner.at(factors) for inner in self.listed]
        extra, own = len(points) - 1, squared_norm(factors)
        costly = [L @ delta for L, delta in zip(factors, self.deltas, strict=True)]
        linear = sum(float(np.vdot(a, b)) for a, b in zip(costly, factors, strict=True))
        gradient = [2 * (c - extra * L) for c, L in zip(costly, factors, strict=True)]
        for point in points:
            gradient = [a + b for a, b in zip(gradient, point.gradient, strict=True)]
        value = sum(point.value for point in points) + linear - extra * own
        alpha = np.concatenate([np.empty(0), *(point.alpha for point in points)])
        single = any(point.single for point in points)
        return InnerPoint(factors, value, gradient, value, alpha, single, list)

    def descended(self, factors: Factors, goal: float, driver: Driver) -> Factors:
        """Quasi-Newton steps until the gap is at the goal, or L has moved far."""
        method, start, point = InTheFactor(factors), factors, self.at(factors)
        for count in range(1, STREAM.most_steps):
            found = method.step(self.at, point)
            driver.count()
            if found is None:
                break  # as well as rounding allows
            point = found
            if driver.must_stop or moved(start, point.factors) > STREAM.drift:
                break
            if count % STREAM.look_steps == 0 and self._gap(point) <= goal:
                break
        return point.factors

    def _gap(self, point: InnerPoint) -> float:
        """The duality gap of the smoothed objective, as a share of the whole objective."""
        costs = [np.eye(len(delta)) + delta for delta in self.deltas]
        images = [np.zeros_like(delta) for delta in self.deltas]
        ends = np.cumsum([inner.working.rows.size for inner in self.listed])[:-1]
        parts = np.split(point.alpha, ends)
        for inner, alpha in zip(self.listed, parts, strict=True):
            images = [a + b for a, b in zip(images, inner.images(alpha), strict=True)]
        least = min(float(scipy.linalg.eigvalsh(c)[0]) for c in costs)
        if least <= 0:
            return np.inf
        share, bound = min(_share(*pair) for pair in zip(costs, images, strict=True)), 0.0
        for inner, alpha in zip(self.listed, parts, strict=True):
            worth = float(inner.working.terms.row_constants @ alpha)
            change = float(np.square(share * alpha - 0.5).sum())
            bound += inner.problem.weight * (share * worth - 0.5 * inner.gamma * change)
        return (point.value - bound) / max(self.scale, np.finfo(float).tiny)


def _share(cost: Array, image: Array) -> float:
    """The largest θ ≤ 1 with C + θ·image ⪰ 0, for C ≻ 0."""
    least = float(scipy.linalg.eigvalsh(image, cost, subset_by_index=[0, 0])[0])
    return 1.0 if least >= -1 else -1 / least


def _thinned(factor: Array) -> Array:
    """The factor with orthogonal rows, without those that have shrunk to nothing."""
    _, values, rows = scipy.linalg.svd(factor, full_matrices=False)
    kept = max(1, int(np.sum(values > STREAM.thin * values[0])))
    return np.asarray(values[:kept, None] * rows[:kept])


def _better(one: Found | None, other: Found) -> Found:
    return other if one is None or other.gap < one.gap else one
