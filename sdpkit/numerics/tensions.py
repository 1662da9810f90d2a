"""Tensions of a graph's edges that fit their lengths: the dual of maximum variance, nearly.

    maximise  tr K   s.t.  ‖y_i − y_j‖² ≤ d_e        dual: minimise  dᵀw   s.t.  L(w) ⪰ I,  w ≥ 0

At the optimum Y consists of lowest eigenvectors of L(w), and every edge under tension is as long
as it may be. So: take the lowest eigenvectors at some w, see how long they make each edge, a_e of
its d_e, and multiply w_e by √a_e. Edges that are too long become stiffer, short ones softer. This
is the method of optimality criteria, by which engineers find light trusses. It changes all edges
of the graph at once, also along its longest waves, where an augmented Lagrangian needs very many
updates. What it leaves are the last per cent, and single edges that no eigenvector sees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.typing import Array

_ROUNDS = 60  # at most
_GAIN = 3e-4  # relative improvement of dᵀw/λ₂ in a round, below which they end
# Eigenvectors take part by exp(−(λ − λ₂)/(spread·λ₂)).
_SPREAD = 0.3
_EXPONENT, _LEAST_FACTOR, _MOST_FACTOR = 0.5, 0.1, 10.0
_SOFTEST = 1e-4  # weights below this share of the median could not come back
# Edges of so many times their length, squared, are not shortened further, and in so many sweeps.
_LONG, _SWEEPS = 1 + 1e-6, 300
# By how much outputs are shrunk, squared, before single edges are shortened.
_SHRINKAGES = (1.0, 0.985, 0.97, 0.95)


@dataclass(frozen=True, eq=False)
class Tensions:
    """Weights of edges, and what the lowest eigenvectors of their Laplacian say.

    Attributes
    ----------
    weights: (m,) w > 0 with λ₂(L(w)) = 1, nearly;  value: dᵀw
    factor: (n, k) Y of the same value, whose edges are as long as they may be on average
    """

    weights: Array
    value: float
    factor: Array


def fitted_tensions(
    squared_lengths: Array,
    lowest: Callable[[Array], tuple[Array, Array]],
    incidence: Any,
    start: Array | None = None,
) -> Tensions:
    """Tensions of a connected graph with the incidence matrix B, (m, n).

    `lowest` gives the lowest eigenpairs of L(w) on 1⊥; `start` are weights to begin with, by
    default those under which a chain is stretched evenly.
    """
    d = squared_lengths
    w = 1 / np.sqrt(d) if start is None else start
    found = None
    for _ in range(_ROUNDS):
        continue_or_raise()
        values, vectors = lowest(w)
        if not values[0] > 0:
            break
        w, values = w / values[0], values / values[0]
        shares = np.exp(-(values - 1) / _SPREAD)
        squares = np.square(incidence @ vectors) @ shares
        value = float(d @ w)
        size = value / float(w @ squares)  # at which <w, A(YYᵀ)> = dᵀw
        before = np.inf if found is None else found.value
        if found is None or value < before:
            found = Tensions(w, value, vectors * np.sqrt(size * shares))
        if value > (1 - _GAIN) * before:
            break
        w = w * np.clip(size * squares / d, _LEAST_FACTOR, _MOST_FACTOR) ** _EXPONENT
        w = np.maximum(w, _SOFTEST * float(np.median(w)))
    return Tensions(w, np.inf, np.zeros((incidence.shape[1], 1))) if found is None else found


def with_short_edges(factor: Array, incidence: Any, squared_lengths: Array) -> Array:
    """Outputs near some others, (n, k), with ‖y_i − y_j‖² ≤ d_e for every edge, of a large
    variance.

    They are shrunk a little, the ends of edges that are still too long are moved together, sweep
    after sweep, and what is left is met by shrinking all. The best of several tries.
    """
    tries = [_shortened(np.sqrt(s) * factor, incidence, squared_lengths) for s in _SHRINKAGES]
    return max(tries, key=lambda y: float(np.square(y).sum()))


def _shortened(y: Array, incidence: Any, d: Array) -> Array:
    back = incidence.T.tocsr()
    for _ in range(_SWEEPS):
        continue_or_raise()
        difference = incidence @ y
        excess = np.einsum("ij,ij->i", difference, difference) / d
        long = np.flatnonzero(excess > _LONG)
        if not long.size:
            break
        share = np.zeros(d.size)
        share[long] = (1 - 1 / np.sqrt(excess[long])) / 2
        ends = abs(back) @ (share > 0).astype(np.float64)
        y = y - (back @ (share[:, None] * difference)) / np.maximum(ends, 1.0)[:, None]
    y = y - y.mean(axis=0)
    difference = incidence @ y
    excess = float((np.einsum("ij,ij->i", difference, difference) / d).max(initial=0.0))
    return np.asarray(y / np.sqrt(max(1.0, excess * (1 + 1e-12))))
