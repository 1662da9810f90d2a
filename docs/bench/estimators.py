"""The figures of the estimators for scikit-learn: what the estimators cost, grids, metric-learn.

Times of one process are the processor's, so that they do not depend on what else the machine does;
those of several processes are the clock's.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import sdpkit
from bench.lmnn import run_metric_learn
from sdpkit.comparison.measuring import labelled, median, timed, timed_solve
from sdpkit.comparison.parallel import runs_at_a_time
from sdpkit.errors import InputError
from sdpkit.estimators import LargeMarginNearestNeighbors, LMNNClassifier, WarmGridSearchCV
from sdpkit.papers.sets import split
from sdpkit.solution.solution import Solution

SETS = ("wine", "ionosphere", "vehicle", "digits", "letter")
WITH_METRIC_LEARN = ("iris", "wine", "vehicle", "digits")
GRID = {"n_neighbors": [1, 2, 3, 4, 5], "mu": [0.3, 0.4, 0.5, 0.6, 0.7]}


def classifier(folder: Path, repeats: int = 5) -> None:
    """`LMNNClassifier.fit` against the bare `solve` of the same problem, and its error."""
    print("| data | points | `solve`, s | `LMNNClassifier.fit`, s | ratio | test error, 3-NN |")
    print("|---|---|---|---|---|---|")
    for name in SETS:
        if not (folder / f"{name}.npz").exists():
            continue
        X, y, X_test, y_test = split(*labelled(folder, name), seed=0)
        bare, fits = [], []
        timed_solve(sdpkit.LMNN(X[:200], y[:200]))  # compiles and loads
        for _ in range(repeats if len(X) < 5000 else 2):
            bare.append(timed(partial(_solved, X, y)))
            fits.append(timed(partial(LMNNClassifier().fit, X, y)))
        theirs, ours = median(bare).cpu_seconds, median(fits).cpu_seconds
        error = 100 * (1 - fits[-1].result.score(X_test, y_test))
        print(
            f"| {name} | {X.shape[0]} × {X.shape[1]} | {theirs:.2f} | {ours:.2f} | "
            f"{ours / theirs:.2f} | {error:.2f} % |",
            flush=True,
        )


def _solved(X: Any, y: Any) -> Solution:
    return sdpkit.solve(sdpkit.LMNN(X, y))


def grid(jobs: int | None = None) -> None:
    """Digits, 5 × 5 parameters, three folds: `GridSearchCV` and one warm path per fold."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV

    X, y = load_digits(return_X_y=True)
    timed_solve(sdpkit.LMNN(X[:200], y[:200]))
    searches: dict[str, Any] = {}
    for search in (GridSearchCV, WarmGridSearchCV):
        model = search(LMNNClassifier(), GRID, cv=3, n_jobs=jobs, refit=False)
        run = timed(partial(model.fit, X, y))
        searches[search.__name__] = run
        print(
            f"{search.__name__}: {run.seconds:.1f} s ({run.cpu_seconds:.1f} s of the processor), "
            f"best {model.best_params_}, score {model.best_score_:.4f}",
            flush=True,
        )
    cold, warm = searches.values()
    ratio = (
        cold.cpu_seconds / warm.cpu_seconds
        if runs_at_a_time(jobs) == 1
        else cold.seconds / warm.seconds
    )
    scores = [run.result.cv_results_["mean_test_score"] for run in (cold, warm)]
    print(
        f"one warm path per fold is {ratio:.2f} times faster; mean scores "
        f"differ by {np.abs(scores[0] - scores[1]).max():.4f} at most"
    )


def metric_learn(folder: Path, python: Path | None) -> None:
    """LMNN of metric-learn 0.7 in its own environment against ours, in one run."""
    if python is None:
        raise InputError("pass --metric-learn with a Python that has metric-learn")
    print(
        "| data | points | metric-learn, s | its convex objective | sdpkit, s | objective | "
        "certified gap | times faster |\n|---|---|---|---|---|---|---|---|"
    )
    for name in WITH_METRIC_LEARN:
        X, y, *_ = split(*labelled(folder, name), seed=0)
        components, report = run_metric_learn(python, X, y)
        LargeMarginNearestNeighbors().fit(X, y)  # compiles and loads
        run = median([timed(partial(_fitted, X, y)) for _ in range(5)])
        model = run.result
        theirs, ours = model.problem_.objective(components), model.solution_.objective
        print(
            f"| {name} | {X.shape[0]} × {X.shape[1]} | {report['seconds']:.2f} | {theirs:.6g} | "
            f"{run.seconds:.2f} | {ours:.6g} | {model.certificate_.relative_gap:.0e} | "
            f"{report['seconds'] / run.seconds:.0f} |",
            flush=True,
        )


def _fitted(X: Any, y: Any) -> LargeMarginNearestNeighbors:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LargeMarginNearestNeighbors().fit(X, y)
