"""Weights that rebuild a point from its neighbours, as in locally linear embedding."""

from __future__ import annotations

import numpy as np

from sdpkit.typing import Array

REGULARISATION = 1e-3
"""Share of the trace added to the diagonal, where neighbours outnumber dimensions (Saul and
Roweis 2003, section 5.1)."""


def barycenter_weights(points: Array, neighbors: Array) -> Array:
    """(t, k) weights that sum to one, with Σ_j w_ij·neighbors_ij as near to point i as can be.

    Parameters
    ----------
    points: (t, D);  neighbors: (t, k, D)

    A point's weights do not depend on the other points.

    >>> barycenter_weights(np.array([[1.0]]), np.array([[[0.0], [2.0]]]))
    array([[0.5, 0.5]])
    """
    to_neighbors = neighbors - points[:, None, :]
    gram = to_neighbors @ to_neighbors.transpose(0, 2, 1)
    trace = np.trace(gram, axis1=1, axis2=2)
    k = gram.shape[1]
    gram[:, np.arange(k), np.arange(k)] += REGULARISATION * np.where(trace > 0, trace, 1.0)[:, None]
    weights = np.linalg.solve(gram, np.ones((k, 1)))[:, :, 0]
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
