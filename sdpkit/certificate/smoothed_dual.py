"""The dual side of a family whose multipliers are given by a width, not by a list.

Every α = clip(½ + z/γ, 0, 1) is in its box, whatever rounding did to z, and every comparison is
counted once. So only the sums can be wrong: Σα, and the images Σα(C_ij − C_il), whose rounding is
a share of Σα(tr C_ij + tr C_il).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from sdpkit.certificate.definite import certainly_definite
from sdpkit.certificate.rigor import Verification
from sdpkit.certificate.rounding import gamma
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix
from sdpkit.typing import Array

# More roundings than any part of the sums goes through, and than there are parts.
_CHAIN = 1 << 22
# By how much multipliers are scaled down until their slack is proven definite.
_LESS = (0.0, 1e-12, 1e-9, 1e-6, 1e-4)


@dataclass(frozen=True, eq=False)
class SmoothedSums:
    """What the multipliers of a width prove, weights included.

    Attributes
    ----------
    value: Σα;  least: what it is at least
    images: per block;  roundings: what these are wrong by at most, as eigenvalues
    """

    value: float
    least: float
    images: list[Array]
    roundings: list[float]


def smoothed_sums(program: Program, matrices: list[Matrix], width: float) -> SmoothedSums | None:
    """The sums at a point; None where there is no such width, or the
    family cannot be summed without a list. What searches
    have kept is forgotten afterwards."""
    family: Any = program.family
    features = [block.features for block in program.blocks]
    whole = not any(block.null.shape[1] for block in program.blocks)
    if not hasattr(family, "smoothed") or any(x is None for x in features) or not whole:
        return None
    if not 0 < width < np.inf or not all(np.isfinite(np.asarray(m)).all() for m in matrices):
        return None
    found = family.smoothed(program.outputs(matrices), features, width)
    family.keeping.stop()
    value = family.weight * found.worth
    return SmoothedSums(
        value,
        value * (1 - gamma(_CHAIN)),
        [family.weight * image for image in found.images],
        [1.01 * family.weight * gamma(_CHAIN) * mass for mass in found.masses],
    )


def verify_smoothed(program: Program, matrices: list[Matrix], width: float) -> Verification:
    """Prove that a multiple of the multipliers is dual feasible: the value is a theorem."""
    sums = smoothed_sums(program, matrices, width)
    if sums is None or not np.isfinite(sums.value):
        return Verification(None, "the multipliers cannot be summed", sense=program.sense)
    costs = [block.cost.dense() for block in program.blocks]
    pairs = list(zip(costs, sums.images, sums.roundings, strict=True))
    lows = [_least(cost, image) for cost, image, _ in pairs]
    share = min([1.0, *(-1 / low for low in lows if low < -1)])
    for less in _LESS:
        theta = share * (1 - less)
        # The sum of the two matrices is rounded once.
        proven = all(
            certainly_definite(
                c + theta * a, r + gamma(4) * float(np.abs(c).sum() + np.abs(a).sum())
            )
            for c, a, r in pairs
        )
        if proven:
            value = float(np.nextafter(theta * sums.least, -np.inf)) + program.offset
            words = "a shifted Cholesky factorisation succeeded for the multipliers"
            words += " as they are" if theta == 1 else f" times {theta:.6g}"
            return Verification(float(np.nextafter(value, -np.inf)), words, sense=program.sense)
    words = "no multiple of the multipliers has a slack that is proven definite"
    return Verification(None, words, sense=program.sense)


def _least(cost: Array, image: Array) -> float:
    try:
        return float(scipy.linalg.eigvalsh(image, cost, subset_by_index=[0, 0])[0])
    except np.linalg.LinAlgError:
        return -np.inf
