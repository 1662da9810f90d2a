"""Conic data with every row once.

A modelling layer writes both triangles of a symmetric matrix, and the same row where an atom has
an entry twice. Equal rows of equations and inequalities, and rows of a second-order cone's tail
that are equal but for their sign, are folded into one: with F having ±1/√c at the c rows of a
group,

    A' = FAE,  b' = Fb,  c' = Eᵀc,  s' = Fs,  y = Fᵀy',  x = Ex',      FFᵀ = I,

which keeps ‖s_T‖ and bᵀy, and shares multipliers out equally. E does the same to entries of x that
have a square, occur in one equation only and are equal because these equations are: the squares of
both triangles. It also takes two entries of x that two inequalities limit, |p| ≤ t, to these
inequalities: then both are nonnegative variables, and no inequality is left. Entries of a tail that
are always zero are left out. Semidefinite cones stay as they are, because their readers know both
triangles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdpkit.typing import Array, Bools, Indices

if TYPE_CHECKING:
    from sdpkit.conic.data import ConicData

# Determinants of pairs below this share of their largest entry squared are zero.
_REGULAR = 1e-3
# Entries of a row below this share of its largest are what terms that cancel leave.
_CANCELLED = 1e-15


@dataclass(frozen=True, eq=False)
class Folding:
    """Folded data.

    Attributes
    ----------
    rows: F;  columns: E;  inverse: with x' = inverse·x
    """

    data: ConicData
    rows: sp.csr_array
    columns: sp.csr_array
    inverse: sp.csr_array

    @classmethod
    def of(cls, data: ConicData) -> Folding:
        """The folding of conic data."""
        own = _private(data)
        keys = _keys(data, own)
        top = _groups(keys[: data.n_zero], signed=True)
        pieces = [top, _groups(keys[data.nonneg], signed=False)]
        where = [np.arange(data.n_zero), data.nonneg]
        for cone in data.cones:
            where.append(cone.rows)
            same = np.arange(cone.rows.size), np.ones(cone.rows.size)
            pieces.append(same if cone.kind == "psd" else _tail_groups(keys[cone.rows]))
        starts = np.cumsum([0, *(int(label.max(initial=-1)) + 1 for label, _ in pieces)])
        fold = _matrix(
            np.concatenate([label + s for (label, _), s in zip(pieces, starts, strict=False)]),
            np.concatenate(where),
            np.concatenate([weight for _, weight in pieces]),
            (int(starts[-1]), data.rhs.size),
        )
        shared = _shared_columns(data, own, *top)
        matrix = sp.csr_array(fold @ data.matrix @ shared.T)
        quadratic = shared.multiply(shared) @ data.quadratic
        unequal = np.arange(starts[1], starts[2])
        of_cones = matrix[int(starts[2]) :].indices.astype(np.int64)
        away = np.union1d(of_cones, np.flatnonzero(quadratic)).astype(np.int64)
        pairs, back = _pairs(matrix, unequal, away)
        columns = sp.csr_array(shared.T @ pairs)
        cones = tuple(
            replace(
                cone,
                rows=np.arange(start, stop),
                size=cone.size if cone.kind == "psd" else int(stop - start),
            )
            for cone, start, stop in zip(data.cones, starts[2:], starts[3:], strict=False)
        )
        folded = replace(
            data,
            cost=columns.T @ data.cost,
            matrix=_without_zeros(matrix @ pairs),
            rhs=fold @ data.rhs,
            n_zero=int(starts[1]),
            n_nonneg=int(starts[2] - starts[1]),
            cones=cones,
            quadratic=quadratic,
        )
        return cls(folded, fold, columns, sp.csr_array(back @ shared))

    def point(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x', y')."""
        return np.asarray(self.inverse @ x), np.asarray(self.rows @ y)

    def unfolded(self, y: Array) -> Array:
        """The multipliers of all rows."""
        return np.asarray(self.rows.T @ y)

    def entries(self, x: Array) -> Array:
        """All entries of x."""
        return np.asarray(self.columns @ x)


def _private(data: ConicData) -> Indices:
    """(rows,) the entry of x with a square and without a cost that no other row has; −1 where an
    equation has none, or several, and in all other rows."""
    columns = sp.csc_array(data.matrix)
    alone = (np.diff(columns.indptr) == 1) & (data.quadratic > 0) & (data.cost == 0)
    j = np.flatnonzero(alone)
    row = columns.indices[columns.indptr[j]]
    count = np.bincount(row, minlength=data.rhs.size)
    out = np.full(data.rhs.size, -1)
    out[row] = j
    out[(count != 1) | (np.arange(data.rhs.size) >= data.n_zero)] = -1
    return out


def _keys(data: ConicData, own: Indices) -> Array:
    """(rows, 5) numbers that are the same for equal rows, but for a sign in the first three: random
    products and b, then the size of the private entry and its square."""
    others = np.ones(data.cost.size)
    has_own = own >= 0
    others[own[has_own]] = 0.0
    matrix = sp.csr_array(data.matrix @ sp.diags_array(others))
    matrix.eliminate_zeros()
    matrix.sort_indices()  # equal rows have equal products, to the last bit
    probes = np.random.default_rng(0).standard_normal((data.cost.size, 2))
    out = np.zeros((data.rhs.size, 5))
    out[:, :2], out[:, 2] = matrix @ probes, data.rhs
    if has_own.any():
        columns = sp.csc_array(data.matrix)
        out[has_own, 3] = np.abs(columns.data[columns.indptr[own[has_own]]])
        out[has_own, 4] = data.quadratic[own[has_own]]
    return out


def _pairs(
    matrix: sp.csr_array, unequal: Indices, away: Indices
) -> tuple[sp.csr_array, sp.csr_array]:
    """(T, T⁻¹) over the entries of x: pairs of entries become the two inequalities that have these
    entries alone, entries in `away` excepted."""
    n = matrix.shape[1]
    identity = sp.eye_array(n, format="csr")
    two = unequal[np.diff(matrix.indptr)[unequal] == 2]
    first = matrix.indptr[two]
    p, q = matrix.indices[first], matrix.indices[first + 1]
    usable = ~np.isin(p, away) & ~np.isin(q, away)
    two, first, p, q = two[usable], first[usable], p[usable], q[usable]
    order = np.lexsort((two, q, p))
    same = (p[order[1:]] == p[order[:-1]]) & (q[order[1:]] == q[order[:-1]])
    taken, rows, columns, values, backwards = np.zeros(n, dtype=bool), [], [], [], []
    for at in np.flatnonzero(same):
        i, k = order[at], order[at + 1]
        block = np.array(
            [[matrix.data[first[r]], matrix.data[first[r] + 1]] for r in (i, k)], dtype=np.float64
        )
        regular = abs(np.linalg.det(block)) > _REGULAR * np.abs(block).max() ** 2
        if taken[p[i]] or taken[q[i]] or not regular:
            continue
        taken[[p[i], q[i]]] = True
        rows += [p[i], p[i], q[i], q[i]]
        columns += [p[i], q[i], p[i], q[i]]
        backwards += block.ravel().tolist()
        values += np.linalg.inv(block).ravel().tolist()
    if not rows:
        return identity, identity
    rest = sp.csr_array(sp.diags_array(np.where(taken, 0.0, 1.0)))
    return (
        sp.csr_array(rest + sp.csr_array((values, (rows, columns)), shape=(n, n))),
        sp.csr_array(rest + sp.csr_array((backwards, (rows, columns)), shape=(n, n))),
    )


def _without_zeros(matrix: sp.csr_array) -> sp.csr_array:
    """Without entries that cancelled to rounding."""
    out = sp.csr_array(matrix)
    if not out.nnz:
        return out
    largest = np.asarray(abs(out).max(axis=1).todense()).ravel()
    small = np.abs(out.data) <= _CANCELLED * np.repeat(largest, np.diff(out.indptr))
    out.data[small] = 0.0
    out.eliminate_zeros()
    return out


def _shared_columns(data: ConicData, own: Indices, label: Indices, weight: Array) -> sp.csr_array:
    """(entries that are left, entries) private entries of a group of equations share one."""
    n, has_own = data.cost.size, own[: data.n_zero] >= 0
    j, group = own[: data.n_zero][has_own], label[has_own]
    first: dict[int, int] = {}
    target, value = np.arange(n), np.ones(n)
    columns = sp.csc_array(data.matrix)
    sign = np.sign(columns.data[columns.indptr[j]])
    target[j] = [first.setdefault(g, k) for g, k in zip(group.tolist(), j.tolist(), strict=True)]
    value[j] = sign * weight[has_own]
    kept, place = np.unique(target, return_inverse=True)
    return _matrix(place, np.arange(n), value, (kept.size, n))


def _matrix(row: Indices, column: Indices, value: Array, shape: tuple[int, int]) -> sp.csr_array:
    kept: Bools = np.not_equal(value, 0)
    return sp.csr_array((value[kept], (row[kept], column[kept])), shape=shape)


def _groups(keys: Array, signed: bool) -> tuple[Indices, Array]:
    """(the group of each row, numbered in the order of appearance, ±1/√c)"""
    if not len(keys):
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    lead = np.where(keys[:, 0] != 0, keys[:, 0], keys[:, 2])
    sign = np.where(signed & (lead < 0), -1.0, 1.0)
    turned = keys.copy()
    turned[:, :3] *= sign[:, None]
    found = np.unique(turned + 0.0, axis=0, return_index=True, return_inverse=True)
    first, label = found[1], found[2].ravel()
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[label].astype(np.int64), sign / np.sqrt(np.bincount(label))[label]


def _tail_groups(keys: Array) -> tuple[Indices, Array]:
    """The same of a second-order cone: its head stands alone, and zeros have the weight 0."""
    label, weight = np.zeros(len(keys), dtype=np.int64), np.ones(len(keys))
    zero: Bools = np.all(keys == 0, axis=1)
    zero[0] = False
    weight[zero] = 0.0
    tail = np.flatnonzero(~zero)[1:]
    groups, weights = _groups(keys[tail], signed=True)
    label[tail], weight[tail] = 1 + groups, weights
    return label, weight


__all__ = ["Folding"]
