"""A dual barrier method for graph programs that only ever touches sparse factors.

For the maximisation (a minimisation is negated) over the Gram matrix K of a graph,

    minimise    dᵀw
    subject to  T(w) = L(w) − cC ⪰ 0 on 1⊥,   lo ≤ w ≤ hi

where lo and hi are signs (inequality rows) and slack boxes. With P = T(w)⁻¹ on 1⊥, the centres

    d/μ = pull(w),     pull(w)_e = b_eᵀ P b_e + 1/(w_e − lo_e) − 1/(hi_e − w_e)

are followed as μ falls. T is as sparse as the graph: with L(w) − cI instead of L(w) − cC, w is
feasible iff all eigenvalues but that of the constant vector are positive, which the signs of the
pivots of a sparse LDLᵀ factorisation tell. The lengths b_eᵀPb_e come from the selected inverse,
and products with the Hessian

    H_ef = (b_eᵀ P b_f)²  (+ a diagonal for lo and hi)

from its derivative along a direction; H itself, m × m and dense, is never formed.

Newton's equations are solved by conjugate gradients, preconditioned by H among the edges of
clusters plus a low rank: with P = Σ v_i v_iᵀ/λ_i,  H = Σ_ij p_ij p_ijᵀ/(λ_i λ_j) over the products
p_ij(e) = (b_e·v_i)(b_e·v_j), and what is long-ranged in H are the products of the lowest modes.

Centres are smooth in μ and nearly linear, since an active eigenvalue of T falls in proportion to
μ: from one centre to the next they are extrapolated in μ, not in log μ, by the cubic through two
centres and their tangents  μ H dw/dμ = pull. One Newton step brings the extrapolated point back.

The primal comes with the step Δ of the last Newton equation: K = μ P T(w − Δ) P meets the rows
to the residual of that equation and is positive semidefinite iff w − Δ is feasible
(`sdpkit.gram.ResolventGram`); it is applied by sparse solves and never formed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import blas, lapack
from scipy.sparse.csgraph import connected_components, dijkstra

from sdpkit.errors import InputError
from sdpkit.gram import FactoredGram, Gram, Matrix, ResolventGram
from sdpkit.program import Program
from sdpkit.registry import Capabilities
from sdpkit.solution import Answer, Settings, Solution, Stop

if TYPE_CHECKING:
    from sdpkit.sparse_factor import Pattern, SparseFactor

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAX_ITER = 400
_CLUSTER = 500  # edges per block of the preconditioner
_ONE_CLUSTER = 900  # up to here the preconditioner is H itself
_MODES = 12  # lowest modes of T whose products it adds
_PRODUCTS = 60  # how many of the products
_STALE = 0.6  # μ may fall by this much before the preconditioner is made anew
_NEAR = 0.25  # a Newton decrement below which a point counts as centred
_REACH = 1.5  # Newton decrement allowed to an extrapolated point
_MARGIN = 1.1  # it must stay feasible when it goes this much further
_STEADY = 0.1  # what conjugate gradients may leave of a decrement


# -- the dual program -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Dual:
    """min dᵀw, L(w) ⪰ cC on 1⊥ of every block, lo < w < hi, for the maximisation.

    Nodes of several blocks are numbered one after the other; edges lie cluster by cluster.

    Attributes
    ----------
    pattern: the graph;  clusters: (k + 1,) where each cluster's edges begin
    edges: (m,) the program's row of each edge
    d, lo, hi: (m,);  shift: (n,) the diagonal added to L(w)
    negative: how many negative eigenvalues a feasible T has
    degree: n − 1 per block, and 1 per finite limit: the gap at a centre is μ·degree
    """

    program: Program
    pattern: Pattern
    clusters: Ints
    edges: Ints
    d: Array
    lo: Array
    hi: Array
    shift: Array
    negative: int
    degree: int

    @classmethod
    def of(cls, program: Program) -> _Dual:
        """Stack the blocks, cluster the edges, analyse the factors."""
        from sdpkit.sparse_factor import Pattern

        offsets = np.cumsum([0, *(block.size for block in program.blocks)])
        pairs = [
            edges + offset
            for edges, offset in zip((b.edges for b in program.blocks), offsets, strict=False)
            if edges is not None
        ]
        n, edges = int(offsets[-1]), np.concatenate(pairs)
        rows = program.rows_q.tocsc().indices.astype(np.int64)  # the row of each measurement
        order, clusters = _clustered(n, edges)
        rows = rows[order]
        costs = np.array([program.sign * block.cost.identity for block in program.blocks])
        lo, hi = program.multiplier_box
        shift = np.repeat(-costs, np.diff(offsets))
        shift[offsets[:-1][costs == 0]] = 1.0  # a node is pinned where c = 0
        limits = np.isfinite(lo).sum() + np.isfinite(hi).sum()
        return cls(
            program,
            Pattern.of(n, edges[order]),
            clusters,
            rows,
            program.rhs[rows],
            lo[rows],
            hi[rows],
            shift,
            int(np.sum(costs > 0)),
            int(n - len(costs) + limits),
        )

    def at(self, w: Array) -> _Point | None:
        """The point w, or None if it is not strictly feasible."""
        from sdpkit.sparse_factor import SparseFactor

        if not np.all((w > self.lo) & (w < self.hi)):
            return None
        factor = SparseFactor.of(self.pattern, self.pattern.laplacian(w, self.shift))
        # A huge entry means that a pivot nearly vanished: the signs are not to be trusted.
        if factor.negative != self.negative or factor.growth > 1e10:
            return None
        return _Point(self, w, factor)

    def value(self, w: Array) -> float:
        """dᵀw."""
        return float(self.d @ w)

    def to_rows(self, w: Array) -> Array:
        """Multipliers in the order of the program's rows."""
        out = np.empty(w.size)
        out[self.edges] = w
        return out


@dataclass(frozen=True, eq=False)
class _Point:
    """A strictly feasible w with the derivatives of the barrier there."""

    dual: _Dual
    w: Array
    factor: SparseFactor

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
        n = self.dual.pattern.n
        value = self.dual.value(self.w) / mu - float(np.log(np.abs(self.factor.values[:n])).sum())
        return value + float(np.log(below[below > 0]).sum() + np.log(above[above > 0]).sum())


def _clustered(n: int, edges: Ints) -> tuple[Ints, Ints]:
    """(order, starts): edges in an order in which clusters of neighbours are contiguous.

    The midpoints of the edges in the commute-time embedding of the graph are halved along their
    longest extent until they are few enough.
    """
    from sdpkit.sparse_factor import Pattern, SparseFactor, leading_eigenpairs

    m = len(edges)
    if m <= _ONE_CLUSTER:
        return np.arange(m), np.array([0, m])
    pattern = Pattern.of(n, edges)
    factor = SparseFactor.of(pattern, pattern.laplacian(np.ones(m), 1e-2))
    values, vectors = leading_eigenpairs(lambda x: factor.solve(x.ravel()), n, 9)
    embedding = vectors[:, 1:] * np.sqrt(values[1:])
    midpoints = embedding[edges[:, 0]] + embedding[edges[:, 1]]
    parts = list(_halved(midpoints, np.arange(m)))
    return np.concatenate(parts), np.cumsum([0, *(part.size for part in parts)])


def _halved(points: Array, chosen: Ints) -> Iterator[Ints]:
    pieces = -(-chosen.size // _CLUSTER)
    if pieces == 1:
        yield chosen
        return
    centred = points[chosen] - points[chosen].mean(axis=0)
    axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    along = chosen[np.argsort(centred @ axis, kind="stable")]
    middle = chosen.size * (pieces // 2) // pieces
    yield from _halved(points, along[:middle])
    yield from _halved(points, along[middle:])


# -- Newton's equations ---------------------------------------------------------------------


class _Preconditioner:
    """(D + UUᵀ)⁻¹: D is what UUᵀ leaves of H among the edges of each cluster."""

    def __init__(self, point: _Point, mu: float) -> None:
        self.mu = mu
        self.point = point
        self.starts = point.dual.clusters
        self.low_rank = self._products() if len(self.starts) > 2 else None
        self.inverses = [self._inverse(k) for k in range(len(self.starts) - 1)]
        if self.low_rank is not None:
            self.image = self._blocks(self.low_rank)
            small = blas.dgemm(1.0, self.low_rank, self.image, trans_a=1)
            small[np.diag_indices(len(small))] += 1.0
            self.small = lapack.dpotrf(small, lower=1)[0]

    def _products(self) -> Array:
        """(m, k) U: products of differences of the lowest modes, the heaviest first."""
        from sdpkit.sparse_factor import leading_eigenpairs

        point = self.point
        n, edges = point.dual.pattern.n, point.dual.pattern.edges
        solve = point.factor.solve
        values, vectors = leading_eigenpairs(lambda x: solve(x.ravel()), n, min(_MODES, n - 2))
        values = np.maximum(values, 0.0)
        differences = vectors[edges[:, 0]] - vectors[edges[:, 1]]
        i, j = np.triu_indices(values.size)
        weights = values[i] * values[j] * np.where(i == j, 1.0, 2.0)
        heavy = np.argsort(-weights, kind="stable")[:_PRODUCTS]
        i, j = i[heavy], j[heavy]
        return np.asfortranarray(differences[:, i] * differences[:, j] * np.sqrt(weights[heavy]))

    def _inverse(self, k: int) -> Array:
        """The inverse of cluster k's block, in LAPACK's lower triangle."""
        point, edges = self.point, slice(self.starts[k], self.starts[k + 1])
        nodes, ends = np.unique(point.dual.pattern.edges[edges], return_inverse=True)
        ends = ends.reshape(-1, 2)
        block = _gathered(point.factor.inverse_among(nodes), ends)
        block *= block
        places = np.diag_indices(len(block))
        block[places] += point.curvature[edges]
        diagonal = block[places].copy()
        if self.low_rank is not None:
            part = np.asfortranarray(self.low_rank[edges])
            block = blas.dsyrk(-1.0, part, beta=1.0, c=block.T, lower=1, overwrite_c=1)
        for ridge in (1e-13, 1e-10, 1e-7, 1e-4, 1.0):
            block[places] += ridge * diagonal
            factor, info = lapack.dpotrf(block, lower=1)
            if info == 0:
                return np.asarray(lapack.dpotri(factor, lower=1, overwrite_c=1)[0])
        return np.diag(1.0 / diagonal)

    def _blocks(self, r: Array) -> Array:
        """D⁻¹ times a vector or the columns of a matrix."""
        out = np.empty(r.shape, order="F")
        for k, inverse in enumerate(self.inverses):
            part = slice(self.starts[k], self.starts[k + 1])
            if r.ndim == 1:
                out[part] = blas.dsymv(1.0, inverse, r[part], lower=1)
            else:
                out[part] = blas.dsymm(1.0, inverse, r[part], lower=1)
        return out

    def __call__(self, r: Array) -> Array:
        """The preconditioner times r."""
        out = self._blocks(r)
        if self.low_rank is not None:
            inner = lapack.dpotrs(self.small, blas.dgemv(1.0, self.image, r, trans=1), lower=1)[0]
            out -= blas.dgemv(1.0, self.image, inner)
        return out


def _gathered(matrix: Array, ends: Ints) -> Array:
    """B M Bᵀ for the rows e_i − e_j of B."""
    half = matrix[ends[:, 0]] - matrix[ends[:, 1]]
    return np.asarray(half[:, ends[:, 0]] - half[:, ends[:, 1]])


@dataclass(frozen=True, eq=False)
class _Solved:
    """Hx = b up to a residual; `left` is the residual's norm in the preconditioner."""

    x: Array
    residual: Array
    left: float
    products: int


def _conjugate_gradients(
    point: _Point,
    precondition: _Preconditioner,
    rhs: Array,
    tol: float,
    start: Array | None = None,
    largest: float = np.inf,
    limit: int = 1000,
) -> _Solved:
    """Solve Hx = rhs until √(rᵀM⁻¹r) ≤ tol and max |r| ≤ largest."""
    x = np.zeros(rhs.size) if start is None else start.copy()
    r = rhs.copy() if start is None else rhs - point.hessian(x)
    z = precondition(r)
    rz, direction, k = float(r @ z), z, 0
    for k in range(limit):  # noqa: B007
        if rz <= tol**2 and np.abs(r).max() <= largest:
            break
        image = point.hessian(direction)
        curvature = float(direction @ image)
        if not curvature > 0:
            break
        alpha = rz / curvature
        x += alpha * direction
        r -= alpha * image
        z = precondition(r)
        new = float(r @ z)
        if not new > 0:
            break
        direction = z + (new / rz) * direction
        rz = new
    return _Solved(x, r, float(np.sqrt(max(rz, 0.0))), k + (start is not None))


# -- following the path ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Primal:
    """K = μ P T(w − Δ) P at a point w with the Newton step Δ."""

    point: _Point
    step: Array
    mu: float
    residual: float

    @property
    def gap(self) -> float:
        """dᵀw less the primal value, up to the residual."""
        return self.mu * (self.point.dual.degree - float(self.point.pull @ self.step))


@dataclass(frozen=True, eq=False)
class _Centre:
    """A centre and its tangent dw/dμ."""

    mu: float
    w: Array
    slope: Array


class _Path:
    """Predictor–corrector along μ."""

    def __init__(self, dual: _Dual, point: _Point, tol: float) -> None:
        self.dual, self.tol = dual, tol
        self.point, self.mu = point, np.inf
        self.primal: _Primal | None = None
        self.before: _Centre | None = None
        self.products = 0
        self.ratio = 0.6
        self.decrement = np.inf
        self.preconditioner = _Preconditioner(point, np.inf)

    def _solve(self, rhs: Array, tol: float, **more: Any) -> _Solved:
        solved = _conjugate_gradients(self.point, self.preconditioner, rhs, tol, **more)
        self.products += solved.products
        return solved

    def begin(self) -> None:
        """The μ whose centre is nearest: d/μ = pull in the metric of the Hessian."""
        toward = self._solve(self.dual.d, 1e-2 * self._size(self.dual.d)).x
        along = float(toward @ self.point.pull)
        self.mu = float(toward @ self.dual.d) / along if along > 0 else np.inf
        if not 0 < self.mu < np.inf:
            self.mu = float(np.linalg.norm(self.dual.d) / np.linalg.norm(self.point.pull))

    def _size(self, rhs: Array) -> float:
        return float(np.sqrt(max(rhs @ self.preconditioner(rhs), 0.0)))

    def refresh(self) -> None:
        """A new preconditioner where the old one is of another μ or point."""
        if self.mu <= _STALE * self.preconditioner.mu or self.decrement > _REACH:
            self.preconditioner = _Preconditioner(self.point, self.mu)

    def correct(self, largest: float = np.inf) -> None:
        """One Newton step towards the centre of μ; remembers the primal that comes with it."""
        gradient = self.dual.d / self.mu - self.point.pull
        solved = self._solve(-gradient, _STEADY * _NEAR, largest=largest / self.mu)
        step = solved.x
        self.decrement = float(np.sqrt(max(-(gradient @ step), 0.0)))
        reflected = self.dual.at(self.point.w - step)
        if reflected is not None:
            residual = self.mu * float(np.abs(solved.residual).max())
            self.primal = _Primal(self.point, step, self.mu, residual)
        self.point = self._searched(step, -float(gradient @ step))

    def _searched(self, step: Array, slope: float) -> _Point:
        """The point after a step that is shortened until it is feasible and descends."""
        now = self.point.potential(self.mu)
        length = 1.0
        for _ in range(60):
            moved = self.dual.at(self.point.w + length * step)
            if moved is not None:
                slack = 1e-12 * abs(now)
                if moved.potential(self.mu) <= now - 1e-2 * length * slope + slack:
                    return moved
            length *= 0.7
        return self.point

    def advance(self, lowest: float) -> None:
        """Extrapolate the centres to a smaller μ, not below `lowest`."""
        guess = None if self.before is None else self.mu * self._slope_at(self.mu)
        tangent = self._solve(self.point.pull, _STEADY, start=guess).x / self.mu
        centre = _Centre(self.mu, self.point.w, tangent)
        ratio = max(self.ratio**1.5, lowest / self.mu)
        for _ in range(60):
            mu = ratio * self.mu
            w = _extrapolated(centre, self.before, mu)
            if self.dual.at(centre.w + _MARGIN * (w - centre.w)) is not None:
                point = self.dual.at(w)
                if point is not None and self._off(point, mu) <= _REACH:
                    break
            ratio **= 0.8
        else:
            point, mu, ratio = self.point, 0.99 * self.mu, 0.99
        self.before, self.ratio = centre, ratio
        self._newest = centre
        self.point, self.mu = point, mu

    def _off(self, point: _Point, mu: float) -> float:
        """About the Newton decrement of a point."""
        return self._size(self.dual.d / mu - point.pull)

    def _slope_at(self, mu: float) -> Array:
        """The last centre's tangent serves as a guess of the next."""
        assert self.before is not None
        return self.before.slope


def _extrapolated(now: _Centre, before: _Centre | None, mu: float) -> Array:
    """The cubic in μ through two centres with their tangents (a line through one), at `mu`."""
    h = mu - now.mu
    line = now.w + h * now.slope
    if before is None:
        return line
    span = before.mu - now.mu
    bend = (before.w - now.w - span * now.slope) / span**2
    turn = (before.slope - now.slope) / span
    return np.asarray(line + h**2 * (3 * bend - turn) + h**3 * (turn - 2 * bend) / span)
