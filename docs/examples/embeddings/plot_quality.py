"""
Did the neighbours survive?
===========================

Local continuity, local trust and neighbourhood intersection of an unfolding and of PCA, for
neighbourhoods of growing size.
"""

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

import sdpkit

X = sdpkit.datasets.swiss_roll(200, noise_dims=0)
problem = sdpkit.MVU(X, n_neighbors=5)
outputs = {
    "MVU": problem.recover(sdpkit.solve(problem, tol=1e-5), n_components=2).coordinates,
    "PCA": PCA(2).fit_transform(X),
}
ks = [3, 5, 10, 20, 40]
_, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True)
for name, Y in outputs.items():
    found = [sdpkit.quality.evaluate(X, Y, k) for k in ks]
    for ax, measure in zip(
        axes, ("local_continuity", "local_trust", "neighborhood_intersection"), strict=True
    ):
        ax.plot(ks, [getattr(one, measure) for one in found], "o-", label=name)
        ax.set(title=measure.replace("_", " "), xlabel="neighbours")
axes[0].legend()
plt.show()
