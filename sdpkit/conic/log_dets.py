"""Log dets in the objective of a cvxpy model, taken out before cvxpy writes exponential cones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy

from sdpkit.errors import InputError


@dataclass(frozen=True, eq=False)
class LogDetTerm:
    """A scalar variable that stands for log det of an expression, and the expression's cone."""

    scalar: Any
    cone: Any


def without_log_dets(problem: Any) -> tuple[Any, list[LogDetTerm]]:
    """The problem with each log det of its objective replaced by a scalar, and what they are.

    The argument of each becomes a semidefinite constraint. Variables and constraints are the
    problem's own, so that their ids lead back to it. It is another problem in any case: cvxpy keeps
    what a problem was compiled to for its next solve.
    """
    if cvxpy.log_det not in problem.objective.atoms():
        return cvxpy.Problem(problem.objective, problem.constraints), []
    found: list[LogDetTerm] = []
    goal = _replaced(problem.objective.args[0], found)
    cones = [term.cone for term in found]
    objective = type(problem.objective)(goal)
    return cvxpy.Problem(objective, [*problem.constraints, *cones]), found


def _replaced(expression: Any, found: list[LogDetTerm]) -> Any:
    if isinstance(expression, cvxpy.log_det):
        matrix = expression.args[0]
        if matrix.is_complex():
            raise InputError("the model uses log_det of a complex matrix; sdpkit takes real ones")
        found.append(LogDetTerm(cvxpy.Variable(), matrix >> 0))
        return found[-1].scalar
    if cvxpy.log_det not in expression.atoms():
        return expression
    return expression.copy([_replaced(arg, found) for arg in expression.args])
