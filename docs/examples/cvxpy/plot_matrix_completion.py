"""
Matrix completion
=================

A matrix of rank one with some entries lost. The one of smallest nuclear norm among all that have
the known entries is the matrix itself (Candès and Recht, 2009), of norm ‖u‖‖v‖.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

rng = np.random.default_rng(0)
u, v = rng.standard_normal(8), rng.standard_normal(7)
i, j = np.nonzero(rng.random((8, 7)) < 0.7)
known = u[i] * v[j]
norm = np.linalg.norm(u) * np.linalg.norm(v)

# A cvxpy model.
X = cp.Variable((8, 7))
model = cp.Problem(cp.Minimize(cp.normNuc(X)), [X[i, j] == known])
model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The same with expressions: half the trace of [[U, X], [Xᵀ, V]] ⪰ 0.
M = sdpkit.Unknown("M", 15)
solution = sdpkit.solve(sdpkit.minimise(M.trace() / 2, M[i, 8 + j] == known))

error = np.abs(np.asarray(solution.matrix)[:8, 8:] - np.outer(u, v)).max()
print(f"cvxpy {model.value:.6f}, sdpkit {solution.objective:.6f}, ‖u‖‖v‖ {norm:.6f}")
print(f"{i.size} of 56 entries known, largest error {error:.1e}")
print(f"certified gap {certificate.relative_gap:.1e}")

# %%
# Left, what was known (blank entries were not); right, the completed matrix.

seen = np.full((8, 7), np.nan)
seen[i, j] = known
_, axes = plt.subplots(1, 2, figsize=(7, 3.2))
for ax, matrix, title in zip(axes, (seen, X.value), ("known", "completed"), strict=True):
    ax.imshow(matrix, cmap="PuOr_r", vmin=-3, vmax=3)
    ax.set_title(title)
plt.show()

np.testing.assert_allclose([model.value, solution.objective], norm, rtol=1e-5)
assert certificate.passes(1e-5)
assert error < 1e-3
