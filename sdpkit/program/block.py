"""Blocks: one positive semidefinite unknown and the vectors that measure it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_csr, instance, integer, real_array, sparse_matrix
from sdpkit.program.cost import Cost, dense
from sdpkit.typing import Array, Bools, Indices

if TYPE_CHECKING:
    from sdpkit.numerics.local_face import LocalFace
    from sdpkit.numerics.pattern import Pattern
    from sdpkit.numerics.sparse_spectrum import SparseSpectrum
    from sdpkit.numerics.updated_factor import LowRankUpdate
    from sdpkit.program.gram import Matrix


# Above this size the matrices of a graph's block stay sparse, and its unknown an operator.
LARGE = 1500
# The same for other sparse data, where dense matrices are quick for longer, and the largest share
# of nonzeros that their dual slack may have.
_LARGE_SPARSE, _SPARSE_SLACK = 2500, 0.02
# A node with this share of all others as neighbours, and the size up to which it matters.
_HUB, _LARGE_WITH_HUB = 0.25, 4000
# Largest number of doubles held by one slab when measurements are evaluated.
_SLAB = 1 << 22
# Products V M of more entries than this are avoided where few of them are needed.
_GATHERED = 20_000_000
# Measurement vectors with a larger share of nonzeros are dense.
_SPARSE = 0.25
# Rows of more measurements than this are multiplied as sparse ones.
_FEW_TERMS = 8


@dataclass(frozen=True, eq=False)
class Block:
    """One positive semidefinite unknown and the vectors by which it is measured.

    The measurement vectors are the rows of V = B X, kept factored: B the sparse incidence of
    the measurements on nodes, X the features of the nodes (None: the identity).

    Attributes
    ----------
    name : str
        The paper's letter for the unknown.
    size : int
        n.
    incidence : csr_array of shape (p, N)
        Csr array B.
    features : array of shape (N, n) or None
        Dense X, or None when N = n and X = I.
    cost : Cost
        C.
    null : array of shape (n, k)
        Directions N on which M vanishes, M N = 0.
    max_rank : int or None
        The largest rank M may have, or None; a condition that is not convex, so that an answer is
        proven by the program without it or is merely stationary.
    log_det : float
        The weight β ≥ 0 of log det M, taken on the face.

    Examples
    --------
    >>> block = Block.of(2, [[1.0, -1.0]], name="K")        # one length, between two points
    >>> block.name, block.size
    ('K', 2)
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
        if not isinstance(size, int | np.integer) or size < 1:
            raise InputError(f"block {name!r} has size {size}; pass an integer of at least 1")
        size = int(size)
        if max_rank is not None:
            max_rank = integer(max_rank, f"the max_rank of block {name!r}")
        if not 0 <= log_det < np.inf:
            raise InputError(f"the weight of log det {name} is {log_det}; it must be ≥ 0")
        if log_det and max_rank is not None:
            raise InputError(f"log det {name} has no value on matrices of limited rank")
        x = None if features is None else real_array(features, f"features of block {name!r}")
        if x is not None and (x.ndim != 2 or x.shape[1] != size or not np.isfinite(x).all()):
            raise InputError(f"features of block {name!r} must be finite of shape (N, {size})")
        b = sparse_matrix(incidence, f"measurements of {name!r}")
        b = finite_csr(
            b, (b.shape[0], size if x is None else x.shape[0]), f"measurements of {name!r}"
        )
        found = np.zeros((size, 0)) if null is None else null
        directions = real_array(found, f"null directions of {name!r}")
        if directions.ndim == 1:
            directions = directions[:, None]
        matrix = directions.ndim == 2 and directions.shape[0] == size
        if not matrix or not np.isfinite(directions).all():
            raise InputError(f"null directions of {name!r} must be finite of shape ({size}, k)")
        for array in (x, directions):
            if array is not None:
                array.setflags(write=False)
        if isinstance(cost, np.ndarray):
            cost = Cost.of(size, sparse=cost)
        cost = Cost.of(size) if cost is None else instance(cost, Cost, "cost")
        if cost.size != size:
            raise InputError(f"block {name!r} has size {size}, its cost has size {cost.size}")
        return cls(name, size, b, x, cost, directions, max_rank, float(log_det))

    def __repr__(self) -> str:
        size, p = self.size, self.n_measurements
        return f"<Block {self.name} of size {size}: {p} measurements, C = {self.cost}>"

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
        if self.features is None and self._is_best_gathered:
            return np.asarray(self.outer_products @ matrix.ravel())
        q = np.empty(self.n_measurements)
        for rows, v in self.slabs():
            product = v @ matrix
            if self.features is None:
                q[rows] = np.asarray(v.multiply(product).sum(axis=1)).ravel()
            else:
                q[rows] = np.einsum("pi,pi->p", product, v)
        return q

    @cached_property
    def _is_best_gathered(self) -> bool:
        """Whether V M has far more entries than V has pairs of entries in its rows."""
        products = self.n_measurements * self.size
        pairs = np.square(np.diff(self.incidence.indptr).astype(np.float64)).sum()
        return bool(products > _GATHERED and 10 * pairs < products)

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
    def is_dense(self) -> bool:
        """Whether so many entries of the measurement vectors differ from zero that their products
        are best made as dense ones."""
        if self.features is not None:
            return True
        return bool(self.incidence.nnz > _SPARSE * self.n_measurements * self.size)

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

    def squared_norms(self, rows: sp.csr_array) -> Array:
        """(r,) squared norms of the matrices Σ_p a_p v_p v_pᵀ, one for each row a of (r, p).

        Products are rounded one by one, so that a row of equal and opposite terms has norm 0.
        """
        counts = np.diff(rows.indptr)
        if not self.is_dense or counts.max(initial=0) > _FEW_TERMS:
            products = self.outer_products
            if self.is_large_sparse:  # a product of sparse matrices takes memory for every column
                products = compact_columns(products)[0]
            matrices = rows @ products
            return np.asarray(matrices.multiply(matrices).sum(axis=1)).ravel()
        full, out = self.vectors().toarray(), np.zeros(rows.shape[0])
        at_once = max(1, _SLAB // self.size**2)
        for count in np.unique(counts):
            alike = np.flatnonzero(counts == count)
            for some in np.split(alike, range(at_once, alike.size, at_once)):
                terms = rows.indptr[some][:, None] + np.arange(count)
                matrices = np.zeros((some.size, self.size, self.size))
                for term in terms.T:
                    v = full[rows.indices[term]]
                    weighted = rows.data[term][:, None] * v
                    matrices += weighted[:, :, None] * v[:, None, :]
                out[some] = np.square(matrices).sum(axis=(1, 2))
        return out

    @cached_property
    def is_centred(self) -> bool:
        """True if M1 = 0 is the only null condition and every measurement is a difference."""
        one = self.null.shape[1] == 1 and np.ptp(self.null) == 0 and self.null[0, 0] != 0
        if not one or self.features is not None:
            return False
        return bool(np.abs(self.incidence.sum(axis=1)).max(initial=0.0) == 0)

    @cached_property
    def edges(self) -> Indices | None:
        """(p, 2) where the block is that of a graph: M1 = 0, C = a·I + U diag(s) Uᵀ and
        V = (e_i − e_j) over distinct pairs; None otherwise. There may be more null directions, on a
        few nodes each, as facial reduction finds them (`local_face`)."""
        pairs = self._plain_edges
        return pairs if self.is_centred or self.local_face is not None else None

    @cached_property
    def _plain_edges(self) -> Indices | None:
        """The same, whatever the null directions are."""
        v = self.incidence
        if self.features is not None or self.cost.sparse.nnz or not self.n_measurements:
            return None
        u = self.cost.factor
        varied = np.linalg.norm(u - u.mean(axis=0), axis=0)
        if np.any((np.ptp(u, axis=0) > 0) & (varied < 1e-6 * np.linalg.norm(u, axis=0))):
            return None  # too little of the cost is left on 1⊥ to be centred without loss
        if np.any(np.diff(v.indptr) != 2) or not np.all(np.abs(v.data) == 1):
            return None
        if v.sum(axis=1).any():
            return None
        pairs = v.indices.reshape(-1, 2).astype(np.int64)
        distinct = np.unique(pairs[:, 0] * self.size + pairs[:, 1]).size
        return pairs if distinct == len(pairs) else None

    @cached_property
    def local_face(self) -> LocalFace | None:
        """Null directions of a graph other than the constant, each on a few nodes; None if there
        are none, or others."""
        from sdpkit.numerics.local_face import LocalFace

        constant = np.ptp(self.null, axis=0) == 0
        if self._plain_edges is None or constant.all() or constant.sum() != 1:
            return None
        if not self.null[0, constant].all():
            return None
        return LocalFace.of(self._plain_edges, self.null[:, ~constant])

    @cached_property
    def is_large_graph(self) -> bool:
        """True where n × n matrices are avoided: a graph of more than 1500 nodes, or of more than
        4000 where one node is joined to many: n/δ is added up there for pivots δ, and digits of
        the sparse factors are lost."""
        if self.size <= LARGE or self.edges is None or self.log_det:
            return False
        most = int(np.bincount(self.edges.ravel()).max())
        return self.size > _LARGE_WITH_HUB or most <= _HUB * self.size

    @cached_property
    def is_large_sparse(self) -> bool:
        """True where n × n matrices are avoided because costs and measurements are sparse: a block
        of more than 2500 without features, null directions or a low-rank cost, whose dual slack
        has at most 2 % nonzeros."""
        if self.size <= _LARGE_SPARSE or self.features is not None or self.log_det:
            return False
        if self.null.shape[1] or self.cost.factor.shape[1] or self.max_rank is not None:
            return False
        most = _SPARSE_SLACK * float(self.size) ** 2
        terms = np.square(np.diff(self.incidence.indptr).astype(np.float64))
        return float(terms.sum()) + self.cost.sparse.nnz <= most

    @property
    def avoids_dense(self) -> bool:
        """Whether nothing of size n × n may be formed: large graphs, and large sparse data."""
        return self.is_large_graph or self.is_large_sparse

    def sparse_slack(self, u: Array, factor: float) -> SparseSpectrum:
        """Vᵀdiag(u)V − factor·C of a block of large sparse data, ready to be factored."""
        from sdpkit.numerics.sparse_spectrum import SparseSpectrum

        slack = self.adjoint(u)
        if factor and self.cost.sparse.nnz:
            slack = slack - factor * self.cost.sparse
        if factor and self.cost.identity:
            slack = slack - factor * self.cost.identity * sp.eye_array(self.size, format="csr")
        if not self.touched.all():
            # Nothing sees the other coordinates, and M is taken to vanish there.
            lift = float(np.abs(slack.data).max(initial=1.0))
            slack = slack + sp.diags_array(lift * ~self.touched, format="csr")
        return SparseSpectrum(sp.csc_array(slack), self._elimination_order)

    @cached_property
    def touched(self) -> Bools:
        """(n,) the coordinates in which a measurement or the cost has an entry, of a block without
        features."""
        seen = np.full(self.size, self.cost.identity != 0)
        seen[self.incidence.indices] = True
        seen[self.cost.sparse.indices] = True
        return seen

    @cached_property
    def _elimination_order(self) -> Indices:
        """(n,) an order of low fill for every dual slack."""
        from sdpkit.numerics.sparse_spectrum import elimination_order

        v = abs(self.incidence)
        return elimination_order(v.T @ v + abs(self.cost.sparse))

    @cached_property
    def pattern(self) -> Pattern:
        """The graph's sparse factors, with the braces of its face, analysed once."""
        from sdpkit.numerics.pattern import Pattern

        if self.edges is None:
            raise InputError(f"block {self.name!r} is not that of a graph")
        braces = self.edges[:0] if self.local_face is None else self.local_face.braces
        return Pattern.of(self.size, np.concatenate([self.edges, braces]))

    def on_pattern(self, u: Array, stiffness: float = 0.0) -> Array:
        """Weights of the pattern's edges whose Laplacian is that of u on the face, and the given
        stiffness on local null directions."""
        return u if self.local_face is None else self.local_face.weights(u, stiffness)

    @cached_property
    def low_rank(self) -> LowRankUpdate | None:
        """Of a graph's cost, what is not a multiple of I, as 1⊥ sees it; None if nothing is."""
        from sdpkit.numerics.updated_factor import LowRankUpdate

        u, s = self.cost.factor, self.cost.weights
        seen = (np.ptp(u, axis=0) > 0) & (s != 0)  # constant columns are nothing to 1⊥
        if not seen.any():
            return None
        means = np.array([math.fsum(column) for column in u[:, seen].T]) / self.size
        error = 4 * np.finfo(float).eps * float(np.linalg.norm(u[:, seen]))
        if self.local_face is None:
            return LowRankUpdate(u[:, seen] - means, s[seen], error)
        # The face sees the same without its null directions, and nothing else mixes with these.
        basis = self.null_basis
        on_face = u[:, seen] - basis @ (basis.T @ u[:, seen])
        return LowRankUpdate(on_face, s[seen], 4 * basis.shape[1] * self.size**0.5 * error)

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
        if self.log_det or self.avoids_dense or definite or self._measurements_see_all():
            return np.zeros((self.size, 0))
        scale = self._column_scale()
        rows = np.vstack([self._seen(scale), (self.null_basis / scale[:, None]).T])
        _, singular, right = np.linalg.svd(rows)
        singular = np.r_[singular, np.zeros(self.size - singular.size)]
        hidden = right[singular <= 64 * self.size * np.finfo(float).eps].T / scale[:, None]
        hidden = np.asarray(np.linalg.qr(hidden)[0])
        # In units of other directions a cost may look negligible: compare it with its own size.
        cost = self.cost.dense()
        sizes = np.linalg.norm(np.abs(cost) @ np.abs(hidden), axis=0).clip(min=np.finfo(float).tiny)
        if not hidden.shape[1] or np.abs(cost @ hidden / sizes).max() <= 1e-10:
            return hidden
        return np.zeros((self.size, 0))

    def _measurements_see_all(self) -> bool:
        """Whether VᵀV + NNᵀ is positive definite beyond doubt; False leaves it open."""
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

        For a large graph, and for large sparse data, it is a proven lower bound from sparse
        factors.
        """
        if self.is_large_sparse:
            return self.sparse_slack(u, factor).proven_bound()
        if self.is_large_graph:
            from sdpkit.numerics.eigenpairs import smallest_on_centred

            update = self.low_rank.scaled(factor) if factor and self.low_rank else None
            cost, face = factor * self.cost.identity, self.local_face
            if face is None:
                return smallest_on_centred(self.pattern, u, cost, None, update)
            γ = stiff_enough(u, cost)
            weights = face.weights(u, γ)
            least = smallest_on_centred(self.pattern, weights, cost, None, update)
            return least - face.error(np.abs(u), γ)
        image = dense(self.adjoint(u))
        return self.smallest_on_face(image - factor * self.cost.dense() if factor else image)


def stiff_enough(u: Array, cost: float) -> float:
    """A stiffness of null directions that is no smaller than what a graph of weights u has beside
    them, less the cost."""
    return 4 * max(float(np.abs(u).max(initial=0.0)), abs(cost))


def _project_out(q: Array, matrix: Array) -> Array:
    """(I − QQᵀ) A (I − QQᵀ) for orthonormal Q, by an update of twice its rank."""
    if not q.shape[1]:
        return matrix
    aq = matrix @ q
    cross = q @ (aq - 0.5 * q @ (q.T @ aq)).T
    return np.asarray(matrix - cross - cross.T)


def compact_columns(matrix: sp.csr_array) -> tuple[sp.csr_array, Indices]:
    """A sparse matrix without its columns of zeros, and which columns are left.

    >>> compact, kept = compact_columns(sp.csr_array([[0.0, 2.0, 0.0, 3.0]]))
    >>> compact.toarray().tolist(), kept.tolist()
    ([[2.0, 3.0]], [1, 3])
    """
    kept, where = np.unique(matrix.indices, return_inverse=True)
    entries = (matrix.data, where, matrix.indptr)
    return sp.csr_array(entries, shape=(matrix.shape[0], kept.size)), kept.astype(np.int64)


def differences(start: Indices, end: Indices, n: int) -> sp.csr_array:
    """(p, n) incidence rows e_start − e_end."""
    each = np.arange(start.size)
    values = np.concatenate([np.ones(start.size), np.full(end.size, -1.0)])
    entries = (values, (np.concatenate([each, each]), np.concatenate([start, end])))
    return sp.csr_array(entries, shape=(start.size, n))
