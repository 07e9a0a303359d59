"""Did it work, what went wrong, what kind of work, how good; pure functions."""
