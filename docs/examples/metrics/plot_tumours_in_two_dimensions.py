"""
Thirty measurements of tumours in the plane
===========================================

A rectangular L of two rows learns the projection to the plane in which tumours of the same kind are
neighbours. The program is not convex then, and the solution a local one, which its status says.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from sdpkit.estimators import LargeMarginNearestNeighbors

X, y = load_breast_cancer(return_X_y=True)
points = StandardScaler().fit_transform(X)[::2]
model = LargeMarginNearestNeighbors(n_components=2).fit(points, y[::2])
flat = model.transform(points)
for label, name in ((0, "malignant"), (1, "benign")):
    plt.scatter(*flat[y[::2] == label].T, s=12, label=name)
plt.legend()
plt.title(f"status: {model.solution_.status}")
plt.show()
