"""Programs whose answer is known, and attacks on the certificate: `python tests/fuzzing`."""
