"""A point moved onto its constraints inside the cone.

M = YYᵀ and x = z², and least squares in Y and z (Gauss-Newton): with y the solution of

    A_q [4 (VVᵀ) ∘ (VMVᵀ)] A_qᵀ y + 4 A_x diag(x) A_xᵀ y = b − A(M, x)

Y becomes (I + 2Vᵀdiag(A_qᵀy)V) Y. Free variables move as they like, those in second-order cones in
units of their distance from the boundary. A congruence keeps M positive definite, if it was, and a
length that is too long by many times is halved without moving the others.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.certificate.primal import row_residuals
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix
from sdpkit.typing import Array

# Rows and measurements up to which a point is moved.
_MAX_ROWS = 3000
_MAX_STEPS = 40
_MANY_ROWS = 500
# Added to the unit diagonal of the least-squares system: rows may depend on each other. The second
# is for many that do, as on a small face.
_RIDGES = (1e-13, 1e-11)


def onto_rows(
    program: Program,
    matrices: list[Matrix],
    x: Array,
    goal: float,
    inwards: float = 0.0,
    worth: Array | None = None,
) -> tuple[list[Matrix], Array]:
    """The point moved until no constraint is off by more than `goal` at its own scale, if it can
    be, and the violations together cost no more than `goal` by `worth`: (m,) what a unit of each
    violation costs, relative to the value.

    It starts `inwards` of the given one, M + inwards·I and x + inwards: a zero stays zero
    otherwise. Where violations are left, the point that came nearest is returned.
    """
    if not is_small(program) or any(isinstance(m, Gram) for m in matrices):
        return matrices, x
    pairs = zip(program.blocks, matrices, strict=True)
    factors = [root_of(block, np.asarray(m), inwards) for block, m in pairs]
    best, least, shortest, idle = (matrices, x), np.inf, np.inf, 0
    x = program.cone_x.projected(x) + inwards * program.cone_x.unit
    for _ in range(_MAX_STEPS if program.n_rows <= _MANY_ROWS else _MAX_STEPS // 4):
        continue_or_raise()
        step = step_onto_rows(program, factors, x)
        if step is None:
            break
        factors, x = step
        moved: list[Matrix] = [y @ y.T for y in factors]
        q = program.measure(moved)
        violations = program.violations(q, x)
        left = float(violations.max(initial=0.0))
        off = float(row_residuals(program, moved, q, x).max(initial=0.0))
        if worth is not None:
            off = max(off, float(np.abs(worth) @ violations))
        if off < least:
            best, least = (moved, x), off
        if off <= goal or not np.isfinite(off):
            break
        # Where short lengths are halved it is not `off` that falls.
        idle = 0 if left < 0.9 * shortest else idle + 1
        shortest = min(left, shortest)
        if idle > 1:
            break
    return best


def leading_part(matrix: Matrix, share: float) -> Matrix:
    """M without the eigenvalues below `share` of the largest: what an interior point adds."""
    if isinstance(matrix, Gram):
        return matrix
    continue_or_raise()
    values, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2)
    kept = values > share * values[-1]
    return np.asarray((vectors[:, kept] * values[kept]) @ vectors[:, kept].T)


def is_small(program: Program) -> bool:
    """Whether the least-squares system may be factored densely."""
    counts = (block.n_measurements for block in program.blocks)
    return max(program.n_rows, *counts) <= _MAX_ROWS


def root_of(block: Block, matrix: Array, more: float = 0.0) -> Array:
    """Y on the face with YYᵀ = M + more·I, whatever is negative in M left out."""
    continue_or_raise()
    values, vectors = scipy.linalg.eigh(block.project_out_null((matrix + matrix.T) / 2))
    root = vectors * np.sqrt(np.maximum(values, 0.0) + more)
    return np.asarray(root - block.null_basis @ (block.null_basis.T @ root))


def step_onto_rows(
    program: Program, factors: list[Array], x: Array
) -> tuple[list[Array], Array] | None:
    """One step of least squares; inequalities that hold are let go. None where it breaks down."""
    with np.errstate(all="ignore"):
        return _step(program, factors, x)


def _step(program: Program, factors: list[Array], x: Array) -> tuple[list[Array], Array] | None:
    images = [np.asarray(b.vectors() @ y) for b, y in zip(program.blocks, factors, strict=True)]
    q = np.concatenate([np.einsum("pk,pk->p", w, w) for w in images])
    off = program.row_values(q, x) - program.rhs
    rows = np.flatnonzero((program.relations == 0) | (program.excess(off) > 0))
    bounded, part_x = np.maximum(x, 0.0), program.rows_x[rows]
    free = max(1.0, float(np.abs(x).max(initial=0.0))) ** 2
    weight = np.where(program.free_x, free, 4 * bounded)
    cone = program.cone_x
    weight[cone.members] = np.square(np.maximum(-cone.lack(x), 0.0))[cone.owners]
    system = dense(part_x @ sp.diags_array(weight) @ part_x.T)
    for block, span, w in zip(program.blocks, program.spans, images, strict=True):
        continue_or_raise()
        a = program.rows_q[rows][:, span]
        system += a @ (a @ _lengths_of_steps(block, w)).T
    root = np.sqrt(np.where(np.diag(system) > 0, np.diag(system), 1.0))
    continue_or_raise()
    factor = _factored(system / np.outer(root, root))
    if factor is None:
        return None
    y = -scipy.linalg.cho_solve((factor, True), off[rows] / root) / root
    parts = program.split(np.asarray(program.rows_q[rows].T @ y))
    moved = []
    for block, u, old, w in zip(program.blocks, parts, factors, images, strict=True):
        step = 2 * np.asarray(block.vectors().T @ (u[:, None] * w))
        moved.append(old + step - block.null_basis @ (block.null_basis.T @ step))
    along = np.asarray(part_x.T @ y)
    return moved, np.where(program.free_x, x + weight * along, bounded * (1 + 2 * along) ** 2)


def _factored(unit: Array) -> Array | None:
    """The Cholesky factor of a matrix of unit diagonal that may be singular."""
    if not np.isfinite(unit).all():
        return None
    for ridge in _RIDGES:
        factor, failed = scipy.linalg.lapack.dpotrf(unit + ridge * np.eye(len(unit)), lower=1)
        if not failed:
            return np.asarray(factor)
    return None


def _lengths_of_steps(block: Block, images: Array) -> Array:
    """4 (VPVᵀ) ∘ (VMVᵀ) with P the projector onto the face."""
    v = block.vectors()
    beyond = np.asarray(v @ block.null_basis)
    inner = dense(v @ v.T) - beyond @ beyond.T
    return np.asarray(4 * inner * (images @ images.T))
