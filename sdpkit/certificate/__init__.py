"""What proves an answer: recomputed residuals, safe bounds, rays, and theorems.

Here belongs what compares numbers with a program. A certificate is computed from the program and
the numbers that were returned, never from the solver that returned them.
"""
