"""
Two islands, one map
====================

Neighbourhood graphs of clustered data have several components, and nothing limits how far apart
these may be pulled. Here the shortest links are added before unfolding.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

rng = np.random.default_rng(0)
islands = np.concatenate([rng.normal(place, 1.0, (25, 3)) for place in (0.0, 8.0)])
color = np.repeat([0, 1], 25)
before = sdpkit.graphs.neighborhood_graph(islands, n_neighbors=4)
print("components:", len(sdpkit.graphs.split_components(before)))

problem = sdpkit.MVU(islands, n_neighbors=4, connect="bridge")
embedding = problem.recover(sdpkit.solve(problem), n_components=2)
_, ax = plt.subplots(figsize=(7, 3))
embedding.plot(ax, color=color)
plt.show()
