"""Conic data of a model with squares and log dets in its objective, and the way back.

A modelling layer writes  min cᵀx + ½xᵀPx  over cones. Two changes make it data that a program in
squared lengths can hold:

- each log det is a scalar entry of x that no row touches, and a semidefinite cone for its
  argument: the entry leaves x and its cost becomes the weight of the cone's log det;
- P becomes diagonal: where it is not, and where an entry of x lies in a cone, x gets further
  entries r = Ux by as many equations, P = Uᵀ diag(λ) U.

A `ModelData` takes points from one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.conic.data import ConeRows, ConicData, clean
from sdpkit.conic.readings import Reading, smaller_reading
from sdpkit.errors import InputError
from sdpkit.typing import Array, Bools, Indices


@dataclass(frozen=True, eq=False)
class ModelData:
    """Conic data and how its points are the model's.

    `scalars` are the entries of the model's x that stand for log dets, `cones` the numbers of
    their cones; `copies` counts the entries that were added at the end of x, and the equations
    after the model's own.
    """

    data: ConicData
    scalars: Indices
    cones: Indices
    copies: int

    @classmethod
    def of(
        cls, plain: ConicData, squares: sp.csr_array, log_dets: Sequence[tuple[int, int]] = ()
    ) -> ModelData:
        """From data without squares, P, and the (entry of x, row of the cone) of each log det."""
        scalars = np.array([entry for entry, _ in log_dets], dtype=np.int64)
        owners = [_owner(plain, row) for _, row in log_dets]
        data = _with_log_dets(plain, scalars, owners)
        kept = np.delete(np.arange(plain.cost.size), scalars)
        numbers = [
            k for owner in owners for k, c in enumerate(data.cones) if c.rows[0] == owner.rows[0]
        ]
        squared, copies = _with_squares(data, sp.csr_array(squares[kept][:, kept]))
        return cls(squared, scalars, np.array(numbers, dtype=np.int64), copies)

    @cached_property
    def reading(self) -> Reading:
        """The smaller of the two forms."""
        return smaller_reading(self.data)

    @property
    def _added(self) -> slice:
        """The equations that were added."""
        return slice(self.data.n_zero - self.copies, self.data.n_zero)

    def to_model(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The model's (x, y)."""
        own = x[: x.size - self.copies]
        dets = np.zeros(0) if not self.cones.size else np.array(self.data.log_dets(x))[self.cones]
        order = np.argsort(self.scalars)
        places = self.scalars[order] - np.arange(order.size)
        return np.insert(own, places, dets[order]), np.delete(y, self._added)

    def from_model(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The data's (x, y); what follows from x only is known once x is (`settled`)."""
        own = np.delete(x, self.scalars)
        rows = self.data.matrix[self._added][:, : own.size]
        copies = np.full(self.copies, np.nan)
        return np.r_[own, rows @ own], np.insert(y, [self._added.start] * self.copies, copies)

    def settled(self, x: Array, y: Array) -> Array:
        """y with the multipliers that x determines: λr for copies, 0 where no cone is left."""
        out = y.copy()
        out[self._added] = (self.data.quadratic * x)[x.size - self.copies :]
        out[np.setdiff1d(np.arange(y.size), self._owned)] = 0.0
        return out

    @property
    def _owned(self) -> Indices:
        """The rows of A that are in use; a cone that a log det implies lost its own."""
        linear = np.arange(self.data.n_zero + self.data.n_nonneg)
        return np.concatenate([linear, *(c.rows for c in self.data.cones)])


def _owner(data: ConicData, row: int) -> ConeRows:
    return next(cone for cone in data.cones if row in cone.rows)


def _with_log_dets(data: ConicData, scalars: Indices, owners: Sequence[ConeRows]) -> ConicData:
    """The data without the scalars, their costs as weights of the cones' log dets."""
    if not scalars.size:
        return data
    columns = sp.csc_array(data.matrix)
    if np.diff(columns.indptr)[scalars].any():
        raise InputError(
            "log_det must be a term of the objective with a constant weight, as in "
            "cp.Maximize(cp.log_det(X) + cp.trace(X)); here another atom takes it"
        )
    weights = dict(zip((c.rows[0] for c in owners), -data.cost[scalars], strict=True))
    cones = tuple(replace(c, log_det=float(weights.get(c.rows[0], 0.0))) for c in data.cones)
    kept = np.delete(np.arange(data.cost.size), scalars)
    weighted = [cone for cone in cones if cone.log_det]
    return replace(
        data,
        cost=data.cost[kept],
        matrix=clean(columns[:, kept]),
        quadratic=data.quadratic[kept],
        cones=tuple(c for c in cones if c.log_det or not _implied(data, c, weighted)),
    )


def _implied(data: ConicData, cone: ConeRows, weighted: Sequence[ConeRows]) -> bool:
    """Whether a log det is taken of the same matrix: then it is definite without this cone."""

    def same(other: ConeRows) -> bool:
        if other.kind != cone.kind or other.size != cone.size:
            return False
        rows: Any
        others: Any
        rows, others = data.matrix[cone.rows], data.matrix[other.rows]
        return bool((rows != others).nnz == 0) and np.array_equal(
            data.rhs[cone.rows], data.rhs[other.rows]
        )

    return any(same(other) for other in weighted)


def _with_squares(data: ConicData, squares: sp.csr_array) -> tuple[ConicData, int]:
    """The data with ½xᵀPx as squares of entries of x, and how many entries that added."""
    matrix, weights, direct = _factored(squares, _in_cones(data))
    k, n = weights.size, data.cost.size
    if not k:
        return replace(data, quadratic=direct), 0
    top, bottom = data.matrix[: data.n_zero], data.matrix[data.n_zero :]
    parts: Any = [
        [top, None],
        [matrix, -sp.eye_array(k)],
        [bottom, sp.csr_array((bottom.shape[0], k))],
    ]
    return replace(
        data,
        cost=np.r_[data.cost, np.zeros(k)],
        matrix=clean(sp.block_array(parts, format="csr")),
        rhs=np.insert(data.rhs, [data.n_zero] * k, 0.0),
        n_zero=data.n_zero + k,
        cones=tuple(replace(c, rows=c.rows + k) for c in data.cones),
        quadratic=np.r_[direct[:n], weights],
    ), k


def _in_cones(data: ConicData) -> Bools:
    """Which entries of x occur in a cone."""
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *(c.rows for c in data.cones)])
    out = np.zeros(data.cost.size, dtype=bool)
    out[data.matrix[rows].indices] = True
    return out


def _factored(squares: sp.csr_array, in_cones: Bools) -> tuple[sp.csr_array, Array, Array]:
    """(U, λ, q) with P = Uᵀ diag(λ) U + diag(q), q on entries that P does not couple."""
    p: Any = clean(squares + squares.T) / 2
    count, label = sp.csgraph.connected_components(p, directed=False)
    alone = np.bincount(label, minlength=count)[label] == 1
    diagonal = p.diagonal()
    direct = np.where(alone & ~in_cones, diagonal, 0.0)
    copied = np.flatnonzero(alone & in_cones & (diagonal != 0))
    ones = sp.csr_array(
        (np.ones(copied.size), (np.arange(copied.size), copied)), (copied.size, p.shape[0])
    )
    rows, weights = [ones], [diagonal[copied]]
    for k in np.unique(label[~alone]):
        mine = np.flatnonzero(label == k)
        values, vectors = np.linalg.eigh(p[mine][:, mine].toarray())
        used = values > 1e-13 * values[-1]
        part = sp.csr_array(vectors[:, used].T)
        place = sp.csr_array(
            (np.ones(mine.size), (np.arange(mine.size), mine)), (mine.size, p.shape[0])
        )
        rows.append(part @ place)
        weights.append(values[used])
    return sp.csr_array(sp.vstack(rows)), np.concatenate(weights), direct
