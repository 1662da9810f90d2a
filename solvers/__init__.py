"""How it is solved: one module per engine or backend."""
