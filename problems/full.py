"""FULL: no two points may come closer than they were (Jebara's lecture: SDE-FULL and MVE-FULL).

MVU and MVE keep the lengths of a graph's edges. A graph that would fold, such as a spanning tree,
gets a constraint for *every* pair of points,

    A(K)_ij ≥ d_ij,      multipliers −u_ij ≤ 0,      dual slack  L(w) − L(u) − C ⪰ 0,
    bound  dᵀw − d_Fᵀu

and far too many constraints to begin with. They are added in rounds: of every point the pair that
came closest. A pair without a constraint has multiplier zero, so that the multipliers of any round
bound the whole problem, and a K that violates no pair solves it. Any round that is infeasible
proves that the whole is.

It makes sense for a spanning tree over points, or over the tips of a phylogeny, whose distances
are Euclidean. With all its nodes, a branching tree and its path lengths are infeasible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.program.block import differences
from sdpkit.program.form import Program
from sdpkit.solution.solution import Solution
from sdpkit.solving.sequence import Ending
from sdpkit.typing import Array

Pairs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AllPairs:
    """The pairs that may not come closer, and their constraints.

    Attributes
    ----------
    squared: (n, n) squared distances d_ij of the input
    kept: (k, 2) pairs whose length the program fixes already
    n_edges: the number of constraints, and measurements, of the program before any pair's
    """

    squared: Array
    kept: Pairs
    n_edges: int

    def pairs(self) -> Pairs:
        """(p, 2) all of them, i < j."""
        asked = np.ones(self.squared.shape, dtype=bool)
        asked[self.kept[:, 0], self.kept[:, 1]] = False
        return np.argwhere(np.triu(asked, k=1))

    def rows_in(self, program: Program) -> Pairs:
        """(p, 2) the pairs that a program has constraints for, in their order."""
        further = program.blocks[0].incidence[self.n_edges :]
        return further.indices.reshape(-1, 2).astype(np.int64)

    def add_rows(self, program: Program, pairs: Pairs) -> Program:
        """The program with constraints A(K)_ij ≥ d_ij after its own."""
        (block,) = program.blocks
        p, safe, wording = len(pairs), program.safe, program.wording
        further = differences(pairs[:, 0], pairs[:, 1], block.size)
        if wording is not None and p:
            wording = replace(wording, rows=(*wording.rows, ("‖y_i − y_j‖² ≥ d_ij", p)))
        return Program.of(
            replace(block, incidence=sp.csr_array(sp.vstack([block.incidence, further]))),
            np.concatenate([program.rhs, self.squared[pairs[:, 0], pairs[:, 1]]]),
            relations=np.concatenate([program.relations, np.ones(p)]),
            rows_x=sp.vstack([program.rows_x, sp.csr_array((p, program.n_auxiliary))]),
            cost_x=program.cost_x,
            safe=replace(
                safe, direction=_extended(safe.direction, p), anchor=_extended(safe.anchor, p)
            ),
            notes=program.notes,
            name=program.name,
            wording=wording,
        )

    def closeness(self, solution: Solution) -> Array:
        """(n, n) squared distances of the outputs over those of the inputs; inf for kept pairs."""
        K = np.asarray(solution.matrix)
        q = np.diag(K)[:, None] + np.diag(K)[None, :] - 2 * K
        d = self.squared
        share = np.divide(q, d, out=np.full_like(d, np.inf), where=d > 0)
        return _without(share, self.kept)

    def too_close(self, solution: Solution, tol: float) -> Pairs:
        """(p, 2) pairs without a constraint that came closer by more than a share `tol`: of every
        point the worst."""
        share = _without(self.closeness(solution), self.rows_in(solution.program))
        worst = np.column_stack([np.arange(len(share)), share.argmin(axis=1)])
        worst = worst[share.min(axis=1) < 1 - tol]
        return np.unique(np.sort(worst, axis=1), axis=0)

    def next_round(self, solution: Solution, tol: float) -> Program | None:
        """The solution's program with constraints that it violates, or None if it violates none."""
        pairs = self.too_close(solution, tol)
        return self.add_rows(solution.program, pairs) if len(pairs) else None

    def concluded(self, ending: Ending, answer: Solution) -> Ending:
        """The ending with an answer that is certified with a constraint for every pair."""
        pairs, generated = self.pairs(), self.rows_in(answer.program)
        n = len(self.squared)
        rest = pairs[~np.isin(pairs @ [n, 1], generated @ [n, 1])]
        whole = self.add_rows(answer.program, rest)
        note = f"{len(pairs)} pairs were checked; {len(generated)} of them needed a constraint"
        return replace(
            ending,
            answer=answer,
            program=replace(whole, notes=(*whole.notes, note)),
            dual=_extended(answer.dual, len(rest)),
        )


def _without(share: Array, pairs: Pairs) -> Array:
    """A symmetric matrix with inf at these pairs."""
    i, j = pairs.T
    share[i, j] = share[j, i] = np.inf
    return share


def _extended(values: Array | None, further: int) -> Array | None:
    """Multipliers with zeros for further constraints."""
    return None if values is None else np.concatenate([values, np.zeros(further)])
