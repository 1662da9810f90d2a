"""What the author of a solver needs, in one place.

`docs/authors_of_solvers.md` explains it with a complete example; `sdpkit.testing.check_solver`
tries a finished solver.

    Solver, Capabilities, Estimate   what a solver offers and says about itself
    Settings, Answer, Stop           what it is told and what it returns
    unsupported, digits              for `accepts` and `seconds`
    reduce, Reduction                a program with an interior, and the way back (`lift`)
    Driver, Engine, Option           the loop of an iterative method: clock, limits, history
    Expected                         what an array of the engine's state in a checkpoint must be
    check_names                      refuse unknown options in one sentence
    Ending                           how a search over several programs ends
    register_solver, registered      make it known in this process, or in a `with` block
"""

from __future__ import annotations

from sdpkit.layout import Expected
from sdpkit.program.sdpa import write_sdpa
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solution.driver import Driver, Engine
from sdpkit.solution.options import Option, check_names
from sdpkit.solution.reduction import Reduction, reduce
from sdpkit.solution.solver import Capabilities, Estimate, Solver, digits, unsupported
from sdpkit.solving.choice import estimate
from sdpkit.solving.registry import register_solver, registered
from sdpkit.solving.sequence import Ending

__all__ = [
    "Answer",
    "Capabilities",
    "Checkpoint",
    "Driver",
    "Ending",
    "Engine",
    "Estimate",
    "Expected",
    "Option",
    "Reduction",
    "Settings",
    "Solver",
    "Stop",
    "check_names",
    "digits",
    "estimate",
    "reduce",
    "register_solver",
    "registered",
    "unsupported",
    "write_sdpa",
]
