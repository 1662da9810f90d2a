"""
Search parameters with warm starts
==================================

Neighbouring points of a grid have similar solutions. `WarmGridSearchCV` starts each fit from the
last one; scores are those of scikit-learn's grid search, because every fit is certified.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from sdpkit.estimators import LMNNClassifier, WarmGridSearchCV

X, y = load_wine(return_X_y=True)
grid = {"mu": [0.1, 0.3, 0.5, 0.7], "n_neighbors": [1, 3, 5]}
search = WarmGridSearchCV(LMNNClassifier(), grid, cv=3).fit(X, y)
scores = np.reshape(search.cv_results_["mean_test_score"], (4, 3))
plt.imshow(100 * scores, cmap="viridis")
plt.xticks(range(3), grid["n_neighbors"])
plt.yticks(range(4), grid["mu"])
plt.xlabel("n_neighbors")
plt.ylabel("mu")
plt.colorbar(label="accuracy in %")
plt.title(f"best: {search.best_params_}")
plt.show()
