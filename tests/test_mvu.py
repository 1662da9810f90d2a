"""Maximum variance unfolding: known optima, symmetries, duality and the way back to points."""

from __future__ import annotations

import functools
import itertools
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sdpkit
from sdpkit import MVU, GraphError, InputError, Solution, Status, UnboundedProblemError
from sdpkit.datasets import cycle_graph, path_graph, swiss_roll
from sdpkit.errors import ConvergenceWarning
from sdpkit.graphs.stresses import exposed_directions
from sdpkit.problems.mvu import omega_default, omega_threshold
from sdpkit.typing import Array

mpl.use("Agg")

FORMS = ("equality", "inequality", "slack", "min_trace")
every_form = pytest.mark.parametrize("form", FORMS)
few = settings(max_examples=6, deadline=None, derandomize=True)


def solved(problem: MVU, solver: str = "interior", tol: float = 1e-6) -> Solution:
    solution = sdpkit.solve(problem, solver=solver, tol=tol)
    assert solution.status is Status.OPTIMAL, solution.message
    return solution


def optimum(problem: MVU, solver: str = "interior") -> float:
    return solved(problem, solver).objective


def points(n: int, dims: int = 4, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, dims))


def gram(X: Array) -> Array:
    centred = X - X.mean(axis=0)
    return centred @ centred.T


def clusters() -> Array:
    """Six and five points, far apart."""
    return np.vstack([points(6, 3, seed=1), points(5, 3, seed=2) + 40.0])


def relative(A: Array, B: Array) -> float:
    return float(np.linalg.norm(A - B) / np.linalg.norm(B))


def edge_lengths(K: Array, edges: NDArray[np.int64]) -> Array:
    i, j = edges.T
    return K[i, i] + K[j, j] - 2 * K[i, j]


def weighted(n: int, edges: Any, lengths: Any) -> sp.csr_array:
    i, j = np.asarray(edges).T
    half = sp.coo_array((np.asarray(lengths, dtype=float), (i, j)), shape=(n, n)).tocsr()
    return half + half.T


# -- the two formulations -------------------------------------------------------------------


def paper_value(problem: MVU) -> float:
    """The paper's model as cvxpy writes it, by a solver that sees nothing of ours."""
    model = problem.to_cvxpy()
    with warnings.catch_warnings():
        # Centring as a row takes the interior away: cvxpy may warn that digits were lost.
        warnings.simplefilter("ignore", UserWarning)
        model.solve(solver="CLARABEL")
    assert model.status in ("optimal", "optimal_inaccurate")
    return float(model.value)


@every_form
@pytest.mark.parametrize(
    "options",
    [
        {"X": points(10), "n_neighbors": 3},
        {"X": points(10), "n_neighbors": 3, "angles": True},
        {"X": points(9, dims=2), "n_neighbors": 3, "angles": True},
        {"X": points(9)[[0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 3, 3]], "n_neighbors": 4},
        {"X": clusters(), "n_neighbors": 3, "connect": "components"},
        {"X": clusters(), "n_neighbors": 3, "connect": "bridge"},
        {
            "graph": weighted(
                5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3)], [1, 2, 1, 2, 1, 2]
            )
        },
    ],
    ids=["points", "angles", "flat-angles", "duplicates", "components", "bridge", "lengths"],
)
def test_program_is_the_papers_model(form: str, options: dict[str, Any]) -> None:
    problem = MVU(**options, form=form)
    assert optimum(problem) == pytest.approx(paper_value(problem), rel=2e-6)


def test_components_of_duplicates_are_the_papers_model() -> None:
    X = np.vstack([clusters(), clusters()[:1], clusters()[-1:], clusters()[-1:]])
    problem = MVU(X, n_neighbors=4, connect="components")
    assert len(problem.parts) == 2
    assert problem.group.max() + 1 == 11
    assert optimum(problem) == pytest.approx(paper_value(problem), rel=2e-6)


def test_the_same_data_in_four_disguises() -> None:
    X = points(9)
    lengths = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    by_points = MVU(X, n_neighbors=3)
    edges = by_points.neighborhood.edges
    adjacency = weighted(9, edges, lengths[tuple(edges.T)])
    others = [
        MVU(distances=lengths, n_neighbors=3),
        MVU(kernel=gram(X), n_neighbors=3),
        MVU(X, edges=edges),
        MVU(X, graph=adjacency),
        MVU(graph=adjacency),
    ]
    value = optimum(by_points)
    for other in others:
        assert np.array_equal(other.neighborhood.edges, edges)
        assert optimum(other) == pytest.approx(value, rel=1e-6)


def test_program_is_reproducible() -> None:
    problem = MVU(points(9), n_neighbors=3)
    assert problem.program().fingerprint == problem.program().fingerprint
    assert MVU(points(9), n_neighbors=3).program().fingerprint == problem.program().fingerprint
    assert MVU(points(9), n_neighbors=4).program().fingerprint != problem.program().fingerprint


# -- known optima ---------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["csdp", "clarabel"])
@pytest.mark.parametrize("lengths", [[1.0] * 5, [3.0, 0.5, 2.0, 1.0, 7.0, 0.7], [2.0, 5.0]])
def test_string_is_pulled_straight(lengths: list[float], solver: str) -> None:
    n = len(lengths) + 1
    position = np.concatenate([[0.0], np.cumsum(lengths)])
    position -= position.mean()
    edges = [(i, i + 1) for i in range(n - 1)]
    for form in ("equality", "inequality"):
        problem = MVU(graph=weighted(n, edges, lengths), form=form)
        solution = solved(problem, solver)
        assert solution.objective == pytest.approx((position**2).sum(), rel=1e-6)
        embedding = problem.recover(solution, n)
        assert embedding.eigenvalues[1] <= 1e-5 * embedding.eigenvalues[0]
        line = embedding.coordinates[:, 0]
        line = line if line[-1] > line[0] else -line
        assert line == pytest.approx(position, abs=1e-3 * position.max())
        assert embedding.suggested_dimension == 1


@pytest.mark.parametrize("form", ["equality", "inequality"])
def test_short_rods_among_long_ones(form: str) -> None:
    """A rod of a thousandth: its own relative error must not spoil the whole answer."""
    graph = weighted(4, [(0, 1), (1, 2), (2, 3)], [1.0, 1e-3, 1.0])
    position = np.array([0.0, 1.0, 1.001, 2.001])
    value = ((position - position.mean()) ** 2).sum()
    assert optimum(MVU(graph=graph, form=form)) == pytest.approx(value, rel=2e-6)


@pytest.mark.parametrize("length", [1.0, 2.5])
@pytest.mark.parametrize("n", [3, 5, 6, 7, 8])
def test_ring_becomes_a_regular_polygon(n: int, length: float) -> None:
    problem = MVU(graph=length * cycle_graph(n))
    solution = solved(problem)
    radius = length / (2 * np.sin(np.pi / n))
    assert solution.objective == pytest.approx(n * radius**2, rel=1e-6)
    embedding = problem.recover(solution, 2)
    assert embedding.fidelity >= 1 - 1e-5
    y = embedding.coordinates
    assert np.linalg.norm(y, axis=1) == pytest.approx(np.full(n, radius), rel=1e-3)
    angle = np.arctan2(y[:, 1], y[:, 0])
    steps = np.angle(np.exp(1j * np.diff(angle, append=angle[:1])))
    steps *= np.sign(steps.sum())
    assert steps == pytest.approx(np.full(n, 2 * np.pi / n), rel=1e-3)


def test_ring_of_four() -> None:
    """Square, rhombus and folded line have the same variance: the value alone is determined."""
    assert optimum(MVU(graph=cycle_graph(4))) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("form", ["equality", "inequality", "min_trace"])
@pytest.mark.parametrize("dims", [2, 6])
def test_complete_graph_does_not_move(form: str, dims: int) -> None:
    X = points(7, dims, seed=4)
    problem = MVU(X, n_neighbors=6, form=form)
    assert problem.facial_reduction_used == (dims < 6 and form != "inequality")
    solution = solved(problem)
    assert solution.objective == pytest.approx(np.trace(gram(X)), rel=1e-6)
    assert relative(solution.matrix, gram(X)) <= 1e-5


@pytest.mark.parametrize("lengths", [[1.0, 1.0, 1.0], [3.0, 2.0, 2.5, 1.0], [5.0, 1.0, 1.0, 0.5]])
def test_star(lengths: list[float]) -> None:
    """Leaves u_i around a hub: tr K = Σℓ² − |Σu|²/n, from Σu = 0 (if it can be) to all aligned."""
    length = np.array(lengths)
    n = length.size + 1
    graph = weighted(n, [(0, i) for i in range(1, n)], length)
    rest = max(0.0, 2 * length.max() - length.sum())
    square = (length**2).sum()
    for form in ("equality", "inequality"):
        value = optimum(MVU(graph=graph, form=form))
        assert value == pytest.approx(square - rest**2 / n, rel=1e-6)
    smallest = optimum(MVU(graph=graph, form="min_trace"))
    assert smallest == pytest.approx(square - length.sum() ** 2 / n, rel=1e-6)


@every_form
def test_two_points(form: str) -> None:
    problem = MVU([[0.0, 0.0], [3.0, 4.0]], n_neighbors=1, form=form)
    weight = 1 - problem.omega_used if problem.omega_used else 1.0
    solution = solved(problem)
    assert solution.objective == pytest.approx(weight * 12.5, rel=1e-6)
    assert solution.matrix == pytest.approx(6.25 * np.array([[1, -1], [-1, 1]]), rel=1e-5)
    # dᵀw is the value, so the tension is weight/2.
    assert solution.dual == pytest.approx([weight / 2], rel=1e-5)
    embedding = problem.recover(solution)
    assert embedding.coordinates.ravel() == pytest.approx([2.5, -2.5], rel=1e-4)


def normalised_roll(n: int, **options: Any) -> MVU:
    """The reference instance: squared lengths with mean one."""
    X = swiss_roll(n, noise_dims=5, noise=0.3, random_state=0)
    mean = MVU(X, n_neighbors=4).neighborhood.squared_lengths.mean()
    return MVU(X / np.sqrt(mean), n_neighbors=4, **options)


def test_reference_roll() -> None:
    problem = normalised_roll(100)
    assert problem.neighborhood.n_edges == 247
    solution = solved(problem)
    gap = abs(solution.certificate.safe_bound - solution.objective)
    assert gap <= 1e-6 * 1187.83455
    assert abs(solution.objective - 1187.83455) <= gap + 5e-6
    loose = solved(normalised_roll(100, form="inequality"))
    assert loose.objective > 1.01 * solution.objective


@pytest.mark.slow
def test_larger_reference_rolls() -> None:
    equality = sdpkit.solve(normalised_roll(400), tol=1e-3)
    assert equality.status is Status.OPTIMAL
    assert equality.objective == pytest.approx(81842.801, rel=2e-3)
    inequality = sdpkit.solve(normalised_roll(400, form="inequality"), tol=1e-3)
    assert inequality.status is Status.OPTIMAL
    assert inequality.objective == pytest.approx(85795.30, rel=2e-3)


# -- how the forms relate ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_order_of_the_forms(seed: int) -> None:
    """min tr K ≤ the data's own variance ≤ max tr K ≤ max with A(K) ≤ d ≤ path bound."""
    X = points(12, seed=seed)
    smallest = optimum(MVU(X, n_neighbors=3, form="min_trace"))
    equality = MVU(X, n_neighbors=3)
    largest, loose = optimum(equality), optimum(MVU(X, n_neighbors=3, form="inequality"))
    path_bound = equality.neighborhood.variance_bound()
    chain = [smallest, float(np.trace(gram(X))), largest, loose, path_bound]
    assert all(a <= b * (1 + 2e-6) for a, b in itertools.pairwise(chain))
    assert smallest < 0.9 * largest


def slack_of(X: Array, weight: float) -> MVU:
    """The slack form with (1−ω)/ω = weight."""
    return MVU(X, n_neighbors=3, form="slack", omega=1 / (1 + weight))


def test_stiff_slack_is_the_equality_form() -> None:
    """With (1−ω)/ω = γ: no edge gives iff γ‖w*‖∞ ≤ 1."""
    X = points(10, seed=5)
    equality = solved(MVU(X, n_neighbors=3))
    assert equality.dual is not None
    limit = 1 / np.abs(equality.dual).max()
    stiff = slack_of(X, 0.9 * limit)
    assert stiff.omega_used is not None
    solution = solved(stiff)
    assert solution.objective / (1 - stiff.omega_used) == pytest.approx(
        equality.objective, rel=3e-6
    )
    assert relative(solution.matrix, equality.matrix) <= 1e-3
    connectivity = stiff.neighborhood.algebraic_connectivity()
    soft = slack_of(X, float(np.sqrt(limit * connectivity)))
    assert soft.omega_used is not None
    assert optimum(soft) / (1 - soft.omega_used) > equality.objective * (1 + 1e-4)


def test_omega_close_to_one() -> None:
    X = points(10, seed=5)
    value = optimum(MVU(X, n_neighbors=3))
    problem = MVU(X, n_neighbors=3, form="slack", omega=0.999)
    assert optimum(problem) / (1 - 0.999) == pytest.approx(value, rel=3e-6)


def test_slack_threshold() -> None:
    X = points(10)
    connectivity = MVU(X, n_neighbors=3).neighborhood.algebraic_connectivity()
    threshold = 1 / (1 + connectivity)
    assert omega_threshold(connectivity) == pytest.approx(threshold)
    assert threshold < omega_default(connectivity) < 1
    assert MVU(X, n_neighbors=3, form="slack").omega_used == omega_default(connectivity)
    with pytest.raises(UnboundedProblemError, match=f"{threshold:.6g}".replace(".", r"\.")):
        MVU(X, n_neighbors=3, form="slack", omega=0.98 * threshold)
    problem = MVU(X, n_neighbors=3, form="slack", omega=1.02 * threshold)
    value = optimum(problem)
    # Bounded by the box alone: w = ω·1 is feasible, and dᵀw its value.
    assert value <= problem.omega_used * problem.neighborhood.squared_lengths.sum()


def test_slack_threshold_is_the_edge_of_boundedness() -> None:
    """At the threshold the value is finite; the program below it has a ray."""
    graph = cycle_graph(5)
    threshold = 1 / (1 + MVU(graph=graph).neighborhood.algebraic_connectivity())
    above = MVU(graph=graph, form="slack", omega=1.001 * threshold).program()
    solution = sdpkit.solve(above, solver="interior")
    assert solution.status is Status.OPTIMAL
    omega = 0.99 * threshold
    block = above.blocks[0]
    below = sdpkit.Program.of(
        sdpkit.Block.of(
            5, block.incidence, cost=sdpkit.Cost.of(5, identity=1 - omega), null=[1] * 5
        ),
        above.rhs,
        rows_x=above.rows_x,
        cost_x=np.full(10, -omega),
    )
    assert sdpkit.solve(below, solver="interior").status is Status.UNBOUNDED


# -- symmetries -------------------------------------------------------------------------------


seeds = st.integers(0, 2**16)


def rotation(dims: int, seed: int) -> Array:
    return np.linalg.qr(points(dims, dims, seed))[0]


def connected(X: Array, k: int) -> bool:
    return MVU(X, n_neighbors=k, form="min_trace").neighborhood.is_connected


@few
@given(seed=seeds, form=st.sampled_from(FORMS))
def test_rigid_motions_change_nothing(seed: int, form: str) -> None:
    X = points(8, 3, seed)
    assume(connected(X, 3))
    moved = X @ rotation(3, seed + 1) + 10 * points(1, 3, seed + 2)
    a, b = MVU(X, n_neighbors=3, form=form), MVU(moved, n_neighbors=3, form=form)
    assert optimum(b) == pytest.approx(optimum(a), rel=2e-6)


@few
@given(seed=seeds, form=st.sampled_from(FORMS), scale=st.floats(1e-3, 1e3))
def test_value_scales_with_the_square(seed: int, form: str, scale: float) -> None:
    X = points(8, 3, seed)
    assume(connected(X, 3))
    a, b = MVU(X, n_neighbors=3, form=form), MVU(scale * X, n_neighbors=3, form=form)
    assert optimum(b) == pytest.approx(scale**2 * optimum(a), rel=2e-6)


@few
@given(seed=seeds, form=st.sampled_from(FORMS))
def test_order_of_points_does_not_matter(seed: int, form: str) -> None:
    X = points(8, 3, seed)
    assume(connected(X, 3))
    order = np.random.default_rng(seed).permutation(8)
    a, b = MVU(X, n_neighbors=3, form=form), MVU(X[order], n_neighbors=3, form=form)
    assert optimum(b) == pytest.approx(optimum(a), rel=2e-6)


def test_symmetries_carry_the_solution_with_them() -> None:
    """Where K is unique it stays, and a permutation permutes it; so do the tensions."""
    X = swiss_roll(14, random_state=0)
    problem = MVU(X, n_neighbors=4)
    base = solved(problem)
    moved = solved(MVU(X @ rotation(8, 1) + 3.0, n_neighbors=4))
    assert relative(moved.matrix, base.matrix) <= 1e-3
    order = np.random.default_rng(0).permutation(14)
    mixed = MVU(X[order], n_neighbors=4)
    permuted = solved(mixed)
    assert relative(permuted.matrix, base.matrix[np.ix_(order, order)]) <= 1e-3
    tension = {
        tuple(sorted(edge)): w
        for edge, w in zip(problem.neighborhood.edges.tolist(), base.dual, strict=True)
    }
    expected = [tension[tuple(sorted(order[edge]))] for edge in mixed.neighborhood.edges]
    assert permuted.dual == pytest.approx(expected, abs=2e-3 * np.abs(expected).max())


# -- tensions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=FORMS)
def roll(request: pytest.FixtureRequest) -> tuple[MVU, Solution]:
    problem = MVU(swiss_roll(20, random_state=0), n_neighbors=4, form=request.param)
    return problem, solved(problem)


def dual_slack(problem: MVU, w: Array) -> Array:
    """L(w) − (1−ω)C, its negative for the minimum trace."""
    n = problem.neighborhood.n_points
    weight = 1 - problem.omega_used if problem.omega_used else 1.0
    S = problem.neighborhood.laplacian(w).toarray() - weight * (np.eye(n) - 1 / n)
    return -S if problem.form == "min_trace" else S


def test_tensions_are_dual_feasible(roll: tuple[MVU, Solution]) -> None:
    problem, solution = roll
    assert solution.dual is not None
    S = dual_slack(problem, solution.dual)
    n = S.shape[0]
    assert np.abs(S @ np.ones(n)).max() <= 1e-9 * np.linalg.norm(S)
    on_face = np.linalg.eigvalsh(S + np.linalg.norm(S) * np.ones((n, n)))
    assert on_face[0] >= -1e-6
    if problem.form == "inequality":
        assert solution.dual.min() >= 0
        assert solution.dual.max() > 0
    if problem.form == "slack":
        assert np.abs(solution.dual).max() <= problem.omega_used
    if problem.form == "equality":
        assert solution.dual.min() < 0 < solution.dual.max()  # rods push as well as pull


def test_strong_duality(roll: tuple[MVU, Solution]) -> None:
    problem, solution = roll
    d = problem.neighborhood.squared_lengths
    assert d @ solution.dual == pytest.approx(solution.objective, rel=1e-6)
    assert solution.dual_objective == pytest.approx(d @ solution.dual, rel=1e-12)


def test_forces_balance(roll: tuple[MVU, Solution]) -> None:
    """Σ_j w_ij (y_i − y_j) = y_i at every point: the rods hold what pulls the points apart."""
    problem, solution = roll
    weight = 1 - problem.omega_used if problem.omega_used else 1.0
    y = problem.recover(solution, 20).coordinates
    pull = problem.neighborhood.laplacian(solution.dual) @ y
    assert np.linalg.norm(pull - weight * y) <= 1e-3 * np.linalg.norm(weight * y)


def test_complementary_slackness(roll: tuple[MVU, Solution]) -> None:
    """dᵀw − value = Σ w(d − A(K)) + <S, K> (+ slacks), every term nonnegative and small."""
    problem, solution = roll
    w, K = solution.dual, solution.matrix
    assert w is not None
    scale = abs(solution.objective)
    assert abs(np.sum(dual_slack(problem, w) * K)) <= 2e-6 * scale
    d = problem.neighborhood.squared_lengths
    stretch = edge_lengths(K, problem.neighborhood.edges) - d
    if problem.form == "inequality":
        assert np.all(stretch <= 1e-9 * d.max())
        assert np.all(np.abs(w * stretch) <= 2e-6 * scale)
        assert (stretch < -1e-3 * d).any()  # some rod is slack, and carries nothing
        assert w[stretch < -1e-3 * d].max() <= 1e-3 * w.max()
    elif problem.form == "slack":
        # A rod that gives is at the end of its box: |w| = ω, with the sign of its stretch.
        assert np.all(problem.omega_used * np.abs(stretch) - w * stretch >= -1e-12 * scale)
        assert np.sum(problem.omega_used * np.abs(stretch) - w * stretch) <= 2e-6 * scale
        assert np.abs(stretch).max() > 1e-3 * d.max()
    else:
        assert np.abs(stretch).max() <= 1e-6 * d.max()


# -- several components -----------------------------------------------------------------------


@pytest.mark.parametrize("form", ["equality", "inequality", "slack"])
def test_disconnected_is_refused_with_names(form: str) -> None:
    with pytest.raises(GraphError, match=r"2 components \(sizes 6, 5\)") as caught:
        MVU(clusters(), n_neighbors=3, form=form)
    for remedy in ("n_neighbors", "connect='auto'", "connect='components'"):
        assert remedy in str(caught.value)


def test_components_are_solved_apart() -> None:
    X = clusters()
    problem = MVU(X, n_neighbors=3, connect="components")
    solution = solved(problem)
    apart = [MVU(X[:6], n_neighbors=3), MVU(X[6:], n_neighbors=3)]
    alone = [solved(part) for part in apart]
    assert solution.objective == pytest.approx(sum(s.objective for s in alone), rel=2e-6)
    for K, separate in zip(solution.matrices, alone, strict=True):
        assert relative(K, separate.matrix) <= 1e-3
    embedding = problem.recover(solution, 11)
    K = embedding.coordinates @ embedding.coordinates.T
    assert np.abs(K[:6, 6:]).max() <= 1e-9 * np.abs(K).max()
    assert relative(K[:6, :6], solution.matrices[0]) <= 1e-9
    assert embedding.components.tolist() == [0] * 6 + [1] * 5
    assert np.abs(embedding.coordinates[:6].sum(axis=0)).max() <= 1e-6


@pytest.mark.parametrize("form", ["inequality", "slack"])
def test_components_in_the_other_forms(form: str) -> None:
    X = clusters()
    omega = 0.95 if form == "slack" else None
    together = MVU(X, n_neighbors=3, form=form, connect="components", omega=omega)
    apart = [MVU(part, n_neighbors=3, form=form, omega=omega) for part in (X[:6], X[6:])]
    assert optimum(together) == pytest.approx(sum(optimum(part) for part in apart), rel=2e-6)


def test_isolated_points_stay_at_the_origin() -> None:
    graph = sp.block_diag([path_graph(3), sp.csr_array((1, 1)), path_graph(2)]).tocsr()
    problem = MVU(graph=graph, connect="components")
    solution = solved(problem)
    assert solution.objective == pytest.approx(2.0 + 0.5, rel=1e-6)
    embedding = problem.recover(solution, 6)
    assert np.abs(embedding.coordinates[3]).max() == 0
    assert embedding.edges.tolist() == [[0, 1], [1, 2], [4, 5]]


def test_components_of_a_connected_graph_are_one() -> None:
    X = points(9)
    a, b = MVU(X, n_neighbors=3), MVU(X, n_neighbors=3, connect="components")
    assert a.program().fingerprint == b.program().fingerprint


def test_bridges_are_seeded() -> None:
    """Three parallel strings: where they are linked is a matter of chance."""
    along, across = np.meshgrid(np.arange(6.0), [0.0, 3.0, 6.5])
    X = np.column_stack([along.ravel(), across.ravel()]) + 0.1 * points(18, 2)

    def edges(seed: int) -> list[list[int]]:
        problem = MVU(X, n_neighbors=2, connect="bridge", random_state=seed)
        return problem.neighborhood.edges.tolist()

    plain = MVU(X, n_neighbors=2, form="min_trace").neighborhood
    assert plain.component_sizes.tolist() == [6, 6, 6]
    assert edges(0) == edges(0)
    assert len(edges(0)) == plain.n_edges + 2
    assert {tuple(e) for e in plain.edges.tolist()} < {tuple(e) for e in edges(0)}
    assert len({str(edges(seed)) for seed in range(8)}) > 1
    problem = MVU(X, n_neighbors=2, connect="bridge")
    solution = solved(problem)
    apart = optimum(MVU(X, n_neighbors=2, connect="components"))
    assert solution.objective > apart  # distances between the clusters count now
    d = problem.neighborhood.squared_lengths
    lengths = edge_lengths(solution.matrix, problem.neighborhood.edges)
    assert lengths == pytest.approx(d, abs=1e-6 * d.max())


def test_minimum_trace_of_a_disconnected_graph() -> None:
    """Nothing ties the parts, so each shrinks on its own and their centres meet."""
    X = clusters()
    problem = MVU(X, n_neighbors=3, form="min_trace")
    assert not problem.neighborhood.is_connected
    solution = solved(problem)
    apart = [MVU(part, n_neighbors=3, form="min_trace") for part in (X[:6], X[6:])]
    assert solution.objective == pytest.approx(sum(optimum(part) for part in apart), rel=2e-6)
    y = problem.recover(solution, 11).coordinates
    assert np.linalg.norm(y[:6].mean(axis=0) - y[6:].mean(axis=0)) <= 1e-2 * np.linalg.norm(y)


def test_minimum_trace_without_any_edge() -> None:
    """Nothing holds the points: K = 0."""
    for solver in ("interior", "clarabel"):
        solution = solved(MVU(graph=np.zeros((3, 3)), form="min_trace"), solver)
        assert abs(solution.objective) <= 1e-6


@pytest.mark.parametrize("form", ["equality", "inequality", "slack"])
def test_components_without_any_edge(form: str) -> None:
    """Points that nothing ties together: an error of ours, or all of them at the origin."""
    try:
        problem = MVU(graph=np.zeros((3, 3)), form=form, connect="components")
        embedding = problem.recover(solved(problem), 1)
    except sdpkit.SdpkitError as error:
        assert "edge" in str(error) or "component" in str(error)  # noqa: PT017
    else:
        assert np.abs(embedding.coordinates).max() == 0


# -- flat cliques -----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["clarabel", "csdp", "cvxopt", "scs"])
@pytest.mark.parametrize(
    ("X", "k"), [(points(14, 2), 4), (points(16, 3), 6), (swiss_roll(30, 0, 0.0), 4)]
)
def test_rigid_points_come_back(X: Array, k: int, solver: str) -> None:
    """Noise-free points whose cliques overlap are rigid: MVU returns them, up to a rotation."""
    problem = MVU(X, n_neighbors=k, angles=True)
    assert problem.facial_reduction_used
    solution = solved(problem, solver)
    assert relative(solution.matrix, gram(X)) <= 1e-6
    y = problem.recover(solution, X.shape[1]).coordinates
    u, _, vt = np.linalg.svd((X - X.mean(axis=0)).T @ y)
    assert np.abs((X - X.mean(axis=0)) @ u @ vt - y).max() <= 1e-5 * np.abs(y).max()
    # What is left of n directions: those that the points span, and hardly more.
    left = X.shape[0] - problem.parts[0].null.shape[1]
    assert X.shape[1] <= left <= X.shape[1] + 1


@pytest.mark.parametrize("solver", ["clarabel", "csdp"])
def test_facial_reduction_loses_nothing(solver: str) -> None:
    """Switched off, the same value is bracketed, and no bound falls below it."""
    X = points(14, 2)
    reduced = solved(MVU(X, n_neighbors=4, angles=True), solver)
    problem = MVU(X, n_neighbors=4, angles=True, facial_reduction="off")
    assert not problem.facial_reduction_used
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain = sdpkit.solve(problem, solver=solver)
    truth = float(np.trace(gram(X)))
    assert plain.certificate.safe_bound >= truth * (1 - 1e-9)
    assert plain.objective == pytest.approx(truth, rel=1e-5)
    assert relative(reduced.matrix, gram(X)) <= relative(plain.matrix, gram(X))


def test_partly_flat_points_keep_their_freedom() -> None:
    """Two flat quadrilaterals with a common edge: a hinge, which opens until it is flat."""
    square = [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    X = np.array([*square, [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]])  # the second square stands upright
    first, second = [0, 1, 2, 3], [0, 1, 4, 5]
    edges = {*itertools.combinations(first, 2), *itertools.combinations(second, 2)}
    problem = MVU(X, edges=sorted(edges))
    assert problem.facial_reduction_used
    solution = solved(problem)
    opened = X.copy()
    opened[4:] = [[-1.0, 0.0, 0.0], [-1.0, 1.0, 0.0]]
    assert solution.objective == pytest.approx(np.trace(gram(opened)), rel=1e-6)
    assert relative(solution.matrix, gram(opened)) <= 1e-3
    assert np.trace(gram(opened)) > 1.1 * np.trace(gram(X))
    closed = optimum(MVU(X, edges=sorted(edges), form="min_trace"))
    folded = X.copy()
    folded[4:] = X[2:4]
    assert closed == pytest.approx(np.trace(gram(folded)), rel=1e-6)


@pytest.mark.slow
def test_stresses_expose_what_cliques_do_not() -> None:
    """Without noise, cliques leave directions that no K has; a second program is without them."""
    X = swiss_roll(80, noise=0.0, random_state=0)
    problem = MVU(X, n_neighbors=6)
    with pytest.warns(ConvergenceWarning):
        first = sdpkit.solve(problem.program(), "interior")
    assert first.status == "inaccurate"
    solution = last = solved(problem, "interior")
    assert any("stresses fix" in note for note in solution.notes)
    assert last.program.blocks[0].null.shape[1] > first.program.blocks[0].null.shape[1]
    # The points themselves lie on the face, and their variance is no more than the optimum.
    centred = X - X.mean(axis=0)
    assert np.abs(last.program.blocks[0].null.T @ centred).max() <= 1e-10 * np.abs(centred).max()
    assert np.trace(gram(X)) < solution.objective <= first.certificate.safe_bound


@pytest.mark.parametrize("noise", [1e-3, 1e-5])
def test_noise_leaves_no_stress(noise: float) -> None:
    """Lengths of noisy points force nothing: whatever direction is exposed would be wrong."""
    X = np.hstack([points(40, 3), noise * points(40, 12)])
    edges = MVU(X, n_neighbors=5).parts[0].graph.edges
    assert exposed_directions(X, edges, np.ones((40, 1))).shape[1] == 0


def noise_free(shape: str, seed: int) -> Array:
    """400 points of a cube, of a wavy surface, or of the roll."""
    r = np.random.default_rng(seed)
    if shape == "cube":
        return r.random((400, 3))
    if shape == "surface":
        u = 4 * r.random((400, 2))
        return np.column_stack([u, np.sin(u[:, 0]) * np.cos(1.3 * u[:, 1])])
    return sdpkit.datasets.swiss_roll(400, noise_dims=0, random_state=seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "k"),
    [("cube", 6), ("cube", 8), ("surface", 6), ("roll", 5), ("roll", 6), ("roll", 8)],
)
def test_noise_free_points_in_space_are_certified(shape: str, k: int) -> None:
    X = noise_free(shape, 0)
    solution = solved(MVU(X, n_neighbors=k, connect="bridge"), "interior")
    assert solution.objective >= np.trace(gram(X)) * (1 - 1e-6)


def test_noise_needs_no_reduction() -> None:
    assert not MVU(points(14, 8), n_neighbors=4, angles=True).facial_reduction_used
    assert not MVU(points(14, 2), n_neighbors=4, angles=True, form="slack").facial_reduction_used


# -- coincident points ------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(1, 2), (3, 2), (4, 1)])
def test_two_piles(first: int, second: int) -> None:
    """Piles of m₁ and m₂ points at distance ℓ: tr K = ℓ² m₁m₂/(m₁ + m₂)."""
    X = np.array([[0.0]] * first + [[3.0]] * second)
    n = first + second
    for form in ("equality", "inequality", "min_trace"):
        problem = MVU(X, n_neighbors=n - 1, form=form)
        assert [part.multiplicities.tolist() for part in problem.parts] == [[first, second]]
        solution = solved(problem)
        assert solution.objective == pytest.approx(9 * first * second / n, rel=1e-6)
        y = problem.recover(solution, 1).coordinates.ravel()
        assert abs(y.sum()) <= 1e-6
        assert max(np.ptp(y[:first]), np.ptp(y[first:])) <= 1e-12
        assert abs(y[0] - y[-1]) == pytest.approx(3.0, rel=1e-5)


def test_a_string_with_knots() -> None:
    """Zero-length edges on a string: the positions repeat, and count as often."""
    lengths = [1.0, 0.0, 2.0, 0.0, 0.0, 1.5]
    edges = [(i, i + 1) for i in range(6)]
    i, j = np.array([*edges, *[e[::-1] for e in edges]]).T
    graph = sp.csr_array((np.array(lengths * 2), (i, j)), shape=(7, 7))  # keeps its zeros
    position = np.concatenate([[0.0], np.cumsum(lengths)])
    problem = MVU(graph=graph)
    assert problem.parts[0].multiplicities.tolist() == [1, 2, 3, 1]
    solution = solved(problem)
    assert solution.objective == pytest.approx(((position - position.mean()) ** 2).sum(), rel=1e-6)
    y = problem.recover(solution, 1).coordinates.ravel()
    assert y * np.sign(y[-1] - y[0]) == pytest.approx(position - position.mean(), abs=1e-3)


def near_duplicates(gap: float) -> Array:
    X = points(8)
    return np.vstack([X, X[:2] + gap])


@pytest.mark.parametrize("angles", [False, True])
@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-5, 1e-6, 1e-7, 1e-9])
def test_points_satisfy_their_own_program(gap: float, angles: bool) -> None:
    """Whatever is merged or reduced: the data themselves are feasible.

    Nearly coincident points and nearly flat ones are neither coincident nor flat.
    """
    plane = np.c_[points(12, 2), gap * points(12, 3, seed=1)]
    for X in (near_duplicates(gap), plane):
        problem = MVU(X, n_neighbors=4, angles=angles)
        certificate = sdpkit.certify(problem.program(), gram(X))
        assert certificate.primal_residual <= 1e-7


@pytest.mark.parametrize("solver", ["csdp", "clarabel"])
@pytest.mark.parametrize("gap", [1e-5, 1e-6])
def test_points_are_never_infeasible(gap: float, solver: str) -> None:
    """Points exist, so their distances do: whether or not the solver gets all digits."""
    X = near_duplicates(gap)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = sdpkit.solve(MVU(X, n_neighbors=4), solver=solver)
    assert solution.status is not Status.INFEASIBLE
    # A gap of 1e-5 moves the value in its fifth digit; the rest is the solver's own trouble.
    edges = MVU(X, n_neighbors=4).neighborhood.edges
    merged = MVU(np.vstack([points(8), points(8)[:2]]), edges=edges)
    assert solution.objective == pytest.approx(optimum(merged), rel=1e-3)


# -- the way back -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"X": points(9), "n_neighbors": 3},
        {"X": points(9)[[*range(9), 0, 3, 3]], "n_neighbors": 4},
        {"X": clusters(), "n_neighbors": 3, "connect": "components"},
        {"X": clusters()[[*range(11), 0, 10]], "n_neighbors": 4, "connect": "components"},
    ],
    ids=["points", "duplicates", "components", "duplicates in components"],
)
def test_recover(options: dict[str, Any]) -> None:
    problem = MVU(**options)
    solution = solved(problem)
    X = np.asarray(options["X"])
    n = len(X)
    embedding = problem.recover(solution, n)
    y = embedding.coordinates
    assert y.shape == (n, n)
    K = y @ y.T
    assert np.trace(K) == pytest.approx(solution.objective, rel=1e-9)
    assert embedding.eigenvalues.sum() == pytest.approx(solution.objective, rel=1e-9)
    assert np.all(np.diff(embedding.eigenvalues) <= 0)
    assert embedding.eigenvalues.min() >= 0
    assert embedding.fidelity == pytest.approx(1.0)
    # Every edge of the input keeps its length, also the merged ones, and the rods say the same.
    i, j = problem.neighborhood.edges.T
    wanted = ((X[i] - X[j]) ** 2).sum(axis=1)
    lengths = edge_lengths(K, problem.neighborhood.edges)
    assert lengths == pytest.approx(wanted, abs=1e-6 * wanted.max())
    assert embedding.tensions is not None
    assert embedding.edges.shape == (len(embedding.tensions), 2)
    i, j = embedding.edges.T
    assert solution.program.rhs == pytest.approx(((X[i] - X[j]) ** 2).sum(axis=1))
    assert solution.program.rhs @ embedding.tensions == pytest.approx(solution.objective, rel=1e-6)
    if len(problem.parts) == 1 and problem.group.max() + 1 == n:
        assert relative(K, solution.matrix) <= 1e-10


def test_fidelity_grows_with_the_dimension() -> None:
    problem = MVU(swiss_roll(20, random_state=0), n_neighbors=4)
    solution = solved(problem)
    embeddings = [problem.recover(solution, d) for d in range(1, 21)]
    fidelities = [e.fidelity for e in embeddings]
    assert all(0 <= f <= 1 for f in fidelities)
    assert fidelities == sorted(fidelities)
    assert fidelities[-1] == pytest.approx(1.0)
    values = embeddings[0].eigenvalues
    assert fidelities[1] == pytest.approx(values[:2].sum() / values.sum())
    assert np.allclose(embeddings[1].coordinates, embeddings[-1].coordinates[:, :2])


def test_recover_refuses_what_is_not_its_own() -> None:
    small, large = MVU(points(6), n_neighbors=3), MVU(points(9), n_neighbors=3)
    with pytest.raises(InputError, match=r"\(6, 6\).*\[9\]"):
        large.recover(solved(small))
    for wrong in (0, 7, 2.0, True, -1):
        with pytest.raises(InputError, match="between 1 and 6"):
            small.recover(solved(small), wrong)
    empty = SimpleNamespace(
        matrices=(np.full((6, 6), np.nan),),
        status="infeasible",
        message="a ray",
        dual=None,
        program=small.program(),
    )
    with pytest.raises(InputError, match=r"no matrix \(status infeasible\): a ray"):
        small.recover(empty)


def test_problem_is_frozen() -> None:
    problem = MVU(points(6), n_neighbors=3)
    with pytest.raises(AttributeError):
        problem.form = "slack"
    with pytest.raises(ValueError, match="read-only"):
        problem.neighborhood.squared_lengths[0] = 7.0


def test_later_changes_of_the_data_do_not_reach_the_problem() -> None:
    X = points(8)
    problem = MVU(X, n_neighbors=3)
    before = problem.program().fingerprint
    X *= 2
    assert problem.program().fingerprint == before


# -- pictures ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def picture() -> tuple[Array, Any]:
    X = swiss_roll(16, random_state=0)
    problem = MVU(X, n_neighbors=4)
    return X, problem.recover(solved(problem), 2)


def test_plot_shows_points_and_rods(picture: tuple[Array, Any]) -> None:
    import matplotlib.pyplot as plt

    _, embedding = picture
    _, ax = plt.subplots()
    assert embedding.plot(ax) is ax
    rods, dots = ax.collections
    assert len(rods.get_segments()) == len(embedding.edges)
    assert np.allclose(dots.get_offsets(), embedding.coordinates)
    assert np.allclose(rods.get_array(), embedding.tensions)
    i, j = embedding.edges[3]
    assert np.allclose(rods.get_segments()[3], embedding.coordinates[[i, j]])
    plain = embedding.plot(tension=False)
    assert plain.collections[0].get_array() is None
    assert len(plain.figure.axes) == 1  # no colour bar
    plt.close("all")


def test_plot_spectrum(picture: tuple[Array, Any]) -> None:
    import matplotlib.pyplot as plt

    _, embedding = picture
    ax = embedding.plot_spectrum()
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == pytest.approx((embedding.eigenvalues / embedding.eigenvalues.sum())[:10])
    plt.close("all")


def test_plot_in_one_dimension() -> None:
    import matplotlib.pyplot as plt

    problem = MVU(graph=path_graph(5))
    embedding = problem.recover(solved(problem))
    assert embedding.n_components == 1
    offsets = embedding.plot().collections[1].get_offsets()
    assert np.allclose(offsets, np.c_[embedding.coordinates, np.zeros(5)])
    plt.close("all")


@pytest.mark.parametrize("dims", [1, 2, 8])
def test_plot_unfolding_writes_a_picture(
    picture: tuple[Array, Any], tmp_path: Path, dims: int
) -> None:
    X, embedding = picture
    path = tmp_path / "unfolding.png"
    sdpkit.plotting.plot_unfolding(X[:, :dims], embedding, path, title="Swiss roll")
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 10_000


@pytest.mark.parametrize("what", ["plot", "plot_spectrum", "unfolding"])
def test_without_matplotlib_an_error_says_what_to_install(
    picture: tuple[Array, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    X, embedding = picture
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    unfolding = functools.partial(
        sdpkit.plotting.plot_unfolding, X, embedding, tmp_path / "unfolding.png"
    )
    draw = unfolding if what == "unfolding" else getattr(embedding, what)
    with pytest.raises(sdpkit.SdpkitError, match=r"pip install 'sdpkit\[plot\]'"):
        draw()
