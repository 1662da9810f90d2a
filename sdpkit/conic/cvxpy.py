"""The interface to cvxpy: a semidefinite model in, a program, a solution or a certificate out.

    from_cvxpy(problem)        the model as a `Program`, of the smaller of its two conic forms
    unpack(solution, problem)  variables' ``.value`` and constraints' `.dual_value`, cvxpy's signs
    certify_by_program(problem)  a certificate for the values that any solver left in the model
    cvxpy_solver(name)         an engine for `problem.solve(solver=…)`

cvxpy compiles the model to cones (`sdpkit.conic.data`) and inverts its own reductions; this
module never guesses at signs or at the order of entries.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.certify import certify
from sdpkit.certificate.inside import bound_inside, time_to_judge
from sdpkit.conic.model_data import ModelData
from sdpkit.conic.readings import Reading, SlackReading
from sdpkit.conic.refusals import (
    UnsupportedConesError,
    refuse_atoms,
    refuse_types,
    refuse_wild_data,
)
from sdpkit.errors import ConvergenceWarning, InputError
from sdpkit.numerics.deadline import Deadline
from sdpkit.program.form import Program, Sense
from sdpkit.solution.solution import Solution, register_unpacker
from sdpkit.solving.solve import solve
from sdpkit.typing import Array, Indices

if TYPE_CHECKING:
    import cvxpy

    from sdpkit.conic.cvxpy_solver import SdpkitSolver


# The tolerance of a solve that only needs a point inside of the dual.
_ROUGH = 1e-2
# The gap up to which better multipliers are looked for.
_GOAL = 1e-7
# A gap above this is worth a rough solve of the model.
_POOR = 1e-4
# Seconds that a rough solve of a small model has, however quick the solve was that is judged.
_ROUGH_SECONDS = 0.5


def from_cvxpy(problem: cvxpy.Problem) -> Program:
    """Compile a cvxpy model to a program in squared lengths with the same optimal value.

    Takes linear and quadratic objectives and linear constraints over PSD, symmetric, nonnegative
    and free variables, linear matrix inequalities, second-order cones, every atom that cvxpy
    writes in these cones, and `log_det` as a term of the objective. Refuses integers and other
    exponential and power cones by name. The program is the smaller of the model and its dual, so
    that its sense may be the opposite of the model's.

    Parameters
    ----------
    problem : cvxpy.Problem
        The model.

    Returns
    -------
    Program
        The program; `solution.unpack(model)` puts its solution into the model.

    Raises
    ------
    InputError
        If the model has integers, or exponential or power cones other than those of `log_det`.

    Examples
    --------
    >>> import cvxpy, sdpkit
    >>> X = cvxpy.Variable((3, 3), PSD=True)
    >>> model = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(X)), [cvxpy.diag(X) == 1])
    >>> program = sdpkit.from_cvxpy(model)
    >>> program.n_rows
    3
    >>> solution = sdpkit.solve(program, solver="interior")
    >>> solution.unpack(model)
    >>> model.status, bool(abs(model.value) < 1e-5)
    ('optimal', True)
    """
    return CompiledModel(problem).data.reading.compiled.program


def unpack(solution: Solution, problem: cvxpy.Problem) -> None:
    """Write a solution of `from_cvxpy(problem)` into the model, as `problem.solve` would.

    Fills the variables' ``.value``, the constraints' `.dual_value` with cvxpy's signs,
    `problem.status`, `problem.value` and, with the certificate, `problem.solver_stats`.
    """
    from sdpkit.conic.cvxpy_solver import raw_result

    model = CompiledModel(problem)
    if model.data.reading.compiled.program.fingerprint != solution.program.fingerprint:
        raise InputError(
            "the solution belongs to another program than this model's; solve "
            "sdpkit.from_cvxpy(problem) and unpack that solution"
        )
    result = raw_result(model.data, solution)
    problem.unpack_results(result, model.chain, model.inverse_data)


register_unpacker("cvxpy", unpack)


def cvxpy_solver(name: str = "auto") -> SdpkitSolver:
    """An engine of sdpkit as a cvxpy solver: `problem.solve(solver=cvxpy_solver("interior"))`.

    `tol` (or `eps`), `max_iter` (or `max_iters`), `time_limit` and the engine's options are keyword
    arguments of `problem.solve`. The certificate is `problem.solver_stats.extra_stats`. After
    `sdpkit.register()` the name alone is enough: `problem.solve(solver="SDPKIT_INTERIOR")`.

    Parameters
    ----------
    name : str, default "auto"
        A name from `available_solvers()`, or "auto".

    Returns
    -------
    SdpkitSolver
        An object for the argument `solver` of `problem.solve`.

    Examples
    --------
    >>> import cvxpy, sdpkit
    >>> X = cvxpy.Variable((2, 2), PSD=True)
    >>> model = cvxpy.Problem(cvxpy.Maximize(X[0, 1]), [cvxpy.diag(X) == 1])
    >>> value = model.solve(solver=sdpkit.cvxpy_solver("interior"), tol=1e-7)
    >>> round(float(value), 5), model.solver_stats.extra_stats.passes(1e-7)
    (1.0, True)
    """
    from sdpkit.conic.registration import NamedSolver, register_once
    from sdpkit.solving.registry import get_solver

    if name != "auto":
        get_solver(name)  # an unknown name is refused here and not in the middle of a solve
    register_once()
    return NamedSolver(name)


def certify_by_program(problem: cvxpy.Problem) -> Certificate:
    """The certificate of the values in a solved model, by its program in squared lengths."""
    from sdpkit.conic.completion import complete_dual, complete_primal, settle_equations

    refuse_wild_values(problem)
    model = CompiledModel(problem)
    data = model.data.data
    given = SlackReading(data)  # its primal are the values themselves, however many rows it has
    x, y = model.data.from_model(model.variable_values(), model.multipliers())
    x = complete_primal(data, x, y)
    y = settle_equations(data, x, model.data.settled(x, y))
    y = complete_dual(data, x, given.completed(x, y))
    matrices, aux, dual = given.point(x, y)
    certificate = _at_scale(certify(given.compiled.program, matrices, aux, dual), x)
    if not certificate.relative_gap > _GOAL or not np.isfinite(dual).all():
        return certificate
    deadline = time_to_judge(_seconds_of(problem))
    bound = bound_inside(certificate, dual, _GOAL, deadline)
    if bound is not None and bound.multipliers is not None:
        moved = certify(
            certificate.program, matrices, aux, certificate.program.sign * bound.multipliers
        )
        certificate = _with_bound(certificate, moved, f"{moved.bound_source} after a move inside")
    if certificate.relative_gap <= _POOR:
        return certificate
    return _moved_inside(certificate, model.data.reading, (x, y), deadline)


def _seconds_of(problem: Any) -> float:
    """What the solve took that left its values in the model, as far as cvxpy knows."""
    stats = problem.solver_stats
    seconds = (getattr(stats, name, None) or 0.0 for name in ("setup_time", "solve_time"))
    return float(sum(seconds))


def _with_bound(certificate: Certificate, moved: Certificate, source: str) -> Certificate:
    """The certificate with moved multipliers: their bound and all that is told of the dual."""
    return replace(
        certificate,
        dual_objective=moved.dual_objective,
        dual_residual=moved.dual_residual,
        min_eigenvalue_dual=moved.min_eigenvalue_dual,
        dimacs=moved.dimacs,
        safe_bound=moved.safe_bound,
        bound_source=source,
        relative_gap=moved.relative_gap,
        complementarity=moved.complementarity,
        residual_price=moved.residual_price,
        unit=moved.unit,
        multipliers=moved.multipliers,
    )


def refuse_wild_values(problem: Any) -> None:
    """Before cvxpy compiles the model, which some atoms do with the values of their arguments."""
    refuse_types(problem)
    for v in problem.variables():
        if v.value is not None and not np.isfinite(_flat([v.value])).all():
            raise InputError(
                f"the value of variable {v.name()!r} has entries that are not finite; "
                "call problem.solve() before certify_cvxpy"
            )


def _at_scale(certificate: Certificate, x: Array) -> Certificate:
    """Eigenvalues measured by the whole point, so that a matrix that should be zero may be."""
    scale = max(certificate.eigenvalue_scale, float(np.abs(x).max(initial=0.0)))
    scale = max(scale, certificate.program.natural_size)
    return replace(certificate, eigenvalue_scale=scale)


def _moved_inside(
    certificate: Certificate,
    reading: Reading,
    values: tuple[Array, Array],
    deadline: Deadline,
) -> Certificate:
    """The certificate with multipliers moved a little towards the interior of the dual.

    Multipliers of another solver miss feasibility by its tolerance, and without a known repair
    they bound nothing. A rough solve gives a strictly feasible point; the share of it that is
    mixed in costs as much in the bound as it should.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        program = reading.compiled.program
        engine = "auto" if program.has_log_det else "interior"
        limit = max(deadline.left, _ROUGH_SECONDS)
        rough = solve(program, solver=engine, tol=_ROUGH, time_limit=limit)
    if rough.dual is None or not np.isfinite(rough.objective):
        return certificate
    x, y = values
    inside = reading.read(rough.matrices, rough.x, rough.dual)[1]
    given, best = SlackReading(reading.data), certificate
    for share in np.logspace(-10, -2, 9):
        matrices, aux, dual = given.point(x, (1 - share) * y + share * inside)
        moved = certify(certificate.program, matrices, aux, dual)
        if moved.relative_gap < best.relative_gap:
            source = f"{moved.bound_source} after a move of {share:.0e} inside"
            best = _with_bound(certificate, moved, source)
        if best.relative_gap <= _POOR:
            break
    return best


# -- what cvxpy makes of a model ------------------------------------------------------------


@dataclass(eq=False)
class CompiledModel:
    """A cvxpy problem with its compiled data and the way back."""

    problem: Any

    def __post_init__(self) -> None:
        import cvxpy

        from sdpkit.conic.cvxpy_solver import SdpkitSolver, known_by_name
        from sdpkit.conic.log_dets import without_log_dets

        refuse_types(self.problem)
        if not self.problem.variables():
            raise InputError(
                "the model has no variables, so that there is nothing to solve or to certify; its "
                "value is problem.objective.value"
            )
        plain, self.log_dets = without_log_dets(self.problem)
        refuse_atoms(plain)
        solver = SdpkitSolver()
        try:
            with without_values(plain), known_by_name(solver):
                self.compiled, self.chain, self.inverse_data = plain.get_problem_data(solver=solver)
        except cvxpy.error.SolverError as error:
            raise UnsupportedConesError(
                f"the model needs cones that no program of sdpkit has: {error} Solve it with "
                "solver='CLARABEL' or 'SCS'; sdpkit.certify_cvxpy then judges the answer."
            ) from error
        refuse_wild_data(plain, self.compiled)
        if self.compiled.get("P") is not None:
            self._refuse_wrong_squares(plain)

    def _refuse_wrong_squares(self, plain: Any) -> None:
        """Compare the compiled objective with the model's at two points; cvxpy before 1.9 compiles
        squares of symmetric variables to something else."""
        import cvxpy

        cost, squares = self.compiled["c"], self.compiled["P"]
        used = (cost != 0) | (np.ravel(abs(squares).sum(axis=0)) != 0)
        sign = -1.0 if isinstance(plain.objective, cvxpy.Maximize) else 1.0
        differences = []  # a constant of the objective is left out of the compiled one
        for known, value in self._two_points(plain):
            x = self._by_equations(known)
            if np.isnan(x[used]).any():
                return  # entries that only cones limit: there is nothing to compare
            x = np.where(used, x, 0.0)
            differences.append(cost @ x + 0.5 * x @ (squares @ x) - sign * value)
        first, second = differences
        if not np.isfinite([first, second]).all():
            return  # a root of something negative, say: no point to compare at
        if abs(first - second) > 1e-8 * (1 + abs(first) + abs(second)):
            raise InputError(
                f"cvxpy {cvxpy.__version__} compiles the squares of this model to another "
                "objective, also for its own solve(). Install cvxpy 1.9 or newer, or replace the "
                "symmetric variable under the squares by a plain one and an equation"
            )

    def _by_equations(self, x: Array) -> Array:
        """x with the entries filled in that an equation gives from known ones."""
        n_zero, unknown = self.compiled["dims"].zero, np.isnan(x)
        matrix = sp.csr_array(self.compiled["A"])[:n_zero]
        theirs = sp.csr_array(matrix[:, np.flatnonzero(unknown)])
        theirs.eliminate_zeros()
        alone = np.flatnonzero(np.diff(theirs.indptr) == 1)
        one = theirs[alone]
        rest = (self.compiled["b"][:n_zero] - matrix @ np.nan_to_num(x))[alone]
        out = x.copy()
        out[np.flatnonzero(unknown)[one.indices]] = rest / one.data
        return out

    def _two_points(self, plain: Any) -> list[tuple[Array, float]]:
        """x and the objective for two random values of the variables, which keep their own."""
        r, variables = np.random.default_rng(0), plain.variables()
        before, found = [v.value for v in variables], []
        for _ in range(2):
            for v in variables:
                v.save_value(v.project(r.standard_normal(v.shape)))
            with np.errstate(all="ignore"):  # the point may lie outside of the objective's domain
                value = plain.objective.value
            found.append((self._values(variables), np.nan if value is None else float(value)))
        for v, old in zip(variables, before, strict=True):
            v.save_value(old)
        return found

    @cached_property
    def data(self) -> ModelData:
        """The conic data."""
        import cvxpy

        from sdpkit.conic.cvxpy_solver import model_data

        sense: Sense = "max" if isinstance(self.problem.objective, cvxpy.Maximize) else "min"
        return model_data(self.compiled, sense, self._log_det_places())

    def _log_det_places(self) -> list[tuple[int, int]]:
        """For each log det its entry of x and a row of its cone."""
        if not self.log_dets:
            return []
        n, m = self._sizes
        seen = self._inverted(_probes(n)[0], _probes(m)[0])
        return [
            (
                int(np.rint(np.ravel(seen.primal_vars[term.scalar.id])[0])) - 1,
                int(np.rint(np.ravel(seen.dual_vars[term.cone.id])[0])) - 1,
            )
            for term in self.log_dets
        ]

    @property
    def _sizes(self) -> tuple[int, int]:
        """How many entries cvxpy's x and y have."""
        return np.size(self.compiled["c"]), np.size(self.compiled["b"])

    def variable_values(self) -> Array:
        """x from the variables' values; NaN where cvxpy introduced the entry."""
        variables = self.problem.variables()
        lost = [v.name() for v in variables if v.value is None]
        if lost:
            raise InputError(
                f"variable {lost[0]!r} has no value; call problem.solve() before certify_cvxpy"
            )
        return self._values(variables)

    def _values(self, variables: list[Any]) -> Array:
        given = _flat([v.value for v in variables])
        n = self._sizes[0]
        probes = [
            _flat([self._inverted(x=probe).primal_vars[v.id] for v in variables])
            for probe in _probes(n)
        ]
        return _placed(given, probes, n)

    def columns_of_variables(self) -> Indices:
        """(n,) which of the problem's variables shows each entry of x; −1 for none."""
        variables, n = self.problem.variables(), self._sizes[0]
        shown = [self._inverted(x=probe).primal_vars for probe in _probes(n)]
        probes = [_flat([one[v.id] for v in variables]) for one in shown]
        given = _flat(
            [np.full(np.shape(shown[0][v.id]), k * _unit(v)) for k, v in enumerate(variables)]
        )
        return _numbers(_placed(given, probes, n))

    def entries_of_constraints(self) -> list[tuple[Any, Indices]]:
        """Each constraint with multipliers, and (m,) which of their entries shows each entry of y;
        −1 for none. Entries are counted column by column."""
        m = self._sizes[1]
        shown = [self._inverted(y=probe).dual_vars for probe in _probes(m)]
        out = []
        for c in self.problem.constraints:
            if c.id in shown[0]:
                probes = [_flat(_saved(c, duals[c.id])) for duals in shown]
                out.append((c, _numbers(_placed(np.arange(float(probes[0].size)), probes, m))))
        return out

    def variables_at(self, x: Array) -> list[Any]:
        """The values of the problem's variables at an x, signs and bounds apart."""
        found = self._inverted(x=x).primal_vars
        return [found[v.id] for v in self.problem.variables()]

    def multipliers_at(self, y: Array) -> list[Any]:
        """The multipliers of each constraint of the problem at a y, None where there are none."""
        found = self._inverted(y=y).dual_vars
        return [_saved(c, found[c.id]) if c.id in found else None for c in self.problem.constraints]

    def multipliers(self) -> Array:
        """y from the constraints' dual values; NaN where there is none."""
        constraints = [c for c in self.problem.constraints if _has_duals(c)]
        given = _flat([d.value for c in constraints for d in c.dual_variables])
        m = self._sizes[1]
        probes = []
        for probe in _probes(m):
            duals = self._inverted(y=probe).dual_vars
            known = [c for c in constraints if c.id in duals]
            if len(known) < len(constraints):
                return np.full(m, np.nan)
            probes.append(_flat([part for c in known for part in _saved(c, duals[c.id])]))
        return _placed(given, probes, m)

    def _inverted(self, x: Array | None = None, y: Array | None = None) -> Any:
        """What cvxpy's own inverse makes of (x, y)."""
        import cvxpy

        n, m = self._sizes
        result = {
            "status": cvxpy.OPTIMAL,
            "value": 0.0,
            "primal": np.zeros(n) if x is None else x,
            "dual": np.zeros(m) if y is None else y,
        }
        with _unprojected(self.problem.variables()):
            return self.chain.invert(result, self.inverse_data)


def _unit(variable: Any) -> complex:
    """1 + i for a complex variable, whose real and imaginary parts are entries of x."""
    return 1 + 1j if variable.is_complex() else 1.0


def _numbers(labels: Array) -> Indices:
    """Whole numbers, −1 for NaN."""
    return np.where(np.isnan(labels), -1, np.rint(np.nan_to_num(labels))).astype(np.int64)


@contextmanager
def without_values(problem: Any) -> Iterator[None]:
    """Compile as before the first solve: some atoms of cvxpy look at the values of their arguments,
    and not all of these can be compiled with values."""
    variables = problem.variables()
    before = [v._value for v in variables]
    try:
        for v in variables:
            v._value = None
        yield
    finally:
        for v, value in zip(variables, before, strict=True):
            v._value = value


@contextmanager
def _unprojected(variables: list[Any]) -> Iterator[None]:
    """cvxpy's inverse clips values to bounds and signs; probes must come through as they are."""
    for variable in variables:
        variable.__dict__["project"] = lambda value: value
    try:
        yield
    finally:
        for variable in variables:
            del variable.__dict__["project"]


def _has_duals(constraint: Any) -> bool:
    return all(d.value is not None for d in constraint.dual_variables)


def _saved(constraint: Any, value: Any) -> list[Any]:
    """A multiplier as the constraint would show it; what it shows now is put back."""
    before = [d.value for d in constraint.dual_variables]
    constraint.save_dual_value(value)
    shown = [d.value for d in constraint.dual_variables]
    for variable, old in zip(constraint.dual_variables, before, strict=True):
        variable.save_value(old)
    return shown


def _flat(values: list[Any]) -> Array:
    """All entries one after the other, imaginary parts after real ones."""
    out: list[Array] = [np.zeros(0)]
    for value in values:
        dense = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
        out.append(np.real(dense).ravel(order="F"))
        if np.iscomplexobj(dense):
            out.append(np.imag(dense).ravel(order="F"))
    return np.concatenate(out).astype(np.float64)


def _probes(size: int) -> tuple[Array, Array]:
    """Two vectors whose entries tell where an inverse puts them: a number each, and a check."""
    return np.arange(1.0, size + 1), np.random.default_rng(0).standard_normal(size)


def _placed(given: Array, seen: list[Array], size: int) -> Array:
    """The vector of which an inverse shows `given`, from what it shows of the two probes.

    Entries that several places show are averaged, those that none shows are NaN.
    """
    labels, checks = seen
    if not size or not labels.size == checks.size == given.size:
        return np.full(size, np.nan)
    place = np.abs(np.rint(labels)).astype(np.int64) - 1
    sign = np.sign(labels)
    good = (place >= 0) & (place < size) & (labels == np.rint(labels))
    place[~good] = 0
    good &= np.isclose(checks, sign * _probes(size)[1][place], rtol=1e-12, atol=0)
    total = np.bincount(place[good], (sign * given)[good], minlength=size)
    count = np.bincount(place[good], minlength=size)
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)
