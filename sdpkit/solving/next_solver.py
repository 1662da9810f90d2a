"""Other solvers, one after the other, where the answer of the first does not pass.

Only for `solver="auto"`. The order is that of the forecasts, so that it is the same on every run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from sdpkit.errors import SolverError
from sdpkit.numerics.deadline import Deadline
from sdpkit.numerics.interruption import is_interrupted
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.attempt import Attempt
from sdpkit.solving.candidate import Candidate
from sdpkit.solving.choice import Choice, Offer
from sdpkit.solving.run import Run

# What the next solver is given of the time that is left, unless it is the last one.
_SHARE = 0.5
# Without a limit, a further solver is given so many times what was spent before it, and seconds.
_PATIENCE, _LEAST_SECONDS = 10.0, 60.0
# A solver that expects to need so many times what it would be given is not called.
_HOPELESS = 3.0


def may_be_asked(run: Run, candidate: Candidate) -> bool:
    """Whether another solver may do better, and the user left the choice open.

    Options, limits on iterations and a rank belong to what was asked; and what a ray or Ctrl-C
    has ended is not begun again.
    """
    if run.solver != "auto" or run.settings.options or run.deadline.is_over:
        return False
    stop, iterations = candidate.answer.stop, run.settings.max_iter
    stopped = stop is Stop.INTERRUPTED or (stop is Stop.ITERATION_LIMIT and iterations is not None)
    limited = any(block.max_rank is not None for block in candidate.program.blocks)
    ended = candidate.passes or candidate.ray is not None or is_interrupted()
    return not (stopped or limited or ended)


def further_answers(run: Run, first: Candidate) -> Iterator[tuple[Choice, Answer]]:
    """The answers of the other suitable solvers, as they are asked for.

    A solver that breaks down has an answer too, `Stop.FAILED` with its words.
    """
    program, spent = first.program, _seconds(first.answer)
    others = [o for o in run.offers(program) if o.solver.name != first.solver.name]
    for k, offer in enumerate(others):
        if run.deadline.is_over or is_interrupted():
            return
        deadline = _deadline(run, spent, is_last=k == len(others) - 1)
        if math.isfinite(offer.estimate.seconds) and _is_hopeless(offer, deadline):
            continue
        choice = Choice(offer.solver, f"auto: called after {first.solver.name}, which did not pass")
        settings = replace(run.settings, deadline=deadline, checkpoint=None, warm_start=None)
        answer = _asked(run, program, choice, settings)
        spent += _seconds(answer)
        yield choice, answer


def attempt_of(candidate: Candidate) -> Attempt:
    """What a candidate reached."""
    certificate, answer = candidate.certificate, candidate.answer
    outcome = str(answer.stop)
    if candidate.ray is not None:
        outcome = candidate.ray.kind
    elif candidate.passes:
        outcome = "certified"
    reached = certificate.largest_error
    reached = reached if math.isfinite(reached) else math.inf
    return Attempt(candidate.solver.name, reached, _seconds(answer), outcome, answer.native_status)


def is_better(one: Candidate, other: Candidate) -> bool:
    """Whether the first is settled or nearer to passing than the second."""
    if one.is_settled != other.is_settled:
        return one.is_settled
    return attempt_of(one).reached < attempt_of(other).reached


def _asked(run: Run, program: Program, choice: Choice, settings: Settings) -> Answer:
    try:
        return run.ask(program, choice.solver, settings)
    except SolverError as error:
        return Answer(Stop.FAILED, str(error))


def _deadline(run: Run, spent: float, is_last: bool) -> Deadline:
    if run.deadline.left == math.inf:
        return Deadline.after(max(_LEAST_SECONDS, _PATIENCE * spent)).within(run.deadline)
    return run.deadline if is_last else run.deadline.share(_SHARE)


def _is_hopeless(offer: Offer, deadline: Deadline) -> bool:
    return offer.estimate.seconds > _HOPELESS * deadline.left


def _seconds(answer: Answer) -> float:
    return answer.setup_time + answer.solve_time
