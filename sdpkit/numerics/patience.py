"""Whether a long computation must stop, asked by those that know neither clock nor keyboard.

Whoever knows the time limit, or listens to Ctrl-C, says so around the computation (`until`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_question: ContextVar[Callable[[], bool]] = ContextVar("question", default=lambda: False)


@contextmanager
def until(question: Callable[[], bool]) -> Iterator[None]:
    """Let computations inside stop as soon as `question()` is true.

    >>> is_over()
    False
    >>> with until(lambda: True):
    ...     is_over()
    True
    """
    token = _question.set(question)
    try:
        yield
    finally:
        _question.reset(token)


def is_over() -> bool:
    """Whether to stop here, with what has been found so far."""
    return _question.get()()


__all__ = ["is_over", "until"]
