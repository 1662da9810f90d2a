"""Costs: symmetric matrices kept in the shape they have, a·I + sparse + low rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_csr, finite_vector, real_array, real_number
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.gram import Matrix


def dense(matrix: Any) -> Array:
    """A sparse or dense matrix as a dense array."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


@dataclass(frozen=True, eq=False)
class Cost:
    """A symmetric matrix in the shape it has: a·I + sparse + U diag(s) Uᵀ.

    Attributes
    ----------
    size : int
        n.
    identity : float
        The multiple a of the identity.
    factor : array of shape (n, k)
        Dense U.
    weights : array of shape (k,)
        The signed weights s.
    sparse : csr_array of shape (n, n)
        The sparse part.

    Examples
    --------
    >>> Cost.of(3, identity=2.0).dense()
    array([[2., 0., 0.],
           [0., 2., 0.],
           [0., 0., 2.]])
    """

    size: int
    identity: float
    sparse: sp.csr_array
    factor: Array
    weights: Array

    @classmethod
    def of(
        cls,
        size: int,
        *,
        identity: float = 0.0,
        sparse: Any = None,
        factor: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Cost:
        """Build and validate a cost; omitted parts are zero."""
        matrix = finite_csr(sparse, (size, size), "the sparse part of a cost")
        asymmetry = abs(matrix - matrix.T)
        if asymmetry.nnz and asymmetry.max() > 0:
            if asymmetry.max() > 1e-12 * float(abs(matrix).max()):
                raise InputError("the sparse part of a cost is not symmetric; pass (C + C.T) / 2")
            matrix = finite_csr((matrix + matrix.T) / 2, (size, size), "the sparse part of a cost")
        u = np.zeros((size, 0)) if factor is None else real_array(factor, "factor")
        if u.ndim != 2 or u.shape[0] != size or not np.isfinite(u).all():
            raise InputError(f"the factor of a cost must be finite of shape ({size}, k)")
        identity = real_number(identity, "the identity part of a cost")
        if not np.isfinite(identity):
            raise InputError(f"the identity part of a cost is {identity}; it must be finite")
        u.setflags(write=False)
        s = finite_vector(
            np.ones(u.shape[1]) if weights is None else weights, u.shape[1], "weights"
        )
        return cls(size, identity, matrix, u, s)

    @property
    def is_identity(self) -> bool:
        """True for a·I with nothing else."""
        return self.sparse.nnz == 0 and self.factor.shape[1] == 0

    def dense(self) -> Array:
        """The (n, n) matrix."""
        out: Array = self.sparse.toarray()
        out[np.diag_indices(self.size)] += self.identity
        if self.factor.shape[1]:
            out += (self.factor * self.weights) @ self.factor.T
        return out

    def inner(self, matrix: Matrix) -> float:
        """<C, M>."""
        if not isinstance(matrix, np.ndarray):
            return matrix.inner(self)
        value = self.identity * float(np.trace(matrix))
        if self.sparse.nnz:
            entries = self.sparse.tocoo()
            value += float(entries.data @ matrix[entries.row, entries.col])
        if self.factor.shape[1]:
            value += float(self.weights @ np.einsum("ik,ik->k", self.factor, matrix @ self.factor))
        return value

    @classmethod
    def variance(cls, multiplicities: Array) -> Cost:
        """diag(m) − mmᵀ/n; for distinct points the identity, which equals it on 1⊥."""
        n = multiplicities.size
        if np.all(multiplicities == 1):
            return cls.of(n, identity=1.0)
        return cls.of(
            n,
            sparse=sp.diags_array(multiplicities),
            factor=multiplicities[:, None],
            weights=np.array([-1.0 / multiplicities.sum()]),
        )

    def scaled(self, factor: float) -> Cost:
        """factor · C."""
        return Cost(
            self.size,
            factor * self.identity,
            self.sparse * factor,
            self.factor,
            factor * self.weights,
        )

    def plus(self, other: Cost) -> Cost:
        """C + D, each part in its shape."""
        return Cost(
            self.size,
            self.identity + other.identity,
            sp.csr_array(self.sparse + other.sparse),
            np.hstack([self.factor, other.factor]),
            np.r_[self.weights, other.weights],
        )

    def plus_identity(self, shift: float, but: Array | None = None) -> Cost:
        """C + shift · I, or C + shift · (I − UUᵀ) for an orthonormal U = `but`, (n, k)."""
        u = np.zeros((self.size, 0)) if but is None else but
        return replace(
            self,
            identity=self.identity + shift,
            factor=np.hstack([self.factor, u]),
            weights=np.r_[self.weights, np.full(u.shape[1], -shift)],
        )

    def magnitude(self) -> float:
        """An upper bound on ‖C‖₂ that is exact for a multiple of the identity."""
        value = abs(self.identity)
        if self.sparse.nnz:
            value += float(abs(self.sparse).sum(axis=1).max())
        if self.factor.shape[1]:
            value += float(np.abs(self.weights) @ np.einsum("ik,ik->k", self.factor, self.factor))
        return value

    def __repr__(self) -> str:
        return f"<Cost of size {self.size}: {self}>"

    def __str__(self) -> str:
        parts = []
        if self.identity:
            parts.append("I" if self.identity == 1 else f"{self.identity:g} I")
        if self.sparse.nnz:
            parts.append(f"sparse ({self.sparse.nnz} nonzeros)")
        if self.factor.shape[1]:
            parts.append(f"rank {self.factor.shape[1]}")
        return " + ".join(parts) or "0"
