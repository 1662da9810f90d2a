"""What the solvers for families of comparisons have in common."""

from __future__ import annotations

import math
import sys

from sdpkit.errors import SolverError
from sdpkit.program.families import RowFamily
from sdpkit.program.form import Program
from sdpkit.solution.solver import Capabilities, OwnSolver, unsupported

# Copies of the outputs, (n, d) doubles, that a method holds.
_COPIES = 4


class FamilySolver(OwnSolver):
    """A solver that searches the rows of a family and never lists them."""

    name: str
    capabilities: Capabilities

    def accepts(self, program: Program) -> str | None:
        """Programs with a family of comparisons."""
        if program.family is None:
            return "only solves programs with a family of comparisons; this program has none"
        return unsupported(self.capabilities, program)

    def memory(self, program: Program) -> float:
        """A few copies of the outputs; how many rows will be active is not known beforehand."""
        return 8.0 * _COPIES * size_of_outputs(program)

    def family_of(self, program: Program) -> RowFamily:
        """The family; an error where the program is not one that it takes."""
        reason = self.accepts(program)
        if reason is not None or program.family is None:
            raise SolverError(f"solver {self.name!r} {reason}. Use solver='factored'.")
        return program.family


def relative_gap(upper: float, lower: float) -> float:
    """Of two bounds of the optimum; infinite while there is only one."""
    if not math.isfinite(upper) or not math.isfinite(lower):
        return math.inf
    return (upper - lower) / max(abs(upper), abs(lower), sys.float_info.min)


def size_of_outputs(program: Program) -> float:
    """The number of entries of all points' outputs."""
    points = 0 if program.family is None else program.family.n_points
    return float(points * sum(block.size for block in program.blocks))
