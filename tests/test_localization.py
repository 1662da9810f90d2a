"""Sensor networks, free and anchored: the program, the search, and what distances cannot say."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit import (
    Block,
    ConvergenceWarning,
    GraphError,
    InputError,
    Localization,
    Program,
    Status,
)
from sdpkit.graphs.build import neighborhood_graph
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.results.quality import aligned, position_errors
from sdpkit.solving.registry import get_solver, known_solvers
from sdpkit.solving.solve import solve
from sdpkit.typing import Array

USABLE = [get_solver(name) for name in known_solvers() if get_solver(name).unavailable() is None]
# Engines for comparisons and for graphs take nothing else.
GENERAL = [s for s in USABLE if s.accepts(Program.of(Block.of(1, [[1.0]]), [1.0])) is None]
SOLVERS = [s.name for s in GENERAL if not s.capabilities.teaching]
some = settings(max_examples=12, deadline=None, derandomize=True)
ANCHORS = np.array([[0.1, 0.1], [0.9, 0.1], [0.5, 0.9], [0.2, 0.8]])
TIED = {"anchors": ANCHORS, "anchor_lengths": np.ones((80, 4))}


@functools.cache
def network(
    n: int = 80, noise: float = 0.0, seed: int = 0
) -> tuple[Array, NeighborhoodGraph, Array]:
    """True positions, noisy lengths within 0.35, and lengths to anchors within 0.4."""
    rng = np.random.default_rng(seed)
    true = rng.random((n, 2))
    graph = neighborhood_graph(true, radius=0.35)
    wrong = 1 + noise * rng.uniform(-1, 1, graph.n_edges)
    measured = NeighborhoodGraph(n, graph.edges, graph.squared_lengths * wrong**2)
    to_anchors = np.linalg.norm(true[:, None] - ANCHORS[None], axis=2)
    to_anchors *= 1 + noise * rng.uniform(-1, 1, to_anchors.shape)
    to_anchors[to_anchors > 0.4] = 0.0
    return true, measured, to_anchors


def anchored(noise: float = 0.0, n: int = 80, **more: object) -> Localization:
    _, graph, lengths = network(n, noise)
    return Localization(graph, anchors=ANCHORS, anchor_lengths=lengths, **more)  # type: ignore[arg-type]


# -- programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", ["squared", "norm"])
@pytest.mark.parametrize("with_anchors", [False, True])
def test_program_and_model_agree(penalty: str, with_anchors: bool) -> None:
    problem = (
        anchored(0.1, n_basis=4, penalty=penalty)
        if with_anchors
        else Localization(network(80, 0.1)[1], n_basis=4, penalty=penalty)  # type: ignore[arg-type]
    )
    solution = solve(problem, solver="clarabel", tol=1e-6)
    assert solution.status is Status.OPTIMAL
    model = problem.to_cvxpy()
    model.solve(solver="CLARABEL")
    assert solution.objective == pytest.approx(model.value, rel=1e-5)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_that_takes_it_is_certified(name: str) -> None:
    problem = anchored(0.1, n_basis=3)
    if not get_solver(name).capabilities.quadratic:
        with pytest.raises(sdpkit.SolverError, match="cannot take"):
            solve(problem, solver=name)
        return
    solution = solve(problem, solver=name)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(
        solve(problem, solver="clarabel").objective, rel=1e-5
    )


def test_anchors_without_reduction_are_biswas_and_yes() -> None:
    """Exact lengths, every sensor tied to more than r anchors: the program is the trilateration."""
    true, graph, _ = network(20)
    lengths = np.linalg.norm(true[:, None] - ANCHORS[None], axis=2)
    problem = Localization(graph, anchors=ANCHORS, anchor_lengths=lengths, n_basis=None)
    assert problem.program().blocks[0].size == 22
    positions = problem.recover(solve(problem))
    assert position_errors(positions, true, align=False).max() < 1e-4


def test_contradicting_exact_lengths_are_infeasible() -> None:
    """The infeasible twin: residuals held at zero where no positions fit."""
    lengths = sp.csr_array(np.array([[0, 1, 1], [1, 0, 3], [1, 3, 0]], dtype=float))
    problem = Localization(lengths, n_basis=None)
    program = problem.program()
    rigid = sdpkit.Program.of(program.blocks, program.rhs, rows_q=program.rows_q)
    assert solve(rigid).status is Status.INFEASIBLE
    assert solve(problem).status is Status.OPTIMAL


# -- positions -----------------------------------------------------------------------------------


@some
@given(st.integers(0, 10**6), st.floats(0.01, 1000))
def test_rigid_motions_and_scale(seed: int, scale: float) -> None:
    """Lengths know nothing of the frame; anchors carry it along."""
    rng = np.random.default_rng(seed)
    true, graph, lengths = network()
    turn, shift = np.linalg.qr(rng.standard_normal((2, 2)))[0], scale * rng.standard_normal(2)
    moved = NeighborhoodGraph(80, graph.edges, scale**2 * graph.squared_lengths)
    problem = Localization(
        moved,
        anchors=scale * ANCHORS @ turn + shift,
        anchor_lengths=scale * lengths,
        n_basis=6,
    )
    positions = problem.refine(solve(problem))
    wanted = scale * true @ turn + shift
    assert position_errors(positions, wanted, align=False).max() < 1e-5 * scale
    assert solve(problem).objective == pytest.approx(solve(anchored(n_basis=6)).objective, rel=1e-4)


@pytest.mark.parametrize("penalty", ["squared", "norm"])
def test_exact_lengths_give_exact_positions(penalty: str) -> None:
    true, graph, _ = network()
    free = Localization(graph, n_basis=8, penalty=penalty)  # type: ignore[arg-type]
    assert position_errors(free.refine(solve(free)), true).max() < 1e-5
    tied = anchored(n_basis=8, penalty=penalty)
    assert position_errors(tied.refine(solve(tied)), true, align=False).max() < 1e-5


@pytest.mark.parametrize("omega", [None, 1.0])
def test_noise_leaves_small_errors(omega: float | None) -> None:
    true, graph, _ = network(150, 0.1)
    free = Localization(graph, omega=omega)
    solution = solve(free)
    coarse = position_errors(free.recover(solution), true).mean()
    fine = position_errors(free.refine(solution), true).mean()
    assert fine < min(0.02, 0.5 * coarse)
    tied = anchored(0.1, n=150)
    fine = position_errors(tied.refine(solve(tied)), true, align=False).mean()
    assert fine < 0.02


def test_anchors_join_what_lengths_leave_apart() -> None:
    """Two groups of sensors that only anchors connect."""
    rng = np.random.default_rng(3)
    left, right = 0.25 * rng.random((12, 2)), 0.25 * rng.random((12, 2)) + [0.75, 0.0]
    true = np.vstack([left, right])
    graph = neighborhood_graph(true, radius=0.3)
    assert not graph.is_connected
    anchors = np.array([[0.0, 0.3], [0.3, 0.0], [0.3, 0.3], [0.7, 0.0], [1.0, 0.3], [0.7, 0.3]])
    lengths = np.linalg.norm(true[:, None] - anchors[None], axis=2)
    lengths[lengths > 0.4] = 0.0
    problem = Localization(graph, anchors=anchors, anchor_lengths=lengths, n_basis=6)
    assert position_errors(problem.refine(solve(problem)), true, align=False).max() < 1e-4
    with pytest.raises(GraphError, match="component"):
        Localization(graph)
    lengths[:12] = 0.0
    with pytest.raises(GraphError, match="12 of 24 sensors are tied to no anchor"):
        Localization(graph, anchors=anchors, anchor_lengths=lengths)


def test_two_measurements_of_a_pair_are_averaged() -> None:
    lengths = np.array([[9.0, 1.0, 2.0], [3.0, 0.0, 0.0], [0.0, 2.5, 0.0]])
    for given_as in (lengths, sp.csr_array(lengths)):
        network = Localization(given_as, n_basis=None).network
        assert network.edges.tolist() == [[0, 1], [0, 2], [1, 2]]
        assert np.allclose(network.squared_lengths, [4.0, 4.0, 6.25])


def test_three_dimensions() -> None:
    true = np.random.default_rng(0).random((120, 3))
    problem = Localization(neighborhood_graph(true, radius=0.55), n_components=3, n_basis=12)
    assert position_errors(problem.refine(solve(problem)), true).max() < 1e-4


@pytest.mark.slow
def test_twenty_thousand_points() -> None:
    true = np.random.default_rng(0).random((20_000, 2))
    problem = Localization(neighborhood_graph(true, n_neighbors=20))
    assert position_errors(problem.refine(solve(problem)), true).max() < 1e-2


# -- alignment and pictures ------------------------------------------------------------------------


@some
@given(st.integers(0, 10**6))
def test_alignment_is_the_best_rigid_motion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((10, 2)), rng.standard_normal((10, 2))
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    assert np.allclose(aligned(X @ turn + 3, X), X)
    best = np.linalg.norm(aligned(Y, X) - X)
    other = (Y - Y.mean(axis=0)) @ turn + X.mean(axis=0)
    assert best <= np.linalg.norm(other - X) + 1e-12
    lengths = np.linalg.norm(Y[:, None] - Y[None], axis=2)
    moved = aligned(Y, X)
    assert np.allclose(np.linalg.norm(moved[:, None] - moved[None], axis=2), lengths)


def test_positions_are_plotted() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    true = network()[0]
    ax = sdpkit.plotting.plot_positions(true, true + 0.01)
    assert "0.0141" in ax.get_title()
    with pytest.raises(sdpkit.SdpkitError, match="twice"):
        sdpkit.plotting.plot_positions(true, true[:3])


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"anchors": ANCHORS}, "anchor_lengths"),
        ({"anchor_lengths": np.ones((80, 4))}, "without anchors"),
        ({"anchors": ANCHORS, "anchor_lengths": np.ones((3, 4))}, "expected"),
        ({"anchors": ANCHORS, "anchor_lengths": -np.ones((80, 4))}, "lengths"),
        ({"anchors": ANCHORS[0], "anchor_lengths": np.ones((80, 4))}, "anchors have shape"),
        (
            {"anchors": ANCHORS, "anchor_lengths": np.ones((80, 4)), "n_components": 3},
            "coordinates",
        ),
        ({"anchors": ANCHORS, "anchor_lengths": np.ones((80, 4)), "omega": 0.5}, "omega"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 2.5}, "n_components"),
        ({"n_basis": 0}, "n_basis"),
        ({"omega": 2.0}, "omega"),
        ({"penalty": "cubic"}, "penalty"),
    ],
)
def test_bad_input(more: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Localization(network()[1], **more)  # type: ignore[arg-type]


def test_more_refusals() -> None:
    with pytest.raises(InputError, match="at least three"):
        Localization([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(InputError, match="square"):
        Localization(np.ones((3, 4)))
    with pytest.raises(InputError, match="≥ 0"):
        Localization(-np.ones((3, 3)))
    with pytest.raises(InputError, match="finite"):
        Localization(np.full((3, 3), np.nan))
    with pytest.raises(InputError, match="numbers"):
        Localization([["a", "b"], ["c", "d"]])
    with pytest.raises(InputError, match="same points"):
        position_errors([[0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]])
    other = solve(Localization(network()[1], n_basis=3))
    with pytest.raises(InputError, match="size 5"):
        Localization(network()[1], n_basis=5).recover(other)
    with pytest.raises(InputError, match="size"):
        anchored(n_basis=5).recover(other)


def test_a_solver_that_stops_early_holds_a_start_all_the_same() -> None:
    """The local search needs a start, not an optimum."""
    true, graph, _ = network()
    problem = Localization(graph, n_basis=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        rough = solve(problem, max_iter=8)
    assert position_errors(problem.refine(rough), true).max() < 1e-3


def test_an_optimum_of_zero_is_an_optimum() -> None:
    """Exact lengths leave no residual: the engine has to know what zero is, or never ends."""
    solution = solve(anchored(n=40, n_basis=None), solver="interior")
    assert solution.status is Status.OPTIMAL
    assert abs(solution.objective) < 1e-6
    assert solution.iterations is not None
    assert solution.iterations < 40
