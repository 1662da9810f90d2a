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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdpkit.numerics.kernels import fast_kernel, kernel_part
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
    phi, steps = _covered(z[None], cost[None], np.zeros(1), tol, max_iter)
    return phi[0], int(steps[0])


def _covered(
    z: Array, costs: Array, scales: Array, tol: float, max_iter: int
) -> tuple[Array, Indices]:
    """(weights (b, m), steps (b,)) of b sets; 1/m where the scale is not a number."""
    count, m, size = z.shape
    weights, steps = np.full((count, m), 1 / m), np.zeros(count, np.int64)
    room = (np.empty((size, size)), np.empty((m, size)), np.empty((m, m)), np.empty((10, m)))
    _cover(z, costs, scales, float(tol), max_iter, *room, weights, steps)
    return weights / weights.sum(axis=1, keepdims=True), steps


@one_blas_thread
def many_weights(z: Array, cost: Array, tol: float = TOL) -> tuple[Array, Judgement, Indices]:
    """(weights (b, m), their judgement, ranks (b,)) of b sets of m points, (b, m, D), under one
    cost (D, D).

    Each set is solved by itself, so that its answer does not depend on its batch. Determinants
    are those on the span of points and cost, whose dimension is the rank.
    """
    count, m, size = z.shape
    weights, white = np.empty((count, m)), z.copy()
    costs, scales = np.empty((count, size, size)), np.empty(count)
    # More parts than threads: one that has to wait for its core does not hold up the others.
    parts = np.array_split(np.arange(count), 4 * workers())

    def work(part: Indices) -> None:
        if part.size:
            rows = slice(int(part[0]), int(part[-1]) + 1)
            known = white[rows], costs[rows], scales[rows]
            _whiten(np.ascontiguousarray(cost), np.full(m, 1 / m), np.empty((size, size)), *known)
            weights[rows] = _covered(*known, tol, MAX_ITER)[0]

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


# -- kernels ----------------------------------------------------------------------------------


@kernel_part
def _cholesky(a: Any, least: float) -> bool:
    """The lower triangle of a ← its Cholesky factor; False at a pivot below `least` of a_ii."""
    definite = True
    for i in range(a.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for k in range(j):
                total += a[i, k] * a[j, k]
            left = a[i, j] - total
            if j < i:
                a[i, j] = left / a[j, j]
            elif left > least * a[i, i] and left > 0.0:
                a[i, i] = math.sqrt(left)
            else:
                definite = False
                break
        if not definite:
            break
    return definite


@kernel_part
def _forward(factor: Any, b: Any) -> None:
    """b ← L⁻¹b."""
    for i in range(b.size):
        total = 0.0
        for k in range(i):
            total += factor[i, k] * b[k]
        b[i] = (b[i] - total) / factor[i, i]


@kernel_part
def _backward(factor: Any, b: Any) -> float:
    """b ← L⁻ᵀb; the sum of its entries."""
    total = 0.0
    for i in range(b.size - 1, -1, -1):
        b[i] /= factor[i, i]
        total += b[i]
        for k in range(i):
            b[k] -= factor[i, k] * b[i]
    return total


@kernel_part
def _add_weighted(z: Any, phi: Any, cost: Any, s: Any) -> None:
    """The lower triangle of s ← Σ φ_j z_j z_jᵀ + C."""
    for a in range(s.shape[0]):
        for b in range(a + 1):
            s[a, b] = cost[a, b]
    for j in range(z.shape[0]):
        for a in range(s.shape[0]):
            weighted = phi[j] * z[j, a]
            for b in range(a + 1):
                s[a, b] += weighted * z[j, b]


@fast_kernel(
    *("f8[:,:,:]", "f8[:,:,:]", "f8[:]", "f8", "i8", "out f8[:,:]", "out f8[:,:]", "out f8[:,:]"),
    *("out f8[:,:]", "out f8[:,:]", "out i8[:]"),
)
def _cover(
    sets: Any,
    costs: Any,
    scales: Any,
    tol: float,
    max_iter: int,
    s: Any,
    y: Any,
    k: Any,
    room: Any,
    weights: Any,
    steps: Any,
) -> None:
    """weights ← the best weights found for every set, in at most `max_iter` steps each, from those
    that are there.

    The unknowns are φ (`phi`), t and the slacks t − g; s, y, k and `room` are space to work in.
    Few loops, each with much in it: every one of them takes time to compile.
    """
    m, size = sets.shape[1], sets.shape[2]
    phi, slack, g, ratio, target, d_phi, d_slack = (
        room[0],
        room[1],
        room[2],
        room[3],
        room[4],
        room[5],
        room[6],
    )
    for number in range(sets.shape[0]):
        if scales[number] != scales[number]:
            continue
        z, cost = sets[number], costs[number]
        best, waited, t, far, far_slack = np.inf, 0, 0.0, 0.0, 0.0
        for iteration in range(max_iter + 1):
            steps[number] = iteration
            for j in range(m):
                phi[j] = phi[j] + far * d_phi[j] if iteration > 0 else weights[number, j]
            # S's factor, y_j = L⁻¹z_j and g_j = ‖y_j‖².
            _add_weighted(z, phi, cost, s)
            if not _cholesky(s, 0.0):
                break
            most, mean = 0.0, 0.0
            for j in range(m):
                square = 0.0
                for a in range(size):
                    left = z[j, a]
                    for b in range(a):
                        left -= s[a, b] * y[j, b]
                    y[j, a] = left / s[a, a]
                    square += y[j, a] * y[j, a]
                g[j] = square
                most = square if square > most else most
                mean += phi[j] * square
            if iteration == 0:
                t = 1.05 * most + 1e-3
            # tr S⁻¹C = D − Σφg, because S⁻¹S has trace D.
            gap = size * math.log1p((most - mean if most > mean else 0.0) / size)
            waited += 1
            better = gap < best
            if better:
                best, waited = gap, 0
            # The factor of G∘G + diag(s/φ), G = YYᵀ.
            mu = 0.0
            for j in range(m):
                if better:
                    weights[number, j] = phi[j]
                slack[j] = slack[j] + far_slack * d_slack[j] if iteration > 0 else t - g[j]
                mu += phi[j] * slack[j] / m
                ratio[j] = slack[j] / phi[j]
                for i in range(j + 1):
                    inner = 0.0
                    for a in range(size):
                        inner += y[j, a] * y[i, a]
                    k[j, i] = inner * inner
                k[j, j] += ratio[j]
            if best <= tol or waited > _PATIENCE or iteration == max_iter:
                break
            if not _cholesky(k, 0.0):
                break
            # What dt takes; then the predictor, straight at the solution; then the corrector,
            # towards the path with its curvature.
            share, dt, ahead = 0.0, 0.0, 1.0
            for phase in range(3):
                step = room[7 + phase]
                centring = ahead * ahead * ahead * mu
                for j in range(m):
                    bend = (centring - d_phi[j] * d_slack[j]) / phi[j] if phase == 2 else 0.0
                    target[j] = bend
                    step[j] = g[j] - t + bend if phase > 0 else 1.0
                _forward(k, step)
                total = _backward(k, step)
                if phase == 0:
                    share = 1.0 / total
                    continue
                dt = total * share
                # The largest steps ≤ 1 that keep φ and the slacks ≥ 0, or a share of them.
                within = 1.0 if phase == 1 else _SHARE
                far, far_slack, first, second, third = 1.0, 1.0, 0.0, 0.0, 0.0
                for j in range(m):
                    d, e = step[j] - dt * room[7, j], target[j] - slack[j]
                    e -= ratio[j] * d
                    d_phi[j], d_slack[j] = d, e
                    if far * d < -within * phi[j]:
                        far = -within * phi[j] / d
                    if far_slack * e < -within * slack[j]:
                        far_slack = -within * slack[j] / e
                    first += d * slack[j]
                    second += phi[j] * e
                    third += d * e
                # The mean of φs after these steps, as a share of what it is.
                ahead = 1.0 + (far * first + far_slack * (second + far * third)) / m / mu
            t += far_slack * dt


@fast_kernel("f8[:,:]", "f8[:]", "out f8[:,:]", "out f8[:,:,:]", "out f8[:,:,:]", "out f8[:]")
def _whiten(cost: Any, equal: Any, factor: Any, sets: Any, costs: Any, scales: Any) -> None:
    """Every set of points, and the cost, in coordinates in which S = I at equal weights, whose
    log det² is its scale: NaN where they break down, with no points and the cost I."""
    m, size = sets.shape[1], sets.shape[2]
    for number in range(sets.shape[0]):
        z, own = sets[number], costs[number]
        _add_weighted(z, equal, cost, factor)
        sound = _cholesky(factor, _PIVOT)
        scales[number] = 0.0 if sound else np.nan
        for j in range(m):
            if sound:
                _forward(factor, z[j])
            else:
                for a in range(size):
                    z[j, a] = 0.0
        for a in range(size):
            if sound:
                scales[number] += 2.0 * math.log(factor[a, a])
            for b in range(size):
                own[a, b] = cost[a, b] if sound else (1.0 if a == b else 0.0)
        if not sound:
            continue
        for _ in range(2):  # L⁻¹C, transposed, and L⁻¹ again: L⁻¹CL⁻ᵀ
            for a in range(size):
                _forward(factor, own[a])  # C is symmetric: its rows are its columns
            for a in range(size):
                for b in range(a):
                    own[a, b], own[b, a] = own[b, a], own[a, b]
