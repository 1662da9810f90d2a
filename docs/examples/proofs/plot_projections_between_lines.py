"""
Between two lines
=================

Alternating projections zigzag to the point where two lines meet; each round multiplies the
distance by the squared cosine of the angle between them.
"""

import matplotlib.pyplot as plt

import sdpkit
from sdpkit.testing.programs import wedge

_, axes = plt.subplots(1, 2, figsize=(9, 3.8))
for angle, ax in zip((0.3, 1.0), axes, strict=True):
    sdpkit.plotting.plot_iterates(sdpkit.solve(wedge(angle=angle), solver="alternating"), ax)
    ax.set_title(f"angle {angle}")
plt.show()
