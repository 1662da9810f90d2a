"""Very many comparisons, never listed: `factored` from a hundred thousand points on.

With many points the sum of hinges is smooth by itself. Replaced by

    max_{0 ≤ α ≤ 1}  α z_t − γ/2 (α − ½)²       maximiser  α_t = clip(½ + z_t/γ, 0, 1)

it has a gradient, and at its minimiser the α are feasible multipliers that nobody has to store
(`sdpkit.program.smoothed`). The bounds are then apart by what the smoothing costs, γ² times a
number that a pass over all comparisons tells.

The full objective F is known by a few such passes. In between a part f of it, all anchors against
a few of the points, is minimised with its gradient corrected at the last point L_k
(a surrogate as of Jordan, Lee and Yang 2019, in the matrix M = LᵀL):

    L_{k+1} = argmin  f(M) + <∇F(M_k) − ∇f(M_k), M>

The correction adds a matrix Δ to the cost, which is otherwise the identity. Each round reduces the
error of the gradient by the relative error of the part's curvature. Where a part is too small for
that, it is doubled. A pass keeps the pairs that it found near, which makes the next ones cheap
(`sdpkit.program.kept_pairs`). Inside `joblib.parallel_config("dask")` the passes over all
comparisons are made on the cluster (`sdpkit.solvers.streamed_cluster`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.linalg

from sdpkit.files import free_memory
from sdpkit.program.families import RowFamily
from sdpkit.program.kept_pairs import Keeping
from sdpkit.program.smoothed import Smoothed
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solvers.augmented import InnerPoint, InnerProblem
from sdpkit.solvers.family_solver import relative_gap
from sdpkit.solvers.hinge_program import Factors, HingeProgram, factor_state, squared_norm
from sdpkit.solvers.inner import InTheFactor
from sdpkit.solvers.multiplier_method import moved
from sdpkit.solvers.streamed_cluster import ClusterPasses, current_client
from sdpkit.solvers.working_set import WorkingSet
from sdpkit.typing import Array


@runtime_checkable
class StreamedFamily(RowFamily, Protocol):
    """A family whose rows can be summed without a list, and which has parts by impostors."""

    @property
    def memory(self) -> float:
        """The bytes that searches and what they keep may take."""

    @property
    def keeping(self) -> Keeping:
        """The pairs that searches keep."""

    def smoothed(self, outputs: Any, features: Any, width: float) -> Smoothed:
        """All hinges, and the multipliers of a width."""

    def with_impostors(self, share: float) -> StreamedFamily:
        """The rows in which the impostor is one of a share of the points."""


@dataclass(frozen=True)
class StreamSettings:
    """When comparisons are streamed, and how large the parts are. Widths are in units of the
    family."""

    least_points: int = 100_000
    impostors: int = 1_000  # in the first part of 50,000 points, and as their root of more
    rows: float = 1.5e6  # violated comparisons of the second part
    goals: tuple[float, ...] = (0.1, 5e-3)  # the errors to which the first parts are solved
    width: float = 0.25  # of the first multipliers
    accuracy: float = 0.1  # of tol: the error to which a corrected part is solved
    share_of_gap: float = 0.03  # the same of the distance of the bounds, as long as it is large
    smoothing: float = 0.3  # of tol: what the smoothing may cost
    slacks: tuple[float, ...] = (0.4, 0.25, 0.15, 0.1)  # of one working set after the other
    drift: float = 0.01  # relative change of L, squared, at which a working set is renewed
    look_steps: int = 8
    most_steps: int = 150  # on one working set
    most_sets: int = 30  # working sets of a part, one after the other
    gain: float = 0.6  # a gap that shrinks by less says that the part is too small
    free_share: float = 0.25  # of the free memory that may be taken, where no limit is given
    thin: float = 1e-3  # of the longest direction of L: shorter ones are left out of full passes
    margin: float = 1.06  # by which the kept pairs of a pass reach beyond what it needs
    part_margin: float = 1.3  # the same, of a part, where L moves more


STREAM = StreamSettings()


def is_streamed(problem: HingeProgram) -> bool:
    """Whether the comparisons are too many to be listed, and their family can do without."""
    full = all(rank == x.shape[1] for rank, x in zip(problem.ranks, problem.features, strict=True))
    many = problem.family.n_points >= STREAM.least_points
    return many and full and isinstance(problem.family, StreamedFamily)


@dataclass(frozen=True, eq=False)
class Found:
    """A pass over comparisons at some factors.

    Attributes
    ----------
    factors, width: the point and the width of its multipliers
    images: per block weight·Σα_t(C_ij − C_il)
    upper, lower: the bounds, for the comparisons of this pass
    loss: what the smoothing costs, relative;  count: of comparisons with a multiplier
    """

    factors: Factors
    width: float
    images: list[Array]
    upper: float
    lower: float
    loss: float
    count: int

    @property
    def gap(self) -> float:
        """The relative distance of the bounds."""
        return relative_gap(self.upper, self.lower)


class StreamedSearch:
    """Full passes, and corrected parts in between.

    Attributes
    ----------
    factors: L of every block;  width: γ
    share: of the impostors in the part;  part: their comparisons, each with a larger weight
    best: the pass with the smallest gap;  memory: the bytes that kept pairs are a share of
    """

    def __init__(self, problem: HingeProgram, start: Factors, tol: float, pool: Any) -> None:
        family: Any = problem.family
        self.problem, self.tol, self.pool = problem, tol, pool
        self.memory = min(STREAM.free_share * free_memory(), family.memory)
        self.factors, self.width = start, STREAM.width
        self.best: Found | None = None
        self.has_begun, self.steps = False, 0
        client = current_client()
        self.cluster = (
            None
            if client is None
            else ClusterPasses(client, problem, self.memory / 4, STREAM.margin)
        )
        self.share, self.part = 1.0, problem

    def resume(self, kept: Mapping[str, Array]) -> None:
        """Resume from the state of an earlier run, or of one of the other engine."""
        width, share = float(kept["width"]), float(kept["share"])
        self.width = width if width > 0 else self.width
        if share > 0:
            self.has_begun = True
            self._take(share)
            self._keep_pairs()

    def step(self, driver: Driver) -> None:
        """A pass over all comparisons, and a part whose gradient it corrects."""
        self.steps = driver.iterations
        if not self.has_begun:
            self._begin(driver)
        if driver.must_stop:
            return
        found = self._pass(self.problem, [_thinned(factor) for factor in self.factors])
        if self.cluster is not None and self.cluster.has_failed:
            driver.notes.append("the Dask cluster failed; further passes were made here")
            self.cluster = None
        last, self.best = self.best, _better(self.best, found)
        driver.record(
            lambda: self.problem.matrices(found.factors),
            objective=found.upper,
            bound=found.lower,
            gap=found.gap,
            primal_residual=0.0,
            dual_residual=0.0,
        )
        if found.gap <= self.tol:
            driver.end(Stop.DONE, f"gap {found.gap:.1e} after {driver.iterations} steps")
        elif last is not None and found.gap > STREAM.gain * last.gap and not self._enlarge():
            driver.end(Stop.DONE, f"gap {self.best.gap:.1e}, which further passes do not improve")
        else:
            self._set_width(found)
            self._correct(found, driver)

    def _begin(self, driver: Driver) -> None:
        """Larger and larger parts, each from the solution of the last."""
        nothing = [np.zeros((x.shape[1],) * 2) for x in self.problem.features]
        share = STREAM.impostors / np.sqrt(50_000.0 * self.problem.family.n_points)
        for level, goal in enumerate(STREAM.goals):
            self._take(share)
            goal = max(goal, STREAM.accuracy * self.tol)
            found = self._minimise(nothing, goal, driver, level)
            if driver.must_stop:
                return
            share = self.share * max(1.0, STREAM.rows / max(found.count, 1))
        self.has_begun = True
        self._keep_pairs()

    def _keep_pairs(self) -> None:
        """Full passes keep what they find, from now on."""
        family: Any = self.problem.family
        family.keeping.start(self.memory / 4, STREAM.margin)

    def _correct(self, found: Found, driver: Driver) -> None:
        """The minimiser of the part with the gradient of the whole at what was found."""
        mine = self._pass(self.part, found.factors, found.width)
        shift = [a - b for a, b in zip(found.images, mine.images, strict=True)]
        goal = max(STREAM.accuracy * self.tol, STREAM.share_of_gap * found.gap)
        self._minimise(shift, goal, driver, len(STREAM.slacks) - 1, mine)

    def _minimise(
        self,
        shift: list[Array],
        goal: float,
        driver: Driver,
        first: int,
        found: Found | None = None,
    ) -> Found:
        """Minimise the part with a shifted cost, to an error of `goal`; the last pass over it.

        The `first` slacks are for worse starts; `found` is a pass at the start, if there was one.
        """
        unit = self.problem.family.unit
        found = found or self._pass(self.part, self.factors)
        for k in range(first, STREAM.most_sets):
            wider = self.width
            self._set_width(found)
            error = _error(found.factors, found.images, shift, found.upper)
            if (error <= goal and self.width == wider) or driver.must_stop:
                break
            slack = STREAM.slacks[min(k, len(STREAM.slacks) - 1)] * unit
            inner = PartProblem.of(self.part, found, shift, self.width * unit, slack, self.pool)
            self.factors = inner.descended(self.factors, 0.3 * goal, driver)
            found = self._pass(self.part, self.factors)
        return found

    def _set_width(self, found: Found) -> None:
        """A smaller width where the smoothing costs too much: by γ²."""
        allowed = STREAM.smoothing * self.tol
        if found.loss > 1.3 * allowed:
            self.width = found.width * float(np.sqrt(allowed / found.loss))

    def _enlarge(self) -> bool:
        """A part of twice as many impostors; False if it is the whole."""
        if self.share >= 1:
            return False
        self._take(2 * self.share)
        return True

    def _take(self, share: float) -> None:
        """The comparisons with a share of the impostors, each with a larger weight."""
        whole: Any = self.problem.family
        self.share = min(1.0, share)
        family = whole.with_impostors(self.share)
        family.keeping.start(self.memory / 8, STREAM.part_margin)
        weight = self.problem.weight * whole.n_rows / family.n_rows
        self.part = replace(self.problem, family=family, weight=weight)

    def _pass(
        self,
        problem: HingeProgram,
        factors: Factors,
        width: float | None = None,
    ) -> Found:
        """All comparisons of a problem."""
        width = self.width if width is None else width
        family: Any = problem.family
        sums = None
        if problem is self.problem and self.cluster is not None:
            sums = self.cluster.smoothed(factors, width * family.unit)
        if sums is None:
            sums = family.smoothed(problem.outputs(factors), problem.features, width * family.unit)
        images = [problem.weight * image for image in sums.images]
        upper = squared_norm(factors) + problem.weight * sums.hinges
        lower = problem.share(images) * problem.weight * sums.worth
        lost = problem.weight * (sums.hinges - sums.inner)
        loss = lost / max(upper, np.finfo(float).tiny)
        return Found(factors, width, images, upper, lower, loss, sums.count)

    def answer(self, stop: Stop) -> Answer:
        """The best pass; before the first one, the point that there is."""
        found = self.best
        factors = self.factors if found is None else found.factors
        width = self.width if found is None else found.width
        return Answer(
            stop,
            "",
            matrices=self.problem.matrices(factors),
            x=np.zeros(0),
            smoothing=width * self.problem.family.unit,
        )

    def state(self) -> dict[str, Any]:
        """The factors, and how far the parts have grown."""
        share = self.share if self.has_begun else 0.0
        return factor_state(self.factors, self.steps, self.width, share)


@dataclass(frozen=True, eq=False)
class PartProblem:
    """The smoothed objective of a part near some factors.

    Attributes
    ----------
    inner: the comparisons that are violated there, or nearly
    shift: per block Δ, where the cost is I + Δ;  scale: the size of the objective
    """

    inner: InnerProblem
    shift: list[Array]
    scale: float

    @classmethod
    def of(
        cls,
        part: HingeProgram,
        found: Found,
        shift: list[Array],
        gamma: float,
        slack: float,
        pool: Any,
    ) -> PartProblem:
        """The comparisons within `slack` of being violated at what was found."""
        rows = part.family.near(part.outputs(found.factors), gamma / 2 + slack)
        working = WorkingSet.of(part, rows, np.full(rows.size, 0.5), found.factors)
        return cls(InnerProblem(part, working, gamma, pool), shift, found.upper)

    def at(self, factors: Factors) -> InnerPoint:
        """The inner problem with the shifted cost."""
        point = self.inner.at(factors)
        extra = [L @ delta for L, delta in zip(factors, self.shift, strict=True)]
        linear = sum(float(np.vdot(a, b)) for a, b in zip(extra, factors, strict=True))
        gradient = [2 * a + b for a, b in zip(extra, point.gradient, strict=True)]
        return replace(point, value=point.value + linear, gradient=gradient)

    def descended(self, factors: Factors, goal: float, driver: Driver) -> Factors:
        """Quasi-Newton steps until the error is at the goal, or L has moved far."""
        method, start, point = InTheFactor(factors), factors, self.at(factors)
        for count in range(1, STREAM.most_steps):
            found = method.step(self.at, point)
            driver.count()
            if found is None:
                break  # as well as rounding allows
            point = found
            if driver.must_stop or moved(start, point.factors) > STREAM.drift:
                break
            if count % STREAM.look_steps == 0 and self._is_solved(point, goal):
                break
        return point.factors

    def _is_solved(self, point: InnerPoint, goal: float) -> bool:
        images = self.inner.images(point.alpha)
        return _error(point.factors, images, self.shift, self.scale) <= goal


def _error(factors: Factors, images: list[Array], shift: list[Array], scale: float) -> float:
    """What keeps the bounds apart besides the smoothing, where the images, shifted, are those of
    all comparisons: multipliers that are not feasible, and S = I + image with <S, M> ≠ 0."""
    slacks = [np.eye(len(a)) + a + b for a, b in zip(images, shift, strict=True)]
    lows = [float(scipy.linalg.eigvalsh(slack, subset_by_index=[0, 0])[0]) for slack in slacks]
    inner = sum(float(np.vdot(L @ S, L)) for L, S in zip(factors, slacks, strict=True))
    share = 1 / (1 + max(0.0, -min(lows)))
    return (1 - share) + abs(inner) / max(scale, np.finfo(float).tiny)


def _thinned(factor: Array) -> Array:
    """The factor with orthogonal rows, without those that have shrunk to nothing."""
    _, values, rows = scipy.linalg.svd(factor, full_matrices=False)
    kept = max(1, int(np.sum(values > STREAM.thin * values[0])))
    return np.asarray(values[:kept, None] * rows[:kept])


def _better(one: Found | None, other: Found) -> Found:
    return other if one is None or other.gap < one.gap else one
