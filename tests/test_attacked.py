"""Small programs on which engines once gave a wrong answer, with their exact answers.

The numbers are integers times powers of two (or of ten): those of the first runs that went wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import ArrayLike

import sdpkit
from sdpkit import Block, Cost, Program, Solution, Status
from sdpkit.program.safe import NormPenalty
from sdpkit.typing import Array

TOL = 1e-6


def solved(program: Program, solver: str) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        return sdpkit.solve(program, solver=solver, tol=TOL, max_iter=300)


def measured(
    more: ArrayLike,
    cost: ArrayLike,
    identity: float = 0.0,
    factor: ArrayLike | None = None,
    weight: float = 0.0,
) -> Block:
    """A block that measures the diagonal and some vectors more; cost: a symmetric matrix.

    identity, factor, weight: the cost is written as identity·I + weight·uuᵀ + what is left of it
    """
    c = np.asarray(cost, dtype=np.float64)
    n = len(c)
    u = np.zeros(n) if factor is None else np.asarray(factor, dtype=np.float64)
    rest = c - identity * np.eye(n) - weight * np.outer(u, u)
    split = Cost.of(n, identity=identity, sparse=rest)
    if factor is not None:
        split = Cost.of(
            n, identity=identity, sparse=rest, factor=u[:, None], weights=np.array([weight])
        )
    return Block.of(n, np.vstack([np.eye(n), more]), cost=split)


def pairs(n: int) -> Array:
    """(n(n−1)/2, n) the sums e_i + e_j, i < j, ordered by j."""
    eye = np.eye(n)
    return np.array([eye[i] + eye[j] for j in range(n) for i in range(j)])


def large_costs_beside_small_rows() -> tuple[Program, int]:
    """Costs of 2²⁷ and a row of 2⁻²⁵; M = 0 is optimal but for the row M₄₄ ≤ 3968."""
    u = np.array([0.0, 1, 1, 0, -1])
    first = measured(
        [[2, 0, -1, -1, 1], [-2, 1, 2, -2, 1], [-1, 2, 2, -2, 0]],
        -3 * 2.0**25 * np.outer(u, u),
        identity=-(2.0**26),
        factor=[-1, -1, 1, -1, 1],
        weight=-(2.0**25),
    )
    second = measured([[2, -1], [0, -2], [0, -1]], 2.0**26 * np.array([[-1.0, 1], [1, -5]]))
    rows = np.zeros((4, 13))
    rows[0, 3], rows[1, 9], rows[3, 10] = -2, 32, 0.5
    rows[2, [8, 9, 12]] = 2.0**-25 * np.array([-1, -2, -1])
    rhs, relations = [-7936.0, 0, 0, 32], [1, 1, -1, -1]
    return Program.of([first, second], rhs, rows_q=rows, relations=relations, offset=1.0), 1


def blocks_without_costs() -> tuple[Program, int]:
    """One equation with 2²¹·(M₁₁ + N₅₅) − 2²⁰·q; two of three blocks and one variable are free of
    charge. The cost of the first block is ⪰ 0 once the measurements' costs are counted."""
    first = measured([[0, -2], [2, 1], [-2, 1], [1, 2]], 1024 * np.array([[4.0, 4], [4, 9]]))
    # Costs of zero, each written as three parts that cancel.
    second = measured([[-1, 2, -1, 1, -1]], np.zeros((5, 5)), -1024, [1, 1, 0, 1, -1], -2048)
    third = measured([[0, -1], [1, -1], [-1, 0]], np.zeros((2, 2)), -1024, [0, 1], -1024)
    rows, cost_q = np.zeros((1, 17)), np.zeros(17)
    rows[0, [0, 5, 10]] = 2.0**20 * np.array([2, -1, 2])
    cost_q[[0, 5]] = -2048
    program = Program.of(
        [first, second, third],
        [20992.0 * 2**20],
        rows_q=rows,
        rows_x=np.zeros((1, 2)),
        cost_q=cost_q,
        cost_x=[3072.0, 0.0],
        sense="min",
    )
    return program, 0


def rows_of_very_different_size() -> tuple[Program, int]:
    """Rows of 2¹⁴ and 2³³, costs of 2²⁰, one free variable."""
    c = [[6, 2, 12, -6, -4], [2, 0, -2, 1, 0], [12, -2, 5, -2, -4], [-6, 1, -2, 1, 2]]
    c = [*c, [-4, 0, -4, 2, 4]]
    more = [[-2, 0, 1, -2, -1], [-2, 1, 2, -1, 0], [-2, 0, -2, 1, 1]]
    block = measured(more, 2.0**20 * np.array(c), 2.0**20, [0, -1, 1, 0, 0], 2.0**21)
    rows, cost_q = np.zeros((2, 8)), np.zeros(8)
    rows[0, [2, 4]] = -(2.0**14)
    rows[1, [0, 2, 6]] = 2.0**33 * np.array([2, -1, -1])
    cost_q[[1, 7]] = 2.0**20 * np.array([-1, -2])
    program = Program.of(
        block,
        [-0.78125, -2072576.0],
        rows_q=rows,
        rows_x=2.0**33 * np.array([[0.0, 0, 0, 0], [1, 1, 0, -1]]),
        cost_q=cost_q,
        cost_x=2.0**20 * np.array([0.0, 1, 0, -1]),
        free_x=[False, True, False, False],
        offset=2.0,
    )
    return program, -151


def multipliers_of_redundant_rows() -> tuple[Program, int]:
    """Ten rows, of which some follow from others, so that their multipliers may grow."""
    features = [[1.0, 0, 1, 0], [0, 1, -1, -1], [-1, 1, -1, -1], [1, 1, 0, 0]]
    incidence = [[0, 1, -1, 0], [0, -1, 1, 1], [1, -1, 1, 0], [-1, -1, 0, 1], [-1, -1, 0, 1]]
    incidence += [[0, 1, 0, 1], [2, -2, 3, 0], [1, 0, 1, -2], [1, 1, 1, 0]]
    cost = [[-510.0, -327, -14, -296], [-327, -688, 231, 267]]
    cost += [[-14, 231, -117, -230], [-296, 267, -230, -766]]
    block = Block.of(4, incidence, features=features, cost=Cost.of(4, sparse=cost))
    integers = np.array(
        [
            [1, 0, 0, 2, -3, 0, 0, 0, 0, 1],
            [-1, 0, -2, -21, 0, 0, 1, 0, 0, 0],
            [-2, 2, 0, 0, 0, 0, 0, 3, 2, 4],
            [1, 0, 0, 0, 1, 0, 0, 1, 0, 1],
            [0, 0, 0, -17, 0, -1, 0, 0, 0, -2],
            [0, 0, -1, 0, -2, 0, 2, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0, -1, 0],
            [1, 0, 0, -1, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, -1, -16, -1, 0, 0, 0, 0],
            [1, 1, 1, 1, 0, 0, 0, 0, 0, 0],
        ],
        dtype=np.float64,
    )
    rhs = [-1024.0, -92160, 161792, 66560, -108544, 92160, 30208, 0, -110592, 19968]
    times = np.array([3 * 2.0**24, 3, 27, 2.0**-12, 3 * 2.0**12, 2048, 2, 3072, 3 * 2.0**-10, 1])
    program = Program.of(
        block,
        times * rhs,
        rows_q=times[:, None] * integers[:, :9],
        rows_x=times[:, None] * integers[:, 9:],
        relations=[0, 0, 0, -1, 0, -1, -1, 0, 0, -1],
        cost_x=[-201.0],
        free_x=[True],
        offset=-2.0,
    )
    return program, -8991746


def a_norm_at_its_limit() -> tuple[Program, int]:
    """min 130‖x‖ − 120x₁ − 50x₂ + 1: the slope (120, 50) has length 130, so that x = 0 is one of
    many optima and a step may have length zero."""
    block = measured([[0, -1, -2], [-2, 2, -2], [-2, 1, -2]], np.zeros((3, 3)))
    program = Program.of(
        block,
        [-58.0],
        rows_q=[[0.0, -2, 0, 0, 0, -1]],
        rows_x=np.zeros((1, 2)),
        relations=">=",
        cost_x=[-120.0, -50.0],
        free_x=[True, True],
        norms=[NormPenalty(130.0, (0, 1))],
        sense="min",
        offset=1.0,
    )
    return program, 1


LINEAR: list[Callable[[], tuple[Program, int]]] = [
    large_costs_beside_small_rows,
    blocks_without_costs,
    rows_of_very_different_size,
    multipliers_of_redundant_rows,
]


@pytest.mark.parametrize(
    ("build", "solver"),
    [
        *((b, s) for b in LINEAR for s in ("interior", "projection", "lowrank", "auto")),
        (a_norm_at_its_limit, "projection"),
        (a_norm_at_its_limit, "auto"),
    ],
)
def test_a_finite_optimum_is_found_or_left_open(
    build: Callable[[], tuple[Program, int]], solver: str
) -> None:
    program, optimum = build()
    solution = solved(program, solver)
    assert solution.status in (Status.OPTIMAL, Status.INACCURATE, Status.ITERATION_LIMIT)
    certificate = solution.certificate
    if solution.status is Status.OPTIMAL:
        scale = max(abs(optimum), program.value_floor)
        assert abs(solution.objective - optimum) <= TOL * scale
    # A safe bound is one without any tolerance, and so are the ends of an enclosure.
    side = int(program.sign)
    if np.isfinite(certificate.safe_bound):
        assert side * (Fraction(certificate.safe_bound) - optimum) >= 0
    proved = certificate.verify()
    assert proved.lower is None or proved.lower <= optimum
    assert proved.upper is None or proved.upper >= optimum


def far_apart() -> Program:
    """M₁₁ ≤ 1, M₁₂ = M₁₁ + 2 and |e₁ − e₂|² ≤ 1 would need M₁₁ ≥ 4, while the other coordinates
    may grow and are worth something."""
    cost = [[-2, -2, -3, 2], [-2, 2, -2, 1], [-3, -2, -4, 4], [2, 1, 4, -4]]
    rows = np.zeros((3, 10))
    rows[0, 0] = 1e4
    rows[1, [0, 1, 4]] = [-3, -1, 1]
    rows[2, [0, 1, 4]] = [200, 200, -100]
    return Program.of(
        measured(pairs(4), 1e-3 * np.array(cost)),
        [1e4, 4, 100],
        rows_q=rows,
        relations=["<=", "==", "<="],
        sense="min",
    )


def far_apart_in_other_coordinates() -> Program:
    """u = e₁ + e₃ and v, z with uᵀMu = 1, 2uᵀMv = 4 and vᵀMv + (more that is ≥ 0) = 1."""
    cost = [[-6, -12, -15, 1, 17], [-12, -6, -11, 3, 12], [-15, -11, -22, 4, 18]]
    cost += [[1, 3, 4, 0, -3], [17, 12, 18, -3, -22]]
    rows = np.zeros((3, 15))
    rows[0, 6] = 0.1
    rows[1, [0, 1, 2, 4, 5, 6, 7, 11, 13]] = 1e-6 * np.array([-1, -2, 1, 2, 1, 1, 1, -1, -1])
    rows[2, [1, 2, 4, 7, 12, 13]] = 1e3 * np.array([1, 1, 3, 1, -1, -1])
    return Program.of(measured(pairs(5), 1e4 * np.array(cost)), [0.1, 4e-6, 1e3], rows_q=rows)


def too_long_a_product() -> Program:
    """M₁₁ = 1, M₂₂ ≤ 1 and M₁₂ = 2, with rows of 10, 1/100 and 100."""
    cost = 1e-3 * np.array([[-4.0, 0, 3], [0, 0, -4], [3, -4, 4]])
    rows = np.zeros((3, 6))
    rows[0, 0], rows[2, 1] = 10, 100
    rows[1, [0, 1, 3]] = [-0.01, -0.01, 0.01]
    return Program.of(
        measured(pairs(3), cost), [10, 0.04, 100], rows_q=rows, relations=["==", "==", "<="]
    )


@pytest.mark.parametrize("solver", ["interior", "projection", "lowrank", "auto"])
@pytest.mark.parametrize("build", [far_apart, far_apart_in_other_coordinates, too_long_a_product])
def test_what_no_point_meets_is_neither_unbounded_nor_optimal(
    build: Callable[[], Program], solver: str
) -> None:
    solution = solved(build(), solver)
    assert solution.status not in (Status.UNBOUNDED, Status.OPTIMAL)
    if solver in ("interior", "auto"):
        assert solution.status is Status.INFEASIBLE
