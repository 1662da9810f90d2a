"""A program with a family of comparisons in coordinates in which every cost is the identity.

The change of coordinates is what makes first-order methods fast: without it the curvatures of L
differ by the condition of the costs. `factored`, `projected` and `subgradient` work in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.errors import SolverError
from sdpkit.layout import Expected, Layout
from sdpkit.program.families import RowFamily, Rows, Terms, best_scale, laplacians, values
from sdpkit.program.form import Program
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array

# One (r, d) matrix L per block.
Factors = list[Array]

# From this tolerance on single precision is enough for the inner problem …
_SINGLE_PRECISION_TOL = 5e-4
# … with features up to this size, where differences of one still count.
_SINGLE_EXTENT = 1e3
# From so many points on, features that need no change are not copied.
_MANY_POINTS = 100_000
# The least eigenvalue of a warm start, as a share of the largest: with a little of every direction
# the search can leave the face of the given solution.
_EVERY = 1e-3
# Of the numbers in a checkpoint: squared distances and their sums stay in range.
_LARGEST = 1e50


@dataclass(frozen=True, eq=False)
class HingeProgram:
    """The program in coordinates in which every cost is the identity.

    Attributes
    ----------
    features: per block (n, d);  back: per block (d, d) with M = back Z back
    family: the comparisons;  weight: the cost of a unit of violation, larger for a part of them
    ranks: per block the number of rows that L may have
    dtype: of the outputs in the inner problem; single precision serves a loose tolerance
    """

    features: list[Array]
    back: list[Array]
    ranks: list[int]
    family: RowFamily
    weight: float
    dtype: Any

    @classmethod
    def of(cls, program: Program, tol: float) -> HingeProgram:
        """Change coordinates; a singular cost is refused."""
        features, back = [], []
        for block in program.blocks:
            values, vectors = scipy.linalg.eigh(block.cost.dense())
            if values[0] <= 1e-12 * values[-1]:
                raise SolverError(
                    f"the cost of block {block.name!r} is singular (eigenvalues {values[0]:.2g} … "
                    f"{values[-1]:.2g}): state the program on the range of its cost"
                )
            root = (vectors / np.sqrt(values)) @ vectors.T
            nodes = np.eye(block.size) if block.features is None else block.features
            if len(nodes) >= _MANY_POINTS and _is_identity(block.cost.dense()):
                features.append(np.ascontiguousarray(nodes))
                back.append(np.eye(block.size))
                continue
            images = nodes @ root
            # Differences are all that counts; small numbers round less.
            features.append(np.ascontiguousarray(images - images.mean(axis=0)))
            back.append(root)
        if program.family is None:
            raise SolverError(
                "solvers 'factored' and 'projected' only solve programs with a family of "
                "comparisons; this program has none"
            )
        ranks = [min(block.size, block.max_rank or block.size) for block in program.blocks]
        single = tol >= _SINGLE_PRECISION_TOL and max(map(_extent, features)) <= _SINGLE_EXTENT
        dtype = np.float32 if single else np.float64
        return cls(features, back, ranks, program.family, program.family.weight, dtype)

    def part(self, share: float) -> HingeProgram:
        """The same problem on a part of the comparisons, each with a larger weight instead."""
        family = self.family.part(share)
        return replace(self, family=family, weight=self.weight * self.family.n_rows / family.n_rows)

    def outputs(self, factors: Factors) -> list[Array]:
        """The images of all points, one (n, r) array per block."""
        return [x @ factor.T for x, factor in zip(self.features, factors, strict=True)]

    def images(self, terms: Terms, alpha: Array) -> list[Array]:
        """Per block weight·Σα_t(C_ij − C_il), (d, d), in double precision."""
        graphs = laplacians(self.family, terms, alpha, len(self.features))
        parts = zip(self.features, graphs, strict=True)
        return [self.weight * (x.T @ (graph @ x)) for x, graph in parts]

    def share(self, images: list[Array]) -> float:
        """The largest θ ≤ 1 with I + θ·image ⪰ 0 in every block."""
        lows = [float(scipy.linalg.eigvalsh(a, subset_by_index=[0, 0])[0]) for a in images]
        return min(1.0, *(-1.0 / low if low < 0 else 1.0 for low in lows))

    def objective(self, factors: Factors, rows: Rows) -> float:
        """‖L‖² + weight·Σ[z]₊ over `rows`."""
        z = values(self.family, self.family.terms(rows), self.outputs(factors))
        return squared_norm(factors) + self.weight * float(np.maximum(z, 0.0).sum())

    def matrices(self, factors: Factors) -> tuple[Array, ...]:
        """The metric matrices in the program's own coordinates."""
        roots = [factor @ back for factor, back in zip(factors, self.back, strict=True)]
        return tuple(root.T @ root for root in roots)

    def start(self, warm: Solution | None) -> Factors:
        """The factors of a solution of the same shape, or the best multiple of an isometry."""
        sizes = [(root.shape[0], root.shape[0]) for root in self.back]
        if warm is not None and [m.shape for m in warm.matrices] == sizes:
            parts = zip(warm.matrices, self.back, self.ranks, strict=True)
            return [_leading(np.linalg.solve(b, np.linalg.solve(b, m).T), r) for m, b, r in parts]
        bases = [_widest(x, r) for x, r in zip(self.features, self.ranks, strict=True)]
        t = best_scale(self.family, self.outputs(bases), squared_norm(bases))
        return [np.sqrt(t) * basis for basis in bases]


# -- checkpoints ----------------------------------------------------------------------------------


def factor_state(
    factors: Factors, steps: int, width: float = 0.0, share: float = 0.0
) -> dict[str, Any]:
    """What a search keeps in a checkpoint: L of every block, the steps that led there, and of
    streamed comparisons the width of the multipliers and the share of the impostors."""
    named = {f"factor{k}": factor for k, factor in enumerate(factors)}
    return {**named, "steps": steps, "width": width, "share": share}


def factor_layout(problem: HingeProgram) -> Layout:
    """What the arrays of a checkpoint must be."""
    sizes = [x.shape[1] for x in problem.features]
    return {
        **{
            f"factor{k}": Expected((range(1, size + 1), size), least=-_LARGEST, most=_LARGEST)
            for k, size in enumerate(sizes)
        },
        "steps": Expected(whole=True, least=0),
        "width": Expected(least=0.0, most=_LARGEST),
        "share": Expected(least=0.0, most=1.0),
    }


def kept_factors(kept: Mapping[str, NDArray[Any]]) -> Factors:
    """The factors of a checkpoint."""
    return [kept[f"factor{k}"] for k in range(sum(name.startswith("factor") for name in kept))]


def _is_identity(cost: Array) -> bool:
    return bool(np.array_equal(cost, np.eye(len(cost))))


def _extent(features: Array) -> float:
    """The largest coordinate."""
    return max(abs(float(features.max(initial=0.0))), abs(float(features.min(initial=0.0))))


def _leading(matrix: Array, rank: int) -> Array:
    """(rank, d) L with LᵀL the best approximation of a positive semidefinite matrix."""
    values, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2)
    roots = np.sqrt(np.maximum(values, _EVERY * max(float(values[-1]), np.finfo(float).tiny)))
    return np.asarray((vectors * roots)[:, ::-1][:, :rank].T)


def _widest(features: Array, rank: int) -> Array:
    """(rank, d) orthonormal rows: all directions, or those of largest variance."""
    size = features.shape[1]
    if rank == size:
        return np.eye(size)
    return np.asarray(scipy.linalg.eigh(features.T @ features)[1][:, ::-1][:, :rank].T)


def squared_norm(factors: Factors) -> float:
    """Σ_b ‖L_b‖², which is Σ_b tr M_b."""
    return float(sum(np.vdot(factor, factor) for factor in factors))
