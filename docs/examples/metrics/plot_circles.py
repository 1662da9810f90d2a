"""
Two circles, a hair apart
=========================

Every point's nearest neighbour is on the other circle, and no linear metric can change that. Two
coordinates more, the squares, make it easy.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import sdpkit

X, y = sdpkit.datasets.concentric_circles(40)
lifted = np.hstack([X, X**2])
errors = {}
for name, points in {"coordinates": X, "and their squares": lifted}.items():
    problem = sdpkit.LMNN(points, y, n_neighbors=1)
    errors[name] = 100 * problem.recover(sdpkit.solve(problem)).leave_one_out_error()
plain = KNeighborsClassifier(1)
errors["Euclidean"] = 100 * np.mean(
    [
        plain.fit(np.delete(X, k, 0), np.delete(y, k)).predict(X[k : k + 1])[0] != y[k]
        for k in range(80)
    ]
)

_, axes = plt.subplots(1, 2, figsize=(9, 3.4))
axes[0].scatter(*X.T, c=y, s=12)
axes[0].set_aspect("equal")
axes[1].barh(list(errors), list(errors.values()))
axes[1].set_xlabel("leave-one-out error in %")
plt.show()
