"""What passes between a solver and the rest of the library.

Here belongs what every solver receives and returns (settings, answers, checkpoints), what helps
it to do so (the reduced program and its inverse), and the solution that a user sees.
"""

from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solution import Solution, Status, Times

__all__ = ["Answer", "Settings", "Solution", "Status", "Stop", "Times"]
