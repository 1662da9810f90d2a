"""
D-optimal design
================

Where should one measure to fit a parabola on [−1, 1]? A third of the measurements at −1, 0 and 1
each; the determinant of the information matrix is then 4/27 (Fedorov, 1972).
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

t = np.linspace(-1, 1, 21)
V = np.stack([np.ones_like(t), t, t**2], axis=1)

# A cvxpy model with a log det, as a program.
share = cp.Variable(21, nonneg=True)
model = cp.Problem(cp.Maximize(cp.log_det(V.T @ cp.diag(share) @ V)), [cp.sum(share) == 1])
program = sdpkit.from_cvxpy(model)
sdpkit.solve(program, tol=1e-7).unpack(model)
certificate = sdpkit.certify_cvxpy(model)

# Its dual with expressions: the smallest ellipsoid around the points, centred at the origin.
M = sdpkit.Unknown("M", 3)
said = sdpkit.maximise(M.log_det(), M.lengths(V) <= 1)
solution = sdpkit.solve(said, tol=1e-7)
dual = -solution.objective - 3 * np.log(3)  # M = (3 Σ)⁻¹ at the optimum
print(f"cvxpy {model.value:.6f}, sdpkit {dual:.6f}, log(4/27) {np.log(4 / 27):.6f}")
print(f"certified gap {certificate.relative_gap:.1e}")

# %%
# The shares.
plt.stem(t, share.value)
plt.xlabel("where")
plt.ylabel("share of measurements")
plt.show()

np.testing.assert_allclose([model.value, dual], np.log(4 / 27), rtol=1e-5)
assert certificate.passes(1e-5)
