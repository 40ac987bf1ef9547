"""Keeping a trial: export, backup, metrics."""
