"""Predictor–corrector steps along the centres of the dual barrier.

Centres are smooth in μ and nearly linear, since an active eigenvalue of T falls in proportion to
μ: from one centre to the next they are extrapolated in μ, not in log μ, by the cubic through two
centres and their tangents  μ H dw/dμ = pull (or a parabola, or a line, whichever reaches furthest).
A Newton step or two bring the extrapolated point back to the centre.

The primal comes with the step Δ of the last Newton equation: K = μ P T(w − Δ) P meets the rows
to the residual of that equation and is positive semidefinite iff w − Δ is feasible
(`sdpkit.program.gram.ResolventGram`); it is applied by sparse solves and never formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpkit.certificate.scales import value_unit
from sdpkit.solvers.barrier_dual import BarrierDual, BarrierPoint
from sdpkit.solvers.barrier_newton import Preconditioner, conjugate_gradients
from sdpkit.typing import Array

_STALE_RATIO = 0.6  # μ may fall by this much before the preconditioner is recomputed
NEAR_DECREMENT = 0.2  # a Newton decrement below which a point counts as centred after its step
_REACH_DECREMENT = 10.0  # Newton decrement allowed to an extrapolated point
_MARGIN_RATIO = 1.05  # it must stay feasible when it goes this much further
_NEWTON_RESIDUAL = 0.06  # what conjugate gradients may leave of a decrement
_TANGENT_RESIDUAL = 0.1  # the same for tangents
_SPAN_RATIO = 1.3  # centres that are extrapolated from are at least this ratio of μ apart
_STUCK_RATIO = 0.99  # steps of μ above this go nowhere


@dataclass(frozen=True, eq=False)
class BarrierPrimal:
    """K = μ P T(w − Δ) P at a point w with the Newton step Δ."""

    point: BarrierPoint
    step: Array
    mu: float

    @property
    def gap(self) -> float:
        """dᵀw less the primal value, up to the residual."""
        return self.mu * (self.point.dual.degree - float(self.point.pull @ self.step))

    @property
    def value(self) -> float:
        """The primal value, up to the residual."""
        return self.point.dual.value(self.point.w) - self.gap


@dataclass(frozen=True, eq=False)
class Centre:
    """A centre and its tangent dw/dμ."""

    mu: float
    w: Array
    slope: Array


class PathOfCentres:
    """Predictor–corrector along μ."""

    def __init__(
        self,
        dual: BarrierDual,
        start: BarrierPoint,
        mu: float | None = None,
        is_out_of_time: Callable[[], bool] = lambda: False,
    ) -> None:
        self.dual, self.point, self.is_out_of_time = dual, start, is_out_of_time
        self.primal: BarrierPrimal | None = None
        self.centres: list[Centre] = []
        self.products, self.ratio, self.decrement, self.stalled = 0, 0.6, np.inf, 0
        self.preconditioner = Preconditioner(start, np.inf)
        self.mu = self.preconditioner.mu = self._nearest_mu() if mu is None else mu

    def _nearest_mu(self) -> float:
        """The μ whose centre is nearest: d/μ = pull in the metric of the Hessian."""
        size = float(np.abs(self.dual.d).max(initial=0.0)) or 1.0
        d, pull = self.dual.d / size, self.point.pull  # squares of lengths may be of any size
        toward = self._solve(d, 1e-2 * self._size(d))
        along = float(toward @ pull)
        if along > 0:
            return size * float(toward @ d) / along
        return size * float(np.linalg.norm(d) / np.linalg.norm(pull))

    @property
    def value(self) -> float:
        """The dual value of the point."""
        return self.dual.value(self.point.w)

    @property
    def gap(self) -> float:
        """The relative gap of the centre of μ, as the certificate will see it."""
        apart = self.mu * self.dual.degree
        program = self.dual.program
        bound = program.sign * self.value + program.offset
        return apart / value_unit(program, bound - program.sign * apart, bound)

    def _solve(self, rhs: Array, tol: float, **more: Any) -> Array:
        more["is_out_of_time"] = self.is_out_of_time
        x, products = conjugate_gradients(self.point, self.preconditioner, rhs, tol, **more)
        self.products += products
        return x

    def _size(self, rhs: Array) -> float:
        return float(np.sqrt(max(float(rhs @ self.preconditioner(rhs)), 0.0)))

    def correct(self, allowed: float | Array = np.inf) -> None:
        """One Newton step towards the centre of μ; the primal that comes with it is kept.

        `allowed` is what its rows may be off.
        """
        if self.mu <= _STALE_RATIO * self.preconditioner.mu or self.decrement > _REACH_DECREMENT:
            self.preconditioner = Preconditioner(self.point, self.mu)
        gradient = self.dual.d / self.mu - self.point.pull
        step = self._solve(-gradient, _NEWTON_RESIDUAL, allowed=allowed / self.mu)
        if self.is_out_of_time() and self.primal is not None:
            return  # the equations were left half solved; an earlier primal is better
        self.decrement = float(np.sqrt(max(-float(gradient @ step), 0.0)))
        if self.dual.at(self.point.w - step) is not None:
            self.primal = BarrierPrimal(self.point, step, self.mu)
        self.point = self._searched(step, -float(gradient @ step))

    def _searched(self, step: Array, descent: float) -> BarrierPoint:
        """The point after a step that is shortened until it is feasible and descends."""
        now = self.point.potential(self.mu)
        length = 1.0
        for _ in range(60):
            moved = self.dual.at(self.point.w + length * step)
            if moved is not None:
                least = 1e-2 * length * descent - 1e-12 * abs(now)
                if moved.potential(self.mu) <= now - least:
                    return moved
            length *= 0.7
        return self.point

    def advance(self, lowest: float) -> None:
        """Extrapolate the centres to a smaller μ, not below `lowest`."""
        guess = self.mu * self.centres[-1].slope if self.centres else None
        tangent = self._solve(self.point.pull, _TANGENT_RESIDUAL, start=guess) / self.mu
        centre = Centre(self.mu, self.point.w, tangent)
        ratio = max(self.ratio**1.5, lowest / self.mu)
        point = self._ahead(centre, ratio * self.mu)
        while point is None and ratio < 0.999:
            ratio **= 0.8
            point = self._ahead(centre, ratio * self.mu)
        # The last centre a good way back, and those after it.
        apart = [k for k, c in enumerate(self.centres) if c.mu >= _SPAN_RATIO * ratio * self.mu]
        self.centres = [*self.centres[max(apart, default=0) :], centre]
        self.ratio, self.mu = ratio, ratio * self.mu
        self.stalled = 0 if ratio < _STUCK_RATIO else self.stalled + 1
        self.point = self.point if point is None else point

    def _ahead(self, centre: Centre, mu: float) -> BarrierPoint | None:
        """The extrapolated point, if it is feasible with a margin and near its centre."""
        for w in extrapolated(centre, self.centres[0] if self.centres else None, mu):
            if self.dual.at(centre.w + _MARGIN_RATIO * (w - centre.w)) is not None:
                point = self.dual.at(w)
                if (
                    point is not None
                    and self._size(self.dual.d / mu - point.pull) <= _REACH_DECREMENT
                ):
                    return point
        return None


def extrapolated(now: Centre, before: Centre | None, mu: float) -> Iterator[Array]:
    """The cubic in μ through two centres with their tangents, the parabola through one of them
    and both tangents, and the line, at `mu`: each less accurate and less sensitive to errors."""
    h = mu - now.mu
    line = now.w + h * now.slope
    if before is not None:
        span = before.mu - now.mu
        bend = before.w - now.w - span * now.slope
        turn = span * (before.slope - now.slope)
        t = h / span
        yield line + t**2 * (3 * bend - turn) + t**3 * (turn - 2 * bend)
        yield line + t**2 * turn / 2
    yield line
