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


def teapots(folder: Path | None, frames: int = 100) -> Array:
    """(n, pixels) frames of a teapot that turns once: the paper's from the folder, or, without
    it, the frames of `turning_pot`."""
    if folder is not None and (folder / "teapots100.npz").exists():
        return arrays(folder, "teapots100")["X"].astype(np.float64)
    return turning_pot(frames)


def turning_pot(frames: int) -> Array:
    """(frames, 1520) pictures of 38 × 40 pixels: a body with a spout and a handle that turns once.

    The pot is a cloud of soft balls; those at the back are darker. Its body has a random
    pattern, so that no two directions look alike.
    """
    rng = np.random.default_rng(0)
    turn, high = 2 * np.pi * rng.random(60), rng.uniform(-8, 8, 60)
    body = np.c_[9 * np.cos(turn), 9 * np.sin(turn), high]
    reach = np.linspace(0, 1, 8)
    spout = np.c_[9 + 8 * reach, 0 * reach, -2 + 9 * reach]
    bow = np.pi * reach
    handle = np.c_[-9 - 6 * np.sin(bow), 0 * bow, 6 * np.cos(bow)]
    lid = np.array([[0.0, 0.0, 9.0], [3.0, 0.0, 7.5]])
    balls = np.vstack([body, spout, handle, lid])
    rows, columns = np.mgrid[-19:19, -20:20]
    pictures = np.empty((frames, rows.size))
    for k, angle in enumerate(2 * np.pi * np.arange(frames) / frames):
        across = balls[:, 0] * np.cos(angle) - balls[:, 1] * np.sin(angle)
        depth = balls[:, 0] * np.sin(angle) + balls[:, 1] * np.cos(angle)
        light = 1 + depth / 36  # between 0.5 and 1.5
        away = (columns.ravel() - across[:, None]) ** 2 + (rows.ravel() + balls[:, 2:]) ** 2
        pictures[k] = light @ np.exp(-away / 12)
    return 255 / float(pictures.max()) * pictures


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
