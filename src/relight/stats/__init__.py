"""Rates, intervals and tests; pure functions."""
