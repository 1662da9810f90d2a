"""
The gap closes
==============

Objective and bound of an interior-point method, iteration by iteration. The optimum is between
them, whatever the method thinks of itself.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(100), n_neighbors=4)
solution = sdpkit.solve(problem, solver="interior", tol=1e-8)
rows = [row for row in solution.history if "bound" in row and np.isfinite(row["bound"])]
k = [row["iteration"] for row in rows]
plt.plot(k, [row["objective"] for row in rows], "o-", label="objective")
plt.plot(k, [row["bound"] for row in rows], "s--", label="bound")
plt.yscale("log")
plt.xlabel("iteration")
plt.legend()
plt.show()

# %%
print(solution.certificate)
