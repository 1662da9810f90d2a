"""A better bound from multipliers near given ones: the search that follows a poor certificate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpkit.certificate.bounds import SafeBound, into_conditions, safe_bound
from sdpkit.certificate.centring import centres, degree
from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.complementary import complementary
from sdpkit.numerics.deadline import Abandoned, Deadline
from sdpkit.program.gram import trace
from sdpkit.typing import Array

# What the search may take: a share of the seconds of the solve that is judged, and seconds that a
# small program always has.
_SHARE, _LEAST_SECONDS = 0.5, 0.6
# The gap that is looked for and at which the search ends, as shares of the tolerance.
_GOAL, _ENOUGH = 0.01, 0.3
# Centres without a better bound after which it ends.
_PATIENCE = 3


def time_to_judge(seconds: float) -> Deadline:
    """The deadline of a search that follows a solve of so many seconds."""
    return Deadline.after(max(_LEAST_SECONDS, _SHARE * seconds))


def bound_inside(
    certificate: Certificate, dual: Array, tol: float, deadline: Deadline
) -> SafeBound | None:
    """The best bound of multipliers near `dual`, if it is better than the certificate's; or None.

    Complementary ones are tried first, then strictly feasible ones of smaller and smaller value.
    The search ends where the gap is well below `tol`, or at the deadline.
    """
    program, objective = certificate.program, _objective(certificate)
    w = program.sign * dual
    if not np.isfinite([objective, *w]).all():
        return None
    best: SafeBound | None = None
    known, unit = _bound(certificate), certificate.unit or 1.0
    unit = unit if np.isfinite(unit) else max(abs(objective), program.value_floor)
    behind = 0
    try:
        with deadline.applies():
            for moved, is_centre in _moved(certificate, w, tol * unit):
                bound = safe_bound(program, moved)
                better = bound.value < (known if best is None else best.value)
                behind = 0 if better else behind + is_centre
                best = bound if better else best
                near = best is not None and abs(best.value - objective) <= _ENOUGH * tol * unit
                if near or behind >= _PATIENCE:
                    break
    except Abandoned:
        pass
    return best


def _moved(certificate: Certificate, w: Array, allowed: float) -> Iterator[tuple[Array, bool]]:
    """Multipliers near w that may be feasible, and whether they are strictly so by design."""
    program = certificate.program
    if certificate.matrices is not None and certificate.x is not None:
        for exact in complementary(program, list(certificate.matrices), certificate.x, w):
            yield exact, False
    w = into_conditions(program, w)
    first = _first_gap(certificate, w, allowed) / degree(program)
    for centre in centres(program, w, first, _GOAL * allowed / degree(program)):
        yield centre, True


def _objective(certificate: Certificate) -> float:
    """The objective of the maximisation, without the offset."""
    program = certificate.program
    return program.sign * (certificate.objective - program.offset)


def _bound(certificate: Certificate) -> float:
    """The safe bound of the maximisation, without the offset."""
    program = certificate.program
    return program.sign * (certificate.safe_bound - program.offset)


def _first_gap(certificate: Certificate, w: Array, allowed: float) -> float:
    """The distance from the optimum at which the search begins: that of the values, and what the
    dual is short of feasibility."""
    program = certificate.program
    gap = abs(program.dual_value(w) - _objective(certificate))
    short = max(0.0, -certificate.min_eigenvalue_dual)
    size = sum(trace(m) for m in certificate.matrices or ())
    gap = gap if np.isfinite(gap) else 0.0
    size = size if np.isfinite(size) and np.isfinite(short) else 0.0
    return max(gap + short * size, allowed)


__all__ = ["bound_inside", "time_to_judge"]
