"""Whether a long computation must stop, asked by those that know neither clock nor keyboard.

Whoever knows the time limit, or listens to Ctrl-C, says so around the computation (`until`). A
computation that is worth something before its end asks `is_over`; one that is worth nothing
before it calls `continue_or_raise`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_question: ContextVar[Callable[[], bool]] = ContextVar("question", default=lambda: False)


class Abandoned(Exception):
    """A computation was told to stop before it had a result."""


@contextmanager
def until(question: Callable[[], bool]) -> Iterator[None]:
    """Let computations inside stop as soon as `question()` is true, or a question around it.

    >>> is_over()
    False
    >>> with until(lambda: True):
    ...     is_over()
    True
    """
    around = _question.get()
    token = _question.set(lambda: question() or around())
    try:
        yield
    finally:
        _question.reset(token)


def is_over() -> bool:
    """Whether to stop here, with what has been found so far."""
    return _question.get()()


def continue_or_raise() -> None:
    """Nothing, or `Abandoned` if it is time to stop.

    >>> continue_or_raise()
    """
    if is_over():
        raise Abandoned("told to stop")


__all__ = ["Abandoned", "continue_or_raise", "is_over", "until"]
