"""Figures, measured: one module per group of tables, printed by `sdpkit bench TABLE`."""
