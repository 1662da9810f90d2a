"""Degenerate data, extreme scales and breakdowns end in a status or in an error of ours."""

from __future__ import annotations

import contextlib
import copy
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import sdpkit
import sdpkit.program.block
from sdpkit import Block, Cost, InputError, Program, Status
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.cli.main import main
from sdpkit.graphs.spectrum import smoothest
from sdpkit.numerics.breakdown import is_breakdown
from sdpkit.numerics.eigenpairs import leading_eigenpairs
from sdpkit.program.gram import FactoredGram, Gram
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solving.registry import get_solver
from sdpkit.solving.run import Run

N = 24
POINTS = np.random.default_rng(0).standard_normal((N, 3))
LABELS = np.arange(N) % 2


def quietly(problem: Any, solver: str = "auto", **options: Any) -> sdpkit.Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        return sdpkit.solve(problem, solver=solver, **options)


# -- degenerate data and extreme scales ----------------------------------------------------------

PROBLEMS: dict[str, Callable[[Any], Any]] = {
    **{
        f"MVU {form}": lambda X, form=form: sdpkit.MVU(X, n_neighbors=4, form=form)
        for form in ("equality", "inequality", "slack", "min_trace")
    },
    "MVE": lambda X: sdpkit.MVE(X, n_neighbors=4, n_components=2),
    "VariationalMVU": lambda X: sdpkit.VariationalMVU(X, n_neighbors=4, n_basis=1),
    "CoveringEllipsoid": sdpkit.CoveringEllipsoid,
    "CoveringEllipsoid, center": lambda X: sdpkit.CoveringEllipsoid(X, center=np.zeros(3)),
    "CoveringEllipsoid, gamma": lambda X: sdpkit.CoveringEllipsoid(X, gamma=0.1),
    "LMNN": lambda X: sdpkit.LMNN(X, LABELS[: len(X)]),
    "LMNN, kernel": lambda X: sdpkit.LMNN(kernel=X @ X.T, y=LABELS[: len(X)], rank=2),
    "MMC": lambda X: sdpkit.MMC(X, LABELS[: len(X)]),
    "PairMargins": lambda X: sdpkit.PairMargins(X, LABELS[: len(X)]),
    "DistanceMixture": lambda X: sdpkit.DistanceMixture([X, X[:, :1]], LABELS[: len(X)]),
}
DATA = {
    "equal": np.ones((N, 3)),
    "single": np.ones((1, 3)),
    "two places": np.repeat([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], N // 2, axis=0),
    "one apart": np.vstack([np.ones((N - 1, 3)), [[2.0, 2.0, 2.0]]]),
    "constant column": np.c_[POINTS[:, :2], np.full(N, 5.0)],
    "line": np.outer(np.arange(float(N)), [1.0, 2.0, 3.0]),
    **{
        f"scale {scale:g}": scale * POINTS
        for scale in (1e-320, 1e-200, 1e-150, 1e-100, 1e100, 1e150, 1e200, 1e307)
    },
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_degenerate_data(name: str, data: str) -> None:
    with contextlib.suppress(sdpkit.SdpkitError):
        problem = PROBLEMS[name](DATA[data])
        solution = quietly(problem, time_limit=10)
        assert str(solution.certificate)
        solution.certificate.verify()
        assert repr(problem.recover(solution))


def test_equal_points_have_an_embedding() -> None:
    problem = sdpkit.MVE(np.ones((N, 3)), n_neighbors=4, n_components=2)
    solution = sdpkit.solve(problem)
    assert solution.status is Status.STATIONARY
    assert not problem.recover(solution).coordinates.any()


@pytest.mark.parametrize("name", sorted({*PROBLEMS} - {"LMNN, kernel", "CoveringEllipsoid, gamma"}))
def test_squares_that_underflow_are_refused(name: str) -> None:
    """A kernel holds squares already; next to γ squares that underflow do not matter."""
    with pytest.raises(InputError, match="too small to square: rescale it"):
        PROBLEMS[name](1e-200 * POINTS).program()


def test_the_distance_of_points_may_be_small_beside_gamma() -> None:
    problem = sdpkit.CoveringEllipsoid(1e-200 * POINTS, gamma=4.0)
    ellipsoid = problem.recover(sdpkit.solve(problem))
    assert ellipsoid.shape == pytest.approx(4.0 * np.eye(3), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1e100, 1e130])
@pytest.mark.parametrize("form", ["equality", "slack"])
def test_barrier_works_at_any_scale(form: Any, scale: float) -> None:
    """Products of lengths and multipliers of 1e-200 underflow, squares of 1e200 overflow."""
    X = sdpkit.datasets.swiss_roll(60)
    one = sdpkit.solve(sdpkit.MVU(X, n_neighbors=4, form=form), solver="barrier")
    scaled = sdpkit.solve(sdpkit.MVU(scale * X, n_neighbors=4, form=form), solver="barrier")
    assert scaled.status is Status.OPTIMAL
    assert scaled.objective / scale**2 == pytest.approx(one.objective, rel=2e-6)


@pytest.mark.parametrize("size", [1e200, 1e308])
def test_new_points_that_cannot_be_squared(size: float) -> None:
    from sdpkit.estimators import LMNNClassifier, QueryMetric

    for estimator in (LMNNClassifier(), QueryMetric()):
        estimator.fit(POINTS, LABELS)
        with pytest.raises(InputError, match="too large to square"):
            estimator.predict(np.full((2, 3), size))


# -- programs without rows -----------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["interior", "auto"])
def test_an_infeasible_model_of_cvxpy(engine: str) -> None:
    """cvxpy's own test: all rows of its program vanish on the face that they leave."""
    X = cp.Variable((2, 2))
    model = cp.Problem(cp.Minimize(0), [X >> 0, X[0, 0] == -1])
    assert model.solve(solver=sdpkit.cvxpy_solver(engine)) == np.inf
    assert model.status == "infeasible"


@pytest.mark.parametrize(("cost", "status"), [(-1.0, Status.OPTIMAL), (1.0, Status.UNBOUNDED)])
def test_rows_that_vanish_on_their_face(cost: float, status: Status) -> None:
    block = Block.of(2, [[0.0, 1.0]], null=[[0.0], [1.0]], cost=Cost.of(2, identity=cost))
    solution = quietly(Program.of(block, [0.0]), "interior")
    assert solution.status is status


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize(("free", "best"), [(True, 2.5), (False, 2.0)])
def test_variables_with_squares_that_are_in_no_row(rows: int, free: bool, best: float) -> None:
    """max 2x − x²/2 and −x − x²/2."""
    block = Block.of(1, np.zeros((rows, 1)), cost=Cost.of(1, identity=-1.0))
    for solver in ("interior", "lowrank", "clarabel", "auto"):
        program = Program.of(
            block,
            np.zeros(rows),
            rows_x=np.zeros((rows, 2)),
            cost_x=[2.0, -1.0],
            free_x=[free, free],
            quadratic_x=[1.0, 1.0],
        )
        solution = sdpkit.solve(program, solver=solver)
        assert solution.status is Status.OPTIMAL
        assert solution.objective == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("sense", ["min", "max"])
def test_unconstrained_squares_of_cvxpy(sense: str) -> None:
    x = cp.Variable(3)
    squares = cp.sum_squares(x) + cp.sum(x)
    objective = cp.Minimize(squares) if sense == "min" else cp.Maximize(-squares)
    model = cp.Problem(objective)
    value = model.solve(solver=sdpkit.cvxpy_solver("interior"))
    assert value == pytest.approx(-0.75 if sense == "min" else 0.75)
    assert x.value == pytest.approx(np.full(3, -0.5))


@pytest.mark.parametrize("constraints", [[], [cp.Constant(1) <= 2], [cp.Constant(3) <= 2]])
def test_a_model_without_variables(constraints: list[Any]) -> None:
    model = cp.Problem(cp.Minimize(1), constraints)
    for use in (sdpkit.certify_cvxpy, sdpkit.from_cvxpy):
        with pytest.raises(InputError, match=r"no variables.*problem\.objective\.value"):
            use(model)


# -- numbers that are none -----------------------------------------------------------------------

NO_NUMBERS: tuple[Any, ...] = (
    [10**400, 1],
    [[10**400, 0], [0, 1]],
    "abc",
    5,
    ["a", "b"],
    [None, 1],
    [1j, 2],
    object(),
    {},
)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: repr(value)[:12])
def test_what_is_certified_must_be_numbers(value: Any) -> None:
    program = Program.of(Block.of(2, np.eye(2)), [1.0, 1.0], rows_x=np.ones((2, 1)))
    for given in ({"dual": value}, {"x": value}, {"matrices": value}, {"matrices": [value]}):
        with pytest.raises(InputError):
            sdpkit.certify(program, **{"matrices": np.eye(2), **given})
    with pytest.raises(InputError):
        certify_infeasible(program, value)
    with pytest.raises(InputError):
        certify_unbounded(program, value, [0.0])
    for name in ("rows_x", "rows_q", "cost_x", "offset", "norms", "safe"):
        if name == "offset" and value == 5:
            continue
        with pytest.raises(InputError):
            Program.of(Block.of(2, np.eye(2)), [1.0, 1.0], **{name: value})
    with pytest.raises(InputError):
        Program.of(value, [1.0, 1.0])
    with pytest.raises(InputError):
        Block.of(2, value)


def test_matrices_near_the_end_of_the_range() -> None:
    program = Program.of(Block.of(2, np.eye(2)), [1.0, 1.0])
    for size in (1e300, 1e308, 1.7e308):
        certificate = sdpkit.certify(program, size * np.eye(2), dual=[1.0, 1.0])
        assert not certificate.passes(1e-6)
        certificate.verify()


# -- operators without eigenvectors of their own -------------------------------------------------


def test_eigenpairs_of_nothing() -> None:
    for n in (5, 300):
        values, vectors = leading_eigenpairs(lambda x: 0.0 * x, n, 3)
        assert not values.any()
        assert vectors.T @ vectors == pytest.approx(np.eye(3))
        with pytest.raises(np.linalg.LinAlgError):
            leading_eigenpairs(lambda x: np.nan * x, n, 3)


def test_few_eigenvectors_of_a_graph_as_before() -> None:
    cycle = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(300)).neighborhood.laplacian()
    values, vectors = smoothest(cycle, 4)
    assert values == pytest.approx(2 - 2 * np.cos(2 * np.pi * np.array([1, 1, 2, 2]) / 300))
    assert cycle @ vectors == pytest.approx(vectors * values, abs=1e-12)


@pytest.mark.parametrize("form", ["equality", "slack"])
def test_an_embedding_of_a_matrix_that_is_zero(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a time limit may leave it: no multiple of the matrix but zero is feasible."""
    monkeypatch.setattr(sdpkit.program.block, "LARGE", 50)
    problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(80), n_neighbors=5, form=form)
    solution = sdpkit.solve(problem, solver="barrier")
    gram = solution.matrices[0]
    assert isinstance(gram, Gram)
    for factor in (0.0, 1e-320, 1e-300):
        small = replace(solution, matrices=(gram.scaled(factor),))
        assert np.abs(problem.recover(small, n_components=2).coordinates).max() < 1e-100
        assert not sdpkit.certify(solution.program, small.matrices, solution.x).passes(1e-6)
    for factor in (1e305, np.inf, np.nan):
        assert not gram.scaled(factor).is_finite()
        certificate = sdpkit.certify(solution.program, (gram.scaled(factor),), solution.x)
        assert certificate.primal_residual == np.inf
    assert not FactoredGram(np.full((3, 1), np.nan)).is_finite()


@pytest.mark.parametrize("solver", ["barrier", "lowrank"])
def test_a_fit_that_ends_before_its_first_point(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sdpkit.estimators import MaximumVarianceUnfolding

    monkeypatch.setattr(sdpkit.program.block, "LARGE", 50)
    X = sdpkit.datasets.swiss_roll(80)
    estimator = MaximumVarianceUnfolding(
        n_neighbors=5, form="slack", solver=solver, time_limit=1e-6
    )
    with pytest.warns(sdpkit.ConvergenceWarning, match="time limit"):
        estimator.fit(X)
    assert estimator.solution_.status is Status.TIME_LIMIT
    assert np.isfinite(estimator.embedding_).all()


# -- breakdowns of engines -----------------------------------------------------------------------


def _not_finite() -> None:
    import scipy.linalg

    scipy.linalg.eigh(np.full((2, 2), np.nan))


BREAKDOWNS: dict[str, Callable[[], Any]] = {
    "division": lambda: 1.0 / 0.0,
    "overflow": lambda: 10.0**200**2,
    "singular": lambda: np.linalg.inv(np.zeros((2, 2))),
    "not finite": _not_finite,
}


@dataclass
class Breaking:
    """An engine that breaks down in a step."""

    how: Callable[[], Any]
    after: int
    point: float = 0.0

    def step(self, driver: Driver) -> None:
        if driver.iterations >= self.after:
            self.how()
        driver.count()
        self.point += 0.5
        driver.record(objective=self.point)

    def answer(self, stop: Stop) -> Answer:
        return Answer(stop, "", (np.full((1, 1), self.point),), np.zeros(0), np.zeros(1))

    def state(self) -> None:
        return None


@pytest.mark.parametrize("name", BREAKDOWNS)
def test_a_breakdown_returns_the_last_point(name: str) -> None:
    answer = Driver("some", Settings(), 10).run(Breaking(BREAKDOWNS[name], 2))
    assert answer.stop is Stop.FAILED
    assert "floating-point arithmetic broke down" in answer.native_status
    assert answer.matrices is not None
    assert answer.matrices[0] == 1.0


@pytest.mark.parametrize("name", BREAKDOWNS)
def test_a_breakdown_before_the_first_point_is_a_status(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interior = get_solver("interior")

    def broken(program: Program, settings: Settings) -> Answer:
        return Driver("interior", settings, 10).run(Breaking(BREAKDOWNS[name], 0))

    monkeypatch.setattr(type(interior), "solve", lambda self, *given: broken(*given))
    program = Program.of(Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0)), [1.0])
    with pytest.warns(sdpkit.ConvergenceWarning, match="floating-point arithmetic broke down"):
        solution = sdpkit.solve(program, solver="interior")
    assert solution.status is Status.INACCURATE


def test_errors_of_the_code_and_of_callbacks_are_raised() -> None:
    def careless(row: Any) -> None:
        raise ZeroDivisionError("of the user")

    program = sdpkit.MVU(sdpkit.datasets.swiss_roll(20), n_neighbors=4).program()
    for solver in ("interior", "barrier", "lowrank", "projection"):
        with pytest.raises(ZeroDivisionError, match="of the user"):
            sdpkit.solve(program, solver=solver, callback=careless)
        with pytest.raises(ZeroDivisionError, match="of the user"):
            Run(Settings(callback=careless)).ask(program, get_solver(solver))
    for error in (ValueError("x"), TypeError("x"), IndexError("x")):
        assert not is_breakdown(error)
    with pytest.raises(ValueError, match="a bug"):
        Driver("some", Settings(), 10).run(Breaking(_raising(ValueError("a bug")), 2))


def _raising(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


# -- files of runs -------------------------------------------------------------------------------

OTHER_TYPES: tuple[Any, ...] = (
    *(None, [], {}, "", "abc", 0, -1, 0.5, True, 1e400, 10**400),
    *("nan", "-inf", [1], [[1, 2]], [[1]], [None], {"a": 1}, [{}], [{"a": None}]),
)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = tmp_path_factory.mktemp("runs") / "runs.jsonl"
    ring = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    sdpkit.compare({"ring": ring}, ["interior", "scs"], [1e-3], path=path)
    return [json.loads(line) for line in path.read_text().splitlines()]


def _reported(records: list[Any], folder: Path) -> list[int]:
    """Exit codes of the page and of the tables of these records."""
    path, page = folder / "changed.jsonl", folder / "page.md"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    names = ("summary", "readme", "kinds", "instances", "exactness", "machine")
    page.write_text("".join(f"<!-- measured: {n} -->\n<!-- end of measured -->\n" for n in names))
    codes = [main(["report", str(path), "--html", str(folder / "r.html"), "--force"])]
    return [*codes, main(["report", str(path), "--markdown", str(page)])]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(0, id="head"),
        pytest.param(1, id="instance"),
        pytest.param(2, id="run", marks=pytest.mark.slow),
    ],
)
def test_any_type_in_any_field_of_a_file_of_runs(
    line: int, records: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _reported(records, tmp_path) == [0, 0]
    for name in records[line]:
        for value in OTHER_TYPES:
            changed = copy.deepcopy(records)
            changed[line][name] = value
            codes = _reported(changed, tmp_path)
            assert set(codes) <= {0, 2}, (name, value)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("environment", [None, [], "abc", 0.5, [None]])
def test_an_environment_that_is_no_object(
    environment: Any,
    records: list[dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed = [{**records[0], "environment": environment}, *records[1:]]
    assert _reported(changed, tmp_path) == [2, 2]
    assert "does not hold the environment" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"), [("tol", None), ("tol", 0.0), ("tol", "inf"), ("total", "-inf"), ("n", -5)]
)
def test_numbers_that_no_run_has(
    name: str,
    value: Any,
    records: list[dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed = [{**r, name: value} if r["record"] == "run" else r for r in records]
    assert _reported(changed, tmp_path) == [2, 2]
    assert f"a row of a comparison has {name}" in capsys.readouterr().err


def test_tables_of_no_runs(records: list[dict[str, Any]], tmp_path: Path) -> None:
    assert _reported([r for r in records if r["record"] != "run"], tmp_path) == [2, 2]


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-200, 1e-163, 1e-158])
@pytest.mark.parametrize("solver", ["interior", "projection", "clarabel"])
def test_tiny_coefficients_are_no_contradiction(size: float, solver: str) -> None:
    """size·M_11 = 1 has a solution (of a finite size, except for the first); squares of its
    coefficient do not."""
    block = Block.of(2, np.eye(2), cost=Cost.of(2, identity=1.0))
    for rows in ([[size, 0.0], [0.0, 1.0]], [[size, size], [0.0, 1.0]]):
        program = Program.of(block, [1.0, 1.0], rows_q=rows, sense="min")
        norm = max(np.hypot(*rows[0]), 2.0**-1000)
        assert program.row_norms[0] == pytest.approx(norm, rel=1e-12, abs=0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            assert quietly(program, solver).status in ("optimal", "inaccurate")
