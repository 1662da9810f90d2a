"""Theorems about whole files: `make bench NAME=theorems ARGS="--data FOLDER"`.

Every .dat-s file of the folder, and programs of the same kinds that are generated here, are solved,
enclosed by `certificate.verify()`, proven, and the proof is checked by `sdpkit/proof/check.py` in a
process that has nothing but Python's standard library. It prints a table in Markdown, one row per
program as soon as it is done. Every program has a process and a limit, so that one cannot take the
others with it.

`vsdp.csv` holds what VSDP 2020 has published for SDPLIB (benchmark of December 2018, the best of
five solvers for each problem): the relative width of the rigorous bounds, inf where they are
one-sided.
"""

from __future__ import annotations

import csv
import multiprocessing
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import numpy as np

from bench.strangers import write_all
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.errors import InputError
from sdpkit.numerics.deadline import Deadline
from sdpkit.proof import check
from sdpkit.proof.prove import Proof
from sdpkit.solving.proving import ProgramFile, prove_solution

VSDP = Path(__file__).with_name("vsdp.csv")
T = TypeVar("T")
_TOL, _NARROW = 1e-8, 1e-6
_LIMIT, _CHECK_SECONDS = 600.0, 120.0


@dataclass(frozen=True)
class Line:
    """What was found about a program; seconds of the processor."""

    name: str
    size: str
    status: str
    claim: str
    lower: float | None = None
    upper: float | None = None
    width: float = np.inf
    verified: float = np.inf
    solve: float = np.nan
    verify: float = np.nan
    prove: float = np.nan
    check: float = np.nan
    megabytes: float = np.nan


def theorems(
    data: Path | None = None, time_limit: float | None = None, names: list[str] | None = None
) -> None:
    """Print a line per program, then how many are enclosed."""
    limit = _LIMIT if time_limit is None else time_limit
    with tempfile.TemporaryDirectory() as folder:
        generated = write_all(Path(folder)) if data is None else []
        files = [*generated, *(sorted(data.glob("*.dat-s")) if data else [])]
        if names:
            files = [path for path in files if path.name.removesuffix(".dat-s") in names]
        if not files:
            raise InputError(f"{data} holds no file .dat-s of these names")
        print(_HEAD, flush=True)
        lines = []
        for path in files:
            lines.append(_alone(path, limit))
            print(_text(lines[-1]), flush=True)
        print(_summary(lines))


# -- one program ------------------------------------------------------------------------------


def _alone(path: Path, limit: float) -> Line:
    """The line of a file, from a process that is stopped when its time is over."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(path, limit, theirs))
    process.start()
    theirs.close()
    found = None
    try:
        while ours.poll(limit):
            found = ours.recv()
            if np.isfinite(found.prove):
                break
    except EOFError:
        pass
    finally:
        process.kill()
        process.join()
    return found or Line(path.name.removesuffix(".dat-s"), "", "stopped", "none")


def _work(path: Path, limit: float, answer: Connection) -> None:
    name = path.name.removesuffix(".dat-s")
    file = ProgramFile.read(path)
    size = f"{max(file.statement['blocks'], default=0)}/{len(file.statement['rows'])}"
    solution, solving = _counted(lambda: quiet_solve(file.program, tol=_TOL, time_limit=limit / 2))
    verified, verifying = _counted(
        solution.ray.verify if solution.ray is not None else solution.certificate.verify
    )
    width = verified.width if solution.ray is None else np.inf
    found = Line(name, size, str(solution.status), "none", None, None, np.inf, width, solving)
    answer.send(found)
    proof, proving = _counted(
        lambda: prove_solution(file, solution, "auto", Deadline.after(limit / 2))
    )
    seconds = (solving, verifying, proving)
    answer.send(_line(name, size, str(solution.status), proof, width, seconds))


def _counted(action: Callable[[], T]) -> tuple[T, float]:
    """(what it returned, processor seconds) with those of the solvers that it started."""
    before = _processor_seconds()
    result = action()
    return result, _processor_seconds() - before


def _processor_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def _line(
    name: str,
    size: str,
    status: str,
    proof: Proof | None,
    verified: float,
    seconds: tuple[float, float, float],
) -> Line:
    if proof is None:
        return Line(name, size, status, "none", None, None, np.inf, verified, *seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.json.gz"
        proof.save(path)
        said, checking = _checked(path)
        megabytes = path.stat().st_size / 1e6
    claim = "infeasible" if "no feasible point" in said else "unbounded"
    claim = claim if "infeasible" in proof.found or "direction" in proof.found else "enclosed"
    if not said.startswith("theorem"):
        claim = f"refused: {said}"
    lower, upper = proof.lower, proof.upper
    width = _width(lower, upper)
    if claim == "enclosed" and not np.isfinite(width):
        claim = "one end"
    ends = [None if v is None else float(v) for v in (lower, upper)]
    times = (*seconds, checking, megabytes)
    return Line(name, size, status, claim, ends[0], ends[1], width, verified, *times)


def _width(lower: Fraction | None, upper: Fraction | None) -> float:
    if lower is None or upper is None:
        return np.inf
    return float((upper - lower) / max(1, abs(lower), abs(upper)))


def _checked(path: Path) -> tuple[str, float]:
    """(what the checker prints, its seconds) in a process without any package."""
    command = [sys.executable, "-I", "-S", str(check.__file__), str(path)]

    def ran() -> str:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_CHECK_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {_CHECK_SECONDS:.0f} s"
        return (done.stdout or done.stderr).strip()

    return _counted(ran)


# -- texts ------------------------------------------------------------------------------------

_HEAD = (
    "| program | n/m | theorem | lower end | upper end | width | VSDP | `verify` | solve | verify "
    "| prove | check | MB |\n|" + "---|" * 13
)


def published() -> dict[str, str]:
    """Program → the width of VSDP's bounds; `inf` for one side, `infeasible` for no bounds.

    >>> published()["control3"], published()["gpp100"]
    ('8.0862e-07', 'inf')
    """
    with VSDP.open(encoding="utf-8", newline="") as file:
        return {row["program"]: row["width"] for row in csv.DictReader(file)}


def _text(line: Line) -> str:
    ends = [_end(line.lower, ROUND_FLOOR), _end(line.upper, ROUND_CEILING)]
    theirs = published().get(line.name, "nan")
    theirs = theirs if theirs == "infeasible" else _short(float(theirs))
    widths = [_short(line.width), theirs, _short(line.verified)]
    seconds = [line.solve, line.verify, line.prove, line.check]
    words = [f"{v:.2f}" if np.isfinite(v) else "–" for v in (*seconds, line.megabytes)]
    return f"| {' | '.join([line.name, line.size, line.claim, *ends, *widths, *words])} |"


def _end(value: float | None, rounding: str) -> str:
    """Twelve digits, rounded outwards."""
    return "–" if value is None else f"{Context(12, rounding).create_decimal(value).normalize():g}"


def _short(width: float) -> str:
    return f"{width:.1e}" if np.isfinite(width) else "–"


def _summary(lines: list[Line]) -> str:
    claims = Counter(line.claim for line in lines)
    narrow = sum(line.width <= _NARROW for line in lines)
    refused = sum(line.claim.startswith("refused") for line in lines)
    ratios = [line.verify / line.solve for line in lines if line.solve > 0]
    widths = [float(v) for v in published().values() if v != "infeasible"]
    both, tight = np.isfinite(widths).sum(), sum(v <= _NARROW for v in widths)
    return (
        f"\n{len(lines)} programs: two-sided theorems on {claims['enclosed']}, {narrow} of them at "
        f"most {_NARROW:g} wide; infeasible or unbounded {claims['infeasible']} and "
        f"{claims['unbounded']}; {refused} proofs not rechecked.\n"
        f"VSDP, published for SDPLIB, best of five solvers: two-sided on {both} of "
        f"{len(published())}, {tight} narrower than 1e-6.\n"
        f"verify() / solve, median: {np.nanmedian(ratios):.2f}"
    )
