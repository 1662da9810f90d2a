"""Certificates of models with exponential and power cones, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import sdpkit
from sdpkit.conic.conic_certificate import ConicCertificate
from sdpkit.conic.judging import largest_violation
from sdpkit.conic.nonlinear_cones import in_dual_exponential, in_dual_power
from sdpkit.conic.rational_bound import logarithm, rational_bound

VERSION = tuple(map(int, cp.__version__.split(".")[:2]))

seeds = st.integers(0, 2**32 - 1)
rng = np.random.default_rng(0)
A, b = rng.standard_normal((6, 4)), rng.standard_normal(6)
x, p = cp.Variable(4), cp.Variable(4)
u, v, w = cp.Variable(3), cp.Variable(3), cp.Variable(3)
X = cp.Variable((3, 3), symmetric=True)

MODELS: dict[str, Callable[[], cp.Problem]] = {
    "log_sum_exp": lambda: cp.Problem(cp.Minimize(cp.log_sum_exp(A @ x - b) + cp.sum_squares(x))),
    "logistic": lambda: cp.Problem(cp.Minimize(cp.sum(cp.logistic(A @ x)) + 0.1 * cp.norm1(x))),
    "entropy": lambda: cp.Problem(cp.Maximize(cp.sum(cp.entr(p))), [cp.sum(p) == 1, p[0] >= 0.4]),
    "relative entropy": lambda: cp.Problem(
        cp.Minimize(cp.sum(cp.kl_div(p, np.array([0.1, 0.2, 0.3, 0.4])))),
        [cp.sum(p) == 1, p[0] >= 0.5],
    ),
    "log det in a constraint": lambda: cp.Problem(
        cp.Minimize(cp.trace(X)), [cp.log_det(X) >= 1, X[0, 1] == 0.3]
    ),
    "exponential cones": lambda: cp.Problem(
        cp.Minimize(cp.sum(w)), [cp.ExpCone(u, v, w), u >= 1, v == 1.5]
    ),
    "power cones": lambda: cp.Problem(
        cp.Maximize(cp.sum(w)), [cp.PowCone3D(u, v, w, [0.3, 0.5, 0.8]), u <= 1, v <= 2]
    ),
    "water filling": lambda: cp.Problem(
        cp.Maximize(cp.sum(cp.log(p + np.array([0.5, 1, 0.2, 0.3])))), [cp.sum(p) == 1, p >= 0]
    ),
}
KNOWN = {
    "exponential cones": 3 * 1.5 * math.exp(1 / 1.5),
    "power cones": sum(2 ** (1 - a) for a in (0.3, 0.5, 0.8)),
    "relative entropy": 0.5 * math.log(5) + 0.5 * math.log(0.5 / 0.9),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
def test_right_answers_are_certified(name: str, solver: str) -> None:
    model = MODELS[name]()
    options = {"eps": 1e-8, "max_iters": 100_000} if solver == "SCS" else {}
    model.solve(solver=solver, **options)
    certificate = sdpkit.certify_cvxpy(model)
    assert isinstance(certificate, ConicCertificate)
    assert certificate.passes(1e-6), certificate
    if name in KNOWN:
        assert certificate.safe_bound == pytest.approx(KNOWN[name], rel=1e-6)
    proof = certificate.verify()
    assert proof.bound == pytest.approx(certificate.safe_bound, rel=1e-9, abs=1e-9)
    end = proof.upper if certificate.sense == "max" else proof.lower
    assert end == proof.bound
    sign = 1 if certificate.sense == "max" else -1
    if name in KNOWN:
        assert sign * (proof.bound - KNOWN[name]) >= -1e-15


@pytest.mark.parametrize("name", MODELS)
def test_wrong_answers_are_not(name: str) -> None:
    """A point that is off by 1e-3: its value or a constraint is."""
    model = MODELS[name]()
    model.solve(solver="CLARABEL")
    for variable in model.variables():
        variable.value = variable.value * 1.01 + 1e-3 * np.eye(len(variable.value))[0] * (
            variable.ndim == 1
        )
    with np.errstate(all="ignore"):
        assert not sdpkit.certify_cvxpy(model).passes(1e-5)


def test_a_worse_feasible_point_has_a_gap() -> None:
    model = MODELS["water filling"]()
    model.solve(solver="CLARABEL")
    p.value = np.full(4, 0.25)
    certificate = sdpkit.certify_cvxpy(model)
    assert certificate.primal_residual < 1e-12
    assert certificate.relative_gap > 1e-2
    assert "certified relative gap" in certificate.failures(1e-5)[0]
    assert "safe upper bound" in str(certificate)


def test_wrong_multipliers_are_not_replaced() -> None:
    """The model's own multipliers are judged where it has all of them."""
    model = MODELS["exponential cones"]()
    model.solve(solver="CLARABEL")
    assert sdpkit.certify_cvxpy(model).passes(1e-6)
    for constraint in model.constraints:
        for dual in constraint.dual_variables:
            dual.save_value(np.asarray(dual.value) * 1.5)
    assert not sdpkit.certify_cvxpy(model).passes(1e-4)


def test_a_model_without_interior_multipliers_is_not_certified() -> None:
    """An unbounded model has no dual point at all."""
    y = cp.Variable()
    model = cp.Problem(cp.Maximize(y), [cp.exp(-y) <= 1])
    y.value = 3.0
    certificate = sdpkit.certify_cvxpy(model)
    assert certificate.safe_bound == np.inf
    assert not certificate.passes(1e9) or certificate.relative_gap == np.inf
    assert certificate.verify().bound is None


def test_changed_multipliers_are_not_proven() -> None:
    model = MODELS["exponential cones"]()
    model.solve(solver="CLARABEL")
    certificate = sdpkit.certify_cvxpy(model)
    assert isinstance(certificate, ConicCertificate)
    assert certificate.y is not None
    assert certificate.x is not None
    data, y = certificate.data, certificate.y.copy()
    y[data.exponential[0, 2]] *= 0.9  # out of the dual cone; no equation holds this one free
    value, words = rational_bound(data, certificate.x, y)
    assert value is None or value <= certificate.safe_bound + 1e-9, words


# -- the cones ------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_dual_cones_have_nonnegative_products(seed: int) -> None:
    """<s, y> ≥ 0 for s in the cone and y in the dual, and the boundary is tight."""
    r = np.random.default_rng(seed)
    a, c = r.standard_normal(), np.exp(r.standard_normal())
    s = np.array([a, c, c * np.exp(a / c) * (1 + r.random())])
    g, h = -np.exp(r.standard_normal()), r.standard_normal()
    edge = np.array([g, h, -g * np.exp(h / g - 1)])
    inside, outside = edge * [1, 1, 1.001], edge * [1, 1, 0.999]
    assert in_dual_exponential(inside[None])[0]
    assert not in_dual_exponential(outside[None])[0]
    assert s @ inside >= -1e-12 * np.abs(s * inside).sum()
    alpha = np.array([r.uniform(0.05, 0.95)])
    m, n = np.exp(r.standard_normal(2))
    k = (m / alpha[0]) ** alpha[0] * (n / (1 - alpha[0])) ** (1 - alpha[0])
    assert in_dual_power(np.array([[m, n, 0.999 * k]]), alpha)[0]
    assert not in_dual_power(np.array([[m, n, -1.001 * k]]), alpha)[0]


@settings(max_examples=50, deadline=None)
@given(st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(10**12)))
def test_logarithms_are_enclosed(value: Fraction) -> None:
    from flint import arb, fmpq

    low, high = logarithm(value)
    exact: Any = arb(fmpq(value.numerator, value.denominator)).log()
    assert low < high
    assert high - low < Fraction(1, 10**50)
    assert float(low) <= float(exact.upper())
    assert float(high) >= float(exact.lower())


def test_violations_are_those_of_the_model() -> None:
    z, t, Z = cp.Variable(2, complex=True), cp.Variable(), cp.Variable((2, 3))
    s, a = cp.Variable(3), cp.Variable()
    z.value, t.value = np.array([2j, 2j]), np.sqrt(8) - 1e-3
    Z.value, s.value = np.array([[3.0, 0, 1], [4, 0, 0]]), np.array([5.0, 0, 0.5])
    a.value = 1.5
    power = brentq(lambda v: (1.5 + v) * (4 + v) - 2.5**2, 0, 1)
    exponential = brentq(lambda v: (1.5 + v) * np.exp(-v / (1.5 + v)) - (1 + v), 0, 9)
    violations = {
        cp.SOC(t, z): 1e-3 / t.value,
        cp.SOC(s, Z): 0.5 / 5,
        cp.PowCone3D(a, 4.0, 2.0, 0.5): 0.0,
        cp.PowCone3D(a, 4.0, 2.5, 0.5): power / 4,
        cp.ExpCone(cp.Constant(0.0), a, cp.Constant(1.0)): exponential / 1.5,
    }
    for constraint, expected in violations.items():
        found = largest_violation(cp.Problem(cp.Minimize(0), [constraint]))[0]
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


def exact_powers() -> cp.Problem:
    x = cp.Variable(3)
    return cp.Problem(cp.Minimize(cp.sum(cp.power(x, 3.3, approx=False))), [cp.sum(x) == 1])


def support_function() -> cp.Problem:
    x, y = cp.Variable(1), cp.Variable(1)
    support = cp.suppfunc(x, [cp.exp(x[0]) <= np.e, cp.exp(-x[0]) <= np.e])
    return cp.Problem(cp.Minimize(y[0]), [support(y) <= 1])


def perspective_of_an_exponential() -> cp.Problem:
    x, s = cp.Variable(), cp.Variable(nonneg=True)
    return cp.Problem(cp.Minimize(cp.perspective(cp.exp(x), s)), [x >= 1, s >= 0.5])


def perspective_of_a_fraction() -> cp.Problem:
    x, P, s = cp.Variable(2), cp.Variable((2, 2), PSD=True), cp.Variable(nonneg=True)
    fraction = cp.perspective(cp.matrix_frac(x, P), s)
    return cp.Problem(cp.Minimize(fraction), [x == 5, np.eye(2) == P, s == 1])


@pytest.mark.skipif(VERSION < (1, 9), reason="exact powers are of cvxpy 1.9")
@pytest.mark.parametrize(
    "build",
    [exact_powers, support_function, perspective_of_an_exponential, perspective_of_a_fraction],
)
def test_cones_that_no_name_of_an_atom_tells(build: Any) -> None:
    model = build()
    model.solve(solver="CLARABEL")
    assert sdpkit.certify_cvxpy(model).passes(1e-5)
    for variable in model.variables():
        variable.value = 1.001 * variable.value
    assert not sdpkit.certify_cvxpy(model).passes(1e-5)
