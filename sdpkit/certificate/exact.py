"""Small dual slacks and reduced costs in rational arithmetic, where rounding leaves doubts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.certificate.rational import Rational, is_semidefinite, rationals
from sdpkit.program.form import Program

Array = NDArray[np.float64]

# Sizes up to which elimination with fractions takes no time.
_SIZE = 6
_ENTRIES = 400


def exact_dot(a: Array, b: Array) -> Fraction:
    """aᵀb in rational arithmetic."""
    terms = (Fraction(float(p)) * Fraction(float(q)) for p, q in zip(a, b, strict=True) if p and q)
    return sum(terms, Fraction(0))


def exact_reduced_cost(program: Program, w: Array, j: int) -> Fraction:
    """r_j = (A_xᵀw)_j − c_j of the maximisation."""
    column = sp.csc_array(program.rows_x[:, [j]])
    return exact_dot(column.data, w[column.indices]) - Fraction(program.sign * program.cost_x[j])


def slack_is_semidefinite(program: Program, k: int, w: Array) -> bool | None:
    """Whether the k-th dual slack is positive semidefinite; None where it is not small."""
    block = program.blocks[k]
    small = block.size <= _SIZE and block.incidence.nnz + program.rows_q.nnz <= _ENTRIES
    if (
        not small
        or block.null.shape[1]
        or (block.features is not None and block.features.size > 99)
    ):
        return None
    return is_semidefinite(_slack(program, k, w))


def _slack(program: Program, k: int, w: Array) -> Rational:
    block, n = program.blocks[k], program.blocks[k].size
    part = sp.csc_array(program.rows_q[:, program.spans[k]])
    g = program.sign * program.cost_q[program.spans[k]]
    vectors = [rationals(row) for row in block.incidence.toarray()]
    if block.features is not None:
        x = [rationals(row) for row in block.features]
        vectors = [
            [sum((a * x[i][j] for i, a in enumerate(v) if a), Fraction(0)) for j in range(n)]
            for v in vectors
        ]
    out = _cost(program, k)
    for p, v in enumerate(vectors):
        entries = slice(part.indptr[p], part.indptr[p + 1])
        u = exact_dot(part.data[entries], w[part.indices[entries]]) - Fraction(float(g[p]))
        for i in range(n):
            for j in range(n):
                out[i][j] += u * v[i] * v[j]
    return out


def _cost(program: Program, k: int) -> Rational:
    """−C of the maximisation."""
    cost, sign = program.blocks[k].cost, Fraction(-program.sign)
    out = [[sign * a for a in rationals(row)] for row in cost.sparse.toarray()]
    for i in range(cost.size):
        out[i][i] += sign * Fraction(cost.identity)
        for j in range(cost.size):
            both = zip(cost.weights, cost.factor[i], cost.factor[j], strict=True)
            out[i][j] += sign * sum(
                (Fraction(float(s)) * Fraction(float(a)) * Fraction(float(b)) for s, a, b in both),
                Fraction(0),
            )
    return out
