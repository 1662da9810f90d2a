"""A new point for an existing embedding (Weinberger 2007, section 3.1.10), by any solver.

The new input x_t has k neighbours x_i, embedded at y_i ∈ ℝʳ. With ŷ_i = (y_i; −1) and

    S = [ I   y ]      minimise    s + Σ|ξ_i|
        [ yᵀ  s ]      subject to  ŷ_iᵀ S ŷ_i = ‖x_i − x_t‖² + ξ_i,   S ⪰ 0

where S ⪰ 0 says s ≥ ‖y‖². Dual, with multipliers −g_i of the neighbours' constraints:

    maximise  Σ g_i(‖y_i‖² − δ_i) − ‖Σ g_i y_i‖²/ν    subject to  |g_i| ≤ 1,  ν = 1 + Σ g_i ≥ 0

and y = Σ g_i y_i/ν at the optimum where ν > 0. Two things differ from the published program:

* the thesis fixes only the diagonal of the identity block, e_iᵀSe_i = 1. Here the rows
  (e_i + e_j)ᵀS(e_i + e_j) = 2 fix the rest;
* s is minimised as well, which pulls y to the origin: a point far out is misplaced even by exact
  distances. Here the neighbours' centroid is subtracted first and added back. Then g_i = −1/k is
  dual feasible and proves that exact distances give the exact point, which is unique where the
  neighbours span ℝʳ.

`variant="published"` is the thesis's program, for comparison. Thousands of points at once are
placed by `sdpkit.results.placement.place` and `Embedding.extend(method="sdp")`, which solve the
same program. The default of `extend`, a continuous map, is in `sdpkit.results.interpolation`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_array, finite_vector, one_of
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.compilation import minimise
from sdpkit.program.expressions import Unknown, Variable, named
from sdpkit.program.form import Program
from sdpkit.program.safe import SafeBounds
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array

Variant = Literal["centred", "published"]


@dataclass(frozen=True, eq=False, repr=False)
class OutOfSample:
    """One new point, placed by its distances to embedded neighbours.

    Parameters
    ----------
    neighbors : array-like of shape (k, r)
        Coordinates y_i of its neighbours in the embedding.
    distances : array-like of shape (k,)
        Lengths ‖x_i − x_t‖ (not squared) to them in the input.
    variant : {"centred", "published"}, default "centred"
        "centred" (around the neighbours' mean) or "published" (the thesis's).

    Attributes
    ----------
    anchors : array of shape (k, r)
        The neighbours around `origin`.
    squared : array of shape (k,)
        Squared distances to them.
    origin : array of shape (r,)
        The neighbours' mean, or zero for the published program.

    Examples
    --------
    >>> import sdpkit
    >>> corners = np.array([[10.0, 0.0], [11.0, 0.0], [10.0, 1.0]])
    >>> lengths = np.linalg.norm(corners - [13.0, 2.0], axis=1)
    >>> problem = OutOfSample(corners, lengths)
    >>> problem.recover(sdpkit.solve(problem, tol=1e-8)).round(4)
    array([13.,  2.])
    >>> published = OutOfSample(corners, lengths, variant="published")
    >>> published.recover(sdpkit.solve(published)).round(1)   # far off
    array([ 6.4, -3.5])
    """

    neighbors: ArrayLike
    distances: ArrayLike
    _: KW_ONLY
    variant: Variant = "centred"
    anchors: Array = field(init=False)
    squared: Array = field(init=False)
    origin: Array = field(init=False)

    @one_blas_thread
    def __post_init__(self) -> None:
        one_of(self.variant, "variant", ("centred", "published"))
        y = finite_array(self.neighbors, "neighbors")
        if y.ndim != 2 or not y.size:
            raise InputError(f"neighbors has shape {y.shape}: pass coordinates, (k, r)")
        lengths = finite_array(self.distances, "distances")
        if lengths.shape != (len(y),):
            raise InputError(
                f"distances has shape {lengths.shape}: pass one per neighbour, ({len(y)},)"
            )
        if (lengths < 0).any():
            raise InputError(f"distances are lengths ≥ 0; the smallest is {lengths.min():g}")
        centred = self.variant == "centred"
        origin = y.mean(axis=0) if centred else np.zeros(y.shape[1])
        for name, value in (("anchors", y - origin), ("squared", lengths**2), ("origin", origin)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def unit(self) -> float:
        """The length in which the program is written: S is (y/unit, s/unit²)."""
        largest = max(float((self.anchors**2).sum(axis=1).max()), float(self.squared.max()))
        return float(np.sqrt(largest)) or 1.0

    def __repr__(self) -> str:
        k, r = self.anchors.shape
        return f"<OutOfSample, {self.variant}: {k} neighbours in {r} dimensions>"

    # -- the two formulations ----------------------------------------------------------------

    @one_blas_thread
    def program(self) -> Program:
        """The problem in squared lengths, one unknown S of size r + 1.

        Lengths are in units of `unit`, the objective is not: it is `unit`² (s + Σ|ξ|).
        """
        k, r = self.anchors.shape
        worth = self.unit**2
        S = Unknown("S", r + 1)
        up, down = Variable(k, "ξ⁺_i"), Variable(k, "ξ⁻_i")  # ξ = ξ⁺ − ξ⁻
        vectors, values = self._identity_rows()
        block = named("S_aa" if self.variant == "published" else "S_aa, S_ab", S.lengths(vectors))
        hats = np.hstack([self.anchors / self.unit, -np.ones((k, 1))])
        δ = named("δ_i", self.squared / worth)
        # Multipliers −1 of the diagonal and 0 of all others leave the dual slack worth·I.
        diagonal = np.where(np.arange(values.size) < r, -worth, 0.0)
        return minimise(
            worth * (S[r, r] + up.sum() + down.sum()),
            block == named("I", values),
            named("ŷ_iᵀ S ŷ_i", S.lengths(hats)) == δ + up - down,
            safe=SafeBounds(value_scale=worth),
            anchor=(diagonal, 0.0),
            name=f"out-of-sample, {self.variant}: {k} neighbours, r = {r}",
        )

    def _identity_rows(self) -> tuple[Array, Array]:
        """Measurements that fix the identity block, and their values."""
        r = self.anchors.shape[1]
        unit = np.eye(r, r + 1)
        if self.variant == "published":
            return unit, np.ones(r)
        sums = [unit[a] + unit[b] for a, b in combinations(range(r), 2)]
        return np.vstack([unit, *sums]), np.concatenate([np.ones(r), np.full(len(sums), 2.0)])

    def to_cvxpy(self) -> Any:
        """The model of this variant as a `cvxpy.Problem`, around `origin` and in input units."""
        import cvxpy as cp

        k, r = self.anchors.shape
        S = cp.Variable((r + 1, r + 1), PSD=True, name="S")
        xi = cp.Variable(k, name="xi")
        rows = [
            cp.quad_form(hat, S) == delta + xi[i]
            for i, (hat, delta) in enumerate(
                zip(np.hstack([self.anchors, -np.ones((k, 1))]), self.squared, strict=True)
            )
        ]
        fixed = S[:r, :r] == np.eye(r) if self.variant == "centred" else cp.diag(S)[:r] == 1
        return cp.Problem(cp.Minimize(cp.norm1(xi) + S[r, r]), [*rows, fixed])

    # -- the way back ------------------------------------------------------------------------

    @one_blas_thread
    def recover(self, solution: Solution) -> Array:
        """The new point's coordinates, (r,)."""
        r = self.anchors.shape[1]
        if [m.shape for m in solution.matrices] != [(r + 1, r + 1)]:
            shapes = [m.shape for m in solution.matrices]
            raise InputError(f"the solution has matrices {shapes}; this problem has size {r + 1}")
        if not np.isfinite(solution.matrix).all():
            raise InputError(
                f"the solution holds no matrix (status {solution.status}): {solution.message}"
            )
        return np.asarray(self.origin + self.unit * np.asarray(solution.matrix)[:r, r])

    @one_blas_thread
    def objective(self, point: ArrayLike) -> float:
        """The least s + Σ|ξ_i| over s ≥ ‖y‖² of any coordinates y, (r,).

        The published program leaves entries of the identity block open, which y does not tell;
        here they are 0, and `shortfall` says if the solution's are better.
        """
        y = finite_vector(point, self.origin.size, "point") - self.origin
        offsets = np.square(self.anchors).sum(axis=1) - 2 * self.anchors @ y - self.squared
        # Piecewise linear in s: the least is at a kink, or at the least s.
        least = float(y @ y)
        kinks = np.append(np.maximum(-offsets, least), least)
        return float((kinks + np.abs(offsets[:, None] + kinks).sum(axis=0)).min())

    def shortfall(self, solution: Solution) -> str:
        """Why the objective of the recovered point is not the certified one; empty if it is within
        the certified gap of it."""
        reason = "entries of S that the point does not tell are not those of the identity"
        return solution.shortfall(self.objective(self.recover(solution)), "the point", reason)
