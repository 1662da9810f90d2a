"""The inverse of a dual slack, S⁻¹, as a matrix and as an operator.

In general both come from a Cholesky factor of S: S⁻¹ in n³, a product S⁻¹X in 2n³. The slack of a
graph is sparse but for a few directions of its cost,

    S = T + U diag(s) Uᵀ,    S⁻¹ = T⁻¹ − G (diag(s)⁻¹ + UᵀG)⁻¹ Gᵀ,    G = T⁻¹U     (Woodbury)

(the grounded identity I − 11ᵀ/n has one such direction, u = 1). Where T = LDLᵀ fills in little,
all of it takes a small multiple of n² operations. T may be indefinite, so that its pivots are
watched: where one is too small, the factor of S serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from sdpkit.numerics.pattern import Pattern
from sdpkit.numerics.sparse_factor import SparseFactor
from sdpkit.program.cost import Cost
from sdpkit.solvers.pairs import Pairs

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_GROWTH = 1e3  # of entries, beyond which a pivot is too small to be divided by
_DIRECTIONS = 8  # of a cost beside its sparse part, at most
_FILL = 20  # n over this is the number of entries per column up to which sparse factors are faster


class Inverse(Protocol):
    """S⁻¹."""

    @property
    def matrix(self) -> Array:
        """All of it, (n, n)."""

    def solve(self, columns: Array) -> Array:
        """S⁻¹ times a matrix."""


@dataclass(frozen=True, eq=False)
class DenseInverse:
    """S⁻¹ by its entries."""

    matrix: Array

    def solve(self, columns: Array) -> Array:
        """S⁻¹ times a matrix."""
        # By scipy's BLAS, as all products here (`sdpkit.solvers.algebra.product`).
        return np.asarray(blas.dgemm(1.0, columns.T, self.matrix.T).T)


@dataclass(frozen=True, eq=False)
class SparseInverse:
    """S⁻¹ by a sparse factor of T.

    Attributes
    ----------
    factor: of T;  images: (n, k) G;  core: (k, k) (diag(s)⁻¹ + UᵀG)⁻¹;  matrix: (n, n) S⁻¹
    """

    factor: SparseFactor
    images: Array
    core: Array
    matrix: Array

    @classmethod
    def of(cls, factor: SparseFactor, directions: Array, weights: Array) -> SparseInverse | None:
        """From T, U and s; None where T has lost too many digits."""
        if factor.negative < 0 or factor.growth > _GROWTH:
            return None
        images = factor.solve(directions)
        core = np.linalg.inv(np.diag(1.0 / weights) + directions.T @ images)
        bare = cls(factor, images, core, np.empty((0, 0)))
        matrix = bare.solve(np.eye(factor.pattern.n))
        matrix = 0.5 * (matrix + matrix.T)
        return cls(factor, images, core, matrix)

    def solve(self, columns: Array) -> Array:
        """S⁻¹ times a matrix."""
        out = self.factor.solve(columns)
        out -= self.images @ (self.core @ (self.images.T @ columns))
        return out


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
        constant[: n] = -sign * diagonal[pattern.order]
        np.add.at(constant, between[two.size :], -sign * given.data)
        places = np.concatenate([first, second, between[: two.size]])
        used = cost.weights != 0
        return cls(
            pairs, pattern, places, constant, cost.factor[:, used], -sign * cost.weights[used]
        )

    def inverse(self, u: Array) -> SparseInverse | None:
        """The inverse of the slack with weights u; None where it takes a dense factor."""
        two, sign = u[self.pairs.two_ended], self.pairs.sign
        entries = np.concatenate([u, two, sign * two])
        values = np.bincount(self.places, entries, self.pattern.size) + self.constant
        factor = SparseFactor.of(self.pattern, values)
        return SparseInverse.of(factor, self.directions, self.weights)
