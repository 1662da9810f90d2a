"""Where the entries of a sparse factor lie: ordering and symbolic analysis of a graph's matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import NDArray

from sdpkit.numerics.doubled import UNIT, subtract_times
from sdpkit.numerics.kernels import proof_kernel
from sdpkit.typing import Array, Indices

_HEAVY = 400_000_000  # pairs of a factor's columns that a table can hold


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
    edges: Indices
    order: Indices
    rank: Indices
    indptr: Indices
    rows: Indices
    edge_places: Indices

    @classmethod
    def of(cls, n: int, edges: Indices) -> Pattern:
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
    def starts(self) -> Indices:
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
    def columns(self) -> Indices:
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
    def laplacian_places(self) -> Indices:
        """(3m,) where the weights of the edges go: to both diagonal entries, and between them."""
        return np.concatenate([*self.ends.T, self.edge_places])

    @cached_property
    def ends(self) -> Indices:
        """(m, 2) the edges as flat places of diagonal entries."""
        return np.ascontiguousarray(self.rank[self.edges])

    def laplacian(self, weights: Array, shift: float | Array = 0.0) -> Array:
        """The flat values of L(weights) + shift·I, or + diag(shift) with one number per node."""
        entries = np.concatenate([weights, weights, -weights])
        out = np.bincount(self.laplacian_places, entries, self.size).astype(np.float64, copy=False)
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
            subtract_times(np.concatenate([i, i, j, j]), np.r_[i, j, j, i], signed, g, *sums)
        every = np.arange(self.n)
        for shift in shifts:
            subtract_times(every, every, np.broadcast_to(shift, self.n).copy(), g, *sums)
        return high, low, 16 * (self.n + len(self.edges)) * UNIT**2 * size


def minimum_degree(n: int, edges: Indices) -> Indices:
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


def _columns(n: int, below: Indices) -> tuple[Indices, Indices]:
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
    indptr: Indices,
    indices: Indices,
    starts: Indices,
    parents: Indices,
    seen: Indices,
    counts: Indices,
    rows: Indices,
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
def _pair_places(
    indptr: Indices, rows: Indices, starts: Indices, places: NDArray[np.int32]
) -> None:
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
