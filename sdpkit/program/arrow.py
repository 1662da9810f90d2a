"""Second-order cones as semidefinite blocks, for solvers and proofs that know no others.

    {(x_h, x_T) : x_h ≥ ‖x_T‖}  =  {(tr S, 2S₀₁, …, 2S₀ₖ₋₁) : S ⪰ 0},   S of size k

so that the cone becomes a block and its variables become measurements of it. There is no further
constraint, and the multipliers stay what they are: the block's dual slack is the arrow matrix with
r_h on its diagonal and r_T beside it, which is semidefinite if and only if r_h ≥ ‖r_T‖.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix
from sdpkit.program.safe import NormPenalty
from sdpkit.typing import Array, Indices


@dataclass(frozen=True, eq=False)
class ArrowForm:
    """A program without second-order cones, and the way to and from the one with them.

    Attributes
    ----------
    original, program: with the cones and with blocks in their place, after all others
    kept: the variables of `original` that are left, in their order
    """

    original: Program
    program: Program
    kept: Indices

    def lifted(self, matrices: Sequence[Matrix], x: Array) -> tuple[tuple[Matrix, ...], Array]:
        """(matrices, x) of the original from those of the program."""
        n_blocks = len(self.original.blocks)
        out = np.empty(self.original.n_auxiliary)
        out[self.kept] = x
        for cone, matrix in zip(self.original.cones, matrices[n_blocks:], strict=True):
            s = np.asarray(matrix)
            out[cone.members] = np.r_[np.trace(s), s[0, 1:] + s[1:, 0]]
        return tuple(matrices[:n_blocks]), out

    def lowered(self, matrices: Sequence[Matrix], x: Array) -> tuple[tuple[Matrix, ...], Array]:
        """(matrices, x) of the program from those of the original; S has rank two."""
        blocks = [arrow_point(x[cone.members]) for cone in self.original.cones]
        return (*matrices, *blocks), x[self.kept]


def without_second_order_cones(program: Program) -> ArrowForm:
    """The program with a semidefinite block for each second-order cone.

    >>> from sdpkit import Block, Program, SecondOrderCone
    >>> program = Program.of(
    ...     Block.of(1, [[1.0]]), [1.0, 2.0], rows_q=[[0.0], [1.0]], rows_x=[[0.0, 1.0], [0, 0]],
    ...     cost_x=[-1.0, 0.0], free_x=[True, True], cones=[SecondOrderCone.of([0, 1])])
    >>> form = without_second_order_cones(program)
    >>> [block.size for block in form.program.blocks], form.program.n_auxiliary
    ([1, 2], 0)
    """
    if not program.cones:
        return ArrowForm(program, program, np.arange(program.n_auxiliary))
    kept = np.flatnonzero(~program.cone_x.inside)
    columns, blocks, pieces = program.columns_x, [], []
    for number, cone in enumerate(program.cones, start=1):
        blocks.append(_block(cone.members.size, program.cost_x[cone.members], f"S{number}"))
        pieces.append(columns[:, cone.members] @ _entries(cone.members.size))
    position = np.cumsum(~program.cone_x.inside) - 1
    arrow = Program.of(
        [*program.blocks, *blocks],
        program.rhs,
        sense=program.sense,
        rows_q=sp.hstack([program.rows_q, *pieces], format="csr"),
        rows_x=program.rows_x[:, kept],
        relations=program.relations,
        cost_q=np.r_[program.cost_q, np.zeros(sum(b.n_measurements for b in blocks))],
        cost_x=program.cost_x[kept],
        free_x=program.free_x[kept],
        quadratic_x=program.quadratic_x[kept],
        norms=[
            NormPenalty(p.weight, tuple(int(position[j]) for j in p.group)) for p in program.norms
        ],
        offset=program.offset,
        safe=replace(program.safe, trace=None),
        notes=program.notes,
        name=program.name,
    )
    return ArrowForm(program, arrow, kept)


def _entries(k: int) -> sp.csr_array:
    """(k, 2k − 1) the entries tr S, 2S₀₁, … as sums of the measurements of `_block`."""
    trace: Any = sp.csr_array(np.ones((1, k)))
    pairs: Any = sp.eye_array(k - 1, format="csr")
    beside: Any = -_ends(k)
    return sp.csr_array(sp.block_array([[trace, None], [beside, pairs]]))


def _ends(k: int) -> sp.csr_array:
    """(k − 1, k) the vectors e₀ + e_j."""
    j = np.arange(1, k)
    places = (np.tile(j - 1, 2), np.r_[np.zeros(k - 1, dtype=np.int64), j])
    return sp.csr_array((np.ones(2 * k - 2), places), shape=(k - 1, k))


def _block(k: int, costs: Array, name: str) -> Block:
    """A k × k unknown with the measurements e_i, e₀ + e_j, and the cost of its cone."""
    vectors = sp.vstack([sp.eye_array(k, format="csr"), _ends(k)], format="csr")
    first, rest = np.zeros(k - 1, dtype=np.int64), np.arange(1, k)
    places = (np.r_[first, rest], np.r_[rest, first])
    beside = sp.csr_array((np.r_[costs[1:], costs[1:]], places), shape=(k, k))
    return Block.of(k, vectors, name=name, cost=Cost.of(k, identity=float(costs[0]), sparse=beside))


def arrow_point(values: Array) -> Array:
    """S of rank two with tr S and 2S₀ⱼ as given, semidefinite iff they lie in the cone."""
    head, tail, k = float(values[0]), values[1:], values.size
    out = np.zeros((k, k))
    if k == 1:
        out[0, 0] = head
        return out
    length = float(np.linalg.norm(tail))
    unit = tail / length if length > 0 else np.eye(k - 1)[0]
    out[0, 0], out[0, 1:], out[1:, 0] = head / 2, tail / 2, tail / 2
    out[1:, 1:] = head / 2 * np.outer(unit, unit)
    return out


__all__ = ["ArrowForm", "arrow_point", "without_second_order_cones"]
