"""What is demanded of every problem: frozen data, two formulations with one value, a way back."""

from __future__ import annotations

import dataclasses
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sdpkit.errors import SdpkitError
from sdpkit.program.form import Program
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.solve import solve

Check = Callable[[], None]


def check_problem(
    problem: Any, tol: float = 1e-5, equivalent: Mapping[str, Any] | None = None
) -> None:
    """Run every check of `problem_checks`; the first that fails raises an `AssertionError`.

    Parameters
    ----------
    problem : object
        A small problem object.
    tol : float, default 1e-05
        The tolerance of the solves.
    equivalent : mapping or None, default None
        Name of an invariance → a problem that must have the same optimal value.

    Raises
    ------
    AssertionError
        If a check fails.

    Examples
    --------
    >>> import sdpkit
    >>> check_problem(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)))
    """
    for name, check in problem_checks(problem, tol, equivalent):
        try:
            check()
        except AssertionError as error:
            label = type(problem).__name__
            raise AssertionError(f"problem {label}, check {name!r}: {error}") from error


def problem_checks(
    problem: Any, tol: float = 1e-5, equivalent: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, Check]]:
    """Name the checks of a problem object, for a parametrised test.

    `equivalent` holds problems that must have the same optimal value, under the name of the
    invariance that says so: {"shifted points": dataclasses.replace(problem, X=problem.X + 1)}.

    Parameters
    ----------
    problem : object
        A small problem object.
    tol : float, default 1e-05
        The tolerance of the solves.
    equivalent : mapping or None, default None
        Name of an invariance → problem.

    Yields
    ------
    name : str
        What is checked.
    check : callable
        Raises an `AssertionError` if it fails.

    Examples
    --------
    >>> import sdpkit
    >>> ring = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    >>> names = [name for name, check in problem_checks(ring)]
    >>> len(names) > 5
    True
    """
    yield "is a frozen dataclass", partial(_frozen, problem)
    yield "dataclasses.replace is a fresh construction", partial(_replaced, problem)
    yield "prints", partial(_prints, problem)
    yield "saves and loads", partial(_saves, problem)
    yield "program() and to_cvxpy() agree", partial(_formulations, problem, tol)
    yield "recovers", partial(_recovers, problem, tol)
    yield "what is recovered has the certified objective", partial(_keeps_value, problem, tol)
    for name, other in (equivalent or {}).items():
        yield f"same value: {name}", partial(_same_value, problem, other, tol)


def _frozen(problem: Any) -> None:
    assert dataclasses.is_dataclass(problem), (
        f"{type(problem).__name__} is not a dataclass; a problem is a frozen dataclass"
    )
    field = dataclasses.fields(problem)[0].name
    try:
        setattr(problem, field, getattr(problem, field))
    except dataclasses.FrozenInstanceError:
        return
    raise AssertionError(f"{field} can be overwritten; use @dataclass(frozen=True)")


def _replaced(problem: Any) -> None:
    given = {
        field.name: getattr(problem, field.name)
        for field in dataclasses.fields(problem)
        if field.init
    }
    fresh = type(problem)(**given)
    for other, how in ((fresh, "a fresh construction"), (dataclasses.replace(problem), "replace")):
        same = _first_program(other).fingerprint == _first_program(problem).fingerprint
        assert same, f"{how} from the fields of the problem gives another program"


def _program(problem: Any) -> Program | None:
    """The program of the problem; None where the answer takes several and `program()` says so."""
    try:
        program = problem.program()
    except SdpkitError:
        if callable(getattr(problem, "advance", None)):
            return None
        raise
    assert isinstance(program, Program), f"program() returned a {type(program).__name__}"
    return program


def _first_program(problem: Any) -> Program:
    program = _program(problem)
    if program is None:
        program = problem.advance((), 1e-6)
        assert isinstance(program, Program), f"advance((), tol) returned {program!r}"
    return program


def _prints(problem: Any) -> None:
    assert type(problem).__name__ in repr(problem), f"repr() does not name it: {problem!r}"
    text = str(_first_program(problem))
    assert "maximise" in text or "minimise" in text


def _saves(problem: Any) -> None:
    program = _first_program(problem)
    assert program.fingerprint == _first_program(problem).fingerprint, "two calls, two programs"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.npz"
        program.save(path)
        assert Program.load(path).fingerprint == program.fingerprint


def _solved(problem: Any, tol: float) -> Solution:
    solution = solve(problem, tol=tol)
    assert solution.status in (Status.OPTIMAL, Status.STATIONARY), solution.message
    return solution


def _formulations(problem: Any, tol: float) -> None:
    """One optimal value; a problem that has no single program has none to compare."""
    program = _program(problem)
    if program is None:
        return
    ours = _solved(problem, tol).objective
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = float(problem.to_cvxpy().solve(solver="CLARABEL"))
    scale = max(abs(ours), abs(theirs), program.value_floor)
    assert abs(ours - theirs) <= max(10 * tol, 1e-5) * scale, (
        f"program() has the optimal value {ours:.9g}, to_cvxpy() {theirs:.9g}"
    )


def _recovers(problem: Any, tol: float) -> None:
    assert problem.recover(_solved(problem, tol)) is not None, "recover(solution) returned None"


def _keeps_value(problem: Any, tol: float) -> None:
    """objective(recovered) is within the certified gap of the certified one, or words say why not.

    A problem of several programs may follow another value than the last one's, `value(solution)`.
    """
    assert callable(getattr(problem, "objective", None)), (
        f"{type(problem).__name__} has no objective(recovered): the exact objective of what "
        "recover(solution) returns"
    )
    solution = _solved(problem, tol)
    recovered = problem.recover(solution)
    value = getattr(problem, "value", None)
    certified = solution.objective if value is None else float(value(solution))
    objective = float(problem.objective(recovered))
    assert solution.is_within_gap(objective, certified) or shortfall(
        problem, solution, recovered
    ), (
        f"the objective of what was recovered is {objective:.9g}, the certified one "
        f"{certified:.9g} with a relative gap of {solution.certificate.relative_gap:.2g}, and no "
        "words say why: neither `notes` of what was recovered nor shortfall(solution)"
    )


def shortfall(problem: Any, solution: Solution, recovered: Any) -> str:
    """Why the objective of what was recovered is not the certified one, as the result's `notes`
    or, for plain arrays, the problem's `shortfall(solution)` say; empty if nothing does."""
    ask = getattr(problem, "shortfall", None)
    words = ask(solution) if callable(ask) else " ".join(getattr(recovered, "notes", ()))
    return str(words)


def _same_value(problem: Any, other: Any, tol: float) -> None:
    first, second = _solved(problem, tol), _solved(other, tol)
    scale = max(abs(first.objective), first.program.value_floor)
    assert abs(first.objective - second.objective) <= 10 * tol * scale, (
        f"the values are {first.objective:.9g} and {second.objective:.9g}"
    )
