"""`sdpkit grade`: homework, graded by certificates."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import Any

from sdpkit.errors import InputError
from sdpkit.files import require_writable


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "grade",
        help="grade submitted solutions by their certificates",
        description="Grade a submission (.npz) or a folder of them. A submission holds the arrays "
        "that the exercise asks for, and an array 'exercise' with its name. The exit code is 0 if "
        "every file could be graded, whatever the points, and 1 if one was malformed.",
    )
    parser.add_argument("submission", nargs="?", type=Path, help="an .npz, or a folder of them")
    parser.add_argument(
        "--list", action="store_true", help="print the exercises and what to submit"
    )
    parser.add_argument("--exercise", metavar="NAME", help="grade all files by this exercise")
    parser.add_argument(
        "--exercises",
        type=Path,
        metavar="FILE",
        help="a Python file that defines EXERCISES; it is executed",
    )
    parser.add_argument("--csv", type=Path, help="write a table: file, exercise, points, words")
    parser.add_argument("--force", action="store_true", help="replace a table that exists")


def run(chosen: argparse.Namespace) -> int:
    """Print grades, and write the table."""
    from sdpkit.grading.exercises import EXERCISES
    from sdpkit.grading.submissions import grade_file, grade_folder, read_exercises, write_csv

    exercises = EXERCISES if chosen.exercises is None else read_exercises(chosen.exercises)
    if chosen.list:
        for exercise in exercises.values():
            arrays = ", ".join(
                f"{name} {' × '.join(map(str, shape))}" for name, shape in exercise.submit.items()
            )
            text = textwrap.fill(exercise.question, 96)
            print(f"{exercise.name}  ({arrays})\n{textwrap.indent(text, '    ')}\n")
        return 0
    if chosen.submission is None:
        raise InputError("name a file or a folder to grade, or pass --list to see the exercises")
    if chosen.exercise is not None and chosen.exercise not in exercises:
        raise InputError(f"there is no exercise {chosen.exercise!r}; --list names all of them")
    if not chosen.submission.exists():
        raise InputError(f"there is no file or folder {chosen.submission}")
    if chosen.csv is not None:
        require_writable(chosen.csv, chosen.force)
    if chosen.submission.is_dir():
        graded = grade_folder(chosen.submission, exercises, chosen.exercise)
        if not graded:
            raise InputError(f"the folder {chosen.submission} has no .npz files")
    else:
        graded = [grade_file(chosen.submission, exercises, chosen.exercise)]
    for one in graded:
        print(one)
    if chosen.csv is not None:
        write_csv(chosen.csv, graded)
        print(f"wrote {chosen.csv}")
    return 1 if any(one.grade is None for one in graded) else 0
