"""`sdpkit reproduce`: a table or figure of the papers, next to the published numbers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sdpkit.inputs import integer


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "reproduce",
        help="a table or figure of the papers, next to the published numbers",
        description="Measure a table or figure of the papers again; every program is certified.",
    )
    parser.add_argument("name", nargs="?", help="which one; see --list")
    parser.add_argument("--list", action="store_true", help="name all, one line each")
    parser.add_argument("--data", type=Path, help="folder of data sets that are not bundled")
    parser.add_argument("--points", type=int, help="points of a set (default the paper's)")
    parser.add_argument("--runs", type=int, help="random splits (default the paper's)")
    parser.add_argument("--picture", type=Path, help="file to draw to, if it is a figure")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(chosen: argparse.Namespace) -> int:
    """Print the table; 1 if a program behind it could not be certified."""
    from sdpkit.papers.reproduce import PAPERS, Options, reproduce

    if chosen.list or chosen.name is None:
        width = max(map(len, PAPERS))
        for name, paper in PAPERS.items():
            print(f"{name:<{width}}  {paper.source}: {paper.title}")
        return 0
    for word in ("points", "runs"):
        if getattr(chosen, word) is not None:
            integer(getattr(chosen, word), f"--{word}")
    options = Options(chosen.data, chosen.points, chosen.runs, chosen.picture)
    found = reproduce(chosen.name, options)
    print(found.to_json() if chosen.json else found)
    return 0 if found.proven else 1
