"""From a solver's answer to a solution: repair what can be repaired, certify, grant the status."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.certify import certify
from sdpkit.certificate.onto_constraints import leading_part, onto_rows
from sdpkit.certificate.points import FeasiblePoint
from sdpkit.certificate.primal import project_onto_cone
from sdpkit.certificate.rays import Ray
from sdpkit.errors import SolverError
from sdpkit.numerics.kernels import clock
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.program.gram import (
    FactoredGram,
    Gram,
    Matrix,
    ResolventGram,
    StackedGram,
    is_finite,
    scaled,
)
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.interruption import is_interrupted
from sdpkit.solution.solution import Solution, Status, Times
from sdpkit.solution.solver import Solver
from sdpkit.solving.asking import answer_of, of_second_question
from sdpkit.solving.choice import offers, refusal, suitable
from sdpkit.solving.feasibility import may_be_found
from sdpkit.solving.rays import elastic, find_ray
from sdpkit.typing import Array

_LIMITS = {
    Stop.TIME_LIMIT: Status.TIME_LIMIT,
    Stop.ITERATION_LIMIT: Status.ITERATION_LIMIT,
    Stop.INTERRUPTED: Status.INTERRUPTED,
}


# The backward error of a point that counts as feasible beside an improving direction.
_FEASIBLE = 1e-6
# A value below this share of its terms is the result of cancellation.
_CANCELS = 1e-3
# No tolerance above this is advised.
_COARSE = 0.1


class ConvergenceWarning(UserWarning):
    """The certificate did not pass at the tolerance that was asked for.

    Where scikit-learn is loaded, the warnings are of its class of the same name too.
    """


def convergence_warning() -> type[ConvergenceWarning]:
    """The class to warn with. It does not load scikit-learn, which takes a second."""
    loaded = sys.modules.get("sklearn.exceptions")
    return ConvergenceWarning if loaded is None else _also(loaded.ConvergenceWarning)


@cache
def _also(theirs: type[UserWarning]) -> type[ConvergenceWarning]:
    return type("ConvergenceWarning", (ConvergenceWarning, theirs), {"__module__": __name__})


def judge(
    program: Program,
    solver: Solver,
    reason: str,
    settings: Settings,
    answer: Answer,
    compiled: float,
) -> Solution:
    started = clock()
    _check_answer(program, solver, answer)
    if answer.stop in _LIMITS and answer.matrices is None:
        answer = _best_known(program, answer)
    matrices, x = repair_primal(program, answer, settings.tol)
    dual = _into_box(program, answer.dual)
    certificate = certify(program, matrices, x, dual, answer.rows)
    if _may_be_moved(program, certificate, settings.tol):
        matrices, x, certificate = _moved(program, matrices, x, dual, certificate, settings.tol)
    if not certificate.passes(settings.tol) and _has_taken_up(answer, x):
        # Slacks that take up what rows are off may cost more than the rows themselves.
        given, given_x = _in_the_cone(program, answer)
        plain = certify(program, given, given_x, dual)
        if plain.passes(settings.tol):
            matrices, x, certificate = given, given_x, plain
    ray = None
    if not certificate.passes(settings.tol) and program.family is None:
        is_bounded = bool(np.isfinite(certificate.safe_bound))
        ray = find_ray(program, solver, settings, answer, is_bounded)
    if ray is not None and ray.kind == "unbounded":
        ray = _with_found_point(ray, solver, settings, (matrices, x, certificate))
        if ray.point is not None:
            matrices, x = ray.point.lifted(program)
            certificate = certify(program, matrices, x, dual)
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


def _has_taken_up(answer: Answer, x: Array) -> bool:
    """Whether a finished answer came with other slacks; one that a limit cut short waits for no
    second certificate."""
    return answer.stop not in _LIMITS and answer.x is not None and not np.array_equal(x, answer.x)


def _may_be_moved(program: Program, certificate: Certificate, tol: float) -> bool:
    """Whether the values are near each other, and the rows or their price are in the way."""
    if program.family is not None or not np.isfinite(certificate.primal_residual):
        return False
    price = max(certificate.residual_price, certificate.complementarity)
    rows = max(certificate.primal_residual, price) > tol
    return rows and certificate.relative_gap <= 100 * tol


def _moved(
    program: Program,
    matrices: list[Matrix],
    x: Array,
    dual: Array | None,
    certificate: Certificate,
    tol: float,
) -> tuple[list[Matrix], Array, Certificate]:
    """The point moved onto its rows, if it passes there."""
    violations = program.violations(program.measure(matrices), x) / program.row_norms
    prices = _relative_prices(certificate)
    goal = 0.1 * tol
    leading = [leading_part(m, goal) for m in matrices]
    for start, inwards in ((matrices, 0.0), (leading, 0.0), (matrices, float(violations.max()))):
        moved, moved_x = onto_rows(program, start, x, goal, inwards, prices)
        if not all(is_finite(m) for m in [*moved, moved_x]):
            continue
        better = certify(program, moved, moved_x, dual)
        if better.passes(tol):
            return moved, moved_x, better
    return matrices, x, certificate


def _relative_prices(certificate: Certificate) -> Array | None:
    """(m,) what a unit of each row is worth, relative to the value."""
    worth, share = certificate.residual_price, certificate.multipliers
    if share is None or not worth > 0 or certificate.matrices is None or certificate.x is None:
        return None
    program = certificate.program
    q = program.measure(list(certificate.matrices))
    paid = float(np.abs(share) @ program.violations(q, certificate.x))
    return np.abs(share) * (worth / paid) if paid > 0 else None


def _with_found_point(
    ray: Ray,
    solver: Solver,
    settings: Settings,
    given: tuple[list[Matrix], Array, Certificate],
) -> Ray:
    """The direction with a point that meets the rows to tolerance, where that is enough."""
    program = ray.program
    if ray.point is not None or not may_be_found(program):
        return ray
    matrices, x, certificate = given
    if _is_feasible(certificate):
        return replace(ray, point=FeasiblePoint(tuple(matrices), x))
    if settings.time_limit == 0 or is_interrupted():
        return ray
    asked = elastic(program)
    plain = replace(of_second_question(settings), options={})
    others = [o.solver for o in suitable(offers(asked)) if o.solver.name != solver.name]
    for one in [solver, *others[:1]]:
        point = _found_point(program, asked, one, plain) if refusal(one, asked) is None else None
        if point is not None:
            return replace(ray, point=point)
    return ray


def _found_point(
    program: Program, asked: Program, solver: Solver, settings: Settings
) -> FeasiblePoint | None:
    answer = answer_of(asked, solver, settings)
    if answer.matrices is None or answer.x is None:
        return None
    point = replace(answer, x=answer.x[: program.n_auxiliary])
    matrices, x = repair_primal(program, point, 1e-8)
    return (
        FeasiblePoint(tuple(matrices), x) if _is_feasible(certify(program, matrices, x)) else None
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
    if ray is None and certificate.passes(tol):
        return Status.OPTIMAL, f"certified to a relative gap of {certificate.gap_in_words}"
    if ray is not None:
        what = ray.proof or f"it holds to a relative {ray.violation:.2g}"
        if ray.kind == "infeasible":
            point = _about_point(certificate)
            return (
                Status.INFEASIBLE,
                f"a ray shows that the program is infeasible ({what}); {point}",
            )
        if ray.point is not None:
            return Status.UNBOUNDED, (
                f"the objective improves without end from the feasible point that is returned, "
                f"along the ray ({what})"
            )
        return Status.INFEASIBLE_OR_UNBOUNDED, (
            f"a direction improves the objective without end ({what}), so that the dual is "
            "infeasible; whether the program is unbounded or infeasible is open, because neither "
            f"a feasible point of bounded size nor a proof of infeasibility was found; "
            f"{_about_point(certificate)}. To decide, solve the program without its objective, or "
            "remove constraints that fix parts of a matrix to zero"
        )
    words = "; ".join(certificate.failures(tol)) + _cancelled(certificate)
    status = _LIMITS.get(answer.stop, Status.INACCURATE)
    return status, f"tol {tol:g} was not reached: {words} (the solver said: {answer.native_status})"


def _cancelled(certificate: Certificate) -> str:
    """What to do where values are small compared with the terms that cancel in them."""
    gap, terms = abs(certificate.objective - certificate.safe_bound), certificate.terms
    error = certificate.largest_error
    if not np.isfinite([gap, terms, error]).all() or not certificate.unit < _CANCELS * terms:
        return ""
    offset = abs(certificate.program.offset)
    enough = 10.0 ** np.ceil(np.log10(error))
    advice = [f"ask for tol={enough:g} if that is enough"] if enough <= _COARSE else []
    advice += ["leave the constant out of the objective"] if offset > 0.1 * terms else []
    return (
        f". The objective and its bound differ by {gap:.2g}; they are sums of terms of size "
        f"{terms:.2g}, which cancel, and rounding limits what can be reached"
        + (f": {', or '.join(advice)}" if advice else "")
    )


def _about_point(certificate: Certificate) -> str:
    if np.isfinite(certificate.objective):
        return "the returned point is the solver's last one and no solution"
    return "no point is returned, and the objective is nan"


def _is_feasible(certificate: Certificate) -> bool:
    if not np.isfinite(certificate.objective):
        return False  # a log det of a singular matrix
    return certificate.backward_error <= _FEASIBLE and not certificate.warnings


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
    matrices, x = _in_the_cone(program, answer)
    if not all(is_finite(m) for m in [*matrices, x]):
        return matrices, x
    q = program.measure(matrices)
    x = _take_up_slack(program, q, x)
    return _shrink_into_limits(program, matrices, q, 1 + 0.5 * tol), x


def _in_the_cone(program: Program, answer: Answer) -> tuple[list[Matrix], Array]:
    """The answer's primal, projected onto the cone and to the right signs where it is finite."""
    missing = [_unknown(block) for block in program.blocks]
    matrices = list(answer.matrices) if answer.matrices is not None else missing
    x = answer.x if answer.x is not None else np.zeros(program.n_auxiliary)
    if not all(is_finite(m) for m in [*matrices, x]):
        return matrices, x
    matrices = [project_onto_cone(b, m) for b, m in zip(program.blocks, matrices, strict=True)]
    return matrices, np.where(program.free_x, x, np.maximum(x, 0.0))


def _best_known(program: Program, answer: Answer) -> Answer:
    """Zero, and the problem's own dual point, where a limit came before the first point.

    Zero has no log det: there it is a multiple of the identity.
    """
    large = any(block.is_large_graph for block in program.blocks)
    matrices: tuple[Matrix, ...]
    if large:
        matrices = tuple(FactoredGram(np.zeros((block.size, 1))) for block in program.blocks)
    elif program.has_log_det:
        matrices = _multiples_of_identity(program)
    else:
        matrices = tuple(np.zeros((block.size, block.size)) for block in program.blocks)
    dual = answer.dual
    if dual is None and program.family is None and not large:  # there it takes a factorisation
        anchor = program.safe.anchor
        dual = np.zeros(program.n_rows) if anchor is None else anchor
    what = "multiples of the identity" if program.has_log_det and not large else "zero"
    return replace(
        answer,
        matrices=matrices,
        x=np.zeros(program.n_auxiliary),
        dual=dual,
        notes=(*answer.notes, f"the limit came before the first point: the matrices are {what}"),
    )


def _multiples_of_identity(program: Program) -> tuple[Array, ...]:
    """t·I on every face: t as large as the upper limits allow, or else what the rows suggest."""
    ones = [block.project_out_null(np.eye(block.size)) for block in program.blocks]
    values = np.asarray(program.rows_q @ program.measure(ones))
    limits = (program.relations == -1) & (values > 0)
    t = float((program.rhs[limits] / values[limits]).min(initial=np.inf))
    t = t if 0 < t < np.inf else program.natural_size
    return tuple(t * one for one in ones)


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
