"""The loop in which every engine of sdpkit runs.

An engine supplies its state, one step and its answer (`Engine`). The `Driver` supplies what all
engines share: the clock, the limits on time and iterations, interruption, the callback, the
checkpoint, the progress that is shown and logged, and the history.

Every row of a history has the keys of `COLUMNS`, in this order; a number that an engine does not
know in a row is NaN there. Further keys are the engine's own.

    iteration         how many iterations came before the row
    seconds           since the solver was called
    objective         of the point, in the program's sense
    bound             the dual objective of the multipliers; what it proves, the certificate decides
    gap               the relative distance of the two, as the engine measures it
    primal_residual   by how much constraints are missed, relative to right-hand sides
    dual_residual     by how much the multipliers are infeasible, relative to the costs
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit.layout import Layout
from sdpkit.numerics.breakdown import broke_down, is_breakdown
from sdpkit.numerics.deadline import UNSTOPPED, Abandoned
from sdpkit.numerics.interruption import is_interrupted
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.options import Option, checked_options
from sdpkit.solution.progress import LOG, shown
from sdpkit.typing import Array

COLUMNS = (
    "iteration",
    "seconds",
    "objective",
    "bound",
    "gap",
    "primal_residual",
    "dual_residual",
)

# Seconds that a setup may go on when the time is up: small programs have a first point by then.
SETUP_SECONDS = 0.5
# Seconds that a search may take when time is up: the numbers of a last look are worth them.
_MOMENT = 0.2


class Engine(Protocol):
    """The steps, the answer and the state that an iterative method hands to the driver.

    The attributes of an engine are its state.

    Examples
    --------
    >>> class Halving:
    ...     x = 1.0
    ...     def step(self, driver):
    ...         self.x /= 2
    ...         driver.end(Stop.DONE, "one step is enough")
    ...     def answer(self, stop):
    ...         return Answer(stop, "", x=np.array([self.x]))
    ...     def state(self):
    ...         return {"x": self.x}
    >>> Driver("halving", Settings(), max_iter=9).run(Halving()).native_status
    'one step is enough'
    """

    def step(self, driver: Driver) -> None:
        """Advance by one unit of work; tell the driver of iterations, numbers and the end.

        A step of many iterations, or of slow ones, asks `driver.must_stop` on its way. Searches
        of a family are abandoned at a limit, wherever in a step they are.
        """

    def answer(self, stop: Stop) -> Answer:
        """What was found; the driver adds words, history, iterations and times."""

    def state(self) -> Mapping[str, ArrayLike] | None:
        """What a later run needs to continue from here, or None if there is nothing yet."""


class Driver:
    """Runs an engine until it ends, or a limit, the callback or the user ends it.

    The clock starts when the driver is made: make it before the setup of an engine.

    Parameters
    ----------
    solver : str
        Its name, for messages.
    settings : Settings
        What the solver was told.
    max_iter : int
        The limit on iterations where the settings name none.
    options : mapping, default mappingproxy({})
        The options that the solver has.

    Attributes
    ----------
    solver : str
        Its name.
    settings : Settings
        What it was told.
    options : dict
        The solver's own, with their defaults.
    iterations : int
        Counted by the engine through `count`.
    stop : Stop or None
        Why the run ended; None while it runs.
    words : str
        Why in words; "" while it runs.
    history : list of dict
        One row per call of `record`.

    Examples
    --------
    >>> class Halving:
    ...     x = 1.0
    ...     def step(self, driver):
    ...         self.x /= 2
    ...         driver.count()
    ...         driver.record(objective=self.x)
    ...         if self.x < 0.1:
    ...             driver.end(Stop.DONE, "small enough")
    ...     def answer(self, stop):
    ...         return Answer(stop, "", x=np.array([self.x]))
    ...     def state(self):
    ...         return {"x": self.x}
    >>> answer = Driver("halving", Settings(), max_iter=100).run(Halving())
    >>> answer.native_status, answer.iterations, [row["objective"] for row in answer.history]
    ('small enough', 4, [0.5, 0.25, 0.125, 0.0625])
    """

    def __init__(
        self,
        solver: str,
        settings: Settings,
        max_iter: int,
        options: Mapping[str, Option] = MappingProxyType({}),
    ) -> None:
        """`max_iter` holds where the settings have none; `options` are those that it has."""
        self.solver, self.settings = solver, settings
        self.options = checked_options(solver, settings.options, options)
        self._clock = settings.deadline.now
        self._started = self._clock()
        self._setup: float | None = None
        self._limit = max_iter if settings.max_iter is None else settings.max_iter
        self._begin()

    def _begin(self) -> None:
        self.iterations = 0
        self.stop: Stop | None = None
        self.words = ""
        self.history: list[Mapping[str, float]] = []
        self.notes: list[str] = []

    # -- what an engine asks -----------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Since the solver was called."""
        return self._clock() - self._started

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit has passed or Ctrl-C was pressed; cheap enough for inner loops."""
        return self.settings.deadline.is_over

    @property
    def iterations_left(self) -> int:
        """Until the limit on iterations."""
        return max(self._limit - self.iterations, 0)

    @property
    def must_stop(self) -> bool:
        """Whether the run has ended, or has reached a limit, which ends it."""
        if self.stop is None and self.out_of_time:
            self.end(*self._limit_reached())
        elif self.stop is None and self.iterations >= self._limit:
            self.end(Stop.ITERATION_LIMIT, f"iteration limit after {self.iterations} iterations")
        return self.stop is not None

    def _limit_reached(self) -> tuple[Stop, str]:
        if is_interrupted():
            return Stop.INTERRUPTED, f"interrupted after {self.iterations} iterations"
        return Stop.TIME_LIMIT, f"time limit after {self.iterations} iterations"

    def saved(self, layout: Layout) -> Mapping[str, NDArray[Any]] | None:
        """The state that an earlier run left in the checkpoint, or None.

        `layout` says what each array of `Engine.state` must be; any other state is refused.
        """
        checkpoint = self.settings.checkpoint
        return None if checkpoint is None else checkpoint.load(layout)

    # -- what an engine tells ----------------------------------------------------------------

    def count(self, iterations: int = 1) -> None:
        """Add to the number of iterations."""
        self.iterations += iterations

    def resume(self, iterations: int) -> None:
        """Count on from an earlier run; the limit is on the iterations of this one."""
        self.iterations = iterations
        self._limit += iterations

    def end(self, stop: Stop, words: str) -> None:
        """End the run after this step; the first reason counts."""
        if self.stop is None:
            self.stop, self.words = stop, words

    def record(
        self,
        matrices: Callable[[], tuple[Array, ...]] | None = None,
        /,
        *,
        objective: float = np.nan,
        bound: float = np.nan,
        gap: float = np.nan,
        primal_residual: float = np.nan,
        dual_residual: float = np.nan,
        **own: float,
    ) -> None:
        """Keep a row of the history, log it, and show it to the callback.

        `matrices` are computed for the callback alone. A callback that returns True ends the run.
        """
        numbers = (objective, bound, gap, primal_residual, dual_residual)
        common = zip(COLUMNS, (float(self.iterations), self.seconds, *numbers), strict=True)
        row = {**dict(common), **own}
        self.history.append(row)
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug(_line(row))
        if self.settings.progress is not None:
            self.settings.progress.show(self.solver, row)
        if self.settings.callback is not None:
            told = row if matrices is None else {**row, "matrices": matrices()}
            if self.call_back(told) is True:
                words = f"stopped by the callback after {self.iterations} iterations"
                self.end(Stop.INTERRUPTED, words)

    def call_back(self, told: Mapping[str, Any]) -> Any:
        """Call the user's callback; what it raises is the user's."""
        assert self.settings.callback is not None
        return self.settings.callback(told)

    # -- the loop ----------------------------------------------------------------------------

    def run(self, engine: Engine | Answer) -> Answer:
        """Step until the end; the checkpoint is written when it is due, and at the end. An answer
        that needed no engine is finished."""
        if isinstance(engine, Answer):
            return self.finish(engine)
        if self._setup is None:
            self._setup = self.seconds
        try:
            with shown(self.settings.verbose):
                self._step_on(engine)
        except KeyboardInterrupt:
            self.end(Stop.INTERRUPTED, f"interrupted after {self.iterations} iterations")
        self._save(engine)
        assert self.stop is not None
        with UNSTOPPED.applies():  # a point that was found is not given up
            return self.finish(engine.answer(self.stop))

    def _step_on(self, engine: Engine) -> None:
        checkpoint = self.settings.checkpoint
        searches = self.settings.deadline.later(_MOMENT)
        while True:
            try:
                with searches.applies():
                    engine.step(self)
            except Abandoned:
                self.end(*self._limit_reached())
            except Exception as error:
                if not self.history or not is_breakdown(error, besides=Driver.call_back):
                    raise  # without a first point there is nothing to return
                self.end(Stop.FAILED, f"{broke_down(error)}; the last point is returned")
            if self.must_stop:
                return
            if checkpoint is not None and checkpoint.is_due:
                self._save(engine)

    def finish(self, answer: Answer) -> Answer:
        """The answer with what the driver knows; also for one that was found without a step."""
        setup = self.seconds if self._setup is None else self._setup
        return replace(
            answer,
            native_status=self.words or answer.native_status,
            iterations=self.iterations,
            setup_time=setup,
            solve_time=self.seconds - setup,
            history=tuple(self.history),
            notes=(*answer.notes, *self.notes),
        )

    def again(self) -> Driver:
        """A driver for a second attempt: the same clock, a new count and a new history."""
        other = copy(self)
        other._begin()
        return other

    def _save(self, engine: Engine) -> None:
        """Write the state; a disk that is full must not cost the answer."""
        checkpoint = self.settings.checkpoint
        state = None if checkpoint is None else engine.state()
        if checkpoint is None or state is None:
            return
        try:
            checkpoint.save(**state)
        except OSError as error:
            words = f"the checkpoint could not be written: {error}"
            if words not in self.notes:
                self.notes.append(words)
                warnings.warn(f"{words}; the run continues", RuntimeWarning, stacklevel=2)


def _line(row: Mapping[str, float]) -> str:
    """One row as it is printed; numbers that are not known are left out."""
    parts = [f"{row['iteration']:6.0f}", f"{row['seconds']:8.2f} s"]
    for name, number in row.items():
        if name in COLUMNS[:2] or np.isnan(number):
            continue
        form = "+.9e" if name in ("objective", "bound") else ".3g"
        parts.append(f"{name.replace('_', ' ')} {number:{form}}")
    return "  ".join(parts)


__all__ = ["COLUMNS", "SETUP_SECONDS", "Driver", "Engine"]
