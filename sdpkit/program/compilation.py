"""From expressions to the common form: `maximise` and `minimise`.

The rows follow the constraints as they were written, after the residuals of penalised expressions,
if there are any. Unknowns become blocks and variables become columns in the order in
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
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.program.atoms import (
    Absolute,
    Atom,
    Auxiliary,
    Entries,
    Inner,
    Lengths,
    LogDet,
    Penalty,
)
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.dual_side import DualSide, dual_side
from sdpkit.program.expressions import Constraint, Expression, Unknown, as_expression
from sdpkit.program.form import Program, Sense
from sdpkit.program.lowering import ConeConstraint, Lowered, lowered, slack_rows
from sdpkit.program.measurements import (
    Coo,
    MeasurementTable,
    VariableColumns,
    columns_of,
    record,
    tables_of,
)
from sdpkit.program.penalties import (
    WeightedPenalty,
    curvature,
    log_det_weight,
    penalties_of,
)
from sdpkit.program.printing import Wording, counted, written
from sdpkit.program.safe import SafeBounds
from sdpkit.program.values import Places
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.families import RowFamily


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
    objective : object
        An affine expression, plus multiples of `M.log_det()`, minus those of `e.sum_squares()` and
        `e.norm()`.
    *constraints : object
        Comparisons of expressions, or lists of them.
    name : str, default "program"
        The program's name, for printing.
    safe : SafeBounds or None, default None
        What is known that makes bounds safe; its vectors have an entry per row as written.
    direction : sequence of array-like or None, default None
        The `direction` of `safe`, with a number or a vector per constraint.
    anchor : sequence of array-like or None, default None
        The `anchor` of `safe`, with a number or a vector per constraint.
    notes : sequence of str, default ()
        What a reader of the solution should know.
    family : RowFamily or None, default None
        Rows that are searched instead of written down.

    Returns
    -------
    Program
        The program, for `sdpkit.solve`.

    Raises
    ------
    InputError
        If an expression is not of these kinds.

    Examples
    --------
    >>> from sdpkit import Unknown, solve
    >>> M = Unknown("M", 3)
    >>> i, j = np.array([0, 1]), np.array([1, 2])
    >>> theta = maximise(M.lengths(np.ones(3)), M.trace() == 1, M[i, j] == 0)   # Lovász's θ
    >>> print(theta)
    program
      maximise    vᵀ M v
      subject to  tr M = 1  (1 constraint)
                  M_ij = 0  (2 constraints)
                  M ∈ S³, M ⪰ 0
    >>> round(solve(theta).objective, 5)          # nodes 0 and 2 of a path are independent
    2.0
    """
    return _compiled("max", objective, constraints, name, safe, direction, anchor, notes, family)


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
    """The program that minimises an expression of size 1 under constraints.

    As `maximise`, with the signs of log det and penalties exchanged.

    Parameters
    ----------
    objective : object
        An affine expression, minus multiples of `M.log_det()`, plus those of `e.sum_squares()` and
        `e.norm()`.
    *constraints : object
        Comparisons of expressions, or lists of them.
    name : str, default "program"
        The program's name, for printing.
    safe : SafeBounds or None, default None
        What is known that makes bounds safe; its vectors have an entry per row as written.
    direction : sequence of array-like or None, default None
        The `direction` of `safe`, with a number or a vector per constraint.
    anchor : sequence of array-like or None, default None
        The `anchor` of `safe`, with a number or a vector per constraint.
    notes : sequence of str, default ()
        What a reader of the solution should know.
    family : RowFamily or None, default None
        Rows that are searched instead of written down.

    Returns
    -------
    Program
        The program, for `sdpkit.solve`.

    Raises
    ------
    InputError
        If an expression is not of these kinds.

    Examples
    --------
    >>> from sdpkit import Unknown, solve
    >>> M = Unknown("M", 2)
    >>> program = minimise(M.trace() - M.log_det())              # M = I
    >>> print(program)
    program
      minimise    tr M − log det M
      subject to  M ∈ S², M ⪰ 0
    """
    return _compiled("min", objective, constraints, name, safe, direction, anchor, notes, family)


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
    low = lowered(sense, _goal(objective), constraints)
    plain = safe is None and direction is None and anchor is None and family is None
    side = dual_side(sense, low) if plain else None
    if side is not None:
        wording = _wording_as_written(sense, low, side)
        extras = _Extras(name, notes=notes, wording=wording, places=side.places)
        return _built(side.sense, side.goal, side.constraints, extras)
    penalties = penalties_of(sense, low.goal)
    residuals = [penalty.residual for penalty in penalties if penalty.residual is not None]
    hidden, groups = _slack_form(low, residuals)
    sizes = [sum(row.expression.size for row in group) for group in groups]
    n_hidden = sum(row.expression.size for row in hidden)
    extras = _Extras(
        name,
        safe=_safe(safe, direction, anchor, sizes, n_hidden),
        notes=notes,
        family=family,
        lines=_lines(low) if low.cones or low.hidden else (),
        unknowns=_unknowns(low),
        n_hidden=len(hidden),
    )
    rows = [*hidden, *(row for group in groups for row in group)]
    return _built(sense, low.goal, rows, extras, penalties)


@dataclass(frozen=True, eq=False)
class _Extras:
    """What is added to objective and rows: bounds, names and how it was written.

    `n_hidden` counts the rows at the beginning that nobody wrote, `unknowns` are those that were
    written, in order.
    """

    name: str
    safe: SafeBounds = field(default_factory=SafeBounds)
    notes: Sequence[str] = ()
    family: RowFamily | None = None
    wording: Wording | None = None
    places: Places | None = None
    lines: tuple[tuple[str, str], ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    n_hidden: int = 0


def _built(
    sense: Sense,
    goal: Expression,
    rows: list[Constraint],
    extras: _Extras,
    penalties: Sequence[WeightedPenalty] = (),
) -> Program:
    """The program of plain rows."""
    linear = [(atom, a) for atom, a in goal.terms if not isinstance(atom, LogDet | Penalty)]
    met = [atom for atom, _ in linear] + [penalty.variable for penalty in penalties]
    columns = columns_of([*met, *(atom for row in rows for atom, _ in row.expression.terms)])
    tables = tables_of(goal, rows, extras.unknowns)
    m = _record_all(rows, tables, columns)
    gain = _Gain.of(linear, tables, columns)
    q = [table.measured(m) for table in tables.values()] or [sp.csr_array((m, 0))]
    costs_q = [gain.of_measurements(k, a.shape[1]) for k, a in zip(tables, q, strict=False)]
    h, norms = curvature(list(penalties), columns)
    counts = [row.expression.size for row in rows]
    constant = np.concatenate([np.zeros(0), *(row.expression.constant for row in rows)])
    program = Program.of(
        _blocks(sense, goal, gain, tables),
        0.0 - constant,
        sense=sense,
        rows_q=sp.hstack(q, format="csr") if len(q) > 1 else q[0],
        rows_x=columns.rows(m),
        relations=np.repeat(np.array([row.relation for row in rows], dtype=np.int8), counts),
        cost_q=np.concatenate([np.zeros(0), *costs_q]),
        cost_x=gain.of_variables(columns.size),
        free_x=columns.free,
        quadratic_x=h,
        norms=norms,
        offset=float(goal.constant[0]) + 0.0,  # never −0.0
        safe=extras.safe,
        notes=extras.notes,
        family=extras.family,
        name=extras.name,
        wording=extras.wording or _wording(goal, rows, columns, extras),
    )
    unknowns = tuple(table.unknown for table in tables.values())
    starts = tuple((v, columns.starts[id(v)]) for v in columns.variables.values())
    return program.with_places(extras.places or Places(unknowns, starts))


def _slack_form(
    low: Lowered, residuals: list[Constraint]
) -> tuple[list[Constraint], list[list[Constraint]]]:
    """The rows that nobody wrote, and those of each constraint, a slack block for each cone."""
    number = 0

    def rows(parts: list[Constraint | ConeConstraint]) -> list[Constraint]:
        nonlocal number
        out = []
        for part in parts:
            if isinstance(part, ConeConstraint):
                number += 1
                out.append(slack_rows(part, number))
            else:
                out.append(part)
        return out

    groups = [rows(group) for group in low.groups]
    return [*residuals, *rows(low.hidden)], groups


def _unknowns(low: Lowered) -> tuple[Unknown, ...]:
    """The unknowns that were written, in the order in which they appear."""
    parts = [part for group in low.groups for part in group] + low.hidden
    every = [p.entries if isinstance(p, ConeConstraint) else p.expression for p in parts]
    found: dict[int, Unknown] = {}
    for e in [low.goal, *every]:
        for atom, _ in e.terms:
            for one in _inside(atom):
                found.setdefault(id(one), one)
    return tuple(found.values())


def _inside(atom: Atom) -> Iterator[Unknown]:
    if isinstance(atom, Penalty | Absolute):
        for inner, _ in atom.expression.terms:
            yield from _inside(inner)
    elif not isinstance(atom, Auxiliary):
        yield atom.unknown


def _goal(objective: Any) -> Expression:
    goal = as_expression(objective)
    if goal.size != 1:
        raise InputError(
            f"the objective {written(goal.words)} has {goal.size} entries, and one number is "
            "optimised: add them up with .sum()"
        )
    return goal


def _record_all(
    rows: list[Constraint], tables: dict[int, MeasurementTable], columns: VariableColumns
) -> int:
    """Add all constraints, one below the other; returns how many rows they have."""
    start = 0
    for row in rows:
        for atom, a in row.expression.terms:
            record(atom, a.tocoo(), start, tables, columns)
        start += row.expression.size
    return start


def _blocks(
    sense: Sense, goal: Expression, gain: _Gain, tables: dict[int, MeasurementTable]
) -> list[Block]:
    if not tables:  # a linear or quadratic program: a 1 × 1 unknown whose optimum is zero
        cost = Cost.of(1, identity=1.0 if sense == "min" else -1.0)
        return [Block.of(1, sp.csr_array((0, 1)), name="idle", cost=cost)]
    return [
        table.block(gain.costs.get(key), log_det_weight(goal, table.unknown))
        for key, table in tables.items()
    ]


def _wording(
    goal: Expression, rows: list[Constraint], columns: VariableColumns, extras: _Extras
) -> Wording:
    """What is printed; the first `n_hidden` constraints are not."""
    k = extras.n_hidden
    texts = [""] * k + [row.text for row in rows[k:]]
    sizes = [row.expression.size for row in rows]
    return Wording(
        written(goal.words),
        tuple(zip(texts, sizes, strict=True)),
        tuple((v.name, v.size, v.free) for v in columns.variables.values()),
        lines=extras.lines,
        n_blocks=len(extras.unknowns),
    )


def _lines(low: Lowered) -> tuple[tuple[str, str], ...]:
    """The constraints as they were written, each with its size."""
    lines = []
    for group in low.groups:
        part = group[0]
        if isinstance(part, ConeConstraint):
            lines.append((part.text, part.words))
        elif part.text:
            lines.append((part.text, f"({counted(part.expression.size, 'constraint')})"))
    return tuple(lines)


def _wording_as_written(sense: Sense, low: Lowered, side: DualSide) -> Wording:
    """How a model was written whose program is that of its dual."""
    n_rows = sum(v.size for v in side.variables)
    n_x = sum(row.expression.size for row in _plain(low))
    return Wording(
        written(low.goal.words),
        (("", n_rows),),
        (("", n_x, False),),
        sense=sense,
        lines=_lines(low),
        shown=tuple((v.name, v.size, v.free) for v in side.variables),
        n_blocks=0,
    )


def _plain(low: Lowered) -> list[Constraint]:
    parts = [part for group in [*low.groups, low.hidden] for part in group]
    return [part for part in parts if isinstance(part, Constraint)]


def _safe(
    safe: SafeBounds | None,
    direction: Sequence[ArrayLike] | None,
    anchor: Sequence[ArrayLike] | None,
    sizes: list[int],
    n_hidden: int,
) -> SafeBounds:
    """The safe bounds with vectors over all rows: zero for the residuals of penalties."""
    safe = safe or SafeBounds()
    vectors: dict[str, Array | None] = {"direction": safe.direction, "anchor": safe.anchor}
    for name, entries in (("direction", direction), ("anchor", anchor)):
        if entries is None:
            continue
        if vectors[name] is not None:
            raise InputError(f"{name} is given twice: by safe and per constraint")
        if len(entries) != len(sizes):
            raise InputError(f"{name} has {len(entries)} entries for {len(sizes)} constraints")
        pieces = zip(entries, sizes, strict=True)
        parts = [np.broadcast_to(np.asarray(v, dtype=np.float64), (k,)) for v, k in pieces]
        vectors[name] = np.concatenate([np.zeros(0), *parts])
    full = {
        name: vector if vector is None else np.concatenate([np.zeros(n_hidden), vector])
        for name, vector in vectors.items()
    }
    return replace(safe, direction=full["direction"], anchor=full["anchor"])


# -- the objective --------------------------------------------------------------------------


@dataclass(eq=False)
class _Gain:
    """The affine part of the objective: costs of unknowns, of measurements, of variables."""

    costs: dict[int, Cost] = field(default_factory=dict)
    measurements: dict[int, Coo] = field(default_factory=dict)
    variables: Coo = field(default_factory=Coo)

    @classmethod
    def of(
        cls,
        linear: Sequence[tuple[Atom, Any]],
        tables: dict[int, MeasurementTable],
        columns: VariableColumns,
    ) -> _Gain:
        gain = cls()
        for atom, coefficients in linear:
            a = coefficients.tocoo()
            if isinstance(atom, Auxiliary):
                gain.variables.add(a.row, a.col + columns.starts[id(atom)], a.data)
            elif isinstance(atom, Lengths):
                table = tables[id(atom.unknown)]
                mine = gain.measurements.setdefault(id(atom.unknown), Coo())
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
        part = self.measurements.get(key, Coo()).csr((1, p))
        return np.asarray(part.toarray()).ravel()

    def of_variables(self, size: int) -> Array:
        return np.asarray(self.variables.csr((1, size)).toarray()).ravel()
