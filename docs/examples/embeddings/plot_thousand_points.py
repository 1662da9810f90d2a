"""
A thousand points in ten functions
==================================

Written as combinations of ten smooth functions on the graph, a thousand positions become a matrix
of ten rows. The small program is proven; the search from its answer works on all points.
"""

import matplotlib.pyplot as plt

import sdpkit

X, sheet = sdpkit.datasets.swiss_roll(1000, noise_dims=0, return_parameters=True)
problem = sdpkit.VariationalMVU(X, n_neighbors=6)
solution = sdpkit.solve(problem)
stages = {"ten functions": problem.recover(solution, n_components=2),
          "refined": problem.refine(solution, n_components=2)}  # fmt: skip
_, axes = plt.subplots(1, 2, figsize=(10, 3))
for (title, embedding), ax in zip(stages.items(), axes, strict=True):
    ax.scatter(*embedding.coordinates.T, c=sheet[:, 0], s=4)
    ax.set_title(title)
    ax.set_aspect("equal")
plt.show()

# %%
print("seconds:", round(solution.times.total, 1))
