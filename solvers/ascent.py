"""Sums of square roots by ascent in the factor of M.

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

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from sdpkit.errors import SolverError
from sdpkit.program.form import Program
from sdpkit.program.kinds import why_no_roots
from sdpkit.program.roots import Roots
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solver import Capabilities

Array = NDArray[np.float64]

# Steps of the power method before, and between, runs of the quasi-Newton method.
_POWER = 20
_MAX_ITER = 5000
_QUASI_NEWTON = 200
# Multipliers are made larger by this share: rounding must not take their feasibility away.
_ROOM = 1e-10
# The largest multiplier of a root, in units of one over the objective.
_LARGEST = 1e7


class _Enough(Exception):
    """Raised out of the quasi-Newton method by the callback."""


@dataclass(eq=False)
class _Run:
    """The best point so far. L is (d, d), or (d,) where M is diagonal; ‖L‖ = 1."""

    roots: Roots
    settings: Settings
    started: float
    factor: Array
    value: float = -np.inf
    bound: float = np.inf
    iterations: int = 0
    stop: Stop = Stop.ITERATION_LIMIT
    history: list[Mapping[str, float]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        return (self.bound - self.value) / max(self.bound, np.finfo(float).tiny)

    def look(self, factor: Array) -> bool:
        """Keep the point if it is better; True if it is time to stop."""
        q = _lengths(self.roots, factor)
        value, bound = float(np.sqrt(q).sum()), self.roots.bound(q)
        # The bound of one point holds for all; but the multipliers must be those of one point.
        if bound - value < self.bound - self.value or self.value == -np.inf:
            self.factor, self.value, self.bound = factor.copy(), value, bound
        row = {"iteration": float(self.iterations), "objective": value, "bound": bound}
        self.history.append({**row, "gap": self.gap})
        if self.settings.verbose > 1:
            print(f"{self.iterations}: objective {value:.10g}, gap {self.gap:.2e}", flush=True)
        callback, limit = self.settings.callback, self.settings.time_limit
        if callback is not None and callback(self.history[-1]) is True:
            self.stop = Stop.INTERRUPTED
        elif self.gap <= 0.5 * self.settings.tol:
            self.stop = Stop.DONE
        elif limit is not None and time.perf_counter() - self.started > limit:
            self.stop = Stop.TIME_LIMIT
        elif self.iterations < (self.settings.max_iter or _MAX_ITER):
            return False
        return True


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


def _power(run: _Run, steps: int) -> bool:
    """L ← LG/‖LG‖; True if it is time to stop."""
    factor = run.factor
    for _ in range(steps):
        run.iterations += 1
        factor = _gradient(run.roots, factor, _lengths(run.roots, factor))
        factor /= np.linalg.norm(factor)
    return run.look(factor)


def _quasi_newton(run: _Run) -> bool:
    """L-BFGS on −Σ‖Lv_p‖/‖L‖ from the best point; True if it is time to stop."""
    roots, shape = run.roots, run.factor.shape

    def negated(flat: Array) -> tuple[float, Array]:
        factor = flat.reshape(shape)
        norm = float(np.linalg.norm(factor))
        unit = factor / norm
        q = _lengths(roots, unit)
        value = float(np.sqrt(q).sum())
        gradient = (_gradient(roots, unit, q) - value * unit) / norm
        return -value / scale, -gradient.ravel() / scale

    def seen(xk: Array) -> None:
        run.iterations += 1
        if run.iterations % 10 == 0 and run.look(xk.reshape(shape) / np.linalg.norm(xk)):
            raise _Enough

    scale = max(run.value, np.finfo(float).tiny)
    options: Any = {"maxiter": _QUASI_NEWTON, "maxcor": 30, "ftol": 1e-16, "gtol": 1e-14}
    try:
        found = scipy.optimize.minimize(
            negated, run.factor.ravel(), jac=True, method="L-BFGS-B", callback=seen, options=options
        )
    except _Enough:
        return True
    return run.look(found.x.reshape(shape) / np.linalg.norm(found.x))


def _ascend(run: _Run) -> None:
    stuck = 0
    done = _power(run, _POWER)
    while not done and stuck < 3:
        before = run.gap
        done = _quasi_newton(run) or _power(run, _POWER)
        stuck = stuck + 1 if run.gap > 0.5 * before else 0
    if not done:
        run.stop = Stop.DONE  # no further progress: the certificate decides what this is worth


class Ascent:
    """The power method and the quasi-Newton method as a solver."""

    name = "ascent"
    capabilities = Capabilities(
        callback=True,
        summary="MMC: sums of square roots, ascent in the factor, certified",
    )

    def unavailable(self) -> str | None:
        """It always works."""
        return None

    def accepts(self, program: Program) -> str | None:
        """Sums of square roots."""
        reason = why_no_roots(program)
        return reason and f"only solves sums of square roots; {reason}"

    def memory(self, program: Program) -> float:
        """The matrices T and a few copies of the vectors."""
        squares = float(sum(block.size**2 for block in program.blocks))
        width = max(program.n_auxiliary, program.blocks[0].size)
        return 8.0 * (4 * squares + 8 * program.n_rows * width)

    def seconds(self, program: Program, tol: float) -> float:
        """Steps over the vectors."""
        return 0.005 + 1e-8 * program.n_rows * program.blocks[0].size ** 2

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Ascend; interrupted, the best point so far is returned."""
        began = time.perf_counter()
        roots = Roots.of(program)
        if roots is None:
            raise SolverError("ascent takes sums of square roots only (sdpkit.roots)")
        if settings.options:
            raise SolverError(f"ascent takes no options, not {sorted(settings.options)}")
        size = roots.values.shape[1]
        identity = np.ones(size) if roots.diagonal else np.eye(size)
        run = _Run(roots, settings, began, identity / np.sqrt(size))
        setup = time.perf_counter() - began
        try:
            _ascend(run)
        except KeyboardInterrupt:
            run.stop = Stop.INTERRUPTED
        return _answer(run, setup)


def _answer(run: _Run, setup: float) -> Answer:
    roots, q = run.roots, _lengths(run.roots, run.factor)
    lifts = [np.r_[np.sqrt(q[group]), 1.0] for group in roots.groups]
    matrices = [np.outer(lift, lift) for lift in lifts]
    x = np.zeros(0)
    square = float(np.square(run.factor).sum())
    if roots.diagonal:
        x = np.square(run.factor) / square
    else:
        matrices = [run.factor.T @ run.factor / square, *matrices]
    seconds = time.perf_counter() - run.started - setup
    return Answer(
        run.stop,
        f"gap {run.gap:.1e} after {run.iterations} steps",
        matrices=tuple(matrices),
        x=x,
        dual=_multipliers(roots, q),
        iterations=run.iterations,
        setup_time=setup,
        solve_time=seconds,
        history=tuple(run.history),
    )


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


ASCENT: Any = Ascent()
