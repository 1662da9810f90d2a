"""Pictures. matplotlib is imported on first use and is an extra: pip install 'sdpkit[plot]'."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import SdpkitError

if TYPE_CHECKING:
    from sdpkit.spectral import Embedding

Array = NDArray[np.float64]


def _require_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise SdpkitError("plots need matplotlib: pip install 'sdpkit[plot]'")


def _axes(ax: Any) -> Any:
    """`ax`, or new axes in a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure().add_subplot()


def plot_embedding(
    embedding: Embedding, ax: Any = None, *, color: Any = None, tension: bool = True
) -> Any:
    """The first two coordinates with their rods; returns the axes.

    A rod's colour is the multiplier of its length: red rods are stretched and hold the
    unfolding back, blue rods are compressed, grey ones do nothing.
    """
    _require_matplotlib()
    from matplotlib.collections import LineCollection
    from matplotlib.colors import SymLogNorm

    ax = _axes(ax)
    y = embedding.coordinates
    flat = np.c_[y, np.zeros(len(y))][:, :2]
    rods = LineCollection(list(flat[embedding.edges]), linewidths=1.0, alpha=0.7, zorder=1)
    if tension and embedding.tensions is not None and embedding.tensions.size:
        largest = float(np.abs(embedding.tensions).max()) or 1.0
        rods.set_array(embedding.tensions)
        rods.set_cmap("coolwarm")
        rods.set_norm(SymLogNorm(largest / 10, vmin=-largest, vmax=largest))
        ax.add_collection(rods)
        ax.figure.colorbar(rods, ax=ax, label="tension of the rod", fraction=0.05)
    else:
        rods.set_color("0.8")
        ax.add_collection(rods)
    ax.scatter(*flat.T, c="0.2" if color is None else color, s=12, zorder=2)
    ax.set_aspect("equal")
    ax.set_title(f"output, fidelity {embedding.fidelity:.3f}")
    return ax


def plot_spectrum(
    eigenvalues: ArrayLike, ax: Any = None, *, n_shown: int = 10, variance: float | None = None
) -> Any:
    """Eigenvalues as shares of the trace (`variance`, or their sum); returns the axes."""
    _require_matplotlib()
    ax = _axes(ax)
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1].clip(min=0)
    shares = values[:n_shown] / (variance or values.sum() or 1.0)
    ax.bar(np.arange(1, shares.size + 1), shares)
    ax.set_xticks(np.arange(1, shares.size + 1))
    ax.set(xlabel="eigenvalue", ylabel="share of the trace", ylim=(0, 1))
    return ax


def plot_unfolding(
    X: Array, embedding: Embedding, path: str | Path, *, color: Any = None, title: str = ""
) -> None:
    """Input, output and both spectra in one picture file."""
    _require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(3, 2, height_ratios=[1, 1, 1.4], width_ratios=[1.5, 1])
    before = figure.add_subplot(grid[:2, 0], projection="3d")
    shown = np.c_[X, np.zeros((len(X), 2))][:, :3]  # points of one or two dimensions lie flat
    before.scatter(*shown.T, c=color, s=10)
    before.set_title("input (first three dimensions)")
    centred = X - X.mean(axis=0)
    spectra = [
        ("spectrum of the input (PCA)", np.linalg.svd(centred, compute_uv=False) ** 2, None),
        ("spectrum of the output", embedding.eigenvalues, embedding.variance),
    ]
    for k, (name, values, variance) in enumerate(spectra):
        axes = figure.add_subplot(grid[k, 1])
        plot_spectrum(values, axes, variance=variance).set_title(name)
    plot_embedding(embedding, figure.add_subplot(grid[2, :]), color=color)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
