"""Unfolding for several numbers of neighbours: what each gains, and which of them lock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import sdpkit
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.errors import InputError
from sdpkit.inputs import finite_points
from sdpkit.results.embedding import Embedding
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array

# The inputs themselves are feasible: below this gain of variance nothing was unfolded.
_LOCKED = 1.01


@dataclass(frozen=True, eq=False)
class SweptUnfolding:
    """MVU with k neighbours.

    Attributes
    ----------
    n_neighbors: k;  embedding: the outputs with their spectrum;  solution: with its certificate
    gain: variance of the outputs over variance of the inputs, 1 if nothing was unfolded
    """

    n_neighbors: int
    embedding: Embedding
    solution: Solution
    gain: float

    @property
    def is_locked(self) -> bool:
        """Whether the rods left no freedom: the outputs vary no more than the inputs."""
        return self.gain < _LOCKED

    @property
    def shares(self) -> Array:
        """Eigenvalues of the outputs as shares of their sum."""
        return np.asarray(self.embedding.eigenvalues / self.embedding.eigenvalues.sum())


@dataclass(frozen=True, eq=False)
class Sweep:
    """Unfoldings by rising k; printing shows gain, spectrum and the k that lock."""

    unfoldings: tuple[SweptUnfolding, ...]

    def __iter__(self) -> Any:
        return iter(self.unfoldings)

    def __str__(self) -> str:
        lines = ["k    variance gained  leading shares of the spectrum"]
        for one in self.unfoldings:
            shares = "  ".join(f"{share:.3f}" for share in one.shares[:4])
            mark = "  locked" if one.is_locked else ""
            lines.append(f"{one.n_neighbors:<4} {one.gain:<16.3f} {shares}{mark}")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """The spectra side by side, locked ones hatched; returns the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.figure().subplots()
        width = 0.8 / 5
        for column in range(5):
            heights = [float(np.r_[one.shares, np.zeros(5)][column]) for one in self.unfoldings]
            bars = ax.bar(np.arange(len(heights)) + column * width, heights, width)
            for bar, one in zip(bars, self.unfoldings, strict=True):
                bar.set_hatch("//" if one.is_locked else "")
        names = [f"{one.n_neighbors}{' locked' if one.is_locked else ''}" for one in self]
        ax.set_xticks(np.arange(len(names)) + 2 * width, names)
        ax.set_xlabel("k")
        ax.set_ylabel("share of the trace")
        return ax


def neighbor_sweep(
    X: ArrayLike, n_neighbors: Iterable[int], *, tol: float = 1e-3, **options: Any
) -> Sweep:
    """Unfold the points for each k, to choose k by the spectrum (Weinberger 2007, 3.1.12).

    Small k may disconnect the graph (`connect="bridge"` adds links). Large k may lock the data: the
    inputs are the only solution, and the gain of variance is 1.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points.
    n_neighbors : iterable of int
        The values of k.
    tol : float, default 0.001
        The tolerance of every solve.
    **options : object
        Passed to `MVU`.

    Returns
    -------
    Sweep
        One result per k, with spectrum, dimension and gain of variance.

    Examples
    --------
    >>> import sdpkit
    >>> grid = np.array([[i, j, 0.2 * i * i] for i in range(5) for j in range(4)])
    >>> sweep = neighbor_sweep(grid, [4, 12])
    >>> [one.is_locked for one in sweep]
    [False, True]
    """
    points = finite_points(X, "X")
    counts = sorted(n_neighbors)
    if not counts:
        raise InputError("n_neighbors is empty; pass the values of k to try, such as range(4, 9)")
    inputs = float(np.square(points - points.mean(axis=0)).sum())
    found = []
    for k in counts:
        problem = sdpkit.MVU(points, n_neighbors=k, **options)
        solution = quiet_solve(problem, tol=tol)
        gain = float(np.trace(problem.gram_matrix(solution))) / inputs
        found.append(SweptUnfolding(k, problem.recover(solution), solution, gain))
    return Sweep(tuple(found))
