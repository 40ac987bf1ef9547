"""One file per form of the tables."""
