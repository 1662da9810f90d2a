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

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdpkit.numerics.kernels import compiled
from sdpkit.numerics.threads import one_blas_thread, own_threads, workers

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# The gap in log det that is asked for, and the steps it may take.
TOL = 1e-12
MAX_ITER = 60
# A pivot this far below its diagonal says: change coordinates with more care.
_PIVOT = 1e-10
# Steps without a better gap after which rounding is to blame.
_PATIENCE = 6
# How much of the way to the boundary a step goes.
_SHARE = 0.99


def whitened(z: Array, cost: Array) -> tuple[Array, Array, Array]:
    """(Z', C', T) with z' = Tᵀz and S' = TᵀST = I at equal weights, in the span of z and C.

    z is (m, D), `cost` (D, D) positive semidefinite; T is (D, r), r the rank of S.

    >>> z = np.array([[1.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    >>> whitened(z, np.zeros((3, 3)))[2].shape
    (3, 2)
    """
    values, vectors = np.linalg.eigh(cost)
    root = np.sqrt(values.clip(min=0.0))[:, None] * vectors.T
    _, singular, right = np.linalg.svd(np.vstack([z / np.sqrt(len(z)), root]), full_matrices=False)
    small = max(z.shape[0] + root.shape[0], z.shape[1]) * np.finfo(float).eps
    kept = singular > small * float(singular.max(initial=0.0))
    transform = right[kept].T / singular[kept]
    half = root @ transform
    return np.ascontiguousarray(z @ transform), half.T @ half, transform


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
    phi = np.empty(len(z))
    steps, _ = _cover(np.ascontiguousarray(z), np.ascontiguousarray(cost), phi, tol, max_iter)
    return phi, int(steps)


@one_blas_thread
def many_weights(z: Array, cost: Array, tol: float = TOL) -> tuple[Array, Judgement, Indices]:
    """(weights (b, m), their judgement, ranks (b,)) of b sets of m points, (b, m, D), under one
    cost (D, D).

    Each set is solved by itself, so that its answer does not depend on its batch. Determinants
    are those on the span of points and cost, whose dimension is the rank.
    """
    count, m, size = z.shape
    weights, white = np.empty((count, m)), np.empty(z.shape)
    costs, scales = np.empty((count, size, size)), np.empty(count)
    # More parts than threads: one that has to wait for its core does not hold up the others.
    parts = np.array_split(np.arange(count), 4 * workers())

    def work(part: Indices) -> None:
        if part.size:
            rows = slice(int(part[0]), int(part[-1]) + 1)
            _cover_many(z[rows], cost, white[rows], costs[rows], scales[rows], weights[rows], tol)

    with own_threads() as pool:
        list(pool.map(work, parts))
    found = judged(white, costs, weights)
    found.log_dets[:] += scales
    ranks = np.full(count, size)
    for k in np.flatnonzero(np.isnan(scales)):
        points, own, transform = whitened(z[k], cost)
        ranks[k] = points.shape[1]
        if not ranks[k]:
            weights[k] = 1 / m  # nothing but the centre
            found.gaps[k], found.radii[k], found.log_dets[k] = 0.0, 0.0, 0.0
            continue
        weights[k] = covering_weights(points, own, tol)[0]
        one = judged(points[None], own[None], weights[k][None])
        found.gaps[k], found.radii[k] = one.gaps[0], one.radii[0]
        found.log_dets[k] = one.log_dets[0] - np.linalg.slogdet(transform.T @ transform)[1]
    return weights, found, ranks


# -- compiled ---------------------------------------------------------------------------------


@compiled
def _cholesky(a: Any, least: float) -> bool:
    """The lower triangle of a ← its Cholesky factor; False at a pivot below `least` of a_ii."""
    for i in range(a.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for k in range(j):
                total += a[i, k] * a[j, k]
            left = a[i, j] - total
            if j < i:
                a[i, j] = left / a[j, j]
            elif left > least * a[i, i] and left > 0.0:
                a[i, i] = np.sqrt(left)
            else:
                return False
    return True


@compiled
def _forward(factor: Any, b: Any) -> None:
    """b ← L⁻¹b."""
    for i in range(b.size):
        total = 0.0
        for k in range(i):
            total += factor[i, k] * b[k]
        b[i] = (b[i] - total) / factor[i, i]


@compiled
def _solve(factor: Any, b: Any) -> None:
    """b ← (LLᵀ)⁻¹b."""
    _forward(factor, b)
    for i in range(b.size - 1, -1, -1):
        b[i] /= factor[i, i]
        for k in range(i):
            b[k] -= factor[i, k] * b[i]


@compiled
def _add_weighted(z: Any, phi: Any, s: Any) -> None:
    """The lower triangle of s += Σ φ_j z_j z_jᵀ."""
    for j in range(z.shape[0]):
        for a in range(z.shape[1]):
            weighted = phi[j] * z[j, a]
            for b in range(a + 1):
                s[a, b] += weighted * z[j, b]


@compiled
def _lengths(z: Any, cost: Any, phi: Any, s: Any, y: Any, g: Any) -> bool:
    """S's factor, y_j = L⁻¹z_j and g_j = ‖y_j‖² at weights φ; False if S is not definite."""
    s[:, :] = cost
    _add_weighted(z, phi, s)
    if not _cholesky(s, 0.0):
        return False
    for j in range(z.shape[0]):
        y[j] = z[j]
        _forward(s, y[j])
        g[j] = np.sum(y[j] * y[j])
    return True


@compiled
def _newton_matrix(y: Any, ratio: Any, k: Any) -> bool:
    """k ← the factor of G∘G + diag(ratio), G = YYᵀ."""
    for i in range(y.shape[0]):
        for j in range(i + 1):
            inner = 0.0
            for a in range(y.shape[1]):
                inner += y[i, a] * y[j, a]
            k[i, j] = inner * inner
        k[i, i] += ratio[i]
    return _cholesky(k, 0.0)


@compiled
def _reach(x: Any, dx: Any) -> float:
    """The largest step ≤ 1 along dx that keeps x ≥ 0."""
    step = 1.0
    for j in range(x.size):
        if dx[j] < 0.0:
            step = min(step, -x[j] / dx[j])
    return step


@compiled
def _cover(z: Any, cost: Any, phi: Any, tol: float, max_iter: int) -> tuple[int, float]:
    """φ ← the best weights found; the steps and their gap."""
    m, size = z.shape
    s, y, g = np.empty((size, size)), np.empty((m, size)), np.empty(m)
    k, ones, step = np.empty((m, m)), np.empty(m), np.empty(m)
    current = np.full(m, 1.0 / m)
    phi[:] = current
    best, waited = np.inf, 0
    if not _lengths(z, cost, current, s, y, g):
        return 0, best
    t = 1.05 * g.max() + 1e-3
    slack = t - g
    for iteration in range(max_iter + 1):
        # tr S⁻¹C = D − Σφg, because S⁻¹S has trace D.
        gap = size * np.log1p(max(g.max() - np.sum(current * g), 0.0) / size)
        waited += 1
        if gap < best:
            best, waited = gap, 0
            phi[:] = current
        if best <= tol or waited > _PATIENCE or iteration == max_iter:
            return iteration, best
        mu = np.sum(current * slack) / m
        if not _newton_matrix(y, slack / current, k):
            return iteration, best
        ones[:] = 1.0
        _solve(k, ones)
        share = 1.0 / np.sum(ones)
        # Predictor: straight at the solution. Corrector: towards the path, with its curvature.
        step[:] = g - t
        _solve(k, step)
        d_phi = step - np.sum(step) * share * ones
        d_slack = -slack - slack / current * d_phi
        ahead = current + _reach(current, d_phi) * d_phi
        ahead_slack = slack + _reach(slack, d_slack) * d_slack
        centring = (np.sum(ahead * ahead_slack) / m / mu) ** 3
        target = (centring * mu - d_phi * d_slack) / current
        step[:] = g - t + target
        _solve(k, step)
        dt = np.sum(step) * share
        d_phi = step - dt * ones
        d_slack = target - slack - slack / current * d_phi
        current += _reach(current, d_phi / _SHARE) * d_phi
        far = _reach(slack, d_slack / _SHARE)
        slack += far * d_slack
        t += far * dt
        current /= np.sum(current)
        if not _lengths(z, cost, current, s, y, g):
            return iteration + 1, best
    return max_iter, best


@compiled
def _cover_many(
    z: Any, cost: Any, white: Any, costs: Any, scales: Any, weights: Any, tol: float
) -> None:
    """`_cover` for every set, in coordinates of its own, whose log det² is its scale: NaN where
    they break down."""
    m, size = z.shape[1], z.shape[2]
    factor, equal = np.empty((size, size)), np.full(m, 1.0 / m)
    for i in range(z.shape[0]):
        factor[:, :] = cost
        _add_weighted(z[i], equal, factor)
        if not _cholesky(factor, _PIVOT):
            scales[i] = np.nan
            white[i] = 0.0
            costs[i] = np.eye(size)
            weights[i] = 1.0 / m
            continue
        scales[i] = 2.0 * np.sum(np.log(np.diag(factor)))
        for j in range(m):
            white[i, j] = z[i, j]
            _forward(factor, white[i, j])
        own = costs[i]
        own[:, :] = cost
        for _ in range(2):  # L⁻¹C, transposed, and L⁻¹ again: L⁻¹CL⁻ᵀ
            for a in range(size):
                _forward(factor, own[:, a])
            own[:, :] = own.T.copy()
        _cover(white[i], own, weights[i], tol, MAX_ITER)
