"""Who is asked: every solver says what it takes and what it expects to need; "auto" compares."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bench import auto

import sdpkit
from sdpkit import MVU, Block, Program
from sdpkit.cli.main import main
from sdpkit.comparison import suites
from sdpkit.solution.answer import Answer, Settings
from sdpkit.solution.solver import Capabilities
from sdpkit.solving import choice, registry
from sdpkit.solving.choice import choose, estimate, offers, why_refused
from sdpkit.solving.registry import available_solvers, get_solver

STRING = MVU(graph=sdpkit.datasets.path_graph(4)).program()

# Who is fastest on the suites. On the rest of them it is interior.
SPECIAL = {
    "roll-400-equality": "barrier",
    "roll-400-inequality": "barrier",
    "roll-1000-equality": "barrier",
    "roll-1000-inequality": "barrier",
    "roll-2000-equality": "barrier",
    "roll-10000-equality": "barrier",
    "roll-10000-inequality": "barrier",
    "knot-1617": "barrier",
    "ring-3000": "barrier",
    "circles-20": "factored",
    "iris": "factored",
    "wine": "factored",
    "digits-600": "factored",
    "digits": "factored",
    "clouds-10000": "factored",
    "covering-200": "covering",
    "mmc-iris-30": "ascent",
}


@pytest.mark.parametrize(
    "instance",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.slow] * ("10000" in one.name))
        for one in suites.INSTANCES
    ],
)
def test_choices_on_the_suites(instance: suites.Instance) -> None:
    built = instance.build()
    program = built if isinstance(built, Program) else _first_program(built)
    assert choose(program)[0].name == SPECIAL.get(instance.name, "interior")


def _first_program(problem: Any) -> Program:
    if callable(getattr(problem, "advance", None)):
        first = problem.advance((), 1e-6)
        return first[0] if isinstance(first, tuple) else first
    return problem.program()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("penalty", "n_basis", "expected"),
    [
        ("norm", 30, "interior"),
        ("norm", 80, "interior"),
        ("squared", 30, "interior"),
        ("squared", 80, "interior"),
    ],
)
def test_choices_by_penalty_and_size(penalty: str, n_basis: int, expected: str) -> None:
    X = sdpkit.datasets.swiss_roll(200, random_state=0)
    problem = sdpkit.VariationalMVU(X, n_neighbors=4, n_basis=n_basis, penalty=penalty)
    assert choose(problem.program())[0].name == expected


@pytest.mark.parametrize(
    ("form", "rolled", "scattered"),
    [
        ("equality", "barrier", "interior"),
        ("inequality", "barrier", "lowrank"),
        ("slack", "barrier", "interior"),
        ("min_trace", "barrier", "interior"),
    ],
)
def test_choices_on_large_graphs(form: str, rolled: str, scattered: str) -> None:
    X = sdpkit.datasets.swiss_roll(1600, random_state=0)
    assert choose(MVU(X, n_neighbors=4, form=form).program())[0].name == rolled
    X = np.random.default_rng(0).standard_normal((1600, 10))  # its sparse factors fill in
    assert choose(MVU(X, n_neighbors=5, form=form).program())[0].name == scattered


@pytest.mark.parametrize("name", available_solvers())
def test_every_solver_says_what_it_takes_and_needs(name: str) -> None:
    solver = get_solver(name)
    assert callable(solver.accepts)
    assert callable(solver.seconds)
    reason = solver.accepts(STRING)
    assert reason is None or "; this program " in reason or "block " in reason
    if reason is None:
        needed = estimate(solver, STRING, 1e-6)
        assert needed.seconds > 0
        assert 0 < needed.memory < 1e9


@pytest.mark.parametrize("largest", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_choice_is_the_fastest_engine_as_measured(largest: int) -> None:
    """By the runs of docs/auto.csv, which `make bench NAME=auto ARGS="--measure"` makes anew."""
    runs = auto.read(Path(__file__).parents[1] / "docs" / "auto.csv")
    assert {run.instance for run in runs} == set(auto.instances())
    judged = auto.verdicts([run for run in runs if int(run.instance.split()[1]) <= largest])
    ratios = np.array([verdict.ratio for verdict in judged])
    assert ratios.size >= 20
    assert ratios.max() <= 3
    assert np.mean(ratios <= 1.3) >= 0.9


def test_forecasts_grow_with_size_and_digits() -> None:
    large = MVU(graph=sdpkit.datasets.path_graph(40)).program()
    for offer in offers(STRING):
        if offer.refusal is None and math.isfinite(offer.estimate.seconds):
            solver = offer.solver
            assert solver.seconds(large, 1e-6) > solver.seconds(STRING, 1e-6), solver.name
            assert solver.seconds(large, 1e-8) > solver.seconds(large, 1e-4), solver.name


def test_the_reason_names_the_next_and_the_unsuited() -> None:
    solver, reason = choose(STRING)
    assert solver.name == "interior"
    head, following, unsuited = reason.split("; ")
    assert re.fullmatch(r"auto: interior, about 0\.0\d+ s", head)
    assert following.startswith("next ")
    assert unsuited.startswith("not suited: ascent, covering, factored")


def test_auto_leaves_teaching_out_and_cvxpy_unimported() -> None:
    assert not {"dykstra", "alternating"} & {offer.solver.name for offer in offers(STRING)}
    code = (
        "import sys, sdpkit\n"
        "program = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))\n"
        "assert sdpkit.solve(program).solver == 'interior'\n"
        "assert 'cvxpy' not in sys.modules\n"
    )
    folder = Path(__file__).resolve().parent.parent
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def test_no_solver_is_an_error_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "free_memory", lambda: 0.0)
    with pytest.raises(sdpkit.UnsuitableSolverError, match="interior: too little memory"):
        choose(STRING)


# -- solvers of other packages ----------------------------------------------------------------


class Guest:
    """A solver of another package: `interior` under another name."""

    name = "guest"
    capabilities = Capabilities()

    def unavailable(self) -> str | None:
        return None

    def memory(self, program: Program) -> float:
        return 0.0

    def solve(self, program: Program, settings: Settings) -> Answer:
        return get_solver("interior").solve(program, settings)


class Quick(Guest):
    """It says that it is the cheapest."""

    name = "quick"

    def accepts(self, program: Program) -> str | None:
        return None if len(program.blocks) == 1 else "takes one block; this program has more"

    def seconds(self, program: Program, tol: float) -> float:
        return 1e-6


@pytest.fixture
def enrol() -> Iterator[Callable[[Any], None]]:
    """Registers solvers for one test only."""
    with ExitStack() as stack:
        yield lambda solver: stack.enter_context(registry.registered(solver))


def test_a_guest_can_be_chosen(enrol: Callable[[Any], None]) -> None:
    enrol(Quick())
    solution = sdpkit.solve(STRING)
    assert solution.solver == "quick"
    assert solution.reason.startswith("auto: quick, about 1e-06 s; next interior")
    two = Program.of((STRING.blocks[0],) * 2, [1.0] * 6)
    assert choose(two)[0].name == "interior"
    with pytest.raises(sdpkit.UnsuitableSolverError, match="solver 'quick' takes one block"):
        sdpkit.solve(two, solver="quick")


def test_a_guest_without_a_forecast_is_the_last_choice(
    enrol: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    enrol(Guest())
    assert choose(STRING)[0].name == "interior"
    monkeypatch.setattr(choice, "free_memory", lambda: 0.5)
    assert choose(STRING)[0].name == "guest"
    assert "guest, no forecast" in choose(STRING)[1]


@pytest.mark.parametrize("seconds", [float("nan"), -1.0, "soon", None])
def test_a_senseless_forecast_counts_as_none(enrol: Callable[[Any], None], seconds: Any) -> None:
    quick = Quick()
    quick.seconds = lambda program, tol: seconds  # type: ignore[method-assign]
    enrol(quick)
    assert choose(STRING)[0].name == "interior"


def test_a_guest_that_breaks_when_asked_breaks_nothing_else(enrol: Callable[[Any], None]) -> None:
    broken = Quick()
    broken.accepts = lambda program: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    enrol(broken)
    assert choose(STRING)[0].name == "interior"
    with pytest.raises(sdpkit.UnsuitableSolverError, match=r"accepts\(\) raised ZeroDivisionError"):
        sdpkit.solve(STRING, solver="quick")
    broken.accepts = lambda program: True  # type: ignore[method-assign,assignment,return-value]
    assert "answered True in accepts()" in str(why_refused(broken, STRING))
    forgetful = Quick()
    forgetful.memory = lambda program: {}["size"]  # type: ignore[method-assign,index]
    enrol(forgetful)
    assert choose(STRING)[0].name == "interior"
    with pytest.raises(sdpkit.SolverError, match=r"memory\(\) raised KeyError"):
        sdpkit.solve(STRING, solver="quick")


def test_what_is_no_solver_is_refused_with_advice(enrol: Callable[[Any], None]) -> None:
    for wrong, words in [
        (Guest, r"Guest is a class\. Pass an object: Guest\(\)"),
        (SimpleNamespace(name=""), "has no name"),
        (SimpleNamespace(name="a"), "no attribute `capabilities`"),
        (SimpleNamespace(name="a", capabilities=Capabilities()), "no method `unavailable`"),
    ]:
        with pytest.raises(sdpkit.InputError, match=words):
            enrol(wrong)


BROKEN = """
from sdpkit.solution.solver import Capabilities
class AClass:
    name = "a-class"
class Half:
    name, capabilities = "half", Capabilities()
    def unavailable(self): return None
    def memory(self, program): return 0.0
class Alias(Half):
    name = "another"
    def solve(self, program, settings): raise NotImplementedError
class Moody(Alias):
    name = "moody"
    def unavailable(self): raise OSError("out of order")
HALF, ALIAS, MOODY = Half(), Alias(), Moody()
"""


@pytest.fixture
def broken_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """An installed package whose entry points are all wrong, and what is wrong with each."""
    (tmp_path / "brokensolvers.py").write_text(BROKEN)
    (tmp_path / "failingsolvers.py").write_text("raise RuntimeError('no licence')")
    info = tmp_path / "brokensolvers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brokensolvers\nVersion: 1.0\n")
    entries = {
        "a-class": ("brokensolvers:AClass", "AClass is a class. Pass an object: AClass()"),
        "half": ("brokensolvers:HALF", "'half' has no method `solve`"),
        "alias": ("brokensolvers:ALIAS", "its own name is 'another'"),
        "moody": ("brokensolvers:MOODY", "unavailable() raised OSError: out of order"),
        "absent": ("brokensolvers:NOTHING", "has no attribute 'NOTHING'"),
        "failing": ("failingsolvers:SOLVER", "RuntimeError: no licence"),
    }
    lines = [f"{name} = {location}" for name, (location, _) in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    with registry.registered(get_solver("interior")):  # and none of these afterwards
        yield {name: words for name, (_, words) in entries.items()}
    sys.modules.pop("brokensolvers", None)


def test_broken_entry_points_break_nothing_else(
    broken_plugins: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    names = available_solvers()
    assert "interior" in names
    assert not set(broken_plugins) & set(names)
    assert main(["solvers"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name, words in broken_plugins.items():
        assert f"{name} unavailable: " in printed
        assert words in printed
    assert sdpkit.solve(STRING).solver == "interior"
    with pytest.raises(sdpkit.InputError, match="cannot write checkpoints"):
        sdpkit.solve(STRING, solver="interior", checkpoint="nowhere.npz")
    for name in set(broken_plugins) - {"moody"}:
        with pytest.raises(sdpkit.SolverUnavailableError, match=f"solver '{name}' cannot be"):
            sdpkit.solve(STRING, solver=name)
    with pytest.raises(sdpkit.SolverUnavailableError, match="out of order"):
        sdpkit.solve(STRING, solver="moody")


def test_a_refusal_names_who_would_do() -> None:
    two = Program.of((Block.of(1, [[1.0]]),) * 2, [1.0, 1.0])
    with pytest.raises(sdpkit.UnsuitableSolverError) as caught:
        sdpkit.solve(two, solver="covering")
    assert str(caught.value).startswith(
        "solver 'covering' only solves minimum-volume covering programs; this program has 2 blocks."
        " Use solver='interior' or '"
    )
