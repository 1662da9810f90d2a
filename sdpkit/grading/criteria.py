"""What counts: functions of a `Submitted` that return a `Finding`.

    feasible           the submitted point meets cone and constraints
    near_optimal       its objective is close to the certified bound of the optimum
    valid_bound        the submitted multipliers prove a bound
    tight_bound        that bound is close to the optimum
    proves_infeasible  the multipliers are a ray: no point meets the constraints
    proves_unbounded   the matrix is a direction along which the objective improves without end

Write further ones in the same form; `uses` states the arrays that they judge. A sentence says what
is wrong and how one can see it. It never states the optimum.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from sdpkit.certificate.bounds import linear_violation, slack_eigenvalues
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.grading.exercise import Finding, Submitted
from sdpkit.program.form import Program
from sdpkit.typing import Array

# An answer within so many tolerances has the right idea and earns half.
_NEARLY = 100.0
# A multiple of the right answer is recognised where all ratios agree to this.
_SAME = 1e-3
# A ray counts where it holds to rounding.
_RAY = 1e-9

Criterion = Callable[[Submitted], Finding]


def uses(*names: str) -> Callable[[Criterion], Criterion]:
    """State the arrays that a criterion judges; without them it gives no points."""

    def named(criterion: Criterion) -> Criterion:
        criterion.needs = names  # type: ignore[attr-defined]
        return criterion

    return named


# -- points -------------------------------------------------------------------------------------


def feasible(case: Submitted) -> Finding:
    """The point lies in the cone and meets the constraints."""
    matrices, x = case.point
    outside = _outside_the_cones(case)
    if outside is not None:
        return outside
    return _constraints(case, [np.asarray(m) for m in matrices], x)


def near_optimal(case: Submitted) -> Finding:
    """The objective of a feasible point is near the bound that no feasible point beats."""
    if feasible(case).share < 1.0:
        return Finding(0.0, "This counts as soon as your matrix is feasible.")
    matrices, x = case.point
    program, reference = case.program, case.exercise.reference
    value = program.objective(list(matrices), x)
    unit = max(abs(reference.bound), abs(value), program.value_floor)
    gap = program.sign * (reference.bound - value) / unit
    return _by_gap(
        gap,
        case.tol,
        "Your point is feasible, and no feasible point has a better objective (to the tolerance).",
        "Your point is feasible, and its objective is within {gap} of the best possible one. What "
        "can still move?",
        "Your point is feasible, but its objective is more than {gap} away from the best possible "
        "one. Which constraints have room left?",
    )


def _outside_the_cones(case: Submitted) -> Finding | None:
    """What keeps a matrix from being the Gram matrix of centred points, or None."""
    matrices, _ = case.point
    # Of all blocks together: the slack of a matrix inequality may be zero up to rounding.
    size = max(float(np.abs(matrix).max(initial=0.0)) for matrix in matrices) or 1.0
    for block, matrix in zip(case.program.blocks, map(np.asarray, matrices), strict=True):
        outside = _outside_the_cone(matrix, size, case.tol)
        if outside is not None:
            return outside
        if np.abs(matrix @ block.null).max(initial=0.0) > case.tol * size * len(matrix):
            return Finding(
                0.0,
                "The rows of the matrix do not sum to zero: the points are not centred. Subtract "
                "their mean, or multiply the matrix by C = I − 11ᵀ/n from both sides.",
            )
    return None


def _outside_the_cone(matrix: Array, size: float, tol: float) -> Finding | None:
    """What keeps a matrix from being symmetric and positive semidefinite, relative to `size`."""
    differences = np.abs(matrix - matrix.T)
    if differences.max(initial=0.0) > 1e-6 * size:
        i, j = np.unravel_index(int(differences.argmax()), differences.shape)
        triangle = not np.tril(matrix, -1).any() or not np.triu(matrix, 1).any()
        advice = " Only one triangle is filled: add the other." if triangle else ""
        return Finding(
            0.0,
            f"The matrix is not symmetric: the entries ({i}, {j}) and ({j}, {i}) are "
            f"{matrix[i, j]:.4g} and {matrix[j, i]:.4g}.{advice}",
        )
    least = float(np.linalg.eigvalsh(matrix)[0])
    if -tol * size > least >= -_NEARLY * tol * size:
        return Finding(
            0.5,
            f"The matrix is nearly positive semidefinite: its smallest eigenvalue is {least:.3g}. "
            "Compute with more digits.",
        )
    if least < -tol * size:
        return Finding(
            0.0,
            f"The matrix is not positive semidefinite: its smallest eigenvalue is {least:.3g}. For "
            "the eigenvector v of it, vᵀMv is negative, which no squared length can be.",
        )
    return None


def _constraints(case: Submitted, matrices: list[Array], x: Array) -> Finding:
    program = case.program
    values = program.row_values(program.measure(matrices), x)
    typical = float(np.abs(program.rhs).max(initial=0.0)) or 1.0
    scale = np.maximum(np.abs(program.rhs), 0.1 * typical)
    violations = program.excess(values - program.rhs) / scale
    wrong_x = x[~program.free_x]
    if wrong_x.size and wrong_x.min() < -case.tol:
        return Finding(0.0, f"A variable that must not be negative is {wrong_x.min():.3g}.")
    worst = float(violations.max(initial=0.0))
    if worst <= case.tol:
        return Finding(1.0, "Your point is feasible.")
    known = _known_mistake(program, values)
    if known:
        return Finding(0.0, known)
    e = int(violations.argmax())
    sentence = (
        f"Constraint {e + 1} of {program.n_rows} is violated: {_left_side(program, e)} is "
        f"{values[e]:.4g}, and {_required(program, e)} is required."
    )
    if worst <= _NEARLY * case.tol:
        return Finding(0.5, f"{sentence} That is close: compute with more digits.")
    return Finding(0.0, sentence)


def _known_mistake(program: Program, values: Array) -> str:
    """The sentence of a mistake that explains all constraints at once, or nothing."""
    equations = (program.relations == 0) & (program.rhs > 0)
    got, wanted = values[equations], program.rhs[equations]
    if got.size < 2 or (got <= 0).any():
        return ""
    if np.ptp(wanted) > _SAME * wanted.max() and np.allclose(got**2, wanted, rtol=_SAME):
        return (
            "All constraints hold for lengths, but they are about squared lengths: the values that "
            "you met are the square roots of the required ones."
        )
    if np.ptp(wanted) > _SAME * wanted.max() and np.allclose(got, wanted**2, rtol=_SAME):
        return "All constraints hold for squares of the required values: a square too many."
    ratios = got / wanted
    if np.allclose(ratios, ratios[0], rtol=_SAME):
        return (
            f"All constraints are off by the same factor, {ratios[0]:.4g}: the shape is right, and "
            "the scale is not."
        )
    return ""


def _left_side(program: Program, e: int) -> str:
    """The left side of a constraint as it was written, where the program knows it."""
    first = 0
    for text, count in program.wording.rows if program.wording is not None else ():
        if first <= e < first + count:
            if count == 1:
                return re.split(" [=≤≥] ", text)[0]
            return _distance(program, e) if text.startswith("‖y_i − y_j‖²") else "its left side"
        first += count
    return "its left side"


def _distance(program: Program, e: int) -> str:
    """The squared distance that a constraint of a graph limits."""
    (p,) = program.rows_q[[e]].indices[:1]
    i, j = program.blocks[0].incidence[[p]].indices[:2]
    return f"the squared distance of the points {min(i, j)} and {max(i, j)}"


def _required(program: Program, e: int) -> str:
    word = {0: "", -1: "at most ", 1: "at least "}[int(program.relations[e])]
    return f"{word}{program.rhs[e]:.4g}"


# -- multipliers --------------------------------------------------------------------------------


@uses("multipliers")
def valid_bound(case: Submitted) -> Finding:
    """The multipliers are feasible for the dual, up to the tolerance."""
    program, w = case.program, case.program.sign * case.multipliers
    lack = _lack(program, w)
    if lack <= case.tol:
        return Finding(1.0, "Your multipliers prove a bound: they are feasible for the dual.")
    if _lack(program, -w) <= case.tol:
        return Finding(
            0.0,
            "The signs are those of the other convention: with all signs changed, your multipliers "
            "would prove a bound. Compare with the dual as the question states it.",
        )
    return Finding(0.0, _what_lacks(program, w))


@uses("multipliers")
def tight_bound(case: Submitted) -> Finding:
    """The bound of feasible multipliers is near the optimum."""
    program, w = case.program, case.program.sign * case.multipliers
    if _lack(program, w) > case.tol:
        return Finding(0.0, "This counts as soon as your multipliers prove a bound.")
    bound = program.sign * program.dual_value(w) + program.offset
    reference = case.exercise.reference
    unit = max(abs(bound), abs(reference.objective), program.value_floor)
    gap = program.sign * (bound - reference.objective) / unit
    return _by_gap(
        gap,
        case.tol,
        "No multipliers prove a better bound: value and bound meet.",
        "Your bound is valid and within {gap} of the best one.",
        "Your bound is valid, but a better one exists: yours is more than {gap} away from the "
        "optimum. At the optimum <S, M> = 0. Which multipliers can change without making S "
        "indefinite?",
    )


def _lack(program: Program, w: Array) -> float:
    """By how much multipliers of the maximisation miss dual feasibility, relative to the costs."""
    size = max([block.cost.magnitude() for block in program.blocks], default=0.0)
    size = max(size, float(np.abs(np.append(program.cost_x, program.cost_q)).max(initial=0.0)))
    return max(0.0, -min(slack_eigenvalues(program, w)), linear_violation(program, w)) / (
        size or 1.0
    )


def _what_lacks(program: Program, w: Array) -> str:
    lo, hi = program.sign_box
    wrong = np.flatnonzero((w < lo - 1e-9) | (w > hi + 1e-9))
    if wrong.size:
        e = int(wrong[0])
        side = "≤" if program.relations[e] == -1 else "≥"
        too_small = bool(w[e] < lo[e]) == (program.sign > 0)
        return (
            f"Multiplier {e + 1} has the wrong sign: the multiplier of this {side} constraint must "
            f"not be {'negative' if too_small else 'positive'}. Multiply the constraint by it and "
            "see which way the inequality points."
        )
    least = min(slack_eigenvalues(program, w))
    if least < 0:
        return (
            f"The dual slack S has the negative eigenvalue {least:.3g}, so these multipliers prove "
            "no bound. Write S down for your multipliers: which direction v has vᵀSv < 0?"
        )
    return (
        "The multipliers miss an equation of the dual that belongs to a variable of the primal. "
        "Write down the coefficient of each variable in the Lagrangian."
    )


# -- rays ---------------------------------------------------------------------------------------


@uses("multipliers")
def proves_infeasible(case: Submitted) -> Finding:
    """The multipliers combine the constraints to a contradiction."""
    program, w = case.program, case.program.sign * case.multipliers
    if not w.any():
        return Finding(0.0, "All multipliers are zero, and 0 ≤ 0 contradicts nothing.")
    if _is_ray(program, w):
        return Finding(
            1.0, "Your multipliers combine the constraints to a contradiction: no point exists."
        )
    if _is_ray(program, -w):
        return Finding(
            0.0,
            "With all signs changed, your multipliers would be a proof. Check the signs of bᵀw and "
            "of Aᵀ(w) in the definition.",
        )
    value = float(program.rhs @ w)
    if value >= 0:
        return Finding(
            0.0, f"The combined right-hand side bᵀw is {value:.3g}; a contradiction needs bᵀw < 0."
        )
    return Finding(
        0.0,
        f"The combined matrix Aᵀ(w) has the negative eigenvalue {_least_image(program, w):.3g}, so "
        "its inner product with a feasible matrix may be negative too, and bᵀw < 0 is no "
        "contradiction.",
    )


def _is_ray(program: Program, w: Array) -> bool:
    """Whether w itself is a ray: the certificate also accepts those that it can repair."""
    size = max(float(np.abs(image).max(initial=0.0)) for image in program.adjoints(w))
    itself = _least_image(program, w) >= -_RAY * size and program.rhs @ w < 0
    return bool(itself) and certify_infeasible(program, program.sign * w).passes(_RAY)


def _least_image(program: Program, w: Array) -> float:
    """The smallest eigenvalue of Aᵀ(w) on the faces."""
    pairs = zip(program.blocks, program.adjoints(w), strict=True)
    return min(block.smallest_on_face(image) for block, image in pairs)


def proves_unbounded(case: Submitted) -> Finding:
    """The matrix is a direction that leaves all constraints in place and improves the objective."""
    matrices, x = case.point
    program = case.program
    outside = _outside_the_cones(case)
    if outside is not None:
        return outside
    change = program.row_values(program.measure(list(matrices)), x)
    size = max(float(np.abs(m).max(initial=0.0)) for m in matrices)
    if not size:
        return Finding(0.0, "The direction is zero and leads nowhere.")
    moved = program.excess(change)
    if moved.max(initial=0.0) > _RAY * size:
        e = int(moved.argmax())
        return Finding(
            0.0,
            f"The direction changes constraint {e + 1} by {change[e]:.3g}: far along it, the point "
            "is no longer feasible. A direction must leave every constraint in place.",
        )
    gain = program.sign * (program.objective(list(matrices), x) - program.offset)
    if gain <= _RAY * size:
        return Finding(0.0, "The direction does not improve the objective.")
    if certify_unbounded(program, list(matrices), x).passes(_RAY):
        return Finding(1.0, "From any feasible point the objective improves without end.")
    return Finding(0.0, "The direction holds only to a few digits: state it exactly.")


# -- shares -------------------------------------------------------------------------------------


def _by_gap(gap: float, tol: float, right: str, near: str, far: str) -> Finding:
    """Full points within the tolerance, half of them near it; the sentences name a round gap."""
    if gap <= tol:
        return Finding(1.0, right)
    if gap <= _NEARLY * tol:
        return Finding(0.5, near.format(gap=_percent(gap, up=True)))
    return Finding(0.0, far.format(gap=_percent(gap, up=False)))


def _percent(gap: float, up: bool) -> str:
    """A round share near a gap, which does not give the optimum away."""
    steps = np.array([0.001, 0.01, 0.1, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0])
    at = np.searchsorted(steps, 100 * gap) if up else np.searchsorted(steps, 100 * gap) - 1
    return f"{steps[int(np.clip(at, 0, steps.size - 1))]:g} %"


CRITERIA: dict[str, Any] = {
    f.__name__: f
    for f in (feasible, near_optimal, valid_bound, tight_bound, proves_infeasible, proves_unbounded)
}

__all__ = [*CRITERIA, "CRITERIA", "uses"]
