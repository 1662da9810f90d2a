"""`sdpkit look TABLE`: a table in, one page with its picture and what is wrong with it out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from sdpkit.cli.answers import check_places
from sdpkit.cli.tables import from_standard_input, one_per_line
from sdpkit.errors import InputError


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "look",
        help="unfold any table and write a page: the picture, its quality, what was chosen",
        description="Read a table (.csv, .tsv, .xlsx, .parquet, .npz, .npy), choose a graph and a "
        "form, unfold it, and write one HTML page: the picture, how far it can be believed, what "
        "was chosen and why, the certificate, and the Python that does the same.",
    )
    parser.add_argument("table", type=Path, help="the table; - is standard input")
    parser.add_argument(
        "--labels", help="a column by name or number from 0, or a file with one label per line"
    )
    parser.add_argument("--neighbors", type=int, help="neighbours per point (default: chosen)")
    parser.add_argument(
        "--form",
        default="auto",
        choices=["auto", "equality", "inequality", "slack"],
        help="whether lengths are kept or may shrink (default auto)",
    )
    parser.add_argument(
        "--connect",
        default="auto",
        choices=["auto", "components", "bridge", "error"],
        help="what to do with separate clusters (default auto: join them)",
    )
    parser.add_argument("--keep-short-cuts", action="store_true", help="remove no edges")
    parser.add_argument("--components", type=int, default=2, help="dimensions (default 2)")
    parser.add_argument(
        "--rows", type=int, default=600, help="rows to unfold at most (default 600)"
    )
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--tol", type=float, default=1e-3, help="certified gap (default 1e-3)")
    parser.add_argument("--output", type=Path, help="the page (default TABLE.html)")
    parser.add_argument("--force", action="store_true", help="replace a page that exists")


def run(chosen: argparse.Namespace) -> int:
    """Read, unfold, print the summary, write the page."""
    from sdpkit.looking.look import look

    standard = str(chosen.table) == "-"
    place = chosen.output or Path("table.html" if standard else f"{chosen.table.name}.html")
    check_places(chosen.force, place, read=chosen.table)
    labels: Any = chosen.labels
    if labels is not None and Path(labels).is_file():
        labels = one_per_line(Path(labels))
    if chosen.components < 1:
        raise InputError(f"--components {chosen.components}: pass at least 1")
    with from_standard_input(chosen.table, None) as path:
        seen = look(
            path,
            labels,
            n_neighbors=chosen.neighbors or "auto",
            form=chosen.form,
            connect=chosen.connect,
            prune="off" if chosen.keep_short_cuts else "auto",
            n_components=chosen.components,
            max_rows=chosen.rows,
            tol=chosen.tol,
            time_limit=chosen.time_limit,
            verbose=1 if sys.stderr.isatty() else 0,
        )
    print(seen)
    seen.write(place)
    print(f"page written to {place}")
    return 0 if seen.estimator.solution_.status == "optimal" else 1
