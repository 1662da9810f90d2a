"""What a solver returns, what sdpkit makes of it, and the words for how it ended.

A solver returns an `Answer`: numbers and its own words, no verdict. `sdpkit.solve` lets the
certificate judge and hands the user a `Solution`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sdpkit.certificate.judge import Certificate, Ray
    from sdpkit.program.form import Program
    from sdpkit.program.gram import Matrix
    from sdpkit.program.triplets import Rows
    from sdpkit.solution.checkpoint import Checkpoint
    from sdpkit.solving.trajectory import Trajectory

Array = NDArray[np.float64]


class Status(StrEnum):
    """How a solve ended. Granted by the certificate, never claimed by a solver."""

    OPTIMAL = "optimal"
    INACCURATE = "inaccurate"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    INTERRUPTED = "interrupted"
    STATIONARY = "stationary"


class Stop(StrEnum):
    """Why a solver stopped, in its own opinion."""

    DONE = "done"
    CLAIMS_INFEASIBLE = "claims_infeasible"
    CLAIMS_UNBOUNDED = "claims_unbounded"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True)
class Settings:
    """What every solver is told. `options` go to the solver unchanged."""

    tol: float = 1e-6
    max_iter: int | None = None
    time_limit: float | None = None
    verbose: int = 0
    callback: Callable[[Mapping[str, Any]], Any] | None = None
    warm_start: Solution | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """A solver's raw return, in the program's own signs.

    Attributes
    ----------
    matrices: one (n, n) array or `Gram` per block, or None
    x: (n_x,) auxiliary variables, or None
    dual: (m,) multipliers w, or None
    multiplier_ray: (m,) w that shows infeasibility, or None
    matrix_ray: (matrices, x) that shows unboundedness, or None
    rows: for a program with a family, the comparisons that `dual` belongs to
    """

    stop: Stop
    native_status: str
    matrices: tuple[Matrix, ...] | None = None
    x: Array | None = None
    dual: Array | None = None
    multiplier_ray: Array | None = None
    matrix_ray: tuple[tuple[Matrix, ...], Array] | None = None
    iterations: int | None = None
    setup_time: float = 0.0
    solve_time: float = 0.0
    history: tuple[Mapping[str, float], ...] = ()
    notes: tuple[str, ...] = ()
    rows: Rows | None = None


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
    status: granted by the certificate
    native_status: the solver's own words
    objective, dual_objective: recomputed from the returned numbers
    certificate: residuals, eigenvalues, safe bound, gap
    matrices: one positive semidefinite (n, n) array per block; for large graphs a `Gram`, which
        multiplies, measures and has eigenvectors, but no entries
    x: (n_x,) auxiliary variables;  dual: (m,) multipliers w
    rows: for a program with a family, the comparisons that `dual` belongs to
    ray: the verified proof of infeasibility or unboundedness, if that is the status
    solver, reason: who solved it and why it was chosen
    trajectory: the steps, if the problem took several programs; times and iterations are sums
    stop: why the solver stopped, in its own opinion
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
    trajectory: Trajectory | None = None
    stop: Stop | None = None

    @property
    def matrix(self) -> Matrix:
        """The first block's matrix: K, M or Z."""
        return self.matrices[0]

    def __repr__(self) -> str:
        t = self.times
        lines = [
            f"<Solution: {self.status} by {self.solver} ({self.reason})",
            f"  {self.message}",
            f"  objective {self.objective:.9g}, bound {self.certificate.safe_bound:.9g}, "
            f"certified relative gap {self.certificate.relative_gap:.2g}",
            f"  {self.iterations if self.iterations is not None else '?'} iterations; seconds: "
            f"compile {t.compile:.3g}, setup {t.setup:.3g}, solve {t.solve:.3g}, "
            f"certify {t.certify:.3g}",
            *(f"  note: {note}" for note in self.notes),
        ]
        return "\n".join(lines) + ">"
