"""JSON with half a character, as JavaScript writes it after cutting a string.

Sources and model clients share it, so it stands below both.
"""

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
    """Return the decoded record; half a character in it is replaced."""
    try:
        return decode(line)
    except msgspec.DecodeError:
        mended = LONE_SURROGATE.sub(lambda found: b"\\ufffd" if found[1] else found[0], line)
        if mended == line:
            raise
        return decode(mended)
