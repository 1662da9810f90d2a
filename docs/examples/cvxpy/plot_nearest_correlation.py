"""
The nearest correlation matrix
==============================

Three assets have the estimated correlations 1, 1 and 0, which no random variables have. The nearest
matrix that is one is at a distance of 0.5278 (Higham, 2002, section 5).
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

A = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])

# A cvxpy model: the squares stay squares, they do not become a cone.
X = cp.Variable((3, 3), PSD=True)
model = cp.Problem(cp.Minimize(cp.sum_squares(X - A)), [cp.diag(X) == 1])
model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The same with expressions: each entry off the diagonal counts twice.
i, j = np.triu_indices(3, 1)
M = sdpkit.Unknown("X", 3)
off = sdpkit.Variable(3, "r", free=True)
said = sdpkit.minimise(2 * off.sum_squares(), M.lengths() == 1, off == M[i, j] - A[i, j])
solution = sdpkit.solve(said, solver="interior", tol=1e-8)

distances = np.sqrt([model.value, solution.objective, certificate.safe_bound])
print("cvxpy, sdpkit, safe bound:", np.round(distances, 4), "known 0.5278")
print(np.round(np.asarray(solution.matrix), 4))
print(f"certified gap {certificate.relative_gap:.1e}")

# %%
# The given matrix has a negative eigenvalue; that of the nearest correlation matrix is zero.

_, axes = plt.subplots(1, 2, figsize=(6.5, 3))
for ax, matrix, title in zip(axes, (A, X.value), ("given", "nearest"), strict=True):
    ax.imshow(matrix, cmap="viridis", vmin=0, vmax=1)
    ax.set_title(f"{title}, λ_min = {np.linalg.eigvalsh(matrix)[0] + 1e-9:.2f}")
    for row, column in np.ndindex(3, 3):
        ax.text(column, row, f"{matrix[row, column]:.2f}", ha="center", color="tab:red")
plt.show()

np.testing.assert_allclose(distances, 0.5278, atol=5e-5)
assert certificate.passes(1e-5)
