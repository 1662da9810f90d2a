"""Conic data as modelling layers hand them over, read as a program in squared lengths.

    minimise cᵀx + d   subject to  b − Ax = s ∈ K          K = zero × nonnegative × Lorentz × PSD
    maximise −bᵀy + d  subject to  Aᵀy + c = 0,  y ∈ K*

Either line can be the program. The *slack reading* takes the first: the unknowns M are the
semidefinite slacks; where a cone's slack is nothing but entries of x (a PSD variable, a bound),
those entries are eliminated and their rows vanish. The *dual reading* takes the second: one row
per entry of x, the unknowns are the semidefinite multipliers. The reading with fewer rows is
built: max-cut over a PSD variable has n rows, a linear matrix inequality in k variables has k.

A Lorentz cone of dimension k is {(tr M, 2M₀₁, …, 2M₀ₖ₋₁) : M ⪰ 0}, the adjoint image of the arrow
matrices, so that it costs a k × k block and no row in either reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program, Sense
from sdpkit.program.gram import Matrix
from sdpkit.program.sdpa import BlockReader, Entries

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal["soc", "psd"]


@dataclass(frozen=True, eq=False)
class Cone:
    """A Lorentz or semidefinite cone: which rows of A it owns.

    A semidefinite cone of size n owns n² rows, its matrix column by column.
    """

    kind: Kind
    size: int
    rows: Ints

    @cached_property
    def entries(self) -> sp.csr_array:
        """(rows, n²): what a coefficient of each row adds to the upper triangle of F in <F, M>."""
        n = self.size
        if self.kind == "psd":
            j, i = np.divmod(np.arange(n * n), n)
            upper = np.minimum(i, j) * n + np.maximum(i, j)
            values = np.where(i == j, 1.0, 0.5)
            return sp.csr_array((values, (np.arange(n * n), upper)), shape=(n * n, n * n))
        rows = np.r_[np.zeros(n, dtype=np.int64), np.arange(1, n)]
        places = np.r_[np.arange(n) * (n + 1), np.arange(1, n)]
        return sp.csr_array((np.ones(2 * n - 1), (rows, places)), shape=(n, n * n))

    def vector(self, matrix: Matrix) -> Array:
        """The cone's entries, one per row, from its matrix."""
        dense = np.asarray(matrix)
        if self.kind == "psd":
            return np.asarray((dense + dense.T).ravel() / 2)
        return np.r_[np.trace(dense), dense[0, 1:] + dense[1:, 0]]

    def matrix(self, vector: Array) -> Array:
        """A matrix with these entries, positive semidefinite iff the entries lie in the cone."""
        n = self.size
        if self.kind == "psd":
            square = vector.reshape(n, n)
            return np.asarray((square + square.T) / 2)
        head, tail = float(vector[0]), vector[1:]
        out = np.zeros((n, n))
        if n == 1:
            out[0, 0] = head
            return out
        length = float(np.linalg.norm(tail))
        unit = tail / length if length > 0 else np.eye(n - 1)[0]
        out[0, 0], out[0, 1:], out[1:, 0] = head / 2, tail / 2, tail / 2
        out[1:, 1:] = head / 2 * np.outer(unit, unit)
        return out


@dataclass(frozen=True, eq=False)
class ConicData:
    """min cᵀx + d, b − Ax ∈ K. The first `n_zero` rows are equations, then `n_nonneg`
    inequalities; the cones own the rest. `sense` is the model's own, before it was minimised.
    """

    cost: Array
    matrix: sp.csr_array
    rhs: Array
    n_zero: int
    n_nonneg: int
    cones: tuple[Cone, ...]
    offset: float = 0.0
    sense: Sense = "min"
    name: str = "model"

    @property
    def sign(self) -> float:
        """+1 if the model minimises, −1 if it was negated to do so."""
        return 1.0 if self.sense == "min" else -1.0

    @property
    def nonneg(self) -> Ints:
        """The rows of the inequalities."""
        return np.arange(self.n_zero, self.n_zero + self.n_nonneg)


@dataclass(frozen=True, eq=False)
class _Part:
    """One semidefinite unknown before it is measured: coefficients (m, rows) and costs (rows,)."""

    cone: Cone
    coefficients: sp.csr_array
    cost: Array


@dataclass(frozen=True, eq=False)
class _Draft:
    """A program over cones, before its matrices become squared lengths."""

    parts: Sequence[_Part]
    rows_x: sp.csr_array
    cost_x: Array
    free_x: NDArray[np.bool_]
    rhs: Array
    relations: NDArray[np.int8]
    sense: Sense
    offset: float
    name: str


@dataclass(frozen=True, eq=False)
class Compiled:
    """A program and which rows of its draft it kept; `nulls` became null directions."""

    program: Program
    kept: Ints
    n_rows: int
    nulls: Ints
    with_nulls: Program | None

    def multipliers(self, dual: Array) -> Array:
        """Multipliers of all rows of the draft from those of the program.

        A row that became a null direction has no price of its own: it gets one large enough to
        make the dual slack semidefinite where that is possible.
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


def _compile(draft: _Draft) -> Compiled:
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
    nulls = np.flatnonzero(null)
    kept = np.flatnonzero(~(empty & met) & ~null)
    blocks = [
        _block(reader, k, set(np.flatnonzero(null[rows]).tolist()), draft)
        for k, (reader, rows) in enumerate(readers)
    ]

    def program(rows: Ints, of: list[Block]) -> Program:
        return Program.of(
            of or [_idle(draft.sense)],
            draft.rhs[rows],
            sense=draft.sense,
            rows_q=rows_q[rows],
            rows_x=draft.rows_x[rows],
            relations=draft.relations[rows],
            cost_x=draft.cost_x,
            free_x=draft.free_x,
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


def _reader(part: _Part) -> tuple[BlockReader, Ints]:
    """The reader of one unknown's entry matrices, and the rows of the draft that it holds."""
    n = part.cone.size
    held = np.flatnonzero(np.diff(part.coefficients.indptr))
    table = sp.vstack([sp.csr_array(part.cost[None, :]), part.coefficients[held]])
    entries = sp.coo_array(sp.csr_array(table) @ part.cone.entries)
    i, j = np.divmod(entries.col, n)
    columns = [entries.row, np.ones(i.size), i + 1, j + 1, entries.data]
    content = Entries(np.zeros(held.size), [n], np.stack(columns, axis=1).astype(float), "max", 0.0)
    return BlockReader(0, content), held


def _scattered(rows: sp.csr_array, where: Ints, m: int, p: int) -> sp.csr_array:
    """Rows of a matrix placed among m."""
    local = sp.coo_array(rows)
    return sp.csr_array((local.data, (where[local.row], local.col)), shape=(m, p))


def _null_rows(rows_q: sp.csr_array, draft: _Draft) -> NDArray[np.bool_]:
    """Equations Σ a_p q_p = 0 with all a_p of one sign and no auxiliary variable."""
    counts = np.diff(rows_q.indptr)
    positive = np.asarray((rows_q > 0).sum(axis=1)).ravel()
    one_sign = (positive == counts) | (positive == 0)
    alone = np.diff(draft.rows_x.indptr) == 0
    return np.asarray(one_sign & alone & (draft.rhs == 0) & (draft.relations == 0))


def _block(reader: BlockReader, index: int, null_rows: set[int], draft: _Draft) -> Block:
    cone = draft.parts[index].cone
    if not reader.vectors:
        cost = Cost.of(cone.size, sparse=reader.cost)
        return Block.of(cone.size, sp.csr_array((0, cone.size)), name=f"Y{index + 1}", cost=cost)
    return replace(reader.block(null_rows, 1.0), name=f"Y{index + 1}")


# -- the two readings -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DualReading:
    """Unknowns are the multipliers y; row j of the program is entry j of x."""

    data: ConicData

    @property
    def n_rows(self) -> int:
        """One per entry of x."""
        return self.data.cost.size

    @cached_property
    def compiled(self) -> Compiled:
        """The program."""
        d = self.data
        across = sp.csc_array(d.matrix.T)
        linear = d.n_zero + d.n_nonneg
        return _compile(
            _Draft(
                parts=[
                    _Part(cone, sp.csr_array(across[:, cone.rows]), -d.sign * d.rhs[cone.rows])
                    for cone in d.cones
                ],
                rows_x=_clean(across[:, :linear]),
                cost_x=-d.sign * d.rhs[:linear],
                free_x=np.arange(linear) < d.n_zero,
                rhs=-d.cost,
                relations=np.zeros(d.cost.size, dtype=np.int8),
                sense="max" if d.sense == "min" else "min",
                offset=d.sign * d.offset,
                name=d.name,
            )
        )

    def read(self, matrices: Sequence[Matrix], aux: Array, dual: Array) -> tuple[Array, Array]:
        """(x, y) of the conic data from a point of the program."""
        d = self.data
        y = np.zeros(d.rhs.size)
        y[: d.n_zero + d.n_nonneg] = aux
        for cone, matrix in zip(d.cones, matrices, strict=False):
            y[cone.rows] = cone.vector(matrix)
        return -self.compiled.program.sign * self.compiled.multipliers(dual), y

    def point(self, x: Array, y: Array) -> tuple[list[Array], Array, Array]:
        """(matrices, auxiliary variables, multipliers) of the program from (x, y)."""
        d, compiled = self.data, self.compiled
        matrices = [cone.matrix(y[cone.rows]) for cone in d.cones] or [np.zeros((1, 1))]
        dual = -compiled.program.sign * x[compiled.kept]
        return matrices, y[: d.n_zero + d.n_nonneg], dual


@dataclass(frozen=True, eq=False)
class _Eliminated:
    """Entries of x that are slacks: x[columns] = (b[rows] − s)/a; `place` counts cones, −1 for
    inequalities; `twice` marks entries off a matrix's diagonal, which two rows of A hold."""

    rows: Ints
    columns: Ints
    a: Array
    place: Ints
    within: Ints
    twice: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SlackReading:
    """Unknowns are the slacks s and what is left of x; rows are those of A that remain."""

    data: ConicData

    @cached_property
    def eliminated(self) -> _Eliminated:
        """Which entries of x are nothing but slacks."""
        d = self.data
        single = np.diff(d.matrix.indptr) == 1
        taken = np.zeros(d.cost.size, dtype=bool)
        found: list[tuple[Ints, int, Ints, NDArray[np.bool_]]] = []
        for k, cone in enumerate(d.cones):
            within = self._slack_entries(cone, single, taken)
            if within is not None:
                rows = cone.rows[within]
                taken[self._column(rows)] = True
                off = within // cone.size != within % cone.size
                found.append((rows, k, within, off & (cone.kind == "psd")))
        rows = d.nonneg[single[d.nonneg]]
        rows = rows[~taken[self._column(rows)]]
        rows = rows[np.unique(self._column(rows), return_index=True)[1]]
        found.append((rows, -1, rows - d.n_zero, np.zeros(rows.size, dtype=bool)))
        every = np.concatenate([rows for rows, *_ in found])
        return _Eliminated(
            rows=every,
            columns=self._column(every),
            a=d.matrix.data[d.matrix.indptr[every]],
            place=np.concatenate([np.full(rows.size, k) for rows, k, *_ in found]),
            within=np.concatenate([within for _, _, within, _ in found]),
            twice=np.concatenate([twice for *_, twice in found]),
        )

    def _column(self, rows: Ints) -> Ints:
        """The column of each row's first entry."""
        return np.asarray(self.data.matrix.indices[self.data.matrix.indptr[rows]], dtype=np.int64)

    def _slack_entries(
        self, cone: Cone, single: NDArray[np.bool_], taken: NDArray[np.bool_]
    ) -> Ints | None:
        """The cone's entries if each is an entry of x that no other cone took, else None."""
        d, n = self.data, cone.size
        if not single[cone.rows].all():
            return None
        columns = self._column(cone.rows)
        within = np.arange(cone.rows.size)
        if cone.kind == "psd":
            triples = [columns, d.matrix.data[d.matrix.indptr[cone.rows]], d.rhs[cone.rows]]
            squares = [part.reshape(n, n) for part in triples]
            if not all(np.array_equal(square, square.T) for square in squares):
                return None
            within = within[within // n <= within % n]
        used = columns[within]
        if taken[used].any() or np.unique(used).size < used.size:
            return None
        return within

    @cached_property
    def _rows(self) -> sp.csr_array:
        """(m, rows of A): the rows that remain; both halves of a matrix make one row."""
        d = self.data
        gone = np.zeros(d.rhs.size, dtype=bool)
        out = set(self.eliminated.place.tolist())
        gone[self.eliminated.rows[self.eliminated.place == -1]] = True
        row, column, value, m = [], [], [], 0
        linear = np.flatnonzero(~gone[: d.n_zero + d.n_nonneg])
        row, column, value = [np.arange(linear.size)], [linear], [np.ones(linear.size)]
        m = linear.size
        for k, cone in enumerate(d.cones):
            if k in out:
                continue
            upper = np.arange(cone.rows.size)
            if cone.kind == "psd":
                j, i = np.divmod(upper, cone.size)
                codes = np.minimum(i, j) * cone.size + np.maximum(i, j)
                upper = np.unique(codes, return_inverse=True)[1]
                value.append(np.where(i == j, 1.0, 0.5))
            else:
                value.append(np.ones(upper.size))
            row.append(m + upper)
            column.append(cone.rows)
            m += int(upper.max()) + 1
        places = (np.concatenate(row), np.concatenate(column))
        return sp.csr_array((np.concatenate(value), places), shape=(m, d.rhs.size))

    @property
    def n_rows(self) -> int:
        """What is left of A."""
        return int(self._rows.shape[0])

    @cached_property
    def _free(self) -> Ints:
        free = np.ones(self.data.cost.size, dtype=bool)
        free[self.eliminated.columns] = False
        return np.flatnonzero(free)

    @cached_property
    def compiled(self) -> Compiled:
        """The program."""
        d, gone = self.data, self.eliminated
        rows = sp.csc_array(self._rows @ d.matrix)
        shift = d.rhs[gone.rows] / gone.a
        slack_rows = sp.csc_array(rows[:, gone.columns] @ sp.diags_array(-1 / gone.a))
        slack_cost = -d.cost[gone.columns] / gone.a
        bounds = gone.place == -1
        remaining = sp.csc_array(self._rows)
        parts = []
        for k, cone in enumerate(d.cones):
            mine = np.flatnonzero(gone.place == k)
            if mine.size:
                place = sp.csr_array(
                    (np.ones(mine.size), (np.arange(mine.size), gone.within[mine])),
                    shape=(mine.size, cone.rows.size),
                )
                coefficients = _clean(slack_rows[:, mine] @ place)
                parts.append(_Part(cone, coefficients, d.sign * slack_cost[mine] @ place))
            else:
                coefficients = sp.csr_array(remaining[:, cone.rows])
                parts.append(_Part(cone, coefficients, np.zeros(cone.rows.size)))
        linear = sp.csr_array(remaining[:, d.nonneg])
        rows_x = sp.hstack([rows[:, self._free], slack_rows[:, bounds]], format="csr")
        cost_x = np.r_[d.cost[self._free], slack_cost[bounds]]
        return _compile(
            _Draft(
                parts=parts,
                rows_x=_clean(rows_x),
                cost_x=d.sign * cost_x,
                free_x=np.arange(cost_x.size) < self._free.size,
                rhs=self._rows @ d.rhs - rows[:, gone.columns] @ shift,
                relations=np.where(np.diff(linear.indptr) > 0, -1, 0).astype(np.int8),
                sense=d.sense,
                offset=d.sign * (d.offset + float(d.cost[gone.columns] @ shift)),
                name=d.name,
            )
        )

    def read(self, matrices: Sequence[Matrix], aux: Array, dual: Array) -> tuple[Array, Array]:
        """(x, y) of the conic data from a point of the program."""
        d, gone = self.data, self.eliminated
        slack = np.zeros(gone.rows.size)
        for k, (cone, matrix) in enumerate(zip(d.cones, matrices, strict=False)):
            mine = gone.place == k
            slack[mine] = cone.vector(matrix)[gone.within[mine]]
        slack[gone.place == -1] = aux[self._free.size :]
        x = np.zeros(d.cost.size)
        x[self._free] = aux[: self._free.size]
        x[gone.columns] = (d.rhs[gone.rows] - slack) / gone.a
        w = -d.sign * self.compiled.multipliers(dual)
        return x, self._with_eliminated(np.asarray(self._rows.T @ w))

    def _with_eliminated(self, y: Array) -> Array:
        """y completed by the multipliers of eliminated cones, which Aᵀy + c = 0 determines."""
        d, gone = self.data, self.eliminated
        y = np.where(np.isin(np.arange(y.size), self._rows.indices), y, 0.0)
        rest = -(d.cost + d.matrix.T @ y)[gone.columns] / gone.a
        y[gone.rows] = np.where(gone.twice, rest / 2, rest)
        for k, cone in enumerate(d.cones):
            mine = gone.twice & (gone.place == k)
            i, j = np.divmod(gone.within[mine], cone.size)
            y[cone.rows[j * cone.size + i]] = y[gone.rows[mine]]
        return y

    def completed(self, y: Array) -> Array:
        """y with the NaN entries of eliminated cones filled in, if all others are known."""
        used = np.unique(self._rows.indices)
        if np.isnan(y[used]).any():
            return y
        return np.where(np.isnan(y), self._with_eliminated(np.nan_to_num(y)), y)

    def point(self, x: Array, y: Array) -> tuple[list[Array], Array, Array]:
        """(matrices, auxiliary variables, multipliers) of the program from (x, y)."""
        d, gone, compiled = self.data, self.eliminated, self.compiled
        slack = d.rhs - d.matrix @ x
        matrices = [cone.matrix(slack[cone.rows]) for cone in d.cones] or [np.zeros((1, 1))]
        aux = np.r_[x[self._free], slack[gone.rows[gone.place == -1]]]
        # Half of a symmetric pair stands for both: w = 2y, and w = y elsewhere.
        once = sp.csr_array(self._rows)
        w = np.asarray(once @ y / np.asarray(once.multiply(once).sum(axis=1)).ravel())
        return matrices, aux, -d.sign * w[compiled.kept]


def _clean(matrix: sp.sparray) -> sp.csr_array:
    out = sp.csr_array(matrix)
    out.sum_duplicates()
    out.eliminate_zeros()
    return out


Reading = DualReading | SlackReading


def smaller_reading(data: ConicData) -> Reading:
    """The reading with fewer rows; the slack reading where they are equal."""
    slack, dual = SlackReading(data), DualReading(data)
    return slack if slack.n_rows <= dual.n_rows else dual
