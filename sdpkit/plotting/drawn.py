"""What the pictures need of the objects that they draw.

Plotting lies below the modules that make these objects and imports none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.typing import Array, Indices


class DrawnEmbedding(Protocol):
    """Coordinates of points, with the edges of their graph."""

    @property
    def coordinates(self) -> Array:
        """(n, d)."""

    @property
    def eigenvalues(self) -> Array:
        """(n,) of the Gram matrix."""

    @property
    def edges(self) -> Indices:
        """(m, 2)."""

    @property
    def tensions(self) -> Array | None:
        """(m,) the multipliers of the edges."""

    @property
    def variance(self) -> float | None:
        """The trace of the Gram matrix."""

    @property
    def fidelity(self) -> float:
        """The share of the variance that the coordinates keep."""


class DrawnMetric(Protocol):
    """Metrics of labelled points."""

    @property
    def X(self) -> Array:
        """(n, d) points."""

    @property
    def labels(self) -> Indices:
        """(n,)."""

    @property
    def block_of(self) -> Indices:
        """(n,) the metric of each point."""

    @property
    def matrices(self) -> tuple[Array, ...]:
        """(d, d) each."""


class DrawnQueryMetrics(Protocol):
    """A metric per query."""

    @property
    def queries(self) -> Array:
        """(b, d)."""

    @property
    def weights(self) -> Array:
        """(b, d) eigenvalues."""

    @property
    def matrices(self) -> Array:
        """(b, d, d)."""


class DrawnEllipsoid(Protocol):
    """{z : (z − center)ᵀ shape⁻¹ (z − center) ≤ radius}."""

    @property
    def center(self) -> Array:
        """(d,)."""

    @property
    def shape(self) -> Array:
        """(d, d)."""

    @property
    def radius(self) -> float:
        """t, positive."""


class DrawnProgram(Protocol):
    """The linear constraints of a program."""

    @property
    def name(self) -> str:
        """For the title."""

    @property
    def n_rows(self) -> int:
        """m."""

    @property
    def n_auxiliary(self) -> int:
        """n_x."""

    @property
    def rows_q(self) -> sp.csr_array:
        """(m, p)."""

    @property
    def rows_x(self) -> sp.csr_array:
        """(m, n_x)."""

    @property
    def matrix_rows(self) -> sp.csr_array:
        """(m, k) coefficients of the entries of the matrices."""

    @property
    def relations(self) -> NDArray[np.int8]:
        """(m,) −1, 0, 1."""

    @property
    def rhs(self) -> Array:
        """(m,)."""


class DrawnSolution(Protocol):
    """The record of a solve."""

    @property
    def program(self) -> Any:
        """A `DrawnProgram`."""

    @property
    def solver(self) -> str:
        """Its name."""

    @property
    def status(self) -> Any:
        """For the title."""

    @property
    def history(self) -> Sequence[Mapping[str, float]]:
        """Numbers per iteration."""


class DrawnTrajectory(Protocol):
    """The record of a sequence of programs."""

    @property
    def progress(self) -> Mapping[str, Array]:
        """Name → a number per program."""

    @property
    def reason(self) -> str:
        """Why it ended."""


class DrawnRun(Protocol):
    """One line of a comparison."""

    @property
    def instance(self) -> str: ...

    @property
    def solver(self) -> str: ...

    @property
    def n(self) -> int: ...

    @property
    def tol(self) -> float: ...

    @property
    def start(self) -> str:
        """ "cold" or "warm"."""

    @property
    def success(self) -> bool: ...

    @property
    def total(self) -> float:
        """Seconds."""

    @property
    def gap(self) -> float:
        """Certified."""


class DrawnComparison(Protocol):
    """Many runs."""

    @property
    def runs(self) -> Sequence[DrawnRun]: ...
