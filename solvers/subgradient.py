"""A solver for families of hinges: projected subgradients with steps from the bound.

It descends like Algorithm 3 of Weinberger 2007 (`sdpkit.solvers.algorithm_3`), in coordinates in
which every cost is the identity,

    M ← P(M − s·G),   G = I + weight·Σ_{t active} (C_ij − C_il),

on the rows seen active so far, with a look at all rows every twenty steps. What differs:

- *The step* is Polyak's, s = (f − level)/‖D‖², with a level halfway between the best objective and
  the best bound (Polyak 1969; Kim, Ahn and Cho 1991). Where the level is attained the objective
  falls, where it is not the bound rises.
- *Its length* counts only what the cone lets pass: D is G without the part that the projection
  would take back, G's component in the normal cone at M (Larsson, Patriksson and Strömberg 1996,
  conditional subgradients).
- *Averages* of M and of the activity of each row, both weighted by the steps. With N_k ⪰ 0 what
  the projections add, Σ s_k G_k = M_0 − M_K + Σ N_k, so that the averaged multipliers α have

      G(α) ⪰ (M_0 − M_K)/Σs_k :

  they become feasible as the steps add up, and θα is, with θ ≤ 1 from one eigenvalue. Averages
  are restarted whenever the number of steps has doubled, since the first steps are the worst.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from sdpkit.numerics.threads import one_thread_of_blas
from sdpkit.program.families import Rows, values
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.solver import Capabilities
from sdpkit.solvers.algorithm_3 import RowsSeen
from sdpkit.solvers.family_solver import FamilySolver, relative_gap, size_of_outputs
from sdpkit.solvers.hinge_program import HingeProgram
from sdpkit.solvers.in_time import set_up
from sdpkit.typing import Array

_MAX_ITERATIONS = 3000
_CHECK_STEPS = 20  # between looks at all rows
_FIRST_STEPS = 40  # until averages are restarted for the first time
_LEVEL = 0.5  # of the way from the bound to the best objective
_LEAST_SHARE = 0.05  # of the gap, which a step aims to descend where f is below the level
_LONGEST = 1e3  # the longest step, in units of the start


@dataclass(frozen=True, eq=False)
class ConeMatrix:
    """A positive semidefinite M.

    Attributes
    ----------
    matrix: (d, d) M;  root: (d, r) with M = root·rootᵀ;  null: (d, d − r) its null space
    """

    matrix: Array
    root: Array
    null: Array

    @classmethod
    def nearest(cls, matrix: Array) -> ConeMatrix:
        """The projection onto the cone."""
        values, vectors = scipy.linalg.eigh(matrix)
        kept = values > 0
        root = vectors[:, kept] * np.sqrt(values[kept])
        return cls(root @ root.T, root, vectors[:, ~kept])

    def passes(self, gradient: Array) -> Array:
        """The gradient without what the cone takes back of a step along it."""
        inside = self.null.T @ gradient @ self.null
        blocked = self.null @ ConeMatrix.nearest(inside).root if inside.size else self.null
        return np.asarray(gradient - blocked @ blocked.T)


class PolyakSubgradients:
    """The engine, and the best of both sides.

    Attributes
    ----------
    points, gradients, value: the iterate, one matrix per block;  seen: the rows seen active
    sums: Σ of the steps times the matrices, over the steps that `seen` averages
    length: of the last step;  longest: the longest that a step may be
    best, objective: the best matrices;  rows, alpha, bound: the best multipliers
    """

    def __init__(self, problem: HingeProgram, tol: float) -> None:
        self.problem, self.tol = problem, tol
        self.points = [ConeMatrix.nearest(f.T @ f) for f in problem.start(None)]
        self.best = self.points
        self.seen = RowsSeen.nothing(problem.family)
        self.sums = [np.zeros_like(point.matrix) for point in self.points]
        self.gradients = self.sums
        self.longest = _LONGEST * _norm([point.matrix for point in self.points])
        self.length, self.renewal = 0.0, _FIRST_STEPS
        self.value = self.objective = np.inf
        self.bound = -np.inf
        self.rows: Rows | None = None
        self.alpha: Array | None = None

    @property
    def gap(self) -> float:
        """Relative, of the best bounds."""
        return relative_gap(self.objective, self.bound)

    def step(self, driver: Driver) -> None:
        """Look at the start; then twenty steps on the rows seen, and a look at all rows."""
        started = np.isfinite(self.value)
        for k in range(min(_CHECK_STEPS, driver.iterations_left) if started else 0):
            if k:
                self._evaluate(self._outputs(self.points))
            self._move(driver.iterations)
            driver.count()
            if driver.out_of_time:
                break
        outputs = self._outputs(self.points)
        self.seen.add(self.problem.family.near(outputs, 0.0))
        self._evaluate(outputs)
        self._look(driver)

    def _outputs(self, points: list[ConeMatrix]) -> list[Array]:
        return self.problem.outputs([point.root.T for point in points])

    def _evaluate(self, outputs: list[Array]) -> None:
        """The objective over the rows seen, and its gradient."""
        seen, problem = self.seen, self.problem
        z = values(problem.family, seen.terms, outputs)
        seen.active = z > 0
        images = problem.images(seen.terms, seen.active.astype(float))
        self.gradients = [np.eye(len(image)) + image for image in images]
        self.value = _pull(self.points) + problem.weight * float(z[seen.active].sum())

    def _move(self, t: int) -> None:
        """M ← P(M − s·G) with Polyak's step; matrices and activity are averaged."""
        if t >= self.renewal:
            self.seen.begin_anew()
            self.sums = [np.zeros_like(total) for total in self.sums]
            self.renewal *= 2
        low = max(self.bound, 0.0)  # no hinge and no cost is negative
        aim = max(
            self.value - low - _LEVEL * (self.objective - low),
            _LEAST_SHARE * (self.objective - low),
        )
        pairs = list(zip(self.points, self.gradients, strict=True))
        size = _norm([point.passes(gradient) for point, gradient in pairs])
        self.length = min(aim / size**2, self.longest / _norm(self.gradients))
        self.seen.average(self.length)
        self.sums = [
            total + self.length * point.matrix
            for total, point in zip(self.sums, self.points, strict=True)
        ]
        self.points = [ConeMatrix.nearest(p.matrix - self.length * g) for p, g in pairs]

    def _look(self, driver: Driver) -> None:
        """After a look at all rows: keep the best of both sides, averages among them."""
        seen, problem = self.seen, self.problem
        if self.value < self.objective:
            self.objective, self.best = self.value, self.points
        if seen.steps > 0:
            self._try_averages()
        factors = [point.root.T for point in self.best]
        driver.record(
            lambda: problem.matrices(factors),
            objective=self.objective,
            bound=self.bound,
            gap=self.gap,
            primal_residual=0.0,
            dual_residual=0.0,
            active=float(seen.active.sum()),
            step=self.length,
        )
        if self.gap <= self.tol:
            driver.end(Stop.DONE, f"gap {self.gap:.1e} after {driver.iterations} steps")

    def _try_averages(self) -> None:
        seen, problem = self.seen, self.problem
        means = [ConeMatrix.nearest(total / seen.steps) for total in self.sums]
        hinges = problem.family.hinge_sum(self._outputs(means))
        value = _pull(means) + problem.weight * hinges
        if value < self.objective:
            self.objective, self.best = value, means
        activity = seen.activity / seen.steps
        share = problem.share(problem.images(seen.terms, activity))
        alpha = share * problem.weight * activity
        bound = float(seen.terms.row_constants @ alpha)
        if bound > self.bound:
            self.bound, self.rows, self.alpha = bound, seen.rows, alpha

    def answer(self, stop: Stop) -> Answer:
        """The best of both sides."""
        best = self.problem.matrices([point.root.T for point in self.best])
        return Answer(stop, "", best, np.zeros(0), self.alpha, rows=self.rows)

    def state(self) -> None:
        """It keeps no checkpoints."""


def _pull(points: list[ConeMatrix]) -> float:
    return sum(float(np.trace(point.matrix)) for point in points)


def _norm(matrices: list[Array]) -> float:
    total = sum(float(np.vdot(m, m)) for m in matrices)
    return max(float(np.sqrt(total)), float(np.sqrt(np.finfo(float).tiny)))


class Subgradient(FamilySolver):
    """Polyak's subgradient method as a solver."""

    name = "subgradient"
    capabilities = Capabilities(
        families=True,
        callback=True,
        summary="LMNN by projected subgradients with averages, to 1e-2 … 1e-3",
    )

    def seconds(self, program: Program, tol: float) -> float:
        """Ten times what `factored` needs at 1e-2; steps grow with the root of 1/tol."""
        work = 2.0 + 5e-5 * size_of_outputs(program)
        return work * math.sqrt(max(1.0, 1e-2 / tol))

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Descend; interrupted, the best point so far is returned."""
        driver = Driver(self.name, settings, _MAX_ITERATIONS)
        self.family_of(program)
        with one_thread_of_blas():
            engine = set_up(
                driver,
                lambda: PolyakSubgradients(HingeProgram.of(program, settings.tol), settings.tol),
            )
            return driver.run(engine)


SUBGRADIENT = Subgradient()
