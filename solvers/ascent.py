"""A solver for sums of square roots, by ascent in the factor of M.

For  max Σ_p √q_p  over M ⪰ 0, tr M ≤ 1  (`sdpkit.program.roots`), with M = LᵀL and
G = Σ_p v_p v_pᵀ/(2√q_p):

* ‖Lv_p‖ ≥ <L₀v_p, Lv_p>/‖L₀v_p‖, a minorant that is linear in L and best, on ‖L‖ = 1, for
  L ∝ L₀G. The step L ← LG/‖LG‖ therefore never lowers the objective, from any L, and needs no line
  search. It is a power method with a matrix that moves.
* From there a quasi-Newton method on Σ‖Lv_p‖/‖L‖, which has no constraint and no scale. Every M
  is reached by a square L, and a stationary L of full rank is the optimum, as the problem is
  concave in M.

Every look at the gap costs one eigenvalue: f* ≤ √(2τf), τ = λ_max(G). The same numbers are the
multipliers: a_p = c/(2√q_p), β_T = Σ 1/(4a_p), cτ for the trace, with c = √(f/2τ).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.optimize

from sdpkit.errors import SolverError
from sdpkit.program.form import Program
from sdpkit.program.kinds import why_no_roots
from sdpkit.program.roots import Roots
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.forecast import UnitCosts
from sdpkit.solution.solver import Capabilities, OwnSolver
from sdpkit.typing import Array

_MAX_ITERATIONS = 5000
_POWER_STEPS = 20  # of the power method before, and between, runs of the quasi-Newton method
_QUASI_NEWTON_STEPS = 200  # per run
_LOOK_INTERVAL = 10  # iterations of the quasi-Newton method between looks at the gap
_STUCK_RUNS = 3  # in a row that do not halve the gap end the search
# Multipliers are made larger by this share: rounding must not take their feasibility away.
_ROOM = 1e-10
# The largest multiplier of a root, in units of one over the objective.
_LARGEST = 1e7


def _lengths(roots: Roots, factor: Array) -> Array:
    """(m,) q_p under M = LᵀL/‖L‖²."""
    unit = factor / np.linalg.norm(factor)
    if roots.diagonal:
        return roots.lengths(np.square(unit))
    return np.asarray(np.square(roots.values @ unit.T).sum(axis=1))


def _gradient(roots: Roots, factor: Array, q: Array) -> Array:
    """2·LG, the gradient of Σ√q_p where ‖L‖ = 1 does not bind."""
    image = roots.image(1.0 / np.sqrt(np.maximum(q, np.finfo(float).tiny)))
    return np.asarray(factor * image if roots.diagonal else factor @ image)


class Ascent:
    """The engine: the power method, then quasi-Newton runs; and the best point so far.

    Attributes
    ----------
    factor: L, (d, d), or (d,) where M is diagonal; ‖L‖ = 1
    value, bound: of this factor
    """

    def __init__(self, roots: Roots, factor: Array, tol: float) -> None:
        self.roots, self.factor, self.tol = roots, factor, tol
        self.value, self.bound = -np.inf, np.inf
        self.stuck: int | None = None

    @property
    def gap(self) -> float:
        """Relative, of the best point."""
        return (self.bound - self.value) / max(self.bound, np.finfo(float).tiny)

    def step(self, driver: Driver) -> None:
        """Begin by the power method; then a quasi-Newton run and the power method in turn."""
        if self.stuck is None:
            self.stuck = 0
            self.power(driver, _POWER_STEPS)
            return
        before = self.gap
        self._quasi_newton(driver)
        if not driver.must_stop:
            self.power(driver, _POWER_STEPS)
        self.stuck = self.stuck + 1 if self.gap > 0.5 * before else 0
        if self.stuck >= _STUCK_RUNS:
            # The certificate decides what this is worth.
            driver.end(Stop.DONE, self._words(driver))

    def look(self, driver: Driver, factor: Array) -> None:
        """Keep the point if it is better; end the run where the gap is met."""
        q = _lengths(self.roots, factor)
        value, bound = float(np.sqrt(q).sum()), self.roots.bound(q)
        # The bound of one point holds for all; but the multipliers must be those of one point.
        if bound - value < self.bound - self.value or self.value == -np.inf:
            self.factor, self.value, self.bound = factor.copy(), value, bound
        driver.record(objective=value, bound=bound, gap=self.gap, primal_residual=0.0)
        if self.gap <= 0.5 * self.tol:
            driver.end(Stop.DONE, self._words(driver))

    def _words(self, driver: Driver) -> str:
        return f"gap {self.gap:.1e} after {driver.iterations} steps"

    def power(self, driver: Driver, steps: int) -> None:
        """L ← LG/‖LG‖."""
        factor = self.factor
        for _ in range(min(steps, driver.iterations_left)):
            driver.count()
            factor = _gradient(self.roots, factor, _lengths(self.roots, factor))
            factor /= np.linalg.norm(factor)
            if driver.out_of_time:
                break
        self.look(driver, factor)

    def _quasi_newton(self, driver: Driver) -> None:
        """L-BFGS on −Σ‖Lv_p‖/‖L‖ from the best point."""
        roots, shape = self.roots, self.factor.shape
        scale = max(self.value, np.finfo(float).tiny)

        def negated(flat: Array) -> tuple[float, Array]:
            factor = flat.reshape(shape)
            norm = float(np.linalg.norm(factor))
            unit = factor / norm
            q = _lengths(roots, unit)
            value = float(np.sqrt(q).sum())
            gradient = (_gradient(roots, unit, q) - value * unit) / norm
            return -value / scale, -gradient.ravel() / scale

        def unit_factor(flat: Array) -> Array:
            return np.asarray(flat.reshape(shape) / np.linalg.norm(flat))

        def watch(xk: Array) -> None:
            driver.count()
            if driver.iterations % _LOOK_INTERVAL == 0 or driver.out_of_time:
                self.look(driver, unit_factor(xk))
                if driver.must_stop:
                    raise StopIteration  # scipy's way to end a run

        run = {"maxiter": min(_QUASI_NEWTON_STEPS, driver.iterations_left)}
        options: Any = {**run, "maxcor": 30, "ftol": 1e-16, "gtol": 1e-14}
        found = scipy.optimize.minimize(
            negated,
            self.factor.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=watch,
            options=options,
        )
        if driver.stop is None:
            self.look(driver, unit_factor(found.x))

    def answer(self, stop: Stop) -> Answer:
        """The best point with its multipliers."""
        roots, q = self.roots, _lengths(self.roots, self.factor)
        lifts = [np.r_[np.sqrt(q[group]), 1.0] for group in roots.groups]
        matrices = [np.outer(lift, lift) for lift in lifts]
        x = np.zeros(0)
        square = float(np.square(self.factor).sum())
        if roots.diagonal:
            x = np.square(self.factor) / square
        else:
            matrices.append(self.factor.T @ self.factor / square)
        return Answer(stop, "", matrices=tuple(matrices), x=x, dual=_multipliers(roots, q))

    def state(self) -> None:
        """It keeps no checkpoints."""


class AscentSolver(OwnSolver):
    """The power method and the quasi-Newton method as a solver."""

    name = "ascent"
    capabilities = Capabilities(
        callback=True,
        summary="MMC: sums of square roots, ascent in the factor, certified",
    )

    def accepts(self, program: Program) -> str | None:
        """Sums of square roots."""
        reason = why_no_roots(program)
        return reason and f"only solves sums of square roots; {reason}"

    def memory(self, program: Program) -> float:
        """The matrices T and a few copies of the vectors."""
        squares = float(sum(block.size**2 for block in program.blocks))
        width = max(program.n_auxiliary, program.blocks[-1].size)
        return 8.0 * (4 * squares + 8 * program.n_rows * width)

    costs: ClassVar = UnitCosts((0.011, 6.1e-05))

    def seconds(self, program: Program, tol: float) -> float:
        """By measured costs."""
        return self.costs.seconds(self.work(program, tol))

    def work(self, program: Program, tol: float) -> tuple[float, ...]:
        """Steps over the rows."""
        return 1.0, float(program.n_rows)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Ascend; interrupted, the best point so far is returned."""
        driver = Driver(self.name, settings, _MAX_ITERATIONS)
        roots = Roots.of(program)
        if roots is None:
            raise SolverError(
                "solver 'ascent' only solves sums of square roots (sdpkit.program.roots); "
                "use solver='auto'"
            )
        size = roots.values.shape[1]
        identity = np.ones(size) if roots.diagonal else np.eye(size)
        return driver.run(Ascent(roots, identity / np.sqrt(size), settings.tol))


def _multipliers(roots: Roots, q: Array) -> Array | None:
    """(m,) cτ, a_p and β_T."""
    if q.min() <= 0:
        return None
    weights = 0.5 / np.sqrt(q)
    tau, value = roots.largest(roots.image(weights)), float(np.sqrt(q).sum())
    c = np.sqrt(value / (2 * tau))
    # A root of next to nothing has a multiplier beyond all digits; a smaller one costs 1/(4a).
    a = np.minimum(c * weights, _LARGEST / value)
    beta = [_corner(a[group]) for group in roots.groups]
    return np.asarray(np.r_[(1 + _ROOM) * c * tau, a, beta])


def _corner(a: Array) -> float:
    """β ≥ Σ 1/(4a), by so much that the eigenvalue 0 of T's slack becomes more than rounding."""
    s = 0.5 / a
    beta = 0.5 * float(s.sum())
    rounding = 16 * np.finfo(float).eps * max(float(a.max()), beta)
    return (1 + _ROOM) * beta + rounding * (1 + float(s @ s))


ASCENT = AscentSolver()
