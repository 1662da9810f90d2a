"""Neighbourhood graphs: known values, theorems, and what is refused with which words."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist

from sdpkit.datasets import comb, cycle_graph, path_graph, spokes, swiss_roll
from sdpkit.errors import GraphError, InputError
from sdpkit.graphs.build import angle_closure, neighborhood_graph, spanning_tree
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.graphs.graph import NeighborhoodGraph, require_connected
from sdpkit.graphs.joins import hanging_parts, join_components
from sdpkit.graphs.repair import (
    _grow_clique,
    bad_edges,
    bridge_components,
    cliques,
    merge_coincident,
    split_components,
    traverse_probability,
)
from sdpkit.graphs.stresses import exposed_directions
from sdpkit.numerics.deadline import Deadline
from sdpkit.numerics.neighbors import _by_tree
from sdpkit.results.side_by_side import side_by_side

Floats = NDArray[np.float64]
SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


def points(n: int, d: int = 3, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((n, d))


def pairwise(X: Floats) -> Floats:
    return np.asarray(np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2)))


@st.composite
def random_graphs(draw: st.DrawFn, max_points: int = 9) -> NeighborhoodGraph:
    n = draw(st.integers(1, max_points))
    pairs = list(itertools.combinations(range(n), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    lengths = draw(st.lists(st.integers(0, 3), min_size=len(chosen), max_size=len(chosen)))
    return NeighborhoodGraph.from_pairs(n, chosen, np.array(lengths, dtype=float) ** 2)


def connected(graph: NeighborhoodGraph) -> NeighborhoodGraph:
    """The graph and those edges of a path that it lacks."""
    own = set(map(tuple, graph.edges.tolist()))
    more = [(i, i + 1) for i in range(graph.n_points - 1) if (i, i + 1) not in own]
    return graph.with_edges(more, np.full(len(more), 2.0))


# --- lengths ---------------------------------------------------------------------------------


def test_three_sources_give_the_same_squared_distances() -> None:
    X = points(20)
    oracles = [
        SquaredDistances.from_points(X),
        SquaredDistances.from_distances(pairwise(X)),
        SquaredDistances.from_kernel(X @ X.T),
    ]
    expected = pairwise(X) ** 2
    i, j = np.triu_indices(20)
    for lengths in oracles:
        np.testing.assert_allclose(lengths.between(i, j), expected[i, j], atol=1e-12)
        np.testing.assert_allclose(lengths.to_all([3, 5]), expected[[3, 5]], atol=1e-12)
        np.testing.assert_allclose(lengths.to_all(3), expected[3], atol=1e-12)
        np.testing.assert_array_equal(lengths.neighbors(4), oracles[0].neighbors(4))
        np.testing.assert_array_equal(lengths.within(1.5), oracles[0].within(1.5))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12),
    st.data(),
)
def test_neighbors_are_sorted_by_distance_then_index(
    rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    X = np.array(rows, dtype=float)  # a small grid: ties and duplicates everywhere
    k = data.draw(st.integers(1, len(X) - 1))
    squared = (pairwise(X) ** 2).round()
    np.fill_diagonal(squared, np.inf)
    expected = [[j for _, j in sorted(zip(row, range(len(X)), strict=True))[:k]] for row in squared]
    assert SquaredDistances.from_points(X).neighbors(k).tolist() == expected


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = points(50)
    lengths = SquaredDistances.from_points(X)
    graph = neighborhood_graph(X)
    i, j = np.triu_indices(50)
    whole = (lengths.neighbors(5), lengths.within(1.0), traverse_probability(graph))
    between = lengths.between(i, j)
    monkeypatch.setattr("sdpkit.numerics.neighbors._BLOCK_ENTRIES", 130)
    np.testing.assert_array_equal(lengths.neighbors(5), whole[0])
    np.testing.assert_array_equal(lengths.within(1.0), whole[1])
    np.testing.assert_allclose(traverse_probability(graph), whole[2], rtol=1e-14)
    np.testing.assert_array_equal(lengths.between(i, j), between)


def test_kernel_rounding_is_no_distance() -> None:
    for rounding in (-(2.0**-53), 2.0**-52):  # d would be 2.2e-16 and −4.4e-16
        kernel = np.array([[1.0, 1.0 + rounding], [1.0 + rounding, 1.0]])
        assert SquaredDistances.from_kernel(kernel).between(0, 1) == 0.0
    kernel = np.array([[1.0, 1.0 - 1e-12], [1.0 - 1e-12, 1.0]])
    assert SquaredDistances.from_kernel(kernel).between(0, 1) == pytest.approx(2e-12, rel=1e-3)


def test_radius_counts_distances_not_squares() -> None:
    graph = neighborhood_graph([[0.0], [3.0], [7.0]], radius=3)
    assert graph.edges.tolist() == [[0, 1]]
    assert graph.squared_lengths.tolist() == [9.0]


@pytest.mark.parametrize(
    "X",
    [
        np.asfortranarray(SQUARE),
        SQUARE.astype(np.float32),
        SQUARE.astype(int),
        SQUARE.astype(bool),
        SQUARE.tolist(),
        pd.DataFrame(SQUARE, columns=["a", "b"]),
        sparse.csr_array(SQUARE),
        SQUARE[::-1][::-1],
    ],
    ids=["fortran", "float32", "int", "bool", "list", "DataFrame", "sparse", "strided"],
)
def test_every_container_gives_the_same_graph(X: object) -> None:
    graph = neighborhood_graph(X, n_neighbors=2)  # type: ignore[arg-type]
    assert graph.edges.tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert graph.squared_lengths.tolist() == [1.0] * 4


def test_input_is_copied() -> None:
    X = points(6)
    lengths = SquaredDistances.from_points(X)
    before = lengths.between(0, 1)
    X[0] = 99.0
    assert lengths.between(0, 1) == before


NAN = points(5)
NAN[3, 1] = NAN[4, 0] = np.nan
ASYMMETRIC = pairwise(SQUARE)
ASYMMETRIC[1, 2] = 5.0
SHIFTED = pairwise(SQUARE) + np.eye(4)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "no data: pass exactly one of X, distances or kernel"),
        ({"X": SQUARE, "kernel": SQUARE @ SQUARE.T}, "got X and kernel"),
        ({"X": []}, "shape (0,)"),
        ({"X": np.empty((4, 0))}, "shape (4, 0)"),
        ({"X": np.zeros((2, 2, 2))}, "shape (2, 2, 2)"),
        ({"X": [1.0, 2.0, 3.0]}, "X.reshape(-1, 1)"),
        ({"X": NAN}, "X contains NaN or infinite values (2, the first at [3, 1])"),
        ({"X": SQUARE * 1j}, "dtype complex128"),
        ({"X": SQUARE.astype(object)}, "dtype object"),
        ({"X": SQUARE.astype(str)}, "X.astype(float)"),
        ({"X": [[1.0], [1.0, 2.0]]}, "all rows need one length"),
        ({"X": SQUARE * 1e200}, "too large to square"),
        ({"distances": SQUARE}, "distances has shape (4, 2): pass a square matrix"),
        ({"distances": ASYMMETRIC}, "[1, 2] is 5, [2, 1] is 1"),
        ({"distances": -pairwise(SQUARE)}, "is negative"),
        ({"distances": SHIFTED}, "distances[0, 0] = 1, but a point is at distance 0"),
        ({"kernel": ASYMMETRIC}, "kernel is not symmetric"),
        ({"kernel": pairwise(SQUARE)}, "squared distance -2.82843 < 0"),
    ],
)
def test_data_refused(data: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        neighborhood_graph(n_neighbors=2, **data)  # type: ignore[arg-type]


def test_rounding_in_distances_is_forgiven_and_symmetrised() -> None:
    D = pairwise(points(6))
    D[0, 1] *= 1 + 1e-10
    lengths = SquaredDistances.from_distances(D)
    assert lengths.between(0, 1) == lengths.between(1, 0)


# --- rules -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "edges"), [(100, 247), (400, 989), (1000, 2456)])
def test_swiss_roll_edge_counts(n: int, edges: int) -> None:
    graph = neighborhood_graph(swiss_roll(n))
    assert (graph.n_edges, graph.is_connected) == (edges, True)


def test_nearest_neighbours_are_a_union() -> None:
    X = points(60)
    nearest = np.argsort(pairwise(X) + np.diag(np.full(60, np.inf)), axis=1)[:, :3]
    expected = {tuple(sorted((i, int(j)))) for i in range(60) for j in nearest[i]}
    graph = neighborhood_graph(X, n_neighbors=3)
    assert set(map(tuple, graph.edges.tolist())) == expected
    lengths = pairwise(X)[graph.edges[:, 0], graph.edges[:, 1]]
    np.testing.assert_allclose(graph.squared_lengths, lengths**2)


def test_default_is_four_neighbours() -> None:
    X = points(30)
    np.testing.assert_array_equal(
        neighborhood_graph(X).edges, neighborhood_graph(X, n_neighbors=4).edges
    )


def test_duplicates_are_neighbours_but_no_loops() -> None:
    graph = neighborhood_graph(np.zeros((4, 2)), n_neighbors=1)
    assert graph.edges.tolist() == [[0, 1], [0, 2], [0, 3]]
    assert graph.is_connected


def test_edges_are_merged_and_given_lengths() -> None:
    graph = neighborhood_graph(SQUARE, edges=[(2, 0), (0, 2), (3, 2)])
    assert graph.edges.tolist() == [[0, 2], [2, 3]]
    np.testing.assert_allclose(graph.squared_lengths, [2.0, 1.0])
    assert neighborhood_graph(SQUARE, edges=[]).n_edges == 0


FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("form", FORMATS)
def test_adjacency_in_every_format(form: str, make: type) -> None:
    lengths = np.array([[0, 2, 0, 0], [2, 0, 3, 0], [0, 3, 0, 1], [0, 0, 1, 0.0]])
    matrix = make(lengths).asformat(form)
    alone, dense = neighborhood_graph(graph=matrix), neighborhood_graph(graph=lengths)
    pattern = neighborhood_graph(SQUARE, graph=matrix)
    for graph in (alone, dense, pattern):
        assert graph.edges.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert alone.squared_lengths.tolist() == dense.squared_lengths.tolist() == [4.0, 9.0, 1.0]
    assert pattern.squared_lengths.tolist() == [1.0, 1.0, 1.0]


def test_zeros_inside_stored_blocks_are_no_edges() -> None:
    matrix = sparse.bsr_array(path_graph(4).toarray(), blocksize=(2, 2))
    assert matrix.nnz > 6
    assert neighborhood_graph(graph=matrix).edges.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_one_direction_is_enough_and_the_diagonal_is_ignored() -> None:
    graph = neighborhood_graph(graph=[[7, 2, 0], [0, 7, 0], [0, 3, 7]])
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.squared_lengths.tolist() == [4.0, 9.0]


def test_stored_zeros_are_edges_of_length_zero() -> None:
    matrix = sparse.csr_array(([0.0, 3.0], ([0, 1], [1, 2])), shape=(3, 3))
    graph = neighborhood_graph(distances=matrix)
    assert graph.squared_lengths.tolist() == [0.0, 9.0]
    assert graph.is_connected
    assert matrix.nnz == 2


def test_graph_argument_may_be_a_neighborhood_graph() -> None:
    graph = neighborhood_graph(graph=cycle_graph(4))
    assert neighborhood_graph(graph=graph) is graph
    assert neighborhood_graph(2 * SQUARE, graph=graph).squared_lengths.tolist() == [4.0] * 4


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"n_neighbors": 4}, "n_neighbors=4, but 4 points have at most 3 others"),
        ({"n_neighbors": 0}, "n_neighbors=0: pass an integer of at least 1"),
        ({"n_neighbors": 2.5}, "n_neighbors=2.5"),
        ({"n_neighbors": True}, "n_neighbors=True"),
        ({"n_neighbors": "3"}, "n_neighbors='3'"),
        ({"radius": 0}, "radius=0: pass a number > 0"),
        ({"radius": float("nan")}, "radius=nan"),
        ({"radius": "far"}, "radius='far'"),
        ({"n_neighbors": 2, "radius": 1.0}, "got n_neighbors and radius"),
        ({"edges": [[0, 4]]}, "edge (0, 4) is out of range: nodes are 0 to 3"),
        ({"edges": [[-1, 2]]}, "edge (-1, 2) is out of range"),
        ({"edges": [[1, 1]]}, "edge (1, 1) joins a point to itself"),
        ({"edges": [[0.0, 1.0]]}, "pass integer pairs"),
        ({"edges": [0, 1]}, "pass integer pairs"),
        ({"edges": [[0, 1], [2]]}, "edges are not an array of numbers"),
        ({"graph": np.ones((3, 3))}, "graph has 3 nodes, but the data has 4 points"),
        ({"graph": np.ones((3, 4))}, "graph has shape (3, 4)"),
        ({"n_neighbors": 2, "connect": "glue"}, "connect='glue'"),
    ],
)
def test_rules_refused(rule: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        neighborhood_graph(SQUARE, **rule)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ([[0, -1], [-1, 0]], "graph[0, 1] = -1 is negative"),
        ([[0, 1], [2, 0]], "(0, 1) and (0, 1) join the same points with different lengths 1 and 2"),
        ([[0, np.nan], [0, 0]], "graph contains NaN or infinite values (1, the first at [0"),
        (
            sparse.csr_array(np.array([[0, np.inf], [0, 0]])),
            "graph.data contains NaN",
        ),
        (sparse.csr_array(np.array([[0, 1j], [0, 0]])), "graph has dtype complex128"),
        (np.empty((0, 0)), "shape (0, 0)"),
    ],
)
def test_graphs_refused(graph: object, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        neighborhood_graph(graph=graph)  # type: ignore[arg-type]


def test_sparse_distances_are_a_rule_of_their_own() -> None:
    with pytest.raises(InputError, match="got graph and n_neighbors"):
        neighborhood_graph(distances=path_graph(4), n_neighbors=2)
    with pytest.raises(InputError, match="not both"):
        neighborhood_graph(distances=path_graph(4), graph=path_graph(4))


# --- the graph -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "edges", "squared", "words"),
    [
        (3, [[1, 0]], [1.0], "from_pairs"),
        (3, [[1, 2], [0, 1]], [1.0, 1.0], "from_pairs"),
        (3, [[0, 1], [0, 1]], [1.0, 1.0], "from_pairs"),
        (3, [[0, 3]], [1.0], "out of range"),
        (3, [[0, 1]], [-1.0], "edge (0, 1) has squared length -1"),
        (3, [[0, 1]], [np.nan], "NaN"),
        (3, [[0, 1]], [1.0, 2.0], "pass one per edge, (1,)"),
        (0, [], [], "n_points=0"),
    ],
)
def test_malformed_graphs_refused(n: int, edges: object, squared: object, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        NeighborhoodGraph(n, edges, squared)  # type: ignore[arg-type]


def test_graph_is_read_only() -> None:
    graph = neighborhood_graph(graph=path_graph(3))
    for array in (graph.edges, graph.squared_lengths, graph.component_labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@settings(deadline=None)
@given(random_graphs(), st.integers(0, 1000))
def test_matrices_of_the_graph(graph: NeighborhoodGraph, seed: int) -> None:
    weights = np.random.default_rng(seed).standard_normal(graph.n_edges)
    B = graph.incidence().toarray()
    np.testing.assert_allclose(
        graph.laplacian(weights).toarray(), B.T @ np.diag(weights) @ B, atol=1e-12
    )
    adjacency, laplacian = graph.adjacency().toarray(), graph.laplacian().toarray()
    np.testing.assert_array_equal(laplacian, np.diag(adjacency.sum(axis=1)) - adjacency)
    assert graph.adjacency(lengths=True).nnz == 2 * graph.n_edges
    rank = np.linalg.matrix_rank(laplacian)
    assert len(graph.component_sizes) == graph.n_points - rank
    assert graph.is_connected == (rank == graph.n_points - 1)


@settings(deadline=None)
@given(random_graphs())
def test_edges_removed_and_added_again(graph: NeighborhoodGraph) -> None:
    cut = np.arange(graph.n_edges) % 2 == 0
    less = graph.without_edges(cut)
    assert less.n_edges == graph.n_edges - cut.sum()
    pairs = graph.edges[cut][:, ::-1]
    np.testing.assert_array_equal(graph.without_edges(pairs).edges, less.edges)
    again = less.with_edges(pairs, graph.squared_lengths[cut])
    np.testing.assert_array_equal(again.edges, graph.edges)
    np.testing.assert_array_equal(again.squared_lengths, graph.squared_lengths)


def test_edge_changes_refused() -> None:
    graph = NeighborhoodGraph.from_pairs(3, [[0, 1]], [1.0])
    assert graph.with_edges([[1, 0]], [1.0]).n_edges == 1
    with pytest.raises(GraphError, match="different lengths 1 and 2"):
        graph.with_edges([[1, 0]], [4.0])
    with pytest.raises(GraphError, match=re.escape("(1, 2) is not an edge")):
        graph.without_edges([[2, 1]])
    with pytest.raises(InputError, match="one bool per edge"):
        graph.without_edges([True, False])
    with pytest.raises(InputError, match="one per edge"):
        graph.laplacian([1.0, 2.0])
    for nodes in ([0, 0], [3], [], [0.5]):
        with pytest.raises(InputError, match="nodes"):
            graph.subgraph(nodes)


@settings(deadline=None)
@given(random_graphs(), st.randoms(use_true_random=False))
def test_subgraph_keeps_adjacency(graph: NeighborhoodGraph, random: object) -> None:
    nodes = np.random.default_rng(random.randint(0, 999)).permutation(graph.n_points)  # type: ignore[attr-defined]
    nodes = nodes[: max(1, graph.n_points // 2)]
    expected = graph.adjacency().toarray()[np.ix_(nodes, nodes)]
    np.testing.assert_array_equal(graph.subgraph(nodes).adjacency().toarray(), expected)


# --- spectrum and bound ----------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 10, 60])
def test_connectivity_of_paths_and_cycles(n: int) -> None:
    path = neighborhood_graph(graph=path_graph(n))
    assert path.algebraic_connectivity() == pytest.approx(2 - 2 * np.cos(np.pi / n))
    if n > 2:
        cycle = neighborhood_graph(graph=cycle_graph(n))
        assert cycle.algebraic_connectivity() == pytest.approx(2 - 2 * np.cos(2 * np.pi / n))


def test_connectivity_of_large_graphs() -> None:
    n = 3000
    path = neighborhood_graph(graph=path_graph(n))
    assert path.algebraic_connectivity() == pytest.approx(2 - 2 * np.cos(np.pi / n), rel=1e-6)
    star = NeighborhoodGraph.from_pairs(n, [(0, i) for i in range(1, n)], np.ones(n - 1))
    assert star.algebraic_connectivity() == pytest.approx(1.0)


def test_sparse_connectivity_is_the_dense_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = neighborhood_graph(swiss_roll(200))
    dense = graph.algebraic_connectivity()
    monkeypatch.setattr("sdpkit.graphs.graph._DENSE_SPECTRUM_POINTS", 10)
    assert graph.algebraic_connectivity() == pytest.approx(dense, rel=1e-9)


def test_single_points_and_pieces() -> None:
    point = NeighborhoodGraph.from_pairs(1, [], [])
    assert point.algebraic_connectivity() == np.inf
    assert point.variance_bound() == 0.0
    assert point.is_connected
    pieces = NeighborhoodGraph.from_pairs(3, [[0, 1]], [1.0])
    assert pieces.algebraic_connectivity() == 0.0
    assert pieces.variance_bound() == np.inf


@pytest.mark.parametrize("n", [2, 5, 40])
def test_variance_bound_of_a_path_is_its_variance(n: int) -> None:
    bound = neighborhood_graph(graph=path_graph(n)).variance_bound()
    stretched = np.arange(n) - (n - 1) / 2
    assert bound >= (stretched**2).sum()  # attained, so the bound may not be a rounding below
    assert bound == pytest.approx((stretched**2).sum(), rel=1e-11)


@settings(deadline=None, max_examples=50)
@given(random_graphs())
def test_variance_bound_is_that_of_all_shortest_paths(graph: NeighborhoodGraph) -> None:
    graph = connected(graph)
    n = graph.n_points
    sp = np.full((n, n), np.inf)  # Floyd–Warshall, with edges of length zero as they are
    np.fill_diagonal(sp, 0.0)
    i, j = graph.edges.T
    sp[i, j] = sp[j, i] = np.sqrt(graph.squared_lengths)
    for k in range(n):
        sp = np.minimum(sp, sp[:, k : k + 1] + sp[k : k + 1])
    assert graph.variance_bound() == pytest.approx((sp**2).sum() / (2 * n))


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 30), st.integers(0, 10_000))
def test_variance_bound_holds_for_the_data_itself(n: int, seed: int) -> None:
    X = points(n, 2, seed)
    graph = neighborhood_graph(X, n_neighbors=min(3, n - 1), connect="bridge")
    assert graph.variance_bound() >= ((X - X.mean(axis=0)) ** 2).sum()


def test_variance_bound_from_roots_is_valid_and_close(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = neighborhood_graph(swiss_roll(400))
    exact = graph.variance_bound()
    monkeypatch.setattr("sdpkit.graphs.graph._ALL_PATHS_POINTS", 10)
    assert exact <= graph.variance_bound() <= 1.5 * exact
    path = neighborhood_graph(graph=path_graph(41))
    assert path.variance_bound() == pytest.approx(2 * sum(i * i for i in range(21)))


# --- angles, trees, components ---------------------------------------------------------------


def test_angle_closure_makes_cliques_of_nearest_neighbours() -> None:
    X = points(40)
    graph = neighborhood_graph(X, n_neighbors=3, angles=True)
    nearest = SquaredDistances.from_points(X).neighbors(3)
    expected = {
        pair
        for i in range(40)
        for pair in itertools.combinations(sorted([i, *nearest[i].tolist()]), 2)
    }
    assert set(map(tuple, graph.edges.tolist())) == expected
    lengths = pairwise(X)[graph.edges[:, 0], graph.edges[:, 1]]
    np.testing.assert_allclose(graph.squared_lengths, lengths**2)


def test_angle_closure_of_other_rules_uses_adjacency() -> None:
    graph = neighborhood_graph(spokes(4, 1), edges=[(0, i) for i in range(1, 5)], angles=True)
    assert graph.n_edges == 10  # every two spokes share the centre


def test_angle_closure_is_idempotent_on_cliques() -> None:
    lengths = SquaredDistances.from_points(SQUARE)
    complete = lengths.graph(list(itertools.combinations(range(4), 2)))
    np.testing.assert_array_equal(angle_closure(complete, lengths).edges, complete.edges)


def test_lengths_of_a_graph_alone_are_unknown() -> None:
    with pytest.raises(GraphError, match="pass X, distances or kernel"):
        neighborhood_graph(graph=path_graph(4), angles=True)
    pieces = sparse.block_diag([path_graph(2), path_graph(2)])
    with pytest.raises(GraphError, match="pass X, distances or kernel"):
        neighborhood_graph(graph=pieces, connect="bridge")
    with pytest.raises(InputError, match="the graph has 2 points and the lengths 4"):
        bridge_components(
            NeighborhoodGraph.from_pairs(2, [], []), SquaredDistances.from_points(SQUARE)
        )


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 25), st.integers(0, 1000), st.booleans())
def test_spanning_tree_has_minimal_length(n: int, seed: int, duplicates: bool) -> None:
    X = points(n, 2, seed)
    if duplicates:
        X = np.round(X)
    tree = spanning_tree(X)
    assert tree.n_edges == n - 1
    assert tree.is_connected
    # Kruskal, as the lecture has it: short edges first, skip those that close a loop.
    D, label, total = pairwise(X), np.arange(n), 0.0
    for i, j in sorted(itertools.combinations(range(n), 2), key=lambda pair: D[pair]):
        if label[i] != label[j]:
            total += D[i, j]
            label[label == label[j]] = label[i]
    assert np.sqrt(tree.squared_lengths).sum() == pytest.approx(total)


def test_spanning_tree_of_a_comb_is_the_comb() -> None:
    tree = spanning_tree(comb(3, 4))
    assert set(np.sqrt(tree.squared_lengths).round(9)) == {1.0}
    assert len(tree.edges) == len(comb(3, 4)) - 1
    D = pairwise(comb(3, 4))
    np.testing.assert_array_equal(spanning_tree(distances=D).edges, tree.edges)


def clusters(sizes: list[int]) -> Floats:
    return np.concatenate([points(size, 2, seed) + 100 * seed for seed, size in enumerate(sizes)])


def test_components_are_named_with_remedies() -> None:
    graph = neighborhood_graph(clusters([15, 80, 5]), n_neighbors=4)
    words = (
        "the neighbourhood graph has 3 components (sizes 80, 15, 5): raise n_neighbors, or pass "
        "connect='auto' to join them or connect='components' to treat each apart"
    )
    with pytest.raises(GraphError, match=re.escape(words)):
        require_connected(graph)
    with pytest.raises(GraphError, match=re.escape("(sizes 1, 1, 1, 1, 1, 1, …)")):
        require_connected(NeighborhoodGraph.from_pairs(9, [], []))
    with pytest.raises(GraphError, match="3 components"):
        neighborhood_graph(clusters([15, 80, 5]), connect="error")
    assert not neighborhood_graph(clusters([15, 80, 5]), connect="components").is_connected


@pytest.mark.parametrize("seed", range(5))
def test_bridges_join_what_they_must_and_no_more(seed: int) -> None:
    X = clusters([6, 9, 5, 12])
    apart = neighborhood_graph(X, n_neighbors=4)
    joined = neighborhood_graph(X, n_neighbors=4, connect="bridge", random_state=seed)
    assert joined.is_connected
    assert joined.n_edges == apart.n_edges + len(apart.component_sizes) - 1
    D = pairwise(X)
    np.testing.assert_allclose(
        joined.squared_lengths, D[joined.edges[:, 0], joined.edges[:, 1]] ** 2
    )
    own = set(map(tuple, apart.edges.tolist()))
    labels = apart.component_labels
    for i, j in set(map(tuple, joined.edges.tolist())) - own:
        # One end is the closest point of its own component to the other end.
        inside_i, inside_j = labels == labels[i], labels == labels[j]
        assert D[i, j] in (D[i, inside_j].min(), D[j, inside_i].min())
    again = neighborhood_graph(X, n_neighbors=4, connect="bridge", random_state=seed)
    np.testing.assert_array_equal(joined.edges, again.edges)


@pytest.mark.parametrize("seed", range(6))
def test_bridge_runs_between_the_facing_ends(seed: int) -> None:
    """On a line the way x → x′ → x″ ends at the gap, wherever the random x is."""
    X = [[0.0], [1.0], [2.0], [5.0], [6.0], [7.0], [8.0]]
    graph = neighborhood_graph(X, radius=1.0, connect="bridge", random_state=seed)
    assert graph.edges.tolist() == [[i, i + 1] for i in range(6)]
    assert graph.squared_lengths.tolist() == [1.0, 1.0, 9.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("seed", range(3))
def test_joins_are_the_shortest_disjoint_pairs_of_a_spanning_tree(seed: int) -> None:
    sizes = [12, 15, 10]
    X = clusters(sizes)[np.random.default_rng(seed).permutation(37)]
    lengths = SquaredDistances.from_points(X)
    graph = neighborhood_graph(X, n_neighbors=4)
    assert graph.component_sizes.tolist() == sorted(sizes, reverse=True)
    joined = join_components(graph, lengths, n_joins=3)
    assert joined.is_connected
    labels = graph.component_labels
    sides = labels[joined.edges]
    new = joined.edges[sides[:, 0] != sides[:, 1]]
    assert len(new) == 2 * 3
    squares = lengths.to_all(np.arange(lengths.n_points))
    for a, b in np.unique(np.sort(labels[new], axis=1), axis=0):
        mine = new[(np.sort(labels[new], axis=1) == [a, b]).all(axis=1)]
        assert np.unique(mine).size == 6
        shortest = squares[np.ix_(labels == a, labels == b)].min()
        assert squares[mine[:, 0], mine[:, 1]].min() == shortest
    everything = neighborhood_graph(X, n_neighbors=4, connect="auto")
    assert np.array_equal(everything.edges, join_components(graph, lengths).edges)


def test_a_component_has_no_more_joins_than_points() -> None:
    points = [[0.0], [5.0], [5.1], [20.0], [20.1], [20.2]]
    lengths = SquaredDistances.from_points(points)
    graph = lengths.graph([[1, 2], [3, 4], [4, 5]])
    joined = join_components(graph, lengths)
    assert joined.n_edges == 3 + 1 + 2
    assert joined.is_connected
    # Coincident components: the distance 0 is one.
    twice = SquaredDistances.from_points([[0.0], [0.0], [1.0]])
    assert join_components(twice.graph([]), twice).edges.tolist() == [[0, 1], [0, 2]]


@pytest.mark.parametrize("seed", range(4))
def test_hanging_parts_are_those_that_fall_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, rng.integers(i)) for i in range(1, 30)])
    pairs = np.vstack([pairs, rng.integers(0, 15, (8, 2))])
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    graph = NeighborhoodGraph.from_pairs(33, pairs, np.ones(len(pairs)))  # three isolated points
    found = dict(hanging_parts(graph))
    for edge in graph.edges:
        without = graph.without_edges([edge])
        label = without.component_labels
        sides = [np.flatnonzero(label == label[node]) for node in edge]
        falls = label[edge[0]] != label[edge[1]] and min(map(len, sides)) >= 2
        assert falls == (tuple(edge.tolist()) in found)
        if falls:
            part = found[tuple(edge.tolist())]
            assert any(np.array_equal(part, side) for side in sides)
            assert len(part) == min(map(len, sides))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_components_side_by_side_do_not_overlap(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    labels = np.repeat(np.arange(12), 10)
    y = rng.standard_normal((120, dimensions)) * rng.uniform(0.1, 5, 12)[labels][:, None]
    inputs = SquaredDistances.from_points(rng.standard_normal((120, 4)) + labels[:, None] / 3)
    for known in (inputs, None):
        z = side_by_side(y, labels, known)
        boxes = [(z[labels == k].min(axis=0), z[labels == k].max(axis=0)) for k in range(12)]
        for a in range(12):
            assert np.abs(pdist(z[labels == a]) - pdist(y[labels == a])).max() < 1e-9
            for b in range(a):
                gap = np.maximum(boxes[a][0] - boxes[b][1], boxes[b][0] - boxes[a][1]).max()
                centres = [(box[0] + box[1]) / 2 for box in (boxes[a], boxes[b])]
                radii = [
                    np.linalg.norm(z[labels == k] - c, axis=1).max()
                    for k, c in zip((a, b), centres, strict=True)
                ]
                assert gap > 0 or np.linalg.norm(centres[0] - centres[1]) > sum(radii)


def test_bridges_between_isolated_points() -> None:
    lengths = SquaredDistances.from_points(points(12))
    assert bridge_components(lengths.graph([]), lengths).n_edges == 11


@settings(deadline=None)
@given(random_graphs())
def test_components_partition_the_graph(graph: NeighborhoodGraph) -> None:
    parts = split_components(graph)
    nodes = np.concatenate([nodes for nodes, _ in parts])
    assert sorted(nodes) == list(range(graph.n_points))
    assert all(part.is_connected for _, part in parts)
    assert sum(part.n_edges for _, part in parts) == graph.n_edges
    rebuilt = [
        (nodes[i], nodes[j], d)
        for nodes, part in parts
        for (i, j), d in zip(part.edges, part.squared_lengths, strict=True)
    ]
    assert sorted((i, j) for i, j, _ in rebuilt) == list(map(tuple, graph.edges.tolist()))


# --- bad edges -------------------------------------------------------------------------------


def brute_force_visits(P: Floats, steps: int) -> Floats:
    """First-passage probabilities by making each target absorbing."""
    n = len(P)
    visited = np.empty((n, n))
    for target in range(n):
        absorbing = P.copy()
        absorbing[target] = np.eye(n)[target]
        visited[:, target] = np.linalg.matrix_power(absorbing, steps)[:, target]
    return visited


@settings(deadline=None, max_examples=40)
@given(random_graphs(), st.integers(1, 8), st.floats(0.3, 3))
def test_traverse_probability_is_first_passage(
    graph: NeighborhoodGraph, steps: int, sigma: float
) -> None:
    i, j = graph.edges.T
    P = np.zeros((graph.n_points, graph.n_points))
    P[i, j] = P[j, i] = np.exp(-np.sqrt(graph.squared_lengths) / sigma)
    P /= np.maximum(P.sum(axis=1, keepdims=True), 1e-300)
    visited = brute_force_visits(P, steps)
    q = traverse_probability(graph, steps, sigma)
    np.testing.assert_allclose(q, visited[i, j] + visited[j, i], rtol=1e-9)


def test_traverse_probability_of_one_edge_is_two() -> None:
    for squared in (0.0, 1.0, 1e12):
        graph = NeighborhoodGraph.from_pairs(2, [[0, 1]], [squared])
        assert traverse_probability(graph, steps=1, sigma=0.1).tolist() == [2.0]
    assert traverse_probability(NeighborhoodGraph.from_pairs(3, [], [])).shape == (0,)
    for words, arguments in (("steps", {"steps": 0}), ("sigma", {"sigma": -1.0})):
        with pytest.raises(InputError, match=words):
            traverse_probability(graph, **arguments)


def test_short_circuits_of_the_swiss_roll_are_found() -> None:
    """As in figure 3.29: points of a roll, 7 neighbours, and links from layer to layer."""
    X, places = swiss_roll(600, noise_dims=0, return_parameters=True)
    t, h = places.T
    clean = neighborhood_graph(X, n_neighbors=7)
    layers = [
        (i, int(np.argmin((t - t[i] - 2 * np.pi) ** 2 + (h - h[i]) ** 2)))
        for i in np.flatnonzero(t < 2.4 * np.pi)[::12]
    ]
    lengths = SquaredDistances.from_points(X)
    short = lengths.graph(layers)
    graph = clean.with_edges(short.edges, short.squared_lengths)
    planted = graph._mask_of(short.edges)
    assert planted.sum() >= 10
    flagged = bad_edges(graph)
    assert flagged[planted].all()
    assert flagged[~planted].mean() < 0.03
    assert bad_edges(graph, threshold=3.0)[~planted].mean() < 0.002
    # Cut, the roll is as long again as without the links.
    cut = graph.without_edges(flagged)
    assert cut.is_connected
    assert graph.variance_bound() < 0.8 * clean.variance_bound() <= 0.8 * cut.variance_bound()


def test_regular_graphs_have_no_bad_edges() -> None:
    assert not bad_edges(neighborhood_graph(graph=cycle_graph(30))).any()
    assert not bad_edges(neighborhood_graph(graph=np.ones((8, 8)))).any()
    assert bad_edges(NeighborhoodGraph.from_pairs(3, [], [])).shape == (0,)


# --- structure -------------------------------------------------------------------------------


def test_duplicated_data_merge_to_the_original() -> None:
    X = points(15)
    copies = np.concatenate([X, X[:5], X[:2]])
    merged = merge_coincident(neighborhood_graph(copies, radius=2.5))
    expected = neighborhood_graph(X, radius=2.5)
    np.testing.assert_array_equal(merged.graph.edges, expected.edges)
    np.testing.assert_allclose(merged.graph.squared_lengths, expected.squared_lengths)
    assert merged.group.tolist() == [*range(15), 0, 1, 2, 3, 4, 0, 1]
    assert merged.multiplicities.tolist() == [3, 3, 2, 2, 2] + [1] * 10


@settings(deadline=None)
@given(random_graphs())
def test_merging_keeps_paths(graph: NeighborhoodGraph) -> None:
    merged = merge_coincident(graph, parallel="min")
    assert merged.multiplicities.sum() == graph.n_points
    assert (merged.graph.squared_lengths > 0).all()
    before, after = graph.shortest_paths(), merged.graph.shortest_paths()
    np.testing.assert_allclose(after[np.ix_(merged.group, merged.group)], before)


def test_contradictions_between_coincident_points() -> None:
    unequal = NeighborhoodGraph.from_pairs(3, [[0, 1], [0, 2], [1, 2]], [0.0, 4.0, 9.0])
    words = "(0, 2) and (1, 2) join the same points with different lengths 2 and 3"
    with pytest.raises(GraphError, match=re.escape(words)):
        merge_coincident(unequal)
    assert merge_coincident(unequal, parallel="min").graph.squared_lengths.tolist() == [4.0]
    loop = NeighborhoodGraph.from_pairs(3, [[0, 1], [0, 2], [1, 2]], [0.0, 0.0, 9.0])
    with pytest.raises(GraphError, match=re.escape("edge (1, 2) coincide")):
        merge_coincident(loop)
    assert merge_coincident(loop, parallel="min").graph.n_points == 1
    with pytest.raises(InputError, match="parallel='max'"):
        merge_coincident(loop, parallel="max")  # type: ignore[arg-type]


@settings(deadline=None)
@given(random_graphs())
def test_cliques_are_maximal_and_cover(graph: NeighborhoodGraph) -> None:
    adjacency = graph.adjacency().toarray() + np.eye(graph.n_points)
    found = cliques(graph)
    as_sets = [frozenset(clique.tolist()) for clique in found]
    assert len(set(as_sets)) == len(found)
    for clique in found:
        assert len(clique) >= 3
        assert adjacency[np.ix_(clique, clique)].all()
        assert adjacency[:, clique].all(axis=1).sum() == len(clique)  # nobody else fits
    for i, j in graph.edges.tolist():
        in_triangle = (adjacency[i] * adjacency[j]).sum() > 2
        assert in_triangle == any({i, j} <= clique for clique in as_sets)
    for i in range(graph.n_points):
        closed = np.flatnonzero(adjacency[i])
        if len(closed) >= 3 and adjacency[np.ix_(closed, closed)].all():
            assert frozenset(closed.tolist()) in as_sets


def test_cliques_grow_where_most_candidates_stay() -> None:
    adjacent = [{1, 2, 3, 4, 5}, {0, 2, 3, 4, 5}, {0, 1}, {0, 1, 4, 5}, {0, 1, 3, 5}, {0, 1, 3, 4}]
    assert _grow_clique(adjacent, 0, 1) == (0, 1, 3, 4, 5)  # not (0, 1, 2)


def test_cliques_of_a_complete_graph() -> None:
    graph = neighborhood_graph(graph=np.ones((100, 100)))  # 4950 edges
    assert [clique.tolist() for clique in cliques(graph)] == [list(range(100))]
    assert cliques(neighborhood_graph(graph=cycle_graph(6))) == []


# -- k-d tree ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random", "grid", "duplicates", "far"])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_tree_and_table_agree_on_neighbours(
    kind: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ties and duplicates included: the tree is a shortcut, never another answer."""
    rng = np.random.default_rng(0)
    points = {
        "random": rng.standard_normal((600, 3)),
        "grid": np.stack(np.meshgrid(np.arange(25.0), np.arange(25.0)), axis=-1).reshape(-1, 2),
        "duplicates": rng.integers(0, 8, (600, 3)).astype(float),
        "far": 1e6 + rng.standard_normal((600, 2)),
    }[kind]
    new = np.vstack([points[:40], rng.standard_normal((40, points.shape[1])), points[5:9] + 0.5])
    lengths = SquaredDistances.from_points(points)
    asked: list[int] = []

    def by_tree(queries: np.ndarray, *rest: Any) -> Any:
        asked.append(len(queries))
        return _by_tree(queries, *rest)

    monkeypatch.setattr("sdpkit.numerics.neighbors._by_tree", by_tree)
    neighbors, (nearest, squared) = lengths.neighbors(k), lengths.nearest_to(k, new)
    assert asked == [len(points), len(new)]
    alone = [lengths.nearest_to(k, row[None])[1][0] for row in new[35:45]]
    monkeypatch.setattr("sdpkit.numerics.neighbors._TREE_POINTS", 10**9)
    assert np.array_equal(neighbors, lengths.neighbors(k))
    others, scanned = lengths.nearest_to(k, new)
    assert len(asked) == 2
    assert np.array_equal(nearest, others)
    assert np.array_equal(squared, scanned)
    assert np.array_equal(alone, squared[35:45])


def test_a_search_for_stresses_ends_with_its_time() -> None:
    hexagon = np.array([[np.cos(t), np.sin(t)] for t in np.arange(6) * np.pi / 3])
    edges = [[i, (i + 1) % 6] for i in range(6)] + [[i, i + 3] for i in range(3)]
    assert exposed_directions(hexagon, edges, np.ones((6, 1))).shape == (6, 3)
    with Deadline.after(0.0).applies():
        assert exposed_directions(hexagon, edges, np.ones((6, 1))).shape == (6, 0)
