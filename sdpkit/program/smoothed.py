"""Sums over all rows of a family at once: hinges, and multipliers that a formula gives.

The multipliers of a point with rows z_t may be listed, or given by a width:

    α_t = clip(½ + z_t/width, 0, 1)

They maximise  Σ α_t z_t − width/2 (α_t − ½)²,  so that at the minimiser of this smoothed objective
they are feasible for the dual, and their bound is off by what the smoothing costs: a multiple of
width². Where rows are many the hinges of the data are as smooth as that, nothing is listed, and
every sum is made of parts that are added up while they are found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.kernels import proof_kernel
from sdpkit.typing import Array, Indices

if TYPE_CHECKING:
    from sdpkit.program.impostors import Impostors

# Target pairs whose differences are looked at together.
_PAIRS_AT_A_TIME = 1 << 17

# Σ[z]₊, Σα, Σαz and the number of α > 0, of some rows.
Part = tuple[float, float, float, int]


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Sums over all rows.

    Attributes
    ----------
    hinges: Σ[z]₊;  worth: Σα;  inner: Σαz;  count: the number of α > 0
    images: per block Σα_t(C_ij − C_il), (d, d)
    masses: per block Σα_t(tr C_ij + tr C_il), by which its rounding is bounded
    """

    hinges: float
    worth: float
    inner: float
    count: int
    images: list[Array]
    masses: list[float]


@dataclass(eq=False)
class Smoothing:
    """The sums while they grow: `add` may be called by several threads.

    Attributes
    ----------
    features: (n, d) per block
    limits: (p,) 1 + q_ij of the target pairs;  width: of the multipliers
    tensions: (p,) Σα of each target pair;  pushes: per block Σα C_il
    """

    family: Impostors
    features: Sequence[Array]
    limits: Array
    width: float
    tensions: Array
    pushes: list[Array]
    _lock: Any = field(default_factory=Lock)

    @classmethod
    def of(
        cls, family: Impostors, features: Sequence[Array], limits: Array, width: float
    ) -> Smoothing:
        """With sums of zero."""
        pushes = [np.zeros((x.shape[1],) * 2) for x in features]
        return cls(family, features, limits, width, np.zeros(len(limits)), pushes)

    def add(self, i: Indices, other: Indices, far: Array) -> Part:
        """The rows of some pairs (i, l) at squared distances `far`, each pair once."""
        starts = self.family.target_starts
        weights = np.empty(i.size)
        most = int((starts[i + 1] - starts[i]).sum()) if i.size else 0
        target, alpha = np.empty(most, np.int64), np.empty(most)
        part = _alphas(i, far, starts, self.limits, self.width, weights, target, alpha)
        count = int(part[3])
        images = [self._image(block, i, other, weights) for block in range(len(self.features))]
        with self._lock:
            _add_at(target[:count], alpha[:count], self.tensions)
            for total, image in zip(self.pushes, images, strict=True):
                total += image
        return part[0], part[1], part[2], count

    def _image(self, block: int, i: Indices, other: Indices, weights: Array) -> Array:
        """Σ weight·(x_i − x_o)(x_i − x_o)ᵀ over the pairs that a block measures."""
        x, family = self.features[block], self.family
        mine = weights > 0
        if len(self.features) > 1 and not family.summed:
            mine &= family.block_of[other] == block
        difference = x[i[mine]]
        difference -= x[other[mine]]
        return np.asarray((difference * weights[mine, None]).T @ difference)

    def total(self, parts: Iterable[Part]) -> Smoothed:
        """What all parts add up to."""
        found = list(parts)
        hinges, worth, inner = (math.fsum(part[k] for part in found) for k in range(3))
        images, masses = [], []
        for block, push in enumerate(self.pushes):
            pull = np.zeros_like(push)
            for first in range(0, len(self.tensions), _PAIRS_AT_A_TIME):
                continue_or_raise()
                some = slice(first, first + _PAIRS_AT_A_TIME)
                i, other = self.family.target_pairs[some].T
                pull += self._image(block, i, other, self.tensions[some])
            images.append(pull - push)
            masses.append(float(np.trace(pull) + np.trace(push)))
        return Smoothed(hinges, worth, inner, sum(part[3] for part in found), images, masses)


@proof_kernel(
    *("i8[:]", "f8[:]", "i8[:]", "f8[:]", "f8", "out f8[:]", "out i8[:]", "out f8[:]"),
)
def _alphas(
    i: Any, far: Any, starts: Any, limits: Any, width: float, weights: Any, target: Any, alpha: Any
) -> Any:
    """Multipliers of the rows of some pairs; `weights` are their sums for each pair."""
    hinges, worth, inner, n = 0.0, 0.0, 0.0, 0
    for p in range(i.size):
        weight = 0.0
        for t in range(starts[i[p]], starts[i[p] + 1]):
            z = limits[t] - far[p]
            a = min(1.0, 0.5 + z / width)
            if not a > 0.0:
                continue
            hinges += max(z, 0.0)
            inner += a * z
            weight += a
            target[n], alpha[n] = t, a
            n += 1
        weights[p] = weight
        worth += weight
    return hinges, worth, inner, n


@proof_kernel("i8[:]", "f8[:]", "out f8[:]")
def _add_at(places: Any, values: Any, to: Any) -> None:
    for k in range(places.size):
        to[places[k]] += values[k]
