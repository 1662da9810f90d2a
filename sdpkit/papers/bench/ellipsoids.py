"""The figures of covering ellipsoids and of the query metric.

`ellipsoid` needs no data. `query_metric` reads npz files with X and y from a folder; it is figure 1
of Abou-Moustafa and Ferrie, "Fast and Regularized Local Metric for Query-based Operations", on
those of its data sets that the folder has.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from sdpkit.comparison.measuring import labelled, quiet_solve, timed
from sdpkit.doors.query_metric import QueryMetric
from sdpkit.numerics.threads import set_threads, workers
from sdpkit.papers.bench.lmnn import euclidean
from sdpkit.results.ellipsoid import cover

Array = NDArray[np.float64]
Labels = NDArray[Any]

SETS = (
    "balance",
    "glass",
    "housevotes84",
    "ionosphere",
    "iris",
    "newthyroid",
    "tictactoe",
    "wdbc",
    "wine",
)
NEIGHBORS = (1, 3, 5)
RHOS = (0.01, 0.03, 0.1, 0.3, 1.0)
TAU, GAMMA = 0.3, 0.1
_FOLDS = 10
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


# -- query metric -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Fold:
    """One outer fold of one data set."""

    name: str
    X: Array
    y: Labels
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def query_metric(folder: Path) -> None:
    """Error rates of Euclidean, LMNN and query metric, and a paired test of the paper's claim."""
    from sklearn.model_selection import StratifiedKFold

    started = time.perf_counter()
    folds = []
    for name in SETS:
        X, y = labelled(folder, name)
        shuffled = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a class of glass has fewer members than folds
            folds += [_Fold(name, X, y, *parts) for parts in shuffled.split(X, y)]
    # Processes that share the cores do not want threads as well.
    with ProcessPoolExecutor(workers(), initializer=set_threads, initargs=(1,)) as pool:
        results, proven = zip(*pool.map(_errors, folds), strict=True)
    rows = {
        name: np.sum([r for f, r in zip(folds, results, strict=True) if f.name == name], axis=0)
        / sum(len(f.test) for f in folds if f.name == name)
        for name in SETS
    }
    print(f"error rates in per cent, {_FOLDS}-fold double cross-validation, features standardised")
    print(f"{'':<14}" + "".join(f"{f'k = {k}':^24}" for k in NEIGHBORS))
    print(f"{'data set':<14}" + f"{'Euclid':>8}{'LMNN':>8}{'query':>8}" * len(NEIGHBORS))
    for name, errors in rows.items():
        print(f"{name:<14}" + "".join(f"{100 * e:>8.2f}" for e in errors.T.ravel()))
    table = np.array(list(rows.values()))
    print(f"{'mean':<14}" + "".join(f"{100 * e:>8.2f}" for e in table.mean(axis=0).T.ravel()))
    _paired_tests(table)
    count = len(NEIGHBORS) * len(folds)
    print(f"{sum(proven)} of {count} LMNN problems certified to 1e-3")
    print(f"{time.perf_counter() - started:.0f} s")


def _errors(fold: _Fold) -> tuple[Array, int]:
    """(3, len(NEIGHBORS)) test points classified wrongly by Euclidean, LMNN and query metric, and
    how many LMNN problems were solved."""
    X, y = fold.X[fold.train], fold.y[fold.train]
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    X, test, truth = (
        (X - mean) / deviation,
        (fold.X[fold.test] - mean) / deviation,
        fold.y[fold.test],
    )
    out, proven = np.empty((3, len(NEIGHBORS))), 0
    sizes = _neighborhoods(*X.shape)
    model = QueryMetric(tau=TAU, gamma=GAMMA)
    chosen = model.validated_errors(X, y, n_local=sizes, rho=RHOS, n_neighbors=NEIGHBORS, cv=_FOLDS)
    for c, k in enumerate(NEIGHBORS):
        learned, status = _lmnn(X, y, k)
        proven += status == "optimal"
        a, b = divmod(int(chosen[:, :, c].argmin()), len(RHOS))
        model.set_params(n_neighbors=k, n_local=sizes[a], rho=RHOS[b]).fit(X, y)
        predictions = euclidean(learned).predict(test), learned.predict(test), model.predict(test)
        out[:, c] = [np.sum(found != truth) for found in predictions]
    return out, proven


def _lmnn(X: Array, y: Labels, k: int) -> tuple[sdpkit.Metric, str]:
    """LMNN with k target neighbours, fewer where a class is small, certified to 1e-3."""
    few = int(np.unique(y, return_counts=True)[1].min()) - 1
    problem = sdpkit.LMNN(X, y, n_neighbors=min(k, few))
    solution = quiet_solve(problem, time_limit=60)
    return replace(problem.recover(solution), n_neighbors=k), str(solution.status)


def _neighborhoods(n: int, d: int) -> list[int]:
    """The sizes m to choose from: d + 1 and more."""
    smallest = max(d + 1, 10)
    return sorted(
        {min(m, (n * (_FOLDS - 1)) // _FOLDS) for m in (smallest, 2 * smallest, 4 * smallest)}
    )


def _paired_tests(table: Array) -> None:
    """Wilcoxon's signed-rank test over the data sets, for each k and for the mean over k."""
    from scipy.stats import ttest_rel, wilcoxon

    columns = {f"k = {k}": table[:, :, c] for c, k in enumerate(NEIGHBORS)}
    columns["mean over k"] = table.mean(axis=2)
    print("query metric against the others over the data sets (two-sided p)")
    for words, errors in columns.items():
        parts = []
        for row, name in ((0, "Euclidean"), (1, "LMNN")):
            difference = errors[:, 2] - errors[:, row]
            p = wilcoxon(errors[:, 2], errors[:, row]).pvalue if difference.any() else 1.0
            t = ttest_rel(errors[:, 2], errors[:, row]).pvalue if difference.any() else 1.0
            parts.append(
                f"{name}: {100 * difference.mean():+.2f} points, better on "
                f"{int((difference < 0).sum())} of {len(difference)}, "
                f"Wilcoxon p = {p:.3f}, t p = {t:.3f}"
            )
        print(f"  {words:<12} " + "; ".join(parts))
