"""The linear algebra of squared lengths: what every engine on dense matrices shares.

For measurements V and rows A_q of one block,

    A(M)   = A_q · diag(V M Vᵀ)            Aᵀ(w) = Vᵀ diag(A_qᵀw) V
    B      = A_q [(V M Vᵀ) ∘ (V S⁻¹ Vᵀ)] A_qᵀ

B is the matrix of an interior-point method's normal equations. They are solved in one of two
shapes, whichever is smaller: over the rows (m × m), or, where rows far outnumber the entries of M
and each has a slack of its own (LMNN), over the entries of M.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.solvers.definite import Breakdown, cholesky
from sdpkit.solvers.passes import product, scaled_to_single
from sdpkit.solvers.slack_inverse import DenseInverse, Inverse, SparseSlack
from sdpkit.solvers.tree import Sum, Tree
from sdpkit.solvers.two_entries import Pairs
from sdpkit.typing import Array, Bools, Single

_PANEL = 64  # rows of the normal equations assembled at a time, to stay in cache
_REFINEMENTS = 12  # at most, of a solution over the entries of M
_SINGLE_ROWS = 1000  # from this many on, factors in single precision are tried first
_SINGLE_STEPS = 12  # of conjugate gradients, beyond which a factor in double precision costs less
SOLVED = 1e-11  # the relative residual that solutions have to reach
_DENSE_IMAGE = 250  # up to this size a sparse matrix costs more than it saves


class BlockAlgebra:
    """The linear algebra of one block: measurements V, cost C, rows A_q restricted to it."""

    def __init__(self, block: Block, rows: sp.csr_array, cost_q: Array, sign: float) -> None:
        self.n, self.rows = block.size, sp.csr_array(rows)
        self.sparse = block.features is None
        self.v: Any = block.incidence if self.sparse else block.vectors().toarray()
        self.pairs = Pairs.of(block.incidence) if self.sparse else None
        self.cost = sign * block.cost.dense()
        self.slack = SparseSlack.of(self.pairs, block.cost, sign) if self.pairs else None
        self.cost_q = sign * cost_q
        if cost_q.any():
            self.cost += sign * dense(self.image(cost_q))
        self.row_weights = _diagonal(self.rows)

    def image(self, u: Array) -> Any:
        """Vᵀ diag(u) V; sparse where that saves work."""
        if self.pairs is not None:
            small = self.n <= _DENSE_IMAGE
            return self.pairs.image(u) if small else self.pairs.sparse_image(u)
        if self.sparse:
            return sp.csr_array(self.v.T @ sp.diags_array(u) @ self.v)
        return self.v.T @ (u[:, None] * self.v)

    def root(self, matrix: Array, inverse: Array) -> Array:
        """(m, n(n+1)/2): R with RRᵀ = A_q[(V M Vᵀ)∘(V S⁻¹ Vᵀ)]A_qᵀ (see `EntryEquations`)."""
        half = cholesky(inverse)
        # Near the central path Θ is almost a multiple of the identity, however small S becomes.
        inner = lapack.dsygst(matrix.T, half, itype=1, lower=1)[0]
        theta, u = lapack.dsyevr(inner, lower=1)[:2]
        v = product(dense(self.v), product(np.tril(half), u))
        i, j = np.triu_indices(self.n)
        weights = np.where(i == j, 0.5, 1.0) * (theta[i] + theta[j])
        return np.asarray(self.rows @ (np.sqrt(weights.clip(min=0.0)) * v[:, i] * v[:, j]))

    def adjoint(self, w: Array) -> Any:
        """Σ w_e A_e."""
        return self.image(np.asarray(self.rows.T @ w))

    def slack_of(self, w: Array) -> Array:
        """S(w) = Σ w_e A_e − C."""
        image = self.adjoint(w)
        if not isinstance(image, sp.csr_array):
            return np.asarray(dense(image) - self.cost)
        slack = -self.cost
        entries = image.tocoo()  # without duplicates, as a product of csr arrays
        slack[entries.coords] += entries.data
        return np.asarray(slack)

    def inverse_of_slack(self, w: Array, slack: Array | None = None) -> Inverse:
        """The inverse of S(w), which may be given as `slack`; `Breakdown` if it is not definite."""
        sparse = self.slack and self.slack.inverse(np.asarray(self.rows.T @ w) - self.cost_q)
        return sparse or DenseInverse.of(self.slack_of(w) if slack is None else slack)

    def is_definite(self, w: Array) -> bool:
        """Whether S(w) is positive definite."""
        try:
            self.inverse_of_slack(w)
        except Breakdown:
            return False
        return True

    def values_of_product(self, a: Array, b: Array) -> Array:
        """A(M) of the symmetric part of M = AB, B symmetric."""
        if self.pairs is not None and self.pairs.is_large:
            return np.asarray(self.rows @ self.pairs.lengths_of_product(a, b))
        return self.values(product(a, b))

    def values(self, matrix: Array) -> Array:
        """A(M), for a matrix that need not be symmetric: only its symmetric part counts."""
        if self.pairs is not None:
            return np.asarray(self.rows @ self.pairs.lengths(matrix))
        product = self.v @ matrix
        if self.sparse:
            q = np.asarray(self.v.multiply(product).sum(axis=1)).ravel()
        else:
            q = np.einsum("pi,pi->p", product, self.v)
        return np.asarray(self.rows @ q)

    def add_schur(
        self, schur: Array, matrix: Array, inverse: Array, from_zero: bool = False
    ) -> None:
        """Add A_q[(V M Vᵀ)∘(V S⁻¹ Vᵀ)]A_qᵀ to the lower triangle of `schur`, whose entries count
        as zero where the sum is one `from_zero`."""
        if self.row_weights is not None and self.pairs is not None and self.pairs.is_large:
            # Entries are set to zero one row at a time, when they are in cache anyway.
            self.pairs.add_hadamard(schur, matrix, inverse, self.row_weights, from_zero)
            return
        if from_zero:
            schur.fill(0.0)
        if self.row_weights is not None:
            self._add_hadamard(schur, matrix, inverse, self.row_weights)
            return
        p = self.rows.shape[1]
        full = np.zeros((p, p))
        self._add_hadamard(full, matrix, inverse, np.ones(p))
        full = np.tril(full) + np.tril(full, -1).T
        schur += self.rows @ (self.rows @ full).T

    def _add_hadamard(self, out: Array, matrix: Array, inverse: Array, weights: Array) -> None:
        if self.pairs is not None and self.pairs.is_large:
            self.pairs.add_hadamard(out, matrix, inverse, weights)
            return
        left = self._columns(matrix, weights)
        right = self._columns(inverse, np.ones_like(weights))
        height = _PANEL if self.pairs is not None else 8 * _PANEL  # others copy their columns
        for start in range(0, out.shape[0], height):
            continue_or_raise()
            rows = slice(start, min(start + height, out.shape[0]))
            # The product is symmetric: each panel of rows stops at the diagonal.
            part = self._panel(left, rows)
            part *= self._panel(right, rows)
            part *= weights[rows, None]
            out[rows, : rows.stop] += part

    def _columns(self, matrix: Array, weights: Array) -> Array:
        """(V M)ᵀ diag(weights), stored so that V(VM)ᵀ is made of sums of contiguous rows."""
        if self.pairs is not None:
            return self.pairs.columns(matrix, weights)
        return np.ascontiguousarray((self.v @ matrix).T * weights)

    def _panel(self, columns: Array, rows: slice) -> Array:
        """V[rows] (V M)ᵀ, up to the diagonal."""
        if self.pairs is not None:
            return self.pairs.panel(columns, rows, rows.stop)
        return np.asarray(self.v[rows] @ np.ascontiguousarray(columns[:, : rows.stop]))


class TreeCone(BlockAlgebra):
    """A cone of graph edges in the coordinates of a spanning tree, M = T Z Tᵀ.

    A measurement is the path between its ends.
    """

    def __init__(self, cone: BlockAlgebra, tree: Tree) -> None:
        self.n, self.rows, self.row_weights = cone.n, cone.rows, cone.row_weights
        self.sparse, self.pairs, self.slack, self.tree = True, None, None, tree
        self.v = tree.paths(cone.v)
        self.cost = tree.congruent(cone.cost)

    @classmethod
    def of(cls, cone: BlockAlgebra, matrix: Array) -> TreeCone | None:
        """The cone along the tree that is shortest under M; None where there are no edges.

        Nodes that were solved for leave measurements of several entries, which follow the tree
        as well but are no part of it.
        """
        if not cone.sparse or isinstance(cone, TreeCone):
            return None
        edges = cone.v[np.flatnonzero(_is_edge(cone.v))]
        pairs = Pairs.of(edges) if edges.shape[0] else None
        if pairs is None or not pairs.two_ended.size:
            return None
        return cls(cone, Tree.shortest(pairs.first, pairs.second, pairs.lengths(matrix), cone.n))

    def image(self, u: Array) -> Any:
        """Vᵀ diag(u) V, not multiplied out."""
        return Sum(self.v, u)


def _is_edge(v: sp.csr_array) -> Bools:
    """(p,) whether a measurement is e_i − e_j, or ±e_i: an edge to the ground."""
    ones = sp.csr_array((np.abs(v.data) == 1, v.indices, v.indptr), shape=v.shape)
    counts, unit = np.diff(v.indptr), np.asarray(ones.sum(axis=1)).ravel()
    sums = np.asarray(v.sum(axis=1)).ravel()
    return np.asarray((unit == counts) & ((counts == 1) | ((counts == 2) & (sums == 0))))


def _diagonal(rows: sp.csr_array) -> Array | None:
    """The weights a_e where row e is a_e times measurement e, else None."""
    m, p = rows.shape
    if m != p or rows.nnz != m or np.any(rows.indices != np.arange(m)):
        return None
    return np.asarray(rows.data)


def inner(a: Array, b: Array) -> float:
    """<A, B>, for the same reason as `product` without numpy's BLAS."""
    return float(np.einsum("ij,ij->", a, b))


def inner_with(other: Any, matrix: Array) -> float:
    """<D, M>, where D may be sparse."""
    if isinstance(other, sp.csr_array):
        entries = other.tocoo()
        return float(entries.data @ matrix[entries.coords])
    return inner(dense(other), matrix)


def symmetrise(matrix: Array) -> Array:
    """(A + Aᵀ)/2."""
    return 0.5 * (matrix + matrix.T)


# -- normal equations -----------------------------------------------------------------------


class RowEquations:
    """(B + D) Δw = rhs, factored over the rows. The same buffers serve all iterations.

    Scaled to a unit diagonal, B is well conditioned until shortly before the end. As long as it
    is, a factor in single precision takes half the time, and conjugate gradients make up for the
    digits that it lacks.
    """

    def __init__(self, cones: Sequence[BlockAlgebra], n_rows: int) -> None:
        self.cones, self.refinements = cones, 1
        self.rate = 0.0  # steps of conjugate gradients that the last solution took, per digit
        self.buffer = np.zeros((n_rows, n_rows))
        self.single: SingleFactor | None = None
        if n_rows >= _SINGLE_ROWS:
            self.single = SingleFactor(np.empty((n_rows, n_rows), dtype=np.float32))

    def over(self, cones: Sequence[BlockAlgebra]) -> RowEquations:
        """The equations of the same rows over finer cones, in the same buffer.

        The last digits of a step decide how well stiff rows are met: they are refined more often.
        """
        other = copy(self)
        other.cones, other.refinements, other.single = cones, 3, None
        return other

    def factor(
        self, matrices: list[Array], inverses: list[Array], extra: sp.csr_array | None
    ) -> None:
        """Assemble B from M and S⁻¹ in the lower triangle, add `extra`, and factor."""
        schur = self.buffer
        if not schur.size:
            return  # no rows are left
        for k, cone in enumerate(self.cones):
            cone.add_schur(schur, matrices[k], inverses[k], from_zero=k == 0)
        if extra is not None:
            entries = extra.tocoo()  # what it adds above the diagonal is not read
            schur[entries.row, entries.col] += entries.data
        # Towards the end every iteration takes up to twice the steps of the one before.
        slow = 2 * self.rate * np.log(SOLVED) > _SINGLE_STEPS
        if self.single is None or slow or not self.single.factor(schur):
            self._factor_in_place()

    def _factor_in_place(self) -> None:
        """The factor ends above the diagonal; B itself stays below, for refinement. What is the
        upper triangle by rows is LAPACK's lower triangle by columns, which it factors faster."""
        schur, self.single = self.buffer, None
        _mirror(schur)
        self.diagonal = schur.diagonal().copy()
        places = np.diag_indices(schur.shape[0])
        small = 1e-3 * self.diagonal.mean()
        for ridge in (1e-15, 1e-13, 1e-11, 1e-9, 1e-7):
            schur[places] = self.diagonal + ridge * (self.diagonal + small)
            self.factored, info = lapack.dpotrf(schur.T, lower=1, overwrite_a=1, clean=0)
            if info == 0:
                return
            _mirror(schur)  # the upper triangle was consumed: fetch it back from below
        raise Breakdown

    def solve(self, rhs: Array, enough: float = SOLVED) -> Array:
        """The solution for a vector, or for each column of a matrix, refined."""
        if not rhs.size:
            return np.zeros_like(rhs)
        if self.single is not None and self.rate * np.log(enough) > _SINGLE_STEPS:
            self._factor_in_place()
        if self.single is not None:
            if rhs.ndim == 2:
                return np.column_stack([self.solve(column) for column in rhs.T])
            solution, met, steps = conjugate_gradients(
                self._times_lower, self.single.solve, rhs, _SINGLE_STEPS, enough
            )
            self.rate = steps / np.log(enough)
            if met:
                return solution
            self._factor_in_place()
        solution = self._back(rhs)
        for _ in range(self.refinements if enough <= SOLVED else 0):
            solution = solution + self._back(rhs - self._apply(solution))
        return solution

    def _back(self, rhs: Array) -> Array:
        if rhs.ndim == 2:
            return np.asarray(lapack.dpotrs(self.factored, rhs, lower=1)[0])
        half = blas.dtrsv(self.factored, rhs, lower=1)  # faster than dpotrs of one column
        return np.asarray(blas.dtrsv(self.factored, half, lower=1, trans=1, overwrite_x=1))

    def _apply(self, x: Array) -> Array:
        # B and its factor share the diagonal. Adding the difference afterwards would cost digits:
        # pivots are square roots, and large beside small entries.
        pivots = self.factored.diagonal().copy()
        np.fill_diagonal(self.factored, self.diagonal)
        multiply = blas.dsymv if x.ndim == 1 else blas.dsymm
        product = multiply(1.0, self.factored, x, lower=0)
        np.fill_diagonal(self.factored, pivots)
        return np.asarray(product)

    def _times_lower(self, x: Array) -> Array:
        return np.asarray(blas.dsymv(1.0, self.buffer.T, x, lower=0))


class SingleFactor:
    """A Cholesky factor of a matrix with its diagonal scaled to one, in single precision."""

    def __init__(self, buffer: Single) -> None:
        self.buffer = buffer

    def factor(self, matrix: Array) -> bool:
        """Factor a matrix given by its lower triangle; False if single precision is not enough."""
        diagonal = matrix.diagonal()
        if not np.all(diagonal > 0):
            return False
        self.scale = 1.0 / np.sqrt(diagonal)
        scaled_to_single(matrix, self.scale, self.buffer)
        self.factored, info = lapack.spotrf(self.buffer.T, lower=0, overwrite_a=1, clean=0)
        return int(info) == 0

    def solve(self, rhs: Array) -> Array:
        """The solution to about single precision."""
        # Residuals may be too small for the exponents of single precision.
        size = float(np.abs(rhs).max()) or 1.0
        scaled = (self.scale / size * rhs).astype(np.float32)
        half = blas.strsv(self.factored, scaled, trans=1, overwrite_x=1)
        solution = blas.strsv(self.factored, half, overwrite_x=1)
        return np.asarray(size * self.scale * solution, dtype=np.float64)


def conjugate_gradients(
    apply: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    rhs: Array,
    steps: int,
    enough: float,
) -> tuple[Array, bool, int]:
    """(solution, whether its residual is at most `enough` of the right-hand side, steps)."""
    solution, residual = np.zeros_like(rhs), rhs
    direction, square = np.zeros_like(rhs), np.inf
    goal, taken = enough * np.linalg.norm(rhs), 0
    while taken < steps:
        taken += 1
        image = precondition(residual)
        previous, square = square, float(residual @ image)
        direction = image + square / previous * direction
        bent = apply(direction)
        curvature = float(direction @ bent)
        if not (square > 0 and curvature > 0):
            break
        solution = solution + square / curvature * direction
        residual = residual - square / curvature * bent
        if np.linalg.norm(residual) <= goal:
            break
    return solution, bool(np.linalg.norm(residual) <= goal), taken


_ABOVE = np.triu(np.ones((4 * _PANEL, 4 * _PANEL), dtype=bool), 1)


def _mirror(matrix: Array) -> None:
    """Copy the lower triangle onto the upper one, in panels."""
    m = matrix.shape[0]
    for start in range(0, m, len(_ABOVE)):
        stop = min(start + len(_ABOVE), m)
        corner = matrix[start:stop, start:stop]
        np.copyto(corner, corner.T.copy(), where=_ABOVE[: stop - start, : stop - start])
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T


class EntryEquations:
    """(B + D) Δw = rhs with D diagonal, solved over the entries of M.

    With S⁻¹ = QQᵀ and M = QΘQᵀ, the operator X ↦ sym(M X S⁻¹) multiplies the entries of QᵀXQ by
    (θ_i + θ_j)/2. So B = RRᵀ, where row e of R holds the entries of QᵀA_eQ times the roots of
    these factors, and (Woodbury)

        (D + RRᵀ)⁻¹ = D⁻¹ − D⁻¹ R (I + RᵀD⁻¹R)⁻¹ Rᵀ D⁻¹
    """

    def __init__(self, cones: Sequence[BlockAlgebra]) -> None:
        self.cones = cones

    @staticmethod
    def n_entries(sizes: Sequence[int]) -> int:
        """Σ n(n+1)/2."""
        return sum(n * (n + 1) // 2 for n in sizes)

    def factor(
        self, matrices: list[Array], inverses: list[Array], extra: sp.csr_array | None
    ) -> None:
        """Form R and factor I + RᵀD⁻¹R, D = `extra`."""
        if extra is None:
            raise Breakdown  # without slacks there is no D to divide by
        self.diagonal = extra.diagonal()
        blocks = zip(self.cones, matrices, inverses, strict=True)
        self.root = np.hstack([cone.root(m, inverse) for cone, m, inverse in blocks])
        scaled = self.root / self.diagonal[:, None]
        small = product(self.root.T, scaled)
        small[np.diag_indices(len(small))] += 1.0
        self.factored = cholesky(symmetrise(small))

    def solve(self, rhs: Array, enough: float = SOLVED) -> Array:
        """The solution for a vector, or for each column of a matrix.

        By conjugate gradients with the factorisation as preconditioner: where D is tiny it loses
        digits, which come back one or two at a time. They matter, so that two more are asked for.
        """
        if rhs.ndim == 2:
            return np.column_stack([self.solve(column, enough) for column in rhs.T])
        return conjugate_gradients(self._apply, self._back, rhs, _REFINEMENTS, 0.01 * enough)[0]

    def _back(self, rhs: Array) -> Array:
        divided = (rhs.T / self.diagonal).T
        inner = lapack.dpotrs(self.factored, self.root.T @ divided, lower=1)[0]
        return np.asarray(divided - ((self.root @ inner).T / self.diagonal).T)

    def _apply(self, x: Array) -> Array:
        return np.asarray((x.T * self.diagonal).T + self.root @ (self.root.T @ x))
