"""Every answer in cvxpy's own test suite, certified: `make bench NAME=cvxpy-suite`.

The suite runs with a `problem.solve` that certifies each answer that a solver calls optimal. A
reference of its own, Clarabel at 1e-10 on the conic data, says which answers are right: value and
constraints to 1e-6. Whether a model has a strictly feasible dual is asked there too.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Files without solves, or whose models are not convex in cvxpy's first sense.
_LEFT_OUT = ("test_copt_write.py", "test_gurobi_write.py", "test_openmp_conflict.py")
# Seconds for a file of tests.
_LIMIT = 900
# An answer is right up to this, and wrong from that on; certificates are asked for the tolerance.
_RIGHT, _WRONG, _TOL = 1e-6, 1e-4, 1e-5
# Margins of a strictly feasible dual point.
_MARGINS = (1e-2, 1e-4)


def cvxpy_suite(only: str | None = None) -> None:
    """Print how many right answers are certified, how many wrong ones, and each exception."""
    import cvxpy.tests

    files = sorted(Path(str(cvxpy.tests.__file__)).parent.glob("test_*.py"))
    with tempfile.TemporaryDirectory() as folder:
        records = []
        for file in files:
            if file.name in _LEFT_OUT or (only is not None and only not in file.name):
                continue
            place = Path(folder) / "answers.jsonl"
            _run(file, place)
            found = [json.loads(line) for line in place.read_text().splitlines()]
            print(f"{file.name}: {len(found)} answers", file=sys.stderr, flush=True)
            records += found
    _print(records)


def _run(file: Path, place: Path) -> None:
    """One file of tests in a process, so that it can be stopped."""
    place.write_text("")
    code = f"from bench.cvxpy_suite import record; record({str(file)!r}, {str(place)!r})"
    command = [sys.executable, "-c", f"import sys; sys.path[0] = {sys.path[0]!r}; {code}"]
    try:
        subprocess.run(command, timeout=_LIMIT, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        print(f"{file.name}: stopped after {_LIMIT} s", file=sys.stderr)


def _print(records: list[dict[str, Any]]) -> None:
    judged = [r for r in records if r["right"] is not None]
    groups = {
        "right to 1e-6, strictly feasible dual": [
            r for r in judged if r["right"] and r["strict"] is True
        ],
        "right to 1e-6, no such dual found": [
            r for r in judged if r["right"] and r["strict"] is not True
        ],
        "in between": [r for r in judged if not r["right"] and not r["wrong"]],
        "wrong by more than 1e-4": [r for r in judged if r["wrong"]],
    }
    print(f"{len(records)} answers called optimal, {len(judged)} with a reference")
    for name, rows in groups.items():
        passed = sum(r["passes"] for r in rows)
        share = 100 * passed / max(len(rows), 1)
        print(f"{name:<40}{len(rows):>6}   certified at {_TOL:g}: {passed:>5}  {share:.1f} %")
    seconds = sorted(r["seconds"] for r in records) or [math.nan]
    print(
        f"seconds for a certificate: median {seconds[len(seconds) // 2]:.3f}, "
        f"95 % below {seconds[int(0.95 * (len(seconds) - 1))]:.3f}"
    )
    first = groups["right to 1e-6, strictly feasible dual"]
    for words, rows in (
        ("right and not certified", [r for r in first if not r["passes"]]),
        ("wrong and certified", [r for r in groups["wrong by more than 1e-4"] if r["passes"]]),
    ):
        print(f"\n{words}:")
        for (test, solver, why), count in Counter(
            (r["test"], r["solver"], r["why"]) for r in rows
        ).items():
            print(f"  {count} × {test} [{solver}]: {why}")


# -- in the process of one file -------------------------------------------------------------


def record(file: str, place: str) -> None:
    """Run a file of tests and write a line for each answer."""
    import cvxpy
    import pytest

    solve: Callable[..., Any] = cvxpy.Problem.solve
    busy, name = [False], [""]

    def recorded(problem: Any, *args: Any, **options: Any) -> Any:
        outer, busy[0] = not busy[0], True
        try:
            value = solve(problem, *args, **options)
            if outer and problem.status == cvxpy.OPTIMAL:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    line = _judged(problem, name[0])
                if line is not None:
                    with Path(place).open("a") as out:
                        out.write(json.dumps(line) + "\n")
            return value
        finally:
            if outer:
                busy[0] = False

    class Names:
        @staticmethod
        def pytest_runtest_setup(item: Any) -> None:
            name[0] = f"{Path(file).name}::{item.name}"

    cvxpy.Problem.solve = recorded  # type: ignore[method-assign]
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull]
    pytest.main([*options, file], plugins=[Names()])


def _judged(problem: Any, test: str) -> dict[str, Any] | None:
    """What a certificate says of the values in a model, and whether they are right."""
    import sdpkit

    if not problem.variables() or not problem.is_dcp() or problem.is_mixed_integer():
        return None
    start = time.process_time()
    try:
        certificate = sdpkit.certify_cvxpy(problem)
        passes, why = bool(certificate.passes(_TOL)), "; ".join(certificate.failures(_TOL))
    except sdpkit.SdpkitError as error:
        passes, why = False, f"{type(error).__name__}: {error}"
    except Exception as error:  # a defect, which the table shows
        passes, why = False, f"defect {type(error).__name__}: {error}"
    seconds = time.process_time() - start
    right, wrong, strict = _compared(problem)
    return {
        "test": test,
        "solver": str(getattr(problem.solver_stats, "solver_name", "")),
        "passes": passes,
        "why": why,
        "seconds": seconds,
        "right": right,
        "wrong": wrong,
        "strict": strict,
    }


def _compared(problem: Any) -> tuple[bool | None, bool, bool | None]:
    """(right, wrong, has a strictly feasible dual); right is None without a reference."""
    from sdpkit.conic.joint_step import solved, strictly_feasible
    from sdpkit.conic.judging import NonlinearModel, largest_violation

    try:
        data = NonlinearModel(problem).conic()
        found = solved(data, 1e-10)
    except Exception:  # cvxpy cannot compile it for a conic solver
        return None, False, None
    if found is None:
        return None, False, None
    x, y = found
    upper = float(data.cost @ x + 0.5 * x @ (data.squares @ x) + data.offset)
    lower = data.dual_value(x, y)
    unit = max(1.0, abs(upper))
    if not abs(upper - lower) <= 1e-7 * unit:
        return None, False, None
    value = data.sign * float(problem.objective.value)
    off = max(abs(value - upper) / unit, largest_violation(problem)[0])
    strict = any(strictly_feasible(data, margin) is not None for margin in _MARGINS)
    return bool(off <= _RIGHT), not off <= _WRONG, strict
