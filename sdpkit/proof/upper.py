"""The end that multipliers prove: w with Σ w_i A_i − C ⪰ 0, reduced costs with their signs.

Multipliers of a solver are feasible nearly. They are moved inside first, along a direction whose
image is definite if there is one, or else by Newton steps towards a point of the central path. Then
they become integers over one denominator, such that equations of reduced costs hold exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import frexp, lcm
from typing import Any

import numpy as np
import scipy.linalg

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.proof.check import DyadicProgram, Refused
from sdpkit.proof.definite import factor_of
from sdpkit.proof.digits import Digits
from sdpkit.proof.floats import Floats, smallest
from sdpkit.typing import Array, Indices

# Bits of multipliers below the largest.
_BITS = 90
# A slack whose scaled eigenvalues are above this is far enough inside for a factor.
_INSIDE = 1e-12
_NEWTON_STEPS = 12
# Constraints, and free variables, up to which dense steps are taken.
_ROWS, _EQUATIONS = 2500, 150


def upper_end(
    program: DyadicProgram, floats: Floats, w: Array, cost: int = 1
) -> dict[str, Any] | None:
    """The part of a proof that multipliers near w give, or None."""
    if not np.isfinite(w).all():
        return None
    equations = _equations(program, floats)
    for candidate in _candidates(floats, w, equations, cost):
        continue_or_raise()
        end = _end_of(program, floats, _fractions(candidate), equations, cost)
        if end is not None:
            return end
    return None


def precise_upper_end(
    program: DyadicProgram, floats: Floats, found: Digits
) -> dict[str, Any] | None:
    """The same of multipliers that are known to many bits."""
    exact = [Fraction(v, 1 << found.power) for v in found.w]
    return _end_of(program, floats, exact, _equations(program, floats), 1)


def value_of_multipliers(program: DyadicProgram, end: dict[str, Any]) -> Fraction:
    """bᵀw of an end, in the units of the program's integers."""
    total = sum(b * v for b, v in zip(program.b, end["multipliers"], strict=True))
    return Fraction(total, end["over"])


def _end_of(
    program: DyadicProgram, floats: Floats, exact: list[Fraction], equations: Indices, cost: int
) -> dict[str, Any] | None:
    """The multipliers in integers, moved onto their equations; None if they are not feasible."""
    if equations.size > _EQUATIONS:
        return None
    if equations.size and not _solve(program, floats, exact, equations.tolist(), cost):
        return None
    over = lcm(*(v.denominator for v in exact)) if exact else 1
    numbers = [v.numerator * (over // v.denominator) for v in exact]
    try:
        matrices, _ = program.combined(numbers, cost * over, "multipliers")
    except Refused:
        return None
    factors = []
    for matrix in matrices:
        factor = factor_of(matrix)
        if factor is None:
            return None
        factors.append(factor)
    return {"over": over, "multipliers": numbers, "factors": factors}


def _equations(program: DyadicProgram, floats: Floats) -> Indices:
    """The variables whose reduced cost must be zero: free ones, and both halves of a split one."""
    columns: dict[int, list[tuple[int, int]]] = {j: [] for j in range(len(program.free))}
    for e, row in enumerate([*program.rows, program.cost]):
        for (k, _, j), v in row.items():
            if k == 0:
                columns[j].append((e, v))
    known = {tuple(column): j for j, column in columns.items() if column}
    out = [
        j
        for j, column in columns.items()
        if floats.free[j] or (column and tuple((e, -v) for e, v in column) in known)
    ]
    return np.array(out, dtype=np.int64)


# -- moves in floating point ------------------------------------------------------------------


def _candidates(floats: Floats, w: Array, equations: Indices, cost: int) -> Iterator[Array]:
    w = _onto_equations(floats, w, equations, cost)
    if _depth(floats, w, equations, cost) > _INSIDE:
        yield w
    direction = _definite_direction(floats, equations)
    if direction is not None:
        size = float(np.abs(w).max(initial=0.0)) or 1.0
        unit = size / float(np.abs(direction).max())
        for power in range(-15, 0):
            moved = w + 10.0**power * unit * direction
            if _depth(floats, moved, equations, cost) > 0:
                yield moved
    elif floats.b.size <= _ROWS:
        yield from _centred(floats, w, equations, cost)
    yield w


def _depth(floats: Floats, w: Array, equations: Indices, cost: int) -> float:
    """The smallest scaled eigenvalue of the slack; −inf where a reduced cost has the wrong sign."""
    matrices, r = floats.slacks(w) if cost else floats.images(w)
    r = np.delete(r, equations)
    return -np.inf if r.min(initial=0.0) < 0 else smallest(matrices)


def _onto_equations(floats: Floats, w: Array, equations: Indices, cost: int) -> Array:
    if not equations.size:
        return w
    a = floats.linear[:, equations].toarray()
    for _ in range(3):
        missed = a.T @ w - cost * floats.cost_x[equations]
        w = w - np.linalg.lstsq(a.T, missed, rcond=1e-12)[0]
    return w


def _definite_direction(floats: Floats, equations: Indices) -> Array | None:
    """Multipliers whose image is positive definite, with their signs, or None."""
    m = floats.b.size
    if m > 2 * _ROWS or m == 0:
        return None
    signed = np.ones(floats.free.size)
    signed[equations] = 0.0
    gram, right = floats.gram(), floats.values([np.eye(n) for n in floats.sizes], signed)
    a = floats.linear[:, equations].toarray()
    gram = gram + 1e6 * float(np.abs(gram).max(initial=1.0)) * (a @ a.T)
    root = np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
    with np.errstate(all="ignore"):
        d = scipy.linalg.lstsq(gram / np.outer(root, root), right / root, cond=1e-13)[0] / root
    if not np.isfinite(d).all():
        return None
    matrices, r = floats.images(d)
    r = np.delete(r, equations)
    inside = smallest(matrices) > 1e-9 and all(m.any() for m in matrices)
    return d if inside and r.min(initial=1.0) > 0 else None


def _centred(floats: Floats, w: Array, equations: Indices, cost: int) -> Iterator[Array]:
    """Points nearer and nearer the middle: Newton steps for bᵀw/μ − log det(S + shift)."""
    a = floats.linear[:, equations].toarray()
    signed = np.ones(floats.free.size, dtype=bool)
    signed[equations] = False
    count = sum(floats.sizes) + int(signed.sum())
    level = max(1.0, abs(float(floats.b @ w))) / max(count, 1)
    for power in range(-13, -1):
        mu = 10.0**power * level
        for _ in range(_NEWTON_STEPS):
            continue_or_raise()
            step = _newton_step(floats, w, a, signed, mu, cost)
            if step is None or not np.isfinite(step).all():
                break
            w = w + step
            if np.abs(step).max(initial=0.0) <= 1e-9 * np.abs(w).max(initial=1.0):
                break
        w = _onto_equations(floats, w, equations, cost)
        if _depth(floats, w, equations, cost) > 0:
            yield w


def _newton_step(
    floats: Floats, w: Array, a: Array, signed: Array, mu: float, cost: int
) -> Array | None:
    """One damped step, on S + tI and r + t with t as large as it takes; None if it fails."""
    matrices, r = floats.slacks(w) if cost else floats.images(w)
    shift = []
    for s in matrices:
        values = scipy.linalg.eigvalsh(s) if len(s) else np.ones(1)
        shift.append(max(-2 * float(values[0]), 1e-14 * float(np.abs(values).max())) + 1e-300)
    least = -2 * r[signed].min(initial=0.0) + 1e-15 * float(np.abs(r).max(initial=0.0)) + 1e-300
    raised = [s + t * np.eye(len(s)) for s, t in zip(matrices, shift, strict=True)]
    inverse = [np.asarray((i + i.T) / 2, dtype=float) for i in map(np.linalg.inv, raised)]
    margin = np.where(signed, np.where(r > 0, r, least), np.inf)
    weights = np.where(signed, 1 / margin**2, 0.0)
    hessian = floats.metric(inverse, weights)
    gradient = floats.values(inverse, np.where(signed, 1 / margin, 0.0)) - floats.b / mu
    root = np.sqrt(np.where(np.diag(hessian) > 0, np.diag(hessian), 1.0))
    scaled = hessian / np.outer(root, root)
    if not np.isfinite(scaled).all() or not np.isfinite(gradient).all():
        return None
    if a.size:
        b = a / root[:, None]
        b = b / np.abs(b).max(initial=1e-300)
        scaled = scaled + 1e8 * (b @ b.T)
    try:
        step = np.linalg.solve(scaled + 1e-15 * np.eye(len(scaled)), gradient / root) / root
    except (np.linalg.LinAlgError, ValueError):
        return None
    decrement = float(np.sqrt(max(0.0, float(gradient @ step))))
    return np.asarray(step / (1 + decrement) if decrement > 0.25 else step)


# -- integers ---------------------------------------------------------------------------------


def _fractions(w: Array) -> list[Fraction]:
    """The nearest fractions over one power of two."""
    power = _BITS - frexp(float(np.abs(w).max(initial=0.0)) or 1.0)[1]
    numbers = [Fraction(round(Fraction(v) * Fraction(2) ** power)) for v in w.tolist()]
    return [v / Fraction(2) ** power for v in numbers]


def _solve(
    program: DyadicProgram, floats: Floats, w: list[Fraction], columns: list[int], cost: int
) -> bool:
    """Change as many multipliers as there are equations, so that these hold exactly."""
    a = floats.linear[:, columns].toarray()
    scale = np.abs(a).max(axis=0, initial=0.0)
    order = scipy.linalg.qr((a / np.where(scale > 0, scale, 1.0)).T, mode="r", pivoting=True)[1]
    exact = [[Fraction(program.rows[e].get((0, j, j), 0)) for j in columns] for e in range(len(w))]
    right = [Fraction(cost * program.cost.get((0, j, j), 0)) for j in columns]
    for value, row in zip(w, exact, strict=True):
        if value:
            right = [b - value * v if v else b for b, v in zip(right, row, strict=True)]
    # Equations in the changes of the pivot rows, by elimination; pivots in the order of QR.
    table = [
        [exact[e][j] for e in order[: 2 * len(columns)]] + [right[j]] for j in range(len(columns))
    ]
    done: list[tuple[int, int]] = []
    for at in range(len(table[0]) - 1):
        continue_or_raise()
        free = [i for i in range(len(table)) if all(i != row for row, _ in done)]
        lead = max(free, key=lambda i: abs(table[i][at]), default=None)
        if lead is None or not table[lead][at]:
            continue
        pivot = table[lead][at]
        table[lead] = [v / pivot for v in table[lead]]
        for i, row in enumerate(table):
            if i != lead and row[at]:
                times = row[at]
                table[i] = [
                    u - times * v if v else u for u, v in zip(row, table[lead], strict=True)
                ]
        done.append((lead, at))
    if any(row[-1] and not any(row[:-1]) for row in table):
        return False
    for lead, at in done:
        w[int(order[at])] += table[lead][-1]
    return True
