"""Estimators for scikit-learn: their public names.

>>> from sdpkit.estimators import LMNNClassifier
>>> LMNNClassifier(n_neighbors=5)
LMNNClassifier(n_neighbors=5)
"""

from __future__ import annotations

from sdpkit.interfaces.embeddings import (
    MaximumVarianceUnfolding,
    MinimumVolumeEmbedding,
    VariationalMaximumVarianceUnfolding,
)
from sdpkit.interfaces.metrics import (
    CoveringEllipsoidMetric,
    LargeMarginNearestNeighbors,
    LMNNClassifier,
    MahalanobisForClustering,
    PairMarginMetric,
    RelevantComponentAnalysis,
)
from sdpkit.interfaces.query_metric import QueryMetric
from sdpkit.interfaces.search import WarmGridSearchCV
from sdpkit.interfaces.tuples import (
    LargeMarginFromTriplets,
    MahalanobisForClusteringFromPairs,
    PairMarginMetricFromPairs,
    PseudoMetricOnlineLearning,
)

__all__ = [
    "CoveringEllipsoidMetric",
    "LMNNClassifier",
    "LargeMarginFromTriplets",
    "LargeMarginNearestNeighbors",
    "MahalanobisForClustering",
    "MahalanobisForClusteringFromPairs",
    "MaximumVarianceUnfolding",
    "MinimumVolumeEmbedding",
    "PairMarginMetric",
    "PairMarginMetricFromPairs",
    "PseudoMetricOnlineLearning",
    "QueryMetric",
    "RelevantComponentAnalysis",
    "VariationalMaximumVarianceUnfolding",
    "WarmGridSearchCV",
]
