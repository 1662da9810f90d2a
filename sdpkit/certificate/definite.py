"""Positive definiteness proved in floating point (Rump 2006)."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpkit.certificate.rounding import TINY, gamma
from sdpkit.certificate.slack import ScaledSlack
from sdpkit.typing import Array


def definite_on_face(slack: ScaledSlack) -> bool:
    """Whether every matrix within the error of `slack` is positive definite on its face."""
    matrix, null = slack.matrix, slack.null
    if not np.isfinite(matrix).all():
        return False
    rounding = float(slack.error.sum(axis=1).max(initial=0.0))
    if not null.shape[1]:
        return certainly_definite(matrix, rounding)
    lift, weight = null @ null.T, np.abs(null) @ np.abs(null).T
    k, n = null.shape[1], len(matrix)
    base = float(np.abs(matrix).sum(axis=1).max()) / max(float(np.diag(lift).max()), TINY)
    # The less is added the less rounding there is; next to nothing if N is almost null already.
    light = float(np.abs(np.diag(matrix)).max()) / max(float(np.trace(lift)), TINY)
    for alpha in (light, base, 1e3 * base):
        sums = (np.abs(matrix) + alpha * weight).sum(axis=1)
        error = gamma(k + 3) * float(sums.max()) + (1 + alpha) * n * (k + 2) * TINY
        if certainly_definite(matrix + alpha * lift, rounding + 1.01 * error):
            return True
    return False


def certainly_definite(matrix: Array, rounding: float) -> bool:
    """Rump's criterion: the floating-point Cholesky factorisation of A − cI succeeds."""
    n = matrix.shape[0]
    share = gamma(n + 1)
    trace = float(np.abs(np.diag(matrix)).sum())
    shift = 1.01 * (share / (1 - share) * trace + rounding) + 4 * (n + 2) * n * TINY
    if not np.isfinite(shift):
        return False
    diagonal = np.diag_indices(n)
    # The lower triangle alone is read: it defines the symmetric matrix that is proved definite.
    shifted = np.array(matrix, order="F")
    shifted[diagonal] = np.nextafter(matrix[diagonal] - shift, -np.inf)
    asymmetry = float(np.abs(matrix - matrix.T).sum(axis=1).max())
    shifted[diagonal] = np.nextafter(shifted[diagonal] - 1.01 * asymmetry, -np.inf)
    factor, info = scipy.linalg.lapack.dpotrf(shifted, lower=1)
    # LAPACK lets NaN and infinity pass.
    return int(info) == 0 and bool(np.isfinite(np.diag(factor)).all())
