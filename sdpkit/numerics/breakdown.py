"""Breakdown of a computation in floating point, as opposed to an error in the code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError

BREAKDOWNS = (ArithmeticError, np.linalg.LinAlgError, ArpackError)


def is_breakdown(error: Exception, besides: Callable[..., Any] | None = None) -> bool:
    """Whether numbers are to blame: a division by zero, an overflow, a factorisation that does
    not exist, or an array that is no longer finite. What a function `besides` raised, or anything
    that it called, does not count.

    >>> is_breakdown(ZeroDivisionError()), is_breakdown(ValueError())
    (True, False)
    """
    codes = list(_raised_in(error))
    if getattr(besides, "__code__", None) in codes:
        return False
    # scipy.linalg refuses NaN and infinity by a plain ValueError of this function.
    check = getattr(np.asarray_chkfinite, "__code__", None)
    not_finite = isinstance(error, ValueError) and bool(codes) and codes[-1] is check
    return isinstance(error, BREAKDOWNS) or not_finite


def broke_down(error: Exception) -> str:
    """What happened, as a clause for messages.

    >>> broke_down(ZeroDivisionError("division by zero"))
    'floating-point arithmetic broke down (ZeroDivisionError: division by zero)'
    """
    return f"floating-point arithmetic broke down ({kind_and_words(error)})"


def kind_and_words(error: BaseException) -> str:
    """The class of an error and its message, if it has one."""
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _raised_in(error: Exception) -> Iterator[CodeType]:
    """The functions that an error has left, the innermost last."""
    step = error.__traceback__
    while step is not None:
        yield step.tb_frame.f_code
        step = step.tb_next
