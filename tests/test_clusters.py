"""Runs on a Dask cluster: isolated and limited there, written down here, none lost or made twice.

The cluster is a real one, of processes on this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import __main__ as bench
from plugin_text import SOLVER

import sdpkit
from sdpkit.cli.main import main
from sdpkit.comparison.competition import ComparisonProgress, compare
from sdpkit.comparison.parallel import on_a_cluster, parallel, read_config, runs_at_a_time
from sdpkit.comparison.table import Comparison
from sdpkit.errors import InputError, SdpkitError
from sdpkit.papers.entry import Options
from sdpkit.papers.reproduce import reproduce_all

SOLVERS = (
    SOLVER
    + """
import os, time
import numpy as np


class Solver(Base):
    def solve(self, program, settings):
        if settings.tol != 1e-2:  # no warm-up
            with open(os.environ["SDPKIT_TEST_NOTES"], "a") as file:
                file.write(f"{self.name} {program.n_rows} {settings.tol} {os.getpid()}\\n")
            self.act()
        return get_solver("interior").solve(program, settings)


def eat():
    held = []
    while True:
        held.append(np.ones(2**21))


def end_worker():
    os.kill(int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1]), 9)
    time.sleep(60)


SLOW = Solver("slow", lambda: time.sleep(0.4))
HANG = Solver("hang", lambda: time.sleep(600))
EAT = Solver("eat", eat)
END = Solver("end", end_worker)
"""
)
RINGS = {f"ring-{n}": sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(n)) for n in range(5, 11)}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The solvers above on the path of every process, and the file in which they say who ran."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "for_a_cluster.py").write_text(SOLVERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        paths = [str(folder), str(Path(sdpkit.__file__).parents[1])]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        patch.setenv("SDPKIT_TEST_NOTES", str(folder / "notes.txt"))
        yield folder / "notes.txt"
    sys.modules.pop("for_a_cluster", None)


@pytest.fixture
def cluster(notes: Path) -> Iterator[Any]:
    """Two workers of one thread each, restarted when they die."""
    notes.write_text("")
    with _cluster(n_workers=2) as local:
        yield local


def _cluster(**more: Any) -> Any:
    distributed = pytest.importorskip("distributed")
    return distributed.LocalCluster(
        threads_per_worker=1, processes=True, dashboard_address=None, **more
    )


def written(folder: Path, cluster: Any, **more: Any) -> Path:
    """A configuration that names the cluster."""
    path = folder / "cluster.yml"
    lines = {"backend": "dask", "dask_address": cluster.scheduler_address, **more}
    path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return path


def _alive(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.05)
    return True


# -- the file -------------------------------------------------------------------------------


def test_keys_are_those_of_benchopt(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text(
        "# a cluster\n---\nbackend: dask  # by its scheduler\ndask_address: 127.0.0.1:8786\n"
        "n_jobs: 12\ndask_timeout: '5s'\ndask_asynchronous: false\ndask_name:\n\n"
    )
    config = {
        "backend": "dask",
        "dask_address": "127.0.0.1:8786",
        "n_jobs": 12,
        "dask_timeout": "5s",
        "dask_asynchronous": False,
    }
    assert read_config(path) == config
    path.write_text(json.dumps(config))
    assert read_config(path) == config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n_jobs: 2\n", "backend is None; use one of loky, threading, dask"),
        ("backend: submitit\n", "backend is 'submitit'"),
        ("backend: loky\nn_jobs: 0\n", "n_jobs=0"),
        ("backend: loky\ndask_address: a:1\n", "dask_address is not used by the backend 'loky'"),
        ("backend: dask\nslurm_time: 3\n", "slurm_time is not used by the backend 'dask'"),
        ("backend: dask\n  address: a\n", "line 2: expected 'key: value'"),
        ("backend dask\n", "line 1: expected 'key: value'"),
        ("{backend: dask}", "is not JSON"),
        (b"\xff\xfe", "a parallel configuration"),
        ("backend: dask\ndask_address: 127.0.0.1:9\ndask_timeout: 0.1\n", "no Dask cluster could"),
    ],
)
def test_files_that_cannot_be_used_are_refused(
    text: str | bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    command = ["compare", "--instances", "pentagon", "--runs", str(tmp_path / "runs.jsonl")]
    assert main([*command, "--parallel-config", str(path)]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "runs.jsonl").exists()


def test_a_configuration_counts_until_the_command_ends(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text("backend: threading\nn_jobs: 3\n")
    with parallel(path):
        assert (runs_at_a_time(None), runs_at_a_time(2), on_a_cluster()) == (3, 2, "")
    assert (runs_at_a_time(None), runs_at_a_time(2), on_a_cluster()) == (1, 2, "")
    with parallel(None):
        assert runs_at_a_time(None) == 1


def test_benches_that_stay_in_one_process_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["forms", "--parallel-config", str(tmp_path / "none")]) == 2
    assert "it can be used with auto, grid, limits, limits-whole" in capsys.readouterr().err


@pytest.mark.slow
def test_processes_of_joblib_make_the_same_runs(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text("backend: loky\nn_jobs: 2\n")
    rings = {name: RINGS[name] for name in ("ring-5", "ring-6")}
    with parallel(path):
        comparison = compare(rings, ["interior"], [1e-6])
    assert [(run.instance, run.success, run.host) for run in comparison.runs] == [
        ("ring-5", True, ""),
        ("ring-6", True, ""),
    ]
    assert comparison.environment["parallel"] == "2 at a time"


# -- a cluster ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_costs_no_run_and_doubles_none(
    cluster: Any, notes: Path, tmp_path: Path
) -> None:
    runs, killed = tmp_path / "runs.jsonl", []

    def kill(progress: ComparisonProgress) -> None:
        if progress.done in (5, 11):
            worker = next(iter(cluster.workers.values()))
            killed.append(worker.process.process.pid)
            os.kill(killed[-1], signal.SIGKILL)

    with parallel(written(tmp_path, cluster)):
        assert on_a_cluster() == "dask"
        solvers = ["for_a_cluster:SLOW", "interior"]
        comparison = compare(RINGS, solvers, [1e-3, 1e-6], path=runs, progress=kill)
    assert len(set(killed)) == 2
    assert len(comparison.runs) == 24
    assert all(run.success for run in comparison.runs)
    kept = Comparison.load(runs)
    assert set(Counter(run.key for run in kept.runs).values()) == {1}
    assert {run.key for run in kept.runs} == {run.key for run in comparison.runs}
    name = os.uname().nodename
    assert all(run.host.startswith(f"{name} (") for run in kept.runs)
    assert kept.environment["cores"] == "of each run's host"
    # Made once, but for those that were under way on a worker when it was killed.
    made = notes.read_text().splitlines()
    assert 12 <= len(made) <= 12 + len(killed)
    assert not any(_alive(int(line.split()[-1])) for line in made)
    # The same call again has nothing left to do, on whatever machine.
    with parallel(written(tmp_path, cluster)):
        again = compare(RINGS, solvers, [1e-3, 1e-6], path=runs)
    assert again.to_json() == comparison.to_json()
    assert notes.read_text().splitlines() == made


@pytest.mark.slow
def test_the_parent_killed_in_the_middle_goes_on_where_it_was(
    cluster: Any, notes: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs.jsonl"
    command = [sys.executable, "-m", "sdpkit", "compare", "--quiet", "--json"]
    command += ["--instances", "pentagon", "string-10", "roll-15-equality", "roll-15-slack"]
    command += ["--solvers", "for_a_cluster:SLOW", "--runs", str(runs)]
    command += ["--parallel-config", str(written(tmp_path, cluster))]
    for lines in (7, 9):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not runs.exists() or runs.read_bytes().count(b"\n") < lines:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)["runs"]
    assert len(found) == 8
    assert all(run["success"] for run in found)
    kept = Comparison.load(runs).runs
    assert set(Counter(run.key for run in kept).values()) == {1}
    assert len(kept) == 8


@pytest.mark.slow
def test_limits_are_kept_where_the_run_is(cluster: Any, notes: Path, tmp_path: Path) -> None:
    with parallel(written(tmp_path, cluster)):
        comparison = compare(
            {"ring": RINGS["ring-6"]},
            ["for_a_cluster:HANG", "for_a_cluster:EAT", "interior"],
            [1e-3, 1e-6],
            time_limit=1.0,
            memory_limit=200 * 2**20,
        )
    outcomes = {(run.solver.partition(":")[2], run.tol): run.outcome for run in comparison.runs}
    assert outcomes[("HANG", 1e-3)] == "timeout"
    assert outcomes[("EAT", 1e-3)] == "out_of_memory"
    assert outcomes[("", 1e-6)] == "optimal"
    pids = [int(line.split()[-1]) for line in notes.read_text().splitlines()]
    assert len(pids) >= 2
    assert not any(_alive(pid) for pid in pids)
    assert cluster.scheduler.workers.keys() == {w.worker_address for w in cluster.workers.values()}


@pytest.mark.slow
def test_a_cluster_of_one_thread_is_a_cluster(notes: Path, tmp_path: Path) -> None:
    """joblib alone would make these runs here."""
    import joblib

    with _cluster(n_workers=1) as local, local.get_client():
        with parallel(written(tmp_path, local)):
            comparison = compare(RINGS["ring-5"], ["interior"], [1e-3])
        with joblib.parallel_config("dask"):  # as one says it in Python
            again = compare(RINGS["ring-6"], ["interior"], [1e-3])
    assert comparison.runs[0].host
    assert again.runs[0].host


@pytest.mark.slow
def test_a_run_that_the_cluster_gives_up_is_an_error(notes: Path, tmp_path: Path) -> None:
    """joblib alone would wait for it for ever."""
    dask = pytest.importorskip("dask")
    notes.write_text("")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        _cluster(n_workers=2) as local,
        parallel(written(tmp_path, local)),
        pytest.raises(SdpkitError, match="gave a run up"),
    ):
        compare(RINGS, ["for_a_cluster:END"], [1e-3], path=tmp_path / "runs.jsonl")


@pytest.mark.slow
def test_tables_of_the_papers_are_made_there_and_kept_here(
    cluster: Any, notes: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "papers"
    names = ["figure-2.10", "min-circles"]
    with parallel(written(tmp_path, cluster)):
        found = reproduce_all(folder, Options(quick=True), names=names, tell=lambda words: None)
    assert {one.name for one in found} == set(names)
    assert all(one.setting["host"].startswith(os.uname().nodename) for one in found)
    assert {path.name for path in folder.iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("json", "png")
    }
    said: list[str] = []
    reproduce_all(folder, Options(quick=True), names=names, tell=said.append)
    assert any("0 entries to make, 2 kept" in words for words in said)


@pytest.mark.slow
def test_benches_run_there(
    cluster: Any, notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["limits", "--solvers", "interior", "scs", "--time-limit", "0.5"]
    assert bench.main([*command, "--parallel-config", str(written(tmp_path, cluster))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["solver", "interior", "scs"]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    path = tmp_path / "config.yml"
    path.write_text("backend: dask\n")
    with pytest.raises(InputError, match=r"pip install 'sdpkit\[dask\]'"), parallel(path):
        pass
