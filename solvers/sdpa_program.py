"""Solvers that are executables and read SDPA files: csdp, which Weinberger (2007) used, and
sdpa.

The program is reduced to its faces, written as `.dat-s` into a temporary folder, solved by the
executable found on the PATH, and read back. Both state

    max <F₀, Y>, <F_k, Y> = c_k, Y ⪰ 0      with dual      min cᵀx, Σ x_k F_k − F₀ ⪰ 0

so Y is our M and x our w, sign for sign.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from sdpkit.program.arrow import without_second_order_cones
from sdpkit.program.form import Program
from sdpkit.program.sdpa import standard_columns, write_sdpa
from sdpkit.solution.answer import Answer, Settings, Stop, with_second_order_cones
from sdpkit.solution.executable import WorkFolder
from sdpkit.solution.options import check_names
from sdpkit.solution.process import Returned, apart, can_fork
from sdpkit.solution.progress import LOG
from sdpkit.solution.reduction import reduce
from sdpkit.solution.solver import Capabilities, OwnSolver, dense_work, digits
from sdpkit.typing import Array

# Files of more entries are written in a process that can be stopped: a million take a second.
_MANY_ENTRIES = 1e6

# (Y blocks and diagonal, x), as read from a solution file.
Point = tuple[list[Array], Array]


@dataclass(frozen=True)
class SdpaProgram(OwnSolver):
    """An executable that reads `.dat-s` files.

    `command(executable, settings)` writes what it needs into the folder and returns the
    arguments; `read(folder, sizes, m)` returns the point; `stop(code, output)` translates.
    """

    name: str
    executable: str
    debian: str
    capabilities: Capabilities
    command: Callable[[Path, Settings], list[str]]
    read: Callable[[Path, list[int], int], Point]
    stop: Callable[[int, str], tuple[Stop, str]]
    slowness: float = 1.0

    def unavailable(self) -> str | None:
        """Why this solver cannot be used here, or None."""
        if shutil.which(self.executable) is None:
            return f"no {self.executable!r} on the PATH (Debian: {self.debian})"
        return None

    def memory(self, program: Program) -> float:
        """A dense Schur matrix and about a dozen n × n matrices, in bytes."""
        return 8.0 * (1.2 * program.n_rows**2 + 14 * sum(b.size**2 for b in program.blocks))

    def seconds(self, program: Program, tol: float) -> float:
        """By the n × n matrices and the Schur matrix."""
        work = self.slowness * dense_work(program)
        return 0.05 + digits(tol) / 6 * (1e-6 * work + 1e-9 * float(program.n_rows) ** 3)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Reduce, write, run, read, lift; second-order cones are blocks in the file."""
        started = time.perf_counter()
        arrow = without_second_order_cones(program)
        reduction = reduce(arrow.program)
        # The file maximises; the reduced program keeps its sense and `write_sdpa` negates.
        reduced = replace(reduction.program, offset=0.0)
        with WorkFolder() as folder:
            file = folder.path / "program.dat-s"
            written = _write_in_time(reduced, file, settings.time_limit)
            setup = time.perf_counter() - started
            if written.stop is not None:
                words = f"writing its input file {written.words}"
                return Answer(written.stop, words, setup_time=setup)
            if settings.deadline.left == 0:
                words = "the time limit was used up before it was called"
                return Answer(Stop.TIME_LIMIT, words, setup_time=setup)
            answer = self._run(folder, reduced, settings)
        solved = time.perf_counter() - started - setup
        lifted = reduction.lift(replace(answer, setup_time=setup, solve_time=solved))
        return with_second_order_cones(arrow, lifted)

    def _run(self, folder: WorkFolder, program: Program, settings: Settings) -> Answer:
        command = [self.executable, *self.command(folder.path, settings)]
        code, stopped = folder.run(command, settings.time_limit)
        output = (folder.path / "output").read_text(errors="replace")
        LOG.debug(output)
        stop, words = self.stop(code, output)
        if stopped is not None:
            reason = "at the time limit" if stopped is Stop.TIME_LIMIT else "by Ctrl-C"
            stop, words = stopped, f"{self.name} was stopped {reason}"
        columns = standard_columns(program)
        n_linear = columns.rows.shape[1]
        sizes = [block.size for block in program.blocks] + [-n_linear] * bool(n_linear)
        try:
            matrices, w = self.read(folder.path, sizes, program.n_rows)
        except (OSError, ValueError, IndexError):
            return Answer(stop if stop is not Stop.DONE else Stop.FAILED, words)  # no whole point
        linear = matrices.pop() if n_linear else np.zeros(0)
        point = tuple(matrices), columns.read(linear, program.n_auxiliary)
        iterations = _last_integer(r"^\s*(?:Iter:)?\s*(\d+)\s", output)
        if stop in (Stop.DONE, Stop.FAILED) and (iterations or 0) >= (settings.max_iter or np.inf):
            stop = Stop.ITERATION_LIMIT
        if stop is Stop.CLAIMS_INFEASIBLE:
            return Answer(stop, words, multiplier_ray=program.sign * w, iterations=iterations)
        if stop is Stop.CLAIMS_UNBOUNDED:
            return Answer(stop, words, matrix_ray=point, iterations=iterations)
        return Answer(stop, words, *point, program.sign * w, iterations=iterations)


def _write_in_time(program: Program, path: Path, seconds: float | None) -> Returned:
    """Write the input file, or say why that was stopped. Dense rows make files of gigabytes."""
    write = partial(write_sdpa, program, path)
    if _most_entries(program) > _MANY_ENTRIES and can_fork():
        return apart(write, seconds)
    write()
    return Returned()


def _most_entries(program: Program) -> float:
    """Nonzeros of costs and rows, at most."""
    total = 0.0
    for block, span in zip(program.blocks, program.spans, strict=True):
        n2 = float(block.size**2)
        nonzeros = np.full(block.n_measurements, n2)
        if block.features is None:
            nonzeros = np.square(np.diff(block.incidence.indptr).astype(float))
        rows = abs(program.rows_q[:, span]).sign() @ nonzeros
        dense_cost = bool(block.cost.factor.size)
        total += np.minimum(rows, n2).sum() + (n2 if dense_cost else block.cost.sparse.nnz)
    return float(total)


def _last_integer(pattern: str, text: str) -> int | None:
    found = re.findall(pattern, text, flags=re.MULTILINE)
    return int(found[-1]) if found else None


def _updated(name: str, values: dict[str, object], settings: Settings) -> dict[str, object]:
    """The solver's parameters with the user's options on top; unknown names are refused."""
    check_names(name, settings.options, values)
    return {**values, **settings.options}


# -- csdp -----------------------------------------------------------------------------------


def _csdp_command(folder: Path, settings: Settings) -> list[str]:
    tol = max(1e-10, min(1e-7, settings.tol * 1e-2))
    values: dict[str, object] = {
        "axtol": tol,
        "atytol": tol,
        "objtol": tol,
        "pinftol": 1e8,
        "dinftol": 1e8,
        "maxiter": settings.max_iter or 200,
        "minstepfrac": 0.9,
        "maxstepfrac": 0.97,
        "minstepp": 1e-10,
        "minstepd": 1e-10,
        "usexzgap": 1,
        "tweakgap": 0,
        "affine": 0,
        "printlevel": 1,
        "perturbobj": 0,
        "fastmode": 0,
    }
    values = _updated("csdp", values, settings)
    text = "".join(f"{name}={value}\n" for name, value in values.items())
    (folder / "param.csdp").write_text(text)
    return ["program.dat-s", "solution"]


def read_triplets(folder: Path, sizes: list[int], m: int) -> Point:
    """As csdp and dsdp write it: a line with x, then (1 = slack, 2 = Y), block, i, j, value."""
    with open(folder / "solution") as file:
        w = np.array(file.readline().split(), dtype=np.float64)
        numbers = np.array(file.read().split(), dtype=np.float64).reshape(-1, 5)
    if w.shape != (m,):
        raise ValueError("incomplete solution file")
    matrices = [np.zeros((n, n)) if n > 0 else np.zeros(-n) for n in sizes]
    numbers = numbers[numbers[:, 0] == 2]
    for k, matrix in enumerate(matrices, 1):
        part = numbers[numbers[:, 1] == k]
        i, j = part[:, 2].astype(int) - 1, part[:, 3].astype(int) - 1
        if matrix.ndim == 1:
            matrix[i] = part[:, 4]
        else:
            matrix[i, j] = matrix[j, i] = part[:, 4]
    return matrices, w


# csdp's exit codes; its primal is our maximisation.
_CSDP_STOPS = {
    0: (Stop.DONE, "success"),
    1: (Stop.CLAIMS_INFEASIBLE, "primal infeasible"),
    2: (Stop.CLAIMS_UNBOUNDED, "dual infeasible"),
    3: (Stop.DONE, "partial success"),
    4: (Stop.ITERATION_LIMIT, "maximum iterations reached"),
    5: (Stop.FAILED, "stuck at edge of primal feasibility"),
    6: (Stop.FAILED, "stuck at edge of dual infeasibility"),
    7: (Stop.FAILED, "lack of progress"),
    8: (Stop.FAILED, "X, Z or O singular"),
    9: (Stop.FAILED, "NaN or Inf in the iteration"),
}


def _csdp_stop(code: int, output: str) -> tuple[Stop, str]:
    return _CSDP_STOPS.get(code, (Stop.FAILED, f"exit code {code}: {output.strip()[-200:]}"))


# -- sdpa -----------------------------------------------------------------------------------


def _sdpa_command(folder: Path, settings: Settings) -> list[str]:
    tol = max(1e-9, min(1e-7, settings.tol * 1e-2))
    values: dict[str, object] = {
        "maxIteration": settings.max_iter or 200,
        "epsilonStar": tol,
        "lambdaStar": 1e2,
        "omegaStar": 2.0,
        "lowerBound": -1e5,
        "upperBound": 1e5,
        "betaStar": 0.1,
        "betaBar": 0.3,
        "gammaStar": 0.9,
        "epsilonDash": tol,
    }
    values = _updated("sdpa", values, settings)
    prints = [f"%+.16e\t{name}" for name in ("xPrint", "XPrint", "YPrint", "infPrint")]
    lines = [f"{value}\t{name}" for name, value in values.items()]
    (folder / "param.sdpa").write_text("\n".join(lines + prints) + "\n")
    return ["-ds", "program.dat-s", "-o", "solution", "-p", "param.sdpa"]


def _sdpa_read(folder: Path, sizes: list[int], m: int) -> Point:
    """`xVec = {…}`, `xMat = {…}`, `yMat = {…}` with the blocks one after the other."""
    text = (folder / "solution").read_text()
    w = _braced(text, "xVec")
    y = _braced(text, "yMat")
    if w.shape != (m,):
        raise ValueError("incomplete solution file")
    matrices, start = [], 0
    for n in sizes:
        count = n * n if n > 0 else -n
        part = y[start : start + count]
        matrices.append(part.reshape(n, n) if n > 0 else part)
        start += count
    if start != y.size:
        raise ValueError("incomplete solution file")
    return matrices, w


def _braced(text: str, name: str) -> Array:
    """All numbers after `name =` up to the next heading."""
    start = text.index(f"{name} =") + len(name) + 2
    stop = re.search(r"[A-Za-z]{3,}", text[start:])
    part = text[start : start + stop.start()] if stop else text[start:]
    numbers = re.findall(r"[-+]?\d+\.\d+(?:[eE][-+]?\d+)?", part)
    return np.array(numbers, dtype=np.float64)


def _sdpa_stop(code: int, output: str) -> tuple[Stop, str]:
    """`phase.value`: in SDPA's words the primal is the LMI, so the roles are exchanged."""
    found = re.search(r"phase\.value\s*=\s*(\w+)", output)
    if code != 0 or not found:
        return Stop.FAILED, f"exit code {code}: {output.strip()[-200:]}"
    phase = found.group(1)
    if phase in ("pINF", "pINF_dFEAS", "dUNBD"):
        return Stop.CLAIMS_UNBOUNDED, phase
    if phase in ("dINF", "pFEAS_dINF", "pUNBD"):
        return Stop.CLAIMS_INFEASIBLE, phase
    return (Stop.FAILED if phase == "pdINF" else Stop.DONE), phase


CSDP = SdpaProgram(
    "csdp",
    "csdp",
    "coinor-csdp",
    Capabilities(
        second_order=True,
        stops_itself=True,
        summary="interior point by file; the solver of Weinberger (2007)",
    ),
    _csdp_command,
    read_triplets,
    _csdp_stop,
)
SDPA = SdpaProgram(
    "sdpa",
    "sdpa",
    "sdpa",
    Capabilities(second_order=True, stops_itself=True, summary="interior point by file"),
    _sdpa_command,
    _sdpa_read,
    _sdpa_stop,
    slowness=2.0,
)
