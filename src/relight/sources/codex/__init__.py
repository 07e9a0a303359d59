"""Codex' rollouts."""
