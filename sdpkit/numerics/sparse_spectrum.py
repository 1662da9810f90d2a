"""The smallest eigenvalues of sparse symmetric matrices, estimated or proven, without a dense one.

Both rest on factorisations of S − σI by SuperLU without pivoting, S − σI = LU in an order of low
fill. Positive pivots prove S ⪰ (σ − ε)I: with D the diagonal of U,

    S − σI = LDLᵀ + L(U − DLᵀ) − E,    |E| ≤ γ|L||U|    (Higham 2002, theorem 9.3)

and the norms of the last two matrices, bounded by their row sums, are ε. A factorisation with a
pivot that is not positive proves nothing, and a smaller σ is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.eigenpairs import leading_eigenpairs
from sdpkit.numerics.pattern import minimum_degree
from sdpkit.typing import Array, Indices

_UNIT = float(np.finfo(np.float64).eps) / 2
_TINY = float(np.finfo(np.float64).tiny)
# Steps of the Lanczos method that tell roughly how negative a matrix is.
_LOOKS = 60
# How far below an estimate a factorisation is tried: shares of the estimate and of the norm.
_SHARE = 1e-6
_POWERS = range(-10, 3, 2)
# The relative accuracy of 1/(λ − σ) in the Lanczos method on the inverse.
_ACCURACY = 1e-5


@dataclass(frozen=True, eq=False)
class SparseSpectrum:
    """The lower end of the spectrum of S.

    Attributes
    ----------
    matrix: (n, n) csc array S, symmetric
    order: (n,) the order of elimination, as `elimination_order` finds it

    >>> path = sp.diags_array([[-1.0] * 4, [2.0] * 5, [-1.0] * 4], offsets=[-1, 0, 1])
    >>> spectrum = SparseSpectrum(sp.csc_array(path), elimination_order(path))
    >>> round(float(spectrum.lowest(1)[0][0]), 6), round(2 - 3**0.5, 6)
    (0.267949, 0.267949)
    >>> bool(0 < 2 - 3**0.5 - spectrum.proven_bound() < 1e-6)
    True
    """

    matrix: sp.csc_array
    order: Indices

    @cached_property
    def size(self) -> float:
        """A bound on ‖S‖₂: the largest sum of a row's absolute values."""
        return float(abs(self.matrix).sum(axis=0).max(initial=0.0))

    def lowest(self, k: int) -> tuple[Array, Array]:
        """(k,) estimates of the smallest eigenvalues, rising, and (n, k) eigenvectors, by the
        Lanczos method on the inverse of S − σI for a σ below them."""
        n = self.matrix.shape[0]
        k = min(k, n)
        if not np.isfinite(self.matrix.data).all():
            return np.full(k, -np.inf), np.zeros((n, k))
        if self.size == 0:
            return np.zeros(k), np.eye(n, k)
        sigma, factor = self._below()
        if factor is None:
            return np.full(k, -np.inf), np.zeros((n, k))

        def inverse(x: Array) -> Array:
            continue_or_raise()
            return np.asarray(factor.solve(x.ravel()))

        values, vectors = leading_eigenpairs(inverse, n, k, tol=_ACCURACY)
        positive = values > 0
        out = np.full(k, np.inf)
        return sigma + np.divide(1.0, values, out=out, where=positive), self._back(vectors)

    def proven_bound(self) -> float:
        """A proven lower bound on the smallest eigenvalue, sharp to a few digits; −∞ where no
        factorisation proves one."""
        if not np.isfinite(self.matrix.data).all():
            return -np.inf
        if self.size == 0:
            return 0.0
        guess = float(self.lowest(1)[0][0])
        if not np.isfinite(guess):
            return -np.inf
        for power in _POWERS:
            continue_or_raise()
            sigma = guess - _SHARE * abs(guess) - 10.0**power * self.size
            factor = self._factor(sigma)
            error = np.inf if factor is None else self._error(factor, sigma)
            if np.isfinite(error):
                return sigma - error
        return -np.inf

    def _below(self) -> tuple[float, Any]:
        """(σ, factor of S − σI) with σ below the spectrum, from a rough look downwards."""
        guess = min(self._rough(), 0.0)
        for power in range(-9, 3):
            continue_or_raise()
            sigma = 1.02 * guess - 10.0**power * self.size
            factor = self._factor(sigma)
            if factor is not None:
                return sigma, factor
        return -np.inf, None

    def _rough(self) -> float:
        """A number that the smallest eigenvalue is not above: a Ritz value of a few steps of the
        Lanczos method."""
        n = self.matrix.shape[0]
        steps = min(_LOOKS, n)
        basis, h = np.zeros((steps + 1, n)), np.zeros((2, steps))
        start = np.random.default_rng(0).standard_normal(n)
        basis[0] = start / np.linalg.norm(start)
        for j in range(steps):
            image = self._permuted @ basis[j]
            h[0, j] = basis[j] @ image
            for _ in range(2):  # twice is enough against the loss of orthogonality
                image -= basis[: j + 1].T @ (basis[: j + 1] @ image)
            h[1, j] = float(np.linalg.norm(image))
            if h[1, j] <= 1e-12 * self.size:
                steps = j + 1
                break
            basis[j + 1] = image / h[1, j]
        values = scipy.linalg.eigvalsh_tridiagonal(h[0, :steps], h[1, : steps - 1])
        return float(values[0])

    @cached_property
    def _permuted(self) -> sp.csc_array:
        order = self.order
        return sp.csc_array(sp.csr_array(self.matrix)[order][:, order])

    def _back(self, vectors: Array) -> Array:
        out = np.empty_like(vectors)
        out[self.order] = vectors
        return out

    def _factor(self, sigma: float) -> Any:
        """SuperLU's factors of S − σI in the order of `order`; None unless all pivots are
        positive and on the diagonal."""
        n = self.matrix.shape[0]
        try:
            factor = scipy.sparse.linalg.splu(
                sp.csc_array(self._permuted - sigma * sp.eye_array(n, format="csc")),
                permc_spec="NATURAL",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # a pivot is zero
            return None
        pivots = factor.U.diagonal()
        on_diagonal = np.array_equal(factor.perm_r, factor.perm_c)
        definite = on_diagonal and bool(np.isfinite(pivots).all()) and bool((pivots > 0).all())
        return factor if definite else None

    def _error(self, factor: Any, sigma: float) -> float:
        """ε: how far LDLᵀ is from S − σI at most, D the positive pivots."""
        lower, upper = sp.csr_array(factor.L), sp.csr_array(factor.U)
        n, pivots = lower.shape[0], upper.diagonal()
        ones = np.ones(n)
        apart = abs(upper - sp.diags_array(pivots) @ sp.csr_array(lower.T))
        # What the differences above were rounded by.
        blurred = apart @ ones + 4 * _UNIT * (abs(upper) @ ones)
        chain = int(np.diff(lower.indptr).max(initial=0)) + 3
        share = chain * _UNIT / (1 - chain * _UNIT)
        sums = abs(lower) @ (blurred + share * (abs(upper) @ ones))
        diagonal = 2 * _UNIT * (float(np.abs(self.matrix.diagonal()).max()) + abs(sigma))
        tiny = n * chain * _TINY * (1 + float(pivots.max()))
        return 1.01 * (float(sums.max()) + diagonal) + float(tiny)


def elimination_order(matrix: Any) -> Indices:
    """(n,) an order of elimination of low fill for a symmetric sparse matrix."""
    upper = sp.coo_array(sp.triu(matrix, 1))
    i, j = upper.coords
    edges = np.stack([i, j], axis=1).astype(np.int64)
    n = int(matrix.shape[0])
    return minimum_degree(n, edges) if len(edges) else np.arange(n)


__all__ = ["SparseSpectrum", "elimination_order"]
