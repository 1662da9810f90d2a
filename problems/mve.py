"""Minimum volume embedding (Shaw and Jebara 2007; Jebara's lecture on nonlinear embedding).

MVU pulls points apart in all directions, and a star becomes a simplex. MVE pulls in the d
directions that are looked at and squashes the rest. Over the K of MVU's form (equality, inequality
or slack, with FULL's pairs if asked for) and with eigenvalues λ_1 ≥ λ_2 ≥ …,

    maximise  g(K) = Σ_{i≤d} λ_i − Σ_{i>d} λ_i,      in general  Σ α_i λ_i,  α_1 ≥ α_2 ≥ …

g is convex, so that this is no convex program; it is climbed by programs that are. With v_i the
eigenvectors of K_t and B = Σ α_i v_i v_iᵀ (= 2V_dV_dᵀ − I),

    step    maximise <B, K>       over the same K;       slack: (1−ω)<B, K> − ω Σ|ξ_e|
    dual    minimise dᵀw   s.t.  L(w) ⪰ B on 1⊥,         slack: L(w) ⪰ (1−ω)B, |w_e| ≤ ω
    bound   dᵀw + max(0, −λ_min(L(w) − B))·T,            T ≥ tr K, that of MVU

and  g(K_{t+1}) ≥ <B, K_{t+1}> ≥ <B, K_t> = g(K_t)  once K_t is feasible: the objective never
falls. Where a solver returns less by its inaccuracy, K_t is kept. The end, where a step gains less
than `min_gain`, is *stationary*: the step's safe bound less g(K_t) bounds what any feasible K could
gain on the linearisation. It is no proof of a global maximum; the certified MVU value bounds that
from above if α_1 ≤ 1.

Fidelity is the share of the trace in the top d eigenvalues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NoReturn

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.errors import InputError
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.inputs import one_of
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.parts import Part
from sdpkit.problems.unfolding import Form, Unfolding
from sdpkit.program.block import LARGE
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix, trace
from sdpkit.program.safe import SafeBounds
from sdpkit.results.embedding import Embedding, gram, outputs
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.sequence import Ending
from sdpkit.typing import Array, Indices

Start = Literal["kernel", "mvu", "random"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MVE(Unfolding):
    """Minimum volume embedding of points, distances, a kernel or a graph.

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
    angles : bool, default False
        Whether to join the neighbours of each point too, so that angles are preserved.
    connect : {"error", "bridge", "components"}, default "error"
        What to do with a disconnected graph in the forms that maximise: refuse it ("error"), link
        its components ("bridge", thesis 3.1.12), or unfold each on its own ("components").
    form : {"equality", "inequality", "slack"}, default "equality"
        What is kept: lengths as equations, as upper bounds ("inequality"), or with penalised slack
        variables ("slack").
    omega : float or None, default None
        ω, the weight of the slack variables; None takes one from the threshold of boundedness
        (`omega_default`).
    full : bool, default False
        Whether no pair of points may come closer than it was (FULL); needs X, distances or kernel.
    facial_reduction : {"auto", "off"}, default "auto"
        Whether to restrict the program to the face on which it has an interior; "off" keeps the
        program as it stands.
    random_state : int, default 0
        The seed of bridging.
    n_components : int, default 2
        d, the dimensions to pull in.
    weights : sequence of float or None, default None
        The α instead, falling; the last holds for all further eigenvalues, and `n_components` only
        says how many coordinates are looked at.
    start : {"kernel", "mvu", "random"}, default "kernel"
        Where B comes from at first: the input's "kernel" (the Gram matrix of X, of distances or of
        shortest paths), "mvu" (the first step is MVU, whose value then is T), or "random" (seeded
        by `random_state`).
    min_gain : float, default 0.0001
        Stop when a step gains no more than this share of the objective (`tol` at least).
    max_steps : int, default 50
        At most so many values of B.

    Attributes
    ----------
    alpha : tuple of float
        The α, given by `weights` or chosen by `n_components`.

    Examples
    --------
    >>> import sdpkit
    >>> star = sdpkit.datasets.star_graph(8, 3)                   # eight spokes of three points
    >>> mvu = sdpkit.MVU(graph=star)
    >>> mvu.recover(sdpkit.solve(mvu), n_components=2)            # 2/7: each its own dimension
    <Embedding of 25 points in 2 dimensions: fidelity 0.2857, suggested dimension 7>
    >>> mve = MVE(graph=star)
    >>> solution = sdpkit.solve(mve)
    >>> solution.status
    <Status.STATIONARY: 'stationary'>
    >>> mve.recover(solution)
    <Embedding of 25 points in 2 dimensions: fidelity 1.0000, suggested dimension 2>
    """

    n_components: int = 2
    weights: Sequence[float] | None = None
    start: Start = "kernel"
    min_gain: float = 1e-4
    max_steps: int = 50
    alpha: tuple[float, ...] = field(init=False)

    @one_blas_thread
    def __post_init__(self) -> None:
        one_of(self.start, "start", ("kernel", "mvu", "random"))
        for name in ("n_components", "max_steps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"{name} is {value!r}; it must be a whole number of at least 1")
        if not isinstance(self.min_gain, int | float | np.number) or not 0 <= self.min_gain < 1:
            raise InputError(f"min_gain is {self.min_gain!r}; it must be a share, 0 ≤ min_gain < 1")
        object.__setattr__(self, "alpha", tuple(self._falling_weights().tolist()))
        super().__post_init__()
        if self.n_components >= self.neighborhood.n_points:
            raise InputError(
                f"n_components is {self.n_components}; {self.neighborhood.n_points} points span "
                "fewer dimensions than that"
            )

    def _falling_weights(self) -> Array:
        if self.weights is None:
            return np.array([1.0] * int(self.n_components) + [-1.0])
        try:
            alpha = np.array(self.weights, dtype=np.float64)
        except (TypeError, ValueError):
            alpha = np.empty(0)
        if alpha.ndim != 1 or not alpha.size or not np.isfinite(alpha).all():
            raise InputError(f"weights are {self.weights!r}; pass finite numbers α_1 ≥ α_2 ≥ …")
        if np.any(np.diff(alpha) > 0):
            raise InputError(
                f"weights are {alpha.tolist()}; they must not rise. Rising weights make the "
                "objective non-convex, and its steps may then lower it"
            )
        if alpha[0] <= 0:
            raise InputError(f"weights start with {alpha[0]:g}; the first must be positive")
        return alpha

    def _forms(self) -> tuple[Form, ...]:
        return ("equality", "inequality", "slack")

    def _pull(self) -> float:
        first = 1.0 if self.start == "mvu" else 0.0  # MVU's own step must be bounded as well
        return max(self.alpha[0], first)

    # -- the steps ---------------------------------------------------------------------------

    def program(self) -> NoReturn:
        """There is a program per step, each of which depends on the answer before."""
        raise InputError(
            "MVE takes several programs: call sdpkit.solve(problem), or problem.first_program() "
            "for the first of them alone"
        )

    @one_blas_thread
    def first_program(self) -> Program:
        """The first step, with B from `start`; if `full`, with constraints for all pairs."""
        return self._with_pairs(self._on_edges())

    @property
    def _weight(self) -> float:
        """What <B, K> is multiplied by: 1 − ω in the slack form."""
        return 1.0 if self.omega_used is None else 1 - self.omega_used

    def _costs(self) -> list[Cost]:
        """The first step's."""
        if self.start == "mvu":
            return self._variances()
        return [self._cost(part, self._first_vectors(part)) for part in self.parts]

    def _first_vectors(self, part: Part) -> Array:
        """(n, k) orthonormal eigenvectors to start from, the most important first."""
        count = self._pulled(part)
        if self.start == "random":
            rng = np.random.default_rng(self.random_state)
            return np.linalg.qr(_centred(part, rng.standard_normal((len(part.nodes), count))))[0]
        if self.X is not None and len(part.nodes) > LARGE:
            inputs = np.asarray(self.X, dtype=np.float64)[self._points(part)]
            left = np.linalg.svd(_centred(part, inputs), full_matrices=False)[0]
            if left.shape[1] >= count:
                return np.asarray(left[:, :count])
        return _leading(part, gram(self._input_lengths(part)), count).vectors

    def _pulled(self, part: Part) -> int:
        """How many eigenvectors of a part have a weight of their own."""
        return min(len(self.alpha), len(part.nodes)) - 1

    def _points(self, part: Part) -> Indices:
        """(n,) for each node of a part the first of the points that it stands for."""
        return np.unique(self.group, return_index=True)[1][part.nodes]

    def _input_lengths(self, part: Part) -> Array:
        """(n, n) squared distances of a part's nodes in the input."""
        first = self._points(part)
        return self._input_table[np.ix_(first, first)]

    @cached_property
    def _input_table(self) -> Array:
        """(n, n) squared distances of all points in the input; of a graph, along its paths."""
        if self.X is None and self.distances is None and self.kernel is None:
            return self.neighborhood.shortest_paths() ** 2
        lengths = SquaredDistances.of(self.X, distances=self.distances, kernel=self.kernel)
        return lengths.to_all(np.arange(lengths.n_points))

    def _cost(self, part: Part, vectors: Array) -> Cost:
        """B = Σ α_i v_i v_iᵀ as α_n·C + Σ (α_i − α_n) v_i v_iᵀ, seen from the nodes."""
        alpha = np.array(self.alpha)[: len(part.nodes)]
        m = part.multiplicities
        rooted = np.sqrt(m)[:, None] * vectors[:, : alpha.size - 1]
        leading = rooted - m[:, None] * rooted.sum(axis=0) / m.sum()
        rest = float(alpha[-1])
        distinct = bool(np.all(m == 1))
        return Cost.of(
            m.size,
            identity=rest if distinct else 0.0,
            sparse=None if distinct else sp.diags_array(rest * m),
            factor=np.column_stack([m, leading]),
            weights=np.r_[-rest / m.sum(), alpha[:-1] - alpha[-1]],
        )

    def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
        """Further pairs while they are too close; else the next B, until the objective stays."""
        if not solutions:
            return self._on_edges()
        last = solutions[-1]
        further = None if self.all_pairs is None else self.all_pairs.next_round(last, tol)
        if further is not None:
            return further
        iterates = self._iterates(solutions, tol)
        values = [self.value(s) for s in iterates]
        ending = None
        if len(values) > 1:
            ending = self._at_rest(last, values[-2], values[-1], max(tol, self.min_gain))
        if ending is None and len(values) < self.max_steps:
            return self._step_from(last)
        if ending is None:
            ending = Ending(f"max_steps = {self.max_steps} reached", Status.ITERATION_LIMIT)
        kept = last if len(values) == 1 or values[-1] >= values[-2] else iterates[-2]
        if self.all_pairs is None:
            return replace(ending, answer=kept)
        return self.all_pairs.concluded(ending, kept)

    def _iterates(self, solutions: tuple[Solution, ...], tol: float) -> list[Solution]:
        """K_1, K_2, …: without the rounds in which pairs were still too close."""
        pairs = self.all_pairs
        if pairs is None:
            return list(solutions)
        return [s for s in solutions if not len(pairs.too_close(s, tol))]

    def _at_rest(self, last: Solution, before: float, after: float, least: float) -> Ending | None:
        """The end, if the last step gained less than a share `least`. It is stationary if the
        step's bound leaves no K that gains twice that on the linearisation."""
        scale = max(abs(after), last.program.value_floor) or 1.0  # 0 if all points are equal
        if after - before > least * scale:
            return None
        possible = max(0.0, last.certificate.safe_bound - before) / scale
        status = Status.STATIONARY if possible <= 2 * least else Status.INACCURATE
        reason = (
            f"no feasible K raises the last step's objective by more than {100 * possible:.2g} %"
        )
        return Ending(reason, status)

    def _step_from(self, solution: Solution) -> Program:
        """The constraints of a solution's program with the cost that its K gives."""
        program = solution.program
        pieces = zip(program.blocks, self.parts, solution.matrices, strict=True)
        blocks = tuple(
            replace(block, cost=self._next_cost(part, K).scaled(self._weight))
            for block, part, K in pieces
        )
        return replace(program, blocks=blocks, safe=self._tightened(solution))

    def _next_cost(self, part: Part, K: Matrix) -> Cost:
        """B from the eigenvectors of K."""
        return self._cost(part, _leading(part, K, self._pulled(part)).vectors)

    def _tightened(self, solution: Solution) -> SafeBounds:
        """The program's safe bounds, with T from MVU's own bound if this was MVU's step."""
        safe, bound = solution.program.safe, solution.certificate.safe_bound
        plain = all(block.cost.is_identity for block in solution.program.blocks)
        if safe.trace is None or not plain or not np.isfinite(bound):
            return safe
        # Each tr K_k is at most their sum; the bound's own rounding is far below 1e-9.
        return replace(safe, trace=tuple(min(t, bound * (1 + 1e-9)) for t in safe.trace))

    # -- what is followed --------------------------------------------------------------------

    @one_blas_thread
    def value(self, solution: Solution) -> float:
        """g(K) = Σ α_i λ_i; in the slack form (1−ω)·g(K) − ω Σ|ξ|."""
        value = float(solution.program.cost_x @ solution.x)
        for part, K in zip(self.parts, solution.matrices, strict=True):
            alpha = np.array(self.alpha)[: len(part.nodes)]
            top = _leading(part, K, alpha.size - 1)
            gain = alpha[-1] * top.trace + (alpha[:-1] - alpha[-1]) @ top.values
            value += self._weight * float(gain)
        return value

    def _gain(self, part: Part, y: Array) -> float:
        """g of the points of a part, (n, d)."""
        alpha = np.array(self.alpha)[: len(part.nodes)]
        spectrum = np.square(np.linalg.svd(y - y.mean(axis=0), compute_uv=False))
        top = spectrum[: alpha.size - 1]
        return float(alpha[-1] * spectrum.sum() + (alpha[: top.size] - alpha[-1]) @ top)

    def fidelity(self, solution: Solution) -> float:
        """The share of the trace in the top d eigenvalues, of all parts together."""
        pieces = zip(self.parts, solution.matrices, strict=True)
        tops = [_leading(part, K, min(self.n_components, len(part.nodes))) for part, K in pieces]
        total = sum(top.trace for top in tops)
        return sum(float(top.values.sum()) for top in tops) / total if total > 0 else 1.0

    @one_blas_thread
    def progress(self, solution: Solution) -> dict[str, float]:
        """What to follow from step to step: g(K) and the fidelity."""
        named = {"objective": self.value(solution), "fidelity": self.fidelity(solution)}
        return {**named, **super().progress(solution)}

    # -- the other formulation, and the way back ---------------------------------------------

    def to_cvxpy(self) -> Any:
        """The model of the *first step* as a `cvxpy.Problem` over all points: B is fixed.

        MVE itself is not convex, and no cvxpy model states it.
        """
        return super().to_cvxpy()

    def _cvxpy_gain(self, K: Any) -> Any:
        """<B, K> of the first step, over all points."""
        import cvxpy as cp

        n_nodes = int(self.group.max()) + 1
        B = np.zeros((n_nodes, n_nodes))
        for part, cost in zip(self.parts, self._costs(), strict=True):
            # Spread over the points of a node, the cost of the node is kept.
            share = cost.dense() / np.outer(part.multiplicities, part.multiplicities)
            B[np.ix_(part.nodes, part.nodes)] = share
        return cp.trace(B[np.ix_(self.group, self.group)] @ K)

    def kernel_pca(self) -> Embedding:
        """The embedding to compare with: the input's own Gram matrix, cut off at d dimensions."""
        if not np.isfinite(self._input_table).all():
            raise InputError(
                "the graph has several components and no distances between them: "
                "pass X, distances or kernel too"
            )
        coordinates, eigenvalues = outputs(gram(self._input_table), self.n_components)
        labels = self.neighborhood.component_labels
        return Embedding(coordinates, eigenvalues, self._edges(), None, 0 * labels)

    @one_blas_thread
    def recover(self, solution: Solution, n_components: int | None = None) -> Embedding:
        """The embedding of a solution, in `n_components` dimensions or the problem's own."""
        return super().recover(solution, n_components or self.n_components)


@dataclass(frozen=True, eq=False)
class _Leading:
    """Of a centred Gram matrix the (k,) largest eigenvalues, falling, their (n, k) eigenvectors,
    and the trace."""

    values: Array
    vectors: Array
    trace: float


def _centred(part: Part, rows: Array) -> Array:
    """S times a matrix with a row per node, S = diag(√m)(I − 1mᵀ/N): SKSᵀ has the spectrum of the
    centred Gram matrix of all N points, of which m_i coincide in node i."""
    m = part.multiplicities
    return np.asarray(np.sqrt(m)[:, None] * (rows - (m @ rows) / m.sum()))


def _leading(part: Part, K: Matrix, count: int) -> _Leading:
    """What is largest in the Gram matrix of a part's points."""
    if isinstance(K, Gram):  # points of large graphs are distinct, and K is centred
        values, vectors = K.leading(max(count, 1))
        return _Leading(values[:count], vectors[:, :count], trace(K))
    seen = _centred(part, _centred(part, np.asarray(K)).T)
    seen, n = (seen + seen.T) / 2, len(part.nodes)
    lowest = max(n - max(count, 1), 0)
    values, vectors = scipy.linalg.eigh(seen, subset_by_index=[lowest, n - 1])
    falling = slice(None, None, -1)
    values, vectors = values[falling], vectors[:, falling]
    return _Leading(values[:count], vectors[:, :count], float(np.trace(seen)))
