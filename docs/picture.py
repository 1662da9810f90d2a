"""Draws docs/_static/unfolding.svg, the picture of the README and of the landing page.

python docs/picture.py
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import sdpkit
from sdpkit import plotting

PATH = Path(__file__).parent / "_static" / "unfolding.svg"


def one_line(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """All rods as one line with gaps: one path in the file instead of hundreds."""
    gaps = np.full((len(edges), 1, points.shape[1]), np.nan)
    return np.concatenate([points[edges], gaps], axis=1).reshape(-1, points.shape[1]).T


def sheet(columns: int = 34, rows: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """A jittered grid on a rolled-up sheet, and each point's place along it."""
    rng = np.random.default_rng(0)
    t = np.linspace(1.5 * np.pi, 4.5 * np.pi, 4000)
    arc = np.concatenate([[0.0], np.cumsum(np.sqrt(1 + t[1:] ** 2) * np.diff(t))])
    along, across = np.meshgrid(np.arange(columns), np.arange(rows))
    places = np.column_stack([along.ravel(), across.ravel()]).astype(float)
    places += rng.uniform(-0.3, 0.3, places.shape)
    angle = np.interp(places[:, 0] / (columns - 1) * arc[-1], arc, t)
    height = places[:, 1] * arc[-1] / (columns - 1)
    X = np.column_stack([angle * np.cos(angle), height, angle * np.sin(angle)])
    return X - X.mean(axis=0), places[:, 0]


def draw() -> Figure:
    X, place = sheet()
    problem = sdpkit.MVU(X, n_neighbors=6, form="inequality")
    Y = problem.recover(sdpkit.solve(problem, tol=1e-4), n_components=2).coordinates
    edges = problem.neighborhood.edges
    figure = Figure(figsize=(8.4, 3.1), layout="constrained")
    before = figure.add_subplot(1, 5, (1, 2), projection="3d", azim=-80, elev=12)
    before.plot(*one_line(X, edges), color="0.7", ls="-", lw=0.6)
    before.scatter(*X.T, c=place, s=11, lw=0, depthshade=False)
    before.set_axis_off()
    after = figure.add_subplot(1, 5, (3, 5))
    after.plot(*one_line(Y, edges), color="0.7", ls="-", lw=0.6, zorder=1)
    after.scatter(*Y.T, c=place, s=11, lw=0, zorder=2)
    after.set_aspect("equal")
    after.set_axis_off()
    return figure


if __name__ == "__main__":
    with mpl.rc_context({**plotting.settings(), "svg.hashsalt": "sdpkit"}):
        draw().savefig(PATH, metadata={"Date": None}, transparent=True)
    # A screen has no use for more than a tenth of a point.
    text = PATH.read_text(encoding="utf-8")
    PATH.write_text(re.sub(r"(\d+\.\d)\d+", r"\1", text), encoding="utf-8")
