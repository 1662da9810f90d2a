"""What a solver returns, what sdpkit makes of it, and the words for how it ended.

A solver returns an `Answer`: numbers and its own words, no verdict. `sdpkit.solve` certifies it and
returns a `Solution`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpkit.errors import SolverError
from sdpkit.numerics.deadline import NEVER, Deadline
from sdpkit.program.gram import FactoredGram, Gram, ResolventGram, StackedGram
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.arrow import ArrowForm
    from sdpkit.program.families import Rows
    from sdpkit.program.form import Program
    from sdpkit.program.gram import Matrix
    from sdpkit.solution.checkpoint import Checkpoint
    from sdpkit.solution.progress import Progress
    from sdpkit.solution.solution import Solution


class Stop(StrEnum):
    """Why a solver stopped, in its own opinion.

    The members are DONE, CLAIMS_INFEASIBLE, CLAIMS_UNBOUNDED, TIME_LIMIT, ITERATION_LIMIT,
    INTERRUPTED and FAILED.

    Examples
    --------
    >>> Stop("done") is Stop.DONE
    True
    """

    DONE = "done"
    CLAIMS_INFEASIBLE = "claims_infeasible"
    CLAIMS_UNBOUNDED = "claims_unbounded"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


# The least that a solver is told as its time limit: some take 0 for no limit.
_LEAST_SECONDS = 1e-3


@dataclass(frozen=True)
class Settings:
    """What every solver is told.

    Attributes
    ----------
    tol : float, default 1e-6
        The tolerance that the certificate will apply.
    max_iter : int or None, default None
        The limit on iterations.
    deadline : Deadline
        When the work must end.
    verbose : int, default 0
        As in `sdpkit.solve`.
    callback : callable or None, default None
        As in `sdpkit.solve`.
    warm_start : Solution or None, default None
        A solution of this or a nearby program.
    options : mapping
        The options of the solver, unchanged.
    checkpoint : Checkpoint or None, default None
        Where to keep the state.
    progress : Progress or None, default None
        Where to report progress.

    Examples
    --------
    >>> Settings(deadline=Deadline.after(60.0)).time_limit <= 60.0
    True
    """

    tol: float = 1e-6
    max_iter: int | None = None
    deadline: Deadline = NEVER
    verbose: int = 0
    callback: Callable[[Mapping[str, Any]], Any] | None = None
    warm_start: Solution | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    progress: Progress | None = None

    @property
    def time_limit(self) -> float | None:
        """The seconds that are left, for solvers that take a number; None without a limit."""
        left = self.deadline.left
        return None if left == math.inf else max(left, _LEAST_SECONDS)


@dataclass(frozen=True, eq=False)
class Answer:
    """A solver's raw return, in the program's own signs.

    Attributes
    ----------
    matrices : tuple of array or Gram or None
        One (n, n) array or `Gram` per block, or None.
    x : array of shape (n_x,) or None
        Auxiliary variables, or None.
    dual : array of shape (m,) or None
        Multipliers w, or None.
    multiplier_ray : array of shape (m,) or None
        w that shows infeasibility, or None.
    matrix_ray : tuple or None
        (matrices, x) that shows unboundedness, or None.
    rows : Rows or None
        For a program with a family, the comparisons that `dual` belongs to.
    smoothing : float, default 0.0
        Instead of both, γ > 0: the multipliers are weight·clip(½ + z/γ, 0, 1) for every comparison
        z of the family at `matrices`.
    stop : Stop
        Why the solver stopped.
    native_status : str
        Its own words.
    iterations : int or None
        None if unknown.
    setup_time : float, default 0.0
        Seconds before the first iteration.
    solve_time : float, default 0.0
        Seconds of iterations.
    history : tuple of mapping, default ()
        Numbers of each iteration.
    notes : tuple of str, default ()
        What a reader of the solution should know.

    Examples
    --------
    >>> Answer(Stop.FAILED, "no factor").matrices is None
    True
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
    smoothing: float = 0.0

    @property
    def hit_limit(self) -> bool:
        """Whether a limit or Ctrl-C ended the run."""
        return self.stop in (Stop.TIME_LIMIT, Stop.ITERATION_LIMIT, Stop.INTERRUPTED)


def with_second_order_cones(form: ArrowForm, answer: Answer) -> Answer:
    """The answer to the original program of a form with blocks in place of second-order cones."""
    if not form.original.cones:
        return answer
    point, ray = (answer.matrices, answer.x), answer.matrix_ray
    if answer.matrices is not None and answer.x is not None:
        point = form.lifted(answer.matrices, answer.x)
    ray = None if ray is None else form.lifted(*ray)
    return replace(answer, matrices=point[0], x=point[1], matrix_ray=ray)


def check_answer(program: Program, solver: str, answer: Answer) -> None:
    """Refuse what is not an answer to this program, naming the solver that returned it."""
    if not isinstance(answer, Answer):
        raise SolverError(f"solver {solver!r} returned {answer!r} instead of an Answer")
    shapes = [(block.size, block.size) for block in program.blocks]
    ray = answer.matrix_ray or (None, None)
    for matrix in answer.matrices or ():
        if isinstance(matrix, Gram) and type(matrix) not in (
            FactoredGram,
            ResolventGram,
            StackedGram,
        ):
            kind = type(matrix).__name__
            raise SolverError(f"solver {solver!r} returned a {kind}, which proves nothing")
    for what, matrices in (("matrices", answer.matrices), ("matrix_ray", ray[0])):
        if matrices is not None and [np.shape(m) for m in matrices] != shapes:
            found = [np.shape(m) for m in matrices]
            raise SolverError(f"solver {solver!r} returned {what} {found}, expected {shapes}")
    vectors = (
        ("x", answer.x, program.n_auxiliary),
        ("dual", answer.dual, program.n_rows if answer.rows is None else answer.rows.size),
        ("multiplier_ray", answer.multiplier_ray, program.n_rows),
        ("matrix_ray's x", ray[1], program.n_auxiliary),
    )
    for what, vector, size in vectors:
        if vector is not None and np.shape(vector) != (size,):
            raise SolverError(
                f"solver {solver!r} returned {what} of shape {np.shape(vector)}, expected ({size},)"
            )
