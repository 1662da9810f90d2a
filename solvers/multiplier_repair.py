"""Feasible multipliers near given ones, for the engines and certificates that need a bound.

The repair adds y₀ with Aᵀy₀ = I, or mixes in multipliers that are known to be feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpkit.solution.reduction import Reduction
from sdpkit.solvers.sets import TwoSets
from sdpkit.typing import Array


@dataclass(frozen=True, eq=False)
class MultiplierRepair:
    """What makes multipliers that miss feasibility feasible.

    Attributes
    ----------
    y: a direction with Aᵀy ⪰ strength·I, to be subtracted; or, as an `anchor`, multipliers whose
        slack is ⪰ strength·I, to be mixed in
    """

    sets: TwoSets
    y: Array
    strength: float
    is_anchor: bool

    @classmethod
    def of(cls, sets: TwoSets, anchor: Array | None) -> MultiplierRepair | None:
        """The direction that maps to the identity where there is one, else the anchor."""
        one = np.zeros(sets.tail.stop)
        for block in sets.blocks:
            one[block.part] = np.eye(block.size).ravel()
        curved = sets.curvature > 0  # their dual slacks may be anything, at a cost
        one[sets.tail] = np.where(curved, 0.0, sets.cone.unit)
        if sets.groups or (sets.cone.lines & ~curved).any():
            return None
        y = sets.solve(sets.values(one))
        strength = sets.smallest(sets.adjoint(y))
        if strength > 0.01:
            return cls(sets, y, strength, is_anchor=False)
        if anchor is None:
            return None
        y = np.clip(sets.from_multipliers(anchor), *sets.box)
        strength = sets.smallest(sets.slack_of(y), matrices_only=sets.is_boxed)
        return cls(sets, y, strength, is_anchor=True) if strength > 0 else None

    def feasible(self, y: Array, homogeneous: bool = False) -> Array:
        """Multipliers near y whose slack c − Aᵀy, or −Aᵀy, is in the cone."""
        sets = self.sets
        if not homogeneous:
            y = np.clip(y, *sets.box)
        slack = -sets.adjoint(y) if homogeneous else sets.slack_of(y)
        if not np.isfinite(slack).all():
            return y  # near the ends of the floating-point range there is nothing to repair
        boxed = sets.is_boxed and not homogeneous
        lack = max(0.0, -sets.smallest(slack, matrices_only=boxed))
        # The smallest eigenvalue is known to rounding only.
        lack += 1e-14 * float(np.abs(slack).max()) if lack else 0.0
        if not self.is_anchor:
            return y - (lack / self.strength) * self.y
        share = lack / (lack + self.strength)
        return (1 - share) * y + share * self.y


def reduced_anchor(reduction: Reduction) -> Array | None:
    """The program's own feasible multipliers, for the reduced maximisation."""
    anchor = reduction.original.safe.anchor
    if anchor is None:
        return None
    return reduction.lower_multipliers(reduction.original.sign * anchor)
