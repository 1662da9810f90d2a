"""What LMNN learns: a metric, or several, and the two ways to classify by it.

The squared distance *to* a training point o is  D(x, x_o) = ‖L_b (x − x_o)‖²  with b the block of
o; with one metric it is the Mahalanobis distance of M = LᵀL.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.files import reading
from sdpkit.inputs import (
    finite_matrix,
    finite_points,
    finite_rows,
    indices,
    integer,
    one_of,
    require_squarable,
)
from sdpkit.layout import Expected
from sdpkit.numerics.neighbors import Points, nearest
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.results.archive import read_arrays, write_arrays
from sdpkit.results.energies import (
    EVERY_LABEL,
    add_other_energy,
    add_own_energy,
    bound_energies,
    decided_labels,
    first_lowest,
    look_at_classes,
)
from sdpkit.results.targets import target_neighbors
from sdpkit.typing import Array, Indices, Single

T = TypeVar("T")
Rule = Literal["knn", "energy"]
Targets = Literal["learned", "euclidean"]


@dataclass(frozen=True, eq=False)
class _ByClass:
    """Training points in the order of their classes.

    Attributes
    ----------
    order: (n,) which point stands where;  starts: (c + 1,) where each class begins
    points: their outputs
    first: (n + 1,) where the reaches of each anchor begin;  reaches: (p,) 1 + D(x_i, x_j)
    farthest: (n,) the largest reach of each anchor, 0 if it has none
    """

    order: Indices
    starts: Indices
    points: Points
    first: Indices
    reaches: Array
    farthest: Single


def _by_position(cls: type[T]) -> type[T]:
    """A class of keyword-only arguments that takes them by position too, with a warning, for one
    more release."""
    initialise, names = cls.__init__, [each.name for each in fields(cls)]  # type: ignore[arg-type]

    @wraps(initialise)
    def initialised(self: T, *given: Any, **named: Any) -> None:
        if len(given) > len(names):
            raise TypeError(f"{cls.__name__}() takes {len(names)} arguments, not {len(given)}")
        if given:
            warnings.warn(
                f"{cls.__name__}() will take keyword arguments only: write "
                + ", ".join(f"{name}=…" for name in names[: len(given)]),
                DeprecationWarning,
                stacklevel=2,
            )
        initialise(self, **dict(zip(names, given, strict=False)), **named)

    setattr(cls, "__init__", initialised)  # noqa: B010
    return cls


@_by_position
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Metric:
    """A learned metric with the training points it classifies by.

    Attributes
    ----------
    components : tuple of array
        Per block (r, D) L with M = LᵀL.
    X : array of shape (n, D)
        Training points (for kernel LMNN the rows of the kernel matrix).
    labels : array of int, shape (n,)
        Class numbers, indices into `classes`.
    classes : NDArray
        The labels as given.
    block_of : array of int, shape (n,)
        The block by which the distance to a point is measured.
    target_pairs : array of int, shape (p, 2)
        The target neighbours (i, j) of training.
    n_neighbors : int
        k and the weight of the push term, for classification.
    mu : float
        k and the weight of the push term, for classification.
    block_of_class : array of int or None, shape (c,)
        The block of each class if blocks are classes, else None.
    notes : tuple of str
        What to know about how it was recovered: the length of directions that cost nothing.

    Examples
    --------
    >>> import sdpkit
    >>> X, y = np.array([[0, 0], [0, 1], [3, 0], [3, 1.0]]), ["a", "a", "b", "b"]
    >>> problem = sdpkit.LMNN(X, y, n_neighbors=1)
    >>> metric = problem.recover(sdpkit.solve(problem))
    >>> metric.predict([[0.2, 5.0], [2.9, -5.0]])
    array(['a', 'b'], dtype='<U1')
    """

    components: tuple[Array, ...]
    X: Array
    labels: Indices
    classes: NDArray[Any]
    block_of: Indices
    target_pairs: Indices
    n_neighbors: int
    mu: float
    block_of_class: Indices | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def from_components(
        cls,
        components: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_neighbors: int = 3,
        mu: float = 0.5,
    ) -> Metric:
        """The metric of any linear map L, (r, D), with the training points it is judged by.

        LDA, NCA, PCA or RCA can thus be compared by the same rules: kNN, energy, leave-one-out.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.neighbors import NeighborhoodComponentsAnalysis
        >>> X, y = load_iris(return_X_y=True)
        >>> nca = NeighborhoodComponentsAnalysis(random_state=0).fit(X, y)
        >>> Metric.from_components(nca.components_, X, y).leave_one_out_error() < 0.05
        True
        """
        points = finite_points(X, "X")
        labels = np.asarray(y)
        if labels.shape != (len(points),):
            raise InputError(f"y has shape {labels.shape}: pass one label per point")
        L = finite_matrix(components, "components", points.shape[1])
        k = integer(n_neighbors, "n_neighbors", most=len(points) - 1)
        classes, numbers = np.unique(labels, return_inverse=True)
        numbers = numbers.astype(np.int64)
        targets = target_neighbors(points, numbers, k)
        return cls(
            components=(L,),
            X=points,
            labels=numbers,
            classes=classes,
            block_of=np.zeros_like(numbers),
            target_pairs=targets,
            n_neighbors=k,
            mu=float(mu),
        )

    def __repr__(self) -> str:
        ranks = ", ".join(str(part.shape[0]) for part in self.components[:4])
        more = ", …" if len(self.components) > 4 else ""
        n, d = self.X.shape
        noun = "metric" if len(self.components) == 1 else f"{len(self.components)} metrics"
        return f"<Metric: {noun} of rank {ranks}{more} in {d} dimensions, {n} training points>"

    @property
    def matrices(self) -> tuple[Array, ...]:
        """M = LᵀL per block, (D, D)."""
        return tuple(part.T @ part for part in self.components)

    @property
    def matrix(self) -> Array:
        """M of the only metric."""
        self._single("matrix")
        return self.matrices[0]

    @one_blas_thread
    def transform(self, X: ArrayLike) -> Array:
        """(b, r) the images L x, whose Euclidean distance is the metric."""
        self._single("transform")
        return self._points(X) @ self.components[0].T

    @one_blas_thread
    def distance(self, a: ArrayLike, b: ArrayLike) -> Array:
        """(m,) distances √((a − b)ᵀM(a − b)) of rows a to rows b."""
        self._single("distance")
        return np.asarray(np.linalg.norm(self.transform(a) - self.transform(b), axis=1))

    def truncated(self, n_components: int) -> Metric:
        """The metric on few directions: PCA of the training points after x → Lx.

        This is LMNN-S of Weinberger (2007), section 2.1.8: the leading principal components of
        the images Lx. The leading directions of L itself are the same only if the inputs are
        white. Scikit-learn's digits after LMNN, 5 dimensions: 2.4 % against 9.6 % error.

        Examples
        --------
        >>> X = np.diag([10.0, 1.0])[[0, 0, 1, 1]] * [[1], [-1], [1], [-1]]
        >>> metric = Metric.from_components(np.diag([1.0, 2.0]), X, [0, 1, 0, 1], n_neighbors=1)
        >>> abs(metric.truncated(1).components[0])        # the images vary most along the first
        array([[1., 0.]])
        """
        integer(n_components, "n_components")
        kept = []
        for part, images in zip(self.components, self._training, strict=True):
            centred = images - images.mean(axis=0)
            directions = scipy.linalg.svd(centred, full_matrices=False)[2]
            kept.append(directions[:n_components] @ part)
        note = f"{n_components} directions are kept, and the objective is not the certified one"
        return replace(self, components=tuple(kept), notes=(*self.notes, note))

    # -- classification ----------------------------------------------------------------------

    @one_blas_thread
    def predict(
        self,
        X: ArrayLike,
        rule: Rule = "knn",
        n_neighbors: int | None = None,
        *,
        targets: Targets = "learned",
    ) -> NDArray[Any]:
        """The labels of new points, by k nearest neighbours or by energy (Weinberger 2007, 2.12).

        kNN breaks ties among classes as the thesis does: the neighbourhood shrinks until one
        class leads, down to the nearest neighbour. `targets` says in which metric the energy
        rule looks for the k target neighbours of a new point: "learned" as in the thesis, or
        "euclidean" as in Weinberger and Saul (2009).
        """
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        one_of(rule, "rule", ("knn", "energy"))
        points = self._points(X)
        outputs = self._outputs(points)
        if rule == "knn":
            neighbours = self._points_asked.nearest(outputs, k)[0]
            return np.asarray(self.classes[vote(self.labels[neighbours], len(self.classes))])
        return np.asarray(self.classes[self._lowest_energies(points, outputs, k, targets)])

    @one_blas_thread
    def energies(
        self, X: ArrayLike, n_neighbors: int | None = None, *, targets: Targets = "learned"
    ) -> Array:
        """(b, c) the energy of eq. 2.12 of every new point under every label."""
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        points = self._points(X)
        return self._energies(points, self._outputs(points), k, targets)

    @one_blas_thread
    def neighbors(self, X: ArrayLike, n_neighbors: int) -> tuple[Indices, Array]:
        """(b, k) the nearest training points of new ones, nearest first, and their squares."""
        return self._points_asked.nearest(self._outputs(self._points(X)), n_neighbors)

    def error(
        self,
        X: ArrayLike,
        y: ArrayLike,
        rule: Rule = "knn",
        n_neighbors: int | None = None,
        *,
        targets: Targets = "learned",
    ) -> float:
        """The share of points that are classified wrongly."""
        labels = self.predict(X, rule, n_neighbors, targets=targets)
        return float(np.mean(labels != np.asarray(y)))

    @one_blas_thread
    def leave_one_out_error(self, n_neighbors: int | None = None) -> float:
        """The kNN error on the training points, none being its own neighbour."""
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        neighbours = self._points_asked.nearest(self._training, k, themselves=True)[0]
        return float(np.mean(vote(self.labels[neighbours], len(self.classes)) != self.labels))

    def _blocks(self, points: Array) -> Indices:
        """(b,) the block that measures the distance to a new point when blocks are clusters of
        the inputs: that of the nearest training point."""
        if len(self.components) == 1 or self.block_of_class is not None:
            return np.zeros(points.shape[0], dtype=np.int64)
        return self.block_of[nearest([points], [self.X], 1)[0][:, 0]]

    def _lowest_energies(
        self, points: Array, outputs: list[Array], k: int, targets: Targets
    ) -> Indices:
        """(b,) the label of least energy, the first of several that agree to rounding.

        Single precision decides where one label is the lowest whatever the rounding.
        """
        asked = self._by_class.points
        if targets != "learned" or not asked.is_screened:
            return first_lowest(self._energies(points, outputs, k, targets))
        self._check_classes(k)
        known, labels = self._by_class, np.empty(len(points), dtype=np.int64)

        def decide(rows: slice, products: Any, squares: Any, doubts: Array) -> None:
            layout = (known.starts, known.first, known.reaches, known.farthest)
            b, c = len(products), len(self.classes)
            closest, bounds = np.empty((b, c, k), "f4"), np.empty((b, 4, c))
            look_at_classes(products, squares, asked.squares, doubts, *layout, closest, bounds)
            bound_energies(products, doubts, known.starts, self.mu, closest, bounds)
            labels[rows] = decided_labels(bounds)

        asked.over_products(outputs[0], decide)
        unsure = np.flatnonzero(labels < 0)
        if unsure.size:
            rest = self._energies(points[unsure], [outputs[0][unsure]], k, targets)
            labels[unsure] = first_lowest(rest)
        return labels

    def _check_classes(self, k: int) -> None:
        sizes = np.diff(self._by_class.starts)
        if k > sizes.min():
            label = self.classes[sizes.argmin()]
            raise InputError(
                f"the energy rule needs at least {k} training points in every class; class {label} "
                f"has {sizes.min()}. Lower n_neighbors, or use rule='knn'."
            )

    def _energies(self, points: Array, outputs: list[Array], k: int, targets: Targets) -> Array:
        """Pull to the k nearest of the class, push by the others, push on the others."""
        one_of(targets, "targets", ("learned", "euclidean"))
        self._check_classes(k)
        known = self._by_class
        out = np.empty((outputs[0].shape[0], len(self.classes)))
        if targets == "euclidean":
            # The same slabs once more: they depend on the number of points alone.
            plain = Points([self.X[known.order]]).squared_distances([points])
        room = np.empty(k), np.empty(k, dtype=np.int64)
        single = len(self.components) == 1
        for rows, distances in known.points.squared_distances(outputs):
            ranking = distances if targets == "learned" else next(plain)[1]
            add_own_energy(distances, ranking, known.starts, self.mu, *room, out[rows])
            if single:
                self._push_on_others(distances, EVERY_LABEL, out[rows])
        if not single:
            self._push_by_blocks(points, outputs, out)
        return out

    def _push_by_blocks(self, points: Array, outputs: list[Array], out: Array) -> None:
        """Add what queries push, each measured by its own block: that of the label it would have,
        or that of its place."""
        everyone = np.arange(out.shape[0])
        if self.block_of_class is not None:
            measured = [
                (everyone, int(block), label) for label, block in enumerate(self.block_of_class)
            ]
        else:
            blocks = self._blocks(points)
            each = range(len(self.components))
            measured = [(np.flatnonzero(blocks == b), b, EVERY_LABEL) for b in each]
        for queries, block, label in measured:
            training = Points([self._training[block][self._by_class.order]])
            for rows, distances in training.squared_distances([outputs[block][queries]]):
                part = out[queries[rows]]
                self._push_on_others(distances, label, part)
                out[queries[rows]] = part

    def _push_on_others(self, distances: Array, label: int, out: Array) -> None:
        """Add μ·Σ [1 + D(x_i, x_j) − D(x_i, x_t)]₊ over anchors i of other classes, for queries t
        under `label`."""
        known, sums = self._by_class, np.empty(len(self.classes))
        layout = (known.starts, known.first, known.reaches)
        add_other_energy(distances, *layout, self.mu, label, sums, out)

    @cached_property
    def _points_asked(self) -> Points:
        """The training points, prepared for searches."""
        return Points(self._training, self.block_of)

    @cached_property
    def _by_class(self) -> _ByClass:
        """The training points in the order of their classes, for energies."""
        order = np.argsort(self.labels, kind="stable")
        sizes = np.bincount(self.labels, minlength=len(self.classes))
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        anchor = place[self.target_pairs[:, 0]]
        by_anchor = np.argsort(anchor, kind="stable")
        reaches = 1 + self._target_lengths[by_anchor]
        farthest = np.zeros(order.size)
        np.maximum.at(farthest, anchor[by_anchor], reaches)
        return _ByClass(
            order,
            np.concatenate([[0], np.cumsum(sizes)]),
            Points([part[order] for part in self._training], self.block_of[order]),
            np.searchsorted(anchor[by_anchor], np.arange(order.size + 1)),
            reaches,
            # Rounded up: a little more only costs a second look.
            (farthest * (1 + 1e-6)).astype(np.float32),
        )

    def __getstate__(self) -> dict[str, Any]:
        """What was computed for searches is not worth storing."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def _training(self) -> list[Array]:
        return self._outputs(self.X)

    @cached_property
    def _target_lengths(self) -> Array:
        out = np.empty(len(self.target_pairs))
        for block, points in enumerate(self._training):
            mine = self.block_of[self.target_pairs[:, 1]] == block
            i, j = self.target_pairs[mine].T
            out[mine] = np.square(points[i] - points[j]).sum(axis=1)
        return out

    def _outputs(self, X: Array) -> list[Array]:
        return [X @ part.T for part in self.components]

    def _points(self, X: ArrayLike) -> Array:
        return finite_rows(X, self.X.shape[1], "X")

    def _single(self, what: str) -> None:
        if len(self.components) > 1:
            raise InputError(
                f"{what} needs a single metric, and there are {len(self.components)}: "
                "use `components`"
            )

    # -- files -------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the metric as npz: without pickles, with a version and a checksum."""
        write_arrays(path, "metric", self.arrays())

    @classmethod
    def load(cls, path: str | Path) -> Metric:
        """Read a metric written by `save`."""
        a = read_arrays(path, "metric")
        with reading(path, "a saved metric"):
            return cls.from_arrays(a)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The metric as plain arrays; labels of type object as their texts."""
        arrays: dict[str, Any] = {f"components{k}": part for k, part in enumerate(self.components)}
        for name in ("X", "labels", "classes", "block_of", "target_pairs", "n_neighbors", "mu"):
            arrays[name] = np.asarray(getattr(self, name))
        if self.block_of_class is not None:
            arrays["block_of_class"] = self.block_of_class
        if self.notes:
            arrays["notes"] = np.array(self.notes)
        if arrays["classes"].dtype == object:
            arrays["classes"] = np.array([str(label) for label in self.classes])
        return arrays

    @classmethod
    def from_arrays(cls, a: Mapping[str, NDArray[Any]]) -> Metric:
        """The metric that gave these arrays; anything else is refused."""
        count = sum(name.startswith("components") for name in a)
        if a["classes"].ndim != 1 or a["classes"].dtype.kind == "c":
            raise InputError(f"classes has shape {a['classes'].shape}: expected labels, (c,)")
        X, n_classes = finite_points(a["X"], "X"), len(a["classes"])
        n, blocks = len(X), a.get("block_of_class")
        parts = [finite_matrix(a[f"components{k}"], "components") for k in range(count)]
        for part in parts:
            require_squarable(X, "X")
            require_squarable(part, "components")
            require_squarable(X @ finite_matrix(part, "components", X.shape[1]).T, "X")
        return cls(
            components=tuple(parts),
            X=X,
            labels=indices(a["labels"], (n,), n_classes, "labels"),
            classes=a["classes"],
            block_of=indices(a["block_of"], (n,), count, "block_of"),
            target_pairs=indices(a["target_pairs"], (len(a["target_pairs"]), 2), n, "target_pairs"),
            n_neighbors=integer(int(a["n_neighbors"]), "n_neighbors", most=n - 1),
            mu=float(Expected().read("mu", a["mu"])),
            block_of_class=None
            if blocks is None
            else indices(blocks, (n_classes,), count, "block_of_class"),
            notes=tuple(str(note) for note in np.ravel(a.get("notes", ()))),
        )


def factor(matrix: Array, rank: int | None = None) -> Array:
    """(r, d) L with LᵀL = M, rows of decreasing length, without those that are zero.

    >>> abs(factor(np.diag([1.0, 4.0])).round(9))
    array([[0., 2.],
           [1., 0.]])
    """
    if not np.isfinite(matrix).all():
        raise InputError(
            "expected a matrix of finite numbers; the solution has no point (see its status and "
            "message). Solve again with more time, a coarser tol or another solver"
        )
    values, vectors = scipy.linalg.eigh(matrix)
    kept = values > 1e-14 * max(float(values[-1]), 0.0)
    rows = (vectors[:, kept] * np.sqrt(values[kept])).T[::-1]
    return np.asarray(rows[:rank])


def vote(neighbours: Indices, n_classes: int) -> Indices:
    """(b,) the leading class among the k labels of each row, nearest first; with the thesis's
    rule for ties: the neighbourhood shrinks until there is none."""
    rows, k = neighbours.shape
    out = np.full(rows, -1)
    counts = np.zeros((rows, n_classes), dtype=np.int64)
    np.add.at(counts, (np.arange(rows)[:, None], neighbours), 1)
    for size in range(k, 0, -1):
        most = counts.max(axis=1)
        clear = (counts == most[:, None]).sum(axis=1) == 1
        decided = (out < 0) & clear
        out[decided] = counts[decided].argmax(axis=1)
        counts[np.arange(rows), neighbours[:, size - 1]] -= 1
    return out
