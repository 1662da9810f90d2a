"""The end that a point proves: nearly feasible, inside the cone, and feasible after a small step.

A returned point lies at the boundary of the cone. It is moved inwards, X + τI, and back onto its
rows in its own metric, ΔX = X Σ y_i A_i X, which keeps it inside. What is then left of the rows is
computed exactly and taken away by steps Σ y_i A_i, as often as needed: the point has more digits
than a double, so that the distance to a feasible point is no more than the last of them. Where
these steps leave the cone, the first of them are taken in the metric of the point as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import frexp, isqrt, ldexp
from typing import Any

import numpy as np
import scipy.linalg

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.proof.check import DyadicProgram
from sdpkit.proof.definite import Triangle, factor_of
from sdpkit.proof.digits import Digits
from sdpkit.proof.floats import Floats, Matrices, smallest
from sdpkit.typing import Array

# How far inwards, in units of the mean eigenvalue.
_INWARDS = (0.0, *(10.0**power for power in range(-15, -1)))
_STEPS = 8
# Bits of a point, and how many each exact residual adds.
_BITS, _DIGITS = 64, 36
_REFINEMENTS, _IN_METRIC = 3, 4
_SHIFTS = (0.0, 1e-15, 1e-14, 1e-13, 1e-12)
# Rows up to which dense systems are solved.
_ROWS = 3500


def slacks_of(program: DyadicProgram, floats: Floats, matrices: Matrices, x: Array) -> Array:
    """x with the slack variables that it leaves, which come last."""
    missing = floats.free.size - x.size
    if not missing:
        return x
    full = np.concatenate([x, np.zeros(missing)])
    left = floats.b - floats.values(matrices, full)
    for e, row in enumerate(program.rows):
        for (k, _, j), sign in row.items():
            if k == 0 and j >= x.size:
                full[j] = max(left[e] / (sign / (1 << program.unit)), 0.0)
    return full


def lower_end(
    program: DyadicProgram, floats: Floats, matrices: Matrices, x: Array, homogeneous: bool = False
) -> dict[str, Any] | None:
    """The part of a proof that a point near (X, x) gives, or None; `homogeneous`: for b = 0."""
    if floats.b.size > _ROWS or not all(np.isfinite(m).all() for m in [*matrices, x]):
        return None
    right = [0] * len(program.b) if homogeneous else program.b
    metric = _Gram.of(program, floats)
    if metric is None:
        return None
    for point in _candidates(
        floats, matrices, x, np.zeros_like(floats.b) if homogeneous else floats.b
    ):
        continue_or_raise()
        for first in ([], [_Metric.of(floats, *point)] * _IN_METRIC):
            steps = [step for step in first if step is not None]
            end = _exact_end(program, metric, steps, *_in_integers(*point), right)
            if end is not None:
                return end
    return None


def precise_lower_end(
    program: DyadicProgram, floats: Floats, found: Digits
) -> dict[str, Any] | None:
    """The same of a point that is known to many bits."""
    metric = _Gram.of(program, floats) if floats.b.size <= _ROWS else None
    if metric is None:
        return None
    integers = (found.blocks, found.x, found.power)
    return _exact_end(program, metric, [], *integers, program.b)


class _Gram:
    """AAᵀ: a factor for steps, and the proof that its eigenvalues are at least s/t (on demand)."""

    def __init__(
        self, program: DyadicProgram, floats: Floats, root: Array, factor: Any, least: float
    ):
        self.program, self.floats, self.root, self.factor = program, floats, root, factor
        self.s, self.t = _small_fraction(least)
        self._proof: dict[str, Any] | None = None

    @classmethod
    def of(cls, program: DyadicProgram, floats: Floats) -> _Gram | None:
        gram = floats.gram()
        if not gram.size:
            return cls(program, floats, np.zeros(0), None, 1.0)
        diagonal = np.diag(gram)
        if diagonal.min() <= 0 or not np.isfinite(gram).all():
            return None
        root = np.sqrt(diagonal)
        scaled = gram / np.outer(root, root)
        least = float(scipy.linalg.eigvalsh(scaled, subset_by_index=[0, 0])[0])
        if least < 1e-13:
            return None
        factor = scipy.linalg.cho_factor(scaled, lower=True)
        # In integers all rows are 2^unit as large.
        whole = float(scipy.linalg.eigvalsh(gram, subset_by_index=[0, 0])[0])
        least = max(least * float(diagonal.min()), whole if whole > 1e-12 * diagonal.max() else 0.0)
        return cls(program, floats, root, factor, ldexp(least / 4, 2 * program.unit))

    def step(self, r: Array) -> tuple[Matrices, Array]:
        """The shortest (ΔX, Δx) with A(ΔX) + A_x Δx = r."""
        y = r
        if self.factor is not None:
            y = np.asarray(scipy.linalg.cho_solve(self.factor, r / self.root) / self.root)
        return self.floats.images(y)

    @property
    def proof(self) -> dict[str, Any] | None:
        """The factor of t·AAᵀ − s·I."""
        if self._proof is None:
            self._proof = factor_of(self.program.gram(self.s, self.t))
        return self._proof


@dataclass(frozen=True, eq=False)
class _Metric:
    """The same where lengths are measured as a point inside the cone has them."""

    floats: Floats
    matrices: Matrices
    weights: Array
    root: Array
    factor: Array

    @classmethod
    def of(cls, floats: Floats, matrices: Matrices, x: Array) -> _Metric | None:
        weights = _weights(floats, x)
        whole = floats.metric(matrices, weights)
        root = np.sqrt(np.where(np.diag(whole) > 0, np.diag(whole), 1.0))
        scaled = whole / np.outer(root, root)
        if not np.isfinite(scaled).all():
            return None
        for shift in _SHIFTS:  # what a shift leaves of the rows, the next step takes
            shifted = scaled + shift * np.eye(len(root))
            factor, failed = scipy.linalg.lapack.dpotrf(shifted, lower=1)
            if not failed:
                return cls(floats, matrices, weights, root, factor)
        return None

    def step(self, r: Array) -> tuple[Matrices, Array]:
        """X Σ y_i A_i X and weights · A_xᵀ y with A of them equal to r."""
        y = scipy.linalg.cho_solve((self.factor, True), r / self.root) / self.root
        images, r_x = self.floats.images(y)
        steps = [m @ i @ m for m, i in zip(self.matrices, images, strict=True)]
        return [(s + s.T) / 2 for s in steps], self.weights * r_x


def _weights(floats: Floats, x: Array) -> Array:
    """Of variables in the metric of a point."""
    return np.where(floats.free, max(1.0, float(np.abs(x).max(initial=0.0))) ** 2, x**2)


def _small_fraction(value: float) -> tuple[int, int]:
    """A power of two below the value, as a fraction."""
    power = frexp(value)[1] - 1
    return (1 << power, 1) if power >= 0 else (1, 1 << -power)


# -- points in floating point -----------------------------------------------------------------


def _candidates(
    floats: Floats, matrices: Matrices, x: Array, b: Array
) -> Iterator[tuple[Matrices, Array]]:
    """Points inside the cone, nearly on the rows, farther and farther inwards."""
    mean = [float(np.trace(m)) / max(len(m), 1) for m in matrices]
    typical = max([*mean, float(np.abs(x).max(initial=0.0))], default=0.0) or 1.0
    for share in _INWARDS:
        moved = [
            m + share * (t if t > 1e-6 * typical else typical) * np.eye(len(m))
            for m, t in zip(matrices, mean, strict=True)
        ]
        signed = np.where(floats.free, x, np.maximum(x, 0.0) + share * typical)
        point = _onto_rows(floats, moved, signed, b)
        if point is not None:
            yield point


def _onto_rows(
    floats: Floats, matrices: Matrices, x: Array, b: Array
) -> tuple[Matrices, Array] | None:
    left = np.inf
    for _ in range(_STEPS):
        continue_or_raise()
        if smallest(matrices) <= 0 or np.any(x[~floats.free] <= 0):
            return None
        r = floats.values(matrices, x) - b
        before, left = left, float(np.linalg.norm(r))
        if not left < 0.5 * before:
            break
        weights = _weights(floats, x)
        y = _solved(floats.metric(matrices, weights), r)
        if y is None:
            return None
        images, r_x = floats.images(y)
        step = [m @ i @ m for m, i in zip(matrices, images, strict=True)]
        matrices = [m - (s + s.T) / 2 for m, s in zip(matrices, step, strict=True)]
        x = x - weights * r_x
    return matrices, x


def _solved(matrix: Array, right: Array) -> Array | None:
    root = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0))
    scaled = matrix / np.outer(root, root)
    if not np.isfinite(scaled).all():
        return None
    lower, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
    if failed:
        return np.asarray(scipy.linalg.lstsq(scaled, right / root, cond=1e-14)[0] / root)
    return np.asarray(scipy.linalg.cho_solve((lower, True), right / root) / root)


# -- integers ---------------------------------------------------------------------------------


def _in_integers(matrices: Matrices, x: Array) -> tuple[list[Triangle], list[int], int]:
    """(lower triangles, x, the power of two that is their unit)"""
    largest = max([float(np.abs(m).max(initial=0.0)) for m in [*matrices, x]], default=1.0)
    power = _BITS - frexp(largest or 1.0)[1]
    return (
        [_triangle(m, power) for m in matrices],
        [int(ldexp(v, power)) for v in x.tolist()],
        power,
    )


def _exact_end(
    program: DyadicProgram,
    gram: _Gram,
    first: list[_Metric],
    point: list[Triangle],
    linear: list[int],
    power: int,
    right: list[int],
) -> dict[str, Any] | None:
    r = _residuals(program, point, linear, right, power)
    solvers: list[_Metric | _Gram] = [*first, *[gram] * _REFINEMENTS]
    for solver in solvers:
        continue_or_raise()
        if not any(r):
            break
        # A step of doubles on what is left, in finer units.
        largest_r = max(map(abs, r)).bit_length()
        steps, steps_x = solver.step(np.array([v / (1 << largest_r) for v in r]))
        # r is in units of 2^−(unit + power).
        scale = largest_r - program.unit - power
        power += _DIGITS
        point = [
            [
                [(v << _DIGITS) - s for v, s in zip(row, step, strict=True)]
                for row, step in zip(triangle, _triangle(whole, power + scale), strict=True)
            ]
            for triangle, whole in zip(point, steps, strict=True)
        ]
        moved = [int(ldexp(v, power + scale)) for v in steps_x.tolist()]
        linear = [(v << _DIGITS) - s for v, s in zip(linear, moved, strict=True)]
        r = _residuals(program, point, linear, right, power)
    return _proven(program, gram, point, linear, r, power)


def _triangle(matrix: Array, power: int) -> Triangle:
    return [[int(ldexp(v, power)) for v in row[: i + 1]] for i, row in enumerate(matrix.tolist())]


def _residuals(
    program: DyadicProgram, point: list[Triangle], x: list[int], right: list[int], power: int
) -> list[int]:
    """What the integer rows miss, in units of 2^−power."""
    out = []
    for row, b in zip(program.rows, right, strict=True):
        terms = (v * (point[k - 1][j][i] << (i < j) if k else x[j]) for (k, i, j), v in row.items())
        out.append(sum(terms) - (b << power if power >= 0 else b >> -power))
    return out


def _proven(
    program: DyadicProgram,
    gram: _Gram,
    point: list[Triangle],
    x: list[int],
    r: list[int],
    power: int,
) -> dict[str, Any] | None:
    if power < 0:  # a denominator of one takes all bits
        point = [[[v << -power for v in row] for row in rows] for rows in point]
        x, power = [v << -power for v in x], 0
    over, end = 1 << power, dict[str, Any]()
    p, q = 0, 1
    if any(r):
        missed, bits = sum(v * v for v in r), power + 64
        q = 1 << bits
        # ρ = |r| / (over √(s/t)), rounded upwards.
        p = isqrt(missed * gram.t * q * q // (gram.s * over * over)) + 1
        end = {"s": [gram.s, gram.t]}
    if not all(f or v * q >= p * over for v, f in zip(x, program.free, strict=True)):
        return None
    factors = []
    for rows in point:
        shifted = [
            [v * q - p * over * (i == j) for j, v in enumerate(row)] for i, row in enumerate(rows)
        ]
        factor = factor_of(shifted)
        if factor is None:
            return None
        factors.append(factor)
    if any(r):
        if gram.proof is None:
            return None
        end["gram"] = gram.proof
    return {"over": over, "blocks": point, "x": x, "rho": [p, q], "factors": factors, **end}


def value_of_point(program: DyadicProgram, end: dict[str, Any]) -> Fraction:
    """What is proven to be attained near the point, in the units of the program's integers."""
    blocks, x = end["blocks"], end["x"]
    terms = (
        v * (blocks[k - 1][j][i] << (i < j) if k else x[j]) for (k, i, j), v in program.cost.items()
    )
    norm = isqrt(sum(v * v << (i < j) for (_, i, j), v in program.cost.items())) + 1
    return Fraction(sum(terms), end["over"]) - Fraction(*end["rho"]) * norm
