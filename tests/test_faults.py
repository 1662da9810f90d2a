"""Ctrl-C, limits, full disks and killed processes: what was found is never lost."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit import Comparison, Program, Solution, Status, datasets
from sdpkit.cli.main import main
from sdpkit.comparison import builders
from sdpkit.comparison.ledger import Ledger
from sdpkit.layout import Expected
from sdpkit.numerics.interruption import is_interrupted, remembering_interrupts
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solving import registry
from sdpkit.solving.candidate import Candidate
from sdpkit.solving.choice import Choice, refusal
from sdpkit.solving.registry import get_solver, why_not
from sdpkit.solving.verdict import verdict

# Seconds of the processor that an answer may take after Ctrl-C or a limit; by the clock it may be
# more where other processes keep the cores busy.
PATIENCE, BUSY = 2.0, 5.0


pytestmark = pytest.mark.usefixtures("python_handles_ctrl_c")

# -- instances that take every engine a while ---------------------------------------------------


@cache
def long_program(kind: str) -> Program:
    if kind == "graph":
        return sdpkit.MVU(datasets.swiss_roll(250), n_neighbors=4).program()
    if kind == "small graph":
        return sdpkit.MVU(datasets.swiss_roll(90), n_neighbors=4).program()
    if kind == "inequality":
        return sdpkit.MVU(datasets.swiss_roll(400), n_neighbors=5, form="inequality").program()
    if kind == "hinges":
        return builders.clouds(700, 20, 6).program()
    if kind == "roots":
        rng = np.random.default_rng(0)
        return sdpkit.MMC(rng.standard_normal((120, 40)), np.arange(120) % 3).program()
    assert kind == "covering"
    return sdpkit.CoveringEllipsoid(
        np.random.default_rng(0).standard_normal((30_000, 25))
    ).program()


OURS = {
    "interior": "graph",
    "barrier": "graph",
    "lowrank": "inequality",
    "projection": "graph",
    "alternating": "graph",
    "gradient-projection": "graph",
    "dykstra": "graph",
    "factored": "hinges",
    "projected": "hinges",
    "subgradient": "hinges",
    "subgradient-published": "hinges",
    "ascent": "roots",
    "covering": "covering",
    "titterington": "covering",
}
THEIRS = {
    "scs": "graph",
    "clarabel": "small graph",
    "cvxopt": "small graph",
    "csdp": "graph",
    "sdpa": "graph",
}


def quietly(problem: Any, solver: str = "auto", **options: Any) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sdpkit.solve(problem, solver=solver, **options)


class Late:
    """Seconds since some moment, by the processor and by the clock."""

    def __init__(self) -> None:
        self.cpu, self.clock = time.process_time(), time.monotonic()

    def check(self, what: str) -> None:
        cpu, clock = time.process_time() - self.cpu, time.monotonic() - self.clock
        assert cpu < PATIENCE, f"{what}: {cpu:.1f} s of the processor"
        assert clock < BUSY, f"{what}: {clock:.1f} s by the clock"


def interrupted_after(seconds: float, work: Callable[[], Solution]) -> Solution:
    """The answer, which must come soon after the signal.

    Before the solver is called there is nothing to return: the signal waits for that.
    """
    sent: list[Late] = []
    done = threading.Event()

    def send() -> None:
        while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            if done.wait(0.001):
                return
        sent.append(Late())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        solution = work()
        for late in sent:
            late.check(f"after Ctrl-C at {seconds:.2f} s")
    finally:
        timer.cancel()
        done.set()
        with contextlib.suppress(KeyboardInterrupt):
            timer.join()
    return solution


def check_interrupts(name: str, kind: str, count: int) -> None:
    program, tol = long_program(kind), 1e-10 if name in OURS else 1e-7
    quietly(program, name, tol=tol, time_limit=0.3)  # kernels are compiled
    started = time.monotonic()
    assert refusal(get_solver(name), program) is None
    asked = time.monotonic() - started
    moments = random.Random(name)
    for _ in range(count):
        delay = asked + moments.uniform(0.02, 0.62)
        solution = interrupted_after(delay, lambda: quietly(program, name, tol=tol, time_limit=20))
        assert solution.status in (Status.INTERRUPTED, Status.OPTIMAL, Status.INACCURATE)
        assert all(np.isfinite(np.asarray(matrix)).all() for matrix in solution.matrices)
        assert np.isfinite(solution.objective)


@pytest.mark.parametrize("name", ["interior", "barrier", "factored", "projection"])
def test_ctrl_c_returns_the_best_point(name: str) -> None:
    check_interrupts(name, OURS[name], 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_ctrl_c_at_twenty_moments(name: str) -> None:
    check_interrupts(name, OURS[name], 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", THEIRS)
def test_ctrl_c_stops_solvers_of_others(name: str) -> None:
    if why_not(name) is not None:
        pytest.skip(f"{name} is not installed")
    check_interrupts(name, THEIRS[name], 2)


def test_a_sequence_of_programs_ends_with_what_is_certified() -> None:
    """MVE went on after Ctrl-C where the step that was interrupted was certified all the same."""
    problem = sdpkit.MVE(datasets.swiss_roll(40, random_state=0), n_neighbors=4)
    started = time.monotonic()
    whole = quietly(problem)
    seconds = time.monotonic() - started
    moments = random.Random(7)
    steps = []
    for _ in range(8):
        delay = moments.uniform(0.1, 0.8) * seconds
        solution = interrupted_after(delay, lambda: quietly(problem))
        if solution.status is Status.INTERRUPTED:
            steps.append(len(solution.trajectory or ()))
    assert len(steps) >= 6
    assert all(count <= len(whole.trajectory or ()) for count in steps)


def test_nothing_is_started_after_ctrl_c() -> None:
    """A search for rays and a solve with a margin are further calls of the solver."""
    calls = []

    class Interrupted:
        name = "asked-twice"
        handles = True
        capabilities = sdpkit.Capabilities()

        def unavailable(self) -> None:
            return None

        def memory(self, program: Program) -> float:
            return 0.0

        def solve(self, program: Program, settings: Any) -> Any:
            calls.append(program)
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1.0)
            except KeyboardInterrupt:
                if not self.handles:
                    raise
            return sdpkit.Answer(sdpkit.Stop.CLAIMS_INFEASIBLE, "infeasible, it says")

    solver = Interrupted()
    with registry.registered(solver):
        for solver.handles in (True, False):
            calls.clear()
            solution = quietly(sdpkit.MVU(graph=datasets.cycle_graph(5)), "asked-twice")
            assert len(calls) == 1
        assert solution.status is Status.INTERRUPTED


def test_a_second_ctrl_c_is_not_remembered() -> None:
    @remembering_interrupts()
    def patient() -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        patient()
    assert not is_interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_children_end_with_their_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executable that starts another one and never ends."""
    pids = tmp_path / "pids"
    fake = tmp_path / "csdp"
    fake.write_text(f"#!/bin/sh\nsleep 60 &\necho $$ $! > {pids}\nwait\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program = sdpkit.MVU(graph=datasets.cycle_graph(5)).program()

    def limited() -> Solution:
        return quietly(program, "csdp", time_limit=0.5)

    def endless() -> Solution:
        return interrupted_after(0.5, lambda: quietly(program, "csdp"))

    for work, status in ((limited, Status.TIME_LIMIT), (endless, Status.INTERRUPTED)):
        started = time.monotonic()
        assert work().status is status
        assert time.monotonic() - started < 0.5 + BUSY
        time.sleep(0.1)
        for pid in pids.read_text().split():
            assert not _is_alive(int(pid))


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_solves_from_several_threads_restore_the_limits() -> None:
    from threadpoolctl import threadpool_info, threadpool_limits

    program = sdpkit.MVU(datasets.swiss_roll(20), n_neighbors=5).program()
    three = threadpool_limits(3)
    names = ["interior", "projection", "interior", "lowrank", "interior", "barrier"] * 2
    quietly(program, "interior")

    def limits() -> list[tuple[str, int]]:
        return sorted((one["filepath"], one["num_threads"]) for one in threadpool_info())

    for name in set(names):
        quietly(program, name, tol=1e-3)
    before = limits()
    with ThreadPoolExecutor(4) as pool:
        solved = pool.map(lambda name: sdpkit.solve(program, name, tol=1e-3), names)
        assert {solution.status for solution in solved} == {Status.OPTIMAL}
    assert limits() == before
    three.restore_original_limits()


# -- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *(
            pytest.param(n, marks=[pytest.mark.slow] * (n in ("ascent", "titterington")))
            for n in OURS
        ),
        *(pytest.param(n, marks=pytest.mark.slow) for n in THEIRS),
    ],
)
def test_a_time_limit_is_kept(name: str) -> None:
    if why_not(name) is not None:
        pytest.skip(f"{name} is not installed")
    program = long_program({**OURS, **THEIRS}[name])
    quietly(program, name, tol=1e-10, time_limit=0.2)
    started = Late()
    solution = quietly(program, name, tol=1e-10, time_limit=0.7)
    started.check(f"{name} with a limit of 0.7 s")
    assert np.isfinite(solution.objective)
    assert not np.isnan(solution.certificate.safe_bound)


@pytest.mark.may_use("csdp")
def test_what_is_known_before_the_first_point_can_be_recovered() -> None:
    problem = sdpkit.MVU(datasets.swiss_roll(200), n_neighbors=5)
    solution = quietly(problem, "csdp" if why_not("csdp") is None else "cvxopt", time_limit=0.01)
    assert solution.status is Status.TIME_LIMIT
    assert solution.objective == 0.0
    assert solution.certificate.safe_bound >= quietly(problem).objective
    assert np.isfinite(problem.recover(solution, n_components=2).coordinates).all()


def test_before_the_first_point_a_log_det_is_finite() -> None:
    """Zero has no log det; a multiple of the identity has one."""
    problem = sdpkit.CoveringEllipsoid(np.random.default_rng(0).standard_normal((40, 3)))
    program = problem.program()
    answer = Answer(Stop.TIME_LIMIT, "nothing yet")
    found = Candidate.of(program, Choice(get_solver("covering"), ""), 1e-6, answer)
    assert verdict(found.certificate, found.ray, answer, 1e-6)[0] is Status.TIME_LIMIT
    assert np.isfinite(found.certificate.objective)


# -- disks --------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk() -> Iterator[None]:
    """No file may grow beyond a kilobyte, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handled)


def test_a_full_disk_costs_the_checkpoint_and_not_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    program = sdpkit.MVU(datasets.swiss_roll(60), n_neighbors=4).program()
    sdpkit.solve(program, "projection", tol=1e-3)  # kernels are compiled, and kept on the disk
    with small_disk(), pytest.warns(RuntimeWarning, match="checkpoint could not be written"):
        solution = sdpkit.solve(program, "projection", tol=1e-3, checkpoint=path)
    assert solution.status is Status.OPTIMAL
    assert any("checkpoint could not be written" in note for note in solution.notes)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_the_old_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, output = tmp_path / "roll.csv", tmp_path / "answer.csv"
    np.savetxt(data, datasets.swiss_roll(40)[:, :3], delimiter=",", fmt="%.4g")
    output.write_text("old")
    solve = ["solve", str(data), "--output", str(output), "--components", "3"]
    with small_disk():
        assert main([*solve, "--force"]) == 2
    said = capsys.readouterr()
    assert "certified relative gap" in said.out  # the answer is printed whenever it exists
    assert "could not be written" in said.err
    assert output.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["answer.csv", "roll.csv"]


def test_a_folder_that_is_read_only_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "roll.csv"
    np.savetxt(data, datasets.swiss_roll(12), delimiter=",")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert main(["solve", str(data), "--output", str(tmp_path / "answer.csv")]) == 2
    assert "is read-only" in capsys.readouterr().err


# -- kill -9 ------------------------------------------------------------------------------------


WRITERS = {
    "checkpoint": """
from sdpkit.solution.checkpoint import Checkpoint
checkpoint, k = Checkpoint("state.npz", "f", "s"), 0
while True:
    k += 1
    checkpoint.save(w=np.full(20_000, float(k)))
""",
    "report": """
runs = sdpkit.Comparison.load("runs.jsonl")
while True:
    runs.report("report.html")
    runs.to_csv("runs.csv")
""",
}


def killed_at_random(code: str, folder: Path, delay: float, ready: Path) -> None:
    here = str(Path(sdpkit.__file__).parents[1])
    text = f"import numpy as np, sdpkit\n{code}"
    child = subprocess.Popen(
        [sys.executable, "-c", text], cwd=folder, env={**os.environ, "PYTHONPATH": here}
    )
    give_up = time.monotonic() + 60
    while not ready.exists() and time.monotonic() < give_up:
        time.sleep(0.005)
    time.sleep(delay)
    child.kill()
    assert child.wait() == -signal.SIGKILL


def check_kills(count: int, folder: Path) -> None:
    ring = {"ring": sdpkit.MVU(graph=datasets.cycle_graph(5))}
    sdpkit.compare(ring, ["interior"], [1e-3], path=folder / "runs.jsonl")
    moments = random.Random(9)
    for _ in range(count):
        killed_at_random(
            WRITERS["checkpoint"], folder, moments.uniform(0, 0.2), folder / "state.npz"
        )
        state = Checkpoint(folder / "state.npz", "f", "s").load({"w": Expected((20_000,))})
        assert state is not None
        assert (state["w"] == state["w"][0]).all()
        killed_at_random(WRITERS["report"], folder, moments.uniform(0, 0.2), folder / "runs.csv")
        assert (folder / "report.html").read_text().rstrip().endswith("</html>")
        assert len(Comparison.from_csv(folder / "runs.csv").runs) == 1


def test_kills_leave_whole_files(tmp_path: Path) -> None:
    check_kills(2, tmp_path)


@pytest.mark.slow
def test_twenty_kills_leave_whole_files(tmp_path: Path) -> None:
    check_kills(20, tmp_path)


def test_two_writers_leave_one_whole_file(tmp_path: Path) -> None:
    from sdpkit.files import replace_text

    texts = [str(k) * 200_000 for k in range(4)]

    def write(text: str) -> None:
        for _ in range(30):
            replace_text(tmp_path / "one.txt", text)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, texts))
    assert (tmp_path / "one.txt").read_text() in texts
    assert os.listdir(tmp_path) == ["one.txt"]


@pytest.mark.slow
def test_fresh_respects_the_lock(tmp_path: Path) -> None:
    """It deleted the file that another comparison was writing."""
    path = tmp_path / "runs.jsonl"
    ring = {"ring": sdpkit.MVU(graph=datasets.cycle_graph(5))}
    made = sdpkit.compare(ring, ["interior"], [1e-3], path=path)
    settings = json.loads(path.read_text().splitlines()[0])["settings"]
    with (
        Ledger(path, made.environment, settings, []),
        pytest.raises(sdpkit.InputError, match="is in use"),
    ):
        sdpkit.compare(ring, ["interior"], [1e-3], path=path, fresh=True)
    assert len(Comparison.load(path).runs) == 1
    sdpkit.compare(ring, ["interior"], [1e-4], path=path, fresh=True)
    assert [run.tol for run in Comparison.load(path).runs] == [1e-4]


if __name__ == "__main__":  # one engine by hand: python test_faults.py NAME COUNT
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = {**OURS, **THEIRS}
    for each in sys.argv[1].split(","):
        try:
            check_interrupts(each, names[each], int(sys.argv[2]))
            print(each, "ok", flush=True)
        except (AssertionError, Exception) as fault:
            print(each, type(fault).__name__, str(fault)[:200], flush=True)
