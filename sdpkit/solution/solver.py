"""What every solver offers, and what it says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings


@dataclass(frozen=True)
class Capabilities:
    """What a solver can take and what it returns.

    `only`: the one shape of program that it takes, "graphs", "coverings", "roots"
    (`sdpkit.program.shapes`) or "families", empty for any; `families`: programs with a family of
    comparisons, which other solvers are given in parts; `ranks`: limits on the rank of
    a block; `log_det`: log dets of blocks; `quadratic`, `norms`: penalties of auxiliary variables;
    `checkpoint`: its state can be kept in a file; `teaching`: a method to read and to watch, too
    slow for more than a few digits.
    """

    only: str = ""
    families: bool = False
    ranks: bool = False
    log_det: bool = False
    quadratic: bool = False
    norms: bool = False
    warm_start: bool = False
    callback: bool = False
    checkpoint: bool = False
    teaching: bool = False
    summary: str = ""

    @property
    def plain(self) -> bool:
        """Whether it takes programs of written rows, graphs at least."""
        return self.only in ("", "graphs")


class Solver(Protocol):
    """What every solver offers. It never judges its own answer."""

    name: str
    capabilities: Capabilities

    def unavailable(self) -> str | None:
        """Why the solver cannot be used here, or None."""

    def memory(self, program: Program) -> float:
        """An estimate of the bytes it needs for this program."""

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Solve; return numbers and native words, in the program's own signs."""
