"""Random cvxpy models with planted optima.

The optimal point is drawn first. Every atom and every constraint takes an affine expression with
a chosen value at that point and adds its (sub)gradient there, constraints with multipliers that
are complementary to their slacks; the linear cost then makes the sum of all gradients vanish, so
that the planted point is optimal and the planted value exact. All constraints hold strictly along
one common direction and all variables are bounded, so that strong duality holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np

Array = np.ndarray
Pull = Callable[[Any], None]


def symmetric(r: np.random.Generator, n: int) -> Array:
    a = r.standard_normal((n, n))
    return (a + a.T) / 2


def definite(r: np.random.Generator, n: int) -> Array:
    a = r.standard_normal((n, n))
    return a @ a.T / n + 0.2 * np.eye(n)


def orthogonal(r: np.random.Generator, n: int) -> Array:
    return np.linalg.qr(r.standard_normal((n, n)))[0]


@dataclass
class Leaf:
    """A variable, its planted value, the common direction inwards, the gradient so far."""

    variable: Any
    value: Array
    inwards: Array
    gradient: Array
    dual: Array  # what the domain adds: complementary to the value


@dataclass
class Planted:
    """A model under construction, then the model with its value."""

    r: np.random.Generator
    leaves: list[Leaf] = field(default_factory=list)
    value: float = 0.0
    objective: Any = 0.0
    constraints: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add_leaf(self, kind: str) -> None:
        r = self.r
        n = int(r.integers(2, 5))
        if kind == "PSD":
            u, k = orthogonal(r, n), int(r.integers(1, n))
            value = u[:, :k] @ np.diag(r.uniform(0.5, 2, k)) @ u[:, :k].T
            dual = u[:, k:] @ np.diag(r.uniform(0.5, 2, n - k)) @ u[:, k:].T
            leaf = Leaf(cp.Variable((n, n), PSD=True), value, definite(r, n), 0 * value, dual)
        elif kind == "symmetric":
            value, inwards = symmetric(r, n), symmetric(r, n)
            leaf = Leaf(cp.Variable((n, n), symmetric=True), value, inwards, 0 * value, 0 * value)
        elif kind in ("nonneg", "nonpos"):
            sign = 1.0 if kind == "nonneg" else -1.0
            zero = r.random(n) < 0.5
            value = np.where(zero, 0.0, sign * r.uniform(0.5, 2, n))
            dual = np.where(zero, sign * r.uniform(0.5, 2, n), 0.0)
            inwards = sign * r.uniform(0.5, 1, n)
            leaf = Leaf(cp.Variable(n, **{kind: True}), value, inwards, 0 * value, dual)
        else:
            shape = {"scalar": (), "vector": (n,), "matrix": (n, 2)}[kind]
            value = np.asarray(r.standard_normal(shape))
            leaf = Leaf(cp.Variable(shape), value, r.standard_normal(shape), 0 * value, 0 * value)
        self.leaves.append(leaf)
        self.names.append(kind)

    def bound(self, leaf: Leaf) -> None:
        """Constraints that are slack at the optimum and keep the leaf bounded."""
        v, at = leaf.variable, leaf.value
        if v.attributes["PSD"]:
            self.constraints.append(cp.trace(v) <= np.trace(at) + 3)
        elif v.attributes["nonneg"]:
            self.constraints.append(cp.sum(v) <= at.sum() + 3)
        elif v.attributes["nonpos"]:
            self.constraints.append(cp.sum(v) >= at.sum() - 3)
        else:
            self.constraints += [v <= at + 3, v >= at - 3]

    def affine(self, target: Any, step: Any = None, square: bool = False) -> tuple[Any, Pull]:
        """(an expression that is `target` at the planted point, the adjoint of its linear part).

        `step`: by how much it shall change along the common direction, None for no matter.
        """
        target = np.asarray(target, dtype=float)
        r, shape = self.r, target.shape
        count = min(len(self.leaves), int(r.integers(1, 4)))
        chosen = [self.leaves[k] for k in r.choice(len(self.leaves), size=count, replace=False)]
        expression: Any = 0.0
        at, along = np.zeros(shape), np.zeros(shape)
        pulls: list[Pull] = []
        for leaf in chosen:
            part, map_, pull = self._linear(leaf, shape, square)
            expression = expression + part
            at, along = at + map_(leaf.value), along + map_(leaf.inwards)
            pulls.append(pull)
        if step is not None:
            rest = np.asarray(step, dtype=float) - along
            length = sum(float(np.sum(leaf.inwards**2)) for leaf in self.leaves)
            travelled = sum(
                cp.sum(cp.multiply(leaf.inwards / length, leaf.variable)) for leaf in self.leaves
            )
            expression = expression + rest * travelled
            at = at + rest * sum(np.sum(x.inwards * x.value) for x in self.leaves) / length

            def pull_step(g: Any) -> None:
                for leaf in self.leaves:
                    leaf.gradient = leaf.gradient + leaf.inwards / length * np.sum(rest * g)

            pulls.append(pull_step)

        def pull_all(g: Any) -> None:
            for pull in pulls:
                pull(np.asarray(g, dtype=float))

        return expression + (target - at), pull_all

    def _linear(
        self, leaf: Leaf, shape: tuple[int, ...], square: bool
    ) -> tuple[Any, Callable[[Array], Array], Pull]:
        """A random linear map of one leaf: the expression, the map, the adjoint."""
        r, v = self.r, leaf.variable
        scale = 1 / np.sqrt(max(v.size, 1))
        if square and v.ndim == 2 and v.shape[0] == v.shape[1] and r.random() < 0.5:
            a = scale * r.standard_normal((shape[0], v.shape[0]))

            def pull(g: Array) -> None:
                leaf.gradient = leaf.gradient + a.T @ g @ a

            return a @ v @ a.T, lambda x: a @ x @ a.T, pull
        size = int(np.prod(shape))
        m = scale * r.standard_normal((size, v.size))
        if square:
            n = shape[0]
            m = (m + m.reshape(n, n, -1).transpose(1, 0, 2).reshape(size, -1)) / 2
        if v.attributes["PSD"] or v.attributes["symmetric"]:
            k = v.shape[0]
            m = (m + m.reshape(size, k, k).transpose(0, 2, 1).reshape(size, -1)) / 2
        flat = cp.vec(v, order="F")

        def map_(x: Array) -> Array:
            return (m @ np.ravel(x, order="F")).reshape(shape, order="F")

        def pull_matrix(g: Array) -> None:
            back = (m.T @ np.ravel(g, order="F")).reshape(v.shape, order="F")
            leaf.gradient = leaf.gradient + back

        expression = m @ flat
        if shape != (size,):
            expression = cp.reshape(expression, shape, order="F")
        return expression, map_, pull_matrix

    def term(self, expression: Any, value: float) -> None:
        """Add a convex term to the objective."""
        self.objective = self.objective + expression
        self.value += float(value)

    def problem(self, maximise: bool) -> cp.Problem:
        """Bound the variables and choose the linear cost."""
        constant = float(self.r.standard_normal())
        for leaf in self.leaves:
            cost = leaf.dual - leaf.gradient
            self.term(cp.sum(cp.multiply(cost, leaf.variable)), np.sum(cost * leaf.value))
            self.bound(leaf)
        self.term(constant, constant)
        goal = cp.Maximize(-self.objective) if maximise else cp.Minimize(self.objective)
        self.value = -self.value if maximise else self.value
        return cp.Problem(goal, self.constraints)


# -- constraints: each takes an expression, its value and multipliers --------------------------


def equality(p: Planted) -> None:
    k = int(p.r.integers(1, 3))
    e, pull = p.affine(np.zeros(k), np.zeros(k))
    rhs = p.r.standard_normal(k)
    p.constraints.append(e + rhs == rhs)
    pull(p.r.standard_normal(k))


def inequality(p: Planted) -> None:
    k = int(p.r.integers(1, 4))
    active = p.r.random(k) < 0.6
    value = np.where(active, 0.0, -p.r.uniform(0.5, 1, k))
    e, pull = p.affine(value, -p.r.uniform(0.5, 1, k))
    p.constraints.append(e <= 0 if p.r.random() < 0.5 else -e >= 0)
    pull(np.where(active, p.r.uniform(0.5, 1, k), 0.0))


def matrix_inequality(p: Planted) -> None:
    n = int(p.r.integers(2, 5))
    u, k = orthogonal(p.r, n), int(p.r.integers(1, n))
    slack = u[:, :k] @ np.diag(p.r.uniform(0.5, 1, k)) @ u[:, :k].T
    dual = u[:, k:] @ np.diag(p.r.uniform(0.5, 1, n - k)) @ u[:, k:].T
    e, pull = p.affine(slack, definite(p.r, n), square=True)
    p.constraints.append(e >> 0 if p.r.random() < 0.5 else -e << 0)
    pull(-dual)


def second_order_cone(p: Planted) -> None:
    k = int(p.r.integers(2, 4))
    z = p.r.standard_normal(k)
    tight = p.r.random() < 0.7
    length = float(np.linalg.norm(z))
    tail, pull_tail = p.affine(z, np.zeros(k))
    head, pull_head = p.affine(length if tight else length + 1, 1.0)
    p.constraints.append(cp.SOC(head, tail) if p.r.random() < 0.5 else cp.norm(tail) <= head)
    if tight:
        y = float(p.r.uniform(0.5, 1))
        pull_head(-y)
        pull_tail(y * z / length)


def frobenius_ball(p: Planted) -> None:
    z = p.r.standard_normal((2, 2))
    length = float(np.linalg.norm(z))
    e, pull = p.affine(z, -z)
    p.constraints.append(cp.norm(e, "fro") <= length)
    pull(0.7 * z / length)


# -- terms of the objective --------------------------------------------------------------------


def squares(p: Planted) -> None:
    z, w = p.r.standard_normal(3), float(p.r.uniform(0.5, 2))
    e, pull = p.affine(z)
    p.term(w * cp.sum_squares(e), w * z @ z)
    pull(2 * w * z)


def quadratic_form(p: Planted) -> None:
    z, q = p.r.standard_normal(3), definite(p.r, 3)
    e, pull = p.affine(z)
    p.term(cp.quad_form(e, cp.psd_wrap(q)), z @ q @ z)
    pull(2 * q @ z)


def quadratic_over_linear(p: Planted) -> None:
    z, t = p.r.standard_normal(2), float(p.r.uniform(1, 2))
    e, pull = p.affine(z)
    d, pull_d = p.affine(t)
    p.term(cp.quad_over_lin(e, d), z @ z / t)
    pull(2 * z / t)
    pull_d(-z @ z / t**2)


def euclidean_norm(p: Planted) -> None:
    z = p.r.standard_normal(3)
    e, pull = p.affine(z)
    p.term(2 * cp.norm(e), 2 * np.linalg.norm(z))
    pull(2 * z / np.linalg.norm(z))


def norm_at_its_kink(p: Planted) -> None:
    g = p.r.standard_normal(3)
    e, pull = p.affine(np.zeros(3))
    p.term(cp.norm(e), 0.0)
    pull(0.6 * g / np.linalg.norm(g))


def absolute_values(p: Planted) -> None:
    z = np.array([1.0, 0.0, -2.0])
    e, pull = p.affine(z)
    p.term(cp.norm1(e) if p.r.random() < 0.5 else cp.sum(cp.abs(e)), 3.0)
    pull([1.0, p.r.uniform(-0.8, 0.8), -1.0])


def largest_entry(p: Planted) -> None:
    z = np.array([1.0, 1.0, -1.0])
    e, pull = p.affine(z)
    p.term(cp.max(e) if p.r.random() < 0.5 else cp.norm_inf(e), 1.0)
    pull([0.3, 0.7, 0.0])


def two_largest(p: Planted) -> None:
    e, pull = p.affine([3.0, 1.0, 1.0, 0.0])
    p.term(cp.sum_largest(e, 2), 4.0)
    pull([1.0, 0.4, 0.6, 0.0])


def hinges(p: Planted) -> None:
    e, pull = p.affine([2.0, -1.0, 0.0])
    p.term(cp.sum(cp.pos(e)), 2.0)
    pull([1.0, 0.0, 0.4])


def huber(p: Planted) -> None:
    e, pull = p.affine([0.4, -3.0])
    p.term(cp.sum(cp.huber(e, 1.0)), 0.16 + 2 * 3 - 1)
    pull([0.8, -2.0])


def reciprocal(p: Planted) -> None:
    e, pull = p.affine([0.5, 2.0])
    p.term(cp.sum(cp.inv_pos(e)), 2.5)
    pull([-4.0, -0.25])


def root(p: Planted) -> None:
    e, pull = p.affine(1.44)
    p.term(-cp.sqrt(e), -1.2)
    pull(-0.5 / 1.2)


def geometric_mean(p: Planted) -> None:
    e, pull = p.affine([1.0, 4.0])
    p.term(-cp.geo_mean(e), -2.0)
    pull([-1.0, -0.25])


def largest_eigenvalue(p: Planted) -> None:
    n = 3
    u = orthogonal(p.r, n)
    e, pull = p.affine(u @ np.diag([1.0, 1.0, -1.0]) @ u.T, square=True)
    p.term(cp.lambda_max(e), 1.0)
    pull(u @ np.diag([0.4, 0.6, 0.0]) @ u.T)


def two_largest_eigenvalues(p: Planted) -> None:
    u = orthogonal(p.r, 3)
    e, pull = p.affine(u @ np.diag([2.0, 1.0, -1.0]) @ u.T, square=True)
    p.term(cp.lambda_sum_largest(e, 2), 3.0)
    pull(u @ np.diag([1.0, 1.0, 0.0]) @ u.T)


def nuclear_norm(p: Planted) -> None:
    u, v = orthogonal(p.r, 3), orthogonal(p.r, 2)
    e, pull = p.affine(1.5 * np.outer(u[:, 0], v[:, 0]))
    p.term(cp.normNuc(e), 1.5)
    pull(np.outer(u[:, 0], v[:, 0]) + 0.5 * np.outer(u[:, 1], v[:, 1]))


def spectral_norm(p: Planted) -> None:
    u, v = orthogonal(p.r, 3), orthogonal(p.r, 2)
    z = 2 * np.outer(u[:, 0], v[:, 0]) + np.outer(u[:, 1], v[:, 1])
    e, pull = p.affine(z)
    p.term(cp.sigma_max(e), 2.0)
    pull(np.outer(u[:, 0], v[:, 0]))


def trace_of_inverse(p: Planted) -> None:
    z = definite(p.r, 3) + np.eye(3)
    e, pull = p.affine(z, square=True)
    inverse = np.linalg.inv(z)
    p.term(cp.tr_inv(e), np.trace(inverse))
    pull(-inverse @ inverse)


def matrix_fraction(p: Planted) -> None:
    z, x = definite(p.r, 3) + np.eye(3), p.r.standard_normal(3)
    e, pull = p.affine(z, square=True)
    d, pull_d = p.affine(x)
    y = np.linalg.solve(z, x)
    p.term(cp.matrix_frac(d, e), x @ y)
    pull(-np.outer(y, y))
    pull_d(2 * y)


def log_determinant(p: Planted) -> None:
    z, w = definite(p.r, 3) + np.eye(3), float(p.r.uniform(0.5, 2))
    e, pull = p.affine(z, square=True)
    p.term(-w * cp.log_det(e), -w * np.linalg.slogdet(z)[1])
    pull(-w * np.linalg.inv(z))


CONSTRAINTS = (equality, inequality, matrix_inequality, second_order_cone, frobenius_ball)
TERMS = (
    squares,
    quadratic_form,
    quadratic_over_linear,
    euclidean_norm,
    norm_at_its_kink,
    absolute_values,
    largest_entry,
    two_largest,
    hinges,
    huber,
    reciprocal,
    root,
    geometric_mean,
    largest_eigenvalue,
    two_largest_eigenvalues,
    nuclear_norm,
    spectral_norm,
    trace_of_inverse,
    matrix_fraction,
    log_determinant,
)
LEAVES = ("PSD", "symmetric", "nonneg", "nonpos", "scalar", "vector", "matrix")


def planted_model(seed: int) -> tuple[cp.Problem, float, list[str]]:
    """(model, optimal value, what it is made of); every atom occurs in every 20 seeds."""
    r = np.random.default_rng(seed)
    p = Planted(r)
    p.add_leaf("PSD" if seed % 2 else LEAVES[seed // 2 % len(LEAVES)])
    for kind in r.choice(LEAVES, size=int(r.integers(0, 3))):
        p.add_leaf(str(kind))
    if sum(leaf.value.size for leaf in p.leaves) < 3:
        p.add_leaf("vector")  # room for an equation
    parts: list[Callable[[Planted], None]] = [TERMS[seed % len(TERMS)]]
    parts += [TERMS[k] for k in r.integers(len(TERMS), size=int(r.integers(0, 2)))]
    parts += [CONSTRAINTS[k] for k in r.integers(len(CONSTRAINTS), size=int(r.integers(1, 4)))]
    for part in parts:
        part(p)
        p.names.append(part.__name__)
    model = p.problem(maximise=bool(r.random() < 0.5))
    return model, p.value, p.names
