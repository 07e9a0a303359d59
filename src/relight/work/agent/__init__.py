"""A small agent: a model, a few tools, and a record of all it does."""
