"""Strictly feasible multipliers near given ones, by a barrier method on the dual.

Multipliers of other solvers miss S(w) ⪰ 0 by their tolerance, which proves nothing. Where the dual
has an interior, points of

    minimise  bᵀw + Σ r²/(2h) − μ (Σ log det S(w) + Σ log r_j + Σ log |w_e| + Σ log(ρ² − ‖r_G‖²)
                                  + Σ log(r_h² − ‖r_T‖²))

over multipliers with r_j = 0 for free variables lie inside, and their value is within about μν of
the optimum, ν the number of terms. Newton's method starts at S₊ = S(w) + εI, which is definite; a
step of length α leaves (1 − α)ε of the shift, and a full step leaves nothing. In units of
S₊ = LLᵀ one step is a least-squares problem, solved by a QR factorisation with pivots:

    minimise  ½‖F dw − T‖² + gᵀdw,   columns of F: svec(L⁻¹A_iL⁻ᵀ),   T = svec(I + εL⁻¹L⁻ᵀ).

Everything keeps a distance from the boundary that rounding cannot cross. What is found is proven by
the ordinary bound of its multipliers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.certificate.accurate import accurate_slack
from sdpkit.certificate.rounding import gamma, most_in_column
from sdpkit.numerics.breakdown import BREAKDOWNS
from sdpkit.numerics.deadline import continue_or_raise, current_deadline
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.typing import Array

# Entries of the largest matrices, and seconds of an operation of a factorisation.
_ENTRIES, _SECONDS = 2.5e7, 3e-10
_MAX_STEPS = 40
# How much smaller the barrier becomes after a full step, and what a step leaves of the way.
_SHRINK, _TO_BOUNDARY = 0.15, 0.95
# Pivots below this share of the largest one belong to dependent columns.
_DEPENDENT = 1e-12
# Shifts are so many times what is missing; distances from the boundary, times what is rounded.
_SHIFT, _CLEAR = 2.0, 2.0
# A diagonal entry of the slack below this share of its terms is not a unit.
_NEGLIGIBLE = 1e-10


@dataclass(frozen=True, eq=False)
class _MatrixCondition:
    """One semidefinite condition on w: S(w) − margin·I ⪰ 0 in coordinates of its face, or in units
    in which its diagonal is near one.

    Attributes
    ----------
    images: (m, r, r) the matrices A_i;  cost: (r, r) C of the maximisation
    margin: the distance from the boundary that rounding may hide
    accurate: the slack without cancelled digits, where that is possible
    """

    images: Array
    cost: Array
    margin: float
    accurate: Callable[[Array], Array] | None

    def slack(self, w: Array) -> Array:
        """S(w) less the margin, (r, r)."""
        r = len(self.cost)
        if self.accurate is not None:
            return self.accurate(w) - self.margin * np.eye(r)
        image = (w @ self.images.reshape(w.size, -1)).reshape(r, r)
        return np.asarray((image + image.T) / 2 - self.cost - self.margin * np.eye(r))


@dataclass(frozen=True, eq=False)
class DualBarrier:
    """The conditions on the multipliers of a program, near given ones.

    Attributes
    ----------
    program: of the multipliers;  cones: of its blocks
    linear, limits: (k, m) sparse rows a and (k,) numbers c with aᵀw ≥ c: reduced costs and signs
    equations: (m, f) sparse columns with A_fᵀ dw = 0
    """

    program: Program
    cones: tuple[_MatrixCondition, ...]
    linear: sp.csr_array
    limits: Array
    equations: sp.csc_array

    @classmethod
    def of(cls, program: Program, w: Array) -> DualBarrier:
        """The conditions, with the roundings at w as margins."""
        free = program.equations_x
        plain = ~program.free_x & (program.quadratic_x == 0)
        columns = sp.csc_array(program.rows_x)
        unequal = np.flatnonzero(program.relations)
        signs = sp.csr_array(
            (-program.relations[unequal].astype(float), (np.arange(unequal.size), unequal)),
            shape=(unequal.size, program.n_rows),
        )
        linear = sp.vstack([columns[:, np.flatnonzero(plain)].T, signs], format="csr")
        costs = np.r_[(program.sign * program.cost_x)[plain], np.zeros(unequal.size)]
        counts = np.diff(linear.indptr)
        sizes = abs(linear) @ np.abs(w) + np.abs(costs)
        hidden = _CLEAR * gamma(int(counts.max(initial=0)) + 4) * sizes
        hidden[plain.sum() :] = 0.0  # signs are exact
        equations = sp.csc_array(columns[:, np.flatnonzero(free)])
        return cls(program, tuple(_cones(program, w)), linear, costs + hidden, equations)

    @cached_property
    def basis(self) -> Array | None:
        """(m, q) orthonormal basis of {dw : A_fᵀ dw = 0}; None where that is the whole space."""
        if not self.equations.shape[1]:
            return None
        q, r, _ = scipy.linalg.qr(self.equations.toarray(), pivoting=True)
        sizes = np.abs(np.diag(r))
        rank = int(np.sum(sizes > _DEPENDENT * sizes.max(initial=0.0)))
        return np.asarray(q[:, rank:])

    # -- one step ----------------------------------------------------------------------------

    @np.errstate(over="raise", divide="raise", invalid="raise")
    def step(self, w: Array, mu: float) -> tuple[Array, bool]:
        """(the next multipliers, whether they meet every condition); FloatingPointError beyond
        the floating-point range"""
        rows, targets, factors = [], [], []
        for cone in self.cones:
            continue_or_raise()
            shifted, shift = _definite(cone.slack(w))
            lower = scipy.linalg.cholesky(shifted, lower=True)
            inverse = scipy.linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)
            rows.append(_svec(inverse @ cone.images @ inverse.T).T)
            targets.append(_svec(np.eye(len(lower)) + shift * inverse @ inverse.T))
            factors.append((inverse, shift))
        slack = self.linear @ w - self.limits
        away = _shift(slack)
        shifted_slack = slack + away
        rows.append(self.linear.toarray() / shifted_slack[:, None])
        targets.append(1 + away / shifted_slack)
        gradient = self.program.rhs / mu
        second_order = list(self._second_order(w))
        for more, target, slope in (*second_order, *self._curved(w, mu)):
            rows.append(more)
            targets.append(target)
            gradient = gradient + slope
        f, t = np.vstack(rows), np.concatenate(targets)
        dw = self._minimiser(f, t, gradient)
        alpha = self._length(dw, factors, f, slack, away, shifted_slack)
        for more, target, _ in second_order:
            # In these units the point is √2·e, its eigenvalues those of e.
            head, *tail = (more @ dw - target) / np.sqrt(2)
            steepest = float(np.linalg.norm(tail)) - float(head)
            alpha = min(alpha, 1.0 if steepest <= _TO_BOUNDARY else _TO_BOUNDARY / steepest)
        return w + alpha * dw, alpha == 1.0

    def _minimiser(self, f: Array, t: Array, gradient: Array) -> Array:
        """argmin ½‖F dw − T‖² + gᵀdw over dw with A_fᵀ dw = 0."""
        basis = self.basis
        if basis is not None:
            f, gradient = f @ basis, basis.T @ gradient
        continue_or_raise()
        norms = np.linalg.norm(f, axis=0)
        unit = np.where(norms > 0, norms, 1.0)
        r, projected, kept = _triangle(f / unit, t)
        slope = scipy.linalg.solve_triangular(r, (gradient / unit)[kept], trans="T")
        z = np.zeros(f.shape[1])
        z[kept] = scipy.linalg.solve_triangular(r, projected - slope)
        z /= unit
        return z if basis is None else np.asarray(basis @ z)

    def _length(
        self,
        dw: Array,
        factors: list[tuple[Array, float]],
        f: Array,
        slack: Array,
        away: Array,
        shifted: Array,
    ) -> float:
        """1, or the share of the step that leaves a part of the way to the boundary."""
        steepest, at = 0.0, 0
        for inverse, shift in factors:
            r = len(inverse)
            change = _smat(f[at : at + r * (r + 1) // 2] @ dw, r) - shift * inverse @ inverse.T
            lowest = scipy.linalg.eigvalsh(change, subset_by_index=[0, 0])[0] if r else 0.0
            steepest, at = max(steepest, -float(lowest)), at + r * (r + 1) // 2
        if slack.size:
            steepest = max(steepest, -float(((self.linear @ dw - away) / shifted).min()))
        return 1.0 if steepest <= _TO_BOUNDARY else _TO_BOUNDARY / steepest

    def _second_order(self, w: Array) -> Iterator[tuple[Array, Array, Array]]:
        """(rows, targets, gradient) of the barriers of second-order cones."""
        r, columns = self.program.reduced_costs(w), self.program.columns_x
        for cone in self.program.cones:
            yield _cone_terms(columns[:, cone.members].T.toarray(), r[cone.members])

    def _curved(self, w: Array, mu: float) -> Iterator[tuple[Array, Array, Array]]:
        """(rows, targets, gradient) of the terms r²/(2hμ) and of the norms' barriers."""
        program, r = self.program, self.program.reduced_costs(w)
        columns = sp.csc_array(program.rows_x)
        curved = np.flatnonzero((program.quadratic_x > 0) & (program.free_x | (r < 0)))
        if curved.size:
            scale = 1 / np.sqrt(program.quadratic_x[curved] * mu)
            a = columns[:, curved].T.toarray() * scale[:, None]
            yield a, -scale * r[curved], np.zeros(w.size)
        for penalty in program.norms:
            group = list(penalty.group)
            a, rho = columns[:, group].T.toarray(), penalty.weight
            size = float(np.linalg.norm(r[group]))
            # Outside of the ball the step starts at the nearest point well inside.
            start = r[group] * min(1.0, (1 - 1e-6) * rho / max(size, 1e-300))
            room = rho**2 - float(start @ start)
            root = np.sqrt(2 / room) * np.eye(len(group))
            along = np.outer(start, start) / max(float(start @ start), 1e-300)
            root = root + (np.sqrt((rho**2 + start @ start) / room) - 1) * np.sqrt(2 / room) * along
            slope = 2 * start / room
            yield root @ a, root @ (start - r[group]), np.asarray(a.T @ slope)


def degree(program: Program) -> int:
    """ν, the number of the barrier's terms."""
    plain = int(np.sum(~program.free_x & (program.quadratic_x == 0)))
    unequal = int(np.count_nonzero(program.relations))
    sizes = sum(int(block.size - block.null_basis.shape[1]) for block in program.blocks)
    curved = 2 * (len(program.norms) + len(program.cones))
    return max(1, sizes + plain + unequal + curved)


def is_small(program: Program) -> bool:
    """Whether the matrices of a step fit, and one step would not take more than what is left."""
    m = float(program.n_rows)
    sizes = [float(block.size) for block in program.blocks]
    entries = m * sum(n**2 for n in sizes)
    height = sum(n * (n + 1) / 2 for n in sizes) + program.n_auxiliary + m
    free = float(program.free_x.sum())
    work = 2 * height * m**2 + (4 * m**2 * free if free else 0.0)
    large = any(block.is_large_graph for block in program.blocks)
    in_time = _SECONDS * work <= current_deadline().left
    return not large and entries <= _ENTRIES and height * m <= _ENTRIES and in_time


def centres(program: Program, w: Array, mu: float, least: float) -> Iterator[Array]:
    """Strictly feasible multipliers near w, of smaller and smaller value; none where the method
    finds none. It begins with the barrier parameter mu and ends at `least`."""
    if program.has_log_det or program.family is not None or not is_small(program):
        return
    try:
        barrier = DualBarrier.of(program, w)
        for _ in range(_MAX_STEPS):
            with np.errstate(all="ignore"):  # what overflows is seen below
                w, inside = barrier.step(w, mu)
            if not np.isfinite(w).all():
                return
            if inside:
                yield w
                if mu <= least:
                    return
                mu = max(_SHRINK * mu, least)
    except (*BREAKDOWNS, ValueError):  # numbers near the ends of the floating-point range
        return


def _cone_terms(a: Array, r: Array) -> tuple[Array, Array, Array]:
    """(rows, target, gradient) of −log(r_h² − ‖r_T‖²), the step beginning well inside."""
    length, head = float(np.linalg.norm(r[1:])), float(r[0])
    # The nearest point with r_h ≥ (1 + 1e-6)‖r_T‖, or a small one on the axis.
    least = (1 + 1e-6) * length + 1e-14 * max(abs(head), 1e-300)
    start = np.r_[max(head, least), r[1:]]
    room = start[0] ** 2 - length**2
    mirrored = np.r_[start[0], -start[1:]]
    slope = -2 * mirrored / room
    # −2J/room + 4 Js(Js)ᵀ/room² has the square root of the Nesterov–Todd scaling.
    unit = mirrored / np.sqrt(room)
    root = np.outer(unit, unit) / (1 + unit[0])
    root[0], root[:, 0] = unit, unit
    root[1:, 1:] += np.eye(r.size - 1)
    root *= np.sqrt(2 / room)
    return root @ a, root @ (start - r), np.asarray(a.T @ slope)


def _cones(program: Program, w: Array) -> Iterator[_MatrixCondition]:
    at, rows = 0, program.matrix_rows
    weights = program.split(program.sign * program.cost_q)
    sizes = np.asarray(abs(program.rows_q).T @ np.abs(w)) + np.abs(program.cost_q)
    parts = zip(program.blocks, weights, program.split(sizes), strict=True)
    for k, (block, g, size) in enumerate(parts):
        continue_or_raise()
        n = block.size
        images = rows[:, at : at + n * n].toarray().reshape(-1, n, n)
        cost = program.sign * dense(block.cost.dense())
        if g.any():
            cost = cost + dense(block.adjoint(g))
        at += n * n
        absolute = _sizes(block, size)
        least = _CLEAR * gamma(n + 2) * n
        if block.null.shape[1] or block.unseen.shape[1]:
            on_face = block.face.T @ images @ block.face, block.face.T @ cost @ block.face
            if on_face[1].size:
                margin = least * float(np.diag(absolute).max())
                yield _MatrixCondition(*on_face, margin + _rounding(program, block, absolute), None)
            continue
        slack = accurate_slack(program, k, w)
        diagonal = np.diag(absolute)
        if slack is not None:
            diagonal = np.maximum(np.abs(np.diag(slack.matrix)), _NEGLIGIBLE * diagonal)
        units = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        images, cost = _in_units(images, units), _in_units(cost, units)
        if slack is None:
            least += _rounding(program, block, _in_units(absolute, units))
            yield _MatrixCondition(images, cost, least, None)
        else:
            yield _MatrixCondition(images, cost, least, partial(_accurate, program, k, units))


def _accurate(program: Program, k: int, units: Array, w: Array) -> Array:
    slack = accurate_slack(program, k, w)
    if slack is None:
        raise FloatingPointError("the multipliers are beyond the floating-point range")
    return _in_units(slack.matrix, units)


def _rounding(program: Program, block: Block, absolute: Array) -> float:
    """What the sums of a slack may be off, from the sizes of their terms."""
    terms = most_in_column(program.rows_q) + most_in_column(block.incidence)
    chain = terms + 16 + 2 * block.size
    return _CLEAR * gamma(chain) * float(absolute.sum(axis=1).max(initial=0.0))


def _sizes(block: Block, weights: Array) -> Array:
    """|V|ᵀ diag(weights) |V| + |C|: what the entries of the slack are sums of."""
    v = abs(block.vectors())
    cost = np.abs(dense(block.cost.dense()))
    return np.asarray(dense(v.T @ sp.diags_array(weights) @ v) + cost)


def _in_units(matrices: Array, units: Array) -> Array:
    return np.asarray(matrices * units[:, None] * units)


def _definite(slack: Array) -> tuple[Array, float]:
    """(S + εI ≻ 0, ε); ε = 0 where S is definite already."""
    ends = scipy.linalg.eigvalsh(slack)
    least, tiny = float(ends[0]), 1e-14 * max(float(np.abs(ends).max()), 1e-300)
    shift = 0.0 if least > tiny else _SHIFT * abs(least) + tiny
    return slack + shift * np.eye(len(slack)), shift


def _shift(slack: Array) -> Array:
    """The same of numbers."""
    tiny = 1e-14 * max(float(np.abs(slack).max(initial=0.0)), 1e-300)
    return np.where(slack > tiny, 0.0, _SHIFT * np.abs(slack) + tiny)


def _triangle(f: Array, t: Array) -> tuple[Any, Any, Any]:
    """(R, Qᵀt, columns) of F = QR over independent columns; pivots only where they are needed."""
    q = f.shape[1]
    if len(f) >= q:
        both = np.asarray(scipy.linalg.qr(np.column_stack([f, t]), mode="r")[0])
        sizes = np.abs(np.diag(both)[:q])
        if sizes.min(initial=np.inf) > _DEPENDENT:
            return both[:q, :q], both[:q, q], np.arange(q)
    continue_or_raise()
    orthogonal, r, order = map(np.asarray, scipy.linalg.qr(f, mode="economic", pivoting=True))
    sizes = np.abs(np.diag(r))
    rank = int(np.sum(sizes > _DEPENDENT * sizes.max(initial=0.0)))
    return r[:rank, :rank], orthogonal[:, :rank].T @ t, order[:rank]


def _svec(matrices: Array) -> Array:
    """The upper triangles, off-diagonal entries times √2, along the last axis."""
    i, j = np.triu_indices(matrices.shape[-1])
    return np.asarray(matrices[..., i, j] * np.where(i == j, 1.0, np.sqrt(2.0)))


def _smat(vector: Array, r: int) -> Array:
    """The matrix of an upper triangle."""
    i, j = np.triu_indices(r)
    out = np.zeros((r, r))
    out[i, j] = vector * np.where(i == j, 1.0, np.sqrt(0.5))
    out[j, i] = out[i, j]
    return out


__all__ = ["centres", "degree", "is_small"]
