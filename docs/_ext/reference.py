"""Writes the pages of the reference from the public names, so that none can be forgotten."""

from __future__ import annotations

import importlib
import inspect
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import sdpkit

# Sections in the order in which a reader meets them; a public name belongs to that of its package.
SECTIONS = {
    "problems": "Problems",
    "solving": "Solving",
    "solution": "Solutions",
    "certificate": "Certificates",
    "results": "Results",
    "program": "Programs",
    "conic": "Models in cvxpy",
    "interfaces": "A classifier of queries",
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
# Base classes whose parameters and attributes the estimators share.
BASES = (
    "sdpkit.interfaces.fitting.CertifiedEstimator",
    "sdpkit.interfaces.embeddings.UnfoldingEstimator",
)
INTRODUCTION = """\
Reference
=========

Every public name, with a short example each. A problem is built from data, ``sdpkit.solve`` returns
a solution, and ``problem.recover`` turns it into what you wanted.
"""


def names_by_section() -> dict[str, list[str]]:
    """Title of a section → its public names, ``sdpkit.X``."""
    out: dict[str, list[str]] = {title: [] for title in SECTIONS.values()}
    for name, (module, _) in sdpkit._EXPORTS.items():
        if not inspect.ismodule(getattr(sdpkit, name)):
            section = module.split(".")[1]
            out.setdefault(SECTIONS.get(section, section.capitalize()), []).append(f"sdpkit.{name}")
    return {title: names for title, names in out.items() if names}


def names_of(module: ModuleType) -> list[str]:
    """Functions and classes of a public module: of its ``__all__``, or those that it defines."""
    listed = getattr(module, "__all__", None)
    return [
        n
        for n, value in vars(module).items()
        if (inspect.isroutine(value) or inspect.isclass(value))
        and (n in listed if listed is not None else _defines(module, n))
    ]


def _defines(module: ModuleType, name: str) -> bool:
    return not name.startswith("_") and getattr(module, name).__module__ == module.__name__


def names_of_modules() -> dict[str, list[str]]:
    """Module → its names that are not shown elsewhere, ``sdpkit.module.X``."""
    shown = {id(getattr(sdpkit, name)) for name in sdpkit._EXPORTS}
    out: dict[str, list[str]] = {}
    for name in MODULES:
        module = getattr(sdpkit, name)
        members = [n for n in names_of(module) if id(getattr(module, n)) not in shown]
        shown |= {id(getattr(module, n)) for n in members}
        out[name] = [f"{module.__name__}.{n}" for n in members]
    out["estimators"] += BASES
    return out


def public_names() -> dict[str, Any]:
    """Every name of the reference → the object."""
    own = [name for names in names_by_section().values() for name in names]
    out = {name: getattr(sdpkit, name.split(".")[1]) for name in own}
    for name in itertools.chain.from_iterable(names_of_modules().values()):
        module, _, attribute = name.rpartition(".")
        out[name] = getattr(importlib.import_module(module), attribute)
    return out


def write(folder: Path) -> None:
    """The index of the reference, if it has changed (an old date spares Sphinx the work)."""
    folder.mkdir(exist_ok=True)
    parts = [INTRODUCTION]
    for title, names in names_by_section().items():
        parts.append(_section(title, names))
    for name, members in names_of_modules().items():
        if members:
            path = getattr(sdpkit, name).__name__
            parts.append(_section(MODULES[name], members, f"Module ``{path}``."))
    text = "\n".join(parts)
    index = folder / "index.rst"
    if not index.exists() or index.read_text(encoding="utf-8") != text:
        index.write_text(text, encoding="utf-8")


def _section(title: str, names: list[str], lead: str = "") -> str:
    rows = "\n".join(f"   {name}" for name in names)
    listing = f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{rows}\n"
    return f"{title}\n{'-' * len(title)}\n\n{lead}\n\n{listing}"
