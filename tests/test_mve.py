"""Minimum volume embedding and the FULL variants: theorems, known values, proofs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit import MVE, MVU, Solution, Status, datasets
from sdpkit.errors import ConvergenceWarning
from sdpkit.problems.mve import _leading
from sdpkit.results.embedding import gram
from sdpkit.solution.answer import Answer, Settings
from sdpkit.solvers.interior import INTERIOR
from sdpkit.solving.choice import refusal
from sdpkit.solving.registry import available_solvers, get_solver, registered
from sdpkit.typing import Array

FORMS = ("equality", "inequality", "slack")
STARTS = ("kernel", "mvu", "random")
# A first-order method does not reach the certified gap; it has to say so.
FIRST_ORDER = ("scs",)
every_form = pytest.mark.parametrize("form", FORMS)
every_start = pytest.mark.parametrize("start", STARTS)


def roll(n: int = 14, **options: Any) -> MVE:
    return MVE(datasets.swiss_roll(n), n_neighbors=4, **options)


def paper_value(problem: MVU, solver: str = "CLARABEL", **options: float) -> float:
    """The paper's model as cvxpy writes it, by a solver that sees nothing of ours."""
    model = problem.to_cvxpy()
    with warnings.catch_warnings():
        # Centring as a row takes the interior away: cvxpy may warn that digits were lost.
        warnings.simplefilter("ignore", UserWarning)
        model.solve(solver=solver, **options)
    assert model.status in ("optimal", "optimal_inaccurate")
    return float(model.value)


def climb(solution: Solution) -> Array:
    assert solution.trajectory is not None
    return solution.trajectory.progress["objective"]


def last_possible_gain(solution: Solution) -> float:
    """By how much a K may exceed the last but one iterate on its linearisation, relative."""
    assert solution.trajectory is not None
    values = climb(solution)
    return float(solution.trajectory[-1].certificate.safe_bound - values[-2]) / abs(values[-1])


# -- theorems and known values --------------------------------------------------------------


def test_the_star_lies_flat_where_mvu_makes_a_simplex() -> None:
    """tr K ≤ Σ sp(centre, i)² = 8·(1 + 4 + … + 25), and the plane reaches it: the maximum."""
    X, star = datasets.spokes(8, 5), datasets.star_graph(8, 5)
    mvu = MVU(X, graph=star)
    assert mvu.recover(sdpkit.solve(mvu), 2).fidelity == pytest.approx(2 / 7, abs=1e-6)
    mve = MVE(X, graph=star)
    solution = sdpkit.solve(mve)
    assert solution.status is Status.STATIONARY
    assert mve.value(solution) == pytest.approx(440, rel=1e-6)
    assert mve.fidelity(solution) > 1 - 1e-6
    assert solution.trajectory is not None
    assert len(solution.trajectory) <= 5


def test_the_lectures_star() -> None:
    """95.0, 29.9 and 100.0 % by kernel PCA, SDE and MVE, in about five iterations."""
    X, star = datasets.spokes(8, 5, noise_dims=50, noise=0.11), datasets.star_graph(8, 5)
    mvu, mve = MVU(X, graph=star), MVE(X, graph=star)
    solution = sdpkit.solve(mve)
    assert mve.kernel_pca().fidelity == pytest.approx(0.95, abs=0.005)
    assert mvu.recover(sdpkit.solve(mvu), 2).fidelity == pytest.approx(0.299, abs=0.01)
    assert mve.recover(solution).fidelity >= 0.999
    assert solution.trajectory is not None
    assert len(solution.trajectory) <= 5


@every_start
@pytest.mark.parametrize("d", [1, 2])
def test_a_string_is_straight(start: Any, d: int) -> None:
    """The path's MVU optimum has rank one, so it is MVE's too: (n³ − n)/12."""
    problem = MVE(graph=datasets.path_graph(7), n_components=d, start=start)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.STATIONARY
    assert problem.value(solution) == pytest.approx(28.0, rel=1e-5)


def test_a_ring_stays_a_regular_polygon() -> None:
    """MVU's polygon lies in the plane: g(K) = tr K is MVU's bound, and nothing exceeds it."""
    problem = MVE(graph=datasets.cycle_graph(8), start="mvu")
    solution = sdpkit.solve(problem)
    known = 8 / (4 * np.sin(np.pi / 8) ** 2)
    assert problem.value(solution) == pytest.approx(known, rel=1e-6)
    assert solution.trajectory is not None
    assert solution.trajectory[0].certificate.safe_bound == pytest.approx(known, rel=1e-6)


@every_start
def test_a_rigid_plane_is_returned_as_it_is(start: Any) -> None:
    """Neighbours and angles of points in the plane leave one K: MVE is an isometry."""
    X = np.random.default_rng(0).uniform(size=(15, 2))
    problem = MVE(X, n_neighbors=5, angles=True, start=start)
    embedding = problem.recover(sdpkit.solve(problem))
    assert problem.facial_reduction_used
    centred = X - X.mean(axis=0)
    Y = embedding.coordinates
    np.testing.assert_allclose(Y @ Y.T, centred @ centred.T, atol=1e-5)


def test_all_weights_equal_is_mvu() -> None:
    mvu = sdpkit.solve(MVU(datasets.swiss_roll(14), n_neighbors=4))
    flat = sdpkit.solve(roll(weights=(1.0,)))
    assert flat.objective == pytest.approx(mvu.objective, rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 4))
def test_the_objective_is_the_best_linearisation(seed: int, d: int) -> None:
    """Ky Fan: Σ α_i λ_i(K) = max over orthonormal U of <Σ α_i u_i u_iᵀ, K>, at the eigenvectors."""
    problem = roll(8, n_components=d)
    (part,) = problem.parts
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((8, 5))
    Y -= Y.mean(axis=0)
    K = Y @ Y.T
    top = _leading(part, K, 8)
    values, vectors = top.values, top.vectors
    assert top.trace == pytest.approx(values.sum())
    alpha = np.where(np.arange(8) < d, 1.0, -1.0)
    best = problem._cost(part, vectors).inner(K)
    assert best == pytest.approx(float(alpha @ values), rel=1e-9)
    random = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    assert problem._cost(part, random).inner(K) <= best + 1e-9 * abs(best)


# -- the steps ------------------------------------------------------------------------------


@every_form
@every_start
def test_the_objective_never_falls(form: Any, start: Any) -> None:
    problem = roll(form=form, start=start, min_gain=0.0)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.STATIONARY
    values = climb(solution)
    assert np.all(np.diff(values) >= -1e-6 * np.abs(values[-1]))
    assert problem.value(solution) == pytest.approx(values.max(), rel=1e-9)
    # It is stationary: the last bound leaves next to nothing on the linearisation.
    assert -1e-6 <= last_possible_gain(solution) <= 2e-6
    assert solution.trajectory is not None
    assert all(step.status is Status.OPTIMAL for step in solution.trajectory)


@every_form
def test_the_bound_of_a_step_is_the_papers(form: Any) -> None:
    """dᵀw + max(0, −λ_min(L(w) − B))·T from edges and Laplacians, without the program."""
    problem = roll(form=form)
    solution = sdpkit.solve(problem)
    assert solution.trajectory is not None
    graph = problem.neighborhood
    n, omega = graph.n_points, problem.omega_used or 0.0
    for before, step in zip(solution.trajectory, solution.trajectory.steps[1:], strict=False):
        _, vectors = np.linalg.eigh(before.matrix)
        top = vectors[:, -2:]
        B = (1 - omega) * (2 * top @ top.T - np.eye(n))
        assert step.dual is not None
        S = graph.laplacian(step.dual).toarray() - B
        C = np.eye(n) - 1 / n
        lack = max(0.0, -np.linalg.eigvalsh(C @ S @ C + 1e3 / n)[0])
        bound = graph.squared_lengths @ step.dual + lack * graph.variance_bound()
        assert step.certificate.safe_bound <= bound * (1 + 1e-9)
        assert bound == pytest.approx(step.objective, rel=1e-5)
        # Any K of the set is below the bound: the iterates are.
        for other in solution.trajectory:
            value = np.sum(B * other.matrix) + other.program.cost_x @ other.x
            assert value <= bound + 1e-5 * abs(bound)


def test_a_step_from_mvu_is_told_its_value() -> None:
    solution = sdpkit.solve(roll(start="mvu"))
    assert solution.trajectory is not None
    first, second = solution.trajectory[0], solution.trajectory[1]
    assert first.program.safe.trace is not None
    assert second.program.safe.trace is not None
    assert second.program.safe.trace[0] < first.program.safe.trace[0]
    assert second.program.safe.trace[0] == pytest.approx(first.certificate.safe_bound, rel=1e-8)
    assert second.certificate.verify()


def first_steps(problem: MVE, count: int) -> tuple[Solution, ...]:
    """What `solve` would do, by hand."""
    steps: tuple[Solution, ...] = ()
    for _ in range(count):
        upcoming = problem.advance(steps, 1e-6)
        assert isinstance(upcoming, sdpkit.Program)
        steps = (*steps, sdpkit.solve(upcoming))
    return steps


def takers() -> list[str]:
    """The solvers that take the program of a step, but for those that only teach."""
    program = roll().first_program()
    able = [name for name in available_solvers() if refusal(get_solver(name), program) is None]
    return [name for name in able if not get_solver(name).capabilities.teaching]


@pytest.mark.slow
@every_form
@pytest.mark.parametrize("name", takers())
def test_engines_agree_on_every_step(form: Any, name: str) -> None:
    problem = roll(form=form)
    for step in first_steps(problem, 3):
        with warnings.catch_warnings():
            if name in FIRST_ORDER:
                warnings.simplefilter("ignore", ConvergenceWarning)
            other = sdpkit.solve(step.program, solver=name, tol=1e-6)
        if name not in FIRST_ORDER:
            assert other.status is Status.OPTIMAL
        assert other.objective == pytest.approx(step.objective, rel=1e-3 if name == "scs" else 3e-6)


def test_whole_runs_agree_between_engines() -> None:
    ours = sdpkit.solve(roll(10), solver="interior")
    theirs = sdpkit.solve(roll(10), solver="clarabel")
    np.testing.assert_allclose(climb(ours), climb(theirs), rtol=1e-4)


def test_what_a_solver_loses_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later answer that is worse is dropped: K_t is kept, and the end is not stationary."""

    class Fading:
        name, capabilities, calls = "fading", INTERIOR.capabilities, 0

        def unavailable(self) -> str | None:
            return None

        def memory(self, program: sdpkit.Program) -> float:
            return 0.0

        def solve(self, program: sdpkit.Program, given: Settings) -> Answer:
            self.calls += 1
            answer = INTERIOR.solve(program, given)
            if self.calls < 3 or answer.matrices is None:
                return answer
            return sdpkit.Answer(
                answer.stop, "fading", tuple(0.9 * m for m in answer.matrices), answer.x
            )

    problem = roll(form="inequality", min_gain=0.0)
    with registered(Fading()), pytest.warns(ConvergenceWarning):
        solution = sdpkit.solve(problem, solver="fading")
    assert solution.trajectory is not None
    assert solution.matrices is solution.trajectory[1].matrices
    assert problem.value(solution) == pytest.approx(climb(solution)[1])
    assert solution.status is Status.INACCURATE


def test_max_steps() -> None:
    with pytest.warns(ConvergenceWarning, match="max_steps = 2 reached"):
        solution = sdpkit.solve(roll(max_steps=2, min_gain=0.0))
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.trajectory is not None
    assert len(solution.trajectory) == 2
    assert solution.certificate.passes(1e-6)


def test_random_starts_are_seeded() -> None:
    runs = [roll(start="random", random_state=seed) for seed in (3, 3, 4)]
    one, again, other = (first_steps(run, 1)[0].objective for run in runs)
    assert one == again
    assert one != pytest.approx(other, rel=1e-3)


def test_general_weights() -> None:
    """Falling weights pull the first direction most; the objective is Σ α_i λ_i."""
    problem = roll(weights=(2.0, 1.0, -1.0))
    solution = sdpkit.solve(problem)
    eigenvalues = np.linalg.eigvalsh(solution.matrix)[::-1]
    expected = 2 * eigenvalues[0] + eigenvalues[1] - eigenvalues[2:].sum()
    assert problem.value(solution) == pytest.approx(expected, rel=1e-9)
    assert solution.status is Status.STATIONARY
    plain = roll()
    share = [np.linalg.eigvalsh(sdpkit.solve(p).matrix)[-1] for p in (problem, plain)]
    assert share[0] >= share[1] * (1 - 1e-3)


# -- the two formulations -------------------------------------------------------------------


@every_form
@every_start
def test_first_step_and_cvxpy_model_agree(form: Any, start: Any) -> None:
    X = datasets.swiss_roll(10) / 10
    X[7] = X[3]  # coincident points
    problem = MVE(X, n_neighbors=4, form=form, start=start)
    ours = sdpkit.solve(problem.first_program())
    theirs = paper_value(problem)
    assert ours.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs, rel=2e-4)


def test_coincident_points_count_as_often_as_they_are() -> None:
    """Merged or not (the slack form keeps them apart), the spectrum is that of all points."""
    X = datasets.spokes(5, 2, noise_dims=3, noise=0.2)
    X = np.vstack([X, X[4], X[4]])
    star = datasets.star_graph(5, 2).toarray()
    edges = [*np.argwhere(np.triu(star)).tolist(), [4, 11], [4, 12]]
    problem = MVE(X, edges=edges)
    solution = sdpkit.solve(problem)
    assert solution.matrix.shape == (11, 11)
    embedding = problem.recover(solution)
    np.testing.assert_allclose(embedding.coordinates[[11, 12]], embedding.coordinates[[4, 4]])
    eigenvalues = embedding.eigenvalues
    expected = eigenvalues[:2].sum() - eigenvalues[2:].sum()
    assert problem.value(solution) == pytest.approx(expected, rel=1e-7)
    assert problem.fidelity(solution) == pytest.approx(embedding.fidelity, rel=1e-7)


def test_components_are_embedded_apart() -> None:
    X = datasets.spokes(4, 2, noise_dims=2, noise=0.1)
    both = np.vstack([X, X + 100])
    one = MVE(X, n_neighbors=3)
    two = MVE(both, n_neighbors=3, connect="components")
    solution = sdpkit.solve(two)
    assert len(solution.matrices) == 2
    assert solution.status is Status.STATIONARY
    assert two.value(solution) == pytest.approx(2 * one.value(sdpkit.solve(one)), rel=1e-3)


def test_embedding_is_in_the_problems_dimensions() -> None:
    problem = roll(n_components=3)
    solution = sdpkit.solve(problem)
    assert problem.recover(solution).coordinates.shape == (14, 3)
    assert problem.recover(solution, 1).coordinates.shape == (14, 1)
    step = solution.trajectory[0]  # type: ignore[index]
    assert problem.recover(step).n_components == 3


# -- invariance -----------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(0.01, 100), form=st.sampled_from(FORMS))
def test_rotation_permutation_and_scale(seed: int, scale: float, form: Any) -> None:
    rng = np.random.default_rng(seed)
    X = datasets.swiss_roll(9, random_state=seed)
    turn = scipy.stats.ortho_group.rvs(X.shape[1], random_state=seed)
    order = rng.permutation(9)
    moved = scale * (X @ turn)[order] + rng.standard_normal(X.shape[1])
    try:
        runs = [MVE(points, n_neighbors=4, form=form) for points in (X, moved)]
    except sdpkit.GraphError:
        assume(False)
    first, second = ([run.value(step) for step in first_steps(run, 2)] for run in runs)
    np.testing.assert_allclose(np.array(second) / scale**2, first, rtol=1e-4)


# -- what cannot be -------------------------------------------------------------------------


def test_infeasible_lengths_are_proved() -> None:
    sides = np.array([[0, 1, 1], [1, 0, 3], [1, 3, 0]])
    solution = sdpkit.solve(MVE(graph=sides, n_components=1))
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    assert solution.ray.verify()


def test_the_slack_form_is_refused_where_it_is_unbounded() -> None:
    """The threshold is that of the largest weight: ω λ₂ ≥ (1−ω) α_1."""
    X = datasets.swiss_roll(14)
    connectivity = MVU(X, n_neighbors=4).neighborhood.algebraic_connectivity()
    threshold = 1 / (1 + connectivity / 3)
    with pytest.raises(sdpkit.UnboundedProblemError, match="unbounded"):
        MVE(X, n_neighbors=4, form="slack", omega=threshold - 1e-3, weights=(3.0, -1.0))
    bounded = MVE(X, n_neighbors=4, form="slack", omega=threshold + 1e-3, weights=(3.0, -1.0))
    assert sdpkit.solve(bounded).status is Status.STATIONARY


def test_a_start_from_mvu_must_be_bounded_too() -> None:
    """α_1 < 1 would allow a smaller ω, but not for MVU's own step."""
    X = datasets.swiss_roll(14)
    threshold = 1 / (1 + MVU(X, n_neighbors=4).neighborhood.algebraic_connectivity())
    small = {"n_neighbors": 4, "form": "slack", "omega": threshold - 1e-3, "weights": (0.5, -1.0)}
    assert sdpkit.solve(MVE(X, **small)).status is Status.STATIONARY
    with pytest.raises(sdpkit.UnboundedProblemError, match="unbounded"):
        MVE(X, start="mvu", **small)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n_components": 0}, "n_components is 0"),
        ({"n_components": 14}, "span"),
        ({"n_components": 1.5}, "whole number"),
        ({"weights": (1.0, 2.0)}, "must not rise"),
        ({"weights": (0.0, -1.0)}, "the first must be positive"),
        ({"weights": ()}, "finite numbers"),
        ({"weights": (1.0, np.nan)}, "finite numbers"),
        ({"weights": "falling"}, "finite numbers"),
        ({"start": "isomap"}, "'kernel', 'mvu' or 'random'"),
        ({"form": "min_trace"}, "'equality', 'inequality' or 'slack'"),
        ({"min_gain": -1.0}, "min_gain is -1.0"),
        ({"min_gain": "small"}, "min_gain is 'small'"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"full": True, "form": "inequality"}, "use form='equality' or 'slack'"),
        ({"full": True, "connect": "components"}, "all pairs"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(sdpkit.InputError, match=words):
        roll(**wrong)


# -- FULL -----------------------------------------------------------------------------------


def tree_of(X: Array, kind: type[MVU] = MVU, **options: Any) -> Any:
    return kind(X, graph=sdpkit.graphs.spanning_tree(X), full=True, **options)


def shares(problem: MVU, solution: Solution) -> Array:
    """Squared output over squared input distances of all pairs."""
    Y = problem.recover(solution, problem.neighborhood.n_points - 1).coordinates
    i, j = np.triu_indices(len(Y), k=1)
    inputs = sdpkit.graphs.SquaredDistances.of(
        problem.X, distances=problem.distances, kernel=problem.kernel
    )
    return np.sum((Y[i] - Y[j]) ** 2, axis=1) / inputs.between(i, j)


@pytest.fixture(scope="module")
def cloud() -> Array:
    return np.random.default_rng(1).standard_normal((12, 3))


@pytest.mark.parametrize("form", ["equality", "slack"])
def test_rounds_and_the_whole_program_agree(cloud: Array, form: Any) -> None:
    problem = tree_of(cloud, form=form)
    rounds = sdpkit.solve(problem)
    assert rounds.status is Status.OPTIMAL
    assert rounds.trajectory is not None
    assert len(rounds.trajectory) > 1
    whole = sdpkit.solve(problem.program(), solver="clarabel")
    assert whole.program.n_rows == rounds.program.n_rows
    assert rounds.objective == pytest.approx(whole.objective, rel=1e-5)
    assert rounds.objective == pytest.approx(paper_value(problem), rel=1e-4)
    # Nobody came closer, and it took a fraction of the rows.
    assert shares(problem, rounds).min() >= 1 - 1e-5
    assert rounds.trajectory[-1].program.n_rows < whole.program.n_rows
    assert "pairs were checked" in rounds.notes[-1]


def test_without_the_pairs_a_tree_folds(cloud: Array) -> None:
    tree = sdpkit.graphs.spanning_tree(cloud)
    plain, full = MVU(cloud, graph=tree), tree_of(cloud)
    assert shares(plain, sdpkit.solve(plain)).min() < 0.9
    assert full.recover(sdpkit.solve(full)).tensions.size == tree.n_edges


def test_every_round_bounds_the_whole(cloud: Array) -> None:
    problem = tree_of(cloud)
    solution = sdpkit.solve(problem)
    assert solution.trajectory is not None
    bounds = np.array([step.certificate.safe_bound for step in solution.trajectory])
    assert np.all(np.diff(bounds) <= 1e-6 * bounds[0])
    assert np.all(bounds >= solution.objective * (1 - 1e-6))
    # The input itself keeps all its distances.
    assert solution.objective >= np.trace(gram(problem.all_pairs.squared)) * (1 - 1e-9)
    # L(w) − L(u) ⪰ C with u ≥ 0, over all pairs.
    w = solution.dual
    assert w is not None
    m = problem.neighborhood.n_edges
    assert np.all(w[m:] <= 0)
    V = solution.program.blocks[0].incidence
    slack = V.T @ (w[:, None] * V.toarray()) - np.eye(12) + 1 / 12
    assert np.linalg.eigvalsh(slack)[0] >= -1e-7
    assert solution.program.rhs @ w == pytest.approx(solution.objective, rel=1e-6)
    assert solution.certificate.verify()


def test_points_on_a_line_need_no_rows() -> None:
    X = np.array([[0.0], [1.0], [3.0], [4.5]])
    solution = sdpkit.solve(tree_of(X))
    assert solution.status is Status.OPTIMAL
    assert solution.trajectory is not None
    assert len(solution.trajectory) == 1
    assert solution.objective == pytest.approx(np.var(X) * 4, rel=1e-6)


def test_mve_full_climbs_within_the_pairs(cloud: Array) -> None:
    problem = tree_of(cloud, MVE, min_gain=0.0)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.STATIONARY
    assert shares(problem, solution).min() >= 1 - 1e-5
    assert solution.trajectory is not None
    # The iterates are the steps in which no pair is too close; between them rows are added.
    closest = solution.trajectory.progress["closest pair"]
    iterates = climb(solution)[closest >= 1 - 1e-6]
    assert 1 < len(iterates) < len(solution.trajectory)
    assert np.all(np.diff(iterates) >= -1e-6 * abs(iterates[-1]))
    mvu = tree_of(cloud)
    bound = sdpkit.solve(mvu)
    assert problem.value(solution) <= bound.certificate.safe_bound * (1 + 1e-6)
    assert problem.fidelity(solution) >= mvu.recover(bound, 2).fidelity


def test_rows_are_generated_by_coincident_points_once() -> None:
    X = np.random.default_rng(2).standard_normal((8, 2))
    X = np.vstack([X, X[3]])
    problem = tree_of(X)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.matrix.shape == (8, 8)
    # Two points at distance zero leave no interior at all, and interior-point codes break down.
    published = paper_value(problem, "SCS", eps=1e-6, max_iters=200_000)
    assert solution.objective == pytest.approx(published, rel=1e-3)


@pytest.mark.parametrize("kind", [MVU, MVE])
def test_a_branching_tree_with_all_its_nodes_is_impossible(kind: type[MVU]) -> None:
    """Three leaves, each opposite to the two others: proved by a ray over edges and pairs."""
    star = datasets.star_graph(3, 2)
    paths = sdpkit.NeighborhoodGraph.from_pairs(7, np.argwhere(np.triu(star.toarray())), [1.0] * 6)
    problem = kind(distances=paths.shortest_paths(), graph=star, full=True)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    assert solution.ray.verify()
    assert solution.trajectory is not None
    assert len(solution.trajectory) > 1  # the tree alone is feasible
    # Its tips alone are Euclidean here: their spanning tree is not impossible.
    tips = [2, 4, 6]
    among = paths.shortest_paths()[np.ix_(tips, tips)]
    few = kind(
        distances=among,
        graph=sdpkit.graphs.spanning_tree(distances=among),
        full=True,
        **({} if kind is MVU else {"n_components": 1}),
    )
    assert sdpkit.solve(few).status in (Status.OPTIMAL, Status.STATIONARY)


def test_full_refuses_coincident_points_that_are_apart() -> None:
    distances = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    with pytest.raises(sdpkit.GraphError, match=r"\[0, 1, 2\] coincide .* some are 1 apart"):
        MVU(distances=distances, edges=[[0, 1], [1, 2]], full=True)


def test_full_needs_the_distances_of_all_pairs() -> None:
    with pytest.raises(sdpkit.InputError, match="only its edges'"):
        MVU(graph=datasets.star_graph(3, 2), full=True)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(0.01, 100))
def test_full_is_invariant(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((8, 3))
    turn = scipy.stats.ortho_group.rvs(3, random_state=seed)
    moved = scale * (X @ turn)[rng.permutation(8)] + rng.standard_normal(3)
    one, two = (sdpkit.solve(tree_of(points)) for points in (X, moved))
    assert one.status is two.status is Status.OPTIMAL
    assert two.objective / scale**2 == pytest.approx(one.objective, rel=1e-5)


# -- pictures and commands ------------------------------------------------------------------


def test_comparison_is_drawn(tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    problem = MVE(datasets.spokes(4, 2), graph=datasets.star_graph(4, 2), start="mvu")
    solution = sdpkit.solve(problem)
    assert solution.trajectory is not None
    pictures = {
        "kernel PCA": problem.kernel_pca(),
        "MVU": problem.recover(solution.trajectory[0]),
        "MVE": problem.recover(solution),
    }
    path = tmp_path / "comparison.png"
    sdpkit.plotting.plot_comparison(pictures, path, trajectory=solution.trajectory, title="star")
    assert path.read_bytes().startswith(b"\x89PNG")
    ax = solution.trajectory.plot()
    assert ax.get_ylabel() == "fidelity"


def test_the_table_needs_its_data(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from bench import __main__ as bench

    assert bench.main(["mve", "--data", str(tmp_path)]) == 2
    assert "netscience.npz is missing" in capsys.readouterr().err


def test_a_row_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    from bench import engines

    ring = np.c_[np.cos(np.arange(12) * np.pi / 6), np.sin(np.arange(12) * np.pi / 6)]
    found = engines._print_fidelities("ring", start="mvu", X=ring, n_neighbors=2)
    printed = capsys.readouterr().out
    assert "kernel PCA 100.0 %" in printed
    assert "MVU 100.00 %, optimal, 1 program" in printed
    assert "MVE 100.00 %, stationary, 2 programs" in printed
    assert found.shares == pytest.approx((1.0, 1.0, 1.0), abs=1e-4)
    coordinates = found.mve[0].recover(found.mve[1], 2).coordinates
    assert engines._ring_order(coordinates) == "exact"
    swapped = coordinates[[1, 0, *range(2, 12)]]
    assert engines._ring_order(swapped) == "not kept"


# -- what was given stays -------------------------------------------------------------------


def test_there_is_no_single_program() -> None:
    with pytest.raises(sdpkit.InputError, match=r"several programs: call sdpkit\.solve\(problem\)"):
        roll().program()
    assert roll().first_program().n_rows == roll().neighborhood.n_edges
