"""The integer rows of a proof as floating-point arrays, for everything that needs no proof."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.proof.check import DyadicProgram
from sdpkit.typing import Array, Bools

Matrices = list[Array]
# Doubles of one slab of turned matrices.
_SLAB = 4_000_000


@dataclass(frozen=True, eq=False)
class Floats:
    """A program with equations only, slack variables among x, rounded to doubles.

    Attributes
    ----------
    sizes: n per block;  starts: where the entries of each block begin
    blocks: (m, Σn²) csr array, both triangles;  linear: (m, n_x) csr array
    b: (m,);  cost: per block C;  cost_x: (n_x,);  free: (n_x,)
    """

    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    blocks: sp.csr_array
    linear: sp.csr_array
    b: Array
    cost: Matrices
    cost_x: Array
    free: Bools

    @classmethod
    def of(cls, program: DyadicProgram) -> Floats:
        sizes = tuple(program.sizes[1:])
        starts = tuple(np.cumsum([0, *(n * n for n in sizes)]).tolist())
        unit, n_x, m = 1 << program.unit, len(program.free), len(program.rows)
        places: tuple[list[int], ...] = ([], [], [], [])
        values: tuple[list[float], list[float]] = ([], [])
        for e, row in enumerate([*program.rows, program.cost]):
            for (k, i, j), v in row.items():
                number = v / unit
                if k == 0:
                    places[2].append(e)
                    places[3].append(j)
                    values[1].append(number)
                    continue
                for a, c in {(i, j), (j, i)}:
                    places[0].append(e)
                    places[1].append(starts[k - 1] + a * sizes[k - 1] + c)
                    values[0].append(number)
        blocks = sp.csr_array((np.array(values[0]), places[:2]), shape=(m + 1, starts[-1]))
        linear = sp.csr_array((np.array(values[1]), places[2:]), shape=(m + 1, n_x))
        cost = blocks[[m]].toarray().ravel()
        return cls(
            sizes,
            starts,
            sp.csr_array(blocks[:m]),
            sp.csr_array(linear[:m]),
            np.array([v / unit for v in program.b], dtype=float),
            cls._cut(cost, sizes, starts),
            linear[[m]].toarray().ravel(),
            np.array(program.free, dtype=bool),
        )

    @staticmethod
    def _cut(flat: Array, sizes: tuple[int, ...], starts: tuple[int, ...]) -> Matrices:
        pairs = zip(sizes, starts, strict=False)
        return [flat[start : start + n * n].reshape(n, n) for n, start in pairs]

    def values(self, matrices: Matrices, x: Array) -> Array:
        """(m,) A(X) + A_x x."""
        flat = np.concatenate([np.zeros(0), *(m.ravel() for m in matrices)])
        return np.asarray(self.blocks @ flat + self.linear @ x)

    def images(self, w: Array) -> tuple[Matrices, Array]:
        """Σ w_i A_i and A_xᵀ w."""
        flat = np.asarray(self.blocks.T @ w)
        return self._cut(flat, self.sizes, self.starts), np.asarray(self.linear.T @ w)

    def slacks(self, w: Array) -> tuple[Matrices, Array]:
        """Σ w_i A_i − C and A_xᵀ w − c."""
        images, r = self.images(w)
        return [s - c for s, c in zip(images, self.cost, strict=True)], r - self.cost_x

    def worth(self, matrices: Matrices, x: Array) -> float:
        """<C, X> + cᵀx."""
        inner = sum(float(np.sum(c * m)) for c, m in zip(self.cost, matrices, strict=True))
        return inner + float(self.cost_x @ x)

    def gram(self) -> Array:
        """(m, m) AAᵀ."""
        return np.asarray((self.blocks @ self.blocks.T + self.linear @ self.linear.T).toarray())

    def metric(self, matrices: Matrices, weights: Array) -> Array:
        """(m, m) the inner products <A_i, H A_j H> + Σ a_ij w_j a_kj."""
        m = self.b.size
        out = (self.linear @ sp.diags_array(weights) @ self.linear.T).toarray().reshape(m, m)
        for n, start, h in zip(self.sizes, self.starts, matrices, strict=False):
            part = sp.csr_array(self.blocks[:, start : start + n * n])
            used = np.flatnonzero(np.diff(part.indptr))
            step = max(1, _SLAB // max(n * n, 1))
            for low in range(0, used.size, step):
                continue_or_raise()
                some = used[low : low + step]
                turned = np.stack([_turned(part, j, h) for j in some.tolist()])
                out[:, some] += part @ turned.T
        return np.asarray((out + out.T) / 2)


def _turned(part: sp.csr_array, j: int, h: Array) -> Array:
    """H A_j H, flat."""
    n, where = len(h), slice(part.indptr[j], part.indptr[j + 1])
    row, column = np.divmod(part.indices[where], n)
    if row.size <= n:
        return np.asarray((h[:, row] * part.data[where]) @ h[column]).ravel()
    dense = np.zeros((n, n))
    dense[row, column] = part.data[where]
    return np.asarray(h @ dense @ h).ravel()


def smallest(matrices: Matrices) -> float:
    """The smallest eigenvalue in units of each diagonal entry; 1 where there is nothing."""
    least = 1.0
    for m in matrices:
        continue_or_raise()
        diagonal = np.diag(m)
        if not m.any():
            continue
        if diagonal.min(initial=1.0) < 0 or not np.isfinite(m).all():
            return -np.inf
        root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = m / np.outer(root, root)
        if np.any(scaled[diagonal == 0]):
            return -np.inf
        seen = np.flatnonzero(diagonal)
        part = scaled[np.ix_(seen, seen)]
        least = min(least, float(scipy.linalg.eigvalsh(part, subset_by_index=[0, 0])[0]))
    return least
