"""Metric and manifold learning as semidefinite programs, with proofs.

Start with `sdpkit demo`, or with a table:
`sdpkit look table.csv` writes a page with its picture.
`sdpkit COMMAND --help` explains a command. Exit codes:

    0    done; what was solved is certified
    1    solved, but not certified at the tolerance, or stopped at a limit
    2    the command, a file or a parameter cannot be used as it is, or an
         output cannot be written
    3    proven to have no optimal solution (infeasible, unbounded or
         infeasible_or_unbounded)
    4    a solver is not available, cannot take the program, or broke down
    130  interrupted
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any, cast

from sdpkit import __version__
from sdpkit.cli import compare, demo, grade, look, prove, report, reproduce, solve, solvers
from sdpkit.errors import SdpkitError, SolverError
from sdpkit.files import one_line

COMMANDS = {
    "demo": demo,
    "solvers": solvers,
    "look": look,
    "solve": solve,
    "prove": prove,
    "compare": compare,
    "report": report,
    "reproduce": reproduce,
    "grade": grade,
}


# Parameters that have an option of their own.
_OPTIONS = {
    "n_neighbors": "--neighbors",
    "n_components": "--components",
    "time_limit": "--time-limit",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sdpkit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sdpkit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS.values():
        command.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `sdpkit` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know the letters
    chosen = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = cast(Any, _say)
            code = int(COMMANDS[chosen.command].run(chosen))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except SolverError as error:
        code, words = 4, str(error)
    except (SdpkitError, OSError) as error:
        code, words = 2, str(error)
    except MemoryError as error:
        code, words = 4, f"there is not enough memory ({error}): make the instance smaller"
    except KeyboardInterrupt:
        code, words = 130, "interrupted"
    words = as_options(words, chosen.command)
    print(f"sdpkit: {one_line(words, 4000)}", file=sys.stderr)
    return code


def as_options(words: str, command: str) -> str:
    """Advice about parameters, in the words of a command.

    >>> as_options("raise n_neighbors, or pass connect='auto'", "solve")
    'raise --neighbors, or pass --set connect=auto'
    >>> as_options("Use solver='interior' or 'barrier'.", "solve")
    "Use --solver interior or 'barrier'."
    """
    if command not in ("solve", "look"):
        return words
    own = {*_OPTIONS, "form", "tol", "connect" if command == "look" else "solver"}

    def named(found: re.Match[str]) -> str:
        name, value = found[1], found[3]
        option = _OPTIONS.get(name, f"--{name}")
        return f"{option} {value}" if name in own else f"--set {name}={value}"

    words = re.sub(r"\b([a-z]\w+)=(['\"]?)([\w.]+)\2(?!\w)", named, words)
    return re.sub(rf"(?<![\w'-])({'|'.join(_OPTIONS)})\b(?!')", lambda m: _OPTIONS[m[1]], words)


def _say(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"sdpkit: {one_line(message, 4000)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
