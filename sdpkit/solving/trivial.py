"""Programs that need no solver: zero is optimal, or there is nothing that limits the objective."""

from __future__ import annotations

import numpy as np

from sdpkit.certificate.certify import certify
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solving.feasibility import zero_point
from sdpkit.typing import Array


def answer_without_solver(program: Program) -> Answer | None:
    """The answer to such a program, or None."""
    return _nothing_left(program) or _no_rows(program)


def _nothing_left(program: Program) -> Answer | None:
    """M = 0 and x = 0, or variables with squares in no constraint at their own best, where they
    prove themselves optimal (all points equal, no constraints at all)."""
    if program.rhs.any() or program.family is not None or program.has_log_det:
        return None
    zeros = zero_point(program).matrices
    x = _apart_from_rows(program)
    words = "every variable is at its own best" if x.any() else "zero is optimal"
    for dual in (np.zeros(program.n_rows), program.safe.anchor):
        if dual is not None and certify(program, zeros, x, dual).passes(1e-12):
            return Answer(Stop.DONE, words, zeros, x, dual, iterations=0)
    return None


def _apart_from_rows(program: Program) -> Array:
    """(n_x,) the best values of the variables that have a square and occur in no constraint, 0 for
    the others."""
    in_rows = np.diff(program.rows_x.tocsc().indptr) > 0
    alone = (program.quadratic_x > 0) & ~in_rows
    with np.errstate(over="ignore"):
        best = np.divide(
            program.sign * program.cost_x,
            program.quadratic_x,
            out=np.zeros(program.n_auxiliary),
            where=alone,
        )
    best = np.where(program.free_x, best, np.maximum(best, 0.0))
    return best if np.isfinite(best).all() else np.zeros(program.n_auxiliary)


def _no_rows(program: Program) -> Answer | None:
    """Without constraints the optimum is zero or there is none; no solver is called."""
    if program.n_rows or program.family is not None or program.has_log_det:
        return None
    return Answer(Stop.CLAIMS_UNBOUNDED, "there are no constraints")
