"""A program made fit for a solver: faces restricted, dependent rows dropped, numbers scaled.

    M = F Z Fᵀ      F spans the face {z : Nᵀz = 0}, so that Z may be positive definite
    rows            equality rows that others imply (after facial reduction, duplicate edges)
    scaling         rows A_e to unit norm, b → b/β, C → C/γ, so that tolerances mean something

A centred graph program is *grounded*: the last node becomes the origin, F = (I − 11ᵀ/n)E with E
the first n−1 unit vectors, and the measurements e_i − e_j stay sparse. Any other single null
direction is solved for one coordinate, for the same reason. `lift` takes an answer of
the reduced program back; multipliers of dropped rows are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.gram import Matrix
from sdpkit.program import Block, Cost, NormPenalty, Program, SafeBounds
from sdpkit.solution import Answer, Solution

Array = NDArray[np.float64]

# Above this many rows a dense rank test costs more than it can save.
_MAX_ROWS_TESTED = 4000
# Up to this many numbers rows are compared as they are where their Gram matrix leaves doubts.
_MAX_DENSE = 20_000_000


@dataclass(frozen=True, eq=False)
class Reduction:
    """A reduced program and the way back.

    Attributes
    ----------
    original, program: before and after
    bases: per block the (n, r) matrix F
    rows: (m',) the rows that were kept;  row_scale: (m',) their norms before
    rhs_scale, cost_scale: β and γ
    """

    original: Program
    program: Program
    bases: tuple[Array, ...]
    rows: NDArray[np.int64]
    row_scale: Array
    rhs_scale: float
    cost_scale: float

    def lift(self, answer: Answer) -> Answer:
        """The answer in the coordinates, rows and units of the original program."""
        ray = answer.matrix_ray
        return replace(
            answer,
            matrices=self._lift_matrices(answer.matrices),
            x=None if answer.x is None else self.rhs_scale * answer.x,
            dual=self._lift_multipliers(answer.dual),
            multiplier_ray=self._lift_multipliers(answer.multiplier_ray),
            matrix_ray=None
            if ray is None
            else (self._lift_matrices(ray[0]) or (), self.rhs_scale * ray[1]),
        )

    def lower(self, solution: Solution) -> tuple[list[Array], Array, Array] | None:
        """(Z per block, x, w) of a solution in reduced coordinates; None if it does not fit."""
        shapes = [(b.size, b.size) for b in self.original.blocks]
        if [m.shape for m in solution.matrices] != shapes or solution.dual is None:
            return None
        sizes = (self.original.n_rows, self.original.n_auxiliary)
        if (solution.dual.size, solution.x.size) != sizes:
            return None
        finite = [*solution.matrices, solution.x, solution.dual]
        if not all(np.isfinite(values).all() for values in finite):
            return None
        inverses = [np.linalg.pinv(f) for f in self.bases]
        pairs = zip(inverses, solution.matrices, strict=True)
        matrices = [f @ (np.asarray(m) / self.rhs_scale) @ f.T for f, m in pairs]
        w = self.original.sign * solution.dual[self.rows] * self.row_scale / self.cost_scale
        return matrices, solution.x / self.rhs_scale, w

    def _lift_matrices(self, matrices: tuple[Matrix, ...] | None) -> tuple[Array, ...] | None:
        if matrices is None:
            return None
        pairs = zip(self.bases, matrices, strict=True)
        return tuple(self.rhs_scale * (f @ np.asarray(z) @ f.T) for f, z in pairs)

    def _lift_multipliers(self, dual: Array | None) -> Array | None:
        if dual is None:
            return None
        out = np.zeros(self.original.n_rows)
        out[self.rows] = self.cost_scale * dual / self.row_scale
        return out


def reduce(program: Program, orthonormal: bool = False) -> Reduction:
    """Restrict `program` to its faces, drop implied rows, scale it to numbers near one.

    An orthonormal F keeps the conditioning, which first-order methods need; the default keeps
    the sparsity, which everything else needs.

    >>> from sdpkit import MVU, datasets
    >>> program = MVU(datasets.swiss_roll(20), n_neighbors=4).program()
    >>> reduction = reduce(program)
    >>> program.blocks[0].size, reduction.program.blocks[0].size
    (20, 19)
    """
    pairs = [_restrict(block, orthonormal) for block in program.blocks]
    restricted = replace(program, blocks=tuple(b for b, _ in pairs), safe=SafeBounds())
    rows = independent_rows(restricted)
    norms = restricted.row_norms[rows]
    smaller = _normalised(_take_rows(restricted, rows), norms)
    rhs_scale = float(np.abs(smaller.rhs).max(initial=0.0)) or 1.0
    costs = [block.cost.magnitude() for block in smaller.blocks]
    linear = np.concatenate([smaller.cost_x, smaller.cost_q])
    cost_scale = max(*costs, float(np.abs(linear).max(initial=0.0))) or 1.0
    scaled = _scale(smaller, rhs_scale, cost_scale)
    bases = tuple(f for _, f in pairs)
    return Reduction(program, scaled, bases, rows, norms, rhs_scale, cost_scale)


def _restrict(block: Block, orthonormal: bool) -> tuple[Block, Array]:
    """(the block in Z, F) with M = F Z Fᵀ."""
    n = block.size
    sparse = not orthonormal and block.null.shape[1] == block.null_basis.shape[1] == 1
    if sparse and block.is_centred and n > 1 and _annihilates_ones(block.cost):
        f = np.eye(n)[:, :-1] - 1.0 / n
        return replace(
            block,
            size=n - 1,
            incidence=sp.csr_array(block.incidence[:, :-1]),
            cost=_grounded(block.cost),
            null=np.zeros((n - 1, 0)),
        ), f
    if not block.null.shape[1]:
        return block, np.eye(n)
    f = _single_direction_basis(block.null[:, 0]) if sparse else block.face
    if f.shape[1] == 0:
        # M = 0 is all that is left; a 1×1 unknown that no row can see keeps the form uniform.
        f = np.zeros((n, 1))
    cost = Cost.of(f.shape[1], sparse=_symmetric(f.T @ block.cost.dense() @ f))
    if block.features is None and sparse:
        rows = block.incidence @ sp.csr_array(f)
        return Block.of(f.shape[1], rows, name=block.name, cost=cost), f
    features = f if block.features is None else block.features @ f
    return Block.of(f.shape[1], block.incidence, name=block.name, features=features, cost=cost), f


def _single_direction_basis(v: Array) -> Array:
    """(n, n−1) basis of v⊥ that keeps sparse measurements sparse: solve for the largest v_i."""
    pivot = int(np.abs(v).argmax())
    others = np.delete(np.arange(v.size), pivot)
    f = np.zeros((v.size, v.size - 1))
    f[others, np.arange(v.size - 1)] = 1.0
    f[pivot] = -v[others] / v[pivot]
    return f


def _annihilates_ones(cost: Cost) -> bool:
    """Whether C1 = 0, or C is a multiple of the identity (which acts as a·(I − 11ᵀ/n))."""
    if cost.is_identity:
        return True
    ones = np.ones(cost.size)
    image = cost.identity * ones + cost.sparse @ ones
    image = image + cost.factor @ (cost.weights * (cost.factor.T @ ones))
    return bool(np.abs(image).max() <= 1e-12 * cost.magnitude())


def _grounded(cost: Cost) -> Cost:
    """FᵀCF for the grounding F: drop the last row and column of a cost with C1 = 0."""
    n = cost.size
    factor, weights = cost.factor[:-1], cost.weights
    if cost.is_identity and cost.identity:
        factor, weights = np.ones((n - 1, 1)), np.array([-cost.identity / n])
    return Cost.of(
        n - 1,
        identity=cost.identity,
        sparse=cost.sparse[:-1, :-1],
        factor=factor,
        weights=weights,
    )


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2


def independent_rows(program: Program) -> NDArray[np.int64]:
    """Indices of rows that are not implied by others.

    Only equality rows without auxiliary variables can be implied. Distinct edges of a graph are
    independent and are not tested; inconsistent rows are kept, so that the solver sees them.
    """
    every = np.arange(program.n_rows)
    plain = (program.relations == 0) & (np.diff(program.rows_x.indptr) == 0)
    candidates = every[plain]
    if _is_graph(program) or not 1 < candidates.size <= _MAX_ROWS_TESTED:
        return every
    order, rank, implied = _pivoted(program, candidates)
    if rank == candidates.size or not implied:
        return every
    return np.sort(np.concatenate([every[~plain], candidates[order[:rank]]]))


def _pivoted(
    program: Program, candidates: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int, bool]:
    """(pivot order, rank, whether the rows beyond the rank are implied by those before)."""
    gram = _row_gram(program)[candidates][:, candidates].toarray()
    lengths = _nonzero(np.sqrt(np.diag(gram).clip(min=0)))
    correlation = gram / np.outer(lengths, lengths)
    # A Gram matrix holds squares: 1e-13 here is 3e-7 in the rows.
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(correlation, tol=1e-13, lower=1)
    order, lower = pivots - 1, np.tril(factor)
    entries = sum(block.size**2 for block in program.blocks)
    doubtful = lower.diagonal().min(initial=1.0) < 1e-4
    if doubtful and candidates.size * entries <= _MAX_DENSE:
        rows = _sketched_rows(program)[candidates]
        lengths = _nonzero(np.linalg.norm(rows, axis=1))
        r, order = scipy.linalg.qr((rows / lengths[:, None]).T, mode="r", pivoting=True)
        rank = int(np.sum(np.abs(np.diag(r)) > 1e-10))
        lower = r[: min(r.shape)].T
    b = (program.rhs[candidates] / lengths)[order]
    head = scipy.linalg.solve_triangular(lower[:rank, :rank], b[:rank], lower=True)
    miss = float(np.abs(lower[rank:, :rank] @ head - b[rank:]).max(initial=0.0))
    scale = max(float(np.abs(b).max(initial=0.0)), np.finfo(float).tiny)
    return np.asarray(order, dtype=np.int64), rank, miss <= 1e-8 * scale


def _sketched_rows(program: Program) -> Array:
    """(m, k) rows as vectors, mapped at random to little more than m dimensions.

    Almost every linear map into at least m dimensions keeps the dependences among m vectors and
    adds none, and a factorisation of the image costs a fraction.
    """
    wide = []
    for block, columns in zip(program.blocks, program.spans, strict=True):
        v = block.vectors().toarray()
        i, j = np.triu_indices(block.size)
        wide.append(program.rows_q[:, columns] @ (v[:, i] * v[:, j] * np.where(i == j, 1.0, 2.0)))
    rows = np.hstack(wide)
    width = program.n_rows + 20
    if rows.shape[1] <= 2 * width:
        return rows
    sketch = np.random.default_rng(0).standard_normal((rows.shape[1], width))
    return np.asarray(rows @ sketch / np.sqrt(width))


def _nonzero(lengths: Array) -> Array:
    """Row lengths, 1 for rows of zeros: those are implied if their right-hand side is zero."""
    return np.where(lengths > 0, lengths, 1.0)


def _is_graph(program: Program) -> bool:
    """Whether every row measures one distinct edge (or point) of an unreduced node set."""
    if any(block.features is not None for block in program.blocks):
        return False
    if np.any(np.diff(program.rows_q.indptr) != 1):
        return False
    if np.bincount(program.rows_q.indices).max(initial=0) > 1:
        return False
    keys: set[tuple[int, ...]] = set()
    for k, block in enumerate(program.blocks):
        v = block.incidence
        if v.nnz and not np.all(np.abs(v.data) == 1):
            return False
        for e in range(v.shape[0]):
            ends = v.indices[v.indptr[e] : v.indptr[e + 1]]
            if ends.size > 2:
                return False
            keys.add((k, *(int(i) for i in ends)))
    return len(keys) == program.rows_q.shape[1]


def _row_gram(program: Program) -> sp.csr_array:
    """<A_e, A_f> for all pairs of rows: A_q [(VVᵀ)∘(VVᵀ)] A_qᵀ, per block."""
    parts = []
    for block in program.blocks:
        v = block.vectors()
        inner = v @ v.T
        parts.append(inner.multiply(inner))
    return sp.csr_array(program.rows_q @ sp.block_diag(parts, format="csr") @ program.rows_q.T)


def _normalised(program: Program, norms: Array) -> Program:
    inverse = sp.diags_array(1 / norms)
    return replace(
        program,
        rows_q=sp.csr_array(inverse @ program.rows_q),
        rows_x=sp.csr_array(inverse @ program.rows_x),
        rhs=program.rhs / norms,
    )


def _take_rows(program: Program, rows: NDArray[np.int64]) -> Program:
    return replace(
        program,
        rows_q=program.rows_q[rows],
        rows_x=program.rows_x[rows],
        relations=program.relations[rows],
        rhs=program.rhs[rows],
    )


def _scale(program: Program, beta: float, gamma: float) -> Program:
    """The program with M, x in units of β and costs in units of γ."""
    return replace(
        program,
        blocks=tuple(replace(b, cost=b.cost.scaled(1 / gamma)) for b in program.blocks),
        rhs=program.rhs / beta,
        cost_q=program.cost_q / gamma,
        cost_x=program.cost_x / gamma,
        quadratic_x=program.quadratic_x * (beta / gamma),
        norms=tuple(NormPenalty(p.weight / gamma, p.group) for p in program.norms),
        offset=program.offset / (beta * gamma),
    )
