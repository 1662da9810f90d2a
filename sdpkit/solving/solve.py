"""`sdpkit.solve`: choose, compile, call, repair, certify.

The status is granted here from the certificate alone:

    optimal                        gap, residuals and eigenvalues meet tol
    infeasible                     a ray, or a chain of faces without points, was found and checked
    unbounded                      a direction was checked, and a feasible point is proven
    infeasible_or_unbounded        a direction was checked, but no feasible point is known
    time_limit, iteration_limit,   the solver stopped there, and the certificate does not pass
    interrupted
    stationary                     the end of a search over several programs, each certified
    inaccurate                     anything else; the message says what was reached

Two questions are asked in a second call, as programs of their own:

* a solver that claims there is no solution rarely hands out its ray through a modelling layer.
  Infeasibility is the dual of the *elastic* program  min Σ|residual|, unboundedness the
  *recession* program  max <C, M> over rows with right-hand side zero and tr M ≤ 1. Whether
  there is a feasible point is asked of `interior` (`sdpkit.solving.feasibility`).
* where no repair of the dual is known and it misses feasibility by rounding, the program is
  solved once more with a margin, S ⪰ δI, which moves the value by δ·tr M only.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from sdpkit.certificate.certify import certify
from sdpkit.errors import (
    InputError,
    NotEnoughMemoryError,
    OutOfMemoryError,
    SdpkitError,
    SolverError,
)
from sdpkit.files import reading
from sdpkit.inputs import positive
from sdpkit.layout import LARGEST
from sdpkit.numerics.kernels import clock
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solution.interruption import (
    is_interrupted,
    raising_interrupts,
    remembering_interrupts,
)
from sdpkit.solution.process import apart, can_fork
from sdpkit.solution.progress import LOG, Progress, shown
from sdpkit.solution.solution import WITHOUT_OPTIMUM, Solution, Status
from sdpkit.solution.solver import Solver
from sdpkit.solving.asking import answer_of
from sdpkit.solving.choice import choose, estimate, refusal
from sdpkit.solving.judgement import ConvergenceWarning, convergence_warning, judge
from sdpkit.solving.margin import wants_margin, with_margin
from sdpkit.solving.rays import elastic, recession
from sdpkit.solving.registry import available_solvers, get_solver, is_ours
from sdpkit.solving.sequence import Advancing, follow
from sdpkit.typing import Array

# A forecast of so many times the limit means that the limit will be met.
_FAR_MORE = 3.0
# The time limit of a solver that is called when there is no time left.
_LEAST_SECONDS = 1e-3
# How a solve may end without a warning.
_CLEAR = (
    Status.OPTIMAL,
    Status.STATIONARY,
    *WITHOUT_OPTIMUM,
)


class Problem(Protocol):
    """Anything that compiles to a program."""

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
    problem: anything with a `program()` method, or a `Program`; a problem with an `advance()`
        method takes several programs (`sdpkit.solving.sequence`), each started from the
        one before
    solver: a name from `available_solvers()`, or "auto", which asks every solver for
        its price (`sdpkit.solving.choice`)
    tol: the certified relative gap, and the residuals, at which an answer counts as optimal; by
        default the problem's own `default_tol`, else 1e-6
    max_iter, time_limit: limits on iterations and on seconds; solvers that may outlast the limit
        work in a separate process, which is stopped; compiling kernels on a first call does not
        count; of several programs, the time is that of all together
    verbose: 0 silent; 1 a line with gap and time that updates in a terminal and in a notebook, and
        the solution at the end; 2 a line per iteration and the output of solvers that print. The
        logger `sdpkit` gets the same, solutions at level INFO and iterations at DEBUG
    callback: called once per iteration by solvers that can, else once at the end; where it returns
        True the solver stops, and the best point is judged as `interrupted`
    warm_start: a solution of this or a nearby program
    checkpoint: a file to which the solver's state is written every half minute, and from which it
        resumes if the file exists; of several programs, the state of the first, and the
        others are solved from the start; a file that cannot be written is a warning
    options: passed to the solver unchanged

    >>> import sdpkit
    >>> pentagon = sdpkit.datasets.cycle_graph(5)
    >>> solution = sdpkit.solve(sdpkit.MVU(graph=pentagon), solver="clarabel")
    >>> solution.status.value, round(solution.objective, 5)      # 5 / (4 sin²(π/5))
    ('optimal', 3.61803)
    """
    _check_arguments(problem, solver, callback, warm_start)
    settings = Settings(
        positive(getattr(problem, "default_tol", 1e-6) if tol is None else tol, "tol"),
        None if max_iter is None else _whole("max_iter", max_iter),
        None if time_limit is None else positive(time_limit, "time_limit"),
        verbose,
        callback,
        warm_start,
        options,
        progress=Progress(sys.stdout) if verbose == 1 else None,
    )
    with shown(verbose):
        solution = _solve(problem, settings, solver, checkpoint)
        if settings.progress is not None:
            settings.progress.close()
        LOG.info(solution if solution.trajectory is None else f"{solution.trajectory}\n{solution}")
    if solution.status not in _CLEAR:
        warnings.warn(f"{solution.status}: {solution.message}", convergence_warning(), stacklevel=3)
    return solution


def _solve(
    problem: Problem | Advancing | Program,
    settings: Settings,
    solver: str,
    checkpoint: str | Path | None,
) -> Solution:
    """One program, or several one after the other."""
    if callable(getattr(problem, "advance", None)):
        files = iter([checkpoint])  # the first program's; those after it depend on its answer

        def solve_step(program: Program, left: Settings) -> Solution:
            return _solve_one(program, left, solver, next(files, None))

        return follow(cast(Advancing, problem), solve_step, settings)
    return _solve_one(cast(Problem | Program, problem), settings, solver, checkpoint)


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
    return warm if all((np.abs(v) <= LARGEST).all() for v in numbers) else None


def _solve_one(
    problem: Problem | Program, settings: Settings, name: str, file: str | Path | None = None
) -> Solution:
    """Compile, choose, call, certify: one program."""
    started = clock()
    program = compiled_program(problem)
    compiled = clock() - started
    settings = replace(settings, warm_start=_usable(settings.warm_start))
    chosen, reason = _choose(name, program, settings.tol)
    if file is not None:
        settings = replace(settings, checkpoint=_checkpoint(file, program, chosen))
    return _answered(program, chosen, reason, settings, started, compiled)


@remembering_interrupts
def _answered(
    program: Program,
    chosen: Solver,
    reason: str,
    settings: Settings,
    started: float,
    compiled: float,
) -> Solution:
    """Call and certify; after Ctrl-C nothing else is started."""
    asked = _remaining(settings, started)
    if asked.time_limit == 0:  # compiling took all of it; a solver may take 0 for no limit
        asked = replace(asked, time_limit=_LEAST_SECONDS)
    answer = _nothing_left(program) or _no_rows(program) or _ask(program, chosen, asked)
    if is_interrupted() and isinstance(answer, Answer) and answer.stop is Stop.FAILED:
        answer = replace(answer, stop=Stop.INTERRUPTED)  # Ctrl-C is why, or might as well be
    rest = _remaining(settings, started)
    solution = judge(program, chosen, reason, rest, answer, compiled)
    rest = _remaining(settings, started)
    if (
        rest.time_limit != 0
        and not is_interrupted()
        and wants_margin(solution, answer, settings.tol)
    ):
        solution = with_margin(solution, chosen, rest)
    if settings.callback is not None and not chosen.capabilities.callback:
        gap = solution.certificate.relative_gap
        settings.callback({"objective": solution.objective, "gap": gap})
    return solution


def _checkpoint(path: str | Path, program: Program, solver: Solver) -> Checkpoint:
    if not solver.capabilities.checkpoint:
        able = [name for name in available_solvers() if get_solver(name).capabilities.checkpoint]
        raise InputError(
            f"solver {solver.name!r} cannot write checkpoints. Use one of {', '.join(able)}."
        )
    return Checkpoint(path, program.fingerprint, solver.name)


def compiled_program(problem: Problem | Program) -> Program:
    """A program as it is, a problem compiled; anything else is refused."""
    if isinstance(problem, Program):
        return problem
    if not callable(getattr(problem, "program", None)):
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


def _remaining(settings: Settings, started: float) -> Settings:
    """The settings with what is left of the time limit, 0 when it is used up."""
    if settings.time_limit is None:
        return settings
    left = settings.time_limit - (clock() - started)
    return replace(settings, time_limit=max(left, 0.0))


@one_blas_thread  # again: choosing a solver may have loaded its libraries
def _ask(program: Program, solver: Solver, settings: Settings) -> Answer:
    if program.family is None or solver.capabilities.families:
        before = program.fingerprint if not is_ours(solver) else ""
        called = clock()
        answer = _in_time(program, solver, settings)
        if before and isinstance(answer, Answer) and not answer.setup_time + answer.solve_time:
            answer = replace(answer, solve_time=clock() - called)  # it did not look at the clock
        if before and replace(program).fingerprint != before:
            raise SolverError(f"solver {solver.name!r} changed the program that it was given")
        return answer
    from sdpkit.solving.generation import by_rows

    return by_rows(program, solver, settings, _in_time)


def _in_time(program: Program, solver: Solver, settings: Settings) -> Answer:
    """Solve; where a solver of ours expects to need far more time than it has, one of its steps
    may outlast the limit, and it works in a process that can be stopped."""
    work = partial(_continued, program, solver, settings)
    if not is_ours(solver):
        return _of_others(solver, work)
    limit = settings.time_limit
    stops_itself = solver.capabilities.stops_itself
    if limit is None or settings.callback is not None or stops_itself or not can_fork():
        return work()
    if estimate(solver, program, settings.tol).seconds < _FAR_MORE * limit:
        return work()
    returned = apart(work, limit + min(1.0, max(0.1, 0.1 * limit)))
    if returned.stop is None:
        found: Answer = returned.value
        return found
    return Answer(returned.stop, f"{solver.name} {returned.words}", solve_time=limit)


def _of_others(solver: Solver, work: Callable[[], Answer]) -> Answer:
    """The answer of another package's solver; Ctrl-C, if it does not handle it, is one too.

    What it raises becomes an error of ours that names it: its users may not know its source.
    """
    try:
        with raising_interrupts():
            return work()
    except (SdpkitError, MemoryError):
        raise
    except Exception as error:
        words = f"solver {solver.name!r} broke down with {type(error).__name__}: {error}"
        raise SolverError(f"{words}. Try another solver, or tell its authors") from error
    except KeyboardInterrupt:
        if not is_interrupted():
            raise  # nobody remembers it: it is not ours to answer
        return Answer(Stop.INTERRUPTED, f"{solver.name} was interrupted")


def _continued(program: Program, solver: Solver, settings: Settings) -> Answer:
    """Solve; what goes wrong with a state that somebody else wrote is the file's fault."""
    checkpoint = settings.checkpoint
    if checkpoint is None or checkpoint.is_new:
        return _within_memory(program, solver, settings)
    with reading(checkpoint.path, f"a checkpoint of solver {solver.name!r}"):
        return _within_memory(program, solver, settings)


def _within_memory(program: Program, solver: Solver, settings: Settings) -> Answer:
    """Solve; an allocation that fails says whose it was."""
    try:
        return answer_of(program, solver, settings)
    except (NotEnoughMemoryError, OutOfMemoryError):
        raise
    except MemoryError as error:
        told = f" ({error})" if str(error) else ""
        raise OutOfMemoryError(
            f"solver {solver.name!r} ran out of memory{told}; it had expected to need "
            f"{estimate(solver, program, settings.tol).memory / 2**30:.2g} GiB. Use another "
            "solver, or make the instance smaller."
        ) from error


def _nothing_left(program: Program) -> Answer | None:
    """M = 0 and x = 0, or variables with squares in no row at their own best, where they prove
    themselves optimal (all points equal, no rows at all)."""
    if program.rhs.any() or program.family is not None or program.has_log_det:
        return None
    zeros = tuple(np.zeros((b.size, b.size)) for b in program.blocks)
    x = _apart_from_rows(program)
    words = "every variable is at its own best" if x.any() else "zero is optimal"
    for dual in (np.zeros(program.n_rows), program.safe.anchor):
        if dual is not None and certify(program, zeros, x, dual).passes(1e-12):
            return Answer(Stop.DONE, words, zeros, x, dual, iterations=0)
    return None


def _apart_from_rows(program: Program) -> Array:
    """(n_x,) the best values of the variables that have a square and occur in no row, 0 for the
    others."""
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
    """Without rows the optimum is zero or there is none; no solver is called."""
    if program.n_rows or program.family is not None or program.has_log_det:
        return None
    return Answer(Stop.CLAIMS_UNBOUNDED, "there are no rows")


def _whole(name: str, value: float) -> int:
    if positive(value, name) != int(value):
        raise InputError(f"{name}={value!r}: pass an integer of at least 1")
    return int(value)


def _choose(name: str, program: Program, tol: float) -> tuple[Solver, str]:
    if name == "auto":
        return choose(program, tol)
    solver = get_solver(name)
    refused = refusal(solver, program)
    if refused is not None:
        raise refused
    return solver, "as asked"


__all__ = ["ConvergenceWarning", "Problem", "elastic", "recession", "solve"]
