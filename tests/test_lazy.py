"""Estimators on Dask arrays and other stored points: fitted part by part, mapped lazily."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine

from sdpkit import InputError
from sdpkit.estimators import (
    LargeMarginNearestNeighbors,
    LMNNClassifier,
    MahalanobisForClustering,
)
from sdpkit.typing import Array

array = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def wine() -> tuple[Array, Any]:
    X, y = load_wine(return_X_y=True)
    return X / X.std(axis=0), np.array(["a", "b", "c"])[y]


def blocks(X: Any) -> Any:
    return array.from_array(X, chunks=(50, 7) if X.ndim == 2 else 50)


def test_dask_arrays_are_fitted_and_mapped_lazily(wine: tuple[Array, Any]) -> None:
    X, y = wine
    model = LargeMarginNearestNeighbors().fit(blocks(X), blocks(y))
    plain = LargeMarginNearestNeighbors().fit(X, y)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-12)
    mapped = model.transform(blocks(X))
    assert isinstance(mapped, array.Array)
    assert mapped.shape == (len(X), len(model.components_))
    np.testing.assert_allclose(mapped.compute(), model.transform(X), atol=1e-12)


@pytest.mark.parametrize("rule", ["knn", "energy"])
def test_labels_are_predicted_lazily(wine: tuple[Array, Any], rule: Any) -> None:
    X, y = wine
    model = LMNNClassifier(rule=rule).fit(blocks(X), blocks(y))
    labels = model.predict(blocks(X))
    assert isinstance(labels, array.Array)
    assert labels.shape == y.shape
    np.testing.assert_array_equal(labels.compute(), model.predict(X))


def test_parts_on_disk_are_fitted(wine: tuple[Array, Any], tmp_path: Path) -> None:
    X, y = wine
    paths = []
    for k, part in enumerate(np.array_split(X, 3)):
        paths.append(tmp_path / f"{k}.npy")
        np.save(paths[-1], part)
    model = MahalanobisForClustering(diagonal=True).fit(paths, y)
    plain = MahalanobisForClustering(diagonal=True).fit(X, y)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-12)


def test_what_cannot_be_used_is_named(wine: tuple[Array, Any]) -> None:
    X, y = wine
    model = LargeMarginNearestNeighbors().fit(X, y)
    spoilt = X.copy()
    spoilt[60, 2] = np.nan
    with pytest.raises(InputError, match=r"block 1 of X holds nan in row 10, column 2"):
        model.fit(blocks(spoilt), y)
    with pytest.raises(InputError, match=r"a block of X holds nan in its row 10, column 2"):
        model.transform(blocks(spoilt)).compute()
    with pytest.raises(InputError, match=r"X has shape \(178, 3\); .* fitted on 13 features"):
        model.transform(blocks(X)[:, :3])
    with pytest.raises(InputError, match=r"y has shape \(175,\), expected \(178,\)"):
        model.fit(blocks(X), blocks(y)[:-3])
    with pytest.raises(InputError, match="fit needs labels"):
        model.fit(blocks(X), None)
