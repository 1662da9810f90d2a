"""Multipliers that are complementary to a point: what rounding leaves of the dual's equations.

At an optimum the dual slack vanishes where the point does not:

    S(w) M = 0,   r_j = 0 where x_j > 0 or x_j is free,   w_e = 0 where inequality e has slack

These equations are linear in w. Multipliers of a solver meet them to its tolerance, and the nearest
ones that meet them to rounding are often feasible to rounding, also where the dual has no interior
(equations that depend on each other, unbounded sets of optima). What is found is proven by the
ordinary bound of its multipliers.

Two ways lead there. The first takes from the point only the rank of the slack, and follows Newton's
method onto the slacks of that rank: the range of M may be known to half of the digits. The second
begins with the range of M, for slacks whose own small eigenvalues say little.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix
from sdpkit.typing import Array, Bools

# Entries of the largest system of equations.
_ENTRIES = 4e6
# Singular values below this share of the largest one belong to dependent equations: of a range that
# is known to rounding, and of one that is not.
_DEPENDENT, _BLURRED = 1e-11, 1e-8
# Newton steps onto the slacks of the same rank, from the slack alone and after the range of M.
_STEPS, _REFINEMENTS = 8, 3
# Multipliers below this share of the largest one are zero where the equations hold; and steps below
# this are rounding.
_NEGLIGIBLE, _ROUNDING = 1e-9, 1e-16


def complementary(program: Program, matrices: list[Matrix], x: Array, w: Array) -> Iterator[Array]:
    """Multipliers near w with these equations; none where the program is too large."""
    if not _is_small(program, matrices):
        return
    slack = program.excess(program.rhs - program.row_values(program.measure(matrices), x))
    kept = (program.relations == 0) | (np.abs(w) > slack)
    vanishing = _vanishing(program, x, program.reduced_costs(w))
    bases, start = list(_ranges(program, matrices, w)), np.where(kept, w, 0.0)
    ranks = [basis.shape[1] for basis in bases]
    yield np.clip(_of_slacks(program, start, kept, vanishing, ranks), *program.sign_box)
    out = _corrected(program, start, kept, vanishing, bases, _DEPENDENT, whole=True)
    for _ in range(_REFINEMENTS):
        bases = _kernels(program, out, ranks)
        out = _corrected(program, out, kept, vanishing, bases, _DEPENDENT, whole=False)
    yield np.clip(out, *program.sign_box)


def _of_slacks(
    program: Program, w: Array, kept: Bools, vanishing: sp.csr_array, ranks: list[int]
) -> Array:
    """Newton's method from w onto the slacks with kernels of these dimensions; multipliers that
    become negligible are zero from then on."""
    for _ in range(_STEPS):
        bases = _kernels(program, w, ranks)
        moved = _corrected(program, w, kept, vanishing, bases, _BLURRED, whole=False)
        kept = kept & (np.abs(moved) > _NEGLIGIBLE * np.abs(moved).max(initial=0.0))
        moved = np.where(kept, moved, 0.0)
        if np.abs(moved - w).max(initial=0.0) <= _ROUNDING * np.abs(w).max(initial=0.0):
            return moved
        w = moved
    return w


def _kernels(program: Program, w: Array, ranks: list[int]) -> list[Array]:
    """Per block the eigenvectors of as many smallest eigenvalues of the slack."""
    parts = zip(program.blocks, program.dual_slacks(w), ranks, strict=True)
    return [_smallest(block.face, slack, rank) for block, slack, rank in parts]


def _is_small(program: Program, matrices: list[Matrix]) -> bool:
    """Whether the equations are linear, and fit."""
    if program.has_log_det or program.family is not None or program.norms:
        return False
    if program.quadratic_x.any() or any(block.is_large_graph for block in program.blocks):
        return False
    if not all(isinstance(m, np.ndarray) for m in matrices):
        return False
    entries = sum(block.size**2 for block in program.blocks) + program.n_auxiliary
    return float(program.n_rows) * entries <= _ENTRIES


def _corrected(
    program: Program,
    w: Array,
    kept: Bools,
    vanishing: sp.csr_array,
    bases: list[Array],
    dependent: float,
    whole: bool,
) -> Array:
    """w with the smallest correction for which S(w)V = 0 and Lr = 0, L what vanishes; or, unless it
    is whole, VᵀS(w)V = 0, the tangent of the slacks of that rank."""
    rows = [(vanishing @ program.rows_x.T).toarray()]
    left = [np.asarray(vanishing @ program.reduced_costs(w))]
    at = 0
    for block, basis, slack in zip(program.blocks, bases, program.dual_slacks(w), strict=True):
        continue_or_raise()
        n, side = block.size, block.face if whole else basis
        images = program.matrix_rows[:, at : at + n * n].toarray().reshape(-1, n, n)
        sizes = (program.n_rows, side.shape[1] * basis.shape[1])
        rows.append((side.T @ images @ basis).reshape(sizes).T)
        left.append((side.T @ slack @ basis).ravel())
        at += n * n
    system = np.vstack(rows)[:, kept]
    out = w.copy()
    if system.size and np.isfinite(system).all():
        out[kept] -= scipy.linalg.lstsq(system, np.concatenate(left), cond=dependent)[0]
    return out


def _vanishing(program: Program, x: Array, r: Array) -> sp.csr_array:
    """(k, n_x) the combinations of reduced costs that are zero beside x: those of free variables
    and of positive ones; all in a second-order cone with x inside, and r_h x_T + x_h r_T where x
    lies on its boundary."""
    alone = program.equations_x | (~program.free_x & (x > np.abs(r)))
    parts = [sp.csr_array(sp.eye_array(x.size, format="csr")[np.flatnonzero(alone)])]
    for cone in program.cones:
        head, tail = cone.members[0], cone.members[1:]
        length, r_length = np.linalg.norm(x[tail]), np.linalg.norm(r[tail])
        if x[head] - length > r[head] + r_length:
            parts.append(sp.eye_array(x.size, format="csr")[cone.members])
        elif x[head] + length > r[head] - r_length and length > 0:
            rows = sp.lil_array((tail.size, x.size))
            rows[np.arange(tail.size), tail] = 1.0
            rows[:, [head]] = (x[tail] / length)[:, None]
            parts.append(sp.csr_array(rows))
    return sp.csr_array(sp.vstack(parts))


def _ranges(program: Program, matrices: list[Matrix], w: Array) -> Iterator[Array]:
    """Per block an orthonormal basis of what M spans: where it is larger than the slack."""
    parts = zip(program.blocks, matrices, program.dual_slacks(w), strict=True)
    for block, matrix, slack in parts:
        values, vectors = scipy.linalg.eigh(block.face.T @ np.asarray(matrix) @ block.face)
        against = block.face.T @ slack @ block.face
        beside = np.einsum("ik,ij,jk->k", vectors, against, vectors)
        yield block.face @ vectors[:, values > np.abs(beside)]


def _smallest(face: Array, slack: Array, count: int) -> Array:
    """The eigenvectors of the `count` smallest eigenvalues on a face."""
    return np.asarray(face @ scipy.linalg.eigh(face.T @ slack @ face)[1][:, :count])


__all__ = ["complementary"]
