"""From outcomes to the next policy version."""
