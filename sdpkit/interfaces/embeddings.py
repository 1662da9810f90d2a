"""Manifold learning as scikit-learn estimators.

Each unfolds its training points by a semidefinite program. `transform` is a continuous map through
their coordinates: a training point gets its own coordinates back, and a point close to it lands
close by. The image of a point does not depend, to the last bit, on the other points of the call.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sdpkit.errors import InputError, PictureWarning
from sdpkit.graphs.build import neighborhood_graph
from sdpkit.graphs.chosen import Chosen, choose_form, choose_neighbors, short_cuts
from sdpkit.graphs.distances import SquaredDistances, squared_distances_of
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.graphs.joins import DEFAULT_JOINS
from sdpkit.inputs import finite_vector, indices, integer, one_of
from sdpkit.interfaces.fitting import CertifiedEstimator, seed_of
from sdpkit.problems.mve import MVE
from sdpkit.problems.mvu import MVU
from sdpkit.problems.variational import VariationalMVU
from sdpkit.results.diagnosis import MOST_POINTS, Diagnosis, diagnose
from sdpkit.results.embedding import Embedding
from sdpkit.results.quality import Quality, evaluate
from sdpkit.results.side_by_side import laid_out
from sdpkit.solution.solution import Status
from sdpkit.typing import Array

Connect = Literal["auto", "bridge", "components", "error"]
Metrics = Literal["euclidean", "precomputed", "precomputed_kernel"]
# Drawings of fewer points are not warned about: ranks of neighbours say little there.
_FEWEST_JUDGED = 20
# The argument of the problems that X is, by `metric`.
_DATA = {"euclidean": "X", "precomputed": "distances", "precomputed_kernel": "kernel"}

_ENDED_EARLY = (Status.TIME_LIMIT, Status.ITERATION_LIMIT, Status.INTERRUPTED)


@dataclass(kw_only=True, eq=False, repr=False)
class UnfoldingEstimator(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CertifiedEstimator, ABC
):
    """What the estimators of embeddings share.

    Parameters
    ----------
    solver : str, default "auto"
        A name from `sdpkit.available_solvers()`, or "auto".
    tol : float or None, default None
        The certified relative gap to reach; None takes the problem's default.
    max_iter : int or None, default None
        The limit on iterations; None leaves it to the solver.
    time_limit : float or None, default None
        The limit in seconds.
    verbose : int, default 0
        0 is silent; 1 prints a line that updates; 2 prints a line per iteration.
    callback : callable or None, default None
        Called with a mapping in every iteration; the solver stops if it returns True.
    on_interrupt : {"keep", "raise"}, default "keep"
        What Ctrl-C does: "keep" leaves a fitted estimator with the best point found and its
        certificate, "raise" raises `KeyboardInterrupt`.
    n_components : int, default 2
        The number of coordinates to keep.
    n_neighbors : int or "auto", default 4
        Neighbours whose distances are kept; at most n − 1 are used, with a warning. "auto" takes
        the smallest number that connects the points.
    radius : float or None, default None
        All points at most so far apart are neighbours, instead of `n_neighbors`.
    metric : {"euclidean", "precomputed", "precomputed_kernel"}, default "euclidean"
        "precomputed" if X holds distances, "precomputed_kernel" if it holds inner products.
    connect : {"auto", "bridge", "components", "error"}, default "auto"
        What to do with a graph of several components: join neighbouring ones by several short
        edges, with a warning ("auto"), or by a single edge ("bridge"); unfold each for itself and
        lay them out side by side ("components"); or refuse ("error").
    prune : {"off", "auto"}, default "off"
        Whether to remove edges that are short-cuts between places far apart along the graph.
    random_state : int or RandomState, default 0
        The seed of `connect="bridge"`.

    Attributes
    ----------
    embedding_ : array of shape (n, n_components)
        Coordinates of the training points.
    eigenvalues_ : array
        Eigenvalues of the Gram matrix, falling.
    kernel_ : array of shape (n, n)
        The Gram matrix.
    edges_ : array of int, shape (m, 2)
        The pairs of neighbours.
    tensions_ : array of shape (m,)
        Their dual variables.
    result_ : Embedding
        The result, which also draws itself.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.
    diagonal_ : array of shape (n,)
        Diagonal of the kernel, with `metric="precomputed_kernel"`.
    component_labels_ : array of int, shape (n,)
        The component of each point, before components were joined.
    choices_ : dict of str to Chosen
        What was chosen by the data, each with its reason.
    diagnosis_ : Diagnosis
        What the drawing shows and hides; what is wrong with it is a `PictureWarning` too.

    Examples
    --------
    >>> issubclass(MaximumVarianceUnfolding, UnfoldingEstimator)
    True
    """

    n_components: int = 2
    n_neighbors: int | Literal["auto"] = 4
    radius: float | None = None
    metric: Metrics = "euclidean"
    connect: Connect = "auto"
    prune: Literal["off", "auto"] = "off"
    random_state: Any = 0

    _saved: ClassVar[Mapping[str, Any]] = {
        **CertifiedEstimator._saved,
        "result_": Embedding,
        "diagonal_": np.ndarray,
        "component_labels_": np.ndarray,
        "choices_": dict,
    }

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Unfold points X, (n, d), or with `metric="precomputed"` distances, (n, n).

        Sparse distances are a graph: their entries are the lengths of its edges, as
        `sklearn.neighbors.kneighbors_graph(X, k, mode="distance")` makes them.
        """
        one_of(self.metric, "metric", tuple(_DATA))
        points = validate_data(
            self,
            X,
            dtype=np.float64,
            ensure_min_samples=2,
            ensure_non_negative=self.metric == "precomputed",
            accept_sparse="csr" if self.metric == "precomputed" else False,
        )
        if self.metric != "euclidean" and points.shape[0] != points.shape[1]:
            raise InputError(
                f"X has shape {points.shape}, and metric={self.metric!r} needs a square matrix"
            )
        integer(self.n_components, "n_components", most=points.shape[0])
        data: dict[str, Any] = {_DATA[self.metric]: points}
        if self.metric == "precomputed_kernel":
            self.diagonal_ = points.diagonal().copy()
        self.choices_: dict[str, Chosen] = {}
        graph = self._graph(data, points.shape[0])
        if sparse.issparse(points):
            data = {}  # a graph of lengths; nothing else is known
        self._solve(self._problem(data, graph))
        self.result_ = self._recover()
        self._name_parts()
        self._warn()
        return self

    def _warn(self) -> None:
        """One warning for all that is wrong with the drawing; limits have their own."""
        if (
            self.solution_.status in _ENDED_EARLY
            or not _FEWEST_JUDGED <= len(self.embedding_) <= MOST_POINTS
            or not np.isfinite(self.embedding_).all()
            or self.result_.inputs is None
        ):
            return
        wrong = self.diagnosis_.warnings
        if wrong:
            warnings.warn(f"picture: {'; '.join(wrong)}", PictureWarning, stacklevel=3)

    @property
    def diagnosis_(self) -> Diagnosis:
        """What the drawing shows and hides: trust and continuity beside PCA and Isomap, points
        drawn over others, parts on one edge, dimensions needed (`sdpkit.results.diagnosis`)."""
        check_is_fitted(self)
        return diagnose(self.result_)

    @property
    def explained_variance_ratio_(self) -> Array:
        """(n_components,) the share of the unfolded variance that each coordinate holds."""
        check_is_fitted(self)
        total = self.result_.variance
        total = float(self.eigenvalues_.sum()) if total is None else total
        return np.asarray(self.eigenvalues_[: self.embedding_.shape[1]] / (total or 1.0))

    def plot(self, y: ArrayLike | None = None, ax: Any = None, *, edges: bool = True) -> Any:
        """Draw the first two coordinates, coloured by labels or numbers y, (n,). Needs matplotlib.

        Parameters
        ----------
        y : array-like of shape (n,) or None, default None
            Labels, one colour each, or numbers.
        ax : matplotlib axes or None, default None
            Where to draw; None makes a figure.
        edges : bool, default True
            Whether to draw the edges of the graph.

        Returns
        -------
        matplotlib axes
            The picture.
        """
        check_is_fitted(self)
        from sdpkit.plotting import plot_labelled

        return plot_labelled(self.result_, y, ax, edges=edges)

    def _name_parts(self) -> None:
        self.embedding_ = self.result_.coordinates
        self.eigenvalues_ = self.result_.eigenvalues
        self.edges_ = self.result_.edges
        self.tensions_ = self.result_.tensions

    def _restore(self) -> None:
        super()._restore()
        one_of(self.metric, "metric", tuple(_DATA))
        n, inputs = len(self.result_.coordinates), self.result_.inputs
        if inputs is None or (inputs.points is None) != (self.metric != "euclidean"):
            raise InputError(f"its result_ does not hold the inputs of metric={self.metric!r}")
        width = n if inputs.points is None else inputs.points.shape[1]
        if width != self.n_features_in_:
            raise InputError(f"n_features_in_ is {self.n_features_in_}; its inputs have {width}")
        if self.metric == "precomputed_kernel":
            self.diagonal_ = finite_vector(self.diagonal_, n, "diagonal_")
        labels = vars(self).get("component_labels_")
        self.component_labels_ = indices(labels, (n,), n, "component_labels_")
        self.choices_ = {name: _chosen(name, pair) for name, pair in self.choices_.items()}
        self._name_parts()

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Array:
        """Unfold X and return its coordinates, (n, n_components)."""
        return self.fit(X).embedding_

    def transform(self, X: ArrayLike, diagonal: ArrayLike | None = None) -> Array:
        """Coordinates of points X, (t, d); precomputed, of their distances to all n, (t, n).

        The map is continuous. It takes each training point to its row of `embedding_` (of training
        points that coincide, to the first one's) and interpolates between them. Flat data, which
        need no more than `n_components` dimensions, are continued exactly. Near a training point
        images move at most 5 times as fast as points, both measured in median distances between
        nearest neighbours. The first call sets up the map. `result_.extend(X, method="sdp")` is the
        published program instead.

        With `metric="precomputed_kernel"` X holds the kernel between new and training points, and
        `diagonal`, (t,), that of each new point with itself. It may be left out where the kernel
        of every point with itself is the same, as it is for Gaussian kernels.
        """
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=np.float64)
        if self.metric == "precomputed_kernel":
            own = self._own_kernel(len(points), diagonal)
            squares = squared_distances_of(points, own, self.diagonal_)
            return self.result_.extend(distances=np.sqrt(squares))
        if diagonal is not None:
            raise InputError(f"diagonal belongs to a kernel; metric is {self.metric!r}")
        if self.metric == "precomputed":
            return self.result_.extend(distances=points)
        return self.result_.extend(points)

    def _own_kernel(self, count: int, diagonal: ArrayLike | None) -> Array:
        """(t,) the kernel of each new point with itself."""
        if diagonal is not None:
            return finite_vector(diagonal, count, "diagonal")
        first = float(self.diagonal_[0])
        if not np.allclose(self.diagonal_, first, rtol=1e-12, atol=0):
            raise InputError(
                "the distance of a new point needs its kernel with itself, k(x, x), which differs "
                f"from point to point here: pass transform(X, diagonal=…), ({count},)"
            )
        return np.full(count, first)

    def quality(self, n_neighbors: int = 5) -> Quality:
        """The thesis's measures of the training embedding: local continuity, local trust and
        neighbourhood intersection."""
        check_is_fitted(self)
        if self.metric == "precomputed_kernel":
            raise InputError("quality compares distances: fit with metric='precomputed'")
        problem = self.problem_
        return evaluate(problem.X, self.embedding_, n_neighbors, distances=problem.distances)

    @property
    def kernel_(self) -> Any:
        """(n, n) the Gram matrix of the unfolded points; for large graphs an operator."""
        check_is_fitted(self)
        return self.problem_.gram_matrix(self.solution_)

    @abstractmethod
    def _problem(self, data: dict[str, Any], graph: NeighborhoodGraph) -> Any:
        """The problem whose solution is the embedding."""

    def _recover(self) -> Embedding:
        if self.connect == "components" and self.component_labels_.any():
            n = self.component_labels_.size
            d = integer(self.n_components, "n_components", most=n)
            parts = laid_out(self.problem_.recover(self.solution_, n), d)
            problem, solution = self.problem_, self.solution_
            return parts.compared(solution, problem.objective(parts), problem.value(solution))
        embedding: Embedding = self.problem_.recover(self.solution_, self.n_components)
        return embedding

    def _graph(self, data: dict[str, Any], n: int) -> NeighborhoodGraph:
        """The neighbourhood graph, before it is joined; a warning says that it will be."""
        rule: dict[str, Any] = {"radius": self.radius}
        if any(map(sparse.issparse, data.values())):
            rule = {}  # its entries are the edges
        elif self.radius is None:
            rule = {"n_neighbors": self._n_neighbors(data, n)}
        graph = neighborhood_graph(**data, **rule, angles=getattr(self, "angles", False))
        one_of(self.prune, "prune", ("off", "auto"))
        if self.prune == "auto":
            graph = self._pruned(graph)
        self.component_labels_ = graph.component_labels
        if not graph.is_connected and self.connect in ("auto", "bridge"):
            warnings.warn(self._about_joins(graph), stacklevel=4)
        return graph

    def _n_neighbors(self, data: dict[str, Any], n: int) -> int:
        if self.n_neighbors != "auto":
            return self._clipped(n)
        self.choices_["n_neighbors"] = choose_neighbors(SquaredDistances.of(**data))
        return int(self.choices_["n_neighbors"].value)

    def _pruned(self, graph: NeighborhoodGraph) -> NeighborhoodGraph:
        """The graph without short-cuts."""
        cut = short_cuts(graph)
        words = f"{int(cut.sum())} of {graph.n_edges} edges are short-cuts and were removed"
        self.choices_["prune"] = Chosen(int(cut.sum()), words)
        return graph.without_edges(cut)

    def _chosen_form(self, data: dict[str, Any], graph: NeighborhoodGraph) -> Any:
        """The form, given or chosen by the data."""
        form = getattr(self, "form", None)
        if form != "auto":
            return form
        joined = not graph.is_connected and self.connect in ("auto", "bridge")
        if not data:
            self.choices_["form"] = Chosen("equality", "only the lengths of the edges are known")
        else:
            self.choices_["form"] = choose_form(SquaredDistances.of(**data), joined)
        return self.choices_["form"].value

    def _about_joins(self, graph: NeighborhoodGraph) -> str:
        """The warning about a graph that has to be joined."""
        sizes = graph.component_sizes.tolist()
        shown = ", ".join(map(str, sizes[:6])) + (", …" if len(sizes) > 6 else "")
        several = f"the neighbourhood graph has {len(sizes)} components (sizes {shown})"
        if self.connect == "bridge":
            return (
                f"picture distorted: {several}, and each hangs on one edge, which is pulled taut. "
                "Use connect='auto' or 'components', or raise n_neighbors."
            )
        return (
            f"{several}, and neighbouring ones were joined by up to {DEFAULT_JOINS} short edges: "
            "how they lie to each other is approximate. connect='components' unfolds each for "
            "itself; a larger n_neighbors may connect them."
        )

    def _clipped(self, n: int) -> int:
        k = integer(self.n_neighbors, "n_neighbors")
        if k > n - 1:
            warnings.warn(
                f"n_neighbors is {k}, and {n} points have {n - 1} others each: using {n - 1}",
                stacklevel=5,
            )
        return min(k, n - 1)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric != "euclidean"
        tags.input_tags.positive_only = self.metric == "precomputed"
        return tags


def _chosen(name: str, pair: Any) -> Chosen:
    """A choice as a file holds it."""
    one_of(name, "choices_", ("n_neighbors", "prune", "form"))
    if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str)):
        raise InputError(f"choices_[{name!r}] is not a value and its reason")
    if isinstance(pair[0], bool) or not isinstance(pair[0], int | str):
        raise InputError(f"choices_[{name!r}] is neither a whole number nor a text")
    return Chosen(pair[0], pair[1])


@dataclass(kw_only=True, eq=False, repr=False)
class MaximumVarianceUnfolding(UnfoldingEstimator):
    """Maximum variance unfolding (MVU): keep the lengths to neighbours, pull everything apart.

    Parameters
    ----------
    solver : str, default "auto"
        See `CertifiedEstimator`.
    tol : float or None, default None
        See `CertifiedEstimator`.
    max_iter : int or None, default None
        See `CertifiedEstimator`.
    time_limit : float or None, default None
        See `CertifiedEstimator`.
    verbose : int, default 0
        See `CertifiedEstimator`.
    callback : callable or None, default None
        See `CertifiedEstimator`.
    on_interrupt : {"keep", "raise"}, default "keep"
        See `CertifiedEstimator`.
    n_components : int, default 2
        The number of coordinates to keep.
    n_neighbors : int or "auto", default 4
        Neighbours whose distances are kept; at most n − 1 are used, with a warning. "auto" takes
        the smallest number that connects the points.
    radius : float or None, default None
        All points at most so far apart are neighbours, instead of `n_neighbors`.
    metric : {"euclidean", "precomputed", "precomputed_kernel"}, default "euclidean"
        "precomputed" if X holds distances, "precomputed_kernel" if it holds inner products.
    connect : {"auto", "bridge", "components", "error"}, default "auto"
        What to do with a graph of several components: join neighbouring ones by several short
        edges, with a warning ("auto"), or by a single edge ("bridge"); unfold each for itself and
        lay them out side by side ("components"); or refuse ("error").
    prune : {"off", "auto"}, default "off"
        Whether to remove edges that are short-cuts between places far apart along the graph.
    random_state : int or RandomState, default 0
        The seed of `connect="bridge"`.
    form : {"auto", "equality", "inequality", "slack", "min_trace"}, default "equality"
        How lengths are kept: exactly ("equality"), as upper bounds ("inequality"), up to penalised
        slack variables ("slack"), or exactly with the least instead of the largest variance
        ("min_trace"). "auto" keeps lengths where neighbourhoods are flat and bounds them where they
        are noisy.
    omega : float or None, default None
        The weight of the slack form; None chooses one.
    angles : bool, default False
        Whether to keep the angles between neighbours too.

    Attributes
    ----------
    embedding_ : array of shape (n, n_components)
        Coordinates of the training points.
    eigenvalues_ : array
        Eigenvalues of the Gram matrix, falling.
    kernel_ : array of shape (n, n)
        The Gram matrix.
    edges_ : array of int, shape (m, 2)
        The pairs of neighbours.
    tensions_ : array of shape (m,)
        Their dual variables.
    result_ : Embedding
        The result, which also draws itself.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> from sdpkit.datasets import swiss_roll
    >>> X = swiss_roll(60, random_state=0)
    >>> mvu = MaximumVarianceUnfolding(n_components=2, n_neighbors=4).fit(X[:50])
    >>> mvu.embedding_.shape, mvu.transform(X[50:]).shape
    ((50, 2), (10, 2))
    >>> mvu.certificate_.relative_gap < 1e-6
    True
    """

    form: Literal["auto", "equality", "inequality", "slack", "min_trace"] = "equality"
    omega: float | None = None
    angles: bool = False

    def _problem(self, data: dict[str, Any], graph: NeighborhoodGraph) -> Any:
        return MVU(
            **data,
            graph=graph,
            connect=self.connect,
            form=self._chosen_form(data, graph),
            omega=self.omega,
            random_state=seed_of(self.random_state),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class MinimumVolumeEmbedding(UnfoldingEstimator):
    """Minimum volume embedding (MVE): MVU that squeezes all but `n_components` dimensions.

    The problem is not convex; `solution_.trajectory` lists its steps, each of them certified.

    Parameters
    ----------
    solver : str, default "auto"
        See `CertifiedEstimator`.
    tol : float or None, default None
        See `CertifiedEstimator`.
    max_iter : int or None, default None
        See `CertifiedEstimator`.
    time_limit : float or None, default None
        See `CertifiedEstimator`.
    verbose : int, default 0
        See `CertifiedEstimator`.
    callback : callable or None, default None
        See `CertifiedEstimator`.
    on_interrupt : {"keep", "raise"}, default "keep"
        See `CertifiedEstimator`.
    n_components : int, default 2
        The dimensions to pull in, and the coordinates to keep.
    n_neighbors : int or "auto", default 4
        Neighbours whose distances are kept; at most n − 1 are used, with a warning. "auto" takes
        the smallest number that connects the points.
    radius : float or None, default None
        All points at most so far apart are neighbours, instead of `n_neighbors`.
    metric : {"euclidean", "precomputed", "precomputed_kernel"}, default "euclidean"
        "precomputed" if X holds distances, "precomputed_kernel" if it holds inner products.
    connect : {"auto", "bridge", "components", "error"}, default "auto"
        What to do with a graph of several components: join neighbouring ones by several short
        edges, with a warning ("auto"), or by a single edge ("bridge"); unfold each for itself and
        lay them out side by side ("components"); or refuse ("error").
    prune : {"off", "auto"}, default "off"
        Whether to remove edges that are short-cuts between places far apart along the graph.
    random_state : int or RandomState, default 0
        The seed of bridging and of start="random".
    form : {"equality", "inequality", "slack"}, default "equality"
        As in `MaximumVarianceUnfolding`.
    omega : float or None, default None
        The weight of the slack form; None chooses one.
    angles : bool, default False
        Whether to keep the angles between neighbours too.
    start : {"kernel", "mvu", "random"}, default "kernel"
        Where the search begins: the input's "kernel", "mvu" or "random".
    min_gain : float, default 0.0001
        Stop when a step gains no more than this share of the objective.
    max_steps : int, default 50
        Programs solved at most.

    Attributes
    ----------
    embedding_ : array of shape (n, n_components)
        Coordinates of the training points.
    eigenvalues_ : array
        Eigenvalues of the Gram matrix, falling.
    kernel_ : array of shape (n, n)
        The Gram matrix.
    edges_ : array of int, shape (m, 2)
        The pairs of neighbours.
    tensions_ : array of shape (m,)
        Their dual variables.
    result_ : Embedding
        The result, which also draws itself.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> from sdpkit.datasets import swiss_roll
    >>> X = swiss_roll(40, random_state=0)
    >>> mve = MinimumVolumeEmbedding(n_components=2).fit(X)
    >>> mvu = MaximumVarianceUnfolding(n_components=2).fit(X)
    >>> mve.result_.fidelity > mvu.result_.fidelity
    True
    """

    form: Literal["auto", "equality", "inequality", "slack"] = "equality"
    omega: float | None = None
    angles: bool = False
    start: Literal["kernel", "mvu", "random"] = "kernel"
    min_gain: float = 1e-4
    max_steps: int = 50

    def _problem(self, data: dict[str, Any], graph: NeighborhoodGraph) -> Any:
        return MVE(
            **data,
            graph=graph,
            connect=self.connect,
            form=self._chosen_form(data, graph),
            omega=self.omega,
            n_components=self.n_components,
            start=self.start,
            min_gain=self.min_gain,
            max_steps=self.max_steps,
            random_state=seed_of(self.random_state),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class VariationalMaximumVarianceUnfolding(UnfoldingEstimator):
    """MVU in a basis of smooth functions on the graph, for thousands of points.

    The certificate is that of the small program; the refined coordinates are a local optimum.

    Parameters
    ----------
    solver : str, default "auto"
        See `CertifiedEstimator`.
    tol : float or None, default None
        See `CertifiedEstimator`.
    max_iter : int or None, default None
        See `CertifiedEstimator`.
    time_limit : float or None, default None
        See `CertifiedEstimator`.
    verbose : int, default 0
        See `CertifiedEstimator`.
    callback : callable or None, default None
        See `CertifiedEstimator`.
    on_interrupt : {"keep", "raise"}, default "keep"
        See `CertifiedEstimator`.
    n_components : int, default 2
        The number of coordinates to keep.
    n_neighbors : int or "auto", default 4
        Neighbours whose distances are kept; at most n − 1 are used, with a warning. "auto" takes
        the smallest number that connects the points.
    radius : float or None, default None
        All points at most so far apart are neighbours, instead of `n_neighbors`.
    metric : {"euclidean", "precomputed", "precomputed_kernel"}, default "euclidean"
        "precomputed" if X holds distances, "precomputed_kernel" if it holds inner products.
    connect : {"auto", "bridge", "error"}, default "auto"
        What to do with a graph of several components: join them as in `MaximumVarianceUnfolding`,
        or refuse.
    prune : {"off", "auto"}, default "off"
        Whether to remove edges that are short-cuts between places far apart along the graph.
    random_state : int or RandomState, default 0
        The seed of `connect="bridge"`.
    n_basis : int, default 10
        Functions in the basis; at most n − 1 are used.
    penalty : {"squared", "norm"}, default "squared"
        Whether the squares of the residuals are penalised or their Euclidean norm.
    omega : float or None, default None
        The weight of the lengths; None chooses one.
    refine : bool, default True
        Whether to search on from the program's answer, in `n_components` dimensions, over all
        points.

    Attributes
    ----------
    embedding_ : array of shape (n, n_components)
        Coordinates of the training points.
    eigenvalues_ : array
        Eigenvalues of the Gram matrix, falling.
    kernel_ : array of shape (n, n)
        The Gram matrix.
    edges_ : array of int, shape (m, 2)
        The pairs of neighbours.
    tensions_ : array of shape (m,)
        Their dual variables.
    result_ : Embedding
        The result, which also draws itself.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> from sdpkit.datasets import swiss_roll
    >>> X = swiss_roll(300, random_state=0)
    >>> model = VariationalMaximumVarianceUnfolding(n_neighbors=6).fit(X)
    >>> model.quality().local_continuity > 0.9
    True
    """

    n_basis: int = 10
    penalty: Literal["squared", "norm"] = "squared"
    omega: float | None = None
    refine: bool = True
    connect: Literal["auto", "bridge", "error"] = "auto"

    def _problem(self, data: dict[str, Any], graph: NeighborhoodGraph) -> Any:
        return VariationalMVU(
            **data,
            graph=graph,
            connect=self.connect,
            n_basis=min(integer(self.n_basis, "n_basis"), graph.n_points - 1),
            penalty=self.penalty,
            omega=self.omega,
            random_state=seed_of(self.random_state),
        )

    def _recover(self) -> Embedding:
        if not self.refine:
            return super()._recover()
        embedding: Embedding = self.problem_.refine(self.solution_, self.n_components)
        return embedding
