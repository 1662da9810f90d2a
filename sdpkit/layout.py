"""What the arrays of a file must be: stated once, and checked before anything uses them.

Compiled kernels and LAPACK follow any index and any shape that they are given, and some of their
loops never end on NaN or infinity. A file may come from anywhere, and a checksum without a key only
tells that nothing happened to it by accident.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError

LARGEST = 1e100
"""The largest magnitude of a real number, by default: its cube is still finite."""
TINY = float(np.finfo(np.float64).tiny)
"""The least positive number, as the `least` of entries that must be positive."""
_MOST_WHOLE = 2.0**53


@dataclass(frozen=True)
class Expected:
    """What one array must be.

    Attributes
    ----------
    shape : tuple of int or Container[int]
        Per axis its length, or the lengths that it may have (a `range`); () is a single number.
    whole : bool
        Whether the entries are whole numbers; real numbers otherwise.
    least, most : float
        The range of the entries, both ends included; NaN is never inside.

    Examples
    --------
    >>> Expected((2,)).read("w", np.array([1, 2]))
    array([1., 2.])
    >>> Expected((2,), whole=True, least=0, most=4).read("edges", np.array([1, 5]))
    Traceback (most recent call last):
    sdpkit.errors.InputError: edges holds 5 at [1], expected whole numbers from 0 to 4
    """

    shape: tuple[int | Container[int], ...] = ()
    whole: bool = False
    least: float = -LARGEST
    most: float = LARGEST

    def read(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """A copy as float64 or int64; an array that does not fit is refused."""
        if not self._has_shape(array.shape):
            raise InputError(f"{name} has shape {array.shape}, expected {self._words_of_shape()}")
        kind = "whole" if self.whole else "real"
        if array.dtype.kind not in ("iu" if self.whole else "iuf"):
            raise InputError(f"{name} has dtype {array.dtype}, expected {kind} numbers")
        most = min(self.most, _MOST_WHOLE) if self.whole else self.most
        wrong = ~((array >= self.least) & (array <= most))
        if wrong.any():
            place = tuple(map(int, np.unravel_index(wrong.argmax(), array.shape)))
            where = f" at [{', '.join(map(str, place))}]" if array.ndim else ""
            raise InputError(
                f"{name} holds {array[place]}{where}, expected {kind} numbers from "
                f"{self.least:g} to {most:g}"
            )
        return np.array(array, dtype=np.int64 if self.whole else np.float64, order="C")

    def _has_shape(self, shape: tuple[int, ...]) -> bool:
        if len(shape) != len(self.shape):
            return False
        pairs = zip(shape, self.shape, strict=True)
        return all(n == own if isinstance(own, int) else n in own for n, own in pairs)

    def _words_of_shape(self) -> str:
        if not self.shape:
            return "a single number"
        lengths = [_words_of_length(length) for length in self.shape]
        return f"({', '.join(lengths)}{',' * (len(lengths) == 1)})"


Layout: TypeAlias = "Mapping[str, Expected]"


def _words_of_length(length: int | Container[int]) -> str:
    if isinstance(length, range):
        return f"{length.start} … {length.stop - 1}"
    if isinstance(length, tuple | list):
        return " or ".join(map(str, length))
    return str(length)


def read_layout(arrays: Mapping[str, NDArray[Any]], layout: Layout) -> dict[str, NDArray[Any]]:
    """Copies of the arrays that a layout names; missing, further and wrong ones are refused.

    >>> read_layout({"mu": np.array(-1.0)}, {"mu": Expected(least=TINY)})
    Traceback (most recent call last):
    sdpkit.errors.InputError: mu holds -1.0, expected real numbers from 2.22507e-308 to 1e+100
    """
    missing = [name for name in layout if name not in arrays]
    if missing:
        raise InputError(f"it has no array {missing[0]!r}")
    further = [name for name in arrays if name not in layout]
    if further:
        raise InputError(f"it has an array {further[0][:40]!r} that does not belong to it")
    return {
        name: expected.read(name, np.asarray(arrays[name])) for name, expected in layout.items()
    }


__all__ = ["LARGEST", "TINY", "Expected", "Layout", "read_layout"]
