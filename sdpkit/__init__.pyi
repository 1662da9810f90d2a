"""The public names, one line each: what type checkers read, and what `import sdpkit` offers.

A new name is one line here. It is imported when it is first used.
"""

from sdpkit import datasets as datasets
from sdpkit import errors as errors
from sdpkit import estimators as estimators
from sdpkit import graphs as graphs
from sdpkit import plotting as plotting
from sdpkit import plugins as plugins
from sdpkit import problems as problems
from sdpkit import solvers as solvers
from sdpkit import testing as testing
from sdpkit.certificate.certificate import Certificate as Certificate
from sdpkit.certificate.certify import certify as certify
from sdpkit.comparison import suites as suites
from sdpkit.comparison.competition import compare as compare
from sdpkit.comparison.table import Comparison as Comparison
from sdpkit.conic.cbf import read_cbf as read_cbf
from sdpkit.conic.certifying import certify_cvxpy as certify_cvxpy
from sdpkit.conic.cvxpy import cvxpy_solver as cvxpy_solver
from sdpkit.conic.cvxpy import from_cvxpy as from_cvxpy
from sdpkit.conic.explain import explain as explain
from sdpkit.conic.explanation import Explanation as Explanation
from sdpkit.conic.registration import register as register
from sdpkit.errors import ConvergenceWarning as ConvergenceWarning
from sdpkit.errors import GraphError as GraphError
from sdpkit.errors import InputError as InputError
from sdpkit.errors import NotEnoughMemoryError as NotEnoughMemoryError
from sdpkit.errors import OutOfMemoryError as OutOfMemoryError
from sdpkit.errors import PictureWarning as PictureWarning
from sdpkit.errors import SdpkitError as SdpkitError
from sdpkit.errors import SolverError as SolverError
from sdpkit.errors import SolverUnavailableError as SolverUnavailableError
from sdpkit.errors import UnboundedProblemError as UnboundedProblemError
from sdpkit.errors import UnsuitableSolverError as UnsuitableSolverError
from sdpkit.graphs.graph import NeighborhoodGraph as NeighborhoodGraph
from sdpkit.interfaces.query_metric import QueryMetric as QueryMetric
from sdpkit.looking.look import Look as Look
from sdpkit.looking.look import look as look
from sdpkit.numerics.threads import set_threads as set_threads
from sdpkit.papers.sweep import neighbor_sweep as neighbor_sweep
from sdpkit.problems.distance_mixture import DistanceMixture as DistanceMixture
from sdpkit.problems.ellipsoid import CoveringEllipsoid as CoveringEllipsoid
from sdpkit.problems.graph_kernels import adjacency_weights as adjacency_weights
from sdpkit.problems.graph_kernels import gaussian_weights as gaussian_weights
from sdpkit.problems.graph_kernels import laplacian_eigenmap as laplacian_eigenmap
from sdpkit.problems.graph_kernels import laplacian_kernel as laplacian_kernel
from sdpkit.problems.graph_kernels import learned_width as learned_width
from sdpkit.problems.kernel_mixture import KernelMixture as KernelMixture
from sdpkit.problems.lmnn import LMNN as LMNN
from sdpkit.problems.localization import Localization as Localization
from sdpkit.problems.mmc import MMC as MMC
from sdpkit.problems.mve import MVE as MVE
from sdpkit.problems.mvu import MVU as MVU
from sdpkit.problems.out_of_sample import OutOfSample as OutOfSample
from sdpkit.problems.pair_margins import PairMargins as PairMargins
from sdpkit.problems.pola import POLA as POLA
from sdpkit.problems.variational import VariationalMVU as VariationalMVU
from sdpkit.program.block import Block as Block
from sdpkit.program.block_matrices import bmat as bmat
from sdpkit.program.compilation import maximise as maximise
from sdpkit.program.compilation import minimise as minimise
from sdpkit.program.cost import Cost as Cost
from sdpkit.program.expressions import Unknown as Unknown
from sdpkit.program.expressions import Variable as Variable
from sdpkit.program.form import Program as Program
from sdpkit.program.safe import NormPenalty as NormPenalty
from sdpkit.program.safe import SafeBounds as SafeBounds
from sdpkit.program.sdpa import read_sdpa as read_sdpa
from sdpkit.program.sdpa import write_sdpa as write_sdpa
from sdpkit.program.second_order import SecondOrderCone as SecondOrderCone
from sdpkit.results import placement
from sdpkit.results import quality as quality
from sdpkit.results.ellipsoid import Ellipsoid as Ellipsoid
from sdpkit.results.embedding import Embedding as Embedding
from sdpkit.results.metric import Metric as Metric
from sdpkit.solution.answer import Answer as Answer
from sdpkit.solution.answer import Settings as Settings
from sdpkit.solution.answer import Stop as Stop
from sdpkit.solution.solution import Solution as Solution
from sdpkit.solution.solution import Status as Status
from sdpkit.solution.solver import Capabilities as Capabilities
from sdpkit.solving.registry import available_solvers as available_solvers
from sdpkit.solving.registry import register_solver as register_solver
from sdpkit.solving.registry import solver_table as solver_table
from sdpkit.solving.sequence import Ending as Ending
from sdpkit.solving.sequence import Trajectory as Trajectory
from sdpkit.solving.solve import solve as solve

extension = placement
__version__: str
__all__: list[str]
_EXPORTS: dict[str, tuple[str, str]]
