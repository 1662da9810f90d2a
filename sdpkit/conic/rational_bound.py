"""The bound of a dual point as a theorem: rational equations, logarithms rounded outwards.

The floating-point multipliers y are made exact: as many rows of A as it has columns are chosen, and
their multipliers are solved for in rational numbers, so that Aᵀy + Px + c = 0 holds exactly for the
floating-point data. They move by a rounding error. Then every cone is checked for the rational y:

    nonnegative, second-order   by rational arithmetic
    semidefinite                by a Cholesky factorisation with a rounding bound (Rump 2006)
    exponential, power          by logarithms of `decimal`, which are rounded correctly, widened
                                beyond the last of 60 places
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.certificate.definite import certainly_definite
from sdpkit.conic.nonlinear_cones import NonlinearData
from sdpkit.typing import Array, Indices

# Digits of the logarithms, and an exponent range that no double leaves.
_CONTEXT = Context(prec=60, Emin=-99999, Emax=99999)
_PLACE = Fraction(1, 10**58)
# Columns up to which the equations are solved in rational numbers, with and without python-flint.
_MOST = {True: 400, False: 60}


def rational_bound(data: NonlinearData, x: Array, y: Array) -> tuple[float | None, str]:
    """A bound on the optimal value of the model, in its sense, or None; and how, or why not."""
    flint = _has_flint()
    if data.cost.size > _MOST[flint]:
        more = "" if flint else "; install python-flint for more"
        return None, (
            f"the equations have {data.cost.size} unknowns, and up to {_MOST[flint]} are solved in "
            f"rational numbers{more}"
        )
    exact = _exact_multipliers(data, x, y, flint)
    if exact is None:
        return None, "the equations of the dual have no rational solution near the multipliers"
    for what, holds in (
        ("nonnegative", all(v >= 0 for v in exact[data.nonneg])),
        ("second-order or semidefinite", _blocks_hold(data, exact)),
        ("exponential", all(_in_exponential([exact[k] for k in r]) for r in data.exponential)),
        ("power", _powers_hold(data, exact)),
    ):
        if not holds:
            return None, f"the rational multipliers are not proven to lie in a {what} cone's dual"
    value = _value(data, x, exact)
    bound = float(value)
    towards = -np.inf if data.sense == "min" else np.inf
    while (Fraction(bound) > value) if data.sense == "min" else (Fraction(bound) < value):
        bound = float(np.nextafter(bound, towards))
    return bound, "multipliers in rational numbers, logarithms rounded outwards"


def _value(data: NonlinearData, x: Array, y: Sequence[Fraction]) -> Fraction:
    """−bᵀy − ½xᵀPx + d in the sense of the model."""
    total = Fraction(data.offset)
    for b, v in zip(data.rhs.tolist(), y, strict=True):
        total -= Fraction(b) * v
    squares = sp.coo_array(data.squares)
    for i, j, v in zip(*squares.coords, squares.data, strict=True):
        total -= Fraction(float(v)) * Fraction(float(x[i])) * Fraction(float(x[j])) / 2
    return total if data.sense == "min" else -total


# -- equations ------------------------------------------------------------------------------


def _exact_multipliers(
    data: NonlinearData, x: Array, y: Array, flint: bool
) -> list[Fraction] | None:
    """Multipliers near y that meet the equations exactly."""
    spread = _spread(data)  # y = spread · u keeps matrices symmetric
    columns = sp.csc_array(spread.T @ data.matrix)
    u = spread.T @ y / np.asarray(spread.sum(axis=0)).ravel()
    rows = _independent(columns, np.abs(u))
    values = [Fraction(float(v)) for v in u]
    used = sorted(set(sp.coo_array(columns).coords[1].tolist()))
    residual = _residual(data, x, columns, values)
    if any(residual[j] for j in range(len(residual)) if j not in set(used)):
        return None
    if any(residual):
        if rows.size < len(used):
            return None
        square = columns[rows][:, used].toarray()
        move = _solve(square.T, [-residual[j] for j in used], flint)
        if move is None:
            return None
        for row, step in zip(rows.tolist(), move, strict=True):
            values[row] += step
    place = sp.csr_array(spread)
    return [values[k] for k in place.indices.tolist()]


def _spread(data: NonlinearData) -> sp.csr_array:
    """(m, p) with one entry per row: rows of a matrix's entries (i, j) and (j, i) share theirs."""
    m = data.rhs.size
    owner = np.arange(m)
    for block in data.blocks:
        if block.kind == "psd":
            j, i = np.divmod(np.arange(block.size**2), block.size)
            owner[block.rows] = block.rows[np.minimum(i, j) * block.size + np.maximum(i, j)]
    _, place = np.unique(owner, return_inverse=True)
    return sp.csr_array((np.ones(m), (np.arange(m), place)))


def _independent(columns: sp.csc_array, size: Array) -> Indices:
    """Rows that determine the others' part in the equations, large multipliers first."""
    dense = columns.toarray() * (size + 1e-6 * max(float(size.max(initial=0.0)), 1e-300))[:, None]
    used = np.flatnonzero(np.abs(dense).max(axis=0, initial=0.0) > 0)
    if not used.size:
        return np.zeros(0, dtype=np.int64)
    r, order = scipy.linalg.qr(dense[:, used].T, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(r))
    rank = int((diagonal > 1e-13 * diagonal[0]).sum())
    return np.asarray(order[:rank], dtype=np.int64)


def _residual(
    data: NonlinearData, x: Array, columns: sp.csc_array, u: list[Fraction]
) -> list[Fraction]:
    """c + Px + Aᵀy, exactly."""
    out = [Fraction(float(v)) for v in data.cost]
    squares = sp.coo_array(data.squares)
    for i, j, v in zip(*squares.coords, squares.data, strict=True):
        out[int(i)] += Fraction(float(v)) * Fraction(float(x[j]))
    # Sums of two doubles, entries of a symmetric pair, are exact as fractions of the data.
    for i, j, v in _exact_entries(data):
        out[j] += v * u[i]
    return out


def _exact_entries(data: NonlinearData) -> list[tuple[int, int, Fraction]]:
    spread = _spread(data)
    place = spread.indices
    table = sp.coo_array(data.matrix)
    return [
        (int(place[i]), int(j), Fraction(float(v)))
        for i, j, v in zip(*table.coords, table.data, strict=True)
    ]


def _solve(square: Array, right: list[Fraction], flint: bool) -> list[Fraction] | None:
    """The exact solution of a square system of doubles, or None if it is singular."""
    n = len(right)
    if flint:
        from flint import fmpq, fmpq_mat

        def rational(v: Fraction) -> fmpq:
            return fmpq(v.numerator, v.denominator)

        left = fmpq_mat(n, n, [rational(Fraction(float(v))) for v in square.ravel()])
        try:
            found = left.solve(fmpq_mat(n, 1, [rational(v) for v in right]))
        except ZeroDivisionError:
            return None
        return [Fraction(int(found[k, 0].p), int(found[k, 0].q)) for k in range(n)]
    rows = [[Fraction(float(v)) for v in row] + [b] for row, b in zip(square, right, strict=True)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        if not rows[pivot][k]:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            if rows[i][k]:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    out = [Fraction(0)] * n
    for k in reversed(range(n)):
        rest = sum((rows[k][j] * out[j] for j in range(k + 1, n)), Fraction(0))
        out[k] = (rows[k][n] - rest) / rows[k][k]
    return out


def _has_flint() -> bool:
    try:
        import flint  # noqa: F401
    except ImportError:
        return False
    return True


# -- cones ----------------------------------------------------------------------------------


def _blocks_hold(data: NonlinearData, y: Sequence[Fraction]) -> bool:
    for block in data.blocks:
        own = [y[k] for k in block.rows.tolist()]
        if block.kind == "soc":
            if own[0] < 0 or own[0] ** 2 < sum((v**2 for v in own[1:]), Fraction(0)):
                return False
        elif not _definite(own, block.size):
            return False
    return True


def _definite(entries: Sequence[Fraction], n: int) -> bool:
    """Whether a rational matrix is definite, from the nearest matrix of doubles."""
    near = np.array([float(v) for v in entries]).reshape(n, n)
    off = np.array([[float(abs(v - Fraction(float(v)))) for v in entries]]).reshape(n, n)
    rounding = 1.01 * float(off.sum(axis=1).max(initial=0.0)) + 1e-300
    return certainly_definite(near, rounding)


def _in_exponential(point: Sequence[Fraction]) -> bool:
    """−u e^{v/u} ≤ e w, that is log(−u/w) ≤ 1 − v/u; or u = 0 and v, w ≥ 0."""
    u, v, w = point
    if u == 0:
        return v >= 0 and w >= 0
    if u > 0 or w <= 0:
        return False
    return logarithm(-u / w)[1] <= 1 - v / u


def _powers_hold(data: NonlinearData, y: Sequence[Fraction]) -> bool:
    pairs = zip(data.power.tolist(), data.alpha.tolist(), strict=True)
    return all(_in_power([y[k] for k in rows], Fraction(alpha)) for rows, alpha in pairs)


def _in_power(point: Sequence[Fraction], alpha: Fraction) -> bool:
    """α log(u/α) + (1 − α) log(v/(1 − α)) ≥ log |w|."""
    u, v, w = point
    if u < 0 or v < 0:
        return False
    if w == 0:
        return True
    if u == 0 or v == 0:
        return False
    left = alpha * logarithm(u / alpha)[0] + (1 - alpha) * logarithm(v / (1 - alpha))[0]
    return left >= logarithm(abs(w))[1]


def logarithm(value: Fraction) -> tuple[Fraction, Fraction]:
    """Rational numbers below and above the logarithm of a positive rational number.

    >>> low, high = logarithm(Fraction(2))
    >>> low < high, round(float(low), 12)
    (True, 0.69314718056)
    """
    with localcontext(_CONTEXT):
        # The quotient is off by half a unit in its last place, which the logarithm sees as such.
        quotient = Decimal(value.numerator) / Decimal(value.denominator)
        found = Fraction(quotient.ln())
    room = _PLACE * (1 + abs(found))
    return found - room, found + room
