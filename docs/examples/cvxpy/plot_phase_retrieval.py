"""
Phase retrieval
===============

A detector sees ⟨a, x⟩² and loses the sign. The matrix xxᵀ has the smallest trace among all
positive semidefinite matrices with these measurements, if there are enough of them (Candès,
Strohmer and Voroninski, 2013); its value is ‖x‖².
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

rng = np.random.default_rng(0)
x = rng.standard_normal(8)
A = rng.standard_normal((48, 8))
b = (A @ x) ** 2

# A cvxpy model.
X = cp.Variable((8, 8), PSD=True)
seen = cp.sum(cp.multiply(A @ X, A), axis=1)
model = cp.Problem(cp.Minimize(cp.trace(X)), [seen == b])
model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The same with expressions: measurements are squared lengths.
M = sdpkit.Unknown("X", 8)
solution = sdpkit.solve(sdpkit.minimise(M.trace(), M.lengths(A) == b))

values, vectors = np.linalg.eigh(solution.matrix)
signal = vectors[:, -1] * np.sqrt(values[-1])
error = min(np.abs(signal - x).max(), np.abs(signal + x).max())
print(f"cvxpy {model.value:.6f}, sdpkit {solution.objective:.6f}, ‖x‖² {x @ x:.6f}")
print(f"largest error of the signal {error:.1e}")
print(f"certified gap {certificate.relative_gap:.1e}")

# %%
# The signal from intensities alone, up to its sign.

plt.stem(np.sign(signal @ x) * signal, label="recovered")
plt.plot(x, "x", color="black", label="true")
plt.xlabel("coordinate")
plt.legend()
plt.show()

np.testing.assert_allclose([model.value, solution.objective], x @ x, rtol=1e-5)
assert error < 1e-4
assert certificate.passes(1e-5)
