"""Solvers against each other: suites of instances, isolated runs, tables and reports.

Here belongs what measures solvers. Every answer is certified before its time counts.
"""
