"""An exercise, what was submitted, and the marks.

An exercise is a program, the arrays to submit, and the criteria that give points:

    Exercise(
        name="pentagon",
        question="Unfold the ring of five beads …",
        program=lambda: sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)).program(),
        submit={"matrix": (5, 5), "multipliers": (5,)},
        criteria=((2, feasible), (3, near_optimal), (2, valid_bound), (3, tight_bound)),
    )

A criterion looks at what was `Submitted` and returns a `Finding`: the share of its points, and a
sentence for the student. The criteria are in `sdpkit.grading.criteria`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from sdpkit.errors import InputError, SdpkitError
from sdpkit.plotting.cards import card
from sdpkit.program.form import Program
from sdpkit.typing import Array

Shape: TypeAlias = tuple[int, ...]
Point: TypeAlias = tuple[Sequence[Array], Array]

MULTIPLIERS = "multipliers"
# Larger numbers are no answer to any exercise, and their squares may overflow.
_LARGEST = 1e12


@dataclass(frozen=True)
class Finding:
    """What one criterion found.

    Attributes
    ----------
    share : float
        The share of the criterion's points, between 0 and 1.
    sentence : str
        What is right or wrong, without the answer.
    """

    share: float
    sentence: str


@dataclass(frozen=True)
class Reference:
    """The two ends that a certified solution of an exercise has: value and bound of the optimum."""

    objective: float
    bound: float


@dataclass(frozen=True, eq=False)
class Exercise:
    """One exercise.

    Attributes
    ----------
    name : str
        By which a submission names it.
    question : str
        What the student reads.
    program : callable
        Returns the program that the answer is judged by.
    submit : mapping of str to tuple of int
        The arrays to submit, each with its shape.
    criteria : sequence of (points, criterion)
        What counts. A criterion is a function of a `Submitted` that returns a `Finding`.
    point : callable, optional
        From the submitted arrays to the point of the program, (matrices, x). By default the array
        ``matrix`` is the only matrix, and there are no further variables.
    tol : float, default 1e-4
        The relative error at which an answer counts as right.
    """

    name: str
    question: str
    program: Callable[[], Program]
    submit: Mapping[str, Shape]
    criteria: Sequence[tuple[float, Callable[[Submitted], Finding]]]
    point: Callable[[Mapping[str, Array]], Point] = lambda arrays: (
        [arrays["matrix"]],
        np.zeros(0),
    )
    tol: float = 1e-4

    @cached_property
    def compiled(self) -> Program:
        """The program, compiled once."""
        return self.program()

    @cached_property
    def reference(self) -> Reference:
        """Value and bound of a certified solution; a program that has none is refused."""
        from sdpkit.solving.solve import solve

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = solve(self.compiled, tol=min(1e-6, 0.01 * self.tol))
        if not solution.certificate.passes(0.1 * self.tol):
            raise InputError(
                f"exercise {self.name!r} has no certified solution ({solution.status}): use the "
                "criteria proves_infeasible or proves_unbounded, or raise its tol"
            )
        return Reference(solution.objective, solution.certificate.safe_bound)

    def grade(self, **arrays: Any) -> Grade:
        """Grade submitted arrays.

        Parameters
        ----------
        **arrays : array_like
            The arrays of `submit`, by name. Missing and malformed ones are findings, not errors.

        Returns
        -------
        Grade
            Points and a sentence per criterion.

        Examples
        --------
        >>> import numpy as np
        >>> from sdpkit.grading.exercises import EXERCISES
        >>> print(EXERCISES["correlations"].grade(matrix=np.eye(3), multipliers=np.zeros(5)))
        correlations: 0 of 10 points
          0 of 2   Constraint 4 of 5 is violated: X[0, 1] is 0, and 0.9 is required.
          0 of 3   This counts as soon as your matrix is feasible.
          0 of 2   The dual slack S has the negative eigenvalue -0.5, so these multipliers prove no
                   bound. Write S down for your multipliers: which direction v has vᵀSv < 0?
          0 of 3   This counts as soon as your multipliers prove a bound.
        """
        found, problems = _read(arrays, self.submit)
        case = Submitted(self, found)
        marks = []
        for points, criterion in self.criteria:
            missing = [name for name in self.judged_by(criterion) if name not in found]
            words = " ".join(problems[name] for name in missing)
            try:
                finding = Finding(0.0, words) if missing else criterion(case)
            except (SdpkitError, ArithmeticError, np.linalg.LinAlgError):
                finding = Finding(0.0, "These numbers cannot be judged: they overflow.")
            marks.append(Mark(points, finding))
        return Grade(self.name, tuple(marks), tuple(problems.values()))

    def judged_by(self, criterion: Callable[[Submitted], Finding]) -> tuple[str, ...]:
        """The arrays that a criterion judges: those it states, or all that make the point."""
        needs: tuple[str, ...] | None = getattr(criterion, "needs", None)
        return (
            tuple(name for name in self.submit if name != MULTIPLIERS) if needs is None else needs
        )


@dataclass(frozen=True, eq=False)
class Submitted:
    """A submission beside its exercise."""

    exercise: Exercise
    arrays: Mapping[str, Array] = field(repr=False)

    @property
    def program(self) -> Program:
        """The exercise's program."""
        return self.exercise.compiled

    @property
    def tol(self) -> float:
        """The relative error at which an answer counts as right."""
        return self.exercise.tol

    @property
    def point(self) -> Point:
        """The submitted point: one matrix per block, and the variables."""
        return self.exercise.point(self.arrays)

    @property
    def multipliers(self) -> Array:
        """The submitted multipliers, in the signs of the program."""
        return self.arrays[MULTIPLIERS]


@dataclass(frozen=True)
class Mark:
    """The points of one criterion."""

    out_of: float
    finding: Finding

    @property
    def points(self) -> float:
        """The points, to a tenth."""
        return round(self.out_of * self.finding.share, 1)


@dataclass(frozen=True)
class Grade:
    """The marks of a submission.

    Attributes
    ----------
    exercise : str
        Its name.
    marks : tuple of Mark
        One per criterion, in the exercise's order.
    problems : tuple of str
        What is wrong with the submission as a file: missing, further or malformed arrays.
    """

    exercise: str
    marks: tuple[Mark, ...]
    problems: tuple[str, ...] = ()

    @property
    def points(self) -> float:
        """The sum of the points."""
        return round(sum(mark.points for mark in self.marks), 1)

    @property
    def out_of(self) -> float:
        """The points of a perfect answer."""
        return round(sum(mark.out_of for mark in self.marks), 1)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the student reads, each sentence once."""
        return tuple(dict.fromkeys(mark.finding.sentence for mark in self.marks))

    def __str__(self) -> str:
        import textwrap

        lines = [f"{self.exercise}: {self.points:g} of {self.out_of:g} points"]
        for mark in self.marks:
            head = f"  {mark.points:g} of {mark.out_of:g}   "
            rest = " " * len(head)
            lines += textwrap.wrap(
                mark.finding.sentence, 100, initial_indent=head, subsequent_indent=rest
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        title = f"{self.exercise}: {self.points:g} of {self.out_of:g} points"
        rows = [(f"{m.points:g} of {m.out_of:g}", m.finding.sentence) for m in self.marks]
        return card(title, rows)


def _read(
    arrays: Mapping[str, Any], submit: Mapping[str, Shape]
) -> tuple[dict[str, Array], dict[str, str]]:
    """(arrays that can be judged, name → what is wrong with the others)."""
    found, problems = {}, {}
    for name, shape in submit.items():
        if name not in arrays:
            problems[name] = f"There is no array {name!r}; its shape should be {_words(shape)}."
            continue
        problem = _problem(name, arrays[name], shape)
        if problem:
            problems[name] = problem
        else:
            found[name] = np.array(arrays[name], dtype=np.float64)
    return found, problems


def _problem(name: str, value: Any, shape: Shape) -> str:
    """What is wrong with one array, or nothing."""
    try:
        array = np.asarray(value)
    except ValueError:
        return f"{name!r} is not an array: its rows have different lengths."
    if array.dtype.kind not in "iuf":
        return f"{name!r} does not hold real numbers but {array.dtype}."
    if array.shape != shape:
        hint = ""
        if len(shape) == 2 and array.ndim == 2 and array.shape[0] == shape[0] == shape[1]:
            hint = " If these are coordinates Y, one point per row, submit Y Yᵀ."
        elif array.size == int(np.prod(shape)):
            hint = " The number of entries is right: reshape the array."
        return f"{name!r} has shape {_words(array.shape)}, and {_words(shape)} is required.{hint}"
    if not np.isfinite(array).all():
        return f"{name!r} holds NaN or infinity; every entry must be a number."
    if np.abs(array).max(initial=0.0) > _LARGEST:
        return f"{name!r} holds numbers above {_LARGEST:g}, which no answer needs."
    return ""


def _words(shape: Shape) -> str:
    return " × ".join(map(str, shape)) if len(shape) != 1 else f"({shape[0]},)"


__all__ = ["Exercise", "Finding", "Grade", "Mark", "Reference", "Submitted"]
