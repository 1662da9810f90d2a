"""
Learning from one pair at a time
================================

The pseudo-metric online learning algorithm sees the pairs of iris one after the other and corrects
itself after every mistake. The curve is the mean loss of the last hundred pairs; no program is
solved.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import sdpkit

X, y = load_iris(return_X_y=True)
rng = np.random.default_rng(0)
i, j = rng.integers(len(X), size=(2, 3000))
pairs = np.stack([X[i], X[j]], axis=1)[i != j]
signs = np.where(y[i] == y[j], 1, -1)[i != j]
model = sdpkit.POLA().partial_fit(pairs, signs)
window = np.convolve(model.losses_, np.ones(100) / 100, mode="valid")
plt.plot(window)
plt.xlabel("pair")
plt.ylabel("mean loss of a hundred pairs")
plt.show()

# %%
print("pairs judged rightly:", np.mean(model.predict(pairs) == signs).round(3))
