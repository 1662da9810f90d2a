"""
Robust principal components
===========================

A matrix of rank one with a few gross errors: principal component pursuit, min ‖L‖_* + λ‖S‖₁ with
λ = 1/√n, takes the two apart exactly (Candès, Li, Ma and Wright, 2011).
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

rng = np.random.default_rng(0)
n = 12
clean = np.outer(rng.choice([-1.0, 1.0], n), rng.choice([-1.0, 1.0], n))
errors = np.where(rng.random((n, n)) < 0.05, 3 * rng.choice([-1.0, 1.0], (n, n)), 0.0)
seen, weight = clean + errors, 1 / np.sqrt(n)
planted = n + weight * np.abs(errors).sum()

# A cvxpy model.
L, S = cp.Variable((n, n)), cp.Variable((n, n))
model = cp.Problem(cp.Minimize(cp.normNuc(L) + weight * cp.norm1(S)), [seen == L + S])
model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The same with expressions: errors up and down.
i, j = np.divmod(np.arange(n * n), n)
M = sdpkit.Unknown("M", 2 * n)
up, down = sdpkit.Variable(n * n, "S⁺"), sdpkit.Variable(n * n, "S⁻")
cost = M.trace() / 2 + weight * (up.sum() + down.sum())
solution = sdpkit.solve(sdpkit.minimise(cost, M[i, n + j] + up - down == seen.ravel()))
print(f"cvxpy {model.value:.6f}, sdpkit {solution.objective:.6f}, planted {planted:.6f}")
print(f"certified gap {certificate.relative_gap:.1e}")

# %%
# What was seen, and the two parts of it.
found = np.asarray(solution.matrix)[:n, n:]
figure, axes = plt.subplots(1, 3, figsize=(8, 2.8))
for axis, matrix, title in zip(
    axes, (seen, found, seen - found), ("seen", "rank one", "errors"), strict=True
):
    axis.imshow(matrix, cmap="RdBu", vmin=-4, vmax=4)
    axis.set_title(title)
plt.show()

np.testing.assert_allclose([model.value, solution.objective], planted, rtol=1e-5)
np.testing.assert_allclose(found, clean, atol=1e-3)
assert certificate.passes(1e-5)
