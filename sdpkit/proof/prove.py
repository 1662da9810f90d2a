"""From an approximate answer to a proof: faces, then both ends, or a ray."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sdpkit.errors import InputError
from sdpkit.files import replacing
from sdpkit.numerics.breakdown import BREAKDOWNS
from sdpkit.proof import digits
from sdpkit.proof.check import DyadicProgram, Refused, check, theorem
from sdpkit.proof.faces import OnFace, drop_dependent, expose
from sdpkit.proof.floats import Floats
from sdpkit.proof.lower import lower_end, precise_lower_end, slacks_of, value_of_point
from sdpkit.proof.statement import Approximation
from sdpkit.proof.upper import precise_upper_end, upper_end, value_of_multipliers
from sdpkit.typing import Array

_UNLIMITED = 10**18
# A relative width that needs no more digits.
_NARROW = Fraction(1, 10**7)
# A method in many bits starts at so many times the size of the answer.
_MANY = 10.0

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Proof:
    """A proof and what the checker finds in it.

    Attributes
    ----------
    content: the JSON;  found: what `sdpkit.proof.check.check` returns
    """

    content: dict[str, Any]
    found: dict[str, Any]

    @property
    def lower(self) -> Fraction | None:
        """A number that the optimum is not below, or None."""
        return self.found.get("lower")

    @property
    def upper(self) -> Fraction | None:
        """A number that the optimum is not above, or None."""
        return self.found.get("upper")

    @property
    def ends(self) -> dict[str, Fraction | None]:
        """Both ends by name."""
        return {"lower": self.lower, "upper": self.upper}

    @property
    def sha256(self) -> str:
        """The name of the program."""
        return str(self.found["sha256"])

    def __str__(self) -> str:
        return theorem(self.found)

    def save(self, path: str | Path) -> None:
        """Write the proof for the checker: a .json.gz."""
        path = Path(path)
        if not path.name.endswith(".json.gz"):
            raise InputError(f"{path}: a proof file ends in .json.gz")
        text = json.dumps(self.content, separators=(",", ":")).encode()
        with replacing(path) as file:
            file.write(gzip.compress(text, mtime=0))


@dataclass(frozen=True, eq=False)
class Given:
    """What there is to prove something with.

    Attributes
    ----------
    answer: a point and multipliers, or what there is of them
    ray: multipliers that may prove the program infeasible, or None
    direction: a direction that may improve the objective without end, as (matrices, x), or None
    exposing: multipliers that may expose a face
    """

    answer: Approximation
    ray: Array | None = None
    direction: tuple[list[Array], Array] | None = None
    exposing: Sequence[Array] = ()


def prove(statement: dict[str, Any], given: Given, many_bits: bool = True) -> Proof | None:
    """The proof that an answer gives, checked; None if nothing was proven.

    Where the answer leaves a small program wide open it is solved again, with `many_bits`.

    >>> from sdpkit import Block, Cost, Program
    >>> from sdpkit.proof.statement import approximation, statement_of
    >>> block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0))
    >>> program = Program.of(block, [2.0])
    >>> answer = approximation(program, [np.array([[2.0]])], np.zeros(0), np.array([1.0]))
    >>> str(prove(statement_of(program), Given(answer)))
    'theorem: 2 ≤ optimum ≤ 2 of the program with SHA-256 ...'
    """
    with np.errstate(all="ignore"):
        return _attempt(lambda: _proved(statement, given, many_bits))


def saved(proof: Proof | None, path: str | Path) -> Proof:
    """The proof, after it was written; an InputError if there is none."""
    if proof is None:
        raise InputError(
            "nothing was proven about this program: the answer is too far from its optimum, or "
            "the program has no interior and no face of it was found"
        )
    proof.save(path)
    return proof


def _proved(statement: dict[str, Any], given: Given, many_bits: bool) -> Proof | None:
    program = DyadicProgram(statement, _UNLIMITED)
    face = expose(program, given.exposing)
    proof: dict[str, Any] = {"program": statement, "faces": face.chain}
    proof["dropped"] = drop_dependent(program)
    floats = Floats.of(program)
    there = _on_face(given, face, proof["dropped"], program, floats)
    _add_ends(proof, program, floats, there)
    if many_bits and not {"infeasible", "direction"} & proof.keys():
        _add_digits(proof, program, floats, there.answer)
    try:
        return Proof(proof, check(proof, _UNLIMITED))
    except Refused:
        return None


def _on_face(
    given: Given,
    face: OnFace,
    dropped: list[dict[str, Any]],
    program: DyadicProgram,
    floats: Floats,
) -> Given:
    """The answer in the coordinates of the face, slack variables included."""
    answer, direction, w = given.answer, given.direction, given.answer.multipliers
    matrices, x = answer.matrices, answer.x
    if matrices is not None:
        matrices = face.coordinates(matrices)
        x = slacks_of(program, floats, matrices, x)
    if direction is not None:
        turned = face.coordinates(direction[0])
        direction = (
            turned,
            slacks_of(program, replace(floats, b=0 * floats.b), turned, direction[1]),
        )
    return Given(
        Approximation(matrices, x, None if w is None else _shared(w, dropped)),
        None if given.ray is None else _shared(given.ray, dropped),
        direction,
    )


def _shared(w: Array, dropped: list[dict[str, Any]]) -> Array:
    """Multipliers of the rows that are left, with the same combination."""
    for row in dropped:
        e, y = row["row"] - 1, row["combination"]
        share = np.array([v / y[e] for v in y])
        w = np.delete(w - w[e] * share, e)
    return w


def _add_ends(proof: dict[str, Any], program: DyadicProgram, floats: Floats, given: Given) -> None:
    answer = given.answer
    if given.ray is not None:
        ray = given.ray
        end = _attempt(lambda: upper_end(program, floats, ray, cost=0))
        if (
            end is not None
            and sum(b * v for b, v in zip(program.b, end["multipliers"], strict=True)) < 0
        ):
            proof["infeasible"] = end
            return
    w, matrices, direction = answer.multipliers, answer.matrices, given.direction
    ends = {}
    if w is not None:
        ends["multipliers"] = _attempt(lambda: upper_end(program, floats, w))
    if matrices is not None:
        ends["point"] = _attempt(lambda: lower_end(program, floats, matrices, answer.x))
    if direction is not None:
        ends["direction"] = _attempt(
            lambda: lower_end(program, floats, *direction, homogeneous=True)
        )
    proof |= {name: end for name, end in ends.items() if end is not None}


def _add_digits(
    proof: dict[str, Any], program: DyadicProgram, floats: Floats, answer: Approximation
) -> None:
    """Ends from a method in many bits, where they are better."""
    if _is_narrow(program, proof) or not digits.is_installed() or not digits.is_in_reach(program):
        return
    found = _attempt(lambda: digits.more_digits(program, _sizes(floats, answer)))
    if found is None:
        return
    upper = _attempt(lambda: precise_upper_end(program, floats, found))
    if upper is not None and (
        "multipliers" not in proof
        or value_of_multipliers(program, upper)
        < value_of_multipliers(program, proof["multipliers"])
    ):
        proof["multipliers"] = upper
    lower = _attempt(lambda: precise_lower_end(program, floats, found))
    if lower is not None and (
        "point" not in proof
        or value_of_point(program, lower) > value_of_point(program, proof["point"])
    ):
        proof["point"] = lower


def _is_narrow(program: DyadicProgram, proof: dict[str, Any]) -> bool:
    """Whether both ends are there, and near each other."""
    if "multipliers" not in proof or "point" not in proof:
        return False
    upper = value_of_multipliers(program, proof["multipliers"])
    lower = value_of_point(program, proof["point"])
    largest = max(Fraction(1 << program.unit), abs(upper), abs(lower))
    return upper - lower <= _NARROW * largest


def _sizes(floats: Floats, answer: Approximation) -> tuple[float, float]:
    """Of X and of S, several times as large as in the answer."""
    point = [*(answer.matrices or []), answer.x]
    slacks, reduced = floats.slacks(
        np.zeros_like(floats.b) if answer.multipliers is None else answer.multipliers
    )
    largest = [
        max([float(np.abs(m).max(initial=0.0)) for m in part], default=0.0)
        for part in (point, [*slacks, reduced])
    ]
    of_x, of_s = (_MANY * max(1.0, v) if np.isfinite(v) else 1e6 for v in largest)
    return of_x, of_s


def _attempt(find: Callable[[], T | None]) -> T | None:
    """What is found, or None where a library breaks down."""
    try:
        return find()
    except BREAKDOWNS:
        return None
