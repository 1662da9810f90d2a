"""What a solver returns, what sdpkit makes of it, and the words for how it ended.

A solver returns an `Answer`: numbers and its own words, no verdict. `sdpkit.solve` lets the
certificate judge and hands the user a `Solution`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.families import Rows
    from sdpkit.program.gram import Matrix
    from sdpkit.solution.checkpoint import Checkpoint
    from sdpkit.solution.progress import Progress
    from sdpkit.solution.solution import Solution


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
    progress: Progress | None = None


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
