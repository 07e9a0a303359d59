"""JSON that holds half a character, as JavaScript leaves it when it cuts a string."""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")

# an escaped surrogate without its other half
LONE_SURROGATE = re.compile(
    rb"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def decode_mended(decode: Callable[[bytes], T], line: bytes) -> T:
    """A record, also when it holds half a character, which is replaced."""
    try:
        return decode(line)
    except msgspec.DecodeError:
        mended = LONE_SURROGATE.sub(lambda found: b"\\ufffd" if found[1] else found[0], line)
        if mended == line:
            raise
        return decode(mended)
