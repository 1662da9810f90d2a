"""sdpkit: metric and manifold learning as semidefinite programs, fast and proven.

The way of the data runs in one direction:

    points or distances → graph → Problem → Program → solver → Solution
                                            → Certificate → Embedding → quality, plot

>>> import sdpkit
>>> X = sdpkit.datasets.swiss_roll(30, random_state=0)
>>> problem = sdpkit.MVU(X, n_neighbors=4)
>>> solution = sdpkit.solve(problem, solver="clarabel")
>>> solution.status
<Status.OPTIMAL: 'optimal'>
>>> problem.recover(solution, n_components=2).coordinates.shape
(30, 2)
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

_checkout = Path(__file__).resolve().parent.parent
if (_checkout / "problems" / "__init__.py").exists() and (_checkout / "pyproject.toml").exists():
    # In a source tree the rooms `problems` and `solvers` lie beside this folder, not inside it.
    __path__.append(str(_checkout))

__version__ = "0.1.0"

# Public name → module that defines it. Imported on first use, so that `import sdpkit` stays fast.
_EXPORTS = {
    "Program": "sdpkit.program",
    "Block": "sdpkit.program",
    "Cost": "sdpkit.program",
    "SafeBounds": "sdpkit.program",
    "Solution": "sdpkit.solution",
    "Status": "sdpkit.solution",
    "Answer": "sdpkit.solution",
    "Settings": "sdpkit.solution",
    "Stop": "sdpkit.solution",
    "Capabilities": "sdpkit.registry",
    "ConvergenceWarning": "sdpkit.solving",
    "NormPenalty": "sdpkit.program",
    "NeighborhoodGraph": "sdpkit.graphs",
    "Certificate": "sdpkit.certificate",
    "certify": "sdpkit.certificate",
    "solve": "sdpkit.solving",
    "available_solvers": "sdpkit.registry",
    "register_solver": "sdpkit.registry",
    "solver_table": "sdpkit.registry",
    "set_threads": "sdpkit.threads",
    "read_sdpa": "sdpkit.sdpa",
    "write_sdpa": "sdpkit.sdpa",
    "Embedding": "sdpkit.spectral",
    "MVU": "sdpkit.problems.mvu",
    "MVE": "sdpkit.problems.mve",
    "Ending": "sdpkit.trajectory",
    "Trajectory": "sdpkit.trajectory",
    "LMNN": "sdpkit.problems.lmnn",
    "CoveringEllipsoid": "sdpkit.problems.ellipsoid",
    "Ellipsoid": "sdpkit.ellipsoids",
    "Metric": "sdpkit.metrics",
    "QueryMetric": "sdpkit.query_metric",
    "KernelMixture": "sdpkit.problems.mixtures",
    "DistanceMixture": "sdpkit.problems.mixtures",
    "gaussian_weights": "sdpkit.problems.mixtures",
    "adjacency_weights": "sdpkit.problems.mixtures",
    "laplacian_kernel": "sdpkit.problems.mixtures",
    "learned_width": "sdpkit.problems.mixtures",
    "MMC": "sdpkit.problems.mmc",
    "POLA": "sdpkit.problems.pola",
    "OutOfSample": "sdpkit.problems.out_of_sample",
    "VariationalMVU": "sdpkit.problems.variational",
    "Localization": "sdpkit.problems.localization",
    "compare": "sdpkit.comparing",
    "Comparison": "sdpkit.comparison",
    "SdpkitError": "sdpkit.errors",
    "InputError": "sdpkit.errors",
    "GraphError": "sdpkit.errors",
    "UnboundedProblemError": "sdpkit.errors",
    "SolverError": "sdpkit.errors",
    "SolverUnavailableError": "sdpkit.errors",
    "UnsuitableSolverError": "sdpkit.errors",
    "NotEnoughMemoryError": "sdpkit.errors",
}
_ROOMS = (
    "datasets",
    "extension",
    "graphs",
    "quality",
    "plotting",
    "problems",
    "solvers",
    "suites",
    "errors",
)

if TYPE_CHECKING:
    from sdpkit import datasets, errors, extension, graphs, plotting, quality, suites
    from sdpkit.certificate import Certificate, certify
    from sdpkit.comparing import compare
    from sdpkit.comparison import Comparison
    from sdpkit.ellipsoids import Ellipsoid
    from sdpkit.errors import (
        GraphError,
        InputError,
        NotEnoughMemoryError,
        SdpkitError,
        SolverError,
        SolverUnavailableError,
        UnboundedProblemError,
        UnsuitableSolverError,
    )
    from sdpkit.graphs import NeighborhoodGraph
    from sdpkit.metrics import Metric
    from sdpkit.problems.ellipsoid import CoveringEllipsoid
    from sdpkit.problems.lmnn import LMNN
    from sdpkit.problems.localization import Localization
    from sdpkit.problems.mixtures import (
        DistanceMixture,
        KernelMixture,
        adjacency_weights,
        gaussian_weights,
        laplacian_kernel,
        learned_width,
    )
    from sdpkit.problems.mmc import MMC
    from sdpkit.problems.mve import MVE
    from sdpkit.problems.mvu import MVU
    from sdpkit.problems.out_of_sample import OutOfSample
    from sdpkit.problems.pola import POLA
    from sdpkit.problems.variational import VariationalMVU
    from sdpkit.program import Block, Cost, NormPenalty, Program, SafeBounds
    from sdpkit.query_metric import QueryMetric
    from sdpkit.registry import Capabilities, available_solvers, register_solver, solver_table
    from sdpkit.sdpa import read_sdpa, write_sdpa
    from sdpkit.solution import Answer, Settings, Solution, Status, Stop
    from sdpkit.solving import ConvergenceWarning, solve
    from sdpkit.spectral import Embedding
    from sdpkit.threads import set_threads
    from sdpkit.trajectory import Ending, Trajectory


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"sdpkit.{name}")
    raise AttributeError(f"module 'sdpkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_EXPORTS, *_ROOMS, "__version__"])


__all__ = [
    "LMNN",
    "MMC",
    "MVE",
    "MVU",
    "POLA",
    "Answer",
    "Block",
    "Capabilities",
    "Certificate",
    "Comparison",
    "ConvergenceWarning",
    "Cost",
    "CoveringEllipsoid",
    "DistanceMixture",
    "Ellipsoid",
    "Embedding",
    "Ending",
    "GraphError",
    "InputError",
    "KernelMixture",
    "Localization",
    "Metric",
    "NeighborhoodGraph",
    "NormPenalty",
    "NotEnoughMemoryError",
    "OutOfSample",
    "Program",
    "QueryMetric",
    "SafeBounds",
    "SdpkitError",
    "Settings",
    "Solution",
    "SolverError",
    "SolverUnavailableError",
    "Status",
    "Stop",
    "Trajectory",
    "UnboundedProblemError",
    "UnsuitableSolverError",
    "VariationalMVU",
    "adjacency_weights",
    "available_solvers",
    "certify",
    "compare",
    "datasets",
    "errors",
    "extension",
    "gaussian_weights",
    "graphs",
    "laplacian_kernel",
    "learned_width",
    "plotting",
    "quality",
    "read_sdpa",
    "register_solver",
    "set_threads",
    "solve",
    "solver_table",
    "suites",
    "write_sdpa",
]
