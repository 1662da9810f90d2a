"""Writes the pages of the reference from the public names, so that none can be forgotten."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

import sdpkit

# The modules in the order in which a reader meets them; a public name belongs to its module.
ROOMS = {
    "problems": "Problems",
    "solving": "Solving",
    "solution": "Solutions",
    "certificate": "Certificates",
    "results": "Results",
    "program": "Programs",
    "interfaces": "Doors: cvxpy and scikit-learn",
    "comparison": "Comparing solvers",
    "graphs": "Graphs",
    "papers": "Experiments of the papers",
    "numerics": "Threads",
    "errors": "Errors",
}
MODULES = {
    "estimators": "Estimators for scikit-learn",
    "datasets": "Data sets",
    "graphs": "Building graphs",
    "quality": "Quality of an embedding",
    "extension": "New points",
    "suites": "Suites of instances",
    "plotting": "Plots",
    "plugins": "For authors of solvers",
    "testing": "Checks for authors",
}
INTRODUCTION = """\
Reference
=========

Every public name, with a short example each. A problem is built from data, ``sdpkit.solve`` returns
a solution, and ``problem.recover`` turns it into what you wanted.
"""


def names_by_room() -> dict[str, list[str]]:
    """Title of a section → its public names, ``sdpkit.X``."""
    out: dict[str, list[str]] = {title: [] for title in ROOMS.values()}
    for name, (module, _) in sdpkit._EXPORTS.items():
        if not inspect.ismodule(getattr(sdpkit, name)):
            room = module.split(".")[1]
            out.setdefault(ROOMS.get(room, room.capitalize()), []).append(f"sdpkit.{name}")
    return {title: names for title, names in out.items() if names}


def names_of(module: ModuleType) -> list[str]:
    """What a public module offers: its ``__all__``, or the public names that it defines."""
    if hasattr(module, "__all__"):
        return [n for n in module.__all__ if not inspect.ismodule(getattr(module, n))]
    own = vars(module).items()
    return [
        n
        for n, value in own
        if not n.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


def write(folder: Path) -> None:
    """The index of the reference, if it has changed (an old date spares Sphinx the work)."""
    folder.mkdir(exist_ok=True)
    parts = [INTRODUCTION]
    for title, names in names_by_room().items():
        parts.append(_section(title, names))
    shown = {id(getattr(sdpkit, name)) for name in sdpkit._EXPORTS}
    for name, title in MODULES.items():
        module = getattr(sdpkit, name)
        members = [n for n in names_of(module) if id(getattr(module, n)) not in shown]
        shown |= {id(getattr(module, n)) for n in members}
        if members:
            path = module.__name__
            parts.append(_section(title, [f"{path}.{n}" for n in members], f"Module ``{path}``."))
    text = "\n".join(parts)
    index = folder / "index.rst"
    if not index.exists() or index.read_text(encoding="utf-8") != text:
        index.write_text(text, encoding="utf-8")


def _section(title: str, names: list[str], lead: str = "") -> str:
    rows = "\n".join(f"   {name}" for name in names)
    listing = f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{rows}\n"
    return f"{title}\n{'-' * len(title)}\n\n{lead}\n\n{listing}"
