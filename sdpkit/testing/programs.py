"""Small programs whose optimal values are known in closed form, and two that have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.roots import Roots
from sdpkit.program.safe import NormPenalty
from sdpkit.program.second_order import SecondOrderCone


@dataclass(frozen=True)
class Case:
    """A program and its optimal value."""

    name: str
    program: Program
    optimum: float


def graph_program(
    edges: Sequence[tuple[int, int]], lengths: ArrayLike, cost: float = 1.0, **more: Any
) -> Program:
    """Maximise cost·tr K over centred Gram matrices; one row per edge, its squared length."""
    n = 1 + max(max(edge) for edge in edges)
    block = Block.of(n, _rods(edges, n), name="K", cost=Cost.of(n, identity=cost), null=np.ones(n))
    return Program.of(block, np.square(lengths), **more)


def _rods(edges: Sequence[tuple[int, int]], n: int) -> Any:
    vectors = np.zeros((len(edges), n))
    for row, (i, j) in zip(vectors, edges, strict=True):
        row[i], row[j] = 1.0, -1.0
    return vectors


def _string(n: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(n - 1)]


def triangle(a: float, b: float, c: float, **more: Any) -> Program:
    """Three edges of these lengths; infeasible if one is longer than the others together."""
    return graph_program([(0, 1), (0, 2), (1, 2)], [a, b, c], **more)


def two_edges(relations: str = "==") -> Program:
    """Two edges that nothing ties together, of lengths 2 and 3: the trace is unbounded."""
    return graph_program([(0, 1), (2, 3)], [2.0, 3.0], relations=relations, name="two edges")


def wedge(
    angle: float, cost: Sequence[float] = (0.0, 0.0), relations: str | Sequence[str] = "=="
) -> Program:
    """Two numbers z ≥ 0, and two lines through (1, 1) that meet at an angle.

    Alternating projection comes nearer by the factor cos²(angle) in every round.

    >>> wedge(0.5).n_rows
    2
    """
    blocks = [
        Block.of(1, [[1.0]], name=f"z{k}", cost=Cost.of(1, identity=c)) for k, c in enumerate(cost)
    ]
    turns = np.pi / 4 + np.array([0.0, angle])
    normals = np.c_[-np.sin(turns), np.cos(turns)]
    return Program.of(
        blocks, normals @ np.ones(2), rows_q=normals, relations=relations, name="wedge"
    )


def loose_string(omega: float, scale: float = 1.0) -> Program:
    """The slack form on a path of two edges; unbounded below ω = 1/(1 + λ₂) = 1/2."""
    eye = sp.eye_array(2)
    return graph_program(
        _string(3),
        np.sqrt(scale) * np.array([2.0, 3.0]),
        cost=1 - omega,
        rows_x=sp.hstack([-eye, eye]),
        cost_x=np.full(4, -omega),
        name="loose string",
    )


def spring(d: float, h: float) -> Program:
    """max tr K − ½h x², q − x = d: two points joined by a spring; the value is d/2 + 1/(8h)."""
    return graph_program(
        [(0, 1)],
        [np.sqrt(d)],
        rows_x=np.array([[-1.0]]),
        free_x=[True],
        quadratic_x=[h],
        name="spring",
    )


def free_and_lower() -> Program:
    """Rows ≥ and ≤ and a free variable: 1 ≤ q ≤ 4, q − x = 0, max 3q − 2x = q."""
    block = Block.of(2, [[1.0, -1.0]], cost=Cost.of(2), null=np.ones(2))
    return Program.of(
        block,
        [1.0, 4.0, 0.0],
        rows_q=np.array([[1.0], [1.0], [1.0]]),
        rows_x=np.array([[0.0], [0.0], [-1.0]]),
        relations=[1, -1, 0],
        cost_q=[3.0],
        cost_x=[-2.0],
        free_x=[True],
        name="free variable, constraints ≤ and ≥",
    )


def _two_strings() -> Program:
    four, six = (graph_program(_string(n), np.ones(n - 1)) for n in (4, 6))
    return Program.of((*four.blocks, *six.blocks), np.ones(8), name="two strings")


def _taut() -> Program:
    """Two points held by a norm penalty that is dearer than what stretching gains."""
    return graph_program(
        [(0, 1)],
        [3.0],
        rows_x=np.array([[-1.0]]),
        free_x=[True],
        norms=[NormPenalty(1.0, (0,))],
        name="taut",
    )


def _cross() -> Program:
    """min t − log det M, ±e_iᵀ M e_i ≤ t in the plane: M = t·I, t = 2."""
    points = np.vstack([np.eye(2), -np.eye(2)])
    return Program.of(
        Block.of(2, points, log_det=1.0),
        np.zeros(4),
        sense="min",
        rows_x=-np.ones((4, 1)),
        relations="<=",
        cost_x=[1.0],
        name="cross",
    )


def _largest_eigenvalue() -> Program:
    """max <C, M>, tr M = 1: the largest eigenvalue of C."""
    C = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    return Program.of(Block.of(3, np.eye(3), cost=C), [1.0], rows_q=np.ones((1, 3)))


def shortest(more: float = 0.0) -> Program:
    """min ‖(q − 3, q − 5)‖ + more·q over a squared length q: √2 at q = 4 without more."""
    return Program.of(
        Block.of(1, [[1.0]], cost=Cost.of(1, identity=more)),
        [3.0, 5.0],
        sense="min",
        rows_q=np.ones((2, 1)),
        rows_x=np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0]]),
        cost_x=[1.0, 0.0, 0.0],
        free_x=[True] * 3,
        cones=[SecondOrderCone.of([0, 1, 2])],
        name="shortest",
    )


def in_ball(radius: float, **more: Any) -> Program:
    """max x₁ + 2x₂ + 2x₃ over ‖x‖ ≤ r: 3r, and infeasible where the radius is negative."""
    return Program.of(
        Block.of(1, [[1.0]], cost=Cost.of(1, identity=-1.0)),
        [radius],
        rows_q=np.zeros((1, 1)),
        rows_x=np.array([[1.0, 0.0, 0.0, 0.0]]),
        cost_x=[0.0, 1.0, 2.0, 2.0],
        free_x=[True] * 4,
        cones=[SecondOrderCone.of(np.arange(4))],
        name="ball",
        **more,
    )


def solvable() -> list[Case]:
    """Programs with an optimum, each with something that a solver can get wrong."""
    ring = [(i, (i + 1) % 5) for i in range(5)]
    string, ones = _string(6), np.ones(5)
    taut = float(np.var([0.0, 2.0, 5.0]) * 3)
    folded = graph_program(_string(3), [1.0, 1.0], sense="min")
    return [
        Case("one edge", graph_program([(0, 1)], [3.0]), 4.5),
        Case("largest eigenvalue", _largest_eigenvalue(), 2 + np.sqrt(2)),
        Case("equality", graph_program(ring, np.ones(5)), 1.25 / np.sin(np.pi / 5) ** 2),
        Case("inequality", graph_program(string, ones, relations="<="), 17.5),
        Case("slack", loose_string(0.9), 0.1 * taut),
        Case("minimisation", folded, 2 / 3),
        Case("two blocks", _two_strings(), 5.0 + 17.5),
        Case("free variable, constraints ≤ and ≥", free_and_lower(), 4.0),
        Case("quadratic penalty", spring(1.0, 2.0), 0.5625),
        Case("norm penalty", _taut(), 4.5),
        Case("second-order cone", shortest(), np.sqrt(2.0)),
        Case("ball", in_ball(2.0), 6.0),
        Case("log det", Program.of(Block.of(2, np.eye(2), log_det=1.0), [2.0, 4.0]), np.log(8.0)),
        Case("covering", _cross(), 2 - 2 * np.log(2.0)),
        Case("sum of roots", Roots(np.array([[3.0, 4.0]]), diagonal=False).program(), 5.0),
        Case("family", _comparisons(), 5 / 3),
    ]


def _comparisons() -> Program:
    """Two classes on a line, {0, 1} and {2, 3}: 2M + 1 + 2[1 − 3M]₊ + [1 − 8M]₊, least at 1/3."""
    import sdpkit

    return sdpkit.LMNN([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], n_neighbors=1).program()


def unsolvable() -> list[Program]:
    """Infeasible and unbounded ones, over matrices and over a second-order cone."""
    return [
        triangle(1.0, 1.0, 3.0, name="edges that do not close"),
        two_edges(),
        in_ball(-1.0),
        in_ball(1.0, relations=">="),
    ]
