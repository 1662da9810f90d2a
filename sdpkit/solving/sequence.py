"""Several programs for one answer: how a problem leads from one to the next, and what is kept.

Some problems are not one program but a sequence: minimum volume embedding takes a new cost from
every answer, FULL adds the constraints that the last answer violates, multi-pass LMNN finds new
target neighbours. Such a problem has a method

    advance(solutions, tol) -> Program | Ending

which sees the certified solutions of all programs so far (none, at first) and returns what is to
be solved next, or why it ends. It is a function of what it sees: no state is kept elsewhere.
`sdpkit.solve` runs the loop. A method `progress(solution)`, if the problem has one, names the
numbers that are worth following from step to step.

The status of the whole is granted like any other: what an `Ending` claims holds only if the
certificate of the answer passes, against the program that the ending names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from sdpkit.certificate.certify import certify
from sdpkit.errors import InputError
from sdpkit.numerics.deadline import Abandoned
from sdpkit.numerics.interruption import is_interrupted
from sdpkit.numerics.kernels import clock
from sdpkit.program.form import Program
from sdpkit.program.gram import is_finite
from sdpkit.solution.answer import Settings, Stop
from sdpkit.solution.solution import WITHOUT_OPTIMUM, Solution, Status, Times
from sdpkit.solving.run import compiling
from sdpkit.typing import Array

_GOOD = (Status.OPTIMAL, Status.STATIONARY)


@dataclass(frozen=True, eq=False)
class Ending:
    """Why a sequence of programs ends, and with what.

    Attributes
    ----------
    reason : str
        In words.
    status : Status
        What the answer is, if its certificate passes: optimal, stationary, or a limit.
    answer : Solution or None
        The step that is the answer; None is the last.
    program : Program or None
        The answer's program with constraints that it left out; the answer is certified for it.
    dual : array of shape (m,) or None
        The answer's multipliers for the constraints of `program`.

    Examples
    --------
    >>> Ending("no pair is too close").status
    <Status.STATIONARY: 'stationary'>
    """

    reason: str
    status: Status = Status.STATIONARY
    answer: Solution | None = None
    program: Program | None = None
    dual: Array | None = None


class Advancing(Protocol):
    """A problem that takes several programs."""

    def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
        """The next program, or the end."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The steps of a solve that took several programs, each with its own certificate.

    Attributes
    ----------
    steps : tuple of Solution
        One solution per program, in order.
    progress : mapping
        Name → (n_steps,) what the problem follows from step to step, "objective" always.
    reason : str
        Why it ended there.

    Examples
    --------
    >>> import sdpkit
    >>> X, star = sdpkit.datasets.spokes(5, 2), sdpkit.datasets.star_graph(5, 2)
    >>> solution = sdpkit.solve(sdpkit.MVE(X, graph=star, n_components=2))
    >>> len(solution.trajectory), solution.trajectory[-1].status
    (2, <Status.OPTIMAL: 'optimal'>)
    >>> solution.trajectory.progress["fidelity"].round(4)
    array([1., 1.])
    """

    steps: tuple[Solution, ...]
    progress: Mapping[str, Array] = field(repr=False)
    reason: str

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.steps)

    def __getitem__(self, step: int) -> Solution:
        return self.steps[step]

    def __str__(self) -> str:
        names = list(self.progress)
        head = "step  " + "  ".join(f"{name:>14}" for name in names)
        lines = [f"{head}  {'status':<12} gap      iterations"]
        for k, step in enumerate(self.steps):
            values = "  ".join(f"{self.progress[name][k]:>14.8g}" for name in names)
            gap, iterations = step.certificate.relative_gap, step.iterations
            lines.append(f"{k + 1:>4}  {values}  {step.status:<12} {gap:.1e}  {iterations}")
        return "\n".join([*lines, f"ended: {self.reason}"])

    def plot(self, ax: Any = None) -> Any:
        """Draw what the problem follows against the steps. Needs matplotlib."""
        from sdpkit.plotting import plot_trajectory

        return plot_trajectory(self, ax)


def follow(
    problem: Advancing, solve_one: Callable[[Program, Settings], Solution], settings: Settings
) -> Solution:
    """Solve the problem's programs one after the other; the answer holds the trajectory.

    Each starts from the solution before. The time limit covers all of them. A step that has no
    solution, or that ran into a limit, ends the sequence with its own status.
    """
    steps: tuple[Solution, ...] = ()
    while True:
        started = clock()
        upcoming = _forced_end(steps) or _next(problem, steps, settings)
        if isinstance(upcoming, Ending):
            return _conclude(problem, steps, upcoming, settings.tol)
        if steps:
            settings = replace(settings, warm_start=_fitted(steps[-1], upcoming))
        compiled = clock() - started
        try:
            step = solve_one(upcoming, settings)
        except Abandoned:  # before a solver was called
            return _conclude(problem, steps, _out_of_time(steps), settings.tol)
        steps = (*steps, replace(step, times=replace(step.times, compile=compiled)))


def _next(problem: Advancing, steps: tuple[Solution, ...], settings: Settings) -> Program | Ending:
    """The next program, or the end; also where the time is over, once there is a step."""
    try:
        with compiling(settings.deadline):
            upcoming = problem.advance(steps, settings.tol)
        if isinstance(upcoming, Program) and steps:
            settings.deadline.check()
    except Abandoned:
        return _out_of_time(steps)
    return upcoming


def _out_of_time(steps: tuple[Solution, ...]) -> Ending:
    """The end where a program was abandoned; without a step before it, `Abandoned` again."""
    if not steps:
        raise Abandoned("before the first step")
    if is_interrupted():
        return Ending("interrupted", Status.INTERRUPTED, _reliable(steps))
    return Ending("the time limit was reached", Status.TIME_LIMIT, _reliable(steps))


def _forced_end(steps: tuple[Solution, ...]) -> Ending | None:
    """The end that the last step forces, or None."""
    return _broken(steps) or _interrupted(steps)


def _fitted(solution: Solution, program: Program) -> Solution:
    """A solution as a start for a program that may have further constraints at the end."""
    missing = program.n_rows - solution.program.n_rows
    if missing <= 0 or solution.dual is None:
        return solution
    return replace(solution, dual=np.concatenate([solution.dual, np.zeros(missing)]))


def _reliable(steps: tuple[Solution, ...]) -> Solution:
    """The last step that was certified, or else the last."""
    certified = [step for step in steps if step.status in _GOOD]
    return certified[-1] if certified else steps[-1]


def _interrupted(steps: tuple[Solution, ...]) -> Ending | None:
    """Ctrl-C and a callback's wish end the sequence, even where the last step was certified."""
    if not steps or not (is_interrupted() or steps[-1].stop is Stop.INTERRUPTED):
        return None
    return Ending("interrupted", Status.INTERRUPTED, _reliable(steps))


def _broken(steps: tuple[Solution, ...]) -> Ending | None:
    """The end that a step forces, or None. An inaccurate step may still lead on."""
    if not steps or steps[-1].status in _GOOD:
        return None
    last = steps[-1]
    usable = all(is_finite(m) for m in last.matrices)
    if last.status is Status.INACCURATE and usable:
        return None
    no_solution = last.status in WITHOUT_OPTIMUM
    answer = last if no_solution else _reliable(steps)
    return Ending(f"program {len(steps)} ended {last.status}", last.status, answer)


def _conclude(
    problem: Advancing, steps: tuple[Solution, ...], ending: Ending, tol: float
) -> Solution:
    if not steps:
        raise InputError(f"{problem!r} ended before its first program: {ending.reason}")
    if len(steps) == 1 and ending.status is Status.OPTIMAL and ending.program is None:
        return steps[0]  # one program was all it took
    answer = ending.answer or steps[-1]
    trajectory = Trajectory(steps, _progress(problem, steps), ending.reason)
    if ending.program is not None:
        answer = _certified_for(answer, ending.program, ending.dual)
    status, message = _granted(answer, ending, len(steps), tol)
    counts = [step.iterations for step in steps if step.iterations is not None]
    return replace(
        answer,
        status=status,
        message=message,
        iterations=sum(counts) if counts else None,
        times=Times(*(sum(spent) for spent in zip(*map(_seconds, steps), strict=True))),
        notes=_notes(steps, ending),
        trajectory=trajectory,
    )


def _notes(steps: tuple[Solution, ...], ending: Ending) -> tuple[str, ...]:
    """Every note once, the ending's program last."""
    notes = [note for step in steps for note in step.notes]
    notes += ending.program.notes if ending.program is not None else ()
    return tuple(dict.fromkeys(notes))


def _seconds(solution: Solution) -> tuple[float, float, float, float]:
    t = solution.times
    return t.compile, t.setup, t.solve, t.certify


def _progress(problem: Advancing, steps: tuple[Solution, ...]) -> dict[str, Array]:
    follows = getattr(problem, "progress", None)
    rows = []
    for step in steps:
        usable = all(is_finite(m) for m in step.matrices)
        followed = follows(step) if callable(follows) and usable else {}
        rows.append({"objective": step.objective, **followed})
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}


def _certified_for(answer: Solution, program: Program, dual: Array | None) -> Solution:
    certificate = certify(program, answer.matrices, answer.x, dual, answer.rows, answer.smoothing)
    return replace(
        answer,
        program=program,
        dual=dual,
        certificate=certificate,
        objective=certificate.objective,
        dual_objective=certificate.dual_objective,
    )


def _granted(answer: Solution, ending: Ending, n_steps: int, tol: float) -> tuple[Status, str]:
    count = f"{n_steps} program{'' if n_steps == 1 else 's'}"
    proof = f"certified to a relative gap of {answer.certificate.gap_in_words}"
    if ending.status not in (Status.OPTIMAL, Status.STATIONARY):
        if n_steps == 1 and ending.status is answer.status:
            return ending.status, answer.message
        words = answer.message if ending.status is answer.status else f"the answer is {proof}"
        return ending.status, f"{ending.reason} after {count}: {words}"
    failures = answer.certificate.failures(tol)
    if failures:
        words = "; ".join(failures)
        return Status.INACCURATE, f"{ending.reason} after {count}, but tol {tol:g} fails: {words}"
    of_what = "" if ending.status is Status.OPTIMAL else "its program is "
    return ending.status, f"{ending.reason} after {count}; {of_what}{proof}"
