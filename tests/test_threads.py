"""Thread limits: one BLAS thread inside sdpkit, restored whatever happens; how many of our own."""

from __future__ import annotations

import linecache
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

import sdpkit
from sdpkit.errors import InputError
from sdpkit.numerics import threads
from sdpkit.results.ellipsoid import cover
from sdpkit.solving.registry import get_solver

UNLIMITED = sys.maxsize


def numbers() -> list[tuple[str, int]]:
    """The thread numbers of all BLAS libraries."""
    found = [(one["filepath"], one["num_threads"]) for one in threadpool_info()]
    return sorted(one for one in found if "blas" in Path(one[0]).name)


@pytest.fixture(autouse=True)
def three_blas_threads() -> Iterator[list[tuple[str, int]]]:
    """BLAS at three threads, a number that nothing else sets."""
    libraries = ThreadpoolController().select(user_api="blas")
    with libraries.limit(limits=3):
        before = numbers()
        assert 3 in [n for _, n in before]
        yield before


@pytest.fixture(scope="module")
def problem() -> sdpkit.MVU:
    return sdpkit.MVU(sdpkit.datasets.swiss_roll(25), n_neighbors=4)


def test_solve_computes_with_one_blas_thread(
    problem: sdpkit.MVU, three_blas_threads: list[tuple[str, int]]
) -> None:
    seen: list[int] = []
    sdpkit.solve(
        problem, solver="interior", callback=lambda _: seen.extend(n for _, n in numbers())
    )
    assert set(seen) == {1}
    assert numbers() == three_blas_threads


def test_large_programs_too(three_blas_threads: list[tuple[str, int]]) -> None:
    seen: list[int] = []

    def look(_: Any) -> bool:
        seen.extend(n for _, n in numbers())
        return True

    large = sdpkit.MVU(graph=sdpkit.datasets.path_graph(450))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is stopped at once
        sdpkit.solve(large, solver="interior", callback=look)
    assert set(seen) == {1}
    assert numbers() == three_blas_threads


def test_overlapping_solves_of_several_threads_restore_the_numbers(
    problem: sdpkit.MVU, three_blas_threads: list[tuple[str, int]]
) -> None:
    """The first to enter is the first to leave: the other still works with one thread, and is the
    one that restores."""
    value = sdpkit.solve(problem, solver="interior").objective
    inside, left = threading.Event(), threading.Event()
    seen: list[int] = []

    def first() -> float:
        return sdpkit.solve(problem, solver="interior", callback=wait_inside).objective

    def wait_inside(_: Any) -> None:
        inside.wait(10)

    def look(_: Any) -> None:
        inside.set()
        left.wait(10)
        seen.extend(n for _, n in numbers())

    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(first)
        late = pool.submit(lambda: sdpkit.solve(problem, solver="interior", callback=look))
        objectives = [early.result(10)]
        left.set()
        objectives.append(late.result(10).objective)
        assert numbers() == three_blas_threads  # while both threads are still alive
    assert set(seen) == {1}
    assert objectives == [value, value]


def test_many_solves_at_once(
    problem: sdpkit.MVU, three_blas_threads: list[tuple[str, int]]
) -> None:
    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            solved = pool.map(lambda _: sdpkit.solve(problem, solver="interior"), range(8))
            assert len({one.objective for one in solved}) == 1
        assert numbers() == three_blas_threads


def test_an_interrupt_at_any_line_leaves_no_limit(
    three_blas_threads: list[tuple[str, int]],
) -> None:
    """KeyboardInterrupt at each call and line of the limiter in turn, once per run.

    Lines that begin with `with` are left out: the interpreter takes no interrupt between the end
    of a block and the release of its lock, but shows a tracer that line once more.
    """
    work = threads.one_blas_thread(lambda: [n for _, n in numbers()])
    own = threads.__file__

    def interrupted_at(k: int) -> bool:
        count = 0

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal count
            if frame.f_code.co_filename != own:
                return None
            line = linecache.getline(own, frame.f_lineno).lstrip()
            if event == "call" or (event == "line" and not line.startswith("with ")):
                count += 1
                if count == k:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            work()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    steps = 1
    while interrupted_at(steps):
        assert numbers() == three_blas_threads, f"interrupted at step {steps}"
        assert set(work()) == {1}, f"after an interrupt at step {steps}"
        steps += 1
    assert steps > 50
    assert numbers() == three_blas_threads
    with ThreadPoolExecutor(1) as pool:
        assert set(pool.submit(work).result(5)) == {1}


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_an_interrupted_solve_leaves_no_limit(
    problem: sdpkit.MVU, three_blas_threads: list[tuple[str, int]]
) -> None:
    def interrupt(_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for engine in ("interior", "projection"):
            try:
                solution = sdpkit.solve(problem, solver=engine, callback=interrupt)
            except KeyboardInterrupt:
                pass
            else:
                assert solution.status == "interrupted"
            assert numbers() == three_blas_threads


def test_an_error_leaves_no_limit(three_blas_threads: list[tuple[str, int]]) -> None:
    with pytest.raises(InputError, match="problem"):
        sdpkit.solve(object())  # type: ignore[arg-type]
    assert numbers() == three_blas_threads


def test_a_number_changed_meanwhile_is_kept() -> None:
    libraries = ThreadpoolController().select(user_api="blas")
    threads.one_blas_thread(lambda: [lib.set_num_threads(2) for lib in libraries.lib_controllers])()
    assert {lib.num_threads for lib in libraries.lib_controllers} <= {1, 2}
    assert 2 in {lib.num_threads for lib in libraries.lib_controllers}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_is_not_held_by_threads_that_it_does_not_have(
    three_blas_threads: list[tuple[str, int]],
) -> None:
    inside, done = threading.Event(), threading.Event()

    @threads.one_blas_thread
    def stay() -> None:
        inside.set()
        done.wait(10)

    other = threading.Thread(target=stay)
    other.start()
    inside.wait(10)
    child = os.fork()
    if child == 0:
        right = numbers() == three_blas_threads and not threads._inside
        os._exit(0 if right else 1)
    done.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert numbers() == three_blas_threads


# -- threads of our own ---------------------------------------------------------------------


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine of 64 cores with nothing asked for."""
    monkeypatch.setattr(threads, "cores", lambda: 64)
    monkeypatch.setattr(threads, "_asked", None)
    for name in (threads.VARIABLE, "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_set_threads_before_variables_before_cores(many_cores: pytest.MonkeyPatch) -> None:
    assert threads.workers() == 64
    assert threads.workers(processes=5) == 12
    many_cores.setenv("OMP_NUM_THREADS", "8,2")
    assert threads.workers() == 8
    many_cores.setenv("OPENBLAS_NUM_THREADS", "4")
    assert threads.workers() == 4
    many_cores.setenv("SDPKIT_NUM_THREADS", "16")
    assert threads.workers() == 16
    sdpkit.set_threads(np.int64(3))  # type: ignore[arg-type]
    assert threads.workers() == 3
    sdpkit.set_threads(1000)
    assert threads.workers() == 64
    sdpkit.set_threads(None)
    assert threads.workers() == 16


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", True, float("nan")])
def test_set_threads_refuses(n: Any) -> None:
    with pytest.raises(InputError, match="whole number"):
        sdpkit.set_threads(n)


@pytest.mark.parametrize("text", ["0", "two", "1.5", "-1"])
def test_a_variable_that_is_no_number_is_refused(many_cores: pytest.MonkeyPatch, text: str) -> None:
    many_cores.setenv("SDPKIT_NUM_THREADS", text)
    with pytest.raises(InputError, match=r"SDPKIT_NUM_THREADS is .* whole number"):
        threads.workers()


def test_answers_do_not_depend_on_the_number(many_cores: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((40, 12, 3))
    found = []
    for n in (1, 3):
        sdpkit.set_threads(n)
        found.append(cover(X, X.mean(axis=1)).weights)
    assert np.array_equal(*found)


def test_cgroup_quotas(tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    second, first = "0::/a/b\n", "4:memory:/m\n3:cpu,cpuacct:/c\n1:name=systemd:/\n"
    assert threads.cgroup_quota(second + first, tmp_path) == UNLIMITED
    write("a/b/cpu.max", "max 100000\n")
    assert threads.cgroup_quota(second, tmp_path) == UNLIMITED
    write("a/cpu.max", "250000 100000\n")
    assert threads.cgroup_quota(second, tmp_path) == 3
    write("a/b/cpu.max", "50000 100000\n")
    assert threads.cgroup_quota(second, tmp_path) == 1
    write("cpu,cpuacct/c/cpu.cfs_quota_us", "-1\n")
    write("cpu,cpuacct/c/cpu.cfs_period_us", "100000\n")
    assert threads.cgroup_quota(first, tmp_path) == UNLIMITED
    write("cpu,cpuacct/c/cpu.cfs_quota_us", "400000\n")
    assert threads.cgroup_quota(first, tmp_path) == 4
    # In a container the path may be the host's, and the mount its own.
    write("cpu,cpuacct/cpu.cfs_quota_us", "200000\n")
    write("cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert threads.cgroup_quota("3:cpu,cpuacct:/docker/x\n", tmp_path) == 2
    assert threads.cgroup_quota("nonsense", tmp_path) == UNLIMITED


def test_programs_on_the_path_get_one_thread(
    problem: sdpkit.MVU, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, str] = {}

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *command: Any, env: dict[str, str], **more: Any) -> None:
            given.update(env)
            super().__init__(*command, env=env, **more)

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setattr(subprocess, "Popen", Noted)
    get_solver("csdp").solve(problem.program(), sdpkit.Settings())
    assert given["OMP_NUM_THREADS"] == given["OPENBLAS_NUM_THREADS"] == "1"
    assert given["PATH"] == os.environ["PATH"]


@pytest.mark.slow
def test_the_bench_measures_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    from bench.threads import threads as table

    with pytest.raises(InputError, match="choose from loop"):
        table(1, ["nobody"])
    table(1, ["titterington"])
    row = capsys.readouterr().out.splitlines()[2].split()
    assert row[0] == "titterington"
    assert "optimal" in row
