"""The exceptions and warnings of sdpkit; every message says what is wrong, with which value, and
what to do."""

from __future__ import annotations

import sys
from functools import cache


class SdpkitError(Exception):
    """Base of every error that sdpkit raises on purpose."""


class InputError(SdpkitError, ValueError):
    """The data or parameters handed to sdpkit cannot be used as they are."""


class GraphError(InputError):
    """The neighbourhood graph does not fit the problem (disconnected, empty, degenerate)."""


class UnboundedProblemError(InputError):
    """The program has no finite optimum; the message says which parameter to change."""


class SolverError(SdpkitError, RuntimeError):
    """A solver cannot be used for this program, or broke down without an answer."""


class SolverUnavailableError(SolverError):
    """The solver is known, but something it needs is not installed."""


class UnsuitableSolverError(SolverError):
    """The solver was refused before it was called: it does not accept this program."""


class NotEnoughMemoryError(SolverError, MemoryError):
    """The solver was refused before it was called: its estimated memory does not fit."""


class OutOfMemoryError(SolverError, MemoryError):
    """The solver was called, and could not allocate what it needed."""


class ConvergenceWarning(UserWarning):
    """The certificate did not pass at the tolerance that was asked for.

    Where scikit-learn is loaded, the warnings are of its class of the same name too.
    """


def convergence_warning() -> type[ConvergenceWarning]:
    """The class to warn with. It does not load scikit-learn, which takes a second."""
    loaded = sys.modules.get("sklearn.exceptions")
    return ConvergenceWarning if loaded is None else _also(loaded.ConvergenceWarning)


@cache
def _also(theirs: type[UserWarning]) -> type[ConvergenceWarning]:
    return type("ConvergenceWarning", (ConvergenceWarning, theirs), {"__module__": __name__})
