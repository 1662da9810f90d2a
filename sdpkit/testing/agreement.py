"""Whether solutions of the same program agree, as far as their certificates claim."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from sdpkit.solution.solution import Solution


def uncertainty(solution: Solution) -> float:
    """The certified gap, and what the residuals cost by the multipliers."""
    program = solution.program
    assert solution.dual is not None, f"{solution.solver} returned no multipliers"
    off = program.violations(program.measure(solution.matrices), solution.x)
    gap = abs(solution.certificate.safe_bound - solution.objective)
    return gap + float(np.abs(solution.dual) @ off)


def check_bound(bound: Solution, point: Solution) -> None:
    """The bound of one solution against the point of another, which is feasible to a tolerance:

    tr K ≤ dᵀw + wᵀ(A(K) − d) + ε·tr(L(w) − C) for K ⪰ −εI, and so for any program in this form.
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
    """All values agree within what is uncertain about them, and no bound cuts off a point."""
    for a, b in itertools.combinations(solutions, 2):
        difference, allowed = abs(a.objective - b.objective), uncertainty(a) + uncertainty(b)
        assert difference <= allowed, (
            f"{a.solver} found {a.objective!r} and {b.solver} {b.objective!r}; their "
            f"certificates allow a difference of {allowed:.2e} only"
        )
    for bound, point in itertools.product(solutions, repeat=2):
        check_bound(bound, point)
