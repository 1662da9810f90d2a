"""
Learn a metric for nearest neighbours
=====================================

Large margin nearest neighbours pulls points of one class together and pushes the others a margin
away. Two features of the wine data before and after, and the error of a 3-nearest-neighbour rule
that leaves out the point it classifies.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import sdpkit

X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
problem = sdpkit.LMNN(X, y, n_neighbors=3)
solution = sdpkit.solve(problem)
metric = problem.recover(solution)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
for ax, points, title in (
    (axes[0], X, "standardised features"),
    (axes[1], metric.transform(X), "learned metric"),
):
    shown = PCA(2).fit_transform(points)
    for label, marker in enumerate("os^"):
        ax.scatter(*shown[y == label].T, s=14, marker=marker, label=f"class {label}")
    ax.set(title=title, xlabel="first principal component", ylabel="second")
axes[0].legend()
plt.show()

# %%
# The metric is optimal to the certified gap, which is below the default tolerance of 0.001.

print(f"status {solution.status}, certified relative gap {solution.certificate.relative_gap:.1e}")
print(f"leave-one-out error {metric.leave_one_out_error():.3f}")
