"""
A comb spreads its teeth
========================

Unfolding pulls every tooth of a comb in a direction of its own, so that two dimensions show
little of the variance. Minimum volume embedding asks for two dimensions and gets them.
"""

import matplotlib.pyplot as plt

import sdpkit

X = sdpkit.datasets.comb(4, 8)
_, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for method, ax in zip((sdpkit.MVU, sdpkit.MVE), axes, strict=True):
    problem = method(X, n_neighbors=3)
    embedding = problem.recover(sdpkit.solve(problem, tol=1e-5), n_components=2)
    embedding.plot(ax, color=X[:, 0], tension=False)
    ax.set_title(f"{method.__name__}: {embedding.fidelity:.0%} of the variance shown")
plt.show()
