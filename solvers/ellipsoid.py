"""Engines for minimum volume coverings, known by their structure (`sdpkit.program.kinds`):

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.numerics.covering import covering_weights, whitened
from sdpkit.numerics.kernels import clock
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.kinds import why_no_covering
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solver import Capabilities

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# Updates of Titterington's algorithm, and of the working set.
_UPDATES = 100_000
_ROUNDS = 100
# Up to this many points there is no working set.
_ALL = 120
# A working point whose weight is below this share leaves again, if it does not touch.
_IDLE = 1e-10


@dataclass(frozen=True, eq=False)
class _Covering:
    """The points of a covering in coordinates in which S = I at equal weights.

    Attributes
    ----------
    z: (m, r);  cost: (r, r) C;  transform: (D, r) T with z' = Tᵀz
    row_scale: (m,) c/s_j, so that the multiplier of row j is row_scale_j φ_j
    size: D;  beta: β
    """

    z: Array
    cost: Array
    transform: Array
    row_scale: Array
    size: int
    beta: float
    price: float

    @classmethod
    def of(cls, program: Program) -> _Covering:
        block = program.blocks[0]
        c = float(-program.sign * program.cost_x[0])
        s = -program.rows_x.toarray()[:, 0]
        v = dense(block.vectors()) * np.sqrt(c * program.rows_q.data / s)[:, None]
        z, cost, transform = whitened(v, -program.sign * block.cost.dense())
        return cls(z, cost, transform, c / s, block.size, block.log_det, c)

    def lengths(self, phi: Array) -> tuple[Array, float]:
        """(m,) g_j = z_jᵀS⁻¹z_j at weights φ, and tr CS⁻¹."""
        s = (self.z.T * phi) @ self.z + self.cost
        factor = scipy.linalg.cho_factor(s, lower=True)
        half = scipy.linalg.solve_triangular(factor[0], self.z.T, lower=True)
        rest = float(np.trace(scipy.linalg.cho_solve(factor, self.cost)))
        return np.einsum("ij,ij->j", half, half), rest

    def gap(self, g: Array, rest: float) -> float:
        """β D log((max g + tr CS⁻¹)/D)."""
        return self.beta * self.size * float(np.log(max((g.max() + rest) / self.size, 1.0)))

    def point(self, phi: Array) -> tuple[Array, float]:
        """(M, t) of weights φ in the program's coordinates."""
        g, rest = self.lengths(phi)
        alpha = self.beta * self.size / (float(g.max()) + rest)
        s = (self.z.T * phi) @ self.z + self.cost
        factor = scipy.linalg.solve_triangular(np.linalg.cholesky(s), self.transform.T, lower=True)
        return alpha * (factor.T @ factor), alpha * float(g.max()) / self.price


@dataclass(eq=False)
class _Run:
    settings: Settings
    started: float
    gap: float = np.inf
    iterations: int = 0
    history: list[Mapping[str, float]] = field(default_factory=list)

    def note(self, gap: float) -> Stop | None:
        """Write down a gap; why to stop here, or None."""
        self.gap = gap
        self.history.append({"iteration": float(self.iterations), "gap": gap})
        if self.settings.callback is not None and self.settings.callback(self.history[-1]) is True:
            return Stop.INTERRUPTED
        # The certificate adds its own rounding.
        if gap <= 0.5 * self.settings.tol:
            return Stop.DONE
        limit = self.settings.time_limit
        if limit is not None and clock() - self.started > limit:
            return Stop.TIME_LIMIT
        return None


def _titterington(covering: _Covering, run: _Run) -> tuple[Array, Stop]:
    m = len(covering.z)
    phi = np.full(m, 1.0 / m)
    for _ in range(run.settings.max_iter or _UPDATES):
        g, rest = covering.lengths(phi)
        stop = run.note(covering.gap(g, rest))
        if stop is not None:
            return phi, stop
        phi = phi * g / (covering.size - rest)
        phi /= phi.sum()  # one already, but for rounding
        run.iterations += 1
    return phi, Stop.ITERATION_LIMIT


def _working_set(covering: _Covering, run: _Run) -> tuple[Array, Stop]:
    m = len(covering.z)
    working, phi = _first_points(covering.z), np.zeros(m)
    tol = min(1e-10, 0.1 * run.settings.tol)
    best, best_gap = phi, np.inf
    for _ in range(_ROUNDS):
        left = (run.settings.max_iter or 10_000) - run.iterations
        part = covering.z[working]
        phi = np.zeros(m)
        phi[working], steps = covering_weights(part, covering.cost, tol, max(left, 0))
        run.iterations += steps
        g, rest = covering.lengths(phi)
        gap = covering.gap(g, rest)
        if gap < best_gap:
            best, best_gap = phi, gap
        stop = run.note(best_gap)
        if stop is not None:
            return best, stop
        if steps >= left:
            return best, Stop.ITERATION_LIMIT
        grown = _next_points(working, phi, g, covering.size)
        if grown.size == working.size and np.array_equal(grown, working):
            return best, Stop.DONE  # as far as rounding lets it come
        working = grown
    return best, Stop.ITERATION_LIMIT


def _first_points(z: Array) -> Indices:
    """Points that span, each far from the span of those before it, and the longest ones."""
    m, r = z.shape
    if m <= _ALL:
        return np.arange(m)
    spanning = scipy.linalg.qr(z.T, mode="r", pivoting=True)[1][:r]
    longest = np.argsort(-np.einsum("ij,ij->i", z, z), kind="stable")[: 3 * r]
    return np.union1d(spanning, longest)


def _next_points(working: Indices, phi: Array, g: Array, size: int) -> Indices:
    """The working set without idle points, with those that stick out farthest."""
    inside = g[working].max()
    kept = working[(phi[working] > _IDLE) | (g[working] > 0.9 * inside)]
    out = np.flatnonzero(g > inside)
    out = out[np.argsort(-g[out], kind="stable")][: max(2 * size, 30)]
    return np.union1d(kept, out)


@dataclass(frozen=True)
class CoveringEngine:
    """An algorithm on the weights of a covering."""

    name: str
    capabilities: Capabilities
    method: Callable[[_Covering, _Run], tuple[Array, Stop]]

    def unavailable(self) -> str | None:
        """Always there."""
        return None

    def accepts(self, program: Program) -> str | None:
        """Minimum-volume covering programs."""
        reason = why_no_covering(program)
        return reason and f"only solves minimum-volume covering programs; {reason}"

    def memory(self, program: Program) -> float:
        """Bytes: the points twice, and the Newton matrix of a working set."""
        block = program.blocks[0]
        few = min(block.n_measurements, 40 * block.size)
        return 8.0 * (4 * block.n_measurements * block.size + few**2 + 6 * block.size**2)

    def seconds(self, program: Program, tol: float) -> float:
        """Steps over the points; multiplicative updates take a thousand times as many."""
        block = program.blocks[0]
        steps = 1.0 if self.method is _working_set else 1000.0
        return steps * (0.005 + 1e-8 * block.n_measurements * block.size**2)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Weights, and from them M, t and the multipliers."""
        if settings.options:
            raise InputError(f"{self.name} takes no options, not {', '.join(settings.options)}")
        started = clock()
        covering = _Covering.of(program)
        if covering.z.shape[1] < covering.size:
            return _unbounded(covering)
        run = _Run(settings, started)
        setup = clock() - started
        phi, stop = self.method(covering, run)
        matrix, t = covering.point(phi)
        words = f"{stop.value.replace('_', ' ')} after {run.iterations} steps, gap {run.gap:.1e}"
        return Answer(
            stop=stop,
            native_status=words,
            matrices=(matrix,),
            x=np.array([t]),
            dual=program.sign * covering.row_scale * phi,
            iterations=max(run.iterations, 1),
            setup_time=setup,
            solve_time=clock() - started - setup,
            history=tuple(run.history),
        )


def _unbounded(covering: _Covering) -> Answer:
    """A direction that no point and no cost sees: the volume of M there is for free."""
    hidden = scipy.linalg.null_space(covering.transform.T)
    ray = hidden @ hidden.T
    words = "the points span less than the whole space"
    return Answer(Stop.CLAIMS_UNBOUNDED, words, matrix_ray=((ray,), np.zeros(1)), iterations=0)


def _capabilities(summary: str) -> Capabilities:
    return Capabilities(log_det=True, callback=True, summary=summary)


TITTERINGTON: Any = CoveringEngine(
    "titterington", _capabilities("multiplicative update; covering ellipsoids"), _titterington
)
COVERING: Any = CoveringEngine(
    "covering", _capabilities("interior point on weights; covering ellipsoids"), _working_set
)
