"""Checks for authors of solvers and of problems, shipped so that every package can run them.

`check_solver(solver)` and `check_problem(problem)` raise an `AssertionError` that says what was
expected. `solver_checks` and `problem_checks` list the same checks as (name, check) pairs, one test
each for pytest:

    @pytest.mark.parametrize(("name", "check"), solver_checks(MY_SOLVER))
    def test_my_solver(name, check):
        check()
"""

from sdpkit.testing.agreement import check_agreement, check_bound, uncertainty
from sdpkit.testing.problems import check_problem, problem_checks
from sdpkit.testing.solvers import check_solver, solver_checks

__all__ = [
    "check_agreement",
    "check_bound",
    "check_problem",
    "check_solver",
    "problem_checks",
    "solver_checks",
    "uncertainty",
]
