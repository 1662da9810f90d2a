"""The fuzzer of `tests/fuzzing`: its planted programs are what they claim, its judge sees."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from fuzzing.fuzz import Choice, complaints, contradictions, fuzz, is_off, main, replay, told
from fuzzing.planted import Planted
from fuzzing.planted_values import ALL_KINDS
from fuzzing.routes import ROUTES, ROUTES_OF, Reply, as_model, model_of

from sdpkit.certificate.certify import certify
from sdpkit.solution.solution import Status

STRONG = ("solvable", "dense", "scaled", "offset", "zero")
NOT_LINEAR = ("log_det", "hinges")


def draw(kind: str, seed: int) -> Planted:
    return ALL_KINDS[kind][0](np.random.default_rng([seed, 5]))


# -- the programs -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STRONG)
def test_the_planted_pair_is_optimal(kind: str) -> None:
    """Primal and dual are feasible and both have the planted value, up to rounding."""
    for seed in range(10):
        planted = draw(kind, seed)
        program, x, dual = planted.program, planted.x, planted.dual
        assert planted.optimum is not None
        matrices = list(planted.matrices)
        certificate = certify(program, matrices, x, dual)
        optimum = float(planted.optimum)
        size = max(abs(program.offset), program.value_scale, abs(optimum))
        assert certificate.objective == pytest.approx(optimum, abs=1e-12 * size)
        assert program.rhs @ dual + program.offset == pytest.approx(optimum, abs=1e-12 * size)
        rounding = 1e-12 * certificate.terms / certificate.unit
        assert certificate.passes(max(1e-9, rounding))


@pytest.mark.parametrize("kind", ["solvable", "dense", "zero", "cones"])
def test_both_sides_have_an_interior(kind: str) -> None:
    """A point that is inside of every cone and inequality, and a bounded feasible set."""
    for seed in range(4):
        model = as_model(draw(kind, seed))
        t, limits = cp.Variable(), []
        for limit in model.constraints:
            if isinstance(limit, cp.constraints.Zero | cp.constraints.Equality):
                limits.append(limit)
            else:
                limits.append(limit.expr + t <= 0)
        total: Any = 0.0
        for v in model.variables():
            if v.attributes["PSD"]:
                limits.append(v >> t * np.eye(v.shape[0]))
                total = total + cp.trace(v)
            elif v.attributes["nonneg"]:
                limits.append(v >= t)
                total = total + cp.sum(v)
        inside = cp.Problem(cp.Maximize(t), [*limits, t <= 1])
        assert inside.solve(solver="CLARABEL") > 1e-3
        largest = cp.Problem(cp.Maximize(total), model.constraints)
        assert np.isfinite(largest.solve(solver="CLARABEL"))


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate:UserWarning")
@pytest.mark.parametrize("kind", [kind for kind in ALL_KINDS if "weak" in kind])
def test_weakly_infeasible_programs_have_points_of_small_residual(kind: str) -> None:
    """No point, yet rows met as well as one likes."""
    planted = draw(kind, 3)
    model = model_of(planted.program)
    slack = cp.Variable()
    relaxed = [
        cp.abs(limit.args[0] - limit.args[1]) <= slack
        if isinstance(limit, cp.constraints.Equality | cp.constraints.Zero)
        else limit
        for limit in model.constraints
    ]
    assert planted.status is Status.INFEASIBLE
    assert cp.Problem(cp.Minimize(slack), relaxed).solve(solver="CLARABEL") < 1e-3


@pytest.mark.parametrize("kind", ["solvable", "dense", "offset", "infeasible", "unbounded", "gap"])
def test_a_model_says_what_the_program_says(kind: str) -> None:
    program = draw(kind, 1).program
    model = model_of(program)
    rng = np.random.default_rng(0)
    matrices = []
    for block, v in zip(program.blocks, model_matrices(model), strict=True):
        a = rng.standard_normal((block.size, block.size))
        matrices.append(a @ a.T)
        v.value = matrices[-1]
    x = rng.random(program.n_auxiliary)
    others = [v for v in model.variables() if not v.attributes["PSD"]]
    for v in sorted(others, key=lambda v: bool(v.attributes["nonneg"])):
        free = not v.attributes["nonneg"]
        v.value = x[program.free_x == free]
    assert model.objective.value == pytest.approx(program.objective(matrices, x), rel=1e-12)


def model_matrices(model: cp.Problem) -> list[Any]:
    return sorted((v for v in model.variables() if v.attributes["PSD"]), key=lambda v: v.id)


# -- the judge --------------------------------------------------------------------------------


def test_an_objective_may_be_off_by_three_tolerances() -> None:
    assert not is_off(2.9e-6, Fraction(0))
    assert is_off(3.1e-6, Fraction(0))
    assert not is_off(1e6 + 2.9, Fraction(10**6))
    assert is_off(1e6 + 3.1, Fraction(10**6))
    assert is_off(float("nan"), Fraction(0))


@pytest.mark.parametrize(
    ("truth", "status", "strong", "warned", "wrong"),
    [
        ("optimal", "optimal", True, False, False),
        ("optimal", "inaccurate", True, False, False),
        ("optimal", "infeasible", True, False, True),
        ("optimal", "infeasible", False, True, True),
        ("optimal", "unbounded", False, True, True),
        ("optimal", "infeasible_or_unbounded", False, False, True),
        ("infeasible", "unbounded", False, True, True),
        ("infeasible", "infeasible_or_unbounded", False, False, False),
        ("infeasible", "optimal", True, True, True),
        ("infeasible", "optimal", False, False, True),
        ("infeasible", "optimal", False, True, False),
        ("unbounded", "infeasible", True, False, True),
        ("unbounded", "time_limit", True, False, False),
    ],
)
def test_statuses_that_contradict_the_truth(
    truth: str, status: str, strong: bool, warned: bool, wrong: bool
) -> None:
    assert bool(contradictions(Status(truth), status, strong, warned)) is wrong


def test_an_objective_that_is_off_needs_a_warning() -> None:
    """With an interior it is wrong all the same."""
    strong = draw("solvable", 0)
    assert strong.optimum is not None
    certificate = certify(strong.program, list(strong.matrices), strong.x, strong.dual)
    warned = replace(certificate, warnings=("a warning",))
    off = float(strong.optimum) + 1.0 + abs(float(strong.optimum))
    weak = replace(strong, strong=False)
    for planted, given, wrong in (
        (strong, certificate, True),
        (strong, warned, True),
        (weak, certificate, True),
        (weak, warned, False),
    ):
        assert bool(complaints(Reply("optimal", off, planted, given))) is wrong
    assert complaints(Reply("optimal", float(strong.optimum), strong, certificate)) == []


# -- the runs ---------------------------------------------------------------------------------


def test_the_choice_does_not_change_the_program() -> None:
    """A run that is repeated with its kind, route and solver alone draws the same numbers."""
    for number in range(20):
        first, second = (np.random.default_rng([3, number]) for _ in range(2))
        kind, route, solver = Choice().draw(first)
        again = Choice([solver], [kind], [route]).draw(second)
        assert again == (kind, route, solver)
        assert first.random() == second.random()
        assert route in ROUTES_OF.get(kind, ROUTES)


def test_a_wrong_run_is_repeated(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """With a tolerance of zero every answer is wrong: the words behind --replay repeat it."""
    monkeypatch.setattr("fuzzing.fuzz.is_off", lambda *_: True)
    choice = Choice(["interior"], ["dense"], ["program", "sdpa"])
    tally = fuzz(runs=2, seed=4, attacks=["statuses"], choice=choice)
    assert tally.failed.total() == len(tally.wrong) == 2
    words = tally.wrong[1].split()[1]
    assert replay(words).wrong == tally.wrong[1:]
    assert main(["--replay", words]) == 1
    assert "in truth optimal" in capsys.readouterr().out


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_brings_the_optimum_back(route: str) -> None:
    planted = draw("dense", 2)
    reply = ROUTES[route][0](planted, "interior", np.random.default_rng(0))
    assert reply.status == "optimal"
    assert complaints(reply) == []
    assert reply.certificate is not None


def test_files_without_a_comment_maximise() -> None:
    """The sense and the offset of a program are lost with the comment; the truth follows."""
    planted = next(p for p in (draw("offset", s) for s in range(99)) if p.program.sense == "min")
    seen = set()
    for seed in range(4):
        reply = ROUTES["sdpa"][0](planted, "interior", np.random.default_rng(seed))
        seen.add((reply.planted.program.sense, reply.planted.optimum))
    program, optimum = planted.program, planted.optimum
    assert optimum is not None
    assert seen == {("min", optimum), ("max", Fraction(program.offset) - optimum)}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_kind_can_be_drawn_and_solved(kind: str) -> None:
    route = "cvxpy" if kind == "cones" else "program"
    solver = "auto" if kind in NOT_LINEAR else "interior"
    reply = told(np.random.default_rng(1), kind, route, solver)
    assert reply.status in {*(str(s) for s in Status), "optimal_inaccurate"}


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--runs", "6", "--attacks", "statuses", "--kinds", "dense", "--routes", "program"]
    assert main([*arguments, "--solvers", "interior", "clarabel"]) == 0
    out = capsys.readouterr().out
    assert "6 runs, 0 wrong" in out
    assert "large optimum: 100.0 % of 6 optimal" in out
