"""The common form: its algebra against dense formulas, its validation, its identity."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpkit
from sdpkit.errors import InputError
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.safe import NormPenalty, SafeBounds
from sdpkit.typing import Array

seeds = st.integers(0, 2**32 - 1)
quick = settings(deadline=None, max_examples=30)


def symmetric(rng: np.random.Generator, n: int) -> Array:
    a = rng.standard_normal((n, n))
    return (a + a.T) / 2


def sparse_rows(rng: np.random.Generator, p: int, n: int) -> Array:
    """Rows with any number of nonzeros, none included."""
    return rng.standard_normal((p, n)) * (rng.random((p, n)) < 0.5)


def random_block(rng: np.random.Generator, name: str = "M") -> tuple[Block, Array]:
    """(a block, its V multiplied out), with or without features."""
    n, p = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    cost = Cost.of(
        n,
        identity=rng.standard_normal(),
        sparse=symmetric(rng, n),
        factor=rng.standard_normal((n, 2)),
        weights=rng.standard_normal(2),
    )
    if rng.random() < 0.5:
        v = sparse_rows(rng, p, n)
        return Block.of(n, v, name=name, cost=cost), v
    nodes = int(rng.integers(1, 7))
    b, x = sparse_rows(rng, p, nodes), rng.standard_normal((nodes, n))
    return Block.of(n, b, name=name, features=x, cost=cost), b @ x


def random_program(seed: int) -> tuple[Program, list[Array]]:
    """(a program with one to three blocks and auxiliary variables, the dense V per block)."""
    rng = np.random.default_rng(seed)
    pairs = [random_block(rng, f"M{k}") for k in range(rng.integers(1, 4))]
    p, m, n_x = sum(v.shape[0] for _, v in pairs), 3, int(rng.integers(0, 4))
    program = Program.of(
        [block for block, _ in pairs],
        rng.standard_normal(m),
        sense="max" if rng.random() < 0.5 else "min",
        rows_q=sparse_rows(rng, m, p),
        rows_x=rng.standard_normal((m, n_x)),
        relations=rng.integers(-1, 2, m),
        cost_q=rng.standard_normal(p),
        cost_x=rng.standard_normal(n_x),
        free_x=rng.random(n_x) < 0.5,
        quadratic_x=rng.uniform(0, 1, n_x) * (rng.random(n_x) < 0.5),
        offset=rng.standard_normal(),
    )
    return program, [v for _, v in pairs]


def two_points(**more: Any) -> Program:
    block = Block.of(2, [[1.0, -1.0]], name="K", cost=Cost.of(2, identity=1.0), null=[1.0, 1.0])
    return Program.of(block, [4.0], **more)


# -- algebra --------------------------------------------------------------------------------


@given(seeds)
@quick
def test_adjoint_identity(seed: int) -> None:
    program, _ = random_program(seed)
    rng = np.random.default_rng(seed + 1)
    matrices = [symmetric(rng, b.size) for b in program.blocks]
    w = rng.standard_normal(program.n_rows)
    left = w @ (program.rows_q @ program.measure(matrices))
    right = sum(float(np.sum(m * a)) for m, a in zip(matrices, program.adjoints(w), strict=True))
    assert left == pytest.approx(right, rel=1e-10, abs=1e-10)


@given(seeds)
@quick
def test_measure_is_the_quadratic_form_of_every_vector(seed: int) -> None:
    program, vectors = random_program(seed)
    rng = np.random.default_rng(seed + 1)
    matrices = [symmetric(rng, b.size) for b in program.blocks]
    expected = [p @ m @ p for v, m in zip(vectors, matrices, strict=True) for p in v]
    np.testing.assert_allclose(program.measure(matrices), expected, rtol=1e-10, atol=1e-10)


def test_measure_does_not_depend_on_the_slab_height(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    v, m = rng.standard_normal((11, 4)), symmetric(rng, 4)
    expected = np.einsum("pi,ij,pj->p", v, m, v)
    for slab in (1, 4, 8, 20, 44, 1000):
        monkeypatch.setattr("sdpkit.program.block._SLAB", slab)
        for block in (Block.of(4, v), Block.of(4, np.eye(11), features=v)):
            np.testing.assert_allclose(block.measure(m), expected, rtol=1e-12, atol=1e-12)


@given(seeds)
@quick
def test_outer_products_are_vec_of_v_v_transposed(seed: int) -> None:
    block, v = random_block(np.random.default_rng(seed))
    expected = np.array([np.outer(p, p).ravel() for p in v])
    np.testing.assert_allclose(block.outer_products.toarray(), expected, rtol=1e-12, atol=1e-12)


@given(seeds)
@quick
def test_adjoint_is_the_weighted_sum_of_outer_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    block, v = random_block(rng)
    u = rng.standard_normal(v.shape[0])
    image = block.adjoint(u)
    assert sp.issparse(image) == (block.features is None)
    dense = image.toarray() if sp.issparse(image) else image
    np.testing.assert_allclose(dense, (v.T * u) @ v, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(block.vectors().toarray(), v, rtol=1e-12, atol=1e-12)


@given(seeds)
@quick
def test_matrix_rows_hold_the_matrix_of_each_row(seed: int) -> None:
    program, vectors = random_program(seed)
    a = program.split(program.rows_q.toarray().T)
    expected = [
        np.concatenate(
            [((v.T * part[:, e]) @ v).ravel() for v, part in zip(vectors, a, strict=True)]
        )
        for e in range(program.n_rows)
    ]
    found = program.matrix_rows.toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@given(seeds)
@quick
def test_cost_dense_inner_and_scaled_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    a, s = rng.standard_normal(), symmetric(rng, n)
    u, weights, m = rng.standard_normal((n, 2)), rng.standard_normal(2), symmetric(rng, n)
    cost = Cost.of(n, identity=a, sparse=s, factor=u, weights=weights)
    expected = a * np.eye(n) + s + u @ np.diag(weights) @ u.T
    np.testing.assert_allclose(cost.dense(), expected, rtol=1e-12, atol=1e-12)
    assert cost.inner(m) == pytest.approx(float(np.sum(expected * m)), rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(cost.scaled(-3.0).dense(), -3 * expected, rtol=1e-12, atol=1e-12)
    shifted = expected + 0.25 * np.eye(n)
    np.testing.assert_allclose(cost.plus_identity(0.25).dense(), shifted, rtol=1e-12, atol=1e-12)
    but = np.eye(n)[:, :1]
    moved = cost.plus_identity(0.25, but).dense()
    np.testing.assert_allclose(moved, shifted - 0.25 * but @ but.T, rtol=1e-12, atol=1e-12)
    assert cost.magnitude() >= np.linalg.norm(expected, 2) * (1 - 1e-12)


def test_magnitude_of_a_multiple_of_the_identity_is_exact() -> None:
    cost = Cost.of(4, identity=-2.5)
    assert cost.magnitude() == 2.5
    assert cost.is_identity
    assert not Cost.of(4, identity=1.0, sparse=np.eye(4)).is_identity


def test_factor_without_weights_counts_with_weight_one() -> None:
    u = np.array([[1.0], [2.0]])
    np.testing.assert_array_equal(Cost.of(2, factor=u).dense(), u @ u.T)


@given(seeds, st.integers(0, 6))
@quick
def test_smallest_on_face_equals_the_dense_computation(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    n = 6
    null = rng.standard_normal((n, k))
    if k > 1:
        null[:, -1] = 2 * null[:, 0]  # dependent directions span less
    block = Block.of(n, np.eye(n), null=null)
    a = symmetric(rng, n) * 10.0 ** rng.uniform(-6, 6)
    basis = scipy.linalg.null_space(null.T) if k else np.eye(n)
    if basis.shape[1] == 0:
        assert block.smallest_on_face(a) == np.inf
        return
    expected = np.linalg.eigvalsh(basis.T @ a @ basis)[0]
    tolerance = 1e-12 * np.linalg.norm(a)
    assert block.smallest_on_face(a) == pytest.approx(expected, abs=tolerance)
    np.testing.assert_allclose(block.face.T @ null, 0, atol=1e-10)
    np.testing.assert_allclose(block.face.T @ block.face, np.eye(basis.shape[1]), atol=1e-12)


def test_smallest_on_face_of_a_definite_matrix_ignores_the_null_directions() -> None:
    block = Block.of(3, np.eye(3), null=np.ones(3))
    huge = np.eye(3) - 1e6 * np.ones((3, 3))
    assert block.smallest_on_face(huge) == pytest.approx(1.0, abs=1e-8)
    assert block.smallest_on_face(np.full((3, 3), np.nan)) == -np.inf
    full = Block.of(2, np.eye(2), null=np.eye(2))
    assert full.smallest_on_face(-np.eye(2)) == np.inf


@given(seeds)
@quick
def test_project_out_null_is_the_two_sided_projection(seed: int) -> None:
    rng = np.random.default_rng(seed)
    null = rng.standard_normal((5, 2))
    block, a = Block.of(5, np.eye(5), null=null), symmetric(rng, 5)
    p = np.eye(5) - null @ np.linalg.pinv(null)
    np.testing.assert_allclose(block.project_out_null(a), p @ a @ p, atol=1e-12)


@given(seeds, st.integers(1, 5), st.floats(0, 1e4))
@quick
def test_unseen_directions_are_those_that_differences_and_costs_miss(
    seed: int, rank: int, offset: float
) -> None:
    """Differences of points in a subspace, far from the origin; a cost from the same points."""
    rng = np.random.default_rng(seed)
    n, points = 6, 12
    # Over six orders of magnitude about one cost in 500 is rounded too much to be seen as zero.
    subspace = rng.standard_normal((rank, n)) * 10.0 ** rng.uniform(-2, 2, n)
    X = rng.standard_normal((points, rank)) @ subspace
    X += offset * np.abs(X).max(axis=0)
    differences = np.eye(points)[:-1] - np.eye(points)[1:]
    v = differences @ X
    block = Block.of(n, differences, features=X, cost=v.T @ v)
    expected = scipy.linalg.null_space(subspace / np.abs(subspace).max(axis=0))
    expected = np.linalg.qr(expected / np.abs(subspace).max(axis=0)[:, None])[0]
    assert block.unseen.shape == (n, n - rank)
    np.testing.assert_allclose(expected.T @ expected, np.eye(n - rank), atol=1e-9)
    # The same subspace: the projection of one onto the other loses nothing.
    np.testing.assert_allclose(np.linalg.norm(expected.T @ block.unseen, 2), 1.0, atol=1e-6)
    assert block.face.shape == (n, rank)
    np.testing.assert_allclose(block.face.T @ block.unseen, 0, atol=1e-12)


def test_what_is_seen_faintly_is_seen() -> None:
    """Units do not hide a direction, and neither does a cost that alone sees it."""
    tiny, huge = 1e-12, 1e12
    assert not Block.of(2, np.diag([huge, tiny])).unseen.size
    assert not Block.of(2, np.eye(2), features=np.diag([huge, tiny])).unseen.size
    assert not Block.of(2, [[1.0, 1.0], [1.0, 1.0 + 1e-9]]).unseen.size
    assert not Block.of(2, [[huge, 0.0]], cost=np.diag([0.0, tiny])).unseen.size
    assert not Block.of(3, np.zeros((0, 3)), cost=np.diag([huge, 1.0, tiny])).unseen.size
    assert not Block.of(2, [[0.0, 0.0]], cost=Cost.of(2, identity=tiny)).unseen.size
    assert Block.of(2, [[huge, 0.0]], cost=np.diag([tiny, 0.0])).unseen.shape == (2, 1)
    assert Block.of(2, np.zeros((0, 2))).unseen.shape == (2, 2)


def test_null_directions_are_not_counted_twice() -> None:
    edge = [[1.0, -1.0, 0.0]]
    centred = Block.of(3, edge, null=np.ones(3))
    assert centred.unseen.shape == (3, 1)  # the third node
    np.testing.assert_allclose(np.abs(centred.unseen[:, 0]), np.array([1, 1, 2]) / np.sqrt(6))
    assert centred.face.shape == (3, 1)
    assert centred.smallest_on_face(np.diag([2.0, 2.0, -7.0])) == pytest.approx(2.0)


def test_is_centred_needs_the_constant_alone_and_differences_only() -> None:
    edge, point = [[1.0, -1.0, 0.0]], [[1.0, 0.0, 0.0]]
    assert Block.of(3, edge, null=np.full(3, 2.0)).is_centred
    assert not Block.of(3, edge).is_centred
    assert not Block.of(3, point, null=np.ones(3)).is_centred
    assert not Block.of(3, edge, null=[1.0, 1.0, 2.0]).is_centred
    assert not Block.of(3, edge, null=np.eye(3)[:, :2] + 1).is_centred


@given(seeds)
@quick
def test_objective_and_rows_against_their_definition(seed: int) -> None:
    program, vectors = random_program(seed)
    rng = np.random.default_rng(seed + 1)
    matrices = [symmetric(rng, b.size) for b in program.blocks]
    x = rng.standard_normal(program.n_auxiliary)
    q = np.array([p @ m @ p for v, m in zip(vectors, matrices, strict=True) for p in v])
    expected = program.offset + program.cost_q @ q + program.cost_x @ x
    expected += sum(
        np.sum(b.cost.dense() * m) for b, m in zip(program.blocks, matrices, strict=True)
    )
    penalty = 0.5 * np.sum(program.quadratic_x * x**2)
    expected += -penalty if program.sense == "max" else penalty
    assert program.objective(matrices, x) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    values = program.rows_q.toarray() @ q + program.rows_x.toarray() @ x
    for found, value, b, k in zip(
        program.violations(q, x), values, program.rhs, program.relations, strict=True
    ):
        off = {-1: max(value - b, 0.0), 0: abs(value - b), 1: max(b - value, 0.0)}[int(k)]
        assert found == pytest.approx(off, rel=1e-10, abs=1e-10)


@given(seeds)
@quick
def test_lagrangian_is_what_slacks_and_reduced_costs_say(seed: int) -> None:
    """f(M, x) = bᵀw − <S, M> − rᵀx − wᵀ(b − A(M, x)) for the maximisation, for any w."""
    program, _ = random_program(seed)
    rng = np.random.default_rng(seed + 1)
    matrices = [symmetric(rng, b.size) for b in program.blocks]
    x, w = rng.standard_normal(program.n_auxiliary), rng.standard_normal(program.n_rows)
    value = program.sign * (program.objective(matrices, x) - program.offset) + program.penalty(x)
    rows = program.row_values(program.measure(matrices), x)
    inner = sum(np.sum(s * m) for s, m in zip(program.dual_slacks(w), matrices, strict=True))
    right = w @ rows - inner - program.reduced_costs(w) @ x
    assert value == pytest.approx(right, rel=1e-9, abs=1e-9)


@given(seeds)
@quick
def test_dual_value_adds_the_conjugate_of_the_quadratic_penalty(seed: int) -> None:
    program, _ = random_program(seed)
    w = np.random.default_rng(seed + 1).standard_normal(program.n_rows)
    expected = program.rhs @ w
    grid = np.linspace(-200, 200, 400_001)
    for j in np.flatnonzero(program.quadratic_x > 0.2):
        r, h = program.reduced_costs(w)[j], program.quadratic_x[j]
        x = grid if program.free_x[j] else grid[grid >= 0]
        expected += np.max(-r * x - 0.5 * h * x**2)
    flat = replace(
        program, quadratic_x=np.where(program.quadratic_x > 0.2, program.quadratic_x, 0.0)
    )
    assert flat.dual_value(w) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_penalty_counts_half_squares_and_norms() -> None:
    program = two_points(
        rows_x=np.ones((1, 3)),
        free_x=[True, True, True],
        quadratic_x=[0.0, 0.0, 4.0],
        norms=[NormPenalty(2.0, (0, 1))],
    )
    assert program.penalty(np.array([3.0, 4.0, 5.0])) == pytest.approx(2 * 5 + 0.5 * 4 * 25)
    assert not program.is_linear
    assert two_points().is_linear


def test_margin_is_taken_off_slacks_and_reduced_costs() -> None:
    for seed in range(20):
        program, _ = random_program(seed)
        w = np.random.default_rng(seed).standard_normal(program.n_rows)
        moved = program.with_margin(0.125)
        for s, t in zip(program.dual_slacks(w), moved.dual_slacks(w), strict=True):
            np.testing.assert_allclose(t, s - 0.125 * np.eye(s.shape[0]), atol=1e-12)
        plain = ~program.free_x & (program.quadratic_x == 0)
        expected = program.reduced_costs(w) - 0.125 * plain
        np.testing.assert_allclose(moved.reduced_costs(w), expected, atol=1e-12)


def test_multiplier_box_of_the_slack_form_is_omega() -> None:
    problem = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5), form="slack", omega=0.8)
    lo, hi = problem.program().multiplier_box
    np.testing.assert_array_equal(lo, np.full(5, -0.8))
    np.testing.assert_array_equal(hi, np.full(5, 0.8))


def test_multiplier_box_from_signs_and_single_columns() -> None:
    block = Block.of(1, np.ones((4, 1)))
    # Row 0: ≤. Row 1: ≥. Row 2: 2w ≥ 3. Row 3: −4w ≥ 2, and a column in two rows that says nothing.
    columns = np.array([[0, 0, 1.0], [0, 0, 1.0], [2.0, 0, 0], [0, -4.0, 0]])
    program = Program.of(
        block, np.zeros(4), relations=[-1, 1, 0, 0], rows_x=columns, cost_x=[3.0, 2.0, 1.0]
    )
    lo, hi = program.multiplier_box
    np.testing.assert_array_equal(lo, [0, -np.inf, 1.5, -np.inf])
    np.testing.assert_array_equal(hi, [np.inf, 0, np.inf, -0.5])
    # In a minimisation the multipliers of the maximisation meet the negated cost.
    lo, hi = replace(program, sense="min").multiplier_box
    assert lo[2] == -1.5
    assert hi[3] == 0.5


def test_repair_direction_of_max_cut_is_all_ones() -> None:
    program = Program.of(Block.of(4, np.eye(4)), np.ones(4))
    np.testing.assert_allclose(program.repair_direction, np.ones(4), atol=1e-10)


def test_repair_direction_changes_sign_with_the_sense() -> None:
    safe = SafeBounds(direction=np.array([-2.0]))
    np.testing.assert_array_equal(two_points(safe=safe).repair_direction, [-2.0])
    np.testing.assert_array_equal(two_points(safe=safe, sense="min").repair_direction, [2.0])


# -- validation -----------------------------------------------------------------------------

BLOCK = Block.of(2, [[1.0, -1.0], [1.0, 0.0]])
FREE: dict[str, Any] = {"rows_x": np.ones((2, 3)), "free_x": [True, True, False]}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "nan measurement": (lambda: Block.of(2, [[np.nan, 1.0]]), "NaN"),
    "infinite measurement": (lambda: Block.of(2, [[np.inf, 1.0]]), "NaN or infinite"),
    "measurement too long": (lambda: Block.of(2, [[1.0, 0.0, 0.0]]), r"shape \(1, 3\)"),
    "size zero": (lambda: Block.of(0, np.zeros((1, 0))), "size 0"),
    "nan features": (lambda: Block.of(1, [[1.0]], features=[[np.nan]]), "features"),
    "features of another width": (lambda: Block.of(2, [[1.0]], features=[[1.0]]), "features"),
    "features of another height": (lambda: Block.of(1, [[1.0, 1.0]], features=[[1.0]]), "shape"),
    "nan null": (lambda: Block.of(2, [[1.0, 0.0]], null=[np.nan, 1.0]), "null"),
    "null too long": (lambda: Block.of(2, [[1.0, 0.0]], null=np.ones(3)), "null"),
    "cost of another size": (
        lambda: Block.of(3, np.eye(3), cost=Cost.of(2, identity=1.0)),
        "cost",
    ),
    "unsymmetric cost": (lambda: Cost.of(2, sparse=[[0.0, 1.0], [0.0, 0.0]]), "not symmetric"),
    "cost shape": (lambda: Cost.of(2, sparse=np.eye(3)), "shape"),
    "nan cost": (lambda: Cost.of(2, sparse=np.full((2, 2), np.nan)), "NaN"),
    "nan identity": (lambda: Cost.of(2, identity=np.nan), "identity"),
    "factor shape": (lambda: Cost.of(2, factor=np.ones((3, 1))), "factor"),
    "nan factor": (lambda: Cost.of(2, factor=[[np.nan], [1.0]]), "factor"),
    "weights shape": (lambda: Cost.of(2, factor=np.ones((2, 1)), weights=[1.0, 2.0]), "weights"),
    "no blocks": (lambda: Program.of([], []), "at least one"),
    "sense": (lambda: Program.of(BLOCK, [1.0, 1.0], sense="up"), "'max' or 'min'"),
    "nan rhs": (lambda: Program.of(BLOCK, [np.nan, 1.0]), "rhs contains NaN"),
    "rhs and rows": (lambda: Program.of(BLOCK, [1.0]), "rhs has 1 entries for 2 measurements"),
    "rows_q shape": (lambda: Program.of(BLOCK, [1.0], rows_q=np.ones((1, 3))), "rows_q"),
    "nan rows": (lambda: Program.of(BLOCK, [1.0], rows_q=[[np.nan, 1.0]]), "rows_q.data contains"),
    "rows_x shape": (lambda: Program.of(BLOCK, [1.0, 1.0], rows_x=np.ones((3, 1))), "rows_x"),
    "relation": (lambda: Program.of(BLOCK, [1.0, 1.0], relations="<"), "<=, ==, >="),
    "relation number": (lambda: Program.of(BLOCK, [1.0, 1.0], relations=[0, 2]), "relations"),
    "relation fraction": (lambda: Program.of(BLOCK, [1.0, 1.0], relations=[0, 0.5]), "relations"),
    "relations length": (lambda: Program.of(BLOCK, [1.0, 1.0], relations=[0]), "relations"),
    "cost_q length": (lambda: Program.of(BLOCK, [1.0, 1.0], cost_q=[1.0]), "cost_q"),
    "cost_x without rows": (lambda: Program.of(BLOCK, [1.0, 1.0], cost_x=[1.0]), "cost_x"),
    "nan cost_x": (
        lambda: Program.of(BLOCK, [1.0, 1.0], **FREE, cost_x=[np.nan, 0, 0]),
        "cost_x contains",
    ),
    "free_x length": (
        lambda: Program.of(BLOCK, [1.0, 1.0], rows_x=np.ones((2, 1)), free_x=[True, True]),
        "free_x",
    ),
    "negative quadratic": (
        lambda: Program.of(BLOCK, [1.0, 1.0], **FREE, quadratic_x=[1.0, -0.5, 0.0]),
        "nonnegative; its smallest entry is -0.5",
    ),
    "nan offset": (lambda: Program.of(BLOCK, [1.0, 1.0], offset=np.nan), "offset"),
    "norm over a nonnegative variable": (
        lambda: Program.of(BLOCK, [1.0, 1.0], **FREE, norms=[NormPenalty(1.0, (1, 2))]),
        "free auxiliary variables only",
    ),
    "norm out of range": (
        lambda: Program.of(BLOCK, [1.0, 1.0], **FREE, norms=[NormPenalty(1.0, (7,))]),
        "free auxiliary variables only",
    ),
    "overlapping norms": (
        lambda: Program.of(
            BLOCK, [1.0, 1.0], **FREE, norms=[NormPenalty(1.0, (0, 1)), NormPenalty(1.0, (1,))]
        ),
        "variables without repetitions",
    ),
    "norm with a variable twice": (
        lambda: Program.of(BLOCK, [1.0, 1.0], **FREE, norms=[NormPenalty(1.0, (0, 0))]),
        "norm penalty",
    ),
    "norm without weight": (
        lambda: Program.of(BLOCK, [1.0, 1.0], **FREE, norms=[NormPenalty(0.0, (0,))]),
        "positive weight",
    ),
    "norm with infinite weight": (
        lambda: Program.of(BLOCK, [1.0, 1.0], **FREE, norms=[NormPenalty(np.inf, (0,))]),
        "weight",
    ),
    "empty norm": (
        lambda: Program.of(BLOCK, [1.0, 1.0], **FREE, norms=[NormPenalty(1.0, ())]),
        "variables without repetitions",
    ),
    "trace per block": (
        lambda: Program.of(BLOCK, [1.0, 1.0], safe=SafeBounds(trace=(1.0, 2.0))),
        "one per block",
    ),
    "direction length": (
        lambda: Program.of(BLOCK, [1.0, 1.0], safe=SafeBounds(direction=np.ones(3))),
        "safe.direction",
    ),
    "nan anchor": (
        lambda: Program.of(BLOCK, [1.0, 1.0], safe=SafeBounds(anchor=np.array([np.nan, 0]))),
        "safe.anchor",
    ),
    "infinite value scale": (
        lambda: Program.of(BLOCK, [1.0, 1.0], safe=SafeBounds(value_scale=np.inf)),
        "value_scale",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    build, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        build()


def test_relations_in_words_and_numbers_are_the_same() -> None:
    for word, number in (("<=", -1), ("==", 0), (">=", 1)):
        program = two_points(relations=word)
        np.testing.assert_array_equal(program.relations, [number])
        assert program.fingerprint == two_points(relations=[number]).fingerprint


def test_a_program_does_not_share_or_change_its_data() -> None:
    rhs, incidence = np.array([4.0]), np.array([[1.0, -1.0]])
    x, null = np.eye(2), np.ones(2)
    program = Program.of(Block.of(2, incidence, features=x, null=null), rhs)
    before = program.fingerprint
    for array in (rhs, incidence, x, null):
        array[...] = 17.0
    fresh = Program.of(Block.of(2, [[1.0, -1.0]], features=np.eye(2), null=np.ones(2)), [4.0])
    assert program.fingerprint == before == fresh.fingerprint
    for array in (program.rhs, program.cost_q, program.blocks[0].features, program.blocks[0].null):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(FrozenInstanceError):
        program.offset = 1.0  # type: ignore[misc]


# -- identity -------------------------------------------------------------------------------


def full_program() -> Program:
    """Every field in use."""
    rng = np.random.default_rng(5)
    first = Block.of(
        3,
        [[1.0, -1.0, 0.0, 0.0], [0.0, 0.5, 0.0, 2.0]],
        name="K",
        features=rng.standard_normal((4, 3)),
        cost=Cost.of(3, identity=0.5, sparse=symmetric(rng, 3), factor=rng.standard_normal((3, 1))),
        null=np.array([1.0, 1.0, 2.0]),
    )
    return Program.of(
        [first, Block.of(2, [[1.0, 1.0]], name="Z")],
        [1.0, 2.0],
        sense="min",
        rows_q=[[1.0, 0.0, 2.0], [0.0, -1.0, 0.5]],
        rows_x=[[1.0, 0.0, 0.0, 0.0], [0.0, -1.0, 1.0, 3.0]] @ np.eye(4),
        relations=[-1, 0],
        cost_q=[0.1, 0.2, 0.3],
        cost_x=[1.0, 2.0, 3.0, 4.0],
        free_x=[False, True, True, True],
        quadratic_x=[0.25, 0.0, 0.0, 0.0],
        norms=[NormPenalty(1.5, (1, 2)), NormPenalty(2.5, (3,))],
        offset=-3.5,
        safe=SafeBounds((10.0, np.inf), np.array([1.0, 2.0]), np.array([0.0, -1.0]), 0.125),
        name="every field",
    )


def test_fingerprint_ignores_storage_order_duplicates_zeros_and_names() -> None:
    plain = Program.of(Block.of(2, [[1.0, -1.0], [0.0, 2.0]]), [1.0, 2.0])
    # The same incidence unsorted, with one entry in two parts and one explicit zero.
    rows, columns = [1, 0, 0, 0, 1], [1, 1, 0, 0, 0]
    values = [2.0, -1.0, 0.25, 0.75, 0.0]
    messy = sp.coo_array((values, (rows, columns)), shape=(2, 2))
    backwards = sp.csr_array(
        (np.array([-1.0, 1.0, 2.0]), np.array([1, 0, 1]), np.array([0, 2, 3])), shape=(2, 2)
    )
    for incidence in (messy, sp.csc_array(messy), backwards):
        block = Block.of(2, incidence, name="other")
        assert Program.of(block, [1.0, 2.0], name="another").fingerprint == plain.fingerprint


def test_fingerprint_is_the_same_in_every_process() -> None:
    assert two_points().fingerprint == two_points().fingerprint
    assert re.fullmatch("[0-9a-f]{16}", two_points().fingerprint)
    assert two_points().fingerprint == "1f544db4ecc63ae6"


def test_fingerprint_changes_with_every_number() -> None:
    program = full_program()
    first, second = program.blocks
    cost = first.cost
    penalty = program.norms[0]

    def with_cost(**fields: Any) -> dict[str, Any]:
        return {"blocks": (replace(first, cost=replace(cost, **fields)), second)}

    changes: list[dict[str, Any]] = [
        {"sense": "max"},
        {"rhs": program.rhs + np.array([0, 1e-15])},
        {"relations": np.array([1, 0], dtype=np.int8)},
        {"cost_q": program.cost_q * [1, 1, 2]},
        {"cost_x": program.cost_x * [1, 1, 1, 2]},
        {"free_x": np.array([True, True, True, True])},
        {"quadratic_x": 2 * program.quadratic_x},
        {"offset": 3.5},
        {"rows_q": program.rows_q * 2},
        {"rows_x": program.rows_x * 2},
        {"norms": (replace(penalty, weight=1.25), program.norms[1])},
        {"norms": (replace(penalty, group=(1,)), program.norms[1])},
        {"norms": program.norms[:1]},
        {"blocks": (replace(first, incidence=first.incidence * 2), second)},
        {"blocks": (replace(first, features=2 * first.features), second)},
        {"blocks": (replace(first, null=2 * first.null), second)},
        {"blocks": (second, first)},
        with_cost(identity=0.25),
        with_cost(sparse=2 * cost.sparse),
        with_cost(factor=2 * cost.factor),
        with_cost(weights=2 * cost.weights),
    ]
    prints = [program.fingerprint, *(replace(program, **c).fingerprint for c in changes)]
    assert len(set(prints)) == len(changes) + 1


def test_what_is_known_about_a_program_is_not_part_of_its_fingerprint() -> None:
    program = full_program()
    known = [
        replace(program.safe, trace=(11.0, np.inf)),
        replace(program.safe, direction=np.array([1.0, 3.0])),
        replace(program.safe, anchor=None),
        replace(program.safe, value_scale=0.25),
    ]
    assert {replace(program, safe=safe).fingerprint for safe in known} == {program.fingerprint}


def test_save_and_load_keep_everything(tmp_path: Path) -> None:
    program = full_program()
    program.save(tmp_path / "program.npz")
    again = Program.load(tmp_path / "program.npz")
    assert again.fingerprint == program.fingerprint
    assert (again.name, again.sense, again.offset) == ("every field", "min", -3.5)
    assert [b.name for b in again.blocks] == ["K", "Z"]
    assert again.norms[0].group == (1, 2)
    assert [p.weight for p in again.norms] == [1.5, 2.5]
    assert again.safe.trace is None  # a claim that the data do not bear out
    assert again.safe.value_scale == 0.125
    np.testing.assert_array_equal(again.safe.direction, program.safe.direction)
    np.testing.assert_array_equal(again.safe.anchor, program.safe.anchor)
    np.testing.assert_array_equal(again.blocks[0].features, program.blocks[0].features)
    np.testing.assert_array_equal(again.blocks[0].null, program.blocks[0].null)
    np.testing.assert_array_equal(again.blocks[0].cost.dense(), program.blocks[0].cost.dense())
    assert again.blocks[1].features is None
    assert str(again) == str(program)
    rng = np.random.default_rng(0)
    matrices, x = [symmetric(rng, 3), symmetric(rng, 2)], rng.standard_normal(4)
    assert again.objective(matrices, x) == program.objective(matrices, x)


def test_saving_writes_the_named_file_and_nothing_else(tmp_path: Path) -> None:
    two_points().save(tmp_path / "no_suffix")
    assert [p.name for p in tmp_path.iterdir()] == ["no_suffix"]
    assert Program.load(str(tmp_path / "no_suffix")).fingerprint == two_points().fingerprint


def test_loading_what_is_no_program(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    np.save(tmp_path / "array.npy", np.ones(2))
    (tmp_path / "words.npz").write_text("not a zip file")
    for name in ("other.npz", "array.npy", "words.npz"):
        with pytest.raises(InputError, match=name):
            Program.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        Program.load(tmp_path / "missing.npz")


def test_loading_a_later_format_is_refused(tmp_path: Path) -> None:
    header = np.frombuffer(b'{"format": 2}', dtype=np.uint8)
    np.savez(tmp_path / "later.npz", header=header)
    with pytest.raises(InputError, match="format 2"):
        Program.load(tmp_path / "later.npz")


class Bomb:
    """An object whose unpickling is noticed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was executed",))


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "bomb.npz", header=np.array([Bomb()], dtype=object))
    with pytest.raises(InputError, match="dtype object"):
        Program.load(tmp_path / "bomb.npz")


def test_str_reads_like_the_paper() -> None:
    problem = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5), form="slack", omega=0.8)
    assert str(problem.program()).splitlines() == [
        "MVU, slack: n = 5, 5 edges",
        "  maximise    0.2 tr K − 0.8 Σξ⁺_ij − 0.8 Σξ⁻_ij",
        "  subject to  ‖y_i − y_j‖² = d_ij + ξ⁺_ij − ξ⁻_ij  (5 constraints)",
        "              K ∈ S⁵, K ⪰ 0, K1 = 0",
        "              ξ⁺_ij, ξ⁻_ij ≥ 0  (5 each)",
    ]


def test_str_and_repr_of_every_field() -> None:
    text = str(full_program())
    for part in (
        "minimise    <C, K> + gᵀq + cᵀx + ½Σhx² + ρ‖x_G‖ + ρ‖x_G‖",
        "A_q q + A_x x ≤ b  (1 constraint); A_q q + A_x x = b  (1 constraint)",
        "K ∈ S³, K ⪰ 0, KN = 0 (1 direction)",
        "Z ∈ S², Z ⪰ 0",
        "x: 1 nonnegative, 3 free",
    ):
        assert part in text
    assert full_program().fingerprint in repr(full_program())
    many = Program.of([Block.of(1, [[1.0]], name=f"B{k}") for k in range(9)], np.ones(9))
    assert "… 3 more blocks" in str(many)


@pytest.mark.parametrize("density", [0.1, 1.0])
@given(seed=seeds)
@quick
def test_norms_of_rows_are_those_of_their_matrices(density: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = sp.random_array((12, 5), density=density, rng=random, format="csr")
    rows = sp.random_array((9, 12), density=0.3, rng=random, format="csr")
    block = Block.of(5, vectors)
    dense = rows.toarray() @ np.stack([np.outer(v, v).ravel() for v in vectors.toarray()])
    np.testing.assert_allclose(block.squared_norms(rows), np.square(dense).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("n", [2, 6])
def test_a_row_that_cancels_has_no_size_of_its_own(n: int) -> None:
    """Two equal points: rounding in q(v) − q(v) must not become the unit of the row."""
    v = np.random.default_rng(0).standard_normal((5, n))
    rows = np.vstack([np.eye(6)[:5], np.eye(6)[0] - np.eye(6)[5]])
    program = Program.of(Block.of(n, np.vstack([v, v[:1]])), np.ones(6), rows_q=rows)
    assert program.row_norms[-1] == 1.0
    np.testing.assert_allclose(program.row_norms[:5], np.square(v).sum(axis=1))
