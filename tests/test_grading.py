"""Homework graded by certificates: right, nearly right and wrong submissions, and broken files."""

from __future__ import annotations

import csv
import io
import math
import os
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit.cli.main import main
from sdpkit.errors import InputError
from sdpkit.grading.criteria import CRITERIA, feasible
from sdpkit.grading.exercise import Exercise
from sdpkit.grading.exercises import EXERCISES
from sdpkit.grading.submissions import grade_file, grade_folder, read_exercises, write_csv

Arrays = dict[str, Any]
Mistake = tuple[Callable[[Arrays], Arrays], str, str]


# -- right answers, by hand ---------------------------------------------------------------------

ROOT5 = math.sqrt(5)


def ring_of(n: int, values: dict[int, float]) -> np.ndarray:
    """The symmetric circulant matrix with the given values at each distance around the ring."""
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    return np.vectorize(values.get, otypes=[float])(np.minimum(apart, n - apart))


def _beads() -> Arrays:
    lengths = np.array([1.0, 2, 1, 3, 1, 2])
    y = np.append(0, np.cumsum(lengths))
    y -= y.mean()
    tensions = -np.cumsum(y)[:-1] / lengths
    return {"matrix": np.outer(y, y), "multipliers": tensions}


def _ring() -> Arrays:
    angle = 2 * np.pi * np.arange(6) / 6
    y = np.c_[np.cos(angle), np.sin(angle)]
    return {"matrix": y @ y.T, "multipliers": np.ones(6)}


def _largest_eigenvalue() -> Arrays:
    values, vectors = np.linalg.eigh([[2.0, 1, 0], [1, 3, -1], [0, -1, 1]])
    v = vectors[:, -1]
    return {"matrix": np.outer(v, v), "multipliers": values[-1:]}


def _correlations() -> Arrays:
    c = 2 * 0.9**2 - 1
    X = np.array([[1, 0.9, c], [0.9, 1, 0.9], [c, 0.9, 1]])
    return {"matrix": X, "multipliers": np.array([-0.5, -1.62, -0.5, 1.8, 1.8])}


def _five_people() -> Arrays:
    X = ring_of(5, {0: 1, 1: math.cos(0.8 * np.pi), 2: math.cos(1.6 * np.pi)})
    return {"matrix": X, "multipliers": np.full(5, -0.5 * math.cos(0.8 * np.pi))}


def _theta() -> Arrays:
    X = ring_of(5, {0: 1 / 5, 1: 0.0, 2: (ROOT5 - 1) / 10})
    return {"matrix": X, "multipliers": np.append(ROOT5, np.full(5, 5 - ROOT5))}


@cache
def right_answers() -> dict[str, Arrays]:
    across = np.array([1.0, 1, -1, -1])
    metric = np.asarray(sdpkit.solve(EXERCISES["metric"].compiled, tol=1e-4).matrix)
    return {
        "correlations": _correlations(),
        "five-people": _five_people(),
        "theta": _theta(),
        "beads": _beads(),
        "ring": _ring(),
        "triangle": {"multipliers": np.array([2.0, 2, -1])},
        "two-parts": {"matrix": np.outer(across, across)},
        "largest-eigenvalue": _largest_eigenvalue(),
        "lyapunov": {"P": np.array([[0.5, 0.5], [0.5, 1.5]])},
        "metric": {"matrix": metric},
    }


@pytest.mark.parametrize("name", EXERCISES)
def test_right_answers_get_all_points(name: str) -> None:
    grade = EXERCISES[name].grade(**right_answers()[name])
    assert grade.points == grade.out_of == 10, str(grade)
    assert not grade.problems


@pytest.mark.parametrize("name", EXERCISES)
def test_nothing_gets_no_points_and_names_every_array(name: str) -> None:
    grade = EXERCISES[name].grade()
    assert grade.points == 0
    assert len(grade.problems) == len(EXERCISES[name].submit)
    for array in EXERCISES[name].submit:
        assert f"There is no array {array!r}" in str(grade.problems)


# -- wrong in planted ways ----------------------------------------------------------------------


def changed(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[Arrays], Arrays]:
    """A submission with one array changed, if it has it."""

    def change_it(arrays: Arrays) -> Arrays:
        return {**arrays, name: change(arrays[name].copy())}

    return change_it


def with_entry(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def put(array: np.ndarray) -> np.ndarray:
        array.flat[0] = value
        return array

    return put


def _factor(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(values.clip(0)))[:, -2:]


# What is changed, how, and a word of the sentence. Points of matrices come first.
MATRIX: list[tuple[str, Callable[[np.ndarray], Any], str]] = [
    ("negated", lambda m: -m, "not positive semidefinite"),
    ("upper triangle", np.triu, "Only one triangle"),
    ("one entry", lambda m: m + np.outer(np.eye(len(m))[0], np.eye(len(m))[1]), "not symmetric"),
    ("indefinite", lambda m: m - 0.5 * np.trace(m) / len(m) * np.eye(len(m)), "semidefinite"),
    ("NaN", with_entry(np.nan), "NaN or infinity"),
    ("infinity", with_entry(np.inf), "NaN or infinity"),
    ("overflow", with_entry(1e200), "which no answer needs"),
    ("texts", lambda m: m.astype(str), "does not hold real numbers"),
    ("complex", lambda m: m + 0j, "does not hold real numbers"),
    ("a vector", np.ravel, "reshape the array"),
    ("too large", lambda m: np.pad(m, 1), "is required"),
    ("ragged", lambda m: [[1.0], [1.0, 2.0]], "different lengths"),
    ("empty", lambda m: m[:0], "is required"),
    ("three axes", lambda m: m[None], "is required|reshape"),
]
EQUATIONS: list[tuple[str, Callable[[np.ndarray], Any], str]] = [
    ("scaled", lambda m: 1.1 * m, "required|same factor"),
    ("zero", lambda m: 0 * m, "is violated"),
    ("identity", lambda m: 7 * np.eye(len(m)), "is violated|sum to zero|same factor"),
]
MULTIPLIERS: list[tuple[str, Callable[[np.ndarray], Any], str]] = [
    ("signs", lambda w: -w, "signs"),
    ("zero", lambda w: 0 * w, "negative eigenvalue|contradicts nothing"),
    ("too few", lambda w: w[:-1], "is required"),
    ("NaN", with_entry(np.nan), "NaN or infinity"),
    ("a matrix", np.diag, "is required"),
]
ON_EQUATIONS = ("correlations", "five-people", "theta", "beads", "ring", "largest-eigenvalue")


def planted() -> list[Any]:
    found = []
    for name, arrays in ((n, EXERCISES[n].submit) for n in EXERCISES):
        array = next((a for a in arrays if a != "multipliers"), None)
        kinds = [(array, *mistake) for mistake in MATRIX if array]
        kinds += [(array, *mistake) for mistake in EQUATIONS if name in ON_EQUATIONS]
        if "multipliers" in arrays:
            square = [m for m in MULTIPLIERS if arrays["multipliers"] != (1,) or m[0] != "a matrix"]
            kinds += [("multipliers", *mistake) for mistake in square]
        found += [pytest.param(name, *kind, id=f"{name}: {kind[0]} {kind[1]}") for kind in kinds]
    return found


@pytest.mark.parametrize(("name", "array", "what", "change", "words"), planted())
def test_wrong_answers_lose_points_and_say_why(
    name: str, array: str, what: str, change: Callable[[np.ndarray], Any], words: str
) -> None:
    arrays = right_answers()[name]
    grade = EXERCISES[name].grade(**changed(array, change)(arrays))
    said = " ".join(grade.sentences)
    judged = [c for _, c in EXERCISES[name].criteria if array in EXERCISES[name].judged_by(c)]
    lost = sum(points for points, c in EXERCISES[name].criteria if c in judged)
    assert grade.points == grade.out_of - lost, str(grade)  # the other half keeps its points
    assert any(word in said for word in words.split("|")), said


def _moved_inside(name: str, by: float) -> Arrays:
    """The right answer with multipliers, or a matrix without, that much inside of its set."""
    arrays = {key: value.copy() for key, value in right_answers()[name].items()}
    if name in ("beads", "ring"):
        arrays["multipliers"] *= 1 + by
    elif name in ("theta", "largest-eigenvalue"):
        arrays["multipliers"][0] *= 1 + by
    elif name == "five-people":
        arrays["multipliers"] *= 1 + by
    elif name == "correlations":
        arrays["multipliers"][:3] -= by * 0.3
    else:
        key = "P" if name == "lyapunov" else "matrix"
        arrays[key] = (1 + (by if name == "lyapunov" else 20 * by)) * arrays[key]  # tol 1e-3
    return arrays


NEARLY = (*ON_EQUATIONS, "lyapunov", "metric")


def class_of_submissions() -> list[tuple[str, str, Arrays, str]]:
    """Kind, exercise, arrays and the words to expect, for a class of three hundred."""
    rng = np.random.default_rng(0)
    found = []
    for name, right in right_answers().items():
        for _ in range(4):
            noise = {k: v * (1 + 1e-12 * rng.standard_normal()) for k, v in right.items()}
            found.append(("right", name, noise, ""))
    for parameter in planted():
        name, array, _, change, words = parameter.values
        found.append(("wrong", name, changed(array, change)(right_answers()[name]), words))
    for k in range(300 - len(found)):
        name = NEARLY[k % len(NEARLY)]
        by = 10 ** rng.uniform(-2.9, -2.3)
        found.append(("nearly", name, _moved_inside(name, by), "within"))
    return found


@pytest.mark.slow
def test_a_class_of_three_hundred_is_graded_right(tmp_path: Path) -> None:
    submissions = class_of_submissions()
    assert len(submissions) == 300
    assert len({p.values[2] for p in planted()}) >= 20
    for k, (_, name, arrays, _) in enumerate(submissions):
        if any(isinstance(value, list) for value in arrays.values()):  # no file can hold it
            arrays = {key: value for key, value in arrays.items() if not isinstance(value, list)}
        write(tmp_path, f"s{k:03d}", exercise=name, **arrays)
    for (kind, name, arrays, words), graded in zip(
        submissions, grade_folder(tmp_path, EXERCISES), strict=True
    ):
        said = f"{kind} {name}: {graded}"
        if kind == "right":
            assert graded.points == 10, said
        elif kind == "nearly":
            assert 5 <= graded.points < 10, said
        else:
            assert graded.points <= 7, said
        if not any(isinstance(value, list) for value in arrays.values()):
            assert any(word in " ".join(str(graded).split()) for word in words.split("|")), said


def test_a_sentence_names_the_usual_mistakes() -> None:
    right = right_answers()
    beads = EXERCISES["beads"]
    lengths = np.sqrt([1.0, 2, 1, 3, 1, 2])
    y = np.append(0, np.cumsum(lengths))
    y -= y.mean()
    assert "about squared lengths" in str(beads.grade(matrix=np.outer(y, y)))
    assert "do not sum to zero" in str(beads.grade(matrix=right["beads"]["matrix"] + 1))
    coordinates = _factor(right["ring"]["matrix"])
    assert "submit Y Yᵀ" in str(EXERCISES["ring"].grade(matrix=coordinates))
    nearly = right["correlations"]["matrix"].round(3) + 5e-4 * (1 - np.eye(3))
    said = str(EXERCISES["correlations"].grade(matrix=nearly))
    assert "nearly positive semidefinite" in said
    off = right["beads"]["matrix"] * (1 + 1e-4 * np.eye(7))
    off -= off.mean(axis=0) + off.mean(axis=1)[:, None] - off.mean()
    said = " ".join(beads.grade(matrix=off).sentences)
    assert "is violated" in said
    assert "compute with more digits" in said


def test_nearly_right_answers_get_a_part() -> None:
    right = right_answers()["ring"]
    grade = EXERCISES["ring"].grade(
        multipliers=1.005 * right["multipliers"], matrix=right["matrix"]
    )
    assert 5 < grade.points < 10
    assert "within 1 %" in str(grade)
    poor = EXERCISES["ring"].grade(multipliers=1.5 * right["multipliers"], matrix=right["matrix"])
    assert poor.points == 7
    assert "more than 20 %" in " ".join(poor.sentences)


def test_no_sentence_gives_the_optimum_away() -> None:
    beads, right = EXERCISES["beads"], right_answers()["beads"]
    assert f"{beads.reference.objective:.4g}" == "83.43"
    for factor in (0.5, 0.999, 1.001, 2.0):
        arrays = {name: factor * array for name, array in right.items()}
        assert "83" not in str(beads.grade(**arrays))


def test_directions_and_rays_that_are_none() -> None:
    parts, triangle = EXERCISES["two-parts"], EXERCISES["triangle"]
    assert "changes constraint" in str(parts.grade(matrix=np.eye(4) - 1 / 4))
    assert "do not sum to zero" in str(parts.grade(matrix=np.eye(4)))
    assert "zero and leads nowhere" in str(parts.grade(matrix=np.zeros((4, 4))))
    assert "needs bᵀw < 0" in str(triangle.grade(multipliers=[1.0, 1, 1]))
    assert "negative eigenvalue" in str(triangle.grade(multipliers=[1.0, 1, -1]))


# -- files --------------------------------------------------------------------------------------


def write(folder: Path, name: str, **arrays: Any) -> Path:
    path = folder / f"{name}.npz"
    np.savez(path, **arrays)
    return path


def test_a_folder_is_graded_into_a_table(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path, "ada", exercise="triangle", multipliers=[2.0, 2, -1])
    write(tmp_path, "bob", exercise="triangle", multipliers=[1.0, 1, 1])
    write(tmp_path, "cleo", exercise="circle", multipliers=[1.0])
    (tmp_path / "dan.npz").write_bytes(b"PK\x03\x04 no archive")
    table = tmp_path / "marks.csv"
    assert main(["grade", str(tmp_path), "--csv", str(table)]) == 1  # two could not be graded
    printed = capsys.readouterr().out
    assert "ada.npz: triangle: 10 of 10 points" in printed
    assert "cleo.npz: 0 points. The file names the exercise 'circle'" in printed
    head, *lines = table.read_text().splitlines()
    assert head == "file,exercise,points,out_of,words"
    assert [line.split(",")[2] for line in lines] == ["10.0", "0.0", "0.0", "0.0"]
    assert main(["grade", str(tmp_path / "ada.npz")]) == 0
    assert main(["grade", "--list"]) == 0
    assert main(["grade"]) == 2
    assert main(["grade", str(tmp_path), "--exercise", "none"]) == 2
    assert main(["grade", str(tmp_path / "nobody")]) == 2


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "executed",))

    path = write(tmp_path, "bomb", exercise="ring", matrix=np.array([Bomb()], dtype=object))
    graded = grade_file(path, EXERCISES)
    assert graded.points == 0
    assert "pass numbers or texts" in graded.words
    assert not (tmp_path / "executed").exists()


def test_a_teacher_adds_an_exercise(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text(
        "import sdpkit\n"
        "from sdpkit.grading.criteria import feasible\n"
        "from sdpkit.grading.exercise import Exercise\n"
        "def program():\n"
        "    M = sdpkit.Unknown('M', 2)\n"
        "    return sdpkit.maximise(M[0, 1], M[0, 0] == 1, M[1, 1] == 1)\n"
        "EXERCISES = [Exercise('mine', 'Maximise M₁₂.', program, {'matrix': (2, 2)},"
        " [(1, feasible)])]\n"
    )
    write(tmp_path, "eve", matrix=np.eye(2))
    (graded,) = grade_folder(tmp_path, read_exercises(source), "mine")
    assert graded.points == 1
    (tmp_path / "bad.py").write_text("EXERCISES = [1]")
    with pytest.raises(InputError, match="must define EXERCISES"):
        read_exercises(tmp_path / "bad.py")


def test_an_exercise_without_an_optimum_is_refused() -> None:
    ring, parts = EXERCISES["ring"], EXERCISES["two-parts"]
    wrong = Exercise("w", "", parts.program, ring.submit, [(1, CRITERIA["tight_bound"])])
    with pytest.raises(InputError, match="proves_unbounded"):
        _ = wrong.reference
    assert feasible in CRITERIA.values()


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "device.npz").symlink_to("/dev/zero")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "nothing.npz").symlink_to(tmp_path / "nowhere")
    graded = grade_folder(tmp_path, EXERCISES)
    assert [one.points for one in graded] == [0.0] * 4
    assert {one.problem for one in graded} == {"This is not a file that can be read."}


def test_names_of_files_are_no_formulas(tmp_path: Path) -> None:
    write(tmp_path, "=HYPERLINK(1)", exercise="triangle", multipliers=[2.0, 2, -1])
    write(tmp_path, "\x1b[2Jeve", exercise="triangle", multipliers=[2.0, 2, -1])
    graded = grade_folder(tmp_path, EXERCISES)
    write_csv(tmp_path / "marks.csv", graded)
    names = [
        row["file"] for row in csv.DictReader((tmp_path / "marks.csv").read_text().splitlines())
    ]
    assert sorted(names) == ["'=HYPERLINK(1).npz", "[2Jeve.npz"]
    assert "\x1b" not in "".join(map(str, graded))


def mutated(rng: np.random.Generator, whole: bytes) -> bytes:
    """A submission with some bytes changed: of the archive, or of its arrays inside a sound one."""

    def broken(data: bytes) -> bytes:
        changed = bytearray(data)
        for place in rng.integers(0, len(changed), rng.integers(1, 8)):
            changed[place] = rng.integers(256)
        return bytes(changed[: rng.integers(1, len(changed))] if rng.random() < 0.3 else changed)

    if rng.random() < 0.5:
        return broken(whole)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive, zipfile.ZipFile(out, "w") as again:
        for name in archive.namelist():
            data = archive.read(name)
            again.writestr(name, broken(data) if rng.random() < 0.5 else data)
    return out.getvalue()


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_mutated_files_do_not_crash(tmp_path: Path, count: int) -> None:
    rng = np.random.default_rng(count)
    wholes = [
        write(tmp_path, name, exercise=name, **arrays).read_bytes()
        for name, arrays in right_answers().items()
    ]
    path = tmp_path / "mutated.npz"
    for k in range(count):
        path.write_bytes(mutated(rng, wholes[k % len(wholes)]))
        graded = grade_file(path, EXERCISES)
        assert 0 <= graded.points <= 10
        assert graded.words
