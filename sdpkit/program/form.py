"""The common form: a program in squared lengths.

The unknown is one or several positive semidefinite matrices M, and the data touch them only
through the squared lengths  q_p = v_pᵀ M v_p  of given vectors v_p (the *measurements*):

    maximise    <C, M> + gᵀq + cᵀx − ½ Σ h_j x_j² − Σ_G ρ_G ‖x_G‖ + β log det M
    subject to  A_q q + A_x x  {=, ≤, ≥}  b
                M ⪰ 0,  M N = 0,   x_j ≥ 0 unless free

Dual, one multiplier w_e per row; with u = A_qᵀw − g and r = A_xᵀw − c:

    minimise    bᵀw + Σ_j r_j²/(2h_j) − β log det S + βk(log β − 1)
                                                 (r_j⁻ only, where x_j ≥ 0)
    subject to  S = Vᵀ diag(u) V − C ⪰ 0  on the face {z : Nᵀz = 0}
                w_e ≥ 0 on ≤ rows,  w_e ≤ 0 on ≥ rows,
                r_j ≥ 0 (= 0 if x_j is free),  ‖r_G‖ ≤ ρ_G

A minimisation is the maximisation of the negated objective, with the penalties h and ρ added
instead of subtracted, β log det M subtracted instead of added and the multipliers negated, so
that its dual reads  max bᵀw, C − Vᵀdiag(A_qᵀw − …)V ⪰ 0.  Each block has its own β ≥ 0, most
β = 0; determinants are those on the face, k is its dimension, S ≻ 0 there and M = βS⁻¹ at the
optimum where β > 0.  M N = 0 (centring, facial reduction) is part of the cone and never
a row: a row would take the interior away from every interior-point method.

A minimisation may carry a *family* of penalised comparisons that are too many to write down
(`sdpkit.program.triplets`) instead of rows:

    minimise  <C, M> + weight · Σ_t [1 + q_ij − q_il]₊
    dual:     maximise Σα,  0 ≤ α ≤ weight,  C + Σ_t α_t (v_ij v_ijᵀ − v_il v_ilᵀ) ⪰ 0

Any part of the family is a program of plain rows (`Program.restricted`), whose multipliers bound
the whole.

The form is data only: immutable, validated, printable, fingerprinted, saved and loaded as npz.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError

if TYPE_CHECKING:
    from sdpkit.numerics.sparse_factor import Pattern
    from sdpkit.numerics.updated_factor import LowRank
    from sdpkit.program.gram import Matrix

    # Families compile kernels; programs of plain rows do not wait for that.
    from sdpkit.program.triplets import RowFamily, Rows

Array = NDArray[np.float64]
Sense = Literal["max", "min"]

# Above this size the matrices of a graph's block stay sparse, and its unknown an operator.
LARGE = 1500

# Largest number of doubles held by one slab when measurements are evaluated.
_SLAB = 1 << 22


def dense(matrix: Any) -> Array:
    """A sparse or dense matrix as a dense array."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def _csr(matrix: Any, shape: tuple[int, int], what: str) -> sp.csr_array:
    """`matrix` as a canonical, finite csr array of the stated shape, not shared with the caller."""
    out = sp.csr_array(shape) if matrix is None else sp.csr_array(matrix, dtype=np.float64)
    if out.shape != shape:
        raise InputError(f"{what} has shape {out.shape}, expected {shape}")
    if out.nnz and not np.isfinite(out.data).all():
        raise InputError(f"{what} contains NaN or infinite entries")
    out = out.copy()
    out.sum_duplicates()
    out.eliminate_zeros()
    out.sort_indices()
    return out


def _vector(values: ArrayLike | None, size: int, what: str) -> Array:
    """`values` as a finite, read-only vector of the stated size (zeros if None)."""
    out = np.zeros(size) if values is None else np.array(values, dtype=np.float64)
    if out.shape != (size,):
        raise InputError(f"{what} has shape {out.shape}, expected ({size},)")
    if not np.isfinite(out).all():
        raise InputError(f"{what} contains NaN or infinite entries")
    out.setflags(write=False)
    return out


@dataclass(frozen=True, eq=False)
class Cost:
    """A symmetric matrix in the shape it has: a·I + sparse + U diag(s) Uᵀ.

    Attributes
    ----------
    size: n
    identity: the multiple a of the identity
    sparse: (n, n) csr array
    factor: (n, k) dense U
    weights: (k,) the signed weights s

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
        matrix = _csr(sparse, (size, size), "the sparse part of a cost")
        asymmetry = abs(matrix - matrix.T)
        if asymmetry.nnz and asymmetry.max() > 1e-12 * max(1.0, float(abs(matrix).max())):
            raise InputError("the sparse part of a cost is not symmetric; pass (C + C.T) / 2")
        u = np.zeros((size, 0)) if factor is None else np.array(factor, dtype=np.float64)
        if u.ndim != 2 or u.shape[0] != size or not np.isfinite(u).all():
            raise InputError(f"the factor of a cost must be finite of shape ({size}, k)")
        if not np.isfinite(identity):
            raise InputError(f"the identity part of a cost is {identity}")
        u.setflags(write=False)
        s = _vector(np.ones(u.shape[1]) if weights is None else weights, u.shape[1], "weights")
        return cls(size, float(identity), matrix, u, s)

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

    def scaled(self, factor: float) -> Cost:
        """factor · C."""
        return Cost(
            self.size,
            factor * self.identity,
            self.sparse * factor,
            self.factor,
            factor * self.weights,
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


@dataclass(frozen=True, eq=False)
class Block:
    """One positive semidefinite unknown and the vectors by which it is measured.

    The measurement vectors are the rows of V = B X, kept factored: B the sparse incidence of
    the measurements on nodes, X the features of the nodes (None: the identity).

    Attributes
    ----------
    name: the paper's letter for the unknown
    size: n
    incidence: (p, N) csr array B
    features: (N, n) dense X, or None when N = n and X = I
    cost: C
    null: (n, k) directions N on which M vanishes, M N = 0
    max_rank: the largest rank M may have, or None; a condition that is not convex, so that an
        answer is proven by the program without it or is merely stationary
    log_det: the weight β ≥ 0 of log det M, taken on the face
    """

    name: str
    size: int
    incidence: sp.csr_array
    features: Array | None
    cost: Cost
    null: Array
    max_rank: int | None = None
    log_det: float = 0.0

    @classmethod
    def of(
        cls,
        size: int,
        incidence: Any,
        *,
        name: str = "M",
        features: ArrayLike | None = None,
        cost: Cost | Array | None = None,
        null: ArrayLike | None = None,
        max_rank: int | None = None,
        log_det: float = 0.0,
    ) -> Block:
        """Build and validate a block; no cost is zero, no null direction is the whole space."""
        if max_rank is not None and max_rank < 1:
            raise InputError(f"max_rank is {max_rank}; it must be at least 1")
        if not 0 <= log_det < np.inf:
            raise InputError(f"the weight of log det {name} is {log_det}; it must be ≥ 0")
        if log_det and max_rank is not None:
            raise InputError(f"log det {name} has no value on matrices of limited rank")
        if size < 1:
            raise InputError(f"block {name!r} has size {size}; a block needs at least one row")
        x = None if features is None else np.array(features, dtype=np.float64)
        if x is not None and (x.ndim != 2 or x.shape[1] != size or not np.isfinite(x).all()):
            raise InputError(f"features of block {name!r} must be finite of shape (N, {size})")
        b = sp.csr_array(incidence)
        b = _csr(b, (b.shape[0], size if x is None else x.shape[0]), f"measurements of {name!r}")
        directions = np.zeros((size, 0)) if null is None else np.array(null, dtype=np.float64)
        if directions.ndim == 1:
            directions = directions[:, None]
        if directions.shape[0] != size or not np.isfinite(directions).all():
            raise InputError(f"null directions of {name!r} must be finite of shape ({size}, k)")
        for array in (x, directions):
            if array is not None:
                array.setflags(write=False)
        if isinstance(cost, np.ndarray):
            cost = Cost.of(size, sparse=cost)
        if cost is not None and cost.size != size:
            raise InputError(f"block {name!r} has size {size}, its cost has size {cost.size}")
        return cls(name, size, b, x, cost or Cost.of(size), directions, max_rank, float(log_det))

    def __repr__(self) -> str:
        return f"<Block {_cone(self)}: {self.n_measurements} measurements, C = {self.cost}>"

    @property
    def n_measurements(self) -> int:
        """p, the number of rows of V."""
        return int(self.incidence.shape[0])

    def slabs(self) -> Iterator[tuple[slice, Any]]:
        """V in slabs of rows: (rows, V[rows]), sparse when X is the identity."""
        height = max(1, _SLAB // self.size)
        for start in range(0, self.n_measurements, height):
            rows = slice(start, min(start + height, self.n_measurements))
            part = self.incidence[rows]
            yield rows, part if self.features is None else part @ self.features

    def measure(self, matrix: Matrix) -> Array:
        """q with q_p = v_pᵀ M v_p, shape (p,)."""
        if not isinstance(matrix, np.ndarray):
            return matrix.measure(self.incidence, self.features)
        q = np.empty(self.n_measurements)
        for rows, v in self.slabs():
            product = v @ matrix
            if self.features is None:
                q[rows] = np.asarray(v.multiply(product).sum(axis=1)).ravel()
            else:
                q[rows] = np.einsum("pi,pi->p", product, v)
        return q

    def adjoint(self, u: Array) -> Any:
        """Vᵀ diag(u) V, sparse when X is the identity and dense otherwise."""
        laplacian = self.incidence.T @ sp.diags_array(u) @ self.incidence
        if self.features is None:
            return sp.csr_array(laplacian)
        return self.features.T @ (laplacian @ self.features)

    def vectors(self) -> sp.csr_array:
        """V multiplied out, (p, n). For small or sparse measurements only."""
        if self.features is None:
            return self.incidence
        return sp.csr_array(self.incidence @ self.features)

    @cached_property
    def outer_products(self) -> sp.csr_array:
        """The rows vec(v_p v_pᵀ), (p, n²). What a general-purpose solver is handed."""
        v = self.vectors()
        counts = np.diff(v.indptr)
        # Every pair (a, b) of nonzeros of one row: repeat each nonzero by its row's count.
        row = np.repeat(np.arange(v.shape[0]), counts**2)
        first = np.repeat(np.arange(v.nnz), np.repeat(counts, counts))
        starts = np.repeat(v.indptr[:-1], counts**2)
        within = np.arange(row.size) - np.repeat(np.cumsum(counts**2) - counts**2, counts**2)
        second = starts + within % np.maximum(np.repeat(counts, counts**2), 1)
        column = v.indices[first].astype(np.int64) * self.size + v.indices[second]
        entries = (v.data[first] * v.data[second], (row, column))
        return sp.csr_array(entries, shape=(v.shape[0], self.size**2))

    @cached_property
    def is_centred(self) -> bool:
        """True if M1 = 0 is the only null condition and every measurement is a difference."""
        one = self.null.shape[1] == 1 and np.ptp(self.null) == 0 and self.null[0, 0] != 0
        if not one or self.features is not None:
            return False
        return bool(np.abs(self.incidence.sum(axis=1)).max(initial=0.0) == 0)

    @cached_property
    def edges(self) -> NDArray[np.int64] | None:
        """(p, 2) where the block is that of a graph: M1 = 0, C = a·I + U diag(s) Uᵀ and
        V = (e_i − e_j) over distinct pairs; None otherwise."""
        v = self.incidence
        if not self.is_centred or self.cost.sparse.nnz or not self.n_measurements:
            return None
        u = self.cost.factor
        varied = np.linalg.norm(u - u.mean(axis=0), axis=0)
        if np.any((np.ptp(u, axis=0) > 0) & (varied < 1e-6 * np.linalg.norm(u, axis=0))):
            return None  # too little of the cost is left on 1⊥ to be centred without loss
        if np.any(np.diff(v.indptr) != 2) or not np.all(np.abs(v.data) == 1):
            return None
        pairs = v.indices.reshape(-1, 2).astype(np.int64)
        distinct = np.unique(pairs[:, 0] * self.size + pairs[:, 1]).size
        return pairs if distinct == len(pairs) else None

    @cached_property
    def is_large_graph(self) -> bool:
        """True where n × n matrices are avoided: a graph of more than 1500 nodes."""
        return self.size > LARGE and self.edges is not None and not self.log_det

    @cached_property
    def pattern(self) -> Pattern:
        """The graph's sparse factors, analysed once."""
        from sdpkit.numerics.sparse_factor import Pattern

        if self.edges is None:
            raise InputError(f"block {self.name!r} is not that of a graph")
        return Pattern.of(self.size, self.edges)

    @cached_property
    def low_rank(self) -> LowRank | None:
        """Of a graph's cost, what is not a multiple of I, as 1⊥ sees it; None if nothing is."""
        from sdpkit.numerics.updated_factor import LowRank

        u, s = self.cost.factor, self.cost.weights
        seen = (np.ptp(u, axis=0) > 0) & (s != 0)  # constant columns are nothing to 1⊥
        if not seen.any():
            return None
        means = np.array([math.fsum(column) for column in u[:, seen].T]) / self.size
        error = 4 * np.finfo(float).eps * float(np.linalg.norm(u[:, seen]))
        return LowRank(u[:, seen] - means, s[seen], error)

    @cached_property
    def face(self) -> Array:
        """(n, r) orthonormal basis of {z : Nᵀz = 0}, without the directions that nothing sees."""
        q = self._outside
        return np.asarray(np.linalg.qr(q, mode="complete")[0][:, q.shape[1] :])

    @cached_property
    def _outside(self) -> Array:
        """(n, k) orthonormal basis of what is orthogonal to `face`."""
        return np.hstack([self.null_basis, self.unseen]) if self.unseen.size else self.null_basis

    @cached_property
    def unseen(self) -> Array:
        """(n, k) orthonormal basis of the directions in the face that no measurement and no cost
        sees: Vu = 0 and Cu = 0 to the last digit.

        M may be anything there and is taken to vanish; the dual slack vanishes whatever w is.
        Features of deficient rank leave such directions. A log det sees them all.
        """
        definite = self.cost.is_identity and self.cost.identity
        if self.log_det or self.is_large_graph or definite or self._measurements_see_all():
            return np.zeros((self.size, 0))
        scale = self._column_scale()
        rows = np.vstack([self._seen(scale), (self.null_basis / scale[:, None]).T])
        _, singular, right = np.linalg.svd(rows)
        singular = np.r_[singular, np.zeros(self.size - singular.size)]
        hidden = right[singular <= 64 * self.size * np.finfo(float).eps].T / scale[:, None]
        hidden = np.asarray(np.linalg.qr(hidden)[0])
        # In units of other directions a cost may look like nothing: it must be nothing in its own.
        cost = self.cost.dense()
        sizes = np.linalg.norm(np.abs(cost) @ np.abs(hidden), axis=0).clip(min=np.finfo(float).tiny)
        if not hidden.shape[1] or np.abs(cost @ hidden / sizes).max() <= 1e-10:
            return hidden
        return np.zeros((self.size, 0))

    def _measurements_see_all(self) -> bool:
        """Whether VᵀV + NNᵀ is positive definite beyond doubt; False says nothing."""
        if not self.n_measurements:
            return False
        image = dense(self.adjoint(np.ones(self.n_measurements)))
        image = image + np.linalg.norm(image) * (self.null_basis @ self.null_basis.T)
        scale = np.sqrt(np.diag(image).clip(min=np.finfo(float).tiny))
        image /= np.outer(scale, scale)
        image[np.diag_indices(self.size)] -= 1e-10
        return bool(scipy.linalg.lapack.dpotrf(image, lower=1)[1] == 0)

    def _column_scale(self) -> Array:
        """(n,) the largest entry of each column of V, or the root of C's where V has none."""
        largest = np.zeros(self.size)
        for _, v in self.slabs():
            np.maximum(largest, dense(abs(v).max(axis=0)).ravel(), out=largest)
        largest = np.where(largest > 0, largest, np.sqrt(np.abs(np.diag(self.cost.dense()))))
        return np.where(largest > 0, largest, 1.0)

    def _seen(self, scale: Array) -> Array:
        """(2n, n) rows whose null space in scaled coordinates is that of V and C together.

        Each measurement counts in units of what its differences were taken of, so that a
        singular value is a share of digits: at 1e-14 there is nothing but rounding.
        """
        r = np.zeros((self.size, self.size))
        for rows, v in self.slabs():
            scaled = dense(v) / scale
            terms: Any = abs(self.incidence[rows])
            terms = terms if self.features is None else terms @ np.abs(self.features)
            size = np.linalg.norm(dense(terms) / scale, axis=1)
            scaled /= np.where(size > 0, size, 1.0)[:, None]
            stacked = np.vstack([r, scaled / np.sqrt(self.n_measurements)])
            r = np.asarray(np.linalg.qr(stacked, mode="r"))
        cost = self.cost.dense() / np.outer(scale, scale)
        return np.vstack([r, cost / (np.abs(cost).max() or 1.0)])

    @cached_property
    def null_basis(self) -> Array:
        """(n, k) orthonormal basis of the null directions."""
        unit = self.null / np.linalg.norm(self.null, axis=0).clip(min=np.finfo(float).tiny)
        u, singular, _ = np.linalg.svd(unit, full_matrices=False)
        rank = int(np.sum(singular > 1e-10 * singular.max(initial=0.0)))
        return np.asarray(u[:, :rank])

    def project_out_null(self, matrix: Array) -> Array:
        """(I − QQᵀ) A (I − QQᵀ) with Q the null basis."""
        return _project_out(self.null_basis, matrix)

    def smallest_on_face(self, matrix: Array) -> float:
        """The smallest eigenvalue of zᵀAz over unit z in the face (inf if the face is {0}).

        Directions that nothing sees are left out: a dual slack has zeros there, up to rounding.
        """
        if not np.isfinite(matrix).all():
            return -np.inf
        q = self._outside
        if q.shape[1] == self.size:
            return np.inf
        if 2 * q.shape[1] > self.size:
            matrix = self.face.T @ matrix @ self.face
        elif q.shape[1]:
            # Project the null directions out, then lift them above the rest of the spectrum.
            matrix = _project_out(q, matrix)
            matrix = matrix + np.linalg.norm(matrix) * (q @ q.T)
        if not np.isfinite(matrix).all():
            return -np.inf  # finite entries may still overflow in their norm
        return float(scipy.linalg.eigvalsh(matrix, subset_by_index=[0, 0])[0])

    def log_det_on_face(self, matrix: Array) -> float:
        """log det FᵀAF with F the face's basis; −inf unless positive definite there."""
        if self.null.shape[1]:
            matrix = self.face.T @ matrix @ self.face
        if not np.isfinite(matrix).all():
            return -np.inf
        factor, info = scipy.linalg.lapack.dpotrf(matrix, lower=1)
        return 2.0 * float(np.log(np.diag(factor)).sum()) if info == 0 else -np.inf

    def smallest_of_slack(self, u: Array, factor: float) -> float:
        """The smallest eigenvalue of Vᵀdiag(u)V − factor·C on the face.

        For a large graph it is a proven lower bound from sparse factors.
        """
        if self.is_large_graph:
            from sdpkit.numerics.sparse_factor import smallest_on_centred

            update = self.low_rank.scaled(factor) if factor and self.low_rank else None
            return smallest_on_centred(self.pattern, u, factor * self.cost.identity, None, update)
        image = dense(self.adjoint(u))
        return self.smallest_on_face(image - factor * self.cost.dense() if factor else image)


def _project_out(q: Array, matrix: Array) -> Array:
    """(I − QQᵀ) A (I − QQᵀ) for orthonormal Q, by an update of twice its rank."""
    if not q.shape[1]:
        return matrix
    aq = matrix @ q
    cross = q @ (aq - 0.5 * q @ (q.T @ aq)).T
    return np.asarray(matrix - cross - cross.T)


@dataclass(frozen=True, eq=False)
class SafeBounds:
    """What a problem knows that turns an inexact dual into a bound that holds.

    Attributes
    ----------
    trace: per block an upper bound on tr M over the feasible set (inf where unknown)
    direction: (m,) repair direction w₀ with Vᵀdiag(A_qᵀw₀)V ⪰ I on the face and right signs
    anchor: (m,) a multiplier known to be dual feasible
    value_scale: the magnitude below which the optimal value counts as zero

    `direction` and `anchor` are checked by the certificate before they are used; `trace` is the
    problem's own claim.
    """

    trace: tuple[float, ...] | None = None
    direction: Array | None = None
    anchor: Array | None = None
    value_scale: float = 1.0


@dataclass(frozen=True, eq=False)
class NormPenalty:
    """ρ‖x_G‖ over a group G of free auxiliary variables."""

    weight: float
    group: tuple[int, ...]


RELATIONS = {"<=": -1, "==": 0, ">=": 1}
_SYMBOLS = {-1: "≤", 0: "=", 1: "≥"}


@dataclass(frozen=True, eq=False)
class Program:
    """A program in squared lengths; the module's docstring states it and its dual.

    Build one with `Program.of`, which fills in what is omitted and validates the rest.

    Attributes
    ----------
    sense: "max" or "min"
    blocks: the semidefinite unknowns; their measurements are numbered one after the other
    rows_q: (m, p) csr array A_q;  rows_x: (m, n_x) csr array A_x
    relations: (m,) −1 for ≤, 0 for =, +1 for ≥;  rhs: (m,) b
    cost_q: (p,) g;  cost_x: (n_x,) c;  free_x: (n_x,) bool;  quadratic_x: (n_x,) h ≥ 0
    norms: Euclidean-norm penalties;  offset: a constant added to the objective
    family: penalised comparisons that are not written down, or None
    notes: what a reader of the solution should know about how the program was made
    """

    name: str
    sense: Sense
    blocks: tuple[Block, ...]
    rows_q: sp.csr_array
    rows_x: sp.csr_array
    relations: NDArray[np.int8]
    rhs: Array
    cost_q: Array
    cost_x: Array
    free_x: NDArray[np.bool_]
    quadratic_x: Array
    norms: tuple[NormPenalty, ...] = ()
    offset: float = 0.0
    safe: SafeBounds = field(default_factory=SafeBounds)
    notes: tuple[str, ...] = ()
    family: RowFamily | None = None

    @classmethod
    def of(
        cls,
        blocks: Block | Sequence[Block],
        rhs: ArrayLike,
        *,
        sense: Sense = "max",
        rows_q: Any = None,
        rows_x: Any = None,
        relations: str | ArrayLike = "==",
        cost_q: ArrayLike | None = None,
        cost_x: ArrayLike | None = None,
        free_x: ArrayLike | None = None,
        quadratic_x: ArrayLike | None = None,
        norms: Sequence[NormPenalty] = (),
        offset: float = 0.0,
        safe: SafeBounds | None = None,
        notes: Sequence[str] = (),
        family: RowFamily | None = None,
        name: str = "program",
    ) -> Program:
        """Build and validate a program.

        `rows_q` omitted means one row per measurement; `relations` is one of "==", "<=", ">=",
        or one of these (or 0, −1, 1) per row.

        >>> block = Block.of(2, [[1.0, -1.0]], name="K", cost=Cost.of(2, identity=1.0),
        ...                  null=[1.0, 1.0])
        >>> print(Program.of(block, [4.0], name="two points"))
        two points
          maximise    <C, K>,  C = I
          subject to  A_q q = b  (1 row),  q_p = v_pᵀ K v_p  (1 measurement)
                      K ∈ S², K ⪰ 0, K1 = 0
        """
        if sense not in ("max", "min"):
            raise InputError(f"sense is {sense!r}; use 'max' or 'min'")
        blocks = (blocks,) if isinstance(blocks, Block) else tuple(blocks)
        if not blocks:
            raise InputError("a program needs at least one semidefinite block")
        b = np.atleast_1d(np.asarray(rhs, dtype=np.float64))
        b = _vector(b, b.size, "rhs")
        p = sum(block.n_measurements for block in blocks)
        if rows_q is None and b.size != p:
            raise InputError(
                f"rhs has {b.size} entries for {p} measurements; without rows_q each measurement "
                "is a row of its own"
            )
        q = sp.eye_array(p, format="csr") if rows_q is None else rows_q
        rows_x = None if rows_x is None else sp.csr_array(rows_x)
        n_x = 0 if rows_x is None else int(rows_x.shape[1])
        free = np.zeros(n_x, dtype=bool) if free_x is None else np.array(free_x, dtype=bool)
        if free.shape != (n_x,):
            raise InputError(f"free_x has shape {free.shape}, expected ({n_x},)")
        free.setflags(write=False)
        h = _vector(quadratic_x, n_x, "quadratic_x")
        if (h < 0).any():
            raise InputError(f"quadratic_x must be nonnegative; its smallest entry is {h.min():g}")
        program = cls(
            name=name,
            sense=sense,
            blocks=blocks,
            rows_q=_csr(q, (b.size, p), "rows_q"),
            rows_x=_csr(rows_x, (b.size, n_x), "rows_x"),
            relations=_relations(relations, b.size),
            rhs=b,
            cost_q=_vector(cost_q, p, "cost_q"),
            cost_x=_vector(cost_x, n_x, "cost_x"),
            free_x=free,
            quadratic_x=h,
            norms=tuple(norms),
            offset=float(offset),
            safe=safe or SafeBounds(),
            notes=tuple(notes),
            family=family,
        )
        program._check_norms()
        program._check_safe()
        program._check_family()
        return program

    def _check_norms(self) -> None:
        seen: set[int] = set()
        for penalty in self.norms:
            group = set(penalty.group)
            if not 0 < penalty.weight < np.inf:
                raise InputError(f"a norm penalty needs a positive weight, not {penalty.weight}")
            if not group or seen & group or len(group) < len(penalty.group):
                raise InputError(f"a norm penalty needs a group of its own, not {penalty.group}")
            if not all(0 <= j < self.n_auxiliary and self.free_x[j] for j in group):
                raise InputError("a norm penalty takes free auxiliary variables only")
            if self.quadratic_x[list(group)].any():
                raise InputError("a variable takes a quadratic or a norm penalty, not both")
            seen |= group

    def _check_safe(self) -> None:
        if not np.isfinite(self.offset):
            raise InputError(f"offset is {self.offset}; it must be finite")
        if not 0 <= self.safe.value_scale < np.inf:
            raise InputError(f"value_scale is {self.safe.value_scale}; it must be nonnegative")
        if self.safe.trace is not None and len(self.safe.trace) != len(self.blocks):
            raise InputError(f"safe.trace needs {len(self.blocks)} numbers, one per block")
        for name in ("direction", "anchor"):
            vector = getattr(self.safe, name)
            if vector is not None:
                _vector(vector, self.n_rows, f"safe.{name}")

    def _check_family(self) -> None:
        if self.family is None:
            return
        if self.sense != "min" or self.n_rows or self.n_auxiliary or self.has_log_det:
            raise InputError(
                "a family of comparisons is minimised, without rows or log det of its own"
            )
        if self.family.block_of.max(initial=0) >= len(self.blocks):
            raise InputError(f"the family names more blocks than the {len(self.blocks)} there are")
        for block in self.blocks:
            if block.incidence.shape[1] != self.family.n_points:
                raise InputError(
                    f"block {block.name!r} has {block.incidence.shape[1]} nodes, the family "
                    f"compares {self.family.n_points} points"
                )

    # -- sizes -------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """m."""
        return int(self.rhs.size)

    @property
    def n_auxiliary(self) -> int:
        """n_x."""
        return int(self.cost_x.size)

    @property
    def sign(self) -> float:
        """+1 for a maximisation, −1 for a minimisation."""
        return 1.0 if self.sense == "max" else -1.0

    @property
    def is_linear(self) -> bool:
        """True if neither a quadratic or norm penalty nor a log det is present."""
        return not self.norms and not self.quadratic_x.any() and not self.has_log_det

    @property
    def has_log_det(self) -> bool:
        """True if the objective holds the log det of some block."""
        return any(block.log_det for block in self.blocks)

    @property
    def spans(self) -> list[slice]:
        """Where the measurements of each block lie among all p."""
        ends = np.cumsum([0] + [block.n_measurements for block in self.blocks]).tolist()
        return [slice(start, stop) for start, stop in pairwise(ends)]

    def split(self, values: Array) -> list[Array]:
        """Cut a vector over all measurements into one vector per block."""
        return [values[span] for span in self.spans]

    # -- primal ------------------------------------------------------------------------------

    def measure(self, matrices: Sequence[Matrix]) -> Array:
        """q over all blocks, shape (p,)."""
        return np.concatenate(
            [block.measure(m) for block, m in zip(self.blocks, matrices, strict=True)]
        )

    def row_values(self, q: Array, x: Array) -> Array:
        """A_q q + A_x x, shape (m,)."""
        return np.asarray(self.rows_q @ q + self.rows_x @ x)

    def violations(self, q: Array, x: Array) -> Array:
        """By how much each row is violated, shape (m,), nonnegative."""
        return self.excess(self.row_values(q, x) - self.rhs)

    def excess(self, residual: Array) -> Array:
        """What of a residual (row value − rhs) is a violation, shape (m,), nonnegative."""
        one_sided = np.maximum(-self.relations * residual, 0.0)
        return np.where(self.relations == 0, np.abs(residual), one_sided)

    def objective(self, matrices: Sequence[Matrix], x: Array) -> float:
        """The objective in the program's own sense."""
        value = self.offset + float(self.cost_x @ x)
        for block, matrix in zip(self.blocks, matrices, strict=True):
            value += block.cost.inner(matrix)
        if self.cost_q.any():
            value += float(self.cost_q @ self.measure(matrices))
        if self.family is not None:
            value += self.family.weight * self.family.hinge_sum(self.outputs(matrices))
        return value - self.sign * (self.penalty(x) - self.log_dets(matrices))

    def log_dets(self, matrices: Sequence[Matrix]) -> float:
        """Σ β log det M over the blocks that have one; −inf unless M ≻ 0 on their faces."""
        pairs = zip(self.blocks, matrices, strict=True)
        return sum(b.log_det * b.log_det_on_face(np.asarray(m)) for b, m in pairs if b.log_det)

    def outputs(self, matrices: Sequence[Matrix]) -> list[Array]:
        """Per block the nodes' images X Lᵀ with M = LᵀL, (N, rank): ‖y_i − y_j‖² measures M."""
        out = []
        for block, matrix in zip(self.blocks, matrices, strict=True):
            values, vectors = scipy.linalg.eigh(np.asarray(matrix))
            kept = values > 1e-15 * max(values[-1], 0.0)
            factor = vectors[:, kept] * np.sqrt(values[kept])
            out.append(factor if block.features is None else block.features @ factor)
        return out

    def penalty(self, x: Array) -> float:
        """½ Σ h_j x_j² + Σ ρ_G ‖x_G‖."""
        value = 0.5 * float(self.quadratic_x @ x**2)
        return value + sum(p.weight * float(np.linalg.norm(x[list(p.group)])) for p in self.norms)

    # -- dual --------------------------------------------------------------------------------
    # Everything below takes the multipliers of the *maximisation*: `sign * w`. One convention
    # inside, the papers' signs outside.

    def measurement_weights(self, w: Array) -> Array:
        """u = A_qᵀw − g of the maximisation, shape (p,)."""
        return np.asarray(self.rows_q.T @ w - self.sign * self.cost_q)

    def dual_slacks(self, w: Array) -> list[Array]:
        """S per block for multipliers w of the maximisation."""
        images = self._images(self.measurement_weights(w))
        return [
            image - self.sign * block.cost.dense()
            for block, image in zip(self.blocks, images, strict=True)
        ]

    def adjoints(self, w: Array) -> list[Array]:
        """Vᵀ diag(A_qᵀw) V per block, dense: the homogeneous part of the dual slack."""
        return self._images(np.asarray(self.rows_q.T @ w))

    def _images(self, u: Array) -> list[Array]:
        parts = zip(self.blocks, self.split(u), strict=True)
        return [dense(block.adjoint(part)) for block, part in parts]

    def reduced_costs(self, w: Array) -> Array:
        """r = A_xᵀw − c of the maximisation, shape (n_x,)."""
        return np.asarray(self.rows_x.T @ w - self.sign * self.cost_x)

    def dual_value(self, w: Array) -> float:
        """bᵀw + Σ r²/(2h) − β log det S + βk(log β − 1) of the maximisation, without the offset.

        Infinite unless S ≻ 0 on the faces of blocks with a log det.
        """
        value = float(self.rhs @ w)
        if self.has_log_det:
            slacks = self.dual_slacks(w)
            value -= self.log_dets(slacks)
            for block in self.blocks:
                k = block.size - block.null_basis.shape[1]
                value += block.log_det * k * (np.log(block.log_det or 1.0) - 1)
        curved = self.quadratic_x > 0
        if curved.any():
            r = self.reduced_costs(w)
            r = np.where(self.free_x, r, np.minimum(r, 0.0))[curved]
            value += 0.5 * float(np.sum(r**2 / self.quadratic_x[curved]))
        return value

    @property
    def sign_box(self) -> tuple[Array, Array]:
        """(lo, hi): w ≥ 0 on ≤ rows, w ≤ 0 on ≥ rows, for the maximisation."""
        lo = np.where(self.relations == -1, 0.0, -np.inf)
        return lo, np.where(self.relations == 1, 0.0, np.inf)

    @cached_property
    def multiplier_box(self) -> tuple[Array, Array]:
        """(lo, hi): the interval that signs and single-entry slack columns leave each w_e.

        A nonnegative x_j that occurs in one row only, with coefficient a, demands a·w_e ≥ c_j:
        the slack form's |w_e| ≤ ω is such a box.
        """
        lo, hi = self.sign_box
        columns = sp.csc_array(self.rows_x)
        single = (np.diff(columns.indptr) == 1) & ~self.free_x & (self.quadratic_x == 0)
        start = columns.indptr[:-1][single]
        rows, entries = columns.indices[start], columns.data[start]
        limits = self.sign * self.cost_x[single] / entries
        np.maximum.at(lo, rows[entries > 0], limits[entries > 0])
        np.minimum.at(hi, rows[entries < 0], limits[entries < 0])
        return lo, hi

    @cached_property
    def slack_columns(self) -> sp.csr_array:
        """(m, k) a column for each inequality: with a nonnegative slack it is an equation."""
        unequal = np.flatnonzero(self.relations)
        entries = (-self.relations[unequal].astype(float), (unequal, np.arange(unequal.size)))
        return sp.csr_array(entries, shape=(self.n_rows, unequal.size))

    @cached_property
    def repair_direction(self) -> Array | None:
        """w₀ for the maximisation: the problem's own, or else the least-squares solution of
        Vᵀdiag(A_qᵀw₀)V = I, A_xᵀw₀ = 1 (max-cut: all ones). The certificate checks it."""
        if self.safe.direction is not None:
            return self.sign * self.safe.direction
        if sum(block.size**2 for block in self.blocks) > 4_000_000:
            return None
        rows = sp.hstack([self.matrix_rows, self.rows_x])
        ones = [(np.eye(b.size) - b.unseen @ b.unseen.T).ravel() for b in self.blocks]
        target = np.concatenate([*ones, np.where(self.free_x, 0.0, 1.0)])
        found = scipy.sparse.linalg.lsqr(sp.csr_array(rows.T), target, atol=1e-14, btol=1e-14)[0]
        return np.clip(found, *self.sign_box)

    @cached_property
    def matrix_rows(self) -> sp.csr_array:
        """(m, Σn²): each row's matrix Σ a_p v_p v_pᵀ as a vector, the blocks side by side."""
        products = sp.block_diag([b.outer_products for b in self.blocks], format="csr")
        return sp.csr_array(self.rows_q @ products)

    @cached_property
    def row_norms(self) -> Array:
        """(m,) norms of the rows in the entries of M and x; 1 for a row of zeros."""
        squares = np.zeros(self.n_rows)
        for block, span in zip(self.blocks, self.spans, strict=True):
            part = self.rows_q[:, span]
            # One measurement per row: ‖a·vvᵀ‖ = |a|‖v‖².
            v = block.vectors()
            own = part.multiply(part) @ np.asarray(v.multiply(v).sum(axis=1)).ravel() ** 2
            several = np.flatnonzero(np.diff(part.indptr) > 1)
            if several.size:
                used = np.unique(part[several].indices)
                all_used = used.size == block.n_measurements
                seen = block if all_used else replace(block, incidence=block.incidence[used])
                rows = part[several][:, used] @ seen.outer_products
                own[several] = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
            squares += own
        squares += np.asarray(self.rows_x.multiply(self.rows_x).sum(axis=1)).ravel()
        return np.where(squares > 0, np.sqrt(squares), 1.0)

    def comparison_images(self, rows: Rows, weights: Array) -> list[Array]:
        """Per block  Σ_t weights_t (v_ij v_ijᵀ − v_il v_ilᵀ)  over rows of the family, dense."""
        from sdpkit.program.triplets import laplacians

        if self.family is None:
            raise InputError("the program has no family of comparisons")
        graphs = laplacians(self.family, rows, weights, len(self.blocks))
        return [
            graph.toarray() if b.features is None else b.features.T @ (graph @ b.features)
            for b, graph in zip(self.blocks, graphs, strict=True)
        ]

    # -- derived programs --------------------------------------------------------------------

    def restricted(self, rows: Rows) -> Program:
        """The program with only these comparisons of its family, written as rows with slacks:

        q_il − q_ij + ξ_t ≥ 1,  ξ_t ≥ 0  at the price of the family's weight.
        """
        family = self.family
        if family is None:
            raise InputError("only a program with a family of comparisons can be restricted")
        i, j = family.target_pairs[rows.target].T
        count, n = rows.size, family.n_points
        start, end = np.concatenate([i, i]), np.concatenate([j, rows.impostor])
        keys, which = np.unique(start * n + end, return_inverse=True)
        start, end = keys // n, keys % n
        # The measurements of one block after the other.
        order = np.argsort(family.block_of[end], kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(order.size)
        start, end = start[order], end[order]
        each = np.arange(count)
        coefficients = np.concatenate([np.full(count, -1.0), np.ones(count)])
        entries = (coefficients, (np.concatenate([each, each]), position[which]))
        rows_q = sp.csr_array(entries, shape=(count, keys.size))
        if family.summed:
            rows_q = sp.hstack([rows_q] * len(self.blocks), format="csr")
        blocks = [
            replace(block, incidence=_differences(start[mine], end[mine], n))
            for k, block in enumerate(self.blocks)
            for mine in [(family.block_of[end] == k) | family.summed]
        ]
        return Program.of(
            blocks,
            np.ones(count),
            sense="min",
            rows_q=rows_q,
            rows_x=sp.eye_array(count, format="csr"),
            relations=">=",
            cost_x=np.full(count, family.weight),
            offset=self.offset,
            safe=SafeBounds(anchor=np.zeros(count), value_scale=self.safe.value_scale),
            notes=self.notes,
            name=self.name,
        )

    def with_margin(self, margin: float) -> Program:
        """The same program asked for a dual with S ⪰ margin · I, r ≥ margin, ‖r_G‖ ≤ ρ − margin."""
        shift = self.sign * margin
        blocks = tuple(
            replace(block, cost=block.cost.plus_identity(shift, block.unseen))
            for block in self.blocks
        )
        plain = ~self.free_x & (self.quadratic_x == 0)
        norms = tuple(replace(p, weight=max(p.weight - margin, p.weight / 2)) for p in self.norms)
        return replace(self, blocks=blocks, cost_x=self.cost_x + shift * plain, norms=norms)

    # -- identity ----------------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Every number of the program as named plain arrays; the single source of save and hash."""
        out: dict[str, NDArray[Any]] = {
            "relations": self.relations,
            "rhs": self.rhs,
            "cost_q": self.cost_q,
            "cost_x": self.cost_x,
            "free_x": self.free_x,
            "quadratic_x": self.quadratic_x,
            "offset": np.array(self.offset),
            "value_scale": np.array(self.safe.value_scale),
        }
        _pack(out, "rows_q", self.rows_q)
        _pack(out, "rows_x", self.rows_x)
        for k, penalty in enumerate(self.norms):
            out[f"norm{k}/weight"] = np.array(penalty.weight)
            out[f"norm{k}/group"] = np.array(penalty.group, dtype=np.int64)
        for name in ("trace", "direction", "anchor"):
            if getattr(self.safe, name) is not None:
                out[f"safe/{name}"] = np.asarray(getattr(self.safe, name), dtype=np.float64)
        for k, block in enumerate(self.blocks):
            _pack(out, f"block{k}/incidence", block.incidence)
            _pack(out, f"block{k}/cost/sparse", block.cost.sparse)
            out[f"block{k}/cost/identity"] = np.array(block.cost.identity)
            out[f"block{k}/cost/factor"] = block.cost.factor
            out[f"block{k}/cost/weights"] = block.cost.weights
            out[f"block{k}/null"] = block.null
            if block.max_rank is not None:
                out[f"block{k}/max_rank"] = np.array(block.max_rank)
            if block.log_det:
                out[f"block{k}/log_det"] = np.array(block.log_det)
            if block.features is not None:
                out[f"block{k}/features"] = block.features
        if self.family is not None:
            out.update({f"family/{name}": a for name, a in self.family.arrays().items()})
        return out

    def _header(self) -> dict[str, Any]:
        return {
            "format": 1,
            "name": self.name,
            "sense": self.sense,
            "blocks": [[block.name, block.size] for block in self.blocks],
            "norms": len(self.norms),
            "notes": list(self.notes),
        }

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the mathematics: equal data give equal fingerprints, names do not count."""
        digest = hashlib.sha256(f"{self.sense} {[b.size for b in self.blocks]}".encode())
        for name, array in sorted(self._arrays().items()):
            values = np.ascontiguousarray(array)
            digest.update(f"{name} {values.shape} {values.dtype.str}".encode())
            digest.update(values.tobytes())
        return digest.hexdigest()[:16]

    def save(self, path: str | Path) -> None:
        """Write the program as npz, without pickles."""
        header = np.frombuffer(json.dumps(self._header()).encode(), dtype=np.uint8)
        with open(path, "wb") as file:
            arrays: dict[str, Any] = {"header": header, **self._arrays()}
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Program:
        """Read a program written by `save`.

        >>> import tempfile, os
        >>> block = Block.of(2, [[1.0, -1.0]], cost=Cost.of(2, identity=1.0), null=[1.0, 1.0])
        >>> program = Program.of(block, [4.0])
        >>> path = os.path.join(tempfile.mkdtemp(), "two_points.npz")
        >>> program.save(path)
        >>> Program.load(path).fingerprint == program.fingerprint
        True
        """
        a = _read_arrays(path)
        header = json.loads(bytes(a["header"]).decode())
        if header.get("format") != 1:
            raise InputError(f"{path} has format {header.get('format')}; this reads format 1")
        blocks = [
            Block.of(
                size,
                _unpack(a, f"block{k}/incidence"),
                name=name,
                features=a.get(f"block{k}/features"),
                cost=Cost.of(
                    size,
                    identity=float(a[f"block{k}/cost/identity"]),
                    sparse=_unpack(a, f"block{k}/cost/sparse"),
                    factor=a[f"block{k}/cost/factor"],
                    weights=a[f"block{k}/cost/weights"],
                ),
                null=a[f"block{k}/null"],
                max_rank=int(a[f"block{k}/max_rank"]) if f"block{k}/max_rank" in a else None,
                log_det=float(a.get(f"block{k}/log_det", 0.0)),
            )
            for k, (name, size) in enumerate(header["blocks"])
        ]
        trace = a.get("safe/trace")
        return cls.of(
            blocks,
            a["rhs"],
            sense=header["sense"],
            rows_q=_unpack(a, "rows_q"),
            rows_x=_unpack(a, "rows_x"),
            relations=a["relations"],
            cost_q=a["cost_q"],
            cost_x=a["cost_x"],
            free_x=a["free_x"],
            quadratic_x=a["quadratic_x"],
            norms=[
                NormPenalty(float(a[f"norm{k}/weight"]), tuple(int(j) for j in a[f"norm{k}/group"]))
                for k in range(header["norms"])
            ],
            offset=float(a["offset"]),
            safe=SafeBounds(
                None if trace is None else tuple(float(t) for t in trace),
                a.get("safe/direction"),
                a.get("safe/anchor"),
                float(a["value_scale"]),
            ),
            notes=header["notes"],
            family=_family_of(a),
            name=header["name"],
        )

    def __str__(self) -> str:
        terms = [f"<C, {b.name}>" for b in self.blocks if b.cost.magnitude()]
        terms += ["gᵀq"] * bool(self.cost_q.any()) + ["cᵀx"] * bool(self.cost_x.any())
        penalties = ["½Σhx²"] * bool(self.quadratic_x.any()) + ["ρ‖x_G‖"] * len(self.norms)
        objective = " + ".join(terms) or "0"
        for penalty in penalties:
            objective += (" − " if self.sense == "max" else " + ") + penalty
        for block in self.blocks:
            if block.log_det:
                weight = "" if block.log_det == 1 else f"{block.log_det:g} "
                objective += (" + " if self.sense == "max" else " − ") + weight
                objective += f"log det {block.name}"
        if self.has_log_det and objective.startswith("0 "):
            objective = objective[2:].removeprefix("+ ").replace("− ", "−", 1)
        costs = [f"C = {b.cost}" for b in self.blocks if b.cost.magnitude()]
        p = self.rows_q.shape[1]
        if self.family is not None:
            objective += f" + {self.family.weight:g}·Σ[1 + q_ij − q_il]₊"
        unknown = self.blocks[0].name if len(self.blocks) == 1 else "M"
        lines = [
            self.name,
            f"  {'maximise' if self.sense == 'max' else 'minimise'}    "
            + ",  ".join([objective, *costs[:3], *["…"] * (len(costs) > 3)]),
            "  subject to  "
            + "; ".join(
                f"A_q q{' + A_x x' if self.n_auxiliary else ''} {_SYMBOLS[k]} b"
                f"  ({_count(int(n), 'row')})"
                for k, n in zip(*np.unique(self.relations, return_counts=True), strict=True)
            )
            + f",  q_p = v_pᵀ {unknown} v_p  ({_count(p, 'measurement')})",
        ]
        if self.family is not None:
            lines[-1] = f"  over        {_count(self.family.n_rows, 'comparison')}"
        for block in self.blocks[:6]:
            lines.append(f"              {_cone(block)}")
        if len(self.blocks) > 6:
            lines.append(f"              … {len(self.blocks) - 6} more blocks")
        if self.n_auxiliary:
            n_free = int(self.free_x.sum())
            lines.append(f"              x: {self.n_auxiliary - n_free} nonnegative, {n_free} free")
        return "\n".join(lines)

    def __repr__(self) -> str:
        sizes = ", ".join(str(b.size) for b in self.blocks[:6])
        return (
            f"<Program {self.name!r}: {self.sense}, blocks ({sizes}), {self.n_rows} rows, "
            f"{self.rows_q.shape[1]} measurements, fingerprint {self.fingerprint}>"
        )


def _relations(relations: str | ArrayLike, n_rows: int) -> NDArray[np.int8]:
    if isinstance(relations, str):
        if relations not in RELATIONS:
            raise InputError(f"relations is {relations!r}; use one of {', '.join(RELATIONS)}")
        out = np.full(n_rows, RELATIONS[relations], dtype=np.int8)
    else:
        given = np.asarray(relations)
        if given.dtype.kind == "U" and np.isin(given, list(RELATIONS)).all():
            given = np.array([RELATIONS[str(word)] for word in given])
        elif given.dtype.kind not in "iufb":
            raise InputError(f"relations must hold −1, 0, 1 or {', '.join(RELATIONS)}")
        out = given.astype(np.int8)
        if not np.array_equal(out, given):
            raise InputError("relations must hold −1, 0 or 1")
    if out.shape != (n_rows,) or not np.isin(out, (-1, 0, 1)).all():
        raise InputError(f"relations must hold −1, 0 or 1 for each of the {n_rows} rows")
    out.setflags(write=False)
    return out


def _read_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays of a saved program; anything else is refused by name."""
    try:
        file = np.load(path, allow_pickle=False)
        arrays = {name: file[name] for name in file.files}
    except (ValueError, AttributeError, EOFError) as error:
        raise InputError(f"{path} is not a saved sdpkit program: {error}") from error
    if "header" not in arrays:
        raise InputError(f"{path} is not a saved sdpkit program: it has no header")
    return arrays


def _pack(out: dict[str, NDArray[Any]], name: str, matrix: sp.csr_array) -> None:
    out[f"{name}/data"] = matrix.data
    out[f"{name}/indices"] = matrix.indices.astype(np.int64)
    out[f"{name}/indptr"] = matrix.indptr.astype(np.int64)
    out[f"{name}/shape"] = np.array(matrix.shape, dtype=np.int64)


def _unpack(arrays: dict[str, NDArray[Any]], name: str) -> sp.csr_array:
    parts = (arrays[f"{name}/data"], arrays[f"{name}/indices"], arrays[f"{name}/indptr"])
    rows, columns = (int(k) for k in arrays[f"{name}/shape"])
    return sp.csr_array(parts, shape=(rows, columns))


def _family_of(arrays: dict[str, NDArray[Any]]) -> RowFamily | None:
    parts = {name[7:]: a for name, a in arrays.items() if name.startswith("family/")}
    if not parts:
        return None
    from sdpkit.program.triplets import family_from

    return family_from(parts)


def _differences(start: NDArray[np.int64], end: NDArray[np.int64], n: int) -> sp.csr_array:
    """(p, n) incidence rows e_start − e_end."""
    each = np.arange(start.size)
    values = np.concatenate([np.ones(start.size), np.full(end.size, -1.0)])
    entries = (values, (np.concatenate([each, each]), np.concatenate([start, end])))
    return sp.csr_array(entries, shape=(start.size, n))


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _cone(block: Block) -> str:
    size = str(block.size).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    text = f"{block.name} ∈ S{size}, {block.name} ⪰ 0"
    k = block.null.shape[1]
    if k == 1 and np.ptp(block.null) == 0:
        dot = "·" if block.name[-1:].isdigit() else ""
        return f"{text}, {block.name}{dot}1 = 0"
    return f"{text}, {block.name}N = 0 ({_count(k, 'direction')})" if k else text
