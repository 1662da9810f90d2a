"""`sdpkit compare`: suites by solvers, with progress on the way and tables at the end."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path
from typing import Any

from sdpkit.cli.answers import attempt, check_picture, check_places
from sdpkit.errors import InputError, SdpkitError
from sdpkit.files import one_line, require_writable
from sdpkit.numerics.threads import cores

# Runs at a time if nothing is said, at most one per core.
_AT_A_TIME = 2
# Outcomes whose message is printed.
_EXPLAINED = ("refused", "error", "crashed")


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "compare",
        help="let solvers compete on a suite of instances",
        description="Run solvers on a suite, each run in a separate process. Every run is saved "
        "as soon as it ends; repeat the command to continue where it was stopped.",
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="compare on these instead of a suite: a .py file that defines models(), which "
        "returns a dict of cvxpy problems; .cbf, .dat-s and .npz files",
    )
    parser.add_argument("--suite", default="minimal", help="one of --list (default minimal)")
    parser.add_argument(
        "--instances", nargs="+", help="only these: names of --list, or files .dat-s and .npz"
    )
    parser.add_argument("--list", action="store_true", help="show suites and instances, and stop")
    parser.add_argument(
        "--solvers",
        nargs="+",
        default=["all"],
        help="names, module:attribute, or all (the default; it leaves teaching methods out)",
    )
    parser.add_argument(
        "--tols",
        type=float,
        nargs="+",
        default=[1e-3, 1e-6],
        help="tolerances (default 1e-3 1e-6)",
    )
    parser.add_argument("--repeats", type=int, default=1, help="runs of each (default 1)")
    parser.add_argument(
        "--time-limit", type=float, metavar="SECONDS", help="for each run (default the suite's)"
    )
    parser.add_argument(
        "--memory-limit",
        type=float,
        metavar="GIB",
        help="for each run (default 80 %% of what is free)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        help="runs at a time (default 2 where there are two cores); 1 gives the steadiest times",
    )
    parser.add_argument(
        "--parallel-config",
        type=Path,
        metavar="FILE",
        help="where runs are made, such as a cluster",
    )
    _add_results(parser)


def _add_results(parser: Any) -> None:
    """The options about what is measured, kept and written."""
    parser.add_argument("--warm", action="store_true", help="also measure warm starts")
    parser.add_argument("--runs", type=Path, help="file of runs (default compare-SUITE.jsonl)")
    parser.add_argument("--fresh", action="store_true", help="delete the runs in that file first")
    parser.add_argument("--csv", type=Path, help="write the table of runs")
    parser.add_argument("--html", type=Path, help="write the report")
    parser.add_argument("--picture", type=Path, help="draw times, profiles and gaps")
    parser.add_argument("--force", action="store_true", help="replace tables, pages and pictures")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(chosen: argparse.Namespace) -> int:
    """Compare, write what was asked for, print the table."""
    from sdpkit.comparison import suites
    from sdpkit.comparison.competition import compare
    from sdpkit.comparison.parallel import parallel

    if chosen.list:
        print(_listing())
        return 0
    check_places(chosen.force, chosen.csv, chosen.html, chosen.picture, read=chosen.runs)
    if chosen.runs is not None:
        require_writable(chosen.runs)
    check_picture(chosen.picture)
    problems: Any = chosen.suite
    limit, unread = chosen.time_limit, 0
    if chosen.files:
        problems, unread = _of_files([*chosen.files, *map(Path, chosen.instances or [])])
    elif chosen.instances:
        problems = {Path(name).name: _instance(name) for name in chosen.instances}
        if len(problems) < len(chosen.instances):
            raise InputError("two instances have the same name: rename a file")
        tiers = [one.tier for one in problems.values() if isinstance(one, suites.Instance)]
        limit = limit or max((suites.TIERS[tier][0] for tier in tiers), default=None)
    named = chosen.files[0].stem if chosen.files else "instances" if chosen.instances else ""
    runs = chosen.runs or Path(f"compare-{named or chosen.suite}.jsonl")
    jobs = chosen.jobs
    if jobs is None and chosen.parallel_config is None:
        jobs = min(_AT_A_TIME, cores())
    with parallel(chosen.parallel_config):
        comparison = compare(
            problems,
            "all" if chosen.solvers == ["all"] else chosen.solvers,
            chosen.tols,
            repeats=chosen.repeats,
            time_limit=limit,
            memory_limit=None if chosen.memory_limit is None else chosen.memory_limit * 2**30,
            path=runs,
            fresh=chosen.fresh,
            n_jobs=jobs,
            warm=chosen.warm,
            progress=None if chosen.quiet else _say,
        )
    writers = (
        ("table of runs", chosen.csv, comparison.to_csv),
        ("picture", chosen.picture, comparison.plot),
        ("report", chosen.html, comparison.report),
    )
    lost = [what for what, place, write in writers if place != attempt(what, place, write)]
    print(comparison.to_json() if chosen.json else comparison.table())
    if not chosen.quiet:
        print(f"runs are kept in {runs}; --fresh runs them again", file=sys.stderr)
    if lost or unread:
        return 2
    return 4 if chosen.files and _not_installed(chosen.solvers) else 0


def _of_files(paths: list[Path]) -> tuple[dict[str, Any], int]:
    """The problems of the files, and how many files could not be used; each of these is said."""
    from sdpkit.comparison.sources import SUFFIXES, problems_in

    problems: dict[str, Any] = {}
    lost = []
    for path in paths:
        try:
            if path.suffix not in SUFFIXES:
                raise InputError(f"{path}: pass files that end in {', '.join(SUFFIXES)}")
            found = problems_in(path)
            twice = sorted(set(found) & set(problems))
            if twice:
                raise InputError(f"{path}: there is an instance {twice[0]!r} already; rename it")
            problems |= found
        except (SdpkitError, OSError) as error:
            lost.append(error)
            if len(paths) > 1:
                print(f"sdpkit: {one_line(error, 4000)}", file=sys.stderr)
    if not problems:
        raise lost[0] if len(lost) == 1 else InputError("no file could be read")
    return problems, len(lost)


def _not_installed(solvers: list[str]) -> bool:
    """Whether a solver was named that cvxpy knows and does not find."""
    from sdpkit.comparison.models import is_cvxpy_solver

    named = [name for name in solvers if is_cvxpy_solver(name)]
    if not named:
        return False
    import cvxpy

    return bool(set(named) - set(cvxpy.installed_solvers()))


def _instance(name: str) -> Any:
    """An instance of the suites, or a program in a file."""
    from sdpkit import Program, read_sdpa
    from sdpkit.comparison import suites

    path = Path(name)
    if path.suffix not in (".dat-s", ".npz"):
        return suites.find(name)
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return read_sdpa(path) if path.suffix == ".dat-s" else Program.load(path)


def _say(progress: Any) -> None:
    run = progress.run
    width = len(str(progress.total))
    words = (
        f"[{progress.done:>{width}}/{progress.total}] {run.instance} · {run.solver} · "
        f"{run.tol:.0e}{' · warm' if run.start == 'warm' else ''}: {run.outcome}"
        f"{'' if run.total != run.total else f', {run.total:.3g} s'}"
        f"{f' ({run.message})' if run.outcome in _EXPLAINED else ''}"
        f" — about {duration(progress.remaining)} left"
    )
    print(one_line(words), file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(7.2), duration(95), duration(5000)
    ('7 s', '1 min 35 s', '1 h 23 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _listing() -> str:
    from sdpkit.comparison.suites import INSTANCES, TIERS, names, suite

    lines = []
    for name in names():
        words = TIERS[name][1] if name in TIERS else "of one kind, not the large ones"
        lines.append(f"{name:<15}{len(suite(name)):>3} instances: {words}"[:80])
    lines.append("")
    for one in INSTANCES:
        value = one.expected if one.reference != one.reference else f"{one.reference:.10g}"
        lines.append(f"{one.name:<28}{one.tier:<9}{value:>17}")
        lines += textwrap.wrap(one.description, 76, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)
