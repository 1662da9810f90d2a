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
import struct
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
# What stands before a message: its length.
_HEAD = struct.Struct("<q")

Tell = Callable[[str, Any], None]


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

    def answer(tell: Tell) -> None:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
        try:
            tell("value", work())
        except Exception as error:
            tell("error", error)

    with Child(answer) as child:
        return _watch(child, seconds)


def _watch(child: Child, seconds: float | None) -> Returned:
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    interrupted = False
    while not select.select([child.inlet], [], [], _WATCH)[0] or child.listen():
        if is_interrupted() and not interrupted:
            interrupted, deadline = True, min(deadline, time.monotonic() + _GRACE)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.number, signal.SIGINT)
        if time.monotonic() > deadline and interrupted:
            return Returned(stop=Stop.INTERRUPTED, words="was stopped by Ctrl-C")
        if time.monotonic() > deadline:
            return Returned(stop=Stop.TIME_LIMIT, words="was stopped at the time limit")
    if "error" in child.told:
        raise child.told["error"]
    if "value" in child.told:
        return Returned(child.told["value"])
    if interrupted:
        return Returned(stop=Stop.INTERRUPTED, words="was stopped by Ctrl-C")
    return Returned(stop=Stop.FAILED, words="crashed: its process ended without an answer")


class Child:
    """A forked process that does some work and tells of it; it ends with this one, and when the
    block that it is made for is left.

    Attributes
    ----------
    number: of the process;  inlet: the pipe that it writes to
    told: the last value of every word that it told;  heard: when it told the last one

    >>> with Child(lambda tell: tell("answer", 6 * 7)) as child:
    ...     while child.listen():
    ...         pass
    >>> child.told
    {'answer': 42}
    """

    def __init__(self, work: Callable[[Tell], None]) -> None:
        sys.stdout.flush()
        parent, (self.inlet, outlet) = os.getpid(), os.pipe()
        self.told: dict[str, Any] = {}
        self.heard = time.monotonic()
        self._bytes = bytearray()
        self._status: int | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # our threads hold no locks here
            self.number = os.fork()
        if self.number == 0:
            os.close(self.inlet)
            _be_child(work, outlet, parent)
        os.close(outlet)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.inlet)
        stop_process(self.number, self._status is None)

    def listen(self) -> bool:
        """Wait for its next words and keep them; whether there may be more."""
        piece = os.read(self.inlet, 1 << 20)
        self._bytes += piece
        while len(self._bytes) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._bytes)
            if len(self._bytes) < _HEAD.size + size:
                break
            word, value = pickle.loads(self._bytes[_HEAD.size : _HEAD.size + size])
            del self._bytes[: _HEAD.size + size]
            self.told[word], self.heard = value, time.monotonic()
        return bool(piece)

    def status(self) -> int | None:
        """How it ended, in the form of `os.waitpid`; None if it has not."""
        if self._status is None:
            ended, status = os.waitpid(self.number, os.WNOHANG)
            self._status = status if ended else None
        return self._status


def _be_child(work: Callable[[Tell], None], outlet: int, parent: int) -> None:
    """The forked process: work, and never return."""

    def tell(word: str, value: Any) -> None:
        message = pickle.dumps((word, value))
        rest = memoryview(_HEAD.pack(len(message)) + message)
        while rest:
            rest = rest[os.write(outlet, rest) :]

    code = 70
    try:
        os.setsid()
        die_with_parent(parent)
        work(tell)
        code = 0
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def stop_process(child: int, alive: bool = True) -> None:
    """Kill all that a leader of a session started and, if it was not reaped, itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if alive:
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


__all__ = ["Child", "Returned", "Tell", "apart", "can_fork", "die_with_parent", "stop_process"]
