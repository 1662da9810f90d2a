"""Neighbourhoods: which distances an embedding has to respect.

Data enter as points, distances or a kernel (`SquaredDistances`), a rule picks the pairs that
are neighbours (`neighborhood_graph`), and the result is a `NeighborhoodGraph`: n points and m
edges with squared lengths. Nothing here solves a program.

>>> from sdpkit.datasets import swiss_roll
>>> graph = neighborhood_graph(swiss_roll(100), n_neighbors=4)
>>> graph.n_points, graph.n_edges, graph.is_connected
(100, 247, True)
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sdpkit.errors import GraphError, InputError
from sdpkit.numerics.threads import one_blas_thread

__all__ = [
    "MergedGraph",
    "NeighborhoodGraph",
    "SquaredDistances",
    "angle_closure",
    "bad_edges",
    "bridge_components",
    "cliques",
    "lle_basis",
    "merge_coincident",
    "neighborhood_graph",
    "require_connected",
    "spanning_tree",
    "split_components",
    "traverse_probability",
]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Matrix: TypeAlias = "ArrayLike | sparse.sparray | sparse.spmatrix"
RandomState: TypeAlias = "int | np.random.Generator | None"

DEFAULT_NEIGHBORS = 4
"""Neighbours per point when no rule is given; the thesis works with 3, 4 and 5 (3.1.12)."""

SYMMETRY_TOLERANCE = 1e-8
"""Asymmetry forgiven in distances and kernels, relative to their largest entry."""

PARALLEL_TOLERANCE = 1e-9
"""Relative difference of squared lengths up to which two parallel edges are one edge."""

_BLOCK_ENTRIES = 2**21  # 16 MB of doubles: rows of a distance matrix worked on at a time
_DENSE_SPECTRUM_POINTS = 1500  # above this, λ₂ comes from a sparse factorisation
_SMALL_SPECTRUM_POINTS = 200  # up to this, the whole spectrum is cheaper than a few vectors
_ALL_PATHS_POINTS = 2000  # above this, shortest paths start from a few roots only
_TREE_POINTS, _TREE_DIMENSIONS = 500, 16  # above and up to these, neighbours come from a k-d tree
_TIE = 1e-12  # relative difference of squares that two ways of computing them may disagree on


# --- lengths ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SquaredDistances:
    """Squared distances ‖x_i − x_j‖² between n points, asked for when they are needed.

    Made by `from_points`, `from_distances` or `from_kernel` (or `of`, which picks). Points are
    kept as points: no n×n matrix is formed from them.

    >>> lengths = SquaredDistances.from_points([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    >>> lengths.between([0, 0], [1, 2])
    array([25.,  1.])
    """

    _points: Floats | None = None  # (n, d)
    _table: Floats | None = None  # (n, n), squared, symmetric

    @classmethod
    @one_blas_thread
    def of(
        cls,
        X: Matrix | None = None,
        *,
        distances: Matrix | None = None,
        kernel: Matrix | None = None,
    ) -> SquaredDistances:
        """The oracle of whichever one of the three is given.

        >>> SquaredDistances.of(distances=[[0, 2], [2, 0]]).between(0, 1)
        array(4.)
        """
        given = [
            name
            for name, value in (("X", X), ("distances", distances), ("kernel", kernel))
            if value is not None
        ]
        if len(given) != 1:
            raise InputError(
                f"got {' and '.join(given) if given else 'no data'}: "
                "pass exactly one of X, distances or kernel"
            )
        if X is not None:
            return cls.from_points(X)
        if distances is not None:
            return cls.from_distances(distances)
        assert kernel is not None
        return cls.from_kernel(kernel)

    @classmethod
    def from_points(cls, X: Matrix, *, name: str = "X") -> SquaredDistances:
        """Euclidean distances of the rows of X, (n, d); errors call it `name`.

        >>> SquaredDistances.from_points([[0], [2], [5]]).to_all(0)
        array([ 0.,  4., 25.])
        """
        points = _finite_matrix(X, name)
        _require_squarable(points, name)
        return cls(_points=_read_only(points))

    @classmethod
    def from_distances(cls, D: Matrix) -> SquaredDistances:
        """Distances D, (n, n): lengths, not squared; they need not be Euclidean.

        >>> SquaredDistances.from_distances([[0, 3], [3, 0]]).to_all(0)
        array([0., 9.])
        """
        lengths = _symmetric_matrix(D, "distances")
        _require_squarable(lengths, "distances")
        if (lengths < 0).any():
            i, j = _position(lengths.argmin(), lengths.shape)
            raise InputError(
                f"distances[{i}, {j}] = {lengths[i, j]:g} is negative: distances are lengths ≥ 0"
            )
        diagonal = lengths.diagonal()
        if diagonal.max() > SYMMETRY_TOLERANCE * lengths.max():
            i = int(diagonal.argmax())
            raise InputError(
                f"distances[{i}, {i}] = {diagonal[i]:g}, but a point is at distance 0 from "
                "itself: pass distances, not similarities (those go to kernel=)"
            )
        np.fill_diagonal(lengths, 0.0)
        return cls(_table=_read_only(lengths**2))

    @classmethod
    def from_kernel(cls, A: Matrix) -> SquaredDistances:
        """Distances of the feature space of a kernel A, (n, n): d_ij = A_ii + A_jj − 2 A_ij.

        Values within the rounding error of that subtraction count as zero.

        >>> SquaredDistances.from_kernel([[1, 0], [0, 4]]).between(0, 1)
        array(5.)
        """
        gram = _symmetric_matrix(A, "kernel")
        diagonal = gram.diagonal()
        squared = diagonal[:, None] + diagonal[None, :] - 2 * gram
        if squared.min() < -SYMMETRY_TOLERANCE * np.abs(diagonal).max():
            i, j = _position(squared.argmin(), squared.shape)
            raise InputError(
                f"the kernel gives points {i} and {j} the squared distance {squared[i, j]:g} < 0: "
                "it is not positive semidefinite (if it holds distances, pass distances=)"
            )
        resolution = 8 * np.finfo(float).eps * np.abs(diagonal)
        squared[squared <= resolution[:, None] + resolution[None, :]] = 0.0
        return cls(_table=_read_only(squared))

    @property
    def n_points(self) -> int:
        """Number of points n.

        >>> SquaredDistances.from_points([[0], [2], [5]]).n_points
        3
        """
        return len(self._source)

    @property
    def _source(self) -> Floats:
        source = self._points if self._table is None else self._table
        if source is None:
            raise InputError("make SquaredDistances by from_points, from_distances or from_kernel")
        return source

    def between(self, i: ArrayLike, j: ArrayLike) -> Floats:
        """Squared distances of the pairs (i, j), in the broadcast shape of the two index arrays.

        >>> SquaredDistances.from_points([[0], [2], [5]]).between(0, [0, 1, 2])
        array([ 0.,  4., 25.])
        """
        first, second = np.broadcast_arrays(np.asarray(i, np.int64), np.asarray(j, np.int64))
        if self._table is not None:
            return np.asarray(self._table[first, second])
        points, shape = self._source, first.shape
        first, second = first.ravel(), second.ravel()
        squared = np.empty(len(first))
        for part in _blocks(len(first), points.shape[1]):
            difference = points[first[part]] - points[second[part]]
            squared[part] = np.einsum("ed,ed->e", difference, difference)
        return squared.reshape(shape)

    def to_all(self, i: ArrayLike) -> Floats:
        """Squared distances from point i to all points, (n,); for r indices, (r, n).

        >>> SquaredDistances.from_points([[0], [2], [5]]).to_all([0, 2])
        array([[ 0.,  4., 25.],
               [25.,  9.,  0.]])
        """
        chosen = np.asarray(i, np.int64)
        if self._table is not None:
            return np.asarray(self._table[chosen])
        from scipy.spatial.distance import cdist

        rows = cdist(self._source[np.atleast_1d(chosen)], self._source, "sqeuclidean")
        return rows if chosen.ndim else rows[0]

    @one_blas_thread
    def neighbors(self, n_neighbors: int) -> Ints:
        """The k nearest other points of every point, nearest first, (n, k).

        Sorted by (distance, index), so that ties have one answer. A point is never its own
        neighbour; a duplicate of it may be.

        >>> SquaredDistances.from_points([[0], [1], [1], [5]]).neighbors(2)
        array([[1, 2],
               [2, 0],
               [1, 0],
               [1, 2]])
        """
        k, n = _neighbor_count(n_neighbors, self.n_points), self.n_points
        nearest, doubtful = np.empty((n, k), dtype=np.int64), np.arange(n)
        if self._tree is not None:
            nearest, doubtful = _tree_nearest(self._tree, self._source, k, itself=True)
        for part in _blocks(len(doubtful), n):
            rows = self.to_all(doubtful[part])
            rows[np.arange(len(rows)), doubtful[part]] = np.inf
            nearest[doubtful[part]] = _smallest(rows, k)
        return nearest

    @cached_property
    def _tree(self) -> Any:
        """A k-d tree of the points, where one pays."""
        if self._points is None or len(self._points) <= _TREE_POINTS:
            return None
        if self._points.shape[1] > _TREE_DIMENSIONS:
            return None
        from scipy.spatial import cKDTree

        return cKDTree(self._points)

    @one_blas_thread
    def nearest_to(
        self,
        n_neighbors: int,
        X: Matrix | None = None,
        *,
        distances: Matrix | None = None,
        among: ArrayLike | None = None,
    ) -> tuple[Ints, Floats]:
        """The k points nearest to each of t new ones, nearest first: indices and squares, (t, k).

        The new points are rows of X, (t, d), or are given by their distances to all n points,
        (t, n), where this has no points of its own. `among`, (r,), limits the choice. A row's
        answer does not depend on the other rows; ties go to the smaller index.

        >>> SquaredDistances.from_points([[0], [2], [5]]).nearest_to(2, [[1], [5]])
        (array([[0, 1],
               [2, 1]]), array([[1., 1.],
               [0., 9.]]))
        """
        new = self._new_rows(X, distances)
        chosen = np.arange(self.n_points) if among is None else _node_set(among, self.n_points)
        k = _neighbor_count(n_neighbors, len(chosen) + 1)
        nearest, doubtful = np.empty((len(new), k), dtype=np.int64), np.arange(len(new))
        if X is not None and among is None and self._tree is not None:
            nearest, doubtful = _tree_nearest(self._tree, new, k, itself=False)
        for part in _blocks(len(doubtful), self.n_points):
            rows = self._squares(new[doubtful[part]], chosen, X is not None)
            nearest[doubtful[part]] = chosen[_smallest(rows, k)]
        if X is None:
            return nearest, np.take_along_axis(new, nearest, axis=1) ** 2
        # Coordinate by coordinate: the same for one row and for many.
        squared = np.zeros((len(new), k))
        for x, points in zip(new.T, self._source.T, strict=True):
            squared += (x[:, None] - points[nearest]) ** 2
        return nearest, squared

    def _squares(self, new: Floats, chosen: Ints, are_points: bool) -> Floats:
        """Squared distances of new rows, points or distances to all, to the chosen points."""
        if not are_points:
            return np.asarray(new[:, chosen] ** 2)
        from scipy.spatial.distance import cdist

        return cdist(new, self._source[chosen], "sqeuclidean")

    def _new_rows(self, X: Matrix | None, distances: Matrix | None) -> Floats:
        """New points (t, d) or their distances to all points (t, n), checked."""
        if (X is None) == (distances is None):
            raise InputError("pass the new points, or distances= from them to all points")
        name, value = ("X_new", X) if distances is None else ("distances", distances)
        if X is not None and self._points is None:
            raise InputError(
                "the embedding was made from distances or a kernel, so there are no points to "
                "compare X_new with: pass distances= from the new points to all of its points"
            )
        rows = _finite_matrix(value, name)
        _require_squarable(rows, name)
        width = self.n_points if X is None else self._source.shape[1]
        if rows.shape[1] != width:
            raise InputError(f"{name} has {rows.shape[1]} columns, expected {width}")
        if distances is not None and (rows < 0).any():
            raise InputError(f"distances are lengths ≥ 0; the smallest is {rows.min():g}")
        return rows

    @property
    def points(self) -> Floats | None:
        """The points, (n, d), where they are known.

        >>> SquaredDistances.from_distances([[0, 1], [1, 0]]).points is None
        True
        """
        return self._points

    @one_blas_thread
    def within(self, radius: float) -> Ints:
        """Pairs i < j at a distance (not squared) of at most radius, (p, 2).

        >>> SquaredDistances.from_points([[0], [2], [5]]).within(3)
        array([[0, 1],
               [1, 2]])
        """
        reach, n = _positive(radius, "radius"), self.n_points
        pairs = []
        for part in _blocks(n, n):
            near = np.argwhere(np.sqrt(self.to_all(np.arange(n)[part])) <= reach)
            near[:, 0] += part.start
            pairs.append(near[near[:, 0] < near[:, 1]])
        return np.concatenate(pairs)

    def graph(self, pairs: ArrayLike) -> NeighborhoodGraph:
        """The graph with these pairs, (p, 2), as edges; repeated pairs count once.

        >>> SquaredDistances.from_points([[0], [2], [5]]).graph([[1, 0], [0, 1], [1, 2]]).edges
        array([[0, 1],
               [1, 2]])
        """
        edges = np.unique(_ordered_pairs(pairs, self.n_points), axis=0)
        return NeighborhoodGraph(self.n_points, edges, self.between(edges[:, 0], edges[:, 1]))


def _tree_nearest(tree: Any, queries: Floats, k: int, itself: bool) -> tuple[Ints, Ints]:
    """k nearest points of every query by a k-d tree, (t, k), and the queries it is not sure of.

    It has no rule for ties, so where two of the nearest are as good as equally far, or where a
    query is a point and is not the only one in its place, the caller has to look again.
    `itself`: the queries are the points, and none is its own neighbour.
    """
    wanted = min(k + 1 + itself, tree.n)
    lengths, nearest = tree.query(queries, k=np.arange(1, wanted + 1))
    squared = lengths**2
    close = np.diff(squared, axis=1) <= _TIE * squared[:, 1:]
    unsure = close[:, : k + itself].any(axis=1)
    if itself:
        unsure |= nearest[:, 0] != np.arange(len(queries))
    return nearest[:, itself : k + itself].astype(np.int64), np.flatnonzero(unsure)


def _smallest(rows: Floats, k: int) -> Ints:
    """Columns of the k smallest entries of each row in the order (value, column), (r, k)."""
    kth = np.partition(rows, k - 1, axis=1)[:, k - 1 : k]
    below, tied = rows < kth, rows == kth
    missing = k - below.sum(axis=1, keepdims=True)
    chosen = below | (tied & (tied.cumsum(axis=1) <= missing))
    columns = chosen.nonzero()[1].reshape(len(rows), k)
    order = np.take_along_axis(rows, columns, axis=1).argsort(axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


# --- the graph -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class NeighborhoodGraph:
    """n points and m undirected edges with squared lengths, each edge once.

    `edges` is (m, 2) with i < j, sorted lexicographically and unique; `squared_lengths` is (m,).
    Both are read-only. `from_pairs` takes pairs in any order. An edge of length zero is an edge.

    >>> graph = NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 4.0])
    >>> graph.n_edges, graph.is_connected
    (2, True)
    """

    n_points: int
    edges: Ints
    squared_lengths: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_points", _count(self.n_points, "n_points"))
        edges = _ordered_pairs(self.edges, self.n_points)
        squared = _squared_lengths(self.squared_lengths, edges)
        given = np.asarray(self.edges).reshape(-1, 2)
        in_order = (np.diff(edges[:, 0] * self.n_points + edges[:, 1]) > 0).all()
        if not in_order or not np.array_equal(edges, given):
            raise GraphError(
                "edges must have i < j and be sorted and unique: use NeighborhoodGraph.from_pairs"
            )
        object.__setattr__(self, "edges", _read_only(edges))
        object.__setattr__(self, "squared_lengths", _read_only(squared))

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
        edges = _ordered_pairs(pairs, n_points)
        squared = _squared_lengths(squared_lengths, edges)
        return cls(n_points, *_merge_parallel(edges, squared, parallel, names=edges))

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
    def component_labels(self) -> Ints:
        """Which connected component each point is in, (n,); components follow their first point.

        >>> NeighborhoodGraph(4, [[0, 2], [1, 3]], [1.0, 1.0]).component_labels
        array([0, 1, 0, 1])
        """
        return _read_only(_components(self.n_points, self.edges))

    @property
    def component_sizes(self) -> Ints:
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
        chosen = _node_set(nodes, self.n_points)
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
        more = _ordered_pairs(edges, self.n_points)
        squared = _squared_lengths(squared_lengths, more)
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
        wanted = _ordered_pairs(pairs, self.n_points)
        own = self.edges @ [self.n_points, 1]
        keys = wanted @ [self.n_points, 1]
        absent = ~np.isin(keys, own)
        if absent.any():
            i, j = wanted[absent][0]
            raise GraphError(f"({i}, {j}) is not an edge of this graph: pass pairs from .edges")
        return np.isin(own, keys)

    @one_blas_thread
    def algebraic_connectivity(self) -> float:
        """λ₂(L(1)), the smallest eigenvalue of the Laplacian on 1⊥.

        Zero if the graph is disconnected; infinite for a single point, where 1⊥ is empty.

        >>> triangle = NeighborhoodGraph(3, [[0, 1], [0, 2], [1, 2]], [1.0, 1.0, 1.0])
        >>> round(triangle.algebraic_connectivity(), 9)
        3.0
        """
        if self.n_points == 1:
            return float("inf")
        if not self.is_connected:
            return 0.0
        if self.n_points <= _DENSE_SPECTRUM_POINTS:
            return float(np.linalg.eigvalsh(self.laplacian().toarray())[1])
        return float(_sparse_smoothest(self.laplacian(), 1)[0][0])

    @one_blas_thread
    def smooth_basis(self, n_basis: int) -> Floats:
        """Q, (n, m): the m bottom eigenvectors of L(1) after the constant, orthonormal (3.24).

        They are the functions on the nodes that vary least along the edges.

        >>> path = NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 1.0])
        >>> np.abs(path.smooth_basis(1)).ravel().round(6) + 0.0
        array([0.707107, 0.      , 0.707107])
        """
        m = _count(n_basis, "n_basis")
        if not 1 <= m < self.n_points:
            raise InputError(
                f"n_basis={n_basis!r}: {self.n_points} points have between 1 and "
                f"{self.n_points - 1} basis vectors"
            )
        require_connected(self)
        if self.n_points <= max(_SMALL_SPECTRUM_POINTS, 4 * m):
            vectors = np.linalg.eigh(self.laplacian().toarray())[1][:, 1 : m + 1]
        else:
            vectors = _sparse_smoothest(self.laplacian(), m)[1]
        return np.asarray(np.linalg.qr(vectors - vectors.mean(axis=0))[0])

    def variance_bound(self) -> float:
        """An upper bound on tr K over centred K ⪰ 0 whose edges are at most as long as here.

        Two outputs are no further apart than the shortest path sp between them, so
        tr K = (1/2n) Σ_ij ‖y_i − y_j‖² ≤ (1/2n) Σ_ij sp(i, j)². Above 2000 points it is the
        smallest of Σ_i sp(r, i)² over a few roots r: the variance about the mean is no more
        than that about y_r. Infinite if the graph is disconnected.

        >>> round(NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 1.0]).variance_bound(), 9)
        2.0
        """
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

    def shortest_paths(self, root: Any = None) -> Floats:
        """Lengths of shortest paths between all points, (n, n), or from one root, (n,).

        >>> NeighborhoodGraph(3, [[0, 1], [1, 2]], [1.0, 4.0]).shortest_paths(0)
        array([0., 1., 3.])
        """
        from scipy.sparse.csgraph import dijkstra

        return np.asarray(dijkstra(self.adjacency(lengths=True), directed=False, indices=root))


@one_blas_thread
def lle_basis(X: Matrix, n_basis: int, *, n_neighbors: int = DEFAULT_NEIGHBORS) -> Floats:
    """Q, (n, m): the m bottom eigenvectors of LLE's (I−W)ᵀ(I−W) after the constant, orthonormal.

    W, scikit-learn's, rebuilds every point from its neighbours with weights that sum to one.

    >>> lle_basis([[0.0], [1.0], [2.0], [3.0]], 1, n_neighbors=2).shape
    (4, 1)
    """
    from sklearn.manifold._locally_linear import barycenter_kneighbors_graph

    points = _finite_matrix(X, "X")
    n, m = len(points), _count(n_basis, "n_basis")
    if not 1 <= m < n:
        raise InputError(f"n_basis={n_basis!r}: {n} points have between 1 and {n - 1} vectors")
    weights = barycenter_kneighbors_graph(points, _neighbor_count(n_neighbors, n), reg=1e-3)
    residual = sparse.eye_array(n, format="csr") - sparse.csr_array(weights)
    matrix = sparse.csr_array(residual.T @ residual)
    if n <= max(_SMALL_SPECTRUM_POINTS, 4 * m):
        vectors = np.linalg.eigh(matrix.toarray() + np.ones((n, n)))[1][:, :m]
    else:
        vectors = _sparse_smoothest(matrix, m)[1]
    return np.asarray(np.linalg.qr(vectors - vectors.mean(axis=0))[0])


def _sparse_smoothest(laplacian: sparse.csr_array, k: int) -> tuple[Floats, Floats]:
    """The k smallest eigenvalues on 1⊥, rising, with eigenvectors (n, k), of a connected graph
    (or of any positive semidefinite matrix whose null space is the constant).

    As 1/λ_max(L⁺): L⁺ is a grounded solve between two centrings, there is no shift to choose.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh, splu

    n = laplacian.shape[0]
    grounded = splu(
        laplacian[1:, 1:].tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def pseudo_inverse(x: Floats) -> Floats:
        centred = x.ravel() - x.mean()
        y = np.concatenate([[0.0], grounded.solve(centred[1:])])
        return np.asarray(y - y.mean())

    operator_ = LinearOperator((n, n), matvec=pseudo_inverse, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    values, vectors = eigsh(operator_, k=k, which="LA", v0=start)
    return 1.0 / values[::-1], vectors[:, ::-1]


def _components(n_points: int, edges: Ints) -> Ints:
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(edges))
    matrix = sparse.csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(n_points, n_points))
    return connected_components(matrix, directed=False)[1].astype(np.int64)


def _merge_parallel(
    edges: Ints, squared: Floats, parallel: Literal["error", "min"], names: Ints
) -> tuple[Ints, Floats]:
    """Sort edges (m, 2) and keep the shortest of each bundle; `names` are what errors call them."""
    if parallel not in ("error", "min"):
        raise InputError(f"parallel={parallel!r}: pass 'error' or 'min'")
    order = np.lexsort((squared, edges[:, 1], edges[:, 0]))
    edges, squared, names = edges[order], squared[order], names[order]
    new = np.ones(len(edges), dtype=bool)
    new[1:] = (edges[1:] != edges[:-1]).any(axis=1)
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(edges))[: len(first)] - 1
    conflict = squared[last] > squared[first] * (1 + PARALLEL_TOLERANCE)
    if parallel == "error" and conflict.any():
        a, b = first[conflict][0], last[conflict][0]
        raise GraphError(
            f"the edges {_pair(names[a])} and {_pair(names[b])} join the same points with "
            f"different lengths {squared[a] ** 0.5:g} and {squared[b] ** 0.5:g}: "
            "make them agree, or pass parallel='min' if lengths are upper bounds"
        )
    return edges[first], squared[first]


# --- from data to a graph --------------------------------------------------------------------


@one_blas_thread
def neighborhood_graph(
    X: Matrix | None = None,
    *,
    distances: Matrix | None = None,
    kernel: Matrix | None = None,
    graph: Matrix | NeighborhoodGraph | None = None,
    edges: ArrayLike | None = None,
    n_neighbors: int | None = None,
    radius: float | None = None,
    angles: bool = False,
    connect: Literal["error", "bridge", "components"] | None = None,
    random_state: RandomState = 0,
) -> NeighborhoodGraph:
    """The neighbourhood graph of points X (n, d), of distances (n, n) or of a kernel (n, n).

    One rule picks the edges; without any, it is n_neighbors=4:

    - `n_neighbors`: i and j are joined if either is among the k nearest others of the other;
    - `radius`: at most that far apart;
    - `edges`: these pairs, (m, 2);
    - `graph`: the pattern of this adjacency matrix, dense (nonzeros) or sparse (stored entries);
      one direction is enough, and the diagonal does not count.

    `graph` without data gives the lengths as well: its entries are lengths (so 0/1 entries are
    unit lengths). Distances as a sparse matrix are such a graph. Stored zeros of a sparse
    matrix are edges of length zero, as scikit-learn writes them between duplicate points.

    `angles=True` joins the neighbours of each point too (`angle_closure`). `connect` says what
    to do with several components: leave them (None or 'components', for `split_components`),
    raise ('error'), or link them ('bridge', seeded by `random_state`, `bridge_components`).

    >>> neighborhood_graph([[0.0], [1.0], [3.0]], n_neighbors=1).edges
    array([[0, 1],
           [1, 2]])
    >>> neighborhood_graph(graph=[[0, 2, 0], [2, 0, 3], [0, 3, 0]]).squared_lengths
    array([4., 9.])
    """
    if connect not in (None, "error", "bridge", "components"):
        raise InputError(f"connect={connect!r}: pass None, 'error', 'bridge' or 'components'")
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
    graph: Matrix | NeighborhoodGraph | None,
    edges: ArrayLike | None,
    radius: float | None,
    neighbors: Ints | None,
) -> ArrayLike:
    """The pairs (p, 2) of the one rule that is given."""
    if neighbors is not None:
        return _directed_pairs(neighbors)
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
    if connect == "bridge" and not graph.is_connected:
        return bridge_components(graph, lengths, random_state)
    return graph


def _directed_pairs(neighbors: Ints) -> Ints:
    """The relation "j is a neighbour of i" of neighbour lists (n, k) as pairs (n·k, 2)."""
    n, k = neighbors.shape
    return np.column_stack([np.repeat(np.arange(n), k), neighbors.ravel()])


def _graph_of_lengths(graph: Matrix | NeighborhoodGraph) -> NeighborhoodGraph:
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
    _require_squarable(entries.data, "graph")
    return NeighborhoodGraph.from_pairs(entries.shape[0], pairs, entries.data**2)


def _pattern(graph: Matrix | NeighborhoodGraph, n_points: int) -> Ints:
    """The pairs that an adjacency matrix joins, (p, 2)."""
    if isinstance(graph, NeighborhoodGraph):
        n, pairs = graph.n_points, graph.edges
    else:
        entries = _adjacency_entries(graph)
        n, pairs = entries.shape[0], np.column_stack([entries.row, entries.col])
    if n != n_points:
        raise InputError(f"graph has {n} nodes, but the data has {n_points} points")
    return pairs.astype(np.int64)


def _adjacency_entries(graph: Matrix) -> sparse.coo_array:
    """The off-diagonal entries of a square matrix. Stored zeros stay: they are edges."""
    if sparse.issparse(graph):
        matrix = sparse.csr_array(graph, copy=True)
        matrix.data = _real(matrix.data, "graph")
        _require_finite(matrix.data, "graph.data")
        matrix.sum_duplicates()
        if graph.format == "bsr":
            matrix.eliminate_zeros()  # a block format stores zeros that nobody put there
    else:
        matrix = sparse.csr_array(_finite_matrix(graph, "graph"))
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

    Every point and its neighbours become a clique. The neighbours are those of the lists
    (n, k), which makes cliques of k + 1 out of k nearest neighbours; without lists, those
    adjacent in the graph.

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
    n = _same_size(graph, lengths)
    if neighbors is None:
        relation = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    else:
        relation = _directed_pairs(np.asarray(neighbors, np.int64))
    whole = np.concatenate([relation, np.repeat(np.arange(n), 2).reshape(n, 2)])
    member = sparse.csr_array((np.ones(len(whole)), (whole[:, 0], whole[:, 1])), shape=(n, n))
    together = sparse.triu(member.T @ member, k=1).tocoo()
    # The edges of the graph itself keep their lengths, whatever the oracle says.
    pairs = np.column_stack([together.row, together.col]).astype(np.int64)
    new = ~np.isin(pairs @ [n, 1], graph.edges @ [n, 1])
    return graph.with_edges(pairs[new], lengths.between(pairs[new, 0], pairs[new, 1]))


@one_blas_thread
def spanning_tree(
    X: Matrix | None = None,
    *,
    distances: Matrix | None = None,
    kernel: Matrix | None = None,
) -> NeighborhoodGraph:
    """The spanning tree of least total length (equally, of greatest total affinity).

    Prim's algorithm on the complete graph, O(n²) time and O(n) memory. Ties go to the smaller
    index, and duplicates are joined by edges of length zero.

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
        new = int(np.where(outside, reach, np.inf).argmin())
        pairs[step] = nearest[new], new
        outside[new] = False
        row = lengths.to_all(new)
        closer = row < reach
        nearest[closer], reach[closer] = new, row[closer]
    return lengths.graph(pairs)


# --- components ------------------------------------------------------------------------------


def require_connected(graph: NeighborhoodGraph) -> None:
    """Raise a GraphError that names the components, unless there is only one.

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
        "or pass connect='bridge' to link them or connect='components' to treat each apart"
    )


def split_components(graph: NeighborhoodGraph) -> list[tuple[Ints, NeighborhoodGraph]]:
    """Every component as (nodes, its graph), in the order of their first nodes.

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
    _same_size(graph, lengths)
    rng = np.random.default_rng(random_state)
    labels = graph.component_labels.copy()
    links: list[tuple[int, int]] = []
    while labels.any():
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


# --- bad edges -------------------------------------------------------------------------------


@one_blas_thread
def traverse_probability(
    graph: NeighborhoodGraph, steps: int = 7, sigma: float | None = None
) -> Floats:
    """q_ij + q_ji of every edge, (m,): how easily a random walk gets from one end to the other.

    The walk steps from i to a neighbour j with probability p_ij ∝ exp(−‖x_i − x_j‖/σ),
    normalised over the neighbours of i; q_ij is the probability that it visits j within
    `steps` steps (thesis, 3.1.12, with 7 steps). σ is the mean edge length unless given: the
    thesis has σ = 1 for data of that scale.

    >>> triangle_and_tail = NeighborhoodGraph(4, [[0, 1], [0, 2], [1, 2], [2, 3]], [1.0] * 4)
    >>> traverse_probability(triangle_and_tail, steps=1)
    array([1.        , 0.83333333, 0.83333333, 1.33333333])
    """
    n_steps = _count(steps, "steps")
    walk = _walk(graph, sigma)
    n, (i, j) = graph.n_points, graph.edges.T
    forth, back = np.empty(graph.n_edges), np.empty(graph.n_edges)
    for part in _blocks(n, n):
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
        scale = _positive(sigma, "sigma")
    row = np.repeat(np.arange(graph.n_points), np.diff(lengths.indptr))
    # Lengths less the shortest of the row give the same walk, and no row underflows to zero.
    shortest = np.full(graph.n_points, np.inf)
    np.minimum.at(shortest, row, lengths.data)
    affinity = np.exp((shortest[row] - lengths.data) / scale)
    total = np.bincount(row, affinity, graph.n_points)
    return sparse.csr_array((affinity / total[row], lengths.indices, lengths.indptr), lengths.shape)


def _visit_probability(walk: sparse.csr_array, targets: Ints, steps: int) -> Floats:
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
    """Mask, (m,), of edges that look like short circuits between layers of the manifold.

    An edge is bad if its log traverse probability lies more than `threshold` interquartile
    ranges below the first quartile of all edges: Tukey's fence at 1.5, which also takes some
    one edge in a hundred of a graph without short circuits. With 3 it only takes the blatant.
    Cut them by `graph.without_edges(mask)`, and look at the components again.

    >>> from sdpkit.datasets import cycle_graph
    >>> bad_edges(neighborhood_graph(graph=cycle_graph(20))).any()
    np.False_
    """
    limit = _positive(threshold, "threshold")
    if not graph.n_edges:
        return np.zeros(0, dtype=bool)
    # A walk can be too short to be likely at all, yet an edge is always one step: q > 0, unless
    # its length is beyond some 700 σ. That is as bad as can be, and log needs a number.
    log_q = np.log(np.maximum(traverse_probability(graph, steps, sigma), np.finfo(float).tiny))
    first, third = np.quantile(log_q, [0.25, 0.75])
    spread = max(float(third - first), 1e-6)  # rounding is no spread: regular graphs have none
    return np.asarray(log_q < first - limit * spread)


# --- structure -------------------------------------------------------------------------------


class MergedGraph(NamedTuple):
    """A graph without edges of length zero, and where the points went."""

    graph: NeighborhoodGraph
    group: Ints
    """Merged node of every point, (n,)."""
    multiplicities: Ints
    """Number of points in every merged node."""


def merge_coincident(
    graph: NeighborhoodGraph, parallel: Literal["error", "min"] = "error"
) -> MergedGraph:
    """Contract the edges of length zero: points joined by a path of them become one node.

    Edges that become parallel are one edge if their lengths agree (to 1e-9). If they do not,
    no points have these distances, which is an error; with parallel='min', for programs where
    lengths are upper bounds, the shortest stays. Nodes are numbered by their first points.

    >>> graph = NeighborhoodGraph(3, [[0, 1], [0, 2], [1, 2]], [0.0, 4.0, 4.0])
    >>> merged = merge_coincident(graph)
    >>> merged.graph.edges, merged.group, merged.multiplicities
    (array([[0, 1]]), array([0, 0, 1]), array([2, 1]))
    """
    zero = graph.squared_lengths == 0
    group = _components(graph.n_points, graph.edges[zero])
    ends = np.sort(group[graph.edges], axis=1)
    inside = ends[:, 0] == ends[:, 1]
    if parallel == "error" and (inside & ~zero).any():
        worst = int(np.flatnonzero(inside & ~zero)[0])
        raise GraphError(
            f"the points of edge {_pair(graph.edges[worst])} coincide by edges of length zero, "
            f"but the edge has length {graph.squared_lengths[worst] ** 0.5:g}: correct the "
            "lengths, or pass parallel='min' if they are upper bounds"
        )
    edges, squared = _merge_parallel(
        ends[~inside], graph.squared_lengths[~inside], parallel, names=graph.edges[~inside]
    )
    multiplicities = np.bincount(group)
    return MergedGraph(
        NeighborhoodGraph(len(multiplicities), edges, squared), group, multiplicities
    )


def cliques(graph: NeighborhoodGraph) -> list[Ints]:
    """Maximal cliques of at least 3 nodes, at least one around every edge that has any.

    Each grows greedily from an edge: the candidate with the most neighbours among the other
    candidates joins, ties to the smaller index. A closed neighbourhood that is a clique is
    always found, since it is the only maximal clique around its node. Not all maximal cliques
    are: there can be exponentially many.

    >>> cliques(NeighborhoodGraph(4, [[0, 1], [0, 2], [1, 2], [2, 3]], [1.0] * 4))
    [array([0, 1, 2])]
    """
    adjacent: list[set[int]] = [set() for _ in range(graph.n_points)]
    for i, j in graph.edges.tolist():
        adjacent[i].add(j)
        adjacent[j].add(i)
    found = {_grow_clique(adjacent, i, j) for i, j in graph.edges.tolist()}
    return [np.array(clique) for clique in sorted(found) if len(clique) >= 3]


def _grow_clique(adjacent: list[set[int]], i: int, j: int) -> tuple[int, ...]:
    clique = [i, j]
    candidates = adjacent[i] & adjacent[j]
    while candidates:
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


# --- what is let in --------------------------------------------------------------------------


def _real(value: Any, name: str) -> Floats:
    """A float64 copy of real numbers of any dtype, layout or container."""
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise InputError(
            f"{name} is no regular array ({error}): all rows need one length"
        ) from error
    if raw.dtype.kind not in "biuf":
        raise InputError(
            f"{name} has dtype {raw.dtype}: pass real numbers, for example {name}.astype(float)"
        )
    return np.array(raw, dtype=np.float64, order="C")


def _real_matrix(value: Any, name: str) -> Floats:
    entries = value
    if sparse.issparse(value):
        entries = value.toarray()  # type: ignore[attr-defined]
    matrix = _real(entries, name)
    if matrix.ndim == 1 and matrix.size:
        raise InputError(
            f"{name} is 1-d with {matrix.size} values: pass a matrix, "
            f"for {matrix.size} points on a line {name}.reshape(-1, 1)"
        )
    if matrix.ndim != 2 or not matrix.size:
        raise InputError(f"{name} has shape {matrix.shape}: pass a matrix with data in it")
    return matrix


def _finite_matrix(value: Any, name: str) -> Floats:
    matrix = _real_matrix(value, name)
    _require_finite(matrix, name)
    return matrix


def _require_finite(values: Floats, name: str) -> None:
    wrong = ~np.isfinite(values)
    if wrong.any():
        first = ", ".join(map(str, _position(wrong.argmax(), values.shape)))
        raise InputError(
            f"{name} holds {wrong.sum()} values that are NaN or infinite, the first at "
            f"[{first}]: drop or impute them"
        )


def _require_squarable(values: Floats, name: str) -> None:
    largest = float(np.abs(values).max(initial=0.0))
    if largest > 1e140:
        raise InputError(f"{name} holds values up to {largest:g}, too large to square: rescale it")


def _symmetric_matrix(value: Any, name: str) -> Floats:
    matrix = _finite_matrix(value, name)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} has shape {matrix.shape}: pass a square matrix, (n, n)")
    asymmetry = np.abs(matrix - matrix.T)
    if asymmetry.max() > SYMMETRY_TOLERANCE * np.abs(matrix).max():
        i, j = _position(asymmetry.argmax(), matrix.shape)
        raise InputError(
            f"{name} is not symmetric: [{i}, {j}] is {matrix[i, j]:g}, [{j}, {i}] is "
            f"{matrix[j, i]:g}: pass a symmetric matrix, for example ({name} + {name}.T) / 2"
        )
    return np.asarray((matrix + matrix.T) / 2)


def _ordered_pairs(pairs: ArrayLike, n_points: int) -> Ints:
    """Pairs (p, 2) as int64 with i < j, order kept."""
    try:
        raw = np.asarray(pairs)
    except ValueError as error:
        raise InputError(f"edges are no regular array ({error}): pass pairs, (m, 2)") from error
    if raw.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if raw.ndim != 2 or raw.shape[1] != 2 or raw.dtype.kind not in "iu":
        raise InputError(
            f"edges have shape {raw.shape} and dtype {raw.dtype}: pass integer pairs, (m, 2)"
        )
    ordered = np.sort(raw.astype(np.int64), axis=1)
    wrong = (ordered[:, 0] < 0) | (ordered[:, 1] >= n_points)
    if wrong.any():
        raise GraphError(
            f"edge {_pair(raw[wrong][0])} is out of range: nodes are 0 to {n_points - 1}"
        )
    loop = ordered[:, 0] == ordered[:, 1]
    if loop.any():
        raise GraphError(f"edge {_pair(raw[loop][0])} joins a point to itself: leave it out")
    return ordered


def _squared_lengths(value: ArrayLike, edges: Ints) -> Floats:
    squared = _real(value, "squared_lengths")
    if squared.shape != (len(edges),):
        raise InputError(
            f"squared_lengths have shape {squared.shape}: pass one per edge, ({len(edges)},)"
        )
    _require_finite(squared, "squared_lengths")
    if (squared < 0).any():
        worst = int(squared.argmin())
        raise InputError(
            f"edge {_pair(edges[worst])} has squared length {squared[worst]:g}: pass values ≥ 0"
        )
    return squared


def _node_set(nodes: ArrayLike, n_points: int) -> Ints:
    chosen = np.asarray(nodes)
    if chosen.ndim != 1 or not chosen.size or chosen.dtype.kind not in "iu":
        raise InputError(
            f"nodes have shape {chosen.shape} and dtype {chosen.dtype}: pass integers, (r,)"
        )
    if chosen.min() < 0 or chosen.max() >= n_points or len(np.unique(chosen)) < len(chosen):
        raise InputError(f"nodes must be different integers from 0 to {n_points - 1}")
    return chosen.astype(np.int64)


def _neighbor_count(n_neighbors: int, n_points: int) -> int:
    k = _count(n_neighbors, "n_neighbors")
    if n_points == 1:
        raise InputError("one point has no neighbours: pass at least two points")
    if k >= n_points:
        raise InputError(
            f"n_neighbors={k}, but {n_points} points have at most {n_points - 1} others each: "
            f"pass n_neighbors ≤ {n_points - 1}, or more points"
        )
    return k


def _count(value: int, name: str) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if isinstance(value, bool | np.bool_) or count < 1:
        raise InputError(f"{name}={value!r}: pass an integer of at least 1")
    return count


def _positive(value: float, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not number > 0:  # NaN is not
        raise InputError(f"{name}={value!r}: pass a number > 0")
    return number


def _same_size(graph: NeighborhoodGraph, lengths: SquaredDistances) -> int:
    if graph.n_points != lengths.n_points:
        raise InputError(
            f"the graph has {graph.n_points} points and the lengths {lengths.n_points}: "
            "pass those the graph was made from"
        )
    return graph.n_points


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _blocks(count: int, width: int) -> Iterator[slice]:
    """Slices of 0..count, each with about _BLOCK_ENTRIES entries of rows that wide."""
    rows = max(1, _BLOCK_ENTRIES // max(width, 1))
    return (slice(start, min(start + rows, count)) for start in range(0, count, rows))


def _position(flat: np.intp, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(index) for index in np.unravel_index(flat, shape))


def _pair(edge: NDArray[Any]) -> str:
    return f"({edge[0]}, {edge[1]})"
