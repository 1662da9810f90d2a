"""Several views of the same points, as kernels or as features, and what mixtures of them need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_matrix, finite_points
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.results.targets import target_neighbors, target_table
from sdpkit.typing import Array, Indices


def same_points(given: Any, what: str) -> tuple[Array, ...]:
    """The views or matrices of a mixture, checked: finite numbers, of the same number of points."""
    if isinstance(given, str) or (isinstance(given, np.ndarray) and given.ndim < 3):
        raise InputError(f"pass a list of {what}s, one array each")
    checked = finite_points if what == "view" else finite_matrix
    try:
        arrays = tuple(checked(one, f"{what} {k + 1}") for k, one in enumerate(given))
    except TypeError as error:
        raise InputError(f"pass a list of {what}s, one array each") from error
    if not arrays:
        raise InputError(f"a mixture needs at least one {what}")
    counts = [len(array) for array in arrays]
    if len(set(counts)) > 1:
        raise InputError(f"the {what}s have {counts} points; they must be the same points")
    return arrays


def common_targets(views: Sequence[Array], y: Any, k: int) -> Indices:
    """(n, k) target neighbours in the views side by side."""
    n = len(views[0])
    given = np.asarray(y)
    if given.shape != (n,):
        raise InputError(f"y has shape {given.shape}, expected ({n},): one label per point")
    labels = np.unique(given, return_inverse=True)[1].astype(np.int64)
    pairs = target_neighbors(np.hstack(list(views)), labels, k)
    if not pairs.size:
        raise InputError("no class has two members, so that there are no target neighbours")
    return target_table(pairs, n)


def _centred(kernel: Array) -> Array:
    """CKC, the kernel of the centred points."""
    means = kernel.mean(axis=0)
    return np.asarray(kernel - means - means[:, None] + means.mean())


def spread_of(kernel: Array) -> float:
    """The mean squared distance of a kernel's points from their centre."""
    spread = float(np.trace(_centred(kernel))) / len(kernel)
    # A constant kernel may round to either side of 0.
    if spread < -1e-12 * float(np.abs(kernel).max()):
        raise InputError(
            "one of the kernels has negative squared distances: a matrix of inner products has no "
            "negative eigenvalues"
        )
    if spread <= 0:
        raise InputError("one of the kernels has distance 0 between all points: leave it out")
    return spread


def gram_features(kernel: Array) -> Array:
    """(n, n) points with this Gram matrix, what is negative left out."""
    continue_or_raise()
    values, vectors = scipy.linalg.eigh(_centred(kernel))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def unit_features(features: Array) -> Array:
    """Features centred and put to a mean squared length of one."""
    centred = features - features.mean(axis=0)
    size = float(np.sqrt(np.square(centred).sum() / len(centred)))
    return np.asarray(centred / size) if size > 0 else centred


def mixture_weights(theta: ArrayLike, m: int) -> Array:
    """θ as (m,) weights of a mixture: nonnegative, with the sum one."""
    out = np.asarray(theta, dtype=np.float64)
    if out.shape != (m,) or not np.isfinite(out).all() or out.min() < 0:
        raise InputError(f"theta is {theta!r}; it must be {m} nonnegative numbers")
    if abs(out.sum() - 1) > 1e-9:
        raise InputError(f"theta adds up to {out.sum():.6g}; it must add up to 1")
    return out
