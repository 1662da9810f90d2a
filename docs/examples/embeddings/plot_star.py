"""
Draw a star flat
================

Eight spokes from one centre: maximum variance unfolding gives each spoke a dimension, minimum
volume embedding draws the star in the plane. The bars are shares of the variance.
"""

import matplotlib.pyplot as plt

import sdpkit

star = sdpkit.datasets.star_graph(8, 3)
_, axes = plt.subplots(2, 2, figsize=(8, 5.5))
for column, method in enumerate((sdpkit.MVU, sdpkit.MVE)):
    problem = method(graph=star)
    embedding = problem.recover(sdpkit.solve(problem), n_components=2)
    embedding.plot(axes[0, column], tension=False)
    embedding.plot_spectrum(axes[1, column])
    axes[0, column].set_title(method.__name__)
plt.show()
