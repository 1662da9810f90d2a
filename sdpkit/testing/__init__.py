"""Checks and fuzzers for authors of solvers and problems."""
