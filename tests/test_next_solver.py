"""`solver="auto"` calls the next solver where an answer does not pass."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit.errors import SolverError
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solver import Capabilities
from sdpkit.solving import registry


@dataclass
class First:
    """A solver that expects to be the fastest, and answers with a multiple of interior's."""

    factor: float | None
    name: str = "first"
    capabilities: Capabilities = field(default_factory=Capabilities)
    limits: list[float | None] = field(default_factory=list)

    def unavailable(self) -> str | None:
        return None

    def memory(self, program: Program) -> float:
        return 0.0

    def seconds(self, program: Program, tol: float) -> float:
        return 0.0

    def solve(self, program: Program, settings: Settings) -> Answer:
        self.limits.append(settings.time_limit)
        if self.factor is None:
            raise ArithmeticError("it breaks down")
        limit = replace(settings, callback=None)
        answer = registry.get_solver("interior").solve(program, limit)
        assert answer.matrices is not None
        matrices = tuple(self.factor * np.asarray(m) for m in answer.matrices)
        return replace(answer, matrices=matrices, native_status="all is well")


def program() -> Program:
    """A relaxed maximum cut of five nodes in a ring, without any known repair."""
    ring = np.roll(np.eye(5), 1, 0) + np.roll(np.eye(5), -1, 0)
    M = sdpkit.Unknown("M", 5)
    return sdpkit.maximise(M.inner(-ring), M.lengths() == 1)


def solved(first: Any, **options: Any) -> sdpkit.Solution:
    with registry.registered(first), warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        return sdpkit.solve(program(), **options)


def test_an_answer_that_passes_is_the_only_one() -> None:
    solution = solved(First(1.0))
    assert (solution.status, solution.solver) == (sdpkit.Status.OPTIMAL, "first")
    assert not solution.attempts


@pytest.mark.parametrize("factor", [0.5, 1.01, math.nan, None])
def test_the_next_solver_is_called_and_the_solution_says_so(factor: float | None) -> None:
    solution = solved(First(factor))
    assert solution.status is sdpkit.Status.OPTIMAL
    assert solution.objective == pytest.approx(8.0901699, abs=1e-5)
    wrong, right = solution.attempts
    assert (wrong.solver, right.solver) == ("first", solution.solver)
    assert (wrong.outcome == "certified", right.outcome) == (False, "certified")
    assert wrong.reached > 1e-3 > 1e-6 >= right.reached
    assert "called: first: " in str(solution)
    assert "first" in solution.reason
    again = solved(First(factor))
    assert [one.solver for one in again.attempts] == ["first", solution.solver]


def test_the_first_solver_has_half_of_the_time() -> None:
    first = First(0.5)
    solution = solved(first, time_limit=40.0)
    assert solution.status is sdpkit.Status.OPTIMAL
    (limit,) = first.limits
    assert limit is not None
    assert 15.0 < limit <= 20.0


def test_a_solver_that_was_named_is_the_only_one() -> None:
    solution = solved(First(0.5), solver="first")
    assert solution.status is sdpkit.Status.INACCURATE
    assert not solution.attempts
    with pytest.raises(SolverError, match="it breaks down"):
        solved(First(None), solver="first")


def test_the_best_answer_is_returned_where_none_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both multiply the matrix by too much; the second one by less."""
    first, second = First(2.0), First(1.1, name="second")
    offers = ["first", "second"]
    with registry.registered(first), registry.registered(second):
        monkeypatch.setattr(registry, "listed_solvers", lambda: offers)
        monkeypatch.setattr("sdpkit.solving.choice.listed_solvers", lambda: offers)
        with pytest.warns(sdpkit.ConvergenceWarning):
            solution = sdpkit.solve(program())
    assert solution.status is sdpkit.Status.INACCURATE
    assert [one.solver for one in solution.attempts] == ["first", "second"]
    assert solution.solver == "second"
    assert solution.attempts[1].reached < solution.attempts[0].reached


def test_limits_on_iterations_and_options_belong_to_the_first_solver() -> None:
    with pytest.warns(sdpkit.ConvergenceWarning):
        solution = sdpkit.solve(program(), max_iter=1)
    assert solution.stop is Stop.ITERATION_LIMIT
    assert not solution.attempts
