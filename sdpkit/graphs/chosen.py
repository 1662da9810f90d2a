"""Choices that the data make: how many neighbours, which form, which edges are short-cuts.

Each choice comes with its reason, one sentence with the numbers behind it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from sdpkit.graphs.distances import SquaredDistances
from sdpkit.graphs.edges import directed_pairs
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.graphs.repair import bad_edges
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.neighbors import row_blocks
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Bools

# Numbers of neighbours that are tried.
_FEWEST, _MOST = 4, 8
_NEARLY_ALL = 0.95
# An edge is a short-cut if the way around it is so many times as long, and as many usual edges
# long. The ways around the holes of a random sample are shorter.
_DETOUR, _FAR = 4.0, 12.0
# Interquartile ranges below the first quartile at which an edge is in doubt.
_FENCE = 3.0
# The dimension of a neighbourhood holds so much of its variance; what may lie outside of it.
_LOCAL_SHARE = 0.9
_FLAT_SHARE = 0.15
_LOCAL_NEIGHBORS = 8
# Eigenvalues below −1 % of the sum: distances that no points have.
_NOT_EUCLIDEAN = -0.01


class Chosen(NamedTuple):
    """A value and the reason for it."""

    value: int | str
    reason: str


@one_blas_thread
def short_cuts(graph: NeighborhoodGraph) -> Bools:
    """Mask, (m,), of edges that join places far apart along the graph.

    Such an edge is rarely used by a random walk (`bad_edges`), and the shortest path between its
    ends through better edges is far longer. Edges in doubt are tried from the shortest to the
    longest, so that one that holds two parts together is kept.

    >>> from sdpkit.graphs.build import neighborhood_graph
    >>> line = neighborhood_graph(np.linspace(0, 10, 60)[:, None], n_neighbors=4)
    >>> graph = line.with_edges([[5, 50]], [0.25])
    >>> graph.edges[short_cuts(graph)]
    array([[ 5, 50]])
    """
    suspect = bad_edges(graph, threshold=_FENCE)
    found = np.zeros(graph.n_edges, dtype=bool)
    if not suspect.any():
        return found
    from scipy.sparse.csgraph import dijkstra

    usual = float(np.median(np.sqrt(graph.squared_lengths)))
    lengths = graph.adjacency(lengths=True)
    doubtful = np.flatnonzero(suspect)
    kept = ~suspect
    for edge in doubtful[graph.squared_lengths[doubtful].argsort(kind="stable")]:
        continue_or_raise()
        i, j = graph.edges[edge]
        rest = graph.without_edges(~kept).adjacency(lengths=True)
        around = float(dijkstra(rest, directed=False, indices=i)[j])
        length = float(lengths[i, j])
        found[edge] = np.isfinite(around) and around > max(_DETOUR * length, _FAR * usual)
        kept[edge] = not found[edge]
    return found


@one_blas_thread
def choose_neighbors(lengths: SquaredDistances) -> Chosen:
    """The number of neighbours for data: the smallest whose graph is connected.

    Short-cuts do not count as connections, and more neighbours would only bring more of them. Where
    no number from 4 to 8 connects nearly all points, the data are clusters, and it is 4.

    >>> from sdpkit.datasets import swiss_roll
    >>> choose_neighbors(SquaredDistances.from_points(swiss_roll(200))).value
    4
    """
    n = lengths.n_points
    most = min(_MOST, n - 1)
    least = min(_FEWEST, most)
    neighbors = lengths.neighbors(most)
    graphs = [lengths.graph(directed_pairs(neighbors[:, :k])) for k in range(least, most + 1)]
    sizes = [graph.without_edges(short_cuts(graph)).component_sizes for graph in graphs]
    for enough, words in ((n, "all"), (_NEARLY_ALL * n, "nearly all")):
        for k, parts in enumerate(sizes, start=least):
            if parts[0] >= enough:
                fewer = f"; {k - 1} leave {len(sizes[k - 1 - least])} parts" if k > least else ""
                return Chosen(k, f"the smallest number that connects {words} points{fewer}")
    return Chosen(
        least,
        f"the data are in clusters: {len(sizes[0])} components with {least} neighbours, "
        f"{len(sizes[-1])} with {most}",
    )


@one_blas_thread
def choose_form(lengths: SquaredDistances, joined: bool = False) -> Chosen:
    """ "equality" where neighbourhoods are flat, "inequality" where they are noisy.

    Lengths of noisy points can be kept only in many dimensions. A neighbourhood of 8 points has the
    dimension that holds 90 % of its variance; where more than 15 % lies outside, the lengths may
    shrink. So they may where distances belong to no points, or where components are joined.

    >>> from sdpkit.datasets import swiss_roll
    >>> choose_form(SquaredDistances.from_points(swiss_roll(400, noise_dims=0))).value
    'equality'
    """
    if joined:
        return Chosen("inequality", "components were joined, and joins may give way")
    dimension, outside, euclidean = _local_shape(lengths)
    if not euclidean:
        return Chosen("inequality", "no points have these distances exactly")
    found = f"neighbourhoods have {dimension} dimension{'s' if dimension > 1 else ''}"
    share = f"{found}, with {100 * outside:.1f} % of their variance outside"
    if outside <= _FLAT_SHARE:
        return Chosen("equality", share)
    return Chosen("inequality", f"{share}, which is noise to lengths that must be kept")


def _local_shape(lengths: SquaredDistances) -> tuple[int, float, bool]:
    """(dimension, share of the variance outside of it, whether distances are Euclidean), the
    medians over all neighbourhoods."""
    n = lengths.n_points
    k = min(_LOCAL_NEIGHBORS, n - 1)
    near = np.column_stack([np.arange(n), lengths.neighbors(k)])
    spectra = []
    for part in row_blocks(n, (k + 1) ** 2):
        continue_or_raise()
        squared = lengths.between(near[part][:, :, None], near[part][:, None, :])
        centred = squared - squared.mean(axis=1, keepdims=True)
        centred = -0.5 * (centred - centred.mean(axis=2, keepdims=True))
        spectra.append(np.linalg.eigvalsh((centred + centred.swapaxes(1, 2)) / 2)[:, ::-1])
    values = np.concatenate(spectra)
    total = values.clip(min=0).sum(axis=1)
    shares = values[total > 0] / total[total > 0, None]
    if not len(shares):
        return 1, 0.0, True
    held = shares.clip(min=0).cumsum(axis=1)
    dimension = int(np.median((held < _LOCAL_SHARE).sum(axis=1))) + 1
    outside = float(np.median(1 - held[:, dimension - 1]))
    return dimension, max(outside, 0.0), float(np.median(shares[:, -1])) > _NOT_EUCLIDEAN


Prune = Literal["off", "auto"]
__all__ = ["Chosen", "Prune", "choose_form", "choose_neighbors", "short_cuts"]
