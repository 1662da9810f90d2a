"""The in-house interior-point engine, beyond what the conformance suite asks of every solver."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import sdpkit
from sdpkit import MVU, Block, Cost, Program, Status
from sdpkit.comparison import suites
from sdpkit.errors import ConvergenceWarning
from sdpkit.program.cost import dense
from sdpkit.solution.reduction import reduce
from sdpkit.solvers.algebra import BlockAlgebra, EntryEquations, RowEquations, TreeCone
from sdpkit.solvers.definite import Breakdown
from sdpkit.solvers.predictor_corrector import PredictorCorrector
from sdpkit.solvers.slack_inverse import SparseInverse
from sdpkit.solvers.step_lengths import longest_tried
from sdpkit.solvers.tree import Tree

FORMS = ("equality", "inequality", "slack", "min_trace")


def interior(problem: Any, **options: Any) -> sdpkit.Solution:
    return sdpkit.solve(problem, solver="interior", **options)


def roll(n: int, **options: Any) -> MVU:
    return MVU(sdpkit.datasets.swiss_roll(n), n_neighbors=4, **options)


# -- the linear algebra ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> PredictorCorrector:
    """A graph that is large enough for kernels, sparse factors and single precision."""
    return PredictorCorrector(reduce(roll(650).program()).program)


def test_large_graphs_have_the_same_linear_algebra(large: PredictorCorrector) -> None:
    rng = np.random.default_rng(0)
    cone, v = large.cones[0], large.cones[0].v.toarray()
    a, b = (x + x.T for x in rng.standard_normal((2, cone.n, cone.n)))
    weights = cone.row_weights
    assert cone.pairs is not None
    assert cone.pairs.is_large
    assert weights is not None
    schur = np.zeros((len(v), len(v)))
    cone.add_schur(schur, a, b)
    expected = np.outer(weights, weights) * (v @ a @ v.T) * (v @ b @ v.T)
    np.testing.assert_allclose(np.tril(schur), np.tril(expected), atol=1e-9)
    found = cone.values_of_product(a, b)
    np.testing.assert_allclose(found, cone.values(a @ b), atol=1e-9)


@pytest.mark.parametrize("cost", ["grounded", "sparse"])
def test_the_sparse_inverse_of_a_slack(large: PredictorCorrector, cost: str) -> None:
    rng = np.random.default_rng(1)
    block = large.program.blocks[0]
    if cost == "sparse":
        off = sp.random_array((block.size, block.size), density=1e-3, rng=rng)
        given = Cost.of(block.size, identity=0.1, sparse=off + off.T)
        block = replace(block, cost=given)
    cone = BlockAlgebra(block, large.program.rows_q, large.program.cost_q, 1.0)
    w = rng.uniform(5e3, 1e4, large.b.size)
    s = cone.slack_of(w)
    np.testing.assert_allclose(s, dense(cone.adjoint(w)) - cone.cost, atol=1e-9)
    inverse = cone.inverse_of_slack(w)
    assert isinstance(inverse, SparseInverse)
    np.testing.assert_allclose(s @ inverse.matrix, np.eye(cone.n), atol=1e-8)
    m, e = rng.standard_normal((2, cone.n, cone.n))
    image = cone.adjoint(rng.standard_normal(w.size))
    for error in (None, e):
        rhs = image @ m + (0.0 if error is None else error)
        np.testing.assert_allclose(s @ inverse.solve(image, m, error), rhs, atol=1e-8)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_signs_of_sparse_factors_tell_definite_slacks(
    large: PredictorCorrector, sign: float
) -> None:
    """Slacks of a maximisation and of a minimisation, on both sides of the edge of the cone."""
    program = large.program
    cone = BlockAlgebra(program.blocks[0], program.rows_q, program.cost_q, sign)
    w = np.full(large.b.size, 1e4 if sign > 0 else 1e-4)
    step = -np.random.default_rng(3).uniform(0.5, 1.0, w.size)
    exact = -1.0 / scipy.linalg.eigvalsh(dense(cone.adjoint(step)), cone.slack_of(w))[0]
    assert isinstance(cone.inverse_of_slack(w), SparseInverse)
    for share in (0.0, 0.5, 1 - 1e-7):
        assert cone.is_definite(w + share * exact * step)
    for share in (1 + 1e-7, 1.5, 10.0):
        assert not cone.is_definite(w + share * exact * step)
        with pytest.raises(Breakdown):
            cone.inverse_of_slack(w + share * exact * step)
    found = longest_tried(lambda length: cone.is_definite(w + length * step), 2 * exact)
    assert 0.98 * exact <= found <= exact
    assert longest_tried(lambda length: cone.is_definite(w + length * step), 0.9 * exact) == np.inf


def test_single_precision_is_made_up_for_or_given_up(large: PredictorCorrector) -> None:
    """A Schur matrix that is well conditioned is solved to ten digits from a factor in single
    precision; one that is not is factored in double precision."""
    rng = np.random.default_rng(2)
    equations, cone = RowEquations(large.cones, large.b.size), large.cones[0]
    w = rng.uniform(5e3, 1e4, large.b.size)
    inverse = np.linalg.inv(cone.slack_of(w))
    rhs = rng.standard_normal(large.b.size)
    thin = rng.standard_normal((cone.n, 1))
    for matrix, single in ((inverse, True), (thin @ thin.T + 1e-9 * np.eye(cone.n), False)):
        b = np.zeros((rhs.size, rhs.size))
        cone.add_schur(b, matrix, inverse)
        b = np.tril(b) + np.tril(b, -1).T
        equations.factor([matrix], [inverse], None)
        solution = equations.solve(rhs)
        assert (equations.single is not None) == single
        # The diagonal, which B shares with its factor, costs no digits.
        allowed = (1e-10 if single else 3e-6) * np.linalg.norm(rhs)
        assert np.linalg.norm(b @ solution - rhs) <= allowed


def _random_block(kind: str, rng: np.random.Generator) -> Block:
    n, p = 6, 9
    if kind == "edges":
        pairs = [(i, j) for i in range(n) for j in range(i)][:p]
        v = np.zeros((p, n))
        for row, (i, j) in enumerate(pairs):
            v[row, [i, j]] = 1.0, -1.0
        v[0, np.flatnonzero(v[0])[0]] = 0.0  # a grounded edge has one end
        return Block.of(n, v, cost=Cost.of(n, identity=1.0))
    if kind == "sparse":
        v = rng.standard_normal((p, n)) * (rng.random((p, n)) < 0.5)
        return Block.of(n, v, cost=Cost.of(n, identity=1.0))
    return Block.of(
        n,
        rng.standard_normal((p, 4)),
        features=rng.standard_normal((4, n)),
        cost=Cost.of(n, identity=1.0),
    )


@pytest.mark.parametrize("kind", ["edges", "sparse", "features"])
@pytest.mark.parametrize("rows", ["identity", "scaled", "mixed"])
def test_schur_matrix_is_its_definition(kind: str, rows: str) -> None:
    """B_ef = <A_e, M A_f S⁻¹> with A_e = Σ a_ep v_p v_pᵀ."""
    rng = np.random.default_rng(3)
    block = _random_block(kind, rng)
    p, n = block.n_measurements, block.size
    a = {
        "identity": np.eye(p),
        "scaled": np.diag(rng.uniform(0.5, 2, p)),
        "mixed": rng.standard_normal((5, p)),
    }[rows]
    cone = BlockAlgebra(block, sp.csr_array(a), np.zeros(p), 1.0)
    m, s = (x @ x.T + np.eye(n) for x in rng.standard_normal((2, n, n)))
    schur = np.zeros((len(a), len(a)))
    cone.add_schur(schur, m, s)
    v = block.vectors().toarray()
    matrices = np.einsum("ep,pi,pj->eij", a, v, v)
    expected = np.einsum("eij,jk,fkl,li->ef", matrices, m, matrices, s)
    np.testing.assert_allclose(np.tril(schur), np.tril(expected), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(cone.values(m), np.einsum("eij,ij->e", matrices, m), rtol=1e-10)
    w = rng.standard_normal(len(a))
    image = cone.adjoint(w)
    image = image.toarray() if sp.issparse(image) else image
    np.testing.assert_allclose(image, np.einsum("e,eij->ij", w, matrices), atol=1e-10)


def test_the_root_of_the_schur_matrix_withstands_bad_conditions() -> None:
    """Near the end M and S⁻¹ are singular to rounding, their Kronecker product twice so."""
    rng = np.random.default_rng(4)
    block = _random_block("features", rng)
    cone = BlockAlgebra(block, sp.eye_array(9, format="csr"), np.zeros(9), 1.0)
    q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    values = 10.0 ** np.array([2.0, 1, 0, -8, -9, -10])
    m, inverse = (q * values) @ q.T, 1e-9 * (q * values) @ q.T
    schur = np.zeros((9, 9))
    cone.add_schur(schur, m, inverse)
    root = cone.root((m + m.T) / 2, (inverse + inverse.T) / 2)
    np.testing.assert_allclose(np.tril(root @ root.T), np.tril(schur), rtol=1e-6)


@pytest.mark.parametrize("kind", ["edges", "sparse", "features"])
def test_both_shapes_solve_the_normal_equations(kind: str) -> None:
    rng = np.random.default_rng(5)
    block = _random_block(kind, rng)
    rows = sp.csr_array(rng.standard_normal((60, block.n_measurements)))
    cones = [BlockAlgebra(block, rows, np.zeros(block.n_measurements), 1.0)] * 2
    ms, inverses = ([x @ x.T + np.eye(6) for x in rng.standard_normal((2, 6, 6))] for _ in "ab")
    extra = sp.csr_array(sp.diags_array(rng.uniform(0.1, 1, 60)))
    full = extra.toarray()
    for cone, m, inverse in zip(cones, ms, inverses, strict=True):
        part = np.zeros((60, 60))
        cone.add_schur(part, m, inverse)
        full += np.tril(part) + np.tril(part, -1).T
    for equations in (RowEquations(cones, 60), EntryEquations(cones)):
        equations.factor(ms, inverses, extra)
        for rhs in (rng.standard_normal(60), rng.standard_normal((60, 3))):
            solution = equations.solve(rhs)
            size = np.linalg.norm(full) * np.linalg.norm(solution)
            assert np.linalg.norm(full @ solution - rhs) <= 1e-12 * size


def _random_edges(n: int, rng: np.random.Generator) -> tuple[Block, np.ndarray]:
    """A connected grounded graph with chords, and a definite matrix on its nodes."""
    v = np.eye(n) - np.eye(n, k=-1)  # a path from the ground
    chords = rng.choice(n, (n // 2, 2), replace=True)
    chords = chords[chords[:, 0] != chords[:, 1]]
    v = np.vstack([v, np.eye(n)[chords[:, 0]] - np.eye(n)[chords[:, 1]]])
    v = np.unique(v, axis=0)
    x = rng.standard_normal((n, n))
    return Block.of(n, v, cost=Cost.of(n, identity=1.0)), x @ x.T + np.eye(n)


@pytest.mark.parametrize("n", [7, 30])
def test_tree_coordinates_are_a_congruence(n: int) -> None:
    """Lengths, images and the Schur matrix are what they are among the nodes."""
    rng = np.random.default_rng(n)
    block, m = _random_edges(n, rng)
    p = block.n_measurements
    cone = BlockAlgebra(block, sp.eye_array(p, format="csr"), np.zeros(p), 1.0)
    along = TreeCone.of(cone, m)
    assert along is not None
    T = along.tree.lift(np.eye(n))
    z, inverse = along.tree.from_nodes(m), along.tree.from_nodes(np.linalg.inv(m))
    np.testing.assert_allclose(T @ z @ T.T, m, atol=1e-11 * np.abs(m).max())
    np.testing.assert_allclose(along.tree.to_nodes(z), m, atol=1e-11 * np.abs(m).max())
    np.testing.assert_allclose(along.cost, T.T @ cone.cost @ T, atol=1e-12 * n)
    np.testing.assert_allclose(along.values(z), cone.values(m), rtol=1e-9)
    w, x = rng.standard_normal(p), rng.standard_normal(n)
    image = T.T @ dense(cone.adjoint(w)) @ T
    np.testing.assert_allclose(dense(along.adjoint(w)), image, atol=1e-10)
    np.testing.assert_allclose(along.adjoint(w) @ x, image @ x, atol=1e-10)
    np.testing.assert_allclose(along.adjoint(w) @ m, image @ m, atol=1e-8)
    schurs = np.zeros((2, p, p))
    cone.add_schur(schurs[0], m, np.linalg.inv(m))
    along.add_schur(schurs[1], z, inverse)
    np.testing.assert_allclose(np.tril(schurs[1]), np.tril(schurs[0]), atol=1e-9)


def test_the_shortest_tree_is_made_of_edges_and_spans() -> None:
    """Two parts: one tied to the ground by its edges, one that is not and gets a root."""
    first, second = np.array([0, 0, 1, 3, 4, 3]), np.array([5, 1, 5, 4, 2, 2])
    lengths = np.array([1.0, 0.5, 2.0, 1.0, 1.0, 3.0])
    tree = Tree.shortest(first, second, lengths, 5)
    assert tree.parent[0] == 5
    assert tree.parent[1] == 0  # not by the longer edge to the ground
    assert sum(tree.parent[[2, 3, 4]] == 5) == 1
    seen = {5}
    for node in tree.order:
        assert tree.parent[node] in seen
        seen.add(int(node))
    assert seen == set(range(6))


def test_a_direction_solves_the_newton_equations() -> None:
    """A(ΔM) + A_xΔx = rp, ΔS = Aᵀ(Δw) + Rd and the linearised MS = μI, all at once."""
    from sdpkit.solution.reduction import reduce

    method = PredictorCorrector(reduce(roll(15, form="slack").program()).program)
    point = method.start()
    method.prepare(point)
    gaps = method.settle(point)
    now = method.measures(point, gaps)
    method.factor(point)
    step = method.direction(point, gaps, 0.3 * now.mu, None)
    cone, m, s = method.cones[0], point.matrices[0], point.slacks[0]
    reached = cone.values(m + step.matrices[0]) + method.a @ (point.x + step.x)
    np.testing.assert_allclose(reached, method.b, atol=1e-8 * np.abs(m).max())
    slack = cone.adjoint(point.w + step.w) - cone.cost
    np.testing.assert_allclose(s + step.slacks[0], slack, atol=1e-9 * np.abs(s).max())
    # HKM: M + ΔM = μS⁻¹ − sym(MΔS S⁻¹).
    inverse = np.linalg.inv(s)
    product = m @ step.slacks[0] @ inverse
    expected = 0.3 * now.mu * inverse - (product + product.T) / 2
    np.testing.assert_allclose(m + step.matrices[0], expected, atol=1e-8 * np.abs(m).max())
    target = point.x * point.z + point.z * step.x + point.x * step.z
    np.testing.assert_allclose(target, 0.3 * now.mu, rtol=1e-8)


# -- accuracy -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_eight_digits(form: str) -> None:
    solution = interior(roll(50, form=form), tol=1e-8)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.relative_gap <= 1e-8
    assert solution.certificate.verify()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_eight_digits_for_200_points(form: str) -> None:
    assert interior(roll(200, form=form), tol=1e-8).status is Status.OPTIMAL


def test_the_reference_values() -> None:
    """Optimal traces of the reference instance, edges scaled to mean one."""
    for n, value in ((100, 1187.83455), (400, 81842.801)):
        problem = roll(n)
        unit = problem.neighborhood.squared_lengths.mean()
        assert interior(problem).objective / unit == pytest.approx(value, rel=1e-6)


def test_two_runs_give_the_same_bits_and_threads_do_not_matter() -> None:
    problem = roll(220)
    one, two = interior(problem), interior(problem)
    np.testing.assert_array_equal(one.matrix, two.matrix)
    with threadpool_limits(1):
        alone = interior(problem)
    assert alone.objective == pytest.approx(one.objective, rel=1e-6)


# -- any program ----------------------------------------------------------------------------


def test_any_symmetric_cost() -> None:
    """MVE's step: B = 2VVᵀ − I is neither definite nor sparse."""
    problem = roll(25)
    base = problem.program()
    v = np.linalg.qr(np.random.default_rng(0).standard_normal((25, 3)))[0][:, :2]
    v -= v.mean(axis=0)
    cost = Cost.of(25, identity=-1.0, factor=v, weights=[2.0, 2.0])
    block = Block.of(25, base.blocks[0].incidence, cost=cost, null=np.ones(25))
    program = Program.of(block, base.rhs, safe=base.safe)
    ours, theirs = interior(program), sdpkit.solve(program, solver="cvxopt")
    assert ours.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-5)


def test_free_variables_and_quadratic_penalties() -> None:
    """max tr M − ½·7‖r‖² − t,  v_pᵀMv_p − r_p = b_p,  tr M ≤ t + 2 with t free."""
    rng = np.random.default_rng(1)
    v, b = rng.standard_normal((12, 3)), rng.uniform(1, 2, 12)
    M, r, t = cp.Variable((3, 3), PSD=True), cp.Variable(12), cp.Variable()
    lengths = cp.hstack([row @ M @ row for row in v])
    model = cp.Problem(
        cp.Maximize(cp.trace(M) - 3.5 * cp.sum_squares(r) - 1.5 * t),
        [lengths - r == b, cp.trace(M) - t <= 2],
    )
    expected = model.solve(solver="CLARABEL")
    block = Block.of(3, np.vstack([v, np.eye(3)]), cost=Cost.of(3, identity=1.0))
    rows_q = sp.block_array([[sp.eye_array(12), None], [None, np.ones((1, 3))]])
    rows_x = sp.block_array([[-sp.eye_array(12), None], [None, -np.ones((1, 1))]])
    program = Program.of(
        block,
        np.r_[b, 2.0],
        rows_q=rows_q,
        rows_x=rows_x,
        relations=[0] * 12 + [-1],
        cost_x=np.r_[np.zeros(12), -1.5],
        free_x=[True] * 13,
        quadratic_x=np.r_[np.full(12, 7.0), 0.0],
    )
    solution = interior(program)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert solution.x[12] == pytest.approx(float(t.value), rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_free_variables_only(seed: int) -> None:
    """vᵀMv + Ax = b with Gx = h besides, x free: the rows of G are zero in the Schur matrix."""
    rng = np.random.default_rng(seed)
    n, p, f, k = 4, 6, 3, 2
    v, A, G = rng.standard_normal((p, n)), rng.standard_normal((p, f)), rng.standard_normal((k, f))
    root, x = rng.standard_normal((n, n)), rng.standard_normal(f)
    w, y, slack = rng.standard_normal(p), rng.standard_normal(k), rng.standard_normal((n, n))
    cost = v.T @ (w[:, None] * v) - slack @ slack.T  # w and y are strictly feasible
    block = Block.of(n, v, cost=(cost + cost.T) / 2)
    program = Program.of(
        block,
        np.r_[block.measure(root @ root.T) + A @ x, G @ x],
        rows_q=sp.vstack([sp.eye_array(p), sp.csr_array((k, p))]),
        rows_x=np.vstack([A, G]),
        cost_x=A.T @ w + G.T @ y,
        free_x=np.ones(f, dtype=bool),
    )
    ours, theirs = interior(program), sdpkit.solve(program, solver="clarabel")
    assert ours.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-5)


def test_more_rows_than_matrix_entries() -> None:
    """A small LMNN: hundreds of hinges on a 3 × 3 metric, as slacks."""
    rng = np.random.default_rng(2)
    pull, push = rng.standard_normal((40, 3)), rng.standard_normal((40, 3)) * 1.5
    M, xi = cp.Variable((3, 3), PSD=True), cp.Variable(40, nonneg=True)
    near = cp.hstack([row @ M @ row for row in pull])
    far = cp.hstack([row @ M @ row for row in push])
    model = cp.Problem(cp.Minimize(cp.sum(near) + cp.sum(xi)), [far - near + xi >= 1])
    expected = model.solve(solver="CLARABEL")
    eye = sp.eye_array(40, format="csr")
    program = Program.of(
        Block.of(3, np.vstack([pull, push])),
        np.ones(40),
        sense="min",
        rows_q=sp.hstack([-eye, eye]),
        rows_x=eye,
        relations=">=",
        cost_q=np.r_[np.ones(40), np.zeros(40)],
        cost_x=np.ones(40),
    )
    assert isinstance(PredictorCorrector(program).equations, EntryEquations)
    solution = interior(program)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(expected, rel=1e-6)


def test_duplicate_edges_are_one_rod() -> None:
    base = roll(15).program()
    rows = np.r_[np.arange(base.n_rows), 0, 3]
    doubled = Program.of(
        base.blocks, base.rhs[rows], rows_q=base.rows_q[rows], safe=sdpkit.SafeBounds()
    )
    solution = interior(doubled)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(interior(base).objective, rel=1e-6)


# -- hard instances -------------------------------------------------------------------------


def _procrustes(X: np.ndarray, Y: np.ndarray) -> float:
    """Largest distance after the best rotation, relative to the size of X."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    u, _, vt = np.linalg.svd(Y.T @ X)
    return float(np.abs(Y @ u @ vt - X).max() / np.abs(X).max())


def test_a_noise_free_roll_with_angles_is_rigid() -> None:
    X = sdpkit.datasets.swiss_roll(60, noise_dims=0)
    problem = MVU(X, n_neighbors=6, angles=True)
    solution = interior(problem)
    assert problem.facial_reduction_used
    assert any("facial reduction" in note for note in solution.notes)
    assert solution.status is Status.OPTIMAL
    embedding = problem.recover(solution, n_components=3)
    assert _procrustes(X, embedding.coordinates) < 1e-4


def test_nearly_collinear_points() -> None:
    rng = np.random.default_rng(0)
    X = np.c_[np.sort(rng.random(30)), 1e-4 * rng.standard_normal((30, 2))]
    solution = interior(MVU(X, n_neighbors=4))
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("tol", [1e-6, 1e-8])
def test_squared_lengths_over_eight_orders_of_magnitude(tol: float) -> None:
    """A string of rods from 1e-2 to 1e2: its unfolding is a line of known variance."""
    lengths = 10.0 ** np.linspace(-2, 2, 25)
    positions = np.r_[0.0, np.cumsum(lengths)]
    graph = sp.diags_array(lengths, offsets=1, shape=(26, 26)).tocsr()
    solution = interior(MVU(graph=graph + graph.T), tol=tol)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(26 * positions.var(), rel=tol)
    assert solution.certificate.safe_bound >= 26 * positions.var() * (1 - 1e-12)


@pytest.mark.parametrize(("form", "n"), [("equality", 300), ("inequality", 150)])
def test_a_long_ring_reaches_the_last_digits(form: str, n: int) -> None:
    """Entries of K exceed a squared edge by n²/4π²: along a tree nothing is lost to that."""
    problem = MVU(sdpkit.datasets.trefoil_knot(n), n_neighbors=4, form=form)
    assert interior(problem, tol=1e-8).status is Status.OPTIMAL


@pytest.mark.slow
@pytest.mark.parametrize("n", [400, 1617])
def test_the_trefoil_knot_unfolds_to_a_circle(n: int) -> None:
    """Thesis figure 3.8 (n = 1617): two dominant, equal eigenvalues."""
    problem = MVU(sdpkit.datasets.trefoil_knot(n), n_neighbors=4)
    solution = interior(problem)
    assert solution.status is Status.OPTIMAL
    embedding = problem.recover(solution)
    assert embedding.suggested_dimension == 2
    assert embedding.fidelity > 0.999
    assert embedding.eigenvalues[0] == pytest.approx(embedding.eigenvalues[1], rel=1e-3)


# -- control --------------------------------------------------------------------------------


def test_history_and_callback_tell_the_same_story() -> None:
    rows: list[Any] = []
    solution = interior(roll(30), callback=rows.append)
    assert list(solution.history) == rows
    assert len(rows) == solution.iterations + 1
    gaps = [row["gap"] for row in rows]
    assert gaps[-1] < 1e-6 < gaps[0]
    assert rows[-1]["objective"] == pytest.approx(solution.objective, rel=1e-6)
    feasible = [row for row in rows if row["primal_residual"] < 1e-8]
    for row in feasible:
        assert row["bound"] >= row["objective"]


def test_limits_are_kept_and_named() -> None:
    with pytest.warns(ConvergenceWarning, match="iteration_limit"):
        few = interior(roll(40), max_iter=5)
    assert few.status is Status.ITERATION_LIMIT
    assert few.iterations == 5
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        short = interior(roll(40), time_limit=1e-6)
    assert short.status is Status.TIME_LIMIT


def test_ctrl_c_returns_the_best_point_so_far() -> None:
    def stop(row: Any) -> None:
        if row["iteration"] == 8:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        solution = interior(roll(40), callback=stop)
    assert solution.status is Status.INTERRUPTED
    # Strictly feasible multipliers all the way: the bound of an interrupted run still holds.
    best = interior(roll(40)).objective
    assert best <= solution.certificate.safe_bound <= 1.1 * best


def test_a_warm_start_saves_iterations() -> None:
    problem = roll(80)
    first = interior(problem)
    program = problem.program()
    nearby = Program.of(
        program.blocks,
        program.rhs * (1 + 1e-5 * np.sin(np.arange(program.n_rows))),
        safe=program.safe,
    )
    cold = interior(nearby)
    warm = interior(nearby, warm_start=first)
    assert warm.status is Status.OPTIMAL
    assert warm.iterations < cold.iterations
    assert warm.objective == pytest.approx(cold.objective, rel=1e-6)


def test_a_warm_start_of_another_shape_is_ignored() -> None:
    other = interior(roll(20))
    assert interior(roll(30), warm_start=other).status is Status.OPTIMAL


def test_infeasible_and_unbounded_end_with_rays() -> None:
    triangle = np.array([[0, 1, 1], [1, 0, 3], [1, 3, 0]])
    assert interior(MVU(graph=triangle)).status is Status.INFEASIBLE
    pieces = Block.of(
        4, [[1.0, -1, 0, 0], [0, 0, 1, -1]], cost=Cost.of(4, identity=1.0), null=np.ones(4)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert interior(Program.of(pieces, [1.0, 1.0])).status is Status.UNBOUNDED


def test_a_slack_that_is_definite_by_rounding_only_is_no_start() -> None:
    """Rows of half the size: twice the problem's own direction makes the slack singular exactly."""
    program = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(6)).program()
    halved = replace(program, rows_q=program.rows_q * 0.5)
    solution = sdpkit.solve(halved, solver="interior")
    assert solution.status == sdpkit.Status.OPTIMAL
    assert solution.objective == pytest.approx(12)
    assert solution.history[0]["mu"] > 1e-6


def test_a_run_goes_on_while_the_residuals_of_the_embedding_fall() -> None:
    """Where the solution is large, τ falls, and the errors relative to it rise for a while."""
    (instance,) = (one for one in suites.INSTANCES if one.name == "basis-norm-500")
    solution = sdpkit.solve(instance.build(), solver="interior")
    assert solution.status is Status.OPTIMAL
