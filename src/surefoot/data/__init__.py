"""Logs: from files and frames to `Trajectories`."""
