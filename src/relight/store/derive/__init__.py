"""Facts derived from recorded rows: roll-ups, outcomes, scores, costs of skills."""
