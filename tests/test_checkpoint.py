"""Runs that are killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit import MVE, MVU, InputError, Status
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solving.call import solve
from sdpkit.solving.registry import get_solver, known_solvers

KEEPERS = [name for name in known_solvers() if get_solver(name).capabilities.checkpoint]
# What each is asked for on forty points. Methods for teaching are resumed in tests of their own.
TOL = {"barrier": 1e-6, "lowrank": 1e-6, "projection": 1e-4}
TEACHING = [name for name in KEEPERS if get_solver(name).capabilities.teaching]


def problem() -> MVU:
    return MVU(sdpkit.datasets.swiss_roll(40), n_neighbors=4, form="inequality")


# -- the file -------------------------------------------------------------------------------


def test_the_last_state_is_what_is_found(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first = Checkpoint(path, "f00d", "barrier")
    assert first.state is None
    first.save(mu=1.0)
    first.save(mu=0.5, w=[1.0, 2.0])
    found = Checkpoint(path, "f00d", "barrier").state
    assert found is not None
    assert float(found["mu"]) == 0.5
    assert found["w"].tolist() == [1.0, 2.0]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("fingerprint", "solver", "words"),
    [("beef", "barrier", "fingerprint f00d"), ("f00d", "lowrank", "solver barrier")],
)
def test_another_run_is_refused(tmp_path: Path, fingerprint: str, solver: str, words: str) -> None:
    path = tmp_path / "run.npz"
    Checkpoint(path, "f00d", "barrier").save(mu=1.0)
    with pytest.raises(InputError, match=words):
        Checkpoint(path, fingerprint, solver)


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 half a file"])
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not a checkpoint"):
        Checkpoint(path, "f00d", "barrier")


def test_arrays_of_somebody_else_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=np.eye(2))
    with pytest.raises(InputError, match="name another file"):
        Checkpoint(tmp_path / "data.npz", "f00d", "barrier")


def test_changed_numbers_are_refused(tmp_path: Path) -> None:
    """An engine trusts its state, so that nobody else may write it."""
    path = tmp_path / "run.npz"
    Checkpoint(path, "f00d", "barrier").save(w=[1.0, 2.0])
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for changed in (np.array([1.0, 3.0]), np.array([1.0]), np.array([np.nan, 2.0])):
        np.savez(path, **{**arrays, "state/w": changed})
        with pytest.raises(InputError, match="damaged or changed"):
            Checkpoint(path, "f00d", "barrier")
    np.savez(path, **arrays)
    assert Checkpoint(path, "f00d", "barrier").state is not None


def test_a_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        solve(problem(), solver="barrier", checkpoint=tmp_path / "nowhere" / "run.npz")


def test_a_state_is_due_after_a_while(tmp_path: Path) -> None:
    assert not Checkpoint(tmp_path / "a.npz", "f", "s", every=60.0).is_due
    assert Checkpoint(tmp_path / "a.npz", "f", "s", every=0.0).is_due


# -- who keeps one --------------------------------------------------------------------------


def test_everybody_who_keeps_a_state_is_tested() -> None:
    assert set(KEEPERS) == {*TOL, *TEACHING}


def test_engines_without_a_state_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'interior' cannot write checkpoints. .*barrier"):
        solve(problem(), solver="interior", checkpoint=tmp_path / "run.npz")


def test_of_several_programs_the_first_has_a_state(tmp_path: Path) -> None:
    mve = MVE(sdpkit.datasets.swiss_roll(20), n_neighbors=4)
    path = tmp_path / "run.npz"
    solution = solve(mve, solver="barrier", tol=1e-4, checkpoint=path)
    assert solution.trajectory is not None
    assert len(solution.trajectory) > 1
    assert Checkpoint(path, mve.first_program().fingerprint, "barrier").state is not None
    again = solve(mve, solver="barrier", tol=1e-4, checkpoint=path)
    assert again.status is Status.STATIONARY
    assert again.objective == pytest.approx(solution.objective, rel=1e-3)


@pytest.mark.parametrize("name", TOL)
def test_an_interrupted_run_goes_on(name: str, tmp_path: Path) -> None:
    """Interrupted half-way and started again: the same certified answer, in fewer iterations."""
    path, tol = tmp_path / "run.npz", TOL[name]
    whole = solve(problem(), solver=name, tol=tol)
    assert whole.iterations is not None
    half = len(whole.history) // 2
    seen: list[Mapping[str, Any]] = []

    def interrupt(row: Mapping[str, Any]) -> None:
        seen.append(row)
        if len(seen) == half:
            raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stopped = solve(problem(), solver=name, tol=tol, checkpoint=path, callback=interrupt)
    assert stopped.status is Status.INTERRUPTED
    again = solve(problem(), solver=name, tol=tol, checkpoint=path)
    assert again.status is Status.OPTIMAL
    assert again.objective == pytest.approx(whole.objective, rel=2 * tol)
    assert len(again.history) < len(whole.history)
    assert again.iterations is not None
    assert again.iterations >= whole.iterations / 2  # they are counted from the very start


@pytest.mark.slow
@pytest.mark.parametrize("name", TOL)
def test_a_killed_run_goes_on(name: str, tmp_path: Path) -> None:
    """Killed without warning; what the file holds is enough."""
    path = tmp_path / "run.npz"
    program = tmp_path / "program.npz"
    problem().program().save(program)
    script = f"""
        import time, sdpkit, sdpkit.solution.checkpoint
        sdpkit.solution.checkpoint.Checkpoint.is_due = True      # write at every iteration
        program = sdpkit.Program.load({str(program)!r})
        def slowly(row):
            time.sleep(0.05)
        sdpkit.solve(program, solver={name!r}, tol={TOL[name]}, checkpoint={str(path)!r},
                     callback=slowly)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(command, env=environment) as process:
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
    assert path.exists()
    resumed = solve(sdpkit.Program.load(program), solver=name, tol=TOL[name], checkpoint=path)
    whole = solve(problem(), solver=name, tol=TOL[name])
    assert resumed.status is Status.OPTIMAL
    assert resumed.objective == pytest.approx(whole.objective, rel=2 * TOL[name])
    assert len(resumed.history) < len(whole.history)
