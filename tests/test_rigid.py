"""Rigid bodies: what lengths fix in any dimension, and nothing that they do not."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit.graphs.build import neighborhood_graph
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.graphs.rigid import flat_directions, rigid_bodies
from sdpkit.graphs.stresses import exposed_directions
from sdpkit.typing import Array

quick = settings(deadline=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)


def points(seed: int, n: int) -> Array:
    return np.random.default_rng(seed).standard_normal((n, 3))


def cliques_of(
    X: Array, *groups: list[int], more: tuple[tuple[int, int], ...] = ()
) -> NeighborhoodGraph:
    edges = {pair for group in groups for pair in combinations(group, 2)} | set(more)
    return neighborhood_graph(X, edges=sorted(edges))


def bodies(X: Array, graph: NeighborhoodGraph, *seeds: list[int]) -> list[list[int]]:
    return sorted(sorted(body) for body in rigid_bodies(X, graph, [set(s) for s in seeds]))


# -- growing --------------------------------------------------------------------------------


@given(seed=seeds)
@quick
def test_four_contacts_hold_a_point_in_space_and_three_do_not(seed: int) -> None:
    X = points(seed, 7)
    held = tuple((i, 5) for i in range(4))
    swinging = tuple((i, 6) for i in range(3))
    graph = cliques_of(X, [0, 1, 2, 3, 4], more=held + swinging)
    assert bodies(X, graph, [0, 1, 2, 3, 4]) == [[0, 1, 2, 3, 4, 5]]


def test_contacts_in_a_plane_do_not_hold_a_point_in_space() -> None:
    X = np.vstack([[[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], points(0, 3)])
    graph = cliques_of(X, [0, 1, 2, 3, 4, 5], more=tuple((i, 6) for i in range(4)))
    assert bodies(X, graph, [0, 1, 2, 3, 4, 5]) == [[0, 1, 2, 3, 4, 5]]


def test_bodies_with_a_hinge_stay_two() -> None:
    X = points(1, 9)
    left, right = [0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8]
    assert bodies(X, cliques_of(X, left, right), left, right) == [left, right]
    wider = [2, *right]
    assert bodies(X, cliques_of(X, left, wider), left, wider) == [list(range(9))]


def test_nearly_flat_contacts_prove_nothing() -> None:
    """Four contacts that almost lie in a plane hold a point on paper, not in floating point."""
    X = points(2, 7)
    X[:4, 2] = 1e-7 * X[:4, 2]
    graph = cliques_of(X, [0, 1, 2, 3, 4, 5], more=tuple((i, 6) for i in range(4)))
    assert bodies(X, graph, [0, 1, 2, 3, 4, 5]) == [[0, 1, 2, 3, 4, 5]]


def test_nearly_coincident_points_stay_outside() -> None:
    X = points(3, 8)
    X[6] = X[5] + 1e-6
    more = tuple((i, 5) for i in range(5)) + tuple((i, 6) for i in range(5)) + ((5, 6),)
    graph = cliques_of(X, [0, 1, 2, 3, 4], more=(*more, (0, 7), (1, 7), (2, 7)))
    assert bodies(X, graph, [0, 1, 2, 3, 4]) == [[0, 1, 2, 3, 4]]


# -- directions -----------------------------------------------------------------------------


@given(seed=seeds, angle=st.floats(-3, 3))
@quick
def test_flexes_have_no_part_in_flat_directions(seed: int, angle: float) -> None:
    """Turn one of two bodies about their hinge: lengths stay, and so does K c = 0."""
    X = points(seed, 10)
    X = X - X[4]
    X = X @ np.linalg.qr(np.column_stack([X[5], points(seed + 1, 3)[:2].T]))[0]  # hinge along x
    left, right = [0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8]
    more = tuple((i, 9) for i in range(4))  # a tenth point that joins the left one
    graph = cliques_of(X, left, right, more=more)
    c = flat_directions(graph, X)
    assert c.shape[1] == (7 - 4) + (5 - 4)
    turned = X.copy()
    cos, sin = np.cos(angle), np.sin(angle)
    turned[6:9, 1:] = X[6:9, 1:] @ np.array([[cos, sin], [-sin, cos]])
    i, j = graph.edges.T
    lengths = np.sum((turned[i] - turned[j]) ** 2, axis=1)
    np.testing.assert_allclose(lengths, graph.squared_lengths, rtol=1e-9, atol=1e-9)
    for Y in (X, turned):
        assert np.abs(c.T @ (Y - Y.mean(axis=0))).max() <= 1e-9 * np.abs(Y).max()
    assert np.abs(c.sum(axis=0)).max() <= 1e-14
    np.testing.assert_allclose(c.T @ c, np.eye(c.shape[1]), atol=1e-12)


def test_lengths_alone_know_cliques_only() -> None:
    X = points(5, 6)
    graph = cliques_of(X, [0, 1, 2, 3, 4], more=tuple((i, 5) for i in range(4)))
    assert flat_directions(graph).shape == (6, 1 + 1)  # {0, 1, 2, 3, 5} is a clique as well
    graph = cliques_of(X, [0, 1, 2, 3, 4], more=((0, 5), (1, 5), (2, 5)))
    assert flat_directions(graph).shape == (6, 1)
    longer = np.vstack([X, points(6, 1)])
    chain = cliques_of(
        longer, [0, 1, 2, 3, 4], [0, 1, 2, 3, 5], more=((0, 6), (1, 6), (4, 6), (5, 6))
    )
    assert flat_directions(chain).shape == (7, 2)
    assert flat_directions(chain, longer).shape == (7, 3)  # 6 is tied to both cliques


# -- stresses -------------------------------------------------------------------------------


def octahedron(n: int) -> tuple[Array, list[tuple[int, int]]]:
    """The cross-polytope of n axes and its edges: all pairs but the opposite ones."""
    X = np.vstack([np.eye(n), -np.eye(n)])
    return X, [(i, j) for i, j in combinations(range(2 * n), 2) if j - i != n]


def test_a_framework_that_bends_has_no_semidefinite_stress() -> None:
    """An octahedron is rigid in space, but its edges have no stress at all: in four dimensions it
    bends, and no direction may be exposed."""
    X, edges = octahedron(3)
    assert exposed_directions(X, edges, np.ones((6, 1))).shape == (6, 0)


def test_only_semidefinite_stresses_expose() -> None:
    """Four rods on a line, closed to a ring, have one stress. Stretched out they cannot move; with
    one of them folded back they open in the plane."""
    ring = [(0, 1), (1, 2), (2, 3), (0, 3)]
    stretched, folded = np.array([[0.0], [1], [2], [3]]), np.array([[0.0], [2], [1], [3]])
    assert exposed_directions(stretched, ring, np.ones((4, 1))).shape == (4, 2)
    assert exposed_directions(folded, ring, np.ones((4, 1))).shape == (4, 0)


def test_a_ladder_leans_but_stays_straight() -> None:
    """Two straight sides and three equal rungs: the sides stay parallel wherever they lean."""
    ladder = np.array([[0.0, 0], [2, 0], [2, 1], [0, 1], [1, 0], [1, 1]])
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (4, 1), (2, 5), (5, 3), (4, 5)]
    found = exposed_directions(ladder, edges, np.ones((6, 1)))
    assert found.shape == (6, 3)
    leaning = np.column_stack([ladder, np.zeros(6)])
    leaning[[2, 3, 5]] += [0.48, 0.64 - 1, 0.6]  # rungs of length one in another direction
    i, j = np.array(edges).T
    lengths = [np.sum((Y[i] - Y[j]) ** 2, axis=1) for Y in (ladder, leaning)]
    np.testing.assert_allclose(*lengths)
    assert np.abs(found.T @ leaning).max() <= 1e-9


def test_a_rigid_cloud_is_returned() -> None:
    """With eight neighbours every point of a cloud in space is held: K is that of the points."""
    X = np.random.default_rng(0).random((60, 3))
    problem = sdpkit.MVU(X, n_neighbors=9)
    solution = sdpkit.solve(problem, solver="interior")
    assert solution.status == "optimal"
    centred = X - X.mean(axis=0)
    assert solution.objective == pytest.approx(np.sum(centred**2), rel=1e-6)
    error = np.abs(np.asarray(solution.matrices[0]) - centred @ centred.T).max()
    assert error <= 1e-3 * np.abs(centred).max() ** 2
