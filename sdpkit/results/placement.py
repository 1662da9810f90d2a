"""New points into an existing embedding (Weinberger 2007, section 3.1.10), thousands at once.

Every new point is placed by its squared distances δ_i to k embedded neighbours y_i, taken
relative to their centroid. With a_i = ‖y_i‖² − δ_i it solves

    minimise    s + Σ|a_i + s − 2 y_iᵀy|      subject to  s ≥ ‖y‖²
    dual        maximise  Σ g_i a_i − ‖Σ g_i y_i‖²/ν   subject to  |g_i| ≤ 1,  ν = 1 + Σg_i ≥ 0

which is the thesis's semidefinite program with its identity block fixed (`sdpkit.OutOfSample`
states it for one point and any solver). Here a primal–dual interior-point method follows the
central path of all points side by side: the Newton matrix of a point has size r + 1. Numbers of
different points never meet: every operation is elementwise along the batch and every sum runs
over neighbours or coordinates one by one, so that a point's answer does not depend, to the last
bit, on the company it is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_array
from sdpkit.numerics.barycenter import barycenter_weights
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array, Bools

# One corrector step aims at this share of the present complementarity; a tenth, with the
# second-order correction, needs about 16 iterations and was never seen to jam.
_CENTRING = 0.1
_TO_BOUNDARY = 0.9
_END_COMPLEMENTARITY = 1e-14  # mean complementarity, for lengths scaled to one
_PATH_ITERATIONS = 100
_REFINE_ITERATIONS = 50
_BATCH_POINTS = 8192  # points side by side: what a cache holds


@dataclass(frozen=True, eq=False)
class Placement:
    """Where new points lie, and what proves it.

    Attributes
    ----------
    coordinates : array of shape (t, r)
        The new points.
    objectives : array of shape (t,)
        s + Σ|ξ_i| of each point, with the best s for its coordinates.
    bounds : array of shape (t,)
        Values of dual feasible g: no (y, s) has a smaller objective.

    Examples
    --------
    >>> square = [[[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]]
    >>> found = place(square, [[2.0, 2.0, 2.0, 2.0]])
    >>> found.coordinates.round(6)
    array([[1., 1.]])
    """

    coordinates: Array
    objectives: Array
    bounds: Array

    def __repr__(self) -> str:
        t, r = self.coordinates.shape
        return f"<Placement of {t} points in {r} dimensions>"


@one_blas_thread
def place(anchors: ArrayLike, squared_distances: ArrayLike) -> Placement:
    """Place points by their squared distances to embedded neighbours, each independently.

    Exact distances give the exact point where the neighbours span all r dimensions, wherever the
    origin is.

    Parameters
    ----------
    anchors : array-like of shape (t, k, r)
        Coordinates of the k neighbours of each new point.
    squared_distances : array-like of shape (t, k)
        Squared input distances from each new point to its neighbours.

    Returns
    -------
    Placement
        Coordinates of the new points, with objectives and bounds that prove them.

    Examples
    --------
    >>> corners = np.array([[100.0, 0.0], [101.0, 0.0], [100.0, 1.0]])
    >>> found = place([corners], [((corners - [107.0, 3.0]) ** 2).sum(axis=1)])
    >>> found.coordinates.round(9)
    array([[107.,   3.]])
    >>> bool(found.objectives[0] - found.bounds[0] < 1e-9 * found.objectives[0])
    True
    """
    y, delta = _neighborhoods(anchors, squared_distances)
    parts = [_place(y[part], delta[part]) for part in _batches(len(y))]
    return Placement(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@one_blas_thread
def refine_placement(
    coordinates: ArrayLike, anchors: ArrayLike, squared_distances: ArrayLike
) -> Array:
    """Move each point to a local minimum of Σ(‖y − y_i‖² − δ_i)², its neighbours fixed.

    Newton's method, damped where it would go up; a point is never made worse.

    Parameters
    ----------
    coordinates : array-like of shape (t, r)
        Where the points begin.
    anchors : array-like of shape (t, k, r)
        Coordinates of the neighbours of each point.
    squared_distances : array-like of shape (t, k)
        Squared distances to them, the δ_i.

    Returns
    -------
    array of shape (t, r)
        The moved points.

    Examples
    --------
    >>> square = [[[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]]
    >>> refine_placement([[0.8, 0.9]], square, [[2.0, 2.0, 2.0, 2.0]]).round(9)
    array([[1., 1.]])
    """
    y, delta = _neighborhoods(anchors, squared_distances)
    start = finite_array(coordinates, "coordinates")
    if start.shape != (y.shape[0], y.shape[2]):
        raise InputError(
            f"coordinates has shape {start.shape}: pass one row per new point, "
            f"{(y.shape[0], y.shape[2])}"
        )
    parts = [_refine(start[part], y[part], delta[part]) for part in _batches(len(y))]
    return np.concatenate(parts)


@one_blas_thread
def reconstruct(inputs: ArrayLike, neighbors: ArrayLike, anchors: ArrayLike) -> Array:
    """Saul and Roweis's extension of an embedding to new points.

    The weights that rebuild a new input from its neighbours' inputs rebuild its output from their
    outputs.

    Parameters
    ----------
    inputs : array-like of shape (t, D)
        New points.
    neighbors : array-like of shape (t, k, D)
        The inputs of their neighbours.
    anchors : array-like of shape (t, k, r)
        The outputs of their neighbours.

    Returns
    -------
    array of shape (t, r)
        The outputs of the new points.

    Examples
    --------
    >>> reconstruct([[1.0]], [[[0.0], [2.0]]], [[[0.0, 0.0], [4.0, 2.0]]]).round(6)
    array([[2., 1.]])
    """
    x, near, y = (np.asarray(value, dtype=np.float64) for value in (inputs, neighbors, anchors))
    weights = barycenter_weights(x, near)
    return _total(weights.T[:, :, None] * np.moveaxis(y, 1, 0))


# -- sums and small systems, elementwise along the batch ----------------------------------------


def _total(terms: Any) -> Array:
    """The sum over the first axis, term by term in order: the same for one point and many."""
    return np.asarray(reduce(np.add, terms))


def _factor(matrix: list[list[Array]]) -> tuple[list[list[Array]], list[Array]]:
    """(L, D) of LDLᵀ for symmetric positive definite matrices given by their lower entries."""
    size = len(matrix)
    lower: list[list[Array]] = [[] for _ in range(size)]
    diagonal: list[Array] = []
    for i in range(size):
        for j in range(i):
            entry = matrix[i][j]
            for k in range(j):
                entry = entry - lower[i][k] * lower[j][k] * diagonal[k]
            lower[i].append(entry / diagonal[j])
        pivot = matrix[i][i]
        for k in range(i):
            pivot = pivot - lower[i][k] * lower[i][k] * diagonal[k]
        diagonal.append(pivot)
    return lower, diagonal


def _solve(factors: tuple[list[list[Array]], list[Array]], rhs: Sequence[Array]) -> Array:
    lower, diagonal = factors
    x = list(rhs)
    size = len(x)
    for i in range(size):
        for k in range(i):
            x[i] = x[i] - lower[i][k] * x[k]
    x = [entry / pivot for entry, pivot in zip(x, diagonal, strict=True)]
    for i in reversed(range(size)):
        for k in range(i + 1, size):
            x[i] = x[i] - lower[k][i] * x[k]
    return np.array(x)


def _reach(value: Array, change: Array) -> Array:
    """The largest step that keeps value + step·change ≥ 0."""
    falling = change < 0
    return np.where(falling, value / np.where(falling, -change, 1.0), np.inf)


# -- the interior-point method ------------------------------------------------------------------


@dataclass
class _Point:
    """Iterates of a batch; the last axis is the batch everywhere.

    y: (r, t) and s: (t,) with c = s − ‖y‖² > 0;  nu: (t,) its multiplier
    p, m: (k, t) > 0 with a_i + s − 2y_iᵀy = p_i − m_i;  g: (k, t)
    below, above: (k, t) 1 − g and 1 + g, kept apart because subtraction would lose their digits
    """

    y: Array
    s: Array
    c: Array
    nu: Array
    p: Array
    m: Array
    g: Array
    below: Array
    above: Array

    @classmethod
    def start(cls, a: Array, r: int) -> _Point:
        """y = 0, s = 1, g = 0, ν = 1: strictly feasible on both sides."""
        k, t = a.shape
        residual = a + 1.0
        root = np.sqrt(residual**2 + 4)
        one, ones = np.ones(t), np.ones((k, t))
        p, m = (root + residual) / 2, (root - residual) / 2
        return cls(np.zeros((r, t)), one, one, one, p, m, np.zeros((k, t)), ones, ones)

    def select(self, kept: Bools) -> _Point:
        return _Point(*(getattr(self, f.name)[..., kept] for f in fields(self)))

    @property
    def complementarity(self) -> Array:
        """Mean of all products that vanish at the optimum, (t,)."""
        products = _total(self.p * self.below + self.m * self.above) + self.c * self.nu
        return np.asarray(products / (2 * len(self.g) + 1))


class _Newton:
    """The linearised central path at one point: one factorisation, two right-hand sides.

    With h_i = (−2y_i, 1) and n = (−2y, 1) the gradients of residual i and of c, eliminating all
    but d = (dy, ds) leaves  [Σ h_i h_iᵀ/D_i + (ν/c) n nᵀ + 2ν I_y] d = rhs.
    """

    def __init__(self, anchors: Array, point: _Point) -> None:
        k, r, t = anchors.shape
        self.point = point
        self.h = np.concatenate([np.moveaxis(-2 * anchors, 1, 0), np.ones((1, k, t))])
        self.n = np.concatenate([-2 * point.y, np.ones((1, t))])
        self.spread = point.p / point.below + point.m / point.above
        self.factors = _factor(self._matrix(r))
        self.dual_residual = _total(np.moveaxis(point.g * self.h, 1, 0)) - point.nu * self.n
        self.dual_residual[r] += 1.0

    def _matrix(self, r: int) -> list[list[Array]]:
        point, ratio = self.point, self.point.nu / self.point.c
        rows = []
        for i in range(r + 1):
            scaled = self.h[i] / self.spread
            row = [_total(scaled * self.h[j]) + ratio * self.n[i] * self.n[j] for j in range(i + 1)]
            if i < r:
                row[i] = row[i] + 2 * point.nu
            rows.append(row)
        return rows

    def step(self, of_p: Array, of_m: Array, of_c: Array) -> tuple[Array, ...]:
        """(d, dg, dp, dm, dν, dc) that changes the products p(1−g), m(1+g), cν by these."""
        point = self.point
        offset = of_p / point.below - of_m / point.above
        rhs = (
            _total(np.moveaxis(offset / self.spread * self.h, 1, 0))
            - self.dual_residual
            + of_c / point.c * self.n
        )
        d = _solve(self.factors, list(rhs))
        dg = (_total(self.h * d[:, None]) - offset) / self.spread
        dp = (of_p + point.p * dg) / point.below
        dm = (of_m - point.m * dg) / point.above
        dc = _total(self.n * d)
        return d, dg, dp, dm, (of_c - point.nu * dc) / point.c, dc


def _advance(anchors: Array, point: _Point) -> _Point:
    """One predictor and corrector."""
    newton = _Newton(anchors, point)
    now_p, now_m, now_c = point.p * point.below, point.m * point.above, point.c * point.nu
    d, dg, dp, dm, dnu, dc = newton.step(-now_p, -now_m, -now_c)
    target = _CENTRING * point.complementarity
    bend = _total(d[:-1] ** 2)  # c is concave along a step: it falls short of dc by this
    d, dg, dp, dm, dnu, dc = newton.step(
        target - now_p + dp * dg,
        target - now_m - dm * dg,
        target - now_c - dc * dnu + point.nu * bend,
    )
    bend = _total(d[:-1] ** 2)
    away = np.sqrt(dc**2 + 4 * bend * point.c) - dc  # c + αdc − α²·bend = 0 at α = 2c/away
    room = [np.where(away > 0, 2 * point.c / np.where(away > 0, away, 1.0), np.inf)]
    room.append(_reach(point.nu, dnu))
    pairs = ((point.p, dp), (point.m, dm), (point.below, -dg), (point.above, dg))
    room += [reduce(np.minimum, _reach(value, change)) for value, change in pairs]
    alpha = np.minimum(1.0, _TO_BOUNDARY * reduce(np.minimum, room))
    return _Point(
        point.y + alpha * d[:-1],
        point.s + alpha * d[-1],
        point.c + alpha * dc - alpha**2 * bend,
        point.nu + alpha * dnu,
        point.p + alpha * dp,
        point.m + alpha * dm,
        point.g + alpha * dg,
        point.below - alpha * dg,
        point.above + alpha * dg,
    )


def _follow_path(anchors: Array, a: Array) -> tuple[Array, Array]:
    """(y, g) at the optimum, (r, t) and (k, t), for anchors (k, r, t) around 0 and a (k, t)."""
    k, r, t = anchors.shape
    y, g = np.zeros((r, t)), np.zeros((k, t))
    left = np.arange(t)
    point = _Point.start(a, r)
    for _ in range(_PATH_ITERATIONS):
        open_ = point.complementarity > _END_COMPLEMENTARITY
        if not open_.all():
            left, anchors, point = left[open_], anchors[..., open_], point.select(open_)
        if not left.size:
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            point = _advance(anchors, point)
        sound = np.isfinite(_total(point.y)) & np.isfinite(_total(point.g)) & (point.c > 0)
        # Where rounding ends the path, the last sound iterate is the answer.
        if not sound.all():
            left, anchors, point = left[sound], anchors[..., sound], point.select(sound)
        y[:, left], g[:, left] = point.y, point.g
    return y, g


def _place(anchors: Array, squared: Array) -> tuple[Array, Array, Array]:
    """Coordinates, objectives and bounds of one batch."""
    k = anchors.shape[1]
    y, delta = np.moveaxis(anchors, 0, -1), np.ascontiguousarray(squared.T)
    centroid = _total(y) / k
    y = y - centroid
    norms = _total(np.moveaxis(y**2, 1, 0))
    largest = np.maximum(reduce(np.maximum, norms), reduce(np.maximum, delta))
    unit = np.where(largest > 0, largest, 1.0)  # of squared lengths
    length = np.sqrt(unit)
    y, a = y / length, (norms - delta) / unit
    found, g = _follow_path(y, a)
    objectives, bounds = _objective(y, a, found), _bound(y, a, g)
    return (centroid + length * found).T, unit * objectives, unit * bounds


def _objective(anchors: Array, a: Array, y: Array) -> Array:
    """min over s ≥ ‖y‖² of s + Σ|a_i + s − 2y_iᵀy|, (t,): piecewise linear in s."""
    offsets = a - 2 * _total(np.moveaxis(anchors * y, 1, 0))
    s = _total(y**2)
    k = len(a)
    if k > 1:
        # The slope is 1 − k + 2j beyond the j-th of the sorted kinks −offset.
        s = np.maximum(s, np.sort(-offsets, axis=0)[k // 2 - 1])
    return np.asarray(s + _total(np.abs(offsets + s)))


def _bound(anchors: Array, a: Array, g: Array) -> Array:
    """The dual value of g, (t,), drawn towards 0 by a hair: rounding may leave ν below zero."""
    g = np.clip(g, -1.0, 1.0)
    g = g * (1 - (1e-12 + 2 * np.maximum(-1 - _total(g), 0.0)))
    nu = 1 + _total(g)
    pull = _total(np.moveaxis(g * np.moveaxis(anchors, 1, 0), 1, 0))
    value = _total(g * a) - _total(pull**2) / np.where(nu > 0, nu, 1.0)
    return np.where(nu > 0, value, 0.0)  # g = 0 is feasible


# -- refinement ---------------------------------------------------------------------------------


def _refine(start: Array, anchors: Array, squared: Array) -> Array:
    """Levenberg's method on Σ(‖y − y_i‖² − δ_i)², a damping per point, (t, r)."""
    y, near = start.T.copy(), np.moveaxis(anchors, 0, -1)
    delta = np.ascontiguousarray(squared.T)
    r = len(y)
    scale = np.maximum(reduce(np.maximum, delta), reduce(np.maximum, _gaps(y, near)))
    scale = np.where(scale > 0, scale, 1.0)
    stress = _total((_gaps(y, near) - delta) ** 2)
    damping = 1e-3 * scale
    moving = np.ones(scale.shape, dtype=bool)
    for _ in range(_REFINE_ITERATIONS):
        difference = y - near  # (k, r, t)
        residual = _gaps(y, near) - delta
        gradient = _total(residual[:, None] * difference)
        curvature = np.maximum(_total(residual), 0.0) + damping
        matrix = [
            [2 * _total(difference[:, i] * difference[:, j]) for j in range(i + 1)]
            for i in range(r)
        ]
        for i in range(r):
            matrix[i][i] = matrix[i][i] + curvature
        moved: Array = y - _solve(_factor(matrix), list(gradient))
        trial = _total((_gaps(moved, near) - delta) ** 2)
        better = moving & (trial < stress)
        # Each point stops by its own rule, whatever the others do.
        moving &= np.where(better, _total((moved - y) ** 2) > 1e-30 * scale, damping < 1e9 * scale)
        y = np.where(better, moved, y)
        stress = np.where(better, trial, stress)
        damping = np.where(better, 0.1 * damping, 10 * damping)
        if not moving.any():
            break
    return y.T


def _gaps(y: Array, anchors: Array) -> Array:
    """‖y − y_i‖², (k, t)."""
    return _total(np.moveaxis((y - anchors) ** 2, 1, 0))


# -- input --------------------------------------------------------------------------------------


def _batches(count: int) -> Iterator[slice]:
    for start in range(0, max(count, 1), _BATCH_POINTS):
        yield slice(start, min(start + _BATCH_POINTS, count))


def _neighborhoods(anchors: ArrayLike, squared_distances: ArrayLike) -> tuple[Array, Array]:
    y = finite_array(anchors, "anchors")
    delta = finite_array(squared_distances, "squared_distances")
    if y.ndim != 3 or min(y.shape[1:]) < 1:
        raise InputError(f"anchors has shape {y.shape}: pass (points, neighbours, dimensions)")
    if delta.shape != y.shape[:2]:
        raise InputError(
            f"squared_distances has shape {delta.shape}: pass one per neighbour, {y.shape[:2]}"
        )
    if (delta < 0).any():
        raise InputError(
            f"squared_distances has the negative value {delta.min():g}: pass numbers ≥ 0"
        )
    return y, delta
