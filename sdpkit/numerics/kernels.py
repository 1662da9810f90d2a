"""Hot loops, compiled to machine code by numba when they are first called.

Compilation takes a few seconds once; the result is cached on disk next to the module (or in the
user's cache where that is read-only), so that later processes only load it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """`function` compiled without the interpreter lock, so that threads may share the work.

    >>> @compiled
    ... def total(values):
    ...     out = 0.0
    ...     for value in values:
    ...         out += value
    ...     return out
    >>> import numpy as np
    >>> total(np.ones(3))
    3.0
    """
    from numba import njit

    in_a_file = Path(function.__code__.co_filename).is_file()
    # Sums may be reordered, which vectors need; NaN and infinity keep their meaning.
    fast = {"contract", "reassoc", "nsz"}
    return cast(Function, njit(cache=in_a_file, nogil=True, fastmath=fast)(function))
