"""What is tried where the first answer does not pass, in this order.

A strategy takes the run and the best candidate so far, and returns a better one or None. A new one
is a function of this form and an entry in `ESCALATION`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.certify import certify
from sdpkit.certificate.faces import Face
from sdpkit.certificate.inside import bound_inside, time_to_judge
from sdpkit.certificate.onto_constraints import leading_part, onto_rows
from sdpkit.numerics.deadline import Abandoned, current_deadline
from sdpkit.program.gram import is_finite
from sdpkit.solution.answer import Stop
from sdpkit.solving.candidate import Candidate, in_the_cone
from sdpkit.solving.feasibility import decide, zero_point
from sdpkit.solving.margin import MARGIN_SHARES, margin_may_help, solved_with_margin
from sdpkit.solving.next_solver import attempt_of, further_answers, is_better, may_be_asked
from sdpkit.solving.ray_search import find_ray
from sdpkit.solving.run import Run, compiling
from sdpkit.typing import Array

# The multipliers are worth a search where the point's residuals are at most so many times tol.
_NEAR = 100.0

Strategy = Callable[[Run, Candidate], Candidate | None]


def escalate(run: Run, candidate: Candidate, strategies: Sequence[Strategy]) -> Candidate:
    """The best candidate after one strategy after the other, until one passes or time is over.

    Repairs belong to certifying: an answer that a limit cut short is worth them.
    """
    for strategy in strategies:
        deadline = run.certificate_deadline if strategy in REPAIRS else run.deadline
        if candidate.is_settled or deadline.is_over:
            break
        try:
            with deadline.applies():
                candidate = strategy(run, candidate) or candidate
        except Abandoned:
            break
    return candidate


def existence(run: Run, candidate: Candidate) -> Candidate | None:
    """Points far out meet constraints that no point meets exactly: where a point that passes is one
    of them, small programs are decided in rational arithmetic."""
    if not candidate.is_doubtful:
        return None
    small = Face.of(candidate.program) is not None
    ray = decide(run, candidate.program, candidate.solver).ray if small else None
    return replace(candidate, is_examined=True, ray=ray)


def onto_constraints(run: Run, candidate: Candidate) -> Candidate | None:
    """The point moved onto its constraints, where the values are near each other already."""
    program, certificate, tol = candidate.program, candidate.certificate, candidate.tol
    if program.family is not None or not np.isfinite(certificate.primal_residual):
        return None
    worth = max(certificate.residual_price, certificate.complementarity)
    off = max(certificate.primal_residual, worth) > tol
    if not off or not certificate.relative_gap <= 100 * tol:
        return None
    matrices, x = list(candidate.matrices), candidate.x
    violations = program.violations(program.measure(matrices), x) / program.row_norms
    worths = _worth_of_violations(certificate)
    goal = 0.1 * tol
    leading = [leading_part(m, goal) for m in matrices]
    for start, inwards in ((matrices, 0.0), (leading, 0.0), (matrices, float(violations.max()))):
        moved, moved_x = onto_rows(program, start, x, goal, inwards, worths)
        if not all(is_finite(m) for m in [*moved, moved_x]):
            continue
        better = certify(program, moved, moved_x, candidate.dual)
        if better.passes(tol):
            return candidate.at(moved, moved_x, better)
    return None


def at_zero(run: Run, candidate: Candidate) -> Candidate | None:
    """Zero in the place of the point, where every right-hand side is zero: a point next to zero has
    no size that its residuals could be compared with."""
    program = candidate.program
    if candidate.passes or program.rhs.any() or program.family is not None or program.has_log_det:
        return None
    matrices, x = zero_point(program).matrices, np.zeros(program.n_auxiliary)
    certificate = certify(program, matrices, x, candidate.dual)
    return candidate.at(matrices, x, certificate) if certificate.passes(candidate.tol) else None


def _worth_of_violations(certificate: Certificate) -> Array | None:
    """(m,) what a unit of each constraint's violation is worth, relative to the value."""
    worth, share = certificate.residual_price, certificate.multipliers
    if share is None or not worth > 0 or certificate.matrices is None or certificate.x is None:
        return None
    program = certificate.program
    q = program.measure(list(certificate.matrices))
    paid = float(np.abs(share) @ program.violations(q, certificate.x))
    return np.abs(share) * (worth / paid) if paid > 0 else None


def slacks_as_returned(run: Run, candidate: Candidate) -> Candidate | None:
    """Slack variables that take up violations may cost more than the violations do."""
    answer = candidate.answer
    if answer.hit_limit or answer.x is None or np.array_equal(candidate.x, answer.x):
        return None
    matrices, x = in_the_cone(candidate.program, answer)
    certificate = certify(candidate.program, matrices, x, candidate.dual)
    return candidate.at(matrices, x, certificate) if certificate.passes(candidate.tol) else None


def into_the_dual(run: Run, candidate: Candidate) -> Candidate | None:
    """Multipliers moved into the dual, where they miss it by a tolerance."""
    certificate, answer, tol = candidate.certificate, candidate.answer, candidate.tol
    if candidate.dual is None or candidate.program.family is not None or candidate.ray is not None:
        return None
    if not certificate.relative_gap > tol or not certificate.primal_residual <= _NEAR * tol:
        return None
    deadline = time_to_judge(answer.setup_time + answer.solve_time).within(current_deadline())
    bound = bound_inside(certificate, candidate.dual, tol, deadline)
    if bound is None or bound.multipliers is None:
        return None
    dual = candidate.program.sign * bound.multipliers
    better = certify(candidate.program, list(candidate.matrices), candidate.x, dual)
    if not better.relative_gap < certificate.relative_gap:
        return None
    notes = (*answer.notes, "the multipliers were moved to be feasible")
    moved = replace(candidate, answer=replace(answer, notes=notes), dual=dual)
    return moved.at(candidate.matrices, candidate.x, better)


def no_solution(run: Run, candidate: Candidate) -> Candidate | None:
    """A proof that there is no solution."""
    if candidate.program.family is not None:
        return None
    ray = find_ray(run, candidate)
    if ray is None or ray.point is None:
        return None if ray is None else replace(candidate, ray=ray)
    matrices, x = ray.point.lifted(candidate.program)
    certificate = certify(candidate.program, matrices, x, candidate.dual)
    return replace(candidate.at(matrices, x, certificate), ray=ray)


def with_margin(run: Run, candidate: Candidate) -> Candidate | None:
    """Solved once more with a margin; a larger one where the multipliers miss feasibility by more
    than the first."""
    if not margin_may_help(candidate):
        return None
    for share in MARGIN_SHARES:
        again = solved_with_margin(run, candidate, share)
        if again is None:
            return None
        again = escalate(run, again, REPAIRS)
        if np.isfinite(again.certificate.safe_bound):
            better = again.certificate.relative_gap < candidate.certificate.relative_gap
            return again if better else None
    return None


def smaller_face(run: Run, candidate: Candidate) -> Candidate | None:
    """The program of the problem's `retry`, if it has one: the same optimum on a smaller face."""
    retry = getattr(run.problem, "retry", None)
    if not callable(retry) or not candidate.is_inaccurate:
        return None
    with compiling(run.deadline):
        program = retry(candidate.program)
    if program is None:
        return None
    choice = run.choose(program)
    settings = replace(run.settings, checkpoint=None, warm_start=None)
    answer = run.ask(program, choice.solver, settings)
    first = candidate.answer
    answer = replace(
        answer,
        iterations=(answer.iterations or 0) + (first.iterations or 0),
        setup_time=answer.setup_time + first.setup_time,
        solve_time=answer.solve_time + first.solve_time,
    )
    return escalate(run, run.candidate(program, choice, answer), _ON_ONE_PROGRAM)


def next_solver(run: Run, candidate: Candidate) -> Candidate | None:
    """The next solvers of the list, one after the other, until the answer of one passes; the best
    of all answers."""
    if not may_be_asked(run, candidate):
        return None
    best, attempts = candidate, [attempt_of(candidate)]
    setup, solve = candidate.answer.setup_time, candidate.answer.solve_time
    for choice, answer in further_answers(run, candidate):
        setup, solve = setup + answer.setup_time, solve + answer.solve_time
        again = run.candidate(candidate.program, choice, answer)
        again = escalate(run, again, _ON_ONE_PROGRAM)
        attempts.append(attempt_of(again))
        best = again if is_better(again, best) else best
        if best.is_settled:
            break
    if len(attempts) == 1:
        return None
    answer = replace(best.answer, setup_time=setup, solve_time=solve)
    if answer.stop is Stop.TIME_LIMIT and math.isinf(run.deadline.left):
        answer = replace(answer, stop=Stop.FAILED)  # the user gave no limit
    return replace(best, answer=answer, attempts=tuple(attempts))


REPAIRS: tuple[Strategy, ...] = (onto_constraints, at_zero, slacks_as_returned, into_the_dual)
_ON_ONE_PROGRAM: tuple[Strategy, ...] = (*REPAIRS, existence, no_solution, with_margin)
ESCALATION: tuple[Strategy, ...] = (*_ON_ONE_PROGRAM, smaller_face, next_solver)
