"""A dual barrier method for graph programs that only ever touches sparse factors.

For the maximisation (a minimisation is negated) over the Gram matrix K of a graph,

    minimise    dᵀw
    subject to  T(w) = L(w) − cC − UsUᵀ ⪰ 0 on 1⊥,   lo ≤ w ≤ hi

where lo and hi are signs (inequality rows) and slack boxes, and a cost of low rank, UsUᵀ, belongs
to minimum volume embedding (c = −1, s = 2). With P = T(w)⁻¹ on 1⊥, the centres

    d/μ = pull(w),     pull(w)_e = b_eᵀ P b_e + 1/(w_e − lo_e) − 1/(hi_e − w_e)

are followed as μ falls. T is as sparse as the graph, up to a few directions: with L(w) − cI instead
of L(w) − cC, w is feasible iff all eigenvalues but that of the constant vector are positive, which
the signs of the pivots of a sparse LDLᵀ factorisation tell
(`sdpkit.numerics.updated_factor` for U). The lengths b_eᵀPb_e come from the selected inverse, and
products with the Hessian

    H_ef = (b_eᵀ P b_f)²  (+ a diagonal for lo and hi)

from its derivative along a direction; H itself, m × m and dense, is never formed.

Newton's equations are solved by conjugate gradients, preconditioned by H among the edges of
overlapping clusters (additive Schwarz) plus a low rank: with P = Σ v_i v_iᵀ/λ_i, H is the sum of
p_ij p_ijᵀ/(λ_i λ_j) over the products p_ij(e) = (b_e·v_i)(b_e·v_j), and what is long-ranged in it
are the products of the lowest modes.

Centres are smooth in μ and nearly linear, since an active eigenvalue of T falls in proportion to
μ: from one centre to the next they are extrapolated in μ, not in log μ, by the cubic through two
centres and their tangents  μ H dw/dμ = pull (or a parabola, or a line, whichever goes furthest).
A Newton step or two bring the extrapolated point back.

The primal comes with the step Δ of the last Newton equation: K = μ P T(w − Δ) P meets the rows
to the residual of that equation and is positive semidefinite iff w − Δ is feasible
(`sdpkit.program.gram.ResolventGram`); it is applied by sparse solves and never formed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from sdpkit.errors import InputError
from sdpkit.numerics.kernels import clock
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix, ResolventGram
from sdpkit.program.kinds import why_no_graph
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solver import Capabilities, digits, unsupported
from sdpkit.solvers.recognition import (
    components,
    cost_extremes,
    drifting_apart,
    shortcut,
    stacked_edges,
)

if TYPE_CHECKING:
    from sdpkit.numerics.pattern import Pattern
    from sdpkit.numerics.sparse_factor import SparseFactor
    from sdpkit.numerics.updated_factor import LowRankUpdate, UpdatedFactor

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAX_ITER = 400
_CLUSTER = 300  # edges per cluster of the preconditioner, before they overlap
_ONE_CLUSTER = 900  # up to here the preconditioner is H itself
_MODES = 20  # lowest modes of T whose products it adds
_PRODUCTS = 100  # how many of the products
_STALE = 0.6  # μ may fall by this much before the preconditioner is made anew
_NEAR = 0.2  # a Newton decrement below which a point counts as centred after its step
_REACH = 10.0  # Newton decrement allowed to an extrapolated point
_MARGIN = 1.05  # it must stay feasible when it goes this much further
_STEADY = 0.06  # what conjugate gradients may leave of a decrement
_TANGENT = 0.1  # the same for tangents
_SPAN = 1.3  # centres that are extrapolated from are at least this ratio of μ apart
_GOAL = 0.8  # share of the tolerance at which the path ends
_PATIENCE = 25  # Newton steps towards one centre
_WARMING = 8  # Newton steps from a given start to the path, before it is given up
_STUCK = 0.99  # steps of μ above this go nowhere
_STALLS = 5  # so many in a row end the search
_FLOOR = 1e-13  # a relative gap below which rounding rules


# -- the dual program -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Dual:
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
    def of(cls, program: Program) -> _Dual:
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

    def at(self, w: Array) -> _Point | None:
        """The point w, or None if it is not strictly feasible."""
        from sdpkit.numerics.updated_factor import factored

        if not np.all((w > self.lo) & (w < self.hi)):
            return None
        factor = factored(self.pattern, w, self.shift, self.update)
        # A huge entry means that a pivot nearly vanished: the signs are not to be trusted.
        if factor.negative != self.negative or factor.growth > 1e10:
            return None
        return _Point(self, w, factor)

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
class _Point:
    """A strictly feasible w with the derivatives of the barrier there."""

    dual: _Dual
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
    if m <= _ONE_CLUSTER:
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
    """(D + UUᵀ)⁻¹, D⁻¹ the sum over clusters of the inverse of what UUᵀ leaves of H there."""

    def __init__(self, point: _Point, mu: float) -> None:
        self.mu, self.point, self.clusters = mu, point, point.dual.clusters
        self.low_rank = self._products() if len(self.clusters) > 1 else None
        self.inverses = [self._inverse(edges) for edges in self.clusters]
        if self.low_rank is not None:
            self.image = self._local(self.low_rank)
            small = blas.dgemm(1.0, self.low_rank, self.image, trans_a=1)
            small[np.diag_indices(len(small))] += 1.0
            self.small = lapack.dpotrf(small, lower=1)[0]

    def _products(self) -> Array:
        """(m, k) U: products of differences of the lowest modes, the heaviest first."""
        from sdpkit.numerics.eigenpairs import leading_eigenpairs

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

    def _inverse(self, edges: Ints) -> Array:
        """The inverse of a cluster's part of H − UUᵀ, in LAPACK's lower triangle."""
        point = self.point
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

    def _local(self, r: Array) -> Array:
        """D⁻¹ times a vector or the columns of a matrix."""
        out = np.zeros(r.shape, order="F")
        for edges, inverse in zip(self.clusters, self.inverses, strict=True):
            times = blas.dsymv if r.ndim == 1 else blas.dsymm
            out[edges] += times(1.0, inverse, r[edges], lower=1)
        return out

    def __call__(self, r: Array) -> Array:
        """The preconditioner times r."""
        out = self._local(r)
        if self.low_rank is not None:
            inner = lapack.dpotrs(self.small, blas.dgemv(1.0, self.image, r, trans=1), lower=1)[0]
            out -= blas.dgemv(1.0, self.image, inner)
        return out


def _gathered(matrix: Array, ends: Ints) -> Array:
    """B M Bᵀ for the rows e_i − e_j of B."""
    half = matrix[ends[:, 0]] - matrix[ends[:, 1]]
    return np.asarray(half[:, ends[:, 0]] - half[:, ends[:, 1]])


def _conjugate_gradients(
    point: _Point,
    precondition: _Preconditioner,
    rhs: Array,
    tol: float,
    start: Array | None = None,
    allowed: float | Array = np.inf,
    limit: int = 3000,
) -> tuple[Array, int]:
    """Solve Hx = rhs until √(rᵀM⁻¹r) ≤ tol and |r| ≤ allowed, entry by entry.

    Returns x and the number of products with H.
    """
    x = np.zeros(rhs.size) if start is None else start.copy()
    r = rhs.copy() if start is None else rhs - point.hessian(x)
    products = 0 if start is None else 1
    direction = precondition(r)
    rz = float(r @ direction)
    while products < limit and not (rz <= tol**2 and np.all(np.abs(r) <= allowed)):
        image = point.hessian(direction)
        products += 1
        curvature = float(direction @ image)
        if not curvature > 0:
            break  # rounding is all that is left
        x += (rz / curvature) * direction
        r -= (rz / curvature) * image
        z = precondition(r)
        before, rz = rz, float(r @ z)
        if not rz > 0:
            break
        direction = z + (rz / before) * direction
    return x, products


# -- following the path ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Primal:
    """K = μ P T(w − Δ) P at a point w with the Newton step Δ."""

    point: _Point
    step: Array
    mu: float

    @property
    def gap(self) -> float:
        """dᵀw less the primal value, up to the residual."""
        return self.mu * (self.point.dual.degree - float(self.point.pull @ self.step))

    @property
    def value(self) -> float:
        """The primal value, up to the residual."""
        return self.point.dual.value(self.point.w) - self.gap


@dataclass(frozen=True, eq=False)
class _Centre:
    """A centre and its tangent dw/dμ."""

    mu: float
    w: Array
    slope: Array


class _Path:
    """Predictor–corrector along μ."""

    def __init__(self, dual: _Dual, start: _Point, mu: float | None = None) -> None:
        self.dual, self.point = dual, start
        self.primal: _Primal | None = None
        self.centres: list[_Centre] = []
        self.products, self.ratio, self.decrement, self.stalled = 0, 0.6, np.inf, 0
        self.preconditioner = _Preconditioner(start, np.inf)
        self.mu = self.preconditioner.mu = self._nearest_mu() if mu is None else mu

    def _nearest_mu(self) -> float:
        """The μ whose centre is nearest: d/μ = pull in the metric of the Hessian."""
        d, pull = self.dual.d, self.point.pull
        toward = self._solve(d, 1e-2 * self._size(d))
        along = float(toward @ pull)
        if along > 0:
            return float(toward @ d) / along
        return float(np.linalg.norm(d) / np.linalg.norm(pull))

    @property
    def value(self) -> float:
        """The dual value of the point."""
        return self.dual.value(self.point.w)

    @property
    def gap(self) -> float:
        """The relative gap of the centre of μ, as the certificate will see it."""
        apart = self.mu * self.dual.degree
        scale = max(abs(self.value), abs(self.value - apart), self.dual.program.safe.value_scale)
        return apart / scale

    def _solve(self, rhs: Array, tol: float, **more: Any) -> Array:
        x, products = _conjugate_gradients(self.point, self.preconditioner, rhs, tol, **more)
        self.products += products
        return x

    def _size(self, rhs: Array) -> float:
        return float(np.sqrt(max(float(rhs @ self.preconditioner(rhs)), 0.0)))

    def correct(self, allowed: float | Array = np.inf) -> None:
        """One Newton step towards the centre of μ; the primal that comes with it is kept.

        `allowed` is what its rows may be off.
        """
        if self.mu <= _STALE * self.preconditioner.mu or self.decrement > _REACH:
            self.preconditioner = _Preconditioner(self.point, self.mu)
        gradient = self.dual.d / self.mu - self.point.pull
        step = self._solve(-gradient, _STEADY, allowed=allowed / self.mu)
        self.decrement = float(np.sqrt(max(-float(gradient @ step), 0.0)))
        if self.dual.at(self.point.w - step) is not None:
            self.primal = _Primal(self.point, step, self.mu)
        self.point = self._searched(step, -float(gradient @ step))

    def _searched(self, step: Array, descent: float) -> _Point:
        """The point after a step that is shortened until it is feasible and descends."""
        now = self.point.potential(self.mu)
        length = 1.0
        for _ in range(60):
            moved = self.dual.at(self.point.w + length * step)
            if moved is not None:
                least = 1e-2 * length * descent - 1e-12 * abs(now)
                if moved.potential(self.mu) <= now - least:
                    return moved
            length *= 0.7
        return self.point

    def advance(self, lowest: float) -> None:
        """Extrapolate the centres to a smaller μ, not below `lowest`."""
        guess = self.mu * self.centres[-1].slope if self.centres else None
        tangent = self._solve(self.point.pull, _TANGENT, start=guess) / self.mu
        centre = _Centre(self.mu, self.point.w, tangent)
        ratio = max(self.ratio**1.5, lowest / self.mu)
        point = self._ahead(centre, ratio * self.mu)
        while point is None and ratio < 0.999:
            ratio **= 0.8
            point = self._ahead(centre, ratio * self.mu)
        # The last centre a good way back, and those after it.
        apart = [k for k, c in enumerate(self.centres) if c.mu >= _SPAN * ratio * self.mu]
        self.centres = [*self.centres[max(apart, default=0) :], centre]
        self.ratio, self.mu = ratio, ratio * self.mu
        self.stalled = 0 if ratio < _STUCK else self.stalled + 1
        self.point = self.point if point is None else point

    def _ahead(self, centre: _Centre, mu: float) -> _Point | None:
        """The extrapolated point, if it is feasible with a margin and near its centre."""
        for w in _extrapolated(centre, self.centres[0] if self.centres else None, mu):
            if self.dual.at(centre.w + _MARGIN * (w - centre.w)) is not None:
                point = self.dual.at(w)
                if point is not None and self._size(self.dual.d / mu - point.pull) <= _REACH:
                    return point
        return None


def _extrapolated(now: _Centre, before: _Centre | None, mu: float) -> Iterator[Array]:
    """The cubic in μ through two centres with their tangents, the parabola through one of them
    and both tangents, and the line, at `mu`: each less accurate and less sensitive to errors."""
    h = mu - now.mu
    line = now.w + h * now.slope
    if before is not None:
        span = before.mu - now.mu
        bend = (before.w - now.w - span * now.slope) / span**2
        turn = (before.slope - now.slope) / span
        yield line + h**2 * (3 * bend - turn) + h**3 * (turn - 2 * bend) / span
        yield line + h**2 * turn / 2
    yield line


# -- where to start -------------------------------------------------------------------------


def _starts(dual: _Dual) -> Iterator[Array]:
    """Weights that may be strictly feasible: equal ones, or a share of the upper limits."""
    cost, ones = dual.most, np.ones(dual.d.size)
    limited = np.isfinite(dual.hi)
    width = dual.hi - np.maximum(dual.lo, 0.0)
    if cost < 0:
        # L(w) ⪰ cC holds near zero; degrees bound how near.
        near = -0.1 * cost / np.bincount(dual.pattern.edges.ravel()).max()
        inside = np.minimum(near, 0.5 * (dual.hi - dual.lo))
        yield np.clip(0.0, dual.lo + inside, dual.hi - inside)
    elif cost == 0:
        yield np.maximum(dual.lo, 0.0) + np.where(limited, 0.5 * width, 1.0)
    elif not limited.any():
        least = cost / _connectivity(dual)
        for factor in (2.0, 8.0, 100.0):
            yield factor * least * ones
    else:
        least = cost / _connectivity(dual)
        for share in (0.5, 0.75, 0.9, 0.99, 0.999):
            yield (least + share * (1 - least)) * np.where(limited, dual.hi, ones)


def _connectivity(dual: _Dual) -> float:
    """The smallest positive eigenvalue of L(1), or of L(hi) where limits are finite."""
    from sdpkit.numerics.eigenpairs import smallest_on_centred
    from sdpkit.numerics.pattern import Pattern

    edges, weights = dual.pattern.edges, np.where(np.isfinite(dual.hi), dual.hi, 1.0)
    count, labels = components(dual.pattern)
    values = []
    for k in range(count):
        nodes, own = np.flatnonzero(labels == k), labels[edges[:, 0]] == k
        if own.any():
            part = Pattern.of(nodes.size, np.searchsorted(nodes, edges[own]))
            values.append(smallest_on_centred(part, weights[own], 0.0))
    return min(values)


# -- the solver -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Barrier:
    """The engine behind `solver="barrier"`."""

    name: str = "barrier"
    capabilities: Capabilities = field(
        default_factory=lambda: Capabilities(
            warm_start=True,
            callback=True,
            checkpoint=True,
            summary="dual barrier on sparse factors; graph programs, up to tens of thousands",
        )
    )

    def unavailable(self) -> str | None:
        """Always available."""
        return None

    def accepts(self, program: Program) -> str | None:
        """Graph programs."""
        lacking, reason = unsupported(self.capabilities, program), why_no_graph(program)
        return lacking or (reason and f"only solves graph programs; {reason}")

    def memory(self, program: Program) -> float:
        """Bytes: the preconditioner's blocks, the pairs of the factor, and K where it is formed."""
        m = float(program.n_rows)
        blocks = m * min(m, _CLUSTER if m > _ONE_CLUSTER else m) + 2.0 * _PRODUCTS * m
        formed = sum(3.0 * b.size**2 for b in program.blocks if not b.is_large_graph)
        pairs = sum(
            b.pattern.pairs / 2.0 if b.is_large_graph else 4.0 * float(b.size) ** 1.5
            for b in program.blocks
        )
        return float(8.0 * (2.0 * blocks + formed + pairs + 60.0 * m))

    def seconds(self, program: Program, tol: float) -> float:
        """By rows and the fill of the sparse factor; below 1500 nodes K is formed too."""
        m, sizes = float(program.n_rows), [float(block.size) for block in program.blocks]
        if any(block.is_large_graph for block in program.blocks):
            pairs = sum(block.pattern.pairs for block in program.blocks if block.is_large_graph)
            return 5e-5 * digits(tol) * m * math.pow(pairs, 0.25)
        formed = 2e-8 * max(m, *sizes) * sum(n**2 for n in sizes)
        return 0.05 + digits(tol) / 6 * 1.5 * (formed + 3e-9 * m**3)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Recognise what has no optimum, else follow the path of centres."""
        if settings.options:
            option = next(iter(settings.options))
            raise InputError(f"barrier has no option {option!r}; there are tol and max_iter")
        started = clock()
        without = drifting_apart(program) or shortcut(program)
        if without is not None:
            return replace(without, solve_time=clock() - started)
        dual = _Dual.of(program)
        starts = list(_starting_points(dual, settings))
        setup = clock() - started
        deadline = None if settings.time_limit is None else started + settings.time_limit
        answer = _follow(dual, starts, settings, deadline)
        return replace(answer, setup_time=setup, solve_time=clock() - started - setup)


def _starting_points(dual: _Dual, settings: Settings) -> Iterator[tuple[_Point, float | None]]:
    """Strictly feasible points, the most promising first, with their μ where it is known: where an
    earlier run left off, a given solution, moved inwards if need be, and a plain one."""
    state = None if settings.checkpoint is None else settings.checkpoint.state
    saved = None if state is None else dual.at(state["w"])
    if saved is not None and state is not None:
        yield saved, float(state["mu"])
    plain = (dual.at(w) for w in _starts(dual))
    cold = next((point for point in plain if point is not None), None)
    if cold is None:
        return
    given = settings.warm_start
    if given is not None and given.dual is not None and given.dual.size == dual.d.size:
        w = dual.program.sign * given.dual
        shares = (0.0, 1e-3, 1e-2, 0.1) if np.isfinite(w).all() else ()
        blends = (dual.at((1 - share) * w + share * cold.w) for share in shares)
        warm = next((point for point in blends if point is not None), None)
        if warm is not None:
            yield warm, None
    yield cold, None


def _follow(
    dual: _Dual,
    starts: list[tuple[_Point, float | None]],
    settings: Settings,
    deadline: float | None,
) -> Answer:
    """Centre, report, extrapolate, until the gap is what was asked for."""
    if not starts:
        return Answer(Stop.FAILED, "no strictly feasible multipliers were found", iterations=0)
    run = _Run(dual, settings, deadline)
    try:
        run.begin(starts)
        stop, words = run.through()
    except KeyboardInterrupt:
        stop, words = Stop.INTERRUPTED, "interrupted"
    run.save()
    return run.answer(stop, words)


class _Run:
    """The loop over centres, its history and its end."""

    def __init__(self, dual: _Dual, settings: Settings, deadline: float | None) -> None:
        self.dual, self.settings, self.deadline = dual, settings, deadline
        self.history: list[Mapping[str, float]] = []
        self.path: _Path | None = None
        state = None if settings.checkpoint is None else settings.checkpoint.state
        self.steps = 0 if state is None else int(state["steps"])
        self.limit = self.steps + (settings.max_iter or _MAX_ITER)

    def begin(self, starts: list[tuple[_Point, float | None]]) -> None:
        """Take the first start from which a centre is a few Newton steps away, or else the last.

        A solution of another program lies near the boundary of this one, and the way back to the
        path may be longer than the path.
        """
        for point, mu in starts:
            self.path = _Path(self.dual, point, mu)
            if point is starts[-1][0] or self._settles(self.path):
                return

    def _settles(self, path: _Path) -> bool:
        for _ in range(_WARMING):
            if self._verdict(path) is not None:
                return True  # the loop will find the same and end
            path.correct()
            self.steps += 1
            if path.decrement <= _NEAR:
                return True
        return False

    def save(self) -> None:
        """Write the centre at hand to the checkpoint, if there is one."""
        if self.settings.checkpoint is not None and self.path is not None:
            w, mu = self.path.point.w, self.path.mu
            self.settings.checkpoint.save(w=w, mu=mu, steps=self.steps)

    def through(self) -> tuple[Stop, str]:
        """Follow the path to its end; why it ended."""
        path, goal = self.path, _GOAL * self.settings.tol
        assert path is not None
        while True:
            last = path.gap <= goal
            allowed = self._allowed(path) if last else np.inf
            for _ in range(_PATIENCE):
                verdict = self._verdict(path)
                if verdict is not None:
                    return verdict
                path.correct(allowed)
                self.steps += 1
                if path.decrement <= _NEAR and (not last or self._is_current(path)):
                    break
            self._record(path)
            if path.gap <= goal and last:
                return Stop.DONE, f"converged: relative gap {path.gap:.1e}"
            if path.gap < _FLOOR or not np.isfinite(path.gap) or path.stalled >= _STALLS:
                # Far from a solution means that there may be none: let the rays be asked for.
                stop = Stop.DONE if path.gap < 0.1 else Stop.FAILED
                return stop, f"the path ends at a relative gap of {path.gap:.1e}"
            path.advance(0.95 * goal * path.mu / path.gap)

    def _allowed(self, path: _Path) -> Array:
        """(m,) what the rows of the final primal may be off.

        Equality rows are judged against the longest; where K is shrunk into its limits each row
        counts by itself; where slack takes up the rest, it has a price.
        """
        dual, tol = self.dual, self.settings.tol
        out = np.full(dual.d.size, 0.2 * tol * float(np.abs(dual.d).max()))
        limited = np.isfinite(dual.lo) | np.isfinite(dual.hi)
        out[limited] = np.minimum(out, 0.1 * tol * np.abs(dual.d))[limited]
        priced = np.isfinite(dual.hi) & (dual.hi > 0)
        worth = 0.1 * tol * abs(path.value) / dual.d.size
        out[priced] = np.minimum(out[priced], worth / dual.hi[priced])
        return out

    @staticmethod
    def _is_current(path: _Path) -> bool:
        return path.primal is not None and path.primal.mu == path.mu

    def _verdict(self, path: _Path) -> tuple[Stop, str] | None:
        if self._proves_infeasible(path.point.w):
            return Stop.CLAIMS_INFEASIBLE, "the multipliers are a ray"
        if self.steps >= self.limit:
            return Stop.ITERATION_LIMIT, f"{self.steps} Newton steps"
        if self.deadline is not None and clock() > self.deadline:
            return Stop.TIME_LIMIT, "time limit"
        return None

    def _proves_infeasible(self, w: Array) -> bool:
        """Whether dᵀw < 0 for a w with L(w) ⪰ 0; finite upper limits are slack, which helps."""
        ray = self._as_ray(w)
        return ray is not None and self.dual.value(ray) < 0

    def _as_ray(self, w: Array) -> Array | None:
        """Multipliers with L(w) ⪰ 0: w itself if the cost is, else moved along λ₂(L(1))."""
        if np.isfinite(self.dual.hi).any():
            return None
        lack = max(0.0, -self.dual.least)
        return np.asarray(w + 1.01 * lack / self.connectivity) if lack else w

    @cached_property
    def connectivity(self) -> float:
        """λ₂(L(1)), of any component."""
        return _connectivity(self.dual)

    def _record(self, path: _Path) -> None:
        sign, offset = self.dual.program.sign, self.dual.program.offset
        primal = path.primal
        row = {
            "iteration": float(self.steps),
            "objective": np.nan if primal is None else sign * primal.value + offset,
            "dual_objective": sign * path.value + offset,
            "gap": path.gap,
            "mu": path.mu,
            "decrement": path.decrement,
            "ratio": path.ratio,
            "products": float(path.products),
        }
        self.history.append(row)
        if self.settings.checkpoint is not None and self.settings.checkpoint.is_due:
            self.save()
        if self.settings.verbose > 1:
            print(
                "{iteration:4.0f}  objective {objective:+.9e}  dual {dual_objective:+.9e}  "
                "gap {gap:.1e}  mu {mu:.2e}  ratio {ratio:.2f}  products {products:.0f}".format(
                    **row
                )
            )
        if self.settings.callback is not None and self.settings.callback(row) is True:
            raise KeyboardInterrupt  # it ends like any other interruption

    def answer(self, stop: Stop, words: str) -> Answer:
        """What the path has reached, in the program's rows and signs."""
        path = self.path
        common = Answer(stop, words, iterations=self.steps, history=tuple(self.history))
        if path is None:
            return common
        sign, program = self.dual.program.sign, self.dual.program
        w = sign * path.point.w
        if stop is Stop.CLAIMS_INFEASIBLE:
            ray = self._as_ray(path.point.w)
            return replace(common, multiplier_ray=None if ray is None else sign * ray)
        if path.primal is None:
            return replace(common, dual=w)
        matrices = tuple(_formed(program, k, path.primal) for k in range(len(program.blocks)))
        return replace(common, matrices=matrices, x=_auxiliary(program, path.primal), dual=w)


def _formed(program: Program, k: int, primal: _Primal) -> Matrix:
    """K of block k: an operator for large graphs, an array for small ones."""
    block, rows = program.blocks[k], program.spans[k]
    cost = program.sign * block.cost.identity
    w, step = primal.point.w[rows], primal.step[rows]
    update = None if block.low_rank is None else block.low_rank.scaled(program.sign)
    gram: Gram = ResolventGram(block.pattern, cost, w, step, primal.mu, update)
    return gram if block.is_large_graph else gram.toarray()


def _auxiliary(program: Program, primal: _Primal) -> Array:
    """x_j = μ/r_j − μ Δr_j/r_j² where the variable's limit on w is the one in force, else 0."""
    r, change = program.reduced_costs(primal.point.w), np.asarray(program.rows_x.T @ primal.step)
    columns = program.rows_x.tocsc()
    rows, entries = columns.indices, columns.data
    lo, hi = program.multiplier_box
    limits = program.sign * program.cost_x / entries
    signs = program.sign_box
    in_force = np.where(
        entries > 0,
        (limits == lo[rows]) & (limits > signs[0][rows]),
        (limits == hi[rows]) & (limits < signs[1][rows]),
    )
    return np.where(in_force, primal.mu / r * (1 - change / r), 0.0)


BARRIER = Barrier()
