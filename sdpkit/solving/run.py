"""One call of the user while it runs, and the only place in the package that calls a solver.

`Run.ask` is that call, with everything that guards it (`solved_aside` is the same for conic models
that are no program):

    time        a solver of ours that expects to need far more than is left works in a process that
                can be stopped, where a step may outlast the limit
    memory      an allocation that fails becomes an error that names the solver
    breakdowns  of floating point in a solver of ours are an answer, `Stop.FAILED`; whatever another
                package's solver raises is an error of ours that names it
    Ctrl-C      is remembered by our solvers, and raised in those of others
    families    of constraints are written out in parts for solvers that cannot search them
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from sdpkit.errors import (
    NotEnoughMemoryError,
    OutOfMemoryError,
    SdpkitError,
    SolverError,
)
from sdpkit.files import reading
from sdpkit.numerics.breakdown import broke_down, is_breakdown
from sdpkit.numerics.deadline import Abandoned, Deadline
from sdpkit.numerics.interruption import is_interrupted, raising_interrupts
from sdpkit.numerics.kernels import clock
from sdpkit.numerics.threads import one_thread_for_new_libraries
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop, check_answer
from sdpkit.solution.driver import SETUP_SECONDS, Driver
from sdpkit.solution.process import apart, can_fork
from sdpkit.solution.solver import Solver
from sdpkit.solving.candidate import Candidate
from sdpkit.solving.choice import Choice, Offer, choose, estimate, offers, refusal, suitable
from sdpkit.solving.registry import get_solver, is_ours

# A forecast of so many times the limit means that the limit will be met.
_FAR_MORE = 3.0
# What the first solver is given of the time, where another one may be called after it.
_FIRST_SHARE = 0.5
# What auxiliary programs are given of the time that is left.
_AUXILIARY_SHARE = 0.5
# How long the certificate may take beyond the limit: seconds, and a share of the limit.
_LEAST_CERTIFICATE_SECONDS = 0.5
_CERTIFICATE_SECONDS, _CERTIFICATE_SHARE = 0.8, 0.1


@dataclass(frozen=True)
class Run:
    """What the user asked for.

    Attributes
    ----------
    settings: with the deadline of the whole call
    time_limit: the seconds that there were at its beginning, infinite without a limit
    solver: a name, or "auto"
    problem: the object that was passed to `solve`
    """

    settings: Settings
    solver: str = "auto"
    problem: Any = None
    time_limit: float = math.inf

    @property
    def deadline(self) -> Deadline:
        """The end of the whole call."""
        return self.settings.deadline

    @property
    def certificate_deadline(self) -> Deadline:
        """A little later: a point that was found in time is worth its certificate."""
        share = 0.0 if math.isinf(self.time_limit) else _CERTIFICATE_SHARE * self.time_limit
        return self.deadline.later(_CERTIFICATE_SECONDS + share)

    def choose(self, program: Program) -> Choice:
        """The solver that the user named, or the cheapest."""
        if self.solver == "auto":
            return choose(program, self.settings.tol)
        solver = get_solver(self.solver)
        refused = refusal(solver, program)
        if refused is not None:
            raise refused
        return Choice(solver, "as asked")

    def offers(self, program: Program) -> list[Offer]:
        """The offers of solvers that take the program, in the order in which they are called."""
        return suitable(offers(program, self.settings.tol))

    def first_answer(self, program: Program, choice: Choice) -> Answer:
        """The answer of the solver that was chosen. Where another one may follow, it has half of
        the time, and its breakdown is an answer."""
        follow = self.solver == "auto" and not self.settings.options
        if not follow or not any(o.solver.name != choice.solver.name for o in self.offers(program)):
            return self.ask(program, choice.solver)
        settings = replace(self.settings, deadline=self.deadline.share(_FIRST_SHARE))
        try:
            return self.ask(program, choice.solver, settings)
        except SolverError as error:
            return Answer(Stop.FAILED, str(error))

    def candidate(self, program: Program, choice: Choice, answer: Answer) -> Candidate:
        """An answer, repaired and certified within the time; a small program always is."""
        deadline = self.certificate_deadline.at_least(_LEAST_CERTIFICATE_SECONDS)
        return Candidate.within(deadline, program, choice, self.settings.tol, answer)

    def ask_aside(
        self,
        program: Program,
        solver: Solver,
        tol: float = 1e-8,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> Answer | None:
        """The answer to an auxiliary program; None where the solver does not take it or breaks
        down, or where there is no time left.

        Callback, start and checkpoint belong to the program of the user and are left out.
        """
        if self.deadline.is_over or refusal(solver, program) is not None:
            return None
        settings = replace(
            self.settings,
            tol=tol,
            deadline=self.deadline.share(_AUXILIARY_SHARE),
            callback=None,
            warm_start=None,
            checkpoint=None,
            options=options,
        )
        try:
            return self.ask(program, solver, settings)
        except SolverError:
            return None

    def ask(self, program: Program, solver: Solver, settings: Settings | None = None) -> Answer:
        """The solver's answer to `program`; by default with the settings of the run."""
        settings = self.settings if settings is None else settings
        started = clock()
        if program.family is not None and not solver.capabilities.families:
            from sdpkit.solving.generation import by_rows  # it compiles kernels

            try:
                return by_rows(program, solver, settings, self.ask)
            except Abandoned:
                return _cut_short(solver, clock() - started)
        if is_interrupted():
            return _cut_short(solver, 0.0)
        one_thread_for_new_libraries()  # choosing a solver may have loaded some
        ours = is_ours(solver)
        before = "" if ours else program.fingerprint

        call = _call_of(solver, program, settings)
        try:
            setup = settings.deadline.later(SETUP_SECONDS)
            with setup.applies(), nullcontext() if ours else raising_interrupts():
                must_fork = ours and _may_outlast(program, solver, settings)
                answer = _in_a_process(call, solver, settings) if must_fork else call()
        except Abandoned:
            return _cut_short(solver, clock() - started)
        except KeyboardInterrupt:
            if ours or not is_interrupted():
                raise  # not remembered: it belongs to the caller
            answer = Answer(Stop.INTERRUPTED, f"{solver.name} was interrupted")
        except Exception as error:
            answer = _after_error(error, program, solver, settings, ours)
        check_answer(program, solver.name, answer)
        if before and replace(program).fingerprint != before:
            raise SolverError(f"solver {solver.name!r} changed the program that it was given")
        if before and not answer.setup_time + answer.solve_time:
            answer = replace(answer, solve_time=clock() - started)  # it did not look at the clock
        if is_interrupted() and answer.stop is Stop.FAILED:
            answer = replace(answer, stop=Stop.INTERRUPTED)  # Ctrl-C is why, or might as well be
        return answer


def solved_aside(make: Callable[[], Any], deadline: Deadline) -> Any | None:
    """What a solver of another package returns that takes no program; None where it breaks down,
    and where the time is over. `make` gives the solver its model."""
    if deadline.is_over:
        return None
    one_thread_for_new_libraries()
    try:
        with deadline.applies(), raising_interrupts():
            return _call_of(make())()
    except Abandoned:
        return None
    except KeyboardInterrupt:
        if not is_interrupted():
            raise
        return None
    except (ValueError, RuntimeError, MemoryError, ArithmeticError):
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # clarabel's own, of no importable class
            raise
        return None


def _call_of(solver: Any, *arguments: Any) -> Callable[[], Any]:
    """The call of a solver."""
    return partial(solver.solve, *arguments)


@contextmanager
def compiling(deadline: Deadline) -> Iterator[None]:
    """Code of a problem, which is `Abandoned` when the time is over or Ctrl-C is pressed."""
    try:
        with deadline.applies(), raising_interrupts():
            yield
    except KeyboardInterrupt:
        if not is_interrupted():
            raise
        raise Abandoned("Ctrl-C was pressed") from None


def _cut_short(solver: Solver, seconds: float) -> Answer:
    """The answer of a solver that had no time to find anything."""
    if is_interrupted():
        words = f"{solver.name} was stopped by Ctrl-C before its first point"
        return Answer(Stop.INTERRUPTED, words, solve_time=seconds)
    words = f"time limit after 0 iterations, before {solver.name} had a point"
    return Answer(Stop.TIME_LIMIT, words, solve_time=seconds)


def _may_outlast(program: Program, solver: Solver, settings: Settings) -> bool:
    """Whether one of its steps may take longer than all the time that is left."""
    limit = settings.time_limit
    stops_itself = solver.capabilities.stops_itself
    if limit is None or settings.callback is not None or stops_itself or not can_fork():
        return False
    return estimate(solver, program, settings.tol).seconds >= _FAR_MORE * limit


def _in_a_process(call: Callable[[], Answer], solver: Solver, settings: Settings) -> Answer:
    """The same in a process that is stopped soon after the limit."""
    limit = settings.deadline.left
    returned = apart(call, limit + min(1.0, max(0.1, 0.1 * limit)))
    if returned.stop is None:
        found: Answer = returned.value
        return found
    return Answer(returned.stop, f"{solver.name} {returned.words}", solve_time=limit)


def _after_error(
    error: Exception, program: Program, solver: Solver, settings: Settings, ours: bool
) -> Answer:
    """An answer where floating point broke down in a solver of ours; else an error is raised.

    Errors of callbacks are the user's, and what goes wrong with a state that was read from a file
    is the file's fault.
    """
    if isinstance(error, MemoryError) and not isinstance(error, SdpkitError):
        told = f" ({error})" if str(error) else ""
        raise OutOfMemoryError(
            f"solver {solver.name!r} ran out of memory{told}; it had expected to need "
            f"{estimate(solver, program, settings.tol).memory / 2**30:.2g} GiB. Use another "
            "solver, or make the instance smaller."
        ) from error
    if isinstance(error, NotEnoughMemoryError | OutOfMemoryError):
        raise error
    checkpoint = settings.checkpoint
    if checkpoint is not None and not checkpoint.is_new:
        with reading(checkpoint.path, f"a checkpoint of solver {solver.name!r}"):
            raise error
    if isinstance(error, SdpkitError):
        raise error
    if not ours:
        words = f"solver {solver.name!r} broke down with {type(error).__name__}: {error}"
        raise SolverError(f"{words}. Try another solver, or tell its authors") from error
    if not is_breakdown(error, besides=Driver.call_back):
        raise error
    return Answer(Stop.FAILED, broke_down(error))


__all__ = ["Run", "compiling", "solved_aside"]
