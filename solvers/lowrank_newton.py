"""The minimum of an augmented Lagrangian by Newton steps within a trust region.

Newton's equations are solved by conjugate gradients, preconditioned by the Hessian itself where it
is small, and else by one stiffness matrix for all columns of Y, factored, or by its diagonal where
the factor of a graph fills in too much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

import numpy as np
import scipy.linalg

from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.solvers.in_time import stoppable_cholesky
from sdpkit.solvers.lowrank_lagrangian import LagrangianPoint
from sdpkit.typing import Array

DENSE_UNKNOWNS = 1500  # unknowns up to which the Hessian is formed
_PRODUCTS_PER_STEP = 300  # products with the Hessian per Newton step, at most
_PRECONDITIONER_STEPS = 8  # Newton steps that share a preconditioner


class SmoothPoint(Protocol):
    """A function at one point of its domain, which may be curved; steps are flat vectors."""

    @property
    def value(self) -> float:
        """The function."""

    @property
    def gradient(self) -> Array:
        """Its gradient."""

    def hessian(self, flat: Array) -> Array:
        """Its Hessian times a vector."""

    def after(self, step: Array) -> Self:
        """The same function one step on."""


Inverse = Callable[[Array], Array]
Point = TypeVar("Point", bound=SmoothPoint)


def lagrangian_inverse(point: LagrangianPoint) -> Inverse:
    """An approximate inverse of the Hessian of an augmented Lagrangian, positive definite."""
    if _is_small(point):
        return _dense_inverse(point.dense_hessian())
    return _laplacian_inverse(point)


def lagrangian_lifetime(point: LagrangianPoint) -> int:
    """Newton steps that share such an inverse."""
    return 1 if _is_small(point) else _PRECONDITIONER_STEPS


def _is_small(point: LagrangianPoint) -> bool:
    return sum(a.size for a in point.unknown) <= DENSE_UNKNOWNS


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


def minimised(
    point: Point,
    preconditioner: Callable[[Point], Inverse],
    lifetime: int,
    tol: float,
    steps: int,
    expired: Callable[[], bool],
) -> tuple[Point, int]:
    """Newton steps within a trust region until the gradient is at most `tol`; a preconditioner is
    recomputed after `lifetime` of them."""
    radius, taken, age = np.inf, 0, 0
    while taken < steps and np.linalg.norm(point.gradient) > tol and not expired():
        if age % lifetime == 0:
            inverse = preconditioner(point)
        taken, age = taken + 1, age + 1
        if not np.isfinite(radius):
            radius = 10 * float(np.sqrt(abs(point.gradient @ inverse(point.gradient))))
        for _ in range(30):
            step, predicted, size = _truncated(point, inverse, radius, 0.1 * tol, expired)
            moved = point.after(step)
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
    point: SmoothPoint,
    inverse: Inverse,
    radius: float,
    tol: float,
    expired: Callable[[], bool],
) -> tuple[Array, float, float]:
    """Conjugate gradients on Newton's equations until they are solved, leave the trust region or
    find negative curvature (Steihaug 1983): the step, what the model gains, and its length."""
    r = -point.gradient
    x, hx = np.zeros(r.size), np.zeros(r.size)
    z = inverse(r)
    rz = float(r @ z)
    goal = min(0.1, np.sqrt(np.linalg.norm(r))) * float(np.linalg.norm(r))
    goal = max(goal, tol)
    # Products in the norm of the preconditioner; powers of floats would raise where these overflow.
    direction, xx, xd, dd = z, 0.0, 0.0, rz
    for _ in range(_PRODUCTS_PER_STEP):
        image = point.hessian(direction)
        curvature = float(direction @ image)
        alpha = rz / curvature if curvature > 0 else np.inf
        ahead = xx + 2 * alpha * xd + alpha * alpha * dd if np.isfinite(alpha) else np.inf
        if ahead >= radius * radius:
            alpha = (-xd + np.sqrt(max(xd * xd + dd * (radius * radius - xx), 0.0))) / dd
            x, hx, xx = x + alpha * direction, hx + alpha * image, radius * radius
            break
        x, hx, xx = x + alpha * direction, hx + alpha * image, ahead
        r = r - alpha * image
        if np.linalg.norm(r) <= goal or expired():
            break
        z = inverse(r)
        before, rz = rz, float(r @ z)
        if not rz > 0:
            break
        beta = rz / before
        xd, dd = beta * (xd + alpha * dd), rz + beta * beta * dd
        direction = z + beta * direction
    predicted = -float(point.gradient @ x) - 0.5 * float(x @ hx)
    return x, predicted, float(np.sqrt(xx))


def _laplacian_inverse(point: LagrangianPoint) -> Callable[[Array], Array]:
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

        pattern, weights = block.pattern, block.on_pattern(weights, float(weights.max()))
        shift = 1e-3 * float(weights.mean())
        if pattern.is_heavy:
            # Graphs that fill in so much are well connected: their degrees do nearly as well.
            degrees = np.bincount(pattern.edges.ravel(), np.repeat(weights, 2), block.size)
            return lambda r: r / (degrees + shift)[:, None]
        factor = SparseFactor.of(pattern, pattern.laplacian(weights, shift))
        return factor.solve
    image = dense(block.adjoint(weights))
    image[np.diag_indices(block.size)] += 1e-6 * float(np.trace(image)) / block.size + 1e-300
    lower = stoppable_cholesky(image)
    return lambda r: np.asarray(scipy.linalg.cho_solve((lower, True), r))
