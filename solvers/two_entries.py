"""Measurements with at most two entries: graphs, max-cut, single entries.

All that an interior-point method needs of them is looked up: sums of two rows of a matrix. Large
matrices are read by compiled kernels, row by row, so that no gathered copy is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from sdpkit.numerics.kernels import fast_kernel
from sdpkit.solvers.passes import COMPILED_SIZE
from sdpkit.typing import Array, Indices

_PANEL = 64  # rows gathered at a time, to stay in cache


@dataclass(frozen=True)
class Pairs:
    """Measurements with at most two entries, v = e_i + s·e_j: graphs, max-cut, single entries.

    `second` is n where there is no e_j.
    """

    n: int
    first: Indices
    second: Indices
    sign: float

    @classmethod
    def of(cls, v: sp.csr_array) -> Pairs | None:
        """The pairs of V, or None where some row has another shape."""
        counts = np.diff(v.indptr)
        if not np.all((counts == 1) | (counts == 2)) or not np.all(np.abs(v.data) == 1):
            return None
        start = v.indptr[:-1]
        both = counts == 2
        signs = np.unique(v.data[start[both]] * v.data[start[both] + 1])
        if signs.size > 1:
            return None
        second = np.full(counts.size, v.shape[1], dtype=np.int64)
        second[both] = v.indices[start[both] + 1]
        sign = float(signs[0]) if signs.size else -1.0
        return cls(int(v.shape[1]), v.indices[start].astype(np.int64), second, sign)

    def columns(self, matrix: Array, weights: Array) -> Array:
        """(n, p): (V M)ᵀ, its columns times `weights`."""
        p = self.first.size
        out = np.empty((self.n, p))
        for start in range(0, p, 4 * _PANEL):
            rows = slice(start, min(start + 4 * _PANEL, p))
            part = self.panel(matrix, rows, self.n)
            part *= weights[rows, None]
            out[:, rows] = part.T
        return out

    def panel(self, matrix: Array, rows: slice, width: int) -> Array:
        """V[rows] times the first `width` columns of a matrix: sums of two of its rows."""
        source = matrix[:, :width]  # indexing a view by rows streams; `np.take` would copy it
        out = source[self.first[rows]]
        other = source[np.minimum(self.second[rows], self.n - 1)]
        other[self.second[rows] == self.n] = 0.0
        if self.sign < 0:
            out -= other
        else:
            out += other
        return np.asarray(out)

    def image(self, u: Array) -> Array:
        """Vᵀ diag(u) V, dense: a weighted Laplacian by counting."""
        half = 0.5 * u  # each entry is counted once and doubled by the transpose
        weights = np.concatenate([half, half[self.two_ended], self.sign * u[self.two_ended]])
        counted = np.bincount(self.places, weights, self.n**2).reshape(self.n, self.n)
        return np.asarray(counted + counted.T, dtype=np.float64)

    def sparse_image(self, u: Array) -> sp.csr_array:
        """Vᵀ diag(u) V, sparse. Where its entries lie is looked up once."""
        two = self.sign * u[self.two_ended]
        entries = np.concatenate([u, self.sign * two, two, two])
        indptr, indices, which = self.sparse_places
        data = np.bincount(which, entries, indices.size)
        return sp.csr_array((data, indices, indptr), shape=(self.n, self.n))

    @cached_property
    def sparse_places(self) -> tuple[Indices, Indices, Indices]:
        """Rows and columns of what is not zero, as a csr array has them, and for (i, i), (j, j),
        (i, j) and (j, i) of every measurement which entry it is."""
        i, j = self.first[self.two_ended], self.second[self.two_ended]
        rows, columns = np.concatenate([self.first, j, i, j]), np.concatenate([self.first, j, j, i])
        keys, which = np.unique(rows * self.n + columns, return_inverse=True)
        indptr = np.searchsorted(keys, self.n * np.arange(self.n + 1))
        return indptr.astype(np.int64), keys % self.n, which

    @cached_property
    def two_ended(self) -> Indices:
        """The measurements that have an e_j."""
        return np.flatnonzero(self.second < self.n)

    @cached_property
    def places(self) -> Indices:
        """Where (i, i), (j, j) and (i, j) lie in a matrix stored by rows."""
        i, j = self.first[self.two_ended], self.second[self.two_ended]
        return np.concatenate([self.first * (self.n + 1), j * (self.n + 1), i * self.n + j])

    def lengths(self, matrix: Array) -> Array:
        """vᵀMv of the symmetric part of M, by looking entries up."""
        i, j = self.first, np.minimum(self.second, self.n - 1)
        there = self.second < self.n
        diagonal = np.diag(matrix)
        cross = matrix[i, j] + matrix[j, i]
        return diagonal[i] + np.where(there, diagonal[j] + self.sign * cross, 0.0)

    @property
    def is_large(self) -> bool:
        """Whether compiled kernels are worth loading."""
        return self.n >= COMPILED_SIZE

    def lengths_of_product(self, a: Array, b: Array) -> Array:
        """vᵀABv of each measurement, B symmetric, without the product."""
        out = np.empty(self.first.size)
        _lengths_of_product(self.first, self.second, self.sign, a, b, out)
        return out

    def add_hadamard(
        self, out: Array, a: Array, b: Array, weights: Array, from_zero: bool = False
    ) -> None:
        """Add diag(w)[(V A Vᵀ) ∘ (V B Vᵀ)]diag(w) to the lower triangle of `out`, whose entries
        count as zero where the sum is one `from_zero`."""
        row = np.zeros((2, self.n + 1))  # what is missing as a second end counts as zero
        _add_hadamard(self.first, self.second, self.sign, weights, a, b, from_zero, row, out)


@fast_kernel("i8[:]", "i8[:]", "f8", "f8[:,:]", "f8[:,:]", "out f8[:]")
def _lengths_of_product(
    first: Indices, second: Indices, sign: float, a: Array, b: Array, out: Array
) -> None:
    n = a.shape[0]
    for e in range(first.size):
        i, j = first[e], second[e]
        total = 0.0
        if j < n:
            for c in range(n):
                total += (a[i, c] + sign * a[j, c]) * (b[i, c] + sign * b[j, c])
        else:
            for c in range(n):
                total += a[i, c] * b[i, c]
        out[e] = total


@fast_kernel(
    "i8[:]", "i8[:]", "f8", "f8[:]", "f8[:,:]", "f8[:,:]", "b1", "out f8[:,:]", "out f8[:,:]"
)  # fmt: skip
def _add_hadamard(
    first: Indices, second: Indices, sign: float, weights: Array, a: Array, b: Array,
    from_zero: bool, row: Array, out: Array,
) -> None:  # fmt: skip
    n = a.shape[0]
    for e in range(first.size):
        i, j, weight = first[e], second[e], weights[e]
        for c in range(n):
            row[0, c], row[1, c] = a[i, c], b[i, c]
        if j < n:
            for c in range(n):
                row[0, c] += sign * a[j, c]
                row[1, c] += sign * b[j, c]
        if from_zero:
            for f in range(e + 1):
                out[e, f] = 0.0
        for f in range(e + 1):
            k, h = first[f], second[f]
            left = row[0, k] + sign * row[0, h]
            right = row[1, k] + sign * row[1, h]
            out[e, f] += weight * weights[f] * left * right
