"""Draws docs/_static/unfolding.svg, the picture of the README and of the landing page.

python docs/picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Line3DCollection

import sdpkit
from sdpkit import plotting

PATH = Path(__file__).parent / "_static" / "unfolding.svg"


def draw(n_points: int = 240) -> Figure:
    X, sheet = sdpkit.datasets.swiss_roll(n_points, noise_dims=0, return_parameters=True)
    problem = sdpkit.MVU(X, n_neighbors=5)
    Y = problem.recover(sdpkit.solve(problem), n_components=2).coordinates
    edges = problem.neighborhood.edges
    figure = Figure(figsize=(8.4, 3.1), layout="constrained")
    before = figure.add_subplot(1, 5, (1, 2), projection="3d", azim=-80, elev=12)
    before.add_collection(Line3DCollection(list(X[edges]), colors="0.7", linewidths=0.6))
    before.scatter(*X.T, c=sheet[:, 0], s=9, depthshade=False)
    before.set_axis_off()
    after = figure.add_subplot(1, 5, (3, 5))
    after.add_collection(LineCollection(list(Y[edges]), colors="0.7", linewidths=0.6, zorder=1))
    after.scatter(*Y.T, c=sheet[:, 0], s=9, zorder=2)
    after.set_aspect("equal")
    after.set_axis_off()
    return figure


if __name__ == "__main__":
    with mpl.rc_context({**plotting.settings(), "svg.hashsalt": "sdpkit"}):
        # 300 points and 700 rods need no more digits than a screen has pixels.
        draw().savefig(PATH, metadata={"Date": None}, transparent=True)
