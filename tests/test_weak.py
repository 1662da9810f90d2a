"""Programs that are feasible or infeasible by a hair: what is claimed of them must be true."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fuzzing.weak import (
    FEASIBLE,
    INFEASIBLE,
    UNBOUNDED,
    MatrixProgram,
    complaint,
    disguised,
    embedded,
    entry,
    rotated,
)

import sdpkit
from sdpkit import Block, Cost, Program, certify
from sdpkit.certificate.faces import Face, FaceProof, exact_contradiction
from sdpkit.certificate.points import FeasiblePoint
from sdpkit.certificate.rational import (
    independent,
    is_semidefinite,
    kernel_of_semidefinite,
    near_solution,
    null_space,
)
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.plugins import registered
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solution import WITHOUT_OPTIMUM, Solution, Status
from sdpkit.solution.solver import Capabilities
from sdpkit.solving.choice import offers
from sdpkit.solving.feasibility import decide
from sdpkit.solving.registry import get_solver
from sdpkit.solving.run import Run

KINDS = {**INFEASIBLE, **FEASIBLE, **UNBOUNDED}
INTERIOR = get_solver("interior")


@pytest.fixture(autouse=True)
def without_convergence_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        yield


def drawn(kind: str, seed: int) -> tuple[MatrixProgram, bool]:
    """(a program of a kind in one of five disguises, whether its data are exact)"""
    rng = np.random.default_rng([seed, 3])
    draft, how = KINDS[kind](rng), seed % 5
    if how == 1:
        draft = disguised(draft, rng)
    elif how == 2:
        draft = disguised(draft, rng, 20)
    elif how == 3:
        draft = disguised(embedded(draft, rng), rng, 4)
    elif how == 4:
        draft = rotated(draft, rng, 10.0 ** int(rng.integers(-6, 7)))
    return draft, how != 4


def stranger() -> Program:
    """(e₁ − e₂)ᵀM(e₁ − e₂) = 0 forces M(e₁ − e₂) = 0; the other row wants e₁ᵀM(e₁ − e₂) = 1."""
    vectors = [[1, 0, 0], [0, 1, 0], [1, 1, 0]]
    block = Block.of(3, vectors, cost=Cost.of(3, sparse=np.diag([0, 0, 1.0])))
    return Program.of(block, [0.0, 2.0], rows_q=[[2, 2, -1], [3, 1, -1]])


# -- statuses -------------------------------------------------------------------------------

GENERAL = [offer.solver.name for offer in offers(stranger()) if offer.refusal is None]


def seeds(fast: int, last: int) -> list[Any]:
    """Seeds from 0 to `last`, those from `fast` on for the slow set."""
    slow = (pytest.param(seed, marks=pytest.mark.slow) for seed in range(fast, last))
    return [*range(fast), *slow]


@pytest.mark.parametrize("solver", GENERAL)
def test_a_weakly_infeasible_program_is_proven_so_by_every_solver(solver: str) -> None:
    solution = sdpkit.solve(stranger(), solver=solver)
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    assert "infeasible: rational arithmetic on a face" in solution.ray.verify().reason
    says_what_the_objective_is(solution)


def says_what_the_objective_is(solution: Solution) -> None:
    told = "no point is returned" if np.isnan(solution.objective) else "no solution"
    assert told in solution.message


def test_a_point_far_out_does_not_hide_that_there_is_none() -> None:
    """M₁₁ = 0 and M₁₂ = 1 are met to any residual by a large M₂₂."""
    block = Block.of(2, [[1, 0], [0, 1], [1, 1]])
    program = Program.of(block, [0.0, 2.0], rows_q=[[1, 0, 0], [-1, -1, 1]])

    class FarOut:
        name = "far-out"
        capabilities = Capabilities(summary="returns a point of tiny residual, far out")

        def unavailable(self) -> None:
            return None

        def accepts(self, program: Program) -> None:
            return None

        def seconds(self, program: Program, tol: float) -> float:
            return 1.0

        def memory(self, program: Program) -> float:
            return 0.0

        def solve(self, program: Program, settings: Settings) -> Answer:
            far = np.array([[1e-16, 1.0], [1.0, 1e16]])
            return Answer(Stop.DONE, "optimal", (far,), np.zeros(0), np.zeros(2))

    far = certify(program, [np.array([[1e-16, 1.0], [1.0, 1e16]])], dual=np.zeros(2))
    assert far.passes(1e-6)
    assert far.warnings
    with registered(FarOut()):
        for name in ("far-out", "interior", "clarabel", "auto"):
            solution = sdpkit.solve(program, name)
            assert solution.status is Status.INFEASIBLE
            assert solution.ray is not None
            assert solution.ray.verify()


@pytest.mark.parametrize("kind", INFEASIBLE)
@pytest.mark.parametrize("seed", seeds(12, 50))
def test_weakly_infeasible_programs_are_never_unbounded(kind: str, seed: int) -> None:
    draft, exact = drawn(kind, seed)
    solution = sdpkit.solve(draft.program(), solver="interior")
    assert not complaint(solution.status, kind)
    if exact:
        assert solution.status is Status.INFEASIBLE
        assert solution.ray is not None
        assert solution.ray.verify()


@pytest.mark.parametrize("solver", ["projection", "clarabel"])
@pytest.mark.parametrize("kind", INFEASIBLE)
@pytest.mark.parametrize("seed", range(4))
def test_nor_are_they_for_other_solvers(kind: str, seed: int, solver: str) -> None:
    draft, _ = drawn(kind, seed)
    solution = sdpkit.solve(draft.program(), solver=solver, time_limit=20)
    assert not complaint(solution.status, kind)


@pytest.mark.slow
@pytest.mark.parametrize("solver", GENERAL)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_no_solver_claims_what_is_wrong(kind: str, seed: int, solver: str) -> None:
    draft, _ = drawn(kind, seed)
    solution = sdpkit.solve(draft.program(), solver=solver, time_limit=20)
    assert not complaint(solution.status, kind)


@pytest.mark.parametrize("kind", FEASIBLE)
@pytest.mark.parametrize("seed", seeds(10, 25))
def test_feasible_programs_are_never_called_otherwise(kind: str, seed: int) -> None:
    draft, _ = drawn(kind, seed)
    solution = sdpkit.solve(draft.program(), solver="interior")
    assert not complaint(solution.status, kind)
    found = decide(Run(Settings()), draft.program(), INTERIOR)
    assert found.ray is None


@pytest.mark.parametrize("kind", UNBOUNDED)
@pytest.mark.parametrize("seed", seeds(8, 20))
def test_unbounded_programs_come_with_a_point_and_a_direction(kind: str, seed: int) -> None:
    draft, exact = drawn(kind, seed)
    solution = sdpkit.solve(draft.program(), solver="interior")
    if not exact and kind == "unbounded_on_a_face":
        assert solution.status in (Status.INFEASIBLE_OR_UNBOUNDED, Status.INACCURATE)
        return
    assert solution.status is Status.UNBOUNDED
    assert solution.ray is not None
    assert solution.certificate.primal_residual <= 1e-8
    assert np.isfinite(solution.objective)
    if exact:
        assert solution.ray.verify().reason.startswith("the program is unbounded")


def test_a_direction_without_a_point_says_what_is_known() -> None:
    draft = rotated(KINDS["pair"](np.random.default_rng(0)), np.random.default_rng(1))
    solution = sdpkit.solve(draft.program(), solver="interior")
    assert solution.status is Status.INFEASIBLE_OR_UNBOUNDED
    assert "the dual is infeasible" in solution.message
    assert "To decide" in solution.message
    says_what_the_objective_is(solution)


@pytest.mark.parametrize("small", [2.0**-20, 1e-9, 1e-12, 1e-14])
def test_large_points_are_not_excluded_by_multipliers_that_hide_what_they_lack(
    small: float,
) -> None:
    """M₁₁ = δ and M₁₂ = 1 have points of size 1/δ: no multipliers may pass as a ray."""
    program = MatrixProgram.of(
        [entry(2, 0, 0), entry(2, 0, 1, 2.0)], [small, 2], np.zeros((2, 2))
    ).program()
    for t in 10.0 ** np.arange(3, 15):
        assert not certify_infeasible(program, [t, -1.0]).passes(1e-6)


# -- faces ----------------------------------------------------------------------------------


def test_a_chain_is_checked_link_by_link() -> None:
    program = stranger()
    ray = decide(Run(Settings()), program, INTERIOR).ray
    assert ray is not None
    assert ray.chain is not None
    assert ray.chain.holds(program)
    feasible = replace(program, rhs=np.array([1.0, 2.0]))
    assert not ray.chain.holds(feasible)
    without = replace(ray, chain=replace(ray.chain, exposing=()))
    assert not without.verify()
    assert "chain" in without.verify().reason
    wrong = FaceProof(
        tuple(tuple(-a for a in y) for y in ray.chain.exposing), ray.chain.contradiction
    )
    assert not wrong.holds(program)


def test_an_inequality_that_an_exposing_vector_uses_is_an_equation() -> None:
    """M₁₁ ≤ 0 and M₁₂ ≥ 1."""
    block = Block.of(2, [[1.0, 0], [0, 1], [1, 1]])
    rows = [[1.0, 0, 0], [-0.5, -0.5, 0.5]]
    program = Program.of(block, [0.0, 1.0], rows_q=rows, relations=["<=", ">="])
    ray = decide(Run(Settings()), program, INTERIOR).ray
    assert ray is not None
    assert ray.verify()


def test_equations_that_contradict_each_other_on_a_face() -> None:
    """M₁₁ = 0 makes x₁ the only part of two equations, which disagree."""
    block = Block.of(2, [[1.0, 0], [1, 1], [0, 1]])
    program = Program.of(
        block,
        [0.0, 1.0, 2.0],
        rows_q=[[1.0, 0, 0], [-1, 1, -1], [1, 0, 0]],
        rows_x=sp.csr_array([[0.0], [1.0], [1.0]]),
        free_x=[True],
    )
    ray = decide(Run(Settings()), program, INTERIOR).ray
    assert ray is not None
    assert ray.verify()


def test_right_hand_sides_that_differ_by_rounding_contradict_nothing() -> None:
    """x = 0.1 + 0.2 and x = 0.3: a theorem says infeasible, the model does not."""
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=-1.0))
    program = Program.of(
        block,
        [0.1 + 0.2, 0.3, 1.0],
        rows_q=[[0.0], [0.0], [1.0]],
        rows_x=[[1.0], [1.0], [0.0]],
        free_x=[True],
    )
    assert exact_contradiction(program, np.array([-1.0, 1.0, 0.0])) is not None
    assert not certify_infeasible(program, [-1.0, 1.0, 0.0]).passes(1e-6)
    assert decide(Run(Settings()), program, INTERIOR).ray is None
    assert sdpkit.solve(program, solver="interior").status not in WITHOUT_OPTIMUM


def test_null_directions_are_part_of_the_face() -> None:
    """M₁₁ = 0 as a null direction, M₁₂ = 1 as a row."""
    block = Block.of(2, [[1.0, 0], [0, 1], [1, 1]], null=[1.0, 0.0])
    program = Program.of(block, [1.0], rows_q=[[-0.5, -0.5, 0.5]])
    ray = decide(Run(Settings()), program, INTERIOR).ray
    assert ray is not None
    assert ray.verify()


def test_large_programs_have_no_exact_face() -> None:
    large = Program.of(Block.of(60, np.eye(60)), np.ones(60))
    assert Face.of(large) is None
    point = decide(Run(Settings()), large, INTERIOR).point
    assert point is not None
    assert point.proof(large)


def test_a_point_is_proven_for_its_program_only() -> None:
    program = Program.of(Block.of(2, np.eye(2)), [1.0, 1.0])
    point = FeasiblePoint((np.eye(2),), np.zeros(0))
    assert point.proof(program)
    assert not point.proof(replace(program, rhs=np.array([1.0, -1.0])))
    assert not FeasiblePoint((np.full((2, 2), np.nan),), np.zeros(0)).proof(program)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e155, 1e300])
def test_numbers_at_the_ends_of_the_range_break_nothing(size: float) -> None:
    """size²·M₁₁ = 0 and size·(…) = 2 overflow or underflow in their own units."""
    vectors = size * np.array([[1.0, 0], [0, 1], [1, 1]])
    program = Program.of(Block.of(2, vectors), [0.0, 2.0], rows_q=[[1.0, 0, 0], [-1, -1, 1]])
    with np.errstate(all="ignore"):
        assert decide(Run(Settings()), program, INTERIOR).point is None
        ray = certify_infeasible(program, [1e8, -1.0])
    assert not ray.passes(1e-6)


# -- directions -----------------------------------------------------------------------------


def test_directions_with_an_interior_are_verified_in_floating_point() -> None:
    """max √2·x with x₁ − πx₂ = 0: no simple fractions, but an interior."""
    program = Program.of(
        Block.of(1, [[1.0]], cost=Cost.of(1, identity=np.sqrt(2))),
        [0.0],
        rows_q=[[1.0]],
        rows_x=[[-np.pi, 1.0]],
        cost_x=[0.0, 0.0],
    )
    assert certify_unbounded(program, [np.array([[np.pi]])], [1.0, 1e-9]).verify()


def test_a_direction_that_is_off_by_rounding_is_not_verified() -> None:
    """max x₁ with x₁ ≤ x₂ ≤ 1 + (1 − ε)x₁: bounded by 1/ε, whatever passes as a direction."""
    program = Program.of(
        Block.of(1, [[1.0]]),
        [0.0, 1.0, 1.0],
        rows_q=[[0.0], [0.0], [1.0]],
        rows_x=[[1.0, -1.0], [-(1 - 2.0**-50), 1.0], [0, 0]],
        relations=[-1, -1, 0],
        cost_x=[1.0, 0.0],
    )
    ray = certify_unbounded(program, [np.zeros((1, 1))], [1.0, 1.0])
    assert not ray.verify()
    assert "not exactly" in ray.verify().reason


def test_directions_of_disconnected_graphs_are_verified() -> None:
    program = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)).program()
    block = program.blocks[0]
    apart = replace(
        block,
        size=7,
        incidence=sp.csr_array(
            (block.incidence.data, block.incidence.indices, block.incidence.indptr), shape=(5, 7)
        ),
        cost=Cost.of(7, identity=1.0),
        null=np.ones((7, 1)),
    )
    program = Program.of(apart, program.rhs)
    solution = sdpkit.solve(program, solver="interior")
    assert solution.status is Status.UNBOUNDED
    assert solution.ray is not None
    assert solution.ray.verify()


def test_log_dets_grow_along_any_direction() -> None:
    program = Program.of(Block.of(2, [[1.0, 0]], log_det=1.0), [1.0])
    ray = certify_unbounded(program, [np.diag([0.0, 1.0])], [])
    assert ray.verify()
    assert not certify_unbounded(program, [np.diag([1.0, 0.0])], []).verify()


@pytest.mark.parametrize("solver", ["clarabel", "scs"])
def test_a_log_det_that_is_infinite_at_every_point_is_not_unbounded(solver: str) -> None:
    """M₁₁ = 0 makes every feasible M singular, although M₂₂ may grow without end."""
    cost = Cost.of(2, sparse=np.diag([0.0, 1.0]))
    block = Block.of(2, np.eye(2), cost=cost, log_det=1.0)
    program = Program.of(block, [0.0], rows_q=[[1.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = sdpkit.solve(program, solver=solver)
    assert solution.status is not Status.UNBOUNDED
    assert solution.ray is None or "program is unbounded" not in solution.ray.verify().reason


# -- cvxpy ----------------------------------------------------------------------------------


def test_models_whose_equations_agree_to_rounding_are_feasible() -> None:
    cp = pytest.importorskip("cvxpy")
    x = cp.Variable(3)
    model = cp.Problem(cp.Minimize(0), [x == np.array([0.1, 0.2, 0.7]), cp.sum(x[:2]) == 0.3])
    model.solve(solver=sdpkit.cvxpy_solver("interior"))
    assert model.status == cp.OPTIMAL


@pytest.mark.parametrize("slope", [1e-3, 1e-6, 1e-9])
def test_what_costs_a_square_is_no_direction(slope: float) -> None:
    """max c M − ½x², a M − x = 1: x follows M, however slowly, and its square bounds the value."""
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1e-6))
    curved: dict[str, Any] = {"rows_x": [[-1.0]], "free_x": [True], "quadratic_x": [1.0]}
    program = Program.of(block, [1.0], rows_q=[[slope]], **curved)
    for x in (0.0, slope):
        assert not certify_unbounded(program, [np.eye(1)], [x]).passes(1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        assert sdpkit.solve(program, "interior").status not in WITHOUT_OPTIMUM


@pytest.mark.parametrize("corner", [0.0, 1.0])
def test_models_without_a_point_are_not_unbounded(corner: float) -> None:
    """X₁₁ = 0 and X₁₂ = 1 beside something that may grow; feasible if X₁₁ = 1."""
    cp = pytest.importorskip("cvxpy")
    x = cp.Variable((3, 3), symmetric=True)
    y = cp.Variable()
    model = cp.Problem(cp.Maximize(x[2, 2] + y), [x >> 0, x[0, 0] == corner, x[0, 1] == 1, y <= 1])
    model.solve(solver=sdpkit.cvxpy_solver("interior"))
    assert model.status == (cp.UNBOUNDED if corner else cp.INFEASIBLE)


@pytest.mark.parametrize("corner", [0.0, 1.0])
def test_matrix_inequalities_without_a_point_are_not_unbounded(corner: float) -> None:
    """[[corner, 1], [1, s]] ⪰ 0 in the entries s and t of a vector; t may grow."""
    cp = pytest.importorskip("cvxpy")
    s, t = cp.Variable(), cp.Variable()
    constant = np.array([[corner, 1.0], [1.0, 0.0]])
    matrix = constant + s * np.diag([0.0, 1.0])
    model = cp.Problem(cp.Maximize(t), [matrix >> 0, t >= -s])
    model.solve(solver=sdpkit.cvxpy_solver("interior"))
    known = cp.UNBOUNDED if corner else cp.INFEASIBLE
    assert model.status in (known, cp.settings.INFEASIBLE_OR_UNBOUNDED)


def test_the_command_line_ends_with_3(tmp_path: Any, capsys: Any) -> None:
    from sdpkit.cli.main import main

    draft = rotated(KINDS["pair"](np.random.default_rng(0)), np.random.default_rng(1))
    draft.program().save(tmp_path / "open.npz")
    assert main(["solve", str(tmp_path / "open.npz"), "--solver", "interior"]) == 3
    assert "infeasible_or_unbounded" in capsys.readouterr().out


# -- rational arithmetic --------------------------------------------------------------------


def test_linear_algebra_in_fractions() -> None:
    one, two, zero = Fraction(1), Fraction(2), Fraction(0)
    assert null_space([[one, two]], 2) == [[-two, one]]
    assert null_space([], 2) == [[one, zero], [zero, one]]
    assert independent([[one, two], [two, two + two], [zero, one]]) == [0, 2]
    assert near_solution([[one, one]], [one], np.array([0.3, 0.7]))[0][1] == Fraction(7, 10)
    assert near_solution([[zero, zero]], [one], np.zeros(2)) == []
    assert is_semidefinite([[one, one], [one, one]])
    assert not is_semidefinite([[zero, one], [one, one]])
    assert kernel_of_semidefinite([[one, one], [one, one]]) == [[-one, one]]
    assert kernel_of_semidefinite([[-one]]) is None
