"""Whether the certificate believes good answers of other solvers, and no others.

    make bench NAME=judging                     models, through cvxpy and through csdp
    make bench NAME=judging ARGS="--data DIR"   files of SDPLIB in DIR too

Every model is solved by Clarabel, SCS and, as a program, by CSDP. An answer is *right* if its value
is within 1e-6 of the reference and its constraints hold to 1e-6; it is *wrong* if its value is
off by more than 1e-4. Right answers should pass at 1e-5 and wrong ones must not. Every right answer
is also made wrong by a change of the point or of its accuracy, and judged again.
"""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

import sdpkit
from bench.judged_models import cvxpy_tests, models
from bench.threads import processor_time
from sdpkit.certificate.certify import certify
from sdpkit.conic.judging import largest_violation
from sdpkit.errors import SdpkitError

# An answer off by less is right, one off by more is wrong, and the tolerance that is asked for.
_RIGHT, _WRONG, _TOL = 1e-6, 1e-4, 1e-5
# Judging may take these processor seconds, however fast the solve was.
_UNNOTICED_SECONDS = 0.5
_LIMIT = 60.0
_ACCURATE: dict[str, dict[str, Any]] = {
    "CLARABEL": {},
    "SCS": {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 20000},
}
_ROUGH: dict[str, dict[str, Any]] = {
    "CLARABEL": {"max_iter": 6},
    "SCS": {"eps_abs": 1e-2, "eps_rel": 1e-2, "max_iters": 200},
}


@dataclass(frozen=True)
class Judged:
    """One answer and what the certificate says of it.

    Attributes
    ----------
    off: how far its value is from the reference, relative to max(1, |reference|)
    violation: of its constraints, relative
    passes: at 1e-5;  gap: the certified one
    solving, judging: processor seconds
    """

    model: str
    solver: str
    off: float
    violation: float
    passes: bool
    gap: float
    words: str
    solving: float
    judging: float

    @property
    def is_right(self) -> bool:
        """Whether the value is right and the constraints hold."""
        return self.off <= _RIGHT and self.violation <= _RIGHT

    @property
    def is_wrong(self) -> bool:
        """Whether the value is off by more than anybody would accept."""
        return self.off > _WRONG

    @property
    def is_slow(self) -> bool:
        """Whether judging took longer than the solve."""
        return self.judging > max(self.solving, _UNNOTICED_SECONDS)


def _reference(build: Callable[[], cp.Problem]) -> float:
    """The value on which two accurate solves agree; NaN if they do not."""
    values = []
    fine = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
    for solver, options in (("CLARABEL", fine), (sdpkit.cvxpy_solver("interior"), {"tol": 1e-8})):
        problem = build()
        try:
            problem.solve(solver=solver, **options)
        except (cp.error.SolverError, SdpkitError, ValueError):
            continue
        if problem.value is not None and np.isfinite(problem.value):
            values.append(float(problem.value))
    if not values or max(values) - min(values) > 3e-7 * max(1.0, abs(values[0])):
        return math.nan
    return values[0]  # the only one where interior does not take the cones


def _of_cvxpy(
    name: str, build: Callable[[], cp.Problem], solver: str, options: Any, reference: float
) -> tuple[cp.Problem, Judged] | None:
    """The answer of one of cvxpy's solvers; None if there is none."""
    problem = build()
    started = processor_time()
    try:
        problem.solve(solver=solver, **options)
    except (cp.error.SolverError, ValueError):
        return None
    solving = processor_time() - started
    if problem.value is None or not np.isfinite(problem.value):
        return None
    return problem, _judged(name, solver, problem, reference, solving)


def _judged(
    name: str, solver: str, problem: cp.Problem, reference: float, solving: float
) -> Judged:
    started = processor_time()
    certificate = sdpkit.certify_cvxpy(problem)
    judging = processor_time() - started
    off = abs(float(problem.objective.value) - reference) / max(1.0, abs(reference))
    words = "; ".join(certificate.failures(_TOL))
    passes, gap = certificate.passes(_TOL), certificate.relative_gap
    violation = largest_violation(problem)[0]
    return Judged(name, solver, off, violation, passes, gap, words, solving, judging)


def _of_program(
    name: str, program: Any, solver: str, reference: float
) -> tuple[Any, Judged] | None:
    """The answer of a solver to a program, as `sdpkit.solve` judges it."""
    started = processor_time()
    try:
        solution = sdpkit.solve(program, solver=solver, tol=1e-7, time_limit=_LIMIT)
    except SdpkitError:
        return None
    everything = processor_time() - started
    certificate = solution.certificate
    if not np.isfinite(solution.objective):
        return None
    off = abs(solution.objective - reference) / max(1.0, abs(reference))
    words = "; ".join(certificate.failures(_TOL))
    solving = everything * (1 - solution.times.certify / max(solution.times.total, 1e-9))
    violation = max(certificate.primal_residual, certificate.cone_residual)
    return solution, Judged(
        name,
        solver,
        off,
        violation,
        certificate.passes(_TOL),
        certificate.relative_gap,
        words,
        solving,
        everything - solving,
    )


def _spoiled(problem: cp.Problem, name: str, solver: str, reference: float) -> Iterator[Judged]:
    """The same answer with values that were changed."""
    rng = np.random.default_rng(0)
    kept = [v.value for v in problem.variables()]
    for how, factor, noise in (("scaled", 1.01, 0.0), ("shrunk", 0.99, 0.0), ("noisy", 1.0, 1e-3)):
        for v, value in zip(problem.variables(), kept, strict=True):
            v.save_value(v.project(factor * value + noise * rng.standard_normal(v.shape)))
        if problem.objective.value is not None:
            yield _judged(f"{name} {how}", solver, problem, reference, math.inf)
    for v, value in zip(problem.variables(), kept, strict=True):
        v.save_value(value)


def _answers(data: Path | None, only: str | None) -> Iterator[Judged]:
    csdp = shutil.which("csdp") is not None
    for name, build in [*cvxpy_tests(), *models()]:
        if only is not None and only not in name:
            continue
        reference = _reference(build)
        if not math.isfinite(reference):
            print(f"{name:34} no reference: two accurate solves disagree", flush=True)
            continue
        for solver, options in _ACCURATE.items():
            found = _of_cvxpy(name, build, solver, options, reference)
            if found is not None:
                yield found[1]
                if solver == "CLARABEL":
                    yield from _spoiled(found[0], name, solver, reference)
            rough = _of_cvxpy(f"{name} rough", build, solver, _ROUGH[solver], reference)
            if rough is not None:
                yield rough[1]
        if csdp:
            yield from _by_csdp(name, build, reference)
    if data is not None:
        yield from _of_files(data, only)


def _by_csdp(name: str, build: Callable[[], cp.Problem], reference: float) -> Iterator[Judged]:
    try:
        program = sdpkit.from_cvxpy(build())
    except SdpkitError:
        return
    found = _of_program(name, program, "csdp", reference)
    if found is None:
        return
    yield found[1]
    solution = found[0]
    scaled = [1.01 * np.asarray(m) for m in solution.matrices]
    certificate = certify(program, scaled, 1.01 * solution.x, solution.dual)
    off = abs(certificate.objective - reference) / max(1.0, abs(reference))
    passes, gap = certificate.passes(_TOL), certificate.relative_gap
    yield Judged(f"{name} scaled", "csdp", off, math.inf, passes, gap, "", math.inf, 0.0)


def _of_files(data: Path, only: str | None) -> Iterator[Judged]:
    """SDPLIB's small files; the reference is the bound of the best of all answers."""
    for path in sorted(data.glob("*.dat-s")):
        if path.stat().st_size > 100_000 or (only is not None and only not in path.stem):
            continue
        program = sdpkit.read_sdpa(path)
        best = sdpkit.solve(program, solver="interior", tol=1e-8, time_limit=_LIMIT)
        if not best.certificate.relative_gap <= 3e-7:
            print(f"{path.stem:34} no reference: {best.status}", flush=True)
            continue
        for solver in ("clarabel", "scs", "csdp"):
            if solver != "csdp" or shutil.which("csdp"):
                found = _of_program(path.stem, program, solver, best.objective)
                if found is not None:
                    yield found[1]


def judging(data: Path | None = None, only: str | None = None) -> int:
    """Print what is refused although it is right, what passes although it is wrong, and where
    judging took longer than the solve; 1 if there are too many."""
    warnings.simplefilter("ignore")
    judged = []
    for one in _answers(data, only):
        judged.append(one)
        flaws = []
        flaws += ["REFUSED"] if one.is_right and not one.passes else []
        flaws += ["WRONG, PASSES"] if one.is_wrong and one.passes else []
        flaws += ["slow"] if one.is_slow else []
        if flaws:
            print(
                f"{one.model:34} {one.solver:9} {', '.join(flaws)}: off {one.off:.1e}, violation "
                f"{one.violation:.1e}, gap {one.gap:.1e}, solved in {one.solving:.2f} s, judged in "
                f"{one.judging:.2f} s; {one.words}",
                flush=True,
            )
    right = [one for one in judged if one.is_right]
    wrong = [one for one in judged if one.is_wrong]
    refused, passed = sum(not one.passes for one in right), sum(one.passes for one in wrong)
    for solver in sorted({one.solver for one in right}):
        theirs = [one for one in right if one.solver == solver]
        lost = sum(not one.passes for one in theirs)
        print(f"{solver}: {len(theirs)} right answers, {lost} refused")
    share = refused / max(1, len(right))
    print(f"{len(right)} right answers: {refused} refused at 1e-5 ({share:.1%})")
    print(f"{len(wrong)} wrong answers: {passed} pass at 1e-5")
    print(f"{sum(one.is_slow for one in judged)} of {len(judged)} judged for longer than the solve")
    return int(share > 0.02 or passed > 0)
