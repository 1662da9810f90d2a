"""From sentences to the common form: `maximise` and `minimise`.

Rows stand in the order in which the constraints were written, after the residuals of penalised
expressions, if there are any. Unknowns become blocks and variables become columns in the order in
which they first appear, the objective first. Equal measurements of one unknown are written once.

<C, M> and M_ij are costs in the objective. In a constraint they become squared lengths of unit
vectors e_i and differences e_i − e_j,  2M_ij = M_ii + M_jj − ‖e_i − e_j‖²: a matrix whose rows add
up to zero, such as a Laplacian, then needs differences only, and a centred unknown stays that of
a graph. The low-rank part of a C is measured by its vectors, and so is a dense C (by its
eigenvectors) unless so many are dense that all entries together are fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.program.block import Block, differences
from sdpkit.program.cost import Cost
from sdpkit.program.expressions import (
    Atom,
    Auxiliary,
    Constraint,
    Entries,
    Expression,
    Inner,
    Lengths,
    LogDet,
    Penalty,
    Unknown,
    Variable,
    as_expression,
)
from sdpkit.program.form import Program, Sense
from sdpkit.program.printing import Sentences, written
from sdpkit.program.safe import NormPenalty, SafeBounds
from sdpkit.typing import Array, Bools, Indices

if TYPE_CHECKING:
    from sdpkit.program.families import RowFamily


# A matrix with more nonzeros above the diagonal than this many per row is measured by its
# eigenvectors in constraints, as long as those are fewer than the entries.
_DENSE = 4


def maximise(
    objective: Any,
    *constraints: Any,
    name: str = "program",
    safe: SafeBounds | None = None,
    direction: Sequence[ArrayLike] | None = None,
    anchor: Sequence[ArrayLike] | None = None,
    notes: Sequence[str] = (),
    family: RowFamily | None = None,
) -> Program:
    """The program that maximises an expression of size 1 under constraints.

    Parameters
    ----------
    objective: affine, plus multiples of `M.log_det()`, minus those of `e.sum_squares()`, `e.norm()`
    constraints: comparisons of expressions, or lists of them
    safe: what is known that makes bounds safe; its vectors have an entry per row as written
    direction, anchor: the vectors of `safe`, with a number or a vector per constraint
    family: rows that are searched instead of written down
    name, notes: for printing

    >>> from sdpkit import Unknown, solve
    >>> M = Unknown("M", 3)
    >>> i, j = np.array([0, 1]), np.array([1, 2])
    >>> theta = maximise(M.lengths(np.ones(3)), M.trace() == 1, M[i, j] == 0)   # Lovász's θ
    >>> print(theta)
    program
      maximise    vᵀ M v
      subject to  tr M = 1  (1 row)
                  M_ij = 0  (2 rows)
                  M ∈ S³, M ⪰ 0
    >>> round(solve(theta).objective, 5)          # nodes 0 and 2 of a path are independent
    2.0
    """
    said = (direction, anchor, notes, family)
    return _compiled("max", objective, constraints, name, safe, *said)


def minimise(
    objective: Any,
    *constraints: Any,
    name: str = "program",
    safe: SafeBounds | None = None,
    direction: Sequence[ArrayLike] | None = None,
    anchor: Sequence[ArrayLike] | None = None,
    notes: Sequence[str] = (),
    family: RowFamily | None = None,
) -> Program:
    """The program that minimises an expression of size 1 under constraints; as `maximise`, with
    the signs of log det and penalties exchanged.

    >>> from sdpkit import Unknown, solve
    >>> M = Unknown("M", 2)
    >>> program = minimise(M.trace() - M.log_det())              # M = I
    >>> print(program)
    program
      minimise    tr M − log det M
      subject to  M ∈ S², M ⪰ 0
    """
    said = (direction, anchor, notes, family)
    return _compiled("min", objective, constraints, name, safe, *said)


def _compiled(
    sense: Sense,
    objective: Any,
    constraints: Iterable[Any],
    name: str,
    safe: SafeBounds | None,
    direction: Sequence[ArrayLike] | None,
    anchor: Sequence[ArrayLike] | None,
    notes: Sequence[str],
    family: RowFamily | None,
) -> Program:
    goal = as_expression(objective)
    if goal.size != 1:
        raise InputError(
            f"the objective {written(goal.words)} has {goal.size} entries, and one number is "
            "optimised: add them up with .sum()"
        )
    said = list(_flat(constraints))
    penalties = _penalties(sense, goal)
    hidden = [penalty.residual for penalty in penalties if penalty.residual is not None]
    rows = [*hidden, *said]
    linear = [(atom, a) for atom, a in goal.terms if not isinstance(atom, LogDet | Penalty)]
    counts = [row.expression.size for row in rows]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    m = int(starts[-1])
    columns = _columns(linear, penalties, rows)
    tables = _tables(goal, rows)
    for start, row in zip(starts[:-1].tolist(), rows, strict=True):
        for atom, a in row.expression.terms:
            _record(atom, a.tocoo(), start, tables, columns)
    gain = _Gain.of(linear, tables, columns)
    q = [table.measured(m) for table in tables.values()]
    p = [part.shape[1] for part in q]
    h, norms = _curvature(penalties, columns)
    blocks = [
        table.block(gain.costs.get(key), _log_det(goal, table.unknown))
        for key, table in tables.items()
    ]
    if not blocks:
        raise InputError("a program needs an Unknown: this one has only variables and numbers")
    constant = np.concatenate([np.zeros(0), *(row.expression.constant for row in rows)])
    relations = np.repeat(np.array([row.relation for row in rows], dtype=np.int8), counts)
    n_hidden = sum(counts[: len(hidden)])
    return Program.of(
        blocks,
        0.0 - constant,
        sense=sense,
        rows_q=sp.hstack(q, format="csr") if len(q) > 1 else q[0],
        rows_x=columns.rows(m),
        relations=relations,
        cost_q=np.concatenate(
            [gain.of_measurements(key, k) for key, k in zip(tables, p, strict=True)]
        ),
        cost_x=gain.of_variables(columns.size),
        free_x=columns.free,
        quadratic_x=h,
        norms=norms,
        offset=float(goal.constant[0]) + 0.0,  # never −0.0
        safe=_safe(safe, direction, anchor, said, n_hidden),
        notes=notes,
        family=family,
        name=name,
        sentences=Sentences(
            written(goal.words),
            tuple(
                ("" if k < len(hidden) else row.text, row.expression.size)
                for k, row in enumerate(rows)
            ),
            tuple((v.name, v.size, v.free) for v in columns.variables.values()),
        ),
    )


def _flat(constraints: Iterable[Any]) -> Iterator[Constraint]:
    for constraint in constraints:
        if isinstance(constraint, Constraint):
            yield constraint
        elif isinstance(constraint, list | tuple | Iterator):
            yield from _flat(constraint)
        else:
            raise InputError(
                f"{constraint!r} is not a constraint: compare expressions by ==, <= or >="
            )


def _safe(
    safe: SafeBounds | None,
    direction: Sequence[ArrayLike] | None,
    anchor: Sequence[ArrayLike] | None,
    said: list[Constraint],
    n_hidden: int,
) -> SafeBounds:
    """The safe bounds with vectors over all rows: zero for the residuals of penalties."""
    safe = safe or SafeBounds()
    sizes = [constraint.expression.size for constraint in said]
    vectors: dict[str, Array | None] = {"direction": safe.direction, "anchor": safe.anchor}
    for name, given in (("direction", direction), ("anchor", anchor)):
        if given is None:
            continue
        if vectors[name] is not None:
            raise InputError(f"{name} is given twice: by safe and per constraint")
        if len(given) != len(said):
            raise InputError(f"{name} has {len(given)} entries for {len(said)} constraints")
        pieces = zip(given, sizes, strict=True)
        parts = [np.broadcast_to(np.asarray(v, dtype=np.float64), (k,)) for v, k in pieces]
        vectors[name] = np.concatenate([np.zeros(0), *parts])
    full = {
        name: vector if vector is None else np.concatenate([np.zeros(n_hidden), vector])
        for name, vector in vectors.items()
    }
    return replace(safe, direction=full["direction"], anchor=full["anchor"])


# -- penalties ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Priced:
    """weight · ‖e‖² or weight · ‖e‖ of auxiliary variables e.

    Attributes
    ----------
    kind: "squares" or "norm";  weight: positive
    variable: the variables and `scales`, (k,) what each is multiplied by
    residual: the constraint that makes the variables equal to an expression, or None
    """

    kind: str
    weight: float
    variable: Auxiliary
    scales: Array
    residual: Constraint | None


def _penalties(sense: Sense, goal: Expression) -> list[_Priced]:
    out: list[_Priced] = []
    taken: set[int] = set()  # variables that have a penalty which no other may join
    for atom, a in goal.terms:
        weight = float(a.sum())
        if isinstance(atom, LogDet) and (weight < 0) == (sense == "max") and weight:
            verb = "subtracted from" if sense == "max" else "added to"
            raise InputError(
                f"log det {atom.unknown.name} is concave, and here it is {verb} what is {sense}"
                "imised, which is not convex: add it to what is maximised, or subtract it from "
                "what is minimised"
            )
        if not isinstance(atom, Penalty) or not weight:
            continue
        if (weight > 0) == (sense == "max"):
            text = f"‖{written(atom.expression.words)}‖" + "²" * (atom.kind == "squares")
            raise InputError(
                f"the penalty {text} is convex and cannot be maximised: subtract it from what is "
                "maximised, or add it to what is minimised"
            )
        out.append(_priced(atom, abs(weight), taken))
        taken.add(id(out[-1].variable))
    return out


def _priced(penalty: Penalty, weight: float, taken: set[int]) -> _Priced:
    e = penalty.expression
    if len(e.terms) == 1 and not e.constant.any():
        atom, a = e.terms[0]
        columns = sp.csc_array(a)
        alone = np.diff(columns.indptr).max(initial=0) <= 1 >= np.diff(a.indptr).max(initial=0)
        if isinstance(atom, Auxiliary) and alone and id(atom) not in taken:
            scales = np.asarray(abs(columns).sum(axis=0), dtype=np.float64).ravel()
            plain = atom.free and bool((scales == scales[:1]).all()) and bool(scales.all())
            if penalty.kind == "squares" or plain:
                return _Priced(penalty.kind, weight, atom, scales, None)
    residual = Variable(e.size, "", free=True)
    (atom, _) = residual.terms[0]
    assert isinstance(atom, Auxiliary)
    return _Priced(penalty.kind, weight, atom, np.ones(e.size), e == residual)


def _curvature(penalties: list[_Priced], columns: _Columns) -> tuple[Array, list[NormPenalty]]:
    h, norms = np.zeros(columns.size), []
    for priced in penalties:
        start, k = columns.starts[id(priced.variable)], priced.variable.size
        if priced.kind == "squares":
            h[start : start + k] += 2 * priced.weight * priced.scales**2
        elif k:
            group = tuple(range(start, start + k))
            norms.append(NormPenalty(priced.weight * float(priced.scales[0]), group))
    return h, norms


def _log_det(goal: Expression, unknown: Unknown) -> float:
    mine = [a for atom, a in goal.terms if isinstance(atom, LogDet) and atom.unknown is unknown]
    return abs(sum(float(a.sum()) for a in mine))


# -- columns and measurements ---------------------------------------------------------------


@dataclass(eq=False)
class _Coo:
    """Entries (row, column, value) of a sparse matrix in the making."""

    rows: list[Indices] = field(default_factory=list)
    columns: list[Indices] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)

    def add(self, rows: Any, columns: Any, values: Any) -> None:
        self.rows.append(np.asarray(rows, dtype=np.int64))
        self.columns.append(np.asarray(columns, dtype=np.int64))
        self.values.append(np.asarray(values, dtype=np.float64))

    def csr(self, shape: tuple[int, int]) -> sp.csr_array:
        if not self.rows:
            return sp.csr_array(shape)
        places = (np.concatenate(self.rows), np.concatenate(self.columns))
        return sp.csr_array((np.concatenate(self.values), places), shape=shape)


@dataclass(eq=False)
class _Columns:
    """The auxiliary variables, one after the other, and their part of the rows."""

    variables: dict[int, Auxiliary] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    entries: _Coo = field(default_factory=_Coo)

    def meet(self, atom: Auxiliary) -> None:
        if id(atom) not in self.variables:
            self.starts[id(atom)] = self.size
            self.variables[id(atom)] = atom

    @property
    def size(self) -> int:
        return sum(variable.size for variable in self.variables.values())

    @property
    def free(self) -> Bools:
        kinds = [np.full(v.size, v.free) for v in self.variables.values()]
        return np.concatenate([np.zeros(0, dtype=bool), *kinds])

    def rows(self, m: int) -> sp.csr_array:
        return self.entries.csr((m, self.size))


def _columns(
    linear: Sequence[tuple[Atom, Any]], penalties: list[_Priced], rows: list[Constraint]
) -> _Columns:
    columns = _Columns()
    met = [atom for atom, _ in linear] + [priced.variable for priced in penalties]
    for atom in [*met, *(atom for row in rows for atom, _ in row.expression.terms)]:
        if isinstance(atom, Auxiliary):
            columns.meet(atom)
    return columns


@dataclass(eq=False)
class _Table:
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
    by_lengths: _Coo = field(default_factory=_Coo)
    diagonal: _Coo = field(default_factory=_Coo)
    above: _Coo = field(default_factory=_Coo)
    factors: list[Array] = field(default_factory=list)
    by_factors: _Coo = field(default_factory=_Coo)
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
        off = _Coo()
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


def _tables(goal: Expression, rows: list[Constraint]) -> dict[int, _Table]:
    """One table per unknown, in the order in which they appear."""
    tables: dict[int, _Table] = {}
    dense: dict[int, set[int]] = {}
    for atom, _ in [*goal.terms, *(term for row in rows for term in row.expression.terms)]:
        if not isinstance(atom, Auxiliary | Penalty):
            tables.setdefault(id(atom.unknown), _Table(atom.unknown))
    for row in rows:
        for atom, _ in row.expression.terms:
            if isinstance(atom, Inner) and _is_dense(atom.cost):
                dense.setdefault(id(atom.unknown), set()).add(id(atom.cost))
    for key, found in dense.items():
        tables[key].by_eigenvectors = 2 * len(found) <= tables[key].unknown.size
    return tables


def _record(atom: Atom, a: Any, start: int, tables: dict[int, _Table], columns: _Columns) -> None:
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


# -- the objective --------------------------------------------------------------------------


@dataclass(eq=False)
class _Gain:
    """The affine part of the objective: costs of unknowns, of measurements, of variables."""

    costs: dict[int, Cost] = field(default_factory=dict)
    measurements: dict[int, _Coo] = field(default_factory=dict)
    variables: _Coo = field(default_factory=_Coo)

    @classmethod
    def of(
        cls, linear: Sequence[tuple[Atom, Any]], tables: dict[int, _Table], columns: _Columns
    ) -> _Gain:
        gain = cls()
        for atom, coefficients in linear:
            a = coefficients.tocoo()
            if isinstance(atom, Auxiliary):
                gain.variables.add(a.row, a.col + columns.starts[id(atom)], a.data)
            elif isinstance(atom, Lengths):
                table = tables[id(atom.unknown)]
                mine = gain.measurements.setdefault(id(atom.unknown), _Coo())
                mine.add(a.row, a.col + table.place(atom.vectors), a.data)
            elif isinstance(atom, Entries):
                n = atom.unknown.size
                entries = sp.coo_array((a.data, (atom.i[a.col], atom.j[a.col])), shape=(n, n))
                gain._add_cost(atom.unknown, Cost.of(n, sparse=(entries + entries.T) / 2), 1.0)
            elif isinstance(atom, Inner):
                gain._add_cost(atom.unknown, atom.cost, float(a.data.sum()))
        return gain

    def _add_cost(self, unknown: Unknown, cost: Cost, weight: float) -> None:
        scaled = cost if weight == 1 else cost.scaled(weight)
        known = self.costs.get(id(unknown))
        self.costs[id(unknown)] = scaled if known is None else known.plus(scaled)

    def of_measurements(self, key: int, p: int) -> Array:
        part = self.measurements.get(key, _Coo()).csr((1, p))
        return np.asarray(part.toarray()).ravel()

    def of_variables(self, size: int) -> Array:
        return np.asarray(self.variables.csr((1, size)).toarray()).ravel()
