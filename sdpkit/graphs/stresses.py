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
Stresses are looked for in small patches of the graph first, whose eigenvalues are easily told
apart, and last in the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.graphs.rigid import without_points
from sdpkit.numerics.deadline import is_over
from sdpkit.typing import Array, Indices

Patch = tuple[int, ...]

EPS = float(np.finfo(np.float64).eps)
# Graphs of more edges are searched in patches only: polishing takes matrices of their number
# squared.
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
# Rounding in an eigenvalue, in units of the last digit: known directions are rounded themselves.
_ROUNDED = 512
# What an exposed direction may be off.
_DIRECTION_ERROR = 1e-9
# Patches reach this many edges from a node.
_HOPS = 2
# What must be left of a direction beside the known ones: less would be mostly their rounding.
_NEW = 1e-2


def exposed_directions(points: ArrayLike, edges: ArrayLike, null: ArrayLike) -> Array:
    """(n, k) orthonormal directions beyond `null` on which every Gram matrix of these lengths
    vanishes, for (n, D) points, (m, 2) edges and (n, l) directions that are known already.

    A regular hexagon with its long diagonals has no clique of three, and cannot leave the plane:

    >>> hexagon = np.array([[np.cos(t), np.sin(t)] for t in np.arange(6) * np.pi / 3])
    >>> edges = [[i, (i + 1) % 6] for i in range(6)] + [[i, i + 3] for i in range(3)]
    >>> exposed_directions(hexagon, edges, np.ones((6, 1))).shape[1]
    3
    """
    given = np.asarray(null, dtype=np.float64)
    centred = given - given.mean(axis=0)  # directions of bodies sum to zero; 1 itself goes
    u, sizes, _ = scipy.linalg.svd(centred, full_matrices=False)
    known = u[:, sizes > _RANK * max(1.0, sizes.max(initial=0.0))]
    X = np.asarray(points, dtype=np.float64)
    return without_points(_Search(X, np.asarray(edges, dtype=np.int64)).beyond(known), X)


@dataclass(frozen=True, eq=False)
class _Search:
    """Patch by patch, the small ones first: the spectrum of a small stress is easily cut, that of
    a large one spreads over many orders of magnitude.

    Attributes
    ----------
    points: (n, D);  edges: (m, 2)
    """

    points: Array
    edges: Indices

    def beyond(self, known: Array) -> Array:
        """(n, k) orthonormal directions beyond the orthonormal `known` ones."""
        found = known
        done: dict[Patch, int] = {}
        again = True
        while again and not is_over():
            again = False
            for patch in self.patches:
                inside = supported(found, np.array(patch))
                if is_over() or done.get(patch) == inside.shape[1]:
                    continue  # nothing new is known there
                done[patch] = inside.shape[1]
                more = self._exposed(np.array(patch), inside)
                if more is not None:
                    wider = extended(found, np.array(patch), more)
                    again = again or wider.shape[1] > found.shape[1]
                    found = wider
        return found[:, known.shape[1] :]

    def _exposed(self, patch: Indices, known: Array) -> Array | None:
        """(s, k) the directions that a stress inside a patch exposes."""
        place = np.full(len(self.points), -1)
        place[patch] = np.arange(patch.size)
        ends = place[self.edges]
        ends = ends[(ends >= 0).all(axis=1)]
        here = self.points[patch] - self.points[patch].mean(axis=0)
        space = _StressSpace.on_face(here, ends, np.column_stack([np.ones(patch.size), known]))
        return None if space is None else space.exposed()

    @cached_property
    def patches(self) -> list[Patch]:
        """What lies within one edge of each node, then within two, then the whole graph."""
        n = len(self.points)
        i, j = self.edges.T
        near = sp.eye_array(n, format="csr") + sp.coo_array((np.ones(i.size), (i, j)), (n, n))
        near = sp.csr_array(near + near.T)
        reach, patches = near, list[Patch]()
        for _ in range(_HOPS):
            rows = np.split(reach.indices, reach.indptr[1:-1])
            patches += (tuple(sorted(row.tolist())) for row in rows)
            reach = sp.csr_array(reach @ near)
        if len(self.edges) <= _MAX_EDGES:
            patches.append(tuple(range(n)))
        return list(dict.fromkeys(patches))


def supported(directions: Array, patch: Indices) -> Array:
    """(s, k) those combinations of orthonormal directions that vanish outside of a patch."""
    u, inside, v = scipy.linalg.svd(directions[patch], full_matrices=False)
    near = inside > 1 - 1e-8
    outside = np.delete(directions @ v[near].T, patch, axis=0)
    clear = np.linalg.norm(outside, axis=0) <= 1e-10
    return np.asarray(u[:, near][:, clear])


def extended(known: Array, patch: Indices, more: Array) -> Array:
    """Orthonormal directions that span the known ones and those of a patch."""
    wide = np.zeros((len(known), more.shape[1]))
    wide[patch] = more
    wide -= known @ (known.T @ wide)
    u, sizes, _ = scipy.linalg.svd(wide, full_matrices=False)
    new = u[:, sizes > _NEW]
    new = new - known @ (known.T @ new)
    return np.hstack([known, scipy.linalg.qr(new, mode="economic")[0]])


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
    def on_face(cls, points: Array, edges: Indices, null: Array) -> _StressSpace | None:
        """None where there is no stress, the points fill the face, or the time is over."""
        face = scipy.linalg.qr(null)[0][:, null.shape[1] :]
        # Cliques are flat up to the rounding of lengths, points up to its root: the same lengths.
        points = face @ (face.T @ points)
        spanned = scipy.linalg.orth(face.T @ points, rcond=_RANK)
        rest = scipy.linalg.qr(spanned)[0][:, spanned.shape[1] :]
        if not rest.shape[1] or not len(edges) or is_over():
            return None
        along = face[edges[:, 0]] - face[edges[:, 1]]
        sides = points[edges[:, 0]] - points[edges[:, 1]]
        sides = sides / np.sqrt(np.mean(sides**2))
        equations = np.vstack([along.T * side for side in sides.T])
        stresses = scipy.linalg.null_space(equations, rcond=_RANK)
        if is_over():
            return None
        vectors = along @ rest
        # Stresses that vanish on the face say nothing.
        sizes, mixed = scipy.linalg.eigh(stresses.T @ (vectors @ vectors.T) ** 2 @ stresses)
        stresses = stresses @ mixed[:, sizes > 1e-14 * sizes.max(initial=1.0)]
        return cls(face @ rest, vectors, equations, stresses) if stresses.shape[1] else None

    def exposed(self) -> Array | None:
        """(n, k) the range of a semidefinite stress; None if none is found beyond doubt."""
        stress = self._largest()
        if stress is None or is_over():
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
    def _images(self) -> Array:
        """(s, f, f) L of every stress of the basis."""
        return np.stack([self._image(stress) for stress in self.stresses.T])

    @cached_property
    def _traces(self) -> Array:
        """(s,) tr L of the basis of stresses."""
        return np.asarray(np.einsum("sff->s", self._images))

    def _largest(self) -> Array | None:
        """(m,) ω near the limit: along the path of δ, extrapolated by its tangent.

        None where no stress is semidefinite: at the maximiser of δ, Z = (L(ω) + δI)⁻¹ − I is
        orthogonal to all stresses, so that Z ≻ 0 leaves none. Newton's last step corrects Z for
        what is missing to the maximiser, by less than a share of sqrt(_CENTRED).
        """
        y, delta = np.zeros(self.stresses.shape[1]), 1.0
        while True:
            y, tangent = self._centred(y, delta)
            if scipy.linalg.eigvalsh(self._shifted(y, delta))[-1] < 1 - np.sqrt(_CENTRED):
                return None
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

    def _shifted(self, y: Array, delta: float) -> Array:
        """(f, f) L(ω) + δI."""
        image = np.asarray(np.tensordot(y, self._images, axes=1))
        image[np.diag_indices(len(image))] += delta
        return image

    def _centred(self, y: Array, delta: float) -> tuple[Array, Array]:
        """(the maximiser for δ, its derivative by δ) by Newton's method from y."""
        for _ in range(_CENTRING_STEPS):
            inverse = scipy.linalg.inv(self._shifted(y, delta), check_finite=False)
            bent = inverse @ self._images
            gradient = np.einsum("sff->s", bent) - self._traces
            hessian = np.tensordot(bent, bent, axes=([1, 2], [2, 1]))
            values, modes = scipy.linalg.eigh((hessian + hessian.T) / 2)
            values = np.maximum(values, EPS * values[-1])
            step = modes @ ((modes.T @ gradient) / values)
            decrement = float(gradient @ step)
            y = self._searched(y, step, delta, decrement)
            if decrement < _CENTRED or is_over():
                break
        pull = np.einsum("sij,ji->s", bent, inverse)
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
        factor, info = scipy.linalg.lapack.dpotrf(self._shifted(y, delta), lower=1)
        if info:
            return -np.inf
        return 2 * float(np.log(factor.diagonal()).sum()) - float(self._traces @ y)

    def _cuts(self, values: Array) -> Iterator[int]:
        """How many eigenvalues may vanish, the clearest case first: the next is much larger."""
        jumps = values / np.maximum(np.r_[0.0, values[:-1]], _LAST_DELTA)
        order = np.argsort(-jumps, kind="stable")[:_MAX_CUTS]
        yield from (int(k) for k in order if jumps[k] > _JUMP)

    def _polished(self, stress: Array, vanishing: int) -> Array | None:
        """(f, k) eigenvectors of the others after the first `vanishing` eigenvalues were driven to
        zero; None unless rounding is all that is left of them."""
        flat = self.equilibrium.T @ self.equilibrium
        values, vectors = self._spectrum(stress)
        least = 0.1 * values[vanishing]
        for _ in range(_POLISHING_STEPS):
            if values[vanishing] < least or is_over():
                return None  # it vanishes with them, or the time is over
            first = self._first_exposed(stress, values, vanishing)
            if first < values.size:
                return np.asarray(vectors[:, first:])
            seen = self.vectors @ vectors[:, :vanishing]
            off = np.einsum("ek,k,ek->e", seen, values[:vanishing], seen)
            system = flat + (seen @ seen.T) ** 2
            modes, mixed = scipy.linalg.eigh(system)
            kept = modes > 1e-12 * modes[-1]
            aim = mixed[:, kept].T @ (self.equilibrium.T @ (self.equilibrium @ stress) + off)
            stress = stress - mixed[:, kept] @ (aim / modes[kept])
            values, vectors = self._spectrum(stress)
        return None

    def _first_exposed(self, stress: Array, values: Array, vanishing: int) -> int:
        """The first eigenvalue that stands out from rounding by so much that its eigenvector is
        known, if L(ω) ⪰ 0 and L(ω)X = 0 up to rounding; else the number of all."""
        size = float(np.linalg.norm(self._image(np.abs(stress))))
        rounding = _ROUNDED * len(values) * EPS * size
        moved = float(np.abs(self.equilibrium @ stress).max())
        noise = float(np.abs(values[:vanishing]).max(initial=0.0))
        if max(noise, moved) > rounding:
            return values.size
        first = int(np.searchsorted(values, (noise + EPS * size) / _DIRECTION_ERROR))
        return max(first, vanishing)


__all__ = ["exposed_directions", "extended", "supported"]
