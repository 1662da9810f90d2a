"""What proves an answer: recomputed residuals, safe bounds, rays, and theorems.

Here belongs what judges numbers against a program. A certificate sees the program and the numbers
that were returned, never the solver that returned them.
"""

from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.judge import certify
from sdpkit.certificate.rays import Ray, certify_infeasible, certify_unbounded

__all__ = ["Certificate", "Ray", "certify", "certify_infeasible", "certify_unbounded"]
