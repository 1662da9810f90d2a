"""The figures of points without noise: the equality form where rigid parts take the interior away.

Rolls, sheets and clouds in space with five to eight neighbours are solved to the default
tolerance; larger clouds with four neighbours show what sparse factors make of a face.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import quiet_solve, timed
from sdpkit.typing import Array

_NEIGHBORS = (5, 6, 7, 8)
_CLOUDS = (1000, 2000, 5000)
_CLOUD_TOL = 1e-3
_LIMIT_SECONDS = 300.0


def _roll(n: int, r: np.random.Generator) -> Array:
    return sdpkit.datasets.swiss_roll(n, noise_dims=0, random_state=r)


def _s_curve(n: int, r: np.random.Generator) -> Array:
    t = 3 * np.pi * (r.random(n) - 0.5)
    return np.column_stack([np.sin(t), 2 * r.random(n), np.sign(t) * (np.cos(t) - 1)])


def _waves(n: int, r: np.random.Generator) -> Array:
    u = 4 * r.random((n, 2))
    return np.column_stack([u, np.sin(u[:, 0]) * np.cos(1.3 * u[:, 1])])


def _sphere(n: int, r: np.random.Generator) -> Array:
    x = r.standard_normal((n, 3))
    return np.asarray(x / np.linalg.norm(x, axis=1)[:, None])


def _cube(n: int, r: np.random.Generator) -> Array:
    return r.random((n, 3))


SHAPES: dict[str, Callable[[int, np.random.Generator], Array]] = {
    "roll": _roll,
    "s curve": _s_curve,
    "waves": _waves,
    "sphere": _sphere,
    "cube": _cube,
}


def noise_free(sizes: Iterable[int] | None = None, seeds: Iterable[int] = (0,)) -> None:
    """Shapes of `sizes` points (400), and without `sizes` also clouds of thousands."""
    reached = tried = 0
    shapes = itertools.product(SHAPES, seeds, sizes or (400,), _NEIGHBORS)
    for shape, seed, n, k in shapes:
        X = SHAPES[shape](n, np.random.default_rng(seed))
        reached += _print_run(f"{shape}, seed {seed}", X, k, None)
        tried += 1
    print(f"{reached} of {tried} certified to the default tolerance", flush=True)
    for n in () if sizes else _CLOUDS:
        _print_run("cube, seed 0", np.random.default_rng(0).random((n, 3)), 4, _CLOUD_TOL)


def _print_run(name: str, X: Array, k: int, tol: float | None) -> bool:
    """Solve one instance, print it, and say whether it was certified."""
    problem = sdpkit.MVU(X, n_neighbors=k, connect="bridge")
    run = timed(lambda: quiet_solve(problem, "auto", tol=tol, time_limit=_LIMIT_SECONDS))
    solution = run.result
    certificate, null = solution.certificate, solution.program.blocks[0].null.shape[1]
    print(
        f"{name}, n = {len(X)}, k = {k}: {solution.solver}, {null} null directions, "
        f"{solution.status}, gap {certificate.relative_gap:.1e}, residual "
        f"{certificate.primal_residual:.1e}, {run.cpu_seconds:.1f} s of CPU",
        flush=True,
    )
    return solution.status is sdpkit.Status.OPTIMAL
