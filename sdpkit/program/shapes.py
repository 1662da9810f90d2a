"""Shapes of programs that special engines take, known by their data and never by their problem.

    graphs      rows are single edges of graphs, costs a·I and a low rank, multipliers in boxes
    coverings   the smallest ellipsoid that covers given vectors, by its log det
    roots       a sum of square roots of squared lengths (`sdpkit.program.roots`)

`beyond(shape, program)` says in words what keeps a program from being of a shape, or None.
"""

from __future__ import annotations

from sdpkit.program.form import Program

# Name → what an engine for that shape takes, in words.
SHAPES = {
    "graphs": "graphs",
    "coverings": "minimum volume coverings",
    "roots": "sums of square roots",
}


def beyond(shape: str, program: Program) -> str | None:
    """What keeps a program from being of this shape, in words that follow "no", or None.

    >>> import sdpkit
    >>> beyond("graphs", sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)).program()) is None
    True
    """
    return {"graphs": _beyond_graphs, "coverings": _beyond_coverings, "roots": _beyond_roots}[
        shape
    ](program)


def _beyond_roots(program: Program) -> str | None:
    from sdpkit.program.roots import Roots

    return None if Roots.of(program) is not None else "programs of another kind"


def _beyond_graphs(program: Program) -> str | None:
    """What keeps a program from being one of graphs with boxes for multipliers, or None."""
    if not program.n_rows:
        return None  # no solver is bothered with it
    if any(block.edges is None for block in program.blocks):
        return "blocks but those of graphs (centred, rows e_i − e_j, cost a·I and a low rank)"
    q, x = program.rows_q, program.rows_x.tocsc()
    p = q.shape[1]
    if q.shape != (p, p) or q.nnz != p or (q.data != 1).any() or (q.indices != range(p)).any():
        return "rows but single measurements"
    if program.cost_q.any():
        return "costs of measurements"
    if program.free_x.any() or (x.indptr[1:] - x.indptr[:-1] != 1).any():
        return "auxiliary variables but the slacks of single rows"
    return None


def _beyond_coverings(program: Program) -> str | None:
    """What keeps a program from being a minimum volume covering, or None. It is one if it reads

        minimise  <C, M> + c·t − β log det M,   a_j v_jᵀMv_j ≤ s_j t,   C ⪰ 0,  a, s, c, β > 0

    with one block and one nonnegative t, or the negated maximisation.
    """
    if len(program.blocks) != 1 or not program.has_log_det:
        return "programs but of one block with its log det"
    q, x = program.rows_q, program.rows_x
    p = q.shape[1]
    if q.shape != (p, p) or q.nnz != p or (q.data <= 0).any() or (q.indices != range(p)).any():
        return "rows but single measurements"
    one = program.n_auxiliary == 1 and not program.free_x.any() and not program.norms
    if not one or x.nnz != p or (x.data >= 0).any() or program.quadratic_x.any():
        return "auxiliary variables but one nonnegative t in every row"
    if program.rhs.any() or (program.relations != -1).any() or program.cost_q.any():
        return "rows but q_j ≤ s_j t, no costs of measurements"
    if program.sign * program.cost_x[0] >= 0 or program.blocks[0].null.shape[1]:
        return "null directions, no t that costs nothing"
    cost = program.blocks[0].cost
    weakest = program.blocks[0].smallest_on_face(-program.sign * cost.dense())
    return (
        None if weakest >= -1e-12 * cost.magnitude() else "cost C but a positive semidefinite one"
    )
