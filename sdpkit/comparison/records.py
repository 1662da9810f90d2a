"""The records of a comparison: a run, and the instance it was made on, with their JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sdpkit.errors import InputError

SHIFT_SECONDS = 1.0
"""Added before, and taken off after, the geometric mean of times."""
# Fields of a run that cannot be negative; seconds and bytes may be unknown.
_STARTS = ("cold", "warm")
_AMOUNTS = ("n", "n_rows", "time_limit", "compile", "setup", "solve", "certify", "total", "peak")


@dataclass(frozen=True)
class Described:
    """An instance in words, as a report needs it.

    `reference` is the optimal value (NaN if unknown), `how` says how it was obtained, and
    `expected` is the status that counts as success ("" for any that is certified).
    """

    name: str
    suite: str = ""
    kind: str = ""
    description: str = ""
    source: str = ""
    reference: float = float("nan")
    how: str = ""
    expected: str = ""


@dataclass(frozen=True)
class RunRecord:
    """One row: a solver on an instance at a tolerance, in a separate process.

    Attributes
    ----------
    kind: "mvu", "mve", "lmnn", …;  n: sizes of all blocks together;  n_rows: rows, or comparisons
    start: "cold" or "warm"
    outcome: the granted status, or "crashed", "killed", "out_of_memory", "timeout", "refused",
        "error", or "contradicted" where another solver's proven bound excludes the answer
    success: certified at `tol` to be what was expected
    claimed: the solver itself said that it succeeded
    reference_error: |objective − reference| relative to the reference, NaN without one
    iterations: −1 if unknown
    compile, setup, solve, certify: seconds;  total: seconds by the clock, all in all
    peak: bytes above what the process held before it began
    history: per iteration, may be empty
    sense: "max" or "min" of the program; "" where an answer takes several programs
    host: name and processor of a cluster's machine, "" for the machine that made the comparison
    coordinates: points (x, y) of the embedding, 500 at most, or None
    """

    suite: str
    instance: str
    kind: str
    n: int
    n_rows: int
    fingerprint: str
    solver: str
    solver_version: str
    tol: float
    repeat: int
    start: str
    outcome: str
    success: bool
    claimed: bool
    message: str = ""
    native_status: str = ""
    objective: float = float("nan")
    bound: float = float("nan")
    gap: float = float("nan")
    primal_residual: float = float("nan")
    dual_residual: float = float("nan")
    reference: float = float("nan")
    reference_error: float = float("nan")
    iterations: int = -1
    compile: float = float("nan")
    setup: float = float("nan")
    solve: float = float("nan")
    certify: float = float("nan")
    total: float = float("nan")
    peak: float = float("nan")
    time_limit: float = float("inf")
    sense: str = ""
    host: str = ""
    history: tuple[Mapping[str, float], ...] = ()
    coordinates: tuple[tuple[float, float], ...] | None = None

    @property
    def key(self) -> tuple[str, str, float, int, str]:
        """What identifies a run: no two runs of a comparison share it."""
        return self.instance, self.solver, self.tol, self.repeat, self.start

    @property
    def counted(self) -> float:
        """Seconds that count: the time limit if it did not succeed."""
        return self.total if self.success else max(self.time_limit, 0.0)


def as_json(record: Any) -> dict[str, Any]:
    """A row, an instance or a tier as JSON has it: NaN is null, infinity a word."""
    return {field.name: jsonable(getattr(record, field.name)) for field in fields(record)}


def jsonable(value: Any) -> Any:
    """`value` as JSON has it: NaN is null, infinity a word, tuples are lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    return [jsonable(entry) for entry in value] if isinstance(value, tuple | list) else value


def numbers_or_null(value: Any) -> Any:
    """`value` as JSON for readers elsewhere: numbers that JSON does not have are null.

    >>> numbers_or_null({"gap": float("inf"), "values": (1, float("nan"))})
    {'gap': None, 'values': [1, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): numbers_or_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [numbers_or_null(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else float(value)


def run_from(record: Mapping[str, Any]) -> RunRecord:
    """The row that `as_json` or a line of `to_csv` describes; what it lacks keeps its default."""
    values: dict[str, Any] = {}
    for field in fields(RunRecord):
        if field.name in record:
            values[field.name] = _parsed(str(field.type), record[field.name])
    try:
        run = RunRecord(**values)
    except TypeError as error:
        raise InputError(f"a row of a comparison is incomplete: {error}") from error
    if not 0 < run.tol < math.inf:
        raise InputError(f"a row of a comparison has tol {run.tol}: it must be a positive number")
    if run.start not in _STARTS:
        raise InputError(
            f"a row of a comparison has start {run.start!r}: it must be one of {_STARTS}"
        )
    for name in _AMOUNTS:
        amount = getattr(run, name)
        if amount < 0:
            raise InputError(f"a row of a comparison has {name} {amount}: it must be at least 0")
    return run


def described_from(record: Mapping[str, Any]) -> Described:
    """The instance that `as_json` describes."""
    known = {field.name: str(field.type) for field in fields(Described)}
    return Described(**{k: _parsed(known[k], v) for k, v in record.items() if k in known})


def _parsed(kind: str, value: Any) -> Any:
    if kind == "float":
        return math.nan if value in (None, "") else float(value)
    if kind == "int":
        return int(value)
    if kind == "bool":
        return value in (True, "True", "true", "1")
    if kind == "str":
        return str(value)
    if value is None:
        return None
    if value and isinstance(value[0], Mapping):
        return tuple({k: _parsed("float", v) for k, v in entry.items()} for entry in value)
    return tuple((float(x), float(y)) for x, y in value)
