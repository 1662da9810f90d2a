"""Denominators of relative errors, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpkit.program.form import Program

if TYPE_CHECKING:
    pass

Array = NDArray[np.float64]


def relative_gap_of(program: Program, objective: float, bound: float) -> float:
    if not np.isfinite(objective) or not np.isfinite(bound):
        return np.inf
    scale = max(abs(objective), abs(bound), program.safe.value_scale)
    if program.has_log_det:
        scale = sum(block.log_det for block in program.blocks)
    return ratio(abs(bound - objective), scale)


def ratio(value: float, scale: float) -> float:
    """value/scale with 0/0 = 0."""
    if value == 0:
        return 0.0
    return float(value / scale) if scale > 0 else np.inf
