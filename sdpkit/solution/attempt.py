"""What one of several solvers reached, where `solver="auto"` called more than one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Attempt:
    """One call of a solver, judged by the certificate.

    Attributes
    ----------
    solver: its name
    reached: the smallest tolerance at which its certified answer passes; infinite without one
    seconds: what the call took, without the certificate
    outcome: "certified", "infeasible", "unbounded", or why the solver stopped
    words: the solver's own words
    """

    solver: str
    reached: float
    seconds: float
    outcome: str
    words: str = ""

    def __str__(self) -> str:
        """
        >>> print(Attempt("csdp", 2.4e-8, 0.31, "certified"))
        csdp: certified, 2.4e-08 after 0.31 s
        """
        error = f"{self.reached:.2g}" if np.isfinite(self.reached) else "nothing certified"
        return f"{self.solver}: {self.outcome}, {error} after {self.seconds:.2g} s"


__all__ = ["Attempt"]
