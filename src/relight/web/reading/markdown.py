"""Answers as Markdown: no raw HTML, no images, links only to the web and to mail."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from relight.text import make_visible
from relight.web.reading.highlight import highlight

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# longer texts stay plain: the parser needs quadratic time for some hostile texts
MOST_CHARACTERS = 16_000
SAFE_LINK = re.compile(r"(https?://|mailto:)[^\s\x00-\x20]+", re.IGNORECASE)
# the options of a token's renderer, as the parser calls it
Rest = Any


@lru_cache(maxsize=256)
def render_markdown(text: str) -> Markup:
    """Return a text as HTML: Markdown up to 16,000 characters, a longer one as it is.

    >>> render_markdown("**so** <b>it</b> [is](javascript:alert)")
    Markup('<p><strong>so</strong> &lt;b&gt;it&lt;/b&gt; is (javascript:alert)</p>\\n')
    """
    shown = make_visible(text)
    if len(shown) > MOST_CHARACTERS:
        return Markup('<div class="words">{}</div>').format(shown)
    # once more: Markdown decodes entities, which may name hidden characters
    return Markup(make_visible(_make_parser().render(shown)))


def is_marked(text: str) -> bool:
    """True if a text has a block of code, and so is meant as Markdown.

    >>> is_marked("see:\\n```py\\nprint()\\n```"), is_marked("# no heading, a pasted comment")
    (True, False)
    """
    return text.startswith("```") or "\n```" in text


@lru_cache(maxsize=1)
def _make_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 12})
    parser.enable(["table", "strikethrough"])
    # links are judged when they are rendered: what leads nowhere is still text to read
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    for rule in (heading_open, heading_close, link_open, link_close, image, fence, code_block):
        parser.add_render_rule(rule.__name__, rule)
    for name in ("th_open", "td_open"):
        parser.add_render_rule(name, cell_open)
    return parser


# The parser calls these as methods of its renderer. Headings of an answer are no headings of the
# page, so they are paragraphs.


def heading_open(_: object, tokens: Sequence["Token"], at: int, *rest: Rest) -> str:
    return f'<p class="title {tokens[at].tag}">'


def heading_close(*_: Rest) -> str:
    return "</p>\n"


def cell_open(_: object, tokens: Sequence["Token"], at: int, *rest: Rest) -> str:
    """A cell without the style that the parser gives it: pages contain no styles."""
    is_right = "right" in str(tokens[at].attrs.get("style", ""))
    return f'<{tokens[at].tag} class="n">' if is_right else f"<{tokens[at].tag}>"


def link_open(_: object, tokens: Sequence["Token"], at: int, *rest: Rest) -> str:
    address = str(tokens[at].attrs.get("href", ""))
    if not SAFE_LINK.fullmatch(address):
        return ""
    return f'<a href="{escape(address)}" rel="noopener noreferrer" target="_blank">'


def link_close(_: object, tokens: Sequence["Token"], at: int, *rest: Rest) -> str:
    opened = _find_opening(tokens, at)
    address = str(tokens[opened].attrs.get("href", ""))
    if SAFE_LINK.fullmatch(address):
        return "</a>"
    words = "".join(one.content for one in tokens[opened + 1 : at])
    return "" if words == address or not address else f" ({escape(address)})"


def _find_opening(tokens: Sequence["Token"], at: int) -> int:
    """Return the place where the link that is closed here was opened; links do not nest."""
    while tokens[at].type != "link_open":
        at -= 1
    return at


def image(_: object, tokens: Sequence["Token"], at: int, *rest: Rest) -> str:
    """An image is not loaded: its words and its address are shown."""
    address = str(tokens[at].attrs.get("src", ""))
    return f"[image: {escape(tokens[at].content)}] ({escape(address[:300])})"


def fence(_: object, tokens: Sequence["Token"], at: int, *rest: Rest) -> str:
    language = (tokens[at].info.split() or [""])[0]
    return _write_code(tokens[at].content, language)


def code_block(_: object, tokens: Sequence["Token"], at: int, *rest: Rest) -> str:
    return _write_code(tokens[at].content, None)


def _write_code(code: str, language: str | None) -> str:
    return f'<pre class="code">{highlight(code.removesuffix(chr(10)), language)}</pre>\n'
