"""
Let solvers compete
===================

Every solver gets the same program, a process and a time limit. A run counts only if the
certificate, recomputed from what the solver returned, meets the tolerance.
"""

import sdpkit

if __name__ == "__main__":
    problems = {f"roll {n}": sdpkit.MVU(sdpkit.datasets.swiss_roll(n)) for n in (12, 24)}
    comparison = sdpkit.compare(problems, ["interior", "clarabel", "scs"], tols=[1e-4])
    comparison.plot()
    print(comparison.table())
