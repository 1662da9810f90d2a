"""How many threads work, and on what: BLAS threads and sdpkit's threads must not multiply.

BLAS works with one thread wherever sdpkit computes. Its threads spin while they wait for each
other, so that with any other work on the machine two of them cost many times what they save. Work
that is parallel is shared out among sdpkit's threads, which block while they wait; `set_threads` or
the variable SDPKIT_NUM_THREADS sets how many.

BLAS libraries have one number of threads for the whole process. So the first Python thread that
enters sdpkit sets it to one, and the last one that leaves restores what it was. OpenMP has one
number per thread, restored by each thread for itself.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, wraps
from pathlib import Path
from threading import Event, RLock, get_ident
from typing import Any, ParamSpec, TypeVar

from sdpkit.errors import InputError
from sdpkit.numerics.deadline import current_deadline

P = ParamSpec("P")
R = TypeVar("R")

VARIABLE = "SDPKIT_NUM_THREADS"
# What libraries read when they are loaded.
_THEIRS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# -- sdpkit's threads -----------------------------------------------------------------------

_asked: int | None = None
_alone: ContextVar[bool] = ContextVar("alone", default=False)


def set_threads(n: int | None) -> None:
    """Limit the threads among which sdpkit shares its work; None restores the default.

    The default is the variable SDPKIT_NUM_THREADS if it is set, else OMP_NUM_THREADS or
    OPENBLAS_NUM_THREADS, else every core that this process may use. More threads than cores are
    never started. Answers agree to rounding, whatever the number.

    Parameters
    ----------
    n : int or None
        The largest number of threads.

    Examples
    --------
    >>> set_threads(1)
    >>> workers()
    1
    >>> set_threads(None)
    """
    global _asked
    _asked = None if n is None else _count("n", n)


def workers(processes: int = 1) -> int:
    """How many of sdpkit's threads may work at once: the number that was set, at most one per core.

    `processes` is how many processes of ours share them.
    """
    if _alone.get():
        return 1
    return max(1, min(_wanted(), cores()) // processes)


@contextmanager
def no_other_threads() -> Iterator[None]:
    """Share nothing out while this runs: for tasks that run at the same time, and whose answers
    are to be the same, to the last bit, wherever they run.

    >>> with no_other_threads():
    ...     workers()
    1
    """
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def _wanted() -> int:
    if _asked is not None:
        return _asked
    if ours := os.environ.get(VARIABLE, "").strip():
        return _count(VARIABLE, int(ours) if ours.isdecimal() else ours)
    # OpenMP's variable may be a list, one number per level of nesting.
    others = [os.environ.get(name, "").partition(",")[0].strip() for name in _THEIRS[:2]]
    return min((int(n) for n in others if n.isdecimal() and int(n)), default=sys.maxsize)


def _count(name: str, value: Any) -> int:
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not whole or value < 1:
        raise InputError(f"{name} is {value!r}; the number of threads is a whole number ≥ 1")
    return int(value)


def cores() -> int:
    """The cores that this process may use: by its affinity, and by the quota of its cgroup."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(there or 1, _quota()))


@cache
def _quota() -> int:
    try:
        membership = Path("/proc/self/cgroup").read_text()
    except OSError:
        return sys.maxsize
    return cgroup_quota(membership, Path("/sys/fs/cgroup"))


def cgroup_quota(membership: str, root: Path) -> int:
    """The cores, rounded up, that the CPU quotas of a process's control groups leave it.

    `membership` is the text of /proc/self/cgroup, `root` where control groups are mounted. A
    quota of any group above counts too.
    """
    shares = [math.inf]
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            mounts = [root, root / "unified"]
        elif "cpu" in controllers.split(","):
            mounts = [root / controllers, root / "cpu"]
        else:
            continue
        group = Path(path.lstrip("/"))
        shares += [_share(m / above) for m in mounts for above in (group, *group.parents)]
    least = min(shares)
    return sys.maxsize if math.isinf(least) else max(1, math.ceil(least))


def _share(group: Path) -> float:
    """Quota over period of one group, version 2 or 1; infinite where there is none."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            files = (group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us")
            quota, period = (file.read_text().strip() for file in files)
        share = float(quota) / float(period)  # version 2 says "max", version 1 says −1 for none
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
    return share if share > 0 else math.inf


class _OwnThreads(ThreadPoolExecutor):
    """Threads whose tasks keep to the time limit of whoever submits them, and end after an error
    of theirs or in the block that shares the work out."""

    def __init__(self, count: int) -> None:
        # These threads end with the pool: what was set for them needs no restoring.
        super().__init__(count, "sdpkit", initializer=_limit_own_openmp)
        self._given_up = Event()

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        def task() -> R:
            with current_deadline().or_when(self._given_up.is_set).applies():
                return fn(*args, **kwargs)

        return super().submit(copy_context().run, task)

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is not None:
            self._given_up.set()
        self.shutdown(wait=True, cancel_futures=kind is not None)


def own_threads() -> ThreadPoolExecutor:
    """Threads to share work out to, with one BLAS thread each.

    Only for use inside a function that runs with `one_blas_thread`.
    """
    return _OwnThreads(workers())


# -- threads of BLAS ------------------------------------------------------------------------

_lock = RLock()
# The Python threads that are inside sdpkit.
_inside: set[int] = set()
# (path of a library, 0 or the thread whose number it is) → the number to restore.
_before: dict[tuple[str, int], int] = {}
# Path → library, as of so many imported modules.
_libraries: dict[str, Any] = {}
_modules = 0


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, with one BLAS thread while it runs.

    It may be called from several threads at once, inside itself, and be interrupted anywhere.
    Not for generators, which run only while they are iterated.
    """

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread_of_blas():
            return function(*args, **kwargs)

    return limited


@contextmanager
def one_thread_of_blas() -> Iterator[None]:
    """One BLAS thread inside, as with `one_blas_thread`."""
    thread = get_ident()
    if thread in _inside:
        one_thread_for_new_libraries()
        yield
        return
    try:
        try:
            _limit(thread)
            yield
        finally:
            _restore(thread)
    finally:
        # Ctrl-C may have come just before the first one did its work.
        _restore(thread)


def one_thread_for_new_libraries() -> None:
    """Inside a function that runs with `one_blas_thread`: the same for BLAS libraries that an
    import has loaded since."""
    thread = get_ident()
    if thread in _inside and len(sys.modules) != _modules:
        _limit(thread)


def one_thread_environment() -> dict[str, str]:
    """The environment for another program that is to work with one thread."""
    return {**os.environ, **dict.fromkeys(_THEIRS, "1")}


# -- limits ---------------------------------------------------------------------------------
# An interrupt may cut `_limit` and `_restore` short anywhere; calling `_restore` then repairs it.


def _limit(thread: int) -> None:
    with _lock:
        _inside.add(thread)
        for path, library in _loaded().items():
            n = library.num_threads
            if n is not None and n > 1:
                _before[path, thread if _is_per_thread(library) else 0] = n
                _set(library, 1)


def _restore(thread: int) -> None:
    with _lock:
        _inside.discard(thread)
        for path, whose in list(_before):
            if whose == thread or (whose == 0 and not _inside):
                library = _libraries[path]
                if library.num_threads == 1:  # else somebody has changed it meanwhile
                    _set(library, _before[path, whose])
                del _before[path, whose]


def _limit_own_openmp() -> None:
    for library in list(_libraries.values()):
        if _is_per_thread(library):
            library.set_num_threads(1)


def _is_per_thread(library: Any) -> bool:
    return "openmp" in (library.user_api, getattr(library, "threading_layer", ""))


def _set(library: Any, n: int) -> None:
    from threadpoolctl import OpenBLASController

    # threadpoolctl lets a single thread change OpenBLAS's number and ignores the others, but it
    # need not be the first to enter that is the last to leave.
    OpenBLASController.clear_controlling_thread(force=True)
    library.set_num_threads(n)
    OpenBLASController.clear_controlling_thread(force=True)


def _loaded() -> dict[str, Any]:
    """The BLAS and OpenMP libraries of this process. Looking for them takes milliseconds, so it
    is done when modules have been imported since the last time."""
    global _modules
    if len(sys.modules) != _modules:
        from threadpoolctl import ThreadpoolController

        count = len(sys.modules)
        for library in ThreadpoolController().lib_controllers:
            _libraries.setdefault(library.filepath, library)
        _modules = count
    return _libraries


def _forget_other_threads() -> None:
    """In a forked child, where the other threads do not exist and will never leave."""
    global _lock
    _lock = RLock()
    for thread in _inside - {get_ident()}:
        _restore(thread)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
