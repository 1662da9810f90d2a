"""Douglas–Rachford iterations between the rows and the cone, in a metric that is fitted on the way.

    x = P_K(z),   y = P_R(2x − z − sc),   z ← z + α(y − x)

(the alternating direction method of multipliers on the dual; Povh–Rendl–Wiegele 2006, Wen–Goldfarb–
Yin 2010). Unlike the methods in `sdpkit.solvers.rounds`, which project on one row after the other,
it takes all rows at once. x tends to a solution, (x − z)/s and the multipliers of P_R to a dual
one.

`sdpkit.solvers.sets` describes a metric in which all constraints weigh the same. At every restart
it is fitted to the iterate: with z = X − sS, X ⪰ 0 and S ⪰ 0 share their eigenvectors, and
coordinates scaled by  ((X + δ)/(S + δ))^0.4  along them lessen the spread of both spectra. Steps
are over-relaxed and extrapolated (Anderson's method), and the penalty s follows the balance of both
residuals. Intervals between restarts grow, so that the theory for a fixed metric holds in the end.
Far from the end, where steps are long, eigenvectors of single precision are good enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg

from sdpkit.program.form import Program
from sdpkit.solvers.in_time import stoppable
from sdpkit.solvers.multiplier_repair import MultiplierRepair
from sdpkit.solvers.sets import TwoSets, metric
from sdpkit.typing import Array

_RELAXATION = 1.6
_MEMORY_STEPS = 10  # steps that an extrapolation sees, and iterations between two
_SPREAD_EXPONENT, _SPECTRUM_FLOOR = 0.4, 0.01  # exponent and floor of the fitted metric
_WORSE_RATIO = 1.0  # an extrapolation that makes the next step longer than this is taken back
_FARTHEST_STEPS = 300.0  # how many steps an extrapolation may leap
_ROUGH_SHARE = 1e-4  # of ‖z‖: steps longer than this are far above single precision


@dataclass(frozen=True, eq=False)
class SplittingPair:
    """A point X of the cone and a dual slack S in the coordinates of the base metric."""

    x: Array
    slack: Array


class Splitting:
    """Douglas–Rachford iterations on one reduced program."""

    def __init__(self, program: Program, fitted: bool, anchor: Array | None) -> None:
        self.fitted = fitted
        self.base = TwoSets(program, metric(program) if fitted else None)
        self.repair = MultiplierRepair.of(self.base, anchor)
        self.s = 1.0
        self.distance = 0.0
        self.ranks: tuple[int, ...] = ()
        self._enter(self.base)
        self.move_to(np.zeros(self.base.tail.stop))

    def _enter(self, sets: TwoSets) -> None:
        self.sets = sets
        self.cost_values = sets.values(sets.c)

    def move_to(self, z: Array) -> None:
        """Continue from z and forget what was learned on the way."""
        self.z, self.values = z, self.sets.values(z)
        self.forget()

    def forget(self) -> None:
        """Restart the extrapolation."""
        self.changes: list[tuple[Array, Array, Array]] = []
        self.previous: tuple[Array, Array, Array] | None = None
        self.fallback: tuple[Array, Array, float] | None = None
        self.ranks = ()

    def iterate(self, k: int, rough: bool = False) -> None:
        """One step; afterwards `point`, `y`, `image` and `slack` are of the z before, in `at`.

        A `rough` step may project in single precision, as long as steps are far longer than that.
        """
        sets, s = self.sets, self.s
        rough = rough and self.distance > _ROUGH_SHARE * float(np.linalg.norm(self.z))
        point = sets.onto_cone(self.z, s, self.ranks, rough)
        off = sets.b - point.values
        scaled = sets.solve(off - point.values + self.values + s * self.cost_values)
        image = sets.adjoint(scaled)
        step = point.z - self.z
        slack = step / s
        step -= s * sets.c
        step += image
        self.at, self.point, self.ranks = sets, point, point.ranks
        self.y, self.image, self.slack = scaled / s, image / s, slack
        self.distance, self.off = float(np.linalg.norm(step)), float(np.linalg.norm(off))
        if self.fallback is not None and self.distance > _WORSE_RATIO * self.fallback[2]:
            z, values, _ = self.fallback
            self.forget()
            self.z, self.values = z, values
            return
        self.fallback = None
        step *= _RELAXATION
        self._advance(k, step, _RELAXATION * off)

    def _advance(self, k: int, step: Array, values: Array) -> None:
        z, az = self.z + step, self.values + values
        if self.previous is not None:
            before = self.previous
            self.changes.append((z - before[0], az - before[1], step - before[2]))
            del self.changes[:-_MEMORY_STEPS]
        self.previous = (z, az, step)
        if k % _MEMORY_STEPS == 0 and len(self.changes) == _MEMORY_STEPS:
            self.fallback = (z, az, self.distance)
            z, az = self._extrapolated(z, az, step)
        self.z, self.values = z, az

    def _extrapolated(self, z: Array, az: Array, step: Array) -> tuple[Array, Array]:
        """Anderson's method: the combination of the last steps that cancels most of this one."""
        steps = np.array([change[2] for change in self.changes])
        gram = steps @ steps.T
        gram[np.diag_indices(len(gram))] += 1e-8 * np.trace(gram)
        if not np.trace(gram) > 0:
            return z, az
        shares = np.linalg.solve(gram, steps @ step)
        dz, daz = (
            sum(share * change[k] for share, change in zip(shares, self.changes, strict=True))
            for k in (0, 1)
        )
        # Along flat directions it would go anywhere.
        length = _FARTHEST_STEPS * float(np.linalg.norm(step))
        if length == 0:
            return z, az
        cut = min(1.0, length / max(float(np.linalg.norm(dz)), length))
        return z - cut * dz, az - cut * daz

    def rebalance(self, limit: float) -> None:
        """Another penalty where one residual is much larger than the other."""
        dual = float(np.linalg.norm(self.at.c - self.image - self.slack))
        if self.off <= 0 or dual <= 0:
            return
        ratio = self.off / dual
        if not 1 / limit < ratio < limit:
            point = self.sets.onto_cone(self.z, self.s)
            slack = (point.z - self.z) / self.s
            self.s /= float(np.clip(np.sqrt(ratio), 0.2, 5.0))
            self.move_to(point.z - self.s * slack)

    # -- changes of metric -------------------------------------------------------------------

    def pair(self) -> SplittingPair:
        """Where the iteration is, in the base metric."""
        point = self.sets.onto_cone(self.z, self.s)
        slack = (point.z - self.z) / self.s
        if self.sets is self.base:
            return SplittingPair(point.z, slack)
        base = self.base
        out = np.empty_like(slack)
        for mine, other in zip(self.sets.blocks, base.blocks, strict=True):
            to = _relative(mine.factor, other.factor)
            out[other.part] = (to.T @ self.sets.matrix(slack, mine) @ to).ravel()
        out[base.tail] = slack[base.tail] * base.column_scale / self.sets.column_scale
        out *= self.sets.cost_scale / base.cost_scale
        return SplittingPair(base.from_program(*self.sets.to_program(point.z)), out)

    def restart(self, pair: SplittingPair, penalty: float) -> None:
        """Continue from a pair in the metric that is fitted to it."""
        base = self.base
        if not self.fitted:
            self.s = penalty
            self.move_to(pair.x - self.s * pair.slack)
            return
        factors, scalings = [], []
        for block in base.blocks:
            difference = base.matrix(pair.x - pair.slack, block)
            scaling = _fit(difference)
            scalings.append(scaling)
            factors.append(block.to_frame(scaling))
        sets = TwoSets(base.program, tuple(factors))
        slack = np.empty_like(pair.slack)
        for block, scaling in zip(base.blocks, scalings, strict=True):
            slack[block.part] = (scaling.T @ base.matrix(pair.slack, block) @ scaling).ravel()
        slack[base.tail] = pair.slack[base.tail] * sets.column_scale / base.column_scale
        slack *= base.cost_scale / sets.cost_scale
        x = sets.from_program(*base.to_program(pair.x))
        self._enter(sets)
        self.s = penalty
        self.move_to(x - self.s * slack)


def _relative(factor: Array | None, base: Array | None) -> Array:
    """T with S_base = TᵀST:  T = F⁻¹F_base."""
    if factor is None or base is None:
        raise ValueError("plain coordinates are never changed")
    return np.asarray(np.linalg.solve(factor, base))


def _fit(difference: Array) -> Array:
    """D with M → D⁻¹MD⁻ᵀ flattening the spectra of X and S, given X − S."""
    values, vectors = stoppable(len(difference), partial(scipy.linalg.eigh, difference))
    above, below = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    floors = [_SPECTRUM_FLOOR * float(np.sqrt(np.mean(part**2))) for part in (above, below)]
    if not min(floors) > 0:
        return np.eye(len(difference))
    scale = ((above + floors[0]) / (below + floors[1])) ** _SPREAD_EXPONENT
    scale /= np.exp(np.log(scale).mean())
    return np.asarray(vectors * np.sqrt(scale))
