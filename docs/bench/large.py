"""LMNN on many points: what it costs from a thousand to a million, with the memory beside the time.

The points are drawn, since no installable package carries a labelled set of this size: classes that
overlap and differ in size by a factor of forty, features of different scales, tails of a Student
distribution, and copies of points, some of them under another label.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import peak_bytes, timed, timed_solve
from sdpkit.typing import Array, Indices

# Degrees of freedom of the tails, the share of points that are copies, and how far apart the
# centres of classes are, in units of the spread of a class.
_TAILS, _COPIES, _APART = 5.0, 0.01, 1.7


def many_points(n: int, d: int = 30, classes: int = 10, seed: int = 0) -> tuple[Array, Indices]:
    """(n, d) points in single precision and (n,) labels.

    >>> X, y = many_points(1000)
    >>> X.shape, bool(np.bincount(y).max() > 10 * np.bincount(y).min())
    ((1000, 30), True)
    """
    rng = np.random.default_rng(seed)
    informative = d // 3
    centres = np.zeros((classes, d))
    centres[:, :informative] = _APART * rng.standard_normal((classes, informative))
    mixing = rng.standard_normal((d, d)) / np.sqrt(d) + np.eye(d)
    scales = np.geomspace(10.0, 0.1, d)
    sizes = np.geomspace(1.0, 0.025, classes)
    y = rng.choice(classes, n, p=sizes / sizes.sum())
    X = np.empty((n, d), dtype=np.float32)
    for start in range(0, n, 1 << 16):
        some = slice(start, min(n, start + (1 << 16)))
        count = some.stop - some.start
        tails = np.sqrt(_TAILS / rng.chisquare(_TAILS, count))[:, None]
        noise = rng.standard_normal((count, d)) * tails
        X[some] = (centres[y[some]] + noise) @ mixing * scales
    copies = rng.choice(n, int(_COPIES * n), replace=False)
    originals = rng.integers(0, n, copies.size)
    X[copies] = X[originals]
    kept = copies.size // 50  # copies under another label
    y[copies[kept:]] = y[originals[kept:]]
    return X, y


def large(sizes: list[int] | None = None, tol: float = 1e-3) -> None:
    """A row for each number of points, every one measured in a process of its own."""
    print(
        f"{'points':>9}{'targets':>9}{'solve':>9}{'certify':>9}{'wall':>9}{'peak':>10}{'gap':>9}"
        "   (CPU seconds; wall seconds of all; GiB)"
    )
    for n in sizes or (1000, 3000, 10_000, 30_000, 100_000):
        here = Path(__file__).resolve().parents[1]
        code = f"import sys; sys.path.insert(0, {str(here)!r}); "
        code += f"import bench.large as b; b.row({n}, {tol})"
        subprocess.run([sys.executable, "-c", code], check=True)


def row(n: int, tol: float) -> None:
    """The figures of n points."""
    X, y = many_points(n)
    began = time.perf_counter()
    built = timed(lambda: sdpkit.LMNN(X, y))
    run = timed_solve(built.result, "factored", tol=tol)
    wall, solution = time.perf_counter() - began, run.result
    share = solution.times.certify / max(solution.times.total, 1e-9)
    print(
        f"{n:>9}{built.cpu_seconds:>9.1f}{(1 - share) * run.cpu_seconds:>9.1f}"
        f"{share * run.cpu_seconds:>9.1f}{wall:>9.1f}{peak_bytes() / 2**30:>10.2f}"
        f"{solution.certificate.relative_gap:>9.1e}   {solution.status}",
        flush=True,
    )
