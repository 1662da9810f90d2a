"""How far solves go beyond a time limit.

`limits` runs every solver on an instance that would take it a minute, `limits-whole` whole solves
whose time goes elsewhere: into compiling, choosing a solver, moving points onto constraints,
searching for rays, or the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import sdpkit
from bench.engines import each
from sdpkit.comparison import builders
from sdpkit.comparison.measuring import quiet_solve, timed_solve
from sdpkit.comparison.suites import find, suite
from sdpkit.errors import InputError
from sdpkit.solving.registry import available_solvers

# What `limits-whole` allows beyond the limit: a share of it, and seconds.
_ALLOWED = 0.1, 1.0
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


def _many_comparisons() -> Any:
    random = np.random.default_rng(0)
    return sdpkit.LMNN(random.standard_normal((50_000, 20)), random.integers(0, 5, 50_000))


def _many_constraints() -> Any:
    """2000 sparse squared lengths of a random matrix of 120 × 120."""
    random = np.random.default_rng(0)
    v = sp.random_array((2100, 120), density=4 / 120, rng=random, format="csr")
    v = sp.csr_array(v[np.diff(v.indptr) > 0][:2000])
    m = random.standard_normal((120, 120))
    return sdpkit.Program.of(sdpkit.Block.of(120, v), np.square(v @ m).sum(axis=1))


def _network() -> Any:
    graph = sdpkit.graphs.neighborhood_graph(
        np.random.default_rng(0).random((2000, 2)), radius=0.06
    )
    return sdpkit.Localization(graph, n_basis=60)


def _complete(n: int, dimension: int, contradiction: float = 0.0) -> Any:
    points = np.random.default_rng(0).standard_normal((n, dimension))
    lengths = np.linalg.norm(points[:, None] - points[None], axis=2)
    if contradiction:
        lengths[0, 1] = lengths[1, 0] = contradiction
    return sdpkit.MVU(graph=lengths)


def _variational() -> Any:
    roll = sdpkit.datasets.swiss_roll(20_000)
    return sdpkit.VariationalMVU(roll, n_neighbors=4, n_basis=50)


# Name → (problem, seconds of its limit).
_WHOLE: dict[str, tuple[Callable[[], Any], float]] = {
    "LMNN, 50,000 points": (_many_comparisons, 1.0),
    "LMNN, 50,000 points, longer": (_many_comparisons, 5.0),
    "2000 constraints": (_many_constraints, 1.0),
    "localisation, basis of 60": (_network, 2.0),
    "complete graph, 178 points": (partial(_complete, 178, 13), 5.0),
    "infeasible, 60 points": (partial(_complete, 60, 3, 50.0), 1.0),
    "infeasible, 60 points, longer": (partial(_complete, 60, 3, 50.0), 4.0),
    "variational, 20,000 points": (_variational, 30.0),
    "roll, 2000 points": (partial(_roll, 2000), 2.0),
}


def whole() -> None:
    """Print, for every case and for the infeasible twins of the suites, the seconds beyond the
    limit, and whether they are allowed: a tenth of the limit and one second."""
    twins = [instance.name for instance in suite("fast") if instance.expected != "optimal"]
    print(f"{'problem':<32} {'limit s':>8} {'taken s':>8} {'beyond s':>8}  status", flush=True)
    for line in each(_whole, [(name,) for name in (*_WHOLE, *twins)]):
        print(line, flush=True)


def _whole(name: str) -> str:
    build, limit = _WHOLE[name] if name in _WHOLE else (find(name).build, 1.0)
    quiet_solve(_roll(30), "auto", time_limit=1.0)  # libraries are loaded
    run = timed_solve(build(), "auto", time_limit=limit)
    beyond = max(run.seconds - limit, 0.0)
    share, seconds = _ALLOWED
    verdict = "" if beyond <= share * limit + seconds else "  TOO LONG"
    return (
        f"{name:<32} {limit:>8.3g} {run.seconds:>8.2f} {beyond:>8.2f}  {run.result.status}{verdict}"
    )
