"""Maximum variance unfolding and its kin (Weinberger 2007, sections 3.1.4, 3.1.6 and 3.1.11).

Points y_i with Gram matrix K are tied to their neighbours and pulled apart. With edges
e = (i, j), squared input lengths d_e, b_e = e_i − e_j, A(K)_e = b_eᵀKb_e and C = I − 11ᵀ/n, all
forms have K ⪰ 0 and K1 = 0; their duals hold on 1⊥, and the multipliers w_e are the tensions of
the edges:

    equality     maximise tr K   s.t.  A(K) = d
                 dual: minimise dᵀw   s.t.  L(w) ⪰ C
    inequality   maximise tr K   s.t.  A(K) ≤ d
                 dual: minimise dᵀw   s.t.  L(w) ⪰ C,  w ≥ 0
    slack        maximise (1−ω) tr K − ω Σ|ξ_e|   s.t.  A(K) = d + ξ
                 dual: minimise dᵀw   s.t.  L(w) ⪰ (1−ω)C,  |w_e| ≤ ω
    min_trace    minimise tr K   s.t.  A(K) = d
                 dual: maximise dᵀw   s.t.  L(w) ⪯ C

with L(w) = Σ w_e b_e b_eᵀ. The first two are bounded on a connected graph, since no path
stretches beyond its length: tr K ≤ T = (1/2n) Σ_ij sp(i,j)². The slack form is bounded iff
ω λ₂(L(1)) ≥ 1 − ω. Points joined by zero-length edges are one point with multiplicity m_i; then
C = diag(m) − mmᵀ/n.

`full=True` adds that no two points come closer than they were, which `sdpkit.problems.full` states.

Where lengths leave no K that is positive definite on 1⊥, `facial_reduction="auto"` adds the
directions in which every K vanishes to the null directions (`sdpkit.problems.parts`). Where an
answer stays inaccurate even so, `retry` looks for more of them and states the program on the
smaller face.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.parts import Part
from sdpkit.problems.unfolding import Unfolding, omega_default, omega_threshold
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.sequence import Ending
from sdpkit.typing import Array


@dataclass(frozen=True, eq=False, repr=False)
class MVU(Unfolding):
    """Maximum variance unfolding of points, distances, a kernel or a graph.

    Parameters
    ----------
    X : array-like of shape (n, D) or None, default None
        Points; or give one of distances, kernel and graph.
    distances : array-like of shape (n, n) or None, default None
        Lengths between all points (not squared).
    kernel : array-like of shape (n, n) or None, default None
        A Gram matrix A, with d = A_ii + A_jj − 2A_ij.
    graph : array or sparse matrix of shape (n, n), NeighborhoodGraph or None, default None
        An adjacency matrix. With X, distances or kernel its nonzeros are the edges; alone, its
        entries are the edges' lengths.
    edges : array-like of shape (m, 2) or None, default None
        The pairs of points whose lengths are kept.
    n_neighbors : int or None, default None
        Join points if either is among the k nearest of the other; 4 if nothing else says which
        pairs are edges.
    radius : float or None, default None
        Join all points that are at most so far apart.
    angles : bool, default False
        Whether to join the neighbours of each point too, so that angles are preserved.
    connect : {"error", "auto", "bridge", "components"}, default "error"
        What to do with a disconnected graph in the forms that maximise: refuse it ("error"), join
        neighbouring components by several short edges ("auto") or by one ("bridge", thesis
        3.1.12), or unfold each on its own ("components").
    form : {"equality", "inequality", "slack", "min_trace"}, default "equality"
        What is kept: lengths as equations, as upper bounds ("inequality"), with penalised slack
        variables ("slack"), or as equations with the least instead of the largest variance
        ("min_trace").
    omega : float or None, default None
        ω, the weight of the slack variables; None takes one from the threshold of boundedness
        (`omega_default`).
    full : bool, default False
        Whether no pair of points may come closer than it was (FULL); needs X, distances or kernel.
    facial_reduction : {"auto", "off"}, default "auto"
        Whether to restrict the program to the face on which it has an interior; "off" keeps the
        program as it stands.
    random_state : int, default 0
        The seed of bridging.

    Attributes
    ----------
    neighborhood : NeighborhoodGraph
        The graph over all points.
    group : array of int, shape (n,)
        The node of each point; points joined by edges of length zero share one.
    parts : tuple of Part
        The semidefinite unknowns, one per connected component that is unfolded apart.
    omega_used : float or None
        ω of the slack form, given or chosen; None in the other forms.

    Examples
    --------
    >>> import sdpkit
    >>> problem = MVU(graph=sdpkit.datasets.path_graph(4))        # four points on a string
    >>> solution = sdpkit.solve(problem, solver="clarabel")
    >>> round(solution.objective, 6)                              # (n³ − n)/12
    5.0
    >>> problem.recover(solution)
    <Embedding of 4 points in 1 dimensions: fidelity 1.0000, suggested dimension 1>
    """

    def _costs(self) -> list[Cost]:
        return self._variances()

    @one_blas_thread
    def program(self) -> Program:
        """The problem in squared lengths, one unknown K per part; all pairs, if `full`."""
        return self._with_pairs(self._on_edges())

    @one_blas_thread
    def retry(self, tried: Program) -> Program | None:
        """A program with the same optimum on a smaller face than that of `tried`, or None.

        `sdpkit.solve` asks for it when the answer to `tried` does not pass. The null directions
        that stresses of the whole graph expose are added; None if there are none, or if `tried`
        has them already.
        """
        known = sum(part.null.shape[1] for part in self.parts)
        if self.full or sum(block.null.shape[1] for block in tried.blocks) > known:
            return None
        further = [part.exposed() for part in self.parts]
        found = sum(directions.shape[1] for directions in further)
        if not found:
            return None
        pieces = zip(self.parts, further, strict=True)
        program = self._on_edges([np.hstack([part.null, more]) for part, more in pieces])
        note = f"facial reduction: stresses fix {found} directions more"
        return replace(program, notes=(*program.notes, note))

    @property
    def advance(self) -> Callable[[tuple[Solution, ...], float], Program | Ending] | None:
        """The steps of `sdpkit.solve` with `full`, which adds pairs in rounds: a function of the
        solutions so far and of `tol`, as `sdpkit.solving.sequence` describes it. None without
        `full`: `program()` is all there is to solve."""
        return self._next_round if self.full else None

    @one_blas_thread
    def _next_round(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
        """The edges alone, then constraints for the pairs that came too close, until none does."""
        assert self.all_pairs is not None
        if not solutions:
            return self._on_edges()
        further = self.all_pairs.next_round(solutions[-1], tol)
        ending = Ending("no pair is too close", Status.OPTIMAL)
        return further or self.all_pairs.concluded(ending, solutions[-1])

    def _gain(self, part: Part, y: Array) -> float:
        """The variance of the points of a part, (n, d)."""
        return float(np.square(y - y.mean(axis=0)).sum())

    def _cvxpy_gain(self, K: Any) -> Any:
        import cvxpy as cp

        return cp.trace(K)


__all__ = ["MVU", "omega_default", "omega_threshold"]
