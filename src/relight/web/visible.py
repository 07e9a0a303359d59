"""Text from sessions made harmless to look at: nothing in it moves, hides or turns anything around.

Escaping for HTML is the template's business; this is about what escaping leaves as it is.
"""

import re

SHOWN_CHARACTERS = 4000
# Controls but tab and newline, marks that turn the direction of text, characters without a width
# that hide words, and what no document may hold. Joiners stay: scripts and emoji need them.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def make_visible(text: object) -> str:
    """The text with every character that acts unseen shown as a picture or by its number.

    >>> make_visible("a\\x1b[31mred\\u202e")
    'a␛[31mred‹202E›'
    """
    return UNSEEN.sub(_show_character, str(text).replace("\r\n", "\n"))


def _show_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF):
        return "\N{REPLACEMENT CHARACTER}"
    return f"‹{code:04X}›"


def make_line(text: object, limit: int = 200) -> str:
    """The text on one line of at most so many characters.

    >>> make_line("one\\n  two", 5)
    'one …'
    """
    # no more than is needed of a text that may be huge
    words = " ".join(make_visible(str(text)[: limit * 8]).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"


def cut_text(text: str, limit: int = SHOWN_CHARACTERS) -> tuple[str, int]:
    """The beginning of a text, made visible, and how many characters are left out."""
    return make_visible(text[:limit]), max(len(text) - limit, 0)
