"""The primal side of a certificate: residuals and eigenvalues of the returned matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

from sdpkit.certificate.scales import ratio
from sdpkit.errors import InputError
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix, is_finite

if TYPE_CHECKING:
    pass

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PrimalSide:
    objective: float
    residual: float
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
        return PrimalSide(np.nan, np.inf, -np.inf, np.inf, np.inf, matrices, unknown, x)
    spectra = [extremes(m) for m in even]
    q = program.measure(even)
    violations = program.violations(q, x) / program.row_norms
    scale = float((np.abs(program.rhs) / program.row_norms).max(initial=0.0))
    scale = scale or activity(program, q, x)
    residual = ratio(violations.max(initial=0.0), scale)
    bounded = ~program.free_x
    residual = max(residual, ratio(np.maximum(-x[bounded], 0.0).max(initial=0.0), scale))
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
        smallest,
        largest,
        float(np.linalg.norm(program.violations(q, x))),
        even,
        q,
        x,
    )


def _beyond_rank(block: Block, matrix: Array) -> float:
    """The largest eigenvalue that a limit on the rank has no room for, relative to the largest."""
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
    spectrum = scipy.linalg.eigvalsh(matrix)
    return float(spectrum[0]), float(np.abs(spectrum).max())


def activity(program: Program, q: Array, x: Array) -> float:
    """The largest magnitude of what is summed in a row: the scale of rows whose rhs is zero."""
    sums = abs(program.rows_q) @ np.abs(q) + abs(program.rows_x) @ np.abs(x)
    return float(np.max(sums / program.row_norms, initial=0.0))


@one_blas_thread
def project_onto_cone(block: Block, matrix: Matrix) -> Matrix:
    """The nearest matrix that is positive semidefinite and vanishes on the null directions.

    A `Gram` is what it is: the certificate says how far it is from the cone.
    """
    if isinstance(matrix, Gram):
        return matrix
    centred = block.project_out_null((matrix + matrix.T) / 2)
    values, vectors = scipy.linalg.eigh(centred)
    if values[0] >= 0:
        return centred
    root = vectors[:, values > 0] * np.sqrt(values[values > 0])
    return block.project_out_null(root @ root.T)


def as_matrices(program: Program, matrices: Matrix | Sequence[Matrix]) -> list[Matrix]:
    if isinstance(matrices, Gram) or (isinstance(matrices, np.ndarray) and matrices.ndim == 2):
        matrices = [matrices]
    given = [m if isinstance(m, Gram) else np.asarray(m, dtype=np.float64) for m in matrices]
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
    out = np.full(size, default) if values is None else np.asarray(values, dtype=np.float64)
    if out.shape != (size,):
        raise InputError(f"{what} has shape {out.shape}, expected ({size},)")
    return out
