"""The exceptions of sdpkit; every message says what is wrong, with which value, and what to do."""

from __future__ import annotations


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
