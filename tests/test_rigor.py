"""Verified bounds: theorems about the floating-point data, checked in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fuzzing.fuzz import ATTACKS, Choice, fuzz
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit.certificate.certify import certify
from sdpkit.certificate.definite import certainly_definite, definite_on_face
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.certificate.rigor import _linear_conditions_hold, verify_dual
from sdpkit.certificate.slack import ScaledSlack
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.safe import SafeBounds
from sdpkit.typing import Array

seeds = st.integers(0, 2**32 - 1)
quick = settings(deadline=None, max_examples=60)


def exactly_definite(matrix: Array) -> bool:
    """Positive definiteness of a symmetric floating-point matrix, by elimination in ℚ."""
    a = [[Fraction(float(v)) for v in row] for row in matrix]
    n = len(a)
    for k in range(n):
        if a[k][k] <= 0:
            return False
        for i in range(k + 1, n):
            factor = a[i][k] / a[k][k]
            a[i] = [u - factor * v for u, v in zip(a[i], a[k], strict=True)]
    return True


def certified(problem: Any, solver: str = "clarabel") -> float:
    """The verified bound of a solution."""
    verification = sdpkit.solve(problem, solver=solver).certificate.verify()
    assert verification
    assert isinstance(verification.bound, float)
    return verification.bound


# -- definiteness ---------------------------------------------------------------------------


@given(seeds, st.integers(1, 6))
@quick
def test_no_indefinite_integer_matrix_is_accepted(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    b = rng.integers(-3, 4, (n, n))
    a = (b @ b.T + np.diag(rng.integers(-2, 2, n))).astype(float)
    if certainly_definite(a, 0.0):
        assert exactly_definite(a)


@given(seeds, st.integers(2, 8))
@quick
def test_nothing_is_accepted_at_the_edge(seed: int, n: int) -> None:
    """Rounded matrices of rank n − 1: definite, singular or indefinite by 10⁻¹⁷ of their size."""
    rng = np.random.default_rng(seed)
    b = rng.standard_normal((n, n - 1)) * 10.0 ** rng.uniform(-3, 3, n)[:, None]
    a = b @ b.T
    a = (a + a.T) / 2
    accepted = certainly_definite(a, 0.0)
    assert not accepted or exactly_definite(a)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 1.0], [1.0, 1 - 2.0**-53]],
        [[1.0, 1.0], [1.0, 1.0]],
        [[1.0, 0.0], [0.0, -1e-17]],
        [[1.0, 0.0], [0.0, -5e-324]],
        [[1e-17, 0.0], [0.0, -1e-17]],
        [[1e300, 1e300], [1e300, 1e300 * (1 - 2.0**-53)]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[0.0]],
        [[-1.0]],
        [[1.0, 2.0], [2.0, 1.0]],
    ],
)
def test_singular_and_indefinite_matrices_are_refused(matrix: list[list[float]]) -> None:
    assert not certainly_definite(np.array(matrix), 0.0)


def test_a_tiny_negative_eigenvalue_is_refused() -> None:
    """uuᵀ − 10⁻¹⁷(I − uuᵀ) with u = 1/2: exact in floating point as 2⁻⁵⁷."""
    n, tiny = 4, 2.0**-57
    off, on = 0.25 * (1 + tiny), 0.25 * (1 + tiny) - tiny
    exact = np.full((n, n), off)
    np.fill_diagonal(exact, on)
    assert not certainly_definite(exact, 0.0)


@given(seeds, st.integers(1, 10), st.floats(-100, 100))
@quick
def test_comfortably_definite_matrices_are_accepted(seed: int, n: int, power: float) -> None:
    b = np.random.default_rng(seed).standard_normal((n, n))
    a = 10.0**power * (b @ b.T + 0.1 * np.eye(n))
    assert certainly_definite((a + a.T) / 2, 0.0)


def test_rounding_is_subtracted() -> None:
    assert certainly_definite(np.eye(3), 0.9)
    assert not certainly_definite(np.eye(3), 1.0)
    assert not certainly_definite(np.eye(3), np.inf)


def test_asymmetry_is_subtracted() -> None:
    twisted = np.eye(2)
    twisted[0, 1] = 3.0  # the symmetric part has eigenvalue −½
    assert not certainly_definite(twisted, 0.0)
    assert not certainly_definite(twisted.T, 0.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_and_infinity_prove_nothing() -> None:
    inside = 3 * np.eye(5)
    inside[3, 1] = inside[1, 3] = np.nan
    for matrix in (inside, np.array([[np.nan]]), np.diag([1.0, np.inf]), np.diag([1.0, np.nan])):
        assert not certainly_definite(matrix, 0.0)
    assert not certainly_definite(np.eye(2), np.nan)


def test_the_input_is_left_alone() -> None:
    a = 2 * np.eye(3)
    certainly_definite(a, 0.0)
    np.testing.assert_array_equal(a, 2 * np.eye(3))


@given(seeds)
@quick
def test_definite_on_the_face_means_definite_there(seed: int) -> None:
    """I − c·11ᵀ is definite on 1⊥ for every c, and I − c·uuᵀ is not for u ⊥ 1 and c ≥ 1/‖u‖²."""
    rng = np.random.default_rng(seed)
    block = Block.of(4, np.eye(4), null=np.ones(4))
    c = 10.0 ** rng.uniform(-3, 3)
    assert definite_on_face(
        ScaledSlack(np.eye(4) - c * np.ones((4, 4)), np.zeros((4, 4)), block.null)
    )
    u = np.array([1.0, -1.0, 0.0, 0.0])
    assert not definite_on_face(
        ScaledSlack(np.eye(4) - (0.5 + c) * np.outer(u, u), np.zeros((4, 4)), block.null)
    )
    assert not definite_on_face(
        ScaledSlack(np.eye(4) - 0.5 * np.outer(u, u), np.zeros((4, 4)), block.null)
    )
    assert definite_on_face(
        ScaledSlack(np.eye(4) - 0.25 * np.outer(u, u), np.zeros((4, 4)), block.null)
    )
    assert not definite_on_face(ScaledSlack(np.full((4, 4), np.nan), np.zeros((4, 4)), block.null))


# -- bounds against exact optima ------------------------------------------------------------


@pytest.mark.parametrize("form", ["equality", "inequality"])
@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_path(form: Any, n: int) -> None:
    """Points on a string unfold to a line: tr K = (n³ − n)/12."""
    bound = certified(sdpkit.MVU(graph=sdpkit.datasets.path_graph(n), form=form))
    exact = Fraction(n**3 - n, 12)
    assert Fraction(bound) >= exact
    assert Fraction(bound) <= exact * (1 + Fraction(1, 10**6))


@pytest.mark.parametrize("solver", ["clarabel", "csdp", "cvxopt", "scs", "sdpa"])
@pytest.mark.parametrize(("n", "exact"), [(3, 1), (4, 2), (6, 6)])
def test_cycle_with_a_rational_optimum(solver: str, n: int, exact: int) -> None:
    """n/(4 sin²(π/n))."""
    bound = certified(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(n)), solver)
    assert exact <= Fraction(bound) <= exact * (1 + Fraction(1, 10**6))


def test_cycle_of_five() -> None:
    """(5 + √5)/2, compared without rounding the root."""
    bound = Fraction(certified(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))))
    assert (2 * bound - 5) ** 2 >= 5
    assert (2 * bound * (1 - Fraction(1, 10**6)) - 5) ** 2 <= 5


@given(st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=6)
def test_two_points(length: float) -> None:
    """ℓ²/2 in every form, with ℓ² as the program holds it."""
    pair = np.array([[0.0, length], [length, 0.0]])
    for form in ("equality", "inequality", "min_trace"):
        problem = sdpkit.MVU(graph=pair, form=form)
        exact = Fraction(float(problem.program().rhs[0])) / 2
        bound = Fraction(certified(problem))
        sign = -1 if form == "min_trace" else 1
        assert 0 <= sign * (bound - exact) <= exact / 10**6


@pytest.mark.parametrize("n", [3, 4, 6])
@pytest.mark.parametrize("form", ["equality", "min_trace"])
def test_regular_simplex(form: Any, n: int) -> None:
    """All distances one: K is fixed and tr K = (n − 1)/2 from both sides."""
    problem = sdpkit.MVU(graph=np.ones((n, n)) - np.eye(n), form=form)
    bound, exact = Fraction(certified(problem)), Fraction(n - 1, 2)
    sign = -1 if form == "min_trace" else 1
    assert 0 <= sign * (bound - exact) <= exact / 10**6


@pytest.mark.parametrize("form", ["equality", "inequality", "slack", "min_trace"])
def test_every_form_is_verified_close_to_its_optimum(unfoldings: dict[str, Any], form: str) -> None:
    case = unfoldings[form]
    verification = case.solution.certificate.verify()
    assert verification
    excess = case.program.sign * (verification.bound - case.optimum) / case.optimum
    assert -1e-8 < excess < 1e-6


def test_the_trace_bound_does_not_stand_in_the_way(unfoldings: dict[str, Any]) -> None:
    """Whatever gave the safe bound, multipliers that can be moved into the dual are verified."""
    case = unfoldings["equality"]
    for size in (0.0, 1e-9, 1e-6, 1e-3):
        w = case.solution.dual - size
        verification = certify(case.program, case.solution.matrix, dual=w).verify()
        if size < 1e-5:
            assert verification
        assert not verification or verification.bound > case.optimum * (1 - 1e-8)


@given(seeds, st.floats(-17, 1))
@settings(deadline=None, max_examples=25)
def test_no_verified_bound_cuts_off_an_exact_optimum(seed: int, power: float) -> None:
    """The path's optimum is rational and its dual is w_e = e(n − e)/2, with no room at all."""
    n = 5
    program = sdpkit.MVU(graph=sdpkit.datasets.path_graph(n)).program()
    e = np.arange(1, n)
    w = e * (n - e) / 2 + 10.0**power * np.random.default_rng(seed).uniform(-1, 1, n - 1)
    verification = verify_dual(program, w)
    assert verification.bound is None or Fraction(verification.bound) >= Fraction(n**3 - n, 12)


def test_the_value_is_rounded_outwards() -> None:
    """max M with 3M ≤ 1 (as 3M ≤ 0.1 in binary): w = ⅓ rounded up is feasible, down is not."""
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0))
    program = Program.of(block, [0.1], rows_q=[[3.0]], relations="<=", offset=0.3)
    verification = verify_dual(program, np.array([1 / 3 + 1e-9]))
    exact = Fraction(0.1) / 3 + Fraction(0.3)
    assert verification
    assert exact <= Fraction(verification.bound) <= exact + Fraction(1, 10**8)
    smallest = Program.of(block, [0.1], rows_q=[[3.0]], relations=">=", offset=0.3, sense="min")
    lower = verify_dual(smallest, np.array([-(1 / 3 - 1e-9)]))
    assert exact - Fraction(1, 10**8) <= Fraction(lower.bound) <= exact


@pytest.mark.parametrize("kind", ["plain", "minimise", "blocks", "nonnegative"])
@pytest.mark.parametrize("seed", [0, 1])
def test_general_programs(instance: Callable[[str, int], Any], kind: str, seed: int) -> None:
    """An interior dual point is verified at its own value, to the last bit."""
    case = instance(kind, seed)
    program = case.program()
    w = program.sign * case.dual
    verification = verify_dual(program, w)
    assert verification
    value = Fraction(program.offset) + int(program.sign) * sum(
        (Fraction(float(b)) * Fraction(float(v)) for b, v in zip(program.rhs, w, strict=True)),
        Fraction(0),
    )
    assert 0 <= int(program.sign) * (Fraction(verification.bound) - value) <= abs(value) / 2**52
    assert program.sign * (verification.bound - case.optimum()) > 0


@pytest.mark.parametrize("seed", range(5))
def test_features_and_low_rank_costs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    b, x = rng.standard_normal((6, 8)), rng.standard_normal((8, 3))
    u, w = rng.standard_normal((3, 2)), rng.uniform(1, 2, 6)
    image = x.T @ b.T @ np.diag(w) @ b @ x
    smallest = np.linalg.eigvalsh(image)[0] / np.linalg.norm(u, 2) ** 2
    for share, expected in ((0.99, True), (1.5, False)):
        cost = Cost.of(3, factor=u, weights=np.full(2, share * smallest))
        block = Block.of(3, b, features=x, cost=cost)
        program = Program.of(block, np.ones(6), safe=SafeBounds(direction=np.zeros(6)))
        verification = verify_dual(program, w)
        holds = np.linalg.eigvalsh(image - cost.dense())[0] > 0
        assert holds or not expected
        assert bool(verification) == holds
        if verification:
            assert verification.bound == pytest.approx(w.sum(), rel=1e-3)


# -- rays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["equality", "min_trace"])
def test_a_ray_of_infeasibility_is_verified(form: Any) -> None:
    program = sdpkit.MVU(graph=[[0, 1, 1], [1, 0, 3], [1, 3, 0]], form=form).program()
    ray = program.sign * np.where(program.rhs > 2, -1.0, 2.0)
    verification = certify_infeasible(program, ray).verify()
    assert verification.bound == 0.0
    assert "infeasible" in verification.reason


def test_a_solvers_ray_is_verified() -> None:
    problem = sdpkit.MVU(graph=[[0, 1, 1], [1, 0, 3], [1, 3, 0]])
    solution = sdpkit.solve(problem, solver="clarabel")
    assert solution.status == "infeasible"
    assert solution.ray.verify()


@pytest.mark.parametrize("excess", [0.0, 1e-16, 1e-13, 1e-10, 1e-7, 1e-3])
@pytest.mark.parametrize("reduction", ["auto", "off"])
def test_no_ray_of_a_feasible_program_is_verified(reduction: Any, excess: float) -> None:
    program = sdpkit.MVU(
        [[0.0], [1.0], [2.0]], edges=[[0, 1], [1, 2], [0, 2]], facial_reduction=reduction
    ).program()
    ray = np.where(program.rhs > 2, -1.0 - excess, 2.0)
    assert not certify_infeasible(program, ray).verify()


def test_signs_and_auxiliary_variables_of_a_ray() -> None:
    """M − x = −1 is solved by x = 1; M + x = −1 by nothing; with 2M ≤ 1, M ≥ 1 signs decide."""
    block = Block.of(1, [[1.0]])
    solvable = Program.of(block, [-1.0], rows_x=sp.csr_array([[-1.0]]))
    assert not certify_infeasible(solvable, [1.0]).verify()
    empty = Program.of(block, [-1.0], rows_x=sp.csr_array([[1.0]]))
    assert certify_infeasible(empty, [1.0]).verify()
    clash = Program.of(block, [1.0, 1.0], rows_q=[[2.0], [1.0]], relations=[-1, 1])
    assert certify_infeasible(clash, [1.0, -1.5]).verify()


# -- silence --------------------------------------------------------------------------------


def test_missing_duals_verify_nothing(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["equality"]
    verification = certify(case.program, case.solution.matrix).verify()
    assert verification.bound is None
    assert not verification
    assert "no multipliers" in verification.reason
    assert verification.upper is None


@pytest.mark.parametrize("kind", ["quadratic free", "norm"])
def test_penalties_are_verified(instance: Callable[[str, int], Any], kind: str) -> None:
    case = instance(kind, 0)
    program = case.program()
    verification = verify_dual(program, case.dual)
    assert verification.bound is not None
    value = program.sign * program.dual_value(case.dual) + program.offset
    assert verification.bound == pytest.approx(value, rel=1e-9)
    best = case.optimum()
    assert program.sign * (verification.bound - best) >= -1e-6 * (1 + abs(best))


def test_a_direction_is_verified_and_says_what_it_shows() -> None:
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0))
    program = Program.of(block, [1.0], relations=">=")
    ray = certify_unbounded(program, [np.ones((1, 1))], [])
    assert ray.verify().bound == 0
    assert "dual is infeasible" in ray.verify().reason
    solution = sdpkit.solve(program)
    assert "the program is unbounded" in solution.ray.verify().reason


def test_a_dual_beyond_repair_says_why() -> None:
    """max M₁₁ + M₂₂, M₁₁ = 1: no dual is feasible, and there is nothing to move along."""
    program = Program.of(Block.of(2, [[1.0, 0.0]], cost=Cost.of(2, identity=1.0)), [1.0])
    verification = verify_dual(program, np.array([2.0]))
    assert verification.bound is None
    assert "no strictly feasible neighbour" in verification.reason


def test_free_variables_demand_their_equation_exactly() -> None:
    """max M, M + x = 1, −x = 0 (x free): w = (w₁, w₁) with w₁ ≥ 1, to the last bit."""
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0))
    program = Program.of(
        block, [1.0, 0.0], rows_q=[[1.0], [0.0]], rows_x=[[1.0], [-1.0]] @ np.eye(1), free_x=[True]
    )
    assert verify_dual(program, np.array([1.5, 1.5])).bound == 1.5
    near = np.array([1.5, np.nextafter(1.5, 2)])
    assert not _linear_conditions_hold(program, near)
    # A neighbour meets the equation, and it alone is proven.
    found = verify_dual(program, near)
    assert found.bound == 1.5
    assert "hold exactly" in found.reason
    # With thirds as coefficients there is none on a grid.
    thirds = replace(program, rows_x=program.rows_x / 3)
    assert verify_dual(thirds, near).bound is None
    assert "<verified bound 1.5" in repr(verify_dual(program, np.array([1.5, 1.5])))


# -- the ends of the floating-point range -----------------------------------------------------


def test_weights_that_underflow_before_a_large_vector_are_counted() -> None:
    """a·w = −2⁻¹³¹⁰ is no float, and v² = 2¹⁰⁰⁰ makes it matter."""
    v, a, b, c = 2.0**500, 2.0**-660, 2.0**660, 2.0**-340
    program = Program.of(Block.of(1, [[v]], cost=Cost.of(1, identity=-c)), [b], rows_q=[[a]])
    optimum = -Fraction(c) * Fraction(b) / (Fraction(a) * Fraction(v) ** 2)
    assert verify_dual(program, np.array([-(2.0**-650)])).bound is None
    near = verify_dual(program, np.array([-(2.0**-681)]))
    assert Fraction(near.bound) >= optimum


def test_costs_of_low_rank_that_underflow_are_counted() -> None:
    """C₁₂ = s·u₁·u₂ = 2⁻⁵²⁰ though s·u₁ is no float: S = diag(w) − C needs w₁w₂ ≥ 2⁻¹⁰⁴⁰."""
    factor = [[2.0**-560], [2.0**560]]
    cost = Cost.of(2, factor=factor, weights=[2.0**-520])
    program = Program.of(Block.of(2, np.eye(2), cost=cost), [1.0, 1.0])
    indefinite = np.array([2.0**-1650, 2.0**600 * 1.5])
    assert verify_dual(program, np.array([0.0, indefinite[1]])).bound is None
    assert verify_dual(program, np.array([2.0**-600, 2.0**601]))


@pytest.mark.parametrize("eps", [1e-13, 3e-14, 1e-14])
def test_tiny_null_directions_do_not_lift_the_face(eps: float) -> None:
    """C improves along z ⊥ N by eps: unbounded, whatever NNᵀ rounds to in the subnormals."""
    n = np.array([0.75, 0.66])
    unit = n / np.linalg.norm(n)
    z = np.array([unit[1], -unit[0]])
    cost = -(np.outer(unit, unit) - eps * np.outer(z, z)) * 2.0**-20
    block = Block.of(
        2, [[0.0, 0.0]], cost=Cost.of(2, sparse=(cost + cost.T) / 2), null=2.0**-537 * n
    )
    program = Program.of(block, [1.0], rows_q=[[1.0]], rows_x=[[1.0]])
    assert verify_dual(program, np.zeros(1)).bound is None


def test_a_value_beyond_the_floats_is_a_reason() -> None:
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1e200))
    verification = verify_dual(Program.of(block, [1e200]), np.array([1e200]))
    assert verification.bound is None
    assert "floating-point range" in verification.reason


# -- both ends --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["equality", "inequality", "slack", "min_trace"])
def test_the_optimum_is_enclosed(form: Any) -> None:
    X = sdpkit.datasets.swiss_roll(60, noise_dims=5, noise=0.3, random_state=0)
    solution = sdpkit.solve(sdpkit.MVU(X, n_neighbors=4, form=form), solver="interior")
    verification = solution.certificate.verify()
    assert verification.lower <= verification.upper
    assert verification.width <= 1e-5


def test_without_an_interior_there_is_a_reason() -> None:
    """M₂₂ = 0 leaves no positive definite point."""
    block = Block.of(2, np.eye(2), cost=Cost.of(2, identity=1.0))
    program = Program.of(block, [1.0, 0.0])
    verification = certify(program, np.diag([1.0, 0.0]), dual=[1.5, 1.5]).verify()
    assert verification.lower is None
    assert "interior" in verification.attained_reason
    assert 1 <= verification.upper <= 1.5


@pytest.mark.parametrize(("attack", "seed", "run"), [("garbage", 302, 5260), ("garbage", 103, 331)])
def test_what_fuzzing_found(attack: str, seed: int, run: int) -> None:
    """A pencil that LAPACK cannot factor; equations of free variables that hold to rounding."""
    rng = np.random.default_rng([seed, run])
    with np.errstate(all="ignore"):
        assert ATTACKS[attack](rng, Choice())[1] == []


def test_fuzzing_finds_nothing_wrong() -> None:
    """Some seconds of the command; its other seeds are for longer runs."""
    tally = fuzz(runs=120, seed=7, choice=Choice(solvers=["interior", "auto"]))
    assert tally.runs == 120
    assert tally.wrong == []
