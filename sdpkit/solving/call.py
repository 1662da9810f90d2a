"""`sdpkit.solve`: choose, compile, call, repair, certify.

The status is granted here from the certificate alone:

    optimal                        gap, residuals and eigenvalues meet tol
    infeasible, unbounded          a ray was found and verified
    time_limit, iteration_limit,   the solver stopped there, and the certificate does not pass
    interrupted
    stationary                     the end of a search over several programs, each certified
    inaccurate                     anything else; the message says what was reached

Two questions are asked of the same solver a second time, as programs of their own:

* a solver that claims there is no solution rarely hands out its ray through a modelling layer.
  Infeasibility is the dual of the *elastic* program  min Σ|residual|, unboundedness the
  *recession* program  max <C, M> over rows with right-hand side zero and tr M ≤ 1.
* where no repair of the dual is known and it misses feasibility by rounding, the program is
  solved once more with a margin, S ⪰ δI, which moves the value by δ·tr M only.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.certificate.judge import (
    Certificate,
    Ray,
    certify,
    certify_infeasible,
    certify_unbounded,
    project_onto_cone,
)
from sdpkit.errors import InputError, SolverError
from sdpkit.numerics.kernels import clock
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.form import Block, Program
from sdpkit.program.gram import (
    FactoredGram,
    Gram,
    Matrix,
    ResolventGram,
    StackedGram,
    is_finite,
    scaled,
    trace,
)
from sdpkit.solution.answer import Answer, Settings, Solution, Status, Stop, Times
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solving.registry import Solver, choose, get_solver, is_ours, known_solvers, refusal
from sdpkit.solving.trajectory import Advancing, follow

Array = NDArray[np.float64]

# Rays are accepted at this relative violation at most, however loose `tol` is.
_RAY_TOL = 1e-7

# Rows and sizes up to which one BLAS thread is faster than several.
_ONE_THREAD = 400

# How a solve may end without a warning.
_CLEAR = (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED, Status.STATIONARY)

_LIMITS = {
    Stop.TIME_LIMIT: Status.TIME_LIMIT,
    Stop.ITERATION_LIMIT: Status.ITERATION_LIMIT,
    Stop.INTERRUPTED: Status.INTERRUPTED,
}


class ConvergenceWarning(UserWarning):
    """The certificate did not pass at the tolerance that was asked for."""


class Problem(Protocol):
    """Anything that compiles to a program."""

    def program(self) -> Program:
        """The problem in the common form."""


def solve(
    problem: Problem | Advancing | Program,
    solver: str = "auto",
    tol: float | None = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    verbose: int = 0,
    callback: Callable[[Mapping[str, Any]], Any] | None = None,
    warm_start: Solution | None = None,
    checkpoint: str | Path | None = None,
    **options: Any,
) -> Solution:
    """Solve a problem object or a `Program` and certify the answer.

    Parameters
    ----------
    problem: anything with a `program()` method, or a `Program`; a problem with an `advance()`
        method takes several programs (`sdpkit.solving.trajectory`), each started from the
        one before
    solver: a name from `available_solvers()`, or "auto" (the rule is in `sdpkit.solving.registry`)
    tol: the certified relative gap, and the residuals, at which an answer counts as optimal; by
        default the problem's own `default_tol`, else 1e-6
    max_iter, time_limit: limits on iterations and on seconds; a solver looks at the clock
        between its iterations only; of several programs, the time is that of all together
    verbose: 0 silent, 1 the solution at the end, 2 the solver's own output too
    callback: called once per iteration by solvers that can, else once at the end; where it returns
        True the solver stops, and the best point is judged as `interrupted`
    warm_start: a solution of this or a nearby program
    checkpoint: a file to which the solver's state is written every half minute, and from which it
        goes on if it is there already; of several programs, the state of the first
    options: passed to the solver unchanged

    >>> import sdpkit
    >>> pentagon = sdpkit.datasets.cycle_graph(5)
    >>> solution = sdpkit.solve(sdpkit.MVU(graph=pentagon), solver="clarabel")
    >>> solution.status.value, round(solution.objective, 5)      # 5 / (4 sin²(π/5))
    ('optimal', 3.61803)
    """
    _check_arguments(problem, solver, callback, warm_start)
    settings = Settings(
        _positive("tol", getattr(problem, "default_tol", 1e-6) if tol is None else tol),
        None if max_iter is None else _whole("max_iter", max_iter),
        None if time_limit is None else _positive("time_limit", time_limit),
        verbose,
        callback,
        warm_start,
        options,
    )
    if callable(getattr(problem, "advance", None)):
        files = iter([checkpoint])  # the first program's; those after it depend on its answer

        def solve_step(program: Program, left: Settings) -> Solution:
            return _solve_one(program, left, solver, next(files, None))

        solution = follow(cast(Advancing, problem), solve_step, settings)
    else:
        solution = _solve_one(cast(Problem | Program, problem), settings, solver, checkpoint)
    if verbose:
        print(solution if solution.trajectory is None else f"{solution.trajectory}\n{solution}")
    if solution.status not in _CLEAR:
        warnings.warn(f"{solution.status}: {solution.message}", ConvergenceWarning, stacklevel=2)
    return solution


def _check_arguments(problem: Any, solver: Any, callback: Any, warm_start: Any) -> None:
    if isinstance(problem, type):
        raise InputError(f"solve takes a problem, not its class: {problem.__name__}(…) makes one")
    if not isinstance(solver, str):
        raise InputError(f"solver is {solver!r}; pass one name, and several to sdpkit.compare")
    if callback is not None and not callable(callback):
        raise InputError(f"callback is {callback!r}; pass a function of one mapping")
    if warm_start is not None and not isinstance(warm_start, Solution):
        raise InputError(f"warm_start is a {type(warm_start).__name__}; pass a Solution")


def _solve_one(
    problem: Problem | Program, settings: Settings, name: str, file: str | Path | None = None
) -> Solution:
    """Compile, choose, call, certify: one program."""
    started = clock()
    program = compiled_program(problem)
    compiled = clock() - started
    chosen, reason = _choose(name, program)
    if file is not None:
        settings = replace(settings, checkpoint=_checkpoint(file, program, chosen))
    with _fitting_threads(program):
        answer = _nothing_left(program) or _no_rows(program) or _ask(program, chosen, settings)
        rest = _remaining(settings, started)
        solution = _judge(program, chosen, reason, rest, answer, compiled)
        rest = _remaining(settings, started)
        able = chosen.capabilities.plain  # with a margin, a special program is one no longer
        if able and rest.time_limit != 0 and _wants_margin(solution, answer, settings.tol):
            solution = _with_margin(solution, chosen, rest)
    if settings.callback is not None and not chosen.capabilities.callback:
        gap = solution.certificate.relative_gap
        settings.callback({"objective": solution.objective, "gap": gap})
    return solution


def _checkpoint(path: str | Path, program: Program, solver: Solver) -> Checkpoint:
    if not solver.capabilities.checkpoint:
        able = [name for name in known_solvers() if get_solver(name).capabilities.checkpoint]
        raise InputError(f"{solver.name} keeps no checkpoints; {', '.join(able)} do")
    return Checkpoint(path, program.fingerprint, solver.name)


def compiled_program(problem: Problem | Program) -> Program:
    """A program as it is, a problem compiled; anything else is refused."""
    if isinstance(problem, Program):
        return problem
    if not callable(getattr(problem, "program", None)):
        raise InputError(
            f"solve takes a problem object or a Program, not {type(problem).__name__}; "
            "wrap the data first, e.g. sdpkit.MVU(X)"
        )
    return problem.program()


def _remaining(settings: Settings, started: float) -> Settings:
    """The settings with what is left of the time limit, 0 when it is used up."""
    if settings.time_limit is None:
        return settings
    left = settings.time_limit - (clock() - started)
    return replace(settings, time_limit=max(left, 0.0))


def _fitting_threads(program: Program) -> Any:
    """One BLAS thread for small programs: more cost more than they bring, and on a busy machine
    they wait for each other."""
    largest = max(program.n_rows, *(block.size for block in program.blocks))
    return one_blas_thread() if largest <= _ONE_THREAD else nullcontext()


def _ask(program: Program, solver: Solver, settings: Settings) -> Answer:
    if program.family is None or solver.capabilities.families:
        before = program.fingerprint if not is_ours(solver) else ""
        answer = solver.solve(program, settings)
        if before and replace(program).fingerprint != before:
            raise SolverError(f"solver {solver.name!r} changed the program that it was given")
        return answer
    from sdpkit.solving.generation import by_rows

    return by_rows(program, solver, settings)


def _nothing_left(program: Program) -> Answer | None:
    """M = 0 and x = 0 where they prove themselves optimal (all points equal, no rows at all)."""
    if program.rhs.any() or program.family is not None or program.has_log_det:
        return None
    zeros = tuple(np.zeros((b.size, b.size)) for b in program.blocks)
    x, words = np.zeros(program.n_auxiliary), "zero is optimal"
    for dual in (np.zeros(program.n_rows), program.safe.anchor):
        if dual is not None and certify(program, zeros, x, dual).passes(1e-12):
            return Answer(Stop.DONE, words, zeros, x, dual, iterations=0)
    return None


def _no_rows(program: Program) -> Answer | None:
    """Without rows the optimum is zero or there is none; no solver is bothered with it."""
    if program.n_rows or program.family is not None:
        return None
    return Answer(Stop.CLAIMS_UNBOUNDED, "there are no rows")


def _positive(name: str, value: float) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value < np.inf:
        raise InputError(f"{name} is {value!r}; it must be a positive number")
    return float(value)


def _whole(name: str, value: float) -> int:
    if _positive(name, value) != int(value):
        raise InputError(f"{name} is {value!r}; it must be a whole number")
    return int(value)


def _choose(name: str, program: Program) -> tuple[Solver, str]:
    if name == "auto":
        return choose(program)
    solver = get_solver(name)
    refused = refusal(solver, program)
    if refused is not None:
        raise refused
    return solver, "as asked"


# -- judging --------------------------------------------------------------------------------


def _judge(
    program: Program,
    solver: Solver,
    reason: str,
    settings: Settings,
    answer: Answer,
    compiled: float,
) -> Solution:
    started = clock()
    _check_answer(program, solver, answer)
    matrices, x = repair_primal(program, answer, settings.tol)
    dual = _into_box(program, answer.dual)
    certificate = certify(program, matrices, x, dual, answer.rows)
    ray = None
    if not certificate.passes(settings.tol) and program.family is None:
        ray = _find_ray(program, solver, settings, answer)
    status, message = _status(certificate, ray, answer, settings.tol)
    if status is Status.INACCURATE and any(b.max_rank is not None for b in program.blocks):
        status = Status.STATIONARY
        message = f"a local solution of the given rank; compared with every rank: {message}"
    return Solution(
        status=status,
        native_status=answer.native_status,
        message=message,
        objective=certificate.objective,
        dual_objective=certificate.dual_objective,
        certificate=certificate,
        program=program,
        matrices=tuple(matrices),
        x=x,
        dual=dual,
        ray=ray,
        solver=solver.name,
        reason=reason,
        iterations=answer.iterations,
        times=Times(compiled, answer.setup_time, answer.solve_time, clock() - started),
        history=answer.history,
        notes=(*program.notes, *(note for note in answer.notes if note not in program.notes)),
        rows=answer.rows,
        stop=answer.stop,
    )


def _check_answer(program: Program, solver: Solver, answer: Answer) -> None:
    """Refuse what is not an answer to this program, naming the solver that returned it."""
    if not isinstance(answer, Answer):
        raise SolverError(f"solver {solver.name!r} returned {answer!r} instead of an Answer")
    shapes = [(block.size, block.size) for block in program.blocks]
    ray = answer.matrix_ray or (None, None)
    for matrix in answer.matrices or ():
        if isinstance(matrix, Gram) and type(matrix) not in (
            FactoredGram,
            ResolventGram,
            StackedGram,
        ):
            kind = type(matrix).__name__
            raise SolverError(f"solver {solver.name!r} returned a {kind}, which proves nothing")
    for what, matrices in (("matrices", answer.matrices), ("matrix_ray", ray[0])):
        if matrices is not None and [np.shape(m) for m in matrices] != shapes:
            found = [np.shape(m) for m in matrices]
            raise SolverError(f"solver {solver.name!r} returned {what} {found}, expected {shapes}")
    vectors = (
        ("x", answer.x, program.n_auxiliary),
        ("dual", answer.dual, program.n_rows if answer.rows is None else answer.rows.size),
        ("multiplier_ray", answer.multiplier_ray, program.n_rows),
        ("matrix_ray's x", ray[1], program.n_auxiliary),
    )
    for what, vector, size in vectors:
        if vector is not None and np.shape(vector) != (size,):
            raise SolverError(
                f"solver {solver.name!r} returned {what} of shape {np.shape(vector)}, "
                f"expected ({size},)"
            )


def _status(
    certificate: Certificate, ray: Ray | None, answer: Answer, tol: float
) -> tuple[Status, str]:
    if certificate.passes(tol):
        return Status.OPTIMAL, f"certified to a relative gap of {certificate.relative_gap:.2g}"
    if ray is not None:
        what = ray.proof or f"it holds to a relative {ray.violation:.2g}"
        return Status(ray.kind), f"a ray shows that the program is {ray.kind} ({what})"
    words = "; ".join(certificate.failures(tol))
    status = _LIMITS.get(answer.stop, Status.INACCURATE)
    return status, f"tol {tol:g} was not reached: {words} (the solver said: {answer.native_status})"


def _into_box(program: Program, dual: Array | None) -> Array | None:
    """Multipliers clipped to their signs and slack boxes, in the program's own signs."""
    if dual is None or not np.isfinite(dual).all():
        return dual
    if program.family is not None:
        return np.clip(dual, 0.0, program.family.weight)
    lo, hi = program.multiplier_box
    return np.asarray(program.sign * np.clip(program.sign * dual, lo, hi))


def repair_primal(
    program: Program, answer: Answer, tol: float = np.inf
) -> tuple[list[Matrix], Array]:
    """The answer's primal with everything repaired that can be repaired exactly.

    The matrices are projected onto the cone; slack variables take up what their rows are off;
    where all rows are upper limits on nonnegative combinations (the inequality form), M is
    divided by the worst ratio, if that costs less than half of `tol` in the objective.
    """
    missing = [_unknown(block) for block in program.blocks]
    matrices = list(answer.matrices) if answer.matrices is not None else missing
    x = answer.x if answer.x is not None else np.zeros(program.n_auxiliary)
    if not all(is_finite(m) for m in [*matrices, x]):
        return matrices, x
    matrices = [project_onto_cone(b, m) for b, m in zip(program.blocks, matrices, strict=True)]
    x = np.where(program.free_x, x, np.maximum(x, 0.0))
    q = program.measure(matrices)
    x = _take_up_slack(program, q, x)
    return _shrink_into_limits(program, matrices, q, 1 + 0.5 * tol), x


def _unknown(block: Block) -> Matrix:
    """A matrix that is not there."""
    if block.is_large_graph:
        return FactoredGram(np.full((block.size, 1), np.nan))
    return np.full((block.size, block.size), np.nan)


def _take_up_slack(program: Program, q: Array, x: Array) -> Array:
    """Each variable that occurs in one equality row only, set to what the row is off.

    A free one takes up everything; of nonnegative ones each sign takes up its part, unless
    another variable of the same sign shares the row.
    """
    columns = sp.csc_array(program.rows_x)
    single = np.flatnonzero(np.diff(columns.indptr) == 1)
    rows, entries = columns.indices[columns.indptr[single]], columns.data[columns.indptr[single]]
    side = np.where(program.free_x[single], 0.0, np.sign(entries))
    equality = program.relations[rows] == 0
    crowded = {key for key, n in Counter(zip(rows, side, strict=True)).items() if n > 1}
    with_free = set(rows[side == 0].tolist())
    usable = [
        bool(ok) and (row, s) not in crowded and (s == 0 or row not in with_free)
        for ok, row, s in zip(equality, rows, side, strict=True)
    ]
    single, rows, entries = single[usable], rows[usable], entries[usable]
    out = x.copy()
    out[single] = 0.0
    needed = (program.rhs - program.row_values(q, out))[rows] / entries
    out[single] = np.where(program.free_x[single], needed, np.maximum(needed, 0.0))
    return out


def _shrink_into_limits(
    program: Program, matrices: list[Matrix], q: Array, worth: float
) -> list[Matrix]:
    limits = np.all(program.relations == -1) and np.all(program.rhs >= 0)
    if not limits or program.n_auxiliary or np.any(program.rows_q.data < 0):
        return matrices
    values = program.rows_q @ q
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.nanmax(np.where(values > 0, values / program.rhs, 0.0), initial=1.0))
    return [scaled(m, 1 / ratio) for m in matrices] if 1 < ratio <= worth else matrices


# -- rays -----------------------------------------------------------------------------------


def _find_ray(program: Program, solver: Solver, settings: Settings, answer: Answer) -> Ray | None:
    rays: list[Ray] = []
    if answer.multiplier_ray is not None:
        rays.append(certify_infeasible(program, answer.multiplier_ray))
    if answer.matrix_ray is not None:
        rays.append(certify_unbounded(program, *answer.matrix_ray))
    proven = [ray for ray in rays if ray.passes(_RAY_TOL)]
    if any(ray.kind == "infeasible" for ray in proven):
        return next(ray for ray in proven if ray.kind == "infeasible")
    if solver.capabilities.only == "coverings":
        return proven[0] if proven else None  # such a program is feasible and not asked about
    if proven and program.n_rows:
        # An infeasible program may have improving directions too, which mean nothing then.
        plain = replace(settings, tol=1e-8, callback=None, warm_start=None, checkpoint=None)
        ray = _ask_infeasible(program, solver, plain)
        return ray if ray is not None and ray.passes(_RAY_TOL) else proven[0]
    if not proven:
        # A modelling layer may take one for the other, so both are tried, infeasibility first.
        doubtful = (Stop.CLAIMS_INFEASIBLE, Stop.CLAIMS_UNBOUNDED, Stop.FAILED)
        may_ask = answer.stop in doubtful and settings.time_limit != 0
        asked = (_ask_infeasible, _ask_unbounded) if program.n_rows else (_ask_unbounded,)
        for ask in asked if may_ask else ():
            # Some codes break down at the tighter tolerance and are exact enough at the looser.
            for tol in (1e-8, 1e-6):
                plain = replace(settings, tol=tol, callback=None, warm_start=None, checkpoint=None)
                ray = ask(program, solver, plain)
                if ray is not None and ray.passes(_RAY_TOL):
                    return ray
    return proven[0] if proven else None


def _ask_infeasible(program: Program, solver: Solver, settings: Settings) -> Ray | None:
    asked = elastic(program)
    if refusal(solver, asked) is not None:
        return None
    answer = solver.solve(asked, settings)
    return None if answer.dual is None else certify_infeasible(program, program.sign * answer.dual)


def _ask_unbounded(program: Program, solver: Solver, settings: Settings) -> Ray | None:
    asked = recession(program)
    if refusal(solver, asked) is not None:
        return None  # e.g. its unit vectors, for a solver of graphs
    answer = solver.solve(asked, settings)
    if answer.matrices is None:
        return None
    x = np.zeros(program.n_auxiliary) if answer.x is None else answer.x
    return certify_unbounded(program, answer.matrices, x)


def elastic(program: Program) -> Program:
    """max −Σ(s⁺ + s⁻) with A_q q + A_x x + s⁺ − s⁻ in relation to b.

    Its dual is  min bᵀw, Aᵀ(w) ⪰ 0, |w| ≤ 1: a negative value is a ray of infeasibility.
    """
    m = program.n_rows
    eye = sp.eye_array(m, format="csr")
    zero = [replace(b, cost=b.cost.scaled(0.0), log_det=0.0) for b in program.blocks]
    return Program.of(
        zero,
        program.rhs,
        rows_q=program.rows_q,
        rows_x=sp.hstack([program.rows_x, eye, -eye], format="csr"),
        relations=program.relations,
        cost_x=np.concatenate([np.zeros(program.n_auxiliary), -np.ones(2 * m)]),
        free_x=np.concatenate([program.free_x, np.zeros(2 * m, dtype=bool)]),
        name=f"elastic {program.name}",
    )


def recession(program: Program) -> Program:
    """The program over its recession cone, tr M + Σx ≤ 1 added: a positive gain is a ray.

    Infeasible programs have improving directions too, so ask for infeasibility first.
    """
    extended = [_with_unit_vectors(block) for block in program.blocks]
    spans = zip(program.blocks, program.spans, strict=True)
    rows_q = sp.hstack(
        [sp.hstack([program.rows_q[:, span], _nothing(program, b.size)]) for b, span in spans]
    )
    costs = zip(program.blocks, program.split(program.cost_q), strict=True)
    cost_q = np.concatenate([np.r_[g, np.zeros(block.size)] for block, g in costs])
    trace = np.concatenate(
        [np.r_[np.zeros(block.n_measurements), np.ones(block.size)] for block in program.blocks]
    )
    nonnegative = sp.csr_array(np.where(program.free_x, 0.0, 1.0)[None, :])
    # Free variables get rows of their own: −1 ≤ x_j ≤ 1.
    unit = sp.eye_array(program.n_auxiliary, format="csr")[np.flatnonzero(program.free_x)]
    n_free = unit.shape[0]
    return Program.of(
        extended,
        np.r_[np.zeros(program.n_rows), 1.0, np.ones(n_free), -np.ones(n_free)],
        sense=program.sense,
        rows_q=sp.vstack(
            [rows_q, sp.csr_array(trace[None, :]), sp.csr_array((2 * n_free, trace.size))]
        ),
        rows_x=sp.vstack([program.rows_x, nonnegative, unit, unit]),
        relations=np.r_[program.relations, -1, -np.ones(n_free), np.ones(n_free)],
        cost_q=cost_q,
        cost_x=program.cost_x,
        free_x=program.free_x,
        quadratic_x=program.quadratic_x,
        norms=program.norms,
        name=f"recession of {program.name}",
    )


def _nothing(program: Program, width: int) -> sp.csr_array:
    return sp.csr_array((program.n_rows, width))


def _with_unit_vectors(block: Block) -> Block:
    """The block with e_1, …, e_n measured after its own vectors: their lengths sum to tr M.

    Without its log det, which grows more slowly than any ray.
    """
    block = replace(block, log_det=0.0)
    eye = sp.eye_array(block.size, format="csr")
    if block.features is None:
        return replace(block, incidence=sp.csr_array(sp.vstack([block.incidence, eye])))
    return replace(
        block,
        incidence=sp.csr_array(sp.block_diag([block.incidence, eye])),
        features=np.vstack([block.features, np.eye(block.size)]),
    )


# -- margin ---------------------------------------------------------------------------------


def _wants_margin(solution: Solution, answer: Answer, tol: float) -> bool:
    """Whether all is well but for a dual that misses feasibility and is repaired badly or not."""
    certificate = solution.certificate
    if solution.status is not Status.INACCURATE or answer.stop is not Stop.DONE:
        return False
    if solution.program.family is not None or solution.program.has_log_det:
        return False  # its bound scales the dual, which is as good as a margin
    if not np.isfinite([certificate.primal_residual, certificate.dual_objective]).all():
        return False
    scale = max(abs(certificate.objective), solution.program.safe.value_scale)
    nominal = abs(certificate.dual_objective - certificate.objective)
    return not np.isfinite(certificate.safe_bound) or bool(
        certificate.primal_residual <= tol
        and certificate.relative_gap > tol
        and nominal <= tol * scale
    )


def _with_margin(solution: Solution, solver: Solver, settings: Settings) -> Solution:
    """Solve once more with S ⪰ δI, δ·(tr M + Σx) a fraction of the gap that is allowed."""
    program, tol = solution.program, settings.tol
    size = sum(trace(m) for m in solution.matrices) + float(np.abs(solution.x).sum())
    value = max(abs(solution.objective), program.safe.value_scale)
    margin = 0.25 * tol * value / max(size, np.finfo(float).tiny)
    answer = solver.solve(program.with_margin(margin), replace(settings, checkpoint=None))
    note = f"solved twice: the dual was asked for a margin of {margin:.1e}"
    answer = replace(
        answer,
        notes=(*solution.notes, note),
        setup_time=answer.setup_time + solution.times.setup,
        solve_time=answer.solve_time + solution.times.solve,
    )
    again = _judge(program, solver, solution.reason, settings, answer, solution.times.compile)
    better = again.certificate.relative_gap < solution.certificate.relative_gap
    return again if better else solution


__all__ = ["ConvergenceWarning", "Problem", "elastic", "recession", "solve"]
