"""Local search: derivatives, descent, invariance, and frameworks that can only be one thing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sdpkit import InputError
from sdpkit.graphs.build import neighborhood_graph
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.results.quality import position_errors
from sdpkit.results.refinement import _Energy, refine
from sdpkit.typing import Array

some = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
weights = st.sampled_from([1.0, 0.999, 0.9])


def framework(seed: int, n: int = 25, p: int = 2) -> tuple[NeighborhoodGraph, Array]:
    X = np.random.default_rng(seed).standard_normal((n, p))
    return neighborhood_graph(X, n_neighbors=8), X


def value_of(y: Array, graph: NeighborhoodGraph, omega: float) -> float:
    """F from its definition, with the variance as a sum over ordered pairs."""
    i, j = graph.edges.T
    error = ((y[i] - y[j]) ** 2).sum(axis=1) - graph.squared_lengths
    pairs = ((y[:, None] - y[None]) ** 2).sum() / (2 * len(y))
    return float(omega * (error @ error) - (1 - omega) * pairs)


def energy_of(graph: NeighborhoodGraph, omega: float, p: int) -> _Energy:
    d = graph.squared_lengths
    return _Energy(graph.incidence(), d, omega, np.zeros((len(d), p)), floating=True)


@some
@given(seeds, weights)
def test_value_gradient_and_line_are_those_of_the_definition(seed: int, omega: float) -> None:
    graph, _ = framework(seed)
    rng = np.random.default_rng(seed)
    y, step = rng.standard_normal((25, 3)), rng.standard_normal((25, 3))
    energy = energy_of(graph, omega, 3)
    D = energy.differences(y)
    error = energy.errors(D)
    value = value_of(y, graph, omega)
    assert energy.value(y, error) == pytest.approx(value, rel=1e-10)
    h = 1e-5
    slope = (value_of(y + h * step, graph, omega) - value_of(y - h * step, graph, omega)) / (2 * h)
    assert np.vdot(energy.gradient(y, D, error), step) == pytest.approx(slope, rel=1e-5)
    line = energy.along(y, step, D, error)
    for a in (-0.5, 0.3, 2.0):
        polynomial = line.c1 * a + line.c2 * a**2 + line.c3 * a**3 + line.c4 * a**4
        there = value_of(y + a * step, graph, omega)
        assert polynomial == pytest.approx(there - value, rel=1e-8, abs=1e-8 * abs(value))


@some
@given(seeds, weights)
def test_it_descends_to_a_stationary_point(seed: int, omega: float) -> None:
    graph, X = framework(seed)
    start = X + 0.3 * np.random.default_rng(seed).standard_normal(X.shape)
    found = refine(start, graph.incidence(), graph.squared_lengths, omega=omega, tol=1e-12)
    assert found.value <= value_of(start, graph, omega)
    end = value_of(found.coordinates, graph, omega)
    assert found.value == pytest.approx(end, rel=1e-9, abs=1e-9)
    energy = energy_of(graph, omega, 2)

    def slope(y: Array) -> float:
        D = energy.differences(y)
        return float(np.abs(energy.gradient(y, D, energy.errors(D))).max())

    assert slope(found.coordinates) <= 1e-3 * slope(start)


@some
@given(seeds)
def test_exact_lengths_are_found_again(seed: int) -> None:
    graph, X = framework(seed, n=30)
    start = X + 0.05 * np.random.default_rng(seed).standard_normal(X.shape)
    found = refine(start, graph.incidence(), graph.squared_lengths)
    assert found.value <= 1e-20 * float(graph.squared_lengths @ graph.squared_lengths)
    assert position_errors(found.coordinates, X).max() < 1e-5


@some
@given(seeds, st.floats(0.1, 10))
def test_rotation_translation_and_scale(seed: int, scale: float) -> None:
    graph, X = framework(seed)
    rng = np.random.default_rng(seed)
    start = X + 0.1 * rng.standard_normal(X.shape)
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    B, d = graph.incidence(), graph.squared_lengths * rng.uniform(0.9, 1.1, graph.n_edges)
    first = refine(start, B, d, tol=1e-10)
    second = refine(scale * start @ turn + 3, B, scale**2 * d, tol=1e-10)
    assert second.value == pytest.approx(scale**4 * first.value, rel=1e-5)


def test_fixed_points_hold_the_frame() -> None:
    """One free point and three fixed ones: D₀ carries what is fixed."""
    fixed = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    B, d = sp.csr_array(np.ones((3, 1))), np.array([2.0, 10.0, 5.0])
    found = refine([[0.8, 0.7]], B, d, offset=-fixed)
    assert np.allclose(found.coordinates, [[1.0, 1.0]], atol=1e-7)


def test_the_hessian_ends_what_the_laplacian_leaves() -> None:
    """A long strip is stiff along its edges and soft in bending, which a Laplacian does not see."""
    rng = np.random.default_rng(0)
    strip = rng.random((150, 2)) * [20.0, 1.0]
    graph = neighborhood_graph(strip, n_neighbors=6)
    d = graph.squared_lengths * rng.uniform(0.9, 1.1, graph.n_edges) ** 2
    bent = np.column_stack([np.cos(strip[:, 0] / 15), np.sin(strip[:, 0] / 15)])
    start = (15 + strip[:, 1:]) * bent
    plain = refine(start, graph.incidence(), d, hessian=False)
    found = refine(start, graph.incidence(), d)
    best = refine(strip, graph.incidence(), d, tol=1e-12, max_iter=2000)
    assert found.value - best.value < 0.1 * (plain.value - best.value)


def test_no_edges_no_change() -> None:
    found = refine([[1.0, 2.0]], np.zeros((0, 1)), [])
    assert np.array_equal(found.coordinates, [[1.0, 2.0]])
    assert found.iterations == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[0.0], [1.0], [2.0]], [[1.0, -1.0]], [1.0]), "one row per point"),
        (([[0.0], [np.nan]], [[1.0, -1.0]], [1.0]), "finite"),
        (([[0.0], [1.0]], [[1.0, -1.0]], [1.0, 2.0]), "per edge"),
        (([[0.0], [1.0]], [[1.0, -1.0]], [-1.0]), "≥ 0"),
    ],
)
def test_bad_input(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        refine(*arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="omega"):
        refine([[0.0], [1.0]], [[1.0, -1.0]], [1.0], omega=0.0)
    with pytest.raises(InputError, match="offset"):
        refine([[0.0], [1.0]], [[1.0, -1.0]], [1.0], offset=[[1.0, 2.0]])
