"""Long computations of an engine, ended by its time limit and by Ctrl-C.

A limit must be noticed wherever an engine is: while it is set up, in loops (`continue_or_raise` of
`sdpkit.numerics.patience`), and in calls of LAPACK, which take seconds for large matrices and look
at neither the clock nor the keyboard.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

import numpy as np
import scipy.linalg

from sdpkit.numerics.patience import Abandoned, continue_or_raise, until
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.driver import Driver, Engine
from sdpkit.solution.interruption import is_interrupted
from sdpkit.solution.process import apart, can_fork
from sdpkit.typing import Array

T = TypeVar("T")

# From this size on one decomposition of a matrix may take a second or more: a process for it, which
# takes some hundredths, is then worth it.
LONG_SIZE = 1500
# Seconds that a set-up or a decomposition may take when time is up: small programs have a first
# point by then.
_MOMENT = 0.8
# Columns of a Cholesky factor between two looks at the clock.
_PANEL = 256

# The driver of the engine that is at work, for the decompositions deep inside of it.
_driver: ContextVar[Driver | None] = ContextVar("driver", default=None)


def set_up_and_run(driver: Driver, set_up: Callable[[], Engine | Answer]) -> Answer:
    """Run the engine that `set_up` returns. There is no point if the time is over before that.

    An answer that needs no engine is returned as it is.
    """
    token = _driver.set(driver)
    try:
        with until(lambda: is_overdue(driver)):
            engine = set_up()
        return driver.finish(engine) if isinstance(engine, Answer) else driver.run(engine)
    except Abandoned:
        if not driver.must_stop or driver.stop is None:
            raise  # somebody else has no patience
        return driver.finish(Answer(driver.stop, driver.words))
    finally:
        _driver.reset(token)


def is_overdue(driver: Driver) -> bool:
    """Whether the time has been up for a moment, or Ctrl-C was pressed."""
    limit = driver.settings.time_limit
    return is_interrupted() or (limit is not None and driver.seconds > limit + _MOMENT)


def stoppable(size: int, work: Callable[[], T]) -> T:
    """What `work` returns, which decomposes matrices of this size; `Abandoned` at the limit.

    In an engine, large ones are decomposed in a process that can be stopped.
    """
    continue_or_raise()
    driver = _driver.get()
    if driver is None or size < LONG_SIZE or not can_fork():
        return work()
    limit = driver.settings.time_limit
    left = None if limit is None else max(limit + _MOMENT - driver.seconds, 0.0)
    returned = apart(work, left)
    if returned.stop is None:
        found: T = returned.value
        return found
    if returned.stop is Stop.FAILED:
        raise MemoryError("a decomposition was ended by the system")
    raise Abandoned(returned.words)


def stoppable_cholesky(matrix: Array) -> Array:
    """The lower factor of a positive definite matrix, in panels of columns if it is large.

    The entries above the diagonal are not to be read. `Abandoned` if it is time to stop.

    >>> lower = stoppable_cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> np.tril(lower)
    array([[2., 0.],
           [1., 2.]])
    """
    n = len(matrix)
    if n < LONG_SIZE:
        return np.asarray(scipy.linalg.cholesky(matrix, lower=True))
    out = matrix.copy()
    for first in range(0, n, _PANEL):
        last = min(first + _PANEL, n)
        corner = scipy.linalg.cholesky(out[first:last, first:last], lower=True)
        out[first:last, first:last] = corner
        below = out[last:, first:last]
        below[:] = scipy.linalg.solve_triangular(corner, below.T, lower=True).T
        for left in range(last, n, _PANEL):
            continue_or_raise()
            right = min(left + _PANEL, n)
            rows = out[left:right, first:last]
            out[left:, left:right] -= out[left:, first:last] @ rows.T
    return out


__all__ = ["is_overdue", "set_up_and_run", "stoppable", "stoppable_cholesky"]
