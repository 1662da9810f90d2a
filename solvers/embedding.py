"""An interior-point method for any linear program over symmetric cones: the self-dual embedding.

The program  min cᵀx, Ax = b, x ∈ K  and its dual  max bᵀy, Aᵀy + s = c, s ∈ K  are embedded in one
homogeneous system, which always has a solution:

    r_p = bτ − Ax = 0,    r_d = cτ − Aᵀy − s = 0,    r_g = κ + cᵀx − bᵀy = 0,    x, s ∈ K,  τ, κ ≥ 0

Where τ > 0, (x, y, s)/τ is optimal; where τ = 0 and κ > 0, y proves that no x is feasible (bᵀy > 0)
or x that the dual is not (cᵀx < 0). The iteration begins at x = s = e, y = 0, τ = κ = 1 and follows
the points with x∘s = μe, τκ = μ and residuals in proportion to μ, by predictor–corrector steps in
the coordinates of Nesterov and Todd's scaling (`sdpkit.solvers.cone_algebra`).

References: Ye, Todd, Mizuno 1994; Sturm 2002 (the self-dual embedding in SeDuMi); Andersen, Roos,
Terlaky 2003.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.solvers.cone_algebra import ProductScaling
from sdpkit.solvers.conic_form import Equations
from sdpkit.solvers.definite import Breakdown
from sdpkit.solvers.scaled_equations import (
    NormalEquations,
    OrthogonalFactor,
    ScaledConstraints,
    Solved,
)
from sdpkit.typing import Array

# A step as short as this calls for centring, by this much at least.
_SHORT_STEP, _CENTRED = 0.1, 0.5
# The share of r_p that normal equations may leave, and the share of the tolerance.
_LEFT_OF_ERROR, _LEFT_OF_TOL = 1e-3, 0.1
# A step that leads out of the cone is shortened by this, so often at most.
_SHORTER, _ATTEMPTS = 0.8, 30


@dataclass(frozen=True, eq=False)
class Point:
    """(x, y, s, τ, κ), and the scaling of the cone at x and s."""

    x: Array
    y: Array
    s: Array
    tau: float
    kappa: float
    scaling: ProductScaling

    def complementarity(self, degree: int) -> float:
        """μ."""
        return float(self.x @ self.s + self.tau * self.kappa) / (degree + 1)


@dataclass(frozen=True, eq=False)
class Infeasibilities:
    """r_p, r_d and r_g of a point."""

    primal: Array
    dual: Array
    gap: float

    @property
    def size(self) -> float:
        """Their norm."""
        return float(
            np.hypot(np.linalg.norm(self.primal), np.linalg.norm(self.dual)) + abs(self.gap)
        )


@dataclass(frozen=True, eq=False)
class EmbeddingStep:
    """A step; `scaled_x` is T⁻¹dx and `scaled_s` is Tᵀds. `left` is A dx − b dτ − η r_p."""

    x: Array
    y: Array
    s: Array
    tau: float
    kappa: float
    scaled_x: Array
    scaled_s: Array
    left: Array


class Newton:
    """The linear equations of a step at one point, factored."""

    def __init__(self, embedding: SelfDualEmbedding, point: Point, solved: Solved) -> None:
        self.embedding, self.point, self.solved = embedding, point, solved
        self.cost = point.scaling.scaled(embedding.c)

    @cached_property
    def homogeneous(self) -> Homogeneous:
        """How the step depends on dτ."""
        across, negative = self.solved.nearest(self.cost, np.zeros(self.embedding.b.size))
        along, from_rhs = self.solved.nearest(np.zeros_like(self.cost), self.embedding.b)
        squares = float(across @ across + along @ along)
        # The textbook's denominator is a difference of large numbers; this is the same as a sum.
        curvature = self.point.kappa / self.point.tau + squares
        if not np.isfinite(curvature):
            raise Breakdown
        return Homogeneous(across, -negative, along, from_rhs, curvature)

    def direction(
        self, residuals: Infeasibilities, share: float, scaled_sum: Array, product: float
    ) -> EmbeddingStep:
        """The step that takes residuals down by `share`, with T⁻¹dx + Tᵀds = `scaled_sum` and
        κdτ + τdκ = `product`."""
        point, h = self.point, self.homogeneous
        f = scaled_sum - share * point.scaling.scaled(residuals.dual)
        g = share * residuals.primal
        v, dy = self.solved.nearest(f, g)
        gain = share * residuals.gap + product / point.tau
        gain += float((h.across + h.along) @ f + (h.from_cost - h.from_rhs) @ g)
        dtau = gain / h.curvature
        dkappa = (product - point.kappa * dtau) / point.tau
        v = v + dtau * (h.along - h.across)
        return self._step(residuals, share, v, dy + dtau * (h.from_rhs + h.from_cost), dtau, dkappa)

    def feasible_direction(self, residuals: Infeasibilities, scaled_sum: Array) -> EmbeddingStep:
        """The step to r_p = r_d = 0 with T⁻¹dx + Tᵀds = `scaled_sum`, τ and κ as they are."""
        f = scaled_sum - self.point.scaling.scaled(residuals.dual)
        v, dy = self.solved.nearest(f, residuals.primal)
        return self._step(residuals, 1.0, v, dy, 0.0, 0.0)

    def _step(
        self,
        residuals: Infeasibilities,
        share: float,
        v: Array,
        dy: Array,
        dtau: float,
        dkappa: float,
    ) -> EmbeddingStep:
        scaling, e = self.point.scaling, self.embedding
        dx = scaling.unscaled(v)
        # Exactly what r_d asks for: what rounding leaves goes into the complementarity.
        ds = share * residuals.dual + dtau * e.c - e.equations.adjoint(dy)
        left = e.equations.values(dx) - dtau * e.b - share * residuals.primal
        return EmbeddingStep(dx, dy, ds, dtau, dkappa, v, scaling.scaled(ds), left)


@dataclass(frozen=True, eq=False)
class Homogeneous:
    """Parts of a step that are multiplied by dτ.

    Attributes
    ----------
    across: the part of Tᵀc that is orthogonal to the rows of F; the rest is Fᵀ`from_cost`
    along: the smallest v with F v = b, Fᵀ`from_rhs`
    curvature: the denominator of dτ
    """

    across: Array
    from_cost: Array
    along: Array
    from_rhs: Array
    curvature: float


class SelfDualEmbedding:
    """The embedding of  min cᵀx, Ax = b, x ∈ K  and its steps.

    Attributes
    ----------
    b, c: at norm 1 at most;  cone: K
    orthogonal: whether steps are solved by an orthogonal factorisation; it begins with normal
        equations and stays with the other once they were not accurate enough
    """

    def __init__(self, equations: Equations, b: Array, c: Array) -> None:
        self.equations, self.b, self.c = equations, b, c
        self.cone = equations.form.cone
        self.identity = self.cone.identity
        self.constraints = ScaledConstraints(equations.form, equations)
        self.orthogonal = False

    def start(self) -> Point:
        """x = s = e, y = 0, τ = κ = 1."""
        e = self.identity
        return Point(e, np.zeros(self.b.size), e.copy(), 1.0, 1.0, self.cone.scaling(e, e))

    def residuals(self, p: Point) -> Infeasibilities:
        """r_p, r_d and r_g."""
        return Infeasibilities(
            self.b * p.tau - self.equations.values(p.x),
            self.c * p.tau - self.equations.adjoint(p.y) - p.s,
            p.kappa + float(self.c @ p.x) - float(self.b @ p.y),
        )

    def step(
        self, p: Point, error: float, tol: float, centring: float | None = None
    ) -> tuple[Point, float]:
        """The next point, and the length of the step to it.

        `error` is the relative error of the point. With a `centring` σ the step aims at σμ and at
        r_p = r_d = 0 (which the embedding itself only has where μ = 0), without one at optimality.
        `Breakdown` where rounding allows no step.
        """
        residuals = self.residuals(p)
        if not self.orthogonal:
            try:
                direction = self._direction(p, residuals, NormalEquations, centring)
                if self._is_accurate(p, direction, error, tol):
                    return self._moved(p, direction)
            except Breakdown:
                if not self.constraints.may_be_orthogonal:
                    raise
                direction = None
            self.orthogonal = self.constraints.may_be_orthogonal
            if not self.orthogonal and direction is not None:
                return self._moved(p, direction)
        return self._moved(p, self._direction(p, residuals, OrthogonalFactor, centring))

    def _is_accurate(self, p: Point, direction: EmbeddingStep, error: float, tol: float) -> bool:
        """Whether what the equations left of r_p, and what it costs, is small."""
        left, y = direction.left / p.tau, p.y / p.tau
        cost = float(np.abs(left) @ np.abs(y)) / (1 + abs(float(self.c @ p.x)) / p.tau)
        return max(float(np.linalg.norm(left)), cost) <= min(
            _LEFT_OF_ERROR * error, _LEFT_OF_TOL * tol
        )

    def _direction(
        self,
        p: Point,
        residuals: Infeasibilities,
        factorise: type[NormalEquations | OrthogonalFactor],
        centring: float | None,
    ) -> EmbeddingStep:
        """Mehrotra's predictor and corrector, or a step towards the central path."""
        newton = Newton(self, p, factorise(self.constraints, p.scaling))
        continue_or_raise()
        mu, point, identity = p.complementarity(self.cone.degree), p.scaling.point, self.identity
        if centring is not None:
            target = p.scaling.divided(centring * mu * identity) - point
            return newton.feasible_direction(residuals, target)
        predictor = newton.direction(residuals, 1.0, -point, -p.tau * p.kappa)
        length = min(1.0, self._longest(p, predictor))
        sigma = (1 - length) ** 2 * max(1 - length, 0.01)
        if length < _SHORT_STEP:
            sigma = max(sigma, _CENTRED)
        second = p.scaling.product(predictor.scaled_x, predictor.scaled_s)
        target = p.scaling.divided(sigma * mu * identity - second) - point
        product = sigma * mu - p.tau * p.kappa - predictor.tau * predictor.kappa
        return newton.direction(residuals, 1 - sigma, target, product)

    def _longest(self, p: Point, d: EmbeddingStep) -> float:
        """The largest α for which p + αd stays in the cones."""
        both = min(p.scaling.longest(d.scaled_x), p.scaling.longest(d.scaled_s))
        for value, change in ((p.tau, d.tau), (p.kappa, d.kappa)):
            if change < 0:
                both = min(both, -value / change)
        return both

    def _moved(self, p: Point, d: EmbeddingStep) -> tuple[Point, float]:
        """The step towards the boundary, shortened until the new point has a scaling."""
        longest = self._longest(p, d)
        length = min(1.0, (0.9 + 0.09 * min(longest, 1.0)) * longest)
        for _ in range(_ATTEMPTS):
            continue_or_raise()
            x, s = p.x + length * d.x, p.s + length * d.s
            tau, kappa = p.tau + length * d.tau, p.kappa + length * d.kappa
            try:
                if not (tau > 0 and kappa > 0):
                    raise Breakdown
                scaling = self.cone.scaling(x, s)
            except Breakdown:
                length *= _SHORTER
                continue
            return Point(x, p.y + length * d.y, s, tau, kappa, scaling), length
        raise Breakdown


__all__ = ["Infeasibilities", "Point", "SelfDualEmbedding"]
