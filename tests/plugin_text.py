"""A package of another author, as text: what the solvers of test packages have in common."""

SOLVER = """
from sdpkit.solution.solver import Capabilities
from sdpkit.solving.registry import get_solver


class Base:
    capabilities = Capabilities(summary="up to no good")

    def __init__(self, name, act):
        self.name, self.act = name, act

    def unavailable(self):
        return None

    def memory(self, program):
        return 0.0
"""
