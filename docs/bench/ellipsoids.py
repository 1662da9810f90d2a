"""The figures of covering ellipsoids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from sdpkit.comparison.measuring import quiet_solve, timed
from sdpkit.results.ellipsoid import cover
from sdpkit.typing import Array

Labels = NDArray[Any]

# The gaps in log det that each engine is asked for, until it meets one.
_ASKED = {"covering": (1e-11,), "clarabel": (1e-10, 1e-9, 1e-8), "titterington": (1e-7,)}


# -- ellipsoids -------------------------------------------------------------------------------


def ellipsoid() -> None:
    """Engines next to Clarabel in log volume, and a batch next to a loop over cvxpy."""
    print("largest difference in log volume from the engine `covering`, certified gaps in log det")
    print(f"{'points':<28}{'centre':<8}{'γ':>5}{'clarabel':>10}{'titterington':>14}   gaps")
    worst = {"clarabel": 0.0, "titterington": 0.0}
    for name, X, gamma in _instances():
        for center in (None, np.zeros(X.shape[1])):
            problem = sdpkit.CoveringEllipsoid(X, center=center, gamma=gamma)
            found, gaps = {}, {}
            for solver, tolerances in _ASKED.items():
                solution = _tightest(problem, solver, tolerances)
                found[solver] = problem.recover(solution).log_volume
                gaps[solver] = solution.certificate.relative_gap
            off = {k: abs(found[k] - found["covering"]) for k in worst}
            worst = {k: max(worst[k], off[k]) for k in worst}
            print(
                f"{name:<28}{'free' if center is None else 'given':<8}{gamma:>5g}"
                f"{off['clarabel']:>10.1e}{off['titterington']:>14.1e}   "
                + " ".join(f"{gap:.0e}" for gap in gaps.values()),
                flush=True,
            )
    print("largest:", ", ".join(f"{k} {v:.1e}" for k, v in worst.items()))
    _batch_speed()


def _tightest(problem: Any, solver: str, tolerances: tuple[float, ...]) -> sdpkit.Solution:
    """The solution at the first tolerance that is met. For γ > 0 the volume is as exact as the root
    of the gap only, so that the tightest that a solver can do is asked for."""
    for tol in tolerances:
        solution = quiet_solve(problem, solver, tol=tol)
        if solution.status == "optimal":
            break
    return solution


def _instances() -> Iterator[tuple[str, Array, float]]:
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((25, 2)) @ rng.standard_normal((2, 5))
    few = rng.standard_normal((5, 8))
    outlier = np.vstack([rng.standard_normal((30, 4)), 1e4 * np.eye(1, 4)])
    for gamma in (0.0, 0.1):
        yield "random, 30 in 10 dimensions", rng.standard_normal((30, 10)), gamma
        yield "random, 200 in 3 dimensions", rng.standard_normal((200, 3)), gamma
        yield "in a plane of 5 dimensions", flat, gamma
        yield "duplicates, 8 × 4", np.repeat(rng.standard_normal((8, 3)), 4, axis=0), gamma
        yield "one far outlier", outlier, gamma
    yield "5 points in 8 dimensions", few, 0.1
    yield "5 points in their span", few, 0.0


def _batch_speed(count: int = 1000, m: int = 30, d: int = 10, sample: int = 10) -> None:
    rng = np.random.default_rng(0)
    points, centers = rng.standard_normal((count, m, d)), 0.3 * rng.standard_normal((count, d))
    cover(points[:2], centers[:2])  # compiled
    batch = timed(lambda: cover(points, centers))
    many, seconds = batch.result, batch.seconds / count
    problems = [sdpkit.CoveringEllipsoid(points[k], center=centers[k]) for k in range(sample)]
    problems[0].to_cvxpy().solve(solver="CLARABEL")
    peer = timed(lambda: [problem.to_cvxpy().solve(solver="CLARABEL") for problem in problems])
    off = max(abs(value - many[k].log_det) for k, value in enumerate(peer.result))
    loop = peer.seconds / sample
    print(
        f"{count} queries, m = {m}, d = {d}: {1e3 * seconds:.3f} ms each, largest certified gap "
        f"{many.gaps.max():.1e}; cvxpy and Clarabel {1e3 * loop:.1f} ms each ({sample} of them), "
        f"log det off by {off:.0e}: {loop / seconds:.0f} times faster"
    )
