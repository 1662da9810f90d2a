"""
Why is there no solution?
=========================

Two budgets, and a demand that they cannot meet. The multipliers of the proof weigh the constraints
against each other; one constraint is not needed for the contradiction.
"""

import cvxpy as cp
import matplotlib.pyplot as plt

import sdpkit

x = cp.Variable(3, name="x", nonneg=True)
constraints = [x[0] + x[1] <= 1, x[1] + x[2] <= 1, x[0] + x[2] >= 3, x[1] <= 5]
why = sdpkit.explain(cp.Problem(cp.Minimize(cp.sum(x)), constraints))
print(why)

# %%
names = ["x₁ + x₂ ≤ 1", "x₂ + x₃ ≤ 1", "x₁ + x₃ ≥ 3", "x₂ ≤ 5"]
involved = [any(c is m for m in why.constraints) for c in constraints]
plt.barh(names, involved, color=["C3" if one else "C0" for one in involved])
plt.xticks([0, 1], ["could stay", "in the contradiction"])
plt.show()
