"""
Untie a knot
============

A trefoil knot cannot be untied in three dimensions. Neighbouring points keep their distances, and
in the plane the curve is a circle: unfolding used a fourth dimension on the way.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

X = sdpkit.datasets.trefoil_knot(150)
problem = sdpkit.MVU(X, n_neighbors=4)
embedding = problem.recover(sdpkit.solve(problem), n_components=2)

figure = plt.figure(figsize=(8, 3.6))
place = np.arange(len(X))
knot = figure.add_subplot(1, 2, 1, projection="3d")
knot.scatter(*X.T, c=place, cmap="twilight", s=10)
circle = figure.add_subplot(1, 2, 2)
embedding.plot(circle, color=place, tension=False)
circle.set_aspect("equal")
plt.show()

# %%
print(embedding)
