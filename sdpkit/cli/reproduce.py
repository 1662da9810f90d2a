"""`sdpkit reproduce`: a table or figure of the papers, next to the published numbers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sdpkit.errors import InputError
from sdpkit.inputs import integer

# Options that belong to one of the two ways to call the command.
_ALONE = ("points", "runs", "picture", "json")
_ALL = ("full", "output", "jobs", "parallel_config", "fresh", "csv", "page")


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "reproduce",
        help="a table or figure of the papers, next to the published numbers",
        description="Measure a table or figure of the papers again; every program is certified. "
        "--all makes every one of them and keeps them in a folder; repeat the command to continue.",
    )
    parser.add_argument("name", nargs="?", help="one of --list")
    parser.add_argument("--list", action="store_true", help="name all entries, one line each")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, seconds each")
    parser.add_argument("--data", type=Path, help="folder of data sets that are not bundled")
    alone = parser.add_argument_group("one entry")
    alone.add_argument("--points", type=int, help="points of a set (default the paper's)")
    alone.add_argument("--runs", type=int, help="random splits (default the paper's)")
    alone.add_argument("--picture", type=Path, help="file to draw to (default NAME.png)")
    alone.add_argument("--json", action="store_true", help="print one JSON object")
    every = parser.add_argument_group("all entries")
    every.add_argument("--all", action="store_true", help="every entry, with --quick or --full")
    every.add_argument("--full", action="store_true", help="the papers' sizes: hours")
    every.add_argument("--output", type=Path, help="folder of JSON and pictures (default papers)")
    every.add_argument("--jobs", type=int, help="entries at a time (default one per core)")
    every.add_argument(
        "--parallel-config", type=Path, metavar="FILE", help="where entries are made"
    )
    every.add_argument("--fresh", action="store_true", help="make again what the folder has")
    every.add_argument("--csv", type=Path, help="write the table of all rows")
    every.add_argument("--page", type=Path, help="fill this Markdown page from --csv")


def run(chosen: argparse.Namespace) -> int:
    """Print the table; 1 if a program behind it could not be certified."""
    if chosen.all:
        return _run_all(chosen)
    _refuse(chosen, _ALL, "--all")
    from sdpkit.papers.registry import ENTRIES

    if chosen.list or chosen.name is None:
        width = max(map(len, ENTRIES))
        for name, entry in ENTRIES.items():
            data = f"  [--data: {', '.join(entry.needs)}]" if entry.needs else ""
            print(f"{name:<{width}}  {entry.source}: {entry.title}{data}")
        return 0
    from sdpkit.papers.entry import Options
    from sdpkit.papers.reproduce import pictured, reproduce

    picture = chosen.picture or pictured(chosen.name, Path())
    options = Options(chosen.data, chosen.points, chosen.runs, chosen.quick, picture)
    found = reproduce(chosen.name, options)
    print(found.to_json() if chosen.json else found)
    return 0 if found.proven else 1


def _run_all(chosen: argparse.Namespace) -> int:
    from sdpkit.comparison.parallel import parallel
    from sdpkit.numerics.threads import workers
    from sdpkit.papers.entry import Options
    from sdpkit.papers.page import filled, write_csv
    from sdpkit.papers.reproduce import reproduce_all

    _refuse(chosen, _ALONE, "one entry")
    if chosen.name is not None:
        raise InputError(f"--all makes every entry; leave {chosen.name!r} or --all out")
    if chosen.quick == chosen.full:
        raise InputError("--all needs one of --quick (minutes) and --full (the papers' sizes)")
    if chosen.page is not None and chosen.csv is None:
        raise InputError("--page is filled from --csv FILE; give both")
    jobs = None if chosen.jobs is None else integer(chosen.jobs, "--jobs")
    if jobs is None and chosen.parallel_config is None:
        jobs = workers()
    with parallel(chosen.parallel_config):
        found = reproduce_all(
            chosen.output or Path("papers"),
            Options(chosen.data, quick=chosen.quick),
            jobs=jobs,
            fresh=chosen.fresh,
        )
    if chosen.csv is not None:
        write_csv(chosen.csv, found)
    if chosen.page is not None:
        text = filled(chosen.page.read_text(encoding="utf-8"), chosen.csv)
        chosen.page.write_text(text, encoding="utf-8")
    judged = [row.agrees for one in found for row in one.rows if row.agrees is not None]
    proven = sum(one.proven for one in found)
    rows = f"{sum(judged)} of {len(judged)} rows agree"
    print(f"{len(found)} entries: {rows}, {proven} entries certified")
    return 0 if proven == len(found) else 1


def _refuse(chosen: argparse.Namespace, words: tuple[str, ...], where: str) -> None:
    given = [word for word in words if getattr(chosen, word) not in (None, False)]
    if given:
        flags = ", ".join(f"--{word.replace('_', '-')}" for word in given)
        raise InputError(f"{flags} can only be used with {where}")
