"""Relight: the flight recorder and warm start for AI agents."""

__version__ = "0.1.0"
