"""Floating point made proof: duals and rays verified with rigorous error bounds.

A symmetric floating-point matrix A is positive semidefinite if the Cholesky factorisation of
A − cI runs to its end in floating point, with  c ≥ γ_{n+1}/(1 − γ_{n+1}) · tr A  (Rump 2006,
"Verification of positive definiteness", BIT 46). Here A is not the data but was computed from
them, so its own rounding error, bounded entry by entry, is subtracted as well. Definiteness on
the face {z : Nᵀz = 0} follows from definiteness of A + αNNᵀ, whatever α: no basis of the face
is ever needed, and none is rounded.

Graphs of more than 1500 nodes stay sparse: a factorisation LDLᵀ of S − σI in floating point has
the inertia of D, whatever rounding did, and its distance from S − σI is summed afterwards in twice
the precision (`sdpkit.numerics.sparse_factor`).

Multipliers that miss by a hair are moved first, along whatever the program offers (a repair
direction, an anchor, a scaling); what is verified in the end is one vector of floats, whose
value bᵀw is then summed exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program

Array = NDArray[np.float64]

_UNIT = np.finfo(np.float64).eps / 2
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Verification:
    """A bound that is a theorem about the floating-point data, or why there is none.

    `bound` is in the program's own sense; for a ray it is 0.0 when the ray is proved.
    """

    bound: float | None
    reason: str

    def __bool__(self) -> bool:
        return self.bound is not None

    def __repr__(self) -> str:
        if self.bound is None:
            return f"<not verified: {self.reason}>"
        return f"<verified bound {self.bound!r}: {self.reason}>"


def verify_dual(program: Program, w: Array) -> Verification:
    """Prove that w, or a neighbour of w, is dual feasible and return its exact value."""
    if not program.is_linear:
        return Verification(None, "quadratic and norm penalties and log dets are not verified")
    for moved, how in _neighbours(program, w):
        if _linear_conditions_hold(program, moved) and _slacks_hold(program, moved, True):
            value = _exact_value(program, moved)
            words = f"{_method(program)} succeeded for the multipliers {how}"
            if any(block.null.shape[1] > 1 for block in program.blocks):
                words += ", for the program with its null directions as they were rounded"
            return Verification(value, words)
    return Verification(
        None,
        "no strictly feasible neighbour of the multipliers was found; the data may be exactly "
        "infeasible after rounding (affinely dependent cliques), or the program offers no repair",
    )


def verify_multiplier_ray(program: Program, w: Array) -> Verification:
    """Prove that w, or a neighbour, is a ray of infeasibility: Aᵀ(w) ⪰ 0 and bᵀw < 0."""
    direction = program.repair_direction
    size = float(np.abs(w).max(initial=0.0))
    for power in (None, *range(-15, -2)):
        moved = w
        if power is not None:
            if direction is None or not direction.any():
                break
            moved = w + 10.0**power * size / np.abs(direction).max() * direction
        if _ray_conditions_hold(program, moved) and _slacks_hold(program, moved, False):
            return Verification(0.0, f"the program is infeasible: {_method(program)} succeeded")
    return Verification(None, "the ray is not exact and the program offers no repair")


def _method(program: Program) -> str:
    large = any(block.is_large_graph for block in program.blocks)
    return "sparse factorisation, its backward error deducted," if large else "shifted Cholesky"


def _neighbours(program: Program, w: Array) -> Iterator[tuple[Array, str]]:
    """w itself, then w moved by growing amounts along what the program offers."""
    yield w, "as they are"
    moves: list[tuple[Array, str]] = [(w, "scaled up"), (-w, "scaled down")]
    if program.safe.anchor is not None:
        moves.insert(0, (program.sign * program.safe.anchor - w, "moved towards the anchor"))
    direction = program.repair_direction
    if direction is not None and direction.any():
        unit = max(1.0, float(np.abs(w).max(initial=0.0))) / np.abs(direction).max()
        moves.insert(0, (unit * direction, "moved along the repair direction"))
    lo, hi = program.multiplier_box
    for power in range(-15, -3):
        for step, how in moves:
            yield np.clip(w + 10.0**power * step, lo, hi), f"{how} by 1e{power}"


def _linear_conditions_hold(program: Program, w: Array) -> bool:
    lo, hi = program.multiplier_box
    return bool(np.all((w >= lo) & (w <= hi))) and _auxiliary_conditions_hold(
        program, w, program.sign * program.cost_x
    )


def _ray_conditions_hold(program: Program, w: Array) -> bool:
    signs = np.all(w[program.relations == -1] >= 0) and np.all(w[program.relations == 1] <= 0)
    negative = _exact_dot(program.rhs, w) < 0
    return bool(signs) and negative and _auxiliary_conditions_hold(program, w, 0 * program.cost_x)


def _auxiliary_conditions_hold(program: Program, w: Array, cost: Array) -> bool:
    """A_xᵀw ≥ c for nonnegative and = c for free variables, in exact arithmetic."""
    columns = sp.csc_array(program.rows_x)
    for j in range(program.n_auxiliary):
        part = slice(columns.indptr[j], columns.indptr[j + 1])
        r = _exact_dot(columns.data[part], w[columns.indices[part]]) - Fraction(float(cost[j]))
        if r < 0 or (program.free_x[j] and r != 0):
            return False
    return True


def _slacks_hold(program: Program, w: Array, with_cost: bool) -> bool:
    """S ⪰ 0 on every face for the exact S of the floating-point data."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _slacks_are_definite(program, w, with_cost)


def _slacks_are_definite(program: Program, w: Array, with_cost: bool) -> bool:
    weights = np.asarray(program.rows_q.T @ w)
    magnitude = np.asarray(abs(program.rows_q).T @ np.abs(w))
    terms = _most_in_column(program.rows_q)
    if with_cost:
        weights = program.measurement_weights(w)
        magnitude = magnitude + np.abs(program.cost_q)
    pieces = zip(program.blocks, program.split(weights), program.split(magnitude), strict=True)
    factor = program.sign if with_cost else 0.0
    for block, u, m in pieces:
        if block.is_large_graph and _edges_are_rows(program):
            # Sparse factors prove it, their backward error and the rounding of S included.
            proven = block.smallest_of_slack(u, factor) >= 0
        else:
            slack = dense(block.adjoint(u)) - factor * block.cost.dense()
            proven = _definite_on_face(block, slack, _rounding(block, m, terms, with_cost))
        if not proven:
            return False
    return True


def _edges_are_rows(program: Program) -> bool:
    """Whether u = ±w, so that the weights of the edges are not rounded already."""
    single = np.all(np.diff(program.rows_q.indptr) == 1) and _most_in_column(program.rows_q) == 1
    return bool(single and np.all(np.abs(program.rows_q.data) == 1) and not program.cost_q.any())


def _rounding(block: Block, magnitude: Array, terms: int, with_cost: bool) -> float:
    """A bound on ‖S − fl(S)‖₂: γ_k times the same sums over absolute values."""
    b = abs(block.incidence)
    x = None if block.features is None else np.abs(block.features)
    sums = b.T @ sp.diags_array(magnitude) @ b
    size = sums if x is None else x.T @ (sums @ x)
    rows = np.asarray(size.sum(axis=1)).ravel()
    chain = terms + 8 + _most_in_column(b)
    if x is not None:
        chain += 2 * x.shape[0] + int(np.diff(b.indptr).max(initial=0))
    if with_cost:
        cost = block.cost
        factor = np.abs(cost.factor)
        rows = rows + abs(cost.identity) + np.asarray(abs(cost.sparse).sum(axis=1)).ravel()
        rows = rows + (factor * np.abs(cost.weights)) @ factor.sum(axis=0)
        chain += factor.shape[1]
    bound = 1.01 * _gamma(chain) * float(rows.max(initial=0.0))
    # Products may underflow before features scale them up again.
    scale = 1.0 if x is None else float(np.square(x.max(initial=0.0)) * x.shape[0] ** 2)
    return bound + chain * block.size * _TINY * scale


def _definite_on_face(block: Block, slack: Array, rounding: float) -> bool:
    """Whether every matrix within `rounding` of `slack` is positive definite on the face."""
    if not np.isfinite(slack).all():
        return False
    null = block.null
    if not null.shape[1]:
        return _certainly_definite(slack, rounding)
    lift = null @ null.T
    base = float(np.abs(slack).sum(axis=1).max()) / max(float(np.diag(lift).max()), _TINY)
    for growth in (1.0, 1e3):
        alpha = growth * base
        absolute = alpha * (np.abs(null) @ np.abs(null).T)
        error = _gamma(null.shape[1] + 3) * float((np.abs(slack) + absolute).sum(axis=1).max())
        if _certainly_definite(slack + alpha * lift, rounding + 1.01 * error):
            return True
    return False


def _certainly_definite(matrix: Array, rounding: float) -> bool:
    """Rump's criterion: the floating-point Cholesky factorisation of A − cI succeeds."""
    n = matrix.shape[0]
    gamma = _gamma(n + 1)
    trace = float(np.abs(np.diag(matrix)).sum())
    shift = 1.01 * (gamma / (1 - gamma) * trace + rounding) + n * _TINY
    if not np.isfinite(shift):
        return False
    diagonal = np.diag_indices(n)
    # The lower triangle alone is read: it defines the symmetric matrix that is proved definite.
    shifted = np.array(matrix, order="F")
    shifted[diagonal] = np.nextafter(matrix[diagonal] - shift, -np.inf)
    asymmetry = float(np.abs(matrix - matrix.T).sum(axis=1).max())
    shifted[diagonal] = np.nextafter(shifted[diagonal] - asymmetry, -np.inf)
    factor, info = scipy.linalg.lapack.dpotrf(shifted, lower=1)
    # LAPACK lets NaN and infinity pass.
    return int(info) == 0 and bool(np.isfinite(np.diag(factor)).all())


def _most_in_column(matrix: sp.csr_array) -> int:
    return int(np.bincount(matrix.indices).max(initial=0))


def _gamma(k: int) -> float:
    return k * _UNIT / (1 - k * _UNIT)


def _exact_dot(a: Array, b: Array) -> Fraction:
    terms = (Fraction(float(p)) * Fraction(float(q)) for p, q in zip(a, b, strict=True) if p and q)
    return sum(terms, Fraction(0))


def _exact_value(program: Program, w: Array) -> float:
    """bᵀw in the program's sense, rounded away from the optimum."""
    exact = Fraction(program.sign) * _exact_dot(program.rhs, w) + Fraction(program.offset)
    value = float(exact)
    if Fraction(value) * int(program.sign) < exact * int(program.sign):
        value = float(np.nextafter(value, np.inf * program.sign))
    return value
