"""Quadratic and norm penalties as second-order cones, for solvers that know cones alone.

    ½ Σ h_j x_j²   is the least ½(p + q) with  p − q = 1,  p ≥ ‖(√h_j x_j, …, q)‖
    ρ‖x_G‖         is the least ρp with  p ≥ ‖x_G‖

All squares together take one cone and one constraint: √h_j x_j takes the place of x_j in the rows.
A nonnegative variable keeps its place, and its root is another variable with a constraint. The
multipliers of the program's own constraints stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.program.form import Program
from sdpkit.program.second_order import SecondOrderCone
from sdpkit.typing import Array


@dataclass(frozen=True, eq=False)
class EpigraphForm:
    """A program without penalties, and the way back.

    Attributes
    ----------
    original, program: with penalties and without
    units: (n_x,) what the program's variables are multiplied by to be those of the original
    """

    original: Program
    program: Program
    units: Array

    def lifted(self, x: Array) -> Array:
        """x of the original from that of the program."""
        return self.units * x[: self.units.size]

    def multipliers(self, w: Array) -> Array:
        """(m,) those of the original's constraints."""
        return w[: self.original.n_rows]


def without_penalties(program: Program) -> EpigraphForm:
    """The program with second-order cones in place of its penalties.

    >>> from sdpkit import Block
    >>> spring = Program.of(
    ...     Block.of(1, [[1.0]]), [1.0], rows_x=[[-1.0]], free_x=[True], quadratic_x=[2.0])
    >>> form = without_penalties(spring)
    >>> form.program.n_rows, [cone.members.tolist() for cone in form.program.cones]
    (2, [[1, 0, 2]])
    """
    n, m, h = program.n_auxiliary, program.n_rows, program.quadratic_x
    curved = np.flatnonzero(h > 0)
    direct, signed = curved[program.free_x[curved]], curved[~program.free_x[curved]]
    units = np.ones(n)
    units[direct] = 1 / np.sqrt(h[direct])
    columns: Any = sp.csr_array(program.rows_x @ sp.diags_array(units))
    more = int(curved.size > 0)
    extra = 2 * more + signed.size + len(program.norms)
    cost = np.r_[program.cost_x * units, np.zeros(extra)]
    cones = list(program.cones)
    top, bottom, roots = n, n + 1, n + 2 * more + np.arange(signed.size)
    link = sp.csr_array((more + signed.size, n + extra))
    if more:
        cones.append(SecondOrderCone.of(np.r_[top, direct, roots, bottom]))
        cost[[top, bottom]] = -0.5 * program.sign
        each = 1 + np.arange(signed.size)
        places = (np.r_[0, 0, each, each], np.r_[top, bottom, signed, roots])
        values = np.r_[1.0, -1.0, np.sqrt(h[signed]), -np.ones(signed.size)]
        link = sp.csr_array((values, places), shape=link.shape)
    for k, penalty in enumerate(program.norms, start=n + 2 * more + signed.size):
        cones.append(SecondOrderCone.of(np.r_[k, list(penalty.group)]))
        cost[k] = -program.sign * penalty.weight
    whole = sp.hstack([columns, sp.csr_array((m, extra))])
    flat = replace(
        program,
        rows_q=sp.csr_array(
            sp.vstack([program.rows_q, sp.csr_array((link.shape[0], program.rows_q.shape[1]))])
        ),
        rows_x=sp.csr_array(sp.vstack([whole, link])),
        relations=np.r_[program.relations, np.zeros(link.shape[0], dtype=np.int8)],
        rhs=np.r_[program.rhs, np.ones(more), np.zeros(signed.size)],
        cost_x=cost,
        free_x=np.r_[program.free_x, np.ones(extra, dtype=bool)],
        quadratic_x=np.zeros(n + extra),
        norms=(),
        cones=tuple(cones),
        safe=replace(program.safe, direction=None, anchor=None),
    )
    return EpigraphForm(program, flat, units)


__all__ = ["EpigraphForm", "without_penalties"]
