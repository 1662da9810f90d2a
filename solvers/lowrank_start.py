"""Where the search for low-rank factors starts: ranks, factors and multipliers.

In order of preference: a checkpoint, a given embedding, a given solution, tensions that fit the
lengths of a large graph, the slowest modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from sdpkit.errors import InputError
from sdpkit.layout import Expected, Layout
from sdpkit.program.form import Program
from sdpkit.program.gram import FactoredGram, Matrix, is_finite
from sdpkit.solution.driver import Driver
from sdpkit.solution.solution import Solution
from sdpkit.solvers.lowrank_model import FactoredBlock, LowRankModel, lowest_eigenpairs
from sdpkit.solvers.lowrank_tensions import fits_tensions, tension_start
from sdpkit.typing import Array

_FULL_RANK_UNKNOWNS = 30_000  # up to which the first rank is one that leaves no false minima
_FIRST_RANK = 12  # the first rank beyond that
NEW_COLUMNS = 12  # columns added at a time, at most
_LARGEST = 1e50  # of a state in units of one; the Lagrangian has fourth powers


@dataclass
class LowRankState:
    """What goes from one multiplier update to the next."""

    unknown: list[Array]
    w: Array
    sigma: float
    level: float
    residual: float = np.inf
    steps: int = 0

    @property
    def ranks(self) -> tuple[int, ...]:
        """Columns of each block's Y."""
        return tuple(y.shape[1] for y in self.unknown[:-1])


def layout(model: LowRankModel) -> Layout:
    """What the arrays of a checkpoint must be."""
    unit: dict[str, Any] = {"least": -_LARGEST, "most": _LARGEST}
    parts = enumerate(model.parts)
    return {
        "steps": Expected(whole=True, least=0),
        **{f"factor{k}": Expected((p.block.size, _ranks(p)), **unit) for k, p in parts},
        "auxiliary": Expected((model.free.size,), **unit),
        "weights": Expected((model.program.n_rows,), **unit),
        "sigma": Expected(least=1 / _LARGEST, most=_LARGEST),
        "level": Expected(least=1 / _LARGEST, most=_LARGEST),
        "residual": Expected(least=0.0, most=np.inf),
    }


def _ranks(part: FactoredBlock) -> range:
    """The numbers of columns that a factor may have between two updates."""
    return range(1, part.block.size + NEW_COLUMNS + 1)


def starting_state(model: LowRankModel, driver: Driver) -> LowRankState:
    """From a checkpoint, a given solution, a given embedding, or the slowest modes."""
    cold, kept = cold_start(model), driver.saved(layout(model))
    if kept is not None:
        factors = [kept[f"factor{k}"] for k in range(len(model.parts))]
        sigma, level, residual = (float(kept[name]) for name in ("sigma", "level", "residual"))
        unknown, steps = [*factors, kept["auxiliary"]], int(kept["steps"])
        return LowRankState(unknown, kept["weights"], sigma, level, residual, steps)
    given, init = driver.settings.warm_start, driver.options["init"]
    if given is not None and _fits(model.program, given):
        cold.unknown[:-1] = [
            part.projected(root_of(matrix) / np.sqrt(model.unit))
            for part, matrix in zip(model.parts, given.matrices, strict=True)
        ]
        if given.dual is not None and np.isfinite(given.dual).all():
            _take_multipliers(cold, model, model.own(model.program.sign * given.dual))
    if init is not None:
        factors = given_factors([part.block.size for part in model.parts], init)
        pairs = zip(model.parts, factors, strict=True)
        cold.unknown[:-1] = [part.projected(y / np.sqrt(model.unit)) for part, y in pairs]
    return cold


def _take_multipliers(state: LowRankState, model: LowRankModel, w: Array) -> None:
    """Start from multipliers that are nearly right."""
    state.level = max(float(np.abs(w).mean()), 0.1)
    least = 1e-3 * state.level
    state.w = np.where(model.side != 0, model.side * np.maximum(np.abs(w), least), w)
    state.sigma = 30 * state.level


def _fits(program: Program, given: Solution) -> bool:
    """Whether a solution has the shapes of this program and numbers in them."""
    shapes = [(block.size, block.size) for block in program.blocks]
    if [matrix.shape for matrix in given.matrices] != shapes or given.dual is None:
        return False
    return given.dual.size == program.n_rows and all(is_finite(m) for m in given.matrices)


def root_of(matrix: Matrix) -> Array:
    """Y with YYᵀ the matrix, or its leading part."""
    if isinstance(matrix, FactoredGram):
        return matrix.factor
    if isinstance(matrix, np.ndarray):
        values, vectors = scipy.linalg.eigh(matrix)
    else:
        values, vectors = matrix.leading(min(2 * _FIRST_RANK, matrix.shape[0] - 1))
    kept = values > 1e-9 * max(float(values.max()), 0.0)
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept])) if kept.any() else vectors[:, :1]


def given_factors(sizes: list[int], init: Any) -> list[Array]:
    """An embedding, (n, r), or one per block of these sizes, as factors."""
    given = [init] if len(sizes) == 1 and not isinstance(init, list | tuple) else init
    factors = [np.asarray(y, dtype=np.float64) for y in given]
    shapes = [y.shape for y in factors]
    fits = len(factors) == len(sizes) and all(
        len(shape) == 2 and shape[0] == n and shape[1] > 0
        for shape, n in zip(shapes, sizes, strict=False)
    )
    if not fits or not all(np.isfinite(y).all() for y in factors):
        raise InputError(f"init has shapes {shapes}; pass finite arrays (n, r) with n = {sizes}")
    return factors


def first_ranks(program: Program) -> list[int]:
    """√(2·rows) + 1, beyond which stationary points of full generality are optimal, where that
    is affordable; a few columns else."""
    enough = int(np.sqrt(2 * program.n_rows)) + 1
    out = []
    for block in program.blocks:
        room = block.size - block.null_basis.shape[1]
        few = enough if block.size * min(enough, room) <= _FULL_RANK_UNKNOWNS else _FIRST_RANK
        out.append(max(1, min(room, few)))
    return out


def cold_start(model: LowRankModel) -> LowRankState:
    """Tensions that fit the lengths of a large graph, or else the slowest modes of the
    measurements, in the size at which the rows are met best."""
    program = model.program
    if fits_tensions(model):
        y, w = tension_start(model)
        state = LowRankState([model.parts[0].projected(y), np.empty(0)], w, 1.0, 1.0)
        _take_multipliers(state, model, w)
        return state
    w = np.clip(np.zeros(program.n_rows), model.lo, model.hi)
    if program.safe.direction is not None:
        pull = max(model.parts[k].sign * b.cost.identity for k, b in enumerate(program.blocks))
        if pull > 0:
            w = model.own(program.sign * program.safe.direction * pull * model.cost_scale)
    factors = []
    rng = np.random.default_rng(0)
    ones = np.ones(program.rows_q.shape[1])
    for part, u, rank in zip(model.parts, program.split(ones), first_ranks(program), strict=True):
        values, vectors = lowest_eigenpairs(part, u, rank, cost=False)
        y = vectors / np.sqrt(np.maximum(values, 1e-3 * values.max() + 1e-12))
        y = y + 1e-2 * np.linalg.norm(y) / np.sqrt(y.size) * rng.standard_normal(y.shape)
        factors.append(part.projected(y))
    level = max(float(np.abs(w).mean()), 0.1)
    w = np.where(model.side != 0, model.side * np.maximum(np.abs(w), level), w)
    sigma = level / (float(np.abs(model.b).mean()) or 1.0)
    return LowRankState([*_fitted(model, factors), np.where(model.free, 0.0, 0.3)], w, sigma, level)


def _fitted(model: LowRankModel, factors: list[Array]) -> list[Array]:
    """The factors times the number that brings the rows nearest to their right-hand sides."""
    images = [part.images(y) for part, y in zip(model.parts, factors, strict=True)]
    values = model.rows_q @ np.concatenate([np.einsum("pk,pk->p", v, v) for v in images])
    size = float(values @ values)
    scale = float(values @ model.b) / size if size > 0 else 1.0
    if not scale > 0:
        scale = 1 / np.sqrt(size) if size > 0 else 1.0
    return [np.sqrt(scale) * y for y in factors]


def trimmed(y: Array) -> Array:
    """Y in the coordinates of its singular vectors, without those that vanish."""
    u, s, _ = np.linalg.svd(y, full_matrices=False)
    kept = max(1, int(np.sum(s > 1e-6 * s.max(initial=0.0))))
    return np.asarray(u[:, :kept] * s[:kept])
