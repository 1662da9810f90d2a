"""sdpkit's solvers under names of their own in cvxpy: `problem.solve(solver="SDPKIT")`.

cvxpy looks solvers up in the tables of one module. `register` adds a line to each of them for every
solver of sdpkit that takes general programs and that cvxpy does not have itself.
"""

from __future__ import annotations

from typing import Any, ClassVar

import cvxpy
from cvxpy.constraints import ExpCone, PowCone3D, PowConeND
from cvxpy.reductions.solvers import defines

from sdpkit.conic.cvxpy_solver import EngineError, SdpkitSolver
from sdpkit.errors import InputError
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.solving.choice import refusal
from sdpkit.solving.registry import available_solvers, get_solver

# The versions of cvxpy whose tables are known.
_FIRST, _LAST = (1, 5), (1, 9)
_REFUSED = (ExpCone, PowCone3D, PowConeND)


class NamedSolver(SdpkitSolver):
    """A solver of sdpkit that explains why it takes no exponential and power cones.

    cvxpy says no more of a cone that is not supported than that the solver cannot solve the
    problem. So this class says that it takes them, and refuses the compiled model.
    """

    SUPPORTED_CONSTRAINTS: ClassVar[list[type]] = [*SdpkitSolver.SUPPORTED_CONSTRAINTS, *_REFUSED]
    EXP_CONE_ORDER: ClassVar[list[int]] = [0, 1, 2]

    def apply(self, problem: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The conic data, unless there are exponential or power cones among them."""
        kinds = {type(c) for c in problem.constraints}.intersection(_REFUSED)
        if kinds:
            names = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise EngineError(
                f"cvxpy compiles this model to cones of the kind {names}, which the solver "
                f"{self.name()} does not take. If they come from log_det in the objective, call "
                "sdpkit.solve(sdpkit.from_cvxpy(problem)).unpack(problem). Else solve the model "
                "with solver='CLARABEL' or 'SCS' and check the answer with "
                "sdpkit.certify_cvxpy(problem)."
            )
        return super().apply(problem)


def register() -> tuple[str, ...]:
    """Add the solvers of sdpkit to the solvers that cvxpy knows by name.

    `problem.solve(solver="SDPKIT")` lets sdpkit choose a solver; "SDPKIT_INTERIOR" and so on name
    one. All of them are in `cvxpy.installed_solvers()`, behind cvxpy's own, so that the solver that
    cvxpy takes by default stays the same. Options: `eps` or `tol`, `max_iters` or `max_iter`,
    `time_limit`, and the solver's own. Calling it twice does no harm; `sdpkit.cvxpy_solver` calls
    it too.

    Returns
    -------
    tuple of str
        The names, "SDPKIT" first.

    Raises
    ------
    InputError
        If the version of cvxpy is not one of 1.5 to 1.9.

    Examples
    --------
    >>> import cvxpy, sdpkit
    >>> sdpkit.register()[:1], "SDPKIT_INTERIOR" in cvxpy.installed_solvers()
    (('SDPKIT',), True)
    >>> x = cvxpy.Variable(2)
    >>> model = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x)), [cvxpy.sum(x) == 1])
    >>> round(float(model.solve(solver="SDPKIT", eps=1e-8)), 6), model.status
    (0.5, 'optimal')
    """
    if not is_known_version():
        raise InputError(
            f"sdpkit.register() knows the tables of solvers of cvxpy {_FIRST[0]}.{_FIRST[1]} to "
            f"{_LAST[0]}.{_LAST[1]}, and this is cvxpy {cvxpy.__version__}. Pass the solver itself "
            "instead: problem.solve(solver=sdpkit.cvxpy_solver('interior'))"
        )
    solvers = [NamedSolver("auto"), *(NamedSolver(name) for name in _general_solvers())]
    for solver in solvers:
        name = solver.name()
        if name in defines.SOLVER_MAP_CONIC:
            continue
        defines.SOLVER_MAP_CONIC[name] = solver
        for table in ("CONIC_SOLVERS", "INSTALLED_SOLVERS", "INSTALLED_CONIC_SOLVERS"):
            if name not in getattr(defines, table):
                getattr(defines, table).append(name)
    return tuple(solver.name() for solver in solvers)


def register_once() -> None:
    """`register`, where cvxpy's tables are known and nobody has called it yet."""
    if is_known_version() and "SDPKIT" not in defines.SOLVER_MAP_CONIC:
        register()


def is_known_version() -> bool:
    """Whether `register` knows the tables of this cvxpy."""
    numbers = cvxpy.__version__.split(".")[:2]
    return all(n.isdigit() for n in numbers) and _FIRST <= tuple(map(int, numbers)) <= _LAST


def _general_solvers() -> list[str]:
    """Those that take any program, but for those that cvxpy has itself or that teach a method."""
    theirs = {name.lower() for name in defines.INSTALLED_SOLVERS if not name.startswith("SDPKIT")}
    ours = [get_solver(name) for name in available_solvers() if name not in theirs]
    ours = [solver for solver in ours if not solver.capabilities.teaching]
    return [solver.name for solver in ours if refusal(solver, _ordinary_program()) is None]


def _ordinary_program() -> Program:
    """Two blocks, a free and a bounded variable, equations and inequalities."""
    blocks = [Block.of(n, [[1.0] * n, [1.0, *[0.0] * (n - 1)]]) for n in (2, 3)]
    return Program.of(
        blocks,
        [1.0, 1.0, 2.0],
        rows_q=[[1.0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]],
        rows_x=[[1.0, 0], [0, 1], [1, 1]],
        relations=["==", ">=", "<="],
        free_x=[True, False],
        name="ordinary program",
    )
