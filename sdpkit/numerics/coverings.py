"""Minimum volume coverings of many small sets of points at once, compiled.

The method is that of `sdpkit.numerics.covering`, which solves a single one with numpy: for sets of
a few points the calls of numpy would cost more than the arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sdpkit.numerics.covering import (
    MAX_ITER,
    PATIENCE,
    SHARE,
    TOL,
    Judgement,
    covering_weights,
    judged,
    whitened,
)
from sdpkit.numerics.kernels import fast_kernel, kernel_part
from sdpkit.numerics.threads import one_blas_thread, own_threads, workers
from sdpkit.typing import Array, Indices

# With a pivot this far below its diagonal, coordinates must be changed with more care.
_PIVOT = 1e-10


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


@kernel_part
def _images(z: Any, phi: Any, s: Any, y: Any, g: Any) -> tuple[float, float]:
    """y_j ← L⁻¹z_j and g_j ← ‖y_j‖², L the factor of S in `s`; (max g_j, Σφ_jg_j)."""
    most, mean = 0.0, 0.0
    for j in range(z.shape[0]):
        square = 0.0
        for a in range(z.shape[1]):
            left = z[j, a]
            for b in range(a):
                left -= s[a, b] * y[j, b]
            y[j, a] = left / s[a, a]
            square += y[j, a] * y[j, a]
        g[j] = square
        most = square if square > most else most
        mean += phi[j] * square
    return most, mean


@kernel_part
def _normal_matrix(y: Any, phi: Any, slack: Any, ratio: Any, k: Any) -> float:
    """k ← G∘G + diag(s/φ) with G = YYᵀ; the mean of φs."""
    m, mu = y.shape[0], 0.0
    for j in range(m):
        mu += phi[j] * slack[j] / m
        ratio[j] = slack[j] / phi[j]
        for i in range(j + 1):
            inner = 0.0
            for a in range(y.shape[1]):
                inner += y[j, a] * y[i, a]
            k[j, i] = inner * inner
        k[j, j] += ratio[j]
    return mu


@kernel_part
def _steps(k: Any, room: Any, t: float, mu: float) -> tuple[float, float, float]:
    """(step length of φ, that of t and the slacks, dt); room ← the directions.

    What dt takes; then the predictor, straight at the solution; then the corrector, towards the
    path with its curvature.
    """
    phi, slack, g, ratio = room[0], room[1], room[2], room[3]
    target, d_phi, d_slack = room[4], room[5], room[6]
    m = phi.size
    share, dt, ahead, far, far_slack = 0.0, 0.0, 1.0, 1.0, 1.0
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
        within = 1.0 if phase == 1 else SHARE
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
    return far, far_slack, dt


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

    The unknowns are φ (`phi`), t and the slacks t − g; s, y, k and `room` are scratch arrays.
    """
    m, size = sets.shape[1], sets.shape[2]
    phi, slack, g, ratio, d_phi, d_slack = room[0], room[1], room[2], room[3], room[5], room[6]
    for number in range(sets.shape[0]):
        if scales[number] != scales[number]:
            continue
        z, cost = sets[number], costs[number]
        best, waited, t, far, far_slack = np.inf, 0, 0.0, 0.0, 0.0
        for iteration in range(max_iter + 1):
            steps[number] = iteration
            for j in range(m):
                phi[j] = phi[j] + far * d_phi[j] if iteration > 0 else weights[number, j]
            _add_weighted(z, phi, cost, s)
            if not _cholesky(s, 0.0):
                break
            most, mean = _images(z, phi, s, y, g)
            if iteration == 0:
                t = 1.05 * most + 1e-3
            # tr S⁻¹C = D − Σφg, because S⁻¹S has trace D.
            gap = size * math.log1p((most - mean if most > mean else 0.0) / size)
            waited += 1
            better = gap < best
            if better:
                best, waited = gap, 0
            for j in range(m):
                if better:
                    weights[number, j] = phi[j]
                slack[j] = slack[j] + far_slack * d_slack[j] if iteration > 0 else t - g[j]
            mu = _normal_matrix(y, phi, slack, ratio, k)
            if best <= tol or waited > PATIENCE or iteration == max_iter:
                break
            if not _cholesky(k, 0.0):
                break
            far, far_slack, dt = _steps(k, room, t, mu)
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
