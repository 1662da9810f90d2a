"""Executables of others and forked processes: they end with their parent and leave nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import sdpkit
from sdpkit.solution import executable
from sdpkit.solution.answer import Stop
from sdpkit.solution.executable import WorkFolder

# It starts another program, and notes the ids of both.
SLEEPER = """#!/bin/sh
sleep 300 &
echo $$ $! > "$IDS.part"
mv "$IDS.part" "$IDS"
wait
"""

SOLVE = """
import sdpkit
problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(12), n_neighbors=4)
sdpkit.solve(problem, solver="csdp")
"""
COMPARE = """
import sdpkit
problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(12), n_neighbors=4)
sdpkit.compare({"roll": problem}, ["csdp"], [1e-3], time_limit=100, path="runs.jsonl")
"""
FORKED = """
import os, subprocess, sys, time
from sdpkit.solution.process import apart
def work():
    with open(os.environ["IDS"], "w") as file:
        file.write(f"{os.getpid()}")
    time.sleep(300)
apart(work)
"""
# A sibling that is a copy of the process holds its pipes open.
COPIED = (
    """
import os, threading, time
def copy():
    time.sleep(1)
    if os.fork() == 0:
        os.setsid()
        time.sleep(20)
        os._exit(0)
threading.Thread(target=copy).start()
"""
    + SOLVE
)


def is_alive(process: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def started(code: str, folder: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A Python process that runs `code` with a csdp that sleeps, and the processes of that."""
    bin_, temporary = folder / "bin", folder / "tmp"
    bin_.mkdir()
    temporary.mkdir()
    (bin_ / "csdp").write_text(SLEEPER)
    (bin_ / "csdp").chmod(0o755)
    ids = folder / "ids"
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(sdpkit.__file__).parents[1]),
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(temporary),
        "IDS": str(ids),
    }
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    assert eventually(ids.exists, 60), "the program was not started"
    return process, [int(word) for word in ids.read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("of_group", [False, True], ids=["the process", "its group"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
@pytest.mark.parametrize("code", [SOLVE, COMPARE, FORKED], ids=["solve", "compare", "forked"])
def test_a_killed_process_leaves_nothing(
    code: str, number: signal.Signals, of_group: bool, tmp_path: Path
) -> None:
    process, programs = started(code, tmp_path)
    assert all(is_alive(program) for program in programs)
    (os.killpg if of_group else os.kill)(process.pid, number)
    process.wait()
    assert eventually(lambda: not any(is_alive(program) for program in programs))
    assert eventually(lambda: not list((tmp_path / "tmp").glob("sdpkit-*")))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_copies_of_a_killed_process_keep_nothing_alive(tmp_path: Path) -> None:
    process, programs = started(COPIED, tmp_path)
    time.sleep(1.5)
    process.kill()
    process.wait()
    assert eventually(lambda: not any(is_alive(program) for program in programs))
    assert eventually(lambda: not list((tmp_path / "tmp").glob("sdpkit-*")))


def test_a_program_is_stopped_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = tmp_path / "ids"
    monkeypatch.setenv("IDS", str(ids))
    (tmp_path / "sleeper").write_text(SLEEPER)
    (tmp_path / "sleeper").chmod(0o755)
    with WorkFolder() as folder:
        begun = time.monotonic()
        code, stopped = folder.run([str(tmp_path / "sleeper")], seconds=1.0)
        assert (code, stopped) == (-signal.SIGKILL, Stop.TIME_LIMIT)
        assert time.monotonic() - begun < 5
        programs = [int(word) for word in ids.read_text().split()]
        assert eventually(lambda: not any(is_alive(program) for program in programs))
        assert folder.run(["sh", "-c", "echo again > new; exit 5"]) == (5, None)
        assert (folder.path / "new").read_text() == "again\n"
    assert not folder.path.exists()


def test_ends_of_programs_are_told() -> None:
    with WorkFolder() as folder:
        assert folder.run(["sh", "-c", "kill -SEGV $$"]) == (-signal.SIGSEGV, None)
        assert folder.run(["no-such-program-here"]) == (127, None)
        assert "No such file" in (folder.path / "output").read_text()
        assert folder.run(["sh", "-c", "cat; kill -TERM $$"]) == (-signal.SIGTERM, None)


def test_a_keeper_that_is_killed_costs_the_answer_only() -> None:
    with WorkFolder() as folder:
        folder._keeper.kill()
        assert folder.run(["true"])[0] < 0
        assert folder.path.exists()
    assert not folder.path.exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forks beside threads
def test_a_copy_of_the_process_does_not_delay_the_end() -> None:
    with WorkFolder() as folder:
        copy = os.fork()
        if copy == 0:
            time.sleep(20)
            os._exit(0)
        begun = time.monotonic()
    try:
        assert time.monotonic() - begun < 10
        assert not folder.path.exists()
    finally:
        os.kill(copy, signal.SIGKILL)
        os.waitpid(copy, 0)


def test_a_place_that_cannot_be_written_to_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable.tempfile, "gettempdir", lambda: "/proc/none")
    with pytest.raises(sdpkit.SolverError, match="set TMPDIR"), WorkFolder():
        pass
