"""
Sensors and a few anchors
=========================

Five sensors with known positions fix the frame: no rotation or reflection is left, and the
positions come out in the coordinates of the anchors.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

rng = np.random.default_rng(1)
true = rng.random((60, 2))
anchors = np.array([[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9], [0.5, 0.5]])
graph = sdpkit.graphs.neighborhood_graph(true, radius=0.35)
reach = np.linalg.norm(true[:, None] - anchors, axis=2)
reach[reach > 0.4] = 0.0
problem = sdpkit.Localization(graph, anchors=anchors, anchor_lengths=reach, n_basis=None)
found = problem.recover(sdpkit.solve(problem))

ax = sdpkit.plotting.plot_positions(true, found)
ax.plot(*anchors.T, "s", color="black", markersize=8, label="anchor")
ax.legend()
plt.show()
