"""Factors in integers that show a matrix of integers to be positive (semi)definite.

The proof is S = L̃L̃ᵀ + E with E diagonally dominant (`sdpkit.proof.check`). L̃ is a rounded factor
of S − δD, in units in which the diagonal D of S is near one: first in floating point, and where it
does not see the smallest eigenvalue, in integers of more and more bits. With p bits, rounding moves
an entry of L̃L̃ᵀ by at most 2⁻ᵖ of the diagonal, so that δ = 4n·2⁻ᵖ is enough.
"""

from __future__ import annotations

from math import isqrt
from operator import mul
from typing import Any

import numpy as np
import scipy.linalg

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.proof.check import Refused, check_definite
from sdpkit.typing import Array

Triangle = list[list[int]]
Factor = dict[str, Any]

_FLOATING = 50
_BITS = (80, 120, 200, 400, 800)
# A matrix with a diagonal near one and an eigenvalue below the negative of this is indefinite.
_BEYOND_DOUBT = 1e-11
# Rows up to which factors in integers are computed.
_LARGEST = 1000


class _Unlimited:
    """In place of a budget: what is checked here was made here."""

    def spend(self, products: int, bits: int = 0) -> None:
        """Nothing is counted."""


def factor_of(matrix: Triangle, strict: bool = False) -> Factor | None:
    """A proof that the symmetric matrix with this lower triangle is semidefinite; None if none
    was found. `strict`: positive definite.

    >>> factor_of([[2], [1, 2]]) is None, factor_of([[2], [3, 2]]) is None
    (False, True)
    """
    n = len(matrix)
    seen = [i for i in range(n) if matrix[i][i]]
    if any(matrix[i][i] < 0 for i in seen) or (strict and len(seen) < n):
        return None
    if len(seen) < n and not _vanishes_outside(matrix, set(seen)):
        return None
    powers = [(matrix[i][i].bit_length() + 1) // 2 for i in range(n)]
    scaled = _scaled(matrix, powers)[np.ix_(seen, seen)]
    least = 1.0
    if seen and np.isfinite(scaled).all():
        least = float(scipy.linalg.eigvalsh(scaled, subset_by_index=[0, 0])[0])
    if least < -_BEYOND_DOUBT:
        return None
    for bits in (_FLOATING, *_BITS):
        continue_or_raise()
        if bits > _FLOATING and n > _LARGEST:
            return None
        if bits == _FLOATING:
            rows = _floating(scaled, seen, n, least)
        else:
            rows = _fixed(matrix, powers, bits)
        if rows is None:
            continue
        proof = _proof(rows, powers, bits)
        try:
            check_definite(_Unlimited(), [matrix], [proof], strict, "factor")
        except Refused:
            continue
        return proof
    return None


def _vanishes_outside(matrix: Triangle, seen: set[int]) -> bool:
    return not any(
        v for i, row in enumerate(matrix) for j, v in enumerate(row) if not {i, j} <= seen
    )


def _scaled(matrix: Triangle, powers: list[int]) -> Array:
    """The symmetric matrix with a diagonal near one."""
    n = len(matrix)
    out = np.zeros((n, n))
    for i, row in enumerate(matrix):
        out[i, : i + 1] = [_over(v, powers[i] + powers[j]) if v else 0.0 for j, v in enumerate(row)]
    return np.asarray(out + np.tril(out, -1).T)


def _over(value: int, power: int) -> float:
    """value / 2^power as a float."""
    try:
        return value / (1 << power)
    except OverflowError:
        return float("nan")


def _floating(scaled: Array, seen: list[int], n: int, least: float) -> Triangle | None:
    """(n rows) the factor by floating point, in units of 2^−50."""
    if not np.isfinite(scaled).all() or least < len(seen) * 2e-15:
        return None
    whole = np.zeros((n, len(seen)))
    if seen:
        shifted = scaled - 0.5 * least * np.eye(len(seen))
        lower, failed = scipy.linalg.lapack.dpotrf(shifted, lower=1, clean=1)
        if failed:
            return None
        whole[seen] = lower
    return [[int(v) for v in row] for row in np.rint(whole * 2.0**_FLOATING)]


def _fixed(matrix: Triangle, powers: list[int], bits: int) -> Triangle | None:
    """(n rows) the factor in integers, in units of 2^−bits."""
    n = len(matrix)
    shift = 4 * n << bits
    rows: Triangle = []
    for i, given in enumerate(matrix):
        continue_or_raise()
        row: list[int] = []
        for j in range(i + 1):
            up = 2 * bits - powers[i] - powers[j]
            value = given[j] << up if up >= 0 else given[j] >> -up
            other = row if j == i else rows[j]
            left = value - shift * (i == j) - sum(map(mul, row, other))
            if j < i:
                pivot = other[j]
                row.append((2 * left + pivot) // (2 * pivot) if pivot else 0)
            elif left <= 0 and given[i]:
                return None
            else:
                row.append(isqrt(max(left, 0)))
        rows.append(row)
    return rows


def _proof(rows: Triangle, powers: list[int], bits: int) -> Factor:
    """The factor in units of the matrix, zeros at both ends of a row left out."""
    over = max(0, bits - min(powers, default=0))
    largest = max(powers, default=0)
    first, kept = [], []
    for row, power in zip(rows, powers, strict=True):
        places = [j for j, v in enumerate(row) if v]
        start, stop = (places[0], places[-1] + 1) if places else (0, 0)
        first.append(start)
        kept.append([v << (power - bits + over) for v in row[start:stop]])
    weights = [1 << (largest - power) for power in powers]
    return {"over": 1 << over, "first": first, "rows": kept, "weights": weights}
