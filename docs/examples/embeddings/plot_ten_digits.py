"""
All ten digits, by their classes
================================

Unfolding sees no labels. Fifteen images of each handwritten digit, joined to their nearest
images, fall into groups that belong to the digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import sdpkit

images, digit = load_digits(return_X_y=True)
chosen = np.concatenate([np.flatnonzero(digit == d)[:15] for d in range(10)])
problem = sdpkit.MVU(images[chosen], n_neighbors=3, form="inequality", connect="bridge")
embedding = problem.recover(sdpkit.solve(problem, tol=1e-4), n_components=2)

_, ax = plt.subplots(figsize=(8, 6))
for d in range(10):
    ax.scatter(
        *embedding.coordinates[digit[chosen] == d].T, marker=f"${d}$", s=60, color=f"C{d % 7}"
    )
plt.show()
