"""Measure one table of the documentation: `make bench NAME=interior ARGS="--sizes 100"`.

The same without make, in the top folder of a checkout: `python docs/bench interior --sizes 100`.
`python docs/bench --help` lists the tables and their options.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder that it runs on the path; the modules are those of its package.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import bench
from sdpkit.cli.answers import check_places
from sdpkit.comparison.parallel import parallel
from sdpkit.errors import InputError, SdpkitError

# Tables of figures that the docs quote: name → (module, function, options it takes).
TABLES = {
    "auto": ("bench.auto", "auto", ("runs", "measure", "fit", "jobs")),
    "cold": ("bench.cold", "cold", ()),
    "interior": ("bench.engines", "interior", ("sizes", "peers")),
    "barrier": (
        "bench.engines",
        "barrier",
        ("sizes", "neighbors", "seeds", "tol", "time_limit"),
    ),
    "digits-graphs": ("bench.digits", "graphs", ("data", "peers")),
    "projection": ("bench.projection", "projection", ("sizes", "peers")),
    "noise-free": ("bench.noise_free", "noise_free", ("sizes", "seeds")),
    "forms": ("bench.engines", "forms", ()),
    "pepit": ("bench.pepit", "pepit", ("names",)),
    "sdplib": ("bench.sdplib", "sdplib", ("data", "solvers", "names", "time_limit")),
    "mve": ("bench.engines", "mve", ("data",)),
    "extension": ("bench.embeddings", "extension", ("data",)),
    "variational": ("bench.embeddings", "variational", ()),
    "localization": ("bench.embeddings", "localization", ("data",)),
    "lmnn-small": ("bench.lmnn", "small", ("data",)),
    "lmnn-subgradient": ("bench.lmnn", "subgradients", ("data",)),
    "lmnn-digits": ("bench.lmnn", "digits", ("data", "metric_learn")),
    "lmnn-letters": ("bench.lmnn", "letters", ("data",)),
    "lmnn-mnist": ("bench.lmnn", "mnist", ("data", "deskewed")),
    "lmnn-large": ("bench.large", "large", ("sizes", "tol")),
    "lines": ("bench.lines", "main", ()),
    "impostors": ("bench.lmnn", "impostors", ()),
    "ellipsoid": ("bench.ellipsoids", "ellipsoid", ()),
    "enclosures": ("bench.proofs", "enclosures", ("count",)),
    "mutations": ("bench.proofs", "mutations", ("count",)),
    "mixtures": ("bench.mixtures", "mixtures", ("data",)),
    "mmc": ("bench.mixtures", "mmc", ("data", "picture")),
    "cvxpy": ("bench.cvxpy_models", "cvxpy_models", ("peers", "only")),
    "cvxpy-suite": ("bench.cvxpy_suite", "cvxpy_suite", ("only",)),
    "judging": ("bench.judging", "judging", ("data", "only")),
    "limits": ("bench.limits", "limits", ("time_limit", "solvers")),
    "limits-whole": ("bench.limits", "whole", ()),
    "classifier": ("bench.estimators", "classifier", ("data", "repeats")),
    "grid": ("bench.estimators", "grid", ("jobs",)),
    "metric-learn": ("bench.estimators", "metric_learn", ("data", "metric_learn")),
    "theorems": ("bench.theorems", "theorems", ("data", "time_limit", "names")),
    "threads": ("bench.threads", "threads", ("repeats", "solvers")),
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
_PARALLEL = ("auto", "grid", "limits", "limits-whole")

# Every option, and what a table uses where the command says nothing.
_DEFAULTS: dict[str, Any] = {
    "count": None,
    "data": None,
    "deskewed": False,
    "fit": False,
    "jobs": None,
    "measure": False,
    "metric_learn": None,
    "names": None,
    "neighbors": [4],
    "only": None,
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python docs/bench",
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
    parser.add_argument(
        "--time-limit", type=float, help="seconds for a run (barrier, limits, sdplib, theorems)"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave other solvers out")
    parser.add_argument("--count", type=int, help="how many are made (enclosures, mutations)")
    parser.add_argument("--data", "--folder", type=Path, help="folder of instances or data sets")
    parser.add_argument("--names", nargs="+", help="only these (pepit: folders, sdplib, theorems)")
    parser.add_argument("--metric-learn", type=Path, help="a Python that has metric-learn")
    parser.add_argument(
        "--deskewed", action="store_const", const=True, help="deskew MNIST's images first"
    )
    parser.add_argument("--picture", type=Path, help="draw to this file, if there is a picture")
    parser.add_argument("--force", action="store_true", help="replace a picture that exists")
    parser.add_argument("--repeats", type=int, help="runs of each (threads, classifier; default 5)")
    parser.add_argument("--only", help="names that hold this (cvxpy, cvxpy-suite, judging)")
    parser.add_argument("--jobs", type=int, help="processes (auto, grid; default 1)")
    parser.add_argument(
        "--parallel-config",
        type=Path,
        metavar="FILE",
        help=f"where runs are made ({', '.join(_PARALLEL)})",
    )
    parser.add_argument("--solvers", nargs="+", help="measure only these (threads, limits, sdplib)")
    runs = "file of measured runs (auto)"
    parser.add_argument("--runs", type=Path, help=f"{runs}; default docs/auto.csv")
    parser.add_argument(
        "--measure", action="store_const", const=True, help="solve everything (auto)"
    )
    parser.add_argument(
        "--fit", action="store_const", const=True, help="fit estimates to the runs (auto)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one of the tables; the exit code is 2 if it cannot be measured like this."""
    try:
        return _run(_parser().parse_args(arguments))
    except (SdpkitError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


def _run(chosen: argparse.Namespace) -> int:
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
    _send_by_value()
    with parallel(chosen.parallel_config):
        return int(getattr(importlib.import_module(module), function)(*values) or 0)


def _send_by_value() -> None:
    """Let Dask send these functions with their code: the workers of a cluster have sdpkit alone."""
    try:
        import cloudpickle
    except ImportError:  # without Dask
        return
    cloudpickle.register_pickle_by_value(bench)


def _flags(names: Iterable[str]) -> str:
    """The options as they are typed."""
    typed = {"peers": "no-peers"}
    return ", ".join(f"--{typed.get(name, name).replace('_', '-')}" for name in names)


if __name__ == "__main__":
    sys.exit(main())
