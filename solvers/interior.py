"""A primal–dual interior-point solver for programs in squared lengths.

It reduces the program (`sdpkit.solution.reduction`) and solves it by one of two methods:

structured   predictor–corrector iterations with HKM directions from a starting point
             (`sdpkit.solvers.predictor_corrector`), whose normal equations cost little where
             constraints are few squared lengths each. Where rounding ends the progress near a
             solution, graphs change to the coordinates of a spanning tree (`sdpkit.solvers.tree`),
             which keep digits that coordinates of nodes lose.
embedding    the homogeneous self-dual embedding (`sdpkit.solvers.embedded_path`), which needs no
             starting point, no interior and no independent constraints, and finds rays.

`has_structure` states which one is asked first, and why. The embedding follows where the structured
method does not converge, and the better point of the two is returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import SETUP_SECONDS, Driver
from sdpkit.solution.forecast import UnitCosts
from sdpkit.solution.reduction import Reduction, reduce
from sdpkit.solution.solver import Capabilities, OwnSolver, digits
from sdpkit.solvers.algebra import EntryEquations
from sdpkit.solvers.central_path import CentralPath, central_paths
from sdpkit.solvers.embedded_path import EmbeddedPath
from sdpkit.solvers.in_time import set_up
from sdpkit.solvers.predictor_corrector import entries_are_fewer

_MAX_ITERATIONS = 100
# Measurements of a constraint: one entry of a matrix beside the diagonal takes three.
_FEW_MEASUREMENTS = 3
_FEW_BLOCKS = 4
# What the embedding takes: entries of all matrices, and constraints.
_MOST_ENTRIES, _MOST_ROWS = 600_000, 6000


@dataclass(frozen=True)
class Interior(OwnSolver):
    """The solver `interior`."""

    name: str = "interior"
    capabilities: Capabilities = field(
        default_factory=lambda: Capabilities(
            quadratic=True,
            norms=True,
            second_order=True,
            warm_start=True,
            callback=True,
            summary="structured primal–dual interior point; certified, up to a few thousand points",
        )
    )

    def accepts(self, program: Program) -> str | None:
        """Any program within its capabilities, but log dets beside second-order cones or norms."""
        if program.has_log_det and (program.cones or program.norms):
            return "takes no log det together with second-order cones or norms"
        return super().accepts(program)

    def memory(self, program: Program) -> float:
        """Bytes: the Schur matrix and its factor, gathered measurements, a dozen n × n; for the
        embedding scaled constraints too."""
        n2 = sum(block.size**2 for block in program.blocks)
        widest = max(block.n_measurements * _on_face(block) for block in program.blocks)
        p2 = (
            0
            if _rows_are_measurements(program)
            else max(block.n_measurements**2 for block in program.blocks)
        )
        rows = 1.6 * program.n_rows**2  # the factor in single precision takes half as much again
        if not has_structure(program):
            entries = sum(_on_face(block) ** 2 for block in program.blocks)
            rows = 4.0 * program.n_rows**2 + min(1.5 * program.n_rows * entries, 3e8)
            return 8.0 * (rows + 20 * n2)
        if entries_are_fewer(program):
            entries = EntryEquations.n_entries([block.size for block in program.blocks])
            rows = 4.0 * program.n_rows * entries + 3.0 * entries**2
            p2 = 0
        return 8.0 * (rows + p2 + 4 * widest + 14 * n2)

    costs: ClassVar = UnitCosts((0.00064, 1.4e-08, 1.9e-12, 8.9e-12))

    def seconds(self, program: Program, tol: float) -> float:
        """By measured costs."""
        return self.costs.seconds(self.work(program, tol))

    def work(self, program: Program, tol: float) -> tuple[float, ...]:
        """Iterations, times the entries of the normal equations, times their factor, times ten
        n × n products."""
        rows = float(program.n_rows)
        sizes = [_on_face(block) for block in program.blocks]
        gathered, equations = rows**2, rows**3 / 3
        if not has_structure(program):
            # Half of the iterations factor the scaled constraints themselves.
            equations += 1.5 * rows**2 * sum(size * (size + 1) / 2 for size in sizes)
            iterations = 1 + 8 * digits(tol)
            products = 40.0 * sum(float(size) ** 3 for size in sizes)
            return iterations, iterations * gathered, iterations * equations, iterations * products
        if entries_are_fewer(program):
            entries = EntryEquations.n_entries([block.size for block in program.blocks])
            equations = rows * entries**2 + entries**3 / 3
        products = 10.0 * sum(float(size) ** 3 for size in sizes)
        iterations = 1 + 4 * digits(tol)
        return iterations, iterations * gathered, iterations * equations, iterations * products

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Reduce, follow one of the two paths, lift the best point."""
        driver = Driver(self.name, settings, _MAX_ITERATIONS)
        reduction = reduce(program)
        overdue = settings.deadline.later(SETUP_SECONDS).is_over
        if overdue and driver.must_stop and driver.stop is not None:
            return driver.finish(Answer(driver.stop, driver.words))
        best, error = Answer(Stop.FAILED, ""), np.inf
        for path in _paths(driver, reduction):
            answer = driver.run(path)
            reached = np.inf if isinstance(path, Answer) else path.error
            if best.matrices is None or reached < error:
                best, error = answer, reached
            if isinstance(path, Answer) or answer.hit_limit:
                best = replace(best, stop=answer.stop, native_status=answer.native_status)
            elif answer.stop not in (Stop.DONE, Stop.FAILED):
                best = answer  # a ray
            elif not path.converged:
                driver = driver.again()
                continue
            break
        return reduction.lift(best)


def _paths(driver: Driver, reduction: Reduction) -> Iterator[CentralPath | EmbeddedPath | Answer]:
    """The methods one after the other, until one converges or finds a ray."""
    settings, program = driver.settings, reduction.program
    structured = has_structure(program)
    if structured:
        yield from central_paths(settings, reduction)
    if can_be_embedded(program) or not structured:
        floor = reduction.original.value_floor / (reduction.rhs_scale * reduction.cost_scale)
        tol = settings.tol
        yield set_up(driver, lambda: EmbeddedPath(reduction, floor, tol))


def has_structure(program: Program) -> bool:
    """Whether the structured method is asked first.

    It is faster than the embedding, 2 to 30 times on graphs, max-cut, graph equipartition and ϑ,
    where normal equations are gathered from few measurements for each constraint: one squared
    length, or one entry of a matrix (three of them), besides a trace; or measurements that are
    differences of points with features. It takes quadratic costs and log dets as well, which the
    embedding does not. Anything else (linear matrix inequalities, structural design, control, free
    variables, many blocks) has no structure that it could use, and often no interior either.
    """
    if program.cones or program.norms:
        return False
    if not program.is_linear or any(block.features is not None for block in program.blocks):
        return True
    sizes = sum(block.size for block in program.blocks)
    short = program.rows_q.nnz <= _FEW_MEASUREMENTS * program.n_rows + sizes
    return short and len(program.blocks) <= _FEW_BLOCKS and not program.free_x.any()


def can_be_embedded(program: Program) -> bool:
    """Whether the embedding takes the program, in minutes."""
    entries = sum(block.size * (block.size + 1) / 2 for block in program.blocks)
    small = entries <= _MOST_ENTRIES and program.n_rows <= _MOST_ROWS
    return small and not program.has_log_det


def _on_face(block: Block) -> int:
    """The size of a block on its face; the constant alone makes no difference."""
    return block.size if block.null.shape[1] <= 1 else block.size - block.null_basis.shape[1]


def _rows_are_measurements(program: Program) -> bool:
    return bool(np.all(np.diff(program.rows_q.indptr) == 1))


INTERIOR = Interior()
