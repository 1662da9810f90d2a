"""What is demanded of every solver: small programs whose answers are known.

A solver may refuse a program, in words. What it takes it has to solve, and it must never say more
than it found. Methods that are for teaching need not reach the tolerance.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from sdpkit.certificate.certify import certify
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.errors import ConvergenceWarning, SdpkitError, UnsuitableSolverError
from sdpkit.program.form import Program
from sdpkit.solution.answer import Settings
from sdpkit.solution.solution import Solution, Status
from sdpkit.solution.solver import Solver
from sdpkit.solving.choice import estimate, why_refused
from sdpkit.solving.registry import defect, registered
from sdpkit.solving.solve import solve
from sdpkit.testing.programs import Case, solvable, unsolvable

Check = Callable[[], None]


def check_solver(solver: Solver, tol: float = 1e-5) -> None:
    """Run every check of `solver_checks`; the first that fails raises an `AssertionError`.

    Parameters
    ----------
    solver : Solver
        The solver object, which need not be registered.
    tol : float, default 1e-05
        The tolerance that it is asked for and must reach.

    Raises
    ------
    AssertionError
        If a check fails.

    Examples
    --------
    >>> from sdpkit.solvers.interior import INTERIOR
    >>> check_solver(INTERIOR)
    """
    for name, check in solver_checks(solver, tol):
        try:
            check()
        except AssertionError as error:
            label = getattr(solver, "name", solver)
            raise AssertionError(f"solver {label!r}, check {name!r}: {error}") from error


def solver_checks(solver: Solver, tol: float = 1e-5) -> Iterator[tuple[str, Check]]:
    """Name the checks of a solver object, for a parametrised test.

    Parameters
    ----------
    solver : Solver
        The solver object, which need not be registered.
    tol : float, default 1e-05
        The tolerance that it is asked for and must reach.

    Yields
    ------
    name : str
        What is checked.
    check : callable
        Raises an `AssertionError` if it fails.

    Examples
    --------
    >>> from sdpkit.solvers.interior import INTERIOR
    >>> names = [name for name, check in solver_checks(INTERIOR)]
    >>> len(names) > 5
    True
    """
    yield "is a solver", partial(_is_a_solver, solver)
    yield "takes something", partial(_takes_something, solver)
    for case in solvable():
        yield f"solves: {case.name}", partial(_solves, solver, case, tol)
    for program in unsolvable():
        yield f"claims nothing: {program.name}", partial(_claims_nothing, solver, program, tol)
    yield "units do not matter", partial(_units, solver, tol)
    yield "an early end claims nothing", partial(_early_end, solver, tol)
    yield "unknown options are named", partial(_options, solver)
    yield "callback", partial(_callback, solver, tol)
    yield "warm start", partial(_warm_start, solver, tol)


def _is_a_solver(solver: Any) -> None:
    wrong = defect(solver)
    assert wrong is None, wrong
    missing = solver.unavailable()
    assert missing is None, f"it is not available here: {missing}"


def _takes_something(solver: Solver) -> None:
    taken = [case for case in solvable() if why_refused(solver, case.program) is None]
    assert taken, "it refuses every program of this suite, so that nothing can be checked"
    for case in taken:
        needed = estimate(solver, case.program, 1e-6)
        assert math.isfinite(needed.memory), f"memory() gives no number for {case.name!r}"
        if hasattr(solver, "seconds"):
            assert needed.seconds > 0, f"seconds() is {needed.seconds} for {case.name!r}"


def _solves(solver: Solver, case: Case, tol: float) -> None:
    if why_refused(solver, case.program) is not None:
        _refuses(solver, case.program)
        return
    before = case.program.fingerprint
    solution = _solved(solver, case.program, tol)
    after = replace(case.program).fingerprint
    assert before == after, "it changed the program that it was given"
    _is_truthful(solution, tol)
    _bound_holds(solution, case.optimum)
    if not solver.capabilities.teaching:
        assert solution.status is Status.OPTIMAL, f"not solved: {solution.message}"
        _is_near(solution, case.optimum, tol)


def _refuses(solver: Solver, program: Program) -> None:
    reason = why_refused(solver, program)
    assert isinstance(reason, str), "accepts() changes its mind"
    assert reason.strip(), "accepts() must say in words why it refuses; it returned nothing to read"
    try:
        _solved(solver, program, 1e-4)
    except UnsuitableSolverError:
        return
    raise AssertionError(f"it refuses the program ({reason}) and solves it nevertheless")


def _limit(solver: Solver) -> int | None:
    """Methods that are for teaching need not get far."""
    return 300 if solver.capabilities.teaching else None


def _solved(solver: Solver, program: Program, tol: float, **more: Any) -> Solution:
    with registered(solver), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        more = {"max_iter": _limit(solver), **more}
        return solve(program, solver=solver.name, tol=tol, **more)


def _is_truthful(solution: Solution, tol: float) -> None:
    """The status follows from the returned numbers, whatever the solver claims."""
    again = certify(
        solution.program,
        solution.matrices,
        solution.x,
        solution.dual,
        rows=solution.rows,
        smoothing=solution.smoothing,
    )
    assert (solution.status is Status.OPTIMAL) == again.passes(tol)
    assert solution.native_status.strip(), "Answer.native_status must say how the solver ended"


def _bound_holds(solution: Solution, optimum: float) -> None:
    sign, bound = solution.program.sign, solution.certificate.safe_bound
    allowed = 1e-9 * max(1.0, abs(optimum))
    assert sign * bound >= sign * optimum - allowed, (
        f"its multipliers bound the optimum {optimum:.9g} by {bound:.9g}: check the signs of `dual`"
    )


def _is_near(solution: Solution, optimum: float, tol: float) -> None:
    scale = max(abs(optimum), solution.program.value_floor)
    off = abs(solution.objective - optimum)
    assert off <= 10 * tol * scale, (
        f"the objective is {solution.objective:.9g}, the optimum is {optimum:.9g}"
    )


def _claims_nothing(solver: Solver, program: Program, tol: float) -> None:
    """Without an optimum nothing is optimal, and what is handed over as a proof is one."""
    if why_refused(solver, program) is not None:
        _refuses(solver, program)
        return
    solution = _solved(solver, program, tol)
    assert solution.status is not Status.OPTIMAL
    answer = solver.solve(program, Settings(tol=1e-8, max_iter=_limit(solver)))
    if answer.multiplier_ray is not None:
        ray = certify_infeasible(program, answer.multiplier_ray)
        assert ray.passes(1e-5), f"Answer.multiplier_ray proves nothing: {ray}"
    if answer.matrix_ray is not None:
        ray = certify_unbounded(program, *answer.matrix_ray)
        assert ray.violation <= 1e-5, f"Answer.matrix_ray proves nothing: {ray}"


def _first_taken(solver: Solver) -> Case:
    return next(case for case in solvable() if why_refused(solver, case.program) is None)


def _units(solver: Solver, tol: float) -> None:
    """Lengths in millimetres or in miles."""
    case = _first_taken(solver)
    program = case.program
    if program.family is not None or program.has_log_det or not program.is_linear:
        return  # their values are not proportional to the right-hand sides
    if why_refused(solver, replace(program, rhs=1e6 * program.rhs)) is not None:
        return  # a kind of program that is known by its right-hand sides
    for scale in (1e-6, 1e6):
        solution = _solved(solver, replace(program, rhs=scale * program.rhs), tol)
        _bound_holds(solution, scale * case.optimum)
        if not solver.capabilities.teaching:
            assert solution.status is Status.OPTIMAL, f"rhs times {scale:g}: {solution.message}"
            _is_near(solution, scale * case.optimum, tol)


def _early_end(solver: Solver, tol: float) -> None:
    """One iteration, and no time at all: no exception, and a bound that holds."""
    case = _first_taken(solver)
    for limit in ({"max_iter": 1}, {"time_limit": 1e-9}):
        solution = _solved(solver, case.program, tol, **limit)
        _is_truthful(solution, tol)
        _bound_holds(solution, case.optimum)


def _options(solver: Solver) -> None:
    program = _first_taken(solver).program
    words = "nothing"
    try:
        _solved(solver, program, 1e-4, no_such_option=3)
    except SdpkitError as error:
        words = str(error)
    assert "no_such_option" in words, (
        "an SdpkitError that names the unknown option `no_such_option` was expected; "
        f"the error was: {words}"
    )


def _callback(solver: Solver, tol: float) -> None:
    """It is told about progress, and its wish to stop is respected or comes too late."""
    case = _first_taken(solver)
    seen: list[Any] = []
    solution = _solved(solver, case.program, tol, callback=seen.append)
    assert seen, "the callback was never called"
    assert all("objective" in row for row in seen), "a row for the callback has no `objective`"
    stopped = _solved(solver, case.program, tol, callback=lambda row: True)
    _is_truthful(stopped, tol)
    fewer = (stopped.iterations or 0) < (solution.iterations or 0)
    ended = stopped.status in (Status.INTERRUPTED, Status.OPTIMAL)
    assert fewer or ended, "the callback returned True, and the solver did not stop"


def _warm_start(solver: Solver, tol: float) -> None:
    if not solver.capabilities.warm_start:
        return
    case = _first_taken(solver)
    first = _solved(solver, case.program, tol)
    again = _solved(solver, case.program, tol, warm_start=first)
    assert again.status is first.status, f"from its own solution it ends as {again.status}"
    _bound_holds(again, case.optimum)
