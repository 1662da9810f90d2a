"""From columns of numbers and words to points and labels, with a note for every decision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.files import one_line
from sdpkit.looking.columns import TableColumns, number_of, read_columns
from sdpkit.typing import Array

_MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "nat", "?", "-"})
_LABEL_NAMES = ("label", "labels", "class", "target", "species", "category", "y")
_DATES = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
# Categories become columns of 0 and 1 if there are at most so many.
_CATEGORIES, _LABEL_VALUES = 12, 30
# TableColumns with a larger share of missing cells are left out.
_TOO_SPARSE = 0.5
# TableColumns whose spreads differ by more than this factor are scaled.
_UNEQUAL = 10.0


@dataclass(frozen=True, eq=False)
class TablePoints:
    """Points of a table.

    Attributes
    ----------
    X : array of shape (n, d)
        Finite numbers, scaled where the columns' units differ.
    labels : array of str, shape (n,), or None
        The words by which points are coloured.
    columns : tuple of str
        What the columns of X are.
    notes : tuple of str
        What was decided on the way, one sentence each.
    """

    X: Array
    labels: NDArray[Any] | None
    columns: tuple[str, ...]
    notes: tuple[str, ...]


def points_of_table(table: Any, labels: Any = None) -> TablePoints:
    """Points and labels of whatever `sdpkit.look` takes.

    >>> table = {"x": [0, 1, 2, 4], "y": [0.5, None, 3, 2], "kind": ["a", "b", "a", "b"]}
    >>> read = points_of_table(table)
    >>> read.X.shape, read.labels.tolist()
    ((4, 2), ['a', 'b', 'a', 'b'])
    >>> read.notes
    ('column kind is taken as the labels', 'column y: 1 missing cells became its median')
    """
    columns = read_columns(table)
    data, notes = dict(columns.data), list(columns.notes)
    n = len(next(iter(data.values())))
    if n < 3:
        raise InputError(f"the table has {n} row{'s' * (n != 1)}: a picture needs at least 3")
    found = _labels(data, columns, labels, notes)
    names, parts, mixed = [], [], False
    for name, cells in data.items():
        made = _column(name, cells, notes)
        mixed = mixed or len(made) > 1 or any(" = " in other for other, _ in made)
        for other, values in made:
            names.append(other)
            parts.append(values)
    if not parts:
        raise InputError("no column of the table varies in numbers: there is nothing to draw")
    X = _scaled(np.column_stack(parts), mixed, notes)
    return TablePoints(X, found, tuple(names), tuple(notes))


def _labels(
    data: dict[str, NDArray[Any]], columns: TableColumns, labels: Any, notes: list[str]
) -> NDArray[Any] | None:
    """The labels, given or guessed; a column of labels is taken out of the data."""
    n = len(next(iter(data.values())))
    if labels is not None and not isinstance(labels, str):
        given = np.array([_word(cell) for cell in np.asarray(labels).ravel()])
        if given.shape != (n,):
            raise InputError(f"there are {given.size} labels for {n} rows: pass one per row")
        return given
    if labels is None and columns.labels is not None:
        notes.append("labels are the array y")
        return np.array([_word(cell) for cell in columns.labels])
    name = _position(labels, data) if labels is not None else _guessed(data)
    if name is None:
        return None
    if len(data) == 1:
        raise InputError(f"the only column, {name}, holds the labels: there is nothing to draw")
    if labels is None:
        notes.append(f"column {name} is taken as the labels")
    return np.array([_word(cell) for cell in data.pop(name)])


def _position(label: str, data: dict[str, NDArray[Any]]) -> str:
    if label in data:
        return label
    if label.lstrip("-").isdecimal() and -len(data) <= int(label) < len(data):
        return list(data)[int(label)]
    raise InputError(f"there is no column {label!r}; there are {one_line(', '.join(data), 200)}")


def _guessed(data: dict[str, NDArray[Any]]) -> str | None:
    """A column named like labels, or else the last one of a few words."""
    for name in data:
        if name.lower() in _LABEL_NAMES and len(data) > 1:
            few = len({_word(cell) for cell in data[name]})
            if 2 <= few <= _LABEL_VALUES and (name.lower() != "y" or _is_text(data[name])):
                return name
    for name in reversed(data):
        words = {_word(cell) for cell in data[name]}
        if _is_text(data[name]) and 2 <= len(words) <= min(_LABEL_VALUES, len(data[name]) // 2):
            return name if len(data) > 1 else None
    return None


def _is_text(cells: NDArray[Any]) -> bool:
    known = [cell for cell in cells.tolist() if not _is_missing(cell)]
    numbers = sum(not np.isnan(number_of(cell)) for cell in known)
    return bool(known) and numbers < len(known) / 2 and _days(known) is None


def _word(cell: Any) -> str:
    return "(missing)" if _is_missing(cell) else one_line(cell, 60)


def _is_missing(cell: Any) -> bool:
    return cell is None or cell != cell or str(cell).strip().lower() in _MISSING


def _column(name: str, cells: NDArray[Any], notes: list[str]) -> list[tuple[str, Array]]:
    """The numeric columns that one column becomes: one, several for categories, or none."""
    if cells.dtype.kind in "biuf":
        return _filled(name, cells.astype(np.float64), notes)
    known = [cell for cell in cells.tolist() if not _is_missing(cell)]
    values = np.array([np.nan if _is_missing(c) else number_of(c) for c in cells.tolist()])
    numbers = int(np.isfinite(values).sum())
    if known and numbers >= 0.5 * len(known):
        if numbers < len(known):
            notes.append(f"column {name}: {len(known) - numbers} cells are no numbers: missing")
        return _filled(name, values, notes)
    days = _days([None if _is_missing(cell) else cell for cell in cells.tolist()])
    if known and days is not None:
        notes.append(f"column {name} holds dates: counted in days")
        return _filled(name, days, notes)
    if not known:
        notes.append(f"column {name} is empty: left out")
        return []
    words = np.array([_word(cell) for cell in cells.tolist()])
    kinds = np.unique(words)
    if 2 <= kinds.size <= _CATEGORIES and kinds.size <= len(words) / 2:
        notes.append(f"column {name} holds {kinds.size} categories: a column of 0 and 1 for each")
        return [(f"{name} = {kind}", (words == kind).astype(np.float64)) for kind in kinds]
    what = "is constant" if kinds.size < 2 else f"holds text ({kinds.size} different cells)"
    notes.append(f"column {name} {what}: left out")
    return []


def _filled(name: str, values: Array, notes: list[str]) -> list[tuple[str, Array]]:
    """The column with the median in place of what is missing, unless it says nothing."""
    values = np.where(np.isfinite(values), values, np.nan)
    absent = np.isnan(values)
    if absent.mean() > _TOO_SPARSE:
        notes.append(f"column {name}: {100 * absent.mean():.0f} % of it are missing: left out")
        return []
    middle = float(np.median(values[~absent]))
    if np.ptp(values[~absent]) == 0:
        notes.append(f"column {name} is constant: left out")
        return []
    if absent.any():
        notes.append(f"column {name}: {int(absent.sum())} missing cells became its median")
    return [(name, np.where(absent, middle, values))]


def _days(cells: list[Any]) -> Array | None:
    """The cells as days, None if fewer than nine tenths of the known ones are dates."""
    out = np.full(len(cells), np.nan)
    known = 0
    for k, cell in enumerate(cells):
        if cell is None:
            continue
        known += 1
        found = _date(cell)
        if found is not None:
            out[k] = found
        elif known > 20 and np.isfinite(out).sum() < 0.5 * known:
            return None
    return out if known and np.isfinite(out).sum() >= 0.9 * known else None


def _date(cell: Any) -> float | None:
    if isinstance(cell, np.datetime64):
        return float(cell.astype("datetime64[s]").astype(np.int64)) / 86400
    if isinstance(cell, int | np.integer):
        return float(cell) / 86400e9 if abs(int(cell)) > 10**15 else None  # ns of a data frame
    if isinstance(cell, date):
        return cell.toordinal() + (cell.hour / 24 if isinstance(cell, datetime) else 0.0)
    word = str(cell).strip()
    if not word[:1].isdigit() or len(word) < 8:
        return None
    try:
        moment = datetime.fromisoformat(word)
        return moment.toordinal() + (moment.hour * 60 + moment.minute) / 1440
    except ValueError:
        pass
    for form in _DATES:
        try:
            return float(datetime.strptime(word, form).toordinal())
        except ValueError:
            continue
    return None


def _scaled(X: Array, mixed: bool, notes: list[str]) -> Array:
    """The columns, centred; in units of their deviations where their units differ."""
    scale = np.abs(X).max(axis=0)
    X = X / scale  # no overflow in what follows
    spread = X.std(axis=0)
    sizes = spread * scale
    if mixed or float(sizes.max()) > _UNEQUAL * float(sizes.min()):
        notes.append("the columns differ in units: each was divided by its standard deviation")
        return np.asarray((X - X.mean(axis=0)) / spread)
    return np.asarray((X - X.mean(axis=0)) * (scale / scale.max()))


__all__ = ["TablePoints", "points_of_table"]
