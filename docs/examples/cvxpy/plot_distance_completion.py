"""
Completing a distance matrix
============================

Of a regular hexagon we know the sides and the short diagonals. The long ones follow: among all
Gram matrices with these distances there is no other, since convex polygons braced in this way are
rigid in every dimension (Connelly, 1982). A side of 1 makes the long diagonal 2.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

angle = np.pi / 3 * np.arange(6)
points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
known = np.array([(i, (i + k) % 6) for k in (1, 2) for i in range(6)])
i, j = known.T
d = ((points[i] - points[j]) ** 2).sum(axis=1)

# A cvxpy model.
K = cp.Variable((6, 6), PSD=True)
lengths = cp.diag(K)[i] + cp.diag(K)[j] - 2 * K[i, j]
model = cp.Problem(cp.Minimize(cp.trace(K)), [lengths == d, cp.sum(K) == 0])
model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The same with expressions: squared distances are what a program measures.
M = sdpkit.Unknown("K", 6, null=np.ones(6))
solution = sdpkit.solve(sdpkit.minimise(M.trace(), M.distances(known) == d), tol=1e-8)

gram = np.asarray(solution.matrix)
diagonals = [np.sqrt(gram[k, k] + gram[k + 3, k + 3] - 2 * gram[k, k + 3]) for k in range(3)]
print(f"trace: cvxpy {model.value:.5f}, sdpkit {solution.objective:.5f}, known 6")
print(f"certified gap {certificate.relative_gap:.1e}")
print("long diagonals", np.round(diagonals, 4))

# %%
# The hexagon from the completed matrix.
values, vectors = np.linalg.eigh(gram)
place = vectors[:, -2:] * np.sqrt(values[-2:])
for a, b in known:
    plt.plot(*place[[a, b]].T, color="tab:blue")
for k in range(3):
    plt.plot(*place[[k, k + 3]].T, color="tab:orange", linestyle="--")
plt.axis("equal")
plt.axis("off")
plt.show()

np.testing.assert_allclose([model.value, solution.objective], 6, rtol=1e-5)
np.testing.assert_allclose(diagonals, 2, rtol=1e-3)
assert certificate.passes(1e-5)
