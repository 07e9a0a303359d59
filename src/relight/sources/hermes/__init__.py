"""Hermes Agent's database, logs, ledger and traces."""
