"""Search for a ray where a solver could not solve: two auxiliary programs for the same solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.rays import Ray, certify_infeasible, certify_unbounded
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.interruption import is_interrupted
from sdpkit.solution.solver import Solver
from sdpkit.solving.asking import answer_of, of_second_question
from sdpkit.solving.choice import why_refused
from sdpkit.solving.feasibility import RAY_TOL, decide


def find_ray(
    program: Program, solver: Solver, settings: Settings, answer: Answer, is_bounded: bool
) -> Ray | None:
    """A ray that passes, or None; a direction comes with a proven feasible point, if one is found.

    `is_bounded`: a finite bound is known, which no direction may contradict.
    """
    proven = [ray for ray in _of_answer(program, answer) if ray.passes(RAY_TOL)]
    if is_bounded:
        proven = [ray for ray in proven if ray.kind == "infeasible"]
    if proven and proven[0].kind == "infeasible":
        return proven[0]
    stopped = answer.stop is Stop.INTERRUPTED or is_interrupted()
    may_ask = settings.time_limit != 0 and not stopped
    if proven:
        return _with_point(proven[0], solver, settings) if may_ask else proven[0]
    doubtful = (Stop.CLAIMS_INFEASIBLE, Stop.CLAIMS_UNBOUNDED, Stop.FAILED)
    if answer.stop not in doubtful or not may_ask:
        return None
    found = decide(program, solver, settings)
    if found.ray is not None:
        return found.ray
    # A modelling layer may take one for the other, so both are tried, infeasibility first.
    may_be_empty = program.n_rows and found.point is None
    ray = _asked(_ask_infeasible, program, solver, settings) if may_be_empty else None
    if ray is None and not is_bounded:
        ray = _asked(_ask_unbounded, program, solver, settings)
        if ray is not None:
            return replace(ray, point=found.point)
    return ray


def _of_answer(program: Program, answer: Answer) -> list[Ray]:
    """The rays that came with an answer, infeasibility first."""
    rays = []
    if answer.multiplier_ray is not None:
        rays.append(certify_infeasible(program, answer.multiplier_ray))
    if answer.matrix_ray is not None:
        rays.append(certify_unbounded(program, *answer.matrix_ray))
    return rays


def _asked(
    ask: Callable[[Program, Solver, Settings], Ray | None],
    program: Program,
    solver: Solver,
    settings: Settings,
) -> Ray | None:
    """A ray that passes; some codes break down at the tighter tolerance only."""
    for tol in (1e-8, 1e-6):
        ray = ask(program, solver, of_second_question(settings, tol))
        if ray is not None and ray.passes(RAY_TOL):
            return ray
    return None


def _with_point(direction: Ray, solver: Solver, settings: Settings) -> Ray:
    """The direction with a feasible point, or a ray of infeasibility instead of it.

    An infeasible program may have improving directions too, which mean nothing then.
    """
    program = direction.program
    found = decide(program, solver, settings)
    if found.point is not None:
        return replace(direction, point=found.point)
    if found.ray is not None:
        return found.ray
    if found.is_asked or not program.n_rows:
        return direction
    ray = _ask_infeasible(program, solver, of_second_question(settings))
    return ray if ray is not None and ray.passes(RAY_TOL) else direction


def _ask_infeasible(program: Program, solver: Solver, settings: Settings) -> Ray | None:
    asked = elastic(program)
    if why_refused(solver, asked) is not None:
        return None
    answer = answer_of(asked, solver, settings)
    return None if answer.dual is None else certify_infeasible(program, program.sign * answer.dual)


def _ask_unbounded(program: Program, solver: Solver, settings: Settings) -> Ray | None:
    asked = recession(program)
    if why_refused(solver, asked) is not None:
        return None  # e.g. its unit vectors, for a solver of graphs
    answer = answer_of(asked, solver, settings)
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
    # A variable that no row contains is nowhere limited: as a free one it upsets some codes.
    used = np.bincount(program.rows_x.indices, minlength=program.n_auxiliary) > 0
    return Program.of(
        zero,
        program.rhs,
        rows_q=program.rows_q,
        rows_x=sp.hstack([program.rows_x, eye, -eye], format="csr"),
        relations=program.relations,
        cost_x=np.concatenate([np.zeros(program.n_auxiliary), -np.ones(2 * m)]),
        free_x=np.concatenate([program.free_x & used, np.zeros(2 * m, dtype=bool)]),
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
