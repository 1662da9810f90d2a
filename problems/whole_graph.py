"""What an embedding of a large graph proves about maximum variance unfolding of all its points.

    maximise  tr K   s.t.  ‖y_i − y_j‖² ≤ d_e,  K ⪰ 0,  K1 = 0        (the inequality form)

Outputs that make no edge longer bound the optimum from below, whatever they were made of. From
above, every w ≥ 0 does, by min(T, dᵀw/λ₂(L(w))), with T the variance that shortest paths allow. An
embedding says where the tensions are: edges that it stretches are under tension. From there they
are fitted on the whole graph (`sdpkit.numerics.tensions`), and the lowest eigenvectors of their
Laplacian are further outputs for the bound from below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.numerics.eigenpairs import lowest_on_centred, smallest_on_centred
from sdpkit.numerics.pattern import Pattern
from sdpkit.numerics.tensions import fitted_tensions, with_short_edges
from sdpkit.typing import Array

# Stretches of an embedding are taken seriously within these factors of their mean.
_LEAST_STRETCH, _MOST_STRETCH = 0.03, 30.0
# Eigenvectors that are tried as outputs.
_EIGENVECTORS = 8


@dataclass(frozen=True, eq=False, repr=False)
class WholeGraphBounds:
    """Bounds on the optimum of MVU, inequality form, over all points of a graph.

    Attributes
    ----------
    lower : float
        The variance of `coordinates`.
    upper : float
        min(T, dᵀw/λ₂(L(w))) with a proven bound on λ₂.
    coordinates : array of shape (n, r)
        Outputs whose edges are no longer than the inputs'.
    tensions : array of shape (m,)
        w ≥ 0, one for each edge.

    Examples
    --------
    >>> WholeGraphBounds(90.0, 100.0, np.zeros((5, 2)), np.ones(4))
    <MVU, inequality, of 5 points: the optimum is between 90 and 100, which are 10 % apart>
    """

    lower: float
    upper: float
    coordinates: Array
    tensions: Array

    @property
    def relative_gap(self) -> float:
        """(upper − lower)/upper."""
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    def __repr__(self) -> str:
        return (
            f"<MVU, inequality, of {len(self.coordinates)} points: the optimum is between "
            f"{self.lower:.6g} and {self.upper:.6g}, which are {100 * self.relative_gap:.2g} % "
            "apart>"
        )


def whole_graph_bounds(graph: NeighborhoodGraph, outputs: Array) -> WholeGraphBounds:
    """Both bounds, from an embedding (n, k) of a connected graph whose edges have lengths > 0."""
    B, d = graph.incidence(), graph.squared_lengths
    pattern = Pattern.of(graph.n_points, graph.edges)

    def lowest(w: Array) -> tuple[Array, Array]:
        return lowest_on_centred(pattern, w, 0.0, _EIGENVECTORS)

    stretch = np.square(B @ outputs).sum(axis=1) / d
    mean = float(stretch.mean()) or 1.0
    found = fitted_tensions(
        d, lowest, B, np.sqrt(np.clip(stretch / mean, _LEAST_STRETCH, _MOST_STRETCH) / d)
    )
    tries = [with_short_edges(y, B, d) for y in (outputs, found.factor)]
    best = max(tries, key=lambda y: float(np.square(y).sum()))
    least = smallest_on_centred(pattern, found.weights, 0.0)
    upper = graph.variance_bound()
    if least > 0:
        upper = min(upper, float(d @ found.weights) / least * (1 + 1e-12))
    return WholeGraphBounds(float(np.square(best).sum()), upper, best, found.weights)
