"""`solve`: what it is asked, what it believes, what it grants."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sdpkit
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.comparison.suites import find
from sdpkit.errors import (
    ConvergenceWarning,
    InputError,
    NotEnoughMemoryError,
    OutOfMemoryError,
    SolverError,
    SolverUnavailableError,
)
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram
from sdpkit.program.safe import NormPenalty
from sdpkit.program.sdpa import read_sdpa, write_sdpa
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solution import Status
from sdpkit.solution.solver import Capabilities
from sdpkit.solving import choice, registry
from sdpkit.solving.auxiliary import elastic, recession
from sdpkit.solving.candidate import repair_primal
from sdpkit.solving.registry import get_solver
from sdpkit.solving.solve import solve
from sdpkit.typing import Array

SOLVERS = ("clarabel", "csdp", "cvxopt", "dsdp", "scs", "sdpa")
LIMITED = ("clarabel", "csdp", "dsdp", "scs", "sdpa")


def cycle(n: int = 6, **more: Any) -> sdpkit.MVU:
    """Its optimum is n/(4 sin²(π/n)): 6 for n = 6."""
    return sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(n), **more)


def by_hand(pairs: list[tuple[int, int]], d: list[float], n: int) -> Program:
    rows = np.zeros((len(pairs), n))
    for e, (i, j) in enumerate(pairs):
        rows[e, i], rows[e, j] = 1.0, -1.0
    block = Block.of(n, rows, cost=Cost.of(n, identity=1.0), null=np.ones(n))
    return Program.of(block, d)


class Fake:
    """A solver that returns what it was told to return."""

    capabilities = Capabilities()

    def __init__(self, answer: Any, name: str = "fake", **attributes: Any) -> None:
        self.name, self.answer, self.seen = name, answer, []
        for attribute, value in attributes.items():
            setattr(self, attribute, value)

    def unavailable(self) -> str | None:
        return None

    def memory(self, program: Program) -> float:
        return 0.0

    def solve(self, program: Program, settings: Settings) -> Any:
        self.seen.append((program, settings))
        return self.answer(program) if callable(self.answer) else self.answer


@pytest.fixture
def register() -> Iterator[Callable[..., Fake]]:
    """Register a fake for one test only."""
    with ExitStack() as stack:

        def enrol(answer: Any, **attributes: Any) -> Fake:
            solver = Fake(answer, **attributes)
            stack.enter_context(registry.registered(solver))
            return solver

        yield enrol


# -- arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("tol", 0),
        ("tol", -1e-6),
        ("tol", np.nan),
        ("tol", True),
        ("tol", "1e-6"),
        ("max_iter", 0),
        ("max_iter", -3),
        ("max_iter", 0.5),
        ("time_limit", 0),
        ("time_limit", -1.0),
        ("time_limit", np.nan),
    ],
)
def test_bad_limits_are_named(argument: str, value: Any) -> None:
    with pytest.raises(InputError, match=argument):
        solve(cycle(), solver="clarabel", **{argument: value})


def test_an_unknown_solver_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="no solver 'gurobi'") as caught:
        solve(cycle(), solver="gurobi")
    for name in ("clarabel", "csdp", "scs", "cvxopt", "'auto'"):
        assert name in str(caught.value)


def test_an_unavailable_solver_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SolverUnavailableError, match=r"'csdp' on the PATH.*coinor-csdp"):
        solve(cycle(), solver="csdp")
    assert "csdp" not in sdpkit.available_solvers()
    assert "no 'csdp' on the PATH" in sdpkit.solver_table()


def test_a_missing_package_is_named(register: Callable[..., Fake]) -> None:
    solver = register(None, unavailable=lambda: "Python package 'nowhere' is not installed")
    with pytest.raises(SolverUnavailableError, match="nowhere"):
        solve(cycle(), solver="fake")
    assert solver.seen == []


@pytest.mark.needs("csdp", "sdpa")
def test_penalties_are_refused_by_solvers_without_them() -> None:
    block, has = Block.of(1, [[1.0]]), r"penalties; this program has 1\. Use"
    more: dict[str, Any] = {"rows_x": np.ones((1, 1)), "free_x": [True]}
    curved = Program.of(block, [1.0], **more, quadratic_x=[1.0])
    with pytest.raises(
        SolverError,
        match=f"csdp' cannot take quadratic {has} solver='interior'",
    ):
        solve(curved, solver="csdp")
    normed = Program.of(block, [1.0], **more, norms=[NormPenalty(1.0, (0,))])
    with pytest.raises(
        SolverError,
        match=f"sdpa' cannot take norm {has} solver='interior' or 'clarabel'",
    ):
        solve(normed, solver="sdpa")


def test_a_solver_needs_a_name() -> None:
    with pytest.raises(InputError, match="name"):
        sdpkit.register_solver(Fake(None, name=""))


# -- memory and choice ----------------------------------------------------------------------


def large_program(n: int = 2000) -> Program:
    path = sp.diags_array([np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
    block = Block.of(n, path, cost=Cost.of(n, identity=1.0), null=np.ones(n))
    return Program.of(block, np.ones(n - 1))


def test_too_much_memory_is_refused_with_an_alternative() -> None:
    """n⁴/8 doubles for one 2000 × 2000 cone are 15 TB."""
    program = large_program()
    started = time.perf_counter()
    with pytest.raises(NotEnoughMemoryError, match=r"clarabel' would need about .* GiB") as caught:
        solve(program, solver="clarabel")
    assert time.perf_counter() - started < 5
    named = str(caught.value).split("solver='")[1].split("'")[0]
    assert named != "clarabel"
    assert choice.refusal(get_solver(named), program) is None


def test_no_memory_at_all_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "free_memory", lambda: 1.0)
    with pytest.raises(NotEnoughMemoryError, match="make the instance smaller"):
        solve(cycle(), solver="clarabel")


def test_an_allocation_that_fails_names_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    def solve_vainly(self: Any, program: Program, settings: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(type(get_solver("interior")), "solve", solve_vainly)
    with pytest.raises(OutOfMemoryError, match=r"'interior' ran out of memory; .* GiB. Use"):
        solve(cycle(), solver="interior")


def test_an_alternative_can_express_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver without quadratic penalties is no advice for a program with one."""
    program = large_program(60)
    curved = Program.of(
        program.blocks,
        program.rhs,
        rows_x=sp.csr_array((program.n_rows, 1)),
        free_x=[True],
        quadratic_x=[1.0],
    )
    monkeypatch.setattr(choice, "free_memory", lambda: 2e6)
    refused = choice.refusal(get_solver("clarabel"), curved)
    assert isinstance(refused, NotEnoughMemoryError)
    if "solver='" in str(refused):
        named = str(refused).split("solver='")[1].split("'")[0]
        assert choice.refusal(get_solver(named), curved) is None


def test_auto_says_what_it_chose_and_why() -> None:
    solution = solve(cycle())
    assert solution.solver in sdpkit.available_solvers()
    assert solution.reason.startswith("auto")
    assert solution.status == "optimal"
    assert solve(cycle(), solver="clarabel").reason == "as asked"


# -- every backend --------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("form", ["equality", "inequality", "slack", "min_trace"])
def test_every_backend_solves_every_form(
    unfoldings: dict[str, Any], solver: str, form: str
) -> None:
    case = unfoldings[form]
    solution = solve(case.problem, solver=solver)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(case.optimum, rel=2e-6)
    assert solution.certificate.passes(1e-6)
    assert solution.solver == solver
    assert np.linalg.eigvalsh(solution.matrix)[0] > -1e-9 * solution.objective
    np.testing.assert_allclose(solution.matrix.sum(axis=0), 0, atol=1e-9 * solution.objective)


@pytest.mark.parametrize("solver", SOLVERS)
def test_few_iterations_are_never_optimal(solver: str) -> None:
    problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(12), n_neighbors=4)
    with pytest.warns(ConvergenceWarning, match="tol 1e-06 was not reached"):
        solution = solve(problem, solver=solver, max_iter=2)
    assert solution.status in (Status.ITERATION_LIMIT, Status.INACCURATE)
    assert not solution.certificate.passes(1e-6)


@pytest.mark.parametrize("solver", ["clarabel", "csdp", "scs"])
def test_the_iteration_limit_is_called_by_its_name(solver: str) -> None:
    with pytest.warns(ConvergenceWarning, match="iteration_limit"):
        solution = solve(cycle(9), solver=solver, max_iter=2)
    assert solution.status is Status.ITERATION_LIMIT


@pytest.mark.parametrize("solver", LIMITED)
def test_the_time_limit_is_called_by_its_name(solver: str) -> None:
    problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(14), n_neighbors=4)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        solution = solve(problem, solver=solver, time_limit=1e-6)
    assert solution.status is Status.TIME_LIMIT


def sleep(*arguments: Any) -> Any:
    time.sleep(600)


def test_the_time_limit_covers_programs_of_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are written out part by part, and a part may take far too long."""
    monkeypatch.setattr("sdpkit.solving.run._FAR_MORE", 0.0)
    monkeypatch.setattr(type(get_solver("interior")), "solve", sleep)
    problem = find("iris").build()
    with pytest.warns(ConvergenceWarning, match="interior was stopped at the time limit"):
        assert solve(problem, solver="interior", time_limit=0.5).status is Status.TIME_LIMIT


def test_a_round_without_an_answer_leaves_that_of_the_round_before() -> None:
    """The point and the multipliers of a part are a point and a bound of the whole."""
    from sdpkit.solving.generation import by_rows

    program = find("iris").build().program()
    solver, answers = get_solver("interior"), list[Answer]()

    def ask(part: Program, solver: Any, settings: Settings) -> Answer:
        late = Answer(Stop.TIME_LIMIT, "was stopped")
        answers.append(late if answers else solver.solve(part, settings))
        return answers[-1]

    found = by_rows(program, solver, Settings(1e-6), ask)
    assert len(answers) == 2
    assert (found.stop, found.native_status) == (Stop.TIME_LIMIT, "was stopped")
    assert found.matrices is not None
    assert found.rows is not None
    assert answers[0].dual is not None
    assert found.rows.size == answers[0].dual.size


@pytest.mark.needs("csdp")
def test_the_time_limit_covers_the_writing_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdpkit.solvers.sdpa_program._MANY_ENTRIES", 1.0)
    monkeypatch.setattr("sdpkit.solvers.sdpa_program.write_sdpa", sleep)
    with pytest.warns(ConvergenceWarning, match="writing its input file was stopped at the time"):
        assert solve(cycle(), solver="csdp", time_limit=0.5).status is Status.TIME_LIMIT


def test_a_solver_without_a_clock_is_stopped_at_its_limit() -> None:
    """CVXOPT looks at no clock; what is known by then is zero and the bound of the problem."""
    with pytest.warns(ConvergenceWarning, match="cvxopt was stopped at the time limit"):
        solution = solve(cycle(), solver="cvxopt", time_limit=1e-6)
    assert solution.status == "time_limit"
    assert solution.objective == 0.0
    assert solution.certificate.safe_bound >= solve(cycle()).objective
    assert "the limit came before the first point" in solution.notes[-1]
    assert cycle().recover(solution).coordinates.shape[0] == 6


@pytest.mark.parametrize("solver", SOLVERS)
def test_infeasible_lengths_come_with_a_verified_ray(solver: str) -> None:
    problem = sdpkit.MVU(graph=[[0, 1, 1], [1, 0, 3], [1, 3, 0]])
    solution = solve(problem, solver=solver)
    assert solution.status is Status.INFEASIBLE
    assert certify_infeasible(solution.program, solution.ray.multipliers).passes(1e-7)
    direction = solution.ray.multipliers / np.abs(solution.ray.multipliers).max()
    expected = np.where(solution.program.rhs > 2, -0.5, 1.0)
    assert direction @ expected > 0


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_disconnected_graph_is_unbounded(solver: str) -> None:
    program = by_hand([(0, 1), (2, 3)], [1.0, 1.0], 4)
    solution = solve(program, solver=solver)
    assert solution.status is Status.UNBOUNDED
    ray = solution.ray.matrices[0]
    u = np.array([1.0, 1.0, -1.0, -1.0]) / 2
    np.testing.assert_allclose(ray / np.trace(ray), np.outer(u, u), atol=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("free", [False, True])
def test_a_variable_without_a_limit_is_unbounded(solver: str, free: bool) -> None:
    program = Program.of(
        Block.of(1, [[1.0]]),
        [1.0],
        rows_x=sp.csr_array((1, 1)),
        cost_x=[1.0],
        free_x=[free],
    )
    assert solve(program, solver=solver).status is Status.UNBOUNDED


@pytest.mark.parametrize("solver", SOLVERS)
def test_infeasible_comes_before_unbounded(solver: str) -> None:
    """An impossible triangle beside a loose pair: there is a ray, and nothing to add it to."""
    program = by_hand([(0, 1), (0, 2), (1, 2), (3, 4)], [1.0, 1.0, 9.0, 1.0], 5)
    assert solve(program, solver=solver).status is Status.INFEASIBLE


def test_a_weak_repair_is_improved_by_a_margin(
    instance: Callable[[str, int], Any], tmp_path: Path
) -> None:
    """The solver is exact, the repaired bound is not: asking again for a margin settles it."""
    case = instance("nonnegative", 11)
    write_sdpa(case.program(), tmp_path / "weak.dat-s")
    solution = solve(read_sdpa(tmp_path / "weak.dat-s"), solver="clarabel")
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(case.optimum(), rel=2e-6)


def test_a_quadratic_and_a_norm_on_the_same_variable() -> None:
    """min ½x² + |x| with M + x = 3, 0 ≤ M ≤ 1: x = 2 costs 4. Solved so, or refused."""
    block = Block.of(1, [[1.0]])
    try:
        program = Program.of(
            block,
            [3.0, 1.0],
            sense="min",
            rows_q=[[1.0], [1.0]],
            rows_x=np.array([[1.0], [0.0]]),
            relations=[0, -1],
            free_x=[True],
            quadratic_x=[1.0],
            norms=[NormPenalty(1.0, (0,))],
        )
    except InputError:
        return
    solution = solve(program, solver="clarabel")
    assert solution.objective == pytest.approx(4.0, rel=1e-5)


# -- nobody is believed ---------------------------------------------------------------------


def lie(program: Program) -> Answer:
    n, m = program.blocks[0].size, program.n_rows
    rng = np.random.default_rng(0)
    K = rng.standard_normal((n, n))
    return Answer(Stop.DONE, "optimal, trust me", (K @ K.T,), np.zeros(0), rng.standard_normal(m))


def test_a_liar_is_inaccurate(register: Callable[..., Fake]) -> None:
    register(lie)
    with pytest.warns(ConvergenceWarning, match="trust me"):
        solution = solve(cycle(), solver="fake")
    assert solution.status is Status.INACCURATE
    assert solution.native_status == "optimal, trust me"
    assert "tol 1e-06 was not reached" in solution.message
    assert solution.certificate.failures(1e-6)


def test_a_modest_solver_is_granted_what_it_earned(register: Callable[..., Fake]) -> None:
    """It says that it failed; its numbers are optimal all the same."""
    good = solve(cycle(), solver="clarabel")
    answer = Answer(Stop.FAILED, "sorry", good.matrices, good.x, good.dual)
    register(answer)
    solution = solve(cycle(), solver="fake")
    assert solution.status is Status.OPTIMAL
    assert solution.native_status == "sorry"


@pytest.mark.parametrize("part", ["matrices", "dual"])
def test_nan_is_inaccurate(register: Callable[..., Fake], part: str) -> None:
    good = solve(cycle(), solver="clarabel")
    parts = {"matrices": (good.matrix.copy(),), "dual": good.dual.copy()}
    (parts["dual"] if part == "dual" else parts["matrices"][0]).flat[0] = np.nan
    register(Answer(Stop.DONE, "done", parts["matrices"], good.x, parts["dual"]))
    with pytest.warns(ConvergenceWarning, match="inf"):
        solution = solve(cycle(), solver="fake")
    assert solution.status is Status.INACCURATE
    assert solution.certificate.relative_gap == np.inf


def test_an_empty_answer_is_inaccurate(register: Callable[..., Fake]) -> None:
    register(Answer(Stop.DONE, "nothing to show"))
    with pytest.warns(ConvergenceWarning, match="nothing to show"):
        solution = solve(cycle(), solver="fake")
    assert solution.status is Status.INACCURATE
    assert np.isnan(solution.objective)
    assert solution.dual is None
    assert solution.matrix.shape == (6, 6)
    with pytest.raises(InputError, match="no matrix"):
        cycle().recover(solution)


@pytest.mark.parametrize(
    ("stop", "status"),
    [
        (Stop.TIME_LIMIT, Status.TIME_LIMIT),
        (Stop.ITERATION_LIMIT, Status.ITERATION_LIMIT),
        (Stop.INTERRUPTED, Status.INTERRUPTED),
        (Stop.FAILED, Status.INACCURATE),
        (Stop.CLAIMS_INFEASIBLE, Status.INACCURATE),
        (Stop.CLAIMS_UNBOUNDED, Status.INACCURATE),
    ],
)
def test_stops_without_an_answer(register: Callable[..., Fake], stop: Stop, status: Status) -> None:
    register(Answer(stop, "words"))
    with pytest.warns(ConvergenceWarning, match=str(status)):
        assert solve(cycle(), solver="fake").status is status


def test_a_false_ray_is_not_believed(register: Callable[..., Fake]) -> None:
    """The cycle is feasible and bounded, whatever is claimed."""
    register(Answer(Stop.CLAIMS_INFEASIBLE, "empty", multiplier_ray=-np.ones(6)))
    with pytest.warns(ConvergenceWarning):
        assert solve(cycle(), solver="fake").status is Status.INACCURATE
    u = np.array([1.0, 1, 1, -1, -1, -1])
    ray = ((np.outer(u, u),), np.zeros(0))
    register(Answer(Stop.CLAIMS_UNBOUNDED, "endless", matrix_ray=ray))
    with pytest.warns(ConvergenceWarning):
        assert solve(cycle(), solver="fake").status is Status.INACCURATE


def test_what_is_no_answer_is_an_error_that_names_the_solver(
    register: Callable[..., Fake],
) -> None:
    register(None)
    with pytest.raises(SolverError, match="fake"):
        solve(cycle(), solver="fake")


@pytest.mark.parametrize("spoilt", ["matrices", "dual", "x"])
def test_answers_of_wrong_shape_are_errors_that_name_the_solver(
    register: Callable[..., Fake], spoilt: str
) -> None:
    parts: dict[str, Any] = {"matrices": (np.eye(6),), "dual": np.ones(6), "x": np.zeros(0)}
    parts[spoilt] = {"matrices": (np.eye(5),), "dual": np.ones(5), "x": np.zeros(2)}[spoilt]
    register(Answer(Stop.DONE, "done", parts["matrices"], parts["x"], parts["dual"]))
    with pytest.raises(SolverError, match="fake"):
        solve(cycle(), solver="fake")


def test_a_solution_without_dual_is_never_optimal(register: Callable[..., Fake]) -> None:
    good = solve(cycle(), solver="clarabel")
    register(Answer(Stop.DONE, "primal only", good.matrices, good.x))
    with pytest.warns(ConvergenceWarning):
        solution = solve(cycle(), solver="fake", tol=1e3)
    assert solution.status is Status.INACCURATE


# -- repairs --------------------------------------------------------------------------------


def test_the_inequality_form_is_shrunk_into_its_limits() -> None:
    program = cycle(form="inequality").program()
    good = solve(program, solver="clarabel")
    matrices, _ = repair_primal(program, Answer(Stop.DONE, "", (1.5 * good.matrix,), np.zeros(0)))
    ratios = program.measure(matrices) / program.rhs
    assert ratios.max() == pytest.approx(1.0, rel=1e-12)
    equality = cycle().program()
    kept, _ = repair_primal(equality, Answer(Stop.DONE, "", (1.5 * good.matrix,), np.zeros(0)))
    np.testing.assert_allclose(kept[0], 1.5 * good.matrix, atol=1e-9)


def test_slacks_take_up_what_their_rows_are_off() -> None:
    program = cycle(form="slack").program()
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((6, 3))
    Y -= Y.mean(axis=0)
    answer = Answer(Stop.DONE, "", (Y @ Y.T,), rng.uniform(0, 1, 12))
    matrices, x = repair_primal(program, answer)
    q = program.measure(matrices)
    np.testing.assert_allclose(program.violations(q, x), 0, atol=1e-12)
    assert (x >= 0).all()
    # Not both halves of a slack: Σ|ξ| is what it costs.
    assert x.sum() == pytest.approx(np.abs(q - program.rhs).sum(), rel=1e-12)


def test_matrices_are_projected_onto_the_cone() -> None:
    program = cycle().program()
    rng = np.random.default_rng(0)
    K = rng.standard_normal((6, 6))
    matrices, _ = repair_primal(program, Answer(Stop.DONE, "", (K,), np.zeros(0)))
    assert np.linalg.eigvalsh(matrices[0])[0] > -1e-12
    np.testing.assert_allclose(matrices[0].sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(matrices[0], matrices[0].T, atol=1e-14)


# -- questions asked twice ------------------------------------------------------------------


def test_the_elastic_program_measures_infeasibility() -> None:
    """min Σ|residual|: zero for a feasible program, positive with a ray for an infeasible one."""
    feasible = solve(elastic(cycle().program()), solver="clarabel")
    assert feasible.objective == pytest.approx(0.0, abs=1e-6)
    program = sdpkit.MVU(graph=[[0, 1, 1], [1, 0, 3], [1, 3, 0]]).program()
    found = solve(elastic(program), solver="clarabel")
    # Stretching one short edge to 2 costs 3 in squared length; nothing is cheaper than 5/2:
    # the ray (2, 2, −1) scaled into the box |w| ≤ 1 has the value −5/2.
    assert found.objective == pytest.approx(-2.5, rel=1e-5)
    assert certify_infeasible(program, found.dual).passes(1e-7)


@pytest.mark.parametrize("features", [False, True])
def test_the_recession_program_measures_unboundedness(features: bool) -> None:
    """max tr M over M that moves no edge, tr M ≤ 1: one if there is such an M, else zero."""
    pairs = [(0, 1), (2, 3)]
    program = by_hand(pairs, [1.0, 1.0], 4)
    connected = by_hand([*pairs, (1, 2)], [1.0, 1.0, 1.0], 4)
    if features:
        program, connected = (
            Program.of(
                Block.of(
                    4,
                    p.blocks[0].incidence,
                    features=np.eye(4),
                    cost=p.blocks[0].cost,
                    null=np.ones(4),
                ),
                p.rhs,
            )
            for p in (program, connected)
        )
    loose = solve(recession(program), solver="clarabel")
    assert loose.objective == pytest.approx(1.0, rel=1e-5)
    tight = solve(recession(connected), solver="interior")
    assert tight.objective == pytest.approx(0.0, abs=1e-5)
    assert not certify_unbounded(connected, tight.matrices, tight.x).passes(1e-7)


# -- courtesies -----------------------------------------------------------------------------


def test_the_callback_is_called_once_by_solvers_without_one() -> None:
    seen: list[Mapping[str, float]] = []
    solution = solve(cycle(), solver="clarabel", callback=seen.append)
    assert len(seen) == 1
    assert seen[0]["objective"] == solution.objective
    assert seen[0]["gap"] == solution.certificate.relative_gap


def test_the_callback_is_handed_to_solvers_with_one(register: Callable[..., Fake]) -> None:
    good = solve(cycle(), solver="clarabel")
    answer = Answer(Stop.DONE, "done", good.matrices, good.x, good.dual)
    solver = register(answer, capabilities=Capabilities(callback=True))
    seen: list[Any] = []
    solve(cycle(), solver="fake", callback=seen.append)
    assert seen == []
    assert solver.seen[0][1].callback == seen.append


def test_settings_reach_the_solver(register: Callable[..., Fake]) -> None:
    good = solve(cycle(), solver="clarabel")
    solver = register(Answer(Stop.DONE, "done", good.matrices, good.x, good.dual))
    solution = solve(
        cycle(),
        solver="fake",
        tol=1e-4,
        max_iter=7,
        time_limit=3,
        warm_start=good,
        flavour="sweet",
    )
    program, settings = solver.seen[0]
    assert program.fingerprint == cycle().program().fingerprint
    assert (settings.tol, settings.max_iter) == (1e-4, 7)
    assert settings.time_limit == pytest.approx(3.0, abs=0.5)  # less what compiling took
    assert settings.warm_start is good
    assert settings.options == {"flavour": "sweet"}
    assert isinstance(settings.max_iter, int)
    assert solution.solver == "fake"


@pytest.mark.parametrize(
    ("solver", "option"),
    [
        ("csdp", "maxiter"),
        ("scs", "max_iters"),
        ("cvxopt", "max_iters"),
        ("sdpa", "maxIteration"),
        ("dsdp", "maxit"),
    ],
)
def test_options_reach_the_backends(solver: str, option: str) -> None:
    """One iteration, said in each solver's own words."""
    with pytest.warns(ConvergenceWarning):
        assert solve(cycle(9), solver=solver, **{option: 1}).status is not Status.OPTIMAL


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_option_that_nobody_knows_is_an_error(solver: str) -> None:
    with pytest.raises((TypeError, ValueError, SolverError), match="no_such_option"):
        solve(cycle(), solver=solver, no_such_option=3)


def test_verbose_prints_the_solution(capsys: pytest.CaptureFixture[str]) -> None:
    solution = solve(cycle(), solver="clarabel", verbose=1)
    assert repr(solution) in capsys.readouterr().out
    solve(cycle(), solver="clarabel")
    assert capsys.readouterr().out == ""


def test_a_solution_says_everything() -> None:
    solution = solve(cycle(), solver="interior")
    text = repr(solution)
    for part in ("optimal by interior (as asked)", "certified relative gap", "seconds"):
        assert part in text
    assert solution.objective == pytest.approx(6.0, rel=1e-6)
    assert solution.dual_objective == pytest.approx(6.0, rel=1e-5)
    assert solution.iterations is not None
    assert solution.iterations > 0
    times = solution.times
    assert times.total == pytest.approx(times.compile + times.setup + times.solve + times.certify)
    assert solution.matrix is solution.matrices[0]


def test_a_problem_and_its_program_are_the_same() -> None:
    one, two = (solve(x, solver="interior") for x in (cycle(), cycle().program()))
    assert one.program.fingerprint == two.program.fingerprint
    assert one.objective == two.objective


def test_a_registered_solver_replaces_its_namesake(register: Callable[..., Fake]) -> None:
    good = solve(cycle(), solver="clarabel")
    register(Answer(Stop.DONE, "mine", good.matrices, good.x, good.dual), name="clarabel")
    assert solve(cycle(), solver="clarabel").native_status == "mine"
    assert "clarabel" in sdpkit.available_solvers()


# -- arguments of the wrong kind ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (sdpkit.MVU, {}, "not its class"),
        (None, {"solver": ["interior"]}, "pass one name"),
        (None, {"callback": 5}, "pass a function"),
        (None, {"warm_start": np.eye(3)}, "pass a Solution"),
    ],
)
def test_arguments_of_the_wrong_kind(problem: Any, options: Any, words: str) -> None:
    ring = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    with pytest.raises(InputError, match=words):
        solve(ring if problem is None else problem, **options)


@pytest.mark.parametrize("name", ["interior", "barrier", "lowrank", "projection"])
def test_a_callback_may_stop_a_run(name: str) -> None:
    roll = sdpkit.MVU(sdpkit.datasets.swiss_roll(30), n_neighbors=4)
    rows: list[Any] = []

    def enough(row: Any) -> bool:
        rows.append(row)
        return len(rows) == 2

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        solution = solve(roll, solver=name, callback=enough)
    assert solution.status is Status.INTERRUPTED
    assert len(rows) == 2


def test_dimacs_errors_of_penalties_vanish() -> None:
    """Also the sixth, which is the fifth where the challenge has no definition."""
    problem = sdpkit.VariationalMVU(sdpkit.datasets.swiss_roll(60), n_neighbors=5, n_basis=4)
    assert np.abs(solve(problem).certificate.dimacs).max() <= 1e-6


# -- solvers that are not to be trusted ---------------------------------------------------------


class Meddler:
    """Halves the rows of the program and solves what is left."""

    name = "meddler"
    capabilities = Capabilities()

    def unavailable(self) -> str | None:
        return None

    def memory(self, program: Program) -> float:
        return 0.0

    def solve(self, program: Program, settings: Settings) -> Answer:
        program.rows_q.data[:] *= 0.5
        return get_solver("interior").solve(program, settings)


class Empty(Gram):
    """A matrix that says of itself what is wanted."""

    shape = (6, 6)

    def __matmul__(self, vectors: Array) -> Array:
        return 0 * vectors

    def scaled(self, factor: float) -> Empty:
        return self

    def smallest_eigenvalue(self) -> float:
        return 0.0


class Pretender(Meddler):
    name = "pretender"

    def solve(self, program: Program, settings: Settings) -> Answer:
        return Answer(Stop.DONE, "perfect", (Empty(),), dual=np.ones(program.n_rows))


class Faulty(Meddler):
    name = "faulty"

    def solve(self, program: Program, settings: Settings) -> Answer:
        raise ZeroDivisionError("of all things")


@pytest.mark.parametrize(
    ("liar", "words"),
    [
        (Meddler(), "changed the program"),
        (Pretender(), "proves nothing"),
        (Faulty(), "'faulty' broke down with ZeroDivisionError: of all things"),
    ],
)
def test_solvers_of_others_may_neither_change_nor_make_up_nor_raise_what_they_like(
    liar: Any, words: str
) -> None:
    with registry.registered(liar), pytest.raises(SolverError, match=words):
        solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(6)), solver=liar.name)


def test_a_cost_beside_large_multiples_of_itself_is_seen() -> None:
    """M₂₂ is free and gains, however small the unit in which M₁₁ is measured."""
    program = Program.of(Block.of(2, [[1e-8, 0.0]], cost=np.diag([1.0, 0.5])), [1.0])
    assert program.blocks[0].unseen.shape == (2, 0)
    for name in ("interior", "clarabel"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert solve(program, solver=name).status is not Status.OPTIMAL


def test_a_ray_within_rounding_is_no_proof() -> None:
    """x = 3 meets all three rows; multipliers whose value is a rounding error prove nothing."""
    a = np.array([0.1, 0.7, 1.3])
    block = Block.of(1, [[1.0]], cost=Cost.of(1))
    program = Program.of(block, 3 * a, rows_q=a[:, None])
    w = np.array([7.0, -1.0, 0.0]) + 1e-16 * np.array([0.0, 0.0, -1.0])
    for ray in (w, -w):
        assert not certify_infeasible(program, ray).passes(1e-7)
