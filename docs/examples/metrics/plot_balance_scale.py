"""
Which side goes down?
=====================

The UCI data set of a pair of scales: weight and distance on either side. The learned matrices show
that all four numbers matter, and that the two sides work against each other: their entries have
opposite signs.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

X, y = sdpkit.datasets.balance_scale()
train = np.random.default_rng(0).permutation(len(X))[:200]
problems = {"LMNN": sdpkit.LMNN(X[train], y[train]), "MMC": sdpkit.MMC(X[train], y[train])}
_, axes = plt.subplots(1, 2, figsize=(8, 3.4))
for (name, problem), ax in zip(problems.items(), axes, strict=True):
    matrix = problem.recover(sdpkit.solve(problem)).matrix
    ax.imshow(matrix / np.abs(matrix).max(), cmap="PuOr_r", vmin=-1, vmax=1)
    ax.set_title(name)
    ax.set_xticks(range(4), ["left w.", "left d.", "right w.", "right d."], fontsize=7)
plt.show()
