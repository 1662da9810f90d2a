"""Auxiliary programs whose answers say whether a program is infeasible or unbounded.

Infeasibility is the dual of the *elastic* program, min Σ|residual|; unboundedness the *recession*
program, max <C, M> over constraints with right-hand side zero and tr M ≤ 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sdpkit.program.block import Block
from sdpkit.program.form import Program


def elastic(program: Program) -> Program:
    """max −Σ(s⁺ + s⁻) with A_q q + A_x x + s⁺ − s⁻ in relation to b.

    Its dual is  min bᵀw, Aᵀ(w) ⪰ 0, |w| ≤ 1: a negative value is a ray of infeasibility.
    """
    m = program.n_rows
    eye = sp.eye_array(m, format="csr")
    zero = [replace(b, cost=b.cost.scaled(0.0), log_det=0.0) for b in program.blocks]
    # A variable that no constraint contains has no limits: some codes fail if it is free.
    used = np.bincount(program.rows_x.indices, minlength=program.n_auxiliary) > 0
    in_cone = program.cone_x.inside
    return Program.of(
        zero,
        program.rhs,
        rows_q=program.rows_q,
        rows_x=sp.hstack([program.rows_x, eye, -eye], format="csr"),
        relations=program.relations,
        cost_x=np.concatenate([np.zeros(program.n_auxiliary), -np.ones(2 * m)]),
        free_x=np.concatenate([program.free_x & (used | in_cone), np.zeros(2 * m, dtype=bool)]),
        cones=program.cones,
        name=f"elastic {program.name}",
    )


def recession(program: Program) -> Program:
    """The program over its recession cone, tr M + Σx ≤ 1 added: a positive gain is a ray.

    Infeasible programs have improving directions too, so infeasibility is tried first.
    """
    extended = [with_unit_vectors(block) for block in program.blocks]
    spans = zip(program.blocks, program.spans, strict=True)
    rows_q = sp.hstack(
        [sp.hstack([program.rows_q[:, span], _nothing(program, b.size)]) for b, span in spans]
    )
    costs = zip(program.blocks, program.split(program.cost_q), strict=True)
    cost_q = np.concatenate([np.r_[g, np.zeros(block.size)] for block, g in costs])
    trace = np.concatenate(
        [np.r_[np.zeros(block.n_measurements), np.ones(block.size)] for block in program.blocks]
    )
    nonnegative = sp.csr_array(program.cone_x.unit[None, :])
    # Free variables get constraints of their own: −1 ≤ x_j ≤ 1.
    unit = sp.eye_array(program.n_auxiliary, format="csr")[np.flatnonzero(program.cone_x.lines)]
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
        cones=program.cones,
        name=f"recession of {program.name}",
    )


def _nothing(program: Program, width: int) -> sp.csr_array:
    return sp.csr_array((program.n_rows, width))


def with_unit_vectors(block: Block) -> Block:
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
