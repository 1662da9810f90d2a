"""The inner problem of `factored`: an augmented Lagrangian of hinges over a working set.

In coordinates in which every cost is the identity,

    ‖L‖² + weight·Σ_t max_{0 ≤ α ≤ 1} (α z_t − γ/2 (α − a_t)²),     M = LᵀL,  maximiser α_t

for the comparisons z_t = c_t + q_ij − q_il of any family. One compiled pass over them gives the
value, the maximisers and the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sdpkit.numerics.threads import workers
from sdpkit.solvers.hinge_program import Factors, HingeProgram, squared_norm
from sdpkit.solvers.working_set import WorkingSet, pass_over, shared_out
from sdpkit.typing import Array

# The cost γ of moving α at which it does not move.
_NO_MOVE = 1e300
# Rows of a matrix from which on threads share its products.
_TALL = 4000


@dataclass(frozen=True, eq=False)
class InnerPoint:
    """The inner problem at some L: value, gradient, maximisers α, and the true hinge objective.

    `in_the_cone` computes the gradient in M = LᵀL, which that in L does not tell where L is
    singular.
    """

    factors: Factors
    value: float
    gradient: Factors
    objective: float
    alpha: Array
    single: bool
    in_the_cone: Callable[[], Factors]


@dataclass(eq=False)
class InnerProblem:
    """The augmented Lagrangian of a working set at its multipliers a.

    Attributes
    ----------
    gamma: γ, the cost of moving α away from a;  pool: threads that share the work
    """

    problem: HingeProgram
    working: WorkingSet
    gamma: float
    pool: Any

    def at(self, factors: Factors) -> InnerPoint:
        """The augmented Lagrangian and its gradient 2(L + weight·(Laplacian·Y)ᵀX)."""
        problem, working = self.problem, self.working
        columns, width = self._columns([factor.shape[0] for factor in factors])
        outputs = np.zeros((working.places[-1].rows.stop, width), dtype=problem.dtype)
        for factor, place, span in zip(factors, working.places, columns, strict=True):
            small = factor.T.astype(problem.dtype)
            _write_product(self.pool, place.features, small, outputs[place.rows, span])
        found = pass_over(working, outputs, working.a, self.gamma, self.pool)
        square, weight = squared_norm(factors), problem.weight
        gradient = [
            2 * (factor + weight * _across(self.pool, found.pull[place.rows, span], place.features))
            for factor, place, span in zip(factors, working.places, columns, strict=True)
        ]

        def in_the_cone() -> Factors:
            return [np.eye(image.shape[0]) + image for image in self.images(found.alpha)]

        return InnerPoint(
            factors,
            square + weight * found.lagrangian,
            gradient,
            square + weight * found.hinges,
            found.alpha,
            problem.dtype is np.float32,
            in_the_cone,
        )

    def images(self, alpha: Array) -> list[Array]:
        """Per block weight·Σα_t(C_ij − C_il), (d, d), in the precision of the inner problem.

        The Laplacian is applied to the features by the same pass: where moving away from α costs
        more than it can gain, α stays what it is.
        """
        problem, working = self.problem, self.working
        columns, width = self._columns([place.features.shape[1] for place in working.places])
        outputs = np.zeros((working.places[-1].rows.stop, width), dtype=problem.dtype)
        for place, span in zip(working.places, columns, strict=True):
            outputs[place.rows, span] = place.features
        pull = pass_over(working, outputs, alpha, _NO_MOVE, self.pool).pull
        return [
            problem.weight * _across(self.pool, pull[place.rows, span], place.features)
            for place, span in zip(working.places, columns, strict=True)
        ]

    def _columns(self, widths: list[int]) -> tuple[list[slice], int]:
        """The columns of every block among the outputs, and their number: side by side where
        distances are summed, or else each in its own rows."""
        if self.problem.family.summed:
            ends = np.cumsum([0, *widths]).tolist()
            return [slice(*ends[k : k + 2]) for k in range(len(widths))], ends[-1]
        return [slice(0, width) for width in widths], max(widths)


def _slices(rows: int) -> list[slice]:
    """The rows of a tall matrix, one slice per thread; one slice if it is not worth it."""
    count = workers() if rows > _TALL else 1
    if count == 1:
        return [slice(0, rows)]
    cuts = np.linspace(0, rows, count + 1).astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(cuts)]


def _write_product(pool: Any, tall: Array, small: Array, out: Array) -> None:
    """tall @ small, the rows shared out: BLAS threads would fight with ours."""

    def write(rows: slice) -> None:
        out[rows] = tall[rows] @ small

    shared_out(pool, write, _slices(tall.shape[0]))


def _across(pool: Any, left: Array, right: Array) -> Array:
    """leftᵀ @ right of two tall matrices, the rows shared out."""
    parts = shared_out(pool, lambda rows: left[rows].T @ right[rows], _slices(left.shape[0]))
    return np.asarray(sum(parts))
