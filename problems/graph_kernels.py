"""Kernels of graphs, for large-margin nearest neighbours (Min 2008, section 3.2).

A graph with weights W and degrees D = diag(W1) has the kernel

    K = D⁻¹WD⁻¹ − eeᵀ/(eᵀDe)

LMNN on all features of K is LMNN on the Laplacian eigenmap of all n − 1 dimensions: the columns of
K span what its coordinates span if W̃ = D^(−1/2)WD^(−1/2) is positive semidefinite (theorem 3), and
linear maps of these columns are those of the feature space (theorem 4). With fewer dimensions the
two differ: `LMNN(kernel=…, rank=r)` takes the r leading kernel-PCA features of K, which are not the
r bottom eigenvectors of the Laplacian. For LMNN on an eigenmap of d dimensions give LMNN the points
`laplacian_eigenmap(W, d)`. The second term of K is the same in every entry: it cancels in all
differences of columns.

The width σ of Gaussian weights is learned (eq. 5) so that the top c eigenvectors U of W̃ agree
with the partition E of the points into c classes:

    maximise  J = Σ_r  E_rᵀ D^½ U Uᵀ D^½ E_r / E_rᵀ D E_r,        1 ≤ J ≤ c
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_points, integer
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.results.targets import target_neighbors
from sdpkit.typing import Array

# The search for a width: the first step and the last, as logarithms to the base 2.
_FIRST_OCTAVE, _LAST_OCTAVE = 1.0, 1 / 64


@one_blas_thread
def gaussian_weights(X: ArrayLike, width: float, new: ArrayLike | None = None) -> Array:
    """Return the weights exp(−‖x_i − x_j‖²/2σ²).

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points.
    width : float
        σ.
    new : array-like of shape (b, d) or None, default None
        New points.

    Returns
    -------
    array of shape (n, n) or (b, n)
        Weights among the points, or between new points and X.

    Examples
    --------
    >>> gaussian_weights([[0.0], [1.0]], width=1.0).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """
    points = finite_points(X, "X")
    if not isinstance(width, Real) or not 0 < width < np.inf:
        raise InputError(f"width is {width!r}; it must be a positive number")
    others = points if new is None else _rows_like(new, points.shape[1], "new points")
    from scipy.spatial.distance import cdist

    return np.asarray(np.exp(-cdist(others, points, "sqeuclidean") / (2 * width**2)))


@one_blas_thread
def adjacency_weights(X: ArrayLike, n_neighbors: int = 5) -> Array:
    """Return 0/1 weights of the symmetric neighbourhood graph, with self-loops.

    Each loop weighs as much as the node's edges together. The random walk then stays where it is
    half of the time: the eigenvectors are those without loops, and no eigenvalue is negative, as
    theorem 3 needs it.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points.
    n_neighbors : int, default 5
        Neighbours of each point.

    Returns
    -------
    array of shape (n, n)
        W.

    Examples
    --------
    >>> adjacency_weights([[0.0], [1.0], [3.0]], n_neighbors=1)
    array([[1., 1., 0.],
           [1., 2., 1.],
           [0., 1., 1.]])
    """
    points = finite_points(X, "X")
    everyone = np.zeros(len(points), dtype=np.int64)
    pairs = target_neighbors(points, everyone, integer(n_neighbors, "n_neighbors"))
    adjacency = np.zeros((len(points),) * 2)
    adjacency[pairs[:, 0], pairs[:, 1]] = adjacency[pairs[:, 1], pairs[:, 0]] = 1.0
    return np.asarray(adjacency + np.diag(adjacency.sum(axis=1)))


@one_blas_thread
def laplacian_kernel(weights: ArrayLike, new: ArrayLike | None = None) -> Array:
    """Return the kernel D⁻¹WD⁻¹ − eeᵀ/(eᵀDe) of a graph's weights W.

    For new points, `new` are their weights to the n nodes, (b, n), and the result is their rows
    of kernel values, as a `Metric` takes them.

    Parameters
    ----------
    weights : array-like of shape (n, n)
        W.
    new : array-like of shape (b, n) or None, default None
        Weights of new points to the n nodes.

    Returns
    -------
    array of shape (n, n) or (b, n)
        K, or the new points' rows of kernel values, as a `Metric` takes them.

    Examples
    --------
    >>> K = laplacian_kernel(adjacency_weights([[0.0], [1.0], [3.0]], n_neighbors=1))
    >>> K
    array([[ 0.125,  0.   , -0.125],
           [ 0.   ,  0.   ,  0.   ],
           [-0.125,  0.   ,  0.125]])
    """
    W, degrees = _weights(weights)
    if new is None:
        rows, row_degrees = W, degrees
    else:
        rows = _rows_like(new, len(W), "weights of new points")
        row_degrees = rows.sum(axis=1)
        if np.any(rows < 0) or np.any(row_degrees <= 0):
            raise InputError(
                "the weights of a new point must be nonnegative, one at least positive"
            )
    return np.asarray(rows / np.outer(row_degrees, degrees) - 1.0 / degrees.sum())


@one_blas_thread
def laplacian_eigenmap(weights: ArrayLike, n_components: int) -> Array:
    """Return the Laplacian eigenmap Y of weights W: tr YᵀLY least with YᵀDY = I (eq. 3).

    Its columns are the bottom generalised eigenvectors of the Laplacian L = D − W, without the
    constant one, those of the smallest eigenvalues first. Signs make each largest entry positive.

    Parameters
    ----------
    weights : array-like of shape (n, n)
        W, symmetric and nonnegative.
    n_components : int
        d, the number of columns.

    Returns
    -------
    array of shape (n, d)
        Y.

    Examples
    --------
    >>> W = adjacency_weights([[0.0], [1.0], [3.0]], n_neighbors=1)
    >>> laplacian_eigenmap(W, 1).round(4) + 0.0
    array([[ 0.5],
           [ 0. ],
           [-0.5]])
    """
    W, degrees = _weights(weights)
    n = len(W)
    d = integer(n_components, "n_components", most=n - 1)
    roots = np.sqrt(degrees)
    # The top eigenvector is known; it is moved below all others (W̃ has eigenvalues in [−1, 1]).
    top = roots / np.linalg.norm(roots)
    rest = W / np.outer(roots, roots) - 3 * np.outer(top, top)
    vectors = scipy.linalg.eigh(rest, subset_by_index=[n - d, n - 1])[1][:, ::-1]
    Y = vectors / roots[:, None]
    largest = Y[np.abs(Y.round(12)).argmax(axis=0), np.arange(d)]
    return np.asarray(Y * np.sign(largest))


def _weights(weights: ArrayLike) -> tuple[Array, Array]:
    W = finite_points(weights, "weights")
    if W.shape[0] != W.shape[1] or not np.allclose(W, W.T, atol=1e-10 * np.abs(W).max()):
        raise InputError(f"weights have shape {W.shape}; they must be square and symmetric")
    degrees = W.sum(axis=1)
    if W.min() < 0:
        raise InputError(f"the smallest weight is {W.min():.3g}; weights must not be negative")
    if degrees.min() <= 0:
        node = int(degrees.argmin())
        raise InputError(f"all weights of node {node} are zero; give it a neighbour or a self-loop")
    return W, degrees


@one_blas_thread
def partition_agreement(weights: ArrayLike, y: ArrayLike) -> float:
    """J of eq. 5: how well the top eigenvectors of W̃ agree with the classes, 1 … c.

    >>> from scipy.linalg import block_diag
    >>> cliques = block_diag(np.ones((2, 2)), np.ones((3, 3)))
    >>> round(partition_agreement(cliques, [0, 0, 1, 1, 1]), 9)
    2.0
    """
    W, degrees = _weights(weights)
    labels = np.unique(np.asarray(y), return_inverse=True)[1]
    if labels.shape != (len(W),):
        raise InputError(f"y has shape {labels.shape}, expected ({len(W)},): one label per point")
    if labels.max() == 0:
        raise InputError("all points have the same label: there is no partition to agree with")
    n, c = len(W), int(labels.max()) + 1
    roots = np.sqrt(degrees)
    # The top eigenvector is known; it is taken out, or others of eigenvalue 1 might replace it.
    top = roots / np.linalg.norm(roots)
    rest = W / np.outer(roots, roots) - 2 * np.outer(top, top)
    U = np.c_[top, scipy.linalg.eigh(rest, subset_by_index=[n - c + 1, n - 1])[1]]
    indicators = roots[:, None] * (labels[:, None] == np.arange(c))
    shares = np.square(U.T @ indicators).sum(axis=0) / np.square(indicators).sum(axis=0)
    return float(shares.sum())


@dataclass(frozen=True)
class LearnedWidth:
    """The width of Gaussian weights, its agreement J, and the (σ, J) that led to it, rising."""

    width: float
    agreement: float
    path: tuple[tuple[float, float], ...]


@one_blas_thread
def learned_width(X: ArrayLike, y: ArrayLike, start: float | None = None) -> LearnedWidth:
    """Learn the width σ by eq. 5: a line search on log σ that only goes up.

    It starts at the median distance, or at `start`, and stays between half the median distance
    to the nearest neighbour and the largest distance: below, no point has neighbours, and any
    vectors are eigenvectors.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points.
    y : array-like of shape (n,)
        Labels.
    start : float or None, default None
        Where the search begins; None takes the median distance.

    Returns
    -------
    LearnedWidth
        The width, the agreement that it reaches, and the search.

    Notes
    -----
    The maximum is local.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = learned_width(X, y)
    >>> 0.1 < found.width < 2.0, 2.5 < found.agreement < 3
    (True, True)
    """
    points = finite_points(X, "X")
    from scipy.spatial.distance import pdist, squareform

    lengths = pdist(points)
    if lengths.max() == 0:
        raise InputError("all points are equal: there is no width to learn")
    nearest = squareform(lengths) + np.diag(np.full(len(points), np.inf))
    low = max(0.5 * float(np.median(nearest.min(axis=1))), 1e-3 * float(lengths.max()))
    high = float(lengths.max())
    at = float(np.median(lengths)) if start is None else start
    if not isinstance(at, Real) or not 0 < at < np.inf:
        raise InputError(f"start is {start!r}; it must be a positive width")
    at = float(np.clip(at, low, high))
    path = [(at, partition_agreement(gaussian_weights(points, at), y))]
    step, sign = _FIRST_OCTAVE, 1.0
    while step >= _LAST_OCTAVE:
        for direction in (sign, -sign):
            trial = float(np.clip(path[-1][0] * 2.0 ** (direction * step), low, high))
            continue_or_raise()
            value = partition_agreement(gaussian_weights(points, trial), y)
            if value > path[-1][1]:
                path.append((trial, value))
                sign = direction
                break
        else:
            step /= 2
    return LearnedWidth(*path[-1], tuple(path))


def _rows_like(values: ArrayLike, width: int, what: str) -> Array:
    out = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if out.ndim != 2 or out.shape[1] != width or not np.isfinite(out).all():
        raise InputError(f"{what} have shape {out.shape}, expected finite numbers (b, {width})")
    return out
