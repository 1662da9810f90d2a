"""Graphs with more null directions than the constant: sparse factors on the face, and proofs."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

import sdpkit
from sdpkit import MVU, Program, Status
from sdpkit.certificate.certify import certify
from sdpkit.graphs import local_stresses, rigid
from sdpkit.graphs.local_stresses import local_directions
from sdpkit.graphs.rigid import flat_directions
from sdpkit.graphs.stresses import exposed_directions
from sdpkit.numerics.local_face import LocalFace
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.gram import Gram, ResolventGram
from sdpkit.program.safe import SafeBounds
from sdpkit.solution.answer import Settings
from sdpkit.solvers.barrier import _capped
from sdpkit.solvers.barrier_dual import BarrierDual
from sdpkit.solvers.barrier_rows import independent_edges
from sdpkit.solvers.lowrank_model import FactoredBlock, lowest_eigenpairs
from sdpkit.solving.choice import choose
from sdpkit.solving.registry import get_solver
from sdpkit.typing import Array


@cache
def cloud(n: int, form: str = "equality") -> Program:
    """Random points in space with all the null directions of their neighbourhood graph."""
    points = np.random.default_rng(0).random((n, 3))
    problem = MVU(points, n_neighbors=4, connect="bridge", form=form)
    return problem.program()


def face_of(block: Block) -> LocalFace:
    assert block.local_face is not None
    return block.local_face


def slack_on_face(block: Block, w: Array) -> Array:
    image = np.asarray(block.adjoint(w).toarray()) - np.eye(block.size)
    return np.asarray(block.face.T @ image @ block.face)


def test_braced_weights_agree_with_the_graph_on_its_face_and_nowhere_else() -> None:
    (block,) = cloud(300).blocks
    face, rng = face_of(block), np.random.default_rng(1)
    w = rng.normal(size=block.n_measurements)
    flat = block.pattern.laplacian(face.weights(w, 7.0))
    whole = np.zeros((block.size, block.size))
    p = block.pattern
    whole[p.order, p.order] = flat[: p.n]
    whole[p.order[p.rows], p.order[p.columns]] = flat[p.n :]
    whole = whole + np.tril(whole, -1).T + np.triu(whole, 1).T
    plain = block.adjoint(w).toarray()
    error = block.face.T @ (whole - plain) @ block.face
    assert np.abs(error).max() <= face.error(np.abs(w), 7.0) <= 1e-10
    directions = face.directions.toarray()
    assert np.allclose(whole @ directions, 7.0 * directions, atol=1e-11)
    assert not np.allclose(plain @ directions, whole @ directions)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_the_smallest_eigenvalue_on_the_face_is_a_sharp_lower_bound(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdpkit.program.block.LARGE", 100)
    (block,) = [dataclasses.replace(b) for b in cloud(300).blocks]
    assert block.is_large_graph
    w = scale * np.random.default_rng(2).uniform(-0.1, 1.0, block.n_measurements)
    exact = float(np.linalg.eigvalsh(slack_on_face(block, w))[0])
    least = block.smallest_of_slack(w, 1.0)
    assert exact - 1e-5 * abs(exact) - 1e-9 * scale <= least <= exact + 1e-12 * scale


def test_derivatives_of_the_barrier_are_those_on_the_face() -> None:
    program = cloud(300)
    (block,) = program.blocks
    dual, rng = BarrierDual.of(program), np.random.default_rng(3)
    w = 300 * rng.uniform(0.5, 2.0, block.n_measurements)
    point = dual.at(w)
    assert point is not None
    v = block.incidence @ block.face
    inverse = v @ np.linalg.inv(slack_on_face(block, w)) @ v.T
    assert np.allclose(point.pull, np.where(dual.free, np.diag(inverse), 0.0), rtol=1e-9)
    step = np.where(dual.free, rng.normal(size=w.size), 0.0)
    image = np.where(dual.free, inverse**2 @ step, 0.0)
    assert np.allclose(point.hessian(step), image, atol=1e-9 * np.abs(image).max())
    nodes = np.arange(300)
    among = block.face @ np.linalg.inv(slack_on_face(block, w)) @ block.face.T
    apart = point.inverse_among(nodes) - among
    assert np.ptp(apart) <= 1e-10  # they differ by a constant, which no difference of nodes sees


def test_edges_that_follow_from_others_are_held() -> None:
    (block,) = cloud(300).blocks
    free = independent_edges(block)
    v = block.incidence @ block.face
    gram = (v @ v.T) ** 2
    rank = np.linalg.matrix_rank(gram, tol=1e-9)
    assert free.sum() == rank < free.size
    assert np.linalg.eigvalsh(gram[np.ix_(free, free)])[0] > 1e-6


@pytest.mark.parametrize("form", [pytest.param("equality", marks=pytest.mark.slow), "min_trace"])
def test_barrier_finds_the_optimum_of_interior_on_the_face(form: str) -> None:
    program = cloud(300, form)
    values = []
    for name in ("interior", "barrier"):
        solution = sdpkit.solve(program, solver=name, tol=1e-6)
        assert solution.status is Status.OPTIMAL
        values.append(solution.objective)
    assert values[0] == pytest.approx(values[1], rel=3e-6)


@cache
def large_answer() -> tuple[Program, Gram, Array]:
    program = cloud(1600)
    answer = get_solver("barrier").solve(program, Settings(tol=1e-3))
    assert answer.matrices is not None
    assert answer.dual is not None
    (matrix,) = answer.matrices
    assert isinstance(matrix, ResolventGram)
    return program, matrix, answer.dual


def test_the_certificate_judges_a_large_graph_on_its_face() -> None:
    program, matrix, dual = large_answer()
    (block,) = program.blocks
    certificate = certify(program, matrix, dual=dual)
    assert certificate.passes(1e-3)
    exact = float(np.linalg.eigvalsh(slack_on_face(block, dual))[0])
    assert exact - 1e-6 <= certificate.min_eigenvalue_dual <= exact + 1e-10
    # Without the face the same multipliers prove nothing.
    plain = dataclasses.replace(block, null=np.ones((block.size, 1)))
    assert plain.smallest_of_slack(dual, 1.0) < -1.0


def test_the_certificate_refuses_perturbed_answers_on_the_face() -> None:
    program, matrix, dual = large_answer()
    (block,) = program.blocks
    worse = dual - 0.01 * np.abs(dual)
    assert certify(program, matrix, dual=worse).min_eigenvalue_dual < 0
    assert not certify(program, matrix, dual=worse).passes(1e-3)
    assert not certify(program, matrix.scaled(1.01), dual=dual).passes(1e-3)
    # A matrix that does not vanish on a null direction.
    off = matrix.toarray() + 0.1 * np.outer(block.null[:, 1], block.null[:, 1])
    assert not certify(program, off, dual=dual).passes(1e-3)


def test_directions_that_are_not_local_leave_no_graph() -> None:
    (block,) = cloud(300).blocks
    wide = np.random.default_rng(4).normal(size=(300, 1))
    wide -= wide.mean()
    parallel = block.null[:, 1:2] + 1e-6 * block.null[:, 2:3]
    shifted = block.null[:, 1:2] + np.eye(300, 1)
    for column in (wide, parallel, shifted):
        other = dataclasses.replace(block, null=np.hstack([block.null[:, :2], column]))
        assert other.local_face is None
        assert other.edges is None


@pytest.mark.parametrize(("n", "found", "there"), [(200, 2, 2), (120, 0, 2)])
def test_local_stresses_find_what_the_search_of_all_edges_finds(
    n: int, found: int, there: int
) -> None:
    """Where clusters are small; 120 points are one cluster, which is left for later."""
    points = np.random.default_rng(0).random((n, 3))
    graph = MVU(points, n_neighbors=5, connect="bridge").parts[0].graph
    flat = flat_directions(graph, points)
    more = local_directions(points, graph.edges, flat)
    whole = exposed_directions(points, graph.edges, np.hstack([np.ones((n, 1)), flat]))
    assert (more.shape[1], whole.shape[1]) == (found, there)
    if found:
        assert np.allclose(more @ (more.T @ whole), whole, atol=1e-6)


def test_prices_are_capped_to_a_budget() -> None:
    prices = np.array([1.0, 2.0, 30.0, 400.0])
    assert np.array_equal(_capped(prices, 500.0), np.ones(4))
    shares = _capped(prices, 23.0)
    assert (shares * prices).sum() == pytest.approx(23.0)
    assert np.allclose(shares * prices, [1.0, 2.0, 10.0, 10.0])


def test_prices_of_nothing_are_not_cut() -> None:
    assert np.array_equal(_capped(np.array([0.0, 100.0]), 50.0), [1.0, 0.5])
    assert np.array_equal(_capped(np.array([0.0, 0.0, 1.0]), 0.0), [1.0, 1.0, 0.0])


@pytest.mark.parametrize("form", ["inequality", "slack"])
def test_barrier_takes_no_limits_on_a_face(form: str) -> None:
    """Multipliers of rows that follow from others are held, which limits may not allow."""
    plain = MVU(np.random.default_rng(0).random((300, 3)), form=form, connect="bridge").program()
    (block,), (on_face,) = plain.blocks, cloud(300).blocks
    limited = dataclasses.replace(
        plain, blocks=(dataclasses.replace(block, null=on_face.null),), safe=SafeBounds()
    )
    reason = get_solver("barrier").accepts(limited)
    assert reason is not None
    assert "this program has inequalities or slack" in reason
    assert get_solver("barrier").accepts(plain) is None


@pytest.mark.parametrize("scale", [1e-6, 1e-9, 1e3])
def test_barrier_on_a_face_does_not_depend_on_the_unit_of_the_cost(scale: float) -> None:
    program = cloud(100)
    (block,) = program.blocks
    other = dataclasses.replace(block, cost=Cost.of(block.size, identity=scale))
    safe = SafeBounds(trace=program.safe.trace)
    scaled = dataclasses.replace(program, blocks=(other,), safe=safe)
    assert block.null.shape[1] > 1
    solution = sdpkit.solve(scaled, solver="barrier", tol=1e-4)
    assert solution.status is Status.OPTIMAL
    value = sdpkit.solve(program, solver="interior").objective
    assert solution.objective == pytest.approx(scale * value, rel=3e-4)


def test_lengths_of_a_graph_are_not_taken_for_multiples_of_them() -> None:
    (block,) = MVU(sdpkit.datasets.swiss_roll(60), n_neighbors=4).program().blocks
    ones = np.ones(block.n_measurements)
    K = ResolventGram(block.pattern, 1.0, 5e3 * ones, 0.0 * ones, 1.0)
    for V in (block.incidence, 2 * block.incidence, abs(block.incidence)):
        dense = V.toarray()
        assert np.allclose(K.measure(V), np.einsum("ei,ij,ej->e", dense, K.toarray(), dense))


def test_the_lowest_eigenvectors_lie_in_the_face_in_any_unit_of_the_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stiffness of null directions must exceed the cost, whatever makes it up."""
    monkeypatch.setattr("sdpkit.program.block.LARGE", 100)
    points = np.random.default_rng(0).random((200, 3))
    (block,) = MVU(points, n_neighbors=4, connect="bridge").program().blocks
    heavy = dataclasses.replace(block, cost=Cost.of(block.size, identity=1e4))
    assert heavy.is_large_graph
    assert block.null.shape[1] > 1
    u = 0.1 * np.ones(block.n_measurements)
    _, vectors = lowest_eigenpairs(FactoredBlock.of(heavy, 1e-4), u, 120)
    assert np.abs(block.null_basis.T @ vectors).max() < 1e-6


def test_large_clusters_are_searched_where_an_answer_is_inaccurate() -> None:
    """Twelve hexagons with their long diagonals, each joined to the next at a corner: one cluster
    of 61 nodes, and no clique."""
    corners = np.exp(1j * np.pi / 3 * np.arange(6)) + 2 * np.arange(12)[:, None]
    node = 5 * np.arange(12)[:, None] + np.array([5, 1, 2, 0, 3, 4])  # corner 0 is the next one's 3
    points = np.zeros(61, dtype=complex)
    points[node] = corners
    pairs = [(i, (i + 1) % 6) for i in range(6)] + [(i, i + 3) for i in range(3)]
    edges = [[row[i], row[j]] for row in node for i, j in pairs]
    problem = MVU(np.column_stack([points.real, points.imag]), edges=edges)
    assert problem.parts[0].null.shape[1] == 1
    loose = sdpkit.solve(problem)
    assert loose.status is Status.OPTIMAL
    assert loose.program.blocks[0].null.shape[1] == 1
    solution = sdpkit.solve(problem, tol=1e-7)
    assert solution.status is Status.OPTIMAL
    assert solution.program.blocks[0].null.shape[1] == 37


def test_auto_prefers_sparse_factors_on_a_face() -> None:
    assert choose(cloud(1600), 1e-6)[0].name == "barrier"


@pytest.mark.parametrize("thickness", [1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13])
def test_thin_points_turn_no_direction(thickness: float) -> None:
    """A square that is flat up to the rounding of its lengths keeps its own direction: without its
    part along the thin dimension, nothing but rounding would be left of it."""
    square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, thickness]])
    problem = MVU(square, n_neighbors=3)
    (part,) = problem.parts
    assert part.null.shape == (4, 2)
    assert np.allclose(np.abs(part.null[:, 1:]), 0.5, atol=1e-6)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("thickness", [1e-8, 1e-10, 1e-12, 1e-13])
def test_thin_points_have_the_directions_of_flat_ones(thickness: float) -> None:
    """Whatever is claimed of nearly flat points is true of flat ones that bend."""
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.random((60, 2)), thickness * rng.random(60)])
    thin = MVU(points, n_neighbors=4, connect="bridge").parts[0]
    flat = MVU(points[:, :2], edges=thin.graph.edges)
    K = sdpkit.solve(flat, solver="interior").matrix  # unfolded: it is not the points' own
    seen = np.einsum("ik,ij,jk->k", thin.null, K, thin.null)
    assert seen.max() <= 1e-5 * np.trace(K)


def test_no_stress_where_points_are_beside_the_face() -> None:
    """Two rails and their rungs, 1e-8 thick: cliques are flat up to the rounding of lengths, and
    have the stresses of points that are as flat."""
    rail = np.column_stack([np.arange(7.0), 0.01 * np.arange(7.0) ** 2])
    thickness = 1e-8 * np.random.default_rng(10).normal(size=14)
    points = np.column_stack([np.vstack([rail, rail + np.array([0, 0.02])]), thickness])
    rungs = [(i, i + 7) for i in range(7)]
    rails = [(i, i + 1) for i in (*range(6), *range(7, 13))]
    braces = [(3, 11), (4, 12), (5, 13), (7, 1), (8, 2), (9, 3), (10, 4), (12, 6)]
    far = [(7, 9), (2, 4), (9, 11), (10, 12), (11, 13)]
    thin = MVU(points, edges=rungs + rails + braces + far)
    flat = MVU(points[:, :2], edges=rungs + rails + braces + far)
    assert thin.parts[0].null.shape[1] <= flat.parts[0].null.shape[1]
    values = [sdpkit.solve(problem, solver="interior").objective for problem in (thin, flat)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


@pytest.mark.parametrize("seed", [0, 3, 15, 27])
def test_a_thin_plate_does_not_hold_what_turns_about_its_corner(seed: int) -> None:
    """A plate 1e-5 thick, a thinner one in it, and a body that turns freely about node 0."""
    rng = np.random.default_rng(seed)
    plate = rng.random((10, 3)) * [1, 1, 1e-5]
    plate[:5, 2] *= 3e-4
    plate = plate @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    X = np.vstack([plate, rng.random((5, 3)) + np.array([0.5, 0, 0])])
    cliques = [0, 1, 2, 3, 4], [0, 2, 4, 5, 6, 7, 8, 9], [0, 10, 11, 12, 13, 14]
    edges = sorted({(i, j) for c in cliques for i in c for j in c if i < j})
    arms = X - X[0]
    pull = [np.linalg.norm(arms[part].sum(axis=0)) for part in (slice(1, 10), slice(10, 15))]
    exact = np.sum(arms**2) - (pull[0] - pull[1]) ** 2 / 15
    solution = sdpkit.solve(MVU(X, edges=edges))
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(exact)
    assert solution.certificate.safe_bound >= (1 - 1e-6) * exact


def test_bodies_inside_others_do_not_grow_again() -> None:
    """Every square of a braced grid is a seed, and each would grow to the whole grid."""
    grid = np.array(np.meshgrid(range(20), range(20))).reshape(2, -1).T.astype(float)
    calls = []
    plain = rigid._grown
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rigid, "_grown", lambda *given: calls.append(1) or plain(*given))
        assert MVU(grid, n_neighbors=8).parts[0].null.shape == (400, 398)
    assert len(calls) < 60


@pytest.mark.parametrize(("dimensions", "n", "k"), [(20, 1500, 6), (6, 3000, 8)])
def test_points_of_many_dimensions_are_not_factored(
    dimensions: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their factors fill in: 20 s for 1000 points of 20 dimensions, which no stress is in."""
    monkeypatch.setattr(local_stresses, "_carries_stress", None)
    points = np.random.default_rng(0).random((n, dimensions))
    assert MVU(points, n_neighbors=k, connect="bridge").parts[0].null.shape == (n, 1)
