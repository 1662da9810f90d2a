"""The minimum volume covering ellipsoid of points (Titterington 1978; Abou-Moustafa and Ferrie).

Of points x_1 … x_m, around a given centre x_q with z_j = x_j − x_q (the robust covariance of the
query metric, eq. 2 and 3 of the paper, with its term γI that keeps a minimal diameter):

    minimise    −log det M + t + γ tr M − d       over M ≻ 0, t ≥ 0
    subject to  z_jᵀ M z_j ≤ t

Dual, with weights φ_j of the constraints (the program's multipliers are −φ_j, as of every ≤ of a
minimisation):

    maximise    log det S,   S = Σ_j φ_j z_j z_jᵀ + γI     subject to  φ ≥ 0,  Σφ ≤ 1

and M = S⁻¹ at the optimum, where both values are log det S. The ellipsoid is zᵀS⁻¹z ≤ t; its log
volume is ½(d log t + log det S) and that of the unit ball. For γ = 0, t = d, and the program is
the paper's (2): no ellipsoid around x_q that holds the points has less volume. At any weights,
with g_j = z_jᵀS⁻¹z_j, log det S falls short by at most d log((max_j g_j + γ tr S⁻¹)/d).

Free centre: the same with z_j = (x_j − x̄; 1) and γ·diag(I, 0). Then det S is that of
Σφ_j(x_j − c)(x_j − c)ᵀ + γI at the centre c = Σφ_j x_j, and t is one more than the ellipsoid's.

The program is that of the points' span. Outside of it S = γI, which a constant accounts for; with
γ = 0 points in a subspace have no volume, and every determinant is that of the span. It is written
in coordinates in which S = I at equal weights, so that units and outliers cost no digits; its
offset gives the constants back. Points that occur several times are one constraint.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_array, require_moderate, require_squarable
from sdpkit.numerics.covering import whitened
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.compilation import minimise
from sdpkit.program.expressions import Unknown, Variable, named
from sdpkit.program.form import Program
from sdpkit.results.ellipsoid import Ellipsoid
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Indices


@dataclass(frozen=True, eq=False, repr=False)
class CoveringEllipsoid:
    """The ellipsoid of least volume that covers points.

    Parameters
    ----------
    X : array-like of shape (m, d)
        The points.
    center : array-like of shape (d,) or None, default None
        The ellipsoid's centre, or None to find the best.
    gamma : float, default 0.0
        γ ≥ 0 in the square of the points' unit; with γ > 0 points in a subspace have one too.

    Attributes
    ----------
    points : array of shape (m, d)
        X as a read-only copy.
    origin : array of shape (d,)
        The given centre, or the mean of the points: where coordinates begin.

    Examples
    --------
    >>> import sdpkit
    >>> problem = CoveringEllipsoid(np.vstack([np.eye(3), -np.eye(3)]))       # the octahedron
    >>> solution = sdpkit.solve(problem)
    >>> solution.status, solution.solver
    (<Status.OPTIMAL: 'optimal'>, 'covering')
    >>> problem.recover(solution).axes.round(6).shape                         # the unit ball
    (3, 3)
    >>> float(round(problem.recover(solution).volume / (4 / 3 * np.pi), 9))
    1.0
    """

    X: ArrayLike
    _: KW_ONLY
    center: ArrayLike | None = None
    gamma: float = 0.0
    points: Array = field(init=False)
    origin: Array = field(init=False)

    @one_blas_thread
    def __post_init__(self) -> None:
        x = finite_array(self.X, "X")
        if x.ndim != 2 or not x.size:
            raise InputError(f"X has shape {x.shape}, expected (m, d): one row per point")
        if not isinstance(self.gamma, int | float | np.number) or not 0 <= self.gamma < np.inf:
            raise InputError(f"gamma is {self.gamma!r}; it must be a number ≥ 0")
        if self.center is None:
            with np.errstate(over="ignore"):
                origin = x.mean(axis=0)
        else:
            origin = finite_array(self.center, "center")
            if origin.shape != (x.shape[1],):
                raise InputError(f"center has shape {origin.shape}, expected ({x.shape[1]},)")
        with np.errstate(over="ignore", invalid="ignore"):
            around = np.nan_to_num(x - origin, nan=np.inf)
        # Next to γ > 0, squares that underflow do not matter.
        (require_squarable if self.gamma else require_moderate)(around, "X minus its center")
        for name, value in (("points", x), ("origin", origin)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        self._check_span()

    def _check_span(self) -> None:
        if self.gamma == 0 and not np.abs(self.points - self.origin).any():
            where = "each other" if self.is_free else "the center"
            raise InputError(
                f"all points coincide with {where}: the ellipsoid is a point; pass gamma > 0"
            )

    def __repr__(self) -> str:
        m, d = self.points.shape
        center = "free" if self.is_free else "given"
        return f"<CoveringEllipsoid: {m} points in {d} dimensions, {center} centre>"

    @property
    def is_free(self) -> bool:
        """True if the centre is to be found."""
        return self.center is None

    @property
    def dimension(self) -> int:
        """The dimension of the ellipsoid: d, or with γ = 0 that of the points' span."""
        return int(self.span.shape[1] if self.gamma == 0 else self.points.shape[1])

    # -- coordinates ---------------------------------------------------------------------------

    @cached_property
    def _unit(self) -> float:
        size = float(np.abs(self.points - self.origin).max())
        return max(size, float(np.sqrt(self.gamma))) or 1.0

    @cached_property
    def _copies(self) -> tuple[Indices, Indices, Indices]:
        """(first, which, count): the points without repetitions, in order of appearance."""
        _, first, which, count = np.unique(
            self.points, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        return first[order], place[which.ravel()], count[order]

    @cached_property
    def span(self) -> Array:
        """(d, r) orthonormal basis of the span of the points around the centre, or their mean."""
        z = (self.points - self.origin) / self._unit
        _, singular, right = np.linalg.svd(z, full_matrices=False)
        # Differences of points far out are known to the digits of the points only.
        eps = float(np.finfo(float).eps)
        digits = eps * float(np.abs(self.points).max()) / self._unit
        least = max(4 * (sum(z.shape) + 1) * eps * float(singular[0]), 4 * np.sqrt(z.size) * digits)
        return np.asarray(right[: max(int((singular > least).sum()), 1)].T)

    @property
    def basis(self) -> Array:
        """(d, r) orthonormal basis of the directions in which the ellipsoid extends."""
        return self.span if self.gamma == 0 else np.eye(self.points.shape[1])

    @cached_property
    def _whitened(self) -> tuple[Array, Array, Array]:
        """(Z', C', T): the distinct points in units and in their span, lifted if the centre is
        free, in coordinates in which S = I at equal weights."""
        z = (self.points[self._copies[0]] - self.origin) / self._unit @ self.span
        cost = self.gamma / self._unit**2 * np.eye(z.shape[1])
        if self.is_free:
            z, cost = np.hstack([z, np.ones((len(z), 1))]), np.pad(cost, (0, 1))
        return whitened(z, cost)

    # -- the two formulations ------------------------------------------------------------------

    @one_blas_thread
    def program(self) -> Program:
        """The primal above, one block M and one auxiliary variable t."""
        z, cost, _ = self._whitened
        m, size = z.shape
        M, t = Unknown("M", features=z), Variable(1, "t")
        constant = self._log_det_outside - self._constant - size
        return minimise(
            M.inner((cost + cost.T) / 2) + t - M.log_det() + constant,
            named("z_jᵀ M z_j", M.lengths()) <= t,
            name=f"covering ellipsoid: {m} points, d = {self.dimension}"
            + (", free centre" if self.is_free else "")
            + (f", γ = {self.gamma:g}" if self.gamma else ""),
        )

    @property
    def _constant(self) -> float:
        """log det S' − log det S of the change of coordinates."""
        transform = self._whitened[2]
        return float(np.linalg.slogdet(transform.T @ transform)[1])

    @property
    def _log_det_outside(self) -> float:
        """What log det S has beyond that in units and in the span."""
        d, r = self.span.shape
        return float(2 * r * np.log(self._unit) + (d - r) * np.log(self.gamma or 1.0))

    def to_cvxpy(self) -> Any:
        """The primal as a `cvxpy.Problem` in the points' own coordinates (for γ = 0, of their
        span)."""
        import cvxpy as cp

        r = self.dimension
        z = (self.points - self.origin) @ self.basis
        if self.is_free:
            z = np.hstack([z, np.ones((len(z), 1))])
        X = cp.Variable((z.shape[1], z.shape[1]), PSD=True, name="X")
        t = cp.Variable(name="t")
        volume = -cp.log_det(X) + t + self.gamma * cp.trace(X[:r, :r]) - z.shape[1]
        return cp.Problem(cp.Minimize(volume), [cp.sum(cp.multiply(z @ X, z), axis=1) <= t])

    # -- the way back --------------------------------------------------------------------------

    @one_blas_thread
    def objective(self, ellipsoid: Ellipsoid) -> float:
        """The objective of any ellipsoid, at its best size: log det S + d·log((t + γ tr S⁻¹)/d)
        with t = max_j (x_j − c)ᵀS⁻¹(x_j − c) and d its dimension."""
        inner = ellipsoid.basis.T @ ellipsoid.shape @ ellipsoid.basis
        d = len(inner)
        radius = float(ellipsoid.lengths(self.points).max())
        cost = self.gamma * float(np.trace(np.linalg.inv(inner)))
        return float(np.linalg.slogdet(inner)[1]) + d * float(np.log((radius + cost) / d))

    @one_blas_thread
    def recover(self, solution: Solution) -> Ellipsoid:
        """The ellipsoid zᵀMz ≤ max_j z_jᵀMz_j of the solution's M: it covers every point, and for
        γ = 0 half of the certified gap is all that its log volume can exceed the least by."""
        white, cost, transform = self._whitened
        m, size = white.shape
        matrix = np.asarray(solution.matrix)
        if solution.dual is None or solution.dual.shape != (m,) or matrix.shape != (size, size):
            raise InputError(f"this is not a solution for {m} points in {size} coordinates")
        if not np.isfinite(matrix).all() or not np.isfinite(solution.dual).all():
            raise InputError(f"the solution holds no ellipsoid (status {solution.status})")
        matrix = (matrix + matrix.T) / 2
        radius = float(np.einsum("ij,ij->i", white @ matrix, white).max())
        # The best multiple of M has t + <C, M> = D; a solver's has up to the root of its gap.
        share = size / (radius + float(np.vdot(cost, matrix)))
        inverse, radius = np.linalg.inv(share * matrix), share * radius
        # Back to units: S = QᵀS'Q with Q the inverse of the transform.
        back = np.linalg.inv(transform)
        inner = back.T @ inverse @ back
        r = self.span.shape[1]
        shift = np.zeros(r)
        log_det = self._log_det_outside - self._constant + float(np.linalg.slogdet(inverse)[1])
        if self.is_free:
            # (x; 1) under [[A, b], [bᵀ, e]]⁻¹: the Schur complement A − bbᵀ/e around b/e.
            corner = float(inner[r, r])
            shift = inner[:r, r] / corner
            inner = inner[:r, :r] - corner * np.outer(shift, shift)
            radius -= 1 / corner
            log_det -= float(np.log(corner))
        shape = self._unit**2 * self.span @ inner @ self.span.T
        shape += self.gamma * (np.eye(len(shape)) - self.span @ self.span.T)
        _, which, count = self._copies
        weights = (np.maximum(-solution.dual, 0.0) / count)[which]  # copies share a constraint
        return Ellipsoid(
            center=self.origin + self._unit * self.span @ shift,
            basis=self.basis,
            shape=(shape + shape.T) / 2,
            radius=radius,
            log_det=log_det,
            weights=weights / (weights.sum() or 1.0),
            gap=float(solution.certificate.relative_gap),
        )
