"""Families of hinges by an augmented Lagrangian on a working set.

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.errors import SolverError
from sdpkit.numerics.kernels import clock
from sdpkit.numerics.threads import one_blas_thread, own_threads, workers
from sdpkit.program.families import Rows
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solver import Capabilities, unsupported
from sdpkit.solvers.augmented import (
    Factors,
    HingeProgram,
    InnerPoint,
    WorkingSet,
    augmented_lagrangian,
    squared_norm,
)
from sdpkit.solvers.inner import InTheCone, InTheFactor

Array = NDArray[np.float64]

# γ at the start, and the smallest, in units of the family; the prices of moving α away from a.
_GAMMA, _GAMMA_LAST = 0.25, 0.06
# Rows within this much of being violated, in units of the family, are kept: at first, at last.
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
# A stage on a part of the rows comes first where there are more points than this.
_STAGED_POINTS, _STAGE_SHARE = 50_000, 0.3
# What a part of the rows says about all of them is not worth a smaller gap than this.
_STAGE_GAP = 0.03
# Directions of L below this share of the largest are dropped between searches, but for a few.
_THIN, _SPARE = 1e-3, 4
# Rounds of search without progress after which a run gives up.
_ROUNDS = 8


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

    def report(self, problem: HingeProgram, factors: Factors, rows: int, what: str) -> None:
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


def _minimise(problem: HingeProgram, run: _Run, stepper: Any, tol: float) -> None:
    """Search, solve on the working set, search again, until the bounds meet or nothing moves."""
    unit = problem.family.unit
    factors, gamma, slack = run.factors, _GAMMA * unit, _SLACK * unit
    working: WorkingSet | None = None
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
                working = WorkingSet.of(problem, found, np.zeros(found.size))
            else:
                working = working.refreshed(problem, found)
            rough = len(reached) == 2
            if stepper is InTheFactor:
                factors = [_thinned(f, r) for f, r in zip(factors, problem.ranks, strict=True)]
            factors, gamma = _on_working_set(
                problem, run, stepper, working, factors, gamma, tol, pool, rough
            )
            slack = max(_SLACK_LAST * unit, 0.7 * slack)
            if not run.single:
                problem = replace(problem, dtype=np.float64)


def _on_working_set(
    problem: HingeProgram,
    run: _Run,
    stepper: Any,
    working: WorkingSet,
    factors: Factors,
    gamma: float,
    tol: float,
    pool: Any,
    rough: bool,
) -> tuple[Factors, float]:
    """Inner problems on one working set, until the bounds meet on it or L has moved away.

    `rough`: the start is far off, and its working set is not worth more than a few steps.
    """
    start, since, unit = factors, 0, problem.family.unit
    constants = working.terms.row_constants
    method = stepper(factors)

    def evaluate(trial: Factors) -> InnerPoint:
        return augmented_lagrangian(problem, working, gamma, trial, pool)

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
        images = problem.images(working.terms, point.alpha)
        share = problem.share(images)
        scaled = share * point.alpha
        worth = float(constants @ scaled)
        run.offer_dual(working.rows, scaled, problem.weight * worth)
        moved = float(np.square(scaled - working.a).sum())
        inner = problem.weight * (worth - 0.5 * gamma * moved)
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
            gamma, since = max(_GAMMA_LAST * unit, 0.5 * gamma), 0
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
    return squared_norm(changes) / max(squared_norm(after), np.finfo(float).tiny)


# -- the solvers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class HingeSolver:
    """A solver for programs with a family of rows."""

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
        return (0.2 + work) * (1.0 if self.stepper is InTheFactor else 2.0)

    @one_blas_thread
    def solve(self, program: Program, settings: Settings) -> Answer:
        """Minimise; interrupted, the best bounds so far are returned."""
        began = clock()
        if settings.options:
            raise SolverError(f"{self.name} takes no options, not {sorted(settings.options)}")
        # Single precision is for the quasi-Newton method, which forgives; a projection does not.
        precision = settings.tol if self.stepper is InTheFactor else 0.0
        settings = replace(settings, max_iter=settings.max_iter or self.max_iter)
        problem = HingeProgram.of(program, precision)
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


def _first_stage(problem: HingeProgram, run: _Run, stepper: Any) -> None:
    """Start from the solution of a part of the rows; neither of its bounds holds for all."""
    stage = replace(run, history=[], settings=replace(run.settings, callback=None))
    _minimise(problem.part(_STAGE_SHARE), stage, stepper, max(_STAGE_GAP, run.settings.tol))
    run.factors, run.iterations, run.stop = stage.factors, stage.iterations, stage.stop


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
