"""
Few long steps, many short ones
===============================

Interior-point steps cost much and gain digits at a steady rate; projections cost little and need
thousands. The same certificate measures both.
"""

import matplotlib.pyplot as plt

import sdpkit

problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(60), n_neighbors=4)
_, axes = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True)
for solver, ax in zip(("interior", "projection"), axes, strict=True):
    sdpkit.plotting.plot_convergence(sdpkit.solve(problem, solver=solver, tol=1e-6), ax)
plt.show()
