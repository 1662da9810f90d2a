"""Programs as models of cvxpy, in two equivalent forms.

    LMI form     variables w (m of them): min bᵀw,  Σ_e w_e A_e − C ⪰ 0;   M is its multiplier
    matrix form  variables Z, x:          max <C, Z>,  <A_e, Z> = b_e;      w is its multiplier

Graph programs have far fewer constraints than matrix entries, so the LMI form is the rule; programs
with more constraints than n(n+1)/2 (LMNN's triplets) take the matrix form, and so do log dets. Both
are assembled as one sparse matrix; no loop over constraints ever meets cvxpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.program.form import Program
from sdpkit.typing import Array, Indices

# Matrices, x, and w of the maximisation.
Point = tuple[tuple[Array, ...] | None, Array | None, Array | None]


@dataclass(frozen=True)
class WrittenModel:
    """A cvxpy problem and how to read (matrices, x, w of the maximisation) from it."""

    problem: Any
    read: Callable[[], Point]


def _row_matrices(program: Program) -> list[sp.csr_array]:
    """Per block (m, n²): the vectorised matrix A_e of every constraint."""
    ends = np.cumsum([0] + [b.size**2 for b in program.blocks])
    rows = sp.csc_array(program.matrix_rows)
    return [sp.csr_array(rows[:, start:stop]) for start, stop in pairwise(ends)]


def _cost_vectors(program: Program) -> list[Array]:
    """Per block vec(C + Σ g_p v_p v_pᵀ) of the maximisation."""
    parts = zip(program.blocks, program.split(program.cost_q), strict=True)
    return [
        program.sign * (block.cost.dense().ravel() + block.outer_products.T @ g)
        for block, g in parts
    ]


def lmi_form(program: Program) -> WrittenModel:
    """Over the multipliers; M is read from those of the cones."""
    import cvxpy as cp

    w = cp.Variable(program.n_rows)
    cones = []
    pieces = zip(program.blocks, _row_matrices(program), _cost_vectors(program), strict=True)
    for block, rows, cost in pieces:
        slack = cp.reshape(rows.T @ w - cost, (block.size, block.size), order="C")
        cones.append(slack >> 0)
    signs = _sign_constraints(program, w)
    auxiliary, penalty = _auxiliary_conditions(program, w)
    limits = [constraint for constraint, _ in auxiliary]
    problem = cp.Problem(cp.Minimize(program.rhs @ w + penalty), cones + signs + limits)

    def read() -> Point:
        if w.value is None or any(cone.dual_value is None for cone in cones):
            return None, None, None
        x = np.zeros(program.n_auxiliary)
        for constraint, place in auxiliary:
            place(x, constraint)
        _curved_x(program, np.asarray(w.value), x)
        return tuple(_lower(cone.dual_value) for cone in cones), x, np.asarray(w.value)

    return WrittenModel(problem, read)


def _lower(dual: Any) -> Array:
    """The symmetric matrix of a lower triangle: CVXOPT may leave the upper one empty."""
    below = np.tril(np.asarray(dual, dtype=np.float64))
    return np.asarray(below + np.tril(below, -1).T)


def _sign_constraints(program: Program, w: Any) -> list[Any]:
    upper, lower = program.relations == -1, program.relations == 1
    out = []
    if upper.any():
        out.append(w[np.flatnonzero(upper)] >= 0)
    if lower.any():
        out.append(w[np.flatnonzero(lower)] <= 0)
    return out


def _auxiliary_conditions(program: Program, w: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """(constraint, how its multiplier fills x) per kind of variable, and the quadratic term."""
    import cvxpy as cp

    columns = sp.csr_array(program.rows_x.T)
    cost = program.sign * program.cost_x
    grouped = np.zeros(program.n_auxiliary, dtype=bool)
    out: list[tuple[Any, Any]] = []
    for penalty in program.norms:
        group = np.array(penalty.group)
        grouped[group] = True
        r = columns[group] @ w - cost[group]
        out.append((cp.SOC(cp.Constant(penalty.weight), r), _fill_norm(group)))
    for members in _cones_by_size(program):
        r = [columns[part] @ w - cost[part] for part in members.T]
        out.append((_cone(r), _fill_cones(members)))
    curved = program.quadratic_x > 0
    nonnegative = np.flatnonzero(~program.free_x & ~curved)
    if nonnegative.size:
        constraint = columns[nonnegative] @ w >= cost[nonnegative]
        out.append((constraint, _fill(nonnegative, 1.0)))
    free = np.flatnonzero(program.cone_x.lines & ~curved & ~grouped)
    if free.size:
        # For r = 0 cvxpy adds yᵀr to a minimisation, so x = −y.
        out.append((columns[free] @ w == cost[free], _fill(free, -1.0)))
    return out, _conjugate(program, columns, cost, w)


def _conjugate(program: Program, columns: Any, cost: Array, w: Any) -> Any:
    """Σ r²/(2h), r⁻ only for nonnegative variables."""
    import cvxpy as cp

    total: Any = 0.0
    for members in (program.free_x, ~program.free_x):
        j = np.flatnonzero(members & (program.quadratic_x > 0))
        if j.size:
            r = columns[j] @ w - cost[j]
            part: Any = r if members is program.free_x else cp.neg(r)
            root = 1 / np.sqrt(program.quadratic_x[j])
            total = total + 0.5 * cp.sum_squares(cp.multiply(root, part))
    return total


def _curved_x(program: Program, w: Array, x: Array) -> None:
    """x_j = −r_j/h_j, the maximiser of −r_j x − ½h_j x²."""
    curved = program.quadratic_x > 0
    r = -program.reduced_costs(w)[curved] / program.quadratic_x[curved]
    x[curved] = np.where(program.free_x[curved], r, np.maximum(r, 0.0))


def _fill(where: Indices, sign: float) -> Callable[[Array, Any], None]:
    def place(x: Array, constraint: Any) -> None:
        x[where] = sign * np.asarray(constraint.dual_value)

    return place


def _fill_norm(group: Indices) -> Callable[[Array, Any], None]:
    def place(x: Array, constraint: Any) -> None:
        x[group] = np.asarray(constraint.dual_value[1]).ravel()

    return place


def _cones_by_size(program: Program) -> list[Indices]:
    """(k, size) the members of the second-order cones of each size."""
    by_size: dict[int, list[Indices]] = {}
    for cone in program.cones:
        by_size.setdefault(cone.members.size, []).append(cone.members)
    return [np.stack(members) for members in by_size.values()]


def _cone(entries: list[Any]) -> Any:
    """Second-order cones of one size from their heads and each of their other entries."""
    import cvxpy as cp

    head, *tail = entries
    return cp.SOC(head, cp.vstack(tail), axis=0) if tail else head >= 0


def _fill_cones(members: Indices) -> Callable[[Array, Any], None]:
    def place(x: Array, constraint: Any) -> None:
        if members.shape[1] == 1:
            x[members[:, 0]] = np.asarray(constraint.dual_value)
            return
        head, tail = (np.asarray(part) for part in constraint.dual_value)
        x[members[:, 0]] = head.ravel()
        x[members[:, 1:]] = tail.reshape(members.shape[1] - 1, len(members)).T

    return place


def matrix_form(program: Program) -> WrittenModel:
    """Over the matrices and x; w is read from the multipliers of the constraints."""
    import cvxpy as cp

    matrices = [cp.Variable((b.size, b.size), PSD=True) for b in program.blocks]
    x = cp.Variable(max(program.n_auxiliary, 1))
    columns = program.rows_x if program.n_auxiliary else sp.csr_array((program.n_rows, 1))
    # cvxpy before 1.9 has no expressions without entries.
    values: Any = columns @ x if program.n_rows else 0.0
    objective: Any = 0.0
    for z, rows, cost in zip(matrices, _row_matrices(program), _cost_vectors(program), strict=True):
        if program.n_rows:
            values = values + rows @ cp.vec(z, order="C")
        objective = objective + cost @ cp.vec(z, order="C")
    for block, z in zip(program.blocks, matrices, strict=True):
        if block.log_det:
            objective = objective + block.log_det * cp.log_det(z)
    rows_of = {k: np.flatnonzero(program.relations == k) for k in (-1, 0, 1)}
    limits = {
        k: _related(values[where], k, program.rhs[where])
        for k, where in rows_of.items()
        if where.size
    }
    constraints = list(limits.values())
    if program.n_auxiliary:
        objective = objective + program.sign * program.cost_x @ x - _penalty(program, x)
        bounded = np.flatnonzero(~program.free_x)
        if bounded.size:
            constraints.append(x[bounded] >= 0)
        for members in _cones_by_size(program):
            constraints.append(_cone([x[part] for part in members.T]))
    problem = cp.Problem(cp.Maximize(objective), constraints)

    def read() -> Point:
        if any(z.value is None for z in matrices):
            return None, None, None
        w = np.zeros(program.n_rows)
        for k, constraint in limits.items():
            if constraint.dual_value is None:
                return None, None, None
            # cvxpy's multipliers of inequalities are nonnegative; those with ≥ have w ≤ 0 here.
            w[rows_of[k]] = (-1.0 if k == 1 else 1.0) * np.asarray(constraint.dual_value)
        found = np.zeros(program.n_auxiliary) if not program.n_auxiliary else np.asarray(x.value)
        return tuple(np.asarray(z.value) for z in matrices), found, w

    return WrittenModel(problem, read)


def _related(expression: Any, relation: int, rhs: Array) -> Any:
    if relation == 0:
        return expression == rhs
    return expression <= rhs if relation == -1 else expression >= rhs


def _penalty(program: Program, x: Any) -> Any:
    import cvxpy as cp

    total: Any = 0.0
    j = np.flatnonzero(program.quadratic_x)
    if j.size:
        root = np.sqrt(program.quadratic_x[j])
        total = total + 0.5 * cp.sum_squares(cp.multiply(root, x[j]))
    for penalty in program.norms:
        total = total + penalty.weight * cp.norm(x[np.array(penalty.group)], 2)
    return total
