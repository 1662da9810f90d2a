"""
Which distances hold an unfolding back?
=======================================

The dual variable of an edge is the tension of its rod. Orange rods are stretched, purple rods are
compressed, and pale ones could be removed without changing the optimum.
"""

import matplotlib.pyplot as plt

import sdpkit

X = sdpkit.datasets.swiss_roll(200)
problem = sdpkit.MVU(X, n_neighbors=4)
solution = sdpkit.solve(problem)
embedding = problem.recover(solution, n_components=2)

figure, axes = plt.subplots(2, 1, figsize=(8, 5.5), height_ratios=[1.3, 1])
embedding.plot(axes[0])
sdpkit.plotting.plot_multipliers(embedding.tensions, axes[1], label="tension")
plt.show()
