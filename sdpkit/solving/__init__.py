"""Who is asked to solve a program, and how the answer is judged.

Here belongs the way from a problem to a solution: the list of solvers, the choice among them, the
call, the judgement, and problems that take several programs.
"""

from sdpkit.solving.call import solve
from sdpkit.solving.judgement import ConvergenceWarning

__all__ = ["ConvergenceWarning", "solve"]
