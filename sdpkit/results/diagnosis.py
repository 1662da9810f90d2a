"""What is wrong with a drawing, whatever the certificate says of the program behind it.

A certificate proves that the program was solved. Whether the drawing shows the data is another
matter: it is measured here, beside principal components and Isomap, and said in short sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sdpkit.errors import InputError
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.graphs.joins import hanging_parts
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.results.embedding import Embedding, gram, outputs
from sdpkit.typing import Array, Bools, Indices

# Trust and continuity may be so much below the better of PCA and Isomap: 0.02, and what chance
# does to n points, 0.4/√n.
_MARGIN, _CHANCE = 0.02, 0.4
# Points of a part that hangs on one edge, at least, as a share of all, and how long the edge is, in
# units of a usual one.
_HANGING_SHARE, _LONG_EDGE = 0.05, 2.0
# The variance that the drawn dimensions should hold, and what counts as all of it.
_SHOWN, _NEEDED = 0.65, 0.95
# A point is folded over if a drawn neighbour is so many times as far along the graph.
_FOLD = 8.0
_FOLDED_SHARE = 0.15
# Growth of the variance below which nothing was unfolded.
_LOCKED = 1.02
_NEIGHBORS = 5
MOST_POINTS = 2000
"""More points are not diagnosed: all pairs are compared."""


@dataclass(frozen=True)
class Faithfulness:
    """Of a drawing: do its neighbours deserve trust, and are neighbours still neighbours?

    Attributes
    ----------
    trust : float
        Trustworthiness (Venna and Kaski 2001) of the five nearest neighbours, 1 is perfect.
    continuity : float
        The same with input and output exchanged.
    """

    trust: float
    continuity: float


@dataclass(frozen=True)
class Diagnosis:
    """What a drawing shows and what it hides.

    Attributes
    ----------
    faithfulness : mapping of str to Faithfulness
        Of the drawing ("unfolding"), of "PCA" and of "Isomap" in as many dimensions.
    folded : float
        The share of points drawn beside points that are far away along the graph.
    hanging : tuple of (edge, number of points)
        Parts that a single edge holds, one that is long: unfolding pulls it taut.
    variance_gain : float
        The variance after unfolding, in units of that of the input; 1 if the graph is rigid.
    dimensions_drawn, dimensions_needed : int
        The coordinates, and how many hold 95 % of the variance.
    warnings : tuple of str
        One sentence for each thing that is wrong.
    """

    faithfulness: Mapping[str, Faithfulness]
    folded: float
    hanging: tuple[tuple[tuple[int, int], int], ...]
    variance_gain: float
    dimensions_drawn: int
    dimensions_needed: int
    shown: float
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{'':<12}{'trust':>8}{'continuity':>12}"]
        for name, one in self.faithfulness.items():
            lines.append(f"{name:<12}{one.trust:>8.3f}{one.continuity:>12.3f}")
        lines.append(
            f"{100 * self.shown:.1f} % of the variance in {self.dimensions_drawn} dimensions, "
            f"95 % in {self.dimensions_needed}"
        )
        return "\n".join([*lines, *self.warnings])


@one_blas_thread
def diagnose(embedding: Embedding) -> Diagnosis:
    """Measure a drawing by its inputs, beside PCA and Isomap.

    >>> import sdpkit
    >>> problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(100), n_neighbors=4)
    >>> found = diagnose(problem.recover(sdpkit.solve(problem), 2))
    >>> found.faithfulness["unfolding"].trust > found.faithfulness["PCA"].trust
    True
    >>> found.warnings
    ()
    """
    inputs, n = embedding.inputs, len(embedding.coordinates)
    if inputs is None:
        raise InputError("this embedding does not know its inputs: make it from points")
    if n > MOST_POINTS:
        raise InputError(f"{n} points: a diagnosis compares all pairs of at most {MOST_POINTS}")
    d = embedding.n_components
    squared = inputs.to_all(np.arange(n))
    squared = (squared + squared.T) / 2
    pairs = embedding.edges
    graph = NeighborhoodGraph.from_pairs(n, pairs, squared[pairs[:, 0], pairs[:, 1]])
    paths = graph.shortest_paths()
    drawings = {"unfolding": embedding.coordinates, "PCA": outputs(gram(squared), d)[0]}
    if np.isfinite(paths).all():
        drawings["Isomap"] = outputs(gram(paths**2), d)[0]
    measured = {name: _faithfulness(squared, y) for name, y in drawings.items()}
    spectrum = np.sort(embedding.eigenvalues)[::-1].clip(min=0)
    total = float(spectrum.sum()) if embedding.variance is None else embedding.variance
    held = spectrum.cumsum() / total if total > 0 else np.ones(spectrum.size)
    before = float(np.trace(gram(squared)))
    taut = _LONG_EDGE**2 * float(np.median(graph.squared_lengths)) if pairs.size else 0.0
    hanging = tuple(
        (edge, part.size) for edge, part in hanging_parts(graph) if squared[edge] > taut
    )
    found = Diagnosis(
        faithfulness=measured,
        folded=float(_folded(embedding, graph, paths).mean()),
        hanging=hanging,
        variance_gain=total / before if before > 0 else 1.0,
        dimensions_drawn=d,
        dimensions_needed=min(int(np.sum(held < _NEEDED)) + 1, held.size),
        shown=embedding.fidelity,
        warnings=(),
    )
    return Diagnosis(**{**vars(found), "warnings": tuple(_warnings(found, n))})


def _faithfulness(squared: Array, y: Array) -> Faithfulness:
    before = np.sqrt(squared)
    after = np.sqrt(SquaredDistances.from_points(y).to_all(np.arange(len(y))))
    after = (after + after.T) / 2
    k = min(_NEIGHBORS, (len(y) - 1) // 2)
    if k < 1:
        return Faithfulness(1.0, 1.0)
    return Faithfulness(_trust(before, after, k), _trust(after, before, k))


def _trust(before: Array, after: Array, k: int) -> float:
    """Trustworthiness by ranks: how far outside of their neighbourhood of `before` are the k
    neighbours of `after`?"""
    n = len(before)
    ranks = _order(before).argsort(axis=1)  # 0 is the point itself
    near = _order(after)[:, 1 : k + 1]
    excess = np.take_along_axis(ranks, near, axis=1) - k
    worst = n * k * (2 * n - 3 * k - 1) / 2
    return 1.0 - float(excess[excess > 0].sum()) / worst


def _order(distances: Array) -> Indices:
    """(n, n) all points by distance from each, itself first."""
    table = distances.copy()
    np.fill_diagonal(table, -1.0)
    return table.argsort(axis=1, kind="stable")


def _folded(embedding: Embedding, graph: NeighborhoodGraph, paths: Array) -> Bools:
    """(n,) whether a point is drawn beside one that is far away along the graph."""
    y = embedding.coordinates
    n = len(y)
    if n < 4 or not graph.n_edges:
        return np.zeros(n, dtype=bool)
    near = SquaredDistances.from_points(y).neighbors(2)
    scale = float(np.median(np.sqrt(graph.squared_lengths)))
    apart = paths[np.arange(n)[:, None], near]
    drawn = np.linalg.norm(y[:, None] - y[near], axis=2)
    return np.asarray(((apart > _FOLD * scale) & (drawn < scale)).any(axis=1))


def _warnings(found: Diagnosis, n: int) -> list[str]:
    """One sentence for each thing that is wrong."""
    out = []
    ours = found.faithfulness["unfolding"]
    for name, noun in (("trust", "trustworthiness"), ("continuity", "continuity")):
        rivals = {
            other: getattr(one, name)
            for other, one in found.faithfulness.items()
            if other != "unfolding"
        }
        best = max(rivals, key=lambda other: rivals[other])
        if rivals[best] - getattr(ours, name) > _MARGIN + _CHANCE / np.sqrt(n):
            out.append(
                f"{noun} is {getattr(ours, name):.2f}, and {best} reaches {rivals[best]:.2f}"
            )
    # A line hangs together by single edges, and is drawn as a line.
    surface = found.dimensions_needed > 1
    large = [one for one in found.hanging if surface and one[1] >= _HANGING_SHARE * n]
    for edge, size in large[:1]:
        more = f" (one of {len(large)} parts that do)" if len(large) > 1 else ""
        out.append(f"a part of {size} points hangs on one edge, {edge[0]}–{edge[1]}{more}")
    if found.folded > _FOLDED_SHARE:
        out.append(f"{100 * found.folded:.0f} % of the points are drawn over distant ones")
    if found.shown < _SHOWN:
        out.append(
            f"{found.dimensions_drawn} dimensions show {100 * found.shown:.0f} % of the variance; "
            f"{found.dimensions_needed} would show 95 %"
        )
        if found.variance_gain < _LOCKED:
            out.append("the graph is rigid and nothing was unfolded: take fewer neighbours")
    return out


__all__ = ["MOST_POINTS", "Diagnosis", "Faithfulness", "diagnose"]
