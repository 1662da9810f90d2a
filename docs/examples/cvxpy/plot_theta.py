"""
Lovász's ϑ and Schrijver's ϑ⁺
=============================

ϑ bounds the number of nodes of which no two are joined. For the pentagon it is √5. Asking for
X ≥ 0 as well gives ϑ⁺, which can be better: join the words of six bits that differ in at most
three places; then ϑ = 16/3 and ϑ⁺ = 4 (Schrijver, 1979), and there are four such words.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

words = (np.arange(64)[:, None] >> np.arange(6)) & 1
apart = (words[:, None] != words[None]).sum(axis=2)
i, j = np.nonzero(np.triu((apart > 0) & (apart <= 3)))
k, h = np.nonzero(np.triu(apart > 3))

# A cvxpy model, solved by our engine.
X = cp.Variable((64, 64), PSD=True)
theta = cp.Problem(cp.Maximize(cp.sum(X)), [cp.trace(X) == 1, X[i, j] == 0])
theta_plus = cp.Problem(theta.objective, [*theta.constraints, X[k, h] >= 0])
values = [m.solve(solver=sdpkit.cvxpy_solver("interior")) for m in (theta, theta_plus)]
certificates = [m.solver_stats.extra_stats for m in (theta, theta_plus)]

# The same with expressions, for the pentagon too.
ring = np.arange(5)
M = sdpkit.Unknown("X", 5)
pentagon = sdpkit.maximise(M.lengths(np.ones(5)), M.trace() == 1, M[ring, (ring + 1) % 5] == 0)
K = sdpkit.Unknown("X", 64)
rows = [K.trace() == 1, K[i, j] == 0]
said = [
    sdpkit.maximise(K.lengths(np.ones(64)), *rows),
    sdpkit.maximise(K.lengths(np.ones(64)), *rows, K[k, h] >= 0),
]
found = [sdpkit.solve(program).objective for program in [pentagon, *said]]
print("cvxpy      ", np.round(values, 5))
print("sdpkit     ", np.round(found[1:], 5), "known 16/3 and 4")
print("pentagon   ", np.round(found[0], 5), "known √5 =", np.round(np.sqrt(5), 5))

# %%
# The words of six letters, and those that at most three letters tell apart: black dots. An
# independent set has no black dot between its words; ϑ⁺ proves that none has more than four.

plt.figure(figsize=(4.5, 4.5))
plt.spy((apart > 0) & (apart <= 3), markersize=2)
plt.show()

np.testing.assert_allclose(values, [16 / 3, 4], rtol=1e-5)
np.testing.assert_allclose(found, [np.sqrt(5), 16 / 3, 4], rtol=1e-5)
assert all(certificate.passes(1e-5) for certificate in certificates)
