"""Symmetric cones and their Nesterov–Todd scalings, for `sdpkit.solvers.embedding`.

A vector of a product of cones holds a nonnegative part and semidefinite matrices as their upper
triangles, entries off the diagonal times √2, so that inner products are those of the matrices. For
interior x and s a scaling is a linear map T that takes both to the same point

    λ = T⁻¹x = Tᵀs

    nonnegative     T = diag √(x/s),   λ = √(x∘s)
    semidefinite    T V = G V Gᵀ  with  X = LLᵀ, S = RRᵀ, RᵀL = UDVᵀ, G = L V D^(−½),   λ = D

Matrices of equal size are stacked, so that many small ones cost as little as a few.
Second-order cones are in `sdpkit.solvers.lorentz`; a further kind of cone is one more class with
the methods of `Scaling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.solvers.definite import Breakdown
from sdpkit.solvers.in_time import stoppable
from sdpkit.solvers.step_lengths import longest_step
from sdpkit.typing import Array, Indices

# Up to this size step lengths come from all eigenvalues.
_DENSE_SIZE = 120
_SQRT2 = float(np.sqrt(2.0))


class Scaling(Protocol):
    """The scaling of a cone at a pair of interior points; vectors are those of the cone."""

    @property
    def point(self) -> Array:
        """λ."""

    def scaled(self, s: Array) -> Array:
        """Tᵀs."""

    def unscaled(self, v: Array) -> Array:
        """T v."""

    def product(self, u: Array, v: Array) -> Array:
        """The Jordan product u∘v."""

    def divided(self, r: Array) -> Array:
        """The v with λ∘v = r."""

    def longest(self, v: Array) -> float:
        """The largest α with λ + αv in the cone, to a few percent; inf if there is none."""


class Cone(Protocol):
    """A cone of vectors of a given size."""

    @property
    def size(self) -> int:
        """The length of its vectors."""

    @property
    def degree(self) -> int:
        """How many eigenvalues its elements have."""

    @property
    def identity(self) -> Array:
        """The identity of the Jordan product."""

    def scaling(self, x: Array, s: Array) -> Scaling:
        """The scaling at x and s; `Breakdown` unless both are interior."""

    def is_interior(self, x: Array) -> bool:
        """Whether x is in the interior."""


# -- nonnegative numbers --------------------------------------------------------------------


@dataclass(frozen=True)
class Orthant:
    """{x ≥ 0}, x of length `size`."""

    size: int

    @property
    def degree(self) -> int:
        """How many numbers there are."""
        return self.size

    @property
    def identity(self) -> Array:
        """Ones."""
        return np.ones(self.size)

    def scaling(self, x: Array, s: Array) -> OrthantScaling:
        """√(x/s)."""
        if not (self.is_interior(x) and self.is_interior(s)):
            raise Breakdown
        return OrthantScaling(np.sqrt(x / s), np.sqrt(x) * np.sqrt(s))

    def is_interior(self, x: Array) -> bool:
        """Whether all numbers are positive."""
        return bool(np.all(x > 0) and np.isfinite(x).all())


@dataclass(frozen=True, eq=False)
class OrthantScaling:
    """T = diag(`factor`), λ = `point`."""

    factor: Array
    point: Array

    def scaled(self, s: Array) -> Array:
        """Tᵀs."""
        return self.factor * s

    def unscaled(self, v: Array) -> Array:
        """T v."""
        return self.factor * v

    def product(self, u: Array, v: Array) -> Array:
        """Entry by entry."""
        return u * v

    def divided(self, r: Array) -> Array:
        """Entry by entry."""
        return r / self.point

    def longest(self, v: Array) -> float:
        """Until the first entry is zero."""
        return _reciprocal(float(np.min(v / self.point, initial=0.0)))


# -- semidefinite matrices ------------------------------------------------------------------


@dataclass(frozen=True)
class SemidefiniteStack:
    """`count` positive semidefinite matrices of order `order`, one after the other."""

    order: int
    count: int

    @cached_property
    def triangle(self) -> tuple[Indices, Indices]:
        """The places of the entries of a vector."""
        i, j = np.triu_indices(self.order)
        return i.astype(np.int64), j.astype(np.int64)

    @cached_property
    def weights(self) -> Array:
        """1 on the diagonal and √2 beside it."""
        i, j = self.triangle
        return np.where(i == j, 1.0, _SQRT2)

    @property
    def size(self) -> int:
        """count·order·(order + 1)/2."""
        return self.count * (self.order * (self.order + 1) // 2)

    @property
    def degree(self) -> int:
        """count·order."""
        return self.count * self.order

    @property
    def identity(self) -> Array:
        """Identity matrices."""
        return self.vector(np.broadcast_to(np.eye(self.order), (self.count,) + (self.order,) * 2))

    def vector(self, matrices: Array) -> Array:
        """The vector of (count, order, order) symmetric matrices."""
        i, j = self.triangle
        return np.asarray(matrices[:, i, j] * self.weights).ravel()

    def matrices(self, vector: Array) -> Array:
        """(count, order, order) from a vector."""
        i, j = self.triangle
        out = np.empty((self.count, self.order, self.order))
        entries = vector.reshape(self.count, -1) / self.weights
        out[:, i, j] = entries
        out[:, j, i] = entries
        return out

    def smallest(self, vector: Array) -> Array:
        """(count,) least eigenvalues."""
        if not np.isfinite(vector).all():
            return np.full(self.count, -np.inf)
        return np.asarray(np.linalg.eigvalsh(self.matrices(vector))[:, 0])

    def traces(self, vector: Array) -> Array:
        """(count,) traces."""
        i, j = self.triangle
        return np.asarray(vector.reshape(self.count, -1)[:, i == j].sum(axis=1))

    def scaling(self, x: Array, s: Array) -> SemidefiniteScaling:
        """G and D from two Cholesky factors and a singular value decomposition."""
        left, right = self._factor(x), self._factor(s)
        middle = np.swapaxes(right, 1, 2) @ left
        _, d, vt = stoppable(self.order, lambda: _svd(middle))
        continue_or_raise()
        if not np.all(d > 0):
            raise Breakdown
        g = (left @ np.swapaxes(vt, 1, 2)) / np.sqrt(d)[:, None, :]
        if not np.isfinite(g).all():
            raise Breakdown
        return SemidefiniteScaling(self, g, d)

    def is_interior(self, x: Array) -> bool:
        """Whether all matrices have a Cholesky factor."""
        try:
            self._factor(x)
        except Breakdown:
            return False
        return True

    def _factor(self, vector: Array) -> Array:
        if not np.isfinite(vector).all():
            raise Breakdown
        try:
            return np.asarray(np.linalg.cholesky(self.matrices(vector)))
        except np.linalg.LinAlgError:
            raise Breakdown from None


def _svd(matrices: Array) -> tuple[Array, Array, Array]:
    try:
        u, d, vt = np.linalg.svd(matrices)
    except np.linalg.LinAlgError:
        raise Breakdown from None
    return u, d, vt


@dataclass(frozen=True, eq=False)
class SemidefiniteScaling:
    """T V = G V Gᵀ for each matrix of a stack; λ = diag(d).

    Attributes
    ----------
    g: (count, order, order);  d: (count, order)
    """

    cone: SemidefiniteStack
    g: Array
    d: Array

    @cached_property
    def point(self) -> Array:
        """λ."""
        diagonal = np.zeros_like(self.g)
        places = np.arange(self.cone.order)
        diagonal[:, places, places] = self.d
        return self.cone.vector(diagonal)

    def scaled(self, s: Array) -> Array:
        """Gᵀ S G."""
        return self._congruent(np.swapaxes(self.g, 1, 2), s)

    def unscaled(self, v: Array) -> Array:
        """G V Gᵀ."""
        return self._congruent(self.g, v)

    def _congruent(self, g: Array, vector: Array) -> Array:
        out = g @ self.cone.matrices(vector) @ np.swapaxes(g, 1, 2)
        return self.cone.vector(0.5 * (out + np.swapaxes(out, 1, 2)))

    def product(self, u: Array, v: Array) -> Array:
        """(UV + VU)/2."""
        out = self.cone.matrices(u) @ self.cone.matrices(v)
        return self.cone.vector(0.5 * (out + np.swapaxes(out, 1, 2)))

    def divided(self, r: Array) -> Array:
        """2 r_ij/(d_i + d_j)."""
        i, j = self.cone.triangle
        sums = self.d[:, i] + self.d[:, j]
        return np.asarray(2.0 * r.reshape(sums.shape) / sums).ravel()

    def longest(self, v: Array) -> float:
        """By the smallest eigenvalue of D^(−½) V D^(−½)."""
        matrices, root = self.cone.matrices(v), np.sqrt(self.d)
        if self.cone.order > _DENSE_SIZE:
            pairs = zip(matrices, self.d, root, strict=True)
            return min(longest_step(np.diag(d), np.diag(r), m, 1.0) for m, d, r in pairs)
        relative = matrices / (root[:, :, None] * root[:, None, :])
        return _reciprocal(float(np.linalg.eigvalsh(relative)[:, 0].min()))


def _reciprocal(smallest: float) -> float:
    """The α with 1 + α·smallest = 0, inf if that is not positive."""
    return np.inf if smallest >= 0 else -1.0 / smallest


# -- products -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProductCone:
    """Cones side by side."""

    parts: tuple[Cone, ...]

    @cached_property
    def spans(self) -> list[slice]:
        """Where the vectors of the parts are."""
        ends = np.cumsum([0] + [part.size for part in self.parts]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    @property
    def size(self) -> int:
        """The sum."""
        return sum(part.size for part in self.parts)

    @property
    def degree(self) -> int:
        """The sum."""
        return sum(part.degree for part in self.parts)

    @property
    def identity(self) -> Array:
        """The identities."""
        return np.concatenate([part.identity for part in self.parts])

    def scaling(self, x: Array, s: Array) -> ProductScaling:
        """The scalings of the parts."""
        pairs = zip(self.parts, self.spans, strict=True)
        return ProductScaling(self.spans, [part.scaling(x[at], s[at]) for part, at in pairs])

    def is_interior(self, x: Array) -> bool:
        """Whether all parts are."""
        pairs = zip(self.parts, self.spans, strict=True)
        return all(part.is_interior(x[at]) for part, at in pairs)


@dataclass(frozen=True, eq=False)
class ProductScaling:
    """Scalings side by side."""

    spans: Sequence[slice]
    parts: Sequence[Scaling]

    @cached_property
    def point(self) -> Array:
        """λ."""
        return np.concatenate([part.point for part in self.parts])

    def scaled(self, s: Array) -> Array:
        """Tᵀs."""
        pairs = zip(self.parts, self.spans, strict=True)
        return np.concatenate([part.scaled(s[at]) for part, at in pairs])

    def unscaled(self, v: Array) -> Array:
        """T v."""
        pairs = zip(self.parts, self.spans, strict=True)
        return np.concatenate([part.unscaled(v[at]) for part, at in pairs])

    def product(self, u: Array, v: Array) -> Array:
        """The Jordan product u∘v."""
        pairs = zip(self.parts, self.spans, strict=True)
        return np.concatenate([part.product(u[at], v[at]) for part, at in pairs])

    def divided(self, r: Array) -> Array:
        """The v with λ∘v = r."""
        pairs = zip(self.parts, self.spans, strict=True)
        return np.concatenate([part.divided(r[at]) for part, at in pairs])

    def longest(self, v: Array) -> float:
        """The shortest of the parts' longest steps."""
        pairs = zip(self.parts, self.spans, strict=True)
        return min((part.longest(v[at]) for part, at in pairs), default=np.inf)


__all__ = [
    "Cone",
    "Orthant",
    "OrthantScaling",
    "ProductCone",
    "ProductScaling",
    "Scaling",
    "SemidefiniteScaling",
    "SemidefiniteStack",
]
