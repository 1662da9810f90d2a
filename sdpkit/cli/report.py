"""`sdpkit report`: a page, or tables in Markdown files, from the runs of a comparison."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sdpkit.cli.answers import check_places
from sdpkit.errors import InputError
from sdpkit.files import read_text, replace_text


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "report",
        help="a web page or Markdown tables from the runs of a comparison",
        description="Read the runs that `sdpkit compare` kept (its CSV or its file of runs) and "
        "write a web page, or fill the blocks '<!-- measured: NAME -->' of Markdown files.",
    )
    parser.add_argument("runs", type=Path, help="CSV or jsonl of `sdpkit compare`")
    parser.add_argument("--html", type=Path, help="write the page")
    parser.add_argument("--force", action="store_true", help="replace a page that exists")
    parser.add_argument("--markdown", type=Path, nargs="+", default=[], help="fill these files")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; 1 if a Markdown file is out of date"
    )


def run(chosen: argparse.Namespace) -> int:
    """Write what was asked for."""
    from sdpkit.comparison.report.markdown import fill
    from sdpkit.comparison.table import Comparison

    if chosen.html is None and not chosen.markdown:
        raise InputError("there is nothing to write: pass --html FILE or --markdown FILE …")
    check_places(chosen.force or chosen.check, chosen.html, read=chosen.runs)
    if not chosen.runs.exists():
        raise InputError(f"there is no file {chosen.runs}; `sdpkit compare --csv` writes one")
    read = Comparison.from_csv if chosen.runs.suffix == ".csv" else Comparison.load
    comparison = read(chosen.runs)
    stale = []
    for path in chosen.markdown:
        old = read_text(path, "a Markdown page")
        new = fill(old, comparison)
        if new != old:
            stale.append(str(path))
            if not chosen.check:
                replace_text(path, new)
    if chosen.check:
        print(f"out of date: {', '.join(stale)}" if stale else "up to date")
        return 1 if stale else 0
    if chosen.html is not None:
        comparison.report(chosen.html)
    for path in [*chosen.markdown, *([chosen.html] if chosen.html else [])]:
        print(f"wrote {path}")
    return 0
