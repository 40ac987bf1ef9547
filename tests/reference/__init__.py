"""Slow, literal versions of the method to compare the package with; written from the method's description alone."""
