"""Relevant component analysis (Bar-Hillel, Hertz, Shental and Weinshall 2005): whiten the variation
within chunklets, groups of points that are known to belong together."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.inputs import nonnegative, require_squarable
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array


@one_blas_thread
def relevant_components(X: Array, chunklets: NDArray[Any], ridge: float = 0.0) -> Array:
    """(d, d) L = C^(−1/2), C the covariance of points X, (n, d), within their chunklets, (n,).

    `ridge` is added to the diagonal of C, which has to be regular. A chunklet of a single point
    says nothing.

    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [7.0, 0.0], [7.0, 4.0]])
    >>> relevant_components(X, np.array([0, 0, 1, 1])).round(6)
    array([[1.414214, 0.      ],
           [0.      , 0.707107]])
    """
    nonnegative(ridge, "ridge")
    require_squarable(X, "X")
    numbers, counts = np.unique(chunklets, return_inverse=True, return_counts=True)[1:]
    known = counts[numbers] > 1
    if not known.any():
        raise InputError("no chunklet has two points: give points that belong together one label")
    sums = np.zeros((counts.size, X.shape[1]))
    np.add.at(sums, numbers, X)
    inner = (X - sums[numbers] / counts[numbers, None])[known]
    values, vectors = scipy.linalg.eigh(inner.T @ inner / len(inner) + ridge * np.eye(X.shape[1]))
    flat = int(np.sum(values <= 1e-12 * max(float(values[-1]), np.finfo(float).tiny)))
    if flat:
        raise InputError(
            f"points of a chunklet do not differ along {flat} of {X.shape[1]} directions, which "
            "cannot be whitened: pass ridge > 0, or reduce the points by PCA first"
        )
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)
