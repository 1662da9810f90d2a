"""The loop that all engines share: limits, interruption, checkpoints, history, options."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit import LMNN, MMC, MVU, CoveringEllipsoid, InputError, Solution, Status
from sdpkit.cli.main import main
from sdpkit.layout import Expected
from sdpkit.numerics.deadline import Deadline
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solution.driver import COLUMNS, Driver
from sdpkit.solution.options import Option
from sdpkit.solving.registry import available_solvers, get_solver


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Counting:
    """An engine whose iterations take a second each by its clock."""

    def __init__(self, clock: Clock, end: int = 1000) -> None:
        self.clock, self.end, self.x = clock, end, 0

    def step(self, driver: Driver) -> None:
        self.x += 1
        self.clock.now += 1.0
        driver.count()
        driver.record(objective=float(self.x), own=2.0)
        if self.x == self.end:
            driver.end(Stop.DONE, "there")

    def answer(self, stop: Stop) -> Answer:
        return Answer(stop, "", x=np.array([float(self.x)]))

    def state(self) -> Mapping[str, Any]:
        return {"x": self.x}


def run(clock: Clock | None = None, end: int = 1000, **settings: Any) -> Answer:
    clock = clock or Clock()
    driver = Driver("counting", settings_by(clock, **settings), max_iter=50)
    return driver.run(Counting(clock, end))


def settings_by(clock: Clock, time_limit: float | None = None, **settings: Any) -> Settings:
    """Settings whose time is that of the clock."""
    return Settings(deadline=Deadline.after(time_limit, now=clock), **settings)


# -- why a run ends -------------------------------------------------------------------------------


def test_the_engine_ends_the_run() -> None:
    answer = run(end=7)
    assert (answer.stop, answer.native_status, answer.iterations) == (Stop.DONE, "there", 7)
    assert answer.x == [7.0]


def test_iterations_are_limited_by_default_and_by_the_settings() -> None:
    assert run().iterations == 50
    answer = run(max_iter=3)
    assert (answer.stop, answer.iterations, len(answer.history)) == (Stop.ITERATION_LIMIT, 3, 3)
    assert answer.native_status == "iteration limit after 3 iterations"


def test_an_end_at_the_limit_is_the_engines() -> None:
    assert run(end=3, max_iter=3).stop is Stop.DONE


def test_time_is_limited() -> None:
    answer = run(time_limit=4.5)
    assert (answer.stop, answer.iterations) == (Stop.TIME_LIMIT, 5)
    assert answer.native_status == "time limit after 5 iterations"


def test_time_counts_from_the_call_and_setup_is_told_apart() -> None:
    clock = Clock()
    driver = Driver("counting", settings_by(clock, 4.5), max_iter=50)
    clock.now = 3.0
    answer = driver.run(Counting(clock))
    assert (answer.iterations, answer.setup_time, answer.solve_time) == (2, 3.0, 2.0)


def test_a_callback_stops_by_true_alone() -> None:
    seen: list[float] = []

    def stop(row: Mapping[str, Any]) -> Any:
        seen.append(row["objective"])
        return True if len(seen) == 4 else 1

    answer = run(callback=stop)
    assert (answer.stop, answer.iterations) == (Stop.INTERRUPTED, 4)
    assert answer.native_status == "stopped by the callback after 4 iterations"
    assert seen == [1.0, 2.0, 3.0, 4.0]


def test_an_interruption_is_an_ending() -> None:
    def interrupt(row: Mapping[str, Any]) -> None:
        if row["iteration"] == 3:
            raise KeyboardInterrupt

    answer = run(callback=interrupt)
    assert (answer.stop, answer.iterations) == (Stop.INTERRUPTED, 3)
    assert answer.native_status == "interrupted after 3 iterations"


def test_errors_are_not_caught() -> None:
    def fail(row: Mapping[str, Any]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(callback=fail)


def test_inner_loops_may_ask() -> None:
    """A step that takes a thousand iterations ends within the limits all the same."""

    class Nested(Counting):
        def step(self, driver: Driver) -> None:
            for _ in range(1000):
                super().step(driver)
                if driver.must_stop:
                    return

    for settings, expected in (({"time_limit": 4.5}, 5), ({"max_iter": 6}, 6)):
        clock = Clock()
        answer = Driver("n", settings_by(clock, **settings), 50).run(Nested(clock))
        assert answer.iterations == expected


def test_a_second_attempt_keeps_the_clock() -> None:
    clock = Clock()
    driver = Driver("counting", settings_by(clock, 6.5), max_iter=4)
    assert driver.run(Counting(clock)).stop is Stop.ITERATION_LIMIT
    answer = driver.again().run(Counting(clock))
    assert (answer.stop, answer.iterations, len(answer.history)) == (Stop.TIME_LIMIT, 3, 3)
    assert (answer.setup_time, answer.solve_time) == (0.0, 7.0)


def test_the_first_reason_counts() -> None:
    answer = run(end=3, callback=lambda row: row["iteration"] == 3)
    assert answer.stop is Stop.INTERRUPTED


# -- checkpoints ----------------------------------------------------------------------------------


class Recorded(Checkpoint):
    """Notes what is written, and when."""

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__(path, "f00d", "counting", every=10.0, clock=clock)
        self.written: list[tuple[float, int]] = []

    def save(self, **arrays: Any) -> None:
        self.written.append((self._clock(), arrays["x"]))
        super().save(**arrays)


def test_checkpoints_are_written_when_due_and_at_the_end(tmp_path: Path) -> None:
    clock = Clock()
    checkpoint = Recorded(tmp_path / "run.npz", clock)
    run(clock, max_iter=25, checkpoint=checkpoint)
    assert checkpoint.written == [(10.0, 10), (20.0, 20), (25.0, 25)]


def test_an_interrupted_run_leaves_its_state(tmp_path: Path) -> None:
    def interrupt(row: Mapping[str, Any]) -> None:
        if row["iteration"] == 3:
            raise KeyboardInterrupt

    clock = Clock()
    run(clock, callback=interrupt, checkpoint=Recorded(tmp_path / "run.npz", clock))
    again = Checkpoint(tmp_path / "run.npz", "f00d", "counting")
    driver = Driver("counting", Settings(max_iter=10, checkpoint=again), max_iter=50)
    saved = driver.saved({"x": Expected(whole=True)})
    assert saved is not None
    assert saved["x"] == 3
    driver.resume(int(saved["x"]))
    assert (driver.iterations, driver.iterations_left) == (3, 10)


# -- rows and lines -------------------------------------------------------------------------------


def test_rows_have_all_columns_and_nan_for_the_unknown() -> None:
    seen: list[Mapping[str, Any]] = []
    answer = run(end=2, callback=seen.append)
    assert list(answer.history) == seen
    for k, row in enumerate(answer.history, 1):
        assert tuple(row) == (*COLUMNS, "own")
        assert (row["iteration"], row["seconds"], row["objective"], row["own"]) == (k, k, k, 2.0)
        assert all(math.isnan(row[name]) for name in COLUMNS[3:])


def test_matrices_are_for_the_callback_alone() -> None:
    seen: list[Mapping[str, Any]] = []
    driver = Driver("counting", Settings(callback=seen.append), max_iter=1)
    driver.record(lambda: (np.eye(2),))
    assert seen[0]["matrices"][0].shape == (2, 2)
    assert tuple(driver.history[0]) == COLUMNS

    def expensive() -> Any:
        raise AssertionError("nobody asked for them")

    Driver("counting", Settings(), max_iter=1).record(expensive)


def test_lines_are_printed_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    run(end=2, verbose=1)
    assert capsys.readouterr().out == ""
    run(end=2, verbose=2)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "     1      1.00 s  objective +1.000000000e+00  own 2"
    assert second.split()[0] == "2"


# -- options --------------------------------------------------------------------------------------

KNOWN = {"metric": Option.one_of("fitted", "plain"), "init": Option()}


def test_options_have_defaults() -> None:
    assert Driver("p", Settings(), 1, KNOWN).options == {"metric": "fitted", "init": None}
    given = Settings(options={"metric": "plain", "init": np.zeros(2)})
    assert Driver("p", given, 1, KNOWN).options["metric"] == "plain"


@pytest.mark.parametrize(
    ("options", "known", "words"),
    [
        (
            {"foo": 1},
            {},
            "solver 'p' has no option 'foo' (it has none). tol, max_iter and time_limit are "
            "arguments of solve().",
        ),
        (
            {"foo": 1},
            KNOWN,
            "solver 'p' has no option 'foo' (it has metric, init). tol, max_iter and time_limit "
            "are arguments of solve().",
        ),
        (
            {"metric": "bent"},
            KNOWN,
            "option 'metric' of solver 'p' is 'bent'; use one of 'fitted', 'plain'",
        ),
    ],
)
def test_other_options_are_refused(options: Any, known: Any, words: str) -> None:
    with pytest.raises(InputError) as error:
        Driver("p", Settings(options=options), 1, known)
    assert str(error.value) == words


# -- every engine ---------------------------------------------------------------------------------

ROLL = MVU(sdpkit.datasets.swiss_roll(20), n_neighbors=4)
RNG = np.random.default_rng(0)
POINTS, LABELS = RNG.standard_normal((40, 3)), np.arange(40) % 2
CLOUD = RNG.standard_normal((3000, 8))  # too many for a single working set
PROBLEMS: dict[str, Any] = {
    **dict.fromkeys(("interior", "barrier", "lowrank", "projection"), ROLL),
    **dict.fromkeys(("alternating", "gradient-projection", "dykstra"), ROLL),
    **dict.fromkeys(
        ("factored", "projected", "subgradient", "subgradient-published"),
        LMNN(POINTS, LABELS, n_neighbors=2),
    ),
    **dict.fromkeys(("covering", "titterington"), CoveringEllipsoid(CLOUD)),
    "ascent": MMC(CLOUD[:40], LABELS),
}
every_engine = pytest.mark.parametrize("name", PROBLEMS)
# What an engine does not know in any row; all other numbers it knows in its last one.
UNKNOWN: dict[str, Iterable[str]] = {
    "interior": (),
    "barrier": ("primal_residual",),
    "lowrank": (),
    "projection": ("dual_residual",),
    "alternating": ("bound", "gap", "dual_residual"),
    "gradient-projection": ("bound", "gap", "dual_residual"),
    "dykstra": ("bound", "gap", "dual_residual"),
    "ascent": ("dual_residual",),
}


def quietly(name: str, **options: Any) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        return sdpkit.solve(PROBLEMS[name], solver=name, **options)


def test_no_engine_is_left_out() -> None:
    ours = [name for name in available_solvers() if get_solver(name).capabilities.callback]
    assert set(ours) == set(PROBLEMS)


@every_engine
def test_histories_have_the_same_columns(name: str) -> None:
    solution = quietly(name, tol=1e-3, max_iter=40)
    assert solution.history
    own = [tuple(row)[len(COLUMNS) :] for row in solution.history]
    for row in solution.history:
        assert tuple(row)[: len(COLUMNS)] == COLUMNS
        assert all(isinstance(number, float) for number in row.values())
    assert len(set(own)) == 1
    seconds = [row["seconds"] for row in solution.history]
    assert seconds == sorted(seconds)
    counts = [row["iteration"] for row in solution.history]
    assert counts == sorted(counts)
    assert counts[-1] <= solution.iterations <= 40
    unknown = {n for n in COLUMNS if all(math.isnan(row[n]) for row in solution.history)}
    assert unknown == set(UNKNOWN.get(name, ()))
    assert math.isfinite(solution.history[-1]["objective"])


@pytest.mark.slow
@every_engine
def test_the_objective_is_in_the_users_units(name: str) -> None:
    """Of the last row; points that miss the rows are repaired after it, at a price."""
    solution = quietly(name, tol=1e-3, max_iter=3000)
    loose = name in ("alternating", "gradient-projection", "dykstra", "subgradient-published")
    last = solution.history[-1]
    assert last["objective"] == pytest.approx(solution.objective, rel=0.2 if loose else 2e-3)
    if not math.isnan(last["bound"]):
        bound = solution.certificate.safe_bound
        assert last["bound"] == pytest.approx(bound, rel=0.1 if loose else 2e-3)


@pytest.mark.parametrize("calls", [1, 2])
@every_engine
def test_a_callback_stops_every_engine(name: str, calls: int) -> None:
    rows: list[Any] = []

    def stop(row: Mapping[str, Any]) -> bool:
        rows.append(row)
        return len(rows) == calls

    solution = quietly(name, tol=1e-12, callback=stop)
    assert len(rows) == calls == len(solution.history)
    assert solution.stop is Stop.INTERRUPTED
    assert solution.status is Status.INTERRUPTED or solution.certificate.passes(1e-12)
    assert solution.native_status.startswith("stopped by the callback after")


@every_engine
def test_a_keyboard_interrupt_ends_every_engine(name: str) -> None:
    def interrupt(row: Mapping[str, Any]) -> None:
        raise KeyboardInterrupt

    solution = quietly(name, tol=1e-10, callback=interrupt)
    assert solution.status is Status.INTERRUPTED
    assert solution.native_status.startswith("interrupted after")


@every_engine
def test_a_time_limit_is_kept_by_every_engine(name: str) -> None:
    quietly(name, tol=1e-3, max_iter=20)  # kernels are compiled
    limit = 0.01
    solution = quietly(name, tol=1e-9, time_limit=limit)
    assert solution.status in (Status.TIME_LIMIT, Status.OPTIMAL)
    # One step more at most, and a machine that does something else meanwhile.
    assert solution.times.setup + solution.times.solve < limit + 1.0
    if solution.status is Status.TIME_LIMIT:  # by itself, or on a busy machine from outside
        assert "time limit" in solution.native_status


@every_engine
def test_a_limit_on_iterations_is_kept_by_every_engine(name: str) -> None:
    solution = quietly(name, tol=1e-12, max_iter=3)
    assert solution.iterations == 3
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.native_status == "iteration limit after 3 iterations"


@every_engine
def test_every_engine_has_the_same_words_for_an_unknown_option(name: str) -> None:
    with pytest.raises(InputError, match=rf"^solver '{name}' has no option 'colour' \(it has "):
        quietly(name, colour="blue")


def test_every_engine_prints_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    for name in PROBLEMS:
        settings = Settings(tol=1e-3, max_iter=30, verbose=2)
        get_solver(name).solve(PROBLEMS[name].program(), settings)
        lines = capsys.readouterr().out.splitlines()
        assert lines
        for line in lines:
            number, seconds, unit, first = line.split()[:4]
            assert number.isdigit()
            assert float(seconds) >= 0
            assert (unit, first) == ("s", "objective")


def test_the_command_line_calls_it_a_parameter_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, whichever engine refuses."""
    data = tmp_path / "points.npy"
    np.save(data, POINTS)
    original: Callable[..., Solution] = sdpkit.solve

    def with_option(*args: Any, **options: Any) -> Solution:
        return original(*args, **options, colour="blue")

    monkeypatch.setattr(sdpkit, "solve", with_option)
    for name in ("interior", "lowrank"):
        assert main(["solve", str(data), "--problem", "mvu", "--solver", name]) == 2
        assert f"solver '{name}' has no option 'colour'" in capsys.readouterr().err
