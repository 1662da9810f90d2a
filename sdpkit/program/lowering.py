"""From constraints as written to plain rows and cones.

    |e| ≤ t                two rows per entry, or e = p − m with p, m ≥ 0 and p + m for |e|
    ‖e‖ ≤ t                a second-order cone  (t; e)
    Σ e_k² ≤ t             a second-order cone  (t + 1; 2e; t − 1)
    F ⪰ 0                  a semidefinite cone

A function that is only a part of a constraint is replaced by a variable that bounds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from sdpkit.errors import InputError
from sdpkit.program.atoms import Absolute, Atom, Penalty
from sdpkit.program.expressions import Combination, Constraint, Expression, Unknown, Variable, stack
from sdpkit.program.form import Sense
from sdpkit.program.matrices import Semidefinite
from sdpkit.typing import Array


@dataclass(frozen=True, eq=False)
class ConeConstraint:
    """Entries that lie in a cone.

    Attributes
    ----------
    kind: "psd" for the n² entries of a symmetric matrix, row by row, or "soc" for (t; e), ‖e‖ ≤ t
    entries: the affine functions;  size: n, or 1 + the size of e
    text: as it was written; "" if it was not
    """

    kind: Literal["psd", "soc"]
    entries: Expression
    size: int
    text: str = ""

    @property
    def n_rows(self) -> int:
        """The constraints of a slack block."""
        return self.size * (self.size + 1) // 2 if self.kind == "psd" else self.size

    @property
    def words(self) -> str:
        """What is printed behind the text."""
        return f"({self.size} × {self.size})" if self.kind == "psd" else "(1 second-order cone)"


@dataclass(eq=False)
class Lowered:
    """An objective and constraints without convex functions but the objective's penalties.

    `groups` has, for each constraint as it was written, its rows and cones; `hidden` are those
    that define variables which the objective or a constraint needed.
    """

    goal: Expression
    groups: list[list[Constraint | ConeConstraint]] = field(default_factory=list)
    hidden: list[Constraint | ConeConstraint] = field(default_factory=list)

    @property
    def cones(self) -> list[ConeConstraint]:
        """All cones."""
        every = [part for group in [*self.groups, self.hidden] for part in group]
        return [part for part in every if isinstance(part, ConeConstraint)]


def lowered(sense: Sense, goal: Expression, constraints: Iterable[Any]) -> Lowered:
    """The objective and the constraints in rows and cones."""
    out = Lowered(goal)
    out.goal = _without_absolutes(sense, goal, out.hidden)
    for constraint in flat(constraints):
        if isinstance(constraint, Semidefinite):
            out.groups.append([_semidefinite(constraint)])
        elif constraint.expression.is_affine:
            out.groups.append([constraint])
        else:
            out.groups.append(_convex(constraint, out.hidden))
    return out


def flat(constraints: Iterable[Any]) -> Iterator[Any]:
    """Constraints, out of lists of them."""
    for constraint in constraints:
        if isinstance(constraint, Constraint | Semidefinite):
            yield constraint
        elif isinstance(constraint, list | tuple | Iterator):
            yield from flat(constraint)
        else:
            raise InputError(
                f"{constraint!r} is not a constraint: compare expressions by ==, <= or >=, and "
                "matrices by >> or <<"
            )


def _semidefinite(constraint: Semidefinite) -> Constraint | ConeConstraint:
    if constraint.size == 1:
        return Constraint(constraint.entries, 1, constraint.text)
    return ConeConstraint("psd", constraint.entries, constraint.size, constraint.text)


# -- convex functions in constraints --------------------------------------------------------


def _convex(
    constraint: Constraint, hidden: list[Constraint | ConeConstraint]
) -> list[Constraint | ConeConstraint]:
    """Rows and cones of  e ≤ 0  or  e ≥ 0  with convex functions among the terms of e."""
    e = constraint.expression if constraint.relation < 0 else -constraint.expression
    affine, curved = _split(e)
    if len(curved) == 1:
        alone = _alone(affine, *curved[0], constraint.text)
        if alone is not None:
            return alone
    total = affine
    for atom, a in curved:
        total = total + _bounded(atom, hidden)._times(a, ((1.0, ""),))
    return [Constraint(total, -1, constraint.text)]


def _split(e: Expression) -> tuple[Expression, list[tuple[Atom, sp.csr_array]]]:
    """The affine part, and the other terms."""
    curved: list[tuple[Atom, sp.csr_array]] = [
        (atom, a) for atom, a in e.terms if isinstance(atom, Penalty | Absolute)
    ]
    rest = tuple((atom, a) for atom, a in e.terms if not isinstance(atom, Penalty | Absolute))
    affine: Expression = Combination(e.size, rest, e.constant, ())
    return affine, curved


def _alone(
    affine: Expression, atom: Atom, a: sp.csr_array, text: str
) -> list[Constraint | ConeConstraint] | None:
    """a·f(e) + affine ≤ 0 without a further variable, where there is only one f per row."""
    if isinstance(atom, Absolute):
        if np.diff(a.indptr).max(initial=0) > 1:
            return None
        part = atom.expression._times(a, ())
        return [Constraint(stack([part + affine, affine - part]), -1, text)]
    assert isinstance(atom, Penalty)
    if affine.size != 1 or not a.nnz:
        return None
    bound = affine * (-1.0 / float(a.data[0]))
    return [_cone(atom, bound, text)]


def _cone(penalty: Penalty, bound: Expression, text: str) -> ConeConstraint:
    """‖e‖ ≤ bound, or ‖e‖² ≤ bound."""
    e = penalty.expression
    if penalty.kind == "norm":
        entries = stack([bound, e])
    else:
        entries = stack([bound + 1.0, 2.0 * e, bound - 1.0])
    return ConeConstraint("soc", entries, entries.size, text)


def _bounded(atom: Atom, hidden: list[Constraint | ConeConstraint]) -> Expression:
    """A new variable that is at least f(e), entry by entry."""
    if isinstance(atom, Absolute):
        return _modulus(atom, hidden)
    assert isinstance(atom, Penalty)
    bound = Variable(1, "", free=True)
    hidden.append(_cone(atom, bound, ""))
    return bound


def _modulus(atom: Absolute, hidden: list[Constraint | ConeConstraint]) -> Expression:
    """p + m for |e|, with e = p − m."""
    up, down = Variable(atom.size, ""), Variable(atom.size, "")
    hidden.append(Constraint(atom.expression - up + down, 0, ""))
    return up + down


def _without_absolutes(
    sense: Sense, goal: Expression, hidden: list[Constraint | ConeConstraint]
) -> Expression:
    """The objective with p + m for |e|."""
    absolute = [(atom, a) for atom, a in goal.terms if isinstance(atom, Absolute)]
    if not absolute:
        return goal
    rest = tuple((atom, a) for atom, a in goal.terms if not isinstance(atom, Absolute))
    total: Expression = Combination(goal.size, rest, goal.constant, ())
    for atom, a in absolute:
        if (a.data * (1 if sense == "min" else -1) < 0).any():
            raise InputError(
                "an absolute value is convex and cannot be maximised: subtract it from what is "
                "maximised, or add it to what is minimised"
            )
        total = total + _modulus(atom, hidden)._times(a, ())
    return Combination(total.size, total.terms, total.constant, goal.words)


# -- the two forms --------------------------------------------------------------------------


def slack_rows(cone: ConeConstraint, number: int) -> Constraint:
    """A cone as a slack block S and the rows that make its entries equal to the cone's."""
    slack = Unknown(f"S{number}", cone.size)
    if cone.kind == "psd":
        i, j = np.triu_indices(cone.size)
        return Constraint(slack[i, j] - cone.entries[i * cone.size + j], 0, "")
    # A second-order cone is {(tr S, 2S₀₁, …, 2S₀ₖ) : S ⪰ 0}.
    k = np.arange(1, cone.size)
    entries = stack([slack.trace(), 2.0 * slack[np.zeros_like(k), k]])
    return Constraint(entries - cone.entries, 0, "")


def dual_terms(
    cone: ConeConstraint, number: int, coefficients: sp.csr_array, constant: Array
) -> tuple[Expression, Expression]:
    """Σ over the cone's entries of multiplier times coefficient, and times constant.

    `coefficients` (entries, n_x) are those of the variables; the multiplier is an unknown Y.
    """
    dual = Unknown(f"Y{number}", cone.size)
    table = sp.csr_array(sp.hstack([coefficients, sp.csr_array(constant[:, None])]).T)
    n = cone.size
    if cone.kind == "psd" and table.shape[0] <= n:
        parts = [dual.inner(sp.csr_array(row.reshape((n, n)))) for row in _rows(table)]
        return stack(parts[:-1]), parts[-1]
    if cone.kind == "psd":
        i, j = np.triu_indices(n)
        upper: Any = table[:, i * n + j] @ sp.diags_array(np.where(i == j, 1.0, 2.0))
        entries = dual[i, j]
    else:
        k = np.arange(1, n)
        upper = table
        entries = stack([dual.trace(), 2.0 * dual[np.zeros_like(k), k]])
    every = entries._times(upper, ())
    return every[:-1], every[-1]


def _rows(table: sp.csr_array) -> Iterator[Any]:
    for k in range(table.shape[0]):
        yield table[[k]]


def columns_of_variables(e: Expression, starts: dict[int, int], size: int) -> sp.csr_array:
    """(entries, n_x) the coefficients of the variables in an expression of variables alone."""
    out = sp.csr_array((e.size, size))
    for atom, a in e.terms:
        start = starts[id(atom)]
        placed = sp.coo_array(a)
        places = (placed.row, placed.col + start)
        out = out + sp.csr_array((placed.data, places), shape=(e.size, size))
    return sp.csr_array(out)


def has_unknowns(e: Expression | Sequence[Expression]) -> bool:
    """Whether an atom is about an unknown matrix."""
    every = [e] if isinstance(e, Expression) else e
    return any(hasattr(atom, "unknown") for one in every for atom, _ in one.terms)
