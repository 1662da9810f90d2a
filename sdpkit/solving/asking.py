"""Calls of solvers: a breakdown in floating point is an answer, not an error."""

from __future__ import annotations

from dataclasses import replace

from sdpkit.numerics.breakdown import broke_down, is_breakdown
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.solver import Solver
from sdpkit.solving.registry import is_ours


def answer_of(program: Program, solver: Solver, settings: Settings) -> Answer:
    """The answer of a solver. A breakdown of one of ours is the answer `FAILED`; errors of other
    packages' solvers, of callbacks and of resumed runs, whose state may be at fault, are raised."""
    try:
        return solver.solve(program, settings)
    except Exception as error:
        resumed = settings.checkpoint is not None and not settings.checkpoint.is_new
        if resumed or not is_ours(solver) or not is_breakdown(error, besides=Driver.call_back):
            raise
        return Answer(Stop.FAILED, broke_down(error))


def of_second_question(settings: Settings, tol: float = 1e-8) -> Settings:
    """The settings for an auxiliary program: a tight tolerance, and neither a callback, a start nor
    a checkpoint, which belong to the program itself."""
    return replace(settings, tol=tol, callback=None, warm_start=None, checkpoint=None)
