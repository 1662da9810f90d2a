"""A program as two convex sets that are easy to project on: its rows and its cone.

    minimise  cᵀz + φ(x)   over   z ∈ R = {z : Az = b}  and  z ∈ K,     z = (Z₁, Z₂, …, x)

Z are the unknown matrices on their faces, x the auxiliary variables with one slack per inequality,
K the product of semidefinite cones, half lines, lines and second-order cones, φ the quadratic and
norm penalties. The projection on R solves one system with  AAᵀ = A_q [(VVᵀ)∘(VVᵀ)] A_qᵀ + A_x A_xᵀ,
factored once; the one on K takes one eigendecomposition per block, of which only the eigenvectors
of the rarer sign are needed.

**The metric.** What is near depends on the scalar product, and so does the speed of every method
that projects. A Gram matrix of a long thin manifold has eigenvalues from n³ down to those of an
edge; in the plain metric a splitting spends thousands of steps on the large ones alone. With

    G = Vᵀ diag(θ) V,   θ_p = Σ_e |a_ep| / |b_e|,      M = F Z Fᵀ,   FᵀGF = I

(for graphs a Laplacian whose weights are the inverse squared lengths) every constraint weighs the
same on Z, and Aᵀ(θ) = I: the multipliers θ repair the smallest eigenvalue of any dual slack at a
cost that is fair in these coordinates. AAᵀ is dense then, m² numbers; the plain metric, where it is
as sparse as the graph, is left for programs with more constraints than `DENSE_ROWS`, and for those
that measure most entries of their matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.second_order import VariableCone
from sdpkit.solvers.in_time import stoppable
from sdpkit.typing import Array

Factors = tuple[Array, ...]

DENSE_ROWS = 6000  # up to this many rows AAᵀ may be dense
RAY_TOL = 1e-7  # the certificate must accept a ray at this tolerance
_PARTIAL = 150  # from this size on, few eigenvectors cost less than all
_FEW, _FEW_ROUGH = 0.17, 0.25  # the share of eigenvalues that counts as few, in either precision
_STRIPS = 4  # of a symmetric product
_REGULAR = 1e-13  # added to AAᵀ, in units of its rows: inconsistent rows may be dependent


@dataclass(frozen=True, eq=False)
class Matrices:
    """One block in the coordinates of a metric: M = F Z Fᵀ.

    Attributes
    ----------
    size: r, the size of Z;  span: its measurements among all;  part: its entries in z
    factor: (r, r) F, or None for the identity
    incidence: (p, N) B;  nodes: (N, r) the nodes' features in these coordinates, or None if N = r
    vectors: (p, r) V = B·nodes, dense where nodes are
    """

    size: int
    span: slice
    part: slice
    factor: Array | None
    incidence: sp.csr_array
    nodes: Array | None
    vectors: Any

    def lengths(self, root: Array) -> Array:
        """The measurements of YYᵀ for a factor Y = `root`, (r, k)."""
        image = root if self.nodes is None else self.nodes @ root
        image = np.asarray(self.incidence @ image)
        return np.asarray(np.einsum("pk,pk->p", image, image))

    def measure(self, matrix: Array) -> Array:
        """The measurements of any symmetric Z."""
        if self.nodes is not None and self.nodes.shape[0] < self.vectors.shape[0]:
            image = np.asarray(self.incidence @ (self.nodes @ matrix))
        else:
            image = np.asarray(self.vectors @ matrix)
        if isinstance(self.vectors, np.ndarray):
            return np.asarray(np.einsum("pk,pk->p", image, self.vectors))
        return np.asarray(self.vectors.multiply(image).sum(axis=1)).ravel()

    def adjoint(self, u: Array) -> Array:
        """Vᵀ diag(u) V, dense."""
        if self.nodes is not None and self.nodes.shape[0] >= u.size:
            return np.asarray(self.vectors.T @ (u[:, None] * self.vectors))
        if self.nodes is None:
            return np.asarray((self.incidence.T @ sp.diags_array(u) @ self.incidence).toarray())
        return _symmetric_product(self.nodes, self.incidence.T @ (u[:, None] * self.vectors))

    def to_frame(self, scaling: Array) -> Array:
        """F D, the factor of coordinates scaled by D."""
        return scaling if self.factor is None else np.asarray(self.factor @ scaling)

    def to_program(self, matrix: Array) -> Array:
        """F Z Fᵀ."""
        return matrix if self.factor is None else self.factor @ matrix @ self.factor.T

    def from_program(self, matrix: Array) -> Array:
        """F⁻¹ M F⁻ᵀ."""
        if self.factor is None:
            return matrix
        half = np.linalg.solve(self.factor, matrix)
        return np.asarray(np.linalg.solve(self.factor, half.T))


@dataclass(frozen=True, eq=False)
class ConePoint:
    """A point of the cone near a given one.

    Attributes
    ----------
    z: the point;  values: (m,) Az
    ranks: per block how many eigenvalues are positive
    """

    z: Array
    values: Array
    ranks: tuple[int, ...]


class TwoSets:
    """Rows and cone of a program that is restricted to its face (`sdpkit.solution.reduction`).

    Units: rows have norm one in the metric, ‖b‖ = ‖c‖ = 1 (penalties count as costs), so that
    points and multipliers are of one magnitude.

    Attributes
    ----------
    c: the cost;  b: (m,) right-hand sides;  cone: of x and the slacks
    blocks: the matrices;  tail: where x lies in z
    free, curvature: (n_x,) which x_j may be negative, and the h_j;  groups: (ρ, indices) of norms
    """

    def __init__(self, program: Program, factors: Factors | None = None) -> None:
        """`factors`: F per block, None for the plain metric."""
        self.program = program
        self._set_columns(program)
        sizes = [block.size for block in program.blocks]
        ends = np.cumsum([0, *(n * n for n in sizes)]).tolist()
        parts = [slice(a, b) for a, b in pairwise(ends)]
        self.tail = slice(ends[-1], ends[-1] + self.columns.shape[1])
        given = factors or (None,) * len(parts)
        pairs = zip(program.blocks, program.spans, parts, given, strict=True)
        self.blocks = [_in_metric(*pair) for pair in pairs]
        gram = self._matrix_gram()
        self._scale_rows(np.sqrt(np.asarray(gram.diagonal()).clip(min=0.0)))
        inverse = sp.diags_array(1 / self.row_norms)
        continue_or_raise()
        gram = inverse @ gram @ inverse + self.columns @ self.columns.T
        continue_or_raise()
        self._factorise(gram)
        self._scale_values()

    # -- building ----------------------------------------------------------------------------

    def _set_columns(self, program: Program) -> None:
        slack = program.slack_columns
        zeros = np.zeros(slack.shape[1])
        self.columns = sp.csr_array(sp.hstack([program.rows_x, slack], format="csr"))
        self.free = np.r_[program.free_x, zeros.astype(bool)]
        self.cone = VariableCone.of(self.free, program.cones)
        self.curvature = np.r_[program.quadratic_x, zeros]
        self._cost_x = -program.sign * np.r_[program.cost_x, zeros]
        self.groups = [(p.weight, np.array(p.group)) for p in program.norms]

    def _matrix_gram(self) -> Any:
        """<A_e, A_f> for all pairs of rows: A_q [(VVᵀ)∘(VVᵀ)] A_qᵀ, summed over blocks."""
        total: Any = sp.csr_array((self.program.n_rows, self.program.n_rows))
        for block, mine in zip(self.program.blocks, self.blocks, strict=True):
            rows = self.program.rows_q[:, mine.span]
            v = mine.vectors
            if mine.factor is None and _is_plain_graph(block):
                # On 1⊥ differences of nodes keep their products, whatever the basis.
                v = block.incidence
            continue_or_raise()
            inner = v @ v.T
            squares = inner * inner if isinstance(inner, np.ndarray) else inner.multiply(inner)
            continue_or_raise()
            total = total + rows @ squares @ rows.T
        return total

    def _scale_rows(self, norms: Array) -> None:
        """Rows to unit norm in their matrices; columns of x to unit norm after that."""
        squares = self.columns.multiply(self.columns)
        own = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        norms = np.where(norms > 1e-12 * norms.max(initial=0.0), norms, own)
        self.row_norms = np.where(norms > 0, norms, 1.0)
        columns = sp.diags_array(1 / self.row_norms) @ self.columns
        lengths = np.sqrt(np.asarray(columns.multiply(columns).sum(axis=0)).ravel())
        for _, group in self.groups:
            lengths[group] = lengths[group].max()
        if self.cone.starts.size:  # one unit for each second-order cone
            largest = np.maximum.reduceat(lengths[self.cone.members], self.cone.starts)
            lengths[self.cone.members] = largest[self.cone.owners]
        self.column_scale = 1 / np.where(lengths > 0, lengths, 1.0)
        self.columns = sp.csr_array(columns @ sp.diags_array(self.column_scale))

    def _factorise(self, gram: Any) -> None:
        m = self.program.n_rows
        if m <= DENSE_ROWS and (isinstance(gram, np.ndarray) or m <= 200):
            full = dense(gram)
            full[np.diag_indices(m)] += _REGULAR * max(1.0, float(full.diagonal().max(initial=0)))
            factor = scipy.linalg.cho_factor(full, lower=True, check_finite=False)
            self._solve: Any = lambda r: scipy.linalg.cho_solve(factor, r, check_finite=False)
        else:
            shifted = sp.csc_array(gram) + _REGULAR * sp.eye_array(m, format="csc")
            options = {"SymmetricMode": True}
            lu = scipy.sparse.linalg.splu(
                sp.csc_matrix(shifted), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                options=options,
            )  # fmt: skip
            self._solve = lu.solve

    def _scale_values(self) -> None:
        program = self.program
        c = np.zeros(self.tail.stop)
        costs = program.split(program.cost_q)
        for block, mine, g in zip(program.blocks, self.blocks, costs, strict=True):
            cost = block.cost.dense() if mine.factor is None else _congruent(block, mine.factor)
            cost = cost + mine.adjoint(g) if g.any() else cost
            c[mine.part] = -program.sign * cost.ravel()
        c[self.tail] = self.column_scale * self._cost_x
        b = program.rhs / self.row_norms
        self.rhs_scale = float(np.linalg.norm(b)) or 1.0
        # Slopes of penalties at the right-hand sides count as costs.
        curved = (self.column_scale**2 * self.curvature)[self.curvature > 0]
        slopes = [rho * float(self.column_scale[g[0]]) for rho, g in self.groups]
        slopes.append(self.rhs_scale * float(np.mean(curved)) if curved.size else 0.0)
        self.cost_scale = max(float(np.linalg.norm(c)), *slopes, 0.0) or 1.0
        self.b, self.c = b / self.rhs_scale, c / self.cost_scale
        units = self.rhs_scale / self.cost_scale
        self.curvature = units * self.column_scale**2 * self.curvature
        self.groups = [
            (rho * float(self.column_scale[g[0]]) / self.cost_scale, g) for rho, g in self.groups
        ]

    # -- the linear map ----------------------------------------------------------------------

    def matrix(self, z: Array, block: Matrices) -> Array:
        """The block's (r, r) view of z."""
        return z[block.part].reshape(block.size, block.size)

    def values(self, z: Array) -> Array:
        """Az."""
        q = np.concatenate([block.measure(self.matrix(z, block)) for block in self.blocks])
        return self._row_values(q, z[self.tail])

    def _row_values(self, q: Array, x: Array) -> Array:
        return np.asarray(self.program.rows_q @ q / self.row_norms + self.columns @ x)

    def adjoint(self, y: Array) -> Array:
        """Aᵀy."""
        u = np.asarray(self.program.rows_q.T @ (y / self.row_norms))
        out = np.empty(self.tail.stop)
        for block in self.blocks:
            out[block.part] = block.adjoint(u[block.span]).ravel()
        out[self.tail] = self.columns.T @ y
        return out

    def solve(self, r: Array) -> Array:
        """(AAᵀ)⁻¹ r."""
        return np.asarray(self._solve(r))

    # -- the projections ---------------------------------------------------------------------

    def onto_rows(self, z: Array) -> Array:
        """The nearest point with Az = b."""
        return z + self.adjoint(self.solve(self.b - self.values(z)))

    def onto_cone(
        self, z: Array, penalty: float = 0.0, ranks: tuple[int, ...] = (), rough: bool = False
    ) -> ConePoint:
        """argmin ½‖· − z‖² + penalty·φ over K; with no penalty the projection.

        `ranks` of a point nearby tell which eigenvectors will be few. A `rough` one knows its
        eigenvectors to single precision; its values are those of the point that is returned.
        """
        out, q, found = np.empty_like(z), [], []
        for k, block in enumerate(self.blocks):
            matrix = self.matrix(z, block)
            expected = ranks[k] if ranks else None
            root, positive = stoppable(block.size, partial(rarer_root, matrix, expected, rough))
            gram = root @ root.T
            lengths = block.lengths(root)
            if not positive:
                gram += matrix
                lengths += block.measure(matrix)
            out[block.part] = gram.ravel()
            q.append(lengths)
            found.append(root.shape[1] if positive else block.size - root.shape[1])
        out[self.tail] = self._prox(z[self.tail], penalty)
        return ConePoint(out, self._row_values(np.concatenate(q), out[self.tail]), tuple(found))

    def _prox(self, x: Array, penalty: float) -> Array:
        out = x / (1 + penalty * self.curvature)
        for rho, group in self.groups:
            length = float(np.linalg.norm(out[group]))
            out[group] *= max(0.0, 1 - penalty * rho / length) if length else 0.0
        return self.cone.projected(out)

    @cached_property
    def is_boxed(self) -> bool:
        """Whether the conditions on x's dual slacks are intervals for single multipliers."""
        single = np.diff(sp.csc_array(self.columns).indptr) <= 1
        return bool(single.all() and not self.free.any() and not self.curvature.any())

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """(lo, hi) of each y that signs and single slacks leave."""
        lo, hi = self.program.multiplier_box
        return self.from_multipliers(hi), self.from_multipliers(lo)

    def smallest(self, slack: Array, matrices_only: bool = False) -> float:
        """The smallest eigenvalue of the matrices, entry of the half lines (not of lines) and
        distance from the boundary in second-order cones."""
        low = [
            stoppable(b.size, partial(_smallest_eigenvalue, self.matrix(slack, b)))
            for b in self.blocks
        ]
        if matrices_only:
            return min(low)
        rays, tail = ~self.free & (self.curvature == 0), slack[self.tail]
        inside = -float(self.cone.lack(tail).max(initial=-np.inf))
        return min(*low, float(tail[rays].min(initial=np.inf)), inside)

    # -- the way back ------------------------------------------------------------------------

    def to_program(self, z: Array) -> tuple[tuple[Array, ...], Array]:
        """(matrices, x) in the coordinates and units of the program, slacks at the end of x."""
        matrices = tuple(
            self.rhs_scale * block.to_program(self.matrix(z, block)) for block in self.blocks
        )
        return matrices, self.rhs_scale * self.column_scale * z[self.tail]

    def from_program(self, matrices: Sequence[Array], x: Array) -> Array:
        """z for (matrices, x); slacks that are not given take what their rows leave."""
        z = np.zeros(self.tail.stop)
        for block, matrix in zip(self.blocks, matrices, strict=True):
            z[block.part] = (block.from_program(matrix) / self.rhs_scale).ravel()
        tail = z[self.tail]
        tail[: x.size] = x / (self.rhs_scale * self.column_scale[: x.size])
        if x.size < tail.size:
            slack = self.columns[:, x.size :]
            off = slack.T @ (self.b - self.values(z))
            tail[x.size :] = np.maximum(off / (slack.multiply(slack)).sum(axis=0), 0.0)
        return z

    def penalty(self, x: Array) -> float:
        """φ(x)."""
        value = 0.5 * float(self.curvature @ x**2)
        return value + sum(rho * float(np.linalg.norm(x[group])) for rho, group in self.groups)

    def dual_value(self, y: Array) -> float:
        """bᵀy − Σ r²/(2h), r = c_x − A_xᵀy (r⁻ only, where x_j ≥ 0)."""
        value = float(self.b @ y)
        curved = self.curvature > 0
        if curved.any():
            r = self.c[self.tail] - self.columns.T @ y
            r = np.where(self.free, r, np.minimum(r, 0.0))[curved]
            value -= 0.5 * float(np.sum(r**2 / self.curvature[curved]))
        return value

    def slack_of(self, y: Array) -> Array:
        """c − Aᵀy."""
        return self.c - self.adjoint(y)

    def multipliers(self, y: Array) -> Array:
        """w of the program, in its own signs, for a y with  c − Aᵀy ⪰ 0."""
        return -self.program.sign * self.cost_scale * y / self.row_norms

    def from_multipliers(self, w: Array) -> Array:
        """y for multipliers of the maximisation."""
        return -w * self.row_norms / self.cost_scale

    def residual(self, values: Array) -> float:
        """The largest violation of a row, rows and right-hand sides in the program's own units."""
        off = np.abs(values - self.b) * self.row_norms * self.rhs_scale
        return float(off.max(initial=0.0))


def _symmetric_product(left: Array, right: Array) -> Array:
    """leftᵀ·right, which is known to be symmetric: strips above the diagonal, then their mirror."""
    n = left.shape[1]
    out = np.empty((n, n))
    ends = np.linspace(0, n, _STRIPS + 1).astype(int).tolist()
    for a, b in pairwise(ends):
        out[a:b, a:] = left[:, a:b].T @ right[:, a:]
        out[b:, a:b] = out[a:b, b:].T
    return out


def rarer_root(
    matrix: Array, expected: int | None = None, rough: bool = False
) -> tuple[Array, bool]:
    """(Y, True) with YYᵀ the positive part, or (Y, False) with YYᵀ the negative one.

    Whichever has fewer eigenvectors; `expected` is a guess of the number of positive ones. If
    `rough`, large matrices are decomposed in single precision, which takes a little more than half
    of the time.
    """
    n = len(matrix)
    if n < _PARTIAL:
        return _rarer_of_all(matrix)
    given: Any = matrix.astype(np.float32) if rough else matrix
    few = (_FEW_ROUGH if rough else _FEW) * n
    if expected is None or min(expected, n - expected) > few:
        root, positive = _rarer_of_all(given)
    else:
        positive = expected <= n - expected
        root = _few_of_one_sign(given, positive)
    return root.astype(np.float64, copy=False), positive


def _smallest_eigenvalue(matrix: Array) -> float:
    return float(scipy.linalg.eigvalsh(matrix, subset_by_index=[0, 0])[0])


def _few_of_one_sign(matrix: Any, positive: bool) -> Any:
    wanted = (0.0, np.inf) if positive else (-np.inf, 0.0)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_value=wanted, check_finite=False)
    return vectors * np.sqrt(np.abs(values))


def _rarer_of_all(matrix: Any) -> tuple[Any, bool]:
    values, vectors = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    above = values > 0
    positive = 2 * int(above.sum()) <= len(matrix)
    chosen = above if positive else ~above
    return vectors[:, chosen] * np.sqrt(np.abs(values[chosen])), positive


def metric(program: Program) -> Factors:
    """F per block with FᵀGF = I, G = Vᵀdiag(θ)V.

    Directions that no row sees get the weight of those that are seen least.
    """
    factors = []
    for block, theta in zip(program.blocks, program.split(_importance(program)), strict=True):
        weighted = dense(block.adjoint(theta))
        values, vectors = stoppable(block.size, partial(scipy.linalg.eigh, weighted))
        seen = values > 1e-10 * max(values[-1], 0.0)
        least = float(values[seen].min(initial=np.inf))
        weights = np.where(seen, values, least if np.isfinite(least) else 1.0)
        factors.append(np.asarray(vectors / np.sqrt(weights)))
    return tuple(factors)


def _importance(program: Program) -> Array:
    """(p,) θ: what a unit of each measurement weighs against the right-hand sides."""
    b = np.abs(program.rhs)
    seen = b[b > 0]
    usual = float(np.median(seen)) if seen.size else 1.0
    weight = 1 / np.where(b > 1e-6 * usual, b, usual)
    return np.asarray(abs(program.rows_q).T @ weight) + np.abs(program.cost_q)


def _in_metric(block: Block, span: slice, part: slice, factor: Array | None) -> Matrices:
    b, x = block.incidence, block.features
    if factor is None:
        return Matrices(block.size, span, part, None, b, x, b if x is None else b @ x)
    nodes = factor if x is None else x @ factor
    return Matrices(block.size, span, part, factor, b, nodes, np.asarray(b @ nodes))


def _is_plain_graph(block: Block) -> bool:
    """Whether the features are an orthonormal basis of 1⊥ and measurements differences."""
    x, b = block.features, block.incidence
    if x is None or x.shape != (b.shape[1], b.shape[1] - 1) or b.sum(axis=1).any():
        return False
    orthonormal = np.abs(x.T @ x - np.eye(x.shape[1])).max(initial=0.0) < 1e-12
    return bool(orthonormal and np.abs(x.sum(axis=0)).max(initial=0.0) < 1e-12)


def _congruent(block: Block, factor: Array) -> Array:
    if block.cost.is_identity:
        return block.cost.identity * (factor.T @ factor)
    out = factor.T @ block.cost.dense() @ factor
    return np.asarray(out + out.T) / 2
