"""The command line: demo, solvers, solve, compare, report, reproduce, bench.

How a command ends:

    0    done; what was solved is certified
    1    solved, but not certified at the tolerance, or stopped at a limit
    2    the command, a file or a parameter cannot be used as it is
    3    proven to have no solution (infeasible or unbounded)
    4    a solver is not available, cannot take the program, or broke down
    130  interrupted
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from sdpkit import __version__
from sdpkit.cli import bench, compare, demo, report, reproduce, solve, solvers
from sdpkit.errors import SdpkitError, SolverError

COMMANDS = {
    "demo": demo,
    "solvers": solvers,
    "solve": solve,
    "compare": compare,
    "report": report,
    "reproduce": reproduce,
    "bench": bench,
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
    chosen = _parser().parse_args(arguments)
    try:
        return int(COMMANDS[chosen.command].run(chosen))
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except SolverError as error:
        code, words = 4, str(error)
    except (SdpkitError, OSError) as error:
        code, words = 2, str(error)
    except KeyboardInterrupt:
        code, words = 130, "interrupted"
    print(f"sdpkit: {words}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
