"""A start for large graphs whose edges may not grow, from tensions that fit their lengths
(`sdpkit.numerics.tensions`)."""

from __future__ import annotations

import numpy as np

from sdpkit.numerics.tensions import fitted_tensions
from sdpkit.solvers.lowrank_model import LowRankModel, lowest_eigenpairs
from sdpkit.typing import Array

_EIGENVECTORS = 8


def fits_tensions(model: LowRankModel) -> bool:
    """Whether a program maximises the variance on one large graph whose edges may not grow."""
    program = model.program
    alone = len(program.blocks) == 1 and program.blocks[0].is_large_graph and model.is_graph
    if not alone or program.n_auxiliary or not (model.b > 0).all():
        return False
    pull = model.parts[0].sign * program.blocks[0].cost.identity
    return bool((program.relations == -1).all()) and pull > 0


def tension_start(model: LowRankModel) -> tuple[Array, Array]:
    """(Y, w): a factor, and multipliers with L(w) ⪰ C nearly."""
    part = model.parts[0]
    pull = part.sign * part.block.cost.identity

    def lowest(w: Array) -> tuple[Array, Array]:
        return lowest_eigenpairs(part, w, _EIGENVECTORS, cost=False)

    found = fitted_tensions(model.program.rhs, lowest, part.block.incidence)
    w = pull * found.weights * model.norms / model.unit
    return found.factor / np.sqrt(model.unit), np.asarray(w)
