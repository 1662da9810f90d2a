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
    "Unknown": "sdpkit.program.sentences",
    "Variable": "sdpkit.program.sentences",
    "maximise": "sdpkit.program.compilation",
    "minimise": "sdpkit.program.compilation",
    "Solution": "sdpkit.solution",
    "Status": "sdpkit.solution",
    "Answer": "sdpkit.solution",
    "Settings": "sdpkit.solution",
    "Stop": "sdpkit.solution",
    "Capabilities": "sdpkit.solution.solver",
    "ConvergenceWarning": "sdpkit.solving",
    "NormPenalty": "sdpkit.program",
    "NeighborhoodGraph": "sdpkit.graphs",
    "Certificate": "sdpkit.certificate",
    "certify": "sdpkit.certificate",
    "solve": "sdpkit.solving",
    "available_solvers": "sdpkit.solving.registry",
    "register_solver": "sdpkit.solving.registry",
    "solver_table": "sdpkit.solving.registry",
    "set_threads": "sdpkit.numerics.threads",
    "read_sdpa": "sdpkit.program.sdpa",
    "write_sdpa": "sdpkit.program.sdpa",
    "Embedding": "sdpkit.results.embedding",
    "MVU": "sdpkit.problems.mvu",
    "MVE": "sdpkit.problems.mve",
    "Ending": "sdpkit.solving.trajectory",
    "Trajectory": "sdpkit.solving.trajectory",
    "LMNN": "sdpkit.problems.lmnn",
    "CoveringEllipsoid": "sdpkit.problems.ellipsoid",
    "Ellipsoid": "sdpkit.results.ellipsoid",
    "Metric": "sdpkit.results.metric",
    "QueryMetric": "sdpkit.doors.query_metric",
    "KernelMixture": "sdpkit.problems.mixtures",
    "DistanceMixture": "sdpkit.problems.mixtures",
    "gaussian_weights": "sdpkit.problems.graph_kernels",
    "adjacency_weights": "sdpkit.problems.graph_kernels",
    "laplacian_kernel": "sdpkit.problems.graph_kernels",
    "learned_width": "sdpkit.problems.graph_kernels",
    "MMC": "sdpkit.problems.mmc",
    "PairMargins": "sdpkit.problems.pairs",
    "POLA": "sdpkit.problems.pola",
    "OutOfSample": "sdpkit.problems.out_of_sample",
    "VariationalMVU": "sdpkit.problems.variational",
    "Localization": "sdpkit.problems.localization",
    "compare": "sdpkit.comparison.competition",
    "Comparison": "sdpkit.comparison.table",
    "SdpkitError": "sdpkit.errors",
    "InputError": "sdpkit.errors",
    "GraphError": "sdpkit.errors",
    "UnboundedProblemError": "sdpkit.errors",
    "SolverError": "sdpkit.errors",
    "SolverUnavailableError": "sdpkit.errors",
    "UnsuitableSolverError": "sdpkit.errors",
    "NotEnoughMemoryError": "sdpkit.errors",
}
# Public name of a module → where it lives.
_MODULES = {
    "datasets": "sdpkit.datasets",
    "errors": "sdpkit.errors",
    "estimators": "sdpkit.estimators",
    "extension": "sdpkit.results.placement",
    "graphs": "sdpkit.graphs",
    "plotting": "sdpkit.plotting",
    "problems": "sdpkit.problems",
    "quality": "sdpkit.results.quality",
    "solvers": "sdpkit.solvers",
    "suites": "sdpkit.comparison.suites",
}

if TYPE_CHECKING:
    from sdpkit import datasets, errors, estimators, graphs, plotting
    from sdpkit.certificate.certificate import Certificate
    from sdpkit.certificate.judge import certify
    from sdpkit.comparison import suites
    from sdpkit.comparison.competition import compare
    from sdpkit.comparison.table import Comparison
    from sdpkit.doors.query_metric import QueryMetric
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
    from sdpkit.graphs.graph import NeighborhoodGraph
    from sdpkit.numerics.threads import set_threads
    from sdpkit.problems.ellipsoid import CoveringEllipsoid
    from sdpkit.problems.graph_kernels import (
        adjacency_weights,
        gaussian_weights,
        laplacian_kernel,
        learned_width,
    )
    from sdpkit.problems.lmnn import LMNN
    from sdpkit.problems.localization import Localization
    from sdpkit.problems.mixtures import DistanceMixture, KernelMixture
    from sdpkit.problems.mmc import MMC
    from sdpkit.problems.mve import MVE
    from sdpkit.problems.mvu import MVU
    from sdpkit.problems.out_of_sample import OutOfSample
    from sdpkit.problems.pairs import PairMargins
    from sdpkit.problems.pola import POLA
    from sdpkit.problems.variational import VariationalMVU
    from sdpkit.program.block import Block
    from sdpkit.program.compilation import maximise, minimise
    from sdpkit.program.cost import Cost
    from sdpkit.program.form import Program
    from sdpkit.program.safe import NormPenalty, SafeBounds
    from sdpkit.program.sdpa import read_sdpa, write_sdpa
    from sdpkit.program.sentences import Unknown, Variable
    from sdpkit.results import placement as extension
    from sdpkit.results import quality
    from sdpkit.results.ellipsoid import Ellipsoid
    from sdpkit.results.embedding import Embedding
    from sdpkit.results.metric import Metric
    from sdpkit.solution.answer import Answer, Settings, Stop
    from sdpkit.solution.solution import Solution, Status
    from sdpkit.solution.solver import Capabilities
    from sdpkit.solving.call import solve
    from sdpkit.solving.judgement import ConvergenceWarning
    from sdpkit.solving.registry import available_solvers, register_solver, solver_table
    from sdpkit.solving.trajectory import Ending, Trajectory


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'sdpkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_EXPORTS, *_MODULES, "__version__"])


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
    "PairMargins",
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
    "Unknown",
    "UnsuitableSolverError",
    "Variable",
    "VariationalMVU",
    "adjacency_weights",
    "available_solvers",
    "certify",
    "compare",
    "datasets",
    "errors",
    "estimators",
    "extension",
    "gaussian_weights",
    "graphs",
    "laplacian_kernel",
    "learned_width",
    "maximise",
    "minimise",
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
