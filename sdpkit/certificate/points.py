"""Points that are proven to be near a feasible one, on a face of the cone where that is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sdpkit.certificate.faces import Face
from sdpkit.certificate.feasible import attained
from sdpkit.program.arrow import without_second_order_cones
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix, is_finite
from sdpkit.program.safe import SafeBounds
from sdpkit.typing import Array


@dataclass(frozen=True, eq=False)
class FeasiblePoint:
    """A point of finite objective, and the exposing vectors of the face in whose coordinates it is.

    Without exposing vectors (None) the coordinates are those of the program.
    """

    matrices: tuple[Matrix, ...]
    x: Array
    exposing: tuple[tuple[Fraction, ...], ...] | None = None

    def proof(self, program: Program) -> str:
        """How it is proven that the program has a feasible point next to this; empty if it is not.

        >>> from sdpkit import Block, Program
        >>> program = Program.of(Block.of(1, [[1.0]]), [1.0], relations=">=")
        >>> FeasiblePoint((np.eye(1) * 2,), np.zeros(0)).proof(program)
        'shifted Cholesky succeeded around a feasible point'
        """
        if self.exposing is None:
            return _proof(program, self.matrices, self.x)
        if program.has_log_det:
            return ""  # on a smaller face it may be −∞ everywhere
        face = Face.after(program, self.exposing)
        if face is None:
            return ""
        on_face, exact = face.as_program(face.independent_rows())
        return _proof(on_face, self.matrices, self.x) if exact else ""

    def lifted(self, program: Program) -> tuple[list[Matrix], Array]:
        """The point in the coordinates of the program."""
        face = None if self.exposing is None else Face.after(program, self.exposing)
        if face is None:
            return list(self.matrices), self.x
        matrices, x = without_second_order_cones(program).lifted(
            *face.lifted(self.matrices, self.x)
        )
        return list(matrices), x


def without_objective(program: Program) -> Program:
    """The rows alone."""
    return replace(
        program,
        blocks=tuple(replace(b, cost=b.cost.scaled(0.0), log_det=0.0) for b in program.blocks),
        cost_q=np.zeros_like(program.cost_q),
        cost_x=np.zeros_like(program.cost_x),
        quadratic_x=np.zeros_like(program.quadratic_x),
        norms=(),
        offset=0.0,
        safe=SafeBounds(),
    )


def _proof(program: Program, matrices: tuple[Matrix, ...], x: Array) -> str:
    zero = not x.any() and all(isinstance(m, np.ndarray) and not m.any() for m in matrices)
    if zero and not program.has_log_det and not program.excess(-program.rhs).any():
        return "zero is feasible"
    if not all(is_finite(m) for m in [*matrices, x]):
        return ""
    value, _ = attained(without_objective(program), matrices, x)
    return "" if value is None else "shifted Cholesky succeeded around a feasible point"
