"""The trial itself: participants, decisions, outcomes, policies."""
