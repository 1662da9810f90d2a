"""Pairs that a search found near, kept for the next searches.

A search at outputs Y keeps every pair (i, l) with q_il < radius_i, where radius_i is a little more
than it needs. At other outputs Y' let T be any matrix and e_i = y_i − Tᵀy'_i. Then

    √q_il ≤ ‖T‖ √q'_il + ‖e_i − e_l‖   so that   q'_il ≥ ((√radius_i − 2 max‖e‖)₊ / ‖T‖)²

for all pairs that were not kept. Where this is no less than the new reach of i, the kept pairs
contain all that are searched for. While a metric changes by a few per cent this holds for nearly
all anchors, and a search costs a look at the kept pairs instead of one at all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.typing import Array, Bools, Indices, Single

# What is computed of the bound may be off by this share.
_ROUNDING = 1e-9
# Anchors whose pairs must be searched again, as a share, from which on all are.
_MANY_OPEN = 0.1
# Eigenvalues of Y'ᵀY' below this share of the largest are left out of T.
_FLAT = 1e-10
# Points whose outputs are compared at a time.
_POINTS_AT_A_TIME = 1 << 16

Pairs = tuple[NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True, eq=False)
class KeptPairs:
    """All pairs (i, l) that were within the radius of i at some outputs.

    Attributes
    ----------
    outputs: (n, r);  radius: (n,) squared;  pairs: in parts
    """

    outputs: Single
    radius: Array
    pairs: list[Pairs]

    def open_anchors(self, stacked: Array, reach: Array) -> Bools | None:
        """(n,) the anchors for which pairs with q < reach may be missing at other outputs; None
        where there are so many that a new search is better."""
        norm, error = self._change(stacked)
        left = np.maximum(np.sqrt(np.maximum(self.radius, 0.0)) - 2 * error, 0.0)
        safe = np.square(left / norm) * (1 - _ROUNDING) if norm > 0 else np.zeros_like(left)
        asks = reach != -np.inf
        is_open = asks & ~(safe >= reach)
        return None if is_open.sum() > _MANY_OPEN * asks.sum() else is_open

    def _change(self, stacked: Array) -> tuple[float, float]:
        """(‖T‖, max‖e‖) for the T that explains the old outputs best by the new ones."""
        old, parts = self.outputs, range(0, len(stacked), _POINTS_AT_A_TIME)
        gram = np.zeros((stacked.shape[1],) * 2)
        cross = np.zeros((stacked.shape[1], old.shape[1]))
        for first in parts:
            some = slice(first, first + _POINTS_AT_A_TIME)
            gram += stacked[some].T @ stacked[some]
            cross += stacked[some].T @ old[some]
        values, vectors = scipy.linalg.eigh(gram)
        kept = values > _FLAT * max(float(values[-1]), 0.0)
        basis = vectors[:, kept]
        T = (basis / values[kept]) @ (basis.T @ cross)
        error = 0.0
        for first in parts:
            some = slice(first, first + _POINTS_AT_A_TIME)
            left = old[some] - stacked[some] @ T
            error = max(error, float(np.einsum("ij,ij->i", left, left).max(initial=0.0)))
        largest = float(np.abs(old).max(initial=0.0))
        rounded = float(np.finfo(np.float32).eps) * largest * np.sqrt(old.shape[1])
        return float(np.linalg.norm(T, 2)) if T.size else 0.0, float(np.sqrt(error)) + rounded

    def chunks(self, wanted: Bools) -> Iterator[tuple[Indices, Indices]]:
        """The pairs of the wanted anchors, in parts."""
        for i, other in self.pairs:
            mine = wanted[i]
            if mine.all():
                yield i.astype(np.int64), other.astype(np.int64)
            else:
                yield i[mine].astype(np.int64), other[mine].astype(np.int64)


@dataclass(eq=False)
class Keeping:
    """Whether searches keep what they find, and what they have kept.

    Attributes
    ----------
    limit: bytes that pairs may take; 0 to keep nothing
    margin: radius over reach
    pairs: what the last whole search kept, or None
    """

    limit: float = 0.0
    margin: float = 1.15
    pairs: KeptPairs | None = None
    _found: list[Pairs] | None = None
    _at: tuple[Single, Array] | None = None
    _lock: Any = field(default_factory=Lock)

    def __reduce__(self) -> tuple[type[Keeping], tuple[()]]:
        """A copy or a pickle keeps nothing: what is kept serves the searches of one solve."""
        return Keeping, ()

    def start(self, limit: float, margin: float) -> None:
        """Keep up to so many bytes from the next search on."""
        self.stop()
        self.limit, self.margin = limit, margin

    def stop(self) -> None:
        """Keep nothing, and forget what was kept."""
        self.limit, self.pairs, self._found, self._at = 0.0, None, None, None

    def begin(self, stacked: Array, reach: Array) -> Array:
        """(n,) the squared radius within which a search of all pairs is to look."""
        self.pairs = self._found = self._at = None
        if not self.limit or not np.isfinite(stacked).all():
            return reach
        radius = np.where(reach > 0, self.margin * reach, reach)
        self._found, self._at = [], (stacked.astype(np.float32), radius)
        return radius

    def add(self, i: Indices, other: Indices) -> None:
        """Pairs that a search has found within the radius; too many, and none are kept."""
        if self._found is None:
            return
        with self._lock:
            if self._found is None:
                return
            self._found.append((i.astype(np.int32), other.astype(np.int32)))
            self.limit -= 8.0 * i.size
            if self.limit < 0:
                self.stop()

    def end(self) -> None:
        """The search is complete."""
        if self._found is not None and self._at is not None:
            self.limit += 8.0 * sum(i.size for i, _ in self._found)
            self.pairs = KeptPairs(*self._at, self._found)
        self._found = self._at = None
