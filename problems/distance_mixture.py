"""Mixtures of distances for large-margin nearest neighbours (Min 2008, eq. 7).

The distance is D(i, j) = Σ_k θ_k (K_i − K_j)ᵀQ_k(K_i − K_j), all taken of the k-th kernel. With
N_k = θ_k Q_k the θ disappear, and what is left is one convex program with a block per kernel, each
distance the sum over all of them:

    minimise  (1−μ) Σ_k <N_k, P_k> + μ Σ_t [1 + Σ_k <N_k, C^k_ij − C^k_il>]₊ ,      N_k ⪰ 0
    dual      maximise Σα,  0 ≤ α ≤ μ,  (1−μ)P_k + Σα_t (C^k_ij − C^k_il) ⪰ 0  for every k
    bound     θΣα, the largest θ ≤ 1 that satisfies all of them: θ = min_k θ_k

It is solved in one program; the paper's assignment of each point to one kernel is not a descent
step. θ can only be read off as shares of the learned distances, since Q_k has no scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import integer, set_fields
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.free_directions import LeftOut, allowance, free_note, length_notes
from sdpkit.problems.lmnn import LMNN, MODEL_ENTRIES
from sdpkit.problems.views import (
    common_targets,
    gram_features,
    same_points,
    unit_features,
)
from sdpkit.program.compilation import minimise
from sdpkit.program.expressions import Unknown
from sdpkit.program.form import Program
from sdpkit.program.impostors import Impostors
from sdpkit.program.safe import SafeBounds
from sdpkit.results.metric import Metric, factor
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Indices


@dataclass(frozen=True, eq=False, repr=False)
class DistanceMixture:
    """LMNN on a sum of distances, one per kernel or per view of the points (eq. 7).

    Parameters
    ----------
    views : sequence of array-like or None, default None
        m arrays of the same n points, (n, D_k).
    y : array-like of shape (n,) or None, default None
        Labels.
    kernels : sequence of array-like or None, default None
        m Gram matrices (n, n) instead.
    rank : int or sequence of int or None, default None
        The number of kernel-PCA features, one number or one per kernel.
    n_neighbors : int, default 3
        As in `LMNN`.
    targets : array-like or None, default None
        As in `LMNN`; by default the nearest in the sum of the inputs' own distances, each put to
        the same scale.
    mu, ridge : float, default 0.5 and 0.0
        As in `LMNN`.

    Attributes
    ----------
    parts : tuple of LMNN
        LMNN on each of the distances alone, all with the same target neighbours.
    target_table : array of shape (n, k)
        These neighbours, −1 where there are fewer.

    Examples
    --------
    >>> import sdpkit
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> problem = DistanceMixture([X[:, :6], X[:, 6:]], y)
    >>> solution = sdpkit.solve(problem)
    >>> solution.status, len(solution.matrices)
    (<Status.OPTIMAL: 'optimal'>, 2)
    >>> metric = problem.recover(solution)
    >>> problem.shares(metric).round(1)
    array([0.4, 0.6])
    >>> metric.predict(np.hstack([X[:2, :6], X[:2, 6:]]))
    array([0, 0])
    """

    views: Sequence[ArrayLike] | None = None
    y: Any = None
    _: KW_ONLY
    kernels: Sequence[ArrayLike] | None = None
    rank: int | Sequence[int] | None = None
    n_neighbors: int = 3
    targets: ArrayLike | None = None
    mu: float = 0.5
    ridge: float = 0.0
    target_table: Any = field(init=False)
    parts: tuple[LMNN, ...] = field(init=False)

    default_tol = 1e-3

    @one_blas_thread
    def __post_init__(self) -> None:
        if (self.views is None) == (self.kernels is None):
            given = "neither" if self.views is None else "both"
            raise InputError(f"pass views of the points or kernels, not both; {given} was given")
        integer(self.n_neighbors, "n_neighbors")
        inputs = same_points(
            self.kernels if self.views is None else self.views,
            "kernel" if self.views is None else "view",
        )
        found: Any = self.targets
        if found is None:
            features = list(inputs) if self.kernels is None else [gram_features(k) for k in inputs]
            found = common_targets([unit_features(f) for f in features], self.y, self.n_neighbors)
        set_fields(self, target_table=found)
        set_fields(self, parts=tuple(self._part(k, x) for k, x in enumerate(inputs)))
        _ = [part.features for part in self.parts]

    def _part(self, k: int, inputs: Array) -> LMNN:
        """LMNN on one of the distances alone."""
        if self.y is None:
            raise InputError("a mixture of distances needs labels y")
        data: dict[str, Any] = {"X": inputs}
        if self.kernels is not None:
            ranks = np.atleast_1d(np.asarray(self.rank, dtype=object))
            if ranks.size not in (1, len(self.kernels)):
                raise InputError(f"{ranks.size} ranks for {len(self.kernels)} kernels")
            rank = ranks[k % ranks.size]
            rank = rank if rank is None else integer(rank, "rank")
            data = {"kernel": inputs, "rank": rank}
        elif self.rank is not None:
            raise InputError("rank belongs to kernels; reduce the views by PCA first")
        return LMNN(
            y=self.y,
            n_neighbors=self.n_neighbors,
            targets=self.target_table,
            mu=self.mu,
            ridge=self.ridge,
            **data,
        )

    @property
    def n_points(self) -> int:
        """n."""
        return int(self.parts[0].points.shape[0])

    @cached_property
    def groups(self) -> Indices | None:
        """(1, n) points that no view keeps apart at no cost share a number; None if all do."""
        table = np.array([part.coordinates[0].groups for part in self.parts])
        if not table.any():
            return None
        return np.unique(table, axis=1, return_inverse=True)[1].reshape(1, -1).astype(np.int64)

    def _family(self, groups: Indices | None) -> Impostors:
        first = self.parts[0]
        return Impostors(
            first.target_pairs,
            first.labels,
            float(self.mu),
            np.zeros_like(first.labels),
            groups,
            summed=True,
        )

    @one_blas_thread
    def program(self) -> Program:
        """One block per view, whitened: every cost is the identity."""
        views = [part.coordinates[0] for part in self.parts]
        unknowns = [Unknown(f"N{k + 1}", features=c.inputs) for k, c in enumerate(views)]
        free = sum(c.n_free for c in views)
        return minimise(
            sum(N.trace() for N in unknowns),  # (1−μ)P_k = I in these coordinates
            family=self._family(self.groups),  # μ Σ[1 + q_ij − q_il]₊, summed over the views
            safe=SafeBounds(value_scale=self.mu),
            notes=[] if self.groups is None else [free_note(free)],
            name=f"LMNN on a sum of {len(self.parts)} distances",
        )

    def to_cvxpy(self) -> Any:
        """The paper's model with N_k = θ_k Q_k, in the original features; every triplet written."""
        import cvxpy as cp

        family = self._family(None)
        terms = family.terms(family.everything())
        widths = [part.features.shape[1] for part in self.parts]
        if terms.size * sum(widths) > MODEL_ENTRIES:
            raise InputError(
                f"{terms.size} triplets in {sum(widths)} dimensions are too many "
                "for cvxpy; use sdpkit.solve"
            )
        N = [cp.Variable((D, D), PSD=True, name=f"N{k + 1}") for k, D in enumerate(widths)]

        def lengths(start: Indices, end: Indices) -> Any:
            """Squared distances, the sum over all views."""
            terms = []
            for part, matrix in zip(self.parts, N, strict=True):
                v = part.features[start] - part.features[end]
                terms.append(cp.sum(cp.multiply(v @ matrix, v), axis=1))
            return sum(terms)

        near, far = lengths(*terms.pulls.T), lengths(*terms.pushes.T)
        slack = cp.Variable(terms.size, nonneg=True, name="xi")
        pull = (1 - self.mu) * cp.sum(near) + self.ridge * sum(cp.trace(m) for m in N)
        margin = far[terms.push] - near[terms.pull] >= 1 - slack
        return cp.Problem(cp.Minimize(pull + self.mu * cp.sum(slack)), [margin])

    # -- the answer --------------------------------------------------------------------------

    @one_blas_thread
    def recover(self, solution: Solution) -> Metric:
        """The learned metric on all views side by side: new points are rows of (Σ D_k) numbers."""
        parts, notes = self._components(solution)
        maps = [part.kernel_map for part in self.parts]
        seen = [c if a is None else c @ a.T for c, a in zip(parts, maps, strict=True)]
        first = self.parts[0]
        return Metric(
            components=(np.asarray(scipy.linalg.block_diag(*seen)),),
            X=np.hstack([part.points for part in self.parts]),
            labels=first.labels,
            classes=first.classes,
            block_of=np.zeros(self.n_points, dtype=np.int64),
            target_pairs=first.target_pairs,
            n_neighbors=self.n_neighbors,
            mu=self.mu,
            notes=notes,
        )

    def _components(self, solution: Solution) -> tuple[list[Array], tuple[str, ...]]:
        """Per view L with N = LᵀL on its features, the free directions included; and notes on
        these."""
        components = [
            factor(np.asarray(m), None) @ part.coordinates[0].whitening.T
            for m, part in zip(solution.matrices, self.parts, strict=True)
        ]
        if self.groups is None:
            return components, ()
        every = self._family(None)
        pairs = zip(self.parts, components, strict=True)
        outputs = [part.features @ component.T for part, component in pairs]
        left_out = LeftOut.of(every, outputs, allowance(solution, self.default_tol))
        left_out.allowed /= len(self.parts)
        added = [
            left_out.push(part.coordinates[0], part.features, every.block_of, 0)
            for part in self.parts
        ]
        grown = [np.vstack([part, *rows]) for part, rows in zip(components, added, strict=True)]
        return grown, length_notes(added)

    def objective(self, metric: Metric) -> float:
        """The exact objective of a metric on all views side by side, over all triplets."""
        widths = np.cumsum([part.points.shape[1] for part in self.parts])[:-1]
        parts = np.split(metric.components[0], widths, axis=1)
        value = 0.0
        outputs = []
        for part, component in zip(self.parts, parts, strict=True):
            outputs.append((part.points - part.points.mean(axis=0)) @ component.T)
            value += self.ridge * part.trace(component) if self.ridge else 0.0
        i, j = self.parts[0].target_pairs.T
        pull = sum(float(np.square(points[i] - points[j]).sum()) for points in outputs)
        return value + (1 - self.mu) * pull + self.mu * self._family(None).hinge_sum(outputs)

    def shares(self, metric: Metric) -> Array:
        """(m,) what each view contributes to the mean squared distance between the points."""
        widths = np.cumsum([part.points.shape[1] for part in self.parts])[:-1]
        parts = np.split(metric.components[0], widths, axis=1)
        spreads = np.array(
            [
                np.square((part.points - part.points.mean(axis=0)) @ component.T).sum()
                for part, component in zip(self.parts, parts, strict=True)
            ]
        )
        total = float(spreads.sum())
        return np.asarray(spreads / total) if total > 0 else np.full(len(parts), 1 / len(parts))

    def __repr__(self) -> str:
        sizes = ", ".join(str(part.features.shape[1]) for part in self.parts)
        noun = "views" if self.kernels is None else "kernels"
        return (
            f"<DistanceMixture: {self.n_points} points in {len(self.parts)} {noun} of {sizes} "
            f"dimensions, mu {self.mu:g}>"
        )
