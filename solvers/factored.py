"""Two solvers for families of hinges, by an augmented Lagrangian on a working set.

For programs  min Σ_b <C_b, M_b> + weight·Σ_t [z_t]₊  with the rows z_t = c_t + q_ij − q_il of a
family (`sdpkit.program.families`). In coordinates in which C_b = I, the inner problem is

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

      θ·weight·Σcα,   the largest θ ≤ 1 with  I + θ·weight·Σα_t(C_ij − C_il) ⪰ 0.

`factored` solves the inner problem in L, which is not convex where L has fewer rows than columns;
its L is square unless the program limits the rank, and the certificate decides in any case.
`projected` solves it in M by a spectral projected gradient, convex from start to end: slower, and
there to check the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from sdpkit.numerics.threads import one_blas_thread, own_threads, workers
from sdpkit.program.families import Rows
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.forecast import forecast
from sdpkit.solution.solution import Solution
from sdpkit.solution.solver import Capabilities
from sdpkit.solvers.augmented import (
    Factors,
    HingeProgram,
    InnerPoint,
    WorkingSet,
    augmented_lagrangian,
    squared_norm,
    working_images,
)
from sdpkit.solvers.family_solver import FamilySolver, relative_gap, size_of_outputs
from sdpkit.solvers.inner import Evaluate, InTheCone, InTheFactor
from sdpkit.typing import Array

# γ at the start, and the smallest, in units of the family; the prices of moving α away from a.
_GAMMA, _GAMMA_LAST = 0.25, 0.06
# Rows within this much of being violated, in units of the family, are kept: at first, at last.
_SLACK, _SLACK_LAST = 0.3, 0.2
# The inner problem counts as solved at this share of the outer gap.
_INNER_SHARE = 0.3
# The relative change of L after which the working set is searched again.
_DRIFT = 0.02
# The gap on the working set, as a share of the tolerance, at which all rows are searched.
_MEETING = 0.9
# Steps between looks at the duality gap, and between multiplier updates at most.
_LOOK_STEPS, _UPDATE_STEPS = 10, 150
# Steps after which an inner problem that single precision has not solved is given to double.
_SINGLE_STEPS = 60
# The objective over all rows is estimated after these steps and whenever the gap is looked at, as
# long as the gap is larger than this. What counts as worse.
_EARLY_LOOKS, _SETTLED, _WORSE = (1, 2, 4, 7), 0.02, 0.2
# An estimate takes a share of the rows, and those of so many points at least, or chance would say
# what is worse. If that is more than the last share, a search costs hardly more.
_ESTIMATE_SHARE, _ESTIMATE_POINTS, _ESTIMATE_MOST = 0.01, 200, 0.05
# So many times the least estimate is too far: what it would find is not worth finding.
_FAR_WORSE = 3.0
# The relative change of L below which an estimate is still good.
_STILL = 1e-3
# Steps on one working set at most.
_WORKING_SET_STEPS = 600
# Where there are more points than this, the first steps are made on a share of the rows, if it has
# so many points for every direction: fewer of them would be fitted too well.
_STAGED_POINTS, _STAGE_SHARE, _STAGE_POINTS = 10_000, 0.15, 50
# Directions of L below this share of the largest are dropped between searches, but for a few.
_THIN, _SPARE = 1e-3, 4
# A direction along which the factor is shorter than this share of its longest one is lacking, if
# the gradient in M along it is below minus this much of the cost's, or minus the tolerance, which
# the bound would lose. What it may grow to at once.
_LACKING, _NEGATIVE, _GROWTH = 0.2, 0.02, (0.3, 0.1, 0.03, 0.01)
# Searches without progress after which a run gives up.
_STALLED_SEARCHES = 8
# Factors that have shrunk to this share of their squared norm are taken back, at most so often.
_VANISHED, _TAKEN_BACK = 1e-12, 20


# -- the engine -----------------------------------------------------------------------------


class HingeSearch:
    """Search for violated rows, solve on the working set, search again, until the bounds meet.

    Attributes
    ----------
    factors: L of every block;  best: those that an exact search found best, with `upper`
    rows, alpha: the multipliers with the best bound, `lower`, which any rows prove
    stage: a search on a part of the rows for the first steps, or None
    reached: the distance of the bounds after every search
    """

    def __init__(
        self,
        problem: HingeProgram,
        factors: Factors,
        method: type[InTheFactor] | type[InTheCone],
        tol: float,
        pool: Any,
    ) -> None:
        self.problem, self.method, self.tol, self.pool = problem, method, tol, pool
        self.factors = self.best = factors
        self.upper, self.lower, self.objective = np.inf, -np.inf, np.inf
        self.rows: Rows | None = None
        self.alpha: Array | None = None
        self.working: WorkingSet | None = None
        self.gamma = _GAMMA * problem.family.unit
        self.slack = _SLACK * problem.family.unit
        self.negative = min(_NEGATIVE, tol)
        self.reached = [np.inf]
        self.stage: HingeSearch | None = None
        self.taken_back = 0

    def resume(self, warm: Solution) -> None:
        """Take over the multipliers of a solution, where its rows are rows of this family."""
        family = self.problem.family
        if warm.rows is None or warm.dual is None or warm.dual.size != warm.rows.size:
            return
        held = (warm.dual > 0) & family.has(warm.rows)
        a = np.minimum(warm.dual[held] / self.problem.weight, 1.0)
        self.working = WorkingSet.of(self.problem, warm.rows[held], a, self.factors)
        self.gamma, self.slack = _GAMMA_LAST * family.unit, _SLACK_LAST * family.unit

    @property
    def gap(self) -> float:
        """The relative gap, by the bounds that hold."""
        return relative_gap(self.upper, self.lower)

    def step(self, driver: Driver) -> None:
        """A search over all rows, and inner problems on what it found."""
        if self.stage is not None:
            self._after(self.stage, driver)
            if driver.must_stop:
                return
        found = self._search()
        factors = self.factors
        driver.record(
            lambda: self.problem.matrices(factors),
            objective=self.upper,
            bound=self.lower,
            gap=self.gap,
            primal_residual=0.0,
            dual_residual=0.0,
            rows=float(found.size),
        )
        if self._is_over():
            driver.end(Stop.DONE, f"gap {self.gap:.1e} after {driver.iterations} steps")
        if not driver.must_stop:
            self._improve(driver, found)

    def _after(self, stage: HingeSearch, driver: Driver) -> None:
        """The first steps on a part of the rows: a start has many times more violated rows than a
        point a few steps away, but a part says little about all rows beyond that."""
        self.stage = None
        found = stage._search()
        if not driver.must_stop:
            stage._improve(driver, found)
        self.factors = self.best = stage.factors

    def _search(self) -> Rows:
        """The rows near the factors, which makes their objective exact."""
        problem, factors = self.problem, self.factors
        found = problem.family.near(problem.outputs(factors), self.slack)
        objective = self.objective = problem.objective(factors, found)
        if objective < self.upper:
            self.best, self.upper = factors, objective
        self.reached.append(self.upper - max(self.lower, 0.0))
        return found

    def _is_over(self) -> bool:
        """Whether the bounds meet, or searches bring no progress."""
        reached = self.reached
        stalled = (
            len(reached) > _STALLED_SEARCHES and reached[-1] > 0.99 * reached[-_STALLED_SEARCHES]
        )
        return self.gap <= self.tol or stalled

    def _improve(self, driver: Driver, found: Rows) -> None:
        """Better factors and multipliers on the rows found, and those with a multiplier."""
        problem = self.problem
        if self.working is None:
            self.working = WorkingSet.of(problem, found, np.zeros(found.size), self.factors)
        else:
            self.working = self.working.refreshed(problem, found, self.factors)
        if self.method is InTheFactor:
            parts = zip(self.factors, problem.ranks, strict=True)
            self.factors = [_thinned(factor, rank) for factor, rank in parts]
        before = self.factors
        is_single_enough = self._solve_inner(driver, self.working)
        vanished = squared_norm(self.factors) <= _VANISHED * squared_norm(before)
        if vanished and not self.working.a.any() and self.taken_back < _TAKEN_BACK:
            # No row near L holds it, and it shrinks to 0, where it has no gradient and all rows
            # are violated: the rows in between are looked for first.
            self.factors = [0.5 * factor for factor in before]
            self.taken_back += 1
        self.slack = max(_SLACK_LAST * problem.family.unit, 0.7 * self.slack)
        if not is_single_enough:
            self.problem = replace(problem, dtype=np.float64)

    def _solve_inner(self, driver: Driver, working: WorkingSet) -> bool:
        """Inner problems on one working set, until the bounds meet on it or L has moved away.

        Returns False if single precision does not solve them.
        """
        problem, tol, unit = self.problem, self.tol, self.problem.family.unit
        start, since, is_single_enough = self.factors, 0, True
        lower, best = self.lower, np.zeros(working.rows.size)
        # A start without multipliers is far off; its working set is worth a few steps only.
        rough = len(self.reached) == 2 and not working.a.any()
        constants = working.terms.row_constants
        method = self.method(start)

        def evaluate(trial: Factors) -> InnerPoint:
            return augmented_lagrangian(problem, working, self.gamma, trial, self.pool)

        point = evaluate(start)
        outside = self._estimate()
        for count in range(1, _WORKING_SET_STEPS):
            found = method.step(evaluate, point)
            driver.count()
            since += 1
            size = max(abs(point.value), np.finfo(float).tiny)  # 0 where no row holds L
            change = 1.0 if found is None else (point.value - found.value) / size
            # A step may lead up a little before it leads down.
            stalled = found is None or abs(change) < 1e-11
            point = found or point
            is_look = stalled or count % _LOOK_STEPS == 0 or driver.must_stop
            asked = outside is not None and (is_look or count in _EARLY_LOOKS)
            if asked and outside is not None and outside.is_worse(point):
                point = outside.kept or point
                break
            if rough and change < 0.02:
                break
            if not is_look:
                continue
            images = working_images(problem, working, point.alpha, self.pool)
            share = problem.share(images)
            scaled = share * point.alpha
            worth = float(constants @ scaled)
            if problem.weight * worth > lower:
                lower, best = problem.weight * worth, point.alpha
            outer_gap = relative_gap(point.objective, lower)
            if outer_gap <= _MEETING * tol or driver.must_stop:
                break
            if outer_gap < _SETTLED:
                outside = None
            moved = float(np.square(scaled - working.a).sum())
            inner_gap = relative_gap(
                point.value, problem.weight * (worth - 0.5 * self.gamma * moved)
            )
            solved = inner_gap <= _INNER_SHARE * max(outer_gap, tol)
            if not solved and point.single and (stalled or since >= _SINGLE_STEPS):
                is_single_enough = False
                break
            if not solved and share * (1 + self.negative) < 1:
                grown = self._grown(evaluate, point, images)
                if grown is not None:
                    point = grown
                    continue
            if solved or stalled or since >= _UPDATE_STEPS:
                working.a = point.alpha.copy()
                self.gamma, since = max(_GAMMA_LAST * unit, 0.5 * self.gamma), 0
                point = evaluate(point.factors)
                method.recondition(point.factors)
                if _moved(start, point.factors) > _DRIFT:
                    break
        working.a = point.alpha.copy()
        self.factors = point.factors
        self._offer_dual(working, best)
        return is_single_enough

    def _estimate(self) -> _Estimate | None:
        """An estimate of the objective, where it is worth its price."""
        share = max(_ESTIMATE_SHARE, _ESTIMATE_POINTS / self.problem.family.n_points)
        if self.gap < _SETTLED or share > _ESTIMATE_MOST:
            return None
        return _Estimate(self.problem, share, self.factors, self.objective)

    def _grown(
        self, evaluate: Evaluate, point: InnerPoint, images: list[Array]
    ) -> InnerPoint | None:
        """A better point in directions that the factors lack, or None.

        Where L has (almost) no component along v, its gradient there (almost) vanishes even if
        vᵀ(I + image)v < 0: a saddle, which quasi-Newton steps take long to leave.
        """
        if self.method is not InTheFactor:
            return None
        parts = zip(point.factors, images, strict=True)
        moves = [_missing(factor, image, self.negative) for factor, image in parts]
        if not any(move.any() for move in moves):
            return None
        for size in _GROWTH:
            pairs = zip(point.factors, moves, strict=True)
            found = evaluate([factor + size * move for factor, move in pairs])
            if found.value < point.value:
                return found
        return None

    def _offer_dual(self, working: WorkingSet, alpha: Array) -> None:
        """Take the bound of some multipliers, if it is better: in double precision, since single
        may promise more than the certificate finds."""
        problem = self.problem
        scaled = problem.share(problem.images(working.terms, alpha)) * alpha
        bound = problem.weight * float(working.terms.row_constants @ scaled)
        if bound > self.lower:
            held = scaled > 0
            self.lower, self.rows, self.alpha = bound, working.rows[held], scaled[held]

    def answer(self, stop: Stop) -> Answer:
        """The best of both sides."""
        problem = self.problem
        return Answer(
            stop,
            "",
            matrices=problem.matrices(self.best),
            x=np.zeros(0),
            dual=None if self.alpha is None else problem.weight * self.alpha,
            rows=self.rows,
        )

    def state(self) -> None:
        """It keeps no checkpoints."""


class _Estimate:
    """The objective over all rows, estimated on a part of them.

    Rows outside of the working set may become violated in great numbers while L moves: then they
    must be found before there are too many.

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
        self.price = exact / hinges if hinges > 0 else 0.0
        self.least = objective
        self.seen = start
        self.kept: InnerPoint | None = None

    def is_worse(self, point: InnerPoint) -> bool:
        """Whether an earlier point was much better; not where it has hardly moved since."""
        if _moved(self.seen, point.factors) < _STILL:
            return False
        self.seen = point.factors
        hinges = self.part.hinge_sum(self.problem.outputs(point.factors))
        value = squared_norm(point.factors) + self.price * hinges
        self.least = min(self.least, value)
        if value <= _FAR_WORSE * self.least:
            self.kept = point
        return value > (1 + _WORSE) * self.least


def _thinned(factor: Array, rank: int) -> Array:
    """The factor with orthogonal rows, without those that have shrunk to nothing but for a few
    by which it may grow again."""
    _, values, rows = scipy.linalg.svd(factor, full_matrices=False)
    kept = min(rank, int(np.sum(values > _THIN * values[0])) + _SPARE, values.size)
    return np.asarray(values[:kept, None] * rows[:kept])


def _missing(factor: Array, image: Array, negative: float) -> Array:
    """(r, d) directions in which I + image is below −negative and the factor has next to nothing,
    in rows of the factor that are next to nothing, as long as its longest."""
    left, values, _ = scipy.linalg.svd(factor, full_matrices=False)
    lows, vectors = scipy.linalg.eigh(image)
    lengths = np.linalg.norm(factor @ vectors, axis=0)
    lacking = np.flatnonzero((lows < -1 - negative) & (lengths < _LACKING * values[0]))
    room = min(lacking.size, int(np.sum(values < _LACKING * values[0])))
    rows = left[:, values.size - room :]
    return np.asarray(values[0] * (rows @ vectors[:, lacking[:room]].T))


def _moved(before: Factors, after: Factors) -> float:
    changes = [new - old for new, old in zip(after, before, strict=True)]
    return squared_norm(changes) / max(squared_norm(after), np.finfo(float).tiny)


def _is_staged(problem: HingeProgram) -> bool:
    """Whether the first steps on a part of the rows lead somewhere, and save something."""
    directions = sum(x.shape[1] for x in problem.features)
    n = problem.family.n_points
    return n >= _STAGED_POINTS and _STAGE_SHARE * n >= _STAGE_POINTS * directions


# -- the solvers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class HingeSolver(FamilySolver):
    """A solver for programs with a family of rows."""

    name: str
    capabilities: Capabilities
    method: type[InTheFactor] | type[InTheCone]
    max_iter: int

    def memory(self, program: Program) -> float:
        """A few copies of the outputs; the working set is not known beforehand."""
        return 8.0 * (3 + workers()) * size_of_outputs(program)

    def seconds(self, program: Program, tol: float) -> float:
        """At the prices of `factored`; the other one takes twice as long."""
        slowness = 1.0 if self.method is InTheFactor else 2.0
        return slowness * forecast("factored", self.work(program, tol))

    def work(self, program: Program, tol: float) -> tuple[float, ...]:
        """The size of the outputs."""
        return 1.0, size_of_outputs(program)

    @one_blas_thread
    def solve(self, program: Program, settings: Settings) -> Answer:
        """Minimise; interrupted, the best bounds so far are returned."""
        driver = Driver(self.name, settings, self.max_iter)
        # Single precision is for the quasi-Newton method, which forgives; a projection does not.
        problem = HingeProgram.of(program, settings.tol if self.method is InTheFactor else 0.0)
        with own_threads() as pool:
            start = problem.start(settings.warm_start)
            search = HingeSearch(problem, start, self.method, settings.tol, pool)
            if settings.warm_start is not None:
                search.resume(settings.warm_start)
            elif _is_staged(problem):
                part = problem.part(_STAGE_SHARE)
                search.stage = HingeSearch(part, start, self.method, settings.tol, pool)
            return driver.run(search)


FACTORED = HingeSolver(
    "factored",
    Capabilities(
        families=True,
        ranks=True,
        warm_start=True,
        callback=True,
        summary="LMNN of any size: augmented Lagrangian in the factor, certified",
    ),
    InTheFactor,
    max_iter=20_000,
)
PROJECTED = HingeSolver(
    "projected",
    Capabilities(
        families=True,
        warm_start=True,
        callback=True,
        summary="LMNN in few dimensions: the same in the matrix, convex throughout",
    ),
    InTheCone,
    max_iter=3_000,
)
