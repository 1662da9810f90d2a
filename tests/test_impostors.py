"""One suite for the engines of families of comparisons, and their certificate."""

from __future__ import annotations

import functools
import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

import sdpkit
from sdpkit import LMNN, InputError, Solution, SolverError, Status
from sdpkit.certificate.certify import certify
from sdpkit.errors import ConvergenceWarning
from sdpkit.numerics.deadline import Deadline
from sdpkit.program.cost import Cost
from sdpkit.program.families import Rows, values
from sdpkit.results.metric import factor
from sdpkit.solution.answer import Settings, Stop
from sdpkit.solving.registry import get_solver, known_solvers

USABLE = [name for name in known_solvers() if get_solver(name).unavailable() is None]
FAMILY = [name for name in USABLE if get_solver(name).capabilities.families]
DATA = {"iris": load_iris, "wine": load_wine}
# Optimal values, certified to 1e-7.
KNOWN = {"iris": 226.75779, "wine": 258.371835}
every_engine = pytest.mark.parametrize("name", FAMILY)


@functools.cache
def problem(data: str = "iris", step: int = 1) -> LMNN:
    X, y = DATA[data](return_X_y=True)
    return LMNN(X[::step], y[::step])


def quietly(*args: Any, **more: Any) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return sdpkit.solve(*args, **more)


@functools.cache
def solved(data: str, name: str, tol: float) -> Solution:
    return sdpkit.solve(problem(data), solver=name, tol=tol)


def check(solution: Solution, lmnn: LMNN) -> None:
    """The certificate holds whatever the status: recomputed, and against the problem itself."""
    again = certify(solution.program, solution.matrices, solution.x, solution.dual, solution.rows)
    assert again.objective == solution.objective == solution.certificate.objective
    assert again.safe_bound == solution.certificate.safe_bound
    assert again.relative_gap == solution.certificate.relative_gap
    value = lmnn.objective(lmnn.recover(solution))
    assert value == pytest.approx(solution.objective, rel=1e-9, abs=1e-9)
    assert solution.certificate.safe_bound <= value * (1 + 1e-12)
    assert solution.native_status.strip()
    assert solution.times.solve > 0


# -- conformance ----------------------------------------------------------------------------


def test_who_takes_part() -> None:
    assert {"factored", "projected", "subgradient"} <= set(FAMILY)
    reason = sdpkit.solve(problem("iris", 3)).reason
    assert re.match(r"auto: factored, about [0-9.]+ s; next projected", reason)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", ["factored", "projected", "interior"])
def test_agreement_to_five_digits(data: str, name: str) -> None:
    solution = solved(data, name, 1e-5)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.relative_gap <= 1e-5
    assert solution.objective == pytest.approx(KNOWN[data], rel=2e-5)
    check(solution, problem(data))


@every_engine
def test_answers_are_certified(name: str) -> None:
    lmnn = problem("iris", 3)
    tol = {"subgradient": 1e-3, "subgradient-published": 0.05}.get(name, 1e-4)
    solution = sdpkit.solve(lmnn, solver=name, tol=tol)
    assert solution.status is Status.OPTIMAL
    check(solution, lmnn)
    verified = solution.certificate.verify()
    assert verified
    assert verified.bound == pytest.approx(solution.certificate.safe_bound, rel=1e-3)
    assert verified.bound <= solution.objective


@pytest.mark.parametrize("metrics", ["per_class", 2])
def test_several_metrics_agree(metrics: Any) -> None:
    X, y = load_iris(return_X_y=True)
    lmnn = LMNN(X[::3], y[::3], metrics=metrics)
    solutions = [sdpkit.solve(lmnn, solver=name, tol=1e-4) for name in ("factored", "interior")]
    for solution in solutions:
        assert solution.status is Status.OPTIMAL
        check(solution, lmnn)
    assert solutions[0].objective == pytest.approx(solutions[1].objective, rel=2e-4)


@every_engine
def test_two_runs_are_the_same_bits(name: str) -> None:
    one, two = (quietly(problem("iris", 3), solver=name, max_iter=40) for _ in range(2))
    assert one.objective == two.objective
    for a, b in zip(one.matrices, two.matrices, strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(one.dual, two.dual)


@every_engine
def test_iteration_limit(name: str) -> None:
    lmnn = problem("iris", 3)
    for limit in (1, 7, 25):
        solution = quietly(lmnn, solver=name, tol=1e-9, max_iter=limit)
        assert solution.status is Status.ITERATION_LIMIT
        assert solution.iterations == limit
        check(solution, lmnn)
    assert solution.certificate.safe_bound > 0


@every_engine
def test_time_limit(name: str) -> None:
    """The first look is later than the limit, however fast or busy the machine is."""
    lmnn = problem("iris", 3)
    solution = quietly(
        lmnn, solver=name, tol=1e-12, time_limit=0.05, callback=lambda row: time.sleep(0.06)
    )
    assert solution.status is Status.TIME_LIMIT
    check(solution, lmnn)


@every_engine
def test_callback(name: str) -> None:
    lmnn = problem("iris", 3)
    seen: list[Mapping[str, Any]] = []

    def stop(state: Mapping[str, Any]) -> bool:
        seen.append(state)
        return len(seen) == 3

    solution = quietly(lmnn, solver=name, tol=1e-9, callback=stop)
    assert solution.status is Status.INTERRUPTED
    assert len(seen) == 3 == len(solution.history)
    check(solution, lmnn)
    shapes = [m.shape for m in solution.matrices]
    assert [m.shape for m in seen[-1]["matrices"]] == shapes
    # Anything but True goes on.
    patient = quietly(lmnn, solver=name, tol=1e-9, max_iter=30, callback=lambda state: 1)
    assert patient.status is Status.ITERATION_LIMIT


@every_engine
def test_keyboard_interrupt_returns_the_best_so_far(name: str) -> None:
    lmnn, calls = problem("iris", 3), []

    def interrupt(state: Mapping[str, Any]) -> None:
        calls.append(state["objective"])
        if len(calls) == 3:
            raise KeyboardInterrupt

    solution = quietly(lmnn, solver=name, tol=1e-9, callback=interrupt)
    assert solution.status is Status.INTERRUPTED
    check(solution, lmnn)
    assert solution.objective <= calls[0] * (1 + 1e-9)


@every_engine
def test_errors_of_a_callback_are_the_callers(name: str) -> None:
    def fail(state: Mapping[str, Any]) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        sdpkit.solve(problem("iris", 3), solver=name, callback=fail)


@every_engine
def test_unknown_options_are_refused(name: str) -> None:
    with pytest.raises(sdpkit.InputError, match=rf"solver '{name}' has no option 'colour'"):
        sdpkit.solve(problem("iris", 3), solver=name, colour="blue")


@every_engine
def test_programs_of_rows_are_refused(name: str) -> None:
    with pytest.raises(SolverError, match="only solves programs with a family of comparisons"):
        sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)), solver=name)


@pytest.mark.parametrize("name", ["factored", "projected"])
def test_warm_start_saves_steps(name: str) -> None:
    cold = solved("iris", name, 1e-5)
    warm = sdpkit.solve(problem(), solver=name, tol=1e-4, warm_start=cold)
    again = sdpkit.solve(problem(), solver=name, tol=1e-4)
    assert warm.status is again.status is Status.OPTIMAL
    assert warm.iterations < again.iterations
    # A solution of another shape is no start, and no error.
    other = sdpkit.solve(problem("wine"), solver=name, warm_start=cold)
    assert other.status is Status.OPTIMAL


# -- limits on the rank ---------------------------------------------------------------------


def test_a_rectangular_factor_ends_stationary() -> None:
    X, y = load_wine(return_X_y=True)
    lmnn = LMNN(X, y, n_components=2)
    solution = sdpkit.solve(lmnn)
    assert solution.status is Status.STATIONARY
    assert "local solution of the given rank" in solution.message
    metric = lmnn.recover(solution)
    assert metric.components[0].shape[0] <= 2
    assert lmnn.objective(metric) == pytest.approx(solution.objective, rel=1e-9)
    # It is better than the longest rows of the metric of every rank, no better than that metric.
    full = problem("wine")
    best = full.recover(solved("wine", "factored", 1e-5))
    assert solution.objective < full.objective(factor(best.matrix, 2))
    assert solution.objective >= solved("wine", "factored", 1e-5).certificate.safe_bound


def test_a_rank_that_suffices_is_proved_optimal() -> None:
    X, y = load_iris(return_X_y=True)
    solution = sdpkit.solve(LMNN(X[::3], y[::3], n_components=4))
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("name", [n for n in USABLE if n != "factored"])
def test_other_solvers_refuse_a_rank(name: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(SolverError, match=r"(cannot|only) .*; .*\. Use solver='factored'"):
        sdpkit.solve(LMNN(X[::3], y[::3], n_components=2), solver=name)


def test_certificate_sees_a_rank_that_is_too_large() -> None:
    solution = solved("iris", "factored", 1e-5)
    block = replace(solution.program.blocks[0], max_rank=2)
    limited = replace(solution.program, blocks=(block,))
    judged = certify(limited, solution.matrices, dual=solution.dual, rows=solution.rows)
    assert any("primal residual" in words for words in judged.failures(1e-3))


# -- the subgradient method as published ----------------------------------------------------


def test_the_published_method_keeps_to_algorithm_3(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdpkit.program.impostors import Impostors
    from sdpkit.solvers.algorithm_3 import ProjectedSubgradients

    looks, values = [], []
    near, evaluate = Impostors.near, ProjectedSubgradients._evaluate

    def counted(self: Impostors, outputs: Any, slack: float) -> Rows:
        if np.isfinite(slack):  # the scale of the start takes all rows of a part
            looks.append(len(values))
        return near(self, outputs, slack)

    def recorded(self: ProjectedSubgradients, outputs: Any) -> None:
        evaluate(self, outputs)
        values.append(self.value)

    monkeypatch.setattr(Impostors, "near", counted)
    monkeypatch.setattr(ProjectedSubgradients, "_evaluate", recorded)
    lmnn = problem("iris", 3)
    solution = quietly(lmnn, solver="subgradient-published", tol=1e-9, max_iter=45)
    assert looks == [0, 10, 20, 30, 40, 45]
    assert [row["iteration"] for row in solution.history] == [0, 10, 20, 30, 40, 45]
    # The step: 1 % more after a decrease, half after an increase.
    steps = [row["step"] for row in solution.history]
    expected, logs = np.cumsum([0, *np.where(np.diff(values) <= 0, np.log(1.01), np.log(0.5))]), []
    for row in solution.history:
        logs.append(expected[int(row["iteration"])])
    assert np.allclose(np.diff(np.log(steps)), np.diff(logs), atol=1e-9)
    bounds = [row["bound"] for row in solution.history]
    assert bounds == sorted(bounds)
    best = solved_small().objective
    assert max(bounds) <= best <= min(row["objective"] for row in solution.history)
    check(solution, lmnn)


@functools.cache
def solved_small() -> Solution:
    return sdpkit.solve(problem("iris", 3), solver="factored", tol=1e-7)


@pytest.mark.slow
def test_the_published_method_converges() -> None:
    lmnn = problem("iris", 3)
    solution = quietly(lmnn, solver="subgradient-published", tol=1e-3, max_iter=20000)
    assert solution.certificate.relative_gap < 3e-3


# -- the subgradient method with steps from the bound ---------------------------------------


@pytest.mark.parametrize("data", DATA)
def test_subgradients_certify_two_digits_in_few_steps(data: str) -> None:
    lmnn = problem(data)
    solution = sdpkit.solve(lmnn, solver="subgradient", tol=1e-2, max_iter=400)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.safe_bound <= KNOWN[data] <= solution.objective
    check(solution, lmnn)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "metrics"), [(1257, "single"), (300, "per_class")])
def test_subgradients_certify_two_digits_on_digits(n: int, metrics: Any) -> None:
    X, y = load_digits(return_X_y=True)
    lmnn = LMNN(X[:n], y[:n], metrics=metrics)
    solution = sdpkit.solve(lmnn, solver="subgradient", tol=1e-2)
    assert solution.status is Status.OPTIMAL
    check(solution, lmnn)


def test_a_program_in_other_coordinates_takes_the_same_steps() -> None:
    """Costs are made the identity within: no stretching of the features changes anything."""
    lmnn = problem("iris", 3)
    program = lmnn.program()
    (block,) = program.blocks
    stretch = np.diag([1.0, 30.0, 1e-3, 5.0])
    features, cost = block.features @ stretch, stretch @ block.cost.dense() @ stretch
    stretched = replace(
        program, blocks=(replace(block, features=features, cost=Cost.of(4, sparse=cost)),)
    )
    one, two = (quietly(p, solver="subgradient", tol=1e-2) for p in (program, stretched))
    assert one.status is two.status is Status.OPTIMAL
    assert one.iterations == two.iterations
    assert one.objective == pytest.approx(two.objective, rel=1e-6)


# -- the certificate ------------------------------------------------------------------------


def judged(solution: Solution, **change: Any) -> sdpkit.Certificate:
    given: dict[str, Any] = {
        "matrices": solution.matrices,
        "dual": solution.dual,
        "rows": solution.rows,
        **change,
    }
    return certify(solution.program, **given)


def test_a_good_answer_passes() -> None:
    assert judged(solved("iris", "factored", 1e-5)).passes(1e-5)


def test_bad_primals_are_refused() -> None:
    solution = solved("iris", "factored", 1e-5)
    (M,) = solution.matrices
    for times in (0.0, 0.9, 1.1, -1.0):
        assert not judged(solution, matrices=[times * M]).passes(1e-4)
    low = M - 1.01 * np.linalg.eigvalsh(M)[-1] * np.eye(4)
    assert not judged(solution, matrices=[low]).passes(1e-2)
    dent = M - (np.linalg.eigvalsh(M)[0] + 1e-2 * np.linalg.norm(M)) * np.eye(4)
    assert any("negative eigenvalue" in f for f in judged(solution, matrices=[dent]).failures(1e-3))
    skew = M + 0.1 * np.linalg.norm(M) * np.triu(np.ones((4, 4)), 1)
    assert not judged(solution, matrices=[skew]).passes(1e-3)
    for value in (np.nan, np.inf):
        assert not judged(solution, matrices=[np.where(np.eye(4) > 0, value, M)]).passes(1e300)
    for wrong in ([M[:3, :3]], [M, M], []):
        with pytest.raises(InputError, match=r"matri"):
            judged(solution, matrices=wrong)


def test_bad_duals_never_raise_the_bound() -> None:
    solution = solved("iris", "factored", 1e-5)
    best = solved("iris", "interior", 1e-5).objective
    alpha, rows = solution.dual, solution.rows
    assert alpha is not None
    assert rows is not None
    weight = solution.program.family.weight
    rng = np.random.default_rng(0)
    for wrong in (
        2 * alpha,
        1e9 * alpha,
        alpha + 1.0,
        -alpha,
        np.full_like(alpha, weight),
        rng.uniform(-1, 2, alpha.size),
        alpha[::-1].copy(),
    ):
        assert judged(solution, dual=wrong).safe_bound <= best
    outside = judged(solution, dual=np.where(alpha == alpha.max(), 10 * weight, alpha))
    assert any("dual residual" in words for words in outside.failures(1e-3))
    for value in (np.nan, np.inf, -np.inf):
        assert judged(solution, dual=np.where(alpha > 0, value, alpha)).safe_bound == -np.inf
    for change in ({"dual": None}, {"rows": None}):
        none = judged(solution, **change)
        assert none.relative_gap == np.inf
        assert not none.verify()
    with pytest.raises(InputError, match="dual has shape"):
        judged(solution, dual=alpha[1:])


def test_fewer_rows_bound_from_below() -> None:
    solution = solved("iris", "factored", 1e-5)
    alpha, rows = solution.dual, solution.rows
    assert rows is not None
    for share in (0.0, 0.3, 0.9):
        mask = np.random.default_rng(1).random(rows.size) < share
        part = judged(solution, dual=alpha[mask], rows=rows[mask])
        assert 0 <= part.safe_bound < solution.certificate.safe_bound
        verified = part.verify()
        assert verified.bound is None or verified.bound <= solution.objective


def test_rows_that_are_not_the_familys_count_for_nothing() -> None:
    """Twice the same row, a point of the same class, numbers beyond the last and below 0."""
    solution = solved("iris", "factored", 1e-5)
    alpha, rows = solution.dual, solution.rows
    assert alpha is not None
    assert rows is not None
    family = solution.program.family
    terms, p = family.terms(rows), len(family.target_pairs)
    anchor = terms.pushes[terms.push, 0]
    twice = np.repeat(rows, 2)
    same = (anchor * family.n_points + anchor) * p + terms.pull
    beyond = rows + family.n_points**2 * p
    other_anchor = rows + family.n_points * p
    for wrong in (twice, same, beyond, other_anchor, -rows - 1, rows.astype(float)):
        dual = np.resize(alpha, wrong.size)
        refused = judged(solution, rows=wrong, dual=dual)
        assert refused.safe_bound == -np.inf
        assert "do not belong to comparisons" in refused.bound_source
        assert not refused.passes(1e300)
        assert not refused.verify()


def test_a_lying_solver_is_not_believed() -> None:
    """All triplets at the full price would be twice the optimum."""
    solution = solved("iris", "factored", 1e-5)
    program = solution.program
    rows = program.family.everything()
    full = np.full(rows.size, program.family.weight)
    zero = [np.zeros((4, 4))]
    liar = certify(program, zero, dual=full, rows=rows)
    assert liar.objective == pytest.approx(full.sum())
    assert liar.dual_objective == pytest.approx(full.sum())
    assert liar.safe_bound <= solution.objective
    assert not liar.passes(0.1)


def test_verify_proves_the_bound_of_several_metrics() -> None:
    X, y = load_iris(return_X_y=True)
    solution = sdpkit.solve(LMNN(X[::3], y[::3], metrics="per_class"))
    verified = solution.certificate.verify()
    assert verified
    assert verified.bound <= solution.objective
    assert verified.bound == pytest.approx(solution.certificate.safe_bound, rel=1e-3)


# -- rows written in rounds -----------------------------------------------------------------


def test_row_generation_writes_a_part_only() -> None:
    solution = solved("iris", "interior", 1e-5)
    (note,) = [note for note in solution.notes if "comparisons written" in note]
    written, total = int(note.split()[0]), int(note.split()[2])
    assert total == solution.program.family.n_rows
    assert written < total / 4
    # What was not written is not violated by more than a tenth of the gap.
    family = solution.program.family
    outputs = solution.program.outputs(solution.matrices)
    part = np.maximum(values(family, family.terms(solution.rows), outputs), 0.0).sum()
    missing = family.weight * (family.hinge_sum(outputs) - part)
    assert missing <= 0.1 * 1e-5 * solution.objective * (1 + 1e-6)


def test_row_generation_keeps_to_limits() -> None:
    lmnn = problem("iris", 3)
    for limits in ({"max_iter": 2}, {"time_limit": 1e-3}):
        solution = quietly(lmnn, solver="interior", tol=1e-8, **limits)
        assert solution.status in (Status.ITERATION_LIMIT, Status.TIME_LIMIT)
        check(solution, lmnn)


# -- limits ---------------------------------------------------------------------------------


@every_engine
def test_a_search_of_all_comparisons_ends_at_the_time_limit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search of many seconds, made of many short pieces, is left soon after the limit."""
    from sdpkit.program import tiles
    from sdpkit.solvers import algorithm_3, hinge_program

    X, y = load_digits(return_X_y=True)
    program, solver = LMNN(X[:600], y[:600]).program(), get_solver(name)
    solver.solve(program, Settings(max_iter=1))  # compiles kernels

    def slowed(kernel: Any) -> Any:
        def run(*arguments: Any) -> Any:
            time.sleep(0.05)
            return kernel(*arguments)

        return run

    slow = {dtype: slowed(kernel) for dtype, kernel in tiles._TILE_PAIRS.items()}
    monkeypatch.setattr(tiles, "_TILE_PAIRS", slow)
    monkeypatch.setattr(tiles, "_UNCOMPILED_POINTS", 0)
    monkeypatch.setattr(tiles, "TILE_ENTRIES", 2**10)  # at least 150 tiles
    monkeypatch.setattr(tiles, "TILE_COLUMNS", 2**6)
    for module in (algorithm_3, hinge_program):
        monkeypatch.setattr(module, "best_scale", lambda *_: 1.0)
    began = time.perf_counter()
    answer = solver.solve(program, Settings(tol=1e-9, deadline=Deadline.after(0.3)))
    assert time.perf_counter() - began < 3.0
    assert answer.stop is Stop.TIME_LIMIT
    assert all(np.isfinite(matrix).all() for matrix in answer.matrices)
