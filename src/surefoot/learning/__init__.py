"""Methods: filters, critics, pooling and decision rules that learn from `Trajectories`."""
