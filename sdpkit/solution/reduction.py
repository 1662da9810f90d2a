"""A program prepared for a solver: faces restricted, dependent constraints dropped, numbers scaled.

    M = F Z Fᵀ      F spans the face {z : Nᵀz = 0}, less the directions that neither measurements
                    nor costs see, so that Z and its dual slack may be positive definite
    constraints     equations that others imply (after facial reduction, duplicate edges)
    scaling         rows A_e to unit norm, b → b/β, C → C/γ, so that tolerances mean something

A centred graph program is *grounded*: the last node becomes the origin, F = (I − 11ᵀ/n)E with E
the first n−1 unit vectors, and the measurements e_i − e_j stay sparse. Any other single null
direction is solved for one coordinate, for the same reason. `lift` takes an answer of
the reduced program back, its multipliers shared out between kept and dropped rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost, dense
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix
from sdpkit.program.safe import NormPenalty, SafeBounds
from sdpkit.solution.answer import Answer
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Bools, Indices

# Above this many rows a dense rank test costs more than it can save.
_MAX_ROWS_TESTED = 4000
# Up to this many numbers rows are compared as they are where their Gram matrix leaves doubts.
_MAX_DENSE = 20_000_000
# Up to this share of nonzeros measurements are kept sparse.
_SPARSE = 0.1


@dataclass(frozen=True, eq=False)
class Reduction:
    """A reduced program and the way back.

    Attributes
    ----------
    original, program : Program
        Before and after.
    bases : tuple of array
        Per block the (n, r) matrix F.
    grounded : tuple of bool
        Per block whether it is that of a ground.
    rows : array of int
        (m',) the rows that were kept.
    implied : csr_array
        (m − m', m') the other rows as combinations of these, all at unit norm.
    row_scale : array of shape (m,)
        The norms of all rows before.
    rhs_scale, cost_scale : float
        β and γ.

    Examples
    --------
    >>> from sdpkit import MVU, datasets
    >>> reduction = reduce(MVU(datasets.swiss_roll(20), n_neighbors=4).program())
    >>> reduction.bases[0].shape
    (20, 19)
    """

    original: Program
    program: Program
    bases: tuple[Array, ...]
    grounded: tuple[bool, ...]
    rows: Indices
    implied: sp.csr_array
    row_scale: Array
    rhs_scale: float
    cost_scale: float

    @one_blas_thread
    def lift(self, answer: Answer) -> Answer:
        """The answer in the coordinates, constraints and units of the original program."""
        ray = answer.matrix_ray
        return replace(
            answer,
            matrices=self._lift_matrices(answer.matrices),
            x=None if answer.x is None else self.rhs_scale * answer.x,
            dual=None if answer.dual is None else self._lift_multipliers(answer.dual),
            multiplier_ray=self._lift_ray(answer.multiplier_ray),
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
        w = self.lower_multipliers(self.original.sign * solution.dual)
        return matrices, solution.x / self.rhs_scale, w

    def lower_multipliers(self, w: Array) -> Array:
        """(m',) multipliers of the reduced program with the dual slack of these (m,)."""
        scaled = w * self.row_scale / self.cost_scale
        return np.asarray(scaled[self.rows] + self.implied.T @ scaled[self._dropped])

    @property
    def _dropped(self) -> Indices:
        return np.delete(np.arange(self.original.n_rows), self.rows)

    def _lift_matrices(self, matrices: tuple[Matrix, ...] | None) -> tuple[Array, ...] | None:
        if matrices is None:
            return None
        pairs = zip(self.bases, matrices, self.grounded, strict=True)
        return tuple(
            _centred(self.rhs_scale * np.asarray(z))
            if is_grounded
            else self.rhs_scale * (f @ np.asarray(z) @ f.T)
            for f, z, is_grounded in pairs
        )

    def _lift_multipliers(self, dual: Array) -> Array:
        """(m,) the smallest multipliers with this dual slack.

        Those of the kept rows alone may be far larger, and what is off in a row costs as much as
        its multiplier. A dropped row R₂ = T R₁ takes w₂ over if R₁ has w₁ − Tᵀw₂ instead.
        """
        t = self.implied
        taken = scipy.linalg.cho_solve(self._sharing, t @ dual)
        return self._at_scale(dual - t.T @ taken, taken)

    @cached_property
    def _sharing(self) -> tuple[Array, bool]:
        """The factor of I + TTᵀ."""
        together = (self.implied @ self.implied.T).toarray()
        return scipy.linalg.cho_factor(together + np.eye(len(together)), lower=True)

    def _lift_ray(self, ray: Array | None) -> Array | None:
        """(m,) a ray as it is: what proves it must not depend on rows that are only implied."""
        return None if ray is None else self._at_scale(ray, np.zeros(self.implied.shape[0]))

    def _at_scale(self, kept: Array, dropped: Array) -> Array:
        out = np.empty(self.original.n_rows)
        out[self.rows], out[self._dropped] = kept, dropped
        return self.cost_scale * out / self.row_scale


@one_blas_thread
def reduce(program: Program, orthonormal: bool = False) -> Reduction:
    """Restrict a program to its faces, drop implied constraints, scale it to numbers near one.

    Parameters
    ----------
    program : Program
        The program.
    orthonormal : bool, default False
        Whether the bases F have orthonormal columns. This keeps the conditioning, which first-order
        methods need; False keeps the sparsity, which all others need.

    Returns
    -------
    Reduction
        The reduced program and the way back.

    Examples
    --------
    >>> from sdpkit import MVU, datasets
    >>> program = MVU(datasets.swiss_roll(20), n_neighbors=4).program()
    >>> reduction = reduce(program)
    >>> program.blocks[0].size, reduction.program.blocks[0].size
    (20, 19)
    """
    pairs = [_restrict(block, orthonormal) for block in program.blocks]
    blocks = tuple(b for b, _ in pairs)
    restricted = replace(program, blocks=blocks, safe=SafeBounds())
    rows, implied = independent_rows(restricted, _suspects(program))
    norms = restricted.row_norms
    smaller = _normalised(_take_rows(restricted, rows), norms[rows])
    rhs_scale = float(np.abs(smaller.rhs).max(initial=0.0)) or 1.0
    costs = [block.cost.magnitude() for block in smaller.blocks]
    linear = np.concatenate([smaller.cost_x, smaller.cost_q])
    cost_scale = max(*costs, float(np.abs(linear).max(initial=0.0))) or 1.0
    scaled = _scale(smaller, rhs_scale, cost_scale)
    bases = tuple(f for _, f in pairs)
    grounded = tuple(_has_ground(block, orthonormal) for block in program.blocks)
    return Reduction(program, scaled, bases, grounded, rows, implied, norms, rhs_scale, cost_scale)


def _restrict(block: Block, orthonormal: bool) -> tuple[Block, Array]:
    """(the block in Z, F) with M = F Z Fᵀ."""
    n = block.size
    whole = not block.unseen.shape[1]
    sparse = not orthonormal and _has_one_direction(block)
    if _has_ground(block, orthonormal):
        f = np.eye(n)[:, :-1] - 1.0 / n
        return replace(
            block,
            size=n - 1,
            incidence=sp.csr_array(block.incidence[:, :-1]),
            cost=_grounded(block.cost),
            null=np.zeros((n - 1, 0)),
        ), f
    if whole and not block.null.shape[1]:
        return block, np.eye(n)
    if whole and not orthonormal and block.null_basis.shape[1] > 1:
        eliminated = _eliminate(block)
        if eliminated is not None:
            return eliminated
    f = _single_direction_basis(block.null[:, 0]) if sparse else block.face
    if f.shape[1] == 0:
        # M = 0 is all that is left; a 1×1 unknown that no row can see keeps the form uniform.
        f = np.zeros((n, 1))
    cost = Cost.of(f.shape[1], sparse=_symmetric(f.T @ block.cost.dense() @ f))
    if block.features is None and sparse:
        rows = block.incidence @ sp.csr_array(f)
        return Block.of(f.shape[1], rows, name=block.name, cost=cost, log_det=block.log_det), f
    features = f if block.features is None else block.features @ f
    return Block.of(
        f.shape[1],
        block.incidence,
        name=block.name,
        features=features,
        cost=cost,
        log_det=block.log_det,
    ), f


def _has_one_direction(block: Block) -> bool:
    """Whether the face is all that is orthogonal to one given direction."""
    return not block.unseen.shape[1] and block.null.shape[1] == block.null_basis.shape[1] == 1


def _has_ground(block: Block, orthonormal: bool) -> bool:
    """Whether the last node becomes the origin."""
    centred = _has_one_direction(block) and block.is_centred and block.size > 1
    return not orthonormal and centred and _annihilates_ones(block.cost)


def _centred(matrix: Array) -> Array:
    """F Z Fᵀ for the grounding F: Z with a ground, less the means of rows and columns."""
    out = np.pad(matrix, (0, 1))
    means = out.mean(axis=1)
    out -= means[:, None]
    out -= means - means.mean()
    return out


def _single_direction_basis(v: Array) -> Array:
    """(n, n−1) basis of v⊥ that keeps sparse measurements sparse: solve for the largest v_i."""
    pivot = int(np.abs(v).argmax())
    others = np.delete(np.arange(v.size), pivot)
    f = np.zeros((v.size, v.size - 1))
    f[others, np.arange(v.size - 1)] = 1.0
    f[pivot] = -v[others] / v[pivot]
    return f


def _eliminate(block: Block) -> tuple[Block, Array] | None:
    """The block without nodes that local null directions express by others, and its F.

    The null directions of facial reduction live on rigid parts. Each is solved for one of its
    nodes, and a centred graph is grounded besides, so that measurements stay sparse; None where
    they would not, or where centring is mixed up with the rest.
    """
    constant = np.ptp(block.null, axis=0) == 0
    local, centred = block.null[:, ~constant], bool(constant.any())
    free_of_origin = not block.incidence.sum(axis=1).any() and _annihilates_ones(block.cost)
    mixed = np.abs(local.sum(axis=0)).max(initial=0.0) > 1e-12 * np.abs(local).max(initial=0.0)
    if block.features is not None or (centred and (mixed or not free_of_origin)):
        return None
    r, order = scipy.linalg.qr(local.T, mode="r", pivoting=True)
    rank = block.null_basis.shape[1] - int(centred)
    if not 0 < rank < block.size - 1 or abs(r[rank - 1, rank - 1]) <= 1e-8 * abs(r[0, 0]):
        return None
    u = np.zeros((block.size, block.size - rank))
    u[order[rank:], np.arange(block.size - rank)] = 1.0
    u[order[:rank]] = -scipy.linalg.solve_triangular(r[:rank, :rank], r[:rank, rank:])
    u[np.abs(u) <= 1e-14] = 0.0
    u = u[:, : u.shape[1] - int(centred)]
    rows = sp.csr_array(block.incidence @ sp.csr_array(u))
    if rows.nnz > _SPARSE * rows.shape[0] * rows.shape[1]:
        return None
    f = u - u.mean(axis=0) if centred else u
    cost = Cost.of(f.shape[1], sparse=_symmetric(f.T @ block.cost.dense() @ f))
    return Block.of(f.shape[1], rows, name=block.name, cost=cost, log_det=block.log_det), f


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


def _suspects(program: Program) -> Bools:
    """(m,) the rows that a face may have made dependent on others.

    Distinct edges are independent. On a face a relation Σ c_e A_e = NYᵀ + YNᵀ vanishes outside
    of the support of N, so that every edge of it has an end there. Centring has no part in it:
    where all measurements are differences and N ⊥ 1, both sides do without the constant.
    """
    if not _is_graph(program):
        return np.ones(program.n_rows, dtype=bool)
    touched = []
    for block in program.blocks:
        constant = np.ptp(block.null, axis=0) == 0
        sums = np.abs(block.null[:, ~constant].sum(axis=0)).max(initial=0.0)
        differences = not block.incidence.sum(axis=1).any()
        apart = differences and sums <= 1e-12 * np.abs(block.null).max(initial=0.0)
        null = block.null[:, ~constant] if apart else block.null
        size = np.abs(null).max(axis=1, initial=0.0)
        support = size > 1e-12 * size.max()
        touched.append(abs(block.incidence) @ support.astype(float) > 0)
    return np.asarray(abs(program.rows_q) @ np.concatenate(touched).astype(float) > 0)


def independent_rows(
    program: Program, suspects: Bools | None = None
) -> tuple[Indices, sp.csr_array]:
    """(m',) the rows that are not implied by others, those beside `suspects` untested, and
    (m − m', m') the others as combinations of them, all at unit norm.

    Only equality rows without auxiliary variables can be implied. Distinct edges of a graph are
    independent and are not tested; inconsistent rows are kept, so that the solver sees them.
    """
    every = np.arange(program.n_rows)
    plain = (program.relations == 0) & (np.diff(program.rows_x.indptr) == 0)
    plain &= True if suspects is None else suspects
    candidates = every[plain]
    if _is_graph(program) or not 1 < candidates.size <= _MAX_ROWS_TESTED:
        return every, sp.csr_array((0, every.size))
    order, combined = _pivoted(program, candidates)
    rank = combined.shape[1]
    kept = np.sort(np.concatenate([every[~plain], candidates[order[:rank]]]))
    rows = np.argsort(np.argsort(order[rank:]))
    columns = np.searchsorted(kept, candidates[order[:rank]])
    places = (np.repeat(rows, rank), np.tile(columns, rows.size))
    return kept, sp.csr_array((combined.ravel(), places), shape=(rows.size, kept.size))


def _pivoted(program: Program, candidates: Indices) -> tuple[Indices, Array]:
    """(pivot order, (·, rank) the rows beyond the rank as combinations of those before, all at
    unit norm).

    Where one of them is not implied, its right-hand side being another, all rows count as
    independent.
    """
    gram = _row_gram(program, candidates)
    lengths = _nonzero(np.sqrt(np.diag(gram).clip(min=0)))
    correlation = gram / np.outer(lengths, lengths)
    # A Gram matrix holds squares: 1e-13 here is 3e-7 in the rows.
    continue_or_raise()
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(correlation, tol=1e-13, lower=1)
    order, lower = pivots - 1, np.tril(factor)
    entries = sum(block.size**2 for block in program.blocks)
    doubtful = lower.diagonal().min(initial=1.0) < 1e-4
    if doubtful and candidates.size * entries <= _MAX_DENSE:
        continue_or_raise()
        rows = _sketched_rows(program)[candidates]
        lengths = _nonzero(np.linalg.norm(rows, axis=1))
        r, order = scipy.linalg.qr((rows / lengths[:, None]).T, mode="r", pivoting=True)
        rank = int(np.sum(np.abs(np.diag(r)) > 1e-10))
        lower = r[: min(r.shape)].T
    b = (program.rhs[candidates] / lengths)[order]
    continue_or_raise()
    head = scipy.linalg.solve_triangular(lower[:rank, :rank], b[:rank], lower=True)
    miss = float(np.abs(lower[rank:, :rank] @ head - b[rank:]).max(initial=0.0))
    scale = max(float(np.abs(b).max(initial=0.0)), np.finfo(float).tiny)
    order = np.asarray(order, dtype=np.int64)
    if not miss <= 1e-8 * scale:  # nor where rows have overflowed
        return order, np.zeros((0, candidates.size))
    combined = scipy.linalg.solve_triangular(
        lower[:rank, :rank], lower[rank:, :rank].T, lower=True, trans="T"
    )
    units = (lengths / program.row_norms[candidates])[order]  # a sketch has norms of its own
    return order, np.asarray(units[rank:, None] * combined.T / units[:rank])


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


def _row_gram(program: Program, rows: Indices) -> Array:
    """<A_e, A_f> for all pairs of the given rows: A_q [(VVᵀ)∘(VVᵀ)] A_qᵀ, summed over blocks."""
    gram = np.zeros((rows.size, rows.size))
    for block, span in zip(program.blocks, program.spans, strict=True):
        part = sp.csc_array(program.rows_q[rows][:, span])
        used = np.flatnonzero(np.diff(part.indptr))
        weights = part[:, used]
        v: Any = block.incidence[used]
        v = v if block.features is None else v @ block.features
        continue_or_raise()
        inner: Any = v @ v.T
        squares = inner.multiply(inner) if block.features is None else inner * inner
        continue_or_raise()
        gram += dense(weights @ squares @ weights.T)
    return gram


def _normalised(program: Program, norms: Array) -> Program:
    inverse = sp.diags_array(1 / norms)
    return replace(
        program,
        rows_q=sp.csr_array(inverse @ program.rows_q),
        rows_x=sp.csr_array(inverse @ program.rows_x),
        rhs=program.rhs / norms,
    )


def _take_rows(program: Program, rows: Indices) -> Program:
    """The program with these rows, and without the measurements that none of them uses."""
    taken = sp.csc_array(program.rows_q[rows])
    used = (np.diff(taken.indptr) > 0) | (program.cost_q != 0)
    kept = used if rows.size < program.n_rows else np.ones_like(used)
    blocks = tuple(
        replace(block, incidence=block.incidence[np.flatnonzero(kept[span])])
        for block, span in zip(program.blocks, program.spans, strict=True)
    )
    return replace(
        program,
        blocks=blocks,
        rows_q=sp.csr_array(taken[:, np.flatnonzero(kept)]),
        rows_x=program.rows_x[rows],
        relations=program.relations[rows],
        rhs=program.rhs[rows],
        cost_q=program.cost_q[kept],
    )


def _scale(program: Program, beta: float, gamma: float) -> Program:
    """The program with M, x in units of β and costs in units of γ; a log det less a constant."""
    return replace(
        program,
        blocks=tuple(
            replace(b, cost=b.cost.scaled(1 / gamma), log_det=b.log_det / (beta * gamma))
            for b in program.blocks
        ),
        rhs=program.rhs / beta,
        cost_q=program.cost_q / gamma,
        cost_x=program.cost_x / gamma,
        quadratic_x=program.quadratic_x * (beta / gamma),
        norms=tuple(NormPenalty(p.weight / gamma, p.group) for p in program.norms),
        offset=program.offset / (beta * gamma),
    )
