"""Submissions as files, graded one at a time or as a folder.

A submission is an `.npz` of plain arrays. The array `exercise` names the exercise, unless the
caller does. Files are read as data only: no object is unpickled, and sizes are checked before
anything is allocated, so that a submission cannot execute code or fill the memory.
"""

from __future__ import annotations

import csv
import io
import runpy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdpkit.errors import InputError
from sdpkit.files import one_line, read_npz, reading, replace_text
from sdpkit.grading.exercise import Exercise, Grade

# No exercise needs more: a folder of submissions must be graded in minutes.
_LARGEST_FILE = 16 * 2**20


@dataclass(frozen=True)
class Graded:
    """A file and its grade; `problem` is why there is none."""

    path: Path
    grade: Grade | None
    problem: str = ""

    @property
    def points(self) -> float:
        """The points; a file that cannot be read has none."""
        return 0.0 if self.grade is None else self.grade.points

    @property
    def words(self) -> str:
        """What the student reads, on one line."""
        return self.problem or " ".join(self.grade.sentences if self.grade else ())

    def __str__(self) -> str:
        said = f"0 points. {self.problem}" if self.grade is None else str(self.grade)
        return f"{one_line(self.path.name)}: {said}"


def grade_file(
    path: str | Path, exercises: Mapping[str, Exercise], name: str | None = None
) -> Graded:
    """Grade one submission.

    Parameters
    ----------
    path : str or Path
        An ``.npz`` of plain arrays.
    exercises : mapping of str to Exercise
        The exercises by name, such as `sdpkit.grading.exercises.EXERCISES`.
    name : str, optional
        The exercise; by default the one that the file names in its array ``exercise``.

    Returns
    -------
    Graded
        The grade; for a file that is malformed zero points and a sentence.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sdpkit.grading.exercises import EXERCISES
    >>> path = Path(tempfile.mkdtemp()) / "ada.npz"
    >>> np.savez(path, exercise="triangle", multipliers=[2.0, 2.0, -1.0])
    >>> print(grade_file(path, EXERCISES))
    ada.npz: triangle: 10 of 10 points
      10 of 10   Your multipliers combine the constraints to a contradiction: no point exists.
    """
    path = Path(path)
    if not path.is_file():  # a pipe or a device would be read for ever
        return Graded(path, None, "This is not a file that can be read.")
    try:
        if path.stat().st_size > _LARGEST_FILE:
            limit = _LARGEST_FILE // 2**20
            return Graded(path, None, f"The file is larger than {limit} MiB; no answer needs that.")
        arrays = dict(read_npz(path, "a submission"))
    except (OSError, InputError) as error:
        return Graded(path, None, f"The file cannot be read: {one_line(error)}.")
    named = arrays.pop("exercise", None)
    if name is None and named is not None:
        name = str(named.item()) if named.size == 1 else None
    if name is None or name not in exercises:
        given = "names no exercise" if name is None else f"names the exercise {one_line(name)!r}"
        return Graded(
            path, None, f"The file {given}; its array 'exercise' must be one of {_list(exercises)}."
        )
    return Graded(path, exercises[name].grade(**_named(arrays)))


def grade_folder(
    folder: str | Path, exercises: Mapping[str, Exercise], name: str | None = None
) -> list[Graded]:
    """Grade every ``.npz`` of a folder, in the order of the names."""
    return [grade_file(path, exercises, name) for path in sorted(Path(folder).glob("*.npz"))]


def write_csv(path: str | Path, graded: Iterable[Graded]) -> None:
    """A table with one line per file: file, exercise, points, out_of, words.

    A spreadsheet would compute a text that begins with =, +, - or @. Such names of files get an
    apostrophe in front.
    """
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["file", "exercise", "points", "out_of", "words"])
    for one in graded:
        exercise, out_of = ("", "") if one.grade is None else (one.grade.exercise, one.grade.out_of)
        name = one_line(one.path.name)
        name = f"'{name}" if name.startswith(("=", "+", "-", "@")) else name
        writer.writerow([name, exercise, one.points, out_of, one.words])
    replace_text(path, table.getvalue())


def read_exercises(path: str | Path) -> dict[str, Exercise]:
    """The exercises of a teacher's Python file, which defines a list ``EXERCISES``.

    The file is executed: pass files that you trust.
    """
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}: name a Python file that defines EXERCISES")
    with reading(path, "a file of exercises"):
        found: Any = runpy.run_path(str(path)).get("EXERCISES")
        found = list(found.values()) if isinstance(found, Mapping) else found
        if not isinstance(found, list | tuple) or not all(isinstance(e, Exercise) for e in found):
            raise InputError("it must define EXERCISES, a list of sdpkit.grading Exercise objects")
    return {exercise.name: exercise for exercise in found}


def _named(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays whose name can be an argument; `self` and its like belong to no exercise."""
    return {name: array for name, array in arrays.items() if name != "self"}


def _list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


__all__ = ["Graded", "grade_file", "grade_folder", "read_exercises", "write_csv"]
