"""Covering ellipsoids: John's theorem, known volumes, attacked certificates, log det programs."""

from __future__ import annotations

import functools
import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit import Block, Cost, CoveringEllipsoid, InputError, Program, Solution, Status, certify
from sdpkit.certificate.rays import certify_unbounded
from sdpkit.errors import SolverError
from sdpkit.numerics.covering import covering_weights, judged, whitened
from sdpkit.numerics.coverings import many_weights
from sdpkit.program.kinds import why_no_covering
from sdpkit.results.ellipsoid import cover
from sdpkit.solving.auxiliary import elastic, recession
from sdpkit.solving.registry import get_solver, known_solvers
from sdpkit.typing import Array

# The gaps that each solver is asked for; Titterington's update is slow near the end.
TOLS = {"covering": 1e-10, "titterington": 1e-5, "clarabel": 1e-8, "scs": 1e-6}
every_solver = pytest.mark.parametrize("name", TOLS)


def cube(d: int) -> Array:
    return np.array(list(itertools.product([-1.0, 1.0], repeat=d)))


def cross_polytope(d: int) -> Array:
    return np.vstack([np.eye(d), -np.eye(d)])


def simplex(d: int) -> Array:
    """The vertices of a regular simplex with circumradius 1, (d + 1, d)."""
    vertices = np.eye(d + 1) - 1 / (d + 1)
    basis = np.linalg.svd(vertices)[2][:d].T
    out = vertices @ basis
    return np.asarray(out / np.linalg.norm(out[0]))


def ball(d: int, radius: float) -> float:
    return float(sdpkit.Ellipsoid(*_unit_ball(d, radius)).log_volume)


def _unit_ball(d: int, radius: float) -> tuple[Array, Array, Array, float, float, Array, float]:
    return np.zeros(d), np.eye(d), np.eye(d), radius**2, 0.0, np.ones(1), 0.0


@functools.cache
def degenerate() -> dict[str, tuple[Array, float]]:
    rng = np.random.default_rng(7)
    flat = rng.standard_normal((15, 2)) @ rng.standard_normal((2, 4))
    return {
        "random": (rng.standard_normal((20, 4)), 0.0),
        "random, gamma": (rng.standard_normal((20, 4)), 0.1),
        "in a plane": (flat, 0.0),
        "in a plane, gamma": (flat, 0.1),
        "few": (rng.standard_normal((4, 6)), 0.1),
        "few, in their span": (rng.standard_normal((4, 6)), 0.0),
        "duplicates": (np.repeat(rng.standard_normal((7, 3)), 3, axis=0), 0.0),
        "outlier": (np.vstack([rng.standard_normal((20, 3)), [[1e3, 0, 0]]]), 0.0),
        "outlier, gamma": (np.vstack([rng.standard_normal((20, 3)), [[1e3, 0, 0]]]), 0.1),
    }


def solved(problem: CoveringEllipsoid, name: str = "covering") -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        return sdpkit.solve(problem, solver=name, tol=TOLS[name])


# -- theorems and known values ------------------------------------------------------------------


@every_solver
@pytest.mark.parametrize("d", [2, 3, 4])
def test_johns_ellipsoids_of_regular_bodies(name: str, d: int) -> None:
    """Cube, cross-polytope and simplex: balls through the vertices, by symmetry."""
    for points, radius in ((cube(d), np.sqrt(d)), (cross_polytope(d), 1.0), (simplex(d), 1.0)):
        problem = CoveringEllipsoid(points + 3.0)
        solution = solved(problem, name)
        assert solution.status is Status.OPTIMAL
        ellipsoid = problem.recover(solution)
        assert ellipsoid.log_volume == pytest.approx(ball(d, radius), abs=TOLS[name])
        assert ellipsoid.center == pytest.approx(np.full(d, 3.0), abs=np.sqrt(TOLS[name]))
        # John: S = Σφzzᵀ is a multiple of the identity, and the radius is d.
        assert ellipsoid.shape == pytest.approx(radius**2 / d * np.eye(d), abs=1e-2)


def test_johns_condition_at_the_contact_points() -> None:
    """g_j = d where φ_j > 0 and g_j ≤ d everywhere; at most d(d+3)/2 points touch."""
    X = np.random.default_rng(3).standard_normal((60, 3))
    problem = CoveringEllipsoid(X)
    ellipsoid = problem.recover(solved(problem))
    z = X - ellipsoid.weights @ X
    S = (z.T * ellipsoid.weights) @ z
    g = np.einsum("ij,ji->i", z, np.linalg.solve(S, z.T))
    touching = ellipsoid.weights > 1e-6
    assert g.max() <= 3 + 1e-8
    assert g[touching] == pytest.approx(np.full(touching.sum(), 3.0), abs=1e-7)
    assert 4 <= touching.sum() <= 9
    assert ellipsoid.shape == pytest.approx(S, rel=1e-6)
    assert ellipsoid.center == pytest.approx(ellipsoid.weights @ X, abs=1e-6)


def test_a_given_centre_costs_volume() -> None:
    X = np.random.default_rng(4).standard_normal((30, 3)) + np.eye(1, 3)
    free = CoveringEllipsoid(X)
    best = free.recover(solved(free))
    around = CoveringEllipsoid(X, center=np.zeros(3))
    assert around.recover(solved(around)).log_volume > best.log_volume + 0.1
    again = CoveringEllipsoid(X, center=best.center)
    assert again.recover(solved(again)).log_volume == pytest.approx(best.log_volume, abs=1e-8)


def test_gamma_on_one_point() -> None:
    """S = zzᵀ + γI: log det S = (d−1) log γ + log(γ + ‖z‖²), g = ‖z‖²/(γ + ‖z‖²)."""
    problem = CoveringEllipsoid([[3.0, 0.0, 4.0]], center=np.zeros(3), gamma=0.5)
    solution = solved(problem)
    assert solution.objective == pytest.approx(2 * np.log(0.5) + np.log(25.5), abs=1e-9)
    assert problem.recover(solution).radius == pytest.approx(25 / 25.5, abs=1e-9)


@every_solver
@pytest.mark.parametrize("kind", degenerate())
@pytest.mark.parametrize("centred", [False, True])
def test_engines_agree_and_cover(name: str, kind: str, centred: bool) -> None:
    X, gamma = degenerate()[kind]
    problem = CoveringEllipsoid(X, center=np.zeros(X.shape[1]) if centred else None, gamma=gamma)
    solution = solved(problem, name)
    assert solution.status is Status.OPTIMAL
    reference = solved(problem)
    assert abs(solution.objective - reference.objective) <= 2 * TOLS[name]
    ellipsoid = problem.recover(solution)
    assert ellipsoid.contains(X).all()
    # With γ the volume is not the objective, and as exact as the root of the gap.
    slack = np.sqrt(10 * TOLS[name]) if gamma else TOLS[name]
    best = problem.recover(reference)
    assert abs(ellipsoid.log_volume - best.log_volume) <= slack
    assert ellipsoid.log_volume >= best.log_volume - (slack if gamma else 1e-9)


@pytest.mark.parametrize("kind", ["random", "random, gamma", "in a plane", "few", "duplicates"])
@pytest.mark.parametrize("centred", [False, True])
def test_program_and_cvxpy_agree(kind: str, centred: bool) -> None:
    X, gamma = degenerate()[kind]
    problem = CoveringEllipsoid(X, center=np.zeros(X.shape[1]) if centred else None, gamma=gamma)
    value = problem.to_cvxpy().solve(solver="CLARABEL")
    assert solved(problem).objective == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("kind", degenerate())
@pytest.mark.parametrize("centred", [False, True])
def test_the_shape_is_that_of_the_weights(kind: str, centred: bool) -> None:
    """S = Σφ(x − c)(x − c)ᵀ + γI in all dimensions, for points that occur once, twice, thrice."""
    X, gamma = degenerate()[kind]
    X = np.vstack([X, X[::2], X[::4]])
    problem = CoveringEllipsoid(X, center=np.zeros(X.shape[1]) if centred else None, gamma=gamma)
    solution = solved(problem)
    ellipsoid = problem.recover(solution)
    z = X - ellipsoid.center
    S = (z.T * ellipsoid.weights) @ z + gamma * np.eye(X.shape[1])
    assert ellipsoid.shape == pytest.approx(S, abs=1e-4 * np.abs(S).max())
    assert np.trace(ellipsoid.shape) == pytest.approx(np.trace(S), rel=1e-5)
    assert ellipsoid.weights.sum() == pytest.approx(1)
    # A multiple of M is the same ellipsoid.
    doubled = replace(solution, matrices=(2 * np.asarray(solution.matrix),))
    again = problem.recover(doubled)
    assert again.log_volume == pytest.approx(ellipsoid.log_volume, abs=1e-10)
    assert again.shape == pytest.approx(ellipsoid.shape, rel=1e-8, abs=1e-8 * np.abs(S).max())


def test_points_in_a_plane_have_an_ellipse() -> None:
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 2)))[0]
    X = 2.0 * cube(2) @ turned.T + 7.0
    problem = CoveringEllipsoid(X)
    assert problem.dimension == 2
    ellipsoid = problem.recover(solved(problem))
    assert ellipsoid.volume == pytest.approx(8 * np.pi, rel=1e-9)
    assert ellipsoid.axes.shape == (2, 5)
    assert np.linalg.norm(ellipsoid.axes, axis=1) == pytest.approx([np.sqrt(8), np.sqrt(8)])
    assert not ellipsoid.contains(X + 0.1 * np.linalg.svd(turned.T)[2][-1]).any()


def test_many_points_need_a_working_set() -> None:
    X = np.random.default_rng(5).standard_normal((4000, 3))
    problem = CoveringEllipsoid(X)
    solution = solved(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.relative_gap <= 1e-10
    extreme = X[np.linalg.norm(X, axis=1) > 2.5]
    part = CoveringEllipsoid(extreme)
    assert solved(part).objective == pytest.approx(solution.objective, abs=1e-9)


def test_titterington_is_monotone_and_slow() -> None:
    X, _ = degenerate()["random"]
    program = CoveringEllipsoid(X).program()
    values = []
    for steps in (1, 2, 4, 8, 16):
        with pytest.warns(sdpkit.ConvergenceWarning):
            solution = sdpkit.solve(program, "titterington", tol=1e-12, max_iter=steps)
        assert solution.status is Status.ITERATION_LIMIT
        values.append(solution.dual_objective)
    assert np.all(np.diff(values) > 0)
    assert solved(CoveringEllipsoid(X)).objective >= values[-1]


def test_titteringtons_step_by_hand() -> None:
    """φ_j ← φ_j g_j/(d − γ tr S⁻¹), and the gap d log((max g + γ tr S⁻¹)/d) of what it gives."""
    (z, gamma), d = degenerate()["random, gamma"], 4
    with pytest.warns(sdpkit.ConvergenceWarning):
        solution = sdpkit.solve(
            CoveringEllipsoid(z, center=np.zeros(d), gamma=gamma),
            "titterington",
            tol=1e-12,
            max_iter=1,
        )
    phi = np.full(len(z), 1 / len(z))
    for _ in range(2):
        inverse = np.linalg.inv((z.T * phi) @ z + gamma * np.eye(d))
        g, rest = np.einsum("ij,jk,ik->i", z, inverse, z), gamma * np.trace(inverse)
        before, phi = phi, phi * g / (d - rest)
    assert solution.dual is not None
    assert -solution.dual == pytest.approx(before, rel=1e-9)
    gap = d * np.log((g.max() + rest) / d)
    assert solution.certificate.relative_gap == pytest.approx(gap, rel=1e-9)


def test_limits_and_callbacks() -> None:
    X, _ = degenerate()["random"]
    seen: list[float] = []
    sdpkit.solve(CoveringEllipsoid(X), "titterington", callback=lambda row: seen.append(row["gap"]))
    assert len(seen) > 3
    assert seen[-1] <= 1e-6
    with pytest.warns(sdpkit.ConvergenceWarning, match="interrupted"):
        stopped = sdpkit.solve(CoveringEllipsoid(X), "titterington", callback=lambda row: True)
    assert stopped.status is Status.INTERRUPTED
    with pytest.warns(sdpkit.ConvergenceWarning):
        late = sdpkit.solve(CoveringEllipsoid(X), "titterington", tol=1e-12, time_limit=1e-9)
    assert late.status is Status.TIME_LIMIT
    with pytest.warns(sdpkit.ConvergenceWarning):
        short = sdpkit.solve(CoveringEllipsoid(X), "covering", tol=1e-9, max_iter=2)
    assert short.status is Status.ITERATION_LIMIT
    with pytest.raises(InputError, match="no option 'speed'"):
        sdpkit.solve(CoveringEllipsoid(X), "covering", speed=9)


# -- the certificate, attacked ------------------------------------------------------------------


def test_a_wrong_answer_is_seen() -> None:
    X, gamma = degenerate()["random, gamma"]
    solution = solved(CoveringEllipsoid(X, gamma=gamma))
    program, M, t = solution.program, np.asarray(solution.matrix), solution.x
    w = solution.dual
    assert w is not None
    optimum = solution.objective

    assert certify(program, M, t, w).passes(1e-9)
    assert certify(program, M, t, None).relative_gap == np.inf
    assert certify(program, M, t, np.full_like(w, np.nan)).relative_gap == np.inf
    assert certify(program, np.full_like(M, np.nan), t, w).relative_gap == np.inf
    assert certify(program, 0 * M, t, w).relative_gap == np.inf
    # A smaller M is feasible and worse; a larger one, or a smaller t, violates rows.
    assert certify(program, 0.9 * M, t, w).relative_gap > 1e-3
    assert certify(program, 1.1 * M, t, w).primal_residual > 1e-3
    assert certify(program, M, 0.9 * t, w).primal_residual > 1e-3
    for shape in (w[:-1], np.r_[w, 0.0]):
        with pytest.raises(InputError, match="dual has shape"):
            certify(program, M, t, shape)
    with pytest.raises(InputError, match="has shape"):
        certify(program, M[:-1, :-1], t, w)
    assert optimum == solution.objective


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), size=st.floats(1e-12, 10.0))
def test_the_bound_holds_for_any_weights(seed: int, size: float) -> None:
    """A lower bound on the least volume from any multipliers, of wrong sum or sign too."""
    program, optimum, w = _attacked()
    rng = np.random.default_rng(seed)
    noise = w + size * rng.standard_normal(w.size)
    for multipliers in (noise, -np.abs(noise), w * rng.uniform(0.5, 2.0)):
        bound = certify(program, np.eye(5), [1.0], multipliers).safe_bound
        assert bound <= optimum + 1e-10


@functools.cache
def _attacked() -> tuple[Program, float, Array]:
    X, gamma = degenerate()["random, gamma"]
    solution = solved(CoveringEllipsoid(X, gamma=gamma))
    assert solution.dual is not None
    return solution.program, solution.objective, solution.dual


def test_zero_weights_bound_nothing_without_gamma() -> None:
    X, _ = degenerate()["random"]
    program = CoveringEllipsoid(X).program()
    certificate = certify(program, np.eye(5), [10.0], np.zeros(len(X)))
    assert certificate.safe_bound == -np.inf
    assert "not positive definite" in certificate.bound_source
    assert not certificate.verify()


# -- symmetries ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), centred=st.booleans(), gamma=st.sampled_from([0.0, 0.1]))
def test_rotation_permutation_and_scale(seed: int, centred: bool, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(1, 5)), int(rng.integers(3, 25))
    X, scale = rng.standard_normal((m, d)), 10.0 ** rng.uniform(-6, 6)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    center = 0.3 * rng.standard_normal(d) if centred else None
    moved = None if center is None else scale * center @ turn
    base = CoveringEllipsoid(X, center=center, gamma=gamma)
    other = CoveringEllipsoid(
        scale * X[rng.permutation(m)] @ turn, center=moved, gamma=scale**2 * gamma
    )
    first, second = solved(base), solved(other)
    r = base.dimension
    assert other.dimension == r
    assert second.objective - 2 * r * np.log(scale) == pytest.approx(first.objective, abs=1e-8)
    a, b = base.recover(first), other.recover(second)
    assert b.log_volume - r * np.log(scale) == pytest.approx(a.log_volume, abs=1e-5)
    if not gamma:
        assert b.shape / scale**2 == pytest.approx(turn.T @ a.shape @ turn, abs=1e-4)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_affine_maps_commute_with_the_ellipsoid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    X = rng.standard_normal((12, d))
    A = rng.standard_normal((d, d)) + 0.1 * np.eye(d)
    if abs(np.linalg.det(A)) < 1e-3:
        return
    base, mapped = CoveringEllipsoid(X), CoveringEllipsoid(X @ A.T + 5.0)
    value = solved(mapped).objective - 2 * np.log(abs(np.linalg.det(A)))
    assert value == pytest.approx(solved(base).objective, abs=1e-8)


def test_extreme_units() -> None:
    X, _ = degenerate()["random"]
    for scale in (1e-100, 1e100):
        solution = solved(CoveringEllipsoid(scale * X))
        assert solution.status is Status.OPTIMAL
    with pytest.raises(InputError, match="too large"):
        CoveringEllipsoid(1e200 * X)


# -- thousands at once --------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.1])
def test_a_batch_is_its_members(gamma: float) -> None:
    rng = np.random.default_rng(8)
    points, centers = rng.standard_normal((40, 15, 4)), 0.2 * rng.standard_normal((40, 4))
    points[3, 5:] = points[3, :10]  # duplicates
    points[4, 0] = 1e6  # an outlier
    points[5, 0] = centers[5]  # the query itself
    points[6] = points[6, :, :2] @ rng.standard_normal((2, 4))  # a plane …
    centers[6] = points[6, 0]  # … through the centre
    many = cover(points, centers, gamma=gamma)
    assert many.gaps.max() <= 1e-11
    for k in range(len(many)):
        problem = CoveringEllipsoid(points[k], center=centers[k], gamma=gamma)
        single = problem.recover(solved(problem))
        assert many[k].log_det == pytest.approx(single.log_det, abs=1e-8)
        assert many[k].log_volume == pytest.approx(single.log_volume, abs=1e-6)
        assert many[k].basis.shape == single.basis.shape
    alone = cover(points[7:8], centers[7:8], gamma=gamma)
    assert np.array_equal(alone.weights[0], many.weights[7])


def test_a_batch_of_points_at_their_centres() -> None:
    many = cover(np.ones((3, 4, 2)), np.ones((3, 2)), gamma=0.5)
    assert many.shapes == pytest.approx(np.broadcast_to(0.5 * np.eye(2), (3, 2, 2)))
    assert many[0].radius == 0
    with pytest.raises(InputError, match="is a single point"):
        cover(np.ones((3, 4, 2)), np.ones((3, 2)))[1]


def test_gaps_are_recomputed_and_attacked() -> None:
    rng = np.random.default_rng(9)
    z = rng.standard_normal((1, 12, 3))
    white, cost, _ = whitened(z[0], 0.1 * np.eye(3))
    phi, steps = covering_weights(white, cost)
    assert 3 < steps < 20
    found = judged(white[None], cost[None], phi[None]).gaps[0]
    assert found <= 1e-12
    optimum = np.linalg.slogdet((z[0].T * phi) @ z[0] + 0.1 * np.eye(3))[1]
    for size in (1e-6, 1e-3, 1.0):
        other = np.maximum(phi + size * rng.standard_normal(12), 0.0)
        claimed = judged(white[None], cost[None], other[None]).gaps[0]
        other /= other.sum()
        value = np.linalg.slogdet((z[0].T * other) @ z[0] + 0.1 * np.eye(3))[1]
        assert claimed >= optimum - value - 1e-12
        assert claimed > found
    assert judged(white[None], cost[None], np.full((1, 12), np.nan)).gaps[0] == np.inf
    assert judged(white[None], 0 * cost[None], np.eye(1, 12)).gaps[0] == np.inf
    weights, found_again, ranks = many_weights(z, 0.1 * np.eye(3))
    assert found_again.log_dets[0] == pytest.approx(optimum, abs=1e-12)
    assert ranks[0] == 3
    assert weights[0] == pytest.approx(phi, abs=1e-6)


# -- log det in the common form -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["clarabel", "scs"])
@pytest.mark.parametrize("sense", ["max", "min"])
def test_hadamards_inequality(name: str, sense: str) -> None:
    """max 2 log det M with diagonal (1, 2, 4): M is diagonal, value 2 log 8."""
    sign = 1.0 if sense == "max" else -1.0
    block = Block.of(3, np.eye(3), log_det=2.0)
    program = Program.of(block, [1.0, 2.0, 4.0], sense=sense, offset=1.0)
    solution = sdpkit.solve(program, name)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(sign * 2 * np.log(8) + 1, abs=1e-5)
    assert solution.matrix == pytest.approx(np.diag([1.0, 2.0, 4.0]), abs=1e-3)
    # S = βM⁻¹, and the bound is the dual's value at any w with S ≻ 0.
    assert solution.dual == pytest.approx(sign * np.array([2.0, 1.0, 0.5]), abs=1e-2)
    exact = certify(program, np.diag([1.0, 2.0, 4.0]), dual=sign * np.array([2.0, 1.0, 0.5]))
    assert exact.passes(1e-13)  # the bound allows for the rounding of the log det
    # The relative gap is that in log det itself, whatever β and the offset are.
    half = certify(program, np.diag([0.5, 2.0, 4.0]), dual=sign * np.array([2.0, 1.0, 0.5]))
    assert half.relative_gap == pytest.approx(np.log(2), rel=1e-12)
    repaired = certify(program, np.eye(3), dual=-sign * np.ones(3))
    assert sign * (repaired.safe_bound - exact.objective) > 1
    assert not repaired.passes(1e-3)


@pytest.mark.parametrize("name", ["clarabel", "scs"])
def test_log_det_on_a_face(name: str) -> None:
    """K1 = 0, three rods of length at most one: the regular triangle has the largest det."""
    rods = np.array([[1.0, -1, 0], [0, 1, -1], [1, 0, -1]])
    block = Block.of(3, rods, null=np.ones(3), log_det=1.0, name="K")
    program = Program.of(block, np.ones(3), relations="<=")
    solution = sdpkit.solve(program, name)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(2 * np.log(0.5), abs=1e-5)
    assert solution.matrix == pytest.approx(0.5 * (np.eye(3) - 1 / 3), abs=1e-3)
    exact = certify(program, 0.5 * (np.eye(3) - 1 / 3), dual=np.full(3, 2 / 3))
    assert exact.passes(1e-12)


@pytest.mark.parametrize("name", ["clarabel", "scs"])
@pytest.mark.parametrize("null", [[[1.0, 2.0, 2.0, 0.0]], [[1.0, 2, 0, 0], [0, 0, 1, -1.0]]])
def test_log_det_on_any_face(name: str, null: list[list[float]]) -> None:
    """Whatever basis of the face a solver works in, the certificate sees one log det."""
    program = Program.of(
        Block.of(4, np.eye(4), null=np.array(null).T, log_det=1.0), np.ones(4), relations="<="
    )
    solution = sdpkit.solve(program, name, tol=1e-5)
    assert solution.status is Status.OPTIMAL
    assert np.linalg.matrix_rank(solution.matrix, tol=1e-3) == 4 - len(null)


@pytest.mark.parametrize("name", ["clarabel", "scs"])
def test_only_one_of_two_blocks_has_a_log_det(name: str) -> None:
    """max log det M − tr M + tr N, with N_11 + M_11 ≤ 3: M = I/2 … and N takes the rest."""
    first = Block.of(1, [[1.0]], cost=Cost.of(1, identity=-1.0), log_det=1.0, name="M")
    second = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0), name="N")
    program = Program.of([first, second], [3.0], rows_q=[[1.0, 1.0]], relations="<=")
    solution = sdpkit.solve(program, name)
    # log m − 2m + 3 is largest at m = ½.
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(np.log(0.5) + 2, abs=1e-5)
    # w = 1 leaves S_N = 0; less is infeasible for N and is moved before it bounds.
    assert certify(program, [np.eye(1) / 2, 2.5 * np.eye(1)], dual=[1.0]).passes(1e-12)
    moved = certify(program, [np.eye(1) / 2, 2.5 * np.eye(1)], dual=[0.9])
    assert moved.bound_source == "repair direction"
    assert moved.dual_objective < moved.objective < moved.safe_bound


def test_saved_printed_and_fingerprinted(tmp_path) -> None:  # type: ignore[no-untyped-def]
    program = CoveringEllipsoid(cube(2), gamma=0.5).program()
    assert "minimise    <C, M> + t − log det M" in str(program)
    heavier = replace(program.blocks[0], log_det=2.5)
    weighted = replace(program, blocks=(heavier,))
    assert "− 2.5 log det M" in str(weighted)
    assert weighted.fingerprint != program.fingerprint
    weighted.save(tmp_path / "program.npz")
    again = Program.load(tmp_path / "program.npz")
    assert again.fingerprint == weighted.fingerprint
    assert again.blocks[0].log_det == 2.5
    plain = replace(program, blocks=(replace(program.blocks[0], log_det=0.0),))
    assert not plain.has_log_det
    assert plain.is_linear
    assert not program.is_linear


def test_log_det_is_validated() -> None:
    for weight in (-1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="weight of log det"):
            Block.of(2, np.eye(2), log_det=weight)
    with pytest.raises(InputError, match="limited rank"):
        Block.of(2, np.eye(2), log_det=1.0, max_rank=1)
    with pytest.raises(InputError, match="no log det"):
        sdpkit.write_sdpa(CoveringEllipsoid(cube(2)).program(), "nowhere.dat-s")


def test_who_takes_a_log_det() -> None:
    program = CoveringEllipsoid(cube(2)).program()
    words = "log det|only solves programs with a family|only solves sums"
    for name in known_solvers():
        solver = get_solver(name)
        if solver.unavailable() is None and not solver.capabilities.log_det:
            with pytest.raises(SolverError, match=words):
                sdpkit.solve(program, name)
    assert sdpkit.solve(program).solver == "covering"
    hadamard = Program.of(Block.of(2, np.eye(2), log_det=1.0), [1.0, 1.0])
    assert why_no_covering(hadamard) is not None
    assert sdpkit.solve(hadamard).solver == "clarabel"
    lacks = "only solves minimum-volume covering programs; this program lacks the one nonnegative"
    with pytest.raises(SolverError, match=lacks):
        sdpkit.solve(hadamard, "titterington")
    with pytest.raises(SolverError, match=r"this program has no log det\. Use solver='interior'"):
        sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)), "covering")


def test_rows_with_factors_are_coverings_too() -> None:
    """max β log det M − <C, M> − c·t, a_j q_j ≤ s_j t: the structure, not the problem, counts."""
    rng = np.random.default_rng(2)
    block = Block.of(3, rng.standard_normal((9, 3)), cost=-0.2 * np.eye(3), log_det=1.7)
    program = Program.of(
        block,
        np.zeros(9),
        rows_q=np.diag(rng.uniform(0.5, 2, 9)),
        rows_x=-rng.uniform(0.5, 2, (9, 1)),
        relations="<=",
        cost_x=[-0.6],
    )
    assert why_no_covering(program) is None
    ours, theirs = sdpkit.solve(program, "covering", tol=1e-9), sdpkit.solve(program, "clarabel")
    assert ours.status is theirs.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, abs=1e-5)
    assert ours.certificate.primal_residual <= 1e-12
    assert sdpkit.solve(program, "titterington", tol=1e-6).status is Status.OPTIMAL


def test_unbounded_twin() -> None:
    """Points in a plane, γ = 0, written in three dimensions: det M grows without end."""
    flat = np.c_[cube(2), np.zeros(4)]
    program = Program.of(
        Block.of(3, flat, log_det=1.0),
        np.zeros(4),
        sense="min",
        rows_x=-np.ones((4, 1)),
        relations="<=",
        cost_x=[1.0],
    )
    solution = sdpkit.solve(program)
    assert solution.status is Status.UNBOUNDED
    up = np.diag([0.0, 0.0, 1.0])
    assert certify_unbounded(program, [up], [0.0]).passes(1e-12)
    assert not certify_unbounded(program, [np.diag([1.0, 0, 0])], [0.0]).passes(1e-7)
    # A direction that costs as much as it likes is none.
    costly = replace(program, blocks=(replace(program.blocks[0], cost=Cost.of(3, identity=1.0)),))
    assert not certify_unbounded(costly, [up], [0.0]).passes(1e-7)
    assert not elastic(program).has_log_det
    assert not recession(program).has_log_det


# -- bad input ----------------------------------------------------------------------------------


def test_bad_input() -> None:
    X = cube(2)
    for points, words in (
        (np.ones(3), "one row per point"),
        (np.zeros((0, 2)), "one row per point"),
        ([[np.nan, 0.0]], "NaN"),
        ("points", "not an array"),
        (np.ones((4, 2)), "coincide with each other"),
    ):
        with pytest.raises(InputError, match=words):
            CoveringEllipsoid(points)
    for gamma in (-1.0, np.nan, np.inf, "much"):
        with pytest.raises(InputError, match="gamma"):
            CoveringEllipsoid(X, gamma=gamma)
    with pytest.raises(InputError, match="center has shape"):
        CoveringEllipsoid(X, center=np.zeros(3))
    with pytest.raises(InputError, match="coincide with the center"):
        CoveringEllipsoid(np.ones((3, 2)), center=np.ones(2))
    other = solved(CoveringEllipsoid(cube(3)))
    with pytest.raises(InputError, match="not a solution"):
        CoveringEllipsoid(X).recover(other)
    ellipsoid = CoveringEllipsoid(X).recover(solved(CoveringEllipsoid(X)))
    with pytest.raises(InputError, match="one row per point"):
        ellipsoid.contains(np.zeros((2, 3)))


def test_bad_batches() -> None:
    points, centers = np.ones((3, 4, 2)), np.zeros((3, 2))
    for bad, words in (
        ((points[0], centers), "pass"),
        ((points, centers[:2]), "centers has shape"),
        ((np.nan * points, centers), "NaN"),
    ):
        with pytest.raises(InputError, match=words):
            cover(*bad)
    with pytest.raises(InputError, match="gamma"):
        cover(points, centers, gamma=-1.0)
    with pytest.raises(InputError, match="tol"):
        cover(points, centers, tol=0.0)


def test_pictures() -> None:
    pytest.importorskip("matplotlib")
    X = np.random.default_rng(1).standard_normal((20, 3))
    problem = CoveringEllipsoid(X)
    ellipsoid = problem.recover(solved(problem))
    ax = ellipsoid.plot(X)
    (line,) = ax.lines
    ring = np.array(line.get_data())
    # The shadow's edge: the largest first coordinate of the ellipsoid.
    reach = ellipsoid.center[0] + np.sqrt(ellipsoid.radius * ellipsoid.shape[0, 0])
    assert ring[0].max() == pytest.approx(reach, rel=1e-3)
    flat = CoveringEllipsoid([[0.0], [1.0]])
    with pytest.raises(InputError, match="at least two"):
        flat.recover(solved(flat)).plot()
