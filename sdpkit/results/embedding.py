"""From matrices to outputs: the embedding that a Gram matrix holds (thesis eq. 3.20 and 3.21).

K = Σ_α λ_α v_α v_αᵀ,      y_i = (√λ_1 v_1i, …, √λ_d v_di)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.files import one_line, reading
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.inputs import (
    finite_matrix,
    finite_rows,
    finite_vector,
    indices,
    integer,
    one_of,
    require_squarable,
)
from sdpkit.layout import Expected
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.gram import Gram, Matrix
from sdpkit.results.archive import read_arrays, write_arrays
from sdpkit.results.interpolation import Interpolant
from sdpkit.results.quality import fidelity
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Indices

# Eigenvalues below this share of the trace are noise; a fall by this factor is steep.
_NOISE_SHARE = 1e-2
_STEEP = 4.0
_INVISIBLE = 1e-6
# Eigenvalues computed of an operator, at least.
_LEADING = 12


@dataclass(frozen=True, eq=False)
class Embedding:
    """Outputs y_i and the spectrum they come from.

    Attributes
    ----------
    coordinates : array of shape (n, d)
        Centred, columns by falling variance.
    eigenvalues : array of shape (n,)
        Of K, falling, nonnegative; the leading ones where K is an operator.
    edges : array of int, shape (m, 2)
        Those of the neighbourhood graph.
    tensions : array of shape (m,) or None
        Their multipliers w.
    components : array of int, shape (n,)
        Which connected component a point belongs to; each is centred by itself.
    inputs : SquaredDistances or None
        Distances between the inputs, by which new points are placed (`extend`).
    variance : float or None
        Tr K, where only leading eigenvalues are known; None: their sum.
    notes : tuple of str
        Why the objective of the coordinates is not the certified one, where it is not.

    Examples
    --------
    >>> import sdpkit
    >>> problem = sdpkit.MVU(graph=sdpkit.datasets.path_graph(4))
    >>> embedding = problem.recover(sdpkit.solve(problem), n_components=1)
    >>> abs(embedding.coordinates[:, 0]).round(3)
    array([1.5, 0.5, 0.5, 1.5])
    """

    coordinates: Array
    eigenvalues: Array
    edges: Indices = field(repr=False)
    tensions: Array | None = field(repr=False)
    components: Indices = field(repr=False)
    inputs: SquaredDistances | None = field(default=None, repr=False)
    variance: float | None = field(default=None, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)

    @property
    def n_components(self) -> int:
        """d."""
        return int(self.coordinates.shape[1])

    @property
    def fidelity(self) -> float:
        """Share of the variance that the d coordinates keep."""
        return fidelity(self.eigenvalues, self.n_components, self.variance)

    @property
    def suggested_dimension(self) -> int:
        """Where the spectrum breaks off (see `suggested_dimension`)."""
        return suggested_dimension(self.eigenvalues, self.variance)

    @one_blas_thread
    def extend(
        self,
        X_new: ArrayLike | None = None,
        *,
        distances: ArrayLike | None = None,
        method: Literal["interpolation", "sdp", "lle"] = "interpolation",
        n_neighbors: int | None = None,
        refine: bool = False,
    ) -> Array:
        """Coordinates of new points, each independently of the others.

        A new point that is an input gets that input's coordinates; of inputs that coincide, those
        of the first. By "sdp" and "lle" a point that is only close to an input may land a few
        spacings away from it, and if the embedding has several components, all neighbours are
        taken from that of the nearest.

        Parameters
        ----------
        X_new : array-like of shape (t, D) or None, default None
            New points.
        distances : array-like of shape (t, n) or None, default None
            Lengths from new points to all inputs, where only these are known.
        method : {"interpolation", "sdp", "lle"}, default "interpolation"
            "interpolation", a continuous map through the outputs (`sdpkit.results.interpolation`);
            "sdp", the published placement by distances to the nearest inputs (thesis 3.1.10,
            `sdpkit.results.placement.place`); "lle" (Saul and Roweis).
        n_neighbors : int or None, default None
            How many inputs place a new point by "sdp" or "lle" (default 2d + 1).
        refine : bool, default False
            Move each new point of "sdp" or "lle" to a local minimum of its squared errors.

        Returns
        -------
        array of shape (t, d)
            One row per new point.

        Examples
        --------
        >>> import sdpkit
        >>> line = sdpkit.MVU([[0.0], [1.0], [2.0], [4.0]], n_neighbors=1)
        >>> embedding = line.recover(sdpkit.solve(line), n_components=1)
        >>> y = embedding.extend([[3.0], [4.0]])
        >>> np.abs(y - embedding.coordinates[2:]).round(4).ravel().tolist()
        [1.0, 0.0]
        """
        if self.inputs is None:
            raise InputError(
                "this embedding does not know its inputs: make it by `recover` of a problem"
            )
        one_of(method, "method", ("interpolation", "sdp", "lle"))
        if method != "interpolation":
            return self._extend_by_neighbors(X_new, distances, method, n_neighbors, refine)
        if n_neighbors is not None or refine:
            raise InputError(
                "method='interpolation' uses all inputs, so n_neighbors and refine have no "
                "meaning: leave them out, or pass method='sdp' or 'lle'"
            )
        return self._interpolant(X_new, distances=distances)

    @cached_property
    def _interpolant(self) -> Interpolant:
        assert self.inputs is not None
        return Interpolant.through(self.inputs, self.coordinates)

    def _extend_by_neighbors(
        self,
        X_new: ArrayLike | None,
        distances: ArrayLike | None,
        method: str,
        n_neighbors: int | None,
        refine: bool,
    ) -> Array:
        """`extend` by the programs of the nearest inputs, or by the weights that rebuild them."""
        from sdpkit.results.placement import place, reconstruct, refine_placement

        assert self.inputs is not None
        if method == "lle" and X_new is None:
            raise InputError("method='lle' rebuilds points from points: pass X_new, or use 'sdp'")
        k = 2 * self.n_components + 1 if n_neighbors is None else n_neighbors
        near, squared = self.inputs.nearest_to(
            min(k, len(self.components)), X_new, distances=distances
        )
        home = self.components[near[:, 0]]
        out = np.empty((len(near), self.n_components))
        for here, x, nearest, lengths in self._by_component(home, X_new, distances, near, squared):
            anchors = self.coordinates[nearest]
            if method == "lle":
                assert x is not None
                assert self.inputs.points is not None
                y = reconstruct(x, self.inputs.points[nearest], anchors)
            else:
                y = place(anchors, lengths).coordinates
            out[here] = refine_placement(y, anchors, lengths) if refine else y
        known = squared[:, 0] == 0
        out[known] = self.coordinates[near[known, 0]]
        return out

    def _by_component(
        self,
        home: Indices,
        X_new: ArrayLike | None,
        distances: ArrayLike | None,
        near: Indices,
        squared: Array,
    ) -> Iterator[tuple[Any, Array | None, Indices, Array]]:
        """(which new points, their inputs, neighbours and squared distances) per component."""
        if not self.components.any():
            yield slice(None), None if X_new is None else np.asarray(X_new), near, squared
            return
        assert self.inputs is not None
        for component in np.unique(home):
            here, among = home == component, np.flatnonzero(self.components == component)
            x, d = (None if new is None else np.asarray(new)[here] for new in (X_new, distances))
            k = min(near.shape[1], among.size)
            yield here, x, *self.inputs.nearest_to(k, x, distances=d, among=among)

    def save(self, path: str | Path) -> None:
        """Write the embedding and its inputs as npz: without pickles, with a version and a
        checksum."""
        write_arrays(path, "embedding", self.arrays())

    @classmethod
    def load(cls, path: str | Path) -> Embedding:
        """Read an embedding written by `save`."""
        a = read_arrays(path, "embedding")
        with reading(path, "a saved embedding"):
            return cls.from_arrays(a)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The embedding and its inputs as plain arrays."""
        names = ("coordinates", "eigenvalues", "edges", "tensions", "components", "variance")
        arrays = {
            name: np.asarray(getattr(self, name))
            for name in names
            if getattr(self, name) is not None
        }
        if self.inputs is not None and self.inputs.points is not None:
            arrays["points"] = self.inputs.points
        elif self.inputs is not None:
            arrays["squared_distances"] = self.inputs.to_all(np.arange(self.inputs.n_points))
        if self.notes:
            arrays["notes"] = np.array(self.notes)
        return arrays

    @classmethod
    def from_arrays(cls, a: Mapping[str, NDArray[Any]]) -> Embedding:
        """The embedding that gave these arrays; anything else is refused."""
        coordinates, edges = finite_matrix(a["coordinates"], "coordinates"), a["edges"]
        n, points, table = len(coordinates), a.get("points"), a.get("squared_distances")
        if points is not None:
            points = finite_rows(points, np.atleast_2d(points).shape[-1], "points")
        if table is not None:
            table = finite_rows(table, n, "squared_distances")
        for array in (points, table):
            if array is not None and len(array) != n:
                raise InputError(f"{n} coordinates belong to {len(array)} inputs")
            if array is not None:
                require_squarable(array, "inputs")
        require_squarable(coordinates, "coordinates")
        tensions, variance = a.get("tensions"), a.get("variance")
        if variance is not None:
            variance = Expected(least=0.0).read("variance", variance)
        return cls(
            coordinates,
            finite_matrix(np.atleast_2d(a["eigenvalues"]), "eigenvalues").ravel(),
            indices(edges, (len(edges), 2), n, "edges"),
            None if tensions is None else finite_vector(tensions, len(edges), "tensions"),
            indices(a["components"], (n,), n, "components"),
            None if points is None and table is None else SquaredDistances(points, table),
            None if variance is None else float(variance),
            tuple(one_line(note) for note in np.ravel(a.get("notes", ()))),
        )

    def compared(
        self, solution: Solution, objective: float, certified: float, reason: str = ""
    ) -> Embedding:
        """The embedding with a note, if the objective of its coordinates is farther from the
        certified one than the certified gap. Without a `reason` it is the number of dimensions."""
        d = self.n_components
        kept = f"{d} dimension{'s are' if d > 1 else ' is'} kept, with"
        reason = reason or f"{kept} {100 * self.fidelity:.6g} % of the variance"
        note = solution.shortfall(objective, "these coordinates", reason, certified)
        return replace(self, notes=(*self.notes, note)) if note else self

    def plot(self, ax: Any = None, *, color: Any = None, tension: bool = True) -> Any:
        """Draw the first two coordinates, the edges coloured by tension. Needs matplotlib."""
        from sdpkit.plotting import plot_embedding

        return plot_embedding(self, ax, color=color, tension=tension)

    def plot_spectrum(self, ax: Any = None) -> Any:
        """Draw the eigenvalues as shares of the trace. Needs matplotlib."""
        from sdpkit.plotting import plot_spectrum

        return plot_spectrum(self.eigenvalues, ax, variance=self.variance)

    def __repr__(self) -> str:
        n, d = self.coordinates.shape
        return (
            f"<Embedding of {n} points in {d} dimensions: fidelity {self.fidelity:.4f}, "
            f"suggested dimension {self.suggested_dimension}>"
        )


def suggested_dimension(eigenvalues: Array, variance: float | None = None) -> int:
    """The d after which the spectrum breaks off.

    The last steep fall: the largest d with λ_d ≥ 4 λ_{d+1} among eigenvalues of at least 1 % of
    the trace; where none falls that steeply, the steepest.

    >>> suggested_dimension(np.array([50.0, 30.0, 0.2, 0.1, 0.0]))
    2
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1].clip(min=0)
    total = float(values.sum()) if variance is None else variance
    if total == 0 or values.size == 1:
        return 1
    ratios = values[:-1] / np.maximum(values[1:], 1e-12 * total)
    steep = np.flatnonzero((ratios >= _STEEP) & (values[:-1] >= _NOISE_SHARE * total))
    return int(steep[-1] if steep.size else np.argmax(ratios)) + 1


@one_blas_thread
def gram(squared: Array) -> Array:
    """(n, n) −½CDC, the centred Gram matrix of squared distances D; C = I − 11ᵀ/n.

    Positive semidefinite iff the distances are Euclidean. Its top eigenvectors are classical
    scaling, and kernel PCA if D comes from a kernel.

    >>> gram(np.array([[0.0, 4.0], [4.0, 0.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    centred = squared - squared.mean(axis=0)
    return np.asarray(-0.5 * (centred - centred.mean(axis=1)[:, None]))


@one_blas_thread
def outputs(kernel: Matrix, n_components: int | None = None) -> tuple[Array, Array]:
    """(coordinates (n, d), eigenvalues (n,)) of a Gram matrix; of an operator the leading ones.

    Without `n_components` the suggested dimension is used. The sign of each coordinate is fixed
    so that its entry of largest magnitude is positive.

    >>> Y = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, -0.5]])
    >>> coordinates, eigenvalues = outputs(Y @ Y.T, 2)
    >>> np.allclose(coordinates @ coordinates.T, Y @ Y.T)
    True
    """
    total = None
    if isinstance(kernel, Gram):
        n, total = kernel.shape[0], kernel.trace()
        wanted = n_components if isinstance(n_components, int | np.integer) else 0
        values, vectors = kernel.leading(min(n, max(int(wanted), _LEADING)))
        values = values.clip(min=0)
    else:
        values, vectors = _spectrum(kernel)
        n = values.size
    d = suggested_dimension(values, total) if n_components is None else n_components
    d = integer(d, "n_components", most=n)
    top = vectors[:, :d]
    signs = np.sign(top[np.abs(top).argmax(axis=0), np.arange(d)])
    return top * np.where(signs == 0, 1.0, signs) * np.sqrt(values[:d]), values


def visible_axes(variances: Array, n_least: int) -> int:
    """How many leading axes hold more than a millionth of the variance each, at least `n_least`.

    >>> visible_axes(np.array([5.0, 1.0, 1e-12, 0.0]), 1)
    2
    """
    shown = int(np.sum(variances > _INVISIBLE * float(variances.sum())))
    return min(max(shown, n_least), variances.size)


@one_blas_thread
def principal_axes(factor: Array) -> tuple[Array, Array]:
    """(Y, λ): the rows of a factor, (n, m) with K = factor·factorᵀ, turned into principal axes.

    Y, (n, m), is centred, its columns fall in variance λ (m,) and have the signs of `outputs`;
    K itself is never formed.

    >>> Y, variances = principal_axes(np.array([[0.0, 2.0], [0.0, -2.0], [1.0, 0.0], [-1.0, 0.0]]))
    >>> variances.round(9)
    array([8., 2.])
    """
    centred = np.asarray(factor, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    y = centred @ axes[:, ::-1]
    signs = np.sign(y[np.abs(y).argmax(axis=0), np.arange(y.shape[1])])
    return y * np.where(signs == 0, 1.0, signs), values[::-1].clip(min=0)


def _spectrum(kernel: Array) -> tuple[Array, Array]:
    """All eigenvalues, falling and nonnegative, and eigenvectors of a Gram matrix."""
    kernel = finite_matrix(kernel, "kernel")
    if kernel.shape[0] != kernel.shape[1]:
        raise InputError(f"kernel has shape {kernel.shape}: pass a square matrix, (n, n)")
    values, vectors = scipy.linalg.eigh((kernel + kernel.T) / 2)
    return values[::-1].clip(min=0), vectors[:, ::-1]
