"""What other work on the machine costs every engine: `make bench NAME=threads`.

Each engine solves its home instance in a process of its own, warmed up by a first solve: alone,
beside one and two other processes that solve MVU in a loop, and beside two plain busy loops. All
of them are held to the same two cores. The worst time beside others counts, in multiples of the
median time alone; and so does the time with the default number of threads, in multiples of that
with one. A run repeats its solve until it lasts a second alone, since what a shorter one loses is
up to the scheduler; the first row, a plain loop, shows what that takes from anybody. The processor
time tells threads that spin from those that wait for their turn: it should hardly grow beside
other work.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import sdpkit
from sdpkit.errors import InputError
from sdpkit.numerics.neighbors import nearest
from sdpkit.results.ellipsoid import cover
from sdpkit.solution.process import die_with_parent

# The largest ratios that are all right: beside other work, and of default threads to one thread.
_BUSY, _DEFAULT = 2.5, 1.1
_CORES = 2
# Seconds that a run lasts alone, at least.
_LEAST_SECONDS = 1.0
_SPAWN = multiprocessing.get_context("spawn")

Task = Callable[[], str]


# -- home instances -------------------------------------------------------------------------


def _roll(n: int, **options: Any) -> sdpkit.MVU:
    return sdpkit.MVU(sdpkit.datasets.swiss_roll(n), n_neighbors=4, **options)


def _classes(n: int, d: int) -> tuple[Any, Any]:
    """Points of five overlapping classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=n)
    return 1.2 * rng.standard_normal((5, d))[y] + rng.standard_normal((n, d)), y


def _cloud(n: int, d: int) -> Any:
    return np.random.default_rng(0).standard_normal((n, d))


def _wine() -> tuple[Any, Any]:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


# Engine → (words, its problem, what else solve() is told).
_HOMES: dict[str, tuple[str, Callable[[], Any], dict[str, Any]]] = {
    "interior": ("MVU, n = 400", lambda: _roll(400), {}),
    "barrier": ("MVU, n = 500", lambda: _roll(500), {"tol": 1e-4}),
    "lowrank": ("MVU ≤, n = 150", lambda: _roll(150, form="inequality"), {"tol": 1e-4}),
    "projection": ("MVU, n = 60", lambda: _roll(60), {}),
    "factored": ("LMNN, n = 4000", lambda: sdpkit.LMNN(*_classes(4000, 20)), {}),
    "projected": ("LMNN, wine", lambda: sdpkit.LMNN(*_wine()), {}),
    "subgradient": ("LMNN, wine", lambda: sdpkit.LMNN(*_wine()), {"tol": 1e-2}),
    "subgradient-published": ("LMNN, wine", lambda: sdpkit.LMNN(*_wine()), {"max_iter": 500}),
    "covering": ("n = 20,000", lambda: sdpkit.CoveringEllipsoid(_cloud(20_000, 10)), {}),
    "titterington": ("n = 500", lambda: sdpkit.CoveringEllipsoid(_cloud(500, 4)), {}),
    "ascent": ("MMC, wine", lambda: sdpkit.MMC(*_wine()), {"tol": 1e-2}),
    "csdp": ("MVU, n = 100", lambda: _roll(100), {}),
    "sdpa": ("MVU, n = 200", lambda: _roll(200), {}),
    "clarabel": ("MVU, n = 40", lambda: _roll(40), {}),
    "cvxopt": ("MVU, n = 40", lambda: _roll(40), {}),
    "scs": ("MVU, n = 25", lambda: _roll(25), {}),
    "alternating": ("MVU, n = 40", lambda: _roll(40), {"max_iter": 200}),
    "gradient-projection": ("MVU, n = 40", lambda: _roll(40), {"max_iter": 300}),
    "dykstra": ("MVU, n = 40", lambda: _roll(40), {"max_iter": 300}),
}


def _solving(name: str) -> Task:
    _, problem, settings = _HOMES[name]
    given = problem()

    def solve() -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some are stopped early on purpose
            return str(sdpkit.solve(given, solver=name, **settings).status)

    return solve


def _covering() -> Task:
    sets, centers = _cloud(60_000, 10).reshape(1000, 60, 10), np.zeros((1000, 10))
    return lambda: f"gap {cover(sets, centers).gaps.max():.0e}"


def _searching() -> Task:
    X = _cloud(6000, 20)
    return lambda: f"{nearest([X], [X], 5, themselves=True)[0].shape[0]} found"


def _counting() -> Task:
    return lambda: f"sum {sum(range(10_000_000)):.0e}"


# Work without a solver: a plain loop for comparison, and what our own threads share out.
_OTHERS: dict[str, tuple[str, Callable[[], Task]]] = {
    "loop": ("plain Python", _counting),
    "ellipsoids": ("1000 × 60 points", _covering),
    "neighbours": ("n = 6000", _searching),
}


# -- the table ------------------------------------------------------------------------------


def threads(repeats: int = 5, solvers: Iterable[str] | None = None) -> None:
    """Print, per engine, its time alone and the ratios; mark those above the limits."""
    if repeats < 1:
        raise InputError(f"repeats={repeats}: pass an integer of at least 1")
    known = [*_OTHERS, *(n for n in _HOMES if n in sdpkit.available_solvers())]
    names = list(solvers or known)
    for name in names:
        if name not in known:
            raise InputError(f"{name!r} is not measured here; choose from {', '.join(known)}")
    above = []
    with _on_two_cores() as cores, _Neighbours() as neighbours:
        print(
            f"{cores} cores, {repeats} runs: median seconds alone; the worst beside others in "
            f"multiples of it (at most {_BUSY}); default threads : one thread (at most {_DEFAULT});"
            " median processor time beside others : alone"
        )
        heads = ("alone", "1 MVU", "2 MVU", "2 loops", "threads", "CPU")
        print(f"{'':<20}{'':<18}" + "".join(f"{head:>9}" for head in heads), flush=True)
        for name in names:
            ratios, line = _row(name, repeats, neighbours)
            limits = (_BUSY, _BUSY, _BUSY, _DEFAULT)
            if any(ratio > limit for ratio, limit in zip(ratios, limits, strict=True)):
                above.append(name)
                line += "  above"
            print(line, flush=True)
    print(f"above the limits: {', '.join(above)}" if above else "all within the limits")


def _row(name: str, repeats: int, neighbours: _Neighbours) -> tuple[list[float], str]:
    words = _HOMES[name][0] if name in _HOMES else _OTHERS[name][0]
    with _Child(name) as child:
        # In turn, so that both see the same machine.
        pairs = [(child.run(None), child.run(1)) for _ in range(repeats)]
        alone, cpu = np.median([run for run, _ in pairs], axis=0)
        single, _ = np.median([run for _, run in pairs], axis=0)
        ratios, beside = [], []
        for mvu, loops in ((1, 0), (2, 0), (0, 2)):
            with neighbours.working(mvu, loops):
                runs = [child.run(None) for _ in range(repeats)]
            ratios.append(max(seconds for seconds, _ in runs) / alone)
            beside += [used for _, used in runs]
        ratios.append(alone / single)
        figures = "".join(f"{ratio:>9.2f}" for ratio in (*ratios, np.median(beside) / cpu))
        return ratios, f"{name:<20}{words:<18}{alone:>9.3f}{figures}  {child.status}"


@contextmanager
def _on_two_cores() -> Iterator[int]:
    """Hold this process, and those that it starts, to two cores where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield os.cpu_count() or 1
        return
    before = os.sched_getaffinity(0)
    cores = sorted(before)[:_CORES]
    os.sched_setaffinity(0, cores)
    try:
        yield len(cores)
    finally:
        os.sched_setaffinity(0, before)


# -- processes ------------------------------------------------------------------------------


class _Child:
    """A process that has solved its instance once and does it again when it is asked to."""

    def __init__(self, name: str) -> None:
        self.link, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(theirs, name), daemon=True)
        self.process.start()
        theirs.close()
        self.status = ""

    def __enter__(self) -> _Child:
        self.status = self.link.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()
        self.process.join()

    def run(self, n_threads: int | None) -> tuple[float, float]:
        """Seconds by the clock and of the processor."""
        self.link.send(n_threads)
        seconds, used = self.link.recv()
        return seconds, used


def _serve(link: Any, name: str) -> None:
    task = _solving(name) if name in _HOMES else _OTHERS[name][1]()
    link.send(task())  # imports and compilers are not what is measured
    began = time.perf_counter()
    task()
    repeats = math.ceil(_LEAST_SECONDS / (time.perf_counter() - began))
    while True:
        try:
            sdpkit.set_threads(link.recv())
        except EOFError:
            return
        started, used = time.perf_counter(), processor_time()
        for _ in range(repeats):
            task()
        link.send((time.perf_counter() - started, processor_time() - used))


def processor_time() -> float:
    """Of this process, its threads, and the programs that it has run."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


class _Neighbours:
    """Two processes that solve MVU and two that only count, all asleep until they are woken."""

    def __enter__(self) -> _Neighbours:
        self.mvu, self.loops = self._started(_solve_forever), self._started(_count_forever)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.mvu + self.loops:
            process.kill()
            process.join()

    def _started(self, work: Callable[[Any], None]) -> list[Any]:
        out = []
        for _ in range(2):
            ours, theirs = _SPAWN.Pipe()
            process = _SPAWN.Process(target=work, args=(theirs,), daemon=True)
            process.start()
            ours.recv()
            os.kill(process.pid or 0, signal.SIGSTOP)
            out.append(process)
        return out

    @contextmanager
    def working(self, mvu: int, loops: int) -> Iterator[None]:
        awake = self.mvu[:mvu] + self.loops[:loops]
        _send(awake, signal.SIGCONT)
        try:
            yield
        finally:
            _send(awake, signal.SIGSTOP)


def _send(processes: Sequence[Any], what: signal.Signals) -> None:
    for process in processes:
        os.kill(process.pid, what)


def _solve_forever(link: Any) -> None:
    die_with_parent(os.getppid())
    problem, parent = _roll(200), os.getppid()
    sdpkit.solve(problem)
    link.send("ready")
    while os.getppid() == parent:
        sdpkit.solve(problem)


def _count_forever(link: Any) -> None:
    die_with_parent(os.getppid())
    parent = os.getppid()
    link.send("ready")
    while os.getppid() == parent:
        sum(range(100_000))
