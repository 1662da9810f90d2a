"""
Distances with errors
=====================

Lengths measured with five percent of noise contradict each other when all must hold exactly. The
slack form pays for every deviation, and the roll still unfolds.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

X, sheet = sdpkit.datasets.swiss_roll(300, noise_dims=0, return_parameters=True)
exact = sdpkit.graphs.neighborhood_graph(X, n_neighbors=4)
noise = np.random.default_rng(0).normal(1.0, 0.05, exact.n_edges)
measured = sdpkit.NeighborhoodGraph(len(X), exact.edges, exact.squared_lengths * noise**2)

problem = sdpkit.MVU(graph=measured, form="slack")
embedding = problem.recover(sdpkit.solve(problem, tol=1e-4), n_components=2)
_, ax = plt.subplots(figsize=(8, 3))
embedding.plot(ax, color=sheet[:, 0], tension=False)
plt.show()

# %%
# The lengths in the picture, compared with what was measured.

y = embedding.coordinates
i, j = measured.edges.T
drawn = np.linalg.norm(y[i] - y[j], axis=1)
print(
    "median change of a length:", np.median(np.abs(drawn / np.sqrt(measured.squared_lengths) - 1))
)
