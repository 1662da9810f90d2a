"""The augmented Lagrangian method on one working set: the inner loop of `factored`.

    repeat   minimise the augmented Lagrangian in L        quasi-Newton steps
             a ← α, a smaller γ                            once it is solved well
    until    the bounds on this working set meet, or L has moved so far that others are violated

The lower bound holds for any comparisons and any 0 ≤ α ≤ 1:

    θ·weight·Σcα,   the largest θ ≤ 1 with  I + θ·weight·Σα_t(C_ij − C_il) ⪰ 0
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from sdpkit.solution.driver import Driver
from sdpkit.solvers.augmented import InnerPoint, InnerProblem
from sdpkit.solvers.family_solver import relative_gap
from sdpkit.solvers.hinge_program import Factors, HingeProgram, squared_norm
from sdpkit.solvers.inner import InTheCone, InTheFactor
from sdpkit.typing import Array


@dataclass(frozen=True)
class MultiplierSettings:
    """When multipliers move, and how much. γ is in units of the family."""

    first_gamma: float = 0.25  # a large γ: the first multipliers are rough
    gamma_factor: float = 0.5  # by which γ shrinks at each update
    last_gamma: float = 0.06  # γ stays above: with γ → 0 the inner problem becomes a hinge again
    inner_share: float = 0.3  # of the outer gap: an inner gap at which multipliers do not wander
    look_steps: int = 10  # between computations of the bound, which cost about as much as a step
    update_steps: int = 150  # after which multipliers move even if the inner problem is not solved
    single_steps: int = 60  # after which an inner problem is too hard for single precision
    meeting_share: float = 0.9  # of tol: the gap on the working set at which all are searched
    stalled_change: float = 1e-11  # relative; smaller changes of the value are rounding
    rough_change: float = 0.02  # relative; smaller changes are not worth it without multipliers
    drift: float = 0.02  # relative change of L after which other comparisons may be violated
    most_steps: int = 600  # on one working set

    def next_gamma(self, gamma: float, unit: float) -> float:
        """γ after an update."""
        return max(self.last_gamma * unit, self.gamma_factor * gamma)


@dataclass(frozen=True)
class EstimateSettings:
    """When the objective over all comparisons is estimated, and what it says."""

    early_steps: tuple[int, ...] = (1, 2, 4, 7)  # L moves most in the first steps
    settled_gap: float = 0.02  # below this gap L moves too little to violate many others
    least_share: float = 0.01  # of the comparisons
    least_points: int = 200  # with fewer points the estimate is too noisy
    most_share: float = 0.05  # a larger share would cost almost as much as an exact search
    worse: float = 0.2  # relative; a larger increase is more than noise
    far_worse: float = 3.0  # times the least: the violated ones are not worth finding there
    still: float = 1e-3  # relative change of L below which an estimate is still good


@dataclass(frozen=True)
class GrowthSettings:
    """When L gets directions that it lacks. Lengths are relative to the longest of L."""

    lacking: float = 0.2  # along shorter directions the gradient in L says little about that in M
    negative: float = 0.02  # eigenvalues of I + image below this, or −tol, cost more than tol
    lengths: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01)  # tried in turn


MULTIPLIERS, ESTIMATES, GROWTH = MultiplierSettings(), EstimateSettings(), GrowthSettings()


@dataclass(frozen=True, eq=False)
class Bounds:
    """What the multipliers α of a point prove.

    Attributes
    ----------
    images: per block weight·Σα_t(C_ij − C_il);  share: θ, 1 where α is feasible as it is
    outer: the relative gap of the point's objective and the best bound on this working set
    inner: the duality gap of the inner problem
    """

    images: list[Array]
    share: float
    outer: float
    inner: float


class MultiplierMethod:
    """The augmented Lagrangian method on one working set.

    Attributes
    ----------
    point: the last one;  gamma: γ at the end
    lower, alpha: the best bound, and the multipliers that prove it on this working set
    is_single_enough: False if single precision does not solve an inner problem
    """

    def __init__(
        self,
        inner: InnerProblem,
        steps: InTheFactor | InTheCone,
        start: Factors,
        tol: float,
        lower: float,
    ) -> None:
        self.inner, self.steps, self.start, self.tol = inner, steps, start, tol
        self.lower, self.alpha = lower, np.zeros(inner.working.rows.size)
        self.constants = inner.working.terms.row_constants
        self.is_single_enough = True
        self.since_update = 0
        self.point = inner.at(start)
        self.change = 0.0

    def run(self, driver: Driver, outside: ObjectiveEstimate | None, rough: bool) -> None:
        """Until the bounds meet here, or this working set is no longer the right one.

        `outside` estimates the objective over all comparisons; a `rough` run starts far off, and
        its working set is worth a few steps only.
        """
        for count in range(1, MULTIPLIERS.most_steps):
            stalled = self._descend()
            driver.count()
            is_look = stalled or count % MULTIPLIERS.look_steps == 0 or driver.must_stop
            is_estimated = is_look or count in ESTIMATES.early_steps
            if outside is not None and is_estimated and outside.is_worse(self.point):
                self.point = outside.kept or self.point
                return
            if rough and self.change < MULTIPLIERS.rough_change:
                return
            if not is_look:
                continue
            bounds = self._bounds()
            if bounds.outer <= MULTIPLIERS.meeting_share * self.tol or driver.must_stop:
                return
            if bounds.outer < ESTIMATES.settled_gap:
                outside = None
            solved = bounds.inner <= MULTIPLIERS.inner_share * max(bounds.outer, self.tol)
            if not solved and self._is_too_hard_in_single(stalled):
                self.is_single_enough = False
                return
            if not solved and self._grow(bounds):
                continue
            if solved or stalled or self.since_update >= MULTIPLIERS.update_steps:
                self._update_multipliers()
                if moved(self.start, self.point.factors) > MULTIPLIERS.drift:
                    return

    def _descend(self) -> bool:
        """One step on the inner problem; whether there is nothing left to gain."""
        point = self.point
        found = self.steps.step(self.inner.at, point)
        self.since_update += 1
        size = max(abs(point.value), np.finfo(float).tiny)  # 0 where no comparison holds L
        self.change = 1.0 if found is None else (point.value - found.value) / size
        self.point = found or point
        # A step may lead up a little before it leads down.
        return found is None or abs(self.change) < MULTIPLIERS.stalled_change

    def _bounds(self) -> Bounds:
        """The bound that α proves, scaled until it is feasible, and the gaps."""
        inner, point, weight = self.inner, self.point, self.inner.problem.weight
        images = inner.images(point.alpha)
        share = inner.problem.share(images)
        scaled = share * point.alpha
        worth = float(self.constants @ scaled)
        if weight * worth > self.lower:
            self.lower, self.alpha = weight * worth, point.alpha
        moved_by = float(np.square(scaled - inner.working.a).sum())
        inner_bound = weight * (worth - 0.5 * inner.gamma * moved_by)
        outer_gap = relative_gap(point.objective, self.lower)
        return Bounds(images, share, outer_gap, relative_gap(point.value, inner_bound))

    def _is_too_hard_in_single(self, stalled: bool) -> bool:
        """Whether single precision has not solved the inner problem in a reasonable time."""
        return self.point.single and (stalled or self.since_update >= MULTIPLIERS.single_steps)

    def _update_multipliers(self) -> None:
        """a ← α, a smaller γ, and a preconditioner for the new inner problem."""
        inner = self.inner
        inner.working.a = self.point.alpha.copy()
        inner.gamma = MULTIPLIERS.next_gamma(inner.gamma, inner.problem.family.unit)
        self.since_update = 0
        self.point = inner.at(self.point.factors)
        self.steps.recondition(self.point.factors)

    def _grow(self, bounds: Bounds) -> bool:
        """Move to a better point in directions that the factors lack, if there is one.

        Where L has (almost) no component along v, its gradient there (almost) vanishes even if
        vᵀ(I + image)v < 0: a saddle, which quasi-Newton steps take long to leave.
        """
        negative = min(GROWTH.negative, self.tol)
        if bounds.share * (1 + negative) >= 1 or not isinstance(self.steps, InTheFactor):
            return False
        parts = zip(self.point.factors, bounds.images, strict=True)
        moves = [_missing(factor, image, negative) for factor, image in parts]
        if not any(move.any() for move in moves):
            return False
        for length in GROWTH.lengths:
            pairs = zip(self.point.factors, moves, strict=True)
            found = self.inner.at([factor + length * move for factor, move in pairs])
            if found.value < self.point.value:
                self.point = found
                return True
        return False


class ObjectiveEstimate:
    """The objective over all comparisons, estimated on a part of them.

    Comparisons outside of the working set may become violated in great numbers while L moves: then
    they must be found before there are too many.

    Attributes
    ----------
    kept: the last point whose estimate was not far too large, None if that is the start
    """

    def __init__(
        self, problem: HingeProgram, share: float, start: Factors, objective: float
    ) -> None:
        self.problem, self.part = problem, problem.family.part(share)
        hinges = self.part.hinge_sum(problem.outputs(start))
        exact = objective - squared_norm(start)
        self.weight = exact / hinges if hinges > 0 else 0.0
        self.least = objective
        self.seen = start
        self.kept: InnerPoint | None = None

    @classmethod
    def if_worthwhile(
        cls, problem: HingeProgram, gap: float, start: Factors, objective: float
    ) -> ObjectiveEstimate | None:
        """None near the end, and where an exact search costs hardly more."""
        share = max(ESTIMATES.least_share, ESTIMATES.least_points / problem.family.n_points)
        if gap < ESTIMATES.settled_gap or share > ESTIMATES.most_share:
            return None
        return cls(problem, share, start, objective)

    def is_worse(self, point: InnerPoint) -> bool:
        """Whether an earlier point was much better; not where it has hardly moved since."""
        if moved(self.seen, point.factors) < ESTIMATES.still:
            return False
        self.seen = point.factors
        hinges = self.part.hinge_sum(self.problem.outputs(point.factors))
        value = squared_norm(point.factors) + self.weight * hinges
        self.least = min(self.least, value)
        if value <= ESTIMATES.far_worse * self.least:
            self.kept = point
        return value > (1 + ESTIMATES.worse) * self.least


def _missing(factor: Array, image: Array, negative: float) -> Array:
    """(r, d) directions in which I + image is below −negative and the factor has next to nothing,
    in rows of the factor that are next to nothing, as long as its longest."""
    left, values, _ = scipy.linalg.svd(factor, full_matrices=False)
    lows, vectors = scipy.linalg.eigh(image)
    lengths = np.linalg.norm(factor @ vectors, axis=0)
    lacking = np.flatnonzero((lows < -1 - negative) & (lengths < GROWTH.lacking * values[0]))
    room = min(lacking.size, int(np.sum(values < GROWTH.lacking * values[0])))
    rows = left[:, values.size - room :]
    return np.asarray(values[0] * (rows @ vectors[:, lacking[:room]].T))


def moved(before: Factors, after: Factors) -> float:
    """The relative change of the factors, squared."""
    changes = [new - old for new, old in zip(after, before, strict=True)]
    return squared_norm(changes) / max(squared_norm(after), np.finfo(float).tiny)
