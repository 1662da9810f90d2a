"""The equations of a scaled step, by normal equations or by an orthogonal factorisation.

With the scaling T of the cone (`sdpkit.solvers.cone_algebra`) and F = ZᵀAT, every direction of the
embedding is made of answers to one question:

    nearest(f, g):   the v nearest to f with F v = g, and the u with v = f + Fᵀu

Normal equations  FFᵀu = g − Ff  are the cheap way. They hold the square of what F holds, so that
half of the digits are lost where F is ill conditioned; an orthogonal factorisation  Fᵀ = QR  keeps
them, at several times the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.solvers.cone_algebra import (
    OrthantScaling,
    ProductScaling,
    SemidefiniteScaling,
    SemidefiniteStack,
)
from sdpkit.solvers.conic_form import ConicForm, Equations
from sdpkit.solvers.definite import Breakdown
from sdpkit.solvers.in_time import stoppable_cholesky
from sdpkit.solvers.lorentz import LorentzCones, LorentzRows
from sdpkit.typing import Array, Indices

# Up to this order T is written out for each matrix of a stack.
_SMALL_ORDER = 10
# Doubles in one array of scaled constraints, at most.
_SLAB = 1 << 22
# Rows of Hadamard products at a time, to stay in cache.
_PANEL = 64
# Columns of an orthogonal factorisation between two looks at the clock.
_COLUMNS = 256
# Multiply–adds that an orthogonal factorisation may take, and the numbers in it.
_MOST_WORK, _MOST_NUMBERS = 6e10, 1.5e8
# Seconds of what the two ways to the normal equations do, to compare them.
_GATHERED, _MULTIPLIED, _MOVED = 4e-9, 2.5e-10, 1e-9
_REFINEMENTS = 3


class Solved(Protocol):
    """A factorisation that answers `nearest`."""

    def nearest(self, f: Array, g: Array) -> tuple[Array, Array]:
        """(v, u): the v nearest to f with F v = g, and the u with v = f + Fᵀu."""


# -- the constraints of one part of the cone ------------------------------------------------


class OrthantRows:
    """The columns of A for nonnegative variables."""

    def __init__(self, a: sp.csr_array) -> None:
        self.a = sp.csr_array(a)

    def scaled(self, scaling: OrthantScaling) -> sp.csr_array:
        """A T."""
        return sp.csr_array(self.a @ sp.diags_array(scaling.factor))

    def add_normal(self, out: Array, scaling: OrthantScaling) -> None:
        """Add A T Tᵀ Aᵀ."""
        scaled = self.scaled(scaling)
        _add(out, scaled @ scaled.T)


class SmallRows:
    """The columns of A for a stack of small matrices, T written out."""

    def __init__(self, a: sp.csr_array, cone: SemidefiniteStack) -> None:
        self.a, self.cone = sp.csr_array(a), cone
        each = cone.size // cone.count
        self.starts = np.arange(cone.count + 1)
        self.shape = (cone.size, cone.size)
        self.each = each

    def scaled(self, scaling: SemidefiniteScaling) -> sp.csr_array:
        """A T."""
        i, j = self.cone.triangle
        g = scaling.g
        first, second = g[:, i], g[:, j]  # rows i and j of G, for every place
        t = first[:, :, i] * second[:, :, j] + first[:, :, j] * second[:, :, i]
        t *= 0.5 * self.cone.weights[:, None] * self.cone.weights
        blocks = sp.bsr_array((t, self.starts[:-1], self.starts), shape=self.shape)
        return sp.csr_array(self.a @ sp.csr_array(blocks))

    def add_normal(self, out: Array, scaling: SemidefiniteScaling) -> None:
        """Add A T Tᵀ Aᵀ."""
        scaled = self.scaled(scaling)
        _add(out, scaled @ scaled.T)


@dataclass(frozen=True, eq=False)
class _Supports:
    """Rows of A whose matrices have as many rows different from zero.

    Attributes
    ----------
    rows: (r,) which of the active ones;  supports: (r, s) those rows of each matrix
    places: (r, s) where their products are among all
    """

    rows: Indices
    supports: Indices
    places: Indices


class MatrixConstraints:
    """The columns of A for one matrix, as sparse matrices A_e."""

    def __init__(self, a: sp.csr_array, order: int) -> None:
        self.order, (i, j) = order, np.triu_indices(order)
        self.active = np.flatnonzero(np.diff(a.indptr))
        part = sp.csr_array(a[self.active])
        entries = part.tocoo()
        e, first, second = entries.row, i[entries.col], j[entries.col]
        values = entries.data / np.where(first == second, 1.0, np.sqrt(2.0))
        off = first != second
        e, r = np.r_[e, e[off]].astype(np.int64), np.r_[first, second[off]].astype(np.int64)
        c, values = np.r_[second, first[off]], np.r_[values, values[off]]
        pairs, place = np.unique(e * order + r, return_inverse=True)
        self.left = sp.csr_array((values, (place, c)), shape=(pairs.size, order))
        self.supports = _by_size(pairs // order, pairs % order, self.active.size)
        self.triangle, self.weights = (i, j), np.where(i == j, 1.0, np.sqrt(2.0))
        used = np.unique(part.indices)
        self.first, self.second = i[used], j[used]
        self.used = sp.csr_array(part[:, used] @ sp.diags_array(self.weights[used]))

    @cached_property
    def gathers(self) -> bool:
        """Whether products of entries of W are cheaper than scaled constraints."""
        m, n, places = self.active.size, self.order, float(self.first.size)
        gathered = _GATHERED * places**2 * (0.3 if self._diagonal else 1.0)
        gathered += 2 * _MOVED * self.used.nnz * (places + m)
        products = sum(s.supports.size for s in self.supports) * n * n
        triangle = n * (n + 1) / 2
        multiplied = _MULTIPLIED * (2 * products + m * m * triangle) + 3 * _MOVED * m * triangle
        return gathered < multiplied or m * triangle > _MOST_NUMBERS

    @cached_property
    def _diagonal(self) -> bool:
        return bool(np.array_equal(self.first, self.second))

    def scaled(self, g: Array) -> Array:
        """(active, n(n+1)/2) the vectors of GᵀA_eG."""
        i, j = self.triangle
        out = np.empty((self.active.size, i.size))
        right = self.left @ g
        at_once = max(1, _SLAB // self.order**2)
        for group in self.supports:
            for start in range(0, group.rows.size, at_once):
                continue_or_raise()
                some = slice(start, start + at_once)
                g_rows = np.swapaxes(g[group.supports[some]], 1, 2)
                products = g_rows @ right[group.places[some]]
                # Rounding alone makes them asymmetric.
                out[group.rows[some]] = products[:, i, j] * self.weights
        return out

    def add_normal(self, out: Array, g: Array) -> None:
        """Add A T Tᵀ Aᵀ."""
        if self.gathers:
            part = self._gathered(g @ g.T)
        else:
            scaled = self.scaled(g)
            part = blas.dsyrk(1.0, scaled.T, trans=1, lower=1)
            part = np.tril(part) + np.tril(part, -1).T
        if self.active.size == len(out):
            out += part
        else:
            out[np.ix_(self.active, self.active)] += part

    def _gathered(self, w: Array) -> Array:
        """<A_e, W A_f W> from the entries that occur in some A_e."""
        i, j = self.first, self.second
        out = np.empty((self.active.size, i.size))
        for start in range(0, i.size, _PANEL):
            continue_or_raise()
            a, b = w[i[start : start + _PANEL]], w[j[start : start + _PANEL]]
            products = a[:, i] * b[:, j]
            if not self._diagonal:
                products += a[:, j] * b[:, i]
                products *= 0.5
            out[:, start : start + _PANEL] = self.used @ products.T
        return np.asarray((self.used @ out.T).T)


def _by_size(rows: Indices, columns: Indices, n_rows: int) -> list[_Supports]:
    """Pairs (row, column), sorted by rows, grouped by how many columns a row has."""
    counts = np.bincount(rows, minlength=n_rows)
    starts = np.cumsum(counts) - counts
    out = []
    for count in np.unique(counts[counts > 0]):
        alike = np.flatnonzero(counts == count)
        places = starts[alike][:, None] + np.arange(count)
        out.append(_Supports(alike, columns[places], places))
    return out


def _add(out: Array, sparse: Any) -> None:
    entries = sparse.tocoo()
    out[entries.row, entries.col] += entries.data


class MatrixStackRows:
    """The columns of A for a stack of larger matrices, one by one."""

    def __init__(self, a: sp.csr_array, cone: SemidefiniteStack) -> None:
        columns, each = sp.csc_array(a), cone.size // cone.count
        self.each, self.rows = each, a.shape[0]
        self.parts = [
            MatrixConstraints(sp.csr_array(columns[:, k * each : (k + 1) * each]), cone.order)
            for k in range(cone.count)
        ]

    def scaled(self, scaling: SemidefiniteScaling) -> Array:
        """A T."""
        out = np.zeros((self.rows, self.each * len(self.parts)))
        for k, (part, g) in enumerate(zip(self.parts, scaling.g, strict=True)):
            out[part.active, k * self.each : (k + 1) * self.each] = part.scaled(g)
        return out

    def add_normal(self, out: Array, scaling: SemidefiniteScaling) -> None:
        """Add A T Tᵀ Aᵀ."""
        for part, g in zip(self.parts, scaling.g, strict=True):
            part.add_normal(out, g)


# -- all constraints ------------------------------------------------------------------------


class ScaledConstraints:
    """F = ZᵀAT of a form, for the scalings of its cone."""

    def __init__(self, form: ConicForm, equations: Equations) -> None:
        self.form, self.equations = form, equations
        columns = sp.csc_array(form.a)
        self.parts: list[Any] = []
        for part, span in zip(form.cone.parts, form.cone.spans, strict=True):
            mine = sp.csr_array(columns[:, span])
            if isinstance(part, LorentzCones):
                self.parts.append(LorentzRows(mine, part))
            elif not isinstance(part, SemidefiniteStack):
                self.parts.append(OrthantRows(mine))
            elif part.order <= _SMALL_ORDER:
                self.parts.append(SmallRows(mine, part))
            else:
                self.parts.append(MatrixStackRows(mine, part))

    @property
    def may_be_orthogonal(self) -> bool:
        """Whether an orthogonal factorisation is affordable."""
        m, n = float(self.equations.size), float(self.form.c.size)
        return m * m * n <= _MOST_WORK and m * n <= _MOST_NUMBERS

    def normal(self, scaling: ProductScaling) -> Array:
        """F Fᵀ."""
        m = self.form.b.size
        out = np.zeros((m, m))
        for rows, part in zip(self.parts, scaling.parts, strict=True):
            continue_or_raise()
            rows.add_normal(out, part)
        return self.equations.within(out)

    def dense(self, scaling: ProductScaling) -> Array:
        """(m', N) F."""
        columns = []
        for rows, part in zip(self.parts, scaling.parts, strict=True):
            continue_or_raise()
            scaled = rows.scaled(part)
            columns.append(scaled if isinstance(scaled, np.ndarray) else scaled.toarray())
        return self.equations.reduced(np.hstack(columns))


class NormalEquations:
    """FFᵀ = LLᵀ, refined; `Breakdown` where it is not definite."""

    def __init__(self, constraints: ScaledConstraints, scaling: ProductScaling) -> None:
        self.equations, self.scaling = constraints.equations, scaling
        normal = constraints.normal(scaling)
        diagonal = normal.diagonal()
        if not np.isfinite(normal).all() or not np.all(diagonal > 0):
            raise Breakdown
        self.unit = 1 / np.sqrt(diagonal)
        normal *= self.unit[:, None]
        normal *= self.unit
        try:
            self.lower = stoppable_cholesky(normal) if normal.size else normal
        except scipy.linalg.LinAlgError:
            raise Breakdown from None

    def nearest(self, f: Array, g: Array) -> tuple[Array, Array]:
        """(v, u), see the module."""
        u = np.zeros(g.size)
        v, off = f, g - self._times(f)
        for _ in range(1 + _REFINEMENTS):
            u_next = u + self._solved(off)
            v_next = f + self._adjoint(u_next)
            off_next = g - self._times(v_next)
            if not np.abs(off_next).max(initial=0.0) < 0.5 * np.abs(off).max(initial=0.0):
                break
            u, v, off = u_next, v_next, off_next
        return v, u

    def _solved(self, g: Array) -> Array:
        if not g.size:
            return g
        return np.asarray(self.unit * lapack.dpotrs(self.lower, self.unit * g, lower=1)[0])

    def _times(self, v: Array) -> Array:
        return self.equations.values(self.scaling.unscaled(v))

    def _adjoint(self, u: Array) -> Array:
        return self.scaling.scaled(self.equations.adjoint(u))


class OrthogonalFactor:
    """Fᵀ = QR with columns of unit norm, in panels of Householder vectors."""

    def __init__(self, constraints: ScaledConstraints, scaling: ProductScaling) -> None:
        rows = constraints.dense(scaling)
        norms = np.linalg.norm(rows, axis=1)
        if not np.isfinite(norms).all() or not np.all(norms > 0):
            raise Breakdown
        self.unit = 1 / norms
        rows *= self.unit[:, None]
        self.columns = rows.T  # by columns, as LAPACK wants it
        self.panels: list[tuple[int, Array, Array]] = []
        m = self.unit.size
        self.r = np.zeros((m, m))
        rest = np.asfortranarray(self.columns)
        del self.columns, rows
        for first in range(0, m, _COLUMNS):
            continue_or_raise()
            last = min(first + _COLUMNS, m)
            panel, tau = _in_place_qr(rest[first:, first:last])
            self.panels.append((first, panel, tau))
            self.r[first:last, first:last] = np.triu(panel[: last - first])
            if last < m:
                rest[first:, last:] = _multiplied(panel, tau, rest[first:, last:], "T")
                self.r[first:last, last:] = rest[first:last, last:]
        if not np.all(np.abs(np.diag(self.r)) > 0):
            raise Breakdown

    def nearest(self, f: Array, g: Array) -> tuple[Array, Array]:
        """(v, u), see the module."""
        m = g.size
        turned = self._turned(f)
        head = _triangular(self.r, self.unit * g, trans=1)
        u = self.unit * _triangular(self.r, head - turned[:m], trans=0)
        turned[:m] = head
        return self._turned_back(turned), u

    def _turned(self, f: Array) -> Array:
        out = f.copy()
        for first, panel, tau in self.panels:
            out[first:] = _multiplied(panel, tau, out[first:, None], "T")[:, 0]
        return out

    def _turned_back(self, f: Array) -> Array:
        out = f.copy()
        for first, panel, tau in reversed(self.panels):
            out[first:] = _multiplied(panel, tau, out[first:, None], "N")[:, 0]
        return out


def _in_place_qr(columns: Array) -> tuple[Array, Array]:
    work = int(lapack.dgeqrf_lwork(*columns.shape)[0])
    factor, tau, _, _ = lapack.dgeqrf(columns, lwork=work)
    return np.asarray(factor), np.asarray(tau)


def _multiplied(panel: Array, tau: Array, columns: Array, trans: str) -> Array:
    """Qᵀ C or Q C."""
    columns = np.asfortranarray(columns)
    work = int(lapack.dormqr("L", trans, panel, tau, columns, -1)[1][0])
    return np.asarray(lapack.dormqr("L", trans, panel, tau, columns, work)[0])


def _triangular(r: Array, g: Array, trans: int) -> Array:
    if not g.size:
        return g
    return np.asarray(scipy.linalg.solve_triangular(r, g, trans=1 if trans else 0))


Factorisation = Callable[[ScaledConstraints, ProductScaling], Solved]

__all__ = [
    "Factorisation",
    "NormalEquations",
    "OrthogonalFactor",
    "ScaledConstraints",
    "Solved",
]
