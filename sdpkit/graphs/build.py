"""From data to a neighbourhood graph: who is a neighbour, and how long each edge is.

Data enter as points, distances or a kernel, a rule picks the pairs that are neighbours
(`neighborhood_graph`), and the result is a `NeighborhoodGraph`.

>>> from sdpkit.datasets import swiss_roll
>>> graph = neighborhood_graph(swiss_roll(100), n_neighbors=4)
>>> graph.n_points, graph.n_edges, graph.is_connected
(100, 247, True)
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sdpkit.errors import GraphError, InputError
from sdpkit.graphs.distances import DEFAULT_NEIGHBORS, SquaredDistances
from sdpkit.graphs.edges import directed_pairs
from sdpkit.graphs.graph import NeighborhoodGraph, require_connected
from sdpkit.graphs.joins import join_components
from sdpkit.graphs.repair import RandomState, bridge_components, require_same_points
from sdpkit.inputs import (
    MatrixLike,
    finite_matrix,
    one_of,
    real_array,
    require_finite,
    require_moderate,
)
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Indices


@one_blas_thread
def neighborhood_graph(
    X: MatrixLike | None = None,
    *,
    distances: MatrixLike | None = None,
    kernel: MatrixLike | None = None,
    graph: MatrixLike | NeighborhoodGraph | None = None,
    edges: ArrayLike | None = None,
    n_neighbors: int | None = None,
    radius: float | None = None,
    angles: bool = False,
    connect: Literal["error", "auto", "bridge", "components"] | None = None,
    random_state: RandomState = 0,
) -> NeighborhoodGraph:
    """The neighbourhood graph of points, of distances or of a kernel.

    One rule picks the edges: `n_neighbors`, `radius`, `edges` or `graph`. Without any of them,
    n_neighbors is 4. Stored zeros of a sparse matrix are edges of length zero, as scikit-learn
    writes them between duplicate points.

    Parameters
    ----------
    X : array-like of shape (n, d) or sparse matrix or None, default None
        The points.
    distances : array-like of shape (n, n) or sparse matrix or None, default None
        Lengths (not squared) instead of points; sparse ones are read as a graph of lengths.
    kernel : array-like of shape (n, n) or sparse matrix or None, default None
        A Gram matrix instead of points.
    graph : array-like or sparse matrix or NeighborhoodGraph or None, default None
        The pattern of this adjacency matrix, dense (nonzeros) or sparse (stored entries); one
        direction is enough, and the diagonal does not count. Without data its entries are the
        lengths.
    edges : array-like of shape (m, 2) or None, default None
        These pairs of points.
    n_neighbors : int or None, default None
        Points i and j are joined if either is among the k nearest others of the other.
    radius : float or None, default None
        Points at most this far apart are joined.
    angles : bool, default False
        Join the neighbours of each point too (`angle_closure`).
    connect : {"error", "auto", "bridge", "components"} or None, default None
        What to do with several components: leave them (None or "components", for
        `split_components`), raise ("error"), join neighbouring ones by several edges each ("auto",
        by `join_components`) or by one edge ("bridge", by `bridge_components`).
    random_state : int or Generator or None, default 0
        The seed of `bridge_components`.

    Returns
    -------
    NeighborhoodGraph
        The graph with its squared lengths.

    Raises
    ------
    GraphError
        If there are several components and `connect` is "error".

    Examples
    --------
    >>> neighborhood_graph([[0.0], [1.0], [3.0]], n_neighbors=1).edges
    array([[0, 1],
           [1, 2]])
    >>> neighborhood_graph(graph=[[0, 2, 0], [2, 0, 3], [0, 3, 0]]).squared_lengths
    array([4., 9.])
    """
    one_of(connect, "connect", (None, "error", "auto", "bridge", "components"))
    if distances is not None and sparse.issparse(distances):
        if graph is not None:
            raise InputError("sparse distances are a graph already: pass them or graph, not both")
        graph, distances = distances, None
    rules = {"graph": graph, "edges": edges, "n_neighbors": n_neighbors, "radius": radius}
    given = [name for name, value in rules.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"got {' and '.join(given)}: pass one rule for who is a neighbour")

    lengths, neighbors = None, None
    if graph is not None and X is None and distances is None and kernel is None:
        result = _graph_of_lengths(graph)
    else:
        lengths = SquaredDistances.of(X, distances=distances, kernel=kernel)
        if not given or n_neighbors is not None:
            neighbors = lengths.neighbors(DEFAULT_NEIGHBORS if n_neighbors is None else n_neighbors)
        result = lengths.graph(_neighbor_pairs(lengths, graph, edges, radius, neighbors))
    if angles:
        result = angle_closure(result, lengths, neighbors)
    return _connected(result, lengths, connect, random_state)


def _neighbor_pairs(
    lengths: SquaredDistances,
    graph: MatrixLike | NeighborhoodGraph | None,
    edges: ArrayLike | None,
    radius: float | None,
    neighbors: Indices | None,
) -> ArrayLike:
    """The pairs (p, 2) of the one rule that is given."""
    if neighbors is not None:
        return directed_pairs(neighbors)
    if radius is not None:
        return lengths.within(radius)
    if graph is not None:
        return _pattern(graph, lengths.n_points)
    assert edges is not None
    return edges


def _connected(
    graph: NeighborhoodGraph,
    lengths: SquaredDistances | None,
    connect: str | None,
    random_state: RandomState,
) -> NeighborhoodGraph:
    if connect == "error":
        require_connected(graph)
    if connect == "auto" and not graph.is_connected:
        return join_components(graph, lengths)
    if connect == "bridge" and not graph.is_connected:
        return bridge_components(graph, lengths, random_state)
    return graph


def _graph_of_lengths(graph: MatrixLike | NeighborhoodGraph) -> NeighborhoodGraph:
    if isinstance(graph, NeighborhoodGraph):
        return graph
    entries = _adjacency_entries(graph)
    if (entries.data < 0).any():
        worst = int(entries.data.argmin())
        i, j = entries.row[worst], entries.col[worst]
        raise GraphError(
            f"graph[{i}, {j}] = {entries.data[worst]:g} is negative: without X, distances or "
            "kernel the entries are edge lengths"
        )
    pairs = np.column_stack([entries.row, entries.col])
    require_moderate(entries.data, "graph")
    return NeighborhoodGraph.from_pairs(entries.shape[0], pairs, entries.data**2)


def _pattern(graph: MatrixLike | NeighborhoodGraph, n_points: int) -> Indices:
    """The pairs that an adjacency matrix joins, (p, 2)."""
    if isinstance(graph, NeighborhoodGraph):
        n, pairs = graph.n_points, graph.edges
    else:
        entries = _adjacency_entries(graph)
        n, pairs = entries.shape[0], np.column_stack([entries.row, entries.col])
    if n != n_points:
        raise InputError(f"graph has {n} nodes, but the data has {n_points} points")
    return pairs.astype(np.int64)


def _adjacency_entries(graph: MatrixLike) -> sparse.coo_array:
    """The off-diagonal entries of a square matrix. Stored zeros stay: they are edges."""
    if sparse.issparse(graph):
        matrix = sparse.csr_array(graph, copy=True)
        matrix.data = real_array(matrix.data, "graph")
        require_finite(matrix.data, "graph.data")
        matrix.sum_duplicates()
        if graph.format == "bsr":
            matrix.eliminate_zeros()  # a block format stores zeros that nobody put there
    else:
        matrix = sparse.csr_array(finite_matrix(graph, "graph"))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise InputError(f"graph has shape {matrix.shape}: an adjacency matrix is square, (n, n)")
    entries = matrix.tocoo()
    off = entries.row != entries.col
    return sparse.coo_array(
        (entries.data[off], (entries.row[off], entries.col[off])), shape=matrix.shape
    )


@one_blas_thread
def angle_closure(
    graph: NeighborhoodGraph,
    lengths: SquaredDistances | None,
    neighbors: ArrayLike | None = None,
) -> NeighborhoodGraph:
    """Join the neighbours of every point, so that fixed lengths fix the angles too (3.1.4).

    Every point and its neighbours become a clique: of k + 1 points for lists of k neighbours.

    Parameters
    ----------
    graph : NeighborhoodGraph
        The graph whose neighbours are joined.
    lengths : SquaredDistances or None
        The squared distances that the new edges get; None is an error.
    neighbors : array-like of shape (n, k) or None, default None
        Lists of neighbours; None takes those adjacent in the graph.

    Returns
    -------
    NeighborhoodGraph
        The graph with the new edges.

    Examples
    --------
    >>> lengths = SquaredDistances.from_points([[0.0], [1.0], [2.0]])
    >>> path = lengths.graph([[0, 1], [1, 2]])
    >>> angle_closure(path, lengths).edges
    array([[0, 1],
           [0, 2],
           [1, 2]])
    """
    if lengths is None:
        raise GraphError(
            "angles=True adds edges between neighbours, and the graph alone does not tell "
            "their lengths: pass X, distances or kernel too"
        )
    n = require_same_points(graph, lengths)
    if neighbors is None:
        relation = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    else:
        relation = directed_pairs(np.asarray(neighbors, np.int64))
    whole = np.concatenate([relation, np.repeat(np.arange(n), 2).reshape(n, 2)])
    member = sparse.csr_array((np.ones(len(whole)), (whole[:, 0], whole[:, 1])), shape=(n, n))
    together = sparse.triu(member.T @ member, k=1).tocoo()
    # The edges of the graph itself keep their lengths, whatever the oracle says.
    pairs = np.column_stack([together.row, together.col]).astype(np.int64)
    new = ~np.isin(pairs @ [n, 1], graph.edges @ [n, 1])
    return graph.with_edges(pairs[new], lengths.between(pairs[new, 0], pairs[new, 1]))


@one_blas_thread
def spanning_tree(
    X: MatrixLike | None = None,
    *,
    distances: MatrixLike | None = None,
    kernel: MatrixLike | None = None,
) -> NeighborhoodGraph:
    """The spanning tree of least total length (equally, of greatest total affinity).

    Prim's algorithm on the complete graph, O(n²) time and O(n) memory. Ties go to the smaller
    index, and duplicates are joined by edges of length zero.

    Parameters
    ----------
    X : array-like of shape (n, d) or sparse matrix or None, default None
        The points.
    distances : array-like of shape (n, n) or sparse matrix or None, default None
        Lengths instead of points.
    kernel : array-like of shape (n, n) or sparse matrix or None, default None
        A Gram matrix instead of points.

    Returns
    -------
    NeighborhoodGraph
        The tree, n − 1 edges.

    Examples
    --------
    >>> spanning_tree([[0.0], [5.0], [1.0], [1.0]]).edges
    array([[0, 2],
           [1, 2],
           [2, 3]])
    """
    lengths = SquaredDistances.of(X, distances=distances, kernel=kernel)
    n = lengths.n_points
    nearest = np.zeros(n, dtype=np.int64)
    reach = lengths.to_all(0).copy()
    outside = np.ones(n, dtype=bool)
    outside[0] = False
    pairs = np.empty((n - 1, 2), dtype=np.int64)
    for step in range(n - 1):
        continue_or_raise()
        new = int(np.where(outside, reach, np.inf).argmin())
        pairs[step] = nearest[new], new
        outside[new] = False
        row = lengths.to_all(new)
        closer = row < reach
        nearest[closer], reach[closer] = new, row[closer]
    return lengths.graph(pairs)
