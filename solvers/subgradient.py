"""Projected subgradients with an active set: Algorithm 3 of Weinberger 2007, section 2.1.7.

    M ← P(M − s·G),   G = C + weight·Σ_{t active} (C_ij − C_il)

with P the projection onto the cone, for the rows z_t = c_t + q_ij − q_il of any family
(`sdpkit.program.families`); z_t > 0 makes a row active. The gradient changes only by the rows that
become active or cease to be (eq. 2.15); all rows are looked at every ten steps, the ones seen
active so far in between. The step s grows by 1 % after a decrease of the objective and halves
after an increase.

The algorithm itself has no dual. Averages of the activity of each row, weighted by the steps,
converge to multipliers (slowly: this is the baseline that others are compared with); they
are begun anew whenever the number of steps has doubled.

One deviation: the start is the best multiple of the identity, in the program's coordinates,
rather than the identity, since M has the inverse unit of the data squared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.errors import SolverError
from sdpkit.numerics.kernels import clock
from sdpkit.program.families import RowFamily, Rows, Terms, best_scale, values
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solver import Capabilities, unsupported

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Active = NDArray[np.bool_]

_MAX_ITER = 3000
# Steps between looks at all rows, and the factors of the step after a success or a failure.
_CHECK = 10
_GROW, _SHRINK = 1.01, 0.5
# The first step moves M by this share of its norm.
_FIRST_STEP = 1e-3


@dataclass(eq=False)
class _Seen:
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
    active: Active
    activity: Array
    steps: float = 0.0

    @classmethod
    def nothing(cls, family: RowFamily) -> _Seen:
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
        self.activity[:] = 0.0
        self.steps = 0.0


@dataclass(eq=False)
class _Run:
    settings: Settings
    started: float
    matrices: list[Array]
    objective: float = np.inf
    bound: float = -np.inf
    rows: Rows | None = None
    alpha: Array | None = None
    iterations: int = 0
    stop: Stop = Stop.ITERATION_LIMIT
    history: list[Mapping[str, float]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        scale = max(abs(self.objective), abs(self.bound), np.finfo(float).tiny)
        return (self.objective - self.bound) / scale if np.isfinite(self.bound) else np.inf

    def out_of_time(self) -> bool:
        limit = self.settings.time_limit
        return limit is not None and clock() - self.started > limit


def _descend(program: Program, family: RowFamily, run: _Run) -> None:
    """Algorithm 3."""
    costs = [block.cost.dense() for block in program.blocks]
    matrices, gradients = run.matrices, [cost.copy() for cost in costs]
    seen = _Seen.nothing(family)
    step, last, anew = 0.0, np.inf, 2 * _CHECK
    end = run.settings.max_iter or _MAX_ITER
    for t in range(end + 1):
        run.iterations = t
        outputs = program.outputs(matrices)
        check = t % _CHECK == 0 or t == end
        if check:
            seen.add(family.near(outputs, 0.0))
        value, gradients = _update(program, costs, matrices, outputs, seen, gradients)
        step = step or _FIRST_STEP * _norm(matrices) / _norm(gradients)
        step *= _GROW if value <= last else _SHRINK
        last = value
        if check and (_look(program, run, matrices, seen, value, step) or t == end):
            return
        if t >= anew:
            seen.begin_anew()
            anew *= 2
        seen.average(step)
        matrices = [_onto_cone(m - step * g) for m, g in zip(matrices, gradients, strict=True)]


def _update(
    program: Program,
    costs: list[Array],
    matrices: list[Array],
    outputs: list[Array],
    seen: _Seen,
    gradients: list[Array],
) -> tuple[float, list[Array]]:
    """The objective over the rows seen, and the gradient by the change of the active ones."""
    z = values(seen.family, seen.terms, outputs)
    weight = seen.family.weight
    now = z > 0
    images = program.family_images(seen.terms, weight * (now.astype(float) - seen.active))
    seen.active = now
    pulls = [float(np.vdot(c, m)) for c, m in zip(costs, matrices, strict=True)]
    value = sum(pulls) + weight * float(z[now].sum())
    return value, [g + image for g, image in zip(gradients, images, strict=True)]


def _look(
    program: Program, run: _Run, matrices: list[Array], seen: _Seen, value: float, step: float
) -> bool:
    """After a look at all rows: keep the best of both sides; True if it is time to stop."""
    if value < run.objective:
        run.objective, run.matrices = value, matrices
    if seen.steps > 0:
        alpha = seen.family.weight * seen.activity / seen.steps
        share, value = _share(program, seen.terms, alpha), float(seen.terms.row_constants @ alpha)
        if share * value > run.bound:
            run.bound, run.rows, run.alpha = share * value, seen.rows, share * alpha
    row = {
        "iteration": float(run.iterations),
        "objective": value,
        "bound": run.bound,
        "gap": run.gap,
        "active": float(seen.active.sum()),
        "step": step,
    }
    run.history.append(row)
    if run.settings.verbose > 1:
        print("  ".join(f"{name} {number:.6g}" for name, number in row.items()), flush=True)
    stopped = False
    if run.settings.callback is not None:
        stopped = run.settings.callback({**row, "matrices": tuple(matrices)}) is True
    for reason, holds in (
        (Stop.DONE, run.gap <= run.settings.tol),
        (Stop.INTERRUPTED, stopped),
        (Stop.TIME_LIMIT, run.out_of_time()),
    ):
        if holds:
            run.stop = reason
            return True
    return False


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


class Subgradient:
    """Algorithm 3 as a solver."""

    name = "subgradient"
    capabilities = Capabilities(
        families=True,
        callback=True,
        summary="LMNN as published: projected subgradients with an active set",
    )

    def unavailable(self) -> str | None:
        """It always works."""
        return None

    def accepts(self, program: Program) -> str | None:
        """Programs with a family of comparisons."""
        if program.family is None:
            return "only solves programs with a family of comparisons; this program has none"
        return unsupported(self.capabilities, program)

    def memory(self, program: Program) -> float:
        """A few copies of the outputs; the active set is not known beforehand."""
        points = 0 if program.family is None else program.family.n_points
        return 8.0 * 4 * points * sum(block.size for block in program.blocks)

    def seconds(self, program: Program, tol: float) -> float:
        """A hundred times what `factored` needs."""
        points = 0 if program.family is None else program.family.n_points
        return 20.0 + 5e-4 * points * sum(block.size for block in program.blocks)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Descend; interrupted, the best point so far is returned."""
        began, family = clock(), program.family
        if family is None or any(block.max_rank is not None for block in program.blocks):
            raise SolverError(
                "solver 'subgradient' only solves programs with a family of rows and without a "
                "limit on the rank. Use solver='factored'."
            )
        if settings.options:
            raise SolverError(f"subgradient takes no options, not {sorted(settings.options)}")
        identities = [np.eye(block.size) for block in program.blocks]
        pull = sum(b.cost.inner(m) for b, m in zip(program.blocks, identities, strict=True))
        t = best_scale(family, program.outputs(identities), pull)
        run = _Run(settings, began, [t * m for m in identities])
        setup = clock() - began
        try:
            _descend(program, family, run)
        except KeyboardInterrupt:
            run.stop = Stop.INTERRUPTED
        return Answer(
            run.stop,
            f"{run.stop} after {run.iterations} steps",
            matrices=tuple(run.matrices),
            x=np.zeros(0),
            dual=run.alpha,
            rows=run.rows,
            iterations=run.iterations,
            setup_time=setup,
            solve_time=clock() - began - setup,
            history=tuple(run.history),
        )


SUBGRADIENT = Subgradient()
