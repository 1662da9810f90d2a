"""The primal side of a certificate: residuals and eigenvalues of the returned matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.certificate.scales import ratio
from sdpkit.errors import InputError
from sdpkit.inputs import real_array
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix, is_finite
from sdpkit.typing import Array

EPS = float(np.finfo(np.float64).eps)
# Roundings that a computed row goes through, and that no solver can avoid.
_UNAVOIDABLE = 64
# Rows and measurements up to which a direction is moved onto its rows.
_MAX_RESTORED = 1500


@dataclass(frozen=True)
class PrimalSide:
    objective: float
    residual: float
    inside: float
    smallest: float
    largest: float
    row_norm: float
    matrices: list[Matrix]
    q: Array
    x: Array


def primal_side(program: Program, matrices: list[Matrix], x: Array) -> PrimalSide:
    even = [symmetric_part(m) for m in matrices]
    if not all(is_finite(m) for m in [*even, x]):
        unknown = np.full(program.rows_q.shape[1], np.nan)
        return PrimalSide(np.nan, np.inf, np.inf, -np.inf, np.inf, np.inf, matrices, unknown, x)
    spectra = [extremes(m) for m in even]
    q = program.measure(even)
    scale = float((np.abs(program.rhs) / program.row_norms).max(initial=0.0))
    scale = scale or activity(program, q, x) or program.natural_size
    residual = float(row_residuals(program, even, q, x).max(initial=0.0))
    residual = max(residual, ratio(program.cone_x.short(x), scale))
    for block, matrix, s in zip(program.blocks, matrices, even, strict=True):
        if isinstance(s, Gram):
            # Symmetric by its definition; lengths that rounding blurs are no better than that.
            image = s @ block.null_basis
            residual = max(residual, s.accuracy())
            residual = max(residual, ratio(float(np.linalg.norm(image)), s.largest_eigenvalue))
            continue
        norm = float(np.linalg.norm(s))
        residual = max(residual, ratio(float(np.linalg.norm(matrix - s)), norm))
        residual = max(residual, ratio(float(np.linalg.norm(s @ block.null_basis)), norm))
        residual = max(residual, _beyond_rank(block, s))
    # The block whose negative eigenvalue weighs most against its own largest.
    smallest, largest = min(spectra, key=lambda pair: pair[0] / (pair[1] or 1.0))
    return PrimalSide(
        program.objective(even, x),
        residual,
        _rows_inside(program, even, spectra, x),
        smallest,
        largest,
        float(np.linalg.norm(program.violations(q, x))),
        even,
        q,
        x,
    )


def _rows_inside(
    program: Program, matrices: list[Matrix], spectra: list[tuple[float, float]], x: Array
) -> float:
    """The worst row of the nearest point with M ⪰ 0, MN = 0 and x in its cone, 0 if this is it.

    A change that is negligible against the largest eigenvalue may be all of a small constraint.
    """
    above = program.cone_x.projected(x)
    inside, moved = [], bool(np.any(above != x))
    for block, matrix, (smallest, largest) in zip(program.blocks, matrices, spectra, strict=True):
        off = -smallest
        if block.null_basis.shape[1] and not isinstance(matrix, Gram):
            off = max(off, float(np.linalg.norm(matrix @ block.null_basis)))
        out = off > _UNAVOIDABLE * block.size * EPS * largest
        inside.append(project_onto_cone(block, matrix) if out else matrix)
        moved = moved or out
    if not moved:
        return 0.0
    q = program.measure(inside)
    return float(row_residuals(program, inside, q, above).max(initial=0.0))


def row_residuals(program: Program, matrices: list[Matrix], q: Array, x: Array) -> Array:
    """(m,) the violation of each constraint, less unavoidable rounding, in units of its own size.

    The size is the larger of |b_e| and Σ|a_ep|q_p + Σ|a_ej||x_j|; for a row with b_e = 0, whose
    terms may all vanish, at least the size that other constraints on the same nodes suggest.
    """
    violations = program.violations(q, x)
    if not violations.any():
        return violations
    a_q, from_x = abs(program.rows_q), abs(program.rows_x) @ np.abs(x)
    size = np.maximum(np.abs(program.rhs), a_q @ np.abs(q) + from_x)
    zero = program.rhs == 0
    if violations[zero].any():
        least = _suggested(program) if program.rhs.any() else activity(program, q, x)
        size = np.where(zero, np.maximum(size, program.row_norms * least), size)
    pairs = zip(program.blocks, matrices, strict=True)
    summed = a_q @ np.concatenate([_summed(*pair) for pair in pairs]) + from_x
    left = np.maximum(violations - _UNAVOIDABLE * EPS * (summed + np.abs(program.rhs)), 0.0)
    out = np.where(left > 0, np.inf, 0.0)
    return np.asarray(np.divide(left, size, out=out, where=size > 0))


def _suggested(program: Program) -> Array:
    """(m,) the size of what a row with b_e = 0 compares, as rows with b_e ≠ 0 tell it: each node
    is as small as the smallest of its rows, a row as large as the largest of its nodes; the
    median over all rows at most."""
    spans = zip(program.blocks, program.spans, strict=True)
    parts = [abs(program.rows_q[:, span]) @ abs(block.incidence) for block, span in spans]
    touched = sp.csr_array(sp.hstack([*parts, abs(program.rows_x)]))
    row = np.repeat(np.arange(program.n_rows), np.diff(touched.indptr))
    unit = np.where(program.rhs == 0, np.inf, np.abs(program.rhs) / program.row_norms)
    nodes = np.full(touched.shape[1], np.inf)
    np.minimum.at(nodes, touched.indices, unit[row])
    out, told = np.zeros(program.n_rows), np.isfinite(nodes[touched.indices])
    np.maximum.at(out, row[told], nodes[touched.indices[told]])
    return np.minimum(np.where(out > 0, out, np.inf), program.natural_size)


def _summed(block: Block, matrix: Matrix) -> Array:
    """(p,) |v_p|ᵀ|M||v_p|: what a squared length is summed from."""
    if isinstance(matrix, Gram):
        sums = np.asarray(abs(block.incidence).sum(axis=1)).ravel()
        return np.asarray(matrix.largest_eigenvalue * sums**2)
    features = None if block.features is None else np.abs(block.features)
    absolute = replace(block, incidence=abs(block.incidence), features=features)
    return absolute.measure(np.abs(np.asarray(matrix)))


def restored(
    program: Program, matrices: list[Matrix], x: Array, rhs: Array
) -> tuple[list[Matrix], Array]:
    """The point moved so that its rows meet `rhs`, each part in proportion to its size:
    M + M·Aᵀ(y)·M, which keeps a small change in the cone. Inequalities that hold are let go."""
    q = program.measure(matrices)
    off = program.row_values(q, x) - rhs
    rows = np.flatnonzero((program.relations == 0) | (program.excess(off) > 0))
    dense_enough = not any(isinstance(m, Gram) for m in matrices)
    widest = max(block.n_measurements for block in program.blocks)
    if not dense_enough or not off[rows].any() or max(rows.size, widest) > _MAX_RESTORED:
        return matrices, x
    largest = max(1.0, float(np.abs(x).max(initial=0.0)))
    weight = np.where(program.free_x, largest, x).astype(np.float64) ** 2
    part_x = program.rows_x[rows]
    schur = dense(part_x @ sp.diags_array(weight) @ part_x.T)
    for block, span, m in zip(program.blocks, program.spans, matrices, strict=True):
        v, a = block.vectors(), program.rows_q[rows][:, span]
        schur = schur + a @ (np.asarray(v @ (np.asarray(m) @ v.T.toarray())) ** 2) @ a.T.toarray()
    root = np.sqrt(np.where(np.diag(schur) > 0, np.diag(schur), 1.0))
    with np.errstate(all="ignore"):
        scaled_schur = schur / np.outer(root, root)
        if not np.isfinite(scaled_schur).all():
            return matrices, x
        y = scipy.linalg.lstsq(scaled_schur, -off[rows] / root, cond=1e-13)[0] / root
        u = program.split(np.asarray(program.rows_q[rows].T @ y))
        moved = [
            np.asarray(m) @ (np.eye(b.size) + dense(b.adjoint(part)) @ np.asarray(m))
            for b, part, m in zip(program.blocks, u, matrices, strict=True)
        ]
        return [(m + m.T) / 2 for m in moved], x + weight * (part_x.T @ y)


def _beyond_rank(block: Block, matrix: Array) -> float:
    """The largest eigenvalue beyond a limit on the rank, relative to the largest."""
    if block.max_rank is None or block.max_rank >= block.size:
        return 0.0
    values = np.sort(np.abs(scipy.linalg.eigvalsh(matrix)))[::-1]
    return ratio(float(values[block.max_rank]), float(values[0]))


def symmetric_part(matrix: Matrix) -> Matrix:
    return matrix if isinstance(matrix, Gram) else (matrix + matrix.T) / 2


def extremes(matrix: Matrix) -> tuple[float, float]:
    """(smallest eigenvalue, largest magnitude of any)."""
    if isinstance(matrix, Gram):
        return matrix.smallest_eigenvalue(), matrix.largest_eigenvalue
    continue_or_raise()
    spectrum = scipy.linalg.eigvalsh(matrix)
    return float(spectrum[0]), float(np.abs(spectrum).max())


def activity(program: Program, q: Array, x: Array) -> float:
    """The largest magnitude of what is summed in a row: the scale of rows whose rhs is zero."""
    sums = abs(program.rows_q) @ np.abs(q) + abs(program.rows_x) @ np.abs(x)
    return float(np.max(sums / program.row_norms, initial=0.0))


@one_blas_thread
def project_onto_cone(block: Block, matrix: Matrix) -> Matrix:
    """The nearest matrix that is positive semidefinite and vanishes on the null directions.

    A `Gram` stays as it is: the certificate shows how far it is from the cone.
    """
    if isinstance(matrix, Gram):
        return matrix
    centred = block.project_out_null((matrix + matrix.T) / 2)
    if _is_definite_on_face(block, centred):
        return centred
    values, vectors = scipy.linalg.eigh(centred)
    if values[0] >= 0:
        return centred
    root = vectors[:, values > 0] * np.sqrt(values[values > 0])
    return block.project_out_null(root @ root.T)


def _is_definite_on_face(block: Block, matrix: Array) -> bool:
    """Whether a Cholesky factorisation exists, null directions lifted: a third of n³, where
    eigenvectors take ten."""
    null = block.null_basis
    size = float(np.trace(matrix)) / len(matrix)
    if not 0 < size < np.inf:
        return False
    lifted = matrix + size * (null @ null.T) if null.shape[1] else matrix
    return int(scipy.linalg.lapack.dpotrf(lifted, lower=1, clean=0)[1]) == 0


def as_matrices(program: Program, matrices: Matrix | Sequence[Matrix]) -> list[Matrix]:
    if isinstance(matrices, Gram) or (isinstance(matrices, np.ndarray) and matrices.ndim == 2):
        matrices = [matrices]
    if not isinstance(matrices, Sequence | Iterator | np.ndarray) or isinstance(matrices, str):
        raise InputError(f"matrices is {type(matrices).__name__}: pass one matrix per block")
    given = [m if isinstance(m, Gram) else _numbers(m, "matrices") for m in matrices]
    if len(given) != len(program.blocks):
        raise InputError(f"{len(given)} matrices for {len(program.blocks)} blocks")
    for block, matrix in zip(program.blocks, given, strict=True):
        if matrix.shape != (block.size, block.size):
            raise InputError(
                f"the matrix of block {block.name!r} has shape {matrix.shape}, "
                f"expected ({block.size}, {block.size})"
            )
    return given


def as_vector(
    values: ArrayLike | None, size: int, what: str, default: float | None = None
) -> Array:
    if values is None and default is None:
        raise InputError(f"{what} is None: pass {size} numbers")
    out = np.full(size, default) if values is None else _numbers(values, what)
    if out.shape != (size,):
        raise InputError(f"{what} has shape {out.shape}, expected ({size},)")
    return out


def _numbers(values: ArrayLike, what: str) -> Array:
    """Real numbers, NaN and infinity among them; arrays of floats are not copied."""
    is_plain = isinstance(values, np.ndarray) and values.dtype == np.float64
    return np.asarray(values) if is_plain else real_array(values, what)
