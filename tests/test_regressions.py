"""Cases that once fooled the certificate or stopped the engine, each with its right answer."""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fuzzing.planted import weak

import sdpkit
from sdpkit import MVU, Block, Cost, Program, Status, certify
from sdpkit.certificate.exact import exact_dot
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.program.listed_rows import ListedRows
from sdpkit.program.roots import Roots
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solving import registry
from sdpkit.solving.candidate import Candidate
from sdpkit.solving.choice import Choice
from sdpkit.solving.escalation import ESCALATION, escalate
from sdpkit.solving.registry import get_solver
from sdpkit.solving.run import Run
from sdpkit.solving.verdict import verdict


def scalar(cost: float = 0.0) -> Block:
    """A 1 × 1 unknown, measured once."""
    return Block.of(1, [[1.0]], cost=Cost.of(1, identity=cost))


def solve(problem: Any, **options: Any) -> sdpkit.Solution:
    return sdpkit.solve(problem, solver="interior", **options)


def test_scaling_does_not_leave_a_box_without_zero() -> None:
    """max M + x, M = 1, x ≤ M: the slack x makes w₂ ≥ 1, so multiples of w may not be taken."""
    program = Program.of(
        scalar(1.0),
        [1.0, 0.0],
        rows_q=np.array([[1.0], [-1.0]]),
        rows_x=np.array([[0.0], [1.0]]),
        relations=[0, -1],
        cost_x=[1.0],
    )
    wrong = certify(program, np.eye(1), [10 / 9 - 1], [10.0, 1.0])
    assert wrong.safe_bound >= 2 - 1e-12
    assert not wrong.passes(1e-6)
    assert solve(program).objective == pytest.approx(2.0, rel=1e-6)


def test_a_block_that_no_row_sees_does_not_hide_the_rows() -> None:
    program = Program.of(
        [Block.of(3, np.zeros((1, 3))), scalar(-1.0)],
        [0.3, -1.2],
        rows_q=np.array([[0, -1.0], [0, -1.0]]),
        rows_x=np.array([[-2.0, 0], [0, 0]]),
        free_x=[True, False],
        cost_x=[0.6, -1.3],
    )
    ray = certify_unbounded(program, [1e19 * np.eye(3), np.zeros((1, 1))], [1.0, 0.0])
    assert not ray.passes(1e-3)


def test_rows_of_different_size_are_judged_each_by_its_own() -> None:
    block = Block.of(2, np.diag([1e4, 1.0]), cost=Cost.of(2, identity=1.0))
    program = Program.of(block, [1.0, 1.0])
    assert not certify_unbounded(program, [np.diag([0.0, 1.0])], []).passes(1e-3)


def test_a_curved_variable_is_no_ray() -> None:
    program = Program.of(
        scalar(), [1.0], rows_x=np.array([[0.0]]), cost_x=[1000.0], quadratic_x=[1e-3]
    )
    assert not certify_unbounded(program, [np.zeros((1, 1))], [1.0]).passes(1e-3)


def test_infeasible_comes_before_unbounded() -> None:
    """x = −1 with x ≥ 0, while M may grow without end."""
    program = Program.of(scalar(1.0), [-1.0], rows_q=np.array([[0.0]]), rows_x=np.array([[1.0]]))
    assert solve(program).status is Status.INFEASIBLE


@pytest.mark.parametrize("small", [1e-2, 1e-4, 1e-6])
def test_a_large_solution_is_not_called_infeasible(small: float) -> None:
    """M₁₁ = ε and M₁₂ = 1 need M₂₂ ≥ 1/ε; a ray that excludes smaller traces proves nothing."""
    vectors = np.array([[1.0, 0], [1, 1], [0, 1]])
    block = Block.of(2, vectors, cost=Cost.of(2, identity=1.0))
    rows = np.array([[1.0, 0, 0], [-1, 1, -1]])
    program = Program.of(block, [small, 2.0], rows_q=rows, sense="min")
    inexact = np.array([-1 / small, 1.0])
    ray = certify_infeasible(program, inexact)
    assert not ray.passes(1e-7)
    M = np.array([[small, 1.0], [1.0, 1 / small]])
    assert program.violations(program.measure([M]), np.zeros(0)).max() < 1e-9 / small


def with_copies(seed: int, gap: float) -> Any:
    """Six points in four dimensions, and two of them once more, `gap` away."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, 4))
    return np.vstack([X, X[:2] + gap * rng.standard_normal((2, 4))])


@pytest.mark.parametrize(("seed", "optimum"), [(1, 12.7033), (3, 46.62704), (4, 22.386729)])
def test_edges_much_shorter_than_others_are_met(seed: int, optimum: float) -> None:
    """The optima are those of the same programs in units of the short edges, which are easy."""
    solution = solve(MVU(with_copies(seed, 1e-2), n_neighbors=4, connect="bridge"))
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(optimum, rel=1e-6)


def test_nearly_coincident_points_are_not_called_optimal_wrongly() -> None:
    """An edge that is too long by a hundred times is worth 0.3 % of the objective, 12.7445."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = solve(MVU(with_copies(1, 1e-7), n_neighbors=4, connect="bridge"))
    near = abs(solution.objective - 12.7445) <= 1e-3
    assert near or solution.status is Status.INACCURATE
    assert solution.certificate.safe_bound >= 12.7444


def test_rows_may_be_off_by_what_rounding_makes_unavoidable() -> None:
    """A squared length of 1e-7 beside entries of 900: a thousandth of it is lost in K = YYᵀ."""
    Y = np.array([[30.0, 1.0], [30.0, 1.0 + 10**-3.5], [-29.0, 2.0], [-31.0, -4.0]])
    Y = Y - Y.mean(axis=0)
    edges = np.array([[0, 1], [0, 2], [1, 2], [2, 3]])
    lengths = ((Y[edges[:, 0]] - Y[edges[:, 1]]) ** 2).sum(axis=1)
    graph = sp.coo_array((np.sqrt(lengths), edges.T), shape=(4, 4)).tocsr()
    program = MVU(graph=graph + graph.T).program()
    off = np.eye(4)[0] - np.eye(4)[1]
    K = Y @ Y.T
    K = K + 4e-13 * np.outer(off, off) / 4  # a few roundings of 900
    assert program.violations(program.measure([K]), np.zeros(0)).max() > 1e-6 * lengths[0]
    assert certify(program, K).primal_residual <= 1e-6


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-7])
def test_nearly_coincident_points_with_room_are_optimal(gap: float) -> None:
    solution = solve(MVU(with_copies(2, gap), n_neighbors=4, connect="bridge"))
    assert solution.status is Status.OPTIMAL


def test_a_row_with_a_small_coefficient_counts() -> None:
    """1e-8·x ≤ 1e-8 is x ≤ 1."""
    program = Program.of(
        Block.of(2, np.eye(2)),
        [1e-8, 1.0, 100.0],
        rows_q=np.array([[0, 0], [1.0, 0], [0, 0]]),
        rows_x=np.array([[1e-8], [0], [1.0]]),
        relations=[-1, 0, -1],
        cost_x=[1.0],
    )
    assert not certify(program, np.diag([1.0, 0.0]), [100.0], [0, 0, 1.0]).passes(1e-6)


def test_each_block_is_judged_by_its_own_largest_eigenvalue() -> None:
    mixed = Block.of(2, np.eye(2), cost=Cost.of(2, sparse=np.array([[0, 1.0], [1, 0]])))
    program = Program.of([scalar(), mixed], [1e8, 1.0, 1.0])
    indefinite = [np.array([[1e8]]), np.array([[1, 40.0], [40, 1]])]
    assert not certify(program, indefinite, dual=[0, 40.0, 40.0]).passes(1e-6)


def test_underflow_is_not_verified() -> None:
    block = Block.of(1, [[1e-170]], features=[[1e170]], cost=Cost.of(1, identity=-1.0))
    verified = certify(Program.of(block, [1.0]), np.eye(1), dual=[-5.0]).verify()
    assert verified.bound is None or verified.bound >= -1


def test_a_quadratic_penalty_on_a_nonnegative_variable() -> None:
    program = Program.of(
        scalar(1.0), [4.0], rows_x=np.array([[1.0]]), cost_x=[2.0], quadratic_x=[1.0]
    )
    solution = solve(program)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(4.5, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_components_of_different_sizes(seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((90, 2))
    solution = solve(MVU(X, n_neighbors=2, connect="components"))
    assert solution.status is Status.OPTIMAL


def test_free_variables_in_no_row_or_twice() -> None:
    unused = Program.of(scalar(1.0), [1.0], rows_x=np.array([[0.0]]), free_x=[True])
    assert solve(unused).status is Status.OPTIMAL
    twice = Program.of(
        scalar(1.0), [1.0], rows_x=np.array([[1.0, 1.0]]), free_x=[True, True], cost_x=[1.0, 1.0]
    )
    assert solve(twice).status in (Status.OPTIMAL, Status.UNBOUNDED)


def test_a_program_without_rows() -> None:
    falling = Program.of(Block.of(2, np.zeros((0, 2)), cost=Cost.of(2, identity=-1.0)), [])
    assert solve(falling).objective == 0.0
    assert solve(falling).certificate.verify().bound == 0.0
    rising = Program.of(Block.of(2, np.zeros((0, 2)), cost=Cost.of(2, identity=1.0)), [])
    assert solve(rising).status is Status.UNBOUNDED


@pytest.mark.parametrize("form", ["equality", "inequality", "slack", "min_trace"])
def test_a_warm_start_from_garbage_does_no_harm(form: str) -> None:
    problem = MVU(sdpkit.datasets.swiss_roll(20), n_neighbors=4, form=form)
    good = solve(problem)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(good.matrix.shape)
    garbage = sdpkit.Solution(
        **{
            **good.__dict__,
            "matrices": (1e6 * (noise + noise.T),),
            "dual": -1e3 * rng.standard_normal(good.dual.size),
        }
    )
    assert solve(problem, warm_start=garbage).status is Status.OPTIMAL


def test_an_interrupted_backend_is_not_asked_again() -> None:
    """Ctrl-C ends a solve; it does not start four others."""
    calls: list[Program] = []

    class Interrupted:
        name = "interrupted"
        capabilities = sdpkit.Capabilities()

        def unavailable(self) -> None:
            return None

        def memory(self, program: Program) -> float:
            return 0.0

        def solve(self, program: Program, settings: Any) -> Answer:
            calls.append(program)
            return Answer(Stop.INTERRUPTED, "Ctrl-C")

    interrupted = pytest.warns(sdpkit.ConvergenceWarning, match="interrupted")
    with registry.registered(Interrupted()), interrupted:
        solution = sdpkit.solve(MVU(sdpkit.datasets.swiss_roll(12)), solver="interrupted")
    assert solution.status is Status.INTERRUPTED
    assert len(calls) == 1


def test_recover_refuses_the_solution_of_another_problem() -> None:
    X = sdpkit.datasets.swiss_roll(20)
    other = solve(MVU(X, n_neighbors=4))
    with pytest.raises(sdpkit.InputError, match="another problem"):
        MVU(X, n_neighbors=5).recover(other)


def test_solve_says_what_it_takes() -> None:
    with pytest.raises(sdpkit.InputError, match=r"sdpkit.MVU\(X\)"):
        sdpkit.solve(np.eye(3))


def test_a_solver_of_graphs_is_not_asked_what_it_cannot_take() -> None:
    """FULL's rounds end where barrier breaks down; the search for a ray then asked it for a
    program with unit vectors, and the answer was an exception."""
    X = sdpkit.datasets.swiss_roll(40)
    problem = MVU(X, graph=sdpkit.graphs.spanning_tree(X), full=True)
    with pytest.warns(sdpkit.ConvergenceWarning):
        solution = sdpkit.solve(problem, solver="barrier", tol=1e-3)
    assert solution.status is Status.INACCURATE


# -- statuses that were granted wrongly ------------------------------------------------------


@pytest.mark.parametrize("big", [1e7, 1e10])
def test_rows_that_contradict_each_other_beside_a_large_one(big: float) -> None:
    """M₂₂ = 1 and M₂₂ = 2: the right-hand side of another row is no excuse."""
    block = Block.of(2, [[1.0, 0], [0, 1], [0, 1]], cost=Cost.of(2, sparse=np.diag([1.0, 0])))
    program = Program.of(block, [big, 1.0, 2.0])
    for middle in (1.0, 1.5, 2.0):
        assert not certify(program, np.diag([big, middle]), dual=[1.0, 0, 0]).passes(1e-6)


def test_a_small_row_beside_a_large_one_is_met() -> None:
    block = Block.of(2, np.eye(2), cost=Cost.of(2, sparse=np.diag([1.0, 0.0])))
    program = Program.of(block, [1e10, 1.0])
    assert not certify(program, np.diag([1e10, 8.4]), dual=[1.0, 0.0]).passes(1e-6)
    solution = solve(program)
    assert solution.status is Status.OPTIMAL
    assert np.asarray(solution.matrix)[1, 1] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-5, 1e-8, 1e-12])
def test_small_costs_keep_their_digits(unit: float) -> None:
    """Max-cut of a triangle: 2.25 times the unit of its costs."""
    laplacian = 3 * np.eye(3) - np.ones((3, 3))
    block = Block.of(3, np.eye(3), cost=Cost.of(3, sparse=unit * laplacian / 4))
    program = Program.of(block, np.ones(3))
    assert not certify(program, np.eye(3), dual=np.full(3, 0.75 * unit)).passes(1e-6)
    solution = solve(program)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(2.25 * unit, rel=1e-5)


def test_each_free_variable_has_its_own_rounding() -> None:
    """x₂ is free, in no row and worth something: there is no bound."""
    program = Program.of(
        scalar(),
        [1.0, 1.0],
        rows_q=[[0.0], [1.0]],
        rows_x=[[1.0, 0], [0, 0]],
        cost_x=[1.0, 5e-13],
        free_x=[True, True],
    )
    certificate = certify(program, np.eye(1), [1.0, 0.0], [1.0, 0.0])
    assert certificate.safe_bound == np.inf
    assert not certificate.passes(1e-6)


def test_a_small_cost_must_be_symmetric_too() -> None:
    with pytest.raises(sdpkit.InputError, match="not symmetric"):
        Cost.of(2, sparse=np.array([[0, 8e-13], [0, 0]]))
    nearly = Cost.of(2, sparse=np.array([[1.0, 1 + 1e-14], [1.0, 1.0]])).dense()
    np.testing.assert_array_equal(nearly, nearly.T)


def test_a_bound_counts_the_rounding_of_large_multipliers() -> None:
    """M₂₂ = 3 written three times; multipliers of 2⁵⁵ cancel in exact arithmetic only."""
    a = np.array([3.0, 5.0, 7.0])
    block = Block.of(2, np.eye(2), cost=Cost.of(2, sparse=np.diag([1.0, 0.0])))
    rows = np.vstack([[1.0, 1.0], np.c_[np.zeros(3), a]])
    program = Program.of(block, np.r_[5.0, 3 * a], rows_q=rows, relations=[-1, 0, 0, 0])
    rng = np.random.default_rng(0)
    for _ in range(100):
        size = 2.0 ** rng.integers(50, 58)
        first, second = np.round(rng.uniform(-size, size, 2))
        third = -(a[0] * first + a[1] * second) / a[2] + rng.uniform(-50, 50)
        dual = [1.0, first, second, third]
        assert certify(program, np.diag([0.5, 3.0]), dual=dual).safe_bound >= 2


@pytest.mark.parametrize("size", [1e5, 1e7])
def test_a_large_optimum_is_not_unbounded(size: float) -> None:
    """max x₁, x₁ ≤ x₂ ≤ 1 + (1 − 1/size)x₁."""
    program = Program.of(
        scalar(),
        [0.0, 1.0, 1.0],
        rows_q=[[0.0], [0.0], [1.0]],
        rows_x=[[1.0, -1.0], [-(1 - 1 / size), 1.0], [0, 0]],
        relations=[-1, -1, 0],
        cost_x=[1.0, 0.0],
    )
    assert not certify_unbounded(program, [np.zeros((1, 1))], [1.0, 1.0]).passes(1e-6)


def test_an_objective_that_is_fixed_is_not_unbounded() -> None:
    """M₁₁ = 1e-5 and M₁₂ = 1, the objective."""
    vectors = np.array([[1.0, 0], [0, 1], [1, 1]])
    block = Block.of(2, vectors, cost=Cost.of(2, sparse=np.array([[0, 0.5], [0.5, 0]])))
    program = Program.of(block, [1e-5, 1.0], rows_q=[[1.0, 0, 0], [-0.5, -0.5, 0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        assert solve(program).status not in (Status.UNBOUNDED, Status.INFEASIBLE)


def test_a_direction_without_a_feasible_point_is_not_unbounded() -> None:
    """M₁₁ = 0 and M₁₂ = 1 contradict each other, weakly; M₃₃ may grow."""
    vectors = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
    block = Block.of(3, vectors, cost=Cost.of(3, sparse=np.diag([0, 0, 1.0])))
    program = Program.of(block, [0.0, 2.0], rows_q=[[1.0, 0, 0, 0], [-1, -1, 1, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        assert solve(program).status is not Status.UNBOUNDED


def test_projection_with_a_step_of_length_zero() -> None:
    program = Program.of(scalar(), [1.0], relations="<=")
    assert sdpkit.solve(program, solver="projection").status is Status.OPTIMAL


def test_auto_takes_programs_that_are_no_sums_of_roots() -> None:
    program = Program.of(
        scalar(-1.0), [3.0] * 3, rows_q=np.ones((3, 1)), rows_x=np.ones((3, 1)), relations="<="
    )
    assert sdpkit.solve(program).status is Status.OPTIMAL


@pytest.mark.parametrize("limit", [10.0, 1e3, 1e6, 1e8])
def test_a_wrong_value_without_an_interior_carries_a_warning(limit: float) -> None:
    """max −Z₃₃, Z₂₂ = 0, 2Z₁₂ + Z₃₃ = 1, tr Z ≤ limit: Z₁₂ = 0, so that the optimum is −1."""
    vectors = np.array([[0, 1.0, 0], [1, 1, 0], [1, -1, 0], [0, 0, 1], [1, 0, 0]])
    program = Program.of(
        Block.of(3, vectors, cost=Cost.of(3, sparse=np.diag([0, 0, -1.0]))),
        [0.0, 1.0, limit],
        rows_q=np.array([[1.0, 0, 0, 0, 0], [0, 0.5, -0.5, 1, 0], [1, 0, 0, 1, 1]]),
        relations=["==", "==", "<="],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = solve(program)
    right = abs(solution.objective + 1) <= 1e-4
    assert solution.status is not Status.OPTIMAL or right or solution.certificate.warnings
    assert solution.certificate.safe_bound >= -1
    assert solution.certificate.verify().lower is None


@pytest.mark.parametrize(
    "solver", ["interior", "projection", pytest.param("lowrank", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("seed", [0, 1, 8])
def test_infeasible_programs_are_not_unbounded(seed: int, solver: str) -> None:
    program = weak(np.random.default_rng(seed)).program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = sdpkit.solve(program, solver=solver, max_iter=2000)
    assert solution.status not in (Status.UNBOUNDED, Status.OPTIMAL)


def test_no_direction_beside_a_finite_bound() -> None:
    """max x₁, x₁ ≤ x₂ ≤ 1 + (1 − 1e-7)x₁: the direction (1, 1) is off by 1e-7 only."""
    program = Program.of(
        scalar(),
        [0.0, 1.0, 1.0],
        rows_q=[[0.0], [0.0], [1.0]],
        rows_x=[[1.0, -1.0], [-(1 - 1e-7), 1.0], [0, 0]],
        relations=[-1, -1, 0],
        cost_x=[1.0, 0.0],
    )
    answer = Answer(
        matrices=(np.ones((1, 1)),),
        x=np.zeros(2),
        dual=np.array([1.1e7, 1.1e7, 0.0]),
        matrix_ray=((np.zeros((1, 1)),), np.ones(2)),
        stop=Stop.CLAIMS_UNBOUNDED,
        native_status="unbounded",
    )
    first = Candidate.of(program, Choice(get_solver("interior"), ""), 1e-6, answer)
    found = escalate(Run(Settings()), first, ESCALATION)
    assert found.ray is None
    assert 1e7 <= found.certificate.safe_bound <= 1.1e7 * (1 + 1e-6)
    status, _ = verdict(found.certificate, found.ray, answer, 1e-6)
    assert status in (Status.OPTIMAL, Status.INACCURATE)


def test_recognition_builds_nothing_large() -> None:
    """Rows of a slack form would take 6 GiB as a dense array."""
    n = 20_000
    rows = sp.diags_array(np.ones(n), shape=(n, 2 * n)).tocsr()
    chain = sp.diags_array([1.0, -1.0], offsets=[0, 1], shape=(n, n + 1)).tocsr()
    block = Block.of(n + 1, chain, null=np.ones(n + 1), cost=Cost.of(n + 1, identity=1.0))
    program = Program.of(block, np.ones(n), rows_x=rows, cost_x=-np.ones(2 * n))
    tracemalloc.start()
    try:
        assert Roots.of(program) is None
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("beta", [1e-2, 1e-4, 1e-6])
def test_small_weights_of_a_log_det(beta: float) -> None:
    """max M₁₁ + 2M₂₂ + β log det M, M_ii ≤ 1: 3 at M = I."""
    block = Block.of(2, np.eye(2), cost=Cost.of(2, sparse=np.diag([1.0, 2.0])), log_det=beta)
    solution = sdpkit.solve(Program.of(block, np.ones(2), relations="<="))
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(3.0, rel=1e-5)


def test_residuals_count_at_their_price() -> None:
    """M = 1 written twice, at prices of 3 and −2: the gap sees one of five."""
    program = Program.of(scalar(1.0), [1.0, 1.0], rows_q=[[1.0], [1.0]])
    certificate = certify(program, np.array([[1 - 9e-7]]), dual=[3.0, -2.0])
    assert certificate.residual_price == pytest.approx(4.5e-6, rel=1e-5)
    assert certificate.failures(1e-6) == ["cost of the residuals is 4.5e-06"]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [1, 0, 3, 2], [0, 2, 1, 3]])
def test_a_row_that_cancels_exactly_is_not_scaled_up(order: list[int], sign: float) -> None:
    """max M, M = 1 and 0·M = 0, the zero a sum of four numbers that rounding makes one."""
    row = np.array([1e16, 1.0, -1e16, -1.0])[order]
    block = Block.of(1, np.ones((4, 1)), cost=Cost.of(1, sparse=np.ones((1, 1))))
    program = Program.of(block, [0.0, 1.0], rows_q=np.vstack([row, [1.0, 0, 0, 0]]))
    assert certify(program, np.eye(1), dual=[sign, 0.0]).safe_bound >= 1


# -- numbers from anywhere, judged by certify ------------------------------------------------


def test_complementarity_is_limited_by_itself() -> None:
    """max M₁₁, M₁₁ = 1: a residual that is worth 9e-7 hides as much of <S, M> = 1.8e-6."""
    block = Block.of(2, np.eye(2), cost=Cost.of(2, sparse=np.diag([1.0, 0.0])))
    program = Program.of(block, [1.0, 1.0], relations=[0, -1])
    # S = diag(0, w₂) with w₂ = 1.8e-6, where M₂₂ = 1 is all that its row allows.
    certificate = certify(program, np.diag([1 + 9e-7, 1.0]), dual=[1.0, 1.8e-6])
    assert certificate.relative_gap <= 1e-6
    assert certificate.residual_price <= 1e-6
    assert certificate.complementarity == pytest.approx(1.8e-6, rel=1e-3)
    assert certificate.failures(1e-6) == ["complementarity is 1.8e-06"]


def test_complementarity_counts_variables_and_inequalities() -> None:
    """max x₁, x₁ ≤ 1 at x₁ = 1 − 2e-6: r = 0, and the room is worth 2e-6; x₂ costs 3e-6."""
    program = Program.of(
        scalar(),
        [1.0, 1.0, 1.0],
        rows_q=[[0.0], [1.0], [0.0]],
        rows_x=[[1.0, 0], [0, 0], [0, 1]],
        relations=[-1, 0, -1],
        cost_x=[1.0, -3e-6],
    )
    certificate = certify(program, np.eye(1), [1 - 2e-6, 1.0], [1.0, 0.0, 0.0])
    assert certificate.complementarity == pytest.approx(5e-6, rel=1e-3)
    assert certificate.relative_gap == pytest.approx(5e-6, rel=1e-3)


def test_a_point_outside_of_the_cone_does_not_meet_small_rows() -> None:
    """Beside 1e10 a negative −5, or a null direction of length one, is small: and is the row."""
    largest = Cost.of(2, sparse=np.diag([1.0, 0.0]))
    negative = Program.of(Block.of(2, np.eye(2), cost=largest), [1e10, -5.0])
    certificate = certify(negative, np.diag([1e10, -5.0]), dual=[1.0, 0.0])
    assert certificate.failures(1e-6) == ["primal residual inside the cone is 1"]
    cut = Block.of(2, np.eye(2), cost=largest, null=[0.0, 1.0])
    assert not certify(Program.of(cut, [1e10, 1.0]), np.diag([1e10, 1.0]), dual=[1.0, 0]).passes(
        1e-6
    )


def test_a_negative_variable_does_not_meet_small_rows() -> None:
    """x₁ = 1 and x₁ + x₂ = ½ contradict each other, whatever M₁₁ is."""
    program = Program.of(
        scalar(1.0),
        [1e10, 1.0, 0.5],
        rows_q=[[1.0], [0.0], [0.0]],
        rows_x=[[0.0, 0], [1, 0], [1, 1]],
    )
    assert not certify(program, np.array([[1e10]]), [1.0, -0.5], [1.0, 0, 0]).passes(1e-6)


def test_a_row_that_asks_for_zero_is_judged_by_rows_of_the_same_nodes() -> None:
    """M₄₄ = 0 and M₄₄ = 1e-3 contradict each other, although other rows ask for 1e6."""
    block = Block.of(
        4, np.vstack([np.eye(4), np.eye(4)[3]]), cost=Cost.of(4, sparse=np.diag([1.0, 0, 0, 0]))
    )
    program = Program.of(block, [1e6, 1e6, 1e6, 0.0, 1e-3])
    for small in (0.0, 5e-4, 1e-3):
        point = np.diag([1e6, 1e6, 1e6, small])
        assert not certify(program, point, dual=[1.0, 0, 0, 0, 0]).passes(1e-6)


def test_a_limit_on_the_rank_has_no_feasible_end() -> None:
    """max tr M, M_ii ≤ 1, M₁₂ = 0: 2, but 1 for a matrix of rank one."""
    vectors = np.array([[1.0, 0], [0, 1], [1, 1]])
    block = Block.of(2, vectors, cost=Cost.of(2, identity=1.0), max_rank=1)
    rows = np.array([[1.0, 0, 0], [0, 1, 0], [-1, -1, 1]])
    program = Program.of(block, [1.0, 1.0, 0.0], rows_q=rows, relations=[-1, -1, 0])
    certificate = certify(program, np.eye(2), dual=[1.0, 1.0, 0.0])
    assert certificate.verify().lower is None


def test_hinges_of_a_given_rank_are_enclosed_by_a_point_of_that_rank() -> None:
    """min Σ[1 − M_ii]₊ + [tr M ± 2M₁₂ − 2]₊: 0 at M = I, 2√2 − 2 for matrices of rank one."""
    features = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [1, -1]])
    triplets = [[0, -1, 1], [0, -1, 2], [0, 3, -1], [0, 4, -1]]
    family = ListedRows.of(triplets, n_points=5, constants=[1.0, 1.0, -2.0, -2.0])
    block = Block.of(
        2, np.zeros((0, 5)), features=features, cost=Cost.of(2, identity=1e-3), max_rank=1
    )
    program = Program.of(block, [], sense="min", family=family)
    upper = certify(program, np.diag([1.0, 0.99])).verify().upper
    assert upper is not None
    assert upper >= 0.8


def test_a_bound_counts_the_rounding_of_a_log_det() -> None:
    """Lengths of u and v at most 1 and 1/t: det M = 1/t, whatever rounding makes of S."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        angle, t = rng.uniform(0, np.pi), 10.0 ** rng.uniform(-18, -14)
        u = np.array([np.cos(angle), np.sin(angle)])
        v = np.array([-u[1], u[0]])
        program = Program.of(Block.of(2, [u, v], log_det=1.0), [1.0, 1 / t], relations="<=")
        point = np.outer(u, u) + np.outer(v, v) / t
        dual = [1.0, t * rng.uniform(0.5, 2)]
        assert certify(program, point, dual=dual).safe_bound >= -np.log(t) - 1e-9


def test_a_bound_counts_the_rounding_of_a_curved_variable() -> None:
    """A penalty of ½hx² with h = 1e-35 makes r²/2h of a reduced cost that rounding hides."""
    rng, h = np.random.default_rng(0), 1e-35
    for _ in range(40):
        a, c, w = rng.uniform(0.5, 1, 3), rng.uniform(0.5, 1), rng.uniform(0, 0.1, 3)
        w[2] = (c - a[0] * w[0] - a[1] * w[1]) / a[2]
        program = Program.of(
            Block.of(3, np.eye(3)),
            np.ones(3),
            rows_x=a[:, None],
            cost_x=[c],
            free_x=[True],
            quadratic_x=[h],
        )
        r = exact_dot(a, w) - Fraction(c)
        exact = exact_dot(np.ones(3), w) + r * r / (2 * Fraction(h))
        assert Fraction(certify(program, np.eye(3), [0.0], w).safe_bound) >= exact


def test_a_bound_of_hinges_sees_directions_without_a_cost() -> None:
    """min 2[3 − 3M]₊ is 0 at M = 1; no measurement of the block shows that M is there at all."""
    features = np.array([[0.0], [1.0], [2.0]])
    family = ListedRows.of([[0, 1, 2]], n_points=3, constants=[3.0], weight=2.0)
    block = Block.of(1, np.zeros((0, 3)), features=features)
    program = Program.of(block, [], sense="min", family=family)
    certificate = certify(program, np.zeros((1, 1)), dual=[2.0], rows=np.array([0]))
    assert certificate.safe_bound <= 0
    assert not certificate.passes(1e-6)


def test_a_bound_of_hinges_counts_rounding() -> None:
    """Two distances that differ in the last digits: M must be large, and the optimum is small."""
    rng = np.random.default_rng(0)
    family = ListedRows.of([[0, 1, 2]], n_points=3)
    for _ in range(60):
        start, u = rng.standard_normal(3), rng.standard_normal(3)
        more = 10.0 ** rng.uniform(-16, -14)
        features = np.vstack([start, start + u, start + (1 + more) * u])
        cost = 1e-17
        block = Block.of(3, np.zeros((0, 3)), features=features, cost=Cost.of(3, identity=cost))
        program = Program.of(block, [], sense="min", family=family)
        near, far = (
            sum(
                Fraction(a) * (Fraction(b) - Fraction(c))
                for a, b, c in zip(u, x, start, strict=True)
            )
            ** 2
            for x in features[1:]
        )
        if far > near:  # M = uuᵀ/(far − near) meets the row
            most = Fraction(cost) * exact_dot(u, u) / (far - near)
            bound = certify(program, np.zeros((3, 3)), dual=[1.0], rows=np.array([0])).safe_bound
            assert Fraction(bound) <= min(most, 1)


def test_an_offset_is_added_to_the_safe_side() -> None:
    program = Program.of(scalar(1.0), [3.0], offset=2.0**54)
    assert Fraction(certify(program, np.array([[3.0]]), dual=[1.0]).safe_bound) >= 2**54 + 3


def test_a_star_of_many_leaves_has_its_digits() -> None:
    """Half of the leaves on each side. Sparse factors add 1600/δ up for pivots δ at the centre."""
    n = 1601
    ends = np.c_[np.zeros(n - 1, dtype=int), np.arange(1, n)]
    graph = sp.coo_array((np.ones(n - 1), ends.T), shape=(n, n)).tocsr()
    program = MVU(graph=graph + graph.T).program()
    y = np.r_[0.0, np.resize([1.0, -1.0], n - 1)]
    certificate = certify(program, np.outer(y, y), dual=np.full(n - 1, 1 + 1e-7))
    assert certificate.objective == pytest.approx(1600)
    assert certificate.passes(1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["equality", "inequality"])
def test_a_star_of_many_leaves_is_solved(form: Any) -> None:
    n = 1601
    ends = np.c_[np.zeros(n - 1, dtype=int), np.arange(1, n)]
    graph = sp.coo_array((np.ones(n - 1), ends.T), shape=(n, n)).tocsr()
    assert solve(MVU(graph=graph + graph.T, form=form)).status is Status.OPTIMAL


# -- programs with a large optimum, or with points that are large ----------------------------


def limit(size: float) -> tuple[Program, float]:
    """max x, x ≤ size."""
    program = Program.of(
        scalar(),
        [size, 1.0],
        rows_q=[[0.0], [1.0]],
        rows_x=[[1.0], [0.0]],
        relations=["<=", "=="],
        cost_x=[1.0],
    )
    return program, size


def small_coefficient(size: float) -> tuple[Program, float]:
    """max x₁ + x₂, x₁/size ≤ 1, x₂ ≤ 1."""
    program = Program.of(
        scalar(),
        [1.0, 1.0, 1.0],
        rows_q=[[0.0], [1.0], [0.0]],
        rows_x=[[1 / size, 0], [0, 0], [0, 1.0]],
        relations=["<=", "==", "<="],
        cost_x=[1.0, 1.0],
    )
    return program, size + 1


def off_diagonal(size: float) -> tuple[Program, float]:
    """max M₁₂, M₁₁ = 1, M₂₂ ≤ size²."""
    vectors = np.array([[1.0, 0], [0, 1], [1, 1]])
    block = Block.of(2, vectors, cost=Cost.of(2, sparse=np.array([[0, 0.5], [0.5, 0]])))
    rows = [[1.0, 0, 0], [0, 1, 0]]
    return Program.of(block, [1.0, size**2], rows_q=rows, relations=["==", "<="]), size


def nearly_centred(size: float) -> tuple[Program, float]:
    """max tr M for two points at distance 1 and 1ᵀM1 = size."""
    block = Block.of(2, [[1.0, -1], [1, 1]], cost=Cost.of(2, identity=1.0))
    return Program.of(block, [1.0, 1.0], rows_q=[[1.0, 0], [0, 1 / size]]), (1 + size) / 2


@pytest.mark.parametrize("size", [1e2, 1e5, 1e7, 1e10])
@pytest.mark.parametrize("family", [limit, small_coefficient, off_diagonal, nearly_centred])
def test_large_optima_are_found_or_left_open(family: Any, size: float) -> None:
    """Each has a direction that leaves its rows nearly in place and gains."""
    program, optimum = family(size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = solve(program)
    if family is not off_diagonal or size <= 1e2:
        assert solution.status is Status.OPTIMAL
    if solution.status is Status.OPTIMAL:
        assert solution.objective == pytest.approx(optimum, rel=1e-5)
    else:
        assert solution.status is Status.INACCURATE
    assert solution.certificate.safe_bound >= optimum * (1 - 1e-12)


@pytest.mark.parametrize("size", [1e5, 1e7, 1e10])
def test_directions_of_large_optima_are_no_rays(size: float) -> None:
    zero, unit = np.zeros((1, 1)), np.zeros((2, 2))
    unit[1, 1] = 1.0
    near = np.array([[1 / size, 1], [1, size]])  # its first row is off by 1/size²
    for program, matrix, x in (
        (limit(size)[0], zero, [1.0]),
        (small_coefficient(size)[0], zero, [1.0, 0.0]),
        (off_diagonal(size)[0], near, []),
        (nearly_centred(size)[0], np.ones((2, 2)), []),
    ):
        assert not certify_unbounded(program, [matrix], x).passes(1e-6)


def growing(n: int, factor: float) -> Program:
    """x₁ = 1, x_j = factor·x_{j−1}: one point, as large as factorⁿ⁻¹."""
    rows = np.eye(n) - factor * np.eye(n, k=-1)
    return Program.of(
        scalar(),
        np.r_[1.0, np.zeros(n - 1), 1.0],
        rows_q=np.r_[np.zeros(n), 1.0][:, None],
        rows_x=np.vstack([rows, np.zeros(n)]),
        cost_x=-np.ones(n),
    )


@pytest.mark.parametrize(("n", "factor"), [(4, 1e3), (6, 1e2), (14, 10.0)])
def test_a_large_point_is_not_called_infeasible(n: int, factor: float) -> None:
    """Multipliers of −1.1/factorʲ lack 1.1/factorⁿ⁻¹ in the last reduced cost, and nothing else."""
    program = growing(n, factor)
    point = factor ** np.arange(n)
    assert not program.violations(program.measure([np.ones((1, 1))]), point).any()
    w = np.r_[-1.0, -1.1 / factor ** np.arange(1, n), 0.0]
    assert not certify_infeasible(program, w).passes(1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        assert solve(program).status is not Status.INFEASIBLE


def test_multipliers_are_moved_onto_the_equations_of_free_variables() -> None:
    """x₁ + x₂ = 1 and x₁ + x₂ = 2, x free: w is off by 1e-8."""
    program = Program.of(
        scalar(), [1.0, 2.0], rows_q=[[0.0], [0.0]], rows_x=np.ones((2, 2)), free_x=[True, True]
    )
    assert certify_infeasible(program, [1.0, -1.0 - 1e-8]).passes(1e-12)
    assert not certify_infeasible(program, [-1.0, 1.0]).passes(1e-7)


def test_a_multiplier_that_an_equation_makes_zero_is_zero() -> None:
    """max M, M ≤ 1, M + x₁ = 3 with x₁ free and worth nothing: w₂ = 0, and 1e-26 breaks that by all
    of itself."""
    program = Program.of(
        scalar(1.0),
        [1.0, 3.0],
        rows_q=[[1.0], [1.0]],
        rows_x=[[0.0, 0.0], [48.0, -48.0]],
        relations=["<=", "=="],
        free_x=[True, True],
    )
    for dust in (1e-8, 3e-26):
        certificate = certify(program, np.eye(1), [2 / 96, -2 / 96], [1.0, dust])
        assert certificate.safe_bound == pytest.approx(1.0, rel=1e-12)
        assert certificate.passes(1e-6)


@pytest.mark.parametrize(("sense", "sign"), [("min", 1.0), ("max", -1.0)])
def test_many_small_values_beside_a_large_one_are_not_lost(sense: Any, sign: float) -> None:
    """min 2⁵³ + ΣM_k, M_k = 1: added one by one, each 1 would vanish in rounding."""
    n = 100
    blocks = [replace(scalar(sign), name=f"M{k}") for k in range(n)]
    program = Program.of(blocks, np.ones(n), sense=sense, offset=sign * 2.0**53)
    certificate = certify(program, [np.eye(1)] * n, dual=sign * np.ones(n))
    proved, optimum = certificate.verify(), int(sign) * (2**53 + n)
    assert proved.lower is not None
    assert proved.upper is not None
    assert Fraction(proved.lower) <= optimum <= Fraction(proved.upper)


def test_the_offset_of_a_family_is_added_to_the_safe_side() -> None:
    """min 2⁵³ + M + [1.2]₊: the sum is rounded to 2⁵³ + 2, which is no bound."""
    family = ListedRows.of([[0, 1, 2]], 3, constants=[1.2], weight=1.0)
    block = Block.of(1, np.zeros((0, 3)), features=np.ones((3, 1)), cost=Cost.of(1, identity=1.0))
    program = Program.of(block, [], sense="min", family=family, offset=2.0**53)
    certificate = certify(program, np.zeros((1, 1)), dual=[1.0], rows=family.everything())
    assert 2**53 - 2 <= Fraction(certificate.safe_bound) <= 2**53 + Fraction(1.2)


def test_rows_that_underflow_do_not_make_a_direction() -> None:
    """max 1e150·M, 1e-300·M = 1e-150: in units of its gain, M is too small to be measured."""
    block = Block.of(1, [[1e-150]], cost=Cost.of(1, identity=1e150))
    program = Program.of(block, [1e-150])
    assert not certify_unbounded(program, [np.eye(1)], []).passes(1e-7)
    smaller = Block.of(1, [[1e-165]], cost=Cost.of(1, identity=1.0))
    assert not certify_unbounded(Program.of(smaller, [0.0]), [np.eye(1)], []).passes(1e-7)


@pytest.mark.parametrize("solver", ["interior", "projection", "lowrank"])
def test_a_value_near_the_end_of_the_range_is_left_open(solver: str) -> None:
    """max 1e150·M, 1e-300·M = 1e-150 is 1e300."""
    block = Block.of(1, [[1e-150]], cost=Cost.of(1, identity=1e150))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = sdpkit.solve(Program.of(block, [1e-150]), solver=solver, max_iter=100)
    assert solution.status is Status.INACCURATE


def test_equations_of_a_free_variable_that_contradict_each_other() -> None:
    """The multipliers grow until the equations of x leave the floating-point range."""
    program = Program.of(
        scalar(-2.999984741210909),
        [-3.0, -1.0, -3.0],
        rows_q=[[-1.0], [1.9999847412109375], [1.0000000000000284]],
        rows_x=[[2.9999999999986358], [0.0], [3.0]],
        cost_x=[3.0],
        free_x=[True],
    )
    assert solve(program).status is Status.INFEASIBLE


def test_a_block_without_measurements_beside_a_row_of_nothing() -> None:
    """0 = 1e-300."""
    block = Block.of(2, np.zeros((0, 2)), cost=Cost.of(2, identity=1.0))
    program = Program.of(block, [1e-300], rows_q=np.zeros((1, 0)))
    solution = sdpkit.solve(program, solver="lowrank", max_iter=300)
    assert solution.status is Status.INFEASIBLE
