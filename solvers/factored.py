"""Two solvers for families of hinges, by an augmented Lagrangian on a working set.

For programs  min Σ_b <C_b, M_b> + weight·Σ_t [z_t]₊  with the comparisons z_t = c_t + q_ij − q_il
of a family (`sdpkit.program.families`). In coordinates in which C_b = I
(`sdpkit.solvers.hinge_program`), the inner problem (`sdpkit.solvers.augmented`) is

    ‖L‖² + weight·Σ_t max_{0 ≤ α ≤ 1} (α z_t − γ/2 (α − a_t)²),     M = LᵀL,  maximiser α_t

and the outer one  a ← α:  the a_t converge to multipliers (`sdpkit.solvers.multiplier_method`).
What makes it fast, in order of weight:

* The change to C = I; without it the curvatures of L differ by the condition of C.
* A start L = √t·I, t the best scale on a part of the comparisons: with a wrong scale far too many
  of them are violated.
* Multipliers move only after the inner problem is solved well, as its own duality gap tells;
  loosely solved, they wander. γ shrinks a little, not to 0.
* A quasi-Newton method on L, preconditioned from the right by (LᵀL + δI)⁻¹
  (`sdpkit.solvers.inner`).
* A working set of comparisons: those within `slack` of being violated when it was last searched,
  and those with a_t > 0. The search is exact and over all comparisons. The upper bound is taken
  only from a search; the lower bound holds for any set of comparisons.

`factored` solves the inner problem in L, which is not convex where L has fewer rows than columns;
its L is square unless the program limits the rank, and the certificate decides in any case.
`projected` solves it in M by a spectral projected gradient, convex from start to end: slower, and
there to check the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from sdpkit.numerics.threads import one_thread_of_blas, own_threads, workers
from sdpkit.program.families import Rows
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.forecast import UnitCosts
from sdpkit.solution.solution import Solution
from sdpkit.solution.solver import Capabilities
from sdpkit.solvers.augmented import InnerProblem
from sdpkit.solvers.family_solver import FamilySolver, relative_gap, size_of_outputs
from sdpkit.solvers.hinge_program import (
    Factors,
    HingeProgram,
    factor_layout,
    factor_state,
    kept_factors,
    squared_norm,
)
from sdpkit.solvers.in_time import set_up
from sdpkit.solvers.inner import InTheCone, InTheFactor
from sdpkit.solvers.multiplier_method import MULTIPLIERS, MultiplierMethod, ObjectiveEstimate
from sdpkit.solvers.streamed import StreamedSearch, is_streamed
from sdpkit.solvers.working_set import WorkingSet
from sdpkit.typing import Array


@dataclass(frozen=True)
class SearchSettings:
    """How wide the searches are, and when they give up. Slacks are in units of the family."""

    first_slack: float = 0.3  # wide at first, while L still moves far
    slack_factor: float = 0.7  # by which the slack shrinks after each working set
    last_slack: float = 0.2  # narrower, and too many comparisons would be found one search late
    stalled_searches: int = 8  # without progress, after which there will be none
    progress: float = 0.99  # of the distance of the bounds: less than 1 % gained is no progress
    thin: float = 1e-3  # of the longest direction of L: shorter ones are dropped between searches
    spare: int = 4  # directions that are kept all the same, by which L may grow again
    vanished: float = 1e-12  # share of ‖L‖² at which L has shrunk to nothing
    most_takebacks: int = 20  # of an L that vanished; then 0 is the solution

    def next_slack(self, slack: float, unit: float) -> float:
        """The slack after a working set."""
        return max(self.last_slack * unit, self.slack_factor * slack)


@dataclass(frozen=True)
class StageSettings:
    """Where the first steps are made on a part of the comparisons."""

    least_points: int = 10_000  # below, all of them are as fast
    share: float = 0.15  # a start has many times more violated comparisons than later points
    points_per_direction: int = 50  # with fewer points the part would be fitted too well

    def applies(self, problem: HingeProgram) -> bool:
        """Whether the first steps on a part lead somewhere, and save something."""
        directions = sum(x.shape[1] for x in problem.features)
        n = problem.family.n_points
        enough = self.share * n >= self.points_per_direction * directions
        return n >= self.least_points and enough


SEARCH, STAGE = SearchSettings(), StageSettings()


# -- the engine -----------------------------------------------------------------------------


class HingeSearch:
    """Search for violated comparisons, solve on the working set, search again, until the bounds
    meet.

    Attributes
    ----------
    factors: L of every block;  best: those that an exact search found best, with `upper`
    rows, alpha: the multipliers with the best bound, `lower`, which any comparisons prove
    stage: a search on a part of the comparisons for the first steps, or None
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
        self.gamma = MULTIPLIERS.first_gamma * problem.family.unit
        self.slack = SEARCH.first_slack * problem.family.unit
        self.reached = [np.inf]
        self.stage: HingeSearch | None = None
        self.taken_back = self.steps = 0

    def resume(self, warm: Solution) -> None:
        """Take over the multipliers of a solution, where they belong to this family."""
        family = self.problem.family
        if warm.rows is None or warm.dual is None or warm.dual.size != warm.rows.size:
            return
        held = (warm.dual > 0) & family.has(warm.rows)
        a = np.minimum(warm.dual[held] / self.problem.weight, 1.0)
        self.working = WorkingSet.of(self.problem, warm.rows[held], a, self.factors)
        self.gamma = MULTIPLIERS.last_gamma * family.unit
        self.slack = SEARCH.last_slack * family.unit

    @property
    def gap(self) -> float:
        """The relative gap, by the bounds that hold."""
        return relative_gap(self.upper, self.lower)

    def step(self, driver: Driver) -> None:
        """A search over all comparisons, and inner problems on what it found."""
        self.steps = driver.iterations
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
        """The first steps on a part: it says little about all comparisons beyond that."""
        self.stage = None
        found = stage._search()
        if not driver.must_stop:
            stage._improve(driver, found)
        self.factors = self.best = stage.factors

    def _search(self) -> Rows:
        """The comparisons near the factors, which makes their objective exact."""
        problem, factors = self.problem, self.factors
        found = problem.family.near(problem.outputs(factors), self.slack)
        objective = self.objective = problem.objective(factors, found)
        if objective < self.upper:
            self.best, self.upper = factors, objective
        self.reached.append(self.upper - max(self.lower, 0.0))
        return found

    def _is_over(self) -> bool:
        """Whether the bounds meet, or searches bring no progress."""
        reached, count = self.reached, SEARCH.stalled_searches
        stalled = len(reached) > count and reached[-1] > SEARCH.progress * reached[-count]
        return self.gap <= self.tol or stalled

    def _improve(self, driver: Driver, found: Rows) -> None:
        """Better factors and multipliers on what was found, and on what has a multiplier."""
        problem = self.problem
        if self.working is None:
            self.working = WorkingSet.of(problem, found, np.zeros(found.size), self.factors)
        else:
            self.working = self.working.refreshed(problem, found, self.factors)
        if self.method is InTheFactor:
            parts = zip(self.factors, problem.ranks, strict=True)
            self.factors = [_thinned(factor, rank) for factor, rank in parts]
        before = self.factors
        is_single_enough = self._solve_on(self.working, driver)
        vanished = squared_norm(self.factors) <= SEARCH.vanished * squared_norm(before)
        if vanished and not self.working.a.any() and self.taken_back < SEARCH.most_takebacks:
            # No comparison near L holds it, and it shrinks to 0, where it has no gradient and all
            # are violated: those in between are looked for first.
            self.factors = [0.5 * factor for factor in before]
            self.taken_back += 1
        self.slack = SEARCH.next_slack(self.slack, problem.family.unit)
        if not is_single_enough:
            self.problem = replace(problem, dtype=np.float64)

    def _solve_on(self, working: WorkingSet, driver: Driver) -> bool:
        """The method of multipliers on a working set; False if single precision is not enough."""
        # Without multipliers the start is far off, and its working set worth a few steps only.
        rough = len(self.reached) == 2 and not working.a.any()
        inner = InnerProblem(self.problem, working, self.gamma, self.pool)
        method = MultiplierMethod(
            inner, self.method(self.factors), self.factors, self.tol, self.lower
        )
        outside = ObjectiveEstimate.if_worthwhile(
            self.problem, self.gap, self.factors, self.objective
        )
        method.run(driver, outside, rough)
        working.a = method.point.alpha.copy()
        self.factors, self.gamma = method.point.factors, inner.gamma
        self._offer_dual(working, method.alpha)
        return method.is_single_enough

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

    def state(self) -> dict[str, Any]:
        """The best factors; the multipliers are found again."""
        factors = self.factors if np.isinf(self.upper) else self.best
        return factor_state(factors, self.steps)


def _thinned(factor: Array, rank: int) -> Array:
    """The factor with orthogonal rows, without those that have shrunk to nothing but for a few
    by which it may grow again."""
    _, values, rows = scipy.linalg.svd(factor, full_matrices=False)
    wide = int(np.sum(values > SEARCH.thin * values[0]))
    kept = min(rank, wide + SEARCH.spare, values.size)
    return np.asarray(values[:kept, None] * rows[:kept])


# -- the solvers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class HingeSolver(FamilySolver):
    """A solver for programs with a family of comparisons."""

    name: str
    capabilities: Capabilities
    method: type[InTheFactor] | type[InTheCone]
    max_iter: int

    def memory(self, program: Program) -> float:
        """A few copies of the outputs; the working set is not known beforehand."""
        return 8.0 * (3 + workers()) * size_of_outputs(program)

    costs: ClassVar = UnitCosts((0.045, 2.7e-06), loading=0.05)

    def seconds(self, program: Program, tol: float) -> float:
        """By the measured costs of `factored`; `projected` takes twice as long."""
        slowness = 1.0 if self.method is InTheFactor else 2.0
        return slowness * self.costs.seconds(self.work(program, tol))

    def work(self, program: Program, tol: float) -> tuple[float, ...]:
        """The size of the outputs."""
        return 1.0, size_of_outputs(program)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Minimise; interrupted, the best bounds so far are returned."""
        driver = Driver(self.name, settings, self.max_iter)
        with one_thread_of_blas(), own_threads() as pool:
            return driver.run(set_up(driver, lambda: self._search(program, driver, pool)))

    def _search(self, program: Program, driver: Driver, pool: Any) -> HingeSearch | StreamedSearch:
        """The engine at its start, or where an earlier run ended."""
        # Single precision is for the quasi-Newton method, which forgives; a projection does not.
        settings = driver.settings
        problem = HingeProgram.of(program, settings.tol if self.method is InTheFactor else 0.0)
        kept = driver.saved(factor_layout(problem))
        start = problem.start(settings.warm_start) if kept is None else kept_factors(kept)
        if kept is not None:
            driver.resume(int(kept["steps"]))
        if self.method is InTheFactor and settings.warm_start is None and is_streamed(problem):
            streamed = StreamedSearch(problem, start, settings.tol, pool)
            if kept is not None:
                streamed.resume(kept)
            return streamed
        search = HingeSearch(problem, start, self.method, settings.tol, pool)
        if settings.warm_start is not None:
            search.resume(settings.warm_start)
        elif kept is None and STAGE.applies(problem):
            part = problem.part(STAGE.share)
            search.stage = HingeSearch(part, start, self.method, settings.tol, pool)
        return search


FACTORED = HingeSolver(
    "factored",
    Capabilities(
        families=True,
        ranks=True,
        warm_start=True,
        callback=True,
        checkpoint=True,
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
