"""What proves an answer: everything is recomputed from (program, primal, dual) alone.

The heart is the **safe bound**, a bound on the optimal value that holds although the returned
multipliers are inexact. For a maximisation with multipliers w, put into their box of signs
first, let S(w) be the dual slack and λ its smallest eigenvalue on the face. Then

    feasible dual      λ ≥ 0:                      bᵀw
    trace              tr M ≤ T on the feasible set: bᵀw + max(0, −λ)·T
    repair direction   Aᵀ(w₀) ⪰ κI on the face:    bᵀ(w + (max(0, −λ)/κ) w₀)
    anchor             w̄ feasible with slack λ̄:    bᵀ((1−θ)w + θw̄),  (1−θ)λ + θλ̄ = 0
    scaling            s·Aᵀ(w) ⪰ C:                s·bᵀw, for the best such s
                       (with a log det: S(sw) ≻ 0 and the linear conditions, s next to one)

each bound the optimum from above, and the smallest is taken. A minimisation is the negated
maximisation. Eigenvalues are floating point here; `Certificate.verify` makes them rigorous.

A program with a family of comparisons is judged by the multipliers α of *some* of them, while its
objective counts them all: the bound is  θ·Σα  for the largest θ ≤ 1 with  C + θ·Σα_t(…) ⪰ 0.

Graphs of more than 1500 nodes have no n × n matrices here. The smallest eigenvalue of their dual
slack is a proven lower bound from sparse factors (`sdpkit.numerics.sparse_factor`), and their
primal may be a `Gram`, data from which lengths, trace and positive semidefiniteness are computed.

Denominators, written down once:

    relative_gap      |bound − objective| / max(|objective|, |bound|, value_scale)
                      with a log det: |bound − objective| / Σβ, the gap in log det itself: a log
                      det moves by a constant with the unit of length, so that its own size says
                      nothing
    primal_residual   largest row violation / max |b|, rows scaled to norm one (or over the rows'
                      own magnitude if b = 0), and ‖M N‖/(‖M‖‖N‖), ‖M − Mᵀ‖/‖M‖
    dual_residual     largest of −λ, sign, box and reduced-cost violations / max(‖C‖, |c|, |g|)

with 0/0 = 0. `value_scale` is the problem's idea of a value that counts as zero: Σd/n for MVU,
1 for a program without a home.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

from sdpkit.certificate.rigor import Verification, verify_dual, verify_multiplier_ray
from sdpkit.errors import InputError
from sdpkit.program.form import Block, Program
from sdpkit.program.gram import Gram, Matrix, is_finite, scaled, trace

if TYPE_CHECKING:
    from sdpkit.program.triplets import Rows

Array = NDArray[np.float64]

# A free variable's reduced cost must vanish; this much rounding is granted (not by `verify`).
_ROUNDING = 1e-12
# What directions of facial reduction may be off.
_FACE = 1e-9
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class SafeBound:
    """A bound on the optimum of the maximisation and where it comes from."""

    value: float
    source: str
    multipliers: Array | None = None


@dataclass(frozen=True, eq=False)
class Certificate:
    """What was recomputed from a primal and a dual.

    Attributes
    ----------
    objective, dual_objective: at the returned points, in the program's sense
    primal_residual, dual_residual: relative, see the module's docstring
    min_eigenvalue_primal: smallest eigenvalue of the worst M;  eigenvalue_scale: its largest
    min_eigenvalue_dual: smallest eigenvalue of any dual slack on its face
    safe_bound: a bound on the optimal value that holds for inexact multipliers
    bound_source: which of the arguments above gave it
    relative_gap: between the objective and the safe bound
    dimacs: the six DIMACS errors
    """

    objective: float
    dual_objective: float
    primal_residual: float
    dual_residual: float
    min_eigenvalue_primal: float
    eigenvalue_scale: float
    min_eigenvalue_dual: float
    safe_bound: float
    bound_source: str
    relative_gap: float
    dimacs: tuple[float, float, float, float, float, float]
    program: Program = field(repr=False)
    multipliers: Array | None = field(repr=False)
    rows: Rows | None = field(default=None, repr=False)

    def passes(self, tol: float) -> bool:
        """True if residuals, eigenvalues and the certified gap all meet `tol`."""
        return not self.failures(tol)

    def failures(self, tol: float) -> list[str]:
        """What does not meet `tol`, in words; empty if the certificate passes."""
        negative = max(0.0, -self.min_eigenvalue_primal)
        share = _ratio(negative, self.eigenvalue_scale)
        checks = {
            "certified relative gap": self.relative_gap,
            "primal residual": self.primal_residual,
            "dual residual": self.dual_residual,
            "negative eigenvalue of the primal, relative": share,
        }
        # `not <=` rather than `>`: NaN must fail.
        return [f"{what} is {value:.2g}" for what, value in checks.items() if not value <= tol]

    def verify(self) -> Verification:
        """Make the bound a theorem about the floating-point data.

        The eigenvalue claim is proved by a shifted Cholesky factorisation with an a-priori
        rounding bound (Rump 2006) and the value is summed exactly. Where the rounded data leave
        no room (a dual that is not strictly feasible and cannot be moved) it says so.
        """
        if self.multipliers is None:
            return Verification(None, "there are no multipliers to verify")
        if self.rows is not None:
            return verify_dual(self.program.restricted(self.rows), self.multipliers)
        return verify_dual(self.program, self.multipliers)

    def __str__(self) -> str:
        kind = "upper" if self.program.sense == "max" else "lower"
        rows = [
            ("objective", f"{self.objective:.10g}"),
            (f"safe {kind} bound", f"{self.safe_bound:.10g}   ({self.bound_source})"),
            ("certified relative gap", f"{self.relative_gap:.2e}"),
            ("primal residual", f"{self.primal_residual:.2e}"),
            ("dual residual", f"{self.dual_residual:.2e}"),
            (
                "smallest eigenvalue, primal",
                f"{self.min_eigenvalue_primal:.2e}   (largest {self.eigenvalue_scale:.3g})",
            ),
            ("smallest eigenvalue, dual", f"{self.min_eigenvalue_dual:.2e}"),
            ("DIMACS errors", " ".join(f"{e:.1e}" for e in self.dimacs)),
        ]
        return "\n".join(["certificate", *(f"  {name:<28} {text}" for name, text in rows)])

    __repr__ = __str__


def certify(
    program: Program,
    matrices: Matrix | Sequence[Matrix],
    x: ArrayLike | None = None,
    dual: ArrayLike | None = None,
    rows: Rows | None = None,
) -> Certificate:
    """Judge a primal (matrices, x) and a dual w of `program` by recomputing everything.

    Missing multipliers, NaN or infinity give infinite residuals and an infinite gap. For a
    program with a family of comparisons, `dual` are the multipliers of `rows`.

    >>> from sdpkit import Block, Cost, Program
    >>> block = Block.of(2, [[1.0, -1.0]], cost=Cost.of(2, identity=1.0), null=[1.0, 1.0])
    >>> program = Program.of(block, [4.0])              # two points at distance 2
    >>> K = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> certify(program, K, dual=[0.5]).passes(1e-12)
    True
    >>> certify(program, 1.01 * K, dual=[0.5]).failures(1e-6)
    ['certified relative gap is 0.0099', 'primal residual is 0.01']
    """
    blocks = _matrices(program, matrices)
    aux = _vector(x, program.n_auxiliary, "x", default=0.0)
    if program.family is not None:
        alpha = None if dual is None or rows is None else _vector(dual, rows.size, "dual")
        with np.errstate(over="ignore", invalid="ignore"):
            return _certify_family(program, blocks, aux, rows, alpha)
    w = None if dual is None else program.sign * _vector(dual, program.n_rows, "dual")
    # Garbage may overflow on its way to an infinite residual; that is its verdict, not a warning.
    with np.errstate(over="ignore", invalid="ignore"):
        return _certify(program, blocks, aux, w)


def _certify(program: Program, blocks: list[Matrix], aux: Array, w: Array | None) -> Certificate:
    primal = _primal_side(program, blocks, aux)
    bound, dual_residual, smallest = _dual_side(program, w)
    dual_value = np.inf if w is None else program.dual_value(w)
    if not np.isfinite(dual_value):
        dual_value = np.inf
    sign, offset = program.sign, program.offset
    safe = sign * bound.value + offset
    return Certificate(
        objective=primal.objective,
        dual_objective=sign * dual_value + offset,
        primal_residual=primal.residual,
        dual_residual=dual_residual,
        min_eigenvalue_primal=primal.smallest,
        eigenvalue_scale=primal.largest,
        min_eigenvalue_dual=smallest,
        safe_bound=safe,
        bound_source=bound.source,
        relative_gap=_gap(program, primal.objective, safe),
        dimacs=_dimacs(program, primal, w, sign * dual_value + offset, smallest),
        program=program,
        multipliers=bound.multipliers,
    )


def _certify_family(
    program: Program, blocks: list[Matrix], aux: Array, rows: Rows | None, alpha: Array | None
) -> Certificate:
    primal = _primal_side(program, blocks, aux)
    dual = _NO_FAMILY_DUAL
    if rows is not None and alpha is not None and np.isfinite(alpha).all():
        dual = _family_dual(program, rows, alpha) if _are_rows(program, rows) else _NOT_ROWS
    scale = max(block.cost.magnitude() for block in program.blocks)
    safe = dual.bound + program.offset
    difference = primal.objective - dual.value
    errors = (primal.residual, max(0.0, -primal.smallest), dual.outside, max(0.0, -dual.smallest))
    size = 1.0 + abs(primal.objective) + abs(dual.value)
    return Certificate(
        objective=primal.objective,
        dual_objective=dual.value + program.offset,
        primal_residual=primal.residual,
        dual_residual=_ratio(max(0.0, -dual.smallest, dual.outside), scale or 1.0),
        min_eigenvalue_primal=primal.smallest,
        eigenvalue_scale=primal.largest,
        min_eigenvalue_dual=dual.smallest,
        safe_bound=safe,
        bound_source=dual.source,
        relative_gap=_gap(program, primal.objective, safe),
        dimacs=(*errors, difference / size, difference / size),
        program=program,
        multipliers=_counted(program, dual, alpha),
        rows=rows,
    )


@dataclass(frozen=True)
class _FamilyDual:
    """Σα, its safe part, and by how much α misses its box and the cone."""

    value: float
    bound: float
    share: float
    outside: float
    smallest: float
    source: str


_NO_FAMILY_DUAL = _FamilyDual(-np.inf, -np.inf, 0.0, np.inf, -np.inf, "no multipliers")
_NOT_ROWS = replace(_NO_FAMILY_DUAL, source="multipliers of what are not rows of the family")


def _are_rows(program: Program, rows: Rows) -> bool:
    """Whether the multipliers belong to rows of the family, each named once."""
    family = program.family
    if family is None or not family.has(rows).all():
        return False
    pairs = np.c_[rows.target, rows.impostor]
    return len(np.unique(pairs, axis=0)) == len(pairs)


def _counted(program: Program, dual: _FamilyDual, alpha: Array | None) -> Array | None:
    """The multipliers that give the bound, in the signs of the maximisation."""
    if alpha is None or dual.bound == -np.inf:
        return None
    return np.asarray(-dual.share * np.clip(alpha, 0.0, _weight(program)))


def _family_dual(program: Program, rows: Rows, alpha: Array) -> _FamilyDual:
    inside = np.clip(alpha, 0.0, _weight(program))
    outside = float(np.abs(alpha - inside).max(initial=0.0))
    images = program.comparison_images(rows, inside)
    costs = [block.cost.dense() for block in program.blocks]
    sums = [cost + image for cost, image in zip(costs, images, strict=True)]
    smallest = min(b.smallest_on_face(s) for b, s in zip(program.blocks, sums, strict=True))
    value = float(inside.sum())
    if smallest >= 0:
        return _FamilyDual(value, value, 1.0, outside, smallest, "feasible dual")
    share = min(_largest_share(c, a) for c, a in zip(costs, images, strict=True))
    bound = share * value if share >= 0 else -np.inf
    return _FamilyDual(value, bound, max(share, 0.0), outside, smallest, "scaled dual")


def _largest_share(cost: Array, image: Array) -> float:
    """The largest θ ∈ [0, 1] with C + θA ⪰ 0, less what rounding can hide; −1 if C is not ⪰ 0."""
    weakest = float(scipy.linalg.eigvalsh(cost, subset_by_index=[0, 0])[0])
    if weakest <= 1e-12 * float(np.linalg.norm(cost)):
        return 0.0 if weakest >= 0 else -1.0
    smallest = float(scipy.linalg.eigvalsh(image, cost, subset_by_index=[0, 0])[0])
    smallest -= 10 * _EPS * float(np.linalg.norm(image)) / weakest
    return 1.0 if smallest >= -1 else -1.0 / smallest


def _weight(program: Program) -> float:
    return 0.0 if program.family is None else program.family.weight


# -- primal ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Primal:
    objective: float
    residual: float
    smallest: float
    largest: float
    row_norm: float
    matrices: list[Matrix]
    q: Array
    x: Array


def _primal_side(program: Program, matrices: list[Matrix], x: Array) -> _Primal:
    symmetric = [_symmetric(m) for m in matrices]
    if not all(is_finite(m) for m in [*symmetric, x]):
        unknown = np.full(program.rows_q.shape[1], np.nan)
        return _Primal(np.nan, np.inf, -np.inf, np.inf, np.inf, matrices, unknown, x)
    spectra = [_extremes(m) for m in symmetric]
    q = program.measure(symmetric)
    violations = program.violations(q, x) / program.row_norms
    scale = float((np.abs(program.rhs) / program.row_norms).max(initial=0.0))
    scale = scale or _activity(program, q, x)
    residual = _ratio(violations.max(initial=0.0), scale)
    bounded = ~program.free_x
    residual = max(residual, _ratio(np.maximum(-x[bounded], 0.0).max(initial=0.0), scale))
    for block, matrix, s in zip(program.blocks, matrices, symmetric, strict=True):
        if isinstance(s, Gram):
            # Symmetric by its definition; lengths that rounding blurs are no better than that.
            image = s @ block.null_basis
            residual = max(residual, s.accuracy())
            residual = max(residual, _ratio(float(np.linalg.norm(image)), s.largest_eigenvalue))
            continue
        norm = float(np.linalg.norm(s))
        residual = max(residual, _ratio(float(np.linalg.norm(matrix - s)), norm))
        residual = max(residual, _ratio(float(np.linalg.norm(s @ block.null_basis)), norm))
        residual = max(residual, _beyond_rank(block, s))
    # The block whose negative eigenvalue weighs most against its own largest.
    smallest, largest = min(spectra, key=lambda pair: pair[0] / (pair[1] or 1.0))
    return _Primal(
        program.objective(symmetric, x),
        residual,
        smallest,
        largest,
        float(np.linalg.norm(program.violations(q, x))),
        symmetric,
        q,
        x,
    )


def _beyond_rank(block: Block, matrix: Array) -> float:
    """The largest eigenvalue that a limit on the rank has no room for, relative to the largest."""
    if block.max_rank is None or block.max_rank >= block.size:
        return 0.0
    values = np.sort(np.abs(scipy.linalg.eigvalsh(matrix)))[::-1]
    return _ratio(float(values[block.max_rank]), float(values[0]))


def _symmetric(matrix: Matrix) -> Matrix:
    return matrix if isinstance(matrix, Gram) else (matrix + matrix.T) / 2


def _extremes(matrix: Matrix) -> tuple[float, float]:
    """(smallest eigenvalue, largest magnitude of any)."""
    if isinstance(matrix, Gram):
        return matrix.smallest_eigenvalue(), matrix.largest_eigenvalue
    spectrum = scipy.linalg.eigvalsh(matrix)
    return float(spectrum[0]), float(np.abs(spectrum).max())


def _activity(program: Program, q: Array, x: Array) -> float:
    """The largest magnitude of what is summed in a row: the scale of rows whose rhs is zero."""
    sums = abs(program.rows_q) @ np.abs(q) + abs(program.rows_x) @ np.abs(x)
    return float(np.max(sums / program.row_norms, initial=0.0))


# -- dual -----------------------------------------------------------------------------------


def _dual_side(program: Program, w: Array | None) -> tuple[SafeBound, float, float]:
    """(safe bound, dual residual, smallest slack eigenvalue) for the maximisation."""
    if w is None or not np.isfinite(w).all():
        return SafeBound(np.inf, "no multipliers"), np.inf, -np.inf
    eigenvalues = _slack_eigenvalues(program, w)
    smallest = min(eigenvalues)
    violation = max(0.0, -smallest, _linear_violation(program, w))
    costs = [block.cost.magnitude() for block in program.blocks]
    linear = np.concatenate([program.cost_x, program.cost_q])
    scale = max(*costs, float(np.abs(linear).max(initial=0.0)))
    bound = safe_bound(program, w, eigenvalues)
    return bound, _ratio(violation, scale or 1.0), smallest


def _slack_eigenvalues(program: Program, w: Array) -> list[float]:
    weights = program.split(program.measurement_weights(w))
    pairs = zip(program.blocks, weights, strict=True)
    return [block.smallest_of_slack(u, program.sign) for block, u in pairs]


def _linear_violation(program: Program, w: Array) -> float:
    """By how much w leaves its box or the conditions of the auxiliary variables."""
    lo, hi = program.multiplier_box
    return max(
        float(np.maximum(lo - w, w - hi).max(initial=0.0)),
        -_smallest_reduced_cost(program, w),
        _equality_violation(program, w),
    )


def _smallest_reduced_cost(program: Program, w: Array) -> float:
    """min r_j over nonnegative, uncurved x_j; inf if there is none."""
    plain = ~program.free_x & (program.quadratic_x == 0)
    return float(program.reduced_costs(w)[plain].min(initial=np.inf))


def _equality_violation(program: Program, w: Array) -> float:
    """max |r_j| over free, unpenalised x_j, and the excess ‖r_G‖ − ρ_G of norm groups."""
    r = program.reduced_costs(w)
    plain = program.free_x & (program.quadratic_x == 0)
    excess = 0.0
    for penalty in program.norms:
        group = list(penalty.group)
        plain[group] = False
        excess = max(excess, float(np.linalg.norm(r[group])) - penalty.weight)
    return max(excess, float(np.abs(r[plain]).max(initial=0.0)))


def safe_bound(program: Program, w: Array, eigenvalues: list[float] | None = None) -> SafeBound:
    """The best of the module's five bounds for multipliers w of the maximisation.

    `eigenvalues` are the smallest ones of its dual slacks, if they are known already.
    """
    lo, hi = program.multiplier_box
    given, w = w, np.clip(_onto_free_equations(program, w), lo, hi)
    sums = abs(program.rows_x).T @ np.abs(w) + np.abs(program.cost_x)
    if _equality_violation(program, w) > _ROUNDING * float(sums[program.free_x].max(initial=0.0)):
        return SafeBound(np.inf, "the multipliers violate an equation of a free variable")
    if eigenvalues is None or not np.array_equal(given, w):
        eigenvalues = _slack_eigenvalues(program, w)
    if min(eigenvalues) == -np.inf:
        return SafeBound(np.inf, "the multipliers overflow")
    lack = max(0.0, -_smallest_reduced_cost(program, w))
    if program.has_log_det:
        shrunk = _by_shrinking(program, w)
        if np.isfinite(shrunk.value):
            return shrunk
        moved = _by_direction(program, w, max(lack, -min(eigenvalues), 0.0))
        return moved if np.isfinite(moved.value) else shrunk
    if min(eigenvalues) >= 0 and lack == 0:
        candidates = [SafeBound(program.dual_value(w), "feasible dual", w)]
    else:
        candidates = [
            _by_trace(program, w, eigenvalues, lack),
            _by_direction(program, w, max(lack, -min(eigenvalues))),
            _by_anchor(program, w, eigenvalues),
        ]
    candidates.append(_by_scaling(program, w, eigenvalues))
    return min(candidates, key=lambda bound: bound.value)


def _onto_free_equations(program: Program, w: Array) -> Array:
    """The nearest multipliers with r_j = 0 for the free, unpenalised variables."""
    grouped = {j for penalty in program.norms for j in penalty.group}
    free = program.free_x & (program.quadratic_x == 0)
    free[list(grouped)] = False
    if not free.any():
        return w
    equations = sp.csr_array(program.rows_x.T)[np.flatnonzero(free)]
    residual = program.reduced_costs(w)[free]
    step = scipy.sparse.linalg.lsqr(equations, residual, atol=1e-15, btol=1e-15)[0]
    return np.asarray(w - step)


_NO_BOUND = SafeBound(np.inf, "the dual is infeasible and the program has no repair")


def _by_trace(program: Program, w: Array, eigenvalues: list[float], lack: float) -> SafeBound:
    if program.safe.trace is None or lack > 0:
        return _NO_BOUND
    terms = zip(eigenvalues, program.safe.trace, strict=True)
    extra = sum(max(0.0, -value) * trace for value, trace in terms if value < 0)
    return SafeBound(program.dual_value(w) + extra, "trace bound", w)


def _by_direction(program: Program, w: Array, lack: float) -> SafeBound:
    strength = direction_strength(program)
    if strength is None or program.repair_direction is None:
        return _NO_BOUND
    moved = w + (lack / strength) * program.repair_direction
    if _linear_violation(program, moved) > 0:
        return _NO_BOUND
    return SafeBound(program.dual_value(moved), "repair direction", moved)


def direction_strength(program: Program) -> float | None:
    """κ > 0 with Aᵀ(w₀) ⪰ κI on every face; None if w₀ has no such strength."""
    direction = program.repair_direction
    if direction is None or not np.isfinite(direction).all():
        return None
    weights = program.split(np.asarray(program.rows_q.T @ direction))
    pairs = list(zip(program.blocks, weights, strict=True))
    kappa = min(block.smallest_of_slack(u, 0.0) for block, u in pairs)
    # Rounding in κ is far below the safety of this one percent.
    return 0.99 * kappa if kappa > 1e-8 * max(_size_of_image(*pair) for pair in pairs) else None


def _size_of_image(block: Block, u: Array) -> float:
    """‖Vᵀdiag(u)V‖, Frobenius."""
    image = block.adjoint(u)
    return float(np.linalg.norm(image if isinstance(image, np.ndarray) else image.data))


def _by_anchor(program: Program, w: Array, eigenvalues: list[float]) -> SafeBound:
    if program.safe.anchor is None:
        return _NO_BOUND
    anchor = program.sign * program.safe.anchor
    anchored = _slack_eigenvalues(program, anchor)
    if min(anchored) < 0 or _linear_violation(program, anchor) > 0:
        return _NO_BOUND
    theta = max(
        -value / (better - value) if value < 0 else 0.0
        for value, better in zip(eigenvalues, anchored, strict=True)
    )
    # A convex combination of two points of the box leaves it by rounding only.
    blend = np.clip((1 - theta) * w + theta * anchor, *program.multiplier_box)
    if _linear_violation(program, blend) > 0:
        return _NO_BOUND
    return SafeBound(program.dual_value(blend), "anchor", blend)


def _by_scaling(program: Program, w: Array, eigenvalues: list[float]) -> SafeBound:
    """The best s·bᵀw with s·Aᵀ(w) ⪰ C on the faces and s·w in its box."""
    simple = program.is_linear and not program.cost_q.any() and np.all(program.free_x == 0)
    if not simple or not program.rhs.any():
        return _NO_BOUND
    low, high = _scaling_interval(program, w, eigenvalues)
    value = float(program.rhs @ w)
    s = low if value >= 0 else high
    if not low <= high or not np.isfinite(s):
        return _NO_BOUND
    scaled = np.clip(s * w, *program.multiplier_box)
    if _linear_violation(program, scaled) > 0:
        return _NO_BOUND
    return SafeBound(max(s * value, program.dual_value(scaled)), "scaled dual", scaled)


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
    # Rounding of the sums A_xᵀw is paid for as well.
    s = s if s == 1 else s * (1 - 2 * _EPS * (program.n_rows + 2))
    shrunk = s * w
    lo, hi = program.multiplier_box
    outside = (shrunk < lo).any() or (shrunk > hi).any() or (s < 1 and program.free_x.any())
    if outside or _smallest_reduced_cost(program, shrunk) < 0:
        return _NO_BOUND
    pairs = zip(program.blocks, _slack_eigenvalues(program, shrunk), strict=True)
    if any(value < 0 for block, value in pairs if not block.log_det):
        return _NO_BOUND
    value = program.dual_value(shrunk)
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
    for block, u, smallest in zip(program.blocks, weights, eigenvalues, strict=True):
        part = _pencil_interval(block, program.sign, u, smallest)
        low, high = max(low, part[0]), min(high, part[1])
    return low, high


def _pencil_interval(
    block: Block, sign: float, u: Array, slack_eigenvalue: float
) -> tuple[float, float]:
    """{s ≥ 0 : s·Vᵀdiag(u)V ⪰ C} on the face, when C is definite there; (inf, 0) otherwise."""
    if np.isinf(slack_eigenvalue):
        return (0.0, np.inf) if slack_eigenvalue > 0 else (np.inf, 0.0)
    if block.cost.is_identity:
        c = sign * block.cost.identity
        size = _size_of_image(block, u) + abs(c) * np.sqrt(block.size)
        smallest = slack_eigenvalue + c - 10 * _EPS * size  # S = Vᵀdiag(u)V − cI
    elif block.is_large_graph:
        return np.inf, 0.0  # costs of low rank are rarely definite, and n × n matrices are avoided
    else:
        c, smallest = _smallest_of_pencil(block, sign, u)
    # `smallest` is short of its true value by what rounding can hide: s = c/λ magnifies it.
    if c > 0:
        return (c / smallest, np.inf) if smallest > 0 else (np.inf, 0.0)
    if c < 0:
        return 0.0, c / smallest if smallest < 0 else np.inf
    return np.inf, 0.0


def _smallest_of_pencil(block: Block, sign: float, u: Array) -> tuple[float, float]:
    """(±1, smallest eigenvalue of the pencil (Vᵀdiag(u)V, ±C) less rounding); (0, 0) if C is
    indefinite on the face."""
    image = block.face.T @ (block.adjoint(u) @ block.face)
    cost = sign * block.face.T @ block.cost.dense() @ block.face
    side = 1.0 if float(np.trace(cost)) > 0 else -1.0
    weakest = float(scipy.linalg.eigvalsh(side * cost, subset_by_index=[0, 0])[0])
    if weakest <= 1e-12 * float(np.linalg.norm(cost)):
        return 0.0, 0.0
    smallest = float(scipy.linalg.eigvalsh(image, side * cost, subset_by_index=[0, 0])[0])
    return side, smallest - 10 * _EPS * float(np.linalg.norm(image)) / weakest


# -- rays -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ray:
    """A proof that there is no solution, or no finite optimum.

    infeasible: multipliers w with Aᵀ(w) ⪰ 0 on the face, right signs and bᵀw < 0 (negated for a
    minimisation); normalised to |bᵀw| = 1.
    unbounded: a direction (M, x) in the cone that leaves every row in place and improves the
    objective; normalised to an improvement of 1.

    `violation` is what is left of an inexact ray, relative to its size; `proof` says why it
    counts all the same, or is empty.
    """

    kind: Literal["infeasible", "unbounded"]
    violation: float
    proof: str
    program: Program = field(repr=False)
    multipliers: Array | None = field(default=None, repr=False)
    matrices: tuple[Matrix, ...] | None = field(default=None, repr=False)
    x: Array | None = field(default=None, repr=False)

    def passes(self, tol: float) -> bool:
        """True if the ray is exact, repaired, or inexact by a relative `tol` at most."""
        return bool(self.proof) or self.violation <= tol

    def verify(self) -> Verification:
        """Make an infeasibility ray a theorem about the floating-point data."""
        if self.multipliers is None:
            return Verification(None, "only rays of infeasibility are verified")
        return verify_multiplier_ray(self.program, self.program.sign * self.multipliers)


def certify_infeasible(program: Program, multipliers: ArrayLike) -> Ray:
    """Judge multipliers as a proof that no (M, x) meets the rows.

    >>> from sdpkit import MVU
    >>> import numpy as np
    >>> triangle = np.array([[0, 1, 1], [1, 0, 3], [1, 3, 0]])      # 1 + 1 < 3
    >>> program = MVU(graph=triangle).program()
    >>> certify_infeasible(program, [2.0, 2.0, -1.0]).passes(1e-9)
    True
    """
    w = program.sign * _vector(multipliers, program.n_rows, "multipliers")
    refused = Ray("infeasible", np.inf, "", program)
    w = np.clip(w, *program.sign_box)
    doubt = _EPS * (program.n_rows + 4) * float(np.abs(program.rhs) @ np.abs(w))
    if not np.isfinite(w).all() or not program.rhs @ w < -doubt:
        return refused
    w = w / -(program.rhs @ w)
    weights = program.split(np.asarray(program.rows_q.T @ w))
    lacks = [_lack(block, u) for block, u in zip(program.blocks, weights, strict=True)]
    r = np.asarray(program.rows_x.T @ w)
    lack_x = max(
        float(np.maximum(-r, 0.0)[~program.free_x].max(initial=0.0)),
        float(np.abs(r)[program.free_x].max(initial=0.0)),
    )
    sizes = [_size_of_image(block, u) for block, u in zip(program.blocks, weights, strict=True)]
    size = max(*sizes, float(np.abs(r).max(initial=0.0)))
    # bᵀw = −1 and a lack of λ exclude points of trace below 1/λ only: that must be far beyond
    # the size that solutions of these rows would have.
    natural = float((np.abs(program.rhs) / program.row_norms).max())
    violation = max(_ratio(max(*lacks, lack_x), size), 100 * max(*lacks, lack_x) * natural)
    proof = _ray_proof(program, w, lacks, lack_x)
    if not proof and program.safe.trace is not None:
        # The feasible set is bounded, so that a ray which is a proof can be shown to be one.
        violation = np.inf
    return Ray("infeasible", violation, proof, program, multipliers=program.sign * w)


def _lack(block: Block, u: Array) -> float:
    """What Vᵀdiag(u)V lacks to be positive semidefinite on the face beyond doubt of rounding."""
    if block.is_large_graph:
        return max(0.0, -block.smallest_of_slack(u, 0.0))
    # Null directions beyond the constant one were computed, and a face that is a little off makes
    # lengths of real points contradict each other by as much.
    face = _FACE if block.null_basis.shape[1] > 1 else 0.0
    rounding = (10 * block.size * _EPS + face) * _size_of_image(block, u)
    return max(0.0, rounding - block.smallest_of_slack(u, 0.0))


def _ray_proof(program: Program, w: Array, lacks: list[float], lack_x: float) -> str:
    """Why bᵀw = −1 still contradicts every feasible point, or the empty string."""
    if max(*lacks, lack_x) == 0:
        return "exact ray"
    if lack_x == 0 and program.safe.trace is not None:
        terms = zip(lacks, program.safe.trace, strict=True)
        if sum(lack * trace for lack, trace in terms if lack) < 1 - 1e-6:
            return "its violation is paid for by the trace bound"
    strength = direction_strength(program)
    if strength is None or program.repair_direction is None:
        return ""
    moved = w + (max(*lacks, lack_x) / strength) * program.repair_direction
    r = program.rows_x.T @ moved
    signs = np.all(program.relations * moved <= 0) and np.all(r >= 0)
    if signs and program.rhs @ moved < 0 and not program.free_x.any():
        return "its violation is paid for by the repair direction"
    return ""


def certify_unbounded(program: Program, matrices: Sequence[Matrix], x: ArrayLike) -> Ray:
    """Judge a direction as a proof that the objective improves without end."""
    blocks, aux = _matrices(program, matrices), _vector(x, program.n_auxiliary, "x")
    refused = Ray("unbounded", np.inf, "", program)
    if not all(is_finite(m) for m in [*blocks, aux]):
        return refused
    aux = np.where(program.free_x, aux, np.maximum(aux, 0.0))
    aux = np.where(program.quadratic_x > 0, 0.0, aux)  # a curved variable cannot go on for ever
    blocks = [project_onto_cone(b, m) for b, m in zip(program.blocks, blocks, strict=True)]
    blocks, aux = _without_dust(blocks, aux)
    linear = program
    if program.has_log_det:
        linear = replace(program, blocks=tuple(replace(b, log_det=0.0) for b in program.blocks))
    gain = program.sign * (linear.objective(blocks, aux) - program.offset)
    if gain >= 0:
        # A log det grows without end along any direction of the cone, if slowly.
        pairs = zip(program.blocks, blocks, strict=True)
        gain += sum(b.log_det * trace(m) for b, m in pairs if b.log_det)
    if not gain > 0:
        return refused
    blocks, aux = [scaled(m, 1 / gain) for m in blocks], aux / gain
    q = program.measure(blocks)
    violated = program.excess(program.row_values(q, aux))
    reach = _reach(program, blocks, aux)
    violation = max((_ratio(v, r) for v, r in zip(violated, reach, strict=True)), default=0.0)
    proof = "exact ray" if violation == 0 else ""
    return Ray("unbounded", violation, proof, program, matrices=tuple(blocks), x=aux)


def _without_dust(matrices: list[Matrix], x: Array) -> tuple[list[Matrix], Array]:
    """A ray without the parts that are nothing but a solver's rounding."""
    norms = [_norm(m) for m in matrices]
    dust = 1e-6 * max(*norms, float(np.abs(x).max(initial=0.0)))
    clean = [m if norm > dust else scaled(m, 0.0) for m, norm in zip(matrices, norms, strict=True)]
    return clean, np.where(np.abs(x) > dust, x, 0.0)


def _norm(matrix: Matrix) -> float:
    return matrix.largest_eigenvalue if isinstance(matrix, Gram) else float(np.linalg.norm(matrix))


def _reach(program: Program, matrices: list[Matrix], x: Array) -> Array:
    """(m,) the largest value that each row could take on a ray of this size, block by block."""
    lengths = [
        _squared_lengths(block) * _norm(matrix)
        for block, matrix in zip(program.blocks, matrices, strict=True)
    ]
    return np.asarray(
        abs(program.rows_q) @ np.concatenate(lengths) + abs(program.rows_x) @ np.abs(x)
    )


def _squared_lengths(block: Block) -> Array:
    """(p,) ‖v_p‖²."""
    if block.features is None:
        return np.asarray(block.incidence.multiply(block.incidence).sum(axis=1)).ravel()
    return block.measure(np.eye(block.size))


def project_onto_cone(block: Block, matrix: Matrix) -> Matrix:
    """The nearest matrix that is positive semidefinite and vanishes on the null directions.

    A `Gram` is what it is: the certificate says how far it is from the cone.
    """
    if isinstance(matrix, Gram):
        return matrix
    centred = block.project_out_null((matrix + matrix.T) / 2)
    values, vectors = scipy.linalg.eigh(centred)
    if values[0] >= 0:
        return centred
    root = vectors[:, values > 0] * np.sqrt(values[values > 0])
    return block.project_out_null(root @ root.T)


# -- small print ----------------------------------------------------------------------------


def _gap(program: Program, objective: float, bound: float) -> float:
    if not np.isfinite(objective) or not np.isfinite(bound):
        return np.inf
    scale = max(abs(objective), abs(bound), program.safe.value_scale)
    if program.has_log_det:
        scale = sum(block.log_det for block in program.blocks)
    return _ratio(abs(bound - objective), scale)


def _dimacs(
    program: Program, primal: _Primal, w: Array | None, dual_objective: float, smallest: float
) -> tuple[float, float, float, float, float, float]:
    """The errors of the 7th DIMACS challenge, with Z recomputed as the dual slack; of programs with
    penalties or a log det, which the challenge did not have, the sixth is the fifth again."""
    b = 1.0 + float(np.abs(program.rhs).max(initial=0.0))
    c = 1.0 + max(block.cost.magnitude() for block in program.blocks)
    err1, err2 = primal.row_norm / b, max(0.0, -primal.smallest) / b
    if w is None or not np.isfinite(w).all() or not np.isfinite(primal.objective):
        return err1, err2, np.inf, np.inf, np.inf, np.inf
    difference = program.sign * (dual_objective - primal.objective)
    size = 1.0 + abs(dual_objective) + abs(primal.objective)
    err3, err4 = max(0.0, _linear_violation(program, w)) / c, max(0.0, -smallest) / c
    # <S, M> = uᵀq − <C, M>, without the matrix S.
    inner = float(program.measurement_weights(w) @ primal.q)
    for block, matrix in zip(program.blocks, primal.matrices, strict=True):
        inner -= program.sign * block.cost.inner(matrix)
    inner += float(program.reduced_costs(w) @ primal.x)
    if not program.is_linear:
        inner = difference  # complementarity in the challenge's sense is that of linear programs
    return err1, err2, err3, err4, difference / size, inner / size


def _ratio(value: float, scale: float) -> float:
    """value/scale with 0/0 = 0."""
    if value == 0:
        return 0.0
    return float(value / scale) if scale > 0 else np.inf


def _matrices(program: Program, matrices: Matrix | Sequence[Matrix]) -> list[Matrix]:
    if isinstance(matrices, Gram) or (isinstance(matrices, np.ndarray) and matrices.ndim == 2):
        matrices = [matrices]
    given = [m if isinstance(m, Gram) else np.asarray(m, dtype=np.float64) for m in matrices]
    if len(given) != len(program.blocks):
        raise InputError(f"{len(given)} matrices for {len(program.blocks)} blocks")
    for block, matrix in zip(program.blocks, given, strict=True):
        if matrix.shape != (block.size, block.size):
            raise InputError(
                f"the matrix of block {block.name!r} has shape {matrix.shape}, "
                f"expected ({block.size}, {block.size})"
            )
    return given


def _vector(values: ArrayLike | None, size: int, what: str, default: float | None = None) -> Array:
    out = np.full(size, default) if values is None else np.asarray(values, dtype=np.float64)
    if out.shape != (size,):
        raise InputError(f"{what} has shape {out.shape}, expected ({size},)")
    return out
