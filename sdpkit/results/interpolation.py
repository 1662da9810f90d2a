"""A continuous map through given outputs: where a new input lies in an embedding.

Training inputs x_i have outputs y_i. With d_i the distance from a new input x to x_i, the map
starts from an interpolant that is linear between training points wherever it can be (kriging with
a linear variogram, which is Duchon's spline of the lowest order),

    g(x) = p(x) − Σ α_i d_i,      Σ α_i = 0,   Σ α_i p(x_i) = 0,   g(x_i) = y_i,

where p is affine in r coordinates of x (and hence in squared distances). So g is exact for inputs
in r dimensions whose outputs are an affine function of them. Two corrections act near training
points:

    f(x) = g(x) + Σ φ_i(x) [e_i − ψ(d_i)(v_i − P_i v_i)],  e_i = y_i − g(x_i),  v_i = g(x) − g(x_i)

* P_i shortens v_i to at most ℓd_i, so that ‖f(x) − y_i‖ ≤ ℓd_i close to x_i. The slope ℓ is a few
  times the ratio of the spacings of outputs and inputs; ψ falls from 1 to 0 within one spacing.
* the residuals e_i are zero up to rounding, unless there are more training points than g has
  centres or distances are not Euclidean.

The weights φ_i ∝ (d_1/d_i − 1/c)²₊, with d_1 the distance of the nearest training point, belong to
the points within c·d_1. They sum to one and are continuous where neighbours change places or tie.
Every operation is elementwise along the batch: a point's image does not depend, to the last bit,
on the other points of the call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpkit.graphs.distances import SquaredDistances
from sdpkit.numerics.neighbors import nearest, row_blocks
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array, Indices

_CENTRES = 2000  # points that g passes through; its system is dense
# Centres are at least this many spacings apart: closer ones would only add rounding errors.
_APART = 1e-3
_SLOPE = 5.0  # ℓ, in spacings of outputs per spacing of inputs
# In spacings of inputs: ‖f − y_i‖ ≤ ℓd_i holds within the first, and f is free beyond the second.
_HELD, _FREE = 0.125, 0.625
_FADE = 2.0  # residuals are not carried further than this
_REACH = 2.0  # c
_FIRST_LOOK = 32  # where more neighbours count, all distances are computed
_FLAT = 1e-10  # directions of less than this share of the largest squared extent are none
_ROUNDING = 1e-9  # residuals below this share of the outputs' spacing are rounding errors


@dataclass(frozen=True, eq=False)
class _Axes:
    """Coordinates that are affine in squared distances: Cholesky's of the inner products about
    `points[0]`, along the directions to the others.

    points: (q + 1,) indices;  lower: (q, q) triangular;  squares: (q,) from points[0] to the others
    """

    points: Indices
    lower: Array
    squares: Array

    @classmethod
    def along(cls, inputs: SquaredDistances, centres: Indices, count: int) -> Self:
        """At most `count` axes, each along the centre farthest from the span of those before."""
        origin = int(centres[0])
        squares = inputs.between(origin, centres)
        rest, found = squares.copy(), [0]
        z = np.zeros((len(centres), 0))
        for _ in range(count):
            pivot = int(rest.argmax())
            if not rest[pivot] > _FLAT * squares.max():
                break
            gram = (squares + squares[pivot] - inputs.between(centres[pivot], centres)) / 2
            column = (gram - z @ z[pivot]) / np.sqrt(rest[pivot])
            z, found = np.column_stack([z, column]), [*found, pivot]
            rest = rest - column**2
            rest[found] = 0.0
        return cls(centres[found], z[found[1:]], squares[found[1:]])

    def of(self, squared: Array) -> Array:
        """(q + 1, t) 1 and the coordinates of points, by their squares (q + 1, t) to `points`."""
        columns = [np.ones(squared.shape[1])]
        for k, row in enumerate(self.lower):
            entry = (squared[0] + self.squares[k] - squared[k + 1]) / 2
            for value, known in zip(row[:k], columns[1:], strict=True):
                entry = entry - value * known
            columns.append(entry / row[k])
        return np.array(columns)


@dataclass(frozen=True, eq=False, repr=False)
class Interpolant:
    """The map f of `sdpkit.results.interpolation`. Made by `through`.

    Attributes
    ----------
    inputs: distances between the n training inputs;  outputs: (n, r) where they lie
    distinct: (m,) the first of every group of coincident inputs
    centres: (c,) those that g passes through;  alpha: (c, r)
    trend: (q + 1, r) coefficients of p in the coordinates `axes`
    smooth: (n, r) g at the training inputs;  spacing: of the inputs;  slope: ℓ
    reach: how far from a training point f differs from g

    >>> square = SquaredDistances.from_points([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> Y = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 0.0], [2.0, 0.0]])
    >>> f = Interpolant.through(square, Y)
    >>> f([[0.5, 0.5], [0.2, 0.0], [3.0, 1.0]]).round(9) + 0.0
    array([[1. , 0.5],
           [0.4, 1. ],
           [6. , 0. ]])
    """

    inputs: SquaredDistances
    outputs: Array
    distinct: Indices
    centres: Indices
    axes: _Axes
    alpha: Array
    trend: Array
    smooth: Array
    spacing: float
    slope: float
    reach: float

    @classmethod
    @one_blas_thread
    def through(cls, inputs: SquaredDistances, outputs: Array) -> Interpolant:
        """The map with f(x_i) = y_i; of coincident inputs the first counts."""
        distinct = _distinct(inputs)
        gaps, centres = _spread(inputs.subset(distinct))
        spacing = float(np.median(gaps)) if gaps.size else 0.0
        centres = distinct[centres]
        axes = _Axes.along(inputs, centres, outputs.shape[1])
        alpha, trend = _spline(inputs, centres, axes, outputs[centres])
        slope = _SLOPE * _output_spacing(outputs[distinct]) / spacing if spacing else 0.0
        f = cls(
            *(inputs, outputs, distinct, centres, axes, alpha, trend),
            *(np.zeros_like(outputs), spacing, slope, _FREE * spacing),
        )
        if inputs.points is None:
            smooth = f._smooth(None, np.sqrt(inputs.to_all(np.arange(inputs.n_points))))
        else:
            smooth = f._smooth(inputs.points, None)
        left = float(np.abs(outputs - smooth)[distinct].max())
        exact = left <= _ROUNDING * slope * spacing
        return replace(f, smooth=smooth, reach=(_FREE if exact else _FADE) * spacing)

    @one_blas_thread
    def __call__(self, X: ArrayLike | None = None, *, distances: ArrayLike | None = None) -> Array:
        """f of new points X, (t, d), or of their distances to all training inputs, (t, n)."""
        nearest_one, squared = self._nearest(1, X, distances)
        first = np.sqrt(squared[:, 0])
        out = self._smooth(X, distances)
        close = np.flatnonzero((first > 0) & (first < self.reach))
        if close.size:
            out[close] += self._corrections(out[close], _rows(X, close), _rows(distances, close))
        same = first == 0
        out[same] = self.outputs[nearest_one[same, 0]]
        return out

    def _nearest(
        self, k: int, X: ArrayLike | None, distances: ArrayLike | None
    ) -> tuple[Indices, Array]:
        """The nearest distinct inputs of new points and their squares, (t, min(k, m))."""
        m = len(self.distinct)
        among = None if m == len(self.outputs) else self.distinct
        return self.inputs.nearest_to(min(k, m), X, distances=distances, among=among)

    def _smooth(self, X: ArrayLike | None, distances: ArrayLike | None) -> Array:
        """g of new points, (t, r)."""
        count = len(np.asarray(X if distances is None else distances))
        out = np.zeros((self.outputs.shape[1], count))
        for part in row_blocks(count, len(self.centres)):
            new = {"X": _rows(X, part), "distances": _rows(distances, part)}
            coordinates = self.axes.of(self.inputs.to_new(self.axes.points, **new))
            for slope, coordinate in zip(self.trend, coordinates, strict=True):
                out[:, part] += np.multiply.outer(slope, coordinate)
            lengths = np.sqrt(self.inputs.to_new(self.centres, **new))
            for weight, length in zip(self.alpha, lengths, strict=True):
                out[:, part] -= np.multiply.outer(weight, length)
        return out.T.copy()

    def _corrections(self, smooth: Array, X: Array | None, distances: Array | None) -> Array:
        """f − g, (t, r), of new points, for g of them."""
        near, squared = self._nearest(_FIRST_LOOK, X, distances)
        lengths, out = np.sqrt(squared), np.empty_like(smooth)
        enough = lengths[:, -1] >= _REACH * lengths[:, 0]
        if len(self.distinct) <= _FIRST_LOOK:
            enough[:] = True
        out[enough] = self._correction(smooth[enough], near[enough], lengths[enough])
        rest = np.flatnonzero(~enough)
        for part in row_blocks(len(rest), len(self.distinct)):
            rows = rest[part]
            new = {"X": _rows(X, rows), "distances": _rows(distances, rows)}
            all_lengths = np.sqrt(self.inputs.to_new(self.distinct, **new))
            used = (all_lengths < _REACH * lengths[rows, 0]).any(axis=1)
            here = np.broadcast_to(self.distinct[used], (len(rows), int(used.sum())))
            out[rows] = self._correction(smooth[rows], here, all_lengths[used].T)
        return out

    def _correction(self, smooth: Array, near: Indices, lengths: Array) -> Array:
        """f − g, (t, r), for g(x), the training points near x and how far they are, (t, k)."""
        first = lengths.min(axis=1)
        total, out = np.zeros(len(first)), np.zeros_like(smooth)
        fade = np.clip(2 - 2 * first / self.reach, 0.0, 1.0)[:, None]
        held, free = _HELD * self.spacing, _FREE * self.spacing
        for i, d in zip(near.T, lengths.T, strict=True):
            weight = np.maximum(first / d - 1 / _REACH, 0.0) ** 2
            moved = smooth - self.smooth[i]
            size = np.sqrt(_ordered_squares(moved))
            excess = np.maximum(size - self.slope * d, 0.0) / np.where(size > 0, size, 1.0)
            hold = np.clip(held * (free - d) / (d * (free - held)), 0.0, 1.0)
            change = fade * (self.outputs[i] - self.smooth[i]) - (hold * excess)[:, None] * moved
            total += weight
            out += weight[:, None] * change
        return np.asarray(out / total[:, None])


def _rows(values: ArrayLike | None, rows: slice | Indices) -> Array | None:
    return None if values is None else np.asarray(values)[rows]


def _ordered_squares(rows: Array) -> Array:
    """(t,) the sum of squares of each row, (t, r), column by column."""
    total = np.zeros(len(rows))
    for column in rows.T:
        total += column**2
    return total


def _distinct(inputs: SquaredDistances) -> Indices:
    """(m,) the first of every group of coincident inputs."""
    each = np.arange(inputs.n_points)
    if len(each) == 1:
        return each
    other = inputs.neighbors(1)[:, 0]
    return np.flatnonzero((inputs.between(each, other) > 0) | (other > each))


def _spread(inputs: SquaredDistances) -> tuple[Array, Indices]:
    """Distances of distinct inputs to the nearest other, (m,), and the centres among them.

    Of two points that almost coincide, the second is left out.
    """
    each = np.arange(inputs.n_points)
    if len(each) == 1:
        return np.zeros(0), each
    other = inputs.neighbors(1)[:, 0]
    gaps = np.sqrt(inputs.between(each, other))
    centres = np.flatnonzero((gaps > _APART * np.median(gaps)) | (other > each))
    if len(centres) > _CENTRES:
        centres = np.sort(np.random.default_rng(0).choice(centres, _CENTRES, replace=False))
    return gaps, centres


def _output_spacing(outputs: Array) -> float:
    """The median distance of outputs, (m, r), to the nearest other."""
    if len(outputs) == 1:
        return 0.0
    return float(np.median(np.sqrt(nearest([outputs], [outputs], 1, themselves=True)[1])))


def _spline(
    inputs: SquaredDistances, centres: Indices, axes: _Axes, values: Array
) -> tuple[Array, Array]:
    """(α, coefficients of p) of g through `values`, (c, r), at the centres.

    The kernel d_i0 + d_0j − d_ij + 1, in units of the largest, is positive definite for Euclidean
    distances. For others a multiple of the identity is added; residuals make up for it.
    """
    among = inputs.subset(centres)
    lengths = np.sqrt(among.to_all(np.arange(len(centres))))
    unit = float(lengths.max()) or 1.0
    kernel = (lengths[:1] + lengths[:, :1] - lengths) / unit + 1.0
    basis = axes.of(inputs.between(axes.points[:, None], centres)).T
    size = np.abs(basis).max(axis=0)
    basis = basis / size
    solved = _definite_solve(kernel, np.column_stack([basis, values]))
    of_basis, of_values = solved[:, : len(size)], solved[:, len(size) :]
    trend = np.linalg.lstsq(basis.T @ of_basis, basis.T @ of_values, rcond=None)[0]
    alpha = (of_values - of_basis @ trend) / unit
    trend = trend / size[:, None]
    trend[0] += lengths[0] @ alpha
    return alpha, trend


def _definite_solve(matrix: Array, columns: Array) -> Array:
    """matrix⁻¹·columns for a positive definite matrix, made definite if it is not."""
    diagonal, added = np.diag_indices_from(matrix), 0.0
    while True:
        try:
            factor = scipy.linalg.cho_factor(matrix, lower=True)
            return np.asarray(scipy.linalg.cho_solve(factor, columns))
        except np.linalg.LinAlgError:
            more = 10 * added or 1e-12 * len(matrix)
            matrix[diagonal] += more - added
            added = more
