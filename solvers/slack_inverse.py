"""The inverse of a dual slack, S⁻¹, as a matrix and as an operator.

In general both come from a Cholesky factor of S: S⁻¹ in n³, a product S⁻¹X in 2n³. The slack of a
graph is sparse but for a few directions of its cost,

    S = T + U diag(s) Uᵀ,    S⁻¹ = T⁻¹ − G K⁻¹ Gᵀ,    G = T⁻¹U,    K = diag(s)⁻¹ + UᵀG    (Woodbury)

(the grounded identity I − 11ᵀ/n has one such direction, u = 1). Where T = LDLᵀ fills in little,
all of it takes a small multiple of n² operations. T may be indefinite, so that its pivots are
watched: where one is too small, the factor of S serves. Counting signs tells whether S is positive
definite (Haynsworth 1968): T has as many negative eigenvalues as s has positive entries more than
K has positive eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from sdpkit.numerics.kernels import fast_kernel
from sdpkit.program.cost import Cost
from sdpkit.solvers.definite import Breakdown, cholesky, inverse_of
from sdpkit.solvers.passes import product, times
from sdpkit.solvers.two_entries import Pairs
from sdpkit.typing import Array, Indices

if TYPE_CHECKING:  # sparse factors load the compiler, which small programs need not wait for
    from sdpkit.numerics.pattern import Pattern
    from sdpkit.numerics.sparse_factor import SparseFactor


_GROWTH = 1e3  # of entries, beyond which a pivot is too small to be divided by
_CANCELLED = 1e-12  # of its terms, an eigenvalue of K whose sign may be rounding
_PANEL = 64  # right-hand sides solved at a time
_DIRECTIONS = 8  # of a cost beside its sparse part, at most
_FILL = 20  # n over this is the number of entries per column up to which sparse factors are faster


class Inverse(Protocol):
    """S⁻¹ of a positive definite S."""

    @property
    def matrix(self) -> Array:
        """All of it, (n, n), made when it is first asked for."""

    def solve(self, image: Any, matrix: Array, error: Array | None) -> Array:
        """S⁻¹(DM + E) for D = `image`, dense or sparse. The next call may overwrite it."""


@dataclass(frozen=True, eq=False)
class DenseInverse:
    """S⁻¹ by the Cholesky factor of S, S = `lower`·`lower`ᵀ."""

    lower: Array

    @classmethod
    def of(cls, slack: Array) -> DenseInverse:
        """From S; `Breakdown` if it is not positive definite."""
        return cls(cholesky(slack))

    @cached_property
    def matrix(self) -> Array:
        """(n, n)."""
        return inverse_of(self.lower)

    def solve(self, image: Any, matrix: Array, error: Array | None) -> Array:
        """S⁻¹(DM + E)."""
        return product(self.matrix, _with_error(image, matrix, error))


@dataclass(frozen=True, eq=False)
class SparseInverse:
    """S⁻¹ by a sparse factor of T.

    Attributes
    ----------
    factor: of T;  images: (n, k) G;  core: (k, k) K⁻¹
    room: (n, n) for what `solve` returns: fresh memory costs more than the arithmetic
    """

    factor: SparseFactor
    images: Array
    core: Array
    room: Array

    @classmethod
    def of(
        cls, factor: SparseFactor, directions: Array, weights: Array, room: Array
    ) -> SparseInverse | None:
        """From T, U and s; None where T or K has lost too many digits.

        `Breakdown` where S is not positive definite.
        """
        if factor.negative < 0 or factor.growth > _GROWTH:
            return None
        images = factor.solve(directions)
        steep, along = np.diag(1.0 / weights), directions.T @ images
        values, vectors = np.linalg.eigh(steep + 0.5 * (along + along.T))
        least = _CANCELLED * max(np.abs(steep).max(initial=0.0), np.abs(along).max(initial=0.0))
        if np.any(np.abs(values) <= least):
            return None
        if factor.negative + np.count_nonzero(values > 0) != np.count_nonzero(weights > 0):
            raise Breakdown
        return cls(factor, images, np.asarray((vectors / values) @ vectors.T), room)

    @cached_property
    def matrix(self) -> Array:
        """(n, n)."""
        p, out = self.factor.pattern, np.empty(self.room.shape)
        _invert(p.indptr, p.rows, self.factor.values, self.room)
        # In the order of elimination up to here.
        _updated(p.order, self.room, self.images, self.core @ self.images.T, out)
        return out

    def solve(self, image: Any, matrix: Array, error: Array | None) -> Array:
        """S⁻¹(DM + E), D sparse."""
        p, columns = self.factor.pattern, _with_error(image, matrix, error)
        small = self.core @ (self.images.T @ columns)
        _solve_updated(
            p.order, p.indptr, p.rows, self.factor.values, self.images, small, columns,
            np.zeros((p.n, _PANEL)), self.room,
        )  # fmt: skip
        return self.room


def _with_error(image: Any, matrix: Array, error: Array | None) -> Array:
    """DM + E."""
    columns = times(image, matrix)
    if error is not None:
        columns += error
    return columns


@dataclass(frozen=True, eq=False)
class SparseSlack:
    """Where the entries of the slacks of a graph lie, S = Vᵀdiag(u)V − C.

    Attributes
    ----------
    pattern: of the sparse part;  places: flat places of what each measurement adds, see `flat`
    constant: flat, the sparse part of −C;  directions, weights: the rest of it, U and s
    """

    pairs: Pairs
    pattern: Pattern
    places: Indices
    constant: Array
    directions: Array
    weights: Array

    @classmethod
    def of(cls, pairs: Pairs, cost: Cost, sign: float) -> SparseSlack | None:
        """Of a graph that is large and fills in little; None of others."""
        if not pairs.is_large or cost.weights.size > _DIRECTIONS:
            return None
        from sdpkit.numerics.pattern import Pattern

        n, two = pairs.n, pairs.two_ended
        given = sp.coo_array(sp.triu(cost.sparse, 1))
        ends = np.vstack([np.column_stack([pairs.first[two], pairs.second[two]]),
                          np.column_stack(given.coords)]).astype(np.int64)  # fmt: skip
        low, high = ends.min(axis=1), ends.max(axis=1)
        keys, which = np.unique(low * n + high, return_inverse=True)
        pattern = Pattern.of(n, np.column_stack(np.divmod(keys, n)))
        if pattern.rows.size * _FILL > n * n:
            return None
        between = pattern.edge_places[which]
        first, second = pattern.rank[pairs.first], pattern.rank[pairs.second[two]]
        constant = np.zeros(pattern.size)
        diagonal = cost.identity + cost.sparse.diagonal()
        constant[:n] = -sign * diagonal[pattern.order]
        np.add.at(constant, between[two.size :], -sign * given.data)
        places = np.concatenate([first, second, between[: two.size]])
        used = cost.weights != 0
        return cls(
            pairs, pattern, places, constant, cost.factor[:, used], -sign * cost.weights[used]
        )

    def inverse(self, u: Array) -> SparseInverse | None:
        """The inverse of the slack with weights u; None where it takes a dense factor.

        `Breakdown` where the slack is not positive definite.
        """
        from sdpkit.numerics.sparse_factor import SparseFactor

        two, sign = u[self.pairs.two_ended], self.pairs.sign
        entries = np.concatenate([u, two, sign * two])
        values = np.bincount(self.places, entries, self.pattern.size) + self.constant
        factor = SparseFactor.of(self.pattern, values)
        return SparseInverse.of(factor, self.directions, self.weights, self.room)

    @cached_property
    def room(self) -> Array:
        """(n, n) scratch."""
        return np.empty((self.pattern.n, self.pattern.n))


@fast_kernel(
    "i8[:]", "i8[:]", "i8[:]", "f8[:]", "f8[:,:]", "f8[:,:]", "f8[:,:]", "out f8[:,:]",
    "out f8[:,:]",
)  # fmt: skip
def _solve_updated(
    order: Indices, indptr: Indices, rows: Indices, x: Array, images: Array, small: Array,
    columns: Array, panel: Array, out: Array,
) -> None:  # fmt: skip
    """T⁻¹·columns − images·small, a panel of columns at a time to stay in cache.

    All columns of the panel are worked on, used or not: a fixed number makes shorter loops.
    """
    n, width = columns.shape
    for start in range(0, width, _PANEL):
        size = min(_PANEL, width - start)
        for k in range(n):
            node = order[k]
            for c in range(size):
                panel[k, c] = columns[node, start + c]
        for k in range(n):
            for p in range(indptr[k], indptr[k + 1]):
                i, entry = rows[p], x[n + p]
                for c in range(_PANEL):
                    panel[i, c] -= entry * panel[k, c]
        for k in range(n - 1, -1, -1):
            scale, node = 1.0 / x[k], order[k]
            for c in range(_PANEL):
                panel[k, c] *= scale
            for p in range(indptr[k], indptr[k + 1]):
                i, entry = rows[p], x[n + p]
                for c in range(_PANEL):
                    panel[k, c] -= entry * panel[i, c]
            for c in range(size):
                out[node, start + c] = panel[k, c]
            for r in range(images.shape[1]):
                entry = images[node, r]
                for c in range(size):
                    out[node, start + c] -= entry * small[r, start + c]


@fast_kernel("i8[:]", "i8[:]", "f8[:]", "out f8[:,:]")
def _invert(indptr: Indices, rows: Indices, x: Array, out: Array) -> None:
    """T⁻¹ from the last row to the first, by Takahashi's recurrence Z = D⁻¹L⁻¹ + (I − Lᵀ)Z.

    Beyond the diagonal L⁻¹ is zero, and what is before it is known by symmetry: a quarter of the
    operations of n solutions.
    """
    n = indptr.size - 1
    for k in range(n - 1, -1, -1):
        for c in range(k + 1, n):
            out[k, c] = 0.0
        for p in range(indptr[k], indptr[k + 1]):
            i, entry = rows[p], x[n + p]
            for c in range(k + 1, n):
                out[k, c] -= entry * out[i, c]
        pivot = 1.0 / x[k]
        for p in range(indptr[k], indptr[k + 1]):
            pivot -= x[n + p] * out[k, rows[p]]
        out[k, k] = pivot
        for c in range(k + 1, n):
            out[c, k] = out[k, c]


@fast_kernel("i8[:]", "f8[:,:]", "f8[:,:]", "f8[:,:]", "out f8[:,:]")
def _updated(order: Indices, inverse: Array, images: Array, small: Array, out: Array) -> None:
    """T⁻¹ − images·small in the order of the nodes, from T⁻¹ in the order of elimination."""
    n = order.size
    for k in range(n):
        node = order[k]
        for c in range(n):
            out[node, order[c]] = inverse[k, c]
        for r in range(images.shape[1]):
            entry = images[node, r]
            for c in range(n):
                out[node, c] -= entry * small[r, c]
