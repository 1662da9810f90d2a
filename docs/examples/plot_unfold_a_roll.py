"""
Unfold a rolled-up sheet
========================

Maximum variance unfolding keeps the distances between neighbours and pulls everything else apart.
The colour is the position along the sheet; the method never sees it.
"""

import matplotlib.pyplot as plt

import sdpkit

X, sheet = sdpkit.datasets.swiss_roll(300, return_parameters=True)
problem = sdpkit.MVU(X, n_neighbors=4)
solution = sdpkit.solve(problem)
embedding = problem.recover(solution, n_components=2)

figure = plt.figure(figsize=(9, 3.4))
before = figure.add_subplot(1, 5, (1, 2), projection="3d", azim=-80, elev=12)
before.scatter(*X[:, :3].T, c=sheet[:, 0], s=8)
before.set_title("what the camera sees")
after = figure.add_subplot(1, 5, (3, 5))
embedding.plot(after, color=sheet[:, 0], tension=False)
plt.show()

# %%
# The certificate was recomputed from the returned numbers. The bound holds for every unfolding.

print(solution.certificate)
