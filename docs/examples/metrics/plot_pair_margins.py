"""
Margins for pairs
=================

Pairs of the same species of iris should be closer than 1, all other pairs farther than the square
root of 2. The histograms show the squared distances before and after.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import sdpkit

X, y = load_iris(return_X_y=True)
problem = sdpkit.PairMargins(X[::3], y[::3], weight=1.0)
metric = problem.recover(sdpkit.solve(problem, tol=1e-3))
i, j = np.triu_indices(len(X[::3]), 1)
same = y[::3][i] == y[::3][j]
_, axes = plt.subplots(1, 2, figsize=(9, 3))
for ax, points, title in zip(
    axes, (X[::3], metric.transform(X[::3])), ("Euclidean", "learned"), strict=True
):
    squared = ((points[i] - points[j]) ** 2).sum(axis=1)
    bins = np.linspace(0, np.quantile(squared, 0.95), 40)
    ax.hist([squared[same], squared[~same]], bins, stacked=True, label=["same", "different"])
    ax.set(title=title, xlabel="squared distance")
axes[1].axvspan(1, 2, color="gray", alpha=0.3, label="margin")
axes[1].legend()
plt.show()
