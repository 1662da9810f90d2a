"""Time, memory and data for benches, trials and the tables of the papers."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.files import read_npz
from sdpkit.solution.solution import Solution
from sdpkit.solving.solve import solve
from sdpkit.typing import Array

T = TypeVar("T")


@dataclass(frozen=True)
class Timed(Generic[T]):
    """What a call returned and what it cost; the memory is the growth of the process's peak."""

    result: T
    seconds: float
    cpu_seconds: float
    peak_bytes: float


def timed(action: Callable[[], T]) -> Timed[T]:
    """Call `action` once, by the clock and by the processor's count.

    >>> timed(lambda: 1 + 1).result
    2
    """
    peak, cpu, started = peak_bytes(), time.process_time(), time.perf_counter()
    result = action()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Timed(result, seconds, cpu, peak_bytes() - peak)


def median(runs: list[Timed[T]]) -> Timed[T]:
    """The run whose time is in the middle.

    >>> runs = [Timed(name, seconds, 0.0, 0.0) for name, seconds in (("a", 3), ("b", 1), ("c", 2))]
    >>> median(runs).result
    'c'
    """
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


def timed_solve(problem: Any, solver: Any = "auto", **options: Any) -> Timed[Solution]:
    """`solve` without warnings: whoever prints the figures says how it ended."""
    return timed(lambda: quiet_solve(problem, solver, **options))


def quiet_solve(problem: Any, solver: Any = "auto", **options: Any) -> Solution:
    """`solve` without warnings, where nobody counts the seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solve(problem, solver, **options)


def peak_bytes() -> float:
    """The most bytes this process has held so far, and the largest of those it started."""
    import resource

    unit = 1.0 if sys.platform == "darwin" else 1024.0
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return unit * sum(resource.getrusage(who).ru_maxrss for who in whose)


def forget_peak() -> None:
    """Count the peak from here on, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def arrays(folder: Path, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of folder/name.npz."""
    path = folder / f"{name}.npz"
    if not path.exists():
        raise InputError(f"{path} is missing: pass the folder that holds {name}.npz with --data")
    return read_npz(path)


def labelled(folder: Path, name: str) -> tuple[Array, NDArray[Any]]:
    """Points X and labels y of folder/name.npz."""
    found = arrays(folder, name)
    return found["X"].astype(np.float64), found["y"]
