"""Second-order cones: in the form, the certificate, the solvers and the conversion to blocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import sdpkit
from sdpkit import Block, Cost, InputError, NormPenalty, Program, SecondOrderCone
from sdpkit.certificate.certify import certify
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.program.arrow import arrow_point, without_second_order_cones
from sdpkit.program.epigraph import without_penalties
from sdpkit.program.sdpa import write_sdpa
from sdpkit.program.second_order import VariableCone
from sdpkit.solution.solution import Status
from sdpkit.solvers.lorentz import LorentzCones, LorentzRows
from sdpkit.testing.programs import in_ball, shortest
from sdpkit.typing import Array

CONES = (SecondOrderCone.of([4, 1, 2]), SecondOrderCone.of([0]), SecondOrderCone.of([5, 6]))
FREE = np.array([True, True, True, False, True, True, True, True])
CONE = VariableCone.of(FREE, CONES)


def random_program(seed: int) -> Program:
    """A program with strictly feasible points on both sides, a matrix, and cones of sizes 1 to 6
    beside nonnegative and free variables."""
    r = np.random.default_rng(seed)
    sizes = r.integers(1, 7, size=r.integers(1, 4))
    n, n_plus, n_free = (int(r.integers(a, b)) for a, b in ((1, 4), (0, 3), (0, 2)))
    k = int(sizes.sum())
    m = int(r.integers(1 + n_free, 3 + n_free + (k + n_plus) // 2))
    ends = np.cumsum(np.r_[0, sizes])
    cones = [SecondOrderCone.of(np.arange(a, b)) for a, b in pairwise(ends)]
    free = np.r_[np.ones(k, bool), np.zeros(n_plus, bool), np.ones(n_free, bool)]
    block = Block.of(n, r.standard_normal((3, n)))
    rows_q, rows_x = r.standard_normal((m, 3)), r.standard_normal((m, free.size))
    x, s = r.standard_normal((2, free.size))
    for values in (x, s):
        for cone in cones:
            head, *tail = cone.members
            values[head] = np.linalg.norm(values[tail]) + r.random()
        values[k : k + n_plus] = np.abs(values[k : k + n_plus])
    s[k + n_plus :] = 0.0
    w, factor, slack = r.standard_normal(m), *r.standard_normal((2, n, n))
    image = block.adjoint(rows_q.T @ w)
    image = image.toarray() if sp.issparse(image) else image
    cost = image - slack @ slack.T
    return Program.of(
        replace(block, cost=Cost.of(n, sparse=(cost + cost.T) / 2)),
        rows_q @ block.measure(factor @ factor.T) + rows_x @ x,
        rows_q=rows_q,
        rows_x=rows_x,
        cost_x=rows_x.T @ w - s,
        free_x=free,
        cones=cones,
        name=f"random {seed}",
    )


# -- the form -------------------------------------------------------------------------------


ONE = Block.of(1, [[1.0]])
PLAIN: dict[str, Any] = {"rows_x": [[1.0, 1.0, 1.0]], "free_x": [True, True, False]}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"cones": [SecondOrderCone.of([0, 3])]}, "names variable 3; the program has 3"),
        ({"cones": [SecondOrderCone.of([-1, 0])]}, "names variable -1"),
        ({"cones": [SecondOrderCone.of([0, 2])]}, "free auxiliary variables only; set free_x"),
        ({"cones": [SecondOrderCone.of([0, 0])]}, "one second-order cone, once"),
        ({"cones": [SecondOrderCone.of([0]), SecondOrderCone.of([1, 0])]}, "cone, once"),
        ({"cones": [SecondOrderCone.of([0, 1])], "quadratic_x": [0, 1, 0]}, "no penalty"),
        (
            {"cones": [SecondOrderCone.of([0, 1])], "norms": [NormPenalty(1.0, (1,))]},
            "takes no penalty",
        ),
        ({"cones": [[0, 1]]}, "cones"),
    ],
)
def test_programs_refuse_cones_that_do_not_fit(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Program.of(ONE, [1.0], **PLAIN, **more)


@pytest.mark.parametrize("members", [[], [[0, 1]], [0.0, 1.0], "ab"])
def test_cones_refuse_what_are_no_numbers_of_variables(members: Any) -> None:
    with pytest.raises(InputError, match="the head first"):
        SecondOrderCone.of(members)


def test_cones_are_saved_printed_and_part_of_the_fingerprint(tmp_path: Path) -> None:
    program = random_program(3)
    program.save(tmp_path / "program.npz")
    again = Program.load(tmp_path / "program.npz")
    assert again.fingerprint == program.fingerprint
    assert [c.members.tolist() for c in again.cones] == [c.members.tolist() for c in program.cones]
    assert replace(program, cones=()).fingerprint != program.fingerprint
    assert replace(program, cones=program.cones[::-1]).fingerprint != program.fingerprint
    assert "4 in 1 second-order cone" in str(in_ball(1.0))


def test_a_file_with_damaged_cones_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.npz"
    shortest().save(path)
    with np.load(path) as file:
        arrays = dict(file)
    for starts in ([1], [0, 0], [0, 7], []):
        np.savez(path, **(arrays | {"cones/starts": np.array(starts, dtype=np.int64)}))
        with pytest.raises(InputError):
            Program.load(path)


def test_margin_moves_heads_alone() -> None:
    program, w = shortest(), np.array([0.3, -0.2])
    moved = program.sign * (program.with_margin(0.25).cost_x - program.cost_x)
    np.testing.assert_allclose(moved, [0.25, 0.0, 0.0])
    change = program.with_margin(0.25).reduced_costs(w) - program.reduced_costs(w)
    np.testing.assert_allclose(change, [-0.25, 0.0, 0.0])


numbers = st.lists(st.floats(-1e3, 1e3), min_size=8, max_size=8).map(np.array)


@given(numbers, numbers)
def test_projection_on_the_cone(x: Array, y: Array) -> None:
    p = CONE.projected(x)
    assert CONE.short(p) <= 1e-12 * (1 + np.abs(x).max())
    np.testing.assert_allclose(CONE.projected(p), p, atol=1e-10)
    # x − p is in the polar cone and orthogonal to p.
    q = CONE.projected(y)
    assert (x - p) @ (q - p) <= 1e-9 * (1 + np.abs(x).max()) * (1 + np.abs(y).max())


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_lengths_at_any_scale(size: float) -> None:
    values = size * np.array([0.0, 3.0, 4.0, 0, 5.0, 1.0, -2.0, 7.0])
    np.testing.assert_allclose(CONE.lengths(values) / size, [5.0, 0.0, 2.0])


def test_arrow_form_has_the_same_values_and_multipliers() -> None:
    program = random_program(5)
    form = without_second_order_cones(program)
    r = np.random.default_rng(0)
    m = r.standard_normal((program.blocks[0].size,) * 2)
    x = program.cone_x.projected(r.standard_normal(program.n_auxiliary))
    matrices, rest = form.lowered((m @ m.T,), x)
    back = form.lifted(matrices, rest)
    np.testing.assert_allclose(back[1], x, atol=1e-12)
    here = program.row_values(program.measure(back[0]), x)
    there = form.program.row_values(form.program.measure(matrices), rest)
    np.testing.assert_allclose(there, here, atol=1e-9)
    assert form.program.objective(matrices, rest) == pytest.approx(program.objective((m @ m.T,), x))
    w = r.standard_normal(program.n_rows)
    slacks, reduced = form.program.dual_slacks(w)[1:], program.reduced_costs(w)
    for cone, slack in zip(program.cones, slacks, strict=True):
        head, tail = reduced[cone.members[0]], reduced[cone.members[1:]]
        least = head - np.linalg.norm(tail)
        assert np.linalg.eigvalsh(slack)[0] == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("values", [[2.0], [5.0, 3.0, -4.0], [1.0, 0.0, 0.0], [0.0, 0.0]])
def test_arrow_points(values: list[float]) -> None:
    s = arrow_point(np.array(values))
    np.testing.assert_allclose(np.r_[np.trace(s), 2 * s[0, 1:]], values)
    assert np.linalg.eigvalsh(s)[0] >= -1e-15


def test_files_of_sdpa_say_how_cones_get_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without_second_order_cones"):
        write_sdpa(shortest(), tmp_path / "p.dat-s")
    write_sdpa(without_second_order_cones(shortest()).program, tmp_path / "p.dat-s")


def test_proof_files_are_refused_by_name() -> None:
    certificate = sdpkit.solve(shortest(), solver="interior").certificate
    with pytest.raises(InputError, match="second-order cones has no proof file"):
        certificate.prove()


# -- the scaling ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_scaling_takes_both_points_to_one(seed: int) -> None:
    r = np.random.default_rng(seed)
    cone = LorentzCones(np.array([3, 1, 5]))
    x, s = r.standard_normal((2, cone.size))
    for values in (x, s):
        away = 10.0 ** r.integers(-6, 2, 3)
        values[cone.heads] = cone.layout.lengths(values) + away
    t = cone.scaling(x, s)
    np.testing.assert_allclose(t.scaled(s), t.point, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(t.unscaled(t.point), x, rtol=1e-6, atol=1e-9)
    v = r.standard_normal(cone.size)
    np.testing.assert_allclose(t.product(t.point, t.divided(v)), v, atol=1e-6)
    length = t.longest(v)
    if np.isfinite(length):
        assert cone.smallest(t.point + length * v).min() == pytest.approx(0, abs=1e-6 * length)
    a = sp.random_array((4, cone.size), density=0.7, rng=r, format="csr")
    rows, whole = LorentzRows(a, cone), np.array([t.unscaled(e) for e in np.eye(cone.size)])
    np.testing.assert_allclose(rows.scaled(t).toarray(), a @ whole, rtol=1e-9, atol=1e-9)
    normal = np.zeros((4, 4))
    rows.add_normal(normal, t)
    np.testing.assert_allclose(normal, a @ whole @ whole @ a.T, rtol=1e-6, atol=1e-6)


# -- the certificate ------------------------------------------------------------------------


def test_certificate_of_a_known_optimum() -> None:
    root = np.sqrt(0.5)
    point, dual = ([np.array([[4.0]])], [2 * root, 1.0, -1.0]), [-root, root]
    certificate = certify(shortest(), *point, dual)
    assert certificate.passes(1e-12)
    assert certificate.safe_bound <= np.sqrt(2) * (1 + 1e-15)


@pytest.mark.parametrize(
    ("x", "dual"),
    [
        ([1.40, 1.0, -1.0], [-np.sqrt(0.5), np.sqrt(0.5)]),  # outside of the cone
        ([np.sqrt(2), 1.0, -1.0], [-0.8, 0.8]),  # ‖r_T‖ > r_h
        ([np.sqrt(2), 1.0, -1.0], [-0.6, 0.6]),  # a valid, poorer bound
        ([-np.sqrt(2), 1.0, -1.0], [-np.sqrt(0.5), np.sqrt(0.5)]),  # the other half
        ([np.nan, 1.0, -1.0], [-0.5, 0.5]),
        ([np.sqrt(2), 1.0, -1.0], [np.inf, 0.5]),
    ],
)
def test_certificate_refuses(x: list[float], dual: list[float]) -> None:
    certificate = certify(shortest(), [np.array([[4.0]])], x, dual)
    assert not certificate.passes(1e-3)
    assert not certificate.safe_bound > np.sqrt(2) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_perturbed_answers_are_refused_and_bounds_hold(seed: int) -> None:
    program = random_program(seed)
    good = sdpkit.solve(program, solver="interior", tol=1e-8)
    assert good.certificate.passes(1e-7)
    optimum, r = good.objective, np.random.default_rng(seed)
    for size in (1e-4, 1e-2, 1.0):
        x = good.x + size * r.standard_normal(good.x.size)
        assert not certify(program, good.matrices, x, good.dual).passes(0.01 * size)
        w = good.dual + size * r.standard_normal(good.dual.size)
        bound = certify(program, good.matrices, good.x, w).safe_bound
        assert bound >= optimum - 1e-6 * max(1.0, abs(optimum))


@pytest.mark.parametrize("seed", range(6))
def test_enclosures_hold_the_optimum(seed: int) -> None:
    program = random_program(seed)
    rough = sdpkit.solve(program, solver="interior", tol=1e-4)
    fine = sdpkit.solve(program, solver="interior", tol=1e-9)
    found = rough.certificate.verify()
    slack = 1e-7 * max(1.0, abs(fine.objective))
    assert found.lower is not None
    assert found.lower <= fine.objective + slack
    assert found.upper is None or found.upper >= fine.objective - slack


def test_membership_is_verified_in_rational_arithmetic() -> None:
    """‖(0.6, 0.8)‖ = 1 to the last digit, and only exact numbers tell the two sides apart."""
    program = shortest()
    w = np.array([-0.6, 0.8])
    exact = certify(program, [np.array([[4.0]])], [2.0, 1.0, -1.0], w)
    from sdpkit.certificate.rigor import _auxiliary_conditions_hold

    is_longer = (0.6).as_integer_ratio()[0] ** 2 * (0.8).as_integer_ratio()[1] ** 2 > 0
    assert is_longer
    assert exact.safe_bound < np.sqrt(2)
    inside, outside = np.array([-0.6, 0.8]) * (1 - 1e-15), np.array([-0.6, 0.8]) * (1 + 1e-15)
    assert _auxiliary_conditions_hold(program, -inside, True)
    assert not _auxiliary_conditions_hold(program, -outside, True)


def test_least_squares_is_verified() -> None:
    """min (q − 3)² + (q − 5)² = 2 at q = 4, as squares of free variables."""
    program = Program.of(
        ONE,
        [3.0, 5.0],
        sense="min",
        rows_q=np.ones((2, 1)),
        rows_x=-np.eye(2),
        free_x=[True, True],
        quadratic_x=[2.0, 2.0],
    )
    found = sdpkit.solve(program, solver="interior", tol=1e-8).certificate.verify()
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower <= 2.0 <= found.upper
    assert found.width < 1e-7


# -- rays -----------------------------------------------------------------------------------


def test_rays_of_infeasible_and_unbounded_programs() -> None:
    ray = certify_infeasible(in_ball(-1.0), [1.0])
    assert ray.passes(1e-9)
    assert ray.verify()
    assert not certify_infeasible(in_ball(1.0), [1.0]).passes(1e-9)
    unlimited, zero = in_ball(1.0, relations=">="), [np.zeros((1, 1))]
    along = np.array([3.0, 1.0, 2.0, 2.0])
    assert certify_unbounded(unlimited, zero, along).verify()
    for wrong in ([2.9, 1.0, 2.0, 2.0], [3.0, -1.0, -2.0, -2.0], [-3.0, 1.0, 2.0, 2.0]):
        certified = certify_unbounded(unlimited, zero, wrong)
        assert not certified.passes(1e-9) or certified.x is not None
        if certified.x is not None:
            assert unlimited.cone_x.short(certified.x) <= 1e-12


def test_directions_outside_of_the_cone_are_not_passed() -> None:
    """x₁ = x_h is fixed, so that only directions outside of the cone improve."""
    closed = replace(
        in_ball(1.0),
        rows_q=sp.csr_array((2, 1)),
        rows_x=sp.csr_array([[1.0, 0, 0, 0], [0, 1.0, 0, 0]]),
        rhs=np.array([1.0, 0.0]),
        relations=np.zeros(2, dtype=np.int8),
    )
    ray = certify_unbounded(closed, [np.zeros((1, 1))], [0.0, 0.0, 1.0, 1.0])
    assert not ray.passes(1e-6)


def test_weakly_infeasible_cone() -> None:
    """x_h = x₁ and x₂ = 1: the cone comes as near as one likes and never there."""
    program = Program.of(
        Block.of(1, [[1.0]], cost=Cost.of(1, identity=-1.0)),
        [0.0, 1.0],
        rows_q=np.zeros((2, 1)),
        rows_x=[[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]],
        cost_x=[-1.0, 0.0, 0.0],
        free_x=[True] * 3,
        cones=[SecondOrderCone.of([0, 1, 2])],
    )
    solution = sdpkit.solve(program, solver="interior")
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    assert solution.ray.verify()


# -- solvers --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_interior_agrees_with_blocks(seed: int) -> None:
    program = random_program(seed)
    here = sdpkit.solve(program, solver="interior", tol=1e-7)
    there = sdpkit.solve(without_second_order_cones(program).program, solver="interior", tol=1e-7)
    assert here.status is Status.OPTIMAL
    assert here.objective == pytest.approx(there.objective, rel=1e-6, abs=1e-6)


def by_clarabel(program: Program) -> float:
    """The optimum of the program, written by hand."""
    (block,) = program.blocks
    m, x = cp.Variable((block.size, block.size), PSD=True), cp.Variable(program.n_auxiliary)
    v = block.vectors().toarray()
    q = cp.hstack([cp.sum(cp.multiply(np.outer(z, z), m)) for z in v])
    rows = program.rows_q.toarray() @ q + program.rows_x.toarray() @ x == program.rhs
    cones = [cp.SOC(x[c.members[0]], x[c.members[1:]]) for c in program.cones if c.members[1:].size]
    alone = [x[c.members[0]] >= 0 for c in program.cones if not c.members[1:].size]
    signs = [x[j] >= 0 for j in np.flatnonzero(~program.free_x)]
    objective = cp.sum(cp.multiply(block.cost.dense(), m)) + program.cost_x @ x
    model = cp.Problem(cp.Maximize(objective), [rows, *cones, *alone, *signs])
    return float(model.solve(solver="CLARABEL"))


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 130))]
)
def test_interior_agrees_with_clarabel(seed: int) -> None:
    program = random_program(seed)
    solution = sdpkit.solve(program, solver="interior", tol=1e-7)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(by_clarabel(program), rel=1e-6, abs=1e-6)


def test_solvers_without_cones_refuse_by_name() -> None:
    with pytest.raises(sdpkit.errors.UnsuitableSolverError, match="second-order cones"):
        sdpkit.solve(shortest(), solver="lowrank")
    assert sdpkit.solve(shortest()).status is Status.OPTIMAL


def test_many_small_cones_take_no_time() -> None:
    """min Σ‖x_k − p‖ with a thousand terms in the plane: the geometric median."""
    r = np.random.default_rng(0)
    points = r.standard_normal((1000, 2)) + np.array([1.0, -2.0])
    k = len(points)
    heads, tails = np.arange(0, 3 * k, 3), np.arange(3 * k).reshape(k, 3)[:, 1:].ravel()
    rows = sp.csr_array((np.ones(2 * k), (np.arange(2 * k), tails)), shape=(2 * k, 3 * k))
    centre = sp.csr_array(np.tile(np.eye(2), (k, 1)))
    program = Program.of(
        Block.of(1, sp.csr_array((0, 1)), cost=Cost.of(1, identity=1.0)),
        points.ravel(),
        sense="min",
        rows_q=sp.csr_array((2 * k, 0)),
        rows_x=sp.hstack([rows, centre]),
        cost_x=np.r_[np.where(np.isin(np.arange(3 * k), heads), 1.0, 0.0), 0.0, 0.0],
        free_x=np.ones(3 * k + 2, dtype=bool),
        cones=[SecondOrderCone.of(np.arange(j, j + 3)) for j in heads],
    )
    solution = sdpkit.solve(program, solver="interior")
    assert solution.status is Status.OPTIMAL
    median, away = solution.x[-2:], points - solution.x[-2:]
    pull = (away / np.linalg.norm(away, axis=1)[:, None]).sum(axis=0)
    assert np.linalg.norm(pull) < 0.5, median


# -- penalties as cones ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_penalties_become_cones_with_the_same_optimum(seed: int) -> None:
    r = np.random.default_rng(seed)
    program = random_program(seed)
    n, free = program.n_auxiliary, program.free_x
    columns = 0.05 * r.standard_normal((program.n_rows, 5))  # the norm costs more than they gain
    more = Program.of(
        program.blocks,
        program.rhs,
        rows_q=program.rows_q,
        rows_x=sp.hstack([program.rows_x, sp.csr_array(columns)]),
        cost_x=np.r_[program.cost_x, np.zeros(5)],
        free_x=np.r_[free, [True, True, False, True, True]],
        quadratic_x=np.r_[np.zeros(n), 1.5, 0.2, 3.0, 0.0, 0.0],
        norms=[NormPenalty(0.7, (n + 3, n + 4))],
        cones=program.cones,
    )
    form = without_penalties(more)
    assert form.program.n_rows == more.n_rows + 2
    assert len(form.program.cones) == len(program.cones) + 2
    here = sdpkit.solve(more, solver="interior", tol=1e-7)
    there = sdpkit.solve(more, solver="clarabel", tol=1e-7)
    assert here.status is Status.OPTIMAL
    assert here.objective == pytest.approx(there.objective, rel=1e-5, abs=1e-5)


def test_log_dets_beside_cones_are_refused_by_name() -> None:
    program = shortest()
    curved = replace(program, blocks=(replace(program.blocks[0], log_det=1.0),))
    with pytest.raises(sdpkit.errors.UnsuitableSolverError, match="log det together with"):
        sdpkit.solve(curved, solver="interior")
    assert sdpkit.solve(curved, solver="clarabel").status is Status.OPTIMAL
