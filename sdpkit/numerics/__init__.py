"""Numerical tools that know nothing of programs: kernels, threads, neighbours, sparse factors.

Here belongs code that takes and returns plain arrays.
"""
