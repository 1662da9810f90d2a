"""
k-means without local minima
============================

Lloyd's algorithm stops in local minima. The relaxation of Peng and Wei (2007) has none: where
clusters are well apart its matrix is block constant and its value the sum of squares of the best
clustering, here the planted one.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

rng = np.random.default_rng(0)
centres = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]])
label = np.repeat(np.arange(3), 6)
points = centres[label] + 0.8 * rng.standard_normal((18, 2))
D = ((points[:, None] - points[None]) ** 2).sum(axis=2)
planted = sum(((points[label == k] - points[label == k].mean(axis=0)) ** 2).sum() for k in range(3))

# A cvxpy model.
Z = cp.Variable((18, 18), PSD=True)
rules = [cp.sum(Z, axis=1) == 1, cp.trace(Z) == 3, Z >= 0]
model = cp.Problem(cp.Minimize(cp.sum(cp.multiply(D, Z)) / 2), rules)
model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The same with expressions.
i, j = np.triu_indices(18)
M = sdpkit.Unknown("Z", 18)
row_sums = np.array([(i == k).astype(float) + (j == k) - (i == j) * (i == k) for k in range(18)])
said = sdpkit.minimise(
    M.inner(D / 2), row_sums @ M[i, j] == 1, M.trace() == 3, M[i[i != j], j[i != j]] >= 0
)
solution = sdpkit.solve(said)
print(f"cvxpy {model.value:.5f}, sdpkit {solution.objective:.5f}, planted {planted:.5f}")
print(f"certified gap {certificate.relative_gap:.1e}")

# %%
# The matrix, with one block for each cluster.
plt.imshow(np.asarray(solution.matrix), cmap="cividis")
plt.colorbar()
plt.show()

np.testing.assert_allclose([model.value, solution.objective], planted, rtol=1e-4)
np.testing.assert_allclose(
    np.asarray(solution.matrix), (D * 0 + (label[:, None] == label)) / 6, atol=1e-2
)
assert certificate.passes(1e-5)
