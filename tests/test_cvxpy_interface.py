"""Models of cvxpy: values, multipliers in cvxpy's signs, certificates, refusals."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from planted_models import CONSTRAINTS, LEAVES, TERMS, planted_model

import sdpkit
from sdpkit.conic import completion, joint_step
from sdpkit.errors import InputError

Generator = np.random.Generator

# cvxpy before 1.9 misreads squares of symmetric variables (which is refused), returns other
# multipliers for Hermitian matrices, and does not compile stacks of matrices or models without
# rows.
OLD = tuple(map(int, cp.__version__.split(".")[:2])) < (1, 9)
needs_new_cvxpy = pytest.mark.skipif(OLD, reason="cvxpy before 1.9 cannot do this")


def symmetric(r: Generator, n: int) -> np.ndarray:
    a = r.standard_normal((n, n))
    return (a + a.T) / 2


def definite(r: Generator, n: int) -> np.ndarray:
    a = r.standard_normal((n, n))
    return a @ a.T / n + 0.1 * np.eye(n)


# -- documented models ----------------------------------------------------------------------


def max_cut(n: int, seed: int = 0) -> cp.Problem:
    w = np.random.default_rng(seed).random((n, n))
    w = np.triu(w, 1) + np.triu(w, 1).T
    X = cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Maximize(cp.sum(cp.multiply(w, 1 - X)) / 4), [cp.diag(X) == 1])


def test_max_cut_has_n_rows() -> None:
    program = sdpkit.from_cvxpy(max_cut(40))
    assert program.n_rows == 40
    assert program.sense == "max"
    assert [b.size for b in program.blocks] == [40]


def test_pentagon_max_cut() -> None:
    # Goemans and Williamson: the 5-cycle's relaxation is 5/2 · (1 + cos(π/5)).
    adjacency = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    X = cp.Variable((5, 5), PSD=True)
    model = cp.Problem(cp.Maximize(cp.sum(cp.multiply(adjacency, 1 - X)) / 4), [cp.diag(X) == 1])
    sdpkit.solve(sdpkit.from_cvxpy(model), solver="interior").unpack(model)
    assert model.value == pytest.approx(2.5 * (1 + np.cos(np.pi / 5)), abs=1e-5)


def test_smallest_eigenvalue_has_one_row() -> None:
    a = symmetric(np.random.default_rng(0), 12)
    t = cp.Variable()
    model = cp.Problem(cp.Maximize(t), [a - t * np.eye(12) >> 0])
    program = sdpkit.from_cvxpy(model)
    assert program.n_rows == 1
    sdpkit.solve(program, solver="interior", tol=1e-8).unpack(model)
    values, vectors = np.linalg.eigh(a)
    assert t.value == pytest.approx(values[0], abs=1e-7)
    np.testing.assert_allclose(
        model.constraints[0].dual_value, np.outer(vectors[:, 0], vectors[:, 0]), atol=1e-5
    )


def test_schur_complement() -> None:
    # min s with [[s, bᵀ], [b, A]] ⪰ 0 is bᵀA⁻¹b.
    r = np.random.default_rng(1)
    a, b = definite(r, 5), r.standard_normal((5, 1))
    s = cp.Variable((1, 1))
    model = cp.Problem(cp.Minimize(s[0, 0]), [cp.bmat([[s, b.T], [b, a]]) >> 0])
    sdpkit.solve(sdpkit.from_cvxpy(model), solver="interior", tol=1e-8).unpack(model)
    assert model.value == pytest.approx((b.T @ np.linalg.solve(a, b)).item(), rel=1e-6)


def test_lyapunov_inequality() -> None:
    r = np.random.default_rng(2)
    a = r.standard_normal((4, 4)) - 4 * np.eye(4)
    P = cp.Variable((4, 4), symmetric=True)
    model = cp.Problem(cp.Minimize(cp.trace(P)), [P >> np.eye(4), a.T @ P + P @ a << -np.eye(4)])
    value = model.solve(solver="CLARABEL")
    sdpkit.solve(sdpkit.from_cvxpy(model), solver="interior").unpack(model)
    assert model.value == pytest.approx(value, rel=1e-6)
    assert np.linalg.eigvalsh(P.value)[0] >= 1 - 1e-6


def test_second_order_cones_take_no_rows() -> None:
    x = cp.Variable(3)
    model = cp.Problem(cp.Minimize(x[0] + x[1]), [cp.SOC(x[2], x[:2]), x[2] == 2])
    program = sdpkit.from_cvxpy(model)
    assert program.n_rows == 1
    sdpkit.solve(program, solver="interior", tol=1e-8).unpack(model)
    np.testing.assert_allclose(x.value, [-np.sqrt(2), -np.sqrt(2), 2], atol=1e-5)
    head, tail = model.constraints[0].dual_value
    np.testing.assert_allclose(np.ravel(head), np.sqrt(2), atol=1e-5)
    np.testing.assert_allclose(np.ravel(tail), [1, 1], atol=1e-5)


def test_fixed_entries_take_no_rows() -> None:
    X = cp.Variable((3, 3))  # not symmetric: nine entries, nine equations
    t = cp.Variable()
    constraints = [X >> 0, 2 * np.eye(3) == X, X + t * np.ones((3, 3)) >> 0]
    model = cp.Problem(cp.Minimize(t + cp.sum(X)), constraints)
    program = sdpkit.from_cvxpy(model)
    assert program.n_rows == 1
    sdpkit.solve(program, solver="interior", tol=1e-8).unpack(model)
    assert model.value == pytest.approx(6 - 2 / 3, abs=1e-6)
    np.testing.assert_allclose(X.value, 2 * np.eye(3), atol=1e-12)
    assert_kkt(model, np.random.default_rng(0), 1e-6)


@needs_new_cvxpy
def test_a_log_det_needs_no_rows() -> None:
    s = definite(np.random.default_rng(0), 3)
    X = cp.Variable((3, 3), PSD=True)
    model = cp.Problem(cp.Maximize(cp.log_det(X) - cp.trace(s @ X)))
    program = sdpkit.from_cvxpy(model)
    assert program.n_rows == 0
    sdpkit.solve(program, solver="clarabel").unpack(model)
    np.testing.assert_allclose(X.value, np.linalg.inv(s), rtol=1e-3, atol=1e-3)


def test_squares_take_no_cone() -> None:
    a = symmetric(np.random.default_rng(0), 12)
    X = cp.Variable((12, 12), PSD=True)
    model = cp.Problem(cp.Minimize(cp.sum_squares(X - a)), [cp.diag(X) == 1])
    program = sdpkit.from_cvxpy(model)
    assert [block.size for block in program.blocks] == [12]
    assert (program.quadratic_x > 0).any()
    values, vectors = np.linalg.eigh(a)
    free = cp.Problem(model.objective)  # without constraints: the projection onto the cone
    sdpkit.solve(sdpkit.from_cvxpy(free), solver="interior", tol=1e-8).unpack(free)
    nearest = vectors * values.clip(0) @ vectors.T
    np.testing.assert_allclose(X.value, nearest, atol=1e-4)


@needs_new_cvxpy
@pytest.mark.filterwarnings("ignore:The problem has an expression with dimension greater than 2")
def test_a_stack_of_matrices() -> None:
    B = cp.Variable((2, 3, 3))
    constraints = [cp.PSD(B), B[0] == 2 * np.eye(3), cp.trace(B[1]) == 1]
    model = cp.Problem(cp.Minimize(cp.sum(B)), constraints)
    sdpkit.solve(sdpkit.from_cvxpy(model), solver="interior").unpack(model)
    assert model.value == pytest.approx(6, abs=1e-5)
    assert_kkt(model, np.random.default_rng(0), 1e-5)


# -- random models --------------------------------------------------------------------------


def lmi(r: Generator) -> cp.Problem:
    """Linear matrix inequalities with a planted interior, free variables in a box."""
    k, n = int(r.integers(1, 5)), int(r.integers(2, 6))
    x = cp.Variable(k)
    planted = r.standard_normal(k)
    parts = [symmetric(r, n) for _ in range(k)]
    f0 = definite(r, n) - sum(p * f for p, f in zip(planted, parts, strict=True))
    lhs = f0 + sum(x[i] * parts[i] for i in range(k))
    return cp.Problem(cp.Minimize(r.standard_normal(k) @ x), [lhs >> 0, x >= planted - 2, x <= 9])


def standard_form(r: Generator) -> cp.Problem:
    """A PSD variable, equations and inequalities with a planted interior."""
    n = int(r.integers(2, 6))
    X = cp.Variable((n, n), PSD=True)
    planted = definite(r, n)
    a, b = symmetric(r, n), symmetric(r, n)
    constraints = [
        cp.trace(X) == np.trace(planted),
        cp.sum(cp.multiply(a, X)) == np.sum(a * planted),
        cp.sum(cp.multiply(b, X)) <= np.sum(b * planted) + r.random(),
    ]
    return cp.Problem(cp.Maximize(cp.sum(cp.multiply(symmetric(r, n), X))), constraints)


def several_variables(r: Generator) -> cp.Problem:
    """PSD, symmetric, nonnegative and free variables in one model."""
    n = int(r.integers(2, 5))
    X, Y = cp.Variable((n, n), PSD=True), cp.Variable((n, n), symmetric=True)
    z, t = cp.Variable(n, nonneg=True), cp.Variable()
    constraints = [
        cp.diag(X) + z == 1 + r.random(n),
        Y - X >> -np.eye(n),
        np.eye(n) * t - Y >> 0,
        t >= cp.sum(z) - 1,
    ]
    cost = cp.sum(cp.multiply(symmetric(r, n), X)) + r.random(n) @ z + 3 * n * t
    return cp.Problem(cp.Minimize(cost), constraints)


def norms(r: Generator) -> cp.Problem:
    """Norms in the objective and in constraints."""
    k, m = int(r.integers(2, 5)), int(r.integers(3, 7))
    x = cp.Variable(k)
    a, b = r.standard_normal((m, k)), r.standard_normal(m)
    objective = cp.norm(a @ x - b) + 0.3 * cp.norm1(x)
    return cp.Problem(cp.Minimize(objective), [cp.norm(x) <= 1 + r.random(), x[0] >= -0.5])


def squares(r: Generator) -> cp.Problem:
    """A quadratic objective over a PSD variable."""
    n = int(r.integers(2, 5))
    X = cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Minimize(cp.sum_squares(X - symmetric(r, n))), [cp.diag(X) == 1])


def spectral(r: Generator) -> cp.Problem:
    """Spectral atoms: λ_max, the spectral and the nuclear norm."""
    n = int(r.integers(2, 5))
    x = cp.Variable(2)
    f = [symmetric(r, n) for _ in range(3)]
    pencil = f[0] + x[0] * f[1] + x[1] * f[2]
    atom = [cp.lambda_max, cp.sigma_max, cp.normNuc][int(r.integers(3))]
    return cp.Problem(cp.Minimize(atom(pencil)), [cp.norm(x, "inf") <= 1])


def linear(r: Generator) -> cp.Problem:
    """A linear program: no semidefinite part at all."""
    k = int(r.integers(2, 6))
    x = cp.Variable(k, nonneg=True)
    a = r.random((2, k)) + 0.1
    return cp.Problem(cp.Maximize(r.standard_normal(k) @ x), [a @ x <= 1, x <= 5])


def shifted(r: Generator) -> cp.Problem:
    """X ⪰ B and bounds with offsets: slacks that are entries of x after a shift and a scale."""
    n = int(r.integers(2, 5))
    X = cp.Variable((n, n), symmetric=True)
    x = cp.Variable(n)
    constraints = [2 * X >> symmetric(r, n), x >= -1, cp.diag(X) + x == 3, x <= 4]
    cost = cp.sum(cp.multiply(definite(r, n), X)) + r.standard_normal(n) @ x
    return cp.Problem(cp.Minimize(cost), constraints)


def hermitian(r: Generator) -> cp.Problem:
    """A complex Hermitian variable."""
    n = int(r.integers(2, 4))
    Z = cp.Variable((n, n), hermitian=True)
    h = r.standard_normal((n, n)) + 1j * r.standard_normal((n, n))
    cost = cp.real(cp.trace((h + h.conj().T) @ Z))
    return cp.Problem(cp.Minimize(cost), [Z >> 0, cp.real(cp.trace(Z)) == 1])


def determinant(r: Generator) -> cp.Problem:
    """Log dets of a variable and of an expression, with a linear and a quadratic term."""
    n = int(r.integers(2, 5))
    X, x = cp.Variable((n, n), PSD=True), cp.Variable(n + 2, nonneg=True)
    v = r.standard_normal((n + 2, n))
    cost = cp.trace(definite(r, n) @ X) + cp.sum_squares(x - 1)
    dets = 2 * cp.log_det(X) + cp.log_det(v.T @ cp.diag(x) @ v + np.eye(n))
    return cp.Problem(cp.Minimize(cost - dets), [cp.sum(x) + X[0, 0] <= 3])


def forms(r: Generator) -> cp.Problem:
    """A quadratic form, maximised, beside a linear matrix inequality."""
    n = int(r.integers(2, 5))
    x, X = cp.Variable(n), cp.Variable((n, n), symmetric=True)
    value = r.standard_normal(n) @ x - cp.quad_form(x, definite(r, n)) - cp.sum_squares(X)
    return cp.Problem(cp.Maximize(value), [X - cp.diag(x) >> symmetric(r, n), x <= 2])


def not_symmetric(r: Generator) -> cp.Problem:
    """A square variable of which only the symmetric part is constrained."""
    n = int(r.integers(2, 4))
    X = cp.Variable((n, n))
    cost = cp.sum(cp.multiply(r.standard_normal((n, n)), X))
    return cp.Problem(cp.Minimize(cost), [X >> 0, cp.trace(X) == 1, cp.abs(X) <= 2])


MODELS: list[Callable[[Generator], cp.Problem]] = [
    lmi,
    standard_form,
    several_variables,
    norms,
    squares,
    spectral,
    linear,
    shifted,
    not_symmetric,
    determinant,
    *([] if OLD else [hermitian, forms]),
]


def lagrangian(model: cp.Problem, multipliers: list[Any]) -> float:
    """f + Σ<λ, g> at the variables' present values, by cvxpy's convention for signs."""
    sign = 1.0 if isinstance(model.objective, cp.Minimize) else -1.0
    value = sign * float(np.real(model.objective.value))
    for constraint, dual in zip(model.constraints, multipliers, strict=True):
        args = [np.asarray(arg.value) for arg in constraint.args]
        if type(constraint).__name__ == "PSD":
            value -= float(np.real(np.sum(np.conj(dual) * args[0])))
        elif type(constraint).__name__ == "SOC":
            value -= sum(
                float(np.sum(np.ravel(d) * np.ravel(a))) for d, a in zip(dual, args, strict=True)
            )
        else:
            value += float(np.real(np.sum(dual * (args[0] - args[1]))))
    return value


def assert_dual_cone(constraint: Any, dual: Any, tol: float) -> None:
    """cvxpy's multipliers are nonnegative, semidefinite or in the second-order cone."""
    kind = type(constraint).__name__
    if kind == "Inequality":
        assert np.min(dual) >= -tol
    elif kind == "PSD":
        assert np.linalg.eigvalsh(dual).min() >= -tol
    elif kind == "SOC":
        assert np.linalg.norm(dual[1]) <= np.ravel(dual[0])[0] + tol


def assert_kkt(model: cp.Problem, r: Generator, tol: float) -> None:
    """Feasible; multipliers of the right sign; L at the values is f*; no point of the variables'
    domain, near or far, makes L smaller. L is convex, so that near points show its gradient.
    """
    sign = 1.0 if isinstance(model.objective, cp.Minimize) else -1.0
    best = sign * model.value
    scale = 1 + abs(best)
    for constraint in model.constraints:
        assert np.max(constraint.violation()) <= tol * scale
    multipliers = [c.dual_value for c in model.constraints]
    for constraint, dual in zip(model.constraints, multipliers, strict=True):
        assert_dual_cone(constraint, dual, tol * scale)
    assert lagrangian(model, multipliers) == pytest.approx(best, abs=10 * tol * scale)
    values = {v: np.array(v.value) for v in model.variables()}
    for step in (1.0, 1.0, 0.1, 0.1, 0.01, 0.01):
        for v, at in values.items():
            v.value = v.project(at + step * r.standard_normal(v.shape))
        domain = model.objective.args[0].domain
        if any(np.max(limit.violation()) > 0 for limit in domain):
            continue  # outside of an atom's domain L is infinite, cvxpy's number is not
        assert lagrangian(model, multipliers) >= best - 10 * tol * scale
    for v, at in values.items():
        v.value = at


def round_trip(model: cp.Problem, expected: float, r: Generator) -> None:
    program = sdpkit.from_cvxpy(model)
    engine = "clarabel" if program.has_log_det else "interior"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)  # judged by what it is below
        solution = sdpkit.solve(program, solver=engine, tol=1e-7)
        assert solution.certificate.failures(1e-6) == []
        warnings.simplefilter("ignore", UserWarning)
        solution.unpack(model)
    assert model.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
    scale = 1 + max(abs(expected), abs(program.offset))
    assert solution.objective == pytest.approx(expected, abs=1e-6 * scale)
    assert model.value == pytest.approx(expected, abs=1e-6 * scale)
    assert_kkt(model, r, 1e-5)


@pytest.mark.parametrize("build", MODELS)
def test_models_of_every_family(build: Callable[[Generator], cp.Problem]) -> None:
    for seed in range(3):
        r = np.random.default_rng(seed)
        model = build(r)
        round_trip(model, model.solve(solver="CLARABEL"), r)


@pytest.mark.parametrize("seed", range(40))
def test_planted_models(seed: int) -> None:
    model, value, _ = planted_model(seed)
    round_trip(model, value, np.random.default_rng(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 200))
def test_more_planted_models(seed: int) -> None:
    model, value, _ = planted_model(seed)
    round_trip(model, value, np.random.default_rng(seed))


def test_planted_models_have_every_atom_and_shape() -> None:
    parts = {name for seed in range(200) for name in planted_model(seed)[2]}
    assert parts == {*LEAVES, *(part.__name__ for part in (*TERMS, *CONSTRAINTS))}


# -- certificates ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(len(MODELS)))
def test_another_solvers_answer_is_certified(seed: int) -> None:
    model = MODELS[seed](np.random.default_rng(seed + 100))
    value = model.solve(solver="CLARABEL", tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)
    certificate = sdpkit.certify_cvxpy(model)
    assert certificate.failures(2e-6) == []
    assert certificate.objective == pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(len(MODELS)))
def test_wrong_values_are_not_certified(seed: int) -> None:
    model = MODELS[seed](np.random.default_rng(seed + 100))
    model.solve(solver="CLARABEL")
    for variable in model.variables():
        variable.value = variable.project(1.05 * np.asarray(variable.value) + 0.01)
    assert sdpkit.certify_cvxpy(model).failures(1e-4) != []


def test_an_unfinished_answer_is_not_certified() -> None:
    model = max_cut(12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.solve(solver="SCS", max_iters=5)
    assert not sdpkit.certify_cvxpy(model).passes(1e-3)
    model.solve(solver="SCS", eps=1e-9, max_iters=100_000)
    certificate = sdpkit.certify_cvxpy(model)
    assert certificate.passes(1e-5)
    assert certificate.verify()


def test_a_feasible_value_away_from_the_optimum_is_not_certified() -> None:
    model = max_cut(8)
    model.solve(solver="CLARABEL")
    X = model.variables()[0]
    X.value = np.eye(8)
    certificate = sdpkit.certify_cvxpy(model)
    assert certificate.primal_residual < 1e-12
    assert certificate.relative_gap > 1e-2


def test_an_infeasible_value_without_a_cost_is_not_certified() -> None:
    x = cp.Variable()
    model = cp.Problem(cp.Minimize(0 * x), [cp.bmat([[x, 1.0], [1.0, x]]) >> 0, x <= 3])
    model.solve(solver="CLARABEL")
    assert sdpkit.certify_cvxpy(model).passes(1e-6)
    x.value = 0.9
    assert not sdpkit.certify_cvxpy(model).passes(1e-3)


@pytest.mark.parametrize("domain", [{"nonneg": True}, {"nonpos": True}, {"bounds": [-2, 2]}])
def test_values_of_bounded_variables_are_judged(domain: dict[str, Any]) -> None:
    x = cp.Variable(6, **domain)
    model = cp.Problem(cp.Minimize(cp.sum(cp.abs(x))), [cp.norm(x) <= 2])
    model.solve(solver="CLARABEL")
    assert sdpkit.certify_cvxpy(model).passes(1e-6)
    x.value = x.project(np.array([0.3, -0.3] * 3))
    certificate = sdpkit.certify_cvxpy(model)
    assert certificate.objective == pytest.approx(model.objective.value)
    assert not certificate.passes(1e-3)


def test_certifying_leaves_the_model_as_it_was() -> None:
    x = cp.Variable(3)
    model = cp.Problem(cp.Minimize(x[0]), [cp.SOC(x[2], x[:2]), x[2] == 2])
    model.solve(solver="CLARABEL")
    before = [np.copy(part) for part in model.constraints[0].dual_value]
    sdpkit.certify_cvxpy(model)
    for old, new in zip(before, model.constraints[0].dual_value, strict=True):
        np.testing.assert_array_equal(old, new)


# -- as a solver ----------------------------------------------------------------------------


def test_engine_as_a_cvxpy_solver() -> None:
    model = max_cut(10)
    value = model.solve(solver=sdpkit.cvxpy_solver("interior"), tol=1e-8)
    certificate = model.solver_stats.extra_stats
    assert certificate.passes(1e-8)
    assert model.solver_stats.solver_name == "SDPKIT_INTERIOR"
    assert value == pytest.approx(model.solve(solver="CLARABEL"), rel=1e-6)


@pytest.mark.parametrize("reading", ["slacks", "multipliers"])
@pytest.mark.parametrize("sign", [1, -1])
def test_sign_of_the_certificate_of_an_engine(sign: int, reading: str) -> None:
    # cvxpy hands every solver a minimisation; the certificate is about that one.
    if reading == "slacks":
        X = cp.Variable((3, 3), PSD=True)
        goal, constraints = 2 + cp.sum(X), [cp.diag(X) == 1]
        low, high = 2.0, 11.0
    else:
        t = cp.Variable()
        goal, constraints = 2 + t, [np.diag([2.0, 3.0]) - t * np.eye(2) >> 0, t >= -1]
        low, high = 1.0, 4.0
    sense = cp.Minimize if sign == 1 else cp.Maximize
    model = cp.Problem(sense(goal), constraints)
    value = model.solve(solver=sdpkit.cvxpy_solver("interior"), tol=1e-8)
    assert value == pytest.approx(low if sign == 1 else high, abs=1e-6)
    certificate = model.solver_stats.extra_stats
    assert certificate.objective == pytest.approx(sign * value, abs=1e-6)
    assert certificate.safe_bound == pytest.approx(sign * value, abs=1e-6)
    # The messages of the other two functions name the model itself.
    assert sdpkit.certify_cvxpy(model).objective == pytest.approx(value, abs=1e-6)
    solution = sdpkit.solve(sdpkit.from_cvxpy(model), solver="interior")
    assert solution.objective == pytest.approx(value, abs=1e-4)


def test_limits_reach_the_engine() -> None:
    model = max_cut(30)
    with pytest.warns(UserWarning, match="inaccurate"):
        model.solve(solver=sdpkit.cvxpy_solver("interior"), tol=1e-8, max_iter=2)
    assert model.status == cp.USER_LIMIT
    assert not model.solver_stats.extra_stats.passes(1e-4)


def test_infeasible_and_unbounded_models_in_both_readings() -> None:
    solver = sdpkit.cvxpy_solver("interior")
    X = cp.Variable((2, 2), PSD=True)
    t = cp.Variable()
    infeasible = cp.Problem(cp.Minimize(cp.trace(X)), [X[0, 0] == 1, X[1, 1] == 1, X[0, 1] == 2])
    infeasible.solve(solver=solver)
    assert infeasible.status == cp.INFEASIBLE
    unbounded = cp.Problem(cp.Maximize(cp.trace(X)), [X[0, 0] == 1])
    unbounded.solve(solver=solver)
    assert unbounded.status == cp.UNBOUNDED
    lmi_unbounded = cp.Problem(cp.Maximize(t), [np.eye(2) * t + np.diag([1.0, 2.0]) >> 0])
    lmi_unbounded.solve(solver=solver)
    assert lmi_unbounded.status == cp.UNBOUNDED
    lmi_infeasible = cp.Problem(cp.Minimize(t), [np.diag([1.0, -1.0]) * t - np.eye(2) >> 0])
    lmi_infeasible.solve(solver=solver)
    assert lmi_infeasible.status == cp.INFEASIBLE


def test_parameters_take_their_present_values() -> None:
    p = cp.Parameter(value=1.0)
    X = cp.Variable((2, 2), PSD=True)
    model = cp.Problem(cp.Maximize(X[0, 1]), [cp.diag(X) == p])
    solver = sdpkit.cvxpy_solver("interior")
    assert model.solve(solver=solver) == pytest.approx(1, abs=1e-5)
    p.value = 3.0
    assert model.solve(solver=solver) == pytest.approx(3, abs=1e-5)
    assert sdpkit.solve(sdpkit.from_cvxpy(model), solver="interior").objective == pytest.approx(3)


def test_compiling_is_quick() -> None:
    model = max_cut(400)
    start = time.process_time()
    assert sdpkit.from_cvxpy(model).n_rows == 400
    assert time.process_time() - start < 1


def test_a_stack_of_equal_cones_compiles_in_linear_time() -> None:
    def seconds(k: int) -> float:
        x = cp.Variable((k, 3))
        model = cp.Problem(cp.Minimize(cp.sum(cp.norm(x - 1, axis=1))), [x <= 0.5])
        model.get_problem_data(solver=sdpkit.cvxpy_solver("interior"))  # cvxpy's own part
        start = time.process_time()
        sdpkit.from_cvxpy(model)
        return time.process_time() - start

    seconds(20)
    assert seconds(400) < 8 * seconds(100)


# -- refusals -------------------------------------------------------------------------------


def test_refusals_by_name() -> None:
    X = cp.Variable((2, 2), PSD=True)
    b, k = cp.Variable(boolean=True, name="choice"), cp.Variable(integer=True)
    x = cp.Variable(2, name="x")
    Z = cp.Variable((2, 2), hermitian=True)
    cases = {
        "'choice' is boolean": cp.Problem(cp.Minimize(b)),
        "is integer": cp.Problem(cp.Minimize(k), [k >= 0.5]),
        "log_det in a constraint": cp.Problem(cp.Minimize(cp.trace(X)), [cp.log_det(X) >= 1]),
        "log_det must be a term": cp.Problem(cp.Maximize(cp.minimum(cp.log_det(X), 1)), [X << 1]),
        "log_det of a complex": cp.Problem(cp.Maximize(cp.log_det(Z)), [Z << np.eye(2)]),
        "uses exp": cp.Problem(cp.Minimize(cp.sum(cp.exp(x)))),
        "ExpCone": cp.Problem(cp.Minimize(x[0]), [cp.ExpCone(x[0], x[1], x[1])]),
        "not convex": cp.Problem(cp.Minimize(cp.sqrt(x[0]))),
    }
    for words, model in cases.items():
        with pytest.raises(InputError, match=words):
            sdpkit.from_cvxpy(model)
    with pytest.raises(InputError, match=r"cvxpy\.Problem"):
        sdpkit.from_cvxpy(X)
    with pytest.raises(InputError, match="'x' has no value"):
        sdpkit.certify_cvxpy(cp.Problem(cp.Minimize(cp.norm(x))))
    with pytest.raises(InputError, match="parameter"):
        sdpkit.from_cvxpy(cp.Problem(cp.Minimize(cp.Parameter() * x[0]), [x >= 0]))


EXPONENTIAL = {
    "entr": lambda x: -cp.sum(cp.entr(x)),
    "exp": lambda x: cp.sum(cp.exp(x)),
    "kl_div": lambda x: cp.sum(cp.kl_div(x, 1)),
    "log": lambda x: -cp.sum(cp.log(x)),
    "log1p": lambda x: -cp.sum(cp.log1p(x)),
    "log_sum_exp": cp.log_sum_exp,
    "logistic": lambda x: cp.sum(cp.logistic(x)),
    "rel_entr": lambda x: cp.sum(cp.rel_entr(x, 1)),
    "xexp": lambda x: cp.sum(cp.xexp(x)),
}


@pytest.mark.parametrize("name", EXPONENTIAL)
def test_exponential_atoms_are_named(name: str) -> None:
    x = cp.Variable(2, nonneg=True)
    model = cp.Problem(cp.Minimize(EXPONENTIAL[name](x)), [x <= 1])
    with pytest.raises(InputError, match=f"uses {name}, which needs an exponential"):
        sdpkit.from_cvxpy(model)
    with pytest.raises(cp.SolverError):
        model.solve(solver=sdpkit.cvxpy_solver("interior"))


def test_power_cones_are_named() -> None:
    x = cp.Variable(3)
    three = cp.Problem(cp.Maximize(x[2]), [cp.PowCone3D(x[0], x[1], x[2], 0.3), x[:2] <= 1])
    with pytest.raises(InputError, match="PowCone3D"):
        sdpkit.from_cvxpy(three)


def test_a_solution_goes_into_its_own_model_only() -> None:
    solution = sdpkit.solve(sdpkit.from_cvxpy(max_cut(4)), solver="interior")
    with pytest.raises(InputError, match="another program"):
        solution.unpack(max_cut(4, seed=1))


def test_a_solution_goes_into_models_only() -> None:
    solution = sdpkit.solve(sdpkit.from_cvxpy(max_cut(4)), solver="interior")
    with pytest.raises(InputError, match=r"not dict; for cvxpy, solve sdpkit\.from_cvxpy"):
        solution.unpack({})


def test_unknown_engines_are_refused() -> None:
    with pytest.raises(sdpkit.SdpkitError, match="nonsense"):
        sdpkit.cvxpy_solver("nonsense")


# -- squares that cvxpy compiles wrongly ----------------------------------------------------


def nearest_symmetric(A: Any) -> cp.Problem:
    """min ‖X − A‖² + ‖X‖² + 3 over symmetric X: half the symmetric part of A is the best."""
    X = cp.Variable(A.shape, symmetric=True)
    return cp.Problem(cp.Minimize(cp.sum_squares(X - A) + cp.sum_squares(X) + 3))


def test_squares_of_symmetric_variables_are_right_or_refused() -> None:
    """cvxpy before 1.9 misreads them."""
    A = np.random.default_rng(0).standard_normal((3, 3))
    model = nearest_symmetric(A)
    S, skew = (A + A.T) / 2, (A - A.T) / 2
    if OLD:
        with pytest.raises(InputError, match="compiles the squares of this model to another"):
            sdpkit.from_cvxpy(model)
        return
    solution = sdpkit.solve(sdpkit.from_cvxpy(model), solver="interior")
    expected = (skew**2).sum() + (S**2).sum() / 2 + 3
    assert solution.objective == pytest.approx(expected, rel=1e-6)


def test_squares_that_are_compiled_wrongly_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = cp.Problem(cp.Minimize(cp.sum_squares(cp.Variable(3)) + 1))
    assert sdpkit.from_cvxpy(model).quadratic_x.any()
    compile_right = cp.Problem.get_problem_data

    def compile_wrongly(self: cp.Problem, *given: Any, **options: Any) -> Any:
        data, *rest = compile_right(self, *given, **options)
        return ({**data, "P": 2 * data["P"]}, *rest)

    monkeypatch.setattr(cp.Problem, "get_problem_data", compile_wrongly)
    with pytest.raises(InputError, match=r"Install cvxpy 1\.9 or newer"):
        sdpkit.from_cvxpy(model)
    assert all(v.value is None for v in model.variables())  # the model is as it was


@pytest.mark.parametrize("size", [np.nan, np.inf, 1e200])
def test_wild_values_are_refused_or_do_not_pass(size: float) -> None:
    """cvxpy compiles the norm with the value of its argument, and clarabel takes no 1e200."""
    x = cp.Variable(2)
    model = cp.Problem(cp.Minimize(cp.norm(x - 1) + cp.norm1(x)), [cp.sum(x) <= 1])
    model.solve(solver="CLARABEL")
    x.save_value(np.array([size, 0.5]))
    if np.isfinite(size):
        with np.errstate(over="ignore", invalid="ignore"):
            assert not sdpkit.certify_cvxpy(model).passes(1e-6)
    else:
        with pytest.raises(sdpkit.InputError, match="not finite"):
            sdpkit.certify_cvxpy(model)


def test_certifying_keeps_what_cvxpy_compiled() -> None:
    """A parameter is given a new value and a certificate asked for in turns."""
    x, p = cp.Variable(2), cp.Parameter(nonneg=True, value=1.0)
    model = cp.Problem(cp.Minimize(cp.sum_squares(x)), [cp.sum(x) >= p])
    model.solve(solver="CLARABEL")
    compiled = model._cache.param_prog
    for value in (2.0, 3.0):
        assert sdpkit.certify_cvxpy(model).passes(1e-6)
        p.value = value
        model.solve(solver="CLARABEL")
        assert model._cache.param_prog is compiled
    assert model.value == pytest.approx(4.5, abs=1e-6)


def test_models_that_cvxpy_cannot_compile_with_values() -> None:
    """`cvar` sorts the values that it finds, and fails for some shares."""
    r = np.random.default_rng(1)
    w, returns = cp.Variable(5, nonneg=True), r.random((25, 5))
    model = cp.Problem(cp.Maximize(w @ returns.mean(axis=0)), [cp.cvar(returns @ w, 0.95) <= 0.5])
    model.solve(solver="CLARABEL")
    assert sdpkit.certify_cvxpy(model).passes(1e-6)
    assert w.value is not None


def test_bounds_alone_and_an_optimum_of_zero() -> None:
    """Violations of signs are measured in the model's units where no constraint gives a scale."""
    x = cp.Variable((3, 3))
    S = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    alone = cp.Problem(cp.Minimize(cp.sum(x)), [x >= S])
    alone.solve(solver="CLARABEL")
    x.value = x.value - 1e-9
    assert sdpkit.certify_cvxpy(alone).passes(1e-6)
    x.value = x.value - 1e-3
    assert not sdpkit.certify_cvxpy(alone).passes(1e-5)


# -- what cvxpy introduced, without a solve ---------------------------------------------------


def nearest_correlation(n: int) -> cp.Problem:
    A = np.random.default_rng(0).uniform(-1, 1, (n, n))
    X = cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Minimize(cp.sum_squares(X - (A + A.T) / 2)), [cp.diag(X) == 1])


def test_equations_give_what_cvxpy_introduced(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nearest_correlation(20)
    model.solve(solver="SCS", eps_abs=1e-8, eps_rel=1e-8)
    monkeypatch.setattr(completion, "_solved", None)  # no second solve
    assert sdpkit.certify_cvxpy(model).passes(1e-5)
    model.variables()[0].value = 1.001 * model.variables()[0].value
    assert not sdpkit.certify_cvxpy(model).passes(1e-5)


def test_no_second_solve_beyond_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clarabel ends the process where memory is short."""
    X = cp.Variable((4, 4), symmetric=True)
    model = cp.Problem(cp.Minimize(cp.lambda_max(X) + cp.normNuc(X)), [X[0] == np.arange(4)])
    model.solve(solver="SCS", eps_abs=1e-9, eps_rel=1e-9)
    assert sdpkit.certify_cvxpy(model).passes(1e-5)
    monkeypatch.setattr(completion, "free_memory", lambda: 1e3)
    monkeypatch.setattr(completion, "_solved", None)
    monkeypatch.setattr(joint_step, "_triangles", None)
    certificate = sdpkit.certify_cvxpy(model)
    assert not certificate.passes(1e-5)
    assert certificate.objective == pytest.approx(model.value)


def test_zero_multipliers_are_not_the_last_word() -> None:
    x, y = cp.Variable(), cp.Variable()
    model = cp.Problem(cp.Minimize(cp.square(y) + cp.quad_over_lin(x, y)), [y == 1])
    model.solve(solver="CLARABEL")
    assert sdpkit.certify_cvxpy(model).passes(1e-6)


@needs_new_cvxpy
def test_a_variable_that_nothing_uses() -> None:
    x = cp.Variable()
    model = cp.Problem(cp.Minimize(3), [np.array([]) + x <= 0])
    model.solve(solver="CLARABEL")
    certificate = sdpkit.certify_cvxpy(model)
    assert certificate.passes(1e-8)
    assert certificate.objective == pytest.approx(3)


@pytest.mark.parametrize("wild", [np.nan, np.inf])
def test_data_that_are_not_finite_are_named(wild: float) -> None:
    x, P = cp.Variable(2), cp.Parameter(value=1.0)
    P._value = wild
    for bad in (x >= np.array([1, wild]), P * x[0] >= 1, sp.diags_array([wild, 1]) @ x >= 1):
        model = cp.Problem(cp.Minimize(cp.sum(x)), [x >= 0, bad])
        x.value = np.ones(2)
        for judge in (sdpkit.from_cvxpy, sdpkit.certify_cvxpy, sdpkit.explain):
            with pytest.raises(InputError, match=r"must be finite.* are in: ") as error:
                judge(model)
            assert str(bad) in str(error.value)


@pytest.mark.parametrize("solver", ["CLARABEL", "SDPKIT"])
@pytest.mark.parametrize("n", [2, 5])
def test_both_ends_of_an_eigenvalue_are_proven(solver: str, n: int) -> None:
    """The multiplier of a free variable's equation, tr Y = 1, must hold exactly."""
    sdpkit.register()
    A, t = symmetric(np.random.default_rng(n), n), cp.Variable()
    values = np.linalg.eigvalsh(A)
    for model, known in (
        (cp.Problem(cp.Minimize(t), [t * np.eye(n) - A >> 0]), values[-1]),
        (cp.Problem(cp.Maximize(t), [A - t * np.eye(n) >> 0]), values[0]),
    ):
        model.solve(solver=solver)
        proven = sdpkit.certify_cvxpy(model).verify()
        assert proven.lower is not None
        assert proven.upper is not None
        assert proven.lower <= known + 1e-14
        assert known - 1e-14 <= proven.upper <= proven.lower + 1e-5
