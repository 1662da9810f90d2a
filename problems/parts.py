"""Parts of a graph that are unfolded each on its own, and the directions in which a part is flat.

Where a clique of the graph is affinely dependent (noise-free data, angle closure), its lengths
force K c = 0 for every c on the clique with Σc = 0 and Xᵀc = 0; the same holds for the rigid bodies
that grow from such cliques (`sdpkit.graphs.rigid`), and for small clusters of edges under stress
(`sdpkit.graphs.local_stresses`). No feasible K is positive definite on 1⊥ then, and the dual
optimum need not exist. Facial reduction adds these c to the null directions, which changes nothing
about the problem but its solvability. Stresses of the whole graph (`sdpkit.graphs.stresses`) expose
more such directions; they take longer to find, and are looked for only after an inaccurate answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.graphs.local_stresses import is_stressed, local_directions
from sdpkit.graphs.rigid import clear_edges, flat_directions
from sdpkit.graphs.stresses import exposed_directions
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array, Indices


@dataclass(frozen=True, eq=False)
class Part:
    """One semidefinite unknown: the nodes of a connected component (or of the whole graph).

    Attributes
    ----------
    nodes: (n,) indices of merged nodes;  graph: the edges among them, relabelled
    multiplicities: (n,) how many coincident points each node stands for
    points: (n, D) points with exactly the graph's lengths, if they are known
    reduces: whether flat directions are looked for, beside the constant
    """

    nodes: Indices
    graph: NeighborhoodGraph
    multiplicities: Array
    points: Array | None
    reduces: bool

    @cached_property
    def null(self) -> Array:
        """(n, k) directions on which K vanishes, the constant first."""
        return self._null_directions()

    @one_blas_thread
    def _null_directions(self) -> Array:
        ones = np.ones((self.graph.n_points, 1))
        if not self.reduces:
            return ones
        flat = flat_directions(self.graph, self.points)
        if self.points is not None:
            edges = clear_edges(self.graph, self.points)
            flat = np.hstack([flat, local_directions(self.points, edges, flat)])
        continue_or_raise()  # a search that was cut short is not kept
        return np.hstack([ones, flat]) if flat.shape[1] else ones

    @one_blas_thread
    def exposed(self) -> Array:
        """(n, k) further directions that stresses of the whole graph expose; none without points,
        or where the points have noise."""
        if self.points is None or not self.reduces:
            return self.null[:, :0]
        edges = clear_edges(self.graph, self.points)
        if not is_stressed(self.points, edges):
            return self.null[:, :0]
        return exposed_directions(self.points, edges, self.null)


__all__ = ["Part"]
