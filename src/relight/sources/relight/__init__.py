"""Relight's own events, as the recorder writes them."""
