"""
Place new points
================

An embedding of 200 points of a roll, and 100 points that it has never seen: each is placed by its
distances to the points around it, without solving the program again.
"""

import matplotlib.pyplot as plt

import sdpkit

X, sheet = sdpkit.datasets.swiss_roll(300, noise_dims=0, return_parameters=True)
problem = sdpkit.MVU(X[:200], n_neighbors=5)
embedding = problem.recover(sdpkit.solve(problem, tol=1e-5), n_components=2)
new = embedding.extend(X[200:])

_, ax = plt.subplots(figsize=(8, 3))
ax.scatter(*embedding.coordinates.T, c=sheet[:200, 0], s=8, alpha=0.4)
ax.scatter(*new.T, c=sheet[200:, 0], s=30, edgecolor="black")
ax.set_aspect("equal")
plt.show()
