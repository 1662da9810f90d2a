"""Programs whose rows fix weighted sums of squared norms of the rows of Y: max-cut and its kin.

With M = YYᵀ, equations  Σ_i a_i M_ii = b  with a_i b > 0, every coordinate i in exactly one of
them, say that the part of Y that belongs to an equation lies on a sphere. In coordinates D with
D_ii = √(b/a_i) all spheres have radius one, and the program is

    maximise <C, YYᵀ>   over a product of spheres,     S = diag(w) − C,   w_e = <Y_e, (CY)_e>

The multipliers w belong to the rows, divided by b. All blocks stand below each other in one Y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.solvers.in_time import stoppable
from sdpkit.typing import Array, Indices

# Blocks whose dual slack is factored as a sparse matrix: from this size on, up to this share of
# nonzeros.
_SPARSE_SIZE, _SPARSE_SHARE = 500, 0.02


@dataclass(frozen=True, eq=False)
class SphereModel:
    """The maximisation over spheres of radius one, its cost scaled to rows of size one.

    Attributes
    ----------
    sphere: (N,) the equation to which each coordinate of all blocks belongs
    radius: (N,) the D of the module's formula
    cost: (N, N) csr array, block diagonal: DCD / `scale` for the maximisation
    """

    program: Program
    sphere: Indices
    radius: Array
    cost: sp.csr_array
    scale: float

    @classmethod
    def of(cls, program: Program) -> SphereModel | None:
        """The program in this form, or None if it has another one."""
        weights = _weights(program)
        if weights is None:
            return None
        columns = sp.csc_array(weights)
        if np.any(np.diff(columns.indptr) != 1):
            return None
        sphere, a = columns.indices.astype(np.int64), columns.data
        b = program.rhs[sphere]
        alone = np.unique(sphere).size == program.n_rows  # no row without a coordinate
        if not alone or np.any(a * b <= 0) or _spans_blocks(program, sphere):
            return None
        radius = np.sqrt(b / a)
        stretch = sp.diags_array(radius)
        parts = zip(program.blocks, program.split(program.cost_q), strict=True)
        cost = sp.block_diag([_cost(block, g) for block, g in parts], format="csr")
        cost = sp.csr_array(program.sign * (stretch @ cost @ stretch))
        scale = float(abs(cost).sum(axis=1).mean()) or 1.0
        return cls(program, sphere, radius, sp.csr_array(cost / scale), scale)

    @property
    def size(self) -> int:
        """N, the number of rows of Y."""
        return int(self.sphere.size)

    @cached_property
    def spans(self) -> list[slice]:
        """The rows of Y that belong to each block."""
        ends = np.cumsum([0] + [block.size for block in self.program.blocks]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    @cached_property
    def diagonal(self) -> Array:
        """(N,) of the cost."""
        return np.asarray(self.cost.diagonal())

    def summed(self, values: Array) -> Array:
        """(N,) per coordinate the sum over its sphere."""
        sums = np.bincount(self.sphere, values, self.program.n_rows)
        return np.asarray(sums[self.sphere], dtype=float)

    def onto_spheres(self, y: Array) -> Array:
        """Y with every part scaled to norm one; a part that vanishes points anywhere."""
        norms = np.sqrt(self.summed(np.einsum("ij,ij->i", y, y)))
        if not norms.all():
            y = y + np.where(norms > 0, 0.0, 1.0)[:, None] * np.eye(1, y.shape[1])
            norms = np.sqrt(self.summed(np.einsum("ij,ij->i", y, y)))
        return np.asarray(y / norms[:, None])

    @cached_property
    def rank_enough(self) -> int:
        """Beyond this rank local maxima of a generic program are global (Barvinok, Pataki): the
        least r with r(r + 1)/2 above the number of equations."""
        return min(self.size, int((np.sqrt(8.0 * self.program.n_rows + 1) - 1) / 2) + 1)

    def lowest(self, w: Array, k: int) -> list[tuple[Array, Array]]:
        """Per block the k smallest eigenvalues of diag(w) − C, w per coordinate, and vectors."""
        return [
            stoppable(span.stop - span.start, partial(self._lowest, w[span], span, k))
            for span in self.spans
        ]

    def _lowest(self, w: Array, span: slice, k: int) -> tuple[Array, Array]:
        n = span.stop - span.start
        slack = sp.csc_array(sp.diags_array(w) - self.cost[span, span])
        if n >= _SPARSE_SIZE and slack.nnz <= _SPARSE_SHARE * n**2:
            from sdpkit.numerics.sparse_spectrum import SparseSpectrum

            return SparseSpectrum(slack, self._orders[span.start]).lowest(k)
        values, vectors = scipy.linalg.eigh(slack.toarray(), subset_by_index=[0, min(k, n) - 1])
        return values, vectors

    @cached_property
    def _orders(self) -> dict[int, Indices]:
        """Orders of low fill, by the first row of each block."""
        from sdpkit.numerics.sparse_spectrum import elimination_order

        return {span.start: elimination_order(self.cost[span, span]) for span in self.spans}

    def multipliers(self, w: Array) -> Array:
        """(m,) the program's multipliers, in its own signs, of w per coordinate."""
        per_row = np.zeros(self.program.n_rows)
        per_row[self.sphere] = w
        return np.asarray(self.program.sign * self.scale * per_row / self.program.rhs)


def _weights(program: Program) -> sp.csr_array | None:
    """(m, N) the coefficients of the squared norms of Y's rows; None where a program measures
    something else."""
    plain = program.is_linear and program.family is None and not program.n_auxiliary
    if not plain or not program.n_rows or program.relations.any() or not program.rhs.all():
        return None
    parts = []
    for block, span in zip(program.blocks, program.spans, strict=True):
        special = block.features is not None or block.max_rank is not None or block.null.size
        if special or block.cost.factor.size:
            return None
        rows, v = sp.csr_array(program.rows_q[:, span]), block.incidence
        if np.any(np.diff(v.indptr)[rows.indices] != 1):
            return None
        # Vectors of more entries that only a cost measures add nothing to the rows.
        parts.append(sp.csr_array(rows @ v.multiply(v).tocsr()))
    weights = sp.csr_array(sp.hstack(parts))
    weights.eliminate_zeros()
    return weights


def _spans_blocks(program: Program, sphere: Indices) -> bool:
    """Whether an equation holds coordinates of several blocks."""
    of_block = np.repeat(np.arange(len(program.blocks)), [b.size for b in program.blocks])
    pairs = np.unique(np.stack([sphere, of_block]), axis=1)
    return int(pairs.shape[1]) > program.n_rows


def _cost(block: Block, g: Array) -> sp.csr_array:
    out = block.cost.sparse + block.cost.identity * sp.eye_array(block.size, format="csr")
    return sp.csr_array(out + block.adjoint(g) if g.any() else out)


class SpherePoint:
    """−<C, YYᵀ> at one Y on the spheres, and its derivatives along them."""

    def __init__(self, model: SphereModel, y: Array) -> None:
        self.model, self.y = model, y
        self.image = np.asarray(model.cost @ y)

    @cached_property
    def value(self) -> float:
        """−<C, YYᵀ>."""
        return -float(np.vdot(self.y, self.image))

    @cached_property
    def w(self) -> Array:
        """(N,) per coordinate the multiplier of its sphere."""
        return self.model.summed(np.einsum("ij,ij->i", self.y, self.image))

    @cached_property
    def gradient(self) -> Array:
        """2SY, flat; tangent to the spheres by the choice of w."""
        return np.asarray(2.0 * (self.w[:, None] * self.y - self.image).ravel())

    def hessian(self, flat: Array) -> Array:
        """2SZ, projected onto the tangent space."""
        z = flat.reshape(self.y.shape)
        return self._tangent(np.asarray(2.0 * (self.w[:, None] * z - self.model.cost @ z))).ravel()

    def after(self, step: Array) -> SpherePoint:
        """The point after a tangent step, back on the spheres."""
        y = self.model.onto_spheres(self.y + step.reshape(self.y.shape))
        return SpherePoint(self.model, y)

    def inverse(self, flat: Array) -> Array:
        """The inverse of the diagonal of 2S, projected."""
        scaled = flat.reshape(self.y.shape) / self._stiffness[:, None]
        return np.asarray(self._tangent(scaled).ravel())

    @cached_property
    def _stiffness(self) -> Array:
        least = 1e-3 * float(np.abs(self.w).mean()) + 1e-9
        return np.asarray(2.0 * np.maximum(self.w - self.model.diagonal, least))

    def _tangent(self, z: Array) -> Array:
        return np.asarray(z - self.model.summed(np.einsum("ij,ij->i", self.y, z))[:, None] * self.y)


__all__ = ["SphereModel", "SpherePoint"]
