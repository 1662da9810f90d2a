"""The augmented Lagrangian of a program in low-rank factors, and its derivatives.

For the maximisation in squared lengths (a minimisation is negated) it is

    −<C, YYᵀ> − gᵀq − cᵀx + ½Σh_j x_j² + Σ_e ψ_e(t_e),   t = A_q q + A_x x − b,  q_p = ‖Yᵀv_p‖²

and the multipliers become  w_e ← u_e = ψ_e′(t_e)  after each minimisation. There are two ψ:

    rows with a box    ψ(t) = max_{lo ≤ u ≤ hi} (u t − (u − w)²/2σ),    u = clip(w + σt, lo, hi)
    rows with a sign   ψ(t) = (w/κ)·φ(κt),   φ(τ) = −log(1 − τ), beyond τ = ½ its parabola,
                       u = w·φ′(κt)

An equation is a row whose box has no limits. Rows ≤ and ≥ have multipliers with a sign: the second
ψ (Polyak 1992; Ben-Tal and Zibulevsky 1997) has no kinks, which slow down Newton's method where
tens of thousands of rows change sides, and it keeps every multiplier positive, so that no part of a
graph comes loose. With S = Vᵀdiag(A_qᵀu − g)V − C,

    gradient   2 S Y
    Hessian    Z ↦ 2 S Z + 2 Vᵀdiag(A_qᵀs)V Y,   s = ψ″(t)·A_q (2 <v_pᵀY, v_pᵀZ>)_p
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from sdpkit.numerics.kernels import fast_kernel
from sdpkit.program.cost import dense
from sdpkit.solvers.lowrank_model import LowRankModel
from sdpkit.typing import Array


def _penalties(
    model: LowRankModel, t: Array, w: Array, sigma: float, level: float
) -> tuple[Array, Array, float]:
    """ψ′ = u, ψ″ and Σψ at the residuals t."""
    one = model.side != 0
    # Rows with a box, or without one.
    raw = w + sigma * t
    u = np.clip(raw, model.lo, model.hi)
    stiff = np.where((raw > model.lo) & (raw < model.hi), sigma, 0.0)
    value = u * t - (u - w) ** 2 / (2 * sigma)
    # Rows with a sign.
    side, size = model.side[one], np.abs(w[one])
    kappa = sigma / level
    tau = kappa * side * t[one]
    inner = np.minimum(tau, 0.5)
    beyond = tau - inner
    u[one] = side * size * (1 / (1 - inner) + 4 * beyond)
    stiff[one] = size * kappa / (1 - inner) ** 2
    value[one] = size / kappa * (-np.log1p(-inner) + 2 * beyond + 2 * beyond**2)
    return u, stiff, float(value.sum())


@fast_kernel("i4[:,:]", "f8[:]", "f8[:]", "f8[:,:]", "f8[:,:]", "out f8[:,:]")
def _add_edges(edges: Any, u: Array, s: Array, v: Array, z: Array, out: Array) -> None:
    """Add 2(L(u) + Σ_e 2s_e b_e v_eᵀ(v_eb_eᵀ)) z to `out`: what the edges resist of a change z."""
    r = z.shape[1]
    for e in range(edges.shape[0]):
        i, j = edges[e, 0], edges[e, 1]
        along = 0.0
        for k in range(r):
            along += v[e, k] * (z[i, k] - z[j, k])
        along *= 4 * s[e]
        for k in range(r):
            flow = 2 * u[e] * (z[i, k] - z[j, k]) + along * v[e, k]
            out[i, k] += flow
            out[j, k] -= flow


class LagrangianPoint:
    """The augmented Lagrangian and its derivatives at one Y."""

    def __init__(
        self, model: LowRankModel, unknown: list[Array], w: Array, sigma: float, level: float
    ) -> None:
        self.model, self.unknown, self.w = model, unknown, w
        self.sigma, self.level = sigma, level
        *factors, a = unknown
        self.ranks = tuple(y.shape[1] for y in factors)
        self.x = model.squares(a)
        self.images = [p.images(y) for p, y in zip(model.parts, factors, strict=True)]
        self.costs = [p.cost(y) for p, y in zip(model.parts, factors, strict=True)]
        self.q = np.concatenate([np.einsum("pk,pk->p", v, v) for v in self.images])
        self.t = model.rows_q @ self.q + model.rows_x @ self.x - model.b
        self.u, self.stiff, self.penalty = _penalties(model, self.t, w, sigma, level)

    def moved(self, unknown: list[Array]) -> LagrangianPoint:
        """The same function elsewhere."""
        return LagrangianPoint(self.model, unknown, self.w, self.sigma, self.level)

    def after(self, step: Array) -> LagrangianPoint:
        """The same function one step on."""
        model = self.model
        return self.moved(model.shaped(model.flat(self.unknown) + step, self.ranks))

    @cached_property
    def primal_value(self) -> float:
        """The objective of the maximisation."""
        gain = sum(float(np.vdot(y, c)) for y, c in zip(self.unknown, self.costs, strict=False))
        m = self.model
        gain += float(m.cost_q @ self.q) + float(m.cost_x @ self.x)
        return gain - 0.5 * float(m.curvature_x @ self.x**2)

    @cached_property
    def value(self) -> float:
        """The augmented Lagrangian."""
        return self.penalty - self.primal_value

    @cached_property
    def weights(self) -> list[Array]:
        """A_qᵀu − g, block by block."""
        m = self.model
        return m.program.split(m.back_q @ self.u - m.cost_q)

    @cached_property
    def reduced(self) -> Array:
        """The derivative in x."""
        m = self.model
        return np.asarray(m.rows_x.T @ self.u - m.cost_x + m.curvature_x * self.x)

    @cached_property
    def gradient(self) -> Array:
        """2SY, and the derivative in what stands for x."""
        out = [
            2 * part.projected(part.gathered(u[:, None] * image) - cost)
            for part, u, image, cost in zip(
                self.model.parts, self.weights, self.images, self.costs, strict=True
            )
        ]
        return self.model.flat([*out, self.reduced * self.model.slopes(self.unknown[-1])])

    @property
    def residual(self) -> float:
        """What the rows, or complementarity with their multipliers, are off."""
        side = self.model.side
        off = np.where(side == 0, np.abs(self.u - self.w) / self.sigma, side * self.t)
        products = np.abs(self.t[side != 0] * self.u[side != 0]) / self.level
        return float(max(off.max(initial=0.0), products.max(initial=0.0)))

    @cached_property
    def bend(self) -> Array:
        """The Hessian's diagonal in what stands for x, beside that of the rows."""
        m = self.model
        squared = 2 * self.reduced + m.curvature_x * (2 * self.unknown[-1]) ** 2
        return np.where(m.free, m.curvature_x, squared)

    def hessian(self, flat: Array) -> Array:
        """The Hessian times a vector."""
        m = self.model
        if m.is_graph:
            return self._graph_hessian(flat)
        *changes, da = m.shaped(flat, self.ranks)
        along = [part.images(z) for part, z in zip(m.parts, changes, strict=True)]
        dq = [2 * np.einsum("pk,pk->p", v, z) for v, z in zip(self.images, along, strict=True)]
        slopes = m.slopes(self.unknown[-1])
        ds = self.stiff * (m.rows_q @ np.concatenate(dq) + m.rows_x @ (slopes * da))
        du = m.program.split(m.back_q @ ds)
        out = [
            2 * part.projected(part.gathered(u[:, None] * z + s[:, None] * v) - part.cost(change))
            for part, u, z, s, v, change in zip(
                m.parts, self.weights, along, du, self.images, changes, strict=True
            )
        ]
        return m.flat([*out, self.bend * da + slopes * (m.rows_x.T @ ds)])

    def _graph_hessian(self, flat: Array) -> Array:
        """The same where rows are edges, in one pass over them."""
        m = self.model
        stiff = m.program.split(m.rows_q.data**2 * self.stiff)
        *changes, _ = m.shaped(flat, self.ranks)
        out = []
        for part, u, s, v, z in zip(
            m.parts, self.weights, stiff, self.images, changes, strict=True
        ):
            image = -2 * part.cost(z)
            edges = part.block.incidence.indices.reshape(-1, 2)
            _add_edges(edges, u, s, v, np.ascontiguousarray(z), image)
            out.append(part.projected(image))
        return m.flat(out)

    def dense_hessian(self) -> Array:
        """The Hessian as a matrix."""
        m = self.model
        jacobians, diagonals = [], []
        for part, span, u, image in zip(
            m.parts, m.program.spans, self.weights, self.images, strict=True
        ):
            # Null directions are taken out of everything, and made stiff.
            block, basis = part.block, part.block.null_basis
            v = dense(block.vectors())
            v = v - (v @ basis) @ basis.T
            both = 2 * (v[:, :, None] * image[:, None, :])
            both = both.reshape(len(v), v.shape[1] * image.shape[1])
            jacobians.append(m.rows_q[:, span] @ both)
            slack = v.T @ (u[:, None] * v)
            slack -= part.sign * block.project_out_null(block.cost.dense())
            slack += np.linalg.norm(slack) * (basis @ basis.T)
            diagonals.append(np.kron(2 * slack, np.eye(image.shape[1])))
        slopes = m.slopes(self.unknown[-1])
        jacobian = np.hstack([*jacobians, dense(m.rows_x) * slopes])
        out = scipy.linalg.block_diag(*diagonals, np.diag(self.bend))
        return np.asarray(out + jacobian.T @ (self.stiff[:, None] * jacobian))
