"""From a problem to a certified solution.

Here belongs the pipeline of `sdpkit.solve`: the registry of solvers and the choice among them, the
call of a solver, what is tried where its answer does not pass, and the status.
"""
