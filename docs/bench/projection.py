"""Engines that project: those of Weinberger (2007), section 1.3.4, on toys and fifty points, and
Douglas–Rachford against SCS."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bench.engines import roll_program
from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.certify import certify
from sdpkit.comparison.measuring import quiet_solve, timed_solve
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.reduction import reduce
from sdpkit.solution.solution import Solution
from sdpkit.solvers.multiplier_repair import MultiplierRepair, reduced_anchor
from sdpkit.solvers.sets import TwoSets, metric
from sdpkit.solving.solve import solve
from sdpkit.testing.programs import wedge
from sdpkit.typing import Array

# What SCS is asked for, one after the other, and the iterations it is given.
_ASKED = (1e-4, 1e-6)
_PEER_ITERATIONS = 12_000
_CLASSIC = ("alternating", "gradient-projection", "dykstra")


def touching() -> Program:
    """A 2 × 2 matrix with M₁₁ = 0 and M₁₁ + 2M₁₂ + M₂₂ = 1: a line that touches the cone.

    >>> touching().n_rows
    2
    """
    block = Block.of(2, np.array([[1.0, 0.0], [1.0, 1.0]]), cost=Cost.of(2))
    return Program.of(block, [0.0, 1.0], name="touching")


def projection(sizes: Iterable[int] | None = None, peers: bool = True) -> None:
    """All of it: toys, fifty points, and n points (200) against SCS; given sizes alone."""
    if sizes is None:
        toys()
        fifty()
    for n in sizes or (200,):
        against_scs(n, peers)


def toys() -> None:
    """Rates on programs whose rates are known."""
    for angle in (0.2, 0.5, 1.0):
        solution = quiet_solve(wedge(angle), "alternating", tol=1e-9)
        far = _far(solution)
        far = far[far > 1e-7]
        print(
            f"wedge of {angle}: alternating, {solution.iterations} rounds to 1e-9, factor "
            f"{far[-1] / far[-2]:.5f} a round (theory cos² = {np.cos(angle) ** 2:.5f})",
            flush=True,
        )
    far = _far(quiet_solve(touching(), "alternating", max_iter=3000, tol=1e-9))
    slope = np.log(far[2999] / far[299]) / np.log(10)
    print(f"touching sets: alternating, distance ~ rounds^{slope:.2f}: sublinear", flush=True)
    program = wedge(0.3, cost=(1.0, 0.3), relations=["<=", "=="])
    for name, options in (
        ("gradient-projection", {"step": "constant"}),
        ("gradient-projection", {}),
        ("dykstra", {}),
        ("projection", {}),
    ):
        words = []
        for rounds in (30, 300, 3000):
            solution = quiet_solve(program, name, max_iter=rounds, **options)
            words.append(f"{abs(solution.objective - 1.3):.1e} after {solution.iterations}")
        steps = f" ({options['step']} step)" if options else ""
        print(f"optimum of a wedge: {name}{steps}, error {', '.join(words)}", flush=True)


def fifty(rounds: Sequence[int] = (100, 1000, 5000)) -> None:
    """The thesis's methods on the Swiss roll of 50 points, equality."""
    program = roll_program(50)
    best = solve(program, solver="interior").objective
    for name in (*_CLASSIC, "projection"):
        for limit in rounds:
            run = timed_solve(program, name, max_iter=limit)
            solution, certificate = run.result, run.result.certificate
            print(
                f"n = 50: {name}, {solution.iterations} rounds, "
                f"{run.cpu_seconds:.2g} s of CPU, {solution.status}: objective "
                f"{solution.objective / best:.5f} of the optimum, rows to "
                f"{certificate.primal_residual:.1e}, certified gap {certificate.relative_gap:.1e}",
                flush=True,
            )
            if solution.iterations != limit:
                break


def against_scs(n: int = 200, peers: bool = True) -> None:
    """Seconds of CPU to a certified gap, and what SCS has reached by when.

    SCS's multipliers miss feasibility by far more than its tolerance, because it measures them in
    norms; so it is judged twice, as they are and after the repair that `projection` uses.
    """
    program = roll_program(n)
    quiet_solve(
        roll_program(20), "projection", tol=1e-4
    )  # imports and first calls are not measured
    unit = _eigh_seconds(n)
    ours = {}
    for tol in (1e-3, 1e-4):
        run = timed_solve(program, "projection", tol=tol)
        solution, ours[tol] = run.result, run.cpu_seconds
        print(
            f"n = {n}, {program.n_rows} rows, tol {tol:g}: projection {ours[tol]:.3g} s of CPU "
            f"({ours[tol] / unit:.0f} × one eigh of that size), "
            f"{solution.iterations} iterations, {solution.status}, gap "
            f"{solution.certificate.relative_gap:.1e}, trace {solution.objective:.7g}",
            flush=True,
        )
    if not peers:
        return
    quiet_solve(roll_program(20), "scs", tol=1e-3)
    reached: dict[float, float] = {}
    for eps in _ASKED:
        asked: dict[str, Any] = {"eps_abs": eps, "eps_rel": eps, "max_iter": _PEER_ITERATIONS}
        run = timed_solve(program, "scs", tol=1e-3, **asked)
        solution, seconds = run.result, run.cpu_seconds
        repaired = _repaired(solution)
        print(
            f"    scs, eps {eps:g}: {seconds:.3g} s of CPU, {solution.iterations} iterations, rows "
            f"to {solution.certificate.primal_residual:.1e}, gap as it is "
            f"{solution.certificate.relative_gap:.1e}, repaired {repaired.relative_gap:.1e}",
            flush=True,
        )
        for tol, mine in ours.items():
            good = solution.certificate.passes(tol) or repaired.passes(tol)
            if good and tol not in reached:
                reached[tol] = seconds
                print(f"    scs has {tol:g}: projection is {seconds / mine:.0f} times faster")
    for tol, mine in ours.items():
        if tol not in reached:
            print(
                f"    scs has not reached {tol:g} after {seconds:.3g} s: projection is more than "
                f"{seconds / mine:.0f} times faster"
            )


def _eigh_seconds(n: int) -> float:
    """Seconds of CPU of one eigendecomposition: what a round is made of."""
    matrix = np.random.default_rng(0).standard_normal((n, n))
    matrix += matrix.T
    begin = time.process_time()
    np.linalg.eigh(matrix)
    return max(time.process_time() - begin, 1e-6)


def _repaired(solution: Solution) -> Certificate:
    given = solution.dual
    dual = None if given is None else feasible_multipliers(solution.program, given)
    return certify(solution.program, solution.matrices, solution.x, dual)


def feasible_multipliers(program: Program, dual: Array) -> Array | None:
    """Multipliers near `dual` that are feasible, by the repair that `projection` uses for its own.

    None where the metric has no repair. Any solver's multipliers will do.

    >>> from sdpkit import MVU, datasets
    >>> program = MVU(graph=datasets.path_graph(3)).program()     # w = (1, 1) is optimal
    >>> w = feasible_multipliers(program, np.array([0.9, 1.0]))
    >>> bool(program.blocks[0].smallest_of_slack(w, 1.0) >= -1e-12)
    True
    """
    reduction = reduce(program, orthonormal=True)
    sets = TwoSets(reduction.program, metric(reduction.program))
    repair = MultiplierRepair.of(sets, reduced_anchor(reduction))
    if repair is None:
        return None
    w = reduction.lower_multipliers(program.sign * dual)
    repaired = sets.multipliers(repair.feasible(sets.from_multipliers(w)))
    return reduction.lift(Answer(Stop.DONE, "", dual=repaired)).dual


def _far(solution: Solution) -> Any:
    return np.array([row["distance to the rows"] for row in solution.history])
