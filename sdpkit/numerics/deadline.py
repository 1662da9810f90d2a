"""When a computation must end: one `Deadline` for every call of the user.

`sdpkit.solve` makes it from `time_limit` and passes it on in the `Settings`, where engines find it.
Functions that are not passed a deadline use the one that applies where they run
(`Deadline.applies`): a loop that has a partial result stops when `is_over()`, and a computation
without one calls `continue_or_raise`, which raises `Abandoned`. `sdpkit.solve` lets none escape.

Ctrl-C is the end of the time as well (`sdpkit.numerics.interruption`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from sdpkit.numerics.interruption import is_interrupted
from sdpkit.numerics.kernels import clock


class Abandoned(Exception):
    """A computation was told to stop before it had a result."""


@dataclass(frozen=True)
class Deadline:
    """A moment after which work stops, and for how many seconds it may go on after Ctrl-C.

    Attributes
    ----------
    end: on the clock `now`, infinite where there is no limit
    grace: seconds that are left after Ctrl-C
    given_up: whether the work is to stop for another reason

    >>> Deadline().left, Deadline().is_over
    (inf, False)
    >>> short = Deadline.after(0.0)
    >>> short.left, short.is_over, short.later(60.0).is_over
    (0.0, True, False)
    """

    end: float = math.inf
    grace: float = 0.0
    now: Callable[[], float] = clock
    given_up: Callable[[], bool] | None = None

    @classmethod
    def after(cls, seconds: float | None, now: Callable[[], float] = clock) -> Deadline:
        """So many seconds from now; None is no limit."""
        return cls(math.inf if seconds is None else now() + seconds, now=now)

    @property
    def left(self) -> float:
        """Seconds until the end: 0 when the time is over, infinite without a limit."""
        return max(self.end - self.now(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the time has passed, or Ctrl-C was pressed; cheap enough for inner loops."""
        if self.given_up is not None and self.given_up():
            return True
        return is_interrupted(self.grace) or self.now() >= self.end

    def share(self, part: float) -> Deadline:
        """The moment at which this part of what is left will have passed.

        >>> Deadline.after(60.0).share(0.5).left <= 30.0
        True
        """
        return self if self.end == math.inf else replace(self, end=self.now() + part * self.left)

    def later(self, seconds: float) -> Deadline:
        """The same with so many seconds more, after Ctrl-C as well."""
        return replace(self, end=self.end + seconds, grace=self.grace + seconds)

    def at_least(self, seconds: float) -> Deadline:
        """The same, or so many seconds from now if that is later.

        >>> Deadline.after(0.0).at_least(60.0).is_over
        False
        """
        return replace(self, end=max(self.end, self.now() + seconds))

    def within(self, other: Deadline) -> Deadline:
        """This one, or the other if that ends sooner."""
        return self if self.left <= other.left else other

    def or_when(self, given_up: Callable[[], bool]) -> Deadline:
        """The same, and over as soon as `given_up()` is true.

        >>> Deadline().or_when(lambda: True).or_when(lambda: False).is_over
        True
        """
        before = self.given_up
        if before is None:
            return replace(self, given_up=given_up)
        return replace(self, given_up=lambda: before() or given_up())

    def check(self) -> None:
        """Nothing, or `Abandoned` if the time is over."""
        if self.is_over:
            raise Abandoned("the time is over")

    @contextmanager
    def applies(self) -> Iterator[None]:
        """`is_over` and `continue_or_raise` refer to this deadline inside.

        Not around a `yield` of another generator: its consumer would run under the deadline too.

        >>> with Deadline.after(0.0).applies():
        ...     is_over()
        True
        """
        token = _applied.set(self)
        try:
            yield
        finally:
            _applied.reset(token)


NEVER = Deadline()
# For work that neither the time nor Ctrl-C may cut short: forming a point that was found, and
# functions of the user's that are shown it.
UNSTOPPED = Deadline(grace=math.inf)
_applied: ContextVar[Deadline] = ContextVar("deadline", default=NEVER)


def current_deadline() -> Deadline:
    """The deadline that applies here; one without an end by default."""
    return _applied.get()


def is_over() -> bool:
    """Whether to stop here, with what has been found so far.

    >>> is_over()
    False
    """
    return _applied.get().is_over


def continue_or_raise() -> None:
    """Nothing, or `Abandoned` if it is time to stop.

    >>> continue_or_raise()
    """
    _applied.get().check()


__all__ = [
    "NEVER",
    "UNSTOPPED",
    "Abandoned",
    "Deadline",
    "continue_or_raise",
    "current_deadline",
    "is_over",
]
