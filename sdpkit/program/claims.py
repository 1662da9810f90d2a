"""What a file states about bounds: recomputed from its data, or dropped.

A problem of this library knows things about its program that the program's numbers do not show at
once (`SafeBounds`). A file states them too, and whoever wrote it may be wrong. So nothing of it is
believed on loading:

    trace        that of a graph is recomputed from shortest paths, any other is dropped
    value_scale  a stated floor of values counts if the data give one as large: |C|·Σd/n for a
                 graph with squared lengths d, and no more than its largest value where shortest
                 paths limit it; one hinge for a family; min(1, `Program.value_scale`) otherwise
    direction    kept: the certificate proves its strength by an eigenvalue before it is used
    anchor       kept: the certificate proves that it is feasible before it is used
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.program.block import Block
from sdpkit.program.safe import SafeBounds
from sdpkit.typing import Array, Indices

if TYPE_CHECKING:
    from sdpkit.program.form import Program

# Sums of the same numbers in another order differ by less.
_ROUNDING = 1e-9


def proven_claims(program: Program) -> tuple[SafeBounds, tuple[str, ...]]:
    """The safe bounds of a loaded program that its data bear out, and a note on each other one."""
    safe, notes = program.safe, []
    trace = traces_of_graphs(program)
    floor = _floor(program, trace)
    if safe.value_scale is not None and not safe.value_scale <= floor * (1 + _ROUNDING):
        notes.append(
            f"the file states that values below {safe.value_scale:.3g} count as zero; its data do "
            f"not bear that out, and {min(1.0, program.value_scale):.3g} is used"
        )
        safe = replace(safe, value_scale=None)
    said = safe.trace
    if said is not None:
        if trace is None:
            notes.append(
                "the file states bounds on traces that cannot be recomputed from its data; they "
                "are not used"
            )
            safe = replace(safe, trace=None)
        elif any(s < known for s, known in zip(said, trace, strict=True)):
            notes.append("bounds on traces were recomputed from shortest paths")
            safe = replace(safe, trace=trace)
    return safe, tuple(notes)


def _floor(program: Program, trace: tuple[float, ...] | None) -> float:
    """The largest value that the data show to count as zero; `trace`: bounds on tr M, if known."""
    if program.family is not None:
        return program.family.weight * program.family.unit
    squared = _squared_lengths(program)
    if squared is None:
        return min(1.0, program.value_scale)
    nodes = sum(block.size for block in program.blocks)
    cost = max(block.cost.magnitude() for block in program.blocks)
    # A limit that no feasible point reaches is no length of the graph.
    return cost * min(float(squared.sum()) / nodes, np.inf if trace is None else sum(trace))


def _squared_lengths(program: Program) -> Array | None:
    """(m,) the squared length of an edge that each constraint states, |b_e| over its coefficient.

    None unless the blocks are graphs and each constraint has one edge and slacks that no other has.
    """
    if any(_edges_of(block) is None for block in program.blocks):
        return None
    uses = np.bincount(program.rows_x.indices, minlength=program.n_auxiliary)
    if np.any(uses > 1):
        return None
    factors = np.concatenate([block.incidence.data[::2] for block in program.blocks]) ** 2
    scales = abs(program.rows_q).multiply(factors[None, :]).tocsr().max(axis=1).toarray().ravel()
    return np.abs(program.rhs) / scales if np.all(scales > 0) else None


def traces_of_graphs(program: Program) -> tuple[float, ...] | None:
    """Per block an upper bound on tr M from shortest paths, or None where some block has none.

    It takes blocks with M1 = 0 and constraints a·q_e {=, ≤} b, a > 0, on squared lengths of
    multiples of e_i − e_j, without auxiliary variables, that connect all nodes.
    """
    single = (np.diff(program.rows_q.indptr) == 1) & (np.diff(program.rows_x.indptr) == 0)
    rows = np.flatnonzero(single & (program.relations <= 0) & (program.rhs >= 0))
    first = program.rows_q.indptr[rows]
    which, factor = program.rows_q.indices[first], program.rows_q.data[first]
    which, rows, factor = which[factor > 0], rows[factor > 0], factor[factor > 0]
    limits = np.full(program.rows_q.shape[1], np.inf)
    np.minimum.at(limits, which, program.rhs[rows] / factor)
    traces = []
    for block, squared in zip(program.blocks, program.split(limits), strict=True):
        edges, known = _edges_of(block), np.isfinite(squared)
        if edges is None or not known.any():
            return None
        # The squared lengths of the edges themselves, one for a measurement of e_i − e_j.
        squared = squared[known] / block.incidence.data[::2][known] ** 2
        graph = NeighborhoodGraph.from_pairs(block.size, edges[known], squared, parallel="min")
        traces.append(graph.variance_bound())
    return tuple(traces) if np.isfinite(traces).all() else None


def _edges_of(block: Block) -> Indices | None:
    """(p, 2) the pairs (i, j) of a block with M1 = 0 that is measured by multiples of e_i − e_j
    alone; None otherwise."""
    constant = (np.ptp(block.null, axis=0) == 0) & (block.null != 0).any(axis=0)
    v = block.incidence
    if block.features is not None or not constant.any():
        return None
    if np.any(np.diff(v.indptr) != 2) or np.any(v.sum(axis=1) != 0) or np.any(v.data == 0):
        return None
    return np.asarray(v.indices.reshape(-1, 2), dtype=np.int64)
