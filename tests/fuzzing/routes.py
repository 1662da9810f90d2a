"""The ways in which a planted program reaches a solver, and what comes back.

program      `solve(program)`
sdpa         written to a `.dat-s` file, read and solved; half of the files without the comment
             that keeps sense and offset
cvxpy        `model.solve(solver=cvxpy_solver(name))`
from_cvxpy   `solve(from_cvxpy(model))`, unpacked into the model
certify      Clarabel's answer to the model, judged by `certify_cvxpy`
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.planted import Planted, Rng
from sdpkit.certificate.certificate import Certificate
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.sdpa import read_sdpa, write_sdpa
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.solve import solve

TOL = 1e-6
SECONDS = 5.0


@dataclass(frozen=True)
class Reply:
    """What a user was told, and what is true of what the user asked.

    Attributes
    ----------
    status, objective: as returned; the objective is None where there is no point
    planted: the truth in the sense and with the offset of what was solved
    certificate: of the answer; it belongs to `planted.program` where `own` is True
    """

    status: str
    objective: float | None
    planted: Planted
    certificate: Certificate | None
    own: bool = False

    @property
    def warned(self) -> bool:
        """Whether the certificate warns that a small error says little about the value."""
        return self.certificate is not None and bool(self.certificate.warnings)


def by_program(planted: Planted, solver: str, rng: Rng) -> Reply:
    """Solve the program as it is."""
    solution = solve(planted.program, solver=solver, tol=TOL, time_limit=SECONDS)
    return _reply(solution, planted, own=True)


def by_sdpa(planted: Planted, solver: str, rng: Rng) -> Reply:
    """Solve what a file says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "planted.dat-s"
        write_sdpa(planted.program, path)
        if rng.random() < 0.5:
            path.write_text(path.read_text().split("\n", 1)[1])
            planted = as_maximisation(planted)
        program = read_sdpa(path)
    solution = solve(program, solver=solver, tol=TOL, time_limit=SECONDS)
    return _reply(solution, replace(planted, program=program), own=True)


def as_maximisation(planted: Planted) -> Planted:
    """What the maximisation without an offset has as its optimum."""
    program, optimum = planted.program, planted.optimum
    if optimum is not None:
        optimum = int(program.sign) * (optimum - Fraction(program.offset))
    return replace(planted, optimum=optimum)


def by_cvxpy(planted: Planted, solver: str, rng: Rng) -> Reply:
    """Let cvxpy call one of our solvers."""
    import cvxpy

    import sdpkit

    model = as_model(planted)
    try:
        model.solve(solver=sdpkit.cvxpy_solver(solver), tol=TOL, time_limit=SECONDS)
    except cvxpy.error.SolverError:
        return Reply("solver_error", None, planted, None)
    certificate = model.solver_stats.extra_stats
    return Reply(model.status, _number(model.value), planted, certificate)


def by_program_of_model(planted: Planted, solver: str, rng: Rng) -> Reply:
    """Solve the model's program and unpack the solution."""
    import cvxpy

    import sdpkit

    model = as_model(planted)
    solution = solve(sdpkit.from_cvxpy(model), solver=solver, tol=TOL, time_limit=SECONDS)
    try:
        solution.unpack(model)
    except cvxpy.error.SolverError:
        return Reply("solver_error", None, planted, None)
    if solution.status is not Status.OPTIMAL:
        return Reply(model.status, _number(model.value), planted, solution.certificate)
    # The user sees both values: the worse of them counts.
    values = [float(solution.objective), float(model.value)]
    truth = float(planted.optimum) if planted.optimum is not None else 0.0
    worse = max(values, key=lambda value: abs(value - truth))
    return Reply("optimal", worse, planted, solution.certificate)


def by_certifying(planted: Planted, solver: str, rng: Rng) -> Reply:
    """Judge what Clarabel left in the model; it is optimal if the certificate passes."""
    import cvxpy

    import sdpkit

    model = as_model(planted)
    try:
        model.solve(solver="CLARABEL")
    except cvxpy.error.SolverError:
        return Reply("solver_error", None, planted, None)
    if any(v.value is None for v in model.variables()):
        return Reply("no_values", None, planted, None)
    certificate = sdpkit.certify_cvxpy(model)
    status = "optimal" if certificate.passes(TOL) else "inaccurate"
    return Reply(status, certificate.objective, planted, certificate)


def _reply(solution: Solution, planted: Planted, own: bool) -> Reply:
    return Reply(str(solution.status), solution.objective, planted, solution.certificate, own)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def as_model(planted: Planted) -> Any:
    """The program as a cvxpy model: PSD, nonnegative and free variables, its rows as they are."""
    return planted.model if planted.model is not None else model_of(planted.program)


def model_of(program: Program) -> Any:
    """A linear program without null directions as a cvxpy model."""
    import cvxpy as cp

    free = np.asarray(program.free_x)
    value: Any = program.offset
    lines: Any = np.zeros(program.n_rows)
    start, table = 0, program.matrix_rows
    for block, g in zip(program.blocks, program.split(program.cost_q), strict=True):
        m = cp.Variable((block.size, block.size), PSD=True)
        cost = block.cost.dense() + dense(block.adjoint(g))
        value = value + cp.sum(cp.multiply(cost, m))
        stop = start + block.size**2
        lines = lines + table[:, start:stop] @ cp.vec(m, order="F")
        start = stop
    for mine, x in ((free, {}), (~free, {"nonneg": True})):
        if mine.any():
            variable = cp.Variable(int(mine.sum()), **x)
            value = value + program.cost_x[mine] @ variable
            lines = lines + program.rows_x[:, np.flatnonzero(mine)] @ variable
    limits = []
    for relation, write in _RELATIONS.items():
        where = np.flatnonzero(program.relations == relation)
        if where.size:
            limits.append(write(lines[where], program.rhs[where]))
    goal = cp.Maximize(value) if program.sense == "max" else cp.Minimize(value)
    return cp.Problem(goal, limits)


_RELATIONS: dict[int, Callable[[Any, Any], Any]] = {
    0: lambda line, b: line == b,
    -1: lambda line, b: line <= b,
    1: lambda line, b: line >= b,
}

# Every route and how often it is drawn.
ROUTES: dict[str, tuple[Callable[[Planted, str, Rng], Reply], float]] = {
    "program": (by_program, 0.45),
    "sdpa": (by_sdpa, 0.25),
    "cvxpy": (by_cvxpy, 0.12),
    "from_cvxpy": (by_program_of_model, 0.1),
    "certify": (by_certifying, 0.08),
}
# What some kinds cannot be written as: penalties, families, null directions, second-order cones.
ROUTES_OF = {
    "log_det": ("program",),
    "hinges": ("program",),
    "mixed": ("program", "sdpa"),
    "cones": ("program", "cvxpy", "from_cvxpy", "certify"),
}
