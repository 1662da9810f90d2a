"""How far a point of an interior-point method is from optimal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpkit.typing import Array

_TINY = float(np.finfo(np.float64).tiny)
# Constraints shorter than this share of the longest are met at their own scale; the certificate
# measures all of them so, and longer ones are met on the way.
_SHORT = 1e-3
# What rounding leaves of the longest row.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Measures:
    """How far a point is from optimal, all relative."""

    primal: float
    dual: float
    primal_residual: float
    dual_residual: float
    mu: float
    floor: float  # the least unit of values
    offset: float  # the constant of the objective
    cost: float = 0.0  # Σ|w_e|·(what row e is off)

    @property
    def gap(self) -> float:
        """Between the primal and the dual value."""
        return abs(self.dual - self.primal) / self.size

    @property
    def relative_cost(self) -> float:
        """What the residuals may be worth, as the certificate counts it."""
        return self.cost / self.size

    @property
    def size(self) -> float:
        """The unit of values."""
        return max(abs(self.dual + self.offset), abs(self.primal + self.offset), self.floor, _TINY)

    @property
    def worst(self) -> float:
        """The largest of gap, residuals and their cost."""
        return max(self.gap, self.primal_residual, self.dual_residual, self.relative_cost)


def row_sizes(b: Array, tol: float) -> Array:
    """(m,) the units of what constraints with right-hand sides b are off.

    It is the longest one's size for most, and for short ones their own, down to where rounding is
    beyond `tol`.
    """
    size, largest = np.abs(b), max(1.0, float(np.abs(b).max(initial=0.0)))
    short = (size > 0) & (size < _SHORT * largest)
    least = min(_SHORT, _ROUNDING / tol) * largest
    return np.where(short, np.maximum(size, least), largest)


__all__ = ["Measures", "row_sizes"]
