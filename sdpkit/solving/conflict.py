"""A set of constraints that contradict each other, of which none can be left out.

Deletion filtering: parts of the constraints are left out, and whether the rest has a feasible
point is decided by a proof (`sdpkit.solving.feasibility`). What is still infeasible replaces the
set, less whatever its ray does not use; a part without which the rest is feasible is needed.
Reference: Chinneck, Feasibility and Infeasibility in Optimization, 2008, chapter 6.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.points import without_objective
from sdpkit.certificate.rays import Ray
from sdpkit.errors import ConvergenceWarning
from sdpkit.numerics.deadline import Abandoned, current_deadline
from sdpkit.program.form import Program
from sdpkit.program.gram import trace
from sdpkit.solution.answer import Settings
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.auxiliary import with_unit_vectors
from sdpkit.solving.feasibility import decide
from sdpkit.solving.registry import get_solver
from sdpkit.solving.run import Run
from sdpkit.solving.solve import solve
from sdpkit.typing import Array

# A part whose weight in a ray is below this share of the largest is tried without.
_SMALL = 1e-6
# So many parts are left out one by one; more are halved until one remains.
_FEW = 12
# Points are limited to so many times the size that a single constraint may require.
_FAR = 1e3


@dataclass(frozen=True, eq=False)
class Decision:
    """Whether constraints have a feasible point: True, False, or None if that is undecided.

    An infeasible answer may come with its ray, the multipliers of the constraints in it, and the
    weight of each part. `size` is the sum of traces and variables up to which there is no feasible
    point: infinite, unless rounding hides whether there is one farther away.
    """

    is_feasible: bool | None
    ray: Ray | None = None
    multipliers: Array | None = None
    weights: Mapping[int, float] | None = None
    size: float = np.inf


@dataclass(frozen=True)
class Conflict:
    """Numbers of the parts that contradict each other, and how many programs were asked.

    `is_irreducible`: whether it was shown that without any one of them the rest is feasible.
    """

    parts: tuple[int, ...]
    is_irreducible: bool
    n_asked: int


Ask = Callable[[Sequence[int]], Decision]


def irreducible(
    parts: Sequence[int], ask: Ask, weights: Mapping[int, float] | None = None
) -> Conflict:
    """Filter parts that are known to contradict each other; `weights` are those of a first ray.

    Parts at the end of the list are kept longest. What is undecided, or left when the time is over,
    is kept.

    >>> irreducible(range(6), lambda kept: Decision(not {1, 4} <= set(kept)))
    Conflict(parts=(1, 4), is_irreducible=True, n_asked=6)
    >>> irreducible(range(6), lambda kept: Decision(None))
    Conflict(parts=(0, 1, 2, 3, 4, 5), is_irreducible=False, n_asked=6)
    """
    return _Filter(list(parts), ask).run(weights)


@dataclass(eq=False)
class _Filter:
    """The parts that are left, those of them that are needed, and whether all is decided."""

    left: list[int]
    ask: Ask
    n_asked: int = 0

    def run(self, weights: Mapping[int, float] | None) -> Conflict:
        """One chunk after the other is left out; a chunk that is needed is halved."""
        needed: set[int] = set()
        all_decided = True
        self._shrink(weights, needed)
        size = 1 if len(self.left) <= _FEW else (len(self.left) + 3) // 4
        chunks = [self.left[i : i + size] for i in range(0, len(self.left), size)]
        while chunks:
            chunk = [part for part in chunks.pop(0) if part in self.left]
            if not chunk:
                continue
            rest = [part for part in self.left if part not in chunk]
            found = self._asked(rest)
            if found.is_feasible is False:
                self.left = rest
                self._shrink(found.weights, needed)
            elif len(chunk) > 1:
                half = len(chunk) // 2
                chunks[:0] = [chunk[:half], chunk[half:]]
            else:
                needed.update(chunk)
                all_decided &= found.is_feasible is True
        return Conflict(tuple(self.left), all_decided, self.n_asked)

    def _shrink(self, weights: Mapping[int, float] | None, needed: Collection[int]) -> None:
        """Leave out what a ray does not use, if what it uses is still infeasible."""
        if weights is None:
            return
        least = _SMALL * max((weights.get(part, 0.0) for part in self.left), default=0.0)
        used = [p for p in self.left if p in needed or weights.get(p, 0.0) > least]
        if len(used) < len(self.left) and self._asked(used).is_feasible is False:
            self.left = used

    def _asked(self, parts: Sequence[int]) -> Decision:
        if not parts:
            return Decision(True)
        if current_deadline().is_over:
            return Decision(None)
        self.n_asked += 1
        try:
            return self.ask(parts)
        except Abandoned:
            return Decision(None)


def decided(program: Program) -> Decision:
    """Whether the constraints of a program can be met, within the deadline that applies here."""
    plain = without_objective(program)
    if plain.family is None:
        for asked, size in ((plain, np.inf), *_within_limits(plain)):
            run = Run(Settings(deadline=current_deadline()))
            found = decide(run, asked, get_solver("interior"))
            if found.point is not None:
                return Decision(True)
            if found.ray is not None:
                return _infeasible(plain, found.ray, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = solve(plain)
    if solution.status is Status.INFEASIBLE and solution.ray is not None:
        return _infeasible(plain, solution.ray, np.inf)
    # Far away a small relative residual shows no feasible point.
    is_met = solution.status is Status.OPTIMAL and _size(solution) <= _limit(plain)
    return Decision(True if is_met else None)


def _within_limits(program: Program) -> Iterator[tuple[Program, float]]:
    """The program with a limit on all traces and variables together, and that limit.

    Equations that depend on each other but for rounding can be met very far away, and no ray shows
    that they contradict each other. Free variables are written as x + r ≥ 0, so that rounding is no
    contradiction.
    """
    if not program.n_rows:
        return
    limit = _limit(program)
    free = np.flatnonzero(program.cone_x.lines)
    shift = np.asarray(program.rows_x[:, free].sum(axis=1)).ravel()
    rows_q, total = [], []
    for block, span in zip(program.blocks, program.spans, strict=True):
        rows_q += [program.rows_q[:, span], sp.csr_array((program.n_rows, block.size))]
        total += [np.zeros(block.n_measurements), np.ones(block.size)]
    total_q, total_x = np.concatenate(total), program.cone_x.unit + program.cone_x.lines
    yield (
        Program.of(
            [with_unit_vectors(block) for block in program.blocks],
            np.r_[program.rhs + limit * shift, limit * (1 + 2 * free.size)],
            sense=program.sense,
            rows_q=sp.vstack([sp.hstack(rows_q), sp.csr_array(total_q[None, :])]),
            rows_x=sp.vstack([program.rows_x, sp.csr_array(total_x[None, :])]),
            relations=np.r_[program.relations, -1],
            free_x=program.cone_x.inside,
            cones=program.cones,
            name=f"{program.name} within limits",
        ),
        limit,
    )


def _limit(program: Program) -> float:
    """The size of points beyond which rounding hides whether they are feasible."""
    size = float((np.abs(program.rhs) / program.row_norms).max(initial=0.0))
    return _FAR * (size if size > 0 else 1.0)


def _size(solution: Solution) -> float:
    """The sum of all traces and variables of a point."""
    return float(sum(trace(m) for m in solution.matrices) + np.abs(solution.x).sum())


def _infeasible(program: Program, ray: Ray, size: float) -> Decision:
    """The multipliers of the rows that the program has, and their weights in units of the row."""
    if ray.multipliers is None or ray.chain is not None:
        return Decision(False, ray, size=size)
    own = ray.multipliers[: program.n_rows]
    weights = dict(enumerate((np.abs(own) * program.row_norms).tolist()))
    return Decision(False, ray, own, weights, size)
