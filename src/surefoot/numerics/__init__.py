"""Mathematics on arrays, without knowledge of people or policies."""
