"""Answers in the user's units: a deterministic sample of the fuzzer's runs finds nothing wrong."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
from fuzzing.fuzz import Choice, fuzz, replay
from fuzzing.planted_values import ALL_KINDS
from fuzzing.routes import ROUTES, TOL
from planted_models import planted_model

import sdpkit

FAST = ("interior", "auto", "clarabel")
STRONG = ("solvable", "dense", "scaled", "offset", "zero", "cones")
# A log det moves by a constant with the unit of length: its programs have another unit.
WITHOUT_LOG_DET = [s for s in range(12) if "log_determinant" not in planted_model(s)[2]]
OTHERS = tuple(kind for kind in ALL_KINDS if kind not in STRONG)


@pytest.mark.parametrize("route", ROUTES)
def test_optimal_means_near_the_optimum(route: str) -> None:
    choice = Choice(FAST, STRONG, [route])
    tally = fuzz(runs=24, seed=2027, attacks=["statuses"], choice=choice)
    assert tally.wrong == []
    if route != "certify":  # there the answers are Clarabel's, right or not
        optimal, runs = tally.share("large optimum")
        assert optimal >= 0.95 * runs > 0


@pytest.mark.parametrize("route", ["program", "sdpa", "cvxpy"])
def test_programs_without_an_interior_or_an_optimum(route: str) -> None:
    choice = Choice(FAST, OTHERS, [route])
    assert fuzz(runs=16, seed=2028, attacks=["statuses"], choice=choice).wrong == []


@pytest.mark.parametrize("number", [28, 44])
def test_weakly_infeasible_programs_are_not_unbounded(number: int) -> None:
    """Points of any small residual exist, and a direction that improves without end."""
    assert replay(f"statuses:weak_hidden:program:interior:2028:{number}").wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["lowrank", "projection"])
def test_first_order_answers_are_near_the_optimum(solver: str) -> None:
    choice = Choice([solver], ["zero", "offset"], ["program", "sdpa"])
    assert fuzz(runs=6, seed=2029, attacks=["statuses"], choice=choice).wrong == []


@pytest.mark.parametrize("seed", WITHOUT_LOG_DET)
def test_models_whose_terms_cancel(seed: int) -> None:
    """Every atom of cvxpy's cones, times up to 1e6, with a constant that cancels the optimum."""
    model, value, _ = planted_model(seed)
    times = 10.0 ** np.random.default_rng(seed).uniform(2, 6)
    goal = type(model.objective)(times * model.objective.expr - times * value)
    model = cp.Problem(goal, model.constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = sdpkit.from_cvxpy(model)
        solution = sdpkit.solve(program, solver="interior", tol=TOL)
        model.solve(solver="CLARABEL")
        certificate = sdpkit.certify_cvxpy(model)
    if solution.status == "optimal":
        assert abs(solution.objective) <= 3 * TOL
    if certificate.passes(TOL):
        assert abs(certificate.objective) <= 3 * TOL


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_answers(seed: int) -> None:
    tally = fuzz(runs=1000, seed=3000 + seed, attacks=["statuses"])
    assert tally.wrong == []
    optimal, runs = tally.share("large optimum")
    assert optimal >= 0.95 * runs
