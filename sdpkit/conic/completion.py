"""Points of conic data of which only a part is known: the rest, as favourably as that part allows.

A modelling layer gives back what its user wrote, not the epigraph variables and inner cones that
it introduced. Given the known entries of x, the others minimise cᵀx + ½xᵀQx plus a penalty on
violated cones; given the known entries of y, the others minimise bᵀy − Σβ log det y plus a penalty
on |Aᵀy + Qx + c|. A certificate of the result covers the known part too, so that no completion
hides a wrong value.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.conic.data import ConicData
from sdpkit.files import free_memory
from sdpkit.typing import Array, Bools

# The share of the free memory that a solve may take.
_MEMORY_SHARE = 0.5


def exceeds_memory(sizes: Iterable[int]) -> bool:
    """Whether Clarabel's dense equations of matrices of these sizes do not fit. Where memory is
    short it ends the whole process."""
    return 24 * sum((n * (n + 1) / 2) ** 2 for n in sizes) > _MEMORY_SHARE * free_memory()


def complete_primal(data: ConicData, x: Array, y: Array) -> Array:
    """x with its NaN entries filled in; y only sets the penalty on violations."""
    x = _determined(data.matrix[: data.n_zero], data.rhs[: data.n_zero], x, np.isnan(x))
    missing = np.flatnonzero(np.isnan(x))
    if not missing.size:
        return x
    import cvxpy

    columns = sp.csc_array(data.matrix)[:, missing]
    known = data.rhs - data.matrix @ np.nan_to_num(x)
    z, off = cvxpy.Variable(missing.size), cvxpy.Variable(nonneg=True)
    slack = known - columns @ z
    touched = np.zeros(data.rhs.size, dtype=bool)
    touched[np.unique(columns.indices)] = True
    if exceeds_memory(c.size for c in data.matrices if touched[c.rows].any()):
        return x
    constraints: list[Any] = []
    zero, nonneg = touched[: data.n_zero], touched[data.nonneg]
    if zero.any():
        constraints.append(cvxpy.abs(slack[: data.n_zero][zero]) <= off)
    if nonneg.any():
        constraints.append(slack[data.nonneg][nonneg] >= -off)
    for cone in data.cones:
        if not touched[cone.rows].any():
            continue
        own = slack[cone.rows]
        if cone.kind == "soc":
            constraints.append(cvxpy.SOC(own[0] + off, own[1:]))
        else:
            square = cvxpy.reshape(own, (cone.size, cone.size), order="F")
            constraints.append((square + square.T) / 2 + off * np.eye(cone.size) >> 0)
    price = 1e3 * (1 + max(np.nanmax(np.abs(y), initial=0.0), np.abs(data.cost).max(initial=0.0)))
    bends = np.sqrt(data.quadratic[missing] / 2)
    cost = data.cost[missing] @ z + cvxpy.sum_squares(cvxpy.multiply(bends, z))
    found = _solved(cost + price * off, constraints, z)
    out = x.copy()
    out[missing] = found
    return out


def complete_dual(data: ConicData, x: Array, y: Array) -> Array:
    """y with its NaN entries filled in; x gives Qx and sets the penalty on dual residuals."""
    missing = np.isnan(y)
    if not missing.any() or exceeds_memory(c.size for c in data.matrices if missing[c.rows].any()):
        return y
    import cvxpy

    rows = np.flatnonzero(missing)
    part = data.matrix[rows]
    columns = np.unique(part.indices)
    known = (data.gradient(x) + data.matrix.T @ np.nan_to_num(y))[columns]
    z = cvxpy.Variable(rows.size)
    constraints: list[Any] = []
    dets: Any = 0.0
    where = np.cumsum(missing) - 1
    nonneg = data.nonneg[missing[data.nonneg]]
    if nonneg.size:
        constraints.append(z[where[nonneg]] >= 0)
    for cone in data.cones:
        if not missing[cone.rows].any():
            continue
        own = z[where[cone.rows]]
        if cone.kind == "soc":
            constraints.append(cvxpy.SOC(own[0], own[1:]))
        else:
            square = cvxpy.Variable((cone.size, cone.size), PSD=True)
            constraints.append(own == cvxpy.vec(square, order="F"))
            dets = dets + cone.log_det * cvxpy.log_det(square) if cone.log_det else dets
    residual = part[:, columns].T @ z + known
    price = 10 * (1 + float(np.nanmax(np.abs(x), initial=0.0)))
    cost = data.rhs[rows] @ z - dets
    found = _solved(cost + price * cvxpy.norm1(residual), constraints, z)
    out = y.copy()
    out[rows] = found
    return out


def settle_equations(data: ConicData, x: Array, y: Array) -> Array:
    """y with the multipliers of equations that Aᵀy + Qx + c = 0 gives from known entries."""
    equations = np.arange(y.size) < data.n_zero
    return _determined(data.matrix.T, -data.gradient(x), y, equations & np.isnan(y))


def _determined(matrix: Any, rhs: Array, given: Array, wanted: Bools) -> Array:
    """The vector with those wanted entries in place of NaN that are alone in an equation
    `matrix @ vector = rhs`; the mean where several equations give one."""
    out, rows = given.copy(), sp.csr_array(matrix)
    while (np.isnan(out) & wanted).any():
        unknown = np.isnan(out)
        theirs = sp.csr_array(rows @ sp.diags_array(unknown.astype(np.float64)))
        theirs.eliminate_zeros()
        alone = np.flatnonzero(np.diff(theirs.indptr) == 1)
        one = sp.coo_array(theirs[alone])
        rest = (rhs - rows @ np.nan_to_num(out))[alone]
        used = wanted[one.col]
        place, size = one.col[used], one.data[used]
        if not place.size:
            break
        total = np.bincount(place, size * rest[one.row[used]], minlength=out.size)
        weight = np.bincount(place, size**2, minlength=out.size)
        found = np.unique(place)
        out[found] = total[found] / weight[found]
    return out


def _solved(objective: Any, constraints: list[Any], z: Any) -> Array:
    """The minimiser z, NaN if there is none."""
    import cvxpy

    problem = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
    try:
        with warnings.catch_warnings():
            # "Solution may be inaccurate": a certificate shows later how accurate it is.
            warnings.simplefilter("ignore", UserWarning)
            problem.solve(solver="CLARABEL")
    except (cvxpy.error.SolverError, ValueError):  # or numbers that it cannot take
        return np.full(z.size, np.nan)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # clarabel's own, of no importable class
            raise
        return np.full(z.size, np.nan)
    return np.full(z.size, np.nan) if z.value is None else np.asarray(z.value)
