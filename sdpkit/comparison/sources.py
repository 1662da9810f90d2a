"""Files whose problems take part in a comparison: models in Python, .cbf, .dat-s and .npz."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sdpkit.errors import InputError

SUFFIXES = (".py", ".cbf", ".dat-s", ".npz")


def problems_in(path: Path) -> dict[str, Any]:
    """The problems of a file by name: those that `models()` of a .py file returns, or the one that
    is stated."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if path.suffix == ".py":
        return _models(path)
    if path.suffix == ".cbf":
        from sdpkit.conic.cbf import read_cbf

        return {path.name: read_cbf(path)}
    if path.suffix == ".npz":
        from sdpkit.program.form import Program

        return {path.name: Program.load(path)}
    from sdpkit.program.sdpa import read_sdpa

    return {path.name: read_sdpa(path)}


def _models(path: Path) -> dict[str, Any]:
    """What `models()` of a Python file returns: a mapping from names to problems."""
    try:
        found = runpy.run_path(str(path), run_name=path.stem)
        models = found.get("models")
        if not callable(models):
            raise InputError(
                f"{path} defines no function models(): write one that returns a dict from names to "
                "cvxpy problems"
            )
        given = models()
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the file may raise
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
        where = f" in line {line or lines[-1]}" if line or lines else ""
        words = str(error).partition("\n")[0]
        raise InputError(f"{path} raised {type(error).__name__}{where}: {words}") from error
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f"models() of {path} returned {type(given).__name__}: it must return a dict from names "
            "to cvxpy problems, with at least one"
        )
    return {str(name): problem for name, problem in given.items()}
