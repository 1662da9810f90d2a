"""Whether solutions of the same program agree, as far as their certificates claim."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from sdpkit.solution.solution import Solution


def uncertainty(solution: Solution) -> float:
    """How uncertain a value is: the certified gap and what the residuals may be worth.

    Parameters
    ----------
    solution : Solution
        A solution with multipliers.

    Returns
    -------
    float
        In the unit of the objective.

    Examples
    --------
    >>> import sdpkit
    >>> ring = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    >>> uncertainty(sdpkit.solve(ring, "interior", tol=1e-6)) < 1e-4
    True
    """
    program = solution.program
    assert solution.dual is not None, f"{solution.solver} returned no multipliers"
    off = program.violations(program.measure(solution.matrices), solution.x)
    gap = abs(solution.certificate.safe_bound - solution.objective)
    return gap + float(np.abs(solution.dual) @ off)


def check_bound(bound: Solution, point: Solution) -> None:
    """Check the bound of one solution against the point of another.

    The point is feasible to a tolerance only, so that the bound is weakened by what this allows:
    tr K ≤ dᵀw + wᵀ(A(K) − d) + ε·tr(L(w) − C) for K ⪰ −εI, and likewise for any program.

    Parameters
    ----------
    bound : Solution
        The solution whose safe bound is checked.
    point : Solution
        The solution whose point is checked.

    Raises
    ------
    AssertionError
        If the point is beyond the bound.

    Examples
    --------
    >>> import sdpkit
    >>> ring = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    >>> solution = sdpkit.solve(ring, "interior")
    >>> check_bound(solution, solution)
    """
    program, certificate = bound.program, bound.certificate
    w = certificate.multipliers
    if w is None:
        assert bound.dual is not None, f"{bound.solver} returned no multipliers"
        w = program.sign * bound.dual
    off = program.row_values(program.measure(point.matrices), point.x) - program.rhs
    slack = 0.0
    for block, S, K in zip(program.blocks, program.dual_slacks(w), point.matrices, strict=True):
        epsilon = max(0.0, -float(np.linalg.eigvalsh(np.asarray(K))[0]))
        slack += epsilon * abs(float(np.trace(block.face.T @ S @ block.face)))
    value, limit = program.sign * point.objective, program.sign * certificate.safe_bound
    allowed = float(w @ off) + slack + 1e-11 * max(abs(value), abs(limit))
    assert value <= limit + allowed, (
        f"{bound.solver} bounds the optimum by {certificate.safe_bound!r}, but the point of "
        f"{point.solver} has the value {point.objective!r}"
    )


def check_agreement(solutions: Sequence[Solution]) -> None:
    """Check that all values agree within what is uncertain, and that no bound cuts off a point.

    Parameters
    ----------
    solutions : sequence of Solution
        Solutions of the same program.

    Raises
    ------
    AssertionError
        If two of them contradict each other.

    Examples
    --------
    >>> import sdpkit
    >>> ring = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    >>> check_agreement([sdpkit.solve(ring, s, tol=1e-6) for s in ("interior", "projection")])
    """
    for a, b in itertools.combinations(solutions, 2):
        difference, allowed = abs(a.objective - b.objective), uncertainty(a) + uncertainty(b)
        assert difference <= allowed, (
            f"{a.solver} found {a.objective!r} and {b.solver} {b.objective!r}; their "
            f"certificates allow a difference of {allowed:.2e} only"
        )
    for bound, point in itertools.product(solutions, repeat=2):
        check_bound(bound, point)
