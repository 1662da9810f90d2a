"""A start for graphs whose edges may not grow, from tensions that fit their lengths.

    maximise  tr K   s.t.  ‖y_i − y_j‖² ≤ d_e        dual: minimise  dᵀw   s.t.  L(w) ⪰ C,  w ≥ 0

At the optimum Y consists of lowest eigenvectors of L(w), and every edge under tension is as long
as it may be. So: take the lowest eigenvectors at some w, see how long they make each edge, a_e of
its d_e, and multiply w_e by √a_e. Edges that are too long become stiffer, short ones softer. This
is the method of optimality criteria, by which engineers find the lightest trusses. It changes all
edges of the graph at once, also along its longest waves, where an augmented Lagrangian needs very
many updates; what is left for that are the last per cent, and the edges that no eigenvector sees.
"""

from __future__ import annotations

import numpy as np

from sdpkit.solvers.lowrank_model import LowRankModel, lowest_eigenpairs
from sdpkit.typing import Array

_ROUNDS = 60  # at most
_GAIN = 3e-4  # relative improvement of dᵀw/λ₂ in a round, below which they end
_EIGENVECTORS = 8
# Eigenvectors take part by exp(−(λ − λ₂)/(spread·λ₂)).
_SPREAD = 0.3
_EXPONENT, _LEAST_FACTOR, _MOST_FACTOR = 0.5, 0.1, 10.0
_SOFTEST = 1e-4  # weights below this share of the median could not come back


def fits_tensions(model: LowRankModel) -> bool:
    """Whether a program is of that form, on one large graph."""
    program = model.program
    alone = len(program.blocks) == 1 and program.blocks[0].is_large_graph and model.is_graph
    if not alone or program.n_auxiliary or not (model.b > 0).all():
        return False
    pull = model.parts[0].sign * program.blocks[0].cost.identity
    return bool((program.relations == -1).all()) and pull > 0


def fitted_tensions(model: LowRankModel) -> tuple[Array, Array]:
    """(Y, w): multipliers with L(w) ⪰ C nearly, and a factor of the value that they prove."""
    part, b = model.parts[0], model.b
    pull = part.sign * part.block.cost.identity
    w, best = 1 / np.sqrt(b), np.inf
    out = np.empty((part.block.size, 0)), w
    for _ in range(_ROUNDS):
        values, vectors = lowest_eigenpairs(part, model.back_q @ w, _EIGENVECTORS, cost=False)
        if not values[0] > 0:
            break
        w, values = w * (pull / values[0]), values / values[0]
        shares = np.exp(-(values - 1) / _SPREAD)
        lengths = model.rows_q @ (np.square(part.images(vectors)) @ shares)
        value = float(b @ w)
        size = value / (pull * float(w @ lengths))  # at which <w, A(YYᵀ)> = dᵀw
        if value < best:
            out = vectors * np.sqrt(pull * size * shares), w
        if value > (1 - _GAIN) * best:
            break
        best = value
        factors = np.clip(pull * size * lengths / b, _LEAST_FACTOR, _MOST_FACTOR)
        w = w * factors**_EXPONENT
        w = np.maximum(w, _SOFTEST * float(np.median(w)))
    return out
