"""Tokens as an OpenAI answer tells them, in disjoint buckets."""

from collections.abc import Mapping
from typing import Any

from relight.model import Usage


def read_openai_usage(usage: Mapping[str, Any]) -> Usage:
    """Disjoint buckets from an answer's figures, where the prompt includes what was cached.

    >>> read_openai_usage({"prompt_tokens": 12, "completion_tokens": 3})
    Usage(input=12, cache_read=0, cache_write=0, output=3, cache_write_1h=None, reasoning=None)
    """
    prompt = _number(usage.get("prompt_tokens", usage.get("input_tokens")))
    output = _number(usage.get("completion_tokens", usage.get("output_tokens")))
    inside, outside = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    inside = inside if isinstance(inside, Mapping) else {}
    outside = outside if isinstance(outside, Mapping) else {}
    reasoning = _number(outside.get("reasoning_tokens"))
    if prompt is None:
        return Usage(output=output, reasoning=reasoning)
    cached = _number(inside.get("cached_tokens")) or 0
    written = _number(inside.get("cache_write_tokens")) or 0
    return Usage(
        input=max(prompt - cached - written, 0),
        cache_read=cached,
        cache_write=written,
        output=output,
        reasoning=reasoning,
    )


def _number(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None  # type: ignore[return-value]
