"""A program of any origin, solved by the self-dual embedding: the run of `interior` for it.

The program becomes equations over cones (`sdpkit.solvers.conic_form`), the embedding
(`sdpkit.solvers.embedding`) is followed until the errors *in the program's units* meet the
tolerance, and the best point is returned; or the ray that shows that there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpkit.certificate.rounding import slack_roundings
from sdpkit.program.epigraph import without_penalties
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.reduction import Reduction
from sdpkit.solvers.conic_form import ConicForm, Equations, FreeVariables
from sdpkit.solvers.definite import Breakdown
from sdpkit.solvers.embedding import Point, SelfDualEmbedding
from sdpkit.solvers.measures import Measures, row_sizes
from sdpkit.typing import Array

# Iterations that halve neither the error nor the residuals of the embedding, after which a run
# ends, near a solution and far from one. Where solutions are large, τ falls, and errors, which
# are relative to τ, may rise for a dozen iterations while steps are long and the embedding's
# residuals fall. Within the goal the error alone counts: where no solution is attained, points
# grow without end.
_PATIENCE_NEAR, _PATIENCE_FAR = 5, 25
# Relative errors below which a point is near a solution.
_NEAR_ERROR = 1e-3
# By how much a ray may miss its equations, relative to its value, and τ beside κ.
_RAY_ERROR, _RAY_TAU = 1e-8, 1e-3
# Steps towards strictly feasible multipliers in the two attempts at them, by how much each may
# raise μ, and the shares of the goal at which the attempts begin.
_STEPS_INSIDE, _RAISE, _AIMS = (3, 6), 3.0, (0.03, 1e-3)
# Iterations without halving the error after which the second attempt begins as well.
_PATIENCE_INSIDE = 2
# What rounding may move a nonnegative variable's slack by, relative to its terms.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Reached:
    """A point of the embedding in the units of the reduced program.

    Attributes
    ----------
    x: (N,) in the cone;  free: (n_f,);  y: (m,) multipliers
    measures: how far it is from optimal
    doubt: 0 where the slack c − Aᵀy is in the cone beyond rounding, infinite where nobody asked.
        Otherwise, where the certificate can repair multipliers, Σ tr X·(what the least eigenvalue
        lacks), about the cost of that; where it cannot, rounding beside the least eigenvalue
    """

    x: Array
    free: Array
    y: Array
    measures: Measures
    doubt: float


class EmbeddedPath:
    """The embedding's iterations, and the best point so far.

    They follow the embedding until the errors are within the goal. There its slack c − Aᵀy − r_d
    is definite, but c − Aᵀy need not be, and only then do the multipliers bound the value without
    a repair. Steps *inwards* make it so: they keep τ and aim at r_d = 0 and a larger μ. Where they
    fail, the embedding is followed further before they are tried once more.

    Attributes
    ----------
    penalties: the program with second-order cones in place of penalties
    form: its equations over cones;  free: their free variables;  first: y₀ with A_fᵀy₀ = c_f
    embedding: of what is left of them, in units of `rhs_unit` and `cost_unit`
    is_repairable: whether the certificate may know a direction that repairs multipliers
    point, now: the iterate;  best: the best one
    aim: the error at which the next attempt inwards begins;  attempts: how many there were
    kept: while one is made, where it began;  inward: its steps so far
    mark, left: the error, and the embedding's residuals, when they were last halved
    slow: iterations since then
    """

    def __init__(self, reduction: Reduction, value_floor: float, tol: float) -> None:
        self.reduction, self.tol, self.goal = reduction, tol, 0.3 * tol
        self.penalties = without_penalties(reduction.program)
        self.form = form = ConicForm.of(self.penalties.program)
        self.value_floor = value_floor
        self.is_repairable = reduction.original.repair_direction is not None
        self.free = FreeVariables.of(form.a_free)
        self.first, self.free_ray = self.free.multipliers(form.c_free)
        self.equations = Equations(form, self.free)
        self.row_sizes = row_sizes(form.b, tol)
        b = self.equations.reduced(form.b)
        c = form.c - form.transposed @ self.first
        self.rhs_unit = max(1.0, float(np.linalg.norm(b)))
        self.cost_unit = max(1.0, float(np.linalg.norm(c)))
        self.embedding = SelfDualEmbedding(self.equations, b / self.rhs_unit, c / self.cost_unit)
        self.point: Point = self.embedding.start()
        self.now = self.best = self._reached(self.point)
        self.length, self.begun = 1.0, False
        self.mark, self.left, self.slow = np.inf, np.inf, 0
        self.aim, self.attempts, self.inward = _AIMS[0] * self.goal, 0, 0
        self.kept: Point | None = None

    # -- the loop ----------------------------------------------------------------------------

    def step(self, driver: Driver) -> None:
        """Look at the starting point, then one iteration at a time."""
        if self.begun:
            try:
                self._advance()
            except Breakdown:
                if self.kept is None:
                    stop = Stop.DONE if self._is_near else Stop.FAILED
                    driver.end(stop, "rounding allows no further step; the best point is returned")
                    return
                self.length = 0.0
            driver.count()
        self.begun = True
        self._record(driver)
        verdict = self._verdict()
        if verdict is not None:
            driver.end(*verdict)

    @property
    def error(self) -> float:
        """How far the best point is from optimal."""
        return self.best.measures.worst

    @property
    def converged(self) -> bool:
        """Whether the errors meet the tolerance."""
        return self._is_within

    @property
    def _is_near(self) -> bool:
        """Whether the best point is near a solution."""
        return self.error < _NEAR_ERROR

    @property
    def _is_within(self) -> bool:
        """Whether the best point's errors are within the goal."""
        return self.error <= self.goal

    def _advance(self) -> None:
        """One iteration, and its point compared with the best one."""
        centring, now = None, self.now.measures
        if self.kept is not None:
            self.inward += 1
            degree = self.form.cone.degree
            error = max(now.gap, now.relative_cost, degree * now.mu / now.size)
            centring = float(np.clip(0.9 * self.goal / error, 1.0, _RAISE))
        self.point, self.length = self.embedding.step(self.point, now.worst, self.tol, centring)
        self.now = reached = self._reached(self.point)
        if self._rank(reached) < self._rank(self.best):
            self.best = reached
        left = self.embedding.residuals(self.point).size
        if reached.measures.worst < 0.5 * self.mark:
            self.mark, self.slow = reached.measures.worst, 0
        elif not self._is_within and left < 0.5 * self.left:
            self.left, self.slow = left, 0
        elif self.kept is None:
            self.slow += 1

    def _rank(self, reached: Reached) -> tuple[float, float, float]:
        """Points within the goal are as good as each other, but for multipliers that bound."""
        worst = reached.measures.worst
        return max(worst, self.goal), reached.doubt, worst

    def _verdict(self) -> tuple[Stop, str] | None:
        ray = self._ray()
        if ray is not None:
            return ray
        if self._is_within and self.best.doubt == 0:
            return self._converged
        if self.kept is not None:
            if self.inward < _STEPS_INSIDE[self.attempts - 1] and self.length > 0:
                return None
            self._turn_back()
        elif self.error <= self.aim or (self._is_within and self.slow >= _PATIENCE_INSIDE):
            self._turn_inwards()
        if self.attempts > len(_STEPS_INSIDE):
            return self._converged
        if self.slow >= (_PATIENCE_NEAR if self._is_near else _PATIENCE_FAR):
            words = f"no error was halved for {self.slow} iterations"
            stop = Stop.DONE if self._is_near else Stop.FAILED
            return stop, f"{words}; the best point is returned"
        return None

    @property
    def _converged(self) -> tuple[Stop, str]:
        return Stop.DONE, f"converged: relative gap {self.best.measures.gap:.1e}"

    def _turn_inwards(self) -> None:
        self.kept, self.inward = self.point, 0
        self.attempts += 1

    def _turn_back(self) -> None:
        assert self.kept is not None
        self.point, self.kept, self.slow = self.kept, None, 0
        self.now = self._reached(self.point)
        self.aim = _AIMS[1] * self.goal
        if self.attempts == len(_STEPS_INSIDE):
            self.attempts += 1  # there is no third

    def _ray(self) -> tuple[Stop, str] | None:
        """What the iterate proves, if it is a ray."""
        if self.free_ray is not None:
            return Stop.CLAIMS_UNBOUNDED, "free variables alone are unbounded"
        if self.equations.contradiction is not None:
            return Stop.CLAIMS_INFEASIBLE, "the equations contradict each other"
        p, e = self.point, self.embedding
        if p.tau > _RAY_TAU * p.kappa:
            return None
        value = float(e.b @ p.y)
        if value > 0 and np.linalg.norm(e.equations.adjoint(p.y) + p.s) < _RAY_ERROR * value:
            return Stop.CLAIMS_INFEASIBLE, "the multipliers are a ray"
        value = -float(e.c @ p.x)
        if value > 0 and np.linalg.norm(e.equations.values(p.x)) < _RAY_ERROR * value:
            return Stop.CLAIMS_UNBOUNDED, "the matrices are a ray"
        return None

    # -- what is measured and returned -------------------------------------------------------

    @np.errstate(over="ignore", invalid="ignore")
    def _reached(self, p: Point) -> Reached:
        """The point in the units of the reduced program, and its measures."""
        form, program = self.form, self.form.program
        x = (self.rhs_unit / p.tau) * p.x
        y = self.first + self.equations.multipliers((self.cost_unit / p.tau) * p.y)
        rest = form.b - form.a @ x
        free = self.free.values(rest)
        off = np.abs(rest - form.a_free @ free)
        slack = form.c - form.transposed @ y
        gap = np.abs(slack - (self.cost_unit / p.tau) * p.s).max(initial=0.0)
        scale_c = max(1.0, float(np.abs(form.c).max(initial=0.0)))
        mu = float(x @ slack) / max(form.cone.degree, 1)
        measures = Measures(
            -float(form.c @ x) - float(form.c_free @ free),
            -float(form.b @ y),
            float((off / self.row_sizes).max(initial=0.0)),
            float(gap) / scale_c,
            mu,
            self.value_floor,
            program.sign * program.offset,
            float(off @ np.abs(y)),
        )
        doubt = self._doubt(x, slack, y) if measures.worst <= self.goal else np.inf
        return Reached(x, free, y, measures, doubt)

    def _doubt(self, x: Array, slack: Array, y: Array) -> float:
        """See `Reached`; rounding is what the certificate allows for it."""
        form = self.form
        linear = form.cone.spans[0]
        terms = np.abs(form.c[linear]) + (abs(form.a[:, linear]).T @ np.abs(y))
        roundings, least, sizes = [_ROUNDING * terms], [slack[linear]], [x[linear]]
        of_blocks = np.array(slack_roundings(form.program, -y))
        for cone, span in form.second_order:
            most = np.abs(form.c[span]) + (abs(form.a[:, span]).T @ np.abs(y))
            roundings.append(_ROUNDING * np.sqrt(cone.sums(most**2)))
            least.append(cone.smallest(slack[span]))
            sizes.append(2 * x[span][cone.heads])
        for part, span, blocks in form.semidefinite:
            roundings.append(of_blocks[list(blocks)])
            least.append(part.smallest(slack[span]))
            sizes.append(part.traces(x[span]))
        rounding, smallest = np.concatenate(roundings), np.concatenate(least)
        short = np.maximum(rounding - smallest, 0.0)
        if not short.any():
            return 0.0
        if self.is_repairable:
            return float(np.concatenate(sizes) @ short)
        if smallest.min() <= 0:
            return np.inf
        return float((rounding / smallest).max())

    def _record(self, driver: Driver) -> None:
        original, now = self.reduction.original, self.now.measures
        unit = original.sign * self.reduction.rhs_scale * self.reduction.cost_scale
        driver.record(
            objective=unit * now.primal + original.offset,
            bound=unit * now.dual + original.offset,
            gap=now.gap,
            primal_residual=now.primal_residual,
            dual_residual=now.dual_residual,
            mu=now.mu,
            primal_step=self.length,
            dual_step=self.length,
            tau=self.point.tau,
            kappa=self.point.kappa,
            orthogonal=float(self.embedding.orthogonal),
        )

    def answer(self, stop: Stop) -> Answer:
        """The best point, or the ray."""
        form, sign, plain = self.form, self.form.program.sign, self.penalties
        if stop is Stop.CLAIMS_INFEASIBLE:
            found = self.equations.contradiction
            y = self.equations.multipliers(self.point.y) if found is None else found
            return Answer(stop, "", multiplier_ray=plain.multipliers(-sign * y))
        if stop is Stop.CLAIMS_UNBOUNDED:
            x, free = self._matrix_ray()
            along = plain.lifted(form.auxiliary(x, free))
            return Answer(stop, "", matrix_ray=(form.matrices(x), along))
        best = self.best
        return Answer(
            stop,
            "",
            matrices=form.matrices(best.x),
            x=plain.lifted(form.auxiliary(best.x, best.free)),
            dual=plain.multipliers(-sign * best.y),
        )

    def _matrix_ray(self) -> tuple[Array, Array]:
        if self.free_ray is not None:
            return np.zeros_like(self.form.c), self.free_ray
        return self.point.x, self.free.values(-(self.form.a @ self.point.x))

    def state(self) -> None:
        """It keeps no checkpoints: a few dozen iterations are soon repeated."""


__all__ = ["EmbeddedPath"]
