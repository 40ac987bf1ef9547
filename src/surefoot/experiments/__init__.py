"""The experiments that judge the methods."""
