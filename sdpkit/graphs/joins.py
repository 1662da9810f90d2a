"""Joins between the components of a graph, and what hangs on a single edge."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sdpkit.errors import GraphError
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.graphs.repair import require_same_points, split_components
from sdpkit.inputs import integer, position
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.neighbors import row_blocks
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array, Indices

DEFAULT_JOINS = 10
"""Edges between two neighbouring components. A single one would be pulled taut."""

# Joins end in the points nearest to the other component: so many times their number on each side.
_CANDIDATES = 4


@one_blas_thread
def join_components(
    graph: NeighborhoodGraph, lengths: SquaredDistances | None, n_joins: int = DEFAULT_JOINS
) -> NeighborhoodGraph:
    """Join neighbouring components by several short edges each, until the graph is connected.

    Which components are neighbours is decided by the spanning tree of least total distance between
    components. Between two of them the shortest pairs become edges, each point in at most one, so
    that they fix how the two lie to each other. A component with fewer than `n_joins` points has as
    many joins as points.

    >>> lengths = SquaredDistances.from_points([[0.0], [1.0], [5.0], [7.0]])
    >>> join_components(lengths.graph([[0, 1], [2, 3]]), lengths, n_joins=2).edges
    array([[0, 1],
           [0, 3],
           [1, 2],
           [2, 3]])
    """
    if lengths is None:
        raise GraphError(
            "connect='auto' adds edges, and the graph alone does not tell their lengths: "
            "pass X, distances or kernel too"
        )
    require_same_points(graph, lengths)
    integer(n_joins, "n_joins")
    members = [nodes for nodes, _ in split_components(graph)]
    reach = np.array([_nearest_squares(lengths, nodes) for nodes in members])
    pairs = [
        _shortest_pairs(
            lengths,
            _nearest_few(reach[b], members[a], n_joins),
            _nearest_few(reach[a], members[b], n_joins),
            n_joins,
        )
        for a, b in _spanning_pairs(reach, members)
    ]
    joins = np.concatenate([np.empty((0, 2), dtype=np.int64), *pairs])
    return graph.with_edges(joins, lengths.between(joins[:, 0], joins[:, 1]))


def _nearest_squares(lengths: SquaredDistances, nodes: Indices) -> Array:
    """(n,) the squared distance of every point to the nearest of these."""
    nearest = np.full(lengths.n_points, np.inf)
    for part in row_blocks(nodes.size, lengths.n_points):
        continue_or_raise()
        np.minimum(nearest, lengths.to_all(nodes[part]).min(axis=0), out=nearest)
    return nearest


def _spanning_pairs(reach: Array, members: list[Indices]) -> list[tuple[int, int]]:
    """The pairs of components that a spanning tree of least total distance joins (Prim)."""
    outside = np.arange(1, len(members))
    close = np.sqrt([[row[nodes].min() for nodes in members] for row in reach])
    nearest, pairs = np.zeros(len(members), dtype=np.int64), []
    while outside.size:
        new = int(outside[close[nearest[outside], outside].argmin()])
        pairs.append((int(nearest[new]), new))
        outside = outside[outside != new]
        closer = close[new, outside] < close[nearest[outside], outside]
        nearest[outside[closer]] = new
    return pairs


def _nearest_few(reach: Array, nodes: Indices, n_joins: int) -> Indices:
    """Those of the nodes that are nearest to the other component."""
    order = reach[nodes].argsort(kind="stable")
    return nodes[order[: _CANDIDATES * n_joins]]


def _shortest_pairs(
    lengths: SquaredDistances, first: Indices, second: Indices, n_joins: int
) -> Indices:
    """(p, 2) the shortest pairs between two sets of nodes, each node in at most one."""
    squared = lengths.between(first[:, None], second).copy()
    pairs = []
    for _ in range(min(n_joins, *squared.shape)):
        i, j = position(squared.argmin(), squared.shape)
        pairs.append((first[i], second[j]))
        squared[i], squared[:, j] = np.inf, np.inf
    return np.array(pairs, dtype=np.int64)


def hanging_parts(
    graph: NeighborhoodGraph, least: int = 2
) -> list[tuple[tuple[int, int], Indices]]:
    """Edges whose loss would part the graph, each with the nodes of the smaller side.

    Only sides of at least `least` nodes count, smallest first. Unfolding pulls such an edge taut:
    how the side lies to the rest is not known.

    >>> squares = [[0, 1], [1, 2], [2, 3], [0, 3], [4, 5], [5, 6], [6, 7], [4, 7], [0, 4]]
    >>> hanging_parts(NeighborhoodGraph.from_pairs(8, squares, [1.0] * 9), least=3)
    [((0, 4), array([4, 5, 6, 7]))]
    """
    found = []
    for root in np.unique(graph.component_labels, return_index=True)[1]:
        order, parent, cuts = _cut_edges(graph, int(root))
        place = {node: k for k, node in enumerate(order)}
        size = np.ones(len(order), dtype=np.int64)
        for node in reversed(order[1:]):
            size[place[parent[node]]] += size[place[node]]
        for node in cuts:
            start = place[node]
            below = np.array(order[start : start + size[start]])
            above = np.setdiff1d(order, below)
            side = np.sort(min(below, above, key=len))
            if side.size >= least:
                i, j = sorted((parent[node], node))
                found.append(((int(i), int(j)), side))
    return sorted(found, key=lambda cut: (cut[1].size, cut[0]))


def _cut_edges(graph: NeighborhoodGraph, root: int) -> tuple[list[int], dict[int, int], list[int]]:
    """(nodes in depth-first order, their parents, nodes whose edge to the parent is a bridge):
    Tarjan's algorithm, without recursion."""
    table = graph.adjacency()
    around = [table.indices[a:b].tolist() for a, b in pairwise(table.indptr.tolist())]
    parent, order, low = {root: -1}, [root], {root: 0}
    number, stack = {root: 0}, [(root, iter(around[root]))]
    cuts = []
    while stack:
        node, neighbors = stack[-1]
        following = next(neighbors, None)
        if following is None:
            stack.pop()
            above = parent[node]
            if above >= 0:
                low[above] = min(low[above], low[node])
                if low[node] > number[above]:
                    cuts.append(node)
        elif following not in number:
            parent[following], number[following] = node, len(order)
            low[following] = number[following]
            order.append(following)
            stack.append((following, iter(around[following])))
        elif following != parent[node]:
            low[node] = min(low[node], number[following])
    return order, parent, cuts


__all__ = ["DEFAULT_JOINS", "hanging_parts", "join_components"]
