"""`sdpkit.solve`: compile, choose, ask, certify, escalate, and say how it ended.

The steps of one solve, and where they are written:

    Deadline      made here, once; everything that can take long asks it (`numerics.deadline`)
    Run.ask       calls the solver, with all guards (`run`)
    Candidate     the answer, repaired exactly where that is possible, and certified (`candidate`)
    ESCALATION    what is tried where that does not pass (`escalation`)
    verdict       the status, from the certificate alone (`verdict`)

A problem that takes several programs runs them through the same steps (`sequence`).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from sdpkit.certificate.certificate import Certificate
from sdpkit.errors import InputError, convergence_warning
from sdpkit.inputs import positive
from sdpkit.layout import LARGEST
from sdpkit.numerics.deadline import UNSTOPPED, Abandoned, Deadline, current_deadline
from sdpkit.numerics.interruption import is_interrupted, remembering_interrupts
from sdpkit.numerics.kernels import clock
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram
from sdpkit.solution.answer import Settings, Stop
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solution.progress import LOG, Progress, shown
from sdpkit.solution.solution import WITHOUT_OPTIMUM, Solution, Status, Times
from sdpkit.solution.solver import Solver
from sdpkit.solving.candidate import Candidate
from sdpkit.solving.escalation import ESCALATION, escalate
from sdpkit.solving.registry import available_solvers, get_solver
from sdpkit.solving.run import Run, compiling
from sdpkit.solving.sequence import Advancing, follow
from sdpkit.solving.trivial import answer_without_solver
from sdpkit.solving.verdict import verdict

# How a solve may end without a warning.
_CLEAR = (Status.OPTIMAL, Status.STATIONARY, *WITHOUT_OPTIMUM)


class Problem(Protocol):
    """Anything that compiles to a program.

    It may have a method `retry(tried)` as well, which returns another program with the same
    optimum, or None: that is solved where the answer to `tried` does not pass.
    """

    def program(self) -> Program:
        """The problem in the common form."""


@one_blas_thread
def solve(
    problem: Problem | Advancing | Program,
    solver: str = "auto",
    tol: float | None = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    verbose: int = 0,
    callback: Callable[[Mapping[str, Any]], Any] | None = None,
    warm_start: Solution | None = None,
    checkpoint: str | Path | None = None,
    **options: Any,
) -> Solution:
    """Solve a problem object or a `Program` and certify the answer.

    Parameters
    ----------
    problem : problem object or Program
        Anything with a `program()` method, or a `Program`; a problem with an `advance()` method
        takes several programs, each started from the one before.
    solver : str, default "auto"
        A name from `available_solvers()`, or "auto", which takes the solver with the smallest
        forecast of seconds.
    tol : float or None, default None
        The certified relative gap, and the residuals, at which an answer counts as optimal; None
        takes the problem's `default_tol`, else 1e-6.
    max_iter : int or None, default None
        The limit on iterations; None leaves it to the solver.
    time_limit : float or None, default None
        The limit in seconds. It covers compiling, all programs and the certificate, but not the
        compilation of kernels on a first call. A solver that may outlast it works in a separate
        process, which is stopped.
    verbose : int, default 0
        0 is silent; 1 prints a line that updates, and the solution at the end; 2 prints a line per
        iteration and the output of solvers that print. The logger `sdpkit` gets the same.
    callback : callable or None, default None
        Called with a mapping once per iteration by solvers that can, else once at the end. If it
        returns True, the solver stops, and the best point is certified as `interrupted`.
    warm_start : Solution or None, default None
        A solution of this or a nearby program.
    checkpoint : str or path or None, default None
        A file to which the solver's state is written every half minute, and from which it resumes
        if the file exists; of several programs, the state of the first. A file that cannot be
        written is a warning.
    **options : object
        Passed to the solver unchanged.

    Returns
    -------
    Solution
        The answer, with the status that its certificate grants.

    Raises
    ------
    InputError
        If an argument cannot be used.
    SolverError
        If the solver is not available, does not accept the program, or needs more memory than there
        is.

    Examples
    --------
    >>> import sdpkit
    >>> pentagon = sdpkit.datasets.cycle_graph(5)
    >>> solution = sdpkit.solve(sdpkit.MVU(graph=pentagon), solver="clarabel")
    >>> solution.status.value, round(solution.objective, 5)      # 5 / (4 sin²(π/5))
    ('optimal', 3.61803)
    """
    _check_arguments(problem, solver, callback, warm_start)
    tol = positive(getattr(problem, "default_tol", 1e-6) if tol is None else tol, "tol")
    max_iter = None if max_iter is None else _whole("max_iter", max_iter)
    time_limit = None if time_limit is None else positive(time_limit, "time_limit")
    deadline = Deadline.after(time_limit).within(current_deadline())
    settings = Settings(tol, max_iter, deadline, verbose, callback, warm_start, options)
    settings = replace(settings, progress=Progress(sys.stdout) if verbose == 1 else None)
    run = Run(settings, solver, problem, time_limit=deadline.left)
    solve_it = _solve_steps if callable(getattr(problem, "advance", None)) else solve_program
    with shown(verbose), remembering_interrupts():
        try:
            solution = solve_it(run, problem, checkpoint)
        except Abandoned:
            solution = _without_program(run)
        _tell(solution, run.settings)
    if solution.status not in _CLEAR:
        warnings.warn(f"{solution.status}: {solution.message}", convergence_warning(), stacklevel=3)
    return solution


def _tell(solution: Solution, settings: Settings) -> None:
    """The last line of what `verbose` shows, and the log."""
    if settings.progress is not None:
        settings.progress.close()
    LOG.info(solution if solution.trajectory is None else f"{solution.trajectory}\n{solution}")


def _solve_steps(run: Run, problem: Any, checkpoint: str | Path | None) -> Solution:
    """Several programs, one after the other."""
    files = iter([checkpoint])  # the first program's; those after it depend on its answer

    def solve_step(program: Program, settings: Settings) -> Solution:
        return solve_program(replace(run, settings=settings), program, next(files, None))

    return follow(problem, solve_step, run.settings)


def solve_program(run: Run, problem: Any, checkpoint: str | Path | None = None) -> Solution:
    """Compile, choose, ask, certify, escalate: one program."""
    started = clock()
    with compiling(run.certificate_deadline):
        program = compiled_program(problem)
        compiled = clock() - started
        choice = run.choose(program)
        at_once = answer_without_solver(program)
    file = None if checkpoint is None else _checkpoint(checkpoint, program, choice.solver)
    start = _usable(run.settings.warm_start)
    run = replace(run, settings=replace(run.settings, warm_start=start, checkpoint=file))
    answer = at_once or run.first_answer(program, choice)
    asked, spent = clock(), answer.setup_time + answer.solve_time
    candidate = escalate(run, run.candidate(program, choice, answer), ESCALATION)
    further = candidate.answer.setup_time + candidate.answer.solve_time - spent
    solution = _solution(candidate, compiled, max(clock() - asked - further, 0.0))
    if run.settings.callback is not None and not choice.solver.capabilities.callback:
        gap = solution.certificate.relative_gap
        with UNSTOPPED.applies():
            run.settings.callback({"objective": solution.objective, "gap": gap})
    return solution


def _solution(candidate: Candidate, compiled: float, certified: float) -> Solution:
    program, answer, certificate = candidate.program, candidate.answer, candidate.certificate
    status, message = verdict(certificate, candidate.ray, answer, candidate.tol)
    return Solution(
        status=status,
        native_status=answer.native_status,
        message=message,
        objective=certificate.objective,
        dual_objective=certificate.dual_objective,
        certificate=certificate,
        program=program,
        matrices=candidate.matrices,
        x=candidate.x,
        dual=candidate.dual,
        ray=candidate.ray,
        solver=candidate.solver.name,
        reason=candidate.choice.reason,
        iterations=answer.iterations,
        times=Times(compiled, answer.setup_time, answer.solve_time, certified),
        history=answer.history,
        notes=(*program.notes, *(note for note in answer.notes if note not in program.notes)),
        rows=answer.rows,
        smoothing=answer.smoothing,
        stop=answer.stop,
        attempts=candidate.attempts,
    )


def _without_program(run: Run) -> Solution:
    """What is left where the time was over before a solver was called: a status and no point."""
    interrupted = is_interrupted()
    stop = Stop.INTERRUPTED if interrupted else Stop.TIME_LIMIT
    name, program = type(run.problem).__name__, run.problem
    if not isinstance(program, Program):
        program = Program.of(Block.of(1, np.ones((1, 1))), [0.0], name=f"{name}, not compiled")
    why = "Ctrl-C was pressed" if interrupted else "the time limit was over"
    advice = "" if interrupted else " Raise time_limit, or make the instance smaller."
    certificate = Certificate.missing(program, "no solver was called")
    return Solution(
        status=Status.INTERRUPTED if interrupted else Status.TIME_LIMIT,
        native_status="",
        message=f"{why} while {name} was prepared for a solver; there is no point.{advice}",
        objective=certificate.objective,
        dual_objective=certificate.dual_objective,
        certificate=certificate,
        program=program,
        matrices=(),
        x=np.zeros(0),
        dual=None,
        ray=None,
        solver=run.solver,
        reason="no solver was called",
        iterations=None,
        times=Times(),
        stop=stop,
    )


def compiled_program(problem: Problem | Program) -> Program:
    """A program as it is, a problem compiled; anything else is refused."""
    if isinstance(problem, Program):
        return problem
    if not callable(getattr(problem, "program", None)):
        if type(problem).__module__.startswith("cvxpy."):
            raise InputError(
                "solve takes a problem object or a Program, and this is a model of cvxpy. Write "
                "sdpkit.solve(sdpkit.from_cvxpy(model)), or sdpkit.register() and "
                "model.solve(solver='SDPKIT')"
            )
        raise InputError(
            f"solve takes a problem object or a Program, not {type(problem).__name__}; "
            "wrap the data first, e.g. sdpkit.MVU(X)"
        )
    return problem.program()


def first_program(problem: Problem | Advancing | Program) -> Program:
    """The program that a solve begins with: the only one, or the first of several."""
    if not callable(getattr(problem, "advance", None)):
        return compiled_program(cast(Problem | Program, problem))
    first = cast(Advancing, problem).advance((), 1e-6)
    if not isinstance(first, Program):
        raise InputError(f"{problem!r} ended before its first program: {first.reason}")
    return first


def _check_arguments(problem: Any, solver: Any, callback: Any, warm_start: Any) -> None:
    if isinstance(problem, type):
        raise InputError(f"solve takes a problem, not its class: {problem.__name__}(…) makes one")
    if not isinstance(solver, str):
        raise InputError(f"solver is {solver!r}; pass one name, and several to sdpkit.compare")
    if callback is not None and not callable(callback):
        raise InputError(f"callback is {callback!r}; pass a function of one mapping")
    if warm_start is not None and not isinstance(warm_start, Solution):
        raise InputError(f"warm_start is a {type(warm_start).__name__}; pass a Solution")


def _usable(warm: Solution | None) -> Solution | None:
    """A start of numbers that can be multiplied; None for one with NaN, infinity or numbers near
    overflow, such as the last point of a failed run. Engines check its shapes.
    """
    if warm is None:
        return None
    operators = [m for m in warm.matrices if isinstance(m, Gram)]
    arrays = [m for m in warm.matrices if not isinstance(m, Gram)]
    vectors = [v for v in (warm.x, warm.dual, warm.rows) if v is not None]
    for array, axes in [*((a, 2) for a in arrays), *((v, 1) for v in vectors)]:
        if not isinstance(array, np.ndarray) or array.ndim != axes or array.dtype.kind not in "iuf":
            raise InputError(
                "warm_start holds matrices, x, dual or rows that are not arrays of real numbers: "
                "pass a Solution as sdpkit.solve returned it"
            )
    if warm.rows is not None and warm.rows.dtype.kind not in "iu":
        raise InputError(f"warm_start.rows has dtype {warm.rows.dtype}: expected whole numbers")
    numbers = [*arrays, *vectors, *(m @ np.ones(m.shape[0]) for m in operators)]
    usable = warm.matrices and all((np.abs(v) <= LARGEST).all() for v in numbers)
    return warm if usable else None


def _checkpoint(path: str | Path, program: Program, solver: Solver) -> Checkpoint:
    if not solver.capabilities.checkpoint:
        able = [name for name in available_solvers() if get_solver(name).capabilities.checkpoint]
        raise InputError(
            f"solver {solver.name!r} cannot write checkpoints. Use one of {', '.join(able)}."
        )
    return Checkpoint(path, program.fingerprint, solver.name)


def _whole(name: str, value: float) -> int:
    if positive(value, name) != int(value):
        raise InputError(f"{name}={value!r}: pass an integer of at least 1")
    return int(value)


__all__ = ["Problem", "compiled_program", "first_program", "solve", "solve_program"]
