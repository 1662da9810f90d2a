"""The measurements of each unknown and the columns of the variables, collected term by term.

`tables_of` makes one `MeasurementTable` per unknown, `columns_of` the `VariableColumns` of all
auxiliary variables, and `record` adds the coefficients of a constraint to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.program.atoms import Absolute, Atom, Auxiliary, Entries, Inner, Lengths, Penalty
from sdpkit.program.block import Block, differences
from sdpkit.program.cost import Cost
from sdpkit.program.expressions import Constraint, Expression, Unknown
from sdpkit.typing import Array, Bools, Indices

# A matrix with more nonzeros above the diagonal than this many per row is measured by its
# eigenvectors in constraints, as long as those are fewer than the entries.
_DENSE = 4


@dataclass(eq=False)
class Coo:
    """Entries (row, column, value) of a sparse matrix in the making."""

    rows: list[Indices] = field(default_factory=list)
    columns: list[Indices] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)

    def add(self, rows: Any, columns: Any, values: Any) -> None:
        """Further entries; those at one place add up."""
        self.rows.append(np.asarray(rows, dtype=np.int64))
        self.columns.append(np.asarray(columns, dtype=np.int64))
        self.values.append(np.asarray(values, dtype=np.float64))

    def csr(self, shape: tuple[int, int]) -> sp.csr_array:
        """The matrix of all entries."""
        if not self.rows:
            return sp.csr_array(shape)
        places = (np.concatenate(self.rows), np.concatenate(self.columns))
        return sp.csr_array((np.concatenate(self.values), places), shape=shape)


@dataclass(eq=False)
class VariableColumns:
    """The auxiliary variables, one after the other, and their part of the rows."""

    variables: dict[int, Auxiliary] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    entries: Coo = field(default_factory=Coo)

    def meet(self, atom: Auxiliary) -> None:
        """Give a variable its columns, once."""
        if id(atom) not in self.variables:
            self.starts[id(atom)] = self.size
            self.variables[id(atom)] = atom

    @property
    def size(self) -> int:
        """The number of columns."""
        return sum(variable.size for variable in self.variables.values())

    @property
    def free(self) -> Bools:
        """(n_x,) whether each column is free."""
        kinds = [np.full(v.size, v.free) for v in self.variables.values()]
        return np.concatenate([np.zeros(0, dtype=bool), *kinds])

    def rows(self, m: int) -> sp.csr_array:
        """(m, n_x) the coefficients."""
        return self.entries.csr((m, self.size))


def columns_of(atoms: Iterable[Atom]) -> VariableColumns:
    """The columns of the variables among these atoms, in their order."""
    columns = VariableColumns()
    for atom in atoms:
        if isinstance(atom, Auxiliary):
            columns.meet(atom)
    return columns


@dataclass(eq=False)
class MeasurementTable:
    """The measurements of one unknown.

    Attributes
    ----------
    vectors: what `lengths` and `distances` measure, each once, and where its rows start
    by_lengths: their coefficients in the rows
    diagonal, above: coefficients of M_ii and of M_ij, i < j, as columns i and i·n + j
    factors: further vectors (n, k) and by_factors, their coefficients
    """

    unknown: Unknown
    vectors: list[sp.csr_array] = field(default_factory=list)
    by_lengths: Coo = field(default_factory=Coo)
    diagonal: Coo = field(default_factory=Coo)
    above: Coo = field(default_factory=Coo)
    factors: list[Array] = field(default_factory=list)
    by_factors: Coo = field(default_factory=Coo)
    by_eigenvectors: bool = True
    further: sp.csr_array | None = None

    def place(self, vectors: sp.csr_array) -> int:
        """Where the rows of these vectors start; vectors that are known already stay there."""
        start = 0
        for known in self.vectors:
            if known is vectors or _same(known, vectors):
                return start
            start += known.shape[0]
        self.vectors.append(vectors)
        return start

    def add_entries(self, rows: Any, i: Any, j: Any, values: Any) -> None:
        """values · M_ij."""
        low, high = np.minimum(i, j).astype(np.int64), np.maximum(i, j)
        on = low == high
        self.diagonal.add(rows[on], low[on], values[on])
        self.above.add(rows[~on], (low * self.unknown.size + high)[~on], values[~on])

    def add_inner(self, cost: Cost, rows: Indices, values: Array) -> None:
        """values · <C, M>."""
        n = self.unknown.size
        if cost.identity:
            every = np.arange(n)
            self.add_entries(*_outer(rows, values, every, every, np.full(n, cost.identity)))
        factor, weights, sparse = cost.factor, cost.weights, cost.sparse
        if self.by_eigenvectors and _is_dense(cost):
            s, u = scipy.linalg.eigh(sparse.toarray())
            kept = np.abs(s) > n * np.finfo(float).eps * np.abs(s).max()
            factor, weights = np.hstack([factor, u[:, kept]]), np.r_[weights, s[kept]]
        elif sparse.nnz:
            part = sp.triu(sparse, format="coo")
            doubled = np.where(part.row == part.col, part.data, 2 * part.data)
            self.add_entries(*_outer(rows, values, part.row, part.col, doubled))
        if factor.shape[1]:
            start = sum(f.shape[1] for f in self.factors)
            self.factors.append(factor)
            columns = start + np.arange(factor.shape[1])
            self.by_factors.add(
                np.repeat(rows, columns.size),
                np.tile(columns, rows.size),
                np.outer(values, weights).ravel(),
            )

    def measured(self, m: int) -> sp.csr_array:
        """(m, p) the coefficients of all measurements; entries are turned into lengths."""
        p = sum(v.shape[0] for v in self.vectors)
        parts = [self.by_lengths.csr((m, p))]
        k = sum(f.shape[1] for f in self.factors)
        further: list[Any] = []
        if k:
            parts.append(self.by_factors.csr((m, k)))
            further.append(sp.csr_array(np.hstack(self.factors).T))
        if self.diagonal.rows or self.above.rows:
            coefficients, vectors = self._entries_measured(m)
            parts.append(coefficients)
            further.append(vectors)
        self.further = sp.vstack(further, format="csr") if further else None
        return sp.hstack(parts, format="csr") if len(parts) > 1 else parts[0]

    def _entries_measured(self, m: int) -> tuple[sp.csr_array, sp.csr_array]:
        """Coefficients of ‖e_i‖² and ‖e_i − e_j‖² with 2M_ij = M_ii + M_jj − ‖e_i − e_j‖²."""
        n = self.unknown.size
        keys, where = np.unique(
            np.concatenate([np.empty(0, np.int64), *self.above.columns]), return_inverse=True
        )
        i, j = keys // n, keys % n
        off = Coo()
        if self.above.rows:
            off.add(np.concatenate(self.above.rows), where, np.concatenate(self.above.values))
        above = off.csr((m, keys.size))
        each = np.arange(keys.size)
        ends = sp.csr_array(
            (np.full(2 * keys.size, 0.5), (np.r_[each, each], np.r_[i, j])), shape=(keys.size, n)
        )
        diagonal = self.diagonal.csr((m, n))
        on = sp.csr_array(diagonal + above @ ends)
        # What cancels up to rounding is left out.
        size = sp.csr_array(abs(diagonal) + abs(above) @ ends)
        on.data[np.abs(on.data) <= 4 * np.finfo(float).eps * _at(size, on)] = 0.0
        on.eliminate_zeros()
        used = np.unique(on.indices)
        units = sp.eye_array(n, format="csr")[used]
        vectors = sp.vstack([units, differences(i, j, n)], format="csr")
        return sp.hstack([on[:, used], -0.5 * above], format="csr"), vectors

    def block(self, cost: Cost | None, log_det: float) -> Block:
        """The block, measured by all vectors."""
        nodes, features, further = self.unknown.n_nodes, self.unknown.features, self.further
        vectors: Any = sp.csr_array((0, nodes))
        if self.vectors:
            vectors = self.vectors[0] if len(self.vectors) == 1 else sp.vstack(self.vectors)
        if further is not None and features is None:
            vectors = sp.vstack([vectors, further])
        elif further is not None and features is not None:
            # Vectors that do not combine nodes become nodes.
            vectors = sp.block_diag([vectors, sp.eye_array(further.shape[0])])
            features = np.vstack([features, further.toarray()])
        return Block.of(
            self.unknown.size,
            vectors,
            name=self.unknown.name,
            features=features,
            cost=cost,
            null=self.unknown.null,
            max_rank=self.unknown.max_rank,
            log_det=log_det,
        )


def tables_of(
    goal: Expression, rows: list[Constraint], first: Sequence[Unknown] = ()
) -> dict[int, MeasurementTable]:
    """One table per unknown, those of `first` before the others, in the order in which they
    appear."""
    tables = {id(unknown): MeasurementTable(unknown) for unknown in first}
    dense: dict[int, set[int]] = {}
    for atom, _ in [*goal.terms, *(term for row in rows for term in row.expression.terms)]:
        if not isinstance(atom, Auxiliary | Penalty | Absolute):
            tables.setdefault(id(atom.unknown), MeasurementTable(atom.unknown))
    for row in rows:
        for atom, _ in row.expression.terms:
            if isinstance(atom, Inner) and _is_dense(atom.cost):
                dense.setdefault(id(atom.unknown), set()).add(id(atom.cost))
    for key, found in dense.items():
        tables[key].by_eigenvectors = 2 * len(found) <= tables[key].unknown.size
    return tables


def record(
    atom: Atom, a: Any, start: int, tables: dict[int, MeasurementTable], columns: VariableColumns
) -> None:
    """Add coefficients a · atom to the rows from `start` on."""
    rows = a.row.astype(np.int64) + start
    if isinstance(atom, Auxiliary):
        columns.entries.add(rows, a.col + columns.starts[id(atom)], a.data)
    elif isinstance(atom, Lengths):
        table = tables[id(atom.unknown)]
        table.by_lengths.add(rows, a.col + table.place(atom.vectors), a.data)
    elif isinstance(atom, Entries):
        tables[id(atom.unknown)].add_entries(rows, atom.i[a.col], atom.j[a.col], a.data)
    elif isinstance(atom, Inner):
        tables[id(atom.unknown)].add_inner(atom.cost, rows, a.data)


def _outer(rows: Indices, values: Array, i: Any, j: Any, weights: Array) -> tuple[Any, ...]:
    """values_r · weights_k · M_{i_k j_k} for every r and k, as entries."""
    count = weights.size
    return (
        np.repeat(rows, count),
        np.tile(i, rows.size),
        np.tile(j, rows.size),
        np.outer(values, weights).ravel(),
    )


def _is_dense(cost: Cost) -> bool:
    return bool(cost.sparse.nnz > (2 * _DENSE + 1) * cost.size)


def _same(a: sp.csr_array, b: sp.csr_array) -> bool:
    return (
        a.shape == b.shape
        and a.nnz == b.nnz
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.data, b.data)
    )


def _at(values: sp.csr_array, pattern: sp.csr_array) -> Array:
    """The entries of one matrix at the places of another's."""
    coo = pattern.tocoo()
    return np.asarray(values[coo.row, coo.col]).ravel()
