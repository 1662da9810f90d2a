"""Grid search with warm starts: every fold is one task that walks through the grid.

`GridSearchCV` fits every point of the grid from nothing. Here each fit of a fold starts from the
answer of its neighbour in the grid, so that a fold is one task, and folds run in parallel.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, ParameterGrid, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import indexable

from sdpkit.errors import InputError
from sdpkit.numerics.threads import no_other_threads
from sdpkit.typing import Indices

Candidate = dict[str, Any]


class WarmGridSearchCV(GridSearchCV):
    """Grid search with warm starts from one point of the grid to the next.

    Every fit is certified to its own `tol`, wherever it started; scores can therefore differ from
    those of `GridSearchCV` by what `tol` leaves open. They do not depend on `n_jobs` or on where
    the tasks run. `best_estimator_` is fitted from nothing. The attributes are those of
    `GridSearchCV`.

    Parameters
    ----------
    estimator : estimator
        One that has `warm_start`, such as `LMNNClassifier`, or a pipeline that ends in one.
    param_grid : dict or list of dict
        Name of a parameter → its values.
    scoring : str or callable or None, default None
        A single score, as in `GridSearchCV`.
    n_jobs : int or None, default None
        Paths through the grid that run at a time, by joblib.
    refit : bool or str or callable, default True
        Whether to fit the best parameters on all data.
    cv : int, splitter or None, default None
        As in `GridSearchCV`.
    verbose : int, default 0
        As in `GridSearchCV`.
    pre_dispatch : int or str, default "2*n_jobs"
        As in `GridSearchCV`.
    error_score : "raise" or float, default nan
        The score of a fit that fails.
    return_train_score : bool, default False
        Whether to score the training sets as well.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpkit.estimators import LMNNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> grid = {"mu": [0.3, 0.5], "n_neighbors": [1, 3]}
    >>> search = WarmGridSearchCV(LMNNClassifier(), grid, cv=3).fit(X, y)
    >>> search.best_params_
    {'mu': 0.3, 'n_neighbors': 3}
    """

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Search the grid on points X, (n, d), and labels y, (n,)."""
        self._check()
        X, y, groups = indexable(X, y, groups)
        if y is not None:
            assert_all_finite(np.asarray(y), input_name="y")
        self.scorer_ = check_scoring(self.estimator, self.scoring)
        self.multimetric_ = False
        cv = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        folds = list(cv.split(X, y, groups))
        self.n_splits_ = len(folds)
        candidates = list(ParameterGrid(self.param_grid))
        tasks = (
            delayed(_walk)(
                clone(self.estimator), candidates, X, y, *fold, self.scorer_, self._choices
            )
            for fold in folds
        )
        parallel = Parallel(n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch)
        by_fold = parallel(tasks)
        outcomes = [outcome for row in zip(*by_fold, strict=True) for outcome in row]
        self.cv_results_ = self._format_results(candidates, len(folds), outcomes)
        self._choose(X, y)
        return self

    @property
    def _choices(self) -> dict[str, Any]:
        return {"error_score": self.error_score, "return_train_score": self.return_train_score}

    def _check(self) -> None:
        scoring = self.scoring
        if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
            raise InputError(f"scoring is {scoring!r}: pass one score; GridSearchCV takes several")
        if not isinstance(self.refit, bool):
            raise InputError(f"refit is {self.refit!r}: pass True or False")
        last = _last_step(self.estimator)
        if not hasattr(last, "start_from"):
            raise InputError(
                f"{type(last).__name__} has no warm start: use scikit-learn's GridSearchCV"
            )

    def _choose(self, X: Any, y: Any) -> None:
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_score_ = self.cv_results_["mean_test_score"][self.best_index_]
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        if not self.refit:
            return
        started = time.perf_counter()
        best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        self.best_estimator_ = best.fit(X) if y is None else best.fit(X, y)
        self.refit_time_ = time.perf_counter() - started
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_


@no_other_threads()
def _walk(
    estimator: Any,
    candidates: Sequence[Candidate],
    X: Any,
    y: Any,
    train: Indices,
    test: Indices,
    scorer: Any,
    choices: dict[str, Any],
) -> list[dict[str, Any]]:
    """One fold: what `GridSearchCV` records of every candidate, in their order."""
    data = _safe_split(estimator, X, y, train)
    unseen = _safe_split(estimator, X, y, test, train)
    out: list[dict[str, Any]] = [{}] * len(candidates)
    fitted: dict[int, Any] = {}
    for number, before in _order(estimator, candidates):
        model = clone(estimator).set_params(**clone(candidates[number], safe=False))
        started = time.perf_counter()
        try:
            fitted[number] = _fit(model, fitted.get(before), data)
        except Exception as error:
            if choices["error_score"] == "raise":
                raise
            warnings.warn(f"a fit failed: {error!r}", FitFailedWarning, stacklevel=2)
        ended = time.perf_counter()
        score = scorer(model, *unseen) if number in fitted else choices["error_score"]
        out[number] = {
            "test_scores": score,
            "n_test_samples": len(test),
            "fit_time": ended - started,
            "score_time": time.perf_counter() - ended,
        }
        if choices["return_train_score"]:
            known = number in fitted
            out[number]["train_scores"] = scorer(model, *data) if known else choices["error_score"]
    return out


def _fit(model: Any, before: Any, data: tuple[Any, Any]) -> Any:
    """Fit from the answer of `before`; returns the step that has learned."""
    X, y = data
    last = _last_step(model)
    if before is not None:
        last.set_params(warm_start=True).start_from(before)
    model.fit(X) if y is None else model.fit(X, y)
    return last


def _order(estimator: Any, candidates: Sequence[Candidate]) -> Iterator[tuple[int, int]]:
    """(candidate, the one it starts from, or −1), each after its start.

    Along the estimator's `path_parameters` a candidate starts from the one before it, in the last
    of them first: for LMNN along mu, and where mu is the smallest, along n_neighbors.
    """
    prefix = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    names = [prefix + name for name in _last_step(estimator).path_parameters]
    places = [_place(candidate, names) for candidate in candidates]
    number = {place: k for k, place in enumerate(places)}
    order = sorted(range(len(candidates)), key=lambda k: (repr(places[k][0]), places[k][1]))
    for k in order:
        rest, values = places[k]
        yield k, _start(rest, values, number)


def _place(candidate: Candidate, names: list[str]) -> tuple[Any, tuple[float, ...]]:
    """(the parameters off the path, the values along it)."""
    rest = tuple((name, repr(value)) for name, value in candidate.items() if name not in names)
    return rest, tuple(candidate.get(name, 0) for name in names)


def _start(rest: Any, values: tuple[float, ...], number: dict[Any, int]) -> int:
    """The nearest candidate below, in the last parameter that has one."""
    for axis in reversed(range(len(values))):
        below = [
            other[axis]
            for others, other in number
            if others == rest
            and other[axis] < values[axis]
            and all(a == b for k, (a, b) in enumerate(zip(other, values, strict=True)) if k != axis)
        ]
        if below:
            return number[rest, (*values[:axis], max(below), *values[axis + 1 :])]
    return -1


def _last_step(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
