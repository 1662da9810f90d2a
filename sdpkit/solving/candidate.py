"""What a solver returned, repaired exactly where that is possible, with its certificate."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.certify import certify
from sdpkit.certificate.primal import project_onto_cone
from sdpkit.certificate.rays import RAY_TOL, Ray, certify_infeasible, certify_unbounded
from sdpkit.errors import OutOfMemoryError
from sdpkit.numerics.deadline import Abandoned, Deadline
from sdpkit.numerics.interruption import is_interrupted
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.program.gram import FactoredGram, Gram, Matrix, is_finite, scaled
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.attempt import Attempt
from sdpkit.solution.process import apart, can_fork
from sdpkit.solution.solver import Solver
from sdpkit.solving.choice import Choice
from sdpkit.typing import Array

# From this size on the eigenvalues of a dense matrix take a second or more.
_LONG_SIZE = 1500
# The backward error of a point that counts as feasible beside an improving direction.
_FEASIBLE = 1e-6


@dataclass(frozen=True, eq=False)
class Candidate:
    """An answer of a solver that may become the solution.

    Attributes
    ----------
    program: what was solved;  choice: by which solver, and why
    tol: what the certificate is held against
    answer: as the solver returned it
    matrices, x, dual: the point and the multipliers, repaired
    certificate: of these
    ray: a proof that there is no solution; one of unboundedness may still lack its point
    attempts: what every solver reached, if several were called
    is_examined: whether it was asked if a point that far out shows that there is a feasible one
    """

    program: Program
    choice: Choice
    tol: float
    answer: Answer
    matrices: tuple[Matrix, ...]
    x: Array
    dual: Array | None
    certificate: Certificate
    ray: Ray | None = None
    attempts: tuple[Attempt, ...] = ()
    is_examined: bool = False

    @classmethod
    def of(cls, program: Program, choice: Choice, tol: float, answer: Answer) -> Candidate:
        """The repaired answer and its certificate; where that does not pass, the answer's ray."""
        answer = answer if answer.matrices is not None else _best_known(program, answer)
        matrices, x = repair_primal(program, answer, tol)
        dual = _into_box(program, answer.dual)
        certificate = certify(program, matrices, x, dual, answer.rows, answer.smoothing)
        found = cls(program, choice, tol, answer, tuple(matrices), x, dual, certificate)
        return found if found.passes else replace(found, ray=_ray_of(found))

    @classmethod
    def within(
        cls, deadline: Deadline, program: Program, choice: Choice, tol: float, answer: Answer
    ) -> Candidate:
        """The same; where certifying takes longer than the deadline allows, without a proof."""
        answer = answer if answer.matrices is not None else _best_known(program, answer)
        try:
            with deadline.applies():
                if can_fork() and any(_is_long(m) for m in answer.matrices or ()):
                    return cls._of_in_a_process(deadline, program, choice, tol, answer)
                return cls.of(program, choice, tol, answer)
        except Abandoned:
            return cls._unproven(program, choice, tol, answer)

    @classmethod
    def _of_in_a_process(
        cls, deadline: Deadline, program: Program, choice: Choice, tol: float, answer: Answer
    ) -> Candidate:
        """`of` in a process that can be stopped. What the caller has already is not sent back."""
        elsewhere: dict[str, Any] = {"program": None}

        def work() -> tuple[Any, ...]:
            found = cls.of(program, choice, tol, answer)
            certificate = replace(found.certificate, **elsewhere)
            return found.matrices, found.x, found.dual, certificate, found.ray

        returned = apart(work, None if deadline.left == math.inf else deadline.left)
        if returned.stop is Stop.FAILED:
            raise OutOfMemoryError("the system ended the process that certified the answer")
        if returned.stop is not None:
            raise Abandoned(returned.words)
        matrices, x, dual, certificate, ray = returned.value
        certificate = replace(certificate, program=program)
        ray = None if ray is None else replace(ray, program=program)
        return cls(program, choice, tol, answer, matrices, x, dual, certificate, ray)

    @classmethod
    def _unproven(cls, program: Program, choice: Choice, tol: float, answer: Answer) -> Candidate:
        """The answer as it is."""
        if not answer.hit_limit:
            stop = Stop.INTERRUPTED if is_interrupted() else Stop.TIME_LIMIT
            answer = replace(answer, stop=stop)
        matrices = answer.matrices or tuple(_unknown(block) for block in program.blocks)
        x = answer.x if answer.x is not None else np.zeros(program.n_auxiliary)
        certificate = Certificate.missing(program, "the certificate was not finished in time")
        return cls(program, choice, tol, answer, matrices, x, answer.dual, certificate)

    @property
    def solver(self) -> Solver:
        """The solver that was called."""
        return self.choice.solver

    @property
    def passes(self) -> bool:
        """Whether the certificate does."""
        return self.certificate.passes(self.tol)

    @property
    def is_settled(self) -> bool:
        """Whether nothing further can be gained: it passes, or a ray is complete."""
        if self.ray is None:
            return self.passes and not self.is_doubtful
        return self.ray.kind == "infeasible" or self.ray.point is not None

    @property
    def is_doubtful(self) -> bool:
        """Whether the point passes, but lies so far out that there may be no feasible point."""
        return self.passes and bool(self.certificate.warnings) and not self.is_examined

    @property
    def is_inaccurate(self) -> bool:
        """Whether a solver ended by itself with a point that does not pass."""
        limited = any(block.max_rank is not None for block in self.program.blocks)
        return self.ray is None and not (self.passes or self.answer.hit_limit or limited)

    def at(
        self, matrices: list[Matrix] | tuple[Matrix, ...], x: Array, certificate: Certificate
    ) -> Candidate:
        """The candidate with another point."""
        return replace(self, matrices=tuple(matrices), x=x, certificate=certificate)


def _is_long(matrix: Matrix) -> bool:
    return not isinstance(matrix, Gram) and len(matrix) >= _LONG_SIZE


def is_feasible(certificate: Certificate) -> bool:
    """Whether the point of a certificate meets the constraints well enough for a direction."""
    if not np.isfinite(certificate.objective):
        return False  # a log det of a singular matrix
    return certificate.backward_error <= _FEASIBLE and not certificate.warnings


def _ray_of(candidate: Candidate) -> Ray | None:
    """A ray that came with the answer and passes, infeasibility first."""
    program, answer = candidate.program, candidate.answer
    if program.family is not None:
        return None
    if answer.multiplier_ray is not None:
        ray = certify_infeasible(program, answer.multiplier_ray)
        if ray.passes(RAY_TOL):
            return ray
    # A finite bound is known: no direction may contradict it.
    if answer.matrix_ray is None or np.isfinite(candidate.certificate.safe_bound):
        return None
    ray = certify_unbounded(program, *answer.matrix_ray)
    return ray if ray.passes(RAY_TOL) else None


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

    The matrices are projected onto the cone; slack variables take up the residuals of their
    constraints; where all constraints are upper limits on nonnegative combinations (the inequality
    form), M is divided by the worst ratio, if that costs less than half of `tol` in the objective.
    """
    matrices, x = in_the_cone(program, answer)
    if not all(is_finite(m) for m in [*matrices, x]):
        return matrices, x
    q = program.measure(matrices)
    x = _take_up_slack(program, q, x)
    return _shrink_into_limits(program, matrices, q, 1 + 0.5 * tol), x


def in_the_cone(program: Program, answer: Answer) -> tuple[list[Matrix], Array]:
    """The answer's primal, projected onto the cone and to the right signs where it is finite."""
    missing = [_unknown(block) for block in program.blocks]
    matrices = list(answer.matrices) if answer.matrices is not None else missing
    x = answer.x if answer.x is not None else np.zeros(program.n_auxiliary)
    if not all(is_finite(m) for m in [*matrices, x]):
        return matrices, x
    matrices = [project_onto_cone(b, m) for b, m in zip(program.blocks, matrices, strict=True)]
    return matrices, program.cone_x.projected(x)


def _best_known(program: Program, answer: Answer) -> Answer:
    """Zero, and the problem's own dual point, where a limit came before the first point.

    Zero has no log det: there it is a multiple of the identity.
    """
    if not answer.hit_limit:
        return answer
    large = any(block.avoids_dense for block in program.blocks)
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
    """t·I on every face: t as large as upper limits allow, or as the constraints suggest."""
    ones = [block.project_out_null(np.eye(block.size)) for block in program.blocks]
    values = np.asarray(program.rows_q @ program.measure(ones))
    limits = (program.relations == -1) & (values > 0)
    t = float((program.rhs[limits] / values[limits]).min(initial=np.inf))
    t = t if 0 < t < np.inf else program.natural_size
    return tuple(t * one for one in ones)


def _unknown(block: Block) -> Matrix:
    """A matrix that is not there."""
    if block.avoids_dense:
        return FactoredGram(np.full((block.size, 1), np.nan))
    return np.full((block.size, block.size), np.nan)


def _take_up_slack(program: Program, q: Array, x: Array) -> Array:
    """Each variable that occurs in one equation only, set to the residual of that equation.

    A free one takes up everything; of nonnegative ones each sign takes up its part, unless
    another variable of the same sign is in the equation.
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
