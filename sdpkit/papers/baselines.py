"""Methods as their papers print them, where sdpkit's versions differ: for comparison only.

Elsewhere: `OutOfSample(variant="published")` and `QueryMetric(variant="published")`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

import sdpkit
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.inputs import integer
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array


def kernel_columns(
    kernel: ArrayLike, y: ArrayLike, n_components: int, *, n_neighbors: int = 3, ridge: float = 1e-6
) -> sdpkit.LMNN:
    """LMNN with a d × n matrix A on the columns of a kernel (Min 2008, theorem 4 and eq. 6).

    A kernel of full rank gives n points n independent features: A can then map every class to a
    point, the loss is almost zero whatever the labels, and nothing is learned. The weights of A
    have no bound in the paper; here a small ridge bounds them. `LMNN(kernel=…, rank=…)` states
    the number of features instead.

    >>> import sdpkit
    >>> X, y = sdpkit.datasets.concentric_circles(8)
    >>> problem = kernel_columns(sdpkit.gaussian_weights(X, 0.5), y, 2, n_neighbors=1)
    >>> bool(sdpkit.solve(problem).objective < 0.01)
    True
    """
    columns = np.asarray(kernel)
    return sdpkit.LMNN(columns, y, n_components=n_components, n_neighbors=n_neighbors, ridge=ridge)


@dataclass(frozen=True, eq=False)
class EMMixture:
    """What the EM-like procedure found.

    Attributes
    ----------
    thetas: (steps, m) the weights θ of each step, the first one equal;  objectives: (steps,) the
    losses of eq. 7 of each step;  converged: whether the last two θ agree
    solutions: the program of each step
    """

    thetas: Array
    objectives: Array
    converged: bool
    solutions: tuple[Solution, ...]


def em_mixture(
    kernels: Sequence[ArrayLike],
    y: ArrayLike,
    rank: int,
    *,
    n_neighbors: int = 3,
    max_steps: int = 20,
) -> EMMixture:
    """The mixture of distances by the EM-like procedure of Min (2008), eq. 7 and 8.

    Given θ, the metrics Q^(k) minimise the loss of D = Σθ_k D_k: a convex program, in which
    θ_k Q^(k) is free, so that θ only matters where it is zero. Then every point goes to the
    kernel under which it violates its margins least, and θ_k is the share of points of kernel k.
    A kernel that no point chooses is lost for ever, and the loss can only rise:
    `DistanceMixture` solves for all kernels at once.

    >>> import sdpkit
    >>> X, y = sdpkit.datasets.concentric_circles(8)
    >>> grams = [X @ X.T, (1 + X @ X.T) ** 2]
    >>> em_mixture(grams, y, rank=2, n_neighbors=1).thetas[0]
    array([0.5, 0.5])
    """
    grams = [np.asarray(kernel, dtype=np.float64) for kernel in kernels]
    theta = np.full(len(grams), 1 / len(grams))
    whole = sdpkit.DistanceMixture(kernels=grams, y=y, rank=rank, n_neighbors=n_neighbors)
    thetas, objectives, solutions = [], [], []
    converged = False
    for _ in range(integer(max_steps, "max_steps")):
        used = np.flatnonzero(theta)
        problem = sdpkit.DistanceMixture(
            kernels=[grams[k] for k in used], y=y, rank=rank, targets=whole.target_table
        )
        solution = quiet_solve(problem)
        thetas.append(theta)
        objectives.append(solution.objective)
        solutions.append(solution)
        violations = np.full((len(grams), problem.n_points), np.inf)
        maps = np.split(problem.recover(solution).components[0], len(used), axis=1)
        for part, k, L in zip(problem.parts, used, maps, strict=True):
            violations[k] = _violations(part, part.points @ L.T / np.sqrt(theta[k]))
        chosen = np.bincount(violations.argmin(axis=0), minlength=len(grams)) / problem.n_points
        converged = bool(np.array_equal(chosen, theta))
        if converged:
            break
        theta = chosen
    return EMMixture(np.array(thetas), np.array(objectives), converged, tuple(solutions))


def _violations(part: sdpkit.LMNN, images: Array) -> Array:
    """(n,) ℓ_i of eq. 8: Σ_jl [1 + D(i, l) − D(i, j)]₊ over targets l and impostors j of i."""
    D = cdist(images, images, "sqeuclidean")
    other = part.labels[:, None] != part.labels
    out = np.zeros(len(images))
    for i, target in part.target_pairs:
        out[i] += np.maximum(0.0, 1 + D[i, target] - D[i, other[i]]).sum()
    return out
