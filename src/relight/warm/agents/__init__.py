"""Warm starts inside other agents: Claude Code's hook, Hermes' plugin, and their settings."""
