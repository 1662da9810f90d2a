"""The structured method of `interior`: predictor–corrector iterations from a starting point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.reduction import Reduction
from sdpkit.solvers.definite import Breakdown
from sdpkit.solvers.measures import Measures
from sdpkit.solvers.predictor_corrector import Gaps, Iterate, PredictorCorrector
from sdpkit.typing import Array

_DOUBT_ITERATIONS = 2  # without progress: rounding is suspected
_PATIENCE_ITERATIONS = 8  # without progress: there will be none
_NEAR_ERROR = 1e-3  # relative errors below which a stalled point is near a solution
# An objective this many times its scale is a ray, while the other one stays behind by this gap.
_DIVERGED, _APART = 1e8, 0.1


class CentralPath:
    """Predictor–corrector iterations from a starting point, and the best point so far.

    Attributes
    ----------
    method: the equations, in the coordinates of `point` and of `best`
    point, gaps, now: the iterate, what its equations are off, and its measures
    best, measures: the best iterate and its measures
    converged: whether the run ended because the errors meet the tolerance
    stalled: iterations since the best one;  slow: iterations since the error was last halved
    """

    def __init__(
        self, method: PredictorCorrector, start: Iterate, reduction: Reduction, tol: float
    ) -> None:
        self.method, self.point, self.goal = method, start, 0.3 * tol
        self.best: Iterate | None = None
        self.gaps: Gaps
        self.now: Measures
        self.measures: Measures
        self.converged = False
        self.steps = (1.0, 1.0)
        self.stalled = self.slow = 0
        self.mark = np.inf
        self.unit = reduction.original.sign * reduction.rhs_scale * reduction.cost_scale
        self.offset = reduction.original.offset

    def step(self, driver: Driver) -> None:
        """Measure the starting point, then one iteration at a time."""
        try:
            if self.best is None:
                self.method.prepare(self.point)
            else:
                self._advance()
                driver.count()
            self._see()
        except Breakdown:
            stop = Stop.DONE if self.is_near else Stop.FAILED
            driver.end(stop, "a factorisation broke down; the best point is returned")
            return
        self._record(driver)
        verdict = self._verdict()
        if verdict is not None:
            driver.end(*verdict)

    @property
    def error(self) -> float:
        """How far the best point is from optimal."""
        return np.inf if self.best is None else self.measures.worst

    @property
    def is_near(self) -> bool:
        """Whether the best point is near a solution."""
        return self.error < _NEAR_ERROR

    @property
    def _is_doubtful(self) -> bool:
        """Whether there is little or no progress near a solution."""
        waited = self.stalled >= _DOUBT_ITERATIONS or self.slow > _DOUBT_ITERATIONS
        return self.is_near and waited

    def _see(self) -> None:
        """Measure the iterate and compare it with the best one."""
        self.gaps = self.method.settle(self.point)
        now = self.now = self.method.measures(self.point, self.gaps)
        if self.best is None:
            self.best, self.measures = self.point.copy(), now
        if now.worst < self.measures.worst:
            self.best, self.measures, self.stalled = self.point.copy(), now, 0
        else:
            self.stalled += 1
        if now.worst < 0.5 * self.mark:
            self.mark, self.slow = now.worst, 0
        else:
            self.slow += 1

    def _advance(self) -> None:
        """One iteration; near a solution where rounding is in the way, along spanning trees."""
        assert self.best is not None
        finer = self.method.along_trees(self.best) if self._is_doubtful else None
        if finer is None:
            try:
                self.steps = self.method.iterate(self.point, self.gaps, self.now)
                return
            except Breakdown:
                finer = self.method.along_trees(self.best) if self.is_near else None
                if finer is None:
                    raise
        self.method, self.point = finer
        self.best = self.point.copy()
        self.stalled = self.slow = 0
        gaps = self.method.settle(self.point)
        self.steps = self.method.iterate(self.point, gaps, self.method.measures(self.point, gaps))

    def _record(self, driver: Driver) -> None:
        now = self.now
        driver.record(
            objective=self.unit * now.primal + self.offset,
            bound=self.unit * now.dual + self.offset,
            gap=now.gap,
            primal_residual=now.primal_residual,
            dual_residual=now.dual_residual,
            mu=now.mu,
            primal_step=self.steps[0],
            dual_step=self.steps[1],
        )

    def _verdict(self) -> tuple[Stop, str] | None:
        method, now = self.method, self.now
        if now.worst <= self.goal:
            return self._converged_at(now)
        if self.measures.worst <= 2.5 * self.goal and self.stalled >= 2:
            # Rounding is in the way of the goal, but what was asked for is reached.
            return self._converged_at(self.measures)
        apart = now.gap > _APART
        if apart and now.dual < -_DIVERGED * method.scale_c and now.dual_residual < 1e-6:
            return Stop.CLAIMS_INFEASIBLE, "the dual objective diverges"
        far = apart and now.primal > _DIVERGED * method.scale_b * method.scale_c * method.order
        if far and now.primal_residual * method.scale_b < now.primal / _DIVERGED:
            return Stop.CLAIMS_UNBOUNDED, "the primal objective diverges"
        patience, waited = _PATIENCE_ITERATIONS, max(self.stalled, self.slow)
        words = f"hardly any progress for {waited} iterations; the best point is returned"
        if self.is_near and (self.stalled >= patience or self.slow >= 2 * patience):
            return Stop.DONE, words
        if waited >= 3 * patience:
            # Far from a solution means that there may be none: rays are looked for next.
            return Stop.FAILED, words
        if not np.isfinite(now.worst):
            return Stop.FAILED, "the iteration left the floating-point numbers"
        return None

    def _converged_at(self, reached: Measures) -> tuple[Stop, str]:
        self.converged = True
        return Stop.DONE, f"converged: relative gap {reached.gap:.1e}"

    def answer(self, stop: Stop) -> Answer:
        """The best point; where the objective diverges, the last one as a ray."""
        if self.best is None:
            return Answer(stop, "")
        method = self.method
        rays = stop in (Stop.CLAIMS_INFEASIBLE, Stop.CLAIMS_UNBOUNDED)
        p = self.point if rays else self.best
        matrices, x = method.among_nodes(p), p.x[: method.program.n_auxiliary]
        w = method.sign * p.w
        if stop is Stop.CLAIMS_INFEASIBLE:
            return Answer(stop, "", multiplier_ray=w)
        if stop is Stop.CLAIMS_UNBOUNDED:
            return Answer(stop, "", matrix_ray=(matrices, x))
        return Answer(stop, "", matrices=matrices, x=x, dual=w)

    def state(self) -> None:
        """It keeps no checkpoints: a few dozen iterations are soon repeated."""


# -- where it begins ------------------------------------------------------------------------


def central_paths(settings: Settings, reduction: Reduction) -> Iterator[CentralPath]:
    """From a warm start, if there is one, and from a start of its own."""
    unit = reduction.rhs_scale * reduction.cost_scale
    floor = reduction.original.value_floor / unit
    method = PredictorCorrector(reduction.program, floor, settings.tol)
    given = None if settings.warm_start is None else reduction.lower(settings.warm_start)
    if given is not None:
        yield CentralPath(method, method.warm(*given), reduction, settings.tol)
    yield CentralPath(method, _cold_start(method, reduction), reduction, settings.tol)


def _cold_start(method: PredictorCorrector, reduction: Reduction) -> Iterate:
    """A centred start where the program knows a strictly feasible dual, identities elsewhere."""
    # One μ does not suit blocks of different sizes.
    alone = len(reduction.original.blocks) == 1
    for w in _dual_guesses(reduction.original) if alone else ():
        point = method.centred_start(reduction.lower_multipliers(w))
        if point is not None:
            return point
    return method.start()


def _dual_guesses(program: Program) -> Iterator[Array]:
    """Multipliers of the maximisation that may be strictly feasible, the nearest first."""
    direction = program.repair_direction
    cost = max(block.cost.magnitude() for block in program.blocks)
    if direction is not None and cost > 0 and _bounds_the_trace(program, direction):
        for t in 2.0 * 4.0 ** np.arange(6):
            yield t * cost * direction
    if program.safe.anchor is not None:
        for t in (0.5, 0.75, 0.9, 0.99):
            yield t * program.sign * program.safe.anchor


def _bounds_the_trace(program: Program, direction: Array) -> bool:
    """Whether w₀ is the problem's own, or Aᵀ(w₀) = I exactly; a mere fit starts far off."""
    if program.safe.direction is not None:
        return bool(program.safe.direction.any())
    return all(
        np.abs(block.face.T @ image @ block.face - np.eye(block.face.shape[1])).max(initial=0.0)
        < 1e-6
        for block, image in zip(program.blocks, program.adjoints(direction), strict=True)
    )


__all__ = ["CentralPath", "central_paths"]
