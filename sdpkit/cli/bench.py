"""`sdpkit bench`: measure the figures that the docs quote."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sdpkit.cli.answers import check_places
from sdpkit.errors import InputError

# Tables of figures that the docs quote: name → (module, function, options it takes).
TABLES = {
    "auto": ("sdpkit.papers.bench.auto", "auto", ("runs", "measure", "fit", "jobs")),
    "cold": ("sdpkit.papers.bench.cold", "cold", ()),
    "interior": ("sdpkit.papers.bench.engines", "interior", ("sizes", "peers")),
    "barrier": (
        "sdpkit.papers.bench.engines",
        "barrier",
        ("sizes", "neighbors", "seeds", "tol", "time_limit"),
    ),
    "digits-graphs": ("sdpkit.papers.bench.digits", "graphs", ("data", "peers")),
    "projection": ("sdpkit.papers.bench.projection", "projection", ("sizes", "peers")),
    "noise-free": ("sdpkit.papers.bench.noise_free", "noise_free", ("sizes", "seeds")),
    "forms": ("sdpkit.papers.bench.engines", "forms", ()),
    "sdplib": ("sdpkit.papers.bench.engines", "sdplib", ("data",)),
    "mve": ("sdpkit.papers.bench.engines", "mve", ("data",)),
    "extension": ("sdpkit.papers.bench.embeddings", "extension", ("data",)),
    "variational": ("sdpkit.papers.bench.embeddings", "variational", ()),
    "localization": ("sdpkit.papers.bench.embeddings", "localization", ("data",)),
    "lmnn-small": ("sdpkit.papers.bench.lmnn", "small", ("data",)),
    "lmnn-subgradient": ("sdpkit.papers.bench.lmnn", "subgradients", ("data",)),
    "lmnn-digits": ("sdpkit.papers.bench.lmnn", "digits", ("data", "metric_learn")),
    "lmnn-letters": ("sdpkit.papers.bench.lmnn", "letters", ("data",)),
    "lmnn-mnist": ("sdpkit.papers.bench.lmnn", "mnist", ("data", "deskewed")),
    "impostors": ("sdpkit.papers.bench.lmnn", "impostors", ()),
    "ellipsoid": ("sdpkit.papers.bench.ellipsoids", "ellipsoid", ()),
    "mixtures": ("sdpkit.papers.bench.mixtures", "mixtures", ("data",)),
    "mmc": ("sdpkit.papers.bench.mixtures", "mmc", ("data", "picture")),
    "cvxpy": ("sdpkit.papers.bench.cvxpy_door", "cvxpy_door", ()),
    "limits": ("sdpkit.papers.bench.limits", "limits", ("time_limit", "solvers")),
    "classifier": ("sdpkit.papers.bench.estimators", "classifier", ("data", "repeats")),
    "grid": ("sdpkit.papers.bench.estimators", "grid", ("jobs",)),
    "metric-learn": ("sdpkit.papers.bench.estimators", "metric_learn", ("data", "metric_learn")),
    "threads": ("sdpkit.papers.bench.threads", "threads", ("repeats", "solvers")),
}
# Tables that need a folder of data.
_NEED_DATA = (
    "sdplib",
    "digits-graphs",
    "lmnn-small",
    "lmnn-subgradient",
    "lmnn-digits",
    "lmnn-letters",
    "lmnn-mnist",
    "classifier",
    "metric-learn",
)

# Tables of runs that know nothing of each other, and that joblib may make elsewhere.
_PARALLEL = ("auto", "grid", "limits", "sdplib")

# Every option, and what a table uses where the command says nothing.
_DEFAULTS: dict[str, Any] = {
    "data": None,
    "deskewed": False,
    "fit": False,
    "jobs": None,
    "measure": False,
    "metric_learn": None,
    "neighbors": [4],
    "peers": True,
    "picture": None,
    "repeats": 5,
    "runs": Path("docs/auto.csv"),
    "seeds": [0],
    "sizes": None,
    "solvers": None,
    "time_limit": None,
    "tol": 1e-3,
}


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "bench",
        help="measure the numbers that the docs quote",
        description="Measure one table of the documentation on this machine. Options that belong "
        "to some tables only name them in parentheses.",
    )
    names = ", ".join(sorted(TABLES))
    parser.add_argument("table", choices=sorted(TABLES), metavar="TABLE", help=f"one of {names}")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of points")
    parser.add_argument(
        "--neighbors", type=int, nargs="+", help="of each point (barrier; default 4)"
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", help="random seeds (barrier, noise-free; default 0)"
    )
    parser.add_argument("--tol", type=float, help="certified gap (barrier; default 1e-3)")
    parser.add_argument("--time-limit", type=float, help="seconds for a run (barrier, limits)")
    parser.add_argument("--no-peers", action="store_true", help="leave other solvers out")
    parser.add_argument("--data", type=Path, help="folder of instances or data sets")
    parser.add_argument("--metric-learn", type=Path, help="a Python that has metric-learn")
    parser.add_argument(
        "--deskewed", action="store_const", const=True, help="deskew MNIST's images first"
    )
    parser.add_argument("--picture", type=Path, help="draw to this file, if there is a picture")
    parser.add_argument("--force", action="store_true", help="replace a picture that exists")
    parser.add_argument("--repeats", type=int, help="runs of each (threads, classifier; default 5)")
    parser.add_argument("--jobs", type=int, help="processes (auto, grid; default 1)")
    parser.add_argument(
        "--parallel-config",
        type=Path,
        metavar="FILE",
        help=f"where runs are made ({', '.join(_PARALLEL)})",
    )
    parser.add_argument("--solvers", nargs="+", help="measure only these (threads, limits)")
    runs = "file of measured runs (auto)"
    parser.add_argument("--runs", type=Path, help=f"{runs}; default docs/auto.csv")
    parser.add_argument(
        "--measure", action="store_const", const=True, help="solve everything (auto)"
    )
    parser.add_argument(
        "--fit", action="store_const", const=True, help="fit prices to the runs (auto)"
    )


def run(chosen: argparse.Namespace) -> int:
    """Print one of the tables."""
    module, function, names = TABLES[chosen.table]
    options = {**vars(chosen), "peers": False if chosen.no_peers else None}
    given = {name for name in _DEFAULTS if options[name] is not None}
    unused = sorted(given - set(names))
    if unused:
        raise InputError(
            f"the table {chosen.table!r} does not use {_flags(unused)}; it uses "
            f"{_flags(names) or 'no option'}"
        )
    if chosen.table in _NEED_DATA and chosen.data is None:
        raise InputError(f"the table {chosen.table!r} needs its data: pass --data FOLDER")
    if chosen.parallel_config is not None and chosen.table not in _PARALLEL:
        raise InputError(
            f"the runs of the table {chosen.table!r} stay in one process: leave --parallel-config "
            f"out; it can be used with {', '.join(_PARALLEL)}"
        )
    check_places(chosen.force, chosen.picture)
    values = [_DEFAULTS[name] if options[name] is None else options[name] for name in names]
    from sdpkit.comparison.parallel import parallel

    with parallel(chosen.parallel_config):
        getattr(importlib.import_module(module), function)(*values)
    return 0


def _flags(names: Iterable[str]) -> str:
    """The options as they are typed."""
    typed = {"peers": "no-peers"}
    return ", ".join(f"--{typed.get(name, name).replace('_', '-')}" for name in names)
