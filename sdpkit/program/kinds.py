"""Kinds of programs that special solvers take, known by their data and never by their problem.

    graph program      rows are single edges of graphs, costs a·I and a low rank
    covering program   the smallest ellipsoid that covers given vectors, by its log det
    sum of roots       a sum of square roots of squared lengths (`sdpkit.program.roots`)

Each function returns why a program is not of that kind, in a few words, or None.
"""

from __future__ import annotations

from sdpkit.program.form import Program
from sdpkit.program.roots import Roots


def why_no_graph(program: Program) -> str | None:
    """What keeps a program from being one of graphs with boxes for multipliers, or None.

    >>> import sdpkit
    >>> why_no_graph(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)).program()) is None
    True
    """
    if program.family is not None:
        return "this program has a family of comparisons"
    if not program.n_rows:
        return None
    for block in program.blocks:
        if block.edges is None:
            return (
                f"block {block.name!r} of this program is not that of a graph (centred, measured "
                "by e_i − e_j, cost a·I and a low rank)"
            )
    if not _rows_are_single(program) or (program.rows_q.data != 1).any():
        return "this program has rows that are not single measurements"
    if program.cost_q.any():
        return "this program has costs of measurements"
    x = program.rows_x.tocsc()
    if program.free_x.any() or (x.indptr[1:] - x.indptr[:-1] != 1).any():
        return "this program has auxiliary variables that are not slacks of single rows"
    return None


def why_no_covering(program: Program) -> str | None:
    """What keeps a program from being a minimum-volume covering, or None. It is one if it reads

        minimise  <C, M> + c·t − β log det M,   a_j v_jᵀMv_j ≤ s_j t,   C ⪰ 0,  a, s, c, β > 0

    with one block and one nonnegative t, or the negated maximisation.
    """
    if len(program.blocks) != 1:
        return f"this program has {len(program.blocks)} blocks"
    if not program.has_log_det:
        return "this program has no log det"
    q, x, block = program.rows_q, program.rows_x, program.blocks[0]
    if not _rows_are_single(program) or (q.data <= 0).any():
        return "this program has rows that are not single measurements"
    one = program.n_auxiliary == 1 and not program.free_x.any() and not program.norms
    if not one or x.nnz != q.shape[1] or (x.data >= 0).any() or program.quadratic_x.any():
        return "this program lacks the one nonnegative variable t of every row"
    if program.rhs.any() or (program.relations != -1).any() or program.cost_q.any():
        return "this program has rows other than q_j ≤ s_j t, or costs of measurements"
    if block.null.shape[1]:
        return "this program has null directions"
    if program.sign * program.cost_x[0] >= 0:
        return "the variable t costs nothing in this program"
    weakest = block.smallest_on_face(-program.sign * block.cost.dense())
    if weakest < -1e-12 * block.cost.magnitude():
        return "the cost C of this program is not positive semidefinite"
    return None


def why_no_roots(program: Program) -> str | None:
    """What keeps a program from being a sum of square roots, or None."""
    return None if Roots.of(program) is not None else "this program is of another kind"


def _rows_are_single(program: Program) -> bool:
    """Whether row j holds measurement j and no other."""
    q = program.rows_q
    p = q.shape[1]
    return q.shape == (p, p) and q.nnz == p and not bool((q.indices != range(p)).any())
