"""A family whose rows are given one by one: the user's comparisons or pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.inputs import finite_vector
from sdpkit.program.families import Rows, Terms, checked_weight, spread_out, values, whole_numbers
from sdpkit.typing import Array, Bools, Indices


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Rows  [c_t + q_ij − q_il]₊  given one by one, numbered in the order of (i, l, j).

    Attributes
    ----------
    triplets: (m, 3) points (i, j, l); −1 for a j or l that is missing, whose q is 0
    constants: (m,) c;  weight: the cost of a unit of violation
    block_of: (n,) the block by which the distance *to* a point is measured

    >>> family = ListedRows.of([[0, 1, 2], [0, 1, 3]], n_points=4)
    >>> family.n_rows, family.hinge_sum([np.array([[0.0], [1.0], [1.0], [3.0]])])
    (2, 1.0)
    """

    triplets: Indices
    constants: Array
    n_points: int
    weight: float
    block_of: Indices

    # A distance is measured by one metric, or by that of the point it leads to.
    summed = False

    @classmethod
    def of(
        cls,
        triplets: ArrayLike,
        n_points: int,
        *,
        constants: ArrayLike | None = None,
        weight: float = 1.0,
        block_of: ArrayLike | None = None,
    ) -> ListedRows:
        """Build and validate a family; without constants all are 1, and each triplet counts once.

        With constants, −1 may stand for a j or an l that is missing.
        """
        t = whole_numbers(triplets, "triplets")
        if t.ndim != 2 or t.shape[1] != 3 or not t.size:
            raise InputError(f"triplets have shape {t.shape}, expected (m, 3) with m ≥ 1")
        least = 0 if constants is None else -1
        if t[:, 0].min() < 0 or t.min() < least or t.max() >= n_points:
            raise InputError(f"triplets name points outside 0 … {n_points - 1}")
        i, j, other = t.T
        if np.any(i == j) or np.any(i == other) or np.any(j == other):
            raise InputError("a triplet (i, j, l) must name three different points")
        c = finite_vector(np.ones(len(t)) if constants is None else constants, len(t), "constants")
        order = np.lexsort((c, j, other, i))
        t, c = t[order], c[order]
        if constants is None:
            first = np.append(True, np.any(t[1:] != t[:-1], axis=1))
            t, c = t[first], c[first]
        blocks = (
            np.zeros(n_points, np.int64)
            if block_of is None
            else whole_numbers(block_of, "block_of")
        )
        return cls(t, c, n_points, checked_weight(weight), blocks)

    @property
    def n_rows(self) -> int:
        """m."""
        return len(self.triplets)

    @property
    def noun(self) -> str:
        """A row without one of its points is a pair."""
        return "comparison" if self.triplets.min() >= 0 else "pair"

    @property
    def formula(self) -> str:
        """The sum of hinges, in print."""
        return f"Σ[{'1' if np.all(self.constants == 1) else 'c_t'} + q_ij − q_il]₊"

    @property
    def unit(self) -> float:
        """max |c|."""
        return float(np.abs(self.constants).max()) or 1.0

    @cached_property
    def _all(self) -> Terms:
        """All rows; those that share a pair share its distance."""
        i, j, other = self.triplets.T
        number = np.unique(self.constants, return_inverse=True)[1]
        keys = np.c_[i, j, number]
        _, place, pull = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        first = np.append(True, (i[1:] != i[:-1]) | (other[1:] != other[:-1]))
        return Terms(
            self.triplets[place, :2],
            self.constants[place],
            self.triplets[first][:, [0, 2]],
            pull.ravel(),
            np.cumsum(first) - 1,
        )

    def terms(self, rows: Rows) -> Terms:
        """The terms of some rows of the family."""
        every = self._all
        return replace(every, pull=every.pull[rows], push=every.push[rows])

    def near(self, outputs: Sequence[Array], slack: float) -> Rows:
        """Exactly the rows with z > −slack."""
        return np.flatnonzero(values(self, self._all, outputs) > -slack)

    def hinge_sum(self, outputs: Sequence[Array]) -> float:
        """Σ [z]₊ over all rows."""
        return float(np.maximum(values(self, self._all, outputs), 0.0).sum())

    def everything(self) -> Rows:
        """All rows."""
        return np.arange(self.n_rows)

    def has(self, rows: Rows) -> Bools:
        """(m,) which of some numbers are those of rows."""
        return np.asarray((rows >= 0) & (rows < self.n_rows))

    def part(self, share: float) -> ListedRows:
        """About this share of the rows, evenly spread."""
        chosen = spread_out(self.n_rows, share)
        return replace(self, triplets=self.triplets[chosen], constants=self.constants[chosen])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The family as plain arrays."""
        out = {
            "triplets": self.triplets,
            "n_points": np.array(self.n_points),
            "weight": np.array(self.weight),
            "block_of": self.block_of,
        }
        return out if np.all(self.constants == 1) else {**out, "constants": self.constants}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ListedRows:
        """The family that gave these arrays."""
        return cls.of(
            arrays["triplets"],
            int(arrays["n_points"]),
            constants=arrays.get("constants"),
            weight=float(arrays["weight"]),
            block_of=arrays["block_of"],
        )
