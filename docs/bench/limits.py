"""How far every solver goes beyond a time limit, on an instance that would take it a minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sdpkit
from bench.engines import each
from sdpkit.comparison import builders
from sdpkit.comparison.measuring import quiet_solve, timed_solve
from sdpkit.errors import InputError
from sdpkit.solving.registry import available_solvers

# Seconds of the limit, and a tolerance that nobody reaches early.
_LIMIT, _TOL = 5.0, 1e-9


def _roll(n: int) -> Any:
    return builders.roll(n, n_neighbors=4)


def _classes(n: int) -> Any:
    return builders.clouds(n, 40, 8)


def _pairs(n: int) -> Any:
    X = np.random.default_rng(0).standard_normal((n, 60))
    return sdpkit.MMC(X, np.arange(n) % 3)


def _ball(n: int) -> Any:
    return sdpkit.CoveringEllipsoid(np.random.default_rng(0).standard_normal((n, 60)))


# Solver → an instance that takes it about a minute or more; others get a roll of 100 points.
_INSTANCES: dict[str, tuple[str, Callable[[int], Any], int]] = {
    "interior": ("MVU", _roll, 2000),
    "barrier": ("MVU", _roll, 5000),
    "lowrank": ("MVU", _roll, 1000),
    "projection": ("MVU", _roll, 500),
    "alternating": ("MVU", _roll, 200),
    "gradient-projection": ("MVU", _roll, 200),
    "dykstra": ("MVU", _roll, 200),
    "scs": ("MVU", _roll, 300),
    "csdp": ("MVU", _roll, 800),
    "sdpa": ("MVU", _roll, 700),
    "factored": ("LMNN", _classes, 10_000),
    "projected": ("LMNN", _classes, 3000),
    "subgradient": ("LMNN", _classes, 3000),
    "subgradient-published": ("LMNN", _classes, 3000),
    "ascent": ("MMC", _pairs, 200),
    "covering": ("ellipsoid", _ball, 150_000),
    "titterington": ("ellipsoid", _ball, 50_000),
}
_OTHERS = ("MVU", _roll, 100)


def limits(time_limit: float | None = None, solvers: list[str] | None = None) -> None:
    """Print, for every available solver, the seconds beyond the limit."""
    limit = _LIMIT if time_limit is None else time_limit
    names = solvers or available_solvers()
    unknown = sorted(set(names) - set(available_solvers()))
    if unknown:
        raise InputError(f"{unknown[0]} is not available: choose from {available_solvers()}")
    head = f"{'solver':<20} {'instance':<18} {'limit s':>8} {'taken s':>8} {'beyond s':>8}  status"
    print(head, flush=True)
    for line in each(_overshoot, [(name, limit) for name in names]):
        print(line, flush=True)


def _overshoot(name: str, limit: float) -> str:
    kind, build, n = _INSTANCES.get(name, _OTHERS)
    program = build(n).program()
    quiet_solve(program, name, tol=_TOL, time_limit=min(0.5, limit))  # compiles kernels
    run = timed_solve(program, name, tol=_TOL, time_limit=limit)
    beyond = max(run.seconds - limit, 0.0)
    return (
        f"{name:<20} {f'{kind}, {n} points':<18} {limit:>8.3g} {run.seconds:>8.2f} "
        f"{beyond:>8.2f}  {run.result.status}"
    )
