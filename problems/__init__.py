"""What is solved: one module per algorithm of the literature."""
