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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import NDArray

from sdpkit.numerics.kernels import kernel_part, proof_kernel

if TYPE_CHECKING:
    from sdpkit.numerics.updated_factor import LowRank

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_UNIT = float(np.finfo(np.float64).eps) / 2
_PANEL = 64  # right-hand sides solved at a time, to stay in cache
_FROM_LEFT = 10_000_000  # pairs beyond which reading their table costs more than doing without
_HEAVY = 400_000_000  # pairs of a factor's columns that a table has room for


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
        indptr, rows = _columns(n, below)
        # Entries are ordered by column and row: an edge is found by bisection.
        keys = np.repeat(np.arange(n), np.diff(indptr)) * n + rows
        edge_places = n + np.searchsorted(keys, below[:, 0] * n + below[:, 1])
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
        out = np.empty(self.starts[-1], np.int32)
        _pair_places(self.indptr, self.rows, self.starts, out)
        return out

    @cached_property
    def columns(self) -> Ints:
        """The column of each entry of L, as `rows` are their rows."""
        return np.repeat(np.arange(self.n), np.diff(self.indptr))

    @cached_property
    def parents(self) -> list[int]:
        """The elimination tree: the first row below the pivot of each column, −1 at a root."""
        has_rows = np.diff(self.indptr) > 0
        out = np.full(self.n, -1)
        out[has_rows] = self.rows[self.indptr[:-1][has_rows]]
        return [int(k) for k in out]

    @cached_property
    def laplacian_places(self) -> Ints:
        """(3m,) where the weights of the edges go: to both diagonal entries, and between them."""
        return np.concatenate([*self.ends.T, self.edge_places])

    @cached_property
    def ends(self) -> Ints:
        """(m, 2) the edges as flat places of diagonal entries."""
        return np.ascontiguousarray(self.rank[self.edges])

    def laplacian(self, weights: Array, shift: float | Array = 0.0) -> Array:
        """The flat values of L(weights) + shift·I, or + diag(shift) with one number per node."""
        entries = np.concatenate([weights, weights, -weights])
        out = np.bincount(self.laplacian_places, entries, self.size)
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
        high, g = np.array(u, order="C"), np.ascontiguousarray(g)
        low, size = np.zeros(u.shape), np.abs(high)
        sums = high, low, size
        i, j = self.edges.T
        for part in weights:
            signed = np.concatenate([part, -part, part, -part])
            _subtract_times(np.concatenate([i, i, j, j]), np.r_[i, j, j, i], signed, g, *sums)
        every = np.arange(self.n)
        for shift in shifts:
            _subtract_times(every, every, np.broadcast_to(shift, self.n).copy(), g, *sums)
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


def _columns(n: int, below: Ints) -> tuple[Ints, Ints]:
    """(indptr, rows) of the columns of L, for edges (m, 2) whose first end is eliminated first."""
    order = np.lexsort(below.T)  # by the end that is eliminated last
    i, indptr = below[order, 0], np.searchsorted(below[order, 1], np.arange(n + 1))
    parents, starts, nothing = np.full(n, -1), np.zeros(n + 1, np.int64), np.empty(0, np.int64)
    counts = np.zeros(n, np.int64)
    _climb(indptr, i, starts, parents, np.full(n, -1), counts, nothing)
    np.cumsum(counts, out=starts[1:])
    rows = np.empty(starts[-1], np.int64)
    _climb(indptr, i, starts, parents, np.full(n, -1), np.zeros_like(counts), rows)
    return starts, rows


@proof_kernel("i8[:]", "i8[:]", "i8[:]", "out i8[:]", "out i8[:]", "out i8[:]", "out i8[:]")
def _climb(
    indptr: Ints, indices: Ints, starts: Ints, parents: Ints, seen: Ints, counts: Ints, rows: Ints
) -> None:
    """Row k of L has entries at its neighbours that are eliminated before it, and at all nodes
    above these in the elimination tree (Liu 1990). Counts them per column, and writes down k if
    there are rows to write to; the tree grows on the way."""
    for k in range(indptr.size - 1):
        seen[k] = k
        for p in range(indptr[k], indptr[k + 1]):
            i = indices[p]
            while seen[i] != k:
                if parents[i] < 0:
                    parents[i] = k
                if rows.size > 0:
                    rows[starts[i] + counts[i]] = k
                counts[i] += 1
                seen[i] = k
                i = parents[i]


@proof_kernel("i8[:]", "i8[:]", "i8[:]", "out i4[:]")
def _pair_places(indptr: Ints, rows: Ints, starts: Ints, places: NDArray[np.int32]) -> None:
    """For each column the flat places of (i, j), i ≤ j, over the rows i, j below its pivot."""
    n = indptr.size - 1
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


# -- eigenvalues ----------------------------------------------------------------------------


def smallest_on_centred(
    pattern: Pattern,
    weights: Array,
    cost: float,
    step: Array | None = None,
    update: LowRank | None = None,
) -> float:
    """A proven lower bound, sharp to a few digits, on zᵀSz over unit z ⊥ 1, S = L(w − Δ) − cI,
    less UsUᵀ where a cost of low rank is given.

    The constant vector is an eigenvector of S with eigenvalue −c. If S − σI has no negative
    eigenvalue but that one, then every other eigenvalue is at least σ. How many there are is read
    off a factorisation, whose backward error is subtracted.
    """
    from sdpkit.numerics.updated_factor import factored

    terms = (weights,) if step is None else (weights, -step)
    total = weights if step is None else weights - step
    if not np.isfinite(total).all():
        return -np.inf
    size = max(float(np.abs(total).max(initial=0.0)), abs(cost), np.finfo(float).tiny)
    guess = float(lowest_on_centred(pattern, total, cost, 1, update)[0][0])
    downwards = [1e-6 * abs(guess), 1e-3 * abs(guess), 0.1 * abs(guess)]
    downwards += [10.0**power * size for power in range(-15, 3)]
    if pattern.is_heavy:  # every attempt is dear: fewer, and less sharp
        downwards = [1e-6 * abs(guess) + 10.0**power * size for power in range(-10, 3, 2)]
    for below in downwards:
        sigma = guess - below
        factor = factored(pattern, total, -cost - sigma, update)
        if factor.negative == (1 if cost + sigma > 0 else 0):
            error = factor.backward_error(terms, (-cost, -sigma))
            if np.isfinite(error):
                return sigma - error
    return -np.inf


def lowest_on_centred(
    pattern: Pattern, weights: Array, cost: float, k: int, update: LowRank | None = None
) -> tuple[Array, Array]:
    """(k,) estimates of the smallest eigenvalues on 1⊥ of S = L(w) − cI, less UsUᵀ where a cost of
    low rank is given, rising, and (n, k) their eigenvectors, by the Lanczos method on the inverse
    of S − σI for a σ below them: its largest eigenvalues there are 1/(λ − σ)."""
    from sdpkit.numerics.updated_factor import factored

    n = pattern.n
    k = min(k, n - 1)
    if n == 1:
        return np.array([np.inf]), np.zeros((1, 1))
    size = max(float(np.abs(weights).max(initial=0.0)), abs(cost), np.finfo(float).tiny)
    # S may be positive on 1⊥ already; else go down until it is. L(w) ⪰ 0 if no weight is negative.
    down = [-size * 10.0**power for power in range(-12, 3)]
    if update is None and np.all(weights >= 0):
        down = [-cost - 1e-9 * size, *down[4:]]
    for sigma in (0.0, *down) if cost != 0 else down:
        factor = factored(pattern, weights, -cost - sigma, update)
        if factor.negative == (1 if cost + sigma > 0 else 0):
            break
    else:
        return np.full(k, -100.0 * size), np.zeros((n, k))

    def inverse(x: Array) -> Array:
        y = factor.solve(x.ravel() - x.mean())
        return np.asarray(y - y.mean())

    values, vectors = leading_eigenpairs(inverse, n, k)
    positive = values > 0
    return sigma + np.divide(1.0, values, out=np.zeros(k), where=positive), vectors


def leading_eigenpairs(apply: Callable[[Array], Array], n: int, k: int) -> tuple[Array, Array]:
    """(k,) largest eigenvalues, falling, and (n, k) eigenvectors of a symmetric operator."""
    if n <= max(40, 2 * k + 2):
        matrix = np.column_stack([apply(column) for column in np.eye(n)])
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    else:
        values, vectors = _lanczos(apply, n, k)
    falling = np.argsort(values)[::-1][:k]
    return values[falling], vectors[:, falling]


def _lanczos(apply: Callable[[Array], Array], n: int, k: int) -> tuple[Array, Array]:
    """Eigenpairs by ARPACK; of an operator on which it does not converge, because its negative
    eigenvalues dwarf the largest, Ritz pairs of a longer and looser run."""
    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=apply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    for basis, tol in ((max(2 * k + 1, 20), 1e-9), (max(4 * k + 1, 120), 1e-4)):
        try:
            values, vectors = scipy.sparse.linalg.eigsh(
                operator, k=k, which="LA", v0=start, ncv=min(n - 1, basis), tol=tol
            )
        except scipy.sparse.linalg.ArpackNoConvergence:
            continue
        return values, vectors
    block = np.linalg.qr(np.random.default_rng(1).standard_normal((n, min(n, k + 20))))[0]
    image = np.column_stack([apply(column) for column in block.T])
    values, turn = np.linalg.eigh(block.T @ image)
    return values[-k:], block @ turn[:, -k:]


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

    def inverse_among(self, nodes: Ints) -> Array:
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
            _add_all(p.laplacian_places, entries, high, low, size)
        for shift in shifts:
            _add_all(p.rank, np.broadcast_to(shift, p.n).astype(np.float64), high, low, size)
        _subtract_product(p.indptr, p.starts, p.places, self.values, high, low, size)
        # At most n + m terms, each with a few errors of second order.
        second_order = 16 * (p.n + len(p.edges)) * _UNIT**2 * size
        diagonal, beside = np.split(np.abs(high) + np.abs(low) + second_order, [p.n])
        sums = diagonal + np.bincount(p.rows, beside, p.n) + np.bincount(p.columns, beside, p.n)
        return 1.01 * float(sums.max())

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
        diagonal, beside = np.split(np.abs(self.values), [p.n])
        inner = (1 + np.bincount(p.columns, beside, p.n)) * diagonal
        products = inner + np.bincount(p.rows, beside * inner[p.columns], p.n)  # |L||D||Lᵀ|
        error = _gamma(degree + len(weights) + len(shifts)) * size
        error += _gamma(longest + 3) * float(products.max(initial=0.0))
        return 1.01 * error + float(np.finfo(float).tiny)


def _gamma(k: int) -> float:
    """What k roundings in a row amount to at most, relatively."""
    return k * _UNIT / (1 - k * _UNIT)


def _factor_left(indptr: Ints, rows: Ints, x: Array) -> int:
    """`_factor` without a table of places."""
    n = indptr.size - 1
    return int(_gather_columns(indptr, rows, np.zeros(n), *np.full((3, n), -1), x))


def _with_ancestors(parents: list[int], nodes: Ints) -> Ints:
    """The nodes and all above them in the elimination tree, ascending."""
    seen: set[int] = set()
    for node in nodes.tolist():
        k = node
        while k >= 0 and k not in seen:
            seen.add(k)
            k = parents[k]
    return np.array(sorted(seen), dtype=np.int64)


@proof_kernel("i8[:]", "i8[:]", "out f8[:]", "out i8[:]", "out i8[:]", "out i8[:]", "out f8[:]")
def _gather_columns(
    indptr: Ints, rows: Ints, work: Array, reaching: Ints, further: Ints, place: Ints, x: Array
) -> int:
    """Column k is gathered from those that reach it, which linked lists name; `work` is zero at the
    start, the lists are empty (−1)."""
    n = indptr.size - 1
    negative = 0
    for k in range(n):
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


@proof_kernel("i8[:]", "i8[:]", "i4[:]", "f8[:]", "out f8[:]")
def _inverse(indptr: Ints, starts: Ints, places: NDArray[np.int32], x: Array, z: Array) -> None:
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


@proof_kernel("i8[:]", "i8[:]", "i4[:]", "f8[:]", "f8[:]", "f8[:]", "out f8[:]")
def _inverse_tangent(
    indptr: Ints, starts: Ints, places: NDArray[np.int32], x: Array, z: Array, y: Array, out: Array
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


@kernel_part
def _add(high: Array, low: Array, size: Array, k: int, value: float) -> None:
    """Add to an entry in twice the precision (Knuth's two-sum)."""
    total = high[k] + value
    shadow = total - high[k]
    low[k] += (high[k] - (total - shadow)) + (value - shadow)
    high[k] = total
    size[k] += abs(value)


@kernel_part
def _split(a: float) -> tuple[float, float]:
    """a as a sum of two numbers of half the digits (Veltkamp)."""
    c = 134217729.0 * a
    high = c - (c - a)
    return high, a - high


@kernel_part
def _product_error(a: float, b: float, product: float) -> float:
    """a·b − product, exactly (Dekker)."""
    ah, al = _split(a)
    bh, bl = _split(b)
    return ((ah * bh - product) + ah * bl + al * bh) + al * bl


@proof_kernel("i8[:]", "f8[:]", "out f8[:]", "out f8[:]", "out f8[:]")
def _add_all(places: Ints, values: Array, high: Array, low: Array, size: Array) -> None:
    """Add values to entries in twice the precision."""
    for t in range(values.size):
        _add(high, low, size, places[t], values[t])


@proof_kernel("i8[:]", "i8[:]", "f8[:]", "f8[:,:]", "out f8[:,:]", "out f8[:,:]", "out f8[:,:]")
def _subtract_times(
    to: Ints, of: Ints, weights: Array, g: Array, high: Array, low: Array, size: Array
) -> None:
    """Subtract weights_t times row of_t of g from row to_t, in twice the precision."""
    for t in range(weights.size):
        k, i, a = to[t], of[t], weights[t]
        for c in range(g.shape[1]):
            product = a * g[i, c]
            total = high[k, c] - product
            shadow = total - high[k, c]
            low[k, c] += (high[k, c] - (total - shadow)) + (-product - shadow)
            low[k, c] -= _product_error(a, g[i, c], product)
            high[k, c] = total
            size[k, c] += abs(product)


def doubled_products(u: Array, g: Array, start: Array) -> Array:
    """start − UᵀG, summed in twice the working precision and then rounded."""
    high, low, size = start.copy(), np.zeros(start.shape), np.zeros(start.shape)
    of, to = np.indices(u.shape).reshape(2, -1)
    _subtract_times(to, of, u.ravel(), np.ascontiguousarray(g), high, low, size)
    return high + low


@proof_kernel("i8[:]", "i8[:]", "i4[:]", "f8[:]", "out f8[:]", "out f8[:]", "out f8[:]")
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
