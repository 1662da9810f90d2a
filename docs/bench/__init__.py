"""The programs that print the numbers of the docs: `make bench NAME=interior`, in a checkout."""
