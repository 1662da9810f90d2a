"""Which rows of its conic data a cvxpy model's constraints and variables own.

    named rows    those of which cvxpy returns a multiplier, entry by entry
    domains       rows that hold entries of one variable only: its sign, bounds, definiteness
    inner rows    what cvxpy writes for an atom, with variables of its own; they hold as long as
                  one of the named rows that they lead to

Rows and variables are found through cvxpy's own inverse, which is shown numbered entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.conic.cvxpy import CompiledModel
from sdpkit.conic.data import ConicData
from sdpkit.typing import Bools, Indices


@dataclass(frozen=True, eq=False)
class ModelPart:
    """A constraint, the domain of a variable, or the domain of the objective.

    Attributes
    ----------
    owner: the cvxpy constraint, the variable, or None for the objective
    rows: the rows of the conic data
    unit: (len(rows),) the number of the entry of the constraint, or of the cone, of each row
    """

    owner: Any
    rows: Indices
    unit: Indices


@dataclass(frozen=True, eq=False)
class ModelRows:
    """A compiled model whose rows are known by their owners.

    `inner` are groups of inner rows, each with the named rows that it leads to.
    """

    model: CompiledModel
    parts: tuple[ModelPart, ...]
    inner: tuple[tuple[Indices, Indices], ...]

    @classmethod
    def of(cls, model: CompiledModel) -> ModelRows:
        """From a model without log dets in its objective."""
        return _Sorter(model).sorted()

    @property
    def data(self) -> ConicData:
        """The rows, without an objective."""
        return self.model.data.data.homogeneous

    def within(self, rows: Indices) -> tuple[ConicData, Indices]:
        """The data of these rows of the parts, with the inner rows that they need, and which rows
        of the whole those are."""
        used = np.zeros(self.data.rhs.size, dtype=bool)
        used[rows] = True
        for group, leads_to in self.inner:
            used[group] |= not leads_to.size or bool(used[leads_to].any())
        return _only(self.data, used)


def _only(data: ConicData, used: Bools) -> tuple[ConicData, Indices]:
    """The data with some of the rows, cones whole."""
    linear = np.flatnonzero(used[: data.n_zero + data.n_nonneg])
    cones = [cone for cone in data.cones if used[cone.rows[0]]]
    kept = np.concatenate([linear, *(cone.rows for cone in cones)]).astype(np.int64)
    start, moved = linear.size, []
    for cone in cones:
        moved.append(replace(cone, rows=np.arange(start, start + cone.rows.size)))
        start += cone.rows.size
    matrix = sp.csr_array(data.matrix[kept])
    columns = np.unique(matrix.indices)
    return replace(
        data,
        cost=data.cost[columns],
        quadratic=data.quadratic[columns],
        matrix=sp.csr_array(matrix[:, columns]),
        rhs=data.rhs[kept],
        n_zero=int(np.sum(linear < data.n_zero)),
        n_nonneg=int(np.sum(linear >= data.n_zero)),
        cones=tuple(moved),
    ), kept


@dataclass(eq=False)
class _Sorter:
    """Sorts the rows of a compiled model."""

    model: CompiledModel

    def sorted(self) -> ModelRows:
        named = self._named()
        parts = [part for part in named if part.rows.size]
        owned = np.zeros(self.data.rhs.size, dtype=bool)
        for part in parts:
            owned[part.rows] = True
        groups, alone = self._groups(~owned)
        inner: list[tuple[Indices, Indices]] = []
        lost = []
        for group in groups:
            leads_to = np.flatnonzero(owned & self._touching(group))
            if leads_to.size:
                inner.append((group, leads_to))
            else:
                lost.append(group)
        domains, shared = self._domains(alone, parts)
        inner += shared
        if lost:  # what cvxpy wrote for the objective
            rows = np.concatenate(lost)
            parts.append(ModelPart(None, rows, np.zeros(rows.size, dtype=np.int64)))
        return ModelRows(self.model, (*parts, *domains), tuple(inner))

    @property
    def data(self) -> ConicData:
        return self.model.data.data

    @cached_property
    def _cone(self) -> Indices:
        """(rows,) the number of the cone that owns each row, −1 for linear ones."""
        out = np.full(self.data.rhs.size, -1)
        for k, cone in enumerate(self.data.cones):
            out[cone.rows] = k
        return out

    @cached_property
    def _variable(self) -> Indices:
        """(columns,) the number of the variable that shows each entry of x, −1 for none."""
        found = self.model.columns_of_variables()
        return np.pad(found, (0, self.data.cost.size - found.size), constant_values=-1)

    @property
    def _n_own(self) -> int:
        """The number of the model's own equations."""
        return self.data.n_zero - self._n_copies

    def _whole_cones(self, rows: Indices) -> Indices:
        """These rows and all others of their cones."""
        cones = [self.data.cones[k].rows for k in np.unique(self._cone[rows]) if k >= 0]
        return np.unique(np.concatenate([rows, *cones])).astype(np.int64)

    def _named(self) -> list[ModelPart]:
        """The constraints, in their order, with the rows of which they show multipliers."""
        out, taken = [], np.zeros(self.data.rhs.size, dtype=bool)
        for constraint, entries in self.model.entries_of_constraints():
            # Equations that a square in the objective adds have no entry.
            places = np.insert(entries, [self._n_own] * self._n_copies, -1)
            rows = self._whole_cones(np.flatnonzero(places >= 0))
            cone = self._cone[rows]
            unit = np.where(cone >= 0, cone, places[rows])
            out.append(ModelPart(constraint, rows, unit))
            taken[rows] = True
        return [part if part.rows.size else self._by_cones(part, taken) for part in out]

    def _by_cones(self, part: ModelPart, taken: Bools) -> ModelPart:
        """A constraint whose multipliers mix several rows, such as one of complex matrices: the
        cones that change them."""
        found = [
            np.full(cone.rows.size, k)
            for k, cone in enumerate(self.data.cones)
            if not taken[cone.rows].any() and self._shows(part.owner, cone.rows)
        ]
        numbers = np.concatenate([np.zeros(0, dtype=np.int64), *found])
        rows = [self.data.cones[k].rows for k in np.unique(numbers)]
        return ModelPart(part.owner, np.concatenate([np.zeros(0, dtype=np.int64), *rows]), numbers)

    def _shows(self, constraint: Any, rows: Indices) -> bool:
        """Whether a constraint's multipliers depend on those of these rows."""
        y = np.zeros(self.data.rhs.size)
        y[rows] = np.random.default_rng(0).standard_normal(rows.size)
        shown = self.model.multipliers_at(np.delete(y, self._n_own + np.arange(self._n_copies)))
        mine = shown[[id(c) for c in self.model.problem.constraints].index(id(constraint))]
        return mine is not None and any(np.any(value) for value in mine)

    @property
    def _n_copies(self) -> int:
        return self.model.data.copies

    def _groups(self, free: Bools) -> tuple[list[Indices], list[Indices]]:
        """Rows without a name that are connected by variables of cvxpy's own, and cones and rows
        that hold none of these."""
        rows = np.flatnonzero(free)
        if not rows.size:
            return [], []
        inner = np.flatnonzero(self._variable < 0)
        part = sp.csr_array(self.data.matrix[rows])
        links = sp.csr_array(abs(part[:, inner]))
        cones = self._cone[rows]
        inside = np.flatnonzero(cones >= 0)
        member = sp.csr_array(
            (np.ones(inside.size), (inside, cones[inside])),
            shape=(rows.size, len(self.data.cones)),
        )
        all_links = sp.csr_array(sp.hstack([links, member]))
        _, label = sp.csgraph.connected_components(all_links @ all_links.T, directed=False)
        holds = np.asarray(links.sum(axis=1)).ravel() > 0
        groups: list[Indices] = []
        alone: list[Indices] = []
        for k in np.unique(label):
            mine = label == k
            (groups if holds[mine].any() else alone).append(rows[mine])
        return groups, alone

    def _touching(self, group: Indices) -> Bools:
        """(rows,) which rows hold a variable of cvxpy's own that the group holds."""
        columns = np.unique(sp.csr_array(self.data.matrix[group]).indices)
        columns = columns[self._variable[columns] < 0]
        seen = np.zeros(self.data.cost.size)
        seen[columns] = 1.0
        touched = np.asarray(abs(self.data.matrix) @ seen > 0)
        for cone in self.data.cones:
            touched[cone.rows] = touched[cone.rows].any()
        return touched

    def _domains(
        self, alone: Sequence[Indices], parts: Sequence[ModelPart]
    ) -> tuple[list[ModelPart], list[tuple[Indices, Indices]]]:
        """The domains of variables; a row of a variable without one belongs to the atoms of the
        constraints that hold the variable."""
        variables = self.model.problem.variables()
        mine: dict[int, list[Indices]] = {}
        shared = []
        for rows in alone:
            used = np.unique(self._variable[sp.csr_array(self.data.matrix[rows]).indices])
            if used.size == 1 and has_domain(variables[used[0]]):
                mine.setdefault(int(used[0]), []).append(rows)
                continue
            held = {variables[k].id for k in used}
            leads_to = [
                part.rows for part in parts if held & {v.id for v in part.owner.variables()}
            ]
            shared.append((rows, np.concatenate([np.zeros(0, dtype=np.int64), *leads_to])))
        domains = []
        for k, groups in mine.items():
            rows = np.concatenate(groups)
            unit = np.where(self._cone[rows] >= 0, self._cone[rows], np.arange(rows.size))
            domains.append(ModelPart(variables[k], rows, unit))
        return domains, shared


_DOMAINS = ("nonneg", "nonpos", "pos", "neg", "PSD", "NSD", "bounds", "diag", "sparsity")


def has_domain(variable: Any) -> bool:
    """Whether a cvxpy variable has attributes that limit its values."""
    given = variable.attributes
    return any(given.get(name) is not None and given.get(name) is not False for name in _DOMAINS)
