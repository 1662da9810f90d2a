"""Tensions that fit the lengths of a graph: bounds on whole graphs, and starts for `lowrank`."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest

import sdpkit
from sdpkit import Status
from sdpkit.graphs.spectrum import smoothest
from sdpkit.numerics.tensions import fitted_tensions, with_short_edges
from sdpkit.problems.whole_graph import whole_graph_bounds
from sdpkit.typing import Array


@functools.cache
def large_roll() -> sdpkit.MVU:
    X = sdpkit.datasets.swiss_roll(1600, noise_dims=0)
    return sdpkit.MVU(X, n_neighbors=4, form="inequality", connect="bridge")


def test_fitted_tensions_are_nearly_optimal() -> None:
    graph = large_roll().neighborhood
    B, d = graph.incidence(), graph.squared_lengths

    def lowest(w: Array) -> tuple[Array, Array]:
        return smoothest(graph.laplacian(w), 8)

    found = fitted_tensions(d, lowest, B)
    upper = float(d @ found.weights) / float(lowest(found.weights)[0][0])
    assert found.value == pytest.approx(upper, rel=1e-6)
    short = with_short_edges(found.factor, B, d)
    assert (np.square(B @ short).sum(axis=1) <= d * (1 + 1e-9)).all()
    assert np.abs(short.mean(axis=0)).max() < 1e-9
    lower = float(np.square(short).sum())
    assert 0.85 * upper < lower < upper


@pytest.mark.slow
def test_long_graphs_of_the_inequality_form_are_certified() -> None:
    """From the slowest modes it takes thousands of steps."""
    found = sdpkit.solve(large_roll(), solver="lowrank", tol=1e-2, max_iter=500)
    assert found.status is Status.OPTIMAL


@pytest.mark.slow
@pytest.mark.parametrize("surface", ["roll", "sphere"])
def test_ten_thousand_points_are_certified_in_a_minute(surface: str) -> None:
    X = sdpkit.datasets.swiss_roll(10_000, noise_dims=0)
    if surface == "sphere":
        X = np.random.default_rng(0).standard_normal((10_000, 3))
        X /= np.linalg.norm(X, axis=1)[:, None]
    problem = sdpkit.MVU(X, n_neighbors=4, form="inequality", connect="bridge")
    began = time.process_time()
    found = sdpkit.solve(problem, solver="lowrank", tol=1e-2)
    assert found.status is Status.OPTIMAL
    assert time.process_time() - began < 60


def test_bounds_of_a_whole_graph_enclose_its_optimum() -> None:
    """From any embedding; the optimum of a path of n points is (n³ − n)/12."""
    problem = sdpkit.MVU(graph=sdpkit.datasets.path_graph(300), form="inequality")
    optimum = (300**3 - 300) / 12
    for outputs in (np.zeros((300, 2)), np.random.default_rng(0).standard_normal((300, 3))):
        found = whole_graph_bounds(problem.neighborhood, outputs)
        assert found.lower <= optimum * (1 + 1e-9)
        assert found.upper >= optimum * (1 - 1e-9)
        assert found.relative_gap < 0.1
        stretch = np.square(problem.neighborhood.incidence() @ found.coordinates).sum(axis=1)
        assert stretch.max() <= 1 + 1e-9


def test_a_small_basis_bounds_the_whole_program() -> None:
    X = sdpkit.datasets.swiss_roll(300, noise_dims=0)
    problem = sdpkit.VariationalMVU(X, n_neighbors=5)
    found = problem.whole_graph(sdpkit.solve(problem))
    whole = sdpkit.solve(sdpkit.MVU(X, n_neighbors=5, form="inequality"), tol=1e-2)
    assert found.lower <= whole.certificate.safe_bound
    assert found.upper >= whole.objective
    assert found.relative_gap < 0.12
    assert "the optimum is between" in repr(found)
