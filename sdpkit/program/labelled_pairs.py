"""The family of labelled pairs: points of one class close together, others far apart.

Every pair i < j of points is a row,

    weight · [q_ij − u]₊   if i and j have the same label (similar),
    weight · [l − q_ij]₊   if they have not (dissimilar).

`LabelledPairs` finds the ones that count in tiles of distances; `sdpkit.program.families` says
what any family must answer. Pairs that are given one by one are `sdpkit.program.listed_rows`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread, own_threads
from sdpkit.program.families import (
    Rows,
    Terms,
    checked_weight,
    lengths,
    side_by_side,
    spread_out,
    whole_numbers,
)
from sdpkit.typing import Array, Bools, Indices

# Rows and columns of one tile of distances.
_TILE_ROWS, _TILE_COLUMNS = 256, 1024


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """All pairs of labelled points.

    Attributes
    ----------
    labels: (n,) class numbers
    upper: u, the squared distance that similar pairs keep within
    lower: l, the squared distance that dissimilar pairs keep beyond
    weight: the cost of a unit of violation
    starts: the points i whose pairs (i, j), j > i, are rows; all of them, unless this is a part

    >>> family = LabelledPairs.of([0, 0, 1], upper=1.0, lower=2.0)
    >>> points = [np.array([[0.0], [1.5], [2.0]])]
    >>> family.n_rows, family.hinge_sum(points)          # [2.25−1]₊ + [2−4]₊ + [2−0.25]₊
    (3, 3.0)
    """

    labels: Indices
    upper: float
    lower: float
    weight: float
    starts: Indices

    noun = "pair"
    formula = "(Σ[q_ij − u]₊ + Σ[l − q_ij]₊)"
    summed = False

    @classmethod
    def of(
        cls, labels: ArrayLike, *, upper: float, lower: float, weight: float = 1.0
    ) -> LabelledPairs:
        """Build and validate a family."""
        y = whole_numbers(labels, "labels")
        if y.ndim != 1:
            raise InputError(f"labels have shape {y.shape}, expected (n,)")
        if not 0 <= upper <= lower < np.inf or lower == 0:
            raise InputError(
                f"upper is {upper} and lower is {lower}; the thresholds must satisfy "
                "0 ≤ upper ≤ lower, and lower must be positive"
            )
        return cls(y, float(upper), float(lower), checked_weight(weight), np.arange(y.size))

    @property
    def n_points(self) -> int:
        """n."""
        return int(self.labels.size)

    @property
    def n_rows(self) -> int:
        """The number of pairs."""
        return int(np.sum(self.n_points - 1 - self.starts))

    @property
    def unit(self) -> float:
        """l."""
        return self.lower

    @cached_property
    def block_of(self) -> Indices:
        """(n,) zeros: there is one metric."""
        return np.zeros_like(self.labels)

    @one_blas_thread
    def near(self, outputs: Sequence[Array], slack: float) -> Rows:
        """Exactly the pairs with q > u − slack, similar, or q < l + slack, dissimilar."""

        def collect(i: Indices, j: Indices, z: Array) -> Rows:
            found = z > -slack
            return self._numbers(i[found], j[found])

        found = list(self._over_tiles(outputs, slack, collect))
        return np.sort(np.concatenate([np.empty(0, np.int64), *found]))

    @one_blas_thread
    def hinge_sum(self, outputs: Sequence[Array]) -> float:
        """Σ [z]₊ over all pairs, in tiles: no list of pairs is kept."""
        if not all(np.isfinite(part).all() for part in outputs):
            return np.nan
        sums = self._over_tiles(outputs, 0.0, lambda i, j, z: float(np.maximum(z, 0.0).sum()))
        return math.fsum(sums)

    def everything(self) -> Rows:
        """All pairs."""
        i, j = np.triu_indices(self.n_points, 1)
        mine = np.isin(i, self.starts)
        return np.sort(self._numbers(i[mine], j[mine]))

    def _numbers(self, i: Indices, j: Indices) -> Rows:
        """Rows are numbered in the order of i, similar before dissimilar, and j."""
        apart = self.labels[i] != self.labels[j]
        return np.asarray((2 * i + apart) * self.n_points + j)

    def terms(self, rows: Rows) -> Terms:
        """A similar pair is a pull without a push, a dissimilar one a push without a pull."""
        place, j = np.divmod(rows, self.n_points)
        i, apart = np.divmod(place, 2)
        first = np.ones(rows.size, dtype=bool)
        first[1:] = place[1:] != place[:-1]
        similar, dissimilar = apart == 0, apart == 1
        # What is missing is written once for each i.
        pull, push = similar | first, dissimilar | first
        pulls, pushes = np.c_[i, np.where(similar, j, -1)], np.c_[i, np.where(similar, -1, j)]
        constants = np.where(similar, -self.upper, self.lower)
        return Terms(
            pulls[pull], constants[pull], pushes[push], np.cumsum(pull) - 1, np.cumsum(push) - 1
        )

    def has(self, rows: Rows) -> Bools:
        """(m,) which of some numbers stand for a pair i < j, and for its kind."""
        known = np.asarray((rows >= 0) & (rows < 2 * self.n_points**2))
        place, j = np.divmod(np.where(known, rows, 0), self.n_points)
        i, apart = np.divmod(place, 2)
        known &= (i < j) & np.isin(i, self.starts)
        return np.asarray(known & ((self.labels[i] != self.labels[j]) == apart))

    def part(self, share: float) -> LabelledPairs:
        """The pairs of about this share of the points i, evenly spread."""
        return replace(self, starts=self.starts[spread_out(self.starts.size, share)])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The family as plain arrays."""
        return {
            "labels": self.labels,
            "thresholds": np.array([self.upper, self.lower]),
            "weight": np.array(self.weight),
            "starts": self.starts,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LabelledPairs:
        """The family that gave these arrays."""
        upper, lower = arrays["thresholds"].tolist()
        whole = cls.of(arrays["labels"], upper=upper, lower=lower, weight=float(arrays["weight"]))
        starts = whole_numbers(arrays["starts"], "starts")
        inside = (starts >= 0) & (starts < whole.n_points)
        if starts.ndim != 1 or not inside.all():
            raise InputError(f"starts name points outside 0 … {whole.n_points - 1}")
        return replace(whole, starts=starts)

    # -- the search --------------------------------------------------------------------------

    def _over_tiles(
        self, outputs: Sequence[Array], slack: float, work: Callable[..., Any]
    ) -> Iterator[Any]:
        """`work(i, j, z)` for the pairs of every tile, among them all with z > −slack."""
        stacked, columns = side_by_side(self, outputs)
        centred = stacked - stacked.mean(axis=0)
        squares = np.square(centred).sum(axis=1)
        # Products misjudge a distance by this share of the lengths involved: compute z again.
        doubt = 4 * (stacked.shape[1] + 8) * np.finfo(float).eps

        def run(tile: tuple[Indices, Indices]) -> Any:
            continue_or_raise()
            i, j = tile
            sizes = squares[i][:, None] + squares[j]
            q = sizes - 2 * (centred[i] @ centred[j].T)
            error = slack + doubt * sizes
            similar = self.labels[i][:, None] == self.labels[j]
            near = np.where(similar, q + error > self.upper, q - error < self.lower)
            a, b = np.nonzero(near & (i[:, None] < j))
            pairs = np.c_[i[a], j[b]]
            exact = lengths(stacked, columns, self.block_of, pairs)
            z = np.where(similar[a, b], exact - self.upper, self.lower - exact)
            return work(pairs[:, 0], pairs[:, 1], z)

        with own_threads() as pool:
            for done in pool.map(run, self._tiles()):
                continue_or_raise()
                yield done

    def _tiles(self) -> Iterator[tuple[Indices, Indices]]:
        """Rectangles that cover every pair i < j once; some hold pairs i ≥ j too."""
        for a in range(0, self.starts.size, _TILE_ROWS):
            i = self.starts[a : a + _TILE_ROWS]
            for b in range(int(i[0]) + 1, self.n_points, _TILE_COLUMNS):
                yield i, np.arange(b, min(b + _TILE_COLUMNS, self.n_points))
