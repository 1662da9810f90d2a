"""The dual slack of a block with a bound on the rounding of every entry, at any scale.

    S = Vᵀ diag(A_qᵀw − g) V − C        on the face {z : Nᵀz = 0}

is definite if and only if 2^−E · DSD is, for any D of powers of two, on {z : (DN)ᵀz = 0}. Numbers
are split into mantissas and exponents; exponents are added as integers, and only what is left,
near one, is multiplied. What underflows then is small against the largest entry, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.rounding import TINY, gamma, most_in_column
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.typing import Array, Indices

# The exponent of zero: below that of any product of floats.
_ZERO = -(10**6)
# Exponents that leave a float normal.
_LEAST = -1020


@dataclass(frozen=True, eq=False)
class ScaledSlack:
    """A matrix that is definite where the slack is.

    Attributes
    ----------
    matrix: (n, n) a positive multiple of DSD, up to rounding
    error: (n, n) what each of its entries may be off
    null: (n, k) the null directions in the same coordinates, exact
    """

    matrix: Array
    error: Array
    null: Array


@dataclass(frozen=True, eq=False)
class _Terms:
    """Numbers as mantissa · 2^power, with the measurement each of them belongs to."""

    column: Indices
    mantissa: Array
    power: Indices


def split(values: Any) -> tuple[Array, Indices]:
    """(mantissas in ±[½, 1), exponents), zeros far below everything."""
    mantissa, power = np.frexp(np.asarray(values, dtype=np.float64))
    return mantissa, np.where(mantissa == 0, _ZERO, power.astype(np.int64))


def scaled_slack(program: Program, k: int, w: Array, with_cost: bool) -> ScaledSlack | None:
    """The k-th dual slack for multipliers w of the maximisation, without its cost for a ray.

    None where the numbers of one measurement or null direction span more than a float's range.
    """
    block = program.blocks[k]
    weights = _weights(program, k, w, with_cost)
    nodes = _Nodes.of(block, weights)
    cost = _CostTerms.of(block, nodes.column_power) if with_cost else None
    power = weights.power + 2 * nodes.row_power[weights.column]
    top = max(int(power.max(initial=_ZERO)), cost.top if cost else _ZERO)
    if not nodes.exact or (cost is not None and not cost.exact):
        return None
    if top <= _ZERO // 2:
        zero = np.zeros((block.size, block.size))
        return _equilibrated(zero, zero, block, nodes.column_power)
    values = _shifted(weights.mantissa, power - top)
    p = block.n_measurements
    u = np.bincount(weights.column, values, p).astype(np.float64)
    size = np.bincount(weights.column, np.abs(values), p).astype(np.float64)
    matrix, absolute = nodes.image(u), nodes.image_of_sizes(size)
    chain = int(np.bincount(weights.column, minlength=1).max()) + nodes.chain + 8
    if cost is not None:
        c, c_size = cost.matrix(top)
        matrix, absolute = matrix - program.sign * c, absolute + c_size
        chain += cost.chain
    # A rounding in the subnormal range is at most TINY, and every factor after it at most one.
    lost = 16.0 * TINY * (chain + p + nodes.count) * (nodes.count + block.size)
    error = 1.01 * gamma(chain) * absolute + lost
    return _equilibrated(matrix, error, block, nodes.column_power)


def _weights(program: Program, k: int, w: Array, with_cost: bool) -> _Terms:
    """The terms a_ep·w_e, and −g_p, that sum to the weight of each measurement."""
    part = sp.coo_array(program.rows_q[:, program.spans[k]])
    a, a_power = split(part.data)
    b, b_power = split(w[part.row])
    column, mantissa, power = part.col.astype(np.int64), a * b, a_power + b_power
    g = program.cost_q[program.spans[k]]
    if with_cost and g.any():
        m, g_power = split(-program.sign * g)
        column = np.concatenate([column, np.arange(g.size)])
        mantissa, power = np.concatenate([mantissa, m]), np.concatenate([power, g_power])
    kept = mantissa != 0
    return _Terms(column[kept], mantissa[kept], power[kept])


@dataclass(frozen=True, eq=False)
class _Nodes:
    """V = B X with all numbers at most one: rows of B, columns of V divided by powers of two."""

    incidence: sp.csr_array
    features: Array | None
    row_power: Indices
    column_power: Indices
    exact: bool

    @classmethod
    def of(cls, block: Block, weights: _Terms) -> _Nodes:
        b = block.incidence
        mantissa, power = split(b.data)
        row = np.repeat(np.arange(b.shape[0]), np.diff(b.indptr))
        features, exact = None, True
        if block.features is not None:
            m, x_power = split(block.features)
            columns = _tops(x_power, 0)
            nodes = _tops(x_power - columns, 1)
            left = x_power - columns - nodes[:, None]
            features, exact = _shifted(m, left), _is_exact(left)
            power = power + nodes[b.indices]
        else:
            # Units in which the diagonal of the slack is near one.
            heaviest = np.full(b.shape[0], _ZERO)
            np.maximum.at(heaviest, weights.column, weights.power)
            columns = np.full(b.shape[1], _ZERO)
            np.maximum.at(columns, b.indices, heaviest[row] + 2 * power)
            diagonal = split(block.cost.dense().diagonal())[1]
            columns = np.maximum(columns, diagonal)
            columns = np.where(columns <= _ZERO // 2, 0, -(-columns // 2))
            power = power - columns[b.indices]
        tops = np.full(b.shape[0], _ZERO)
        np.maximum.at(tops, row, power)
        tops = np.where(tops <= _ZERO // 2, 0, tops)
        left = power - tops[row]
        scaled = sp.csr_array((_shifted(mantissa, left), b.indices, b.indptr), shape=b.shape)
        return cls(scaled, features, tops, columns, exact and _is_exact(left))

    @property
    def count(self) -> int:
        return int(self.incidence.shape[1])

    @property
    def chain(self) -> int:
        """How many roundings an entry of Vᵀdiag(u)V goes through."""
        chain = most_in_column(self.incidence)
        if self.features is not None:
            widest = int(np.diff(self.incidence.indptr).max(initial=0))
            chain += 2 * self.count + widest
        return chain

    def image(self, u: Array) -> Array:
        """Vᵀ diag(u) V."""
        laplacian = self.incidence.T @ sp.diags_array(u) @ self.incidence
        if self.features is None:
            return dense(laplacian)
        return np.asarray(self.features.T @ (laplacian @ self.features))

    def image_of_sizes(self, sizes: Array) -> Array:
        """|V|ᵀ diag(sizes) |V| with |V| = |B||X|."""
        b = abs(self.incidence)
        laplacian = b.T @ sp.diags_array(sizes) @ b
        if self.features is None:
            return dense(laplacian)
        x = np.abs(self.features)
        return np.asarray(x.T @ (laplacian @ x))


@dataclass(frozen=True, eq=False)
class _CostTerms:
    """D C D in mantissas and exponents."""

    size: int
    row: Indices
    column: Indices
    mantissa: Array
    power: Indices
    factor: Array
    weights: Array
    weight_power: Indices
    exact: bool

    @classmethod
    def of(cls, block: Block, columns: Indices) -> _CostTerms:
        cost, n = block.cost, block.size
        entries = sp.coo_array(cost.sparse)
        each = np.arange(n)
        row = np.concatenate([entries.row.astype(np.int64), each])
        column = np.concatenate([entries.col.astype(np.int64), each])
        m, power = split(np.concatenate([entries.data, np.full(n, cost.identity)]))
        power = power - columns[row] - columns[column]
        u, u_power = split(cost.factor)
        u_power = u_power - columns[:, None]
        tops = _tops(u_power, 0)
        s, s_power = split(cost.weights)
        left = u_power - tops
        return cls(
            n, row, column, m, power, _shifted(u, left), s, s_power + 2 * tops, _is_exact(left)
        )

    @property
    def top(self) -> int:
        return int(max(self.power.max(initial=_ZERO), self.weight_power.max(initial=_ZERO)))

    @property
    def chain(self) -> int:
        return self.weights.size + 4

    def matrix(self, top: int) -> tuple[Array, Array]:
        """(C, the same sums over absolute values), in units of 2^top."""
        n = self.size
        values = _shifted(self.mantissa, self.power - top)
        place = self.row * n + self.column
        out: Array = np.bincount(place, values, n * n).reshape(n, n).astype(np.float64)
        size: Array = np.bincount(place, np.abs(values), n * n).reshape(n, n).astype(np.float64)
        if self.weights.size:
            s = _shifted(self.weights, self.weight_power - top)
            out = out + (self.factor * s) @ self.factor.T
            size = size + (np.abs(self.factor) * np.abs(s)) @ np.abs(self.factor).T
        return out, size


def _equilibrated(
    matrix: Array, error: Array, block: Block, columns: Indices
) -> ScaledSlack | None:
    """The slack with a diagonal near one, as far as powers of two go, and its null directions.

    With null directions the diagonal proves nothing about the slack on its face.
    """
    diagonal = np.diag(matrix)
    power = split(diagonal)[1]
    usable = (diagonal > 0) & (power > _LEAST // 2) & (not block.null.shape[1])
    more = np.where(usable, power // 2, 0)
    both = more[:, None] + more
    m, n_power = split(block.null)
    n_power = n_power - (columns + more)[:, None]
    left = n_power - _tops(n_power, 0)
    if not _is_exact(left):
        return None
    out = np.ldexp(matrix, -both)
    return ScaledSlack(out, np.ldexp(error, -both) + 2 * TINY, _shifted(m, left))


def _tops(power: Indices, axis: int) -> Indices:
    """The largest exponent along an axis; 0 where there are zeros only."""
    tops = power.max(axis=axis, initial=_ZERO)
    return np.where(tops <= _ZERO // 2, 0, tops)


def _shifted(mantissa: Array, power: Indices) -> Array:
    return np.ldexp(mantissa, np.clip(power, -1200, 1200))


def _is_exact(power: Indices) -> bool:
    """Whether numbers of these exponents, or zeros, are held without rounding."""
    return bool(np.all((power > _LEAST + 60) | (power < _ZERO // 2)))
