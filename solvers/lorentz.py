"""Second-order cones and their Nesterov–Todd scalings, a kind of cone for `cone_algebra`.

Many cones lie side by side, x = (x_h, x_T) each. With J = diag(1, −1, …, −1), x̄ = x/√(xᵀJx), s̄
likewise, γ² = (1 + x̄ᵀs̄)/2 and w = (x̄ + Js̄)/2γ, the scaling is symmetric,

    T = η [[w_h, w_Tᵀ], [w_T, I + w_T w_Tᵀ/(1 + w_h)]],   η⁴ = xᵀJx/sᵀJs,   T² = η²(2wwᵀ − J),

a multiple of the identity plus a matrix of low rank, so that a cone of any size costs as much as
its numbers. The Jordan product is u∘v = (uᵀv, u_h v_T + v_h u_T).

Reference: Andersen, Roos, Terlaky 2003; Domahidi, Chu, Boyd 2013 (ECOS).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.program.second_order import VariableCone
from sdpkit.solvers.definite import Breakdown
from sdpkit.typing import Array, Bools, Indices

# Columns with so many entries are multiplied as dense ones.
_DENSE_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class LorentzCones:
    """Second-order cones of these sizes, one after the other, each with its head first."""

    sizes: Indices

    @property
    def size(self) -> int:
        """The length of the vectors."""
        return int(self.sizes.sum())

    @property
    def degree(self) -> int:
        """One for each cone: xᵀs = μ where x∘s = μe."""
        return int(self.sizes.size)

    @cached_property
    def layout(self) -> VariableCone:
        """Where the heads and the tails are."""
        starts = np.cumsum(np.r_[0, self.sizes])[:-1]
        return VariableCone(np.ones(self.size, dtype=bool), np.arange(self.size), starts)

    @property
    def heads(self) -> Indices:
        """Where the heads are."""
        return self.layout.starts

    @cached_property
    def is_tail(self) -> Bools:
        """Which entries are not heads."""
        out = np.ones(self.size, dtype=bool)
        out[self.heads] = False
        return out

    @property
    def identity(self) -> Array:
        """Ones at the heads."""
        return np.where(self.is_tail, 0.0, 1.0)

    def each(self, values: Array) -> Array:
        """A number of each cone for each of its entries."""
        return values[self.layout.owners]

    def sums(self, values: Array) -> Array:
        """(k,) sums over each cone."""
        return np.asarray(np.add.reduceat(values, self.heads))

    def smallest(self, x: Array) -> Array:
        """(k,) x_h − ‖x_T‖."""
        return -self.layout.lack(x)

    def largest(self, x: Array) -> Array:
        """(k,) x_h + ‖x_T‖."""
        return np.asarray(x[self.heads] + self.layout.lengths(x))

    def scaling(self, x: Array, s: Array) -> LorentzScaling:
        """η, w and λ at two interior points."""
        if not (self.is_interior(x) and self.is_interior(s)):
            raise Breakdown
        root_x, root_s = (np.sqrt(self.smallest(v)) * np.sqrt(self.largest(v)) for v in (x, s))
        x_unit, s_unit = x / self.each(root_x), s / self.each(root_s)
        gamma = np.sqrt((1 + self.sums(x_unit * s_unit)) / 2)
        mirrored = np.where(self.is_tail, -s_unit, s_unit)
        w = (x_unit + mirrored) / self.each(2 * gamma)
        # With this sum instead of T s no digits cancel.
        x_head, s_head = self.each(x_unit[self.heads]), self.each(s_unit[self.heads])
        g = self.each(gamma)
        point = ((g + s_head) * x_unit + (g + x_head) * s_unit) / (x_head + s_head + 2 * g)
        point[self.heads] = gamma
        length = np.sqrt(root_x) * np.sqrt(root_s)
        eta = np.sqrt(root_x / root_s)
        point = point * self.each(length)
        if not (np.isfinite(w).all() and np.isfinite(point).all() and np.all(eta > 0)):
            raise Breakdown
        return LorentzScaling(self, eta, w, point, length)

    def is_interior(self, x: Array) -> bool:
        """Whether x_h > ‖x_T‖ in all of them."""
        return bool(np.isfinite(x).all() and np.all(self.smallest(x) > 0))


@dataclass(frozen=True, eq=False)
class LorentzScaling:
    """T of each cone.

    Attributes
    ----------
    eta: (k,) η;  w: the w of all cones, one after the other
    point: λ;  length: (k,) √(λᵀJλ)
    """

    cone: LorentzCones
    eta: Array
    w: Array
    point: Array
    length: Array

    def scaled(self, s: Array) -> Array:
        """T s."""
        cone, heads = self.cone, self.cone.heads
        inner = cone.sums(self.w * s)
        w_head, s_head = self.w[heads], s[heads]
        share = s_head + (inner - w_head * s_head) / (1 + w_head)
        out = s + cone.each(share) * self.w
        out[heads] = inner
        return np.asarray(cone.each(self.eta) * out)

    def unscaled(self, v: Array) -> Array:
        """T v; it is symmetric."""
        return self.scaled(v)

    def product(self, u: Array, v: Array) -> Array:
        """(uᵀv, u_h v_T + v_h u_T)."""
        cone, heads = self.cone, self.cone.heads
        out = cone.each(u[heads]) * v + cone.each(v[heads]) * u
        out[heads] = cone.sums(u * v)
        return np.asarray(out)

    def divided(self, r: Array) -> Array:
        """The v with λ∘v = r."""
        cone, heads = self.cone, self.cone.heads
        mirrored = np.where(cone.is_tail, -self.point, self.point)
        head = cone.sums(mirrored * r) / self.length**2
        out = (r - cone.each(head) * self.point) / cone.each(self.point[heads])
        out[heads] = head
        return np.asarray(out)

    def longest(self, v: Array) -> float:
        """By the eigenvalues of v in the coordinates in which λ is the identity."""
        cone, heads = self.cone, self.cone.heads
        unit = self.point / cone.each(self.length)
        mirrored = np.where(cone.is_tail, -unit, unit)
        head = cone.sums(mirrored * v)
        share = (head + v[heads]) / (unit[heads] + 1)
        turned = v - cone.each(share) * unit
        turned[heads] = head
        least = float((cone.smallest(turned) / self.length).min(initial=0.0))
        return np.inf if least >= 0 else -1.0 / least


class LorentzRows:
    """The columns of A for second-order cones."""

    def __init__(self, a: sp.csr_array, cone: LorentzCones) -> None:
        self.a, self.cone = sp.csr_array(a), cone
        self.heads = sp.csr_array(sp.csc_array(a)[:, cone.heads])

    def _table(self, values: Array) -> sp.csr_array:
        """(N, k) the numbers of each cone in a column of its own."""
        at = (np.arange(values.size), self.cone.layout.owners)
        return sp.csr_array((values, at), shape=(values.size, self.cone.degree))

    def scaled(self, scaling: LorentzScaling) -> sp.csr_array:
        """A T."""
        cone, w_head = self.cone, scaling.w[self.cone.heads]
        inner: Any = self.a @ self._table(scaling.w)
        share: Any = (inner - self.heads @ sp.diags_array(w_head)) @ sp.diags_array(
            1 / (1 + w_head)
        ) + self.heads
        tails: Any = self.a @ sp.diags_array(cone.is_tail.astype(np.float64))
        beside = self._table(np.where(cone.is_tail, scaling.w, 0.0)).T
        whole = tails + share @ beside + inner @ self._table(cone.identity).T
        return sp.csr_array(whole @ sp.diags_array(cone.each(scaling.eta)))

    def add_normal(self, out: Array, scaling: LorentzScaling) -> None:
        """Add A T² Aᵀ = η²(A_T A_Tᵀ − a_h a_hᵀ) + 2η² (Aw)(Aw)ᵀ."""
        cone = self.cone
        signs = np.where(cone.is_tail, 1.0, -1.0) * cone.each(scaling.eta**2)
        plain: Any = self.a @ sp.diags_array(signs) @ self.a.T
        across = sp.csc_array(
            self.a @ self._table(np.sqrt(2.0) * cone.each(scaling.eta) * scaling.w)
        )
        full = np.diff(across.indptr) > _DENSE_SHARE * across.shape[0]
        few: Any = across[:, np.flatnonzero(~full)]
        sparse = sp.coo_array(plain + few @ few.T)
        out[sparse.row, sparse.col] += sparse.data
        if full.any():
            columns = across[:, np.flatnonzero(full)].toarray()
            out += columns @ columns.T


__all__ = ["LorentzCones", "LorentzRows", "LorentzScaling"]
