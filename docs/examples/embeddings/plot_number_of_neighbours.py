"""
How many neighbours?
====================

With few neighbours a surface unfolds; with many it locks. The spectrum tells: the sheet has two
large eigenvalues as long as it can be laid flat.
"""

import matplotlib.pyplot as plt

import sdpkit

X = sdpkit.datasets.swiss_roll(120, noise_dims=0)
ks = [4, 6, 10, 20]
sweep = sdpkit.neighbor_sweep(X, ks)
_, axes = plt.subplots(1, 4, figsize=(11, 2.6), sharey=True)
for k, one, ax in zip(ks, sweep, axes, strict=True):
    sdpkit.plotting.plot_spectrum(one.embedding.eigenvalues, ax, n_shown=4)
    ax.set_title(f"k = {k}, {'locked' if one.is_locked else f'gain {one.gain:.1f}'}")
plt.show()
