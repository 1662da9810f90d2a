"""Positive semidefinite matrices that are too large to write down.

A Gram matrix of ten thousand points has a hundred million entries, and none of its uses
needs them: lengths of edges, the trace, products with vectors, the leading eigenvectors, and a
proof that it is positive semidefinite. A `Gram` computes these from the data that define it. The
certificate recomputes everything from the numbers that a solver has put in.

    FactoredGram      K = Y Yᵀ, Y of few columns
    ResolventGram     K = μ P T(w − Δ) P,  T(w) = L(w) − cC − UsUᵀ for a graph, P its inverse on 1⊥
    StackedGram       one matrix per part of the nodes, zero between parts

The second is what a step Δ of a barrier method towards  A(K) = d  leaves behind (K is μP to first
order in T). It is a congruence of T(w − Δ): if that matrix is positive semidefinite, so is K, and
whether it is shows in a sparse factorisation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from sdpkit.errors import InputError
from sdpkit.typing import Array, Indices

if TYPE_CHECKING:
    from sdpkit.numerics.pattern import Pattern
    from sdpkit.numerics.sparse_factor import SparseFactor
    from sdpkit.numerics.updated_factor import LowRankUpdate, UpdatedFactor
    from sdpkit.program.cost import Cost

Matrix: TypeAlias = Union[Array, "Gram"]

_PANEL = 256  # columns of a dense matrix in the making
_SAMPLE = 32  # edges whose lengths are computed a second way


class Gram(ABC):
    """A symmetric matrix known by what it does."""

    shape: tuple[int, int]

    @abstractmethod
    def __matmul__(self, vectors: Array) -> Array:
        """K times a vector (n,) or the columns of a matrix (n, k)."""

    @abstractmethod
    def scaled(self, factor: float) -> Gram:
        """factor · K."""

    @abstractmethod
    def smallest_eigenvalue(self) -> float:
        """A proven lower bound: 0 if K is positive semidefinite by construction."""

    def trace(self) -> float:
        """tr K."""
        return sum(
            float(np.trace(self._columns(start)[start:]))
            for start in range(0, self.shape[0], _PANEL)
        )

    def lengths(self, vectors: Any) -> Array:
        """(p,) v_pᵀ K v_p for the rows of a sparse or dense (p, n) matrix."""
        out = np.empty(vectors.shape[0])
        for start in range(0, vectors.shape[0], _PANEL):
            part = vectors[start : start + _PANEL]
            rows = np.asarray(part.toarray() if hasattr(part, "toarray") else part)
            out[start : start + _PANEL] = np.einsum("pi,ip->p", rows, self @ rows.T)
        return out

    def measure(self, incidence: Any, features: Array | None = None) -> Array:
        """(p,) squared lengths of the rows of V = B X."""
        return self.lengths(incidence if features is None else incidence @ features)

    def accuracy(self) -> float:
        """A relative error that `measure` may have beyond plain rounding."""
        return 0.0

    def inner(self, cost: Cost) -> float:
        """<C, K>."""
        value = cost.identity * self.trace() if cost.identity else 0.0
        if cost.sparse.nnz:
            value += self.inner_sparse(cost.sparse)
        if cost.factor.shape[1]:
            image = self @ cost.factor
            value += float(cost.weights @ np.einsum("ik,ik->k", cost.factor, image))
        return value

    def inner_sparse(self, matrix: Any) -> float:
        """<C, K> of a sparse C."""
        raise InputError(
            "<C, K> needs the entries of K where C is sparse, and this K is an operator: "
            "use numpy.asarray(K)"
        )

    def leading(self, k: int) -> tuple[Array, Array]:
        """(k,) the largest eigenvalues, falling, and (n, k) their eigenvectors, by Lanczos."""
        from sdpkit.numerics.eigenpairs import leading_eigenpairs

        return leading_eigenpairs(lambda x: self @ x.ravel(), self.shape[0], k)

    @cached_property
    def largest_eigenvalue(self) -> float:
        """λ₁, by Lanczos."""
        return float(self.leading(1)[0][0])

    def is_finite(self) -> bool:
        """Whether the data hold no NaN or infinity, and their products are finite."""
        vector = np.random.default_rng(0).standard_normal(self.shape[0])  # the constant may be null
        with np.errstate(all="ignore"):
            return bool(np.isfinite(self @ vector).all())

    def _columns(self, start: int) -> Array:
        n = self.shape[0]
        return self @ np.eye(n, min(_PANEL, n - start), -start)

    def toarray(self) -> Array:
        """The (n, n) matrix, for small n."""
        panels = [self._columns(start) for start in range(0, self.shape[0], _PANEL)]
        full = np.hstack(panels)
        return np.asarray((full + full.T) / 2)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.toarray(), dtype=dtype)


@dataclass(frozen=True, eq=False)
class FactoredGram(Gram):
    """K = Y Yᵀ, Y (n, r).

    >>> gram = FactoredGram(np.array([[1.0], [-1.0]]))
    >>> gram.toarray().tolist(), gram.trace(), gram.smallest_eigenvalue()
    ([[1.0, -1.0], [-1.0, 1.0]], 2.0, 0.0)
    """

    factor: Array

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """(n, n)."""
        return self.factor.shape[0], self.factor.shape[0]

    def __matmul__(self, vectors: Array) -> Array:
        return np.asarray(self.factor @ (self.factor.T @ vectors))

    def scaled(self, factor: float) -> FactoredGram:
        """factor · K, factor ≥ 0."""
        return FactoredGram(np.sqrt(factor) * self.factor)

    def trace(self) -> float:
        """tr K."""
        return float(np.sum(self.factor**2))

    def lengths(self, vectors: Any) -> Array:
        """(p,) squared norms of the rows of V Y."""
        return np.asarray(np.sum(np.asarray(vectors @ self.factor) ** 2, axis=1))

    def inner_sparse(self, matrix: Any) -> float:
        """<C, K> = <CY, Y>."""
        return float(np.vdot(matrix @ self.factor, self.factor))

    def smallest_eigenvalue(self) -> float:
        """K is positive semidefinite by construction."""
        return 0.0

    def leading(self, k: int) -> tuple[Array, Array]:
        """(k,) the largest eigenvalues, falling, and (n, k) eigenvectors, from those of Y."""
        n, rank = self.factor.shape
        left, singular, _ = np.linalg.svd(self.factor, full_matrices=False)
        if k > rank:  # beyond the rank any orthonormal vectors will do
            more = np.random.default_rng(0).standard_normal((n, min(k, n) - rank))
            left = np.hstack([left, np.linalg.qr(np.hstack([left, more]))[0][:, rank:]])
            singular = np.concatenate([singular, np.zeros(more.shape[1])])
        return singular[:k] ** 2, left[:, :k]

    def __repr__(self) -> str:
        return f"<FactoredGram {self.shape}: rank at most {self.factor.shape[1]}>"


@dataclass(frozen=True, eq=False)
class ResolventGram(Gram):
    """K = μ P T(w − Δ) P with T(w) = L(w) − cC − UsUᵀ and P its inverse on 1⊥.

    T(w) is nearly singular where K is large, so that the rounding of its factors shows in K: what
    is meant by P is the inverse of the factors, and by T(w) their product.

    Attributes
    ----------
    pattern: the graph and the analysis of its factors;  cost: c
    weights: (m,) w;  step: (m,) Δ;  mu: μ
    update: UsUᵀ, where the cost is not a multiple of C
    """

    pattern: Pattern
    cost: float
    weights: Array
    step: Array
    mu: float
    update: LowRankUpdate | None = None

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """(n, n)."""
        return self.pattern.n, self.pattern.n

    @cached_property
    def factor(self) -> SparseFactor | UpdatedFactor:
        """A factor of T(w) that agrees with it on 1⊥, with −cI or a pinned node for −cC."""
        from sdpkit.numerics.updated_factor import factored

        shift = centring_shift(self.pattern, self.weights, self.cost)
        return factored(self.pattern, self.weights, shift, self.update)

    def __matmul__(self, vectors: Array) -> Array:
        # PT(w − Δ)P as P − PL(Δ)P: with P as its factors have it, to the last digit, T(w) cancels.
        inner = self._inverse(vectors)
        return self.mu * (inner - self._inverse(self._change(inner)))

    def _inverse(self, vectors: Array) -> Array:
        """P times vectors."""
        solved = self.factor.solve(_centred(vectors))
        return _centred(solved)

    def _change(self, vectors: Array) -> Array:
        """L(Δ) times vectors."""
        i, j = self.pattern.edges.T
        flow = (self.step * (vectors[i] - vectors[j]).T).T
        out = np.zeros_like(vectors)
        np.add.at(out, i, flow)
        np.subtract.at(out, j, flow)
        return out

    @cached_property
    def edge_lengths(self) -> Array:
        """(m,) b_eᵀKb_e = μ(a − da), from the selected inverse and its derivative along Δ."""
        a = self.factor.inverse_lengths()
        return np.asarray(self.mu * (a - self.factor.inverse_lengths_along(self.step)))

    def measure(self, incidence: Any, features: Array | None = None) -> Array:
        """(p,) squared lengths; from the selected inverse where they are those of the graph."""
        m = incidence.shape[0]
        if features is None and m <= len(self.pattern.edges) and _are_differences(incidence):
            ends = incidence.indices.reshape(-1, 2)
            if np.array_equal(ends, self.pattern.edges[:m]):
                return self.edge_lengths[:m]
        return super().measure(incidence, features)

    def accuracy(self) -> float:
        """How much the lengths of some edges differ from the same by direct solves."""
        m = len(self.pattern.edges)
        some = np.unique(np.linspace(0, m - 1, min(m, _SAMPLE)).astype(np.int64))
        vectors = np.zeros((some.size, self.shape[0]))
        vectors[np.arange(some.size), self.pattern.edges[some, 0]] = 1.0
        vectors[np.arange(some.size), self.pattern.edges[some, 1]] = -1.0
        apart = np.abs(self.lengths(vectors) - self.edge_lengths[some])
        longest = float(np.abs(self.edge_lengths).max())
        return float(apart.max()) / longest if longest > 0 else 0.0

    def trace(self) -> float:
        """tr K from  c·tr K = wᵀA(K) − <T(w), K> − <UsUᵀ, K>  and  <T(w), K> = μ(n − 1 − aᵀΔ)."""
        if self.cost == 0:
            return super().trace()
        a = self.factor.inverse_lengths()
        product = self.mu * (self.shape[0] - 1 - float(a @ self.step))
        if self.update is not None:
            product += float(self.update.weights @ self.lengths(self.update.vectors.T))
        return (float(self.weights @ self.edge_lengths) - product) / self.cost

    def smallest_eigenvalue(self) -> float:
        """0 if T(w − Δ) is proven to be positive semidefinite on 1⊥, else what it may lack."""
        from sdpkit.numerics.eigenpairs import smallest_on_centred

        if self.cost == 0 or self.mu < 0:
            return -np.inf  # the factor is that of another matrix; the sign is wrong
        known = self.pattern, self.weights, self.cost
        least = smallest_on_centred(*known, self.step, self.update)
        least -= self.factor.backward_error((self.weights,), (-self.cost,))
        if least >= 0:
            return 0.0
        strength = smallest_on_centred(*known, None, self.update)
        return -np.inf if strength <= 0 else float(min(least, 0.0) * self.mu / strength**2)

    def scaled(self, factor: float) -> ResolventGram:
        """factor · K."""
        return replace(self, mu=factor * self.mu)

    def __repr__(self) -> str:
        return f"<ResolventGram {self.shape}: {len(self.pattern.edges)} edges, mu {self.mu:.3g}>"


@dataclass(frozen=True, eq=False)
class StackedGram(Gram):
    """Matrices of disjoint parts of n nodes, zero between parts.

    Attributes
    ----------
    size: n;  parts: pairs of a matrix and the (k,) nodes it belongs to
    """

    size: int
    parts: Sequence[tuple[Matrix, Indices]]

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """(n, n)."""
        return self.size, self.size

    def __matmul__(self, vectors: Array) -> Array:
        out = np.zeros_like(vectors)
        for matrix, nodes in self.parts:
            out[nodes] = matrix @ vectors[nodes]
        return out

    def scaled(self, factor: float) -> StackedGram:
        """factor · K."""
        return StackedGram(self.size, [(scaled(m, factor), nodes) for m, nodes in self.parts])

    def trace(self) -> float:
        """tr K."""
        return sum(trace(matrix) for matrix, _ in self.parts)

    def smallest_eigenvalue(self) -> float:
        """The smallest of the parts'."""
        return min(
            float(np.linalg.eigvalsh(m)[0])
            if isinstance(m, np.ndarray)
            else m.smallest_eigenvalue()
            for m, _ in self.parts
        )


def trace(matrix: Matrix) -> float:
    """tr M of an array or an operator."""
    return float(np.trace(matrix)) if isinstance(matrix, np.ndarray) else matrix.trace()


def scaled(matrix: Matrix, factor: float) -> Matrix:
    """factor · M."""
    return factor * matrix if isinstance(matrix, np.ndarray) else matrix.scaled(factor)


def is_finite(matrix: Matrix) -> bool:
    """Whether a matrix holds no NaN or infinity."""
    return bool(np.isfinite(matrix).all()) if isinstance(matrix, np.ndarray) else matrix.is_finite()


def centring_shift(pattern: Pattern, weights: Array, cost: float) -> Array:
    """(n,) a diagonal that makes L(w) nonsingular and equal to L(w) − cC on 1⊥: −c everywhere, or,
    if c = 0, one node pinned, after which the inverse differs by constants on 1⊥."""
    shift = np.full(pattern.n, -cost)
    if cost == 0:
        shift[0] = max(float(np.abs(weights).max(initial=0.0)), np.finfo(float).tiny)
    return shift


def _are_differences(incidence: Any) -> bool:
    """Whether every row is ±(e_i − e_j)."""
    if not np.all(np.diff(incidence.indptr) == 2):
        return False
    first, second = incidence.data.reshape(-1, 2).T
    return bool(np.all(np.abs(first) == 1) and np.all(first == -second))


def _centred(vectors: Array) -> Array:
    return np.asarray(vectors - vectors.mean(axis=0))
