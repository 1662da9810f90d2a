"""How the instances of the suites are made: each function returns a problem or a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

import sdpkit
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program

if TYPE_CHECKING:
    from sdpkit.problems.mvu import MVU


def roll(n: int, n_neighbors: int = 4, seed: int = 0, **options: Any) -> MVU:
    """MVU of the 8-dimensional Swiss roll, in units in which the mean squared length is one."""
    return sdpkit.MVU(_scaled_roll(n, n_neighbors, seed), n_neighbors=n_neighbors, **options)


def _scaled_roll(n: int, n_neighbors: int, seed: int) -> Any:
    X = sdpkit.datasets.swiss_roll(n, random_state=seed)
    graph = sdpkit.graphs.neighborhood_graph(X, n_neighbors=n_neighbors)
    return X / np.sqrt(graph.squared_lengths.mean())


def of_graph(name: str, *sizes: int, **options: Any) -> Any:
    """MVU of a graph of `sdpkit.datasets`."""
    return sdpkit.MVU(graph=getattr(sdpkit.datasets, f"{name}_graph")(*sizes), **options)


def knot(n: int) -> Any:
    """MVU of a trefoil knot."""
    return sdpkit.MVU(sdpkit.datasets.trefoil_knot(n), n_neighbors=4)


def star(n_spokes: int, points: int) -> Any:
    """MVE of a star."""
    return sdpkit.MVE(graph=sdpkit.datasets.star_graph(n_spokes, points))


def embedded_roll(n: int) -> Any:
    """MVE of the roll, from the answer of MVU."""
    return sdpkit.MVE(_scaled_roll(n, 4, 0), n_neighbors=4, start="mvu")


def full_tree(n: int) -> Any:
    """FULL over a spanning tree of the roll."""
    X = _scaled_roll(n, 4, 0)
    return sdpkit.MVU(X, graph=sdpkit.graphs.spanning_tree(X), full=True)


def iris(step: int = 1, n_neighbors: int = 3) -> Any:
    """LMNN of every `step`-th iris."""
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return sdpkit.LMNN(X[::step], y[::step], n_neighbors=n_neighbors)


def circles(n: int) -> Any:
    """LMNN of two concentric circles."""
    X, y = sdpkit.datasets.concentric_circles(n)
    return sdpkit.LMNN(X, y, n_neighbors=2)


def wine() -> Any:
    """LMNN of the wines."""
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return sdpkit.LMNN(X, y, n_neighbors=3)


def digits(step: int = 1) -> Any:
    """LMNN of every `step`-th digit of 8 × 8 pixels."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return sdpkit.LMNN(X[::step], y[::step], n_neighbors=3)


def clouds(n: int, d: int, n_classes: int) -> Any:
    """Classes that overlap: normal clouds around normal centres, features of unequal scale."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    centres = 1.5 * rng.standard_normal((n_classes, d))
    X = (centres[y] + rng.standard_normal((n, d))) * np.geomspace(0.3, 3.0, d)
    return sdpkit.LMNN(X, y, n_neighbors=3)


def network(n: int, radius: float, n_anchors: int = 0, noise: float = 0.05) -> Any:
    """Sensors in the unit square, lengths measured up to a relative error."""
    rng = np.random.default_rng(0)
    true = rng.random((n, 2))
    graph = sdpkit.graphs.neighborhood_graph(true, radius=radius)
    errors = 1 + noise * rng.standard_normal(graph.n_edges)
    i, j = graph.edges.T
    lengths = np.sqrt(graph.squared_lengths) * errors
    measured = sp.csr_array((np.tile(lengths, 2), (np.r_[i, j], np.r_[j, i])), shape=(n, n))
    if not n_anchors:
        return sdpkit.Localization(measured)
    anchors = rng.random((n_anchors, 2))
    heard = cdist(true, anchors) * (1 + noise * rng.standard_normal((n, n_anchors)))
    heard[heard > 2 * radius] = 0.0
    return sdpkit.Localization(
        measured, anchors=anchors, anchor_lengths=heard, n_basis=None if n <= 30 else 10
    )


def new_point(k: int, r: int) -> Any:
    """A point among k neighbours in r dimensions, distances off by a tenth."""
    rng = np.random.default_rng(0)
    neighbors, point = rng.standard_normal((k, r)), 0.5 * rng.standard_normal(r)
    lengths = np.linalg.norm(neighbors - point, axis=1) * (1 + 0.1 * rng.standard_normal(k))
    return sdpkit.OutOfSample(neighbors, np.abs(lengths))


def basis_roll(n: int, n_basis: int, **options: Any) -> Any:
    """Variational MVU of a Swiss roll."""
    X = sdpkit.datasets.swiss_roll(n, noise_dims=0)
    return sdpkit.VariationalMVU(X, n_neighbors=6, n_basis=n_basis, **options)


def covering(n: int, d: int) -> Any:
    """The ellipsoid of least volume over normal points."""
    return sdpkit.CoveringEllipsoid(np.random.default_rng(0).standard_normal((n, d)))


def similar_pairs(step: int) -> Any:
    """MMC of every `step`-th iris."""
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return sdpkit.MMC(X[::step], y[::step])


def triangle() -> Any:
    """Sides 1, 1, 3."""
    return sdpkit.MVU(graph=np.array([[0.0, 1, 1], [1, 0, 3], [1, 3, 0]]))


def short_cut(n: int) -> Any:
    """A ring of unit lengths with a chord longer than half of the way around."""
    ring = sdpkit.datasets.cycle_graph(n).tolil()
    ring[0, n // 2] = ring[n // 2, 0] = 0.75 * n
    return sdpkit.MVU(graph=ring.tocsr())


def two_parts() -> Any:
    """MVU of two paths that nothing joins: the parts fly apart."""
    parts = sp.block_diag([sdpkit.datasets.path_graph(3), sdpkit.datasets.path_graph(4)])
    i, j = sp.triu(parts).coords
    incidence = np.zeros((i.size, 7))
    incidence[np.arange(i.size), i], incidence[np.arange(i.size), j] = 1.0, -1.0
    block = Block.of(7, incidence, name="K", cost=Cost.of(7, identity=1.0), null=np.ones((7, 1)))
    return Program.of(block, np.ones(i.size), name="MVU of two paths, not joined")
