"""
Three vineyards
===============

Thirteen measurements of 178 wines from three growers. Before: the two main directions of the data.
After: those of the learned metric, in which the growers are apart.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA

import sdpkit

X, y = load_wine(return_X_y=True)
problem = sdpkit.LMNN(X, y)
solution = sdpkit.solve(problem)
metric = problem.recover(solution)
_, axes = plt.subplots(1, 2, figsize=(9, 3.8))
for ax, points, title in zip(
    axes, (X, metric.transform(X)), ("measured", "under the learned metric"), strict=True
):
    ax.scatter(*PCA(2).fit_transform(points).T, c=y, s=14)
    ax.set_title(title)
plt.show()

# %%
print(solution.certificate)
print("leave-one-out error:", metric.leave_one_out_error())
