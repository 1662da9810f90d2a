"""Where solvers are found: one table of ours, one entry-point group for everybody else's.

A solver is an object with the attributes of `sdpkit.solution.solver.Solver`. Ours are listed below
as "module:attribute"; a third party adds the same string under the entry-point group
`sdpkit.solvers` of its own package, or calls `register_solver` at run time. The choice
among them is made in `sdpkit.solving.choice`.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast

from sdpkit.errors import InputError, SolverUnavailableError
from sdpkit.files import one_line
from sdpkit.solution.solver import Capabilities, Solver

GROUP = "sdpkit.solvers"

# One line per solver.
_OURS = {
    "interior": "sdpkit.solvers.interior:INTERIOR",
    "factored": "sdpkit.solvers.factored:FACTORED",
    "projected": "sdpkit.solvers.factored:PROJECTED",
    "subgradient": "sdpkit.solvers.subgradient:SUBGRADIENT",
    "subgradient-published": "sdpkit.solvers.algorithm_3:SUBGRADIENT_PUBLISHED",
    "barrier": "sdpkit.solvers.barrier:BARRIER",
    "lowrank": "sdpkit.solvers.lowrank:LOWRANK",
    "covering": "sdpkit.solvers.ellipsoid:COVERING",
    "titterington": "sdpkit.solvers.ellipsoid:TITTERINGTON",
    "ascent": "sdpkit.solvers.ascent:ASCENT",
    "projection": "sdpkit.solvers.projection:PROJECTION",
    "alternating": "sdpkit.solvers.rounds:ALTERNATING",
    "gradient-projection": "sdpkit.solvers.rounds:GRADIENT_PROJECTION",
    "dykstra": "sdpkit.solvers.rounds:DYKSTRA",
    "scs": "sdpkit.solvers.cvxpy_backend:SCS",
    "clarabel": "sdpkit.solvers.cvxpy_backend:CLARABEL",
    "cvxopt": "sdpkit.solvers.cvxpy_backend:CVXOPT",
    "sdpa-python": "sdpkit.solvers.cvxpy_backend:SDPA_PYTHON",
    "mosek": "sdpkit.solvers.cvxpy_backend:MOSEK",
    "copt": "sdpkit.solvers.cvxpy_backend:COPT",
    "csdp": "sdpkit.solvers.sdpa_program:CSDP",
    "sdpa": "sdpkit.solvers.sdpa_program:SDPA",
    "dsdp": "sdpkit.solvers.dsdp:DSDP",
}
# Functions that find further solvers at run time.
_FAMILIES = ("sdpkit.solvers.cvxpy_backend:discover",)
# What a solver cannot do without; `accepts` and `seconds` have defaults.
_NEEDED = ("unavailable", "memory", "solve")

_registered: dict[str, Solver] = {}


def register_solver(solver: Solver) -> None:
    """Make a solver known under its name for this process.

    It replaces a solver of the same name. Packages register theirs by an entry point
    `sdpkit.solvers` instead.

    Parameters
    ----------
    solver : Solver
        The solver object.

    Raises
    ------
    InputError
        If the object lacks a part of the interface.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from sdpkit.solvers.interior import INTERIOR
    >>> with registered(INTERIOR):                  # undoes what is registered in the block
    ...     register_solver(INTERIOR)
    ...     "interior" in available_solvers()
    True
    """
    wrong = defect(solver)
    if wrong is not None:
        raise InputError(f"register_solver takes a solver; {wrong}")
    _registered[solver.name] = solver


def defect(found: Any) -> str | None:
    """What keeps an object from being a solver, as a clause with advice, or None."""
    if isinstance(found, type):
        name = found.__name__
        return f"{name} is a class. Pass an object: {name}()"
    kind = type(found).__name__
    if not isinstance(getattr(found, "name", None), str) or not found.name:
        return f"this {kind} has no name. Give it an attribute `name`, a non-empty string"
    if not isinstance(getattr(found, "capabilities", None), Capabilities):
        return f"{found.name!r} has no attribute `capabilities`. See sdpkit.plugins.Capabilities"
    for method in _NEEDED:
        if not callable(getattr(found, method, None)):
            return f"{found.name!r} has no method `{method}`. See sdpkit.plugins.Solver"
    return None


@contextmanager
def registered(solver: Solver) -> Iterator[None]:
    """Make a solver known within a `with` block only.

    Parameters
    ----------
    solver : Solver
        The solver object.

    Yields
    ------
    None
        The solver is known until the block ends.

    Examples
    --------
    >>> from sdpkit.solvers.interior import INTERIOR
    >>> from types import SimpleNamespace
    >>> mine = SimpleNamespace(name="mine", capabilities=INTERIOR.capabilities,
    ...                        unavailable=INTERIOR.unavailable, memory=INTERIOR.memory,
    ...                        solve=INTERIOR.solve)
    >>> with registered(mine):
    ...     "mine" in available_solvers()
    True
    >>> "mine" in available_solvers()
    False
    """
    before = dict(_registered)
    register_solver(solver)
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before)


def _locations() -> dict[str, str]:
    return {**_third_party(tuple(sys.path)), **_OURS}


@cache
def _third_party(path: tuple[str, ...]) -> dict[str, str]:
    """Name → "module:attribute" of the entry points on a path; reading them takes milliseconds."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


def is_ours(solver: Solver) -> bool:
    """Whether a solver comes from this package."""
    return type(solver).__module__.startswith("sdpkit.solvers.")


def own_locations() -> list[str]:
    """Where our own solvers are, as "module:attribute"."""
    return list(_OURS.values())


def load(location: str) -> Any:
    """What "module:attribute" names."""
    module, _, attribute = location.partition(":")
    return getattr(importlib.import_module(module), attribute)


@cache
def _discovered() -> dict[str, Solver]:
    """Solvers that a family of ours finds installed beyond those listed."""
    found = [solver for family in _FAMILIES for solver in load(family)()]
    return {solver.name: solver for solver in found if solver.name not in _OURS}


def listed_solvers() -> list[str]:
    """Names of the solvers in our table, in entry points and registered; cvxpy is not asked."""
    return sorted({*_locations(), *_registered})


def known_solvers() -> list[str]:
    """Names of all solvers, installed or not."""
    return sorted({*listed_solvers(), *_discovered()})


def get_solver(name: str) -> Solver:
    """The solver of that name; an error names the known ones."""
    if name in _registered:
        return _registered[name]
    location = _locations().get(name)
    if location is None and name in _discovered():
        return _discovered()[name]
    if location is None:
        known = ", ".join(known_solvers())
        raise InputError(f"there is no solver {name!r}; known are {known}, and 'auto'")
    _registered[name] = _loaded(name, location)
    return _registered[name]


def _loaded(name: str, location: str) -> Solver:
    try:
        found = load(location)
    except Exception as error:  # whatever another package does when it is imported
        why = f"{type(error).__name__}: {error}"
        raise SolverUnavailableError(
            f"solver {name!r} cannot be loaded from {location}: {why}"
        ) from error
    wrong = defect(found)
    if wrong is None and found.name != name:
        wrong = f"its own name is {found.name!r}. Use the same name in the entry point"
    if wrong is not None:
        raise SolverUnavailableError(f"solver {name!r} cannot be used from {location}: {wrong}")
    return cast(Solver, found)


def known_here_only(name: str) -> bool:
    """Whether the solver was registered at run time, so that other processes do not find it."""
    location = _locations().get(name)
    if name not in _registered:
        return False
    if location is None:
        return name not in _discovered()
    return load(location) is not _registered[name]


def why_not(name: str) -> str | None:
    """Why the solver of that name cannot be used here, or None."""
    try:
        return unavailability(get_solver(name))
    except SolverUnavailableError as error:
        return str(error)


def unavailability(solver: Solver) -> str | None:
    """Why a solver cannot be used here, or None; it may be another package's and break."""
    try:
        return solver.unavailable()
    except Exception as error:
        return f"its method unavailable() raised {type(error).__name__}: {error}"


def available_solvers() -> list[str]:
    """Return the names of the solvers that can be used here.

    Returns
    -------
    list of str
        In the order of the registry: those of sdpkit, then those of other packages.

    Examples
    --------
    >>> {"clarabel", "scs"} <= set(available_solvers())
    True
    """
    return [name for name in known_solvers() if why_not(name) is None]


def solver_table() -> str:
    """Return a table of all known solvers: what they can do, and whether they can be used.

    Returns
    -------
    str
        Text of 80 columns.

    Examples
    --------
    >>> "interior" in solver_table()
    True
    """
    rows = solver_rows()
    width = max(len(row["name"]) for row in rows)
    lines = []
    for row in rows:
        state = "available" if row["available"] else f"unavailable: {one_line(row['why_not'])}"
        told = [f"{state}; {one_line(row['summary']) or 'not loaded'}"]
        told += [f"takes {', '.join(row['capabilities'])}"] if row["capabilities"] else []
        parts = [part for words in told for part in textwrap.wrap(words, 78 - width)]
        names = [row["name"], *[""] * (len(parts) - 1)]
        pairs = zip(names, parts, strict=True)
        lines += [f"{name:<{width}}  {part}" for name, part in pairs]
    return "\n".join(lines)


def solver_rows() -> list[dict[str, Any]]:
    """All known solvers as data: name, whether it can be used and why not, what it can do.

    >>> [row["available"] for row in solver_rows() if row["name"] == "interior"]
    [True]
    """
    rows = []
    for name in known_solvers():
        reason = why_not(name)
        loaded = get_solver(name) if name in _registered or name in _discovered() else None
        can = asdict(loaded.capabilities if loaded is not None else Capabilities())
        summary, _ = can.pop("summary"), can.pop("stops_itself")
        taken = [word for word, yes in can.items() if yes]
        row = {"name": name, "available": reason is None, "why_not": reason or ""}
        rows.append({**row, "capabilities": taken, "summary": summary})
    return rows
