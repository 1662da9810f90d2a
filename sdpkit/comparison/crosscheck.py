"""Solvers check each other: a value beyond what somebody else has proven is no longer certified.

For a maximisation every certified value lies below every proven bound, up to the tolerances at
which constraints count as kept; for a minimisation above. A proof that there is no solution is a
bound that excludes every value, and an unbounded program has a value beyond every bound.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from sdpkit.comparison.records import RunRecord

# Values count as equal within so many times the tolerances of the two runs.
_SLACK = 2.0


def cross_checked(runs: Iterable[RunRecord]) -> tuple[RunRecord, ...]:
    """The runs, those withdrawn whose answer another solver's bound excludes.

    >>> from sdpkit.comparison.records import RunRecord
    >>> common = dict(suite="", instance="a", kind="mvu", n=1, n_rows=1, fingerprint="f",
    ...               solver_version="", tol=1e-3, repeat=0, start="cold", outcome="optimal",
    ...               success=True, claimed=True, sense="max")
    >>> right = RunRecord(solver="right", objective=1.0, bound=1.0001, **common)
    >>> wrong = RunRecord(solver="wrong", objective=2.0, bound=2.0001, **common)
    >>> [run.outcome for run in cross_checked([right, wrong])]
    ['optimal', 'contradicted']
    """
    runs = tuple(runs)
    same: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for run in runs:
        if run.sense and run.fingerprint:
            same[run.instance, run.fingerprint].append(run)
    return tuple(_checked(run, same.get((run.instance, run.fingerprint), [])) for run in runs)


def _checked(run: RunRecord, others: list[RunRecord]) -> RunRecord:
    value = _value(run)
    if math.isnan(value) or not run.sense:
        return run
    for other in others:
        bound = _bound(other)
        if other.solver != run.solver and _exceeds(run, value, other, bound):
            proof = (
                f"a proof that there is no solution, by {other.solver}"
                if math.isinf(bound)
                else f"the bound {bound:.9g} that {other.solver} has proven at tol {other.tol:g}"
            )
            words = f"withdrawn: {run.outcome} contradicts {proof}; it said: {run.message}"
            return replace(run, outcome="contradicted", success=False, message=words)
    return run


def _value(run: RunRecord) -> float:
    """What a certified run says can be reached, for a maximisation; NaN if it says nothing."""
    if not run.success:
        return math.nan
    sign = 1.0 if run.sense == "max" else -1.0
    if run.outcome == "unbounded":
        return math.inf
    return sign * run.objective if run.outcome == "optimal" else math.nan


def _bound(run: RunRecord) -> float:
    """What a run proves cannot be exceeded, in the program's signs; NaN if it proves nothing."""
    if run.outcome == "infeasible" and run.success:
        return -math.inf if run.sense == "max" else math.inf
    return run.bound if math.isfinite(run.bound) else math.nan


def _exceeds(run: RunRecord, value: float, other: RunRecord, bound: float) -> bool:
    if math.isnan(bound):
        return False
    limit = bound if run.sense == "max" else -bound
    if math.isinf(value) or math.isinf(limit):
        return value > limit
    scale = max(abs(value), abs(limit), _unit(run))
    return value - limit > _SLACK * (run.tol + other.tol) * scale


def _unit(run: RunRecord) -> float:
    """The magnitude that the gap was measured by, from the gap itself."""
    distance = abs(run.bound - run.objective)
    return distance / run.gap if run.gap > 0 and math.isfinite(distance) else 0.0


__all__ = ["cross_checked"]
