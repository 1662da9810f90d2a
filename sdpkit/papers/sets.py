"""The data of the papers: made here, bundled with scikit-learn, or from a folder of npz files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from sdpkit.comparison.measuring import arrays, labelled
from sdpkit.typing import Array

Labels = NDArray[Any]


def small_set(name: str, folder: Path | None = None) -> tuple[Array, Labels]:
    """X and y of a small set: iris, wine, wdbc, digits and balance are always there."""
    from sklearn import datasets

    bundled = {
        "iris": datasets.load_iris,
        "wine": datasets.load_wine,
        "wdbc": datasets.load_breast_cancer,
        "digits": datasets.load_digits,
    }
    if name == "balance":
        return sdpkit.datasets.balance_scale()
    if name in bundled:
        X, y = bundled[name](return_X_y=True)
        return X.astype(np.float64), y
    assert folder is not None
    return labelled(folder, name)


def handwritten(wanted: tuple[int, ...], n: int, folder: Path | None, name: str) -> Array:
    """At most n images of the wanted digits in equal parts: from name.npz of the folder, or
    scikit-learn's 8 × 8 images without one."""
    X, y = small_set("digits") if folder is None else labelled(folder, name)
    each = n // len(wanted)
    return np.concatenate([X[y == digit][:each] for digit in wanted])


def teapots(folder: Path | None) -> Array:
    """(n, 23028) frames of a teapot that turns once."""
    assert folder is not None
    return arrays(folder, "teapots100")["X"].astype(np.float64)


def split(
    X: Array, y: Labels, seed: int, share: float = 0.7
) -> tuple[Array, Labels, Array, Labels]:
    """A random part for training, the rest for testing."""
    order = np.random.default_rng(seed).permutation(len(X))
    cut = int(share * len(X))
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]


def four_kernels(X: Array) -> dict[str, Array]:
    """Of different shape: linear, quadratic, Gaussian and eigenmap of the median width."""
    inner = X @ X.T
    lengths = np.maximum(np.diag(inner)[:, None] + np.diag(inner) - 2 * inner, 0.0)
    width = float(np.sqrt(np.median(lengths)))
    return {
        "linear": inner,
        "quadratic": (1 + inner / X.shape[1]) ** 2,
        "Gaussian": sdpkit.gaussian_weights(X, width),
        "eigenmap": sdpkit.laplacian_kernel(sdpkit.gaussian_weights(X, width / 2)),
    }
