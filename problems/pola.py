"""The pseudo-metric online learning algorithm (Shalev-Shwartz, Singer and Ng 2004; thesis 2.2.2).

Pairs of points come one at a time, with v their difference and y = +1 if they are similar, −1 if
not. A metric M and a threshold b are to keep similar pairs within a squared distance of b − 1 and
dissimilar ones beyond b + 1:

    y (b − vᵀMv) ≥ 1,       loss  ℓ = [1 − y (b − vᵀMv)]₊

Every pair with a loss moves (M, b) by two orthogonal projections: onto its half-space,

    α = ℓ/(‖v‖⁴ + 1),   M ← M − yα vvᵀ,   b ← b + yα

and onto {M ⪰ 0, b ≥ 1}. Only a similar pair can make M indefinite, by one eigenvalue at most,
which is cut off; b ≥ 1 costs nothing, since a similar pair has q ≥ 0 and so needs b ≥ 1 anyway.

**The loss bound.** If some M* ⪰ 0 and b* ≥ 1 satisfy every pair and ‖v_t‖⁴ + 1 ≤ R, then, from
the start (M_1, b_1) and over any number of pairs in any order,

    Σ_t ℓ_t²  ≤  R · (‖M* − M_1‖_F² + (b* − b_1)²)

because each projection brings (M, b) nearer to (M*, b*), the first by ℓ_t²/(‖v_t‖⁴ + 1) in squared
distance, the second by at least 0. So a loss of more than β occurs at most
R·(…)/β² times: the batch version, which repeats the pairs until none has a greater loss, ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.inputs import booleans, integer
from sdpkit.layout import Expected, read_layout
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.results.metric import factor
from sdpkit.typing import Array, Indices


class POLA:
    """Learns a metric and a threshold from pairs, online (`partial_fit`) or in batch (`fit`).

    An estimator by scikit-learn's conventions: parameters at construction, `get_params`,
    `set_params` and `clone`, learned attributes with a trailing underscore.

    Parameters
    ----------
    beta : float, default 0.001
        The loss that a pair may keep in batch learning.
    max_iter : int, default 1000
        Passes over the pairs at most.

    Attributes
    ----------
    matrix_ : array of shape (d, d)
        M.
    threshold_ : float
        b.
    components_ : array of shape (r, d)
        L with M = LᵀL.
    losses_ : list of float
        The loss of every pair when it came, of all calls since the last `fit`.
    n_iter_ : int
        Passes of the last `fit`.
    converged_ : bool
        Whether no loss exceeded beta in the last one.

    Examples
    --------
    >>> pairs = np.array([[[0.0, 0.0], [0.0, 3.0]], [[0.0, 0.0], [1.0, 0.0]]])
    >>> model = POLA().fit(pairs, [1, -1])            # the second feature does not matter
    >>> model.predict(pairs), model.converged_
    (array([ 1, -1]), True)
    >>> model.transform([[0.0, 5.0], [1.0, 0.0]]).shape[0]
    2
    """

    matrix_: Array
    threshold_: float
    losses_: list[float]
    n_iter_: int
    converged_: bool
    n_features_in_: int

    def __init__(self, *, beta: float = 1e-3, max_iter: int = 1000) -> None:
        self.beta = beta
        self.max_iter = max_iter

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {"beta": self.beta, "max_iter": self.max_iter}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name."""
        for name, value in params.items():
            if name not in self.get_params():
                raise InputError(f"POLA has no parameter {name!r}; it has beta and max_iter")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"POLA(beta={self.beta!r}, max_iter={self.max_iter!r})"

    @one_blas_thread
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Repeat the pairs X (m, 2, d), y ±1, until none has a loss of more than beta."""
        if not isinstance(self.beta, Real) or not 0 < self.beta < np.inf:
            raise InputError(f"beta is {self.beta!r}; it must be a positive number")
        integer(self.max_iter, "max_iter")
        differences, signs = _pairs(X, y)
        self._begin(differences.shape[1])
        self.converged_ = False
        for passes in range(1, self.max_iter + 1):
            self.n_iter_ = passes
            if self._learn(differences, signs) <= self.beta:
                self.converged_ = True
                break
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from further pairs X (m, 2, d), y ±1, each looked at once, in their order."""
        differences, signs = _pairs(X, y)
        if not hasattr(self, "matrix_"):
            self._begin(differences.shape[1])
        self._check_width(differences.shape[1])
        self._learn(differences, signs)
        return self

    def _begin(self, size: int) -> None:
        self.n_features_in_ = size
        self.matrix_ = np.zeros((size, size))
        self.threshold_ = 1.0
        self.losses_ = []

    def _learn(self, differences: Array, signs: Array) -> float:
        """One look at every pair; the largest loss."""
        largest = 0.0
        fourths = np.square(np.square(differences).sum(axis=1))
        for v, sign, fourth in zip(differences, signs, fourths, strict=True):
            loss = max(0.0, 1.0 - sign * (self.threshold_ - float(v @ self.matrix_ @ v)))
            self.losses_.append(loss)
            largest = max(largest, loss)
            if loss > 0:
                self._project(v, sign, loss / (fourth + 1.0))
        return largest

    def _project(self, v: Array, sign: float, step: float) -> None:
        """Onto the pair's half-space, then onto {M ⪰ 0, b ≥ 1}."""
        self.matrix_ = self.matrix_ - sign * step * np.outer(v, v)
        self.threshold_ = max(1.0, self.threshold_ + sign * step)
        if sign > 0:
            values, vectors = scipy.linalg.eigh(self.matrix_)
            if values[0] < 0:
                self.matrix_ = (vectors * np.maximum(values, 0.0)) @ vectors.T

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Parameters and what was learned as plain arrays."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, a: Mapping[str, NDArray[Any]]) -> POLA:
        """The learner that gave these arrays; anything else is refused."""
        size = integer(int(a["n_features_in_"]), "n_features_in_")
        count = Expected(whole=True, least=1)
        layout = {
            "beta": Expected(least=0.0),
            "max_iter": count,
            "n_features_in_": count,
            "matrix_": Expected((size, size)),
            "threshold_": Expected(least=1.0),
            "losses_": Expected((a["losses_"].size,), least=0.0),
        }
        # `partial_fit` alone leaves neither.
        converged = (
            {"converged_": booleans(a["converged_"], "converged_")} if "n_iter_" in a else {}
        )
        layout |= {"n_iter_": count} if converged else {}
        found = read_layout({k: x for k, x in a.items() if k not in converged}, layout)
        model = cls()
        for name, array in {**found, **converged}.items():
            setattr(model, name, array if name == "matrix_" else array.tolist())
        return model

    @property
    def components_(self) -> Array:
        """(r, d) L with M = LᵀL."""
        self._check_fitted()
        return factor(self.matrix_)

    def transform(self, X: ArrayLike) -> Array:
        """(n, r) the images L x, whose Euclidean distance is the metric."""
        self._check_fitted()
        points = np.atleast_2d(np.asarray(X, dtype=np.float64))
        if points.ndim != 2 or not np.isfinite(points).all():
            raise InputError(f"points have shape {points.shape}, expected finite numbers (n, d)")
        self._check_width(points.shape[1])
        return np.asarray(points @ self.components_.T)

    def decision_function(self, X: ArrayLike) -> Array:
        """(m,) b − vᵀMv of pairs: positive for similar ones, 1 and more beyond the margin."""
        self._check_fitted()
        differences = _differences(X)
        self._check_width(differences.shape[1])
        lengths = np.einsum("pi,pi->p", differences @ self.matrix_, differences)
        return np.asarray(self.threshold_ - lengths)

    @one_blas_thread
    def predict(self, X: ArrayLike) -> Indices:
        """(m,) +1 for pairs that are similar, −1 for the others."""
        return np.where(self.decision_function(X) > 0, 1, -1).astype(np.int64)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The share of pairs that are classified rightly."""
        return float(np.mean(self.predict(X) == _signs(y, len(np.asarray(X)))))

    def loss_bound(self, matrix: ArrayLike, threshold: float, radius: float) -> float:
        """R·(‖M* − 0‖² + (b* − 1)²), the bound on Σℓ² for pairs that (M*, b*) satisfies all.

        `radius` is the largest ‖v‖; R = radius⁴ + 1.
        """
        best = np.asarray(matrix, dtype=np.float64)
        distance = float(np.square(best).sum()) + (threshold - 1.0) ** 2
        return (radius**4 + 1.0) * distance

    def _check_fitted(self) -> None:
        if not hasattr(self, "matrix_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this POLA has seen no pairs yet: call fit or partial_fit first")

    def _check_width(self, width: int) -> None:
        if width != self.n_features_in_:
            raise InputError(
                f"the points have {width} features; this POLA was fitted to {self.n_features_in_}"
            )


def _pairs(X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    differences = _differences(X)
    return differences, _signs(y, len(differences)).astype(np.float64)


def _differences(X: ArrayLike) -> Array:
    """(m, d) v of pairs (m, 2, d)."""
    try:
        pairs = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"pairs must be an array of numbers: {error}") from error
    if pairs.ndim != 3 or pairs.shape[1] != 2 or not pairs.size:
        raise InputError(f"pairs have shape {pairs.shape}, expected (m, 2, d): two points each")
    if not np.isfinite(pairs).all():
        raise InputError("pairs contain NaN or infinite entries")
    return np.asarray(pairs[:, 0] - pairs[:, 1])


def _signs(y: ArrayLike, count: int) -> NDArray[Any]:
    signs = np.asarray(y)
    if signs.shape != (count,):
        raise InputError(f"y has shape {signs.shape}, expected ({count},): one sign per pair")
    if not np.isin(signs, (-1, 1)).all():
        other = np.unique(signs[~np.isin(signs, (-1, 1))])[:3].tolist()
        raise InputError(
            f"y must hold +1 for similar pairs and −1 for dissimilar ones; it also holds {other}"
        )
    return signs
