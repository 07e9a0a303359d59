"""Full-text search on PostgreSQL, with the hits that SQLite's index gives.

PostgreSQL's own parser sees web addresses, numbers and hyphens where SQLite sees words. So texts
are cut into words as SQLite's tokenizer does it; that tokenizer itself cuts what is not ASCII.
The words of an entry are lexemes of an index, each with the letter of its column. Positions in such
an index end at 16,383, so an entry also keeps its words in their order, where phrases are found.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from relight.store.months import DividedConnection
from relight.store.sql import Connection

if TYPE_CHECKING:
    from relight.store.search_index import SearchTerm

TOKENIZER = "unicode61 remove_diacritics 2"
COLUMNS = ("words", "path", "tool")
# a lexeme must be shorter than 2 KB, and all of an entry shorter than 1 MB
LONGEST_WORD = 500
MOST_BYTES = 1_000_000
FUNCTIONS = r"""
create function listing_tokens(given text) returns tsvector language sql immutable parallel safe
as $$
    select coalesce(array_to_tsvector(array_agg(distinct left(word, 500))), '')
    from regexp_split_to_table(
        lower(regexp_replace(normalize(given, NFD), '[\u0300-\u036f]', '', 'g') collate "default"),
        '[^[:alnum:]]+'
    ) as word where word <> ''
$$;
"""
# in the place of SQLite's virtual tables
FULL_TEXT = {
    "listing_words": "create index listing_words on listing using gin (listing_tokens(words))",
    "search_words": """
        create table search_words (
            entry bigint primary key,
            tokens tsvector not null,
            words text collate "C", path text collate "C", tool text collate "C"
        );
        create index search_words_by_token on search_words using gin (tokens)
    """,
}
# ASCII letters and digits are words, other ASCII characters end them; the rest is SQLite's to say
RUN = re.compile(r"[0-9A-Za-z\x80-\U0010ffff]+")


def split_columns(
    texts: Sequence[tuple[str | None, str | None, str | None]],
) -> list[list[list[str]]]:
    """Return the words of each column of texts, in their order.

    >>> split_columns([("Don't panic", "src/Äpfel.py", None)])
    [[['don', 't', 'panic'], ['src', 'apfel', 'py'], []]]
    """
    runs = {
        column: RUN.findall(column)
        for text in texts
        for column in text
        if column is not None and not column.isascii()
    }
    foreign = {run for some in runs.values() for run in some if not run.isascii()}
    known = _split_runs(sorted(foreign)) if foreign else {}

    def split(column: str | None) -> list[str]:
        if column is None:
            return []
        if column in runs:
            found = (known.get(run, (run.lower(),)) for run in runs[column])
            return [word for some in found for word in some]
        return RUN.findall(column.lower())

    return [[_cut(split(column)) for column in text] for text in texts]


def _cut(words: list[str]) -> list[str]:
    """Return words that an index takes."""
    if max(map(len, words), default=0) <= LONGEST_WORD:
        return words
    return [word[:LONGEST_WORD] for word in words]


def _split_runs(runs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the words of texts in which no ASCII character ends a word, by SQLite's tokenizer."""
    found: list[list[tuple[int, str]]] = [[] for _ in runs]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        memory.execute(
            f"create virtual table texts using fts5 (run, content = '', tokenize = '{TOKENIZER}')"
        )
        memory.execute("create virtual table places using fts5vocab (texts, 'instance')")
        memory.execute("begin")
        memory.executemany("insert into texts (rowid, run) values (?, ?)", enumerate(runs))
        memory.execute("commit")
        for term, text, place in memory.execute("select term, doc, offset from places"):
            found[text].append((place, term))
    words = (tuple(word for _, word in sorted(some)) for some in found)
    return dict(zip(runs, words, strict=True))


def write_entries(
    database: Connection,
    entries: Iterable[tuple[int, str | None, str | None, str | None]],
) -> None:
    """Index entries: their numbers, words, paths and tool."""
    divided: DividedConnection = database  # type: ignore[assignment]
    rows = list(entries)
    columns = split_columns([row[1:] for row in rows])
    lines = (
        f"{number}\t{_write_tokens(some)}\t{_join(some[0])}\t{_join(some[1])}\t{_join(some[2])}\n"
        for (number, *_), some in zip(rows, columns, strict=True)
    )
    divided.copy("search_words", "entry, tokens, words, path, tool", lines)


def _write_tokens(columns: Sequence[Sequence[str]]) -> str:
    """Return the lexemes as a `tsvector` is written; no character of a word has a meaning there."""
    lexemes = [
        f"'{name[0]}/{word}'"
        for name, some in zip(COLUMNS, columns, strict=True)
        for word in dict.fromkeys(some)
    ]
    text = " ".join(lexemes)
    # no character has more than four bytes, and a lexeme has eight more
    if len(text) * 4 + len(lexemes) * 8 < MOST_BYTES:
        return text
    kept, size = [], 0
    for one in lexemes:
        size += len(one.encode()) + 6
        if size > MOST_BYTES:
            break
        kept.append(one)
    return " ".join(kept)


def _join(words: Sequence[str]) -> str:
    """Return words as a text in which a phrase has a space at each end, as `copy` reads it."""
    return f" {' '.join(words)} " if words else r"\N"


def write_match(terms: Sequence["SearchTerm"]) -> tuple[str, list[str]]:
    """Return the test of `search_words` that these terms make, and its values."""
    wanted = [_test(one) for one in terms if not one.is_excluded]
    excluded = [_test(one) for one in terms if one.is_excluded]
    test = " and ".join(one for one, _ in wanted)
    if excluded:
        test += f" and not ({' or '.join(one for one, _ in excluded)})"
    return test, [value for _, some in (*wanted, *excluded) for value in some]


def _test(term: "SearchTerm") -> tuple[str, list[str]]:
    columns = ("words", "path") if term.field == "words" else (term.field,)
    words = split_columns([(" ".join(term.words), None, None)])[0][0]
    if not words:
        return "1 = 0", []
    lexemes = " | ".join(
        f"({' & '.join(_write_lexemes(name[0], words, is_prefix=term.is_prefix))})"
        for name in columns
    )
    test, values = "tokens @@ cast(? as tsquery)", [lexemes]
    if len(words) > 1:
        test += f" and ({' or '.join(f'{name} like ?' for name in columns)})"
        values += [f"% {' '.join(words)}{'' if term.is_prefix else ' '}%"] * len(columns)
    return f"({test})", values


def _write_lexemes(column: str, words: Sequence[str], *, is_prefix: bool) -> list[str]:
    """Return words as lexemes of a query; in quotes, so that none is an operator."""
    last = len(words) - 1
    return [
        f"'{column}/{word}'{':*' if is_prefix and number == last else ''}"
        for number, word in enumerate(words)
    ]


def match_listing(parts: Sequence[str]) -> tuple[str, str]:
    """Return the test of `listing` that finds beginnings of words, and its value `:words`."""
    words = [
        word for some in split_columns([(one, None, None) for one in parts]) for word in some[0]
    ]
    test = "listing_tokens(listing.words) @@ cast(:words as tsquery)"
    return test, " & ".join(f"'{word}':*" for word in words)
