"""The dual of a graph program, and the derivatives of its log barrier.

With P = T(w)⁻¹ on 1⊥, the centres of  min dᵀw, T(w) ⪰ 0, lo ≤ w ≤ hi  satisfy

    d/μ = pull(w),     pull(w)_e = b_eᵀ P b_e + 1/(w_e − lo_e) − 1/(hi_e − w_e)

T is as sparse as the graph, up to a few directions: with L(w) − cI instead of L(w) − cC, w is
feasible iff all eigenvalues but that of the constant vector are positive, which the signs of the
pivots of a sparse LDLᵀ factorisation tell (`sdpkit.numerics.updated_factor` for a cost of low
rank). The lengths b_eᵀPb_e come from the selected inverse, and products with the Hessian

    H_ef = (b_eᵀ P b_f)²  (+ a diagonal for lo and hi)

from its derivative along a direction; H itself, m × m and dense, is never formed.

On a face with more null directions than the constant one (facial reduction), L(w) is written in
weights of a graph with a few more edges (`sdpkit.numerics.local_face`). The lengths of some edges
follow from those of others there: their weights stay what they are at the start (`barrier_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.form import Program
from sdpkit.solvers.barrier_rows import independent_edges
from sdpkit.solvers.recognition import cost_extremes, stacked_edges
from sdpkit.typing import Array, Bools, Indices

if TYPE_CHECKING:
    from sdpkit.numerics.pattern import Pattern
    from sdpkit.numerics.sparse_factor import SparseFactor
    from sdpkit.numerics.updated_factor import LowRankUpdate, UpdatedFactor


CLUSTER_EDGES = 300  # edges per cluster of the preconditioner, before they overlap
_STIFFNESS = 1e5  # of null directions, in units of the cost
ONE_CLUSTER_EDGES = 900  # up to here the preconditioner is H itself


@dataclass(frozen=True, eq=False)
class BarrierDual:
    """min dᵀw, L(w) ⪰ cC + UsUᵀ on 1⊥ of every block, lo < w < hi, for the maximisation.

    Nodes of several blocks are numbered one after the other.

    Attributes
    ----------
    pattern: the graph, its m edges first;  clusters: overlapping sets of neighbouring edges
    to_pattern: (·, m) from w to weights of the pattern's edges, None if they are the same
    stiffness: the weights of null directions;  soft: (n, k) R, so that RRᵀ is their part of T⁻¹
    free: (m,) the weights that move;  d: (m,) the lengths, 0 where the weight does not move
    lo, hi: (m,);  costs: c of each block;  shift: (n,) the diagonal added to L(w)
    update: UsUᵀ of all blocks;  least, most: bounds on the eigenvalues of cC + UsUᵀ, all blocks'
    negative: how many negative eigenvalues a feasible T has
    degree: the dimension of the face per block, and 1 per finite limit: the gap at a centre is
        μ·degree
    """

    program: Program
    pattern: Pattern
    clusters: list[Indices]
    to_pattern: sp.csr_array | None
    stiffness: Array
    soft: sp.csr_array
    free: Bools
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
        braces = [
            block.local_face.braces + k
            for block, k in zip(program.blocks, offsets[:-1], strict=True)
            if block.local_face is not None
        ]
        pattern = Pattern.of(n, np.concatenate([edges, *braces]))
        costs = np.array([program.sign * block.cost.identity for block in program.blocks])
        lo, hi = program.multiplier_box
        shift = np.repeat(-costs, np.diff(offsets))
        shift[offsets[:-1][costs == 0]] = 1.0  # a node is pinned where c = 0
        limits = np.isfinite(lo).sum() + np.isfinite(hi).sum()
        extremes = [cost_extremes(program, k) for k in range(len(program.blocks))]
        free = np.concatenate([independent_edges(block) for block in program.blocks])
        faces = [block.local_face for block in program.blocks]
        removed = sum(face.directions.shape[1] for face in faces if face is not None)
        return cls(
            program,
            pattern,
            _clusters(pattern, np.flatnonzero(free)),
            *_on_faces(program, costs),
            free,
            np.where(free, program.rhs, 0.0),
            lo,
            hi,
            costs,
            shift,
            _stacked(program),
            min(least for least, _ in extremes),
            max(most for _, most in extremes),
            int(np.sum(costs > 0)),
            int(pattern.n - len(costs) - removed + limits),
        )

    def at(self, w: Array) -> BarrierPoint | None:
        """The point w, or None if it is not strictly feasible."""
        from sdpkit.numerics.updated_factor import factored

        continue_or_raise()
        if not np.all((w > self.lo) & (w < self.hi)):
            return None
        weights = self.on_pattern(w) + self.stiffness
        factor = factored(self.pattern, weights, self.shift, self.update)
        # A huge entry means that a pivot nearly vanished: the signs are not to be trusted.
        if factor.negative != self.negative or factor.growth > 1e10:
            return None
        return BarrierPoint(self, w, factor)

    def value(self, w: Array) -> float:
        """dᵀw, of all edges."""
        return float(self.program.rhs @ w)

    @cached_property
    def beside(self) -> Array:
        """(m,) what null directions add to b_eᵀT⁻¹b_e."""
        i, j = self.edges.T
        common = self.soft[i] - self.soft[j]
        return np.asarray(common.multiply(common).sum(axis=1)).ravel()

    @property
    def edges(self) -> Indices:
        """(m, 2) those of the graph."""
        return self.pattern.edges[: self.d.size]

    def on_pattern(self, w: Array) -> Array:
        """Weights of the pattern's edges, stiffness apart."""
        return w if self.to_pattern is None else np.asarray(self.to_pattern @ w)


def _on_faces(program: Program, costs: Array) -> tuple[sp.csr_array | None, Array, sp.csr_array]:
    """The map from w to weights of the pattern's edges, the stiffness of null directions, and R."""
    faces = [block.local_face for block in program.blocks]
    n = sum(block.size for block in program.blocks)
    if not any(faces):
        return None, np.zeros(program.n_rows), sp.csr_array((n, 0))
    maps, stiffness, soft = [], [], []
    for block, face, cost in zip(program.blocks, faces, costs, strict=True):
        p, γ = block.n_measurements, stiffness_of(cost)
        maps.append(sp.eye_array(p, format="csr") if face is None else face.map)
        stiffness.append(np.zeros(p) if face is None else γ * face.stiffness)
        none = sp.csr_array((block.size, 0))
        soft.append(none if face is None else face.directions / np.sqrt(γ - cost))
    # The edges of all blocks come first, then the braces of all blocks.
    of_edges = sp.block_diag([a[: a.shape[1]] for a in maps], format="csr")
    of_braces = sp.block_diag([a[a.shape[1] :] for a in maps], format="csr")
    sizes = [block.n_measurements for block in program.blocks]
    parts = [np.split(a, [p]) for a, p in zip(stiffness, sizes, strict=True)]
    weights = np.concatenate([*(a for a, _ in parts), *(a for _, a in parts)])
    together = sp.csr_array(sp.vstack([of_edges, of_braces]))
    return together, weights, sp.csr_array(sp.block_diag(soft))


def stiffness_of(cost: float) -> float:
    """The weight of null directions. It does not matter on the face, and what K has beside it is
    as small as this is large."""
    return _STIFFNESS * (abs(cost) or 1.0)


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
        lengths = self.factor.inverse_lengths()[: self.w.size] - self.dual.beside
        return np.where(self.dual.free, lengths + below - above, 0.0)

    @cached_property
    def curvature(self) -> Array:
        """The limits' part of the Hessian, a diagonal."""
        below, above = self.limits
        return below**2 + above**2

    def hessian(self, v: Array) -> Array:
        """H v, for v that vanishes where weights do not move."""
        lengths = self.factor.inverse_lengths_along(self.dual.on_pattern(v))[: v.size]
        return np.where(self.dual.free, lengths + self.curvature * v, 0.0)

    def inverse_among(self, nodes: Indices) -> Array:
        """(k, k) T⁻¹ on the face among the given nodes, up to a constant."""
        soft = self.dual.soft[nodes]
        inverse = self.factor.inverse_among(nodes)
        return np.asarray(inverse - (soft @ soft.T).toarray()) if soft.nnz else inverse

    def potential(self, mu: float) -> float:
        """dᵀw/μ plus the barrier, up to a constant."""
        below, above = self.limits
        value = self.dual.value(self.w) / mu - self.factor.log_determinant
        return value + float(np.log(below[below > 0]).sum() + np.log(above[above > 0]).sum())


def _clusters(pattern: Pattern, chosen: Indices) -> list[Indices]:
    """Sets of neighbouring edges that overlap by the edges at their nodes, of the chosen ones.

    The midpoints of the edges in the commute-time embedding of the graph are halved along their
    longest extent until they are few enough.
    """
    from sdpkit.numerics.eigenpairs import leading_eigenpairs
    from sdpkit.numerics.sparse_factor import SparseFactor

    n, edges, m = pattern.n, pattern.edges, len(pattern.edges)
    if chosen.size <= ONE_CLUSTER_EDGES:
        return [chosen]
    factor = SparseFactor.of(pattern, pattern.laplacian(np.ones(m), 1e-2))

    def inverse(x: Array) -> Array:
        continue_or_raise()
        return factor.solve(x.ravel())

    values, vectors = leading_eigenpairs(inverse, n, 9)
    embedding = vectors[:, 1:] * np.sqrt(values[1:])
    midpoints = embedding[edges[:, 0]] + embedding[edges[:, 1]]
    touched = np.zeros(n, dtype=bool)
    out = []
    for part in _halved(midpoints, chosen):
        continue_or_raise()
        touched[:] = False
        touched[edges[part]] = True
        out.append(chosen[touched[edges[chosen]].any(axis=1)])
    return out


def _halved(points: Array, chosen: Indices) -> Iterator[Indices]:
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
