"""Components of a disconnected graph, laid out beside each other.

Each component is unfolded for itself, and nothing in the program says where it lies. Here each
becomes a ball around its own centre; the centres follow the distances between components in the
input, and are then moved apart until no two balls overlap.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from sdpkit.graphs.distances import SquaredDistances
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.results.embedding import Embedding, principal_axes
from sdpkit.typing import Array, Indices

# The gap between two balls, as a share of the sum of their radii.
_GAP = 0.1
_STEPS = 500
# Points per component whose distances say how far apart two components are.
_SAMPLE = 200


def side_by_side(
    coordinates: Array, components: Indices, inputs: SquaredDistances | None = None
) -> Array:
    """The coordinates, (n, d), with every component moved to a place of its own.

    Distances within a component stay. Without `inputs` only the sizes of the components count.

    >>> y = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    >>> side_by_side(y, np.array([0, 0, 1, 1])).ravel().round(2).tolist()
    [0.71, 2.71, -3.71, 0.29]
    """
    count = int(components.max()) + 1
    if count == 1:
        return coordinates
    members = [np.flatnonzero(components == label) for label in range(count)]
    balls = [_ball(coordinates[nodes]) for nodes in members]
    radii = np.array([radius for _, radius in balls])
    dimensions = min(2, coordinates.shape[1])  # what is drawn first
    places = _apart(_centres(members, inputs, dimensions), radii)
    sizes = np.array([nodes.size for nodes in members])
    places -= sizes @ places / sizes.sum()
    out = coordinates.copy()
    for nodes, (centre, _), place in zip(members, balls, places, strict=True):
        out[nodes] -= centre
        out[nodes, :dimensions] += place
    return out


def laid_out(whole: Embedding, n_components: int) -> Embedding:
    """An embedding in all its dimensions, reduced to `n_components` for each of its components and
    with the components side by side.

    Every component has axes of its own: those of the whole would show the larger ones alone. The
    eigenvalues are summed over the components, by rank.
    """
    count = int(whole.components.max()) + 1
    coordinates = np.zeros((len(whole.coordinates), n_components))
    spectrum = np.zeros(len(whole.coordinates))
    for label in range(count):
        nodes = np.flatnonzero(whole.components == label)
        y, variances = principal_axes(whole.coordinates[nodes])
        kept = min(n_components, nodes.size)
        coordinates[nodes, :kept] = y[:, :kept]
        spectrum[: nodes.size] += variances[: nodes.size]
    placed = side_by_side(coordinates, whole.components, whole.inputs)
    return replace(whole, coordinates=placed, eigenvalues=spectrum, variance=None)


def _ball(points: Array) -> tuple[Array, float]:
    """The centre and the radius of a ball around points: that of their bounding box."""
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    return centre, float(np.linalg.norm(points - centre, axis=1).max())


def _centres(members: list[Indices], inputs: SquaredDistances | None, dimensions: int) -> Array:
    """(c, dimensions) where the components lie to each other, by classical scaling."""
    count = len(members)
    if inputs is None:
        squared = np.ones((count, count)) - np.eye(count)
    else:
        few = [nodes[:: max(1, nodes.size // _SAMPLE)] for nodes in members]
        mean = np.array([_mean_squares(inputs, nodes, few) for nodes in few])
        # ‖c_a − c_b‖² of the means, from mean squared distances between and within.
        squared = mean - (mean.diagonal()[:, None] + mean.diagonal()) / 2
    centred = squared - squared.mean(axis=0)
    values, vectors = scipy.linalg.eigh(-0.5 * (centred - centred.mean(axis=1)[:, None]))
    top = vectors[:, ::-1][:, :dimensions] * np.sqrt(values[::-1][:dimensions].clip(min=0))
    signs = np.where(top[np.abs(top).argmax(axis=0), range(top.shape[1])] < 0, -1.0, 1.0)
    places = np.zeros((count, dimensions))
    places[:, : top.shape[1]] = top * signs
    return places


def _mean_squares(inputs: SquaredDistances, nodes: Indices, others: list[Indices]) -> list[float]:
    continue_or_raise()
    return [float(inputs.between(nodes[:, None], other).mean()) for other in others]


def _apart(places: Array, radii: Array) -> Array:
    """The places, moved until balls of these radii do not overlap."""
    wanted = (1 + _GAP) * (radii[:, None] + radii)
    np.fill_diagonal(wanted, 0.0)
    angles = 2.4 * np.arange(len(radii))  # for centres that coincide
    ways = np.column_stack([np.cos(angles), np.sin(angles)])[:, : places.shape[1]]
    places = places + 1e-6 * float(wanted.max() + np.abs(places).max()) * ways
    for _ in range(_STEPS):
        continue_or_raise()
        step = places[:, None] - places
        length = np.linalg.norm(step, axis=2)
        short = np.maximum(wanted - length, 0.0)
        if not short.any():
            return places
        share = short / np.maximum(length, np.finfo(float).tiny)
        touching = np.maximum(np.sum(short > 0, axis=1), 1)
        places = places + (share[:, :, None] * step).sum(axis=1) / (1.9 * touching[:, None])
    length = np.linalg.norm(places[:, None] - places, axis=2)
    off = ~np.eye(len(radii), dtype=bool)
    factor = (wanted[off] / np.maximum(length[off], np.finfo(float).tiny)).max(initial=1.0)
    return np.asarray(places * min(factor, 1e6))


__all__ = ["laid_out", "side_by_side"]
