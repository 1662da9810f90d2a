"""One solve from end to end: who calls a solver, how deep, until when, and what grants a status."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.certify import certify
from sdpkit.errors import InputError
from sdpkit.numerics.deadline import Abandoned, Deadline, continue_or_raise, is_over
from sdpkit.numerics.interruption import is_interrupted, remembering_interrupts
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving import escalation
from sdpkit.solving.candidate import Candidate
from sdpkit.solving.choice import Choice
from sdpkit.solving.escalation import ESCALATION, escalate
from sdpkit.solving.registry import get_solver, registered
from sdpkit.solving.run import Run
from sdpkit.solving.verdict import verdict

PACKAGE = Path(sdpkit.__file__).parent
FOLDERS = (PACKAGE, PACKAGE.parent / "problems")


def quietly(problem: Any, solver: str = "auto", **options: Any) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        return sdpkit.solve(problem, solver, **options)


def roll(n: int = 30) -> sdpkit.MVU:
    return sdpkit.MVU(sdpkit.datasets.swiss_roll(n), n_neighbors=4)


# -- the shape ----------------------------------------------------------------------------------


# What else is called `solve`: linear systems, seconds, our own function and cvxpy's models.
OTHERS = (
    "self",
    "np.linalg",
    "scipy.linalg",
    "times",
    "t",
    "sdpkit",
    "problem",
    "model",
    "model.problem",
)


def uses_of_solve(path: Path) -> Iterator[str]:
    """The method `solve` of a solver, called or passed on; linear systems have one as well, which
    takes a single right-hand side."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    of_systems = [
        call.func for call in ast.walk(tree) if isinstance(call, ast.Call) and len(call.args) == 1
    ]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr != "solve" or node in of_systems:
            continue
        if ast.unparse(node.value).removeprefix("solution.") not in OTHERS:
            yield f"{path.relative_to(PACKAGE.parent)}: {ast.unparse(node)}"


def test_a_solver_is_called_in_one_place() -> None:
    found = [
        use
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.py"))
        if "testing" not in path.parts
        for use in uses_of_solve(path)
    ]
    assert found == ["sdpkit/solving/run.py: solver.solve"]


CLASSES = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60) % 2


@pytest.mark.parametrize(
    ("problem", "solver"),
    [(roll(), "interior"), (roll(), "barrier"), (sdpkit.LMNN(*CLASSES), "factored")],
    ids=["interior", "barrier", "factored"],
)
def test_few_frames_lie_between_solve_and_the_first_iteration(
    problem: Any, solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = []
    quietly(problem, solver)  # kernels are compiled

    def look(self: Any, *arguments: Any, **numbers: Any) -> None:
        stacks.append([frame.name for frame in traceback.extract_stack()])
        raise StopIteration

    monkeypatch.setattr("sdpkit.solution.driver.Driver.record", look)
    with pytest.raises(StopIteration):
        quietly(problem, solver)
    (stack,) = stacks
    solve = len(stack) - 1 - stack[::-1].index("solve_program")
    step = solve + stack[solve:].index("_step_on")
    between = stack[stack.index("quietly") + 1 : step + 1]
    print(f"{solver}: {' → '.join(between)}")
    assert len(between) <= 8


def test_what_is_documented_is_what_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """`MVU.program` was documented and never called."""
    seen = []
    program = sdpkit.MVU.program

    def watched(self: sdpkit.MVU) -> Program:
        seen.append(self)
        return program(self)

    monkeypatch.setattr(sdpkit.MVU, "program", watched)
    problem = roll()
    assert quietly(problem).trajectory is None
    assert seen == [problem]


# -- strategies ---------------------------------------------------------------------------------


def first_candidate(answer: Answer, program: Program, tol: float = 1e-6) -> Candidate:
    return Candidate.of(program, Choice(get_solver("interior"), ""), tol, answer)


def test_strategies_are_tried_in_order_until_one_passes() -> None:
    program = roll().program()
    answer = Run(Settings()).ask(program, get_solver("interior"))
    poor = first_candidate(
        Answer(Stop.DONE, "zero", (0 * np.asarray(answer.matrices[0]),)), program
    )  # type: ignore[index]
    good = first_candidate(answer, program)
    assert good.passes
    assert not poor.is_settled
    tried = []

    def never(run: Run, candidate: Candidate) -> None:
        tried.append("never")

    def at_once(run: Run, candidate: Candidate) -> Candidate:
        tried.append("at once")
        return good

    assert escalate(Run(Settings()), poor, (never, at_once, never)) is good
    assert tried == ["never", "at once"]
    over = Run(Settings(deadline=Deadline.after(0.0)))
    assert escalate(over, poor, (at_once,)) is poor


def test_a_strategy_that_is_abandoned_leaves_the_candidate() -> None:
    program = roll().program()
    poor = first_candidate(Answer(Stop.DONE, "nothing"), program)

    def endless(run: Run, candidate: Candidate) -> Candidate:
        while True:
            continue_or_raise()

    run = Run(Settings(deadline=Deadline.after(0.1)))
    assert escalate(run, poor, (endless,)) is poor


def test_every_strategy_is_in_the_list_and_documented() -> None:
    assert len(set(ESCALATION)) == len(ESCALATION)
    for strategy in ESCALATION:
        assert strategy.__doc__
        assert getattr(escalation, strategy.__name__) is strategy


# -- the verdict --------------------------------------------------------------------------------


def test_the_verdict_follows_from_its_arguments() -> None:
    program = roll().program()
    answer = Run(Settings()).ask(program, get_solver("interior"))
    assert answer.matrices is not None
    good = certify(program, answer.matrices, answer.x, answer.dual)
    none = Certificate.missing(program, "there is none")
    for stop in Stop:
        ended = Answer(stop, "its own words")
        assert verdict(good, None, ended, 1e-6)[0] is Status.OPTIMAL
        status, message = verdict(none, None, ended, 1e-6)
        limits = {Stop.TIME_LIMIT, Stop.ITERATION_LIMIT, Stop.INTERRUPTED}
        assert status.value == (stop.value if stop in limits else "inaccurate")
        assert "its own words" in message


# -- deadlines ----------------------------------------------------------------------------------


def test_a_deadline_is_a_moment_and_may_be_shared() -> None:
    now = [0.0]
    whole = Deadline.after(8.0, now=lambda: now[0])
    half = whole.share(0.5)
    now[0] = 3.0
    assert (whole.left, half.left) == (5.0, 1.0)
    now[0] = 9.0
    assert (whole.left, whole.is_over, whole.later(2.0).left) == (0.0, True, 1.0)
    assert Deadline().share(0.1).left == np.inf
    assert Deadline.after(None).within(whole) is whole


def test_the_deadline_that_applies_is_asked_below() -> None:
    assert not is_over()
    with Deadline.after(0.0).applies():
        assert is_over()
        with pytest.raises(Abandoned):
            continue_or_raise()
        with Deadline().applies():
            assert not is_over()
    assert not is_over()


def test_a_time_limit_is_told_as_what_is_left() -> None:
    assert Settings().time_limit is None
    now = [0.0]
    settings = Settings(deadline=Deadline.after(2.0, now=lambda: now[0]))
    now[0] = 1.5
    assert settings.time_limit == 0.5
    now[0] = 3.0
    assert settings.time_limit is not None
    assert 0 < settings.time_limit < 0.01  # some solvers take 0 for no limit


class Slow:
    """A problem whose program takes a minute to write."""

    def program(self) -> Program:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            continue_or_raise()
        raise AssertionError("the minute is over")


def test_a_program_that_is_not_compiled_in_time_is_a_status() -> None:
    started = time.monotonic()
    with pytest.warns(sdpkit.ConvergenceWarning, match="no point"):
        solution = sdpkit.solve(Slow(), time_limit=0.2)
    assert time.monotonic() - started < 5
    assert solution.status is Status.TIME_LIMIT
    assert np.isnan(solution.objective)
    assert "Raise time_limit" in solution.message
    with pytest.raises(InputError, match="no point"):
        _ = solution.matrix


def slowly(*arguments: Any) -> Any:
    """Five seconds of work that stops when it is told to."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        continue_or_raise()
    raise AssertionError("five seconds are over")


def test_the_first_comparisons_are_found_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row generation looked for its first part without a deadline."""
    program = sdpkit.LMNN(*CLASSES).program()
    monkeypatch.setattr("sdpkit.solving.generation._first_rows", slowly)
    solution = quietly(program, "clarabel", time_limit=0.2)
    assert solution.status is Status.TIME_LIMIT
    assert "clarabel" in solution.message


def test_a_program_without_a_solver_is_certified_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether zero is optimal was asked without a deadline."""
    program = Program.of(Block.of(1, np.ones((1, 1))), [0.0], name="zero")
    monkeypatch.setattr("sdpkit.certificate.certify._dual_side", slowly)
    solution = quietly(program, time_limit=0.2)
    assert solution.status is Status.TIME_LIMIT
    assert solution.program is program


def test_a_certificate_that_takes_too_long_leaves_the_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = roll()

    def endless(*arguments: Any) -> Any:
        while True:
            continue_or_raise()

    monkeypatch.setattr("sdpkit.certificate.certify._dual_side", endless)
    started = time.monotonic()
    solution = quietly(problem, "interior", time_limit=1.0)
    assert time.monotonic() - started < 6
    assert solution.status is Status.TIME_LIMIT
    assert np.linalg.norm(solution.matrix) > 0
    assert not solution.certificate.passes(1.0)
    assert solution.certificate.bound_source == "the certificate was not finished in time"


def test_an_inner_solve_keeps_the_outer_limit() -> None:
    class Nested:
        def program(self) -> Program:
            quietly(Slow(), time_limit=60.0)
            continue_or_raise()
            raise AssertionError("the outer limit was over")

    started = time.monotonic()
    assert quietly(Nested(), time_limit=0.2).status is Status.TIME_LIMIT
    assert time.monotonic() - started < 5


# -- Ctrl-C -------------------------------------------------------------------------------------


def interrupted_after(seconds: float, work: Callable[[], Solution]) -> tuple[Solution, float]:
    """What `work` returns, and how long after Ctrl-C."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        solution = work()
        return solution, time.monotonic() - sent[0]
    finally:
        timer.cancel()
        timer.join()


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_while_a_program_is_compiled() -> None:
    solution, seconds = interrupted_after(0.3, lambda: quietly(Slow()))
    assert solution.status is Status.INTERRUPTED
    assert "Ctrl-C" in solution.message
    assert seconds < 2


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_while_a_certificate_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = roll()
    quietly(problem, "interior")

    def endless(*arguments: Any) -> Any:
        while True:
            continue_or_raise()

    monkeypatch.setattr("sdpkit.certificate.certify._dual_side", endless)
    solution, seconds = interrupted_after(1.0, lambda: quietly(problem, "interior"))
    assert solution.status is Status.INTERRUPTED
    assert seconds < 2
    assert np.isfinite(np.asarray(solution.matrix)).all()


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_leaves_an_engine_its_point() -> None:
    """`projection` computes a bound on the way out, which was abandoned together with the point."""

    def press(row: Any) -> None:
        if row["iteration"] >= 20 and not pressed:
            pressed.append(row)
            os.kill(os.getpid(), signal.SIGINT)

    pressed: list[Any] = []
    solution = quietly(roll(), "projection", tol=1e-9, callback=press)
    assert pressed
    assert solution.status is Status.INTERRUPTED
    assert np.linalg.norm(solution.matrix) > 0
    assert solution.iterations


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_does_not_end_a_callback_of_the_user() -> None:
    """A solver of another package calls back at the end; the callback raised what it was not to
    see, and the solution was lost."""

    class Pressed:
        name = "pressed"
        capabilities = sdpkit.Capabilities()

        def unavailable(self) -> None:
            return None

        def memory(self, program: Program) -> float:
            return 0.0

        def solve(self, program: Program, settings: Settings) -> Answer:
            answer = get_solver("interior").solve(program, replace(settings, callback=None))
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1.0)
            return answer

    shown: list[Any] = []

    def show(told: Any) -> None:
        continue_or_raise()
        shown.append(told)

    with registered(Pressed()):
        solution = quietly(roll(), "pressed", callback=show)
    assert len(shown) == 1
    assert solution.solver == "pressed"
    assert solution.matrices


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_as_a_solve_ends_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates and searches were abandoned after a solve in whose last moment Ctrl-C came."""
    set_handler = signal.signal

    def pressed_just_then(number: int, handler: Any) -> None:
        set_handler(number, handler)
        if handler is signal.default_int_handler:
            raise KeyboardInterrupt

    monkeypatch.setattr("sdpkit.numerics.interruption.signal.signal", pressed_just_then)
    with pytest.raises(KeyboardInterrupt), remembering_interrupts():
        signal.raise_signal(signal.SIGINT)
    monkeypatch.undo()
    continue_or_raise()
    assert not is_interrupted()


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_reaches_the_threads_that_work_for_a_solve() -> None:
    from sdpkit.numerics.threads import one_blas_thread, own_threads

    @one_blas_thread
    def shared_out() -> bool:
        with remembering_interrupts(), own_threads() as pool:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            return pool.submit(is_interrupted).result()

    assert shared_out()
    assert not is_interrupted()
