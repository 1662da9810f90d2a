"""`certify_cvxpy` for models with exponential and power cones.

The objective and the residuals are those of the model as it was written, at the values of its
variables: nothing is compiled for them. The bound comes from multipliers. Those that the solver
left in the constraints are taken where they are complete; cones inside of atoms have none in the
model, and then a second solve gives all of them. Wherever they come from, they are moved into the
dual feasible set (`sdpkit.conic.joint_step`), so that the bound holds.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import cvxpy
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints import PSD, SOC, ExpCone, NonNeg, PowCone3D, Zero

from sdpkit.conic.conic_certificate import ConicCertificate
from sdpkit.conic.cvxpy import CompiledModel, refuse_wild_values, without_values
from sdpkit.conic.cvxpy_solver import _OFFSET, SdpkitSolver, known_by_name
from sdpkit.conic.joint_step import DualPoint, best_of_a_solve, joint_step
from sdpkit.conic.nonlinear_cones import BlockRows, NonlinearData
from sdpkit.errors import InputError
from sdpkit.numerics.deadline import Deadline, current_deadline
from sdpkit.typing import Array, Bools

# What a second solve may take: a multiple of the first, and seconds that it always has.
_SHARE, _LEAST_SECONDS = 2.0, 3.0


class Judge(SdpkitSolver):
    """Compiles models to all cones that a certificate takes; it solves nothing."""

    SUPPORTED_CONSTRAINTS: ClassVar[list[type]] = [
        *SdpkitSolver.SUPPORTED_CONSTRAINTS,
        ExpCone,
        PowCone3D,
    ]
    EXP_CONE_ORDER: ClassVar[list[int]] = [0, 1, 2]

    def name(self) -> str:
        """A name that no solver of cvxpy has."""
        return "SDPKIT_JUDGE"


class NonlinearModel(CompiledModel):
    """A cvxpy problem, compiled with all its cones, and the way back."""

    def __post_init__(self) -> None:
        self.log_dets: list[Any] = []
        # Another problem of the same parts: cvxpy keeps what it compiled for the next solve.
        plain = cvxpy.Problem(self.problem.objective, self.problem.constraints)
        judge = Judge()
        try:
            with without_values(plain), known_by_name(judge):
                self.compiled, self.chain, self.inverse_data = plain.get_problem_data(solver=judge)
        except cvxpy.error.SolverError as error:
            raise InputError(f"cvxpy cannot compile the model to convex cones: {error}") from error
        if self.compiled.get(cvxpy.settings.P) is not None:
            self._refuse_wrong_squares(self.problem)

    def conic(self) -> NonlinearData:
        """The data."""
        sense: Literal["min", "max"] = (
            "max" if isinstance(self.problem.objective, cvxpy.Maximize) else "min"
        )
        return nonlinear_data(self.compiled, sense)


def nonlinear_data(data: dict[str, Any], sense: Literal["min", "max"]) -> NonlinearData:
    """cvxpy's data for `Judge`."""
    sizes = data[cvxpy.settings.PARAM_PROB].constr_map
    n_zero, n_nonneg = (sum(c.size for c in sizes[kind]) for kind in (Zero, NonNeg))
    start = n_zero + n_nonneg
    blocks: list[BlockRows] = []
    for constraint in sizes[SOC]:
        for size in constraint.cone_sizes():
            blocks.append(BlockRows("soc", int(size), np.arange(start, start + size)))
            start += int(size)
    for constraint in sizes[PSD]:
        n = constraint.args[0].shape[-1]
        count = constraint.args[0].size // n**2
        for k in range(count):
            blocks.append(BlockRows("psd", n, start + k + count * np.arange(n**2)))
        start += constraint.args[0].size
    n_exp = sum(c.num_cones() for c in sizes[ExpCone])
    exponential = start + np.arange(3 * n_exp).reshape(-1, 3)
    start += 3 * n_exp
    alpha = [np.ravel(c.alpha.value) for c in sizes[PowCone3D]]
    exponents = np.concatenate([np.zeros(0), *alpha])
    cost = np.asarray(data[cvxpy.settings.C], dtype=np.float64)
    squares = data.get(cvxpy.settings.P)
    empty = sp.csr_array((cost.size, cost.size))
    return NonlinearData(
        cost=cost,
        matrix=sp.csr_array(data[cvxpy.settings.A], dtype=np.float64),
        rhs=np.asarray(data[cvxpy.settings.B], dtype=np.float64),
        squares=empty if squares is None else sp.csr_array(squares),
        n_zero=n_zero,
        n_nonneg=n_nonneg,
        blocks=tuple(blocks),
        exponential=exponential,
        power=start + np.arange(3 * exponents.size).reshape(-1, 3),
        alpha=exponents,
        offset=float(data[_OFFSET]),
        sense=sense,
    )


def certify_nonlinear(problem: Any) -> ConicCertificate:
    """The certificate of the values in a solved model."""
    refuse_wild_values(problem)
    model = NonlinearModel(problem)
    data = model.conic()
    x, y = model.variable_values(), model.multipliers()
    value = problem.objective.value
    objective = float("nan") if value is None else float(np.real(np.ravel(value)[0]))
    violation, worst = largest_violation(problem)
    with _time_for_a_solve(problem).applies():
        found, source = _dual_point(data, x, y)
    bound = data.sign * -np.inf
    if found is not None:
        # What rounding leaves of the equations is counted at the size of the point.
        size = 2 * float(np.abs(np.where(np.isnan(x), found.x, x)).max(initial=0.0)) + 1
        left = float(np.abs(data.residual(found.x, found.y)).sum()) * size
        bound = data.sign * (data.dual_value(found.x, found.y) - left)
    unit = max(1.0, abs(objective), abs(bound) if np.isfinite(bound) else 0.0)
    return ConicCertificate(
        sense=data.sense,
        objective=objective,
        safe_bound=bound,
        bound_source=source,
        relative_gap=abs(objective - bound) / unit,
        unit=unit,
        primal_residual=violation,
        residual_name=worst,
        dual_residual=np.inf if found is None else found.residual,
        data=data,
        x=None if found is None else found.x,
        y=None if found is None else found.y,
    )


def _time_for_a_solve(problem: Any) -> Deadline:
    """A second solve may take somewhat longer than the first, as far as its time is known."""
    seconds = getattr(problem.solver_stats, "solve_time", None) or 0.0
    return Deadline.after(max(_LEAST_SECONDS, _SHARE * float(seconds))).within(current_deadline())


def _dual_point(data: NonlinearData, x: Array, y: Array) -> tuple[DualPoint | None, str]:
    """A dual feasible point near the model's multipliers, or of a second solve where they are
    incomplete."""
    none = "no strictly feasible multipliers were found"
    if np.isfinite(y).all() and (not data.squares.nnz or np.isfinite(x).all()):
        found = joint_step(data, np.nan_to_num(x), y)
        return found, none if found is None else _words("the model's multipliers", found)
    found = best_of_a_solve(data)
    return found, none if found is None else _words("multipliers of a second solve", found)


def _words(whose: str, point: DualPoint) -> str:
    moved = f", moved inside by {point.share:.0e}" if point.share else ""
    return f"{whose}, in the dual cones{moved}"


# -- residuals of the model -----------------------------------------------------------------


def largest_violation(problem: Any) -> tuple[float, str]:
    """By how much the values violate a constraint or an attribute of a variable, relative to the
    constraint's sides and to 1, and its name."""
    worst, name = 0.0, ""
    parts = [(v, _of_variable(v)) for v in problem.variables()]
    parts += [(c, _of_constraint(c)) for c in problem.constraints]
    for what, off in parts:
        if not off <= worst:  # NaN is the worst
            worst, name = off, str(what)
            if np.isnan(off):
                break
    return worst, name if len(name) <= 60 else f"{name[:57]}…"


def _of_variable(variable: Any) -> float:
    value = variable.value
    if value is None:
        return np.nan
    size = max(1.0, float(np.abs(value).max(initial=0.0)))
    return float(np.abs(value - variable.project(value)).max(initial=0.0)) / size


def _of_constraint(constraint: Any) -> float:
    values = [arg.value for arg in constraint.args]
    if any(value is None for value in values):
        return np.nan
    size = max(1.0, *(float(np.abs(value).max(initial=0.0)) for value in values))
    if isinstance(constraint, ExpCone):
        off = _outside_exponential(*values)
    elif isinstance(constraint, PowCone3D):
        x, y, z = values
        off = _outside_power(x, y, z, constraint.alpha.value)
    elif isinstance(constraint, SOC):  # cvxpy's own violation drops imaginary parts
        t, X = values
        lengths = np.linalg.norm(X, axis=constraint.axis if np.ndim(X) > 1 else None)
        off = float(np.max(np.ravel(lengths) - np.ravel(np.real(t)), initial=0.0))
    else:
        try:
            off = float(np.max(np.abs(constraint.violation()), initial=0.0))
        except NotImplementedError as error:
            kind = type(constraint).__name__
            raise InputError(
                f"cvxpy cannot tell by how much a constraint {kind} is violated, so that "
                "a model with one cannot be certified: write the constraint with other cones"
            ) from error
    return off / size


def _outside_exponential(x: Any, y: Any, z: Any) -> float:
    """The least t ≥ 0 with (x − t, y + t, z + t) in the cone, for the worst of the triples."""
    x, y, z = (np.ravel(part).astype(float) for part in (x, y, z))

    def inside(t: Array) -> Bools:
        a, b, c = x - t, y + t, z + t
        with np.errstate(all="ignore"):
            good = a <= b * np.log(c / b)
        return np.asarray(np.where((b > 0) & (c > 0), good, (b == 0) & (a <= 0) & (c >= 0)))

    return _least(inside, x, y, z)


def _outside_power(x: Any, y: Any, z: Any, alpha: Any) -> float:
    """The least t ≥ 0 with (x + t, y + t, z) in the cone, for the worst of the triples."""
    x, y, z = (np.ravel(part).astype(float) for part in (x, y, z))
    a = np.broadcast_to(np.ravel(alpha), x.shape)

    def inside(t: Array) -> Bools:
        u, v = x + t, y + t
        with np.errstate(all="ignore"):
            good = a * np.log(u) + (1 - a) * np.log(v) >= np.log(np.abs(z))
        return np.asarray((u >= 0) & (v >= 0) & (good | (z == 0)))

    return _least(inside, x, y, z)


def _least(inside: Any, *points: Array) -> float:
    """The largest over the points of the least t at which they are inside, by bisection."""
    size = 4 * max(1.0, *(float(np.abs(part).max(initial=0.0)) for part in points))
    low, high = np.zeros(points[0].size), np.full(points[0].size, size)
    if not np.isfinite(size):
        return np.nan
    done = inside(low)
    for _ in range(60):
        middle = (low + high) / 2
        good = inside(middle)
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return float(np.where(done, 0.0, high).max(initial=0.0))
