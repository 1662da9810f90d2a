"""Why a cvxpy model is infeasible or unbounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cvxpy
import numpy as np

from sdpkit.conic.cvxpy import CompiledModel
from sdpkit.conic.data import ConicData
from sdpkit.conic.explanation import (
    Explanation,
    Member,
    explanation_of,
    explanation_of_direction,
    moving,
    nothing_to_explain,
)
from sdpkit.conic.model_parts import ModelPart, ModelRows
from sdpkit.conic.readings import SlackReading, smaller_reading
from sdpkit.conic.refusals import refuse_types
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.conflict import Conflict, Decision, decided, irreducible
from sdpkit.solving.solve import solve
from sdpkit.typing import Array, Indices

# The slacks of models with up to so many rows are the unknowns that a proof is looked for in.
_MOST_ROWS = 2000


def explain_model(problem: Any) -> Explanation:
    """Constraints first: what they contradict does not depend on the objective."""
    refuse_types(problem)
    if problem.constraints:
        # Variables that only the objective contains may have bounds of their own.
        own = cvxpy.Problem(cvxpy.Minimize(0), problem.constraints)
        if own.variables():
            conflict = _ModelConflict.of(own)
            if conflict.first.is_feasible is False:
                return conflict.explained()
    return _of_objective(problem)


def _of_objective(problem: Any) -> Explanation:
    """Of a model whose constraints do not contradict each other."""
    model = CompiledModel(problem)
    reading = model.data.reading
    solution = solve(reading.compiled.program)
    dual = reading.compiled.program.sense != reading.data.sense
    improving = (Status.INFEASIBLE,) if dual else (Status.UNBOUNDED, Status.INFEASIBLE_OR_UNBOUNDED)
    if solution.status in improving and solution.ray is not None:
        x = reading.ray_direction(solution.ray)
        if x is not None:
            return _unbounded(problem, model, x, solution)
    contradicting = (
        (Status.UNBOUNDED, Status.INFEASIBLE_OR_UNBOUNDED) if dual else (Status.INFEASIBLE,)
    )
    if solution.status in contradicting and not model.log_dets:
        conflict = _ModelConflict.of(problem)
        if conflict.first.is_feasible is False:
            return conflict.explained()
    return nothing_to_explain(solution, None)


def _unbounded(problem: Any, model: CompiledModel, x: Array, solution: Solution) -> Explanation:
    own = model.data.to_model(x, np.zeros(model.data.data.rhs.size))[0]
    values = model.variables_at(own)
    size = max(float(np.abs(value).max(initial=0.0)) for value in values)
    runaways = moving(list(zip(problem.variables(), values, strict=True)))
    gain = float(model.data.data.cost @ x)
    return explanation_of_direction(runaways, model.data.data.sign * gain / size, solution)


@dataclass(frozen=True, eq=False)
class _Unit:
    """What may be left out on its own: an entry of a constraint, a cone, or one of a domain."""

    part: ModelPart
    rows: Indices


@dataclass(eq=False)
class _ModelConflict:
    """A model that may be infeasible, part by part."""

    rows: ModelRows

    @classmethod
    def of(cls, problem: Any) -> _ModelConflict:
        return cls(ModelRows.of(CompiledModel(problem)))

    @cached_property
    def first(self) -> Decision:
        """Whether all parts together can be met."""
        return self._decided([part.rows for part in self.rows.parts])

    def explained(self) -> Explanation:
        """Constraints are left out first, then domains, then single entries of either."""
        parts = self.rows.parts
        named = [k for k, part in enumerate(parts) if _is_constraint(part.owner)]
        domains = [k for k, part in enumerate(parts) if not _is_constraint(part.owner)]
        always = [parts[k].rows for k in domains]
        first = self._filtered([parts[k].rows for k in named], always, self.first)
        named = [named[k] for k in first.parts]
        always = [parts[k].rows for k in named]
        second = self._filtered([parts[k].rows for k in domains], always)
        kept = [*named, *(domains[k] for k in second.parts)]
        units = [unit for k in sorted(kept) for unit in _units(parts[k])]
        decided = first.is_irreducible and second.is_irreducible
        last = Conflict(tuple(range(len(units))), decided, 0)
        if len(units) > len(kept):
            last = self._filtered([unit.rows for unit in units], [])
        n_asked = first.n_asked + second.n_asked + last.n_asked
        left = [units[k] for k in last.parts]
        return self._explanation(left, replace(last, n_asked=n_asked))

    def _filtered(
        self,
        groups: Sequence[Indices],
        always: Sequence[Indices],
        known: Decision | None = None,
    ) -> Conflict:
        """An irreducible set of groups of rows, beside rows that always hold."""

        def in_groups(found: Decision, kept: Sequence[int]) -> Decision:
            if found.weights is None:
                return found
            by_row = found.weights
            sums = {k: sum(by_row[row] for row in groups[k]) for k in kept}
            return replace(found, weights=sums)

        def ask(kept: Sequence[int]) -> Decision:
            return in_groups(self._decided([*always, *(groups[k] for k in kept)]), kept)

        if not groups:
            return Conflict((), True, 0)
        if always:
            alone = self._decided(always)
            if alone.is_feasible is False:
                return Conflict((), True, 1)
        whole = range(len(groups))
        found = ask(whole) if known is None else in_groups(known, whole)
        return irreducible(whole, ask, found.weights)

    def _decided(self, groups: Sequence[Indices]) -> Decision:
        """Whether these rows can be met; weights by the rows of the whole model."""
        every = np.concatenate([np.zeros(0, dtype=np.int64), *groups])
        data, kept = self.rows.within(np.unique(every))
        if not data.rhs.size:
            return Decision(True)
        found = _met(data)
        if found.multipliers is None:
            return replace(found, weights=None)
        sizes = np.sqrt(np.asarray(data.matrix.multiply(data.matrix).sum(axis=1)).ravel())
        weights = np.abs(found.multipliers) * np.where(sizes > 0, sizes, 1.0)
        return replace(found, weights=dict(zip(kept.tolist(), weights.tolist(), strict=True)))

    def _explanation(self, left: Sequence[_Unit], conflict: Conflict) -> Explanation:
        y, proof = self._proof(left)
        largest = max((abs(_weight(unit, y, self.rows.data)) for unit in left), default=0.0)
        scale = 1 / largest if largest > 0 else 0.0
        members, numbers = [], {id(c): k for k, c in enumerate(self.rows.model.problem.constraints)}
        for part in dict.fromkeys(unit.part for unit in left):
            mine = [unit for unit in left if unit.part is part]
            weights = tuple(scale * _weight(unit, y, self.rows.data) for unit in mine)
            row = numbers.get(id(part.owner))
            members.append(_member(part, mine, weights if scale else (), row))
        misses = -scale * float(self.rows.data.rhs @ y)
        return explanation_of(tuple(members), conflict, misses, proof)

    def _proof(self, left: Sequence[_Unit]) -> tuple[Array, Decision]:
        """(rows,) the multipliers of the ray, 0 where there are none, and the ray."""
        data, kept = self.rows.within(np.unique(np.concatenate([unit.rows for unit in left])))
        out = np.zeros(self.rows.data.rhs.size)
        found = _met(data)
        if found.multipliers is not None:
            out[kept] = data.balanced(found.multipliers)
        return out, found


def _met(data: ConicData) -> Decision:
    """Whether the rows can be met, the ray where they cannot, and its y where it has one."""
    slacks = SlackReading(data)
    if slacks.n_rows <= _MOST_ROWS:
        found = decided(slacks.compiled.program)
        if found.is_feasible is not None:
            if found.ray is None or found.multipliers is None:
                return found
            ray = replace(found.ray, multipliers=found.multipliers)
            return replace(found, multipliers=slacks.ray_multipliers(ray))
    reading = smaller_reading(data)
    program = reading.compiled.program
    solution = solve(program)
    contradicting = (
        (Status.INFEASIBLE,)
        if program.sense == data.sense
        else (Status.UNBOUNDED, Status.INFEASIBLE_OR_UNBOUNDED)
    )
    if solution.status in contradicting and solution.ray is not None:
        return Decision(False, solution.ray, reading.ray_multipliers(solution.ray))
    return Decision(True if solution.status is Status.OPTIMAL else None)


def _is_constraint(owner: Any) -> bool:
    return isinstance(owner, cvxpy.constraints.constraint.Constraint)


def _units(part: ModelPart) -> list[_Unit]:
    """The entries and cones of a part."""
    return [_Unit(part, part.rows[part.unit == number]) for number in np.unique(part.unit)]


def _weight(unit: _Unit, y: Array, data: ConicData) -> float:
    """The multiplier of a row, the first of a second-order cone, the trace of a matrix."""
    own = y[unit.rows]
    if own.size == 1:
        return float(own[0])
    for cone in data.cones:
        if cone.rows[0] == unit.rows[0]:
            return float(own[0] if cone.kind == "soc" else np.trace(cone.matrix(own)))
    return float(own[np.argmax(np.abs(own))])


def _member(
    part: ModelPart, units: Sequence[_Unit], weights: tuple[float, ...], row: int | None
) -> Member:
    owner = part.owner
    if owner is None:
        return Member("the domain of the objective", weights[:1])
    if not _is_constraint(owner):
        return Member(_domain_in_words(owner), weights, constraint=owner)
    name, label = str(owner), getattr(owner, "label", None)
    if label is not None and not name.startswith(label):  # some versions of cvxpy print it
        name = f"{label}: {name}"
    shape = owner.shape
    whole = len(_units(part)) == 1 or len(shape) == 0
    if whole or isinstance(owner, cvxpy.constraints.PSD | cvxpy.SOC):
        return Member(name, weights[:1], (), owner, row)
    entries = [
        tuple(int(i) for i in np.unravel_index(_number(part, unit), shape, order="F"))
        for unit in units
    ]
    return Member(name, weights, tuple(entries), owner, row)


def _number(part: ModelPart, unit: _Unit) -> int:
    """The number of the entry that a unit is."""
    return int(part.unit[part.rows == unit.rows[0]][0])


_DOMAIN_WORDS = {
    "nonneg": "≥ 0",
    "pos": "≥ 0",
    "nonpos": "≤ 0",
    "neg": "≤ 0",
    "PSD": "⪰ 0",
    "NSD": "⪯ 0",
}


def _domain_in_words(variable: Any) -> str:
    given = variable.attributes
    words = [text for name, text in _DOMAIN_WORDS.items() if given.get(name)]
    if given.get("bounds") is not None:
        words.append("within its bounds")
    return f"variable {variable.name()} {' and '.join(words) or 'in its domain'}"
