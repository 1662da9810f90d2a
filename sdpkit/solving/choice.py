"""Solver selection: acceptance, estimates of time and memory, the fastest first.

For `solver="auto"` every available solver, ours or another package's, answers three questions: does
it accept the program, do its matrices fit in memory, how many seconds does it expect. The one that
expects the fewest is called. Methods for teaching are left out, and so are the solvers that only
cvxpy knows. A family of comparisons is written out for solvers that cannot search one, if there are
at most 3000 comparisons.

The seconds of our engines are counted work times measured costs (`make bench NAME=auto`); others
extrapolate a few measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sdpkit.errors import (
    NotEnoughMemoryError,
    SolverError,
    SolverUnavailableError,
    UnsuitableSolverError,
)
from sdpkit.files import free_memory
from sdpkit.numerics.deadline import Abandoned
from sdpkit.program.form import Program
from sdpkit.solution.solver import Estimate, Solver, unsupported
from sdpkit.solving.registry import get_solver, listed_solvers, unavailability, why_not

# Comparisons of a family that are written down at once.
WRITTEN_ROWS = 3000


class Choice(NamedTuple):
    """A solver, and why it was chosen."""

    solver: Solver
    reason: str


@dataclass(frozen=True)
class Offer:
    """Why a solver refuses a program, or what it expects to need for it."""

    solver: Solver
    refusal: str | None
    estimate: Estimate

    @property
    def fits(self) -> bool:
        """Whether its matrices fit in memory."""
        return self.estimate.memory <= free_memory()


def why_refused(solver: Solver, program: Program) -> str | None:
    """Why `solver` does not take `program`, in words that follow its name, or None.

    >>> from sdpkit import Block, Program
    >>> why_refused(get_solver("factored"), Program.of(Block.of(1, [[1.0]]), [1.0]))
    'only solves programs with a family of comparisons; this program has none'
    """
    if not hasattr(solver, "accepts"):
        return unsupported(solver.capabilities, program)
    reason: Any = _asked(solver.accepts, program)
    if isinstance(reason, Exception):
        return f"cannot say whether it takes this program: accepts() raised {_told(reason)}"
    if reason is not None and not isinstance(reason, str):
        return f"answered {reason!r} in accepts(), where None or a reason in words was expected"
    return reason


def estimate(solver: Solver, program: Program, tol: float) -> Estimate:
    """What a solver expects to need; a question that it cannot answer counts as infinite.

    Parameters
    ----------
    solver : Solver
        The solver.
    program : Program
        The program.
    tol : float
        The tolerance.

    Returns
    -------
    Estimate
        Seconds of one core, and bytes.

    Examples
    --------
    >>> from sdpkit import Block, Program
    >>> estimate(get_solver("interior"), Program.of(Block.of(1, [[1.0]]), [1.0]), 1e-6).seconds < 1
    True
    """
    seconds = math.inf
    if hasattr(solver, "seconds"):
        seconds = _nonnegative(_asked(solver.seconds, program, tol))
    return Estimate(seconds, _nonnegative(_asked(solver.memory, program)))


def _asked(question: Callable[..., Any], *about: Any) -> Any:
    """The answer of a solver that may be another package's, or the exception that it raised."""
    try:
        return question(*about)
    except Abandoned:
        raise  # the time of the user is over
    except Exception as error:
        return error


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _nonnegative(answer: Any) -> float:
    """A number of seconds or bytes; anything else is not known, which is infinite."""
    try:
        number = float(answer)
    except (TypeError, ValueError):
        return math.inf
    return number if number >= 0 else math.inf


def refusal(solver: Solver, program: Program) -> SolverError | None:
    """Why `solver` must not be called for `program`, or None."""
    missing = unavailability(solver)
    if missing is not None:
        return SolverUnavailableError(f"solver {solver.name!r} is not available: {missing}")
    reason = why_refused(solver, program)
    if reason is not None:
        return UnsuitableSolverError(f"solver {solver.name!r} {reason}. {_advice(program)}")
    needed, free = _asked(solver.memory, program), free_memory()
    if isinstance(needed, Exception):
        told = f"memory() raised {_told(needed)}"
        return SolverError(f"solver {solver.name!r} cannot say how much memory it needs: {told}")
    if needed <= free:
        return None
    return NotEnoughMemoryError(
        f"solver {solver.name!r} would need about {needed / 2**30:.3g} GiB for this program; "
        f"{free / 2**30:.3g} GiB are free. {_advice(program)}"
    )


def _advice(program: Program) -> str:
    """A sentence that names the one or two fastest solvers that would do."""
    able = [offer.solver.name for offer in suitable(offers(program))]
    if not able:
        return "No available solver can take it: make the instance smaller."
    return f"Use solver={' or '.join(repr(name) for name in able[:2])}."


def offers(program: Program, tol: float = 1e-6) -> list[Offer]:
    """The offers of all available solvers, except for methods for teaching."""
    written = _written(program)
    found = []
    for name in listed_solvers():
        if why_not(name) is not None:
            continue
        solver = get_solver(name)
        if solver.capabilities.teaching:
            continue
        asked = program if solver.capabilities.families else written
        reason: str | None
        if asked is None:
            reason = f"cannot search families; this one has more than {WRITTEN_ROWS} comparisons"
        else:
            reason = why_refused(solver, asked)
        needed = Estimate(math.inf, math.inf)
        if reason is None and asked is not None:
            needed = estimate(solver, asked, tol)
        found.append(Offer(solver, reason, needed))
    return found


def _written(program: Program) -> Program | None:
    """The program with its family written out as constraints; None if that is too large."""
    family = program.family
    if family is None or family.n_rows > WRITTEN_ROWS:
        return program if family is None else None
    return program.restricted(family.everything())


def suitable(asked: list[Offer]) -> list[Offer]:
    """The offers of solvers that take the program, the fastest first; equal ones by name."""
    able = [offer for offer in asked if offer.refusal is None and offer.fits]
    return sorted(able, key=lambda offer: (offer.estimate.seconds, offer.solver.name))


def choose(program: Program, tol: float = 1e-6) -> Choice:
    """The solver that expects to be the fastest for `program`, and the reason in words.

    >>> import sdpkit
    >>> solver, reason = choose(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)).program())
    >>> solver.name, reason.split(";")[0]
    ('interior', 'auto: interior, about 0.0... s')
    """
    asked = offers(program, tol)
    able = suitable(asked)
    if not able:
        told = [f"{offer.solver.name}: {offer.refusal or 'too little memory'}" for offer in asked]
        raise UnsuitableSolverError(
            f"no available solver can take this program. {'; '.join(told)}. "
            "Make it smaller, or install a solver that takes it (see `sdpkit solvers`)."
        )
    return Choice(able[0].solver, _reason(asked, able))


def _reason(asked: list[Offer], able: list[Offer]) -> str:
    parts = [f"auto: {_forecast(able[0])}"]
    parts += [f"next {_forecast(offer)}" for offer in able[1:2]]
    large = [offer.solver.name for offer in asked if offer.refusal is None and not offer.fits]
    parts += [f"too little memory for {', '.join(large)}"] if large else []
    other = [offer.solver.name for offer in asked if offer.refusal is not None]
    parts += [f"not suited: {', '.join(other)}"] if other else []
    return "; ".join(parts)


def _forecast(offer: Offer) -> str:
    seconds = offer.estimate.seconds
    return f"{offer.solver.name}, " + (
        f"about {seconds:.2g} s" if math.isfinite(seconds) else "no forecast"
    )
