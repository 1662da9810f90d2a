"""sdpkit's engines as solvers of cvxpy models, through cvxpy's class for custom solvers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import cvxpy
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints import PSD, SOC, NonNeg, Zero
from cvxpy.reductions.solution import Solution as CvxpySolution
from cvxpy.reductions.solution import failure_solution
from cvxpy.reductions.solvers import utilities
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver

from sdpkit.conic.data import ConeRows, ConicData, clean
from sdpkit.conic.model_data import ModelData
from sdpkit.conic.readings import Reading, SlackReading
from sdpkit.errors import ConvergenceWarning
from sdpkit.inputs import positive
from sdpkit.numerics.deadline import Deadline, current_deadline
from sdpkit.program.form import Sense
from sdpkit.solution.answer import Settings
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.feasibility import decide
from sdpkit.solving.registry import get_solver
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
# An equation whose numbers are all this small, relative to the largest of the model, is rounding.
_NOISE = 1e-14
_CITATION = """@software{sdpkit,
  title = {sdpkit: metric and manifold learning as certified semidefinite programs},
}"""


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
        return f"SDPKIT_{self.engine.upper()}"

    def supports_quad_obj(self) -> bool:
        """Squares stay squares: cvxpy hands over P of ½xᵀPx."""
        return True

    def import_solver(self) -> None:
        """Nothing to import: the engines belong to sdpkit."""

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
        """Compile, solve and certify; the options are those of `sdpkit.solve`."""
        model = model_data(data)
        options = {key: value for key, value in solver_opts.items() if key != "use_quad_obj"}
        limit = options.get("time_limit")
        limit = None if limit is None else positive(limit, "time_limit")
        deadline = Deadline.after(limit).within(current_deadline())
        with deadline.applies(), warnings.catch_warnings():
            # cvxpy warns of inaccurate solutions itself.
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = solve(
                model.reading.compiled.program,
                solver=self.engine,
                verbose=2 * int(verbose),
                **options,
            )
            return raw_result(model, solution)

    def invert(self, solution: dict[str, Any], inverse_data: Any) -> CvxpySolution:
        """cvxpy's solution from a raw result, its certificate among the extra statistics."""
        attributes = solution.get("attributes", {})
        if solution["status"] not in cvxpy.settings.SOLUTION_PRESENT:
            return failure_solution(solution["status"], attributes)
        n_zero = inverse_data[self.DIMS].zero
        duals: dict[int, Any] = {}
        for part, constraints in (
            (solution["dual"][:n_zero], inverse_data[self.EQ_CONSTR]),
            (solution["dual"][n_zero:], inverse_data[self.NEQ_CONSTR]),
        ):
            read = utilities.get_dual_values(part, utilities.extract_dual_value, constraints)
            duals.update(read)
        for constraint in inverse_data[self.NEQ_CONSTR]:
            if isinstance(constraint, PSD):
                shape = constraint.args[0].shape  # a matrix, or a stack of them
                duals[constraint.id] = np.reshape(duals[constraint.id], shape, order="F")
        value = solution["value"] + inverse_data[cvxpy.settings.OFFSET]
        primal = {inverse_data[self.VAR_ID]: solution["primal"]}
        return CvxpySolution(solution["status"], value, primal, duals, attributes)


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
    status = _status(reading, solution)
    if status not in cvxpy.settings.SOLUTION_PRESENT:
        return {"status": status, "attributes": attributes}
    dual = np.zeros(solution.program.n_rows) if solution.dual is None else solution.dual
    x, y = reading.read(solution.matrices, solution.x, dual)
    own_x, own_y = model.to_model(x, y)
    return {
        "status": status,
        "value": model.data.value(x),
        "primal": own_x,
        "dual": own_y,
        "attributes": attributes,
    }


def _status(reading: Reading, solution: Solution) -> str:
    """cvxpy's word; where the program is the dual, a direction makes the model infeasible."""
    if solution.status in _WORDS:
        known = solution.dual is not None and np.isfinite(solution.objective)
        return str(_WORDS[solution.status] if known else cvxpy.SOLVER_ERROR)
    if reading.compiled.program.sense == reading.data.sense:
        return str(_NO_OPTIMUM[solution.status])
    if solution.status is not Status.INFEASIBLE:
        return str(cvxpy.INFEASIBLE)  # an improving direction of the multipliers is enough
    return _without_multipliers(reading, solution)


def _without_multipliers(reading: Reading, solution: Solution) -> str:
    """cvxpy's status of a model whose dual is infeasible: it is unbounded if it has a point."""
    found = decide(
        Run(Settings(deadline=current_deadline())),
        SlackReading(reading.data).compiled.program,
        get_solver("interior"),
    )
    if found.ray is not None:
        return str(cvxpy.INFEASIBLE)
    # A dual that is infeasible on a face only gives no direction.
    direction = solution.ray is not None and solution.ray.chain is None
    if direction and found.point is not None:
        return str(cvxpy.UNBOUNDED)
    return str(cvxpy.settings.INFEASIBLE_OR_UNBOUNDED)
