"""Dual slacks of small programs in twice the precision.

Where terms of a slack cancel, as those of the measurements of M_ij do, ordinary sums lose the
digits that decide whether S ⪰ 0. Here every product is split into two floats (Dekker 1971), and
sums are rounded once (`math.fsum`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.definite import definite_on_face
from sdpkit.certificate.rounding import TINY, UNIT
from sdpkit.certificate.slack import ScaledSlack
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.typing import Array, Indices

# Terms of the sums of one slack, at most.
_TERMS = 400_000
# Numbers between which no product of four overflows or loses digits.
_LEAST, _MOST = 1e-45, 1e45
# Veltkamp's constant, 2²⁷ + 1.
_SPLITTER = 134217729.0
# What products and truncated sums lose, as a share of the terms: a few units of 2⁻¹⁰⁶.
_LOST = 2.0**-102


@dataclass(frozen=True, eq=False)
class AccurateSlack:
    """S with a bound on what each of its entries is off: (n, n) matrices."""

    matrix: Array
    error: Array


def accurate_slack(program: Program, k: int, w: Array) -> AccurateSlack | None:
    """The k-th dual slack of the maximisation; None where it is large or of extreme numbers."""
    block = program.blocks[k]
    part = sp.csc_array(program.rows_q[:, program.spans[k]])
    pairs = int(np.sum(np.diff(block.incidence.indptr).astype(np.int64) ** 2))
    rank = block.cost.weights.size
    if block.features is not None or part.nnz + 4 * pairs + rank * block.size**2 > _TERMS:
        return None
    numbers = [part.data, w, block.incidence.data, program.cost_q, block.cost.sparse.data]
    numbers += [block.cost.factor.ravel(), block.cost.weights, np.r_[block.cost.identity]]
    if not all(_is_moderate(np.asarray(values)) for values in numbers):
        return None
    high, low = _weights(part, w, program.sign * program.cost_q[program.spans[k]])
    return _summed(block, program.sign, high, low)


def is_definite(block: Block, slack: AccurateSlack) -> bool:
    """Whether the exact slack is positive semidefinite on the face of its block."""
    matrix, error, null = slack.matrix, slack.error, block.null
    touched = matrix.any(axis=1) | error.any(axis=1)
    if not touched.any():
        return True
    if not null.shape[1]:
        # Untouched coordinates are zero exactly. The others get a diagonal near one.
        inside = np.ix_(touched, touched)
        matrix, error, null = matrix[inside], error[inside], null[touched]
        diagonal = np.diag(matrix)
        if not (diagonal > 0).all():
            return False
        power = -(np.frexp(diagonal)[1] // 2)
        both = power[:, None] + power
        matrix, error = np.ldexp(matrix, both), np.ldexp(error, both) + 2 * TINY
    return definite_on_face(ScaledSlack(matrix, error, null))


def slack_is_accurately_definite(program: Program, k: int, w: Array) -> bool:
    """Whether the k-th slack is proven positive semidefinite in this way."""
    slack = accurate_slack(program, k, w)
    return slack is not None and is_definite(program.blocks[k], slack)


def _is_moderate(values: Array) -> bool:
    sizes = np.abs(values[values != 0])
    return bool(np.all((sizes >= _LEAST) & (sizes <= _MOST)))


def _weights(part: sp.csc_array, w: Array, g: Array) -> tuple[Array, Array]:
    """u = A_qᵀw − g as unevaluated sums of two floats."""
    high, low = _product(part.data, w[part.indices])
    ends, out, rest = part.indptr.tolist(), -g, np.zeros(g.size)
    for p in np.flatnonzero(np.diff(part.indptr)):
        terms = [*high[ends[p] : ends[p + 1]].tolist(), *low[ends[p] : ends[p + 1]].tolist()]
        terms.append(-float(g[p]))
        out[p] = math.fsum(terms)
        rest[p] = math.fsum([*terms, -float(out[p])])
    return out, rest


def _summed(block: Block, sign: float, high: Array, low: Array) -> AccurateSlack:
    """Vᵀ diag(high + low) V − C."""
    places, terms, sizes = [], [], []
    for v, weights, rest in (
        (block.incidence, high, low),
        (sp.csr_array(block.cost.factor.T), -sign * block.cost.weights, None),
    ):
        row, i, j, first, second = _pairs(v)
        vv, vv_low = _product(first, second)
        uv, uv_low = _product(weights[row], vv)
        parts = [uv, uv_low, weights[row] * vv_low]
        parts += [] if rest is None else [rest[row] * vv]
        places += [i * block.size + j] * len(parts)
        terms += parts
        sizes.append((i * block.size + j, np.abs(uv)))
    entries = sp.coo_array(block.cost.sparse)
    each = np.arange(block.size)
    upper = entries.row <= entries.col
    places += [entries.row[upper].astype(np.int64) * block.size + entries.col[upper]]
    places += [each * (block.size + 1)]
    terms += [-sign * entries.data[upper], np.full(block.size, -sign * block.cost.identity)]
    sizes += [(places[-2], np.abs(terms[-2])), (places[-1], np.abs(terms[-1]))]
    n, where = block.size, np.concatenate(places)
    matrix = _sums(where, np.concatenate(terms), n * n).reshape(n, n)
    absolute = sum(np.bincount(at, size, n * n) for at, size in sizes)
    absolute = np.asarray(absolute).reshape(n, n)
    error = 2 * UNIT * np.abs(matrix) + _LOST * absolute
    lower = np.triu(matrix, 1).T, np.triu(error, 1).T
    return AccurateSlack(np.triu(matrix) + lower[0], np.triu(error) + lower[1])


def _pairs(v: sp.csr_array) -> tuple[Indices, Indices, Indices, Array, Array]:
    """Row, columns i ≤ j and both values, for every pair of entries of a row."""
    counts = np.diff(v.indptr)
    row = np.repeat(np.arange(v.shape[0]), counts**2)
    first = np.repeat(np.arange(v.nnz), np.repeat(counts, counts))
    starts = np.repeat(v.indptr[:-1], counts**2)
    within = np.arange(row.size) - np.repeat(np.cumsum(counts**2) - counts**2, counts**2)
    second = starts + within % np.maximum(np.repeat(counts, counts**2), 1)
    i, j = v.indices[first].astype(np.int64), v.indices[second].astype(np.int64)
    kept = i <= j
    return row[kept], i[kept], j[kept], v.data[first[kept]], v.data[second[kept]]


def _sums(places: Indices, terms: Array, size: int) -> Array:
    """Per place the sum of its terms, rounded once."""
    out = np.zeros(size)
    kept = terms != 0
    order = np.argsort(places[kept], kind="stable")
    places, values = places[kept][order], terms[kept][order].tolist()
    ends = np.flatnonzero(np.diff(places, append=-1)) + 1
    start = 0
    for place, end in zip(places[ends - 1].tolist(), ends.tolist(), strict=True):
        out[place] = math.fsum(values[start:end])
        start = end
    return out


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """a·b = high + low exactly, for moderate numbers."""
    high = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> tuple[Array, Array]:
    """a as a sum of two numbers of half the digits."""
    c = _SPLITTER * a
    high = c - (c - a)
    return high, a - high


__all__ = ["AccurateSlack", "accurate_slack", "is_definite", "slack_is_accurately_definite"]
