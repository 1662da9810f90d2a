"""Graphs of higher intrinsic dimension, measured: neighbourhood graphs of handwritten digits.

Their sparse factors fill in, so that what is cheap on a curve or a surface is expensive here. The
tables say how much, and what was certified in which time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from sdpkit.comparison.measuring import arrays, peak_bytes, timed_solve
from sdpkit.graphs.build import neighborhood_graph
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.solution.solution import Solution

_TOL = 1e-2
# What the other engine, and the other form, are given.
_PEER_LIMIT_SECONDS = 300.0


def graphs(folder: Path, peers: bool = True) -> None:
    """USPS digits, and MNIST twos and threes: 4 neighbours, certified to 1e-2. The equality form
    needs sparse factors with a table of their pairs, which MNIST's has no room for."""
    for name, X in (("USPS digits", _usps(folder)), ("MNIST twos and threes", _mnist(folder))):
        unfold(name, X, peers)


def unfold(name: str, X: NDArray[Any], peers: bool) -> None:
    """Print the fill of the graph's factors, and what `lowrank` certifies in the inequality and
    `barrier` in the equality form; as peers, each in the other form."""
    graph = neighborhood_graph(X, n_neighbors=4)
    unit = float(graph.squared_lengths.mean())
    graph = NeighborhoodGraph(graph.n_points, graph.edges, graph.squared_lengths / unit)
    problem = sdpkit.MVU(graph=graph.adjacency(lengths=True), form="inequality")
    pattern = problem.program().blocks[0].pattern
    print(
        f"{name}: n = {graph.n_points}, {graph.n_edges} edges; a sparse factor has "
        f"{pattern.rows.size / graph.n_points:.0f} entries a column and takes {pattern.pairs:.2g} "
        "multiplications",
        flush=True,
    )
    equality = sdpkit.MVU(graph=graph.adjacency(lengths=True))
    _print(problem, "lowrank", None)
    if pattern.is_heavy:
        print("    barrier would need a table of as many places", flush=True)
    else:
        _print(equality, "barrier", None)
    if peers:
        if not pattern.is_heavy:
            _print(problem, "barrier", _PEER_LIMIT_SECONDS)
        _print(equality, "lowrank", _PEER_LIMIT_SECONDS)


def _print(problem: sdpkit.MVU, solver: str, time_limit: float | None) -> None:
    try:
        run = timed_solve(problem, solver, tol=_TOL, time_limit=time_limit)
    except MemoryError as error:
        print(f"    {problem.form}, {solver}: {error}", flush=True)
        return
    solution = run.result
    print(
        f"    {problem.form}, {solver}: {solution.status}, trace {solution.objective:.6g}, bound "
        f"{solution.certificate.safe_bound:.6g}, certified gap "
        f"{solution.certificate.relative_gap:.1e}, {_rank(solution)}{solution.iterations} steps, "
        f"{run.seconds:.3g} s ({run.cpu_seconds:.3g} s of CPU, {solution.times.certify:.2g} s to "
        f"certify), peak {peak_bytes() / 2**30:.1f} GiB so far",
        flush=True,
    )


def _rank(solution: Solution) -> str:
    rank = solution.history[-1].get("rank") if solution.history else None
    return "" if rank is None else f"rank {rank:.0f}, "


def _usps(folder: Path) -> NDArray[Any]:
    return np.asarray(arrays(folder, "usps")["X"][:7291], dtype=np.float64)


def _mnist(folder: Path) -> NDArray[Any]:
    file = arrays(folder, "mnist")
    X, y = file["X"][:60_000], file["y"][:60_000].astype(int)
    return np.asarray(X[(y == 2) | (y == 3)], dtype=np.float64) / 255
