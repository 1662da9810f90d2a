"""The tables and figures, a file per subject; each has a dictionary ENTRIES."""
