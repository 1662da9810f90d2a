"""Files of SDPLIB, ours beside CSDP's answers: `make bench NAME=sdplib ARGS="--data FOLDER"`.

Every .dat-s file of the folder is solved by each solver at a tolerance of 1e-6. All answers are
judged by the same certificate, after the same repairs. Every solve has a process with a limit; its
processor seconds include the programs that it runs, and a first small solve loads the kernels.
"""

from __future__ import annotations

import math
import multiprocessing
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import sdpkit
from bench.threads import processor_time
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.errors import InputError

_SOLVERS = ("auto", "csdp")
_TOL, _LIMIT = 1e-6, 600.0
# Seconds after its limit that a process may take to load, to judge and to tell.
_GRACE = 120.0
_SETTLED = ("optimal", "infeasible", "unbounded")
_HEAD = (
    f"{'file':<12}{'n/m':>12}  {'solver':<10}{'status':<14}{'objective':>16}{'gap':>9}{'error':>9}"
    f"{'CPU s':>9}  called"
)


@dataclass(frozen=True)
class SdplibRun:
    """One solve.

    Attributes
    ----------
    file, size, solver: what was solved, its largest block and constraints, and by which solver
    status, objective, gap: as certified
    error: the smallest tolerance at which the answer passes
    seconds: of the processor
    called: the solvers that were called, for `auto`
    """

    file: str
    size: str
    solver: str
    status: str = "stopped"
    objective: float = math.nan
    gap: float = math.nan
    error: float = math.nan
    seconds: float = math.nan
    called: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether the answer is certified, or a ray is."""
        return self.status in _SETTLED

    def __str__(self) -> str:
        return (
            f"{self.file:<12}{self.size:>12}  {self.solver:<10}{self.status:<14}"
            f"{self.objective:>16.9g}{self.gap:>9.1e}{self.error:>9.1e}{self.seconds:>9.2f}  "
            f"{self.called}"
        )


def sdplib(
    data: Path,
    solvers: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    time_limit: float | None = None,
) -> None:
    """Print a line per file and solver, then what the first solver settles and the others do not.

    The others are compared with the first one.
    """
    files = [path for path in sorted(data.glob("*.dat-s")) if not names or path.stem in names]
    if not files:
        raise InputError(f"{data} holds no file .dat-s{' of these names' if names else ''}")
    chosen = tuple(solvers or _SOLVERS)
    print(_HEAD, flush=True)
    runs: list[SdplibRun] = []
    for path in sorted(files, key=lambda path: path.stat().st_size):
        for solver in chosen:
            runs.append(_alone(path, solver, _LIMIT if time_limit is None else time_limit))
            print(runs[-1], flush=True)
    for other in chosen[1:]:
        print("\n".join(_compared(runs, chosen[0], other)))


def _alone(path: Path, solver: str, limit: float) -> SdplibRun:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(path, solver, limit, theirs))
    process.start()
    theirs.close()
    found = SdplibRun(path.stem, "", solver)
    try:
        if ours.poll(limit + _GRACE):
            found = ours.recv()
    except EOFError:
        pass  # it was killed, for want of memory as a rule
    finally:
        process.kill()
        process.join()
    return found


def _work(path: Path, solver: str, limit: float, answer: Connection) -> None:
    quiet_solve(sdpkit.MVU(sdpkit.datasets.swiss_roll(30), n_neighbors=4), "interior")
    program = sdpkit.read_sdpa(path)
    sizes = [block.size for block in program.blocks]
    began = processor_time()
    solution = quiet_solve(program, solver, tol=_TOL, time_limit=limit)
    seconds = processor_time() - began
    certificate = solution.certificate
    called = [attempt.solver for attempt in solution.attempts] or [solution.solver]
    answer.send(
        SdplibRun(
            path.stem,
            f"{max(sizes)}/{program.n_rows}",
            solver,
            str(solution.status),
            solution.objective,
            certificate.relative_gap,
            certificate.largest_error,
            seconds,
            ", ".join(called),
        )
    )


def _compared(runs: list[SdplibRun], ours: str, other: str) -> list[str]:
    """How many files each settles, which ones only the other does, and the times on common ones."""
    by = {(run.file, run.solver): run for run in runs}
    pairs = [(by[f, ours], by[f, other]) for f in dict.fromkeys(run.file for run in runs)]
    counts = Counter((a.is_settled, b.is_settled) for a, b in pairs)
    alone = [b.file for a, b in pairs if b.is_settled and not a.is_settled]
    lines = [
        f"{len(pairs)} files; settled by {ours}: {counts[True, True] + counts[True, False]}, by "
        f"{other}: {counts[True, True] + counts[False, True]}",
        f"only by {other}: {', '.join(alone) or 'none'}",
    ]
    both = [a.seconds / b.seconds for a, b in pairs if a.is_settled and b.is_settled]
    if both:
        mean = float(np.exp(np.mean(np.log(both))))
        lines.append(
            f"seconds of {ours} over those of {other}, geometric mean where both settle: {mean:.2f}"
        )
    return lines
