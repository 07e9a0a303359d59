"""The text of web pages, read in one pass.

A page is a stranger's text. Every step of the pass starts where the last one ended, so that the
work grows as the page does, whatever is left unclosed. What is unclosed at the end of the page is
dropped, as browsers do.
"""

import codecs
import html
import re
from collections.abc import Callable

from msgspec import Struct

SILENT = {"script", "style", "noscript", "template", "svg"}
BREAKING = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section"}
# encodings that Python knows and no page uses; some of them take forever
NO_CHARSETS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
# the pieces that are read between two checks, and the characters of text that are taken
PIECES = 1000
TEXT_CHARS = 1_000_000

# No step goes back: each quantifier is possessive, and whatever is unclosed reaches to the end.
_PIECE = re.compile(
    r"""
    (?P<text>[^<]++)
  | <(?P<close>/?)(?P<tag>[A-Za-z][^\s/>]*+)
    (?>(?:[^>="']++ | ["'] | =\s*+(?:"[^"]*+(?:"|\Z) | '[^']*+(?:'|\Z))?)*)
    (?:>|\Z)
  | <!--(?:-?>|(?s:.*?)(?:--!?>|\Z))
  | <[!?/][^>]*+(?:>|\Z)
  | (?P<sign><)
    """,
    re.VERBOSE,
)
# inside these, nothing is markup but their own end
_RAW = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}
# Python refuses numbers of thousands of digits; no character has a number of more than seven
_NUMBER = re.compile(r"&#([0-9]++)")


class PageText(Struct, frozen=True):
    """The text of a page, or its beginning."""

    text: str
    is_cut: bool = False


def decode_page(data: bytes, charset: str | None) -> str:
    """Return a page as text; UTF-8 if it names no valid charset."""
    try:
        name = codecs.lookup(charset or "utf-8").name
        return data.decode("utf-8" if name in NO_CHARSETS else name, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def read_html(page: str, check: Callable[[], None] = lambda: None) -> PageText:
    """Return the text of a page, without its markup, cut after `TEXT_CHARS` characters.

    `check` is called again and again, and ends the reading if it raises.

    >>> read_html("<style>p {}</style><p>Hello <b>you</b></p>").text
    'Hello you'
    """
    parts: list[str] = []
    position, silent, count, room = 0, 0, 0, TEXT_CHARS
    while room >= 0 and (found := _PIECE.match(page, position)):
        position = found.end()
        count += 1
        if count % PIECES == 0:
            check()
        kind = found.lastgroup
        if kind == "tag":
            tag = found["tag"].lower()
            if tag in BREAKING and not found["close"]:
                parts.append("\n")
            if tag in SILENT and not page.endswith("/>", 0, position):
                silent = max(silent + (-1 if found["close"] else 1), 0)
                if tag in _RAW and not found["close"]:
                    end = _RAW[tag].search(page, position)
                    position = end.start() if end else len(page)
        elif kind is not None and not silent:
            parts.append(found[0])
            room -= len(found[0])
    text = html.unescape(_NUMBER.sub(_shorten, "".join(parts)[:TEXT_CHARS]))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return PageText("\n".join(line for line in lines if line), room < 0)


def _shorten(found: "re.Match[str]") -> str:
    digits = found[1].lstrip("0") or "0"
    return f"&#{digits}" if len(digits) <= 7 else "&#9999999"
