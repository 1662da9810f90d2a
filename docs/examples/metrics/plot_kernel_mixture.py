"""
Which kernel?
=============

Three kernels on two circles. The search over mixtures follows the objective down to the weights
of the best mixture; each of its steps is a program with a certificate.
"""

import matplotlib.pyplot as plt

import sdpkit

X, y = sdpkit.datasets.concentric_circles(12)
gram = X @ X.T
kernels = {"linear": gram, "quadratic": (1 + gram) ** 2, "cubic": (1 + gram) ** 3}
problem = sdpkit.KernelMixture(list(kernels.values()), y, rank=2, n_neighbors=1)
solution = sdpkit.solve(problem)
thetas, objectives = problem.path(solution)
_, axes = plt.subplots(1, 2, figsize=(9, 3))
axes[0].plot(objectives, "o-")
axes[0].set(xlabel="program", ylabel="objective")
axes[1].bar(list(kernels), problem.theta(solution))
axes[1].set_ylabel("weight")
plt.show()
