"""Tables as people have them: named columns of words, from a file, a data frame or arrays."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.files import one_line, read_npy, read_npz

_FRAMES = {".xlsx": "read_excel", ".xls": "read_excel", ".ods": "read_excel"}
_FRAMES |= {".parquet": "read_parquet", ".feather": "read_feather"}
# Files of bytes that no text begins with.
_NO_TEXT = 4096
# Characters that csv accepts in a cell.
_LONGEST_CELL = 1_000_000


@dataclass(frozen=True, eq=False)
class TableColumns:
    """TableColumns by name, each of numbers or of words, and what was noticed while reading."""

    data: Mapping[str, NDArray[Any]]
    notes: tuple[str, ...] = ()
    labels: NDArray[Any] | None = None


def read_columns(table: Any) -> TableColumns:
    """The columns of a path, of a pandas data frame, of a mapping or of an array (n, d).

    >>> read_columns({"a": [1, 2], "b": ["x", "y"]}).data["b"].tolist()
    ['x', 'y']
    """
    if isinstance(table, str | Path):
        return _of_file(Path(table))
    if hasattr(table, "columns") and hasattr(table, "iloc"):
        names = [str(name) for name in table.columns]
        arrays = [table.iloc[:, k].to_numpy() for k in range(len(names))]
        return _named(names, arrays)
    if isinstance(table, Mapping):
        return _named([str(name) for name in table], [np.asarray(v) for v in table.values()])
    array = np.asarray(table)
    if array.ndim != 2:
        raise InputError(
            f"the table has shape {array.shape}: pass a file, a data frame or an array (n, d)"
        )
    return _named([f"x{k}" for k in range(array.shape[1])], list(array.T))


def _of_file(path: Path) -> TableColumns:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if path.suffix == ".npz":
        return _of_arrays(read_npz(path), path)
    if path.suffix == ".npy":
        return _of_arrays({"X": read_npy(path)}, path)
    if path.suffix.lower() in _FRAMES:
        return _by_pandas(path, _FRAMES[path.suffix.lower()])
    return _of_text(path)


def _of_arrays(arrays: Mapping[str, NDArray[Any]], path: Path) -> TableColumns:
    """X, or the only array of two dimensions or more; y are labels."""
    found = {name: a for name, a in arrays.items() if a.ndim >= 2}
    name = "X" if "X" in found else next(iter(found), None)
    if name is None or (len(found) > 1 and name != "X"):
        names = one_line(", ".join(arrays))
        raise InputError(f"{path} holds {names}: save the points as X, (n, d), and labels as y")
    X = found[name].reshape(len(found[name]), -1)
    columns = _named([f"x{k}" for k in range(X.shape[1])], list(X.T))
    y = arrays.get("y")
    fits = y is not None and y.shape == (len(X),)
    return TableColumns(columns.data, columns.notes, y if fits else None)


def _by_pandas(path: Path, reader: str) -> TableColumns:
    try:
        import pandas as pd

        frame = getattr(pd, reader)(path)
    except ImportError as error:
        raise InputError(
            f"reading {path.suffix} files needs pandas and its reader ({one_line(error, 120)}): "
            "install them, or save the table as .csv"
        ) from error
    except Exception as error:  # what the reader's libraries raise is not known
        raise InputError(
            f"{path} cannot be read as {path.suffix}: {one_line(error, 200)}"
        ) from error
    return read_columns(frame)


def _of_text(path: Path) -> TableColumns:
    text, notes = _decoded(path)
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path} is empty")
    mark = max(
        "\t;,|", key=lambda m: (min(line.count(m) for line in lines[:20]), lines[0].count(m))
    )
    if mark not in lines[0]:
        mark = " "
    csv.field_size_limit(_LONGEST_CELL)
    try:
        reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=mark, skipinitialspace=True)
        rows = [[cell.strip() for cell in row] for row in reader]
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    width = max(set(map(len, rows)), key=[len(row) for row in rows].count)
    odd = sum(len(row) != width for row in rows)
    rows = [row for row in rows if len(row) == width]
    if odd:
        notes.append(f"{odd} of {odd + len(rows)} rows do not have {width} cells and were left out")
    has_names = not any(_looks_like_number(cell) for cell in rows[0]) and len(rows) > 1
    names = rows[0] if has_names else [f"x{k}" for k in range(width)]
    body = np.array(rows[1:] if has_names else rows, dtype=object)
    found = _named(names, [body[:, k] for k in range(width)])
    return TableColumns(found.data, (*notes, *found.notes))


def _decoded(path: Path) -> tuple[str, list[str]]:
    raw = path.read_bytes()
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", errors="replace"), []
    if b"\0" in raw[:_NO_TEXT]:
        raise InputError(
            f"{path} is not a text: save the table as .csv, .tsv, .xlsx, .parquet or .npz"
        )
    try:
        return raw.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return raw.decode("latin-1"), ["the file is not UTF-8; it was read as Latin-1"]


def _named(names: list[str], arrays: list[NDArray[Any]]) -> TableColumns:
    """The columns; a name that occurs twice is numbered."""
    if not arrays:
        raise InputError("the table has no columns")
    notes, data = [], dict[str, NDArray[Any]]()
    for k, (name, array) in enumerate(zip(names, arrays, strict=True)):
        plain = one_line(name, 60) or f"column {k}"
        unique, number = plain, 1
        while unique in data:
            number += 1
            unique = f"{plain} ({number})"
        if unique != plain:
            notes.append(f"two columns are named {plain}: the later one is {unique}")
        data[unique] = array
    if len({len(array) for array in arrays}) > 1:
        raise InputError("the columns differ in length: pass a table, (n, d)")
    return TableColumns(data, tuple(notes[:5]))


def number_of(cell: Any) -> float:
    """A cell as a number, nan where it is missing or none; "1,5" is 1.5.

    >>> number_of("1,5"), number_of("?"), number_of(2)
    (1.5, nan, 2.0)
    """
    if isinstance(cell, str):
        word = cell.strip()
        if word.count(",") == 1 and "." not in word:
            word = word.replace(",", ".")
        if "_" in word:
            return float("nan")
    else:
        word = cell
    try:
        return float(word)
    except (TypeError, ValueError):
        return float("nan")


def _looks_like_number(cell: str) -> bool:
    return not np.isnan(number_of(cell))


__all__ = ["TableColumns", "number_of", "read_columns"]
