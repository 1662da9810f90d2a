"""`sdpkit.explain`: why a model or a problem is infeasible or unbounded, in its own words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sdpkit.certificate.points import without_objective
from sdpkit.conic.explanation import (
    Explanation,
    Member,
    explanation_of,
    explanation_of_direction,
    moving,
    nothing_to_explain,
)
from sdpkit.errors import ConvergenceWarning, InputError
from sdpkit.inputs import positive
from sdpkit.numerics.deadline import Deadline, current_deadline
from sdpkit.program.form import Program
from sdpkit.program.printing import SYMBOLS
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.conflict import Decision, decided, irreducible
from sdpkit.solving.solve import first_program, solve
from sdpkit.typing import Indices


def explain(model: Any, *, time_limit: float | None = None) -> Explanation:
    """Explain why a cvxpy model, a problem or a program has no optimum.

    For an infeasible model: constraints that contradict each other, of which none can be left out,
    with the weights of the ray that proves it. Entries of a constraint, the signs and bounds of
    variables count on their own. For an unbounded model: the variables that go on without end.

    Parameters
    ----------
    model : cvxpy.Problem, problem object or Program
        What has no optimum.
    time_limit : float or None, default None
        Seconds for all solves together. When they are over, the constraints that are left are
        returned, and `is_irreducible` is False.

    Returns
    -------
    Explanation
        `members`, `runaways`, `is_irreducible`, `verify()`; prints as a table.

    Examples
    --------
    >>> import cvxpy, sdpkit
    >>> x = cvxpy.Variable(2, name="x", nonneg=True)
    >>> constraints = [cvxpy.sum(x) <= 1, x[0] >= 0.5, x[1] >= 2]
    >>> why = sdpkit.explain(cvxpy.Problem(cvxpy.Minimize(x[0]), constraints))
    >>> why.kind, why.is_irreducible, bool(why.verify())
    ('infeasible', True, True)
    >>> [constraints.index(c) for c in why.constraints]
    [0, 2]
    """
    limit = None if time_limit is None else positive(time_limit, "time_limit")
    deadline = Deadline.after(limit).within(current_deadline())
    with deadline.applies(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if type(model).__module__.startswith("cvxpy."):
            from sdpkit.conic.explained_model import explain_model

            return explain_model(model)
        if isinstance(model, type) or not (
            isinstance(model, Program) or hasattr(model, "program") or hasattr(model, "advance")
        ):
            raise InputError(
                f"explain takes a cvxpy.Problem, a problem such as sdpkit.MVU(X) or a Program, "
                f"not {model.__name__ if isinstance(model, type) else type(model).__name__}"
            )
        return _explain_problem(model)


def _explain_problem(problem: Any) -> Explanation:
    named = getattr(problem, "named_rows", None)
    if callable(named):
        program, names = named()
    else:
        program = first_program(problem)
        names = _row_names(program)
    found = decided(program)
    if found.is_feasible is False:
        return _conflict_of_rows(program, names, found)
    solution = solve(problem)
    if solution.status in (Status.UNBOUNDED, Status.INFEASIBLE_OR_UNBOUNDED):
        return _unbounded_program(solution)
    return nothing_to_explain(solution, found.is_feasible)


def _conflict_of_rows(program: Program, names: Sequence[str], found: Decision) -> Explanation:
    def ask(rows: Sequence[int]) -> Decision:
        answer = decided(_with_rows(program, np.asarray(rows)))
        if answer.weights is None:
            return answer
        # The rows of the smaller program, by their numbers in the whole.
        return replace(answer, weights={rows[k]: w for k, w in answer.weights.items()})

    conflict = irreducible(range(program.n_rows), ask, found.weights)
    rows = np.array(conflict.parts)
    smaller = _with_rows(program, rows)
    proof = decided(smaller)
    w = proof.multipliers
    # For a maximisation bᵀw < 0, with w ≥ 0 on rows ≤.
    w = np.zeros(0) if w is None else smaller.sign * w / np.abs(w).max()
    misses = -float(smaller.rhs[: w.size] @ w)
    members = tuple(
        Member(names[row], (float(w[k]),) if w.size else (), row=int(row))
        for k, row in enumerate(rows)
    )
    return explanation_of(members, conflict, misses, proof)


def _with_rows(program: Program, rows: Indices) -> Program:
    """Some of a program's constraints, without an objective."""
    return replace(
        without_objective(program),
        rows_q=program.rows_q[rows],
        rows_x=program.rows_x[rows],
        relations=program.relations[rows],
        rhs=program.rhs[rows],
    )


def _row_names(program: Program) -> list[str]:
    """Each row as it was written, or by its number."""
    wording = program.wording
    if wording is not None and wording.fit(program):
        return [
            text if count == 1 else f"{text}   [{k}]"
            for text, count in wording.rows
            for k in range(count)
        ]
    return [
        f"row {k}: … {SYMBOLS[int(relation)]} {right:.4g}"
        for k, (relation, right) in enumerate(zip(program.relations, program.rhs, strict=True))
    ]


def _unbounded_program(solution: Solution) -> Explanation:
    ray, program = solution.ray, solution.program
    if ray is None or ray.matrices is None or ray.x is None:
        return nothing_to_explain(solution, None)
    found = [
        (block.name, np.asarray(matrix))
        for block, matrix in zip(program.blocks, ray.matrices, strict=True)
    ]
    runaways = moving([*found, *(((f"x[{j}]", value)) for j, value in enumerate(ray.x))])
    size = max(float(np.abs(value).max(initial=0.0)) for _, value in [*found, ("x", ray.x)])
    return explanation_of_direction(runaways, program.sign / size, solution)
