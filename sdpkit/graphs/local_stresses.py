"""Where a graph has equilibrium stresses: clusters of edges, each searched for null directions.

A stress of points X is a vector ω with R(X)ᵀω = 0, R the rigidity matrix, whose row of the edge
(i, j) holds x_i − x_j at i and x_j − x_i at j. Neighbourhood graphs with few edges per node are
flexible but for a few small clusters, and stresses live there alone. A random vector, projected
onto all stresses, is zero on every other edge:

    g − R(RᵀR + δI)⁻¹Rᵀg        which tends to the projection with δ, and faster if it is repeated

One sparse factorisation finds the edges; the components of their graph are the clusters, and
`exposed_directions` takes each of them by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from sdpkit.graphs.stresses import exposed_directions, extended, supported
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.typing import Array, Bools, Indices

_MAX_NODES = 60  # of a cluster: larger ones are no longer local, and take longer
_DELTA = 1e-10  # singular values of rows of length one are told from zero down to its root
_PROJECTIONS = 6
_CARRIES = 1e-6  # an edge on which a projected standard normal vector is smaller has no stress
_INDEPENDENT = 1e-4  # edges of a node, by the smallest singular value of their unit vectors
# Sparse factors fill in more in higher dimensions; there, more unknowns take over a second.
_FEW_DIMENSIONS, _MAX_UNKNOWNS = 4, 10_000
# A matrix of up to so many rows, with this share of nonzeros or more, has a dense factor.
_MAX_DENSE, _DENSE = 3000, 0.1


def local_directions(points: ArrayLike, edges: ArrayLike, null: ArrayLike) -> Array:
    """(n, k) orthonormal directions beyond `null` on which every Gram matrix of these lengths
    vanishes, from small clusters of stressed edges. `null` are orthonormal directions beside the
    constant that are known already, each on the nodes of one cluster or of several.

    Two hexagons with their long diagonals, joined by an edge:

    >>> hexagon = np.array([[np.cos(t), np.sin(t)] for t in np.arange(6) * np.pi / 3])
    >>> one = [[i, (i + 1) % 6] for i in range(6)] + [[i, i + 3] for i in range(3)]
    >>> both = [*one, *([i + 6, j + 6] for i, j in one), [0, 6]]
    >>> points = np.vstack([hexagon, hexagon + [5.0, 0.3]])
    >>> local_directions(points, both, np.zeros((12, 0))).shape
    (12, 6)
    """
    x, known = np.asarray(points, dtype=np.float64), np.asarray(null, dtype=np.float64)
    ends = np.asarray(edges, dtype=np.int64)
    found = known
    for nodes, own in _clusters(x, ends) if len(ends) else ():
        continue_or_raise()
        if nodes.size > _MAX_NODES:
            continue
        constant = np.full((nodes.size, 1), nodes.size**-0.5)
        local = np.hstack([constant, supported(found, nodes)])
        more = exposed_directions(x[nodes], own, local)
        found = extended(found, nodes, more) if more.shape[1] else found
    return found[:, known.shape[1] :]


def is_stressed(points: Array, edges: Indices) -> bool:
    """Whether some stress is not zero; False too where looking for one would take too long."""
    return len(edges) > 0 and any(True for _ in _clusters(points, edges))


def _clusters(points: Array, edges: Indices) -> Iterator[tuple[Indices, Indices]]:
    """The nodes of each cluster, and its stressed edges in numbers of these nodes."""
    n, dimensions = points.shape
    held = _without_free_nodes(points, edges)
    unknowns = dimensions * np.unique(held).size
    if not unknowns or (dimensions > _FEW_DIMENSIONS and unknowns > _MAX_UNKNOWNS):
        return
    stressed = held[_carries_stress(points, held)]
    graph = sp.csr_array((np.ones(len(stressed)), tuple(stressed.T)), shape=(n, n))
    label = connected_components(graph, directed=False)[1]
    for k in np.unique(label[stressed[:, 0]]):
        continue_or_raise()
        nodes = np.flatnonzero(label == k)
        yield nodes, np.searchsorted(nodes, stressed[label[stressed[:, 0]] == k])


def _without_free_nodes(points: Array, edges: Indices) -> Indices:
    """The edges without those of nodes whose edges are linearly independent, again and again: no
    stress is in equilibrium there."""
    n, dimensions = points.shape
    while len(edges):
        sides = _unit_sides(points, edges)
        at = edges.T.ravel()
        degrees = np.bincount(at, minlength=n)
        own = np.split(np.argsort(at, kind="stable") % len(edges), np.cumsum(degrees)[:-1])
        free = np.zeros(n, dtype=bool)
        for node in np.flatnonzero((degrees > 0) & (degrees <= dimensions)):
            continue_or_raise()
            least = np.linalg.svd(sides[own[node]], compute_uv=False)[-1]
            free[node] = least > _INDEPENDENT
        if not free.any():
            break
        edges = edges[~free[edges].any(axis=1)]
    return edges


def _carries_stress(points: Array, edges: Indices) -> Bools:
    """(m,) the edges on which some stress of the points is not zero."""
    rigidity = _rigidity(points, edges)
    continue_or_raise()
    solve = _factored(rigidity.T @ rigidity + _DELTA * sp.eye_array(rigidity.shape[1]))
    stress = np.random.default_rng(0).standard_normal(len(edges))
    for _ in range(_PROJECTIONS):
        continue_or_raise()
        stress = stress - rigidity @ solve(rigidity.T @ stress)
    return np.asarray(np.abs(stress) > _CARRIES)


def _factored(normal: sp.csr_array) -> Callable[[Array], Array]:
    """Solves with a positive definite matrix, whose factor is dense where the matrix is."""
    n = normal.shape[0]
    if n <= _MAX_DENSE and normal.nnz > _DENSE * n * n:
        with suppress(np.linalg.LinAlgError):  # rounding may leave it hardly definite
            dense = scipy.linalg.cho_factor(normal.toarray(), overwrite_a=True, check_finite=False)
            return lambda rhs: np.asarray(scipy.linalg.cho_solve(dense, rhs))
    sparse = scipy.sparse.linalg.splu(
        sp.csc_array(normal),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return lambda rhs: np.asarray(sparse.solve(rhs))


def _rigidity(points: Array, edges: Indices) -> sp.csr_array:
    """(m, n·D) the rigidity matrix, its rows of length one but for √2."""
    n, dimensions = points.shape
    sides = _unit_sides(points, edges)
    columns = (dimensions * edges[:, :, None] + np.arange(dimensions)).reshape(len(edges), -1)
    starts = 2 * dimensions * np.arange(len(edges) + 1)
    values = np.hstack([sides, -sides]).ravel()
    return sp.csr_array((values, columns.ravel(), starts), shape=(len(edges), n * dimensions))


def _unit_sides(points: Array, edges: Indices) -> Array:
    """(m, D) the directions of the edges."""
    sides = points[edges[:, 0]] - points[edges[:, 1]]
    return np.asarray(sides / np.linalg.norm(sides, axis=1)[:, None])
