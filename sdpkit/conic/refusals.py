"""Which cvxpy models a program in squared lengths cannot hold; messages name the reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdpkit.errors import InputError


class UnsupportedConesError(InputError):
    """A model that needs cones which no program in squared lengths has."""


def refuse_types(problem: Any) -> None:
    """Refuse what is no convex cvxpy problem with continuous variables and known parameters."""
    import cvxpy

    if not isinstance(problem, cvxpy.Problem):
        raise InputError(f"expected a cvxpy.Problem, not {type(problem).__name__}")
    for variable in problem.variables():
        kind = [word for word in ("boolean", "integer") if variable.attributes.get(word)]
        if kind:
            raise InputError(
                f"variable {variable.name()!r} is {kind[0]}; sdpkit solves convex programs only. "
                "Relax it, for example to bounds or to a PSD matrix."
            )
    unset = [p.name() for p in problem.parameters() if p.value is None]
    if unset:
        raise InputError(f"parameter {unset[0]!r} has no value; set it before compiling the model")
    if not problem.is_dcp():
        raise InputError("the model is not convex by cvxpy's rules (problem.is_dcp() is False)")


def refuse_atoms(problem: Any) -> None:
    """Refuse exponential and power cones, and a log det that is left in a constraint."""
    import cvxpy
    from cvxpy.atoms import EXP_ATOMS

    if any(isinstance(a, type) and a.__name__ == "log_det" for a in problem.atoms()):
        raise UnsupportedConesError(
            "the model uses log_det in a constraint; sdpkit takes it as a term of the objective, "
            "as in cp.Maximize(cp.log_det(X)). Solve the model with solver='CLARABEL' or 'SCS'."
        )
    atoms = {a.__name__ for a in problem.atoms() if a in EXP_ATOMS}
    cones = {
        type(c).__name__
        for c in problem.constraints
        if isinstance(c, cvxpy.ExpCone | cvxpy.PowCone3D | cvxpy.PowConeND)
        or "RelEntr" in type(c).__name__
    }
    if atoms or cones:
        names = ", ".join(sorted(atoms | cones))
        raise UnsupportedConesError(
            f"the model uses {names}, which needs an exponential or power cone; sdpkit has "
            "linear, second-order and semidefinite ones. Solve it with solver='CLARABEL' or 'SCS'; "
            "sdpkit.certify_cvxpy then judges the answer."
        )


def refuse_wild_data(problem: Any, compiled: dict[str, Any]) -> None:
    """Refuse data that are not finite, and name the part of the model that holds them."""
    parts = [compiled[name] for name in ("c", "b", "A", "P") if compiled.get(name) is not None]
    if all(np.isfinite(getattr(part, "data", part)).all() for part in parts):
        return
    for part in (problem.objective, *problem.constraints):
        for leaf in (*part.constants(), *part.parameters()):
            value = leaf.value
            if not np.isfinite(getattr(value, "data", value)).all():
                raise InputError(
                    f"the data of the model must be finite; NaN or infinite numbers are in: {part}"
                )
    raise InputError("the data of the model must be finite; its compiled form has NaN or infinity")
