"""Ctrl-C as a question that engines ask, instead of an exception in the midst of a step.

While a solver runs in the main thread, the first Ctrl-C is remembered, and whoever asks
`is_interrupted` ends at a point that is consistent: the driver, the loop over several programs,
the searches that would start another solve. A second Ctrl-C raises `KeyboardInterrupt` as usual,
and so does the first in a solver of another package.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Whether there was one.
_interrupted = False


def is_interrupted() -> bool:
    """Whether Ctrl-C was pressed since the solver of this thread was called.

    >>> is_interrupted()
    False
    """
    return _interrupted and threading.current_thread() is threading.main_thread()


def remembering_interrupts(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, during which the first Ctrl-C is remembered.

    It has no effect in other threads, inside itself, and where somebody else handles SIGINT.
    """

    @wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
        global _interrupted
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return function(*args, **kwargs)
        _interrupted = False
        signal.signal(signal.SIGINT, _remember)
        try:
            return function(*args, **kwargs)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _interrupted = False

    return remembered


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Code of others, which knows `KeyboardInterrupt` alone; the interrupt is remembered too."""
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
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def _remember(number: int, frame: Any) -> None:
    global _interrupted
    if _interrupted:
        raise KeyboardInterrupt
    _interrupted = True


__all__ = ["is_interrupted", "raising_interrupts", "remembering_interrupts"]
