"""`sdpkit solve FILE`: a file of data in, a certified answer out."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sdpkit.cli.answers import (
    attempt,
    check_kind,
    check_picture,
    check_places,
    draw_answer,
    write_answer,
)
from sdpkit.cli.tables import Table, from_standard_input, named, one_per_line, read_table, real
from sdpkit.errors import InputError, NotEnoughMemoryError, UnsuitableSolverError
from sdpkit.files import read_npz
from sdpkit.program.form import Program
from sdpkit.program.gram import is_finite
from sdpkit.solution.answer import Stop
from sdpkit.solution.solution import WITHOUT_OPTIMUM, Solution, Status


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How `--problem` makes a problem: its class, the parameter for the file's matrix (None: by
    `--as`), whether that takes all matrices of an .npz, and which of its parameters replace
    labels."""

    kind: str
    matrix: str | None = None
    several: bool = False
    needs_labels: bool = False
    instead: tuple[str, ...] = ()


PROBLEMS = {
    "mvu": Recipe("MVU"),
    "mve": Recipe("MVE"),
    "variational": Recipe("VariationalMVU"),
    "lmnn": Recipe("LMNN", needs_labels=True, instead=("triplets",)),
    "localization": Recipe("Localization", "lengths"),
    "mmc": Recipe("MMC", "X", needs_labels=True, instead=("similar", "dissimilar")),
    "pairs": Recipe("PairMargins", "X", needs_labels=True, instead=("similar", "dissimilar")),
    "ellipsoid": Recipe("CoveringEllipsoid", "X"),
    "out-of-sample": Recipe("OutOfSample", "neighbors"),
    "kernel-mixture": Recipe("KernelMixture", "kernels", several=True, needs_labels=True),
    "distance-mixture": Recipe("DistanceMixture", "views", several=True, needs_labels=True),
}
# `--as` → the parameter that takes the matrix.
MATRICES = {"points": "X", "distances": "distances", "kernel": "kernel", "graph": "graph"}
# Problems whose answers have as many coordinates as one likes.
_EMBEDDINGS = ("MVU", "VariationalMVU", "MVE")
# Words that people write for values that JSON spells otherwise.
_WORDS = {"True": True, "False": False, "None": None}
# How the command ends.
_CODES = {
    Status.OPTIMAL: 0,
    Status.STATIONARY: 0,
    Status.INFEASIBLE: 3,
    Status.UNBOUNDED: 3,
    Status.INFEASIBLE_OR_UNBOUNDED: 3,
    Status.INTERRUPTED: 130,
}


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "solve",
        help="compute an embedding or a metric from a data file, with its certificate",
        description="Solve the problem of a data file: .csv, .tsv, .txt, .npy or .npz of numbers, "
        "a program saved as .npz, or an SDPA file .dat-s. The certificate is printed; files are "
        "written only where --output and --picture name them.",
    )
    _add_data(parser)
    parser.add_argument(
        "--form", help="form of MVU and MVE: equality, inequality, slack, min_trace"
    )
    parser.add_argument("--neighbors", type=int, help="neighbours per point")
    parser.add_argument("--components", type=int, help="dimensions of the embedding")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other parameter of the problem, e.g. --set angles=true; "
        "NAME=@FILE reads an array, NAME=@FILE.npz:KEY one of several",
    )
    parser.add_argument(
        "--solver", default="auto", help="one of `sdpkit solvers` (default auto: the cheapest)"
    )
    parser.add_argument("--tol", type=float, help="certified relative gap (default the problem's)")
    parser.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="stop after this time, with the best point so far",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="keep the solver's state in this file and resume from it; where an answer takes "
        "several programs, that of the first",
    )
    parser.add_argument("--output", type=Path, help="write the answer to this .csv or .npz")
    parser.add_argument("--picture", type=Path, help="draw the answer to this file")
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("--verbose", action="store_true", help="show the solver's output on stderr")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_data(parser: argparse.ArgumentParser) -> None:
    """The file, the problem that it states, and what its numbers are."""
    parser.add_argument("file", type=Path, help="the data; - is standard input")
    parser.add_argument(
        "--format",
        choices=["csv", "npy", "npz", "dat-s"],
        help="format of standard input (default by its first bytes, else csv)",
    )
    parser.add_argument(
        "--problem",
        choices=sorted(PROBLEMS),
        default="mvu",
        metavar="NAME",
        help=f"one of {', '.join(PROBLEMS)} (default mvu)",
    )
    parser.add_argument(
        "--as",
        dest="meaning",
        choices=list(MATRICES),
        default="points",
        help="what the numbers are (default points, one per row)",
    )
    parser.add_argument("--key", help="name of the array in an .npz file (default X)")
    parser.add_argument("--labels", help="a column of the table, an array of the .npz, or a file")


def run(chosen: argparse.Namespace) -> int:
    """Check, read, solve, print the certificate, write what was asked for."""
    check_places(chosen.force, chosen.output, chosen.picture, read=chosen.file)
    check_picture(chosen.picture)
    with from_standard_input(chosen.file, chosen.format) as path:
        problem = read_problem(chosen, path)
    arrays_only = isinstance(problem, Program) or chosen.problem in ("ellipsoid",)
    check_kind(chosen.output, arrays_only)
    if chosen.picture is not None and arrays_only:
        raise InputError("there is no embedding or metric to draw: leave --picture out")
    solution = _solve(problem, chosen)
    answer = _answer(problem, solution, chosen.components)
    written = drawn = None
    if answer is not None:
        written = attempt("answer", chosen.output, lambda place: write_answer(answer, place))
        drawn = attempt("picture", chosen.picture, lambda place: draw_answer(answer, place))
    if chosen.json:
        print(json.dumps(_as_data(problem, solution, written, drawn), ensure_ascii=False))
    else:
        print(f"{problem!r}\n{solution!r}\n\n{solution.certificate}")
        for what, place in (("answer", written), ("picture", drawn)):
            if place is not None:
                print(f"{what} written to {place}")
    missed = [place for place in (chosen.output, chosen.picture) if place is not None]
    if answer is not None and len(missed) > (written is not None) + (drawn is not None):
        return 2
    return _code(solution)


def _code(solution: Solution) -> int:
    if solution.stop is Stop.FAILED and not math.isfinite(solution.objective):
        return 4
    return _CODES.get(solution.status, 1)


def _solve(problem: Any, chosen: argparse.Namespace) -> Solution:
    import sdpkit

    with warnings.catch_warnings(), _progress(chosen), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)  # the code and the text say it
        if chosen.verbose:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        try:
            return sdpkit.solve(
                problem,
                solver=chosen.solver,
                tol=chosen.tol,
                time_limit=chosen.time_limit,
                verbose=2 if chosen.verbose else 0,
                checkpoint=chosen.checkpoint,
            )
        except (UnsuitableSolverError, NotEnoughMemoryError) as error:
            if type(problem).__name__ not in ("MVU", "MVE"):
                raise
            words = "With too many points for every solver, use --problem variational."
            raise type(error)(f"{error} {words}") from error


@contextlib.contextmanager
def _progress(chosen: argparse.Namespace) -> Iterator[None]:
    """The seconds so far, on a terminal."""
    if chosen.verbose or not sys.stderr.isatty():
        yield
        return
    done, started = threading.Event(), time.monotonic()

    def tick() -> None:
        while not done.wait(1.0):
            seconds = time.monotonic() - started
            print(f"\rsolving, {seconds:.0f} s; Ctrl-C stops", end="", file=sys.stderr, flush=True)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    clock = threading.Thread(target=tick, daemon=True)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()


# -- the problem ----------------------------------------------------------------------------


def read_problem(chosen: argparse.Namespace, path: Path) -> Any:
    """The problem or program that the file and the options describe."""
    import sdpkit

    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    if path.suffix == ".dat-s":
        return sdpkit.read_sdpa(path)
    if path.suffix == ".npz" and "header" in read_npz(path):
        return Program.load(path)
    recipe = PROBLEMS[chosen.problem]
    table = read_table(path, chosen.labels)
    for note in table.notes:
        print(f"sdpkit: {path}: {note}", file=sys.stderr)
    given = _matrices(recipe, table, chosen, path)
    if table.labels is not None:
        given["y"] = table.labels
    options = {"form": chosen.form, "n_neighbors": chosen.neighbors}
    if chosen.components is not None and chosen.problem in ("mve", "localization"):
        options["n_components"] = chosen.components
    given |= {key: value for key, value in options.items() if value is not None}
    given |= dict(_setting(text) for text in chosen.set)
    if recipe.needs_labels and "y" not in given and not set(recipe.instead) & set(given):
        raise InputError(
            f"{chosen.problem} needs --labels: a column, an array of the .npz, or a file"
        )
    kind = getattr(sdpkit, recipe.kind)
    _check_parameters(chosen.problem, kind, set(given))
    return kind(**given)


def _matrices(
    recipe: Recipe, table: Table, chosen: argparse.Namespace, path: Path
) -> dict[str, Any]:
    if not recipe.several:
        return {recipe.matrix or MATRICES[chosen.meaning]: table.one(chosen.key, path)}
    found = [real(array, path) for array in table.arrays.values() if array.ndim == 2]
    if chosen.problem == "distance-mixture" and chosen.meaning == "kernel":
        return {"kernels": found}
    return {str(recipe.matrix): found}


def _check_parameters(problem: str, kind: Any, given: set[str]) -> None:
    fields = [field for field in dataclasses.fields(kind) if field.init]
    known = {field.name for field in fields}
    unknown = sorted(given - known)
    if unknown:
        raise InputError(
            f"{problem} has no parameter {', '.join(unknown)}; it has {', '.join(sorted(known))}"
        )
    missing = [
        field.name
        for field in fields
        if field.name not in given
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise InputError(f"{problem} needs {missing[0]}: pass --set {missing[0]}=VALUE or =@FILE")


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text}: write NAME=VALUE")
    if value.startswith("@"):
        return name, _array(value[1:])
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, _WORDS.get(value, value)


def _array(place: str) -> Any:
    """The array of FILE, or of FILE.npz:KEY; one column or one row is a vector."""
    file, _, key = place.partition(".npz:")
    path = Path(f"{file}.npz" if key else place)
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if key:
        return named(read_npz(path), key, path)
    if path.suffix in (".npz", ".npy"):
        found: Any = read_table(path, None).one(None, path)
    else:
        try:
            found = read_table(path, None).one(None, path)
        except InputError:
            return one_per_line(path)  # words, such as labels
    whole = found.astype(int) if found.size and (found == found.round()).all() else found
    return whole.ravel() if 1 in found.shape else whole


# -- the answer -----------------------------------------------------------------------------


def _answer(problem: Any, solution: Solution, n_components: int | None) -> Any:
    """Embedding, metric or positions; the solution itself where there is nothing to recover."""
    none = solution.status in WITHOUT_OPTIMUM
    if none or not all(is_finite(matrix) for matrix in solution.matrices):
        return None
    if isinstance(problem, Program):
        return solution
    if n_components is not None and type(problem).__name__ in _EMBEDDINGS:
        return problem.recover(solution, n_components=n_components)
    return problem.recover(solution)


def _as_data(problem: Any, solution: Solution, written: Path | None, drawn: Path | None) -> Any:
    from sdpkit.comparison.records import numbers_or_null

    certificate = solution.certificate
    return numbers_or_null(
        {
            "problem": repr(problem).strip("<>"),
            "status": str(solution.status),
            "message": solution.message,
            "solver": solution.solver,
            "reason": solution.reason,
            "native_status": solution.native_status,
            "objective": float(solution.objective),
            "bound": float(certificate.safe_bound),
            "gap": float(certificate.relative_gap),
            "gap_unit": float(certificate.unit),
            "primal_residual": float(certificate.primal_residual),
            "dual_residual": float(certificate.dual_residual),
            "iterations": solution.iterations,
            "seconds": dataclasses.asdict(solution.times),
            "notes": list(solution.notes),
            "output": None if written is None else str(written),
            "picture": None if drawn is None else str(drawn),
        }
    )
