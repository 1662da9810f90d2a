"""What floating-point arithmetic may be off by, as a priori bounds (Higham 2002, chapter 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.typing import Array, Bools

UNIT = float(np.finfo(np.float64).eps) / 2
TINY = float(np.finfo(np.float64).tiny)


def gamma(k: int) -> float:
    """γ_k = ku/(1 − ku): the relative error of a sum of k roundings."""
    return k * UNIT / (1 - k * UNIT)


def most_in_column(matrix: Any) -> int:
    """The largest number of entries in a column of a csr array."""
    return int(np.bincount(matrix.indices).max(initial=0))


def slack_roundings(program: Program, w: Array) -> list[float]:
    """Per block a bound on what rounding moves the eigenvalues of the computed dual slack."""
    magnitude = np.asarray(abs(program.rows_q).T @ np.abs(w)) + np.abs(program.cost_q)
    # Products with zero are exact; any other may underflow to zero.
    entries = (np.ones(program.rows_q.nnz), program.rows_q.indices, program.rows_q.indptr)
    places = sp.csr_array(entries, shape=program.rows_q.shape)
    present = np.asarray(places.T @ (w != 0)) > 0
    present |= program.cost_q != 0
    terms = most_in_column(program.rows_q)
    return [
        _rounding(block, magnitude[span], present[span], terms)
        for block, span in zip(program.blocks, program.spans, strict=True)
    ]


def _rounding(block: Block, magnitude: Array, used: Bools, terms: int) -> float:
    """γ_k times the sums of absolute values, for S and for its eigenvalues."""
    if block.is_large_graph:
        return 0.0  # its smallest eigenvalue is a proven bound
    cost = block.cost
    if not (used.any() or cost.identity or cost.sparse.nnz or cost.weights.any()):
        return 0.0  # S = 0
    b = abs(block.incidence)
    x = None if block.features is None else np.abs(block.features)
    ones = np.ones(block.size)
    chain = terms + 8 + most_in_column(b)
    if x is not None:
        chain += 2 * x.shape[0] + int(np.diff(b.indptr).max(initial=0))
    factor = np.abs(cost.factor)
    chain += factor.shape[1]

    def row_sums(weights: Array) -> Array:
        inner = b @ (ones if x is None else x @ ones)
        out = b.T @ (weights * inner)
        return np.asarray(out if x is None else x.T @ out)

    rows = row_sums(magnitude) + abs(cost.identity)
    rows = rows + np.asarray(abs(cost.sparse).sum(axis=1)).ravel()
    rows = rows + (factor * np.abs(cost.weights)) @ factor.sum(axis=0)
    largest = float(rows.max(initial=0.0))
    # What underflows in A_qᵀw or in a product is scaled up by what follows.
    beside = 1.0 + float(b.data.max(initial=0.0)) + float(factor.max(initial=0.0))
    lost = row_sums(chain * used) + chain * beside * block.size
    if x is not None:
        lost = lost + chain * float(x.max(initial=0.0)) * x.shape[0] * block.size
    # Symmetric eigenvalue codes are backward stable with a modest multiple of the unit.
    solver = 2 * UNIT * np.sqrt(block.size) + 8 * UNIT
    return float(1.01 * (gamma(chain) + solver) * largest + TINY * lost.max(initial=0.0))


def sum_rounding(program: Program, w: Array) -> float:
    """A bound on the rounding of the computed bᵀw; products with zero are exact."""
    terms = int(np.count_nonzero((program.rhs != 0) & (w != 0)))
    size = float(np.abs(program.rhs) @ np.abs(w))
    return 1.01 * gamma(terms + 2) * size + TINY * terms
