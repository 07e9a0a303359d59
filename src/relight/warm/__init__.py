"""Templates: a good session's most instructive part, kept for the sessions that come after it."""
