"""Where solvers are found: one table of ours, one entry-point group for everybody else's.

A solver is an object with the attributes of `Solver`. Ours are listed below as
"module:attribute"; a third party adds the same string under the entry-point group
`sdpkit.solvers` of its own package, or calls `register_solver` at run time.

The rule of `solver="auto"`, in this order:

1. for a family of comparisons: interior, if all can be written down (3000 at most), else factored;
   for a log det over a covering (rows q_j ≤ s_j t): covering; for a sum of square roots: ascent;
2. for a graph of more than 1500 nodes whose rows are its edges: barrier; but lowrank where no row
   is an equation (the optimum has a low rank then) and sparse factors fill in (more than a million
   multiplications), and where barrier does not fit in memory;
3. else interior, if it can express the program and fits in memory;
4. else clarabel, up to the size at which its dense cone block gets slow (Σ n² ≤ 2500);
5. else csdp, where it is installed;
6. else scs, else clarabel at any size that fits.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import asdict
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from sdpkit.errors import (
    InputError,
    NotEnoughMemoryError,
    SolverError,
    SolverUnavailableError,
    UnsuitableSolverError,
)
from sdpkit.program.form import Program
from sdpkit.program.shapes import SHAPES, beyond
from sdpkit.solution.solver import Capabilities, Solver

GROUP = "sdpkit.solvers"

# One line per solver.
_OURS = {
    "interior": "sdpkit.solvers.interior:INTERIOR",
    "factored": "sdpkit.solvers.factored:FACTORED",
    "projected": "sdpkit.solvers.factored:PROJECTED",
    "subgradient": "sdpkit.solvers.subgradient:SUBGRADIENT",
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
}
_CLARABEL_LIMIT = 2500
# Multiplications of a sparse factorisation beyond which low-rank factors are the cheaper ones.
FILLED = 1_000_000
# Comparisons of a family that are written down at once.
WRITTEN_ROWS = 3000
# Functions that find further solvers at run time.
_FAMILIES = ("sdpkit.solvers.cvxpy_backend:discover",)


_registered: dict[str, Solver] = {}


def register_solver(solver: Solver) -> None:
    """Make a solver known under its name for this process; it replaces one of the same name."""
    if not getattr(solver, "name", ""):
        raise InputError("a solver needs a non-empty attribute `name`")
    for member in ("capabilities", "unavailable", "memory", "solve"):
        if not hasattr(solver, member):
            raise InputError(f"solver {solver.name!r} lacks `{member}`; see registry.Solver")
    _registered[solver.name] = solver


def _locations() -> dict[str, str]:
    third_party = {point.name: point.value for point in entry_points(group=GROUP)}
    return {**third_party, **_OURS}


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


def known_solvers() -> list[str]:
    """Names of all solvers, installed or not."""
    return sorted({*_locations(), *_registered, *_discovered()})


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
    try:
        solver: Solver = load(location)
    except Exception as error:  # whatever another package does when it is imported
        raise SolverUnavailableError(
            f"solver {name!r} cannot be loaded from {location}: {type(error).__name__}: {error}"
        ) from error
    _registered[name] = solver
    return solver


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
        return get_solver(name).unavailable()
    except SolverUnavailableError as error:
        return str(error)


def available_solvers() -> list[str]:
    """Names of the solvers that can be used here.

    >>> {"clarabel", "scs"} <= set(available_solvers())
    True
    """
    return [name for name in known_solvers() if why_not(name) is None]


def solver_table() -> str:
    """All known solvers, whether they can be used, what they are and what they take, as text."""
    rows = solver_rows()
    width = max(len(row["name"]) for row in rows)
    lines = []
    for row in rows:
        state = "available" if row["available"] else row["why_not"]
        lines.append(f"{row['name']:<{width}}  {state}; {row['summary'] or 'not loaded'}")
        if row["capabilities"]:
            lines.append(f"{'':<{width}}  takes {', '.join(row['capabilities'])}")
    return "\n".join(lines)


def solver_rows() -> list[dict[str, Any]]:
    """All known solvers as data: name, whether it can be used and why not, what it takes.

    >>> [row["available"] for row in solver_rows() if row["name"] == "interior"]
    [True]
    """
    rows = []
    for name in known_solvers():
        reason = why_not(name)
        loaded = get_solver(name) if name in _registered or name in _discovered() else None
        can = asdict(loaded.capabilities if loaded is not None else Capabilities())
        summary, only = can.pop("summary"), can.pop("only")
        taken = [f"{only} only"] * bool(only) + [word for word, yes in can.items() if yes]
        row = {"name": name, "available": reason is None, "why_not": reason or ""}
        rows.append({**row, "capabilities": taken, "summary": summary})
    return rows


def refusal(solver: Solver, program: Program) -> SolverError | None:
    """Why `solver` must not be called for `program`, or None."""
    missing = solver.unavailable()
    if missing is not None:
        return SolverUnavailableError(f"solver {solver.name!r} is not available: {missing}")
    lacking = _cannot_express(solver, program)
    if lacking is not None:
        return UnsuitableSolverError(f"{solver.name} takes {lacking}; use {_general(program)}")
    needed, free = solver.memory(program), free_memory()
    if needed <= free:
        return None
    try:
        advice = f"use solver={choose(program)[0].name!r}"
    except SolverError:
        advice = "make the instance smaller"
    return NotEnoughMemoryError(
        f"{solver.name} would need about {needed / 2**30:.3g} GiB for this program, and "
        f"{free / 2**30:.3g} GiB are free: {advice}"
    )


def _obstacle(solver: Solver, program: Program) -> str | None:
    """In a few words why `solver` cannot take `program`, or None."""
    missing = solver.unavailable()
    if missing is not None:
        return missing
    lacking = _cannot_express(solver, program)
    if lacking is not None:
        return f"it takes {lacking}"
    too_large = solver.memory(program) > free_memory()
    return "too little memory" if too_large else None


def _cannot_express(solver: Solver, program: Program) -> str | None:
    """What in `program` keeps `solver` from taking it, in words, or None."""
    can = solver.capabilities
    if can.only == "families" and program.family is None:
        return "programs with a family of comparisons only"
    if _has_rank_limit(program) and not can.ranks:
        return "no limit on the rank"
    if program.quadratic_x.any() and not can.quadratic:
        return "no quadratic penalties"
    if program.norms and not can.norms:
        return "no norm penalties"
    if program.has_log_det and not can.log_det:
        return "no log det"
    lacking = beyond(can.only, program) if can.only in SHAPES else None
    return None if lacking is None else f"{SHAPES[can.only]} only, no {lacking}"


def _has_rank_limit(program: Program) -> bool:
    return any(block.max_rank is not None for block in program.blocks)


def _general(program: Program) -> str:
    """The solvers to name where a special one refuses."""
    if program.family is not None:
        return "factored"
    if program.has_log_det:
        return "clarabel or scs" if beyond("coverings", program) else "covering"
    return "clarabel or scs" if not program.is_linear else "interior"


def free_memory() -> float:
    """Bytes that can still be allocated, as far as the system tells; inf if it does not."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, AttributeError):
        return float("inf")


def _for_large_graphs(program: Program) -> list[str]:
    """Who is asked first where there is a large graph: by its rows and the fill of its factors."""
    large = [block for block in program.blocks if block.is_large_graph]
    if not large or beyond("graphs", program) is not None:
        return []
    filled = sum(block.pattern.pairs for block in large) > FILLED
    fitting = filled and bool((program.relations != 0).all())
    return ["lowrank", "barrier"] if fitting else ["barrier", "lowrank"]


def choose(program: Program) -> tuple[Solver, str]:
    """The solver for `program` by the rule above, and the reason in words."""
    small = sum(block.size**2 for block in program.blocks) <= _CLARABEL_LIMIT
    if program.family is not None:
        few = program.family.n_rows <= WRITTEN_ROWS and not _has_rank_limit(program)
        if few and get_solver("interior").memory(program) <= free_memory():
            return get_solver("interior"), "auto: few enough comparisons to write them down"
        return get_solver("factored"), "auto: a family of comparisons"
    if program.has_log_det and beyond("coverings", program) is None:
        return get_solver("covering"), "auto: a minimum volume covering"
    if beyond("roots", program) is None and get_solver("ascent").memory(program) <= free_memory():
        return get_solver("ascent"), "auto: a sum of square roots"
    order = [*_for_large_graphs(program), "interior", *["clarabel"] * small, "csdp", "scs"]
    order += ["clarabel"] * (not small)
    passed: list[str] = []
    for name in order:
        solver = get_solver(name)
        obstacle = _obstacle(solver, program)
        if obstacle is None:
            return solver, "; ".join(["auto", *passed])
        passed.append(f"not {name}: {obstacle}")
    raise UnsuitableSolverError(f"no available solver can take this program: {'; '.join(passed)}")
