"""
Truss topology
==============

Which bars should carry a load at the free end, if the volume is one? The stiffest truss with one
load costs (min Σ lengths · abs(forces))² in compliance, and that minimum is a linear program
(Ben-Tal and Nemirovski, 2001, section 4.8). Both are computed.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

import sdpkit

nodes = np.array([(x, y) for x in range(4) for y in range(3)], dtype=float)
a, b = np.triu_indices(12, 1)
span = nodes[b] - nodes[a]
short = np.linalg.norm(span, axis=1) < 2.3
a, b, span = a[short], b[short], span[short]
length = np.linalg.norm(span, axis=1)
B = np.zeros((a.size, 24))
for k in range(a.size):
    B[k, 2 * a[k] : 2 * a[k] + 2], B[k, 2 * b[k] : 2 * b[k] + 2] = -span[k], span[k]
B = (B / length[:, None] ** 2)[:, 6:]  # the first three nodes are fixed to the wall
load = np.zeros(18)
load[-3] = -1  # downwards, at the middle of the free end

# A cvxpy model: min τ with [[τ, fᵀ], [f, Σ t b bᵀ]] ⪰ 0.
t, tau = cp.Variable(a.size, nonneg=True), cp.Variable((1, 1))
stiffness = B.T @ cp.diag(t) @ B
lmi = cp.bmat([[tau, load[None]], [load[:, None], stiffness]])
model = cp.Problem(cp.Minimize(tau[0, 0]), [lmi >> 0, cp.sum(t) == 1])
value = model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The dual with expressions: no bar may be stretched by more than the cost ν of volume.
M = sdpkit.Unknown("M", 19)
nu = sdpkit.Variable(1, "ν")
bars = np.hstack([np.zeros((a.size, 1)), B])
work = np.zeros((19, 19))
work[0, 1:] = work[1:, 0] = -load
said = sdpkit.maximise(
    M.inner(work) - nu, M.lengths(np.eye(19)[0]) == 1, M.lengths(bars) <= np.ones((a.size, 1)) @ nu
)
solution = sdpkit.solve(said)

# The linear program.
forces = np.hstack([B.T * length, -B.T * length])
plastic = linprog(np.r_[length, length], A_eq=forces, b_eq=load).fun ** 2
print(f"cvxpy {value:.5f}, sdpkit {solution.objective:.5f}, linear program {plastic:.5f}")
print(f"certified gap {certificate.relative_gap:.1e}")

# %%
# The bars, as thick as their volumes.
for k in range(a.size):
    if t.value[k] > 1e-4:
        plt.plot(*nodes[[a[k], b[k]]].T, color="tab:blue", linewidth=40 * t.value[k])
plt.scatter(*nodes.T, color="black", s=10, zorder=2)
plt.axis("equal")
plt.axis("off")
plt.show()

np.testing.assert_allclose([value, solution.objective], plastic, rtol=1e-4)
assert certificate.passes(1e-5)
