"""`sdpkit solve FILE`: a file of data in, a certified embedding or metric out."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.program.form import Program
from sdpkit.program.gram import is_finite
from sdpkit.solution.solution import Solution, Status

# What `--problem` offers: name → (class of sdpkit, the word for its matrix or None for --as).
PROBLEMS = {
    "mvu": ("MVU", None),
    "mve": ("MVE", None),
    "variational": ("VariationalMVU", None),
    "lmnn": ("LMNN", None),
    "localization": ("Localization", "lengths"),
}
# `--as` → the parameter that takes the matrix.
MATRICES = {"points": "X", "distances": "distances", "kernel": "kernel", "graph": "graph"}
# How the command ends.
_CODES = {
    Status.OPTIMAL: 0,
    Status.STATIONARY: 0,
    Status.INFEASIBLE: 3,
    Status.UNBOUNDED: 3,
}


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "solve",
        help="data file → embedding or metric, with its certificate",
        description="Solve the problem of a data file: .csv, .tsv, .txt, .npy or .npz of numbers, "
        "a program saved as .npz, or an SDPA file .dat-s.",
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--problem", choices=sorted(PROBLEMS), default="mvu", help="(default mvu)")
    parser.add_argument(
        "--as",
        dest="meaning",
        choices=list(MATRICES),
        default="points",
        help="what the numbers are (default points, one per row)",
    )
    parser.add_argument("--key", help="name of the array in an .npz file (default X)")
    parser.add_argument("--labels", help="column of a table, array of an .npz, or a file of labels")
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
        help="any other parameter of the problem, e.g. --set angles=true",
    )
    parser.add_argument("--solver", default="auto", help="(default auto)")
    parser.add_argument("--tol", type=float, help="certified relative gap (default the problem's)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="file to keep the solver's state in; where several programs are solved, the first's",
    )
    parser.add_argument("--output", type=Path, help="where the answer goes, .csv or .npz")
    parser.add_argument("--picture", type=Path, help="draw the answer to this file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(chosen: argparse.Namespace) -> int:
    """Read, solve, print the certificate, write the answer."""
    import sdpkit

    problem = read_problem(chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)  # the code and the text say it
        solution = sdpkit.solve(
            problem,
            solver=chosen.solver,
            tol=chosen.tol,
            time_limit=chosen.time_limit,
            checkpoint=chosen.checkpoint,
        )
    answer = _answer(problem, solution, chosen.components)
    written = _write(answer, chosen.output or _default_output(chosen.file, answer))
    drawn = None if chosen.picture is None else _draw(answer, chosen.picture)
    if chosen.json:
        print(json.dumps(_as_data(problem, solution, written, drawn), ensure_ascii=False))
    else:
        print(f"{problem!r}\n{solution!r}\n\n{solution.certificate}")
        for what, path in (("answer", written), ("picture", drawn)):
            if path is not None:
                print(f"{what} written to {path}")
    return _CODES.get(solution.status, 1)


# -- reading --------------------------------------------------------------------------------


def read_problem(chosen: argparse.Namespace) -> Any:
    """The problem or program that the file and the options describe."""
    import sdpkit

    if not chosen.file.exists():
        raise InputError(f"there is no file {chosen.file}")
    if chosen.file.suffix == ".dat-s":
        return sdpkit.read_sdpa(chosen.file)
    if chosen.file.suffix == ".npz" and "header" in _arrays(chosen.file):
        return Program.load(chosen.file)
    numbers, labels = _read(chosen)
    name, word = PROBLEMS[chosen.problem]
    given: dict[str, Any] = {word or MATRICES[chosen.meaning]: numbers}
    if labels is not None:
        given["y"] = labels
    elif chosen.problem == "lmnn":
        raise InputError("lmnn needs --labels: a column, an array of the .npz, or a file")
    options = {"form": chosen.form, "n_neighbors": chosen.neighbors}
    if chosen.components is not None and chosen.problem in ("mve", "localization"):
        options["n_components"] = chosen.components
    given |= {key: value for key, value in options.items() if value is not None}
    given |= dict(_setting(text) for text in chosen.set)
    kind = getattr(sdpkit, name)
    known = {field.name for field in dataclasses.fields(kind) if field.init}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(
            f"{chosen.problem} has no parameter {', '.join(unknown)}; it has "
            f"{', '.join(sorted(known))}"
        )
    return kind(**given)


def _read(chosen: argparse.Namespace) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
    """The matrix of the file and the labels, if there are any."""
    path: Path = chosen.file
    labels = chosen.labels
    apart = labels is not None and Path(labels).is_file()
    found = _one_per_line(Path(labels)) if apart else None
    inside = None if apart else labels
    if path.suffix == ".npz":
        arrays = _arrays(path)
        numbers = _named(arrays, chosen.key, path)
        if inside is not None:
            found = _named(arrays, inside, path)
    elif path.suffix == ".npy":
        numbers = _loaded(path)
        if inside is not None:
            raise InputError(f"{path} holds one array: give the labels as a file of their own")
    else:
        numbers, column = _table(path, inside)
        found = column if inside is not None else found
    if np.iscomplexobj(numbers):
        raise InputError(f"{path} holds complex numbers; pass real ones")
    try:
        return np.asarray(numbers, dtype=np.float64), found
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} does not hold numbers only: {error}") from error


def _one_per_line(path: Path) -> NDArray[Any]:
    if path.suffix == ".npy":
        return np.asarray(_loaded(path)).ravel()
    return np.array([line.strip() for line in path.read_text().splitlines() if line.strip()])


def _loaded(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read as {path.suffix}: {error}") from error


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with _loaded(path) as file:
        return {name: file[name] for name in file.files}


def _named(arrays: dict[str, NDArray[Any]], key: str | None, path: Path) -> NDArray[Any]:
    if key is None:
        key = "X" if "X" in arrays or len(arrays) != 1 else next(iter(arrays))
    if key not in arrays:
        raise InputError(f"{path} has no array {key!r}; it has {', '.join(arrays)}: use --key")
    return arrays[key]


def _table(path: Path, label: str | None) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Rows of a text table, and its column of labels, by name or by number from 0 (−1 the last)."""
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path} is empty")
    mark = next((mark for mark in ("\t", ",", ";") if mark in lines[0]), None)
    rows = [[cell.strip() for cell in line.split(mark)] for line in lines]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise InputError(
                f"{path}: row {number} has {len(row)} columns, the first has {len(rows[0])}"
            )
    position = None if label is None else _position(label, rows[0], path)
    others = [k for k in range(len(rows[0])) if k != position]
    has_names = len(rows) > 1 and not any(_is_number(rows[0][k]) for k in others or [0])
    body = rows[1:] if has_names else rows
    cells = np.array(body)
    column = None if position is None else cells[:, position]
    try:
        return cells[:, others].astype(np.float64), column
    except ValueError as error:
        raise InputError(
            f"{path} holds text beside numbers ({error}): name the column of labels by --labels, "
            "or leave it out"
        ) from error


def _position(label: str, first: list[str], path: Path) -> int:
    width = len(first)
    is_number = label.lstrip("-").isdigit()
    if is_number and -width <= int(label) < width:
        return int(label) % width
    if label in first and not is_number:
        return first.index(label)
    raise InputError(
        f"{path} has no column {label!r}; it has {width}, named {', '.join(first[:8])}…, "
        "or give a number from 0"
    )


def _is_number(cell: str) -> bool:
    try:
        return not math.isnan(float(cell)) or cell.lower() == "nan"
    except ValueError:
        return False


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text}: write NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


# -- writing --------------------------------------------------------------------------------


def _answer(problem: Any, solution: Solution, n_components: int | None) -> Any:
    """Embedding, metric or positions; the solution itself where there is nothing to recover."""
    none = solution.status in (Status.INFEASIBLE, Status.UNBOUNDED)
    if none or not all(is_finite(matrix) for matrix in solution.matrices):
        return None
    if isinstance(problem, Program):
        return solution
    if n_components is not None and type(problem).__name__ in ("MVU", "VariationalMVU", "MVE"):
        return problem.recover(solution, n_components=n_components)
    return problem.recover(solution)


def _default_output(file: Path, answer: Any) -> Path:
    if hasattr(answer, "transform"):
        return file.with_name(f"{file.stem}.metric.npz")
    if isinstance(answer, Solution):
        return file.with_name(f"{file.stem}.solution.npz")
    return file.with_name(f"{file.stem}.embedding.csv")


def _write(answer: Any, path: Path) -> Path | None:
    """Write the answer: coordinates row by row, a metric's L, or the matrices of a program."""
    if answer is None:
        return None
    if path.suffix not in (".csv", ".npz"):
        raise InputError(f"--output {path}: the name must end in .csv or .npz")
    if isinstance(answer, Solution):
        return _write_solution(answer, path)
    if hasattr(answer, "transform") and path.suffix == ".npz":
        answer.save(path)
        return path
    if hasattr(answer, "transform"):
        if len(answer.components) > 1:
            raise InputError("several metrics do not fit into one table: write them to an .npz")
        matrix, head = answer.components[0], ""
    else:
        matrix = np.asarray(getattr(answer, "coordinates", answer))
        head = ",".join(f"y{k + 1}" for k in range(matrix.shape[1]))
    if path.suffix == ".csv":
        np.savetxt(path, matrix, delimiter=",", header=head, comments="", fmt="%.17g")
    else:
        spectrum = getattr(answer, "eigenvalues", None)
        more: dict[str, Any] = {} if spectrum is None else {"eigenvalues": np.asarray(spectrum)}
        np.savez(path, coordinates=matrix, **more)
    return path


def _write_solution(solution: Solution, path: Path) -> Path:
    if path.suffix != ".npz":
        raise InputError("the answer to a program is several arrays: write it to an .npz")
    arrays: dict[str, Any] = {f"matrix{k}": np.asarray(m) for k, m in enumerate(solution.matrices)}
    if solution.dual is not None:
        arrays["dual"] = solution.dual
    np.savez(path, x=solution.x, **arrays)
    return path


def _draw(answer: Any, path: Path) -> Path:
    from sdpkit.plotting import draw

    if answer is None or isinstance(answer, Solution):
        raise InputError("there is no embedding or metric to draw: leave --picture out")
    draw(answer, path)
    return path


def _as_data(problem: Any, solution: Solution, written: Path | None, drawn: Path | None) -> Any:
    from sdpkit.comparison.records import jsonable

    certificate = solution.certificate
    return jsonable(
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
            "primal_residual": float(certificate.primal_residual),
            "dual_residual": float(certificate.dual_residual),
            "iterations": solution.iterations,
            "seconds": dataclasses.asdict(solution.times),
            "notes": list(solution.notes),
            "output": None if written is None else str(written),
            "picture": None if drawn is None else str(drawn),
        }
    )
