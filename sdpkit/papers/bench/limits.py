"""How far every solver goes beyond a time limit, on an instance that would take it a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sdpkit
from sdpkit.comparison import builders
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.errors import InputError
from sdpkit.program.form import Program
from sdpkit.solving.choice import estimate, refusal
from sdpkit.solving.registry import available_solvers, get_solver

# Seconds of the limit, and those that an instance should take.
_LIMIT, _LONG = 5.0, 60.0
_TOL = 1e-9


def _graph(n: int) -> Any:
    return builders.roll(n, n_neighbors=4)


def _ball(n: int) -> Any:
    X = np.random.default_rng(0).standard_normal((50 * n, 20 + n // 50))
    return sdpkit.CoveringEllipsoid(X)


def _classes(n: int) -> Any:
    return builders.clouds(n, 20 + n // 50, 8)


def _pairs(n: int) -> Any:
    X = np.random.default_rng(0).standard_normal((min(n, 200), 20 + n // 20))
    return sdpkit.MMC(X, np.arange(len(X)) % 3)


# Kinds of instances, in the order in which a solver is asked for one that it takes.
KINDS: dict[str, Callable[[int], Any]] = {
    "MVU": _graph,
    "LMNN": _classes,
    "MMC": _pairs,
    "ellipsoid": _ball,
}
_SIZES = (40, 60, 90, 130, 200, 300, 450, 700, 1000, 1500, 2000, 3000)


def limits(time_limit: float | None = None, solvers: list[str] | None = None) -> None:
    """Print, for every available solver, the seconds beyond the limit."""
    limit = _LIMIT if time_limit is None else time_limit
    names = solvers or available_solvers()
    unknown = sorted(set(names) - set(available_solvers()))
    if unknown:
        raise InputError(f"{unknown[0]} is not available: choose from {available_solvers()}")
    print(
        f"{'solver':<20} {'instance':<15} {'forecast s':>10} {'limit s':>8} {'taken s':>8} "
        f"{'beyond s':>8}  status"
    )
    for name in names:
        for title, program, forecast in _instance(name):
            quiet_solve(program, name, tol=_TOL, time_limit=min(0.5, limit))  # compiles kernels
            started = time.perf_counter()
            solution = quiet_solve(program, name, tol=_TOL, time_limit=limit)
            taken = time.perf_counter() - started
            print(
                f"{name:<20} {title:<15} {forecast:>10.3g} {limit:>8.3g} {taken:>8.2f} "
                f"{max(taken - limit, 0.0):>8.2f}  {solution.status}",
                flush=True,
            )


def _instance(name: str) -> Iterator[tuple[str, Program, float]]:
    """The smallest instance that the solver expects to need a minute for, or else the largest that
    it takes."""
    solver, found = get_solver(name), None
    for kind, build in KINDS.items():
        for n in _SIZES:
            program = build(n).program()
            if refusal(solver, program) is not None:
                break
            forecast = estimate(solver, program, _TOL).seconds
            found = f"{kind}, {n}", program, forecast
            if forecast >= _LONG:
                break
        if found is not None:
            yield found
            return
