"""Good answers of other solvers are believed and wrong ones are not: models as people write them.

`make bench NAME=judging` does the same for many more models and solvers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bench import judged_models
from cvxpy.tests import solver_test_helpers

import sdpkit
from sdpkit.certificate.bounds import safe_bound
from sdpkit.certificate.certify import certify
from sdpkit.certificate.complementary import complementary
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.program.second_order import SecondOrderCone


def made(kind: Callable[..., cp.Problem], *sizes: Any) -> Callable[[], cp.Problem]:
    return lambda: kind(np.random.default_rng(0), *sizes)


# Equations that depend on each other; zero multipliers; duals without an interior; values of
# linear matrix inequalities that a small error in the multipliers moves far.
BELIEVED: dict[str, Callable[[], cp.Problem]] = {
    "dependent equations": lambda: solver_test_helpers.lp_5().prob,
    "zero multipliers": lambda: solver_test_helpers.lp_7().prob,
    "mixing chain": made(judged_models.fastest_mixing, 6),
    "sum of squares": made(judged_models.sum_of_squares, 4),
    "S-lemma": made(judged_models.s_lemma, 12),
    "matrix fraction": made(judged_models.matrix_fraction, 8),
    "H-infinity": made(judged_models.h_infinity, 2),
    "Lyapunov": made(judged_models.lyapunov, 2),
    "worst case": made(judged_models.worst_case, 4),
    "huber": made(judged_models.huber, 4),
    "exact fit": made(judged_models.exact_fit, 2),
}


@pytest.mark.parametrize("name", list(BELIEVED))
def test_a_good_answer_is_believed_and_a_changed_one_is_not(name: str) -> None:
    model = BELIEVED[name]()
    model.solve(solver="CLARABEL")
    certificate = sdpkit.certify_cvxpy(model)
    assert certificate.passes(1e-5), certificate
    worth = abs(model.objective.value)
    for variable in model.variables():
        variable.save_value(0.5 * variable.value - 0.1)
    changed = sdpkit.certify_cvxpy(model)
    moved = abs(model.objective.value - certificate.objective) > 1e-4 * max(1.0, worth)
    feasible = all(np.max(c.violation(), initial=0.0) < 1e-4 for c in model.constraints)
    assert moved or not feasible, "the change should matter"
    assert not changed.passes(1e-5)


def test_complementary_multipliers_are_feasible_to_rounding() -> None:
    """Where a linear program's optima are unbounded, its dual has no interior."""
    rows = np.array([[1.0, -1.0, 2.0], [2.0, -2.0, 4.0]])
    program = Program.of(
        Block.of(1, np.ones((1, 1))),
        [1.0, 2.0],
        rows_q=np.zeros((2, 1)),
        rows_x=rows,
        sense="min",
        cost_x=[0.1, -0.1, 0.7],
    )
    w = np.array([0.03, 0.035]) * (1 - 1e-9)
    x = np.array([2.0, 1.0, 0.0])
    assert not np.isfinite(safe_bound(program, -w).value)
    moved = next(complementary(program, [np.zeros((1, 1))], x, -w))
    bound = safe_bound(program, moved)
    assert bound.source in ("feasible dual", "dual feasible up to rounding")
    assert abs(bound.value + 0.1) < 1e-14
    assert np.abs(moved + w).max() < 1e-9


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("size", [1e8, 1e13, 1e15])
def test_huge_multipliers_that_cancel_prove_nothing(size: float, free: bool) -> None:
    """max x, x − z = 0, z − x = 0 is unbounded; multipliers (s, s) miss its dual by 1 only."""
    program = Program.of(
        Block.of(1, np.ones((1, 1))),
        [0.0, 0.0],
        rows_q=np.zeros((2, 1)),
        rows_x=[[1.0, -1.0], [-1.0, 1.0]],
        cost_x=[1.0, 0.0],
        free_x=[free, free],
    )
    certificate = certify(program, np.zeros((1, 1)), [0.0, 0.0], [size, size])
    assert certificate.safe_bound == np.inf
    assert not certificate.passes(0.1)


def test_complementary_multipliers_of_a_second_order_cone() -> None:
    """min ‖(3, 4)‖ as a cone; the multipliers are outside of it by their error."""
    program = Program.of(
        Block.of(1, np.ones((1, 1))),
        [3.0, 4.0],
        rows_q=np.zeros((2, 1)),
        rows_x=[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        sense="min",
        cost_x=[1.0, 0.0, 0.0],
        free_x=[True] * 3,
        cones=[SecondOrderCone.of([0, 1, 2])],
    )
    x, w = np.array([5.0, 3.0, 4.0]), -np.array([0.6, 0.8]) * (1 + 1e-8)
    moved = next(complementary(program, [np.zeros((1, 1))], x, w))
    assert abs(safe_bound(program, moved).value + 5.0) < 1e-12


def test_a_point_next_to_zero_becomes_zero() -> None:
    """Every right-hand side is zero here, and so is the only size that residuals could have."""
    A, B, C, T = cp.Variable((2, 2)), cp.Variable((2, 2)), cp.Variable((3, 2)), np.full((2, 3), 2.0)
    model = cp.Problem(cp.Minimize(1), [A >= T @ C, A == B, C == T.T])
    assert model.solve(solver=sdpkit.cvxpy_solver("interior")) == pytest.approx(1.0)
    assert model.status == "optimal"
    assert A.value.min() > 12 - 1e-6
    assert A.value == pytest.approx(B.value)
