"""The dual of a graph program, and the derivatives of its log barrier.

With P = T(w)⁻¹ on 1⊥, the centres of  min dᵀw, T(w) ⪰ 0, lo ≤ w ≤ hi  satisfy

    d/μ = pull(w),     pull(w)_e = b_eᵀ P b_e + 1/(w_e − lo_e) − 1/(hi_e − w_e)

T is as sparse as the graph, up to a few directions: with L(w) − cI instead of L(w) − cC, w is
feasible iff all eigenvalues but that of the constant vector are positive, which the signs of the
pivots of a sparse LDLᵀ factorisation tell (`sdpkit.numerics.updated_factor` for a cost of low
rank). The lengths b_eᵀPb_e come from the selected inverse, and products with the Hessian

    H_ef = (b_eᵀ P b_f)²  (+ a diagonal for lo and hi)

from its derivative along a direction; H itself, m × m and dense, is never formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.program.form import Program
from sdpkit.solvers.recognition import cost_extremes, stacked_edges

if TYPE_CHECKING:
    from sdpkit.numerics.pattern import Pattern
    from sdpkit.numerics.sparse_factor import SparseFactor
    from sdpkit.numerics.updated_factor import LowRankUpdate, UpdatedFactor

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

CLUSTER_EDGES = 300  # edges per cluster of the preconditioner, before they overlap
ONE_CLUSTER_EDGES = 900  # up to here the preconditioner is H itself


@dataclass(frozen=True, eq=False)
class BarrierDual:
    """min dᵀw, L(w) ⪰ cC + UsUᵀ on 1⊥ of every block, lo < w < hi, for the maximisation.

    Nodes of several blocks are numbered one after the other.

    Attributes
    ----------
    pattern: the graph;  clusters: overlapping sets of neighbouring edges
    d, lo, hi: (m,);  costs: c of each block;  shift: (n,) the diagonal added to L(w)
    update: UsUᵀ of all blocks;  least, most: bounds on the eigenvalues of cC + UsUᵀ, all blocks'
    negative: how many negative eigenvalues a feasible T has
    degree: n − 1 per block, and 1 per finite limit: the gap at a centre is μ·degree
    """

    program: Program
    pattern: Pattern
    clusters: list[Ints]
    d: Array
    lo: Array
    hi: Array
    costs: Array
    shift: Array
    update: LowRankUpdate | None
    least: float
    most: float
    negative: int
    degree: int

    @classmethod
    def of(cls, program: Program) -> BarrierDual:
        """Stack the blocks, analyse the factors, cluster the edges."""
        from sdpkit.numerics.pattern import Pattern

        offsets = np.cumsum([0, *(block.size for block in program.blocks)])
        edges, n = stacked_edges(program)
        pattern = Pattern.of(n, edges)
        costs = np.array([program.sign * block.cost.identity for block in program.blocks])
        lo, hi = program.multiplier_box
        shift = np.repeat(-costs, np.diff(offsets))
        shift[offsets[:-1][costs == 0]] = 1.0  # a node is pinned where c = 0
        limits = np.isfinite(lo).sum() + np.isfinite(hi).sum()
        extremes = [cost_extremes(program, k) for k in range(len(program.blocks))]
        return cls(
            program,
            pattern,
            _clusters(pattern),
            program.rhs,
            lo,
            hi,
            costs,
            shift,
            _stacked(program),
            min(least for least, _ in extremes),
            max(most for _, most in extremes),
            int(np.sum(costs > 0)),
            int(pattern.n - len(costs) + limits),
        )

    def at(self, w: Array) -> BarrierPoint | None:
        """The point w, or None if it is not strictly feasible."""
        from sdpkit.numerics.updated_factor import factored

        if not np.all((w > self.lo) & (w < self.hi)):
            return None
        factor = factored(self.pattern, w, self.shift, self.update)
        # A huge entry means that a pivot nearly vanished: the signs are not to be trusted.
        if factor.negative != self.negative or factor.growth > 1e10:
            return None
        return BarrierPoint(self, w, factor)

    def value(self, w: Array) -> float:
        """dᵀw."""
        return float(self.d @ w)


def _stacked(program: Program) -> LowRankUpdate | None:
    """The costs of low rank of all blocks as one, over the nodes of all blocks."""
    from sdpkit.numerics.updated_factor import LowRankUpdate

    parts = [block.low_rank for block in program.blocks]
    if not any(parts):
        return None
    pieces = zip(program.blocks, parts, strict=True)
    empty = [np.zeros((b.size, 0)) if part is None else part.vectors for b, part in pieces]
    weights = np.concatenate([part.weights for part in parts if part is not None])
    return LowRankUpdate(scipy.linalg.block_diag(*empty), program.sign * weights)


@dataclass(frozen=True, eq=False)
class BarrierPoint:
    """A strictly feasible w with the derivatives of the barrier there."""

    dual: BarrierDual
    w: Array
    factor: SparseFactor | UpdatedFactor

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """1/(w − lo), 1/(hi − w); zero where there is no limit."""
        return 1.0 / (self.w - self.dual.lo), 1.0 / (self.dual.hi - self.w)

    @cached_property
    def pull(self) -> Array:
        """The negative gradient of the barrier: d/μ at a centre."""
        below, above = self.limits
        return self.factor.inverse_lengths() + below - above

    @cached_property
    def curvature(self) -> Array:
        """The limits' part of the Hessian, a diagonal."""
        below, above = self.limits
        return below**2 + above**2

    def hessian(self, v: Array) -> Array:
        """H v."""
        return self.factor.inverse_lengths_along(v) + self.curvature * v

    def potential(self, mu: float) -> float:
        """dᵀw/μ plus the barrier, up to a constant."""
        below, above = self.limits
        value = self.dual.value(self.w) / mu - self.factor.log_determinant
        return value + float(np.log(below[below > 0]).sum() + np.log(above[above > 0]).sum())


def _clusters(pattern: Pattern) -> list[Ints]:
    """Sets of neighbouring edges that overlap by the edges at their nodes.

    The midpoints of the edges in the commute-time embedding of the graph are halved along their
    longest extent until they are few enough.
    """
    from sdpkit.numerics.eigenpairs import leading_eigenpairs
    from sdpkit.numerics.sparse_factor import SparseFactor

    n, edges, m = pattern.n, pattern.edges, len(pattern.edges)
    if m <= ONE_CLUSTER_EDGES:
        return [np.arange(m)]
    factor = SparseFactor.of(pattern, pattern.laplacian(np.ones(m), 1e-2))
    values, vectors = leading_eigenpairs(lambda x: factor.solve(x.ravel()), n, 9)
    embedding = vectors[:, 1:] * np.sqrt(values[1:])
    midpoints = embedding[edges[:, 0]] + embedding[edges[:, 1]]
    touched = np.zeros(n, dtype=bool)
    out = []
    for part in _halved(midpoints, np.arange(m)):
        touched[:] = False
        touched[edges[part]] = True
        out.append(np.flatnonzero(touched[edges].any(axis=1)))
    return out


def _halved(points: Array, chosen: Ints) -> Iterator[Ints]:
    pieces = -(-chosen.size // CLUSTER_EDGES)
    if pieces == 1:
        yield chosen
        return
    centred = points[chosen] - points[chosen].mean(axis=0)
    axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    along = chosen[np.argsort(centred @ axis, kind="stable")]
    middle = chosen.size * (pieces // 2) // pieces
    yield from _halved(points, along[:middle])
    yield from _halved(points, along[middle:])
