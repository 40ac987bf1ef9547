"""Critics: what the expected reward is learned with."""
