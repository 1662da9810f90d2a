"""The weights of a minimum volume covering, by an interior-point method on the weights alone.

    maximise  log det S,   S = Σ_j φ_j z_j z_jᵀ + C,   φ ≥ 0,  Σφ = 1

With g_j = z_jᵀS⁻¹z_j and G = ZS⁻¹Zᵀ the optimality conditions are

    g_j + s_j = t,   s ≥ 0,   φ_j s_j = 0

and their Newton equations, with φ_j s_j = μ instead of 0, are one positive definite system in dφ:

    (G∘G + diag(s/φ)) dφ = g − t + μ/φ − dt·1,   Σ dφ = 0.

Mehrotra's predictor and corrector take about ten steps to any accuracy, whatever the shape of the
points, since coordinates in which S = I at equal weights are used throughout. The gap is known at
every step and needs the weights only:

    log det S* − log det S  ≤  D log((max_j g_j + tr CS⁻¹)/D)  ≤  max_j g_j − D + tr CS⁻¹

(scale S⁻¹ best, and it is feasible for the primal). It is counted in what floating point holds:
below about 1e-13·D there is nothing to gain.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg

from sdpkit.numerics.deadline import continue_or_raise, is_over
from sdpkit.typing import Array

# The gap in log det to reach, and the steps it may take.
TOL = 1e-12
MAX_ITER = 60
# Steps without a better gap after which rounding is to blame.
PATIENCE = 6
# How much of the way to the boundary a step goes.
SHARE = 0.99
# Points that are factorised at once: a second's work in a few dozen dimensions.
_VERY_TALL = 50_000


def whitened(z: Array, cost: Array) -> tuple[Array, Array, Array]:
    """(Z', C', T) with z' = Tᵀz and S' = TᵀST = I at equal weights, in the span of z and C.

    z is (m, D), `cost` (D, D) positive semidefinite; T is (D, r), r the rank of S.

    >>> z = np.array([[1.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    >>> whitened(z, np.zeros((3, 3)))[2].shape
    (3, 2)
    """
    values, vectors = np.linalg.eigh(cost)
    root = np.sqrt(values.clip(min=0.0))[:, None] * vectors.T
    stacked = _shortened(np.vstack([z / np.sqrt(len(z)), root]))
    _, singular, right = np.linalg.svd(stacked, full_matrices=False)
    small = max(z.shape[0] + root.shape[0], z.shape[1]) * np.finfo(float).eps
    kept = singular > small * float(singular.max(initial=0.0))
    transform = right[kept].T / singular[kept]
    half = root @ transform
    return np.ascontiguousarray(z @ transform), half.T @ half, transform


def _shortened(tall: Array) -> Array:
    """A matrix with the same Gram matrix and fewer rows, where there are very many: the triangle of
    a QR factorisation in parts. `Abandoned` if it is time to stop."""
    if len(tall) <= _VERY_TALL:
        return tall
    triangles = []
    for first in range(0, len(tall), _VERY_TALL):
        continue_or_raise()
        triangles.append(np.linalg.qr(tall[first : first + _VERY_TALL], mode="r"))
    return np.asarray(np.linalg.qr(np.vstack(triangles), mode="r"))


class Judgement(NamedTuple):
    """What weights are worth: gaps in log det, radii max_j g_j and log det S, (b,) each."""

    gaps: Array
    radii: Array
    log_dets: Array


def judged(z: Array, cost: Array, weights: Array) -> Judgement:
    """Weights (b, m) for points (b, m, D) judged from nothing but these; `cost` is (b, D, D).

    Weights that are negative or do not sum to one are put right first; an S that is not positive
    definite has an infinite gap.

    >>> square = np.array([[[1.0, 1.0], [1.0, -1.0]]])
    >>> float(judged(square, np.zeros((1, 2, 2)), np.array([[0.5, 0.5]])).gaps[0])
    0.0
    """
    size = z.shape[2]
    with np.errstate(all="ignore"):
        phi = np.maximum(weights, 0.0)
        phi = phi / phi.sum(axis=1, keepdims=True)
        s = (z * phi[:, :, None]).transpose(0, 2, 1) @ z + cost
        sound = np.isfinite(s).all(axis=(1, 2))
        s[~sound] = 0.0
        spectrum = np.linalg.eigvalsh(s)
        sound &= spectrum[:, 0] > 0
        s[~sound] = np.eye(size)
        solved = np.linalg.solve(s, np.concatenate([z.transpose(0, 2, 1), cost], axis=2))
        radii = np.einsum("bmi,bim->bm", z, solved[:, :, : z.shape[1]]).max(axis=1)
        rest = np.trace(solved[:, :, z.shape[1] :], axis1=1, axis2=2)
        gaps = size * np.log(np.maximum((radii + rest) / size, 1.0))
        log_dets = np.log(spectrum).sum(axis=1)
    return Judgement(
        *(np.where(sound, v, u) for v, u in ((gaps, np.inf), (radii, np.nan), (log_dets, -np.inf)))
    )


def covering_weights(
    z: Array, cost: Array, tol: float = TOL, max_iter: int = MAX_ITER
) -> tuple[Array, int]:
    """(φ, steps) for points (m, D) in coordinates as `whitened` makes them.

    >>> z = np.array([[1.0, 0.0], [0.0, 1.0], [0.1, 0.1]]) * np.sqrt(2)
    >>> covering_weights(z, np.zeros((2, 2)))[0].round(9) + 0.0
    array([0.5, 0.5, 0. ])
    """
    with np.errstate(all="ignore"):
        return _followed(z, cost, tol, max_iter)


def _followed(z: Array, cost: Array, tol: float, max_iter: int) -> tuple[Array, int]:
    """The steps to the best weights, from equal ones. The unknowns are φ, t and the slacks t − g;
    `sdpkit.numerics.coverings` has the same steps for many small sets, compiled."""
    m, size = z.shape
    phi = kept = np.full(m, 1 / m)
    slack = d_phi = d_slack = np.zeros(m)
    best, waited, t, far, far_slack, steps = np.inf, 0, 0.0, 0.0, 0.0, 0
    for steps in range(max_iter + 1):
        phi = phi + far * d_phi
        factor = _cholesky_of((z.T * phi) @ z + cost)
        if factor is None:
            break
        y = scipy.linalg.solve_triangular(factor, z.T, lower=True, check_finite=False)
        g = np.einsum("am,am->m", y, y)
        most = float(g.max())
        if steps == 0:
            t = 1.05 * most + 1e-3
        slack = slack + far_slack * d_slack if steps else t - g
        # tr S⁻¹C = D − Σφg, because S⁻¹S has trace D.
        gap = size * math.log1p(max(most - float(phi @ g), 0.0) / size)
        waited += 1
        if gap < best:
            best, waited, kept = gap, 0, phi
        if best <= tol or waited > PATIENCE or steps == max_iter or is_over():
            break
        ratio, mu = slack / phi, float(phi @ slack) / m
        hessian = np.square(y.T @ y)
        hessian[np.diag_indices(m)] += ratio
        factor = _cholesky_of(hessian)
        if factor is None:
            break
        # The predictor, straight at the solution; then the corrector, towards the path with its
        # curvature.
        ones, bend, ahead = _solved(factor, np.ones(m)), np.zeros(m), 1.0
        for within in (1.0, SHARE):
            if within < 1:
                bend = (ahead**3 * mu - d_phi * d_slack) / phi
            step = _solved(factor, g - t + bend)
            dt = float(step.sum() / ones.sum())
            d_phi = step - dt * ones
            d_slack = bend - slack - ratio * d_phi
            far, far_slack = _room(phi, d_phi, within), _room(slack, d_slack, within)
            # The mean of φs after these steps, as a share of what it is.
            change = far * float(d_phi @ slack)
            change += far_slack * float(phi @ d_slack + far * (d_phi @ d_slack))
            ahead = 1.0 + change / m / mu
        t += far_slack * dt
    return kept / kept.sum(), steps


def _cholesky_of(matrix: Array) -> Array | None:
    """The lower factor, or None if there is none."""
    try:
        return np.asarray(scipy.linalg.cholesky(matrix, lower=True, check_finite=False))
    except np.linalg.LinAlgError:
        return None


def _solved(factor: Array, right: Array) -> Array:
    return np.asarray(scipy.linalg.cho_solve((factor, True), right, check_finite=False))


def _room(x: Array, step: Array, within: float) -> float:
    """The largest share ≤ 1 of a step that keeps x ≥ 0, or `within` of the way there."""
    shrinks = step < 0
    return float(np.min(-within * x[shrinks] / step[shrinks], initial=1.0))
