"""
What a program looks like
=========================

Every constraint of an unfolding is about one squared length. The constraints of a localisation
were compressed first, so that each combines many. The dots show which measurements a constraint
contains.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

X = sdpkit.datasets.swiss_roll(25)
sensors = np.random.default_rng(0).random((25, 2))
programs = {
    "unfolding": sdpkit.MVU(X, n_neighbors=4).program(),
    "sensors": sdpkit.Localization(sdpkit.graphs.neighborhood_graph(sensors, radius=0.5)).program(),
}
_, axes = plt.subplots(1, 2, figsize=(9, 3.6))
for (name, program), ax in zip(programs.items(), axes, strict=True):
    sdpkit.plotting.plot_rows(program, ax)
    ax.set_title(f"{name}: {program.n_rows} constraints")
plt.show()
