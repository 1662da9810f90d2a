"""Rows, costs and dual slacks of small programs in rational arithmetic.

Rounding leaves doubts where a slack or a direction lies on the boundary of its cone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import scipy.sparse as sp

from sdpkit.certificate.rational import Rational, Vector, dot, identity, is_semidefinite, rationals
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.second_order import SecondOrderCone
from sdpkit.typing import Array

# Sizes up to which elimination with fractions takes no time.
_SIZE = 6
_ENTRIES = 400


def exact_dot(a: Array, b: Array) -> Fraction:
    """aᵀb in rational arithmetic."""
    terms = (Fraction(float(p)) * Fraction(float(q)) for p, q in zip(a, b, strict=True) if p and q)
    return sum(terms, Fraction(0))


def exact_reduced_cost(program: Program, w: Array, j: int) -> Fraction:
    """r_j = (A_xᵀw)_j − c_j of the maximisation."""
    columns = program.columns_x
    own = slice(columns.indptr[j], columns.indptr[j + 1])
    value = exact_dot(columns.data[own], w[columns.indices[own]])
    return value - Fraction(program.sign * program.cost_x[j])


def exactly_in_cone(program: Program, w: Array, cone: SecondOrderCone) -> bool:
    """Whether r_h ≥ ‖r_T‖ for the reduced costs of the maximisation."""
    head, *tail = (exact_reduced_cost(program, w, int(j)) for j in cone.members)
    return is_in_cone(head, tail)


def is_in_cone(head: Fraction, tail: Sequence[Fraction]) -> bool:
    """Whether head ≥ ‖tail‖."""
    return head >= 0 and head * head >= sum((a * a for a in tail), Fraction(0))


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
    block, part = program.blocks[k], sp.csc_array(program.rows_q[:, program.spans[k]])
    g, basis = program.sign * program.cost_q[program.spans[k]], identity(block.size)
    sign = Fraction(-program.sign)
    out = [[sign * a for a in row] for row in cost_on(block.cost, basis)]
    for p, v in enumerate(measurements(block, basis)):
        entries = slice(part.indptr[p], part.indptr[p + 1])
        u = exact_dot(part.data[entries], w[part.indices[entries]]) - Fraction(float(g[p]))
        _add_square(out, u, v)
    return out


# -- in the coordinates of a basis ------------------------------------------------------------


def measurements(block: Block, basis: Rational) -> list[Vector]:
    """Per measurement its vector v in the coordinates of a basis: vᵀz for every z."""
    nodes, v = basis, block.incidence
    if block.features is not None:
        rows = [rationals(row) for row in block.features]
        nodes = [[dot(z, row) for row in rows] for z in basis]
    out = []
    for p in range(block.n_measurements):
        entries = slice(v.indptr[p], v.indptr[p + 1])
        places, values = v.indices[entries], rationals(v.data[entries])
        out.append([dot([z[i] for i in places], values) for z in nodes])
    return out


def coefficients(block: Block, rows: sp.csr_array, basis: Rational) -> list[Rational]:
    """Per row of (m, p) the matrix Σ a_p v_p v_pᵀ of a block, in the coordinates of a basis."""
    part, vectors = sp.csr_array(rows), measurements(block, basis)
    out = []
    for e in range(part.shape[0]):
        matrix = [[Fraction(0)] * len(basis) for _ in basis]
        for position in range(part.indptr[e], part.indptr[e + 1]):
            a = Fraction(float(part.data[position]))
            _add_square(matrix, a, vectors[part.indices[position]])
        out.append(matrix)
    return out


def cost_on(cost: Cost, basis: Rational) -> Rational:
    """The matrix C of a cost in the coordinates of a basis."""
    images = [[Fraction(cost.identity) * a for a in z] for z in basis]
    sparse = sp.coo_array(cost.sparse)
    for i, j, c in zip(*sparse.coords, sparse.data, strict=True):
        for z, image in zip(basis, images, strict=True):
            image[i] += Fraction(float(c)) * z[j]
    out = [[dot(a, image) for image in images] for a in basis]
    for weight, column in zip(rationals(cost.weights), cost.factor.T, strict=True):
        _add_square(out, weight, [dot(z, rationals(column)) for z in basis])
    return out


def _add_square(matrix: Rational, a: Fraction, v: Vector) -> None:
    """matrix + a·vvᵀ, in place."""
    for i, vi in enumerate(v):
        for j, vj in enumerate(v) if vi else ():
            matrix[i][j] += a * vi * vj
