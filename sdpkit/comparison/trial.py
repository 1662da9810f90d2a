"""One solver on one problem, once: what `sdpkit.compare` has a child process do.

Said as soon as it is known, so that it survives what comes after it:

    "described"     what the instance is: kind, sizes, fingerprint
    "loaded"        the solver is imported
    "started"       imports and first calls are over (they are not what is measured)
    "result"        how it ended and what it took
    "coordinates"   the embedding, which is not part of the time

The certificate is recomputed here, by our code, from the numbers that the solver returned.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import pickle
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpkit.comparison.measuring import forget_peak, timed
from sdpkit.comparison.models import ComparedModel, engine_of, is_cvxpy_solver
from sdpkit.comparison.native import attempt_model, describe_model
from sdpkit.errors import NotEnoughMemoryError, SolverUnavailableError, UnsuitableSolverError
from sdpkit.numerics.kernels import load_kernels
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.form import Program
from sdpkit.solution.answer import Stop
from sdpkit.solution.solution import Solution, Status
from sdpkit.solution.solver import Solver
from sdpkit.solving.choice import refusal
from sdpkit.solving.registry import GROUP, get_solver, is_ours, load, register_solver
from sdpkit.solving.solve import first_program, solve

if TYPE_CHECKING:
    from sdpkit.solution.process import Tell

# Points of an embedding that are kept.
_DRAWN = 500
# A warm start is the answer at a tolerance looser by this factor.
WARM_FACTOR = 100.0
# Seconds of the program itself before it counts.
_WARM_SECONDS = 0.25
_REFUSALS = (SolverUnavailableError, UnsuitableSolverError, NotEnoughMemoryError)
_LIMITS = (Status.TIME_LIMIT, Status.ITERATION_LIMIT, Status.INTERRUPTED)
_CLAIMS = (Stop.DONE, Stop.CLAIMS_INFEASIBLE, Stop.CLAIMS_UNBOUNDED)


@dataclass(frozen=True)
class Trial:
    """What is to be tried.

    Attributes
    ----------
    instance: name in `sdpkit.comparison.suites`, or "" if
    problem: a pickled problem or program is given
    solver: a name, or "module:attribute";  plugin: the pickled solver itself, or b""
    start: "cold" or "warm"
    """

    instance: str
    problem: bytes
    solver: str
    plugin: bytes
    tol: float
    time_limit: float
    start: str = "cold"

    def build(self) -> Any:
        """The problem object or program."""
        if self.instance:
            from sdpkit.comparison.suites import find

            return find(self.instance).build()
        return pickle.loads(self.problem)

    def name(self) -> str:
        """The name by which the registry of this process knows the solver."""
        if not self.plugin and ":" not in self.solver:
            return engine_of(self.solver) if is_cvxpy_solver(self.solver) else self.solver
        solver: Solver = pickle.loads(self.plugin) if self.plugin else load(self.solver)
        register_solver(solver)
        return solver.name


@one_blas_thread
def describe(tell: Tell, trial: Trial) -> None:
    """Compile the problem and say what it is."""
    problem = trial.build()
    if isinstance(problem, ComparedModel):
        describe_model(tell, problem)
        return
    tell("described", _description(problem, first_program(problem)))


@one_blas_thread
def attempt(tell: Tell, trial: Trial) -> None:
    """Build, compile, solve, certify; every exception is a result."""
    warnings.simplefilter("ignore")
    try:
        problem = trial.build()
        if isinstance(problem, ComparedModel):
            attempt_model(tell, trial, problem)
            return
        compiling = timed(lambda: first_program(problem))
        program, compiled = compiling.result, compiling.seconds
        tell("described", _description(problem, program))
        name = trial.name()
        tell("described", {**_description(problem, program), "solver_version": version(name)})
        ours = name == "auto" or is_ours(get_solver(name))
        if not ours:
            tell("loaded", None)
        _refuse(name, program)
        if ours:
            load_kernels()
        _warm_up(name, program, trial.time_limit)
        if ours:
            tell("loaded", None)  # it may have compiled kernels for a while
        forget_peak()
        tell("started", None)
        solution = _measured(tell, trial, name, problem, program, compiled)
    except _REFUSALS as error:
        tell("result", {"outcome": "refused", "message": str(error)})
    except MemoryError as error:
        words = str(error) or "an allocation failed"
        tell("result", {"outcome": "out_of_memory", "message": words})
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        tell("result", {"outcome": "error", "message": f"{type(error).__name__}: {error}"})
    else:
        tell("coordinates", _coordinates(problem, solution))


def _measured(
    tell: Tell, trial: Trial, name: str, problem: Any, program: Program, compiled: float
) -> Solution:
    # Problems of several programs compile each of them, and solve() counts that itself.
    several = callable(getattr(problem, "advance", None))
    asked = problem if several else program
    ask = partial(solve, asked, name, time_limit=trial.time_limit)
    before = None
    if trial.start == "warm":
        before = ask(tol=WARM_FACTOR * trial.tol)
        tell("started", None)
    run = timed(partial(ask, tol=trial.tol, warm_start=before))
    solution = run.result
    times = solution.times
    certificate = solution.certificate
    result = {
        "outcome": str(solution.status),
        "claimed": _claimed(solution),
        "message": solution.message,
        "native_status": solution.native_status,
        "objective": solution.objective,
        "bound": certificate.safe_bound,
        "gap": certificate.relative_gap,
        "primal_residual": certificate.primal_residual,
        "dual_residual": certificate.dual_residual,
        "iterations": -1 if solution.iterations is None else solution.iterations,
        **{name: getattr(times, name) for name in ("setup", "solve", "certify")},
        "compile": times.compile if several else compiled,
        "total": run.seconds if several else run.seconds + compiled,
        "peak": run.peak_bytes,
        "history": tuple(_numbers(entry) for entry in solution.history),
    }
    tell("result", {key: _plain(value) for key, value in result.items()})
    return solution


def _claimed(solution: Solution) -> bool:
    """Whether the solver said that it was done, and not only with some of several programs."""
    return solution.stop in _CLAIMS and solution.status not in _LIMITS


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of one entry of a history."""
    kinds = (int, float, np.number)
    return {str(key): float(value) for key, value in entry.items() if isinstance(value, kinds)}


def _refuse(name: str, program: Program) -> None:
    refused = None if name == "auto" else refusal(get_solver(name), program)
    if refused is not None:
        raise refused


def _warm_up(name: str, program: Program, limit: float) -> None:
    """Solve the program itself for a moment, so that imports and compilers are done.

    What goes wrong here will go wrong again when it counts, and is noted then.
    """
    try:
        solve(program, solver=name, tol=1e-2, time_limit=min(_WARM_SECONDS, limit))
    except Exception as error:
        print(f"warming up: {type(error).__name__}: {error}", file=sys.stderr)


# -- what an instance is --------------------------------------------------------------------


def _description(problem: Any, program: Program) -> dict[str, Any]:
    family = program.family
    return {
        "kind": type(problem).__name__.lower(),
        "n": _points(problem, program),
        "n_rows": program.n_rows if family is None else family.n_rows,
        "fingerprint": program.fingerprint,
        "sense": "" if callable(getattr(problem, "advance", None)) else program.sense,
        "value_floor": float(program.value_floor),
    }


def _points(problem: Any, program: Program) -> int:
    """How many points the problem has, or the sizes of all blocks where it has none."""
    for name in ("neighborhood", "network"):
        graph = getattr(problem, name, None)
        if graph is not None:
            return int(graph.n_points)
    if program.family is not None:
        return int(program.family.n_points)
    return sum(block.size for block in program.blocks)


def version(name: str) -> str:
    """The version of the package that a solver comes from; "" if it is no Python package."""
    if name == "auto":
        name = "interior"
    solver = get_solver(name)
    stated = getattr(solver, "version", None)
    if isinstance(stated, str):
        return stated
    for point in importlib.metadata.entry_points(group=GROUP):
        if point.name == name and point.dist is not None:
            return str(point.dist.version)
    package = getattr(solver, "package", type(solver).__module__.partition(".")[0])
    if hasattr(solver, "executable"):
        return ""  # a program on the PATH
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        module = sys.modules.get(package)
        return str(getattr(module, "__version__", ""))


def _coordinates(problem: Any, solution: Solution) -> list[tuple[float, float]] | None:
    """Two coordinates of some of the points, if the problem has an embedding or a metric."""
    try:
        recovered = _recovered(problem, solution)
        if hasattr(recovered, "transform"):
            recovered = recovered.transform(recovered.X)
        points = np.asarray(getattr(recovered, "coordinates", recovered), dtype=np.float64)
    except Exception:  # whatever a third party's problem may raise: there is no picture then
        return None
    if points.ndim != 2 or not np.isfinite(points).all():
        return None
    if points.shape[1] == 1:
        points = np.column_stack([points, np.zeros(len(points))])
    points = points[:: max(1, -(-len(points) // _DRAWN))]
    return [(float(x), float(y)) for x, y in points[:, :2]]


def _recovered(problem: Any, solution: Solution) -> Any:
    """What the problem makes of the solution; in two dimensions if it lets one choose."""
    if "n_components" in inspect.signature(problem.recover).parameters:
        return problem.recover(solution, n_components=2)
    return problem.recover(solution)
