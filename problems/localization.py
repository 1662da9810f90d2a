"""Sensor networks from local distances (Weinberger 2007, section 3.1.8; Biswas and Ye 2004).

Sensors measure the distances √d_e to some of their neighbours. Their positions x_i ∈ ℝʳ minimise

    E(x) = Σ_e (‖x_i − x_j‖² − d_e)²                                              (3.26)

which has many local minima; the semidefinite program finds where to start. Positions are
expanded in the m bottom eigenvectors Q of the graph Laplacian.

Without anchors it is variational MVU (`sdpkit.VariationalMVU`, with its dual), with ω close to 1:

    maximise (1−ω) tr Z − ω Σ(v_eᵀ Z v_e − d_e)²,   Z ⪰ 0,   v_e = Q_i − Q_j

ω = 1 is (3.26) relaxed; the small remainder pulls the network flat. Positions are known up to a
rigid motion then. With anchors at known a_k the constant joins Q, and the unknown is

    S = [ I_r  Wᵀ ]     maximise  −Σ(q_e − d_e)²,   S ⪰ 0,   x_i = Wᵀ Q_i
        [ W    Z  ]     q_e = (0; Q_i − Q_j)ᵀ S (0; Q_i − Q_j)   between sensors
                        q_e = (a_k; −Q_i)ᵀ S (a_k; −Q_i)         from an anchor to a sensor
                        dual: minimise dᵀw + ‖w‖²/4 + tr U   s.t.  Σ w_e v_e v_eᵀ + U⊕0 ⪰ 0

where U, symmetric of size r, holds the multipliers of the identity block, which is fixed
entirely; v_e are the vectors above. `refine` ends with a local search on (3.26) itself.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.errors import GraphError, InputError
from sdpkit.graphs.graph import NeighborhoodGraph, require_connected
from sdpkit.inputs import finite_rows, integer, one_of, set_fields
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.variational import Fixed, Penalty, Residuals, VariationalMVU, penalised
from sdpkit.program.compilation import maximise
from sdpkit.program.expressions import Unknown, Variable, named
from sdpkit.program.form import Program
from sdpkit.results.embedding import principal_axes, visible_axes
from sdpkit.results.refinement import refine
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Indices

# (1−ω)/ω as a share of κ without anchors: enough to lay the network flat, too little to stretch it.
_PULL = 1 / 30


@dataclass(frozen=True, eq=False, repr=False)
class Localization:
    """Positions of sensors from some of the distances between them.

    Parameters
    ----------
    lengths : array-like of shape (n, n)
        Matrix, dense or sparse, of measured lengths (nonzeros; stored entries of a sparse one), or
        a `NeighborhoodGraph`. Two measurements of one pair are averaged.
    anchors : array-like of shape (a, r) or None, default None
        Known positions.
    anchor_lengths : array-like of shape (n, a) or None, default None
        Measured lengths from each sensor to each anchor, dense (nonzeros) or sparse.
    n_basis : int or None, default 10
        m, or None for no reduction: every position on its own (small networks).
    penalty : {"squared", "norm"}, default "squared"
        "squared" or "norm" of the residuals.
    omega : float or None, default None
        ω without anchors; None takes (1−ω)/ω = κ/30 (see `VariationalMVU`).
    n_components : int or None, default None
        r; None takes the anchors' dimension, 2 without anchors.

    Attributes
    ----------
    network : NeighborhoodGraph
        The lengths between sensors as a graph.
    free : VariationalMVU or None
        The variational program without anchors, or None.
    frame : Anchored or None
        That with anchors, or None.
    omega_used : float
        ω, given or chosen; 1 with anchors.
    dimension : int
        r, given or chosen.

    Examples
    --------
    >>> import sdpkit
    >>> true = np.random.default_rng(0).random((200, 2))
    >>> graph = sdpkit.graphs.neighborhood_graph(true, radius=0.25)
    >>> problem = Localization(graph)
    >>> positions = problem.refine(sdpkit.solve(problem))
    >>> bool(sdpkit.quality.position_errors(positions, true).max() < 1e-6)
    True
    """

    lengths: Any
    _: KW_ONLY
    anchors: ArrayLike | None = None
    anchor_lengths: Any = None
    n_basis: int | None = 10
    penalty: Penalty = "squared"
    omega: float | None = None
    n_components: int | None = None
    network: NeighborhoodGraph = field(init=False)
    frame: Anchored | None = field(init=False)
    dimension: int = field(init=False)

    @one_blas_thread
    def __post_init__(self) -> None:
        network = _measured(self.lengths)
        one_of(self.penalty, "penalty", ("squared", "norm"))
        if self.n_basis is not None:
            integer(self.n_basis, "n_basis")
        set_fields(self, network=network, frame=None)
        if self.anchors is None:
            self._without_anchors(network)
        else:
            self._with_anchors(network)

    def _without_anchors(self, network: NeighborhoodGraph) -> None:
        if self.anchor_lengths is not None:
            raise InputError("anchor_lengths without anchors: pass the anchors' positions too")
        n = network.n_points
        if n < 3:
            raise InputError(f"{n} sensors have no shape to infer; pass at least three")
        require_connected(network)
        largest = self._unweighted.basis_size
        r = 2 if self.n_components is None else self.n_components
        if isinstance(r, bool) or not isinstance(r, int | np.integer) or not 1 <= r <= largest:
            raise InputError(
                f"n_components is {r!r}; it must be an integer between 1 and {largest}"
            )
        set_fields(self, dimension=int(r))

    @cached_property
    def _unweighted(self) -> VariationalMVU:
        """The program without anchors, with ω as it was given."""
        n = self.network.n_points
        basis: dict[str, Any] = {"basis": "laplacian", "n_basis": self.n_basis}
        if self.n_basis is None or self.n_basis >= n - 1:
            basis = {"basis": scipy.linalg.helmert(n).T}
        return VariationalMVU(graph=self.network, penalty=self.penalty, omega=self.omega, **basis)

    @cached_property
    def free(self) -> VariationalMVU | None:
        """The variational program without anchors, or None."""
        if self.frame is not None:
            return None
        problem = self._unweighted
        if self.omega is None and self.penalty == "squared":
            omega = 1 / (1 + _PULL * problem.stiffness)
            return replace(problem, basis=problem.Q, omega=omega)  # the basis is not found again
        return problem

    @cached_property
    def omega_used(self) -> float:
        """ω, given or chosen; 1 with anchors."""
        return 1.0 if self.free is None else self.free.omega_used

    def _with_anchors(self, network: NeighborhoodGraph) -> None:
        if self.omega not in (None, 1, 1.0):
            raise InputError(
                f"omega is {self.omega!r}; with anchors ω is always 1: leave omega out"
            )
        frame = Anchored.of(network, self.anchors, self.anchor_lengths, self.n_basis)
        r = frame.positions.shape[1]
        if self.n_components not in (None, r):
            raise InputError(
                f"n_components is {self.n_components!r}, and the anchors have {r} coordinates"
            )
        set_fields(self, frame=frame, dimension=r)

    def __repr__(self) -> str:
        anchors = 0 if self.frame is None else len(self.frame.positions)
        edges = self.network.n_edges + (0 if self.frame is None else len(self.frame.pairs))
        return (
            f"<Localization: {self.network.n_points} sensors, {anchors} anchors, {edges} lengths>"
        )

    # -- the two formulations ----------------------------------------------------------------

    @one_blas_thread
    def program(self) -> Program:
        """The problem in squared lengths: one block Z, or S with anchors."""
        if self.free is not None:
            return self.free.program()
        assert self.frame is not None
        return self.frame.program(self.penalty)

    def to_cvxpy(self) -> Any:
        """The model as a `cvxpy.Problem`, in units of the mean squared length."""
        if self.free is not None:
            return self.free.to_cvxpy()
        assert self.frame is not None
        return self.frame.to_cvxpy(self.penalty)

    # -- the way back ------------------------------------------------------------------------

    @one_blas_thread
    def recover(self, solution: Solution) -> Array:
        """Positions, (n, r), as the program has them: centred, or in the anchors' frame."""
        if self.free is not None:
            return self.free.recover(solution, self.dimension).coordinates
        assert self.frame is not None
        return self.frame.positions_of(solution)

    def objective(self, positions: ArrayLike) -> float:
        """The program's objective at any positions, (n, r), in units of the mean squared length.

        The program may place sensors in more dimensions than r: then no positions in r dimensions
        have its value, and `shortfall` says so.
        """
        if self.free is not None:
            return self.free.objective(positions)
        assert self.frame is not None
        return self.frame.objective(positions, self.penalty)

    def shortfall(self, solution: Solution) -> str:
        """Why the objective of the recovered positions is not the certified one; empty if it is
        within the certified gap of it."""
        reason = f"the program places the sensors in more than {self.dimension} dimensions"
        return solution.shortfall(self.objective(self.recover(solution)), "the positions", reason)

    def refine(self, solution: Solution, *, max_iter: int = 300) -> Array:
        """Positions after a local search on (3.26); without anchors first in ℝᵐ, to unfold."""
        if self.frame is not None:
            return self.frame.refined(self.recover(solution), max_iter)
        assert self.free is not None
        B, d = self.network.incidence(), self.network.squared_lengths / self.free.unit
        # ω of the squared penalty, whichever was solved: (3.26) is squared.
        pull = _PULL * self.free.stiffness
        omega = self.omega_used if self.penalty == "squared" else 1 / (1 + pull)
        unit = np.sqrt(self.free.unit)
        start = self.free.recover(solution, self.free.basis_size).coordinates / unit
        p = visible_axes((start**2).sum(axis=0), self.dimension)
        wide = refine(start[:, :p], B, d, omega=omega, hessian=False, max_iter=100, tol=1e-3)
        flat = principal_axes(wide.coordinates)[0][:, : self.dimension]
        found = refine(flat, B, d, max_iter=max_iter)
        return np.asarray(unit * principal_axes(found.coordinates)[0])


def _measured(lengths: Any) -> NeighborhoodGraph:
    """The network of a matrix of lengths, one edge per pair that was measured at least once."""
    if isinstance(lengths, NeighborhoodGraph):
        return lengths
    try:
        table = sp.coo_array(lengths, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"lengths is not a matrix of numbers: {error}") from error
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise InputError(f"lengths has shape {table.shape}: pass a square matrix")
    n = int(table.shape[0])
    apart = table.row != table.col
    low, high = np.minimum(table.row, table.col)[apart], np.maximum(table.row, table.col)[apart]
    pair, which = np.unique(low.astype(np.int64) * n + high, return_inverse=True)
    if (table.data[apart] < 0).any():
        raise InputError(f"lengths are numbers ≥ 0; the smallest is {table.data[apart].min():g}")
    mean = np.bincount(which, table.data[apart]) / np.bincount(which)
    return NeighborhoodGraph(n, np.column_stack([pair // n, pair % n]), mean**2)


# -- anchors ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Anchored:
    """A network in a known frame, in units of the mean squared length around the anchors' mean.

    Attributes
    ----------
    network: lengths between sensors;  positions: (a, r) anchors as given
    pairs: (p, 2) sensor and anchor of each further length;  squared: all squared lengths
    n_basis: the number of smooth functions; None for no reduction
    """

    network: NeighborhoodGraph
    positions: Array
    pairs: Indices
    squared: Array
    n_basis: int | None

    @classmethod
    def of(
        cls, network: NeighborhoodGraph, anchors: Any, lengths: Any, n_basis: int | None
    ) -> Anchored:
        """Check anchors (a, r) and their lengths (n, a)."""
        positions = np.array(anchors, dtype=np.float64)
        if positions.ndim != 2 or not positions.size or not np.isfinite(positions).all():
            raise InputError(f"anchors have shape {positions.shape}: pass finite positions, (a, r)")
        n, a = network.n_points, len(positions)
        if lengths is None:
            raise InputError("anchors without anchor_lengths: pass lengths from sensors to anchors")
        table = sp.coo_array(lengths)
        if table.shape != (n, a):
            raise InputError(f"anchor_lengths has shape {table.shape}, expected ({n}, {a})")
        if not np.isfinite(table.data).all() or (table.data < 0).any():
            raise InputError("anchor_lengths are lengths: finite numbers ≥ 0")
        pairs = np.column_stack([table.row, table.col]).astype(np.int64)
        squared = np.concatenate([network.squared_lengths, np.asarray(table.data) ** 2])
        found = cls(network, positions, pairs, squared, n_basis)
        whole = found.whole
        if not whole.is_connected:
            lost = int(np.sum(whole.component_labels[:n] != whole.component_labels[n]))
            raise GraphError(
                f"{lost} of {n} sensors are tied to no anchor, not even through others: "
                "measure more lengths, or leave these sensors out"
            )
        return found

    @cached_property
    def whole(self) -> NeighborhoodGraph:
        """Sensors and anchors, which are all joined to each other, with unit lengths."""
        n, a = self.network.n_points, len(self.positions)
        joined = [*self.network.edges.tolist(), *((i, n + k) for i, k in self.pairs.tolist())]
        joined += combinations(range(n, n + a), 2)
        return NeighborhoodGraph.from_pairs(n + a, joined, np.ones(len(joined)))

    @cached_property
    def Q(self) -> Array:
        """(n, m + 1) the constant and smooth functions on sensors and anchors, seen on the
        sensors; the constant is among the columns."""
        n = self.network.n_points
        if self.n_basis is None or self.n_basis >= n - 1:
            return np.eye(n)
        smooth = self.whole.smooth_basis(self.n_basis)[:n]
        return np.asarray(np.linalg.qr(np.column_stack([np.ones(n), smooth]))[0])

    @property
    def unit(self) -> float:
        """The mean squared length."""
        return float(self.squared.mean()) or 1.0

    @property
    def origin(self) -> Array:
        """(r,) the anchors' mean."""
        return np.asarray(self.positions.mean(axis=0))

    @property
    def centred(self) -> Array:
        """(a, r) anchors in the program's coordinates."""
        return np.asarray((self.positions - self.origin) / np.sqrt(self.unit))

    @property
    def vectors(self) -> Array:
        """(0; Q_i − Q_j) and (a_k; −Q_i), one row per length."""
        between = self.network.incidence() @ self.Q
        zeros = np.zeros((len(between), self.positions.shape[1]))
        sensors, anchors = self.pairs.T
        to_anchors = np.hstack([self.centred[anchors], -self.Q[sensors]])
        return np.vstack([np.hstack([zeros, between]), to_anchors])

    def program(self, penalty: Penalty) -> Program:
        """One block S of size r + m."""
        r, m = self.positions.shape[1], self.Q.shape[1]
        unit = np.eye(r, r + m)
        sums = [unit[a] + unit[b] for a, b in combinations(range(r), 2)]
        off = np.zeros(len(sums))
        # The diagonal of the identity block may be pushed as hard as the rest is stiff.
        fixed = Fixed(
            np.vstack([unit, *sums]),
            np.concatenate([np.ones(r), np.full(len(sums), 2.0)]),
            np.concatenate([np.ones(r), off]),
        )
        n, a = self.network.n_points, len(self.positions)
        residuals = Residuals.of(self.vectors, self.squared / self.unit)
        S = Unknown("S", r + m)
        ξ = Variable(residuals.size, "ξ", free=True)
        identity = named("I", fixed.values)
        return maximise(
            -penalised(ξ, penalty),
            residuals.lengths(S) == residuals.squared_lengths + ξ,
            named("S_aa, S_ab", S.lengths(fixed.vectors)) == identity,
            safe=residuals.safe_bounds(1.0, penalty, fixed),
            name=f"localization, {penalty}: {n} sensors, {a} anchors, {len(self.squared)} lengths",
        )

    def to_cvxpy(self, penalty: Penalty) -> Any:
        """The model over all lengths, with the identity block fixed."""
        import cvxpy as cp

        r, V = self.positions.shape[1], self.vectors
        S = cp.Variable((V.shape[1], V.shape[1]), PSD=True, name="S")
        residual = cp.sum(cp.multiply(V @ S, V), axis=1) - self.squared / self.unit
        xi = cp.sum_squares(residual) if penalty == "squared" else cp.norm(residual, 2)
        return cp.Problem(cp.Maximize(-xi), [S[:r, :r] == np.eye(r)])

    def objective(self, positions: ArrayLike, penalty: Penalty) -> float:
        """−‖ξ‖² or −‖ξ‖ of positions (n, r)."""
        x = finite_rows(positions, self.positions.shape[1], "positions")
        between = self.network.incidence() @ x
        sensors, anchors = self.pairs.T
        differences = np.vstack([between, x[sensors] - self.positions[anchors]])
        missed = np.square(differences).sum(axis=1) - self.squared
        size = float(np.linalg.norm(missed)) / self.unit
        return -(size**2) if penalty == "squared" else -size

    def positions_of(self, solution: Solution) -> Array:
        """(n, r) X = Q W."""
        r, m = self.positions.shape[1], self.Q.shape[1]
        shapes = [matrix.shape for matrix in solution.matrices]
        if shapes != [(r + m, r + m)]:
            raise InputError(f"the solution has matrices {shapes}; this problem has size {r + m}")
        if not np.isfinite(solution.matrix).all():
            raise InputError(
                f"the solution holds no matrix (status {solution.status}): {solution.message}"
            )
        return np.asarray(
            self.origin + np.sqrt(self.unit) * self.Q @ np.asarray(solution.matrix)[r:, :r]
        )

    def refined(self, positions: Array, max_iter: int) -> Array:
        """A local minimum of (3.26) near these positions, the anchors fixed."""
        sensors, anchors = self.pairs.T
        p, n = len(sensors), self.network.n_points
        to_anchors = sp.csr_array((np.ones(p), (np.arange(p), sensors)), shape=(p, n))
        incidence = sp.vstack([self.network.incidence(), to_anchors], format="csr")
        offset = np.vstack(
            [np.zeros((self.network.n_edges, self.positions.shape[1])), -self.centred[anchors]]
        )
        start = (positions - self.origin) / np.sqrt(self.unit)
        found = refine(start, incidence, self.squared / self.unit, offset=offset, max_iter=max_iter)
        return np.asarray(self.origin + np.sqrt(self.unit) * found.coordinates)
