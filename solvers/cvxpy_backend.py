"""General-purpose solvers that cvxpy drives.

The program becomes one cone per block, in the smaller one of two equivalent forms
(`sdpkit.solvers.cvxpy_models`).
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sdpkit.errors import InputError
from sdpkit.numerics.interruption import is_interrupted
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.options import check_names
from sdpkit.solution.process import apart, can_fork
from sdpkit.solution.reduction import reduce
from sdpkit.solution.solver import Capabilities, OwnSolver, digits
from sdpkit.solvers.cvxpy_models import Point, WrittenModel, lmi_form, matrix_form
from sdpkit.solvers.licences import without_licence

_MOSEK: tuple[str, ...] = ("REL_GAP", "PFEAS", "DFEAS")
# The names of `tol`, `max_iter` and `time_limit` in each solver. Interior-point codes are
# asked for a hundredth of tol, because the certificate adds primal and dual errors up; SCS for
# less, because its multipliers are not feasible and their repair costs a factor.
_LANGUAGE: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "SCS": lambda s: _given(
        _tolerances(s.tol * 2e-3, "eps_abs", "eps_rel"),
        max_iters=s.max_iter or 200_000,
        time_limit_secs=s.time_limit,
    ),
    "CLARABEL": lambda s: _given(
        _tolerances(s.tol * 1e-2, "tol_gap_abs", "tol_gap_rel", "tol_feas"),
        max_threads=1,  # a forked child would wait for the threads of its parent for ever
        max_iter=s.max_iter,
        time_limit=s.time_limit,
    ),
    "CVXOPT": lambda s: _given(
        _tolerances(s.tol * 1e-2, "abstol", "reltol", "feastol"), max_iters=s.max_iter
    ),
    "SDPA": lambda s: _given(
        _tolerances(s.tol * 1e-2, "epsilonStar", "epsilonDash"), maxIteration=s.max_iter
    ),
    "MOSEK": lambda s: {
        "mosek_params": _given(
            _tolerances(s.tol * 1e-2, *(f"MSK_DPAR_INTPNT_CO_TOL_{what}" for what in _MOSEK)),
            MSK_IPAR_INTPNT_MAX_ITERATIONS=s.max_iter,
            MSK_DPAR_OPTIMIZER_MAX_TIME=s.time_limit,
        )
    },
    "COPT": lambda s: _given(
        _tolerances(s.tol * 1e-2, "RelGap", "FeasTol", "DualTol"),
        BarIterLimit=s.max_iter,
        TimeLimit=s.time_limit,
    ),
    "MOREAU": lambda s: _given(
        {"ipm_settings": _tolerances(s.tol * 1e-2, "tol_gap_abs", "tol_gap_rel", "tol_feas")},
        max_iter=s.max_iter,
        time_limit=s.time_limit,
    ),
}
_NO_LICENCE = "no licence"
# Solvers that would swallow an unknown option without a word.
_KNOWN_OPTIONS = {
    "CVXOPT": ("abstol", "reltol", "feastol", "max_iters", "refinement", "kktsolver"),
}
# CVXOPT's default factorisation breaks down near some solutions where a slower one does not.
_SECOND_ATTEMPT = {"CVXOPT": {"kktsolver": "ldl"}}
# A solver that expects to need more seconds than this works in a process that can be stopped.
_WATCHED = 2.0
# The time limit of a solver whose model took all of the time.
_LEAST_SECONDS = 1e-3
# Solvers that have no time limit to set.
_TIMELESS = ("CVXOPT", "SDPA")


def _own_defaults(settings: Settings) -> dict[str, Any]:
    """A solver whose language is not known here runs with its own tolerances."""
    return {}


def _given(more: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if value is not None}
    return {**more, **given}


def _tolerances(tol: float, *names: str) -> dict[str, float]:
    return dict.fromkeys(names, tol)


@dataclass(frozen=True)
class CvxpyBackend(OwnSolver):
    """One solver that cvxpy can drive.

    `package` is what has to be importable; `doubles(sizes, m)` estimates the doubles it stores
    for cones of these sizes and m constraints; `work(n2)` the seconds to six digits for cones with
    n2 entries in all; `orthonormal` asks for a well-conditioned reduction.
    """

    name: str
    cvxpy_name: str
    package: str
    capabilities: Capabilities
    doubles: Callable[[list[int], int], float]
    work: Callable[[float], float]
    orthonormal: bool = False

    def unavailable(self) -> str | None:
        """Why this solver cannot be used here, or None."""
        for package in ("cvxpy", self.package):
            if importlib.util.find_spec(package) is None:
                return f"Python package {package!r} is not installed"
        if self.package == "cvxpy":
            return _NO_LICENCE if without_licence(self.cvxpy_name) else None
        try:  # as cvxpy itself finds out, but without the second that importing cvxpy takes
            importlib.import_module(self.package)
        except Exception as error:  # whatever a broken installation does
            return f"Python package {self.package!r} cannot be imported: {error}"
        return _NO_LICENCE if without_licence(self.cvxpy_name) else None

    def memory(self, program: Program) -> float:
        """An estimate of the bytes it needs."""
        sizes = [block.size for block in program.blocks]
        data = sum(
            float(block.incidence.nnz) ** 2 / max(block.n_measurements, 1)
            for block in program.blocks
        )
        return 8.0 * (self.doubles(sizes, program.n_rows) + 4 * data)

    def seconds(self, program: Program, tol: float) -> float:
        """By the sizes of the cones and the number of constraints."""
        sizes = [float(block.size) for block in program.blocks]
        rows = 1e-9 * float(program.n_rows) ** 3
        return 0.1 + digits(tol) / 6 * (self.work(sum(n**2 for n in sizes)) + rows)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Compile, call, map back."""
        started, limit = time.perf_counter(), settings.time_limit
        reduction = reduce(program, orthonormal=self.orthonormal)
        reduced = reduction.program
        entries = sum(b.size * (b.size + 1) // 2 for b in reduced.blocks) + reduced.n_auxiliary
        few = reduced.n_rows <= entries and not reduced.has_log_det
        form = lmi_form if few else matrix_form
        work = partial(self._solved, form, reduced, settings, started)
        watched = self._must_be_watched(program, settings)
        found = self._apart(work, settings) if watched else work()
        outcome, (matrices, x, dual), setup = found
        solved = time.perf_counter() - started - setup
        stop = outcome.stop if form is matrix_form else _mirrored(outcome.stop)
        notes = tuple[str, ...]()
        if limit is not None and stop is not Stop.TIME_LIMIT and self.cvxpy_name in _TIMELESS:
            notes = (f"{self.name} has no time limit; the {limit:g} s asked for were not kept",)
            notes = notes if solved > limit else ()
        elif limit is not None and stop is Stop.ITERATION_LIMIT and solved >= 0.9 * limit:
            stop = Stop.TIME_LIMIT  # cvxpy has one word for both limits
        answer = Answer(
            stop=stop,
            native_status=outcome.words,
            matrices=matrices,
            x=x,
            dual=None if dual is None else reduced.sign * dual,
            iterations=outcome.iterations,
            setup_time=setup,
            solve_time=solved,
            notes=notes,
        )
        return reduction.lift(answer)

    def _must_be_watched(self, program: Program, settings: Settings) -> bool:
        """Whether it may be at work for longer than anybody wants to wait: these solvers look at
        the clock between their iterations, if at all, and never at Ctrl-C."""
        limit = math.inf if settings.time_limit is None else settings.time_limit
        expected = self.seconds(program, settings.tol)
        return can_fork() and settings.verbose < 2 and expected > min(_WATCHED, limit / 5)

    def _apart(self, work: Callable[[], Found], settings: Settings) -> Found:
        """In a separate process, which is stopped when its time is over."""
        limit = settings.time_limit
        if limit is not None and self.cvxpy_name not in _TIMELESS:
            limit += min(2.0, max(0.5, 0.1 * limit))  # time to return its last point
        returned = apart(work, limit)
        if returned.stop is None:
            found: Found = returned.value
            return found
        outcome = CvxpyOutcome(returned.stop, f"{self.name} {returned.words}", None, False)
        return outcome, (None, None, None), 0.0

    def _solved(
        self,
        form: Callable[[Program], WrittenModel],
        reduced: Program,
        settings: Settings,
        started: float,
    ) -> Found:
        """Build the model, call the solver, read the point; and the seconds of the first part."""
        model = form(reduced)
        setup = time.perf_counter() - started
        outcome = self._call(model, settings)
        return outcome, model.read() if outcome.has_point else (None, None, None), setup

    def _call(self, model: WrittenModel, settings: Settings) -> CvxpyOutcome:
        language = _LANGUAGE.get(self.cvxpy_name, _own_defaults)(settings)
        known = _KNOWN_OPTIONS.get(self.cvxpy_name, tuple(settings.options))
        check_names(self.name, settings.options, known)
        outcome = self._attempt(model, settings, language)
        again = _SECOND_ATTEMPT.get(self.cvxpy_name)
        if outcome.stop is Stop.FAILED and again is not None and not is_interrupted():
            outcome = self._attempt(model, settings, {**language, **again})
        return outcome

    def _attempt(
        self, model: WrittenModel, settings: Settings, language: Mapping[str, Any]
    ) -> CvxpyOutcome:
        import cvxpy as cp

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.problem.solve(
                    solver=self.cvxpy_name,
                    verbose=settings.verbose > 1,
                    **{**language, **settings.options},
                )
        except KeyboardInterrupt:
            return CvxpyOutcome(Stop.INTERRUPTED, f"{self.name} was interrupted", None, False)
        except cp.SolverError as error:
            stop = Stop.INTERRUPTED if is_interrupted() else Stop.FAILED
            return CvxpyOutcome(stop, f"{self.name}: {error}", None, False)
        except (ArithmeticError, TypeError, ValueError) as error:
            if settings.options and self._refuses({**language, **settings.options}):
                words = f"solver {self.name!r} does not accept these options: {error}"
                raise InputError(words) from error
            return CvxpyOutcome(Stop.FAILED, f"{self.name} broke down: {error}", None, False)
        return _outcome(model.problem)

    def _refuses(self, options: Mapping[str, Any]) -> bool:
        """Whether options make it break down on the smallest program, where nothing else can."""
        import cvxpy as cp

        matrix = cp.Variable((1, 1), PSD=True)
        smallest = cp.Problem(cp.Minimize(cp.trace(matrix)), [cp.trace(matrix) == 1])
        try:
            smallest.solve(solver=self.cvxpy_name, **options)
        except (ArithmeticError, TypeError, ValueError):
            return True
        except cp.SolverError:
            return False
        return False


@dataclass(frozen=True)
class CvxpyOutcome:
    """How a cvxpy solver ended, and whether it left a point."""

    stop: Stop
    words: str
    iterations: int | None
    has_point: bool


# cvxpy's words → ours. `user_limit` covers iterations and time.
_STOPS = {
    "optimal": Stop.DONE,
    "optimal_inaccurate": Stop.DONE,
    "infeasible": Stop.CLAIMS_INFEASIBLE,
    "infeasible_inaccurate": Stop.CLAIMS_INFEASIBLE,
    "unbounded": Stop.CLAIMS_UNBOUNDED,
    "unbounded_inaccurate": Stop.CLAIMS_UNBOUNDED,
    "infeasible_or_unbounded": Stop.CLAIMS_INFEASIBLE,
    "user_limit": Stop.ITERATION_LIMIT,
}
# The status of SCS, which says more than cvxpy's.
_NATIVE_STOPS = {
    f"{found} (inaccurate - reached {limit})": stop
    for found in ("solved", "infeasible", "unbounded")
    for limit, stop in (
        ("max_iters", Stop.ITERATION_LIMIT),
        ("time_limit_secs", Stop.TIME_LIMIT),
    )
}


def _outcome(problem: Any) -> CvxpyOutcome:
    status = str(problem.status)
    stop = _STOPS.get(status, Stop.FAILED)
    stats = problem.solver_stats
    extra = getattr(stats, "extra_stats", None)
    native = _native_words(extra)
    if stop in (Stop.DONE, Stop.ITERATION_LIMIT, Stop.FAILED):
        stop = _NATIVE_STOPS.get(native, stop)
    words = f"{status} ({native})" if native else status
    has_point = stop not in (Stop.CLAIMS_INFEASIBLE, Stop.CLAIMS_UNBOUNDED)
    iterations = getattr(stats, "num_iters", None)
    return CvxpyOutcome(stop, words, None if iterations is None else int(iterations), has_point)


def _native_words(extra: Any) -> str:
    """The solver's own status, where cvxpy passes it on."""
    if isinstance(extra, Mapping):
        info = extra.get("info", extra)
        return str(info.get("status", "")) if isinstance(info, Mapping) else ""
    return str(getattr(extra, "status", "") or "")


def _mirrored(stop: Stop) -> Stop:
    """In the LMI form the roles of infeasible and unbounded are exchanged."""
    if stop is Stop.CLAIMS_INFEASIBLE:
        return Stop.CLAIMS_UNBOUNDED
    return Stop.CLAIMS_INFEASIBLE if stop is Stop.CLAIMS_UNBOUNDED else stop


# How it ended, the point, and the seconds until the solver was called.
Found = tuple[CvxpyOutcome, Point, float]


def _quartic(sizes: list[int], m: int) -> float:
    """Clarabel keeps one dense block of n(n+1)/2 squared per cone, half of it stored."""
    return sum(n**4 / 8 for n in sizes) + m**2


def _schur(sizes: list[int], m: int) -> float:
    """Codes with a dense m × m Schur matrix and a handful of n × n matrices."""
    return m**2 + 12 * sum(n**2 for n in sizes)


def _first_order(sizes: list[int], m: int) -> float:
    return 30 * sum(n**2 for n in sizes) + 20 * m


def _scaled_rows(sizes: list[int], m: int) -> float:
    """CVXOPT scales all m constraints as dense n × n matrices."""
    return 3 * m * sum(n**2 for n in sizes) + m**2


# Seconds to six digits, by the number of entries of all cones. Clarabel's dense block overtakes
# first-order steps where there are 2500 entries.
def _clarabel_work(entries: float) -> float:
    return 4.4e-11 * entries**3


def _scs_work(entries: float) -> float:
    return 5.55e-6 * math.pow(entries, 1.5)


def _cvxopt_work(entries: float) -> float:
    return 1.1e-4 * math.pow(entries, 1.5)


def _not_measured(entries: float) -> float:
    """Solvers that "auto" tries last."""
    return math.inf


def _conic(summary: str, log_det: bool = False) -> Capabilities:
    """cvxpy writes a log det with exponential cones, which not every solver has."""
    return Capabilities(
        quadratic=True,
        norms=True,
        second_order=True,
        log_det=log_det,
        stops_itself=True,
        summary=summary,
    )


SCS = CvxpyBackend(
    "scs",
    "SCS",
    "scs",
    _conic("first-order splitting", True),
    _first_order,
    _scs_work,
    orthonormal=True,
)
CLARABEL = CvxpyBackend(
    "clarabel",
    "CLARABEL",
    "clarabel",
    _conic("interior point; small cones", True),
    _quartic,
    _clarabel_work,
)
CVXOPT = CvxpyBackend(
    "cvxopt", "CVXOPT", "cvxopt", _conic("interior point in Python"), _scaled_rows, _cvxopt_work
)
MOSEK = CvxpyBackend(
    "mosek", "MOSEK", "mosek", _conic("interior point; licensed"), _schur, _not_measured
)
COPT = CvxpyBackend(
    "copt", "COPT", "coptpy", _conic("interior point; licensed"), _schur, _not_measured
)
SDPA_PYTHON = CvxpyBackend(
    "sdpa-python",
    "SDPA",
    "sdpap",
    Capabilities(stops_itself=True, summary="SDPA as a Python package"),
    _schur,
    _not_measured,
)


def _found(name: str) -> Capabilities:
    """What is said of a solver that cvxpy found."""
    own = "" if name in _LANGUAGE else "; runs with its own tolerances"
    return _conic(f"found by cvxpy{own}")


def discover() -> list[CvxpyBackend]:
    """Every other installed solver that cvxpy says takes semidefinite cones."""
    import cvxpy as cp
    from cvxpy import constraints
    from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC

    # Since cvxpy 1.9 most solvers take matrices as scaled triangles, a constraint of its own.
    semidefinite = {constraints.PSD, getattr(constraints, "SvecPSD", constraints.PSD)}
    ours = {backend.cvxpy_name for backend in (SCS, CLARABEL, CVXOPT, MOSEK, COPT, SDPA_PYTHON)}
    return [
        CvxpyBackend(name.lower(), name, "cvxpy", _found(name), _quartic, _not_measured)
        for name in cp.installed_solvers()
        if name not in ours
        and not name.startswith("SDPKIT")  # ours, which `sdpkit.register` entered there
        and name in SOLVER_MAP_CONIC
        and semidefinite.intersection(SOLVER_MAP_CONIC[name].SUPPORTED_CONSTRAINTS)
    ]
