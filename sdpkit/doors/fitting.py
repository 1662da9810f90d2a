"""What the estimators share: they solve a problem, keep its proof and show it.

An estimator has no mathematics of its own. It checks its data in scikit-learn's way, builds a
problem, calls `sdpkit.solve`, and names the parts of the answer in scikit-learn's words.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from sdpkit.inputs import one_of
from sdpkit.solution.answer import Stop
from sdpkit.solving.call import solve

Callback = Callable[[Mapping[str, Any]], Any]


class CertifiedEstimator(BaseEstimator):
    """An estimator that solves a problem: `problem_`, `solution_`, `certificate_` and `n_iter_`.

    Parameters that all of them have
    --------------------------------
    solver, tol, max_iter, time_limit, verbose, callback: as in `sdpkit.solve`
    on_interrupt: what Ctrl-C does while the solver runs: "keep" leaves a fitted estimator with the
        best point found and its certificate (`solution_.status` is `interrupted`), "raise" raises
        `KeyboardInterrupt`
    """

    solver: str
    tol: float | None
    max_iter: int | None
    time_limit: float | None
    verbose: int
    callback: Callback | None
    on_interrupt: str

    def _solve(self, problem: Any) -> None:
        """Solve the problem and keep the answer with its certificate."""
        one_of(self.on_interrupt, "on_interrupt", ("keep", "raise"))
        watched = _Watched(self.callback)
        solution = solve(
            problem,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            verbose=self.verbose,
            callback=None if self.callback is None else watched,
        )
        interrupted = solution.stop is Stop.INTERRUPTED and not watched.asked
        if interrupted and self.on_interrupt == "raise":
            raise KeyboardInterrupt
        self.problem_ = problem
        self.solution_ = solution
        self.certificate_ = solution.certificate
        self.n_iter_ = solution.iterations

    def _html_repr(self) -> str:
        """scikit-learn's picture of the estimator and, once fitted, its certificate."""
        from sklearn.utils import estimator_html_repr

        picture = str(estimator_html_repr(self))
        if not hasattr(self, "solution_"):
            return picture
        return f"{picture}<pre>{html.escape(repr(self.solution_))}</pre>"


class _Watched:
    """A callback that remembers whether it asked the solver to stop."""

    def __init__(self, callback: Callback | None) -> None:
        self.callback = callback
        self.asked = False

    def __call__(self, state: Mapping[str, Any]) -> Any:
        answer = self.callback(state) if self.callback is not None else None
        self.asked = self.asked or answer is True
        return answer


def seed_of(random_state: Any) -> int:
    """A whole number from what scikit-learn accepts as `random_state`.

    >>> seed_of(3)
    3
    """
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
