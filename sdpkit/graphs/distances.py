"""Squared distances between points, from coordinates, from a distance matrix or from a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.graphs.edges import node_set, ordered_pairs
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.inputs import (
    SYMMETRY_TOLERANCE,
    MatrixLike,
    finite_matrix,
    integer,
    position,
    positive,
    read_only,
    require_moderate,
    require_squarable,
    symmetric_matrix,
)
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.neighbors import nearest, pair_squares, row_blocks, smallest
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array, Indices

DEFAULT_NEIGHBORS = 4
"""Neighbours per point when no rule is given; Weinberger (2007, 3.1.12) has 3 to 5."""


def squared_distances_of(kernel: Array, own: Array, diagonal: Array) -> Array:
    """(t, n) the squared distances of t new points from n others: own_i + diagonal_j − 2 kernel_ij.

    `kernel`, (t, n), is between new points and the others, `own`, (t,), and `diagonal`, (n,), that
    of each with itself. Values within the rounding error of that subtraction count as zero.

    >>> squared_distances_of(np.array([[2.0, 6.0]]), np.array([4.0]), np.array([1.0, 9.0]))
    array([[1., 1.]])
    """
    squared = own[:, None] + diagonal - 2 * kernel
    scale = np.abs(own)[:, None] + np.abs(diagonal)
    if np.any(squared < -SYMMETRY_TOLERANCE * scale):
        i, j = position(squared.argmin(), squared.shape)
        raise InputError(
            f"the kernel gives new point {i} and training point {j} the squared distance "
            f"{squared[i, j]:g} < 0: pass inner products, and k(x, x) of new points as diagonal"
        )
    return np.where(squared <= 8 * np.finfo(float).eps * scale, 0.0, squared)


@dataclass(frozen=True, eq=False)
class SquaredDistances:
    """Squared distances ‖x_i − x_j‖² between n points, computed when they are needed.

    Made by `from_points`, `from_distances` or `from_kernel`; `of` chooses among them. Points are
    kept as points: no n×n matrix is formed from them.

    Examples
    --------
    >>> lengths = SquaredDistances.from_points([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    >>> lengths.between([0, 0], [1, 2])
    array([25.,  1.])
    """

    _points: Array | None = None  # (n, d)
    _table: Array | None = None  # (n, n), squared, symmetric

    @classmethod
    @one_blas_thread
    def of(
        cls,
        X: MatrixLike | None = None,
        *,
        distances: MatrixLike | None = None,
        kernel: MatrixLike | None = None,
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
    def from_points(cls, X: MatrixLike, *, name: str = "X") -> SquaredDistances:
        """Euclidean distances of the rows of X, (n, d); errors call it `name`.

        >>> SquaredDistances.from_points([[0], [2], [5]]).to_all(0)
        array([ 0.,  4., 25.])
        """
        points = finite_matrix(X, name)
        require_moderate(points, name)
        return cls(_points=read_only(points))

    @classmethod
    def from_distances(cls, D: MatrixLike) -> SquaredDistances:
        """Distances D, (n, n): lengths, not squared; they need not be Euclidean.

        >>> SquaredDistances.from_distances([[0, 3], [3, 0]]).to_all(0)
        array([0., 9.])
        """
        lengths = symmetric_matrix(D, "distances")
        require_moderate(lengths, "distances")
        if (lengths < 0).any():
            i, j = position(lengths.argmin(), lengths.shape)
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
        return cls(_table=read_only(lengths**2))

    @classmethod
    def from_kernel(cls, A: MatrixLike) -> SquaredDistances:
        """Distances of the feature space of a kernel A, (n, n): d_ij = A_ii + A_jj − 2 A_ij.

        Values within the rounding error of that subtraction count as zero.

        >>> SquaredDistances.from_kernel([[1, 0], [0, 4]]).between(0, 1)
        array(5.)
        """
        gram = symmetric_matrix(A, "kernel")
        diagonal = gram.diagonal()
        squared = diagonal[:, None] + diagonal[None, :] - 2 * gram
        if squared.min() < -SYMMETRY_TOLERANCE * np.abs(diagonal).max():
            i, j = position(squared.argmin(), squared.shape)
            raise InputError(
                f"the kernel gives points {i} and {j} the squared distance {squared[i, j]:g} < 0: "
                "it is not positive semidefinite (if it holds distances, pass distances=)"
            )
        resolution = 8 * np.finfo(float).eps * np.abs(diagonal)
        squared[squared <= resolution[:, None] + resolution[None, :]] = 0.0
        return cls(_table=read_only(squared))

    @property
    def n_points(self) -> int:
        """Number of points n.

        >>> SquaredDistances.from_points([[0], [2], [5]]).n_points
        3
        """
        return len(self._source)

    @property
    def _source(self) -> Array:
        source = self._points if self._table is None else self._table
        if source is None:
            raise InputError("make SquaredDistances by from_points, from_distances or from_kernel")
        return source

    def between(self, i: ArrayLike, j: ArrayLike) -> Array:
        """Squared distances of the pairs (i, j), in the broadcast shape of the two index arrays.

        >>> SquaredDistances.from_points([[0], [2], [5]]).between(0, [0, 1, 2])
        array([ 0.,  4., 25.])
        """
        first, second = np.broadcast_arrays(np.asarray(i, np.int64), np.asarray(j, np.int64))
        if self._table is not None:
            return np.asarray(self._table[first, second])
        squared = pair_squares(self._source, self._source, first.ravel(), second.ravel())
        return squared.reshape(first.shape)

    def to_all(self, i: ArrayLike) -> Array:
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
    def neighbors(self, n_neighbors: int) -> Indices:
        """The k nearest other points of every point, nearest first, (n, k).

        Sorted by (distance, index), so that ties have one answer. A point is never its own
        neighbour; a duplicate of it may be.

        >>> SquaredDistances.from_points([[0], [1], [1], [5]]).neighbors(2)
        array([[1, 2],
               [2, 0],
               [1, 0],
               [1, 2]])
        """
        k, n = neighbor_count(n_neighbors, self.n_points), self.n_points
        if self._table is None:
            return nearest([self._source], [self._source], k, themselves=True)[0]
        found = np.empty((n, k), dtype=np.int64)
        for part in row_blocks(n, n):
            continue_or_raise()
            rows = self._table[part].copy()
            rows[np.arange(len(rows)), np.arange(n)[part]] = np.inf
            found[part] = smallest(rows, k)
        return found

    @one_blas_thread
    def nearest_to(
        self,
        n_neighbors: int,
        X: MatrixLike | None = None,
        *,
        distances: MatrixLike | None = None,
        among: ArrayLike | None = None,
    ) -> tuple[Indices, Array]:
        """The k points nearest to each of t new ones, nearest first: indices and squares, (t, k).

        The new points are rows of X, (t, d), or are given by their distances to all n points,
        (t, n), where this was made from a matrix. `among`, (r,), limits the choice. A row's
        answer does not depend on the other rows; ties go to the smaller index.

        >>> SquaredDistances.from_points([[0], [2], [5]]).nearest_to(2, [[1], [5]])
        (array([[0, 1],
               [2, 1]]), array([[1., 1.],
               [0., 9.]]))
        """
        new = self._new_rows(X, distances)
        chosen = np.arange(self.n_points) if among is None else node_set(among, self.n_points)
        k = neighbor_count(n_neighbors, len(chosen) + 1)
        if X is None:
            parts = [smallest(new[part][:, chosen] ** 2, k) for part in row_blocks(*new.shape)]
            found = chosen[np.concatenate(parts)]
            return found, np.take_along_axis(new, found, axis=1) ** 2
        found = chosen[nearest([new], [self._source[chosen]], k)[0]]
        # Coordinate by coordinate: the same for one row and for many.
        squared = np.zeros(found.shape)
        for x, points in zip(new.T, self._source.T, strict=True):
            squared += (x[:, None] - points[found]) ** 2
        return found, squared

    def to_new(
        self,
        among: ArrayLike,
        X: MatrixLike | None = None,
        *,
        distances: MatrixLike | None = None,
    ) -> Array:
        """Squared distances from the points `among`, (r,), to t new ones, (r, t).

        The new points are given as for `nearest_to`. An entry depends on its two points alone.

        >>> SquaredDistances.from_points([[0], [2], [5]]).to_new([0, 2], [[1], [5]])
        array([[ 1., 25.],
               [16.,  0.]])
        """
        new, chosen = self._new_rows(X, distances), np.asarray(among, np.int64)
        if X is None:
            return np.asarray(new.T[chosen] ** 2)
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(self._source[chosen], new, "sqeuclidean"))

    def subset(self, among: ArrayLike) -> SquaredDistances:
        """The same distances between the points `among`, (r,), alone.

        >>> SquaredDistances.from_points([[0], [2], [5]]).subset([0, 2]).to_all(0)
        array([ 0., 25.])
        """
        chosen = np.asarray(among, np.int64)
        if self._table is not None:
            return SquaredDistances(_table=read_only(self._table[np.ix_(chosen, chosen)]))
        return SquaredDistances(_points=read_only(self._source[chosen]))

    def _new_rows(self, X: MatrixLike | None, distances: MatrixLike | None) -> Array:
        """New points (t, d) or their distances to all points (t, n), checked."""
        name, value = ("X_new", X) if distances is None else ("distances", distances)
        if value is None or (X is not None and distances is not None):
            raise InputError("pass the new points, or distances= from them to all points")
        if X is not None and self._points is None:
            raise InputError(
                "the embedding was made from distances or a kernel, so there are no points to "
                "compare X_new with: pass distances= from the new points to all of its points"
            )
        rows = finite_matrix(value, name, self.n_points if X is None else self._source.shape[1])
        require_squarable(rows, name)
        if distances is not None and (rows < 0).any():
            raise InputError(f"distances are lengths ≥ 0; the smallest is {rows.min():g}")
        return rows

    @property
    def points(self) -> Array | None:
        """The points, (n, d), where they are known.

        >>> SquaredDistances.from_distances([[0, 1], [1, 0]]).points is None
        True
        """
        return self._points

    @one_blas_thread
    def within(self, radius: float) -> Indices:
        """Pairs i < j at a distance (not squared) of at most radius, (p, 2).

        >>> SquaredDistances.from_points([[0], [2], [5]]).within(3)
        array([[0, 1],
               [1, 2]])
        """
        reach, n = positive(radius, "radius", most=np.inf), self.n_points
        pairs = []
        for part in row_blocks(n, n):
            continue_or_raise()
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
        edges = np.unique(ordered_pairs(pairs, self.n_points), axis=0)
        return NeighborhoodGraph(self.n_points, edges, self.between(edges[:, 0], edges[:, 1]))


def neighbor_count(n_neighbors: int, n_points: int) -> int:
    """`n_neighbors` if every one of the points has so many others."""
    k = integer(n_neighbors, "n_neighbors")
    if n_points == 1:
        raise InputError("one point has no neighbours: pass at least two points")
    if k >= n_points:
        raise InputError(
            f"n_neighbors={k}, but {n_points} points have at most {n_points - 1} others each: "
            f"pass n_neighbors ≤ {n_points - 1}, or more points"
        )
    return k
