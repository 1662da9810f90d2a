"""Rigid bodies: points whose mutual distances the lengths of a graph determine in any dimension.

A clique is a body. If its points span fewer dimensions than their number allows, there are c with
Σc = 0 and Xᵀc = 0 on it, and every Gram matrix K of the graph's lengths has K c = 0: the clique is
*flat*, and so is every body that grows from it:

    a point joins a body      if its neighbours in the body span as much as the body does, and it
                              lies in that span (in space: four neighbours in general position)
    two bodies become one     if the points that they share span all that one of them does

Growing takes coordinates. Lengths alone, without points, give the cliques.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.graphs.repair import cliques
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.neighbors import row_blocks
from sdpkit.typing import Array, Indices

Nodes = frozenset[int]

# Directions of overlapping bodies count as parallel below this singular value.
_PARALLEL = 1e-4
# Squared lengths below this share of their body's largest: nearly coincident points.
_NEARLY_COINCIDENT = 1e-8
# Singular values of centred points, as shares of the largest: above the first they span a
# dimension, below the second they do not, and between them nothing is concluded.
_SPANNED = 1e-4
_FLAT = 1e-11
# Neighbourhoods flatter than this, but not flat, are in doubt. The margin allows for errors that
# grow from body to body.
_THIN = 1e-3
# What the singular values of a small matrix cost, in units of its entries.
_SVD_WORK = 20


def flat_directions(graph: NeighborhoodGraph, points: ArrayLike | None = None) -> Array:
    """(n, k) orthonormal c ⊥ 1 with K c = 0 for every K that keeps the graph's lengths.

    They come from flat cliques and, where the (n, D) `points` of these lengths are given, from the
    bodies that grow from them.

    >>> from sdpkit.graphs.build import neighborhood_graph
    >>> line = neighborhood_graph([[0.0], [1.0], [2.0]], edges=[[0, 1], [1, 2], [0, 2]])
    >>> flat_directions(line).ravel().round(6).tolist()      # the middle point stays the middle
    [-0.408248, 0.816497, -0.408248]
    """
    flat = list(_flat_cliques(graph))
    if points is None or not flat:
        return _spanning(_widened(flat, graph.n_points))
    X = np.asarray(points, dtype=np.float64)
    # Lengths call a clique flat up to the root of their rounding. Where the points say that it is
    # flat to the last digits, they know its directions better.
    clear = [nodes for nodes, _ in flat if _dimension(X, nodes) is not None]
    bodies = rigid_bodies(X, graph, clear)
    clear = bodies + [nodes for nodes in clear if not any(nodes <= body for body in bodies)]
    known = _widened([(nodes, _normals(X[sorted(nodes)])) for nodes in clear], graph.n_points)
    known = without_points(known if len(clear) == 1 else _spanning(known), X)
    thin = [(nodes, c) for nodes, c in flat if _dimension(X, nodes) is None]
    if not thin:
        return known
    return _spanning(np.hstack([known, _widened(thin, graph.n_points)]))


def _spanning(directions: Array) -> Array:
    """(n, k) orthonormal directions that span some of length one; of fixed signs, which an SVD
    does not have."""
    if directions.shape[1] == 0:
        return directions
    continue_or_raise()
    u, singular, _ = scipy.linalg.svd(directions, full_matrices=False)
    # Below the cut, what separates nearly parallel directions is their rounding.
    basis = u[:, singular > _PARALLEL * singular[0]]
    return basis * np.where(basis[np.abs(basis).argmax(axis=0), range(basis.shape[1])] > 0, 1, -1)


def without_points(directions: Array, points: Array) -> Array:
    """Directions c rid of what rounding left of Σc and Xᵀc, to the last digit.

    Only of the dimensions that the points clearly span: a direction that is flat up to the rounding
    of lengths need not be orthogonal to a thin one, and without it would be another direction.
    """
    u, values, _ = scipy.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    spanned = u[:, values > _SPANNED * values.max(initial=0.0)]
    known = scipy.linalg.qr(np.column_stack([np.ones(len(u)), spanned]), mode="economic")[0]
    for _ in range(2):
        directions = directions - known @ (known.T @ directions)
    return directions


def _widened(pieces: Sequence[tuple[Nodes, Array]], n: int) -> Array:
    """(n, ·) the directions of all bodies as columns over all n points."""
    out = np.zeros((n, sum(c.shape[1] for _, c in pieces)))
    at = 0
    for nodes, c in pieces:
        out[sorted(nodes), at : at + c.shape[1]] = c
        at += c.shape[1]
    return out


def clear_edges(graph: NeighborhoodGraph, points: Array) -> Indices:
    """(m, 2) the edges of nodes whose surroundings are beyond doubt.

    A node is left out if it nearly coincides with a neighbour: what a rigid part says about so
    short a length is no better than the part's size is rounded. So is a node that is nearly, but
    not exactly, in a plane (a line, …) with its neighbours: rounding decides what is fixed there.

    >>> from sdpkit.graphs.build import neighborhood_graph
    >>> squares = [np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, z]]) for z in (0, 1e-7, 0.1)]
    >>> graphs = [neighborhood_graph(points, n_neighbors=3) for points in squares]
    >>> [len(clear_edges(graph, points)) for graph, points in zip(graphs, squares)]
    [6, 0, 6]
    """
    table = graph.adjacency(lengths=True)
    rows = [table.data[a:b] ** 2 for a, b in pairwise(table.indptr)]
    continue_or_raise()
    clear = np.array([d.size and d.min() >= _NEARLY_COINCIDENT * d.max() for d in rows], dtype=bool)
    degrees = np.diff(table.indptr)
    for degree in np.unique(degrees):
        alike = np.flatnonzero(degrees == degree)
        for part in row_blocks(alike.size, _SVD_WORK * (1 + degree) * points.shape[1]):
            continue_or_raise()
            nodes = alike[part]
            near = table.indices[table.indptr[nodes][:, None] + np.arange(degree)]
            around = points[np.column_stack([nodes, near])]  # (nodes, 1 + degree, D)
            values = np.linalg.svd(around - around.mean(axis=1, keepdims=True), compute_uv=False)
            share = values / np.maximum(values[:, :1], np.finfo(float).tiny)
            clear[nodes] &= ~((share > _FLAT) & (share < _THIN)).any(axis=1)
    return graph.edges[clear[graph.edges].all(axis=1)]


# -- cliques, from their lengths ------------------------------------------------------------


def _flat_cliques(graph: NeighborhoodGraph) -> Iterator[tuple[Nodes, Array]]:
    """(nodes, null directions) of the cliques whose points are affinely dependent."""
    table = graph.adjacency(lengths=True)
    for clique in cliques(graph):
        continue_or_raise()
        squared = table[clique][:, clique].toarray() ** 2
        apart = squared[~np.eye(len(clique), dtype=bool)]
        if apart.min() < _NEARLY_COINCIDENT * apart.max():
            continue  # what looks flat at the clique's scale is a length that must be kept
        null = _flat_in_clique(squared)
        if null.shape[1]:
            yield frozenset(clique.tolist()), null


def _flat_in_clique(squared: Array) -> Array:
    """(s, k) null vectors c ⊥ 1 of the centred Gram matrix of a clique: cᵀDc = 0 up to rounding."""
    s = squared.shape[0]
    helmert = scipy.linalg.helmert(s)  # orthonormal rows that span 1⊥
    _, vectors = scipy.linalg.eigh(-0.5 * helmert @ squared @ helmert.T)
    c = helmert.T @ vectors
    size = np.einsum("ik,ij,jk->k", np.abs(c), squared, np.abs(c))
    form = np.einsum("ik,ij,jk->k", c, squared, c)
    return np.asarray(c[:, np.abs(form) <= 64 * s * np.finfo(float).eps * size])


# -- bodies, from their points --------------------------------------------------------------


def rigid_bodies(
    points: Array, graph: NeighborhoodGraph, seeds: Sequence[Nodes | set[int]]
) -> list[Nodes]:
    """The bodies that grow from `seeds`, sets of nodes that are rigid already.

    A braced square, a fifth point tied to three of its corners, and a sixth to two and the fifth:

    >>> from sdpkit.graphs.build import neighborhood_graph
    >>> X = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [2, 2.0], [-1, -1]])
    >>> edges = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    >>> edges += [[4, 1], [4, 2], [4, 3], [5, 0], [5, 1], [5, 4]]
    >>> graph = neighborhood_graph(X, edges=edges)
    >>> [sorted(body) for body in rigid_bodies(X, graph, [{0, 1, 2, 3}])]
    [[0, 1, 2, 3, 4, 5]]
    """
    adjacent: list[set[int]] = [set() for _ in range(graph.n_points)]
    for i, j in clear_edges(graph, points).tolist():
        adjacent[i].add(j)
        adjacent[j].add(i)
    bodies = [frozenset(seed) for seed in seeds if _dimension(points, seed) is not None]
    while True:
        joined = _joined(points, _all_grown(points, adjacent, bodies))
        if set(joined) == set(bodies):
            return joined
        bodies = joined


def _all_grown(points: Array, adjacent: list[set[int]], bodies: Sequence[Nodes]) -> list[Nodes]:
    """The bodies, grown. One that lies in another of its dimension would grow to no more."""
    grown: list[Nodes] = []
    homes: dict[int, list[tuple[int | None, Nodes]]] = {}
    for body in bodies:
        continue_or_raise()
        dimension = _dimension(points, body)
        around = homes.get(min(body), [])
        if any(size == dimension and body <= other for size, other in around):
            continue
        grown.append(_grown(points, adjacent, body))
        for node in grown[-1]:
            homes.setdefault(node, []).append((dimension, grown[-1]))
    return grown


def _grown(points: Array, adjacent: list[set[int]], body: Nodes) -> Nodes:
    """The body with all points that join it one after another."""
    members = set(body)
    dimension = _dimension(points, members)
    waiting = set().union(*(adjacent[i] for i in members)) - members
    while waiting:
        continue_or_raise()
        node = waiting.pop()
        if dimension is not None and _joins(points, node, adjacent[node] & members, dimension):
            members.add(node)
            waiting |= adjacent[node] - members
    return frozenset(members)


def _joins(points: Array, node: int, contacts: set[int], dimension: int) -> bool:
    """Whether a point's lengths to its contacts fix it: they span the body's dimension, and it
    lies in their span."""
    enough = len(contacts) > dimension and _dimension(points, contacts) == dimension
    return enough and _dimension(points, contacts | {node}) == dimension


def _joined(points: Array, bodies: list[Nodes]) -> list[Nodes]:
    """The bodies, those that share enough made one; none is part of another."""
    out: dict[int, Nodes] = {}
    homes: dict[int, set[int]] = {}
    for key, body in enumerate(sorted(set(bodies), key=lambda b: (-len(b), sorted(b)))):
        continue_or_raise()
        while (other := _partner(points, body, out, homes)) is not None:
            body = body | out.pop(other)
            for node in body:
                homes.get(node, set()).discard(other)
        out[key] = body
        for node in body:
            homes.setdefault(node, set()).add(key)
    return list(out.values())


def _partner(
    points: Array, body: Nodes, others: dict[int, Nodes], homes: dict[int, set[int]]
) -> int | None:
    """The key of a body that shares with this one what spans one of the two."""
    dimension = _dimension(points, body)
    met = sorted(set().union(*(homes.get(node, set()) for node in body)))
    for key in met:
        shared = body & others[key]
        sizes = [d for d in (dimension, _dimension(points, others[key])) if d is not None]
        least = min(sizes, default=len(shared))
        if len(shared) > least and _dimension(points, shared) == least:
            return key
    return None


def _dimension(points: Array, nodes: Nodes | set[int]) -> int | None:
    """How many dimensions the points span; None where that is in doubt."""
    chosen = points[sorted(nodes)]
    values = np.linalg.svd(chosen - chosen.mean(axis=0), compute_uv=False)
    if len(chosen) < 2 or values[0] == 0:
        return 0
    spanned = int(np.sum(values > _SPANNED * values[0]))
    return spanned if np.sum(values > _FLAT * values[0]) == spanned else None


def _normals(points: Array) -> Array:
    """(s, k) orthonormal c with Σc = 0 and Xᵀc = 0, for the points X of a body."""
    centred = points - points.mean(axis=0)
    scale = float(np.abs(centred).max()) or 1.0
    u, values, _ = scipy.linalg.svd(np.column_stack([np.ones(len(points)), centred / scale]))
    return np.asarray(u[:, int(np.sum(values > _FLAT * values[0])) :])


__all__ = ["clear_edges", "flat_directions", "rigid_bodies", "without_points"]
