"""`sdpkit solvers`: which solvers are available, and why the others are not."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "solvers", help="list the solvers, and why some cannot be used here"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with capabilities")


def run(chosen: argparse.Namespace) -> int:
    """Print the table, or the same as JSON."""
    from sdpkit.solving.registry import solver_rows, solver_table

    print(json.dumps(solver_rows(), ensure_ascii=False) if chosen.json else solver_table())
    return 0
