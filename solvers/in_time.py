"""Long computations of an engine, ended by its time limit and by Ctrl-C.

A limit must be noticed wherever an engine is: while it is set up, in loops (`continue_or_raise` of
`sdpkit.numerics.deadline`), and in calls of LAPACK, which take seconds for large matrices and look
at neither the clock nor the keyboard.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import scipy.linalg

from sdpkit.numerics.deadline import (
    NEVER,
    UNSTOPPED,
    Abandoned,
    continue_or_raise,
    current_deadline,
)
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.driver import SETUP_SECONDS, Driver, Engine
from sdpkit.solution.process import apart, can_fork
from sdpkit.typing import Array

T = TypeVar("T")
E = TypeVar("E", bound=Engine)

# From this size on one decomposition of a matrix may take a second or more: a process for it, which
# takes some hundredths, is then worth it.
LONG_SIZE = 1500
# Columns of a Cholesky factor between two looks at the clock.
_PANEL = 256


def set_up(driver: Driver, begin: Callable[[], E | Answer]) -> E | Answer:
    """The engine that `begin` returns, or an answer that needs none; one without a point if the
    time is over before that."""
    try:
        with driver.settings.deadline.later(SETUP_SECONDS).applies():
            return begin()
    except Abandoned:
        if not driver.must_stop or driver.stop is None:
            raise  # another deadline was over
        return Answer(driver.stop, driver.words)


def stoppable(size: int, work: Callable[[], T]) -> T:
    """What `work` returns, which decomposes matrices of this size; `Abandoned` at the deadline.

    Where one applies, large ones are decomposed in a process that can be stopped.
    """
    deadline = current_deadline()
    deadline.check()
    unlimited = deadline is NEVER or deadline is UNSTOPPED
    if unlimited or size < LONG_SIZE or not can_fork():
        return work()
    returned = apart(work, None if deadline.left == math.inf else deadline.left)
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


__all__ = ["set_up", "stoppable", "stoppable_cholesky"]
