"""Linear algebra in rational arithmetic: reduced rows, null spaces, semidefinite matrices.

Matrices are lists of rows of fractions. Sizes are those of small programs: a few hundred rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import scipy.linalg

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.typing import Array

Vector = list[Fraction]
Rational = list[list[Fraction]]

# What a basis is rounded to: entries with small denominators, at most this far away.
_DENOMINATOR = 1000
_NEAR = 1e-3


def rationals(values: Array) -> Vector:
    """The numbers exactly as their floating-point data state them."""
    return [Fraction(float(a)) for a in values]


def identity(n: int) -> Rational:
    """(n, n)."""
    return [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]


def reduced_rows(rows: Rational, width: int) -> tuple[Rational, list[int]]:
    """(the reduced row echelon form without rows of zeros, the columns of its pivots)

    Pivots are looked for in the first `width` columns. A row that has entries only beyond them
    stands at the end, without a pivot.
    """
    reduced: Rational = []
    pivots: list[int] = []
    rest: Rational = []
    for given in rows:
        continue_or_raise()
        row = list(given)
        for lead, other in zip(pivots, reduced, strict=True):
            _subtract(row, row[lead], other)
        pivot = next((j for j in range(width) if row[j]), None)
        if pivot is None:
            if any(row):
                rest.append(row)
            continue
        row = [a / row[pivot] if a else a for a in row]
        for other in reduced:
            _subtract(other, other[pivot], row)
        reduced.append(row)
        pivots.append(pivot)
    return [*reduced, *rest], pivots


def independent(rows: Rational) -> list[int]:
    """The rows that are not combinations of those before them."""
    kept: list[int] = []
    echelon: list[tuple[int, Vector]] = []
    for e, given in enumerate(rows):
        continue_or_raise()
        row = list(given)
        for lead, other in echelon:
            _subtract(row, row[lead], other)
        pivot = next((j for j, a in enumerate(row) if a), None)
        if pivot is not None:
            kept.append(e)
            echelon.append((pivot, [a / row[pivot] if a else a for a in row]))
    return kept


def _subtract(row: Vector, times: Fraction, other: Vector) -> None:
    """row − times · other, in place."""
    if times:
        for j, a in enumerate(other):
            if a:
                row[j] -= times * a


def null_space(rows: Rational, width: int) -> Rational:
    """Vectors of length `width` that span {z : rows z = 0}."""
    reduced, pivots = reduced_rows(rows, width)
    free = [j for j in range(width) if j not in set(pivots)]
    out = []
    for j in free:
        z = [Fraction(0)] * width
        z[j] = Fraction(1)
        for pivot, row in zip(pivots, reduced, strict=True):
            z[pivot] = -row[j]
        out.append(z)
    return out


def near_solution(rows: Rational, right: Vector, wanted: Array) -> list[Vector]:
    """Solutions of rows z = right whose free coordinates are those of `wanted`, rounded.

    Simple fractions come first, then 24 bits; no solution, if the equations contradict each other.
    """
    width = len(wanted)
    augmented = [[*row, b] for row, b in zip(rows, right, strict=True)]
    reduced, pivots = reduced_rows(augmented, width)
    if len(reduced) > len(pivots):
        return []
    taken = set(pivots)
    size = float(np.abs(wanted).max(initial=0.0))
    found = []
    for bits in (None, 24):
        z = [Fraction(0)] * width
        for j in range(width):
            if j not in taken:
                z[j] = _rounded(float(wanted[j]), size, bits)
        for pivot, row in zip(pivots, reduced, strict=True):
            z[pivot] = row[width] - sum(
                (row[j] * z[j] for j in range(width) if j not in taken and row[j]), Fraction(0)
            )
        found.append(z)
    return found


def _rounded(value: float, size: float, bits: int | None) -> Fraction:
    if not size:
        return Fraction(0)
    if bits is None:
        # In units of a power of two near the largest number.
        unit = Fraction(2) ** int(np.frexp(size)[1])
        return Fraction(value / float(unit)).limit_denominator(_DENOMINATOR) * unit
    unit = Fraction(2) ** (int(np.frexp(size)[1]) - bits)
    return round(Fraction(value) / unit) * unit


def rounded_span(vectors: Array) -> Rational | None:
    """(k, n) simple fractions that span nearly what the columns of (n, k) `vectors` span, or None.

    The basis is the identity at k rows, so that it is simple where there is a simple one.
    """
    k = vectors.shape[1]
    if not k:
        return []
    pivots = scipy.linalg.qr(vectors.T, mode="r", pivoting=True)[1][:k]
    basis = np.linalg.solve(vectors[pivots].T, vectors.T)
    out = [[Fraction(float(a)).limit_denominator(_DENOMINATOR) for a in row] for row in basis]
    off = np.abs(table(out, len(vectors)) - basis)
    return out if off.max() <= _NEAR * max(1.0, float(np.abs(basis).max())) else None


def kernel_of_semidefinite(matrix: Rational) -> Rational | None:
    """Vectors that span the kernel of a positive semidefinite matrix; None for any other."""
    return null_space(matrix, len(matrix)) if is_semidefinite(matrix) else None


def is_semidefinite(matrix: Rational) -> bool:
    """Positive semidefiniteness of a symmetric rational matrix, by elimination."""
    a = [list(row) for row in matrix]
    left = list(range(len(a)))
    while left:
        continue_or_raise()
        if any(a[i][i] < 0 for i in left):
            return False
        pivot = max(left, key=lambda i: a[i][i])
        if a[pivot][pivot] == 0:
            return all(a[i][j] == 0 for i in left for j in left)
        left.remove(pivot)
        for i in left:
            if not a[i][pivot]:
                continue
            factor = a[i][pivot] / a[pivot][pivot]
            for j in left:
                a[i][j] -= factor * a[pivot][j]
    return True


def congruence(matrix: Rational, basis: Sequence[Vector]) -> Rational:
    """(k, k) Bᵀ A B, for k vectors as the columns of B."""
    images = [times(matrix, z) for z in basis]
    return [[dot(z, image) for image in images] for z in basis]


def times(matrix: Rational, z: Vector) -> Vector:
    """A z."""
    return [dot(row, z) for row in matrix]


def dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    """aᵀb."""
    return sum((p * q for p, q in zip(a, b, strict=True) if p and q), Fraction(0))


def doubles(values: Sequence[Fraction]) -> Array:
    """The nearest floating-point numbers."""
    return np.array([float(a) for a in values], dtype=np.float64)


def table(rows: Rational, width: int) -> Array:
    """(m, width) the same of a matrix."""
    return np.array([doubles(row) for row in rows]).reshape(len(rows), width)


def upper_triangle(matrix: Rational) -> Vector:
    """The coefficients of <A, Z> in the upper triangle of a symmetric Z, row by row."""
    n = len(matrix)
    return [matrix[i][j] * (1 if i == j else 2) for i in range(n) for j in range(i, n)]
