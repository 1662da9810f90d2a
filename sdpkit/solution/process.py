"""Work in a separate process, which can be stopped whatever it does.

For solvers of others that look at neither the clock nor Ctrl-C while they factorise. The child is
forked, so that nothing is imported or copied for it, and ends with its parent.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sdpkit.numerics.interruption import is_interrupted
from sdpkit.solution.answer import Stop

# Seconds between two looks at the clock.
_WATCH = 0.05
# Seconds for a child to return what it has after Ctrl-C.
_GRACE = 1.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Returned:
    """What came of the work: its value, or why it was stopped, in words."""

    value: Any = None
    stop: Stop | None = None
    words: str = ""


def can_fork() -> bool:
    """Whether a process can be copied safely; frameworks of macOS cannot be used in a copy."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def apart(work: Callable[[], Any], seconds: float | None = None) -> Returned:
    """Do `work` in a child; stop it after so many seconds, or soon after Ctrl-C.

    A child that remembers interrupts is told of Ctrl-C, and may return what it has. The value must
    be one that can be pickled; an exception is raised here as it was there.

    >>> apart(lambda: 6 * 7).value
    42
    >>> apart(lambda: time.sleep(60), seconds=0.1).stop
    <Stop.TIME_LIMIT: 'time_limit'>
    """
    sys.stdout.flush()
    parent = os.getpid()
    inlet, outlet = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # our threads hold no locks here
        child = os.fork()
    if child == 0:
        _be_child(work, inlet, outlet, parent)
    os.close(outlet)
    try:
        return _watch(child, inlet, seconds)
    finally:
        os.close(inlet)
        stop_process(child)


def _watch(child: int, inlet: int, seconds: float | None) -> Returned:
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    heard, told = bytearray(), False
    while True:
        if select.select([inlet], [], [], _WATCH)[0]:
            piece = os.read(inlet, 1 << 20)
            heard += piece
            if not piece:
                break
        if is_interrupted() and not told:
            told, deadline = True, min(deadline, time.monotonic() + _GRACE)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGINT)
        if time.monotonic() > deadline and told:
            return Returned(stop=Stop.INTERRUPTED, words="was stopped by Ctrl-C")
        if time.monotonic() > deadline:
            return Returned(stop=Stop.TIME_LIMIT, words="was stopped at the time limit")
    if not heard and told:
        return Returned(stop=Stop.INTERRUPTED, words="was stopped by Ctrl-C")
    if not heard:
        return Returned(stop=Stop.FAILED, words="crashed: its process ended without an answer")
    value, error = pickle.loads(bytes(heard))
    if error is not None:
        raise error
    return Returned(value)


def _be_child(work: Callable[[], Any], inlet: int, outlet: int, parent: int) -> None:
    """The forked process: work, say what came of it, and never return."""
    code = 70
    try:
        os.close(inlet)
        os.setsid()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
        die_with_parent(parent)
        try:
            said = pickle.dumps((work(), None))
        except Exception as error:
            said = pickle.dumps((None, error))
        rest = memoryview(said)
        while rest:
            rest = rest[os.write(outlet, rest) :]
        code = 0
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def stop_process(child: int) -> None:
    """Kill a child that leads its own session, and all that it started; reap it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # it may have had no time to lead a session
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def die_with_parent(parent: int) -> None:
    """Where the system can: be killed when the process `parent` is, which may have been already."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(70)


__all__ = ["Returned", "apart", "can_fork", "die_with_parent", "stop_process"]
