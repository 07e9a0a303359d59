"""Chat files: one session a line, as OpenAI chat messages."""
