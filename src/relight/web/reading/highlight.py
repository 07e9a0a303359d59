"""Code with coloured words, in linear time.

The languages are in `data/languages.toml`. Pygments was tried: 12 KB of spaces, as hostile text may
have them, kept its lexers for C, Java and Python busy for 3 to 8 seconds.
"""

import re
from functools import cache, lru_cache

from markupsafe import Markup, escape
from msgspec import Struct

from relight.data import read_table
from relight.text import make_visible

MOST_CHARACTERS = 20_000


class Language(Struct, frozen=True, forbid_unknown_fields=True):
    """The comments, texts and keywords of a language."""

    names: tuple[str, ...]
    comment: tuple[str, ...] = ()
    block: tuple[str, str] | None = None
    quotes: tuple[str, ...] = ()
    long_quotes: tuple[str, ...] = ()
    keywords: str = ""


class Scanner(Struct, frozen=True):
    """The pattern of a language's words, and its keywords."""

    pattern: re.Pattern[str]
    keywords: frozenset[str]


@lru_cache(maxsize=256)
def highlight(code: str, language: str | None) -> Markup:
    """Return the code as HTML, with coloured words if its language is known.

    >>> highlight("if x: # why", "python")
    Markup('<span class="hk">if</span> x: <span class="hc"># why</span>')
    """
    shown = make_visible(code)
    name = (language or "").lower()
    if len(shown) > MOST_CHARACTERS:
        return escape(shown)
    if name in ("diff", "patch"):
        return Markup("\n".join(map(_colour_change, shown.split("\n"))))
    scanner = _read_scanners().get(name)
    return escape(shown) if scanner is None else _scan(shown, scanner)


def _scan(shown: str, scanner: Scanner) -> Markup:
    parts: list[str] = []
    last = 0
    for found in scanner.pattern.finditer(shown):
        kind, word = found.lastgroup, found[0]
        if kind == "word":
            is_keyword = word in scanner.keywords or word.lower() in scanner.keywords
            is_called = shown[found.end() : found.end() + 1] == "("
            kind = "hk" if is_keyword else "hf" if is_called else None
        if kind is not None:
            parts.append(escape(shown[last : found.start()]))
            parts.append(_wrap(word, kind))
            last = found.end()
    return Markup("".join([*parts, escape(shown[last:])]))


def _colour_change(line: str) -> str:
    kind = {"+": "hi", "-": "hd", "@": "hc"}.get(line[:1])
    return escape(line) if kind is None else _wrap(line, kind)


def _wrap(text: str, kind: str) -> str:
    # not by Markup's own format, which takes ten times as long
    return f'<span class="{kind}">{escape(text)}</span>'


@cache
def _read_scanners() -> dict[str, Scanner]:
    """Return the scanners of all languages, by each of their names."""
    table = read_table("languages.toml", dict[str, Language])
    made = [(language, _make_scanner(language)) for language in table.values()]
    return {name: scanner for language, scanner in made for name in language.names}


def _make_scanner(language: Language) -> Scanner:
    """Return a scanner in which every alternative ends where it must, so that none is tried twice.

    A text or comment that is not closed goes on to the end: a search for the end that fails would
    begin again at the next quote.
    """
    comments = [rf"(?<![\w$]){re.escape(begin)}[^\n]*" for begin in language.comment]
    if language.block:
        begin, end = map(re.escape, language.block)
        comments.append(rf"{begin}[\s\S]*?(?:{end}|\Z)")
    texts = [
        *(rf"{one}(?:\\[\s\S]|(?!{one})[^\\])*(?:{one}|\\?\Z)" for one in language.long_quotes),
        *(rf"{one}(?:\\.|[^{one}\\\n])*{one}?" for one in language.quotes),
    ]
    named = [("hc", comments), ("hs", texts), ("hn", [r"(?<!\w)\d[\w.]*"])]
    if "html" in language.names:
        named.append(("hk", [r"</?[\w:-]+|/?>"]))
    groups = [f"(?P<{name}>{'|'.join(kinds)})" for name, kinds in named if kinds]
    pattern = re.compile("|".join([*groups, r"(?P<word>[A-Za-z_]\w*)"]))
    return Scanner(pattern, frozenset(language.keywords.split()))
