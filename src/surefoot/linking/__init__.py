"""From raw files to decision points: streams of platforms, linked to a decision log."""
