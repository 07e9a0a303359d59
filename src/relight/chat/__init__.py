"""Chat messages as every API has them: validity, tokens, streams, usage, shortening, similarity."""
