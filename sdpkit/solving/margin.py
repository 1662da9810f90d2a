"""A second solve with a margin, for duals that miss feasibility by rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdpkit.numerics.kernels import clock
from sdpkit.program.gram import trace
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solution import Solution, Status
from sdpkit.solution.solver import Solver
from sdpkit.solving.asking import answer_of
from sdpkit.solving.choice import why_refused
from sdpkit.solving.judgement import judge

# How much of the allowed gap a margin may cost, one try after the other.
_SHARES = (0.25, 0.75)


def wants_margin(solution: Solution, answer: Answer, tol: float) -> bool:
    """Whether all is well but for a dual that misses feasibility and is repaired badly or not."""
    certificate = solution.certificate
    if solution.status is not Status.INACCURATE or answer.stop is not Stop.DONE:
        return False
    if solution.program.family is not None:
        return False
    if solution.program.has_log_det and np.isfinite(certificate.safe_bound):
        return False  # its bound scales the dual, which is as good as a margin
    if not np.isfinite([certificate.primal_residual, certificate.dual_objective]).all():
        return False
    unit = certificate.unit
    nominal = abs(certificate.dual_objective - certificate.objective)
    return not np.isfinite(certificate.safe_bound) or bool(
        certificate.primal_residual <= tol
        and certificate.relative_gap > tol
        and nominal <= tol * unit
    )


def with_margin(solution: Solution, solver: Solver, settings: Settings) -> Solution:
    """Solve once more with S ⪰ δI, δ·(tr M + Σx) a fraction of the gap that is allowed; a larger
    one where the dual misses feasibility by more than the first."""
    started = clock()
    for share in _SHARES:
        left = None if settings.time_limit is None else settings.time_limit - (clock() - started)
        if left is not None and left <= 0:
            break
        again = _with_share(solution, solver, replace(settings, time_limit=left), share)
        if np.isfinite(again.certificate.safe_bound):
            return again
    return solution


def _with_share(solution: Solution, solver: Solver, settings: Settings, share: float) -> Solution:
    program = solution.program
    size = sum(trace(m) for m in solution.matrices) + float(np.abs(solution.x).sum())
    allowed = settings.tol * solution.certificate.unit
    margin = share * allowed / max(size, np.finfo(float).tiny)
    asked = program.with_margin(margin)
    if why_refused(solver, asked) is not None:
        return solution  # adding a margin would destroy the structure that this solver relies on
    answer = answer_of(asked, solver, replace(settings, checkpoint=None))
    note = f"solved twice: the dual was asked for a margin of {margin:.1e}"
    answer = replace(
        answer,
        notes=(*solution.notes, note),
        setup_time=answer.setup_time + solution.times.setup,
        solve_time=answer.solve_time + solution.times.solve,
    )
    again = judge(program, solver, solution.reason, settings, answer, solution.times.compile)
    better = again.certificate.relative_gap < solution.certificate.relative_gap
    return again if better else solution
