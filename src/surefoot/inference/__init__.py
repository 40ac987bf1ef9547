"""Standard errors and intervals over people."""
