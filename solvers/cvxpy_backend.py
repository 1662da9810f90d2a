"""General-purpose solvers that cvxpy drives.

The program becomes one cone per block.

Of the two equivalent forms the smaller one is handed over:

    LMI form     variables w (m of them): min bᵀw,  Σ_e w_e A_e − C ⪰ 0;   M is its multiplier
    matrix form  variables Z, x:          max <C, Z>,  <A_e, Z> = b_e;      w is its multiplier

Graph programs have far fewer rows than matrix entries, so the LMI form is the rule; programs
with more rows than n(n+1)/2 (LMNN's triplets) take the matrix form, and so do log dets. Both
are assembled as one sparse matrix; no loop over rows ever meets cvxpy.
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
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.errors import InputError
from sdpkit.numerics.interruption import is_interrupted
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.options import check_names
from sdpkit.solution.process import apart, can_fork
from sdpkit.solution.reduction import reduce
from sdpkit.solution.solver import Capabilities, digits, unsupported
from sdpkit.solvers.licences import without_licence
from sdpkit.typing import Array, Indices

# How one `tol`, `max_iter` and `time_limit` are said to each solver. Interior-point codes are
# asked for a hundredth of tol, because the certificate adds primal and dual errors up; SCS for
# less, because its multipliers are not feasible and their repair costs a factor.
_LANGUAGE: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "SCS": lambda s: _given(
        eps_abs=s.tol * 2e-3,
        eps_rel=s.tol * 2e-3,
        max_iters=s.max_iter or 200_000,
        time_limit_secs=s.time_limit,
    ),
    "CLARABEL": lambda s: _given(
        max_threads=1,  # a forked child would wait for the threads of its parent for ever
        tol_gap_abs=s.tol * 1e-2,
        tol_gap_rel=s.tol * 1e-2,
        tol_feas=s.tol * 1e-2,
        max_iter=s.max_iter,
        time_limit=s.time_limit,
    ),
    "CVXOPT": lambda s: _given(
        abstol=s.tol * 1e-2, reltol=s.tol * 1e-2, feastol=s.tol * 1e-2, max_iters=s.max_iter
    ),
    "SDPA": lambda s: _given(
        epsilonStar=s.tol * 1e-2, epsilonDash=s.tol * 1e-2, maxIteration=s.max_iter
    ),
    "MOSEK": lambda s: {
        "mosek_params": _given(
            MSK_DPAR_INTPNT_CO_TOL_REL_GAP=s.tol * 1e-2,
            MSK_DPAR_INTPNT_CO_TOL_PFEAS=s.tol * 1e-2,
            MSK_DPAR_INTPNT_CO_TOL_DFEAS=s.tol * 1e-2,
            MSK_IPAR_INTPNT_MAX_ITERATIONS=s.max_iter,
            MSK_DPAR_OPTIMIZER_MAX_TIME=s.time_limit,
        )
    },
    "COPT": lambda s: _given(
        RelGap=s.tol * 1e-2,
        FeasTol=s.tol * 1e-2,
        DualTol=s.tol * 1e-2,
        BarIterLimit=s.max_iter,
        TimeLimit=s.time_limit,
    ),
    "MOREAU": lambda s: {
        "ipm_settings": {
            "tol_gap_abs": s.tol * 1e-2,
            "tol_gap_rel": s.tol * 1e-2,
            "tol_feas": s.tol * 1e-2,
        },
        **_given(max_iter=s.max_iter, time_limit=s.time_limit),
    },
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


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True)
class CvxpyBackend:
    """One solver that cvxpy can drive.

    `package` is what has to be importable; `doubles(sizes, m)` estimates the doubles it stores
    for cones of these sizes and m rows; `work(n2)` the seconds to six digits for cones with n2
    entries in all; `orthonormal` asks for a well-conditioned reduction.
    """

    name: str
    cvxpy_name: str
    package: str
    capabilities: Capabilities
    doubles: Callable[[list[int], int], float]
    work: Callable[[float], float]
    orthonormal: bool = False

    separate = True  # it works in a process that it stops

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

    def accepts(self, program: Program) -> str | None:
        """Any program within its capabilities."""
        return unsupported(self.capabilities, program)

    def memory(self, program: Program) -> float:
        """An estimate of the bytes it needs."""
        sizes = [block.size for block in program.blocks]
        data = sum(
            float(block.incidence.nnz) ** 2 / max(block.n_measurements, 1)
            for block in program.blocks
        )
        return 8.0 * (self.doubles(sizes, program.n_rows) + 4 * data)

    def seconds(self, program: Program, tol: float) -> float:
        """By the sizes of the cones and the number of rows."""
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
        form = _lmi_form if few else _matrix_form
        work = partial(self._solved, form, reduced, settings, started)
        watched = self._must_be_watched(program, settings)
        found = self._apart(work, settings) if watched else work()
        outcome, (matrices, x, dual), setup = found
        solved = time.perf_counter() - started - setup
        stop = outcome.stop if form is _matrix_form else _mirrored(outcome.stop)
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
        form: Callable[[Program], CvxpyModel],
        reduced: Program,
        settings: Settings,
        started: float,
    ) -> Found:
        """Build the model, call the solver, read the point; and the seconds of the first part."""
        model = form(reduced)
        setup = time.perf_counter() - started
        outcome = self._call(model, settings)
        return outcome, model.read() if outcome.has_point else (None, None, None), setup

    def _call(self, model: CvxpyModel, settings: Settings) -> CvxpyOutcome:
        language = _LANGUAGE.get(self.cvxpy_name, _own_defaults)(settings)
        known = _KNOWN_OPTIONS.get(self.cvxpy_name, tuple(settings.options))
        check_names(self.name, settings.options, known)
        outcome = self._attempt(model, settings, language)
        again = _SECOND_ATTEMPT.get(self.cvxpy_name)
        if outcome.stop is Stop.FAILED and again is not None and not is_interrupted():
            outcome = self._attempt(model, settings, {**language, **again})
        return outcome

    def _attempt(
        self, model: CvxpyModel, settings: Settings, language: Mapping[str, Any]
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
            interrupted = "interrupt" in str(model.problem.status or "").lower()
            stop = Stop.INTERRUPTED if interrupted else Stop.FAILED
            return CvxpyOutcome(stop, f"{self.name}: {error}", None, False)
        except (ArithmeticError, TypeError, ValueError) as error:
            if any(option in str(error) for option in settings.options):
                words = f"solver {self.name!r} does not accept these options: {error}"
                raise InputError(words) from error
            return CvxpyOutcome(Stop.FAILED, f"{self.name} broke down: {error}", None, False)
        return _outcome(model.problem)


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


def _outcome(problem: Any) -> CvxpyOutcome:
    status = str(problem.status)
    stop = _STOPS.get(status, Stop.FAILED)
    stats = problem.solver_stats
    extra = getattr(stats, "extra_stats", None)
    native = _native_words(extra)
    if stop in (Stop.DONE, Stop.ITERATION_LIMIT, Stop.FAILED):
        stop = _limit(native, stop)
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


def _limit(native: str, stop: Stop) -> Stop:
    lowered = native.lower().replace("_", " ")
    if "interrupt" in lowered:
        return Stop.INTERRUPTED
    if "time" in lowered:
        return Stop.TIME_LIMIT
    if "iteration" in lowered or "max iters" in lowered:
        return Stop.ITERATION_LIMIT
    return stop


def _mirrored(stop: Stop) -> Stop:
    """In the LMI form the roles of infeasible and unbounded are exchanged."""
    if stop is Stop.CLAIMS_INFEASIBLE:
        return Stop.CLAIMS_UNBOUNDED
    return Stop.CLAIMS_INFEASIBLE if stop is Stop.CLAIMS_UNBOUNDED else stop


Point = tuple[tuple[Array, ...] | None, Array | None, Array | None]
# How it ended, the point, and the seconds until the solver was called.
Found = tuple[CvxpyOutcome, Point, float]


@dataclass(frozen=True)
class CvxpyModel:
    """A cvxpy problem and how to read (matrices, x, w of the maximisation) from it."""

    problem: Any
    read: Callable[[], Point]


def _row_matrices(program: Program) -> list[sp.csr_array]:
    """Per block (m, n²): the vectorised matrix A_e of every row."""
    ends = np.cumsum([0] + [b.size**2 for b in program.blocks])
    rows = sp.csc_array(program.matrix_rows)
    return [sp.csr_array(rows[:, start:stop]) for start, stop in pairwise(ends)]


def _cost_vectors(program: Program) -> list[Array]:
    """Per block vec(C + Σ g_p v_p v_pᵀ) of the maximisation."""
    parts = zip(program.blocks, program.split(program.cost_q), strict=True)
    return [
        program.sign * (block.cost.dense().ravel() + block.outer_products.T @ g)
        for block, g in parts
    ]


def _lmi_form(program: Program) -> CvxpyModel:
    import cvxpy as cp

    w = cp.Variable(program.n_rows)
    cones = []
    pieces = zip(program.blocks, _row_matrices(program), _cost_vectors(program), strict=True)
    for block, rows, cost in pieces:
        slack = cp.reshape(rows.T @ w - cost, (block.size, block.size), order="C")
        cones.append(slack >> 0)
    signs = _sign_constraints(program, w)
    auxiliary, penalty = _auxiliary_conditions(program, w)
    limits = [constraint for constraint, _ in auxiliary]
    problem = cp.Problem(cp.Minimize(program.rhs @ w + penalty), cones + signs + limits)

    def read() -> Point:
        if w.value is None or any(cone.dual_value is None for cone in cones):
            return None, None, None
        x = np.zeros(program.n_auxiliary)
        for constraint, place in auxiliary:
            place(x, constraint)
        _curved_x(program, np.asarray(w.value), x)
        return tuple(_lower(cone.dual_value) for cone in cones), x, np.asarray(w.value)

    return CvxpyModel(problem, read)


def _lower(dual: Any) -> Array:
    """The symmetric matrix of a lower triangle: CVXOPT may leave the upper one empty."""
    below = np.tril(np.asarray(dual, dtype=np.float64))
    return np.asarray(below + np.tril(below, -1).T)


def _sign_constraints(program: Program, w: Any) -> list[Any]:
    upper, lower = program.relations == -1, program.relations == 1
    out = []
    if upper.any():
        out.append(w[np.flatnonzero(upper)] >= 0)
    if lower.any():
        out.append(w[np.flatnonzero(lower)] <= 0)
    return out


def _auxiliary_conditions(program: Program, w: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """(constraint, how its multiplier fills x) per kind of variable, and the quadratic term."""
    import cvxpy as cp

    columns = sp.csr_array(program.rows_x.T)
    cost = program.sign * program.cost_x
    grouped = np.zeros(program.n_auxiliary, dtype=bool)
    out: list[tuple[Any, Any]] = []
    for penalty in program.norms:
        group = np.array(penalty.group)
        grouped[group] = True
        r = columns[group] @ w - cost[group]
        out.append((cp.SOC(cp.Constant(penalty.weight), r), _fill_norm(group)))
    curved = program.quadratic_x > 0
    nonnegative = np.flatnonzero(~program.free_x & ~curved)
    if nonnegative.size:
        constraint = columns[nonnegative] @ w >= cost[nonnegative]
        out.append((constraint, _fill(nonnegative, 1.0)))
    free = np.flatnonzero(program.free_x & ~curved & ~grouped)
    if free.size:
        # For r = 0 cvxpy adds yᵀr to a minimisation, so x = −y.
        out.append((columns[free] @ w == cost[free], _fill(free, -1.0)))
    return out, _conjugate(program, columns, cost, w)


def _conjugate(program: Program, columns: Any, cost: Array, w: Any) -> Any:
    """Σ r²/(2h), r⁻ only for nonnegative variables."""
    import cvxpy as cp

    total: Any = 0.0
    for members in (program.free_x, ~program.free_x):
        j = np.flatnonzero(members & (program.quadratic_x > 0))
        if j.size:
            r = columns[j] @ w - cost[j]
            part: Any = r if members is program.free_x else cp.neg(r)
            root = 1 / np.sqrt(program.quadratic_x[j])
            total = total + 0.5 * cp.sum_squares(cp.multiply(root, part))
    return total


def _curved_x(program: Program, w: Array, x: Array) -> None:
    """x_j = −r_j/h_j, the maximiser of −r_j x − ½h_j x²."""
    curved = program.quadratic_x > 0
    r = -program.reduced_costs(w)[curved] / program.quadratic_x[curved]
    x[curved] = np.where(program.free_x[curved], r, np.maximum(r, 0.0))


def _fill(where: Indices, sign: float) -> Callable[[Array, Any], None]:
    def place(x: Array, constraint: Any) -> None:
        x[where] = sign * np.asarray(constraint.dual_value)

    return place


def _fill_norm(group: Indices) -> Callable[[Array, Any], None]:
    def place(x: Array, constraint: Any) -> None:
        x[group] = np.asarray(constraint.dual_value[1]).ravel()

    return place


def _matrix_form(program: Program) -> CvxpyModel:
    import cvxpy as cp

    matrices = [cp.Variable((b.size, b.size), PSD=True) for b in program.blocks]
    x = cp.Variable(max(program.n_auxiliary, 1))
    columns = program.rows_x if program.n_auxiliary else sp.csr_array((program.n_rows, 1))
    values: Any = columns @ x
    objective: Any = 0.0
    for z, rows, cost in zip(matrices, _row_matrices(program), _cost_vectors(program), strict=True):
        values = values + rows @ cp.vec(z, order="C")
        objective = objective + cost @ cp.vec(z, order="C")
    for block, z in zip(program.blocks, matrices, strict=True):
        if block.log_det:
            objective = objective + block.log_det * cp.log_det(z)
    rows_of = {k: np.flatnonzero(program.relations == k) for k in (-1, 0, 1)}
    limits = {
        k: _related(values[where], k, program.rhs[where])
        for k, where in rows_of.items()
        if where.size
    }
    constraints = list(limits.values())
    if program.n_auxiliary:
        objective = objective + program.sign * program.cost_x @ x - _penalty(program, x)
        bounded = np.flatnonzero(~program.free_x)
        if bounded.size:
            constraints.append(x[bounded] >= 0)
    problem = cp.Problem(cp.Maximize(objective), constraints)

    def read() -> Point:
        if any(z.value is None for z in matrices):
            return None, None, None
        w = np.zeros(program.n_rows)
        for k, constraint in limits.items():
            if constraint.dual_value is None:
                return None, None, None
            # cvxpy's multipliers of inequalities are nonnegative; ≥ rows have w ≤ 0 here.
            w[rows_of[k]] = (-1.0 if k == 1 else 1.0) * np.asarray(constraint.dual_value)
        found = np.zeros(program.n_auxiliary) if not program.n_auxiliary else np.asarray(x.value)
        return tuple(np.asarray(z.value) for z in matrices), found, w

    return CvxpyModel(problem, read)


def _related(expression: Any, relation: int, rhs: Array) -> Any:
    if relation == 0:
        return expression == rhs
    return expression <= rhs if relation == -1 else expression >= rhs


def _penalty(program: Program, x: Any) -> Any:
    import cvxpy as cp

    total: Any = 0.0
    j = np.flatnonzero(program.quadratic_x)
    if j.size:
        root = np.sqrt(program.quadratic_x[j])
        total = total + 0.5 * cp.sum_squares(cp.multiply(root, x[j]))
    for penalty in program.norms:
        total = total + penalty.weight * cp.norm(x[np.array(penalty.group)], 2)
    return total


def _quartic(sizes: list[int], m: int) -> float:
    """Clarabel keeps one dense block of n(n+1)/2 squared per cone, half of it stored."""
    return sum(n**4 / 8 for n in sizes) + m**2


def _schur(sizes: list[int], m: int) -> float:
    """Codes with a dense m × m Schur matrix and a handful of n × n matrices."""
    return m**2 + 12 * sum(n**2 for n in sizes)


def _first_order(sizes: list[int], m: int) -> float:
    return 30 * sum(n**2 for n in sizes) + 20 * m


def _scaled_rows(sizes: list[int], m: int) -> float:
    """CVXOPT scales all m rows as dense n × n matrices."""
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
    """Solvers that "auto" asks last."""
    return math.inf


def _conic(summary: str, log_det: bool = False) -> Capabilities:
    """cvxpy writes a log det with exponential cones, which not every solver has."""
    return Capabilities(quadratic=True, norms=True, log_det=log_det, summary=summary)


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
    Capabilities(summary="SDPA as a Python package"),
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
        and name in SOLVER_MAP_CONIC
        and semidefinite.intersection(SOLVER_MAP_CONIC[name].SUPPORTED_CONSTRAINTS)
    ]
