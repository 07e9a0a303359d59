"""Copilot CLI's sessions."""
