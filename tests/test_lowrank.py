"""Low-rank factors: derivatives, known optima, ranks, starts, limits, and what comes after."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing.planted import solvable
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sdpkit
import sdpkit.program.form
from sdpkit import MVU, Block, Cost, Localization, Program, Status
from sdpkit.certificate.certify import certify
from sdpkit.certificate.rays import certify_infeasible
from sdpkit.errors import ConvergenceWarning
from sdpkit.numerics import sparse_factor
from sdpkit.numerics.eigenpairs import lowest_on_centred, smallest_on_centred
from sdpkit.numerics.pattern import Pattern
from sdpkit.numerics.sparse_factor import SparseFactor
from sdpkit.program.gram import FactoredGram
from sdpkit.solution.answer import Settings, Stop
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solution.forecast import UnitCosts
from sdpkit.solvers import lowrank_newton
from sdpkit.solvers.lowrank import LOWRANK
from sdpkit.solvers.lowrank_lagrangian import LagrangianPoint
from sdpkit.solvers.lowrank_model import LowRankModel
from sdpkit.solvers.lowrank_start import cold_start, first_ranks, layout
from sdpkit.solving.choice import choose
from sdpkit.solving.registry import get_solver
from sdpkit.solving.solve import solve
from sdpkit.typing import Array

LINEAR = ("plain", "minimise", "blocks", "nonnegative", "free", "mixed")
CURVED = ("quadratic free", "quadratic nonnegative")


def roll(n: int, form: str = "inequality", **options: Any) -> MVU:
    return MVU(sdpkit.datasets.swiss_roll(n), n_neighbors=4, form=form, **options)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of any size are treated as large ones."""
    monkeypatch.setattr("sdpkit.program.block.LARGE", 1)


@pytest.fixture
def everything_is_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table of pairs has room."""
    monkeypatch.setattr("sdpkit.numerics.pattern._HEAVY", 0)
    monkeypatch.setattr(sparse_factor, "_FROM_LEFT", 0)


# -- derivatives ------------------------------------------------------------------------------


def points_of(program: Program) -> Iterator[tuple[LagrangianPoint, Array]]:
    """Points of the augmented Lagrangian, and directions that its null conditions allow."""
    model = LowRankModel.of(program)
    state = cold_start(model)
    rng = np.random.default_rng(0)
    for sigma in (state.sigma, 7 * state.sigma):
        w = np.clip(state.w * rng.uniform(0.5, 1.5, state.w.size), model.lo, model.hi)
        point = LagrangianPoint(model, state.unknown, w, sigma, state.level)
        flat = rng.standard_normal(model.flat(state.unknown).size)
        *changes, da = model.shaped(flat, state.ranks)
        allowed = [part.projected(z) for part, z in zip(model.parts, changes, strict=True)]
        yield point, model.flat([*allowed, da])


def check_derivatives(program: Program) -> None:
    """Gradient and Hessian against differences, and the Hessian's three ways against each other."""
    for point, z in points_of(program):
        model, flat, h = point.model, point.model.flat(point.unknown), 1e-6
        ahead, behind = (point.moved(model.shaped(flat + t * z, point.ranks)) for t in (h, -h))
        slope = (ahead.value - behind.value) / (2 * h)
        assert slope == pytest.approx(float(point.gradient @ z), rel=1e-5, abs=1e-6)
        turn, image = (ahead.gradient - behind.gradient) / (2 * h), point.hessian(z)
        size = float(np.abs(image).max())
        assert np.abs(turn - image).max() <= 1e-4 * size
        assert np.abs(point.dense_hessian() @ z - image).max() <= 1e-10 * size
        model.__dict__["is_graph"] = False
        assert np.abs(point.hessian(z) - image).max() <= 1e-12 * size


@pytest.mark.parametrize("form", ["equality", "inequality", "slack", "min_trace"])
def test_derivatives_on_graphs(form: str) -> None:
    check_derivatives(roll(25, form).program())


@pytest.mark.parametrize("kind", [*LINEAR, *CURVED])
def test_derivatives_in_general(kind: str, instance: Callable[[str, int], Any]) -> None:
    check_derivatives(instance(kind, 3).program())


# -- optima -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", [*LINEAR, *CURVED])
def test_random_programs(kind: str, seed: int, instance: Callable[[str, int], Any]) -> None:
    """Blocks, signs, free and nonnegative variables, quadratic penalties, costs of all kinds."""
    case = instance(kind, seed)
    solution = solve(case.program(), solver="lowrank", tol=1e-5)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(case.optimum(), rel=2e-5, abs=2e-5)


def test_strings_have_closed_forms() -> None:
    for n in (2, 3, 40):
        solution = solve(MVU(graph=sdpkit.datasets.path_graph(n)), solver="lowrank")
        assert solution.status is Status.OPTIMAL
        assert solution.objective == pytest.approx((n**3 - n) / 12, rel=1e-6)
        assert np.linalg.matrix_rank(np.asarray(solution.matrix), tol=1e-5 * n**3) == 1


@given(scale=st.floats(-6, 6), seed=st.integers(0, 1000))
@settings(max_examples=5, deadline=None)
def test_units_and_order_do_not_matter(scale: float, seed: int) -> None:
    X = sdpkit.datasets.swiss_roll(24)
    base = solve(MVU(X, n_neighbors=4, form="inequality"), solver="lowrank", tol=1e-5)
    shuffled = 10**scale * X[np.random.default_rng(seed).permutation(24)]
    moved = solve(MVU(shuffled, n_neighbors=4, form="inequality"), solver="lowrank", tol=1e-5)
    assert moved.status is Status.OPTIMAL
    assert moved.objective / 100**scale == pytest.approx(base.objective, rel=2e-5)


@pytest.mark.parametrize("penalty_basis", [None, 8])
def test_networks_with_anchors(penalty_basis: int | None) -> None:
    """The identity block is fixed, nothing is centred, residuals are penalised quadratically."""
    rng = np.random.default_rng(5)
    true, anchors = rng.random((14, 2)), np.array([[0.0, 0.0], [1.0, 0.0], [0.3, 1.0]])
    graph = sdpkit.graphs.neighborhood_graph(true, radius=0.6)
    to_anchors = np.linalg.norm(true[:, None] - anchors[None], axis=2)
    problem = Localization(graph, anchors=anchors, anchor_lengths=to_anchors, n_basis=penalty_basis)
    ours = solve(problem, solver="lowrank", tol=1e-5)
    theirs = solve(problem, solver="interior", tol=1e-6)
    assert ours.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-4, abs=1e-5)
    if penalty_basis is None:
        assert np.abs(problem.recover(ours) - true).max() <= 1e-2


def test_merged_points_and_flat_cliques() -> None:
    """What `barrier` refuses: costs that are no multiple of I, null directions beside 1."""
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [2.0, 2.0]])
    problem = MVU(X, n_neighbors=3)
    ours, theirs = (solve(problem, solver=name, tol=1e-5) for name in ("lowrank", "interior"))
    assert ours.status is theirs.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, rel=2e-5)


# -- ranks ------------------------------------------------------------------------------------


def test_the_rank_grows_where_the_slack_is_negative() -> None:
    """A star of three rods lies in the plane: started on a line it must leave it."""
    star = np.zeros((4, 4))
    star[0, 1:] = star[1:, 0] = 1.0
    problem = MVU(graph=star, form="inequality")
    line = np.array([[0.0], [1.0], [-1.0], [0.5]])
    solution = solve(problem, solver="lowrank", init=line)
    assert solution.status is Status.OPTIMAL
    # Three unit vectors at 120°: the centre is the mean, tr K = 3.
    assert solution.objective == pytest.approx(3.0, rel=1e-6)
    assert [row["rank"] for row in solution.history][-1] == 2


def test_vanishing_columns_are_dropped() -> None:
    solution = solve(roll(30), solver="lowrank", tol=1e-5)
    rank = solution.history[-1]["rank"]
    assert rank < first_ranks(solution.program)[0]
    assert rank == np.linalg.matrix_rank(
        np.asarray(solution.matrix), tol=1e-9 * float(np.trace(solution.matrix))
    )


# -- starts, limits, checkpoints --------------------------------------------------------------


def test_a_warm_start_saves_steps() -> None:
    problem = roll(50)
    rough = solve(problem, solver="lowrank", tol=1e-3)
    again = solve(problem, solver="lowrank", tol=1e-5, warm_start=rough)
    fresh = solve(problem, solver="lowrank", tol=1e-5)
    assert again.status is fresh.status is Status.OPTIMAL
    assert again.iterations < fresh.iterations  # type: ignore[operator]
    other = solve(roll(20), solver="lowrank", tol=1e-4, warm_start=rough)
    assert other.status is Status.OPTIMAL


def test_other_engines_solutions_are_starts_too(everything_is_large: None) -> None:
    """An operator without a factor, and an array."""
    problem = roll(40)
    for name in ("barrier", "interior"):
        given = solve(problem, solver=name, tol=1e-3)
        solution = solve(problem, solver="lowrank", tol=1e-4, warm_start=given)
        assert solution.status is Status.OPTIMAL


def test_what_is_no_start() -> None:
    for init in (np.zeros(20), np.zeros((19, 2)), np.full((20, 2), np.nan), np.zeros((20, 0))):
        with pytest.raises(sdpkit.InputError, match="init has shapes"):
            solve(roll(20), solver="lowrank", init=init)
    with pytest.raises(sdpkit.InputError, match="no option 'speed'"):
        solve(roll(20), solver="lowrank", speed=11)


def test_an_interruption_returns_the_best_point() -> None:
    def stop(row: Mapping[str, float]) -> None:
        if row["gap"] < 1e-2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        solution = solve(roll(40), solver="lowrank", callback=stop)
    assert solution.status is Status.INTERRUPTED
    assert solution.certificate.relative_gap < 0.5
    assert solution.certificate.dual_residual < 1.0


@pytest.mark.usefixtures("everything_is_large")
def test_no_time_at_all() -> None:
    with pytest.warns(ConvergenceWarning, match="time limit"):
        solution = solve(roll(40), solver="lowrank", time_limit=1e-9)
    assert solution.status is Status.TIME_LIMIT
    assert isinstance(solution.matrix, FactoredGram)
    assert np.isfinite(solution.certificate.safe_bound)


def test_killed_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run leaves behind is where the next one goes on: it ends alike, after fewer steps."""
    monkeypatch.setattr("sdpkit.solution.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("sdpkit.solution.checkpoint.Checkpoint.is_due", True)
    problem, file = roll(40).program(), tmp_path / "run.npz"
    whole = solve(problem, solver="lowrank", tol=1e-5)

    def kill(row: Mapping[str, float]) -> None:
        if row["iteration"] > 0.6 * whole.iterations:  # type: ignore[operator]
            raise MemoryError

    with pytest.raises(MemoryError):
        solve(problem, solver="lowrank", tol=1e-5, checkpoint=file, callback=kill)
    left = Checkpoint(file, problem.fingerprint, "lowrank").load(layout(LowRankModel.of(problem)))
    resumed = solve(problem, solver="lowrank", tol=1e-5, checkpoint=file)
    assert resumed.status is whole.status is Status.OPTIMAL
    assert left is not None
    assert resumed.iterations - int(left["steps"]) < 0.6 * whole.iterations  # type: ignore[operator]
    assert resumed.objective == pytest.approx(whole.objective, rel=1e-5)


# -- programs without an optimum --------------------------------------------------------------


def test_infeasible_although_every_triangle_closes() -> None:
    """Three points one apart, a fourth 0.55 from each: less than the circumradius 0.577."""
    D = np.ones((4, 4)) - np.eye(4)
    D[3, :3] = D[:3, 3] = 0.55
    solution = solve(MVU(graph=D), solver="lowrank")
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    assert certify_infeasible(solution.program, solution.ray.multipliers).passes(1e-7)


def test_rows_that_only_push_have_no_largest_trace() -> None:
    graph = roll(12).neighborhood
    block = Block.of(12, graph.incidence(), cost=Cost.of(12, identity=1.0), null=np.ones(12))
    least = Program.of(block, graph.squared_lengths, relations=">=", sense="min")
    ours, theirs = (solve(least, solver=name, tol=1e-5) for name in ("lowrank", "interior"))
    assert ours.status is theirs.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, rel=2e-5)
    most = Program.of(block, graph.squared_lengths, relations=">=")
    assert solve(most, solver="lowrank").status is Status.UNBOUNDED


def test_growth_without_bound_is_noticed() -> None:
    """No graph, no recogniser: max M₁₁ + M₂₂ with only M₁₁ limited."""
    block = Block.of(2, np.array([[1.0, 0.0]]), cost=Cost.of(2, identity=1.0))
    program = Program.of(block, [1.0], relations="<=")
    answer = get_solver("lowrank").solve(program, Settings())
    assert answer.stop is Stop.CLAIMS_UNBOUNDED
    assert solve(program, solver="lowrank").status is Status.UNBOUNDED


# -- large and heavy graphs -------------------------------------------------------------------


@pytest.mark.usefixtures("everything_is_large")
def test_a_factor_goes_all_the_way(tmp_path: Path) -> None:
    """Certificate, proof, embedding, quality, extension and picture of a factor instead of K."""
    X = sdpkit.datasets.swiss_roll(60)
    problem = MVU(X, n_neighbors=5, form="inequality")
    solution = solve(problem, solver="lowrank", tol=1e-4)
    exact = solve(problem, solver="interior", tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert isinstance(solution.matrix, FactoredGram)
    assert np.abs(solution.matrix.factor.mean(axis=0)).max() <= 1e-9
    assert solution.objective == pytest.approx(exact.objective, rel=1e-4)
    again = certify(solution.program, solution.matrices, solution.x, solution.dual)
    assert again.relative_gap == solution.certificate.relative_gap
    proof = solution.certificate.verify()
    assert proof.bound == pytest.approx(solution.certificate.safe_bound, rel=1e-6)
    embedding = problem.recover(solution, n_components=2)
    other = problem.recover(exact, n_components=2)
    assert embedding.coordinates == pytest.approx(other.coordinates, abs=1e-2 * np.abs(X).max())
    assert embedding.fidelity == pytest.approx(other.fidelity, abs=1e-3)
    ours, theirs = (sdpkit.quality.evaluate(X, e.coordinates) for e in (embedding, other))
    assert ours.local_trust == pytest.approx(theirs.local_trust, abs=0.02)
    new = X[:3] + 1e-3
    apart = np.abs(np.asarray(embedding.extend(new)) - np.asarray(other.extend(new)))
    assert apart.max() <= 1e-2 * np.abs(X).max()
    from sdpkit.plotting import plot_unfolding

    plot_unfolding(X, embedding, tmp_path / "roll.png", color=X[:, 0], title="roll")
    assert (tmp_path / "roll.png").stat().st_size > 1000


def test_leading_eigenpairs_of_a_factor() -> None:
    rng = np.random.default_rng(0)
    gram = FactoredGram(rng.standard_normal((30, 4)))
    expected = np.linalg.eigvalsh(gram.toarray())[::-1]
    for k in (1, 4, 7, 30):
        values, vectors = gram.leading(k)
        assert values == pytest.approx(expected[:k], abs=1e-10)
        assert vectors.T @ vectors == pytest.approx(np.eye(k), abs=1e-10)
        assert gram @ vectors == pytest.approx(vectors * values, abs=1e-9)


def random_graph(seed: int, n: int, extra: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    tree = [(int(rng.integers(k)), k) for k in range(1, n)]
    more = [tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(extra)]
    return np.array(sorted({*tree, *more}), dtype=np.int64)


graphs = st.builds(random_graph, st.integers(0, 10**6), st.integers(2, 20), st.integers(0, 40))


@given(edges=graphs, seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_factors_from_the_left_are_the_same(edges: NDArray[np.int64], seed: int) -> None:
    rng = np.random.default_rng(seed)
    pattern = Pattern.of(int(edges.max()) + 1, edges)
    matrix = pattern.laplacian(rng.uniform(0.5, 2, len(edges)), rng.uniform(0.1, 1.0))
    right, left = matrix.copy(), matrix.copy()
    counts = (
        sparse_factor._factor(pattern.indptr, pattern.starts, pattern.places, right),
        sparse_factor._factor_left(pattern.indptr, pattern.rows, left),
    )
    assert counts == (0, 0)
    assert left == pytest.approx(right, rel=1e-11, abs=1e-13)
    singular = np.zeros(pattern.size)
    assert sparse_factor._factor_left(pattern.indptr, pattern.rows, singular) == -1


@given(edges=graphs, seed=st.integers(0, 10**6), power=st.integers(0, 10))
@settings(max_examples=25, deadline=None)
def test_the_error_to_expect_bounds_the_error(
    edges: NDArray[np.int64], seed: int, power: int
) -> None:
    """T − LDLᵀ in exact rational arithmetic, T of the exact sums of weights and shifts."""
    rng = np.random.default_rng(seed)
    n = int(edges.max()) + 1
    pattern = Pattern.of(n, edges)
    w, step = 10.0 ** rng.uniform(0, power, len(edges)), rng.uniform(0, 0.1, len(edges))
    factor = SparseFactor.of(pattern, pattern.laplacian(w - step, -0.1 - 0.03))
    if factor.negative < 0:
        return
    true = exact_error(factor, (w, -step), (-0.1, -0.03))
    assert true <= factor._error_to_expect((w, -step), (-0.1, -0.03))


def test_the_error_to_expect_knows_of_growth() -> None:
    """A first pivot of 1e-9 makes entries of 1e9 and errors of 1e-7, far beyond those of T."""
    pattern = Pattern.of(3, np.array([[0, 1], [1, 2]]))
    w, shift = np.array([1.1, 1.1]), -1.1 * (1 - 1e-9)
    factor = SparseFactor.of(pattern, pattern.laplacian(w, shift))
    true = exact_error(factor, (w,), (shift,))
    assert factor.growth > 1e8
    assert 1e-12 < true <= factor._error_to_expect((w,), (shift,)) < 1e-4


def exact_error(
    factor: SparseFactor, weights: tuple[Array, ...], shifts: tuple[float, ...]
) -> float:
    """‖L(Σ weights) + Σ shifts · I − LDLᵀ‖, the difference in rational arithmetic."""
    pattern, n = factor.pattern, factor.pattern.n
    exact = [[Fraction(0)] * n for _ in range(n)]
    for e, (i, j) in enumerate(pattern.ends.tolist()):
        total = sum((Fraction(float(part[e])) for part in weights), Fraction(0))
        for r, c, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            exact[r][c] += sign * total
    for k in range(n):
        exact[k][k] += sum((Fraction(shift) for shift in shifts), Fraction(0))
        column = {k: Fraction(1)}
        for p in range(pattern.indptr[k], pattern.indptr[k + 1]):
            column[int(pattern.rows[p])] = Fraction(float(factor.values[n + p]))
        for r, a in column.items():
            for c, b in column.items():
                exact[r][c] -= a * b * Fraction(float(factor.values[k]))
    return float(np.linalg.norm(np.array([[float(x) for x in row] for row in exact]), 2))


@pytest.mark.usefixtures("everything_is_large", "everything_is_heavy")
def test_heavy_graphs_are_certified_without_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*arguments: object) -> None:
        raise AssertionError("a table of pairs was made")

    problem = roll(40)
    exact = solve(problem, solver="interior", tol=1e-6)
    monkeypatch.setattr("sdpkit.numerics.pattern._pair_places", forbidden)
    monkeypatch.setattr(lowrank_newton, "DENSE_UNKNOWNS", 0)  # degrees precondition
    solution = solve(problem, solver="lowrank", tol=1e-4)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(exact.objective, rel=2e-4)
    assert bool(solution.certificate.verify())


@pytest.mark.parametrize("heavy", [False, True])
def test_lowest_eigenvalues_are_bounded_from_below(
    heavy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if heavy:
        monkeypatch.setattr("sdpkit.numerics.pattern._HEAVY", 0)
    rng = np.random.default_rng(1)
    for n in (3, 50, 120):
        edges = random_graph(n, n, 2 * n)
        pattern = Pattern.of(n, edges)
        basis = np.linalg.qr(np.c_[np.ones(n), np.eye(n)[:, 1:]])[0][:, 1:]
        for w in (rng.uniform(0.1, 2, len(edges)), rng.standard_normal(len(edges))):
            for cost in (1.0, 0.0, -1.0):
                L = np.zeros((n, n))
                for (i, j), a in zip(edges, w, strict=True):
                    L[[i, j], [i, j]] += a
                    L[[i, j], [j, i]] -= a
                true = np.linalg.eigvalsh(basis.T @ L @ basis) - cost
                k = min(4, n - 1)
                values, vectors = lowest_on_centred(pattern, w, cost, k)
                assert values == pytest.approx(true[:k], abs=1e-6)
                residual = L @ vectors - vectors * (values + cost)
                assert np.abs(residual).max() <= 1e-5
                bound = smallest_on_centred(pattern, w, cost)
                assert bound <= true[0]
                assert bound == pytest.approx(true[0], rel=1e-5, abs=1e-5)


# -- the rule ---------------------------------------------------------------------------------


def test_auto_takes_it_where_factors_fill_in(monkeypatch: pytest.MonkeyPatch) -> None:
    large, rigid = roll(1600).program(), roll(1600, "equality").program()
    assert choose(large)[0].name == "barrier"
    assert choose(roll(20).program())[0].name == "interior"
    units = LOWRANK.costs.units
    cheaper = UnitCosts((*units[:3], units[3] / 20, units[4]))
    monkeypatch.setattr(LOWRANK.__class__, "costs", cheaper)
    solver, reason = choose(large)
    assert solver.name == "lowrank"
    assert re.match(r"auto: lowrank, about [\d.]+ s; next barrier, about ", reason)
    assert choose(rigid)[0].name == "barrier"
    for dense in ("barrier", "interior"):
        monkeypatch.setattr(get_solver(dense).__class__, "memory", lambda *_: np.inf)
    solver, reason = choose(rigid)
    assert solver.name == "lowrank"
    assert "; too little memory for barrier, " in reason
    assert "; not suited: ascent, covering, " in reason


def test_memory_follows_the_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full table of pairs counts against `barrier`, and low rank against nobody."""
    monkeypatch.setattr("sdpkit.program.block.LARGE", 100)
    rng = np.random.default_rng(0)
    wide = MVU(rng.standard_normal((400, 30)), n_neighbors=6, form="inequality").program()
    flat = MVU(rng.standard_normal((400, 2)), n_neighbors=6, form="inequality").program()
    assert wide.blocks[0].pattern.pairs > 20 * flat.blocks[0].pattern.pairs
    barrier = get_solver("barrier")
    assert barrier.memory(wide) > barrier.memory(flat) + 3.5 * wide.blocks[0].pattern.pairs


def test_the_table_of_digits_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    from bench import digits

    digits.unfold("noise", np.random.default_rng(0).standard_normal((40, 6)), peers=True)
    printed = capsys.readouterr().out
    assert printed.count("optimal") == 4
    assert "entries a column" in printed
    with pytest.raises(sdpkit.InputError, match=r"usps\.npz is missing"):
        digits.graphs(Path("nowhere"))


@pytest.mark.slow
def test_high_dimension_at_two_thousand() -> None:
    X = np.random.default_rng(0).standard_normal((2000, 10))
    problem = MVU(X, n_neighbors=5, form="inequality")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        solution = solve(problem, tol=1e-3)
    assert solution.solver == "lowrank"
    assert bool(solution.certificate.verify())


def test_one_of_several_variables_at_the_same_price_takes_up_a_row() -> None:
    """max x₁ + x₂ + M/2, M + x₁ + x₂ = 3."""
    program = Program.of(
        Block.of(1, [[1.0]], cost=Cost.of(1, identity=0.5)),
        [3.0],
        rows_x=[[1.0, 1.0]],
        cost_x=[1.0, 1.0],
    )
    solution = solve(program, solver="lowrank")
    assert solution.status is Status.OPTIMAL
    assert solution.x.sum() == pytest.approx(3.0, rel=1e-6)


def test_a_large_free_variable_is_not_taken_for_one_without_bound() -> None:
    """max M, M ≤ 1, M = x/10000: the square of x is no trace."""
    program = Program.of(
        Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0)),
        [1.0, 0.0],
        rows_q=[[1.0], [1.0]],
        rows_x=[[0.0], [-1e-4]],
        relations=["<=", "=="],
        free_x=[True],
    )
    solution = solve(program, solver="lowrank")
    assert solution.status is Status.OPTIMAL
    assert solution.x[0] == pytest.approx(1e4, rel=1e-5)


@pytest.mark.parametrize("run", [166, 178, 298, 342])
def test_a_point_that_the_certificate_refuses_is_improved(run: int) -> None:
    """Rows of very different size: the gap and residual of the engine were met too soon."""
    planted = solvable(np.random.default_rng([7, run]))
    solution = solve(planted.program, solver="lowrank")
    assert solution.status is Status.OPTIMAL
    assert planted.optimum is not None
    assert solution.objective == pytest.approx(float(planted.optimum), rel=2e-6)
