"""The search for a proof that there is no solution, where a solver could not solve.

A solver that claims there is no solution rarely returns its ray through a modelling layer. So the
deepest point is sought first (`sdpkit.solving.feasibility`), then the elastic and the recession
program (`sdpkit.solving.auxiliary`) are solved by the same solver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sdpkit.certificate.certify import certify
from sdpkit.certificate.points import FeasiblePoint
from sdpkit.certificate.rays import RAY_TOL, Ray, certify_infeasible, certify_unbounded
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Stop
from sdpkit.solution.solver import Solver
from sdpkit.solving.auxiliary import elastic, recession
from sdpkit.solving.candidate import Candidate, is_feasible, repair_primal
from sdpkit.solving.choice import offers, suitable
from sdpkit.solving.feasibility import decide, may_be_found
from sdpkit.solving.run import Run

# What another solver may expect to need for an auxiliary program.
_QUICK_SECONDS = 5.0
_DOUBTFUL = (Stop.CLAIMS_INFEASIBLE, Stop.CLAIMS_UNBOUNDED, Stop.FAILED)


def find_ray(run: Run, candidate: Candidate) -> Ray | None:
    """A ray that passes, or None; a direction comes with a feasible point, if one is found."""
    ray = candidate.ray
    if ray is not None:
        ray = _with_point(run, ray, candidate.solver)
    elif candidate.answer.stop in _DOUBTFUL:
        ray = _searched(run, candidate)
    if ray is None or ray.kind == "infeasible" or ray.point is not None:
        return ray
    return _with_found_point(run, ray, candidate)


def _searched(run: Run, candidate: Candidate) -> Ray | None:
    """A ray where none came with the answer.

    A modelling layer may take one kind for the other, so both are tried, infeasibility first.
    """
    program, solver = candidate.program, candidate.solver
    found = decide(run, program, solver)
    if found.ray is not None:
        return found.ray
    if program.n_rows and found.point is None:
        ray = _first_that_passes(run, program, solver, "infeasible")
        if ray is not None:
            return ray
    if np.isfinite(candidate.certificate.safe_bound):
        return None  # no direction may contradict a known bound
    ray = _first_that_passes(run, program, solver, "unbounded")
    return None if ray is None else replace(ray, point=found.point)


def _first_that_passes(run: Run, program: Program, solver: Solver, kind: str) -> Ray | None:
    """Some codes break down at the tighter tolerance only, and some on this program: another one
    that is quick is tried as well."""
    ask = _infeasible if kind == "infeasible" else _unbounded
    asked = elastic(program) if kind == "infeasible" else recession(program)
    own = run.settings.options
    tries: list[tuple[Solver, float, Mapping[str, Any]]]
    tries = [(solver, 1e-8, own), (solver, 1e-6, own)]
    tries += [(other, 1e-8, {}) for other in _quick_others(asked, solver)[:1]]
    for one, tol, options in tries:
        ray = ask(program, run.ask_aside(asked, one, tol, options))
        if ray is not None and ray.passes(RAY_TOL):
            return ray
    return None


def _quick_others(asked: Program, solver: Solver) -> list[Solver]:
    """Other solvers that expect to need a few seconds at most, the cheapest first."""
    able = [offer for offer in suitable(offers(asked)) if offer.solver.name != solver.name]
    return [offer.solver for offer in able if offer.estimate.seconds <= _QUICK_SECONDS]


def _infeasible(program: Program, answer: Answer | None) -> Ray | None:
    """The ray in an answer to the elastic program."""
    if answer is None or answer.dual is None:
        return None
    return certify_infeasible(program, program.sign * answer.dual)


def _unbounded(program: Program, answer: Answer | None) -> Ray | None:
    """The ray in an answer to the recession program; its unit vectors are not for solvers of
    graphs."""
    if answer is None or answer.matrices is None:
        return None
    x = np.zeros(program.n_auxiliary) if answer.x is None else answer.x
    return certify_unbounded(program, answer.matrices, x)


def _with_point(run: Run, direction: Ray, solver: Solver) -> Ray:
    """The direction with a feasible point, or a ray of infeasibility instead of it.

    An infeasible program may have improving directions too, which mean nothing then.
    """
    program = direction.program
    found = decide(run, program, solver)
    if found.point is not None:
        return replace(direction, point=found.point)
    if found.ray is not None:
        return found.ray
    if found.is_asked or not program.n_rows:
        return direction
    answer = run.ask_aside(elastic(program), solver, 1e-8, run.settings.options)
    ray = _infeasible(program, answer)
    return ray if ray is not None and ray.passes(RAY_TOL) else direction


def _with_found_point(run: Run, direction: Ray, candidate: Candidate) -> Ray:
    """The direction with a point that meets the constraints to tolerance, where that is enough."""
    program = direction.program
    if not may_be_found(program):
        return direction
    if is_feasible(candidate.certificate):
        return replace(direction, point=FeasiblePoint(tuple(candidate.matrices), candidate.x))
    asked = elastic(program)
    others = [o.solver for o in suitable(offers(asked)) if o.solver.name != candidate.solver.name]
    for solver in [candidate.solver, *others[:1]]:
        answer = run.ask_aside(asked, solver)
        point = None if answer is None else _point_of(program, answer)
        if point is not None:
            return replace(direction, point=point)
    return direction


def _point_of(program: Program, answer: Answer) -> FeasiblePoint | None:
    """The feasible point in an answer to the elastic program, if there is one."""
    if answer.matrices is None or answer.x is None:
        return None
    point = replace(answer, x=answer.x[: program.n_auxiliary])
    matrices, x = repair_primal(program, point, 1e-8)
    feasible = is_feasible(certify(program, matrices, x))
    return FeasiblePoint(tuple(matrices), x) if feasible else None
