"""Multipliers whose dual image is the identity, for programs of large sparse data.

They are a direction in which every dual slack can be repaired: one for each diagonal entry of a
max-cut program, the multiplier of a row that fixes the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from sdpkit.program.block import Block, compact_columns
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.form import Program

# Products of entries of measurements that are multiplied out, at most.
_MOST = 20_000_000


def sparse_identity(program: Program) -> Array | None:
    """(m,) the least-squares solution w of Vᵀdiag(A_qᵀw)V = I, A_xᵀw = 1 on the entries that
    measurements have; None for programs with other blocks than sparse ones, or with too many
    entries."""
    blocks = program.blocks
    if not all(block.is_large_sparse or _is_small(block) for block in blocks):
        return None
    if sum(_products(block) for block in blocks) > _MOST:
        return None
    images, targets = [], []
    for block, span in zip(blocks, program.spans, strict=True):
        on_diagonal = np.arange(block.size) * (block.size + 1)
        products, keys = compact_columns(block.outer_products)
        images.append(sp.csr_array(program.rows_q[:, span] @ products))
        targets.append(np.isin(keys, on_diagonal).astype(np.float64))
        if np.setdiff1d(on_diagonal, keys).size > np.sum(~block.touched):
            return None  # the cost is alone on a diagonal entry
    rows = sp.hstack([*images, program.rows_x])
    target = np.concatenate([*targets, np.where(program.free_x, 0.0, 1.0)])
    return np.asarray(
        scipy.sparse.linalg.lsqr(sp.csr_array(rows.T), target, atol=1e-14, btol=1e-14)[0]
    )


def _is_small(block: Block) -> bool:
    return block.features is None and not block.null.shape[1]


def _products(block: Block) -> float:
    return float(np.square(np.diff(block.incidence.indptr).astype(np.float64)).sum())


__all__ = ["sparse_identity"]
