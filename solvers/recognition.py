"""Graph programs without an optimum, recognised before any iteration.

Unbounded: components that nothing ties together, rows that only push, or slack that gives way at
less than the pull. Infeasible: an edge that is longer than a path between its ends. Each comes
with the ray that proves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, dijkstra

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.program.gram import FactoredGram, Matrix
from sdpkit.solution.answer import Answer, Stop
from sdpkit.typing import Array, Indices

if TYPE_CHECKING:
    from sdpkit.numerics.pattern import Pattern


def components(pattern: Pattern) -> tuple[int, Indices]:
    """How many connected components there are, and (n,) which one each node belongs to."""
    ones, (i, j) = np.ones(len(pattern.edges)), pattern.edges.T
    graph = sp.csr_array((ones, (i, j)), shape=(pattern.n, pattern.n))
    count, labels = connected_components(graph, directed=False)
    return int(count), labels.astype(np.int64)


def cost_extremes(program: Program, k: int) -> tuple[float, float]:
    """Bounds on the eigenvalues of the cost of block k, as the maximisation sees it."""
    block = program.blocks[k]
    cost = program.sign * block.cost.identity
    if block.low_rank is None:
        return cost, cost
    least, most = block.low_rank.scaled(program.sign).extremes
    return cost + least, cost + most


def drifting_apart(program: Program) -> Answer | None:
    """A ray of unboundedness that shows before any iteration: components that nothing ties
    together, or ties that give way at less than the pull (slack below its threshold)."""
    _, hi = program.multiplier_box
    parts = zip(program.blocks, program.split(hi), strict=True)
    for k, (block, limits) in enumerate(parts):
        if cost_extremes(program, k)[1] <= 0 or block.edges is None:
            continue
        direction = _loosest(block, limits)
        if direction is None:
            continue
        i, j = block.edges.T
        stretch = (direction[i] - direction[j]) ** 2
        tied = stretch > 0
        gain = program.sign * block.cost.inner(FactoredGram(direction[:, None]))
        if gain > float(limits[tied] @ stretch[tied]):
            return _ray(program, k, direction)
    return None


def _loosest(block: Block, limits: Array) -> Array | None:
    """(n,) a unit vector of 1⊥: constant on components, or the slowest mode of L(limits)."""
    from sdpkit.numerics.eigenpairs import leading_eigenpairs
    from sdpkit.numerics.sparse_factor import SparseFactor

    pattern, n = block.pattern, block.size
    count, labels = components(pattern)
    if count > 1:
        apart = (labels == 0) - np.mean(labels == 0)
        return np.asarray(apart / np.linalg.norm(apart))
    if np.all(limits <= 0):  # rows that only push: every direction is free
        apart = np.eye(n)[0] - 1 / n
        return np.asarray(apart / np.linalg.norm(apart))
    if not np.isfinite(limits).all() or np.any(limits <= 0):
        return None
    shift = np.zeros(n)
    shift[0] = float(limits.max())  # one node is pinned
    weights = block.on_pattern(limits, shift[0])
    factor = SparseFactor.of(pattern, pattern.laplacian(weights, shift))

    def inverse(x: Array) -> Array:
        continue_or_raise()
        y = factor.solve(x.ravel() - x.mean())
        return np.asarray(y - y.mean())

    return np.asarray(leading_eigenpairs(inverse, n, 1)[1][:, 0])


def _ray(program: Program, k: int, direction: Array) -> Answer:
    """K = uuᵀ in block k, the slack variables taking up what the edges stretch."""
    grams: list[Matrix] = []
    for block in program.blocks:
        column = np.zeros((block.size, 1))
        if block is program.blocks[k]:
            column[:, 0] = direction - direction.mean()
        gram = FactoredGram(column)
        grams.append(gram if block.is_large_graph else gram.toarray())
    values = program.rows_q @ program.measure(grams)
    columns = program.rows_x.tocsc()
    rows, entries = columns.indices, columns.data
    x = np.where(entries < 0, -values[rows] / entries, 0.0)
    words = "a direction of the primal is free"
    return Answer(Stop.CLAIMS_UNBOUNDED, words, matrix_ray=(tuple(grams), x), iterations=0)


def shortcut(program: Program) -> Answer | None:
    """A ray of infeasibility: an edge that is longer than a path between its ends.

    With lengths ℓ_k along the path, ℓ their sum and the edge longer than ℓ: w = ℓ/ℓ_k on the path
    and −1 on the edge have L(w) ⪰ 0 (conductances in series) and dᵀw = ℓ² − d < 0.
    """
    lo, hi = program.multiplier_box
    rigid = np.isinf(lo) & np.isinf(hi)
    if not rigid.all() or np.any(program.rhs <= 0):
        return None
    edges, n = stacked_edges(program)
    (i, j), lengths = edges.T, np.sqrt(program.rhs)
    graph = sp.csr_array((lengths, (i, j)), shape=(n, n))
    rows = max(1, 4_000_000 // n)
    for start in range(0, n, rows):
        continue_or_raise()
        roots = np.arange(start, min(start + rows, n))
        mine = np.flatnonzero((i >= start) & (i < start + rows))
        found = dijkstra(graph, directed=False, indices=roots, limit=float(lengths.max()))
        short = found[i[mine] - start, j[mine]]
        worst = int(np.argmin(short / lengths[mine])) if mine.size else 0
        if mine.size and short[worst] < (1 - 1e-9) * lengths[mine[worst]]:
            ray = _along_path(edges, lengths, graph, int(mine[worst]), float(short[worst]))
            words = "an edge is longer than a path between its ends"
            ray *= program.sign
            return Answer(Stop.CLAIMS_INFEASIBLE, words, multiplier_ray=ray, iterations=0)
    return None


def stacked_edges(program: Program) -> tuple[Indices, int]:
    """(m, 2) the edges of all blocks, nodes numbered one after the other, and their number."""
    offsets = np.cumsum([0, *(block.size for block in program.blocks)])
    parts = zip(program.blocks, offsets[:-1], strict=True)
    edges = [block.edges + k for block, k in parts if block.edges is not None]
    return np.concatenate(edges), int(offsets[-1])


def _along_path(
    edges: Indices, lengths: Array, graph: sp.csr_array, edge: int, length: float
) -> Array:
    i, j = (int(end) for end in edges[edge])
    before = dijkstra(graph, directed=False, indices=[i], return_predecessors=True)[1][0]
    number = {frozenset(pair): e for e, pair in enumerate(edges.tolist())}
    ray = np.zeros(lengths.size)
    while j != i:
        step = number[frozenset((int(before[j]), j))]
        ray[step] = length / lengths[step]
        j = int(before[j])
    ray[edge] = -1.0
    return ray
