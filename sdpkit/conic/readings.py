"""The two readings of conic data as a program in squared lengths: slacks or multipliers.

`sdpkit.conic.data` states the data. A reading compiles its program and takes points from one to
the other in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

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

    @property
    def _once(self) -> ConicData:
        """The data with every row once."""
        return self.data.folding.data

    @cached_property
    def _fixing(self) -> Indices:
        """The equations that fix an entry of x, one for each of these entries."""
        d = self._once
        rows = np.flatnonzero(np.diff(d.matrix.indptr)[: d.n_zero] == 1)
        return rows[np.unique(self._fixed(rows), return_index=True)[1]]

    def _fixed(self, rows: Indices) -> Indices:
        d = self._once
        return np.asarray(d.matrix.indices[d.matrix.indptr[rows]], dtype=np.int64)

    @cached_property
    def _values(self) -> Array:
        """x where it is fixed, zero elsewhere."""
        d, rows = self._once, self._fixing
        x = np.zeros(d.cost.size)
        x[self._fixed(rows)] = d.rhs[rows] / d.matrix.data[d.matrix.indptr[rows]]
        return x

    @cached_property
    def _open(self) -> Indices:
        """The entries of x that are not fixed."""
        return np.setdiff1d(np.arange(self._once.cost.size), self._fixed(self._fixing))

    @cached_property
    def _linear(self) -> Indices:
        """The rows of A whose multipliers are auxiliary variables."""
        return np.setdiff1d(np.arange(self._once.n_zero + self._once.n_nonneg), self._fixing)

    @property
    def n_rows(self) -> int:
        """One per open entry of x."""
        return int(self._open.size)

    @cached_property
    def compiled(self) -> Compiled:
        """The program."""
        d = self._once
        across = sp.csc_array(d.matrix[:, self._open].T)
        rhs = self._left()
        # Where x_j has a quadratic cost, its row has a copy of x_j.
        curved = np.flatnonzero(d.quadratic[self._open])
        bends = d.quadratic[self._open][curved]
        copies = sp.csr_array((bends, (curved, np.arange(curved.size))), (self.n_rows, curved.size))
        members = self._members
        rows_x = sp.hstack([across[:, self._linear], across[:, members], copies], format="csr")
        weights = np.array([c.log_det for c in d.cones if c.log_det])
        sizes = np.array([c.size for c in d.cones if c.log_det])
        fixed = float(d.cost @ self._values + 0.5 * d.quadratic @ self._values**2)
        dets = float(np.sum(weights * sizes * (1 - np.log(weights))))
        return compile_draft(
            Draft(
                parts=[
                    DraftBlock(cone, sp.csr_array(across[:, cone.rows]), -d.sign * rhs[cone.rows])
                    for cone in d.matrices
                ],
                cones=self._places,
                rows_x=clean(rows_x),
                cost_x=np.r_[-d.sign * rhs[np.r_[self._linear, members]], np.zeros(curved.size)],
                free_x=np.r_[
                    self._linear < d.n_zero, np.ones(members.size + curved.size, dtype=bool)
                ],
                rhs=-d.cost[self._open],
                relations=np.zeros(self._open.size, dtype=np.int8),
                quadratic_x=np.r_[np.zeros(self._linear.size + members.size), bends],
                sense="max" if d.sense == "min" else "min",
                offset=d.sign * (d.offset + fixed + dets),
                name=d.name,
            )
        )

    @property
    def _members(self) -> Indices:
        """The rows of A in second-order cones."""
        return members_of(self._once)

    @property
    def _places(self) -> list[Indices]:
        """Where the multipliers of each second-order cone are among the auxiliary variables."""
        return places_of(self._once, self._linear.size)

    def _left(self) -> Array:
        """What right-hand sides leave when fixed entries are put in, zero where it is rounding.

        Equations that agree to rounding would contradict each other otherwise.
        """
        d = self._once
        left = d.rhs - d.matrix @ self._values
        terms = np.diff(d.matrix.indptr) + 4
        size = np.abs(d.rhs) + abs(d.matrix) @ np.abs(self._values)
        return np.where(np.abs(left) <= 4 * np.finfo(np.float64).eps * terms * size, 0.0, left)

    def read(self, matrices: Sequence[Matrix], aux: Array, dual: Array) -> tuple[Array, Array]:
        """(x, y) of the conic data from a point of the program."""
        x = self._values.copy()
        x[self._open] = -self.compiled.program.sign * self.compiled.multipliers(dual)
        fold, y = self.data.folding, self._multipliers(matrices, aux, x)
        return fold.entries(x), fold.unfolded(y)

    def _multipliers(self, matrices: Sequence[Matrix], aux: Array, x: Array) -> Array:
        d, rows, n = self._once, self._fixing, self._linear.size
        y = np.zeros(d.rhs.size)
        y[self._linear] = aux[:n]
        y[self._members] = aux[n : n + self._members.size]
        for cone, matrix in zip(d.matrices, matrices, strict=False):
            y[cone.rows] = cone.vector(matrix)
        off = (d.gradient(x) + d.matrix.T @ y)[self._fixed(rows)]
        y[rows] = -off / d.matrix.data[d.matrix.indptr[rows]]
        return y

    def ray_multipliers(self, ray: Ray) -> Array | None:
        """y ∈ K* with Aᵀy = 0 and bᵀy < 0 from a direction of the program."""
        if ray.matrices is None or ray.x is None:
            return None
        zero = np.zeros(self._once.cost.size)
        y = DualReading(self.data.homogeneous)._multipliers(ray.matrices, ray.x, zero)
        return self.data.folding.unfolded(y)

    def ray_direction(self, ray: Ray) -> Array | None:
        """x with −Ax ∈ K and cᵀx < 0 from multipliers that prove the program infeasible."""
        if ray.multipliers is None or ray.chain is not None:
            return None
        x = np.zeros(self._once.cost.size)
        x[self._open] = self.compiled.program.sign * self.compiled.ray_multipliers(ray.multipliers)
        return self.data.folding.entries(x)


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

    @property
    def _once(self) -> ConicData:
        """The data with every row once."""
        return self.data.folding.data

    @cached_property
    def eliminated(self) -> _Eliminated:
        """Which entries of x are nothing but slacks."""
        d = self._once
        single = np.diff(d.matrix.indptr) == 1
        taken = np.zeros(d.cost.size, dtype=bool)
        found: list[tuple[Indices, int, Indices, Bools]] = []
        # Matrices come first: those that are variables cost no rows.
        for k, cone in sorted(enumerate(d.cones), key=lambda pair: pair[1].kind):
            if cone.kind == "soc":
                within = self._single_entries(cone, single, taken)
            else:
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
        d = self._once
        return np.asarray(d.matrix.indices[d.matrix.indptr[rows]], dtype=np.int64)

    def _slack_entries(self, cone: ConeRows, single: Bools, taken: Bools) -> Indices | None:
        """The entries of a matrix if each is an entry of x that no other cone took, else None."""
        d, n = self._once, cone.size
        if not single[cone.rows].all():
            return None
        columns = self._column(cone.rows)
        triples = [columns, d.matrix.data[d.matrix.indptr[cone.rows]], d.rhs[cone.rows]]
        squares = [part.reshape(n, n) for part in triples]
        if not all(np.array_equal(square, square.T) for square in squares):
            return None
        within = np.arange(cone.rows.size)
        within = within[within // n <= within % n]
        used = columns[within]
        if taken[used].any() or np.unique(used).size < used.size:
            return None
        return within

    def _single_entries(self, cone: ConeRows, single: Bools, taken: Bools) -> Indices | None:
        """The entries of a second-order cone that are entries of x which no other cone took."""
        within = np.flatnonzero(single[cone.rows])
        columns = self._column(cone.rows[within])
        within = within[np.isin(np.arange(within.size), np.unique(columns, return_index=True)[1])]
        within = within[~taken[self._column(cone.rows[within])]]
        return within if within.size else None

    @cached_property
    def _rows(self) -> sp.csr_array:
        """(m, rows of A): the rows that remain; both halves of a matrix make one row."""
        d = self._once
        gone = np.zeros(d.rhs.size, dtype=bool)
        out = set(self.eliminated.place.tolist())
        gone[self.eliminated.rows[self.eliminated.place == -1]] = True
        linear = np.flatnonzero(~gone[: d.n_zero + d.n_nonneg])
        row, column, value = [np.arange(linear.size)], [linear], [np.ones(linear.size)]
        m = linear.size
        for k, cone in enumerate(d.cones):
            if cone.kind == "soc":
                left = np.setdiff1d(cone.rows, self.eliminated.rows)
                row.append(m + np.arange(left.size))
                column.append(left)
                value.append(np.ones(left.size))
                m += left.size
                continue
            if k in out:
                continue
            upper = np.arange(cone.rows.size)
            j, i = np.divmod(upper, cone.size)
            codes = np.minimum(i, j) * cone.size + np.maximum(i, j)
            upper = np.unique(codes, return_inverse=True)[1]
            value.append(np.where(i == j, 1.0, 0.5))
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
        free = np.ones(self._once.cost.size, dtype=bool)
        free[self.eliminated.columns] = False
        return np.flatnonzero(free)

    @cached_property
    def compiled(self) -> Compiled:
        """The program."""
        d, gone = self._once, self.eliminated
        rows = sp.csc_array(self._rows @ d.matrix)
        shift = d.rhs[gone.rows] / gone.a
        slack_rows = sp.csc_array(rows[:, gone.columns] @ sp.diags_array(-1 / gone.a))
        bends = d.quadratic[gone.columns]
        slack_cost = -(d.cost[gone.columns] + bends * shift) / gone.a
        bounds = gone.place == -1
        remaining = sp.csc_array(self._rows)
        parts = []
        for k, cone in enumerate(d.cones):
            if cone.kind == "soc":
                continue
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
        rows_x = sp.hstack(
            [rows[:, self._free], slack_rows[:, bounds], self._coefficients(slack_rows, remaining)],
            format="csr",
        )
        cost_x = np.r_[d.cost[self._free], slack_cost[bounds], self._costs(slack_cost)]
        n_plain = self._free.size + int(bounds.sum())
        quadratic_x = np.r_[
            d.quadratic[self._free], (bends / gone.a**2)[bounds], np.zeros(cost_x.size - n_plain)
        ]
        number = np.arange(cost_x.size)
        fixed = float(d.cost[gone.columns] @ shift + 0.5 * bends @ shift**2)
        return compile_draft(
            Draft(
                parts=parts,
                cones=places_of(d, n_plain),
                rows_x=clean(rows_x),
                cost_x=d.sign * cost_x,
                free_x=(number < self._free.size) | (number >= n_plain),
                rhs=self._rows @ d.rhs - rows[:, gone.columns] @ shift,
                relations=np.where(np.diff(linear.indptr) > 0, -1, 0).astype(np.int8),
                quadratic_x=quadratic_x,
                sense=d.sense,
                offset=d.sign * (d.offset + fixed),
                name=d.name,
            )
        )

    @cached_property
    def _in_cones(self) -> tuple[Indices, Indices]:
        """(which eliminated rows are in second-order cones, where among all their members)"""
        members, position = members_of(self._once), np.full(self._once.rhs.size, -1)
        position[members] = np.arange(members.size)
        mine = np.flatnonzero(position[self.eliminated.rows] >= 0)
        return mine, position[self.eliminated.rows[mine]]

    def _coefficients(self, slack_rows: sp.csc_array, remaining: sp.csc_array) -> sp.csr_array:
        """(m, members) what the members of second-order cones add to the rows."""
        (mine, at), members = self._in_cones, members_of(self._once)
        shape = (mine.size, members.size)
        place = sp.csr_array((np.ones(mine.size), (np.arange(mine.size), at)), shape=shape)
        return sp.csr_array(remaining[:, members] + slack_rows[:, mine] @ place)

    def _costs(self, slack_cost: Array) -> Array:
        """(members,) their costs."""
        mine, at = self._in_cones
        out = np.zeros(members_of(self._once).size)
        out[at] = slack_cost[mine]
        return out

    def read(self, matrices: Sequence[Matrix], aux: Array, dual: Array) -> tuple[Array, Array]:
        """(x, y) of the conic data from a point of the program."""
        x = self._entries(matrices, aux, self._once.rhs)
        w = -self.data.sign * self.compiled.multipliers(dual)
        y = self._with_eliminated(self._once.gradient(x), np.asarray(self._rows.T @ w))
        return self.data.folding.entries(x), self.data.folding.unfolded(y)

    def _entries(self, matrices: Sequence[Matrix], aux: Array, rhs: Array) -> Array:
        """x from a point of the program, for a given right-hand side of Ax + s = b."""
        d, gone = self._once, self.eliminated
        slack = np.zeros(gone.rows.size)
        numbers = [k for k, cone in enumerate(d.cones) if cone.kind == "psd"]
        for k, matrix in zip(numbers, matrices, strict=False):
            mine = gone.place == k
            slack[mine] = d.cones[k].vector(matrix)[gone.within[mine]]
        bounds, (mine, at) = gone.place == -1, self._in_cones
        n_plain = self._free.size + int(bounds.sum())
        slack[bounds] = aux[self._free.size : n_plain]
        slack[mine] = aux[n_plain:][at]
        x = np.zeros(d.cost.size)
        x[self._free] = aux[: self._free.size]
        x[gone.columns] = (rhs[gone.rows] - slack) / gone.a
        return x

    def ray_multipliers(self, ray: Ray) -> Array | None:
        """y ∈ K* with Aᵀy = 0 and bᵀy < 0 from multipliers that prove the program infeasible."""
        if ray.multipliers is None or ray.chain is not None:
            return None
        w = -self.data.sign * self.compiled.ray_multipliers(ray.multipliers)
        zero = np.zeros(self._once.cost.size)
        y = self._with_eliminated(zero, np.asarray(self._rows.T @ w))
        return self.data.folding.unfolded(y)

    def ray_direction(self, ray: Ray) -> Array | None:
        """x with −Ax ∈ K and cᵀx < 0 from a direction of the program."""
        if ray.matrices is None or ray.x is None:
            return None
        x = self._entries(ray.matrices, ray.x, np.zeros_like(self._once.rhs))
        return self.data.folding.entries(x)

    def _with_eliminated(self, gradient: Array, y: Array) -> Array:
        """y completed by the multipliers of eliminated slacks: Aᵀy + gradient = 0 gives them."""
        d, gone = self._once, self.eliminated
        y = np.where(np.isin(np.arange(y.size), self._rows.indices), y, 0.0)
        rest = -(gradient + d.matrix.T @ y)[gone.columns] / gone.a
        y[gone.rows] = np.where(gone.twice, rest / 2, rest)
        for k, cone in enumerate(d.cones):
            mine = gone.twice & (gone.place == k)
            if not mine.any():
                continue
            i, j = np.divmod(gone.within[mine], cone.size)
            y[cone.rows[j * cone.size + i]] = y[gone.rows[mine]]
        return y

    def completed(self, x: Array, y: Array) -> Array:
        """y with the NaN entries of eliminated slacks filled in, if all others are known."""
        (x, folded), used = self.data.folding.point(x, y), np.unique(self._rows.indices)
        if np.isnan(folded[used]).any():
            return y
        found = self._with_eliminated(self._once.gradient(x), np.nan_to_num(folded))
        return np.where(np.isnan(y), self.data.folding.unfolded(found), y)

    def point(self, x: Array, y: Array) -> tuple[list[Array], Array, Array]:
        """(matrices, auxiliary variables, multipliers) of the program from (x, y)."""
        d, gone, compiled = self._once, self.eliminated, self.compiled
        x, y = self.data.folding.point(x, y)
        slack = d.rhs - d.matrix @ x
        matrices = [cone.matrix(slack[cone.rows]) for cone in d.matrices] or [np.zeros((1, 1))]
        bounds = slack[gone.rows[gone.place == -1]]
        aux = np.r_[x[self._free], bounds, slack[members_of(d)]]
        # Half of a symmetric pair stands for both: w = 2y, and w = y elsewhere.
        once = sp.csr_array(self._rows)
        w = np.asarray(once @ y / np.asarray(once.multiply(once).sum(axis=1)).ravel())
        return matrices, aux, -d.sign * w[compiled.kept]


def members_of(data: ConicData) -> Indices:
    """The rows of all second-order cones, one cone after the other."""
    rows = [cone.rows for cone in data.cones if cone.kind == "soc"]
    return np.concatenate([np.zeros(0, dtype=np.int64), *rows])


def places_of(data: ConicData, first: int) -> list[Indices]:
    """The same as numbers of auxiliary variables, which begin with `first`."""
    sizes = [cone.rows.size for cone in data.cones if cone.kind == "soc"]
    ends = first + np.cumsum([0, *sizes])
    return [np.arange(start, stop) for start, stop in pairwise(ends)]


Reading = DualReading | SlackReading


def smaller_reading(data: ConicData) -> Reading:
    """The reading with fewer rows; the slack reading where they are equal."""
    slack, dual = SlackReading(data), DualReading(data)
    return slack if slack.n_rows <= dual.n_rows else dual
