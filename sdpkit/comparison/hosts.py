"""Where runs are made: on this machine, or on whichever machine of a cluster gets to them.

Every process that makes runs, the parent here or a worker of a cluster there, keeps a few `Worker`s
ready, one per run that it makes at the same time. Limits that depend on the machine are set there.
"""

from __future__ import annotations

import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer
from typing import Any, TypeVar

from sdpkit import __version__
from sdpkit.comparison.worker import Job, Outcome, Worker
from sdpkit.errors import SdpkitError, SolverError
from sdpkit.files import free_memory
from sdpkit.solution.process import Tell

T = TypeVar("T")

# The share of the free memory that runs may take if nothing is said.
_MEMORY = 0.8
# Seconds until a worker that nobody needs is let go.
_IDLE = 60.0


@dataclass(frozen=True)
class Errand:
    """A job for whoever gets to it.

    Attributes
    ----------
    number: which one of the comparison's
    owner: the comparison; each has workers of its own
    function, arguments, patience: as in `Job`
    sort: what is imported and compiled once per machine;  warming: seconds that this may take
    memory: bytes that it may take, None for its share of the machine that it comes to
    heavy, beside: as in `Worker`
    version: the sdpkit that asks
    """

    number: int
    owner: str
    function: str
    arguments: Mapping[str, Any]
    patience: float
    sort: tuple[str, ...] = ()
    warming: float = 0.0
    memory: float | None = None
    heavy: bool = False
    beside: int = 1
    version: str = __version__


@dataclass(frozen=True)
class Done:
    """What became of an errand, the seconds it took in all, and the machine of a cluster that it
    was run on, "" for this one."""

    number: int
    outcome: Outcome
    seconds: float
    host: str


def carry_out(errand: Errand) -> Done:
    """Run an errand in a new process of the machine that this is called on."""
    started = time.perf_counter()
    if errand.version != __version__:
        raise SdpkitError(
            f"{host()} has sdpkit {__version__}, the comparison {errand.version}: install the "
            "same version on all machines"
        )
    with _lock:
        stable = _stables.setdefault(errand.owner, Stable())
    outcome = stable.run(errand)
    return Done(errand.number, outcome, time.perf_counter() - started, host())


def dismiss(owner: str) -> None:
    """Stop a comparison's workers in this process, also those that are at work."""
    with _lock:
        stable = _stables.pop(owner, None)
    if stable is not None:
        stable.close()


def isolated(function: Callable[..., T], *arguments: Any) -> T:
    """The function's value; on a machine of a cluster from a new process, so that a crash or too
    much memory is an error and not the end of the cluster's worker."""
    if _dask_worker() is None:
        return function(*arguments)
    call = {"function": function, "arguments": arguments}
    name = f"{__name__}:_tell_value"
    done = carry_out(Errand(0, "calls", name, call, patience=math.inf))
    if "value" not in done.outcome.told:
        raise SolverError(f"{done.host}: {done.outcome.ending}, {done.outcome.words}")
    value: T = done.outcome.told["value"]
    return value


def _tell_value(tell: Tell, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    tell("value", function(*arguments))


class Stable:
    """The workers of one comparison in this process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []
        self._warmed: set[tuple[str, ...]] = set()
        self._timer: Timer | None = None

    def run(self, errand: Errand) -> Outcome:
        """Have one of the workers do it; the first of its sort has time to warm up."""
        with self._lock:
            first = errand.sort not in self._warmed
            self._warmed.add(errand.sort)
            worker = self._idle.pop() if self._idle else Worker(errand.heavy, errand.beside)
            self._busy.append(worker)
        job = Job(
            errand.function,
            errand.arguments,
            errand.patience,
            errand.warming if first else errand.patience,
            memory_share() if errand.memory is None else errand.memory,
        )
        try:
            outcome = worker.run(job)
        except BaseException:
            worker.stop()
            raise
        finally:
            with self._lock:
                self._busy.remove(worker)
        with self._lock:
            self._idle.append(worker)
            self._wait()
        return outcome

    def _wait(self) -> None:
        """Let the workers go after a while: nobody tells a machine of a cluster that it was the
        last run."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = Timer(_IDLE, self._let_go)
        self._timer.daemon = True
        self._timer.start()

    def _let_go(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.stop()

    def close(self) -> None:
        """Stop all workers."""
        if self._timer is not None:
            self._timer.cancel()
        self._let_go()
        with self._lock:
            busy = list(self._busy)
        for worker in busy:
            worker.stop()


_stables: dict[str, Stable] = {}
_lock = Lock()


# -- this machine ---------------------------------------------------------------------------


def memory_share(beside: int = 1) -> float:
    """Bytes that each of `beside` runs may take: on a cluster, at most the share of a thread of the
    cluster's worker."""
    free = _MEMORY * free_memory() / beside
    worker = _dask_worker()
    if worker is None:
        return free
    given = float(worker.memory_manager.memory_limit or free)
    return min(free, given) / max(1, int(worker.state.nthreads))


def processor() -> str:
    """The name of this machine's processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def memory() -> str:
    """The memory of this machine, in words."""
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return "unknown"
    return f"{pages / 2**30:.1f} GiB"


def host() -> str:
    """The machine's name and processor if a cluster sent the run here, else ""."""
    return "" if _dask_worker() is None else f"{platform.node()} ({processor()})"


def _dask_worker() -> Any:
    """The worker of a Dask cluster that this is called from, or None."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_worker()
    except ValueError:  # a process that runs no task of a cluster
        return None
