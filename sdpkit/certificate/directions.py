"""Directions that improve the objective without end, proven.

A direction D = (M, x) must leave every equation in place and no inequality may be worse for it, so
that most directions lie on the boundary of the cone, where floating point proves nothing. Two ways
lead on. D is rounded to a direction whose range and entries are simple fractions, and all its
properties are checked in rational arithmetic; or, if the directions have an interior, a shifted
Cholesky factorisation proves one that improves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.exact import coefficients, cost_on, is_in_cone
from sdpkit.certificate.feasible import attained
from sdpkit.certificate.rational import (
    Rational,
    Vector,
    dot,
    doubles,
    is_semidefinite,
    near_solution,
    rationals,
    rounded_span,
    table,
    upper_triangle,
)
from sdpkit.numerics.breakdown import BREAKDOWNS
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.program.gram import FactoredGram, Gram, Matrix
from sdpkit.program.safe import SafeBounds
from sdpkit.typing import Array

# Unknowns of a direction, rows and nodes up to which fractions take a second at most.
_UNKNOWNS = 120
_ROWS = 3000
_NODES = 3000
# Below these shares of the largest number a part of a direction counts as zero.
_CUTS = (1e-9, 1e-6, 1e-4)

# Per block k vectors and a (k, k) matrix Z, so that M = Σ Z_ab z_a z_bᵀ; then x.
_Exact = tuple[list[Rational], list[Rational], Vector]


def direction_proof(program: Program, matrices: Sequence[Matrix], x: Array) -> str:
    """How it is proven that a direction near this one improves without end; empty if it is not."""
    try:
        with np.errstate(all="ignore"):
            if _found(program, matrices, x) is not None:
                return "rational arithmetic"
            return "shifted Cholesky" if _has_interior(program, matrices, x) else ""
    except BREAKDOWNS:
        return ""


def exact_direction(
    program: Program, matrices: Sequence[Matrix], x: Array
) -> tuple[list[Matrix], Array] | None:
    """A direction of simple fractions near this one that is proven, in floating point; or None."""
    try:
        with np.errstate(all="ignore"):
            found = _found(program, matrices, x)
    except BREAKDOWNS:
        return None
    if found is None:
        return None
    out: list[Matrix] = []
    for block, span, inner in zip(program.blocks, found[0], found[1], strict=True):
        basis, middle = table(span, block.size), table(inner, len(span))
        out.append(basis.T @ middle @ basis)
    return out, doubles(found[2])


def _found(program: Program, matrices: Sequence[Matrix], x: Array) -> _Exact | None:
    exact = (one for one in _exact_ones(program, matrices, x) if _is_exact(program, *one))
    return next(exact, None)


def _has_interior(program: Program, matrices: Sequence[Matrix], x: Array) -> bool:
    """Whether the direction, moved inwards, is proven with a value above zero."""
    if program.has_log_det or program.norms or program.quadratic_x.any():
        return False
    homogeneous = replace(program, rhs=np.zeros_like(program.rhs), offset=0.0, safe=SafeBounds())
    value, _ = attained(homogeneous, tuple(matrices), x)
    return value is not None and program.sign * value > 0


# -- simple fractions -----------------------------------------------------------------------


def _exact_ones(program: Program, matrices: Sequence[Matrix], x: Array) -> Iterator[_Exact]:
    """Directions in simple fractions near the given one that leave equations in place."""
    nodes = sum(block.incidence.shape[1] + block.size for block in program.blocks)
    features = any(b.features is not None and b.features.size > _NODES for b in program.blocks)
    if program.n_rows > _ROWS or nodes > _NODES or features or program.family is not None:
        return
    grouped = {j for penalty in program.norms for j in penalty.group}
    curved = program.quadratic_x > 0
    size = max(*(_size(m) for m in matrices), float(np.abs(x).max(initial=0.0)))
    if not 0 < size < np.inf:
        return
    for cut in _CUTS:
        moving = np.flatnonzero((np.abs(x) > cut * size) & ~curved).tolist()
        used = [j for j in moving if j not in grouped]
        spans = [_span(b, m, cut * size) for b, m in zip(program.blocks, matrices, strict=True)]
        found = [span for span in spans if span is not None]
        unknowns = sum(len(s) * (len(s) + 1) // 2 for s in found) + len(used)
        if len(found) < len(spans) or not 0 < unknowns <= _UNKNOWNS:
            continue
        yield from _solutions(program, matrices, x, found, used, cut)


def _size(matrix: Matrix) -> float:
    return matrix.largest_eigenvalue if isinstance(matrix, Gram) else float(np.abs(matrix).max())


def _span(block: Block, matrix: Matrix, dust: float) -> Rational | None:
    """Simple fractions that span the range of a matrix and meet the null conditions exactly."""
    if isinstance(matrix, FactoredGram):
        u, singular, _ = np.linalg.svd(matrix.factor, full_matrices=False)
        vectors = u[:, singular**2 > dust]
    elif isinstance(matrix, Gram):
        return None
    else:
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        vectors = vectors[:, values > dust]
    span = rounded_span(vectors)
    null = [rationals(z) for z in block.null.T]
    return None if span is None or any(dot(z, n) for z in span for n in null) else span


def _solutions(
    program: Program,
    matrices: Sequence[Matrix],
    x: Array,
    spans: list[Rational],
    used: list[int],
    cut: float,
) -> Iterator[_Exact]:
    rows = _flat_rows(program, spans, used)
    wanted = _flat_point(matrices, x, spans, used)
    # Inequalities that hardly move are equations.
    moved = table(rows, len(wanted))
    reach = np.abs(moved) @ np.abs(wanted)
    tight = (program.relations == 0) | (np.abs(moved @ wanted) <= cut * reach)
    equations = [row for row, is_tight in zip(rows, tight, strict=True) if is_tight and any(row)]
    for z in near_solution(equations, [Fraction(0)] * len(equations), wanted):
        values = [dot(row, z) for row in rows]
        pairs = zip(values, program.relations.tolist(), strict=True)
        if all(v * r >= 0 if r else v == 0 for v, r in pairs):
            yield _unpacked(program, z, spans, used)


def _flat_rows(program: Program, spans: list[Rational], used: list[int]) -> Rational:
    """Rows over the upper triangles of every Z and the variables that are used."""
    blocks = zip(program.blocks, program.spans, spans, strict=True)
    parts = [coefficients(b, program.rows_q[:, own], span) for b, own, span in blocks]
    linear = sp.csr_array(program.rows_x)[:, used].toarray()
    return [
        [a for part in parts for a in upper_triangle(part[e])] + rationals(linear[e])
        for e in range(program.n_rows)
    ]


def _flat_point(
    matrices: Sequence[Matrix], x: Array, spans: list[Rational], used: list[int]
) -> Array:
    """The same of a direction, by least squares."""
    parts = []
    for matrix, span in zip(matrices, spans, strict=True):
        if not span:
            continue
        inverse = np.linalg.pinv(table(span, len(span[0])))
        inside = inverse.T @ (matrix @ inverse)
        parts.append(inside[np.triu_indices(len(span))])
    return np.concatenate([*parts, x[used]])


def _unpacked(program: Program, z: Vector, spans: list[Rational], used: list[int]) -> _Exact:
    entries = iter(z)
    inner = []
    for span in spans:
        k = len(span)
        matrix = [[Fraction(0)] * k for _ in range(k)]
        for i in range(k):
            for j in range(i, k):
                matrix[i][j] = matrix[j][i] = next(entries)
        inner.append(matrix)
    x = [Fraction(0)] * program.n_auxiliary
    for j in used:
        x[j] = next(entries)
    return spans, inner, x


def _is_exact(program: Program, spans: list[Rational], inner: list[Rational], x: Vector) -> bool:
    """Whether a direction that moves no row the wrong way is in the cone and improves."""
    signs = all(a >= 0 for a, free in zip(x, program.free_x.tolist(), strict=True) if not free)
    cones = (_in_cone(x, cone.members.tolist()) for cone in program.cones)
    if not signs or not all(cones) or not all(is_semidefinite(z) for z in inner):
        return False
    gain = dot(rationals(program.cost_x), x)
    grows = False
    for k, (span, z) in enumerate(zip(spans, inner, strict=True)):
        gain += dot(
            upper_triangle(_cost(program, k, span)), [a for i, r in enumerate(z) for a in r[i:]]
        )
        grows = grows or bool(program.blocks[k].log_det and any(z[i][i] for i in range(len(z))))
    gain *= int(program.sign)
    return gain > 0 or (gain == 0 and grows)


def _in_cone(x: Vector, members: list[int]) -> bool:
    return is_in_cone(x[members[0]], [x[j] for j in members[1:]])


def _cost(program: Program, k: int, span: Rational) -> Rational:
    """The objective of the k-th block in the coordinates of a span."""
    block = program.blocks[k]
    out = cost_on(block.cost, span)
    g = program.cost_q[program.spans[k]]
    if g.any():
        extra = coefficients(block, sp.csr_array(g[None, :]), span)[0]
        out = [[a + b for a, b in zip(r, s, strict=True)] for r, s in zip(out, extra, strict=True)]
    return out
