"""Low-rank factors, M = Y Yᵀ, by an augmented Lagrangian with Newton steps.

For the maximisation in squared lengths (a minimisation is negated) the factors minimise

    −<C, YYᵀ> − gᵀq − cᵀx + ½Σh_j x_j² + Σ_e ψ_e(t_e),   t = A_q q + A_x x − b,  q_p = ‖Yᵀv_p‖²

and then the multipliers become  w_e ← u_e = ψ_e′(t_e).  There are two kinds of ψ:

    rows with a box    ψ(t) = max_{lo ≤ u ≤ hi} (u t − (u − w)²/2σ),    u = clip(w + σt, lo, hi)
    rows with a sign   ψ(t) = (w/κ)·φ(κt),   φ(τ) = −log(1 − τ), beyond τ = ½ its parabola,
                       u = w·φ′(κt)

Boxes hold the prices of the slack variables that occur in one row alone, which are thereby
eliminated; an equation's box has no limits. Rows ≤ and ≥ have multipliers with a sign: the second
ψ (Polyak 1992; Ben-Tal and Zibulevsky 1997) has no kinks, which cost Newton's method dear where
ten thousands of rows change sides, and keeps every multiplier positive, so that no part of a
graph comes loose. Other nonnegative variables are squares, x_j = z_j²; free ones are themselves.
With S = Vᵀdiag(A_qᵀu − g)V − C,

    gradient   2 S Y
    Hessian    Z ↦ 2 S Z + 2 Vᵀdiag(A_qᵀs)V Y,   s = ψ″(t)·A_q (2 <v_pᵀY, v_pᵀZ>)_p

Newton's equations are solved by conjugate gradients within a trust region, preconditioned by the
Hessian itself where it is small, and else by one stiffness matrix for all columns of Y, factored,
or by its diagonal where the factor of a graph fills in too much.

Y is not convex, S tells: at a stationary point SY = 0, and YYᵀ is optimal iff S ⪰ 0. Where S has
negative eigenvalues their eigenvectors are directions of descent that Y's columns do not span:
they become further columns, and singular values that vanish are dropped. The multipliers w are
the answer's dual; the certificate bounds the optimum by them, scaled or repaired as the program
allows (for a graph: dᵀw/λ₂(L(w))).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.numerics.kernels import clock, fast_kernel
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.gram import FactoredGram, Matrix, is_finite
from sdpkit.program.kinds import why_no_graph
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solution import Solution
from sdpkit.solution.solver import Capabilities, dense_work, digits, unsupported
from sdpkit.solvers.recognition import drifting_apart, shortcut

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAX_ITER = 2000  # Newton steps
_DENSE = 1500  # unknowns up to which the Hessian is formed
_ENOUGH = 30_000  # unknowns up to which the first rank is one that leaves no false minima
_FIRST_RANK = 12  # the first rank beyond that
_GROW = 12  # columns added at a time, at most
_TIGHTEN = 0.25  # what a multiplier update should leave of the residual; else σ grows
_RAISE = 4.0  # by this much
_STIFF = 1e8  # rows that are violated at this times the first σ cannot be met
_STALLS = 25  # updates without a better point
_PRODUCTS = 300  # products with the Hessian per Newton step, at most
_LIFETIME = 8  # Newton steps that share a preconditioner
_STEPS = 60  # Newton steps per multiplier update, at most
_FAR = 1e7  # a trace beyond this times the program's own scale has no bound


# -- the program in units of one --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """One block: its measurements V = B X, its cost, its null directions."""

    block: Block
    sign: float
    back: sp.csr_array

    @classmethod
    def of(cls, block: Block, sign: float) -> _Part:
        return cls(block, sign, sp.csr_array(block.incidence.T))

    def images(self, y: Array) -> Array:
        """V Y, (p, r)."""
        x = self.block.features
        return np.asarray(self.block.incidence @ (y if x is None else x @ y))

    def gathered(self, u: Array) -> Array:
        """Vᵀ U, (n, r)."""
        x, out = self.block.features, self.back @ u
        return np.asarray(out if x is None else x.T @ out)

    def cost(self, y: Array) -> Array:
        """C Y."""
        cost = self.block.cost
        out = cost.identity * y
        if cost.sparse.nnz:
            out = out + cost.sparse @ y
        if cost.factor.shape[1]:
            out = out + cost.factor @ (cost.weights[:, None] * (cost.factor.T @ y))
        return np.asarray(self.sign * out)

    def projected(self, y: Array) -> Array:
        """Y without what the null directions see."""
        q = self.block.null_basis
        return y - q @ (q.T @ y) if q.shape[1] else y


@dataclass(frozen=True, eq=False)
class _Model:
    """The maximisation with rows of norm one, right-hand sides and costs of size one.

    M = unit·M',  w = price·unit·w'/norms;  `kept` are the auxiliary variables that no box stands
    for;  `side` is ±1 where a multiplier has a sign and no other limit.
    """

    program: Program
    parts: tuple[_Part, ...]
    rows_q: sp.csr_array
    back_q: sp.csr_array
    rows_x: sp.csr_array
    b: Array
    lo: Array
    hi: Array
    cost_q: Array
    kept: Ints
    free: NDArray[np.bool_]
    cost_x: Array
    curvature_x: Array
    norms: Array
    unit: float
    price: float
    side: Array

    @classmethod
    def of(cls, program: Program) -> _Model:
        sign = program.sign
        unit = float((np.abs(program.rhs) / program.row_norms).max(initial=0.0)) or 1.0
        norms = unit * program.row_norms
        if np.all(program.rhs > 0):
            # Lengths: each row in units of its own.
            norms = np.maximum(program.rhs, 1e-3 * program.rhs.max())
        costs = [block.cost.magnitude() for block in program.blocks]
        linear = np.concatenate([program.cost_x, program.cost_q])
        price = max(*costs, float(np.abs(linear).max(initial=0.0))) or 1.0
        kept = np.flatnonzero(~_boxed(program))
        lo, hi = program.multiplier_box
        scale = sp.diags_array(unit / norms)
        rows_q = sp.csr_array(scale @ program.rows_q)
        above, below = (lo == 0) & np.isinf(hi), (hi == 0) & np.isinf(lo)
        return cls(
            program,
            tuple(_Part.of(block, sign / price) for block in program.blocks),
            rows_q,
            sp.csr_array(rows_q.T),
            sp.csr_array(scale @ program.rows_x[:, kept]),
            program.rhs / norms,
            lo * norms / (price * unit),
            hi * norms / (price * unit),
            sign * program.cost_q / price,
            kept,
            program.free_x[kept],
            sign * program.cost_x[kept] / price,
            program.quadratic_x[kept] * unit / price,
            norms,
            unit,
            price,
            np.where(above, 1.0, np.where(below, -1.0, 0.0)),
        )

    @cached_property
    def is_graph(self) -> bool:
        """Whether the rows are the edges of graphs and all auxiliary variables have boxes."""
        return not self.kept.size and why_no_graph(self.program) is None

    # An unknown is the list of the blocks' Y and, last, the vector that stands for x.

    def flat(self, unknown: list[Array]) -> Array:
        """All unknowns in one vector."""
        return np.concatenate([a.ravel() for a in unknown])

    def shaped(self, flat: Array, ranks: tuple[int, ...]) -> list[Array]:
        """The blocks' Y and the vector for x, as views."""
        out, start = [], 0
        for part, rank in zip(self.parts, ranks, strict=True):
            stop = start + part.block.size * rank
            out.append(flat[start:stop].reshape(part.block.size, rank))
            start = stop
        return [*out, flat[start:]]

    def squares(self, a: Array) -> Array:
        """x of the vector that stands for it."""
        return np.where(self.free, a, a * a)

    def slopes(self, a: Array) -> Array:
        """dx/da."""
        return np.where(self.free, 1.0, 2 * a)

    def dual(self, w: Array) -> Array:
        """Multipliers of the program's maximisation."""
        return np.asarray(self.price * self.unit * w / self.norms)

    def own(self, w: Array) -> Array:
        """The program's multipliers, of its maximisation, in the units of here."""
        return np.clip(w * self.norms / (self.price * self.unit), self.lo, self.hi)


def _boxed(program: Program) -> NDArray[np.bool_]:
    """Which auxiliary variables the box of a multiplier stands for."""
    counts = np.diff(sp.csc_array(program.rows_x).indptr)
    return np.asarray((counts == 1) & ~program.free_x & (program.quadratic_x == 0))


def _penalties(
    model: _Model, t: Array, w: Array, sigma: float, level: float
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


class _Point:
    """The augmented Lagrangian and its derivatives at one Y."""

    def __init__(
        self, model: _Model, unknown: list[Array], w: Array, sigma: float, level: float
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

    def moved(self, unknown: list[Array]) -> _Point:
        """The same function elsewhere."""
        return _Point(self.model, unknown, self.w, self.sigma, self.level)

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
            image -= image.mean(axis=0)
            out.append(image)
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
            both = 2 * (v[:, :, None] * image[:, None, :]).reshape(len(v), -1)
            jacobians.append(m.rows_q[:, span] @ both)
            slack = v.T @ (u[:, None] * v)
            slack -= part.sign * block.project_out_null(block.cost.dense())
            slack += np.linalg.norm(slack) * (basis @ basis.T)
            diagonals.append(np.kron(2 * slack, np.eye(image.shape[1])))
        slopes = m.slopes(self.unknown[-1])
        jacobian = np.hstack([*jacobians, dense(m.rows_x) * slopes])
        out = scipy.linalg.block_diag(*diagonals, np.diag(self.bend))
        return np.asarray(out + jacobian.T @ (self.stiff[:, None] * jacobian))


# -- Newton's method --------------------------------------------------------------------------


def _preconditioner(point: _Point) -> Callable[[Array], Array]:
    """An approximate inverse of the Hessian, positive definite."""
    size = sum(a.size for a in point.unknown)
    if size <= _DENSE:
        return _dense_inverse(point.dense_hessian())
    return _laplacian_inverse(point)


def _dense_inverse(hessian: Array) -> Callable[[Array], Array]:
    """(H + τI)⁻¹ with the smallest τ of a geometric sequence that makes it positive definite."""
    places = np.diag_indices(len(hessian))
    size = float(np.abs(hessian).max()) or 1.0
    diagonal = hessian[places].copy()
    for power in (-13.0, *np.arange(-10, 4, 0.5)):
        hessian[places] = diagonal + size * 10.0**power
        factor, info = scipy.linalg.lapack.dpotrf(hessian, lower=1)
        if info == 0:
            return lambda r: np.asarray(scipy.linalg.lapack.dpotrs(factor, r, lower=1)[0])
    return lambda r: r / size


def _minimise(
    point: _Point, tol: float, steps: int, expired: Callable[[], bool]
) -> tuple[_Point, int]:
    """Newton steps within a trust region until the gradient is at most `tol`."""
    model, radius, taken, age = point.model, np.inf, 0, 0
    lifetime = 1 if sum(a.size for a in point.unknown) <= _DENSE else _LIFETIME
    while taken < steps and np.linalg.norm(point.gradient) > tol and not expired():
        if age % lifetime == 0:
            inverse = _preconditioner(point)
        taken, age = taken + 1, age + 1
        if not np.isfinite(radius):
            radius = 10 * float(np.sqrt(abs(point.gradient @ inverse(point.gradient))))
        for _ in range(30):
            step, predicted, size = _truncated(point, inverse, radius, 0.1 * tol)
            flat = model.flat(point.unknown) + step
            moved = point.moved(model.shaped(flat, point.ranks))
            gained = point.value - moved.value
            # Where rounding hides what is gained, the gradient decides.
            blurred = predicted <= 1e-11 * (abs(point.value) + 1e-300)
            if blurred and np.linalg.norm(moved.gradient) < np.linalg.norm(point.gradient):
                break
            if blurred:
                return point, taken
            if gained >= 0.1 * predicted:
                radius = max(radius, 3 * size) if gained > 0.7 * predicted else radius
                break
            radius = 0.25 * size
        else:
            return point, taken
        point = moved
    return point, taken


def _truncated(
    point: _Point, inverse: Callable[[Array], Array], radius: float, tol: float
) -> tuple[Array, float, float]:
    """Conjugate gradients on Newton's equations until they are solved, leave the trust region or
    find negative curvature (Steihaug 1983): the step, what the model gains, and its length."""
    r = -point.gradient
    x, hx = np.zeros(r.size), np.zeros(r.size)
    z = inverse(r)
    rz = float(r @ z)
    goal = min(0.1, np.sqrt(np.linalg.norm(r))) * float(np.linalg.norm(r))
    goal = max(goal, tol)
    direction, xx, xd, dd = z, 0.0, 0.0, rz  # products in the norm of the preconditioner
    for _ in range(_PRODUCTS):
        image = point.hessian(direction)
        curvature = float(direction @ image)
        alpha = rz / curvature if curvature > 0 else np.inf
        ahead = xx + 2 * alpha * xd + alpha**2 * dd if np.isfinite(alpha) else np.inf
        if ahead >= radius**2:
            alpha = (-xd + np.sqrt(max(xd**2 + dd * (radius**2 - xx), 0.0))) / dd
            x, hx, xx = x + alpha * direction, hx + alpha * image, radius**2
            break
        x, hx, xx = x + alpha * direction, hx + alpha * image, ahead
        r = r - alpha * image
        if np.linalg.norm(r) <= goal:
            break
        z = inverse(r)
        before, rz = rz, float(r @ z)
        if not rz > 0:
            break
        beta = rz / before
        xd, dd = beta * (xd + alpha * dd), rz + beta**2 * dd
        direction = z + beta * direction
    predicted = -float(point.gradient @ x) - 0.5 * float(x @ hx)
    return x, predicted, float(np.sqrt(xx))


def _laplacian_inverse(point: _Point) -> Callable[[Array], Array]:
    """One matrix for all columns of Y: every measurement is as stiff in all directions as it is
    on average in that of its own image, and the cost does not pull.

        R = Vᵀ diag(2u + 4s‖v_pᵀY‖²/r)₊ V + ε
    """
    m = point.model
    squared = m.back_q.multiply(m.back_q) @ point.stiff
    solves = []
    for part, u, s, image in zip(
        m.parts, point.weights, m.program.split(squared), point.images, strict=True
    ):
        rank = image.shape[1]
        along = 4 * s * np.einsum("pk,pk->p", image, image) / rank
        solves.append(_stiffness_inverse(part.block, np.maximum(2 * u, 0.0) + along))
    slopes = m.slopes(point.unknown[-1])
    square = m.rows_x.multiply(m.rows_x).T @ point.stiff
    diagonal = np.abs(point.bend) + slopes**2 * square
    diagonal = np.where(diagonal > 0, diagonal, 1.0)

    def inverse(flat: Array) -> Array:
        *changes, da = m.shaped(flat, point.ranks)
        out = [
            part.projected(solve(z))
            for part, solve, z in zip(m.parts, solves, changes, strict=True)
        ]
        return m.flat([*out, da / diagonal])

    return inverse


def _stiffness_inverse(block: Block, weights: Array) -> Callable[[Array], Array]:
    """(Vᵀ diag(weights) V + ε)⁻¹ by a sparse or a dense factor."""
    if block.is_large_graph:
        from sdpkit.numerics.sparse_factor import SparseFactor

        pattern = block.pattern
        shift = 1e-3 * float(weights.mean())
        if pattern.is_heavy:
            # Graphs that fill in so much are well connected: their degrees do nearly as well.
            degrees = np.bincount(pattern.edges.ravel(), np.repeat(weights, 2), block.size)
            return lambda r: r / (degrees + shift)[:, None]
        factor = SparseFactor.of(pattern, pattern.laplacian(weights, shift))
        return factor.solve
    image = dense(block.adjoint(weights))
    image[np.diag_indices(block.size)] += 1e-6 * float(np.trace(image)) / block.size + 1e-300
    lower = scipy.linalg.cholesky(image, lower=True)
    return lambda r: np.asarray(scipy.linalg.cho_solve((lower, True), r))


# -- where to start ---------------------------------------------------------------------------


@dataclass
class _State:
    """What goes from one multiplier update to the next."""

    unknown: list[Array]
    w: Array
    sigma: float
    level: float
    residual: float = np.inf

    @property
    def ranks(self) -> tuple[int, ...]:
        """Columns of each block's Y."""
        return tuple(y.shape[1] for y in self.unknown[:-1])


def _start(model: _Model, settings: Settings) -> _State:
    """From a checkpoint, a given solution, a given embedding, or the slowest modes."""
    cold = _cold(model)
    kept = settings.checkpoint.state if settings.checkpoint is not None else None
    if kept is not None:
        factors = [kept[f"factor{k}"] for k in range(len(model.parts))]
        scalars = (float(kept[name]) for name in ("sigma", "level", "residual"))
        return _State([*factors, kept["auxiliary"]], kept["weights"], *scalars)
    given = settings.warm_start
    if given is not None and _fits(model.program, given):
        cold.unknown[:-1] = [
            part.projected(_root(matrix) / np.sqrt(model.unit))
            for part, matrix in zip(model.parts, given.matrices, strict=True)
        ]
        if given.dual is not None and np.isfinite(given.dual).all():
            w = model.own(model.program.sign * given.dual)
            cold.level = max(float(np.abs(w).mean()), 0.1)
            least = 1e-3 * cold.level
            cold.w = np.where(model.side != 0, model.side * np.maximum(np.abs(w), least), w)
            cold.sigma = 30 * cold.level
    if settings.options.get("init") is not None:
        cold.unknown[:-1] = _given_factors(model, settings.options["init"])
    return cold


def _fits(program: Program, given: Solution) -> bool:
    """Whether a solution has the shapes of this program and numbers in them."""
    shapes = [(block.size, block.size) for block in program.blocks]
    if [matrix.shape for matrix in given.matrices] != shapes or given.dual is None:
        return False
    return given.dual.size == program.n_rows and all(is_finite(m) for m in given.matrices)


def _root(matrix: Matrix) -> Array:
    """Y with YYᵀ the matrix, or its leading part."""
    if isinstance(matrix, FactoredGram):
        return matrix.factor
    if isinstance(matrix, np.ndarray):
        values, vectors = scipy.linalg.eigh(matrix)
    else:
        values, vectors = matrix.leading(min(2 * _FIRST_RANK, matrix.shape[0] - 1))
    kept = values > 1e-9 * max(float(values.max()), 0.0)
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept])) if kept.any() else vectors[:, :1]


def _given_factors(model: _Model, init: Any) -> list[Array]:
    """An embedding, (n, r), or one per block, as factors."""
    given = [init] if len(model.parts) == 1 and not isinstance(init, list | tuple) else init
    sizes = [part.block.size for part in model.parts]
    factors = [np.asarray(y, dtype=np.float64) for y in given]
    shapes = [y.shape for y in factors]
    fits = len(factors) == len(sizes) and all(
        len(shape) == 2 and shape[0] == n and shape[1] > 0
        for shape, n in zip(shapes, sizes, strict=False)
    )
    if not fits or not all(np.isfinite(y).all() for y in factors):
        raise InputError(f"init has shapes {shapes}; it must be finite, (n, r) with n = {sizes}")
    pairs = zip(model.parts, factors, strict=True)
    return [part.projected(y / np.sqrt(model.unit)) for part, y in pairs]


def _first_ranks(program: Program) -> list[int]:
    """√(2·rows) + 1, beyond which stationary points of full generality are optimal, where that
    is affordable; a few columns else."""
    enough = int(np.sqrt(2 * program.n_rows)) + 1
    out = []
    for block in program.blocks:
        room = block.size - block.null_basis.shape[1]
        few = enough if block.size * min(enough, room) <= _ENOUGH else _FIRST_RANK
        out.append(max(1, min(room, few)))
    return out


def _cold(model: _Model) -> _State:
    """The slowest modes of the measurements, in the size at which the rows are met best."""
    program = model.program
    w = np.clip(np.zeros(program.n_rows), model.lo, model.hi)
    if program.safe.direction is not None:
        pull = max(model.parts[k].sign * b.cost.identity for k, b in enumerate(program.blocks))
        if pull > 0:
            w = model.own(program.sign * program.safe.direction * pull * model.price)
    factors = []
    rng = np.random.default_rng(0)
    ones = np.ones(program.rows_q.shape[1])
    for part, u, rank in zip(model.parts, program.split(ones), _first_ranks(program), strict=True):
        values, vectors = _lowest(part, u, rank, cost=False)
        y = vectors / np.sqrt(np.maximum(values, 1e-3 * values.max() + 1e-12))
        y = y + 1e-2 * np.linalg.norm(y) / np.sqrt(y.size) * rng.standard_normal(y.shape)
        factors.append(part.projected(y))
    level = max(float(np.abs(w).mean()), 0.1)
    w = np.where(model.side != 0, model.side * np.maximum(np.abs(w), level), w)
    sigma = level / (float(np.abs(model.b).mean()) or 1.0)
    return _State([*_fitted(model, factors), np.where(model.free, 0.0, 0.3)], w, sigma, level)


def _fitted(model: _Model, factors: list[Array]) -> list[Array]:
    """The factors times the number that brings the rows nearest to their right-hand sides."""
    images = [part.images(y) for part, y in zip(model.parts, factors, strict=True)]
    values = model.rows_q @ np.concatenate([np.einsum("pk,pk->p", v, v) for v in images])
    size = float(values @ values)
    scale = float(values @ model.b) / size if size > 0 else 1.0
    if not scale > 0:
        scale = 1 / np.sqrt(size) if size > 0 else 1.0
    return [np.sqrt(scale) * y for y in factors]


def _lowest(part: _Part, u: Array, k: int, cost: bool = True) -> tuple[Array, Array]:
    """The k smallest eigenvalues, rising, and eigenvectors of Vᵀdiag(u)V − C on the face."""
    block, pull = part.block, part.sign if cost else 0.0
    if block.is_large_graph:
        from sdpkit.numerics.eigenpairs import lowest_on_centred

        update = block.low_rank.scaled(pull) if pull and block.low_rank else None
        return lowest_on_centred(block.pattern, u, pull * block.cost.identity, k, update)
    slack = dense(block.adjoint(u)) - (pull * block.cost.dense() if pull else 0.0)
    basis = block.null_basis
    slack = block.project_out_null(slack)
    lift = np.linalg.norm(slack) + 1.0
    room = block.size - basis.shape[1]
    found = scipy.linalg.eigh(slack + lift * basis @ basis.T, subset_by_index=[0, min(k, room) - 1])
    return found[0], found[1]


# -- the outer loop ---------------------------------------------------------------------------


@dataclass
class _Best:
    """The best point so far, and for how many updates it has been."""

    merit: float
    point: _Point
    age: int = 0


class _Run:
    """Multiplier updates, ranks, history and the end."""

    def __init__(self, model: _Model, settings: Settings, deadline: float | None) -> None:
        self.model, self.settings, self.deadline = model, settings, deadline
        self.history: list[Mapping[str, float]] = []
        kept = None if settings.checkpoint is None else settings.checkpoint.state
        self.steps = 0 if kept is None else int(kept["steps"])
        self.limit = self.steps + (settings.max_iter or _MAX_ITER)
        self.best: _Best | None = None

    def expired(self) -> bool:
        return self.deadline is not None and clock() > self.deadline

    def through(self, state: _State) -> tuple[Stop, str]:
        """Update multipliers until the gap is what was asked for; why it ended."""
        tol, first = self.settings.tol, state.sigma
        accuracy = 0.1
        while True:
            point = self._point(state, state.unknown)
            size = sum(float(np.linalg.norm(c)) for c in point.costs) + 1e-3
            room = min(_STEPS, self.limit - self.steps)
            point, taken = _minimise(point, accuracy * size, room, self.expired)
            self.steps += max(taken, 1)
            before = state.residual
            state.w, state.residual = self._updated(point), point.residual
            state.unknown = [*map(_trimmed, point.unknown[:-1]), point.unknown[-1]]
            lacks = self._lacks(point)
            self._record(point, state, lacks)
            gap = self._gap(point, lacks)
            self._keep(point, gap)
            verdict = self._verdict(point, state, gap, first)
            if verdict is not None:
                return verdict
            if state.residual > _TIGHTEN * before:
                state.sigma *= _RAISE
            accuracy = max(0.01 * tol, min(0.3 * accuracy, state.residual))
            self._grow(point, state, lacks)
            if self.settings.checkpoint is not None and self.settings.checkpoint.is_due:
                self.save(state)

    def save(self, state: _State) -> None:
        """Write what the multiplier updates have reached to the checkpoint, if there is one."""
        if self.settings.checkpoint is None:
            return
        *factors, auxiliary = state.unknown
        self.settings.checkpoint.save(
            steps=self.steps,
            **{f"factor{k}": y for k, y in enumerate(factors)},
            auxiliary=auxiliary,
            weights=state.w,
            sigma=state.sigma,
            level=state.level,
            residual=state.residual,
        )

    @cached_property
    def natural(self) -> float:
        """The trace that the rows allow, as far as the program knows."""
        known = self.model.program.safe.trace
        if known is not None and np.isfinite(known).all():
            return float(sum(known)) / self.model.unit
        return float(sum(block.size**2 for block in self.model.program.blocks))

    def _updated(self, point: _Point) -> Array:
        """The next multipliers; those with a sign never vanish, or they could not come back."""
        side = self.model.side
        least = 1e-2 * self.settings.tol * float(np.abs(point.u).mean())
        return np.where(side != 0, side * np.maximum(np.abs(point.u), least), point.u)

    def _point(self, state: _State, unknown: list[Array]) -> _Point:
        return _Point(self.model, unknown, state.w, state.sigma, state.level)

    def _lacks(self, point: _Point) -> list[tuple[Array, Array]]:
        """Per block the lowest eigenpairs of the dual slack."""
        parts = zip(self.model.parts, point.weights, strict=True)
        return [_lowest(part, u, _GROW) for part, u in parts]

    def _gap(self, point: _Point, lacks: list[tuple[Array, Array]]) -> float:
        """What the certificate will find, about: the dual value and what its slack lacks, at the
        trace of the primal, against the primal value."""
        m = self.model
        dual = float(m.b @ point.u)
        curved = m.curvature_x > 0
        r = (m.rows_x.T @ point.u - m.cost_x)[curved]
        r = np.where(m.free[curved], r, np.minimum(r, 0.0))
        dual += 0.5 * float(np.sum(r**2 / m.curvature_x[curved]))
        for (values, _), y in zip(lacks, point.unknown, strict=False):
            dual += max(0.0, -float(values[0])) * float(np.vdot(y, y))
        lack = np.where(m.free | curved, 0.0, np.maximum(-point.reduced, 0.0))
        dual += float(lack @ np.maximum(point.x, 1.0))
        slack = self._slack_value(point)
        scale = m.program.safe.value_scale / (m.unit * m.price)
        primal = point.primal_value + slack
        return abs(dual - primal) / max(abs(dual), abs(primal), scale)

    def _slack_value(self, point: _Point) -> float:
        """The objective of the variables that boxes stand for: their rows' residuals at the
        limits of their multipliers."""
        m = self.model
        lo, hi = (np.where(np.isfinite(a), a, 0.0) for a in (m.lo, m.hi))
        over, under = np.maximum(point.t, 0.0), np.minimum(point.t, 0.0)
        return -float(hi @ over + lo @ under)

    def _verdict(
        self, point: _Point, state: _State, gap: float, first: float
    ) -> tuple[Stop, str] | None:
        tol = self.settings.tol
        if gap <= 0.5 * tol and self._violation(point) <= 0.3 * tol:
            return Stop.DONE, f"converged: relative gap {gap:.1e}"
        if self.steps >= self.limit:
            return Stop.ITERATION_LIMIT, f"{self.limit} Newton steps"
        if self.expired():
            return Stop.TIME_LIMIT, "time limit"
        if sum(float(np.vdot(y, y)) for y in state.unknown) > _FAR * (1 + self.natural):
            return Stop.CLAIMS_UNBOUNDED, "the factors grow without bound"
        if state.sigma > _STIFF * first and state.residual > 1e-5:
            return Stop.CLAIMS_INFEASIBLE, "the rows stay violated, however stiff"
        if self.best is not None and self.best.age > _STALLS:
            return Stop.DONE, f"no progress beyond a relative gap of {gap:.1e}"
        return None

    def _keep(self, point: _Point, gap: float) -> None:
        """Remember the point if it is the best so far."""
        merit = max(gap, self._violation(point))
        if self.best is None or merit < self.best.merit:
            self.best = _Best(merit, point)
        else:
            self.best.age += 1

    def _violation(self, point: _Point) -> float:
        """What the rows are off, as the certificate sees it: against the largest right-hand side,
        or each against its own where M is shrunk into its limits."""
        m = self.model
        slack = np.isfinite(m.lo) & (m.lo != 0) | np.isfinite(m.hi) & (m.hi != 0)
        if np.all(m.program.relations == -1) and np.all(m.b > 0):
            return float((point.t / m.b).max(initial=0.0))
        off = np.where(slack, 0.0, np.abs(point.u - point.w) / point.sigma)
        return float(off.max(initial=0.0))

    def _grow(self, point: _Point, state: _State, lacks: list[tuple[Array, Array]]) -> None:
        """Further columns along the eigenvectors by which the dual slack is negative."""
        m = self.model
        total = max(abs(point.primal_value), m.program.safe.value_scale / (m.unit * m.price))
        for k, ((values, vectors), y) in enumerate(zip(lacks, state.unknown[:-1], strict=True)):
            trace = max(float(np.vdot(y, y)), 1.0)  # Y may be zero, and stationary
            down = values * trace < -0.1 * self.settings.tol * total
            if down.any():
                columns = m.parts[k].projected(vectors[:, down])
                state.unknown[k] = self._with_columns(state, k, columns)
        # The same for the squares that stand for x: zero is stationary, and may be wrong.
        stuck = ~m.free & (point.reduced < -0.1 * self.settings.tol * total)
        auxiliary = state.unknown[-1]
        state.unknown[-1] = np.where(stuck, np.maximum(np.abs(auxiliary), 0.1), auxiliary)

    def _with_columns(self, state: _State, k: int, columns: Array) -> Array:
        """Y with further columns, as long as the augmented Lagrangian likes them best."""
        y, best, out = state.unknown[k], np.inf, state.unknown[k]
        size = float(np.linalg.norm(y)) + 1e-3
        for length in size * 10.0 ** np.arange(-4, 0.1, 0.5):
            trial = [*state.unknown]
            trial[k] = np.hstack([y, length / np.sqrt(columns.shape[1]) * columns])
            value = self._point(state, trial).value
            if value < best:
                best, out = value, trial[k]
        return out

    def _record(self, point: _Point, state: _State, lacks: list[tuple[Array, Array]]) -> None:
        m, sign = self.model, self.model.program.sign
        unit = m.unit * m.price
        row = {
            "iteration": float(self.steps),
            "objective": sign * unit * (point.primal_value + self._slack_value(point))
            + m.program.offset,
            "dual_objective": sign * unit * float(m.b @ point.u) + m.program.offset,
            "gap": self._gap(point, lacks),
            "residual": self._violation(point),
            "smallest": min(float(values[0]) for values, _ in lacks),
            "rank": float(max(state.ranks)),
            "sigma": state.sigma,
        }
        self.history.append(row)
        if self.settings.verbose > 1:
            print(
                "{iteration:4.0f}  objective {objective:+.9e}  dual {dual_objective:+.9e}  gap "
                "{gap:.1e}  residual {residual:.1e}  smallest {smallest:+.1e}  rank {rank:.0f}  "
                "sigma {sigma:.1e}".format(**row)
            )
        if self.settings.callback is not None and self.settings.callback(row) is True:
            raise KeyboardInterrupt  # it ends like any other interruption

    def answer(self, state: _State, stop: Stop, words: str) -> Answer:
        """The best point in the program's rows, units and signs."""
        m, program = self.model, self.model.program
        best = self.best.point if self.best is not None else self._point(state, state.unknown)
        common = Answer(stop, words, iterations=self.steps, history=tuple(self.history))
        if stop is Stop.CLAIMS_INFEASIBLE:
            return replace(common, multiplier_ray=program.sign * m.dual(best.u))
        matrices = tuple(
            _formed(block, np.sqrt(m.unit) * y)
            for block, y in zip(program.blocks, best.unknown[:-1], strict=True)
        )
        dual = program.sign * m.dual(self._updated(best))
        return replace(common, matrices=matrices, x=_auxiliary(m, best), dual=dual)


def _formed(block: Block, y: Array) -> Matrix:
    """YYᵀ: a factor for large graphs, an array for small blocks."""
    return FactoredGram(y) if block.is_large_graph else y @ y.T


def _auxiliary(model: _Model, point: _Point) -> Array:
    """All auxiliary variables; those that boxes stand for are what their rows are off."""
    program = model.program
    out = np.zeros(program.n_auxiliary)
    out[model.kept] = model.unit * point.x
    columns = sp.csc_array(program.rows_x)
    boxed = np.flatnonzero(_boxed(program))
    rows, entries = columns.indices[columns.indptr[boxed]], columns.data[columns.indptr[boxed]]
    # Of several that could take up a row's residual, the cheapest does: that whose limit binds.
    limits = program.sign * program.cost_x[boxed] / entries
    lo, hi = program.multiplier_box
    binds = np.where(entries > 0, limits == lo[rows], limits == hi[rows])
    off = (model.norms * point.t)[rows]
    out[boxed] = np.where(binds, np.maximum(-off / entries, 0.0), 0.0)
    return out


def _trimmed(y: Array) -> Array:
    """Y in the coordinates of its singular vectors, without those that vanish."""
    u, s, _ = np.linalg.svd(y, full_matrices=False)
    kept = max(1, int(np.sum(s > 1e-6 * s.max(initial=0.0))))
    return np.asarray(u[:, :kept] * s[:kept])


# -- the solver -------------------------------------------------------------------------------


# Multiplications of a sparse factorisation beyond which low-rank factors are the cheaper ones.
FILLED = 1_000_000


@dataclass(frozen=True)
class LowRank:
    """The engine behind `solver="lowrank"`."""

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

    def unavailable(self) -> str | None:
        """Always available."""
        return None

    def accepts(self, program: Program) -> str | None:
        """Any program within its capabilities."""
        return unsupported(self.capabilities, program)

    def memory(self, program: Program) -> float:
        """Bytes: some vectors of unknowns, the Hessian where it is formed, the factors."""
        total = 0.0
        for block, rank in zip(program.blocks, _first_ranks(program), strict=True):
            unknowns = float(block.size * rank)
            total += 40.0 * unknowns + 8.0 * rank * block.n_measurements
            total += 3.0 * unknowns**2 if unknowns <= _DENSE else 0.0
            total += 3.0 * block.pattern.size if block.is_large_graph else 6.0 * block.size**2
        return 8.0 * total

    def seconds(self, program: Program, tol: float) -> float:
        """By rows and, where equations keep the optimum from a low rank, by the fill."""
        m = float(program.n_rows)
        large = [block for block in program.blocks if block.is_large_graph]
        if not large or why_no_graph(program) is not None:
            work = dense_work(program)
            return 0.5 + digits(tol) / 6 * (2e-5 * work + 2e-8 * m**3)
        if bool((program.relations != 0).all()):
            return 5e-5 * digits(tol) * m * math.pow(FILLED, 0.25)
        pairs = float(sum(block.pattern.pairs for block in large))
        return 6e-5 * digits(tol) * m * math.pow(max(pairs, 4e7), 0.25)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Recognise what has no optimum, else update multipliers until the gap is met."""
        for option in settings.options:
            if option != "init":
                raise InputError(f"lowrank has no option {option!r}; there is init")
        started = clock()
        if why_no_graph(program) is None:
            without = drifting_apart(program) or shortcut(program)
            if without is not None:
                return replace(without, solve_time=clock() - started)
        model = _Model.of(program)
        deadline = None if settings.time_limit is None else started + settings.time_limit
        run = _Run(model, settings, deadline)
        state = _start(model, settings)
        setup = clock() - started
        try:
            stop, words = run.through(state)
        except KeyboardInterrupt:
            stop, words = Stop.INTERRUPTED, "interrupted"
        run.save(state)
        answer = run.answer(state, stop, words)
        return replace(answer, setup_time=setup, solve_time=clock() - started - setup)


LOWRANK = LowRank()
