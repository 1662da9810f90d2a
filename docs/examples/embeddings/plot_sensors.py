"""
Where are the sensors?
======================

Two hundred sensors know their distances to the sensors within reach, and no positions. A small
program in ten smooth functions places them; a local search removes what is left of the error.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

true = np.random.default_rng(0).random((200, 2))
graph = sdpkit.graphs.neighborhood_graph(true, radius=0.25)
problem = sdpkit.Localization(graph)
solution = sdpkit.solve(problem)
_, axes = plt.subplots(1, 2, figsize=(9, 4.2))
stages = {"after the program": problem.recover(solution), "refined": problem.refine(solution)}
for (title, found), ax in zip(stages.items(), axes, strict=True):
    sdpkit.plotting.plot_positions(true, sdpkit.quality.aligned(found, true), ax)
    errors = sdpkit.quality.position_errors(found, true)
    ax.set_title(f"{title}: mean error {errors.mean():.1e}")
plt.show()
