"""A sparse factor with a few directions taken out: T − U diag(s) Uᵀ.

Costs of low rank, such as B = 2VVᵀ − I of minimum volume embedding, take a graph's matrix away from
its sparse pattern by a few directions only. With G = T⁻¹U and C = diag(s)⁻¹ − UᵀG,

    (T − U s Uᵀ)⁻¹ = T⁻¹ + G C⁻¹ Gᵀ                       (Woodbury)
    in₋(T − U s Uᵀ) = in₋(T) + in₋(C) − in₋(s)            (Haynsworth, for [[T, U], [Uᵀ, s⁻¹]])

so that it can do what a `SparseFactor` does: inertia, solves, the lengths of the
graph's edges under the inverse and their derivative.

What the inertia proves: let T̂ = LDLᵀ be what the factors multiply to, Ĝ the computed G. Then
T̂ − Û s Ûᵀ with Û = T̂Ĝ has exactly the inertia of D, of s⁻¹ − ĜᵀÛ and of s, and differs from
T − U s Uᵀ by a matrix whose norm follows from the residual U − TĜ (`backward_error`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from sdpkit.numerics.doubled import doubled_products
from sdpkit.numerics.pattern import Pattern
from sdpkit.numerics.sparse_factor import SparseFactor
from sdpkit.typing import Array, Bools, Indices

_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
_GROWTH = 1e3  # of entries, beyond which a pivot is too small to be divided by
_PINS = 100  # nodes that are pinned against that, at most


@dataclass(frozen=True, eq=False)
class LowRankUpdate:
    """U diag(s) Uᵀ, U (n, k), s (k,) without zeros; `error` bounds what U is off, ‖·‖_F."""

    vectors: Array
    weights: Array
    error: float = 0.0

    @property
    def extremes(self) -> tuple[float, float]:
        """Bounds on its smallest and largest eigenvalue, sharp for orthonormal U."""
        squares = self.weights * np.einsum("ik,ik->k", self.vectors, self.vectors)
        gram = self.vectors.T @ self.vectors
        beside = np.abs(gram - np.diag(np.diag(gram))).sum()
        skew = float(beside * np.abs(self.weights).max())
        return min(0.0, float(squares.min())) - skew, max(0.0, float(squares.max())) + skew

    def scaled(self, factor: float) -> LowRankUpdate:
        """factor · U diag(s) Uᵀ, factor ≠ 0."""
        return LowRankUpdate(self.vectors, factor * self.weights, self.error)


@dataclass(frozen=True, eq=False)
class UpdatedFactor:
    """T − U diag(s) Uᵀ for a factored T, with the questions that a `SparseFactor` answers.

    Attributes
    ----------
    base: the factor of T = L(weights) + shift;  update: U and s
    weights: (m,);  shift: a multiple of I, or (n,) a diagonal
    pin: (n,) the part of the shift that the update takes back
    """

    base: SparseFactor
    update: LowRankUpdate
    weights: Array
    shift: float | Array
    pin: Array | None = None

    @property
    def pattern(self) -> Pattern:
        """Of T."""
        return self.base.pattern

    @property
    def growth(self) -> float:
        """Of T's factors."""
        return self.base.growth

    @cached_property
    def images(self) -> Array:
        """(n, k) G = T⁻¹U."""
        return self.base.solve(self.update.vectors)

    @cached_property
    def corner(self) -> Array:
        """(k, k) C = s⁻¹ − UᵀT⁻¹U.

        Where T − UsUᵀ is nearly singular, so is C, and digits are lost in the difference. With the
        residual R = U − TG, UᵀT⁻¹U = UᵀG + RᵀG up to second order, summed in twice the precision.
        """
        u, g = self.update.vectors, self.images
        high, low, _ = self.pattern.residual(u, g, (self.weights,), (self.shift,))
        product = doubled_products(u, g, np.diag(1 / self.update.weights)) - (high + low).T @ g
        return np.asarray((product + product.T) / 2)

    @cached_property
    def negative(self) -> int:
        """The number of negative eigenvalues, −1 if the factorisation broke down."""
        if self.base.negative < 0 or not np.isfinite(self.corner).all():
            return -1
        values = np.linalg.eigvalsh(self.corner)
        if np.abs(values).min() == 0:
            return -1
        return self.base.negative + int(np.sum(values < 0)) - int(np.sum(self.update.weights < 0))

    @property
    def log_determinant(self) -> float:
        """log |det|."""
        corner = float(np.linalg.slogdet(self.corner)[1])
        return self.base.log_determinant + corner + float(np.log(np.abs(self.update.weights)).sum())

    def solve(self, rhs: Array) -> Array:
        """The inverse times a vector (n,) or the columns of a matrix (n, k)."""
        return self.base.solve(rhs) + self.images @ self._inner(self.images.T @ rhs)

    def _inner(self, columns: Array) -> Array:
        """C⁻¹ times columns."""
        return np.asarray(scipy.linalg.lu_solve(self._corner_factor, columns))

    @cached_property
    def _corner_factor(self) -> tuple[Array, Indices]:
        return scipy.linalg.lu_factor(self.corner)  # type: ignore[return-value]

    @cached_property
    def _drops(self) -> tuple[Array, Array]:
        """(m, k) Gᵀb_e for every edge, and C⁻¹ times it."""
        i, j = self.pattern.edges.T
        drops = self.images[i] - self.images[j]
        return drops, self._inner(drops.T).T

    def inverse_lengths(self) -> Array:
        """(m,) b_eᵀ (·)⁻¹ b_e."""
        drops, inner = self._drops
        return np.asarray(self.base.inverse_lengths() + np.einsum("ek,ek->e", drops, inner))

    def inverse_lengths_along(self, weights: Array) -> Array:
        """(m,) minus the derivative of `inverse_lengths` along T + t·L(weights).

        dG = −T⁻¹ L G  and  dC = Gᵀ L G.
        """
        drops, inner = self._drops
        i, j = self.pattern.edges.T
        forces = _scatter(self.pattern, weights[:, None] * drops)
        bend = self.base.solve(forces)
        turn = self.images.T @ forces
        change = 2 * np.einsum("ek,ek->e", bend[i] - bend[j], inner)
        change += np.einsum("ek,kl,el->e", inner, turn, inner)
        return np.asarray(self.base.inverse_lengths_along(weights) + change)

    def inverse_among(self, nodes: Indices) -> Array:
        """(k, k) the inverse among the given nodes."""
        part = self.images[nodes]
        return np.asarray(self.base.inverse_among(nodes) + part @ self._inner(part.T))

    def backward_error(
        self, weights: tuple[Array, ...], shifts: tuple[float | Array, ...]
    ) -> float:
        """A bound on the norm of the difference between the exact L(Σ weights) + Σ shifts·I −
        U s Uᵀ and a matrix with exactly the inertia `negative`; inf if the signs of C are not
        beyond doubt."""
        u, s, g = self.update.vectors, self.update.weights, self.images
        diagonals = shifts if self.pin is None else (*shifts, self.pin)
        below = self.base.backward_error(weights, diagonals)
        high, low, rounding = self.pattern.residual(u, g, weights, diagonals)
        size_u, size_g = _norm(u), _norm(g)
        apart = _norm(np.abs(high) + np.abs(low) + rounding) + below * size_g  # ‖U − Û‖
        apart += self.update.error
        many = 4 * _EPS * (u.shape[0] + 4)
        # ĜᵀÛ against UᵀĜ + RᵀĜ: the residual counts twice.
        doubt = 2 * size_g * apart + many * (
            size_u * size_g + _norm(self.corner) + 1 / np.abs(s).min()
        )
        if not float(np.abs(np.linalg.eigvalsh(self.corner)).min()) > doubt:
            return np.inf
        return below + 1.01 * float(np.abs(s).max()) * apart * (2 * size_u + apart)


def factored(
    pattern: Pattern, weights: Array, shift: float | Array, update: LowRankUpdate | None
) -> SparseFactor | UpdatedFactor:
    """Factor L(weights) + shift − update.

    A pivot that nearly vanishes costs as many digits as the entries grow. Such nodes are pinned
    then, T = (T + Σγ e_k e_kᵀ) − Σγ e_k e_kᵀ, and the pins taken back as an update.
    """
    base = SparseFactor.of(pattern, pattern.laplacian(weights, shift))
    pins = np.zeros(pattern.n) if base.growth > _GROWTH else None
    size = max(float(np.abs(weights).max(initial=0.0)), float(np.max(np.abs(shift))), _TINY)
    while pins is not None and base.growth > _GROWTH and np.count_nonzero(pins) < _PINS:
        pivots = np.nan_to_num(np.abs(base.values[: pattern.n]))
        small = np.flatnonzero((pivots <= size / _GROWTH) & (pins[pattern.order] == 0))
        if not small.size:
            break  # it grows for another reason
        room = _PINS - np.count_nonzero(pins)
        worst = small[np.argsort(pivots[small], kind="stable")][:room]
        pins[pattern.order[worst]] = size
        base = SparseFactor.of(pattern, pattern.laplacian(weights, shift + pins))
    if pins is None or not pins.any():
        return base if update is None else UpdatedFactor(base, update, weights, shift)
    columns = _unit_columns(pins > 0)
    back = LowRankUpdate(columns, pins[pins > 0])
    if update is not None:
        both = np.hstack([update.vectors, columns]), np.r_[update.weights, back.weights]
        back = LowRankUpdate(*both, update.error)
    return UpdatedFactor(base, back, weights, shift + pins, pins)


def _unit_columns(chosen: Bools) -> Array:
    """(n, k) the unit vectors of the chosen nodes."""
    nodes = np.flatnonzero(chosen)
    out = np.zeros((chosen.size, nodes.size))
    out[nodes, np.arange(nodes.size)] = 1.0
    return out


def _scatter(pattern: Pattern, flows: Array) -> Array:
    """(n, k) Bᵀ times flows (m, k) along the edges."""
    i, j = pattern.edges.T
    out = np.empty((pattern.n, flows.shape[1]))
    for c in range(flows.shape[1]):
        out[:, c] = np.bincount(i, flows[:, c], pattern.n) - np.bincount(j, flows[:, c], pattern.n)
    return out


def _norm(matrix: Array) -> float:
    """Frobenius, not rounded down."""
    return float(np.linalg.norm(matrix)) * (1 + 4 * _EPS * (matrix.size + 4))
