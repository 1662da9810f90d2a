"""Very many comparisons, never listed: `factored` from a hundred thousand points on.

With many points the sum of hinges is smooth by itself. Replaced by

    max_{0 ≤ α ≤ 1}  α z_t − γ/2 (α − ½)²       maximiser  α_t = clip(½ + z_t/γ, 0, 1)

it has a gradient, and at its minimiser the α are feasible multipliers that nobody has to store
(`sdpkit.program.smoothed`). The bounds are then apart by what the smoothing costs, γ² times a
number that a pass over all comparisons tells.

The full objective F is known by a few such passes. In between a part f of it, on a few of the
anchors against all points, is minimised with its gradient corrected at the last point L_k
(a surrogate as of Jordan, Lee and Yang 2019, in the matrix M = LᵀL):

    L_{k+1} = argmin  f(M) + <∇F(M_k) − ∇f(M_k), M>

The correction adds a matrix Δ to the cost, which is otherwise the identity. Each round reduces the
error of the gradient by the relative error of the part's curvature. Where a part is too small for
that, it is doubled. A pass keeps the pairs that it found near, which makes the next ones cheap
(`sdpkit.program.kept_pairs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.linalg

from sdpkit.program.families import RowFamily
from sdpkit.program.kept_pairs import Keeping
from sdpkit.program.smoothed import Smoothed
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solvers.augmented import InnerPoint, InnerProblem
from sdpkit.solvers.family_solver import relative_gap
from sdpkit.solvers.hinge_program import Factors, HingeProgram, squared_norm
from sdpkit.solvers.inner import InTheFactor
from sdpkit.solvers.multiplier_method import moved
from sdpkit.solvers.working_set import WorkingSet
from sdpkit.typing import Array


@runtime_checkable
class StreamedFamily(RowFamily, Protocol):
    """A family whose rows can be summed without a list."""

    @property
    def keeping(self) -> Keeping:
        """The pairs that searches keep."""

    def smoothed(self, outputs: Any, features: Any, width: float) -> Smoothed:
        """All hinges, and the multipliers of a width."""


@dataclass(frozen=True)
class StreamSettings:
    """When comparisons are streamed, and how large the parts are. Widths are in units of the
    family."""

    least_points: int = 100_000
    anchors: tuple[int, ...] = (2_000, 8_000, 30_000)  # of the parts, one after the other
    width: float = 0.25  # of the first multipliers
    accuracies: tuple[float, ...] = (3e-2, 1e-2)  # of the first parts; of the others, see below
    accuracy: float = 0.15  # of tol: the gap to which a part is solved
    smoothing: float = 0.3  # of tol: what the smoothing may cost
    slack: tuple[float, ...] = (0.4, 0.25, 0.15, 0.1)  # of one working set after the other
    drift: float = 0.01  # relative change of L, squared, after which a part is searched again
    look_steps: int = 8
    most_steps: int = 400  # on one working set
    least_cost: float = 0.25  # an eigenvalue of I + Δ below this says that the part is too small
    gain: float = 0.5  # a gap that shrinks by less says so too
    thin: float = 1e-3  # of the longest direction of L: shorter ones are left out of full passes
    margin: float = 1.2  # by which the kept pairs of a pass reach beyond what it needs


STREAM = StreamSettings()


def is_streamed(problem: HingeProgram) -> bool:
    """Whether the comparisons are too many to be listed, and their family can do without."""
    full = all(rank == x.shape[1] for rank, x in zip(problem.ranks, problem.features, strict=True))
    many = problem.family.n_points >= STREAM.least_points
    return many and full and isinstance(problem.family, StreamedFamily)


@dataclass(frozen=True, eq=False)
class Found:
    """A full pass at some factors.

    Attributes
    ----------
    factors, width: the point and the width of its multipliers
    images: per block weight·Σα_t(C_ij − C_il)
    upper, lower: the bounds;  loss: what the smoothing costs, relative
    """

    factors: Factors
    width: float
    images: list[Array]
    upper: float
    lower: float
    loss: float

    @property
    def gap(self) -> float:
        """The relative distance of the bounds."""
        return relative_gap(self.upper, self.lower)


class StreamedSearch:
    """Full passes, and corrected parts in between.

    Attributes
    ----------
    factors: L of every block;  width: γ
    best: the pass with the smallest gap
    """

    def __init__(
        self, problem: HingeProgram, start: Factors, tol: float, pool: Any, memory: float
    ) -> None:
        self.problem, self.tol, self.pool, self.memory = problem, tol, pool, memory
        self.factors, self.width = start, STREAM.width
        self.best: Found | None = None
        self.part: Part | None = None
        self.anchors = STREAM.anchors[-1]

    def step(self, driver: Driver) -> None:
        """A part, with its gradient corrected after the first pass, and a pass over all."""
        if self.part is None:
            self._begin(driver)
        if driver.must_stop:
            return
        found = self._pass(self.problem, [_thinned(factor) for factor in self.factors])
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
            return
        if last is not None and found.gap > STREAM.gain * last.gap and not self._enlarge():
            driver.end(Stop.DONE, f"gap {self.best.gap:.1e}, which further passes do not improve")
            return
        self._set_width(found)
        self._correct(driver, found)

    def _begin(self, driver: Driver) -> None:
        """Larger and larger parts, each from the solution of the last."""
        goals = (*STREAM.accuracies, STREAM.accuracy * self.tol)
        for anchors, goal in zip(STREAM.anchors, goals, strict=True):
            self.part = Part(self.problem, anchors, self.pool, self.memory)
            self.factors = self.part.minimise(self.factors, self.width, None, goal, driver)
            if driver.must_stop:
                return
            self._set_width(self._pass(self.part.problem, self.factors))
        self.problem.family.keeping.start(self.memory / 4, STREAM.margin)

    def _set_width(self, found: Found) -> None:
        """A smaller width where the smoothing costs too much: by γ²."""
        allowed = STREAM.smoothing * self.tol
        if found.loss > 1.3 * allowed:
            self.width = found.width * float(np.sqrt(allowed / found.loss))

    def _correct(self, driver: Driver, found: Found) -> None:
        """The minimiser of the part with the gradient of the whole."""
        assert self.part is not None
        goal = STREAM.accuracy * self.tol
        while True:
            mine = self._pass(self.part.problem, found.factors, found.width)
            shift = [a - b for a, b in zip(found.images, mine.images, strict=True)]
            least = min(float(scipy.linalg.eigvalsh(delta)[0]) for delta in shift)
            if 1 + least >= STREAM.least_cost:
                break
            if not self._enlarge():
                driver.end(Stop.DONE, f"gap {found.gap:.1e}: parts say too little of the whole")
                return
        self.factors = self.part.minimise(self.factors, self.width, shift, goal, driver)

    def _enlarge(self) -> bool:
        """A part of twice as many anchors; False if it is the whole."""
        if self.anchors >= self.problem.family.n_points:
            return False
        self.anchors *= 2
        self.part = Part(self.problem, self.anchors, self.pool, self.memory)
        return True

    def _pass(self, problem: HingeProgram, factors: Factors, width: float | None = None) -> Found:
        """All comparisons of a problem at some factors."""
        width = self.width if width is None else width
        family: Any = problem.family
        outputs = problem.outputs(factors)
        sums = family.smoothed(outputs, problem.features, width * family.unit)
        weight = problem.weight
        images = [weight * image for image in sums.images]
        upper = squared_norm(factors) + weight * sums.hinges
        lower = problem.share(images) * weight * sums.worth
        loss = weight * (sums.hinges - sums.inner) / max(upper, np.finfo(float).tiny)
        return Found(factors, width, images, upper, lower, loss)

    def answer(self, stop: Stop) -> Answer:
        """The best pass; before the first one, the point that there is."""
        found = self.best
        factors, width = (
            (self.factors, self.width) if found is None else (found.factors, found.width)
        )
        return Answer(
            stop,
            "",
            matrices=self.problem.matrices(factors),
            x=np.zeros(0),
            smoothing=width * self.problem.family.unit,
        )

    def state(self) -> None:
        """It keeps no checkpoints."""


class Part:
    """Some of the anchors against all points.

    Attributes
    ----------
    problem: the program of these comparisons, each with a larger weight
    """

    def __init__(self, whole: HingeProgram, anchors: int, pool: Any, memory: float) -> None:
        share = min(1.0, anchors / whole.family.n_points)
        self.problem, self.pool = whole.part(share), pool
        family: Any = self.problem.family
        family.keeping.start(memory / 8, 1.5)

    def minimise(
        self,
        factors: Factors,
        width: float,
        shift: list[Array] | None,
        goal: float,
        driver: Driver,
    ) -> Factors:
        """The minimiser of the smoothed objective, to a relative gap of `goal`."""
        family, gamma = self.problem.family, width * self.problem.family.unit
        for slack in STREAM.slack:
            rows = family.near(self.problem.outputs(factors), gamma / 2 + slack * family.unit)
            working = WorkingSet.of(self.problem, rows, np.full(rows.size, 0.5), factors)
            inner = InnerProblem(self.problem, working, gamma, self.pool, shift)
            before = factors
            factors = _descended(inner, factors, goal, driver)
            if driver.must_stop or moved(before, factors) < STREAM.drift * slack:
                break
        return factors


def _descended(inner: InnerProblem, factors: Factors, goal: float, driver: Driver) -> Factors:
    """Quasi-Newton steps until the gap is at the goal, or L has moved far."""
    method, start, point = InTheFactor(factors), factors, inner.at(factors)
    for count in range(1, STREAM.most_steps):
        found = method.step(inner.at, point)
        driver.count()
        if found is None or driver.must_stop:
            break
        point = found
        is_look = count % STREAM.look_steps == 0
        far = moved(start, point.factors) > STREAM.drift
        if is_look and (far or _gap(inner, point) <= goal):
            break
    return point.factors


def _gap(inner: InnerProblem, point: InnerPoint) -> float:
    """The relative duality gap of the smoothed objective of a part."""
    problem, working = inner.problem, inner.working
    images = inner.images(point.alpha)
    shift = inner.shift or [np.zeros_like(image) for image in images]
    share = min(_share(*pair) for pair in zip(shift, images, strict=True))
    alpha = share * point.alpha
    change = float(np.square(alpha - working.a).sum())
    worth = float(working.terms.row_constants @ alpha)
    bound = problem.weight * (worth - 0.5 * inner.gamma * change)
    return (point.value - bound) / max(point.objective, np.finfo(float).tiny)


def _share(delta: Array, image: Array) -> float:
    """The largest θ ≤ 1 with I + Δ + θ·image ⪰ 0."""
    cost = np.eye(len(delta)) + delta
    least = float(scipy.linalg.eigvalsh(image, cost, subset_by_index=[0, 0])[0])
    return 1.0 if least >= -1 else -1 / least


def _thinned(factor: Array) -> Array:
    """The factor with orthogonal rows, without those that have shrunk to nothing."""
    _, values, rows = scipy.linalg.svd(factor, full_matrices=False)
    kept = max(1, int(np.sum(values > STREAM.thin * values[0])))
    return np.asarray(values[:kept, None] * rows[:kept])


def _better(one: Found | None, other: Found) -> Found:
    return other if one is None or other.gap < one.gap else one
