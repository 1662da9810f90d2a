"""Conic data as modelling layers hand them over, read as a program in squared lengths.

    minimise  cᵀx + ½xᵀQx − Σβ log det s + d            subject to  b − Ax = s ∈ K
    maximise  −bᵀy − ½xᵀQx + Σβ(log det y + n − n log β) + d       Aᵀy + Qx + c = 0,  y ∈ K*

with K = zero × nonnegative × Lorentz × PSD, Q ⪰ 0 diagonal, and a weight β ≥ 0 for each
semidefinite cone, most β = 0. Either line can be the program. The *slack reading* takes the first:
the unknowns M are the semidefinite slacks; where a cone's slack is nothing but entries of x (a PSD
variable, a bound), those entries are eliminated and their constraints vanish. The *dual reading*
takes the second: one constraint per entry of x, the unknowns are the semidefinite multipliers. The
reading with fewer constraints is built: max-cut over a PSD variable has n, a linear matrix
inequality in k variables has k.

A Lorentz cone is one over auxiliary variables in either reading: its slacks or its multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.certificate.points import without_objective
from sdpkit.conic.folding import Folding
from sdpkit.conic.unseen import without_unseen
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program, Sense
from sdpkit.program.gram import Matrix
from sdpkit.program.sdpa import BlockReader, SdpaContent
from sdpkit.program.second_order import SecondOrderCone
from sdpkit.typing import Array, Bools, Indices

Kind = Literal["soc", "psd"]


@dataclass(frozen=True, eq=False)
class ConeRows:
    """A Lorentz or semidefinite cone: which rows of A it owns.

    A semidefinite cone of size n owns n² rows, its matrix column by column, and may have a log
    det of weight β in the objective.
    """

    kind: Kind
    size: int
    rows: Indices
    log_det: float = 0.0

    @cached_property
    def entries(self) -> sp.csr_array:
        """(n², n²): what a coefficient of each row of a semidefinite cone adds to the upper
        triangle of F in <F, M>."""
        n = self.size
        j, i = np.divmod(np.arange(n * n), n)
        upper = np.minimum(i, j) * n + np.maximum(i, j)
        values = np.where(i == j, 1.0, 0.5)
        return sp.csr_array((values, (np.arange(n * n), upper)), shape=(n * n, n * n))

    def vector(self, matrix: Matrix) -> Array:
        """The entries of a semidefinite cone, one per row, from its matrix."""
        dense = np.asarray(matrix)
        return np.asarray((dense + dense.T).ravel() / 2)

    def matrix(self, vector: Array) -> Array:
        """The matrix of a semidefinite cone with these entries."""
        square = vector.reshape(self.size, self.size)
        return np.asarray((square + square.T) / 2)


@dataclass(frozen=True, eq=False)
class ConicData:
    """min cᵀx + ½xᵀQx − Σβ log det s + d, s = b − Ax ∈ K. The first `n_zero` rows are equations,
    then `n_nonneg` inequalities; the cones own the rest. `quadratic` is the diagonal of Q, zero
    on entries of x that lie in cones. `sense` is that of the model, before it became a
    minimisation.
    """

    cost: Array
    matrix: sp.csr_array
    rhs: Array
    n_zero: int
    n_nonneg: int
    cones: tuple[ConeRows, ...]
    quadratic: Array
    offset: float = 0.0
    sense: Sense = "min"
    name: str = "model"

    def gradient(self, x: Array) -> Array:
        """c + Qx."""
        return np.asarray(self.cost + self.quadratic * x)

    def value(self, x: Array) -> float:
        """The minimised objective at x, less the constant."""
        dets = sum(c.log_det * value for c, value in zip(self.cones, self.log_dets(x), strict=True))
        return float(self.cost @ x + 0.5 * self.quadratic @ x**2 - dets)

    def log_dets(self, x: Array) -> list[float]:
        """log det s for each cone with a weight, −inf outside of its interior; 0 for the others."""
        slack = self.rhs - self.matrix @ x
        return [_log_det(c.matrix(slack[c.rows])) if c.log_det else 0.0 for c in self.cones]

    @property
    def homogeneous(self) -> ConicData:
        """The same constraints without an objective."""
        zero = np.zeros_like(self.cost)
        cones = tuple(replace(cone, log_det=0.0) for cone in self.cones)
        return replace(self, cost=zero, quadratic=zero, offset=0.0, cones=cones)

    def balanced(self, y: Array) -> Array:
        """y with equal multipliers for linear rows that are the same, or opposite for opposite
        equations, such as the two halves of an equation of symmetric matrices: only their sum is
        determined."""
        n = self.n_zero + self.n_nonneg
        rows = sp.csr_array(self.matrix[:n])
        rows.sort_indices()  # equal rows have equal products, to the last bit
        seen = np.asarray(rows @ np.random.default_rng(0).standard_normal((self.cost.size, 2)))
        is_equation = np.arange(n) < self.n_zero
        sign = np.where(is_equation & (seen[:, 0] < 0), -1.0, 1.0)
        keys = np.column_stack([is_equation, sign[:, None] * seen, sign * self.rhs[:n]]) + 0.0
        label = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        mean = np.bincount(label, sign * y[:n]) / np.maximum(np.bincount(label), 1)
        return np.concatenate([sign * mean[label], y[n:]])

    @property
    def sign(self) -> float:
        """+1 if the model minimises, −1 if it was negated to do so."""
        return 1.0 if self.sense == "min" else -1.0

    @property
    def matrices(self) -> tuple[ConeRows, ...]:
        """The semidefinite cones."""
        return tuple(cone for cone in self.cones if cone.kind == "psd")

    @cached_property
    def folding(self) -> Folding:
        """The same data with every row once."""
        return Folding.of(self)

    @property
    def nonneg(self) -> Indices:
        """The rows of the inequalities."""
        return np.arange(self.n_zero, self.n_zero + self.n_nonneg)


@dataclass(frozen=True, eq=False)
class DraftBlock:
    """One semidefinite unknown before it is measured: coefficients (m, rows) and costs (rows,)."""

    cone: ConeRows
    coefficients: sp.csr_array
    cost: Array


@dataclass(frozen=True, eq=False)
class Draft:
    """A program over cones, before its matrices become squared lengths.

    `cones` are second-order cones over the auxiliary variables, the head first.
    """

    parts: Sequence[DraftBlock]
    cones: Sequence[Indices]
    rows_x: sp.csr_array
    cost_x: Array
    free_x: Bools
    rhs: Array
    relations: NDArray[np.int8]
    quadratic_x: Array
    sense: Sense
    offset: float
    name: str


@dataclass(frozen=True, eq=False)
class Compiled:
    """A program and which rows of its draft it kept; `nulls` became null directions."""

    program: Program
    kept: Indices
    n_rows: int
    nulls: Indices
    with_nulls: Program | None

    def multipliers(self, dual: Array) -> Array:
        """Multipliers of all rows of the draft from those of the program.

        A row that became a null direction has no multiplier in the program: it gets one large
        enough to make the dual slack semidefinite where that is possible.
        """
        out = np.zeros(self.n_rows)
        out[self.kept] = dual
        if self.with_nulls is None:
            return out
        full = self.with_nulls
        rows = np.sort(np.r_[self.kept, self.nulls])
        where = np.searchsorted(rows, self.nulls)
        sums = np.asarray(full.rows_q.sum(axis=1)).ravel()[where]
        price = np.abs(dual).max(initial=1.0)
        for _ in range(20):
            w = full.sign * out[rows]
            w[where] = price * np.sign(sums)
            slacks = full.dual_slacks(w)
            size = max(float(np.abs(s).max()) for s in slacks)
            if min(float(np.linalg.eigvalsh(s)[0]) for s in slacks) >= -1e-10 * size:
                break
            price *= 4
        out[self.nulls] = full.sign * price * np.sign(sums)
        return out

    def ray_multipliers(self, ray: Array) -> Array:
        """The same for multipliers that prove the program infeasible, whatever the objective."""
        full = self.with_nulls
        plain = None if full is None else without_objective(full)
        return replace(self, with_nulls=plain).multipliers(ray)


def compile_draft(draft: Draft) -> Compiled:
    """Squared lengths for the draft's matrices; empty rows and null rows leave the program."""
    readers = [_reader(part) for part in draft.parts]
    spans = [len(reader.vectors) for reader, _ in readers]
    pieces = [
        _scattered(reader.rows(), rows, draft.rhs.size, p)
        for (reader, rows), p in zip(readers, spans, strict=True)
    ]
    rows_q = sp.csr_array(sp.hstack([sp.csr_array((draft.rhs.size, 0)), *pieces], format="csr"))
    empty = (np.diff(rows_q.indptr) == 0) & (np.diff(draft.rows_x.indptr) == 0)
    met = np.where(draft.relations == 0, draft.rhs == 0, -draft.relations * draft.rhs >= 0)
    null = _null_rows(rows_q, draft) & ~empty
    for part, (_, rows) in zip(draft.parts, readers, strict=True):
        null[rows] &= not part.cone.log_det  # a log det needs the whole space
    nulls = np.flatnonzero(null)
    kept = np.flatnonzero(~(empty & met) & ~null)
    blocks = [
        _block(reader, k, set(np.flatnonzero(null[rows]).tolist()), draft)
        for k, (reader, rows) in enumerate(readers)
    ]

    def program(rows: Indices, of: list[Block]) -> Program:
        return Program.of(
            of or [_idle(draft.sense)],
            draft.rhs[rows],
            sense=draft.sense,
            rows_q=rows_q[rows],
            rows_x=draft.rows_x[rows],
            relations=draft.relations[rows],
            cost_x=draft.cost_x,
            free_x=draft.free_x,
            quadratic_x=draft.quadratic_x,
            cones=[SecondOrderCone.of(members) for members in draft.cones],
            offset=draft.offset,
            name=draft.name,
        )

    full = None
    if nulls.size:
        plain = [replace(block, null=np.zeros((block.size, 0))) for block in blocks]
        full = program(np.sort(np.r_[kept, nulls]), plain)
    return Compiled(program(kept, blocks), kept, draft.rhs.size, nulls, full)


def _idle(sense: Sense) -> Block:
    """A 1 × 1 unknown that a linear program does not use; its optimum is zero."""
    cost = Cost.of(1, identity=1.0 if sense == "min" else -1.0)
    return Block.of(1, sp.csr_array((0, 1)), name="idle", cost=cost)


def _reader(part: DraftBlock) -> tuple[BlockReader, Indices]:
    """The reader of one unknown's entry matrices, and the rows of the draft that it holds."""
    n = part.cone.size
    held = np.flatnonzero(np.diff(part.coefficients.indptr))
    table = sp.vstack([sp.csr_array(part.cost[None, :]), part.coefficients[held]])
    entries = sp.coo_array(sp.csr_array(table) @ part.cone.entries)
    i, j = np.divmod(entries.col, n)
    columns: list[Any] = [entries.row, np.ones(i.size), i + 1, j + 1, entries.data]
    content = SdpaContent(
        np.zeros(held.size), [n], np.stack(columns, axis=1).astype(float), "max", 0.0
    )
    return BlockReader(0, content), held


def _scattered(rows: sp.csr_array, where: Indices, m: int, p: int) -> sp.csr_array:
    """Rows of a matrix placed among m."""
    local = sp.coo_array(rows)
    return sp.csr_array((local.data, (where[local.row], local.col)), shape=(m, p))


def _null_rows(rows_q: sp.csr_array, draft: Draft) -> Bools:
    """Equations Σ a_p q_p = 0 with all a_p of one sign and no auxiliary variable."""
    counts = np.diff(rows_q.indptr)
    positive = np.asarray((rows_q > 0).sum(axis=1)).ravel()
    one_sign = (positive == counts) | (positive == 0)
    alone = np.diff(draft.rows_x.indptr) == 0
    return np.asarray(one_sign & alone & (draft.rhs == 0) & (draft.relations == 0))


def _block(reader: BlockReader, index: int, null_rows: set[int], draft: Draft) -> Block:
    cone = draft.parts[index].cone
    if not reader.vectors:
        cost = Cost.of(cone.size, sparse=reader.cost)
        block = Block.of(cone.size, sp.csr_array((0, cone.size)), cost=cost)
    else:
        block = without_unseen(reader.block(null_rows, 1.0), reader.rows())
    return replace(block, name=f"Y{index + 1}", log_det=cone.log_det)


def clean(matrix: Any) -> sp.csr_array:
    """The matrix by rows, without duplicates and stored zeros."""
    out = sp.csr_array(matrix)
    out.sum_duplicates()
    out.eliminate_zeros()
    return out


def _log_det(matrix: Array) -> float:
    values = np.linalg.eigvalsh(matrix)
    return float(np.log(values).sum()) if values[0] > 0 else -np.inf
