"""Which rows of a graph program are independent of each other on its face.

Distinct edges are independent. On a face a relation Σ c_e b_e b_eᵀ = NYᵀ + YNᵀ vanishes outside of
the support of N, so that every edge of it has an end there: a flat clique of five points in space
has ten edges and six degrees of freedom. Such a relation lets multipliers move without any effect,
and Newton's equations have no unique solution unless the dependent ones are held.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpkit.program.block import Block
from sdpkit.typing import Bools

_DEPENDENT = 1e-10  # squared share of a row that others leave, below which it depends on them


def independent_edges(block: Block) -> Bools:
    """(m,) False for edges whose length on the face follows from that of the others.

    >>> from sdpkit import MVU
    >>> line = MVU([[0.0], [1.0], [3.0]], edges=[[0, 1], [1, 2], [0, 2]]).program().blocks[0]
    >>> int(independent_edges(line).sum())      # one length determines three points on a line
    1
    """
    chosen = np.ones(block.n_measurements, dtype=bool)
    if block.local_face is None:
        return chosen
    suspects = block.local_face.touched
    rows = block.incidence[suspects]
    beside = np.asarray(rows @ block.null_basis)
    gram = ((rows @ rows.T).toarray() - beside @ beside.T) ** 2
    lengths = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    correlation = gram / np.outer(lengths, lengths)
    _, pivots, rank, _ = scipy.linalg.lapack.dpstrf(correlation, tol=_DEPENDENT, lower=1)
    chosen[suspects[pivots[rank:] - 1]] = False
    return chosen
