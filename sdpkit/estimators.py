"""Estimators for scikit-learn: the public names of its door.

>>> from sdpkit.estimators import LMNNClassifier
>>> LMNNClassifier(n_neighbors=5)
LMNNClassifier(n_neighbors=5)
"""

from __future__ import annotations

from sdpkit.doors.embeddings import (
    MaximumVarianceUnfolding,
    MinimumVolumeEmbedding,
    VariationalMaximumVarianceUnfolding,
)
from sdpkit.doors.metrics import LargeMarginNearestNeighbors, LMNNClassifier

__all__ = [
    "LMNNClassifier",
    "LargeMarginNearestNeighbors",
    "MaximumVarianceUnfolding",
    "MinimumVolumeEmbedding",
    "VariationalMaximumVarianceUnfolding",
]
