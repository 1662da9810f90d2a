"""A metric for every query (Abou-Moustafa and Ferrie 2008): figure 1 on every set at hand."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.interfaces.query_metric import QueryMetric
from sdpkit.papers.entries.metrics import euclidean
from sdpkit.papers.entry import Certified, Setting, listed
from sdpkit.papers.pictures import Bars
from sdpkit.papers.published import Items, Published
from sdpkit.papers.sets import Labels, small_set
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Indices

PAPER = Published.of("query")

BUNDLED = ("balance", "iris", "wdbc", "wine")
FURTHER = ("glass", "housevotes84", "ionosphere", "newthyroid", "tictactoe")
METRICS = ("Euclidean", "LMNN", "query metric", "query metric as printed")
NEIGHBORS = (1, 3, 5)
RHOS = (0.01, 0.03, 0.1, 0.3, 1.0)


def fold_errors(
    X: Array, y: Labels, train: Indices, test: Indices, folds: int
) -> tuple[Array, list[Solution]]:
    """(4, len(NEIGHBORS)) test points classified wrongly by each of METRICS, and the programs of
    LMNN; m and ρ are chosen by cross-validation inside the training part."""
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    Z = (X - mean) / np.where(deviation > 0, deviation, 1.0)
    points, labels, truth = Z[train], y[train], y[test]
    n, d = points.shape
    sizes = neighborhoods(n, d, folds)
    found: list[Solution] = []
    out = np.empty((len(METRICS), len(NEIGHBORS)))
    variants: tuple[Any, ...] = ("relative", "published")
    models = [QueryMetric(tau=0.3, gamma=0.1, variant=variant) for variant in variants]
    grids = [
        model.validated_errors(
            points, labels, n_local=sizes, rho=RHOS, n_neighbors=NEIGHBORS, cv=folds
        )
        for model in models
    ]
    few = int(np.unique(labels, return_counts=True)[1].min()) - 1
    for c, k in enumerate(NEIGHBORS):
        problem = sdpkit.LMNN(points, labels, n_neighbors=max(1, min(k, few)))
        found.append(quiet_solve(problem, time_limit=60))
        learned = replace(problem.recover(found[-1]), n_neighbors=k)
        predictions = [euclidean(points, labels, k).predict(Z[test]), learned.predict(Z[test])]
        for model, grid in zip(models, grids, strict=True):
            a, b = divmod(int(grid[:, :, c].argmin()), len(RHOS))
            model.set_params(n_neighbors=k, n_local=sizes[a], rho=RHOS[b]).fit(points, labels)
            predictions.append(model.predict(Z[test]))
        out[:, c] = [np.sum(one != truth) for one in predictions]
    return out, found


def neighborhoods(n: int, d: int, folds: int) -> list[int]:
    """The sizes m to choose from: d + 1 and more."""
    smallest = max(d + 1, 10)
    most = (n * (folds - 1)) // folds
    return sorted({min(m, most) for m in (smallest, 2 * smallest, 4 * smallest)})


def figure_1(setting: Setting) -> Items:
    from scipy.stats import wilcoxon
    from sklearn.model_selection import StratifiedKFold

    folds = setting.runs
    names = BUNDLED if setting.data is None else tuple(sorted(BUNDLED + FURTHER))
    bars: dict[str, Array] = {}
    everything: list[Solution] = []
    for name in names:
        X, y = small_set(name, setting.data)
        order = np.random.default_rng(0).permutation(len(X))[: setting.points]
        X, y = X[order], y[order]
        wrong, solutions = np.zeros((len(METRICS), len(NEIGHBORS))), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a class of glass has fewer members than folds
            shuffled = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y))
        for train, test in shuffled:
            errors, used = fold_errors(X, y, train, test, folds)
            wrong += errors
            solutions += used
        everything += solutions
        rates = 100 * wrong / len(X)
        bars[name] = rates.mean(axis=1)
        proof, ours = Certified.of_all(solutions), "; ".join(listed(row, 1) for row in rates)
        yield PAPER.claim("errors", ours, None, proof, name=name, metrics=", ".join(METRICS))
    table = np.array(list(bars.values()))
    proof = Certified.of_all(everything)
    published = ("significantly less", "no significant difference")
    for row, (name, words) in enumerate(zip(METRICS, published, strict=False)):
        difference = table[:, 2] - table[:, row]
        p = float(wilcoxon(table[:, 2], table[:, row]).pvalue) if difference.any() else 1.0
        holds = difference.mean() < 0 and p < 0.05 if name == "Euclidean" else p > 0.05
        ours = f"{difference.mean():+.2f} points, p = {p:.2f}"
        yield PAPER.claim("difference", ours, holds, proof, name=name, published=words)
    yield Bars("error, per cent, mean over k", bars, METRICS)


ENTRIES = PAPER.entries(globals())
