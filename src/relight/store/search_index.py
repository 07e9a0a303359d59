"""The full-text index of sessions: SQLite's FTS5, and `postgres_search` on the other engine.

The index is written with the tape (`record`), filled for tapes of older stores in portions, and
made again by a rebuild. It keeps no texts. SQLite before 3.43 deletes from such an index only by
the text itself, so a tape's entries are deleted before the tape is. If its texts are not those that
were indexed, after a reader has changed, the whole index is cleared and filled again.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from relight.names import blake2b
from relight.store import Store
from relight.store.sql import (
    PART_SHIFT,
    Connection,
    find_among,
    find_first,
    insert_into,
    read,
    set_meta,
)

if TYPE_CHECKING:
    from relight.store.derive.search_text import TextRow
    from relight.store.queries.filters import Filter

# an entry's number ends in its kind
KIND_BITS = 2
MOST_TEXTS = 1 << (PART_SHIFT - KIND_BITS)
BELOW = "search_below"
# so few parts of the tape are quickly read again
FEW_PARTS = 100
WRITE = "insert into search_words (rowid, words, path, tool) values (?, ?, ?, ?)"
DELETE = (
    "insert into search_words (search_words, rowid, words, path, tool)"
    " values ('delete', ?, ?, ?, ?)"
)

# the number of an entry, its words, paths and tool
Entry: TypeAlias = tuple[int, str | None, str | None, str | None]
# the id of a part of the tape, the session that owns it, and its texts
PartTexts: TypeAlias = tuple[int, int, Sequence["TextRow"]]
# gives the texts of a part of the tape again
DeriveTexts = Callable[[int], Sequence["TextRow"]]


class SearchTerm(Protocol):
    """One condition of a query: words that a text must have in a row, or must not have."""

    @property
    def words(self) -> tuple[str, ...]: ...
    @property
    def field(self) -> str: ...
    @property
    def is_prefix(self) -> bool: ...
    @property
    def is_excluded(self) -> bool: ...


class SearchPartRow(Struct, frozen=True):
    """A row of `search_part`: the entries of one session in one part of the tape."""

    tape_part_id: int
    session_id: int
    texts: int
    checksum: int


class IndexedPart(SearchPartRow, frozen=True):
    """The same as it was indexed, at its place."""

    place: int


class MissingPart(Struct, frozen=True):
    """A part of the tape that is not in the index yet."""

    id: int
    session_id: int
    raw_bytes: int


def add_texts(database: Connection, parts: Iterable[PartTexts]) -> None:
    """Index the texts of parts of the tape."""
    entries: list[Entry] = []
    statement = insert_into("search_part", SearchPartRow, "returning place")
    for tape_part_id, owner_id, texts in parts:
        for session_id, some in _divide(texts) or [(owner_id, [])]:
            row = SearchPartRow(tape_part_id, session_id, len(some), _sum(some))
            (place,) = database.execute(statement, astuple(row)).fetchone()
            entries += _number(place, some)
    if entries:
        _write_entries(database, entries)


def _write_entries(database: Connection, entries: Iterable[Entry]) -> None:
    if isinstance(database, sqlite3.Connection):
        database.executemany(WRITE, entries)
    else:
        from relight.store.postgres_search import write_entries

        write_entries(database, entries)


def find_indexed(database: Connection, parts: Collection[int]) -> set[int]:
    """Return those of these parts of the tape that are in the index."""
    statement = "select tape_part_id from search_part where tape_part_id in ({marks})"
    return find_among(database, statement, parts)


def _divide(texts: Sequence["TextRow"]) -> list[tuple[int, list["TextRow"]]]:
    """Return the texts by session, in as many groups as their numbers need."""
    return [
        (session_id, some[start : start + MOST_TEXTS])
        for session_id, some in _gather(texts).items()
        for start in range(0, len(some), MOST_TEXTS)
    ]


def _number(place: int, texts: Sequence["TextRow"]) -> Iterator[Entry]:
    for number, text in enumerate(texts):
        entry = place << PART_SHIFT | number << KIND_BITS | text.kind
        yield entry, text.words, text.path, text.tool


def _sum(texts: Sequence["TextRow"]) -> int:
    digest = blake2b(msgspec.msgpack.encode(texts), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def remove_sessions(database: Connection, sessions: Collection[int], derive: DeriveTexts) -> None:
    """Delete the entries of these sessions' tapes, which must still be there.

    If the tapes are most of the store, the index is cleared, and later imports fill it with the
    rest: deleting an entry costs as much as writing it.
    """
    parts = "select id from tape_part where session_id in ({marks})"
    remove_parts(database, find_among(database, parts, sessions), derive)


def remove_parts(database: Connection, parts: Collection[int], derive: DeriveTexts) -> None:
    """Delete the entries of these parts of the tape, which must still be there."""
    (count,) = database.execute("select count(*) from tape_part").fetchone()
    is_most = len(parts) > max(count // 2, FEW_PARTS)
    if is_most or not all(_remove_part(database, part, derive) for part in parts):
        clear(database)


def _remove_part(database: Connection, tape_part_id: int, derive: DeriveTexts) -> bool:
    """Delete the entries of a part of the tape; False if its texts are not those indexed."""
    if not isinstance(database, sqlite3.Connection):
        database.execute(
            f"delete from search_words where entry >> {PART_SHIFT} in"
            " (select place from search_part where tape_part_id = ?)",
            (tape_part_id,),
        )
        database.execute("delete from search_part where tape_part_id = ?", (tape_part_id,))
        return True
    statement = "select * from search_part where tape_part_id = ? order by place"
    parts = read(database, IndexedPart, statement, (tape_part_id,))
    if any(part.texts for part in parts):
        found = _gather(derive(tape_part_id))
        rest = {session_id: iter(some) for session_id, some in found.items()}
        for part in parts:
            some = list(islice(rest.get(part.session_id, iter(())), part.texts))
            if _sum(some) != part.checksum:
                return False
            database.executemany(DELETE, _number(part.place, some))
    database.execute("delete from search_part where tape_part_id = ?", (tape_part_id,))
    return True


def _gather(texts: Sequence["TextRow"]) -> dict[int, list["TextRow"]]:
    by_session: dict[int, list[TextRow]] = {}
    for text in texts:
        by_session.setdefault(text.session_id, []).append(text)
    return by_session


def join_parts(database: Connection, first: int, others: Sequence[int]) -> None:
    """Give the entries of joined parts of the tape to the first: the texts follow one another."""
    statement = "update search_part set tape_part_id = ? where tape_part_id = ?"
    database.executemany(statement, [(first, one) for one in others])


def clear(database: Connection, *, fills: bool = True) -> None:
    """Delete all entries; with `fills`, later imports index the tapes again."""
    if isinstance(database, sqlite3.Connection):
        database.execute("insert into search_words (search_words) values ('delete-all')")
    else:
        database.execute("delete from search_words")
    database.execute("delete from search_part")
    newest = find_first(database, "select max(id) from tape_part")
    write_below(database, newest + 1 if fills and newest is not None else None)


def skip_rest(database: Connection) -> None:
    """Note that the parts of the tape which could not be read now have no entries."""
    database.execute(
        "insert into search_part (tape_part_id, session_id, texts, checksum)"
        " select id, session_id, 0, ? from tape_part where not exists"
        " (select 1 from search_part where tape_part_id = tape_part.id)",
        (_sum([]),),
    )


def merge(database: Connection) -> None:
    """Merge the parts of the search indexes: until then, deleted words are still in the file."""
    if isinstance(database, sqlite3.Connection):
        for name in ("search_words", "listing_words"):
            database.execute(f"insert into {name} ({name}) values ('optimize')")


def write_below(database: Connection, below: int | None) -> None:
    """Note that parts of the tape below this id are not indexed yet; None: all are."""
    set_meta(database, BELOW, None if below is None else str(below))


def read_below(store: Store) -> int | None:
    """Return the id below which parts of the tape are not indexed yet; None if all are."""
    below = store.find_meta(BELOW)
    return None if below is None else int(below)


def find_newest_missing(database: Connection) -> MissingPart | None:
    """Return the newest part of the tape that is not in the index yet."""
    rows = read(
        database,
        MissingPart,
        "select * from tape_part where id <"
        " (select cast(value as bigint) from meta where key = ?) order by id desc limit 1",
        (BELOW,),
    )
    return rows[0] if rows else None


class FoundTexts(Struct, frozen=True):
    """The number of texts of one kind in a session that match a query."""

    session_id: int
    kind: int
    texts: int
    started_at: int | None


def find_matching(store: Store, terms: Sequence[SearchTerm], chosen: "Filter") -> list[FoundTexts]:
    """Return the sessions with texts that match, and how many of each kind."""
    from relight.store.queries.filters import where

    number, test, given = _write_test(store, terms)
    limit, values = where(chosen)
    within = f"where session.id in (select session_id from session_day {limit})" if limit else ""
    return store.read(
        FoundTexts,
        f"""
        select search_part.session_id, kind, sum(found) as texts, started_at
        from (
            select {number} >> {PART_SHIFT} as place, {number} & 3 as kind, count(*) as found
            from search_words where {test}
            group by {number} >> {PART_SHIFT}, {number} & 3
        ) as matching
        join search_part on search_part.place = matching.place
        join session on session.id = search_part.session_id
        {within}
        group by search_part.session_id, kind, started_at
        """,
        (*given, *values),
    )


def has_match(store: Store, terms: Sequence[SearchTerm]) -> bool:
    """True if any text matches."""
    number, test, values = _write_test(store, terms)
    # the words alone are not narrowed to what a person sees
    found = f"select {number} >> {PART_SHIFT} from search_words where {test}"
    return bool(store.query(f"select 1 from search_part where place in ({found}) limit 1", values))


def _write_test(store: Store, terms: Sequence[SearchTerm]) -> tuple[str, str, list[str]]:
    """Return the column of an entry's number, the test that terms make, and its values."""
    if store.engine == "sqlite":
        return "rowid", "search_words match ?", [write_match(terms)]
    from relight.store import postgres_search

    return "entry", *postgres_search.write_match(terms)


def write_match(terms: Sequence[SearchTerm]) -> str:
    """Return the terms as a query of FTS5, each in quotes."""
    wanted = " AND ".join(_write_term(one) for one in terms if not one.is_excluded)
    excluded = " OR ".join(_write_term(one) for one in terms if one.is_excluded)
    return f"({wanted}) NOT ({excluded})" if excluded else wanted


def _write_term(term: SearchTerm) -> str:
    columns = "{words path}" if term.field == "words" else term.field
    return f'{columns} : "{" ".join(term.words)}"{" *" if term.is_prefix else ""}'


def match_listing(store: Store, parts: Sequence[str]) -> tuple[str, str]:
    """Return the test of `listing` that finds beginnings of words, and its value `:words`."""
    if store.engine == "sqlite":
        found = "select rowid from listing_words where listing_words match :words"
        return f"listing.root_id in ({found})", " AND ".join(f'"{part}"*' for part in parts)
    from relight.store import postgres_search

    return postgres_search.match_listing(parts)


def find_missing_share(store: Store) -> float:
    """Return the share of the tape that is not in the index yet."""
    below = read_below(store)
    if below is None:
        return 0.0
    ((missing, total),) = store.query(
        "select coalesce(sum(case when id < ? then raw_bytes else 0 end), 0),"
        " coalesce(sum(raw_bytes), 0) from tape_part",
        (below,),
    )
    return float(missing / total) if total else 0.0
