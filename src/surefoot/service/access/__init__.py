"""Who may: keys, sessions, rate limits."""
