"""What is derived from recorded rows: roll-ups, outcomes, scores, costs of skills."""
