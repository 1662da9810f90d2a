"""Mahalanobis metric for clustering (Xing, Ng, Jordan and Russell 2002; thesis, section 2.2.2).

Pairs of dissimilar points are to be far apart while similar pairs stay close. With
q_p = v_pᵀ M v_p, v_p the difference of a pair,

    maximise    f(M) = Σ_{p dissimilar} √q_p
    subject to  Σ_{p similar} q_p ≤ 1,   M ⪰ 0

a concave objective: without the root it would be an eigenvalue problem, as in discriminant
analysis. Every pair counts once. (Sums over ordered pairs count twice; that halves M and multiplies
f by √2.) In the common form √q_p is the entry s_p of a 2×2 matrix (`sdpkit.program.roots`):

    maximise Σ s_p,     [[t_p, s_p], [s_p, 1]] ⪰ 0,   t_p ≤ q_p,   <A, M> ≤ 1

with A = Σ_{similar} v_p v_pᵀ. Dual, a_p the multiplier of t_p ≤ q_p and τ that of the limit:

    minimise    τ + Σ 1/(4a_p)   subject to  τA ⪰ Σ a_p v_p v_pᵀ,   a ≥ 0

For any M that keeps to the constraint, a_p = c/(2√q_p) and the best c give

    f* ≤ √(2 τ f(M)),    τ = λ_max(A^(−½) Σ_p v_p v_pᵀ/(2√q_p) A^(−½))                     (bound)

with equality at the optimum, where τ = f*/2.

**Diagonal M** are points m ≥ 0 of an orthant, and the condition on τ is one inequality per
coordinate. The thesis calls this a linear program. It is not: the objective is Σ√(Σ_j m_j v_pj²),
and a linear one would put all weight on a single coordinate.

**Coordinates.** The problem is stated in those in which A = I (and, diagonal, in which A_jj = 1).
A direction in which no similar pair differs costs nothing: if some dissimilar pair differs along
it, f has no maximum, which is an error before anything is solved; else it does not matter, and M
vanishes there.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpkit.errors import InputError, UnboundedProblemError
from sdpkit.files import require_memory
from sdpkit.inputs import boolean, distinct_pairs, finite_points, integer, set_fields
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.form import Program
from sdpkit.program.roots import Roots
from sdpkit.results.metric import Metric, factor
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Indices

# Eigenvalues of A below this share of the largest count as zero, every feature in units of its
# own spread.
_NULL = 1e-12
# Dissimilar pairs of the largest program that is built.
_MOST_PAIRS = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class MMC:
    """Mahalanobis metric for clustering.

    Parameters
    ----------
    X : array-like of shape (n, D)
        Points.
    y : array-like of shape (n,) or None, default None
        Labels: pairs of the same label are similar, all others dissimilar.
    similar, dissimilar : array-like of shape (m, 2) or None, default None
        Pairs given instead.
    diagonal : bool, default False
        Only diagonal M.
    max_pairs : int or None, default None
        At most so many dissimilar pairs, evenly spread over all of them, and no more similar ones
        than ten times that; a sum over fewer pairs is another problem, and a note says so.

    Attributes
    ----------
    points : array of shape (n, D)
        X as a read-only copy.
    similar_pairs, dissimilar_pairs : array of int, shape (m, 2)
        The pairs i < j that the sums run over, each once.
    notes : tuple of str
        What was left out.

    Examples
    --------
    >>> import sdpkit
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> problem = MMC(X[::10], y[::10])
    >>> problem
    <MMC: 15 points in 4 dimensions, 30 similar and 75 dissimilar pairs>
    >>> solution = sdpkit.solve(problem)
    >>> solution.status
    <Status.OPTIMAL: 'optimal'>
    >>> metric = problem.recover(solution)
    >>> abs(problem.bound(metric.matrix) / problem.objective(metric.matrix) - 1) < 1e-4
    True
    """

    X: Any
    y: Any = None
    _: KW_ONLY
    similar: ArrayLike | None = None
    dissimilar: ArrayLike | None = None
    diagonal: bool = False
    max_pairs: int | None = None
    points: Array = field(init=False)
    similar_pairs: Indices = field(init=False)
    dissimilar_pairs: Indices = field(init=False)
    notes: tuple[str, ...] = field(init=False, default=())

    @one_blas_thread
    def __post_init__(self) -> None:
        set_fields(self, points=finite_points(self.X, "X"))
        if self.y is None and (self.similar is None or self.dissimilar is None):
            raise InputError("MMC needs labels y, or both similar and dissimilar pairs")
        if self.y is not None and (self.similar is not None or self.dissimilar is not None):
            raise InputError("pass labels y or pairs, not both")
        boolean(self.diagonal, "diagonal")
        if self.max_pairs is not None:
            integer(self.max_pairs, "max_pairs")
        similar, dissimilar = self._pairs()
        if self.max_pairs is not None:
            similar = self._thinned(similar, 10 * self.max_pairs, "similar")
            dissimilar = self._thinned(dissimilar, self.max_pairs, "dissimilar")
        set_fields(self, similar_pairs=similar, dissimilar_pairs=dissimilar)
        if not len(dissimilar):
            raise InputError("there are no dissimilar pairs; MMC needs at least one")
        if not len(similar):
            raise UnboundedProblemError(
                "there are no similar pairs: nothing keeps the metric from growing without limit"
            )
        _ = self.whitening

    def _pairs(self) -> tuple[Indices, Indices]:
        n = len(self.points)
        if self.y is None:
            given = (
                distinct_pairs(self.similar, n, "similar"),
                distinct_pairs(self.dissimilar, n, "dissimilar"),
            )
            keys = [set(map(tuple, pairs.tolist())) for pairs in given]
            if both := keys[0] & keys[1]:
                raise InputError(f"the pair {min(both)} is given as similar and as dissimilar")
            return given
        y = np.asarray(self.y)
        if y.shape != (n,):
            raise InputError(f"y has shape {y.shape}, expected ({n},): one label per point")
        if np.any(y != y):
            raise InputError("y contains NaN labels")
        # Two indices of a pair and their copies, and a difference and its copy for each pair kept.
        width = 0 if self.max_pairs is not None else 2 * self.points.shape[1]
        require_memory(
            4.0 * n * (n - 1) * (6 + width),
            f"MMC lists all pairs: {n} points (pass fewer) have {n * (n - 1) // 2}, which",
        )
        i, j = np.triu_indices(n, 1)
        same = y[i] == y[j]
        return np.c_[i, j][same], np.c_[i, j][~same]

    def _thinned(self, pairs: Indices, most: int, what: str) -> Indices:
        if len(pairs) <= most:
            return pairs
        note = f"{most} of {len(pairs)} {what} pairs"
        set_fields(self, notes=(*self.notes, note))
        return pairs[np.linspace(0, len(pairs) - 1, most).astype(np.int64)]

    # -- coordinates -------------------------------------------------------------------------

    @cached_property
    def _differences(self) -> tuple[Array, Array]:
        """(similar, dissimilar) rows v_p in the original coordinates."""
        centred = self.points - self.points.mean(axis=0)
        parts = []
        for pairs in (self.similar_pairs, self.dissimilar_pairs):
            i, j = pairs.T
            parts.append(centred[i] - centred[j])
        return parts[0], parts[1]

    @cached_property
    def whitening(self) -> Array:
        """(D, d) T with TᵀAT = I on the range of A; diagonal, one column per coordinate kept."""
        near, far = self._differences
        D = near.shape[1]
        sizes = np.sqrt(np.square(near).sum(axis=0) + np.square(far).sum(axis=0))
        units = np.divide(1.0, sizes, out=np.ones(D), where=sizes > 0)
        scaled = near * units
        cost = scaled.T @ scaled
        if self.diagonal:
            values, vectors = np.diag(cost), np.eye(D)
        else:
            values, vectors = scipy.linalg.eigh(cost)
        kept = values > _NULL
        self._check_free(far * units @ vectors[:, ~kept])
        if not kept.any() or not far.any():
            raise InputError(
                "the two points of every dissimilar pair are equal; pass pairs of different points"
            )
        return np.asarray(units[:, None] * vectors[:, kept] / np.sqrt(values[kept]))

    def _check_free(self, along: Array) -> None:
        """`along`: the dissimilar differences along directions that cost nothing."""
        apart = np.abs(along).max(initial=0.0)
        if apart > np.sqrt(_NULL):
            count = along.shape[1]
            raise UnboundedProblemError(
                f"{count} direction{'s separate' if count > 1 else ' separates'} dissimilar pairs, "
                "and no similar pair differs there: the metric grows without limit; pass more "
                "similar pairs, or reduce the points (PCA) to fewer dimensions"
            )

    @cached_property
    def _whitened(self) -> Array:
        """(m, d) dissimilar differences in the coordinates of the program.

        Pairs of equal points have the root 0 under every M and are left out.
        """
        v = np.asarray(self._differences[1] @ self.whitening)
        return np.asarray(v[np.abs(v).max(axis=1) > 0])

    # -- the program -------------------------------------------------------------------------

    @one_blas_thread
    def program(self) -> Program:
        """The blocks T and M (diagonal: a nonnegative vector)."""
        v = self._whitened
        count = len(v)
        if count > _MOST_PAIRS:
            raise InputError(
                f"{count} dissimilar pairs are too many for one program; pass max_pairs, up to "
                f"{_MOST_PAIRS}, to learn from a part of them"
            )
        values = np.square(v) if self.diagonal else v
        name = "MMC, diagonal" if self.diagonal else "MMC"
        return Roots(values, self.diagonal).program(name, self.notes)

    def to_cvxpy(self) -> Any:
        """The paper's model, every pair written, in features of unit spread.

        Its matrix is that of the scaled features; its optimal value is that of `program()`.
        """
        import cvxpy as cp

        near, far = self._differences
        sizes = np.sqrt(np.square(near).sum(axis=0))
        units = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        near, far = near * units, far * units
        D = near.shape[1]
        if self.diagonal:
            m = cp.Variable(D, nonneg=True, name="m")
            lengths, total = np.square(far) @ m, cp.sum(np.square(near) @ m)
        else:
            M = cp.Variable((D, D), PSD=True, name="M")
            lengths = cp.sum(cp.multiply(far @ M, far), axis=1)
            total = cp.trace(near.T @ near @ M)
        return cp.Problem(cp.Maximize(cp.sum(cp.sqrt(lengths))), [total <= 1])

    # -- the answer --------------------------------------------------------------------------

    @one_blas_thread
    def recover(self, solution: Solution) -> Metric:
        """The learned metric in the original coordinates, scaled so that the similar pairs'
        squared distances add up to 1."""
        if self.diagonal:
            root = np.diag(np.sqrt(np.maximum(solution.x, 0.0)))
        else:
            root = factor(np.asarray(solution.matrices[-1]), None)
        components = np.asarray(root @ self.whitening.T)
        components = components[np.abs(components).max(axis=1) > 0]
        total = float(np.square(self._differences[0] @ components.T).sum())
        components = components / np.sqrt(total) if total > 0 else components
        n = len(self.points)
        y = np.zeros(n, dtype=np.int64) if self.y is None else np.asarray(self.y)
        classes, labels = np.unique(y, return_inverse=True)
        return Metric(
            components=(components,),
            X=self.points,
            labels=labels.astype(np.int64),
            classes=classes,
            block_of=np.zeros(n, dtype=np.int64),
            target_pairs=self.similar_pairs,
            n_neighbors=1,
            mu=0.5,
        )

    def objective(self, matrix: Metric | ArrayLike) -> float:
        """f(M) of any metric or matrix M, at the scale at which the similar pairs' squared
        distances add up to 1."""
        M = matrix.matrix if isinstance(matrix, Metric) else matrix
        return float(np.sqrt(self._lengths(M)).sum())

    def bound(self, matrix: ArrayLike) -> float:
        """√(2τf): no M does better. From any M, and equal to f at the best."""
        v, q = self._whitened, self._lengths(matrix)
        values = np.square(v) if self.diagonal else v
        apart = np.abs(self._differences[1] @ self.whitening).max(axis=1) > 0
        return Roots(values, self.diagonal).bound(q[apart])

    def _lengths(self, matrix: ArrayLike) -> Array:
        """(m,) squared distances of the dissimilar pairs, in units of the similar ones' sum."""
        M = np.asarray(matrix, dtype=np.float64)
        if M.shape != (self.points.shape[1],) * 2:
            raise InputError(
                f"the metric has shape {M.shape}, expected {(self.points.shape[1],) * 2}"
            )
        near, far = (np.einsum("pi,pi->p", v @ M, v) for v in self._differences)
        if near.sum() <= 0:
            raise InputError(
                "the metric gives every similar pair the distance 0, so that it has no scale"
            )
        return np.asarray(np.maximum(far, 0.0) / near.sum())

    def __repr__(self) -> str:
        n, d = self.points.shape
        return (
            f"<MMC{', diagonal' if self.diagonal else ''}: {n} points in {d} dimensions, "
            f"{len(self.similar_pairs)} similar and {len(self.dissimilar_pairs)} dissimilar pairs>"
        )
