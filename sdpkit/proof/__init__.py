"""Proofs that others check: programs in exact numbers, proofs in integers, and their checker."""
