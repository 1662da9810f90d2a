"""
How wrong may an answer be?
===========================

The multipliers of a solution, spoiled by more and more noise. The certificate needs no second
solve: it repairs them, so that its bound holds whatever the noise. The dual objective that a
solver reports is no bound once its multipliers are wrong.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(40), n_neighbors=4)
solution = sdpkit.solve(problem, tol=1e-10)
program = solution.program
rng = np.random.default_rng(0)
sizes, true, proven = np.logspace(-8, -2, 13), [], []
for size in sizes:
    dual = solution.dual * (1 + size * rng.normal(size=solution.dual.size))
    found = sdpkit.certify(program, solution.matrices, solution.x, dual)
    proven.append(found.relative_gap)
    true.append(abs(found.dual_objective / solution.objective - 1))
plt.loglog(sizes, proven, "o-", label="proven gap")
plt.loglog(sizes, true, "s--", label="error of the dual objective")
plt.xlabel("size of the noise in the multipliers")
plt.legend()
plt.show()
