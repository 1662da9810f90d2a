"""Variational MVU: large sets by a small program (Weinberger 2007, section 3.1.8).

The outputs are expanded in m smooth functions on the graph, the columns of Q (n × m, orthonormal,
orthogonal to the constant), so that K = Q Z Qᵀ with Z of size m only. With v_e = Q_i − Q_j,
A(Z)_e = v_eᵀ Z v_e and squared lengths d_e divided by their mean:

    squared   maximise (1−ω) tr Z − ω ‖A(Z) − d‖²    s.t.  Z ⪰ 0
              dual: minimise dᵀw + ‖w‖²/(4ω)   s.t.  Σ w_e v_e v_eᵀ ⪰ (1−ω) I
    norm      maximise (1−ω) tr Z − ω ‖A(Z) − d‖     s.t.  Z ⪰ 0
              dual: minimise dᵀw   s.t.  Σ w_e v_e v_eᵀ ⪰ (1−ω) I,  ‖w‖ ≤ ω

(the thesis writes its penalty once as ξ² and once as ξ). The first is always bounded. The second
is bounded iff ω λ_min(Σ u_e v_e v_eᵀ) ≥ 1 − ω for some ‖u‖ = 1; with κ the smallest eigenvalue of
Σ v_e v_eᵀ, ω κ/√|E| ≥ 1 − ω suffices.

Whatever |E| is, the residuals ξ = A(Z) − d are linear in the m(m+1)/2 entries of Z: one QR
factorisation of [A, d] leaves m(m+1)/2 + 1 of them, with the same norm for every Z. The program
then reads  R A(Z) = R d + ξ.

Q is the bottom of the spectrum of the graph Laplacian, which needs distances only, or of LLE's
matrix (I−W)ᵀ(I−W), which needs points and serves long, thin manifolds better. Afterwards `refine`
searches locally: first in ℝᵐ, where there is room to unfold, then in ℝʳ
(`sdpkit.results.refinement`).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.errors import GraphError, InputError, UnboundedProblemError
from sdpkit.graphs.build import neighborhood_graph
from sdpkit.graphs.distances import DEFAULT_NEIGHBORS, SquaredDistances
from sdpkit.graphs.graph import NeighborhoodGraph, require_connected
from sdpkit.graphs.lle import lle_basis
from sdpkit.inputs import boolean, finite_matrix, integer, one_of
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.whole_graph import WholeGraphBounds, whole_graph_bounds
from sdpkit.program.compilation import maximise
from sdpkit.program.expressions import Expression, Unknown, Variable, named
from sdpkit.program.form import Program
from sdpkit.program.safe import SafeBounds
from sdpkit.results.embedding import Embedding, principal_axes, suggested_dimension, visible_axes
from sdpkit.results.refinement import refine
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array

Penalty = Literal["squared", "norm"]

# (1−ω)/ω as a share of κ: how soft the lengths are. At κ itself the squared form stretches an
# edge by half of the mean length; much smaller values no longer pull the points apart.
_SOFTNESS = 0.1
# Residuals of this share of ‖d‖ are as good as none: the optimum may be zero (exact lengths).
_NEGLIGIBLE = 1e-2
# Rows of a QR factorisation at a time; of one that adds rows to a triangle, and columns of a panel.
_SLAB = 4096
_ADDED_ROWS, _PANEL = 1024, 64
# Residuals, and entries of Z, from which on rows are added to a triangle.
_MANY_RESIDUALS, _MANY_ENTRIES = 8192, 500


@dataclass(frozen=True, eq=False, repr=False)
class VariationalMVU:
    """Maximum variance unfolding in a basis of m smooth functions.

    Parameters
    ----------
    X : array-like of shape (n, D) or None, default None
        Points; or give one of distances, kernel and graph.
    distances : array-like of shape (n, n) or None, default None
        Lengths between all points (not squared).
    kernel : array-like of shape (n, n) or None, default None
        A Gram matrix A, with d = A_ii + A_jj − 2A_ij.
    graph : array or sparse matrix of shape (n, n), NeighborhoodGraph or None, default None
        An adjacency matrix. With X, distances or kernel its nonzeros are the edges; alone, its
        entries are the edges' lengths.
    edges : array-like of shape (m, 2) or None, default None
        The pairs of points whose lengths are kept.
    n_neighbors : int or None, default None
        Join points if either is among the k nearest of the other; 4 if nothing else says which
        pairs are edges.
    radius : float or None, default None
        Join all points that are at most so far apart.
    connect : {"error", "auto", "bridge"}, default "error"
        What to do with a disconnected graph: refuse it, or join neighbouring components by several
        short edges ("auto") or by one ("bridge").
    n_basis : int, default 10
        m; where `basis` is a matrix, its columns count.
    basis : {"laplacian", "lle"} or array-like of shape (n, m), default "laplacian"
        The functions: bottom eigenvectors of the graph Laplacian or of the LLE matrix (needs X), or
        Q itself, which is centred and orthonormalised.
    penalty : {"squared", "norm"}, default "squared"
        "squared" or "norm" of the residuals.
    omega : float or None, default None
        ω; None takes (1−ω)/ω = κ/10 (squared) or κ/(4√|E|) (norm).
    compress : bool, default True
        Replace |E| residuals by m(m+1)/2 + 1 with the same norm.
    random_state : int, default 0
        The seed of bridging.

    Attributes
    ----------
    neighborhood : NeighborhoodGraph
        The graph.
    Q : array of shape (n, m)
        The basis, orthonormal and orthogonal to the constant.
    omega_used : float
        ω, given or chosen.

    Examples
    --------
    >>> import sdpkit
    >>> X = sdpkit.datasets.swiss_roll(500, noise_dims=0)
    >>> problem = VariationalMVU(X, n_neighbors=6)
    >>> print(problem.program())
    variational MVU, squared: n = 500, 1793 edges, m = 10
      maximise    0.00083... tr Z − 0.99917 ‖ξ‖²
      subject to  R A(Z) = R d + ξ  (56 constraints)
                  Z ∈ S¹⁰, Z ⪰ 0
                  ξ free  (56)
    >>> solution = sdpkit.solve(problem)
    >>> embedding = problem.refine(solution, n_components=2)
    >>> sdpkit.quality.local_continuity(X, embedding.coordinates) > 0.95
    True
    """

    X: Any = None
    _: KW_ONLY
    distances: Any = None
    kernel: Any = None
    graph: Any = None
    edges: ArrayLike | None = None
    n_neighbors: int | None = None
    radius: float | None = None
    connect: Literal["error", "auto", "bridge"] = "error"
    n_basis: int = 10
    basis: Any = "laplacian"
    penalty: Penalty = "squared"
    omega: float | None = None
    compress: bool = True
    random_state: int = 0
    neighborhood: NeighborhoodGraph = field(init=False)

    @one_blas_thread
    def __post_init__(self) -> None:
        boolean(self.compress, "compress")
        one_of(self.penalty, "penalty", ("squared", "norm"))
        one_of(self.connect, "connect", ("error", "auto", "bridge"))
        graph = neighborhood_graph(
            self.X,
            distances=self.distances,
            kernel=self.kernel,
            graph=self.graph,
            edges=self.edges,
            n_neighbors=self.n_neighbors,
            radius=self.radius,
            connect=None if self.connect == "error" else self.connect,
            random_state=self.random_state,
        )
        require_connected(graph)
        if not graph.squared_lengths.any():
            raise GraphError("all edges have length zero, so there is nothing to unfold")
        object.__setattr__(self, "neighborhood", graph)
        self._check_basis()
        self._check_omega()

    def _check_basis(self) -> None:
        n = self.neighborhood.n_points
        if isinstance(self.basis, str):
            if self.basis not in ("laplacian", "lle"):
                raise InputError(
                    f"basis is {self.basis!r}; use 'laplacian', 'lle' or an (n, m) array"
                )
            if self.basis == "lle" and self.X is None:
                raise InputError(
                    "basis='lle' rebuilds points from their neighbours: pass X, "
                    "or use basis='laplacian', which needs distances only"
                )
            integer(self.n_basis, "n_basis", most=n - 1)
            return
        Q = np.array(self.basis, dtype=np.float64)
        if Q.ndim != 2 or len(Q) != n or not np.isfinite(Q).all():
            raise InputError(f"basis has shape {Q.shape}: pass finite numbers, ({n}, m)")
        if np.linalg.matrix_rank(Q - Q.mean(axis=0)) < Q.shape[1]:
            raise InputError("the columns of basis depend on each other or on the constant")

    @cached_property
    def Q(self) -> Array:
        """(n, m) the basis, orthonormal and orthogonal to the constant."""
        Q = self._basis()
        Q.setflags(write=False)
        return Q

    @one_blas_thread
    def _basis(self) -> Array:
        if isinstance(self.basis, str):
            if self.basis == "laplacian":
                return self.neighborhood.smooth_basis(self.n_basis)
            k = DEFAULT_NEIGHBORS if self.n_neighbors is None else self.n_neighbors
            return lle_basis(self.X, self.n_basis, n_neighbors=k)
        Q = np.array(self.basis, dtype=np.float64)
        return np.asarray(np.linalg.qr(Q - Q.mean(axis=0))[0])

    # -- the weight of the lengths -------------------------------------------------------------

    @cached_property
    def unit(self) -> float:
        """The mean squared length, by which d is divided: Z is in units of it."""
        return float(self.neighborhood.squared_lengths.mean())

    @property
    def basis_size(self) -> int:
        """m, the number of columns of Q."""
        return int(self.n_basis if isinstance(self.basis, str) else np.shape(self.basis)[1])

    @cached_property
    def vectors(self) -> Array:
        """(|E|, m) rows v_e = Q_i − Q_j."""
        return np.asarray(self.neighborhood.incidence() @ self.Q)

    @cached_property
    def stiffness(self) -> float:
        """κ, the smallest eigenvalue of Σ v_e v_eᵀ (for the Laplacian's basis, λ₂)."""
        V = self.vectors
        return float(np.linalg.eigvalsh(V.T @ V)[0])

    @cached_property
    def omega_used(self) -> float:
        """ω, given or chosen."""
        return self._default_omega() if self.omega is None else float(self.omega)

    def _default_omega(self) -> float:
        kappa, roots = self.stiffness, np.sqrt(self.neighborhood.n_edges)
        softness = _SOFTNESS * kappa if self.penalty == "squared" else 0.25 * kappa / roots
        return float(1 / (1 + softness))

    def _check_omega(self) -> None:
        if self.omega is None:
            return
        number = isinstance(self.omega, int | float | np.number) and not isinstance(
            self.omega, bool
        )
        if not number or not 0 < self.omega <= 1:
            raise InputError(f"omega is {self.omega!r}; it must lie in (0, 1]")
        if self.penalty == "norm":
            self._require_bounded(float(self.omega))

    def _require_bounded(self, omega: float) -> None:
        """Refuse ω for which zzᵀ, z the softest direction, is a ray."""
        V = self.vectors
        softest = np.linalg.eigh(V.T @ V)[1][:, 0]
        resistance = float(np.linalg.norm((V @ softest) ** 2))
        if omega * resistance < 1 - omega:
            raise UnboundedProblemError(
                f"omega is {omega:g}, and the norm form is unbounded below "
                f"{1 / (1 + resistance):.6g}: raise omega, or omit it for "
                f"{self._default_omega():.6g}"
            )

    def __repr__(self) -> str:
        graph, omega = self.neighborhood, self.omega_used
        return (
            f"<VariationalMVU, {self.penalty}, omega {omega:.6g}: {graph.n_points} points, "
            f"{graph.n_edges} edges, {self.basis_size} basis vectors>"
        )

    # -- the two formulations ----------------------------------------------------------------

    @one_blas_thread
    def program(self) -> Program:
        """The problem in squared lengths, one unknown Z of size m."""
        graph, ω = self.neighborhood, self.omega_used
        residuals = Residuals.of(self.vectors, self._squared, self.compress)
        Z = Unknown("Z", self.basis_size)
        ξ = Variable(residuals.size, "ξ", free=True)
        return maximise(
            (1 - ω) * Z.trace() - ω * penalised(ξ, self.penalty),
            residuals.lengths(Z) == residuals.squared_lengths + ξ,
            safe=residuals.safe_bounds(ω, self.penalty),
            name=f"variational MVU, {self.penalty}: n = {graph.n_points}, "
            f"{graph.n_edges} edges, m = {self.basis_size}",
        )

    @property
    def _squared(self) -> Array:
        """(|E|,) d, in units of its mean."""
        return np.asarray(self.neighborhood.squared_lengths / self.unit)

    def to_cvxpy(self) -> Any:
        """The thesis's model over all edges as a `cvxpy.Problem`, in units of the mean squared
        length; no residuals are compressed."""
        import cvxpy as cp

        m, ω, V = self.basis_size, self.omega_used, self.vectors
        Z = cp.Variable((m, m), PSD=True, name="Z")
        residual = cp.sum(cp.multiply(V @ Z, V), axis=1) - self._squared
        xi = cp.sum_squares(residual) if self.penalty == "squared" else cp.norm(residual, 2)
        return cp.Problem(cp.Maximize((1 - ω) * cp.trace(Z) - ω * xi))

    # -- the way back ------------------------------------------------------------------------

    @one_blas_thread
    def recover(self, solution: Solution, n_components: int | None = None) -> Embedding:
        """The embedding of a solution, y_i = Z^½ Q_i in principal axes."""
        embedding = self._embedding(self._factor(solution), n_components)
        return embedding.compared(solution, self.objective(embedding), solution.objective)

    @one_blas_thread
    def objective(self, embedding: Embedding | ArrayLike) -> float:
        """The objective of any embedding, or of coordinates (n, d), in units of the mean squared
        length: (1−ω)·variance − ω·penalty."""
        given = embedding.coordinates if isinstance(embedding, Embedding) else embedding
        y = finite_matrix(given, "coordinates")
        stretch = np.square(self.neighborhood.incidence() @ y).sum(axis=1) / self.unit
        missed = float(np.linalg.norm(stretch - self._squared))
        variance = float(np.square(y - y.mean(axis=0)).sum()) / self.unit
        penalty = missed**2 if self.penalty == "squared" else missed
        return (1 - self.omega_used) * variance - self.omega_used * penalty

    def refine(
        self, solution: Solution, n_components: int | None = None, *, max_iter: int = 300
    ) -> Embedding:
        """The embedding after a local search in ℝᵐ and then in ℝʳ, r = n_components.

        Both maximise (1−ω) Σ‖y_i‖² − ω Σ(‖y_i − y_j‖² − d_e)²; the end is stationary at best.
        """
        omega = self.omega_used
        if self.penalty == "norm":
            # The squared penalty that pulls as hard at the solution: ω‖ξ‖ has slope ω/‖ξ‖·ξ.
            size = float(np.linalg.norm(self.residuals(solution)))
            omega = omega / (omega + (1 - omega) * 2 * max(size, 1e-6))
        B, d = self.neighborhood.incidence(), self._squared
        start, variances = principal_axes(self._factor(solution) / np.sqrt(self.unit))
        least = self._dimension(n_components, variances)
        p = visible_axes(variances, least)
        wide = refine(start[:, :p], B, d, omega=omega, hessian=False, max_iter=max_iter)
        y, variances = principal_axes(wide.coordinates)
        r = least if n_components is not None else suggested_dimension(variances)
        narrow = refine(y[:, :r], B, d, omega=omega, max_iter=max_iter)
        flat, _ = principal_axes(narrow.coordinates)
        found = self._embedding(np.sqrt(self.unit) * y, r, np.sqrt(self.unit) * flat)
        reason = "a local search has moved every point by itself"
        return found.compared(solution, self.objective(found), solution.objective, reason)

    @one_blas_thread
    def gram_matrix(self, solution: Solution) -> Array:
        """(n, n) K = QZQᵀ in input units."""
        factor = self._factor(solution)
        return np.asarray(factor @ factor.T)

    @one_blas_thread
    def whole_graph(self, solution: Solution) -> WholeGraphBounds:
        """Bounds on the optimum of MVU itself, inequality form, which no basis restricts.

        The outputs of the solution and its stretched edges are where the search for both bounds
        begins (`sdpkit.problems.whole_graph`). A larger basis begins nearer to the optimum.

        Examples
        --------
        >>> import sdpkit
        >>> X = sdpkit.datasets.swiss_roll(500, noise_dims=0)
        >>> problem = VariationalMVU(X, n_neighbors=6)
        >>> found = problem.whole_graph(sdpkit.solve(problem))
        >>> found.lower <= found.upper, found.relative_gap < 0.15
        (True, True)
        """
        return whole_graph_bounds(self.neighborhood, self._factor(solution))

    def residuals(self, solution: Solution) -> Array:
        """(|E|,) A(Z) − d in units of the mean squared length."""
        V = self.vectors
        lengths = np.einsum("ea,ab,eb->e", V, self._matrix(solution), V, optimize=True)
        return np.asarray(lengths - self._squared)

    def _matrix(self, solution: Solution) -> Array:
        m = self.basis_size
        shapes = [matrix.shape for matrix in solution.matrices]
        if shapes != [(m, m)]:
            raise InputError(f"the solution has matrices {shapes}; this problem has size {m}")
        if not np.isfinite(solution.matrix).all():
            raise InputError(
                f"the solution holds no matrix (status {solution.status}): {solution.message}"
            )
        return np.asarray(solution.matrix)

    def _factor(self, solution: Solution) -> Array:
        """(n, m) outputs Q Z^½ in ℝᵐ, in input units."""
        values, vectors = np.linalg.eigh(self._matrix(solution))
        return np.asarray(self.Q @ (vectors * np.sqrt(self.unit * values.clip(min=0))))

    def _dimension(self, n_components: int | None, variances: Array) -> int:
        if n_components is None:
            return min(suggested_dimension(variances), self.basis_size)
        r = n_components
        if (
            isinstance(r, bool)
            or not isinstance(r, int | np.integer)
            or not 1 <= r <= self.basis_size
        ):
            raise InputError(
                f"n_components is {r!r}; it must be an integer between 1 and the basis's size, "
                f"{self.basis_size}"
            )
        return int(r)

    def _embedding(
        self, factor: Array, n_components: int | None, shown: Array | None = None
    ) -> Embedding:
        """An embedding with the spectrum of `factor`, (n, m), that shows `shown`, (n, r)."""
        y, variances = principal_axes(factor)
        graph = self.neighborhood
        eigenvalues = np.zeros(graph.n_points)
        eigenvalues[: variances.size] = variances
        coordinates = y[:, : self._dimension(n_components, variances)] if shown is None else shown
        difference = graph.incidence() @ coordinates
        stretch = np.einsum("ep,ep->e", difference, difference) - graph.squared_lengths
        distances = None if sp.issparse(self.distances) else self.distances
        known = [value for value in (self.X, distances, self.kernel) if value is not None]
        return Embedding(
            coordinates,
            eigenvalues,
            graph.edges,
            2 * self.omega_used * stretch / self.unit,
            graph.component_labels,
            SquaredDistances.of(self.X, distances=distances, kernel=self.kernel) if known else None,
        )


# -- residuals in a small matrix ----------------------------------------------------------------


def penalised(residual: Variable, penalty: Penalty) -> Expression:
    """‖ξ‖² or ‖ξ‖."""
    return residual.sum_squares() if penalty == "squared" else residual.norm()


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals A(M) − d of lengths A(M)_e = v_eᵀMv_e, or fewer of the same norm.

    Attributes
    ----------
    vectors: (|E|, m) rows v_e
    measured: (p, m) vectors whose squared lengths q are measured
    rows: the residuals are rows·q − squared; None for q − squared itself
    squared: d, or its part in the compressed residuals
    ones: multipliers that act on M as ones on all edges do
    """

    vectors: Array
    measured: Array
    rows: sp.csr_array | None
    squared: Array
    ones: Array

    @classmethod
    def of(cls, vectors: Array, squared: Array, compress: bool = True) -> Residuals:
        """Residuals of vectors (|E|, m) and squared lengths (|E|,)."""
        n_edges, m = vectors.shape
        if compress and n_edges > m * (m + 1) // 2 + 1:
            return cls(vectors, *_compressed(vectors, squared))
        return cls(vectors, vectors, None, squared, np.ones(n_edges))

    @property
    def size(self) -> int:
        """How many residuals there are."""
        return int(self.squared.size)

    def lengths(self, unknown: Unknown) -> Expression:
        """A(M), or R A(M)."""
        q = unknown.lengths(self.measured)
        if self.rows is None:
            lengths: Expression = named(f"A({unknown.name})", q)
        else:
            lengths = named(f"R A({unknown.name})", self.rows @ q)
        return lengths

    @property
    def squared_lengths(self) -> Expression:
        """d, or R d."""
        lengths: Expression = named("d" if self.rows is None else "R d", self.squared)
        return lengths

    def safe_bounds(self, omega: float, penalty: Penalty, fixed: Fixed | None = None) -> SafeBounds:
        """Multipliers one on all edges push M back: the repair direction, and for the norm, scaled
        into its ball, a feasible dual. The pull 1 − ω is that of tr M."""
        stiff, push = self.vectors.T @ self.vectors, self.ones
        if fixed is not None:
            stiff = stiff + fixed.vectors.T @ (fixed.weights[:, None] * fixed.vectors)
            push = np.concatenate([push, fixed.weights])
        kappa = float(np.linalg.eigvalsh(stiff)[0])
        small = _NEGLIGIBLE * np.sqrt(float(self.squared @ self.squared))
        scale = omega * float(small**2 if penalty == "squared" else small)
        if kappa <= 0:
            return SafeBounds(value_scale=scale)
        if penalty == "squared":
            return SafeBounds(direction=push / kappa, value_scale=scale)
        root = np.sqrt(len(self.vectors))
        # A hair inside the ball, which rounding would leave.
        anchor = (1 - 1e-12) * omega / root * push
        bounded = (1 - 1e-9) * omega * kappa / root >= 1 - omega
        return SafeBounds(anchor=anchor if bounded else None, value_scale=scale)


@dataclass(frozen=True, eq=False)
class Fixed:
    """Lengths f_aᵀ M f_a = values_a, and nonnegative `weights` that add to Σ v_e v_eᵀ what it
    lacks to be positive definite."""

    vectors: Array
    values: Array
    weights: Array


def _with_rows(R: Array, rows: Array) -> Array:
    """The triangular factor of a QR factorisation with further rows, which are overwritten. What
    is below the diagonal of R is not looked at."""
    width = min(_PANEL, len(R))
    return np.asarray(
        scipy.linalg.lapack.dtpqrt(0, width, R, rows, overwrite_a=True, overwrite_b=True)[0]
    )


def _compressed(vectors: Array, squared: Array) -> tuple[Array, sp.csr_array, Array, Array]:
    """(V, rows, d, w): residuals rows·q − d, m(m+1)/2 + 1 of them, of the same norm for every M.

    q holds the lengths of e_a and e_a + e_b, which say all entries of M. w are multipliers of
    the new residuals that act on M as ones on the edges do.
    """
    m = vectors.shape[1]
    a, b = np.triu_indices(m)
    off = a != b
    twice = np.where(off, 2.0, 1.0)
    large = len(vectors) > _MANY_RESIDUALS or a.size > _MANY_ENTRIES
    slab = _ADDED_ROWS if large else _SLAB
    R: Array = np.zeros((a.size + 2 if large else 0, a.size + 2), order="F")
    for start in range(0, len(vectors), slab):
        # One slab after the other: the rows of a large graph need never be held at once.
        continue_or_raise()
        part = slice(start, start + slab)
        columns = vectors[part].T
        full = np.empty((columns.shape[1], a.size + 2), order="F")
        np.multiply((columns[a] * columns[b]).T, twice, out=full[:, :-2])
        full[:, -2], full[:, -1] = squared[part], 1.0
        if large:
            R = _with_rows(R, full)
            continue
        stacked = np.vstack([R, full])
        R = np.asarray(scipy.linalg.qr(stacked, mode="r", check_finite=False)[0], np.float64)
        R = R[: a.size + 2]
    R = np.triu(R)[: a.size + 1]
    # M_ab = (|e_a + e_b|² − |e_a|² − |e_b|²)/2
    position = np.arange(a.size)
    diagonal = position[~off]
    weights = np.where(off, 0.5, 1.0)
    to_entries = sp.csr_array(
        (
            np.concatenate([weights, np.full(2 * off.sum(), -0.5)]),
            (
                np.concatenate([position, position[off], position[off]]),
                np.concatenate([position, diagonal[a[off]], diagonal[b[off]]]),
            ),
        ),
        shape=(a.size, a.size),
    )
    V: Array = np.zeros((a.size, m))
    V[position, a] = V[position, b] = 1.0
    rows = sp.csr_array(R[:, : a.size] @ to_entries)
    return V, rows, R[:, a.size], R[:, a.size + 1]
