"""A joint step of multipliers into the dual feasible set: equations and cones at once.

Multipliers of a solver miss Aᵀy + Px + c = 0 and y ∈ K* by its tolerance, and then bound nothing.
Two repairs that undo each other do not help. Here y gets the smallest correction in its own metric
that meets the equations, and then a share of a strictly feasible y° that meets them too:

    (1 − t)(y + dy) + t y°,      Aᵀ(y + dy) + Px + c = 0 = Aᵀy° + Px° + c

so that the equations hold for every t, and the smallest t that reaches the cone is taken. y° is
found by a solve with the costs c + m Aᵀe, e inside of K*: its multipliers ŷ give y° = ŷ + m e,
which lies inside by the margin m, and the correction of y° is much smaller than that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from sdpkit.conic.completion import exceeds_memory
from sdpkit.conic.nonlinear_cones import NonlinearData
from sdpkit.numerics.deadline import Deadline, current_deadline
from sdpkit.solving.run import solved_aside
from sdpkit.typing import Array

# Shares of the strictly feasible point that are tried.
_SHARES = (0.0, *np.logspace(-12, 0, 25).tolist())
# A correction leaves at most this much of the equations, relative to their terms.
_ROUNDING = 1e-11
# Margins of strictly feasible points that others are blended with, and of those whose own bound
# is wanted.
_WIDE = (1e-2, 1e-4, 1e-6)
_NARROW = (3e-9, 3e-8, 3e-7, 3e-6, 3e-5)
# The accuracy of a solve.
_FINE = 1e-10
# What a solve with large matrices takes at least: iterations, and operations in a second.
_ITERATIONS, _OPERATIONS_A_SECOND = 8, 2e9
# A point inside of the dual exponential cone.
_EXPONENTIAL = (-1.051383, 0.556409, 1.258967)


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Multipliers and the x that goes with them where there are squares.

    Attributes
    ----------
    x, y: the point;  share: t, how much of the strictly feasible point is in it
    residual: ‖Aᵀy + Px + c‖∞ relative to the costs
    """

    x: Array
    y: Array
    share: float
    residual: float


def joint_step(data: NonlinearData, x: Array, y: Array) -> DualPoint | None:
    """A dual feasible point near (x, y), or None."""
    start = corrected(data, x, data.clipped(y))
    if start is not None and data.is_dual_feasible(start):
        return _point(data, x, start, 0.0)
    for margin in _WIDE:
        inside = strictly_feasible(data, margin)
        if inside is not None:
            return _blended(data, (x, start), (inside.x, inside.y))
    return None


def best_of_a_solve(data: NonlinearData) -> DualPoint | None:
    """A dual feasible point whose bound is close to the optimum, or None."""
    for margin in _NARROW:
        found = strictly_feasible(data, margin)
        if found is not None:
            return found
    return None


def strictly_feasible(data: NonlinearData, margin: float) -> DualPoint | None:
    """A dual feasible point that is inside by a margin, the best of these; or None."""
    inner = _inner_point(data) * margin
    found = solved(replace(data, cost=data.cost + data.matrix.T @ inner), _FINE)
    if found is None:
        return None
    x, y = found[0], data.clipped(found[1]) + inner
    moved = corrected(data, x, y)
    if moved is None or not data.is_dual_feasible(moved):
        return None
    return _point(data, x, moved, 0.0)


def _inner_point(data: NonlinearData) -> Array:
    """e inside of K*, zero for the equations."""
    e = np.zeros(data.rhs.size)
    e[data.nonneg] = 1.0
    for block in data.blocks:
        if block.kind == "soc":
            e[block.rows[0]] = 1.0
        else:
            e[block.rows] = np.eye(block.size).ravel()
    if data.exponential.size:
        e[data.exponential] = _EXPONENTIAL
    if data.power.size:
        e[data.power[:, 0]] = np.sqrt(1 + data.alpha)
        e[data.power[:, 1]] = np.sqrt(2 - data.alpha)
    return e


def _blended(
    data: NonlinearData, outside: tuple[Array, Array | None], inside: tuple[Array, Array]
) -> DualPoint:
    """The blend with the smallest share of the inner point. Px is affine in the share, as y is."""
    x, y = outside
    if y is not None:
        for share in _SHARES:
            blend = data.symmetric((1 - share) * y + share * inside[1])
            if data.is_dual_feasible(blend):
                return _point(data, (1 - share) * x + share * inside[0], blend, share)
    return _point(data, inside[0], inside[1], 1.0)


def _point(data: NonlinearData, x: Array, y: Array, share: float) -> DualPoint:
    off = float(np.abs(data.residual(x, y)).max(initial=0.0)) / data.scale
    return DualPoint(x, y, share, off)


def corrected(data: NonlinearData, x: Array, y: Array) -> Array | None:
    """y with the smallest correction, in the metric of y, that meets the equations."""
    weights = _weights(data, y)
    for light in (1e-12, 1e-6, 1.0):
        metric = np.maximum(weights, light * max(float(weights.max(initial=0.0)), 1.0))
        found = _least_squares(data, x, y, metric)
        if found is not None:
            return found
    return None


def _least_squares(data: NonlinearData, x: Array, y: Array, metric: Array) -> Array | None:
    """y − D A (AᵀDA)⁻¹ (residual), repeated until it is at rounding level; None if it is not."""
    a = sp.csc_array(data.matrix)
    scaled = sp.csc_array(sp.diags_array(metric) @ a)
    normal = sp.csc_array(a.T @ scaled)
    used = normal.diagonal() > 0
    if not used.all():
        normal = normal + sp.diags_array((~used).astype(float))
    size = float(normal.diagonal().max(initial=1.0))
    normal = sp.csc_array(normal + 1e-15 * size * sp.eye_array(normal.shape[0]))
    try:
        factor = scipy.sparse.linalg.splu(normal)
    except RuntimeError:
        return None
    out = y.copy()
    terms = np.abs(data.cost) + abs(data.squares) @ np.abs(x)
    for _ in range(6):
        residual = data.residual(x, out)
        limit = _ROUNDING * (1 + float((terms + abs(a.T) @ np.abs(out)).max(initial=0.0)))
        if np.abs(residual).max(initial=0.0) <= limit * 1e-3:
            break
        out = data.symmetric(out - scaled @ factor.solve(residual))
    residual = data.residual(x, out)
    good = np.isfinite(residual).all() and np.abs(residual).max(initial=0.0) <= limit
    return out if good else None


def _weights(data: NonlinearData, y: Array) -> Array:
    """How far each entry may move: the square of its size, for a cone that of the whole."""
    out = np.square(y)
    largest = max(1.0, float(out.max(initial=0.0)))
    out[: data.n_zero] = largest
    for block in data.blocks:
        out[block.rows] = float(out[block.rows].max(initial=0.0))
    for rows in (data.exponential, data.power):
        if rows.size:
            out[rows] = out[rows].max(axis=1)[:, None]
    return np.asarray(out)


# -- a second solve -------------------------------------------------------------------------


def solved(data: NonlinearData, accuracy: float) -> tuple[Array, Array] | None:
    """(x, y) of Clarabel at an accuracy, or None. The deadline that applies is kept."""
    import clarabel

    deadline = current_deadline()
    if _is_too_large(data, deadline):
        return None
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
    settings.max_threads = 1
    settings.time_limit = deadline.left
    triangle, cones = _triangles(data, clarabel)
    matrix = sp.csc_matrix(triangle @ data.matrix)
    squares = sp.csc_matrix(sp.triu(data.squares))
    rhs = triangle @ data.rhs
    make = partial(clarabel.DefaultSolver, squares, data.cost, matrix, rhs, cones, settings)
    found = solved_aside(make, deadline)
    if found is None:
        return None
    x, y = np.asarray(found.x), np.asarray(triangle.T @ np.asarray(found.z))
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    return x, y


def _is_too_large(data: NonlinearData, deadline: Deadline) -> bool:
    """Whether Clarabel would exceed memory or time with the matrices."""
    sizes = [block.size for block in data.blocks if block.kind == "psd"]
    operations = _ITERATIONS * sum((n * (n + 1) / 2) ** 3 / 3 for n in sizes)
    return exceeds_memory(sizes) or operations / _OPERATIONS_A_SECOND > deadline.left


def _triangles(data: NonlinearData, clarabel: Any) -> tuple[sp.csr_array, list[Any]]:
    """The rows as Clarabel has them, matrices as scaled triangles, and its cones."""
    linear = data.n_zero + data.n_nonneg
    parts: list[Any] = [sp.eye_array(linear)]
    order = [np.arange(linear)]
    cones: list[Any] = []
    if data.n_zero:
        cones.append(clarabel.ZeroConeT(data.n_zero))
    if data.n_nonneg:
        cones.append(clarabel.NonnegativeConeT(data.n_nonneg))
    for block in data.blocks:
        order.append(block.rows)
        if block.kind == "soc":
            parts.append(sp.eye_array(block.size))
            cones.append(clarabel.SecondOrderConeT(block.size))
        else:
            parts.append(_triangle(block.size))
            cones.append(clarabel.PSDTriangleConeT(block.size))
    for rows in data.exponential:
        order.append(rows)
        parts.append(sp.eye_array(3))
        cones.append(clarabel.ExponentialConeT())
    for rows, alpha in zip(data.power, data.alpha, strict=True):
        order.append(rows)
        parts.append(sp.eye_array(3))
        cones.append(clarabel.PowerConeT(float(alpha)))
    every = np.concatenate(order)
    pick = sp.csr_array(
        (np.ones(every.size), (np.arange(every.size), every)), (every.size, data.rhs.size)
    )
    return sp.csr_array(sp.block_diag(parts, format="csr") @ pick), cones


def _triangle(n: int) -> sp.csr_array:
    """(n(n + 1)/2, n²): the upper triangle column by column, off the diagonal times √2."""
    j, i = np.divmod(np.arange(n * n), n)
    low, high = np.minimum(i, j), np.maximum(i, j)
    place = high * (high + 1) // 2 + low
    values = np.where(i == j, 1.0, np.sqrt(0.5))
    return sp.csr_array((values, (place, np.arange(n * n))), (n * (n + 1) // 2, n * n))
