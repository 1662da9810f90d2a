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
import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sdpkit import __version__
from sdpkit.cli import compare, report, reproduce, solve
from sdpkit.errors import InputError, SdpkitError, SolverError


def demo(n: int, path: Path) -> int:
    """Unfold a Swiss roll: print program, certificate and quality, write a picture."""
    import sdpkit
    from sdpkit.plotting import plot_unfolding

    X, parameters = sdpkit.datasets.swiss_roll(n, return_parameters=True)
    problem = sdpkit.MVU(X, n_neighbors=5)
    print(f"{problem.program()}\n")
    solution = sdpkit.solve(problem)
    print(f"{solution!r}\n\n{solution.certificate}\n{solution.certificate.verify()}\n")
    embedding = problem.recover(solution, n_components=2)
    quality = sdpkit.quality.evaluate(X, embedding.coordinates)
    print(f"{embedding}\n{quality}")
    title = f"Swiss roll, n = {n}: {solution.status}, gap {solution.certificate.relative_gap:.1e}"
    plot_unfolding(X, embedding, path, color=parameters[:, 0], title=title)
    print(f"picture written to {path}")
    return 0 if solution.status == "optimal" else 1


def solvers(as_json: bool = False) -> int:
    """Print which solvers are available, why others are not, and what they are."""
    from sdpkit.solving.registry import solver_rows, solver_table

    print(json.dumps(solver_rows(), ensure_ascii=False) if as_json else solver_table())
    return 0


# Tables of figures that the docs quote: name → (module, function, options it takes).
TABLES = {
    "cold": ("sdpkit.papers.bench.cold", "cold", ()),
    "cvxpy": ("sdpkit.papers.bench.cvxpy_door", "cvxpy_door", ()),
    "interior": ("sdpkit.papers.bench.engines", "interior", ("sizes", "peers")),
    "barrier": (
        "sdpkit.papers.bench.engines",
        "barrier",
        ("sizes", "neighbors", "seeds", "tol", "time_limit"),
    ),
    "digits-graphs": ("sdpkit.papers.bench.digits", "graphs", ("data", "peers")),
    "projection": ("sdpkit.papers.bench.projection", "projection", ("sizes", "peers")),
    "forms": ("sdpkit.papers.bench.engines", "forms", ()),
    "sdplib": ("sdpkit.papers.bench.engines", "sdplib", ("data",)),
    "mve": ("sdpkit.papers.bench.engines", "mve", ("data",)),
    "extension": ("sdpkit.papers.bench.embeddings", "extension", ("data",)),
    "variational": ("sdpkit.papers.bench.embeddings", "variational", ()),
    "localization": ("sdpkit.papers.bench.embeddings", "localization", ("data",)),
    "lmnn-small": ("sdpkit.papers.bench.lmnn", "small", ("data",)),
    "lmnn-digits": ("sdpkit.papers.bench.lmnn", "digits", ("data", "metric_learn")),
    "lmnn-letters": ("sdpkit.papers.bench.lmnn", "letters", ("data",)),
    "lmnn-mnist": ("sdpkit.papers.bench.lmnn", "mnist", ("data", "deskewed")),
    "lmnn-circles": ("sdpkit.papers.bench.lmnn", "circles", ("picture",)),
    "lmnn-square": ("sdpkit.papers.bench.lmnn", "square", ()),
    "impostors": ("sdpkit.papers.bench.lmnn", "impostors", ()),
    "ellipsoid": ("sdpkit.papers.bench.ellipsoids", "ellipsoid", ()),
    "query-metric": ("sdpkit.papers.bench.ellipsoids", "query_metric", ("data",)),
    "mixtures": ("sdpkit.papers.bench.mixtures", "mixtures", ("data",)),
    "mmc": ("sdpkit.papers.bench.mixtures", "mmc", ("data", "picture")),
    "threads": ("sdpkit.papers.bench.threads", "threads", ("repeats", "solvers")),
}
# Tables that cannot do without a folder of data.
_NEED_DATA = (
    "sdplib",
    "digits-graphs",
    "lmnn-small",
    "lmnn-digits",
    "lmnn-letters",
    "lmnn-mnist",
    "query-metric",
)


def bench(table: str, options: dict[str, Any]) -> int:
    """Print one of the tables."""
    if table in _NEED_DATA and options["data"] is None:
        raise InputError(f"the table {table!r} needs --data FOLDER with its instances")
    module, function, names = TABLES[table]
    getattr(importlib.import_module(module), function)(*(options[name] for name in names))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sdpkit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sdpkit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    unfold = commands.add_parser("demo", help="unfold a Swiss roll and write a picture")
    unfold.add_argument("--points", type=int, default=500, help="how many (default 500)")
    unfold.add_argument("--picture", type=Path, default=Path("swiss_roll.png"))
    listed = commands.add_parser("solvers", help="list solvers and their availability")
    listed.add_argument("--json", action="store_true", help="print JSON, with capabilities")
    solve.add_parser(commands)
    compare.add_parser(commands)
    report.add_parser(commands)
    reproduce.add_parser(commands)
    figures = commands.add_parser("bench", help="measure the figures that the docs quote")
    figures.add_argument("table", choices=sorted(TABLES))
    figures.add_argument("--sizes", type=int, nargs="+", help="numbers of points")
    figures.add_argument("--neighbors", type=int, nargs="+", default=[4], help="(table barrier)")
    figures.add_argument("--seeds", type=int, nargs="+", default=[0], help="(table barrier)")
    figures.add_argument("--tol", type=float, default=1e-3, help="(table barrier)")
    figures.add_argument("--time-limit", type=float, help="seconds for each run (table barrier)")
    figures.add_argument("--repeats", type=int, default=5, help="runs of each (table threads)")
    figures.add_argument("--solvers", nargs="+", help="measure these alone (table threads)")
    figures.add_argument("--no-peers", action="store_true", help="leave other solvers out")
    figures.add_argument("--data", type=Path, help="folder of instances or data sets")
    figures.add_argument("--metric-learn", type=Path, help="a Python that has metric-learn")
    figures.add_argument("--deskewed", action="store_true", help="deskew MNIST's images first")
    figures.add_argument("--picture", type=Path, help="file to draw to, where there is a picture")
    return parser


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command == "bench":
        return bench(chosen.table, {**vars(chosen), "peers": not chosen.no_peers})
    if chosen.command == "solve":
        return solve.run(chosen)
    if chosen.command == "compare":
        return compare.run(chosen)
    if chosen.command == "report":
        return report.run(chosen)
    if chosen.command == "solvers":
        return solvers(chosen.json)
    if chosen.command == "reproduce":
        return reproduce.run(chosen)
    return demo(chosen.points, chosen.picture)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `sdpkit` command."""
    chosen = _parser().parse_args(arguments)
    try:
        return _run(chosen)
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
