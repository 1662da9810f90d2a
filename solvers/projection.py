"""Douglas–Rachford splitting as a solver for any program, to three to six digits.

It iterates a splitting (`sdpkit.solvers.splitting`), measures both sides from time to time, and
stops where they meet. Multipliers are repaired (`sdpkit.solvers.multiplier_repair`): they are
*feasible* wherever the program offers a repair, and then their value bounds the optimum. Where
there is no optimum, iterates move along a ray, which is returned once the certificate accepts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpkit.certificate.bounds import safe_bound
from sdpkit.certificate.certify import certify
from sdpkit.certificate.onto_constraints import is_small, root_of, step_onto_rows
from sdpkit.certificate.primal import row_residuals
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.certificate.scales import relative_gap_of, value_unit
from sdpkit.layout import TINY, Expected, Layout
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.forecast import UnitCosts
from sdpkit.solution.options import Option
from sdpkit.solution.reduction import Reduction, reduce
from sdpkit.solution.solver import Capabilities, OwnSolver, dense_work, digits
from sdpkit.solvers.in_time import set_up, stoppable
from sdpkit.solvers.multiplier_repair import reduced_anchor
from sdpkit.solvers.sets import DENSE_ROWS, RAY_TOL, TwoSets
from sdpkit.solvers.splitting import Splitting, SplittingPair
from sdpkit.typing import Array

_MAX_ITERATIONS = 20_000
_LOOK_INTERVAL = 20  # iterations between looks at both sides
_SHORTEST_INTERVAL = 20  # iterations before the first two restarts; every second adds as many
_FITTED_PENALTY = 4.0  # in a fitted metric: bounds suffer more from multipliers than from rows
_PENALTY_CHANGE = 2.0  # the most by which the penalty of one restart differs from that of the last
_UNBALANCED, _LOPSIDED = 4.0, 50.0  # ratios of residuals that call for another penalty: soon, now
_GOAL_SHARE = 0.8  # share of tol at which to stop
_NEAR_ROWS = 10.0  # times tol: residuals from which a point is moved onto its rows
_MOST_MOVES = 6  # steps of least squares that this takes at most
_CHEAP_ROWS = 1000  # up to this many rows a dense AAᵀ costs next to nothing
_SHRUNK_SHARE = 0.5  # where the point will be shrunk into its limits, which costs as much again


@dataclass(frozen=True)
class _Look:
    """Both sides at one iteration, in the user's units.

    `cost` is what the residuals of the constraints may cost, Σ|w_e|·residual_e, relative as the gap
    is: the certificate adds it, and the value may change by as much when they are met exactly.
    """

    objective: float
    bound: float
    gap: float
    residual: float
    cost: float


class DouglasRachford:
    """Runs a splitting until both sides meet, or iterates move along a ray.

    Attributes
    ----------
    matrices, x, dual, bound: the last point, and the best multipliers with their value
    snapshot: an earlier iterate, from which the direction of rays is taken
    """

    def __init__(self, reduction: Reduction, method: Splitting, driver: Driver) -> None:
        self.program, self.reduction, self.method = reduction.original, reduction, method
        self.tol = driver.settings.tol
        scale = reduction.rhs_scale * reduction.cost_scale
        self.unit = -self.program.sign * scale * method.base.rhs_scale * method.base.cost_scale
        self.matrices: tuple[Array, ...] | None = None
        self.x: Array | None = None
        self.dual: Array | None = None
        self.bound = -np.inf
        self.multiplier_ray: Array | None = None
        self.matrix_ray: tuple[tuple[Array, ...], Array] | None = None
        self.snapshot: tuple[TwoSets, Array, Array] | None = None
        self.iteration, self.next_try = 0, 0.0
        self.penalty = _FITTED_PENALTY if method.fitted else 1.0
        self.restarts = 0
        self.renewal = _SHORTEST_INTERVAL
        self._start(driver)

    def _start(self, driver: Driver) -> None:
        """From a checkpoint, else from a given solution, else from zero."""
        saved, base = driver.saved(self._layout()), self.method.base
        if saved is not None:
            driver.resume(int(saved["iteration"]))
            self._resume(saved)
            return
        warm = driver.settings.warm_start
        given = None if warm is None else self.reduction.lower(warm)
        if given is None:
            return
        matrices, x, w = given
        slack = base.slack_of(base.from_multipliers(w))
        point = base.onto_cone(base.from_program(matrices, x))
        self.method.restart(SplittingPair(point.z, base.onto_cone(slack).z), self.penalty)

    def _layout(self) -> Layout:
        """What `state` holds."""
        point, count = Expected((self.method.base.c.size,)), Expected(whole=True, least=0)
        restarts = {"penalty": Expected(least=TINY), "restarts": count, "renewal": count}
        return {"iteration": count, "x": point, "slack": point, **restarts}

    def _resume(self, saved: Mapping[str, Any]) -> None:
        """Where a checkpoint left it, in the metric of its last restart or the first one."""
        pair, method = SplittingPair(saved["x"], saved["slack"]), self.method
        self.penalty, self.restarts = float(saved["penalty"]), int(saved["restarts"])
        self.renewal = int(saved["renewal"])
        if self.restarts or not method.fitted:
            method.restart(pair, self.penalty)
        else:
            method.move_to(pair.x - method.s * pair.slack)

    def step(self, driver: Driver) -> None:
        """One iteration; every twentieth measures both sides."""
        method = self.method
        k = driver.iterations + 1
        looks = k % _LOOK_INTERVAL == 0
        method.iterate(k, rough=not looks)
        self.iteration = k  # only now is there something to answer
        driver.count()
        look = None
        if looks or not driver.iterations_left:
            look = self._look()
        self._record(driver, look)
        if look is not None and driver.stop is None:
            self._judge(driver, k, look)
        if driver.must_stop:
            return
        if method.fitted and k == self.renewal:
            self._renew(look)
        elif k % _LOOK_INTERVAL == 0:
            method.rebalance(_UNBALANCED if k % (5 * _LOOK_INTERVAL) == 0 else _LOPSIDED)

    def _renew(self, look: _Look | None) -> None:
        """Fit the metric to the iterate.

        The penalty follows what is still missing: a gap larger than the cost of the residuals
        comes from the multipliers, and a larger penalty serves them at the expense of the rows.
        Before the first restart both are too far off to mean anything.
        """
        if self.restarts and look is not None and min(look.gap, look.cost) > 0:
            change = float(np.sqrt(look.gap / look.cost))
            self.penalty *= float(np.clip(change, 1 / _PENALTY_CHANGE, _PENALTY_CHANGE))
        self.restarts += 1
        self.renewal += _SHORTEST_INTERVAL * (1 + self.restarts // 2)
        self.method.restart(self.method.pair(), self.penalty)
        self.snapshot = None

    def _record(self, driver: Driver, look: _Look | None) -> None:
        method, sets = self.method, self.method.at
        own = {
            "distance to the rows": method.off,
            "distance of the shadows": method.distance,
            "penalty": method.s,
            "rank": float(sum(method.point.ranks)),
        }
        if look is None:
            value = self._value(sets, float(sets.c @ method.point.z), method.point.z)
            driver.record(objective=value, **own)
        else:
            driver.record(
                objective=look.objective,
                bound=look.bound,
                gap=look.gap,
                primal_residual=look.residual,
                **own,
            )

    def _value(self, sets: TwoSets, linear: float, z: Array) -> float:
        """The user's objective."""
        total = linear + sets.penalty(z[sets.tail])
        return self.program.offset + self.unit * self._unit_ratio(sets) * total

    def _unit_ratio(self, sets: TwoSets) -> float:
        """The unit of values in `sets` over that of the base metric."""
        base = self.method.base
        return sets.rhs_scale * sets.cost_scale / (base.rhs_scale * base.cost_scale)

    def _look(self) -> _Look:
        """Keep the point and the better multipliers; measure both."""
        method = self.method
        sets, base = method.at, method.base
        matrices, x = sets.to_program(method.point.z)
        self.matrices, self.x = matrices, x[: sets.program.n_auxiliary]
        sign = sets.program.sign
        y = base.from_multipliers(sign * sets.multipliers(method.y))
        if method.repair is not None:
            y = method.repair.feasible(y)
        value = base.dual_value(y)
        if method.repair is None or value > self.bound:
            self.bound, self.dual = value, base.multipliers(y)
        objective = self._value(sets, float(sets.c @ method.point.z), method.point.z)
        bound = self.program.offset + self.unit * self.bound
        scale = max(value_unit(self.program, objective, bound), 1e-300)
        residual = sets.residual(method.point.values)
        cost = float(np.abs(method.y) @ np.abs(method.point.values - sets.b))
        cost *= abs(self.unit) * self._unit_ratio(sets) / scale
        return _Look(objective, bound, abs(objective - bound) / scale, residual, cost)

    def _judge(self, driver: Driver, k: int, look: _Look) -> None:
        """End the run where both sides meet, or where a ray proves that they never will."""
        share = _SHRUNK_SHARE if np.all(self.program.relations == -1) else _GOAL_SHARE
        met = max(look.gap, look.residual) <= share * self.tol
        met = met and look.gap + look.cost <= self.tol
        if met and self._is_restored and self._is_proven(look):
            words = f"converged: gap {look.gap:.1e}, rows {look.residual:.1e}"
            driver.end(Stop.DONE, words)
        elif self._meets_rows(look, share * self.tol):
            driver.end(Stop.DONE, f"converged: gap {look.gap:.1e}, moved onto its rows")
        elif not np.isfinite([look.objective, look.residual]).all():
            driver.end(Stop.FAILED, "the iteration left the floating-point numbers")
        elif k % (5 * _LOOK_INTERVAL) == 0:
            self._seek_rays(driver)
        elif k % (5 * _LOOK_INTERVAL) == 4 * _LOOK_INTERVAL:
            method = self.method
            self.snapshot = (method.at, method.point.z, method.y)

    def _meets_rows(self, look: _Look, goal: float) -> bool:
        """Move the point onto its rows inside the cone, where nothing else is missing.

        A try costs as much as a few rounds, so that the next one waits for a quarter of all.
        """
        off = max(look.residual, look.cost)
        near = look.gap <= goal and off <= _NEAR_ROWS * self.tol
        if not near or self.method.repair is None or self.iteration < self.next_try:
            return False
        if self.matrices is None or self.x is None:
            return False
        self.next_try = 1.25 * self.iteration
        small, matrices, x = self.reduction.program, self.matrices, self.x
        factors = [root_of(b, m) for b, m in zip(small.blocks, matrices, strict=True)]
        for _ in range(_MOST_MOVES if small.n_rows <= DENSE_ROWS else 0):
            if self._holds(matrices, x, look.bound, goal):
                break
            step = step_onto_rows(small, factors, x)
            if step is None:
                return False
            factors, x = step
            matrices = tuple(y @ y.T for y in factors)
        if not self._holds(matrices, x, look.bound, goal) or not self._passes(matrices, x):
            return False
        self.matrices, self.x = matrices, x
        return True

    def _passes(self, matrices: tuple[Array, ...], x: Array) -> bool:
        """Whether the certificate grants the tolerance."""
        whole = Answer(Stop.DONE, "", matrices=matrices, x=x, dual=self.dual)
        lifted = self.reduction.lift(whole)
        assert lifted.matrices is not None
        return certify(self.program, lifted.matrices, lifted.x, lifted.dual).passes(self.tol)

    def _holds(self, matrices: tuple[Array, ...], x: Array, bound: float, goal: float) -> bool:
        """Whether rows are met at their own scale, as the certificate measures, near the bound."""
        program = self.program
        lifted = self.reduction.lift(Answer(Stop.DONE, "", matrices=matrices, x=x))
        found, aux = list(lifted.matrices or ()), np.asarray(lifted.x)
        left = row_residuals(program, found, program.measure(found), aux)
        value = program.objective(found, aux)
        apart = relative_gap_of(program, value, bound)
        return bool(max(apart, float(left.max(initial=0.0))) <= goal)

    @property
    def _is_restored(self) -> bool:
        """Whether later repair will make constraints that are nearly met exact."""
        shrunk = bool(np.all(self.program.relations == -1))
        return shrunk or is_small(self.program) or self.method.repair is None

    def _is_proven(self, look: _Look) -> bool:
        """Whether the certificate's bound is as good; far beyond tol it need not be.

        Where the certificate has no bound, multipliers violate an equation that later ones meet.
        """
        program, tol, reached = self.program, self.tol, max(look.gap, look.residual)
        if self.method.repair is not None or reached <= 1e-5 * tol:
            return True
        dual = self.reduction.lift(Answer(Stop.DONE, "", dual=self.dual)).dual
        safe = safe_bound(program, program.sign * np.asarray(dual)).value
        if not np.isfinite(safe):
            return False
        bound = program.sign * safe + program.offset
        return relative_gap_of(program, look.objective, bound) <= _GOAL_SHARE * tol

    def answer(self, stop: Stop) -> Answer:
        """What was found, in the coordinates of the reduced program."""
        decided = (Stop.DONE, Stop.CLAIMS_INFEASIBLE, Stop.CLAIMS_UNBOUNDED)
        if self.iteration and stop not in decided:
            self._look()
        return Answer(
            stop,
            "",
            matrices=self.matrices,
            x=self.x,
            dual=self.dual,
            multiplier_ray=self.multiplier_ray,
            matrix_ray=self.matrix_ray,
        )

    def state(self) -> Mapping[str, ArrayLike] | None:
        """Where the iteration is, in coordinates that no restart changes."""
        if not self.iteration:
            return None
        pair = self.method.pair()
        restarts = {"penalty": self.penalty, "restarts": self.restarts, "renewal": self.renewal}
        return {"iteration": self.iteration, "x": pair.x, "slack": pair.slack, **restarts}

    # -- programs without an optimum ---------------------------------------------------------

    def _seek_rays(self, driver: Driver) -> None:
        """Iterates of a program without an optimum keep moving, along a proof."""
        method, before = self.method, self.snapshot
        if before is None or before[0] is not method.at:
            return
        if self._proves_infeasible(method.y - before[2]):
            driver.end(Stop.CLAIMS_INFEASIBLE, "the multipliers move along a ray")
        elif method.repair is None and self._proves_unbounded(method.point.z - before[1]):
            # Repaired multipliers are feasible: their value is a bound, there is nothing to seek.
            driver.end(Stop.CLAIMS_UNBOUNDED, "the matrices move along a ray")

    def _proves_infeasible(self, change: Array) -> bool:
        method, base = self.method, self.method.base
        sign = base.program.sign
        y = base.from_multipliers(sign * method.at.multipliers(change))
        if not base.b @ y > 0:
            return False
        if method.repair is not None and not method.repair.is_anchor:
            y = method.repair.feasible(y, homogeneous=True)
            if not base.b @ y > 0:
                return False
        ray = base.multipliers(y)
        lifted = self.reduction.lift(Answer(Stop.DONE, "", multiplier_ray=ray)).multiplier_ray
        if lifted is None or not certify_infeasible(self.program, lifted).passes(RAY_TOL):
            return False
        self.multiplier_ray = ray
        return True

    def _proves_unbounded(self, change: Array) -> bool:
        sets = self.method.at
        length = float(np.linalg.norm(change))
        off = float(np.linalg.norm(sets.values(change)))
        if not sets.c @ change < 0 or not off <= 0.1 * length:
            return False
        z = change / length
        for _ in range(60):
            z = sets.onto_cone(z - sets.adjoint(sets.solve(sets.values(z)))).z
        if not sets.c @ z < 0:
            return False
        matrices, x = sets.to_program(z)
        ray = (matrices, x[: sets.program.n_auxiliary])
        lifted = self.reduction.lift(Answer(Stop.DONE, "", matrix_ray=ray)).matrix_ray
        if lifted is None or not certify_unbounded(self.program, *lifted).passes(RAY_TOL):
            return False
        self.matrix_ray = ray
        return True


def _unseen_ray(program: Program) -> tuple[tuple[Array, ...], Array] | None:
    """A direction that no row sees and the objective gains by: parts that nothing ties together."""
    rays = [np.zeros((block.size, block.size)) for block in program.blocks]
    theta = program.split(np.asarray(abs(program.rows_q).sum(axis=0), dtype=np.float64).ravel())
    costs = program.split(program.cost_q)
    for k, (block, weight, g) in enumerate(zip(program.blocks, theta, costs, strict=True)):
        weighted = dense(block.adjoint(weight + np.abs(g)))
        values, vectors = stoppable(block.size, partial(scipy.linalg.eigh, weighted))
        hidden = vectors[:, values <= 1e-13 * max(values[-1], 0.0)]
        if not hidden.shape[1]:
            continue
        gain, within = scipy.linalg.eigh(program.sign * hidden.T @ block.cost.dense() @ hidden)
        if gain[-1] > 1e-9 * block.cost.magnitude():
            direction = hidden @ within[:, -1]
            rays[k] = np.outer(direction, direction)
            return tuple(rays), np.zeros(program.n_auxiliary)
    return None


def _takes_a_metric(program: Program) -> bool:
    """Whether AAᵀ may be dense, which a fitted metric makes it.

    Where the rows measure most entries of the matrices, say for a nearest matrix, every entry
    weighs the same anyway, and the metric would cost far more than it saves.
    """
    m = program.n_rows
    entries = sum(block.size * (block.size + 1) // 2 for block in program.blocks)
    return m <= _CHEAP_ROWS or (m <= DENSE_ROWS and 2 * m <= entries)


class Projection(OwnSolver):
    """Douglas–Rachford splitting as a solver; its option `metric` is "fitted" or "plain"."""

    name = "projection"
    options: ClassVar[Mapping[str, Option]] = {"metric": Option.one_of("fitted", "plain")}
    capabilities = Capabilities(
        quadratic=True,
        norms=True,
        second_order=True,
        warm_start=True,
        callback=True,
        checkpoint=True,
        summary="Douglas–Rachford splitting in a fitted metric; any program, to 1e-3 … 1e-6",
    )

    def memory(self, program: Program) -> float:
        """Bytes: AAᵀ and its factor, gathered measurements, thirty copies of the matrices."""
        n2 = sum(block.size**2 for block in program.blocks)
        wide = sum(block.n_measurements * block.size for block in program.blocks)
        products = sum(b.n_measurements**2 for b in program.blocks if b.features is not None)
        are_dense = _takes_a_metric(program) or products > 0
        rows = products + (2 * program.n_rows**2 if are_dense else 100 * program.n_rows)
        return 8.0 * (rows + 3 * wide + 32 * n2)

    costs: ClassVar = UnitCosts((0.14, 1.2e-08, 6.5e-13))

    def seconds(self, program: Program, tol: float) -> float:
        """By measured costs."""
        return self.costs.seconds(self.work(program, tol))

    def work(self, program: Program, tol: float) -> tuple[float, ...]:
        """Eigendecompositions, and the factor of the rows; norm penalties take far more rounds."""
        slowness = 30.0 if program.norms else 1.0
        per_digit = slowness * digits(tol)
        dense_rows = program.n_rows if _takes_a_metric(program) else 0
        return slowness, per_digit * dense_work(program), per_digit * float(dense_rows) ** 3

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Reduce, iterate, lift."""
        driver = Driver(self.name, settings, _MAX_ITERATIONS, self.options)
        reduction = reduce(program, orthonormal=True)

        def begin() -> DouglasRachford | Answer:
            continue_or_raise()
            ray = _unseen_ray(reduction.program)
            if ray is not None:
                words = "a direction that no constraint sees improves the objective"
                return Answer(Stop.CLAIMS_UNBOUNDED, words, matrix_ray=ray)
            continue_or_raise()
            is_fitted = driver.options["metric"] == "fitted"
            fitted = is_fitted and _takes_a_metric(reduction.program)
            method = Splitting(reduction.program, fitted, reduced_anchor(reduction))
            return DouglasRachford(reduction, method, driver)

        return reduction.lift(driver.run(set_up(driver, begin)))


PROJECTION = Projection()
