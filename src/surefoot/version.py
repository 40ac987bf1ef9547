"""The version, here alone: pyproject.toml and the results read it."""

__version__ = "0.2.0"
