"""A comparison on disk while it is being made: one line of JSON per run, never rewritten.

The first line says where and under which limits the runs are made, then follow the instances and
the runs. A line is written at once, with its end, and forced to the disk, so that whatever kills
the process leaves whole lines and at most one broken one at the end, which is cut off when the
file is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from sdpkit.comparison.records import Described, RunRecord, as_json, described_from, run_from
from sdpkit.errors import InputError
from sdpkit.files import reading

FORMAT = 1
# Runs made elsewhere, or with other versions, do not belong into one table.
_SAME = ("sdpkit", "python", "numpy", "scipy", "processor", "cores")


class Ledger:
    """The open file. Only one process may hold it."""

    def __init__(
        self,
        path: str | Path,
        environment: Mapping[str, str],
        settings: Mapping[str, Any],
        instances: Iterable[Described],
        fresh: bool = False,
    ) -> None:
        """`fresh` deletes the runs that the file holds, if nobody else has it open."""
        self.path = Path(path)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _lock(self._file, self.path)
            if fresh:
                os.ftruncate(self._file, 0)
            with reading(self.path, "a comparison"):
                records, whole = _records(self.path)
                found = _kept(self.path, records)
            os.ftruncate(self._file, whole)
            self._open(records, found, environment, settings, instances)
        except BaseException:
            os.close(self._file)
            raise

    def _open(
        self,
        records: list[dict[str, Any]],
        found: Kept,
        environment: Mapping[str, str],
        settings: Mapping[str, Any],
        instances: Iterable[Described],
    ) -> None:
        self.environment = found.environment or dict(environment)
        self.runs, self.instances = list(found.runs), list(found.instances)
        if records:
            _require_same(self.path, records[0], environment, settings)
        else:
            head = {"format": FORMAT, "environment": dict(environment), "settings": dict(settings)}
            self._write("comparison", head)
        known = {instance.name for instance in self.instances}
        for instance in instances:
            if instance.name not in known:
                self._write("instance", as_json(instance))
                self.instances.append(instance)

    def add(self, run: RunRecord) -> None:
        """Write a run; when this returns, it is on the disk."""
        self._write("run", as_json(run))
        self.runs.append(run)

    def _write(self, kind: str, record: Mapping[str, Any]) -> None:
        line = json.dumps({"record": kind, **record}, ensure_ascii=False) + "\n"
        rest = line.encode()
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


class Kept(NamedTuple):
    """What a file of runs holds."""

    runs: tuple[RunRecord, ...]
    environment: Mapping[str, str]
    instances: tuple[Described, ...]


def read(path: str | Path) -> Kept:
    """The runs in a file, finished or not, and what they are about."""
    if not Path(path).exists():
        raise InputError(f"{path} is missing: pass a file that `sdpkit compare` wrote")
    with reading(path, "a comparison"):
        records, _ = _records(Path(path))
        if not records:
            raise InputError(f"{path} is not a comparison: it holds no whole line")
        return _kept(Path(path), records)


def _records(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of the file, and how many bytes they take."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    records = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            record = json.loads(line)
            kind = record["record"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"{path} is not a comparison: line {number} is not a record; pass a file that "
                "`sdpkit compare` wrote"
            ) from error
        if (number == 1) != (kind == "comparison"):
            raise InputError(f"{path} is not a comparison: line {number} is {kind!r}")
        records.append(record)
    return records, whole


def _kept(path: Path, records: list[dict[str, Any]]) -> Kept:
    if not records:
        return Kept((), {}, ())
    if records[0].get("format") != FORMAT:
        raise InputError(
            f"{path} has format {records[0].get('format')}, this version reads {FORMAT}: "
            "run the comparison again"
        )
    environment, settings = (records[0].get(name) for name in ("environment", "settings"))
    if not _are_words(environment) or not isinstance(settings, dict):
        raise InputError(
            f"{path} is not a comparison: its first line does not hold the environment and the "
            "settings of the runs; pass a file that `sdpkit compare` wrote"
        )
    return Kept(
        tuple(run_from(record) for record in records if record["record"] == "run"),
        environment,
        tuple(described_from(record) for record in records if record["record"] == "instance"),
    )


def _are_words(environment: Any) -> TypeGuard[dict[str, str]]:
    """Whether it is a mapping of texts to texts."""
    values = environment.values() if isinstance(environment, dict) else [None]
    return all(isinstance(value, str) for value in values)


def _require_same(
    path: Path, head: dict[str, Any], environment: Mapping[str, str], settings: Mapping[str, Any]
) -> None:
    before = {k: head["environment"].get(k) for k in _SAME} | head["settings"]
    now = {k: environment.get(k) for k in _SAME} | json.loads(json.dumps(dict(settings)))
    other = [f"{k} {before.get(k)} there, {now[k]} here" for k in now if before.get(k) != now[k]]
    if other:
        raise InputError(
            f"{path} holds runs made under other conditions ({'; '.join(other)}), and times are "
            "not comparable across them: choose another path"
        )


def _lock(file: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InputError(f"{path} is in use by another comparison") from error
