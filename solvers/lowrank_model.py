"""A program scaled to rows, right-hand sides and costs of size one, for low-rank factors.

Slack variables that occur in one constraint alone are eliminated: their costs limit its multiplier,
lo ≤ w ≤ hi. Other nonnegative variables are squares, x_j = z_j²; free ones are themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.program.block import Block, stiff_enough
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.kinds import why_no_graph
from sdpkit.solvers.in_time import stoppable
from sdpkit.typing import Array, Bools, Indices


@dataclass(frozen=True, eq=False)
class FactoredBlock:
    """One block: its measurements V = B X, its cost, its null directions."""

    block: Block
    sign: float
    back: sp.csr_array

    @classmethod
    def of(cls, block: Block, sign: float) -> FactoredBlock:
        """The block with its cost in the units of the model."""
        return cls(block, sign, sp.csr_array(block.incidence.T))

    def images(self, y: Array) -> Array:
        """V Y, (p, r)."""
        x = self.block.features
        return np.asarray(self.block.incidence @ (y if x is None else x @ y))

    def gathered(self, u: Array) -> Array:
        """Vᵀ U, (n, r)."""
        x, out = self.block.features, self.back @ u
        return np.asarray(out if x is None else x.T @ out)

    def cost(self, y: Array) -> Array:
        """C Y."""
        cost = self.block.cost
        out = cost.identity * y
        if cost.sparse.nnz:
            out = out + cost.sparse @ y
        if cost.factor.shape[1]:
            out = out + cost.factor @ (cost.weights[:, None] * (cost.factor.T @ y))
        return np.asarray(self.sign * out)

    def projected(self, y: Array) -> Array:
        """Y without what the null directions see."""
        q = self.block.null_basis
        return y - q @ (q.T @ y) if q.shape[1] else y


@dataclass(frozen=True, eq=False)
class LowRankModel:
    """The maximisation with rows of norm one, right-hand sides and costs of size one.

    M = unit·M',  w = cost_scale·unit·w'/norms;  `kept` are the auxiliary variables that no box
    stands for;  `side` is ±1 where a multiplier has a sign and no other limit.
    """

    program: Program
    parts: tuple[FactoredBlock, ...]
    rows_q: sp.csr_array
    back_q: sp.csr_array
    rows_x: sp.csr_array
    b: Array
    lo: Array
    hi: Array
    cost_q: Array
    kept: Indices
    free: Bools
    cost_x: Array
    curvature_x: Array
    norms: Array
    unit: float
    cost_scale: float
    side: Array

    @classmethod
    def of(cls, program: Program) -> LowRankModel:
        """The program in units in which rows and costs have size one."""
        sign = program.sign
        unit = float((np.abs(program.rhs) / program.row_norms).max(initial=0.0)) or 1.0
        norms = unit * program.row_norms
        if np.all(program.rhs > 0):
            # Lengths: each row in units of its own.
            norms = np.maximum(program.rhs, 1e-3 * program.rhs.max())
        costs = [block.cost.magnitude() for block in program.blocks]
        linear = np.concatenate([program.cost_x, program.cost_q])
        cost_scale = max(*costs, float(np.abs(linear).max(initial=0.0))) or 1.0
        kept = np.flatnonzero(~in_boxes(program))
        lo, hi = program.multiplier_box
        scale = sp.diags_array(unit / norms)
        rows_q = sp.csr_array(scale @ program.rows_q)
        above, below = (lo == 0) & np.isinf(hi), (hi == 0) & np.isinf(lo)
        return cls(
            program,
            tuple(FactoredBlock.of(block, sign / cost_scale) for block in program.blocks),
            rows_q,
            sp.csr_array(rows_q.T),
            sp.csr_array(scale @ program.rows_x[:, kept]),
            program.rhs / norms,
            lo * norms / (cost_scale * unit),
            hi * norms / (cost_scale * unit),
            sign * program.cost_q / cost_scale,
            kept,
            program.free_x[kept],
            sign * program.cost_x[kept] / cost_scale,
            program.quadratic_x[kept] * unit / cost_scale,
            norms,
            unit,
            cost_scale,
            np.where(above, 1.0, np.where(below, -1.0, 0.0)),
        )

    @cached_property
    def is_graph(self) -> bool:
        """Whether the rows are the edges of graphs and all auxiliary variables have boxes."""
        return not self.kept.size and why_no_graph(self.program) is None

    # An unknown is the list of the blocks' Y and, last, the vector that stands for x.

    def flat(self, unknown: list[Array]) -> Array:
        """All unknowns in one vector."""
        return np.concatenate([a.ravel() for a in unknown])

    def shaped(self, flat: Array, ranks: tuple[int, ...]) -> list[Array]:
        """The blocks' Y and the vector for x, as views."""
        out, start = [], 0
        for part, rank in zip(self.parts, ranks, strict=True):
            stop = start + part.block.size * rank
            out.append(flat[start:stop].reshape(part.block.size, rank))
            start = stop
        return [*out, flat[start:]]

    def squares(self, a: Array) -> Array:
        """x of the vector that stands for it."""
        return np.where(self.free, a, a * a)

    def slopes(self, a: Array) -> Array:
        """dx/da."""
        return np.where(self.free, 1.0, 2 * a)

    def dual(self, w: Array) -> Array:
        """Multipliers of the program's maximisation."""
        return np.asarray(self.cost_scale * self.unit * w / self.norms)

    def own(self, w: Array) -> Array:
        """The program's multipliers, of its maximisation, in the units of here."""
        return np.clip(w * self.norms / (self.cost_scale * self.unit), self.lo, self.hi)


def in_boxes(program: Program) -> Bools:
    """Which auxiliary variables the box of a multiplier stands for."""
    counts = np.diff(sp.csc_array(program.rows_x).indptr)
    return np.asarray((counts == 1) & ~program.free_x & (program.quadratic_x == 0))


def lowest_eigenpairs(
    part: FactoredBlock, u: Array, k: int, cost: bool = True
) -> tuple[Array, Array]:
    """The k smallest eigenvalues, rising, and eigenvectors of Vᵀdiag(u)V − C on the face."""
    block, pull = part.block, part.sign if cost else 0.0
    if block.is_large_graph:
        from sdpkit.numerics.eigenpairs import lowest_on_centred

        update = block.low_rank.scaled(pull) if pull and block.low_rank else None
        identity = pull * block.cost.identity
        weights = block.on_pattern(u, stiff_enough(u, identity))
        return lowest_on_centred(block.pattern, weights, identity, k, update)
    slack = dense(block.adjoint(u)) - (pull * block.cost.dense() if pull else 0.0)
    basis = block.null_basis
    slack = block.project_out_null(slack)
    lift = np.linalg.norm(slack) + 1.0
    room = block.size - basis.shape[1]
    slack += lift * basis @ basis.T
    wanted = [0, min(k, room) - 1]
    found = stoppable(block.size, lambda: scipy.linalg.eigh(slack, subset_by_index=wanted))
    return found[0], found[1]
