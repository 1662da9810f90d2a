"""Both ends of an enclosure, judged in the ball arithmetic of another library."""

from __future__ import annotations

import warnings
from typing import Any

import flint
import numpy as np
import pytest
import scipy.sparse as sp

import sdpkit
from sdpkit import Block, Cost, Program, certify
from sdpkit.certificate.definite import certainly_definite
from sdpkit.certificate.log_det import log_det_bounds
from sdpkit.certificate.rigor import Verification

flint.ctx.prec = 200


def encloses(found: Verification, value: Any) -> bool:
    """lower ≤ value ≤ upper, for a value that is a ball."""
    return bool(flint.arb(found.lower) <= value <= flint.arb(found.upper))


def ball(values: Any) -> Any:
    """A matrix of floats, exactly."""
    return flint.arb_mat([[flint.arb(float(a)) for a in row] for row in values])


# -- known optima -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [4, 5, 8, 13])
def test_a_cycle_unfolds_to_a_regular_polygon(n: int) -> None:
    """tr K = n/(4 sin²(π/n))."""
    solution = sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(n)))
    found = solution.certificate.verify()
    truth = n / (4 * (flint.arb.pi() / n).sin() ** 2)
    assert encloses(found, truth)
    assert found.width <= 1e-6


@pytest.mark.parametrize("form", ["equality", "inequality"])
def test_a_string_unfolds_to_a_line(form: Any) -> None:
    lengths = np.array([0.3, 1.0, 0.001, 2.0, 0.7])
    graph = sp.diags_array(lengths, offsets=1, shape=(6, 6)).tocsr()
    solution = sdpkit.solve(sdpkit.MVU(graph=graph + graph.T, form=form))
    # The program's data are the squares as they were rounded.
    steps = [flint.arb(float(d)).sqrt() for d in solution.program.rhs]
    places = [sum(steps[:k], flint.arb(0)) for k in range(6)]
    mean = sum(places) / 6
    found = solution.certificate.verify()
    assert encloses(found, sum(((p - mean) ** 2 for p in places), flint.arb(0)))
    assert found.width <= 1e-5


@pytest.mark.parametrize("d", [2, 3, 5])
def test_the_ellipsoid_of_the_corners_of_a_cube(d: int) -> None:
    """min t − log det M over zᵀMz ≤ t for all z ∈ {−1, 1}^d is d, at M = I and t = d."""
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * d)).reshape(d, -1).T
    program = Program.of(
        Block.of(d, np.eye(len(corners)), features=corners, log_det=1.0),
        np.zeros(len(corners)),
        rows_x=-np.ones((len(corners), 1)),
        relations="<=",
        cost_x=[1.0],
        sense="min",
    )
    found = sdpkit.solve(program).certificate.verify()
    assert encloses(found, flint.arb(d))
    assert found.width <= 1e-6


# -- the papers' problems ---------------------------------------------------------------------


@pytest.mark.parametrize("form", ["equality", "inequality", "slack", "min_trace"])
@pytest.mark.parametrize("n", [100, pytest.param(400, marks=pytest.mark.slow)])
def test_unfoldings_of_the_roll(n: int, form: Any) -> None:
    solution = sdpkit.solve(sdpkit.MVU(sdpkit.datasets.swiss_roll(n), n_neighbors=4, form=form))
    found = solution.certificate.verify()
    assert found.width <= 1e-5
    slack = 1e-5 * abs(solution.objective)
    assert found.lower - slack <= solution.objective <= found.upper + slack


@pytest.mark.slow
@pytest.mark.parametrize("form", ["equality", "inequality", "slack", "min_trace"])
def test_unfoldings_of_a_thousand_points(form: Any) -> None:
    solution = sdpkit.solve(sdpkit.MVU(sdpkit.datasets.swiss_roll(1000), n_neighbors=4, form=form))
    assert solution.certificate.verify().width <= 1e-5


@pytest.mark.slow
def test_above_dense_size_there_is_a_reason() -> None:
    solution = sdpkit.solve(
        sdpkit.MVU(sdpkit.datasets.swiss_roll(1600), n_neighbors=4), tol=1e-2, solver="barrier"
    )
    found = solution.certificate.verify()
    assert found.bound is not None
    assert found.attained is None
    assert "too large" in found.attained_reason


def test_a_metric_is_enclosed() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 4)) + y[:, None]
    solution = sdpkit.solve(sdpkit.LMNN(X, y))
    found = solution.certificate.verify()
    assert found.lower <= solution.objective <= found.upper * (1 + 1e-12)
    assert found.width <= 1.1e-3  # its own tolerance is 1e-3
    assert found.upper <= solution.objective * (1 + 1e-7)


def test_the_value_of_a_metric_is_not_below_the_exact_one() -> None:
    """Triplets in ball arithmetic, at the matrix whose factor was taken."""
    rng = np.random.default_rng(1)
    y = np.arange(12) % 2
    X = rng.standard_normal((12, 3)) * 1e3
    problem = sdpkit.LMNN(X, y)
    program = problem.program()
    M = 1e-6 * np.eye(3)
    found = certify(program, M).verify()
    assert program.family is not None
    features = program.blocks[0].features
    assert features is not None
    terms = program.family.terms(program.family.everything())
    exact = sum(
        (flint.arb(float(c)) * flint.arb(1e-6) for c in np.diag(program.blocks[0].cost.dense())),
        flint.arb(0),
    )

    def length(i: int, j: int) -> Any:
        parts = zip(features[i], features[j], strict=True)
        return flint.arb(1e-6) * sum(
            ((flint.arb(float(a)) - flint.arb(float(b))) ** 2 for a, b in parts), flint.arb(0)
        )

    for pull, push in zip(terms.pull, terms.push, strict=True):
        z = flint.arb(float(terms.constants[pull]))
        z += length(*map(int, terms.pulls[pull])) - length(*map(int, terms.pushes[push]))
        exact += flint.arb(program.family.weight) * (z if z > 0 else 0)
    assert flint.arb(found.upper) >= exact
    assert found.upper <= float(exact) * (1 + 1e-7)


def test_ellipsoids_and_new_points_are_enclosed() -> None:
    rng = np.random.default_rng(0)
    for gamma in (0.0, 0.1):
        problem = sdpkit.CoveringEllipsoid(rng.standard_normal((60, 4)), gamma=gamma)
        assert sdpkit.solve(problem).certificate.verify().width <= 1e-6
    Y = rng.standard_normal((6, 3))
    squared = ((Y - rng.standard_normal(3)) ** 2).sum(axis=1) + 0.1
    solution = sdpkit.solve(sdpkit.OutOfSample(Y, squared))
    assert solution.certificate.verify().width <= 1e-5


# -- the parts --------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0, 4, 8, 11])
@pytest.mark.parametrize("seed", range(4))
def test_log_dets_are_bounded(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    A = (q * np.logspace(0, -power, 6)) @ q.T
    A = (A + A.T) / 2
    bounds = log_det_bounds(A, 0.0)
    assert bounds is not None
    truth = ball(A).det().log()
    assert flint.arb(bounds[0]) <= truth <= flint.arb(bounds[1])
    assert bounds[1] - bounds[0] <= 10.0 ** (power - 12)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_called_definite_is(seed: int) -> None:
    """Nearly singular matrices, their determinants in exact arithmetic."""
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    values = np.r_[rng.uniform(0.5, 2, 4), rng.standard_normal() * 10.0 ** rng.uniform(-17, -14)]
    A = (q * values) @ q.T
    A = (A + A.T) / 2
    exact = [[flint.fmpq(*float(a).as_integer_ratio()) for a in row] for row in A]
    if certainly_definite(A, 0.0):
        assert all(flint.fmpq_mat([row[:k] for row in exact[:k]]).det() > 0 for k in range(1, 6))


def test_a_program_without_an_interior_has_no_feasible_end() -> None:
    """max −Z₃₃, Z₂₂ = 0, 2Z₁₂ + Z₃₃ = 1: the optimum is −1, and the dual says 0."""
    v = np.array([[0, 1.0, 0], [1, 1, 0], [1, -1, 0], [0, 0, 1]])
    program = Program.of(
        Block.of(3, v, cost=Cost.of(3, sparse=-np.diag([0, 0, 1.0]))),
        [0.0, 1.0],
        rows_q=[[1.0, 0, 0, 0], [0, 0.5, -0.5, 1]],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = sdpkit.solve(program, solver="interior")
    certificate = solution.certificate
    assert solution.status is not sdpkit.Status.OPTIMAL or certificate.warnings
    assert certificate.verify().lower is None


def test_equations_that_repeat_each_other_do_not_matter() -> None:
    """max M₁₁ + M₂₂ − M₁₂, M_ii = 1, once more three times as large, and 0 = 0."""
    block = Block.of(2, np.eye(2), cost=Cost.of(2, sparse=np.array([[1.0, -0.5], [-0.5, 1.0]])))
    rows = np.array([[1.0, 0], [0, 1], [3, 0], [0, 0]])
    found = sdpkit.solve(Program.of(block, [1.0, 1.0, 3.0, 0.0], rows_q=rows)).certificate.verify()
    assert encloses(found, flint.arb(3))
    assert found.width <= 1e-5
    contradiction = Program.of(block, [1.0, 1.0, 3.1, 0.0], rows_q=rows)
    found = certify(contradiction, np.eye(2), dual=[2.0, 2.0, 0.0, 0.0]).verify()
    assert found.attained is None
