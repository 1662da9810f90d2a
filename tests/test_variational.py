"""Variational MVU: a small program for a large set, and the set it stands for."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit import Block, Cost, GraphError, InputError, Program, Status, UnboundedProblemError
from sdpkit import VariationalMVU as Variational
from sdpkit.graphs.build import neighborhood_graph
from sdpkit.graphs.lle import lle_basis
from sdpkit.solving.registry import get_solver, known_solvers
from sdpkit.solving.solve import solve
from sdpkit.typing import Array

USABLE = [get_solver(name) for name in known_solvers() if get_solver(name).unavailable() is None]
# Engines for comparisons and for graphs take nothing else.
GENERAL = [s for s in USABLE if s.accepts(Program.of(Block.of(1, [[1.0]]), [1.0])) is None]
SOLVERS = [s.name for s in GENERAL if not s.capabilities.teaching]
PENALTIES = ("squared", "norm")
some = settings(max_examples=12, deadline=None, derandomize=True)


@functools.cache
def roll(n: int = 60) -> Array:
    return sdpkit.datasets.swiss_roll(n, noise_dims=2, noise=0.1)


def problem_of(penalty: str = "squared", n_basis: int = 5, **more: object) -> Variational:
    return Variational(roll(), n_neighbors=5, penalty=penalty, n_basis=n_basis, **more)  # type: ignore[arg-type]


# -- the program -------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("compress", [True, False])
def test_program_and_model_agree(penalty: str, compress: bool) -> None:
    problem = problem_of(penalty, compress=compress)
    solution = solve(problem, solver="clarabel", tol=1e-7)
    assert solution.status is Status.OPTIMAL
    model = problem.to_cvxpy()
    model.solve(solver="CLARABEL")
    assert solution.objective == pytest.approx(model.value, rel=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_that_takes_the_penalty_is_certified(name: str, penalty: str) -> None:
    problem = problem_of(penalty, n_basis=4)
    can = get_solver(name).capabilities
    if not (can.quadratic if penalty == "squared" else can.norms):
        with pytest.raises(sdpkit.SolverError, match="cannot take"):
            solve(problem, solver=name)
        return
    solution = solve(problem, solver=name)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(
        solve(problem, solver="clarabel").objective, rel=2e-6
    )


@pytest.mark.parametrize("penalty", PENALTIES)
def test_compression_keeps_every_residual_norm(penalty: str) -> None:
    """For any Z, not only the optimum: the objectives of both programs are the same function."""
    small, large = (problem_of(penalty, compress=c).program() for c in (True, False))
    assert small.n_rows == 5 * 6 // 2 + 1
    assert large.n_rows == problem_of(penalty).neighborhood.n_edges
    rng = np.random.default_rng(0)
    for _ in range(5):
        A = rng.standard_normal((5, 5))
        Z = A @ A.T
        values = []
        for program in (small, large):
            x = program.row_values(program.measure([Z]), np.zeros(program.n_auxiliary))
            values.append(program.objective([Z], x - program.rhs))
        assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_a_full_basis_is_the_full_problem() -> None:
    """m = n − 1: the program over K itself, with a slack of squared weight on every edge."""
    X = roll()[:14]
    problem = Variational(X, n_neighbors=4, n_basis=13)
    graph, omega = problem.neighborhood, float(problem.omega_used or 0)
    n, m = graph.n_points, graph.n_edges
    full = Program.of(
        Block.of(n, graph.incidence(), cost=Cost.of(n, identity=1 - omega), null=np.ones(n)),
        graph.squared_lengths / problem.unit,
        rows_x=-np.eye(m),
        free_x=np.ones(m, dtype=bool),
        quadratic_x=np.full(m, 2 * omega),
    )
    assert solve(problem).objective == pytest.approx(solve(full).objective, rel=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_more_basis_vectors_never_lose(penalty: str) -> None:
    """Bases of one graph are nested, so the optimal value rises with m."""
    omega = problem_of(penalty, 3).omega_used
    values = [solve(problem_of(penalty, m, omega=omega)).objective for m in (3, 5, 8)]
    assert values[0] <= values[1] + 1e-6 * abs(values[1])
    assert values[1] <= values[2] + 1e-6 * abs(values[2])


@some
@given(st.integers(0, 10**6), st.floats(0.01, 100))
def test_rotation_scale_and_order(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    X = roll()
    turn = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0]
    order = rng.permutation(len(X))
    moved = Variational(scale * X[order] @ turn + 1, n_neighbors=5, n_basis=5)
    assert moved.omega_used == pytest.approx(problem_of().omega_used, rel=1e-9)
    assert solve(moved).objective == pytest.approx(solve(problem_of()).objective, rel=1e-5)


def test_distances_alone_are_enough() -> None:
    X = roll()
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    by_distances = Variational(distances=D, n_neighbors=5, n_basis=5)
    first, second = solve(by_distances), solve(problem_of())
    assert first.objective == pytest.approx(second.objective, rel=1e-6)
    refined = by_distances.refine(first, 2).coordinates
    assert sdpkit.quality.local_continuity(None, refined, distances=D) > 0.9
    with pytest.raises(InputError, match="needs distances only"):
        Variational(distances=D, basis="lle")


# -- bases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [60, 900])
def test_laplacian_basis_is_the_bottom_of_the_spectrum(n: int) -> None:
    graph = neighborhood_graph(roll(n), n_neighbors=5)
    Q = graph.smooth_basis(6)
    L = graph.laplacian().toarray()
    assert np.allclose(Q.T @ Q, np.eye(6), atol=1e-9)
    assert np.abs(Q.sum(axis=0)).max() < 1e-9
    exact = scipy.linalg.eigvalsh(L, subset_by_index=[1, 6])
    assert np.allclose(np.sort(np.linalg.eigvalsh(Q.T @ L @ Q)), exact, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("n", [60, 900])
def test_lle_basis_rebuilds_linear_functions(n: int) -> None:
    """On a flat patch every coordinate is a reconstruction of itself: LLE's null space."""
    P = np.random.default_rng(0).random((n, 2))
    Q = lle_basis(P, 4, n_neighbors=8)
    assert np.allclose(Q.T @ Q, np.eye(4), atol=1e-9)
    centred = P - P.mean(axis=0)
    rest = centred - Q @ (Q.T @ centred)
    assert np.linalg.norm(rest) < 0.15 * np.linalg.norm(centred)


def test_a_basis_of_ones_own() -> None:
    Q = np.random.default_rng(0).standard_normal((60, 3))
    problem = problem_of(basis=Q)
    assert problem.basis_size == 3
    assert np.allclose(problem.Q.T @ problem.Q, np.eye(3))
    assert np.abs(problem.Q.sum(axis=0)).max() < 1e-12
    assert solve(problem).status is Status.OPTIMAL


# -- bounded or not ------------------------------------------------------------------------------


def test_norm_below_its_threshold_is_refused_by_name() -> None:
    with pytest.raises(UnboundedProblemError, match="raise omega"):
        problem_of("norm", omega=1e-3)
    assert problem_of("squared", omega=1e-3).omega_used == 1e-3  # squares always win


def test_the_refused_program_is_unbounded() -> None:
    """The twin behind the refusal: a ray zzᵀ that a solver finds and the certificate accepts."""
    problem = problem_of("norm", n_basis=3, omega=0.9999)
    object.__setattr__(problem, "omega_used", 1e-3)
    solution = solve(problem, solver="clarabel")
    assert solution.status is Status.UNBOUNDED
    assert solution.ray is not None
    assert solution.ray.passes(1e-7)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_default_omega_is_bounded_and_certified(penalty: str) -> None:
    solution = solve(problem_of(penalty))
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.relative_gap < 1e-6


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("compress", [True, False])
def test_an_infeasible_dual_is_repaired_into_a_bound(penalty: str, compress: bool) -> None:
    problem = problem_of(penalty, compress=compress)
    solution = solve(problem, solver="clarabel", tol=1e-7)
    assert solution.dual is not None
    worse = sdpkit.certify(solution.program, solution.matrices, solution.x, 0.99 * solution.dual)
    assert worse.min_eigenvalue_dual < 0
    assert np.isfinite(worse.safe_bound)
    assert worse.safe_bound >= solution.objective - 1e-9 * abs(solution.objective)
    assert worse.safe_bound <= solution.objective + 0.2 * abs(solution.objective)


# -- the way back --------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", PENALTIES)
def test_recover_and_refine(penalty: str) -> None:
    problem = problem_of(penalty)
    solution = solve(problem)
    embedding = problem.recover(solution, n_components=3)
    K = problem.unit * problem.Q @ solution.matrix @ problem.Q.T
    values = np.linalg.eigvalsh(K)[::-1]
    assert np.allclose(embedding.eigenvalues[:5], values[:5], atol=1e-6 * values[0])
    assert embedding.eigenvalues.size == 60
    assert np.allclose((embedding.coordinates**2).sum(axis=0), values[:3], rtol=1e-4)
    refined = problem.refine(solution, n_components=2)
    assert refined.coordinates.shape == (60, 2)
    before, after = (
        sdpkit.quality.local_continuity(roll(), e.coordinates[:, :2]) for e in (embedding, refined)
    )
    assert after > max(before, 0.9)
    assert refined.extend(roll()[:2]).shape == (2, 2)


def test_a_sheet_is_unrolled() -> None:
    """The theorem of the whole method: a rolled sheet comes back as the sheet, up to a rigid
    motion (and what noise and boundaries cost)."""
    X, places = sdpkit.datasets.swiss_roll(800, noise_dims=0, return_parameters=True)
    problem = Variational(X, n_neighbors=8)
    y = problem.refine(solve(problem), n_components=2).coordinates
    t, h = places.T
    arc = (t * np.sqrt(1 + t**2) + np.arcsinh(t)) / 2
    errors = sdpkit.quality.position_errors(y, np.column_stack([arc, h]))
    assert errors.mean() < 0.05 * np.ptp(arc)
    assert sdpkit.quality.evaluate(X, y).harmonic_mean > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("basis", ["laplacian", "lle"])
def test_ten_thousand_points(basis: str) -> None:
    X = sdpkit.datasets.swiss_roll(10_000, noise_dims=0)
    X = X + 0.05 * np.random.default_rng(1).standard_normal(X.shape)
    problem = Variational(X, n_neighbors=6, basis=basis)
    y = problem.refine(solve(problem), n_components=2).coordinates
    assert sdpkit.quality.local_continuity(X, y) >= 0.95


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"penalty": "cubic"}, "penalty"),
        ({"connect": "components"}, "connect"),
        ({"basis": "fourier"}, "basis"),
        ({"basis": np.ones((60, 2))}, "constant"),
        ({"basis": np.ones((6, 2))}, "basis has shape"),
        ({"n_basis": 0}, "n_basis"),
        ({"n_basis": 60}, "n_basis"),
        ({"omega": 0.0}, "omega"),
        ({"omega": True}, "omega"),
        ({"omega": "much"}, "omega"),
    ],
)
def test_bad_parameters(more: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Variational(roll(), n_neighbors=5, **more)  # type: ignore[arg-type]


def test_bad_graphs_and_solutions() -> None:
    apart = [[0.0], [1.0], [10.0], [11.0]]
    with pytest.raises(GraphError, match="component"):
        Variational(apart, n_neighbors=1, n_basis=1)
    bridged = Variational(apart, n_neighbors=1, n_basis=1, connect="bridge")
    assert bridged.neighborhood.is_connected
    with pytest.raises(GraphError, match="length zero"):
        Variational(np.zeros((5, 2)), n_neighbors=2, n_basis=1)
    solution = solve(problem_of(n_basis=3))
    with pytest.raises(InputError, match="size 5"):
        problem_of().recover(solution)
    with pytest.raises(InputError, match="n_components"):
        problem_of(n_basis=3).recover(solution, n_components=4)
