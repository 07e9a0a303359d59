"""Migrations, retention and the write-ahead log."""
