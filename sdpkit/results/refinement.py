"""Local search on the outputs themselves (Weinberger 2007, section 3.1.8, eq. 3.26).

    minimise    F(Y) = −(1−ω) Σ_i ‖y_i − ȳ‖² + ω Σ_e (‖D_e‖² − d_e)²,     D = B Y + D₀

over y_1 … y_n in any dimension: B is the incidence matrix of the edges, and D₀ holds what fixed
points (anchors) add. F is not convex; what comes out depends on where the search starts, and is
stationary at best.

The method is the thesis's, conjugate gradients, with three things that the problem gives away.
Along a line F is a polynomial of degree four, so that the line search is exact and costs no
evaluation. The Hessian is spectrally close to the graph Laplacian weighted by squared lengths
(8ω Σ b_e b_eᵀ ⊗ D_e D_eᵀ, averaged over directions), whose sparse factor, made once, takes the
long waves out of the problem: they are what keeps plain gradients busy for thousands of steps.
What a Laplacian does not see is that a framework may be stiff along its edges and soft in other
ways; so, in few dimensions, when progress ends, the positive part of the Hessian itself is
factored and the search continues with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_array, positive
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array

# Share of the mean squared length that every edge weighs in the preconditioner at least.
_FLOOR = 0.3
_PATIENCE = 3  # iterations in a row that gain less than tol
_HESSIAN_DIMENSIONS = 3  # up to which the Hessian is factored
_ROUNDS = 6  # how often at most


@dataclass(frozen=True, eq=False)
class Refined:
    """The end of a local search: coordinates (n, p), F there, and how many iterations it took."""

    coordinates: Array
    value: float
    iterations: int

    def __repr__(self) -> str:
        n, p = self.coordinates.shape
        return f"<Refined: {n} points in {p} dimensions, F = {self.value:.6g}>"


@one_blas_thread
def refine(
    start: ArrayLike,
    incidence: Any,
    squared_lengths: ArrayLike,
    *,
    omega: float = 1.0,
    offset: ArrayLike | None = None,
    hessian: bool = True,
    max_iter: int = 200,
    tol: float = 1e-5,
) -> Refined:
    """A local minimum of F near `start`.

    Parameters
    ----------
    start: (n, p) coordinates
    incidence: (m, n) sparse B;  offset: (m, p) D₀, zero if omitted
    squared_lengths: (m,) d;  omega: ω, 1 for lengths alone
    hessian: end with the Hessian's own factor, in up to three dimensions
    max_iter, tol: iterations, and the relative gain per iteration below which they end

    >>> from sdpkit.graphs.build import neighborhood_graph
    >>> graph = neighborhood_graph([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], n_neighbors=2)
    >>> found = refine([[0.1, 0.0], [0.8, 0.2], [0.0, 0.9]], graph.incidence(), [1.0, 1.0, 2.0])
    >>> bool(found.value < 1e-12)
    True
    """
    y, B, d, fixed = _checked(start, incidence, squared_lengths, omega, offset)
    if not len(d):
        return Refined(y, 0.0, 0)
    energy = _Energy(B, d, omega, fixed, floating=offset is None)
    y, value, used = _descend(energy, y, energy.laplacian(), max_iter, tol)
    wanted = hessian and y.shape[1] <= _HESSIAN_DIMENSIONS
    for _ in range(_ROUNDS if wanted else 0):
        if used >= max_iter or value <= energy.nothing:
            break
        y, lower, more = _descend(energy, y, energy.hessian(y), max_iter - used, tol)
        used, gain, value = used + more, value - lower, lower
        if gain <= tol * abs(value):
            break
    return Refined(y, energy.value(y, energy.errors(energy.differences(y))), used)


def _descend(
    energy: _Energy, y: Array, inverse: Callable[[Array], Array], max_iter: int, tol: float
) -> tuple[Array, float, int]:
    """Conjugate gradients, preconditioned by `inverse`, until they gain little: (Y, F, steps)."""
    D = energy.differences(y)
    error = energy.errors(D)
    value, product = energy.value(y, error), 1.0
    direction, previous = np.zeros_like(y), np.zeros_like(y)
    idle = used = 0
    while used < max_iter:
        continue_or_raise()
        used += 1
        gradient = energy.gradient(y, D, error)
        step = inverse(gradient)
        # Polak and Ribière; where it would not descend, start over.
        beta = max(0.0, float(np.vdot(gradient - previous, step)) / product)
        direction = beta * direction - step
        if np.vdot(direction, gradient) >= 0:
            direction = -step
        previous, product = gradient, float(np.vdot(gradient, step)) or 1.0
        line = energy.along(y, direction, D, error)
        alpha, gain = line.minimum()
        if alpha == 0:
            break
        y, D = y + alpha * direction, D + alpha * line.change
        error = error + alpha * (line.slope + alpha * line.bend)
        idle = idle + 1 if gain <= tol * abs(value) else 0
        value = energy.value(y, error)  # not value − gain, whose digits would end at the first F
        if idle >= _PATIENCE or value <= energy.nothing:
            break
    return y, value, used


@dataclass(frozen=True, eq=False)
class _Line:
    """F(Y + αP) − F(Y) = c₁α + c₂α² + c₃α³ + c₄α⁴, where D + α·change has the errors
    error + α·slope + α²·bend."""

    change: Array
    slope: Array
    bend: Array
    c1: float
    c2: float
    c3: float
    c4: float

    def minimum(self) -> tuple[float, float]:
        """The α > 0 at which F is least, and the gain; (0, 0) if there is none."""
        c1, c2, c3, c4 = self.c1, self.c2, self.c3, self.c4
        if not c4 > 0:
            return 0.0, 0.0
        roots = np.roots([4 * c4, 3 * c3, 2 * c2, c1])
        steps = roots.real[(np.abs(roots.imag) <= 1e-9 * np.abs(roots)) & (roots.real > 0)]
        gains = [float(-(((c4 * a + c3) * a + c2) * a + c1) * a) for a in steps]
        if not gains or max(gains) <= 0:
            return 0.0, 0.0
        best = int(np.argmax(gains))
        return float(steps[best]), gains[best]


class _Energy:
    """F, its gradient, its restriction to lines, and two preconditioners."""

    def __init__(
        self, B: sp.csr_array, d: Array, omega: float, fixed: Array, floating: bool
    ) -> None:
        self.B, self.Bt, self.d, self.omega = B, sp.csr_array(B.T), d, omega
        self.fixed, self.floating = fixed, floating
        # Below this, with ω = 1, all lengths are kept to rounding.
        self.nothing = 1e-26 * float(d @ d) if omega == 1 else -np.inf

    def differences(self, y: Array) -> Array:
        return np.asarray(self.B @ y + self.fixed)

    def errors(self, D: Array) -> Array:
        """(m,) ‖D_e‖² − d_e."""
        return np.asarray(np.einsum("ep,ep->e", D, D) - self.d)

    def value(self, y: Array, error: Array) -> float:
        return float(self.omega * (error @ error) - (1 - self.omega) * _covariance(y, y))

    def gradient(self, y: Array, D: Array, error: Array) -> Array:
        out = self.Bt @ (4 * self.omega * error[:, None] * D)
        return np.asarray(out - 2 * (1 - self.omega) * (y - y.mean(axis=0)))

    def along(self, y: Array, p: Array, D: Array, error: Array) -> _Line:
        """F along Y + αP."""
        E = np.asarray(self.B @ p)
        e1, e2 = 2 * np.einsum("ep,ep->e", D, E), np.einsum("ep,ep->e", E, E)
        w = self.omega
        return _Line(
            E,
            e1,
            e2,
            float(w * 2 * (error @ e1) - (1 - w) * 2 * _covariance(y, p)),
            float(w * (e1 @ e1 + 2 * (error @ e2)) - (1 - w) * _covariance(p, p)),
            float(w * 2 * (e1 @ e2)),
            float(w * (e2 @ e2)),
        )

    def laplacian(self) -> Callable[[Array], Array]:
        """The inverse of the Laplacian weighted by squared lengths, on every coordinate."""
        weights = self.d + _FLOOR * (float(self.d.mean()) or 1.0)
        solve = _factored(self.Bt @ sp.diags_array(weights) @ self.B)
        return lambda gradient: self._centred(solve(gradient))

    def hessian(self, y: Array) -> Callable[[Array], Array]:
        """The inverse of 4ω Σ b_e b_eᵀ ⊗ (2 D_e D_eᵀ + max(‖D_e‖² − d_e, 0) I)."""
        D = self.differences(y)
        stretch = np.maximum(self.errors(D), 0.0)
        p = y.shape[1]
        parts = [
            [
                self.Bt @ sp.diags_array(2 * D[:, a] * D[:, b] + (a == b) * stretch) @ self.B
                for b in range(p)
            ]
            for a in range(p)
        ]
        solve = _factored(sp.block_array(parts, format="csc"))
        # Unknowns are ordered by coordinate, so that one column after the other is solved for.
        return lambda gradient: self._centred(solve(gradient.T.ravel()).reshape(p, -1).T)

    def _centred(self, step: Array) -> Array:
        return np.asarray(step - step.mean(axis=0) if self.floating else step)


def _covariance(y: Array, z: Array) -> float:
    """Σ_i (y_i − ȳ)·(z_i − z̄)."""
    return float(np.vdot(y, z) - len(y) * (y.mean(axis=0) @ z.mean(axis=0)))


def _factored(matrix: Any) -> Callable[[Array], Array]:
    """Solves with a positive semidefinite sparse matrix, shifted by a hair: translations and
    rotations cost nothing, so that it is singular."""
    from scipy.sparse.linalg import splu

    shift = 1e-9 * float(matrix.diagonal().mean())
    factor = splu(
        sp.csc_array(matrix + shift * sp.eye_array(matrix.shape[0])),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return lambda rhs: np.asarray(factor.solve(rhs))


def _checked(
    start: ArrayLike, incidence: Any, squared: ArrayLike, omega: float, offset: ArrayLike | None
) -> tuple[Array, sp.csr_array, Array, Array]:
    B = sp.csr_array(incidence, dtype=np.float64)
    y, d = finite_array(start, "start"), finite_array(squared, "squared_lengths")
    if y.ndim != 2 or len(y) != B.shape[1]:
        raise InputError(f"start has shape {y.shape}: pass one row per point, ({B.shape[1]}, p)")
    if d.shape != (B.shape[0],) or (d < 0).any():
        raise InputError(
            f"squared_lengths has shape {d.shape} and the least value {d.min(initial=np.inf):g}: "
            f"pass one number ≥ 0 per edge, ({B.shape[0]},)"
        )
    positive(omega, "omega", most=1)
    fixed = np.zeros((len(d), y.shape[1])) if offset is None else finite_array(offset, "offset")
    if fixed.shape != (len(d), y.shape[1]):
        raise InputError(f"offset has shape {fixed.shape}, expected {(len(d), y.shape[1])}")
    return y, B, d, fixed
