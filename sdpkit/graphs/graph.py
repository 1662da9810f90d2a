"""The neighbourhood graph: n points and m edges, whose lengths an embedding has to respect."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sdpkit.errors import GraphError, InputError
from sdpkit.graphs.edges import (
    checked_lengths,
    component_labels,
    merge_parallel,
    node_set,
    ordered_pairs,
)
from sdpkit.graphs.spectrum import smooth_basis, smoothest
from sdpkit.inputs import integer, read_only, set_fields
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.neighbors import row_blocks
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array, Bools, Indices

_DENSE_SPECTRUM_POINTS = 1500  # above this, λ₂ comes from a sparse factorisation
_ALL_PATHS_POINTS = 2000  # above this, shortest paths start from a few roots only
_PATH_WORK = 2  # shortest paths from so many roots at a time: a tenth of a second


@dataclass(frozen=True, eq=False, repr=False)
class NeighborhoodGraph:
    """Points and undirected edges with squared lengths, each edge once.

    `from_pairs` takes pairs in any order. An edge of length zero is an edge.

    Attributes
    ----------
    n_points : int
        n.
    edges : array of int, shape (m, 2)
        Pairs i < j, sorted lexicographically and unique; read-only.
    squared_lengths : array of shape (m,)
        Squared lengths of the edges; read-only.

    Examples
    --------
    >>> graph = NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 4.0])
    >>> graph.n_edges, graph.is_connected
    (2, True)
    """

    n_points: int
    edges: Indices
    squared_lengths: Array

    def __post_init__(self) -> None:
        set_fields(self, n_points=integer(self.n_points, "n_points"))
        edges = ordered_pairs(self.edges, self.n_points)
        squared = checked_lengths(self.squared_lengths, edges)
        given = np.asarray(self.edges).reshape(-1, 2)
        in_order = (np.diff(edges[:, 0] * self.n_points + edges[:, 1]) > 0).all()
        if not in_order or not np.array_equal(edges, given):
            raise GraphError(
                "edges must have i < j and be sorted and unique: use NeighborhoodGraph.from_pairs"
            )
        set_fields(self, edges=read_only(edges), squared_lengths=read_only(squared))

    @classmethod
    def from_pairs(
        cls,
        n_points: int,
        pairs: ArrayLike,
        squared_lengths: ArrayLike,
        *,
        parallel: Literal["error", "min"] = "error",
    ) -> NeighborhoodGraph:
        """A graph from pairs (p, 2) in any order and orientation, with squared lengths (p,).

        Parallel edges of one length (to 1e-9) become one edge. Of different lengths, they are
        an error, or with parallel='min' the shortest stays.

        >>> NeighborhoodGraph.from_pairs(3, [[2, 1], [1, 0], [0, 1]], [4.0, 1.0, 1.0]).edges
        array([[0, 1],
               [1, 2]])
        """
        edges = ordered_pairs(pairs, n_points)
        squared = checked_lengths(squared_lengths, edges)
        return cls(n_points, *merge_parallel(edges, squared, parallel, names=edges))

    def __repr__(self) -> str:
        return f"<NeighborhoodGraph: {self.n_points} points, {self.n_edges} edges>"

    @property
    def n_edges(self) -> int:
        """Number of edges m.

        >>> NeighborhoodGraph(3, [[0, 1]], [1.0]).n_edges
        1
        """
        return len(self.edges)

    @cached_property
    def component_labels(self) -> Indices:
        """Which connected component each point is in, (n,); components follow their first point.

        >>> NeighborhoodGraph(4, [[0, 2], [1, 3]], [1.0, 1.0]).component_labels
        array([0, 1, 0, 1])
        """
        return read_only(component_labels(self.n_points, self.edges))

    @property
    def component_sizes(self) -> Indices:
        """Sizes of the connected components, largest first.

        >>> NeighborhoodGraph(4, [[1, 2], [1, 3]], [1.0, 1.0]).component_sizes
        array([3, 1])
        """
        return np.sort(np.bincount(self.component_labels))[::-1]

    @property
    def is_connected(self) -> bool:
        """Whether a path joins every two points.

        >>> NeighborhoodGraph(3, [[0, 1]], [1.0]).is_connected
        False
        """
        return not self.component_labels.any()

    def incidence(self) -> sparse.csr_array:
        """B, (m, n), whose row of the edge (i, j) is b = e_i − e_j.

        >>> NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 1.0]).incidence().toarray()
        array([[ 1., -1.,  0.],
               [ 0.,  1., -1.]])
        """
        signs = np.tile([1.0, -1.0], self.n_edges)
        starts = np.arange(0, 2 * self.n_edges + 1, 2)
        shape = (self.n_edges, self.n_points)
        return sparse.csr_array((signs, self.edges.ravel(), starts), shape=shape)

    def laplacian(self, weights: ArrayLike | None = None) -> sparse.csr_array:
        """L(w) = Σ_e w_e b_e b_eᵀ, (n, n), for weights (m,) of any sign; None is all ones.

        >>> NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 1.0]).laplacian([2, 3]).toarray()
        array([[ 2., -2.,  0.],
               [-2.,  5., -3.],
               [ 0., -3.,  3.]])
        """
        w = np.ones(self.n_edges) if weights is None else np.asarray(weights, np.float64)
        if w.shape != (self.n_edges,):
            raise InputError(f"weights have shape {w.shape}: pass one per edge, ({self.n_edges},)")
        i, j = self.edges.T
        diagonal = np.bincount(i, w, self.n_points) + np.bincount(j, w, self.n_points)
        nodes = np.arange(self.n_points)
        rows, columns = np.concatenate([nodes, i, j]), np.concatenate([nodes, j, i])
        values = np.concatenate([diagonal, -w, -w])
        return sparse.csr_array((values, (rows, columns)), shape=(self.n_points, self.n_points))

    def adjacency(self, lengths: bool = False) -> sparse.csr_array:
        """Symmetric adjacency, (n, n), of ones, or of edge lengths √d.

        An edge of length zero is a stored zero: `scipy.sparse.csgraph` reads it as an edge.

        >>> NeighborhoodGraph(2, [[0, 1]], [9.0]).adjacency(lengths=True).toarray()
        array([[0., 3.],
               [3., 0.]])
        """
        half = np.sqrt(self.squared_lengths) if lengths else np.ones(self.n_edges)
        rows, columns = np.concatenate([self.edges, self.edges[:, ::-1]]).T
        shape = (self.n_points, self.n_points)
        return sparse.csr_array((np.tile(half, 2), (rows, columns)), shape=shape)

    def subgraph(self, nodes: ArrayLike) -> NeighborhoodGraph:
        """The edges among these nodes, (r,); node nodes[a] becomes point a.

        >>> NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 4.0]).subgraph([2, 1]).squared_lengths
        array([4.])
        """
        chosen = node_set(nodes, self.n_points)
        label = np.full(self.n_points, -1)
        label[chosen] = np.arange(len(chosen))
        inside = (label[self.edges] >= 0).all(axis=1)
        pairs = label[self.edges[inside]]
        return NeighborhoodGraph.from_pairs(len(chosen), pairs, self.squared_lengths[inside])

    def with_edges(self, edges: ArrayLike, squared_lengths: ArrayLike) -> NeighborhoodGraph:
        """This graph and more edges, (p, 2), with squared lengths (p,).

        >>> NeighborhoodGraph(3, [[0, 1]], [1.0]).with_edges([[2, 1]], [4.0]).edges
        array([[0, 1],
               [1, 2]])
        """
        more = ordered_pairs(edges, self.n_points)
        squared = checked_lengths(squared_lengths, more)
        return NeighborhoodGraph.from_pairs(
            self.n_points,
            np.concatenate([self.edges, more]),
            np.concatenate([self.squared_lengths, squared]),
        )

    def without_edges(self, mask_or_edges: ArrayLike) -> NeighborhoodGraph:
        """This graph less the edges of a mask, (m,) bool, or less these pairs, (p, 2).

        >>> graph = NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 4.0])
        >>> graph.without_edges([[2, 1]]).edges
        array([[0, 1]])
        """
        cut = np.asarray(mask_or_edges)
        if cut.dtype != np.bool_:
            cut = self._mask_of(cut)
        if cut.shape != (self.n_edges,):
            raise InputError(
                f"the mask has shape {cut.shape}: pass one bool per edge, ({self.n_edges},)"
            )
        return NeighborhoodGraph(self.n_points, self.edges[~cut], self.squared_lengths[~cut])

    def _mask_of(self, pairs: ArrayLike) -> Bools:
        wanted = ordered_pairs(pairs, self.n_points)
        own = self.edges @ [self.n_points, 1]
        keys = wanted @ [self.n_points, 1]
        absent = ~np.isin(keys, own)
        if absent.any():
            i, j = wanted[absent][0]
            raise GraphError(f"({i}, {j}) is not an edge of this graph: pass pairs from .edges")
        return np.isin(own, keys)

    def algebraic_connectivity(self) -> float:
        """λ₂(L(1)), the smallest eigenvalue of the Laplacian on 1⊥.

        Zero if the graph is disconnected; infinite for a single point, where 1⊥ is empty.

        >>> triangle = NeighborhoodGraph(3, [[0, 1], [0, 2], [1, 2]], [1.0, 1.0, 1.0])
        >>> round(triangle.algebraic_connectivity(), 9)
        3.0
        """
        return self._connectivity

    @cached_property
    def _connectivity(self) -> float:
        return self._smallest_eigenvalue()

    @one_blas_thread
    def _smallest_eigenvalue(self) -> float:
        if self.n_points == 1:
            return float("inf")
        if not self.is_connected:
            return 0.0
        continue_or_raise()
        if self.n_points <= _DENSE_SPECTRUM_POINTS:
            return float(np.linalg.eigvalsh(self.laplacian().toarray())[1])
        return float(smoothest(self.laplacian(), 1)[0][0])

    @one_blas_thread
    def smooth_basis(self, n_basis: int) -> Array:
        """Q, (n, m): the m bottom eigenvectors of L(1) after the constant, orthonormal (3.24).

        They are the functions on the nodes that vary least along the edges.

        >>> path = NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 1.0])
        >>> np.abs(path.smooth_basis(1)).ravel().round(6) + 0.0
        array([0.707107, 0.      , 0.707107])
        """
        require_connected(self)
        return smooth_basis(self.laplacian(), n_basis)

    def variance_bound(self) -> float:
        """An upper bound on tr K over centred K ⪰ 0 whose edges are at most as long as here.

        Two outputs are no further apart than the shortest path sp between them, so
        tr K = (1/2n) Σ_ij ‖y_i − y_j‖² ≤ (1/2n) Σ_ij sp(i, j)². Above 2000 points it is the
        smallest of Σ_i sp(r, i)² over a few roots r: the variance about the mean is no more
        than that about y_r. Infinite if the graph is disconnected.

        >>> round(NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 1.0]).variance_bound(), 9)
        2.0
        """
        return self._variance_bound

    @cached_property
    def _variance_bound(self) -> float:
        if not self.is_connected:
            return float("inf")
        if self.n_points <= _ALL_PATHS_POINTS:
            bound = float((self.shortest_paths() ** 2).sum()) / (2 * self.n_points)
        else:
            bound = self._variance_bound_from_roots()
        # A path adds up at most n lengths, each with its own rounding error.
        return bound * (1 + 1e-12 + 4 * self.n_points * float(np.finfo(float).eps))

    def _variance_bound_from_roots(self) -> float:
        """Roots: the first point, the two ends of a long path, and the middle between them."""
        from_first = self.shortest_paths(0)
        from_end = self.shortest_paths(from_first.argmax())
        from_other_end = self.shortest_paths(from_end.argmax())
        from_middle = self.shortest_paths(np.maximum(from_end, from_other_end).argmin())
        paths = (from_first, from_end, from_other_end, from_middle)
        return min(float((sp**2).sum()) for sp in paths)

    def shortest_paths(self, root: Any = None) -> Array:
        """Lengths of shortest paths between all points, (n, n), or from one root, (n,).

        >>> NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 4.0]).shortest_paths(0)
        array([0., 1., 3.])
        """
        from scipy.sparse.csgraph import dijkstra

        lengths = self.adjacency(lengths=True)
        if root is not None:
            return np.asarray(dijkstra(lengths, directed=False, indices=root))
        paths = np.empty((self.n_points, self.n_points))
        for part in row_blocks(self.n_points, _PATH_WORK * (self.n_points + self.n_edges)):
            continue_or_raise()
            paths[part] = dijkstra(lengths, directed=False, indices=np.arange(self.n_points)[part])
        return paths


def require_connected(graph: NeighborhoodGraph) -> None:
    """Raise a GraphError that names the components, unless there is only one.

    Parameters
    ----------
    graph : NeighborhoodGraph
        The graph to look at.

    Raises
    ------
    GraphError
        If the graph has more than one component.

    Examples
    --------
    >>> require_connected(NeighborhoodGraph(3, [[0, 1]], [1.0]))
    Traceback (most recent call last):
        ...
    sdpkit.errors.GraphError: the neighbourhood graph has 2 components (sizes 2, 1): ...
    """
    if graph.is_connected:
        return
    sizes = graph.component_sizes
    shown = ", ".join(map(str, sizes[:6])) + (", …" if len(sizes) > 6 else "")
    raise GraphError(
        f"the neighbourhood graph has {len(sizes)} components (sizes {shown}): raise n_neighbors, "
        "or pass connect='auto' to join them or connect='components' to treat each apart"
    )
