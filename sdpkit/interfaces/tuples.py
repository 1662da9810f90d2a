"""Metric learning from pairs and triplets of points, as metric-learn's users know it.

`fit` takes tuples of points instead of points: pairs (m, 2, d) with y = +1 for similar and −1 for
dissimilar ones, or triplets (m, 3, d) whose first point is to be nearer to the second than to the
third. `transform` takes points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sdpkit.errors import InputError
from sdpkit.interfaces.files import SavedMixin
from sdpkit.interfaces.fitting import seed_of
from sdpkit.interfaces.metrics import (
    LargeMarginNearestNeighbors,
    LinearMap,
    MahalanobisForClustering,
    PairMarginMetric,
    points_of,
)
from sdpkit.problems.lmnn import LMNN
from sdpkit.problems.pola import POLA
from sdpkit.typing import Array, Indices


class TuplesMixin:
    """Tags that say that `fit` takes tuples of points."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


class PairsMixin(TuplesMixin):
    """`fit` from pairs, for estimators that learn from labels otherwise."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric from pairs X, (m, 2, d), and y ±1, (m,)."""
        points, pairs = self._similar_and_dissimilar(X, y)
        self.n_features_in_ = points.shape[1]
        self._learn(self._problem(points, **pairs))  # type: ignore[attr-defined]
        return self

    @staticmethod
    def _similar_and_dissimilar(X: ArrayLike, y: ArrayLike) -> tuple[Array, dict[str, Indices]]:
        """The points of pairs, each once, and which pairs are similar and dissimilar."""
        tuples = points_of(X, 2)
        signs = np.asarray(y)
        if signs.shape != (len(tuples),) or not np.isin(signs, (-1, 1)).all():
            raise InputError(
                f"y must hold +1 for similar and −1 for dissimilar pairs, ({len(tuples)},)"
            )
        points, which = _distinct(tuples)
        return points, {"similar": which[signs > 0], "dissimilar": which[signs < 0]}


def _distinct(tuples: Array) -> tuple[Array, Indices]:
    """(points (n, d), indices (m, size)): every point of the tuples once."""
    flat = tuples.reshape(-1, tuples.shape[2])
    points, which = np.unique(flat, axis=0, return_inverse=True)
    return points, which.reshape(tuples.shape[:2]).astype(np.int64)


class MahalanobisForClusteringFromPairs(PairsMixin, MahalanobisForClustering):
    """Mahalanobis metric for clustering (MMC) from pairs.

    Parameters
    ----------
    solver : str, default "auto"
        A name from `sdpkit.available_solvers()`, or "auto".
    tol : float or None, default None
        The certified relative gap to reach; None takes the problem's default.
    max_iter : int or None, default None
        The limit on iterations; None leaves it to the solver.
    time_limit : float or None, default None
        The limit in seconds.
    verbose : int, default 0
        0 is silent; 1 prints a line that updates; 2 prints a line per iteration.
    callback : callable or None, default None
        Called with a mapping in every iteration; the solver stops if it returns True.
    on_interrupt : {"keep", "raise"}, default "keep"
        What Ctrl-C does: "keep" leaves a fitted estimator with the best point found and its
        certificate, "raise" raises `KeyboardInterrupt`.
    diagonal : bool, default False
        Whether to learn one weight per feature only.
    max_pairs : int or None, default 1000
        Dissimilar pairs used at most, evenly spread over all of them, and ten times as many similar
        ones; None uses all.

    Attributes
    ----------
    components_ : array of shape (r, d)
        L with M = LᵀL.
    problem_ : problem object
        The problem that was solved.
    solution_ : Solution
        Its solution.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> pairs = [[[0, 0], [1, 3]], [[0, 0], [2, -1]], [[0, 0], [3, 0]]]
    >>> mmc = MahalanobisForClusteringFromPairs().fit(pairs, [1, 1, -1])
    >>> mmc.pair_distance(pairs).round(3)
    array([0.316, 0.949, 1.355])
    """


class PairMarginMetricFromPairs(PairsMixin, PairMarginMetric):
    """A large-margin metric from pairs, without labels.

    Parameters
    ----------
    solver : str, default "auto"
        A name from `sdpkit.available_solvers()`, or "auto".
    tol : float or None, default None
        The certified relative gap to reach; None takes the problem's default.
    max_iter : int or None, default None
        The limit on iterations; None leaves it to the solver.
    time_limit : float or None, default None
        The limit in seconds.
    verbose : int, default 0
        0 is silent; 1 prints a line that updates; 2 prints a line per iteration.
    callback : callable or None, default None
        Called with a mapping in every iteration; the solver stops if it returns True.
    on_interrupt : {"keep", "raise"}, default "keep"
        What Ctrl-C does: "keep" leaves a fitted estimator with the best point found and its
        certificate, "raise" raises `KeyboardInterrupt`.
    upper : float, default 1.0
        The squared distance that similar pairs keep within.
    lower : float, default 2.0
        The squared distance that dissimilar pairs keep beyond.
    weight : float, default 1.0
        What a unit of violation costs in the objective.

    Attributes
    ----------
    components_ : array of shape (r, d)
        L with M = LᵀL.
    problem_ : problem object
        The problem that was solved.
    solution_ : Solution
        Its solution.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> pairs = [[[0, 0], [0, 3]], [[0, 0], [1, 0]]]
    >>> model = PairMarginMetricFromPairs(weight=10.0).fit(pairs, [1, -1])
    >>> (model.pair_distance(pairs) ** 2).round(2)
    array([0., 2.])
    """


class LargeMarginFromTriplets(TuplesMixin, LargeMarginNearestNeighbors):
    """Large margin nearest neighbours from triplets, without labels.

    Parameters
    ----------
    solver : str, default "auto"
        A name from `sdpkit.available_solvers()`, or "auto".
    tol : float or None, default None
        The certified relative gap to reach; None takes the problem's default.
    max_iter : int or None, default None
        The limit on iterations; None leaves it to the solver.
    time_limit : float or None, default None
        The limit in seconds.
    verbose : int, default 0
        0 is silent; 1 prints a line that updates; 2 prints a line per iteration.
    callback : callable or None, default None
        Called with a mapping in every iteration; the solver stops if it returns True.
    on_interrupt : {"keep", "raise"}, default "keep"
        What Ctrl-C does: "keep" leaves a fitted estimator with the best point found and its
        certificate, "raise" raises `KeyboardInterrupt`.
    n_neighbors : int, default 3
        Not used.
    mu : float, default 0.5
        The weight of the push term; the pull term has 1 − mu.
    ridge : float, default 0.0
        Add ridge·tr M to the objective.
    n_components : int or None, default None
        Rows of a rectangular L; the problem is then not convex and its solution local. None learns
        the full, convex metric.
    warm_start : bool, default False
        Whether to start from the answer of the fit before.
    random_state : int or RandomState, default 0
        Kept for scikit-learn's sake; the result does not depend on it.

    Attributes
    ----------
    components_ : array of shape (r, d)
        L with M = LᵀL.
    problem_ : problem object
        The problem that was solved.
    solution_ : Solution
        Its solution.
    certificate_ : Certificate
        The proof.
    n_iter_ : int or None
        Iterations of the solver.

    Examples
    --------
    >>> triplets = [[[0, 0], [1, 2], [2, 0]], [[2, 0], [3, 1], [0, 0]], [[0, 0], [2, 1], [3, 0]]]
    >>> model = LargeMarginFromTriplets().fit(triplets)
    >>> model.predict(triplets)
    array([1, 1, 1])
    """

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the metric from triplets X, (m, 3, d)."""
        points, triplets = _distinct(points_of(X, 3))
        self.n_features_in_ = points.shape[1]
        problem = LMNN(
            points,
            triplets=triplets,
            mu=self.mu,
            ridge=self.ridge,
            n_components=self.n_components,
            random_state=seed_of(self.random_state),
        )
        return self._learn(problem)

    def decision_function(self, X: ArrayLike) -> Array:
        """(m,) how much farther the third point of each triplet is from the first than the
        second."""
        check_is_fitted(self)
        points = points_of(X, 3, self.n_features_in_)
        return self.pair_distance(points[:, [0, 2]]) - self.pair_distance(points[:, [0, 1]])

    def predict(self, X: ArrayLike) -> Indices:
        """(m,) +1 for triplets in the right order, −1 for the others."""
        return np.where(self.decision_function(X) > 0, 1, -1).astype(np.int64)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """The share of triplets in the right order."""
        return float(np.mean(self.predict(X) == 1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


class PseudoMetricOnlineLearning(TuplesMixin, LinearMap, SavedMixin, BaseEstimator):
    """The pseudo-metric online learning algorithm (POLA) from pairs.

    Parameters
    ----------
    beta : float, default 0.001
        The loss that a pair may keep in batch learning.
    max_iter : int, default 1000
        Passes over the pairs at most.

    Attributes
    ----------
    components_ : array of shape (r, d)
        L with M = LᵀL.
    threshold_ : float
        Pairs of a smaller squared distance are similar.
    learner_ : POLA
        The learner, with the loss of every pair.
    n_iter_ : int
        Passes of the last `fit`; 1 after `partial_fit` alone.

    Examples
    --------
    >>> pairs = [[[0, 0], [0, 3]], [[0, 0], [1, 0]]]
    >>> model = PseudoMetricOnlineLearning().fit(pairs, [1, -1])
    >>> model.predict(pairs), model.learner_.converged_
    (array([ 1, -1]), True)
    >>> model.partial_fit([[[0, 0], [2, 0]]], [-1]).transform([[0.0, 5.0]]).shape
    (1, 1)
    """

    learner_: POLA

    _saved: ClassVar[Mapping[str, Any]] = {
        **SavedMixin._saved,
        "learner_": POLA,
        "n_iter_": int,
    }

    def _restore(self) -> None:
        super()._restore()
        self._keep(self.learner_, self.n_iter_)

    def __init__(self, *, beta: float = 1e-3, max_iter: int = 1000) -> None:
        self.beta = beta
        self.max_iter = max_iter

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Repeat the pairs X, (m, 2, d), y ±1, until none has a loss of more than beta."""
        learner = POLA(beta=self.beta, max_iter=self.max_iter)
        return self._keep(learner.fit(X, y), learner.n_iter_)

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Look at further pairs X, (m, 2, d), y ±1, once each and in their order."""
        if not hasattr(self, "learner_"):
            self.learner_ = POLA(beta=self.beta, max_iter=self.max_iter)
        return self._keep(self.learner_.partial_fit(X, y), getattr(self, "n_iter_", 1))

    def _keep(self, learner: POLA, passes: int) -> Self:
        self.learner_ = learner
        self.components_ = learner.components_
        self.threshold_ = learner.threshold_
        self.n_features_in_ = learner.n_features_in_
        self.n_iter_ = passes
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """(m,) the threshold less the squared distance of pairs: positive for similar ones."""
        check_is_fitted(self)
        return self.learner_.decision_function(X)

    def predict(self, X: ArrayLike) -> Indices:
        """(m,) +1 for similar pairs, −1 for the others."""
        check_is_fitted(self)
        return self.learner_.predict(X)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The share of pairs that are classified rightly."""
        check_is_fitted(self)
        return self.learner_.score(X, y)
