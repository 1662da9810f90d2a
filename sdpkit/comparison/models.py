"""cvxpy models that take part in a comparison: how they travel to other processes, and which
solvers may solve them.

A model is solved natively, by `problem.solve(solver=…)` of cvxpy with the solver's compilation.
Engines of sdpkit take part through `sdpkit.cvxpy_solver`.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from dataclasses import dataclass
from typing import Any

from sdpkit.errors import InputError, SolverUnavailableError, UnsuitableSolverError
from sdpkit.solving.registry import available_solvers

# The kind of an instance that is a cvxpy model.
MODEL = "cvxpy"
# Option names of each solver for a tolerance, and for a limit in seconds; "" if there is none.
_OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "CLARABEL": (("tol_gap_abs", "tol_gap_rel", "tol_feas"), "time_limit"),
    "SCS": (("eps_abs", "eps_rel"), "time_limit_secs"),
    "OSQP": (("eps_abs", "eps_rel"), "time_limit"),
    "ECOS": (("abstol", "reltol", "feastol"), ""),
    "CVXOPT": (("abstol", "reltol", "feastol"), ""),
    "HIGHS": (("primal_feasibility_tolerance", "dual_feasibility_tolerance"), "time_limit"),
    "PIQP": (("eps_abs", "eps_rel"), ""),
    "PROXQP": (("eps_abs", "eps_rel"), ""),
    "QOCO": (("abstol", "reltol"), ""),
}
# Iterations where a solver's own limit would end a run long before its time is over.
_ITERATIONS = {"SCS": ("max_iters", 1_000_000), "OSQP": ("max_iter", 1_000_000)}
# HiGHS takes no smaller tolerance.
_LEAST = {"HIGHS": 1e-10}
# Solvers of mixed-integer programs only, which add nothing here.
_INTEGER = ("GLPK_MI", "CBC", "SCIP", "ECOS_BB", "SCIPY")


@dataclass(frozen=True)
class ComparedModel:
    """A cvxpy problem for another process.

    Attributes
    ----------
    name: what it is called;  pickled: the problem without what solvers left in it
    fresh: a number above those of all its variables and constraints
    """

    name: str
    pickled: bytes
    fresh: int

    @classmethod
    def of(cls, name: str, problem: Any) -> ComparedModel:
        """The model; refused where it cannot be pickled."""
        import cvxpy
        from cvxpy.lin_ops import lin_utils

        plain = cvxpy.Problem(problem.objective, problem.constraints)
        try:
            pickled = pickle.dumps(plain)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"the model {name!r} cannot be sent to another process: {error}"
            ) from error
        return cls(name, pickled, int(lin_utils.get_id()))

    def build(self) -> Any:
        """The problem, in a process whose new variables get numbers of their own."""
        from cvxpy.lin_ops import lin_utils

        # cvxpy numbers variables by a counter, which starts again in every process.
        while lin_utils.get_id() <= self.fresh:
            continue
        return pickle.loads(self.pickled)


def is_cvxpy_problem(thing: Any) -> bool:
    """Whether it is a cvxpy problem, without importing cvxpy."""
    module = sys.modules.get("cvxpy")
    return module is not None and isinstance(thing, module.Problem)


def is_cvxpy_solver(name: str) -> bool:
    """Whether cvxpy has a solver of this name, installed or not. Its names are in capitals."""
    if name != name.upper():
        return False
    from cvxpy import settings

    return name in settings.SOLVERS or name in _OPTIONS


def engine_of(name: str) -> str:
    """Our backend for a solver of cvxpy, for problems that are no cvxpy models."""
    engine = name.lower().removeprefix("sdpkit_")
    if engine not in available_solvers():
        raise UnsuitableSolverError(
            f"{name} takes part with cvxpy models only, and this instance is a problem or program "
            f"of sdpkit; for these use {', '.join(available_solvers())}"
        )
    return engine


def solvers_of_models() -> list[str]:
    """The installed solvers of cvxpy for continuous models, and our `interior`."""
    import cvxpy

    theirs = [name for name in cvxpy.installed_solvers() if name not in _INTEGER]
    ours = [name for name in theirs if name.startswith("SDPKIT")]
    return [*(name for name in theirs if name not in ours), "interior"]


def native_arguments(name: str, tol: float, limit: float) -> dict[str, Any]:
    """The arguments of `problem.solve` for a solver at a tolerance, within seconds."""
    if name == "auto" or name in available_solvers():
        from sdpkit.conic.cvxpy import cvxpy_solver

        return {"solver": cvxpy_solver(name), "tol": tol, "time_limit": limit}
    _require_installed(name)
    if name.startswith("SDPKIT"):
        return {"solver": name, "tol": tol, "time_limit": limit}
    tolerances, time_option = _OPTIONS.get(name, ((), ""))
    least = max(tol, _LEAST.get(name, 0.0))
    arguments: dict[str, Any] = {"solver": name, **dict.fromkeys(tolerances, least)}
    if time_option:
        arguments[time_option] = limit
    if name in _ITERATIONS:
        option, count = _ITERATIONS[name]
        arguments[option] = count
    return arguments


def _require_installed(name: str) -> None:
    import cvxpy

    installed = cvxpy.installed_solvers()
    if name not in installed:
        raise SolverUnavailableError(
            f"the solver {name} is not installed; cvxpy finds {', '.join(installed)}, and sdpkit "
            f"has {', '.join(available_solvers())}"
        )


def fingerprint_of_model(data: dict[str, Any], sense: str) -> str:
    """A hash of the data that cvxpy compiled a model to."""
    import numpy as np
    import scipy.sparse as sp

    digest = hashlib.sha256(sense.encode())
    for key in ("P", "c", "A", "b"):
        part: Any = data.get(key)
        if part is None:
            continue
        matrix: Any = sp.coo_array(np.atleast_2d(part) if isinstance(part, np.ndarray) else part)
        matrix.sum_duplicates()
        digest.update(f"{key} {matrix.shape}".encode())
        for numbers in (*matrix.coords, matrix.data):
            digest.update(numbers.tobytes())
    return digest.hexdigest()[:16]
