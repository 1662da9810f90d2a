"""Conic data with exponential and power cones, and membership in the dual cones.

minimise  cᵀx + ½xᵀPx      subject to  b − Ax = s ∈ K
maximise  −bᵀy − ½xᵀPx                 Aᵀy + Px + c = 0,  y ∈ K*

zero, nonnegative, second-order, semidefinite       (n² rows, a matrix column by column)
exponential   K  = cl {(x, y, z) : y > 0, y e^{x/y} ≤ z}
              K* = cl {(u, v, w) : u < 0, −u e^{v/u} ≤ e w}
power         K  = {(x, y, z) : x^α y^{1−α} ≥ |z|, x, y ≥ 0}
              K* = {(u, v, w) : (u/α)^α (v/(1−α))^{1−α} ≥ |w|, u, v ≥ 0}
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse as sp

from sdpkit.typing import Array, Bools, Indices

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class BlockRows:
    """A second-order or semidefinite cone and its rows."""

    kind: Literal["soc", "psd"]
    size: int
    rows: Indices


@dataclass(frozen=True, eq=False)
class NonlinearData:
    """The data above.

    Attributes
    ----------
    cost: (n,) c;  matrix: (m, n) A;  rhs: (m,) b;  squares: (n, n) P
    n_zero, n_nonneg: how many rows come first and second
    blocks: second-order and semidefinite cones
    exponential, power: (k, 3) rows of each such cone;  alpha: (k,) exponents of the power cones
    offset: added to cᵀx;  sense: of the model before it became a minimisation
    """

    cost: Array
    matrix: sp.csr_array
    rhs: Array
    squares: sp.csr_array
    n_zero: int
    n_nonneg: int
    blocks: tuple[BlockRows, ...]
    exponential: Indices
    power: Indices
    alpha: Array
    offset: float
    sense: Literal["min", "max"]

    @property
    def sign(self) -> float:
        """−1 where a maximisation was negated."""
        return 1.0 if self.sense == "min" else -1.0

    @property
    def nonneg(self) -> slice:
        """The rows of the inequalities."""
        return slice(self.n_zero, self.n_zero + self.n_nonneg)

    @cached_property
    def scale(self) -> float:
        """The size of the costs, at least 1."""
        return max(1.0, float(np.abs(self.cost).max(initial=0.0)))

    def residual(self, x: Array, y: Array) -> Array:
        """c + Px + Aᵀy."""
        return np.asarray(self.cost + self.squares @ x + self.matrix.T @ y)

    def dual_value(self, x: Array, y: Array) -> float:
        """−bᵀy − ½xᵀPx + d, the bound of the minimisation that a feasible (x, y) proves."""
        return float(-self.rhs @ y - 0.5 * x @ (self.squares @ x) + self.offset)

    def symmetric(self, y: Array) -> Array:
        """y with the matrices of semidefinite cones made symmetric."""
        out = y.copy()
        for block in self.blocks:
            if block.kind == "psd":
                square = y[block.rows].reshape(block.size, block.size)
                out[block.rows] = ((square + square.T) / 2).ravel()
        return out

    def clipped(self, y: Array) -> Array:
        """y with the signs that are off by rounding: nonnegative rows, u ≤ 0, and so on."""
        out = self.symmetric(y)
        out[self.nonneg] = np.maximum(out[self.nonneg], 0.0)
        if self.exponential.size:
            u, w = self.exponential[:, 0], self.exponential[:, 2]
            out[u], out[w] = np.minimum(out[u], 0.0), np.maximum(out[w], 0.0)
        for k in range(2):
            if self.power.size:
                rows = self.power[:, k]
                out[rows] = np.maximum(out[rows], 0.0)
        return out

    def is_dual_feasible(self, y: Array) -> bool:
        """Whether y lies in K*, as far as floating point can tell."""
        if (y[self.nonneg] < 0).any() or not np.isfinite(y).all():
            return False
        if not in_dual_exponential(y[self.exponential]).all():
            return False
        if not in_dual_power(y[self.power], self.alpha).all():
            return False
        return all(_in_block(block, y[block.rows]) for block in self.blocks)


def in_dual_exponential(points: Array) -> Bools:
    """Which rows (u, v, w) lie in the dual exponential cone.

    >>> in_dual_exponential(np.array([[-1.0, 0.0, 1.0], [-1.0, 0.0, 0.3], [0.0, 1.0, 0.0]]))
    array([ True, False,  True])
    """
    u, v, w = points.reshape(-1, 3).T
    inside = (u < 0) & (w > 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # −u e^{v/u} ≤ e w is v/u + log(−u) ≤ 1 + log w.
        left, right = v / u + np.log(-u), 1 + np.log(w)
        # u = −0 with v > 0 is the boundary.
        good = left <= right
    return np.asarray(np.where(inside, good, (u == 0) & (v >= 0) & (w >= 0)))


def in_dual_power(points: Array, alpha: Array) -> Bools:
    """Which rows (u, v, w) lie in the dual power cones of exponents α.

    >>> in_dual_power(np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 2.1]]), np.array([0.5, 0.5]))
    array([ True, False])
    """
    u, v, w = points.reshape(-1, 3).T
    with np.errstate(divide="ignore", invalid="ignore"):
        left = alpha * np.log(u / alpha) + (1 - alpha) * np.log(v / (1 - alpha))
        good = left >= np.log(np.abs(w))
    return np.asarray((u >= 0) & (v >= 0) & ((w == 0) | good))


def _in_block(block: BlockRows, y: Array) -> bool:
    if block.kind == "soc":
        return bool(y[0] >= np.linalg.norm(y[1:]))
    values = np.linalg.eigvalsh(y.reshape(block.size, block.size))
    return bool(values[0] >= -block.size * _EPS * max(values[-1], 0.0))
