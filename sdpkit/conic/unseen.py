"""Directions of an unknown matrix that no constraint and no cost sees, although measurements do.

Where  A_e u = 0  for all constraints and  C u = 0,  M may be anything along u, and the dual slack
is singular whatever the multipliers are: the dual has no interior. An example are models that only
use differences of points, as those of performance estimation do: u is a shift of all points.

With u_k ≠ 0, the measurements  v − (vᵀu/u_k) e_k  add up to the same matrices A_e and do not see
u. `Block.unseen` then finds it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.program.block import Block
from sdpkit.typing import Array, Indices

# Larger blocks and longer constraints are left as they are.
_MOST_SIZE, _MOST_ENTRIES = 400, 4_000_000
# What is left of A_e u, relative to the largest entry, for a direction that is not seen; and of its
# square at a first look.
_UNSEEN, _SQUARED = 1e-13, 1e-13
# Entries of a direction this near to a whole number are that number.
_WHOLE = 1e-11


def without_unseen(block: Block, rows: sp.csr_array) -> Block:
    """The block with measurements that see no more than its constraints `rows`, (m, p), and its
    cost do."""
    small = block.size <= _MOST_SIZE and np.square(np.diff(block.incidence.indptr)).sum() < (
        _MOST_ENTRIES
    )
    if block.features is not None or block.null.shape[1] or block.log_det or not small:
        return block
    directions, pivots = _unseen(block, rows)
    if not pivots.size:
        return block
    seen = sp.csr_array(block.incidence @ directions)
    chosen = (np.ones(pivots.size), (np.arange(pivots.size), pivots))
    moved = block.incidence - seen @ sp.csr_array(chosen, shape=(pivots.size, block.size))
    moved = sp.csr_array(moved)
    moved.eliminate_zeros()
    return replace(block, incidence=moved)


def _unseen(block: Block, rows: sp.csr_array) -> tuple[Array, Indices]:
    """(n, d) directions and (d,) places: each is 1 at its place, and the others are 0 there."""
    n = block.size
    nothing = np.zeros((n, 0)), np.zeros(0, dtype=np.int64)
    matrices = sp.csr_array(rows @ block.outer_products).reshape((rows.shape[0] * n, n))
    stacked = sp.csr_array(sp.vstack([matrices, sp.csr_array(block.cost.dense())]))
    largest = np.abs(stacked.data).max(initial=0.0)
    if not largest > 0:
        return nothing
    stacked = stacked / largest
    values, vectors = np.linalg.eigh((stacked.T @ stacked).toarray())
    kernel = vectors[:, values <= _SQUARED * values[-1]]
    if not kernel.shape[1]:
        return nothing
    pivots = scipy.linalg.qr(kernel.T, mode="r", pivoting=True)[1][: kernel.shape[1]]
    directions = np.linalg.solve(kernel[pivots].T, kernel.T).T
    whole = np.rint(directions)
    directions = np.where(np.abs(directions - whole) <= _WHOLE, whole, directions)
    directions[pivots] = np.eye(pivots.size)
    off = np.abs(stacked @ directions).max(initial=0.0)
    return (directions, pivots) if off <= _UNSEEN else nothing


__all__ = ["without_unseen"]
