"""The data sets are what their definitions say, and the same every time."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import sdpkit
from sdpkit.datasets import comb, cycle_graph, path_graph, spokes, swiss_roll, trefoil_knot
from sdpkit.errors import InputError
from sdpkit.graphs.build import neighborhood_graph


def test_swiss_roll_is_reproducible_to_the_draw() -> None:
    r = np.random.default_rng(3)
    t = 1.5 * np.pi * (1 + 2 * r.random(50))
    h = 21 * r.random(50)
    X = np.column_stack([t * np.cos(t), h, t * np.sin(t), 0.3 * r.standard_normal((50, 5))])
    np.testing.assert_allclose(swiss_roll(50, random_state=3), X - X.mean(axis=0), atol=1e-12)


def test_swiss_roll_lies_on_its_sheet() -> None:
    X, places = swiss_roll(200, noise_dims=0, return_parameters=True)
    t, h = places.T
    assert X.shape == (200, 3)
    assert ((1.5 * np.pi <= t) & (t <= 4.5 * np.pi) & (h >= 0) & (h <= 21)).all()
    rolled = np.column_stack([t * np.cos(t), h, t * np.sin(t)])
    np.testing.assert_allclose(X - X[0], rolled - rolled[0], atol=1e-12)


def test_seeds_and_centres() -> None:
    assert not np.array_equal(swiss_roll(20, random_state=1), swiss_roll(20, random_state=2))
    for X in (
        swiss_roll(40),
        trefoil_knot(40, noise_dims=2, noise=0.1),
        spokes(5, 4, noise_dims=1, noise=0.1),
        comb(5, 4, noise_dims=1, noise=0.1),
    ):
        np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_array_equal(
        spokes(5, 4, noise_dims=3, noise=0.1), spokes(5, 4, noise_dims=3, noise=0.1)
    )


def test_trefoil_knot_is_a_closed_curve_with_a_threefold_symmetry() -> None:
    X = trefoil_knot(1617)
    assert X.shape == (1617, 3)
    step = np.linalg.norm(np.roll(X, -1, axis=0) - X, axis=1)
    assert step.max() < 0.03  # the last point meets the first
    a = 2 * np.pi / 3
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    turned = X @ turn.T
    gap = np.linalg.norm(turned[:, None] - X[None, :], axis=2).min(axis=1)
    assert gap.max() < 1e-9
    graph = neighborhood_graph(X, n_neighbors=4)
    assert graph.is_connected
    assert graph.n_edges == 2 * 1617  # two neighbours each way along the curve, no shortcuts


def test_spokes_are_unit_steps_from_the_centre() -> None:
    X = spokes(7, 5)
    assert X.shape == (36, 2)
    radius = np.linalg.norm(X[1:] - X[0], axis=1)
    np.testing.assert_allclose(radius, np.tile(np.arange(1, 6), 7))
    np.testing.assert_allclose(X[0], 0, atol=1e-12)


def test_comb_is_a_tree_of_teeth() -> None:
    """Figure 3.15 of the thesis: 300 points, no tooth is a neighbour of another, and unfolding
    spreads the two dimensions of the inputs into more."""
    assert comb().shape == (300, 2)
    X = comb(4, 8, spacing=6)
    assert len(X) == 19 + 32
    graph = neighborhood_graph(X, n_neighbors=3)
    assert graph.is_connected
    tooth = (np.arange(51) - 19) // 8
    ends = tooth[graph.edges[(graph.edges >= 19).all(axis=1)]]
    assert np.all(ends[:, 0] == ends[:, 1])
    problem = sdpkit.MVU(X, n_neighbors=3)
    spectrum = problem.recover(sdpkit.solve(problem)).eigenvalues
    assert (spectrum > 1e-2 * spectrum.sum()).sum() > 2


def test_every_set_is_named() -> None:
    made = {
        name
        for name, value in vars(sdpkit.datasets).items()
        if inspect.isfunction(value)
        and value.__module__ == "sdpkit.datasets"
        and not name.startswith("_")
    }
    assert made == set(sdpkit.datasets.__all__)


def test_paths_and_cycles() -> None:
    path, cycle = path_graph(5), cycle_graph(5)
    assert path.toarray().sum(axis=0).tolist() == [1, 2, 2, 2, 1]
    assert cycle.toarray().sum(axis=0).tolist() == [2] * 5
    for graph in (path.toarray(), cycle.toarray()):
        np.testing.assert_array_equal(graph, graph.T)
    assert path_graph(1).shape == (1, 1)
    assert path_graph(1).nnz == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: swiss_roll(0), "n=0: pass an integer of at least 1"),
        (lambda: swiss_roll(2.5), "n=2.5"),  # type: ignore[call-overload]
        (lambda: swiss_roll(True), "n=True"),
        (lambda: swiss_roll(5, noise_dims=-1), "noise_dims=-1: pass an integer of at least 0"),
        (lambda: swiss_roll(5, noise=-0.1), "noise=-0.1"),
        (lambda: swiss_roll(5, noise=float("nan")), "noise=nan"),
        (lambda: trefoil_knot(0), "n=0"),
        (lambda: spokes(0, 3), "n_spokes=0"),
        (lambda: spokes(3, 0), "points_per_spoke=0"),
        (lambda: comb(0, 3), "n_teeth=0"),
        (lambda: comb(3, 0), "points_per_tooth=0"),
        (lambda: path_graph(0), "n=0"),
        (lambda: cycle_graph(2), "n=2: pass an integer of at least 3"),
    ],
)
def test_refused(call, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=re.escape(words)):
        call()
