"""The search for a low-rank optimum on a product of spheres (`lowrank_spheres`).

Newton steps within a trust region bring Y near a stationary point. The dual slack then tells what
is left: its eigenvectors with negative eigenvalues are directions of descent that Y's columns do
not span, and become further columns; directions that vanish are dropped. Multipliers that are
raised by −λ_min(S) are dual feasible, and what this costs is the gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.certificate.scales import value_unit
from sdpkit.layout import Expected, Layout
from sdpkit.program.gram import FactoredGram, Matrix
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solvers.lowrank_newton import minimised
from sdpkit.solvers.lowrank_spheres import SphereModel, SpherePoint
from sdpkit.solvers.lowrank_start import NEW_COLUMNS, given_factors, root_of, trimmed
from sdpkit.typing import Array

_FIRST_RANK = 24  # columns at first, at most
_STEPS_PER_ROUND = 60  # Newton steps between two looks at the dual slack, at most
_FIRST_ACCURACY, _FINEST, _FINER = 1e-2, 1e-9, 0.1  # gradients at which rounds end
_STALLED_ROUNDS = 12  # rounds without a better bound
_SAFETY = 1e-6  # by this share of the norm multipliers are raised beyond an estimate of λ_min


@dataclass(frozen=True, eq=False)
class _Found:
    """A point with multipliers (N,) raised until the slack is semidefinite, and their gap."""

    point: SpherePoint
    w: Array
    gap: float


class SphereSearch:
    """Newton rounds, each followed by a look at the dual slack.

    Attributes
    ----------
    point: the present one;  accuracy: of the next round's gradient, relative
    best: the point of the smallest gap;  stalled: rounds since then
    """

    def __init__(
        self, model: SphereModel, y: Array, driver: Driver, accuracy: float, steps: int
    ) -> None:
        self.model, self.tol = model, driver.settings.tol
        self.point, self.accuracy = SpherePoint(model, model.onto_spheres(y)), accuracy
        self.best: _Found | None = None
        self.stalled = 0
        self.steps = steps
        if steps:
            driver.resume(steps)

    @classmethod
    def of(cls, model: SphereModel, driver: Driver) -> SphereSearch:
        """From a checkpoint, a given solution, a given embedding, or anywhere."""
        kept = driver.saved(_layout(model))
        if kept is not None:
            return cls(model, kept["factor"], driver, float(kept["accuracy"]), int(kept["steps"]))
        given, init = driver.settings.warm_start, driver.options["init"]
        start = None
        if init is not None:
            start = _stacked(
                model, given_factors([block.size for block in model.program.blocks], init)
            )
        elif given is not None and _shapes(given.matrices) == _shapes_of(model):
            start = _stacked(model, [root_of(matrix) for matrix in given.matrices])
        return cls(model, _anywhere(model) if start is None else start, driver, _FIRST_ACCURACY, 0)

    def step(self, driver: Driver) -> None:
        """One round."""
        goal = self.accuracy * float(np.sqrt(self.model.program.n_rows))
        room = min(_STEPS_PER_ROUND, driver.iterations_left)
        self.point, taken = minimised(
            self.point, lambda p: p.inverse, 1, goal, room, lambda: driver.out_of_time
        )
        driver.count(max(taken, 1))
        self.steps = driver.iterations
        if driver.out_of_time and self.best is not None:
            driver.end(Stop.TIME_LIMIT, f"time limit after {driver.iterations} iterations")
            return  # a look at the slack may take as long as many steps
        point = self.point = SpherePoint(self.model, self.model.onto_spheres(trimmed(self.point.y)))
        lowest = self.model.lowest(point.w, NEW_COLUMNS)
        found = self._raised(point, lowest)
        self._keep(found)
        self._record(driver, found, lowest)
        if found.gap <= 0.5 * self.tol:
            driver.end(Stop.DONE, f"converged: relative gap {found.gap:.1e}")
        elif self.stalled > _STALLED_ROUNDS:
            driver.end(Stop.DONE, f"no progress beyond a relative gap of {found.gap:.1e}")
        if driver.must_stop:
            return
        self.accuracy = max(_FINER * self.accuracy, _FINEST)
        self.point = self._grown(point, lowest)

    def _raised(self, point: SpherePoint, lowest: list[tuple[Array, Array]]) -> _Found:
        """The point with multipliers whose slack is semidefinite, as far as is known."""
        w = point.w.copy()
        for span, (values, _) in zip(self.model.spans, lowest, strict=True):
            lack = max(0.0, -float(values[0]))
            w[span] += lack * (1 + _SAFETY)
        program, unit = self.model.program, self.model.scale
        ends = (program.sign * unit * v + program.offset for v in (self._dual(w), -point.value))
        gap = unit * (self._dual(w) + point.value) / value_unit(program, *ends)
        return _Found(point, w, abs(gap))

    def _dual(self, w: Array) -> float:
        """bᵀw of the program, in the units of the model: every sphere once."""
        per_row = np.zeros(self.model.program.n_rows)
        per_row[self.model.sphere] = w
        return float(per_row.sum())

    def _keep(self, found: _Found) -> None:
        if self.best is None or found.gap < self.best.gap:
            self.stalled = 0 if self.best is None or found.gap < 0.9 * self.best.gap else 1
            self.best = found
        else:
            self.stalled += 1

    def _grown(self, point: SpherePoint, lowest: list[tuple[Array, Array]]) -> SpherePoint:
        """The point with further columns along directions of descent, as long as is best."""
        model = self.model
        added = []
        threshold = 0.1 * self.tol * abs(point.value) / model.program.n_rows
        for span, (values, vectors) in zip(model.spans, lowest, strict=True):
            down = vectors[:, values < -threshold]
            if down.shape[1]:
                column = np.zeros((model.size, down.shape[1]))
                column[span] = down
                added.append(column)
        if not added:
            return point
        columns = np.hstack(added)
        best = SpherePoint(model, np.hstack([point.y, np.zeros_like(columns)]))
        size = np.sqrt(model.program.n_rows)
        for length in size * 10.0 ** np.arange(-3.5, 0.1, 0.5):
            trial = np.hstack([point.y, length * columns])
            moved = SpherePoint(model, model.onto_spheres(trial))
            best = moved if moved.value < best.value else best
        return best

    def _record(self, driver: Driver, found: _Found, lowest: list[tuple[Array, Array]]) -> None:
        program, unit = self.model.program, self.model.scale
        smallest = min(float(values[0]) for values, _ in lowest)
        driver.record(
            objective=program.sign * unit * -found.point.value + program.offset,
            bound=program.sign * unit * self._dual(found.w) + program.offset,
            gap=found.gap,
            primal_residual=0.0,
            dual_residual=max(0.0, -smallest),
            smallest=smallest,
            rank=float(found.point.y.shape[1]),
        )

    def answer(self, stop: Stop) -> Answer:
        """The best point, in the program's units and signs."""
        model = self.model
        found = self.best or _Found(self.point, self.point.w, np.inf)
        y = model.radius[:, None] * found.point.y
        matrices: tuple[Matrix, ...] = tuple(
            FactoredGram(y[span]) if block.avoids_dense else y[span] @ y[span].T
            for block, span in zip(model.program.blocks, model.spans, strict=True)
        )
        return Answer(stop, "", matrices=matrices, x=np.zeros(0), dual=model.multipliers(found.w))

    def state(self) -> Mapping[str, ArrayLike]:
        """What the rounds have reached."""
        return {"steps": self.steps, "factor": self.point.y, "accuracy": self.accuracy}


def _layout(model: SphereModel) -> Layout:
    columns = range(1, model.size + len(model.spans) * NEW_COLUMNS + 1)
    return {
        "steps": Expected(whole=True, least=0),
        "factor": Expected((model.size, columns), least=-2.0, most=2.0),
        "accuracy": Expected(least=_FINEST, most=1.0),
    }


def _anywhere(model: SphereModel) -> Array:
    rank = min(model.rank_enough, _FIRST_RANK)
    return np.random.default_rng(0).standard_normal((model.size, rank))


def _stacked(model: SphereModel, factors: Sequence[Array]) -> Array:
    """The blocks' factors below each other, in the coordinates of the model."""
    rank = max(factor.shape[1] for factor in factors)
    padded = [np.pad(f, [(0, 0), (0, rank - f.shape[1])]) for f in factors]
    return np.asarray(np.vstack(padded) / model.radius[:, None])


def _shapes(matrices: Sequence[Matrix]) -> list[tuple[int, ...]]:
    return [matrix.shape for matrix in matrices]


def _shapes_of(model: SphereModel) -> list[tuple[int, ...]]:
    return [(block.size, block.size) for block in model.program.blocks]


__all__ = ["SphereSearch"]
