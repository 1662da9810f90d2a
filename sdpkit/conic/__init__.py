"""Conic models of other libraries: read as programs in squared lengths, solved and certified.

Here belongs the translation between the conic data of a modelling library and a `Program`, in both
directions, and the functions for cvxpy: `from_cvxpy`, `certify_cvxpy`, `cvxpy_solver`.
"""
