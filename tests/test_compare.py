"""Comparisons: nothing that a solver does ends them, nothing that is found gets lost.

The misbehaving solvers live in a package of their own, found through the entry-point group that
is open to everybody.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from plugin_text import SOLVER

import sdpkit
from sdpkit.cli.main import main
from sdpkit.comparison import suites
from sdpkit.comparison.competition import ComparisonProgress, _error, compare
from sdpkit.comparison.ledger import Ledger
from sdpkit.comparison.records import Described, RunRecord, run_from
from sdpkit.comparison.report import verdict
from sdpkit.comparison.table import Comparison, shifted_geometric_mean
from sdpkit.comparison.trial import _claimed
from sdpkit.comparison.worker import Job, Worker
from sdpkit.errors import InputError
from sdpkit.solving import registry
from sdpkit.solving.solve import first_program

RING = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(6))
OPTIMUM = 6.0  # 6/(4 sin²(π/6))

BAD = (
    SOLVER
    + """
import ctypes, os, subprocess, sys, time
import numpy as np
from sdpkit.solution.answer import Answer, Stop


class Solver(Base):
    def solve(self, program, settings):
        if settings.tol == 1e-2 and self.name != "hang-at-once":  # a warm-up
            return get_solver("interior").solve(program, settings)
        return self.act(program, settings)


class Ponderous(Solver):
    def accepts(self, program):
        time.sleep(600)


def hang(program, settings):
    note(f"hanging {os.getpid()}")
    while True:
        pass


def hang_at_once(program, settings):
    time.sleep(600)


def hang_with_child(program, settings):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note(str(child.pid))
    time.sleep(600)


def segfault(program, settings):
    print("about to crash", file=sys.stderr, flush=True)
    ctypes.string_at(0)


def lie(program, settings):
    matrices = tuple(np.eye(b.size) for b in program.blocks)
    return Answer(Stop.DONE, "optimal, believe me", matrices, dual=np.ones(program.n_rows))


def eat(program, settings):
    held = []
    while True:
        held.append(np.ones(2**21))


def fail(program, settings):
    raise ZeroDivisionError("I divide by zero")


def leave(program, settings):
    os._exit(3)


def vanish(program, settings):
    os.kill(os.getpid(), 9)


def mumble(program, settings):
    return "42"


def chatter(program, settings):
    os.write(1, b"x" * 200_000)
    return get_solver("interior").solve(program, settings)


def hold(program, settings):
    held = np.ones(2**24 + 2**17)  # 1 MiB more: the system counts pages in batches per core
    return get_solver("interior").solve(program, settings)


def honest(program, settings):
    note(f"{program.n_rows} {settings.tol} {os.getpid()}")
    time.sleep(0.2)
    return get_solver("interior").solve(program, settings)


def note(text):
    with open(os.environ["SDPKIT_TEST_NOTES"], "a") as file:
        file.write(text + "\\n")


acts = [hang, hang_at_once, hang_with_child, segfault, lie, eat, fail, leave, vanish, mumble]
acts += [chatter, hold]
for act in [*acts, honest]:
    globals()[act.__name__.upper()] = Solver(act.__name__.replace("_", "-"), act)
PONDER = Ponderous("ponder", honest)
"""
)
NAMES = (
    "hang", "hang-at-once", "hang-with-child", "segfault", "lie", "eat", "fail", "leave", "vanish",
    "mumble", "chatter", "hold", "honest",
)  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed package that offers the solvers above, and a broken one."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "badsolvers.py").write_text(BAD)
    info = folder / "badsolvers-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: badsolvers\nVersion: 1.2\n")
    lines = [f"{name} = badsolvers:{name.upper().replace('-', '_')}" for name in NAMES]
    broken = "unloadable = no_such_module_anywhere:SOLVER"
    (info / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines, broken]))
    return folder


@pytest.fixture(scope="module")
def on_path(package: Path):
    """The package on this process's path, which workers inherit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(package))
        patch.setenv("SDPKIT_TEST_NOTES", str(package / "notes.txt"))
        with registry.registered(registry.get_solver("interior")):  # and no other afterwards
            yield package
    sys.modules.pop("badsolvers", None)


@pytest.fixture(scope="module")
def misbehaved(on_path: Path) -> Comparison:
    """All of them on one ring, one second and 200 MiB each."""
    return compare(
        {"ring": RING},
        # PONDER is not installed: whoever asks all solvers for advice would wait for it.
        [*(name for name in NAMES if name != "honest"), "badsolvers:PONDER", "interior"],
        tols=[1e-6],
        time_limit=1.0,
        memory_limit=200 * 2**20,
        n_jobs=3,
    )


def row(comparison: Comparison, solver: str) -> RunRecord:
    (found,) = [run for run in comparison.runs if run.solver == solver]
    return found


# -- misbehaviour ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "outcome", "words"),
    [
        ("hang", "timeout", "silent for 3.25 s"),
        ("hang-at-once", "timeout", "silent for 3.25 s, while warming up"),
        ("hang-with-child", "timeout", "silent for 3.25 s"),
        ("badsolvers:PONDER", "timeout", "silent for 3.25 s, while warming up"),
        ("segfault", "crashed", "segmentation fault: about to crash"),
        ("eat", "out_of_memory", "more than 200 MiB"),
        ("fail", "error", "ZeroDivisionError: I divide by zero"),
        ("leave", "crashed", "ended with code 3"),
        ("vanish", "killed", "signal 9"),
        ("mumble", "error", "instead of an Answer"),
        ("lie", "inaccurate", "was not reached"),
    ],
)
def test_misbehaviour_is_a_row_that_names_it(
    misbehaved: Comparison, solver: str, outcome: str, words: str
) -> None:
    run = row(misbehaved, solver)
    assert run.outcome == outcome
    assert words in run.message
    assert not run.success
    assert run.claimed == (solver == "lie")
    assert (run.n, run.n_rows) == (6, 6)  # known although the process is gone
    assert run.solver_version == "1.2"
    assert run.counted == 1.0


def test_a_liar_is_counted_as_such(misbehaved: Comparison) -> None:
    run = row(misbehaved, "lie")
    assert run.native_status == "optimal, believe me"
    assert run.gap > 1e-2
    (tier,) = [t for t in misbehaved.summary() if t.solver == "lie"]
    assert (tier.lied, tier.successes) == (1, 0)
    assert "inaccurate (!)" in misbehaved.table()


def test_the_others_are_measured_all_the_same(misbehaved: Comparison) -> None:
    for name in ("interior", "chatter"):
        run = row(misbehaved, name)
        assert (run.outcome, run.success, run.claimed) == ("optimal", True, True)
        assert run.objective == pytest.approx(OPTIMUM, rel=1e-6)
        assert run.gap <= 1e-6
        parts = [run.compile, run.setup, run.solve, run.certify]
        assert min(parts) > 0
        assert sum(parts) <= run.total <= run.time_limit
        assert 0 <= run.peak < 2**27
        assert run.fingerprint == RING.program().fingerprint
    assert len(row(misbehaved, "interior").history) > row(misbehaved, "interior").iterations
    points = np.array(row(misbehaved, "interior").coordinates)
    sides = np.linalg.norm(points - np.roll(points, 1, axis=0), axis=1)
    assert sides == pytest.approx(np.ones(6), abs=1e-3)  # the regular hexagon


def test_memory_is_charged_to_the_eater(misbehaved: Comparison) -> None:
    assert row(misbehaved, "hold").outcome == "optimal"
    assert 2**27 <= row(misbehaved, "hold").peak < 2**27 + 2**24
    assert row(misbehaved, "eat").peak > 200 * 2**20
    assert row(misbehaved, "eat").total < 3.0


def test_what_a_killed_solver_started_dies_with_it(misbehaved: Comparison, package: Path) -> None:
    notes = (package / "notes.txt").read_text().splitlines()
    (pid,) = [int(line) for line in notes if " " not in line]
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.05)
    return True


def test_a_solver_that_cannot_be_imported_is_listed_with_the_reason(
    on_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "unloadable" not in sdpkit.available_solvers()
    assert main(["solvers", "--json"]) == 0
    rows = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert "no_such_module_anywhere" in rows["unloadable"]["why_not"]
    assert rows["lie"]["available"]
    assert rows["lie"]["summary"] == "up to no good"
    assert "warm_start" in rows["interior"]["capabilities"]
    with pytest.raises(sdpkit.SolverUnavailableError, match="cannot be loaded"):
        sdpkit.solve(RING, solver="unloadable")


@pytest.mark.slow
def test_worker_survives_its_children_and_limits_their_warming_up() -> None:
    with Worker() as worker:
        hung = worker.run(Job("time:sleep", {}, patience=0.1, warming=0.3))
        assert hung.ending == "crashed"  # sleep takes no such arguments
        hung = worker.run(Job(f"{__name__}:_never_starts", {}, patience=0.1, warming=0.6))
        assert hung.ending == "timeout"
        assert "while warming up" in hung.words
        assert hung.seconds >= 0.6
        started = worker.run(Job(f"{__name__}:_starts_and_sleeps", {}, patience=0.3, warming=60.0))
        assert (started.ending, started.told) == ("timeout", {"started": 1})
        assert started.seconds < 10
        worker._process.kill()  # the server itself
        assert (
            worker.run(Job("sdpkit.comparison.worker:echo", {"word": "a"}, 60.0)).ending == "killed"
        )
        assert worker.run(Job("sdpkit.comparison.worker:echo", {"word": "b"}, 60.0)).told == {
            "echo": "b"
        }


def _never_starts(tell) -> None:
    time.sleep(60)


def _starts_and_sleeps(tell) -> None:
    tell("started", 1)
    time.sleep(60)


# -- stopped and started again --------------------------------------------------------------


COMMAND = [sys.executable, "-m", "sdpkit", "compare"]


def surroundings(package: Path, notes: Path) -> dict[str, str]:
    """The environment of a process that finds the package and leaves notes."""
    notes.touch()
    folders = [str(package), str(Path(sdpkit.__file__).parents[1])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(folders),
        "SDPKIT_TEST_NOTES": str(notes),
    }


def test_nobody_stays_behind_when_a_comparison_is_killed(package: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    command = [*COMMAND, "--instances", "pentagon", "--solvers", "hang", "--time-limit", "300"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=surroundings(package, notes), stderr=subprocess.DEVNULL
    )
    _wait_for_lines(notes, 1, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not _alive(int(notes.read_text().split()[-1]))
    assert Comparison.load(tmp_path / "compare-instances.jsonl").runs == ()


@pytest.mark.slow
def test_killed_at_any_moment_it_loses_no_run_and_repeats_none(
    package: Path, tmp_path: Path
) -> None:
    check_kills(3, 2, 1, 1, package, tmp_path)


@pytest.mark.slow
def test_killed_at_twenty_moments_it_loses_no_run(package: Path, tmp_path: Path) -> None:
    check_kills(20, 1, 2, 2, package, tmp_path)


def check_kills(
    kills: int, lines: int, jobs: int, repeats: int, package: Path, tmp_path: Path
) -> None:
    """Kill a comparison whenever it has written so many more lines, and a moment later."""
    runs, notes = tmp_path / "runs.jsonl", tmp_path / "notes.txt"
    environment = surroundings(package, notes)
    command = [*COMMAND, "--runs", str(runs), "--json"]
    command += ["--instances", "pentagon", "string-10", "roll-15-equality"]
    command += ["--solvers", "honest", "interior", "--repeats", str(repeats), "--jobs", str(jobs)]
    rng, before = np.random.default_rng(0), b""
    for kill in range(kills):
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _wait_for_lines(runs, 3 + lines * kill, process)
        time.sleep(rng.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = _whole_lines(runs)
        assert now.startswith(before)
        before = now
    for line in notes.read_text().splitlines():
        assert not _alive(int(line.split()[-1]))
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert runs.read_bytes().startswith(before)
    comparison = Comparison.load(runs)
    assert len(comparison.runs) == 3 * 2 * 2 * repeats
    assert set(Counter(run.key for run in comparison.runs).values()) == {1}
    assert all(run.success for run in comparison.runs)
    assert all(run.reference_error <= run.tol for run in comparison.runs)
    assert len(json.loads(done.stdout)["runs"]) == len(comparison.runs)
    # Every run was made once, but for those that were under way when the process was killed.
    made = notes.read_text().splitlines()
    assert 6 * repeats <= len(made) <= 6 * repeats + jobs * kills
    # Once more, and there is nothing left to do.
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert len(notes.read_text().splitlines()) == len(made)
    assert json.loads(again.stdout) == json.loads(done.stdout)


def _wait_for_lines(path: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and _whole_lines(path).count(b"\n") >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"no {count} lines in {path}; exit code {process.poll()}")


def _whole_lines(path: Path) -> bytes:
    content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1]


def made_up(solver: str, instance: str, seconds: float, **more: object) -> RunRecord:
    values: dict[str, object] = {
        "suite": "", "instance": instance, "kind": "mvu", "n": 5, "n_rows": 5, "fingerprint": "f",
        "solver": solver, "solver_version": "1", "tol": 1e-6, "repeat": 0, "start": "cold",
        "outcome": "optimal", "success": True, "claimed": True, "total": seconds,
        "time_limit": 15.0, **more,
    }  # fmt: skip
    return RunRecord(**values)  # type: ignore[arg-type]


HERE = {"sdpkit": "0", "cores": "2", "command": "a, b\n c"}


def test_a_line_cut_anywhere_costs_that_line_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda file: None)  # a thousand times is too much for a disk
    path = tmp_path / "runs.jsonl"
    rows = [made_up("s", name, 1.0, message="ü\nö") for name in "abc"]
    with Ledger(path, HERE, {}, [Described("a")]) as ledger:
        for run in rows:
            ledger.add(run)
    whole = path.read_bytes()
    ends = [k + 1 for k, byte in enumerate(whole) if byte == ord("\n")]
    near = [end + shift for end in ends for shift in (-2, -1, 0, 1, 2)]
    for length in sorted({0, 1, *range(0, len(whole), 17), *near} & set(range(len(whole) + 1))):
        path.write_bytes(whole[:length])
        kept = max(0, sum(end <= length for end in ends) - 2)
        with Ledger(path, HERE, {}, [Described("a")]) as ledger:
            assert repr(ledger.runs) == repr(rows[:kept])
            for run in rows[kept:]:
                ledger.add(run)
        assert path.read_bytes() == whole


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    for content in ("Dear reader,\n", '{"record": "run"}\n', "[1]\n"):
        path.write_text(content)
        with pytest.raises(InputError, match="is not a comparison: line 1"):
            Ledger(path, HERE, {}, [])
        assert path.read_text() == content
    path.write_text("")
    with pytest.raises(InputError, match="no whole line"):
        Comparison.load(path)
    with pytest.raises(InputError, match="none is missing"):
        Comparison.load(tmp_path / "none")


def test_other_conditions_and_other_holders_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    held = Ledger(path, HERE, {"time_limit": 5.0}, [])
    with held, pytest.raises(InputError, match="in use by another comparison"):
        Ledger(path, HERE, {"time_limit": 5.0}, [])
    with pytest.raises(InputError, match=r"time_limit 5\.0 there, 6\.0 here"):
        Ledger(path, HERE, {"time_limit": 6.0}, [])
    with pytest.raises(InputError, match="cores 2 there, 4 here"):
        Ledger(path, {**HERE, "cores": "4"}, {"time_limit": 5.0}, [])


@pytest.mark.slow
def test_another_instance_of_the_same_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    settings = {"solvers": ["interior"], "tols": [1e-3], "path": path}
    compare({"ring": RING}, **settings)
    other = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(7))
    with pytest.raises(InputError, match="another instance named 'ring'"):
        compare({"ring": other}, **settings)


# -- what takes part ------------------------------------------------------------------------


def test_solvers_by_location_and_as_objects_and_warm_and_parallel(on_path: Path) -> None:
    import badsolvers

    seen: list[ComparisonProgress] = []
    objects = [badsolvers.Solver(name, badsolvers.chatter) for name in ("mine", "here")]
    given = ["badsolvers:HONEST", objects[0], "here", "interior"]
    with registry.registered(objects[1]):
        comparison = compare(
            RING, given, tols=[1e-6], warm=True, n_jobs=2, repeats=2, progress=seen.append
        )
    assert [(run.solver, run.start, run.repeat) for run in comparison.runs] == [
        *[("badsolvers:HONEST", "cold", k) for k in range(2)],
        *[("mine", "cold", k) for k in range(2)],
        *[("here", "cold", k) for k in range(2)],
        *[("interior", start, k) for start in ("cold", "warm") for k in range(2)],
    ]
    assert all(run.success for run in comparison.runs)
    assert [one.done for one in seen] == list(range(1, 11))
    assert seen[-1].remaining == 0
    assert seen[0].remaining > 0
    assert {tier.solver for tier in comparison.summary(start="warm")} == {"interior"}
    steps = {run.start: run.iterations for run in comparison.runs if run.solver == "interior"}
    assert 0 < steps["warm"] < steps["cold"]
    assert "looser tolerance" in comparison.table()


@pytest.mark.slow
def test_beyond_its_limit_a_solver_is_not_asked_for_more(on_path: Path) -> None:
    comparison = compare(RING, ["hang"], tols=[1e-6, 1e-3], time_limit=0.2)
    first, second = comparison.runs
    assert (first.tol, first.outcome) == (1e-3, "timeout")
    assert (second.tol, second.outcome) == (1e-6, "timeout")
    assert second.message == "not run: at tol 0.001 it ended in timeout"


def test_a_sequence_that_ran_out_of_time_is_no_lie() -> None:
    """Its programs were solved, as the solver said; there was no time for the last."""
    solution = sdpkit.solve(RING)
    assert solution.stop == "done"
    claims = {status: _claimed(replace(solution, status=status)) for status in sdpkit.Status}
    assert claims.pop(sdpkit.Status.OPTIMAL)
    assert claims.pop(sdpkit.Status.INACCURATE)
    assert not claims[sdpkit.Status.TIME_LIMIT]
    assert not claims[sdpkit.Status.ITERATION_LIMIT]
    assert not _claimed(replace(solution, stop=sdpkit.Stop.FAILED))


def test_refusals_are_rows(on_path: Path) -> None:
    given = [RING.program(), suites.find("new-point")]
    comparison = compare(given, ["barrier", "factored"], tols=[1e-3, 1e-6])
    refused = [run for run in comparison.runs if run.outcome == "refused"]
    assert len(refused) == 6
    words = {(run.instance, run.solver): run.message for run in refused}
    assert all(run.message == words[run.instance, run.solver] for run in refused)  # at both tols
    assert all("Use solver='interior'" in each for each in words.values())
    outcomes = {(run.kind, run.solver): run.outcome for run in comparison.runs}
    assert outcomes == {
        ("program", "barrier"): "optimal",
        ("program", "factored"): "refused",
        ("out-of-sample", "barrier"): "refused",
        ("out-of-sample", "factored"): "refused",
    }
    assert not any(run.success for run in comparison.runs if run.outcome == "refused")
    assert [one.name for one in comparison.instances] == ["program-1", "new-point"]


class Homeless:
    name, solve = "homeless", print


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"problems": "tiny"}, "no suite 'tiny': pass one of minimal, fast"),
        ({"problems": []}, "nothing to compare on"),
        ({"problems": 3}, "got int"),
        ({"problems": {"a": RING, "b": None}}, "got NoneType"),
        ({"problems": [suites.find("pentagon")] * 2}, "two instances are called pentagon"),
        ({"solvers": ["interiour"]}, "no solver 'interiour'"),
        ({"solvers": []}, "solvers is empty"),
        ({"solvers": ["scs", "scs"]}, "scs are named twice"),
        ({"solvers": [3]}, "solvers holds 3"),
        ({"solvers": [type("Local", (), {"name": "x", "solve": print})()]}, "cannot be sent"),
        ({"tols": []}, "tols is empty"),
        ({"tols": [0.0]}, "tols=0.0"),
        ({"repeats": 0}, "repeats=0"),
        ({"n_jobs": 1.5}, "n_jobs=1.5"),
        ({"time_limit": -1}, "time_limit=-1"),
        ({"memory_limit": math.nan}, "memory_limit=nan"),
    ],
)
def test_what_cannot_be_compared_is_refused_at_once(given: dict[str, object], words: str) -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match=words):
        compare(**{"problems": RING, "solvers": ["interior"], **given})
    assert time.monotonic() - started < 5


def test_classes_of_the_main_script_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Homeless, "__module__", "__main__")
    with pytest.raises(InputError, match="move the class to a module"):
        compare(RING, [Homeless()])


# -- what the rows say ----------------------------------------------------------------------


def test_shifted_geometric_mean_by_hand() -> None:
    assert shifted_geometric_mean([3.0, 3.0, 3.0]) == pytest.approx(3.0)
    assert shifted_geometric_mean([0.0, 3.0], shift=1.0) == pytest.approx(1.0)  # √(1·4) − 1
    assert shifted_geometric_mean([6.0, 90.0], shift=10.0) == pytest.approx(30.0)  # √(16·100) − 10


def test_summary_by_hand() -> None:
    runs = (
        made_up("fast", "a", 0.0),
        made_up("fast", "a", 8.0, repeat=1),
        made_up("fast", "a", 1.0, repeat=2),  # the median of the three
        made_up("fast", "b", 7.0, kind="lmnn"),
        made_up("slow", "a", 3.0),
        made_up("slow", "b", 0.1, success=False, outcome="inaccurate", kind="lmnn"),
        made_up("none", "a", math.nan, success=False, claimed=False, outcome="refused"),
        made_up("none", "b", math.nan, success=False, claimed=False, outcome="crashed"),
        made_up("fast", "a", 0.5, tol=1e-3),
        made_up("fast", "a", 0.25, start="warm"),
    )
    comparison = Comparison(runs, {}, ())
    tiers = comparison.summary()
    assert [(t.tol, t.solver) for t in tiers] == [
        (1e-3, "fast"), (1e-6, "fast"), (1e-6, "slow"), (1e-6, "none"),
    ]  # fmt: skip
    _, fast, slow, none = tiers
    assert fast.mean_time == pytest.approx(3.0)  # √(2·8) − 1
    assert slow.mean_time == pytest.approx(7.0)  # √(4·16) − 1: a failure counts 15 s
    assert none.mean_time == pytest.approx(15.0)
    assert (fast.relative_time, slow.relative_time) == pytest.approx((1.0, 7 / 3))
    assert (fast.instances, fast.runs, fast.successes, fast.success_rate) == (2, 4, 4, 1.0)
    assert (slow.successes, slow.lied, slow.success_rate) == (1, 1, 0.5)
    assert (none.refused, none.lied, none.success_rate) == (1, 0, 0.0)
    (warm,) = comparison.summary(start="warm")
    assert warm.mean_time == pytest.approx(0.25)
    strict = [tier for tier in comparison.summary(by_kind=True) if tier.tol < 1e-3]
    kinds = {(tier.kind, tier.solver): tier.mean_time for tier in strict}
    assert kinds[("lmnn", "fast")] == pytest.approx(7.0)
    assert kinds[("mvu", "slow")] == pytest.approx(3.0)


def test_errors_are_relative_to_the_reference_or_to_what_counts_as_zero() -> None:
    assert _error(11.0, 10.0, 0.5) == pytest.approx(0.1)
    assert _error(-0.5, 0.0, 2.0) == pytest.approx(0.25)
    assert math.isnan(_error(1.0, math.nan, 0.0))
    assert math.isnan(_error(math.nan, 1.0, 0.0))


def test_csv_and_json_round_trip_exactly(tmp_path: Path) -> None:
    runs = (
        made_up("s", "a", 0.1 + 0.2, message='quotes ", commas,\nand lines', gap=math.inf),
        made_up("t", "a", math.nan, success=False, history=({"gap": math.nan, "step": 1.0},)),
        made_up("s", "b", 1 / 3, coordinates=((0.1, -2.0), (1e-300, 3.0)), iterations=12),
    )
    comparison = Comparison(runs, HERE, (Described("a", kind="mvu"), Described("b", kind="mvu")))
    comparison.to_csv(tmp_path / "runs.csv")
    back = Comparison.from_csv(tmp_path / "runs.csv")
    assert back.environment == {**HERE, "command": "a, b c"}
    assert [one.name for one in back.instances] == ["a", "b"]
    for old, new in zip(runs, back.runs, strict=True):
        bare = replace(old, history=(), coordinates=None)
        assert [repr(getattr(bare, f.name)) for f in fields(RunRecord)] == [
            repr(getattr(new, f.name)) for f in fields(RunRecord)
        ]
    data = json.loads(comparison.to_json(), parse_constant=lambda word: pytest.fail(word))
    numbers = [replace(runs[0], gap=math.nan), *runs[1:]]  # JSON has no infinity
    assert [repr(run_from(one)) for one in data["runs"]] == [repr(run) for run in numbers]
    assert data["summary"][0]["solver"] == "s"
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="not a table of runs, it lacks instance"):
        Comparison.from_csv(tmp_path / "other.csv")


def test_csv_is_read_by_pandas(tmp_path: Path, misbehaved: Comparison) -> None:
    import pandas as pd

    misbehaved.to_csv(tmp_path / "runs.csv")
    table = pd.read_csv(tmp_path / "runs.csv", comment="#")
    assert list(table["solver"]) == [run.solver for run in misbehaved.runs]
    assert table["success"].sum() == 3
    assert math.isnan(table["gap"][0])


def test_environment_says_where(misbehaved: Comparison) -> None:
    there = misbehaved.environment
    assert there["sdpkit"] == sdpkit.__version__
    assert there["numpy"] == np.__version__
    assert there["cores"] == str(os.cpu_count())
    assert set(there) >= {"python", "processor", "memory", "date", "command", "threads"}


def test_figures_are_drawn(misbehaved: Comparison, tmp_path: Path) -> None:
    figure = misbehaved.plot(tmp_path / "runs.png")
    assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")
    times, profile, gaps = figure.axes
    assert sum(len(line.get_xdata()) for line in times.lines) == 3  # certified runs only
    assert profile.lines[0].get_ydata()[-1] == 1.0
    assert sum(len(line.get_xdata()) for line in gaps.lines[:-1]) >= 3


# -- the suites -----------------------------------------------------------------------------


def test_instances_are_described_and_named_once() -> None:
    assert {n: c for n, c in Counter(one.name for one in suites.INSTANCES).items() if c > 1} == {}
    for one in suites.INSTANCES:
        assert one.tier in suites.TIERS
        assert one.description
        assert one.source
        assert one.expected in ("optimal", "infeasible", "unbounded", "stationary")
        known = not math.isnan(one.reference) or one.expected in ("infeasible", "unbounded")
        assert known == bool(one.how), one.name
        assert known or one.tier == "large", one.name
        if one.how:
            assert one.how.startswith(("closed form: ", "certified: "))
    kinds = {one.kind for one in suites.suite("minimal")}
    assert kinds >= {"mvu", "mve", "lmnn", "localization", "out-of-sample", "no-solution"}
    assert set(suites.suite("minimal")) < set(suites.suite("fast"))
    assert not set(suites.suite("large")) & set(suites.suite("fast"))
    with pytest.raises(InputError, match="there are roll-15-equality"):
        suites.find("roll-16")


def test_the_reference_instance_has_its_known_values() -> None:
    """Values from a first implementation, which shares nothing with this one."""
    known = {
        "roll-100-equality": (1187.83455, 247),
        "roll-400-equality": (81842.801, 989),
        "roll-1000-equality": (437775.6, 2456),
        "roll-2000-equality": (1608958.3, 4992),
        "roll-400-inequality": (85795.30, 989),
    }
    for name, (value, n_edges) in known.items():
        one = suites.find(name)
        assert one.reference == pytest.approx(value, rel=2e-7), name
        assert one.build().neighborhood.n_edges == n_edges


def test_instances_are_the_same_in_every_process() -> None:
    """A problem that is sent to a worker is the problem that was built."""
    for one in suites.suite("minimal"):
        problem = one.build()
        programs = [problem, pickle.loads(pickle.dumps(problem)), one.build()]
        prints = {first_program(each).fingerprint for each in programs}
        assert len(prints) == 1, one.name


@pytest.mark.parametrize("one", suites.suite("minimal"), ids=lambda one: one.name)
def test_references_are_recomputed(one: suites.Instance) -> None:
    check_reference(one, 1e-6 if one.kind == "lmnn" else 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("one", suites.suite("fast"), ids=lambda one: one.name)
def test_references_of_the_fast_suite(one: suites.Instance) -> None:
    # Each program of MVE is made from the answer of the one before: errors add up along the way.
    tols = {"lmnn": 1e-6, "mve": 1e-9}
    check_reference(one, tols.get(one.kind, 1e-8))


def check_reference(one: suites.Instance, tol: float) -> None:
    """The optimum lies between objective and bound; so must the reference, up to its own digits."""
    solution = sdpkit.solve(one.build(), tol=tol)
    assert solution.status == one.expected
    if one.expected in ("infeasible", "unbounded"):
        return
    ends = sorted([solution.objective, solution.certificate.safe_bound])
    digits = 1e-7 * abs(one.reference)
    if one.kind == "mve" and one.how.startswith("closed form"):
        digits = 3e-4 * one.reference  # it ends when a step gains less than 1e-4
    assert ends[0] - digits <= one.reference <= ends[1] + digits


@pytest.mark.parametrize(
    "name", ["roll-15-equality", "roll-15-slack", "roll-15-min-trace", "new-point", "basis-60"]
)
def test_references_agree_with_the_papers_models(name: str) -> None:
    one = suites.find(name)
    found = one.build().to_cvxpy().solve(solver="CLARABEL")
    assert found == pytest.approx(one.reference, rel=1e-5)


# -- the command line -----------------------------------------------------------------------


def test_compare_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["compare", "--suite", "no-solution", "--solvers", "interior", "--tols", "1e-6"]
    command += ["--jobs", "1"]
    assert main([*command, "--csv", "runs.csv", "--picture", "runs.png"]) == 0
    printed = capsys.readouterr()
    assert "triangle" in printed.out
    assert "3 of 3" in printed.out
    assert "[3/3] short-cut-30 · interior · 1e-06: infeasible" in printed.err
    assert "about 0 s left" in printed.err
    assert [run.outcome for run in Comparison.from_csv("runs.csv").runs] == [
        "infeasible", "unbounded", "infeasible",
    ]  # fmt: skip
    assert Path("runs.png").exists()
    kept = Path("compare-no-solution.jsonl").read_bytes()
    assert main([*command, "--json", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert len(json.loads(printed.out)["runs"]) == 3
    assert Path("compare-no-solution.jsonl").read_bytes() == kept
    assert main([*command, "--fresh", "--quiet", "--instances", "triangle"]) == 0
    assert main([*command, "--time-limit", "4"]) == 2
    assert "choose another path" in capsys.readouterr().err
    assert main(["compare", "--csv", "no/where.csv"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert main(["compare", "--list"]) == 0
    assert "roll-10000-inequality" in capsys.readouterr().out


@pytest.mark.slow
def test_minimal_suite_on_a_fresh_install(tmp_path: Path) -> None:
    """Nothing is compiled yet; our engines are called on every instance."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "fresh")}
    environment["PYTHONPATH"] = str(Path(sdpkit.__file__).parents[1])
    command = [sys.executable, "-m", "sdpkit", "compare", "--suite", "minimal", "--quiet"]
    command += ["--solvers", "interior", "barrier", "lowrank", "projection", "factored", "ascent"]
    subprocess.run(
        command, cwd=tmp_path, env=environment, check=True, timeout=600, stdout=subprocess.DEVNULL
    )
    lines = (tmp_path / "compare-minimal.jsonl").read_text().splitlines()
    runs = [record for record in map(json.loads, lines) if record["record"] == "run"]
    assert {run["instance"] for run in runs} == {one.name for one in suites.suite("minimal")}


def test_all_are_all_but_the_methods_for_teaching() -> None:
    from sdpkit.comparison.competition import _all

    missing = set(sdpkit.available_solvers()) - set(_all())
    assert missing == {"alternating", "gradient-projection", "dykstra", "subgradient-published"}


# -- solvers check each other -----------------------------------------------------------------


def test_a_proven_bound_withdraws_what_contradicts_it() -> None:
    known = {"sense": "max", "gap": 1e-7}
    right = made_up("right", "a", 1.0, objective=1.0, bound=1.0000001, **known)
    wrong = made_up("wrong", "a", 1.0, objective=1.5, bound=1.5000001, **known)
    near = made_up("near", "a", 1.0, objective=1.000001, bound=1.0000011, **known)
    comparison = Comparison((right, wrong, near), HERE, ())
    assert [run.outcome for run in comparison.runs] == ["optimal", "contradicted", "optimal"]
    withdrawn = comparison.runs[1]
    assert not withdrawn.success
    assert "the bound 1.0000001 that right has proven" in withdrawn.message
    assert verdict(withdrawn) == "contradicted"
    (tier,) = [tier for tier in comparison.summary() if tier.solver == "wrong"]
    assert (tier.successes, tier.lied) == (0, 1)
    least = [replace(run, sense="min") for run in (right, wrong, near)]
    outcomes = [run.outcome for run in Comparison(tuple(least), HERE, ()).runs]
    assert outcomes == ["contradicted", "optimal", "contradicted"]  # now 1.5 is the bound
    unknown = [replace(run, sense="") for run in (right, wrong, near)]
    assert all(run.success for run in Comparison(tuple(unknown), HERE, ()).runs)


def test_proofs_without_a_solution_are_compared_too() -> None:
    value = made_up("value", "a", 1.0, objective=1.0, bound=1.0, sense="max", gap=0.0)
    none = made_up("none", "a", 1.0, outcome="infeasible", sense="max")
    endless = made_up("endless", "a", 1.0, outcome="unbounded", sense="max")
    found = Comparison((value, none), HERE, ()).runs
    assert [run.outcome for run in found] == ["contradicted", "infeasible"]
    found = Comparison((value, endless), HERE, ()).runs
    assert [run.outcome for run in found] == ["optimal", "contradicted"]


def test_the_report_says_who_was_contradicted(tmp_path: Path) -> None:
    known = {"sense": "max", "gap": 1e-7}
    right = made_up("right", "a", 1.0, objective=1.0, bound=1.0, **known)
    wrong = made_up("wrong", "a", 1.0, objective=1.5, bound=1.5, **known)
    comparison = Comparison((right, wrong), HERE, (Described("a", kind="mvu"),))
    comparison.report(tmp_path / "report.html")
    assert "another solver has proven" in (tmp_path / "report.html").read_text()
    assert "contradicted" in comparison.table()
    comparison.to_csv(tmp_path / "runs.csv")
    again = Comparison.from_csv(tmp_path / "runs.csv")
    assert [run.outcome for run in again.runs] == ["optimal", "contradicted"]


def test_timeouts_are_counted_whoever_ended_them() -> None:
    ended = ("timeout", "time_limit", "crashed", "refused")
    runs = tuple(
        made_up("s", name, math.nan, success=False, claimed=False, outcome=name) for name in ended
    )
    (tier,) = Comparison(runs, HERE, ()).summary()
    assert (tier.timeouts, tier.refused, tier.lied) == (2, 1, 0)


def test_files_of_programs_are_instances(tmp_path: Path) -> None:
    RING.program().save(tmp_path / "ring.npz")
    sdpkit.write_sdpa(RING.program(), tmp_path / "ring.dat-s")
    files = [str(tmp_path / "ring.npz"), str(tmp_path / "ring.dat-s"), "pentagon"]
    runs = tmp_path / "runs.jsonl"
    command = ["compare", "--instances", *files, "--solvers", "interior", "--tols", "1e-6"]
    assert main([*command, "--runs", str(runs), "--quiet"]) == 0
    found = {run.instance: run for run in Comparison.load(runs).runs}
    assert set(found) == {"ring.npz", "ring.dat-s", "pentagon"}
    assert all(run.success for run in found.values())
    assert main(["compare", "--instances", str(tmp_path / "none.npz")]) == 2


@pytest.mark.slow
def test_times_of_plugins_are_measured(on_path: Path) -> None:
    """A plug-in that says nothing about its times has what it took counted as solving."""
    run = row(compare({"ring": RING}, ["chatter", "hold"], [1e-6], time_limit=5.0), "hold")
    assert run.setup + run.solve > 0
    assert run.setup + run.solve <= run.total
