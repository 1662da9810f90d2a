"""Stopping a solve when the error on validation data no longer falls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.results.metric import Metric
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.problems.lmnn import LMNN


@dataclass(eq=False)
class EarlyStopping:
    """Watches the validation error of a running solve and keeps the best metric."""

    problem: LMNN
    X: Array
    y: NDArray[Any]
    patience: int
    rule: Literal["knn", "energy"]
    errors: list[float] = field(default_factory=list)
    best: Metric | None = None

    def __call__(self, state: Mapping[str, Any]) -> bool:
        """True if the error has not improved in the last `patience` looks."""
        if "matrices" not in state:
            raise InputError(
                "early stopping needs a solver that passes its matrices to the callback. Use "
                "solver='factored', 'projected' or 'subgradient'."
            )
        metric = self.problem.metric_of(state["matrices"])
        self.errors.append(metric.error(self.X, self.y, self.rule))
        if self.errors[-1] <= min(self.errors):
            self.best = metric
        return min(self.errors) < min(self.errors[-self.patience :])
