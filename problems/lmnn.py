"""Large margin nearest neighbour classification (Weinberger 2007, section 2.1).

Target neighbours j ⇝ i (same label, nearest at first) are pulled to x_i; impostors l (another
label) are pushed a unit of squared distance beyond them. With C_ij = (x_i−x_j)(x_i−x_j)ᵀ and
P = Σ_{j⇝i} C_ij the problem is convex in M:

    minimise    (1−μ) <M, P> + μ Σ_{j⇝i, l} [1 + <M, C_ij − C_il>]₊
    subject to  M ⪰ 0

Dual, one multiplier per triplet t = (i, j, l):

    maximise    Σα_t   subject to  0 ≤ α_t ≤ μ,  (1−μ)P + Σα_t (C_ij − C_il) ⪰ 0

With several metrics the distance to a point is measured by the metric of that point's cluster
(eq. 2.17), P and the dual constraint are split accordingly, and all are learned in one program.

**Coordinates.** The problem does not change under x → Tᵀx, M → T⁻¹MT⁻ᵀ, so it is stated in
coordinates in which (1−μ)P = I: without this, first-order methods hardly move. Along a direction N
in null(P) target neighbours do not differ, and M + t·NNᵀ costs nothing: it satisfies every triplet
with Nᵀ(x_i − x_l) ≠ 0 once t is large enough, and these have α = 0. They are left out, the rest is
solved in range(P), and `recover` adds t·NNᵀ with the least t that keeps the objective within the
certified gap (`sdpkit.problems.free_directions`). With several metrics each has its own P and N:
a longer metric of one block only pushes points of that block, and pulls none. A `ridge`·tr M in
the objective is another problem.

**Kernels.** With kernel-PCA features of full rank every class can collapse to a point, and the
optimum says nothing: kernel LMNN needs a `rank`, or a ridge.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit import stored
from sdpkit.errors import InputError
from sdpkit.inputs import (
    finite_matrix,
    finite_points,
    integer,
    one_of,
    read_only,
    require_moderate,
    set_fields,
)
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.early_stopping import EarlyStopping
from sdpkit.problems.free_directions import (
    Coordinates,
    LeftOut,
    Pull,
    allowance,
    free_note,
    length_notes,
    no_variation,
)
from sdpkit.problems.kernel_map import kernel_pca_map
from sdpkit.program.compilation import minimise
from sdpkit.program.expressions import Unknown
from sdpkit.program.families import RowFamily, Rows, nearby_scale
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix
from sdpkit.program.impostors import Impostors, ordered_target_pairs
from sdpkit.program.listed_rows import ListedRows
from sdpkit.program.safe import SafeBounds
from sdpkit.results.metric import Metric, factor
from sdpkit.results.targets import given_targets, nearest_in_class, target_neighbors, target_table
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Indices

# Entries of the largest cvxpy model that is built.
MODEL_ENTRIES = 2e7


@dataclass(frozen=True, eq=False, repr=False)
class LMNN:
    """Large margin nearest neighbours.

    Parameters
    ----------
    X : array-like of shape (n, D) or None, default None
        Points; also a memory-mapped array, a list of paths of .npy files, the path of a folder of
        .parquet files, or a Dask array, whose parts are read one by one (`sdpkit.stored`).
    y : array-like of shape (n,) or None, default None
        Labels of any kind.
    kernel : array-like of shape (n, n) or None, default None
        Gram matrix instead of X; needs `rank` or `ridge`.
    rank : int or None, default None
        The number of kernel-PCA features.
    triplets : array-like of shape (m, 3) or None, default None
        Rows (i, j, l) instead of labels, j to be nearer to i than l.
    n_neighbors : int, default 3
        k target neighbours per point, nearest in Euclidean distance, ties by index. A class with
        fewer than k + 1 members uses all of its others; a class of one has no targets but its point
        is an impostor to the rest.
    targets : array-like of shape (n, k) or None, default None
        Target neighbours instead, −1 where there are fewer.
    mu : float, default 0.5
        μ, the weight of the push term; the pull term has 1 − μ.
    ridge : float, default 0.0
        Add ridge·tr M to the objective.
    metrics : {"single", "per_class"} or int or array-like, default "single"
        "single", "per_class", a number of k-means clusters, or (n,) cluster numbers.
    n_components : int or None, default None
        Rows of a rectangular L; the problem is then not convex and its solution local.
    search : {"auto", "blocks", "tree"}, default "auto"
        How impostors are found, "auto", "blocks" or "tree"; the result is the same.
    random_state : int, default 0
        The seed of k-means.
    memory_limit : float or str or None, default None
        Bytes, or a text such as "4GiB": arrays that would take an eighth of it are kept in
        temporary files, and searches keep pairs in a quarter of it. None for a quarter of the free
        memory, without temporary files.

    Attributes
    ----------
    points : array of shape (n, D)
        X, or the kernel, as a read-only copy.
    classes : NDArray
        (c,) the labels in order.
    labels : array of int, shape (n,)
        Their numbers.
    target_pairs : array of int, shape (p, 2)
        Pairs (i, j), j a target neighbour of i.
    block_of : array of int, shape (n,)
        The metric by which the distance to a point is measured.

    Examples
    --------
    >>> import sdpkit
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> problem = LMNN(X, y, n_neighbors=3)
    >>> solution = sdpkit.solve(problem)
    >>> solution.status.value, solution.certificate.relative_gap < 1e-3
    ('optimal', True)
    >>> metric = problem.recover(solution)
    >>> metric
    <Metric: metric of rank 4 in 4 dimensions, 150 training points>
    >>> metric.leave_one_out_error() < 0.04
    True
    """

    X: Any = None
    y: Any = None
    _: KW_ONLY
    kernel: Any = None
    rank: int | None = None
    triplets: ArrayLike | None = None
    n_neighbors: int = 3
    targets: ArrayLike | None = None
    mu: float = 0.5
    ridge: float = 0.0
    metrics: Literal["single", "per_class"] | int | ArrayLike = "single"
    n_components: int | None = None
    search: Literal["auto", "blocks", "tree"] = "auto"
    random_state: int = 0
    memory_limit: float | str | None = None
    points: Array = field(init=False)
    classes: NDArray[Any] = field(init=False)
    labels: Indices = field(init=False)
    target_pairs: Indices = field(init=False)

    default_tol = 1e-3

    @one_blas_thread
    def __post_init__(self) -> None:
        self._check_numbers()
        with self._limited():
            set_fields(self, points=self._inputs())
            classes, labels = self._classes()
            set_fields(self, classes=classes, labels=labels)
            set_fields(self, target_pairs=self._target_pairs())
        self._check_metrics()

    def _limited(self) -> AbstractContextManager[None]:
        """Large arrays made inside are kept on disk."""
        return stored.memory_limit(stored.bytes_of(self.memory_limit))

    # -- the data ----------------------------------------------------------------------------

    def _check_numbers(self) -> None:
        if not isinstance(self.mu, Real) or not 0 < self.mu < 1:
            raise InputError(f"mu is {self.mu!r}; it must be a number between 0 and 1")
        if not isinstance(self.ridge, Real) or not 0 <= self.ridge < np.inf:
            raise InputError(f"ridge is {self.ridge!r}; it must be a nonnegative number")
        for name in ("n_neighbors", "n_components", "rank"):
            value = getattr(self, name)
            if name == "n_neighbors" or value is not None:
                integer(value, name)
        one_of(self.search, "search", ("auto", "blocks", "tree"))

    def _inputs(self) -> Array:
        if (self.X is None) == (self.kernel is None):
            given = "neither" if self.X is None else "both"
            raise InputError(f"pass the points X or a kernel matrix, not both; {given} was given")
        if self.kernel is None:
            if self.rank is not None:
                raise InputError("rank belongs to a kernel; reduce the points X by PCA first")
            if not stored.is_stored(self.X):
                return finite_points(self.X, "X")
            points = stored.points_of(self.X)
            require_moderate(stored.largest(points), "X")
            return points
        K = read_only(finite_matrix(self.kernel, "kernel"))
        if K.shape[0] != K.shape[1] or not np.allclose(K, K.T, atol=1e-8 * np.abs(K).max()):
            raise InputError(f"the kernel has shape {K.shape}; it must be square and symmetric")
        if self.rank is None and not self.ridge:
            raise InputError(
                "LMNN on all features of a kernel is degenerate: every class can collapse to a "
                "point, and the optimum is 0. Pass rank (the number of kernel-PCA features) or "
                "ridge."
            )
        return K

    def _classes(self) -> tuple[NDArray[Any], Indices]:
        n = self.points.shape[0]
        if self.y is None:
            if self.triplets is None:
                raise InputError("LMNN needs labels y, or triplets; neither was given")
            return np.zeros(1, dtype=np.int64), np.zeros(n, dtype=np.int64)
        y = np.asarray(stored.labels_of(self.y))
        if y.shape != (n,):
            raise InputError(f"y has shape {y.shape}, expected ({n},): one label per point")
        # What differs from itself is NaN, or a date that is not one.
        if np.any(y != y) or (y.dtype.kind == "f" and not np.isfinite(y).all()):
            raise InputError("y contains NaN or infinite labels")
        try:
            classes, labels = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise InputError(f"the labels y cannot be put in order: {error}") from error
        if classes.size < 2 and self.triplets is None:
            raise InputError(
                f"all points have the label {classes[0]}; LMNN needs points of two classes"
            )
        return classes, labels.astype(np.int64)

    def _target_pairs(self) -> Indices:
        if self.triplets is not None:
            listed = ListedRows.of(self.triplets, self.points.shape[0])
            return np.unique(listed.triplets[:, :2], axis=0)
        if self.targets is None:
            pairs = target_neighbors(self._distance_features, self.labels, self.n_neighbors)
        else:
            pairs = given_targets(self.targets, self.points.shape[0])
        if not pairs.size:
            raise InputError("no class has two members, so that there are no target neighbours")
        return ordered_target_pairs(pairs, self.labels)

    def _check_metrics(self) -> None:
        n = self.points.shape[0]
        if isinstance(self.metrics, str):
            if self.metrics not in ("single", "per_class"):
                raise InputError(
                    f"metrics is {self.metrics!r}; use 'single', 'per_class', a number of "
                    "clusters, or one cluster number per point"
                )
            return
        clusters = np.asarray(self.metrics)
        if clusters.dtype.kind not in "iu":
            raise InputError(f"metrics is of type {clusters.dtype.name}, expected whole numbers")
        if clusters.ndim == 0 and not 1 <= int(clusters) <= n:
            raise InputError(f"metrics is {clusters}; k-means makes 1 … {n} clusters")
        if clusters.ndim > 0 and clusters.shape != (n,):
            raise InputError(f"metrics has shape {clusters.shape}, expected ({n},) clusters")

    @cached_property
    def block_of(self) -> Indices:
        """(n,) the metric by which the distance to a point is measured."""
        if isinstance(self.metrics, str):
            return self.labels if self._per_class else np.zeros_like(self.labels)
        clusters = np.asarray(self.metrics)
        found = self._clusters(int(clusters)) if clusters.ndim == 0 else clusters
        return np.unique(found, return_inverse=True)[1].astype(np.int64)

    @one_blas_thread
    def _clusters(self, count: int) -> Indices:
        """(n,) the best of ten runs of k-means."""
        from sklearn.cluster import KMeans

        random, best = np.random.RandomState(self.random_state), None
        for _ in range(10):
            continue_or_raise()
            found = KMeans(count, n_init=1, random_state=random).fit(self.features)
            # The same clusters by another way differ by rounding, and in their numbers.
            if best is None or found.inertia_ < (1 - 1e-12) * best.inertia_:
                best = found
        assert best is not None
        return np.asarray(best.labels_)

    @cached_property
    def kernel_map(self) -> Array | None:
        """(n, rank) A with features K A: kernel PCA, its columns orthogonal to the constant."""
        if self.kernel is None:
            return None
        return kernel_pca_map(self.points, self.rank, self.ridge)

    @cached_property
    def features(self) -> Array:
        """(n, D) the points, or the kernel-PCA features; centred."""
        points = self.points if self.kernel_map is None else self.points @ self.kernel_map
        with self._limited():
            return stored.centred(points)

    @property
    def _distance_features(self) -> Array:
        """The points in which target neighbours are nearest; not centred, integers tie exactly."""
        return self.points if self.kernel_map is None else self.features

    # -- the program -------------------------------------------------------------------------

    @property
    def _per_class(self) -> bool:
        return isinstance(self.metrics, str) and self.metrics == "per_class"

    @property
    def n_metrics(self) -> int:
        """The number of blocks."""
        return int(self.block_of.max()) + 1

    @cached_property
    def coordinates(self) -> tuple[Coordinates, ...]:
        """How each block sees the inputs (`sdpkit.problems.free_directions`)."""
        with self._limited():
            return tuple(self._coordinates(block) for block in range(self.n_metrics))

    def _coordinates(self, block: int) -> Coordinates:
        pull = Pull(
            self.features,
            np.finfo(np.float64).eps * stored.largest(self._distance_features),
            self.target_pairs[self.block_of[self.target_pairs[:, 1]] == block],
            1 - self.mu,
            self.ridge,
        )
        # A limited rank leaves no free directions to add.
        return pull.coordinates(split=self.n_components is None)

    @property
    def _free(self) -> int:
        """The number of directions that satisfy some triplets at no cost."""
        return sum(c.n_free for c in self.coordinates)

    @cached_property
    def family(self) -> RowFamily:
        """The triplets that the program counts: all but those satisfied at no cost."""
        if self.triplets is not None:
            return self._listed()
        groups = np.array([c.groups for c in self.coordinates])
        return self._impostors(groups if groups.any() else None)

    def _impostors(self, groups: Indices | None) -> Impostors:
        """Labels and pairs were checked, and put in order, when the problem was made."""
        return Impostors(
            self.target_pairs,
            self.labels,
            float(self.mu),
            self.block_of,
            groups,
            self.search,
            memory=stored.bytes_of(self.memory_limit),
        )

    def _listed(self) -> RowFamily:
        t = np.asarray(self.triplets, dtype=np.int64)
        groups = np.array([c.groups for c in self.coordinates])[self.block_of[t[:, 2]]]
        each = np.arange(len(t))
        bound = groups[each, t[:, 0]] == groups[each, t[:, 2]]
        if not bound.any():
            raise InputError(
                "there is nothing to learn: every triplet is satisfied at no cost, since i and j "
                "agree along a direction in which l differs from them"
            )
        return ListedRows.of(t[bound], len(self.points), weight=self.mu, block_of=self.block_of)

    @one_blas_thread
    def program(self) -> Program:
        """The problem in the common form, whitened: every cost is the identity."""
        if self.n_components is not None and any(c.groups.any() for c in self.coordinates):
            raise InputError(
                f"{no_variation(self._free)}, whose weight is not bounded: n_components cannot "
                "be used. Remove such features, or pass a ridge."
            )
        metrics = [
            Unknown(name, features=c.inputs, max_rank=self.n_components)
            for name, c in zip(self._names, self.coordinates, strict=True)
        ]
        return minimise(
            sum(M.trace() for M in metrics),  # (1−μ)P = I in these coordinates
            family=self.family,  # μ Σ[1 + q_ij − q_il]₊
            safe=SafeBounds(value_scale=self.mu),
            notes=[free_note(self._free)] if self._free else [],
            name="LMNN" if self.n_metrics == 1 else f"LMNN with {self.n_metrics} metrics",
        )

    @property
    def _names(self) -> list[str]:
        return ["M"] if self.n_metrics == 1 else [f"M{k + 1}" for k in range(self.n_metrics)]

    def to_cvxpy(self) -> Any:
        """The paper's model with a slack per triplet, in the original coordinates.

        Every triplet is written, also those that `program()` leaves out. A limit on the rank is
        not convex: with `n_components` there is no such model.
        """
        import cvxpy as cp

        if self.n_components is not None:
            raise InputError(
                "cvxpy has no model of a limited rank; use replace(problem, n_components=None)"
            )
        X, D = self.features, self.features.shape[1]
        family: RowFamily = self._every_triplet
        terms = family.terms(family.everything())
        if terms.size * D > MODEL_ENTRIES:
            raise InputError(
                f"{terms.size} triplets in {D} dimensions are too many for cvxpy; use sdpkit.solve"
            )
        M = [cp.Variable((D, D), PSD=True, name=f"M{b + 1}") for b in range(self.n_metrics)]
        slack = cp.Variable(terms.size, nonneg=True, name="xi")

        def lengths(start: Indices, end: Indices) -> Any:
            """Squared distances to `end`, each by its own metric."""
            parts, places = [], []
            for block, matrix in enumerate(M):
                mine = np.flatnonzero(self.block_of[end] == block)
                if mine.size:
                    v = X[start[mine]] - X[end[mine]]
                    parts.append(cp.sum(cp.multiply(v @ matrix, v), axis=1))
                    places.append(mine)
            return cp.hstack(parts)[np.argsort(np.concatenate(places))]

        near, far = lengths(*terms.pulls.T), lengths(*terms.pushes.T)
        pull = (1 - self.mu) * cp.sum(near) + self.ridge * sum(cp.trace(m) for m in M)
        margin = far[terms.push] - near[terms.pull] >= 1 - slack
        return cp.Problem(cp.Minimize(pull + self.mu * cp.sum(slack)), [margin])

    @cached_property
    def _every_triplet(self) -> RowFamily:
        if self.triplets is not None:
            n = self.points.shape[0]
            return ListedRows.of(self.triplets, n, weight=self.mu, block_of=self.block_of)
        return self._impostors(None)

    # -- the answer --------------------------------------------------------------------------

    @one_blas_thread
    def recover(self, solution: Solution) -> Metric:
        """The learned metric in the original coordinates (of the kernel's rows, with a kernel).

        Its `objective` is within the certified gap of the solution's. Directions along which
        target neighbours do not differ get the least length that suffices for this;
        `Metric.notes` says which.
        """
        return self.metric_of(solution.matrices, allowance(solution, self.default_tol))

    @one_blas_thread
    def metric_of(self, matrices: Sequence[Matrix], allowed: float = 0.0) -> Metric:
        """The metric of any matrices in the coordinates of the program, one per block.

        Free directions are so long that triplets left out add no more than `allowed` to the
        objective.
        """
        components, notes = self._components(matrices, allowed)
        if self.kernel_map is not None:
            components = [part @ self.kernel_map.T for part in components]
        return Metric(
            components=tuple(components),
            X=self.points,
            labels=self.labels,
            classes=self.classes,
            block_of=self.block_of,
            target_pairs=self.target_pairs,
            n_neighbors=self.n_neighbors,
            mu=self.mu,
            block_of_class=np.arange(len(self.classes)) if self._per_class else None,
            notes=notes,
        )

    def _components(
        self, matrices: Sequence[Matrix], allowed: float
    ) -> tuple[list[Array], tuple[str, ...]]:
        """Per block L with M = LᵀL on the features, the free directions included; and notes on
        these."""
        roots = [factor(np.asarray(m), self.n_components) for m in matrices]
        components = [r @ c.whitening.T for r, c in zip(roots, self.coordinates, strict=True)]
        if not self._free:
            return components, ()
        outputs = [self.features @ part.T for part in components]
        left_out = LeftOut.of(self._every_triplet, outputs, allowed)
        added = [
            left_out.push(c, self.features, self.block_of, block)
            for block, c in enumerate(self.coordinates)
        ]
        parts = zip(components, added, strict=True)
        return [np.vstack([part, *rows]) for part, rows in parts], length_notes(added)

    def _learned(self, solution: Solution) -> list[Array]:
        """Per block L on the features."""
        return self._components(solution.matrices, allowance(solution, self.default_tol))[0]

    def objective(self, metric: Metric | Array) -> float:
        """The exact objective of any metric, or of a matrix L of components, over all triplets."""
        parts = metric.components if isinstance(metric, Metric) else (np.asarray(metric),)
        if len(parts) != self.n_metrics:
            raise InputError(f"{len(parts)} metrics for a problem with {self.n_metrics}")
        inputs = self.features if self.kernel is None else self.points - self.points.mean(axis=0)
        outputs = [inputs @ part.T for part in parts]
        i, j = self.target_pairs.T
        pull = 0.0
        for block, points in enumerate(outputs):
            mine = self.block_of[j] == block
            pull += float(np.square(points[i[mine]] - points[j[mine]]).sum())
        every = self._every_triplet
        traces = sum(self.trace(part) for part in parts) if self.ridge else 0.0
        push = self.mu * every.hinge_sum(outputs)
        return (1 - self.mu) * pull + self.ridge * traces + push

    def trace(self, part: Array) -> float:
        """tr LᵀL; with a kernel, of the map of its features that `part` is in terms of points."""
        if self.kernel is None:
            return float(np.square(part).sum())
        centred = part - part.mean(axis=1, keepdims=True)
        return float(np.vdot(centred @ self.points, centred))

    def next_pass(self, solution: Solution) -> LMNN:
        """The problem with the target neighbours of the learned metric: multi-pass LMNN.

        The new problem is stated in the original coordinates, so that its metric replaces the
        old one.
        """
        if self.triplets is not None:
            raise InputError(
                "next_pass chooses new target neighbours; this problem was given triplets, which "
                "leave no target neighbours to choose"
            )
        outputs = [self.features @ part.T for part in self._learned(solution)]
        found = nearest_in_class(outputs, self.labels, self.block_of, self.n_neighbors)
        return replace(self, targets=target_table(found, self.points.shape[0]))

    @one_blas_thread
    def start_from(self, earlier: LMNN, solution: Solution) -> Solution | None:
        """A `warm_start` for this problem from a solution of an earlier one.

        The metric is the same in the coordinates of the inputs, at the scale that is best here.
        Where both problems count the same triplets, multipliers keep their size relative to the
        pull. None if the problems differ in the number of features or of metrics.

        Examples
        --------
        >>> import sdpkit
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> first, second = LMNN(X, y, mu=0.5), LMNN(X, y, mu=0.6)
        >>> start = second.start_from(first, sdpkit.solve(first))
        >>> sdpkit.solve(second, warm_start=start).iterations < sdpkit.solve(second).iterations
        True
        """
        shapes = [(p.features.shape[1], p.n_metrics) for p in (self, earlier)]
        if shapes[0] != shapes[1]:
            return None
        roots = [
            part @ np.linalg.pinv(c.whitening.T)
            for part, c in zip(earlier._learned(solution), self.coordinates, strict=True)
        ]
        parts = zip(self.coordinates, roots, strict=True)
        outputs = [c.inputs @ root.T for c, root in parts]
        cost = float(sum(np.square(root).sum() for root in roots))
        rows, dual = self._kept_multipliers(earlier, solution)
        t = nearby_scale(self.family, outputs, cost, rows)
        matrices = tuple(t * (root.T @ root) for root in roots)
        return replace(solution, matrices=matrices, rows=rows, dual=dual)

    def _kept_multipliers(
        self, earlier: LMNN, solution: Solution
    ) -> tuple[Rows | None, Array | None]:
        """Rows and multipliers of the solution, if they mean the same triplets here."""
        same = all(
            np.array_equal(getattr(self, name), getattr(earlier, name))
            for name in ("points", "labels", "target_pairs", "block_of", "triplets")
        )
        if not same or solution.dual is None:
            return None, None
        kept = solution.dual * ((1 - self.mu) / (1 - earlier.mu))
        return solution.rows, np.minimum(kept, self.mu)

    def early_stopping(
        self, X: ArrayLike, y: ArrayLike, patience: int = 3, rule: Literal["knn", "energy"] = "knn"
    ) -> EarlyStopping:
        """A callback that stops a solve when the error on validation data stops falling."""
        return EarlyStopping(self, np.asarray(X), np.asarray(y), patience, rule)

    def __repr__(self) -> str:
        n, d = self.points.shape
        classes = "" if self.y is None else f" of {len(self.classes)} classes"
        return (
            f"<LMNN: {n} points{classes} in {d} dimensions, {len(self.target_pairs)} target pairs, "
            f"{self.n_metrics} metric{'s' * (self.n_metrics > 1)}, mu {self.mu:g}>"
        )
