"""Outer loops: what `solve` makes of a problem that takes several programs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
import sklearn.datasets

import sdpkit
from sdpkit import Block, Cost, Ending, Program, Solution, Status
from sdpkit.errors import ConvergenceWarning
from sdpkit.numerics.deadline import Abandoned
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solver import Capabilities
from sdpkit.solvers.interior import INTERIOR
from sdpkit.solving.registry import registered


def two_points(squared: float, relation: str = "==") -> Program:
    """max tr K for two points at a squared distance: the optimum is half of it."""
    block = Block.of(2, [[1.0, -1.0]], cost=Cost.of(2, identity=1.0), null=[1.0, 1.0])
    return Program.of(block, [squared], relations=relation)


@dataclass(frozen=True)
class Doubling:
    """Doubles the squared distance until it exceeds a limit."""

    limit: float = 8.0

    def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
        if not solutions:
            return two_points(2.0)
        if solutions[-1].program.rhs[0] >= self.limit:
            return Ending("far enough")
        return two_points(2 * solutions[-1].program.rhs[0])

    def progress(self, solution: Solution) -> dict[str, float]:
        return {"distance": float(np.sqrt(solution.program.rhs[0]))}


class Recorder:
    """The interior engine, which also remembers what it was asked."""

    name = "recorder"
    capabilities = Capabilities(warm_start=True)

    def __init__(self) -> None:
        self.asked: list[Settings] = []
        self.limits: list[float | None] = []

    def unavailable(self) -> str | None:
        return None

    def memory(self, program: Program) -> float:
        return 0.0

    def solve(self, program: Program, settings: Settings) -> Answer:
        self.asked.append(settings)
        self.limits.append(settings.time_limit)
        return INTERIOR.solve(program, settings)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    engine = Recorder()
    with registered(engine):
        yield engine


def test_every_step_is_kept_with_its_certificate() -> None:
    solution = sdpkit.solve(Doubling())
    steps = solution.trajectory
    assert steps is not None
    assert [step.program.rhs[0] for step in steps] == [2.0, 4.0, 8.0]
    assert all(step.status is Status.OPTIMAL and step.trajectory is None for step in steps)
    assert steps.reason == "far enough"
    np.testing.assert_allclose(steps.progress["objective"], [1.0, 2.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(steps.progress["distance"], np.sqrt([2.0, 4.0, 8.0]))
    assert solution.matrices is steps[-1].matrices
    assert solution.certificate is steps[-1].certificate
    assert solution.iterations == sum(step.iterations or 0 for step in steps)
    assert solution.times.solve == pytest.approx(sum(step.times.solve for step in steps))


def test_the_status_is_stationary_and_says_why() -> None:
    solution = sdpkit.solve(Doubling())
    assert solution.status is Status.STATIONARY
    assert "far enough after 3 programs" in solution.message
    assert "certified" in solution.message


def test_a_problem_of_one_program_is_solved_as_ever() -> None:
    class Single:
        def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
            return Ending("done", Status.OPTIMAL) if solutions else two_points(4.0)

    solution = sdpkit.solve(Single())
    assert solution.status is Status.OPTIMAL
    assert solution.trajectory is None


def test_steps_start_from_the_step_before(recorder: Recorder) -> None:
    solution = sdpkit.solve(Doubling(), solver="recorder", tol=1e-7)
    assert solution.trajectory is not None
    starts = [settings.warm_start for settings in recorder.asked]
    assert starts[0] is None
    for start, step in zip(starts[1:], solution.trajectory.steps[:-1], strict=True):
        assert start is not None
        assert start.matrices is step.matrices
    assert {settings.tol for settings in recorder.asked} == {1e-7}


def test_tol_reaches_the_problem() -> None:
    seen = []

    class Asking(Doubling):
        def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
            seen.append(tol)
            return super().advance(solutions, tol)

    sdpkit.solve(Asking(), tol=3e-5)
    assert set(seen) == {3e-5}


def test_time_limit_covers_the_whole_loop(recorder: Recorder) -> None:
    class Endless(Doubling):
        def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
            time.sleep(0.05)
            return two_points(float(1 + len(solutions)))

    started = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="time.limit"):
        solution = sdpkit.solve(Endless(), solver="recorder", time_limit=0.4)
    assert time.perf_counter() - started < 5
    assert solution.status is Status.TIME_LIMIT
    assert solution.trajectory is not None
    limits = itertools.pairwise(recorder.limits)
    assert all(a is not None and b is not None and b < a for a, b in limits)
    # The answer is a step that was certified.
    assert solution.certificate.passes(1e-6)
    assert any(solution.matrices is step.matrices for step in solution.trajectory)


def test_a_step_without_solution_ends_it_with_its_proof() -> None:
    sides = np.array([[0, 1, 1], [1, 0, 3], [1, 3, 0]])
    impossible = sdpkit.MVU(graph=sides).program()

    class Doomed(Doubling):
        def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
            return impossible if solutions else two_points(4.0)

    solution = sdpkit.solve(Doomed())
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    assert solution.ray.verify()
    assert solution.trajectory is not None
    assert [step.status for step in solution.trajectory] == [Status.OPTIMAL, Status.INFEASIBLE]


@pytest.mark.parametrize("claimed", [Status.OPTIMAL, Status.STATIONARY])
def test_no_ending_is_believed(claimed: Status) -> None:
    """A claim holds only if the certificate passes against the program that the ending names."""

    @dataclass(frozen=True)
    class Claiming:
        least: float

        def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
            upper = two_points(4.0, "<=")
            if not solutions:
                return upper
            (block,) = upper.blocks
            doubled = replace(block, incidence=block.incidence[[0, 0]])
            both = Program.of(doubled, [4.0, self.least], relations=["<=", ">="])
            dual = solutions[-1].dual
            assert dual is not None
            return Ending("claimed", claimed, program=both, dual=np.r_[dual, 0.0])

    kept = sdpkit.solve(Claiming(3.0))
    assert kept.status is claimed
    assert kept.program.n_rows == 2
    with pytest.warns(ConvergenceWarning, match="primal residual"):
        broken = sdpkit.solve(Claiming(5.0))
    assert broken.status is Status.INACCURATE


def test_an_inaccurate_step_may_lead_on_but_not_end_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shrinking(Recorder):
        """Returns 0.99 K for one squared distance."""

        name = "shrinking"
        at = 4.0

        def solve(self, program: Program, settings: Settings) -> Answer:
            answer = INTERIOR.solve(program, settings)
            if program.rhs[0] != self.at or answer.matrices is None:
                return answer
            return replace(answer, matrices=tuple(0.99 * m for m in answer.matrices))

    engine = Shrinking()
    with registered(engine):
        solution = sdpkit.solve(Doubling(), solver="shrinking")
    assert solution.status is Status.STATIONARY
    assert solution.trajectory is not None
    assert solution.trajectory[1].status is Status.INACCURATE
    engine.at = 8.0
    far_enough = pytest.warns(ConvergenceWarning, match="far enough after 3 programs, but tol")
    with registered(engine), far_enough:
        assert sdpkit.solve(Doubling(), solver="shrinking").status is Status.INACCURATE


def test_a_step_without_numbers_ends_it() -> None:
    class Silent(Recorder):
        name = "silent"

        def solve(self, program: Program, settings: Settings) -> Answer:
            if program.rhs[0] == 2.0:
                return INTERIOR.solve(program, settings)
            return Answer(Stop.ITERATION_LIMIT, "gave up")

    gave_up = pytest.warns(ConvergenceWarning, match="program 2 ended iteration_limit")
    with registered(Silent()), gave_up:
        solution = sdpkit.solve(Doubling(), solver="silent")
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.objective == pytest.approx(1.0)  # the step before, which was certified


def test_a_problem_that_never_begins_is_refused() -> None:
    class Tired:
        def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
            return Ending("no")

    with pytest.raises(sdpkit.InputError, match="ended before its first program: no"):
        sdpkit.solve(Tired())


def test_new_targets_in_every_pass_are_such_a_sequence() -> None:
    """Multi-pass LMNN: the targets of a pass are the neighbours under the metric before."""
    X, y = sklearn.datasets.load_iris(return_X_y=True)
    first = sdpkit.LMNN(X, y)

    class Passes:
        def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
            passes = [first]
            for solution in solutions:
                passes.append(passes[-1].next_pass(solution))
            return passes[-1].program() if len(solutions) < 2 else Ending("two passes")

    solution = sdpkit.solve(Passes(), tol=1e-3)
    assert solution.status is Status.STATIONARY
    assert solution.trajectory is not None
    assert [step.status for step in solution.trajectory] == [Status.OPTIMAL] * 2
    second = first.next_pass(solution.trajectory[0])
    assert not np.array_equal(second.target_pairs, first.target_pairs)
    alone = sdpkit.solve(second)
    assert solution.objective == pytest.approx(alone.objective, rel=2e-3)
    assert second.recover(solution).leave_one_out_error() < 0.04


def test_trajectory_prints_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    sdpkit.solve(Doubling(), verbose=1)
    printed = capsys.readouterr().out
    assert "distance" in printed
    assert "ended: far enough" in printed
    assert "<Solution: stationary" in printed


def test_trajectory_plots() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    trajectory = sdpkit.solve(Doubling()).trajectory
    assert trajectory is not None
    ax = trajectory.plot()
    assert ax.get_ylabel() == "objective"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), trajectory.progress["objective"])
    ax = sdpkit.plotting.plot_trajectory(trajectory, ax, name="distance")
    assert ax.get_ylabel() == "distance"
    with pytest.raises(sdpkit.InputError, match="no 'fidelity'"):
        sdpkit.plotting.plot_trajectory(trajectory, ax, name="fidelity")


def test_steps_are_kept_where_the_time_ends_while_a_solver_is_chosen() -> None:
    """`Abandoned` left the sequence, and the steps before were lost with it."""

    class Unwilling(Recorder):
        def accepts(self, program: Program) -> str | None:
            if self.asked:
                raise Abandoned("as a search of ours does")
            return None

    with registered(Unwilling()), pytest.warns(ConvergenceWarning):
        solution = sdpkit.solve(Doubling(), solver="recorder")
    assert solution.status is Status.TIME_LIMIT
    assert solution.trajectory is not None
    assert len(solution.trajectory) == 1
    assert solution.program.rhs[0] == 2.0
