"""The dual barrier engine and what it stands on: sparse factors, Gram operators, proven bounds."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Mapping

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sdpkit
import sdpkit.program.form
from sdpkit import MVE, MVU, Block, Cost, Program, Status
from sdpkit.certificate.certify import certify
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.errors import ConvergenceWarning
from sdpkit.numerics.eigenpairs import smallest_on_centred
from sdpkit.numerics.pattern import Pattern
from sdpkit.numerics.sparse_factor import SparseFactor
from sdpkit.numerics.updated_factor import LowRankUpdate, UpdatedFactor, factored
from sdpkit.program.gram import FactoredGram, Gram, ResolventGram, StackedGram
from sdpkit.solution.answer import Settings
from sdpkit.solvers import barrier, barrier_centres, barrier_dual, barrier_newton
from sdpkit.solving.choice import choose
from sdpkit.solving.registry import get_solver
from sdpkit.solving.solve import first_program, solve
from sdpkit.typing import Array

FORMS = ("equality", "inequality", "slack", "min_trace")


def roll(n: int, form: str = "equality", **options: object) -> MVU:
    return MVU(sdpkit.datasets.swiss_roll(n), n_neighbors=4, form=form, **options)


def volume(n: int, form: str = "equality", **options: object) -> MVE:
    return MVE(sdpkit.datasets.swiss_roll(n), n_neighbors=4, form=form, **options)


def random_graph(seed: int, n: int, extra: int) -> NDArray[np.int64]:
    """A random tree and some more edges, each pair once."""
    rng = np.random.default_rng(seed)
    tree = [(int(rng.integers(k)), k) for k in range(1, n)]
    more = [tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(extra)]
    return np.array(sorted({*tree, *more}), dtype=np.int64)


def laplacian(n: int, edges: NDArray[np.int64], weights: Array) -> Array:
    out = np.zeros((n, n))
    for (i, j), w in zip(edges, weights, strict=True):
        out[[i, j], [i, j]] += w
        out[[i, j], [j, i]] -= w
    return out


def lengths(matrix: Array, edges: NDArray[np.int64]) -> Array:
    i, j = edges.T
    return matrix[i, i] + matrix[j, j] - 2 * matrix[i, j]


# -- sparse factors ---------------------------------------------------------------------------

graphs = st.builds(random_graph, st.integers(0, 10**6), st.integers(2, 25), st.integers(0, 40))


@given(edges=graphs, seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_factors_agree_with_dense_algebra(edges: NDArray[np.int64], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(edges.max()) + 1, len(edges)
    pattern = Pattern.of(n, edges)
    w, v, shift = rng.uniform(0.5, 2.0, m), rng.standard_normal(m), rng.uniform(0.1, 1.0, n)
    factor = SparseFactor.of(pattern, pattern.laplacian(w, shift))
    inverse = np.linalg.inv(laplacian(n, edges, w) + np.diag(shift))
    size = np.abs(inverse).max()
    b = rng.standard_normal((n, 3))
    nodes = rng.permutation(n)[: max(1, n // 2)]
    assert factor.negative == 0
    assert np.abs(factor.solve(b) - inverse @ b).max() <= 1e-9 * size * np.abs(b).max()
    assert np.abs(factor.solve(b[:, 0]) - inverse @ b[:, 0]).max() <= 1e-9 * size * np.abs(b).max()
    assert np.abs(factor.inverse_lengths() - lengths(inverse, edges)).max() <= 1e-9 * size
    change = inverse @ laplacian(n, edges, v) @ inverse
    found = factor.inverse_lengths_along(v)
    assert np.abs(found - lengths(change, edges)).max() <= 1e-9 * np.abs(change).max()
    among = factor.inverse_among(nodes)
    assert np.abs(among - inverse[np.ix_(nodes, nodes)]).max() <= 1e-9 * size


@given(edges=graphs, seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_pivots_tell_the_inertia(edges: NDArray[np.int64], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(edges.max()) + 1, len(edges)
    pattern = Pattern.of(n, edges)
    w, shift = rng.standard_normal(m), rng.standard_normal()
    spectrum = np.linalg.eigvalsh(laplacian(n, edges, w) + shift * np.eye(n))
    factor = SparseFactor.of(pattern, pattern.laplacian(w, shift))
    if np.abs(spectrum).min() > 1e-8:
        assert factor.negative == np.sum(spectrum < 0)


def test_a_vanishing_pivot_is_a_breakdown_and_not_a_number() -> None:
    pattern = Pattern.of(2, np.array([[0, 1]]))
    factor = SparseFactor.of(pattern, np.array([0.0, 0.0, 1.0]))  # [[0, 1], [1, 0]]
    assert factor.negative == -1


@given(edges=graphs, seed=st.integers(0, 10**6), power=st.integers(-3, 12))
@settings(max_examples=30, deadline=None)
def test_the_backward_error_bounds_the_error(
    edges: NDArray[np.int64], seed: int, power: int
) -> None:
    """Against exact rational arithmetic."""
    from fractions import Fraction

    rng = np.random.default_rng(seed)
    n = int(edges.max()) + 1
    pattern = Pattern.of(n, edges)
    w = 10.0 ** rng.uniform(0, power, len(edges)) if power > 0 else rng.uniform(1, 2, len(edges))
    factor = SparseFactor.of(pattern, pattern.laplacian(w, -0.1))
    if factor.negative < 0:
        return
    bound = factor.backward_error((w,), (-0.1,))
    exact = [[Fraction(0)] * n for _ in range(n)]
    for (i, j), value in zip(pattern.rank[edges].tolist(), w, strict=True):
        for r, c, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            exact[r][c] += sign * Fraction(float(value))
    for k in range(n):
        exact[k][k] += Fraction(-0.1)
        column = {k: Fraction(1)}
        for p in range(pattern.indptr[k], pattern.indptr[k + 1]):
            column[int(pattern.rows[p])] = Fraction(float(factor.values[n + p]))
        for r, a in column.items():
            for c, b in column.items():
                exact[r][c] -= a * b * Fraction(float(factor.values[k]))
    residual = np.array([[float(x) for x in row] for row in exact])
    true = float(np.linalg.norm(residual, 2))
    assert true <= bound
    assert bound <= 1e-11 * max(1.0, float(w.max()))


@pytest.mark.parametrize("cost", [1.0, 0.0, -1.0])
def test_smallest_eigenvalue_is_a_lower_bound_and_sharp(cost: float) -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 60, 150):
        edges = random_graph(n, n, 2 * n)
        pattern = Pattern.of(n, edges)
        helmert = np.linalg.qr(np.c_[np.ones(n), np.eye(n)[:, 1:]])[0][:, 1:]
        for scale in (0.01, 1.0, 100.0):
            for w in (
                scale * rng.uniform(0.5, 2, len(edges)),
                scale * rng.standard_normal(len(edges)),
            ):
                slack = laplacian(n, edges, w) - cost * np.eye(n)
                true = float(np.linalg.eigvalsh(helmert.T @ slack @ helmert)[0])
                found = smallest_on_centred(pattern, w, cost)
                assert found <= true + 1e-13 * max(1.0, scale)
                assert found >= true - 0.02 * abs(true) - 1e-9 * scale


# -- costs of low rank ------------------------------------------------------------------------


def low_rank(n: int, rng: np.random.Generator) -> LowRankUpdate:
    vectors = rng.standard_normal((n, 2))
    return LowRankUpdate(vectors - vectors.mean(axis=0), np.array([2.0, -0.7]))


def outer(update: LowRankUpdate) -> Array:
    return np.asarray((update.vectors * update.weights) @ update.vectors.T)


@settings(deadline=None)  # the first call compiles
@given(graphs, st.integers(0, 10**6))
def test_updated_factors_agree_with_dense_algebra(edges: NDArray[np.int64], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(edges.max()) + 1, len(edges)
    weights, change = rng.uniform(0.5, 2.0, m), rng.standard_normal(m)
    update = low_rank(n, rng)
    factor = factored(Pattern.of(n, edges), weights, 0.3, update)
    assert isinstance(factor, UpdatedFactor)
    matrix = laplacian(n, edges, weights) + 0.3 * np.eye(n) - outer(update)
    values = np.linalg.eigvalsh(matrix)
    if np.abs(values).min() < 1e-3:
        return  # nearly singular: nothing to compare
    assert factor.negative == int(np.sum(values < 0))
    assert factor.log_determinant == pytest.approx(float(np.log(np.abs(values)).sum()), abs=1e-8)
    inverse = np.linalg.inv(matrix)
    scale = 1e-9 * np.abs(inverse).max() ** 2 * max(1.0, np.abs(change).max())
    rhs = rng.standard_normal((n, 3))
    assert factor.solve(rhs) == pytest.approx(inverse @ rhs, abs=scale)
    assert factor.inverse_lengths() == pytest.approx(lengths(inverse, edges), abs=scale)
    bent = inverse @ laplacian(n, edges, change) @ inverse
    assert factor.inverse_lengths_along(change) == pytest.approx(lengths(bent, edges), abs=scale)
    nodes = rng.permutation(n)[: min(n, 4)]
    assert factor.inverse_among(nodes) == pytest.approx(inverse[np.ix_(nodes, nodes)], abs=scale)


@pytest.mark.parametrize("cost", [-1.0, 0.4])
@pytest.mark.parametrize("seed", range(5))
def test_smallest_eigenvalue_with_a_low_rank(cost: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, edges = 30, random_graph(seed, 30, 40)
    weights, update = rng.uniform(0.5, 2.0, len(edges)), low_rank(30, rng)
    matrix = laplacian(n, edges, weights) - cost * np.eye(n) - outer(update)
    matrix += 1e3 * np.ones((n, n))
    exact = float(np.linalg.eigvalsh(matrix)[0])
    found = smallest_on_centred(Pattern.of(n, edges), weights, cost, None, update)
    assert exact - 1e-4 * max(1.0, abs(exact)) <= found <= exact + 1e-12


@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize("tilt", [0.0, 1e-9, -1e-7])
def test_a_vanishing_pivot_is_pinned(n: int, tilt: float) -> None:
    """A ring whose first pivot, 2w − c, all but vanishes, while the matrix itself is regular."""
    edges = np.array(sorted([(k, k + 1) for k in range(n - 1)] + [(0, n - 1)]))
    pattern, weights = Pattern.of(n, edges), np.full(n, 1.0)
    shift = -2.0 + tilt
    factor = factored(pattern, weights, shift, None)
    assert isinstance(factor, UpdatedFactor)
    matrix = laplacian(n, edges, weights) + shift * np.eye(n)
    if np.abs(np.linalg.eigvalsh(matrix)).min() < 1e-3:
        return  # n = 4 has an eigenvalue there
    assert factor.negative == int(np.sum(np.linalg.eigvalsh(matrix) < 0))
    rhs = np.arange(float(n))
    assert factor.solve(rhs) == pytest.approx(np.linalg.solve(matrix, rhs), rel=1e-11)
    assert 0 < factor.backward_error((weights,), (shift,)) < 1e-13


@pytest.mark.parametrize("form", ["equality", "inequality"])
def test_rings_have_closed_forms(form: str) -> None:
    """Regular polygons; at eight corners a pivot vanishes along the whole path."""
    for n in (7, 8, 9):
        ring = MVU(graph=sdpkit.datasets.cycle_graph(n), form=form)
        solution = solve(ring, solver="barrier", tol=1e-7)
        assert solution.status is Status.OPTIMAL
        assert solution.objective == pytest.approx(n / (4 * np.sin(np.pi / n) ** 2), rel=1e-6)


def test_pins_are_few() -> None:
    """A star in which every leaf's pivot vanishes: no more are pinned than can be afforded."""
    n = 400
    edges = np.array([(0, k) for k in range(1, n)])
    factor = factored(Pattern.of(n, edges), np.full(n - 1, 1 + 1e-9), -1.0, None)
    assert isinstance(factor, UpdatedFactor)
    assert 0 < factor.update.weights.size <= 100


def test_costs_that_centring_would_lose_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdpkit.program.block.LARGE", 5)
    incidence = MVU(graph=sdpkit.datasets.cycle_graph(8)).program().blocks[0].incidence

    def block(mean: float) -> Block:
        factor = np.full((8, 1), mean) + np.eye(8, 1) - np.eye(8, 1, -1)
        return Block.of(8, incidence, cost=Cost.of(8, identity=1.0, factor=factor), null=np.ones(8))

    assert block(0.0).is_large_graph
    small = block(1e3).low_rank
    assert small is not None
    assert small.error > 1e-13
    assert not block(1e12).is_large_graph  # the dense proof counts every entry


def test_a_corner_without_a_sign_proves_nothing() -> None:
    """C = 0 exactly: no inertia is claimed, and no finite backward error."""
    edges = np.array([[0, 1]])
    u = np.array([[1.0], [-1.0]]) / np.sqrt(2)
    singular = factored(
        Pattern.of(2, edges), np.array([1.0]), 0.5, LowRankUpdate(u, np.array([2.5]))
    )
    assert isinstance(singular, UpdatedFactor)
    assert singular.backward_error((np.array([1.0]),), (0.5,)) == np.inf


@pytest.mark.parametrize("form", ["equality", "inequality", "slack"])
def test_minimum_volume_agrees_with_interior(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step of MVE, its K as an array and as an operator."""
    program = volume(60, form).first_program()
    exact = solve(program, solver="interior", tol=1e-7)
    solution = solve(program, solver="barrier", tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(exact.objective, rel=2e-6)
    monkeypatch.setattr("sdpkit.program.block.LARGE", 50)
    large = volume(60, form).first_program()
    operator = solve(large, solver="barrier", tol=1e-6)
    assert operator.status is Status.OPTIMAL
    assert isinstance(operator.matrix, ResolventGram)
    assert operator.objective == pytest.approx(exact.objective, rel=2e-6)
    assert operator.certificate.verify()
    assert np.trace(np.asarray(operator.matrix)) == pytest.approx(operator.matrix.trace(), rel=1e-6)
    # What is proven about the operator must fail when its numbers are moved.
    assert operator.dual is not None
    wrong = dataclasses.replace(operator.matrix, step=operator.matrix.step + 1.0)
    assert not certify(large, [wrong], operator.x, operator.dual).passes(1e-2)
    assert certify(large, operator.matrices, operator.x, 0.9 * operator.dual).relative_gap > 1e-3


@pytest.mark.slow
def test_minimum_volume_of_a_large_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole climb on operators ends where it ends on arrays."""
    small = solve(volume(60), tol=1e-5)
    monkeypatch.setattr("sdpkit.program.block.LARGE", 50)
    monkeypatch.setattr("sdpkit.problems.mve.LARGE", 50)
    problem = volume(60)
    large = solve(problem, solver="barrier", tol=1e-5)
    assert (large.status, large.solver) == (Status.STATIONARY, "barrier")
    assert isinstance(large.matrix, Gram)
    assert problem.value(large) == pytest.approx(volume(60).value(small), rel=1e-3)
    assert problem.recover(large).fidelity == pytest.approx(problem.fidelity(large), rel=1e-6)


def test_a_start_that_is_far_from_the_path_is_left() -> None:
    """A solution of the last cost is a bad start for the next; it must not be the end of it."""
    problem = volume(60, min_gain=0.0)
    first = solve(problem.first_program(), solver="barrier", tol=1e-5)
    second = problem.advance((first,), 1e-5)
    assert isinstance(second, Program)
    warm = solve(second, solver="barrier", tol=1e-5, warm_start=first)
    cold = solve(second, solver="barrier", tol=1e-5)
    assert warm.status is cold.status is Status.OPTIMAL
    assert warm.objective == pytest.approx(cold.objective, rel=2e-5)


# -- Gram operators ---------------------------------------------------------------------------


def resolvent(n: int = 40, cost: float = 1.0, reach: float = 0.5) -> ResolventGram:
    """w strictly feasible and a step of which `reach` stays feasible when reflected."""
    rng = np.random.default_rng(n)
    edges = random_graph(n, n, 3 * n)
    pattern = Pattern.of(n, edges)
    w = rng.uniform(0.5, 2.0, len(edges))
    w *= (2.0 + max(cost, 0.0)) / smallest_on_centred(pattern, w, 0.0)
    return ResolventGram(pattern, cost, w, reach * w * rng.uniform(0.2, 1.0, w.size), 0.3)


@pytest.mark.parametrize("cost", [1.0, 0.0, -1.0])
def test_resolvent_agrees_with_its_definition(cost: float) -> None:
    gram = resolvent(cost=cost, reach=0.2)
    n, edges = gram.shape[0], gram.pattern.edges
    centring = np.eye(n) - 1 / n
    slack = laplacian(n, edges, gram.weights) - cost * centring
    moved = laplacian(n, edges, gram.weights - gram.step) - cost * centring
    P = np.linalg.pinv(slack, rcond=1e-12)
    K = gram.mu * P @ moved @ P
    size = np.abs(K).max()
    assert np.abs(gram.toarray() - K).max() <= 1e-9 * size
    assert np.abs(np.asarray(gram) - K).max() <= 1e-9 * size
    assert gram.trace() == pytest.approx(np.trace(K), rel=1e-9)
    incidence = sp.csr_array(
        (np.tile([1.0, -1.0], len(edges)), edges.ravel(), np.arange(0, 2 * len(edges) + 1, 2))
    )
    assert gram.measure(incidence) == pytest.approx(lengths(K, edges), rel=1e-9)
    assert gram.lengths(incidence) == pytest.approx(lengths(K, edges), rel=1e-9)
    assert gram.accuracy() <= 1e-10
    values, vectors = gram.leading(3)
    assert values == pytest.approx(np.linalg.eigvalsh(K)[::-1][:3], rel=1e-8)
    assert np.abs(K @ vectors - vectors * values).max() <= 1e-7 * size
    assert np.abs(gram.scaled(2.0).toarray() - 2 * K).max() <= 1e-9 * size


def test_resolvent_is_semidefinite_only_if_it_is() -> None:
    good, bad = resolvent(reach=0.2), resolvent(reach=20.0)
    assert good.smallest_eigenvalue() == 0.0
    assert np.linalg.eigvalsh(good.toarray())[0] >= -1e-12
    true = float(np.linalg.eigvalsh(bad.toarray())[0])
    assert true < 0
    assert bad.smallest_eigenvalue() <= true


def test_factored_and_stacked() -> None:
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((5, 2))
    gram = FactoredGram(Y)
    assert np.allclose(gram.toarray(), Y @ Y.T)
    assert gram.measure(sp.csr_array([[1.0, -1.0, 0, 0, 0]]))[0] == pytest.approx(
        ((Y[0] - Y[1]) ** 2).sum()
    )
    assert gram.inner(Cost.of(5, identity=2.0)) == pytest.approx(2 * np.sum(Y**2))
    small = np.array([[2.0, -1.0], [-1.0, 1.0]])
    nodes = [np.array([6, 0, 2, 3, 5]), np.array([1, 4])]
    stacked = StackedGram(7, [(gram, nodes[0]), (small, nodes[1])])
    full = np.zeros((7, 7))
    full[np.ix_(nodes[0], nodes[0])] = Y @ Y.T
    full[np.ix_(nodes[1], nodes[1])] = small
    assert np.allclose(stacked.toarray(), full)
    assert stacked.trace() == pytest.approx(np.trace(full))
    assert stacked.smallest_eigenvalue() <= 0.39
    assert np.allclose(stacked.scaled(3.0).toarray(), 3 * full)


# -- certificates without dense matrices ------------------------------------------------------


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdpkit.program.block.LARGE", 30)


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("form", FORMS)
def test_operators_are_certified_like_arrays(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = roll(60, form)
    solution = solve(problem, solver="barrier", tol=1e-5)
    assert solution.solver == "barrier"
    assert isinstance(solution.matrix, Gram)
    assert solution.status is Status.OPTIMAL
    K = solution.matrix.toarray()
    monkeypatch.setattr("sdpkit.program.block.LARGE", 3000)
    again = certify(problem.program(), K, solution.x, solution.dual)
    first = solution.certificate
    assert again.passes(1e-5)
    assert first.objective == pytest.approx(again.objective, rel=1e-9)
    assert first.safe_bound == pytest.approx(again.safe_bound, rel=1e-8)
    assert first.min_eigenvalue_dual <= again.min_eigenvalue_dual + 1e-12
    assert first.min_eigenvalue_dual == pytest.approx(again.min_eigenvalue_dual, rel=0.05, abs=1e-9)
    assert first.eigenvalue_scale == pytest.approx(again.eigenvalue_scale, rel=1e-6)
    assert bool(first.verify())
    sign = solution.program.sign
    assert sign * first.verify().bound >= sign * solution.objective  # type: ignore[operator]


@pytest.mark.usefixtures("everything_is_large")
def test_nothing_about_an_operator_is_believed() -> None:
    solution = solve(roll(50), solver="barrier", tol=1e-5)
    program, gram, w = solution.program, solution.matrix, solution.dual
    assert isinstance(gram, ResolventGram)
    assert w is not None
    assert certify(program, gram, dual=w).passes(1e-5)
    longer = certify(program, gram.scaled(1.001), dual=w)
    assert any("primal residual" in words for words in longer.failures(1e-5))
    bent = dataclasses.replace(gram, step=gram.step + 0.5 * gram.weights)
    assert not certify(program, bent, dual=w).passes(1e-5)
    negative = certify(program, gram.scaled(-1.0), dual=w)
    assert negative.min_eigenvalue_primal < 0
    smaller = certify(program, gram, dual=0.999 * w)
    assert smaller.min_eigenvalue_dual < 0
    assert smaller.safe_bound >= solution.objective
    missing = certify(program, FactoredGram(np.full((50, 1), np.nan)), dual=w)
    assert not missing.passes(1.0)


@pytest.mark.usefixtures("everything_is_large")
def test_embeddings_of_operators() -> None:
    problem = roll(60)
    solution = solve(problem, solver="barrier", tol=1e-5)
    embedding = problem.recover(solution, n_components=2)
    values, vectors = np.linalg.eigh(solution.matrix.toarray())  # type: ignore[union-attr]
    assert embedding.eigenvalues.size == 12
    assert embedding.eigenvalues == pytest.approx(values[::-1][:12], rel=1e-6)
    assert embedding.fidelity == pytest.approx(values[-2:].sum() / values.sum(), rel=1e-6)
    top = vectors[:, ::-1][:, :2] * np.sqrt(values[::-1][:2])
    assert np.abs(np.abs(embedding.coordinates) - np.abs(top)).max() <= 1e-4 * np.abs(top).max()
    assert 1 <= problem.recover(solution).n_components <= 12


@pytest.mark.usefixtures("everything_is_large")
def test_large_components_are_unfolded_apart() -> None:
    graph = sp.block_diag([sdpkit.datasets.path_graph(40), sdpkit.datasets.path_graph(6)])
    problem = MVU(graph=graph, connect="components")
    solution = solve(problem, solver="barrier", tol=1e-5)
    assert solution.solver == "barrier"
    assert solution.status is Status.OPTIMAL
    assert isinstance(solution.matrices[0], Gram)
    assert isinstance(solution.matrices[1], np.ndarray)
    assert solution.objective == pytest.approx((40**3 - 40) / 12 + (6**3 - 6) / 12, rel=1e-5)
    embedding = problem.recover(solution, n_components=2)
    assert np.ptp(embedding.coordinates[:40, 0]) == pytest.approx(39.0, rel=1e-4)


@pytest.mark.usefixtures("everything_is_large")
def test_large_rays() -> None:
    n = 40
    graph = sdpkit.datasets.cycle_graph(n).toarray()
    graph[0, n - 1] = graph[n - 1, 0] = n  # longer than the way around
    program = MVU(graph=graph).program()
    solution = solve(program, solver="barrier")
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    assert bool(solution.ray.verify())
    assert solution.iterations == 0
    rods = np.kron(np.eye(20), [[1.0, -1.0]])
    block = Block.of(40, rods, cost=Cost.of(40, identity=1.0), null=np.ones(40))
    loose = solve(Program.of(block, np.ones(20)), solver="barrier")
    assert loose.status is Status.UNBOUNDED
    assert loose.ray is not None
    assert isinstance(loose.ray.matrices[0], FactoredGram)  # type: ignore[index]
    assert not certify_unbounded(loose.program, [FactoredGram(np.eye(40)[:, :1])], []).passes(1e-7)


# -- the engine -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_clusters_and_low_rank_change_nothing_but_speed(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small clusters the preconditioner is far from the Hessian; the answer is the same."""
    problem = roll(100, form)
    exact = solve(problem, solver="interior", tol=1e-7)
    monkeypatch.setattr(barrier_dual, "ONE_CLUSTER_EDGES", 50)
    monkeypatch.setattr(barrier_dual, "CLUSTER_EDGES", 40)
    monkeypatch.setattr(barrier_newton, "LOW_RANK_PRODUCTS", 10)
    solution = solve(problem, solver="barrier", tol=1e-5)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(exact.objective, rel=1e-5)
    assert solution.history[-1]["products"] > 300


@pytest.mark.parametrize("problem", [roll(40, "slack"), volume(40, "slack")])
def test_newton_directions_are_the_exact_ones(problem: MVU) -> None:
    """Pull and Hessian against finite differences of the potential, for MVU's and MVE's cost."""
    dual = barrier_dual.BarrierDual.of(first_program(problem))
    ((start, _),) = barrier.starting_points(dual, Settings())
    v = np.random.default_rng(0).standard_normal(dual.d.size) * 1e-3 * start.w

    def ahead(t: float) -> barrier_dual.BarrierPoint:
        point = dual.at(start.w + t * v)
        assert point is not None
        return point

    h = 1e-3
    slope = (ahead(h).potential(1e9) - ahead(-h).potential(1e9)) / (2 * h)
    assert slope == pytest.approx(float((dual.d / 1e9 - start.pull) @ v), rel=1e-6)
    turn = (ahead(h).pull - ahead(-h).pull) / (2 * h)
    found = start.hessian(v)
    assert np.abs(turn + found).max() <= 1e-6 * np.abs(found).max()


def test_extrapolation_is_exact_for_cubics() -> None:
    rng = np.random.default_rng(0)
    c = rng.standard_normal((4, 5))

    def centre(mu: float) -> barrier_centres.Centre:
        powers = mu ** np.arange(4)
        slope = c[1] + 2 * c[2] * mu + 3 * c[3] * mu**2
        return barrier_centres.Centre(mu, powers @ c, slope)

    cubic, _, line = barrier_centres.extrapolated(centre(1.0), centre(1.7), 0.6)
    assert cubic == pytest.approx(centre(0.6).w, rel=1e-12)
    assert line == pytest.approx(centre(1.0).w - 0.4 * centre(1.0).slope)


def test_strings_have_closed_forms() -> None:
    for n in (2, 3, 50):
        solution = solve(MVU(graph=sdpkit.datasets.path_graph(n)), solver="barrier")
        assert solution.status is Status.OPTIMAL
        assert solution.objective == pytest.approx((n**3 - n) / 12, rel=1e-6)


@given(scale=st.floats(-6, 6), seed=st.integers(0, 1000))
@settings(max_examples=6, deadline=None)
def test_units_and_order_do_not_matter(scale: float, seed: int) -> None:
    X = sdpkit.datasets.swiss_roll(30)
    base = solve(MVU(X, n_neighbors=4), solver="barrier", tol=1e-5)
    shuffled = 10**scale * X[np.random.default_rng(seed).permutation(30)]
    moved = solve(MVU(shuffled, n_neighbors=4), solver="barrier", tol=1e-5)
    assert moved.status is Status.OPTIMAL
    assert moved.objective / 100**scale == pytest.approx(base.objective, rel=2e-5)


def test_the_history_falls_and_the_dual_bounds() -> None:
    rows: list[Mapping[str, float]] = []
    solution = solve(roll(60), solver="barrier", callback=rows.append)
    assert len(rows) == len(solution.history) > 3
    mu = [row["mu"] for row in rows]
    assert all(b <= a for a, b in itertools.pairwise(mu))
    assert min(row["bound"] for row in rows) >= solution.objective
    assert solution.certificate.bound_source in ("feasible dual", "scaled dual")
    # Strictly feasible without any repair.
    assert solution.certificate.min_eigenvalue_dual > 0


def test_an_interruption_returns_the_best_point() -> None:
    def stop(row: Mapping[str, float]) -> None:
        if row["gap"] < 0.1:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        solution = solve(roll(60), solver="barrier", callback=stop)
    assert solution.status is Status.INTERRUPTED
    assert solution.certificate.relative_gap < 0.1
    assert (
        solution.certificate.min_eigenvalue_primal >= -1e-9 * solution.certificate.eigenvalue_scale
    )


@pytest.mark.usefixtures("everything_is_large")
def test_no_time_at_all() -> None:
    with pytest.warns(ConvergenceWarning, match="time limit"):
        solution = solve(roll(60), solver="barrier", time_limit=1e-9)
    assert solution.status is Status.TIME_LIMIT
    assert isinstance(solution.matrix, Gram)


def test_a_warm_start_saves_steps() -> None:
    problem = roll(60)
    cold = solve(problem, solver="barrier", tol=1e-4)
    again = solve(problem, solver="barrier", tol=1e-5, warm_start=cold)
    fresh = solve(problem, solver="barrier", tol=1e-5)
    assert again.status is Status.OPTIMAL
    assert again.iterations < fresh.iterations  # type: ignore[operator]
    other = solve(roll(40), solver="barrier", tol=1e-4, warm_start=cold)
    assert other.status is Status.OPTIMAL


def test_infeasible_although_every_triangle_closes() -> None:
    """Three points one apart, a fourth 0.55 from each: less than the circumradius 0.577."""
    D = np.ones((4, 4)) - np.eye(4)
    D[3, :3] = D[:3, 3] = 0.55
    for form in ("equality", "min_trace"):
        solution = solve(MVU(graph=D, form=form), solver="barrier")
        assert solution.status is Status.INFEASIBLE
        assert solution.ray is not None
        assert certify_infeasible(solution.program, solution.ray.multipliers).passes(1e-9)
        assert solution.iterations > 0  # type: ignore[operator]


def test_the_shortcut_is_an_exact_ray() -> None:
    graph = sdpkit.datasets.path_graph(6).toarray()
    graph[1, 4] = graph[4, 1] = 3.001
    program = MVU(graph=graph).program()
    answer = get_solver("barrier").solve(program, Settings())
    assert answer.iterations == 0
    ray = certify_infeasible(program, answer.multiplier_ray)
    assert ray.passes(1e-12)
    graph[1, 4] = graph[4, 1] = 2.999
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert solve(MVU(graph=graph), solver="barrier", tol=1e-4).status is Status.OPTIMAL


def test_minimum_trace_of_a_disconnected_graph() -> None:
    graph = sp.block_diag([sdpkit.datasets.path_graph(4), sdpkit.datasets.path_graph(5)])
    problem = MVU(graph=graph, form="min_trace")
    ours = solve(problem, solver="barrier", tol=1e-5)
    theirs = solve(problem, solver="interior", tol=1e-7)
    assert ours.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, rel=2e-5)


def test_lower_limits() -> None:
    """Rods of at least their length: the trace has a smallest value and no largest."""
    graph = roll(20).neighborhood
    cost = Cost.of(20, identity=1.0)
    block = Block.of(20, graph.incidence(), cost=cost, null=np.ones(20))
    least = Program.of(block, graph.squared_lengths, relations=">=", sense="min")
    ours, theirs = (solve(least, solver=name, tol=1e-5) for name in ("barrier", "interior"))
    assert ours.status is theirs.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, rel=2e-5)
    most = Program.of(block, graph.squared_lengths, relations=">=")
    assert solve(most, solver="barrier").status is Status.UNBOUNDED


def test_what_it_does_not_take() -> None:
    merged = MVU(graph=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]) * 1.0)
    assert solve(merged, solver="barrier").status is Status.OPTIMAL
    X = np.array([[0.0], [0.0], [1.0], [3.0]])
    with pytest.raises(sdpkit.SolverError, match="Use solver='interior'"):
        solve(MVU(X, n_neighbors=3), solver="barrier")  # coincident points: C is no multiple of I
    with pytest.raises(sdpkit.InputError, match="no option 'speed'"):
        solve(roll(20), solver="barrier", speed=11)


def test_auto_takes_it_from_a_few_hundred_points() -> None:
    assert choose(roll(20).program())[0].name == "interior"
    assert choose(roll(150).program())[0].name == "interior"
    assert choose(roll(600).program())[0].name == "barrier"
    assert choose(roll(1600).program())[0].name == "barrier"


def test_memory_stays_far_below_dense() -> None:
    solver = get_solver("barrier")
    program = roll(2000).program()
    assert solver.memory(program) < 0.2 * get_solver("interior").memory(program)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "form"), [(10_000, "equality"), (3000, "inequality")])
def test_thousands_of_points(n: int, form: str) -> None:
    solution = solve(roll(n, form), tol=1e-3)
    assert solution.solver == "barrier"
    assert solution.status is Status.OPTIMAL
    assert bool(solution.certificate.verify())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_agreement_at_a_thousand(form: str) -> None:
    ours = solve(roll(1000, form), solver="barrier", tol=1e-5)
    theirs = solve(roll(1000, form), solver="interior", tol=1e-6)
    assert ours.status is theirs.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, rel=1.1e-5)


def test_the_growth_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Of rows that follow powers of n exactly, failed ones left out."""
    from bench import engines

    rows = [
        (
            n,
            engines.Measurement(
                1.0, 8.0 * n**1.5, "optimal", 1.0, 1e-4, 3, n**2.0, n**0.5, n**0.25
            ),
        )
        for n in (1000, 2000, 4000)
    ]
    rows.append((8000, dataclasses.replace(rows[0][1], status="time_limit")))
    engines._print_sparse_growth("a test", rows)
    assert "CPU time ~ n^2.00, memory ~ n^1.50; products ~ n^0.50" in capsys.readouterr().out
    engines._print_sparse_growth("one size", rows[:1])
    assert capsys.readouterr().out == ""
