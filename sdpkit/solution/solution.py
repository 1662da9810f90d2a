"""Solutions: an answer with its proof, and the words for how a solve ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sdpkit.errors import InputError
from sdpkit.plotting.cards import card
from sdpkit.plotting.pictures import plot_convergence
from sdpkit.solution.answer import Stop
from sdpkit.solution.attempt import Attempt
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.certificate.certificate import Certificate
    from sdpkit.certificate.rays import Ray
    from sdpkit.program.families import Rows
    from sdpkit.program.form import Program
    from sdpkit.program.gram import Matrix
    from sdpkit.solving.sequence import Trajectory


# Library → what writes a solution into its models. Interfaces lie above this module and register
# themselves.
_unpackers: dict[str, Callable[[Solution, Any], None]] = {}


def register_unpacker(library: str, write: Callable[[Solution, Any], None]) -> None:
    """Let `Solution.unpack` take the models of a library."""
    _unpackers[library] = write


class Status(StrEnum):
    """How a solve ended. The certificate grants it; no solver claims it.

    OPTIMAL: the certified gap and the residuals meet the tolerance. INACCURATE: they do not.
    INFEASIBLE, UNBOUNDED, INFEASIBLE_OR_UNBOUNDED: a verified ray proves it. TIME_LIMIT,
    ITERATION_LIMIT, INTERRUPTED: stopped before. STATIONARY: where a non-convex search ended.

    Examples
    --------
    >>> import sdpkit
    >>> solution = sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)), "interior")
    >>> solution.status is Status.OPTIMAL
    True
    """

    OPTIMAL = "optimal"
    INACCURATE = "inaccurate"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    INFEASIBLE_OR_UNBOUNDED = "infeasible_or_unbounded"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    INTERRUPTED = "interrupted"
    STATIONARY = "stationary"


# The statuses of programs that are proven to have no optimal solution.
WITHOUT_OPTIMUM = (Status.INFEASIBLE, Status.UNBOUNDED, Status.INFEASIBLE_OR_UNBOUNDED)


@dataclass(frozen=True)
class Times:
    """Seconds spent on compiling, setting up, solving and certifying."""

    compile: float = 0.0
    setup: float = 0.0
    solve: float = 0.0
    certify: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.compile + self.setup + self.solve + self.certify


@dataclass(frozen=True, eq=False)
class Solution:
    """An answer with its proof.

    Attributes
    ----------
    status : Status
        Granted by the certificate.
    native_status : str
        The solver's own words.
    objective, dual_objective : float
        Recomputed from the returned numbers.
    certificate : Certificate
        Residuals, eigenvalues, safe bound, gap.
    matrices : tuple of array or Gram
        One positive semidefinite (n, n) array per block; for large graphs a `Gram`, which
        multiplies, measures and has eigenvectors, but no entries; none where the time was over
        before a solver was called.
    x : array of shape (n_x,)
        Auxiliary variables.
    dual : array of shape (m,) or None
        Multipliers w.
    rows : Rows or None
        For a program with a family, the comparisons that `dual` belongs to.
    smoothing : float
        Where these are too many to be listed, γ > 0: the multiplier of a comparison z is
        weight·clip(½ + z/γ, 0, 1).
    ray : Ray or None
        The verified proof of infeasibility or unboundedness, if that is the status.
    trajectory : Trajectory or None
        The steps, if the problem took several programs; times and iterations are sums.
    stop : Stop or None
        Why the solver stopped, in its own opinion.
    message : str
        The status in a sentence.
    program : Program
        The program that was solved.
    solver : str
        The name of the solver.
    reason : str
        Why it was chosen.
    iterations : int or None
        None if the solver does not tell.
    times : Times
        Seconds of compiling, setting up, solving and certifying.
    history : tuple of mapping
        Numbers of each iteration, where the solver records them.
    notes : tuple of str
        What was noticed on the way.
    attempts : tuple of Attempt
        What each solver reached, in the order of their calls, if "auto" called more than one; times
        are sums over all of them.

    Examples
    --------
    >>> import sdpkit
    >>> solution = sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)), "interior")
    >>> solution.status, round(solution.objective, 4)
    (<Status.OPTIMAL: 'optimal'>, 3.618)
    >>> solution.certificate.relative_gap < 1e-6
    True
    """

    status: Status
    native_status: str
    message: str
    objective: float
    dual_objective: float
    certificate: Certificate
    program: Program
    matrices: tuple[Matrix, ...]
    x: Array
    dual: Array | None
    ray: Ray | None
    solver: str
    reason: str
    iterations: int | None
    times: Times
    history: tuple[Mapping[str, float], ...] = ()
    notes: tuple[str, ...] = ()
    rows: Rows | None = None
    smoothing: float = 0.0
    trajectory: Trajectory | None = None
    stop: Stop | None = None
    attempts: tuple[Attempt, ...] = ()

    @property
    def matrix(self) -> Matrix:
        """The first block's matrix: K, M or Z."""
        if not self.matrices:
            raise InputError(f"this solution has no point: {self.message}")
        return self.matrices[0]

    def value(self, what: Any) -> Any:
        """The value of an unknown, a variable or an expression that the program was written in.

        Examples
        --------
        >>> import sdpkit
        >>> t = sdpkit.Variable(name="t", free=True)
        >>> A = [[2.0, 1.0], [1.0, 2.0]]
        >>> import numpy as np
        >>> solution = sdpkit.solve(sdpkit.minimise(t, t * np.eye(2) - np.array(A) >> 0))
        >>> round(solution.value(t), 5)                       # the largest eigenvalue of A
        3.0
        """
        if self.program.places is None:
            raise InputError(
                "this program was not written in expressions, or was loaded from a file: its "
                "values are solution.matrices, solution.x and solution.dual"
            )
        return self.program.places.value(what, self.matrices, self.x, self.dual)

    def shortfall(
        self, objective: float, what: str, reason: str, certified: float | None = None
    ) -> str:
        """A sentence on an objective of what was recovered that is not within the certified gap,
        with the reason; empty if it is. `certified` as for `is_within_gap`."""
        if self.is_within_gap(objective, certified):
            return ""
        value = self.objective if certified is None else certified
        return (
            f"the objective of {what} is {objective:.9g}, the certified one {value:.9g}: {reason}"
        )

    def is_within_gap(self, objective: float, certified: float | None = None) -> bool:
        """Whether a value of the objective is no farther from the certified one than the certified
        gap; residuals and 1e-6 of the value's unit apart.

        `certified` replaces the solution's objective where a problem of several programs follows
        another value.
        """
        certificate = self.certificate
        value = self.objective if certified is None else certified
        lost = certificate.residual_price + certificate.backward_error + 1e-6
        gap = abs(self.objective - certificate.safe_bound)
        return bool(abs(objective - value) <= gap + lost * certificate.unit)

    def unpack(self, problem: Any) -> None:
        """Write this solution into the model that its program was made of.

        For a cvxpy model and `sdpkit.from_cvxpy`: fills the variables' ``.value`` and the
        constraints' `.dual_value` in cvxpy's signs.
        """
        library = type(problem).__module__.partition(".")[0]
        if library not in _unpackers:
            raise InputError(
                f"expected a model that a program was made of, not {type(problem).__name__}; "
                "for cvxpy, solve sdpkit.from_cvxpy(problem) and unpack that solution"
            )
        _unpackers[library](self, problem)

    def plot(self, ax: Any = None) -> Any:
        """The certified gap and the residuals, iteration by iteration; returns the axes."""
        return plot_convergence(self, ax)

    def _repr_html_(self) -> str:
        certificate = self.certificate
        rows = [
            ("objective", f"{self.objective:.9g}"),
            ("safe bound", f"{certificate.safe_bound:.9g}"),
            ("certified relative gap", certificate.gap_in_words),
            ("iterations", "?" if self.iterations is None else str(self.iterations)),
            ("seconds", f"{self.times.total:.3g}"),
            ("chosen because", self.reason),
            *(("called", str(attempt)) for attempt in self.attempts),
            *(("note", note) for note in self.notes),
        ]
        title = f"{self.status} by {self.solver}"
        return card(title if self.status == Status.OPTIMAL else f"{title}: {self.message}", rows)

    def __repr__(self) -> str:
        t = self.times
        lines = [
            f"<Solution: {self.status} by {self.solver} ({self.reason})",
            f"  {self.message}",
            f"  objective {self.objective:.9g}, bound {self.certificate.safe_bound:.9g}, "
            f"certified relative gap {self.certificate.gap_in_words}",
            f"  {self.iterations if self.iterations is not None else '?'} iterations; seconds: "
            f"compile {t.compile:.3g}, setup {t.setup:.3g}, solve {t.solve:.3g}, "
            f"certify {t.certify:.3g}",
            *(f"  called: {attempt}" for attempt in self.attempts),
            *(f"  note: {note}" for note in self.notes),
        ]
        return "\n".join(lines) + ">"
