"""Runs that are killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit import MVE, MVU, InputError, Status
from sdpkit.files import read_npz
from sdpkit.layout import Expected
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solving.registry import get_solver, known_solvers
from sdpkit.solving.solve import solve

EVERYBODY = [name for name in known_solvers() if get_solver(name).capabilities.checkpoint]
# `factored` takes comparisons only; its states are in tests/test_streamed.py.
KEEPERS = [name for name in EVERYBODY if name != "factored"]
# What each is asked for on forty points. Methods for teaching are resumed in tests of their own.
TOL = {"barrier": 1e-6, "lowrank": 1e-6, "projection": 1e-4}
TEACHING = [name for name in KEEPERS if get_solver(name).capabilities.teaching]


def problem() -> MVU:
    return MVU(sdpkit.datasets.swiss_roll(40), n_neighbors=4, form="inequality")


# -- the file -------------------------------------------------------------------------------


def test_the_last_state_is_what_is_found(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first = Checkpoint(path, "f00d", "barrier")
    assert first.is_new
    first.save(mu=1.0)
    first.save(mu=0.5, w=[1.0, 2.0])
    found = Checkpoint(path, "f00d", "barrier").load({"mu": Expected(), "w": Expected((2,))})
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
    assert not Checkpoint(path, "f00d", "barrier").is_new


def test_a_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        solve(problem(), solver="barrier", checkpoint=tmp_path / "nowhere" / "run.npz")


def test_a_state_is_due_after_a_while(tmp_path: Path) -> None:
    assert not Checkpoint(tmp_path / "a.npz", "f", "s", every=60.0).is_due
    assert Checkpoint(tmp_path / "a.npz", "f", "s", every=0.0).is_due


# -- files of strangers ------------------------------------------------------------------------


def state_of(name: str, folder: Path) -> dict[str, Any]:
    """What an engine leaves after a few iterations on `problem()`."""
    path = folder / "good.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solve(problem(), solver=name, checkpoint=path, max_iter=25, tol=1e-9)
    return {n[6:]: a for n, a in read_npz(path).items() if n.startswith("state/")}


def planted(array: Any, value: float) -> Any:
    out = np.array(array, dtype=float)
    out.flat[0] = value
    return out


CHANGES: dict[str, Callable[[Any], Any]] = {
    "shorter": lambda a: np.ravel(a)[:-1],
    "one number": lambda a: np.zeros(1),
    "an axis more": lambda a: np.asarray(a)[None],
    "texts": lambda a: np.asarray(a).astype(str),
    "complex": lambda a: np.asarray(a).astype(complex),
    "booleans": lambda a: np.asarray(a).astype(bool),
    "nan": lambda a: planted(a, np.nan),
    "infinite": lambda a: planted(a, -np.inf),
    "huge": lambda a: planted(a, 1e300),
}


@pytest.mark.parametrize("name", KEEPERS)
def test_a_state_of_the_wrong_form_is_refused(name: str, tmp_path: Path) -> None:
    """Each array of every engine, each change; the digest is right, as anyone can make it."""
    program = problem().program()
    good, path = state_of(name, tmp_path), tmp_path / "run.npz"
    states = [
        {**good, key: change(array)}
        for key, array in good.items()
        for way, change in CHANGES.items()
        if array.size and (key, way) != ("residual", "huge")  # it has no limit
    ]
    states += [{k: a for k, a in good.items() if k != left_out} for left_out in good]
    states += [{**good, "more": np.zeros(3)}]
    for state in states:
        path.unlink(missing_ok=True)
        Checkpoint(path, program.fingerprint, name).save(**state)
        with pytest.raises(InputError, match=f"no state that solver '{name}' can resume"):
            solve(program, solver=name, checkpoint=path, max_iter=1)


@pytest.mark.parametrize("name", KEEPERS)
def test_numbers_that_overflow_later_end_as_a_status(name: str, tmp_path: Path) -> None:
    program = problem().program()
    good, path = state_of(name, tmp_path), tmp_path / "run.npz"
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(60, 60)).ravel()
    for key, array in good.items():
        if array.dtype.kind != "f" or not array.size:
            continue
        for size in (1e99, 1e49, 1e-300):
            changed = size * np.resize(signs, array.shape)
            path.unlink(missing_ok=True)
            Checkpoint(path, program.fingerprint, name).save(**{**good, key: changed})
            refused = ""
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    solve(program, solver=name, checkpoint=path, max_iter=8, time_limit=2)
                except InputError as error:
                    refused = str(error)
            assert not refused or "no state that solver" in refused, (key, size)


FOREIGN = """
import faulthandler, sys
import numpy as np
import sdpkit
from sdpkit.solution.checkpoint import Checkpoint
faulthandler.enable()
X = sdpkit.datasets.swiss_roll(60, random_state=0)
program = sdpkit.MVU(X, n_neighbors=4).program()
name, path = sys.argv[1], sys.argv[2]
factor = np.zeros((60, 18))
factor[0, 0] = np.inf
m = program.n_rows
state = {
    "lowrank": dict(steps=8, factor0=factor, auxiliary=np.zeros(0), weights=np.zeros(m),
                    sigma=1.0, level=1.0, residual=1.0),
}.get(name, dict(z=np.zeros(1), y=np.zeros(m), s=np.zeros(3600), anchor=np.zeros(3600), t=1,
                 inner=3, weight=1.0, sums=np.zeros(0)))
Checkpoint(path, program.fingerprint, name).save(**state)
try:
    sdpkit.solve(program, solver=name, checkpoint=path, max_iter=60, time_limit=3)
except sdpkit.InputError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize("name", ["dykstra", "alternating", "lowrank"])
def test_a_foreign_state_neither_crashes_nor_hangs(name: str, tmp_path: Path) -> None:
    """They wrote outside of an array, and decomposed infinite entries for ever."""
    run = subprocess.run(
        [sys.executable, "-c", FOREIGN, name, str(tmp_path / "run.npz")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "refused:" in run.stdout
    assert "Delete the file" in run.stdout


def test_a_state_that_overflowed_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    layout = {"w": Expected((2,))}
    checkpoint = Checkpoint(path, "f00d", "barrier")
    assert checkpoint.load(layout) is None
    checkpoint.save(w=[1.0, 2.0])
    checkpoint.save(w=[1.0, np.nan])
    found = Checkpoint(path, "f00d", "barrier").load(layout)
    assert found is not None
    assert found["w"].tolist() == [1.0, 2.0]


def test_states_of_other_parts_are_left_alone(tmp_path: Path) -> None:
    """Of a program that is solved in parts the file holds the last one."""
    path = tmp_path / "run.npz"
    Checkpoint(path, "f00d", "lowrank").of_part("second").save(w=[1.0, 2.0])
    again = Checkpoint(path, "f00d", "lowrank")
    assert again.of_part("first").load({"w": Expected((1,))}) is None
    assert again.of_part("second").load({"w": Expected((2,))}) is not None


def test_a_program_in_parts_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdpkit.solving.generation.WRITTEN_ROWS", 0)
    X = np.random.default_rng(0).standard_normal((30, 3))
    lmnn, path = sdpkit.LMNN(X, np.arange(30) % 3, n_neighbors=2), tmp_path / "run.npz"
    first = solve(lmnn, solver="lowrank", tol=1e-3, checkpoint=path)
    again = solve(lmnn, solver="lowrank", tol=1e-3, checkpoint=path)
    assert first.status is again.status is Status.OPTIMAL


# -- warm starts -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["interior", *KEEPERS])
def test_warm_starts_that_cannot_be_used_are_left_out(name: str) -> None:
    """Another program's shapes, NaN, infinity and numbers near overflow."""
    program = problem().program()
    start = solve(program, tol=1e-3)
    other = solve(MVU(sdpkit.datasets.swiss_roll(30), n_neighbors=4), tol=1e-3)
    assert start.dual is not None
    starts = [
        other,
        replace(start, matrices=(np.full((40, 40), np.nan),)),
        replace(start, matrices=(1e300 * np.eye(40),)),
        replace(start, dual=np.full_like(start.dual, np.inf)),
        replace(start, dual=1e300 * start.dual),
        replace(start, dual=start.dual[:3]),
        replace(start, x=np.ones(7)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        cold = solve(program, solver=name, tol=1e-3, max_iter=12)
        for given in starts:
            found = solve(program, solver=name, tol=1e-3, max_iter=12, warm_start=given)
            assert np.isfinite(found.objective)
    assert np.isfinite(cold.objective)


def test_a_warm_start_of_other_arrays_is_refused() -> None:
    program = problem().program()
    start = solve(program, tol=1e-3)
    assert start.dual is not None
    for wrong in ({"dual": start.dual + 0j}, {"x": "none"}, {"matrices": (np.zeros(3),)}):
        with pytest.raises(InputError, match="not arrays of real numbers"):
            solve(program, warm_start=replace(start, **wrong))


# -- who keeps one --------------------------------------------------------------------------


def test_everybody_who_keeps_a_state_is_tested() -> None:
    assert set(EVERYBODY) == {*TOL, *TEACHING, "factored"}


def test_engines_without_a_state_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'interior' cannot write checkpoints. .*barrier"):
        solve(problem(), solver="interior", checkpoint=tmp_path / "run.npz")


def test_of_several_programs_the_first_has_a_state(tmp_path: Path) -> None:
    mve = MVE(sdpkit.datasets.swiss_roll(20), n_neighbors=4)
    path = tmp_path / "run.npz"
    solution = solve(mve, solver="barrier", tol=1e-4, checkpoint=path)
    assert solution.trajectory is not None
    assert len(solution.trajectory) > 1
    assert not Checkpoint(path, mve.first_program().fingerprint, "barrier").is_new
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
