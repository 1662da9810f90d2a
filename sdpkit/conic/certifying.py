"""`certify_cvxpy`: a certificate for the values that any solver left in a cvxpy model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpkit.conic.cvxpy import certify_by_program
from sdpkit.conic.refusals import UnsupportedConesError, refuse_types
from sdpkit.errors import InputError

if TYPE_CHECKING:
    import cvxpy

    from sdpkit.certificate.certificate import Certificate
    from sdpkit.conic.conic_certificate import ConicCertificate

# A gap above this may be that of the multipliers and not of the values.
_POOR = 1e-5


def certify_cvxpy(problem: cvxpy.Problem) -> Certificate | ConicCertificate:
    """Certify the values in a solved model, whichever solver put them there.

    Everything is recomputed from the variables' ``.value`` and the constraints' `.dual_value`:
    residuals, smallest eigenvalues, a safe bound on the optimal value, the gap and the DIMACS
    errors; `Certificate.passes` compares them with a tolerance, `Certificate.verify` proves the
    bound. The solver's status is never looked at. Quantities that cvxpy introduced and does not
    give back (epigraph variables, the multipliers of cones inside of atoms) are filled in as
    favourably as the given values allow. This cannot hide a wrong value, because residuals and
    bound count the given values too.

    Models with exponential or power cones have a certificate of their own, with the same words: the
    objective and the residuals are those of the model, and the bound is that of multipliers in the
    dual cones. Where the model has no multipliers for its inner cones, a second solve gives them.

    Parameters
    ----------
    problem : cvxpy.Problem
        A model whose variables have values.

    Returns
    -------
    Certificate or ConicCertificate
        The certificate; models with exponential or power cones have a `ConicCertificate`, whose
        methods have the same names.

    Examples
    --------
    >>> import cvxpy, sdpkit
    >>> X = cvxpy.Variable((2, 2), PSD=True)
    >>> model = cvxpy.Problem(cvxpy.Maximize(X[0, 1]), [cvxpy.diag(X) == 1])
    >>> value = model.solve(solver="CLARABEL")
    >>> sdpkit.certify_cvxpy(model).passes(1e-6)
    True
    >>> X.value = 1.01 * X.value
    >>> sdpkit.certify_cvxpy(model).passes(1e-6)
    False
    """
    from sdpkit.conic.judging import certify_nonlinear

    refuse_types(problem)
    try:
        certificate = certify_by_program(problem)
    except UnsupportedConesError:
        return certify_nonlinear(problem)
    if certificate.relative_gap <= _POOR:
        return certificate
    return _with_joint_step(problem, certificate)


def _with_joint_step(problem: Any, certificate: Certificate) -> Certificate | ConicCertificate:
    """The certificate of multipliers that a joint step moves into the dual, if there are any."""
    from sdpkit.conic.judging import certify_nonlinear

    try:
        moved = certify_nonlinear(problem)
    except InputError:
        return certificate
    better = moved.relative_gap < certificate.relative_gap
    if better or np.isnan(certificate.objective):
        return replace(moved, warnings=certificate.warnings)
    return certificate
