"""Answers as files: coordinates and metrics as .csv or .npz, everything else as .npz."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sdpkit.errors import InputError
from sdpkit.files import replace_npz, replacing, require_writable
from sdpkit.results.ellipsoid import Ellipsoid
from sdpkit.solution.solution import Solution


def check_places(force: bool, *places: Path | None, read: Path | None = None) -> None:
    """Refuse, before the work, files that cannot be written or must not be replaced."""
    wanted = [place for place in places if place is not None]
    for place in wanted:
        require_writable(place, force)
        if read is not None and place.exists() and read.exists() and place.samefile(read):
            raise InputError(f"{place} is the file that is read: name another one")
    if len({place.absolute() for place in wanted}) < len(wanted):
        raise InputError("two outputs go to the same file: name different ones")


def check_kind(path: Path | None, arrays_only: bool) -> None:
    """Refuse a name from which the format cannot be told."""
    if path is None or (path.exists() and not path.is_file()):
        return
    if path.suffix not in (".csv", ".npz"):
        raise InputError(f"--output {path}: the name must end in .csv or .npz")
    if arrays_only and path.suffix != ".npz":
        raise InputError(f"--output {path}: this answer is several arrays; write it to an .npz")


def check_picture(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn."""
    if path is None:
        return
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise InputError("--picture needs matplotlib: install it, or leave it out") from error
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in known:
        raise InputError(f"--picture {path}: the name must end in .{', .'.join(known)}")


def attempt(what: str, path: Path | None, write: Callable[[Path], None]) -> Path | None:
    """Write; what goes wrong is said, and the answer that was found is not lost with it."""
    if path is None:
        return None
    try:
        write(path)
    except (OSError, InputError) as error:
        print(f"sdpkit: the {what} could not be written to {path}: {error}", file=sys.stderr)
        return None
    return path


def write_answer(answer: Any, path: Path) -> None:
    """Coordinates row by row, a metric, an ellipsoid, or the matrices of a program."""
    if isinstance(answer, Solution):
        replace_npz(path, _solution_arrays(answer), compressed=False)
    elif isinstance(answer, Ellipsoid):
        names = ("center", "shape", "radius", "axes", "weights", "log_det", "gap")
        replace_npz(path, {name: getattr(answer, name) for name in names}, compressed=False)
    elif hasattr(answer, "transform") and path.suffix != ".csv":
        answer.save(path)
    elif hasattr(answer, "transform"):
        if len(answer.components) > 1:
            raise InputError("several metrics do not fit into one table: write them to an .npz")
        _write_csv(path, answer.components[0], "")
    else:
        _write_coordinates(answer, path)


def _write_coordinates(answer: Any, path: Path) -> None:
    matrix = np.atleast_2d(np.asarray(getattr(answer, "coordinates", answer)))
    if path.suffix == ".npz":
        spectrum = getattr(answer, "eigenvalues", None)
        more = {} if spectrum is None else {"eigenvalues": np.asarray(spectrum)}
        replace_npz(path, {"coordinates": matrix, **more}, compressed=False)
    else:
        _write_csv(path, matrix, ",".join(f"y{k + 1}" for k in range(matrix.shape[1])))


def _write_csv(path: Path, matrix: Any, head: str) -> None:
    with replacing(path) as file:
        np.savetxt(file, matrix, delimiter=",", header=head, comments="", fmt="%.17g")


def _solution_arrays(solution: Solution) -> dict[str, Any]:
    arrays: dict[str, Any] = {f"matrix{k}": np.asarray(m) for k, m in enumerate(solution.matrices)}
    if solution.dual is not None:
        arrays["dual"] = solution.dual
    return {"x": solution.x, **arrays}


def draw_answer(answer: Any, path: Path, labels: Any = None) -> None:
    """A picture of an embedding, coloured by labels, or of a metric."""
    from sdpkit.plotting import draw

    drawable = hasattr(answer, "transform") or hasattr(answer, "coordinates")
    if not drawable and (not isinstance(answer, np.ndarray) or answer.ndim != 2):
        raise InputError("there is no embedding or metric to draw: leave --picture out")
    draw(answer, path, labels)
