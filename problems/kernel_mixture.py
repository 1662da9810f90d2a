"""Mixtures of kernels for large-margin nearest neighbours (Min 2008, eq. 6).

With K(θ) = Σθ_k K^(k), θ in the simplex, and f(θ) the optimum of LMNN on the first r kernel-PCA
features of K(θ), target neighbours fixed,

    minimise  f(θ)   subject to  θ ≥ 0, Σθ = 1

f(θ) is a convex program, certified like any; f itself is not convex. It is searched along
exchanges θ + s(e_k − e_l), which span every feasible direction: only steps that lower f are taken,
so that it never rises, and the end, where no exchange of the least size gains, is *stationary*.
The kernels themselves are tried first, so that the end is no worse than the best of them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import permutations
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import integer, set_fields
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.lmnn import LMNN
from sdpkit.problems.views import (
    common_targets,
    gram_features,
    mixture_weights,
    same_points,
    spread_of,
)
from sdpkit.program.form import Program
from sdpkit.results.metric import Metric
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.sequence import Ending
from sdpkit.typing import Array

# The first exchange between two kernels.
_FIRST_EXCHANGE = 0.25


@dataclass(frozen=True, eq=False, repr=False)
class KernelMixture:
    """LMNN on the best mixture Σθ_k K^(k) of given kernels (eq. 6).

    The kernels are put to the same scale first, a mean squared distance from the centre of one:
    θ weighs what they say, not their units. Target neighbours are given or found once, in the
    mixture of equal parts, so that every θ has the same comparisons.

    It takes a program per θ, and f is not convex: `sdpkit.solve` runs the search, `at(theta)` is
    the convex problem of one θ.

    Parameters
    ----------
    kernels : sequence of array-like
        m Gram matrices, (n, n).
    y : array-like of shape (n,)
        Labels.
    rank : int
        The number of kernel-PCA features of the mixture.
    n_neighbors : int, default 3
        As in `LMNN`.
    targets : array-like or None, default None
        As in `LMNN`.
    mu : float, default 0.5
        As in `LMNN`.
    ridge : float, default 0.0
        As in `LMNN`.
    min_gain : float, default 0.001
        A step must lower the objective by this share.
    min_step : float, default 0.02
        The least exchange between two kernels.
    max_steps : int, default 300
        At most so many programs.

    Attributes
    ----------
    grams : tuple of array
        The kernels as read-only copies.
    scales : array of shape (m,)
        The mean squared distance of each.
    target_table : array of shape (n, k)
        The target neighbours of every θ, −1 where there are fewer.

    Examples
    --------
    >>> import sdpkit
    >>> X, y = sdpkit.datasets.concentric_circles(12)
    >>> gram = X @ X.T
    >>> problem = KernelMixture([gram, (1 + gram) ** 2], y, rank=2, n_neighbors=1)
    >>> solution = sdpkit.solve(problem)
    >>> solution.status
    <Status.STATIONARY: 'stationary'>
    >>> thetas, objectives = problem.path(solution)
    >>> bool(solution.objective <= objectives[:2].min())           # the kernels themselves
    True
    """

    kernels: Sequence[ArrayLike]
    y: Any
    _: KW_ONLY
    rank: int
    n_neighbors: int = 3
    targets: ArrayLike | None = None
    mu: float = 0.5
    ridge: float = 0.0
    min_gain: float = 1e-3
    min_step: float = 0.02
    max_steps: int = 300
    grams: tuple[Array, ...] = field(init=False)
    scales: Array = field(init=False)
    target_table: Any = field(init=False)

    default_tol = 1e-3

    @one_blas_thread
    def __post_init__(self) -> None:
        for name in ("min_gain", "min_step"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.number) or not 0 < value < 1:
                raise InputError(f"{name} is {value!r}; it must lie between 0 and 1")
        for name in ("rank", "n_neighbors", "max_steps"):
            integer(getattr(self, name), name)
        grams = same_points(self.kernels, "kernel")
        for gram in grams:
            if gram.shape[0] != gram.shape[1]:
                raise InputError(f"a kernel has shape {gram.shape}; it must be square")
        scales = np.array([spread_of(gram) for gram in grams])
        set_fields(self, grams=grams, scales=scales)
        set_fields(self, target_table=self._targets())
        # LMNN refuses what is not a kernel, or not labels.
        for theta in np.eye(self.n_kernels):
            _ = self.at(theta).features

    def _targets(self) -> Any:
        if self.targets is not None:
            return self.targets
        scaled = zip(self.grams, self.scales, strict=True)
        views = [gram_features(gram / scale) for gram, scale in scaled]
        return common_targets(views, self.y, self.n_neighbors)

    @property
    def n_kernels(self) -> int:
        """m."""
        return len(self.grams)

    def mixed(self, theta: ArrayLike, new: Sequence[ArrayLike] | None = None) -> Array:
        """(n, n) Σθ_k K^(k), of kernels of equal scale; of rows (b, n) of new points per kernel.

        A metric that was recovered takes such rows.
        """
        weights = mixture_weights(theta, self.n_kernels)
        parts: Sequence[ArrayLike] = self.grams if new is None else new
        if len(parts) != self.n_kernels:
            raise InputError(f"{len(parts)} arrays of new points for {self.n_kernels} kernels")
        terms = zip(weights / self.scales, parts, strict=True)
        return np.asarray(sum(weight * np.asarray(part) for weight, part in terms))

    def at(self, theta: ArrayLike) -> LMNN:
        """The convex problem of one mixture."""
        return self._on(self.mixed(theta))

    def _on(self, kernel: Array) -> LMNN:
        return LMNN(
            None,
            self.y,
            kernel=kernel,
            rank=self.rank,
            n_neighbors=self.n_neighbors,
            targets=self.target_table,
            mu=self.mu,
            ridge=self.ridge,
        )

    # -- the search --------------------------------------------------------------------------

    def _search(self) -> Generator[Array, float, str]:
        """Yields the θ to try, is sent its objective, and returns why it ends.

        A function of what it is sent: `advance` and `path` run it from the start each time.
        """
        m = self.n_kernels
        theta, best = np.full(m, 1.0 / m), np.inf
        for trial in [*np.eye(m), *[theta] * (m > 1)]:
            value = yield trial
            if value < best:
                theta, best = trial, value
        pairs = list(permutations(range(m), 2))
        exchange = _FIRST_EXCHANGE
        tried = {theta.tobytes()}
        while exchange >= self.min_step and pairs:
            gained = False
            for pair in list(pairs):
                length = exchange
                while True:
                    trial = _exchanged(theta, *pair, length)
                    if trial.tobytes() in tried:
                        break
                    tried.add(trial.tobytes())
                    value = yield trial
                    if value > best - self.min_gain * max(abs(best), self.mu):
                        break
                    theta, best, gained, length = trial, value, True, 2 * length
            exchange = exchange if gained else exchange / 2
        return (
            f"no exchange of {self.min_step:g} between two kernels lowers the objective by more "
            f"than {100 * self.min_gain:g} %"
        )

    def advance(self, solutions: tuple[Solution, ...], tol: float) -> Program | Ending:
        """The program of the next θ, or the end at the best one."""
        search = self._search()
        best = min(solutions, key=lambda s: s.objective) if solutions else None
        try:
            theta = next(search)
            for solution in solutions:
                theta = search.send(solution.objective)
        except StopIteration as end:
            return Ending(end.value, Status.STATIONARY, best)
        if len(solutions) >= self.max_steps:
            reason = f"max_steps = {self.max_steps} reached"
            return Ending(reason, Status.ITERATION_LIMIT, best)
        return self.at(theta).program()

    def path(self, solution: Solution) -> tuple[Array, Array]:
        """((s, m) every θ that was tried, (s,) the objective there), the m kernels first."""
        if solution.trajectory is None:
            raise InputError(
                "this solution has no trajectory; pass what sdpkit.solve returned for this mixture"
            )
        values = [step.objective for step in solution.trajectory]
        search = self._search()
        thetas = [next(search)]
        for value in values[:-1]:
            thetas.append(search.send(value))
        return np.array(thetas), np.array(values)

    def theta(self, solution: Solution) -> Array:
        """(m,) the weights of a solution, on kernels of equal scale."""
        thetas, objectives = self.path(solution)
        return np.asarray(thetas[objectives.argmin()])

    # -- the other formulation, and the way back ---------------------------------------------

    def program(self) -> NoReturn:
        """There is one program per θ: `at(theta).program()`."""
        raise InputError(
            "KernelMixture takes one program per theta and has no single one. Use "
            "sdpkit.solve(problem), or problem.at(theta).program() for one theta."
        )

    def to_cvxpy(self, theta: ArrayLike) -> Any:
        """The paper's model at one θ only; the search over θ is not convex, and is not in it."""
        return self.at(theta).to_cvxpy()

    @one_blas_thread
    def recover(self, solution: Solution) -> Metric:
        """The metric on rows of the mixed kernel; new points are `mixed(theta, rows)`."""
        return self.at(self.theta(solution)).recover(solution)

    def objective(self, metric: Metric) -> float:
        """The exact objective of a metric on the rows of a mixed kernel, which are its points."""
        return self._on(metric.X).objective(metric)

    def __repr__(self) -> str:
        n = len(self.grams[0])
        return f"<KernelMixture: {self.n_kernels} kernels of {n} points, rank {self.rank}>"


def _exchanged(theta: Array, to: int, away: int, length: float) -> Array:
    """θ with `length` taken from one kernel and given to another, or all there is."""
    out = theta.copy()
    moved = min(length, float(theta[away]))
    out[to] += moved
    out[away] -= moved
    return out
