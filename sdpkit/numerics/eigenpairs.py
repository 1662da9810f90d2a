"""Extreme eigenpairs of operators and of graph matrices, estimated or proven."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse.linalg

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.pattern import Pattern
from sdpkit.numerics.updated_factor import LowRankUpdate, factored
from sdpkit.typing import Array


def smallest_on_centred(
    pattern: Pattern,
    weights: Array,
    cost: float,
    step: Array | None = None,
    update: LowRankUpdate | None = None,
) -> float:
    """A proven lower bound, sharp to a few digits, on zᵀSz over unit z ⊥ 1, S = L(w − Δ) − cI,
    less UsUᵀ where a cost of low rank is given.

    The constant vector is an eigenvector of S with eigenvalue −c. If that is the only negative
    eigenvalue of S − σI, then every other eigenvalue is at least σ. How many there are is read off
    a factorisation, whose backward error is subtracted. The constant's must be negative beyond
    that error, or another one could be in its place.
    """
    terms = (weights,) if step is None else (weights, -step)
    total = weights if step is None else weights - step
    if not np.isfinite(total).all():
        return -np.inf
    size = max(float(np.abs(total).max(initial=0.0)), abs(cost), np.finfo(float).tiny)
    guess = float(lowest_on_centred(pattern, total, cost, 1, update)[0][0])
    downwards = [1e-6 * abs(guess), 1e-3 * abs(guess), 0.1 * abs(guess)]
    downwards += [10.0**power * size for power in range(-15, 3)]
    if pattern.is_heavy:  # every attempt is dear: fewer, and less sharp
        downwards = [1e-6 * abs(guess) + 10.0**power * size for power in range(-10, 3, 2)]
    for below in downwards:
        sigma = guess - below
        factor = factored(pattern, total, -cost - sigma, update)
        if factor.negative == (1 if cost + sigma > 0 else 0):
            error = factor.backward_error(terms, (-cost, -sigma))
            if np.isfinite(error) and not 0 < cost + sigma <= error:
                return sigma - error
    return -np.inf


def lowest_on_centred(
    pattern: Pattern, weights: Array, cost: float, k: int, update: LowRankUpdate | None = None
) -> tuple[Array, Array]:
    """(k,) estimates of the smallest eigenvalues on 1⊥ of S = L(w) − cI, less UsUᵀ where a cost of
    low rank is given, rising, and (n, k) their eigenvectors, by the Lanczos method on the inverse
    of S − σI for a σ below them: its largest eigenvalues there are 1/(λ − σ)."""
    n = pattern.n
    k = min(k, n - 1)
    if n == 1:
        return np.array([np.inf]), np.zeros((1, 1))
    size = max(float(np.abs(weights).max(initial=0.0)), abs(cost), np.finfo(float).tiny)
    # S may be positive on 1⊥ already; else go down until it is. L(w) ⪰ 0 if no weight is negative.
    down = [-size * 10.0**power for power in range(-12, 3)]
    if update is None and np.all(weights >= 0):
        down = [-cost - 1e-9 * size, *down[4:]]
    for sigma in (0.0, *down) if cost != 0 else down:
        continue_or_raise()
        factor = factored(pattern, weights, -cost - sigma, update)
        if factor.negative == (1 if cost + sigma > 0 else 0):
            break
    else:
        return np.full(k, -100.0 * size), np.zeros((n, k))

    def inverse(x: Array) -> Array:
        continue_or_raise()
        y = factor.solve(x.ravel() - x.mean())
        return np.asarray(y - y.mean())

    try:
        values, vectors = leading_eigenpairs(inverse, n, k)
    except np.linalg.LinAlgError:  # a factor that overflows proves nothing
        return np.full(k, -100.0 * size), np.zeros((n, k))
    positive = values > 0
    return sigma + np.divide(1.0, values, out=np.zeros(k), where=positive), vectors


def leading_eigenpairs(
    apply: Callable[[Array], Array], n: int, k: int, tol: float = 1e-9, n_vectors: int = 20
) -> tuple[Array, Array]:
    """(k,) largest eigenvalues, falling, and (n, k) eigenvectors of a symmetric operator, which may
    be zero; `LinAlgError` if its images are not finite. The Lanczos method keeps `n_vectors`, or
    2k + 1 where that is more.

    >>> values, vectors = leading_eigenpairs(lambda x: 0.0 * x, 100, 2)
    >>> values, np.allclose(vectors.T @ vectors, np.eye(2))
    (array([0., 0.]), True)
    """
    if n <= max(40, 2 * k + 2):
        matrix = np.column_stack([apply(column) for column in np.eye(n)])
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    else:
        values, vectors = _lanczos(apply, n, k, tol, n_vectors)
    falling = np.argsort(values)[::-1][:k]
    return values[falling], vectors[:, falling]


def _lanczos(
    apply: Callable[[Array], Array], n: int, k: int, tol: float, n_vectors: int
) -> tuple[Array, Array]:
    """Eigenpairs by ARPACK; of an operator on which it does not converge, because its negative
    eigenvalues dwarf the largest or all of them are zero, Ritz pairs of a block."""
    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=apply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    if not np.isfinite(apply(start)).all():
        raise np.linalg.LinAlgError("the images of the operator are not finite")
    for basis, loose in ((max(2 * k + 1, n_vectors), tol), (max(4 * k + 1, 120), 1e-4)):
        try:
            values, vectors = scipy.sparse.linalg.eigsh(
                operator, k=k, which="LA", v0=start, ncv=min(n - 1, basis), tol=loose
            )
        except scipy.sparse.linalg.ArpackError:
            continue
        if np.isfinite(values).all() and np.isfinite(vectors).all():
            return values, vectors
    block = np.linalg.qr(np.random.default_rng(1).standard_normal((n, min(n, k + 20))))[0]
    image = np.column_stack([apply(column) for column in block.T])
    values, turn = np.linalg.eigh(block.T @ image)
    return values[-k:], block @ turn[:, -k:]
