"""The interface of a solver: what it can do, and what it expects to need for a program."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings


@dataclass(frozen=True)
class Capabilities:
    """What a solver can do beyond linear constraints, as flags.

    Attributes
    ----------
    families : bool, default False
        Programs whose constraints are searched and never listed; other solvers get these in parts.
    ranks : bool, default False
        Limits on the rank of a block.
    log_det : bool, default False
        Log dets of blocks.
    second_order : bool, default False
        Second-order cones of auxiliary variables.
    quadratic : bool, default False
        Quadratic penalties of auxiliary variables.
    norms : bool, default False
        Norm penalties of auxiliary variables.
    warm_start : bool, default False
        It uses a warm start.
    callback : bool, default False
        It calls the callback in every iteration.
    checkpoint : bool, default False
        Its state can be kept in a file.
    teaching : bool, default False
        A method to read and to watch, which `solver="auto"` never chooses.
    stops_itself : bool, default False
        It works in a process that it stops, so that it keeps the time limit and answers Ctrl-C
        however long its steps take.
    summary : str, default ""
        One line for the table of solvers.

    Examples
    --------
    >>> Capabilities(log_det=True).norms
    False
    """

    families: bool = False
    ranks: bool = False
    log_det: bool = False
    second_order: bool = False
    quadratic: bool = False
    norms: bool = False
    warm_start: bool = False
    callback: bool = False
    checkpoint: bool = False
    teaching: bool = False
    stops_itself: bool = False
    summary: str = ""


@dataclass(frozen=True)
class Estimate:
    """What a solver expects to need for a program.

    Attributes
    ----------
    seconds : float
        Seconds of one core.
    memory : float
        Bytes.

    Examples
    --------
    >>> Estimate(seconds=0.5, memory=2e6).memory
    2000000.0
    """

    seconds: float
    memory: float


class Solver(Protocol):
    """What every solver offers. It never grants a status to its own answer.

    `accepts` and `seconds` may be missing in a solver of another package: it then takes every
    program that its capabilities allow, and "auto" chooses it where no other solver can.

    Attributes
    ----------
    name : str
        The name by which `sdpkit.solve` finds it.
    capabilities : Capabilities
        What it can do beyond linear constraints.

    Examples
    --------
    >>> from sdpkit.solvers.interior import INTERIOR
    >>> INTERIOR.name, INTERIOR.unavailable() is None
    ('interior', True)
    """

    name: str
    capabilities: Capabilities

    def unavailable(self) -> str | None:
        """Why the solver cannot be used on this machine, or None."""

    def accepts(self, program: Program) -> str | None:
        """None if it takes the program; else why not, in words that follow "solver 'name'"."""

    def memory(self, program: Program) -> float:
        """An estimate of the bytes it needs for this program."""

    def seconds(self, program: Program, tol: float) -> float:
        """A rough estimate of the seconds it needs for this program; inf if it has none."""

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Solve; return numbers and native words, in the program's own signs."""


def unsupported(capabilities: Capabilities, program: Program) -> str | None:
    """What a program needs beyond these capabilities.

    Parameters
    ----------
    capabilities : Capabilities
        What the solver can do.
    program : Program
        The program.

    Returns
    -------
    str or None
        Words that follow the solver's name in a message; None if the solver can take the program.

    Examples
    --------
    >>> import numpy as np
    >>> from sdpkit import Block, Program
    >>> program = Program.of(Block.of(2, np.eye(2), name="M", max_rank=1), [1.0, 1.0])
    >>> unsupported(Capabilities(), program)
    "cannot limit ranks; block 'M' of this program has max_rank 1"
    >>> unsupported(Capabilities(ranks=True), program) is None
    True
    """
    limited = [block for block in program.blocks if block.max_rank is not None]
    if limited and not capabilities.ranks:
        name, rank = limited[0].name, limited[0].max_rank
        return f"cannot limit ranks; block {name!r} of this program has max_rank {rank}"
    curved = int((program.quadratic_x > 0).sum())
    if curved and not capabilities.quadratic:
        return f"cannot take quadratic penalties; this program has {curved}"
    if program.norms and not capabilities.norms:
        return f"cannot take norm penalties; this program has {len(program.norms)}"
    if program.cones and not capabilities.second_order:
        return f"cannot take second-order cones; this program has {len(program.cones)}"
    if program.has_log_det and not capabilities.log_det:
        return "cannot take a log det; this program has one"
    return None


class OwnSolver:
    """What the solvers of the project share: they are always available, and take every program
    within their capabilities unless they say otherwise."""

    name: str
    capabilities: Capabilities

    def unavailable(self) -> str | None:
        """It always works."""
        return None

    def accepts(self, program: Program) -> str | None:
        """Any program within its capabilities."""
        return unsupported(self.capabilities, program)


def digits(tol: float) -> float:
    """How many digits a tolerance asks for, at least one.

    Iterations of an interior-point method are proportional to it.

    Parameters
    ----------
    tol : float
        The tolerance.

    Returns
    -------
    float
        −log₁₀ tol, at least 1.

    Examples
    --------
    >>> digits(1e-6)
    6.0
    """
    return max(1.0, -math.log10(tol))


def dense_work(program: Program) -> float:
    """(Σn²)^(3/2): what one dense factorisation of all blocks costs, up to a factor."""
    return math.pow(sum(block.size**2 for block in program.blocks), 1.5)
