"""Mixtures of kernels and of distances for large-margin nearest neighbours (Min 2008).

**Mixtures of kernels** (eq. 6). With K(θ) = Σθ_k K^(k), θ in the simplex, and f(θ) the optimum of
LMNN on the first r kernel-PCA features of K(θ), target neighbours fixed,

    minimise  f(θ)   subject to  θ ≥ 0, Σθ = 1

f(θ) is a convex program, certified like any; f itself is not convex. It is searched along
exchanges θ + s(e_k − e_l), which span every feasible direction: only steps that lower f are taken,
so that it never rises, and the end, where no exchange of the least size gains, is *stationary*.
The kernels themselves are tried first, so that the end is no worse than the best of them.

**Mixtures of distances** (eq. 7). D(i, j) = Σ_k θ_k (K_i − K_j)ᵀQ_k(K_i − K_j), all taken of the
k-th kernel. With N_k = θ_k Q_k the θ disappear, and what is left is one convex program with a
block per kernel, each distance the sum over all of them:

    minimise  (1−μ) Σ_k <N_k, P_k> + μ Σ_t [1 + Σ_k <N_k, C^k_ij − C^k_il>]₊ ,      N_k ⪰ 0
    dual      maximise Σα,  0 ≤ α ≤ μ,  (1−μ)P_k + Σα_t (C^k_ij − C^k_il) ⪰ 0  for every k
    bound     θΣα, the largest θ ≤ 1 that satisfies all of them: θ = min_k θ_k

It is solved in one program; the paper's assignment of each point to one kernel is not a descent
step. θ can only be read off as shares of the learned distances, since Q_k has no scale.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any, NoReturn

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_matrix, finite_points, integer, set_fields
from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.free_directions import LeftOut, allowance, free_note, length_notes
from sdpkit.problems.lmnn import LMNN, MODEL_ENTRIES
from sdpkit.program.compilation import minimise
from sdpkit.program.expressions import Unknown
from sdpkit.program.form import Program
from sdpkit.program.impostors import Impostors
from sdpkit.program.safe import SafeBounds
from sdpkit.results.metric import Metric, factor
from sdpkit.results.targets import target_neighbors, target_table
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.sequence import Ending
from sdpkit.typing import Array, Indices

# The first exchange between two kernels.
_FIRST_EXCHANGE = 0.25


# -- mixtures of kernels --------------------------------------------------------------------


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
    kernels: m Gram matrices, (n, n);  y: (n,) labels
    rank: the number of kernel-PCA features of the mixture
    n_neighbors, targets, mu, ridge: as in `LMNN`
    min_gain: a step must lower the objective by this share
    min_step: the least exchange between two kernels
    max_steps: at most so many programs

    Attributes
    ----------
    grams: the kernels as read-only copies;  scales: (m,) the mean squared distance of each
    target_table: (n, k) the target neighbours of every θ, −1 where there are fewer

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
        grams = _same_points(self.kernels, "kernel")
        for gram in grams:
            if gram.shape[0] != gram.shape[1]:
                raise InputError(f"a kernel has shape {gram.shape}; it must be square")
        scales = np.array([_spread(gram) for gram in grams])
        set_fields(self, grams=grams, scales=scales)
        set_fields(self, target_table=self._targets())
        # LMNN refuses what is not a kernel, or not labels.
        for theta in np.eye(self.n_kernels):
            _ = self.at(theta).features

    def _targets(self) -> Any:
        if self.targets is not None:
            return self.targets
        scaled = zip(self.grams, self.scales, strict=True)
        views = [_gram_features(gram / scale) for gram, scale in scaled]
        return _common_targets(views, self.y, self.n_neighbors)

    @property
    def n_kernels(self) -> int:
        """m."""
        return len(self.grams)

    def mixed(self, theta: ArrayLike, new: Sequence[ArrayLike] | None = None) -> Array:
        """(n, n) Σθ_k K^(k), of kernels of equal scale; of rows (b, n) of new points per kernel.

        A metric that was recovered takes such rows.
        """
        weights = _simplex(theta, self.n_kernels)
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


# -- mixtures of distances ------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class DistanceMixture:
    """LMNN on a sum of distances, one per kernel or per view of the points (eq. 7).

    Parameters
    ----------
    views: m arrays of the same n points, (n, D_k);  y: (n,) labels
    kernels: m Gram matrices (n, n) instead
    rank: the number of kernel-PCA features, one number or one per kernel
    n_neighbors, targets, mu, ridge: as in `LMNN`; target neighbours that are not given are
        nearest in the sum of the inputs' own distances, each put to the same scale

    Attributes
    ----------
    parts: LMNN on each of the distances alone, all with the same target neighbours
    target_table: (n, k) these neighbours, −1 where there are fewer

    >>> import sdpkit
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> problem = DistanceMixture([X[:, :6], X[:, 6:]], y)
    >>> solution = sdpkit.solve(problem)
    >>> solution.status, len(solution.matrices)
    (<Status.OPTIMAL: 'optimal'>, 2)
    >>> metric = problem.recover(solution)
    >>> problem.shares(metric).round(1)
    array([0.4, 0.6])
    >>> metric.predict(np.hstack([X[:2, :6], X[:2, 6:]]))
    array([0, 0])
    """

    views: Sequence[ArrayLike] | None = None
    y: Any = None
    _: KW_ONLY
    kernels: Sequence[ArrayLike] | None = None
    rank: int | Sequence[int] | None = None
    n_neighbors: int = 3
    targets: ArrayLike | None = None
    mu: float = 0.5
    ridge: float = 0.0
    target_table: Any = field(init=False)
    parts: tuple[LMNN, ...] = field(init=False)

    default_tol = 1e-3

    @one_blas_thread
    def __post_init__(self) -> None:
        if (self.views is None) == (self.kernels is None):
            given = "neither" if self.views is None else "both"
            raise InputError(f"pass views of the points or kernels, not both; {given} was given")
        integer(self.n_neighbors, "n_neighbors")
        inputs = _same_points(
            self.kernels if self.views is None else self.views,
            "kernel" if self.views is None else "view",
        )
        found: Any = self.targets
        if found is None:
            features = list(inputs) if self.kernels is None else [_gram_features(k) for k in inputs]
            found = _common_targets([_unit(f) for f in features], self.y, self.n_neighbors)
        set_fields(self, target_table=found)
        set_fields(self, parts=tuple(self._part(k, x) for k, x in enumerate(inputs)))
        _ = [part.features for part in self.parts]

    def _part(self, k: int, inputs: Array) -> LMNN:
        """LMNN on one of the distances alone."""
        if self.y is None:
            raise InputError("a mixture of distances needs labels y")
        data: dict[str, Any] = {"X": inputs}
        if self.kernels is not None:
            ranks = np.atleast_1d(np.asarray(self.rank, dtype=object))
            if ranks.size not in (1, len(self.kernels)):
                raise InputError(f"{ranks.size} ranks for {len(self.kernels)} kernels")
            rank = ranks[k % ranks.size]
            rank = rank if rank is None else integer(rank, "rank")
            data = {"kernel": inputs, "rank": rank}
        elif self.rank is not None:
            raise InputError("rank belongs to kernels; reduce the views by PCA first")
        return LMNN(
            y=self.y,
            n_neighbors=self.n_neighbors,
            targets=self.target_table,
            mu=self.mu,
            ridge=self.ridge,
            **data,
        )

    @property
    def n_points(self) -> int:
        """n."""
        return int(self.parts[0].points.shape[0])

    @cached_property
    def groups(self) -> Indices | None:
        """(1, n) points that no view keeps apart at no cost share a number; None if all do."""
        table = np.array([part.coordinates[0].groups for part in self.parts])
        if not table.any():
            return None
        return np.unique(table, axis=1, return_inverse=True)[1].reshape(1, -1).astype(np.int64)

    def _family(self, groups: Indices | None) -> Impostors:
        first = self.parts[0]
        return Impostors(
            first.target_pairs,
            first.labels,
            float(self.mu),
            np.zeros_like(first.labels),
            groups,
            summed=True,
        )

    @one_blas_thread
    def program(self) -> Program:
        """One block per view, whitened: every cost is the identity."""
        views = [part.coordinates[0] for part in self.parts]
        unknowns = [Unknown(f"N{k + 1}", features=c.inputs) for k, c in enumerate(views)]
        free = sum(c.n_free for c in views)
        return minimise(
            sum(N.trace() for N in unknowns),  # (1−μ)P_k = I in these coordinates
            family=self._family(self.groups),  # μ Σ[1 + q_ij − q_il]₊, summed over the views
            safe=SafeBounds(value_scale=self.mu),
            notes=[] if self.groups is None else [free_note(free)],
            name=f"LMNN on a sum of {len(self.parts)} distances",
        )

    def to_cvxpy(self) -> Any:
        """The paper's model with N_k = θ_k Q_k, in the original features; every triplet written."""
        import cvxpy as cp

        family = self._family(None)
        terms = family.terms(family.everything())
        widths = [part.features.shape[1] for part in self.parts]
        if terms.size * sum(widths) > MODEL_ENTRIES:
            raise InputError(
                f"{terms.size} triplets in {sum(widths)} dimensions are too many "
                "for cvxpy; use sdpkit.solve"
            )
        N = [cp.Variable((D, D), PSD=True, name=f"N{k + 1}") for k, D in enumerate(widths)]

        def lengths(start: Indices, end: Indices) -> Any:
            """Squared distances, the sum over all views."""
            terms = []
            for part, matrix in zip(self.parts, N, strict=True):
                v = part.features[start] - part.features[end]
                terms.append(cp.sum(cp.multiply(v @ matrix, v), axis=1))
            return sum(terms)

        near, far = lengths(*terms.pulls.T), lengths(*terms.pushes.T)
        slack = cp.Variable(terms.size, nonneg=True, name="xi")
        pull = (1 - self.mu) * cp.sum(near) + self.ridge * sum(cp.trace(m) for m in N)
        margin = far[terms.push] - near[terms.pull] >= 1 - slack
        return cp.Problem(cp.Minimize(pull + self.mu * cp.sum(slack)), [margin])

    # -- the answer --------------------------------------------------------------------------

    @one_blas_thread
    def recover(self, solution: Solution) -> Metric:
        """The learned metric on all views side by side: new points are rows of (Σ D_k) numbers."""
        parts, notes = self._components(solution)
        maps = [part.kernel_map for part in self.parts]
        seen = [c if a is None else c @ a.T for c, a in zip(parts, maps, strict=True)]
        first = self.parts[0]
        return Metric(
            components=(np.asarray(scipy.linalg.block_diag(*seen)),),
            X=np.hstack([part.points for part in self.parts]),
            labels=first.labels,
            classes=first.classes,
            block_of=np.zeros(self.n_points, dtype=np.int64),
            target_pairs=first.target_pairs,
            n_neighbors=self.n_neighbors,
            mu=self.mu,
            notes=notes,
        )

    def _components(self, solution: Solution) -> tuple[list[Array], tuple[str, ...]]:
        """Per view L with N = LᵀL on its features, the free directions included; and notes on
        these."""
        components = [
            factor(np.asarray(m), None) @ part.coordinates[0].whitening.T
            for m, part in zip(solution.matrices, self.parts, strict=True)
        ]
        if self.groups is None:
            return components, ()
        every = self._family(None)
        pairs = zip(self.parts, components, strict=True)
        outputs = [part.features @ component.T for part, component in pairs]
        left_out = LeftOut.of(every, outputs, allowance(solution, self.default_tol))
        left_out.allowed /= len(self.parts)
        added = [
            left_out.push(part.coordinates[0], part.features, every.block_of, 0)
            for part in self.parts
        ]
        grown = [np.vstack([part, *rows]) for part, rows in zip(components, added, strict=True)]
        return grown, length_notes(added)

    def objective(self, metric: Metric) -> float:
        """The exact objective of a metric on all views side by side, over all triplets."""
        widths = np.cumsum([part.points.shape[1] for part in self.parts])[:-1]
        parts = np.split(metric.components[0], widths, axis=1)
        value = 0.0
        outputs = []
        for part, component in zip(self.parts, parts, strict=True):
            outputs.append((part.points - part.points.mean(axis=0)) @ component.T)
            value += self.ridge * part.trace(component) if self.ridge else 0.0
        i, j = self.parts[0].target_pairs.T
        pull = sum(float(np.square(points[i] - points[j]).sum()) for points in outputs)
        return value + (1 - self.mu) * pull + self.mu * self._family(None).hinge_sum(outputs)

    def shares(self, metric: Metric) -> Array:
        """(m,) what each view contributes to the mean squared distance between the points."""
        widths = np.cumsum([part.points.shape[1] for part in self.parts])[:-1]
        parts = np.split(metric.components[0], widths, axis=1)
        spreads = np.array(
            [
                np.square((part.points - part.points.mean(axis=0)) @ component.T).sum()
                for part, component in zip(self.parts, parts, strict=True)
            ]
        )
        total = float(spreads.sum())
        return np.asarray(spreads / total) if total > 0 else np.full(len(parts), 1 / len(parts))

    def __repr__(self) -> str:
        sizes = ", ".join(str(part.features.shape[1]) for part in self.parts)
        noun = "views" if self.kernels is None else "kernels"
        return (
            f"<DistanceMixture: {self.n_points} points in {len(self.parts)} {noun} of {sizes} "
            f"dimensions, mu {self.mu:g}>"
        )


# -- what both take -------------------------------------------------------------------------


def _same_points(given: Any, what: str) -> tuple[Array, ...]:
    if isinstance(given, str) or (isinstance(given, np.ndarray) and given.ndim < 3):
        raise InputError(f"pass a list of {what}s, one array each")
    checked = finite_points if what == "view" else finite_matrix
    try:
        arrays = tuple(checked(one, f"{what} {k + 1}") for k, one in enumerate(given))
    except TypeError as error:
        raise InputError(f"pass a list of {what}s, one array each") from error
    if not arrays:
        raise InputError(f"a mixture needs at least one {what}")
    counts = [len(array) for array in arrays]
    if len(set(counts)) > 1:
        raise InputError(f"the {what}s have {counts} points; they must be the same points")
    return arrays


def _common_targets(views: Sequence[Array], y: Any, k: int) -> Indices:
    """(n, k) target neighbours in the views side by side."""
    n = len(views[0])
    given = np.asarray(y)
    if given.shape != (n,):
        raise InputError(f"y has shape {given.shape}, expected ({n},): one label per point")
    labels = np.unique(given, return_inverse=True)[1].astype(np.int64)
    pairs = target_neighbors(np.hstack(list(views)), labels, k)
    if not pairs.size:
        raise InputError("no class has two members, so that there are no target neighbours")
    return target_table(pairs, n)


def _centred(kernel: Array) -> Array:
    means = kernel.mean(axis=0)
    return np.asarray(kernel - means - means[:, None] + means.mean())


def _spread(kernel: Array) -> float:
    """The mean squared distance of a kernel's points from their centre."""
    spread = float(np.trace(_centred(kernel))) / len(kernel)
    # A constant kernel may round to either side of 0.
    if spread < -1e-12 * float(np.abs(kernel).max()):
        raise InputError(
            "one of the kernels has negative squared distances: a matrix of inner products has no "
            "negative eigenvalues"
        )
    if spread <= 0:
        raise InputError("one of the kernels has distance 0 between all points: leave it out")
    return spread


def _gram_features(kernel: Array) -> Array:
    """(n, n) points with this Gram matrix, what is negative left out."""
    continue_or_raise()
    values, vectors = scipy.linalg.eigh(_centred(kernel))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _unit(features: Array) -> Array:
    """Features centred and put to a mean squared length of one."""
    centred = features - features.mean(axis=0)
    size = float(np.sqrt(np.square(centred).sum() / len(centred)))
    return np.asarray(centred / size) if size > 0 else centred


def _simplex(theta: ArrayLike, m: int) -> Array:
    out = np.asarray(theta, dtype=np.float64)
    if out.shape != (m,) or not np.isfinite(out).all() or out.min() < 0:
        raise InputError(f"theta is {theta!r}; it must be {m} nonnegative numbers")
    if abs(out.sum() - 1) > 1e-9:
        raise InputError(f"theta adds up to {out.sum():.6g}; it must add up to 1")
    return out
