"""What the unfolding of points by lengths has in common: MVU and MVE.

The input becomes a neighbourhood graph, whose connected components may be unfolded apart
(`sdpkit.problems.parts`). Points joined by edges of length zero are one node with multiplicity
m_i. Over Gram matrices K ⪰ 0 with K1 = 0, one per part, the edges' squared lengths A(K)_e are

    equality, min_trace   A(K) = d
    inequality            A(K) ≤ d
    slack                 A(K) = d + ξ,    at the cost of ω Σ|ξ_e|

and with `full` no pair of points comes closer (`sdpkit.problems.full`). What <B, K> is maximised
(minimised in the form min_trace) is the matter of `sdpkit.problems.mvu` and `sdpkit.problems.mve`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.errors import GraphError, InputError, UnboundedProblemError
from sdpkit.graphs.build import neighborhood_graph
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.graphs.graph import NeighborhoodGraph, require_connected
from sdpkit.graphs.repair import merge_coincident, split_components
from sdpkit.inputs import boolean, finite_matrix, finite_rows, one_of, set_fields
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.full import AllPairs
from sdpkit.problems.parts import Part
from sdpkit.program.compilation import maximise, minimise
from sdpkit.program.cost import Cost
from sdpkit.program.expressions import Unknown, Variable, named, stack
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix, StackedGram, is_finite, trace
from sdpkit.program.safe import SafeBounds
from sdpkit.results.embedding import Embedding, outputs
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Indices

Form = Literal["equality", "inequality", "slack", "min_trace"]
FORMS: tuple[Form, ...] = ("equality", "inequality", "slack", "min_trace")

# Points merged by edges of length zero may be this far apart: a share of the largest square.
_NEARLY_COINCIDENT = 1e-8
# Points of more dimensions than this are hardly ever rigid: few stresses, many equations.
_MAX_RIGID_DIMENSIONS = 20


@dataclass(frozen=True, eq=False, repr=False)
class Unfolding(ABC):
    """Points, distances, a kernel or a graph to be unfolded.

    Parameters are those of `sdpkit.MVU`.

    Attributes
    ----------
    neighborhood: the graph over all points
    group: (n,) the node of each point; points joined by edges of length zero share one
    parts: the semidefinite unknowns, one per connected component that is unfolded apart
    """

    X: Any = None
    _: KW_ONLY
    distances: Any = None
    kernel: Any = None
    graph: Any = None
    edges: ArrayLike | None = None
    n_neighbors: int | None = None
    radius: float | None = None
    angles: bool = False
    connect: Literal["error", "auto", "bridge", "components"] = "error"
    form: Form = "equality"
    omega: float | None = None
    full: bool = False
    facial_reduction: Literal["auto", "off"] = "auto"
    random_state: int = 0
    neighborhood: NeighborhoodGraph = field(init=False)
    group: Indices = field(init=False)
    parts: tuple[Part, ...] = field(init=False)

    @one_blas_thread
    def __post_init__(self) -> None:
        one_of(self.form, "form", self._forms())
        one_of(self.connect, "connect", ("error", "auto", "bridge", "components"))
        one_of(self.facial_reduction, "facial_reduction", ("auto", "off"))
        boolean(self.angles, "angles")
        boolean(self.full, "full")
        neighborhood = neighborhood_graph(
            self.X,
            distances=self.distances,
            kernel=self.kernel,
            graph=self.graph,
            edges=self.edges,
            n_neighbors=self.n_neighbors,
            radius=self.radius,
            angles=self.angles,
            connect=self.connect if self.connect in ("auto", "bridge") else None,
            random_state=self.random_state,
        )
        if neighborhood.n_points < 2:
            raise GraphError("one point cannot be unfolded; pass at least two")
        merged, group, multiplicities = self._merge(neighborhood)
        parts = tuple(self._split(merged, group, multiplicities))
        if not parts:
            raise GraphError("the graph has no edges, so there is nothing to unfold: add edges")
        set_fields(self, neighborhood=neighborhood, group=group, parts=parts)
        self._check_omega()
        if self.full:
            self._check_full()

    def _forms(self) -> tuple[Form, ...]:
        return FORMS

    def _check_full(self) -> None:
        if self.form not in ("equality", "slack"):
            raise InputError(
                f"full=True keeps every pair from coming closer, edges too, which form="
                f"{self.form!r} is made to allow: use form='equality' or 'slack'"
            )
        if self.connect == "components":
            raise InputError(
                "full=True compares all pairs, but connect='components' keeps components apart: "
                "use connect='error' or 'auto'"
            )
        if self.X is None and self.distances is None and self.kernel is None:
            raise InputError(
                "full=True needs the distances of all pairs, and a graph has only its edges': "
                "pass X, distances or kernel too"
            )
        _ = self.all_pairs  # it looks at the distances and may refuse them

    def _merge(self, graph: NeighborhoodGraph) -> tuple[NeighborhoodGraph, Indices, Indices]:
        if self.form == "slack":
            # Slack may stretch an edge of length zero: coincident points stay two.
            n = graph.n_points
            return graph, np.arange(n), np.ones(n, dtype=np.int64)
        return merge_coincident(graph, parallel="min" if self.form == "inequality" else "error")

    def _split(
        self,
        graph: NeighborhoodGraph,
        group: Indices,
        multiplicities: Indices,
    ) -> Iterator[Part]:
        separate = self.connect == "components" and not graph.is_connected
        if self.form != "min_trace" and not separate:
            require_connected(graph)
        whole = [(np.arange(graph.n_points), graph)]
        for nodes, part in split_components(graph) if separate else whole:
            # A single point has nothing to unfold, unless it is all there is (all points equal).
            if part.n_points > 1 or graph.n_points == 1:
                points = self._exact_points(part, group, nodes) if self._reduces else None
                counts = multiplicities[nodes].astype(np.float64)
                yield Part(nodes, part, counts, points, self._reduces)

    @property
    def _reduces(self) -> bool:
        """Whether facial reduction is wanted, and lengths are kept, so that there may be a face."""
        return self.facial_reduction == "auto" and self.form in ("equality", "min_trace")

    def _exact_points(
        self, graph: NeighborhoodGraph, group: Indices, nodes: Indices
    ) -> Array | None:
        """(n, D) the points of a part's nodes, if they have its lengths to the last digits."""
        if self._few_columns is None:
            return None
        first = np.unique(group, return_index=True)[1]
        points = self._few_columns[first[nodes]]
        i, j = graph.edges.T
        lengths = np.sum((points[i] - points[j]) ** 2, axis=1)
        same = np.allclose(lengths, graph.squared_lengths, rtol=1e-12, atol=0.0)
        return points if same else None

    @cached_property
    def _few_columns(self) -> Array | None:
        """(n, D) the points without constant columns, if they have few dimensions."""
        if self.X is None:
            return None
        width = np.shape(self.X)[1]
        if sp.issparse(self.X) and width > _MAX_RIGID_DIMENSIONS:
            return None  # not made dense for nothing
        points = finite_matrix(self.X, "X")
        points = points[:, np.ptp(points, axis=0) > 0]
        return points if points.shape[1] <= _MAX_RIGID_DIMENSIONS else None

    def _check_omega(self) -> None:
        if self.omega is None:
            return
        if self.form != "slack":
            raise InputError(f"omega={self.omega} belongs to form='slack', not {self.form!r}")
        number = isinstance(self.omega, int | float | np.number)
        if not number or not 0 < self.omega < 1:
            raise InputError(f"omega is {self.omega!r}; it must lie strictly between 0 and 1")
        connectivity = self._resistance()
        threshold = omega_threshold(connectivity)
        if self.omega < threshold:
            raise UnboundedProblemError(
                f"omega is {self.omega:g}, and the slack form is unbounded below "
                f"1/(1 + λ₂) = {threshold:.6g} (λ₂ = {connectivity:.3g}, the graph's algebraic "
                f"connectivity): raise omega, or omit it for {omega_default(connectivity):.6g}"
            )

    @cached_property
    def omega_used(self) -> float | None:
        """ω of the slack form, given or chosen; None in the other forms."""
        if self.form != "slack":
            return None
        return omega_default(self._resistance()) if self.omega is None else float(self.omega)

    def _resistance(self) -> float:
        """What unit multipliers on all edges balance, as a multiple of the cost's pull."""
        return min(part.graph.algebraic_connectivity() for part in self.parts) / self._pull()

    def _pull(self) -> float:
        """The smallest a > 0 with cost ⪯ aC: what the tensions have to balance."""
        return 1.0

    @property
    def facial_reduction_used(self) -> bool:
        """Whether rigid parts of the graph added null directions to the constant."""
        return any(part.null.shape[1] > 1 for part in self.parts)

    def __repr__(self) -> str:
        graph = self.neighborhood
        omega = f", omega {self.omega_used:.4g}" if self.omega_used else ""
        full = ", full" if self.full else ""
        name = type(self).__name__
        return f"<{name}, {self.form}{full}{omega}: {graph.n_points} points, {graph.n_edges} edges>"

    # -- the two formulations ----------------------------------------------------------------

    @abstractmethod
    def _costs(self) -> list[Cost]:
        """Per part what <C, K> is the objective of, the slack form's penalty apart."""

    def _variances(self) -> list[Cost]:
        """Per part the C with <C, K> = tr K over all points: the variance."""
        return [Cost.variance(part.multiplicities) for part in self.parts]

    def _with_pairs(self, program: Program) -> Program:
        """The program with a constraint for every pair of points, if `full`."""
        pairs = self.all_pairs
        return program if pairs is None else pairs.add_rows(program, pairs.pairs())

    def _on_edges(self, nulls: Sequence[Array] | None = None) -> Program:
        """The program of the edges' lengths, form by form; `nulls` are the null directions of
        the parts, where these are more than the parts' own."""
        nulls = [part.null for part in self.parts] if nulls is None else nulls
        continue_or_raise()
        names = ["K"] if len(nulls) == 1 else [f"K{k + 1}" for k in range(len(nulls))]
        pieces = zip(names, nulls, strict=True)
        unknowns = [Unknown(name, len(null), null=null) for name, null in pieces]
        spread = sum(K.inner(C) for K, C in zip(unknowns, self._costs(), strict=True))
        lengths = stack(
            K.distances(part.graph.edges) for K, part in zip(unknowns, self.parts, strict=True)
        )
        squared = np.concatenate([part.graph.squared_lengths for part in self.parts])
        d, m = named("d_ij", squared), squared.size
        about: dict[str, Any] = {
            "name": f"{type(self).__name__}, {self.form}{', full' if self.full else ''}: "
            f"n = {self.neighborhood.n_points}, {m} edges",
            "safe": self._safe_bounds(squared),
            "notes": self._notes(),
        }
        if self.form == "equality":
            return maximise(spread, lengths == d, **about)
        if self.form == "inequality":
            return maximise(spread, lengths <= d, **about)
        if self.form == "min_trace":
            return minimise(spread, lengths == d, **about)
        # The slack form (3.1.6), with ξ = ξ⁺ − ξ⁻ and |ξ| = ξ⁺ + ξ⁻.
        ω = self._omega_in_use()
        up, down = Variable(m, "ξ⁺_ij"), Variable(m, "ξ⁻_ij")
        return maximise(
            (1 - ω) * spread - ω * (up.sum() + down.sum()), lengths == d + up - down, **about
        )

    def named_rows(self) -> tuple[Program, list[str]]:
        """All constraints, and the edge or pair of points of each in words."""
        program = self._with_pairs(self._on_edges())
        pairs, signs = self._edges(), {-1: "≤", 0: "=", 1: "≥"}
        if self.all_pairs is not None:
            first = np.unique(self.group, return_index=True)[1]
            pairs = np.vstack([pairs, first[self.all_pairs.rows_in(program)]])
        rows = zip(pairs.tolist(), program.relations, program.rhs, strict=True)
        return program, [f"‖y_{i} − y_{j}‖² {signs[int(s)]} {d:.6g}" for (i, j), s, d in rows]

    def _omega_in_use(self) -> float:
        assert self.omega_used is not None
        return self.omega_used

    # -- FULL ------------------------------------------------------------------

    @cached_property
    def all_pairs(self) -> AllPairs | None:
        """What `full` keeps from coming closer. Of nodes that stand for several points, the
        longest distance counts."""
        if not self.full:
            return None
        lengths = SquaredDistances.of(self.X, distances=self.distances, kernel=self.kernel)
        n = int(self.group.max()) + 1
        squared = np.zeros((n, n))
        table = lengths.to_all(np.arange(lengths.n_points))
        np.maximum.at(squared, (self.group[:, None], self.group[None, :]), table)
        if squared.diagonal().max() > _NEARLY_COINCIDENT * squared.max():
            node = int(squared.diagonal().argmax())
            members = np.flatnonzero(self.group == node)[:6].tolist()
            raise GraphError(
                f"the points {members} coincide by edges of length zero, but some are "
                f"{squared[node, node] ** 0.5:g} apart, which full=True "
                "would keep: correct the distances"
            )
        np.fill_diagonal(squared, 0.0)
        edges = self.parts[0].graph.edges
        return AllPairs(squared, edges if self.form == "equality" else edges[:0], len(edges))

    @one_blas_thread
    def progress(self, solution: Solution) -> dict[str, float]:
        """What to follow from round to round: how close the closest pair came, if `full`."""
        if self.all_pairs is None:
            return {}
        return {"closest pair": float(self.all_pairs.closeness(solution).min())}

    # -- what the program carries -----------------------------------------------------------

    def _notes(self) -> list[str]:
        notes = []
        flat = sum(part.null.shape[1] - 1 for part in self.parts)
        if flat:
            notes.append(f"facial reduction: rigid parts of the graph fix {flat} directions")
        merged = self.group.size - int(self.group.max()) - 1
        if merged:
            notes.append(f"{merged} points coincide with others and were merged")
        if len(self.parts) > 1:
            notes.append(f"{len(self.parts)} components were unfolded apart")
        return notes

    def _safe_bounds(self, d: Array) -> SafeBounds:
        n = self.neighborhood.n_points
        scale = float(d.sum()) / n
        if self.form == "slack":
            ω = self._omega_in_use()
            return SafeBounds(anchor=np.full(d.size, ω), value_scale=(1 - ω) * scale)
        trace = tuple(part.graph.variance_bound() for part in self.parts)
        connectivity = [part.graph.algebraic_connectivity() for part in self.parts]
        sizes = [part.graph.n_edges for part in self.parts]
        sign = -1.0 if self.form == "min_trace" else 1.0
        return SafeBounds(
            trace=trace if np.isfinite(trace).all() else None,
            direction=sign * np.repeat(1 / np.array(connectivity), sizes)
            if min(connectivity) > 0
            else np.zeros(d.size),
            anchor=np.zeros(d.size) if self.form == "min_trace" else None,
            value_scale=scale,
        )

    def to_cvxpy(self) -> Any:
        """The paper's model as a `cvxpy.Problem` over all points, for teaching and cross-checks.

        Its variable is named "K"; nothing is merged, reduced or scaled.
        """
        import cvxpy as cp

        n = self.neighborhood.n_points
        i, j = self.neighborhood.edges.T
        D = self.neighborhood.squared_lengths
        K = cp.Variable((n, n), PSD=True, name="K")
        length = cp.diag(K)[i] - 2 * K[i, j] + cp.diag(K)[j]
        labels = self.neighborhood.component_labels
        groups = labels if self.connect == "components" else np.zeros(n, dtype=int)
        limits = [cp.sum(K[np.ix_(groups == g, groups == g)]) == 0 for g in np.unique(groups)]
        if self.full:
            a, b = np.triu_indices(n, k=1)
            table = SquaredDistances.of(self.X, distances=self.distances, kernel=self.kernel)
            limits.append(cp.diag(K)[a] - 2 * K[a, b] + cp.diag(K)[b] >= table.between(a, b))
        gain = self._cvxpy_gain(K)
        if self.form == "equality":
            return cp.Problem(cp.Maximize(gain), [*limits, length == D])
        if self.form == "inequality":
            return cp.Problem(cp.Maximize(gain), [*limits, length <= D])
        if self.form == "min_trace":
            return cp.Problem(cp.Minimize(gain), [*limits, length == D])
        ω = self._omega_in_use()
        xi = cp.Variable(len(D), name="xi")
        objective = (1 - ω) * gain - ω * cp.norm1(xi)
        return cp.Problem(cp.Maximize(objective), [*limits, length == D + xi])

    @abstractmethod
    def _cvxpy_gain(self, K: Any) -> Any:
        """<C, K> over all points, as a cvxpy expression."""

    # -- the way back ------------------------------------------------------------------------

    @one_blas_thread
    def recover(self, solution: Solution, n_components: int | None = None) -> Embedding:
        """The embedding of a solution: coordinates, spectrum, tensions.

        Without `n_components` the dimension is where the spectrum breaks off. Fewer dimensions
        than K has lower the objective; `Embedding.notes` then says by how much.
        """
        sizes = [part.graph.n_points for part in self.parts]
        shapes = [m.shape for m in solution.matrices]
        if shapes != [(n, n) for n in sizes]:
            raise InputError(f"the solution has matrices {shapes}; this problem has sizes {sizes}")
        lengths = np.concatenate([part.graph.squared_lengths for part in self.parts])
        if not np.array_equal(solution.program.rhs[: lengths.size], lengths):
            raise InputError("the solution belongs to another problem: its edges differ from these")
        if not all(is_finite(m) for m in solution.matrices):
            raise InputError(
                f"the solution holds no matrix (status {solution.status}): {solution.message}"
            )
        K = self._full_kernel(solution.matrices)
        coordinates, eigenvalues = outputs(K, n_components)
        embedding = Embedding(
            coordinates,
            eigenvalues,
            self._edges(),
            None if solution.dual is None else solution.dual[: lengths.size],
            self.neighborhood.component_labels,
            self._inputs(),
            trace(K) if isinstance(K, Gram) else None,
        )
        return embedding.compared(solution, self.objective(embedding), self.value(solution))

    def value(self, solution: Solution) -> float:
        """The certified value of the objective."""
        return solution.objective

    @one_blas_thread
    def objective(self, embedding: Embedding) -> float:
        """The objective of any embedding: its gain; (1−ω)·gain − ω·Σ|ξ| with slack."""
        y = finite_rows(embedding.coordinates, embedding.n_components, "coordinates")
        gain = sum(self._gain(part, y[np.isin(self.group, part.nodes)]) for part in self.parts)
        if self.form != "slack":
            return gain
        ω, (i, j) = self._omega_in_use(), self._edges().T
        squared = np.concatenate([part.graph.squared_lengths for part in self.parts])
        stretch = np.square(y[i] - y[j]).sum(axis=1) - squared
        return (1 - ω) * gain - ω * float(np.abs(stretch).sum())

    @abstractmethod
    def _gain(self, part: Part, y: Array) -> float:
        """What the points of a part, (n, d), add to the objective."""

    @one_blas_thread
    def gram_matrix(self, solution: Solution) -> Matrix:
        """(n, n) K of a solution over all points, coincident ones included."""
        return self._full_kernel(solution.matrices)

    def _inputs(self) -> SquaredDistances | None:
        """The inputs by which `Embedding.extend` finds neighbours; a bare graph has none."""
        distances = None if sp.issparse(self.distances) else self.distances
        if self.X is None and distances is None and self.kernel is None:
            return None
        return SquaredDistances.of(self.X, distances=distances, kernel=self.kernel)

    def _full_kernel(self, matrices: tuple[Matrix, ...]) -> Matrix:
        """(n, n) Gram matrix over all points, each part centred on its points' mean."""
        n_nodes = int(self.group.max()) + 1
        if n_nodes == self.group.size and any(isinstance(m, Gram) for m in matrices):
            point = np.argsort(self.group)  # no points were merged: every node is one of them
            nodes = [point[part.nodes] for part in self.parts]
            return StackedGram(n_nodes, list(zip(matrices, nodes, strict=True)))
        K = np.zeros((n_nodes, n_nodes))
        for part, matrix in zip(self.parts, matrices, strict=True):
            # Coincident points count with their multiplicity: y_i ← y_i − Σ m_j y_j / Σ m_j.
            share = part.multiplicities / part.multiplicities.sum()
            matrix = np.asarray(matrix)
            shift = matrix @ share
            centred = matrix - shift[:, None] - shift[None, :] + share @ shift
            K[np.ix_(part.nodes, part.nodes)] = centred
        return K[np.ix_(self.group, self.group)]

    def _edges(self) -> Indices:
        """(m, 2) edges in the order of the program's constraints, as indices of points."""
        first = np.zeros(int(self.group.max()) + 1, dtype=np.int64)
        first[self.group[::-1]] = np.arange(self.group.size)[::-1]
        edges = [first[part.nodes[part.graph.edges]] for part in self.parts]
        return np.concatenate(edges).reshape(-1, 2)


def omega_threshold(connectivity: float) -> float:
    """The smallest ω for which the slack form is bounded: ω λ₂ = 1 − ω.

    >>> omega_threshold(4.0)
    0.2
    """
    return 1 / (1 + connectivity)


def omega_default(connectivity: float) -> float:
    """An ω well inside the bounded range: (1−ω)/ω = λ₂/4.

    At λ₂ the stiffest box |w_e| = ω only just holds the points together; from some smaller
    value 1/‖w*‖∞ downwards no edge gives and the form is the equality form again.
    """
    return 1 / (1 + connectivity / 4)
