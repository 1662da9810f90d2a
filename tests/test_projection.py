"""The engines that project: laws of projections, rates of the theory, duals, rays, resuming."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.projection import feasible_multipliers, touching
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit import MVU, Block, Cost, Program, Solution, Status, Unknown, Variable, minimise
from sdpkit.certificate.certify import certify
from sdpkit.errors import ConvergenceWarning
from sdpkit.numerics.deadline import Abandoned
from sdpkit.solution.answer import Settings, Stop
from sdpkit.solution.reduction import reduce
from sdpkit.solvers.projection import PROJECTION
from sdpkit.solvers.sets import TwoSets, metric, rarer_root
from sdpkit.solving.registry import get_solver
from sdpkit.solving.solve import solve
from sdpkit.testing.programs import wedge
from sdpkit.typing import Array

FORMS = ("equality", "inequality", "slack", "min_trace")
ENGINES = ("projection", "alternating", "gradient-projection", "dykstra")


def quietly(problem: Any, name: str, **options: Any) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(problem, solver=name, **options)


def roll(n: int = 20, form: str = "equality") -> MVU:
    return MVU(sdpkit.datasets.swiss_roll(n, random_state=0), n_neighbors=4, form=form)


def sets_of(program: Program, fitted: bool) -> TwoSets:
    reduced = reduce(program, orthonormal=True).program
    return TwoSets(reduced, metric(reduced) if fitted else None)


def general_program(instance: Any, seed: int) -> Program:
    """Two blocks, free and nonnegative variables, all relations."""
    kinds = ("blocks", "nonnegative", "free", "mixed", "minimise")
    program: Program = instance(kinds[seed % len(kinds)], seed).program()
    return program


def random_point(sets: TwoSets, seed: int) -> Array:
    z = np.random.default_rng(seed).standard_normal(sets.tail.stop)
    for block in sets.blocks:
        m = sets.matrix(z, block)
        z[block.part] = (m + m.T).ravel() / 2
    return z


# -- the two sets -----------------------------------------------------------------------------


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_map_and_its_adjoint(instance: Any, seed: int, fitted: bool) -> None:
    """<Az, y> = <z, Aᵀy>, and the factored AAᵀ is what the two make."""
    sets = sets_of(general_program(instance, seed), fitted)
    z, y = random_point(sets, seed), np.random.default_rng(seed + 9).standard_normal(sets.b.size)
    assert sets.values(z) @ y == pytest.approx(z @ sets.adjoint(y), rel=1e-10, abs=1e-10)
    assert sets.solve(sets.values(sets.adjoint(y))) == pytest.approx(y, rel=1e-6, abs=1e-8)
    assert np.linalg.norm(sets.b) == pytest.approx(1.0)
    assert np.linalg.norm(sets.c) == pytest.approx(1.0)


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_laws_of_projections(instance: Any, seed: int, fitted: bool) -> None:
    """Into the set, idempotent, nearest, and Pythagoras (Lemma 6) against another point of it."""
    sets = sets_of(general_program(instance, seed), fitted)
    z, other = random_point(sets, seed), random_point(sets, seed + 50)
    cone = lambda v: sets.onto_cone(v).z  # noqa: E731
    for project in (sets.onto_rows, cone):
        p, q = project(z), project(other)
        assert project(p) == pytest.approx(p, abs=1e-8)
        assert np.linalg.norm(p - q) <= np.linalg.norm(z - other) * (1 + 1e-9)
        assert (z - p) @ (q - p) <= 1e-8 * np.linalg.norm(z) * np.linalg.norm(q)
    assert sets.values(sets.onto_rows(z)) == pytest.approx(sets.b, abs=1e-8)
    point = sets.onto_cone(z)
    assert sets.smallest(point.z) >= -1e-12
    assert point.values == pytest.approx(sets.values(point.z), abs=1e-9)
    assert sets.smallest(point.z - z) >= -1e-9  # Moreau: what was taken away is in the dual cone
    assert (point.z - z) @ point.z == pytest.approx(0.0, abs=1e-9)


@given(st.integers(2, 200), st.integers(0, 1000), st.floats(0, 1))
@settings(max_examples=15, deadline=None)
def test_parts_of_a_matrix(n: int, seed: int, share: float) -> None:
    """Few or all eigenvectors, of either sign: the parts add up."""
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    k = round(share * n)
    a = (q * np.r_[rng.uniform(0.1, 1, k), -rng.uniform(0.1, 1, n - k)]) @ q.T
    a = (a + a.T) / 2
    values, vectors = np.linalg.eigh(a)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    for guess in (None, k):
        root, above = rarer_root(a, guess)
        found = root @ root.T if above else a + root @ root.T
        assert np.abs(found - positive).max() <= 1e-12
        assert root.shape[1] == (k if above else n - k)


def test_a_rough_projection_has_the_values_of_its_point() -> None:
    """Eigenvectors of single precision: six digits of the point, all digits of its rows."""
    sets = sets_of(roll(170).program(), fitted=True)
    z = random_point(sets, 3)
    exact, rough = sets.onto_cone(z), sets.onto_cone(z, rough=True)
    off = float(np.linalg.norm(rough.z - exact.z) / np.linalg.norm(exact.z))
    assert 1e-9 < off < 1e-5
    assert rough.z.dtype == np.float64
    assert rough.values == pytest.approx(sets.values(rough.z), abs=1e-10)


def test_the_metric_makes_all_rows_alike() -> None:
    """Vᵀdiag(θ)V = I with θ = 1/d: the multipliers θ map to the identity."""
    program = roll(30).program()
    sets = sets_of(program, fitted=True)
    theta = sets.from_multipliers(-1 / sets.program.rhs)
    image = sets.matrix(sets.adjoint(theta), sets.blocks[0])
    assert image / image[0, 0] == pytest.approx(np.eye(29), abs=1e-9)


def test_plain_rows_are_sparse_and_the_same() -> None:
    """On 1⊥ the products of edges do not depend on the basis: AAᵀ is as sparse as the graph."""
    sets = sets_of(roll(30).program(), fitted=False)
    gram = sets._matrix_gram()
    assert gram.nnz < 0.2 * gram.shape[0] ** 2
    v = sets.blocks[0].vectors
    assert gram.toarray() == pytest.approx(
        sets.program.rows_q @ (v @ v.T) ** 2 @ sets.program.rows_q.T, abs=1e-12
    )


# -- Algorithms 1 and 2, Dykstra -----------------------------------------------------------------


@pytest.mark.parametrize("angle", [0.2, 0.5, 1.0])
def test_alternating_projection_has_the_rate_of_the_angle(angle: float) -> None:
    """Two lines at an angle φ: every round brings the point nearer by cos²φ."""
    solution = solve(wedge(angle), solver="alternating", tol=1e-9)
    assert solution.status is Status.OPTIMAL  # there is nothing to optimise
    far = np.array([row["distance to the rows"] for row in solution.history])
    far = far[(far > 1e-7) & (np.arange(far.size) > 5)]
    assert far[1:] / far[:-1] == pytest.approx(np.cos(angle) ** 2, rel=1e-4)
    assert [m.item() for m in solution.matrices] == pytest.approx([1.0, 1.0], abs=1e-7)


def test_alternating_projection_is_sublinear_where_sets_touch() -> None:
    """A line tangent to the cone: the distance falls like a power of the rounds, not like θᵗ."""
    solution = quietly(touching(), "alternating", max_iter=1000, tol=1e-9)
    far = np.array([row["distance to the rows"] for row in solution.history])
    slopes = np.diff(np.log(far[[50, 200, 999]])) / np.diff(np.log([51, 201, 1000]))
    assert np.all((slopes < -0.7) & (slopes > -1.1))


def test_each_round_comes_nearer_to_every_feasible_point() -> None:
    """Lemma 6, along the whole way."""
    program = wedge(0.4)
    solution = solve(program, solver="alternating", tol=1e-9)
    way = np.array(
        [[row[f"p{i}[{j}]"] for j in (0, 1)] for row in solution.history for i in (0, 1)]
    )
    distances = np.linalg.norm(way - 1.0, axis=1)
    assert np.all(np.diff(distances) <= 1e-12)


def optimised_wedge() -> Program:
    return wedge(0.3, cost=(1.0, 0.3), relations=["<=", "=="])


def test_a_constant_step_does_not_converge_and_a_vanishing_one_does() -> None:
    """max z₀ + 0.3 z₁ over a wedge, optimum 1.3 at (1, 1)."""
    misses: dict[tuple[str, int], float] = {}
    for step, rounds in (
        ("constant", 200),
        ("constant", 2000),
        ("vanishing", 200),
        ("vanishing", 2000),
    ):
        solution = quietly(optimised_wedge(), "gradient-projection", step=step, max_iter=rounds)
        misses[step, rounds] = abs(solution.objective - 1.3)
    assert misses["constant", 2000] == pytest.approx(misses["constant", 200], rel=1e-3)
    assert misses["constant", 2000] > 1.0
    # α/√t: ten times the rounds, √10 times nearer.
    ratio = misses["vanishing", 200] / misses["vanishing", 2000]
    assert ratio == pytest.approx(np.sqrt(10), rel=0.2)


@pytest.mark.parametrize("name", ["gradient-projection", "dykstra", "projection"])
def test_multipliers_of_the_wedge(name: str) -> None:
    """c = w₀a₀ + w₁a₁, by hand."""
    program = optimised_wedge()
    exact = np.linalg.solve(program.rows_q.toarray().T, [1.0, 0.3])
    solution = quietly(program, name, max_iter=3000)
    assert solution.dual is not None
    assert solution.dual == pytest.approx(
        exact, rel=1e-2 if name == "gradient-projection" else 1e-5
    )


def test_algorithm_1_is_refused_as_an_optimum() -> None:
    """A feasible point, no dual: an infinite gap, whatever the tolerance."""
    solution = quietly(roll(12, "inequality"), "alternating", tol=0.5)
    assert solution.status is Status.INACCURATE
    assert "does not optimise" in solution.native_status
    assert solution.certificate.primal_residual == 0
    assert solution.certificate.relative_gap == np.inf


@pytest.mark.slow
def test_fifty_points_slowly() -> None:
    """Dykstra approaches the optimum and the others do not get there in as many rounds."""
    problem = MVU(sdpkit.datasets.swiss_roll(50, random_state=0), n_neighbors=4)
    best = solve(problem).objective
    found = {name: quietly(problem, name, max_iter=700) for name in ENGINES[1:]}
    share = {name: s.objective / best for name, s in found.items()}
    assert share["dykstra"] == pytest.approx(1.0, abs=0.1)
    assert share["gradient-projection"] < 0.6
    assert share["alternating"] < 0.3
    gaps = [s.certificate.relative_gap for s in found.values()]
    assert min(gaps) > 1e-2  # none is certified to two digits
    for solution in found.values():
        far = [row["distance to the rows"] for row in solution.history]
        assert far[-1] < 0.3 * max(far)


# -- Douglas–Rachford ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "minimise", "blocks", "nonnegative", "free", "mixed",
                                  "quadratic free", "quadratic nonnegative", "norm",
                                  "norm, minimise"])  # fmt: skip
@pytest.mark.parametrize("seed", [1, 2])
def test_any_program(instance: Any, kind: str, seed: int) -> None:
    """Random strictly feasible programs of every kind, against an independent optimum."""
    case = instance(kind, seed)
    solution = solve(case.program(), solver="projection", tol=1e-5)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(case.optimum(), rel=3e-5, abs=3e-5)


def test_a_solution_is_a_fixed_point() -> None:
    """Started at its own answer, it stops at the first look; started far away, it does not."""
    problem = roll(30)
    cold = solve(problem, solver="projection", tol=1e-7)
    warm = solve(problem, solver="projection", tol=1e-6, warm_start=cold)
    assert warm.status is Status.OPTIMAL
    assert warm.iterations is not None
    assert cold.iterations is not None
    assert warm.iterations <= 20 < cold.iterations
    assert warm.objective == pytest.approx(cold.objective, rel=1e-6)


def test_warm_start_from_another_engine() -> None:
    problem = roll(30, "inequality")
    start = solve(problem, solver="interior")
    warm = solve(problem, solver="projection", warm_start=start)
    assert warm.status is Status.OPTIMAL
    assert warm.iterations is not None
    assert warm.iterations <= 40


def test_the_fitted_metric_is_worth_it() -> None:
    """The same tolerance in a fraction of the iterations that the plain metric takes."""
    problem = roll(60)
    fitted = solve(problem, solver="projection", tol=1e-3)
    plain = quietly(problem, "projection", tol=1e-3, metric="plain", max_iter=4 * fitted.iterations)
    assert fitted.status is Status.OPTIMAL
    assert plain.status is Status.ITERATION_LIMIT
    with pytest.raises(sdpkit.InputError, match="is 'bent'; use one of 'fitted', 'plain'"):
        solve(problem, solver="projection", metric="bent")


@pytest.mark.parametrize(("n", "k", "seed"), [(200, 4, 0), (120, 8, 8)])
def test_it_stops_where_the_certificate_agrees(n: int, k: int, seed: int) -> None:
    """Residuals that look small may cost more than the tolerance at the prices of their rows."""
    points = sdpkit.datasets.swiss_roll(n, random_state=seed)
    solution = solve(MVU(points, n_neighbors=k), solver="projection", tol=1e-3)
    assert solution.status is Status.OPTIMAL


def test_it_meets_its_rows_without_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of many rows are not moved by those who judge them: short edges count as much."""
    monkeypatch.setattr("sdpkit.certificate.onto_constraints._MAX_ROWS", 100)
    for n, k, seed in ((120, 8, 8), (150, 5, 6)):
        points = sdpkit.datasets.swiss_roll(n, random_state=seed)
        solution = solve(MVU(points, n_neighbors=k), solver="projection", tol=1e-3)
        assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize(("k", "seed"), [(4, 1), (6, 2), (5, 9)])
def test_few_rounds_to_three_digits(k: int, seed: int) -> None:
    """A metric fitted after the first rounds, and a penalty that waits for the multipliers."""
    points = sdpkit.datasets.swiss_roll(150, random_state=seed)
    solution = solve(MVU(points, n_neighbors=k), solver="projection", tol=1e-3)
    assert solution.status is Status.OPTIMAL
    assert solution.iterations <= 120


def test_no_ray_is_sought_below_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """One projection a round, and a few at restarts: feasible multipliers exclude rays."""
    calls = []
    project = TwoSets.onto_cone

    def counted(self: TwoSets, *args: Any, **options: Any) -> Any:
        calls.append(1)
        return project(self, *args, **options)

    monkeypatch.setattr(TwoSets, "onto_cone", counted)
    solution = quietly(roll(60), "projection", tol=1e-9, max_iter=210)
    assert len(calls) <= 1.1 * solution.iterations


def test_the_plain_metric_converges_too() -> None:
    solution = solve(roll(14), solver="projection", tol=1e-5, metric="plain")
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(solve(roll(14)).objective, rel=2e-5)


@pytest.mark.parametrize("form", FORMS)
def test_its_multipliers_are_feasible(form: str) -> None:
    """Not nearly: the bound is bᵀw itself, at a loose tolerance already."""
    solution = solve(roll(40, form), solver="projection", tol=1e-3)
    assert solution.status is Status.OPTIMAL
    certificate = solution.certificate
    assert certificate.min_eigenvalue_dual >= -1e-12 * np.abs(solution.dual).max()
    sign = solution.program.sign
    best = solve(roll(40, form)).objective
    assert sign * solution.dual_objective >= sign * best - 1e-9 * abs(best)


@pytest.mark.parametrize("form", FORMS)
def test_any_multipliers_are_made_feasible(form: str) -> None:
    program = roll(16, form).program()
    exact = solve(program, solver="interior")
    assert exact.dual is not None
    rough = exact.dual * (1 + 0.01 * np.random.default_rng(0).standard_normal(exact.dual.size))
    w = feasible_multipliers(program, rough)
    assert w is not None
    certificate = certify(program, exact.matrices, exact.x, w)
    assert certificate.min_eigenvalue_dual >= -1e-12
    assert certificate.dual_residual <= 1e-12
    raw = certify(program, exact.matrices, exact.x, rough)
    assert raw.min_eigenvalue_dual < -1e-4
    assert certificate.relative_gap < 0.5


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_units_and_places(scale: float) -> None:
    """Rotation, shift and scale of the points change units only."""
    rng = np.random.default_rng(5)
    X = sdpkit.datasets.swiss_roll(16, random_state=0)
    turned = scale * (X @ np.linalg.qr(rng.standard_normal((X.shape[1],) * 2))[0]) + 3.0
    base = solve(MVU(X, n_neighbors=4), solver="projection", tol=1e-6)
    moved = solve(MVU(turned, n_neighbors=4), solver="projection", tol=1e-6)
    assert moved.status is Status.OPTIMAL
    assert moved.objective / scale**2 == pytest.approx(base.objective, rel=4e-6)


def test_disconnected_before_the_first_iteration() -> None:
    rods = np.array([[1.0, -1, 0, 0], [0, 0, 1, -1]])
    block = Block.of(4, rods, name="K", cost=Cost.of(4, identity=1.0), null=np.ones(4))
    solution = solve(Program.of(block, [4.0, 9.0]), solver="projection")
    assert solution.status is Status.UNBOUNDED
    assert solution.iterations == 0
    assert "no constraint sees" in solution.native_status


def test_two_blocks_of_which_one_is_infeasible() -> None:
    """The ray names the triangle's rows and leaves the other block alone."""
    bad = np.array([[1.0, -1, 0], [1, 0, -1], [0, 1, -1]])
    blocks = [
        Block.of(2, [[1.0, -1.0]], name="A", cost=Cost.of(2, identity=1.0), null=np.ones(2)),
        Block.of(3, bad, name="B", cost=Cost.of(3, identity=1.0), null=np.ones(3)),
    ]
    solution = solve(Program.of(blocks, [1.0, 1.0, 1.0, 9.0]), solver="projection")
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    w = solution.ray.multipliers
    assert w is not None
    assert w[3] < 0 < min(w[1], w[2])
    assert abs(w[0]) <= 1e-3 * abs(w[3])


# -- stopping and going on ---------------------------------------------------------------------


class _Interrupt:
    """Raises KeyboardInterrupt at the k-th iteration."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, row: Any) -> None:
        if row["iteration"] >= self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", ENGINES)
def test_interruption_returns_what_there_is(name: str) -> None:
    solution = quietly(roll(20), name, callback=_Interrupt(35), tol=1e-9)
    assert solution.status is Status.INTERRUPTED
    assert solution.iterations == 35
    assert np.isfinite(solution.objective)
    best = solve(roll(20)).objective
    if name != "alternating":
        assert best * (1 - 1e-7) <= solution.certificate.safe_bound < np.inf


@pytest.mark.parametrize("name", ENGINES)
def test_a_callback_may_stop_it(name: str) -> None:
    solution = quietly(roll(20), name, callback=lambda row: row["iteration"] >= 7, tol=1e-9)
    assert solution.status is Status.INTERRUPTED
    assert solution.iterations == 7


def test_a_first_iteration_that_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """There was no point to look at, and the solve ended with an AttributeError."""

    def abandoned(*arguments: Any) -> Any:
        raise Abandoned("as a search in its midst does")

    monkeypatch.setattr(TwoSets, "onto_cone", abandoned)
    answer = get_solver("projection").solve(roll(20).program(), Settings())
    assert answer.stop is Stop.TIME_LIMIT
    assert answer.matrices is None


@pytest.mark.parametrize("name", ENGINES)
def test_time_limit(name: str) -> None:
    """The first iteration is longer than the limit, however busy the machine is."""
    solution = quietly(
        roll(30), name, time_limit=0.5, tol=1e-12, callback=lambda row: time.sleep(0.6)
    )
    assert solution.status is Status.TIME_LIMIT
    assert solution.iterations == 1


@pytest.mark.parametrize("name", ["projection", pytest.param("dykstra", marks=pytest.mark.slow)])
def test_resumed_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    """Stopped on the way and started again: the same certified answer, in the rounds left."""
    program, tol = roll(16 if name == "dykstra" else 24).program(), 1e-4
    whole = solve(program, solver=name, tol=tol)
    assert whole.iterations is not None
    file = tmp_path / "run.npz"
    half = quietly(program, name, tol=tol, max_iter=whole.iterations // 2, checkpoint=file)
    assert half.status is Status.ITERATION_LIMIT
    resumed = solve(program, solver=name, tol=tol, checkpoint=file)
    assert resumed.status is Status.OPTIMAL
    assert resumed.objective == pytest.approx(whole.objective, rel=2 * tol)
    if name == "dykstra":  # nothing is lost; it looks at its answer every ten rounds
        assert 0 <= resumed.iterations - (whole.iterations - half.iterations) < 10
    else:  # numbered on, with a fresh memory
        assert 0 < resumed.iterations - half.iterations <= 0.75 * whole.iterations


def test_resumed_rounds_are_the_same_rounds(tmp_path: Path) -> None:
    program = roll(14).program()
    for name in ENGINES[1:]:
        file = tmp_path / f"{name}.npz"
        whole = quietly(program, name, max_iter=30, tol=1e-9)
        quietly(program, name, max_iter=12, tol=1e-9, checkpoint=file)
        rest = quietly(program, name, max_iter=18, tol=1e-9, checkpoint=file)
        assert rest.matrix == pytest.approx(whole.matrix, abs=1e-12)


def test_history_of_every_iteration() -> None:
    solution = solve(roll(20), solver="projection", tol=1e-4)
    assert [row["iteration"] for row in solution.history] == list(range(1, solution.iterations + 1))
    last = solution.history[-1]
    # The last point is moved onto its rows, which costs less than the tolerance.
    assert last["objective"] == pytest.approx(solution.objective, rel=1e-4)
    assert last["bound"] == pytest.approx(solution.certificate.safe_bound, rel=1e-9)
    far = [row["distance to the rows"] for row in solution.history]
    assert far[-1] < 1e-2 * max(far)


def test_pictures() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from sdpkit import plotting

    solution = solve(wedge(0.4), solver="alternating", tol=1e-6)
    ax = plotting.plot_iterates(solution)
    way = ax.lines[0].get_xydata()
    assert len(way) == 2 * solution.iterations
    assert way[-1] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert len(ax.lines) == 3  # the way and the two rows
    ax = plotting.plot_distances(solution)
    labels = {text.get_text() for text in ax.get_legend().get_texts()}
    assert "distance to the rows" in labels
    with pytest.raises(sdpkit.InputError, match="no iterates to draw"):
        plotting.plot_iterates(solve(roll(14), solver="projection", tol=1e-3))
    with pytest.raises(sdpkit.InputError, match="records no distances"):
        plotting.plot_distances(solve(roll(14), solver="interior"))


def test_an_answer_is_only_an_answer() -> None:
    """The engine says that it converged; the verdict is the certificate's."""
    answer = get_solver("projection").solve(roll(14).program(), Settings(tol=1e-4))
    assert answer.stop is Stop.DONE
    assert answer.native_status.startswith("converged")


@pytest.mark.parametrize("n_basis", [60, 80])
def test_a_norm_penalty_is_met_before_it_stops(n_basis: int) -> None:
    """Both sides were near, but the multipliers broke the norm's own limit: there was no bound."""
    X = sdpkit.datasets.swiss_roll(200, random_state=0)
    problem = sdpkit.VariationalMVU(X, n_neighbors=4, n_basis=n_basis, penalty="norm")
    assert solve(problem, solver="projection").status is Status.OPTIMAL


def test_slacks_take_nothing_up_where_that_costs_more() -> None:
    """As it is, the point passes; with slacks that take up what its rows are off, it does not."""
    problem = sdpkit.MVE(sdpkit.datasets.swiss_roll(14), n_neighbors=4, form="slack")
    assert solve(problem.first_program(), solver="projection").status is Status.OPTIMAL


def test_a_nearest_matrix_takes_no_dense_equations() -> None:
    """Each entry of the matrix is measured: AAᵀ stays sparse, and so does the estimate."""
    n = 50
    K, x = Unknown("K", n), Variable(n * (n + 1) // 2, "x", free=True)
    i, j = np.triu_indices(n)
    target = np.cos(np.arange(i.size))
    program = minimise(x.sum_squares(), K[i, j] == target + x, K.lengths(np.eye(n)) == 1)
    assert PROJECTION.work(program, 1e-6)[2] == 0
    solution = solve(program, solver="projection", tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert solution.iterations < 200
