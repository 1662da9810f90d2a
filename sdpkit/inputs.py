"""What comes in: arrays of finite numbers, refused by name where they are not."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError


def finite_array(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """`value` as a new array of finite numbers; anything else is refused by `name`.

    >>> finite_array([1, 2], "X")
    array([1., 2.])
    >>> finite_array([1, float("nan")], "X")
    Traceback (most recent call last):
    sdpkit.errors.InputError: X contains NaN or infinite entries
    """
    if np.iscomplexobj(value):
        raise InputError(f"{name} is complex; pass real numbers")
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error
    if not np.isfinite(array).all():
        raise InputError(f"{name} contains NaN or infinite entries")
    return array
