"""Models in variables alone, read from their dual side.

    minimise    cᵀx + d                          maximise    d − Σ <F₀, Y> − aᵀw
    subject to  F(x) = F₀ + Σ x_j F_j ⪰ 0        subject to  <F_j, Y> + A_jᵀw {=, ≤}  c_j
                Ax + a {=, ≥, ≤} 0                           Y ⪰ 0,  w free, ≥ 0, ≤ 0
                x_j free or ≥ 0

The unknowns are the multipliers: Y of the semidefinite and second-order cones, w of the rows. There
is one constraint per variable, = where it is free and ≤ where it is nonnegative (≥ in the dual of
a maximisation), and its multiplier *is* the variable. The other way is to give each cone a slack
block S and a constraint per entry, S_ij = F(x)_ij.

The rule: where there is a cone, no unknown matrix and a linear objective, the form with the fewer
constraints is built, the slack form where they are equal. Every other program has the slack form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpkit.program.atoms import Auxiliary, Penalty
from sdpkit.program.expressions import Constraint, Expression, Variable
from sdpkit.program.form import Sense
from sdpkit.program.lowering import (
    ConeConstraint,
    Lowered,
    columns_of_variables,
    dual_terms,
    has_unknowns,
)
from sdpkit.program.values import Places


@dataclass(frozen=True, eq=False)
class DualSide:
    """The dual of a model: its sense, its objective, and a constraint per variable, in order."""

    sense: Sense
    goal: Expression
    rows: Constraint
    variables: tuple[Auxiliary, ...]

    @property
    def constraints(self) -> list[Constraint]:
        """The rows, by their relations."""
        relation = -1 if self.sense == "max" else 1
        out, start = [], 0
        for v in self.variables:
            part = self.rows.expression[start : start + v.size]
            out.append(Constraint(part, 0 if v.free else relation, ""))
            start += v.size
        return out

    @property
    def places(self) -> Places:
        """Where the variables are: multipliers of the constraints."""
        starts = np.cumsum([0, *(v.size for v in self.variables)])[:-1].tolist()
        return Places((), tuple(zip(self.variables, starts, strict=True)), by_rows=True)


def dual_side(sense: Sense, low: Lowered) -> DualSide | None:
    """The dual side of a model, or None where the slack form is the one to build."""
    parts = [part for group in [*low.groups, low.hidden] for part in group]
    every = [p.entries if isinstance(p, ConeConstraint) else p.expression for p in parts]
    if not low.cones or has_unknowns([low.goal, *every]):
        return None
    if any(isinstance(atom, Penalty) for atom, _ in low.goal.terms):
        return None
    variables = _variables([low.goal, *every])
    n = sum(v.size for v in variables)
    rows = [part for part in parts if isinstance(part, Constraint)]
    if n >= sum(r.expression.size for r in rows) + sum(c.n_rows for c in low.cones):
        return None
    return _dualised(sense, low, rows, variables)


def _variables(expressions: list[Expression]) -> tuple[Auxiliary, ...]:
    """The variables, in the order in which they appear."""
    found: dict[int, Auxiliary] = {}
    for e in expressions:
        for atom, _ in e.terms:
            assert isinstance(atom, Auxiliary)
            found.setdefault(id(atom), atom)
    return tuple(found.values())


def _dualised(
    sense: Sense, low: Lowered, rows: list[Constraint], variables: tuple[Auxiliary, ...]
) -> DualSide:
    sizes = np.array([v.size for v in variables])
    ends = np.cumsum(sizes)
    starts = {id(v): int(e - v.size) for v, e in zip(variables, ends, strict=True)}
    n = int(ends[-1])
    sign = 1.0 if sense == "min" else -1.0
    cost = columns_of_variables(low.goal, starts, n).toarray().ravel()
    left: list[Expression] = []
    value: list[Expression] = []
    for number, cone in enumerate(low.cones, start=1):
        coefficients = columns_of_variables(cone.entries, starts, n)
        mine, fixed = dual_terms(cone, number, coefficients, cone.entries.constant)
        left.append(mine)
        value.append(fixed)
    for row in rows:
        e = row.expression
        w: Expression = Variable(e.size, "", free=row.relation == 0)
        signed = w if row.relation >= 0 else -w
        left.append(columns_of_variables(e, starts, n).T @ signed)
        value.append(e.constant @ signed)
    total = left[0]
    for more in left[1:]:
        total = total + more
    goal: Expression = sum(value[1:], value[0]) * -sign + float(low.goal.constant[0])
    expression = sign * total - cost
    return DualSide(
        "max" if sense == "min" else "min", goal, Constraint(expression, 0, ""), variables
    )
