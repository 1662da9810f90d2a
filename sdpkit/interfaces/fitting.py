"""What the estimators share: they solve a problem, keep its proof and show it.

An estimator checks its data in scikit-learn's way, builds a problem, calls `sdpkit.solve` and names
the parts of the answer as scikit-learn does.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from sdpkit.certificate.certificate import Certificate
from sdpkit.inputs import one_of
from sdpkit.interfaces.files import SavedMixin
from sdpkit.solution.answer import Stop
from sdpkit.solution.solution import Solution
from sdpkit.solving.solve import solve

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


Callback = Callable[[Mapping[str, Any]], Any]


# A dataclass writes the `__init__` that scikit-learn requires: it stores its keywords and does
# nothing else. Comparison and printing stay scikit-learn's.
@dataclass(kw_only=True, eq=False, repr=False)
class CertifiedEstimator(SavedMixin, CallbackSupportMixin, BaseEstimator):
    """What all estimators share that solve a problem and keep its certificate.

    From scikit-learn 1.9 on, `set_callbacks` takes its callbacks, such as its progress bar.

    Parameters
    ----------
    solver : str, default "auto"
        A name from `sdpkit.available_solvers()`, or "auto".
    tol : float or None, default None
        The certified relative gap to reach; None takes the problem's default.
    max_iter : int or None, default None
        The limit on iterations; None leaves it to the solver.
    time_limit : float or None, default None
        The limit in seconds.
    verbose : int, default 0
        0 is silent; 1 prints a line that updates; 2 prints a line per iteration.
    callback : callable or None, default None
        Called with a mapping in every iteration; the solver stops if it returns True.
    on_interrupt : {"keep", "raise"}, default "keep"
        What Ctrl-C does: "keep" leaves a fitted estimator with the best point found and its
        certificate, "raise" raises `KeyboardInterrupt`.

    Attributes
    ----------
    problem_ : problem object
        The problem that was solved.
    solution_ : Solution
        Its solution.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> from sdpkit.estimators import MaximumVarianceUnfolding
    >>> model = MaximumVarianceUnfolding().fit([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> isinstance(model, CertifiedEstimator), model.certificate_.passes(1e-6)
    (True, True)
    """

    solver: str = "auto"
    tol: float | None = None
    max_iter: int | None = None
    time_limit: float | None = None
    verbose: int = 0
    callback: Callback | None = None
    on_interrupt: Literal["keep", "raise"] = "keep"

    # The problem and its solution are too large for a file.
    _saved: ClassVar[Mapping[str, Any]] = {
        **SavedMixin._saved,
        "certificate_": Certificate,
        "n_iter_": int | None,
    }

    @with_callbacks  # type: ignore[untyped-decorator]
    def _solve(self, problem: Any) -> None:
        """Solve the problem and keep the answer with its certificate."""
        one_of(self.on_interrupt, "on_interrupt", ("keep", "raise"))
        watched = _Watched(self)
        solution = solve(
            problem,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            verbose=self.verbose,
            callback=watched if watched.is_needed else None,
            warm_start=self._start(problem),
        )
        watched.end()
        interrupted = solution.stop is Stop.INTERRUPTED and not watched.stops
        if interrupted and self.on_interrupt == "raise":
            raise KeyboardInterrupt
        self.problem_ = problem
        self.solution_ = solution
        self.certificate_ = solution.certificate
        self.n_iter_ = solution.iterations

    def _start(self, problem: Any) -> Solution | None:
        """Where the solver starts, if anywhere in particular."""
        return None

    def _html_repr(self) -> str:
        """scikit-learn's picture of the estimator and, once fitted, its certificate."""
        from sklearn.utils import estimator_html_repr

        picture = str(estimator_html_repr(self))
        proof = getattr(self, "solution_", getattr(self, "certificate_", None))
        return picture if proof is None else f"{picture}<pre>{html.escape(repr(proof))}</pre>"


class _Watched:
    """Calls the callbacks at every iteration, and remembers whether one wants to stop.

    An iteration is a task of scikit-learn's callbacks within the task of the fit.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator, self.callback = estimator, estimator.callback
        self.stops = False
        self.task: Any = None
        if getattr(estimator, "_skl_callbacks", None):
            self.task = estimator._init_callback_context(max_subtasks=None)
            self.task.call_on_fit_task_begin(estimator=estimator)

    @property
    def is_needed(self) -> bool:
        """Whether there is a callback to call."""
        return self.callback is not None or self.task is not None

    def __call__(self, state: Mapping[str, Any]) -> Any:
        answer = self.callback(state) if self.callback is not None else None
        if self.task is not None:
            step = self.task.subcontext(task_name="iteration")
            step.call_on_fit_task_begin(estimator=self.estimator)
            answer = step.call_on_fit_task_end(estimator=self.estimator) or answer
        self.stops = self.stops or answer is True
        return answer

    def end(self) -> None:
        """The fit is over."""
        if self.task is not None:
            self.task.call_on_fit_task_end(estimator=self.estimator)


def seed_of(random_state: Any) -> int:
    """A whole number from what scikit-learn accepts as `random_state`.

    >>> seed_of(3)
    3
    """
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
