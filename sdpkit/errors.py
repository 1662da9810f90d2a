"""The exceptions and warnings of sdpkit; every message says what is wrong, with which value, and
what to do."""

from __future__ import annotations

import sys
from functools import cache


class SdpkitError(Exception):
    """Base of every error that sdpkit raises on purpose.

    Examples
    --------
    >>> import sdpkit
    >>> issubclass(sdpkit.InputError, sdpkit.SdpkitError)
    True
    """


class InputError(SdpkitError, ValueError):
    """The data or parameters handed to sdpkit cannot be used as they are.

    Examples
    --------
    >>> import sdpkit
    >>> try:
    ...     sdpkit.MVU([[0.0], [float("nan")]])
    ... except sdpkit.InputError as error:
    ...     print("refused")
    refused
    """


class GraphError(InputError):
    """The neighbourhood graph does not fit the problem (disconnected, empty, degenerate).

    Examples
    --------
    >>> import sdpkit
    >>> try:
    ...     sdpkit.MVU([[0.0], [1.0], [8.0], [9.0]], n_neighbors=1)
    ... except sdpkit.GraphError as error:
    ...     print(str(error)[:43])
    the neighbourhood graph has 2 components (s
    """


class UnboundedProblemError(InputError):
    """The program has no finite optimum; the message says which parameter to change.

    Examples
    --------
    >>> import sdpkit
    >>> ring = sdpkit.datasets.cycle_graph(5)
    >>> try:
    ...     sdpkit.MVU(graph=ring, form="slack", omega=0.01).program()
    ... except sdpkit.UnboundedProblemError:
    ...     print("omega is too small")
    omega is too small
    """


class SolverError(SdpkitError, RuntimeError):
    """A solver cannot be used for this program, or broke down without an answer.

    Examples
    --------
    >>> import sdpkit
    >>> try:
    ...     sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)), "covering")
    ... except sdpkit.SolverError:
    ...     print("not suited")
    not suited
    """


class SolverUnavailableError(SolverError):
    """The solver is known, but something it needs is not installed.

    Examples
    --------
    >>> import sdpkit
    >>> issubclass(sdpkit.SolverUnavailableError, sdpkit.SolverError)
    True
    """


class UnsuitableSolverError(SolverError):
    """The solver was refused before it was called: it does not accept this program.

    Examples
    --------
    >>> import sdpkit
    >>> try:
    ...     sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)), "ascent")
    ... except sdpkit.UnsuitableSolverError:
    ...     print("not suited")
    not suited
    """


class NotEnoughMemoryError(SolverError, MemoryError):
    """The solver was refused before it was called: its estimated memory does not fit.

    Examples
    --------
    >>> import sdpkit
    >>> issubclass(sdpkit.NotEnoughMemoryError, MemoryError)
    True
    """


class OutOfMemoryError(SolverError, MemoryError):
    """The solver was called, and could not allocate what it needed.

    Examples
    --------
    >>> import sdpkit
    >>> issubclass(sdpkit.OutOfMemoryError, MemoryError)
    True
    """


class ConvergenceWarning(UserWarning):
    """The certificate did not pass at the tolerance that was asked for.

    Where scikit-learn is loaded, the warnings are of its class of the same name too.

    Examples
    --------
    >>> import warnings, sdpkit
    >>> roll = sdpkit.MVU(sdpkit.datasets.swiss_roll(20), n_neighbors=4)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     solution = sdpkit.solve(roll, "interior", max_iter=2)
    >>> any(issubclass(w.category, sdpkit.ConvergenceWarning) for w in caught)
    True
    """


def convergence_warning() -> type[ConvergenceWarning]:
    """The class to warn with. It does not load scikit-learn, which takes a second."""
    loaded = sys.modules.get("sklearn.exceptions")
    return ConvergenceWarning if loaded is None else _also(loaded.ConvergenceWarning)


@cache
def _also(theirs: type[UserWarning]) -> type[ConvergenceWarning]:
    return type("ConvergenceWarning", (ConvergenceWarning, theirs), {"__module__": __name__})
