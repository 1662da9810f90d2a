"""Ctrl-C as a question that computations ask, instead of an exception in the midst of a step.

While `sdpkit.solve` runs in the main thread, the first Ctrl-C is remembered. Engines and searches
ask `is_interrupted`, mostly through a `Deadline`, and end at a point that is consistent. A second
Ctrl-C raises `KeyboardInterrupt` as usual, and so does the first in code of other packages.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# When it was pressed, or None.
_pressed: float | None = None
# Whether it is meant for the computation that asks: one in the main thread, or in a thread that
# works for it and has a copy of its context.
_listens: ContextVar[bool] = ContextVar("listens", default=False)


def is_interrupted(seconds: float = 0.0) -> bool:
    """Whether Ctrl-C was pressed, at least so many seconds ago, since the solve of this thread
    began.

    >>> is_interrupted()
    False
    """
    return _pressed is not None and _listens.get() and time.monotonic() - _pressed >= seconds


@contextmanager
def remembering_interrupts() -> Iterator[None]:
    """The first Ctrl-C inside is remembered.

    It has no effect in other threads, inside itself, and where SIGINT is handled by other code.
    """
    global _pressed
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _pressed = None
    token = _listens.set(True)
    signal.signal(signal.SIGINT, _remember)
    try:
        yield
    finally:
        # A further Ctrl-C may raise in any of these lines: whatever is left must not look like one.
        try:
            _listens.reset(token)
        finally:
            _pressed = None
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Code that only knows `KeyboardInterrupt`: Ctrl-C raises it here and is remembered too."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not _remember:
        yield
        return
    signal.signal(signal.SIGINT, _remember_and_raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _remember)


def _remember_and_raise(number: int, frame: Any) -> None:
    global _pressed
    _pressed = time.monotonic()
    raise KeyboardInterrupt


def _remember(number: int, frame: Any) -> None:
    global _pressed
    if _pressed is not None:
        raise KeyboardInterrupt
    _pressed = time.monotonic()


__all__ = ["is_interrupted", "raising_interrupts", "remembering_interrupts"]
