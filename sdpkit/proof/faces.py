"""Faces that contain every feasible point, found in floating point and proven in integers.

An exposing vector y has bᵀy = 0 and W = Σ y_i A_i ⪰ 0 (`sdpkit.proof.check`). One row with b_i = 0
and a semidefinite matrix is the simplest; further candidates come from approximate ones, which are
rounded so that the kernel and bᵀy = 0 hold exactly. On the face rows may depend on each other:
those that do are dropped, each with a rational combination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.proof.check import DyadicProgram, Refused, bits_of, onto_face
from sdpkit.proof.definite import Triangle, factor_of
from sdpkit.proof.floats import Floats, Matrices
from sdpkit.typing import Array

# The columns of N.
Basis = list[list[int]]
# Sizes up to which kernels and combinations are computed in fractions.
_KERNEL, _RANK, _COMBINED = 400, 60, 400
_DENOMINATOR = 1000
_ZERO = 1e-9
# Bits of the entries of N: more belong to directions that were rounded.
_LONGEST = 300


@dataclass(frozen=True, eq=False)
class OnFace:
    """A program on a chain of faces, in place of the one that was given.

    Attributes
    ----------
    chain: the faces as a proof states them;  bases: per block N with X = NZNᵀ, or None
    """

    chain: list[dict[str, Any]]
    bases: list[Array | None]

    def coordinates(self, matrices: Matrices) -> Matrices:
        """Z with NZNᵀ nearest to X."""
        out = []
        for basis, m in zip(self.bases, matrices, strict=True):
            inverse = None if basis is None else np.linalg.pinv(basis)
            out.append(m if inverse is None else inverse @ m @ inverse.T)
        return out


def expose(program: DyadicProgram, candidates: Sequence[Array]) -> OnFace:
    """Replace the program by the smallest face that was found."""
    found = OnFace([], [None] * (len(program.sizes) - 1))
    while True:
        continue_or_raise()
        for y in _candidates(program, candidates if not found.chain else ()):
            face = _face(program, y)
            if face is not None:
                break
        else:
            return found
        _enter(program, face, found)


def _enter(program: DyadicProgram, face: dict[str, Any], found: OnFace) -> None:
    onto_face(program, face)
    found.chain.append(face)
    for k, block in enumerate(face["blocks"]):
        columns, before = block["columns"], found.bases[k]
        size = len(block["factor"]["first"])
        basis = np.array(columns, dtype=float).reshape(len(columns), size).T
        if len(columns) < size:
            found.bases[k] = basis if before is None else before @ basis


def _candidates(program: DyadicProgram, given: Sequence[Array]) -> Iterator[list[int]]:
    """Integer multipliers that may expose a face."""
    for e, (b, row) in enumerate(zip(program.b, program.rows, strict=True)):
        diagonal = [v for (_, i, j), v in row.items() if i == j and v]
        signs = {v > 0 for v in diagonal}
        if b == 0 and len(signs) == 1:
            yield [(1 if signs == {True} else -1) * (i == e) for i in range(len(program.b))]
    if given:
        floats = Floats.of(program)
        for y in given:
            yield from _rounded(program, floats, y)


def _face(program: DyadicProgram, y: list[int]) -> dict[str, Any] | None:
    """The face that y exposes, as a proof states it; None if it exposes none."""
    if sum(b * v for b, v in zip(program.b, y, strict=True)):
        return None
    try:
        images, positive = program.combined(y, 0, "face")
    except Refused:
        return None
    if not positive and not any(any(row) for image in images for row in image):
        return None
    blocks = []
    for image in images:
        columns = _kernel(image)
        block = None if columns is None else _block(image, columns)
        if block is None:
            return None
        blocks.append(block)
    return {"multipliers": y, "blocks": blocks}


def _block(image: Triangle, columns: Basis) -> dict[str, Any] | None:
    """N, and the factor of W + sNNᵀ."""
    n = len(image)
    basis = [[column[i] for column in columns] for i in range(n)]
    pairs = [
        [sum(u * v for u, v in zip(basis[i], basis[j], strict=True)) for j in range(i + 1)]
        for i in range(n)
    ]
    if max(map(bits_of, columns), default=0) > _LONGEST:
        return None
    heaviest = max((pairs[i][i] for i in range(n)), default=1) or 1
    s = max(1, max((image[i][i] for i in range(n)), default=1) // heaviest)
    lifted = [
        [v + s * p for v, p in zip(*rows, strict=True)] for rows in zip(image, pairs, strict=True)
    ]
    factor = factor_of(lifted, strict=True)
    return None if factor is None else {"columns": columns, "s": s, "factor": factor}


def _kernel(image: Triangle) -> Basis | None:
    """Integer columns that span the kernel of a semidefinite matrix; None for any other."""
    n = len(image)
    if n > _KERNEL and any(any(row) for row in image):
        return None
    a = [[Fraction(image[max(i, j)][min(i, j)]) for j in range(n)] for i in range(n)]
    seen = [i for i in range(n) if any(a[i])]
    left = list(seen)
    pivots: list[int] = []
    while left:
        continue_or_raise()
        pivot = max(left, key=lambda i: a[i][i])
        if a[pivot][pivot] <= 0:
            if any(a[i][j] for i in left for j in left):
                return None
            break
        if len(pivots) == _RANK and len(seen) > _RANK:
            return None
        left.remove(pivot)
        pivots.append(pivot)
        lead = a[pivot]
        for i in seen:
            if i != pivot and a[i][pivot]:
                times = a[i][pivot] / lead[pivot]
                a[i] = [u - times * v if v else u for u, v in zip(a[i], lead, strict=True)]
    # Rows of pivots are diagonal on the pivots: z_p = −(row of p on free coordinates)/pivot.
    free = [j for j in range(n) if j not in set(pivots)]
    columns = []
    for j in free:
        z = [Fraction(0)] * n
        z[j] = Fraction(1)
        for p in pivots:
            z[p] = -a[p][j] / a[p][p]
        over = lcm(*(v.denominator for v in z))
        columns.append([int(v * over) for v in z])
    return columns


# -- approximate exposing vectors ---------------------------------------------------------------


def _rounded(program: DyadicProgram, floats: Floats, y: Array) -> Iterator[list[int]]:
    """Integer multipliers near y that keep the kernel of its image and bᵀy = 0."""
    size = float(np.abs(y).max(initial=0.0))
    if not 0 < size < np.inf:
        return
    images, r = floats.images(y / size)
    largest = max([float(np.abs(m).max(initial=0.0)) for m in [*images, r]], default=0.0)
    for cut in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        continue_or_raise()
        kernels = [_rounded_kernel(m, cut * largest) for m in images]
        if any(kernel is None for kernel in kernels):
            continue
        rows = _conditions(program, floats, [k for k in kernels if k is not None], r, cut * largest)
        yield from _near_kernel(rows, y / size)


def _rounded_kernel(image: Array, dust: float) -> list[list[Fraction]] | None:
    """Simple fractions that span nearly the kernel of a matrix: one list per vector."""
    values, vectors = np.linalg.eigh(image) if len(image) else (np.zeros(0), np.zeros((0, 0)))
    kept = vectors[:, values <= dust]
    k = kept.shape[1]
    if not k:
        return []
    pivots = scipy.linalg.qr(kept.T, mode="r", pivoting=True)[1][:k]
    basis = np.linalg.solve(kept[pivots].T, kept.T)
    out = [[Fraction(v).limit_denominator(_DENOMINATOR) for v in row] for row in basis.tolist()]
    off = np.abs(np.array([[float(v) for v in row] for row in out]) - basis).max()
    return out if off <= 1e-3 * max(1.0, float(np.abs(basis).max())) else None


def _conditions(
    program: DyadicProgram,
    floats: Floats,
    kernels: list[list[list[Fraction]]],
    r: Array,
    dust: float,
) -> list[list[Fraction]]:
    """Equations of an exposing vector: WN = 0, bᵀy = 0, r_j = 0 where it is nearly zero."""
    m = len(program.b)
    table: dict[Any, dict[int, Fraction]] = {"b": dict(enumerate(map(Fraction, program.b)))}
    for e, row in enumerate(program.rows):
        for (k, i, j), v in row.items():
            if k == 0:
                if program.free[j] or abs(r[j]) <= dust:
                    table.setdefault((0, j), {})[e] = Fraction(v)
                continue
            for a, c in {(i, j), (j, i)}:
                for at, z in enumerate(kernels[k - 1]):
                    if z[c]:
                        place = table.setdefault((k, at, a), {})
                        place[e] = place.get(e, Fraction(0)) + v * z[c]
    return [
        [row.get(e, Fraction(0)) for e in range(m)] for row in table.values() if any(row.values())
    ]


def _near_kernel(rows: list[list[Fraction]], y: Array) -> Iterator[list[int]]:
    """Integer solutions of rows · z = 0 near y."""
    reduced = _reduced(rows, len(y))
    if reduced is None:
        return
    pivots, table = reduced
    free = [j for j in range(len(y)) if j not in set(pivots)]
    if not free:
        return
    # Project y onto the kernel in floating point first.
    basis = np.zeros((len(y), len(free)))
    basis[free, np.arange(len(free))] = 1.0
    for p, row in zip(pivots, table, strict=True):
        basis[p] = [-float(row[j]) for j in free]
    wanted = np.linalg.lstsq(basis, y, rcond=None)[0]
    size = float(np.abs(wanted).max(initial=0.0))
    for simple in (True, False):
        values = [_near(float(v), size, simple) for v in wanted]
        z = [Fraction(0)] * len(y)
        for j, v in zip(free, values, strict=True):
            z[j] = v
        for p, row in zip(pivots, table, strict=True):
            z[p] = -sum(
                (row[j] * v for j, v in zip(free, values, strict=True) if row[j]), Fraction(0)
            )
        over = lcm(*(v.denominator for v in z))
        yield [int(v * over) for v in z]


def _near(value: float, size: float, simple: bool) -> Fraction:
    if not size:
        return Fraction(0)
    if simple:
        return Fraction(value / size).limit_denominator(_DENOMINATOR)
    return Fraction(round(value / size * 2**24), 2**24)


def _reduced(
    rows: list[list[Fraction]], width: int
) -> tuple[list[int], list[list[Fraction]]] | None:
    """(pivots, rows) of the reduced row echelon form; None where it would take too long."""
    try:
        import flint
    except ImportError:
        if width > 60:
            return None
        return _eliminated(rows, width)
    matrix = flint.fmpq_mat(
        len(rows), width, [flint.fmpq(v.numerator, v.denominator) for row in rows for v in row]
    )
    echelon, rank = matrix.rref()
    pivots, out = [], []
    for i in range(rank):
        row = [echelon[i, j] for j in range(width)]
        out.append([Fraction(int(v.p), int(v.q)) for v in row])
        pivots.append(next(j for j, v in enumerate(out[-1]) if v))
    return pivots, out


def _eliminated(rows: list[list[Fraction]], width: int) -> tuple[list[int], list[list[Fraction]]]:
    done: list[list[Fraction]] = []
    pivots: list[int] = []
    for given in rows:
        continue_or_raise()
        row = list(given)
        for p, other in zip(pivots, done, strict=True):
            if row[p]:
                times = row[p]
                row = [u - times * v if v else u for u, v in zip(row, other, strict=True)]
        lead = next((j for j in range(width) if row[j]), None)
        if lead is None:
            continue
        row = [v / row[lead] if v else v for v in row]
        for at, other in enumerate(done):
            if other[lead]:
                times = other[lead]
                done[at] = [u - times * v if v else u for u, v in zip(other, row, strict=True)]
        done.append(row)
        pivots.append(lead)
    return pivots, done


# -- dependent rows -----------------------------------------------------------------------------


def drop_dependent(program: DyadicProgram) -> list[dict[str, Any]]:
    """Take the rows that others imply out of the program; what a proof says about each."""
    dropped: list[dict[str, Any]] = []
    for e in range(len(program.rows) - 1, -1, -1):
        if not any(program.rows[e].values()) and program.b[e] == 0:
            dropped.append(_drop(program, e, [int(i == e) for i in range(len(program.b))]))
    m = len(program.rows)
    if not m:
        return dropped
    floats = Floats.of(program)
    rows = sp.csr_array(sp.hstack([floats.blocks, floats.linear]))
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    gram = floats.gram() / np.outer(norms, norms)
    _, order, rank, _ = scipy.linalg.lapack.dpstrf(gram, tol=_ZERO, lower=1)
    if rank == m or m > 4 * _COMBINED or rank > _COMBINED:
        return dropped
    kept = sorted(int(i) - 1 for i in order[:rank])
    for e in sorted((int(i) - 1 for i in order[rank:]), reverse=True):
        continue_or_raise()
        y = _combination(program, gram, norms, kept, e)
        if y is None:
            return dropped
        dropped.append(_drop(program, e, y))
        kept = [i - (i > e) for i in kept]
        gram, norms = np.delete(np.delete(gram, e, 0), e, 1), np.delete(norms, e)
    return dropped


def _drop(program: DyadicProgram, e: int, y: list[int]) -> dict[str, Any]:
    del program.rows[e], program.b[e]
    return {"row": e + 1, "combination": y}


def _combination(
    program: DyadicProgram, gram: Array, norms: Array, kept: list[int], e: int
) -> list[int] | None:
    """Integers y with Σ y_i (A_i, b_i) = 0, y_e ≠ 0 and y zero outside of the kept rows and e."""
    part = gram[np.ix_(kept, kept)]
    with np.errstate(all="ignore"):
        t = scipy.linalg.lstsq(part, gram[kept, e], cond=1e-13)[0] * norms[e] / norms[kept]
    for denominator in (12, _DENOMINATOR, 10**6):
        exact = [Fraction(float(v)).limit_denominator(denominator) for v in t]
        over = lcm(*(v.denominator for v in exact))
        y = [0] * len(program.b)
        y[e] = -over
        for i, v in zip(kept, exact, strict=True):
            y[i] = int(v * over)
        if _is_zero(program, y):
            return y
    return None


def _is_zero(program: DyadicProgram, y: list[int]) -> bool:
    try:
        images, positive = program.combined(y, 0, "dropped")
    except Refused:
        return False
    zero = not positive and not any(any(row) for image in images for row in image)
    return zero and not sum(b * v for b, v in zip(program.b, y, strict=True))
