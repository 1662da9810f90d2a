"""The inverse of a dual slack, S⁻¹, as a matrix and as an operator.

In general both come from a Cholesky factor of S: S⁻¹ in n³, a product S⁻¹X in 2n³. The slack of a
graph is sparse but for a few directions of its cost,

    S = T + U diag(s) Uᵀ,    S⁻¹ = T⁻¹ − G (diag(s)⁻¹ + UᵀG)⁻¹ Gᵀ,    G = T⁻¹U     (Woodbury)

(the grounded identity I − 11ᵀ/n has one such direction, u = 1). Where T = LDLᵀ fills in little,
all of it takes a small multiple of n² operations. T may be indefinite, so that its pivots are
watched: where one is too small, the factor of S serves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.numerics.kernels import fast_kernel
from sdpkit.program.cost import Cost
from sdpkit.solvers.pairs import Pairs
from sdpkit.solvers.passes import product, symmetric_part, times

if TYPE_CHECKING:  # sparse factors load the compiler, which small programs need not wait for
    from sdpkit.numerics.pattern import Pattern
    from sdpkit.numerics.sparse_factor import SparseFactor

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_GROWTH = 1e3  # of entries, beyond which a pivot is too small to be divided by
_PANEL = 64  # right-hand sides solved at a time
_DIRECTIONS = 8  # of a cost beside its sparse part, at most
_FILL = 20  # n over this is the number of entries per column up to which sparse factors are faster


class Inverse(Protocol):
    """S⁻¹."""

    @property
    def matrix(self) -> Array:
        """All of it, (n, n)."""

    def solve(self, image: Any, matrix: Array, error: Array | None) -> Array:
        """S⁻¹(DM + E) for D = `image`, dense or sparse. The next call may overwrite it."""


@dataclass(frozen=True, eq=False)
class DenseInverse:
    """S⁻¹ by its entries."""

    matrix: Array

    def solve(self, image: Any, matrix: Array, error: Array | None) -> Array:
        """S⁻¹(DM + E)."""
        columns = times(image, matrix)
        if error is not None:
            columns += error
        return product(self.matrix, columns)


@dataclass(frozen=True, eq=False)
class SparseInverse:
    """S⁻¹ by a sparse factor of T.

    Attributes
    ----------
    factor: of T;  images: (n, k) G;  core: (k, k) (diag(s)⁻¹ + UᵀG)⁻¹;  matrix: (n, n) S⁻¹
    room: (n, n) for what `solve` returns: fresh memory costs more than the arithmetic
    """

    factor: SparseFactor
    images: Array
    core: Array
    matrix: Array
    room: Array

    @classmethod
    def of(
        cls, factor: SparseFactor, directions: Array, weights: Array, room: Array
    ) -> SparseInverse | None:
        """From T, U and s; None where T has lost too many digits."""
        if factor.negative < 0 or factor.growth > _GROWTH:
            return None
        images = factor.solve(directions)
        core = np.asarray(np.linalg.inv(np.diag(1.0 / weights) + directions.T @ images), np.float64)
        bare = cls(factor, images, core, room, room)
        one = sp.eye_array(len(room), format="csr")
        return replace(bare, matrix=symmetric_part(bare.solve(one, np.eye(len(room)), None)))

    def solve(self, image: Any, matrix: Array, error: Array | None) -> Array:
        """S⁻¹(DM + E), D sparse."""
        p = self.factor.pattern
        small = (image @ self.images).T @ matrix
        if error is not None:
            small += self.images.T @ error
        # By a kernel of fixed types: what is not there has no rows.
        added = np.empty((0, 0)) if error is None else error
        _solve_updated(
            p.order, p.indptr, p.rows, self.factor.values, self.images, self.core @ small,
            image.indptr.astype(np.int64), image.indices.astype(np.int64), image.data, matrix,
            added, np.empty((p.n, _PANEL)), self.room,
        )  # fmt: skip
        return self.room


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
    places: Ints
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
        """The inverse of the slack with weights u; None where it takes a dense factor."""
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
    "i8[:]", "i8[:]", "i8[:]", "f8[:]", "f8[:,:]", "f8[:,:]", "i8[:]", "i8[:]", "f8[:]",
    "f8[:,:]", "f8[:,:]", "out f8[:,:]", "out f8[:,:]",
)  # fmt: skip
def _solve_updated(
    order: Ints, indptr: Ints, rows: Ints, x: Array, images: Array, small: Array, d_indptr: Ints,
    d_indices: Ints, d_data: Array, matrix: Array, error: Array, panel: Array, out: Array,
) -> None:  # fmt: skip
    """T⁻¹(DM + E) − images·small, a panel of columns at a time to stay in cache."""
    n, width = matrix.shape
    for start in range(0, width, panel.shape[1]):
        size = min(panel.shape[1], width - start)
        for k in range(n):
            node = order[k]
            if error.shape[0]:
                for c in range(size):
                    panel[k, c] = error[node, start + c]
            else:
                for c in range(size):
                    panel[k, c] = 0.0
            for p in range(d_indptr[node], d_indptr[node + 1]):
                i, entry = d_indices[p], d_data[p]
                for c in range(size):
                    panel[k, c] += entry * matrix[i, start + c]
        for k in range(n):
            for p in range(indptr[k], indptr[k + 1]):
                i, entry = rows[p], x[n + p]
                for c in range(size):
                    panel[i, c] -= entry * panel[k, c]
        for k in range(n - 1, -1, -1):
            scale, node = 1.0 / x[k], order[k]
            for c in range(size):
                panel[k, c] *= scale
            for p in range(indptr[k], indptr[k + 1]):
                i, entry = rows[p], x[n + p]
                for c in range(size):
                    panel[k, c] -= entry * panel[i, c]
            for c in range(size):
                out[node, start + c] = panel[k, c]
            for r in range(images.shape[1]):
                entry = images[node, r]
                for c in range(size):
                    out[node, start + c] -= entry * small[r, start + c]
