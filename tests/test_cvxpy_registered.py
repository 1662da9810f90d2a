"""sdpkit's solvers by name in `problem.solve`, held to the tests that cvxpy has for its solvers."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.tests import solver_test_helpers as theirs

import sdpkit
from sdpkit.conic import registration
from sdpkit.solving.registry import available_solvers

VERSION = tuple(map(int, cp.__version__.split(".")[:2]))
# A class of tests may be younger than the cvxpy that is installed.
CLASSES = [
    getattr(theirs, f"StandardTest{kind}", None)
    for kind in ("LPs", "QPs", "SOCPs", "SDPs", "InfeasibleProblems")
]
OTHER_CLASSES = [
    getattr(theirs, f"StandardTest{kind}", None) for kind in ("ECPs", "MixedCPs", "PCPs")
]
# lp_7 is a test of the package sdpap; bound attributes are for solvers that take bounds apart.
NOT_FOR_US = ("test_lp_7", "test_lp_bound_attr", "test_qp_bound_attr", "test_socp_bounds_attr")
OTHER_CONES = ("exp", "power")


def named_tests(classes: list[Any]) -> list[Any]:
    """The standard tests of cvxpy without integers."""
    return [
        pytest.param(getattr(kind, name), id=name.removeprefix("test_"))
        for kind in classes
        if kind is not None
        for name in sorted(vars(kind))
        if name.startswith("test_") and not name.startswith("test_mi_") and name not in NOT_FOR_US
    ]


def needs_other_cones(test: Any) -> bool:
    return any(word in test.id for word in OTHER_CONES)


STANDARD = named_tests(CLASSES)
OTHERS = [*filter(needs_other_cones, STANDARD), *named_tests(OTHER_CLASSES)]


@pytest.fixture(autouse=True)
def registered() -> None:
    sdpkit.register()


@pytest.mark.filterwarnings("ignore::UserWarning")  # cvxpy runs them with its warnings off
@pytest.mark.parametrize("solver", ["SDPKIT", "SDPKIT_INTERIOR"])
@pytest.mark.parametrize("test", [test for test in STANDARD if not needs_other_cones(test)])
def test_standard_tests_of_cvxpy(test: Any, solver: str) -> None:
    test(solver=solver)


@pytest.mark.parametrize("test", OTHERS)
def test_other_cones_are_refused_with_advice(test: Any) -> None:
    with pytest.raises(cp.error.SolverError, match="certify_cvxpy") as error:
        test(solver="SDPKIT")
    assert "from_cvxpy" in str(error.value)
    assert isinstance(error.value, sdpkit.SolverError)


def test_a_log_det_is_refused_with_advice_that_works() -> None:
    P = cp.Variable((2, 2), PSD=True)
    model = cp.Problem(cp.Maximize(cp.log_det(P) - cp.trace(P)))
    with pytest.raises(cp.error.SolverError, match=r"solve\(sdpkit.from_cvxpy\(problem"):
        model.solve(solver="SDPKIT")
    sdpkit.solve(sdpkit.from_cvxpy(model)).unpack(model)
    assert model.value == pytest.approx(-2, abs=1e-5)


def test_integers_are_refused() -> None:
    x = cp.Variable(integer=True)
    with pytest.raises(cp.error.SolverError):
        cp.Problem(cp.Minimize(x), [x >= 0.5]).solve(solver="SDPKIT")


def test_names_in_the_tables() -> None:
    names = sdpkit.register()
    assert names == sdpkit.register()
    assert names[0] == "SDPKIT"
    assert {"SDPKIT_INTERIOR", "SDPKIT_PROJECTION", "SDPKIT_LOWRANK"} <= set(names)
    assert not {"SDPKIT_CLARABEL", "SDPKIT_COVERING", "SDPKIT_DYKSTRA"} & set(names)
    installed = cp.installed_solvers()
    assert set(names) <= set(installed)
    assert len(set(installed)) == len(installed)
    assert not any(name.startswith("sdpkit") for name in available_solvers())


@pytest.mark.filterwarnings("ignore:::osqp")  # older versions of cvxpy pass it old names
def test_cvxpys_own_choice_stays() -> None:
    x = cp.Variable(2)
    X = cp.Variable((2, 2), PSD=True)
    for objective, constraints in (
        (cp.sum(x), [x >= 1]),
        (cp.sum_squares(x), [x >= 1]),
        (cp.norm(x), [x >= 1]),
        (cp.trace(X), [X[0, 1] == 1]),
        (cp.sum(cp.exp(x)), [x >= 1]),
    ):
        model = cp.Problem(cp.Minimize(objective), constraints)
        model.solve()
        assert not model.solver_stats.solver_name.startswith("SDPKIT")


def test_a_solver_itself_registers_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(registration.defines.SOLVER_MAP_CONIC, "SDPKIT")
    sdpkit.cvxpy_solver("interior")
    assert "SDPKIT" in registration.defines.SOLVER_MAP_CONIC


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("1.4.3", "1.10.0", "2.0", "1"):
        monkeypatch.setattr(cp, "__version__", version)
        with pytest.raises(sdpkit.InputError, match=r"cvxpy_solver\('interior'\)"):
            sdpkit.register()
        sdpkit.cvxpy_solver("interior")  # still works


def least_squares() -> tuple[cp.Problem, cp.Variable]:
    r = np.random.default_rng(3)
    A, b, x = r.standard_normal((12, 6)), r.standard_normal(12), cp.Variable(6)
    return cp.Problem(cp.Minimize(cp.sum_squares(A @ x - b)), [x >= 0]), x


def test_options_reach_the_solver() -> None:
    model, _ = least_squares()
    model.solve(solver="SDPKIT_INTERIOR", eps=1e-9)
    assert model.solver_stats.extra_stats.passes(1e-9)
    fine = model.solver_stats.num_iters
    assert model.solver_stats.solver_name == "SDPKIT_INTERIOR"
    assert model.solver_stats.solve_time > 0
    assert model.solver_stats.setup_time > 0
    model.solve(solver="SDPKIT_INTERIOR", eps=1e-2, warm_start=False)
    assert model.solver_stats.num_iters < fine
    with pytest.warns(UserWarning, match="inaccurate"):
        model.solve(solver="SDPKIT_INTERIOR", max_iters=2, warm_start=False)
    assert model.status == cp.USER_LIMIT
    with pytest.raises(sdpkit.InputError, match="eps and tol mean the same"):
        model.solve(solver="SDPKIT", eps=1e-3, tol=1e-3)
    with pytest.raises(sdpkit.SdpkitError, match="foo"):
        model.solve(solver="SDPKIT_INTERIOR", foo=1)


def test_verbose_shows_the_iterations(capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = least_squares()
    model.solve(solver="SDPKIT_INTERIOR")
    assert capsys.readouterr().out == ""
    model.solve(solver="SDPKIT_INTERIOR", verbose=True)
    told = capsys.readouterr()
    assert "certified relative gap" in told.out + told.err


def max_cut(n: int) -> tuple[cp.Problem, cp.Parameter]:
    W = cp.Parameter((n, n), symmetric=True)
    edges = np.triu(np.random.default_rng(0).random((n, n)), 1)
    W.value = edges + edges.T
    X = cp.Variable((n, n), PSD=True)
    objective = cp.Maximize(cp.sum(cp.multiply(W, 1 - X)) / 4)
    return cp.Problem(objective, [cp.diag(X) == 1]), W


def test_new_parameters_start_at_the_last_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    model, W = max_cut(30)
    model.solve(solver="SDPKIT_INTERIOR", enforce_dpp=True)
    monkeypatch.setattr(cp.reductions.Dcp2Cone, "apply", None)  # cvxpy compiles it once
    W.value = W.value * (1 + 1e-4 * np.cos(np.add.outer(np.arange(30), np.arange(30))))
    model.solve(solver="SDPKIT_INTERIOR", enforce_dpp=True)
    warm, value = model.solver_stats.num_iters, model.value
    model.solve(solver="SDPKIT_INTERIOR", enforce_dpp=True, warm_start=False)
    assert warm < model.solver_stats.num_iters
    assert value == pytest.approx(model.value, rel=1e-5)


def test_a_start_of_another_shape_is_left_out() -> None:
    # With c = 0 a row of the compiled program is empty and leaves it.
    x, c = cp.Variable(2), cp.Parameter(value=1.0)
    model = cp.Problem(cp.Minimize(cp.sum_squares(x)), [c * x[0] + x[1] >= c, x[1] >= c])
    for value in (1.0, 0.0, 1.0):
        c.value = value
        model.solve(solver="SDPKIT_INTERIOR")
        assert model.status == cp.OPTIMAL
        assert model.value == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("solver", ["SDPKIT", "SDPKIT_INTERIOR"])
def test_without_constraints(solver: str) -> None:
    r = np.random.default_rng(3)
    A, b, x = r.standard_normal((12, 6)), r.standard_normal(12), cp.Variable(6)
    free = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - b)))
    free.solve(solver=solver)
    assert free.status == cp.OPTIMAL
    assert np.allclose(x.value, np.linalg.lstsq(A, b, rcond=None)[0], atol=1e-5)


@pytest.mark.parametrize("fit", [cp.sum_squares, cp.norm, cp.norm1, cp.norm_inf])
def test_an_exact_fit_is_optimal(fit: Any) -> None:
    r = np.random.default_rng(5)
    A, x = r.standard_normal((9, 4)), cp.Variable(4)
    model = cp.Problem(cp.Minimize(fit(A @ x - A @ np.ones(4))))
    model.solve(solver="SDPKIT")
    assert model.status == cp.OPTIMAL
    assert np.allclose(x.value, 1, atol=1e-4)


def test_perspective() -> None:
    x, s = cp.Variable(), cp.Variable(nonneg=True)
    model = cp.Problem(cp.Minimize(cp.perspective(cp.square(x), s)), [x >= 1, s <= 2])
    assert model.solve(solver="SDPKIT") == pytest.approx(0.5, abs=1e-5)


# -- multipliers ------------------------------------------------------------------------------


def test_equations_of_symmetric_matrices_have_symmetric_multipliers() -> None:
    X, Y = cp.Variable((3, 3), PSD=True), cp.Variable((3, 3), symmetric=True)
    r = np.random.default_rng(2).standard_normal((3, 3))
    B, C = r @ r.T, np.cos(np.add.outer(np.arange(3), np.arange(3)))
    objective = cp.Minimize(cp.trace(C @ X) + cp.sum(Y))
    model = cp.Problem(objective, [X - Y == B, Y >= -1, X == X.T, Y[0, 1] == Y[1, 0]])
    for solver in ("SDPKIT", "CLARABEL"):
        model.solve(solver=solver)
        found = model.constraints[0].dual_value
        assert np.allclose(found, found.T, atol=1e-7)
    assert model.status == cp.OPTIMAL


def test_equal_inequalities_share_their_multiplier() -> None:
    x = cp.Variable()
    model = cp.Problem(cp.Minimize(x), [x >= 1, x >= 1, -x <= -1, x >= 0.5])
    model.solve(solver="SDPKIT")
    shares = [c.dual_value for c in model.constraints]
    assert np.allclose(shares, [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-6)


def infeasible_models() -> list[Any]:
    """Models in x (2 entries) or X (2 × 2), and functions that give the slack of each constraint
    at the origin, in the order of the multipliers."""
    x, X = cp.Variable(2), cp.Variable((2, 2), symmetric=True)
    P = cp.Variable((2, 2), PSD=True)
    return [
        pytest.param([x == 1, x == 2], id="equations"),
        pytest.param([cp.sum(x) <= 1, x >= 1], id="inequalities"),
        pytest.param([cp.SOC(1 - x[0], x), x[0] >= 2], id="cone"),
        pytest.param([X >> np.eye(2), cp.trace(X) <= 1], id="matrix"),
        pytest.param([cp.diag(P) == 1, P[0, 1] == 2], id="variable"),
        pytest.param([cp.norm(x, 1) <= 1, x[0] + x[1] == 3], id="atom"),
        pytest.param([cp.sum_squares(x) <= 1, x[0] >= 1.5], id="squares"),
    ]


@pytest.mark.parametrize("constraints", infeasible_models())
@pytest.mark.parametrize("objective", [0, 1])
def test_rays_of_infeasible_models(constraints: list[Any], objective: int) -> None:
    """Σ ⟨yᵢ, cᵢ(x)⟩ with the signs of a Lagrangian is positive for every x."""
    variable = constraints[0].variables()[0]
    model = cp.Problem(cp.Minimize(objective * cp.sum(variable)), constraints)
    model.solve(solver="SDPKIT")
    assert model.status == cp.INFEASIBLE
    assert model.value == np.inf
    assert variable.value is None
    if VERSION < (1, 9):
        return  # there cvxpy drops the multipliers of infeasible models
    r = np.random.default_rng(0)
    for _ in range(20):
        variable.value = variable.project(10 * r.standard_normal(variable.shape))
        total = 0.0
        for constraint in constraints:
            y = constraint.dual_value
            if isinstance(constraint, cp.SOC):
                t, v = (arg.value for arg in constraint.args)
                total -= float(np.sum(t * y[0]) + np.ravel(v) @ np.ravel(y[1]))
                assert np.linalg.norm(y[1]) <= y[0] + 1e-8
            elif isinstance(constraint, cp.constraints.PSD):
                total -= float(np.sum(constraint.args[0].value * y))
                assert np.linalg.eigvalsh((y + y.T) / 2)[0] >= -1e-8
            else:
                total += float(np.sum(constraint.expr.value * y))
                assert isinstance(constraint, cp.constraints.Equality) or np.min(y) >= -1e-8
        assert total > 0.1


def test_an_unbounded_model_has_no_ray_of_infeasibility() -> None:
    x = cp.Variable(2)
    model = cp.Problem(cp.Minimize(cp.sum(x)), [x <= 1])
    model.solve(solver="SDPKIT")
    assert model.status == cp.UNBOUNDED
    assert model.constraints[0].dual_value is None


def test_solve_names_the_way_for_a_cvxpy_model() -> None:
    x = cp.Variable(2)
    model = cp.Problem(cp.Minimize(cp.sum(x)), [x >= 1])
    with pytest.raises(sdpkit.InputError, match=r"sdpkit.solve\(sdpkit.from_cvxpy\(model\)\)"):
        sdpkit.solve(model)
