"""Kernel PCA: the features of a kernel that LMNN learns on."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpkit.errors import InputError
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.typing import Array


def kernel_pca_map(K: Array, rank: int | None, ridge: float) -> Array:
    """(n, rank) A with features K A, its columns orthogonal to the constant; all features where
    `rank` is None, which needs a ridge."""
    n = len(K)
    centre = np.eye(n) - 1.0 / n
    continue_or_raise()
    values, vectors = scipy.linalg.eigh(centre @ K @ centre)
    if values[0] < -1e-6 * np.abs(values).max():
        raise InputError(
            f"the centred kernel has eigenvalues {values[0]:.3g} … {values[-1]:.3g}; a matrix "
            "of inner products has no negative eigenvalues"
        )
    count = int(np.sum(values > 1e-10 * float(values[-1])))
    rank = count if rank is None else int(rank)
    if not 1 <= rank <= count:
        raise InputError(f"rank is {rank}; the centred kernel has rank {count}")
    if rank == min(count, n - 1) == n - 1 and not ridge:
        raise InputError(
            f"rank {rank} is all of the kernel: every class can collapse to a point, and the "
            "optimum is 0. Lower the rank or pass a ridge."
        )
    return np.asarray(vectors[:, ::-1][:, :rank] / np.sqrt(values[::-1][:rank]))
