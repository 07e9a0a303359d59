"""Search queries as people type them, and the places in a text that they match.

The same terms make the query of the index and the marks in a snippet. Any text is a query: nothing
a person types reaches the index as an operator.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from relight.errors import RelightError
from relight.store.derive.search_text import UNSPACED, clean_for_index
from relight.text import join_words, make_line, make_visible

MOST_TERMS = 64
# in all terms together: the index opens one list of places for each word of a phrase
MOST_WORDS = 256
LONGEST_QUERY = 20_000
# of a term in a message
NAMED_CHARACTERS = 60
SNIPPET_CHARACTERS = 160
# how much of a text before the first mark is shown
LEAD_CHARACTERS = 50
OPEN, SHUT = "⟦", "⟧"
Field = Literal["words", "path", "tool"]

# -"a phrase"  -path:src/app  "a phrase"  prefix*  --an-option
_TERM = re.compile(
    r'(?P<no>-(?!-))?(?:(?P<field>path|tool):)?(?:"(?P<phrase>[^"]*)"?|(?P<word>\S+))'
)
_WORD = re.compile(r"[^\W_]+")
_CJK = UNSPACED[1:-1]
# the edge of a word: each character of a script without spaces is a word
_BEFORE, _AFTER = rf"(?<![^\W_{_CJK}])", rf"(?![^\W_{_CJK}])"
_HELP = 'write words, "a phrase", prefix*, -without, path:… or tool:…'


class QueryError(RelightError):
    """A query that no text can match."""


class Term(Struct, frozen=True):
    """One condition: a word, phrase or beginning that a text must have, or must not."""

    text: str
    words: tuple[str, ...]
    field: Field = "words"
    is_prefix: bool = False
    is_excluded: bool = False

    def describe(self) -> str:
        """Return the term as it is typed, the beginning of a long one."""
        text = make_line(self.text, NAMED_CHARACTERS)
        quoted = f'"{text}"' if " " in text else text
        end = "*" if self.is_prefix else ""
        return f"{'' if self.field == 'words' else f'{self.field}:'}{quoted}{end}"


class SearchText(Struct, frozen=True):
    """A text as the index holds it: its words, and of a call its paths and tool."""

    words: str
    paths: str = ""
    tool: str | None = None


def parse_query(query: str) -> list[Term]:
    """Return the terms of a query; raise if no text can match them."""
    if len(query) > LONGEST_QUERY:
        raise QueryError(
            f"the query has {len(query):,} characters, at most {LONGEST_QUERY:,} can be searched",
            "leave some out",
        )
    terms = list(dict.fromkeys(filter(None, map(_make_term, _TERM.finditer(query)))))
    if len(terms) > MOST_TERMS:
        raise QueryError(
            f"the query has {len(terms):,} words, at most {MOST_TERMS} can be searched at once",
            'leave some out, or put words that follow one another into "quotes"',
        )
    if (words := sum(len(one.words) for one in terms)) > MOST_WORDS:
        raise QueryError(
            f"the query has {words:,} words, at most {MOST_WORDS} can be searched at once",
            "leave some out",
        )
    wanted = {(one.field, one.words) for one in terms if not one.is_excluded}
    if not wanted:
        raise QueryError(_explain_nothing(query, terms), _HELP)
    for one in terms:
        if one.is_excluded and (one.field, one.words) in wanted:
            raise QueryError(
                f"nothing can match: {one.describe()!r} is both wanted and excluded",
                "leave one of them out",
            )
    return terms


def _explain_nothing(query: str, terms: Sequence[Term]) -> str:
    if terms:
        named = join_words([f"-{one.describe()}" for one in terms[:3]])
        return f"the query only excludes ({named}): name a word that texts must have"
    if not query.strip():
        return "the query is empty"
    return "the query has no letters or digits, and nothing else is in the index"


def _make_term(match: re.Match[str]) -> Term | None:
    """Return the term of a match; None if it has no letters and digits."""
    text = match["phrase"] if match["word"] is None else match["word"]
    is_prefix = match["word"] is not None and text.endswith("*")
    text = make_visible(text.strip().rstrip("*") if is_prefix else text.strip())
    words = tuple(_WORD.findall(fold(clean_for_index(text))))
    if not words:
        return None
    field: Field = match["field"] or "words"  # type: ignore[assignment]
    return Term(text, words, field, is_prefix, match["no"] is not None)


def fold(text: str) -> str:
    """Return the text in lower case without diacritics, each character at its place.

    >>> fold("Café"), fold("naïve") == "naive"
    ('cafe', True)
    """
    return text.lower() if text.isascii() else text.translate(_FOLDS)


class _Folds(dict[int, str]):
    """The folded forms of characters, each made when it is first seen."""

    def __missing__(self, code: int) -> str:
        one = chr(code)
        folded = unicodedata.normalize("NFD", one)[0].lower()
        self[code] = folded if len(folded) == 1 else one
        return self[code]


_FOLDS = _Folds()


class Matcher:
    """Finds the terms of a query in texts from the tape, as the index finds them."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._terms = [(term, re.compile(_write_source(term))) for term in terms]
        wanted = [one for one in terms if not one.is_excluded and one.field != "tool"]
        self._plain = [word for one in wanted for word in one.words if word.isascii()]
        self._marks = re.compile("|".join(map(_write_source, wanted))) if wanted else None

    def may_match(self, text: str) -> bool:
        """False if a call's arguments, as JSON, lack a word; a quick test before parsing them."""
        if not text.isascii() or "\\u" in text:
            return True
        folded = text.lower()
        return all(word in folded for word in self._plain)

    def matches(self, text: SearchText) -> bool:
        """True if a text has all wanted terms and none of the excluded ones."""
        words, paths = fold(_compose(text.words)), fold(_compose(text.paths))
        tool = fold(text.tool or "")
        for term, pattern in self._terms:
            places = {"words": (words, paths), "path": (paths,), "tool": (tool,)}[term.field]
            if any(map(pattern.search, places)) == term.is_excluded:
                return False
        return True

    def write_snippet(self, text: str) -> str:
        """Return a line of the text around the first places that match, marked by ⟦ and ⟧."""
        text = _compose(" ".join(text.replace(OPEN, "[").replace(SHUT, "]").split()))
        spans = self._find_spans(text)
        start = max((spans[0][0] if spans else 0) - LEAD_CHARACTERS, 0)
        if start:
            blank = text.find(" ", start, spans[0][0])
            start = blank + 1 if blank >= 0 else start
        end = min(start + SNIPPET_CHARACTERS, len(text))
        if spans:
            end = max(end, min(spans[0][1], start + 2 * SNIPPET_CHARACTERS))
        pieces, done = [], start
        for first, last in spans:
            if first >= end:
                break
            last = min(last, end)
            pieces += [make_visible(text[done:first]), OPEN, make_visible(text[first:last]), SHUT]
            done = last
        pieces.append(make_visible(text[done:end]))
        return f"{'…' if start else ''}{''.join(pieces)}{'…' if end < len(text) else ''}"

    def _find_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the first places of the terms, wherever words of them stand together."""
        if self._marks is None:
            return []
        return [match.span() for match in self._marks.finditer(fold(text))]


class SnippetPart(Struct, frozen=True):
    """A stretch of a snippet, which matched or did not."""

    text: str
    is_hit: bool


def split_snippet(snippet: str) -> list[SnippetPart]:
    """Return a snippet in parts, without its marks.

    >>> [(part.text, part.is_hit) for part in split_snippet("a ⟦b⟧ c")]
    [('a ', False), ('b', True), (' c', False)]
    """
    parts = re.split(f"[{OPEN}{SHUT}]", snippet)
    return [SnippetPart(text, number % 2 == 1) for number, text in enumerate(parts) if text]


def _compose(text: str) -> str:
    """Return the text in its composed form: a letter and its accent are one character."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _write_source(term: Term) -> str:
    """The pattern of a term in a folded text.

    Between two words at least one sign shows that they end there. The test of an edge is for the
    first and the last word only: compiling it for each word of a long phrase took minutes.
    """
    parts, before = [], ""
    for word in term.words:
        if before:
            parts.append(r"[\W_]*" if _is_unspaced(before) or _is_unspaced(word) else r"[\W_]+")
        elif not _is_unspaced(word):
            parts.append(_BEFORE)
        parts.append(word)
        before = word
    is_open = term.is_prefix or _is_unspaced(before)
    return "".join(parts) + ("" if is_open else _AFTER)


def _is_unspaced(word: str) -> bool:
    return re.match(UNSPACED, word) is not None
