"""The status: a function of the certificate, the ray and why the solver stopped. Nothing else
grants one.

    optimal                        gap, residuals and eigenvalues meet tol
    infeasible                     a ray, or a chain of faces without points, was found and checked
    unbounded                      a direction was checked, and a feasible point is proven
    infeasible_or_unbounded        a direction was checked, but no feasible point is known
    time_limit, iteration_limit,   the solver stopped there, and the certificate does not pass
    interrupted
    stationary                     a local solution of a given rank, or the end of a search over
                                   several programs, each certified
    inaccurate                     anything else; the message has what was reached
"""

from __future__ import annotations

import numpy as np

from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.rays import Ray
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.solution import Status

_LIMITS = {
    Stop.TIME_LIMIT: Status.TIME_LIMIT,
    Stop.ITERATION_LIMIT: Status.ITERATION_LIMIT,
    Stop.INTERRUPTED: Status.INTERRUPTED,
}
# A value below this share of its terms is the result of cancellation.
_CANCELS = 1e-3
# No tolerance above this is advised.
_COARSE = 0.1


def verdict(
    certificate: Certificate, ray: Ray | None, answer: Answer, tol: float
) -> tuple[Status, str]:
    """The status and the message."""
    if ray is not None and certificate.program.is_dual_side:
        return _as_written(ray)
    if ray is not None:
        return _without_optimum(certificate, ray)
    if certificate.passes(tol):
        return Status.OPTIMAL, f"certified to a relative gap of {certificate.gap_in_words}"
    words = "; ".join(certificate.failures(tol)) + _cancelled(certificate)
    message = f"tol {tol:g} was not reached: {words} (the solver reported: {answer.native_status})"
    status = _LIMITS.get(answer.stop, Status.INACCURATE)
    limited = any(block.max_rank is not None for block in certificate.program.blocks)
    if status is Status.INACCURATE and limited:
        message = f"a local solution of the given rank; compared with every rank: {message}"
        return Status.STATIONARY, message
    return status, message


def _without_optimum(certificate: Certificate, ray: Ray) -> tuple[Status, str]:
    what = ray.proof or f"it holds to a relative {ray.violation:.2g}"
    if ray.kind == "infeasible":
        point = _about_point(certificate)
        return (
            Status.INFEASIBLE,
            f"a ray shows that the program is infeasible ({what}); {point}",
        )
    if ray.point is not None:
        return Status.UNBOUNDED, (
            f"the objective improves without end from the feasible point that is returned, "
            f"along the ray ({what})"
        )
    return Status.INFEASIBLE_OR_UNBOUNDED, (
        f"a direction improves the objective without end ({what}), so that the dual is "
        "infeasible; whether the program is unbounded or infeasible is open, because neither "
        f"a feasible point of bounded size nor a proof of infeasibility was found; "
        f"{_about_point(certificate)}. To decide, solve the program without its objective, or "
        "remove constraints that fix parts of a matrix to zero"
    )


def _as_written(ray: Ray) -> tuple[Status, str]:
    """The same for a model whose program is its dual (`sdpkit.program.dual_side`)."""
    what = ray.proof or f"it holds to a relative {ray.violation:.2g}"
    if ray.kind == "infeasible":
        return Status.INFEASIBLE_OR_UNBOUNDED, (
            "a direction of the variables improves the objective without end and leaves no "
            f"constraint ({what}): the model is unbounded if it has a feasible point at all. To "
            "decide, solve it without its objective"
        )
    return Status.INFEASIBLE, (
        f"multipliers of the constraints show that the model is infeasible ({what}); no point is "
        "returned"
    )


def _cancelled(certificate: Certificate) -> str:
    """What to do where values are small compared with the terms that cancel in them."""
    gap, terms = abs(certificate.objective - certificate.safe_bound), certificate.terms
    error = certificate.largest_error
    if not np.isfinite([gap, terms, error]).all() or not certificate.unit < _CANCELS * terms:
        return ""
    offset = abs(certificate.program.offset)
    enough = 10.0 ** np.ceil(np.log10(error))
    advice = [f"ask for tol={enough:g} if that is enough"] if enough <= _COARSE else []
    advice += ["leave the constant out of the objective"] if offset > 0.1 * terms else []
    return (
        f". The objective and its bound differ by {gap:.2g}; they are sums of terms of size "
        f"{terms:.2g}, which cancel, and rounding limits what can be reached"
        + (f": {', or '.join(advice)}" if advice else "")
    )


def _about_point(certificate: Certificate) -> str:
    if np.isfinite(certificate.objective):
        return "the returned point is the solver's last one and no solution"
    return "no point is returned, and the objective is nan"


__all__ = ["verdict"]
