"""Theorems about whole files: `make bench NAME=theorems ARGS="--data FOLDER"`.

Every .dat-s file of the folder, and programs of the same kinds that are generated here, are solved,
enclosed by `certificate.verify()`, proven, and the proof is checked by `sdpkit/proof/check.py` in a
process that has nothing but Python's standard library. One line per program. Every program has a
process and a limit, so that one cannot take the others with it.
"""

from __future__ import annotations

import multiprocessing
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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

# Jansson's VSDP on SDPLIB, the best of five solvers per problem: problems with rigorous bounds from
# both sides, narrower than 1e-6, of how many; and what it has no bounds for.
VSDP = (55, 43, 92)
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
    f"{'program':<13} {'n/m':<10} {'status':<13} {'theorem':<11} {'lower end':<22} "
    f"{'upper end':<22} {'width':>8} {'verify':>8} {'solve s':>8} {'verify s':>8} {'prove s':>8} "
    f"{'check s':>8} {'MB':>6}"
)


def _text(line: Line) -> str:
    ends = [("" if v is None else f"{v:.15g}").ljust(22) for v in (line.lower, line.upper)]
    seconds = [line.solve, line.verify, line.prove, line.check]
    return (
        f"{line.name:<13} {line.size:<10} {line.status:<13} {line.claim:<11} {ends[0]} {ends[1]} "
        f"{_short(line.width)} {_short(line.verified)} "
        + " ".join(f"{v:8.2f}" if np.isfinite(v) else f"{'–':>8}" for v in seconds)
        + (f" {line.megabytes:6.2f}" if np.isfinite(line.megabytes) else f" {'–':>6}")
    )


def _short(width: float) -> str:
    return f"{width:8.1e}" if np.isfinite(width) else f"{'–':>8}"


def _summary(lines: list[Line]) -> str:
    claims = Counter(line.claim for line in lines)
    narrow = sum(line.width <= _NARROW for line in lines)
    refused = sum(line.claim.startswith("refused") for line in lines)
    ratios = [line.verify / line.solve for line in lines if line.solve > 0]
    both, tight, of = VSDP
    return (
        f"{len(lines)} programs: two-sided theorems on {claims['enclosed']}, {narrow} of them at "
        f"most {_NARROW:g} wide; infeasible or unbounded {claims['infeasible']} and "
        f"{claims['unbounded']}; {refused} proofs not rechecked.\n"
        f"VSDP, published for SDPLIB, best of five solvers: two-sided on {both} of {of}, {tight} "
        f"narrower than 1e-6.\n"
        f"verify() / solve, median: {np.nanmedian(ratios):.2f}"
    )
