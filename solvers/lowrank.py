"""A solver that searches for low-rank factors, M = Y Yᵀ, by an augmented Lagrangian.

It minimises the augmented Lagrangian in Y, updates the multipliers w, and repeats. Y is not convex,
but the dual slack S(w) tells: at a stationary point SY = 0, and YYᵀ is optimal iff S ⪰ 0. Where S
has negative eigenvalues, their eigenvectors are directions of descent that Y's columns do not span:
they become further columns, and singular values that vanish are dropped. The multipliers are the
answer's dual; the certificate bounds the optimum by them, scaled or repaired as the program allows
(for a graph: dᵀw/λ₂(L(w))).

* `lowrank_model`       the program in units of one
* `lowrank_lagrangian`  the augmented Lagrangian and its derivatives
* `lowrank_newton`      its minimum in Y
* `lowrank_start`       where to start
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.certificate.certify import certify
from sdpkit.certificate.scales import value_unit
from sdpkit.layout import LARGEST
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.program.gram import FactoredGram, Matrix
from sdpkit.program.kinds import why_no_graph
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.forecast import UnitCosts
from sdpkit.solution.options import Option
from sdpkit.solution.solver import Capabilities, OwnSolver, dense_work, digits
from sdpkit.solvers.in_time import set_up, stoppable
from sdpkit.solvers.lowrank_lagrangian import LagrangianPoint
from sdpkit.solvers.lowrank_model import LowRankModel, in_boxes, lowest_eigenpairs
from sdpkit.solvers.lowrank_newton import (
    DENSE_UNKNOWNS,
    lagrangian_inverse,
    lagrangian_lifetime,
    minimised,
)
from sdpkit.solvers.lowrank_sphere_search import SphereSearch
from sdpkit.solvers.lowrank_spheres import SphereModel
from sdpkit.solvers.lowrank_start import (
    NEW_COLUMNS,
    LowRankState,
    first_ranks,
    starting_state,
    trimmed,
)
from sdpkit.solvers.lowrank_tensions import fits_tensions
from sdpkit.solvers.recognition import drifting_apart, shortcut
from sdpkit.typing import Array

_MAX_NEWTON_STEPS = 2000
# On graphs with equations the optimum often has a high rank, and most runs of docs/auto.csv fail.
_EQUATIONS_RISK = 3.0
_RESIDUAL_SHARE = 0.25  # what a multiplier update should leave of the residual; else σ grows
_SIGMA_FACTOR = 4.0  # by this factor
_MET_SHARE = 0.1  # of tol: rows this close are met; a stiffer σ would only magnify rounding in w
_STIFFEST = 1e8  # rows that are violated at this times the first σ cannot be met
_FINER = 0.1  # the goal becomes this share of itself where the certificate refuses a point
_FINEST = 1e-4  # of tol: the finest goal
_STALLED_UPDATES = 25  # updates without a better point
_STEPS_PER_UPDATE = 60  # Newton steps per multiplier update, at most
_UNBOUNDED_TRACE = 1e7  # a trace beyond this times the program's own scale has no bound


# -- the engine -------------------------------------------------------------------------------


class MultiplierUpdates:
    """Minimise in Y, update the multipliers, adapt the ranks; and the best point so far.

    Attributes
    ----------
    accuracy: of the next minimisation, relative to the cost
    best, merit: the best point and its error;  stalled: updates since then
    bounding: the point with the best multipliers, where they are kept apart
    primal_value, dual_value: of these two
    """

    def __init__(self, model: LowRankModel, start: LowRankState, driver: Driver) -> None:
        self.model, self.now, self.tol = model, start, driver.settings.tol
        self.first_sigma, self.accuracy = start.sigma, 0.1
        self.best: LagrangianPoint | None = None
        self.merit, self.stalled = np.inf, 0
        self.bounding: LagrangianPoint | None = None
        self.primal_value, self.dual_value = -np.inf, np.inf
        self.steps = start.steps
        if self.steps:
            driver.resume(self.steps)

    def step(self, driver: Driver) -> None:
        """One update of the multipliers."""
        now = self.now
        point = self._point(now.unknown)
        size = sum(float(np.linalg.norm(c)) for c in point.costs) + 1e-3
        room = min(_STEPS_PER_UPDATE, driver.iterations_left)
        point, taken = minimised(
            point,
            lagrangian_inverse,
            lagrangian_lifetime(point),
            self.accuracy * size,
            room,
            lambda: driver.out_of_time,
        )
        driver.count(max(taken, 1))
        self.steps = driver.iterations
        if not all((np.abs(part) <= LARGEST).all() for part in (*point.unknown, point.u)):
            driver.end(Stop.FAILED, "the iteration left the floating-point numbers")
            return  # an SVD of infinite entries does not end
        before = now.residual
        now.w, now.residual = self._updated(point), point.residual
        now.unknown = [*map(trimmed, point.unknown[:-1]), point.unknown[-1]]
        lowest = self._lowest(point)
        gap, violation = self._gap(point, lowest), self._violation(point)
        if fits_tensions(self.model):
            gap, shortfall = self._combined(point, lowest, violation), 0.0
        else:
            shortfall = violation
            self._keep(point, max(gap, violation))
        self._record(driver, point, lowest, gap, violation)
        if gap <= 0.5 * self.tol and shortfall <= 0.3 * self.tol:
            if self._is_refused(driver):
                # What it measures is finer than the gap and residual of here: go on for longer.
                self.tol *= _FINER
            else:
                driver.end(Stop.DONE, f"converged: relative gap {gap:.1e}")
        if driver.must_stop or self._gives_up(driver, gap):
            return
        if now.residual > max(_RESIDUAL_SHARE * before, _MET_SHARE * self.tol):
            now.sigma *= _SIGMA_FACTOR
        self.accuracy = max(0.01 * self.tol, min(0.3 * self.accuracy, now.residual))
        self._grow(point, lowest)

    def _is_refused(self, driver: Driver) -> bool:
        """Whether the certificate refuses the best point and could still be convinced.

        Large graphs are not asked: theirs costs as much as many updates.
        """
        program, tol = self.model.program, driver.settings.tol
        if self.tol <= _FINEST * tol or any(block.avoids_dense for block in program.blocks):
            return False
        answer = self.answer(Stop.DONE)
        assert answer.matrices is not None
        largest = max(block.size for block in program.blocks)
        certified = partial(certify, program, answer.matrices, answer.x, answer.dual)
        return not stoppable(largest, certified).passes(tol)

    def _gives_up(self, driver: Driver, gap: float) -> bool:
        """Whether there is no optimum to be found, or no progress."""
        now = self.now
        *factors, auxiliary = now.unknown
        total = sum(float(np.vdot(y, y)) for y in factors)
        total += float(np.abs(self.model.squares(auxiliary)).sum())
        if total > _UNBOUNDED_TRACE * (1 + self.natural):
            driver.end(Stop.CLAIMS_UNBOUNDED, "the factors grow without bound")
        elif now.sigma > _STIFFEST * self.first_sigma and now.residual > 1e-5:
            driver.end(Stop.CLAIMS_INFEASIBLE, "the constraints stay violated, however stiff")
        elif self.stalled > _STALLED_UPDATES:
            driver.end(Stop.DONE, f"no progress beyond a relative gap of {gap:.1e}")
        return driver.stop is not None

    @cached_property
    def natural(self) -> float:
        """The trace that the rows allow, as far as the program knows."""
        known = self.model.program.safe.trace
        if known is not None and np.isfinite(known).all():
            return float(sum(known)) / self.model.unit
        return float(sum(block.size**2 for block in self.model.program.blocks))

    def _updated(self, point: LagrangianPoint) -> Array:
        """The next multipliers; those with a sign never vanish, or they could not come back."""
        side = self.model.side
        least = 1e-2 * self.tol * float(np.abs(point.u).mean())
        return np.where(side != 0, side * np.maximum(np.abs(point.u), least), point.u)

    def _point(self, unknown: list[Array]) -> LagrangianPoint:
        now = self.now
        return LagrangianPoint(self.model, unknown, now.w, now.sigma, now.level)

    def _lowest(self, point: LagrangianPoint) -> list[tuple[Array, Array]]:
        """Per block the lowest eigenpairs of the dual slack."""
        parts = zip(self.model.parts, point.weights, strict=True)
        return [lowest_eigenpairs(part, u, NEW_COLUMNS) for part, u in parts]

    def _gap(self, point: LagrangianPoint, lowest: list[tuple[Array, Array]]) -> float:
        """What the certificate will find, about: the dual value and what its slack lacks, at the
        trace of the primal, against the primal value."""
        dual = self._dual_value(point, lowest)
        primal = point.primal_value + self._slack_value(point)
        return abs(dual - primal) / self._value_unit(primal, dual)

    def _dual_value(self, point: LagrangianPoint, lowest: list[tuple[Array, Array]]) -> float:
        """The dual value and what its slack lacks, at the trace of the primal."""
        m = self.model
        dual = float(m.b @ point.u)
        curved = m.curvature_x > 0
        r = (m.rows_x.T @ point.u - m.cost_x)[curved]
        r = np.where(m.free[curved], r, np.minimum(r, 0.0))
        dual += 0.5 * float(np.sum(r**2 / m.curvature_x[curved]))
        for (values, _), y in zip(lowest, point.unknown, strict=False):
            dual += max(0.0, -float(values[0])) * float(np.vdot(y, y))
        lack = np.where(m.free | curved, 0.0, np.maximum(-point.reduced, 0.0))
        return dual + float(lack @ np.maximum(point.x, 1.0))

    def _combined(
        self, point: LagrangianPoint, lowest: list[tuple[Array, Array]], violation: float
    ) -> float:
        """The gap of the best factor, shrunk until it is feasible, and the best multipliers, where
        these are kept apart: stiff updates improve the one and make the other rough."""
        dual = self._dual_value(point, lowest)
        if dual < self.dual_value:
            self.bounding, self.dual_value = point, dual
        primal = point.primal_value / (1 + violation)
        if self.best is None or primal > self.primal_value:
            self.best, self.primal_value = point, primal
        gap = self.dual_value - self.primal_value
        gap /= self._value_unit(self.primal_value, self.dual_value)
        self.merit, self.stalled = (gap, 0) if gap < self.merit else (self.merit, self.stalled + 1)
        return max(gap, 0.0)

    def _value_unit(self, primal: float, dual: float) -> float:
        """What the certificate divides differences of values by, in the units of the model."""
        program, unit = self.model.program, self.model.unit * self.model.cost_scale
        values = (program.sign * unit * v + program.offset for v in (primal, dual))
        return value_unit(program, *values) / unit

    def _slack_value(self, point: LagrangianPoint) -> float:
        """The objective of the variables that boxes stand for: their rows' residuals at the
        limits of their multipliers."""
        m = self.model
        lo, hi = (np.where(np.isfinite(a), a, 0.0) for a in (m.lo, m.hi))
        over, under = np.maximum(point.t, 0.0), np.minimum(point.t, 0.0)
        return -float(hi @ over + lo @ under)

    def _keep(self, point: LagrangianPoint, merit: float) -> None:
        """Remember the point if it is the best so far."""
        if self.best is None or merit < self.merit:
            self.best, self.merit, self.stalled = point, merit, 0
        else:
            self.stalled += 1

    def _violation(self, point: LagrangianPoint) -> float:
        """What the rows are off, as the certificate sees it: against the largest right-hand side,
        or each against its own where M is shrunk into its limits."""
        m = self.model
        slack = np.isfinite(m.lo) & (m.lo != 0) | np.isfinite(m.hi) & (m.hi != 0)
        if np.all(m.program.relations == -1) and np.all(m.b > 0):
            return float((point.t / m.b).max(initial=0.0))
        off = np.where(slack, 0.0, np.abs(point.u - point.w) / point.sigma)
        return float(off.max(initial=0.0))

    def _grow(self, point: LagrangianPoint, lowest: list[tuple[Array, Array]]) -> None:
        """Further columns along the eigenvectors by which the dual slack is negative."""
        m, now = self.model, self.now
        total = self._value_unit(point.primal_value, point.primal_value)
        for k, ((values, vectors), y) in enumerate(zip(lowest, now.unknown[:-1], strict=True)):
            trace = max(float(np.vdot(y, y)), 1.0)  # Y may be zero, and stationary
            down = values * trace < -0.1 * self.tol * total
            if down.any():
                now.unknown[k] = self._with_columns(k, m.parts[k].projected(vectors[:, down]))
        # The same for the squares that stand for x: zero is stationary, and may be wrong.
        stuck = ~m.free & (point.reduced < -0.1 * self.tol * total)
        auxiliary = now.unknown[-1]
        now.unknown[-1] = np.where(stuck, np.maximum(np.abs(auxiliary), 0.1), auxiliary)

    def _with_columns(self, k: int, columns: Array) -> Array:
        """Y with further columns, as long as the augmented Lagrangian likes them best."""
        unknown = self.now.unknown
        y, best, out = unknown[k], np.inf, unknown[k]
        size = float(np.linalg.norm(y)) + 1e-3
        for length in size * 10.0 ** np.arange(-4, 0.1, 0.5):
            trial = [*unknown]
            trial[k] = np.hstack([y, length / np.sqrt(columns.shape[1]) * columns])
            value = self._point(trial).value
            if value < best:
                best, out = value, trial[k]
        return out

    def _record(
        self,
        driver: Driver,
        point: LagrangianPoint,
        lowest: list[tuple[Array, Array]],
        gap: float,
        violation: float,
    ) -> None:
        m = self.model
        sign, offset, unit = m.program.sign, m.program.offset, m.unit * m.cost_scale
        smallest = min(float(values[0]) for values, _ in lowest)
        driver.record(
            objective=sign * unit * (point.primal_value + self._slack_value(point)) + offset,
            bound=sign * unit * float(m.b @ point.u) + offset,
            gap=gap,
            primal_residual=violation,
            dual_residual=max(0.0, -smallest),
            smallest=smallest,
            rank=float(max(self.now.ranks)),
            sigma=self.now.sigma,
        )

    def answer(self, stop: Stop) -> Answer:
        """The best point in the program's rows, units and signs."""
        m, program = self.model, self.model.program
        best = self._point(self.now.unknown) if self.best is None else self.best
        if stop is Stop.CLAIMS_INFEASIBLE:
            return Answer(stop, "", multiplier_ray=program.sign * m.dual(best.u))
        matrices = tuple(
            _formed(block, np.sqrt(m.unit) * y)
            for block, y in zip(program.blocks, best.unknown[:-1], strict=True)
        )
        dual = program.sign * m.dual(
            self._updated(best if self.bounding is None else self.bounding)
        )
        return Answer(stop, "", matrices=matrices, x=_auxiliary(m, best), dual=dual)

    def state(self) -> Mapping[str, ArrayLike]:
        """What the multiplier updates have reached."""
        now = self.now
        *factors, auxiliary = now.unknown
        return {
            "steps": self.steps,
            **{f"factor{k}": y for k, y in enumerate(factors)},
            "auxiliary": auxiliary,
            "weights": now.w,
            "sigma": now.sigma,
            "level": now.level,
            "residual": now.residual,
        }


def _formed(block: Block, y: Array) -> Matrix:
    """YYᵀ: a factor for large blocks, an array for small blocks."""
    return FactoredGram(y) if block.avoids_dense else y @ y.T


def _auxiliary(model: LowRankModel, point: LagrangianPoint) -> Array:
    """All auxiliary variables; those that boxes stand for are what their rows are off."""
    program = model.program
    out = np.zeros(program.n_auxiliary)
    out[model.kept] = model.unit * point.x
    columns = sp.csc_array(program.rows_x)
    boxed = np.flatnonzero(in_boxes(program))
    rows, entries = columns.indices[columns.indptr[boxed]], columns.data[columns.indptr[boxed]]
    # Of several that could take up a row's residual, the cheapest does: that whose limit binds.
    limits = program.sign * program.cost_x[boxed] / entries
    lo, hi = program.multiplier_box
    binds = np.where(entries > 0, limits == lo[rows], limits == hi[rows])
    amounts = np.maximum(-(model.norms * point.t)[rows] / entries, 0.0)
    takers = np.flatnonzero(binds & (amounts > 0))
    # Of several at the same cost, one does.
    takers = takers[np.unique(rows[takers], return_index=True)[1]]
    out[boxed[takers]] = amounts[takers]
    return out


# -- the solver -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LowRankSolver(OwnSolver):
    """The solver `lowrank`; its option `init` is an embedding to start from, (n, r)."""

    options: ClassVar[Mapping[str, Option]] = {"init": Option()}
    name: str = "lowrank"
    capabilities: Capabilities = field(
        default_factory=lambda: Capabilities(
            quadratic=True,
            warm_start=True,
            callback=True,
            checkpoint=True,
            summary="augmented Lagrangian on low-rank factors; large graphs, localisation",
        )
    )

    def memory(self, program: Program) -> float:
        """Bytes: some vectors of unknowns, the Hessian where it is formed, the factors."""
        total = 0.0
        for block, rank in zip(program.blocks, first_ranks(program), strict=True):
            unknowns = float(block.size * rank)
            total += 40.0 * unknowns + 8.0 * rank * block.n_measurements
            total += 3.0 * unknowns**2 if unknowns <= DENSE_UNKNOWNS else 0.0
            total += 3.0 * block.pattern.size if block.is_large_graph else 6.0 * block.size**2
        return 8.0 * total

    costs: ClassVar = UnitCosts((1.2, 1.8e-09, 3.6e-13, 2.1e-07, 1e-06))

    def seconds(self, program: Program, tol: float) -> float:
        """By measured costs, with the risk of a run that ends without a proof."""
        equations = bool((program.relations == 0).all()) and why_no_graph(program) is None
        risk = _EQUATIONS_RISK if equations else 1.0
        return risk * self.costs.seconds(self.work(program, tol))

    def work(self, program: Program, tol: float) -> tuple[float, ...]:
        """Dense factors; for large graphs rows, times a power of the nodes where the optimum has
        a low rank, and of the rank √(2m) that as many equations may ask for and that is reached in
        rounds. Curves and surfaces, whose factors fill in little, move slowly."""
        m, per_digit = float(program.n_rows), digits(tol)
        large = [block for block in program.blocks if block.is_large_graph]
        on_face = any(block.local_face is not None for block in program.blocks)
        # Multipliers of rows that depend on others drift, which makes it as slow as dense factors.
        if not large or on_face or why_no_graph(program) is not None:
            return 1.0, per_digit * dense_work(program), per_digit * m**3, 0.0, 0.0
        if bool((program.relations != 0).all()):
            nodes = float(sum(block.size for block in large))
            pairs = float(sum(block.pattern.pairs for block in large))
            slowness = 1 + 3 * math.pow(nodes, 1.5) / pairs
            return 0.0, 0.0, 0.0, per_digit * m * math.pow(nodes, 0.75) * slowness, 0.0
        return 0.0, 0.0, 0.0, 0.0, per_digit * m * math.pow(2 * m, 0.75)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Recognise what has no optimum, else update multipliers until the gap is met."""
        driver = Driver(self.name, settings, _MAX_NEWTON_STEPS, self.options)

        def begin() -> MultiplierUpdates | SphereSearch | Answer:
            spheres = SphereModel.of(program)
            if spheres is not None:
                return SphereSearch.of(spheres, driver)
            if why_no_graph(program) is None:
                without = drifting_apart(program) or shortcut(program)
                if without is not None:
                    return without
            model = LowRankModel.of(program)
            return MultiplierUpdates(model, starting_state(model, driver), driver)

        return driver.run(set_up(driver, begin))


LOWRANK = LowRankSolver()
