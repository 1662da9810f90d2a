"""Homework that is graded by certificates: exercises, criteria, submissions and marks."""
