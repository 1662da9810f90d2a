"""pytest reads the pages' examples; what builds the site is not for it."""

collect_ignore_glob = ["*.py", "_*", "node_modules", "auto_examples", "reference"]
