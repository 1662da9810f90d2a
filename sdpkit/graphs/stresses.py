"""Facial reduction by equilibrium stresses: directions that no Gram matrix of the graph has.

Weights ω on the edges of points X are an equilibrium stress if L(ω)X = 0. If moreover L(ω) ⪰ 0,
every Gram matrix K with the same lengths has

    <L(ω), K> = Σ ω_e d_e = <L(ω), XXᵀ> = 0,      so that  K c = 0  for every c in the range of L(ω)

Cliques of dependent points have such stresses, L(ω) = ccᵀ, and so have many graphs without cliques
(Connelly 1982; Drusvyatskiy and Wolkowicz 2017 on facial reduction). The search is restricted to
a face that is known already. A semidefinite stress of largest rank is the limit for δ → 0 of

    maximise  log det(L(ω) + δI) − tr L(ω)      over equilibrium stresses ω

whose eigenvalues tend to zero with δ where the limit has none. Newton's method then makes these
eigenvalues vanish to the last digit; a stress of which this fails proves nothing and is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from sdpkit.numerics.patience import is_over

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
# More edges than this are not tried: a Newton step takes a few matrices of their number squared.
_MAX_EDGES = 3000
# Singular values of the equations of equilibrium below this share are rounding.
_RANK = 1e-10
# Newton steps per δ, and the squared decrement at which a point counts as centred.
_CENTRING_STEPS = 30
_CENTRED = 1e-2
# The last δ; eigenvalues that vanish are a few hundred times as large at most.
_LAST_DELTA = 1e-9
# An eigenvalue that is this many times the one below may be the first that does not vanish.
_JUMP = 10.0
_MAX_CUTS = 4
_POLISHING_STEPS = 6
# What an exposed direction may be off.
_DIRECTION_ERROR = 1e-9


def exposed_directions(points: ArrayLike, edges: ArrayLike, null: ArrayLike) -> Array:
    """(n, k) orthonormal directions beyond `null` on which every Gram matrix of these lengths
    vanishes, for (n, D) points, (m, 2) edges and (n, l) directions that are known already.

    A regular hexagon with its long diagonals has no clique of three, and cannot leave the plane:

    >>> hexagon = np.array([[np.cos(t), np.sin(t)] for t in np.arange(6) * np.pi / 3])
    >>> edges = [[i, (i + 1) % 6] for i in range(6)] + [[i, i + 3] for i in range(3)]
    >>> exposed_directions(hexagon, edges, np.ones((6, 1))).shape[1]
    3
    """
    found = np.asarray(null, dtype=np.float64)
    known = found.shape[1]
    ends = np.asarray(edges, dtype=np.int64)
    if len(ends) > _MAX_EDGES:
        return found[:, :0]
    centred = np.asarray(points, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    while True:
        space = _StressSpace.on_face(centred, ends, found)
        more = None if space is None else space.exposed()
        if more is None:  # or there is no time for another search
            return found[:, known:]
        found = np.hstack([found, more])


@dataclass(frozen=True, eq=False)
class _StressSpace:
    """Stresses in equilibrium with the points, seen on what a face has beside the points.

    Attributes
    ----------
    basis: (n, f) orthonormal directions of the face that are orthogonal to the points
    vectors: (m, f) differences of `basis` along edges, so that L(ω) is vectorsᵀ diag(ω) vectors
    equilibrium: (·, m) the equations of equilibrium;  stresses: (m, s) a basis of their solutions
    """

    basis: Array
    vectors: Array
    equilibrium: Array
    stresses: Array

    @classmethod
    def on_face(cls, points: Array, edges: NDArray[np.int64], null: Array) -> _StressSpace | None:
        """None where there is no stress, or the points fill the face."""
        face = scipy.linalg.qr(null)[0][:, null.shape[1] :]
        spanned = scipy.linalg.orth(face.T @ points, rcond=_RANK)
        rest = scipy.linalg.qr(spanned)[0][:, spanned.shape[1] :]
        if not rest.shape[1]:
            return None
        along = face[edges[:, 0]] - face[edges[:, 1]]
        sides = points[edges[:, 0]] - points[edges[:, 1]]
        sides = sides / np.sqrt(np.mean(sides**2))
        equations = np.vstack([along.T * side for side in sides.T])
        stresses = scipy.linalg.null_space(equations, rcond=_RANK)
        vectors = along @ rest
        # Stresses that vanish on the face say nothing.
        sizes, mixed = scipy.linalg.eigh(stresses.T @ (vectors @ vectors.T) ** 2 @ stresses)
        stresses = stresses @ mixed[:, sizes > 1e-14 * sizes.max(initial=0.0)]
        return cls(face @ rest, vectors, equations, stresses) if stresses.shape[1] else None

    def exposed(self) -> Array | None:
        """(n, k) the range of a semidefinite stress; None if none is found beyond doubt."""
        stress = self._largest()
        if is_over():
            return None
        for vanishing in self._cuts(self._spectrum(stress)[0]):
            vectors = self._polished(stress, vanishing)
            if vectors is not None:
                return np.asarray(self.basis @ vectors)
        return None

    def _image(self, stress: Array) -> Array:
        return np.asarray(self.vectors.T @ (stress[:, None] * self.vectors))

    def _spectrum(self, stress: Array) -> tuple[Array, Array]:
        values, vectors = scipy.linalg.eigh(self._image(stress))
        return values, vectors

    @cached_property
    def _traces(self) -> Array:
        """(s,) tr L of the basis of stresses."""
        return np.asarray(self.stresses.T @ np.einsum("ef,ef->e", self.vectors, self.vectors))

    def _largest(self) -> Array:
        """(m,) ω near the limit: along the path of δ, extrapolated by its tangent."""
        y, delta = np.zeros(self.stresses.shape[1]), 1.0
        while True:
            y, tangent = self._centred(y, delta)
            if delta <= _LAST_DELTA or is_over():
                break
            for share in (0.03, 0.1, 0.3, 0.5, 0.7, 0.9):
                ahead = y - (1 - share) * delta * tangent
                if np.isfinite(self._potential(ahead, share * delta)):
                    y, delta = ahead, share * delta
                    break
            else:
                break  # rounding is all that is left
        return np.asarray(self.stresses @ y)

    def _centred(self, y: Array, delta: float) -> tuple[Array, Array]:
        """(the maximiser for δ, its derivative by δ) by Newton's method from y."""
        identity = np.eye(self.vectors.shape[1])
        for _ in range(_CENTRING_STEPS):
            image = self._image(self.stresses @ y) + delta * identity
            factor = scipy.linalg.cho_factor(image, lower=True)
            solved = scipy.linalg.cho_solve(factor, self.vectors.T).T
            products = solved @ self.vectors.T
            gradient = self.stresses.T @ products.diagonal() - self._traces
            hessian = self.stresses.T @ (products**2) @ self.stresses
            values, modes = scipy.linalg.eigh(hessian)
            values = np.maximum(values, EPS * values[-1])
            step = modes @ ((modes.T @ gradient) / values)
            decrement = float(gradient @ step)
            y = self._searched(y, step, delta, decrement)
            if decrement < _CENTRED or is_over():
                break
        pull = self.stresses.T @ np.einsum("ef,ef->e", solved, solved)
        return y, -np.asarray(modes @ ((modes.T @ pull) / values))

    def _searched(self, y: Array, step: Array, delta: float, decrement: float) -> Array:
        now = self._potential(y, delta)
        length = 1.0 if decrement < 0.5 else 1 / (1 + np.sqrt(decrement))
        while length > 1e-8:
            moved = np.asarray(y + length * step)
            if self._potential(moved, delta) >= now + 1e-4 * length * decrement - 1e-10 * abs(now):
                return moved
            length *= 0.5
        return y

    def _potential(self, y: Array, delta: float) -> float:
        """log det(L(ω) + δI) − tr L(ω); −inf outside of the cone."""
        image = self._image(self.stresses @ y)
        image[np.diag_indices(len(image))] += delta
        factor, info = scipy.linalg.lapack.dpotrf(image, lower=1)
        if info:
            return -np.inf
        return 2 * float(np.log(factor.diagonal()).sum()) - float(self._traces @ y)

    def _cuts(self, values: Array) -> Iterator[int]:
        """How many eigenvalues may vanish, the clearest case first: the next is much larger."""
        jumps = values / np.maximum(np.r_[0.0, values[:-1]], _LAST_DELTA)
        order = np.argsort(-jumps, kind="stable")[:_MAX_CUTS]
        yield from (int(k) for k in order if jumps[k] > _JUMP)

    def _polished(self, stress: Array, vanishing: int) -> Array | None:
        """(f, k) the eigenvectors of the others after the first `vanishing` eigenvalues were
        driven to zero; None unless rounding is all that is left of them."""
        flat = self.equilibrium.T @ self.equilibrium
        values, vectors = self._spectrum(stress)
        least = 0.1 * values[vanishing]
        for _ in range(_POLISHING_STEPS):
            if values[vanishing] < least:
                return None  # it vanishes with them
            if self._is_exposing(stress, values, vanishing):
                return np.asarray(vectors[:, vanishing:])
            seen = self.vectors @ vectors[:, :vanishing]
            off = np.einsum("ek,k,ek->e", seen, values[:vanishing], seen)
            system = flat + (seen @ seen.T) ** 2
            modes, mixed = scipy.linalg.eigh(system)
            kept = modes > 1e-12 * modes[-1]
            aim = mixed[:, kept].T @ (self.equilibrium.T @ (self.equilibrium @ stress) + off)
            stress = stress - mixed[:, kept] @ (aim / modes[kept])
            values, vectors = self._spectrum(stress)
        return None

    def _is_exposing(self, stress: Array, values: Array, vanishing: int) -> bool:
        """Whether L(ω) ⪰ 0 and L(ω)X = 0 up to rounding, and the rest stands out from it."""
        size = float(np.linalg.norm(self._image(np.abs(stress))))
        rounding = 64 * len(values) * EPS * size
        moved = float(np.abs(self.equilibrium @ stress).max())
        noise = float(np.abs(values[:vanishing]).max(initial=0.0))
        stands_out = noise + EPS * size <= _DIRECTION_ERROR * values[vanishing]
        return bool(max(noise, moved) <= rounding and stands_out)


__all__ = ["exposed_directions"]
