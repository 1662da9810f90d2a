"""Two solvers for minimum volume covering ellipsoids.

They take programs of the form

    minimise  <C, M> + c·t − β log det M,    a_j v_jᵀMv_j ≤ s_j t

With z_j = v_j √(c a_j/s_j) the dual is  max β log det S, S = Σφ_j z_j z_jᵀ + C  over the simplex;
the row's multiplier is cφ_j/s_j and M = βS⁻¹, scaled by D/(max g + tr CS⁻¹) so that its value is
the least that these weights prove.

`titterington`  φ_j ← φ_j g_j/(D − tr CS⁻¹): the multiplicative update of Titterington 1978, with
                the term γI of the query metric. Monotone, simple, and slow near the end.
`covering`      the interior-point method of `sdpkit.numerics.covering` over a working set of
                points, which grows by those that stick out farthest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpkit.numerics.covering import covering_weights, whitened
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.kinds import why_no_covering
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.forecast import UnitCosts
from sdpkit.solution.solver import Capabilities, OwnSolver
from sdpkit.solvers.in_time import set_up
from sdpkit.typing import Array, Indices

_MAX_ROUNDS = 100  # working sets
_ALL_POINTS = 120  # up to this many points there is no working set
_IDLE_WEIGHT = 1e-10  # a working point of less weight leaves again, if it does not touch


class Measured(NamedTuple):
    """(m,) g_j = z_jᵀS⁻¹z_j at some weights, tr CS⁻¹ and log det S."""

    g: Array
    rest: float
    log_det: float


@dataclass(frozen=True, eq=False)
class Covering:
    """The points of a covering in coordinates in which S = I at equal weights.

    Attributes
    ----------
    z: (m, r);  cost: (r, r) C;  transform: (D, r) T with z' = Tᵀz
    row_scale: (m,) c/s_j, so that the multiplier of row j is row_scale_j φ_j
    size: D;  beta: β;  unit_cost: c, that of t
    """

    z: Array
    cost: Array
    transform: Array
    row_scale: Array
    size: int
    beta: float
    unit_cost: float

    @classmethod
    def of(cls, program: Program) -> Covering:
        """The covering that a program asks for, in whitened coordinates."""
        block = program.blocks[0]
        c = float(-program.sign * program.cost_x[0])
        s = -program.rows_x.toarray()[:, 0]
        v = dense(block.vectors()) * np.sqrt(c * program.rows_q.data / s)[:, None]
        z, cost, transform = whitened(v, -program.sign * block.cost.dense())
        return cls(z, cost, transform, c / s, block.size, block.log_det, c)

    def measured(self, phi: Array) -> Measured:
        """What weights φ come to."""
        s = (self.z.T * phi) @ self.z + self.cost
        factor = scipy.linalg.cho_factor(s, lower=True)
        half = scipy.linalg.solve_triangular(factor[0], self.z.T, lower=True)
        rest = float(np.trace(scipy.linalg.cho_solve(factor, self.cost)))
        log_det = 2 * float(np.log(np.diag(factor[0])).sum())
        return Measured(np.einsum("ij,ij->j", half, half), rest, log_det)

    def gap(self, at: Measured) -> float:
        """β D log((max g + tr CS⁻¹)/D)."""
        return self.beta * self.size * float(np.log(max((at.g.max() + at.rest) / self.size, 1.0)))

    def value(self, at: Measured) -> float:
        """The minimisation's objective at `point`: βD − β log det M."""
        alpha = self.beta * self.size / (float(at.g.max()) + at.rest)
        log_det = self.size * np.log(alpha) - at.log_det + self._log_scale
        return float(self.beta * (self.size - log_det))

    @cached_property
    def _log_scale(self) -> float:
        return 2 * float(np.linalg.slogdet(self.transform)[1])

    def point(self, phi: Array) -> tuple[Array, float]:
        """(M, t) of weights φ in the program's coordinates."""
        at = self.measured(phi)
        alpha = self.beta * self.size / (float(at.g.max()) + at.rest)
        s = (self.z.T * phi) @ self.z + self.cost
        factor = scipy.linalg.solve_triangular(np.linalg.cholesky(s), self.transform.T, lower=True)
        return alpha * (factor.T @ factor), alpha * float(at.g.max()) / self.unit_cost


class CoveringWeights(ABC):
    """An engine on the weights φ of a covering.

    Attributes
    ----------
    phi: (m,) the best weights so far;  gap, value: theirs
    """

    def __init__(self, covering: Covering, program: Program, tol: float) -> None:
        self.covering, self.program, self.tol = covering, program, tol
        self.gap, self.value = np.inf, np.nan
        m = len(covering.z)
        self.phi = np.full(m, 1.0 / m)

    @abstractmethod
    def step(self, driver: Driver) -> None:
        """One update of the weights."""

    def report(self, driver: Driver) -> None:
        """Write down the gap; the run ends where it is met."""
        sign, offset = -self.program.sign, self.program.offset
        driver.record(
            objective=sign * self.value + offset,
            bound=sign * (self.value - self.gap) + offset,
            gap=self.gap,
            primal_residual=0.0,
            dual_residual=0.0,
        )
        # The certificate adds its own rounding.
        if self.gap <= 0.5 * self.tol:
            self.end(driver)

    def end(self, driver: Driver) -> None:
        """Done, as far as these weights go."""
        driver.end(Stop.DONE, f"done after {driver.iterations} steps, gap {self.gap:.1e}")

    def answer(self, stop: Stop) -> Answer:
        """M, t and the multipliers of the weights."""
        matrix, t = self.covering.point(self.phi)
        dual = self.program.sign * self.covering.row_scale * self.phi
        return Answer(stop, "", matrices=(matrix,), x=np.array([t]), dual=dual)

    def state(self) -> Mapping[str, ArrayLike] | None:
        """It keeps no checkpoints."""
        return None


class Multiplicative(CoveringWeights):
    """Titterington's update."""

    last: Measured | None = None

    def step(self, driver: Driver) -> None:
        """Look at the first weights, then one update at a time."""
        covering = self.covering
        if self.last is not None:
            self.phi = self.phi * self.last.g / (covering.size - self.last.rest)
            self.phi /= self.phi.sum()  # one already, but for rounding
            driver.count()
        self.last = covering.measured(self.phi)
        self.gap, self.value = covering.gap(self.last), covering.value(self.last)
        self.report(driver)


class CoveringWorkingSet(CoveringWeights):
    """An interior-point method on some of the points, which grow by those that stick out."""

    def __init__(self, covering: Covering, program: Program, tol: float) -> None:
        super().__init__(covering, program, tol)
        self.working, self.rounds = _first_points(covering.z), 0

    def step(self, driver: Driver) -> None:
        """Weights of the working set, and the next one."""
        covering, left = self.covering, driver.iterations_left
        phi = np.zeros(len(covering.z))
        tol = min(1e-10, 0.1 * self.tol)
        phi[self.working], steps = covering_weights(
            covering.z[self.working], covering.cost, tol, left
        )
        driver.count(steps)
        self.rounds += 1
        at = covering.measured(phi)
        gap = covering.gap(at)
        if gap < self.gap:
            self.phi, self.gap, self.value = phi, gap, covering.value(at)
        self.report(driver)
        if driver.must_stop:
            return
        grown = _next_points(self.working, phi, at.g, covering.size)
        if np.array_equal(grown, self.working):
            self.end(driver)  # as far as rounding lets it come
        elif self.rounds == _MAX_ROUNDS:
            words = f"{self.rounds} working sets, gap {self.gap:.1e}"
            driver.end(Stop.ITERATION_LIMIT, words)
        self.working = grown


def _first_points(z: Array) -> Indices:
    """Points that span, each far from the span of those before it, and the longest ones."""
    m, r = z.shape
    if m <= _ALL_POINTS:
        return np.arange(m)
    spanning = scipy.linalg.qr(z.T, mode="r", pivoting=True)[1][:r]
    longest = np.argsort(-np.einsum("ij,ij->i", z, z), kind="stable")[: 3 * r]
    return np.union1d(spanning, longest)


def _next_points(working: Indices, phi: Array, g: Array, size: int) -> Indices:
    """The working set without idle points, with those that stick out farthest."""
    inside = g[working].max()
    kept = working[(phi[working] > _IDLE_WEIGHT) | (g[working] > 0.9 * inside)]
    out = np.flatnonzero(g > inside)
    out = out[np.argsort(-g[out], kind="stable")][: max(2 * size, 30)]
    return np.union1d(kept, out)


@dataclass(frozen=True)
class CoveringSolver(OwnSolver):
    """An algorithm on the weights of a covering as a solver."""

    name: str
    capabilities: Capabilities
    engine: type[CoveringWeights]
    max_iter: int

    def accepts(self, program: Program) -> str | None:
        """Minimum-volume covering programs."""
        reason = why_no_covering(program)
        return reason and f"only solves minimum-volume covering programs; {reason}"

    def memory(self, program: Program) -> float:
        """Bytes: the points twice, and the Newton matrix of a working set."""
        block = program.blocks[0]
        few = min(block.n_measurements, 40 * block.size)
        return 8.0 * (4 * block.n_measurements * block.size + few**2 + 6 * block.size**2)

    costs: ClassVar = UnitCosts((0.01, 1.5e-09))

    def seconds(self, program: Program, tol: float) -> float:
        """By the costs of `covering`; multiplicative updates take a thousand times as long."""
        steps = 1.0 if self.engine is CoveringWorkingSet else 1000.0
        return steps * self.costs.seconds(self.work(program, tol))

    def work(self, program: Program, tol: float) -> tuple[float, ...]:
        """Steps over the points."""
        block = program.blocks[0]
        return 1.0, float(block.n_measurements * block.size**2)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Weights, and from them M, t and the multipliers."""
        driver = Driver(self.name, settings, self.max_iter)

        def begin() -> CoveringWeights | Answer:
            covering = Covering.of(program)
            if covering.z.shape[1] < covering.size:
                return _unbounded(covering)
            return self.engine(covering, program, settings.tol)

        return driver.run(set_up(driver, begin))


def _unbounded(covering: Covering) -> Answer:
    """A direction that no point and no cost sees: M may have any volume there."""
    hidden = scipy.linalg.null_space(covering.transform.T)
    ray = hidden @ hidden.T
    words = "the points span less than the whole space"
    return Answer(Stop.CLAIMS_UNBOUNDED, words, matrix_ray=((ray,), np.zeros(1)))


def _capabilities(summary: str) -> Capabilities:
    return Capabilities(log_det=True, callback=True, summary=summary)


TITTERINGTON = CoveringSolver(
    "titterington",
    _capabilities("multiplicative update; covering ellipsoids"),
    Multiplicative,
    max_iter=100_000,
)
COVERING = CoveringSolver(
    "covering",
    _capabilities("interior point on weights; covering ellipsoids"),
    CoveringWorkingSet,
    max_iter=10_000,
)
