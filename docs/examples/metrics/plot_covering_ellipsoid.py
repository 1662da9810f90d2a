"""
The smallest ellipse around points
==================================

Most points do not matter: the ellipse of least area rests on a few. Their weights are the dual
solution, and the gap proves that no smaller ellipse covers the points.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

X = np.random.default_rng(3).normal(size=(80, 2)) @ [[2.0, 1.0], [0.0, 0.7]]
problem = sdpkit.CoveringEllipsoid(X)
ellipsoid = problem.recover(sdpkit.solve(problem))
ax = sdpkit.plotting.plot_ellipses([ellipsoid], X)
touching = ellipsoid.weights > 1e-6
ax.scatter(*X[touching].T, s=1500 * ellipsoid.weights[touching], alpha=0.4)
ax.set_title(f"{touching.sum()} of 80 points carry it, gap {ellipsoid.gap:.0e}")
plt.show()
