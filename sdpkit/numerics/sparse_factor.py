"""Sparse LDLᵀ factors of graph matrices, their selected inverses, and derivatives of both.

For the symmetric matrices whose pattern is that of a graph, permuted so that little fills in:

    factor             T = L D Lᵀ, 1 × 1 pivots in a fixed order
    selected inverse   T⁻¹ on the pattern of L + Lᵀ (Takahashi, Fagan and Chen 1973)
    derivative         of either along a change of T, in forward mode

All three rest on one fact: if i and j are below the pivot of column k, then (i, j) is itself an
entry of the factor. The *places* of these pairs are looked up once; after that each kernel is a
loop over columns and pairs without any searching. Values lie in one flat array, the n diagonal
entries first, then the columns of L one after the other.

A factorisation without pivoting proves what its residual allows: the floating-point factors have
exactly the inertia of D, and T differs from L D Lᵀ by a matrix whose norm is bounded afterwards
(`backward_error`), whatever rounding did on the way.

Graphs of high dimension fill in so much that a table of pairs has no room (`Pattern.is_heavy`).
They are factored column by column from the left, which needs no table, and their error is bounded
a priori (Higham 2002, theorem 10.3: |T − LDLᵀ| ≤ γ |L||D||Lᵀ|, entry by entry), which is less
sharp and proves as much.

All kernels add in the order in which they are written: inertia and residuals are proofs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sdpkit.numerics.doubled import UNIT, add_all, subtract_product
from sdpkit.numerics.kernels import proof_kernel
from sdpkit.numerics.patience import continue_or_raise
from sdpkit.numerics.pattern import Pattern
from sdpkit.typing import Array, Indices

_PANEL = 64  # right-hand sides solved at a time, to stay in cache
_FROM_LEFT = 10_000_000  # pairs beyond which reading their table costs more than doing without
_BETWEEN_LOOKS = 16  # columns between two looks at the clock; those of heavy patterns are long


@dataclass(frozen=True, eq=False)
class SparseFactor:
    """T = L D Lᵀ in the order of a pattern.

    Attributes
    ----------
    values: flat, D on the diagonal and L below
    negative: the number of negative pivots, −1 if the factorisation broke down
    growth: the largest entry that occurred, in units of the largest entry of T
    """

    pattern: Pattern
    values: Array
    negative: int
    growth: float

    @classmethod
    def of(cls, pattern: Pattern, matrix: Array) -> SparseFactor:
        """Factor the symmetric matrix with these flat values."""
        values = matrix.copy()
        if pattern.pairs > _FROM_LEFT:
            negative = _factor_left(pattern.indptr, pattern.rows, values)
        else:
            negative = int(_factor(pattern.indptr, pattern.starts, pattern.places, values))
        if negative < 0 or not np.isfinite(values).all():
            return cls(pattern, values, -1, np.inf)
        n = pattern.n
        size = float(np.abs(matrix).max()) or 1.0
        return cls(pattern, values, negative, float(np.abs(values[:n]).max()) / size)

    @property
    def log_determinant(self) -> float:
        """log |det T|."""
        return float(np.log(np.abs(self.values[: self.pattern.n])).sum())

    def solve(self, rhs: Array) -> Array:
        """T⁻¹ times a vector (n,) or the columns of a matrix (n, k)."""
        p = self.pattern
        columns = rhs[:, None] if rhs.ndim == 1 else rhs
        out = np.empty(columns.shape)
        for start in range(0, columns.shape[1], _PANEL):
            part = np.ascontiguousarray(columns[p.order, start : start + _PANEL])
            _solve(p.indptr, p.rows, self.values, part)
            out[p.order, start : start + _PANEL] = part
        return out[:, 0] if rhs.ndim == 1 else out

    @cached_property
    def inverse(self) -> Array:
        """The flat values of T⁻¹ on the pattern."""
        p = self.pattern
        out = np.zeros(p.size)
        _inverse(p.indptr, p.starts, p.places, self.values, out)
        return out

    def inverse_lengths(self) -> Array:
        """(m,) a_e = b_eᵀ T⁻¹ b_e."""
        return self.pattern.lengths(self.inverse)

    def inverse_lengths_along(self, weights: Array) -> Array:
        """(m,) −da/dt along T + t·L(weights):  b_eᵀ T⁻¹ L(weights) T⁻¹ b_e."""
        p = self.pattern
        tangent = p.laplacian(weights)
        _factor_tangent(p.indptr, p.starts, p.places, self.values, tangent)
        change, known = np.zeros(p.size), (self.values, self.inverse, tangent)
        _inverse_tangent(p.indptr, p.starts, p.places, *known, change)
        return -p.lengths(change)

    def inverse_among(self, nodes: Indices) -> Array:
        """(k, k) T⁻¹ among the given nodes, from the columns of L between them and the root."""
        p, own = self.pattern, self.pattern.rank[nodes]
        columns = _with_ancestors(p.parents, own)
        local = np.empty(p.n, np.int64)
        local[columns] = np.arange(columns.size)
        counts = np.diff(p.indptr)[columns]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        entries = np.arange(indptr[-1]) + np.repeat(p.indptr[columns] - indptr[:-1], counts)
        values = self.values[np.concatenate([columns, p.n + entries])]
        out = np.zeros((columns.size, own.size))
        out[local[own], np.arange(own.size)] = 1.0
        _solve(indptr, local[p.rows[entries]], values, out)
        return out[local[own]]

    def backward_error(
        self, weights: tuple[Array, ...], shifts: tuple[float | Array, ...]
    ) -> float:
        """A bound on ‖T − L D Lᵀ‖₂ for the exact T = L(Σ weights) + Σ shifts, multiples of I or
        diagonals (n,).

        The difference is summed in twice the working precision, so that what counts is the error
        that was made and not the one that might have been; that one is taken for a heavy pattern.
        """
        p = self.pattern
        if p.is_heavy:
            return self._error_to_expect(weights, shifts)
        high, low, size = (np.zeros(p.size) for _ in range(3))
        for part in weights:
            entries = np.concatenate([part, part, -part])
            add_all(p.laplacian_places, entries, high, low, size)
        for shift in shifts:
            add_all(p.rank, np.broadcast_to(shift, p.n).astype(np.float64), high, low, size)
        subtract_product(p.indptr, p.starts, p.places, self.values, high, low, size)
        # At most n + m terms, each with a few errors of second order.
        second_order = 16 * (p.n + len(p.edges)) * UNIT**2 * size
        diagonal, beside = np.split(np.abs(high) + np.abs(low) + second_order, [p.n])
        sums = diagonal + np.bincount(p.rows, beside, p.n) + np.bincount(p.columns, beside, p.n)
        return 1.01 * float(sums.max())

    def _error_to_expect(
        self, weights: tuple[Array, ...], shifts: tuple[float | Array, ...]
    ) -> float:
        """The same a priori: T is summed with a rounding error, and in |T − LDLᵀ| every entry
        is a sum of triple products, as many as its row of L is long."""
        p = self.pattern
        sums = np.bincount(p.edges.ravel(), np.repeat(sum(np.abs(w) for w in weights), 2), p.n)
        size = 2 * float(sums.max(initial=0.0)) + sum(
            float(np.max(np.abs(shift))) for shift in shifts
        )
        degree = int(np.bincount(p.edges.ravel()).max(initial=0))
        longest = 1 + int(np.bincount(p.rows, minlength=p.n).max(initial=0))
        diagonal, beside = np.split(np.abs(self.values), [p.n])
        inner = (1 + np.bincount(p.columns, beside, p.n)) * diagonal
        products = inner + np.bincount(p.rows, beside * inner[p.columns], p.n)  # |L||D||Lᵀ|
        error = _gamma(degree + len(weights) + len(shifts)) * size
        error += _gamma(longest + 3) * float(products.max(initial=0.0))
        return 1.01 * error + float(np.finfo(float).tiny)


def _gamma(k: int) -> float:
    """What k roundings in a row amount to at most, relatively."""
    return k * UNIT / (1 - k * UNIT)


def _factor_left(indptr: Indices, rows: Indices, x: Array) -> int:
    """`_factor` without a table of places; `Abandoned` if it is time to stop."""
    n, negative = indptr.size - 1, 0
    work = np.zeros(n)
    reaching, further, place = np.full((3, n), -1)
    for first in range(0, n, _BETWEEN_LOOKS):
        continue_or_raise()
        last = min(first + _BETWEEN_LOOKS, n)
        found = int(_gather_columns(indptr, rows, first, last, work, reaching, further, place, x))
        if found < 0:
            return -1
        negative += found
    return negative


def _with_ancestors(parents: list[int], nodes: Indices) -> Indices:
    """The nodes and all above them in the elimination tree, ascending."""
    seen: set[int] = set()
    for node in nodes.tolist():
        k = node
        while k >= 0 and k not in seen:
            seen.add(k)
            k = parents[k]
    return np.array(sorted(seen), dtype=np.int64)


@proof_kernel(
    *("i8[:]", "i8[:]", "i8", "i8"),
    *("out f8[:]", "out i8[:]", "out i8[:]", "out i8[:]", "out f8[:]"),
)
def _gather_columns(
    indptr: Indices,
    rows: Indices,
    first_column: int,
    last_column: int,
    work: Array,
    reaching: Indices,
    further: Indices,
    place: Indices,
    x: Array,
) -> int:
    """Some columns, each gathered from those that reach it, which linked lists name; before the
    first of all, `work` is zero and the lists are empty (−1)."""
    n = indptr.size - 1
    negative = 0
    for k in range(first_column, last_column):
        first, stop = indptr[k], indptr[k + 1]
        place[k] = first
        work[k] = x[k]
        for p in range(first, stop):
            work[rows[p]] = x[n + p]
        j = reaching[k]
        while j >= 0:
            after = further[j]
            start, end = place[j], indptr[j + 1]
            scaled = x[n + start] * x[j]
            for p in range(start, end):
                work[rows[p]] -= scaled * x[n + p]
            place[j] = start + 1
            if start + 1 < end:
                i = rows[start + 1]
                further[j] = reaching[i]
                reaching[i] = j
            j = after
        d = work[k]
        if d == 0 or not np.isfinite(d):
            return -1
        if d < 0:
            negative += 1
        x[k] = d
        for p in range(first, stop):
            x[n + p] = work[rows[p]] / d
        if first < stop:
            i = rows[first]
            further[k] = reaching[i]
            reaching[i] = k
    return negative


@proof_kernel("i8[:]", "i8[:]", "i4[:]", "out f8[:]")
def _factor(indptr: Indices, starts: Indices, places: NDArray[np.int32], x: Array) -> int:
    """Factor in place, column by column; the number of negative pivots, −1 if one vanishes."""
    n = indptr.size - 1
    negative = 0
    for k in range(n):
        d = x[k]
        if d == 0 or not np.isfinite(d):
            return -1
        if d < 0:
            negative += 1
        stop = n + indptr[k + 1]
        t = starts[k]
        for a in range(n + indptr[k], stop):
            scaled = x[a] / d
            for b in range(a, stop):
                x[places[t]] -= scaled * x[b]
                t += 1
            x[a] = scaled
    return negative


@proof_kernel("i8[:]", "i8[:]", "i4[:]", "f8[:]", "out f8[:]")
def _inverse(
    indptr: Indices, starts: Indices, places: NDArray[np.int32], x: Array, z: Array
) -> None:
    """Takahashi's recurrence from the last column to the first: Z = D⁻¹L⁻¹ + (I − Lᵀ)Z, z zero at
    the start."""
    n = indptr.size - 1
    for k in range(n - 1, -1, -1):
        stop = n + indptr[k + 1]
        t = starts[k]
        pivot = 1.0 / x[k]
        for a in range(n + indptr[k], stop):
            la = x[a]
            total = z[places[t]] * la
            t += 1
            for b in range(a + 1, stop):
                entry = z[places[t]]
                t += 1
                total += entry * x[b]
                z[b] -= entry * la
            z[a] -= total
            pivot -= z[a] * la
        z[k] = pivot


@proof_kernel("i8[:]", "i8[:]", "i4[:]", "f8[:]", "out f8[:]")
def _factor_tangent(
    indptr: Indices, starts: Indices, places: NDArray[np.int32], x: Array, y: Array
) -> None:
    """Change dT of T, in place, to the change (dD, dL) of its factors."""
    n = indptr.size - 1
    for k in range(n):
        d, dd = x[k], y[k]
        first, stop = n + indptr[k], n + indptr[k + 1]
        for a in range(first, stop):
            y[a] -= x[a] * dd  # d·dL
        t = starts[k]
        for a in range(first, stop):
            la = x[a]
            both = y[a] + la * dd
            for b in range(a, stop):
                y[places[t]] -= both * x[b] + la * y[b]
                t += 1
        for a in range(first, stop):
            y[a] /= d


@proof_kernel("i8[:]", "i8[:]", "i4[:]", "f8[:]", "f8[:]", "f8[:]", "out f8[:]")
def _inverse_tangent(
    indptr: Indices,
    starts: Indices,
    places: NDArray[np.int32],
    x: Array,
    z: Array,
    y: Array,
    out: Array,
) -> None:
    """The change of the selected inverse z along the change y of the factors x; `out` is zero at
    the start."""
    n = indptr.size - 1
    for k in range(n - 1, -1, -1):
        stop = n + indptr[k + 1]
        t = starts[k]
        pivot = -y[k] / (x[k] * x[k])
        for a in range(n + indptr[k], stop):
            la, ya = x[a], y[a]
            total = out[places[t]] * la + z[places[t]] * ya
            t += 1
            for b in range(a + 1, stop):
                change, entry = out[places[t]], z[places[t]]
                t += 1
                total += change * x[b] + entry * y[b]
                out[b] -= change * la + entry * ya
            out[a] -= total
            pivot -= out[a] * la + z[a] * ya
        out[k] = pivot


@proof_kernel("i8[:]", "i8[:]", "f8[:]", "out f8[:,:]")
def _solve(indptr: Indices, rows: Indices, x: Array, b: Array) -> None:
    """T⁻¹b in place, b (n, k) in elimination order."""
    n, width = b.shape
    for k in range(n):
        for p in range(indptr[k], indptr[k + 1]):
            i, entry = rows[p], x[n + p]
            for c in range(width):
                b[i, c] -= entry * b[k, c]
    for k in range(n - 1, -1, -1):
        for c in range(width):
            b[k, c] /= x[k]
        for p in range(indptr[k], indptr[k + 1]):
            i, entry = rows[p], x[n + p]
            for c in range(width):
                b[k, c] -= entry * b[i, c]
