"""
Find a short circuit
====================

One wrong edge between two layers of a roll ruins the unfolding. A random walk crosses the layers
almost never: edges that it hardly uses are marked and removed.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

t = np.linspace(1.5 * np.pi, 4.5 * np.pi, 90)
spiral = np.stack([t * np.cos(t), t * np.sin(t)], axis=1)
pairs = [*zip(range(89), range(1, 90), strict=True), *zip(range(88), range(2, 90), strict=True)]
lengths = sdpkit.graphs.SquaredDistances.from_points(spiral)
graph = lengths.graph([*pairs, (10, 58)])
bad = sdpkit.graphs.bad_edges(graph)

_, axes = plt.subplots(1, 2, figsize=(9, 3.6))
for a, b in graph.edges:
    axes[0].plot(*spiral[[a, b]].T, color="lightgray", zorder=0)
for a, b in graph.edges[bad]:
    axes[0].plot(*spiral[[a, b]].T, color="tab:red")
axes[0].scatter(*spiral.T, c=t, s=12)
axes[0].set_title(f"{bad.sum()} edge marked")
problem = sdpkit.MVU(graph=graph.without_edges(bad))
embedding = problem.recover(sdpkit.solve(problem), n_components=2)
embedding.plot(axes[1], color=t, tension=False)
axes[1].set_title("unfolded without it")
plt.show()
