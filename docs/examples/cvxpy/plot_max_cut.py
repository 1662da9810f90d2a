"""
Max-cut with rounding
=====================

How many edges of the Petersen graph can one cut? The relaxation of Goemans and Williamson says at
most 12.5, because n/4 · λ_max(L) = 10/4 · 5. Random hyperplanes find a cut of 12, the
best there is.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

outer, spokes, inner = [[(i, (i + 1) % 5) for i in range(5)], [(i, i + 5) for i in range(5)],
                        [(i + 5, (i + 2) % 5 + 5) for i in range(5)]]  # fmt: skip
edges = np.array(outer + spokes + inner)
i, j = edges.T

# A cvxpy model, solved by Clarabel, certified by sdpkit.
X = cp.Variable((10, 10), PSD=True)
model = cp.Problem(cp.Maximize(cp.sum(1 - X[i, j]) / 2), [cp.diag(X) == 1])
model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The same with expressions: nodes on a sphere, far apart where they are joined.
K = sdpkit.Unknown("X", 10)
said = sdpkit.maximise(K.distances(edges).sum() / 4, K.lengths() == 1, name="max-cut")
solution = sdpkit.solve(said)

normals = np.random.default_rng(0).standard_normal((10, 100))
values, vectors = np.linalg.eigh(solution.matrix)
sides = np.sign(vectors * np.sqrt(values.clip(0)) @ normals)
cuts = (sides[i] != sides[j]).sum(axis=0)
side = sides[:, cuts.argmax()]
print(f"cvxpy {model.value:.5f}, sdpkit {solution.objective:.5f}, known 12.5")
print(f"certified gap {certificate.relative_gap:.1e}, best cut {cuts.max()}")

# %%
# The edges that are cut are drawn in orange.
angle = 2 * np.pi * (np.arange(10) % 5) / 5
place = np.stack([np.sin(angle), np.cos(angle)], axis=1) * np.repeat([[1.0], [0.5]], 5, axis=0)
for a, b in edges:
    plt.plot(*place[[a, b]].T, color="tab:orange" if side[a] != side[b] else "lightgray")
plt.scatter(*place.T, c=side, cmap="cividis", s=150, zorder=2)
plt.axis("equal")
plt.axis("off")
plt.show()

np.testing.assert_allclose([model.value, solution.objective], 12.5, rtol=1e-5)
assert certificate.passes(1e-6)
assert cuts.max() == 12
