"""The norms of a program's constraints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.form import Program


def norms_of_rows(program: Program) -> Array:
    """(m,) norms of the rows in the entries of M and x; 1 for a row of zeros."""
    vectors = [block.vectors() for block in program.blocks]
    lengths = [np.asarray(v.multiply(v).sum(axis=1)).ravel() for v in vectors]
    # A power of two per row: squares of 1e-200 or 1e200 are no numbers.
    of_q = abs(program.rows_q) @ np.concatenate(lengths)
    largest = np.maximum(of_q, np.asarray(abs(program.rows_x).sum(axis=1)).ravel())
    unit = 2.0 ** np.clip(np.frexp(largest)[1], -1000, 1000)
    scaling = sp.diags_array(1 / unit)
    rows_q, rows_x = sp.csr_array(scaling @ program.rows_q), sp.csr_array(scaling @ program.rows_x)
    squares = np.zeros(program.n_rows)
    for block, span, length in zip(program.blocks, program.spans, lengths, strict=True):
        part = rows_q[:, span]
        # One measurement per row: ‖a·vvᵀ‖ = |a|‖v‖².
        own = np.square(abs(part) @ length)
        several = np.flatnonzero(np.diff(part.indptr) > 1)
        if several.size:
            used = np.unique(part[several].indices)
            all_used = used.size == block.n_measurements
            seen = block if all_used else replace(block, incidence=block.incidence[used])
            own[several] = seen.squared_norms(part[several][:, used])
        squares += own
    squares += np.asarray(rows_x.multiply(rows_x).sum(axis=1)).ravel()
    # Inverses of smaller norms are no numbers.
    return np.where(squares > 0, np.maximum(unit * np.sqrt(squares), 2.0**-1000), 1.0)


__all__ = ["norms_of_rows"]
