"""Rigorous bounds on log det of a matrix that was computed.

Let RRᵀ be the floating-point Cholesky factorisation of A. Then ‖RRᵀ − A‖ ≤ γ/(1 − γ) tr A with
γ = γ_{n+1} (Higham 2002, section 10.1), and a matrix within e of RRᵀ ⪰ δI has a log det within
−n log(1 − e/δ) of 2 Σ log r_ii.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpkit.certificate.definite import certainly_definite
from sdpkit.certificate.rounding import TINY, UNIT, gamma
from sdpkit.typing import Array

# Sums of a few larger numbers may overflow.
_LARGEST = 1e300


def log_det_bounds(matrix: Array, error: float) -> tuple[float, float] | None:
    """(lower, upper) for log det of every symmetric matrix within `error` of this one in norm.

    None where it is not proven positive definite.

    >>> lower, upper = log_det_bounds(2 * np.eye(3), 0.0)
    >>> bool(lower <= 3 * np.log(2) <= upper), upper - lower < 1e-13
    (True, True)
    """
    n, share = len(matrix), gamma(len(matrix) + 1)
    if not np.abs(matrix).max(initial=0.0) < _LARGEST:  # NaN neither
        return None
    even = (matrix + matrix.T) / 2
    error = error + float(np.abs(matrix - even).sum(axis=1).max()) * 1.01
    error = error + 2 * UNIT * float(np.abs(even).sum(axis=1).max()) + 2 * n * TINY
    least = 0.5 * float(scipy.linalg.eigvalsh(even, subset_by_index=[0, 0])[0])
    shifted = even - least * np.eye(n)
    if least <= 0 or not certainly_definite(shifted, 4 * UNIT * float(np.abs(even).max())):
        return None
    factor, failed = scipy.linalg.lapack.dpotrf(even, lower=1)
    if failed:
        return None
    backward = 1.01 * share / (1 - share) * float(np.trace(even)) + n * n * TINY
    part = 1.01 * (backward + error) / (least - backward)
    if not 0 <= part < 0.5:
        return None
    logs = np.log(np.diag(factor))
    value = 2 * float(logs.sum())
    radius = n * part / (1 - part) + 4 * gamma(n + 8) * float(np.abs(logs).sum()) + 8 * n * UNIT
    return value - 1.01 * radius, value + 1.01 * radius
