"""The pictures of the papers' figures: panels side by side, of three kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit.typing import Array, Indices

Values = Sequence[float] | NDArray[Any]


@dataclass(frozen=True, eq=False)
class Scatter:
    """Points in the plane (the first two columns), coloured by numbers; edges as lines."""

    title: str
    points: Array
    color: ArrayLike | None = None
    edges: Indices | None = None

    def draw(self, ax: Any) -> None:
        """Onto the axes."""
        at = np.c_[self.points, np.zeros(len(self.points))][:, :2]
        if self.edges is not None:
            for i, j in self.edges:
                ax.plot(*at[[i, j]].T, color="0.8", linewidth=0.5, zorder=1)
        style = {} if self.color is None else {"c": self.color, "cmap": "viridis"}
        ax.scatter(*at.T, s=8, zorder=2, **style)
        ax.set_aspect("equal", adjustable="datalim")


@dataclass(frozen=True, eq=False)
class Curves:
    """Curves over common places x."""

    title: str
    x: Sequence[float]
    curves: Mapping[str, Values]
    xlabel: str
    ylabel: str
    log: bool = False

    def draw(self, ax: Any) -> None:
        """Onto the axes."""
        for name, values in self.curves.items():
            ax.plot(self.x, values, marker="o", markersize=3, label=name)
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel, yscale="log" if self.log else "linear")
        if len(self.curves) > 1:
            ax.legend(fontsize="small")


@dataclass(frozen=True, eq=False)
class Bars:
    """A group of bars per key, a bar per name."""

    title: str
    groups: Mapping[str, Values]
    names: Sequence[str]

    def draw(self, ax: Any) -> None:
        """Onto the axes."""
        width = 0.8 / len(self.names)
        for k, name in enumerate(self.names):
            places = np.arange(len(self.groups)) + (k - (len(self.names) - 1) / 2) * width
            heights = [values[k] if k < len(values) else 0.0 for values in self.groups.values()]
            ax.bar(places, heights, 0.9 * width, label=name)
        turned = 90 if len(self.groups) > 4 else 0
        ax.set_xticks(np.arange(len(self.groups)), list(self.groups), rotation=turned)
        if len(self.names) > 1:
            ax.legend(fontsize="small")


Panel = Scatter | Curves | Bars


def draw(panels: Sequence[Panel], path: Path, title: str) -> None:
    """All panels in one picture file, four in a row."""
    from sdpkit.plotting.pictures import new_figure

    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(4.2 * columns, 3.6 * rows)
    for place, panel in enumerate(panels, start=1):
        ax = figure.add_subplot(rows, columns, place)
        panel.draw(ax)
        ax.set_title(panel.title, fontsize="medium")
    figure.suptitle(title)
    figure.savefig(path, dpi=80)
