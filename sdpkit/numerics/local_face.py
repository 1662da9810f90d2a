"""Graph matrices on a face: null directions that live on a few nodes each, in weights of edges.

On the face {z ⊥ 1, Nᵀz = 0} an edge b may be replaced by p = b − Ny, for any y. With the y that
makes p orthogonal to N, the matrices

    T' = Σ_e w_e p_e p_eᵀ + γ NNᵀ − cI       and       T = L(w) − cI

agree on the face, and T' does not mix it with N: its inverse is that of T on the face, and beside
it that of γNNᵀ − cI. Since p sums to zero, ppᵀ is the Laplacian of weights −p_i p_j between its
nodes, and NNᵀ likewise. So T' is again L(w') − cI, for a graph with a few more edges, the *braces*,
and weights w' that are linear in w. Sparse factors, selected inverses and proofs of inertia take it
as they take any graph.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.typing import Array, Indices

_EPS = float(np.finfo(np.float64).eps)
_NOTHING = 1e-13  # entries of a direction, relative to its largest, that are left out
_FEW_NODES = 60  # of a local direction, at most
# Pairs of nodes whose weights are added up, at most, and for each edge: beyond this the factors of
# the slack are dense, and their entries take longer to collect than to compute.
_MOST_PAIRS, _PAIRS_PER_EDGE = 500_000, 200
_SUM = 1e-12  # of the entries of a direction of length one, at most
_INDEPENDENT = 1e-3  # the smallest singular value of directions of length one


@dataclass(frozen=True, eq=False)
class LocalFace:
    """Null directions N of a graph, and the map from weights w to weights w'.

    Attributes
    ----------
    edges: (m, 2);  braces: (b, 2) further pairs of nodes;  directions: (n, k) N, orthonormal
    map: (m + b, m) w ↦ w' without γ, sparse;  stiffness: (m + b,) the weights of NNᵀ
    touched: (t,) the edges whose p is not b, or whose weights are added to those of such edges
    sizes: (t, n) what the p of these are summed from, in absolute values
    stiff: a bound on the row sums of |N||N|ᵀ;  defect: what counts of it as rounding
    lost: a bound on what entries that were left out are worth, for an edge
    """

    edges: Indices
    braces: Indices
    directions: sp.csr_array
    map: sp.csr_array
    stiffness: Array
    touched: Indices
    sizes: sp.csr_array
    stiff: float
    defect: float
    lost: float

    @classmethod
    def of(cls, edges: Indices, null: Array) -> LocalFace | None:
        """None where a direction is not local, not orthogonal to 1 or hardly independent, or where
        the face joins too many pairs of nodes."""
        length = np.linalg.norm(null, axis=0)
        if not null.size or not length.all():
            return None
        turn = _orthonormalising(null / length)
        if turn is None:
            return None
        turn = turn / length[:, None]
        unit = null @ turn
        kept = np.where(np.abs(unit) > _NOTHING, unit, 0.0)
        local = np.count_nonzero(kept, axis=0).max() <= _FEW_NODES
        if not local or np.abs(kept.sum(axis=0)).max() > _SUM:
            return None
        left_out = float(np.linalg.norm(unit - kept))
        if np.count_nonzero(turn) > len(turn):  # else one rounding an entry, counted with others
            sums = np.abs(null) @ np.abs(turn)
            left_out += 2 * _EPS * len(turn) * float(np.linalg.norm(sums))
        return cls._of_local(edges, sp.csr_array(kept), left_out)

    @classmethod
    def _of_local(
        cls, edges: Indices, directions: sp.csr_array, left_out: float
    ) -> LocalFace | None:
        n, incidence = directions.shape[0], _incidence(edges, directions.shape[0])
        moves = sp.csr_array(incidence @ directions)
        moves.data[np.abs(moves.data) <= _NOTHING] = 0.0  # any y will do
        moves.eliminate_zeros()
        projected = sp.csr_array(incidence - moves @ directions.T)
        sizes = sp.csr_array(abs(incidence) + abs(moves) @ abs(directions).T)
        moved = np.flatnonzero(np.diff(moves.indptr))
        columns = _vectors(sp.csr_array(directions.T))
        counts = np.diff(projected.indptr).astype(np.int64)
        if counts @ (counts - 1) / 2 > max(_MOST_PAIRS, _PAIRS_PER_EDGE * len(edges)):
            return None
        places, braces = _places(n, edges, [*_vectors(projected[moved]), *columns])
        size = len(edges) + len(braces)
        whole = _pair_weights(n, places, _vectors(projected), size)
        # Edges that are not moved, but whose weights are added to those of others.
        added = np.flatnonzero(np.diff(whole[:, moved].indptr)[: len(edges)])
        touched = np.union1d(moved, added)
        used = sizes[touched]
        sums = np.abs(projected[touched].sum(axis=1)) / used.sum(axis=1)
        chain = 4 * int(np.diff(directions.indptr).max()) + 2 * int(np.diff(whole.indptr).max())
        chain += int(np.diff(projected.indptr).max()) + _FEW_NODES + 32
        off = float(sums.max(initial=0.0)) + float(np.abs(directions.sum(axis=0)).max())
        return cls(
            edges,
            braces,
            directions,
            whole,
            np.asarray(_pair_weights(n, places, columns, size) @ np.ones(len(columns))),
            touched,
            used,
            float((abs(directions) @ abs(directions).sum(axis=0)).max()),
            chain * _EPS + off,
            left_out * (1 + float(np.sqrt(moves.multiply(moves).sum(axis=1).max(initial=0.0)))),
        )

    def weights(self, w: Array, stiffness: float = 0.0) -> Array:
        """(m + b,) w' with γ = `stiffness`."""
        out = np.asarray(self.map @ w)
        return out + stiffness * self.stiffness if stiffness else out

    def error(self, size: Array, stiffness: float) -> float:
        """A bound on |zᵀ(T' − T)z| over unit z in the face, for weights that are sums of numbers of
        these sizes in absolute value: what rounding has made of p, of products of its entries and
        of their sums, and what was left out."""
        part = size[self.touched]
        rows = self.sizes.T @ (part * np.asarray(self.sizes.sum(axis=1)).ravel())
        out = 2 * self.defect * (float(np.max(rows, initial=0.0)) + stiffness * self.stiff)
        lost = self.lost * (8 * float(part.sum()) * (1 + self.lost) + stiffness * self.lost)
        return 1.01 * (out + lost)


def _orthonormalising(unit: Array) -> Array | None:
    """(k, k) A with orthonormal NA, as sparse as what the columns of N have in common; None where
    they are hardly independent."""
    gram = unit.T @ unit
    gram[np.abs(gram) <= 4 * _EPS] = 0.0
    if np.linalg.eigvalsh(gram)[0] < _INDEPENDENT**2:
        return None
    return np.asarray(np.linalg.inv(np.linalg.cholesky(gram)).T)


def _incidence(edges: Indices, n: int) -> sp.csr_array:
    """(m, n) rows e_i − e_j."""
    signs = np.tile([1.0, -1.0], len(edges))
    return sp.csr_array(
        (signs, edges.ravel(), 2 * np.arange(len(edges) + 1)), shape=(len(edges), n)
    )


def _vectors(matrix: sp.csr_array) -> list[tuple[Indices, Array]]:
    """The nodes of each row, rising, and its entries."""
    rows = sp.csr_array(matrix)
    rows.eliminate_zeros()
    rows.sort_indices()
    nodes, cuts = rows.indices.astype(np.int64), rows.indptr[1:-1]
    return list(zip(np.split(nodes, cuts), np.split(rows.data, cuts), strict=True))


def _places(
    n: int, edges: Indices, vectors: list[tuple[Indices, Array]]
) -> tuple[dict[int, int], Indices]:
    """The place of each pair i·n + j, i < j, among the edges and the braces after them; and the
    braces: pairs of nodes of one vector that are no edges."""
    keys = (edges.min(axis=1) * n + edges.max(axis=1)).tolist()
    places = {key: e for e, key in enumerate(keys)}
    braces: list[tuple[int, int]] = []
    for nodes, _ in vectors:
        continue_or_raise()
        for i, j in itertools.combinations(nodes.tolist(), 2):
            if i * n + j not in places:
                places[i * n + j] = len(edges) + len(braces)
                braces.append((i, j))
    return places, np.array(braces, dtype=np.int64).reshape(-1, 2)


def _pair_weights(
    n: int, places: dict[int, int], vectors: list[tuple[Indices, Array]], size: int
) -> sp.csr_array:
    """(size, t) for each of t vectors p the weights −p_i p_j of its pairs of nodes."""
    rows, columns, values = [], [], []
    for t, (nodes, entries) in enumerate(vectors):
        continue_or_raise()
        a, b = np.triu_indices(nodes.size, 1)
        rows += [places[key] for key in (nodes[a] * n + nodes[b]).tolist()]
        columns += [t] * a.size
        values += (-entries[a] * entries[b]).tolist()
    return sp.csr_array((values, (rows, columns)), shape=(size, len(vectors)))
