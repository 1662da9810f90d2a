"""The certificate: what it must accept, what it must refuse, and that its bounds are bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit.certificate.bounds import direction_strength, safe_bound
from sdpkit.certificate.certify import certify
from sdpkit.certificate.primal import project_onto_cone
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.errors import InputError
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.safe import SafeBounds
from sdpkit.typing import Array

FORMS = ("equality", "inequality", "slack", "min_trace")
KINDS = (
    "plain",
    "minimise",
    "blocks",
    "nonnegative",
    "free",
    "mixed",
    "quadratic free",
    "quadratic nonnegative",
    "norm",
    "norm, minimise",
)
TOL = 1e-6
seeds = st.integers(0, 2**32 - 1)
quick = settings(deadline=None, max_examples=25)


def edge_rows(pairs: list[tuple[int, int]], n: int) -> Array:
    rows = np.zeros((len(pairs), n))
    for e, (i, j) in enumerate(pairs):
        rows[e, i], rows[e, j] = 1.0, -1.0
    return rows


def graph_program(pairs: list[tuple[int, int]], d: list[float], n: int, **more: Any) -> Program:
    """MVU's equality form by hand, without anything a problem would add."""
    block = Block.of(n, edge_rows(pairs, n), cost=Cost.of(n, identity=1.0), null=np.ones(n))
    return Program.of(block, d, **more)


def direction_of_lengths(program: Program, lengths: Array) -> Array:
    """The smallest centred D whose squared lengths are `lengths`."""
    b = program.blocks[0].incidence.toarray()
    y = np.linalg.solve((b @ b.T) ** 2, lengths)
    return np.asarray((b.T * y) @ b)


def relative_excess(program: Program, optimum: float, bound: float) -> float:
    """By how much of the optimum the bound lies on its right side; negative: it cuts it off."""
    scale = max(abs(optimum), 1e-300)
    return (bound - optimum) * program.sign / scale


# -- what is accepted -----------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_good_answer_passes(unfoldings: dict[str, Any], form: str) -> None:
    case = unfoldings[form]
    certificate = certify(case.program, case.solution.matrix, case.solution.x, case.solution.dual)
    assert certificate.passes(TOL)
    assert certificate.failures(TOL) == []
    assert certificate.objective == pytest.approx(case.optimum, rel=1e-7)
    assert certificate.safe_bound == pytest.approx(case.optimum, rel=1e-7)
    assert certificate.relative_gap < 1e-7
    assert not certificate.passes(1e-16)


@pytest.mark.parametrize("form", FORMS)
def test_objective_is_the_forms_own(unfoldings: dict[str, Any], form: str) -> None:
    case = unfoldings[form]
    K = case.solution.matrix
    expected = np.trace(K)
    if form == "slack":
        omega, d = case.problem.omega_used, case.program.rhs
        xi = case.program.measure([K]) - d
        expected = (1 - omega) * np.trace(K) - omega * np.abs(xi).sum()
    found = certify(case.program, K, case.solution.x, case.solution.dual).objective
    assert found == pytest.approx(expected, rel=1e-12)
    dual = certify(case.program, K, case.solution.x, case.solution.dual).dual_objective
    assert dual == pytest.approx(case.program.rhs @ case.solution.dual, rel=1e-12)


def test_one_matrix_or_a_list_of_one(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["equality"]
    K, w = case.solution.matrix, case.solution.dual
    for given_matrices in (K, [K], (K,), K[None]):
        assert certify(case.program, given_matrices, dual=w).passes(TOL)


# -- what is refused ------------------------------------------------------------------------


def test_one_wrong_edge_is_seen(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["equality"]
    program, K, w = case.program, case.solution.matrix, case.solution.dual
    for e in range(program.n_rows):
        lengths = np.zeros(program.n_rows)
        lengths[e] = 1e-3 * program.rhs.max()
        certificate = certify(program, K + direction_of_lengths(program, lengths), dual=w)
        expected = lengths[e] / (program.rhs[e] + lengths[e])
        assert certificate.primal_residual == pytest.approx(expected, rel=1e-4)
        assert f"primal residual is {expected:.2g}" in certificate.failures(TOL)


def test_a_shorter_edge_is_allowed_by_the_inequality_form_only(unfoldings: dict[str, Any]) -> None:
    program = unfoldings["inequality"].program
    K = 0.5 * unfoldings["inequality"].solution.matrix
    shorter = certify(program, K, dual=unfoldings["inequality"].solution.dual)
    assert shorter.primal_residual < 1e-14
    equality = unfoldings["equality"].program
    assert certify(equality, K, dual=unfoldings["equality"].solution.dual).primal_residual > 0.4


def test_an_indefinite_matrix_with_the_right_lengths_is_refused(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["equality"]
    program, K, w = case.program, case.solution.matrix, case.solution.dual
    u = np.random.default_rng(0).standard_normal(12)
    u -= u.mean()
    move = np.outer(u, u)
    move -= direction_of_lengths(program, program.measure([move]))
    worse = K - 10 * np.linalg.norm(K) / np.linalg.norm(move) * move
    certificate = certify(program, worse, dual=w)
    assert certificate.primal_residual < 1e-9 * program.rhs.max() / program.rhs.min()
    assert certificate.min_eigenvalue_primal < 0
    assert any("negative eigenvalue" in text for text in certificate.failures(TOL))


def test_eigenvalues_are_those_of_the_matrix(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["equality"]
    K = case.solution.matrix - 0.25 * np.eye(12)
    certificate = certify(case.program, K, dual=case.solution.dual)
    values = np.linalg.eigvalsh(K)
    assert certificate.min_eigenvalue_primal == pytest.approx(values[0], abs=1e-10)
    assert certificate.eigenvalue_scale == pytest.approx(np.abs(values).max(), rel=1e-12)
    L = case.problem.neighborhood.laplacian(case.solution.dual).toarray()
    basis = scipy.linalg.null_space(np.ones((1, 12)))
    expected = np.linalg.eigvalsh(basis.T @ (L - np.eye(12)) @ basis)[0]
    assert certificate.min_eigenvalue_dual == pytest.approx(expected, abs=1e-10)


def test_an_asymmetric_matrix_is_refused(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["equality"]
    K = case.solution.matrix.copy()
    twist = np.zeros_like(K)
    twist[0, 1], twist[1, 0] = 1.0, -1.0
    K += 1e-3 * np.linalg.norm(K) * twist
    certificate = certify(case.program, K, dual=case.solution.dual)
    assert certificate.primal_residual == pytest.approx(1e-3 * math.sqrt(2), rel=1e-3)
    assert certificate.failures(TOL) == ["primal residual is 0.0014"]


def test_an_uncentred_matrix_is_refused(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["equality"]
    K = case.solution.matrix
    moved = K + 1e-3 * np.linalg.norm(K) / 12 * np.ones((12, 12))
    certificate = certify(case.program, moved, dual=case.solution.dual)
    assert certificate.primal_residual == pytest.approx(1e-3, rel=1e-2)
    assert not certificate.passes(1e-4)


@pytest.mark.parametrize("factor", [1 + 1e-4, 1 - 1e-4])
def test_a_scaled_matrix_is_refused(unfoldings: dict[str, Any], factor: float) -> None:
    case = unfoldings["equality"]
    certificate = certify(case.program, factor * case.solution.matrix, dual=case.solution.dual)
    assert certificate.primal_residual == pytest.approx(1e-4, rel=1e-3)
    assert certificate.relative_gap == pytest.approx(1e-4, rel=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_negated_duals_are_refused(unfoldings: dict[str, Any], form: str) -> None:
    case = unfoldings[form]
    s = case.solution
    certificate = certify(case.program, s.matrix, s.x, -s.dual)
    assert certificate.dual_residual > 0.1 or form == "min_trace"
    assert certificate.relative_gap > 0.01
    assert relative_excess(case.program, case.optimum, certificate.safe_bound) > -1e-7


@pytest.mark.parametrize("form", FORMS)
def test_missing_duals_are_refused(unfoldings: dict[str, Any], form: str) -> None:
    case = unfoldings[form]
    certificate = certify(case.program, case.solution.matrix, case.solution.x)
    assert certificate.relative_gap == np.inf
    assert certificate.dual_residual == np.inf
    assert certificate.safe_bound == case.program.sign * np.inf
    assert not certificate.passes(1e6)


@pytest.mark.parametrize("form", FORMS)
def test_zero_duals_are_refused(unfoldings: dict[str, Any], form: str) -> None:
    case = unfoldings[form]
    s = case.solution
    certificate = certify(case.program, s.matrix, s.x, np.zeros(case.program.n_rows))
    assert certificate.relative_gap > 0.01
    assert relative_excess(case.program, case.optimum, certificate.safe_bound) > 0


def test_wrong_signs_in_the_inequality_form_are_refused(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["inequality"]
    w = case.solution.dual.copy()
    w[np.argmin(w)] = -0.5
    certificate = certify(case.program, case.solution.matrix, dual=w)
    assert certificate.dual_residual >= 0.5
    assert [text.startswith("dual residual") for text in certificate.failures(TOL)] == [True]
    # The bound uses the clipped multipliers and still holds.
    assert relative_excess(case.program, case.optimum, certificate.safe_bound) > -1e-7


def test_multipliers_outside_of_the_slack_box_are_refused(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["slack"]
    w = case.solution.dual.copy()
    w[0] = case.problem.omega_used + 0.25
    certificate = certify(case.program, case.solution.matrix, case.solution.x, w)
    magnitude = max(1 - case.problem.omega_used, case.problem.omega_used)
    assert certificate.dual_residual == pytest.approx(0.25 / magnitude, rel=1e-9)


def test_negative_slacks_are_refused(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["slack"]
    x = case.solution.x.copy()
    m = case.program.n_rows
    x[0], x[m] = x[0] - 1.0, x[m] - 1.0  # the row stays in place
    certificate = certify(case.program, case.solution.matrix, x, case.solution.dual)
    assert certificate.primal_residual > 1e-3


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["K", "x", "dual"])
def test_a_single_bad_number_is_refused(unfoldings: dict[str, Any], where: str, bad: float) -> None:
    case = unfoldings["slack"]
    s = case.solution
    parts = {"K": s.matrix.copy(), "x": s.x.copy(), "dual": s.dual.copy()}
    parts[where].flat[3] = bad
    certificate = certify(case.program, parts["K"], parts["x"], parts["dual"])
    assert certificate.relative_gap == np.inf
    assert not certificate.passes(1e6)
    assert max(certificate.primal_residual, certificate.dual_residual) == np.inf


@pytest.mark.parametrize("values", [(np.inf, -np.inf), (1e200, 1.0), (1e308, 1e308)])
def test_overflow_is_refused_quietly(
    unfoldings: dict[str, Any], values: tuple[float, float]
) -> None:
    case = unfoldings["equality"]
    K, w = case.solution.matrix.copy(), case.solution.dual.copy()
    w[:2] = values
    assert not certify(case.program, K, dual=w).passes(1.0)
    K[0, 0], K[1, 1] = values
    assert not certify(case.program, K, dual=case.solution.dual).passes(1.0)


def test_everything_nan_fails_every_check(unfoldings: dict[str, Any]) -> None:
    program = unfoldings["equality"].program
    nan = np.full((12, 12), np.nan)
    certificate = certify(program, nan, dual=np.full(program.n_rows, np.nan))
    assert len(certificate.failures(1e300)) >= 3


def test_wrong_shapes_are_errors(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["slack"]
    program, s = case.program, case.solution
    for matrices, x, dual, words in (
        (s.matrix[:, :-1], s.x, s.dual, "shape"),
        ([s.matrix, s.matrix], s.x, s.dual, "2 matrices for 1 blocks"),
        (s.matrix, s.x[:-1], s.dual, "x has shape"),
        (s.matrix, s.x, s.dual[:-1], "dual has shape"),
        (s.matrix, s.x, s.dual[:, None], "dual has shape"),
    ):
        with pytest.raises(InputError, match=words):
            certify(program, matrices, x, dual)
    with pytest.raises(InputError, match="multipliers has shape"):
        certify_infeasible(program, s.dual[:-1])
    with pytest.raises(InputError, match="x has shape"):
        certify_unbounded(program, [s.matrix], s.x[:-1])


# -- the safe bound is a bound --------------------------------------------------------------


def garbage(kind: str, seed: int, power: float, dual: Array) -> Array:
    """Multipliers of every sort of wrongness."""
    rng = np.random.default_rng(seed)
    noise = 10.0**power * rng.standard_normal(dual.size)
    if kind == "noise":
        return noise
    if kind == "near":
        return dual * (1 + noise) if power < 0 else dual + noise
    if kind == "positive":
        return np.abs(noise)
    if kind == "constant":
        return np.full(dual.size, 10.0**power)
    return np.where(rng.random(dual.size) < 0.3, noise, 0.0)


kinds = st.sampled_from(["noise", "near", "positive", "constant", "sparse"])


@pytest.mark.parametrize("form", FORMS)
@given(kind=kinds, seed=seeds, power=st.floats(-12, 8))
@quick
def test_no_multipliers_cut_off_the_optimum(
    unfoldings: dict[str, Any], form: str, kind: str, seed: int, power: float
) -> None:
    case = unfoldings[form]
    w = garbage(kind, seed, power, case.program.sign * case.solution.dual)
    bound = case.program.sign * safe_bound(case.program, w).value
    assert relative_excess(case.program, case.optimum, bound) > -1e-7


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_vanishing_multipliers_do_not_cut_off_the_optimum(
    unfoldings: dict[str, Any], form: str
) -> None:
    """Below rounding, Aᵀ(w) cannot be told from zero beside C: no factor may bring it back."""
    case = unfoldings[form]
    rng = np.random.default_rng(0)
    for _ in range(400):
        w = 10.0 ** rng.uniform(-18, -14) * rng.standard_normal(case.program.n_rows)
        bound = case.program.sign * safe_bound(case.program, w).value
        assert relative_excess(case.program, case.optimum, bound) > -1e-7


@pytest.mark.parametrize("reduction", ["auto", "off"])
def test_singular_multipliers_do_not_cut_off_the_optimum(reduction: Any) -> None:
    """Three points on a line: L(w) is singular and dᵀw = 0 for w = (2, −1, 2), tr K = 2."""
    pairs = [[0, 1], [1, 2], [0, 2]]
    points = [[0.0], [1.0], [2.0]]
    program = sdpkit.MVU(points, edges=pairs, facial_reduction=reduction).program()
    w = np.where(program.rhs > 2, -1.0, 2.0)
    assert program.rhs @ w == 0
    for factor in np.logspace(-3, 3, 200):
        assert safe_bound(program, factor * w).value >= 2 - 1e-9


@pytest.mark.parametrize("form", FORMS)
@given(kind=kinds, seed=seeds, power=st.floats(-6, 3))
@quick
def test_no_multipliers_cut_off_the_input(
    unfoldings: dict[str, Any], form: str, kind: str, seed: int, power: float
) -> None:
    """The Gram matrix of the data is feasible in every form, whatever the optimum is."""
    case = unfoldings[form]
    X = sdpkit.datasets.swiss_roll(12)
    X = X - X.mean(axis=0)
    x = np.zeros(case.program.n_auxiliary)
    w = case.program.sign * garbage(kind, seed, power, case.solution.dual)
    certificate = certify(case.program, X @ X.T, x, w)
    assert certificate.primal_residual < 1e-12
    assert relative_excess(case.program, certificate.objective, certificate.safe_bound) > -1e-10


@pytest.mark.parametrize("form", FORMS)
@given(kind=kinds, seed=seeds, power=st.floats(-8, 2))
@quick
def test_every_connected_form_has_a_finite_bound(
    unfoldings: dict[str, Any], form: str, kind: str, seed: int, power: float
) -> None:
    case = unfoldings[form]
    w = garbage(kind, seed, power, case.program.sign * case.solution.dual)
    assert np.isfinite(safe_bound(case.program, w).value)


@pytest.mark.parametrize("form", FORMS)
@given(seed=seeds, power=st.floats(-10, -3))
@quick
def test_the_bound_degrades_no_faster_than_the_noise(
    unfoldings: dict[str, Any], form: str, seed: int, power: float
) -> None:
    case = unfoldings[form]
    w = case.program.sign * case.solution.dual
    noise = np.random.default_rng(seed).uniform(-1, 1, w.size)
    bound = case.program.sign * safe_bound(case.program, w * (1 + 10.0**power * noise)).value
    assert relative_excess(case.program, case.optimum, bound) < 100 * 10.0**power + 1e-7


def test_the_box_costs_no_bound_by_rounding(unfoldings: dict[str, Any]) -> None:
    """Multipliers at ω, blended with an anchor at ω, may exceed ω by their last bit."""
    case = unfoldings["slack"]
    for seed in range(200):
        noise = np.random.default_rng(seed).uniform(-1, 1, case.program.n_rows)
        bound = safe_bound(case.program, case.solution.dual * (1 + 1e-5 * noise))
        assert bound.value == pytest.approx(case.optimum, rel=1e-3)


def test_bound_sources_are_named(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["equality"]
    K, w = case.solution.matrix, case.solution.dual
    lift = 1 / case.problem.neighborhood.algebraic_connectivity()
    inside = certify(case.program, K, dual=w + lift * np.ones(w.size))
    assert inside.bound_source in ("feasible dual", "scaled dual")
    assert certify(case.program, K, dual=0 * w).bound_source == "trace bound"
    assert certify(case.program, K).bound_source == "no multipliers"
    anchored = unfoldings["slack"]
    found = certify(anchored.program, anchored.solution.matrix, anchored.solution.x, 0 * w)
    assert found.bound_source == "anchor"


def test_trace_bound_of_zero_multipliers_is_the_problems_trace(unfoldings: dict[str, Any]) -> None:
    program = unfoldings["equality"].program
    bound = safe_bound(program, np.zeros(program.n_rows))
    assert bound.value == pytest.approx(program.safe.trace[0], rel=1e-9)


def test_without_any_repair_an_infeasible_dual_bounds_nothing() -> None:
    """max M₁₁ + M₂₂ with M₁₁ = 1 only: unbounded, so nothing may bound it."""
    block = Block.of(2, [[1.0, 0.0]], cost=Cost.of(2, identity=1.0))
    program = Program.of(block, [1.0])
    for w in (-1.0, 0.0, 1.0, 1e12):
        assert safe_bound(program, np.array([w])).value == np.inf


def test_a_useless_direction_and_a_useless_anchor_are_not_used() -> None:
    """The problem's own help is checked: here both claims are false, and so is the trace's."""
    block = Block.of(2, np.eye(2), cost=Cost.of(2, sparse=[[0.0, 1.0], [1.0, 0.0]]))
    safe = SafeBounds(direction=np.array([1.0, -1.0]), anchor=np.array([0.5, 0.5]))
    program = Program.of(block, [1.0, 1.0], safe=safe)  # max 2 M₁₂ with unit diagonal: 2
    assert direction_strength(program) is None
    for w in ([0.0, 0.0], [0.5, 0.5], [0.9, 0.9], [2.0, 0.1]):
        assert safe_bound(program, np.array(w)).value >= 2
    honest = replace(program, safe=SafeBounds(direction=np.array([1.0, 1.0])))
    assert direction_strength(honest) == pytest.approx(0.99)
    assert 2 <= safe_bound(honest, np.array([0.9, 0.9])).value < 2.01


# -- programs of every kind -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_kind_against_a_model_of_its_own(
    instance: Callable[[str, int], Any], kind: str, seed: int
) -> None:
    case = instance(kind, seed)
    solution = sdpkit.solve(case.program(), solver="clarabel", tol=1e-6)
    assert solution.status == "optimal"
    optimum = case.optimum()
    scale = max(1.0, abs(optimum))
    assert solution.objective == pytest.approx(optimum, abs=2e-6 * scale)
    assert solution.certificate.safe_bound == pytest.approx(optimum, abs=2e-6 * scale)


@given(kind=st.sampled_from(KINDS), seed=seeds)
@quick
def test_weak_duality(instance: Callable[[str, int], Any], kind: str, seed: int) -> None:
    """An interior primal point and an interior dual point of independent making."""
    case = instance(kind, seed)
    program = case.program()
    certificate = certify(program, case.matrices, case.x, case.dual)
    assert certificate.primal_residual < 1e-10
    assert certificate.dual_residual < 1e-10
    assert certificate.min_eigenvalue_primal > 0
    assert certificate.min_eigenvalue_dual > 0
    scale = max(1.0, abs(certificate.dual_objective))
    distance = program.sign * (certificate.dual_objective - certificate.objective)
    assert distance > -1e-10 * scale
    # A feasible dual needs no repair, so the bound is at least as good as its value.
    better = program.sign * (certificate.dual_objective - certificate.safe_bound)
    assert better > -1e-9 * scale


@pytest.mark.parametrize("kind", KINDS)
def test_garbage_never_cuts_off_the_optimum_of_any_kind(
    instance: Callable[[str, int], Any], kind: str
) -> None:
    case = instance(kind, 3)
    program, optimum = case.program(), case.optimum()
    rng = np.random.default_rng(0)
    finite = 0
    for _ in range(50):
        noise = 10.0 ** rng.uniform(-6, 3) * rng.standard_normal(case.dual.size)
        for w in (noise, program.sign * case.dual + noise):
            bound = program.sign * safe_bound(program, w).value + program.offset
            finite += np.isfinite(bound)
            assert program.sign * (bound - optimum) > -1e-7 * max(1.0, abs(optimum))
    assert finite > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_complementary_pair_is_refused_when_it_is_spoilt(
    instance: Callable[[str, int], Any], kind: str
) -> None:
    """Interior points are feasible but far from optimal: the gap alone must refuse them."""
    case = instance(kind, 4)
    certificate = certify(case.program(), case.matrices, case.x, case.dual)
    assert certificate.relative_gap > 1e-3
    assert certificate.failures(TOL)[0].startswith("certified relative gap")


def test_a_free_variables_equation_is_demanded() -> None:
    """max M with M + x = 1, x free: unbounded; w = 1 is dual feasible for M, not for x."""
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0))
    program = Program.of(block, [1.0], rows_x=np.ones((1, 1)), free_x=[True])
    certificate = certify(program, [[[1.0]]], [0.0], [1.0])
    assert certificate.safe_bound == np.inf
    assert certificate.dual_residual == pytest.approx(1.0)


def test_free_variables_in_large_units(instance: Callable[[str, int], Any]) -> None:
    """Costs times 10⁶: the same program, the same verdict."""
    for seed in range(6):
        case = instance("free", seed)
        optimum = 1e6 * case.optimum()
        case.costs, case.cost_x = [1e6 * c for c in case.costs], 1e6 * case.cost_x
        solution = sdpkit.solve(case.program(), solver="clarabel")
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(optimum, rel=2e-6)


# -- the numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("sense", ["max", "min"])
def test_dimacs_errors_against_the_definition(sense: Any) -> None:
    rng = np.random.default_rng(2)
    v = rng.standard_normal((3, 4))
    b = np.array([1.0, -2.0, 0.5])
    program = Program.of(Block.of(4, v, cost=Cost.of(4, identity=0.75)), b, sense=sense)
    M = rng.standard_normal((4, 4))
    M, w = (M + M.T) / 2, rng.standard_normal(3)
    C = 0.75 * np.eye(4)
    S = (v.T * w) @ v - C if sense == "max" else C - (v.T * w) @ v
    primal, dual = float(np.sum(C * M)), float(b @ w)
    size = 1 + abs(primal) + abs(dual)
    residual = np.einsum("pi,ij,pj->p", v, M, v) - b
    expected = (
        np.linalg.norm(residual) / (1 + 2.0),
        max(0.0, -np.linalg.eigvalsh(M)[0]) / (1 + 2.0),
        0.0,
        max(0.0, -np.linalg.eigvalsh(S)[0]) / (1 + 0.75),
        (dual - primal) * (1 if sense == "max" else -1) / size,
        float(np.sum(M * S)) / size,
    )
    certificate = certify(program, M, dual=w)
    np.testing.assert_allclose(certificate.dimacs, expected, rtol=1e-10, atol=1e-12)


def test_dimacs_errors_of_a_missing_dual_are_infinite(unfoldings: dict[str, Any]) -> None:
    case = unfoldings["equality"]
    dimacs = certify(case.program, case.solution.matrix).dimacs
    assert dimacs[0] < 1e-6
    assert dimacs[2:] == (np.inf,) * 4


def test_relative_gap_is_the_distance_over_the_largest_of_three() -> None:
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0))
    for scale, expected in ((1.0, 0.5 / 4.5), (10.0, 0.05)):
        program = Program.of(block, [4.0], safe=SafeBounds(value_scale=scale), relations="<=")
        certificate = certify(program, [[[4.5]]], dual=[1.0])
        assert certificate.safe_bound == pytest.approx(4.0)
        assert certificate.relative_gap == pytest.approx(expected, rel=1e-12)
        below = certify(program, [[[3.5]]], dual=[1.0])
        assert below.relative_gap == pytest.approx(0.5 / max(4.0, scale), rel=1e-12)


def test_primal_residual_of_rows_with_zero_rhs_is_relative_to_what_they_sum() -> None:
    block = Block.of(2, np.eye(2), cost=Cost.of(2, identity=1.0))
    program = Program.of(block, [0.0], rows_q=[[1.0, -1.0]])
    certificate = certify(program, [np.diag([3.0, 1.0])], dual=[0.0])
    assert certificate.primal_residual == pytest.approx(2 / 4)


def test_dual_residual_is_relative_to_the_cost() -> None:
    block = Block.of(2, np.eye(2), cost=Cost.of(2, identity=100.0))
    program = Program.of(block, [1.0, 1.0])
    certificate = certify(program, [np.eye(2)], dual=[100.0, 99.0])
    assert certificate.dual_residual == pytest.approx(0.01)
    assert certificate.min_eigenvalue_dual == pytest.approx(-1.0)


def test_a_zero_optimum_passes() -> None:
    """All points equal: the value is 0 and 0/0 counts as 0."""
    for form in ("equality", "inequality", "min_trace"):
        problem = sdpkit.MVU(np.ones((5, 2)), n_neighbors=2, form=form)
        solution = sdpkit.solve(problem, solver="clarabel")
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(0.0, abs=1e-9)
    block = Block.of(2, np.eye(2), cost=Cost.of(2, identity=1.0))
    program = Program.of(block, [0.0, 0.0], safe=SafeBounds(value_scale=0.0))
    certificate = certify(program, np.zeros((2, 2)), dual=[1.0, 1.0])
    assert (certificate.relative_gap, certificate.primal_residual) == (0.0, 0.0)
    assert certificate.passes(1e-300)
    assert not certify(program, 1e-9 * np.eye(2), dual=[1.0, 1.0]).passes(1e-3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_do_not_matter(unfoldings: dict[str, Any], form: str, factor: float) -> None:
    case = unfoldings[form]
    more = {"omega": case.problem.omega_used} if form == "slack" else {}
    X = sdpkit.datasets.swiss_roll(12)
    scaled = sdpkit.MVU(factor * X, n_neighbors=4, form=form, **more).program()
    rng = np.random.default_rng(0)
    K = case.solution.matrix + 1e-3 * np.cov(rng.standard_normal((12, 12)))
    w = case.solution.dual * (1 + 1e-3 * rng.standard_normal(case.program.n_rows))
    x = case.solution.x
    one = certify(case.program, K, x, w)
    other = certify(scaled, factor**2 * K, factor**2 * x, w)
    assert other.relative_gap == pytest.approx(one.relative_gap, rel=1e-6)
    assert other.primal_residual == pytest.approx(one.primal_residual, rel=1e-6)
    assert other.dual_residual == pytest.approx(one.dual_residual, rel=1e-6)
    assert other.safe_bound == pytest.approx(factor**2 * one.safe_bound, rel=1e-9)
    good = certify(scaled, factor**2 * case.solution.matrix, factor**2 * x, case.solution.dual)
    assert good.passes(TOL)


def test_text_says_what_was_found(unfoldings: dict[str, Any]) -> None:
    text = str(unfoldings["equality"].solution.certificate)
    assert "safe upper bound" in text
    assert "certified relative gap" in text
    assert "safe lower bound" in str(unfoldings["min_trace"].solution.certificate)
    assert repr(unfoldings["equality"].solution.certificate) == text


def test_project_onto_cone_is_the_nearest_point() -> None:
    rng = np.random.default_rng(0)
    block = Block.of(4, np.eye(4), null=np.ones(4))
    a = rng.standard_normal((4, 4))
    found = project_onto_cone(block, a)
    np.testing.assert_allclose(found @ np.ones(4), 0, atol=1e-12)
    assert np.linalg.eigvalsh(found)[0] > -1e-12
    # Nearest: the remainder is orthogonal to the point and makes an obtuse angle with the cone.
    rest = a - found
    assert np.sum(rest * found) == pytest.approx(0, abs=1e-10)
    for _ in range(50):
        u = rng.standard_normal(4)
        u -= u.mean()
        assert u @ rest @ u <= 1e-10


# -- rays -----------------------------------------------------------------------------------

TRIANGLE = np.array([[0, 1, 1], [1, 0, 3], [1, 3, 0]])
LINE: Any = {"X": [[0.0], [1.0], [2.0]], "edges": [[0, 1], [1, 2], [0, 2]]}


@pytest.mark.parametrize("form", ["equality", "min_trace"])
def test_the_long_triangle_is_infeasible(form: Any) -> None:
    program = sdpkit.MVU(graph=TRIANGLE, form=form).program()
    ray = np.where(program.rhs > 2, -1.0, 2.0)
    found = certify_infeasible(program, program.sign * ray)
    assert found.kind == "infeasible"
    assert found.passes(1e-12)
    np.testing.assert_allclose(found.multipliers, program.sign * ray / 5, rtol=1e-12)
    assert program.rhs @ found.multipliers == pytest.approx(-program.sign)
    # The opposite vector proves nothing.
    assert not certify_infeasible(program, -program.sign * ray).passes(1e-3)


@given(seed=seeds)
@quick
def test_a_perturbed_ray_is_still_a_proof(seed: int) -> None:
    program = sdpkit.MVU(graph=TRIANGLE).program()
    ray = np.where(program.rhs > 2, -1.0, 2.0)
    noise = np.random.default_rng(seed).uniform(-1, 1, 3)
    found = certify_infeasible(program, ray + 0.05 * noise)
    assert found.proof
    assert found.passes(0.0)


@given(seed=seeds, power=st.floats(-12, 2))
@quick
def test_no_multipliers_prove_a_feasible_program_infeasible(
    unfoldings: dict[str, Any], seed: int, power: float
) -> None:
    rng = np.random.default_rng(seed)
    for form in ("equality", "inequality", "min_trace"):
        program = unfoldings[form].program
        w = 10.0**power * rng.standard_normal(program.n_rows)
        assert not certify_infeasible(program, w).passes(1e-7)


@pytest.mark.parametrize("reduction", ["auto", "off"])
@pytest.mark.parametrize("excess", [1e-12, 1e-10, 1e-9, 1e-8])
def test_a_feasible_program_at_the_edge_is_not_proved_infeasible(
    reduction: Any, excess: float
) -> None:
    """Points on a line: dᵀw < 0 costs a violation whose trace bound takes it all back."""
    program = sdpkit.MVU(**LINE, facial_reduction=reduction).program()
    w = np.where(program.rhs > 2, -1.0 - excess, 2.0)
    assert program.rhs @ w < 0
    assert not certify_infeasible(program, w).passes(1e-7)


def test_garbage_is_no_ray() -> None:
    program = sdpkit.MVU(graph=TRIANGLE).program()
    for w in ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [-1.0, -1.0, 0.0], [np.nan] * 3, [np.inf, 1, 1]):
        found = certify_infeasible(program, w)
        assert not found.passes(0.5)
        assert not found.proof


def test_signs_of_inequality_rows_are_part_of_a_ray() -> None:
    """M ≤ 1 and M ≥ 2 contradict each other; with M ≥ ½ nothing does."""
    block = Block.of(1, [[1.0]])
    rows, relations = [[1.0], [1.0]], [-1, 1]
    empty = Program.of(block, [1.0, 2.0], rows_q=rows, relations=relations)
    assert certify_infeasible(empty, [1.0, -1.0]).passes(0.0)
    assert not certify_infeasible(empty, [-1.0, 1.0]).passes(1.0)
    full = Program.of(block, [1.0, 0.5], rows_q=rows, relations=relations)
    for w in ([1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, 1.0]):
        assert not certify_infeasible(full, w).passes(0.1)


def test_a_repair_direction_with_wrong_signs_repairs_no_ray() -> None:
    """2M ≤ 10, M ≥ 1 (as −M ≤ −1) is feasible; the claimed direction has forbidden signs."""
    program = Program.of(
        Block.of(1, [[1.0]]),
        [10.0, -1.0],
        rows_q=[[2.0], [-1.0]],
        relations="<=",
        safe=SafeBounds(direction=np.array([-1.0, -3.0])),
    )
    assert not certify_infeasible(program, [0.0, 1.0]).passes(1e-7)


def test_auxiliary_variables_are_part_of_a_ray() -> None:
    """M + x = −1 has no solution with x ≥ 0 and has one with x free."""
    block = Block.of(1, [[1.0]])
    bounded = Program.of(block, [-1.0], rows_x=np.ones((1, 1)))
    assert certify_infeasible(bounded, [1.0]).passes(0.0)
    free = Program.of(block, [-1.0], rows_x=np.ones((1, 1)), free_x=[True])
    assert not certify_infeasible(free, [1.0]).passes(0.5)
    negative = Program.of(block, [-1.0], rows_x=-np.ones((1, 1)))
    assert not certify_infeasible(negative, [1.0]).passes(0.5)


def test_a_disconnected_graph_is_unbounded() -> None:
    program = graph_program([(0, 1), (2, 3)], [1.0, 1.0], 4)
    u = np.array([1.0, 1.0, -1.0, -1.0])
    for size in (1.0, 1e-9, 1e9, 1e-200, 1e200):
        found = certify_unbounded(program, [size * np.outer(u, u)], [])
        assert found.kind == "unbounded"
        assert found.passes(1e-12)
        np.testing.assert_allclose(found.matrices[0], np.outer(u, u) / 4, atol=1e-12)


@given(seed=seeds)
@quick
def test_a_nearly_exact_unbounded_ray_counts(seed: int) -> None:
    program = graph_program([(0, 1), (2, 3)], [1.0, 1.0], 4)
    u = np.array([1.0, 1.0, -1.0, -1.0]) + 1e-6 * np.random.default_rng(seed).uniform(-1, 1, 4)
    assert certify_unbounded(program, [np.outer(u, u)], []).passes(1e-9)


def test_an_unbounded_ray_with_five_components_of_random_sizes() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), rng.integers(2, 5, 5))
    pairs = [(i, i + 1) for i in range(labels.size - 1) if labels[i] == labels[i + 1]]
    program = graph_program(pairs, [2.0] * len(pairs), labels.size)
    u = rng.standard_normal(5)[labels]
    u -= u.mean()
    assert certify_unbounded(program, [np.outer(u, u)], []).passes(1e-12)


def test_what_stretches_an_edge_is_no_unbounded_ray() -> None:
    program = graph_program([(0, 1), (2, 3)], [1.0, 1.0], 4)
    rng = np.random.default_rng(0)
    for _ in range(50):
        u = rng.standard_normal(4)
        u -= u.mean()
        assert not certify_unbounded(program, [np.outer(u, u)], []).passes(1e-7)
    connected = graph_program([(0, 1), (1, 2), (2, 3)], [1.0, 1.0, 1.0], 4)
    v = np.array([1.0, 1.0, -1.0, -1.0])
    assert not certify_unbounded(connected, [np.outer(v, v)], []).passes(1e-7)
    for bad in (np.zeros((4, 4)), -np.outer(v, v), np.full((4, 4), np.nan), np.ones((4, 4))):
        assert not certify_unbounded(connected, [bad], []).passes(1e-7)


def test_unbounded_rays_respect_inequalities_and_senses() -> None:
    """max M with M ≥ 1 is unbounded, min M is not; with M ≤ 1 neither is."""
    block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0))
    ray = [np.array([[1.0]])]
    assert certify_unbounded(Program.of(block, [1.0], relations=">="), ray, []).passes(0.0)
    for sense, relation in (("max", "<="), ("max", "=="), ("min", ">="), ("min", "<=")):
        program = Program.of(block, [1.0], relations=relation, sense=sense)
        assert not certify_unbounded(program, ray, []).passes(0.5)


def test_a_curved_variable_never_runs_away() -> None:
    """max x − ½hx² is bounded however small h is; without h it is not."""
    block = Block.of(1, [[1.0]])
    more: dict[str, Any] = {"rows_x": np.zeros((1, 1)), "cost_x": [1.0], "free_x": [True]}
    flat = Program.of(block, [1.0], **more)
    assert certify_unbounded(flat, [np.zeros((1, 1))], [1.0]).passes(0.0)
    for h in (1.0, 1e-3):
        curved = Program.of(block, [1.0], **more, quadratic_x=[h])
        for x in (0.1, 1.0, 1 / h):
            assert not certify_unbounded(curved, [np.zeros((1, 1))], [x]).passes(1e-7)


# -- faces that were computed -----------------------------------------------------------------


def collinear(lengths: list[float], tilt: float) -> Program:
    """Three points on a line, their flat direction off by `tilt`."""
    incidence = [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 0.0, -1.0]]
    flat = np.array([1.0, -2.0 + tilt, 1.0 - tilt])
    block = Block.of(3, incidence, cost=Cost.of(3, identity=1.0), null=np.c_[np.ones(3), flat])
    return Program.of(block, lengths, safe=SafeBounds(trace=(float(sum(lengths)),)))


def test_a_tilted_face_does_not_make_points_impossible() -> None:
    """0, 1, 2 exist; that the face misses them by 1e-10 is no proof that they do not."""
    program = collinear([1.0, 1.0, 4.0], tilt=1e-10)
    (block,) = program.blocks
    first, second, both = block.measure(block.face @ block.face.T)
    side = np.sign(second - first)
    ray = np.array([-side, side, -0.9 * abs(second - first) / both])
    assert ray @ [first, second, both] > 0 > ray @ program.rhs
    assert not certify_infeasible(program, ray).passes(1e-7)


def test_points_that_contradict_each_other_are_still_found_out() -> None:
    program = collinear([1.0, 1.0, 4.01], tilt=1e-10)
    assert certify_infeasible(program, [2.001, 2.001, -1.0]).passes(1e-7)
