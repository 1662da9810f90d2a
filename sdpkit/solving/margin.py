"""A second solve with a margin, for multipliers that miss feasibility by rounding.

Where no repair of the multipliers is known, the program is solved once more with S ⪰ δI, which
moves the value by δ·tr M only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdpkit.program.gram import trace
from sdpkit.solution.answer import Stop
from sdpkit.solving.candidate import Candidate
from sdpkit.solving.choice import refusal
from sdpkit.solving.run import Run

# How much of the allowed gap a margin may cost, one try after the other.
MARGIN_SHARES = (0.25, 0.75)


def margin_may_help(candidate: Candidate) -> bool:
    """Whether all is well but for multipliers that miss feasibility, with a poor repair or none."""
    certificate, program = candidate.certificate, candidate.program
    if not candidate.is_inaccurate or candidate.answer.stop is not Stop.DONE:
        return False
    if program.family is not None:
        return False
    if program.has_log_det and np.isfinite(certificate.safe_bound):
        return False  # its bound scales the dual, which is as good as a margin
    if not np.isfinite([certificate.primal_residual, certificate.dual_objective]).all():
        return False
    nominal = abs(certificate.dual_objective - certificate.objective)
    return not np.isfinite(certificate.safe_bound) or bool(
        certificate.primal_residual <= candidate.tol
        and certificate.relative_gap > candidate.tol
        and nominal <= candidate.tol * certificate.unit
    )


def solved_with_margin(run: Run, candidate: Candidate, share: float) -> Candidate | None:
    """Solved with S ⪰ δI, δ·(tr M + Σx) this share of the allowed gap; None if that is refused."""
    program, solver = candidate.program, candidate.solver
    size = sum(trace(m) for m in candidate.matrices) + float(np.abs(candidate.x).sum())
    allowed = candidate.tol * candidate.certificate.unit
    margin = share * allowed / max(size, np.finfo(float).tiny)
    asked = program.with_margin(margin)
    if run.deadline.is_over or refusal(solver, asked) is not None:
        return None  # a margin may destroy the structure that this solver relies on
    answer = run.ask(asked, solver, replace(run.settings, checkpoint=None))
    first = candidate.answer
    answer = replace(
        answer,
        notes=(*first.notes, f"solved twice: the dual was asked for a margin of {margin:.1e}"),
        setup_time=answer.setup_time + first.setup_time,
        solve_time=answer.solve_time + first.solve_time,
    )
    return run.candidate(program, candidate.choice, answer)
