"""One solver on one cvxpy model, once: what `sdpkit.compare` has a child process do for a model.

The solver is called by `problem.solve`, so that its time has two parts: cvxpy's compilation and
the solver. What it claims is read from `problem.status`; what is proven comes from the certificate
of the values that it left in the model, the same for every solver (`sdpkit.certify_cvxpy`). A claim
that there is no solution counts if sdpkit finds a proof for it.
"""

from __future__ import annotations

import importlib.metadata
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpkit.comparison.measuring import Timed, forget_peak, timed
from sdpkit.comparison.models import ComparedModel, fingerprint_of_model, native_arguments
from sdpkit.errors import InputError, SdpkitError, UnsuitableSolverError
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.solve import solve

if TYPE_CHECKING:
    from sdpkit.certificate.certificate import Certificate
    from sdpkit.comparison.trial import Trial
    from sdpkit.conic.conic_certificate import ConicCertificate
    from sdpkit.solution.process import Tell

# Seconds for a proof of what a solver claims, at least and as a share of the limit.
_PROOF = (5.0, 0.5)
# Packages whose names are not those of the solvers in small letters.
_PACKAGES = {"HIGHS": "highspy", "SCIPY": "scipy", "GLPK": "cvxopt"}


def describe_model(tell: Tell, model: ComparedModel) -> None:
    """Compile the model and say what it is."""
    tell("described", _description(model.build()))


def attempt_model(tell: Tell, trial: Trial, model: ComparedModel) -> None:
    """Compile, solve, certify; raises what goes wrong."""
    import cvxpy

    problem = model.build()
    described = _description(problem)
    tell("described", described)
    arguments = native_arguments(trial.solver, trial.tol, trial.time_limit)
    tell("described", {**described, "solver_version": _version(trial.solver)})
    plain = cvxpy.Problem(problem.objective, problem.constraints)
    try:  # whether the solver takes such a model
        plain.get_problem_data(solver=arguments["solver"])
    except cvxpy.error.SolverError as error:
        words = " ".join(str(error).split())
        raise UnsuitableSolverError(f"cvxpy cannot pass it to {trial.solver}: {words}") from error
    _warm_up(arguments)
    tell("loaded", None)
    forget_peak()
    tell("started", None)
    run = timed(lambda: problem.solve(**arguments))
    tell("started", None)  # the clock of the certificate starts
    tell("result", _result(problem, run, trial))


def _refuse(problem: Any) -> None:
    """Refuse models that no solver could be compared on."""
    from sdpkit.conic.refusals import refuse_types

    try:
        refuse_types(problem)
    except InputError as error:
        raise UnsuitableSolverError(str(error)) from error
    known = [*problem.constants(), *problem.parameters()]
    for constant in known:
        value = constant.value
        entries = np.asarray(value.data if hasattr(value, "tocoo") else value)
        if not np.isfinite(entries).all():
            raise UnsuitableSolverError(
                f"the model's data hold NaN or infinity, in a constant of shape {constant.shape}: "
                "replace or leave out these entries"
            )


def _description(problem: Any) -> dict[str, Any]:
    """What the model is, by the form that cvxpy compiles for Clarabel."""
    import cvxpy

    _refuse(problem)
    sense = "max" if isinstance(problem.objective, cvxpy.Maximize) else "min"
    plain = cvxpy.Problem(problem.objective, problem.constraints)
    data = plain.get_problem_data(solver=cvxpy.CLARABEL)[0]
    return {
        "kind": "cvxpy",
        "n": int(problem.size_metrics.num_scalar_variables),
        "n_rows": int(
            problem.size_metrics.num_scalar_eq_constr + problem.size_metrics.num_scalar_leq_constr
        ),
        "fingerprint": fingerprint_of_model(data, sense),
        "sense": sense,
        "value_floor": 1.0,
    }


def _warm_up(arguments: dict[str, Any]) -> None:
    """Solve a model of one variable, so that imports are done."""
    import cvxpy

    x = cvxpy.Variable()
    model = cvxpy.Problem(cvxpy.Minimize(x), [x >= 1, x <= 2])
    try:
        model.solve(**arguments)
    except (cvxpy.error.SolverError, SdpkitError, ValueError, TypeError):
        return  # what goes wrong here will go wrong again when it counts


def _result(problem: Any, run: Timed[Any], trial: Trial) -> dict[str, Any]:
    import cvxpy

    statistics = problem.solver_stats
    compiled = float(problem.compilation_time or math.nan)
    told = {
        "native_status": str(problem.status),
        "claimed": problem.status in (cvxpy.OPTIMAL, cvxpy.INFEASIBLE, cvxpy.UNBOUNDED),
        "iterations": _iterations(statistics),
        "compile": compiled,
        "setup": float(getattr(statistics, "setup_time", None) or 0.0),
        "solve": run.seconds - compiled if compiled <= run.seconds else run.seconds,
        "total": run.seconds,
        "peak": run.peak_bytes,
    }
    if problem.status in cvxpy.settings.SOLUTION_PRESENT:
        return told | _of_values(problem, trial.tol)
    if problem.status in cvxpy.settings.INF_OR_UNB:
        return told | _of_claim(problem, trial)
    return told | {"outcome": str(Status.INACCURATE), "message": _no_answer(problem)}


def _no_answer(problem: Any) -> str:
    return f"the solver gave no values; cvxpy's status is {problem.status}"


def _iterations(statistics: Any) -> int:
    count = getattr(statistics, "num_iters", None)
    return int(count) if isinstance(count, int | np.integer) else -1


def _of_values(problem: Any, tol: float) -> dict[str, Any]:
    """What the certificate of the values says."""
    from sdpkit.conic.certifying import certify_cvxpy

    try:
        done = timed(lambda: certify_cvxpy(problem))
    except SdpkitError as error:
        words = f"claimed {problem.status}, and no certificate could be made: {error}"
        value = float(problem.value)
        return {"outcome": str(Status.INACCURATE), "message": words, "objective": value}
    certificate: Certificate | ConicCertificate = done.result
    passes = certificate.passes(tol)
    words = (
        f"certified to a relative gap of {certificate.gap_in_words}"
        if passes
        else f"tol {tol:g} was not reached: {'; '.join(certificate.failures(tol))} "
        f"(cvxpy's status: {problem.status})"
    )
    found = {
        "outcome": str(Status.OPTIMAL if passes else Status.INACCURATE),
        "message": words,
        "objective": certificate.objective,
        "bound": certificate.safe_bound,
        "gap": certificate.relative_gap,
        "primal_residual": certificate.primal_residual,
        "dual_residual": certificate.dual_residual,
        "certify": done.seconds,
    }
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in found.items()}


def _sense(problem: Any) -> str:
    import cvxpy

    return "max" if isinstance(problem.objective, cvxpy.Maximize) else "min"


def _of_claim(problem: Any, trial: Trial) -> dict[str, Any]:
    """A claim that there is no solution, with sdpkit's proof of it if there is one."""
    from sdpkit.conic.cvxpy import from_cvxpy

    claim = str(problem.status)
    limit = max(_PROOF[0], _PROOF[1] * trial.time_limit)
    try:
        program = from_cvxpy(problem)
        done = timed(lambda: solve(program, time_limit=limit, tol=trial.tol))
    except SdpkitError as error:
        words = f"the solver claims {claim}; there is no proof of it: {error}"
        return {"outcome": str(Status.INACCURATE), "message": words}
    status = _in_model(done.result, _sense(problem))
    told = {"certify": done.seconds}
    infeasible = claim.startswith("infeasible")
    proven = status in (Status.INFEASIBLE, Status.UNBOUNDED, Status.INFEASIBLE_OR_UNBOUNDED)
    if proven and (status is Status.INFEASIBLE) == infeasible:
        outcome = Status.INFEASIBLE if infeasible else Status.UNBOUNDED
        words = f"the solver claims {claim}, and sdpkit proves it: {done.result.message}"
        return told | {"outcome": str(outcome), "message": words}
    if status is Status.OPTIMAL:
        words = f"the solver claims {claim}, but sdpkit has a certified optimum: "
        words += f"{done.result.objective:.9g}"
        return told | {"outcome": "contradicted", "message": words}
    words = f"the solver claims {claim}; sdpkit found no proof of it ({done.result.message})"
    return told | {"outcome": str(Status.INACCURATE), "message": words}


def _in_model(solution: Solution, sense: str) -> Status:
    """The status of the model, whose program may be that of its dual."""
    if solution.status is Status.OPTIMAL or solution.program.sense == sense:
        return solution.status
    swapped = {
        Status.INFEASIBLE: Status.INFEASIBLE_OR_UNBOUNDED,
        Status.UNBOUNDED: Status.INFEASIBLE,
        Status.INFEASIBLE_OR_UNBOUNDED: Status.INFEASIBLE,
    }
    return swapped.get(solution.status, solution.status)


def _version(name: str) -> str:
    """The version of the solver's package; sdpkit's for our engines."""
    package = _PACKAGES.get(name, name.lower() if name == name.upper() else "sdpkit")
    if name.startswith("SDPKIT"):
        package = "sdpkit"
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
