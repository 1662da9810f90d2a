"""New points: one by any solver, thousands at once, and what must hold for both."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit import Block, InputError, OutOfSample, Program, Status
from sdpkit.results.placement import place, reconstruct, refine_placement
from sdpkit.results.quality import inconsistency, relative_inconsistency
from sdpkit.solving.registry import get_solver, known_solvers
from sdpkit.typing import Array

USABLE = [get_solver(name) for name in known_solvers() if get_solver(name).unavailable() is None]
# Engines for comparisons and for graphs take nothing else.
GENERAL = [s for s in USABLE if s.accepts(Program.of(Block.of(1, [[1.0]]), [1.0])) is None]
SOLVERS = [s.name for s in GENERAL if not s.capabilities.teaching]
some = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
shapes = st.sampled_from([(1, 1), (3, 1), (2, 2), (3, 2), (5, 2), (4, 3), (9, 3)])


def instance(seed: int, k: int = 5, r: int = 2, noise: float = 0.2) -> tuple[Array, Array, Array]:
    """Neighbours (k, r), noisy lengths (k,) and the point (r,) they were measured from."""
    rng = np.random.default_rng(seed)
    anchors = rng.standard_normal((k, r)) + 10 * rng.standard_normal(r)
    point = anchors.mean(axis=0) + 2 * rng.standard_normal(r)
    lengths = np.linalg.norm(anchors - point, axis=1) * (1 + noise * rng.uniform(-1, 1, k))
    return anchors, lengths, point


def value_at(anchors: Array, lengths: Array, y: Array, s: float) -> float:
    """s + Σ|ξ| about the centroid, straight from the definition."""
    centred, y = anchors - anchors.mean(axis=0), y - anchors.mean(axis=0)
    residual = (centred**2).sum(axis=1) - 2 * centred @ y + s - lengths**2
    return float(s + np.abs(residual).sum())


# -- one point -----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["centred", "published"])
def test_program_and_model_agree(variant: str) -> None:
    anchors, lengths, _ = instance(0, noise=0.5)
    problem = OutOfSample(anchors / 10, lengths / 10, variant=variant)
    solution = sdpkit.solve(problem, solver="clarabel", tol=1e-7)
    assert solution.status is Status.OPTIMAL
    model = problem.to_cvxpy()
    model.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    assert solution.objective == pytest.approx(model.value, rel=1e-5)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_solver_reaches_the_batched_answer(name: str, seed: int) -> None:
    anchors, lengths, _ = instance(seed)
    problem = OutOfSample(anchors, lengths)
    solution = sdpkit.solve(problem, solver=name)
    batched = place([anchors], [lengths**2])
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(batched.objectives[0], rel=2e-6)
    assert np.allclose(problem.recover(solution), batched.coordinates[0], atol=2e-3)


def test_tight_tolerance_agrees_in_coordinates() -> None:
    anchors, lengths, _ = instance(2)
    problem = OutOfSample(anchors, lengths)
    solution = sdpkit.solve(problem, solver="clarabel", tol=1e-8)
    assert (
        np.abs(problem.recover(solution) - place([anchors], [lengths**2]).coordinates).max() < 1e-5
    )


def test_identity_block_is_fixed() -> None:
    anchors, lengths, _ = instance(3)
    solution = sdpkit.solve(OutOfSample(anchors, lengths), solver="clarabel")
    assert np.allclose(solution.matrix[:2, :2], np.eye(2), atol=1e-6)
    published = sdpkit.solve(OutOfSample(anchors, lengths, variant="published"), solver="clarabel")
    assert np.allclose(np.diag(published.matrix)[:2], 1, atol=1e-6)
    assert abs(published.matrix[0, 1]) > 0.1


def test_exact_distances_far_from_the_origin() -> None:
    """The theorem for the centred program, and the reason why the published one is not it."""
    anchors, lengths, point = instance(4, noise=0.0)
    errors = {}
    for variant in ("centred", "published"):
        problem = OutOfSample(anchors, lengths, variant=variant)
        solution = sdpkit.solve(problem, solver="clarabel", tol=1e-7)
        errors[variant] = float(np.linalg.norm(problem.recover(solution) - point))
    assert errors["centred"] < 1e-6
    assert errors["published"] > 1.0


def test_dual_is_the_modules() -> None:
    """|g| ≤ 1, ν ≥ 0, the stated value, and y = Σ g_i y_i / ν, from a solver's multipliers."""
    anchors, lengths, _ = instance(6)
    problem = OutOfSample(anchors, lengths)
    solution = sdpkit.solve(problem, solver="clarabel", tol=1e-8)
    assert solution.dual is not None
    g = -solution.dual[-len(lengths) :] / problem.unit**2
    y = anchors - anchors.mean(axis=0)
    nu = 1 + g.sum()
    assert np.abs(g).max() <= 1 + 1e-9
    assert nu > 1e-3
    value = g @ ((y**2).sum(axis=1) - lengths**2) - ((g @ y) ** 2).sum() / nu
    assert value == pytest.approx(solution.objective, rel=1e-6)
    assert np.allclose(g @ y / nu + anchors.mean(axis=0), problem.recover(solution), atol=1e-4)


def test_contradicting_distances_without_slack_are_infeasible() -> None:
    """The infeasible twin: the same rows, no slack to take up what they are off."""
    problem = OutOfSample([[0.0], [3.0], [1.0]], [1.0, 1.0, 5.0])
    assert sdpkit.solve(problem).status is Status.OPTIMAL
    program = problem.program()
    rigid = Program.of(program.blocks, program.rhs, sense="min", rows_q=program.rows_q)
    solution = sdpkit.solve(rigid, solver="clarabel")
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    assert solution.ray.passes(1e-7)


def test_recover_refuses_another_problems_solution() -> None:
    anchors, lengths, _ = instance(0)
    other = sdpkit.solve(OutOfSample(*instance(0, 4, 3)[:2]))
    with pytest.raises(InputError, match="size 3"):
        OutOfSample(anchors, lengths).recover(other)


@pytest.mark.parametrize(
    ("neighbors", "distances", "words"),
    [
        ([[0.0, 1.0]], [1.0, 2.0], "one per neighbour"),
        ([0.0, 1.0], [1.0, 2.0], r"\(k, r\)"),
        ([[0.0], [np.nan]], [1.0, 2.0], "NaN"),
        ([[0.0], [1.0]], [1.0, -2.0], "lengths"),
        ([[0.0], ["a"]], [1.0, 2.0], "numbers"),
    ],
)
def test_bad_input(neighbors: object, distances: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        OutOfSample(neighbors, distances)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="variant"):
        OutOfSample([[0.0]], [1.0], variant="centered")  # type: ignore[arg-type]


# -- thousands -----------------------------------------------------------------------------------


@some
@given(seeds, shapes, st.sampled_from([0.0, 1e-6, 0.1, 2.0]))
def test_primal_and_dual_meet(seed: int, shape: tuple[int, int], noise: float) -> None:
    """Each objective is attained by a feasible (y, s), and its bound proves it."""
    anchors, lengths, _ = instance(seed, *shape, noise)
    lengths = np.abs(lengths)
    found = place([anchors], [lengths**2])
    y = found.coordinates[0]
    scale = max(float((lengths**2).max()), float((anchors - anchors.mean(axis=0)).max() ** 2))
    assert found.objectives[0] - found.bounds[0] <= 1e-7 * scale
    assert found.bounds[0] - found.objectives[0] <= 1e-9 * scale
    least = float(((y - anchors.mean(axis=0)) ** 2).sum())
    kinks = np.concatenate([[least], lengths**2 - ((anchors - y) ** 2).sum(axis=1) + least])
    values = [value_at(anchors, lengths, y, s) for s in kinks if s >= least]
    assert found.objectives[0] == pytest.approx(min(values), abs=1e-9 * scale)


@some
@given(seeds, st.sampled_from([(3, 2), (5, 2), (4, 3), (9, 3)]), st.floats(0, 1e4))
def test_exact_distances_return_the_exact_point(
    seed: int, shape: tuple[int, int], away: float
) -> None:
    rng = np.random.default_rng(seed)
    k, r = shape
    anchors = np.vstack([np.zeros(r), np.eye(r), rng.standard_normal((k - r - 1, r))]) + away
    point = anchors[0] + 3 * rng.standard_normal(r)
    found = place([anchors], [((anchors - point) ** 2).sum(axis=1)])
    assert np.abs(found.coordinates[0] - point).max() <= 1e-8 + 1e-11 * away


@some
@given(seeds, shapes)
def test_a_points_answer_does_not_depend_on_its_batch(seed: int, shape: tuple[int, int]) -> None:
    data = [instance(seed + i, *shape) for i in range(12)]
    anchors, squared = np.array([d[0] for d in data]), np.array([d[1] ** 2 for d in data])
    whole = place(anchors, squared)
    moved = refine_placement(whole.coordinates, anchors, squared)
    for part in (slice(0, 1), slice(3, 5), slice(2, 12, 3)):
        alone = place(anchors[part], squared[part])
        assert np.array_equal(alone.coordinates, whole.coordinates[part])
        assert np.array_equal(alone.objectives, whole.objectives[part])
        again = refine_placement(alone.coordinates, anchors[part], squared[part])
        assert np.array_equal(again, moved[part])


def test_refinement_stops_each_point_by_its_own_rule() -> None:
    """In company of hundreds, some of which take far longer."""
    data = [instance(i, noise=0.5 * (i % 3)) for i in range(400)]
    anchors, squared = np.array([d[0] for d in data]), np.array([d[1] ** 2 for d in data])
    start = place(anchors, squared).coordinates
    together = refine_placement(start, anchors, squared)
    for i in range(0, 400, 9):
        part = slice(i, i + 1)
        assert np.array_equal(
            refine_placement(start[part], anchors[part], squared[part]), together[part]
        )


def test_batches_are_cut_without_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [instance(i) for i in range(50)]
    anchors, squared = np.array([d[0] for d in data]), np.array([d[1] ** 2 for d in data])
    whole = place(anchors, squared)
    monkeypatch.setattr("sdpkit.results.placement._BATCH_POINTS", 7)
    assert np.array_equal(place(anchors, squared).coordinates, whole.coordinates)


@some
@given(seeds, st.floats(0.01, 100), st.floats(0, 2 * np.pi))
def test_rotation_scale_translation_and_order(seed: int, scale: float, angle: float) -> None:
    anchors, lengths, _ = instance(seed)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    order = np.random.default_rng(seed).permutation(len(lengths))
    first = place([anchors], [lengths**2])
    second = place([scale * anchors[order] @ turn + 7], [(scale * lengths[order]) ** 2])
    assert second.objectives[0] == pytest.approx(scale**2 * first.objectives[0], rel=1e-7)
    gap = np.abs(second.coordinates - (scale * first.coordinates @ turn + 7)).max()
    assert gap <= 1e-5 * scale * max(lengths)


def test_degenerate_neighbourhoods() -> None:
    """All neighbours in one place, on a line, or a single one: an answer on their span."""
    one = place([[[2.0, 3.0]] * 4], [[1.0] * 4])
    assert np.allclose(one.coordinates, [[2.0, 3.0]])
    line = place([[[0.0, 5.0], [1.0, 5.0], [3.0, 5.0]]], [[2.0, 1.0, 5.0]])
    assert np.allclose(line.coordinates, [[1.0, 5.0]], atol=1e-6)  # foot of both mirror images
    nothing = place([[[1.0, 1.0]]], [[0.0]])
    assert np.array_equal(nothing.coordinates, [[1.0, 1.0]])
    assert place(np.zeros((0, 3, 2)), np.zeros((0, 3))).coordinates.shape == (0, 2)


def test_refinement_never_makes_it_worse_and_ends_stationary() -> None:
    data = [instance(i, noise=0.3) for i in range(40)]
    anchors, squared = np.array([d[0] for d in data]), np.array([d[1] ** 2 for d in data])

    def stress(y: Array) -> Array:
        return np.asarray(((((y[:, None] - anchors) ** 2).sum(axis=2) - squared) ** 2).sum(axis=1))

    start = place(anchors, squared).coordinates
    end = refine_placement(start, anchors, squared)
    assert np.all(stress(end) <= stress(start))
    residual = ((end[:, None] - anchors) ** 2).sum(axis=2) - squared
    gradient = (residual[:, :, None] * (end[:, None] - anchors)).sum(axis=1)
    assert np.abs(gradient).max() <= 1e-6 * squared.max() ** 1.5


@pytest.mark.parametrize(
    ("anchors", "squared", "words"),
    [
        ([[0.0, 1.0]], [[1.0]], "anchors"),
        ([[[0.0, 1.0]]], [[1.0, 2.0]], "squared_distances"),
        ([[[0.0, np.inf]]], [[1.0]], "infinite"),
        ([[[0.0, 1.0]]], [[-1.0]], "negative value -1: pass numbers ≥ 0"),
    ],
)
def test_bad_neighbourhoods(anchors: object, squared: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        place(anchors, squared)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="one row per new point"):
        refine_placement([[0.0]], [[[0.0, 1.0]]], [[1.0]])


def test_reconstruction_is_scikit_learns() -> None:
    from sklearn.manifold import LocallyLinearEmbedding

    X = sdpkit.datasets.swiss_roll(120, noise_dims=0)
    fitted = LocallyLinearEmbedding(n_neighbors=5, n_components=2, random_state=0).fit(X[:100])
    near = sdpkit.graphs.SquaredDistances.from_points(X[:100]).nearest_to(5, X[100:])[0]
    ours = reconstruct(X[100:], X[:100][near], fitted.embedding_[near])
    assert np.allclose(ours, fitted.transform(X[100:]), atol=1e-10)


# -- Embedding.extend ----------------------------------------------------------------------------


@functools.cache
def unfolded() -> tuple[Array, sdpkit.Embedding]:
    X = sdpkit.datasets.swiss_roll(70)
    problem = sdpkit.MVU(X[:60], n_neighbors=4)
    return X, problem.recover(sdpkit.solve(problem), n_components=2)


@pytest.mark.parametrize(
    ("method", "refined"),
    [("interpolation", False), ("sdp", False), ("sdp", True), ("lle", False), ("lle", True)],
)
def test_extend_is_samplewise_and_keeps_training_points(method: str, refined: bool) -> None:
    X, embedding = unfolded()
    together = embedding.extend(X[55:], method=method, refine=refined)
    assert np.array_equal(together[:5], embedding.coordinates[55:60])
    alone = [embedding.extend(x[None], method=method, refine=refined)[0] for x in X[55:]]
    assert np.array_equal(together, alone)


def test_extend_by_distances_is_extend_by_points() -> None:
    X, embedding = unfolded()
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    problem = sdpkit.MVU(distances=D[:60, :60], n_neighbors=4)
    by_distances = problem.recover(sdpkit.solve(problem), n_components=2)
    assert np.allclose(by_distances.coordinates, embedding.coordinates, atol=1e-3)
    assert np.allclose(
        by_distances.extend(distances=D[60:, :60]), embedding.extend(X[60:]), atol=1e-2
    )
    with pytest.raises(InputError, match="distances="):
        by_distances.extend(X[60:])


def test_extension_of_a_flat_sheet_is_the_sheet() -> None:
    """A plane in the plane is kept by MVU up to rotation, and new points fall into place."""
    rng = np.random.default_rng(0)
    P = rng.uniform(-1, 1, (50, 2))
    problem = sdpkit.MVU(P[:40], n_neighbors=5, angles=True)
    embedding = problem.recover(sdpkit.solve(problem, tol=1e-8), n_components=2)
    extended = np.vstack([embedding.coordinates, embedding.extend(P[40:])])
    assert inconsistency(extended, P, affine=True) < 1e-3


@pytest.mark.parametrize("way", [{}, {"method": "sdp", "n_neighbors": 6}])
def test_neighbours_come_from_one_component(way: dict[str, Any]) -> None:
    X = np.array([[0.0], [1.0], [2.0], [2.9], [10.0], [11.0]])
    problem = sdpkit.MVU(X, n_neighbors=1, connect="components")
    embedding = problem.recover(sdpkit.solve(problem), n_components=1)
    y = embedding.extend([[1.5], [10.5]], **way)
    inside = embedding.coordinates
    assert y[0] == pytest.approx((inside[1] + inside[2]) / 2, abs=1e-4)
    assert y[1] == pytest.approx((inside[4] + inside[5]) / 2, abs=1e-4)


def test_extend_refuses() -> None:
    X, embedding = unfolded()
    with pytest.raises(InputError, match="columns"):
        embedding.extend(X[60:, :3])
    with pytest.raises(InputError, match="pass the new points"):
        embedding.extend()
    with pytest.raises(InputError, match="method"):
        embedding.extend(X[60:], method="pca")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="X_new"):
        embedding.extend(distances=np.ones((1, 60)), method="lle")
    with pytest.raises(InputError, match="n_neighbors"):
        embedding.extend(X[60:], method="sdp", n_neighbors=0)
    for option in ({"n_neighbors": 5}, {"refine": True}):
        with pytest.raises(InputError, match="leave them out"):
            embedding.extend(X[60:], **option)  # type: ignore[arg-type]
    bare = sdpkit.MVU(graph=sdpkit.datasets.path_graph(4))
    with pytest.raises(InputError, match="does not know its inputs"):
        bare.recover(sdpkit.solve(bare)).extend([[0.0]])


# -- eq. 3.34 ------------------------------------------------------------------------------------


@some
@given(seeds)
def test_inconsistency_is_a_least_squares_residual(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, Y, Q = rng.standard_normal((9, 2)), rng.standard_normal((9, 2)), rng.standard_normal((2, 2))
    err = inconsistency(X, Y)
    assert err <= np.linalg.norm(X - Y @ Q) + 1e-12
    assert err == pytest.approx(inconsistency(X, Y @ (np.eye(2) + 0.1 * Q)), rel=1e-6)
    assert inconsistency(X, Y, affine=True) <= err + 1e-12
    assert inconsistency(X + 5, Y, affine=True) == pytest.approx(
        inconsistency(X, Y, affine=True), rel=1e-9
    )
    assert relative_inconsistency((X, Y), (X, Y)) == pytest.approx(1.0)


def test_inconsistency_refuses_different_points() -> None:
    with pytest.raises(InputError, match="same points"):
        inconsistency([[0.0], [1.0]], [[0.0]])
