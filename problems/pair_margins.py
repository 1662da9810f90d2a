"""A large-margin metric from similar and dissimilar pairs.

Similar pairs S are to keep within a squared distance u, dissimilar pairs D beyond l, and each costs
what is missing. With q_ij = (x_i − x_j)ᵀM(x_i − x_j) and C_ij = (x_i−x_j)(x_i−x_j)ᵀ,

    minimise    tr(MC) + weight · (Σ_S [q_ij − u]₊ + Σ_D [l − q_ij]₊)
    subject to  M ⪰ 0

The thresholds u and l are those of Davis, Kulis, Jain, Sra and Dhillon (2007, information-theoretic
metric learning), who bound each pair and stay close to a given metric; here, as in the regularised
pairwise learning of Jin, Wang and Zhou (2009), a violated pair costs a hinge and M costs a norm:
C = I is the trace norm, which prefers metrics of low rank.

Dual, one multiplier per pair, 0 ≤ α ≤ weight:

    maximise    l Σ_D α_ij − u Σ_S α_ij   subject to   C + Σ_S α_ij C_ij − Σ_D α_ij C_ij ⪰ 0

Safe bound: C ≻ 0, so that for any α in the box the largest θ ∈ [0, 1] with C + θ(Σ_S − Σ_D) ⪰ 0
gives a feasible θα; its value, or 0 from α = 0 if that is more. Any subset of the pairs gives a
valid bound, while the objective counts all of them.

With labels y every pair of points counts: similar in a class, dissimilar between classes. These
pairs are searched (`sdpkit.program.labelled_pairs`), never listed.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.inputs import distinct_pairs, finite_array, finite_points, set_fields
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.problems.lmnn import MODEL_ENTRIES
from sdpkit.program.compilation import minimise
from sdpkit.program.expressions import Unknown
from sdpkit.program.families import RowFamily
from sdpkit.program.form import Program
from sdpkit.program.labelled_pairs import LabelledPairs
from sdpkit.program.listed_rows import ListedRows
from sdpkit.program.safe import SafeBounds
from sdpkit.results.metric import Metric, factor
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array, Indices

# Eigenvalues of C below this share of the largest count as zero.
_SINGULAR = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class PairMargins:
    """A metric under which similar pairs are close and dissimilar pairs far, by margins.

    Parameters
    ----------
    X : array-like of shape (n, D)
        Points.
    y : array-like of shape (n,) or None, default None
        Labels: pairs of the same label are similar, all others dissimilar.
    similar, dissimilar : array-like of shape (m, 2) or None, default None
        Pairs given instead.
    upper : float, default 1.0
        u, the squared distance that similar pairs keep within.
    lower : float, default 2.0
        l ≥ u, the squared distance that dissimilar pairs keep beyond.
    weight : float, default 1.0
        The cost of a unit of violation.
    cost : {"identity"} or array-like, default "identity"
        C, "identity" or a symmetric positive definite (D, D) matrix.

    Attributes
    ----------
    points : array of shape (n, D)
        X as a read-only copy.
    classes : NDArray
        (c,) the labels in order.
    labels : array of int, shape (n,)
        Their numbers; one class if pairs are given.
    cost_matrix : array of shape (D, D)
        C.

    Examples
    --------
    >>> import sdpkit
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> problem = PairMargins(X, y, weight=0.01)
    >>> problem
    <PairMargins: 150 points in 4 dimensions, 11175 pairs, upper 1, lower 2, weight 0.01>
    >>> solution = sdpkit.solve(problem, tol=1e-3)
    >>> solution.status
    <Status.OPTIMAL: 'optimal'>
    >>> problem.recover(solution).leave_one_out_error() < 0.05
    True
    """

    X: Any
    y: Any = None
    _: KW_ONLY
    similar: ArrayLike | None = None
    dissimilar: ArrayLike | None = None
    upper: float = 1.0
    lower: float = 2.0
    weight: float = 1.0
    cost: Literal["identity"] | ArrayLike = "identity"
    points: Array = field(init=False)
    classes: NDArray[Any] = field(init=False)
    labels: Indices = field(init=False)
    cost_matrix: Array = field(init=False)

    default_tol = 1e-3

    @one_blas_thread
    def __post_init__(self) -> None:
        self._check_numbers()
        set_fields(self, points=finite_points(self.X, "X"))
        classes, labels = self._classes()
        set_fields(self, classes=classes, labels=labels, cost_matrix=self._cost())
        _ = self.family

    def _check_numbers(self) -> None:
        for name in ("upper", "lower", "weight"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
                raise InputError(f"{name} is {value!r}; it must be a nonnegative number")
        if not self.upper <= self.lower or not self.lower:
            raise InputError(
                f"upper is {self.upper} and lower is {self.lower}; the thresholds must satisfy "
                "0 ≤ upper ≤ lower, and lower must be positive"
            )
        if not self.weight:
            raise InputError("weight is 0; it must be positive, or M = 0 is the answer")

    def _classes(self) -> tuple[NDArray[Any], Indices]:
        n = len(self.points)
        pairs = self.similar is not None or self.dissimilar is not None
        if (self.y is None) != pairs:
            given = "both were given" if pairs else "neither was given"
            raise InputError(f"pass labels y, or similar and dissimilar pairs; {given}")
        if self.y is None:
            return np.zeros(1, dtype=np.int64), np.zeros(n, dtype=np.int64)
        y = np.asarray(self.y)
        if y.shape != (n,):
            raise InputError(f"y has shape {y.shape}, expected ({n},): one label per point")
        if np.any(y != y):
            raise InputError("y contains NaN labels")
        classes, labels = np.unique(y, return_inverse=True)
        if classes.size < 2:
            raise InputError(
                f"all points have the label {classes[0]}: without dissimilar pairs M = 0 is the "
                "answer. Pass points of two classes."
            )
        return classes, labels.astype(np.int64)

    def _cost(self) -> Array:
        D = self.points.shape[1]
        if isinstance(self.cost, str):
            if self.cost != "identity":
                raise InputError(f"cost is {self.cost!r}; use 'identity' or a ({D}, {D}) matrix")
            return np.eye(D)
        C = finite_array(self.cost, "cost")
        if C.shape != (D, D) or not np.allclose(C, C.T, atol=1e-12 * np.abs(C).max()):
            raise InputError(f"cost has shape {C.shape}, expected a symmetric ({D}, {D}) matrix")
        values = np.linalg.eigvalsh(C)
        if values[0] <= _SINGULAR * values[-1]:
            raise InputError(
                f"cost has eigenvalues {values[0]:.3g} … {values[-1]:.3g}; it must be positive "
                "definite. Add a small multiple of the identity."
            )
        return np.asarray((C + C.T) / 2)

    @cached_property
    def family(self) -> RowFamily:
        """The pairs that the objective counts."""
        if self.y is not None:
            return LabelledPairs.of(
                self.labels, upper=self.upper, lower=self.lower, weight=self.weight
            )
        n = len(self.points)
        close = distinct_pairs(self.similar, n, "similar")
        far = distinct_pairs(self.dissimilar, n, "dissimilar")
        if not len(far):
            raise InputError(
                "there are no dissimilar pairs: M = 0 is the answer. Pass at least one."
            )
        if both := set(map(tuple, close.tolist())) & set(map(tuple, far.tolist())):
            raise InputError(f"the pair {min(both)} is given as similar and as dissimilar")
        none = np.full(len(close), -1), np.full(len(far), -1)
        rows = np.vstack([np.c_[close, none[0]], np.c_[far[:, 0], none[1], far[:, 1]]])
        constants = np.repeat([-float(self.upper), float(self.lower)], [len(close), len(far)])
        return ListedRows.of(rows, n, constants=constants, weight=self.weight)

    # -- the two formulations ------------------------------------------------------------------

    @cached_property
    def features(self) -> Array:
        """(n, D) the points around their mean, which differences do not see."""
        return np.asarray(self.points - self.points.mean(axis=0))

    @one_blas_thread
    def program(self) -> Program:
        """One block M with the cost C, and the family of pairs."""
        M = Unknown("M", features=self.features)
        plain = isinstance(self.cost, str)
        return minimise(
            M.trace() if plain else M.inner(self.cost_matrix),
            family=self.family,
            safe=SafeBounds(value_scale=self.weight * self.lower),
            name="large-margin metric from pairs",
        )

    def to_cvxpy(self) -> Any:
        """The program above with a slack per pair, every pair written."""
        import cvxpy as cp

        D = self.points.shape[1]
        terms = self.family.terms(self.family.everything())
        if terms.size * D > MODEL_ENTRIES:
            raise InputError(
                f"{terms.size} pairs in {D} dimensions are too many for cvxpy; use sdpkit.solve"
            )
        M = cp.Variable((D, D), PSD=True, name="M")
        xi = cp.Variable(terms.size, nonneg=True, name="xi")
        (i, j), other = terms.pulls[terms.pull].T, terms.pushes[terms.push, 1]
        similar = j >= 0
        v = self.features[i] - self.features[np.where(similar, j, other)]
        q = cp.sum(cp.multiply(v @ M, v), axis=1)
        sign = np.where(similar, 1.0, -1.0)
        # q ≤ u + ξ for similar pairs, q ≥ l − ξ for dissimilar ones.
        margins = cp.multiply(sign, q) + terms.row_constants <= xi
        cost = cp.trace(M @ self.cost_matrix) + self.weight * cp.sum(xi)
        return cp.Problem(cp.Minimize(cost), [margins])

    # -- the answer ----------------------------------------------------------------------------

    @one_blas_thread
    def recover(self, solution: Solution) -> Metric:
        """The learned metric, with the points as training data."""
        components = factor(np.asarray(solution.matrix))
        n = len(self.points)
        nobody = np.empty((0, 2), dtype=np.int64)
        return Metric(
            components=(components,),
            X=self.points,
            labels=self.labels,
            classes=self.classes,
            block_of=np.zeros(n, dtype=np.int64),
            target_pairs=nobody,
            n_neighbors=1,
            mu=0.5,
        )

    @one_blas_thread
    def objective(self, matrix: Metric | ArrayLike) -> float:
        """The exact objective of any metric or matrix M ⪰ 0, over all pairs."""
        M = finite_array(matrix.matrix if isinstance(matrix, Metric) else matrix, "matrix")
        if M.shape != self.cost_matrix.shape:
            raise InputError(f"matrix has shape {M.shape}, expected {self.cost_matrix.shape}")
        outputs = self.features @ factor((M + M.T) / 2).T
        return float(np.vdot(self.cost_matrix, M)) + self.weight * self.family.hinge_sum([outputs])

    def __repr__(self) -> str:
        n, d = self.points.shape
        return (
            f"<PairMargins: {n} points in {d} dimensions, {self.family.n_rows} pairs, "
            f"upper {self.upper:g}, lower {self.lower:g}, weight {self.weight:g}>"
        )
