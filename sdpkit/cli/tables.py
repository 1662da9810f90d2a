"""Data files of the command line: tables of text, .npy and .npz, from a path or standard input."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.files import one_line, read_npy, read_npz, read_text
from sdpkit.solution.executable import WorkFolder
from sdpkit.typing import Array

# Characters of the longest label.
_LONGEST_LABEL = 200
_UNNAMED = ("", "unnamed: 0")


@dataclass(frozen=True, eq=False)
class Table:
    """The numbers of a file, by name, its labels if there are any, and what was left out."""

    arrays: dict[str, NDArray[Any]]
    labels: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    def one(self, key: str | None, path: Path) -> Array:
        """The array of that name; without a name X, or the only one."""
        if key is None:
            key = "X" if "X" in self.arrays or len(self.arrays) != 1 else next(iter(self.arrays))
        return real(named(self.arrays, key, path), path)


def read_table(path: Path, labels: str | None) -> Table:
    """Numbers and labels; `labels` is a file, an array of an .npz or a column of a text."""
    apart = labels is not None and Path(labels).is_file()
    found = one_per_line(Path(str(labels))) if apart else None
    inside = None if apart else labels
    if path.suffix == ".npz":
        arrays = read_npz(path)
        if inside is not None:
            found = named(arrays, inside, path)
            arrays = {name: array for name, array in arrays.items() if name != inside}
        return Table(arrays, found)
    if path.suffix == ".npy":
        if inside is not None:
            raise InputError(f"{path} holds one array: pass the labels as a separate file")
        return Table({"X": read_npy(path)}, found)
    table = _text_table(path, inside)
    return table if found is None else Table(table.arrays, found, table.notes)


def real(array: NDArray[Any], path: Path) -> Array:
    """An array of real numbers; anything else is refused."""
    if array.dtype.kind not in "biuf":
        raise InputError(f"{path} holds {array.dtype}: pass real numbers")
    return np.asarray(array, dtype=np.float64)


def named(arrays: dict[str, NDArray[Any]], key: str, path: Path) -> NDArray[Any]:
    """The array of an .npz by its name."""
    if key not in arrays:
        names = one_line(", ".join(arrays))
        raise InputError(f"{path} has no array {key!r}; it has {names}: use --key")
    return arrays[key]


def one_per_line(path: Path) -> NDArray[Any]:
    """Labels in a file: an .npy, or a text with one on each line."""
    if path.suffix == ".npy":
        return read_npy(path).ravel()
    return _labels([line.strip() for line in _lines(path)], path)


@contextmanager
def from_standard_input(file: Path, kind: str | None) -> Iterator[Path]:
    """`file` itself, or what comes from standard input if it is "-".

    `kind` is "csv", "npy", "npz" or "dat-s"; None looks at the first bytes.
    """
    if str(file) != "-":
        yield file
        return
    content = sys.stdin.buffer.read()
    starts = {b"PK": "npz", b"\x93N": "npy"}
    with WorkFolder() as folder:
        path = folder.path / f"input.{kind or starts.get(content[:2], 'csv')}"
        path.write_bytes(content)
        try:
            yield path
        except InputError as error:
            raise InputError(str(error).replace(str(path), "standard input")) from error


# -- text -------------------------------------------------------------------------------------


def _lines(path: Path) -> list[str]:
    lines = [line for line in read_text(path, "a text in UTF-8").splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path} is empty")
    return lines


def _text_table(path: Path, label: str | None) -> Table:
    """Rows of a text table, and its column of labels, by name or by number from 0 (−1 the last).

    A first column without a name is the index that pandas writes; it is left out.
    """
    lines = _lines(path)
    mark = next((mark for mark in ("\t", ",", ";") if mark in lines[0]), None)
    rows = [[_unquoted(cell) for cell in line.split(mark)] for line in lines]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise InputError(
                f"{path}: row {number} has {len(row)} columns, the first has {len(rows[0])}"
            )
    position = None if label is None else _position(label, rows[0], path)
    others = [k for k in range(len(rows[0])) if k != position]
    has_names = len(rows) > 1 and not any(_is_number(rows[0][k]) for k in others or [0])
    notes: tuple[str, ...] = ()
    if has_names and len(others) > 1 and others[0] == 0 and rows[0][0].lower() in _UNNAMED:
        others = others[1:]
        notes = ("the first column has no name: it is taken as an index and left out",)
    body = rows[1:] if has_names else rows
    found = None if position is None else _labels([row[position] for row in body], path)
    return Table({"X": _numbers(body, others, path)}, found, notes)


def _unquoted(cell: str) -> str:
    cell = cell.strip()
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _numbers(rows: list[list[str]], columns: list[int], path: Path) -> Array:
    try:
        return np.array([[_number(row[k]) for k in columns] for row in rows], dtype=np.float64)
    except ValueError as error:
        raise InputError(
            f"{path} holds text beside numbers ({one_line(error, 80)}): name the column of labels "
            "by --labels, or leave it out"
        ) from error


def _labels(words: list[str], path: Path) -> NDArray[Any]:
    longest = max(words, key=len, default="")
    if len(longest) > _LONGEST_LABEL:
        raise InputError(f"{path} has a label of {len(longest)} characters: shorten it")
    return np.array(words)


def _position(label: str, first: list[str], path: Path) -> int:
    width = len(first)
    is_number = label.lstrip("-").isdecimal() and len(label) < 10
    if is_number and -width <= int(label) < width:
        return int(label) % width
    if label in first and not is_number:
        return first.index(label)
    raise InputError(
        f"{path} has no column {label!r}; it has {width}, named "
        f"{one_line(', '.join(first[:8]))}…, or give a number from 0"
    )


def _number(cell: str) -> float:
    if "_" in cell:  # Python would take 1_000
        raise ValueError(f"{cell!r} is not a number")
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        return not math.isnan(_number(cell)) or cell.lower() == "nan"
    except ValueError:
        return False
