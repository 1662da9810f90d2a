"""From a file to a proof about it: solve, look for a face where there is no interior, prove."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sdpkit.certificate.points import without_objective
from sdpkit.errors import SdpkitError
from sdpkit.numerics.deadline import Abandoned, Deadline
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix
from sdpkit.program.sdpa import Origin, read_with_origin
from sdpkit.proof.prove import Given, Proof, prove
from sdpkit.proof.statement import Approximation, approximation_of_file, statement_of_file
from sdpkit.solution.solution import Solution
from sdpkit.solving.solve import solve
from sdpkit.typing import Array

# Rows and entries of programs for which a face is sought by a second solve.
_ROWS, _ENTRIES = 1000, 40_000
# A relative width that needs no more bits.
_NARROW = 1e-7


@dataclass(frozen=True, eq=False)
class Proven:
    """A solution of the program of a file, and what was proven about it.

    Attributes
    ----------
    solution: as `solve` returns it;  proof: None if nothing was proven
    """

    solution: Solution
    proof: Proof | None


@dataclass(frozen=True, eq=False)
class ProgramFile:
    """The program of an SDPA file in both forms."""

    program: Program
    origin: Origin
    statement: dict[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> ProgramFile:
        """The program for solvers and certificates, and as a proof states it."""
        return cls(*read_with_origin(path), statement_of_file(path))

    def in_its_terms(
        self, matrices: tuple[Matrix, ...] | None, x: Array, w: Array | None
    ) -> Approximation:
        """An answer in the coordinates of the statement."""
        found = None if w is None else self.program.sign * w
        return approximation_of_file(self.origin, self.statement, matrices or None, x, found)


@one_blas_thread
def prove_file(
    path: str | Path, solver: str = "auto", tol: float = 1e-8, time_limit: float | None = None
) -> Proven:
    """Solve the program of an SDPA file and prove what the answer proves.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "tiny.dat-s"
    >>> _ = path.write_text("2\\n1\\n2\\n1.0 1.0\\n0 1 1 2 1.0\\n1 1 1 1 1\\n2 1 2 2 1\\n")
    >>> str(prove_file(path).proof)                     # max 2 Y₁₂, Y₁₁ = Y₂₂ = 1
    'theorem: 1.999... ≤ optimum ≤ 2.0... of the program with SHA-256 ...'
    """
    file = ProgramFile.read(path)
    deadline = Deadline.after(time_limit)
    solution = solve(file.program, solver=solver, tol=tol, time_limit=time_limit)
    return Proven(solution, prove_solution(file, solution, solver, deadline))


@one_blas_thread
def prove_solution(
    file: ProgramFile, solution: Solution, solver: str, deadline: Deadline
) -> Proof | None:
    """What a solution of the program of a file proves about it; a face by a second solve."""
    given, proof = _given(file, solution), None
    try:
        with deadline.applies():
            proof = prove(file.statement, given, many_bits=False)
            if solution.ray is not None:
                return proof
            if not _is_closed(proof):  # there may be no interior: a face costs less than many bits
                exposing = _exposing(file, solver, deadline)
                if exposing is not None:
                    other = prove(file.statement, Given(given.answer, exposing=[exposing]), False)
                    proof = _better(proof, other)
                    if _is_closed(proof):
                        given = Given(given.answer, exposing=[exposing])
            if _width(proof) > _NARROW:
                proof = _better(proof, prove(file.statement, given))
    except Abandoned:
        return proof
    return proof


def _given(file: ProgramFile, solution: Solution) -> Given:
    answer = file.in_its_terms(solution.matrices, solution.x, solution.dual)
    ray = solution.ray
    if ray is None:
        return Given(answer)
    multipliers = direction = None
    nothing = np.zeros(file.program.n_auxiliary)
    if ray.multipliers is not None:
        multipliers = file.in_its_terms(None, nothing, ray.multipliers).multipliers
    if ray.matrices is not None and ray.x is not None:
        turned = file.in_its_terms(ray.matrices, ray.x, None)
        direction = None if turned.matrices is None else (turned.matrices, turned.x)
        if ray.point is not None:
            matrices, x = ray.point.lifted(file.program)
            answer = file.in_its_terms(tuple(matrices), x, None)
    return Given(answer, multipliers, direction)


def _exposing(file: ProgramFile, solver: str, deadline: Deadline) -> Array | None:
    """Multipliers of the program without its objective: where it has no interior, they expose."""
    entries = sum(block.size**2 for block in file.program.blocks)
    if file.program.n_rows > _ROWS or entries > _ENTRIES or deadline.is_over:
        return None
    try:
        left = deadline.left if np.isfinite(deadline.left) else None
        aside = solve(without_objective(file.program), solver=solver, tol=1e-9, time_limit=left)
    except SdpkitError:
        return None
    w = aside.dual
    if w is None or not np.isfinite(w).all() or not w.any():
        return None
    return file.in_its_terms(None, aside.x, w).multipliers


def _is_closed(proof: Proof | None) -> bool:
    return _width(proof) < np.inf


def _width(proof: Proof | None) -> float:
    """Relative to the optimum; infinite if an end is missing."""
    if proof is None or proof.lower is None or proof.upper is None:
        return np.inf
    largest = max(Fraction(1), abs(proof.lower), abs(proof.upper))
    return float((proof.upper - proof.lower) / largest)


def _better(one: Proof | None, other: Proof | None) -> Proof | None:
    """The proof of the narrower enclosure, or that says anything."""
    return other if one is None or (other is not None and _width(other) < _width(one)) else one
