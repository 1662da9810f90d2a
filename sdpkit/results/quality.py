"""How good an embedding is: the measures of Weinberger (2007), section 3.1.9.

Local continuity asks whether neighbours of the input keep their distances in the output, local
trust whether neighbours of the output had them in the input, neighbourhood intersection whether
they are the same points. All lie in [0, 1], 1 is perfect, and none changes if the output is
rotated, translated or scaled.

>>> import numpy as np
>>> X = np.random.default_rng(0).standard_normal((30, 3))
>>> round(evaluate(X, X[:, :2]).harmonic_mean, 2), round(evaluate(X, 7 * X + 1).harmonic_mean, 2)
(0.77, 1.0)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.inputs import MatrixLike, finite_array, finite_matrix, integer
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array, Indices

__all__ = [
    "Quality",
    "aligned",
    "evaluate",
    "fidelity",
    "harmonic_mean",
    "inconsistency",
    "local_continuity",
    "local_trust",
    "neighborhood_intersection",
    "position_errors",
    "relative_inconsistency",
]


@dataclass(frozen=True)
class Quality:
    """The three measures of one embedding, for neighbourhoods of `n_neighbors` points.

    Parameters
    ----------
    local_continuity : float
        How well the output keeps the distances to input neighbours, 0 to 1.
    local_trust : float
        How well distances to output neighbours tell those in the input, 0 to 1.
    neighborhood_intersection : float
        The share of neighbours in common, 0 to 1.
    n_neighbors : int
        The size of the neighbourhoods.

    Examples
    --------
    >>> Quality(1.0, 0.5, 0.5, n_neighbors=5).harmonic_mean
    0.6
    """

    local_continuity: float
    local_trust: float
    neighborhood_intersection: float
    n_neighbors: int

    @property
    def harmonic_mean(self) -> float:
        """The harmonic mean of the three measures, as in figure 3.28 there.

        Examples
        --------
        >>> Quality(1.0, 1.0, 0.0, n_neighbors=5).harmonic_mean
        0.0
        """
        return harmonic_mean(
            self.local_continuity, self.local_trust, self.neighborhood_intersection
        )


@one_blas_thread
def evaluate(
    X: MatrixLike | None,
    Y: MatrixLike,
    n_neighbors: int = 5,
    *,
    distances: MatrixLike | None = None,
) -> Quality:
    """All three measures of an output for its input.

    The input may be distances, (n, n), instead; X is None then.

    Parameters
    ----------
    X : array-like of shape (n, d) or sparse matrix or None
        The input points, or None if `distances` is given.
    Y : array-like of shape (n, r) or sparse matrix
        The output points.
    n_neighbors : int, default 5
        k, the size of the neighbourhoods.
    distances : array-like of shape (n, n) or sparse matrix or None, default None
        Input distances instead of points.

    Returns
    -------
    Quality
        Local continuity, local trust and neighbourhood intersection.

    Examples
    --------
    >>> evaluate([[0.0], [1.0], [3.0]], [[0.0], [2.0], [6.0]], n_neighbors=1)
    Quality(local_continuity=1.0, local_trust=1.0, neighborhood_intersection=1.0, n_neighbors=1)
    """
    inputs, outputs = _pair(X, Y, distances)
    of_inputs, of_outputs = inputs.neighbors(n_neighbors), outputs.neighbors(n_neighbors)
    return Quality(
        local_continuity=_agreement(inputs, outputs, of_inputs),
        local_trust=_agreement(outputs, inputs, of_outputs),
        neighborhood_intersection=_shared(of_inputs, of_outputs),
        n_neighbors=of_inputs.shape[1],
    )


@one_blas_thread
def local_continuity(
    X: MatrixLike | None,
    Y: MatrixLike,
    n_neighbors: int = 5,
    *,
    distances: MatrixLike | None = None,
) -> float:
    """C(Y), eq. (3.27): how well Y keeps the distances between neighbours in X.

    With the best scale s this is the squared cosine between the vectors of input and output
    distances. Y in a single place has 0, as s = 0 is all that is left; if all neighbours in X
    coincide, there is no distance to lose and the value is 1.

    Parameters
    ----------
    X : array-like of shape (n, d) or sparse matrix or None
        The input points, or None if `distances` is given.
    Y : array-like of shape (n, r) or sparse matrix
        The output points.
    n_neighbors : int, default 5
        k, the size of the neighbourhoods.
    distances : array-like of shape (n, n) or sparse matrix or None, default None
        Input distances instead of points.

    Returns
    -------
    float
        C(Y), from 0 to 1.

    Examples
    --------
    >>> local_continuity([[0.0], [1.0], [3.0]], [[0.0], [0.0], [0.0]], n_neighbors=1)
    0.0
    """
    inputs, outputs = _pair(X, Y, distances)
    return _agreement(inputs, outputs, inputs.neighbors(n_neighbors))


@one_blas_thread
def local_trust(
    X: MatrixLike | None,
    Y: MatrixLike,
    n_neighbors: int = 5,
    *,
    distances: MatrixLike | None = None,
) -> float:
    """T(Y), eq. (3.28): how well the distances between neighbours in Y tell those in X.

    Local continuity with input and output exchanged. Y in a single place has 1: it shows no
    distance that could mislead (its continuity is 0).

    Parameters
    ----------
    X : array-like of shape (n, d) or sparse matrix or None
        The input points, or None if `distances` is given.
    Y : array-like of shape (n, r) or sparse matrix
        The output points.
    n_neighbors : int, default 5
        k, the size of the neighbourhoods.
    distances : array-like of shape (n, n) or sparse matrix or None, default None
        Input distances instead of points.

    Returns
    -------
    float
        T(Y), from 0 to 1.

    Examples
    --------
    >>> square = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 2.0]]
    >>> flat = [[0.0], [1.0], [0.1], [1.3]]
    >>> round(local_trust(square, flat, n_neighbors=1), 9)
    0.8
    """
    inputs, outputs = _pair(X, Y, distances)
    return _agreement(outputs, inputs, outputs.neighbors(n_neighbors))


@one_blas_thread
def neighborhood_intersection(
    X: MatrixLike | None,
    Y: MatrixLike,
    n_neighbors: int = 5,
    *,
    distances: MatrixLike | None = None,
) -> float:
    """N(Y), eq. (3.29): the share of nearest neighbours that X and Y have in common.

    Ties are broken by index on both sides. With n_neighbors = n − 1 it is 1 for every Y.

    Parameters
    ----------
    X : array-like of shape (n, d) or sparse matrix or None
        The input points, or None if `distances` is given.
    Y : array-like of shape (n, r) or sparse matrix
        The output points.
    n_neighbors : int, default 5
        k, the size of the neighbourhoods.
    distances : array-like of shape (n, n) or sparse matrix or None, default None
        Input distances instead of points.

    Returns
    -------
    float
        N(Y), from 0 to 1.

    Examples
    --------
    >>> neighborhood_intersection([[0.0], [1.0], [3.0]], [[0.0], [3.0], [4.0]], n_neighbors=1)
    0.6666666666666666
    """
    inputs, outputs = _pair(X, Y, distances)
    return _shared(inputs.neighbors(n_neighbors), outputs.neighbors(n_neighbors))


def harmonic_mean(continuity: float, trust: float, intersection: float) -> float:
    """Harmonic mean of the three measures; 0 if one of them is 0.

    Parameters
    ----------
    continuity : float
        Local continuity.
    trust : float
        Local trust.
    intersection : float
        Neighbourhood intersection.

    Returns
    -------
    float
        Their harmonic mean.

    Examples
    --------
    >>> harmonic_mean(1.0, 0.5, 0.5)
    0.6
    """
    measures = (continuity, trust, intersection)
    if not all(0 <= measure <= 1 for measure in measures):
        raise InputError(f"the measures are {measures}: pass numbers between 0 and 1")
    return 0.0 if min(measures) == 0 else 3 / sum(1 / measure for measure in measures)


def fidelity(eigenvalues: ArrayLike, n_components: int, variance: float | None = None) -> float:
    """F = (λ₁ + … + λ_d) / Σ λ_i: the share of the variance that d dimensions show.

    Negative eigenvalues count as zero. Without any variance, nothing is hidden: 1. Where only the
    leading eigenvalues are known, `variance` is the sum of all.

    Parameters
    ----------
    eigenvalues : array-like of shape (k,)
        Eigenvalues of a Gram matrix, in any order.
    n_components : int
        d, the dimensions that are shown.
    variance : float or None, default None
        The sum of all eigenvalues, where only the leading ones are given; None takes the sum of
        those given.

    Returns
    -------
    float
        F, from 0 to 1.

    Examples
    --------
    >>> fidelity([1.0, 6.0, 3.0, -1e-12], n_components=2)
    0.9
    """
    spectrum = finite_array(eigenvalues, "eigenvalues")
    if spectrum.ndim != 1:
        raise InputError(f"eigenvalues has shape {spectrum.shape}: pass a vector, (n,)")
    integer(n_components, "n_components")
    falling = np.sort(np.maximum(spectrum, 0.0))[::-1]
    total = float(falling.sum()) if variance is None else variance
    return min(1.0, float(falling[: int(n_components)].sum()) / total) if total > 0 else 1.0


@one_blas_thread
def inconsistency(X: ArrayLike, Y: ArrayLike, *, affine: bool = False) -> float:
    """Return what a linear map of Y leaves unexplained of X: min_Q ‖X − YQ‖_F.

    `affine` allows a translation too, which matters where outputs are not centred.

    Parameters
    ----------
    X : array-like of shape (n, s)
        Outputs to explain.
    Y : array-like of shape (n, r)
        Outputs that explain them.
    affine : bool, default False
        Allow a translation too, which matters where outputs are not centred.

    Returns
    -------
    float
        err(X, Y).

    Examples
    --------
    >>> Y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    >>> round(inconsistency(3 * Y[:, ::-1], Y), 9)
    0.0
    >>> round(inconsistency(Y + 1, Y), 3), round(inconsistency(Y + 1, Y, affine=True), 9)
    (1.414, 0.0)
    """
    first, second = finite_matrix(X, "X"), finite_matrix(Y, "Y")
    if len(first) != len(second):
        raise InputError(
            f"the outputs have {len(first)} and {len(second)} rows: pass the same points twice"
        )
    if affine:
        second = np.column_stack([second, np.ones(len(second))])
    best = np.linalg.lstsq(second, first, rcond=None)[0]
    return float(np.linalg.norm(first - second @ best))


@one_blas_thread
def relative_inconsistency(
    extended: tuple[ArrayLike, ArrayLike],
    embedded: tuple[ArrayLike, ArrayLike],
    *,
    affine: bool = False,
) -> float:
    """How much an extension varies with the rest of the data, relative to the embedding (eq. 3.34).

    Of data A ∪ B ∪ C, `extended` holds the outputs of C by extension of the embeddings of A and
    of B; `embedded` those from embedding A ∪ C and B ∪ C. A value below 1 means that extending an
    embedding is more consistent than computing a new one.

    Parameters
    ----------
    extended : tuple of array-like, each (n, r)
        The outputs of C extended from A and from B.
    embedded : tuple of array-like, each (n, r)
        The outputs of C embedded with A and with B.
    affine : bool, default False
        As in `inconsistency`.

    Returns
    -------
    float
        The inconsistency of `extended` divided by that of `embedded`.

    Examples
    --------
    >>> C = np.array([[0.0], [1.0], [2.0]])
    >>> relative_inconsistency((C, C + 0.2), (C, C + 0.1), affine=False) > 1
    True
    """
    ours = inconsistency(*extended, affine=affine)
    theirs = inconsistency(*embedded, affine=affine)
    return ours / theirs if theirs > 0 else (1.0 if ours == 0 else float("inf"))


@one_blas_thread
def aligned(Y: ArrayLike, X: ArrayLike) -> Array:
    """Move Y onto X by the best rotation, reflection and translation.

    Procrustes without scaling: where lengths are known, so is the scale.

    Parameters
    ----------
    Y : array-like of shape (n, r)
        The points to move.
    X : array-like of shape (n, r)
        Where they should be.

    Returns
    -------
    array of shape (n, r)
        Y after the motion.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> np.allclose(aligned(square[:, ::-1] + 5, square), square)
    True
    """
    from scipy.linalg import orthogonal_procrustes

    y, x = finite_matrix(Y, "Y"), finite_matrix(X, "X")
    if y.shape != x.shape:
        raise InputError(f"the positions have shapes {y.shape} and {x.shape}: pass the same points")
    centre = x.mean(axis=0)
    y = y - y.mean(axis=0)
    turn, _ = orthogonal_procrustes(y, x - centre)
    return np.asarray(y @ turn + centre)


@one_blas_thread
def position_errors(inferred: ArrayLike, true: ArrayLike, *, align: bool = True) -> Array:
    """Distances between inferred and true positions after the best rigid motion.

    With anchors the frame is known: align=False.

    Parameters
    ----------
    inferred : array-like of shape (n, r)
        Inferred positions.
    true : array-like of shape (n, r)
        True positions.
    align : bool, default True
        Whether to move the inferred positions first; with anchors the frame is known, so use False.

    Returns
    -------
    array of shape (n,)
        One distance per point.

    Examples
    --------
    >>> position_errors([[0.0], [2.0]], [[5.0], [4.0]]).round(9)
    array([0.5, 0.5])
    """
    x = np.asarray(true, dtype=np.float64)
    y = aligned(inferred, x) if align else np.asarray(inferred, dtype=np.float64)
    if y.shape != x.shape:
        raise InputError(f"the positions have shapes {y.shape} and {x.shape}: pass the same points")
    return np.asarray(np.linalg.norm(y - x, axis=1))


def _pair(
    X: MatrixLike | None, Y: MatrixLike, distances: MatrixLike | None
) -> tuple[SquaredDistances, SquaredDistances]:
    inputs = SquaredDistances.of(X, distances=distances)
    outputs = SquaredDistances.from_points(Y, name="Y")
    if inputs.n_points != outputs.n_points:
        raise InputError(
            f"the input has {inputs.n_points} points and Y has {outputs.n_points}: "
            "pass one row of Y per input, in the same order"
        )
    return inputs, outputs


def _agreement(target: SquaredDistances, source: SquaredDistances, neighbors: Indices) -> float:
    """1 − min_s Σ (s·b − a)² / Σ a² for distances a of target and b of source, over neighbours.

    The best s is ⟨a, b⟩/⟨b, b⟩, which leaves ⟨a, b⟩² / (⟨a, a⟩ ⟨b, b⟩).
    """
    a, b = _unit(target, neighbors), _unit(source, neighbors)
    if not a.any():
        return 1.0
    cosine = float(np.sum(a * b))
    return min(1.0, cosine * cosine)


def _shared(first: Indices, second: Indices) -> float:
    """The share of entries that the rows of two neighbour lists, (n, k), have in common."""
    rows = np.arange(len(first))[:, None] * len(first)  # one number per (point, neighbour)
    return len(np.intersect1d(rows + first, rows + second, assume_unique=True)) / first.size


def _unit(lengths: SquaredDistances, neighbors: Indices) -> Array:
    """Distances from every point to its neighbours, (n, k), as one vector of norm 1 (or 0)."""
    distances = np.sqrt(lengths.between(np.arange(len(neighbors))[:, None], neighbors))
    largest = distances.max()
    if largest == 0:
        return distances
    distances /= largest  # squares neither overflow nor underflow
    return np.asarray(distances / np.linalg.norm(distances))
