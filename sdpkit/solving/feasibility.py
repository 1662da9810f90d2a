"""Whether a program has a feasible point: a point that is proven, or a proof that there is none.

A point of small residual decides nothing: a weakly infeasible program has points of any small
residual. One auxiliary program decides it, the *deepest point*:

    max t  with  M ⪰ tI, x ≥ t, every inequality met by t, and the equations.

t > 0 is a point inside the cone, which floating point can prove. Otherwise its dual y has
Aᵀ(y) ⪰ 0 and bᵀy = t ≤ 0: a ray of infeasibility, or the exposing vector of a face that contains
all feasible points. The same program is then solved on that face (`sdpkit.certificate.faces`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.faces import Face, FaceProof, has_simple_null
from sdpkit.certificate.points import FeasiblePoint, without_objective
from sdpkit.certificate.rational import doubles
from sdpkit.certificate.rays import RAY_TOL, Ray, certify_infeasible, chain_ray
from sdpkit.numerics.breakdown import BREAKDOWNS
from sdpkit.numerics.deadline import Abandoned, continue_or_raise
from sdpkit.program.form import Program
from sdpkit.program.gram import FactoredGram, Matrix, is_finite
from sdpkit.solution.solver import Solver
from sdpkit.solving.choice import offers, refusal, suitable
from sdpkit.solving.registry import get_solver
from sdpkit.solving.run import Run
from sdpkit.typing import Array

# The deepest point of programs up to this size is sought: entries of all blocks, and constraints.
_ENTRIES = 250_000
_ROWS = 3000
# Faces that are looked at one after the other.
_MAX_FACES = 60


@dataclass(frozen=True, eq=False)
class Feasibility:
    """A point that is proven feasible, a ray that proves that there is none, or neither.

    `is_asked`: whether a solver has looked for the deepest point.
    """

    point: FeasiblePoint | None = None
    ray: Ray | None = None
    is_asked: bool = False


@dataclass(frozen=True, eq=False)
class _Deepest:
    """The deepest point, if it is inside, and the multipliers of the constraints."""

    point: tuple[tuple[Matrix, ...], Array] | None = None
    dual: Array | None = None


def decide(run: Run, program: Program, solver: Solver) -> Feasibility:
    """A feasible point or its impossibility, proven; neither, where no proof was found in time.

    >>> from sdpkit import Block, Program
    >>> from sdpkit.solution.answer import Settings
    >>> from sdpkit.solving.registry import get_solver
    >>> from sdpkit.solving.run import Run
    >>> block = Block.of(2, [[1.0, 0], [0, 1], [1, 1]])   # M₁₁ = 0, 2M₁₂ = 2
    >>> program = Program.of(block, [0.0, 2.0], rows_q=[[1.0, 0, 0], [-1, -1, 1]])
    >>> decide(Run(Settings()), program, get_solver("interior")).ray.verify()
    <verified: the program is infeasible: rational arithmetic on a face of the cone>
    """
    if not program.excess(-program.rhs).any() and not program.has_log_det:
        return Feasibility(point=zero_point(program))
    try:
        with run.deadline.applies():
            return _decided(run, program, solver)
    except (Abandoned, *BREAKDOWNS):  # numbers near the ends of the floating-point range
        return Feasibility()


def _decided(run: Run, program: Program, solver: Solver) -> Feasibility:
    found = _deepest_point(run, program, solver)
    if found.point is not None:
        point = FeasiblePoint(*found.point)
        if point.proof(program):
            return Feasibility(point=point)
    inexact: Ray | None = None
    if found.dual is not None:
        ray = certify_infeasible(program, program.sign * found.dual)
        if ray.passes(RAY_TOL) and ray.proof:
            return Feasibility(ray=ray)
        inexact = ray if ray.passes(RAY_TOL) else None
    asked, face = found.dual is not None, Face.of(program)
    if face is None or not all(has_simple_null(block) for block in program.blocks):
        return Feasibility(ray=inexact, is_asked=asked)
    dual = found.dual / face.scales if found.dual is not None else None
    on_faces = replace(_on_faces(run, program, face, dual, solver), is_asked=asked)
    if inexact is None or on_faces.ray is not None or on_faces.point is not None:
        return on_faces
    return replace(on_faces, ray=inexact)


def _on_faces(
    run: Run, program: Program, face: Face, dual: Array | None, solver: Solver
) -> Feasibility:
    """The same on smaller and smaller faces, in rational arithmetic."""
    chain: list[tuple[Fraction, ...]] = []
    while len(chain) < _MAX_FACES and not run.deadline.is_over:
        step = _step(face, iter([*face.by_one_row(), *face.by_equations()]))
        if step is None and dual is None:
            point, dual = _deepest_on_face(run, face, solver)
            if point is not None and not program.has_log_det:
                return Feasibility(point=replace(point, exposing=tuple(chain)))
        if step is None and dual is not None:
            step = _step(face, _near(face, dual))
        if step is None:
            break
        y, smaller = step
        if smaller is None:
            proof = FaceProof(tuple(chain), tuple(y))
            return Feasibility(ray=chain_ray(program, proof, face.multipliers(y)))
        chain.append(tuple(y))
        face, dual = smaller, None
    return Feasibility()


def _step(
    face: Face, candidates: Iterator[list[Fraction]]
) -> tuple[list[Fraction], Face | None] | None:
    """The first multipliers that contradict the face (None) or expose a smaller one."""
    for y in candidates:
        continue_or_raise()
        is_contradicted = face.is_contradicted(y)
        smaller = None if is_contradicted else face.exposed(y)
        if (is_contradicted or smaller is not None) and face.stands_out(y):
            return y, smaller
    return None


def _near(face: Face, dual: Array) -> Iterator[list[Fraction]]:
    """Exact multipliers near approximate ones: a contradiction first, then an exposing vector."""
    right = doubles(face.rhs)
    if right @ dual < -1e-9 * (np.abs(right) @ np.abs(dual)):
        yield from face.near(dual, -1)
    yield from face.near(dual, 0)


def _deepest_on_face(
    run: Run, face: Face, solver: Solver
) -> tuple[FeasiblePoint | None, Array | None]:
    """(a proven point in the coordinates of the face, multipliers of all constraints)"""
    rows = face.independent_rows()
    program, exact = face.as_program(rows)
    if not program.excess(-program.rhs).any():
        zero = zero_point(program)
        return (zero if exact else None), None
    found = _deepest_point(run, program, solver)
    dual = None
    if found.dual is not None:
        dual = np.zeros(face.n_rows)
        dual[rows] = found.dual
    if found.point is None or not exact:
        return None, dual
    point = FeasiblePoint(*found.point)
    return (point if point.proof(program) else None), dual


def _deepest_point(run: Run, program: Program, solver: Solver) -> _Deepest:
    if not _is_small(program) or not np.isfinite(_along(program)).all():
        return _Deepest()
    asked = deepest(program)
    able = _able(asked, solver)
    answer = None if able is None else run.ask_aside(asked, able)
    if answer is None:
        return _Deepest()
    # Constraints that contradict each other have a ray and no multipliers.
    dual = answer.multiplier_ray if answer.dual is None else answer.dual
    dual = None if dual is None else dual[: program.n_rows]
    if dual is not None and not np.isfinite(dual).all():
        dual = None
    if answer.matrices is None or answer.x is None:
        return _Deepest(dual=dual)
    t = float(answer.x[-1])
    if not t > 0 or not all(is_finite(m) for m in answer.matrices):
        return _Deepest(dual=dual)
    pairs = zip(answer.matrices, _projectors(program), strict=True)
    matrices = tuple(np.asarray(m) + t * np.asarray(p) for m, p in pairs)
    return _Deepest((matrices, t * program.cone_x.unit + answer.x[:-1]), dual)


def _able(asked: Program, solver: Solver) -> Solver | None:
    """`interior`, whose points lie inside, or the given solver, or the cheapest."""
    for one in (get_solver("interior"), solver):
        if refusal(one, asked) is None:
            return one
    others = suitable(offers(asked))
    return others[0].solver if others else None


def deepest(program: Program) -> Program:
    """max t with M ⪰ tI on its face, x ≥ t, x_h ≥ ‖x_T‖ + t, inequalities met by t in their own
    units.

    >>> from sdpkit import Block
    >>> asked = deepest(Program.of(Block.of(2, [[1.0, 0.0], [0.0, 1.0]]), [1.0, 1.0]))
    >>> asked.n_rows, asked.free_x.tolist(), asked.cost_x.tolist()
    (3, [True], [1.0])
    """
    plain, along = without_objective(program), _along(program)
    limit = sp.csr_array(([1.0], ([0], [plain.n_auxiliary])), shape=(1, plain.n_auxiliary + 1))
    return Program.of(
        plain.blocks,
        np.r_[plain.rhs, plain.natural_size],
        rows_q=sp.vstack([plain.rows_q, sp.csr_array((1, plain.rows_q.shape[1]))]),
        rows_x=sp.vstack([sp.hstack([plain.rows_x, sp.csr_array(along[:, None])]), limit]),
        relations=np.r_[plain.relations, -1],
        cost_x=np.r_[np.zeros(plain.n_auxiliary), 1.0],
        free_x=np.r_[plain.free_x, True],
        cones=plain.cones,
        name=f"deepest point of {program.name}",
    )


def _along(program: Program) -> Array:
    """(m,) how each constraint changes with t."""
    with np.errstate(all="ignore"):
        along = program.rows_q @ program.measure(_projectors(program))
        along = along + program.rows_x @ program.cone_x.unit
        return np.asarray(along - program.relations * program.row_norms)


def _projectors(program: Program) -> list[Matrix]:
    """Per block the identity on its face."""
    return [np.eye(b.size) - b.null_basis @ b.null_basis.T for b in program.blocks]


def zero_point(program: Program) -> FeasiblePoint:
    """M = 0 and x = 0; of large blocks as factors."""
    matrices: list[Matrix] = [
        FactoredGram(np.zeros((b.size, 1))) if b.avoids_dense else np.zeros((b.size, b.size))
        for b in program.blocks
    ]
    return FeasiblePoint(tuple(matrices), np.zeros(program.n_auxiliary))


def may_be_found(program: Program) -> bool:
    """Whether a point of small residual shows a feasible one, or there is no better way.

    The squared lengths of a graph's edges that positive semidefinite matrices take are a closed
    set, and so nothing about single edges is weakly infeasible. Large programs are not proven.
    """
    return _measures_single_edges(program) or not _is_small(program)


def _measures_single_edges(program: Program) -> bool:
    columns = np.bincount(program.rows_x.indices, minlength=program.n_auxiliary)
    single = np.all(np.diff(program.rows_q.indptr) == 1) and np.all(columns <= 1)
    return bool(single) and all(block.edges is not None for block in program.blocks)


def _is_small(program: Program) -> bool:
    entries = sum(block.size**2 for block in program.blocks)
    return entries <= _ENTRIES and program.n_rows <= _ROWS
