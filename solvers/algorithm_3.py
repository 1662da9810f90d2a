"""A solver for families of hinges as published: Weinberger 2007, Algorithm 3 (section 2.1.7).

It takes projected subgradient steps with an active set,

    M ← P(M − s·G),   G = C + weight·Σ_{t active} (C_ij − C_il)

with P the projection onto the cone, for the rows z_t = c_t + q_ij − q_il of any family
(`sdpkit.program.families`); z_t > 0 makes a row active. The gradient changes only by the rows that
become active or cease to be (eq. 2.15); all rows are looked at every ten steps, the ones seen
active so far in between. The step s grows by 1 % after a decrease of the objective and halves
after an increase.

The algorithm itself has no dual. Averages of the activity of each row, weighted by the steps,
converge to multipliers (slowly: this is the baseline that others are compared with); they
are restarted whenever the number of steps has doubled. `sdpkit.solvers.subgradient` takes other
steps, and is the one to use.

One deviation: the start is the best multiple of the identity, in the program's coordinates,
rather than the identity, since M has the inverse unit of the data squared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from sdpkit.program.families import RowFamily, Rows, Terms, best_scale, values
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.solver import Capabilities
from sdpkit.solvers.family_solver import FamilySolver, relative_gap, size_of_outputs
from sdpkit.solvers.in_time import set_up
from sdpkit.typing import Array, Bools

_MAX_ITERATIONS = 3000
_CHECK_STEPS = 10  # between looks at all rows
_GROWTH, _SHRINKAGE = 1.01, 0.5  # of the step, after a success and after a failure
_FIRST_SHARE = 1e-3  # of its norm, by which the first step moves M


@dataclass(eq=False)
class RowsSeen:
    """The rows seen active so far.

    Attributes
    ----------
    rows: their numbers;  terms: what they say
    active: which of them the present gradient counts
    activity: their activity summed over the steps, weighted by the step; steps: Σ of the weights
    """

    family: RowFamily
    rows: Rows
    terms: Terms
    active: Bools
    activity: Array
    steps: float = 0.0

    @classmethod
    def nothing(cls, family: RowFamily) -> RowsSeen:
        """No row seen yet."""
        none = np.empty(0, np.int64)
        return cls(family, none, family.terms(none), np.zeros(0, bool), np.zeros(0))

    def add(self, found: Rows) -> None:
        """Take in rows that a look at all of them found."""
        rows = np.union1d(self.rows, found)
        place = np.searchsorted(rows, self.rows)
        active, activity = np.zeros(rows.size, dtype=bool), np.zeros(rows.size)
        active[place], activity[place] = self.active, self.activity
        self.rows, self.active, self.activity = rows, active, activity
        self.terms = self.family.terms(rows)

    def average(self, step: float) -> None:
        """Count the present activity with the weight of a step."""
        self.activity += step * self.active
        self.steps += step

    def begin_anew(self) -> None:
        """Forget the averages, not the rows."""
        self.activity[:] = 0.0
        self.steps = 0.0


class ProjectedSubgradients:
    """The engine: Algorithm 3, and the best of both sides.

    Attributes
    ----------
    matrices, gradients, value: the iterate;  length: of its step;  seen: the rows seen active
    best, objective: the best matrices;  rows, alpha, bound: the best multipliers
    """

    def __init__(self, program: Program, family: RowFamily, start: list[Array], tol: float) -> None:
        self.program, self.family, self.tol = program, family, tol
        self.costs = [block.cost.dense() for block in program.blocks]
        self.matrices = self.best = start
        self.gradients = [cost.copy() for cost in self.costs]
        self.seen = RowsSeen.nothing(family)
        self.length, self.value, self.renewal = 0.0, np.inf, 2 * _CHECK_STEPS
        self.objective, self.bound = np.inf, -np.inf
        self.rows: Rows | None = None
        self.alpha: Array | None = None

    @property
    def gap(self) -> float:
        """Relative, of the best bounds."""
        return relative_gap(self.objective, self.bound)

    def step(self, driver: Driver) -> None:
        """Look at the start; then ten steps on the rows seen, and a look at all rows."""
        for k in range(min(_CHECK_STEPS, driver.iterations_left) if self.length else 0):
            if k:
                self._evaluate(self.program.outputs(self.matrices))
            self._move(driver.iterations)
            driver.count()
            if driver.out_of_time:
                break
        outputs = self.program.outputs(self.matrices)
        self.seen.add(self.family.near(outputs, 0.0))
        self._evaluate(outputs)
        self._look(driver)

    def _evaluate(self, outputs: list[Array]) -> None:
        """The objective over the rows seen, the gradient by the change of the active ones, and
        the length of the step."""
        seen, weight = self.seen, self.family.weight
        z = values(self.family, seen.terms, outputs)
        now = z > 0
        images = self.program.family_images(seen.terms, weight * (now.astype(float) - seen.active))
        seen.active = now
        pulls = [float(np.vdot(c, m)) for c, m in zip(self.costs, self.matrices, strict=True)]
        value = sum(pulls) + weight * float(z[now].sum())
        self.gradients = [g + image for g, image in zip(self.gradients, images, strict=True)]
        self.length = self.length or _FIRST_SHARE * _norm(self.matrices) / _norm(self.gradients)
        self.length *= _GROWTH if value <= self.value else _SHRINKAGE
        self.value = value

    def _move(self, t: int) -> None:
        """M ← P(M − s·G), the activity averaged."""
        if t >= self.renewal:
            self.seen.begin_anew()
            self.renewal *= 2
        self.seen.average(self.length)
        pairs = zip(self.matrices, self.gradients, strict=True)
        self.matrices = [_onto_cone(m - self.length * g) for m, g in pairs]

    def _look(self, driver: Driver) -> None:
        """After a look at all rows: keep the best of both sides."""
        seen = self.seen
        if self.value < self.objective:
            self.objective, self.best = self.value, self.matrices
        if seen.steps > 0:
            alpha = seen.family.weight * seen.activity / seen.steps
            share = _share(self.program, seen.terms, alpha)
            bound = share * float(seen.terms.row_constants @ alpha)
            if bound > self.bound:
                self.bound, self.rows, self.alpha = bound, seen.rows, share * alpha
        matrices = tuple(self.matrices)
        driver.record(
            lambda: matrices,
            objective=self.value,
            bound=self.bound,
            gap=self.gap,
            primal_residual=0.0,
            dual_residual=0.0,
            active=float(seen.active.sum()),
            step=self.length,
        )
        if self.gap <= self.tol:
            driver.end(Stop.DONE, f"gap {self.gap:.1e} after {driver.iterations} steps")

    def answer(self, stop: Stop) -> Answer:
        """The best of both sides."""
        best = tuple(self.best)
        return Answer(stop, "", best, np.zeros(0), self.alpha, rows=self.rows)

    def state(self) -> None:
        """It keeps no checkpoints."""


def _share(program: Program, terms: Terms, alpha: Array) -> float:
    """The largest θ ≤ 1 for which θα is dual feasible."""
    share = 1.0
    images = program.family_images(terms, alpha)
    for block, image in zip(program.blocks, images, strict=True):
        low = scipy.linalg.eigvalsh(image, block.cost.dense(), subset_by_index=[0, 0])[0]
        if low < -1:
            share = min(share, -1.0 / float(low))
    return share


def _onto_cone(matrix: Array) -> Array:
    values, vectors = scipy.linalg.eigh(matrix)
    kept = values > 0
    return np.asarray((vectors[:, kept] * values[kept]) @ vectors[:, kept].T)


def _norm(matrices: list[Array]) -> float:
    return max(float(np.sqrt(sum(np.vdot(m, m) for m in matrices))), np.finfo(float).tiny)


class PublishedSubgradient(FamilySolver):
    """Algorithm 3 as a solver."""

    name = "subgradient-published"
    capabilities = Capabilities(
        families=True,
        callback=True,
        teaching=True,
        summary="LMNN as published: Algorithm 3 with its steps of 1.01 and 0.5",
    )

    def seconds(self, program: Program, tol: float) -> float:
        """A hundred times what `factored` needs."""
        return 20.0 + 5e-4 * size_of_outputs(program)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Descend; interrupted, the best point so far is returned."""
        driver = Driver(self.name, settings, _MAX_ITERATIONS)
        family = self.family_of(program)
        return driver.run(set_up(driver, lambda: _at_the_best_scale(program, family, settings.tol)))


def _at_the_best_scale(program: Program, family: RowFamily, tol: float) -> ProjectedSubgradients:
    """The engine at the best multiple of the identity."""
    identities = [np.eye(block.size) for block in program.blocks]
    pull = sum(b.cost.inner(m) for b, m in zip(program.blocks, identities, strict=True))
    t = best_scale(family, program.outputs(identities), pull)
    start = [t * m for m in identities]
    return ProjectedSubgradients(program, family, start, tol)


SUBGRADIENT_PUBLISHED = PublishedSubgradient()
