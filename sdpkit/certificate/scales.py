"""Denominators of relative errors, in one place."""

from __future__ import annotations

import numpy as np

from sdpkit.program.form import Program


def relative_gap_of(program: Program, objective: float, bound: float, linear: float = 0.0) -> float:
    """|bound − objective| in units of the value; `linear` is the objective without log dets."""
    if not np.isfinite(objective) or not np.isfinite(bound):
        return np.inf
    return ratio(abs(bound - objective), value_unit(program, objective, bound, linear))


def value_unit(program: Program, objective: float, bound: float, linear: float = 0.0) -> float:
    """What differences of values are divided by: max(|objective|, |bound|, floor), with offsets.

    `linear` is the objective without log dets.
    """
    if program.has_log_det:
        # A log det moves by a constant with the unit of length: its size means nothing. At the
        # optimum it is matched by a linear part of β·n; what is beyond that is the rest's.
        matched = sum(block.log_det * block.size for block in program.blocks)
        return max(sum(block.log_det for block in program.blocks), abs(linear) - matched)
    return max([abs(v) for v in (objective, bound) if np.isfinite(v)] + [program.value_floor])


def ratio(value: float, scale: float) -> float:
    """value/scale with 0/0 = 0."""
    if value == 0:
        return 0.0
    return float(value / scale) if scale > 0 else np.inf
