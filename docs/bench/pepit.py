"""The examples of PEPit by `interior`, Clarabel beside: `make bench NAME=pepit`.

PEPit (Goujaud, Moucer, Glineur, Hendrickx, Taylor and Dieuleveut 2024) turns the worst case of a
first-order method into a semidefinite program: a small Gram matrix, free function values, and
constraints that leave little or no interior. Its examples are run as they are, with a
`cvxpy.Problem.solve` that solves each model twice. `--names` takes folders of examples.
"""

from __future__ import annotations

import contextlib
import io
import runpy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

import sdpkit
from bench.threads import processor_time
from sdpkit.errors import InputError, SdpkitError

_FOLDERS = (
    "unconstrained_convex_minimization",
    "composite_convex_minimization",
    "monotone_inclusions_variational_inequalities",
    "fixed_point_problems",
)
# Values agree up to this, relative to max(1, |value|).
_AGREES = 1e-5


@dataclass(frozen=True)
class PepitRun:
    """One model: status, value and processor seconds of both solvers, and our certified error."""

    example: str
    status: str
    value: float
    error: float
    seconds: float
    their_status: str
    their_value: float
    their_seconds: float

    @property
    def agrees(self) -> bool:
        """Whether both values are the same."""
        unit = max(1.0, abs(self.their_value))
        return bool(abs(self.value - self.their_value) <= _AGREES * unit)

    def __str__(self) -> str:
        return (
            f"{self.example:<52}{self.status:<20}{self.value:>13.8g}{self.error:>9.1e}"
            f"{self.seconds:>8.2f}  {self.their_status:<20}{self.their_value:>13.8g}"
            f"{self.their_seconds:>8.2f}{'' if self.agrees else '  differs'}"
        )


def pepit(names: Sequence[str] | None = None) -> int:
    """Print a line per model; 1 if a value differs that is not certified."""
    try:
        import PEPit
    except ImportError as error:
        raise InputError("this table needs PEPit: pip install pepit") from error
    examples = Path(str(PEPit.__file__)).parent / "examples"
    runs: list[PepitRun] = []
    print(f"{'example':<52}{'interior':<20}{'value':>13}{'error':>9}{'CPU s':>8}  Clarabel")
    for folder in names or _FOLDERS:
        for path in sorted((examples / folder).glob("[!_]*.py")):
            runs += _of_example(path)
    certified = sum(run.error <= _AGREES for run in runs)
    missed = [run for run in runs if not run.agrees and not run.error <= _AGREES]
    close = sum(run.agrees for run in runs)
    seconds = [max(run.seconds, 1e-3) / max(run.their_seconds, 1e-3) for run in runs]
    print(
        f"{len(runs)} models: {close} values agree with Clarabel's to {_AGREES:g}, {certified} are "
        f"certified to that; missed: {', '.join(run.example for run in missed) or 'none'}; "
        f"geometric mean of CPU seconds over Clarabel's {np.exp(np.mean(np.log(seconds))):.2f}"
    )
    return int(bool(missed))


def _of_example(path: Path) -> list[PepitRun]:
    """The models of one example, printed as they are solved."""
    runs: list[PepitRun] = []
    solve: Any = cp.Problem.solve

    def solved_twice(problem: cp.Problem, **_: Any) -> Any:
        run = _both(f"{path.parent.name[:14]}/{path.stem}"[:50], problem, solve)
        runs.append(run)
        return problem.value

    cp.Problem.solve = solved_twice
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            runpy.run_path(str(path), run_name="__main__")
    finally:
        cp.Problem.solve = solve
    for run in runs:
        print(run, flush=True)
    return runs


def _both(name: str, problem: cp.Problem, solve: Any) -> PepitRun:
    """Clarabel's answer, then ours, which stays in the model."""
    theirs = _timed(solve, problem, "CLARABEL")
    status, value, seconds = _timed(solve, problem, sdpkit.cvxpy_solver("interior"))
    error = np.nan
    if value is not None and np.isfinite(value):
        error = sdpkit.certify_cvxpy(problem).largest_error
    return PepitRun(name, status, value, error, seconds, *theirs)


def _timed(solve: Any, problem: cp.Problem, solver: Any) -> tuple[str, float, float]:
    began = processor_time()
    try:
        solve(problem, solver=solver)
    except (cp.error.SolverError, SdpkitError) as error:
        return type(error).__name__, np.nan, processor_time() - began
    value = np.nan if problem.value is None else float(problem.value)
    return str(problem.status), value, processor_time() - began


__all__ = ["pepit"]
