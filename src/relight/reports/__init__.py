"""Every question to the record: totals, sessions, steps, failures, runs, skills."""
