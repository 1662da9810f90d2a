"""A dual barrier solver for graph programs that works with sparse factors alone.

For the maximisation (a minimisation is negated) over the Gram matrix K of a graph, it solves

    minimise    dᵀw
    subject to  T(w) = L(w) − cC − UsUᵀ ⪰ 0 on 1⊥,   lo ≤ w ≤ hi

where lo and hi are signs (inequality rows) and slack boxes, and a cost of low rank, UsUᵀ, belongs
to minimum volume embedding (c = −1, s = 2). It follows the centres of the barrier as μ falls:

* `barrier_dual`     the dual program, and the barrier's derivatives at a point
* `barrier_newton`   Newton's equations by preconditioned conjugate gradients
* `barrier_centres`  from one centre to the next, and the primal K that belongs to it

This module chooses where to start, decides when to stop, and forms the answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.layout import TINY, Expected, Layout
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix, ResolventGram
from sdpkit.program.kinds import why_no_graph
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.forecast import UnitCosts
from sdpkit.solution.solver import Capabilities, OwnSolver, digits, unsupported
from sdpkit.solvers.barrier_centres import NEAR_DECREMENT, BarrierPrimal, PathOfCentres
from sdpkit.solvers.barrier_dual import (
    CLUSTER_EDGES,
    ONE_CLUSTER_EDGES,
    BarrierDual,
    BarrierPoint,
    stiffness_of,
)
from sdpkit.solvers.barrier_newton import LOW_RANK_PRODUCTS
from sdpkit.solvers.in_time import set_up
from sdpkit.solvers.recognition import components, drifting_apart, shortcut
from sdpkit.typing import Array

_MAX_NEWTON_STEPS = 400
_FEW_NODES = 250  # up to which forecasts leave the fill of factors out
_GOAL_SHARE = 0.8  # share of the tolerance at which the path ends
_COST_SHARE = 0.5  # share of the tolerance that the residuals of the final primal may cost
_CENTRING_STEPS = 25  # Newton steps towards one centre
_WARMING_STEPS = 8  # Newton steps from a given start to the path, before it is given up
_STALLED_STEPS = 5  # steps in a row that hardly lower μ end the search
_ROUNDING_GAP = 1e-13  # a relative gap below which rounding rules


# -- where to start -------------------------------------------------------------------------


def _plain_starts(dual: BarrierDual) -> Iterator[Array]:
    """Weights that may be strictly feasible: equal ones, or a share of the upper limits."""
    cost, ones = dual.most, np.ones(dual.d.size)
    limited = np.isfinite(dual.hi)
    width = dual.hi - np.maximum(dual.lo, 0.0)
    if cost < 0:
        # L(w) ⪰ cC holds near zero; degrees bound how near.
        near = -0.1 * cost / np.bincount(dual.edges.ravel()).max()
        inside = np.minimum(near, 0.5 * (dual.hi - dual.lo))
        yield np.clip(0.0, dual.lo + inside, dual.hi - inside)
    elif cost == 0:
        yield np.maximum(dual.lo, 0.0) + np.where(limited, 0.5 * width, 1.0)
    elif not limited.any():
        least = cost / connectivity(dual)
        for factor in (2.0, 8.0, 100.0):
            yield factor * least * ones
    else:
        least = cost / connectivity(dual)
        for share in (0.5, 0.75, 0.9, 0.99, 0.999):
            yield (least + share * (1 - least)) * np.where(limited, dual.hi, ones)


def connectivity(dual: BarrierDual) -> float:
    """The smallest positive eigenvalue of L(1), or of L(hi) where limits are finite."""
    from sdpkit.numerics.eigenpairs import smallest_on_centred
    from sdpkit.numerics.pattern import Pattern

    edges, weights = dual.edges, np.where(np.isfinite(dual.hi), dual.hi, 1.0)
    count, labels = components(dual.pattern)
    values = []
    for k in range(count):
        nodes, own = np.flatnonzero(labels == k), labels[edges[:, 0]] == k
        if own.any():
            part = Pattern.of(nodes.size, np.searchsorted(nodes, edges[own]))
            values.append(smallest_on_centred(part, weights[own], 0.0))
    return min(values)


def layout(dual: BarrierDual) -> Layout:
    """What `BarrierPath.state` holds."""
    steps = Expected(whole=True, least=0)
    return {"w": Expected((dual.d.size,)), "mu": Expected(least=TINY), "steps": steps}


def starting_points(
    dual: BarrierDual, settings: Settings, state: Mapping[str, Array] | None = None
) -> Iterator[tuple[BarrierPoint, float | None]]:
    """Strictly feasible points, the most promising first, with their μ where it is known: where an
    earlier run left off, a given solution, moved inwards if need be, and a plain one."""
    saved = None if state is None else dual.at(state["w"])
    if saved is not None and state is not None:
        yield saved, float(state["mu"])
    plain = (dual.at(w) for w in _plain_starts(dual))
    cold = next((point for point in plain if point is not None), None)
    if cold is None:
        return
    given = settings.warm_start
    if given is not None and given.dual is not None and given.dual.size == dual.d.size:
        w = dual.program.sign * given.dual
        shares = (0.0, 1e-3, 1e-2, 0.1) if np.isfinite(w).all() else ()
        blends = (dual.at((1 - share) * w + share * cold.w) for share in shares)
        warm = next((point for point in blends if point is not None), None)
        if warm is not None:
            yield warm, None
    yield cold, None


# -- the engine -----------------------------------------------------------------------------


class BarrierPath:
    """From centre to centre until the relative gap is what was asked for.

    Attributes
    ----------
    path: where it is, None before the first step;  starts: points with their μ where it is known
    """

    def __init__(
        self,
        dual: BarrierDual,
        starts: list[tuple[BarrierPoint, float | None]],
        driver: Driver,
        steps: int = 0,
    ) -> None:
        self.dual, self.starts = dual, starts
        self.path: PathOfCentres | None = None
        self.tol, self.goal = driver.settings.tol, _GOAL_SHARE * driver.settings.tol
        self.steps = steps
        if steps:
            driver.resume(steps)

    def step(self, driver: Driver) -> None:
        """Find the path; then one centre, and on towards the next."""
        if self.path is None:
            self._begin(driver)
        assert self.path is not None
        self._centre(self.path, driver)

    def _begin(self, driver: Driver) -> None:
        """Take the first start from which a centre is a few Newton steps away, or else the last.

        A solution of another program lies near the boundary of this one, and the way back to the
        path may be longer than the path.
        """
        for point, mu in self.starts:
            self.path = PathOfCentres(self.dual, point, mu, lambda: driver.out_of_time)
            if point is self.starts[-1][0] or self._settles(self.path, driver):
                return

    def _settles(self, path: PathOfCentres, driver: Driver) -> bool:
        for _ in range(_WARMING_STEPS):
            if self._must_stop(driver):
                return True
            self._correct(path, driver)
            if path.decrement <= NEAR_DECREMENT:
                return True
        return False

    def _correct(
        self, path: PathOfCentres, driver: Driver, allowed: float | Array = np.inf
    ) -> None:
        path.correct(allowed)
        driver.count()
        self.steps = driver.iterations

    def _centre(self, path: PathOfCentres, driver: Driver) -> None:
        last = path.gap <= self.goal
        allowed = self._allowed(path) if last else np.inf
        for _ in range(_CENTRING_STEPS):
            if self._must_stop(driver):
                return
            self._correct(path, driver, allowed)
            if path.decrement <= NEAR_DECREMENT and (not last or self._is_current(path)):
                break
        self._record(path, driver)
        if path.gap <= self.goal and last:
            driver.end(Stop.DONE, f"converged: relative gap {path.gap:.1e}")
        elif (
            path.gap < _ROUNDING_GAP or not np.isfinite(path.gap) or path.stalled >= _STALLED_STEPS
        ):
            # Far from a solution means that there may be none: rays are looked for next.
            stop = Stop.DONE if path.gap < 0.1 else Stop.FAILED
            driver.end(stop, f"the path ends at a relative gap of {path.gap:.1e}")
        if driver.stop is None:
            path.advance(0.95 * self.goal * path.mu / path.gap)

    def _must_stop(self, driver: Driver) -> bool:
        assert self.path is not None
        ray = self._as_ray(self.path.point.w)
        if ray is not None and self.dual.value(ray) < 0:
            driver.end(Stop.CLAIMS_INFEASIBLE, "the multipliers are a ray")
        return driver.must_stop

    def _allowed(self, path: PathOfCentres) -> Array:
        """(m,) what the constraints of the final primal may be off.

        Equations are judged against the longest, and all together by their multipliers w; where K
        is shrunk into its limits each constraint counts by itself; where slack takes up the rest,
        it has a cost.
        """
        dual, tol = self.dual, self.tol
        out = np.full(dual.d.size, 0.2 * tol * float(np.abs(dual.d).max()))
        limited = np.isfinite(dual.lo) | np.isfinite(dual.hi)
        out[limited] = np.minimum(out, 0.1 * tol * np.abs(dual.d))[limited]
        has_cost = np.isfinite(dual.hi) & (dual.hi > 0)
        worth = 0.1 * tol * abs(path.value) / dual.d.size
        out[has_cost] = np.minimum(out[has_cost], worth / dual.hi[has_cost])
        costs = np.abs(path.point.w) * out
        return out * _capped(costs, _COST_SHARE * tol * abs(path.value))

    @staticmethod
    def _is_current(path: PathOfCentres) -> bool:
        return path.primal is not None and path.primal.mu == path.mu

    def _as_ray(self, w: Array) -> Array | None:
        """Multipliers with L(w) ⪰ 0: w itself if the cost is, else moved along λ₂(L(1)).

        None where upper limits are finite: these are costs of slack, which no ray beats.
        """
        if np.isfinite(self.dual.hi).any():
            return None
        lack = max(0.0, -self.dual.least)
        return np.asarray(w + 1.01 * lack / self._connectivity) if lack else w

    @cached_property
    def _connectivity(self) -> float:
        """λ₂(L(1)), of any component."""
        return connectivity(self.dual)

    def _record(self, path: PathOfCentres, driver: Driver) -> None:
        sign, offset = self.dual.program.sign, self.dual.program.offset
        primal = path.primal
        driver.record(
            objective=np.nan if primal is None else sign * primal.value + offset,
            bound=sign * path.value + offset,
            gap=path.gap,
            dual_residual=0.0,
            mu=path.mu,
            decrement=path.decrement,
            ratio=path.ratio,
            products=float(path.products),
        )

    def answer(self, stop: Stop) -> Answer:
        """What the path has reached, in the program's rows and signs."""
        path = self.path
        if path is None:
            return Answer(stop, "")
        sign, program = self.dual.program.sign, self.dual.program
        if stop is Stop.CLAIMS_INFEASIBLE:
            ray = self._as_ray(path.point.w)
            return Answer(stop, "", multiplier_ray=None if ray is None else sign * ray)
        if path.primal is None:
            return Answer(stop, "", dual=sign * path.point.w)
        matrices = tuple(_formed(program, k, path.primal) for k in range(len(program.blocks)))
        x = _auxiliary(program, path.primal)
        return Answer(stop, "", matrices=matrices, x=x, dual=sign * path.point.w)

    def state(self) -> Mapping[str, ArrayLike] | None:
        """The centre at hand."""
        if self.path is None:
            return None
        return {"w": self.path.point.w, "mu": self.path.mu, "steps": self.steps}


def _capped(costs: Array, budget: float) -> Array:
    """(m,) shares that cut the largest costs to a common limit, so that their sum stays within
    the budget."""
    rising = np.sort(costs)
    below = np.cumsum(rising) - rising
    # If the k-th and those above it are cut to the limit, this is what the limit may be.
    limits = (budget - below) / np.arange(costs.size, 0, -1)
    cut = np.flatnonzero(limits < rising)
    if not cut.size:
        return np.ones(costs.size)
    limit = max(float(limits[cut[0]]), 0.0)
    return np.divide(limit, costs, out=np.ones(costs.size), where=costs > limit)


def _formed(program: Program, k: int, primal: BarrierPrimal) -> Matrix:
    """K of block k: an operator for large graphs, an array for small ones."""
    block, rows = program.blocks[k], program.spans[k]
    cost = program.sign * block.cost.identity
    w, step = primal.point.w[rows], block.on_pattern(primal.step[rows])
    w = block.on_pattern(w, stiffness_of(cost))  # to the last digit the weights of the path
    update = None if block.low_rank is None else block.low_rank.scaled(program.sign)
    gram: Gram = ResolventGram(block.pattern, cost, w, step, primal.mu, update)
    return gram if block.is_large_graph else gram.toarray()


def _auxiliary(program: Program, primal: BarrierPrimal) -> Array:
    """x_j = μ/r_j − μ Δr_j/r_j² where the variable's limit on w is the one in force, else 0."""
    r, change = program.reduced_costs(primal.point.w), np.asarray(program.rows_x.T @ primal.step)
    columns = program.rows_x.tocsc()
    rows, entries = columns.indices, columns.data
    lo, hi = program.multiplier_box
    limits = program.sign * program.cost_x / entries
    signs = program.sign_box
    in_force = np.where(
        entries > 0,
        (limits == lo[rows]) & (limits > signs[0][rows]),
        (limits == hi[rows]) & (limits < signs[1][rows]),
    )
    return np.where(in_force, primal.mu / r * (1 - change / r), 0.0)


# -- the solver -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Barrier(OwnSolver):
    """The solver `barrier`."""

    name: str = "barrier"
    capabilities: Capabilities = field(
        default_factory=lambda: Capabilities(
            warm_start=True,
            callback=True,
            checkpoint=True,
            summary="dual barrier on sparse factors; graph programs, up to tens of thousands",
        )
    )

    def accepts(self, program: Program) -> str | None:
        """Graph programs."""
        lacking, reason = unsupported(self.capabilities, program), why_no_graph(program)
        if lacking is None and reason is None and _has_limits_on_a_face(program):
            return (
                "only takes null directions beside the constant where all constraints are "
                "equations; this program has inequalities or slack variables"
            )
        return lacking or (reason and f"only solves graph programs; {reason}")

    def memory(self, program: Program) -> float:
        """Bytes: the preconditioner's blocks, the pairs of the factor, and K where it is formed."""
        m = float(program.n_rows)
        blocks = (
            m * min(m, CLUSTER_EDGES if m > ONE_CLUSTER_EDGES else m) + 2.0 * LOW_RANK_PRODUCTS * m
        )
        formed = sum(3.0 * b.size**2 for b in program.blocks if not b.is_large_graph)
        pairs = sum(
            b.pattern.pairs / 2.0 if b.is_large_graph else 4.0 * float(b.size) ** 1.5
            for b in program.blocks
        )
        return float(8.0 * (2.0 * blocks + formed + pairs + 60.0 * m))

    costs: ClassVar = UnitCosts((9.9e-05, 1.4e-05, 3e-08, 3.5e-07, 1e-05), loading=0.05)

    def seconds(self, program: Program, tol: float) -> float:
        """By measured costs."""
        return self.costs.seconds(self.work(program, tol))

    def work(self, program: Program, tol: float) -> tuple[float, ...]:
        """Rows, times nodes where K is formed, and the pairs of the sparse factor's entries."""
        m, steps = float(program.n_rows), 6 + digits(tol)
        nodes = sum(block.size for block in program.blocks)
        # Counting pairs loads kernels, which takes longer than small programs do.
        counted = program.blocks if nodes > _FEW_NODES else ()
        pairs = float(sum(block.pattern.pairs for block in counted))
        if any(block.is_large_graph for block in program.blocks):
            return 0.0, 0.0, 0.0, steps * pairs, digits(tol) * m * math.pow(pairs, 0.25)
        return 1.0, steps * m, steps * m * nodes, steps * pairs, 0.0

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Recognise what has no optimum, else follow the path of centres."""
        driver = Driver(self.name, settings, _MAX_NEWTON_STEPS)

        def begin() -> BarrierPath | Answer:
            without = drifting_apart(program) or shortcut(program)
            if without is not None:
                return without
            dual = BarrierDual.of(program)
            saved = driver.saved(layout(dual))
            starts = list(starting_points(dual, settings, saved))
            if not starts:
                return Answer(Stop.FAILED, "no strictly feasible multipliers were found")
            steps = 0 if saved is None else int(saved["steps"])
            return BarrierPath(dual, starts, driver, steps)

        return driver.run(set_up(driver, begin))


def _has_limits_on_a_face(program: Program) -> bool:
    """Whether multipliers that must be held (`barrier_rows`) may have limits of their own."""
    if all(block.local_face is None for block in program.blocks):
        return False
    lo, hi = program.multiplier_box
    return bool(np.isfinite(lo).any() or np.isfinite(hi).any())


BARRIER = Barrier()
