"""
The fastest mixing Markov chain
===============================

A chain walks along a path of six nodes. Which probabilities make it forget its start as fast as
possible? The second largest eigenvalue modulus cannot be below cos(π/6) = 0.8660, and probability
1/2 on every edge reaches it (Boyd, Diaconis, Sun and Xiao, 2006).
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

n = 6
i, j = np.arange(n - 1), np.arange(1, n)
steps = [np.outer(v, v) for v in np.eye(n)[i] - np.eye(n)[j]]

# A cvxpy model: P = I − Σ p_e (e_i − e_j)(e_i − e_j)ᵀ, its norm beside the constant vector.
p = cp.Variable(n - 1, nonneg=True)
P = np.eye(n) - sum(p[e] * steps[e] for e in range(n - 1))
model = cp.Problem(cp.Minimize(cp.sigma_max(P - 1 / n)), [cp.diag(P) >= 0])
model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The same with expressions: −sI ⪯ P − 11ᵀ/n ⪯ sI with the two slacks as unknowns.
a, b = np.triu_indices(n)
columns = np.stack([step[a, b] for step in steps], axis=1)
eye = np.eye(n)[a, b]
q, s = sdpkit.Variable(n - 1, "p"), sdpkit.Variable(1, "s")
low, high = sdpkit.Unknown("S", n), sdpkit.Unknown("T", n)
chain = eye - 1 / n - columns @ q
said = sdpkit.minimise(
    s,
    high[a, b] == eye[:, None] @ s - chain,
    low[a, b] == eye[:, None] @ s + chain,
    columns[a == b] @ q <= 1,
)
solution = sdpkit.solve(said)
print(f"cvxpy {model.value:.5f}, sdpkit {solution.objective:.5f}, cos(π/6) {np.cos(np.pi / 6):.5f}")
print(f"certified gap {certificate.relative_gap:.1e}")
print("probabilities", np.round(p.value, 3))

# %%
# The second eigenvalue of chains whose steps all have the same probability: one half is best, and
# the program proves that different probabilities would not be better.

same = np.linspace(0.05, 0.5, 50)
seconds = [np.linalg.norm(np.eye(n) - s * sum(steps) - 1 / n, 2) for s in same]
plt.plot(same, seconds, label="all probabilities equal")
plt.axhline(solution.objective, color="C1", linestyle="--", label="best: cos(π/6)")
plt.xlabel("probability of each step")
plt.ylabel("second largest eigenvalue")
plt.legend()
plt.show()

np.testing.assert_allclose([model.value, solution.objective], np.cos(np.pi / n), rtol=1e-5)
assert certificate.passes(1e-5)
