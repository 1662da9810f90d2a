"""Random infeasible cvxpy models with one conflict that is planted and is the only one.

Without any one of the planted constraints the others have a common point, a witness. Every further
constraint holds at all of the witnesses, so that each conflict contains all that is planted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

Generator = np.random.Generator


@dataclass(frozen=True, eq=False)
class PlantedConflict:
    """A model, the numbers of the planted constraints, and the entries of those that are vectors
    of which some entries only are planted."""

    model: cp.Problem
    planted: tuple[int, ...]
    entries: dict[int, list[tuple[int, ...]]]


def planted_conflict(seed: int) -> PlantedConflict:
    """The model of a seed."""
    r = np.random.default_rng(seed)
    n = int(r.integers(3, 7))
    x = cp.Variable(n, name="x", nonneg=bool(r.random() < 0.3))
    X = cp.Variable((3, 3), symmetric=True, name="X")
    planted = KINDS[seed % len(KINDS)](r, x, X)
    witnesses = [_point(planted[:k] + planted[k + 1 :], x, X) for k in range(len(planted))]
    bystanders = [_bystander(r, x, X, witnesses) for _ in range(int(r.integers(3, 8)))]
    constraints = [*planted, *bystanders]
    order = r.permutation(len(constraints)).tolist()
    places = sorted(order.index(k) for k in range(len(planted)))
    entries: dict[int, list[tuple[int, ...]]] = {}
    constraints = [constraints[k] for k in order]
    if r.random() < 0.3 and all(c.size == 1 for c in planted):
        constraints, places, entries = _stacked(r, constraints, places)
    objective = cp.Minimize(cp.sum(x) * int(r.integers(2)))
    return PlantedConflict(cp.Problem(objective, constraints), tuple(places), entries)


def _point(constraints: list[Any], x: cp.Variable, X: cp.Variable) -> tuple[Any, Any]:
    """A point that meets the constraints, near zero."""
    goal = cp.Minimize(cp.sum_squares(x) + cp.sum_squares(cp.vec(X, order="F")))
    model = cp.Problem(goal, constraints)
    model.solve(solver="CLARABEL")
    assert model.status == cp.OPTIMAL
    return x.value.copy(), X.value.copy()


def _bystander(
    r: Generator, x: cp.Variable, X: cp.Variable, witnesses: list[tuple[Any, Any]]
) -> Any:
    """A constraint that all witnesses meet with room to spare."""
    kind, room = r.integers(4), 0.2 + r.random()
    if kind == 0:
        a = r.standard_normal(x.size)
        return a @ x <= max(a @ p for p, _ in witnesses) + room
    if kind == 1:
        centre = r.standard_normal(x.size)
        return cp.norm(x - centre) <= max(np.linalg.norm(p - centre) for p, _ in witnesses) + room
    if kind == 2:
        least = min(float(np.linalg.eigvalsh(P)[0]) for _, P in witnesses)
        return X >> (least - room) * np.eye(3)
    B = r.standard_normal((3, 3))
    B = B + B.T
    return cp.trace(B @ X) >= min(float(np.sum(B * P)) for _, P in witnesses) - room


def _stacked(
    r: Generator, constraints: list[Any], places: list[int]
) -> tuple[list[Any], list[int], dict[int, list[tuple[int, ...]]]]:
    """All linear inequalities among the constraints as one, of which some entries are planted."""
    linear = [
        k
        for k, c in enumerate(constraints)
        if isinstance(c, cp.constraints.Inequality) and c.expr.is_affine() and c.size == 1
    ]
    if len(linear) < 2 or not set(places) <= set(linear):
        return constraints, places, {}
    whole = cp.hstack([constraints[k].expr for k in linear]) <= 0
    others = [c for k, c in enumerate(constraints) if k not in linear]
    return [*others, whole], [len(others)], {len(others): [(linear.index(k),) for k in places]}


# -- what is planted --------------------------------------------------------------------------


def half_spaces(r: Generator, x: cp.Variable, X: cp.Variable) -> list[Any]:
    """Σ λ_i (a_iᵀx − b_i) has the value δ > 0 for every x; on x ≥ 0, at least δ."""
    k = int(r.integers(2, x.size))
    a = r.standard_normal((k, x.size))
    weights = 0.5 + r.random(k)
    a[-1] = -(weights[:-1] @ a[:-1]) / weights[-1]
    point = 1 + r.random(x.size)
    b = a @ point - (0.3 + r.random()) / k / weights
    return [row @ x <= right for row, right in zip(a, b, strict=True)]


def balls(r: Generator, x: cp.Variable, X: cp.Variable) -> list[Any]:
    """Two balls that are apart."""
    centre = 3 + r.random(x.size)
    far = centre + 3 * (1 + r.random()) * np.eye(x.size)[0]
    return [cp.norm(x - centre) <= 1, cp.sum_squares(x - far) <= 1.5]


def circle(r: Generator, x: cp.Variable, X: cp.Variable) -> list[Any]:
    """x_0 < x_1 < … < x_0."""
    k = int(r.integers(2, x.size + 1))
    steps = 0.2 + r.random(k)
    return [x[i] + step <= x[(i + 1) % k] for i, step in enumerate(steps)]


def equations(r: Generator, x: cp.Variable, X: cp.Variable) -> list[Any]:
    """An equation that is off the sum of others."""
    a = r.standard_normal((2, x.size))
    b = a @ (1 + r.random(x.size))
    return [a[0] @ x == b[0], a[1] @ x == b[1], (a[0] + a[1]) @ x == b.sum() + 0.5 + r.random()]


def matrices(r: Generator, x: cp.Variable, X: cp.Variable) -> list[Any]:
    """A trace that is too small for a matrix that is above another."""
    B = r.standard_normal((3, 3))
    B = B @ B.T
    return [X >> B, cp.trace(X) <= np.trace(B) - 0.3 - r.random()]


def minor(r: Generator, x: cp.Variable, X: cp.Variable) -> list[Any]:
    """A 2 × 2 minor that is negative."""
    return [X >> 0, X[0, 0] + X[1, 1] <= 2, X[0, 1] >= 1.2 + r.random()]


def norms(r: Generator, x: cp.Variable, X: cp.Variable) -> list[Any]:
    """A sum of absolute values that is less than the sum."""
    low = 1 + r.random()
    return [cp.norm1(x) <= low, cp.sum(x) >= low + 0.3 + r.random()]


KINDS: list[Callable[[Generator, cp.Variable, cp.Variable], list[Any]]] = [
    half_spaces,
    balls,
    circle,
    equations,
    matrices,
    minor,
    norms,
]
