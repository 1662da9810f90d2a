"""Safe bounds: bounds on the optimal value that hold for inexact multipliers.

`sdpkit.certificate.certify` states the arguments that lead to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from sdpkit.certificate.accurate import slack_is_accurately_definite
from sdpkit.certificate.exact import exact_reduced_cost, exactly_in_cone, slack_is_semidefinite
from sdpkit.certificate.rigor import slack_holds
from sdpkit.certificate.rounding import TINY, gamma, slack_roundings, sum_rounding
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.typing import Array

# A free variable's reduced cost must vanish; this much rounding is granted (not by `verify`).
_ROUNDING = 1e-12
# Reduced costs of doubtful sign that are decided in rational arithmetic, at most.
_DOUBTS = 2000
# Multipliers whose terms are this many times the costs are granted none.
_MODERATE = 1e5
# Slacks are granted this many times the rounding of their sums, where no other bound is known.
_GRANTED = 100.0
# Steps onto the equations of free variables.
_MAX_CORRECTIONS = 6
# The residual that directions of facial reduction may have.
FACE_TOLERANCE = 1e-9

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class SafeBound:
    """A bound on the optimum of the maximisation and where it comes from."""

    value: float
    source: str
    multipliers: Array | None = None


def slack_eigenvalues(program: Program, w: Array) -> list[float]:
    weights, smallest = program.split(program.measurement_weights(w)), []
    for block, u in zip(program.blocks, weights, strict=True):
        continue_or_raise()
        smallest.append(block.smallest_of_slack(u, program.sign))
    return smallest


def linear_violation(program: Program, w: Array) -> float:
    """By how much w leaves its box or the conditions of the auxiliary variables."""
    lo, hi = program.multiplier_box
    return max(
        float(np.maximum(lo - w, w - hi).max(initial=0.0)),
        -_smallest_reduced_cost(program, w),
        _equality_violation(program, w),
    )


def _smallest_reduced_cost(program: Program, w: Array) -> float:
    """min r_j over nonnegative, uncurved x_j, and r_h − ‖r_T‖ over second-order cones; inf if
    there is neither."""
    plain, r = ~program.free_x & (program.quadratic_x == 0), program.reduced_costs(w)
    inside = float((-program.cone_x.lack(r)).min(initial=np.inf))
    return min(inside, float(r[plain].min(initial=np.inf)))


def _equality_violation(program: Program, w: Array) -> float:
    """max |r_j| over free, unpenalised x_j, and the excess ‖r_G‖ − ρ_G of norm groups."""
    r, excess = program.reduced_costs(w), 0.0
    for penalty in program.norms:
        excess = max(excess, float(np.linalg.norm(r[list(penalty.group)])) - penalty.weight)
    return max(excess, float(np.abs(r[program.equations_x]).max(initial=0.0)))


def safe_bound(program: Program, w: Array, eigenvalues: list[float] | None = None) -> SafeBound:
    """The best of the module's five bounds for multipliers w of the maximisation.

    `eigenvalues` are the smallest ones of its dual slacks, if they are known already.
    """
    given, w = w, into_conditions(program, w)
    if not np.isfinite(w).all():
        return SafeBound(np.inf, "the multipliers overflow")
    if _breaks_equations(program, w):
        zero = _by_zero(program, np.inf) if not program.has_log_det else _NO_BOUND
        broken = SafeBound(np.inf, "the multipliers violate an equation of a free variable")
        return zero if np.isfinite(zero.value) else broken
    if eigenvalues is None or not np.array_equal(given, w):
        eigenvalues = slack_eigenvalues(program, w)
    if min(eigenvalues) == -np.inf:
        return SafeBound(np.inf, "the multipliers overflow")
    eigenvalues = _beyond_rounding(program, w, eigenvalues)
    lack = _reduced_cost_lack(program, w)
    if program.has_log_det:
        shrunk = _by_shrinking(program, w)
        needed = max(lack, -min(eigenvalues))
        if np.isfinite(shrunk.value) or not needed > 0:
            return shrunk
        moved = _by_direction(program, w, needed)
        return moved if np.isfinite(moved.value) else shrunk
    if min(eigenvalues) >= 0 and lack == 0:
        candidates = [SafeBound(_value(program, w), "feasible dual", w)]
    else:
        candidates = [
            _by_trace(program, w, eigenvalues, lack),
            _by_direction(program, w, max(lack, -min(eigenvalues))),
            _by_anchor(program, w, eigenvalues),
        ]
    candidates.append(_by_scaling(program, w, eigenvalues))
    if not any(np.isfinite(bound.value) for bound in candidates):
        candidates.append(_by_blending(program, w, eigenvalues, lack))
        candidates.append(_by_rounding(program, w))
    candidates.append(_by_zero(program, min(bound.value for bound in candidates)))
    return min(candidates, key=lambda bound: bound.value)


def _breaks_equations(program: Program, w: Array) -> bool:
    """Whether the equation of a free variable, or a norm's limit, is off by more than rounding."""
    r = program.reduced_costs(w)
    sums = abs(program.rows_x).T @ np.abs(w) + np.abs(program.cost_x)
    for penalty in program.norms:
        group = list(penalty.group)
        allowed = _ROUNDING * (penalty.weight + float(np.linalg.norm(sums[group])))
        if float(np.linalg.norm(r[group])) - penalty.weight > allowed:
            return True
    plain = program.equations_x
    return bool(np.any(np.abs(r[plain]) > _granted(program, w)[plain]))


def _beyond_rounding(program: Program, w: Array, eigenvalues: list[float]) -> list[float]:
    return beyond_rounding(program, w, eigenvalues, slack_roundings(program, w))


def beyond_rounding(
    program: Program, w: Array, eigenvalues: list[float], roundings: list[float]
) -> list[float]:
    """Eigenvalues of the exact slacks at least; what is in doubt is proved, if it can be."""
    out = []
    for k, (value, rounding) in enumerate(zip(eigenvalues, roundings, strict=True)):
        least = value - rounding
        doubtful = least < 0 and value >= -rounding
        if doubtful and _is_proven(program, k, w):
            least = 0.0
        out.append(least)
    return out


def _is_proven(program: Program, k: int, w: Array) -> bool:
    """Whether the k-th slack is positive semidefinite, the cheapest proof first."""
    proofs = (slack_is_semidefinite, slack_holds, slack_is_accurately_definite)
    return any(proof(program, k, w) for proof in proofs)


def _reduced_cost_lack(program: Program, w: Array) -> float:
    """By how much some r_j ≥ 0 of a nonnegative, uncurved x_j is missed, or the reduced costs of a
    second-order cone miss it, rounding included."""
    plain = ~program.free_x & (program.quadratic_x == 0)
    outside = cone_lack(program, w) if program.cones else 0.0
    if not plain.any():
        return outside
    r, rounding = program.reduced_costs(w), _hidden(program, w)
    counts = np.bincount(program.rows_x.indices, minlength=program.n_auxiliary)
    # w_e − c_j is rounded to a number of the right sign.
    units = np.ones(program.n_auxiliary, dtype=bool)
    units[program.rows_x.indices[np.abs(program.rows_x.data) != 1]] = False
    rounding[units & (counts <= 1)] = 0.0
    doubtful = np.flatnonzero(plain & (np.abs(r) <= rounding) & (rounding > 0))
    least = r - rounding
    for j in doubtful if doubtful.size <= _DOUBTS else ():
        exact = exact_reduced_cost(program, w, int(j))
        least[j] = 0.0 if exact >= 0 else -rounding[j]
    return max(outside, -float(least[plain].min()))


def cone_lack(program: Program, w: Array) -> float:
    """By how much r_h ≥ ‖r_T‖ is missed in some second-order cone, rounding included; what is in
    doubt is decided in rational arithmetic, if there is not too much of it."""
    cone, r, hidden = program.cone_x, program.reduced_costs(w), _hidden(program, w)
    upper = np.abs(r) + hidden
    upper[cone.heads] = r[cone.heads] - hidden[cone.heads]
    relative = 1 + 4 * EPS * (cone.members.size + 8)
    most = cone.lengths(upper) * relative - upper[cone.heads]
    doubtful = np.flatnonzero((most > 0) & (cone.lack(r) <= most))
    if doubtful.size > 0 and np.isin(cone.owners, doubtful).sum() <= _DOUBTS:
        for k in doubtful:
            if exactly_in_cone(program, w, program.cones[k]):
                most[k] = 0.0
    return max(0.0, float(most.max(initial=0.0)))


def _leaves_linear_conditions(program: Program, w: Array) -> bool:
    lo, hi = program.multiplier_box
    inside = np.all((w >= lo) & (w <= hi)) and not _breaks_equations(program, w)
    return not inside or _reduced_cost_lack(program, w) > 0


def _value(program: Program, w: Array) -> float:
    """The dual value, rounded upwards: also of free and curved variables and of log dets."""
    value = float(program.rhs @ w) + sum_rounding(program, w)
    if program.free_x.any():
        value += _price_of_equations(program, w)
    if program.quadratic_x.any():
        value += _curved_value(program, w)
    if program.has_log_det:
        value += _log_det_value(program, w)
    return value


def _price_of_equations(program: Program, w: Array) -> float:
    """What the equations r_j = 0 of free variables miss, for variables as large as rows suggest."""
    plain = program.equations_x
    off = np.abs(program.reduced_costs(w)) + _hidden(program, w)
    for j in np.flatnonzero(plain) if plain.sum() <= _DOUBTS else ():
        off[j] = 0.0 if exact_reduced_cost(program, w, int(j)) == 0 else off[j]
    return float(off[plain].sum() * _largest_size(program))


def _hidden(program: Program, w: Array) -> Array:
    """(n_x,) what rounding may hide in the reduced costs."""
    sums = abs(program.rows_x).T @ np.abs(w) + np.abs(program.cost_x)
    counts = np.bincount(program.rows_x.indices, minlength=program.n_auxiliary)
    return np.asarray(1.01 * gamma(int(counts.max(initial=0)) + 2) * sums + (counts + 1) * TINY)


def _curved_value(program: Program, w: Array) -> float:
    """Σ r²/(2h), with what rounding may hide in each r."""
    curved = program.quadratic_x > 0
    r, hidden = program.reduced_costs(w), _hidden(program, w)
    most = np.where(program.free_x, np.abs(r) + hidden, np.maximum(hidden - r, 0.0))[curved]
    return float(np.sum(most**2 / (2 * program.quadratic_x[curved]))) * (1 + 1e-14)


def _log_det_value(program: Program, w: Array) -> float:
    """−β log det S + βk(log β − 1) over the blocks that have one, every eigenvalue of S less its
    rounding; inf unless S ≻ 0 is beyond it."""
    values = []
    parts = zip(program.blocks, program.dual_slacks(w), slack_roundings(program, w), strict=True)
    for block, slack, rounding in parts:
        beta, k = block.log_det, block.size - block.null_basis.shape[1]
        if not beta:
            continue
        on_face = block.face.T @ slack @ block.face if block.null_basis.shape[1] else slack
        least = scipy.linalg.eigvalsh(on_face) - rounding
        if not least[0] > 0:
            return np.inf
        terms = np.array([-beta * float(np.log(least).sum()), beta * k * np.log(beta), -beta * k])
        values.append(float(terms.sum() + 8 * EPS * np.abs(terms).sum()))
    return math.fsum(values)


def into_conditions(program: Program, w: Array) -> Array:
    """Multipliers near w in their box, with r_j = 0 for the free, unpenalised variables."""
    lo, hi = program.multiplier_box
    w = np.clip(w, lo, hi)
    free = program.equations_x
    if not free.any():
        return w
    equations, sizes = sp.csr_array(program.rows_x.T)[np.flatnonzero(free)], np.abs(w)
    for _ in range(_MAX_CORRECTIONS):
        # Multipliers at an end of their box stay there.
        inside = (w > lo) & (w < hi)
        residual = program.reduced_costs(w)[free]
        if not residual.any() or not np.isfinite(residual).all():
            break
        part = equations[:, np.flatnonzero(inside)]
        step = scipy.sparse.linalg.lsqr(part, residual, atol=1e-15, btol=1e-15)[0]
        moved = w[inside] - step
        # What cancels to rounding is zero: otherwise it would break its equation by all of itself.
        # Zeros stay zero beside the rounding of the others.
        least = np.where(sizes > 0, _ROUNDING * sizes, 16 * EPS * sizes.max(initial=0.0))
        moved[np.abs(moved) <= least[inside]] = 0.0
        w = w.copy()
        w[inside] = moved
        w = np.clip(w, lo, hi)
    return w


_NO_BOUND = SafeBound(np.inf, "the dual is infeasible and the program has no repair")


def _by_trace(program: Program, w: Array, eigenvalues: list[float], lack: float) -> SafeBound:
    if program.safe.trace is None or lack > 0:
        return _NO_BOUND
    terms = zip(eigenvalues, program.safe.trace, strict=True)
    extra = sum(max(0.0, -value) * trace for value, trace in terms if value < 0)
    return SafeBound(_value(program, w) + extra, "trace bound", w)


def _by_direction(program: Program, w: Array, lack: float) -> SafeBound:
    strength = direction_strength(program)
    if strength is None or program.repair_direction is None:
        return _NO_BOUND
    # The move is rounded too, and so is the slack after it.
    lack = 1.01 * lack + max(slack_roundings(program, w))
    moved = w + (lack / strength) * program.repair_direction
    if np.isfinite(moved).all() and _breaks_equations(program, moved):
        # Back onto the equations, with twice the move to spare for it.
        moved = into_conditions(program, moved + 2 * (moved - w))
        if min(_beyond_rounding(program, moved, slack_eigenvalues(program, moved))) < 0:
            return _NO_BOUND
    if not np.isfinite(moved).all() or _leaves_linear_conditions(program, moved):
        return _NO_BOUND
    return SafeBound(_value(program, moved), "repair direction", moved)


def direction_strength(program: Program) -> float | None:
    """κ > 0 with Aᵀ(w₀) ⪰ κI on every face; None if w₀ has no such strength."""
    direction = program.repair_direction
    if direction is None or not np.isfinite(direction).all():
        return None
    weights = program.split(np.asarray(program.rows_q.T @ direction))
    pairs = list(zip(program.blocks, weights, strict=True))
    kappa = min(block.smallest_of_slack(u, 0.0) for block, u in pairs)
    # Rounding in κ is far below the safety of this one percent.
    return 0.99 * kappa if kappa > 1e-8 * max(size_of_image(*pair) for pair in pairs) else None


def size_of_image(block: Block, u: Array) -> float:
    """‖Vᵀdiag(u)V‖, Frobenius."""
    image = block.adjoint(u)
    return float(np.linalg.norm(image if isinstance(image, np.ndarray) else image.data))


def _by_anchor(program: Program, w: Array, eigenvalues: list[float]) -> SafeBound:
    if program.safe.anchor is None:
        return _NO_BOUND
    anchor = program.sign * program.safe.anchor
    anchored = _beyond_rounding(program, anchor, slack_eigenvalues(program, anchor))
    if min(anchored) < 0 or linear_violation(program, anchor) > 0:
        return _NO_BOUND
    theta = max(
        -value / (better - value) if value < 0 else 0.0
        for value, better in zip(eigenvalues, anchored, strict=True)
    )
    # A convex combination of two points of the box leaves it by rounding only.
    blend = np.clip((1 - theta) * w + theta * anchor, *program.multiplier_box)
    if _leaves_linear_conditions(program, blend):
        return _NO_BOUND
    return SafeBound(_value(program, blend), "anchor", blend)


def _by_rounding(program: Program, w: Array) -> SafeBound:
    """The bound of multipliers that are feasible up to rounding, which is priced for matrices and
    variables as large as the constraints suggest. `verify` grants nothing."""
    scale = _cost_scale(program)
    roundings = slack_roundings(program, w)
    if max(roundings) > _GRANTED * _MODERATE * EPS * scale:
        return _NO_BOUND
    values = slack_eigenvalues(program, w)
    if any(v < -_GRANTED * r for v, r in zip(values, roundings, strict=True)):
        return _NO_BOUND
    plain = ~program.free_x & (program.quadratic_x == 0)
    off, granted = np.maximum(-program.reduced_costs(w), 0.0)[plain], _granted(program, w)
    outside = cone_lack(program, w) if program.cones else 0.0
    most = float(granted[program.cone_x.heads].min(initial=np.inf))
    if np.any(off > granted[plain]) or outside > most or not _in_sign_box(program, w):
        return _NO_BOUND
    pairs = zip(program.blocks, values, roundings, strict=True)
    off_matrices = sum(block.size * (max(0.0, -v) + r) for block, v, r in pairs)
    hidden = float(_hidden(program, w)[plain].sum())
    short = float(off.sum()) + hidden + off_matrices + len(program.cones) * outside
    price = short * _largest_size(program)
    return SafeBound(_value(program, w) + price, "dual feasible up to rounding", w)


def _cost_scale(program: Program) -> float:
    """The size of the costs."""
    linear = np.abs(np.concatenate([program.cost_x, program.cost_q])).max(initial=0.0)
    return max(float(linear), *(block.cost.magnitude() for block in program.blocks))


def _granted(program: Program, w: Array) -> Array:
    """(n_x,) what rounding may leave of an equation; less than that of huge terms that cancel."""
    sums = abs(program.rows_x).T @ np.abs(w) + np.abs(program.cost_x)
    return np.asarray(_ROUNDING * np.minimum(sums, _MODERATE * _cost_scale(program)))


def _in_sign_box(program: Program, w: Array) -> bool:
    lo, hi = program.sign_box
    return bool(np.all((w >= lo) & (w <= hi)))


def _largest_size(program: Program) -> float:
    """How large the constraints suggest that a variable may be."""
    return float((np.abs(program.rhs) / program.row_norms).max(initial=0.0))


def _by_zero(program: Program, best: float) -> SafeBound:
    """The bound of multipliers 0, where these are feasible and better: costs that cannot be
    negative, and none at all."""
    if any(_is_somewhere_positive(program, k) for k in range(len(program.blocks))):
        return _NO_BOUND
    zero = into_conditions(program, np.zeros(program.n_rows))
    if not np.isfinite(zero).all() or _leaves_linear_conditions(program, zero):
        return _NO_BOUND
    value = _value(program, zero)
    if not value < best:
        return _NO_BOUND
    slacks = beyond_rounding(
        program, zero, slack_eigenvalues(program, zero), slack_roundings(program, zero)
    )
    return SafeBound(value, "zero multipliers", zero) if min(slacks) >= 0 else _NO_BOUND


def _by_blending(program: Program, w: Array, eigenvalues: list[float], lack: float) -> SafeBound:
    """The bound of w mixed with simple multipliers, where these are strictly feasible: equal ones
    for all inequalities and none for equations, moved onto the equations of free variables. Norms
    and absolute values have them in the middle of their duals."""
    if any(block.is_large_graph for block in program.blocks):
        return _NO_BOUND
    unequal, (lo, hi) = program.relations != 0, program.sign_box
    typical = float(np.abs(w[unequal]).mean()) if unequal.any() else 0.0
    middle = into_conditions(program, np.asarray(-typical * program.relations, dtype=float))
    inside = np.where(unequal, np.minimum(middle - lo, hi - middle), np.inf)
    least = min(_smallest_reduced_cost(program, middle), float(inside.min(initial=np.inf)))
    if not least >= 0 or _breaks_equations(program, middle):
        return _NO_BOUND
    smallest = min(slack_eigenvalues(program, middle))
    # Twice what is missing, and what rounding may hide after the move. Slacks that miss nothing
    # need no room: a mixture of two that are semidefinite is semidefinite.
    missing = max(0.0, -min(eigenvalues))
    if missing:
        missing += max(slack_roundings(program, w))
    share = max(_share(lack, least), _share(missing, smallest))
    if not 0 < share < 1:
        return _NO_BOUND
    blend = into_conditions(program, (1 - share) * w + share * middle)
    proven = _beyond_rounding(program, blend, slack_eigenvalues(program, blend))
    if min(proven) < 0 or _leaves_linear_conditions(program, blend):
        return _NO_BOUND
    return SafeBound(_value(program, blend), "blend with simple multipliers", blend)


def _share(missing: float, room: float) -> float:
    """The share of the middle that takes care of twice what is missing; 1 if there is no room."""
    if missing <= 0:
        return 0.0
    return 2 * missing / room if 2 * missing < room else 1.0


def _is_somewhere_positive(program: Program, k: int) -> bool:
    """Whether a glance at the k-th cost of the maximisation shows that 0 ⪰ C fails."""
    block, g = program.blocks[k], program.sign * program.cost_q[program.spans[k]]
    if block.is_large_graph or (g > 0).any():
        return True
    if block.null.shape[1]:
        return program.sign * block.cost.identity > 0
    return bool((program.sign * block.cost.dense().diagonal() > 0).any())


def _by_scaling(program: Program, w: Array, eigenvalues: list[float]) -> SafeBound:
    """The best s·bᵀw with s·Aᵀ(w) ⪰ C on the faces and s·w in its box."""
    simple = program.is_linear and not program.cost_q.any() and np.all(program.free_x == 0)
    if not simple or not program.rhs.any():
        return _NO_BOUND
    low, high = _scaling_interval(program, w, eigenvalues)
    value = float(program.rhs @ w)  # of either sign: the better end
    s = low if value >= 0 else high
    if not low <= high or not np.isfinite(s):
        return _NO_BOUND
    scaled = np.clip(s * w, *program.multiplier_box)
    if _leaves_linear_conditions(program, scaled):
        return _NO_BOUND
    above = _value(program, scaled)
    return SafeBound(max(s * value, above), "scaled dual", scaled)


def _by_shrinking(program: Program, w: Array) -> SafeBound:
    """The dual value of s·w with the s ∈ (0, 1] next to one that meets the linear conditions.

    With a log det no repair is needed but S ≻ 0, which the value itself demands. Only slacks that
    lack nothing count where a block has no log det.
    """
    plain = ~program.free_x & (program.quadratic_x == 0)
    limit, reached = (program.sign * program.cost_x)[plain], (program.rows_x.T @ w)[plain]
    short = reached < limit
    if (limit[short] >= 0).any():
        return _NO_BOUND  # no smaller multiple of w meets r ≥ 0
    s = float((limit[short] / reached[short]).min(initial=1.0))
    if _leaves_linear_conditions(program, s * w):
        # The bound covers the rounding of the sums A_xᵀw as well.
        s *= 1 - 8 * EPS * (program.n_rows + 2)
    shrunk = s * w
    outside = s < 1 and program.cone_x.lines.any()
    if outside or _leaves_linear_conditions(program, shrunk):
        return _NO_BOUND
    eigenvalues = _beyond_rounding(program, shrunk, slack_eigenvalues(program, shrunk))
    pairs = zip(program.blocks, eigenvalues, strict=True)
    if any(value < 0 for block, value in pairs if not block.log_det):
        return _NO_BOUND
    value = _value(program, shrunk)
    if not np.isfinite(value):
        return SafeBound(np.inf, "the dual slack of a log det is not positive definite")
    return SafeBound(value, "feasible dual" if s == 1 else "scaled dual", shrunk)


def _scaling_interval(program: Program, w: Array, eigenvalues: list[float]) -> tuple[float, float]:
    """{s ≥ 0 : s·Aᵀ(w) ⪰ C on every face, s·w in its box}, for costs definite on the face."""
    lo, hi = program.multiplier_box
    if np.any(lo > 0) or np.any(hi < 0):
        return np.inf, 0.0  # w = 0 is outside of the box, and so may be multiples of w
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(w > 0, hi / w, np.where(w < 0, lo / w, np.inf))
    low, high = 0.0, float(np.nanmin(limits, initial=np.inf))
    weights = program.split(np.asarray(program.rows_q.T @ w))
    # s·w is rounded too, entry by entry, which moves its slack by s times this at most.
    sizes = program.split(np.asarray(abs(program.rows_q).T @ np.abs(w)))
    roundings = [2 * EPS * size_of_image(b, u) for b, u in zip(program.blocks, sizes, strict=True)]
    parts = zip(program.blocks, weights, eigenvalues, roundings, strict=True)
    for block, u, smallest, rounding in parts:
        part = _pencil_interval(block, program.sign, u, smallest, rounding)
        low, high = max(low, part[0]), min(high, part[1])
    return low, high


def _pencil_interval(
    block: Block, sign: float, u: Array, slack_eigenvalue: float, rounding: float
) -> tuple[float, float]:
    """{s ≥ 0 : s·Vᵀdiag(u)V ⪰ C} on the face, when C is definite there; (inf, 0) otherwise."""
    if np.isinf(slack_eigenvalue):
        return (0.0, np.inf) if slack_eigenvalue > 0 else (np.inf, 0.0)
    if block.cost.is_identity:
        c = sign * block.cost.identity
        size = size_of_image(block, u) + abs(c) * np.sqrt(block.size)
        # S = Vᵀdiag(u)V − cI, rounding deducted.
        smallest = slack_eigenvalue + c - 10 * EPS * size - rounding
    elif block.avoids_dense:
        return np.inf, 0.0  # such costs are rarely definite, and n × n matrices are avoided
    else:
        c, smallest = _smallest_of_pencil(block, sign, u, 2 * rounding)
    # `smallest` is short of its true value by what rounding can hide: s = c/λ magnifies it.
    if c > 0:
        return (c / smallest, np.inf) if smallest > 0 else (np.inf, 0.0)
    if c < 0:
        return 0.0, c / smallest if smallest < 0 else np.inf
    return np.inf, 0.0


def _smallest_of_pencil(
    block: Block, sign: float, u: Array, rounding: float
) -> tuple[float, float]:
    """(±1, smallest eigenvalue of the pencil (Vᵀdiag(u)V, ±C) less rounding); (0, 0) if C is
    indefinite on the face."""
    image = block.face.T @ (block.adjoint(u) @ block.face)
    cost = sign * block.face.T @ block.cost.dense() @ block.face
    side = 1.0 if float(np.trace(cost)) > 0 else -1.0
    weakest = float(scipy.linalg.eigvalsh(side * cost, subset_by_index=[0, 0])[0])
    if weakest <= 1e-12 * float(np.linalg.norm(cost)):
        return 0.0, 0.0
    try:
        smallest = float(scipy.linalg.eigvalsh(image, side * cost, subset_by_index=[0, 0])[0])
    except np.linalg.LinAlgError:
        return 0.0, 0.0  # near the ends of the floating-point range
    lost = 10 * EPS * float(np.linalg.norm(image)) + rounding
    return side, smallest - lost / weakest
