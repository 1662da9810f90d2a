"""Instances that several test files share."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if "PYTEST_XDIST_WORKER" in os.environ:
    # Processes that share the cores do not want threads as well; numpy reads this when it loads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
from numpy.typing import NDArray
from programs import PROGRAMS, installed, link_to, path_without_programs

import sdpkit
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.safe import NormPenalty
from sdpkit.typing import Array

FORMS = ("equality", "inequality", "slack", "min_trace")
EXACT = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


@pytest.fixture
def python_handles_ctrl_c() -> Iterator[None]:
    """A shell starts what it runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass
class Unfolding:
    """One form of MVU on twelve points, solved, with the optimum of a model of its own."""

    form: str
    problem: sdpkit.MVU
    program: Program
    solution: sdpkit.Solution
    optimum: float

    def __repr__(self) -> str:
        return f"<{self.form}>"


def unfolding_optimum(problem: sdpkit.MVU) -> float:
    """The form's optimal value by cvxpy, with K = FZFᵀ for an orthonormal basis F of 1⊥."""
    graph = problem.neighborhood
    unit = graph.squared_lengths.mean()
    n, d = graph.n_points, graph.squared_lengths / unit
    F = scipy.linalg.null_space(np.ones((1, n)))
    i, j = graph.edges.T
    differences = F[i] - F[j]
    Z = cp.Variable((n - 1, n - 1), PSD=True)
    length = cp.sum(cp.multiply(differences @ Z, differences), axis=1)
    if problem.form == "slack":
        xi, omega = cp.Variable(d.size), problem.omega_used
        value = (1 - omega) * cp.trace(Z) - omega * cp.norm1(xi)
        model = cp.Problem(cp.Maximize(value), [length == d + xi])
    elif problem.form == "inequality":
        model = cp.Problem(cp.Maximize(cp.trace(Z)), [length <= d])
    else:
        sense = cp.Minimize if problem.form == "min_trace" else cp.Maximize
        model = cp.Problem(sense(cp.trace(Z)), [length == d])
    return float(unit * model.solve(solver="CLARABEL", **EXACT))


@pytest.fixture(scope="session")
def unfoldings() -> dict[str, Unfolding]:
    """Form → the solved instance."""
    out = {}
    for form in FORMS:
        problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(12), n_neighbors=4, form=form)
        solution = sdpkit.solve(problem, solver="interior", tol=1e-7)
        optimum = unfolding_optimum(problem)
        out[form] = Unfolding(form, problem, solution.program, solution, optimum)
    return out


@dataclass
class Instance:
    """A strictly feasible program in plain arrays, with strictly feasible points of both sides.

    Everything is stated for the maximisation; `sense="min"` negates objective and multipliers.
    """

    sense: str
    vectors: list[Array]
    costs: list[Array]
    rows_q: Array
    rows_x: Array
    relations: NDArray[np.int64]
    rhs: Array
    cost_q: Array
    cost_x: Array
    free: NDArray[np.bool_]
    quadratic: Array
    norms: list[tuple[float, list[int]]]
    offset: float
    matrices: list[Array]
    x: Array
    dual: Array

    @property
    def sign(self) -> float:
        return 1.0 if self.sense == "max" else -1.0

    def program(self, **more: Any) -> Program:
        """The instance as a Program."""
        blocks = [
            Block.of(v.shape[1], v, name=f"M{k}", cost=Cost.of(v.shape[1], sparse=self.sign * c))
            for k, (v, c) in enumerate(zip(self.vectors, self.costs, strict=True))
        ]
        return Program.of(
            blocks,
            self.rhs,
            sense=self.sense,
            rows_q=self.rows_q,
            rows_x=self.rows_x,
            relations=self.relations,
            cost_q=self.sign * self.cost_q,
            cost_x=self.sign * self.cost_x,
            free_x=self.free,
            quadratic_x=self.quadratic,
            norms=[NormPenalty(weight, tuple(group)) for weight, group in self.norms],
            offset=self.offset,
            **more,
        )

    def optimum(self) -> float:
        """The optimal value by cvxpy, from the arrays alone."""
        M = [cp.Variable((v.shape[1], v.shape[1]), PSD=True) for v in self.vectors]
        x = cp.Variable(max(1, self.cost_x.size))
        q = cp.hstack(
            [cp.sum(cp.multiply(v @ m, v), axis=1) for v, m in zip(self.vectors, M, strict=True)]
        )
        value = sum(cp.trace(c @ m) for c, m in zip(self.costs, M, strict=True)) + self.cost_q @ q
        rows = self.rows_q @ q
        limits = []
        if self.cost_x.size:
            rows = rows + self.rows_x @ x
            value = value + self.cost_x @ x - 0.5 * self.quadratic @ cp.square(x)
            value = value - sum(weight * cp.norm(x[group], 2) for weight, group in self.norms)
            limits.append(x[np.flatnonzero(~self.free)] >= 0)
        for k, relate in ((-1, "__le__"), (0, "__eq__"), (1, "__ge__")):
            e = np.flatnonzero(self.relations == k)
            if e.size:
                limits.append(getattr(rows[e], relate)(self.rhs[e]))
        found = cp.Problem(cp.Maximize(value), limits).solve(solver="CLARABEL", **EXACT)
        return self.sign * float(found) + self.offset


def random_instance(
    seed: int,
    *,
    sizes: tuple[int, ...] = (3,),
    sense: str = "max",
    relations: tuple[int, ...] = (0, 0, 0),
    auxiliary: str = "",
    quadratic: float = 0.0,
    norm: float = 0.0,
    cost_q: bool = False,
    offset: float = 0.0,
) -> Instance:
    """Rows through a random interior point, costs through a random interior dual point.

    `auxiliary` has one letter per variable: p nonnegative, f free.
    """
    rng = np.random.default_rng(seed)
    m, n_x = len(relations), len(auxiliary)
    related = np.array(relations)
    vectors = [rng.standard_normal((m + 1, n)) for n in sizes]
    rows_q = rng.standard_normal((m, (m + 1) * len(sizes)))
    rows_x = rng.standard_normal((m, n_x))
    free = np.array([letter == "f" for letter in auxiliary], dtype=bool)
    matrices = [_definite(rng, n) for n in sizes]
    x = np.where(free, rng.standard_normal(n_x), rng.uniform(0.5, 1.5, n_x))
    q = np.concatenate(
        [np.einsum("pi,ij,pj->p", v, m, v) for v, m in zip(vectors, matrices, strict=True)]
    )
    rhs = rows_q @ q + rows_x @ x - related * rng.uniform(0.5, 1.5, m)
    dual = np.where(related == 0, rng.standard_normal(m), -related * rng.uniform(0.5, 1.5, m))
    g = rng.standard_normal(q.size) if cost_q else np.zeros(q.size)
    u = np.split(rows_q.T @ dual - g, len(sizes))
    costs = [
        v.T @ (part[:, None] * v) - _definite(rng, v.shape[1])
        for v, part in zip(vectors, u, strict=True)
    ]
    r = np.where(free, 0.0, rng.uniform(0.5, 1.5, n_x))
    if norm:
        r = rng.standard_normal(n_x)
        r *= 0.5 * norm / np.linalg.norm(r)
    if quadratic:
        r = rng.standard_normal(n_x)
    return Instance(
        sense,
        vectors,
        [(c + c.T) / 2 for c in costs],
        rows_q,
        rows_x,
        related,
        rhs,
        g,
        rows_x.T @ dual - r,
        free,
        np.full(n_x, quadratic),
        [(norm, list(range(n_x)))] if norm else [],
        offset,
        matrices,
        x,
        (1.0 if sense == "max" else -1.0) * dual,
    )


def _definite(rng: np.random.Generator, n: int) -> Array:
    a = rng.standard_normal((n, n))
    return a @ a.T / n + 0.5 * np.eye(n)


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "minimise": {"sense": "min", "offset": -2.5},
    "blocks": {"sizes": (3, 2), "relations": (0, -1, 1, 0)},
    "nonnegative": {"auxiliary": "pp", "relations": (0, -1, 1)},
    "free": {"auxiliary": "f", "relations": (0, 0, 0)},
    "mixed": {"auxiliary": "pf", "relations": (0, 0, -1), "sense": "min", "cost_q": True},
    "quadratic free": {"auxiliary": "ff", "quadratic": 0.7},
    "quadratic nonnegative": {"auxiliary": "pp", "quadratic": 0.7, "sense": "min"},
    "norm": {"auxiliary": "ff", "norm": 0.8},
    "norm, minimise": {"auxiliary": "ff", "norm": 0.8, "sense": "min", "sizes": (2, 2)},
}


@pytest.fixture(scope="session")
def instance() -> Callable[[str, int], Instance]:
    """(kind, seed) → a random instance of one of the KINDS."""
    return lambda kind, seed: random_instance(seed, **KINDS[kind])


# -- programs that are no Python packages ---------------------------------------------------------


def _named(item: pytest.Item, *markers: str) -> set[str]:
    """The programs that a test names in its parameters or in these markers."""
    named = [name for marker in markers for mark in item.iter_markers(marker) for name in mark.args]
    parameters = getattr(item, "callspec", None)
    named += list(parameters.params.values()) if parameters else []
    return {name for name in named if isinstance(name, str) and name in PROGRAMS}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A missing program is shown as a skip, and is a failure where SDPKIT_REQUIRE names it."""
    required = os.environ.get("SDPKIT_REQUIRE", "").split()
    missing = sorted(set(PROGRAMS) - installed())
    lost = [name for name in required if name in missing]
    if lost:
        raise pytest.UsageError(f"SDPKIT_REQUIRE names {lost}, not found on the PATH")
    for item in items:
        for name in _named(item, "needs") & set(missing):
            item.add_marker(pytest.mark.skip(reason=f"no {name} on the PATH"))


class Visible:
    """Shows each test only the programs that it names.

    A test that uses a program without naming it thus fails on every machine, also where the
    program is installed.
    """

    def __init__(self) -> None:
        self.links = tempfile.TemporaryDirectory(prefix="programs-")
        self.installed = installed()
        folder = Path(self.links.name)
        self.others = path_without_programs(folder / "others")
        self.folders = {name: link_to(name, folder) for name in self.installed}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Set the PATH before the fixtures, those of the module and of the session too."""
        before = os.environ["PATH"]
        shown = sorted(self.installed & _named(item, "needs", "may_use"))
        os.environ["PATH"] = os.pathsep.join([*(self.folders[n] for n in shown), self.others])
        try:
            return (yield)
        finally:
            os.environ["PATH"] = before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Say which programs a failing test did not find because it does not name them."""
        report = yield
        text = report.longreprtext if report.failed else ""
        hidden = sorted(self.installed - _named(item, "needs", "may_use"))
        sought = [name for name in hidden if PROGRAMS[name] in text]
        if sought:
            words = ", ".join(f"@pytest.mark.needs({name!r})" for name in sought)
            report.sections.append(("programs hidden from this test", f"if it uses them: {words}"))
        return report


def pytest_configure(config: pytest.Config) -> None:
    visible = Visible()
    config.pluginmanager.register(visible)
    config.add_cleanup(visible.links.cleanup)
