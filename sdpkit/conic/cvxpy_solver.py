"""sdpkit's engines as solvers of cvxpy models, through cvxpy's class for custom solvers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import cvxpy
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints import PSD, SOC, NonNeg, Zero
from cvxpy.reductions.solution import Solution as CvxpySolution
from cvxpy.reductions.solution import failure_solution
from cvxpy.reductions.solvers import defines, utilities
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver

from sdpkit.certificate.rays import Ray
from sdpkit.conic.data import ConeRows, ConicData, clean
from sdpkit.conic.model_data import ModelData
from sdpkit.conic.readings import DualReading, Reading, SlackReading
from sdpkit.errors import ConvergenceWarning, InputError, SolverError
from sdpkit.inputs import positive
from sdpkit.numerics.deadline import Deadline, current_deadline
from sdpkit.program.form import Program, Sense
from sdpkit.solution.answer import Settings
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.feasibility import decide
from sdpkit.solving.registry import get_solver, why_not
from sdpkit.solving.run import Run
from sdpkit.solving.solve import solve
from sdpkit.typing import Array

# How cvxpy names the ends of a solve.
_WORDS = {
    Status.OPTIMAL: cvxpy.OPTIMAL,
    Status.INACCURATE: cvxpy.OPTIMAL_INACCURATE,
    Status.STATIONARY: cvxpy.OPTIMAL_INACCURATE,
    Status.TIME_LIMIT: cvxpy.USER_LIMIT,
    Status.ITERATION_LIMIT: cvxpy.USER_LIMIT,
    Status.INTERRUPTED: cvxpy.USER_LIMIT,
}
_NO_OPTIMUM = {
    Status.INFEASIBLE: cvxpy.INFEASIBLE,
    Status.UNBOUNDED: cvxpy.UNBOUNDED,
    Status.INFEASIBLE_OR_UNBOUNDED: cvxpy.settings.INFEASIBLE_OR_UNBOUNDED,
}
_OFFSET = "sdpkit_offset"
# What the limits are called by most solvers of cvxpy → the arguments of `sdpkit.solve`.
_SYNONYMS = {"eps": "tol", "max_iters": "max_iter"}
# An equation whose numbers are all this small, relative to the largest of the model, is rounding.
_NOISE = 1e-14
_CITATION = """@software{sdpkit,
  title = {sdpkit: metric and manifold learning as certified semidefinite programs},
}"""


class EngineError(SolverError, cvxpy.error.SolverError):
    """A solver of sdpkit could not answer inside of `problem.solve`."""


class SdpkitSolver(ConicSolver):  # cvxpy has no types
    """A cvxpy solver that compiles to squared lengths and lets an engine of sdpkit solve.

    Build one with `sdpkit.cvxpy_solver(name)`.
    """

    MIP_CAPABLE = False
    SUPPORTED_CONSTRAINTS: ClassVar[list[type]] = [*ConicSolver.SUPPORTED_CONSTRAINTS, SOC, PSD]

    def __init__(self, engine: str = "auto") -> None:
        super().__init__()
        self.engine = engine

    def name(self) -> str:
        """The engine's name behind a prefix that no solver of cvxpy has."""
        return "SDPKIT" if self.engine == "auto" else f"SDPKIT_{self.engine.upper()}"

    def supports_quad_obj(self) -> bool:
        """Squares stay squares: cvxpy hands over P of ½xᵀPx."""
        return True

    def import_solver(self) -> None:
        """Nothing to import; an executable may be missing, though."""
        missing = None if self.engine == "auto" else why_not(self.engine)
        if missing is not None:
            raise ModuleNotFoundError(missing)

    def cite(self, data: Any) -> str:
        """A BibTeX entry, which cvxpy ≥ 1.9 needs."""
        return _CITATION

    def apply(self, problem: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The conic data, with the objective's constant among them."""
        data, inverse_data = super().apply(problem)
        return {**data, _OFFSET: float(inverse_data[cvxpy.settings.OFFSET])}, inverse_data

    def solve_via_data(
        self,
        data: dict[str, Any],
        warm_start: bool,
        verbose: bool,
        solver_opts: dict[str, Any],
        solver_cache: Any = None,
    ) -> dict[str, Any]:
        """Compile, solve and certify.

        The options are those of `sdpkit.solve`; `eps` is another name of `tol`, `max_iters` of
        `max_iter`. `solver_cache` keeps the last solution of the same model, at which the engine
        starts if it can and `warm_start` is true.
        """
        model, options = model_data(data), _arguments(solver_opts)
        limit = options.get("time_limit")
        limit = None if limit is None else positive(limit, "time_limit")
        deadline = Deadline.after(limit).within(current_deadline())
        cache = {} if solver_cache is None else solver_cache
        with deadline.applies(), warnings.catch_warnings():
            # cvxpy warns of inaccurate solutions itself.
            warnings.simplefilter("ignore", ConvergenceWarning)
            program = model.reading.compiled.program
            last = _start(cache.get(self.name()), program) if warm_start else None
            arguments = {"solver": self.engine, "verbose": 2 * int(verbose), "warm_start": last}
            try:
                solution = solve(program, **{**arguments, **options})
            except SolverError as error:
                raise EngineError(str(error)) from error
            if solution.dual is not None and np.isfinite(solution.objective):
                cache[self.name()] = solution
            return raw_result(model, solution)

    def invert(self, solution: dict[str, Any], inverse_data: Any) -> CvxpySolution:
        """cvxpy's solution from a raw result, its certificate among the extra statistics."""
        status, attributes = solution["status"], solution.get("attributes", {})
        if status in cvxpy.settings.SOLUTION_PRESENT:
            value = solution["value"] + inverse_data[cvxpy.settings.OFFSET]
            primal = {inverse_data[self.VAR_ID]: solution["primal"]}
            duals = self._duals(solution["dual"], inverse_data)
            return CvxpySolution(status, value, primal, duals, attributes)
        failed = failure_solution(status, attributes)
        if solution.get("dual") is not None:  # a ray
            failed.dual_vars = self._duals(solution["dual"], inverse_data)
        return failed

    def _duals(self, y: Array, inverse_data: Any) -> dict[int, Any]:
        """The multipliers of each constraint."""
        n_zero = inverse_data[self.DIMS].zero
        duals: dict[int, Any] = {}
        for part, constraints in (
            (y[:n_zero], inverse_data[self.EQ_CONSTR]),
            (y[n_zero:], inverse_data[self.NEQ_CONSTR]),
        ):
            read = utilities.get_dual_values(part, utilities.extract_dual_value, constraints)
            duals.update(read)
        for constraint in inverse_data[self.NEQ_CONSTR]:
            if isinstance(constraint, PSD):
                shape = constraint.args[0].shape  # a matrix, or a stack of them
                duals[constraint.id] = np.reshape(duals[constraint.id], shape, order="F")
        return duals


@contextmanager
def known_by_name(solver: SdpkitSolver) -> Iterator[None]:
    """cvxpy compiles some atoms, perspectives for example, for the solver of the same name."""
    table, name = defines.SOLVER_MAP_CONIC, solver.name()
    before = table.get(name)
    table[name] = solver
    try:
        yield
    finally:
        if before is None:
            del table[name]
        else:
            table[name] = before


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `sdpkit.solve` among the options of `problem.solve`."""
    options = {key: value for key, value in given.items() if key != "use_quad_obj"}
    for synonym, name in _SYNONYMS.items():
        if synonym in options and name in options:
            raise InputError(f"{synonym} and {name} mean the same; pass one of them")
        if synonym in options:
            options[name] = options.pop(synonym)
    return options


def _start(last: Solution | None, program: Program) -> Solution | None:
    """The last solution, if the program has kept its shape."""
    if last is None:
        return None
    sizes = [block.size for block in program.blocks]
    same = (
        [block.size for block in last.program.blocks] == sizes
        and last.program.n_rows == program.n_rows
        and last.program.n_auxiliary == program.n_auxiliary
    )
    return last if same else None


def model_data(
    data: dict[str, Any], sense: Sense = "min", log_dets: Sequence[tuple[int, int]] = ()
) -> ModelData:
    """cvxpy's data for `SdpkitSolver`; `log_dets` as in `ModelData.of`."""
    plain = _conic_data(data, sense)
    squares = data.get(cvxpy.settings.P)
    n = plain.cost.size
    squares = sp.csr_array((n, n)) if squares is None else sp.csr_array(squares)
    return ModelData.of(plain, squares, log_dets)


def _conic_data(data: dict[str, Any], sense: Sense) -> ConicData:
    """The linear part, with the rows of every cone in it."""
    program = data[cvxpy.settings.PARAM_PROB]
    sizes = program.constr_map
    n_zero = sum(c.size for c in sizes[Zero])
    n_nonneg = sum(c.size for c in sizes[NonNeg])
    start, cones = n_zero + n_nonneg, []
    for constraint in sizes[SOC]:
        for size in constraint.cone_sizes():
            cones.append(ConeRows("soc", int(size), np.arange(start, start + size)))
            start += size
    for constraint in sizes[PSD]:
        n = constraint.args[0].shape[-1]
        # A stack of matrices comes interleaved: its first index runs fastest.
        count = constraint.args[0].size // n**2
        for k in range(count):
            cones.append(ConeRows("psd", n, start + k + count * np.arange(n**2)))
        start += constraint.args[0].size
    cost = np.asarray(data[cvxpy.settings.C], dtype=np.float64)
    matrix = clean(sp.csr_array(data[cvxpy.settings.A], dtype=np.float64))
    matrix, rhs = _without_rounding(matrix, np.asarray(data[cvxpy.settings.B], float), n_zero)
    return ConicData(
        cost=cost,
        matrix=matrix,
        rhs=rhs,
        n_zero=n_zero,
        n_nonneg=n_nonneg,
        cones=tuple(cones),
        quadratic=np.zeros(cost.size),
        offset=data[_OFFSET],
        sense=sense,
        name="cvxpy model",
    )


def _without_rounding(matrix: sp.csr_array, rhs: Array, n_zero: int) -> tuple[sp.csr_array, Array]:
    """The rows with 0 = 0 in place of equations that hold nothing but rounding.

    cvxpy writes such equations, for example F − Fᵀ = 0 where F is symmetric already.
    """
    if not n_zero or not matrix.nnz:
        return matrix, rhs
    sizes = np.maximum(abs(matrix).max(axis=1).toarray().ravel(), np.abs(rhs))
    noise = sizes <= _NOISE * max(np.abs(matrix.data).max(initial=0.0), 1e-300)
    noise[n_zero:] = False
    if not noise.any():
        return matrix, rhs
    kept = sp.diags_array((~noise).astype(float))
    return clean(kept @ matrix), np.where(noise, 0.0, rhs)


def raw_result(model: ModelData, solution: Solution) -> dict[str, Any]:
    """What `SdpkitSolver.invert` reads, from a solution of the model's program."""
    reading = model.reading
    attributes = {
        cvxpy.settings.SOLVE_TIME: solution.times.solve,
        cvxpy.settings.SETUP_TIME: solution.times.compile + solution.times.setup,
        cvxpy.settings.NUM_ITERS: solution.iterations,
        cvxpy.settings.EXTRA_STATS: solution.certificate,
    }
    status, ray = _status(reading, solution)
    if status not in cvxpy.settings.SOLUTION_PRESENT:
        y = farkas(model, ray) if ray is not None and status == cvxpy.INFEASIBLE else None
        return {"status": status, "attributes": attributes, "dual": y}
    dual = np.zeros(solution.program.n_rows) if solution.dual is None else solution.dual
    x, y = reading.read(solution.matrices, solution.x, dual)
    own_x, own_y = model.to_model(x, model.data.balanced(y))
    return {
        "status": status,
        "value": model.data.value(x),
        "primal": own_x,
        "dual": own_y,
        "attributes": attributes,
    }


def farkas(model: ModelData, ray: Ray) -> Array | None:
    """The model's y that proves it infeasible, −bᵀy = 1, from a ray of one of its programs.

    None for a ray that holds on a face only.
    """
    slacks = ray.kind == "infeasible"  # of the first form; a direction belongs to the dual one
    reading = model.reading
    if slacks != isinstance(reading, SlackReading):
        reading = SlackReading(model.data) if slacks else DualReading(model.data)
    y = reading.ray_multipliers(ray)
    if y is None:
        return None
    zero = np.zeros(model.data.cost.size)
    own = model.to_model(zero, model.data.balanced(y))[1]
    gain = -float(model.data.rhs @ y)
    return own / gain if gain > 0 else None


def _status(reading: Reading, solution: Solution) -> tuple[str, Ray | None]:
    """cvxpy's word; where the program is the dual, a direction makes the model infeasible.

    With it the ray that proves this, where the model is infeasible.
    """
    if solution.status in _WORDS:
        known = solution.dual is not None and np.isfinite(solution.objective)
        return str(_WORDS[solution.status] if known else cvxpy.SOLVER_ERROR), None
    if reading.compiled.program.sense == reading.data.sense:
        return str(_NO_OPTIMUM[solution.status]), solution.ray
    if solution.status is not Status.INFEASIBLE:
        # an improving direction of the multipliers is enough
        return str(cvxpy.INFEASIBLE), solution.ray
    return _without_multipliers(reading, solution)


def _without_multipliers(reading: Reading, solution: Solution) -> tuple[str, Ray | None]:
    """cvxpy's status of a model whose dual is infeasible: it is unbounded if it has a point."""
    found = decide(
        Run(Settings(deadline=current_deadline())),
        SlackReading(reading.data).compiled.program,
        get_solver("interior"),
    )
    if found.ray is not None:
        return str(cvxpy.INFEASIBLE), found.ray
    # A dual that is infeasible on a face only gives no direction.
    direction = solution.ray is not None and solution.ray.chain is None
    if direction and found.point is not None:
        return str(cvxpy.UNBOUNDED), None
    return str(cvxpy.settings.INFEASIBLE_OR_UNBOUNDED), None
