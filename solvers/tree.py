"""Coordinates along a spanning tree: matrices whose entries are as small as the edges.

A Gram matrix K of a long chain has entries of the size of the chain, squared; the length of an
edge is a difference of such entries, and digits are lost in it. With the edge vectors of a
spanning tree as unknowns,

    K = T Z Tᵀ,   S_Z = Tᵀ S T,   T_ic = 1 where the tree edge above c lies on the path to i

Z has entries of the size of squared edges, and the condition number of S falls by as much as
entries of K exceed them: n²/4π² around a circle of n points. Products with T are sums along the
tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from sdpkit.typing import Array, Indices


@dataclass(frozen=True)
class Tree:
    """A tree on the nodes 0, …, n−1 and the ground n, its root.

    Attributes
    ----------
    order: (n,) the nodes, each after its parent;  parent: (n,) parents, n for the ground
    """

    order: Indices
    parent: Indices

    @classmethod
    def shortest(cls, first: Indices, second: Indices, lengths: Array, n: int) -> Tree:
        """The minimum spanning tree of edges (first, second); parts without a ground get one.

        Short trees have short detours: every edge beside the tree is longer than those it spans.
        """
        spread = max(float(lengths.max(initial=0.0)), np.finfo(float).tiny)
        # Zeros are no edges to csgraph; edges to the ground that are not there cost most of all.
        weights = np.r_[1e-14 + np.maximum(lengths, 0.0) / spread, np.full(n, 4.0)]
        ends = np.r_[first, np.arange(n)], np.r_[second, np.full(n, n)]
        low, high = np.minimum(*ends), np.maximum(*ends)
        pairs, where = np.unique(low * (n + 1) + high, return_inverse=True)
        least = np.full(pairs.size, np.inf)
        np.minimum.at(least, where, weights)
        graph = sp.csr_array((least, np.divmod(pairs, n + 1)), shape=(n + 1, n + 1))
        order, parent = breadth_first_order(minimum_spanning_tree(graph), n, directed=False)
        return cls(order[1:].astype(np.int64), parent[:n].astype(np.int64))

    @cached_property
    def _steps(self) -> list[tuple[int, int]]:
        """(node, parent) from the root outwards, where the parent is not the ground."""
        pairs = zip(self.order.tolist(), self.parent[self.order].tolist(), strict=True)
        return [(node, parent) for node, parent in pairs if parent < self.parent.size]

    def lift(self, rows: Array) -> Array:
        """T A: each node's row is the sum of those on its path from the ground."""
        out = np.array(rows, order="C")
        for node, parent in self._steps:
            out[node] += out[parent]
        return out

    def fold(self, rows: Array) -> Array:
        """Tᵀ A: each node's row is the sum over its subtree."""
        out = np.array(rows, order="C")
        for node, parent in reversed(self._steps):
            out[parent] += out[node]
        return out

    def differences(self, rows: Array) -> Array:
        """T⁻¹ A: each node's row less its parent's."""
        out = np.array(rows, order="C")
        inner = np.flatnonzero(self.parent < self.parent.size)
        out[inner] -= rows[self.parent[inner]]
        return out

    def paths(self, v: sp.csr_array) -> sp.csr_array:
        """V T: for an edge the signed path between its ends."""
        out = sp.csr_array(v @ sp.csr_array(self.lift(np.eye(self.parent.size))))
        out.eliminate_zeros()
        return out

    def to_nodes(self, z: Array) -> Array:
        """T Z Tᵀ, transposed where Z is not symmetric."""
        return self.lift(self.lift(z).T)

    def from_nodes(self, matrix: Array) -> Array:
        """T⁻¹ M T⁻ᵀ."""
        return self.differences(self.differences(matrix).T)

    def congruent(self, matrix: Array) -> Array:
        """Tᵀ A T."""
        return self.fold(self.fold(matrix).T)


@dataclass(frozen=True)
class Sum:
    """Vᵀ diag(u) V, for products one factor after the other: V may have a few long rows, whose
    squares would fill the matrix."""

    v: sp.csr_array
    u: Array

    @cached_property
    def _dense(self) -> Array:
        return np.asarray((self.v.T @ sp.diags_array(self.u) @ self.v).toarray())

    def toarray(self) -> Array:
        """Multiplied out, once."""
        return self._dense

    def __matmul__(self, other: Array) -> Array:
        weights = self.u if other.ndim == 1 else self.u[:, None]
        return np.asarray(self.v.T @ (weights * (self.v @ other)))
