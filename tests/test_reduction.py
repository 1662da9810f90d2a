"""Reduction: the same optimum on the way down, the same proof on the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit.certificate.certify import certify
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.reduction import _suspects, independent_rows, reduce
from sdpkit.typing import Array

FORMS = ("equality", "inequality", "slack", "min_trace")
KINDS = (
    "plain",
    "minimise",
    "blocks",
    "nonnegative",
    "free",
    "mixed",
    "quadratic free",
    "quadratic nonnegative",
    "norm",
)
quick = settings(deadline=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)
both = pytest.mark.parametrize("orthonormal", [False, True])


def definite(rng: np.random.Generator, n: int) -> Array:
    a = rng.standard_normal((n, n))
    return a @ a.T


def faced_program(seed: int, k: int, features: bool = False) -> Program:
    """Random measurements of a block with k null directions, rows in large units."""
    rng = np.random.default_rng(seed)
    n, p = 5, 4
    v = rng.standard_normal((p, n))
    null = rng.standard_normal((n, k))
    more: dict[str, Any] = {}
    if features:
        more["features"], v = rng.standard_normal((6, n)), rng.standard_normal((p, 6))
    cost = rng.standard_normal((n, n))
    block = Block.of(n, v, cost=Cost.of(n, sparse=cost + cost.T), null=null, **more)
    return Program.of(block, 1e3 * rng.uniform(1, 2, p), sense="min" if seed % 2 else "max")


# -- the way there and back -----------------------------------------------------------------


@both
@given(seed=seeds, k=st.integers(0, 5), features=st.booleans())
@quick
def test_lifted_points_keep_values_rows_and_slacks(
    orthonormal: bool, seed: int, k: int, features: bool
) -> None:
    """For any Z ⪰ 0 and any w: objective, rows and dual value agree up to the stated units."""
    program = faced_program(seed, k, features)
    reduction = reduce(program, orthonormal)
    small = reduction.program
    rng = np.random.default_rng(seed)
    Z = definite(rng, small.blocks[0].size)
    w = rng.standard_normal(small.n_rows)
    answer = reduction.lift(Answer(Stop.DONE, "", (Z,), np.zeros(0), w))
    M = answer.matrices[0]
    units = reduction.rhs_scale * reduction.cost_scale
    scale = 1e-9 * (1 + np.abs(program.rhs).max())
    np.testing.assert_allclose(M @ program.blocks[0].null, 0, atol=1e-9 * np.linalg.norm(M))
    F = reduction.bases[0]
    expected_matrix = reduction.rhs_scale * F @ Z @ F.T
    np.testing.assert_allclose(M, expected_matrix, atol=1e-12 * np.linalg.norm(M))
    assert np.linalg.eigvalsh(M)[0] > -1e-9 * max(1.0, np.linalg.norm(M))
    assert program.objective([M], answer.x) == pytest.approx(
        units * small.objective([Z], np.zeros(0)), rel=1e-9, abs=scale
    )
    rows = program.row_values(program.measure([M]), answer.x) / reduction.rhs_scale
    expected = (
        small.row_values(small.measure([Z]), np.zeros(0)) * reduction.row_scale[reduction.rows]
    )
    np.testing.assert_allclose(rows[reduction.rows], expected, rtol=1e-8, atol=1e-8)
    assert program.rhs @ answer.dual == pytest.approx(units * (small.rhs @ w), rel=1e-9, abs=scale)
    # The slack of the original on the face is the slack of the reduced program.
    slack = F.T @ program.dual_slacks(program.sign * answer.dual)[0] @ F
    reduced = reduction.cost_scale * small.dual_slacks(small.sign * w)[0]
    np.testing.assert_allclose(slack, reduced, rtol=1e-7, atol=1e-8 * (1 + np.abs(slack).max()))


@both
@pytest.mark.parametrize("form", FORMS)
def test_reduced_optimum_of_every_form(
    unfoldings: dict[str, Any], form: str, orthonormal: bool
) -> None:
    case = unfoldings[form]
    reduction = reduce(case.program, orthonormal)
    small = sdpkit.solve(reduction.program, solver="clarabel", tol=1e-7)
    answer = reduction.lift(Answer(Stop.DONE, "", small.matrices, small.x, small.dual))
    certificate = certify(case.program, answer.matrices, answer.x, answer.dual)
    assert certificate.passes(1e-6)
    units = reduction.rhs_scale * reduction.cost_scale
    assert units * small.objective == pytest.approx(case.optimum, rel=1e-6)
    assert certificate.objective == pytest.approx(case.optimum, rel=1e-6)


@both
@pytest.mark.parametrize("kind", KINDS)
def test_reduced_optimum_of_every_kind(
    instance: Callable[[str, int], Any], kind: str, orthonormal: bool
) -> None:
    """Data in units of 10³ and costs in units of 10⁻², so that the scaling has work to do."""
    case = instance(kind, 7)
    case.rhs = 1e3 * case.rhs
    case.costs, case.cost_q = [1e-2 * c for c in case.costs], 1e-2 * case.cost_q
    case.cost_x, case.quadratic = 1e-2 * case.cost_x, 1e-5 * case.quadratic
    case.norms = [(1e-2 * weight, group) for weight, group in case.norms]
    program = case.program()
    reduction = reduce(program, orthonormal)
    optimum = case.optimum()
    small = replace(case, offset=0.0)
    small_program = reduction.program
    # Solve the reduced program by cvxpy, through the same plain arrays.
    small.vectors = [b.vectors().toarray() for b in small_program.blocks]
    small.costs = [program.sign * b.cost.dense() for b in small_program.blocks]
    small.rows_q, small.rows_x = small_program.rows_q.toarray(), small_program.rows_x.toarray()
    small.rhs, small.relations = small_program.rhs, small_program.relations
    small.cost_q = program.sign * small_program.cost_q
    small.cost_x = program.sign * small_program.cost_x
    small.quadratic = small_program.quadratic_x
    small.norms = [(p.weight, list(p.group)) for p in small_program.norms]
    units = reduction.rhs_scale * reduction.cost_scale
    found = units * (small.optimum() + small_program.offset)
    assert found == pytest.approx(optimum, rel=1e-6, abs=1e-6 * units)


def test_numbers_are_near_one(unfoldings: dict[str, Any]) -> None:
    for case in unfoldings.values():
        program = reduce(case.program).program
        assert np.abs(program.rhs).max() == pytest.approx(1.0)
        norms = np.sqrt(
            (program.matrix_rows.toarray() ** 2).sum(axis=1)
            + (program.rows_x.toarray() ** 2).sum(axis=1)
        )
        np.testing.assert_allclose(norms, 1.0, rtol=1e-12)
        costs = [program.blocks[0].cost.magnitude(), np.abs(program.cost_x).max(initial=0.0)]
        assert max(costs) == pytest.approx(1.0)


@both
@pytest.mark.parametrize("form", FORMS)
def test_lowering_undoes_lifting(unfoldings: dict[str, Any], form: str, orthonormal: bool) -> None:
    solution = unfoldings[form].solution
    reduction = reduce(unfoldings[form].program, orthonormal)
    matrices, x, w = reduction.lower(solution)
    sign = reduction.program.sign
    lifted = reduction.lift(Answer(Stop.DONE, "", tuple(matrices), x, sign * w))
    np.testing.assert_allclose(lifted.matrices[0], solution.matrix, atol=1e-9 * solution.objective)
    np.testing.assert_allclose(lifted.x, solution.x, rtol=1e-12)
    np.testing.assert_allclose(lifted.dual, solution.dual, rtol=1e-12)


def test_auxiliary_variables_are_lifted_in_the_units_of_the_rhs() -> None:
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=-1.0))
    program = Program.of(block, [50.0], rows_x=np.array([[2.0]]), cost_x=[-1.0])
    reduction = reduce(program)
    answer = Answer(Stop.DONE, "", (np.array([[0.25]]),), np.array([0.5]), np.array([1.0]))
    lifted = reduction.lift(answer)
    beta = reduction.rhs_scale
    np.testing.assert_allclose(lifted.matrices[0], 0.25 * beta)
    np.testing.assert_allclose(lifted.x, 0.5 * beta)


# -- bases ----------------------------------------------------------------------------------


def test_a_centred_graph_is_grounded(unfoldings: dict[str, Any]) -> None:
    program = unfoldings["equality"].program
    reduction = reduce(program)
    F, block = reduction.bases[0], reduction.program.blocks[0]
    np.testing.assert_allclose(F.T @ np.ones(12), 0, atol=1e-14)
    assert np.linalg.matrix_rank(F) == 11
    assert block.size == 11
    assert block.features is None
    assert block.incidence.nnz <= program.blocks[0].incidence.nnz
    # V F is the incidence without the last node, and Fᵀ I F is I − 11ᵀ/n.
    expected = program.blocks[0].incidence.toarray()[:, :-1]
    np.testing.assert_allclose(program.blocks[0].incidence @ F, expected, atol=1e-14)
    np.testing.assert_allclose(F.T @ F, np.eye(11) - np.ones((11, 11)) / 12, atol=1e-14)
    cost = block.cost.dense() * reduction.cost_scale
    np.testing.assert_allclose(cost, F.T @ F, atol=1e-14)


def test_an_orthonormal_basis_is_orthonormal(unfoldings: dict[str, Any]) -> None:
    F = reduce(unfoldings["equality"].program, orthonormal=True).bases[0]
    np.testing.assert_allclose(F.T @ F, np.eye(11), atol=1e-12)
    np.testing.assert_allclose(F.T @ np.ones(12), 0, atol=1e-12)


def test_grounding_keeps_a_weighted_variance() -> None:
    """Coincident points: C = diag(m) − mmᵀ/n annihilates 1 and loses its last row and column."""
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.5]])
    problem = sdpkit.MVU(X, edges=[[0, 1], [1, 2], [2, 3]])
    program = problem.program()
    cost = program.blocks[0].cost.dense()
    np.testing.assert_allclose(cost, np.diag([2.0, 1, 1]) - np.outer([2, 1, 1], [2, 1, 1]) / 4)
    reduction = reduce(program)
    small = reduction.program.blocks[0].cost.dense() * reduction.cost_scale
    np.testing.assert_allclose(small, cost[:-1, :-1], atol=1e-12)
    solution = sdpkit.solve(problem, solver="clarabel")
    # Coordinates 0, 0, 1, 2.5 on a line.
    line = np.array([0.0, 0.0, 1.0, 2.5])
    assert solution.objective == pytest.approx(np.sum((line - line.mean()) ** 2), rel=1e-6)


@pytest.mark.parametrize("null", [[1.0, 2.0, -1.0], [0.0, 0.0, 3.0], [1.0, 1.0, 1.0]])
def test_any_single_direction(null: list[float]) -> None:
    """max tr M, M₁₁ + M₂₂ + M₃₃ ≤ 1 with Mv = 0 has the value 1 for every v."""
    block = Block.of(3, np.eye(3), cost=Cost.of(3, identity=1.0), null=null)
    program = Program.of(block, [1.0], rows_q=np.ones((1, 3)), relations="<=")
    solution = sdpkit.solve(program, solver="clarabel")
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(1.0, rel=1e-6)
    np.testing.assert_allclose(solution.matrix @ null, 0, atol=1e-8)


def test_a_zero_null_direction_says_nothing() -> None:
    block = Block.of(2, np.eye(2), cost=Cost.of(2, identity=1.0), null=[0.0, 0.0])
    reduction = reduce(Program.of(block, [1.0, 2.0]))
    assert reduction.program.blocks[0].size == 2
    assert np.linalg.matrix_rank(reduction.bases[0]) == 2


def test_a_face_that_is_a_point_leaves_zero() -> None:
    block = Block.of(2, np.eye(2), cost=Cost.of(2, identity=1.0), null=np.eye(2))
    reduction = reduce(Program.of(block, [0.0, 0.0]))
    lifted = reduction.lift(Answer(Stop.DONE, "", (np.array([[7.0]]),), np.zeros(0), None))
    np.testing.assert_array_equal(lifted.matrices[0], np.zeros((2, 2)))


def test_noise_free_data_lose_a_face_and_keep_the_optimum() -> None:
    """A flat 3 × 3 grid with angles: cliques of the plane force K c = 0, and K is the grid's."""
    grid = np.array([[i, j] for i in range(3) for j in range(3)], dtype=float)
    problem = sdpkit.MVU(grid, n_neighbors=3, angles=True)
    assert problem.facial_reduction_used
    program = problem.program()
    reduction = reduce(program)
    null = program.blocks[0].null
    np.testing.assert_allclose(
        null.T @ grid @ np.eye(2),
        np.vstack([grid.sum(axis=0), np.zeros((null.shape[1] - 1, 2))]),
        atol=1e-9,
    )
    assert reduction.program.blocks[0].size < 8
    solution = sdpkit.solve(problem, solver="clarabel")
    assert solution.status == "optimal"
    centred = grid - grid.mean(axis=0)
    assert solution.objective >= np.sum(centred**2) * (1 - 1e-6)
    np.testing.assert_allclose(solution.matrix @ null, 0, atol=1e-6)


def string_with_plates(n: int = 120) -> sdpkit.MVU:
    """A string in space, kept by its second neighbours, with two flat plates of four points."""
    t = np.linspace(0, 6, n)
    X = np.c_[np.cos(2 * t), np.sin(2 * t), t]
    edges = {(i, i + s) for i in range(n) for s in (1, 2) if i + s < n}
    for start in (20, 70):
        corners = X[start] + np.array([[0, 0, 0], [0.1, 0, 0.02], [0, 0.1, 0], [0.1, 0.1, 0.02]])
        X[start : start + 4] = corners
        edges |= {(i, j) for i in range(start, start + 4) for j in range(i + 1, start + 4)}
    return sdpkit.MVU(X, edges=sorted(edges))


def test_local_directions_leave_measurements_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = string_with_plates()
    program = problem.program()
    block = program.blocks[0]
    assert block.null.shape[1] == 3
    reduction = reduce(program)
    small, F = reduction.program.blocks[0], reduction.bases[0]
    assert small.features is None
    assert F.shape == (120, 117)
    np.testing.assert_allclose(F.T @ block.null, 0, atol=1e-12)
    kept = program.blocks[0].incidence[reduction.rows]
    np.testing.assert_allclose(small.vectors().toarray(), kept @ F, atol=1e-12)
    np.testing.assert_allclose(small.cost.dense() * reduction.cost_scale, F.T @ F, atol=1e-12)
    # Where one corner follows three others, their triangle implies its lengths.
    assert reduction.rows.size == program.n_rows - 2 * 3
    solution = sdpkit.solve(problem, solver="interior")
    assert solution.status == "optimal"
    monkeypatch.setattr("sdpkit.solution.reduction._SPARSE", 0.0)
    assert reduce(program).program.blocks[0].features is not None
    whole = sdpkit.solve(problem, solver="interior")
    assert solution.objective == pytest.approx(whole.objective, rel=1e-6)


def test_suspects_are_the_rows_that_a_face_can_tie() -> None:
    """What is left untested is independent: the rank of all rows is that of those kept."""
    program = string_with_plates(40 + 40).program()
    reduction = reduce(program)
    suspects = _suspects(program)
    assert 0 < suspects.sum() < program.n_rows
    f = program.blocks[0].face
    v = program.blocks[0].incidence @ f
    gram = (v @ v.T) ** 2
    assert np.linalg.matrix_rank(gram, hermitian=True) == reduction.rows.size
    kept = gram[np.ix_(reduction.rows, reduction.rows)]
    assert np.linalg.eigvalsh(kept)[0] > 1e-8 * np.linalg.norm(kept)


# -- directions that nothing sees -----------------------------------------------------------


def hinges(X: Array, rng: np.random.Generator) -> Program:
    """min <P, M> + Σξ,  far − near + ξ ≥ 1: pull a hundred pairs, push as many."""
    n, m = len(X), 100
    label = np.arange(n) % 3
    triplets = rng.integers(0, n, (20 * m, 3))
    i, j, k = triplets.T
    keep = (label[i] == label[j]) & (label[i] != label[k]) & (i != j)
    i, j, k = triplets[keep][:m].T
    unit, eye = np.eye(n), sp.eye_array(m, format="csr")
    near, far = unit[i] - unit[j], unit[i] - unit[k]
    pull = 0.02 * (near @ X).T @ (near @ X)
    return Program.of(
        Block.of(X.shape[1], np.vstack([near, far]), features=X, cost=pull),
        np.ones(m),
        sense="min",
        rows_q=sp.hstack([-eye, eye]),
        rows_x=eye,
        relations=">=",
        cost_x=np.ones(m),
    )


def flat_points(rng: np.random.Generator, rank: int) -> Array:
    """Thirty points of three kinds in `rank` dimensions."""
    Y = rng.standard_normal((30, rank))
    Y[:, 0] += 1.5 * (np.arange(30) % 3)
    return Y


@pytest.mark.parametrize("solver", ["interior", "clarabel"])
@pytest.mark.parametrize(("rank", "size", "offset"), [(3, 6, 0.0), (5, 12, 1e3), (1, 4, 0.0)])
def test_features_of_deficient_rank_are_certified(
    solver: str, rank: int, size: int, offset: float
) -> None:
    """The optimum is that of the same points in coordinates of their own subspace."""
    Y = flat_points(np.random.default_rng(1), rank)
    flat = hinges(Y, np.random.default_rng(2))
    X = Y @ np.random.default_rng(3).standard_normal((rank, size)) + offset
    program = hinges(X, np.random.default_rng(2))
    reduction = reduce(program)
    assert reduction.program.blocks[0].size == rank
    solution = sdpkit.solve(program, solver=solver)
    assert solution.status == "optimal"
    expected = sdpkit.solve(flat, solver=solver).objective
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    unseen = program.blocks[0].unseen
    np.testing.assert_allclose(
        solution.matrix @ unseen, 0, atol=1e-9 * np.abs(solution.matrix).max()
    )


def test_a_margin_is_asked_for_only_where_it_can_be_had() -> None:
    X = flat_points(np.random.default_rng(1), 2) @ np.ones((2, 3)) * [1.0, 2.0, 3.0]
    block = hinges(X, np.random.default_rng(2)).with_margin(1e-3).blocks[0]
    assert block.unseen.shape == (3, 2)


# -- rows -----------------------------------------------------------------------------------


def rows_program(rows: Array, rhs: list[float], relations: Any = "==", **more: Any) -> Program:
    """Rows over the squared lengths of three random vectors and their sums."""
    v = np.random.default_rng(0).standard_normal((rows.shape[1], 3))
    block = Block.of(3, v, cost=Cost.of(3, identity=-1.0))
    return Program.of(block, rhs, rows_q=rows, relations=relations, **more)


def test_independent_rows_are_all_kept() -> None:
    program = rows_program(np.eye(4), [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(independent_rows(program)[0], range(4))


def test_duplicated_rows_are_dropped_once() -> None:
    rows = np.array([[1.0, 0, 0], [0, 1.0, 0], [2.0, 0, 0], [1.0, 1.0, 0], [0, 0, 1.0]])
    program = rows_program(rows, [1.0, 2.0, 2.0, 3.0, 4.0])
    kept = independent_rows(program)[0]
    assert kept.size == 3
    dense = program.matrix_rows.toarray()
    assert np.linalg.matrix_rank(dense[kept]) == np.linalg.matrix_rank(dense) == 3


def test_more_rows_than_dimensions() -> None:
    """Seven random squared lengths of a 3 × 3 matrix: six rows are enough."""
    v = np.random.default_rng(1).standard_normal((7, 3))
    block = Block.of(3, v, cost=Cost.of(3, identity=1.0))
    M = definite(np.random.default_rng(2), 3)
    program = Program.of(block, block.measure(M))
    assert independent_rows(program)[0].size == 6
    solution = sdpkit.solve(program, solver="interior")
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(np.trace(M), rel=1e-6)


def test_inconsistent_rows_are_kept_and_seen() -> None:
    rows = np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0]])
    program = rows_program(rows, [1.0, 2.0, 1.0])
    np.testing.assert_array_equal(independent_rows(program)[0], range(3))
    assert sdpkit.solve(program, solver="clarabel").status == "infeasible"


def test_zero_rows() -> None:
    """0 = 0 says nothing and goes; 0 = 1 is a contradiction and stays."""
    rows = np.array([[1.0, 0], [0, 0], [0, 1.0]])
    np.testing.assert_array_equal(independent_rows(rows_program(rows, [1.0, 0.0, 1.0]))[0], [0, 2])
    clash = rows_program(rows, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(independent_rows(clash)[0], [0, 1, 2])
    assert sdpkit.solve(clash, solver="clarabel").status == "infeasible"


def test_inequalities_and_rows_with_auxiliaries_are_never_dropped() -> None:
    rows = np.array([[1.0, 0], [1.0, 0], [1.0, 0], [1.0, 0], [1.0, 0]])
    columns = np.array([[0.0], [0.0], [0.0], [0.0], [1.0]])
    program = rows_program(rows, [1.0, 1.0, 1.0, 1.0, 1.0], [0, -1, 1, 0, 0], rows_x=columns)
    kept = independent_rows(program)[0]
    assert {1, 2, 4} <= set(kept.tolist())
    assert kept.size == 4


def test_distinct_edges_are_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sdpkit.MVU(graph=np.ones((5, 5)) - np.eye(5))
    monkeypatch.setattr("scipy.linalg.lapack.dpstrf", None)
    np.testing.assert_array_equal(independent_rows(problem.program())[0], range(10))


def test_a_repeated_edge_is_found() -> None:
    incidence = [[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 1.0, -1.0]]
    block = Block.of(3, incidence, cost=Cost.of(3, identity=1.0), null=np.ones(3))
    program = Program.of(block, [1.0, 1.0, 4.0])
    assert independent_rows(program)[0].size == 2
    solution = sdpkit.solve(program, solver="clarabel")
    line = np.array([0.0, 1.0, 3.0])
    assert solution.objective == pytest.approx(np.sum((line - line.mean()) ** 2), rel=1e-6)


def test_multipliers_of_equal_rows_are_shared_out() -> None:
    """Of M₁₁ twice and once more doubled, each takes what its own size asks for."""
    rows = np.array([[1.0, 0, 0], [0, 1.0, 0], [2.0, 0, 0], [1.0, 0, 0]])
    reduction = reduce(rows_program(rows, [1.0, 2.0, 2.0, 1.0]))
    assert reduction.rows.size == 2
    lifted = reduction.lift(Answer(Stop.DONE, "", dual=np.array([3.0, 5.0])))
    at_unit_norm = lifted.dual * reduction.row_scale
    np.testing.assert_allclose(at_unit_norm[[2, 3]], at_unit_norm[0])
    assert lifted.matrices is None
    assert lifted.x is None


@given(seed=seeds)
@quick
def test_lifted_multipliers_are_the_smallest_with_their_slack(seed: int) -> None:
    """Nine squared lengths of a 3 × 3 matrix: six rows are kept, nine have multipliers."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((9, 3))
    block = Block.of(3, v, cost=Cost.of(3, identity=1.0))
    program = Program.of(block, block.measure(definite(rng, 3)))
    reduction = reduce(program)
    w = rng.standard_normal(6)
    lifted = reduction.lift(Answer(Stop.DONE, "", dual=w)).dual
    kept = np.zeros(9)
    kept[reduction.rows] = reduction.cost_scale * w / reduction.row_scale[reduction.rows]
    adjoint, expected = (program.adjoints(u)[0] for u in (lifted, kept))
    np.testing.assert_allclose(adjoint, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(reduction.lower_multipliers(lifted), w, rtol=1e-6, atol=1e-8)
    unit = program.matrix_rows.toarray() / reduction.row_scale[:, None]
    smallest = np.linalg.pinv(unit.T) @ (unit.T @ (kept * reduction.row_scale))
    np.testing.assert_allclose(lifted * reduction.row_scale, smallest, rtol=1e-5, atol=1e-7)


# -- rays -----------------------------------------------------------------------------------


def test_a_ray_of_infeasibility_is_lifted() -> None:
    program = sdpkit.MVU(graph=[[0, 1, 1], [1, 0, 3], [1, 3, 0]]).program()
    reduction = reduce(program)
    # In the reduced program the rows are scaled to unit norm; so is their ray.
    ray = (np.where(program.rhs > 2, -1.0, 2.0) * reduction.row_scale)[reduction.rows]
    assert certify_infeasible(reduction.program, ray).passes(1e-12)
    lifted = reduction.lift(Answer(Stop.CLAIMS_INFEASIBLE, "", multiplier_ray=ray))
    assert certify_infeasible(program, lifted.multiplier_ray).passes(1e-12)


def test_an_unbounded_ray_is_lifted_with_its_auxiliaries() -> None:
    """max M, M − x = 100: M and x grow together, and must be lifted in the same units."""
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0))
    program = Program.of(block, [100.0], rows_x=np.array([[-1.0]]))
    reduction = reduce(program)
    ray = ((np.array([[1.0]]),), np.array([1.0]))
    assert certify_unbounded(reduction.program, *ray).passes(1e-12)
    lifted = reduction.lift(Answer(Stop.CLAIMS_UNBOUNDED, "", matrix_ray=ray))
    matrices, x = lifted.matrix_ray
    assert matrices[0][0, 0] == pytest.approx(x[0])
    assert certify_unbounded(program, matrices, x).passes(1e-12)
