"""Repair of a neighbourhood graph: components, short circuits and coincident points."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from sdpkit.errors import GraphError, InputError
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.graphs.edges import component_labels, merge_parallel, pair
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.inputs import integer, positive
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.neighbors import row_blocks
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array, Bools, Indices

RandomState: TypeAlias = "int | np.random.Generator | None"


def split_components(graph: NeighborhoodGraph) -> list[tuple[Indices, NeighborhoodGraph]]:
    """Every component as (nodes, its graph), in the order of their first nodes.

    Parameters
    ----------
    graph : NeighborhoodGraph
        The graph to split.

    Returns
    -------
    list of tuple of array of int and NeighborhoodGraph
        One pair (nodes, graph) per component.

    Examples
    --------
    >>> graph = NeighborhoodGraph(4, [[0, 2], [1, 3]], [1.0, 4.0])
    >>> [(nodes.tolist(), part.squared_lengths) for nodes, part in split_components(graph)]
    [([0, 2], array([1.])), ([1, 3], array([4.]))]
    """
    labels = graph.component_labels
    by_label = labels.argsort(kind="stable")
    groups = np.split(by_label, np.bincount(labels).cumsum()[:-1])
    return [(nodes, graph.subgraph(nodes)) for nodes in groups]


def bridge_components(
    graph: NeighborhoodGraph,
    lengths: SquaredDistances | None,
    random_state: RandomState = 0,
) -> NeighborhoodGraph:
    """Link components until the graph is connected (thesis, 3.1.12).

    Each round takes the smallest component C₁ and a random x in it. The closest point x′ to x
    outside C₁ is linked to the point x″ of C₁ closest to x′. That is one edge per component
    that has to go.

    Parameters
    ----------
    graph : NeighborhoodGraph
        The graph to connect.
    lengths : SquaredDistances or None
        The squared distances that the new edges get; None is an error.
    random_state : int or Generator or None, default 0
        The seed or generator of the random numbers.

    Returns
    -------
    NeighborhoodGraph
        The connected graph.

    Examples
    --------
    >>> lengths = SquaredDistances.from_points([[0.0], [1.0], [5.0], [7.0]])
    >>> bridge_components(lengths.graph([[0, 1], [2, 3]]), lengths).edges
    array([[0, 1],
           [1, 2],
           [2, 3]])
    """
    if lengths is None:
        raise GraphError(
            "connect='bridge' adds edges, and the graph alone does not tell their lengths: "
            "pass X, distances or kernel too"
        )
    require_same_points(graph, lengths)
    rng = np.random.default_rng(random_state)
    labels = graph.component_labels.copy()
    links: list[tuple[int, int]] = []
    while labels.any():
        continue_or_raise()
        sizes = np.bincount(labels)
        inside = labels == np.where(sizes, sizes, graph.n_points + 1).argmin()
        x = rng.choice(np.flatnonzero(inside))
        link = _closest(lengths, x, ~inside)
        links.append((link, _closest(lengths, link, inside)))
        # The smaller label survives, so the labels are all zero once there is one component.
        merged = inside | (labels == labels[link])
        labels[merged] = labels[merged].min()
    pairs = np.array(links, dtype=np.int64).reshape(-1, 2)
    return graph.with_edges(pairs, lengths.between(pairs[:, 0], pairs[:, 1]))


def _closest(lengths: SquaredDistances, i: int, among: Bools) -> int:
    return int(np.where(among, lengths.to_all(i), np.inf).argmin())


@one_blas_thread
def traverse_probability(
    graph: NeighborhoodGraph, steps: int = 7, sigma: float | None = None
) -> Array:
    """How easily a random walk gets from one end of each edge to the other, q_ij + q_ji.

    The walk steps from i to a neighbour j with probability p_ij ∝ exp(−‖x_i − x_j‖/σ),
    normalised over the neighbours of i; q_ij is the probability that it visits j within
    `steps` steps (thesis, 3.1.12, with 7 steps).

    Parameters
    ----------
    graph : NeighborhoodGraph
        The graph to walk on.
    steps : int, default 7
        The length of the walk.
    sigma : float or None, default None
        σ; None takes the mean edge length. The thesis has σ = 1 for data of that scale.

    Returns
    -------
    array of shape (m,)
        One value per edge, at most 2.

    Examples
    --------
    >>> triangle_and_tail = NeighborhoodGraph(4, [[0, 1], [0, 2], [1, 2], [2, 3]], [1.0] * 4)
    >>> traverse_probability(triangle_and_tail, steps=1)
    array([1.        , 0.83333333, 0.83333333, 1.33333333])
    """
    n_steps = integer(steps, "steps")
    walk = _walk(graph, sigma)
    n, (i, j) = graph.n_points, graph.edges.T
    forth, back = np.empty(graph.n_edges), np.empty(graph.n_edges)
    for part in row_blocks(n, n):
        continue_or_raise()
        targets = np.arange(n)[part]
        visited = _visit_probability(walk, targets, n_steps)
        ends_here = (j >= part.start) & (j < part.stop)
        forth[ends_here] = visited[i[ends_here], j[ends_here] - part.start]
        starts_here = (i >= part.start) & (i < part.stop)
        back[starts_here] = visited[j[starts_here], i[starts_here] - part.start]
    return forth + back


def _walk(graph: NeighborhoodGraph, sigma: float | None) -> sparse.csr_array:
    """Transition probabilities P, (n, n); rows of isolated points are zero."""
    lengths = graph.adjacency(lengths=True)
    if sigma is None:
        scale = float(lengths.data.mean()) if lengths.nnz else 1.0
        scale = scale or 1.0  # all edges of length zero: every σ gives the same walk
    else:
        scale = positive(sigma, "sigma")
    row = np.repeat(np.arange(graph.n_points), np.diff(lengths.indptr))
    # Lengths less the shortest of the row give the same walk, and no row underflows to zero.
    shortest = np.full(graph.n_points, np.inf)
    np.minimum.at(shortest, row, lengths.data)
    affinity = np.exp((shortest[row] - lengths.data) / scale)
    total = np.bincount(row, affinity, graph.n_points)
    return sparse.csr_array((affinity / total[row], lengths.indices, lengths.indptr), lengths.shape)


def _visit_probability(walk: sparse.csr_array, targets: Indices, steps: int) -> Array:
    """Probability (n, r) that the walk from each node visits each target within some steps."""
    columns = np.arange(len(targets))
    visited = np.zeros((walk.shape[0], len(targets)))
    visited[targets, columns] = 1.0
    for _ in range(steps):
        visited = np.asarray(walk @ visited)
        visited[targets, columns] = 1.0
    return visited


@one_blas_thread
def bad_edges(
    graph: NeighborhoodGraph,
    steps: int = 7,
    sigma: float | None = None,
    threshold: float = 1.5,
) -> Bools:
    """Mark edges that look like short circuits between layers of the manifold.

    An edge is bad if its log traverse probability lies more than `threshold` interquartile
    ranges below the first quartile of all edges. At 1.5 (Tukey's fence) about one edge in a
    hundred is marked in a graph without short circuits; at 3 only extreme edges are. Remove them
    by `graph.without_edges(mask)`, then look at the components again.

    Parameters
    ----------
    graph : NeighborhoodGraph
        The graph to look at.
    steps : int, default 7
        The length of the random walk.
    sigma : float or None, default None
        σ of the walk; None takes the mean edge length.
    threshold : float, default 1.5
        Interquartile ranges below the first quartile.

    Returns
    -------
    array of bool, shape (m,)
        True where an edge is bad.

    Examples
    --------
    >>> ring = NeighborhoodGraph.from_pairs(5, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]], [1.0] * 5)
    >>> bad_edges(ring).any()
    np.False_
    """
    limit = positive(threshold, "threshold")
    if not graph.n_edges:
        return np.zeros(0, dtype=bool)
    # A walk can be too short to be likely at all, yet an edge is always one step: q > 0, unless
    # its length is beyond some 700 σ. That is as bad as can be, and log needs a number.
    log_q = np.log(np.maximum(traverse_probability(graph, steps, sigma), np.finfo(float).tiny))
    first, third = np.quantile(log_q, [0.25, 0.75])
    spread = max(float(third - first), 1e-6)  # rounding is no spread: regular graphs have none
    return np.asarray(log_q < first - limit * spread)


class MergedGraph(NamedTuple):
    """A graph without edges of length zero, and the node of each original point.

    Attributes
    ----------
    graph : NeighborhoodGraph
        The graph after merging.
    group : array of int, shape (n,)
        The node of each original point.
    multiplicities : array of int, shape (n_nodes,)
        How many points each node stands for.

    Examples
    --------
    >>> graph = NeighborhoodGraph(3, [[0, 1], [1, 2]], [0.0, 1.0])
    >>> merge_coincident(graph).multiplicities
    array([2, 1])
    """

    graph: NeighborhoodGraph
    group: Indices
    """Merged node of every point, (n,)."""
    multiplicities: Indices
    """Number of points in every merged node."""


def merge_coincident(
    graph: NeighborhoodGraph, parallel: Literal["error", "min"] = "error"
) -> MergedGraph:
    """Contract the edges of length zero: points joined by a path of them become one node.

    Nodes are numbered by their first points.

    Parameters
    ----------
    graph : NeighborhoodGraph
        The graph to contract.
    parallel : {"error", "min"}, default "error"
        What to do with edges that become parallel. They are one edge if their lengths agree (to
        1e-9). If they do not, no points have these distances: "error" raises, "min" keeps the
        shortest, for programs where lengths are upper bounds.

    Returns
    -------
    MergedGraph
        The contracted graph and the node of each point.

    Raises
    ------
    GraphError
        If parallel edges disagree and `parallel` is "error".

    Examples
    --------
    >>> graph = NeighborhoodGraph(3, [[0, 1], [0, 2], [1, 2]], [0.0, 4.0, 4.0])
    >>> merged = merge_coincident(graph)
    >>> merged.graph.edges, merged.group, merged.multiplicities
    (array([[0, 1]]), array([0, 0, 1]), array([2, 1]))
    """
    zero = graph.squared_lengths == 0
    group = component_labels(graph.n_points, graph.edges[zero])
    ends = np.sort(group[graph.edges], axis=1)
    inside = ends[:, 0] == ends[:, 1]
    if parallel == "error" and (inside & ~zero).any():
        worst = int(np.flatnonzero(inside & ~zero)[0])
        raise GraphError(
            f"the points of edge {pair(graph.edges[worst])} coincide by edges of length zero, "
            f"but the edge has length {graph.squared_lengths[worst] ** 0.5:g}: correct the "
            "lengths, or pass parallel='min' if they are upper bounds"
        )
    edges, squared = merge_parallel(
        ends[~inside], graph.squared_lengths[~inside], parallel, names=graph.edges[~inside]
    )
    multiplicities = np.bincount(group)
    return MergedGraph(
        NeighborhoodGraph(len(multiplicities), edges, squared), group, multiplicities
    )


def cliques(graph: NeighborhoodGraph) -> list[Indices]:
    """Maximal cliques of at least 3 nodes, at least one around every edge that has any.

    Each grows greedily from an edge: the candidate with the most neighbours among the other
    candidates joins, ties to the smaller index. A closed neighbourhood that is a clique is
    always found, since it is the only maximal clique around its node. Not all maximal cliques
    are: there can be exponentially many.

    Parameters
    ----------
    graph : NeighborhoodGraph
        The graph to search.

    Returns
    -------
    list of array of int
        The nodes of each clique, sorted.

    Examples
    --------
    >>> cliques(NeighborhoodGraph(4, [[0, 1], [0, 2], [1, 2], [2, 3]], [1.0] * 4))
    [array([0, 1, 2])]
    """
    adjacent: list[set[int]] = [set() for _ in range(graph.n_points)]
    for i, j in graph.edges.tolist():
        adjacent[i].add(j)
        adjacent[j].add(i)
    found: set[tuple[int, ...]] = set()
    around: list[list[frozenset[int]]] = [[] for _ in range(graph.n_points)]  # found, by node
    for i, j in graph.edges.tolist():
        continue_or_raise()
        both = adjacent[i] & adjacent[j]
        if any(j in clique and both <= clique for clique in around[i]):
            continue  # all candidates are in that clique, and would grow to it again
        clique = _grow_clique(adjacent, i, j)
        if clique not in found:
            found.add(clique)
            members = frozenset(clique)
            for node in clique:
                around[node].append(members)
    return [np.array(clique) for clique in sorted(found) if len(clique) >= 3]


def _grow_clique(adjacent: list[set[int]], i: int, j: int) -> tuple[int, ...]:
    clique = [i, j]
    candidates = adjacent[i] & adjacent[j]
    while candidates:
        continue_or_raise()
        best, best_left = -1, candidates
        for node in sorted(candidates):
            left = candidates & adjacent[node]
            if best < 0 or len(left) > len(best_left):
                best, best_left = node, left
            if len(left) == len(candidates) - 1:
                break  # adjacent to every other candidate: none can do better
        clique.append(best)
        candidates = best_left
    return tuple(sorted(clique))


def require_same_points(graph: NeighborhoodGraph, lengths: SquaredDistances) -> int:
    """The number of points, if graph and lengths agree on it."""
    if graph.n_points != lengths.n_points:
        raise InputError(
            f"the graph has {graph.n_points} points and the lengths {lengths.n_points}: "
            "pass those the graph was made from"
        )
    return graph.n_points
