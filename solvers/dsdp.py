"""DSDP, a dual-scaling interior-point code that reads SDPA files (Benson, Ye and Zhang, 2000).

It never forms the primal matrix while it iterates and keeps the dual slack sparse, which suits
graph programs. It bounds the multipliers; an answer at that bound is a ray, not an optimum.
"""

from __future__ import annotations

import re
from pathlib import Path

from sdpkit.solution.answer import Settings, Stop
from sdpkit.solution.options import check_names
from sdpkit.solution.solver import Capabilities
from sdpkit.solvers.sdpa_program import SdpaProgram, read_triplets

# DSDP's words for how it ended; its primal is our maximisation.
_STOPS = {
    "Dual Unbounded, Primal Infeasible": Stop.CLAIMS_INFEASIBLE,
    "Primal Unbounded, Dual Infeasible": Stop.CLAIMS_UNBOUNDED,
    "Dual Objective Exceeded its Bound": Stop.CLAIMS_INFEASIBLE,
    "Terminated Due Maximum Number of Iterations": Stop.ITERATION_LIMIT,
    "Terminated": Stop.FAILED,
    "DSDP Converged": Stop.DONE,
}


# DSDP follows other rules if some of its defaults are written out, so only changes are.
_OPTIONS = ("gaptol", "maxit", "boundy", "penalty", "rho", "drho", "reuse", "r0", "mu0", "zbar")


def _command(folder: Path, settings: Settings) -> list[str]:
    check_names("dsdp", settings.options, _OPTIONS)
    gap = max(1e-9, min(1e-7, settings.tol * 1e-2))
    values = {"gaptol": gap, "maxit": settings.max_iter or 500, **settings.options}
    flags = [word for name, value in values.items() for word in (f"-{name}", str(value))]
    return ["program.dat-s", "-save", "solution", "-print", "1", *flags]


def _stop(code: int, output: str) -> tuple[Stop, str]:
    words = next((known for known in _STOPS if known in output), None)
    if words is None:
        return Stop.FAILED, f"exit code {code}: {output.strip()[-200:]}"
    stop = _STOPS[words]
    largest = re.search(r"Max Y:\s*(\S+),\s*Bounded by (\S+)", output)
    if stop is Stop.DONE and largest and float(largest[1]) > 0.9 * float(largest[2]):
        return Stop.CLAIMS_INFEASIBLE, "converged with multipliers at their bound"
    return stop, words


DSDP = SdpaProgram(
    "dsdp",
    "dsdp5",
    "dsdp",
    Capabilities(
        second_order=True, stops_itself=True, summary="dual-scaling interior point by file"
    ),
    _command,
    read_triplets,
    _stop,
    slowness=2.0,
)
