"""
Every query has a metric
========================

The metric of a query depends on the data around it: differences across the data count more than
differences along them. The curves are points of equal distance from a query.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 300)
radius = np.repeat([1.0, 2.0], 150) + rng.normal(0, 0.1, 300)
X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
y = np.repeat([0, 1], 150)
model = sdpkit.QueryMetric(n_neighbors=3, n_local=25).fit(X, y)
_, ax = plt.subplots(figsize=(5, 5))
sdpkit.plotting.plot_query_metrics(model.metrics(X[::20]), X, y, ax)
plt.show()
