"""
A sum-of-squares bound
======================

The six-hump camel has six local minima. The largest γ for which p − γ is a sum of squares is
−1.0316, its global minimum (Parrilo and Sturmfels, 2003).
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpkit

camel = {(2, 0): 4, (4, 0): -2.1, (6, 0): 1 / 3, (1, 1): 1, (0, 2): -4, (0, 4): 4}
monomials = [(a, b) for a in range(4) for b in range(4 - a)]
pairs = [(i, j) for i in range(10) for j in range(10)]
product = [tuple(np.add(monomials[i], monomials[j])) for i, j in pairs]
powers = sorted(set(product))
picks = np.array([[p == q for q in product] for p in powers], dtype=float)
rhs = np.array([camel.get(p, 0.0) for p in powers])
constant = np.array([float(p == (0, 0)) for p in powers])

# A cvxpy model: z(x)ᵀ Q z(x) = p − γ, coefficient by coefficient.
Q, gamma = cp.Variable((10, 10), PSD=True), cp.Variable()
rows = picks @ cp.vec(Q, order="C") == rhs - gamma * constant
model = cp.Problem(cp.Maximize(gamma), [rows])
model.solve(solver="CLARABEL")
certificate = sdpkit.certify_cvxpy(model)

# The same with expressions.
M, g = sdpkit.Unknown("Q", 10), sdpkit.Variable(1, "γ", free=True)
i, j = np.array(pairs).T
said = sdpkit.maximise(g, picks @ M[i, j] == rhs - constant[:, None] @ g)
solution = sdpkit.solve(said)

x, y = np.meshgrid(np.linspace(-2, 2, 801), np.linspace(-1, 1, 401))
lowest = sum(c * x**a * y**b for (a, b), c in camel.items()).min()
print(f"cvxpy {model.value:.5f}, sdpkit {solution.objective:.5f}, on a grid {lowest:.5f}")
print(f"certified gap {certificate.relative_gap:.1e}")

# %%
# The six-hump camel and its two lowest points; the bound that was proven is their height.

surface = sum(c * x**a * y**b for (a, b), c in camel.items())
plt.contourf(
    x, y, surface, levels=np.r_[solution.objective, np.linspace(-1, 6, 29)], cmap="viridis"
)
plt.colorbar(label="p(x, y)")
for sign in (1, -1):
    plt.plot(sign * 0.0898, -sign * 0.7127, "o", color="tab:red")
plt.show()

np.testing.assert_allclose([model.value, solution.objective], -1.0316285, rtol=1e-5)
assert certificate.passes(1e-4)
