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

This module compiles with numba and is imported where it is needed, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numba
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])

_UNIT = float(np.finfo(np.float64).eps) / 2
_PANEL = 64  # right-hand sides solved at a time, to stay in cache
_FROM_LEFT = 10_000_000  # pairs beyond which reading their table costs more than doing without
_HEAVY = 400_000_000  # pairs of a factor's columns that a table has room for


def compiled(kernel: _Kernel) -> _Kernel:
    """A function compiled by numba on its first call, and cached on disk."""
    return cast(_Kernel, numba.njit(cache=True, error_model="numpy")(kernel))


# -- patterns -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where the entries of a graph's matrices and of their factors lie.

    Attributes
    ----------
    edges: (m, 2) the graph;  n: its number of nodes
    order: (n,) the node eliminated k-th;  rank: (n,) its inverse
    indptr, rows: the columns of L below the diagonal, rows ascending
    edge_places: (m,) the flat place of each edge
    """

    n: int
    edges: Ints
    order: Ints
    rank: Ints
    indptr: Ints
    rows: Ints
    edge_places: Ints

    @classmethod
    def of(cls, n: int, edges: Ints) -> Pattern:
        """Order the nodes for low fill and analyse the factor."""
        order = minimum_degree(n, edges)
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        below = np.sort(rank[edges], axis=1)
        entries = (np.ones(len(edges)), (below[:, 0], below[:, 1]))
        graph = sp.csr_array(sp.coo_array(entries, shape=(n, n)))
        graph.sum_duplicates()
        indptr, rows = _columns(n, graph.indptr.astype(np.int64), graph.indices.astype(np.int64))
        edge_places = _edge_places(n, indptr, rows, below)
        return cls(n, edges, order, rank, indptr, rows, edge_places)

    @property
    def size(self) -> int:
        """Entries of a flat array of values."""
        return self.n + int(self.rows.size)

    @cached_property
    def pairs(self) -> int:
        """How many pairs of entries the columns have: the multiplications of a factorisation."""
        counts = np.diff(self.indptr)
        return int(counts @ (counts + 1)) // 2

    @property
    def is_heavy(self) -> bool:
        """Whether there are too many pairs for a table of their places."""
        return self.pairs > _HEAVY

    @cached_property
    def starts(self) -> Ints:
        """(n + 1,) where the pairs of each column start."""
        counts = np.diff(self.indptr)
        return np.concatenate([[0], np.cumsum(counts * (counts + 1) // 2)])

    @cached_property
    def places(self) -> NDArray[np.int32]:
        """(pairs,) for each column the flat places of its pairs (i ≤ j)."""
        return _pair_places(self.n, self.indptr, self.rows, self.starts)

    @cached_property
    def ends(self) -> Ints:
        """(m, 2) the edges as flat places of diagonal entries."""
        return np.ascontiguousarray(self.rank[self.edges])

    def laplacian(self, weights: Array, shift: float | Array = 0.0) -> Array:
        """The flat values of L(weights) + shift·I, or + diag(shift) with one number per node."""
        out = _laplacian(self.size, self.ends, self.edge_places, weights)
        out[: self.n] += shift[self.order] if isinstance(shift, np.ndarray) else shift
        return out

    def lengths(self, values: Array) -> Array:
        """(m,) b_eᵀ Z b_e for the flat values of a symmetric Z."""
        i, j = self.ends.T
        return np.asarray(values[i] + values[j] - 2 * values[self.edge_places])

    def residual(
        self, u: Array, g: Array, weights: tuple[Array, ...], shifts: tuple[float | Array, ...]
    ) -> tuple[Array, Array, Array]:
        """U − TG for T = L(Σ weights) + Σ shifts, (n, k), in twice the working precision: its high
        and low parts, and a bound on what is wrong with their sum."""
        high, low, size = u.copy(), np.zeros(u.shape), np.abs(u)
        for part in weights:
            _subtract_laplacian_times(self.edges, part, g, high, low, size)
        for shift in shifts:
            _subtract_diagonal_times(np.broadcast_to(shift, self.n).copy(), g, high, low, size)
        return high, low, 16 * (self.n + len(self.edges)) * _UNIT**2 * size


def minimum_degree(n: int, edges: Ints) -> Ints:
    """(n,) an elimination order of low fill: multiple minimum degree, as SuperLU finds it."""
    i, j = edges.T
    ones = np.ones(len(edges))
    graph = sp.csc_array((ones, (i, j)), shape=(n, n))
    matrix = sp.csc_array(graph + graph.T + 4.0 * n * sp.eye_array(n))
    factor = scipy.sparse.linalg.splu(
        matrix,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    order = np.empty(n, dtype=np.int64)
    order[factor.perm_c] = np.arange(n)
    return order


@compiled
def _columns(n: int, indptr: Ints, indices: Ints) -> tuple[Ints, Ints]:
    """Patterns of the columns of L: each has its own entries and those of its children's columns
    (children in the elimination tree: columns whose first entry below the diagonal it is)."""
    out = np.empty(n + 1, np.int64)
    rows = np.empty(4 * indices.size + n, np.int64)
    child, sibling = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    seen = np.full(n, -1, np.int64)
    out[0] = 0
    for k in range(n):
        stop = out[k]
        if rows.size < stop + n:
            longer = np.empty(2 * rows.size + n, np.int64)
            longer[:stop] = rows[:stop]
            rows = longer
        seen[k] = k
        for p in range(indptr[k], indptr[k + 1]):
            if seen[indices[p]] != k:
                seen[indices[p]] = k
                rows[stop] = indices[p]
                stop += 1
        c = child[k]
        while c >= 0:
            for p in range(out[c], out[c + 1]):
                if seen[rows[p]] != k:
                    seen[rows[p]] = k
                    rows[stop] = rows[p]
                    stop += 1
            c = sibling[c]
        rows[out[k] : stop].sort()
        out[k + 1] = stop
        if stop > out[k]:
            parent = rows[out[k]]
            sibling[k] = child[parent]
            child[parent] = k
    return out, rows[: out[n]].copy()


@compiled
def _pair_places(n: int, indptr: Ints, rows: Ints, starts: Ints) -> NDArray[np.int32]:
    """For each column the flat places of (i, j), i ≤ j, over the rows i, j below its pivot."""
    places = np.empty(starts[n], np.int32)
    for k in range(n):
        t = starts[k]
        for a in range(indptr[k], indptr[k + 1]):
            column = rows[a]
            places[t] = column
            t += 1
            q = indptr[column]
            for b in range(a + 1, indptr[k + 1]):
                while rows[q] != rows[b]:
                    q += 1
                places[t] = n + q
                t += 1
    return places


@compiled
def _edge_places(n: int, indptr: Ints, rows: Ints, below: Ints) -> Ints:
    out = np.empty(below.shape[0], np.int64)
    for e in range(below.shape[0]):
        column = rows[indptr[below[e, 0]] : indptr[below[e, 0] + 1]]
        out[e] = n + indptr[below[e, 0]] + np.searchsorted(column, below[e, 1])
    return out


@compiled
def _laplacian(size: int, ends: Ints, edge_places: Ints, weights: Array) -> Array:
    out = np.zeros(size)
    for e in range(weights.size):
        out[ends[e, 0]] += weights[e]
        out[ends[e, 1]] += weights[e]
        out[edge_places[e]] -= weights[e]
    return out


# -- eigenvalues ----------------------------------------------------------------------------


# -- factors --------------------------------------------------------------------------------


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
            negative = int(_factor_left(pattern.indptr, pattern.rows, values))
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
        return _inverse(p.indptr, p.starts, p.places, self.values)

    def inverse_lengths(self) -> Array:
        """(m,) a_e = b_eᵀ T⁻¹ b_e."""
        return self.pattern.lengths(self.inverse)

    def inverse_lengths_along(self, weights: Array) -> Array:
        """(m,) −da/dt along T + t·L(weights):  b_eᵀ T⁻¹ L(weights) T⁻¹ b_e."""
        p = self.pattern
        tangent = p.laplacian(weights)
        _factor_tangent(p.indptr, p.starts, p.places, self.values, tangent)
        change = _inverse_tangent(p.indptr, p.starts, p.places, self.values, self.inverse, tangent)
        return -p.lengths(change)

    def inverse_among(self, nodes: Ints) -> Array:
        """(k, k) T⁻¹ among the given nodes, from the columns of L between them and the root."""
        p = self.pattern
        return _inverse_among(p.indptr, p.rows, self.values, p.rank[nodes])

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
            _add_laplacian(p.ends, p.edge_places, part, high, low, size)
        for shift in shifts:
            _add_diagonal(np.broadcast_to(shift, p.n)[p.order], high, low, size)
        _subtract_product(p.indptr, p.starts, p.places, self.values, high, low, size)
        # At most n + m terms, each with a few errors of second order.
        second_order = 16 * (p.n + len(p.edges)) * _UNIT**2 * size
        entries = np.abs(high) + np.abs(low) + second_order
        return 1.01 * float(_row_sums(p.indptr, p.rows, entries).max())

    def _error_to_expect(
        self, weights: tuple[Array, ...], shifts: tuple[float | Array, ...]
    ) -> float:
        """The same a priori: T is summed with an error of its own, and in |T − LDLᵀ| every entry
        is a sum of triple products, as many as its row of L is long."""
        p = self.pattern
        sums = np.bincount(p.edges.ravel(), np.repeat(sum(np.abs(w) for w in weights), 2), p.n)
        size = 2 * float(sums.max(initial=0.0)) + sum(
            float(np.max(np.abs(shift))) for shift in shifts
        )
        degree = int(np.bincount(p.edges.ravel()).max(initial=0))
        longest = 1 + int(np.bincount(p.rows, minlength=p.n).max(initial=0))
        products = _absolute_row_sums(p.indptr, p.rows, self.values)
        error = _gamma(degree + len(weights) + len(shifts)) * size
        error += _gamma(longest + 3) * float(products.max(initial=0.0))
        return 1.01 * error + float(np.finfo(float).tiny)


def _gamma(k: int) -> float:
    """What k roundings in a row amount to at most, relatively."""
    return k * _UNIT / (1 - k * _UNIT)


@compiled
def _factor_left(indptr: Ints, rows: Ints, x: Array) -> int:
    """`_factor` without a table of places: column k is gathered from those that reach it."""
    n = indptr.size - 1
    negative = 0
    work = np.zeros(n)
    reaching, further = np.full(n, -1, np.int64), np.full(n, -1, np.int64)  # linked lists
    place = indptr[:-1].copy()
    for k in range(n):
        first, stop = indptr[k], indptr[k + 1]
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


@compiled
def _absolute_row_sums(indptr: Ints, rows: Ints, x: Array) -> Array:
    """Row sums of |L||D||Lᵀ|."""
    n = indptr.size - 1
    inner = np.ones(n)
    for k in range(n):
        for p in range(indptr[k], indptr[k + 1]):
            inner[k] += abs(x[n + p])
        inner[k] *= abs(x[k])
    out = inner.copy()
    for k in range(n):
        for p in range(indptr[k], indptr[k + 1]):
            out[rows[p]] += abs(x[n + p]) * inner[k]
    return out


@compiled
def _factor(indptr: Ints, starts: Ints, places: NDArray[np.int32], x: Array) -> int:
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


@compiled
def _inverse(indptr: Ints, starts: Ints, places: NDArray[np.int32], x: Array) -> Array:
    """Takahashi's recurrence from the last column to the first: Z = D⁻¹L⁻¹ + (I − Lᵀ)Z."""
    n = indptr.size - 1
    z = np.zeros(x.size)
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
    return z


@compiled
def _factor_tangent(
    indptr: Ints, starts: Ints, places: NDArray[np.int32], x: Array, y: Array
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


@compiled
def _inverse_tangent(
    indptr: Ints, starts: Ints, places: NDArray[np.int32], x: Array, z: Array, y: Array
) -> Array:
    """The change of the selected inverse z along the change y of the factors x."""
    n = indptr.size - 1
    out = np.zeros(x.size)
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
    return out


@compiled
def _solve(indptr: Ints, rows: Ints, x: Array, b: Array) -> None:
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


@compiled
def _inverse_among(indptr: Ints, rows: Ints, x: Array, nodes: Ints) -> Array:
    """T⁻¹ among nodes (in elimination order): a solve on their ancestors alone."""
    n, width = indptr.size - 1, nodes.size
    local = np.full(n, -1, np.int64)
    for i in nodes:
        k = i
        while local[k] < 0:
            local[k] = 0
            if indptr[k] == indptr[k + 1]:
                break
            k = rows[indptr[k]]
    reach = np.flatnonzero(local == 0)
    local[reach] = np.arange(reach.size)
    b = np.zeros((reach.size, width))
    for c in range(width):
        b[local[nodes[c]], c] = 1.0
    for s in range(reach.size):
        k = reach[s]
        for p in range(indptr[k], indptr[k + 1]):
            i, entry = local[rows[p]], x[n + p]
            for c in range(width):
                b[i, c] -= entry * b[s, c]
    for s in range(reach.size - 1, -1, -1):
        k = reach[s]
        for c in range(width):
            b[s, c] /= x[k]
        for p in range(indptr[k], indptr[k + 1]):
            i, entry = local[rows[p]], x[n + p]
            for c in range(width):
                b[s, c] -= entry * b[i, c]
    out = np.empty((width, width))
    for r in range(width):
        out[r] = b[local[nodes[r]]]
    return out


@compiled
def _add(high: Array, low: Array, size: Array, k: int, value: float) -> None:
    """Add to an entry in twice the precision (Knuth's two-sum)."""
    total = high[k] + value
    shadow = total - high[k]
    low[k] += (high[k] - (total - shadow)) + (value - shadow)
    high[k] = total
    size[k] += abs(value)


@compiled
def _split(a: float) -> tuple[float, float]:
    """a as a sum of two numbers of half the digits (Veltkamp)."""
    c = 134217729.0 * a
    high = c - (c - a)
    return high, a - high


@compiled
def _product_error(a: float, b: float, product: float) -> float:
    """a·b − product, exactly (Dekker)."""
    ah, al = _split(a)
    bh, bl = _split(b)
    return ((ah * bh - product) + ah * bl + al * bh) + al * bl


@compiled
def _add_laplacian(
    ends: Ints, edge_places: Ints, weights: Array, high: Array, low: Array, size: Array
) -> None:
    for e in range(weights.size):
        _add(high, low, size, ends[e, 0], weights[e])
        _add(high, low, size, ends[e, 1], weights[e])
        _add(high, low, size, edge_places[e], -weights[e])


@compiled
def _add_diagonal(diagonal: Array, high: Array, low: Array, size: Array) -> None:
    for k in range(diagonal.size):
        _add(high, low, size, k, diagonal[k])


@compiled
def _subtract_times(
    high: Array, low: Array, size: Array, place: tuple[int, int], a: float, b: float
) -> None:
    """Subtract a·b from an entry in twice the precision."""
    product = a * b
    total = high[place] - product
    shadow = total - high[place]
    low[place] += (high[place] - (total - shadow)) + (-product - shadow)
    low[place] -= _product_error(a, b, product)
    high[place] = total
    size[place] += abs(product)


@compiled
def _subtract_laplacian_times(
    edges: Ints, weights: Array, g: Array, high: Array, low: Array, size: Array
) -> None:
    for e in range(weights.size):
        i, j, w = edges[e, 0], edges[e, 1], weights[e]
        for c in range(g.shape[1]):
            _subtract_times(high, low, size, (i, c), w, g[i, c])
            _subtract_times(high, low, size, (i, c), -w, g[j, c])
            _subtract_times(high, low, size, (j, c), w, g[j, c])
            _subtract_times(high, low, size, (j, c), -w, g[i, c])


@compiled
def _subtract_diagonal_times(
    diagonal: Array, g: Array, high: Array, low: Array, size: Array
) -> None:
    for i in range(g.shape[0]):
        for c in range(g.shape[1]):
            _subtract_times(high, low, size, (i, c), diagonal[i], g[i, c])


def doubled_products(u: Array, g: Array, start: Array) -> Array:
    """start − UᵀG, summed in twice the working precision and then rounded."""
    high, low, size = start.copy(), np.zeros(start.shape), np.zeros(start.shape)
    _subtract_products(u, g, high, low, size)
    return high + low


@compiled
def _subtract_products(u: Array, g: Array, high: Array, low: Array, size: Array) -> None:
    for i in range(u.shape[0]):
        for a in range(u.shape[1]):
            for b in range(g.shape[1]):
                _subtract_times(high, low, size, (a, b), u[i, a], g[i, b])


@compiled
def _subtract_product(
    indptr: Ints,
    starts: Ints,
    places: NDArray[np.int32],
    x: Array,
    high: Array,
    low: Array,
    size: Array,
) -> None:
    """Subtract LDLᵀ, every product with its error."""
    n = indptr.size - 1
    for k in range(n):
        d = x[k]
        _add(high, low, size, k, -d)
        stop = n + indptr[k + 1]
        t = starts[k]
        for a in range(n + indptr[k], stop):
            left = x[a] * d
            left_error = _product_error(x[a], d, left)
            _add(high, low, size, a, -left)
            low[a] -= left_error
            for b in range(a, stop):
                product = left * x[b]
                place = places[t]
                _add(high, low, size, place, -product)
                low[place] -= _product_error(left, x[b], product) + left_error * x[b]
                t += 1


@compiled
def _row_sums(indptr: Ints, rows: Ints, entries: Array) -> Array:
    """Row sums of the symmetric matrix with these flat values."""
    n = indptr.size - 1
    out = entries[:n].copy()
    for k in range(n):
        for p in range(indptr[k], indptr[k + 1]):
            out[k] += entries[n + p]
            out[rows[p]] += entries[n + p]
    return out
