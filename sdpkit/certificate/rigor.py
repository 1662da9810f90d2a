"""Floating point made proof: duals and rays verified with rigorous error bounds.

A symmetric floating-point matrix A is positive semidefinite if the Cholesky factorisation of
A − cI runs to its end in floating point, with  c ≥ γ_{n+1}/(1 − γ_{n+1}) · tr A  (Rump 2006,
"Verification of positive definiteness", BIT 46). Here A is not the data but was computed from
them, so its own rounding error, bounded entry by entry, is subtracted as well. Definiteness on
the face {z : Nᵀz = 0} follows from definiteness of A + αNNᵀ, whatever α: no basis of the face
is ever needed, and none is rounded.

Scale is taken out before anything is multiplied (`sdpkit.certificate.slack`): measurements, rows
and null directions are divided by powers of two, which is exact, so that no product underflows
that another factor would have scaled up again.

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
import scipy.sparse as sp

from sdpkit.certificate.definite import definite_on_face
from sdpkit.certificate.exact import exact_dot, is_in_cone
from sdpkit.certificate.log_det import log_det_bounds
from sdpkit.certificate.rounding import UNIT, most_in_column, slack_roundings
from sdpkit.certificate.slack import ScaledSlack, scaled_slack
from sdpkit.numerics.breakdown import BREAKDOWNS, kind_and_words
from sdpkit.program.form import Program, Sense
from sdpkit.typing import Array, Bools

# Powers of two between which the sparse factors of a graph neither overflow nor underflow.
_MODERATE = 200
# Bits of the largest multiplier where all of them are rounded to one grid.
_GRID_BITS = 44


@dataclass(frozen=True, eq=False)
class Verification:
    """An enclosure of the optimal value that is a theorem about the floating-point data.

    Attributes
    ----------
    bound: the value of a dual that is proven feasible, in the sense of the program; for a ray 0.0
        when the ray is proved; None if there is none
    reason: how the bound was proved, or why there is none
    attained: the value of a point that is proven feasible, or None
    attained_reason: how it was proved, or why there is none
    sense: of the program; None for a ray, which encloses nothing
    """

    bound: float | None
    reason: str
    attained: float | None = None
    attained_reason: str = ""
    sense: Sense | None = None

    @property
    def lower(self) -> float | None:
        """A number that the optimal value is not below, or None."""
        return {"max": self.attained, "min": self.bound}.get(self.sense or "")

    @property
    def upper(self) -> float | None:
        """A number that the optimal value is not above, or None."""
        return {"max": self.bound, "min": self.attained}.get(self.sense or "")

    @property
    def width(self) -> float:
        """upper − lower, relative to the larger of their magnitudes; inf if an end is missing."""
        if self.lower is None or self.upper is None:
            return np.inf
        size = max(abs(self.lower), abs(self.upper))
        return (self.upper - self.lower) / size if size else 0.0

    def __bool__(self) -> bool:
        return self.bound is not None

    def __repr__(self) -> str:
        if self.bound is None and self.attained is None:
            return f"<not verified: {self.reason}>"
        if self.attained is not None:
            return f"<verified: {self.lower!r} ≤ optimum ≤ {self.upper!r}>"
        if self.sense is None:
            return f"<verified: {self.reason}>"
        return f"<verified bound {self.bound!r}: {self.reason}>"


def verify_dual(program: Program, w: Array) -> Verification:
    """Prove that w, or a neighbour of w, is dual feasible and return its exact value."""
    try:
        return _verify_dual(program, w)
    except BREAKDOWNS as error:
        return out_of_range(error, program.sense)


def out_of_range(error: BaseException, sense: Sense | None = None) -> Verification:
    """No theorem, because a library broke down."""
    what = kind_and_words(error)
    words = f"the numbers are too near the ends of the floating-point range ({what})"
    return Verification(None, words, sense=sense)


def _verify_dual(program: Program, w: Array) -> Verification:
    sense = program.sense
    if not np.isfinite(w).all():
        return Verification(None, "the multipliers are not finite", sense=sense)
    for moved, how in _neighbours(program, w):
        if _linear_conditions_hold(program, moved) and _slacks_hold(program, moved, True):
            value = _dual_value(program, moved)
            if value is None:
                continue
            words = f"{_method(program)} succeeded for the multipliers {how}"
            if any(block.null.shape[1] > 1 for block in program.blocks):
                words += ", for the program with its null directions as they were rounded"
            return Verification(value, words, sense=sense)
    return Verification(
        None,
        "no strictly feasible neighbour of the multipliers was found; the data may be exactly "
        "infeasible after rounding (affinely dependent cliques), or the program offers no repair",
        sense=sense,
    )


def verify_multiplier_ray(program: Program, w: Array) -> Verification:
    """Prove that w, or a neighbour, is a ray of infeasibility: Aᵀ(w) ⪰ 0 and bᵀw < 0."""
    try:
        return _verify_multiplier_ray(program, w)
    except BREAKDOWNS as error:
        return out_of_range(error)


def _verify_multiplier_ray(program: Program, w: Array) -> Verification:
    direction = program.repair_direction
    size = float(np.abs(w).max(initial=0.0))
    for power in (None, *range(-15, -2)):
        moved = w
        if power is not None:
            if direction is None or not direction.any():
                break
            moved = w + 10.0**power * size / np.abs(direction).max() * direction
        if not np.isfinite(moved).all():
            break
        if _ray_conditions_hold(program, moved) and _slacks_hold(program, moved, False):
            return Verification(0.0, f"the program is infeasible: {_method(program)} succeeded")
    return Verification(None, "the ray is not exact and the program offers no repair")


def _method(program: Program) -> str:
    large = any(block.avoids_dense for block in program.blocks)
    return "sparse factorisation, its backward error deducted," if large else "shifted Cholesky"


def _neighbours(program: Program, w: Array) -> Iterator[tuple[Array, str]]:
    """w itself, then w moved by growing amounts along what the program offers."""
    yield w, "as they are"
    balanced = _balanced(program, w)
    if balanced is not None:
        yield balanced, "rounded so that the equations of free variables hold exactly"
    moves: list[tuple[Array, str]] = [(w, "scaled up"), (-w, "scaled down")]
    if program.safe.anchor is not None:
        moves.insert(0, (program.sign * program.safe.anchor - w, "moved towards the anchor"))
    direction = program.repair_direction
    if direction is not None and np.isfinite(direction).all() and direction.any():
        size = float(np.abs(w).max(initial=0.0)) or 1.0
        unit = size / np.abs(direction).max()
        moves.insert(0, (unit * direction, "moved along the repair direction"))
    lo, hi = program.multiplier_box
    for power in range(-15, -3):
        for step, how in moves:
            with np.errstate(over="ignore", invalid="ignore"):
                moved = np.clip(w + 10.0**power * step, lo, hi)
            if np.isfinite(moved).all():
                yield moved, f"{how} by 1e{power}"


def _balanced(program: Program, w: Array) -> Array | None:
    """w with A_xᵀw = c exactly for free variables, or None.

    All multipliers go onto a grid of powers of two, which small whole numbers as coefficients do
    not leave. Each variable then needs an equation of its own with a coefficient ±1, whose
    multiplier takes the rest.
    """
    rest = program.cone_x.lines & (program.quadratic_x == 0)
    rest[[j for penalty in program.norms for j in penalty.group]] = False
    free, columns = np.flatnonzero(rest), program.columns_x
    largest = float(np.abs(w).max(initial=0.0))
    if not free.size or not largest > 0:
        return None
    grid = np.ldexp(1.0, int(np.frexp(largest)[1]) - _GRID_BITS)
    out: Array = np.rint(w / grid) * grid
    shared = np.bincount(columns[:, free].indices, minlength=w.size)
    for j in free:
        part = slice(columns.indptr[j], columns.indptr[j + 1])
        rows, values = columns.indices[part], columns.data[part]
        own = np.flatnonzero((np.abs(values) == 1) & (shared[rows] == 1))
        if not own.size:
            return None
        pivot = own[np.argmax(np.abs(w[rows[own]]))]
        out[rows[pivot]] = 0.0
        left = Fraction(float(program.sign * program.cost_x[j])) - exact_dot(values, out[rows])
        out[rows[pivot]] = float(left) * values[pivot]
    return out


def _linear_conditions_hold(program: Program, w: Array) -> bool:
    lo, hi = program.sign_box
    return bool(np.all((w >= lo) & (w <= hi))) and _auxiliary_conditions_hold(program, w, True)


def _ray_conditions_hold(program: Program, w: Array) -> bool:
    signs = np.all(w[program.relations == -1] >= 0) and np.all(w[program.relations == 1] <= 0)
    negative = exact_dot(program.rhs, w) < 0
    return bool(signs) and negative and _auxiliary_conditions_hold(program, w, False)


def _auxiliary_conditions_hold(program: Program, w: Array, with_objective: bool) -> bool:
    """The conditions on r = A_xᵀw − c in exact arithmetic: r_j ≥ 0, = 0 for free variables,
    r_h ≥ ‖r_T‖, ‖r_G‖ ≤ ρ, and none where there is a square; for a ray with c = 0 and ρ = 0."""
    r = _reduced_costs(program, w, with_objective)
    cone = program.cone_x
    squares = program.quadratic_x > 0 if with_objective else np.zeros_like(program.free_x)
    if any(r[j] < 0 for j in np.flatnonzero(~program.free_x & ~squares)):
        return False
    rest = cone.lines & ~squares
    for penalty in program.norms if with_objective else ():
        group = list(penalty.group)
        rest[group] = False
        if not is_in_cone(Fraction(penalty.weight), [r[j] for j in group]):
            return False
    parts = [c.members.tolist() for c in program.cones]
    inside = all(is_in_cone(r[m[0]], [r[j] for j in m[1:]]) for m in parts)
    return inside and not any(r[j] for j in np.flatnonzero(rest))


def _reduced_costs(program: Program, w: Array, with_objective: bool) -> list[Fraction]:
    """A_xᵀw − c, or A_xᵀw, exactly."""
    columns, out = program.columns_x, []
    cost = program.sign * program.cost_x if with_objective else np.zeros(program.n_auxiliary)
    for j in range(program.n_auxiliary):
        part = slice(columns.indptr[j], columns.indptr[j + 1])
        value = exact_dot(columns.data[part], w[columns.indices[part]])
        out.append(value - Fraction(float(cost[j])))
    return out


def _slacks_hold(program: Program, w: Array, with_cost: bool) -> bool:
    """S ⪰ 0 on every face for the exact S of the floating-point data."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return all(
            _large_slack_holds(program, k, w, with_cost)
            if block.is_large_graph and _edges_are_rows(program)
            else slack_holds(program, k, w, with_cost)
            for k, block in enumerate(program.blocks)
        )


def slack_holds(program: Program, k: int, w: Array, with_cost: bool = True) -> bool:
    """The same of the k-th slack, by dense factors."""
    if program.blocks[k].is_large_sparse:
        return _sparse_slack_holds(program, k, w, with_cost)
    slack = scaled_slack(program, k, w, with_cost)
    if slack is None:
        return False
    touched = _touched(program, k, w, with_cost)
    if touched.all() or slack.null.shape[1]:
        return definite_on_face(slack)
    # Where nothing is added the slack is zero exactly, and semidefinite as it is.
    inside = np.ix_(touched, touched)
    part = ScaledSlack(slack.matrix[inside], slack.error[inside], slack.null[touched])
    return not touched.any() or definite_on_face(part)


def _touched(program: Program, k: int, w: Array, with_cost: bool) -> Bools:
    """(n,) the coordinates of the k-th block in which the slack may differ from zero."""
    block, cost = program.blocks[k], program.blocks[k].cost
    part = sp.csc_array(program.rows_q[:, program.spans[k]])
    used = np.zeros(block.n_measurements, dtype=bool)
    used[np.repeat(np.arange(block.n_measurements), np.diff(part.indptr))[w[part.indices] != 0]] = 1
    if with_cost:
        used |= program.cost_q[program.spans[k]] != 0
    nodes = np.zeros(block.incidence.shape[1], dtype=bool)
    nodes[block.incidence[np.flatnonzero(used)].indices] = True
    out = nodes if block.features is None else block.features[nodes].any(axis=0)
    if with_cost:
        out = out | bool(cost.identity) | cost.factor.any(axis=1)
        out = out | (np.diff(sp.csr_array(cost.sparse).indptr) > 0)
    return np.asarray(out)


def _large_slack_holds(program: Program, k: int, w: Array, with_cost: bool) -> bool:
    """Sparse factors prove it, their backward error and the rounding of S included."""
    block = program.blocks[k]
    u = program.split(np.asarray(program.rows_q.T @ w))[k]
    cost = program.sign * float(with_cost)
    low_rank = block.cost.factor.any() and with_cost
    sizes = [np.abs(u), np.abs([cost * block.cost.identity])]
    if low_rank:
        sizes += [np.abs(block.cost.weights)]
    power = int(np.frexp(max(float(s.max(initial=0.0)) for s in sizes))[1])
    unit = float(np.ldexp(1.0, -power)) if abs(power) < 1000 else np.nan
    moderate = not low_rank or _is_moderate(block.cost.factor)
    if not np.isfinite(unit) or not moderate:
        return False
    # In units of the largest number, products of what is lost to underflow are nothing.
    return bool(block.smallest_of_slack(unit * u, unit * cost) >= np.ldexp(1.0, -3 * _MODERATE))


def _sparse_slack_holds(program: Program, k: int, w: Array, with_cost: bool) -> bool:
    """The same of large sparse data: the rounding of S is deducted from its proven bound."""
    block, sign = program.blocks[k], program.sign * float(with_cost)
    u = program.split(np.asarray(program.rows_q.T @ w) - sign * program.cost_q)[k]
    return bool(block.smallest_of_slack(u, sign) >= slack_roundings(program, w)[k])


def _is_moderate(values: Array) -> bool:
    powers = np.frexp(values[values != 0])[1]
    return bool(np.all(np.abs(powers) < _MODERATE))


def _edges_are_rows(program: Program) -> bool:
    """Whether u = ±w, so that the weights of the edges are not rounded already."""
    single = np.all(np.diff(program.rows_q.indptr) == 1) and most_in_column(program.rows_q) == 1
    return bool(single and np.all(np.abs(program.rows_q.data) == 1) and not program.cost_q.any())


def _dual_value(program: Program, w: Array) -> float | None:
    """What proven multipliers are worth; None if the log det of a slack has no proven bound."""
    exact = exact_dot(program.rhs, w)
    if program.quadratic_x.any():
        exact += _squares(program, w)
    if not program.has_log_det:
        return rounded(Fraction(program.sign) * exact + Fraction(program.offset), program.sign)
    parts = zip(program.blocks, program.dual_slacks(w), slack_roundings(program, w), strict=True)
    for block, slack, rounding in parts:
        beta, n = block.log_det, block.size
        if not beta:
            continue
        logs = None if block.null.shape[1] else log_det_bounds(slack, rounding)
        if logs is None:
            return None
        # −β log det S + βn(log β − 1), rounded upwards.
        terms = np.array([-beta * logs[0], beta * n * np.log(beta), -beta * n])
        exact += Fraction(float(terms.sum() + 16 * UNIT * np.abs(terms).sum()))
    sign = Fraction(program.sign)
    return rounded(sign * exact + Fraction(program.offset), program.sign)


def _squares(program: Program, w: Array) -> Fraction:
    """Σ r²/(2h), r⁻ only where x_j ≥ 0."""
    r, total = _reduced_costs(program, w, True), Fraction(0)
    for j in np.flatnonzero(program.quadratic_x):
        part = r[j] if program.free_x[j] else min(r[j], Fraction(0))
        total += part * part / (2 * Fraction(float(program.quadratic_x[j])))
    return total


def rounded(exact: Fraction, direction: float) -> float:
    """The next float on the given side, OverflowError if there is none."""
    value = float(exact)
    if (Fraction(value) - exact) * int(direction) < 0:
        value = float(np.nextafter(value, np.inf * direction))
    if not np.isfinite(value):
        raise OverflowError("the value is beyond the floating-point range")
    return value
