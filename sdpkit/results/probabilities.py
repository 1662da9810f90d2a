"""Probabilities of labels from the scores of a metric's two rules.

p(c | x) ∝ exp(score_c(x) / T). The score is the negative energy per training point, or the share of
the neighbours' votes. T has the largest likelihood of points that the metric has not seen.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from sdpkit.results.metric import Metric, Rule
from sdpkit.typing import Array, Indices

# How much wider or narrower than the scores T may be: factors e^±7.
_RANGE = 7.0


def scores(metric: Metric, X: Array, rule: Rule) -> Array:
    """(b, c) a score of every label; the largest is that of the label that is predicted.

    Votes of the k nearest neighbours are shares of k; smaller neighbourhoods break ties, as in the
    rule, by less than a vote.

    >>> Y = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> metric = Metric.from_components([[1.0]], Y, ["a", "a", "b", "b"], n_neighbors=1)
    >>> scores(metric, np.array([[0.2]]), "knn").tolist()
    [[1.0, 0.0]]
    """
    if rule == "energy":
        return -metric.energies(X) / len(metric.labels)
    labels = metric.labels[metric.neighbors(X, metric.n_neighbors)[0]]
    k, out = metric.n_neighbors, np.zeros((len(X), len(metric.classes)))
    votes = labels[:, :, None] == np.arange(len(metric.classes))
    for size in range(1, k + 1):
        # (k + 1)^−(k − size): all smaller neighbourhoods weigh less than one vote.
        out += votes[:, :size].sum(axis=1) * float(k + 1) ** (size - k)
    return out / k


def temperature(found: Array, truth: Indices) -> float:
    """T of the largest likelihood of the true labels, (b,), under scores, (b, c).

    >>> found = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    >>> round(temperature(found, np.array([0, 0, 1])), 2)       # two of three: e^(1/T) = 2
    1.44
    """
    spread = found.max(axis=1) - np.median(found, axis=1)
    width = float(np.median(spread)) or float(spread.max()) or 1.0
    chosen = (np.arange(truth.size), truth)

    def loss(exponent: float) -> float:
        return -float(log_softmax(found / (width * np.exp(exponent)), axis=1)[chosen].mean())

    best = minimize_scalar(loss, bounds=(-_RANGE, _RANGE), method="bounded")
    return width * float(np.exp(best.x))


__all__ = ["scores", "temperature"]
