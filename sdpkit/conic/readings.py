"""The two readings of conic data as a program in squared lengths: slacks or multipliers.

`sdpkit.conic.data` states the data. A reading compiles its program and takes points from one to
the other in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.rays import Ray
from sdpkit.conic.data import Compiled, ConeRows, ConicData, Draft, DraftBlock, clean, compile_draft
from sdpkit.program.gram import Matrix
from sdpkit.typing import Array, Bools, Indices


@dataclass(frozen=True, eq=False)
class DualReading:
    """Unknowns are the multipliers y; the program has one row for each entry of x, save those that
    an equation a·x_j = b_i fixes: there y_i is free and takes up what the row is off."""

    data: ConicData

    @cached_property
    def _fixing(self) -> Indices:
        """The equations that fix an entry of x, one for each of these entries."""
        d = self.data
        rows = np.flatnonzero(np.diff(d.matrix.indptr)[: d.n_zero] == 1)
        return rows[np.unique(self._fixed(rows), return_index=True)[1]]

    def _fixed(self, rows: Indices) -> Indices:
        return np.asarray(self.data.matrix.indices[self.data.matrix.indptr[rows]], dtype=np.int64)

    @cached_property
    def _values(self) -> Array:
        """x where it is fixed, zero elsewhere."""
        d, rows = self.data, self._fixing
        x = np.zeros(d.cost.size)
        x[self._fixed(rows)] = d.rhs[rows] / d.matrix.data[d.matrix.indptr[rows]]
        return x

    @cached_property
    def _open(self) -> Indices:
        """The entries of x that are not fixed."""
        return np.setdiff1d(np.arange(self.data.cost.size), self._fixed(self._fixing))

    @cached_property
    def _linear(self) -> Indices:
        """The rows of A whose multipliers are auxiliary variables."""
        return np.setdiff1d(np.arange(self.data.n_zero + self.data.n_nonneg), self._fixing)

    @property
    def n_rows(self) -> int:
        """One per open entry of x."""
        return int(self._open.size)

    @cached_property
    def compiled(self) -> Compiled:
        """The program."""
        d = self.data
        across = sp.csc_array(d.matrix[:, self._open].T)
        rhs = self._left()
        # Where x_j has a quadratic cost, its row has a copy of x_j.
        curved = np.flatnonzero(d.quadratic[self._open])
        bends = d.quadratic[self._open][curved]
        copies = sp.csr_array((bends, (curved, np.arange(curved.size))), (self.n_rows, curved.size))
        rows_x = sp.hstack([across[:, self._linear], copies], format="csr")
        weights = np.array([c.log_det for c in d.cones if c.log_det])
        sizes = np.array([c.size for c in d.cones if c.log_det])
        fixed = float(d.cost @ self._values + 0.5 * d.quadratic @ self._values**2)
        dets = float(np.sum(weights * sizes * (1 - np.log(weights))))
        return compile_draft(
            Draft(
                parts=[
                    DraftBlock(cone, sp.csr_array(across[:, cone.rows]), -d.sign * rhs[cone.rows])
                    for cone in d.cones
                ],
                rows_x=clean(rows_x),
                cost_x=np.r_[-d.sign * rhs[self._linear], np.zeros(curved.size)],
                free_x=np.r_[self._linear < d.n_zero, np.ones(curved.size, dtype=bool)],
                rhs=-d.cost[self._open],
                relations=np.zeros(self._open.size, dtype=np.int8),
                quadratic_x=np.r_[np.zeros(self._linear.size), bends],
                sense="max" if d.sense == "min" else "min",
                offset=d.sign * (d.offset + fixed + dets),
                name=d.name,
            )
        )

    def _left(self) -> Array:
        """What right-hand sides leave when fixed entries are put in, zero where it is rounding.

        Equations that agree to rounding would contradict each other otherwise.
        """
        d = self.data
        left = d.rhs - d.matrix @ self._values
        terms = np.diff(d.matrix.indptr) + 4
        size = np.abs(d.rhs) + abs(d.matrix) @ np.abs(self._values)
        return np.where(np.abs(left) <= 4 * np.finfo(np.float64).eps * terms * size, 0.0, left)

    def read(self, matrices: Sequence[Matrix], aux: Array, dual: Array) -> tuple[Array, Array]:
        """(x, y) of the conic data from a point of the program."""
        x = self._values.copy()
        x[self._open] = -self.compiled.program.sign * self.compiled.multipliers(dual)
        return x, self._multipliers(matrices, aux, x)

    def _multipliers(self, matrices: Sequence[Matrix], aux: Array, x: Array) -> Array:
        d, rows = self.data, self._fixing
        y = np.zeros(d.rhs.size)
        y[self._linear] = aux[: self._linear.size]
        for cone, matrix in zip(d.cones, matrices, strict=False):
            y[cone.rows] = cone.vector(matrix)
        off = (d.gradient(x) + d.matrix.T @ y)[self._fixed(rows)]
        y[rows] = -off / d.matrix.data[d.matrix.indptr[rows]]
        return y

    def ray_multipliers(self, ray: Ray) -> Array | None:
        """y ∈ K* with Aᵀy = 0 and bᵀy < 0 from a direction of the program."""
        if ray.matrices is None or ray.x is None:
            return None
        zero = np.zeros(self.data.cost.size)
        return DualReading(self.data.homogeneous)._multipliers(ray.matrices, ray.x, zero)

    def ray_direction(self, ray: Ray) -> Array | None:
        """x with −Ax ∈ K and cᵀx < 0 from multipliers that prove the program infeasible."""
        if ray.multipliers is None or ray.chain is not None:
            return None
        x = np.zeros(self.data.cost.size)
        x[self._open] = self.compiled.program.sign * self.compiled.ray_multipliers(ray.multipliers)
        return x


@dataclass(frozen=True, eq=False)
class _Eliminated:
    """Entries of x that are slacks: x[columns] = (b[rows] − s)/a; `place` counts cones, −1 for
    inequalities; `twice` marks entries off a matrix's diagonal, which two rows of A hold."""

    rows: Indices
    columns: Indices
    a: Array
    place: Indices
    within: Indices
    twice: Bools


@dataclass(frozen=True, eq=False)
class SlackReading:
    """Unknowns are the slacks s and what is left of x; rows are those of A that remain."""

    data: ConicData

    @cached_property
    def eliminated(self) -> _Eliminated:
        """Which entries of x are nothing but slacks."""
        d = self.data
        single = np.diff(d.matrix.indptr) == 1
        taken = np.zeros(d.cost.size, dtype=bool)
        found: list[tuple[Indices, int, Indices, Bools]] = []
        for k, cone in enumerate(d.cones):
            within = self._slack_entries(cone, single, taken)
            if within is not None:
                rows = cone.rows[within]
                taken[self._column(rows)] = True
                off = within // cone.size != within % cone.size
                found.append((rows, k, within, off & (cone.kind == "psd")))
        rows = d.nonneg[single[d.nonneg]]
        rows = rows[~taken[self._column(rows)]]
        rows = rows[np.unique(self._column(rows), return_index=True)[1]]
        found.append((rows, -1, rows - d.n_zero, np.zeros(rows.size, dtype=bool)))
        every = np.concatenate([rows for rows, *_ in found])
        return _Eliminated(
            rows=every,
            columns=self._column(every),
            a=d.matrix.data[d.matrix.indptr[every]],
            place=np.concatenate([np.full(rows.size, k) for rows, k, *_ in found]),
            within=np.concatenate([within for _, _, within, _ in found]),
            twice=np.concatenate([twice for *_, twice in found]),
        )

    def _column(self, rows: Indices) -> Indices:
        """The column of each row's first entry."""
        return np.asarray(self.data.matrix.indices[self.data.matrix.indptr[rows]], dtype=np.int64)

    def _slack_entries(self, cone: ConeRows, single: Bools, taken: Bools) -> Indices | None:
        """The cone's entries if each is an entry of x that no other cone took, else None."""
        d, n = self.data, cone.size
        if not single[cone.rows].all():
            return None
        columns = self._column(cone.rows)
        within = np.arange(cone.rows.size)
        if cone.kind == "psd":
            triples = [columns, d.matrix.data[d.matrix.indptr[cone.rows]], d.rhs[cone.rows]]
            squares = [part.reshape(n, n) for part in triples]
            if not all(np.array_equal(square, square.T) for square in squares):
                return None
            within = within[within // n <= within % n]
        used = columns[within]
        if taken[used].any() or np.unique(used).size < used.size:
            return None
        return within

    @cached_property
    def _rows(self) -> sp.csr_array:
        """(m, rows of A): the rows that remain; both halves of a matrix make one row."""
        d = self.data
        gone = np.zeros(d.rhs.size, dtype=bool)
        out = set(self.eliminated.place.tolist())
        gone[self.eliminated.rows[self.eliminated.place == -1]] = True
        row, column, value, m = [], [], [], 0
        linear = np.flatnonzero(~gone[: d.n_zero + d.n_nonneg])
        row, column, value = [np.arange(linear.size)], [linear], [np.ones(linear.size)]
        m = linear.size
        for k, cone in enumerate(d.cones):
            if k in out:
                continue
            upper = np.arange(cone.rows.size)
            if cone.kind == "psd":
                j, i = np.divmod(upper, cone.size)
                codes = np.minimum(i, j) * cone.size + np.maximum(i, j)
                upper = np.unique(codes, return_inverse=True)[1]
                value.append(np.where(i == j, 1.0, 0.5))
            else:
                value.append(np.ones(upper.size))
            row.append(m + upper)
            column.append(cone.rows)
            m += int(upper.max()) + 1
        places = (np.concatenate(row), np.concatenate(column))
        return sp.csr_array((np.concatenate(value), places), shape=(m, d.rhs.size))

    @property
    def n_rows(self) -> int:
        """What is left of A."""
        return int(self._rows.shape[0])

    @cached_property
    def _free(self) -> Indices:
        free = np.ones(self.data.cost.size, dtype=bool)
        free[self.eliminated.columns] = False
        return np.flatnonzero(free)

    @cached_property
    def compiled(self) -> Compiled:
        """The program."""
        d, gone = self.data, self.eliminated
        rows = sp.csc_array(self._rows @ d.matrix)
        shift = d.rhs[gone.rows] / gone.a
        slack_rows = sp.csc_array(rows[:, gone.columns] @ sp.diags_array(-1 / gone.a))
        bends = d.quadratic[gone.columns]
        slack_cost = -(d.cost[gone.columns] + bends * shift) / gone.a
        bounds = gone.place == -1
        remaining = sp.csc_array(self._rows)
        parts = []
        for k, cone in enumerate(d.cones):
            mine = np.flatnonzero(gone.place == k)
            if mine.size:
                place = sp.csr_array(
                    (np.ones(mine.size), (np.arange(mine.size), gone.within[mine])),
                    shape=(mine.size, cone.rows.size),
                )
                coefficients = clean(slack_rows[:, mine] @ place)
                cost = np.asarray(d.sign * slack_cost[mine] @ place)
                parts.append(DraftBlock(cone, coefficients, cost))
            else:
                coefficients = sp.csr_array(remaining[:, cone.rows])
                parts.append(DraftBlock(cone, coefficients, np.zeros(cone.rows.size)))
        linear = sp.csr_array(remaining[:, d.nonneg])
        rows_x = sp.hstack([rows[:, self._free], slack_rows[:, bounds]], format="csr")
        cost_x = np.r_[d.cost[self._free], slack_cost[bounds]]
        quadratic_x = np.r_[d.quadratic[self._free], (bends / gone.a**2)[bounds]]
        fixed = float(d.cost[gone.columns] @ shift + 0.5 * bends @ shift**2)
        return compile_draft(
            Draft(
                parts=parts,
                rows_x=clean(rows_x),
                cost_x=d.sign * cost_x,
                free_x=np.arange(cost_x.size) < self._free.size,
                rhs=self._rows @ d.rhs - rows[:, gone.columns] @ shift,
                relations=np.where(np.diff(linear.indptr) > 0, -1, 0).astype(np.int8),
                quadratic_x=quadratic_x,
                sense=d.sense,
                offset=d.sign * (d.offset + fixed),
                name=d.name,
            )
        )

    def read(self, matrices: Sequence[Matrix], aux: Array, dual: Array) -> tuple[Array, Array]:
        """(x, y) of the conic data from a point of the program."""
        x = self._entries(matrices, aux, self.data.rhs)
        w = -self.data.sign * self.compiled.multipliers(dual)
        return x, self._with_eliminated(x, np.asarray(self._rows.T @ w))

    def _entries(self, matrices: Sequence[Matrix], aux: Array, rhs: Array) -> Array:
        """x from a point of the program, for a given right-hand side of Ax + s = b."""
        d, gone = self.data, self.eliminated
        slack = np.zeros(gone.rows.size)
        for k, (cone, matrix) in enumerate(zip(d.cones, matrices, strict=False)):
            mine = gone.place == k
            slack[mine] = cone.vector(matrix)[gone.within[mine]]
        slack[gone.place == -1] = aux[self._free.size :]
        x = np.zeros(d.cost.size)
        x[self._free] = aux[: self._free.size]
        x[gone.columns] = (rhs[gone.rows] - slack) / gone.a
        return x

    def ray_multipliers(self, ray: Ray) -> Array | None:
        """y ∈ K* with Aᵀy = 0 and bᵀy < 0 from multipliers that prove the program infeasible."""
        if ray.multipliers is None or ray.chain is not None:
            return None
        w = -self.data.sign * self.compiled.ray_multipliers(ray.multipliers)
        plain = SlackReading(self.data.homogeneous)
        return plain._with_eliminated(np.zeros(self.data.cost.size), np.asarray(self._rows.T @ w))

    def ray_direction(self, ray: Ray) -> Array | None:
        """x with −Ax ∈ K and cᵀx < 0 from a direction of the program."""
        if ray.matrices is None or ray.x is None:
            return None
        return self._entries(ray.matrices, ray.x, np.zeros_like(self.data.rhs))

    def _with_eliminated(self, x: Array, y: Array) -> Array:
        """y completed by the multipliers of eliminated cones, which Aᵀy + Qx + c = 0 determines."""
        d, gone = self.data, self.eliminated
        y = np.where(np.isin(np.arange(y.size), self._rows.indices), y, 0.0)
        rest = -(d.gradient(x) + d.matrix.T @ y)[gone.columns] / gone.a
        y[gone.rows] = np.where(gone.twice, rest / 2, rest)
        for k, cone in enumerate(d.cones):
            mine = gone.twice & (gone.place == k)
            i, j = np.divmod(gone.within[mine], cone.size)
            y[cone.rows[j * cone.size + i]] = y[gone.rows[mine]]
        return y

    def completed(self, x: Array, y: Array) -> Array:
        """y with the NaN entries of eliminated cones filled in, if all others are known."""
        used = np.unique(self._rows.indices)
        if np.isnan(y[used]).any():
            return y
        return np.where(np.isnan(y), self._with_eliminated(x, np.nan_to_num(y)), y)

    def point(self, x: Array, y: Array) -> tuple[list[Array], Array, Array]:
        """(matrices, auxiliary variables, multipliers) of the program from (x, y)."""
        d, gone, compiled = self.data, self.eliminated, self.compiled
        slack = d.rhs - d.matrix @ x
        matrices = [cone.matrix(slack[cone.rows]) for cone in d.cones] or [np.zeros((1, 1))]
        aux = np.r_[x[self._free], slack[gone.rows[gone.place == -1]]]
        # Half of a symmetric pair stands for both: w = 2y, and w = y elsewhere.
        once = sp.csr_array(self._rows)
        w = np.asarray(once @ y / np.asarray(once.multiply(once).sum(axis=1)).ravel())
        return matrices, aux, -d.sign * w[compiled.kept]


Reading = DualReading | SlackReading


def smaller_reading(data: ConicData) -> Reading:
    """The reading with fewer rows; the slack reading where they are equal."""
    slack, dual = SlackReading(data), DualReading(data)
    return slack if slack.n_rows <= dual.n_rows else dual
