"""Tokens: an estimate for budgets, and the exact figures of an OpenAI response.

The estimate needs no vocabulary, shipped or fetched. A pattern splits text about as tokenizers do
and its matches are counted; against o200k it is within 13 % on prose in nine languages, code, logs
and JSON (characters ÷ 4 is off by up to 70 %), and 18 % low on base64.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from relight.model import MOST_TOKENS, Usage

# Tokenizers split camel case and digits by three, put the underscore before the word it begins
# and the line end after the punctuation it follows, and take escaped quotes with what follows; a
# single space belongs to the next word.
_PIECE = re.compile(
    r"_?[A-Z]?[a-z]{1,10}|[A-Z]{1,3}|[0-9]{1,3}|\n\s*|  +|\\?[^\w\s]{1,2}\n?"
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]{1,4}"
)
_EAST_ASIAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has.

    >>> estimate_tokens("The quick brown fox jumps over the lazy dog.")
    10
    >>> estimate_tokens('{"order_id": "#W2378156"}')
    10
    """
    count = len(_PIECE.findall(text))
    if not text.isascii():
        count -= len(_EAST_ASIAN.findall(text)) // 4  # four of their characters make three tokens
    return count


def estimate_messages(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return about how many tokens chat messages have as the JSON that is sent.

    Every provider renders messages in a shorter way, so a budget that holds here holds everywhere.
    """
    return estimate_tokens(json.dumps(messages, ensure_ascii=False)) if messages else 0


def read_openai_usage(usage: Mapping[str, Any]) -> Usage:
    """Return disjoint buckets from a response's figures, of the chat API or of Responses.

    >>> read_openai_usage({"prompt_tokens": 12, "completion_tokens": 3})
    Usage(input=12, cache_read=0, cache_write=0, output=3, cache_write_1h=None, reasoning=None)
    >>> read_openai_usage({"input_tokens": 12, "input_tokens_details": {"cached_tokens": 10}})
    Usage(input=2, cache_read=10, cache_write=0, output=None, cache_write_1h=None, reasoning=None)
    """
    is_chat = not usage.keys().isdisjoint(("prompt_tokens", "completion_tokens"))
    read, written = ("prompt", "completion") if is_chat else ("input", "output")
    inside, outside = (usage.get(f"{name}_tokens_details") for name in (read, written))
    inside = inside if isinstance(inside, Mapping) else {}
    outside = outside if isinstance(outside, Mapping) else {}
    return exclusive_usage(
        _number(usage.get(f"{read}_tokens")),
        _number(inside.get("cached_tokens")),
        _number(usage.get(f"{written}_tokens")),
        cache_write=_number(inside.get("cache_write_tokens")),
        reasoning=_number(outside.get("reasoning_tokens")),
    )


def exclusive_usage(
    prompt: int | None,
    cached: int | None,
    output: int | None,
    *,
    cache_write: int | None = None,
    reasoning: int | None = None,
) -> Usage:
    """Return disjoint buckets from the OpenAI convention, where the prompt includes cached tokens.

    >>> exclusive_usage(1200, 200, 34, reasoning=5)
    Usage(input=1000, cache_read=200, cache_write=0, output=34, cache_write_1h=None, reasoning=5)
    """
    if prompt is None:
        return Usage(output=output, reasoning=reasoning)
    cached, cache_write = cached or 0, cache_write or 0
    return Usage(
        input=max(prompt - cached - cache_write, 0),
        cache_read=cached,
        cache_write=cache_write,
        output=output,
        reasoning=reasoning,
    )


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MOST_TOKENS else None
