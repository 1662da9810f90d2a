"""
Which constraints matter?
=========================

Where lengths are upper bounds, edges that are not taut have multiplier zero: the unfolding would be
the same without them. The others hold it together, a few of them much more than the rest.
"""

import matplotlib.pyplot as plt

import sdpkit

problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(120), n_neighbors=4, form="inequality")
solution = sdpkit.solve(problem)
sdpkit.plotting.plot_multipliers(solution.dual, label="tension of an edge")
plt.show()
