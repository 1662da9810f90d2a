"""How far a step may go before a matrix leaves the cone, and proof that it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy.linalg import blas, lapack

from sdpkit.program.cost import dense
from sdpkit.solvers.algebra import symmetrise
from sdpkit.solvers.definite import Breakdown
from sdpkit.typing import Array

_DENSE_SIZE = 120  # up to this size step lengths come from all eigenvalues
_LANCZOS_STEPS = 48  # steps of the Lanczos method above it
_SHORTEST = 1e-8  # a step that is not worth looking for

Moved = TypeVar("Moved")


def longest_step(matrix: Array, factor: Array, direction: Any, enough: float) -> float:
    """The largest α with  A + αD ⪰ 0, to a few percent; any value above `enough` will do.

    With A = LLᵀ, −1/α is the smallest eigenvalue of L⁻¹DL⁻ᵀ. The caller proves the step it takes
    by a Cholesky factorisation, so an estimate suffices.
    """
    if factor.shape[0] <= _DENSE_SIZE:
        moved = matrix + enough * dense(direction)
        if lapack.dpotrf(moved.T, lower=1, clean=0)[1] == 0:
            return np.inf
        scaled = lapack.dsygst(dense(direction).T, factor, itype=1, lower=1)[0]
        smallest = float(lapack.dsyevr(scaled, compute_v=0, range="I", lower=1, il=1, iu=1)[0][0])
    else:
        smallest = _lanczos_smallest(factor, direction, 1.0 / enough)
    return np.inf if smallest >= 0 else -1.0 / smallest


def longest_tried(is_inside: Callable[[float], bool], enough: float) -> float:
    """The largest α that stays inside, to two percent from below; inf if `enough` does.

    For cones where trying a step costs little.
    """
    if is_inside(enough):
        return np.inf
    inside, outside = 0.0, enough
    while outside - inside > 0.02 * outside and outside > _SHORTEST:
        middle = 0.5 * (inside + outside)
        if is_inside(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _lanczos_smallest(factor: Array, direction: Any, harmless: float) -> float:
    """λ_min(L⁻¹ D L⁻ᵀ) to a few percent, or any bound above −harmless."""
    n = factor.shape[0]
    basis = np.zeros((_LANCZOS_STEPS + 1, n))
    start = np.cos(np.arange(n) * 1.7 + 0.3)  # deterministic, in general position
    basis[0] = start / np.linalg.norm(start)
    tridiagonal = np.zeros((_LANCZOS_STEPS + 1, _LANCZOS_STEPS + 1))
    smallest = 0.0
    for k in range(_LANCZOS_STEPS):
        image = blas.dtrsv(factor, basis[k], lower=1, trans=1)
        image = blas.dtrsv(factor, _apply(direction, image), lower=1)
        tridiagonal[k, k] = basis[k] @ image
        for _ in range(2):
            image -= basis[: k + 1].T @ (basis[: k + 1] @ image)
        off = float(np.linalg.norm(image))
        # A residual tells how near *some* eigenvalue is; only steps tell that it is the smallest.
        if (k > 6 and k % 4 == 3) or off == 0 or k == _LANCZOS_STEPS - 1:
            ritz, vectors = np.linalg.eigh(tridiagonal[: k + 1, : k + 1])
            smallest, residual = float(ritz[0]), off * abs(float(vectors[-1, 0]))
            if smallest - residual > -harmless:
                return smallest - residual
            if residual <= 0.05 * abs(smallest):
                return smallest - residual
        tridiagonal[k, k + 1] = tridiagonal[k + 1, k] = off
        basis[k + 1] = image / off if off else 0.0
    return smallest - residual


def _apply(symmetric: Any, vector: Array) -> Array:
    if isinstance(symmetric, np.ndarray):
        return np.asarray(blas.dsymv(1.0, symmetric.T, vector, lower=1))
    return np.asarray(symmetric @ vector)


def moved_inside(matrix: Array) -> Array:
    """The symmetric part of a matrix, moved into the cone if rounding has put it outside."""
    matrix = symmetrise(matrix)
    eye = float(np.trace(matrix)) / len(matrix) * np.eye(len(matrix))
    for shift in (0.0, *10.0 ** np.arange(-14, 0)):
        moved = matrix + shift * eye
        if lapack.dpotrf(moved.T, lower=1, clean=0)[1] == 0:
            return np.asarray(moved)
    raise Breakdown


def proven_step(moved: Callable[[float], Moved], length: float) -> tuple[float, Moved]:
    """(length, what is there after a step of it), shortened until there is no `Breakdown`.

    `moved` takes a step of any length and factors where it leads.
    """
    for _ in range(40):
        try:
            return length, moved(length)
        except Breakdown:
            length *= 0.9
    raise Breakdown
